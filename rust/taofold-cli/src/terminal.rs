//! Asks the user at the terminal for decisions and answers.

use std::io::{IsTerminal, Write};

use taofold::runtime::control::{Approval, Decision};

use crate::output::say;

/// Returns true if a user can be asked.
pub(crate) fn is_here() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn line(prompt: &str) -> Option<String> {
    let mut error = std::io::stderr();
    write!(error, "{prompt}").ok()?;
    error.flush().ok()?;
    let mut line = String::new();
    let count = std::io::stdin().read_line(&mut line).ok()?;
    (count > 0).then(|| line.trim().to_owned())
}

/// Returns the user's decision; `None` leaves the question open.
pub(crate) fn ask(approval: &Approval) -> Option<Decision> {
    let decision = |verdict: &str, reason: String| Decision {
        verdict: verdict.to_owned(),
        reason,
        ..Decision::default()
    };
    if approval.wants_text() {
        say(&approval.question);
        let answer = line("your answer (empty: later): ").filter(|it| !it.is_empty())?;
        return Some(Decision {
            verdict: "allow".to_owned(),
            answer: Some(answer),
            ..Decision::default()
        });
    }
    let asked = &approval.asked;
    say(&format!(
        "\n{} wants to: {}\n{} (tier {})",
        approval.action.tool, asked.preview, asked.reason, asked.tier
    ));
    let words = if approval.question.is_empty() {
        "[a]llow, [d]eny, or later (empty)? "
    } else {
        "not [d]one: [a]llow; it is done: [x]; [d]eny, or later (empty)? "
    };
    match line(words)?.to_lowercase().as_str() {
        "a" | "allow" | "y" | "yes" => Some(decision("allow", String::new())),
        "d" | "deny" | "n" | "no" => {
            let reason = line("why? ").unwrap_or_default();
            Some(decision("deny", reason))
        }
        "x" | "done" if !approval.question.is_empty() => Some(decision("done", String::new())),
        _ => None,
    }
}

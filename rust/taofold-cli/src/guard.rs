//! Commands for users only: a process that an agent started must not call them.
//!
//! An uncontained command or MCP server of an agent has the rights of the user. Without this guard
//! it could approve its own calls.

use std::path::Path;

use crate::arguments::{Approvals, Command, Runs};
use crate::output::Failure;

const MARK: &str = "TAOFOLD_STARTED_BY";

/// Permits a command that only reads or starts new work, and any command of a user.
pub(crate) fn refuse(command: &Command) -> Result<(), Failure> {
    let allowed = match command {
        Command::Run(_) | Command::Check(_) => true,
        Command::Runs(verb) => matches!(
            verb,
            Runs::List { .. }
                | Runs::Show { .. }
                | Runs::Log { .. }
                | Runs::Export { .. }
                | Runs::Replay { .. }
        ),
        Command::Approvals(verb) => matches!(verb, Approvals::List { .. }),
    };
    match started_by() {
        Some(by) if !allowed => Err(Failure::unreached(format!(
            "a process that an agent started ({by}) may not call this: a person does that, at a \
             terminal"
        ))),
        _ => Ok(()),
    }
}

/// Returns the tool through which an agent started this process or an ancestor.
fn started_by() -> Option<String> {
    // A command can clear its own environment, but not that of its ancestors.
    let mut process = "self".to_owned();
    if let Some(mark) = std::env::var_os(MARK) {
        return Some(mark.to_string_lossy().into_owned());
    }
    loop {
        let folder = Path::new("/proc").join(&process);
        let environment = std::fs::read(folder.join("environ")).ok()?;
        let start = format!("{MARK}=");
        let marks = environment.split(|byte| *byte == 0);
        let mark = marks
            .filter_map(|variable| variable.strip_prefix(start.as_bytes()))
            .find(|mark| !mark.is_empty());
        if let Some(mark) = mark {
            return Some(String::from_utf8_lossy(mark).into_owned());
        }
        let status = std::fs::read_to_string(folder.join("stat")).ok()?;
        // The preceding name may contain any characters.
        let (_, fields) = status.rsplit_once(')')?;
        let parent = fields.split_whitespace().nth(1)?;
        if matches!(parent, "0" | "1") {
            return None;
        }
        process = parent.to_owned();
    }
}

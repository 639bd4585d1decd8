//! The output of commands and their exit codes.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use taofold::errors::{ConfigError, Error, LogError};
use taofold::log::RunRow;
use taofold::runtime::control::{Approval, ControlError};
use taofold::state::RunState;

/// The exit code if the goal was not reached.
pub(crate) const UNREACHED: u8 = 1;
/// The exit code for usage and configuration errors.
pub(crate) const USAGE: u8 = 2;
/// The exit code if the run waits for an approval or an answer.
const WAITING: u8 = 3;
/// The exit code after an interrupt.
pub(crate) const INTERRUPTED: u8 = 130;

/// An error that ends a command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) code: ExitCode,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: ExitCode::from(USAGE),
        }
    }

    pub(crate) fn unreached(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: ExitCode::from(UNREACHED),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Conflict { .. } => Self::unreached(error.to_string()),
            _ => Self::usage(error.to_string()),
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Log(error) => error.into(),
            other => Self::unreached(other.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Log(error) => error.into(),
            Error::Config(error) => error.into(),
            other => Self::unreached(other.to_string()),
        }
    }
}

/// Returns text without terminal control sequences.
fn visible(text: &str) -> String {
    let kept = |it: char| !it.is_control() || it == '\n' || it == '\t';
    text.chars()
        .map(|it| if kept(it) { it } else { '\u{fffd}' })
        .collect()
}

/// Prints a line of prose to standard error.
pub(crate) fn say(text: &str) {
    // A failed write cannot be reported.
    let _ = writeln!(std::io::stderr(), "{}", visible(text));
}

/// Prints the result to standard output: unchanged, or without control characters on a terminal.
pub(crate) fn give(text: &str) {
    let mut out = std::io::stdout();
    let text = if out.is_terminal() {
        visible(text)
    } else {
        text.to_owned()
    };
    let _ = writeln!(out, "{text}");
}

/// Prints the result as JSON.
pub(crate) fn give_json(value: &Value) {
    give(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Returns the exit code of a run in this state.
pub(crate) fn code_of(state: &RunState) -> ExitCode {
    match state.status.name() {
        "waiting" => ExitCode::from(WAITING),
        "cancelled" => ExitCode::from(INTERRUPTED),
        _ if state.success => ExitCode::SUCCESS,
        _ => ExitCode::from(UNREACHED),
    }
}

/// Returns milliseconds since the epoch as ISO 8601.
pub(crate) fn iso(ms: i64) -> String {
    taofold::log::ndjson::iso(ms)
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53 ms")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

fn counts(state: &RunState) -> Value {
    json!({
        "model_calls": state.model_calls,
        "tool_calls": state.tool_calls,
        "refused_calls": state.refused_calls,
        "tokens": state.usage.tokens(),
        "usd": state.usage.usd,
        "seconds": seconds(state.active_ms),
    })
}

fn joined(mut first: Value, second: Value) -> Value {
    if let (Value::Object(members), Value::Object(more)) = (&mut first, second) {
        members.extend(more);
    }
    first
}

/// Returns the result of a run as one JSON object.
pub(crate) fn result_json(run: &str, state: &RunState, pending: &[Approval]) -> Value {
    let usage = &state.usage;
    let result = json!({
        "id": run,
        "status": state.status.name(),
        "stop_reason": state.stop_reason,
        "success": state.success,
        "output": state.output,
        "error": state.error,
        "steps": state.steps.len(),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "usd": usage.usd,
        },
        "pending": pending.iter().map(approval_json).collect::<Vec<_>>(),
    });
    joined(result, counts(state))
}

/// Returns an open approval or question as JSON.
pub(crate) fn approval_json(approval: &Approval) -> Value {
    let asked = &approval.asked;
    let expires = i64::try_from(asked.expires_at).unwrap_or_default();
    json!({
        "id": approval.id,
        "run": approval.run,
        "tool": approval.action.tool,
        "args": approval.action.parameters,
        "summary": asked.preview,
        "asked_at": iso(approval.asked_at),
        "expires_at": if expires > 0 { json!(iso(expires)) } else { Value::Null },
        "tier": asked.tier,
        "reason": asked.reason,
        "question": approval.question,
        "form": asked.request.as_ref().and_then(|it| it.get("form")),
        "digest": asked.digest,
        "requester": approval.requester.id,
        "batch": format!("{}#{}", approval.run, asked.key),
    })
}

/// Returns a row of a list of runs.
pub(crate) fn row_json(row: &RunRow) -> Value {
    json!({
        "id": row.run,
        "run": row.run,
        "status": row.status,
        "goal": row.goal,
        "agent": row.agent,
        "session": row.session,
        "parent": row.parent,
        "principal": row.principal,
        "waiting_for": row.waiting_for,
        "events": row.events,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "held": row.held,
        "tags": row.tags,
    })
}

//! The errors of this crate, sorted by who can act on them.
//!
//! A mistake of a model is no error: it becomes an observation.

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::events::Event;
use crate::json::Value;

/// A log that cannot be read or written.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum LogError {
    /// A row that is not of the format.
    #[error("{message}")]
    Format {
        /// What is wrong with it.
        message: String,
    },
    /// The log was written by a newer release.
    #[error("the log has schema {found}; this release reads up to {known}")]
    Newer {
        /// The schema of the log.
        found: u64,
        /// The highest schema that this release knows.
        known: u64,
    },
    /// A record that belongs to no open step: the log was changed.
    #[error("{tag} of {key}[{index}] belongs to no open step: the log was changed")]
    NoSuchSlot {
        /// The kind of event.
        tag: &'static str,
        /// The key of the step.
        key: String,
        /// The action's place in its batch.
        index: u64,
    },
    /// Another process appended to this run, or owns it now.
    #[error(
        "run {run:?}: another process drives it or was quicker; its id or session may be taken"
    )]
    Conflict {
        /// The run.
        run: String,
    },
    /// No run has this id.
    #[error("there is no run {run:?}")]
    UnknownRun {
        /// The run.
        run: String,
    },
    /// The store failed.
    #[error("the log cannot be used: {message}")]
    Store {
        /// The store's words.
        message: String,
    },
}

/// A provider that failed after its retries.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("the model failed ({kind}): {message}")]
pub struct ModelError {
    /// `auth`, `rate`, `overflow`, `request`, `binding`, `server`, `network`, `reply` or `timeout`.
    pub kind: String,
    /// The provider's words.
    pub message: String,
    /// The status of the answer; 0: there was none, or the error came inside of one.
    pub status: u16,
    /// Seconds after which the provider wants to be asked again.
    pub retry_after: Option<f64>,
}

impl ModelError {
    /// Returns an error without a status.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
            status: 0,
            retry_after: None,
        }
    }
}

/// A mistake in code, configuration or an agent file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct ConfigError {
    /// Where it is; empty if it has no place.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl ConfigError {
    /// Returns an error at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// Reads what a file holds. The error has the place of the value below `path`.
    pub(crate) fn reading<T: DeserializeOwned>(path: &str, value: Value) -> Result<T, Self> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let inner = error.path().to_string();
            let path = match (path, inner.as_str()) {
                (path, ".") => path.to_owned(),
                ("", inner) => inner.to_owned(),
                (path, inner) => format!("{path}.{inner}"),
            };
            Self::new(path, plain(&error.into_inner().to_string()))
        })
    }
}

/// Returns serde's words about an unknown key as ours, with the nearest known one.
fn plain(message: &str) -> String {
    if !message.starts_with("unknown field `") {
        return message.to_owned();
    }
    // Every second piece stands between backticks.
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next().unwrap_or_default();
    format!(
        "unknown key {unknown:?}; {}",
        crate::text::near(unknown, names)
    )
}

/// Deriving a run again gave another event than its log holds.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("the run diverges at effect {key:?}:\n  recorded  {}\n  requested {}",
    shown(recorded.as_deref()), shown(requested.as_deref()))]
pub struct ReplayDiverged {
    /// The place of the effect.
    pub key: String,
    /// What the log holds there.
    pub recorded: Option<Box<Event>>,
    /// What this code derives.
    pub requested: Option<Box<Event>>,
}

/// Returns an event as a person reads it: as the log has it.
pub fn shown(event: Option<&Event>) -> String {
    const LONGEST: usize = 500;
    let text = event.map(|event| crate::json::to_value(event).to_string());
    let text = text.unwrap_or_else(|| "nothing".to_owned());
    let short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short + "…"
    } else {
        short
    }
}

/// What ends a drive with an error.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The provider failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Code or configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The replay gave something else.
    #[error(transparent)]
    Diverged(#[from] ReplayDiverged),
    /// The strategy awaited something that is no effect.
    #[error("the strategy awaited something that is no effect: use its scope only")]
    ForeignAwait,
    /// The strategy yielded an effect after a limit had stopped it.
    #[error("the strategy yielded an effect after a halt: return an answer instead")]
    EffectAfterHalt,
    /// The run has ended in a way that cannot be resumed.
    #[error("run {run:?} ended as {status} ({stop_reason}): start another one")]
    Ended {
        /// The run.
        run: String,
        /// How it ended.
        status: String,
        /// Why it ended.
        stop_reason: String,
    },
}

//! The errors of this crate, grouped by the party that can correct them.
//!
//! A mistake of a model is not an error but an observation.

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::events::Event;
use crate::json::Value;

/// A log that cannot be read or written.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum LogError {
    /// A row does not have the log's format.
    #[error("{message}")]
    Format {
        /// The description of the fault.
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
    /// A record belongs to no open step, because the log was changed.
    #[error("{tag} of {key}[{index}] belongs to no open step: the log was changed")]
    NoSuchSlot {
        /// The kind of event.
        tag: &'static str,
        /// The key of the step.
        key: String,
        /// The index of the action in its batch.
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
        /// The error message of the store.
        message: String,
    },
}

/// A provider failed after its retries.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("the model failed ({kind}): {message}")]
pub struct ModelError {
    /// `auth`, `rate`, `overflow`, `request`, `binding`, `server`, `network`, `reply` or `timeout`.
    pub kind: String,
    /// The provider's error message.
    pub message: String,
    /// The HTTP status; 0 without a response, or if the error came inside a stream.
    pub status: u16,
    /// The seconds after which the provider accepts a retry.
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
    /// The location; empty if there is none.
    pub path: String,
    /// The description of the fault and the correction.
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

    /// Parses the content of a file. The error contains the location of the value below `path`.
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

/// Converts serde's message about an unknown key to this crate's wording, with the closest known
/// key.
fn plain(message: &str) -> String {
    if !message.starts_with("unknown field `") {
        return message.to_owned();
    }
    // Every second part is between backticks.
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next().unwrap_or_default();
    format!(
        "unknown key {unknown:?}; {}",
        crate::text::near(unknown, names)
    )
}

/// A replay derived an event that differs from the log.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("the run diverges at effect {key:?}:\n  recorded  {}\n  requested {}",
    shown(recorded.as_deref()), shown(requested.as_deref()))]
pub struct ReplayDiverged {
    /// The key of the effect.
    pub key: String,
    /// The recorded event.
    pub recorded: Option<Box<Event>>,
    /// The derived event.
    pub requested: Option<Box<Event>>,
}

/// Returns an event in its readable log form.
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

/// An error that ends a drive.
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
    /// The replay differs from the log.
    #[error(transparent)]
    Diverged(#[from] ReplayDiverged),
    /// The strategy awaited something other than an effect.
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
        /// The status of the run.
        status: String,
        /// The stop reason of the run.
        stop_reason: String,
    },
}

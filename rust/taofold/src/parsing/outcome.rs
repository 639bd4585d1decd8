//! The results of parsing, as plain values.

use crate::json::Object;

/// A change that was needed to parse a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// A short name, such as `trailing_comma`.
    pub kind: &'static str,
    /// True if it may have changed the content and not only the envelope.
    pub content: bool,
}

impl Repair {
    /// Returns a repair of the envelope.
    pub(crate) const fn envelope(kind: &'static str) -> Self {
        Self {
            kind,
            content: false,
        }
    }

    /// Returns a repair that may have changed the content.
    pub(super) const fn content(kind: &'static str) -> Self {
        Self {
            kind,
            content: true,
        }
    }
}

/// One tool call as requested by the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Call {
    /// The name as written.
    pub tool: String,
    /// The arguments; empty when `error` is set.
    pub parameters: Object,
    /// The model's reason for this call.
    pub rationale: String,
    /// The id of the call, given by the provider or the model.
    pub id: String,
    /// The changes that were needed to parse this call.
    pub repairs: Vec<Repair>,
    /// The reason why its arguments could not be parsed; the tool must not run.
    pub error: String,
}

/// The thought of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Remark {
    /// The text.
    pub content: String,
    /// The lower-case label from the model, unchecked.
    pub kind: Option<String>,
    /// The numbers of the cited steps.
    pub because: Vec<u64>,
    /// The confidence stated by the model, unchecked.
    pub confidence: Option<f64>,
    /// True if the model asks to pause.
    pub critical: bool,
    /// The model's summary of the previous observations.
    pub learned: String,
}

/// A reply that follows a protocol.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// The thought, if any.
    pub remark: Option<Remark>,
    /// The batch of actions; empty for a thought without an action.
    pub calls: Vec<Call>,
    /// The changes that were needed to parse the whole reply.
    pub repairs: Vec<Repair>,
    /// The text that was cut because the model wrote an observation itself.
    pub role_violation: String,
}

/// A reply without any protocol marker; reasoning tags are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prose {
    /// The text.
    pub text: String,
}

/// A reply that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsed {
    /// The machine-readable reason: `empty`, `incomplete`, `ambiguous`, `no_candidate` or
    /// `invalid`.
    pub reason: &'static str,
    /// The feedback for the model.
    pub feedback: String,
}

impl Unparsed {
    pub(crate) fn new(reason: &'static str, feedback: impl Into<String>) -> Self {
        Self {
            reason,
            feedback: feedback.into(),
        }
    }
}

/// The result of parsing a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// A thought, calls, or both.
    Turn(Turn),
    /// Text without a protocol.
    Prose(Prose),
    /// A reply that cannot be used.
    Unparsed(Unparsed),
}

//! What a reading ends in. Values only.

use crate::json::Object;

/// One thing that was changed to read a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// A short name, as `trailing_comma`.
    pub kind: &'static str,
    /// Whether it may have changed what the text says, rather than its envelope.
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

    /// Returns a repair that may have changed what the text says.
    pub(super) const fn content(kind: &'static str) -> Self {
        Self {
            kind,
            content: true,
        }
    }
}

/// One tool call as the model asked for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Call {
    /// The name as written.
    pub tool: String,
    /// The arguments; empty when `error` is set.
    pub parameters: Object,
    /// The model's reason for this call.
    pub rationale: String,
    /// The provider's or the model's own identifier of the call.
    pub id: String,
    /// What was changed to read this call.
    pub repairs: Vec<Repair>,
    /// Why its arguments could not be read: the tool must not run.
    pub error: String,
}

/// The thought of a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Remark {
    /// The text.
    pub content: String,
    /// Lower-case label as the model wrote it, unchecked.
    pub kind: Option<String>,
    /// Numbers of the steps that it cites.
    pub because: Vec<u64>,
    /// As the model claims, unchecked.
    pub confidence: Option<f64>,
    /// Whether the model asks to pause.
    pub critical: bool,
    /// What it learned from the observations before.
    pub learned: String,
}

/// A reply that follows a protocol.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// The thought, if any.
    pub remark: Option<Remark>,
    /// The batch of actions; empty for a thought without an action.
    pub calls: Vec<Call>,
    /// What was changed to read the reply as a whole.
    pub repairs: Vec<Repair>,
    /// What was cut because the model wrote an observation itself.
    pub role_violation: String,
}

/// A reply without any protocol marker; reasoning tags are removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prose {
    /// The text.
    pub text: String,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unparsed {
    /// Why, for programs: `empty`, `incomplete`, `ambiguous`, `no_candidate` or `invalid`.
    pub reason: &'static str,
    /// Why, for the model.
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

/// What a reply is.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// A thought, calls, or both.
    Turn(Turn),
    /// Text without a protocol.
    Prose(Prose),
    /// Nothing that can be acted on.
    Unparsed(Unparsed),
}

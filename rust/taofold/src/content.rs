//! The messages of a conversation with a model, and their parts.
//!
//! Text, media, calls and results have the same meaning for every provider. Opaque parts are a
//! provider's own items, which only their issuing endpoint can read. This module does not depend on
//! wire formats.

use blake2::digest::consts::U20;
use blake2::{Blake2b, Digest};
use serde::{Deserialize, Serialize};

use crate::json::is_default;

/// The role of a message in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions of the application.
    System,
    /// The user, or the runtime on behalf of the user.
    User,
    /// The model.
    Assistant,
    /// Results of native tool calls.
    Tool,
}

/// The issuer of a reply: wire format, host and model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issuer {
    /// The provider's format: `responses`, `chat`, `messages`, `gemini` or `ollama`.
    pub wire: String,
    /// The host, such as `api.openai.com`.
    pub host: String,
    /// The model.
    pub model: String,
}

/// Text of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// OpenAI's phase: `commentary` or `final_answer`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub phase: String,
    /// Fields that the issuer expects back with the part, as JSON text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub opaque: String,
}

/// An image, document, audio or video: bytes in the log under `digest`, or an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MediaPart {
    /// `image`, `document`, `audio` or `video`.
    pub kind: String,
    /// The MIME type.
    pub media_type: String,
    /// BLAKE2b-160 of the bytes, in hex.
    #[serde(default, skip_serializing_if = "is_default")]
    pub digest: String,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size: u64,
    /// A file name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: String,
    /// An address instead of bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub url: String,
    /// OpenAI's hint: `low` or `high`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detail: String,
}

/// Readable thinking, for display.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThinkingPart {
    /// The text.
    pub text: String,
    /// The field in which the same endpoint expects the text back; empty if it is never sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub echo: String,
}

/// A provider's item in its original form, as JSON text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpaquePart {
    /// The item.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: String,
    /// The provider's name for the kind of item.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: String,
    /// The digest of a long item in the log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub digest: String,
    /// The size of a long item in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub size: u64,
}

/// A native tool call as returned by a provider. `arguments` is unparsed JSON text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// The JSON text of the parameters, as the model wrote it.
    pub arguments: String,
    /// The provider's id of the call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub id: String,
    /// Fields that the issuer expects back with the part, as JSON text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub opaque: String,
}

/// The result of the call `id`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// Text, or text and media.
    pub content: Content,
    /// True if the call failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub error: bool,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text(TextPart),
    /// An image, document, audio or video.
    Media(MediaPart),
    /// Readable thinking.
    Thinking(ThinkingPart),
    /// A provider's own item.
    Opaque(OpaquePart),
    /// A native tool call.
    Call(ToolCall),
    /// The result of a native tool call.
    Result(ToolResult),
}

/// The content of a message. Plain text is the short form of one text part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Only text.
    Text(String),
    /// Parts in order.
    Parts(Vec<Part>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Content {
    /// Returns the shortest form of `parts`: a lone plain text is a string.
    pub fn from_parts(parts: Vec<Part>) -> Self {
        match parts.as_slice() {
            [] => Self::default(),
            [Part::Text(part)] if part.phase.is_empty() && part.opaque.is_empty() => {
                Self::Text(part.text.clone())
            }
            _ => Self::Parts(parts),
        }
    }

    /// Returns the content as parts; an empty text has none.
    pub fn to_parts(&self) -> Vec<Part> {
        match self {
            Self::Text(text) if text.is_empty() => Vec::new(),
            Self::Text(text) => vec![Part::Text(TextPart {
                text: text.clone(),
                ..TextPart::default()
            })],
            Self::Parts(parts) => parts.clone(),
        }
    }

    /// Returns the text, without thinking, calls and media.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(part) => part.text.clone(),
                    Part::Result(part) => part.content.text(),
                    _ => String::new(),
                })
                .collect(),
        }
    }

    /// Returns the readable thinking.
    pub fn thinking(&self) -> String {
        match self {
            Self::Text(_) => String::new(),
            Self::Parts(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Thinking(part) => Some(part.text.as_str()),
                    _ => None,
                })
                .collect(),
        }
    }

    /// Returns the native tool calls, in order.
    pub fn calls(&self) -> Vec<ToolCall> {
        match self {
            Self::Text(_) => Vec::new(),
            Self::Parts(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Call(call) => Some(call.clone()),
                    _ => None,
                })
                .collect(),
        }
    }

    /// Returns the content with its text replaced by `text`; thinking and calls stay.
    pub fn with_text(&self, text: &str) -> Self {
        if text == self.text() {
            return self.clone();
        }
        let parts = self.to_parts();
        let place = parts
            .iter()
            .position(|part| matches!(part, Part::Text(_)))
            .or_else(|| parts.iter().position(|part| matches!(part, Part::Call(_))))
            .unwrap_or(parts.len());
        let before = parts[..place].iter();
        let after = parts[place..].iter();
        let own = (!text.is_empty()).then(|| {
            Part::Text(TextPart {
                text: text.to_owned(),
                ..TextPart::default()
            })
        });
        let kept = |part: &&Part| !matches!(part, Part::Text(_));
        Self::from_parts(
            before
                .filter(kept)
                .cloned()
                .chain(own)
                .chain(after.filter(kept).cloned())
                .collect(),
        )
    }

    /// Returns true if it holds parts that only their issuer understands.
    pub fn is_bound(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Parts(parts) => parts.iter().any(|part| match part {
                Part::Opaque(_) => true,
                Part::Text(part) => !part.opaque.is_empty(),
                Part::Call(call) => !call.opaque.is_empty(),
                Part::Thinking(part) => !part.echo.is_empty(),
                Part::Media(_) | Part::Result(_) => false,
            }),
        }
    }

    /// Returns the content without parts that only their issuer understands: text, media, calls,
    /// results.
    #[must_use]
    pub fn without_issuer_parts(self) -> Self {
        let Self::Parts(parts) = self else {
            return self;
        };
        let kept = parts.into_iter().filter_map(|part| match part {
            // Readable thinking is removed too, because only its endpoint expects it back.
            Part::Opaque(_) | Part::Thinking(_) => None,
            Part::Text(part) => Some(Part::Text(TextPart {
                opaque: String::new(),
                ..part
            })),
            Part::Call(call) => Some(Part::Call(ToolCall {
                opaque: String::new(),
                ..call
            })),
            other => Some(other),
        });
        Self::from_parts(kept.collect())
    }

    /// Returns the approximate number of characters that it takes in a model's window.
    pub fn chars(&self) -> usize {
        const IMAGE: usize = 6_000;
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(part) => part.text.chars().count(),
                    Part::Thinking(part) => part.text.chars().count(),
                    Part::Opaque(part) => part.data.len(),
                    Part::Call(call) => call.name.len() + call.arguments.chars().count(),
                    Part::Result(result) => result.content.chars(),
                    Part::Media(_) => IMAGE,
                })
                .sum(),
        }
    }
}

/// A message of the conversation that is sent to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The role of the author.
    pub role: Role,
    /// The content.
    pub content: Content,
    /// The issuer, for a model's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Issuer>,
}

impl Message {
    /// Returns a message without an issuer.
    pub fn new(role: Role, content: impl Into<Content>) -> Self {
        Self {
            role,
            content: content.into(),
            issuer: None,
        }
    }

    /// Returns the message that answers the native call `id`.
    pub fn result(id: &str, content: impl Into<Content>, error: bool) -> Self {
        let result = ToolResult {
            id: id.to_owned(),
            content: content.into(),
            error,
        };
        Self::new(Role::Tool, Content::Parts(vec![Part::Result(result)]))
    }
}

impl From<Vec<Part>> for Content {
    fn from(parts: Vec<Part>) -> Self {
        Self::from_parts(parts)
    }
}

/// An append-only list of messages with a running digest.
///
/// Appending has constant cost. An [`Ask`](crate::effects::Ask) moves the conversation to the
/// runtime and the reply brings it back, so nothing is copied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    messages: Vec<Message>,
    digest: [u8; 20],
    chars: usize,
}

impl Conversation {
    /// Returns a conversation of `messages`.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        let mut conversation = Self::default();
        for message in messages {
            conversation.append(message);
        }
        conversation
    }

    /// Appends a message.
    pub fn append(&mut self, message: Message) {
        let mut hasher = Blake2b::<U20>::new();
        hasher.update(self.digest);
        hasher.update(crate::json::to_value(&message).to_string());
        self.digest.copy_from_slice(&hasher.finalize());
        self.chars += message.content.chars();
        self.messages.push(message);
    }

    /// Removes parts that only their issuer understands. The digest stays, because it represents
    /// the original messages.
    pub fn cut(&mut self) {
        for message in &mut self.messages {
            let content = std::mem::take(&mut message.content);
            message.content = content.without_issuer_parts();
        }
        self.chars = self.messages.iter().map(|it| it.content.chars()).sum();
    }

    /// Returns true if it holds parts that only their issuer understands.
    pub fn is_bound(&self) -> bool {
        self.messages.iter().any(|it| it.content.is_bound())
    }

    /// Returns the messages in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the approximate number of characters that it takes in a model's window.
    pub fn chars(&self) -> usize {
        self.chars
    }

    /// Returns the digest of all messages, in hex.
    pub fn digest(&self) -> String {
        hex(&self.digest)
    }
}

/// Returns the name of bytes in a log: their BLAKE2b-160 digest in hex.
pub fn blob_digest(bytes: &[u8]) -> String {
    hex(&Blake2b::<U20>::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_text_is_stored_as_a_string() {
        let message = Message::new(Role::User, "hello");
        let text = crate::json::to_value(&message).to_string();
        assert_eq!(text, r#"{"role":"user","content":"hello"}"#);
    }

    #[test]
    fn a_cut_takes_out_what_only_its_issuer_understands_and_keeps_the_digest() {
        let content: Content = serde_json::from_str(
            r#"[{"type": "opaque", "data": "{}"}, {"type": "thinking", "text": "hm"},
                {"type": "text", "text": "I read."},
                {"type": "call", "name": "read", "arguments": "{}", "opaque": "{}"}]"#,
        )
        .unwrap();
        let message = Message::new(Role::Assistant, content);
        let mut conversation = Conversation::new([message]);
        let digest = conversation.digest();
        assert!(conversation.is_bound());
        conversation.cut();
        assert!(!conversation.is_bound());
        assert_eq!(conversation.digest(), digest);
        let parts = conversation.messages()[0].content.to_parts();
        assert!(matches!(parts.as_slice(), [Part::Text(_), Part::Call(_)]));
    }

    #[test]
    fn replacing_the_text_keeps_thinking_before_it_and_calls_behind_it() {
        let content: Content = serde_json::from_str(
            r#"[{"type": "thinking", "text": "hm"}, {"type": "text", "text": "long"},
                {"type": "call", "name": "read", "arguments": "{}"}]"#,
        )
        .unwrap();
        let kept = content.with_text("short");
        assert_eq!(kept.text(), "short");
        assert!(matches!(
            kept.to_parts().as_slice(),
            [Part::Thinking(_), Part::Text(_), Part::Call(_)]
        ));
    }
}

//! Converts a conversation to the order that providers require: the result of each call directly
//! follows it.

use crate::content::{Message, Part, Role};

/// The placeholder for a missing result.
const NO_RESULT: &str = "(no result)";

/// A message, or the result of one call.
pub(super) enum Entry<'a> {
    /// A message of the system, the user or the model.
    Message(&'a Message),
    /// The result of the call `id`.
    Result {
        id: String,
        text: String,
        error: bool,
    },
}

/// Returns the entries of a conversation, with a placeholder for each missing result.
pub(super) fn answered(conversation: &[Message]) -> Vec<Entry<'_>> {
    let mut entries = Vec::with_capacity(conversation.len());
    let mut open: Vec<String> = Vec::new();
    for message in conversation {
        if message.role == Role::Tool {
            for part in message.content.to_parts() {
                if let Part::Result(result) = part {
                    open.retain(|id| *id != result.id);
                    entries.push(Entry::Result {
                        id: result.id,
                        text: result.content.text(),
                        error: result.error,
                    });
                }
            }
            continue;
        }
        entries.extend(open.drain(..).map(lacking));
        if message.role == Role::Assistant {
            let calls = message.content.calls();
            open = calls.into_iter().map(|call| call.id).collect();
        }
        entries.push(Entry::Message(message));
    }
    entries.extend(open.into_iter().map(lacking));
    entries
}

fn lacking<'a>(id: String) -> Entry<'a> {
    Entry::Result {
        id,
        text: NO_RESULT.to_owned(),
        error: false,
    }
}

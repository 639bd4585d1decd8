//! The common part of all formats' readers: converts parts to a reply.

use std::collections::HashSet;

use super::names::original;
use crate::content::{Content, Part};
use crate::errors::ModelError;
use crate::json::Value;
use crate::model::ToolOffer;
use crate::values::Usage;

/// The maximum number of calls in one reply. No provider allows half as many tools, so more are a
/// fault.
const MOST_CALLS: usize = 256;
const MOST_TOKENS: u64 = 1 << 40;

/// One response as its format's reader returns it.
#[derive(Debug, Default)]
pub(super) struct ReadReply {
    pub(super) parts: Vec<Part>,
    pub(super) usage: Usage,
    /// The cost reported by the server, in dollars.
    pub(super) charged: Option<f64>,
    /// The service tier that was used.
    pub(super) tier: String,
    pub(super) finish: String,
    pub(super) notes: Vec<String>,
}

/// A reader of one response, streamed or whole. Each attempt uses a new one.
pub(super) trait Reader: Send {
    /// Processes one event and adds text for listeners to `said`. Returns true after the last
    /// event.
    fn event(&mut self, event: &Value, said: &mut String) -> Result<bool, ModelError>;

    /// Returns true if the reply is complete, even if the stream breaks now.
    fn complete(&self) -> bool;

    /// Returns the reply after the end of the stream.
    fn finish(&mut self) -> Result<ReadReply, ModelError>;

    /// Reads a response that was not streamed.
    fn whole(&mut self, answer: &Value) -> Result<ReadReply, ModelError>;
}

/// Returns the text at `name`; empty if it is absent, null or not a text.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the count at a path of a provider's report, limited to the largest value of the log.
pub(super) fn count(value: &Value, path: &[&str]) -> u64 {
    let at = path.iter().try_fold(value, |value, name| value.get(*name));
    at.and_then(Value::as_u64)
        .unwrap_or_default()
        .min(MOST_TOKENS)
}

/// Returns consistent counts.
pub(super) fn usage(input: u64, output: u64, cached: u64, written: u64, reasoning: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        cached_tokens: cached.min(input),
        written_tokens: written.min(input),
        reasoning_tokens: reasoning.min(output),
        ..Usage::default()
    }
}

/// Returns the content with original tool names and unique call ids, and the finish reason.
pub(super) fn settled(
    parts: Vec<Part>,
    finish: &str,
    offers: &[ToolOffer],
    turn: usize,
) -> Result<(Content, String), ModelError> {
    let mut kept: Vec<Part> = Vec::with_capacity(parts.len());
    let mut ids: HashSet<String> = HashSet::new();
    let mut place = 0;
    for part in parts {
        let Part::Call(mut call) = part else {
            kept.push(part);
            continue;
        };
        call.name = original(&call.name, offers);
        // Calls without an id get one that is the same in a replay: turn and index.
        if call.id.is_empty() {
            call.id = format!("call_{turn}_{place}");
        }
        place += 1;
        if place > MOST_CALLS {
            let message = format!("the reply holds more than {MOST_CALLS} tool calls");
            return Err(ModelError::new("reply", message));
        }
        // The same call with the same id was sent twice and counts once.
        if ids.contains(&call.id) && kept.contains(&Part::Call(call.clone())) {
            continue;
        }
        let mut fresh = call.id.clone();
        let mut number = 1;
        while !ids.insert(fresh.clone()) {
            number += 1;
            fresh = format!("{}_{number}", call.id);
        }
        call.id = fresh;
        kept.push(Part::Call(call));
    }
    let calls = || {
        kept.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    };
    let mut finish = finish.to_owned();
    // Some servers also send "stop" for calls.
    let whole = calls().all(|call| !call.arguments.is_empty());
    if finish == "stop" && calls().next().is_some() && whole {
        "tool_calls".clone_into(&mut finish);
    } else if finish == "tool_calls" {
        // Empty arguments mean an empty object only if the provider reports that calls are
        // complete.
        for part in &mut kept {
            if let Part::Call(call) = part
                && call.arguments.is_empty()
            {
                "{}".clone_into(&mut call.arguments);
            }
        }
    }
    Ok((Content::from_parts(kept), finish))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::ToolCall;

    fn call(id: &str, arguments: &str) -> Part {
        Part::Call(ToolCall {
            name: "read".to_owned(),
            arguments: arguments.to_owned(),
            id: id.to_owned(),
            ..ToolCall::default()
        })
    }

    #[test]
    fn calls_can_be_told_apart_and_one_that_was_sent_twice_is_one() {
        let parts = vec![
            call("a", "{}"),
            call("a", "{}"),
            call("a", "[]"),
            call("", "{}"),
        ];
        let (content, finish) = settled(parts, "stop", &[], 4).unwrap();
        let ids: Vec<String> = content.calls().into_iter().map(|call| call.id).collect();
        assert_eq!(ids, ["a", "a_2", "call_4_3"]);
        assert_eq!(finish, "tool_calls");
    }

    #[test]
    fn missing_arguments_are_empty_only_where_the_provider_says_that_the_call_is_whole() {
        let arguments = |finish: &str| {
            let (content, _) = settled(vec![call("a", "")], finish, &[], 0).unwrap();
            content.calls()[0].arguments.clone()
        };
        assert_eq!(arguments("tool_calls"), "{}");
        assert_eq!(arguments("length"), "");
        assert_eq!(arguments("stop"), "");
    }
}

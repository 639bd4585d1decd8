//! Parses a complete reply: the JSON protocol, the text protocol, or prose.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use crate::content::ToolCall;
use crate::json::Value;
use crate::parsing::decision::{is_decision, turn_of, with_arguments};
use crate::parsing::json_text::{Search, objects};
use crate::parsing::labels;
use crate::parsing::outcome::{Call, Prose, Read, Remark, Repair, Unparsed};
use crate::values::finish_of;

static REASONING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?is)<think>.*?</think>|<thinking>.*?</thinking>|<reasoning>.*?</reasoning>").ok()
});

static UNFINISHED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?is)\A\s*<(?:think|thinking|reasoning)>").ok());

static BEGUN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let keys = "tool|action|actions|tool_name|tool_calls|action_input|thought";
    Regex::new(&format!(
        r#"[{{,]\s{{0,8}}["'“]?(?:{keys})["'”]?\s{{0,4}}:"#
    ))
    .ok()
});

/// Returns the text without the thinking that a model wrote into it in tags.
pub(super) fn without_reasoning(text: &str) -> Cow<'_, str> {
    match REASONING.as_ref() {
        Some(pattern) => pattern.replace_all(text, ""),
        None => Cow::Borrowed(text),
    }
}

/// Returns true if the reply ends inside the reasoning with which it begins.
pub(crate) fn ends_inside_reasoning(text: &str) -> bool {
    let pattern = UNFINISHED.as_ref();
    pattern.is_some_and(|pattern| pattern.is_match(text))
}

pub(super) fn unfinished() -> Unparsed {
    Unparsed::new("incomplete", "The reply ends inside its reasoning.")
}

/// Returns true if the text contains the beginning of a JSON decision.
fn is_begun(text: &str) -> bool {
    BEGUN.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// Returns true if an object without an end may be half of a decision.
///
/// The reply must begin with it, or it must have a key of a decision. After other words it is text.
fn is_cut(text: &str, search: &Search) -> bool {
    let begun = |start: usize| text[..start].trim().is_empty() || is_begun(&text[start..]);
    search.cut.is_some_and(begun)
}

/// Parses a reply's text. `finish` is the provider's or the normalized finish reason.
pub fn read_reply(text: &str, finish: &str) -> Read {
    let text = without_reasoning(text);
    let text = text.as_ref();
    if text.trim().is_empty() {
        return Read::Unparsed(Unparsed::new("empty", "Your reply was empty."));
    }
    if ends_inside_reasoning(text) {
        return Read::Unparsed(unfinished());
    }
    let search = objects(text);
    let decisions: Vec<_> = search
        .found
        .iter()
        .filter(|found| is_decision(&found.value))
        .collect();
    let ends_at_limit = finish_of(finish) == "length";
    if let Some(first) = decisions.first() {
        if decisions.iter().any(|other| other.value != first.value) {
            return Read::Unparsed(Unparsed::new(
                "ambiguous",
                "The reply holds several different decisions: send exactly one JSON object.",
            ));
        }
        if is_cut(text, &search) {
            return Read::Unparsed(cut_off());
        }
        if let Value::Object(object) = &first.value {
            let mut turn = turn_of(object);
            turn.repairs.clone_from(&first.repairs);
            let outside = [&text[..first.start], &text[first.end..]];
            let around = outside.map(|it| it.replace("```json", "").replace("```", ""));
            if around.iter().any(|it| !it.trim().is_empty()) {
                // The prose may only quote the call, or revoke it.
                turn.repairs.push(Repair::content("beside_prose"));
                turn.remark = turn.remark.or_else(|| remark(&text[..first.start]));
            }
            return Read::Turn(turn);
        }
    }
    if let Some(turn) = labels::read(text) {
        if turn.calls.iter().any(|call| call.tool.is_empty()) {
            return Read::Unparsed(Unparsed::new("invalid", "The action names no tool."));
        }
        return Read::Turn(turn);
    }
    if is_cut(text, &search) {
        return Read::Unparsed(cut_off());
    }
    if search.found.is_empty() && is_begun(text) {
        let fault = search.fault.as_deref().unwrap_or("no object was found");
        let feedback = format!("The JSON cannot be read: {fault}. Send one JSON object.");
        return Read::Unparsed(Unparsed::new("invalid", feedback));
    }
    if ends_at_limit {
        return Read::Unparsed(cut_off());
    }
    Read::Prose(Prose {
        text: text.trim().to_owned(),
    })
}

/// Returns the text of a reply without its reasoning, also if it has the form of a call.
pub(crate) fn read_text(text: &str, finish: &str) -> Result<String, Unparsed> {
    let text = without_reasoning(text);
    let text = text.trim();
    if text.is_empty() {
        return Err(Unparsed::new("empty", "Your reply was empty."));
    }
    if ends_inside_reasoning(text) {
        return Err(unfinished());
    }
    if finish_of(finish) == "length" {
        return Err(cut_off());
    }
    Ok(text.to_owned())
}

/// Returns prose before a call as its thought.
fn remark(lead: &str) -> Option<Remark> {
    let lead = lead.trim().trim_matches('`');
    let lead = lead.strip_suffix("```json").unwrap_or(lead).trim();
    let prose = !lead.is_empty() && !lead.starts_with(['<', '[', '{']);
    prose.then(|| Remark {
        content: lead.to_owned(),
        ..Remark::default()
    })
}

fn cut_off() -> Unparsed {
    Unparsed::new(
        "incomplete",
        "The reply is cut off: write one complete JSON object, shorter than before.",
    )
}

/// Parses a native tool call, whose arguments are JSON text.
pub fn read_call(call: &ToolCall, finish: &str) -> Call {
    let bare = Call {
        tool: call.name.clone(),
        id: call.id.clone(),
        ..Call::default()
    };
    let mut read = with_arguments(bare, &Value::String(call.arguments.clone()));
    if !read.error.is_empty() && finish_of(finish) == "length" {
        read.error += " (the reply was cut off)";
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::parsing::Turn;
    use crate::values::FINISH;

    fn turn(text: &str) -> Turn {
        match read_reply(text, "stop") {
            Read::Turn(turn) => turn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_brace_that_begins_no_object_is_text() {
        for text in [
            "{",
            "{ is a brace",
            "the set {a}",
            "{}",
            "`{`",
            r#"{"x": 1}"#,
        ] {
            let read = read_reply(text, "stop");
            assert!(matches!(read, Read::Prose(_)), "{text}: {read:?}");
        }
        for text in [
            r#"{"a": 1"#,
            "{a: 1",
            r#"I act: {"tool": "read"#,
            "<think>I",
        ] {
            match read_reply(text, "stop") {
                Read::Unparsed(unparsed) => assert_eq!(unparsed.reason, "incomplete", "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_protocol_is_read() {
        let turn = turn(
            r#"{"thought": "I look", "thought_type": "goal", "because": [1], "confidence": 0.5,
                "action": {"tool": "read", "parameters": {"path": "a"}, "rationale": "why"}}"#,
        );
        let remark = turn.remark.unwrap();
        assert_eq!(remark.content, "I look");
        assert_eq!(remark.kind.as_deref(), Some("goal"));
        assert_eq!(remark.because, [1]);
        assert_eq!(turn.calls[0].rationale, "why");
        assert_eq!(turn.calls[0].parameters["path"], "a");
        assert!(turn.repairs.is_empty());
    }

    #[test]
    fn a_batch_and_an_answer_are_read() {
        let batch = turn(
            r#"{"thought": "t", "actions": [{"tool": "a"}, {"tool": "b", "args": {"x": 1}}]}"#,
        );
        assert_eq!(batch.calls.len(), 2);
        assert_eq!(batch.calls[1].parameters["x"], 1);
        let answer = turn(r#"{"thought": "t", "final_answer": 4}"#);
        assert_eq!(answer.calls[0].tool, FINISH);
        assert_eq!(answer.calls[0].parameters["answer"], 4);
    }

    #[test]
    fn the_react_trace_form_is_read() {
        let turn =
            turn(r#"{"thought": "t", "action": "web.search", "action_input": {"query": "q"}}"#);
        assert_eq!(turn.calls[0].tool, "web.search");
        assert_eq!(
            Value::Object(turn.calls[0].parameters.clone()),
            json!({"query": "q"})
        );
        assert!(turn.calls[0].repairs.is_empty());
    }

    #[test]
    fn prose_beside_a_call_marks_it_as_a_guess() {
        let turn = turn("I would not do: {\"thought\": \"t\", \"action\": {\"tool\": \"rm\"}}");
        assert!(turn.repairs.iter().any(|repair| repair.content));
    }

    #[test]
    fn two_different_decisions_are_refused_and_one_sent_twice_is_one() {
        let one = r#"{"thought": "t", "action": {"tool": "a"}}"#;
        let other = r#"{"thought": "t", "action": {"tool": "b"}}"#;
        assert!(matches!(
            read_reply(&format!("{one}\n{other}"), ""),
            Read::Unparsed(Unparsed {
                reason: "ambiguous",
                ..
            })
        ));
        assert_eq!(turn(&format!("{one}\n{one}")).calls.len(), 1);
    }

    #[test]
    fn half_a_reply_is_refused() {
        assert!(matches!(
            read_reply("{\"thought\": \"I look", ""),
            Read::Unparsed(Unparsed {
                reason: "incomplete",
                ..
            })
        ));
    }

    #[test]
    fn plain_text_is_prose() {
        assert_eq!(
            read_reply("<think>hm</think> Otters hold hands.", "stop"),
            Read::Prose(Prose {
                text: "Otters hold hands.".into()
            })
        );
    }

    #[test]
    fn arguments_that_cannot_be_read_are_an_error_of_the_call() {
        let call = |arguments: &str| {
            let call = ToolCall {
                name: "read".into(),
                arguments: arguments.into(),
                ..ToolCall::default()
            };
            read_call(&call, "tool_calls")
        };
        assert_eq!(call("{\"path\": \"a\"}").parameters["path"], "a");
        assert!(call("").error.is_empty());
        assert!(call("{\"path\": ").error.contains("cannot be read"));
        assert!(call("[1]").error.contains("cannot be read"));
    }
}

//! The ReAct text protocol: `Thought:`, `Action:`, `Action Input:`, `Final Answer:`.

use std::sync::LazyLock;

use regex::Regex;

use crate::json::{Object, Value};
use crate::parsing::decision::with_arguments;
use crate::parsing::outcome::{Call, Remark, Repair, Turn};
use crate::values::FINISH;

static LABEL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"(?im)^[ \t]*[*_#]*[ \t]*(thought|action input|action|observation|final answer)(?:[ \t]*\d+)?[*_]*[ \t]*:[*_]*";
    Regex::new(pattern).ok()
});

const EXCERPT: usize = 500;

/// Parses a reply in the text protocol.
///
/// Returns `None` if it has no action and no final answer, and does not begin with a thought.
pub(super) fn read(text: &str) -> Option<Turn> {
    let pattern = LABEL.as_ref()?;
    let marks: Vec<(String, usize, usize)> = pattern
        .captures_iter(text)
        .filter_map(|found| {
            let whole = found.get(0)?;
            let name = found.get(1)?.as_str().to_lowercase();
            Some((name, whole.start(), whole.end()))
        })
        .collect();
    let known = |name: &str| marks.iter().any(|mark| mark.0 == name);
    let begins =
        |mark: &(String, usize, usize)| mark.0 == "thought" && text[..mark.1].trim().is_empty();
    let alone = marks.first().is_some_and(begins);
    if !known("action") && !known("final answer") && !alone {
        return None;
    }
    let mut turn = Turn {
        repairs: vec![Repair::envelope("text_protocol")],
        ..Turn::default()
    };
    let mut thought = String::new();
    for (place, (name, start, end)) in marks.iter().enumerate() {
        let until = marks.get(place + 1).map_or(text.len(), |next| next.1);
        let body = text[*end..until].trim();
        match name.as_str() {
            "thought" if turn.calls.is_empty() => body.clone_into(&mut thought),
            // An observation written by the model is invented, so nothing after it counts.
            "observation" => {
                turn.role_violation = text[*start..].chars().take(EXCERPT).collect();
                break;
            }
            "action" => turn.calls.push(Call {
                tool: unquoted(body).to_owned(),
                ..Call::default()
            }),
            "action input" => {
                if let Some(call) = turn.calls.pop() {
                    turn.calls.push(with_input(call, body));
                }
            }
            "final answer" => turn.calls.push(Call {
                tool: FINISH.to_owned(),
                parameters: Object::from_iter([(
                    "answer".to_owned(),
                    Value::String(body.to_owned()),
                )]),
                ..Call::default()
            }),
            _ => {}
        }
    }
    // Text before the first label also belongs to the thought.
    if thought.is_empty() {
        let first = marks.first().map_or(0, |mark| mark.1);
        text[..first].trim().clone_into(&mut thought);
    }
    if turn.calls.is_empty() && !alone {
        return None;
    }
    turn.remark = (!thought.is_empty()).then(|| Remark {
        content: thought,
        ..Remark::default()
    });
    Some(turn)
}

fn unquoted(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default().trim();
    line.trim_matches(['`', '"', '\'', '*', '[', ']']).trim()
}

fn with_input(call: Call, body: &str) -> Call {
    let body = body.trim();
    let body = body
        .strip_prefix("```json")
        .or_else(|| body.strip_prefix("```"))
        .map_or(body, |inner| inner.trim().trim_end_matches('`').trim());
    if body.starts_with('{') || body.is_empty() {
        return with_arguments(call, &Value::String(body.to_owned()));
    }
    // Plain text: only the tool knows the parameter to which it belongs.
    Call {
        parameters: Object::from_iter([(
            "input".to_owned(),
            Value::String(unquoted(body).to_owned()),
        )]),
        repairs: vec![Repair::content("bare_input")],
        ..call
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn thought_action_and_input_are_read() {
        let turn = read(
            "Thought: I need the page.\nAction: web.search\nAction Input: {\"query\": \"otters\"}",
        )
        .unwrap();
        assert_eq!(turn.remark.unwrap().content, "I need the page.");
        assert_eq!(turn.calls[0].tool, "web.search");
        assert_eq!(
            Value::Object(turn.calls[0].parameters.clone()),
            json!({"query": "otters"})
        );
        assert!(turn.calls[0].error.is_empty());
    }

    #[test]
    fn an_invented_observation_ends_the_turn() {
        let turn = read(
            "Thought: go\nAction: run\nAction Input: {}\nObservation: it worked\nFinal Answer: 42",
        )
        .unwrap();
        assert_eq!(turn.calls.len(), 1);
        assert!(turn.role_violation.starts_with("Observation: it worked"));
    }

    #[test]
    fn a_final_answer_is_finish() {
        let turn = read("I know it.\nFinal Answer: 42").unwrap();
        assert_eq!(turn.calls[0].tool, FINISH);
        assert_eq!(turn.calls[0].parameters["answer"], "42");
        assert_eq!(turn.remark.unwrap().content, "I know it.");
    }

    #[test]
    fn prose_is_no_turn() {
        assert_eq!(read("The thought of action is dear to me."), None);
    }
}

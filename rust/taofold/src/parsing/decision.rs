//! Reads a decision, which is a thought with its calls, from a JSON object.

use crate::json::{Object, Value};
use crate::parsing::outcome::{Call, Remark, Repair, Turn};
use crate::values::FINISH;

const THOUGHT_KEYS: [&str; 3] = ["thought", "thinking", "reasoning"];
const TOOL_KEYS: [&str; 4] = ["tool", "tool_name", "name", "function"];
const PARAMETER_KEYS: [&str; 6] = [
    "parameters",
    "params",
    "arguments",
    "args",
    "action_input",
    "input",
];
const BATCH_KEYS: [&str; 2] = ["actions", "tool_calls"];
const ANSWER_KEYS: [&str; 2] = ["final_answer", "answer"];
/// The keys of the protocol beside a call's parameters.
const ENVELOPE: [&str; 13] = [
    "learned",
    "thought",
    "thinking",
    "reasoning",
    "thought_type",
    "because",
    "confidence",
    "critical",
    "rationale",
    "justification",
    "id",
    "type",
    "action",
];

/// Returns true if an object has a marker of the protocol.
pub(super) fn is_decision(value: &Value) -> bool {
    let Value::Object(keys) = value else {
        return false;
    };
    let has = |names: &[&str]| names.iter().any(|name| keys.contains_key(*name));
    let only_protocol = || {
        keys.keys()
            .all(|key| ENVELOPE.contains(&key.as_str()) || ANSWER_KEYS.contains(&key.as_str()))
    };
    has(&["thought", "action", "tool", "tool_name", "final_answer"])
        || has(&BATCH_KEYS)
        || (has(&["name", "function"]) && has(&PARAMETER_KEYS))
        || (has(&["answer", "reasoning", "thinking"]) && only_protocol())
}

/// Parses one protocol object.
pub(super) fn turn_of(object: &Object) -> Turn {
    Turn {
        remark: remark(object),
        calls: calls(object),
        ..Turn::default()
    }
}

fn calls(object: &Object) -> Vec<Call> {
    let mut decisions: Vec<Vec<Call>> = Vec::new();
    for key in BATCH_KEYS {
        match object.get(key) {
            Some(Value::Array(items)) if !items.is_empty() => {
                decisions.push(items.iter().map(|item| call_of(item, None)).collect());
            }
            Some(item @ Value::Object(_)) => decisions.push(vec![call_of(item, Some(object))]),
            _ => {}
        }
    }
    match object.get("action") {
        Some(Value::Array(items)) if !items.is_empty() => {
            decisions.push(items.iter().map(|item| call_of(item, None)).collect());
        }
        Some(item @ Value::Object(_)) => decisions.push(vec![call_of(item, Some(object))]),
        Some(Value::String(name)) => decisions.push(vec![named(name, object, "action")]),
        _ => {}
    }
    let own = ["tool", "tool_name"]
        .into_iter()
        .find_map(|key| Some((key, object.get(key)?.as_str()?)));
    if let (Some((key, name)), true) = (own, decisions.is_empty()) {
        decisions.push(vec![named(name, object, key)]);
    }
    let name = ["name", "function"]
        .into_iter()
        .find_map(|key| Some((key, object.get(key)?.as_str()?)));
    if let (Some((key, name)), true) = (name, decisions.is_empty()) {
        decisions.push(vec![named(name, object, key)]);
    }
    for key in ANSWER_KEYS {
        let used = decisions.iter().flatten().any(|call| !call.tool.is_empty());
        if let Some(answer) = object.get(key)
            && !(used && answer.is_null())
            && !(used && key == "answer")
        {
            decisions.push(vec![Call {
                tool: FINISH.to_owned(),
                parameters: Object::from_iter([("answer".to_owned(), answer.clone())]),
                rationale: text(object.get("rationale")),
                ..Call::default()
            }]);
        }
    }
    let mut decisions = decisions.into_iter();
    let Some(chosen) = decisions.next() else {
        return Vec::new();
    };
    let same = |other: Vec<Call>| {
        other.len() == chosen.len()
            && other
                .iter()
                .zip(&chosen)
                .all(|(a, b)| a.tool == b.tool && a.parameters == b.parameters)
    };
    if decisions.all(same) {
        return chosen;
    }
    vec![Call {
        error: "it holds several different decisions".to_owned(),
        ..Call::default()
    }]
}

/// Parses one call. `around` is the enclosing object, which may hold keys of the call.
fn call_of(item: &Value, around: Option<&Object>) -> Call {
    let Value::Object(object) = item else {
        let error = match item {
            Value::String(name) => format!("the arguments of {name:?} are missing"),
            _ => "an action must be an object".to_owned(),
        };
        return Call {
            error,
            ..Call::default()
        };
    };
    let name = TOOL_KEYS
        .into_iter()
        .find_map(|key| Some((key, object.get(key)?)));
    match name {
        // {"function": {"name", "arguments"}, "id"}
        Some((_, inner @ Value::Object(_))) => {
            let mut call = call_of(inner, None);
            let id = text(object.get("id"));
            if !id.is_empty() {
                call.id = id;
            }
            call
        }
        Some((key, Value::String(name))) if !name.trim().is_empty() => {
            let mut call = named(name, object, key);
            if let Some(around) = around {
                if call.rationale.is_empty() {
                    call.rationale = rationale(around);
                }
                let given = PARAMETER_KEYS.iter().any(|key| object.contains_key(*key));
                let beside = PARAMETER_KEYS.iter().find_map(|key| around.get(*key));
                if let (true, false, Some(beside)) = (call.parameters.is_empty(), given, beside) {
                    call = with_arguments(call, beside);
                }
            }
            call
        }
        _ => Call {
            rationale: rationale(object),
            error: "the action names no tool".to_owned(),
            ..Call::default()
        },
    }
}

/// Parses the call of an object with the tool's name under the key `used`.
fn named(name: &str, object: &Object, used: &str) -> Call {
    let call = Call {
        tool: name.trim().to_owned(),
        rationale: rationale(object),
        id: text(object.get("id")),
        ..Call::default()
    };
    let filled = |key: &&&str| object.get(**key).is_some_and(|value| !value.is_null());
    if let Some(key) = PARAMETER_KEYS.iter().find(filled)
        && let Some(arguments) = object.get(*key)
    {
        return with_arguments(call, arguments);
    }
    // Parameters may be beside the name, without a key of their own.
    let inline: Object = object
        .iter()
        .filter(|(key, _)| {
            let key = key.as_str();
            key != used
                && !ENVELOPE.contains(&key)
                && !TOOL_KEYS.contains(&key)
                && !PARAMETER_KEYS.contains(&key)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if inline.is_empty() {
        return call;
    }
    Call {
        parameters: inline,
        repairs: vec![Repair::content("inline_parameters")],
        ..call
    }
}

/// Parses the arguments of a call: an object, or JSON text of one.
pub(super) fn with_arguments(call: Call, arguments: &Value) -> Call {
    match arguments {
        Value::Object(parameters) => Call {
            parameters: parameters.clone(),
            ..call
        },
        Value::Null => call,
        Value::String(text) if text.trim().is_empty() => call,
        Value::String(text) => match super::json_text::read_object(text, "") {
            Ok((parameters, repairs)) if text.trim_start().starts_with('{') => Call {
                parameters,
                repairs: [call.repairs, repairs].concat(),
                ..call
            },
            Ok(_) => unreadable(call, "they are text around an object"),
            Err(refused) => unreadable(call, &refused.feedback),
        },
        _ => unreadable(call, "they must be an object"),
    }
}

fn unreadable(call: Call, why: &str) -> Call {
    let error = format!("the arguments of {:?} cannot be read: {why}", call.tool);
    Call {
        parameters: Object::new(),
        error,
        ..call
    }
}

fn rationale(object: &Object) -> String {
    let given = text(object.get("rationale"));
    if given.is_empty() {
        text(object.get("justification"))
    } else {
        given
    }
}

fn remark(object: &Object) -> Option<Remark> {
    for key in THOUGHT_KEYS {
        match object.get(key) {
            Some(Value::String(content)) if !content.trim().is_empty() => {
                return Some(remark_of(content, object, object.get("thought_type")));
            }
            Some(Value::Object(thought)) => {
                let content = ["content", "text", "thought"]
                    .into_iter()
                    .find_map(|key| thought.get(key));
                let kind = thought.get("type").or_else(|| object.get("thought_type"));
                let mut whole = object.clone();
                whole.extend(thought.clone());
                return Some(remark_of(&text(content), &whole, kind));
            }
            _ => {}
        }
    }
    None
}

fn remark_of(content: &str, object: &Object, kind: Option<&Value>) -> Remark {
    const MOST: f64 = 1e6;
    let kind = kind
        .and_then(Value::as_str)
        .map(|it| it.trim().to_lowercase());
    let because = match object.get("because") {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_u64).collect(),
        Some(number) => number.as_u64().into_iter().collect(),
        None => Vec::new(),
    };
    let confidence = object.get("confidence").and_then(Value::as_f64);
    Remark {
        content: content.trim().to_owned(),
        kind: kind.filter(|it| !it.is_empty()),
        because,
        confidence: confidence.filter(|number| number.abs() <= MOST),
        critical: object.get("critical") == Some(&Value::Bool(true)),
        learned: text(object.get("learned")),
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(value) => crate::json::render(value),
    }
}

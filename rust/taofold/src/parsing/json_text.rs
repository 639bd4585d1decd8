//! JSON objects in the text of a model: fenced, in prose, or nearly JSON.

use crate::json::{Object, Value};
use crate::parsing::outcome::{Repair, Unparsed};

/// Characters of a text that a reading looks at.
const LONGEST: usize = 1_000_000;

/// An object that was found in a text, with what stands around it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) value: Value,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) repairs: Vec<Repair>,
}

/// What a search for objects ends in.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Search {
    pub(super) found: Vec<Found>,
    /// Whether an object begins that never ends.
    pub(super) cut: bool,
    /// Why an object could not be read.
    pub(super) fault: Option<String>,
}

/// Finds the objects of a text, the outermost ones, in order.
pub(super) fn objects(text: &str) -> Search {
    let mut search = Search::default();
    if text.len() > LONGEST {
        search.fault = Some("the reply is too long to be read".to_owned());
        return search;
    }
    let mut at = 0;
    while let Some(offset) = text[at..].find('{') {
        let start = at + offset;
        let Some(end) = balanced(text, start) else {
            search.cut = true;
            // What looks like an object in it may be half of it: nothing behind counts.
            break;
        };
        match lenient(&text[start..end]) {
            Ok((value, repairs)) => {
                search.found.push(Found {
                    value,
                    start,
                    end,
                    repairs,
                });
                at = end;
            }
            Err(error) => {
                search.fault.get_or_insert(error);
                at = end;
            }
        }
    }
    search
}

/// Returns the end of the object that starts at `start`; `None` if it has none.
fn balanced(text: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = false;
    let mut escaped = false;
    for (at, character) in text[start..].char_indices() {
        if quoted {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match character {
            '"' => quoted = true,
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(start + at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Reads JSON text strictly, else with the changes that cannot alter what it says.
fn lenient(text: &str) -> Result<(Value, Vec<Repair>), String> {
    if let Some(number) = crate::json::oversized_integer(text) {
        return Err(format!("the integer {number} is too large"));
    }
    let strict = match serde_json::from_str::<Value>(text) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(error) => error.to_string(),
    };
    let (mended, repairs) = mended(text);
    match serde_json::from_str(&mended) {
        Ok(value) if !repairs.is_empty() => Ok((value, repairs)),
        _ => Err(strict),
    }
}

/// Takes away trailing commas and comments, escapes line breaks in strings, and writes Python's
/// constants as JSON.
fn mended(text: &str) -> (String, Vec<Repair>) {
    let mut out = String::with_capacity(text.len());
    let mut kinds: Vec<&'static str> = Vec::new();
    let mut note = |kind: &'static str| {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    };
    let mut rest = text;
    let (mut quoted, mut escaped) = (false, false);
    while let Some(character) = rest.chars().next() {
        let length = character.len_utf8();
        if quoted {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => quoted = false,
                _ => {}
            }
            match character {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                other => out.push(other),
            }
            if matches!(character, '\n' | '\r' | '\t') {
                note("raw_line_break");
            }
            rest = &rest[length..];
            continue;
        }
        if character == '"' {
            quoted = true;
        } else if character == ',' && rest[1..].trim_start().starts_with(['}', ']']) {
            note("trailing_comma");
            rest = &rest[length..];
            continue;
        } else if rest.starts_with("//") {
            note("comment");
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        } else if let Some((python, json)) = constant(rest, &out) {
            note("python_constant");
            out.push_str(json);
            rest = &rest[python.len()..];
            continue;
        }
        out.push(character);
        rest = &rest[length..];
    }
    let repairs = kinds.into_iter().map(Repair::envelope).collect();
    (out, repairs)
}

fn constant(rest: &str, before: &str) -> Option<(&'static str, &'static str)> {
    const CONSTANTS: [(&str, &str); 3] = [("True", "true"), ("False", "false"), ("None", "null")];
    let word = |character: char| character.is_alphanumeric() || character == '_';
    let (python, json) = CONSTANTS
        .into_iter()
        .find(|(python, _)| rest.starts_with(python))?;
    let alone = !rest[python.len()..].starts_with(word) && !before.ends_with(word);
    alone.then_some((python, json))
}

/// Reads the one JSON object of a reply, in whatever wrapping.
///
/// # Errors
///
/// [`Unparsed`] with what the model is told: the reply is empty, cut off, holds several objects or
/// none, or an object that cannot be read.
pub fn read_object(text: &str, finish: &str) -> Result<(Object, Vec<Repair>), Unparsed> {
    let text = super::reply::without_reasoning(text);
    if text.trim().is_empty() {
        return Err(Unparsed::new(
            "empty",
            "The reply is empty. Send the answer as one JSON value.",
        ));
    }
    let search = objects(&text);
    if search.cut || crate::values::finish_of(finish) == "length" {
        return Err(Unparsed::new(
            "incomplete",
            "The reply was cut off before it was complete. Send it again, shorter.",
        ));
    }
    let mut found = search.found.into_iter();
    let Some(first) = found.next() else {
        return Err(match search.fault {
            Some(fault) => Unparsed::new("invalid", format!("The JSON cannot be read: {fault}")),
            None => Unparsed::new(
                "no_candidate",
                "No answer was found. Send one JSON value and nothing else.",
            ),
        });
    };
    if found.any(|other| other.value != first.value) {
        return Err(Unparsed::new(
            "ambiguous",
            "The reply holds several different answers. Send exactly one.",
        ));
    }
    let mut repairs = first.repairs;
    let outside = [&text[..first.start], &text[first.end..]];
    if outside.iter().any(|it| !it.trim().is_empty()) {
        repairs.insert(0, Repair::envelope("embedded_json"));
    }
    match first.value {
        Value::Object(members) => Ok((members, repairs)),
        _ => Err(Unparsed::new("invalid", "The reply must be a JSON object.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn read(text: &str) -> Result<Value, &'static str> {
        read_object(text, "stop")
            .map(|it| Value::Object(it.0))
            .map_err(|it| it.reason)
    }

    #[test]
    fn an_object_is_read_alone_fenced_and_in_prose() {
        let expected = Ok(json!({"a": 1}));
        assert_eq!(read(r#"{"a": 1}"#), expected);
        assert_eq!(read("```json\n{\"a\": 1}\n```"), expected);
        assert_eq!(read("Here it is: {\"a\": 1}. Done."), expected);
        assert_eq!(read("<think>{\"b\": 2}</think>{\"a\": 1}"), expected);
    }

    #[test]
    fn what_is_nearly_json_is_mended_with_a_receipt() {
        let (value, repairs) = read_object(
            "{\"a\": [1, 2,], // why\n \"b\": True, \"c\": \"x\ny\"}",
            "",
        )
        .unwrap();
        assert_eq!(
            Value::Object(value),
            json!({"a": [1, 2], "b": true, "c": "x\ny"})
        );
        let kinds: Vec<_> = repairs.iter().map(|repair| repair.kind).collect();
        assert_eq!(
            kinds,
            [
                "trailing_comma",
                "comment",
                "python_constant",
                "raw_line_break"
            ]
        );
    }

    #[test]
    fn words_inside_strings_stay_as_they_are() {
        let value = read("{\"a\": \"True, // None,]\",}");
        assert_eq!(value, Ok(json!({"a": "True, // None,]"})));
    }

    #[test]
    fn what_is_cut_ambiguous_or_none_is_refused() {
        assert_eq!(read("{\"thought\": \"I look"), Err("incomplete"));
        assert_eq!(read("{\"a\": 1} or {\"a\": 2}"), Err("ambiguous"));
        assert_eq!(read("no object"), Err("no_candidate"));
        assert_eq!(read("{a: b}"), Err("invalid"));
        assert_eq!(read(" "), Err("empty"));
        assert_eq!(read("{\"n\": 36893488147419103232}"), Err("invalid"));
        assert_eq!(
            read_object("{\"a\": 1}", "length").unwrap_err().reason,
            "incomplete"
        );
    }
}

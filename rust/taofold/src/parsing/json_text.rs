//! Finds JSON objects in the text of a model: fenced, in prose, or nearly valid.

use std::sync::LazyLock;

use regex::Regex;

use crate::json::{Object, Value, unambiguous};
use crate::parsing::outcome::{Repair, Unparsed};

/// The maximum number of characters that are searched.
const LONGEST: usize = 1_000_000;

/// An object found in a text, with its surroundings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) value: Value,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) repairs: Vec<Repair>,
}

/// The result of a search for objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Search {
    pub(super) found: Vec<Found>,
    /// The position of an object without an end.
    pub(super) cut: Option<usize>,
    /// The reason why an object could not be parsed.
    pub(super) fault: Option<String>,
}

/// A brace that begins an object: a key or the end of the object follows. Any other brace is text.
static OPENING: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\A\{\s*(?:["'“}]|[\p{L}_][\w-]*\s*:)"#).ok());

/// A key without quotes, as in `JavaScript`.
static BARE_KEY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\A[\w$][\w$.-]{0,63}(?:\s*:)").ok());

/// Returns an unquoted key at the start of the text, before its colon.
fn bare_key(text: &str) -> Option<&str> {
    let found = BARE_KEY.as_ref()?.find(text)?.as_str();
    Some(found.strip_suffix(':')?.trim_end())
}

/// Finds the outermost objects of a text, in order.
pub(super) fn objects(text: &str) -> Search {
    let mut search = Search::default();
    if text.len() > LONGEST {
        search.fault = Some("the reply is too long to be read".to_owned());
        return search;
    }
    let mut at = 0;
    while let Some(offset) = text[at..].find('{') {
        let start = at + offset;
        let opens = |pattern: &Regex| pattern.is_match(&text[start..]);
        if !OPENING.as_ref().is_some_and(opens) {
            at = start + 1;
            continue;
        }
        let Some(end) = balanced(text, start) else {
            search.cut = Some(start);
            // A nested object may be only half of a value, so nothing after it counts.
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
    let mut before = ' ';
    let mut at = start;
    while let Some(character) = text[at..].chars().next() {
        if opens_string(character, before) {
            at = string_end(text, at)?;
            before = character;
            continue;
        }
        at += character.len_utf8();
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        if !character.is_whitespace() {
            before = character;
        }
    }
    None
}

/// Returns true if a character begins a string.
///
/// An apostrophe begins one only where a key or value is expected, as in Python; `before` is the
/// preceding character.
fn opens_string(character: char, before: char) -> bool {
    character == '"' || (character == '\'' && matches!(before, '{' | '[' | ',' | ':'))
}

/// Returns the end of the string whose quote is at `start`; `None` if it has none.
///
/// An apostrophe ends a string only before a punctuation mark: `'it's'` contains one.
fn string_end(text: &str, start: usize) -> Option<usize> {
    let quote = text[start..].chars().next()?;
    let mut escaped = false;
    for (at, character) in text[start..].char_indices().skip(1) {
        let end = start + at + character.len_utf8();
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => {
                let marks = [',', ':', '}', ']'];
                if quote == '"' || text[end..].trim_start().starts_with(marks) {
                    return Some(end);
                }
            }
            _ => {}
        }
    }
    None
}

/// Parses JSON text strictly, or with changes that cannot alter its meaning.
fn lenient(text: &str) -> Result<(Value, Vec<Repair>), String> {
    let strict = match exact(text) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(error) => error,
    };
    let (mended, repairs) = mended(text);
    if repairs.is_empty() {
        return Err(strict);
    }
    // If no repair helps, the first error is reported.
    let value = exact(&mended).map_err(|_| strict)?;
    Ok((value, repairs))
}

/// Parses JSON text strictly and rejects numbers that would lose digits.
fn exact(text: &str) -> Result<Value, String> {
    let value = unambiguous(text).map_err(|error| error.to_string())?;
    match crate::json::oversized_integer(text) {
        Some(number) => Err(format!("the integer {number} is too large")),
        None => Ok(value),
    }
}

/// Removes trailing commas and comments, escapes line breaks in strings, quotes keys, and converts
/// Python's strings and constants to JSON.
fn mended(text: &str) -> (String, Vec<Repair>) {
    let mut out = String::with_capacity(text.len());
    let mut kinds: Vec<&'static str> = Vec::new();
    let mut note = |kind: &'static str| {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    };
    let mut rest = text;
    let mut before = ' ';
    // The open brackets: in an object a key is expected after its brace and after each comma.
    let mut open: Vec<char> = Vec::new();
    while let Some(character) = rest.chars().next() {
        let length = character.len_utf8();
        let key_is_due = open.last() == Some(&'{') && matches!(before, '{' | ',');
        if key_is_due && let Some(key) = bare_key(rest) {
            note("unquoted_key");
            out.extend(["\"", key, "\""]);
            rest = &rest[key.len()..];
            before = '"';
            continue;
        }
        let end = opens_string(character, before)
            .then(|| string_end(rest, 0))
            .flatten();
        if let Some(end) = end {
            if character == '\'' {
                note("foreign_quotes");
            }
            if string_of(&rest[1..end - 1], &mut out) {
                note("raw_newline");
            }
            rest = &rest[end..];
        } else if character == ',' && rest[1..].trim_start().starts_with(['}', ']']) {
            note("trailing_comma");
            rest = &rest[length..];
            continue;
        } else if rest.starts_with("//") {
            note("comment");
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        } else if let Some((python, json)) = constant(rest, &out) {
            note("foreign_literal");
            out.push_str(json);
            rest = &rest[python.len()..];
        } else {
            match character {
                '{' | '[' => open.push(character),
                '}' | ']' => drop(open.pop()),
                _ => {}
            }
            out.push(character);
            rest = &rest[length..];
        }
        if !character.is_whitespace() {
            before = character;
        }
    }
    let repairs = kinds.into_iter().map(Repair::envelope).collect();
    (out, repairs)
}

/// Appends the text between the quotes of a string as a JSON string. Returns true if it contained a
/// line break.
fn string_of(body: &str, out: &mut String) -> bool {
    let mut breaks = false;
    let mut escaped = false;
    out.push('"');
    for character in body.chars() {
        if escaped && character != '\'' {
            out.push('\\');
        }
        let control = match character {
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '"' if !escaped => "\\\"",
            _ => "",
        };
        breaks |= character.is_control();
        if !control.is_empty() {
            out.push_str(control);
        } else if escaped || character != '\\' {
            out.push(character);
        }
        escaped = character == '\\' && !escaped;
    }
    out.push('"');
    breaks
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

/// Parses the only JSON object of a reply, in any wrapping.
///
/// # Errors
///
/// [`Unparsed`] with feedback for the model: the reply is empty, cut off, holds several objects or
/// none, or an object that cannot be parsed.
pub fn read_object(text: &str, finish: &str) -> Result<(Object, Vec<Repair>), Unparsed> {
    let whole = text.len();
    let text = super::reply::without_reasoning(text);
    if text.trim().is_empty() {
        return Err(Unparsed::new(
            "empty",
            "The reply is empty. Send the answer as one JSON value.",
        ));
    }
    if super::reply::ends_inside_reasoning(&text) {
        return Err(super::reply::unfinished());
    }
    let search = objects(&text);
    if search.cut.is_some() || crate::values::finish_of(finish) == "length" {
        return Err(Unparsed::new(
            "incomplete",
            "The reply was cut off before it was complete. Send it again, shorter.",
        ));
    }
    let mut found = search.found.into_iter();
    let Some(first) = found.next() else {
        return Err(match search.fault {
            Some(fault) => Unparsed::new("invalid", format!("The JSON cannot be read: {fault}")),
            None if is_array(&text) => Unparsed::new(
                "invalid",
                "Correct only this: the value: expected an object, got a list",
            ),
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
    if first.end - first.start < whole {
        repairs.insert(0, Repair::envelope("located"));
    }
    match first.value {
        Value::Object(members) => Ok((members, repairs)),
        _ => Err(Unparsed::new("invalid", "The reply must be a JSON object.")),
    }
}

/// Returns true if a text is a JSON list, optionally fenced.
fn is_array(text: &str) -> bool {
    let text = text
        .trim()
        .trim_start_matches("```json")
        .trim_matches('`')
        .trim();
    text.starts_with('[') && serde_json::from_str::<Value>(text).is_ok()
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
                "foreign_literal",
                "raw_newline"
            ]
        );
    }

    #[test]
    fn strings_of_python_are_read() {
        let (value, repairs) =
            read_object(r#"{'a': 'it's "so"', 'b': ['\'', "don't"], 'c': None}"#, "").unwrap();
        let expected = json!({"a": "it's \"so\"", "b": ["'", "don't"], "c": null});
        assert_eq!(Value::Object(value), expected);
        let kinds: Vec<_> = repairs.iter().map(|repair| repair.kind).collect();
        assert_eq!(kinds, ["foreign_quotes", "foreign_literal"]);
        assert_eq!(read("{'a': 'b"), Err("incomplete"));
    }

    #[test]
    fn keys_without_quotes_are_read() {
        let text = r#"{a: 1, $b.c-d : [x_1, {e: "f: 1, g: 2"}], "h": {True: 2,}}"#;
        assert_eq!(read(text), Err("invalid"), "a word is no value");
        let (value, repairs) = read_object(&text.replace("x_1", "true"), "").unwrap();
        let expected = json!({"a": 1, "$b.c-d": [true, {"e": "f: 1, g: 2"}], "h": {"True": 2}});
        assert_eq!(Value::Object(value), expected);
        let kinds: Vec<_> = repairs.iter().map(|repair| repair.kind).collect();
        assert_eq!(kinds, ["unquoted_key", "trailing_comma"]);
    }

    #[test]
    fn a_key_that_is_given_twice_is_refused() {
        assert_eq!(read(r#"{"a": 1, "a": 2}"#), Err("invalid"));
        assert_eq!(read("{a: 1, 'a': 2}"), Err("invalid"));
        assert_eq!(read(r#"{"a": 1, "a": 1}"#), Ok(json!({"a": 1})));
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
        assert_eq!(read("```json\n[1, 2]\n```"), Err("invalid"));
        assert_eq!(read("{\"n\": 36893488147419103232}"), Err("invalid"));
        assert_eq!(
            read_object("{\"a\": 1}", "length").unwrap_err().reason,
            "incomplete"
        );
    }
}

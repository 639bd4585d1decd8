//! Converts a server's result to an observation: texts unchanged, other content described.

use crate::json::{Object, Value, json};
use crate::text::{clip, excerpt};
use crate::tools::literal;
use crate::values::Observation;

/// The maximum number of characters of a result.
const FLOOD: usize = 1_000_000;

/// Returns the observation of a complete call.
///
/// `result` is the server's JSON in any form. A block that cannot be parsed becomes a text that
/// names it, and does not affect the others.
pub(super) fn observation(result: &Value) -> Observation {
    let blocks = match result.get("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks.clone(),
        Some(block) => vec![block.clone()],
    };
    let texts: Vec<String> = blocks.iter().map(block_text).collect();
    let text = excerpt(&texts.join("\n"), FLOOD);
    if is_error(result) {
        return Observation::failure(match text.as_str() {
            "" => "the server reports an error and does not say which".to_owned(),
            text => text.to_owned(),
        });
    }
    let value = match result.get("structuredContent") {
        None | Some(Value::Null) => Value::String(text),
        Some(value) => bounded(structured(value, &blocks, &texts), text),
    };
    Observation {
        result: value,
        ..Observation::default()
    }
}

/// Returns true if the server reports the call as failed.
pub(super) fn is_error(result: &Value) -> bool {
    match result.get("isError") {
        Some(Value::Bool(failed)) => *failed,
        Some(Value::String(word)) => matches!(word.to_lowercase().as_str(), "true" | "1"),
        Some(Value::Number(number)) => number.as_u64() == Some(1),
        _ => false,
    }
}

/// Returns the structured result without its wrapper, and any additional content.
///
/// Servers also send it as text, which is dropped; other texts are kept.
fn structured(value: &Value, blocks: &[Value], texts: &[String]) -> Value {
    let value = match value {
        Value::Object(members) if members.len() == 1 => members.get("result").unwrap_or(value),
        value => value,
    };
    // A text inside an object would be escaped in the prompt.
    if let (Value::Object(members), [text]) = (value, texts)
        && members.len() == 1
        && members.values().all(|it| it == text)
    {
        return json!(text);
    }
    let attached: Vec<&String> = blocks
        .iter()
        .zip(texts)
        .filter(|(block, text)| {
            block.get("type").and_then(Value::as_str) != Some("text") || !repeats(text, value)
        })
        .map(|(_, text)| text)
        .collect();
    if attached.is_empty() {
        return value.clone();
    }
    json!({"result": value, "attached": attached})
}

/// Returns true if a text repeats the structured result or one of its members.
fn repeats(text: &str, value: &Value) -> bool {
    if text.trim().is_empty() || value == text {
        return true;
    }
    let said: Value = serde_json::from_str(text.trim()).unwrap_or_else(|_| json!(text));
    said == *value
        || said == json!({"result": value})
        || value.as_array().is_some_and(|items| items.contains(&said))
}

fn bounded(value: Value, text: String) -> Value {
    if value.to_string().len() <= FLOOD {
        return value;
    }
    if text.is_empty() {
        json!(excerpt(&literal(&value), FLOOD))
    } else {
        json!(text)
    }
}

fn block_text(block: &Value) -> String {
    let Some(members) = block.as_object() else {
        return match block {
            Value::String(text) => text.clone(),
            other => described(other, "block"),
        };
    };
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    match text("type") {
        Some("text") => match members.get("text") {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => literal(value),
            _ => described(block, "text"),
        },
        Some(kind @ ("image" | "audio")) if text("data").is_some() => {
            let mime = text("mimeType").unwrap_or("application/octet-stream");
            let size = bytes(text("data"));
            format!("[{kind} {mime}, {size} bytes, not shown]")
        }
        Some("resource_link") if text("uri").is_some() => {
            let uri = text("uri").unwrap_or_default();
            let name = literal(&json!(text("name").unwrap_or(uri)));
            let heading = format!("[resource {name} at {uri}]");
            match text("description") {
                Some(more) if !more.is_empty() => format!("{heading} {more}"),
                _ => heading,
            }
        }
        Some("resource") => match members.get("resource").and_then(Value::as_object) {
            Some(held) => resource(held).unwrap_or_else(|| described(block, "resource")),
            None => described(block, "resource"),
        },
        Some(kind) => described(block, kind),
        None => described(block, "block"),
    }
}

fn resource(held: &Object) -> Option<String> {
    let text = |name: &str| held.get(name).and_then(Value::as_str);
    if let Some(text) = text("text") {
        return Some(text.to_owned());
    }
    let size = bytes(Some(text("blob")?));
    let uri = text("uri").unwrap_or("unknown:");
    let kind = text("mimeType").unwrap_or("unknown type");
    Some(format!("[resource {uri}: {kind}, {size} bytes, not shown]"))
}

fn bytes(encoded: Option<&str>) -> usize {
    (encoded.map_or(0, str::len) * 3 + 2) / 4
}

fn described(block: &Value, kind: &str) -> String {
    let kind = clip(kind, 40);
    let words = clip(&literal(block), 200);
    format!("[{kind} that cannot be shown: {words}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(content: Value, structured: Value) -> Value {
        observation(&json!({"content": content, "structuredContent": structured})).result
    }

    #[test]
    fn a_structured_result_is_told_once() {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        assert_eq!(result(text(r#"{"result": 3}"#), json!({"result": 3})), 3);
        assert_eq!(result(text("hi"), json!({"text": "hi"})), "hi");
        assert_eq!(
            result(text("beside"), json!({"a": 1})),
            json!({"result": {"a": 1}, "attached": ["beside"]})
        );
        assert_eq!(result(text("only"), Value::Null), "only");
    }

    #[test]
    fn a_block_that_cannot_be_read_spoils_no_other() {
        let content = json!([
            {"type": "smell", "of": "roses"}, "plain", {"type": "text"}, 7,
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x:y", "text": "held"}},
        ]);
        assert_eq!(
            result(content, Value::Null),
            "[smell that cannot be shown: {'type': 'smell', 'of': 'roses'}]\nplain\n[text that \
             cannot be shown: {'type': 'text'}]\n[block that cannot be shown: 7]\n[image image/png, \
             3 bytes, not shown]\nheld"
        );
        let failed = observation(&json!({"isError": true}));
        assert!(failed.status.failed());
    }
}

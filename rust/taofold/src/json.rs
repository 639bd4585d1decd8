//! JSON values: their text, serde helpers, and numbers that JSON cannot represent.
//!
//! This module does not depend on events or schemas.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
pub use serde_json::{Map, Value, json};

/// A JSON object. Keys keep their order, but objects are equal in any order.
pub type Object = Map<String, Value>;

/// Returns true if a field has its default, so that the encoder omits it.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Serializes a number and refuses NaN and infinity, which serde_json would write as `null`.
pub(crate) fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        Err(serde::ser::Error::custom(
            "NaN and Infinity are no numbers of JSON",
        ))
    }
}

/// Serializes an optional number under the rule of [`finite`].
pub(crate) fn finite_option<S: Serializer>(
    value: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(number) => finite(number, serializer),
        None => serializer.serialize_none(),
    }
}

/// Returns a value as text: strings as they are, everything else as JSON.
pub fn render(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns JSON text with the keys of every object sorted, so that equal values have equal text.
pub fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut pairs: Vec<_> = members.iter().collect();
                pairs.sort_by(|a, b| a.0.cmp(b.0));
                Value::Object(
                    pairs
                        .into_iter()
                        .map(|(name, member)| (name.clone(), sorted(member)))
                        .collect(),
                )
            }
            Value::Array(entries) => Value::Array(entries.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}

/// Returns the first integer in JSON text that does not fit 64 bits.
///
/// serde_json would read it as a float and lose digits without an error.
pub fn oversized_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let end = number_end(bytes, at);
                let token = &text[at..end];
                let integer = !token.contains(['.', 'e', 'E']);
                if integer && token.parse::<u64>().is_err() && token.parse::<i64>().is_err() {
                    return Some(token);
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    None
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn number_end(bytes: &[u8], start: usize) -> usize {
    let part =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
    let length = bytes[start..].iter().take_while(|byte| part(byte)).count();
    start + length.max(1)
}

/// Parses JSON text and rejects an object in which a key has two different values.
///
/// `serde_json` would take the last of them, although the intended one is unknown.
pub(crate) fn unambiguous(text: &str) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Unambiguous.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

struct Unambiguous;

impl<'de> DeserializeSeed<'de> for Unambiguous {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unambiguous {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(entry) = entries.next_element_seed(Unambiguous)? {
            read.push(entry);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Object::new();
        while let Some(key) = members.next_key::<String>()? {
            let member = members.next_value_seed(Unambiguous)?;
            if read.get(&key).is_some_and(|before| *before != member) {
                return Err(A::Error::custom(format!("the key {key:?} is given twice")));
            }
            read.insert(key, member);
        }
        Ok(Value::Object(read))
    }
}

/// Serializes any value to a [`Value`]. A value that JSON cannot represent becomes `null`.
pub(crate) fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_of_more_than_64_bits_is_found_outside_of_strings_only() {
        assert_eq!(
            oversized_integer(r#"{"a": [1, 18446744073709551616]}"#),
            Some("18446744073709551616")
        );
        assert_eq!(oversized_integer(r#"{"a": "18446744073709551616"}"#), None);
        assert_eq!(oversized_integer("-9223372036854775808"), None);
        assert_eq!(oversized_integer("18446744073709551615"), None);
        assert_eq!(oversized_integer("1e30"), None);
        assert_eq!(oversized_integer(r#""\" 99999999999999999999""#), None);
    }

    #[test]
    fn a_key_with_two_values_is_refused() {
        let text = r#"{"a": [1, -2, 3.5, null, true, {"b": "x", "b": "x"}]}"#;
        let read = unambiguous(text).unwrap();
        assert_eq!(read, serde_json::from_str::<Value>(text).unwrap());
        let wrong = unambiguous(r#"[{"a": 1, "a": 2}]"#)
            .unwrap_err()
            .to_string();
        assert!(wrong.starts_with("the key \"a\" is given twice"), "{wrong}");
        assert!(unambiguous("{} {}").is_err());
    }

    #[test]
    fn canonical_text_does_not_depend_on_the_order_of_keys() {
        assert_eq!(
            canonical(&json!({"b": {"d": 1, "c": 2}, "a": 3})),
            r#"{"a":3,"b":{"c":2,"d":1}}"#
        );
    }
}

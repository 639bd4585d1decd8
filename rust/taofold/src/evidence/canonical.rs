//! The canonical form of JSON (RFC 8785, JCS).
//!
//! It deviates from the RFC in one point: a number without fraction and exponent keeps its digits.
//! This module does not depend on records.

use std::collections::HashMap;

use serde::de::Error as _;
use serde_json::value::RawValue;

/// The most characters of a number without fraction and exponent.
const MOST_DIGITS: usize = 4300;
/// The deepest nesting, which is also that of `serde_json`.
const DEEPEST: usize = 128;

/// Returns the canonical form of JSON text.
///
/// # Errors
///
/// `text` is not JSON, is nested too deep, or holds a number beyond the range of doubles.
pub(super) fn canonical(text: &str) -> Result<String, serde_json::Error> {
    let mut written = String::with_capacity(text.len());
    // Kept as text, because a parsed number has lost digits.
    write_value(&mut written, serde_json::from_str(text)?, DEEPEST)?;
    Ok(written)
}

fn write_value(to: &mut String, value: &RawValue, depth: usize) -> Result<(), serde_json::Error> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{' | b'[') if depth == 0 => {
            return Err(serde_json::Error::custom("nested too deep"));
        }
        Some(b'{') => write_object(to, text, depth - 1)?,
        Some(b'[') => write_array(to, text, depth - 1)?,
        Some(b'"') => write_string(to, &serde_json::from_str::<String>(text)?)?,
        Some(b'-' | b'0'..=b'9') => write_number(to, text)?,
        _ => to.push_str(text),
    }
    Ok(())
}

fn write_object(to: &mut String, text: &str, depth: usize) -> Result<(), serde_json::Error> {
    // The last value of a repeated key remains.
    let members: HashMap<String, &RawValue> = serde_json::from_str(text)?;
    let mut members: Vec<_> = members.into_iter().collect();
    members.sort_unstable_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    to.push('{');
    for (place, (key, member)) in members.into_iter().enumerate() {
        if place > 0 {
            to.push(',');
        }
        write_string(to, &key)?;
        to.push(':');
        write_value(to, member, depth)?;
    }
    to.push('}');
    Ok(())
}

fn write_array(to: &mut String, text: &str, depth: usize) -> Result<(), serde_json::Error> {
    let entries: Vec<&RawValue> = serde_json::from_str(text)?;
    to.push('[');
    for (place, entry) in entries.into_iter().enumerate() {
        if place > 0 {
            to.push(',');
        }
        write_value(to, entry, depth)?;
    }
    to.push(']');
    Ok(())
}

/// Writes a string: `serde_json` uses the escapes of the RFC.
fn write_string(to: &mut String, text: &str) -> Result<(), serde_json::Error> {
    to.push_str(&serde_json::to_string(text)?);
    Ok(())
}

fn write_number(to: &mut String, text: &str) -> Result<(), serde_json::Error> {
    if !text.contains(['.', 'e', 'E']) {
        if text.len() > MOST_DIGITS {
            return Err(serde_json::Error::custom("a number has too many digits"));
        }
        to.push_str(if text == "-0" { "0" } else { text });
        return Ok(());
    }
    let number = text.parse::<f64>().unwrap_or(f64::INFINITY);
    if !number.is_finite() {
        let message = format!("{text} is beyond the range of doubles");
        return Err(serde_json::Error::custom(message));
    }
    to.push_str(ryu_js::Buffer::new().format_finite(number));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Vectors {
        canonical: Vec<(String, String)>,
        repeated_keys: Vec<(String, String)>,
        refused: Vec<String>,
    }

    fn vectors() -> Vectors {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/evidence.json"
        );
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    #[test]
    fn the_shared_texts_have_the_canonical_form_of_python() {
        let Vectors {
            canonical: texts,
            repeated_keys,
            ..
        } = vectors();
        for (text, expected) in texts.into_iter().chain(repeated_keys) {
            assert_eq!(canonical(&text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn the_shared_texts_without_a_canonical_form_are_refused() {
        for text in vectors().refused {
            assert!(canonical(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_no_crash() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(canonical(&nested(DEEPEST)).unwrap(), nested(DEEPEST));
        assert!(canonical(&nested(DEEPEST + 1)).is_err());
        assert!(canonical(&nested(100_000)).is_err());
    }
}

//! Redaction: removes known secrets from text on input, before it is written or shown.
//!
//! This runtime removes the values that its caller names. Unlike the Python runtime, it does not
//! detect secrets by their form (tokens, keys in PEM).

use std::borrow::Cow;

use crate::json::{Object, Value};

/// The mask that replaces a secret.
pub const MARK: &str = "[redacted]";

/// The minimum length of a secret; shorter values would mask ordinary words.
const SHORTEST: usize = 4;

/// Removes known values from text and JSON.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The secrets, longest first, so that a secret that contains another is replaced completely.
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redactor({} secrets)", self.secrets.len())
    }
}

/// Returns true if redaction replaced a secret. Masks that were already present do not count.
pub fn is_masked(before: &str, after: &str) -> bool {
    before != after && after.matches(MARK).count() > before.matches(MARK).count()
}

/// Returns true if a JSON value contains a mask, in a name or a value.
pub fn has_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MARK),
        Value::Array(entries) => entries.iter().any(has_mask),
        Value::Object(members) => members
            .iter()
            .any(|(name, member)| name.contains(MARK) || has_mask(member)),
        _ => false,
    }
}

impl Redactor {
    /// Returns a redactor for these values and their JSON forms.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut forms: Vec<String> = secrets
            .into_iter()
            .filter(|secret| secret.chars().count() >= SHORTEST)
            .flat_map(|secret| {
                let escaped = Value::String(secret.clone()).to_string();
                let escaped = escaped.trim_matches('"').to_owned();
                [secret, escaped]
            })
            .collect();
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self { secrets: forms }
    }

    /// Returns the text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for secret in &self.secrets {
            if clean.contains(secret.as_str()) {
                clean = Cow::Owned(clean.replace(secret.as_str(), MARK));
            }
        }
        clean
    }

    /// Returns the JSON value without secrets in its names and values.
    pub fn value(&self, value: Value) -> Value {
        if self.secrets.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text).into_owned()),
            Value::Array(entries) => entries.into_iter().map(|entry| self.value(entry)).collect(),
            Value::Object(members) => Value::Object(self.object(members)),
            // A secret may also be a number.
            Value::Number(number) if self.secrets.contains(&number.to_string()) => {
                Value::String(MARK.to_owned())
            }
            other => other,
        }
    }

    /// Returns the JSON object without secrets.
    pub fn object(&self, members: Object) -> Object {
        if self.secrets.is_empty() {
            return members;
        }
        members
            .into_iter()
            .map(|(key, member)| (self.text(&key).into_owned(), self.value(member)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn a_known_value_is_taken_out_of_keys_values_numbers_and_escaped_text() {
        let redactor = Redactor::new(["s3cr\"et".to_owned(), "123456".to_owned()]);
        let value =
            json!({"s3cr\"et": ["a s3cr\"et b"], "n": 123456, "raw": "{\"k\": \"s3cr\\\"et\"}"});
        assert_eq!(
            redactor.value(value),
            json!({"[redacted]": ["a [redacted] b"], "n": "[redacted]", "raw": "{\"k\": \"[redacted]\"}"})
        );
    }

    #[test]
    fn the_longer_of_two_values_goes_as_a_whole() {
        let redactor = Redactor::new(["abcd".to_owned(), "abcdefgh".to_owned()]);
        assert_eq!(redactor.text("x abcdefgh y"), "x [redacted] y");
    }

    #[test]
    fn debug_output_does_not_show_secrets() {
        let redactor = Redactor::new(["hunter22".to_owned()]);
        assert!(!format!("{redactor:?}").contains("hunter"));
    }
}

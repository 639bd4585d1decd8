//! Redaction: known secrets are taken out where text enters, before anything is written or shown.
//!
//! This runtime takes out the values that its caller names. It does not look for secrets by form
//! (tokens, keys in PEM) as the Python runtime does.

use std::borrow::Cow;

use crate::json::{Object, Value};

/// What stands in place of a secret.
pub const MARK: &str = "[redacted]";

/// Values shorter than this are no secrets: they would blank ordinary words.
const SHORTEST: usize = 4;

/// Takes known values out of text and JSON.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The longest first, so that one that holds another goes as a whole.
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redactor({} secrets)", self.secrets.len())
    }
}

/// Whether a secret was replaced between the two texts. A mask that was there before replaced none.
pub fn is_masked(before: &str, after: &str) -> bool {
    before != after && after.matches(MARK).count() > before.matches(MARK).count()
}

/// Whether a mask stands in JSON, in a name or a value.
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
    /// Returns a redactor of these values, and of their JSON forms.
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

    /// Returns JSON without secrets, in keys as in values.
    pub fn value(&self, value: Value) -> Value {
        if self.secrets.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text).into_owned()),
            Value::Array(entries) => entries.into_iter().map(|entry| self.value(entry)).collect(),
            Value::Object(members) => Value::Object(self.object(members)),
            // A secret may be a number, too.
            Value::Number(number) if self.secrets.contains(&number.to_string()) => {
                Value::String(MARK.to_owned())
            }
            other => other,
        }
    }

    /// Returns a JSON object without secrets.
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

//! A model without a network, which returns the simplest value that a schema allows.

use async_trait::async_trait;

use crate::errors::{ConfigError, ModelError};
use crate::json::{Value, json};
use crate::model::{Model, Request};
use crate::values::{Profile, Reply};

/// Returns the simplest value that the request's schema allows: `test:answer`.
#[derive(Debug)]
pub struct TestModel {
    profile: Profile,
}

impl TestModel {
    /// Returns the test model with this name.
    ///
    /// # Errors
    ///
    /// Any name other than `answer`.
    pub fn named(name: &str) -> Result<Self, ConfigError> {
        if name != "answer" {
            let message = format!("there is no test model {name:?}: this runtime has test:answer");
            return Err(ConfigError::new("model", message));
        }
        Ok(Self {
            profile: Profile {
                window: 1_000_000,
                window_known: true,
                json_schema: true,
                ..Profile::default()
            },
        })
    }
}

#[async_trait]
impl Model for TestModel {
    fn name(&self) -> &str {
        "test:answer"
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn ask(&self, request: Request<'_>) -> Result<Reply, ModelError> {
        let text = match request.schema {
            Some(schema) => simplest(schema).to_string(),
            None => "a".to_owned(),
        };
        Ok(Reply {
            model: self.name().to_owned(),
            finish: "stop".to_owned(),
            ..Reply::text_only(text)
        })
    }
}

/// Returns the simplest value of a schema. Of several alternatives it takes the last one, which is
/// `finish` for a turn.
fn simplest(schema: &Value) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return values.first().cloned().unwrap_or_default();
    }
    if let Some(fixed) = schema.get("const") {
        return fixed.clone();
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(last) = schema[several].as_array().and_then(|forms| forms.last()) {
            return simplest(last);
        }
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => {
            let required: Vec<&str> = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let properties = schema["properties"].as_object().into_iter().flatten();
            let needed = properties.filter(|(name, _)| required.contains(&name.as_str()));
            Value::Object(
                needed
                    .map(|(name, inner)| (name.clone(), simplest(inner)))
                    .collect(),
            )
        }
        "array" => json!([]),
        "integer" | "number" => json!(0),
        "boolean" => json!(false),
        "null" => Value::Null,
        _ => json!("a"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplest_value_has_what_is_required_and_no_more() {
        let schema = json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "kind": {"enum": ["x", "y"]},
                "action": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
                "more": {"type": "string"},
            },
            "required": ["n", "kind", "action"],
        });
        assert_eq!(
            simplest(&schema),
            json!({"n": 0, "kind": "x", "action": false})
        );
    }
}

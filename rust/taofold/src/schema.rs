//! Validates parameters and results against a JSON Schema of a server or a built-in tool.
//!
//! The supported rules are `type`, `properties`, `required`, `additionalProperties`, `items`,
//! `enum`, `const`, `minimum` and `maximum`. They cover typical mistakes of models, which are
//! reported before any approval. All other rules are left to the server, which validates again. A
//! schema may be hostile, so the number of steps of each check is bounded.

use std::cell::Cell;

use crate::json::{Object, Value, json};
use crate::text::clip;
use crate::tools::literal;

const STEPS: u32 = 30_000;
const LONGEST: usize = 300;
const KINDS: [&str; 7] = [
    "string", "integer", "number", "boolean", "null", "array", "object",
];

/// A valid schema.
#[derive(Debug, Clone)]
pub(crate) struct Schema(Value);

impl Schema {
    /// Returns the schema, or the reason why it is invalid.
    pub(crate) fn new(schema: Value) -> Result<Self, String> {
        flaw(&schema, 0).map_or(Ok(Self(schema)), Err)
    }

    /// Returns the faults of a value in one text.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let check = Check {
            left: Cell::new(STEPS),
        };
        let mut faults = Vec::new();
        check.visit(&self.0, value, "", &mut faults);
        // An incomplete check rejects nothing, because the server validates again.
        if faults.is_empty() || check.left.get() == 0 {
            return Ok(());
        }
        let mut unique: Vec<String> = Vec::new();
        for fault in faults {
            if !unique.contains(&fault) {
                unique.push(clip(&fault, LONGEST));
            }
        }
        Err(unique.join("; "))
    }
}

/// Returns the reason why the schema is invalid, considering only the supported rules.
fn flaw(schema: &Value, depth: u32) -> Option<String> {
    if depth > 64 {
        return Some("it is nested too deeply".to_owned());
    }
    let rules = match schema {
        Value::Bool(_) => return None,
        Value::Object(rules) => rules,
        other => return Some(format!("{} is no schema", clip(&literal(other), 80))),
    };
    let is_kind = |kind: &Value| kind.as_str().is_some_and(|kind| KINDS.contains(&kind));
    let texts = |value: &Value| {
        let items = value.as_array();
        items.is_some_and(|items| items.iter().all(Value::is_string))
    };
    let sound = |name: &str, fits: &dyn Fn(&Value) -> bool| match rules.get(name) {
        Some(value) if !fits(value) => {
            let value = clip(&literal(value), 80);
            Some(format!("{name} may not be {value}"))
        }
        _ => None,
    };
    let kinds = |value: &Value| {
        is_kind(value)
            || value
                .as_array()
                .is_some_and(|it| !it.is_empty() && it.iter().all(is_kind))
    };
    let one = sound("type", &kinds)
        .or_else(|| sound("required", &texts))
        .or_else(|| sound("enum", &|value| value.is_array()))
        .or_else(|| sound("properties", &|value| value.is_object()));
    if one.is_some() {
        return one;
    }
    let properties = rules.get("properties").and_then(Value::as_object);
    let inner = properties.into_iter().flat_map(Object::values);
    let others = ["items", "additionalProperties"];
    let others = others.iter().filter_map(|name| rules.get(*name));
    inner
        .chain(others.filter(|it| !it.is_array()))
        .find_map(|it| flaw(it, depth + 1))
}

struct Check {
    left: Cell<u32>,
}

impl Check {
    fn visit(&self, schema: &Value, value: &Value, path: &str, faults: &mut Vec<String>) {
        let Some(left) = self.left.get().checked_sub(1) else {
            return;
        };
        self.left.set(left);
        let Some(rules) = schema.as_object() else {
            if schema == &Value::Bool(false) {
                faults.push(format!("{}: nothing is allowed here", place(path)));
            }
            return;
        };
        let mut fault = |text: String| {
            let got = clip(&literal(value), 80);
            faults.push(format!("{}: {text}, got {got}", place(path)));
        };
        if let Some(kinds) = rules.get("type")
            && !fits(kinds, value)
        {
            let kinds = match kinds {
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                kind => vec![kind.as_str().unwrap_or_default()],
            };
            fault(format!("must be {}", kinds.join(" or ")));
            return;
        }
        if let Some(Value::Array(values)) = rules.get("enum")
            && !values.iter().any(|it| same(it, value))
        {
            fault(format!("must be one of {}", literal(&json!(values))));
        }
        if let Some(constant) = rules.get("const")
            && !same(constant, value)
        {
            fault(format!("must be {}", literal(constant)));
        }
        if let Some(number) = value.as_f64() {
            let bound = |name: &str| rules.get(name).and_then(Value::as_f64);
            let mut beyond = |text: &str, bound: f64| {
                let got = literal(value);
                faults.push(format!("{}: {got} is {text} of {bound}", place(path)));
            };
            match (bound("minimum"), bound("maximum")) {
                (Some(least), _) if number < least => beyond("less than the minimum", least),
                (_, Some(most)) if number > most => beyond("greater than the maximum", most),
                _ => {}
            }
        }
        match value {
            Value::Object(members) => self.members(rules, members, path, faults),
            Value::Array(items) => {
                let rule = rules.get("items").filter(|it| !it.is_array());
                for (index, item) in items.iter().enumerate() {
                    if let Some(rule) = rule {
                        self.visit(rule, item, &format!("{path}[{index}]"), faults);
                    }
                }
            }
            _ => {}
        }
    }

    fn members(&self, rules: &Object, members: &Object, path: &str, faults: &mut Vec<String>) {
        let none = Object::new();
        let properties = rules.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&none);
        let below = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        // A pattern may allow names that `additionalProperties` forbids.
        let closed = rules.get("additionalProperties") == Some(&Value::Bool(false))
            && !rules.contains_key("patternProperties");
        for (name, value) in members {
            match properties.get(name) {
                Some(rule) => self.visit(rule, value, &below(name), faults),
                None if closed => {
                    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
                    let known = match known.as_slice() {
                        [] => "it takes none".to_owned(),
                        names => format!("it takes {}", names.join(", ")),
                    };
                    let name = literal(&json!(below(name)));
                    faults.push(format!("unknown parameter {name} ({known})"));
                }
                None => {
                    if let Some(rule @ Value::Object(_)) = rules.get("additionalProperties")
                        && !rules.contains_key("patternProperties")
                    {
                        self.visit(rule, value, &below(name), faults);
                    }
                }
            }
        }
        let required = rules.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                let name = literal(&json!(below(name)));
                faults.push(format!("missing parameter {name}"));
            }
        }
    }
}

fn place(path: &str) -> String {
    match path {
        "" => "the parameters".to_owned(),
        path => format!("parameter {}", literal(&json!(path))),
    }
}

fn fits(kinds: &Value, value: &Value) -> bool {
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(is_whole),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    match kinds {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0
}

/// Returns true if two values are equal in JSON Schema, where `1` equals `1.0`.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faults_of_a_call_are_told_in_the_words_of_the_python_runtime() {
        let schema = Schema::new(json!({
            "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]},
                           "c": {"enum": [1, "x"]}, "d": {"items": {"type": "boolean"}}},
            "required": ["a", "b"], "additionalProperties": false,
        }))
        .unwrap();
        let told = |value: Value| schema.check(&value).unwrap_err();
        assert_eq!(
            told(json!({"a": "x", "e": 1})),
            "parameter 'a': must be integer, got 'x'; unknown parameter 'e' (it takes a, b, c, d); \
             missing parameter 'b'"
        );
        assert_eq!(
            told(json!({"a": 1, "b": 2, "c": 2, "d": [true, 0]})),
            "parameter 'b': must be string or null, got 2; parameter 'c': must be one of [1, 'x'], \
             got 2; parameter 'd[1]': must be boolean, got 0"
        );
        assert!(
            schema
                .check(&json!({"a": 2.0, "b": null, "c": 1.0}))
                .is_ok()
        );
    }

    #[test]
    fn what_is_no_schema_is_refused_and_a_check_ends() {
        for schema in [
            json!({"type": "text"}),
            json!({"required": "a"}),
            json!({"enum": 1}),
            json!({"properties": {"a": {"type": []}}}),
            json!([]),
        ] {
            assert!(Schema::new(schema).is_err());
        }
        let many: Vec<Value> = vec![json!("x"); 100_000];
        let schema = Schema::new(json!({"items": {"type": "integer"}})).unwrap();
        assert!(schema.check(&json!(many)).is_ok());
    }
}

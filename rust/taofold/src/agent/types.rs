//! The notation of types in files: `str`, `list[int]`, `{name: str}`, or JSON Schema.

use crate::json::{Object, Value, json};

const NAMES: &str =
    "any, bool, dict, float, int, list, null, str, list[…], dict[str, …], a mapping";

/// A type of JSON values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Any,
    Null,
    Bool,
    Int,
    Float,
    Text,
    List(Box<Kind>),
    Dict(Box<Kind>),
    Union(Vec<Kind>),
    OneOf(Vec<Value>),
    Record(Record),
}

/// A record of named, typed fields. Other fields are rejected.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) title: String,
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) description: String,
}

impl Kind {
    /// Parses a type.
    pub(crate) fn read(written: &Value, title: &str) -> Result<Self, String> {
        match written {
            Value::String(text) => Self::named(text.trim()),
            Value::Array(entries) if entries.len() == 1 => {
                Ok(Self::List(Box::new(Self::read(&entries[0], title)?)))
            }
            Value::Object(members) if is_schema(members) => Self::of_schema(members, title),
            Value::Object(members) => Record::read(members, title).map(Self::Record),
            other => Err(format!("{other} is no type; known are {NAMES}")),
        }
    }

    fn named(text: &str) -> Result<Self, String> {
        if let Some(inner) = text.strip_suffix('?') {
            return Ok(Self::Union(vec![Self::named(inner.trim())?, Self::Null]));
        }
        if text.contains(" | ") {
            let kinds = text.split(" | ").map(|part| Self::named(part.trim()));
            return kinds.collect::<Result<_, _>>().map(Self::Union);
        }
        let inside = |head: &str| {
            let rest = text.strip_prefix(head)?;
            rest.strip_suffix(']')
        };
        if let Some(inner) = inside("list[").or_else(|| inside("array[")) {
            return Ok(Self::List(Box::new(Self::named(inner.trim())?)));
        }
        if let Some(inner) = inside("dict[")
            && let Some(("str", value)) = inner.split_once(',').map(|(a, b)| (a.trim(), b.trim()))
        {
            return Ok(Self::Dict(Box::new(Self::named(value)?)));
        }
        Ok(match text {
            "any" => Self::Any,
            "bool" | "boolean" => Self::Bool,
            "dict" | "object" => Self::Dict(Box::new(Self::Any)),
            "float" | "number" => Self::Float,
            "int" | "integer" => Self::Int,
            "list" | "array" => Self::List(Box::new(Self::Any)),
            "null" => Self::Null,
            "str" | "string" => Self::Text,
            other => return Err(format!("unknown type {other:?}; known are {NAMES}")),
        })
    }

    fn of_schema(schema: &Object, title: &str) -> Result<Self, String> {
        if let Some(Value::Array(values)) = schema.get("enum") {
            return Ok(Self::OneOf(values.clone()));
        }
        if let Some(Value::Array(kinds)) = schema.get("type") {
            let one = |kind: &Value| {
                let mut schema = schema.clone();
                schema.insert("type".to_owned(), kind.clone());
                Self::of_schema(&schema, title)
            };
            return kinds
                .iter()
                .map(one)
                .collect::<Result<_, _>>()
                .map(Self::Union);
        }
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or("any");
        match (kind, schema.get("items"), schema.get("properties")) {
            ("array", Some(items), _) => Ok(Self::List(Box::new(Self::read(items, title)?))),
            ("object", _, Some(Value::Object(properties))) => {
                let required = schema.get("required").and_then(Value::as_array);
                let mut fields = Vec::new();
                for (name, inner) in properties {
                    let needed = required.is_some_and(|all| all.iter().any(|it| it == name));
                    let kind = Self::read(inner, &format!("{title}_{name}"))?;
                    let described = inner.get("description").and_then(Value::as_str);
                    fields.push(Field {
                        name: name.clone(),
                        kind: if needed { kind } else { optional(kind) },
                        required: needed,
                        description: described.unwrap_or_default().to_owned(),
                    });
                }
                Ok(Self::Record(Record {
                    title: title.to_owned(),
                    fields,
                }))
            }
            _ => Self::named(kind),
        }
    }

    /// Returns the JSON Schema of the type, without a title.
    pub(crate) fn schema(&self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Null => json!({"type": "null"}),
            Self::Bool => json!({"type": "boolean"}),
            Self::Int => json!({"type": "integer"}),
            Self::Float => json!({"type": "number"}),
            Self::Text => json!({"type": "string"}),
            Self::List(inner) => json!({"type": "array", "items": inner.schema()}),
            Self::Dict(inner) if **inner == Self::Any => {
                json!({"type": "object", "additionalProperties": true})
            }
            Self::Dict(inner) => json!({"type": "object", "additionalProperties": inner.schema()}),
            Self::Union(kinds) => {
                json!({"anyOf": kinds.iter().map(Self::schema).collect::<Vec<_>>()})
            }
            Self::OneOf(values) => json!({"enum": values}),
            Self::Record(record) => record.schema(),
        }
    }

    /// Validates a value and returns it in the form of this type.
    pub(crate) fn accept(&self, value: &Value) -> Result<Value, String> {
        self.check(value, "the answer")
    }

    pub(crate) fn check(&self, value: &Value, place: &str) -> Result<Value, String> {
        let wrong = |wanted: &str| Err(format!("{place} must be {wanted}, not {}", shown(value)));
        match (self, value) {
            (Self::Any, value) => Ok(value.clone()),
            (Self::Null, Value::Null) => Ok(Value::Null),
            (Self::Null, _) => wrong("null"),
            (Self::Bool, Value::Bool(_)) => Ok(value.clone()),
            (Self::Bool, _) => wrong("true or false"),
            (Self::Int, Value::Number(number)) if number.is_i64() || number.is_u64() => {
                Ok(value.clone())
            }
            (Self::Int, Value::Number(number)) => match whole(number) {
                Some(integer) => Ok(json!(integer)),
                None => wrong("an integer"),
            },
            (Self::Int, _) => wrong("an integer"),
            (Self::Float, Value::Number(_)) => Ok(value.clone()),
            (Self::Float, _) => wrong("a number"),
            (Self::Text, Value::String(_)) => Ok(value.clone()),
            (Self::Text, _) => wrong("a text"),
            (Self::List(inner), Value::Array(entries)) => {
                let numbered = entries.iter().enumerate();
                let checked =
                    numbered.map(|(at, entry)| inner.check(entry, &format!("{place}[{at}]")));
                checked.collect::<Result<_, _>>().map(Value::Array)
            }
            (Self::List(_), _) => wrong("a list"),
            (Self::Dict(inner), Value::Object(members)) => {
                let one = |(name, member): (&String, &Value)| {
                    let checked = inner.check(member, &format!("{place}.{name}"))?;
                    Ok((name.clone(), checked))
                };
                members
                    .iter()
                    .map(one)
                    .collect::<Result<_, _>>()
                    .map(Value::Object)
            }
            (Self::Dict(_), _) => wrong("a mapping"),
            (Self::OneOf(values), value) if values.contains(value) => Ok(value.clone()),
            (Self::OneOf(values), _) => wrong(&format!("one of {}", json!(values))),
            (Self::Union(kinds), value) => {
                let mut first = None;
                for kind in kinds {
                    match kind.check(value, place) {
                        Ok(checked) => return Ok(checked),
                        Err(error) => first = first.or(Some(error)),
                    }
                }
                Err(first.unwrap_or_else(|| format!("{place} can have no value")))
            }
            (Self::Record(record), Value::Object(members)) => {
                record.check(members, place).map(Value::Object)
            }
            (Self::Record(_), _) => wrong("a mapping"),
        }
    }
}

/// Converts a float without a fraction to an integer.
#[expect(clippy::cast_possible_truncation, reason = "it is in range, and whole")]
fn whole(number: &serde_json::Number) -> Option<i64> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() <= MOST).then_some(float as i64)
}

fn shown(value: &Value) -> String {
    const CHARS: usize = 80;
    let text = value.to_string();
    if text.chars().count() <= CHARS {
        return text;
    }
    text.chars().take(CHARS).chain(['…']).collect()
}

fn optional(kind: Kind) -> Kind {
    match kind {
        Kind::Union(mut kinds) => {
            if !kinds.contains(&Kind::Null) {
                kinds.push(Kind::Null);
            }
            Kind::Union(kinds)
        }
        kind => Kind::Union(vec![kind, Kind::Null]),
    }
}

fn is_schema(members: &Object) -> bool {
    const KNOWN: [&str; 9] = [
        "type",
        "properties",
        "enum",
        "items",
        "required",
        "description",
        "title",
        "default",
        "additionalProperties",
    ];
    let kind = match members.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(_)) => "",
        _ => return false,
    };
    // `{type: str}` is a record with a field `type`; JSON Schema uses `string`.
    let ours = ["str", "int", "float", "bool"].contains(&kind);
    members.keys().all(|key| KNOWN.contains(&key.as_str())) && (!ours || members.len() > 1)
}

impl Record {
    /// Parses named fields. A `?` at the end of a name makes the field optional.
    pub(crate) fn read(members: &Object, title: &str) -> Result<Self, String> {
        let mut fields = Vec::with_capacity(members.len());
        for (key, inner) in members {
            let name = key.strip_suffix('?').unwrap_or(key);
            let identifier = name.starts_with(char::is_alphabetic)
                && name.chars().all(|it| it.is_alphanumeric() || it == '_');
            if !identifier || name.starts_with("model_") {
                return Err(format!("{name:?} cannot be the name of a field"));
            }
            let kind = Kind::read(inner, &format!("{title}_{name}"))
                .map_err(|error| format!("{name}: {error}"))?;
            let required = name == key;
            fields.push(Field {
                name: name.to_owned(),
                kind: if required { kind } else { optional(kind) },
                required,
                description: String::new(),
            });
        }
        Ok(Self {
            title: title.to_owned(),
            fields,
        })
    }

    /// Returns the JSON Schema. For flat records it equals the Python runtime's, byte for byte when
    /// keys are sorted.
    pub(crate) fn schema(&self) -> Value {
        let mut properties = Object::new();
        for field in &self.fields {
            let mut schema = field.kind.schema();
            if !matches!(field.kind, Kind::Record(_)) {
                schema["title"] = json!(titled(&field.name));
            }
            if !field.required {
                schema["default"] = Value::Null;
            }
            if !field.description.is_empty() {
                schema["description"] = json!(field.description);
            }
            properties.insert(field.name.clone(), schema);
        }
        let required: Vec<&str> = self
            .fields
            .iter()
            .filter(|field| field.required)
            .map(|field| field.name.as_str())
            .collect();
        let mut schema = json!({
            "type": "object",
            "title": self.title,
            "properties": properties,
            "additionalProperties": false,
        });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema
    }

    /// Validates the members against the fields. A missing optional member is null.
    pub(crate) fn check(&self, members: &Object, place: &str) -> Result<Object, String> {
        let known = |name: &&String| self.fields.iter().any(|field| field.name == **name);
        if let Some(unknown) = members.keys().find(|name| !known(name)) {
            let names: Vec<&str> = self.fields.iter().map(|it| it.name.as_str()).collect();
            return Err(format!(
                "{place} has no field {unknown:?}; there are {}",
                names.join(", ")
            ));
        }
        let mut checked = Object::new();
        for field in &self.fields {
            let value = match members.get(&field.name) {
                Some(value) => field
                    .kind
                    .check(value, &format!("{place}.{}", field.name))?,
                None if field.required => {
                    return Err(format!("{place} lacks the field {:?}", field.name));
                }
                None => Value::Null,
            };
            checked.insert(field.name.clone(), value);
        }
        Ok(checked)
    }
}

/// Converts a name to a title: `order_id` becomes `Order Id`.
fn titled(name: &str) -> String {
    let mut title = String::new();
    let mut begins = true;
    for sign in name.replace('_', " ").chars() {
        if begins {
            title.extend(sign.to_uppercase());
        } else {
            title.extend(sign.to_lowercase());
        }
        begins = !sign.is_alphabetic();
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: Value) -> Record {
        Record::read(fields.as_object().unwrap(), "Parameters").unwrap()
    }

    #[test]
    fn a_record_has_the_schema_that_the_python_runtime_makes() {
        let schema =
            record(json!({"n?": "int", "s": "list[str]", "d": "dict", "x_y": "str?"})).schema();
        assert_eq!(
            schema,
            json!({
                "additionalProperties": false,
                "properties": {
                    "n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null, "title": "N"},
                    "s": {"items": {"type": "string"}, "title": "S", "type": "array"},
                    "d": {"additionalProperties": true, "title": "D", "type": "object"},
                    "x_y": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "X Y"},
                },
                "required": ["s", "d", "x_y"],
                "title": "Parameters",
                "type": "object",
            })
        );
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_its_place() {
        let kind = Kind::Record(record(json!({"n": "int", "tags": "list[str]"})));
        let wrong = |value: Value| kind.accept(&value).unwrap_err();
        assert!(wrong(json!({"n": 1, "tags": ["a", 2]})).contains("tags[1] must be a text"));
        assert!(wrong(json!({"n": 1.5, "tags": []})).contains(".n must be an integer"));
        assert!(wrong(json!({"tags": []})).contains("lacks the field \"n\""));
        assert!(wrong(json!({"n": 1, "tags": [], "x": 1})).contains("no field \"x\""));
        assert_eq!(
            kind.accept(&json!({"n": 2.0, "tags": []})).unwrap(),
            json!({"n": 2, "tags": []})
        );
    }
}

//! Templates in files: `{{ expression }}` in prompts and values, and conditions.
//!
//! A lone `{{ expression }}` evaluates to the value itself, and a mixture to text. Rendering is
//! bounded and an undefined name is an error. A value that a template reads is never treated as a
//! template.

use crate::errors::ConfigError;
use crate::flow::expression::Template;
use crate::json::{Object, Value};

/// The maximum number of characters of a condition.
const LONGEST_CONDITION: usize = 2_000;

pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Returns a value with its texts rendered.
pub(crate) fn render(value: &Value, variables: &Object) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => render_text(text, variables)?,
        Value::Array(entries) => entries
            .iter()
            .map(|entry| render(entry, variables))
            .collect::<Result<Value, String>>()?,
        Value::Object(members) => Value::Object(render_object(members, variables)?),
        other => other.clone(),
    })
}

/// Returns an object with its texts rendered.
pub(crate) fn render_object(members: &Object, variables: &Object) -> Result<Object, String> {
    members
        .iter()
        .map(|(name, member)| Ok((name.clone(), render(member, variables)?)))
        .collect()
}

/// Returns a template's value: the native value of a lone expression, otherwise text.
pub(crate) fn render_text(text: &str, variables: &Object) -> Result<Value, String> {
    if !is_template(text) {
        return Ok(Value::String(text.to_owned()));
    }
    Template::new(text)?.render(variables)
}

/// Compiles a condition.
fn condition(text: &str) -> Result<Template, String> {
    let text = text.trim();
    let braced = text.strip_prefix("{{").and_then(|it| it.strip_suffix("}}"));
    let text = braced.unwrap_or(text).trim();
    let length = text.chars().count();
    if length > LONGEST_CONDITION {
        return Err(format!("the condition is too long: {length} characters"));
    }
    let template = Template::new(&format!("{{{{ {text} }}}}"))?;
    if !template.is_expression() {
        return Err(format!("the condition {text:?} is not one expression"));
    }
    Ok(template)
}

/// Returns true if a condition holds.
pub(crate) fn holds(text: &str, variables: &Object) -> Result<bool, String> {
    condition(text)?.holds(variables)
}

/// Checks the templates in a value without rendering them.
pub(crate) fn check(value: &Value, path: &str) -> Result<(), ConfigError> {
    match value {
        Value::String(text) if is_template(text) => Template::new(text)
            .map(drop)
            .map_err(|error| ConfigError::new(path, error)),
        Value::Array(entries) => entries.iter().try_for_each(|entry| check(entry, path)),
        Value::Object(members) => members.values().try_for_each(|member| check(member, path)),
        _ => Ok(()),
    }
}

/// Checks a condition.
pub(crate) fn check_condition(text: &str, path: &str) -> Result<(), ConfigError> {
    condition(text)
        .map(drop)
        .map_err(|error| ConfigError::new(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::strategy::object;

    fn variables() -> Object {
        object(json!({"state": {"n": 3, "list": [1, 2], "text": "{{ 7*7 }}"}}))
    }

    #[test]
    fn a_lone_expression_gives_the_value_and_a_mixture_text() {
        let render = |text: &str| render_text(text, &variables());
        assert_eq!(render("{{ state.list }}"), Ok(json!([1, 2])));
        assert_eq!(render("{{ state.n + 1 }}"), Ok(json!(4)));
        assert_eq!(render("n is {{ state.n }}"), Ok(json!("n is 3")));
        assert_eq!(render("plain"), Ok(json!("plain")));
        assert_eq!(render("{{ state.list | tojson }}!"), Ok(json!("[1,2]!")));
    }

    #[test]
    fn a_value_that_looks_like_a_template_stays_text() {
        let render = |text: &str| render_text(text, &variables());
        assert_eq!(render("{{ state.text }}"), Ok(json!("{{ 7*7 }}")));
        assert_eq!(render("x {{ state.text }}"), Ok(json!("x {{ 7*7 }}")));
    }

    #[test]
    fn an_undefined_name_is_an_error() {
        assert!(render_text("{{ state.nothing }}", &variables()).is_err());
        assert!(render_text("x {{ nothing }}", &variables()).is_err());
        assert!(holds("nothing", &variables()).is_err());
        assert_eq!(holds("state.n > 2", &variables()), Ok(true));
    }

    /// Both runtimes must take the same branch.
    #[test]
    fn a_condition_holds_as_the_kit_says() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/conditions.json"
        );
        let kit: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let variables = object(kit["variables"].clone());
        for row in kit["rows"].as_array().unwrap() {
            let text = row["condition"].as_str().unwrap();
            assert_eq!(json!(holds(text, &variables).ok()), row["holds"], "{text}");
        }
    }

    #[test]
    fn a_condition_that_is_too_long_is_a_fault() {
        let text = "not ".repeat(3_000) + "1";
        assert!(check_condition(&text, "if").is_err());
    }

    #[test]
    fn a_template_without_end_is_stopped() {
        let text = "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}";
        assert!(render_text(text, &variables()).is_err());
    }

    /// Mutants: a repeated list that is made before its size is checked; a sum whose depth is not
    /// counted.
    #[test]
    fn a_template_gives_what_the_kit_says_or_is_refused() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../conformance/templates.json"
        );
        let kit: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let variables = object(kit["variables"].clone());
        for row in kit["rows"].as_array().unwrap() {
            let text = row["template"].as_str().unwrap();
            let given = match check(&row["template"], "prompt") {
                Err(_) => json!({"template": text, "refused": "file"}),
                Ok(()) => match render_text(text, &variables) {
                    Ok(value) => json!({"template": text, "gives": value}),
                    Err(_) => json!({"template": text, "refused": "run"}),
                },
            };
            assert_eq!(&given, row, "{:?}", render_text(text, &variables));
        }
    }
}

//! Templates in files: `{{ expression }}` in prompts and values, and conditions.
//!
//! A lone `{{ expression }}` gives the value itself, a mixture gives text. Rendering is bounded, an
//! undefined name is an error, and a value that a template reads is never a template.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior};

use crate::errors::ConfigError;
use crate::flow::functions;
use crate::json::{Object, Value};

/// Steps of one rendering.
const FUEL: u64 = 1_000_000;
/// Bytes of a rendered text.
const LONGEST: usize = 1_000_000;
/// Characters of a condition.
const LONGEST_CONDITION: usize = 2_000;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    functions::add(&mut environment);
    environment
});

pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Returns the expression of a text that is one `{{ expression }}` and nothing else.
fn lone(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.trim_matches('-');
    let other = ["{{", "}}", "{%", "{#"]
        .iter()
        .any(|mark| inner.contains(mark));
    (!other).then(|| inner.trim())
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

/// Returns a template's value: native if it is a lone expression, else text.
pub(crate) fn render_text(text: &str, variables: &Object) -> Result<Value, String> {
    if !is_template(text) {
        return Ok(Value::String(text.to_owned()));
    }
    if let Some(expression) = lone(text) {
        return evaluate(expression, variables);
    }
    let rendered = ENVIRONMENT
        .render_str(text, seen(variables))
        .map_err(words)?;
    if rendered.len() > LONGEST {
        return Err(format!("the text is longer than {LONGEST} bytes"));
    }
    Ok(Value::String(rendered))
}

fn evaluate(expression: &str, variables: &Object) -> Result<Value, String> {
    let compiled = ENVIRONMENT.compile_expression(expression).map_err(words)?;
    let value = compiled.eval(seen(variables)).map_err(words)?;
    if value.is_undefined() {
        return Err(format!("{expression} is undefined"));
    }
    serde_json::to_value(&value).map_err(|error| format!("{expression}: {error}"))
}

/// Returns the variables as a template sees them: JSON, without methods of their own.
fn seen(variables: &Object) -> minijinja::Value {
    minijinja::value::Serde(variables).into()
}

/// Whether a condition holds.
pub(crate) fn holds(condition: &str, variables: &Object) -> Result<bool, String> {
    let expression = lone(condition).unwrap_or(condition);
    let compiled = ENVIRONMENT.compile_expression(expression).map_err(words)?;
    let value = compiled.eval(seen(variables)).map_err(words)?;
    if value.is_undefined() {
        return Err(format!("{expression} is undefined"));
    }
    Ok(value.is_true())
}

/// Finds faults of the templates in a value without rendering them.
pub(crate) fn check(value: &Value, path: &str) -> Result<(), ConfigError> {
    match value {
        Value::String(text) if is_template(text) => ENVIRONMENT
            .template_from_str(text)
            .map(drop)
            .map_err(|error| ConfigError::new(path, words(error))),
        Value::Array(entries) => entries.iter().try_for_each(|entry| check(entry, path)),
        Value::Object(members) => members.values().try_for_each(|member| check(member, path)),
        _ => Ok(()),
    }
}

/// Finds faults of a condition.
pub(crate) fn check_condition(text: &str, path: &str) -> Result<(), ConfigError> {
    let expression = lone(text).unwrap_or(text);
    // The parser recurses once for each sign of an operator: too many would end the process.
    if expression.chars().count() > LONGEST_CONDITION {
        let fault = format!("the condition is longer than {LONGEST_CONDITION} characters");
        return Err(ConfigError::new(path, fault));
    }
    ENVIRONMENT
        .compile_expression(expression)
        .map(drop)
        .map_err(|error| ConfigError::new(path, words(error)))
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn words(error: minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
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
        assert_eq!(render("{{ state.list | tojson }}!"), Ok(json!("[1, 2]!")));
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
}

//! What expressions of a file may use besides the filters and tests of minijinja: the functions,
//! methods, constants and tests that the Python runtime has under the same names.

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

/// Adds all of it to an environment.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_global("null", ());
    for name in ["none", "None", "null"] {
        environment.add_test(name, |value: &Value| {
            Ok::<_, Error>(present(value)?.is_none())
        });
    }
    for name in ["true", "True"] {
        environment.add_test(name, |value: &Value| is(value, true));
    }
    for name in ["false", "False"] {
        environment.add_test(name, |value: &Value| is(value, false));
    }
    environment.add_function("abs", |value: Value| filters::abs(value));
    environment.add_function("all", |values: &Value| {
        Ok::<_, Error>(present(values)?.try_iter()?.all(|entry| entry.is_true()))
    });
    environment.add_function("any", |values: &Value| {
        Ok::<_, Error>(present(values)?.try_iter()?.any(|entry| entry.is_true()))
    });
    environment.add_function("endswith", |text: &str, end: &str| text.ends_with(end));
    environment.add_function("startswith", |text: &str, start: &str| {
        text.starts_with(start)
    });
    environment.add_function("lower", |text: &str| text.to_lowercase());
    environment.add_function("upper", |text: &str| text.to_uppercase());
    environment.add_function("float", float);
    environment.add_function("int", int);
    environment.add_function("get", get);
    environment.add_function("len", |value: &Value| {
        value.len().ok_or_else(|| unfit("len", value))
    });
    environment.add_function("max", |values: Rest<Value>| {
        each(&values)?.into_iter().max().ok_or_else(empty)
    });
    environment.add_function("min", |values: Rest<Value>| {
        each(&values)?.into_iter().min().ok_or_else(empty)
    });
    environment.add_function("round", round);
    environment.add_function("str", text);
    environment.set_unknown_method_callback(method);
}

fn unfit(name: &str, value: &Value) -> Error {
    let words = format!("{name} is not for {}", value.kind());
    Error::new(ErrorKind::InvalidOperation, words)
}

fn empty() -> Error {
    Error::new(ErrorKind::InvalidOperation, "there is no value to choose")
}

/// Returns a value that is defined.
fn present(value: &Value) -> Result<&Value, Error> {
    if value.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    Ok(value)
}

fn is(value: &Value, expected: bool) -> Result<bool, Error> {
    let value = present(value)?;
    Ok(value.kind() == ValueKind::Bool && value.is_true() == expected)
}

fn float(value: &Value) -> Result<f64, Error> {
    if let Some(text) = value.as_str() {
        return text.trim().parse().map_err(|_| unfit("float", value));
    }
    f64::try_from(value.clone()).map_err(|_| unfit("float", value))
}

fn int(value: &Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        let whole: i64 = text.trim().parse().map_err(|_| unfit("int", value))?;
        return Ok(whole.into());
    }
    if value.is_integer() {
        return Ok(value.clone());
    }
    // Whole by now: the conversion fails for what is infinite or too large.
    let whole = Value::from(float(value)?.trunc());
    Ok(i64::try_from(whole)
        .map_err(|_| unfit("int", value))?
        .into())
}

/// Reads what may not be there.
fn get(mapping: &Value, key: &Value, other: Option<Value>) -> Result<Value, Error> {
    let found = match present(mapping)?.kind() {
        ValueKind::Map => mapping.get_item(key)?,
        _ => Value::UNDEFINED,
    };
    Ok(if found.is_undefined() {
        other.unwrap_or_else(|| ().into())
    } else {
        found
    })
}

/// Returns several values, or those of the one list.
fn each(values: &[Value]) -> Result<Vec<Value>, Error> {
    let values: Vec<Value> = match values {
        [list] => present(list)?.try_iter()?.collect(),
        several => several.to_vec(),
    };
    values
        .iter()
        .try_for_each(|value| present(value).map(drop))?;
    Ok(values)
}

fn round(value: &Value, places: Option<usize>) -> Result<f64, Error> {
    const MOST: usize = 1_000;
    let number = float(present(value)?)?;
    // The text is rounded to even from all digits, as Python's own function does.
    let rounded = format!("{number:.*}", places.unwrap_or(0).min(MOST));
    rounded.parse().map_err(|_| unfit("round", value))
}

/// Returns a text as it is, everything else as JSON.
fn text(value: &Value) -> Result<String, Error> {
    match present(value)?.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => serde_json::to_string(value).map_err(|_| unfit("str", value)),
    }
}

/// Calls the methods that texts and mappings have in the Python runtime.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.as_str(), value.kind(), name, args) {
        (_, ValueKind::Map, "get", [key]) => get(value, key, None),
        (_, ValueKind::Map, "get", [key, other]) => get(value, key, Some(other.clone())),
        (_, ValueKind::Map, "items", []) => {
            state.apply_filter("items", std::slice::from_ref(value))
        }
        (_, ValueKind::Map, "keys", []) => Ok(value.try_iter()?.collect()),
        (_, ValueKind::Map, "values", []) => {
            value.try_iter()?.map(|key| value.get_item(&key)).collect()
        }
        (Some(text), _, "lower", []) => Ok(text.to_lowercase().into()),
        (Some(text), _, "upper", []) => Ok(text.to_uppercase().into()),
        (Some(text), _, "strip", []) => Ok(text.trim().into()),
        (Some(text), _, "startswith", [start]) => match start.as_str() {
            Some(start) => Ok(text.starts_with(start).into()),
            None => Err(unfit("startswith", value)),
        },
        (Some(text), _, "endswith", [end]) => match end.as_str() {
            Some(end) => Ok(text.ends_with(end).into()),
            None => Err(unfit("endswith", value)),
        },
        (Some(_), _, "title", []) => state.apply_filter("title", std::slice::from_ref(value)),
        (Some(_), _, "split", _) => {
            let given: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
            state.apply_filter("split", &given)
        }
        _ => Err(ErrorKind::UnknownMethod.into()),
    }
}

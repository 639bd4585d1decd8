//! Filters, functions, methods and tests of expressions, with the names of the Python runtime.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde::Serialize;

use super::bounds::{Budget, LARGEST, characters, check_size, digits};
use super::evaluate::Item;
use super::operators::{Number, binary, compare, equal, kind, order, real, truth, whole};
use crate::json::{Value, json, render};

/// Names of filters, sorted.
pub(super) const FILTERS: [&str; 36] = [
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "first",
    "float",
    "indent",
    "int",
    "items",
    "join",
    "keys",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "selectattr",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "values",
];

/// Functions that an expression calls by name, sorted.
pub(super) const FUNCTIONS: [&str; 15] = [
    "abs",
    "all",
    "any",
    "endswith",
    "float",
    "get",
    "int",
    "len",
    "lower",
    "max",
    "min",
    "round",
    "startswith",
    "str",
    "upper",
];
/// Names of tests, sorted.
pub(super) const TESTS: [&str; 23] = [
    "boolean",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "integer",
    "le",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sequence",
    "string",
    "true",
    "undefined",
];
/// Filters and functions that visit the entries of a value, but no nested values.
const SHALLOW: [&str; 15] = [
    "all", "any", "count", "d", "default", "first", "get", "items", "keys", "last", "len",
    "length", "list", "reverse", "values",
];
/// The maximum number of spaces that `indent` inserts before a line.
const WIDE: usize = 100;
/// The maximum number of spaces that `tojson` inserts before an entry.
const INDENT: usize = 8;

/// Returns the canonical name of a test: `None` is `none`.
pub(super) fn test_named(name: &str) -> Option<&'static str> {
    let name = match name {
        "None" | "null" => "none",
        "True" => "true",
        "False" => "false",
        other => other,
    };
    TESTS.into_iter().find(|test| *test == name)
}

/// The arguments of a call.
#[derive(Default)]
pub(super) struct Given<'v> {
    pub(super) positional: Vec<Item<'v>>,
    pub(super) named: Vec<(String, Item<'v>)>,
}

impl<'v> Given<'v> {
    /// Returns the arguments in the order of their names.
    ///
    /// # Errors
    ///
    /// An argument has an unknown name, is given twice, or there are too many.
    fn bind<const N: usize>(self, names: [&str; N]) -> Result<[Option<Item<'v>>; N], String> {
        let mut bound = [const { None }; N];
        if self.positional.len() > N {
            let count = self.positional.len();
            return Err(format!(
                "TypeError: at most {N} arguments are taken, {count} were given"
            ));
        }
        for (slot, item) in bound.iter_mut().zip(self.positional) {
            *slot = Some(item);
        }
        for (name, item) in self.named {
            let place = names.iter().position(|known| *known == name);
            let slot = place.and_then(|place| bound.get_mut(place));
            match slot {
                Some(slot @ None) => *slot = Some(item),
                _ => return Err(format!("TypeError: unexpected argument '{name}'")),
            }
        }
        Ok(bound)
    }

    fn none(self) -> Result<(), String> {
        self.bind([]).map(drop)
    }

    fn each(&self) -> impl Iterator<Item = &Item<'v>> {
        let named = self.named.iter().map(|(_, item)| item);
        self.positional.iter().chain(named)
    }
}

type Called<'v> = Result<Item<'v>, String>;

/// Charges for reading the arguments of a filter or function.
fn charge(budget: &Budget, name: &str, item: &Item<'_>) -> Result<(), String> {
    match item.value() {
        Ok(value) if SHALLOW.contains(&name) => budget.skim(value),
        Ok(value) => budget.charge(value),
        Err(_) => budget.spend(1),
    }
}

fn type_error<T>(fault: impl std::fmt::Display) -> Result<T, String> {
    Err(format!("TypeError: {fault}"))
}

/// Applies a filter.
pub(super) fn filter<'v>(
    budget: &Budget,
    name: &str,
    of: Item<'v>,
    given: Given<'v>,
) -> Called<'v> {
    for item in std::iter::once(&of).chain(given.each()) {
        charge(budget, name, item)?;
    }
    if let "d" | "default" = name {
        let [other, falsy] = given.bind(["default_value", "boolean"])?;
        let falsy = falsy.is_some_and(|falsy| falsy.value().is_ok_and(truth));
        let missing = match of.value() {
            Ok(value) => falsy && !truth(value),
            Err(_) => matches!(of, Item::Missing(_)),
        };
        return Ok(match (missing, other) {
            (false, _) => of,
            (true, Some(other)) => other,
            (true, None) => Item::of(json!("")),
        });
    }
    if let "max" | "min" = name {
        let mut positional = vec![of];
        positional.extend(given.positional);
        let all = Given {
            positional,
            named: given.named,
        };
        return extreme(name, all);
    }
    let value = of.value()?;
    let made = match name {
        "int" | "float" => {
            let [other] = given.bind(["default"])?;
            let read = match name {
                // "3.7" is 3.
                "int" => int(value).or_else(|_| int(&float(value)?)),
                _ => float(value),
            };
            match (read, other) {
                (Ok(number), _) => number,
                (Err(_), Some(other)) => return Ok(other),
                (Err(_), None) if name == "int" => json!(0),
                (Err(_), None) => json!(0.0),
            }
        }
        "join" | "replace" | "indent" | "truncate" | "split" | "tojson" => {
            text_filter(name, value, given)?
        }
        "map" => mapped(budget, value, given)?,
        "selectattr" | "rejectattr" => chosen(budget, name == "selectattr", value, given)?,
        "sort" | "sum" => list_filter(name, value, given)?,
        "round" => {
            let [places, method] = given.bind(["precision", "method"])?;
            let method = text_of(method.as_ref())?;
            rounded(
                value,
                places.as_ref(),
                method.as_deref().unwrap_or("common"),
            )?
        }
        "trim" => {
            let [characters] = given.bind(["chars"])?;
            let text = as_str(value);
            match text_of(characters.as_ref())? {
                None => json!(text.trim()),
                Some(characters) => json!(text.trim_matches(|c| characters.contains(c))),
            }
        }
        "unique" => {
            let [sensitive, path] = given.bind(["case_sensitive", "attribute"])?;
            let sensitive = is_true(sensitive.as_ref());
            let path = text_of(path.as_ref())?.unwrap_or_default();
            unique(budget, value, sensitive, &path)?
        }
        _ => {
            given.none()?;
            plain_filter(name, value)?
        }
    };
    Ok(Item::of(made))
}

/// Applies a filter without arguments.
fn plain_filter(name: &str, value: &Value) -> Result<Value, String> {
    Ok(match name {
        "abs" => absolute(value)?,
        "capitalize" => {
            let text = as_str(value).to_lowercase();
            let mut rest = text.chars();
            let first = rest.next().map(|first| first.to_uppercase().to_string());
            json!(first.unwrap_or_default() + rest.as_str())
        }
        "count" | "length" => length(value)?,
        "first" => entries(value)?.into_iter().next().unwrap_or_default(),
        "items" => pairs(value)?,
        "keys" | "values" => {
            let Value::Object(members) = value else {
                return Err(format!(
                    "AttributeError: '{}' object has no attribute '{name}'",
                    kind(value)
                ));
            };
            if name == "keys" {
                members.keys().map(|key| json!(key)).collect()
            } else {
                members.values().cloned().collect()
            }
        }
        "last" => match value {
            Value::Object(members) if !members.is_empty() => {
                return Err("KeyError: -1".to_owned());
            }
            value if !truth(value) => Value::Null,
            _ => entries(value)?.pop().unwrap_or_default(),
        },
        "lines" => lines(&as_str(value)),
        "list" => Value::Array(entries(value)?),
        "lower" => json!(as_str(value).to_lowercase()),
        "reverse" => match value {
            Value::String(text) => json!(text.chars().rev().collect::<String>()),
            Value::Array(entries) => entries.iter().rev().cloned().collect(),
            other => return type_error(format!("'{}' object is not subscriptable", kind(other))),
        },
        "string" => json!(render(value)),
        "title" => json!(title(&as_str(value))),
        _ => json!(as_str(value).to_uppercase()),
    })
}

/// Applies a filter that returns text or parts of a text.
fn text_filter(name: &str, value: &Value, given: Given<'_>) -> Result<Value, String> {
    Ok(match name {
        "join" => {
            let [separator, path] = given.bind(["separator", "attribute"])?;
            let separator = text_of(separator.as_ref())?.unwrap_or_default();
            let path = text_of(path.as_ref())?.unwrap_or_default();
            let texts: Vec<String> = fields(value, &path)?.iter().map(render).collect();
            let length: usize = texts.iter().map(|text| characters(text)).sum();
            let between = characters(&separator).saturating_mul(texts.len());
            check_size(length.saturating_add(between), LARGEST)?;
            json!(texts.join(&separator))
        }
        "replace" => {
            let [old, new, count] = given.bind(["old", "new", "count"])?;
            let (Some(old), Some(new)) = (text_of(old.as_ref())?, text_of(new.as_ref())?) else {
                return type_error("replace takes 2 arguments: old and new");
            };
            let text = as_str(value);
            let grown = text.matches(old.as_str()).count();
            let grown = grown.saturating_mul(characters(&new));
            check_size(characters(&text).saturating_add(grown), LARGEST)?;
            match whole_of(count.as_ref())?.map(usize::try_from) {
                Some(Ok(count)) => json!(text.replacen(&old, &new, count)),
                _ => json!(text.replace(&old, &new)),
            }
        }
        "indent" => {
            let [width, first] = given.bind(["width", "first"])?;
            let width = whole_of(width.as_ref())?.unwrap_or(4);
            let first = first.is_some_and(|first| first.value().is_ok_and(truth));
            indent(&as_str(value), width, first)?
        }
        "truncate" => {
            let [length, whole_words, end, leeway] =
                given.bind(["length", "killwords", "end", "leeway"])?;
            let length = whole_of(length.as_ref())?.unwrap_or(255);
            let length = usize::try_from(length).unwrap_or_default();
            let leeway = whole_of(leeway.as_ref())?.unwrap_or(5);
            let leeway = usize::try_from(leeway).unwrap_or_default();
            let end = text_of(end.as_ref())?.unwrap_or_else(|| "...".to_owned());
            let text = as_str(value);
            if characters(&text) <= length.saturating_add(leeway) {
                json!(text)
            } else {
                let kept = length.saturating_sub(characters(&end));
                let cut: String = text.chars().take(kept).collect();
                let cut = match cut.rsplit_once(' ') {
                    Some((words, _)) if !is_true(whole_words.as_ref()) => words.to_owned(),
                    _ => cut,
                };
                json!(cut + &end)
            }
        }
        "split" => {
            let [separator] = given.bind(["separator"])?;
            split(&as_str(value), separator.as_ref())?
        }
        _ => {
            let [width] = given.bind(["indent"])?;
            let width = whole_of(width.as_ref())?.unwrap_or(0);
            match usize::try_from(width).unwrap_or_default().min(INDENT) {
                0 => json!(value.to_string()),
                width => json!(indented(value, width)?),
            }
        }
    })
}

/// Applies a filter to a list.
fn list_filter(name: &str, value: &Value, given: Given<'_>) -> Result<Value, String> {
    Ok(match name {
        "sort" => {
            let [reverse, sensitive, path] =
                given.bind(["reverse", "case_sensitive", "attribute"])?;
            let path = text_of(path.as_ref())?.unwrap_or_default();
            let sensitive = is_true(sensitive.as_ref());
            sort(entries(value)?, is_true(reverse.as_ref()), sensitive, &path)?
        }
        _ => {
            let [path, start] = given.bind(["attribute", "start"])?;
            if path
                .as_ref()
                .is_some_and(|path| path.value().is_ok_and(|path| Number::of(path).is_some()))
            {
                return type_error("write sum(start=NUMBER): the first argument is an attribute");
            }
            let path = text_of(path.as_ref())?.unwrap_or_default();
            let numbers = fields(value, &path)?;
            let mut total = match &start {
                Some(start) => start.value()?.clone(),
                None => json!(0),
            };
            let free = Budget::unbounded();
            for entry in numbers.iter().chain([&total.clone()]) {
                if Number::of(entry).is_none() {
                    return type_error("sum is of numbers; put lists together with +");
                }
            }
            for entry in numbers {
                total = binary(&free, "+", &total, &entry)?;
            }
            total
        }
    })
}

/// Returns the entries of a value, or a field of each.
fn fields(value: &Value, path: &str) -> Result<Vec<Value>, String> {
    let entries = entries(value)?;
    if path.is_empty() {
        return Ok(entries);
    }
    let fields = entries.iter().map(|entry| field(entry, path).clone());
    Ok(fields.collect())
}

fn is_true(item: Option<&Item<'_>>) -> bool {
    item.is_some_and(|item| item.value().is_ok_and(truth))
}

/// Returns a field of each entry, or what a filter makes of the entry.
fn mapped(budget: &Budget, value: &Value, given: Given<'_>) -> Result<Value, String> {
    let Given { positional, named } = given;
    let mut rest = positional.into_iter();
    let name = text_of(rest.next().as_ref())?.unwrap_or_default();
    let arguments: Vec<Item<'_>> = rest.collect();
    let [path, default] = Given {
        positional: Vec::new(),
        named,
    }
    .bind(["attribute", "default"])?;
    let attribute = text_of(path.as_ref())?;
    let default = match default {
        Some(default) => default.value()?.clone(),
        None => Value::Null,
    };
    let path = attribute.as_deref().unwrap_or(&name);
    let mut made = Vec::new();
    let mut weight = 0_usize;
    for entry in entries(value)? {
        let found = reached(&entry, path);
        let mapped = match found {
            Some(found) => found.clone(),
            None if attribute.is_none() && FILTERS.contains(&name.as_str()) => {
                let given = Given {
                    positional: arguments.clone(),
                    named: Vec::new(),
                };
                filter(budget, &name, Item::of(entry), given)?
                    .value()?
                    .clone()
            }
            None => default.clone(),
        };
        budget.charge(&mapped)?;
        weight = weight.saturating_add(characters(&mapped.to_string()));
        check_size(weight, LARGEST)?;
        made.push(mapped);
    }
    Ok(Value::Array(made))
}

/// Returns the entries whose field passes a test, equals a value, or is true.
fn chosen(budget: &Budget, kept: bool, value: &Value, given: Given<'_>) -> Result<Value, String> {
    if !given.named.is_empty() {
        return type_error("a choice takes no named arguments");
    }
    let mut positional = given.positional.into_iter();
    let Some(path) = text_of(positional.next().as_ref())? else {
        return type_error("a choice takes an attribute");
    };
    let wanted = positional.next();
    let arguments: Vec<Item<'_>> = positional.collect();
    let mut entries = entries(value)?;
    let mut fault = None;
    entries.retain(|entry| {
        let found = reached(entry, &path);
        let passes = passes(budget, found, wanted.as_ref(), &arguments);
        passes.unwrap_or_else(|error| {
            fault = Some(error);
            false
        }) == kept
    });
    fault.map_or(Ok(Value::Array(entries)), Err)
}

fn passes(
    budget: &Budget,
    found: Option<&Value>,
    wanted: Option<&Item<'_>>,
    arguments: &[Item<'_>],
) -> Result<bool, String> {
    let value = found.unwrap_or(&Value::Null);
    let Some(wanted) = wanted else {
        return Ok(truth(value));
    };
    let wanted = wanted.value()?;
    budget.charge(value)?;
    match wanted.as_str().map(symbol).and_then(test_named) {
        Some("defined") => Ok(found.is_some()),
        Some("undefined") => Ok(found.is_none()),
        // No other test holds for a missing value.
        Some(_) if found.is_none() => Ok(false),
        Some(name) => {
            let given = Given {
                positional: arguments.to_vec(),
                named: Vec::new(),
            };
            test(budget, name, value, given)
        }
        None => Ok(equal(value, wanted)),
    }
}

/// Returns the name of a test that is written as a sign.
fn symbol(name: &str) -> &str {
    match name {
        "==" => "eq",
        "!=" => "ne",
        ">" | "greaterthan" => "gt",
        ">=" => "ge",
        "<" | "lessthan" => "lt",
        "<=" => "le",
        other => other,
    }
}

fn unique(budget: &Budget, value: &Value, sensitive: bool, path: &str) -> Result<Value, String> {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for entry in entries(value)? {
        budget.spend(1)?;
        let key = if path.is_empty() {
            entry.clone()
        } else {
            field(&entry, path).clone()
        };
        if seen.insert(folded(key, sensitive).to_string()) {
            kept.push(entry);
        }
    }
    Ok(Value::Array(kept))
}

/// Returns a key for comparisons. Texts are compared without their case.
fn folded(key: Value, sensitive: bool) -> Value {
    match key {
        Value::String(text) if !sensitive => json!(text.to_lowercase()),
        other => other,
    }
}

/// Calls a function.
pub(super) fn function<'v>(budget: &Budget, name: &str, given: Given<'v>) -> Called<'v> {
    if name == "range" {
        return range(budget, given).map(Item::of);
    }
    for item in given.each() {
        charge(budget, name, item)?;
    }
    let made = match name {
        "max" | "min" => return extreme(name, given),
        "get" => {
            let [mapping, key, other] = given.bind(["mapping", "key", "default"])?;
            let (Some(mapping), Some(key)) = (mapping, key) else {
                return type_error("get takes a mapping and a key");
            };
            return get(budget, &mapping, &key, other);
        }
        "startswith" | "endswith" => {
            let [text, part] = given.bind(["text", "end"])?;
            let (Some(text), Some(part)) = (text, part) else {
                return type_error(format!("{name} takes 2 arguments"));
            };
            let (text, part) = (as_str(text.value()?), as_str(part.value()?));
            json!(match name {
                "startswith" => text.starts_with(&part),
                _ => text.ends_with(&part),
            })
        }
        "round" => {
            let [number, places] = given.bind(["number", "places"])?;
            let Some(number) = number else {
                return type_error("round takes a number");
            };
            round(number.value()?, places.as_ref())?
        }
        _ => {
            let [value] = given.bind(["value"])?;
            let Some(value) = value else {
                return type_error(format!("{name} takes 1 argument"));
            };
            let value = value.value()?;
            match name {
                "abs" => absolute(value)?,
                "all" => json!(entries(value)?.iter().all(truth)),
                "any" => json!(entries(value)?.iter().any(truth)),
                "float" => float(value)?,
                "int" => int(value)?,
                "len" => length(value)?,
                "lower" => json!(as_str(value).to_lowercase()),
                "str" => json!(render(value)),
                _ => json!(as_str(value).to_uppercase()),
            }
        }
    };
    Ok(Item::of(made))
}

/// Returns true if a value has a method.
pub(super) fn is_method(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(_) => ["get", "items", "keys", "values"].contains(&name),
        Value::String(_) => [
            "endswith",
            "lower",
            "split",
            "startswith",
            "strip",
            "title",
            "upper",
        ]
        .contains(&name),
        _ => false,
    }
}

/// Calls a method of a text or mapping.
pub(super) fn method<'v>(
    budget: &Budget,
    of: &Item<'v>,
    name: &str,
    given: Given<'v>,
) -> Called<'v> {
    for item in std::iter::once(of).chain(given.each()) {
        charge(budget, name, item)?;
    }
    let made = match (name, of.value()?) {
        ("get", _) => {
            let [key, other] = given.bind(["key", "default"])?;
            let Some(key) = key else {
                return type_error("get takes a key");
            };
            return get(budget, of, &key, other);
        }
        ("items" | "keys" | "values", value) => {
            given.none()?;
            plain_filter(name, value)?
        }
        ("lower" | "upper" | "title", value) => {
            given.none()?;
            plain_filter(name, value)?
        }
        ("split", value) => {
            let [separator] = given.bind(["sep"])?;
            split(&as_str(value), separator.as_ref())?
        }
        ("strip", value) => {
            let [characters] = given.bind(["chars"])?;
            let text = as_str(value);
            match text_of(characters.as_ref())? {
                None => json!(text.trim()),
                Some(characters) => json!(text.trim_matches(|c| characters.contains(c))),
            }
        }
        (_, value) => {
            let [part] = given.bind(["part"])?;
            let Some(Value::String(part)) = part.as_ref().map(Item::value).transpose()? else {
                return type_error(format!("{name} takes a text"));
            };
            let text = as_str(value);
            json!(match name {
                "startswith" => text.starts_with(part),
                _ => text.ends_with(part),
            })
        }
    };
    Ok(Item::of(made))
}

/// Returns true if a test holds for an existing value.
pub(super) fn test(
    budget: &Budget,
    name: &str,
    value: &Value,
    given: Given<'_>,
) -> Result<bool, String> {
    let sign = match name {
        "eq" | "equalto" => "==",
        "ne" => "!=",
        "ge" => ">=",
        "gt" => ">",
        "le" => "<=",
        "lt" => "<",
        "in" => "in",
        _ => "",
    };
    if !sign.is_empty() || name == "divisibleby" {
        let [other] = given.bind(["other"])?;
        let Some(other) = other else {
            return type_error(format!("{name} takes a value"));
        };
        let other = other.value()?;
        budget.charge(value)?;
        budget.charge(other)?;
        if sign.is_empty() {
            return Ok(!truth(&binary(budget, "%", value, other)?));
        }
        return compare(sign, value, other);
    }
    given.none()?;
    Ok(match name {
        "boolean" => value.is_boolean(),
        "even" => !truth(&binary(budget, "%", value, &json!(2))?),
        "odd" => equal(&binary(budget, "%", value, &json!(2))?, &json!(1)),
        "false" => *value == json!(false),
        "true" => *value == json!(true),
        "float" => value.is_f64(),
        "integer" => value.is_number() && !value.is_f64(),
        "mapping" => value.is_object(),
        "none" => value.is_null(),
        "number" => Number::of(value).is_some(),
        "sequence" => matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_)),
        _ => value.is_string(),
    })
}

/// Returns the elements that a loop over a value visits: entries, characters of a text, or keys.
pub(super) fn entries(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(entries) => Ok(entries.clone()),
        Value::String(text) => {
            let characters = text.chars();
            Ok(characters.map(|c| Value::String(c.into())).collect())
        }
        Value::Object(members) => Ok(members.keys().map(|key| json!(key)).collect()),
        other => type_error(format!("'{}' object is not iterable", kind(other))),
    }
}

/// Returns a text unchanged, and other values in Python's notation.
fn as_str(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        other => render(other),
    }
}

fn text_of(item: Option<&Item<'_>>) -> Result<Option<String>, String> {
    item.map(|item| item.value().map(as_str)).transpose()
}

fn whole_of(item: Option<&Item<'_>>) -> Result<Option<i64>, String> {
    let Some(item) = item else { return Ok(None) };
    match Number::of(item.value()?) {
        // Values outside the range are clamped to it.
        Some(Number::Whole(number)) => Ok(Some(i64::try_from(number).unwrap_or(if number < 0 {
            i64::MIN
        } else {
            i64::MAX
        }))),
        _ => type_error(format!("'{}' is no whole number", kind(item.value()?))),
    }
}

fn length(value: &Value) -> Result<Value, String> {
    Ok(json!(match value {
        Value::String(text) => characters(text),
        Value::Array(entries) => entries.len(),
        Value::Object(members) => members.len(),
        other => return type_error(format!("object of type '{}' has no len()", kind(other))),
    }))
}

fn absolute(value: &Value) -> Result<Value, String> {
    match Number::of(value) {
        Some(Number::Whole(number)) => whole(number.abs()),
        Some(Number::Real(number)) => real(number.abs()),
        None => type_error(format!("bad operand type for abs(): '{}'", kind(value))),
    }
}

fn pairs(value: &Value) -> Result<Value, String> {
    let Value::Object(members) = value else {
        return Err(format!(
            "AttributeError: '{}' object has no attribute 'items'",
            kind(value)
        ));
    };
    Ok(members
        .iter()
        .map(|(name, member)| json!([name, member]))
        .collect())
}

/// Returns the field of an entry at a dotted path, or null.
fn field<'e>(entry: &'e Value, path: &str) -> &'e Value {
    reached(entry, path).unwrap_or(&Value::Null)
}

fn reached<'e>(entry: &'e Value, path: &str) -> Option<&'e Value> {
    path.split('.').try_fold(entry, |here, part| match here {
        Value::Array(entries) => entries.get(part.parse::<usize>().ok()?),
        other => other.as_object()?.get(part),
    })
}

fn sort(
    mut entries: Vec<Value>,
    reverse: bool,
    sensitive: bool,
    path: &str,
) -> Result<Value, String> {
    let mut fault = None;
    let key = |entry: &Value| {
        let key = if path.is_empty() {
            entry
        } else {
            field(entry, path)
        };
        folded(key.clone(), sensitive)
    };
    let mut keyed: Vec<(Value, Value)> = entries
        .drain(..)
        .map(|entry| (key(&entry), entry))
        .collect();
    // Equal entries keep their order, even in a reversed list.
    if reverse {
        keyed.reverse();
    }
    keyed.sort_by(|one, other| {
        if fault.is_some() {
            return Ordering::Equal;
        }
        order("<", &one.0, &other.0).unwrap_or_else(|error| {
            fault = Some(error);
            Ordering::Equal
        })
    });
    if reverse {
        keyed.reverse();
    }
    match fault {
        Some(fault) => Err(fault),
        None => Ok(keyed.into_iter().map(|(_, entry)| entry).collect()),
    }
}

/// Returns the largest or smallest of several values, or of one list.
fn extreme<'v>(name: &str, given: Given<'v>) -> Called<'v> {
    if !given.named.is_empty() {
        return type_error(format!("{name} takes no named arguments"));
    }
    let values = match given.positional.as_slice() {
        [] => return type_error(format!("{name} takes a value")),
        [list] => entries(list.value()?)?,
        several => several
            .iter()
            .map(|item| item.value().cloned())
            .collect::<Result<_, _>>()?,
    };
    let wanted = if name == "max" {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    let sign = if name == "max" { ">" } else { "<" };
    let mut best: Option<Value> = None;
    for value in values {
        let better = match &best {
            None => true,
            Some(best) => order(sign, &value, best)? == wanted,
        };
        if better {
            best = Some(value);
        }
    }
    best.map(Item::of)
        .ok_or_else(|| format!("ValueError: {name}() iterable argument is empty"))
}

/// Returns an entry that may be missing.
fn get<'v>(
    budget: &Budget,
    mapping: &Item<'v>,
    key: &Item<'v>,
    other: Option<Item<'v>>,
) -> Called<'v> {
    let key = key.value()?;
    let found = match mapping {
        Item::Missing(_) => None,
        _ => mapping.entry(budget, |value| value.as_object()?.get(key.as_str()?))?,
    };
    Ok(found.or(other).unwrap_or(Item::Lent(&Value::Null)))
}

fn range(budget: &Budget, given: Given<'_>) -> Result<Value, String> {
    let mut bounds = Vec::new();
    for item in given.each() {
        bounds.extend(whole_of(Some(item))?);
    }
    let (start, stop, step) = match bounds.as_slice() {
        [stop] => (0, *stop, 1),
        [start, stop] => (*start, *stop, 1),
        [start, stop, step] => (*start, *stop, *step),
        _ => return type_error("range takes 1 to 3 whole numbers"),
    };
    if step == 0 {
        return Err("ValueError: range() arg 3 must not be zero".to_owned());
    }
    let mut numbers = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        budget.spend(1)?;
        numbers.push(json!(at));
        let Some(next) = at.checked_add(step) else {
            break;
        };
        at = next;
    }
    Ok(Value::Array(numbers))
}

fn float(value: &Value) -> Result<Value, String> {
    if let Value::String(text) = value {
        let number: Result<f64, _> = text.trim().parse();
        return real(
            number
                .map_err(|_| format!("ValueError: could not convert string to float: {text:?}"))?,
        );
    }
    match Number::of(value) {
        Some(number) => real(number.real()),
        None => type_error(format!("a number or text is no '{}'", kind(value))),
    }
}

fn int(value: &Value) -> Result<Value, String> {
    if let Value::String(text) = value {
        let number: Result<i128, _> = text.trim().parse();
        return whole(number.map_err(|_| format!("ValueError: {text:?} is no whole number"))?);
    }
    match Number::of(value) {
        Some(Number::Whole(number)) => whole(number),
        Some(Number::Real(number)) => truncated(number.trunc()),
        None => type_error(format!("a number or text is no '{}'", kind(value))),
    }
}

/// Converts a float without a fraction to an integer.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncated(number: f64) -> Result<Value, String> {
    if number.abs() < 1e30 {
        return whole(number as i128);
    }
    Err("the number is too large".to_owned())
}

/// Returns a number rounded to the nearest, or always up or down.
fn rounded(value: &Value, places: Option<&Item<'_>>, method: &str) -> Result<Value, String> {
    let up = match method {
        "common" => return round(value, places),
        "ceil" => true,
        "floor" => false,
        other => {
            return Err(format!(
                "ValueError: round is 'common', 'ceil' or 'floor', not '{other}'"
            ));
        }
    };
    let Some(number) = Number::of(value) else {
        return type_error(format!("type {} has no rounding", kind(value)));
    };
    let places = digits(whole_of(places)?.unwrap_or_default())?;
    let scaled = number.real() * 10_f64.powi(places);
    let scaled = if up { scaled.ceil() } else { scaled.floor() };
    if places == 0 {
        return truncated(scaled);
    }
    real(scaled / 10_f64.powi(places))
}

fn round(value: &Value, places: Option<&Item<'_>>) -> Result<Value, String> {
    let places = whole_of(places)?.unwrap_or_default();
    let Some(number) = Number::of(value) else {
        return type_error(format!("type {} has no rounding", kind(value)));
    };
    if places == 0 {
        return match number {
            Number::Whole(number) => whole(number),
            Number::Real(number) => truncated(number.round_ties_even()),
        };
    }
    let places = digits(places)?;
    match number {
        Number::Whole(number) if places >= 0 => whole(number),
        Number::Whole(number) => {
            let Some(unit) = 10_i128.checked_pow(places.unsigned_abs()) else {
                return Ok(json!(0));
            };
            let (floor, rest) = (number.div_euclid(unit), number.rem_euclid(unit));
            let up = match (rest * 2).cmp(&unit) {
                Ordering::Less => 0,
                Ordering::Greater => 1,
                Ordering::Equal => floor.rem_euclid(2),
            };
            whole((floor + up) * unit)
        }
        Number::Real(number) if places > 0 => {
            // The text is rounded half to even from all digits, like Python's own function.
            let places = usize::try_from(places).unwrap_or_default();
            let text = format!("{number:.places$}");
            real(text.parse().unwrap_or(number))
        }
        Number::Real(number) => {
            let unit = 10_f64.powi(-places);
            if !unit.is_finite() {
                return Ok(json!(0.0_f64.copysign(number)));
            }
            real((number / unit).round_ties_even() * unit)
        }
    }
}

fn split(text: &str, separator: Option<&Item<'_>>) -> Result<Value, String> {
    let separator = match separator {
        Some(item) if item.value()?.is_null() => None,
        other => text_of(other)?,
    };
    match separator.as_deref() {
        None => Ok(text.split_whitespace().map(|part| json!(part)).collect()),
        Some("") => Err("ValueError: empty separator".to_owned()),
        Some(separator) => Ok(text.split(separator).map(|part| json!(part)).collect()),
    }
}

/// Returns the lines of a text, split at every line boundary of Python's `splitlines`.
fn lines(text: &str) -> Value {
    const ENDS: [char; 10] = [
        '\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}',
    ];
    let text = text.replace("\r\n", "\n");
    let mut lines: Vec<Value> = text.split(ENDS).map(|line| json!(line)).collect();
    if text.is_empty() || text.ends_with(ENDS) {
        lines.pop();
    }
    Value::Array(lines)
}

fn indent(text: &str, width: i64, first: bool) -> Result<Value, String> {
    let spaces = usize::try_from(width).ok().filter(|width| *width <= WIDE);
    let Some(spaces) = spaces else {
        return Err(format!("ValueError: a width is 0 to {WIDE}, not {width}"));
    };
    let lines: Vec<&str> = text.split('\n').collect();
    check_size(characters(text) + spaces * lines.len(), LARGEST)?;
    let pad = " ".repeat(spaces);
    let padded = lines.iter().enumerate().map(|(place, line)| {
        if line.is_empty() || (place == 0 && !first) {
            (*line).to_owned()
        } else {
            format!("{pad}{line}")
        }
    });
    Ok(json!(padded.collect::<Vec<_>>().join("\n")))
}

/// Returns a text with the first letter of each word in upper case and the others in lower case.
fn title(text: &str) -> String {
    let mut inside = false;
    let mut titled = String::new();
    for character in text.chars() {
        if inside {
            titled.extend(character.to_lowercase());
        } else {
            titled.extend(character.to_uppercase());
        }
        inside = character.is_alphabetic();
    }
    titled
}

fn indented(value: &Value, width: usize) -> Result<String, String> {
    let spaces = " ".repeat(width);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    let written = value.serialize(&mut serializer);
    written.map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

//! Dependencies between named parts, and references to their results. Pure functions.
//!
//! Parts without unsolved dependencies can run concurrently.
//!
//! A reference is data and not a template language: an id, `output`, and keys or indexes, such as
//! `{{ task_1.output.path[0] }}`. The referenced value is never scanned for references. A lone
//! reference gives the native value; inside text it gives text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use thiserror::Error;

use crate::json::{Object, Value, render};
use crate::tools::quoted;

/// The error for parts that cannot be ordered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Tangle {
    /// `duplicate_id`, `unknown_dependency` or `cycle`.
    pub kind: &'static str,
    /// The feedback for the model.
    pub message: String,
}

/// Returns the ids in waves, each of which depends only on earlier waves.
///
/// Within a wave they are in listed order. `known` are existing ids; a part with a known name
/// replaces it.
///
/// # Errors
///
/// [`Tangle`] if an id occurs twice, a dependency does not exist, or there is a cycle.
pub fn waves<'a>(
    parts: &'a [(String, BTreeSet<String>)],
    known: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Vec<String>>, Tangle> {
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (id, before) in parts {
        let before = before.iter().map(String::as_str).collect();
        if needs.insert(id, before).is_some() {
            return Err(Tangle {
                kind: "duplicate_id",
                message: format!("the id {} is used twice: give each its own", quoted(id)),
            });
        }
    }
    let known = known.into_iter().filter(|id| !needs.contains_key(id));
    let mut done: BTreeSet<&str> = known.collect();
    for (id, before) in &needs {
        let there = |name: &&&str| needs.contains_key(**name) || done.contains(**name);
        if let Some(unknown) = before.iter().find(|name| !there(name)) {
            let have = parts.iter().map(|(id, _)| id.as_str()).chain(done);
            let have: Vec<String> = have.map(quoted).collect();
            let have = have.join(", ");
            return Err(Tangle {
                kind: "unknown_dependency",
                message: format!(
                    "{} depends on {}; there is only {have}",
                    quoted(id),
                    quoted(unknown)
                ),
            });
        }
    }
    let mut left: Vec<&str> = parts.iter().map(|(id, _)| id.as_str()).collect();
    let mut result = Vec::new();
    while !left.is_empty() {
        // In the order of the list, so that a replay computes the same waves.
        let ready = |id: &&str| needs.get(id).is_none_or(|before| before.is_subset(&done));
        let (wave, rest): (Vec<&str>, Vec<&str>) = left.iter().partition(|id| ready(id));
        if wave.is_empty() {
            let message = format!("the dependencies run in a circle among {}", rest.join(", "));
            return Err(Tangle {
                kind: "cycle",
                message,
            });
        }
        result.push(wave.iter().map(|id| (*id).to_owned()).collect());
        done.extend(wave);
        left = rest;
    }
    Ok(result)
}

/// The maximum number of characters of a text after its references are replaced.
const LONGEST_TEXT: usize = 100_000;

static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"\{\{\s*([A-Za-z0-9_][\w-]*)\.output((?:\.[\w-]+|\[[0-9]+\]|\[(?:'[^'\]]*'|"[^"\]]*")\])*)\s*\}\}"#,
    )
    .ok()
});
static PART: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\.([\w-]+)|\[([0-9]+)\]|\[(?:'([^'\]]*)'|"([^"\]]*)")\]"#).ok());
/// Notations that a model may use by mistake to refer to a task.
static NEAR_MISS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\{\{\s*([A-Za-z0-9_][\w-]*)\s*(\.output\b|[.\[|}])").ok());

/// Returns the ids that `value` references.
pub(super) fn references(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) => {
                let matches = REFERENCE.as_ref().map(|it| it.captures_iter(text));
                found.extend(matches.into_iter().flatten().map(|it| it[1].to_owned()));
            }
            Value::Object(members) => left.extend(members.values()),
            Value::Array(entries) => left.extend(entries),
            _ => {}
        }
    }
    found
}

/// The results of tasks by their ids, for resolving references.
pub(super) trait Results {
    /// Returns the output of a task, or the reason why it has none.
    fn output(&self, id: &str) -> Result<&Value, String>;

    /// Returns true if a task has this id. `{{ x }}` is plain text unless `x` is an id or `.output`
    /// follows.
    fn is_task(&self, id: &str) -> bool;
}

/// Returns `value` with every reference replaced by the referenced value.
///
/// # Errors
///
/// The point at which a reference cannot be followed, or the invalid notation of a reference.
pub(super) fn resolve(value: &Value, results: &impl Results) -> Result<Value, String> {
    match value {
        Value::String(text) => resolve_text(text, results),
        Value::Object(members) => resolve_members(members, results).map(Value::Object),
        Value::Array(entries) => {
            let entries = entries.iter().map(|entry| resolve(entry, results));
            entries.collect::<Result<_, _>>().map(Value::Array)
        }
        other => Ok(other.clone()),
    }
}

/// Returns an object with the references in its members replaced.
///
/// # Errors
///
/// As [`resolve`].
pub(super) fn resolve_members(members: &Object, results: &impl Results) -> Result<Object, String> {
    let members = members.iter();
    members
        .map(|(name, member)| Ok((name.clone(), resolve(member, results)?)))
        .collect()
}

fn resolve_text(text: &str, results: &impl Results) -> Result<Value, String> {
    let (Some(reference), Some(near)) = (REFERENCE.as_ref(), NEAR_MISS.as_ref()) else {
        return Ok(Value::String(text.to_owned()));
    };
    // Near misses first: an unresolved `{{ task_1.result }}` would reach a tool as text.
    for found in near.captures_iter(text) {
        let start = found.get(0).map_or(0, |it| it.start());
        let refers = &found[2] == ".output" || results.is_task(&found[1]);
        let written = reference.find_at(text, start);
        if refers && written.is_none_or(|it| it.start() != start) {
            let excerpt: String = text[start..].chars().take(60).collect();
            let id = &found[1];
            let how = format!("{{{{ {id}.output.key[0] }}}}");
            return Err(format!("{} is no reference: write {how}", quoted(&excerpt)));
        }
    }
    let trimmed = text.trim();
    if let Some(alone) = reference.captures(trimmed)
        && alone[0].len() == trimmed.len()
    {
        return follow(&alone, results).cloned();
    }
    let mut result = String::with_capacity(text.len());
    let mut end = 0;
    for found in reference.captures_iter(text) {
        let range = found.get(0).map_or(0..0, |it| it.range());
        result += &text[end..range.start];
        result += &render(follow(&found, results)?);
        end = range.end;
    }
    result += &text[end..];
    // Each reference may hold a complete result, and the number of references is not bounded.
    if result.chars().nth(LONGEST_TEXT).is_some() {
        return Err(format!(
            "the references make the text longer than {LONGEST_TEXT} characters"
        ));
    }
    Ok(Value::String(result))
}

fn follow<'a>(reference: &Captures<'_>, results: &'a impl Results) -> Result<&'a Value, String> {
    let mut target = results.output(&reference[1])?;
    let mut walked = format!("{}.output", &reference[1]);
    let parts = PART.as_ref().map(|it| it.captures_iter(&reference[2]));
    for part in parts.into_iter().flatten() {
        let key = [1, 3, 4].into_iter().find_map(|group| part.get(group));
        target = match key {
            Some(key) => member(target, key.as_str(), &walked)?,
            None => entry(target, &part[2], &walked)?,
        };
        walked += &part[0];
    }
    Ok(target)
}

fn member<'a>(value: &'a Value, key: &str, walked: &str) -> Result<&'a Value, String> {
    match value {
        // `.0` on a list is an index, which models use.
        Value::Array(_) if key.bytes().all(|it| it.is_ascii_digit()) => entry(value, key, walked),
        Value::Object(members) => members.get(key).ok_or_else(|| {
            let keys: Vec<String> = members.keys().take(10).map(|it| quoted(it)).collect();
            let keys = if keys.is_empty() {
                "none".to_owned()
            } else {
                keys.join(", ")
            };
            format!("{walked} has no {}; its keys: {keys}", quoted(key))
        }),
        other => Err(format!(
            "{walked} is {}: it has no {}",
            kind(other),
            quoted(key)
        )),
    }
}

fn entry<'a>(value: &'a Value, place: &str, walked: &str) -> Result<&'a Value, String> {
    let Value::Array(entries) = value else {
        return Err(format!("{walked} is {}: it has no [{place}]", kind(value)));
    };
    let found = place.parse().ok().and_then(|it: usize| entries.get(it));
    found.ok_or_else(|| {
        let count = entries.len();
        format!("{walked} has {count} entries: there is no [{place}]")
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
        Value::Bool(_) => "a boolean",
        Value::Null => "null",
        Value::Number(_) => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn order(parts: &[(&str, &[&str])], known: &[&str]) -> Result<Vec<Vec<String>>, &'static str> {
        let owned: Vec<(String, BTreeSet<String>)> = parts
            .iter()
            .map(|(id, before)| {
                let before = before.iter().map(|it| (*it).to_owned()).collect();
                ((*id).to_owned(), before)
            })
            .collect();
        waves(&owned, known.iter().copied()).map_err(|tangle| tangle.kind)
    }

    #[test]
    fn independent_parts_share_a_wave_in_the_order_of_the_list() {
        let found = order(&[("c", &["a", "b"]), ("b", &[]), ("a", &[])], &[]).unwrap();
        assert_eq!(found, [vec!["b", "a"], vec!["c"]]);
    }

    #[test]
    fn a_part_of_a_known_name_replaces_it() {
        let found = order(&[("b", &["a", "z"]), ("a", &[])], &["a", "z"]).unwrap();
        assert_eq!(found, [["a"], ["b"]]);
    }

    #[test]
    fn what_cannot_be_ordered_is_refused() {
        assert_eq!(order(&[("a", &["b"]), ("b", &["a"])], &[]), Err("cycle"));
        assert_eq!(order(&[("a", &["a"])], &["a"]), Err("cycle"));
        assert_eq!(order(&[("a", &[]), ("a", &[])], &[]), Err("duplicate_id"));
        assert_eq!(order(&[("a", &["z"])], &["y"]), Err("unknown_dependency"));
    }

    struct Fixed(Value);

    impl Results for Fixed {
        fn output(&self, id: &str) -> Result<&Value, String> {
            let found = self.0.get(id);
            found.ok_or_else(|| format!("there is no result of a task {}", quoted(id)))
        }

        fn is_task(&self, id: &str) -> bool {
            id == "t1" || id == "late"
        }
    }

    fn resolved(text: &str) -> Result<Value, String> {
        let results = json!({"t1": {"path": [{"id": 7}], "say": "{{ t1.output.say }}", "a b": 1}});
        resolve(&json!(text), &Fixed(results))
    }

    #[test]
    fn a_reference_alone_is_the_value_itself_and_within_text_its_text() {
        assert_eq!(resolved(" {{ t1.output.path[0].id }} "), Ok(json!(7)));
        assert_eq!(resolved("{{t1.output.path.0}}"), Ok(json!({"id": 7})));
        assert_eq!(resolved("{{ t1.output['a b'] }}"), Ok(json!(1)));
        assert_eq!(
            resolved("n {{ t1.output.path[0].id }}, {{ t1.output.path }}"),
            Ok(json!("n 7, [{\"id\":7}]"))
        );
    }

    #[test]
    fn what_a_result_says_is_never_read_for_references() {
        let expected = json!("{{ t1.output.say }}");
        assert_eq!(resolved("{{ t1.output.say }}"), Ok(expected));
    }

    #[test]
    fn text_in_braces_that_names_no_task_is_text() {
        assert_eq!(resolved("{{ user.name }}"), Ok(json!("{{ user.name }}")));
    }

    #[test]
    fn a_reference_that_leads_nowhere_says_where_it_breaks_off() {
        for (text, why) in [
            (
                "{{ t1.output.b }}",
                "t1.output has no 'b'; its keys: 'path'",
            ),
            ("{{ t1.output.path[3] }}", "t1.output.path has 1 entries"),
            ("{{ t1.output.path.x }}", "t1.output.path is a list"),
            ("{{ late.output }}", "no result of a task 'late'"),
            (
                "{{ t1.result }}",
                "is no reference: write {{ t1.output.key[0] }}",
            ),
            ("{{ other.output | upper }}", "is no reference"),
        ] {
            let error = resolved(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn references_are_found_at_any_depth() {
        let value = json!({"a": ["{{ x.output }}", {"b": "in {{ y.output.z }}"}], "c": "{{ z }}"});
        let found: Vec<String> = references(&value).into_iter().collect();
        assert_eq!(found, ["x", "y"]);
    }
}

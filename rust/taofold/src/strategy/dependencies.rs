//! Dependencies between named parts: what depends on nothing unsolved can be done at once.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

/// Parts that cannot be ordered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Tangle {
    /// `duplicate_id`, `unknown_dependency` or `cycle`.
    pub kind: &'static str,
    /// What the model is told.
    pub message: String,
}

/// Returns the ids in waves: each depends only on earlier waves; listing order within a wave.
///
/// # Errors
///
/// [`Tangle`] if an id occurs twice, a dependency does not exist, or there is a cycle.
pub fn waves(parts: &[(&str, &[String])]) -> Result<Vec<Vec<String>>, Tangle> {
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (id, before) in parts {
        let before = before.iter().map(String::as_str).collect();
        if needs.insert(id, before).is_some() {
            return Err(Tangle {
                kind: "duplicate_id",
                message: format!("the id {id:?} is used twice: give each its own"),
            });
        }
    }
    for (id, before) in &needs {
        if let Some(unknown) = before.iter().find(|name| !needs.contains_key(*name)) {
            let have: Vec<String> = parts.iter().map(|(id, _)| format!("{id:?}")).collect();
            let have = have.join(", ");
            return Err(Tangle {
                kind: "unknown_dependency",
                message: format!("{id:?} depends on {unknown:?}; there is only {have}"),
            });
        }
    }
    let mut left: Vec<&str> = parts.iter().map(|(id, _)| *id).collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut result = Vec::new();
    while !left.is_empty() {
        // In the order of the list, so that waves are the same on replay.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn order(parts: &[(&str, &[&str])]) -> Result<Vec<Vec<String>>, &'static str> {
        let owned: Vec<(&str, Vec<String>)> = parts
            .iter()
            .map(|(id, before)| (*id, before.iter().map(|it| (*it).to_owned()).collect()))
            .collect();
        let borrowed: Vec<(&str, &[String])> = owned
            .iter()
            .map(|(id, before)| (*id, before.as_slice()))
            .collect();
        waves(&borrowed).map_err(|tangle| tangle.kind)
    }

    #[test]
    fn independent_parts_share_a_wave_in_the_order_of_the_list() {
        let found = order(&[("c", &["a", "b"]), ("b", &[]), ("a", &[])]).unwrap();
        assert_eq!(found, [vec!["b", "a"], vec!["c"]]);
    }

    #[test]
    fn what_cannot_be_ordered_is_refused() {
        assert_eq!(order(&[("a", &["b"]), ("b", &["a"])]), Err("cycle"));
        assert_eq!(order(&[("a", &["a"])]), Err("cycle"));
        assert_eq!(order(&[("a", &[]), ("a", &[])]), Err("duplicate_id"));
        assert_eq!(order(&[("a", &["z"])]), Err("unknown_dependency"));
    }
}

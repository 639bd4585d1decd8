//! Finds the position of a value in a YAML file for error messages.
//!
//! This module does not depend on the meaning of the keys.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Returns a path such as `nodes[0].with.prompt` and the line of its deepest existing key.
///
/// The line is counted from 1. It is 0 if the text cannot be parsed or has none of the keys.
///
/// ```
/// use taofold::agent::line_of;
///
/// let text = "name: a\nlimits:\n  steps: many\n";
/// assert_eq!(line_of(text, "limits.steps"), ("limits.steps".to_owned(), 3));
/// ```
pub fn line_of(text: &str, path: &str) -> (String, u64) {
    let tree: Option<Tree> = serde_saphyr::from_str(text).ok();
    let mut here = tree.as_ref();
    let mut line = 0;
    let mut shown = String::new();
    for part in path
        .split(['.', '['])
        .map(|part| part.trim_end_matches(']'))
    {
        let index = part.parse::<usize>().ok();
        let next = match (here, index) {
            (Some(Tree::List(entries)), Some(index)) => {
                shown.push_str(&format!("[{index}]"));
                entries
                    .get(index)
                    .map(|entry| (&entry.value, entry.referenced.line()))
            }
            (parent, _) => {
                if !shown.is_empty() && !part.is_empty() {
                    shown.push('.');
                }
                shown.push_str(part);
                let Some(Tree::Mapping(members)) = parent else {
                    here = None;
                    continue;
                };
                let found = members.iter().find(|(key, _)| key.value == part);
                found.map(|(key, member)| (member, key.referenced.line()))
            }
        };
        here = next.map(|(inner, _)| inner);
        line = next.map_or(line, |(_, found)| found);
    }
    (shown, line)
}

/// The structure of a document with the positions of its keys and entries.
enum Tree {
    Mapping(Vec<(Spanned<String>, Tree)>),
    List(Vec<Spanned<Tree>>),
    Scalar,
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shape)
    }
}

struct Shape;

impl<'de> Visitor<'de> for Shape {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Mapping(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element()? {
            list.push(entry);
        }
        Ok(Tree::List(list))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Tree, D::Error> {
        Tree::deserialize(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Tree, D::Error> {
        IgnoredAny::deserialize(inner).map(|_| Tree::Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::line_of;

    const TEXT: &str = "name: a\nagents:\n  b: gone.yaml\nnodes:\n- name: x\n  goto:\n  - to: y\n  \
                        - {if: 'a', to: z}\n- name: y\n  steps: [{name: q}]\n";

    /// Mutant: the line of a value instead of that of its key.
    #[test]
    fn a_path_has_the_line_of_its_key_or_of_the_nearest_above() {
        for (path, shown, line) in [
            ("agents.b", "agents.b", 3),
            ("nodes", "nodes", 4),
            ("nodes.0.goto.1.if", "nodes[0].goto[1].if", 8),
            ("nodes[0].goto[0].to", "nodes[0].goto[0].to", 7),
            ("nodes.1.gone.deeper", "nodes[1].gone.deeper", 9),
            ("nodes.1.steps.0.name", "nodes[1].steps[0].name", 10),
            ("gone", "gone", 0),
            ("", "", 0),
        ] {
            assert_eq!(line_of(TEXT, path), (shown.to_owned(), line), "{path}");
        }
        assert_eq!(line_of("a: [b", "a"), ("a".to_owned(), 0));
    }
}

//! Grounding: checks that a thought uses observed tokens, and finds these tokens.
//!
//! A token is concrete: a number, a quoted string, an identifier, a path. It counts if an
//! observation introduced it, and not the goal, the instructions or the model. A token learned from
//! an observation stays learned after the model repeats it. The check is pure, linear in the text,
//! and independent of meaning. The tokens are those of the Python runtime
//! (`taofold.core.grounding`), because both runtimes must judge a recorded thought alike.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::json::Value;
use crate::values::Thought;

/// The maximum number of characters of a token; longer ones are encoded data.
const LONGEST: usize = 200;
/// The number of characters between quotation marks.
const QUOTATION: std::ops::RangeInclusive<usize> = 2..=80;

static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d+(?:\.\d+)*").ok());
static CHUNK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\w+(?:(?:::|[./-])\w+)*").ok());
/// Two adjacent word characters between the marks: "e.g" and "n/a" have none and identify nothing.
static PAIR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[^\W_]{2}|[^\W_]_|_[^\W_]|::").ok());
static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d|[a-z][A-Z]").ok());
/// A plain word: letters only, with an optional capital. Most chunks end here.
static PLAIN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[^\W\d_][a-z]*$").ok());

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|it| it.is_match(text))
}

fn found<'a>(pattern: &LazyLock<Option<Regex>>, text: &'a str) -> HashSet<&'a str> {
    let found = pattern.as_ref().map(|it| it.find_iter(text));
    found.into_iter().flatten().map(|it| it.as_str()).collect()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn is_longer(text: &str, most: usize) -> bool {
    text.chars().nth(most).is_some()
}

/// Returns the concrete tokens of `text`: numbers, quoted strings, identifiers, paths.
pub(super) fn tokens(text: &str) -> HashSet<String> {
    let mut concrete: HashSet<String> = numbers(text).collect();
    concrete.extend(quotations(text));
    for chunk in found(&CHUNK, text) {
        if is_longer(chunk, 2) && !matches(&PLAIN, chunk) && !is_longer(chunk, LONGEST) {
            concrete.extend(identifiers(chunk).map(str::to_owned));
        }
    }
    concrete
}

/// Returns the numbers of `text`. Single digits are ignored because they match by chance.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    let matches = NUMBER.as_ref().map(|it| it.find_iter(text));
    matches.into_iter().flatten().filter_map(|number| {
        // Not inside a word or after a dot: the 2 of `v1.2` belongs to its name.
        let before = text[..number.start()].chars().next_back();
        let own = before.is_none_or(|it| !is_word(it) && it != '.');
        let number = number.as_str();
        let counts = own && is_longer(number, 1) && !is_longer(number, LONGEST);
        counts.then(|| number.to_owned())
    })
}

/// Returns the texts between quotation marks on one line.
fn quotations(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut before = None;
    while let Some(open) = text[at..].chars().next() {
        let start = at + open.len_utf8();
        let quoted = closing_mark(open).and_then(|close| {
            // Limited to the maximum quotation length, so that an unclosed quotation costs no more.
            let mut near = text[start..].char_indices().take(QUOTATION.end() + 1);
            let (length, _) = near.find(|(_, it)| *it == close)?;
            let end = start + length;
            let inner = &text[start..end];
            let after = text[end + close.len_utf8()..].chars().next();
            // An apostrophe within a word is not a quotation mark.
            let apart = |it: Option<char>| open != '\'' || it.is_none_or(|it| !is_word(it));
            let fits = QUOTATION.contains(&inner.chars().count()) && !inner.contains('\n');
            (fits && apart(before) && apart(after)).then_some((inner, close))
        });
        match quoted {
            Some((inner, close)) => {
                let inner_end = start + inner.len();
                if is_longer(inner.trim(), 1) {
                    found.push(inner.trim().to_owned());
                }
                at = inner_end + close.len_utf8();
                before = Some(close);
            }
            None => {
                at = start;
                before = Some(open);
            }
        }
    }
    found
}

fn closing_mark(open: char) -> Option<char> {
    match open {
        '"' | '`' | '\'' => Some(open),
        '“' => Some('”'),
        '«' => Some('»'),
        '‘' => Some('’'),
        _ => None,
    }
}

/// Returns `chunk` and its parts that are concrete.
fn identifiers(chunk: &str) -> impl Iterator<Item = &str> {
    let segments = chunk.split("::").flat_map(|it| it.split('/'));
    let parts = segments.flat_map(|segment| {
        let parts = segment.split(['.', '-']);
        std::iter::once(segment).chain(parts)
    });
    std::iter::once(chunk)
        .chain(parts)
        .filter(|it| is_concrete(it))
}

fn is_concrete(name: &str) -> bool {
    let digits = name.chars().filter(|it| *it != '.');
    let is_number = name.contains(|it| it != '.') && digits.clone().all(char::is_numeric);
    if !is_longer(name, 2) || is_number {
        return false;
    }
    if name.contains(['_', '.', '/', ':']) {
        return matches(&PAIR, name);
    }
    let is_upper = !name.chars().any(char::is_lowercase) && name.chars().any(char::is_uppercase);
    matches(&SHAPE, name) || (is_upper && name.chars().all(char::is_alphabetic))
}

/// Calls `take` with every string and number in a JSON value, keys included.
fn texts(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Number(number) => take(&number.to_string()),
        Value::Array(entries) => entries.iter().for_each(|entry| texts(entry, take)),
        Value::Object(members) => {
            for (name, member) in members {
                take(name);
                texts(member, take);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// The relation of a thought to earlier observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grounding {
    /// True if it names a token from an observation.
    pub(super) grounded: bool,
    /// True if it could have been grounded; the first step never is.
    pub(super) eligible: bool,
}

/// The first source of each token, recorded in the order of the run.
#[derive(Debug, Default)]
pub(super) struct TokenLedger {
    own: HashSet<String>,
    learnt: HashSet<String>,
    brought: HashMap<u64, HashSet<String>>,
}

impl TokenLedger {
    /// Returns true if any observation introduced a token that a thought could cite.
    pub(super) fn has_learnt(&self) -> bool {
        !self.learnt.is_empty()
    }

    /// Adds text of the goal, the instructions, the model or a user.
    ///
    /// Tokens that first occur in it are no evidence, even if an observation repeats them later.
    pub(super) fn said(&mut self, text: &str) {
        for token in tokens(text) {
            if !self.learnt.contains(&token) {
                self.own.insert(token);
            }
        }
    }

    /// Adds every text in a value, like [`said`](Self::said).
    pub(super) fn said_value(&mut self, value: &Value) {
        texts(value, &mut |text| self.said(text));
    }

    /// Adds the observation of `step`.
    pub(super) fn observed(&mut self, step: u64, value: &Value) {
        let brought = self.brought.entry(step).or_default();
        texts(value, &mut |text| {
            for token in tokens(text) {
                if !self.own.contains(&token) {
                    self.learnt.insert(token.clone());
                    brought.insert(token);
                }
            }
        });
    }

    /// Judges the thought of `step` by the observations so far, then adds it as the model's text.
    pub(super) fn judge(&mut self, step: u64, thought: &Thought) -> Grounding {
        // Judged before it is added; otherwise every thought would match itself.
        let text = format!("{}\n{}", thought.content, thought.learned);
        let words = tokens(&text);
        // If a thought names its sources, tokens from other steps do not count.
        let grounded = if thought.because.is_empty() {
            words.iter().any(|token| self.learnt.contains(token))
        } else {
            let sources = thought.because.iter().filter_map(|it| self.brought.get(it));
            sources
                .into_iter()
                .any(|brought| !brought.is_disjoint(&words))
        };
        let eligible = step > 1 && !self.brought.is_empty();
        self.said(&text);
        Grounding { grounded, eligible }
    }
}

/// Returns `goal` without its reference data: the lines that begin with `mark`, which existed
/// before the run.
pub(super) fn without_reference(goal: &str, mark: &str) -> String {
    if mark.is_empty() {
        return goal.to_owned();
    }
    let lines: Vec<&str> = goal
        .lines()
        .filter(|line| !line.starts_with(mark))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::values::ThoughtType;

    fn grounded(ledger: &mut TokenLedger, step: u64, text: &str, because: &[u64]) -> bool {
        let thought = Thought {
            because: because.to_vec(),
            ..Thought::new(text, ThoughtType::Reasoning)
        };
        ledger.judge(step, &thought).grounded
    }

    #[test]
    fn a_thought_rests_on_what_an_observation_brought_first() {
        let mut ledger = TokenLedger::default();
        ledger.said("Find order 4711.");
        ledger.observed(
            1,
            &json!({"order": 4711, "total": "99.50", "file": "a_b.txt"}),
        );
        ledger.observed(2, &json!("code E417"));
        assert!(!grounded(&mut ledger, 3, "Order 4711 is there.", &[]));
        assert!(grounded(&mut ledger, 3, "The total is 99.50.", &[]));
        assert!(grounded(&mut ledger, 3, "It is 99.50, by step 1.", &[1]));
        assert!(!grounded(&mut ledger, 3, "It is 99.50, by step 2.", &[2]));
        assert!(!grounded(&mut ledger, 3, "It is 4712.", &[]));
        ledger.observed(3, &json!("4712"));
        assert!(!grounded(&mut ledger, 4, "It is 4712, as I said.", &[]));
    }

    #[test]
    fn the_first_step_and_one_without_observations_cannot_be_grounded() {
        let thought = Thought::new("x", ThoughtType::Reasoning);
        let mut ledger = TokenLedger::default();
        assert!(!ledger.judge(2, &thought).eligible);
        ledger.observed(1, &json!("4711"));
        assert!(!ledger.judge(1, &thought).eligible);
        assert!(ledger.judge(2, &thought).eligible);
    }

    #[test]
    fn reference_data_of_a_goal_is_no_text_of_a_person() {
        assert_eq!(without_reference("a\n| b 4711\nc", "|"), "a\nc");
        assert_eq!(without_reference("| a", ""), "| a");
    }
}

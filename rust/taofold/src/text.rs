//! Text for display and the log: excerpts, key lines, and visible forms of invisible characters.
//!
//! The texts are those of the Python runtime, because logs of both contain them. This module does
//! not depend on runs or tools.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use unicode_normalization::char::is_combining_mark;

/// The minimum similarity, out of 1, for a suggested name.
const ALIKE: f64 = 0.6;

/// Returns a suggestion for an unknown name, or the list of known names.
pub(crate) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    // A name may be given without the group before its last dot.
    let alike = |other: &&str| {
        let last = other.rsplit('.').next().unwrap_or_default();
        let alike = strsim::normalized_damerau_levenshtein;
        alike(name, other).max(alike(name, last))
    };
    let nearest = known.iter().copied().max_by(|one, other| {
        let (one, other) = (alike(one), alike(other));
        one.total_cmp(&other)
    });
    match nearest {
        Some(nearest) if alike(&nearest) >= ALIKE => format!("did you mean {nearest:?}?"),
        Some(_) => format!("known are {}", known.join(", ")),
        None => "there is none".to_owned(),
    }
}

/// The maximum number of characters of a key line.
const LINE: usize = 200;

static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i:\b(?:error|exception|traceback|failed|failure|fatal|panic|assert(?:ion)?\w*)\b|^E\s)|\b[A-Z]\w*(?:Error|Exception)\b",
    )
    .ok()
});

/// Returns true for characters that are not displayed or change how others are displayed.
///
/// These are control characters, bidirectional marks, joiners, fillers, selectors and tags.
fn is_unseen(character: char) -> bool {
    matches!(character,
        '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}'
        | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text with control, bidirectional and invisible characters made visible.
///
/// Tabs and line ends stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.replace("\r\n", "\n").chars() {
        match u32::from(character) {
            _ if !is_unseen(character) => shown.push(character),
            // The block "Control Pictures" has a symbol for each.
            code @ 0..0x20 => shown.extend(char::from_u32(0x2400 + code)),
            code => shown.push_str(&format!("\\u{{{code:x}}}")),
        }
    }
    Cow::Owned(shown)
}

/// Returns bytes as text in which different bytes look different.
///
/// This includes invalid UTF-8, blanks at line ends, blanks beyond ASCII, tabs (⇥) and its own
/// escapes.
pub(crate) fn unambiguous(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len() + 16);
    let escape = |shown: &mut String, code: u32| shown.push_str(&format!("\\u{{{code:x}}}"));
    for chunk in bytes.utf8_chunks() {
        let text = chunk.valid();
        for (at, character) in text.char_indices() {
            let rest = &text[at + character.len_utf8()..];
            // True if only blanks follow in the line. Invalid UTF-8 after them is not a line end.
            let trailing = || match rest.trim_start_matches([' ', '\t']) {
                "" => chunk.invalid().is_empty(),
                left => left.starts_with('\n'),
            };
            match character {
                ' ' | '\t' if trailing() => escape(&mut shown, u32::from(character)),
                '\t' => shown.push_str("⇥\t"),
                '\\' if rest.starts_with("u{") => escape(&mut shown, u32::from('\\')),
                '⇥'
                | '\u{a0}'
                | '\u{1680}'
                | '\u{2000}'..='\u{200a}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{3000}' => escape(&mut shown, u32::from(character)),
                // Marks that are drawn over the preceding character. Those of scripts only at the
                // start of a line, where they would change the sign of a diff.
                '\u{300}'..='\u{36f}'
                | '\u{483}'..='\u{489}'
                | '\u{1ab0}'..='\u{1aff}'
                | '\u{1dc0}'..='\u{1dff}'
                | '\u{20d0}'..='\u{20ff}'
                | '\u{fe20}'..='\u{fe2f}' => {
                    escape(&mut shown, u32::from(character));
                }
                _ if is_combining_mark(character)
                    && (shown.is_empty() || shown.ends_with('\n')) =>
                {
                    escape(&mut shown, u32::from(character));
                }
                _ if is_unseen(character) => escape(&mut shown, u32::from(character)),
                _ => shown.push(character),
            }
        }
        for byte in chunk.invalid() {
            escape(&mut shown, 0xdc00 + u32::from(*byte));
        }
    }
    shown
}

/// Returns the text, or its beginning and an ellipsis: at most `width` characters.
pub(crate) fn clip(text: &str, width: usize) -> String {
    if text.chars().nth(width).is_none() {
        return text.to_owned();
    }
    let cut: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

/// Returns at most about `limit` characters: the head, lines that look like errors, the tail.
pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= limit {
        return text.to_owned();
    }
    let part = (limit * 3 / 10).max(1);
    let end = characters.len() - part;
    let head: String = characters[..part].iter().collect();
    let tail: String = characters[end..].iter().collect();
    let between: String = characters[part..end].iter().collect();
    let errors = errors(&between, limit - 2 * part);
    let left = characters.len() - 2 * part - errors.chars().count();
    let mut middle = format!("\n[… {left} characters left out …]\n");
    if !errors.is_empty() {
        middle.push_str(&format!("{errors}\n[…]\n"));
    }
    head + &middle + &tail
}

/// Returns lines that look like errors, from the start, within `limit` characters.
fn errors(text: &str, mut limit: usize) -> String {
    let mut chosen = Vec::new();
    for line in text.lines().filter(|line| is_error(line)) {
        let line: String = line.chars().take(LINE).collect();
        match limit.checked_sub(line.chars().count() + 1) {
            Some(rest) => limit = rest,
            None => break,
        }
        chosen.push(line);
    }
    chosen.join("\n")
}

fn is_error(line: &str) -> bool {
    // A minified file can be one line of megabytes, so only its beginning is checked.
    let end = line
        .char_indices()
        .nth(2000)
        .map_or(line.len(), |(end, _)| end);
    ERROR
        .as_ref()
        .is_some_and(|error| error.is_match(&line[..end]))
}

/// Returns the first line with content or, after a failure, the first that looks like an error.
pub(crate) fn key_line(text: &str, failed: bool) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next();
    let error = failed.then(|| lines.find(|line| is_error(line))).flatten();
    error
        .or(first)
        .unwrap_or_default()
        .chars()
        .take(LINE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_would_see_is_shown() {
        assert_eq!(visible("a\u{202e}b\x1b[0m\r\n\tc"), "a\\u{202e}b␛[0m\n\tc");
        assert!(matches!(visible("plain ä"), Cow::Borrowed(_)));
    }

    #[test]
    fn no_two_texts_are_spelled_alike() {
        let spelled = unambiguous(b" a \n\tb \t\r\n\\u{20} \\u20\xe9 \xe2\x87\xa5");
        let expected = " a\\u{20}\n⇥\tb ⇥\t\\u{d}\n\\u{5c}u{20} \\u20\\u{dce9} \\u{21e5}";
        assert_eq!(spelled, expected);
    }

    #[test]
    fn a_failures_key_line_is_its_first_error() {
        let text = "\nbegun\n  ValueError: no \nlater error";
        assert_eq!(key_line(text, true), "ValueError: no");
        assert_eq!(key_line(text, false), "begun");
        assert_eq!(key_line(" \n", true), "");
    }

    #[test]
    fn an_excerpt_keeps_head_errors_and_tail() {
        let text = format!(
            "head{}\nfatal: it broke\n{}tail",
            "x".repeat(500),
            "y".repeat(500)
        );
        let short = excerpt(&text, 100);
        assert!(
            short.starts_with("head") && short.ends_with("tail"),
            "{short}"
        );
        assert!(short.contains("fatal: it broke\n[…]"), "{short}");
        assert_eq!(excerpt("short", 100), "short");
    }
}

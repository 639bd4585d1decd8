//! The built-in file tools: list, read, search, write and edit below one directory, with a preview
//! of each change for its approver.
//!
//! Every path goes through the [`Jail`]. Tools that change files may be repeated after a crash with
//! the same parameters and produce the same file: an edit stores the id of its effect with the
//! file. The texts are those of the Python runtime, so that each runtime can use an approval of the
//! other.

use std::sync::Arc;

use async_trait::async_trait;
use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest};
use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::builtin::{BuiltIn, built_in};
use super::diff;
use super::jail::{Entry, Jail, Kind};
use crate::content::hex;
use crate::errors::ConfigError;
use crate::json::{Object, Value, json};
use crate::policy::Tier;
use crate::text::{unambiguous, visible};
use crate::tools::{CallContext, Declared, Tool, literal};
use crate::values::{Observation, Sideeffect};

const MOST_ENTRIES: usize = 500;
/// The maximum size of a file that is read, in bytes.
const MOST_BYTES: u64 = 10_000_000;
/// The maximum number of characters of a file in one result.
const MOST_CHARS: usize = 15_000;
/// The maximum sizes in bytes of a searched file and of all content that one search reads.
const MOST_SEARCHED: u64 = 2_000_000;
const MOST_TEXT: usize = 32_000_000;
const BINARY_SNIFF: usize = 8192;
/// The maximum number of characters of one shown line.
const WIDEST: usize = 2000;
/// The maximum number of entries that one call visits.
const MOST_WALKED: usize = 20_000;
/// The maximum number of lines of a shown diff.
const MOST_DIFF: usize = 60;
/// Directories that are listed but not entered.
const UNLISTED: [&str; 5] = [
    ".git",
    "__pycache__",
    "node_modules",
    ".venv",
    ".mypy_cache",
];

/// The operation of a file tool.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Verb {
    List,
    Read,
    Search,
    Write,
    Edit,
}

/// One of the file tools.
#[derive(Debug)]
pub(super) struct FileTool {
    built_in: BuiltIn,
    jail: Arc<Jail>,
    verb: Verb,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default = "here")]
    path: String,
    #[serde(default)]
    glob: String,
    #[serde(default = "three")]
    depth: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    path: String,
    #[serde(default = "one")]
    start: usize,
    #[serde(default)]
    end: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    pattern: String,
    #[serde(default = "here")]
    path: String,
    #[serde(default)]
    glob: String,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default = "hundred")]
    limit: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

fn here() -> String {
    ".".to_owned()
}

fn one() -> usize {
    1
}

fn three() -> usize {
    3
}

fn hundred() -> usize {
    100
}

/// A result and its key line.
struct Said(String, String);

/// Returns the file tools below the jail's root; without the writing ones unless `write` is true.
pub(super) fn tools(jail: Jail, write: bool) -> Result<Vec<Arc<dyn Tool>>, ConfigError> {
    let jail = Arc::new(jail);
    let verbs = [
        ("list_files", Verb::List),
        ("read_file", Verb::Read),
        ("search", Verb::Search),
        ("write_file", Verb::Write),
        ("edit_file", Verb::Edit),
    ];
    verbs
        .into_iter()
        .filter(|(_, verb)| write || !matches!(verb, Verb::Write | Verb::Edit))
        .map(|(name, verb)| {
            let (effect, tier) = match verb {
                Verb::Write | Verb::Edit => (Sideeffect::Idempotent, Tier::Card),
                _ => (Sideeffect::Read, Tier::Auto),
            };
            Ok(Arc::new(FileTool {
                built_in: built_in(name, effect, tier)?,
                jail: Arc::clone(&jail),
                verb,
            }) as Arc<dyn Tool>)
        })
        .collect()
}

fn read<T: serde::de::DeserializeOwned>(parameters: &Object) -> Result<T, String> {
    let mut parameters = parameters.clone();
    parameters.shift_remove("timeout_s");
    serde_json::from_value(Value::Object(parameters)).map_err(|error| error.to_string())
}

impl FileTool {
    fn perform(&self, parameters: &Object, effect: &str) -> Result<Said, String> {
        let jail = &self.jail;
        match self.verb {
            Verb::List => list(jail, &read(parameters)?),
            Verb::Read => show(jail, &read(parameters)?),
            Verb::Search => search(jail, &read(parameters)?),
            Verb::Write => write(jail, &read(parameters)?),
            Verb::Edit => edit(jail, &read(parameters)?, effect),
        }
    }
}

#[async_trait]
impl Tool for FileTool {
    fn declared(&self) -> &Declared {
        &self.built_in.declared
    }

    fn check(&self, parameters: &Object) -> Result<(), String> {
        self.built_in.check(parameters)
    }

    fn preview(&self, parameters: &Object) -> String {
        let shown = match self.verb {
            Verb::Write => read(parameters).map(|it| preview_write(&self.jail, &it)),
            Verb::Edit => read(parameters).map(|it| preview_edit(&self.jail, &it)),
            _ => Err(String::new()),
        };
        shown.unwrap_or_else(|_| crate::tools::call_line(self.name(), parameters))
    }

    async fn call(&self, parameters: Object, context: CallContext) -> Observation {
        match self.perform(&parameters, &context.effect_id) {
            Ok(Said(text, line)) => Observation {
                result: Value::String(text),
                extraction: line,
                ..Observation::default()
            },
            Err(why) => Observation::failure(why),
        }
    }
}

/// The content with only `\n` line ends, and the properties needed to write it back.
struct TextFile {
    content: String,
    windows: bool,
    bom: bool,
    /// True if it is valid UTF-8; otherwise writing it back would change it.
    exact: bool,
}

impl TextFile {
    fn decode(raw: &[u8]) -> Self {
        let (bom, rest) = match raw.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => (true, rest),
            None => (false, raw),
        };
        let content = String::from_utf8_lossy(rest);
        let exact = matches!(content, std::borrow::Cow::Borrowed(_));
        let ends = content.matches("\r\n").count();
        // Only if every line ends this way: writing back a mixed file would change it.
        let windows = ends > 0 && ends == content.matches('\n').count();
        let content = if windows {
            content.replace("\r\n", "\n")
        } else {
            content.into_owned()
        };
        Self {
            content,
            windows,
            bom,
            exact,
        }
    }

    fn lines(&self) -> Vec<&str> {
        lines(&self.content)
    }

    fn encoded(&self, content: &str) -> Vec<u8> {
        let mut bytes = if self.bom {
            b"\xef\xbb\xbf".to_vec()
        } else {
            Vec::new()
        };
        if self.windows {
            bytes.extend(content.replace('\n', "\r\n").bytes());
        } else {
            bytes.extend(content.bytes());
        }
        bytes
    }

    fn remarks(&self) -> String {
        let mut remarks = Vec::new();
        if self.windows {
            remarks.push("CRLF line ends");
        }
        if !self.exact {
            remarks.push("not valid UTF-8: shown approximately");
        }
        if remarks.is_empty() {
            return String::new();
        }
        format!(" ({})", remarks.join(", "))
    }
}

/// Returns lines without their ends. A final line end adds no further line.
fn lines(content: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = content.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    lines
}

fn is_binary(raw: &[u8]) -> bool {
    has_nul(raw) || raw.starts_with(b"%PDF-")
}

fn times(count: usize, what: &str) -> String {
    match (count, what) {
        (1, what) => format!("1 {what}"),
        (count, "entry") => format!("{count} entries"),
        (count, what) => format!("{count} {what}s"),
    }
}

fn quoted(text: &str) -> String {
    literal(&json!(text))
}

fn line_of(text: &str) -> String {
    visible(text).replace('\n', "␊").replace('\t', "␉")
}

fn clipped(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}… ({} characters)", &line[..end], line.chars().count()),
    }
}

fn numbered(lines: &[&str], first: usize) -> String {
    let numbered: Vec<String> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| format!("{}\t{}", first + index, clipped(line, WIDEST)))
        .collect();
    numbered.join("\n")
}

/// Adds the entries below `parts`, each directory before its content, down to `depth` levels.
fn walk(jail: &Jail, parts: &[String], depth: usize, found: &mut Vec<Entry>) -> Result<(), String> {
    for entry in jail.entries(parts)? {
        // Bounded, so that no tool walks a whole disk.
        if found.len() >= MOST_WALKED {
            return Ok(());
        }
        let name = entry.path.rsplit('/').next().unwrap_or_default().to_owned();
        let enters = entry.kind == Kind::Folder && depth > 1 && !UNLISTED.contains(&name.as_str());
        found.push(entry);
        if enters {
            let mut inner = parts.to_vec();
            inner.push(name);
            // An entry that vanished or is not readable must not prevent the listing of the others.
            let _ = walk(jail, &inner, depth - 1, found);
        }
    }
    Ok(())
}

/// A glob. Without `/` it matches only the name; `**/` matches any directories.
struct Glob(Vec<Regex>, bool);

impl Glob {
    fn new(glob: &str) -> Result<Option<Self>, String> {
        if glob.is_empty() {
            return Ok(None);
        }
        let patterns = [glob.to_owned(), glob.replace("**/", "")];
        let compiled = patterns.iter().map(|pattern| {
            Regex::new(&translated(pattern)).map_err(|_| format!("{} is no glob", quoted(glob)))
        });
        let compiled: Result<Vec<Regex>, String> = compiled.collect();
        Ok(Some(Self(compiled?, glob.contains('/'))))
    }

    fn fits(&self, path: &str) -> bool {
        let text = if self.1 {
            path
        } else {
            path.rsplit('/').next().unwrap_or_default()
        };
        self.0.iter().any(|pattern| pattern.is_match(text))
    }
}

/// Converts a glob to a regular expression, like Python's `fnmatch`.
fn translated(glob: &str) -> String {
    let characters: Vec<char> = glob.chars().collect();
    let mut pattern = String::from("(?s)^");
    let mut at = 0;
    while at < characters.len() {
        let character = characters[at];
        at += 1;
        match character {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            '[' => {
                let mut end = at;
                if characters.get(end) == Some(&'!') {
                    end += 1;
                }
                if characters.get(end) == Some(&']') {
                    end += 1;
                }
                while end < characters.len() && characters[end] != ']' {
                    end += 1;
                }
                if end >= characters.len() {
                    pattern.push_str("\\[");
                    continue;
                }
                let set: String = characters[at..end].iter().collect();
                let (negated, set) = match set.strip_prefix('!') {
                    Some(rest) => ("^", rest.to_owned()),
                    None => ("", set),
                };
                let set = set
                    .replace('\\', "\\\\")
                    .replace('[', "\\[")
                    .replace('&', "\\&");
                let set = set
                    .replace('~', "\\~")
                    .replace('^', "\\^")
                    .replace(']', "\\]");
                pattern.push_str(&format!("[{negated}{set}]"));
                at = end + 1;
            }
            other => pattern.push_str(&regex::escape(&other.to_string())),
        }
    }
    pattern.push('$');
    pattern
}

fn list(jail: &Jail, asked: &List) -> Result<Said, String> {
    let glob = Glob::new(&asked.glob)?;
    let mut found = Vec::new();
    walk(
        jail,
        &jail.parts(&asked.path, false)?,
        asked.depth,
        &mut found,
    )?;
    let fits = |entry: &&Entry| match &glob {
        Some(glob) => entry.kind != Kind::Folder && glob.fits(&entry.path),
        None => true,
    };
    let found: Vec<&Entry> = found.iter().filter(fits).collect();
    let shown = found.iter().take(MOST_ENTRIES).map(|entry| {
        let path = line_of(&entry.path);
        match &entry.kind {
            Kind::Folder => format!("{path}/"),
            Kind::File(size) => format!("{path}  {size}"),
            Kind::Link(target) => format!("{path} -> {} (a link, not followed)", line_of(target)),
            Kind::Other => format!("{path}  (special)"),
        }
    });
    let mut lines: Vec<String> = shown.collect();
    if lines.is_empty() {
        let path = quoted(&asked.path);
        let what = match &glob {
            Some(_) => format!("nothing matches {} in {path}", quoted(&asked.glob)),
            None => format!("nothing is in {path}"),
        };
        return Ok(Said(what.clone(), what));
    }
    if found.len() > MOST_ENTRIES {
        let more = found.len() - MOST_ENTRIES;
        lines.push(format!("… {more} more; narrow it with path, glob or depth"));
    }
    let summary = format!("{} in {}", times(found.len(), "entry"), asked.path);
    Ok(Said(lines.join("\n"), summary))
}

fn show(jail: &Jail, asked: &Lines) -> Result<Said, String> {
    let path = &asked.path;
    let raw = jail.read(path, MOST_BYTES)?;
    if is_binary(&raw) {
        return Err(format!(
            "{} is a binary file of {} bytes",
            quoted(path),
            raw.len()
        ));
    }
    let text = TextFile::decode(&raw);
    let lines = text.lines();
    if lines.is_empty() {
        let what = format!("{path} is empty");
        return Ok(Said(what.clone(), what));
    }
    let (start, end) = (asked.start.max(1), asked.end);
    if start > lines.len() {
        return Err(format!(
            "{} has {}; start={start} is beyond them",
            quoted(path),
            times(lines.len(), "line")
        ));
    }
    let wanted = if end == 0 {
        lines.len()
    } else {
        end.min(lines.len())
    };
    if wanted < start {
        return Err(format!("end={end} is before start={start}"));
    }
    let mut left = MOST_CHARS;
    let mut last = start - 1;
    // At least one line of any length, because a reader that receives nothing would repeat the
    // call.
    for line in &lines[start - 1..wanted] {
        let length = clipped(line, WIDEST).chars().count() + 8;
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None if last < start => left = 0,
            None => break,
        }
        last += 1;
    }
    let head = format!(
        "{path}: lines {start}-{last} of {}{}",
        lines.len(),
        text.remarks()
    );
    let more = if end == 0 && last < lines.len() {
        let rest = times(lines.len() - last, "more line");
        format!("\n… {rest}; continue with start={}", last + 1)
    } else if last < wanted {
        format!("\n… continue with start={}", last + 1)
    } else {
        String::new()
    };
    let excerpt = numbered(&lines[start - 1..last], start);
    Ok(Said(format!("{head}\n{excerpt}{more}"), head))
}

fn search(jail: &Jail, asked: &Search) -> Result<Said, String> {
    if asked.pattern.is_empty() {
        return Err("pattern is empty; say what to find".to_owned());
    }
    // This regular expression engine takes linear time, so it needs no separate process.
    let pattern = if asked.regex {
        asked.pattern.clone()
    } else {
        regex::escape(&asked.pattern)
    };
    let pattern = RegexBuilder::new(&pattern)
        .case_insensitive(asked.ignore_case)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| format!("the regular expression cannot be used: {error}"))?;
    let glob = Glob::new(&asked.glob)?;
    let (mut hits, mut skipped, mut files, mut left) = (Vec::new(), Vec::new(), 0, MOST_TEXT);
    for name in names(jail, &asked.path, glob.as_ref())? {
        if left == 0 {
            skipped.push("… (the rest: too much text)".to_owned());
            break;
        }
        let Ok(raw) = jail.read(&name, MOST_SEARCHED) else {
            skipped.push(line_of(&name));
            continue;
        };
        if is_binary(&raw) {
            continue;
        }
        left = left.saturating_sub(raw.len());
        files += 1;
        let text = TextFile::decode(&raw);
        for (index, line) in text.content.split('\n').enumerate() {
            if hits.len() <= asked.limit && pattern.is_match(line) {
                let line = clipped(line.trim(), 300);
                hits.push(format!("{}:{}: {line}", line_of(&name), index + 1));
            }
        }
    }
    skipped.truncate(5);
    let note = if skipped.is_empty() {
        String::new()
    } else {
        format!("\n(not searched: {})", skipped.join(", "))
    };
    let Some(first) = hits.first().cloned() else {
        let summary = format!("no line matches in {}", times(files, "file"));
        return Ok(Said(format!("{summary}{note}"), summary));
    };
    let more = if hits.len() > asked.limit {
        format!(
            "\n… more than {} hits; narrow it with path or glob",
            asked.limit
        )
    } else {
        String::new()
    };
    hits.truncate(asked.limit);
    Ok(Said(format!("{}{more}{note}", hits.join("\n")), first))
}

fn names(jail: &Jail, path: &str, glob: Option<&Glob>) -> Result<Vec<String>, String> {
    let parts = jail.parts(path, false)?;
    if let Some((_, above)) = parts.split_last() {
        let whole = parts.join("/");
        let here = jail.entries(above)?;
        match here.into_iter().find(|entry| entry.path == whole) {
            None => return Err(format!("there is no {}", quoted(path))),
            Some(entry) if matches!(entry.kind, Kind::File(_)) => return Ok(vec![entry.path]),
            Some(_) => {}
        }
    }
    let mut found = Vec::new();
    walk(jail, &parts, 64, &mut found)?;
    let files = found
        .into_iter()
        .filter(|entry| matches!(entry.kind, Kind::File(_)));
    Ok(files
        .map(|entry| entry.path)
        .filter(|path| glob.is_none_or(|glob| glob.fits(path)))
        .collect())
}

/// Returns the file before a write; `None` if it does not exist.
fn before(jail: &Jail, path: &str) -> Result<Option<Vec<u8>>, String> {
    let parts = jail.parts(path, true)?;
    if !jail.exists(&parts) {
        return Ok(None);
    }
    jail.read(path, MOST_BYTES).map(Some)
}

fn write(jail: &Jail, asked: &Content) -> Result<Said, String> {
    let (path, content) = (&asked.path, &asked.content);
    let before = before(jail, path)?.map(|raw| TextFile::decode(&raw));
    let size = content.len();
    if size as u64 > MOST_BYTES {
        return Err(format!(
            "content has {size} bytes; the limit is {MOST_BYTES}"
        ));
    }
    // A repetition after a crash changes neither the content nor the modification time.
    if before
        .as_ref()
        .is_some_and(|it| it.exact && it.encoded(&it.content) == content.as_bytes())
    {
        let text = format!("{path} already has this content");
        return Ok(Said(text, format!("{path} is unchanged")));
    }
    let created = jail.write(path, content.as_bytes(), "")?;
    let what = if created { "created" } else { "replaced" };
    let count = times(lines(content).len(), "line");
    let summary = format!("{what} {path}: {count}, {}", times(size, "byte"));
    let text = match &before {
        None => summary.clone(),
        Some(before) => format!("{summary}\n{}", difference(&before.content, content)),
    };
    Ok(Said(text, summary))
}

fn edit(jail: &Jail, asked: &Edit, effect: &str) -> Result<Said, String> {
    let path = &asked.path;
    let text = editable(jail, path)?;
    // The mark belongs to this call: an earlier activation of the run has made the edit.
    if !effect.is_empty() && jail.mark(path)? == effect {
        let summary = format!("edited {path}: it was done before the interruption, and not again");
        return Ok(Said(summary.clone(), summary));
    }
    let (after, count) = edited(&text, asked)?;
    // One rename makes both visible: there is no state with only the content or only the mark.
    jail.write(path, &text.encoded(&after), effect)?;
    let summary = format!("edited {path}: {} replaced", times(count, "occurrence"));
    let text = format!("{summary}\n{}", difference(&text.content, &after));
    Ok(Said(text, summary))
}

fn preview_write(jail: &Jail, asked: &Content) -> String {
    let path = &asked.path;
    let shown = || {
        let before = before(jail, path)?;
        let verb = before.as_ref().map_or("create", |_| "replace");
        let place = place(jail, path)?;
        Ok::<_, String>(preview(
            verb,
            &place,
            before.as_deref(),
            asked.content.as_bytes(),
        ))
    };
    shown().unwrap_or_else(|why| format!("write {}: {why}", line_of(path)))
}

fn preview_edit(jail: &Jail, asked: &Edit) -> String {
    let path = &asked.path;
    let shown = || {
        let text = editable(jail, path)?;
        let place = place(jail, path)?;
        let after = text.encoded(&edited(&text, asked)?.0);
        let before = text.encoded(&text.content);
        Ok::<_, String>(preview("edit", &place, Some(&before), &after))
    };
    shown().unwrap_or_else(|why| format!("edit {}: {why}", line_of(path)))
}

/// Returns the displayed path of the file to which a path leads.
fn place(jail: &Jail, path: &str) -> Result<String, String> {
    Ok(unambiguous(jail.parts(path, true)?.join("/").as_bytes()))
}

/// Returns the resulting file, byte for byte. An approval is bound to the current content.
fn preview(verb: &str, place: &str, before: Option<&[u8]>, after: &[u8]) -> String {
    let old = before.filter(|raw| !has_nul(raw)).unwrap_or_default();
    let mut rows = vec![format!("{verb} {place}")];
    // Unchanged line ends need one row; changed ones are visible in each line.
    let windows = after.windows(2).any(|pair| pair == b"\r\n")
        && [old, after].iter().all(|raw| {
            let ends = raw.windows(2).filter(|pair| pair == b"\r\n").count();
            ends == raw.iter().filter(|byte| **byte == b'\n').count()
        });
    if windows {
        rows.push("(line ends: CRLF)".to_owned());
    }
    let spelled = |raw: &[u8]| {
        let mut raw = raw.to_vec();
        if windows {
            let ends: Vec<bool> = raw.windows(2).map(|pair| pair == b"\r\n").collect();
            let mut ends = ends.into_iter();
            raw.retain(|_| !ends.next().unwrap_or_default());
        }
        unambiguous(&raw)
    };
    let (old, after) = (spelled(old), spelled(after));
    rows.extend(diff::unified(&old, &after));
    if let Some(before) = before {
        let what = if has_nul(before) {
            "binary content".to_owned()
        } else {
            times(lines(&old).len(), "line")
        };
        let digest = hex(&Blake2b::<U16>::digest(before));
        rows.push(format!("(the file has {what} now, digest {digest})"));
    }
    rows.join("\n")
}

/// Returns true if a NUL byte is near the start, which is git's test for binary files.
fn has_nul(raw: &[u8]) -> bool {
    raw[..raw.len().min(BINARY_SNIFF)].contains(&0)
}

fn editable(jail: &Jail, path: &str) -> Result<TextFile, String> {
    let raw = jail.read(path, MOST_BYTES)?;
    let text = TextFile::decode(&raw);
    // Writing back replaced bytes would change them.
    if is_binary(&raw) || !text.exact {
        let path = quoted(path);
        return Err(format!(
            "{path} is binary or not UTF-8: editing would change the rest"
        ));
    }
    Ok(text)
}

/// Returns the new content and the number of changed places.
fn edited(text: &TextFile, asked: &Edit) -> Result<(String, usize), String> {
    let content = text.content.as_str();
    let path = quoted(&asked.path);
    let plain = |piece: &str| {
        if text.windows {
            piece.replace("\r\n", "\n")
        } else {
            piece.to_owned()
        }
    };
    let (old, new) = (plain(&asked.old), plain(&asked.new));
    if old.is_empty() {
        return Err("old is empty; use write_file to write a whole file".to_owned());
    }
    if old == new {
        return Err("old and new are the same".to_owned());
    }
    let line = |place: usize| content[..place].matches('\n').count() + 1;
    let places: Vec<usize> = content.match_indices(&old).map(|(at, _)| at).collect();
    let settled: Vec<usize> = if new.contains(&old) {
        content.match_indices(&new).map(|(at, _)| at).collect()
    } else {
        Vec::new()
    };
    // Every occurrence of `old` lies inside an existing `new`, as after one application of this
    // edit.
    let inside = |place: &usize| {
        settled
            .iter()
            .any(|at| (*at..at + new.len()).contains(place))
    };
    if !places.is_empty() && places.iter().all(inside) {
        // A second application would insert it again, and without a mark this call may be a
        // repetition.
        return Err(format!(
            "{path} has the new text at line {} already: nothing was changed. If you want it once \
             more, add surrounding lines to old and new",
            line(settled[0])
        ));
    }
    if places.is_empty() {
        let near = nearest(text, &old, &new);
        return Err(format!("old is not in {path}: nothing was changed. {near}"));
    }
    if places.len() > 1 && !asked.all {
        let lines: Vec<String> = places
            .iter()
            .take(10)
            .map(|at| line(*at).to_string())
            .collect();
        return Err(format!(
            "old occurs {} times in {path}, at lines {}: nothing was changed. Add surrounding lines \
             so that it is unique, or set all to true",
            places.len(),
            lines.join(", ")
        ));
    }
    Ok((content.replace(&old, &new), places.len()))
}

/// Returns the location of a similar text, for a model that copied inexactly.
fn nearest(text: &TextFile, old: &str, new: &str) -> String {
    if let Some(at) = text.content.find(new).filter(|_| !new.trim().is_empty()) {
        let line = text.content[..at].matches('\n').count() + 1;
        return format!("The new text is there, at line {line}");
    }
    let lines = text.lines();
    let first = old.lines().map(str::trim).find(|line| !line.is_empty());
    let Some(at) = first.and_then(|first| lines.iter().position(|line| line.trim() == first))
    else {
        return "Nothing similar is there; read the file first".to_owned();
    };
    let size = old.trim_matches('\n').matches('\n').count() + 1;
    let end = lines.len().min(at + size.min(20));
    let near = numbered(&lines[at..end], at + 1);
    format!(
        "Only white space or a later line differs, at line {}:\n{near}",
        at + 1
    )
}

fn difference(before: &str, after: &str) -> String {
    let mut lines = diff::unified(before, after);
    if lines.len() > MOST_DIFF {
        let more = lines.len() - MOST_DIFF;
        lines.truncate(MOST_DIFF);
        lines.push(format!("… {}", times(more, "more line")));
    }
    lines.join("\n")
}

//! The tools that nodes of a flow name: `memory.store`, `memory.recall`, `web.search`,
//! `web.scrape`.
//!
//! Search and scrape use the backend in `settings.search`. The only backend is `folder:DIR`, the
//! text files below a directory. Without a backend a search fails with an explanation. Pages of the
//! web are not fetched.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use regex::Regex;

use super::builtin::{BuiltIn, built_in};
use super::jail::{Jail, Kind};
use crate::errors::ConfigError;
use crate::flow::Flow;
use crate::json::{Object, Value, json};
use crate::policy::Tier;
use crate::tools::{CallContext, Declared, Tool, quoted};
use crate::values::{Observation, ObservationStatus, Sideeffect};

const HINT: &str = "no search backend is configured: say `settings: {search: NAME}` in the agent file \
                    (`folder:DIR` searches text files below DIR; this runtime has no other)";
const MOST_HITS: u64 = 20;
const MOST_CHARS: u64 = 16_000;
/// The maximum size of a searched file, in bytes.
const LARGEST: u64 = 1 << 20;
const MOST_FILES: usize = 20_000;
const SNIPPET: usize = 300;
/// The tools that a node may name without an entry in the file.
pub(super) const NAMES: [&str; 4] = ["memory.store", "memory.recall", "web.search", "web.scrape"];
const SUFFIXES: [&str; 3] = [".md", ".txt", ".rst"];
/// The prefix of the state variables that hold stored values.
const SLOT: &str = "memory.";

static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\w{2,}").ok());

#[derive(Debug, Clone, Copy)]
enum Verb {
    Store,
    Recall,
    Search,
    Scrape,
}

/// One of the tools.
#[derive(Debug)]
struct FlowTool {
    built_in: BuiltIn,
    verb: Verb,
    /// The folder of the search.
    folder: Option<Arc<Jail>>,
}

/// Returns the tools that the nodes of a flow name and its file does not define.
pub(super) fn tools(
    flow: &Flow,
    root: &Path,
    reserved: &[std::path::PathBuf],
) -> Result<Vec<Arc<dyn Tool>>, ConfigError> {
    let wanted: BTreeSet<String> = flow.tools();
    let folder = match flow.search().split_once(':') {
        None if flow.search().is_empty() => None,
        Some(("folder", folder)) => {
            let wrong = |_| ConfigError::new("settings.search", format!("{folder:?} is no folder"));
            let place = root.join(folder).canonicalize().map_err(wrong)?;
            if !place.starts_with(root) {
                let message = format!("{folder:?} is no directory inside the work root");
                return Err(ConfigError::new("settings.search", message));
            }
            Some(Arc::new(Jail::new(place, reserved)))
        }
        _ => {
            let message = format!("there is no search backend {:?}; {HINT}", flow.search());
            return Err(ConfigError::new("settings.search", message));
        }
    };
    let verbs = [
        (Verb::Store, Sideeffect::Idempotent),
        (Verb::Recall, Sideeffect::Read),
        (Verb::Search, Sideeffect::Read),
        (Verb::Scrape, Sideeffect::Read),
    ];
    let known = NAMES.into_iter().zip(verbs);
    known
        .map(|(name, (verb, effect))| (name, verb, effect))
        .filter(|(name, _, _)| wanted.contains(*name))
        .map(|(name, verb, effect)| {
            Ok(Arc::new(FlowTool {
                built_in: built_in(name, effect, Tier::Auto)?,
                verb,
                folder: folder.clone(),
            }) as Arc<dyn Tool>)
        })
        .collect()
}

#[async_trait]
impl Tool for FlowTool {
    fn declared(&self) -> &Declared {
        &self.built_in.declared
    }

    fn check(&self, parameters: &Object) -> Result<(), String> {
        self.built_in.check(parameters)
    }

    async fn call(&self, parameters: Object, context: CallContext) -> Observation {
        let text = |name: &str| {
            parameters
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let number = |name: &str, otherwise: u64, most: u64| {
            let said = parameters.get(name).and_then(Value::as_u64);
            usize::try_from(said.unwrap_or(otherwise).clamp(1, most)).unwrap_or(1)
        };
        match self.verb {
            Verb::Store => {
                let value = parameters.get("value").cloned().unwrap_or_default();
                context.set(format!("{SLOT}{}", text("key")), value);
                seen(
                    json!(format!("stored {}", quoted(text("key")))),
                    text("key"),
                )
            }
            Verb::Recall => recall(&context.data, text("key"), parameters.get("default")),
            Verb::Search => match &self.folder {
                Some(folder) => search(folder, text("query"), number("limit", 5, MOST_HITS)),
                None => Observation {
                    extraction: "no search backend".to_owned(),
                    ..Observation::failure(HINT)
                },
            },
            Verb::Scrape => {
                let most = number("max_chars", 8000, MOST_CHARS);
                scrape(self.folder.as_deref(), text("url"), most)
            }
        }
    }
}

fn seen(result: Value, extraction: impl Into<String>) -> Observation {
    Observation {
        result,
        extraction: extraction.into(),
        ..Observation::default()
    }
}

fn recall(data: &Object, key: &str, otherwise: Option<&Value>) -> Observation {
    if let Some(value) = data.get(&format!("{SLOT}{key}")) {
        return seen(value.clone(), "");
    }
    // A null default is the same as no default, so a missing value is a failure.
    if let Some(value) = otherwise.filter(|it| !it.is_null()) {
        return seen(value.clone(), "");
    }
    let kept = data.keys().filter_map(|name| name.strip_prefix(SLOT));
    let kept: Vec<String> = kept.map(quoted).collect();
    let (key, kept) = (quoted(key), kept.join(", "));
    Observation::failure(format!("nothing is kept as {key}; kept are [{kept}]"))
}

/// Returns the text files of a folder that are not hidden, sorted by path.
fn files(jail: &Jail) -> Vec<String> {
    let mut found = Vec::new();
    let mut left: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(parts) = left.pop() {
        for entry in jail.entries(&parts).unwrap_or_default() {
            let name = entry.path.rsplit('/').next().unwrap_or_default();
            if name.starts_with('.') || found.len() >= MOST_FILES {
                continue;
            }
            match entry.kind {
                Kind::Folder => left.push(entry.path.split('/').map(str::to_owned).collect()),
                Kind::File(_) if SUFFIXES.iter().any(|it| name.ends_with(it)) => {
                    found.push(entry.path);
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn read(jail: &Jail, path: &str) -> Result<String, String> {
    let bytes = jail.read(path, LARGEST)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the files with the most distinct words of the query, then by number of occurrences.
fn search(jail: &Jail, query: &str, limit: usize) -> Observation {
    let words = WORD.as_ref().map(|it| it.find_iter(query));
    let words = words.into_iter().flatten();
    let words: BTreeSet<String> = words.map(|it| it.as_str().to_lowercase()).collect();
    let mut ranked: Vec<(usize, usize, String, String)> = Vec::new();
    for path in files(jail) {
        let Ok(text) = read(jail, &path) else {
            continue;
        };
        let lower = text.to_lowercase();
        let counts = words
            .iter()
            .map(|word| lower.matches(word.as_str()).count());
        let counts: Vec<usize> = counts.filter(|count| *count > 0).collect();
        if !counts.is_empty() {
            ranked.push((counts.len(), counts.iter().sum(), path, text));
        }
    }
    ranked.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| a.2.cmp(&b.2)));
    ranked.truncate(limit);
    let hits: Vec<Value> = ranked
        .iter()
        .map(|(_, _, path, text)| {
            let (title, snippet) = (title(text, path), around(text, &words));
            json!({"title": title, "url": format!("folder:{path}"), "snippet": snippet})
        })
        .collect();
    let first = ranked.first();
    let first = first.map_or_else(String::new, |it| format!(", first folder:{}", it.2));
    let line = format!("{} hits for {}{first}", hits.len(), quoted(query));
    seen(Value::Array(hits), line)
}

fn scrape(jail: Option<&Jail>, url: &str, most: usize) -> Observation {
    let failed = |why: &str| Observation::failure(format!("{} cannot be had: {why}", quoted(url)));
    let (Some(jail), Some(path)) = (jail, url.strip_prefix("folder:")) else {
        return failed("this runtime reads the pages of its search backend only");
    };
    if !SUFFIXES.iter().any(|it| path.ends_with(it)) {
        return failed("it is not of this folder");
    }
    match read(jail, path) {
        Ok(text) => Observation {
            status: if text.chars().nth(most).is_some() {
                ObservationStatus::Partial
            } else {
                ObservationStatus::Success
            },
            ..seen(
                json!(text.chars().take(most).collect::<String>()),
                title(&text, url),
            )
        },
        Err(why) => failed(&why),
    }
}

fn title(text: &str, otherwise: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty());
    let first = first.unwrap_or(otherwise).trim_matches(['#', ' ']).trim();
    first.chars().take(120).collect()
}

/// Returns the text around the first matching word.
fn around(text: &str, words: &BTreeSet<String>) -> String {
    let lower = text.to_lowercase();
    let first = words
        .iter()
        .filter_map(|word| lower.find(word.as_str()))
        .min();
    let first = lower[..first.unwrap_or(0)].chars().count();
    let start = first.saturating_sub(SNIPPET / 3);
    let near: String = text.chars().skip(start).take(SNIPPET).collect();
    let words: Vec<&str> = near.split_whitespace().collect();
    words.join(" ")
}

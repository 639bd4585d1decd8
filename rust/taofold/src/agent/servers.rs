//! The section `mcp` of an agent file: servers, checked without starting any.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::choice::{Place, is_secret_name};
use crate::errors::ConfigError;
use crate::json::{Object, Value, json};
use crate::mcp::{Address, Options, Server};

/// The keys of a server: a program to start, or an address.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerKeys {
    #[serde(default)]
    command: Command,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    cwd: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    oauth: Value,
    #[serde(default)]
    transport: Transport,
    #[serde(default)]
    tools: Option<Vec<String>>,
    #[serde(default)]
    trust: bool,
    #[serde(default)]
    elicitation: Elicitation,
    #[serde(default = "sixty")]
    timeout: f64,
    #[serde(default = "thirty")]
    connect_timeout: f64,
    #[serde(default)]
    resources: bool,
    #[serde(default)]
    prompts: bool,
    #[serde(default = "yes")]
    required: bool,
    #[serde(default)]
    roots: Vec<String>,
    #[serde(default)]
    sampling: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Command {
    Program(String),
    Words(Vec<String>),
}

impl Default for Command {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Transport {
    #[default]
    Http,
    Sse,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Elicitation {
    #[default]
    Auto,
    Legacy,
}

fn sixty() -> f64 {
    60.0
}

fn thirty() -> f64 {
    30.0
}

fn yes() -> bool {
    true
}

/// Returns the servers of an agent file without starting them.
pub(super) fn read(
    section: &Object,
    root: &Path,
    folder: &Path,
    place: &Place,
) -> Result<Vec<Arc<Server>>, ConfigError> {
    section
        .iter()
        .map(|(name, value)| server(name, value, root, folder, place).map(Arc::new))
        .collect()
}

fn server(
    name: &str,
    value: &Value,
    root: &Path,
    folder: &Path,
    place: &Place,
) -> Result<Server, ConfigError> {
    let path = format!("mcp.{name}");
    let wrong = |key: &str, why: String| match key {
        "" => ConfigError::new(&path, why),
        key => ConfigError::new(format!("{path}.{key}"), why),
    };
    let letters = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    let sound = name.starts_with(|it: char| it.is_ascii_lowercase())
        && name.len() <= 31
        && name.chars().all(letters);
    if !sound {
        let why = "small letters, digits and _, as it becomes the beginning of its tools' names";
        return Err(wrong("", format!("{name:?} is no server name: {why}")));
    }
    let keys: ServerKeys =
        serde_json::from_value(value.clone()).map_err(|error| wrong("", error.to_string()))?;
    let words = match keys.command {
        Command::Program(program) if program.is_empty() => Vec::new(),
        Command::Program(program) => vec![program],
        Command::Words(words) => words,
    };
    if words.is_empty() == keys.url.is_empty() {
        return Err(wrong(
            "",
            "a server has either a command or a url".to_owned(),
        ));
    }
    let (foreign, other) = if keys.url.is_empty() {
        (&["headers", "oauth", "transport"][..], "url")
    } else {
        (&["args", "env", "cwd"][..], "command")
    };
    if let Some(key) = foreign.iter().find(|key| value.get(**key).is_some()) {
        return Err(wrong(key, format!("{key:?} belongs to a {other}")));
    }
    let missing = [
        ("oauth", !keys.oauth.is_null()),
        ("transport", keys.transport == Transport::Sse),
        ("resources", keys.resources),
        ("prompts", keys.prompts),
        ("roots", !keys.roots.is_empty()),
        ("sampling", keys.sampling),
    ];
    if let Some((key, _)) = missing.into_iter().find(|(_, said)| *said) {
        let why = "this runtime does not have it: use the Python runtime";
        return Err(wrong(key, why.to_owned()));
    }
    for (key, values) in [("env", &keys.env), ("headers", &keys.headers)] {
        let plain =
            |(name, text): &(&String, &String)| !text.contains("${") && is_secret_name(name);
        if let Some((name, _)) = values.iter().find(plain) {
            let why = format!(
                "secrets do not belong in files: write ${{NAME}} and set the variable NAME, as in \
                 {name}: ${{TOKEN}}"
            );
            return Err(wrong(key, why));
        }
    }
    let seconds = [
        ("timeout", keys.timeout, 3600.0),
        ("connect_timeout", keys.connect_timeout, 600.0),
    ];
    for (key, seconds, most) in seconds {
        if !(seconds > 0.0 && seconds <= most) {
            return Err(wrong(key, format!("must be above 0 and at most {most} s")));
        }
    }
    let address = if keys.url.is_empty() {
        let cwd = below(root, &keys.cwd).map_err(|why| wrong("cwd", why))?;
        let mut words = words
            .iter()
            .chain(&keys.args)
            .map(|word| beside(folder, word));
        Address::Stdio {
            command: words.next().unwrap_or_default(),
            args: words.collect(),
            env: keys.env,
            cwd,
        }
    } else {
        check_url(&keys.url).map_err(|why| wrong("url", why))?;
        Address::Http {
            url: keys.url,
            headers: keys.headers,
        }
    };
    let options = Options {
        tools: keys.tools,
        trust: keys.trust,
        timeout: keys.timeout,
        connect_timeout: Duration::try_from_secs_f64(keys.connect_timeout).unwrap_or_default(),
        required: keys.required,
        legacy: keys.elicitation == Elicitation::Legacy,
    };
    Ok(Server::new(
        name,
        address,
        options,
        &place.operator_folder(),
    ))
}

fn check_url(url: &str) -> Result<(), String> {
    let parsed = reqwest::Url::parse(url).map_err(|_| format!("{url:?} is no http(s) address"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(format!("{url:?} is no http(s) address"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("credentials do not belong in a url: use headers with ${NAME}".to_owned());
    }
    Ok(())
}

/// Returns a word of a command line. A file beside the agent file is named by its full path.
fn beside(folder: &Path, word: &str) -> String {
    // A bare name is a program on PATH or a text; a folder such as `.` is relative to the work
    // root.
    let named = word.contains('/') || Path::new(word).extension().is_some();
    if !named || word.starts_with('-') || Path::new(word).is_absolute() {
        return word.to_owned();
    }
    let path = folder.join(word);
    if path.is_file() {
        path.to_string_lossy().into_owned()
    } else {
        word.to_owned()
    }
}

/// Returns a folder of the work root. Links are resolved first, because one may lead outside.
fn below(root: &Path, folder: &str) -> Result<PathBuf, String> {
    let target = root
        .join(folder)
        .canonicalize()
        .map_err(|error| format!("{folder:?}: {error}"))?;
    if target.starts_with(root) {
        return Ok(target);
    }
    let root = json!(root.to_string_lossy());
    Err(format!("{folder:?} leads out of the work root {root}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(section: Value) -> String {
        let place = Place::find(Path::new("/"), Default::default()).unwrap();
        let root = Path::new("/usr");
        let section = section.as_object().unwrap().clone();
        match read(&section, root, root, &place) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_fault_of_a_server_is_found_without_starting_it() {
        for (keys, said) in [
            (json!({}), "either a command or a url"),
            (
                json!({"command": "a", "url": "http://b/c"}),
                "either a command or a url",
            ),
            (json!({"command": "a", "headers": {}}), "belongs to a url"),
            (
                json!({"url": "http://b/c", "args": ["a"]}),
                "belongs to a command",
            ),
            (json!({"url": "ftp://b/c"}), "no http(s) address"),
            (
                json!({"url": "https://me:secret@b/c"}),
                "credentials do not belong in a url",
            ),
            (json!({"command": "a", "trsut": true}), "trsut"),
            (json!({"command": "a", "timeout": 0}), "timeout"),
            (
                json!({"command": "a", "env": {"API_TOKEN": "abc"}}),
                "secrets do not belong",
            ),
            (
                json!({"url": "http://b/c", "headers": {"Authorization": "a"}}),
                "secrets do not",
            ),
            (
                json!({"command": "a", "cwd": "../etc"}),
                "leads out of the work root",
            ),
            (
                json!({"url": "http://b/c", "oauth": {}}),
                "use the Python runtime",
            ),
            (
                json!({"command": "a", "sampling": true}),
                "use the Python runtime",
            ),
        ] {
            let told = fault(json!({"x": keys}));
            assert!(told.contains(said), "{keys}: {told}");
            assert!(told.contains("mcp.x"), "{told}");
        }
        assert!(fault(json!({"X-Y": {"command": "a"}})).contains("no server name"));
        assert_eq!(
            fault(json!({"x": {"command": "a", "env": {"A_TOKEN": "${B}"}}})),
            ""
        );
    }
}

//! The address and the label of one server.
//!
//! The digest and the label are those of the Python runtime, so that both find the same file of
//! accepted definitions. Values of the environment and headers may contain `${NAME}`, so that files
//! contain no secrets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};
use regex::{Captures, Regex};

use crate::content::hex;
use crate::errors::ConfigError;
use crate::json::json;
use crate::text::clip;

static VARIABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\$\{(\w+)\}").ok());

/// The address of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Address {
    /// A program to start.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment, in addition to `PATH`, `HOME` and similar variables.
        env: BTreeMap<String, String>,
        /// The folder in which it is started.
        cwd: PathBuf,
    },
    /// An address of streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// The headers of each request.
        headers: BTreeMap<String, String>,
    },
}

impl Address {
    /// Returns a digest of the address that does not depend on secrets.
    pub(super) fn digest(&self) -> String {
        let identity = match self {
            Self::Stdio {
                command, args, cwd, ..
            } => json!(["stdio", command, args, cwd.to_string_lossy(), ""]),
            Self::Http { url, .. } => json!(["http", "", [], "", url]),
        };
        hex(&Blake2b::<U8>::digest(identity.to_string()))
    }

    /// Returns the address for messages.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Stdio { command, args, .. } => {
                let words: Vec<&str> = std::iter::once(command.as_str())
                    .chain(args.iter().map(String::as_str))
                    .flat_map(str::split_whitespace)
                    .collect();
                clip(&words.join(" "), 100)
            }
            Self::Http { url, .. } => url.clone(),
        }
    }

    /// Returns a short name: of the program, the package it runs, or the host.
    pub(super) fn label(&self) -> String {
        let name = match self {
            Self::Stdio { command, args, .. } => program(command, args),
            Self::Http { url, .. } => host(url),
        };
        let name = match around(&name) {
            "" => name.as_str(),
            short => short,
        };
        let mut plain = String::new();
        for character in name.chars() {
            if character.is_ascii_alphanumeric() {
                plain.push(character.to_ascii_lowercase());
            } else if !plain.ends_with('_') {
                plain.push('_');
            }
        }
        let plain = plain.trim_matches('_');
        if plain.starts_with(char::is_alphabetic) {
            plain.to_owned()
        } else if plain.is_empty() {
            "mcp".to_owned()
        } else {
            format!("mcp_{plain}")
        }
    }
}

fn program(command: &str, args: &[String]) -> String {
    let plain = args
        .iter()
        .filter(|word| !word.starts_with(['-', '/', '.']))
        .map(String::as_str);
    let words: Vec<&str> = std::iter::once(command).chain(plain).collect();
    let tells = |word: &&&str| word.contains("mcp") || word.contains("server");
    let word = words
        .iter()
        .find(tells)
        .or(words.first())
        .copied()
        .unwrap_or_default();
    // Without its version, as in `package@1.2`.
    let word = match word.rfind('@') {
        Some(at) if at > 0 && !word[at..].contains('/') => &word[..at],
        _ => word,
    };
    let name = word.rsplit('/').next().unwrap_or_default();
    name.strip_suffix(".py").unwrap_or(name).to_owned()
}

fn host(url: &str) -> String {
    let parsed = reqwest::Url::parse(url).ok();
    let host = parsed
        .as_ref()
        .and_then(|it| it.host_str())
        .unwrap_or("local");
    let host = host.strip_prefix("www.").unwrap_or(host);
    host.split('.').next().unwrap_or_default().to_owned()
}

/// Returns a name without generic words at its ends, such as "server".
fn around(name: &str) -> &str {
    let mut short = name;
    for word in ["mcp", "server"] {
        if let Some(rest) = short
            .strip_prefix(word)
            .and_then(|it| it.strip_prefix(['-', '_']))
        {
            short = rest;
        }
    }
    for word in ["server", "mcp"] {
        if let Some(rest) = short
            .strip_suffix(word)
            .and_then(|it| it.strip_suffix(['-', '_']))
        {
            short = rest;
        }
    }
    short
}

/// Returns the values with each `${NAME}` replaced.
///
/// # Errors
///
/// A variable is not set.
pub(super) fn with_environment(
    values: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut missing: Vec<String> = Vec::new();
    let mut filled = BTreeMap::new();
    for (name, value) in values {
        let Some(variable) = VARIABLE.as_ref() else {
            continue;
        };
        let text = variable.replace_all(value, |found: &Captures<'_>| {
            std::env::var(&found[1]).unwrap_or_else(|_| {
                missing.push(found[1].to_owned());
                String::new()
            })
        });
        filled.insert(name.clone(), text.into_owned());
    }
    if missing.is_empty() {
        return Ok(filled);
    }
    missing.sort();
    missing.dedup();
    let message = format!(
        "set the environment variable {}: a server needs it",
        missing.join(", ")
    );
    Err(ConfigError::new("mcp", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio(words: &[&str]) -> Address {
        let mut words = words.iter().map(|word| (*word).to_owned());
        Address::Stdio {
            command: words.next().unwrap_or_default(),
            args: words.collect(),
            env: BTreeMap::new(),
            cwd: PathBuf::from("/"),
        }
    }

    #[test]
    fn a_server_has_the_label_of_the_python_runtime() {
        for (words, label) in [
            (
                &["npx", "-y", "@modelcontextprotocol/server-memory@1.2"][..],
                "memory",
            ),
            (&["/usr/bin/python", "/x/mcp_server.py"], "python"),
            (&["uvx", "mcp-server-git"], "git"),
            (&["mcp"], "mcp"),
            (&["7z"], "mcp_7z"),
        ] {
            assert_eq!(stdio(words).label(), label);
        }
        let url = Address::Http {
            url: "https://www.docs.example.org/mcp".to_owned(),
            headers: BTreeMap::new(),
        };
        assert_eq!(url.label(), "docs");
    }

    #[test]
    fn a_variable_that_is_not_set_is_told() {
        let values = BTreeMap::from([("A".to_owned(), "${NOT_SET_AT_ALL}-${PATH}".to_owned())]);
        let error = with_environment(&values).unwrap_err();
        assert!(error.to_string().contains("NOT_SET_AT_ALL"), "{error}");
    }
}

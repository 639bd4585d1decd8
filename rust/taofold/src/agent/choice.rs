//! The command-line settings of the agent, and the project in which they were given.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};
use serde::{Deserialize, Serialize};

use super::policy_file::PolicyKeys;
use super::{LimitKeys, canonical};
use crate::content::hex;
use crate::errors::ConfigError;
use crate::folders;
use crate::json::{Object, Value, is_default, json};
use crate::policy::Policy;
use crate::providers::{self, Environment};

/// The settings that make the same agent again. They are recorded with the run in the form of the
/// Python runtime, so that either runtime can resume it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// The agent file, relative to `folder`.
    #[serde(skip_serializing_if = "is_default")]
    pub agent: String,
    /// The working directory of the command.
    #[serde(skip_serializing_if = "is_default")]
    pub folder: String,
    /// The work root of tools.
    #[serde(skip_serializing_if = "is_default")]
    pub root: String,
    /// The model that replaces every model that the agent names.
    #[serde(skip_serializing_if = "is_default")]
    pub model: String,
    /// `conservative`, `balanced` or `autonomous`.
    #[serde(skip_serializing_if = "is_default")]
    pub autonomy: String,
    /// True if incomplete replies are requested again.
    #[serde(skip_serializing_if = "is_default")]
    pub strict: bool,
    /// True if contained commands have a network, which this runtime does not support.
    #[serde(skip_serializing_if = "is_default")]
    pub network: bool,
    /// Local ports for commands, which this runtime does not support.
    #[serde(skip_serializing_if = "is_default")]
    pub ports: Vec<u16>,
    /// The bounds of the run.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Object,
    /// The digest of the agent file, which detects later changes.
    #[serde(skip_serializing_if = "is_default")]
    pub digest: String,
    /// Folders of Python tools, which this runtime does not support.
    #[serde(skip_serializing_if = "is_default")]
    pub tools: Vec<String>,
    /// The instructions of a loop that replace the agent's own.
    #[serde(skip_serializing_if = "is_default")]
    pub instructions: String,
}

impl Choice {
    /// Returns the choice that a run recorded.
    ///
    /// # Errors
    ///
    /// The run does not record how its agent is made.
    pub fn recorded(settings: &Object) -> Result<Self, ConfigError> {
        match settings.get("cli") {
            Some(recorded) => serde_json::from_value(recorded.clone())
                .map_err(|error| ConfigError::new("settings.cli", error.to_string())),
            None => Err(ConfigError::new(
                "",
                "this run does not say how to make its agent: name it with --agent FILE",
            )),
        }
    }

    /// Returns the current digest of the agent file; empty if it cannot be read.
    pub fn current_digest(&self) -> String {
        let bytes = std::fs::read(self.path());
        bytes.map_or_else(
            |_| String::new(),
            |bytes| hex(&Blake2b::<U8>::digest(bytes)),
        )
    }

    fn path(&self) -> PathBuf {
        Path::new(&self.folder).join(&self.agent)
    }

    pub(super) fn file_folder(&self) -> PathBuf {
        self.path().parent().map(Path::to_owned).unwrap_or_default()
    }

    pub(super) fn work_root(&self) -> Result<PathBuf, ConfigError> {
        let root = if self.root.is_empty() {
            &self.folder
        } else {
            &self.root
        };
        canonical(Path::new(root), "--root")
    }

    /// Returns the content of the agent file.
    pub(super) fn read(&self) -> Result<Value, ConfigError> {
        let foreign = [
            ("--tools", !self.tools.is_empty()),
            ("--network", self.network),
            ("--local-port", !self.ports.is_empty()),
            ("instructions", !self.instructions.is_empty()),
        ];
        if let Some((key, _)) = foreign.into_iter().find(|(_, said)| *said) {
            let message = "the run was started with something that this runtime does not have";
            return Err(ConfigError::new(key, message));
        }
        let name = &self.agent;
        if !is_file(name) {
            let message = format!(
                "AGENT is an agent file (.yaml), not {name:?}: this runtime runs no Python code"
            );
            return Err(ConfigError::new("", message));
        }
        if !self.path().exists() {
            return Err(ConfigError::new("", self.missing()));
        }
        read_yaml(&self.path())
    }

    /// Returns the error for a missing agent file, with the closest name beside it.
    fn missing(&self) -> String {
        let path = self.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside: Vec<String> = std::fs::read_dir(self.file_folder())
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_file(name))
            .collect();
        let near = crate::text::near(&name, beside.iter().map(String::as_str));
        let hint = if near.starts_with("did") {
            format!("; {near}")
        } else {
            String::new()
        };
        format!("there is no agent file {:?}{hint}", self.agent)
    }

    pub(super) fn limits(&self) -> Result<LimitKeys, ConfigError> {
        ConfigError::reading("limits", Value::Object(self.limits.clone()))
    }
}

/// Returns true if the name of a variable or header marks its value as a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 12] = [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "PASSPHRASE",
        "CREDENTIAL",
        "AUTH",
        "AUTHORIZATION",
        "COOKIE",
        "PRIVATE",
        "DSN",
    ];
    let name = name.to_uppercase();
    let parts: BTreeSet<&str> = name.split(['_', '-']).collect();
    WORDS
        .iter()
        .any(|word| parts.contains(word) || parts.contains(format!("{word}S").as_str()))
}

/// Returns true if the argument is an agent file.
fn is_file(agent: &str) -> bool {
    let extension = Path::new(agent).extension();
    extension.is_some_and(|it| it == "yaml" || it == "yml")
}

/// Returns the content of a YAML file. An empty file is an empty mapping.
pub(super) fn read_yaml(path: &Path) -> Result<Value, ConfigError> {
    let name = path.to_string_lossy();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new("", format!("{name}: {error}")))?;
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_saphyr::from_str(&text).map_err(|error| ConfigError::new(name, error.to_string()))
}

/// The keys of the configuration that this runtime reads.
#[derive(Debug, Default)]
pub(super) struct Config {
    pub(super) model: String,
    pub(super) provider: String,
    pub(super) limits: LimitKeys,
}

/// The working place of a command: the project's folder and the environment.
#[derive(Debug, Clone)]
pub struct Place {
    home: PathBuf,
    environment: Environment,
}

impl Place {
    /// Returns the project around `start`: `TAOFOLD_HOME`, the nearest `.taofold` upwards, or
    /// `start`.
    ///
    /// # Errors
    ///
    /// The found folder belongs to another user.
    pub fn find(start: &Path, environment: Environment) -> Result<Self, ConfigError> {
        use std::os::unix::fs::MetadataExt;
        let said = environment.get("TAOFOLD_HOME").map(|it| it.trim());
        if let Some(home) = said.filter(|it| !it.is_empty()) {
            // The owner is not checked, because the user who set the variable chose the folder.
            let home = start.join(home);
            return Ok(Self { home, environment });
        }
        for folder in start.ancestors() {
            let home = folder.join(".taofold");
            if let Ok(metadata) = std::fs::metadata(&home)
                && metadata.is_dir()
            {
                // A parent folder of another user must not affect this user's runs.
                if metadata.uid() != rustix::process::getuid().as_raw() {
                    let message = format!("{home:?} belongs to another user: set TAOFOLD_HOME");
                    return Err(ConfigError::new("", message));
                }
                return Ok(Self { home, environment });
            }
            // A repository is a separate project.
            if folder.join(".git").exists() {
                return Ok(Self { home, environment });
            }
        }
        let home = start.join(".taofold");
        Ok(Self { home, environment })
    }

    /// Returns the project's folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the environment.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the path of the log.
    ///
    /// # Errors
    ///
    /// `TAOFOLD_LOG` names a log that this runtime cannot open.
    pub fn log_path(&self) -> Result<PathBuf, ConfigError> {
        let address = self
            .environment
            .get("TAOFOLD_LOG")
            .map_or("", |it| it.trim());
        if address.is_empty() {
            return Ok(self.home.join("runs.db"));
        }
        let path = address.strip_prefix("sqlite:").unwrap_or(address);
        if path == "memory" || path.contains("://") {
            let message = format!("{address:?} is no file: this runtime keeps runs in SQLite");
            return Err(ConfigError::new("TAOFOLD_LOG", message));
        }
        Ok(PathBuf::from(path))
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        self.environment.get(name).map(PathBuf::from)
    }

    pub(super) fn operator_folder(&self) -> PathBuf {
        let folder = folders::operator_folder(|name| self.variable(name));
        folder.unwrap_or_else(|| PathBuf::from("/.config/taofold"))
    }

    /// Returns the protected folders and files, which are hidden from all commands of an agent.
    pub(super) fn reserved(&self) -> Vec<PathBuf> {
        let state = folders::state_folder(|name| self.variable(name));
        let log = self.log_path().unwrap_or_default();
        let beside = |ending: &str| {
            let mut path = log.clone().into_os_string();
            path.push(ending);
            PathBuf::from(path)
        };
        let files = ["", "-wal", "-shm", "-journal"].map(beside);
        [self.operator_folder(), self.home.clone()]
            .into_iter()
            .chain(state)
            .chain(files)
            .collect()
    }

    /// Returns the operator's policy, or the default policy without a file.
    ///
    /// # Errors
    ///
    /// The file is invalid.
    pub fn operator_policy(&self) -> Result<Policy, ConfigError> {
        let path = self.operator_folder().join("policy.yaml");
        if !path.exists() {
            return Ok(Policy::default());
        }
        let keys = PolicyKeys::read(read_yaml(&path)?, &path.to_string_lossy())?;
        Ok(keys.over(&Policy::default()))
    }

    pub(super) fn profiles(&self) -> Result<Object, ConfigError> {
        let path = self.operator_folder().join("profiles.json");
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Object::new()),
            Err(error) => Err(ConfigError::new(path.to_string_lossy(), error.to_string())),
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| ConfigError::new(path.to_string_lossy(), error.to_string())),
        }
    }

    /// Returns the secret values of the environment: the keys of providers, and values whose
    /// variable has a secret name.
    pub fn secrets(&self) -> Vec<String> {
        // A path or a short word is not a secret, even under a secret name.
        let plain = |value: &str| value.starts_with('/') || value.len() < 6;
        let own = self.environment.iter();
        own.filter(|(name, value)| is_secret_name(name) && !plain(value))
            .map(|(_, value)| value.clone())
            .chain(providers::keys(&self.environment))
            .collect()
    }

    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        let names = ["config.yml", "config.yaml"];
        let files: Vec<PathBuf> = names
            .iter()
            .map(|name| self.home.join(name))
            .filter(|path| path.is_file())
            .collect();
        let written = match files.as_slice() {
            [] => json!({}),
            [path] => read_yaml(path)?,
            _ => {
                let message = "there are both config.yml and config.yaml; keep one of them";
                return Err(ConfigError::new("", message));
            }
        };
        const KNOWN: [&str; 6] = [
            "model",
            "provider",
            "traces",
            "traces_content",
            "limits",
            "ralph",
        ];
        let unknown = written
            .as_object()
            .and_then(|keys| keys.keys().find(|key| !KNOWN.contains(&key.as_str())));
        if let Some(key) = unknown {
            return Err(ConfigError::new(key.as_str(), "there is no such key"));
        }
        let said = |name: &str| {
            let variable = format!("TAOFOLD_{}", name.to_uppercase());
            let own = self.environment.get(&variable).map(|it| it.trim());
            let file = written.get(name).and_then(Value::as_str);
            own.filter(|it| !it.is_empty())
                .or(file)
                .unwrap_or_default()
                .to_owned()
        };
        let provider = said("provider");
        Ok(Config {
            model: said("model"),
            provider: if provider.is_empty() {
                "openai".to_owned()
            } else {
                provider
            },
            limits: self.limits(written.get("limits"))?,
        })
    }

    fn limits(&self, written: Option<&Value>) -> Result<LimitKeys, ConfigError> {
        const PREFIX: &str = "TAOFOLD_LIMITS_";
        let mut keys = match written {
            Some(Value::Object(keys)) => keys.clone(),
            _ => Object::new(),
        };
        for (variable, text) in &self.environment {
            let Some(name) = variable.strip_prefix(PREFIX) else {
                continue;
            };
            // Each limit separately: a variable changes one limit and keeps the others.
            let number: Value = serde_json::from_str(text.trim())
                .map_err(|_| ConfigError::new(variable.as_str(), "must be a number, 0 or more"))?;
            keys.insert(name.to_lowercase(), number);
        }
        serde_json::from_value(Value::Object(keys))
            .map_err(|error| ConfigError::new("limits", error.to_string()))
    }
}

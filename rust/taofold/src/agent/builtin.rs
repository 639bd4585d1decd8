//! The declarations of the built-in tools, and `run_command`.
//!
//! `builtin.json` holds the names, descriptions and schemas as the Python runtime declares them
//! (`tests/rust/test_builtin.py` compares them), because approvals are bound to them.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use super::command::Shell;
use super::jail::Jail;
use crate::errors::ConfigError;
use crate::json::{Object, Value, json};
use crate::policy::Tier;
use crate::schema::Schema;
use crate::tools::{CallContext, Declared, Tool, literal};
use crate::values::{Observation, Sideeffect};

const DECLARED: &str = include_str!("builtin.json");

/// The declaration of one built-in tool, with the check of its parameters.
#[derive(Debug)]
pub(super) struct BuiltIn {
    pub(super) declared: Declared,
    schema: Schema,
}

impl BuiltIn {
    pub(super) fn check(&self, parameters: &Object) -> Result<(), String> {
        let mut parameters = parameters.clone();
        parameters.shift_remove("timeout_s");
        self.schema.check(&Value::Object(parameters))
    }
}

/// Returns the built-in tool with this name.
pub(super) fn built_in(name: &str, effect: Sideeffect, tier: Tier) -> Result<BuiltIn, ConfigError> {
    let wrong = |why: String| ConfigError::new("tools", format!("the built-in {name}: {why}"));
    let all: Value = serde_json::from_str(DECLARED).map_err(|error| wrong(error.to_string()))?;
    let text = &all[name]["description"];
    let schema = all[name]["schema"].clone();
    Ok(BuiltIn {
        schema: Schema::new(schema.clone()).map_err(wrong)?,
        declared: Declared {
            effect,
            tier,
            ..Declared::new(name, text.as_str().unwrap_or_default(), schema)
        },
    })
}

/// The tool `run_command`. It does not exist where commands cannot be contained.
#[derive(Debug)]
pub(super) struct CommandTool {
    built_in: BuiltIn,
    shell: Shell,
    jail: Jail,
    timeout: f64,
    longest: f64,
}

impl CommandTool {
    /// Returns the tool for commands below the shell's root.
    pub(super) fn new(
        shell: Shell,
        jail: Jail,
        timeout: f64,
        longest: f64,
    ) -> Result<Self, ConfigError> {
        if !shell.contained() {
            let why = super::command::why_not().unwrap_or_default();
            let message = format!("commands cannot be contained here: {why}");
            return Err(ConfigError::new("tools.command", message));
        }
        Ok(Self {
            built_in: built_in("run_command", Sideeffect::Once, Tier::Card)?,
            shell,
            jail,
            timeout,
            longest: longest.max(timeout),
        })
    }
}

/// Returns the program and its arguments. Only a text goes through a shell.
fn arguments(parameters: &Object) -> Result<Vec<String>, String> {
    match parameters.get("command") {
        Some(Value::String(line)) if !line.is_empty() => {
            Ok(["/bin/sh", "-c", line].map(str::to_owned).to_vec())
        }
        Some(Value::Array(words)) if !words.is_empty() => words
            .iter()
            .map(|word| word.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| "parameter 'command' must hold texts only".to_owned()),
        _ => Err("parameter 'command' must be a list of arguments, or a text".to_owned()),
    }
}

fn folder(parameters: &Object) -> &str {
    let folder = parameters.get("folder").and_then(Value::as_str);
    folder.unwrap_or(".")
}

#[async_trait]
impl Tool for CommandTool {
    fn declared(&self) -> &Declared {
        &self.built_in.declared
    }

    fn check(&self, parameters: &Object) -> Result<(), String> {
        self.built_in.check(parameters)?;
        arguments(parameters).map(drop)
    }

    fn preview(&self, parameters: &Object) -> String {
        let command = literal(parameters.get("command").unwrap_or(&Value::Null));
        let folder = literal(&json!(folder(parameters)));
        format!("run {command} in {folder} ({})", self.shell.label())
    }

    async fn call(&self, parameters: Object, _: CallContext) -> Observation {
        let arguments = match arguments(&parameters) {
            Ok(arguments) => arguments,
            Err(why) => return Observation::failure(why),
        };
        // Opened once to check that it is a directory inside the root and that its path contains no
        // link; afterwards it is referenced by its path.
        let parts = self.jail.parts(folder(&parameters), false);
        let parts = parts.and_then(|parts| self.jail.folder(&parts, false).map(|_| parts));
        let mut place = self.shell.root().to_owned();
        match parts {
            Ok(parts) => place.extend(parts.iter().map(Path::new)),
            Err(why) => return Observation::failure(why),
        }
        let wish = parameters.get("timeout_s").and_then(Value::as_f64);
        let seconds = wish.filter(|it| *it > 0.0).unwrap_or(self.timeout);
        let timeout = Duration::try_from_secs_f64(seconds.min(self.longest));
        let timeout = timeout.unwrap_or(Duration::from_secs(60));
        self.shell.run(&arguments, &place, timeout).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_command_tool_where_nothing_contains_commands() {
        let root = std::env::temp_dir().canonicalize().unwrap();
        let jail = Jail::new(root.clone(), &[]);
        let made = CommandTool::new(Shell::uncontained(&root), jail, 60.0, 600.0);
        let error = made.unwrap_err();
        assert!(error.to_string().contains("cannot be contained"), "{error}");
    }
}

//! Tools defined inline in an agent file: commands with placeholders for their parameters.
//!
//! A command is a list of arguments, never a shell line. Text from a model fills placeholders; it
//! can neither add an argument nor start an option.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use super::command::Shell;
use super::types::Record;
use crate::errors::ConfigError;
use crate::flow::template;
use crate::json::{Object, Value, json, render};
use crate::policy::Tier;
use crate::tools::{CallContext, Declared, Tool, literal};
use crate::values::{ASK_USER, FINISH, Observation};

const LONGEST_S: f64 = 3600.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InlineKeys {
    name: String,
    description: String,
    #[serde(default)]
    parameters: Object,
    command: Vec<String>,
    #[serde(default = "two")]
    tier: u8,
    #[serde(default = "sixty")]
    timeout: f64,
}

fn two() -> u8 {
    2
}

fn sixty() -> f64 {
    60.0
}

/// A command with placeholders for its parameters.
#[derive(Debug)]
pub(super) struct InlineTool {
    declared: Declared,
    parameters: Record,
    command: Vec<String>,
    timeout: f64,
    shell: Shell,
}

impl InlineTool {
    /// Parses an entry of `tools`.
    pub(super) fn read(value: &Value, path: &str, shell: Shell) -> Result<Self, ConfigError> {
        let wrong = |message: String| ConfigError::new(path, message);
        let keys: InlineKeys = ConfigError::reading(path, value.clone())?;
        if keys.name.is_empty() || [FINISH, ASK_USER].contains(&keys.name.as_str()) {
            return Err(wrong(format!(
                "{:?} cannot be the name of a tool",
                keys.name
            )));
        }
        if keys.description.is_empty() {
            return Err(wrong(
                "the description must say what the tool does".to_owned(),
            ));
        }
        let parameters = Record::read(&keys.parameters, "Parameters").map_err(wrong)?;
        match keys.command.first() {
            None => return Err(wrong("the command is empty".to_owned())),
            Some(program) if template::is_template(program) => {
                return Err(wrong("the program must stand there as it is".to_owned()));
            }
            Some(_) => {}
        }
        for part in &keys.command {
            template::check(&json!(part), path)?;
        }
        if !(2..=4).contains(&keys.tier) {
            return Err(wrong("the tier is 2 to 4".to_owned()));
        }
        if !(keys.timeout > 0.0 && keys.timeout <= LONGEST_S) {
            return Err(wrong(format!(
                "the timeout is above 0 and at most {LONGEST_S} s"
            )));
        }
        let declared = Tier::try_from(keys.tier).map_err(wrong)?;
        // Commands that are not contained always need an approval.
        let least = if shell.contained() {
            Tier::Card
        } else {
            Tier::Confirm
        };
        Ok(Self {
            declared: Declared {
                tier: declared.max(least),
                ..Declared::new(keys.name, keys.description, parameters.schema())
            },
            parameters,
            command: keys.command,
            timeout: keys.timeout,
            shell,
        })
    }

    fn checked(&self, parameters: &Object) -> Result<Object, String> {
        let mut parameters = parameters.clone();
        parameters.shift_remove("timeout_s");
        self.parameters
            .check(&parameters, &format!("the call of {}", self.name()))
    }

    /// Returns the command with its placeholders filled.
    fn arguments(&self, parameters: &Object) -> Result<Vec<String>, String> {
        let values = self.checked(parameters)?;
        let mut filled = Vec::with_capacity(self.command.len());
        for part in &self.command {
            if !template::is_template(part) {
                filled.push(part.clone());
                continue;
            }
            let text = render(&template::render_text(part, &values)?);
            // Unless the file itself begins the argument with "-", as in `--name={{ name }}`.
            if text.starts_with('-') && !part.starts_with('-') {
                return Err(format!(
                    "{text:?} begins with '-': it would be an option of the program"
                ));
            }
            filled.push(text);
        }
        Ok(filled)
    }
}

#[async_trait]
impl Tool for InlineTool {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn check(&self, parameters: &Object) -> Result<(), String> {
        self.checked(parameters).map(drop)
    }

    fn preview(&self, parameters: &Object) -> String {
        match self.arguments(parameters) {
            Ok(command) => {
                let command = literal(&json!(command));
                format!("run {command} in '.' ({})", self.shell.label())
            }
            Err(why) => format!("{}: {why}", self.name()),
        }
    }

    async fn call(&self, parameters: Object, _: CallContext) -> Observation {
        let arguments = match self.arguments(&parameters) {
            Ok(arguments) => arguments,
            Err(why) => return Observation::failure(why),
        };
        let wish = parameters.get("timeout_s").and_then(Value::as_f64);
        let seconds = wish
            .filter(|it| *it > 0.0)
            .unwrap_or(self.timeout)
            .min(LONGEST_S);
        let timeout = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(60));
        let root = self.shell.root();
        self.shell.run(&arguments, root, timeout).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(value: &Value) -> Result<InlineTool, ConfigError> {
        let shell = Shell::new(&std::env::temp_dir(), Vec::new()).unwrap();
        InlineTool::read(value, "tools.0", shell)
    }

    fn count() -> Value {
        json!({
            "name": "count", "description": "Counts words.", "parameters": {"path": "str"},
            "command": ["wc", "-w", "{{ path }}"],
        })
    }

    fn parameters(path: &str) -> Object {
        json!({"path": path}).as_object().unwrap().clone()
    }

    #[test]
    fn a_parameter_adds_no_argument_and_begins_no_option() {
        let tool = tool(&count()).unwrap();
        assert_eq!(
            tool.arguments(&parameters("a b; c")).unwrap(),
            ["wc", "-w", "a b; c"]
        );
        assert!(tool.arguments(&parameters("--files0-from=x")).is_err());
        assert_eq!(
            tool.arguments(&parameters("{{ 7 * 7 }}")).unwrap()[2],
            "{{ 7 * 7 }}"
        );
        assert!(tool.check(&Object::new()).is_err());
        assert!(tool.tier() >= Tier::Card);
    }

    #[test]
    fn a_tool_that_could_do_more_than_it_says_is_refused() {
        let with = |key: &str, value: Value| {
            let mut changed = count();
            changed[key] = value;
            tool(&changed).is_err()
        };
        assert!(with("command", json!(["{{ path }}"])));
        assert!(with("command", json!([])));
        assert!(with("tier", json!(1)));
        assert!(with("name", json!("finish")));
        assert!(with("surprise", json!(1)));
    }
}

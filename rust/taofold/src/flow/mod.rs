//! Flows: strategies defined as a graph of nodes in a YAML file.
//!
//! [`Flow::read`] parses and checks a file; [`Flow`] is a [`Strategy`] that runs it. Texts of the
//! file may be templates; the values that templates read never are. Keys that this runtime does not
//! know are rejected.

mod actions;
mod expression;
mod file;
mod interpreter;
pub(crate) mod template;
mod watch;

use std::collections::BTreeSet;

use crate::effects::{Answer, Coroutine};
use crate::errors::ConfigError;
use crate::flow::file::FlowFile;
use crate::json::Value;
use crate::strategy::{Strategy, Task};

/// A validated flow file.
#[derive(Debug, Clone)]
pub struct Flow {
    file: std::sync::Arc<FlowFile>,
}

impl Flow {
    /// Parses a flow file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the location of the first error.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            file: std::sync::Arc::new(FlowFile::read(text)?),
        })
    }

    /// Parses a flow from the content of its file, without the keys that it shares with agents.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the location of the first error.
    pub fn from_value(value: Value) -> Result<Self, ConfigError> {
        Ok(Self {
            file: std::sync::Arc::new(FlowFile::from_value(value)?),
        })
    }

    /// Returns the model in the flow's settings; empty for none.
    pub fn model(&self) -> &str {
        &self.file.settings.model
    }

    /// Returns the provider that completes bare model names; empty for none.
    pub fn provider(&self) -> &str {
        &self.file.settings.provider
    }

    /// Returns the models that the nodes name.
    pub fn models(&self) -> BTreeSet<String> {
        self.file.models()
    }

    /// Returns the agent files that the nodes may run, by name.
    pub(crate) fn agents(&self) -> &std::collections::BTreeMap<String, String> {
        &self.file.agents
    }

    /// Returns the backend of `web.search`; empty for none.
    pub(crate) fn search(&self) -> &str {
        &self.file.settings.search
    }

    /// Returns the tools that the nodes name.
    pub(crate) fn tools(&self) -> BTreeSet<String> {
        self.file.tools()
    }

    /// Returns the file's instructions for models.
    pub fn instructions(&self) -> &str {
        &self.file.instructions
    }
}

impl Strategy for Flow {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn run(&self, task: Task) -> Coroutine<Answer> {
        interpreter::run(std::sync::Arc::clone(&self.file), task)
    }
}

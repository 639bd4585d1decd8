//! Flows: strategies whose course is a graph of nodes in a YAML file.
//!
//! [`Flow::read`] reads and checks a file, [`Flow`] is a [`Strategy`] that runs it. Texts of the
//! file may be templates; values that these read never are. A key that this runtime does not know
//! is refused.

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

/// A flow file without faults.
#[derive(Debug, Clone)]
pub struct Flow {
    file: std::sync::Arc<FlowFile>,
}

impl Flow {
    /// Reads a flow file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the place of the first fault.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            file: std::sync::Arc::new(FlowFile::read(text)?),
        })
    }

    /// Reads a flow from what its file holds, without the keys that it shares with agents.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the place of the first fault.
    pub fn from_value(value: Value) -> Result<Self, ConfigError> {
        Ok(Self {
            file: std::sync::Arc::new(FlowFile::from_value(value)?),
        })
    }

    /// Returns the model that the flow's settings name; empty: none.
    pub fn model(&self) -> &str {
        &self.file.settings.model
    }

    /// Returns the provider that completes bare names of models; empty: none is said.
    pub fn provider(&self) -> &str {
        &self.file.settings.provider
    }

    /// Returns the models that the nodes name.
    pub fn models(&self) -> BTreeSet<String> {
        self.file.models()
    }

    /// Returns the agent files that the nodes may ask, by name.
    pub(crate) fn agents(&self) -> &std::collections::BTreeMap<String, String> {
        &self.file.agents
    }

    /// Returns the backend of `web.search`; empty: there is none.
    pub(crate) fn search(&self) -> &str {
        &self.file.settings.search
    }

    /// Returns the names of tools that the nodes name.
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

//! A part of a question that a caller writes: text, or a function of what is asked about.

use std::sync::Arc;

use crate::json::Value;

type Render = Arc<dyn Fn(&Value) -> String + Send + Sync>;

/// Text that is put into a question, or a function that writes the whole question.
#[derive(Clone, Default)]
pub enum Prompt {
    /// Nothing is said.
    #[default]
    Default,
    /// What to look for.
    Text(String),
    /// Writes the question about a value.
    Render(Render),
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Default => "Default",
            Self::Text(_) => "Text",
            Self::Render(_) => "Render",
        })
    }
}

impl Prompt {
    /// Returns a prompt that a function writes.
    pub fn render(render: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        Self::Render(Arc::new(render))
    }
}

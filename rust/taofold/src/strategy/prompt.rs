//! A prompt that the caller supplies: text, or a function of the value in question.

use std::sync::Arc;

use crate::json::Value;

type Render = Arc<dyn Fn(&Value) -> Result<String, String> + Send + Sync>;

/// Text that is added to a question, or a function that writes the whole question.
#[derive(Clone, Default)]
pub enum Prompt {
    /// The default prompt.
    #[default]
    Default,
    /// Additional criteria.
    Text(String),
    /// A function that writes the question about a value.
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
        Self::Render(Arc::new(move |value| Ok(render(value))))
    }

    /// Returns a prompt that a function writes, or whose error ends the strategy.
    pub fn try_render(
        render: impl Fn(&Value) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        Self::Render(Arc::new(render))
    }
}

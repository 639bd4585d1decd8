//! Models: the trait that providers implement, and a scripted model for tests.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::content::Conversation;
use crate::errors::ModelError;
use crate::json::Value;
use crate::values::{ModelSettings, Profile, Reply, StepRole};

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOffer {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON Schema of its parameters.
    pub schema: Value,
}

/// One request to a model.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The conversation.
    pub conversation: &'a Conversation,
    /// Tools that are offered natively.
    pub tools: &'a [ToolOffer],
    /// The subset of tools that may be called now; `None` for all.
    pub allowed: Option<&'a [String]>,
    /// The schema for constrained decoding, if the profile supports it.
    pub schema: Option<&'a Value>,
    /// The settings of the call.
    pub settings: &'a ModelSettings,
    /// The listener for text while it arrives; without one, the reply is not streamed.
    pub on_text: Option<&'a (dyn Fn(&str) + Send + Sync)>,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Request")
            .field("tools", &self.tools)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A model. An implementation performs retries and counts the consumed tokens and cost.
#[async_trait]
pub trait Model: Send + Sync {
    /// Returns the name in the log, such as `openai:gpt-4`.
    fn name(&self) -> &str;

    /// Returns the capabilities of the model.
    fn profile(&self) -> &Profile;

    /// Calls the model.
    ///
    /// # Errors
    ///
    /// [`ModelError`] after the retries that the implementation makes.
    async fn ask(&self, request: Request<'_>) -> Result<Reply, ModelError>;
}

/// The models of a run: one for each role, and others by name.
#[derive(Clone)]
pub struct Models {
    main: Arc<dyn Model>,
    roles: HashMap<StepRole, Arc<dyn Model>>,
    named: HashMap<String, Arc<dyn Model>>,
}

impl std::fmt::Debug for Models {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Models({:?})", self.main.name())
    }
}

impl Models {
    /// Returns models in which `main` plays every role.
    pub fn new(main: Arc<dyn Model>) -> Self {
        Self {
            main,
            roles: HashMap::new(),
            named: HashMap::new(),
        }
    }

    /// Assigns `model` to `role`.
    #[must_use]
    pub fn with_role(mut self, role: StepRole, model: Arc<dyn Model>) -> Self {
        self.roles.insert(role, model);
        self
    }

    /// Adds a model under a name that an [`Ask`](crate::effects::Ask) may use.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>, model: Arc<dyn Model>) -> Self {
        self.named.insert(name.into(), model);
        self
    }

    /// Returns the model with this name, or the one that plays `role`.
    pub fn get(&self, name: &str, role: StepRole) -> &Arc<dyn Model> {
        let by_role = self.roles.get(&role).unwrap_or(&self.main);
        self.named.get(name).unwrap_or(by_role)
    }

    /// Returns the model that plays every role without one of its own.
    pub fn main(&self) -> &Arc<dyn Model> {
        &self.main
    }
}

/// A model that returns prepared replies in order, for tests and examples.
#[derive(Debug)]
pub struct ScriptedModel {
    profile: Profile,
    replies: Mutex<VecDeque<Reply>>,
}

impl ScriptedModel {
    /// Returns a model with text replies.
    pub fn new(replies: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::with_replies(
            replies.into_iter().map(Reply::text_only),
            Profile::default(),
        )
    }

    /// Returns a model with complete replies, such as native tool calls.
    pub fn with_replies(replies: impl IntoIterator<Item = Reply>, profile: Profile) -> Self {
        Self {
            profile,
            replies: Mutex::new(replies.into_iter().collect()),
        }
    }
}

#[async_trait]
impl Model for ScriptedModel {
    fn name(&self) -> &str {
        "scripted:model"
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn ask(&self, _: Request<'_>) -> Result<Reply, ModelError> {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = || ModelError::new("request", "the script has no further reply");
        let reply = replies.pop_front().ok_or_else(ended)?;
        Ok(Reply {
            model: self.name().to_owned(),
            ..reply
        })
    }
}

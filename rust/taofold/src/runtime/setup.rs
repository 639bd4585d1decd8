//! The setup of a run: models, tools, policy, limits, and the clock.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use crate::model::{Models, ToolOffer};
use crate::policy::{Limits, Policy, Redactor};
use crate::runtime::child::{AgentTool, Subagent};
use crate::tools::Toolset;
use crate::values::{ModelSettings, Principal};

/// A source of time.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Returns milliseconds since the epoch. The clock may be set back.
    fn now_ms(&self) -> i64;

    /// Returns the milliseconds of a monotonic clock.
    fn steady_ms(&self) -> u64;

    /// Waits for `duration`.
    async fn sleep(&self, duration: Duration);
}

/// The clocks of the operating system. Sleeping needs a tokio runtime with time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |time| {
            i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
        })
    }

    fn steady_ms(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let passed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A listener for the text of a model.
pub type TextListener = Arc<dyn Fn(&str) + Send + Sync>;

/// The setup of a run.
#[derive(Clone)]
pub struct Setup {
    /// The models by role.
    pub models: Models,
    /// The tools.
    pub tools: Toolset,
    /// The approval policy.
    pub policy: Policy,
    /// The bounds of the run.
    pub limits: Limits,
    /// The principal of the run.
    pub principal: Principal,
    /// The redactor of known secrets.
    pub redactor: Redactor,
    /// The settings of model calls.
    pub settings: ModelSettings,
    /// The reserved actions in the form offered to a native caller.
    pub reserved: Vec<ToolOffer>,
    /// The listener for the models' text while it arrives.
    pub on_text: Option<TextListener>,
    /// True if a denied action ends the run; otherwise the model receives the denial.
    pub stop_on_denial: bool,
    /// The agents behind tools, by the name of the tool. Each call is a child run.
    pub agents: BTreeMap<String, Arc<dyn Subagent>>,
    /// The agent's name and its own limits in a child run. The caller's limits may be tighter.
    pub(super) own: Option<(String, Limits)>,
    /// The depth of nested agent calls: 0 for a root run.
    pub(super) depth: u64,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Setup")
            .field("models", &self.models)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// Returns a setup without tools, with the default policy and limits.
    pub fn new(models: Models) -> Self {
        Self {
            models,
            tools: Toolset::new(),
            policy: Policy::default(),
            limits: Limits::default(),
            principal: Principal::default(),
            redactor: Redactor::default(),
            settings: ModelSettings::default(),
            reserved: Vec::new(),
            on_text: None,
            stop_on_denial: false,
            agents: BTreeMap::new(),
            own: None,
            depth: 0,
            clock: Arc::new(SystemClock),
        }
    }

    /// Adds an agent as the tool `name`. Each call is a child run with its own log.
    ///
    /// The child run stays within the caller's remaining limits and policy. Add the agent's own
    /// tools before this call.
    pub fn add_agent(&mut self, name: impl Into<String>, agent: Arc<dyn Subagent>) {
        let name = name.into();
        self.tools
            .insert(Arc::new(AgentTool::new(&name, agent.as_ref())));
        self.agents.insert(name, agent);
    }
}

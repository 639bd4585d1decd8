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

/// The time of the machine.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Milliseconds since the epoch; it may be set back.
    fn now_ms(&self) -> i64;

    /// Milliseconds of a monotonic clock.
    fn steady_ms(&self) -> u64;

    /// Waits.
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

/// Hears text of a model.
pub type TextListener = Arc<dyn Fn(&str) + Send + Sync>;

/// The setup of a run.
#[derive(Clone)]
pub struct Setup {
    /// The models by role.
    pub models: Models,
    /// The tools.
    pub tools: Toolset,
    /// The policy of approvals.
    pub policy: Policy,
    /// The bounds of the run.
    pub limits: Limits,
    /// The principal of the run.
    pub principal: Principal,
    /// Known secrets.
    pub redactor: Redactor,
    /// The settings of model calls.
    pub settings: ModelSettings,
    /// The reserved actions as a native caller is offered them.
    pub reserved: Vec<ToolOffer>,
    /// Hears the models' text while it arrives.
    pub on_text: Option<TextListener>,
    /// Whether a denied action ends the run; else the model is told.
    pub stop_on_denial: bool,
    /// The agents behind tools, by the name of the tool: each call is a child run.
    pub agents: BTreeMap<String, Arc<dyn Subagent>>,
    /// The agent's name, and its own limits, in a child run; these may be tighter by its caller's.
    pub(super) own: Option<(String, Limits)>,
    /// How deep agents have called agents: 0 for a run that no other began.
    pub(super) depth: u64,
    /// The time.
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

    /// Adds an agent as the tool `name`: a call is a child run with a log of its own, within what is
    /// left of the caller's limits and under its policy. Add its own tools before.
    pub fn add_agent(&mut self, name: impl Into<String>, agent: Arc<dyn Subagent>) {
        let name = name.into();
        self.tools
            .insert(Arc::new(AgentTool::new(&name, agent.as_ref())));
        self.agents.insert(name, agent);
    }
}

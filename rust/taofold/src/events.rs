//! Everything that can happen in a run, and its JSON form.
//!
//! `key` is the place of an effect in its strategy (`"0"`, `"3"`, inside a fork `"3.1.0"`), `index`
//! that of an action in its batch. A [`Record`] is an event with its number and time. The format is
//! that of `docs/log-format.md`: a field that holds its default is left out, an unknown field is
//! ignored, an unknown kind of event and a higher schema are errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::content::{Content, Issuer, Message, Part};
use crate::errors::LogError;
use crate::json::{Object, Value, finite, is_default, oversized_integer};
use crate::values::{
    Action, Deciders, Observation, Principal, Profile, Sideeffect, StepRole, Thought, Usage,
};

/// The version of the events' JSON form.
pub const SCHEMA_VERSION: u64 = 2;

/// What was decided about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person is asked.
    Ask,
    /// It may not run.
    Deny,
    /// The question closed without an answer.
    Expired,
    /// What the question was bound to changed.
    Void,
    /// It has happened already.
    Done,
}

/// What an imported file says of a call whose outcome it does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignCall {
    /// The tool.
    pub tool: String,
    /// The fingerprint of the call.
    pub fingerprint: String,
    /// For people: `allow by local`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decisions: Vec<String>,
    /// Whether it had been started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
}

/// Where a run came from that was taken in from a file: its first `events` records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The file.
    pub source: String,
    /// How many records came with it.
    pub events: u64,
    /// Who started the run there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub principal: String,
    /// Calls whose outcome it does not hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claims: Vec<ForeignCall>,
    /// When it was taken in, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: u64,
}

fn agent_name() -> String {
    "agent".to_owned()
}

fn is_agent_name(name: &String) -> bool {
    name == "agent"
}

fn react_name() -> String {
    "react".to_owned()
}

fn is_react_name(name: &String) -> bool {
    name == "react"
}

fn policy_name() -> String {
    "policy".to_owned()
}

fn is_policy_name(name: &String) -> bool {
    name == "policy"
}

fn one() -> u64 {
    1
}

fn is_one(value: &u64) -> bool {
    *value == 1
}

/// The fixed facts of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The goal as text.
    pub goal: String,
    /// The agent's name.
    #[serde(default = "agent_name", skip_serializing_if = "is_agent_name")]
    pub agent: String,
    /// The strategy's name.
    #[serde(default = "react_name", skip_serializing_if = "is_react_name")]
    pub strategy: String,
    /// Its version.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub strategy_version: u64,
    /// The model's name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: String,
    /// What the model can do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub profile: Profile,
    /// The principal of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub principal: Principal,
    /// The digest of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: String,
    /// Settings of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: Object,
    /// The state at the start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: Object,
    /// The session so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub history: Vec<Message>,
    /// The session.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: String,
    /// The run that called this one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent: String,
    /// How deep agents have called agents.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u64,
    /// The goal as it was given, if it holds more than text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parts: Vec<Part>,
    /// Where an imported run came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Provenance>,
    /// Labels by which a caller filters lists.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tags: std::collections::BTreeMap<String, String>,
    /// Whether a mask replaced a secret in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
}

/// The events before were copied from `run`, up to `seq`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forked {
    /// The source.
    pub run: String,
    /// Its last copied record.
    pub seq: u64,
}

/// A new activation took the run over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The fencing token.
    pub epoch: u64,
    /// Who drives.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: String,
    /// The runtime whose words follow; empty: Python's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runtime: String,
}

/// A person's message reached the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steered {
    /// The effect's place.
    pub key: String,
    /// The message.
    pub id: String,
    /// Its text.
    pub text: String,
    /// Who wrote it.
    pub by: String,
    /// The message as it was given, if it holds more than text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parts: Vec<Part>,
    /// Whether a mask replaced a secret in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
}

/// A limit was reached. `value` 1: nothing more is called; -1: the coming turn is the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitHit {
    /// The effect's place.
    pub key: String,
    /// The limit.
    pub limit: String,
    /// 1 or -1.
    #[serde(serialize_with = "finite")]
    pub value: f64,
    /// What the call that was not made could have taken.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "finite")]
    pub needed: f64,
    /// The bound then.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "finite")]
    pub allowed: f64,
}

/// On resume this code builds another prompt than the one recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptChanged {
    /// The effect's place.
    pub key: String,
    /// The digest then.
    pub recorded: String,
    /// The digest now.
    pub requested: String,
}

/// The model's reply, recorded before anything reads it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Replied {
    /// The effect's place.
    pub key: String,
    /// The digest of the conversation.
    pub prompt: String,
    /// The reply.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content: Content,
    /// What it cost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: Usage,
    /// The model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: String,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub finish: String,
    /// The role it was asked in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: StepRole,
    /// Milliseconds.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "finite")]
    pub ms: f64,
    /// Whether it came from a cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cached: bool,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Issuer>,
    /// The digest of all that was sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: String,
    /// What the provider reported.
    #[serde(default, skip_serializing_if = "is_default")]
    pub notes: Vec<String>,
    /// Whether a mask replaced a secret in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
}

/// A hook changed what becomes of the model call at `key`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hooked {
    /// The effect's place.
    pub key: String,
    /// The hook.
    pub hook: String,
    /// `before_model` or `after_model`.
    pub point: String,
    /// Why the run ends here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rejected: String,
    /// What the model is told besides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub message: String,
}

/// The provider failed after its retries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskFailed {
    /// The effect's place.
    pub key: String,
    /// What failed.
    pub kind: String,
    /// The provider's words.
    pub message: String,
}

/// A rule of the loop was broken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Violated {
    /// The number of the effect that comes next.
    pub key: String,
    /// The rule.
    pub rule: String,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detail: String,
    /// Numbers of the steps concerned.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: Vec<u64>,
    /// Whether the reply was not acted on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: bool,
}

/// From here on nothing opaque is sent back from the first `messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The effect's place.
    pub key: String,
    /// Why.
    pub reason: String,
    /// How many messages.
    pub messages: u64,
    /// More about it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detail: String,
}

/// Observations up to `upto` were folded in the prompt, not in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// The effect's place.
    pub key: String,
    /// The last folded step.
    pub upto: u64,
    /// Characters before.
    pub chars_before: u64,
    /// Characters after.
    pub chars_after: u64,
}

/// A strategy's own trace entry; of kind `state` its data goes over the state's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noted {
    /// The number of the effect that comes next.
    pub key: String,
    /// What it is.
    pub kind: String,
    /// Its content.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: Object,
}

/// A thought and its batch of actions: the opening of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposed {
    /// The effect's place.
    pub key: String,
    /// Why.
    pub thought: Thought,
    /// What.
    pub actions: Vec<Action>,
}

/// Whether an action may run. `ask` opens an approval, a later decision closes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The effect's place.
    pub key: String,
    /// The decision.
    pub verdict: Verdict,
    /// The action's place in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// Who decided.
    #[serde(default = "policy_name", skip_serializing_if = "is_policy_name")]
    pub by: String,
    /// How much say a person has.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub tier: u64,
    /// Why.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: String,
    /// What the question is bound to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub digest: String,
    /// The digest of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: String,
    /// The call as people see it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preview: String,
    /// When the question closes, in milliseconds since the epoch; 0: never.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expires_at: u64,
    /// The action as a person edited it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Of a question in the middle of a call: its form and the tool's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Object>,
    /// How often the call had been started when it was asked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempt: u64,
    /// Who may answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deciders: Option<Deciders>,
}

/// An approval was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// What was decided, and on what.
    #[serde(flatten)]
    pub decided: Decided,
    /// Whether a file says so that was taken in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub imported: bool,
    /// Whether a mask replaced a secret in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
}

/// The tool is about to be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The effect's place.
    pub key: String,
    /// The action's place in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// How the call goes on after a crash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kept: Value,
    /// Which retry it is; 0: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: u64,
}

/// The same for a tool that must not be repeated: on disk before the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartedOnce {
    /// The effect's place.
    pub key: String,
    /// The action's place in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// How the call goes on after a crash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kept: Value,
    /// Which retry it is; 0: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: u64,
    /// What the tool does to the world.
    #[serde(default, skip_serializing_if = "is_default")]
    pub effect: Sideeffect,
}

/// What came back from an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The effect's place.
    pub key: String,
    /// What came back.
    pub observation: Observation,
    /// The action's place in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// The name and value that go over the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<(String, Value)>,
    /// What a child run consumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Model calls and tool calls of a child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<(u64, u64)>,
    /// Tool calls of a child run, by tool.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: BTreeMap<String, u64>,
    /// Its usage by model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub models: BTreeMap<String, Usage>,
    /// Hooks that rejected the call or changed its result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hooks: Vec<String>,
}

/// A principal without the right tried to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionRefused {
    /// The question.
    pub id: String,
    /// Who tried.
    pub by: String,
    /// Why not.
    pub why: String,
    /// When, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: u64,
}

/// An action changed the state's `name`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Updated {
    /// The variable.
    pub name: String,
    /// Its new value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Value,
    /// The action.
    #[serde(default, skip_serializing_if = "is_default")]
    pub action: String,
}

/// The run waits: no process, only rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// What for.
    pub reason: String,
}

/// Events after `to` no longer count. They stay in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rewound {
    /// The last record that counts.
    pub to: u64,
}

/// The end of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFinished {
    /// How.
    pub status: String,
    /// Why.
    pub stop_reason: String,
    /// Whether the goal was reached.
    pub success: bool,
    /// The answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output: Value,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "is_default")]
    pub error: String,
    /// The answer without masks, if `output` has some.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accepted: Value,
}

/// Everything that can happen in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "snake_case")]
pub enum Event {
    /// The fixed facts of a run.
    RunStarted(RunStarted),
    /// The events before were copied from `run`, up to `seq`.
    Forked(Forked),
    /// A new activation took the run over.
    Resumed(Resumed),
    /// A person's message reached the run.
    Steered(Steered),
    /// A limit was reached. `value` 1: nothing more is called; -1: the coming turn is the last.
    LimitHit(LimitHit),
    /// On resume this code builds another prompt than the one recorded.
    PromptChanged(PromptChanged),
    /// The model's reply, recorded before anything reads it.
    Replied(Replied),
    /// A hook changed what becomes of the model call at `key`.
    Hooked(Hooked),
    /// The provider failed after its retries.
    AskFailed(AskFailed),
    /// A rule of the loop was broken.
    Violated(Violated),
    /// From here on nothing opaque is sent back from the first `messages`.
    Cut(Cut),
    /// Observations up to `upto` were folded in the prompt, not in the log.
    Compacted(Compacted),
    /// A strategy's own trace entry; of kind `state` its data goes over the state's.
    Noted(Noted),
    /// A thought and its batch of actions: the opening of a step.
    Proposed(Proposed),
    /// Whether an action may run. `ask` opens an approval, a later decision closes it.
    Decided(Decided),
    /// An approval was closed.
    Resolved(Resolved),
    /// The tool is about to be called.
    Started(Started),
    /// The same for a tool that must not be repeated: on disk before the call.
    StartedOnce(StartedOnce),
    /// What came back from an action.
    Observed(Observed),
    /// A principal without the right tried to decide.
    DecisionRefused(DecisionRefused),
    /// An action changed the state's `name`.
    Updated(Updated),
    /// The run waits: no process, only rows.
    Parked(Parked),
    /// Events after `to` no longer count. They stay in the log.
    Rewound(Rewound),
    /// The end of the run.
    RunFinished(RunFinished),
}

macro_rules! into_event {
    ($($kind:ident),+ $(,)?) => {
        $(impl From<$kind> for Event {
            fn from(event: $kind) -> Self {
                Self::$kind(event)
            }
        })+
    };
}

into_event!(
    RunStarted,
    Forked,
    Resumed,
    Steered,
    LimitHit,
    PromptChanged,
    Replied,
    Hooked,
    AskFailed,
    Violated,
    Cut,
    Compacted,
    Noted,
    Proposed,
    Decided,
    Resolved,
    Started,
    StartedOnce,
    Observed,
    DecisionRefused,
    Updated,
    Parked,
    Rewound,
    RunFinished,
);

impl RunStarted {
    /// Returns the start of a run with every other field at its default.
    pub fn new(goal: impl Into<String>) -> Self {
        Self {
            goal: goal.into(),
            agent: agent_name(),
            strategy: react_name(),
            strategy_version: 1,
            model: String::new(),
            profile: Profile::default(),
            principal: Principal::default(),
            policy: String::new(),
            settings: Object::new(),
            data: Object::new(),
            history: Vec::new(),
            session: String::new(),
            parent: String::new(),
            depth: 0,
            parts: Vec::new(),
            imported: None,
            tags: std::collections::BTreeMap::new(),
            masked: false,
        }
    }
}

impl Decided {
    /// Returns a decision of the policy.
    pub fn new(key: impl Into<String>, index: u64, verdict: Verdict) -> Self {
        Self {
            key: key.into(),
            verdict,
            index,
            by: policy_name(),
            tier: 1,
            reason: String::new(),
            digest: String::new(),
            policy: String::new(),
            preview: String::new(),
            expires_at: 0,
            action: None,
            request: None,
            attempt: 0,
            deciders: None,
        }
    }
}

impl Resolved {
    /// Returns the end of an approval.
    pub fn new(decided: Decided) -> Self {
        Self {
            decided,
            imported: false,
            masked: false,
        }
    }
}

impl Observed {
    /// Returns the observation of one action.
    pub fn new(key: impl Into<String>, index: u64, observation: Observation) -> Self {
        Self {
            key: key.into(),
            observation,
            index,
            update: None,
            usage: None,
            calls: None,
            tools: BTreeMap::new(),
            models: BTreeMap::new(),
            hooks: Vec::new(),
        }
    }
}

impl Event {
    /// Whether the time since the record before counts as activity.
    pub fn timed(&self) -> bool {
        !matches!(
            self,
            Self::RunStarted(_) | Self::Forked(_) | Self::Resumed(_) | Self::Rewound(_)
        )
    }

    /// Whether it leaves the state as it is, but for the time.
    pub fn is_annotation(&self) -> bool {
        matches!(
            self,
            Self::Forked(_)
                | Self::PromptChanged(_)
                | Self::Hooked(_)
                | Self::AskFailed(_)
                | Self::Violated(_)
                | Self::Cut(_)
                | Self::Compacted(_)
                | Self::DecisionRefused(_)
        )
    }

    /// Whether an effect of the strategy derives it; a replay skips what a driver or person adds.
    pub fn derived(&self) -> bool {
        !matches!(
            self,
            Self::RunStarted(_)
                | Self::Forked(_)
                | Self::Resumed(_)
                | Self::PromptChanged(_)
                | Self::DecisionRefused(_)
                | Self::Updated(_)
                | Self::Parked(_)
                | Self::Rewound(_)
                | Self::RunFinished(_)
        )
    }

    /// Whether it must survive a power cut: the log syncs before going on.
    pub fn durable(&self) -> bool {
        matches!(
            self,
            Self::Steered(_)
                | Self::Resolved(_)
                | Self::StartedOnce(_)
                | Self::Parked(_)
                | Self::Rewound(_)
        )
    }

    /// Returns the effect to which it belongs; empty if it belongs to none.
    pub fn key(&self) -> &str {
        match self {
            Self::Steered(event) => &event.key,
            Self::LimitHit(event) => &event.key,
            Self::PromptChanged(event) => &event.key,
            Self::Replied(event) => &event.key,
            Self::Hooked(event) => &event.key,
            Self::AskFailed(event) => &event.key,
            Self::Violated(event) => &event.key,
            Self::Cut(event) => &event.key,
            Self::Compacted(event) => &event.key,
            Self::Noted(event) => &event.key,
            Self::Proposed(event) => &event.key,
            Self::Decided(event) => &event.key,
            Self::Resolved(event) => &event.decided.key,
            Self::Started(event) => &event.key,
            Self::StartedOnce(event) => &event.key,
            Self::Observed(event) => &event.key,
            _ => "",
        }
    }

    /// Returns the call of the batch to which it belongs; `None` if it is about the whole effect.
    pub fn index(&self) -> Option<u64> {
        match self {
            Self::Decided(event) => Some(event.index),
            Self::Resolved(event) => Some(event.decided.index),
            Self::Started(event) => Some(event.index),
            Self::StartedOnce(event) => Some(event.index),
            Self::Observed(event) => Some(event.index),
            _ => None,
        }
    }

    /// Returns the name of its kind in the log.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run_started",
            Self::Forked(_) => "forked",
            Self::Resumed(_) => "resumed",
            Self::Steered(_) => "steered",
            Self::LimitHit(_) => "limit_hit",
            Self::PromptChanged(_) => "prompt_changed",
            Self::Replied(_) => "replied",
            Self::Hooked(_) => "hooked",
            Self::AskFailed(_) => "ask_failed",
            Self::Violated(_) => "violated",
            Self::Cut(_) => "cut",
            Self::Compacted(_) => "compacted",
            Self::Noted(_) => "noted",
            Self::Proposed(_) => "proposed",
            Self::Decided(_) => "decided",
            Self::Resolved(_) => "resolved",
            Self::Started(_) => "started",
            Self::StartedOnce(_) => "started_once",
            Self::Observed(_) => "observed",
            Self::DecisionRefused(_) => "decision_refused",
            Self::Updated(_) => "updated",
            Self::Parked(_) => "parked",
            Self::Rewound(_) => "rewound",
            Self::RunFinished(_) => "run_finished",
        }
    }
}

/// An event with its place in history.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The run.
    pub run: String,
    /// Its number, from 0 without gaps.
    pub seq: u64,
    /// Milliseconds since the epoch, by the machine's clock, which can be set.
    pub at: i64,
    /// Milliseconds of activity since the record before, by a monotonic clock.
    pub elapsed: Option<u64>,
    /// What happened.
    pub event: Event,
}

/// The JSON form of an event: `elapsed` stands beside its fields.
#[derive(Serialize, Deserialize)]
struct Row<E> {
    #[serde(flatten)]
    event: E,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elapsed: Option<u64>,
}

/// Returns the JSON form of an event, as small as it can be.
///
/// # Errors
///
/// [`LogError::Format`] if it holds a number that JSON has not.
pub fn encode(event: &Event, elapsed: Option<u64>) -> Result<String, LogError> {
    serde_json::to_string(&Row { event, elapsed }).map_err(|error| LogError::Format {
        message: format!("a {} cannot be written: {error}", event.tag()),
    })
}

/// Reads an event and its `elapsed` from JSON text of this schema.
///
/// # Errors
///
/// [`LogError::Format`] if the text is no event of this schema, or holds an integer of more than
/// 64 bits, which would lose digits.
pub fn decode(text: &str) -> Result<(Event, Option<u64>), LogError> {
    if let Some(number) = oversized_integer(text) {
        return Err(LogError::Format {
            message: format!("the integer {number} does not fit 64 bits"),
        });
    }
    let row: Row<Event> = serde_json::from_str(text).map_err(|error| LogError::Format {
        message: format!("not an event of schema {SCHEMA_VERSION}: {error}"),
    })?;
    Ok((row.event, row.elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_of_event_is_an_error_and_an_unknown_field_is_not() {
        assert!(decode(r#"{"e": "dreamt", "key": "0"}"#).is_err());
        let (event, _) = decode(r#"{"e": "parked", "reason": "x", "colour": "red"}"#).unwrap();
        assert_eq!(event, Parked { reason: "x".into() }.into());
    }

    #[test]
    fn a_missing_field_without_a_default_is_an_error() {
        assert!(decode(r#"{"e": "parked"}"#).is_err());
    }

    #[test]
    fn numbers_that_would_change_are_refused() {
        assert!(decode(r#"{"e": "updated", "name": "n", "value": 1e400}"#).is_err());
        assert!(decode(r#"{"e": "updated", "name": "n", "value": 36893488147419103232}"#).is_err());
        assert!(decode(r#"{"e": "rewound", "to": -1}"#).is_err());
    }

    #[test]
    fn elapsed_stands_beside_the_fields_and_round_trips() {
        let text = r#"{"e":"parked","reason":"x","elapsed":7}"#;
        let (event, elapsed) = decode(text).unwrap();
        assert_eq!(elapsed, Some(7));
        assert_eq!(encode(&event, elapsed).unwrap(), text);
    }

    #[test]
    fn defaults_are_left_out() {
        let event = Event::from(RunStarted::new("go"));
        assert_eq!(
            encode(&event, None).unwrap(),
            r#"{"e":"run_started","goal":"go"}"#
        );
        let event = Event::from(Decided::new("1", 0, Verdict::Allow));
        assert_eq!(
            encode(&event, None).unwrap(),
            r#"{"e":"decided","key":"1","verdict":"allow"}"#
        );
    }
}

//! The events of a run and their JSON form.
//!
//! `key` is the place of an effect in its strategy: `"0"`, `"3"`, or `"3.1.0"` inside a fork.
//! `index` is the place of an action in its batch. A [`Record`] is an event with its number and
//! time. `docs/log-format.md` describes the format: fields with their default value are omitted,
//! and unknown fields are ignored. Unknown kinds of events and higher schema versions are errors.

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

/// The decision about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The action may run.
    Allow,
    /// The action needs an approval.
    Ask,
    /// The action must not run.
    Deny,
    /// The approval expired without an answer.
    Expired,
    /// The approval is void because the data it was bound to changed.
    Void,
    /// The action already ran.
    Done,
}

/// A call in an imported file that does not contain its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignCall {
    /// The tool.
    pub tool: String,
    /// The fingerprint of the call.
    pub fingerprint: String,
    /// Readable decisions, such as `allow by local`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub decisions: Vec<String>,
    /// True if the call was started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub started: bool,
}

/// The origin of an imported run: its first `events` records came from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The file.
    pub source: String,
    /// The number of imported records.
    pub events: u64,
    /// The principal that started the run at its origin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub principal: String,
    /// Calls whose outcome the file does not contain.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claims: Vec<ForeignCall>,
    /// The time of the import, in milliseconds since the epoch.
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
    /// The version of the strategy.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub strategy_version: u64,
    /// The model's name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: String,
    /// The capabilities of the model.
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
    /// The earlier messages of the session.
    #[serde(default, skip_serializing_if = "is_default")]
    pub history: Vec<Message>,
    /// The id of the session.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: String,
    /// The id of the parent run; empty for a root run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent: String,
    /// The number of nested agent calls above this run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub depth: u64,
    /// The original goal, if it holds more than text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parts: Vec<Part>,
    /// The origin of an imported run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Provenance>,
    /// Labels by which callers filter lists.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tags: std::collections::BTreeMap<String, String>,
    /// True if a mask replaced a secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
}

/// The earlier events were copied from `run`, up to `seq`.
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
    /// The id of the process that drives the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: String,
    /// The runtime that writes the following records; empty for Python.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runtime: String,
}

/// A user's message reached the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Steered {
    /// The key of the effect.
    pub key: String,
    /// The id of the message.
    pub id: String,
    /// Its text.
    pub text: String,
    /// The author.
    pub by: String,
    /// The original message, if it holds more than text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parts: Vec<Part>,
    /// True if a mask replaced a secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
}

/// A limit was reached. With `value` 1 no further call is made; with -1 the next turn is the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitHit {
    /// The key of the effect.
    pub key: String,
    /// The limit.
    pub limit: String,
    /// 1 or -1.
    #[serde(serialize_with = "finite")]
    pub value: f64,
    /// The largest amount that the skipped call could have consumed.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "finite")]
    pub needed: f64,
    /// The bound at that time.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "finite")]
    pub allowed: f64,
}

/// On resume, the code builds a prompt that differs from the recorded one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptChanged {
    /// The key of the effect.
    pub key: String,
    /// The recorded digest.
    pub recorded: String,
    /// The current digest.
    pub requested: String,
}

/// The model's reply, recorded before it is parsed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Replied {
    /// The key of the effect.
    pub key: String,
    /// The digest of the conversation.
    pub prompt: String,
    /// The reply.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content: Content,
    /// The tokens and the cost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: Usage,
    /// The model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: String,
    /// The reason why the reply ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub finish: String,
    /// The role in which the model was called.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: StepRole,
    /// The duration of the call in milliseconds.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "finite")]
    pub ms: f64,
    /// True if the reply came from a cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cached: bool,
    /// The issuer of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Issuer>,
    /// The digest of the complete request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: String,
    /// Notes from the provider.
    #[serde(default, skip_serializing_if = "is_default")]
    pub notes: Vec<String>,
    /// True if a mask replaced a secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
    /// The tools that a search of the provider has found.
    #[serde(default, skip_serializing_if = "is_default")]
    pub found: Vec<String>,
    /// The active agent; empty for the one with which the run began.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: String,
}

/// A hook changed the model call at `key`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hooked {
    /// The key of the effect.
    pub key: String,
    /// The hook.
    pub hook: String,
    /// `before_model`, `after_model` or `before_tool`.
    pub point: String,
    /// The reason why the hook ends the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rejected: String,
    /// An additional message for the model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub message: String,
    /// True if the message stays complete when older steps are shortened.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pinned: bool,
    /// The index of the action in its batch; none for a model call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: Option<u64>,
    /// The changed values before the change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: Option<Object>,
    /// The changed values after the change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Option<Object>,
}

/// Another agent became the active one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandedOff {
    /// The key of the effect.
    pub key: String,
    /// The agent that continues the run.
    pub agent: String,
    /// The agent that was active before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: String,
    /// The reason of the model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: String,
    /// The model's name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: String,
    /// The capabilities of the model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub profile: Profile,
    /// The digest of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: String,
    /// Settings of the agent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: Object,
    /// True if a mask replaced a secret in the settings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
}

/// The provider failed after its retries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskFailed {
    /// The key of the effect.
    pub key: String,
    /// The kind of the failure.
    pub kind: String,
    /// The provider's error message.
    pub message: String,
}

/// Consumption that no reply reports: of a model call without a reply, or of a tool.
///
/// Only the Python runtime records it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Charged {
    /// The key of the effect.
    pub key: String,
    /// The tokens and the cost.
    pub usage: Usage,
    /// The model that was asked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: String,
    /// The tool that reported it; empty if a model call failed or was cut off.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tool: String,
    /// True if the provider did not report it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub estimated: bool,
    /// The active agent; empty for the one with which the run began.
    #[serde(default, skip_serializing_if = "is_default")]
    pub agent: String,
}

/// A rule of the loop was broken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Violated {
    /// The key of the next effect.
    pub key: String,
    /// The rule.
    pub rule: String,
    /// The details of the violation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detail: String,
    /// The numbers of the affected steps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: Vec<u64>,
    /// True if the reply was discarded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: bool,
}

/// Opaque content is no longer sent back from the first `messages` messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The key of the effect.
    pub key: String,
    /// The reason.
    pub reason: String,
    /// The number of messages.
    pub messages: u64,
    /// Further details.
    #[serde(default, skip_serializing_if = "is_default")]
    pub detail: String,
}

/// Observations up to `upto` were shortened in the prompt; the log keeps them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// The key of the effect.
    pub key: String,
    /// The number of the last shortened step.
    pub upto: u64,
    /// The number of characters before.
    pub chars_before: u64,
    /// The number of characters after.
    pub chars_after: u64,
}

/// A trace entry of a strategy. An entry of kind `state` also updates the state's data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noted {
    /// The key of the next effect.
    pub key: String,
    /// The kind of the entry.
    pub kind: String,
    /// Its content.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: Object,
}

/// A thought and its batch of actions. It opens a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposed {
    /// The key of the effect.
    pub key: String,
    /// The thought that gives the reason.
    pub thought: Thought,
    /// The batch of actions.
    pub actions: Vec<Action>,
}

/// A verdict on an action. `ask` opens an approval; a later decision closes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The key of the effect.
    pub key: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The index of the action in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// The principal or component that decided.
    #[serde(default = "policy_name", skip_serializing_if = "is_policy_name")]
    pub by: String,
    /// The approval tier.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub tier: u64,
    /// The reason.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reason: String,
    /// The digest to which the approval is bound.
    #[serde(default, skip_serializing_if = "is_default")]
    pub digest: String,
    /// The digest of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: String,
    /// The call as approvers see it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preview: String,
    /// The expiry in milliseconds since the epoch; 0 for no expiry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expires_at: u64,
    /// The action as edited by an approver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// The form and the tool's state, for a question that a tool asks during its call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Object>,
    /// The number of times the call had been started when the question was asked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempt: u64,
    /// The principals that may answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deciders: Option<Deciders>,
}

/// An approval was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    /// The decision and the data to which it is bound.
    #[serde(flatten)]
    pub decided: Decided,
    /// True if the decision comes from an imported file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub imported: bool,
    /// True if a mask replaced a secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
    /// The principal whose rights were checked. This runtime records none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
}

/// A tool call is about to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The key of the effect.
    pub key: String,
    /// The index of the action in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// The saved state from which the call continues after a crash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kept: Value,
    /// The number of the retry; 0 for the first attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: u64,
}

/// A call of a tool that must not be repeated is about to start. It is on disk before the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartedOnce {
    /// The key of the effect.
    pub key: String,
    /// The index of the action in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// The saved state from which the call continues after a crash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kept: Value,
    /// The number of the retry; 0 for the first attempt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry: u64,
    /// The side effect of the tool.
    #[serde(default, skip_serializing_if = "is_default")]
    pub effect: Sideeffect,
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The key of the effect.
    pub key: String,
    /// The observation.
    pub observation: Observation,
    /// The index of the action in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// The name and value that update the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<(String, Value)>,
    /// The tokens and the cost of a child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The numbers of model calls and tool calls of a child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<(u64, u64)>,
    /// The number of tool calls of a child run, by tool.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tools: BTreeMap<String, u64>,
    /// The usage of a child run, by model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub models: BTreeMap<String, Usage>,
    /// Hooks that rejected the call or changed its result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hooks: Vec<String>,
}

/// A principal without the required role tried to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionRefused {
    /// The id of the approval.
    pub id: String,
    /// The principal that tried.
    pub by: String,
    /// The reason for the refusal.
    pub why: String,
    /// The time, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at: u64,
}

/// The files of `folder` were stored as `tree`, after `step` steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshotted {
    /// The number of complete steps.
    pub step: u64,
    /// The state of the files; empty if nothing was stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tree: String,
    /// The folder.
    #[serde(default, skip_serializing_if = "is_default")]
    pub folder: String,
    /// The number of files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: u64,
    /// Paths that the state does not hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub left_out: Vec<String>,
    /// The number of further ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub more: u64,
    /// The calls of the step that changed nothing but files of the state: key and index.
    #[serde(default, skip_serializing_if = "is_default")]
    pub held: Vec<(String, u64)>,
    /// The reason why nothing was stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub why: String,
}

/// The files of `step` were restored from `tree` in `folder`, where the run continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    /// The number of complete steps.
    pub step: u64,
    /// The state of the files; empty if they were left as they were.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tree: String,
    /// The folder.
    #[serde(default, skip_serializing_if = "is_default")]
    pub folder: String,
    /// Later calls whose effects outside of the files were not undone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kept: Vec<String>,
}

/// The effect of a call was undone after a rewind, or was to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compensated {
    /// The effect to which the call belongs.
    pub key: String,
    /// The number of the call's `started_once`.
    pub start: u64,
    /// `started`, `done`, `failed` or `declined`.
    pub status: String,
    /// The place of the call in its batch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub index: u64,
    /// The decider.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by: String,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "is_default")]
    pub why: String,
    /// The child run that made the call; empty for a call of the run itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run: String,
    /// The step and the tool of the call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub call: String,
}

/// An action changed the state variable `name`.
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

/// The run waits. It needs no process, only its records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// The reason for waiting.
    pub reason: String,
}

/// Events after `to` no longer count. They stay in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rewound {
    /// The number of the last record that counts.
    pub to: u64,
}

/// The end of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFinished {
    /// The final status.
    pub status: String,
    /// The reason.
    pub stop_reason: String,
    /// True if the goal was reached.
    pub success: bool,
    /// The answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output: Value,
    /// The error message.
    #[serde(default, skip_serializing_if = "is_default")]
    pub error: String,
    /// The answer without masks, if `output` contains masks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accepted: Value,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "snake_case")]
pub enum Event {
    /// The fixed facts of a run.
    RunStarted(RunStarted),
    /// The earlier events were copied from `run`, up to `seq`.
    Forked(Forked),
    /// A new activation took the run over.
    Resumed(Resumed),
    /// A user's message reached the run.
    Steered(Steered),
    /// A limit was reached. With `value` 1 no further call is made; with -1 the next turn is the
    /// last.
    LimitHit(LimitHit),
    /// On resume, the code builds a prompt that differs from the recorded one.
    PromptChanged(PromptChanged),
    /// The model's reply, recorded before it is parsed.
    Replied(Replied),
    /// A hook changed the model call at `key`.
    Hooked(Hooked),
    /// Another agent became the active one.
    HandedOff(HandedOff),
    /// The provider failed after its retries.
    AskFailed(AskFailed),
    /// Consumption that no reply reports.
    Charged(Charged),
    /// A rule of the loop was broken.
    Violated(Violated),
    /// Opaque content is no longer sent back from the first `messages` messages.
    Cut(Cut),
    /// Observations up to `upto` were shortened in the prompt; the log keeps them.
    Compacted(Compacted),
    /// A trace entry of a strategy. An entry of kind `state` also updates the state's data.
    Noted(Noted),
    /// A thought and its batch of actions. It opens a step.
    Proposed(Proposed),
    /// A verdict on an action. `ask` opens an approval; a later decision closes it.
    Decided(Decided),
    /// An approval was closed.
    Resolved(Resolved),
    /// A tool call is about to start.
    Started(Started),
    /// A call of a tool that must not be repeated is about to start. It is on disk before the call.
    StartedOnce(StartedOnce),
    /// The result of an action.
    Observed(Observed),
    /// A principal without the required role tried to decide.
    DecisionRefused(DecisionRefused),
    /// The files of a folder were stored after a step.
    Snapshotted(Snapshotted),
    /// The files of a step were restored in a folder.
    Restored(Restored),
    /// The effect of a call was undone after a rewind.
    Compensated(Compensated),
    /// An action changed the state variable `name`.
    Updated(Updated),
    /// The run waits. It needs no process, only its records.
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
    HandedOff,
    AskFailed,
    Charged,
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
    Snapshotted,
    Restored,
    Compensated,
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
            principal: None,
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
    /// Returns true if the time since the previous record counts as activity.
    pub fn timed(&self) -> bool {
        !matches!(
            self,
            Self::RunStarted(_)
                | Self::Forked(_)
                | Self::Resumed(_)
                | Self::Restored(_)
                | Self::Compensated(_)
                | Self::Rewound(_)
        )
    }

    /// Returns true if the event changes nothing in the state except the time.
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
                | Self::Snapshotted(_)
                | Self::Restored(_)
                | Self::Compensated(_)
        )
    }

    /// Returns true if an effect of the strategy derives the event.
    ///
    /// A replay skips events that a driver or user adds.
    pub fn derived(&self) -> bool {
        !matches!(
            self,
            Self::RunStarted(_)
                | Self::Forked(_)
                | Self::Resumed(_)
                | Self::PromptChanged(_)
                | Self::Charged(_)
                | Self::DecisionRefused(_)
                | Self::Snapshotted(_)
                | Self::Restored(_)
                | Self::Compensated(_)
                | Self::Updated(_)
                | Self::Parked(_)
                | Self::Rewound(_)
                | Self::RunFinished(_)
        )
    }

    /// Returns true if the event must survive a power failure: the log syncs before it continues.
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

    /// Returns the key of the event's effect; empty if it belongs to none.
    pub fn key(&self) -> &str {
        match self {
            Self::Steered(event) => &event.key,
            Self::LimitHit(event) => &event.key,
            Self::PromptChanged(event) => &event.key,
            Self::Replied(event) => &event.key,
            Self::Hooked(event) => &event.key,
            Self::HandedOff(event) => &event.key,
            Self::AskFailed(event) => &event.key,
            Self::Charged(event) => &event.key,
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
            Self::Compensated(event) => &event.key,
            _ => "",
        }
    }

    /// Returns the index of the event's call in the batch; `None` if it concerns the whole effect.
    pub fn index(&self) -> Option<u64> {
        match self {
            Self::Decided(event) => Some(event.index),
            Self::Resolved(event) => Some(event.decided.index),
            Self::Started(event) => Some(event.index),
            Self::StartedOnce(event) => Some(event.index),
            Self::Observed(event) => Some(event.index),
            Self::Compensated(event) => Some(event.index),
            _ => None,
        }
    }

    /// Returns the name of the event's kind in the log.
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
            Self::HandedOff(_) => "handed_off",
            Self::AskFailed(_) => "ask_failed",
            Self::Charged(_) => "charged",
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
            Self::Snapshotted(_) => "snapshotted",
            Self::Restored(_) => "restored",
            Self::Compensated(_) => "compensated",
            Self::Updated(_) => "updated",
            Self::Parked(_) => "parked",
            Self::Rewound(_) => "rewound",
            Self::RunFinished(_) => "run_finished",
        }
    }
}

/// An event with its number and time in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The id of the run.
    pub run: String,
    /// The number of the record, from 0 without gaps.
    pub seq: u64,
    /// Milliseconds since the epoch by the system clock, which can be set.
    pub at: i64,
    /// Milliseconds of activity since the previous record, by a monotonic clock.
    pub elapsed: Option<u64>,
    /// The event.
    pub event: Event,
}

/// The JSON form of an event. `elapsed` is on the same level as the event's fields.
#[derive(Serialize, Deserialize)]
struct Row<E> {
    #[serde(flatten)]
    event: E,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elapsed: Option<u64>,
}

/// Returns the compact JSON form of an event.
///
/// # Errors
///
/// [`LogError::Format`] if the event holds a number that JSON cannot represent.
pub fn encode(event: &Event, elapsed: Option<u64>) -> Result<String, LogError> {
    serde_json::to_string(&Row { event, elapsed }).map_err(|error| LogError::Format {
        message: format!("a {} cannot be written: {error}", event.tag()),
    })
}

/// Parses an event and its `elapsed` from JSON text of this schema.
///
/// # Errors
///
/// [`LogError::Format`] if the text is no event of this schema, or if it holds an integer of more
/// than 64 bits, which would lose digits.
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
    fn a_change_by_a_hook_round_trips() {
        let text = r#"{"e":"hooked","key":"1","hook":"H","point":"before_tool","index":0,"before":{"a":5},"after":{"a":6}}"#;
        let (event, elapsed) = decode(text).unwrap();
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

//! The values of a run: thoughts, actions, observations, steps, usages and principals.
//!
//! Two values with the same content are equal. In JSON, fields with their default value are
//! omitted. This module does not depend on tools, storage or time.

use serde::{Deserialize, Serialize};

use crate::content::{Content, Issuer, Part, ToolCall};
use crate::json::{Object, Value, finite, finite_option, is_default};

/// The reserved action that ends a run: its parameters hold the answer.
pub const FINISH: &str = "finish";
/// The reserved action that asks the user.
pub const ASK_USER: &str = "ask_user";

/// The purpose of a thought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThoughtType {
    /// The intended result.
    Goal,
    /// The progress so far.
    Progress,
    /// The content of an observation.
    Extraction,
    /// A conclusion.
    #[default]
    Reasoning,
    /// The cause of a failure and the change that follows.
    Exception,
    /// A conclusion from several observations.
    Synthesis,
    /// A plan to look something up; accepted only where the caller enabled it.
    Research,
}

impl ThoughtType {
    /// The types by name, in the order in which a prompt lists them.
    pub const ALL: [(&'static str, Self); 7] = [
        ("exception", Self::Exception),
        ("extraction", Self::Extraction),
        ("goal", Self::Goal),
        ("progress", Self::Progress),
        ("reasoning", Self::Reasoning),
        ("synthesis", Self::Synthesis),
        ("research", Self::Research),
    ];

    /// Returns the type with this exact name.
    pub fn named(name: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, kind)| kind)
    }
}

/// The reason why the agent acts. `because` names its supporting steps, counted from 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Thought {
    /// The text.
    pub content: String,
    /// The purpose.
    #[serde(default, skip_serializing_if = "is_default", rename = "type")]
    pub kind: ThoughtType,
    /// The numbers of the supporting steps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub because: Vec<u64>,
    /// The confidence from 0 to 1, if the model states it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "finite_option"
    )]
    pub confidence: Option<f64>,
    /// True if the model marks a failure as critical.
    #[serde(default, skip_serializing_if = "is_default")]
    pub critical: bool,
    /// True if this runtime wrote the thought.
    #[serde(default, skip_serializing_if = "is_default")]
    pub synthesized: bool,
    /// True if this runtime chose the type because the model gave none or an unknown one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inferred: bool,
    /// The model's summary of the previous observations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub learned: String,
}

impl Thought {
    /// Returns a thought from a model.
    pub fn new(content: impl Into<String>, kind: ThoughtType) -> Self {
        Self {
            content: content.into(),
            kind,
            ..Self::default()
        }
    }

    /// Returns a thought that this runtime writes.
    pub fn synthesized(content: impl Into<String>, kind: ThoughtType) -> Self {
        Self {
            synthesized: true,
            ..Self::new(content, kind)
        }
    }
}

/// A tool call that the agent proposes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The tool.
    pub tool: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parameters: Object,
    /// The reason for this tool.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rationale: String,
    /// The provider's id of a native call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub id: String,
    /// The kinds of repairs that parsing the reply required.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repairs: Vec<String>,
    /// True if a repair may have changed the meaning of the parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guessed: bool,
    /// The reason why the parameters could not be parsed. Such an action never runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub error: String,
}

impl Action {
    /// Returns an action with parameters.
    pub fn new(tool: impl Into<String>, parameters: Object) -> Self {
        Self {
            tool: tool.into(),
            parameters,
            ..Self::default()
        }
    }

    /// Returns the seconds in the reserved parameter `timeout_s`, or 0 without it.
    pub fn seconds(&self) -> f64 {
        let seconds = self.parameters.get("timeout_s").and_then(Value::as_f64);
        seconds.unwrap_or(0.0)
    }

    /// Returns the call as canonical JSON without `timeout_s`. Equal calls have equal fingerprints.
    pub fn fingerprint(&self) -> String {
        let mut parameters = self.parameters.clone();
        parameters.shift_remove("timeout_s");
        let text = crate::json::canonical(&Value::Object(parameters));
        format!("{} {text}", self.tool)
    }
}

/// The status of an action's result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObservationStatus {
    /// The action succeeded.
    #[default]
    Success,
    /// The action failed.
    Failure,
    /// The action partly succeeded.
    Partial,
    /// The action timed out.
    Timeout,
}

impl ObservationStatus {
    /// Returns the name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Partial => "partial",
            Self::Timeout => "timeout",
        }
    }

    /// Returns true if the next thought must handle a failure.
    pub fn failed(self) -> bool {
        matches!(self, Self::Failure | Self::Timeout)
    }
}

/// A file that both a child run and its caller changed, and that was not merged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenConflict {
    /// The path below both folders.
    pub path: String,
    /// The reason as displayed text.
    pub why: String,
}

/// The files of a child run that were not merged into the folder of its caller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenConflicts {
    /// The number of files, also of those that are not listed.
    pub count: u64,
    /// The child's worktree, which has its versions.
    pub folder: String,
    /// The listed files.
    pub files: Vec<OpenConflict>,
}

/// The result of an action. A failed action also has an observation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The result as JSON.
    #[serde(default, skip_serializing_if = "is_default")]
    pub result: Value,
    /// The status of the result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: ObservationStatus,
    /// The key line of the result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extraction: String,
    /// True if this runtime chose the key line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub auto: bool,
    /// The duration of the action in milliseconds.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "finite")]
    pub duration_ms: f64,
    /// The answers that a tool offers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: Vec<String>,
    /// The reference to a result that is too large for the log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blob: String,
    /// The reason why the tool did not run; empty if it ran.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: String,
    /// True if `result` is only an excerpt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cut: bool,
    /// The tool's result, if it holds media.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parts: Vec<Part>,
    /// True if a mask replaced a secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
    /// The files of a child run that were not merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<OpenConflicts>,
}

impl Observation {
    /// Returns an observation that a strategy or the runtime creates itself.
    pub fn auto(result: Value, extraction: impl Into<String>) -> Self {
        Self {
            result,
            extraction: extraction.into(),
            auto: true,
            ..Self::default()
        }
    }

    /// Returns the observation of an action that did not run.
    pub fn refused(why: impl Into<String>, word: &str) -> Self {
        Self {
            result: Value::String(why.into()),
            status: ObservationStatus::Failure,
            refused: word.to_owned(),
            ..Self::default()
        }
    }

    /// Returns a failure.
    pub fn failure(why: impl Into<String>) -> Self {
        Self {
            result: Value::String(why.into()),
            status: ObservationStatus::Failure,
            ..Self::default()
        }
    }
}

/// A complete triplet: a thought, its batch of actions, and one observation for each action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The number of the step, counted from 1.
    pub number: u64,
    /// The thought that gives the reason.
    pub thought: Thought,
    /// The batch of actions.
    pub actions: Vec<Action>,
    /// The observations, in the order of the batch.
    pub observations: Vec<Observation>,
}

/// The tokens and US dollars that model calls consumed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of prompts, including cached ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub input_tokens: u64,
    /// Tokens of replies, including reasoning.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cached_tokens: u64,
    /// US dollars; `None` if the price of some tokens is unknown.
    #[serde(
        default = "free",
        skip_serializing_if = "is_free",
        serialize_with = "finite_option",
        deserialize_with = "not_negative"
    )]
    pub usd: Option<f64>,
    /// Input tokens that were written to the provider's cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub written_tokens: u64,
    /// Output tokens that were reasoning.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reasoning_tokens: u64,
}

fn free() -> Option<f64> {
    Some(0.0)
}

fn is_free(usd: &Option<f64>) -> bool {
    *usd == free()
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input_tokens: 0,
            output_tokens: 0,
            cached_tokens: 0,
            usd: free(),
            written_tokens: 0,
            reasoning_tokens: 0,
        }
    }
}

/// Rejects negative values, which would raise the remaining limits of a run.
fn not_negative<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    let value: Option<f64> = Option::deserialize(deserializer)?;
    if value.is_none_or(|usd| usd >= 0.0) {
        Ok(value)
    } else {
        Err(serde::de::Error::custom("must be 0 or more"))
    }
}

impl Usage {
    /// Returns the dollars that count towards limits. Tokens without a known price count as 0.
    pub fn priced_usd(&self) -> f64 {
        self.usd.unwrap_or(0.0)
    }

    /// Returns the sum of input and output tokens.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds another usage, field by field.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        self.input_tokens = sum(self.input_tokens, other.input_tokens);
        self.output_tokens = sum(self.output_tokens, other.output_tokens);
        self.cached_tokens = sum(self.cached_tokens, other.cached_tokens);
        self.usd = self.usd.zip(other.usd).map(|(own, more)| own + more);
        self.written_tokens = sum(self.written_tokens, other.written_tokens);
        self.reasoning_tokens = sum(self.reasoning_tokens, other.reasoning_tokens);
    }
}

/// A reply of a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// Text, thinking and calls, in order.
    pub content: Content,
    /// The tokens and the cost.
    pub usage: Usage,
    /// The model that answered.
    pub model: String,
    /// The normalized reason why the reply ended (see [`finish_of`]); empty if unknown.
    pub finish: String,
    /// The issuer of the reply.
    pub issuer: Option<Issuer>,
    /// Notes from the provider about the request.
    pub notes: Vec<String>,
}

impl Reply {
    /// Returns a reply that holds only text.
    pub fn text_only(text: impl Into<String>) -> Self {
        Self {
            content: Content::Text(text.into()),
            ..Self::default()
        }
    }

    /// Returns the text of the reply, without thinking and calls.
    pub fn text(&self) -> String {
        self.content.text()
    }

    /// Returns the native calls in the reply.
    pub fn calls(&self) -> Vec<ToolCall> {
        self.content.calls()
    }
}

/// Maps a provider's finish reason to the normalized one; empty if it is unknown.
///
/// * `pause`: the request must be repeated with the reply appended.
/// * `refusal`: the provider will not answer this request.
/// * `overflow`: the conversation does not fit the context window.
/// * `malformed`: the provider could not parse its own model's call.
/// * `error`: the provider failed while it replied.
pub fn finish_of(reason: &str) -> &'static str {
    match reason.to_lowercase().as_str() {
        "stop" | "end_turn" | "stop_sequence" | "eos" | "load" => "stop",
        "length" | "max_tokens" | "max_output_tokens" | "model_length" | "token_limit" => "length",
        "model_context_window_exceeded" | "overflow" => "overflow",
        "tool_calls" | "tool_use" | "function_call" => "tool_calls",
        "content_filter" | "content_filtered" | "guardrail_intervened" | "safety" => {
            "content_filter"
        }
        "refusal" => "refusal",
        "pause" | "pause_turn" => "pause",
        "malformed" | "malformed_tool_use" | "malformed_model_output" => "malformed",
        "error" | "abort" | "insufficient_system_resource" => "error",
        _ => "",
    }
}

/// The principal of a request. The caller sets it, never the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The name of the account.
    #[serde(default = "local", skip_serializing_if = "is_local")]
    pub id: String,
    /// The roles of the account.
    #[serde(default = "administrator", skip_serializing_if = "is_administrator")]
    pub roles: Vec<String>,
}

fn local() -> String {
    "local".to_owned()
}

fn is_local(id: &String) -> bool {
    id == "local"
}

fn administrator() -> Vec<String> {
    vec!["ADMIN".to_owned()]
}

fn is_administrator(roles: &Vec<String>) -> bool {
    roles.as_slice() == ["ADMIN"]
}

impl Default for Principal {
    fn default() -> Self {
        Self {
            id: local(),
            roles: administrator(),
        }
    }
}

/// The principals that may answer a question of a run, under the policy at the time it was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deciders {
    /// The role that the requester needs; if absent, the requester must not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<String>,
    /// The role that all other principals need.
    #[serde(default, skip_serializing_if = "is_default")]
    pub others: String,
    /// Roles that the approver must also reach.
    #[serde(default, skip_serializing_if = "is_default")]
    pub roles: Vec<String>,
}

/// The capabilities of a model. Unknown models get cautious defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The size of the context window in tokens.
    #[serde(default = "small_window", skip_serializing_if = "is_small_window")]
    pub window: u64,
    /// True if the size of the window is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub window_known: bool,
    /// True if the model calls tools natively.
    #[serde(default, skip_serializing_if = "is_default")]
    pub native_tools: bool,
    /// True if the model decodes under a JSON Schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub json_schema: bool,
    /// True if the model streams.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub streaming: bool,
    /// The kinds of media that the model accepts; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
    /// The thinking mode: `off`, `opt_in`, `default` or `always`; empty if unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub thinking: String,
    /// True if the model's reasoning is bound to every preceding byte.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix_bound: bool,
    /// True if its provider searches deferred tools.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tool_search: bool,
}

fn small_window() -> u64 {
    8192
}

fn is_small_window(window: &u64) -> bool {
    *window == small_window()
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            window: small_window(),
            window_known: false,
            native_tools: false,
            json_schema: false,
            streaming: true,
            inputs: None,
            thinking: String::new(),
            prefix_bound: false,
            tool_search: false,
        }
    }
}

/// The side effect of a tool, which decides how the run recovers from a crash during a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sideeffect {
    /// No side effect: the call may be repeated.
    Read,
    /// Repeated calls with the same effect id have the same effect as one call.
    Idempotent,
    /// The call must not be repeated without approval.
    #[default]
    Once,
}

/// The role in which a run calls a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepRole {
    /// Makes the plan.
    Planner,
    /// Carries out the steps.
    #[default]
    Executor,
    /// Judges the progress of a plan.
    Evaluator,
    /// Composes the answer.
    Finalizer,
    /// Judges a version of an answer.
    Critic,
    /// Judges the thoughts of a run after its answer. Only the Python runtime asks it.
    Judge,
    /// Summarises older steps. Only the Python runtime asks it.
    Compactor,
}

/// The settings of a model call. The provider's defaults apply to unset fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// The thinking effort, from `none` to `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The sampling temperature, 0 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The nucleus sampling threshold, in (0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The maximum number of reply tokens; 0 for the provider's own bound.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_tokens: u64,
    /// The time for which the provider caches the prompt: `5m`, `1h` or `off`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prompt_cache: String,
    /// The provider's service tier.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service_tier: String,
    /// Further fields of the request, as documented by the provider.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extra: Object,
}

impl ModelSettings {
    /// Returns these settings, with unset fields taken from `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let text = |own: &String, other: &String| if own.is_empty() { other } else { own }.clone();
        let mut extra = base.extra.clone();
        extra.extend(self.extra.clone());
        Self {
            effort: self.effort.clone().or_else(|| base.effort.clone()),
            temperature: self.temperature.or(base.temperature),
            top_p: self.top_p.or(base.top_p),
            max_tokens: if self.max_tokens == 0 {
                base.max_tokens
            } else {
                self.max_tokens
            },
            prompt_cache: text(&self.prompt_cache, &base.prompt_cache),
            service_tier: text(&self.service_tier, &base.service_tier),
            extra,
        }
    }
}

/// Returns a count with its noun, such as `1 step` or `2 steps`.
pub(crate) fn times(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{json, to_value};

    #[test]
    fn fields_that_hold_their_default_are_left_out() {
        let action = Action::new("read", Object::new());
        assert_eq!(to_value(&action), json!({"tool": "read"}));
        assert_eq!(to_value(&Principal::default()), json!({}));
        assert_eq!(to_value(&Profile::default()), json!({}));
    }

    #[test]
    fn a_sum_with_an_unknown_price_is_unknown() {
        let unknown: Usage = serde_json::from_str(r#"{"usd": null}"#).unwrap();
        let mut sum: Usage = serde_json::from_str(r#"{"usd": 1.5}"#).unwrap();
        assert_eq!(to_value(&unknown), json!({"usd": null}));
        assert_eq!(to_value(&Usage::default()), json!({}));
        sum.add(&unknown);
        assert_eq!((sum.usd, sum.priced_usd()), (None, 0.0));
    }

    #[test]
    fn a_negative_usage_is_refused() {
        assert!(serde_json::from_str::<Usage>(r#"{"usd": -1.0}"#).is_err());
        assert!(serde_json::from_str::<Usage>(r#"{"input_tokens": -1}"#).is_err());
    }

    #[test]
    fn a_number_that_json_has_not_is_not_written_as_null() {
        let observation = Observation {
            duration_ms: f64::NAN,
            ..Observation::default()
        };
        assert!(serde_json::to_string(&observation).is_err());
    }

    #[test]
    fn a_call_with_more_time_has_the_same_fingerprint() {
        let call = |text: &str| -> Action { serde_json::from_str(text).unwrap() };
        let first = call(r#"{"tool": "run", "parameters": {"b": 1, "a": 2}}"#);
        let again = call(r#"{"tool": "run", "parameters": {"a": 2, "b": 1, "timeout_s": 9}}"#);
        assert_eq!(first.fingerprint(), again.fingerprint());
    }
}

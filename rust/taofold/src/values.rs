//! The values of a run: thoughts, actions, observations, steps, usages and principals.
//!
//! Two values with the same content are equal. In JSON a field that holds its default is left out.
//! Knows nothing about tools, storage or time.

use serde::{Deserialize, Serialize};

use crate::content::{Content, Issuer, Part, ToolCall};
use crate::json::{Object, Value, finite, finite_option, is_default};

/// The reserved action that ends a run: its parameters hold the answer.
pub const FINISH: &str = "finish";
/// The reserved action that asks the person.
pub const ASK_USER: &str = "ask_user";

/// What a thought is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThoughtType {
    /// What is to be reached.
    Goal,
    /// How far it is.
    Progress,
    /// What an observation says.
    Extraction,
    /// A conclusion.
    #[default]
    Reasoning,
    /// Why something failed and what changes.
    Exception,
    /// What several observations say together.
    Synthesis,
    /// Looking things up; accepted only where it was opted in.
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

/// Why the agent acts. `because` names the steps it rests on, counted from 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Thought {
    /// The words.
    pub content: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "is_default", rename = "type")]
    pub kind: ThoughtType,
    /// Numbers of the steps it rests on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub because: Vec<u64>,
    /// 0 to 1, if the model says it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "finite_option"
    )]
    pub confidence: Option<f64>,
    /// Whether the model calls a failure critical.
    #[serde(default, skip_serializing_if = "is_default")]
    pub critical: bool,
    /// Whether this runtime wrote it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub synthesized: bool,
    /// Whether this runtime chose its type, because the model named none or an unknown one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inferred: bool,
    /// What the model learned from the observations before it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub learned: String,
}

impl Thought {
    /// Returns a thought of a model.
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
    /// Why this tool.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rationale: String,
    /// The provider's id of a native call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub id: String,
    /// Kinds of repairs that reading the reply took.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repairs: Vec<String>,
    /// Whether a repair may have changed what the parameters say.
    #[serde(default, skip_serializing_if = "is_default")]
    pub guessed: bool,
    /// Why the parameters could not be read; such an action never runs.
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

    /// Returns the seconds that the reserved parameter `timeout_s` asks for; 0 without it.
    pub fn seconds(&self) -> f64 {
        let seconds = self.parameters.get("timeout_s").and_then(Value::as_f64);
        seconds.unwrap_or(0.0)
    }

    /// Returns the call as canonical JSON, without `timeout_s`: equal for the same call.
    pub fn fingerprint(&self) -> String {
        let mut parameters = self.parameters.clone();
        parameters.shift_remove("timeout_s");
        let text = crate::json::canonical(&Value::Object(parameters));
        format!("{} {text}", self.tool)
    }
}

/// How an action ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObservationStatus {
    /// It did what was asked.
    #[default]
    Success,
    /// It did not.
    Failure,
    /// It did a part.
    Partial,
    /// It took too long.
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

    /// Whether the next thought must deal with a failure.
    pub fn failed(self) -> bool {
        matches!(self, Self::Failure | Self::Timeout)
    }
}

/// What came back. A failed action is still an observation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The result as JSON.
    #[serde(default, skip_serializing_if = "is_default")]
    pub result: Value,
    /// How the action ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: ObservationStatus,
    /// The key line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extraction: String,
    /// Whether this runtime chose the key line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub auto: bool,
    /// Milliseconds that the action took.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "finite")]
    pub duration_ms: f64,
    /// Answers that a tool offers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: Vec<String>,
    /// Where a result lies that is too large for the log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blob: String,
    /// Why the tool was not run; empty: it ran.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: String,
    /// Whether `result` is only an excerpt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cut: bool,
    /// What the tool returned, if it holds media.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parts: Vec<Part>,
    /// Whether a mask replaced a secret in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub masked: bool,
}

impl Observation {
    /// Returns an observation that a strategy or the runtime makes itself.
    pub fn auto(result: Value, extraction: impl Into<String>) -> Self {
        Self {
            result,
            extraction: extraction.into(),
            auto: true,
            ..Self::default()
        }
    }

    /// Returns the answer to an action that was not run.
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

/// One complete triplet: a thought, its batch of actions, one observation for each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Counted from 1.
    pub number: u64,
    /// Why.
    pub thought: Thought,
    /// What.
    pub actions: Vec<Action>,
    /// What came back, in the order of the batch.
    pub observations: Vec<Observation>,
}

/// What model calls consumed: tokens and US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of prompts, cached ones included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub input_tokens: u64,
    /// Tokens of replies, reasoning included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_tokens: u64,
    /// Those of the input that were read from the provider's cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cached_tokens: u64,
    /// US dollars; `None`: the price of some of the tokens is unknown.
    #[serde(
        default = "free",
        skip_serializing_if = "is_free",
        serialize_with = "finite_option",
        deserialize_with = "not_negative"
    )]
    pub usd: Option<f64>,
    /// Those of the input that were written to the provider's cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub written_tokens: u64,
    /// Those of the output that were reasoning.
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

/// Less than 0 would lift the limits of whoever goes on.
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
    /// Returns the dollars that limits count: 0 where a price is unknown.
    pub fn priced_usd(&self) -> f64 {
        self.usd.unwrap_or(0.0)
    }

    /// Returns input plus output tokens.
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

/// What a model returned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// Text, thinking and calls, in order.
    pub content: Content,
    /// What it cost.
    pub usage: Usage,
    /// The model that answered.
    pub model: String,
    /// Why it ended, in this runtime's words (see [`finish_of`]); empty: unknown.
    pub finish: String,
    /// Who made it.
    pub issuer: Option<Issuer>,
    /// What the provider reported about the request.
    pub notes: Vec<String>,
}

impl Reply {
    /// Returns a reply of text alone.
    pub fn text_only(text: impl Into<String>) -> Self {
        Self {
            content: Content::Text(text.into()),
            ..Self::default()
        }
    }

    /// Returns what it says, without thinking and calls.
    pub fn text(&self) -> String {
        self.content.text()
    }

    /// Returns the native calls in it.
    pub fn calls(&self) -> Vec<ToolCall> {
        self.content.calls()
    }
}

/// Returns why a reply ended from a provider's word for it; empty if the word is unknown.
///
/// `pause`: ask again with the reply appended. `refusal`: the provider will not answer this.
/// `overflow`: the conversation does not fit the window. `malformed`: the provider could not read
/// its own model's call. `error`: the provider failed while it replied.
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

/// Who asks. Established by the caller, never by the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// The name of the account.
    #[serde(default = "local", skip_serializing_if = "is_local")]
    pub id: String,
    /// Its roles.
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

/// Who may answer a question of a run, by the policy under which it was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deciders {
    /// The role that the requester needs; absent: the requester may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<String>,
    /// The role that all others need.
    #[serde(default, skip_serializing_if = "is_default")]
    pub others: String,
    /// Roles that the one who decides must reach besides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub roles: Vec<String>,
}

/// What a model can do. Unknown models get the cautious defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Tokens of context.
    #[serde(default = "small_window", skip_serializing_if = "is_small_window")]
    pub window: u64,
    /// Whether the window is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub window_known: bool,
    /// Whether it calls tools natively.
    #[serde(default, skip_serializing_if = "is_default")]
    pub native_tools: bool,
    /// Whether it decodes under a JSON Schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub json_schema: bool,
    /// Whether it streams.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub streaming: bool,
    /// The kinds of media it takes; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
    /// When it thinks: `off`, `opt_in`, `default` or `always`; empty: unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub thinking: String,
    /// Whether its reasoning is bound to every byte before it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix_bound: bool,
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
        }
    }
}

/// What a tool does to the world, and so what happens after a crash in the middle of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sideeffect {
    /// Nothing: it may be run again.
    Read,
    /// The same however often it runs with the same effect id.
    Idempotent,
    /// It must not be repeated without asking.
    #[default]
    Once,
}

/// Which of a run's models is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepRole {
    /// Plans.
    Planner,
    /// Acts.
    #[default]
    Executor,
    /// Judges whether a plan went on well.
    Evaluator,
    /// Puts the answer together.
    Finalizer,
    /// Judges a version of an answer.
    Critic,
}

/// How a model is asked; what is not set is the provider's own choice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// How hard a model shall think, from `none` to `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// 0 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// In (0, 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The longest reply; 0: the provider's own bound.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_tokens: u64,
    /// How long the provider keeps the prompt: `5m`, `1h` or `off`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prompt_cache: String,
    /// The provider's service tier.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service_tier: String,
    /// Further fields of the request, as its provider documents them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extra: Object,
}

impl ModelSettings {
    /// Returns these settings; where they say nothing, those of `base`.
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

/// Returns `1 step`, `2 steps`.
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

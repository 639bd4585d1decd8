//! The actions of flows, with the keys of each action and its value for the flow.
//!
//! `agent.NAME` runs another agent. `reason.cot`, `reason.react`, `reason.self_correct`,
//! `reason.decompose` and `reason.plan` call models.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::effects::{Act, Answer, Halt, Scope};
use crate::errors::ConfigError;
use crate::flow::template;
use crate::flow::watch::{NodeModels, Rules, SharedTrace, Trace, taken, watched};
use crate::json::{Object, Value, json, render};
use crate::strategy::{
    Cot, Decompose, Direct, Example, Offer, Output, Plan, Prompt, React, SelfCorrect, Solved,
    Strategy, Task, ThinkingFormat, alone, is_native, object,
};
use crate::values::{
    Action, FINISH, ModelSettings, Observation, ObservationStatus, StepRole, Thought, ThoughtType,
};

/// With these keys an `output_format` types the steps; only its `final_answer` types the answer.
const STEP_KEYS: [&str; 5] = [
    "thought",
    "action",
    "action_input",
    "observation",
    "final_answer",
];

/// The end of an action: a value, an error, or the run limit that stopped it.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) value: Value,
    pub(super) error: String,
    pub(super) stop: String,
    /// The variables that it sets in addition to its output.
    pub(super) state: Object,
}

impl Done {
    pub(super) fn good(&self) -> bool {
        self.error.is_empty() && self.stop.is_empty()
    }

    pub(super) fn value(value: Value) -> Self {
        Self {
            value,
            ..Self::default()
        }
    }

    pub(super) fn error(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            ..Self::default()
        }
    }

    pub(super) fn stopped(reason: impl Into<String>) -> Self {
        Self {
            stop: reason.into(),
            ..Self::default()
        }
    }
}

/// A kind of action in a flow file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Cot,
    React,
    SelfCorrect,
    Decompose,
    Plan,
    /// Another agent, named in the file.
    Agent,
}

/// The prefix of an agent's name.
const AGENT: &str = "agent.";

/// One use of an action in a node.
pub(super) struct ActionCall<'a> {
    pub(super) node: &'a str,
    /// The action's name in the node.
    pub(super) uses: &'a str,
    pub(super) description: &'a str,
    pub(super) with: &'a Object,
    pub(super) task: Task,
    pub(super) variables: Object,
    /// The settings of the flow's model calls.
    pub(super) settings: ModelSettings,
}

/// A use of an action, with the models that it calls.
struct Asked<'a> {
    call: &'a ActionCall<'a>,
    models: NodeModels,
}

/// The keys for model settings, which every model-calling action accepts.
const SETTINGS: [&str; 5] = ["temperature", "top_p", "effort", "max_tokens", "extra"];

/// Removes the keys for models and their settings from `keys` and returns them.
fn node_models(keys: &mut Object, flow: &ModelSettings) -> Result<NodeModels, String> {
    let mut settings = Object::new();
    for name in SETTINGS {
        if let Some(value) = keys.shift_remove(name) {
            settings.insert(name.to_owned(), value);
        }
    }
    let own: ModelSettings = read(settings)?;
    let named = |name: &str| -> String {
        let model = keys.get(name).and_then(Value::as_str);
        model.unwrap_or_default().to_owned()
    };
    let roles = [
        (StepRole::Executor, "generator_model"),
        (StepRole::Critic, "critic_model"),
        (StepRole::Planner, "planner_model"),
        (StepRole::Evaluator, "evaluator_model"),
    ];
    let roles = roles.into_iter().map(|(role, key)| (role, named(key)));
    Ok(NodeModels {
        default: named("model"),
        roles: roles.filter(|(_, model)| !model.is_empty()).collect(),
        settings: own.over(flow),
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentKeys {
    goal: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallKeys {
    prompt: Value,
    #[serde(default)]
    system: String,
    #[serde(default)]
    output_format: Value,
    #[serde(default, rename = "model")]
    _model: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CotKeys {
    problem: Value,
    #[serde(default)]
    thinking_format: ThinkingFormat,
    #[serde(default)]
    few_shot_examples: Vec<Example>,
    #[serde(default)]
    output_format: Value,
    #[serde(default, rename = "model")]
    _model: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReactKeys {
    goal: Value,
    #[serde(default)]
    tools: Option<Vec<String>>,
    #[serde(default = "ten")]
    max_steps: u64,
    #[serde(default)]
    instructions: String,
    #[serde(default)]
    output_format: Value,
    #[serde(default, rename = "model")]
    _model: String,
}

fn ten() -> u64 {
    10
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SelfCorrectKeys {
    task: Value,
    #[serde(default = "two")]
    improvement_rounds: u64,
    #[serde(default)]
    critic_prompt: String,
    #[serde(default)]
    inner: Inner,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    output_format: Value,
    #[serde(default, rename = "model")]
    _model: String,
    #[serde(default, rename = "generator_model")]
    _generator_model: String,
    #[serde(default, rename = "critic_model")]
    _critic_model: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DecomposeKeys {
    problem: Value,
    #[serde(default = "two")]
    max_depth: u64,
    #[serde(default = "yes")]
    parallel: bool,
    #[serde(default)]
    synthesis_prompt: String,
    #[serde(default)]
    inner: Inner,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    output_format: Value,
    #[serde(default, rename = "model")]
    _model: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanKeys {
    goal: Value,
    #[serde(default)]
    tools: Option<Vec<String>>,
    #[serde(default)]
    max_steps: Option<u64>,
    #[serde(default)]
    output_format: Value,
    #[serde(default, rename = "model")]
    _model: String,
    #[serde(default, rename = "planner_model")]
    _planner_model: String,
    #[serde(default, rename = "evaluator_model")]
    _evaluator_model: String,
}

fn two() -> u64 {
    2
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
enum Inner {
    #[default]
    #[serde(rename = "")]
    Default,
    #[serde(rename = "cot")]
    Cot,
    #[serde(rename = "react")]
    React,
}

impl Inner {
    fn strategy(self, default: Arc<dyn Strategy>) -> Arc<dyn Strategy> {
        match self {
            Self::Default => default,
            Self::Cot => Arc::new(Cot::default()),
            Self::React => Arc::new(React),
        }
    }
}

fn read<T: DeserializeOwned>(keys: Object) -> Result<T, String> {
    serde_json::from_value(Value::Object(keys)).map_err(|error| format!("with: {error}"))
}

impl Kind {
    const ALL: [(&'static str, Self); 6] = [
        ("llm.call", Self::Call),
        ("reason.cot", Self::Cot),
        ("reason.react", Self::React),
        ("reason.self_correct", Self::SelfCorrect),
        ("reason.decompose", Self::Decompose),
        ("reason.plan", Self::Plan),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        if name.starts_with(AGENT) {
            return Some(Self::Agent);
        }
        let known = Self::ALL.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, kind)| kind)
    }

    /// Returns the name of the agent that an action of this kind runs.
    pub(super) fn agent(self, uses: &str) -> Option<&str> {
        uses.strip_prefix(AGENT).filter(|_| self == Self::Agent)
    }

    pub(super) fn unknown(name: &str, agents: &[&str]) -> String {
        let own: Vec<String> = agents.iter().map(|it| format!("{AGENT}{it}")).collect();
        let known = Self::ALL.iter().map(|(known, _)| *known);
        let known = known.chain(own.iter().map(String::as_str));
        format!(
            "there is no action {name:?}; {}",
            crate::text::near(name, known)
        )
    }

    fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, kind)| *kind == self);
        known.map_or("", |(name, _)| name)
    }

    /// Returns the key whose template the action renders itself.
    fn deferred(self) -> &'static str {
        match self {
            Self::SelfCorrect => "critic_prompt",
            Self::Decompose => "synthesis_prompt",
            _ => "",
        }
    }

    /// Rejects unknown keys of the action before anything runs.
    pub(super) fn check(self, with: &Object, path: &str) -> Result<(), ConfigError> {
        let templated = |value: &Value| value.as_str().is_some_and(|text| text.contains("{{"));
        // A template's value is only known at run time, so a placeholder that fits any key replaces
        // it.
        let literal: Object = with
            .iter()
            .filter(|(name, value)| {
                let sets = self != Self::Agent && SETTINGS.contains(&name.as_str());
                !templated(value) && !sets
            })
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let result = match self {
            Self::Call => with_required::<CallKeys>(literal, "prompt", with),
            Self::Cot => with_required::<CotKeys>(literal, "problem", with),
            Self::React => with_required::<ReactKeys>(literal, "goal", with),
            Self::SelfCorrect => with_required::<SelfCorrectKeys>(literal, "task", with),
            Self::Decompose => with_required::<DecomposeKeys>(literal, "problem", with),
            Self::Plan => with_required::<PlanKeys>(literal, "goal", with),
            Self::Agent => with_required::<AgentKeys>(literal, "goal", with),
        };
        // The path already contains the location.
        let bare = |error: String| error.strip_prefix("with: ").unwrap_or(&error).to_owned();
        result.map_err(|error| ConfigError::new(path, bare(error)))
    }

    /// Performs the action.
    pub(super) async fn run(self, scope: &Scope, call: &ActionCall<'_>) -> Result<Done, Halt> {
        let deferred = self.deferred();
        let mut keys = Object::new();
        for (name, value) in call.with {
            let rendered = if name == deferred {
                Ok(value.clone())
            } else {
                template::render(value, &call.variables)
            };
            match rendered {
                Ok(rendered) => keys.insert(name.clone(), rendered),
                Err(error) => return Ok(Done::error(format!("with.{name}: {error}"))),
            };
        }
        if let Some(agent) = self.agent(call.uses) {
            let done = ask_agent(scope, call, agent, keys).await?;
            return Ok(done.unwrap_or_else(Done::error));
        }
        let models = match node_models(&mut keys, &call.settings) {
            Ok(models) => models,
            Err(error) => return Ok(Done::error(error)),
        };
        let call = &Asked { call, models };
        let done = match self {
            Self::Call => call_model(scope, call, keys).await?,
            Self::Cot => cot(scope, call, keys).await?,
            Self::React => react(scope, call, keys).await?,
            Self::SelfCorrect => self_correct(scope, call, keys).await?,
            Self::Decompose => decompose(scope, call, keys).await?,
            Self::Plan => plan(scope, call, keys).await?,
            Self::Agent => Err(format!("there is no agent {:?}", call.call.uses)),
        };
        Ok(done.unwrap_or_else(Done::error))
    }
}

fn with_required<T: DeserializeOwned>(
    mut keys: Object,
    required: &str,
    with: &Object,
) -> Result<(), String> {
    if with.contains_key(required) {
        keys.insert(required.to_owned(), json!(""));
    }
    read::<T>(keys).map(drop)
}

/// The end of a strategy inside an action.
struct Ended {
    output: Value,
    error: String,
    stop: String,
    trace: Trace,
}

impl Ended {
    /// Converts it to the end of the action. The variables are set on success and on failure.
    fn done(self, value: Value, state: Value) -> Done {
        let mut state = object(state);
        state.insert("reasoning_answer".to_owned(), self.output);
        Done {
            value,
            error: self.error,
            stop: self.stop,
            state,
        }
    }
}

struct Thinking<'a> {
    name: &'a str,
    goal: String,
    output: Output,
    offers: Vec<Offer>,
    instructions: String,
    steps: Option<u64>,
}

/// Runs `inner` in a branch whose last step names the action.
async fn think(
    scope: &Scope,
    asked: &Asked<'_>,
    inner: Arc<dyn Strategy>,
    thinking: Thinking<'_>,
) -> Result<Ended, Halt> {
    let call = asked.call;
    let mut task = call.task.clone();
    let words = [task.instructions.as_str(), thinking.instructions.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|part| !part.is_empty()).collect();
    task.instructions = words.join("\n\n");
    task.goal = thinking.goal;
    // A node may name a model without native tools.
    let own_model = asked.models.default.is_empty() && asked.models.roles.is_empty();
    task.enforces_schema = task.enforces_schema && own_model;
    let calls = task.native && own_model;
    task.native = is_native(calls, !thinking.offers.is_empty(), task.strict);
    task.ask_user = false;
    task.data = Object::new();
    task.output = thinking.output;
    let rules = Rules {
        allowed: thinking
            .offers
            .iter()
            .map(|it| it.name.clone())
            .collect::<BTreeSet<_>>(),
        steps: thinking.steps,
        models: asked.models.clone(),
    };
    task.offers = thinking.offers;
    let trace = SharedTrace::default();
    let watching = Arc::new(Watching {
        inner,
        rules,
        trace: Arc::clone(&trace),
    });
    let parameters = object(json!({"node": call.node}));
    let solved = alone(scope, watching, task, thinking.name, parameters).await?;
    Ok(ended(solved, taken(&trace), thinking.name))
}

fn ended(solved: Solved, mut trace: Trace, name: &str) -> Ended {
    let good = solved.good();
    let (mut error, mut stop) = (String::new(), String::new());
    if !good {
        // A node's own bound fails only the node and does not end the run.
        let limit = solved.limit().unwrap_or_default();
        let own = if limit == "max_steps" {
            trace.reached.as_str()
        } else {
            ""
        };
        let reasons = [own, &solved.answer.error].into_iter();
        let reasons: Vec<&str> = reasons.filter(|reason| !reason.is_empty()).collect();
        let reason = if reasons.is_empty() {
            solved.error()
        } else {
            reasons.join("; ")
        };
        if limit.is_empty() || !own.is_empty() {
            error.clone_from(&reason);
        } else {
            limit.clone_into(&mut stop);
        }
        trace.failed(name, &reason);
    }
    Ended {
        output: solved.answer.output,
        error,
        stop,
        trace,
    }
}

/// A strategy with its trace.
#[derive(Debug)]
struct Watching {
    inner: Arc<dyn Strategy>,
    rules: Rules,
    trace: SharedTrace,
}

impl Strategy for Watching {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn run(&self, task: Task) -> crate::effects::Coroutine<Answer> {
        let inner = self.inner.run(task);
        let trace = Arc::clone(&self.trace);
        let failures = Arc::clone(&self.trace);
        let watched = watched(inner, self.rules.clone(), trace, Answer::error);
        watched.map(move |answer| explained(answer, &failures))
    }
}

/// Adds the provider's error message to a failure for which the strategy has no message.
fn explained(answer: Answer, trace: &SharedTrace) -> Answer {
    if answer.stop != "error" || !answer.error.is_empty() {
        return answer;
    }
    let trace = trace
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let why = trace
        .failures
        .last()
        .map_or("the strategy gave up", String::as_str);
    Answer {
        error: format!("the model could not be asked: {why}"),
        ..answer
    }
}

/// Returns the type of the answer for `output_format`.
fn output_of(written: &Value) -> Result<Output, String> {
    let own = match written {
        Value::Object(members)
            if members.contains_key("final_answer")
                && members.keys().all(|key| STEP_KEYS.contains(&key.as_str())) =>
        {
            members.get("final_answer").unwrap_or(written)
        }
        other => other,
    };
    crate::agent::output_of(own).map_err(|error| format!("output_format: {}", error.message))
}

/// Returns the run's tools with these names, or all tools without names.
fn offered(task: &Task, names: Option<&[String]>) -> Result<Vec<Offer>, String> {
    let Some(names) = names else {
        return Ok(task.offers.clone());
    };
    let mut offers: Vec<Offer> = Vec::new();
    for name in names {
        let name = name.strip_prefix("tool.").unwrap_or(name);
        let Some(offer) = task.offers.iter().find(|offer| offer.name == name) else {
            let have: Vec<&str> = task.offers.iter().map(|it| it.name.as_str()).collect();
            let have = if have.is_empty() {
                "none".to_owned()
            } else {
                have.join(", ")
            };
            return Err(format!("tools: there is no {name:?}; there are {have}"));
        };
        if !offers.iter().any(|it| it.name == offer.name) {
            offers.push(offer.clone());
        }
    }
    Ok(offers)
}

type Outcome = Result<Result<Done, String>, Halt>;

/// Unwraps the keys of an action, or returns from the action with their error.
macro_rules! usable {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        }
    };
}

/// Calls the tool of an agent, as a separate planned step.
async fn ask_agent(scope: &Scope, call: &ActionCall<'_>, agent: &str, keys: Object) -> Outcome {
    let keys: AgentKeys = usable!(read(keys));
    let goal = match keys.goal {
        Value::Null => return Ok(Err("with.goal: it has no value".to_owned())),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let thought = match call.description {
        "" => format!("The next node of the flow is {}.", call.node),
        words => words.to_owned(),
    };
    let act = Act {
        thought: Thought::synthesized(thought, ThoughtType::Progress),
        actions: vec![Action {
            tool: agent.to_owned(),
            parameters: object(json!({"goal": goal})),
            rationale: "the flow says so".to_owned(),
            ..Action::default()
        }],
        local: Vec::new(),
        planned: true,
    };
    let observations = scope.act(act).await?;
    let observation = observations.into_iter().next().unwrap_or_default();
    Ok(Ok(observed(observation)))
}

/// Converts an observation to the end of an action.
fn observed(observation: Observation) -> Done {
    let status = observation.status;
    if matches!(
        status,
        ObservationStatus::Success | ObservationStatus::Partial
    ) {
        return Done::value(observation.result);
    }
    let words = match &observation.result {
        Value::String(text) => text.clone(),
        result if observation.extraction.is_empty() => crate::tools::literal(result),
        _ => observation.extraction,
    };
    let error = if words.is_empty() {
        status.name().to_owned()
    } else {
        words
    };
    Done {
        value: observation.result,
        error,
        ..Done::default()
    }
}

async fn call_model(scope: &Scope, asked: &Asked<'_>, keys: Object) -> Outcome {
    let keys: CallKeys = usable!(read(keys));
    let thinking = Thinking {
        name: Kind::Call.name(),
        goal: render(&keys.prompt),
        output: usable!(output_of(&keys.output_format)),
        offers: Vec::new(),
        instructions: keys.system,
        steps: None,
    };
    let ended = think(scope, asked, Arc::new(Direct::default()), thinking).await?;
    Ok(Ok(Done {
        value: ended.output,
        error: ended.error,
        stop: ended.stop,
        state: Object::new(),
    }))
}

async fn cot(scope: &Scope, asked: &Asked<'_>, keys: Object) -> Outcome {
    let keys: CotKeys = usable!(read(keys));
    let inner = Cot {
        format: keys.thinking_format,
        examples: keys.few_shot_examples,
        role: StepRole::Executor,
    };
    let thinking = Thinking {
        name: Kind::Cot.name(),
        goal: render(&keys.problem),
        output: usable!(output_of(&keys.output_format)),
        offers: Vec::new(),
        instructions: String::new(),
        steps: None,
    };
    let ended = think(scope, asked, Arc::new(inner), thinking).await?;
    let last = ended.trace.steps.last().filter(|_| ended.error.is_empty());
    let thought = last.and_then(|step| step.get("thought")).cloned();
    let thought = thought.unwrap_or_else(|| json!(""));
    let value = json!({
        "thinking": thought,
        "answer": ended.output,
        "model": ended.trace.model(&[StepRole::Executor]),
        "thinking_format": keys.thinking_format,
        "reasoning_trace": ended.trace.steps,
        "reasoning_thinking": thought,
        "reasoning_answer": ended.output,
    });
    let state = json!({"reasoning_trace": ended.trace.steps, "reasoning_thinking": thought});
    Ok(Ok(ended.done(value, state)))
}

async fn react(scope: &Scope, asked: &Asked<'_>, keys: Object) -> Outcome {
    let keys: ReactKeys = usable!(read(keys));
    let thinking = Thinking {
        name: Kind::React.name(),
        goal: render(&keys.goal),
        output: usable!(output_of(&keys.output_format)),
        offers: usable!(offered(&asked.call.task, keys.tools.as_deref())),
        instructions: keys.instructions,
        steps: Some(keys.max_steps),
    };
    let ended = think(scope, asked, Arc::new(React), thinking).await?;
    Ok(Ok(stepped(ended, Kind::React)))
}

async fn plan(scope: &Scope, asked: &Asked<'_>, keys: Object) -> Outcome {
    let keys: PlanKeys = usable!(read(keys));
    let thinking = Thinking {
        name: Kind::Plan.name(),
        goal: render(&keys.goal),
        output: usable!(output_of(&keys.output_format)),
        offers: usable!(offered(&asked.call.task, keys.tools.as_deref())),
        instructions: String::new(),
        steps: keys.max_steps,
    };
    let ended = think(scope, asked, Arc::new(Plan::default()), thinking).await?;
    Ok(Ok(stepped(ended, Kind::Plan)))
}

/// Returns the end of a `reason.react` action: the answer, and its steps without the last one.
fn stepped(ended: Ended, kind: Kind) -> Done {
    let own = |step: &&Value| {
        let action = step.get("action").and_then(Value::as_str);
        action != Some(FINISH) && action != Some(kind.name())
    };
    let steps: Vec<Value> = ended.trace.steps.iter().filter(own).cloned().collect();
    let roles = [StepRole::Executor, StepRole::Finalizer, StepRole::Planner];
    let value = json!({
        "steps": steps,
        "final_answer": ended.output,
        "total_steps": steps.len(),
        "model": ended.trace.model(&roles),
        "reasoning_trace": ended.trace.steps,
        "react_steps": steps,
        "reasoning_answer": ended.output,
    });
    let state = json!({"reasoning_trace": ended.trace.steps, "react_steps": steps});
    ended.done(value, state)
}

/// Returns the node's template `key` as a prompt, rendered with one additional name.
///
/// A template that needs no such name is text, to which the strategy adds the value.
fn deferred(key: &'static str, source: &str, name: &'static str, variables: &Object) -> Prompt {
    if source.is_empty() {
        return Prompt::Default;
    }
    if let Ok(rendered) = template::render_text(source, variables) {
        return Prompt::Text(render(&rendered));
    }
    let (source, variables) = (source.to_owned(), variables.clone());
    Prompt::try_render(move |value| {
        let mut variables = variables.clone();
        variables.insert(name.to_owned(), value.clone());
        template::render_text(&source, &variables)
            .map(|rendered| render(&rendered))
            .map_err(|error| format!("{key}: {error}"))
    })
}

async fn self_correct(scope: &Scope, asked: &Asked<'_>, keys: Object) -> Outcome {
    let keys: SelfCorrectKeys = usable!(read(keys));
    let inner = SelfCorrect {
        inner: keys.inner.strategy(Arc::new(Direct::default())),
        rounds: keys.improvement_rounds,
        critic_prompt: deferred(
            "critic_prompt",
            &keys.critic_prompt,
            "output",
            &asked.call.variables,
        ),
    };
    let thinking = Thinking {
        name: Kind::SelfCorrect.name(),
        goal: render(&keys.task),
        output: usable!(output_of(&keys.output_format)),
        offers: usable!(offered(&asked.call.task, Some(&keys.tools))),
        instructions: String::new(),
        steps: None,
    };
    let ended = think(scope, asked, Arc::new(inner), thinking).await?;
    let (history, revisions) = improvement_history(&ended.trace.steps);
    let value = json!({
        "output": ended.output,
        "improvement_history": history,
        "rounds_completed": revisions,
        "generator_model": ended.trace.model(&[StepRole::Executor]),
        "critic_model": ended.trace.model(&[StepRole::Critic]),
        "reasoning_trace": ended.trace.steps,
        "reasoning_answer": ended.output,
    });
    let state = json!({"reasoning_trace": ended.trace.steps, "improvement_history": history});
    Ok(Ok(ended.done(value, state)))
}

/// Returns the history of a self-correction and the number of successful revisions.
///
/// A version contains the critic's feedback on it; a critic or reviser that failed has its error.
fn improvement_history(steps: &[Value]) -> (Vec<Value>, u64) {
    let mut history: Vec<Value> = Vec::new();
    let mut versions: Vec<usize> = Vec::new();
    let mut revisions = 0;
    for step in steps {
        let Some(name @ ("draft" | "revise" | "critique")) = step["action"].as_str() else {
            continue;
        };
        let (parameters, result) = (&step["action_input"], &step["observation"]);
        if step["status"] != "success" {
            history.push(json!({"round": parameters["round"], "step": name, "error": result}));
        } else if name == "critique" {
            let version = parameters["version"].as_u64();
            let place = version.and_then(|it| usize::try_from(it).ok());
            let place = place.and_then(|it| versions.get(it)).copied();
            if let Some(Value::Object(entry)) = place.and_then(|it| history.get_mut(it)) {
                entry.insert("improvement_score".to_owned(), result["score"].clone());
                entry.insert("issues_found".to_owned(), result["issues"].clone());
                entry.insert("suggestions".to_owned(), result["suggestions"].clone());
            }
        } else {
            revisions += u64::from(name == "revise");
            let entry = json!({
                "round": parameters["round"],
                "version": versions.len(),
                "step": name,
                "output": result,
                "thinking": step["thought"],
            });
            versions.push(history.len());
            history.push(entry);
        }
    }
    (history, revisions)
}

async fn decompose(scope: &Scope, asked: &Asked<'_>, keys: Object) -> Outcome {
    let keys: DecomposeKeys = usable!(read(keys));
    let inner = Decompose {
        inner: keys.inner.strategy(Arc::new(Cot::default())),
        max_depth: keys.max_depth,
        parallel: keys.parallel,
        synthesis_prompt: deferred(
            "synthesis_prompt",
            &keys.synthesis_prompt,
            "sub_answers",
            &asked.call.variables,
        ),
        ..Decompose::default()
    };
    let thinking = Thinking {
        name: Kind::Decompose.name(),
        goal: render(&keys.problem),
        output: usable!(output_of(&keys.output_format)),
        offers: usable!(offered(&asked.call.task, Some(&keys.tools))),
        instructions: String::new(),
        steps: None,
    };
    let ended = think(scope, asked, Arc::new(inner), thinking).await?;
    let roles = [StepRole::Executor, StepRole::Finalizer, StepRole::Planner];
    let mut value = parts(&ended.trace.steps);
    value.extend(object(json!({
        "final_answer": ended.output,
        "model": ended.trace.model(&roles),
        "reasoning_trace": ended.trace.steps,
        "reasoning_answer": ended.output,
    })));
    let state = json!({"reasoning_trace": ended.trace.steps});
    Ok(Ok(ended.done(Value::Object(value), state)))
}

/// Returns the sub-problems with their answers, and the depth of the decomposition.
fn parts(steps: &[Value]) -> Object {
    let named = |name: &'static str| steps.iter().filter(move |step| step["action"] == name);
    let whole = named("decompose").find(|step| step["action_input"]["path"] == "");
    let levels = named("decompose").filter_map(|step| step["action_input"]["level"].as_u64());
    let put = named("synthesize").rfind(|step| step["action_input"]["path"] == "");
    // Nested parts belong to the answers of their own level.
    let answers: Vec<Value> = named("solve")
        .filter(|step| step["action_input"]["level"] == 1)
        .map(|step| {
            let key = if step["status"] == "success" {
                "answer"
            } else {
                "error"
            };
            json!({
                "id": step["action_input"]["id"],
                "reasoning": step["thought"],
                key: step["observation"],
            })
        })
        .collect();
    object(json!({
        "sub_problems": whole.map_or_else(|| json!([]), |step| step["observation"].clone()),
        "sub_answers": answers,
        "synthesis_reasoning": put.map_or_else(|| json!(""), |step| step["thought"].clone()),
        "depth_used": levels.max().unwrap_or(0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(source: &str) -> Prompt {
        let variables = object(json!({"state": {"what": "rhyme"}}));
        deferred("critic_prompt", source, "output", &variables)
    }

    #[test]
    fn a_prompt_without_the_value_is_text_to_which_it_is_added() {
        let prompt = prompt("Check the {{ state.what }}.");
        assert!(matches!(prompt, Prompt::Text(text) if text == "Check the rhyme."));
    }

    #[test]
    fn a_prompt_with_the_value_is_rendered_with_it() {
        let Prompt::Render(render) = prompt("Judge: {{ output }}") else {
            panic!("not rendered");
        };
        assert_eq!(render(&json!("v1")), Ok("Judge: v1".to_owned()));
    }

    #[test]
    fn an_undefined_variable_is_an_error_that_names_the_key() {
        let Prompt::Render(render) = prompt("{{ output }} {{ state.note }}") else {
            panic!("not rendered");
        };
        let error = render(&json!("v1")).unwrap_err();
        assert!(error.starts_with("critic_prompt: "), "{error}");
        assert!(error.contains("note"), "{error}");
    }
}

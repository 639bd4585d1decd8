//! Child runs: runs of agents that are started by a call of another run.
//!
//! A child run has its own log, so a resume of its caller continues it. Its limits are the
//! remaining limits of its caller, and its policy is the stricter of both. A caller waits while its
//! child run waits for an approval or an answer.

use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;

use crate::effects::{Answer, Coroutine};
use crate::errors::{Error, LogError};
use crate::events::{Event, Observed, Record, RunFinished, RunStarted};
use crate::json::{Object, Value, json, render, to_value};
use crate::log::Log;
use crate::policy::{Limits, Tier};
use crate::runtime::recording::Comparison;
use crate::runtime::run::{self, resume, start};
use crate::runtime::setup::Setup;
use crate::state::{RunState, fold};
use crate::tools::{CallContext, Declared, Tool, quoted};
use crate::values::{ASK_USER, FINISH, Observation, ObservationStatus, Sideeffect};

/// The number of steps of an unsuccessful child run in the caller's observation, and the maximum
/// number of characters for each of their calls.
const SEEN: usize = 5;
const SEEN_CHARS: usize = 500;
/// The setting in which a child run records its initial bounds.
const LIMITS: &str = "limits";

/// An agent that other runs call as a tool.
pub trait Subagent: Send + Sync {
    /// Returns the name under which its runs are recorded.
    fn name(&self) -> &str;

    /// Returns the tool's description for the model; empty for a default text.
    fn description(&self) -> &str {
        ""
    }

    /// Returns the setup of its runs. The caller's limits, policy, principal and clock are added.
    fn setup(&self) -> &Setup;

    /// Returns the fixed facts of a run with this goal.
    fn started(&self, goal: &str) -> RunStarted;

    /// Returns the strategy of a run, from its recorded facts.
    fn strategy(&self, started: &RunStarted) -> Coroutine<Answer>;
}

/// The tool that represents an agent. The runtime never calls it directly.
pub(super) struct AgentTool {
    declared: Declared,
}

impl AgentTool {
    pub(super) fn new(name: &str, agent: &dyn Subagent) -> Self {
        let tools = &agent.setup().tools;
        let tools: Vec<_> = tools.names().filter_map(|name| tools.get(name)).collect();
        let reads = tools.iter().all(|tool| tool.effect() == Sideeffect::Read);
        let description = match agent.description() {
            "" => format!("Ask the agent {}.", agent.name()),
            words => words.to_owned(),
        };
        let schema = json!({
            "type": "object",
            "properties": {
                "goal": {"type": "string", "description": "What the agent should do."},
            },
            "required": ["goal"],
            "additionalProperties": false,
        });
        Self {
            declared: Declared {
                // A child run has its own log and continues from it.
                effect: if reads {
                    Sideeffect::Read
                } else {
                    Sideeffect::Idempotent
                },
                // The highest tier of its tools, because the caller's policy sees only this value.
                tier: tools.iter().map(|it| it.tier()).max().unwrap_or(Tier::Auto),
                ..Declared::new(name, description, schema)
            },
        }
    }
}

#[async_trait]
impl Tool for AgentTool {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn check(&self, parameters: &Object) -> Result<(), String> {
        let name = self.name();
        let strange = parameters
            .keys()
            .find(|key| !["goal", "timeout_s"].contains(&key.as_str()));
        match (parameters.get("goal"), strange) {
            (Some(Value::String(_)), None) => Ok(()),
            (Some(Value::String(_)), Some(key)) => {
                Err(format!("{name} has no parameter {key:?}: give it a goal"))
            }
            _ => Err(format!("{name} needs a goal: a text that says what to do")),
        }
    }

    async fn call(&self, _: Object, _: CallContext) -> Observation {
        Observation::failure(format!("{} is an agent: only a run calls it", self.name()))
    }
}

/// Returns the id of the run that a call starts. It changes after a rewind of the caller.
pub(super) fn child_id(run: &str, key: &str, index: u64, rewinds: u64) -> String {
    let life = if rewinds > 0 {
        format!("r{rewinds}")
    } else {
        String::new()
    };
    format!("{run}.{}-{index}{life}", key.replace('.', "-"))
}

/// The values that a child run inherits.
pub(super) struct Parent<'a> {
    pub(super) run: &'a str,
    pub(super) setup: &'a Setup,
    /// The limits that remain for this child.
    pub(super) limits: Limits,
}

/// Starts or resumes the child run `run` of `agent` and drives it until it ends or waits.
pub(super) fn descend<'d>(
    log: &'d dyn Log,
    agent: &'d dyn Subagent,
    goal: &'d str,
    run: &'d str,
    parent: Parent<'d>,
) -> Pin<Box<dyn Future<Output = Result<RunState, Error>> + Send + 'd>> {
    Box::pin(async move {
        let records = match log.read(run, 0).await {
            Ok(records) => records,
            Err(LogError::UnknownRun { .. }) => return begin(log, agent, goal, run, parent).await,
            Err(error) => return Err(error.into()),
        };
        let state = fold(&records)?;
        // A run that ended with another status is not repeated: the result in its log counts.
        if !matches!(state.status.name(), "running" | "waiting" | "cancelled") {
            return Ok(state);
        }
        let Some(Event::RunStarted(started)) = records.first().map(|record| &record.event) else {
            return Ok(state);
        };
        let setup = inherited(agent, &parent, share(started)?.as_ref());
        match resume(log, run, agent.strategy(started), &setup).await {
            Ok(outcome) => Ok(outcome.state),
            // Another process ended the run after it was read, so its result counts.
            Err(Error::Ended { .. }) => Ok(fold(&log.read(run, 0).await?)?),
            Err(error) => Err(error),
        }
    })
}

async fn begin(
    log: &dyn Log,
    agent: &dyn Subagent,
    goal: &str,
    run: &str,
    parent: Parent<'_>,
) -> Result<RunState, Error> {
    let setup = inherited(agent, &parent, None);
    let mut started = agent.started(goal);
    started.parent = parent.run.to_owned();
    started.depth = setup.depth;
    started.principal = setup.principal.clone();
    started.policy = setup.policy.version();
    // The share depends on the child runs that were active at the start, so a resume cannot compute
    // it again.
    let limits = to_value(&setup.limits);
    started.settings.insert(LIMITS.to_owned(), limits);
    let strategy = agent.strategy(&started);
    let outcome = start(log, run, started, strategy, &setup).await?;
    Ok(outcome.state)
}

/// Returns the bounds that a child run recorded at its start.
fn share(started: &RunStarted) -> Result<Option<Limits>, LogError> {
    let Some(recorded) = started.settings.get(LIMITS) else {
        return Ok(None);
    };
    serde_json::from_value(recorded.clone())
        .map(Some)
        .map_err(|error| LogError::Format {
            message: format!("settings.limits of a child run: {error}"),
        })
}

/// Returns the setup of a child run, which is never wider than its caller's.
fn inherited(agent: &dyn Subagent, parent: &Parent<'_>, share: Option<&Limits>) -> Setup {
    let own = agent.setup();
    Setup {
        limits: own.limits.within(share.unwrap_or(&parent.limits)),
        own: Some((agent.name().to_owned(), own.limits.clone())),
        policy: parent.setup.policy.tightened(&own.policy),
        principal: parent.setup.principal.clone(),
        on_text: parent.setup.on_text.clone(),
        clock: parent.setup.clock.clone(),
        depth: parent.setup.depth + 1,
        ..own.clone()
    }
}

/// Replays a child run under its recorded limits and the policy of its caller.
///
/// # Errors
///
/// As [`replay`](crate::runtime::replay).
pub async fn replay(
    records: &[Record],
    agent: &dyn Subagent,
    caller: &Setup,
    comparison: Comparison,
) -> Result<Option<RunFinished>, Error> {
    let Some(Event::RunStarted(started)) = records.first().map(|record| &record.event) else {
        return Ok(None);
    };
    let parent = Parent {
        run: &started.parent,
        setup: caller,
        limits: caller.limits.clone(),
    };
    let setup = inherited(agent, &parent, share(started)?.as_ref());
    let strategy = agent.strategy(started);
    run::replay(records, strategy, &setup, comparison).await
}

/// Returns the caller's observation of a child run that has ended.
pub(super) fn observed(key: &str, index: u64, agent: &str, run: &str, state: RunState) -> Observed {
    let (status, result) = if state.success {
        (ObservationStatus::Success, state.output.clone())
    } else {
        let words = unsuccessful(agent, run, &state);
        (ObservationStatus::Failure, Value::String(words))
    };
    let observation = Observation {
        result,
        status,
        masked: state.masked,
        ..Observation::default()
    };
    Observed {
        usage: Some(state.usage),
        calls: Some((
            state.model_calls + state.child_model_calls,
            state.tool_calls + state.child_tool_calls,
        )),
        tools: state.per_tool,
        models: state.usage_by_model,
        ..Observed::new(key, index, observation)
    }
}

/// Returns the observation of an unsuccessful child run: the reason, the run's id and its last
/// steps.
fn unsuccessful(agent: &str, run: &str, state: &RunState) -> String {
    let mut lines = Vec::new();
    if !state.error.is_empty() {
        lines.push(state.error.clone());
    }
    let (agent, reason) = (quoted(agent), &state.stop_reason);
    lines.push(format!("The run {run} of agent {agent} ended as {reason}."));
    if !state.output.is_null() {
        lines.push(format!("Its answer so far: {}", render(&state.output)));
    }
    let first = state.steps.len().saturating_sub(SEEN);
    let mut seen = Vec::new();
    for step in &state.steps[first..] {
        for (action, observation) in step.actions.iter().zip(&step.observations) {
            if matches!(action.tool.as_str(), FINISH | ASK_USER) {
                continue;
            }
            let told = if observation.extraction.is_empty() {
                render(&observation.result)
            } else {
                observation.extraction.clone()
            };
            let line = format!("{} [{}] {told}", action.tool, observation.status.name());
            seen.push(line.chars().take(SEEN_CHARS).collect::<String>());
        }
    }
    if !seen.is_empty() {
        lines.push("What it saw last:".to_owned());
        let first = seen.len().saturating_sub(SEEN);
        lines.extend(seen[first..].iter().map(|line| format!("- {line}")));
    }
    lines.join("\n")
}

/// Returns true if a child run is active in an open step, so that its own log holds the progress.
pub(super) fn delegates(records: &[Record], setup: &Setup) -> Result<bool, LogError> {
    let state = fold(records)?;
    let mut slots = state.open.values().flat_map(|step| &step.slots);
    Ok(slots.any(|slot| slot.is_at_work() && setup.agents.contains_key(&slot.action.tool)))
}

//! Watches an action: records its trace and its models, and enforces the bounds of its node.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::effects::{Act, Coroutine, Effect, Halt, Outlook, Resolution};
use crate::json::{Value, json};
use crate::strategy::{Interceptor, forward};
use crate::values::{Action, FINISH, ModelSettings, Observation, StepRole, Thought};

/// The number of additional model calls for unreadable replies beyond a node's steps.
const SPARE: u64 = 3;

/// The events inside an action.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    /// The steps in the `ReAct` form: step, thought, action, `action_input`, observation, status.
    pub(super) steps: Vec<Value>,
    models: Vec<(StepRole, String)>,
    pub(super) failures: Vec<String>,
    /// The node's bound that was reached, and the key to change.
    pub(super) reached: String,
}

impl Trace {
    fn joined(&mut self, other: Self) {
        for mut entry in other.steps {
            if let Value::Object(members) = &mut entry {
                members.insert("step".to_owned(), json!(self.steps.len() + 1));
            }
            self.steps.push(entry);
        }
        for (role, model) in other.models {
            self.answered(role, model);
        }
        self.failures.extend(other.failures);
        if self.reached.is_empty() {
            self.reached = other.reached;
        }
    }

    fn answered(&mut self, role: StepRole, model: String) {
        self.models.retain(|(known, _)| *known != role);
        self.models.push((role, model));
    }

    fn stepped(&mut self, thought: &Thought, action: &Action, observation: &Observation) {
        self.steps.push(json!({
            "step": self.steps.len() + 1,
            "thought": thought.content,
            "action": action.tool,
            "action_input": action.parameters,
            "observation": observation.result,
            "status": observation.status,
        }));
    }

    /// Adds the error of an action that ended without an answer.
    pub(super) fn failed(&mut self, name: &str, error: &str) {
        self.steps.push(json!({
            "step": self.steps.len() + 1,
            "thought": format!("{name} could not be done"),
            "action": name,
            "action_input": {},
            "observation": error,
            "status": "failure",
        }));
    }

    /// Returns the model that answered in the first of these roles that was used.
    pub(super) fn model(&self, roles: &[StepRole]) -> String {
        let of = |role: &StepRole| self.models.iter().find(|(known, _)| known == role);
        let first = roles.iter().find_map(of);
        first.map_or_else(String::new, |(_, model)| model.clone())
    }
}

pub(super) type SharedTrace = Arc<Mutex<Trace>>;

/// Takes the content out of a shared trace.
pub(super) fn taken(trace: &SharedTrace) -> Trace {
    std::mem::take(&mut *trace.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The keys of a node for the strategy inside it.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// The only tools it may call.
    pub(super) allowed: BTreeSet<String>,
    /// The maximum number of turns; the last one has no tools.
    pub(super) steps: Option<u64>,
    /// The models that the node names.
    pub(super) models: NodeModels,
}

/// The models that a node names, and their settings.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeModels {
    /// The model for roles without their own; empty for the run's model.
    pub(super) default: String,
    /// The models by role.
    pub(super) roles: HashMap<StepRole, String>,
    /// The settings of the model calls.
    pub(super) settings: ModelSettings,
}

/// Returns `strategy` under `rules`; its activity is added to `trace`.
pub(super) fn watched<T: Send + 'static>(
    strategy: Coroutine<T>,
    rules: Rules,
    trace: SharedTrace,
    broken: impl FnOnce(String) -> T + Send + 'static,
) -> Coroutine<T> {
    let mut watch = Watch {
        rules,
        trace,
        turns: 0,
        calls: 0,
        last: Last::Other,
    };
    Coroutine::new(|scope| async move {
        let forwarded = forward(&scope, strategy, &mut watch).await;
        forwarded.result.unwrap_or_else(broken)
    })
}

/// The effect in progress.
enum Last {
    Begin,
    Ask(StepRole),
    Act(Thought, Vec<Action>),
    Fork(Vec<SharedTrace>),
    Other,
}

struct Watch {
    rules: Rules,
    trace: SharedTrace,
    turns: u64,
    calls: u64,
    last: Last,
}

impl Watch {
    fn reached(&self, what: String) {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.reached = format!("{what}: raise max_steps");
    }

    fn outlook(&mut self, outlook: &mut Outlook) {
        let turns = self.turns;
        self.turns += 1;
        let Some(steps) = self.rules.steps.filter(|_| outlook.stop.is_empty()) else {
            return;
        };
        if turns >= steps {
            "max_steps".clone_into(&mut outlook.stop);
        } else if turns + 1 == steps && outlook.wrap_up.is_empty() {
            "max_steps".clone_into(&mut outlook.wrap_up);
        } else {
            return;
        }
        self.reached(format!("all {steps} of max_steps were used"));
    }

    /// Refuses calls of tools that this node does not allow.
    fn keep_to(&self, act: &mut Act) {
        act.local.resize(act.actions.len(), None);
        for (action, local) in act.actions.iter().zip(&mut act.local) {
            let allowed = self.rules.allowed.contains(&action.tool) || action.tool == FINISH;
            if local.is_none() && !allowed {
                let names: Vec<&str> = self.rules.allowed.iter().map(String::as_str).collect();
                let names = if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                };
                let why = format!("unknown tool '{}'; available tools: {names}", action.tool);
                *local = Some(Observation::refused(why, "unknown"));
            }
        }
    }
}

impl Interceptor for Watch {
    fn before(&mut self, effect: &mut Effect) -> Option<Resolution> {
        self.last = match effect {
            Effect::Begin => Last::Begin,
            Effect::Ask(ask) => {
                self.calls += 1;
                // An unreadable reply is not a turn, so it would not count otherwise.
                if self
                    .rules
                    .steps
                    .is_some_and(|steps| self.calls > steps + SPARE)
                {
                    self.reached(format!("all {} model calls were used", self.calls - 1));
                    return Some(Resolution::Halt(Halt {
                        reason: "max_steps".to_owned(),
                        ..Halt::default()
                    }));
                }
                ask.tolerant = true;
                let models = &self.rules.models;
                if ask.model.is_empty() {
                    let named = models.roles.get(&ask.role).unwrap_or(&models.default);
                    named.clone_into(&mut ask.model);
                }
                ask.settings = models.settings.over(&ask.settings);
                Last::Ask(ask.role)
            }
            Effect::Act(act) => {
                self.keep_to(act);
                Last::Act(act.thought.clone(), act.actions.clone())
            }
            Effect::Fork(branches) => {
                // One trace for each branch, so that concurrent activity is joined in the declared
                // order.
                let traces: Vec<SharedTrace> =
                    branches.iter().map(|_| SharedTrace::default()).collect();
                let inner = std::mem::take(branches);
                *branches = inner
                    .into_iter()
                    .zip(&traces)
                    .map(|(branch, trace)| {
                        watched(branch, self.rules.clone(), Arc::clone(trace), |_| ())
                    })
                    .collect();
                Last::Fork(traces)
            }
            Effect::Note(_) | Effect::Assess(_) => Last::Other,
        };
        None
    }

    fn after(&mut self, mut resolution: Resolution) -> Resolution {
        let last = std::mem::replace(&mut self.last, Last::Other);
        if let (Last::Begin, Resolution::Outlook(outlook)) = (&last, &mut resolution) {
            self.outlook(outlook);
            return resolution;
        }
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        match (last, &resolution) {
            (Last::Ask(role), Resolution::Reply(reply, _)) => {
                if reply.finish == "error" {
                    trace.failures.push(reply.content.thinking());
                    // The strategy may still return a partial answer.
                    return Resolution::Halt(Halt {
                        reason: "error".to_owned(),
                        ..Halt::default()
                    });
                }
                trace.answered(role, reply.model.clone());
            }
            (Last::Act(thought, actions), Resolution::Observations(observations)) => {
                for (action, observation) in actions.iter().zip(observations) {
                    trace.stepped(&thought, action, observation);
                }
            }
            (Last::Fork(traces), Resolution::Done) => {
                for branch in &traces {
                    trace.joined(taken(branch));
                }
            }
            _ => {}
        }
        resolution
    }
}

//! A strategy inside a strategy: it runs in its own branch and ends in a named step.

use std::sync::Arc;

use crate::content::Message;
use crate::effects::{Act, Answer, Coroutine, Effect, Halt, Resolution, Resumed, Scope};
use crate::json::{Object, Value, json};
use crate::strategy::question::object;
use crate::strategy::{Strategy, Task};
use crate::values::{Action, FINISH, Observation, ObservationStatus, Thought, ThoughtType};

/// The end of an inner strategy, and the user messages that arrived while it ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// The answer.
    pub answer: Answer,
    /// The users' messages.
    pub heard: Vec<Message>,
}

impl Solved {
    fn is_done(&self) -> bool {
        matches!(
            self.answer.stop.as_str(),
            "final_answer" | "no_tool_call" | "criteria_met"
        )
    }

    /// Returns true if its output is an answer.
    pub fn good(&self) -> bool {
        self.is_done() && self.answer.error.is_empty()
    }

    /// Returns true if there is an answer, including the best one at a limit or without progress.
    pub fn usable(&self) -> bool {
        self.good() || (!self.answer.output.is_null() && self.answer.error.is_empty())
    }

    /// Returns the limit of the whole run that stopped it.
    pub fn limit(&self) -> Option<&str> {
        let own = matches!(self.answer.stop.as_str(), "error" | "loop_detected");
        (!self.is_done() && !own).then_some(self.answer.stop.as_str())
    }

    /// Returns the reason why its output is no answer; empty if it is one.
    pub fn error(&self) -> String {
        if self.good() {
            String::new()
        } else if self.answer.error.is_empty() {
            format!("stopped: {}", self.answer.stop)
        } else {
            self.answer.error.clone()
        }
    }
}

/// Runs one strategy in its own branch. Its `finish` is recorded as the step `name`.
///
/// # Errors
///
/// [`Halt`] if a limit stops the outer strategy.
pub async fn alone(
    scope: &Scope,
    inner: Arc<dyn Strategy>,
    task: Task,
    name: &str,
    parameters: Object,
) -> Result<Solved, Halt> {
    let branch = named_step(inner, task, name, parameters);
    let mut solved = scope.fork(vec![branch]).await?;
    solved.pop().ok_or_else(|| Halt {
        reason: "error".to_owned(),
        ..Halt::default()
    })
}

/// Returns a branch that runs `inner`.
///
/// Its last step, `finish`, is recorded as the step `name` of the outer strategy. If it fails, a
/// failed step `name` is recorded instead.
pub fn named_step(
    inner: Arc<dyn Strategy>,
    task: Task,
    name: &str,
    parameters: Object,
) -> Coroutine<Solved> {
    let mut naming = Naming {
        name: name.to_owned(),
        parameters,
        heard: Vec::new(),
    };
    Coroutine::new(|scope| async move {
        let forwarded = forward(&scope, inner.run(task), &mut naming).await;
        let mut solved = Solved {
            answer: forwarded.result.unwrap_or_else(Answer::error),
            heard: naming.heard,
        };
        // At a limit of the run no further step is permitted, so none is recorded.
        if !forwarded.halted && !solved.usable() && solved.limit().is_none() {
            let act = failure(&naming.name, &solved.error(), naming.parameters, None);
            if let Err(halt) = scope.act(act).await {
                solved.answer = halt.into();
            }
        }
        solved
    })
}

/// Renames the inner strategy's accepted `finish` to the outer step, and keeps user messages,
/// because the inner conversation ends with the branch.
struct Naming {
    name: String,
    parameters: Object,
    heard: Vec<Message>,
}

impl Interceptor for Naming {
    fn before(&mut self, effect: &mut Effect) -> Option<Resolution> {
        if let Effect::Act(act) = effect
            && matches!(act.local.first(), Some(Some(_)))
            && let Some(action) = act.actions.first_mut()
            && action.tool == FINISH
        {
            *action = Action {
                rationale: std::mem::take(&mut action.rationale),
                id: std::mem::take(&mut action.id),
                ..Action::new(self.name.as_str(), self.parameters.clone())
            };
            act.actions.truncate(1);
        }
        None
    }

    fn after(&mut self, resolution: Resolution) -> Resolution {
        if let Resolution::Outlook(outlook) = &resolution {
            self.heard.extend(outlook.heard.iter().cloned());
        }
        resolution
    }
}

/// A filter between an inner strategy and the outer scope.
pub(crate) trait Interceptor: Send {
    /// Changes an effect before it is performed, or resolves it at once.
    fn before(&mut self, effect: &mut Effect) -> Option<Resolution>;

    /// Changes a resolution before the inner strategy receives it.
    fn after(&mut self, resolution: Resolution) -> Resolution;
}

/// The end of a forwarded strategy.
pub(crate) struct Forwarded<T> {
    /// Its result, or the fault of the strategy itself.
    pub(crate) result: Result<T, String>,
    /// True if a limit stopped it, so that nothing more may be yielded.
    pub(crate) halted: bool,
}

/// Performs the effects of an inner strategy on the outer scope.
pub(crate) async fn forward<T: 'static>(
    scope: &Scope,
    mut inner: Coroutine<T>,
    interceptor: &mut impl Interceptor,
) -> Forwarded<T> {
    let mut resumed = inner.start();
    let mut halted = false;
    let mut stopped = false;
    loop {
        let result = match resumed {
            Ok(Resumed::Complete(result)) => Ok(result),
            Ok(Resumed::Yielded(_)) if stopped => {
                Err("the strategy yielded an effect after a halt".to_owned())
            }
            Ok(Resumed::Yielded(mut effect)) => {
                let resolution = match interceptor.before(&mut effect) {
                    Some(resolution) => resolution,
                    None => match scope.perform(effect).await {
                        Ok(resolution) => interceptor.after(resolution),
                        Err(halt) => {
                            halted = true;
                            Resolution::Halt(halt)
                        }
                    },
                };
                stopped = matches!(resolution, Resolution::Halt(_));
                resumed = inner.resume(resolution);
                continue;
            }
            Err(error) => Err(error.to_string()),
        };
        return Forwarded { result, halted };
    }
}

/// An interceptor that changes nothing.
pub(super) struct Unchanged;

impl Interceptor for Unchanged {
    fn before(&mut self, _: &mut Effect) -> Option<Resolution> {
        None
    }

    fn after(&mut self, resolution: Resolution) -> Resolution {
        resolution
    }
}

/// Returns a failed step of the strategy itself.
pub(super) fn failure(name: &str, error: &str, parameters: Object, content: Option<String>) -> Act {
    let content = content.unwrap_or_else(|| format!("{name} could not be done"));
    let line = error.lines().next().unwrap_or_default();
    let observation = Observation {
        status: ObservationStatus::Failure,
        ..Observation::auto(
            Value::String(error.to_owned()),
            line.chars().take(200).collect::<String>(),
        )
    };
    let thought = Thought::synthesized(content, ThoughtType::Exception);
    Act::own(thought, Action::new(name, parameters), observation)
}

/// Returns the last triplet of every strategy: `finish`, whose observation is the output.
pub fn closing(thought: Thought, output: &Value) -> Act {
    let action = Action::new(FINISH, object(json!({"answer": output})));
    Act::own(
        thought,
        action,
        Observation::auto(output.clone(), "answer accepted"),
    )
}

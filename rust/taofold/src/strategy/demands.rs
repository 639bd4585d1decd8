//! The loop's rules for a turn, and the rules that a reply violates.
//!
//! [`Demands`] follows one `react` loop and judges each readable turn by its form only. A lenient
//! run checks the thought, its type, an exception after a failure, and the rationale. A strict run
//! also checks the aim, the reason, the extraction and research steps. `react` decides whether a
//! turn is refused. Grounding is judged from the log, by the Python runtime.

use crate::effects::Lack;
use crate::parsing::{Call, Remark, Turn};
use crate::strategy::Task;
use crate::strategy::vague::{is_blank, lacks_intent, lacks_reason};
use crate::values::{Observation, Sideeffect, Thought, ThoughtType};

impl Lack {
    fn new(rule: &str, detail: impl Into<String>) -> Self {
        Self {
            rule: rule.to_owned(),
            detail: detail.into(),
        }
    }

    /// Returns the violation of an answer without the protocol.
    pub(super) fn unanswered() -> Self {
        let detail = "An answer needs a thought too: reply with a thought and the tool \"finish\".";
        Self::new("R1", detail)
    }
}

/// The judge of the turns of one loop, in their order.
#[derive(Debug, Default)]
pub(super) struct Demands {
    after_failure: bool,
    /// True if the last results had no key line from their tool.
    unextracted: bool,
}

impl Demands {
    /// Records the observations of a step.
    pub(super) fn saw(&mut self, observations: &[Observation]) {
        self.after_failure = observations.iter().any(|it| it.status.failed());
        let plain = |it: &Observation| it.auto || it.extraction.trim().is_empty();
        self.unextracted = observations.iter().any(plain);
    }

    /// Returns the thought of a turn, and its violations.
    ///
    /// `calls` excludes `finish`.
    pub(super) fn judge(&self, task: &Task, turn: &Turn, calls: &[&Call]) -> (Thought, Vec<Lack>) {
        let remark = turn.remark.as_ref();
        let (thought, mut lacks) = match remark.filter(|it| !it.content.trim().is_empty()) {
            Some(remark) => self.typed(task, remark, !calls.is_empty()),
            None => {
                let tools: Vec<&str> = turn.calls.iter().map(|call| call.tool.as_str()).collect();
                let content = format!("(no thought given) calls {}", tools.join(", "));
                let detail = "No action without a thought: say why you act, then act.";
                let thought = Thought::synthesized(content, self.inferred());
                (thought, vec![Lack::new("R1", detail)])
            }
        };
        if !task.native {
            for call in calls {
                let tool = &call.tool;
                if call.rationale.is_empty() {
                    let detail = format!("Say in \"rationale\" why {tool:?} is called.");
                    lacks.push(Lack::new("missing_rationale", detail));
                } else if task.strict && lacks_intent(&call.rationale) {
                    let detail = format!("The rationale of {tool:?} says what is done, not why.");
                    lacks.push(Lack::new("missing_rationale", detail));
                }
            }
        }
        if task.strict && thought.kind == ThoughtType::Research {
            let changes = |call: &&&Call| {
                let offer = task.offers.iter().find(|offer| offer.name == call.tool);
                offer.is_some_and(|offer| offer.effect != Sideeffect::Read)
            };
            lacks.extend(calls.iter().filter(changes).map(|call| {
                let tool = &call.tool;
                let detail = format!("{tool:?} can change the world: a research step only reads.");
                Lack::new("research_changes_state", detail)
            }));
        }
        (thought, lacks)
    }

    /// Returns the type of a thought for which the model names none.
    fn inferred(&self) -> ThoughtType {
        if self.after_failure {
            ThoughtType::Exception
        } else {
            ThoughtType::Reasoning
        }
    }

    fn typed(&self, task: &Task, remark: &Remark, acts: bool) -> (Thought, Vec<Lack>) {
        let mut lacks = Vec::new();
        let kind = match kind_of(task, remark) {
            Ok(kind) => Some(kind),
            Err(problem) => {
                // A native call cannot contain a type.
                if !(task.native && remark.kind.is_none()) {
                    lacks.push(Lack::new("thought_type", problem));
                }
                None
            }
        };
        if self.after_failure && kind.is_some_and(|kind| kind != ThoughtType::Exception) {
            let detail = "The last action failed. The next thought must be of type exception: \
                          say why it failed and what you will change.";
            lacks.push(Lack::new("exception", detail));
        }
        if task.strict && lacks_intent(&remark.content) {
            let detail = "The thought names an activity, not what it is for: state the aim.";
            lacks.push(Lack::new("unclear_intent", detail));
        }
        // An answer needs no reason beyond the reached goal.
        if task.strict && acts && remark.because.is_empty() && lacks_reason(&remark.content) {
            let detail = "The thought gives no reason: say why this action is next, or list the \
                          steps it rests on in \"because\".";
            lacks.push(Lack::new("missing_reason", detail));
        }
        let unlearned = self.unextracted && is_blank(&remark.learned);
        if task.strict && unlearned && !task.native {
            let detail = "Say in \"learned\" what the last results showed.";
            lacks.push(Lack::new("missing_extraction", detail));
        }
        let thought = Thought {
            content: remark.content.clone(),
            kind: kind.unwrap_or_else(|| self.inferred()),
            because: remark.because.clone(),
            confidence: remark.confidence,
            critical: remark.critical,
            synthesized: false,
            inferred: kind.is_none(),
            learned: remark.learned.clone(),
        };
        (thought, lacks)
    }
}

fn kind_of(task: &Task, remark: &Remark) -> Result<ThoughtType, String> {
    const SIX: &str = "exception, extraction, goal, progress, reasoning, synthesis";
    let Some(name) = &remark.kind else {
        return Err(format!("the thought has no type: use one of {SIX}"));
    };
    match ThoughtType::named(name) {
        Some(ThoughtType::Research) if !task.research => Err(format!(
            "thoughts of type research are not enabled here: use one of {SIX}"
        )),
        Some(kind) => Ok(kind),
        None => Err(format!("unknown thought type {name:?}: use one of {SIX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::ObservationStatus;

    fn rules(demands: &Demands, task: &Task, kind: Option<&str>, thought: &str) -> Vec<String> {
        let call = Call {
            tool: "read".into(),
            ..Call::default()
        };
        let turn = Turn {
            remark: Some(Remark {
                content: thought.into(),
                kind: kind.map(str::to_owned),
                ..Remark::default()
            }),
            calls: vec![call.clone()],
            ..Turn::default()
        };
        let (_, lacks) = demands.judge(task, &turn, &[&call]);
        lacks.into_iter().map(|lack| lack.rule).collect()
    }

    #[test]
    fn a_lenient_run_judges_thought_type_exception_and_rationale_in_this_order() {
        let task = Task::new("go");
        let mut demands = Demands::default();
        assert_eq!(
            rules(&demands, &task, None, ""),
            ["R1", "missing_rationale"]
        );
        assert_eq!(
            rules(&demands, &task, Some("musing"), "x"),
            ["thought_type", "missing_rationale"]
        );
        let late = Observation {
            status: ObservationStatus::Timeout,
            ..Observation::default()
        };
        demands.saw(&[late]);
        assert_eq!(
            rules(&demands, &task, Some("goal"), "x"),
            ["exception", "missing_rationale"]
        );
        assert_eq!(
            rules(&demands, &task, None, "x"),
            ["thought_type", "missing_rationale"]
        );
    }

    #[test]
    fn a_native_caller_has_no_place_for_type_and_rationale() {
        let task = Task {
            native: true,
            ..Task::new("go")
        };
        assert!(rules(&Demands::default(), &task, None, "x").is_empty());
    }

    #[test]
    fn a_strict_run_also_asks_for_the_extraction() {
        let task = Task {
            strict: true,
            ..Task::new("go")
        };
        let mut demands = Demands::default();
        demands.saw(&[Observation::default()]);
        assert_eq!(
            rules(&demands, &task, Some("goal"), "x"),
            ["missing_extraction", "missing_rationale"]
        );
    }

    #[test]
    fn a_strict_run_asks_for_the_aim_and_the_reason_of_a_thought() {
        let task = Task {
            strict: true,
            ..Task::new("go")
        };
        let demands = Demands::default();
        assert_eq!(
            rules(&demands, &task, Some("goal"), "Looking at the code."),
            ["unclear_intent", "missing_reason", "missing_rationale"]
        );
        let lenient = Task::new("go");
        assert_eq!(
            rules(&demands, &lenient, Some("goal"), "Looking at the code."),
            ["missing_rationale"]
        );
    }
}

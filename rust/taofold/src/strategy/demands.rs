//! The loop's rules for a turn, and the rules that a reply violates.
//!
//! [`Demands`] follows one `react` loop and judges each readable turn by its form only. A lenient
//! run checks the thought, its type, an exception after a failure, and the rationale. A strict run
//! also checks the aim, the reason, the extraction, the grounding and research steps. `react`
//! decides whether a turn is refused.

use crate::content::{Message, Role};
use crate::json::Value;
use crate::parsing::{Call, Remark, Turn};
use crate::strategy::Task;
use crate::strategy::grounding::{TokenLedger, without_reference};
use crate::strategy::vague::{lacks_intent, lacks_reason};
use crate::values::{Action, Observation, Sideeffect, Thought, ThoughtType};

/// A violated rule, with the feedback for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) rule: &'static str,
    pub(super) detail: String,
}

impl Lack {
    fn new(rule: &'static str, detail: impl Into<String>) -> Self {
        Self {
            rule,
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
    /// The token ledger of a strict run.
    ledger: Option<TokenLedger>,
}

impl Demands {
    /// Returns the judge of one loop.
    pub(super) fn new(task: &Task) -> Self {
        let ledger = task.strict.then(|| {
            let mut ledger = TokenLedger::default();
            ledger.said(&without_reference(&task.goal, &task.reference));
            ledger.said(&task.instructions);
            let spoken = task.history.iter().filter(|it| it.role != Role::Tool);
            spoken.for_each(|message| ledger.said(&message.content.text()));
            ledger
        });
        Self {
            ledger,
            ..Self::default()
        }
    }

    /// Adds the text of user messages, which is no evidence.
    pub(super) fn hear(&mut self, messages: &[Message]) {
        for message in messages {
            self.said(&message.content.text());
        }
    }

    /// Adds the text of the model, including refused replies.
    pub(super) fn said(&mut self, text: &str) {
        if let Some(ledger) = &mut self.ledger {
            ledger.said(text);
        }
    }

    /// Records the observations of step `number`.
    pub(super) fn saw(&mut self, number: u64, actions: &[Action], observations: &[Observation]) {
        self.after_failure = observations.iter().any(|it| it.status.failed());
        let plain = |it: &Observation| it.auto || it.extraction.trim().is_empty();
        self.unextracted = observations.iter().any(plain);
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        for action in actions {
            ledger.said_value(&Value::Object(action.parameters.clone()));
            ledger.said(&action.rationale);
        }
        for observation in observations {
            ledger.observed(number, &observation.result);
            ledger.observed(number, &Value::String(observation.extraction.clone()));
        }
    }

    /// Returns the thought of a turn for step `number`, and its violations.
    ///
    /// `calls` excludes `finish`.
    pub(super) fn judge(
        &mut self,
        task: &Task,
        number: u64,
        turn: &Turn,
        calls: &[&Call],
    ) -> (Thought, Vec<Lack>) {
        let remark = turn.remark.as_ref();
        let (thought, mut lacks) = match remark.filter(|it| !it.content.trim().is_empty()) {
            Some(remark) => {
                let (thought, mut lacks) = self.typed(task, remark, !calls.is_empty());
                lacks.extend(self.ungrounded(number, &thought));
                (thought, lacks)
            }
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

    /// Returns the violation of a strict run's thought that quotes no observation.
    fn ungrounded(&mut self, number: u64, thought: &Thought) -> Option<Lack> {
        let ledger = self.ledger.as_mut()?;
        let grounding = ledger.judge(number, thought);
        // Without concrete observations there is nothing to quote.
        if !grounding.eligible || grounding.grounded || !ledger.has_learnt() {
            return None;
        }
        let detail = "The thought refers to nothing that was observed: quote a concrete value, name \
                      or phrase from an earlier observation.";
        Some(Lack::new("R4", detail))
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
        let unlearned = self.unextracted && remark.learned.trim().is_empty();
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
    use crate::json::json;
    use crate::values::ObservationStatus;

    fn rules(
        demands: &mut Demands,
        task: &Task,
        kind: Option<&str>,
        thought: &str,
    ) -> Vec<&'static str> {
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
        let (_, lacks) = demands.judge(task, 2, &turn, &[&call]);
        lacks.into_iter().map(|lack| lack.rule).collect()
    }

    #[test]
    fn a_lenient_run_judges_thought_type_exception_and_rationale_in_this_order() {
        let task = Task::new("go");
        let mut demands = Demands::default();
        assert_eq!(
            rules(&mut demands, &task, None, ""),
            ["R1", "missing_rationale"]
        );
        assert_eq!(
            rules(&mut demands, &task, Some("musing"), "x"),
            ["thought_type", "missing_rationale"]
        );
        let late = Observation {
            status: ObservationStatus::Timeout,
            ..Observation::default()
        };
        demands.saw(1, &[], &[late]);
        assert_eq!(
            rules(&mut demands, &task, Some("goal"), "x"),
            ["exception", "missing_rationale"]
        );
        assert_eq!(
            rules(&mut demands, &task, None, "x"),
            ["thought_type", "missing_rationale"]
        );
    }

    #[test]
    fn a_native_caller_has_no_place_for_type_and_rationale() {
        let task = Task {
            native: true,
            ..Task::new("go")
        };
        assert!(rules(&mut Demands::default(), &task, None, "x").is_empty());
    }

    #[test]
    fn a_strict_run_also_asks_for_the_extraction() {
        let task = Task {
            strict: true,
            ..Task::new("go")
        };
        let mut demands = Demands::default();
        demands.saw(1, &[], &[Observation::default()]);
        assert_eq!(
            rules(&mut demands, &task, Some("goal"), "x"),
            ["missing_extraction", "missing_rationale"]
        );
    }

    #[test]
    fn a_strict_run_asks_for_the_aim_and_the_reason_of_a_thought() {
        let task = Task {
            strict: true,
            ..Task::new("go")
        };
        let mut demands = Demands::default();
        assert_eq!(
            rules(&mut demands, &task, Some("goal"), "Looking at the code."),
            ["unclear_intent", "missing_reason", "missing_rationale"]
        );
        let lenient = Task::new("go");
        assert_eq!(
            rules(&mut demands, &lenient, Some("goal"), "Looking at the code."),
            ["missing_rationale"]
        );
    }

    #[test]
    fn a_strict_run_asks_for_a_concrete_token_of_an_observation() {
        let task = Task {
            strict: true,
            ..Task::new("Find the total of order 4711.")
        };
        let mut demands = Demands::new(&task);
        demands.hear(&[Message::new(Role::User, "It is above 50.")]);
        demands.said("I guess 99.50.");
        let result = Observation {
            result: json!({"order": 4711, "total": "99.50", "code": "E417", "least": 50}),
            extraction: "order 4711".into(),
            ..Observation::default()
        };
        demands.saw(1, &[], &[result]);
        let mut rules = |text: &str| rules(&mut demands, &task, Some("goal"), text);
        for echo in ["4711", "99.50", "50"] {
            let text = format!("The order is {echo}, so I go on.");
            assert_eq!(rules(&text), ["R4", "missing_rationale"]);
        }
        assert_eq!(
            rules("The code is E417, so I go on."),
            ["missing_rationale"]
        );
    }
}

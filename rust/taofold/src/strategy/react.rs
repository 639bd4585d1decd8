//! `ReAct`: think, act and observe until the answer is found (Yao et al., 2022).
//!
//! The runtime enforces limits, policy, tools and repetition, and informs the strategy in an
//! [`Outlook`]. Only [`Attempts`] parses replies, retries unreadable ones and applies the rules of
//! the loop. It records its corrections.

use std::collections::HashSet;

use crate::content::{Message, Role};
use crate::effects::{Act, Answer, Ask, Assess, Coroutine, Halt, Lack, Outlook, Scope};
use crate::json::{Object, Value, json};
use crate::parsing::{Call, Read, Remark, Repair, Turn, read_call, read_reply};
use crate::strategy::conversation::{Talk, broken, is_refused, withheld};
use crate::strategy::demands::Demands;
use crate::strategy::question::{object, violation};
use crate::strategy::{Strategy, Task, direct};
use crate::values::{Action, FINISH, Observation, Reply, Thought, ThoughtType, finish_of};

/// The number of times that a provider may pause one turn.
const PAUSES: usize = 10;
/// The error for `finish` with `"success": false`, which is no success.
const GAVE_UP: &str = "the agent says that it did not reach the goal";
const EMPTY: &str = "Your reply was empty. Send the answer.";
const DETAIL: usize = 500;

/// A loop of turns until the model finishes, a limit is reached, or no reply can be parsed.
#[derive(Debug, Clone, Copy, Default)]
pub struct React;

impl Strategy for React {
    fn name(&self) -> &'static str {
        "react"
    }

    fn run(&self, task: Task) -> Coroutine<Answer> {
        Coroutine::new(
            |scope| async move { story(&scope, &task).await.unwrap_or_else(Answer::from) },
        )
    }
}

async fn story(scope: &Scope, task: &Task) -> Result<Answer, Halt> {
    let mut talk = Talk::new(task);
    let mut demands = Demands::default();
    let mut forbidden = String::new();
    let mut number = 0;
    loop {
        let outlook = scope.begin().await?;
        if !outlook.stop.is_empty() {
            return Ok(Answer::stopped(outlook.stop));
        }
        if outlook.wrap_up.is_empty() {
            forbidden.clear();
        }
        // Before the turn is opened, because new user messages must not be folded away.
        if talk.crowded() {
            compact(scope, &mut talk).await?;
        }
        talk.open(&outlook);
        let mut attempts = Attempts {
            scope,
            task,
            talk: &mut talk,
            demands: &demands,
            demanded: HashSet::new(),
            withdrawn: String::new(),
        };
        let taken = attempts.run(&outlook).await?;
        let withdrawn = std::mem::take(&mut attempts.withdrawn);
        let limit = if forbidden.is_empty() {
            outlook.wrap_up.clone()
        } else {
            forbidden.clone()
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => return Ok(lost(task, &outlook, limit, &error)),
        };
        if let Some(end) = taken.end {
            let observation = Observation::auto(end.answer.clone(), "answer accepted");
            scope
                .act(Act {
                    thought: taken.thought,
                    actions: taken.actions,
                    local: vec![Some(observation)],
                    planned: false,
                })
                .await?;
            let mut stop = if outlook.toolless {
                "loop_detected"
            } else {
                end.stop
            }
            .to_owned();
            // An answer in the last turn counts. The limit is the stop reason only if it forbade a
            // requested call, or if the goal was not reached.
            let needed = !forbidden.is_empty() || !withdrawn.is_empty() || !end.failed.is_empty();
            if !outlook.wrap_up.is_empty() && !task.offers.is_empty() {
                stop = if needed { limit } else { end.stop.to_owned() };
            }
            return Ok(Answer {
                output: end.answer,
                stop,
                error: end.failed,
            });
        }
        number += 1;
        let act = Act {
            thought: taken.thought,
            actions: taken.actions.clone(),
            ..Act::default()
        };
        let observations = scope.act(act).await?;
        if observations.iter().any(|it| it.refused == "limit") {
            "max_tool_calls".clone_into(&mut forbidden);
        }
        demands.saw(&observations);
        talk.tell(
            number,
            &taken.reply,
            &taken.kept,
            &taken.actions,
            &observations,
        );
    }
}

/// Returns an answer without a call, completed by a synthesized `finish`.
fn prose(reply: Reply, text: &str, answer: Value) -> Heard {
    let mut content: String = text.trim().chars().take(300).collect();
    if content.is_empty() {
        "The answer.".clone_into(&mut content);
    }
    let finish = Action::new(FINISH, object(json!({"answer": answer})));
    Heard::Taken(Box::new(Taken {
        kept: reply.text(),
        reply,
        thought: Thought::synthesized(content, ThoughtType::Synthesis),
        actions: vec![finish],
        end: Some(End {
            answer,
            stop: "no_tool_call",
            failed: String::new(),
        }),
    }))
}

/// Returns the end without a usable reply: the limit in the last turn, otherwise an error.
fn lost(task: &Task, outlook: &Outlook, limit: String, error: &str) -> Answer {
    let (stop, error) = if !limit.is_empty() && !task.offers.is_empty() {
        (limit, format!("the last turn brought no answer: {error}"))
    } else if outlook.toolless {
        let error = format!("a loop was detected, and then: {error}");
        ("loop_detected".to_owned(), error)
    } else {
        ("error".to_owned(), error.to_owned())
    };
    Answer {
        output: Value::Null,
        stop,
        error,
    }
}

/// Folds older observations and records it. Returns false if nothing is left to fold.
async fn compact(scope: &Scope, talk: &mut Talk) -> Result<bool, Halt> {
    let Some((upto, before, after)) = talk.compact() else {
        return Ok(false);
    };
    let data = json!({"upto": upto, "chars_before": before, "chars_after": after});
    scope.note("compacted", object(data)).await?;
    Ok(true)
}

/// A usable turn.
struct Taken {
    reply: Reply,
    /// The part of the reply's text that counts.
    kept: String,
    thought: Thought,
    actions: Vec<Action>,
    /// The end of the run, if the batch is the answer.
    end: Option<End>,
}

struct End {
    answer: Value,
    stop: &'static str,
    /// The model's reason why the goal was not reached.
    failed: String,
}

/// A reply that cannot be used: the violated rule and the feedback for the model.
struct Broken {
    rule: String,
    feedback: String,
}

impl Broken {
    fn new(rule: &str, feedback: impl Into<String>) -> Self {
        Self {
            rule: rule.to_owned(),
            feedback: feedback.into(),
        }
    }
}

/// The attempts at one turn: calls the model, then parses, checks and corrects its reply.
///
/// A strict run demands each rule of form once per turn (`demanded`). The second time it accepts
/// the reply and records the violation, so that every model makes progress.
struct Attempts<'a> {
    scope: &'a Scope,
    task: &'a Task,
    talk: &'a mut Talk,
    demands: &'a Demands,
    demanded: HashSet<String>,
    /// Tools that the model called in a turn without tools.
    withdrawn: String,
}

impl Attempts<'_> {
    /// Asks until a reply can be used. The error contains the reason if there is none.
    async fn run(&mut self, outlook: &Outlook) -> Result<Result<Taken, String>, Halt> {
        let toolless = !outlook.wrap_up.is_empty() || outlook.toolless;
        // At the limit of steps: the last-turn notice, and one correction.
        let attempts = if outlook.wrap_up == "max_steps" {
            self.task.attempts.min(2)
        } else {
            self.task.attempts
        };
        let mut left = attempts;
        let mut feedback = String::new();
        while left > 0 {
            left -= 1;
            let reply = self.ask(toolless).await?;
            if reply.finish == "overflow" {
                if compact(self.scope, self.talk).await? {
                    continue;
                }
                let error = "the conversation does not fit the model's context window";
                return Ok(Err(error.to_owned()));
            }
            if is_refused(&reply) {
                return Ok(Err(withheld(&reply)));
            }
            let faults = match self.judge(&reply, toolless).await? {
                Judged::Taken(taken) => return Ok(Ok(*taken)),
                Judged::Broken(broken) => vec![(broken.rule, broken.feedback)],
                Judged::Lacking(lacks) => {
                    // Each rule is demanded once, so these replies need no count of their own.
                    left += 1;
                    self.demanded
                        .extend(lacks.iter().map(|lack| lack.rule.clone()));
                    let faults = lacks.into_iter();
                    faults.map(|lack| (lack.rule, lack.detail)).collect()
                }
            };
            let details: Vec<&str> = faults.iter().map(|(_, detail)| detail.as_str()).collect();
            feedback = details.join("\n");
            for (rule, detail) in &faults {
                self.note(rule, detail, true).await?;
            }
            self.talk.correct(&reply, &feedback);
        }
        Ok(Err(format!(
            "no usable reply in {}: {feedback}",
            crate::values::times(attempts as u64, "attempt")
        )))
    }

    async fn note(&self, rule: &str, detail: &str, refused: bool) -> Result<(), Halt> {
        let detail: String = detail.chars().take(DETAIL).collect();
        self.scope
            .note("violation", violation(rule, &detail, refused))
            .await
    }

    /// Judges a reply by the rules of the loop.
    async fn judge(&mut self, reply: &Reply, toolless: bool) -> Result<Judged, Halt> {
        match self.read(reply.clone()) {
            Err(broken) => Ok(Judged::Broken(broken)),
            Ok(Heard::Taken(taken)) => {
                // A lenient run uses the answer's own text as its thought.
                let unanswered = self.task.strict && !self.task.native;
                let lacks = unanswered.then(Lack::unanswered);
                self.accept(*taken, lacks.into_iter().collect(), toolless)
                    .await
            }
            Ok(Heard::Turn(turn)) => self.check(reply.clone(), turn, toolless).await,
        }
    }

    /// Accepts a turn and records its violations, or refuses it if a rule demands it.
    async fn accept(&self, taken: Taken, lacks: Vec<Lack>, toolless: bool) -> Result<Judged, Halt> {
        // The last turn is not refused for its form, because there may be no further call.
        let demanding = self.task.strict && !toolless;
        let due = |lack: &&Lack| demanding && !self.demanded.contains(&lack.rule);
        let due: Vec<Lack> = lacks.iter().filter(due).cloned().collect();
        let refused = !due.is_empty();
        let lacks = if refused { due } else { lacks };
        let verdict = self.scope.assess(Assess { lacks, refused }).await?;
        if verdict.refused {
            return Ok(Judged::Lacking(verdict.lacks));
        }
        for lack in &verdict.lacks {
            self.note(&lack.rule, &lack.detail, false).await?;
        }
        Ok(Judged::Taken(Box::new(taken)))
    }

    /// Requests a turn. A paused reply is continued before it is parsed.
    async fn ask(&mut self, toolless: bool) -> Result<Reply, Halt> {
        for pause in 1.. {
            let ask = Ask {
                tools: self.talk.offered(),
                schema: self.talk.form(toolless),
                allowed: self.talk.allowed(toolless),
                ..Ask::default()
            };
            let reply = self.scope.ask(&mut self.talk.conversation, ask).await?;
            if reply.finish != "pause" || pause == PAUSES {
                return Ok(reply);
            }
            self.talk.conversation.append(Message {
                role: Role::Assistant,
                content: reply.content,
                issuer: reply.issuer,
            });
        }
        Ok(Reply::default())
    }

    /// Parses a reply, before the rules of the loop are applied.
    fn read(&self, reply: Reply) -> Result<Heard, Broken> {
        if let Some(feedback) = broken(&reply) {
            return Err(Broken::new(&reply.finish, feedback));
        }
        let text = reply.text();
        let calls = reply.calls();
        if !calls.is_empty() {
            let remark = (!text.trim().is_empty()).then(|| Remark {
                content: text.trim().to_owned(),
                ..Remark::default()
            });
            let mut seen = HashSet::new();
            // The same call with the same id was sent twice and counts once.
            let sent = calls
                .iter()
                .filter(|call| call.id.is_empty() || seen.insert(format!("{call:?}")));
            return Ok(Heard::Turn(Turn {
                remark,
                calls: sent.map(|call| read_call(call, &reply.finish)).collect(),
                ..Turn::default()
            }));
        }
        if self.talk.is_plain() {
            return self.read_plain(reply);
        }
        match read_reply(&text, &reply.finish) {
            Read::Turn(turn) => Ok(Heard::Turn(turn)),
            Read::Prose(prose) => self.answered(reply, &prose.text),
            Read::Unparsed(unparsed) if unparsed.reason == "empty" => Err(Broken::new(
                "empty",
                "Your reply was empty. Reply with a thought and an action.",
            )),
            Read::Unparsed(unparsed) => {
                // A typed answer may come without the protocol, but a partial protocol object may
                // not.
                let bare = matches!(unparsed.reason, "no_candidate" | "invalid")
                    && !self.task.output.is_text();
                match serde_json::from_str::<Value>(text.trim()) {
                    Ok(value) if bare && self.task.output.accept(&value).is_ok() => {
                        self.answered(reply, &text)
                    }
                    _ => Err(Broken::new("unreadable", unparsed.feedback)),
                }
            }
        }
    }

    /// Returns the whole text of a reply as the answer.
    fn read_plain(&self, reply: Reply) -> Result<Heard, Broken> {
        if reply.text().trim().is_empty() {
            return Err(Broken::new("empty", EMPTY));
        }
        let read = direct::read(self.task, &reply);
        let answer = read.map_err(|it| Broken::new("output", it.feedback))?.value;
        let text = answer.as_str().unwrap_or_default().to_owned();
        let text = if self.task.output.is_text() {
            &text
        } else {
            ""
        };
        Ok(prose(reply, text, answer))
    }

    /// Accepts a reply without a call as the answer if it has the task's type.
    fn answered(&self, reply: Reply, text: &str) -> Result<Heard, Broken> {
        let accepted = self.task.output.accept(&Value::String(text.to_owned()));
        let answer = accepted.map_err(|error| Broken::new("output", error))?;
        Ok(prose(reply, text, answer))
    }

    /// Applies the rules of the loop to a readable turn.
    async fn check(&mut self, reply: Reply, turn: Turn, toolless: bool) -> Result<Judged, Halt> {
        if !turn.role_violation.is_empty() {
            self.note("role_violation", &turn.role_violation, false)
                .await?;
        }
        if let Some(broken) = unread(&turn) {
            return Ok(Judged::Broken(broken));
        }
        if turn.calls.is_empty() {
            let feedback = "A thought needs an action: reply again with a thought and an action.";
            return Ok(Judged::Broken(Broken::new("R2", feedback)));
        }
        let is_finish = |call: &&Call| call.tool == FINISH;
        let finish = turn.calls.iter().find(is_finish);
        let mut others: Vec<&Call> = turn.calls.iter().filter(|it| !is_finish(it)).collect();
        if toolless && !others.is_empty() {
            let names: Vec<&str> = others.iter().map(|call| call.tool.as_str()).collect();
            self.withdrawn = names.join(", ");
            if finish.is_none() {
                let feedback = "No tool can be used any more: answer with \"tool\": \"finish\".";
                return Ok(Judged::Broken(Broken::new("tools_withdrawn", feedback)));
            }
            let detail = format!("not run: {}", self.withdrawn);
            self.note("tools_withdrawn", &detail, false).await?;
            others.clear();
        }
        let (thought, lacks) = self.demands.judge(self.task, &turn, &others);
        if let (Some(finish), true) = (finish, others.is_empty()) {
            return match self.finish(reply, thought, finish, &turn.repairs) {
                Ok(taken) => self.accept(taken, lacks, toolless).await,
                Err(broken) => Ok(Judged::Broken(broken)),
            };
        }
        // The answer was written before the results of the actions beside it were known.
        if finish.is_some() {
            let detail = "finish beside other actions; not taken";
            self.note("finish_in_batch", detail, false).await?;
        }
        let actions: Vec<Action> = others
            .iter()
            .map(|call| to_action(call, &turn.repairs))
            .collect();
        let taken = Taken {
            kept: without_invention(&reply, &turn),
            actions: doubts_marked(actions, &reply.finish),
            reply,
            thought,
            end: None,
        };
        self.accept(taken, lacks, toolless).await
    }

    fn finish(
        &self,
        reply: Reply,
        thought: Thought,
        finish: &Call,
        whole: &[Repair],
    ) -> Result<Taken, Broken> {
        if !finish.error.is_empty() {
            return Err(Broken::new("output", finish.error.as_str()));
        }
        let mut parameters = finish.parameters.clone();
        let gave_up = parameters.shift_remove("success") == Some(Value::Bool(false));
        // Models often pass the answer's fields directly as parameters.
        let answer = match parameters.get("answer") {
            Some(answer) => answer.clone(),
            None if parameters.is_empty() => Value::Null,
            None => Value::Object(parameters),
        };
        // Prose beside the call may quote the answer or revoke it, so it is recorded.
        let beside: Vec<String> = whole
            .iter()
            .filter(|repair| repair.kind == "beside_prose")
            .map(|repair| repair.kind.to_owned())
            .collect();
        let taken = |answer: Value, written: Value, failed: String| {
            let mut result = Object::from_iter([("answer".to_owned(), written)]);
            if gave_up {
                result.insert("success".to_owned(), Value::Bool(false));
            }
            Taken {
                kept: reply.text(),
                reply: reply.clone(),
                thought: thought.clone(),
                actions: vec![Action {
                    rationale: finish.rationale.clone(),
                    id: finish.id.clone(),
                    repairs: beside.clone(),
                    ..Action::new(FINISH, result)
                }],
                end: Some(End {
                    answer,
                    stop: "final_answer",
                    failed,
                }),
            }
        };
        // The reason for giving up need not have the answer's type.
        if gave_up && !self.task.output.is_text() {
            let why = answer.as_str().unwrap_or(&thought.content).to_owned();
            return Ok(taken(Value::Null, answer, why));
        }
        let answer = if answer.is_null() && self.task.output.is_text() {
            Value::String(String::new())
        } else {
            answer
        };
        match self.task.output.accept(&answer) {
            Ok(accepted) => {
                let failed = if gave_up { GAVE_UP } else { "" };
                Ok(taken(accepted.clone(), accepted, failed.to_owned()))
            }
            Err(error) => {
                let feedback = format!("The answer is not accepted: {error}");
                Err(Broken::new("output", feedback))
            }
        }
    }
}

/// The state of a reply after the rules were applied.
enum Judged {
    Taken(Box<Taken>),
    Broken(Broken),
    /// A usable reply with violations that a strict run refuses.
    Lacking(Vec<Lack>),
}

/// The state of a reply before the rules are applied.
enum Heard {
    Turn(Turn),
    Taken(Box<Taken>),
}

/// Returns the fault of a batch with an unreadable call: a batch runs completely or not at all.
fn unread(turn: &Turn) -> Option<Broken> {
    if turn.calls.len() == 1 {
        return None;
    }
    let errors: Vec<String> = (1..)
        .zip(&turn.calls)
        .filter(|(_, call)| !call.error.is_empty())
        .map(|(number, call)| format!("call {number} ({}): {}", call.tool, call.error))
        .collect();
    if errors.is_empty() {
        return None;
    }
    let faults = errors.join("; ");
    let feedback = format!("No call of the batch was run. {faults}. Send the batch again.");
    Some(Broken::new("unreadable", feedback))
}

/// Converts a call to an action with its repairs.
///
/// Repairs of the whole reply that may have changed a call mark every call.
fn to_action(call: &Call, whole: &[Repair]) -> Action {
    let mut repairs: Vec<String> = Vec::new();
    let mut guessed = false;
    let of_whole = whole.iter().filter(|repair| repair.content);
    for repair in call.repairs.iter().chain(of_whole) {
        if !repairs.iter().any(|kind| kind == repair.kind) {
            repairs.push(repair.kind.to_owned());
        }
        guessed |= repair.content;
    }
    Action {
        tool: call.tool.clone(),
        parameters: call.parameters.clone(),
        rationale: call.rationale.clone(),
        id: call.id.clone(),
        repairs,
        guessed,
        error: call.error.clone(),
    }
}

/// Marks actions that equal an earlier one, and all actions of a reply without an end.
///
/// A reply that ends at a limit may contain only the first part of the intended actions.
fn doubts_marked(actions: Vec<Action>, finish: &str) -> Vec<Action> {
    let endless = finish_of(finish) == "length" || finish == "pause";
    let mut before = HashSet::new();
    actions
        .into_iter()
        .map(|mut action| {
            let repeated = !before.insert(action.fingerprint());
            // An unreadable action does not run in any case.
            if action.error.is_empty() {
                for (doubt, kind) in [(repeated, "repeated_call"), (endless, "open_end")] {
                    if doubt && !action.repairs.iter().any(|it| it == kind) {
                        action.repairs.push(kind.to_owned());
                        action.guessed = true;
                    }
                }
            }
            action
        })
        .collect()
}

/// Returns the reply without invented observations, so that the history never contains them.
fn without_invention(reply: &Reply, turn: &Turn) -> String {
    let text = reply.text();
    let begin: String = turn.role_violation.chars().take(80).collect();
    match text.find(&begin) {
        Some(at) if at > 0 && !begin.is_empty() => text[..at].trim_end().to_owned(),
        _ => text,
    }
}

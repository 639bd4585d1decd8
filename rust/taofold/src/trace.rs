//! The log in readable form: turn by turn, call by call, and the `ReAct` trace.

use std::collections::HashMap;

use crate::events::{Event, Record, Verdict};
use crate::json::{Value, json};
use crate::state::live;
use crate::values::{ASK_USER, Action, FINISH, Observation, Sideeffect, Thought};

/// One action and its progress. Times are milliseconds since the epoch; 0 if there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedCall {
    /// The action, including an approver's edits.
    pub action: Action,
    /// The observation.
    pub observation: Option<Observation>,
    /// The time of the start.
    pub started_at: i64,
    /// The time of the observation.
    pub observed_at: i64,
    /// True if a tool was started.
    pub started: bool,
    /// The approver that changed the parameters; empty for none.
    pub edited_by: String,
    /// The side effect, if the log records one that changes something.
    pub effect: Option<Sideeffect>,
    observed_seq: u64,
}

impl TracedCall {
    /// Returns a call that was not started.
    pub fn new(action: Action) -> Self {
        Self {
            action,
            observation: None,
            started_at: 0,
            observed_at: 0,
            started: false,
            edited_by: String::new(),
            effect: None,
            observed_seq: 0,
        }
    }

    /// Returns true if it was a step of the strategy itself or a reserved action, and not a tool.
    pub fn local(&self) -> bool {
        let refused = |it: &Observation| !it.refused.is_empty();
        let own = !self.started && self.observation.as_ref().is_some_and(|it| !refused(it));
        own || matches!(self.action.tool.as_str(), FINISH | ASK_USER)
    }
}

/// A thought and its batch. In a complete turn, `number` is that of the step.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedTurn {
    /// The number of the turn, from 1.
    pub number: u64,
    /// The key of the effect.
    pub key: String,
    /// The time of the proposal.
    pub at: i64,
    /// The thought that gives the reason.
    pub thought: Thought,
    /// The batch of calls.
    pub calls: Vec<TracedCall>,
    seq: u64,
}

impl TracedTurn {
    /// Returns true if it has an action, and an observation for each action.
    pub fn complete(&self) -> bool {
        !self.calls.is_empty() && self.calls.iter().all(|call| call.observation.is_some())
    }
}

/// Returns the turns that count, numbered from 1.
///
/// Complete turns are in the order in which they closed and have the numbers of their steps. A turn
/// that its branch left open keeps its position; turns still open at the end of the log come last.
pub fn turns(records: &[Record]) -> Vec<TracedTurn> {
    let branch = |key: &str| key.rsplit_once('.').map_or("", |it| it.0).to_owned();
    let mut opened: Vec<TracedTurn> = Vec::new();
    let mut current: HashMap<&str, usize> = HashMap::new();
    let mut last: HashMap<String, u64> = HashMap::new();
    for record in live(records) {
        let event = &record.event;
        if let Event::Proposed(proposed) = event {
            last.insert(branch(&proposed.key), record.seq);
            current.insert(proposed.key.as_str(), opened.len());
            opened.push(TracedTurn {
                number: 0,
                key: proposed.key.clone(),
                at: record.at,
                thought: proposed.thought.clone(),
                calls: proposed
                    .actions
                    .iter()
                    .cloned()
                    .map(TracedCall::new)
                    .collect(),
                seq: record.seq,
            });
            continue;
        }
        let index = event.index().and_then(|index| usize::try_from(index).ok());
        let call = current
            .get(event.key())
            .and_then(|&place| opened.get_mut(place)?.calls.get_mut(index?));
        // An imported log may contain invalid references, which are skipped.
        if let Some(call) = call {
            enter(call, record);
        }
    }
    let place = |turn: &TracedTurn| {
        if turn.complete() {
            let closed = turn.calls.iter().map(|call| call.observed_seq).max();
            return closed.unwrap_or(turn.seq);
        }
        let given_up = last
            .get(&branch(&turn.key))
            .is_some_and(|&seq| turn.seq < seq);
        if given_up { turn.seq } else { u64::MAX }
    };
    opened.sort_by_key(place);
    for (number, turn) in (1..).zip(&mut opened) {
        turn.number = number;
    }
    opened
}

fn enter(call: &mut TracedCall, record: &Record) {
    let edited = match &record.event {
        Event::Decided(event) => event.action.clone().map(|action| (action, event)),
        Event::Resolved(event) => {
            let decided = &event.decided;
            decided.action.clone().map(|action| (action, decided))
        }
        Event::Started(_) | Event::StartedOnce(_) => {
            call.started = true;
            call.started_at = record.at;
            if let Event::StartedOnce(event) = &record.event {
                call.effect = Some(event.effect);
            }
            None
        }
        Event::Observed(event) => {
            call.observation = Some(event.observation.clone());
            call.observed_at = record.at;
            call.observed_seq = record.seq;
            None
        }
        _ => None,
    };
    if let Some((action, decided)) = edited {
        // A void revokes the edit.
        let allowed = decided.verdict == Verdict::Allow;
        call.edited_by = if allowed {
            decided.by.clone()
        } else {
            String::new()
        };
        call.action = action;
    }
}

/// Returns the `ReAct` trace of a run: its complete steps, and its output.
pub fn react_trace(records: &[Record]) -> Value {
    let live = live(records);
    let start = live.iter().find_map(|record| match &record.event {
        Event::RunStarted(event) => Some(event),
        _ => None,
    });
    let end = live.iter().rev().find_map(|record| match &record.event {
        Event::RunFinished(event) => Some(event),
        _ => None,
    });
    let turns = turns(records);
    let complete = turns.iter().filter(|turn| turn.complete());
    let steps: Vec<Value> = complete
        .flat_map(|turn| turn.calls.iter().map(move |call| (turn, call)))
        .filter(|(_, call)| !closes(call))
        .map(|(turn, call)| {
            json!({
                "step": turn.number,
                "thought": turn.thought.content,
                "action": call.action.tool,
                "action_input": call.action.parameters,
                "observation": call.observation.as_ref().map(|it| &it.result),
            })
        })
        .collect();
    let mut answer = end.map_or(Value::Null, |end| end.output.clone());
    if start.is_some_and(|start| start.strategy == "flow")
        && let Some(own) = answer.get("reasoning_answer")
    {
        answer = own.clone();
    }
    match start.filter(|start| !start.goal.is_empty()) {
        Some(start) => json!({"goal": start.goal, "steps": steps, "final_answer": answer}),
        None => json!({"steps": steps, "final_answer": answer}),
    }
}

/// Returns true if the call only ends the work: its answer is in `final_answer`.
fn closes(call: &TracedCall) -> bool {
    match call.action.tool.as_str() {
        FINISH => true,
        "reason.react" | "reason.plan" => call.local(),
        _ => false,
    }
}

//! The state of a run: a fold over its records. There is no other state.
//!
//! [`RunState::apply`] performs one step with constant cost. [`fold`] also skips rewound records.
//! This module does not depend on storage.

use std::collections::{BTreeMap, HashSet};

use crate::content::Message;
use crate::content::Role;
use crate::errors::LogError;
use crate::events::{Event, Observed, Record, Replied, RunStarted};
use crate::json::{Object, Value};
use crate::values::{Action, Observation, Step, Thought, Usage};

/// The state of one action of an open step.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// The action, including an approver's edits.
    pub action: Action,
    /// True if it was started.
    pub started: bool,
    /// The number of starts.
    pub attempts: u64,
    /// The number of activations that ended during the call without recording an end, for example
    /// when killed.
    pub lost: u64,
    /// True if its last start was lost this way. A further start then counts against the limits.
    pub cut: bool,
    /// True if its last decision asks a question during the call.
    asking: bool,
    /// The observation.
    pub observation: Option<Observation>,
    /// The name and value that update the state.
    pub update: Option<(String, Value)>,
}

impl Slot {
    fn new(action: Action) -> Self {
        Self {
            action,
            started: false,
            attempts: 0,
            lost: 0,
            cut: false,
            asking: false,
            observation: None,
            update: None,
        }
    }

    /// Returns true if the call was started, has not ended, and asks no question.
    pub(crate) fn is_at_work(&self) -> bool {
        self.started && self.observation.is_none() && !self.asking
    }
}

/// A step whose last observation is still missing.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenStep {
    /// The thought that gives the reason.
    pub thought: Thought,
    /// One slot for each action.
    pub slots: Vec<Slot>,
}

/// The state of a run after a prefix of its log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunState {
    /// The goal.
    pub goal: String,
    /// `new`, `running`, `waiting`, `finished`, `limited`, `failed` or `cancelled`.
    pub status: Status,
    /// The reason why the run ended.
    pub stop_reason: String,
    /// True if the goal was reached.
    pub success: bool,
    /// The answer.
    pub output: Value,
    /// The answer without masks, if `output` contains masks.
    pub accepted: Value,
    /// The error message.
    pub error: String,
    /// The reason why a waiting run waits.
    pub waiting_for: String,
    /// The start of the run.
    pub started: Option<Box<RunStarted>>,
    /// The active agent.
    pub agent: String,
    /// Variables of the run.
    pub data: Object,
    /// Complete steps.
    pub steps: Vec<Step>,
    /// Open steps by key.
    pub open: BTreeMap<String, OpenStep>,
    /// Model calls, without those answered from a cache.
    pub model_calls: u64,
    /// Started tool calls.
    pub tool_calls: u64,
    /// Started tool calls by tool.
    pub per_tool: BTreeMap<String, u64>,
    /// Model calls of child runs.
    pub child_model_calls: u64,
    /// Tool calls of child runs.
    pub child_tool_calls: u64,
    /// Calls that did not run.
    pub refused_calls: u64,
    /// Consecutive calls that did not run.
    pub refused_row: u64,
    /// Tokens and dollars.
    pub usage: Usage,
    /// Tokens and dollars by model.
    pub usage_by_model: BTreeMap<String, Usage>,
    /// Limits that were reached.
    pub limits_hit: Vec<String>,
    /// The messages of users.
    pub heard: Vec<Message>,
    /// The fencing token.
    pub epoch: u64,
    /// The number of resumes.
    pub wakes: u64,
    /// The number of rewinds.
    pub rewinds: u64,
    /// The time of the last record.
    pub at: i64,
    /// True if a mask replaced a secret in text for the model.
    pub masked: bool,
    /// Milliseconds of activity.
    pub active_ms: u64,
}

/// The status of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status(String);

impl Default for Status {
    fn default() -> Self {
        Self("new".to_owned())
    }
}

impl Status {
    /// Returns the name in the log.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns true if only a resume may follow.
    pub fn ended(&self) -> bool {
        matches!(
            self.0.as_str(),
            "finished" | "limited" | "failed" | "cancelled"
        )
    }

    /// Returns true if elapsed time does not count as activity.
    fn idle(&self) -> bool {
        matches!(self.0.as_str(), "new" | "waiting")
    }

    fn set(&mut self, name: &str) {
        self.0.clear();
        self.0.push_str(name);
    }
}

impl RunState {
    /// Folds one record into the state.
    ///
    /// # Errors
    ///
    /// [`LogError::NoSuchSlot`] if the record belongs to no open step.
    pub fn apply(&mut self, record: &Record) -> Result<(), LogError> {
        let active = self.activity(record);
        match &record.event {
            Event::RunStarted(event) => {
                self.goal.clone_from(&event.goal);
                self.status.set("running");
                self.data.clone_from(&event.data);
                self.masked = event.masked;
                self.started = Some(Box::new(event.clone()));
                self.agent.clone_from(&event.agent);
            }
            Event::HandedOff(event) => {
                self.agent.clone_from(&event.agent);
                self.masked = self.masked || event.masked;
            }
            Event::Replied(event) => self.count_reply(event),
            Event::Charged(event) => self.consume(&event.model, &event.usage),
            Event::Proposed(event) => {
                let slots = event.actions.iter().cloned().map(Slot::new);
                let step = OpenStep {
                    thought: event.thought.clone(),
                    slots: slots.collect(),
                };
                self.open.insert(event.key.clone(), step);
            }
            Event::Decided(event) => {
                self.decide(record, event.action.as_ref(), event.request.is_some())?;
            }
            Event::Resolved(event) => {
                let decided = &event.decided;
                self.decide(record, decided.action.as_ref(), decided.request.is_some())?;
                self.masked |= event.masked;
            }
            Event::Started(event) => self.start(record, event.retry)?,
            Event::StartedOnce(event) => self.start(record, event.retry)?,
            Event::Observed(event) => self.observe(record, event)?,
            Event::Noted(event) => {
                if event.kind == "state" {
                    self.data.extend(event.data.clone());
                }
            }
            Event::Updated(event) => {
                self.data.insert(event.name.clone(), event.value.clone());
            }
            Event::Steered(event) => {
                let message = if event.parts.is_empty() {
                    Message::new(Role::User, event.text.as_str())
                } else {
                    Message::new(Role::User, event.parts.clone())
                };
                self.heard.push(message);
                self.masked |= event.masked;
            }
            Event::LimitHit(event) => self.limits_hit.push(event.limit.clone()),
            Event::Resumed(event) => {
                self.mark_lost_calls(event.epoch);
                self.status.set("running");
                self.epoch = event.epoch;
                self.waiting_for.clear();
                self.wakes += 1;
            }
            Event::Parked(event) => {
                self.status.set("waiting");
                self.waiting_for.clone_from(&event.reason);
            }
            Event::Rewound(_) => self.rewinds += 1,
            Event::RunFinished(event) => {
                self.status.set(&event.status);
                self.stop_reason.clone_from(&event.stop_reason);
                self.success = event.success;
                self.output.clone_from(&event.output);
                self.accepted.clone_from(&event.accepted);
                self.error.clone_from(&event.error);
                self.waiting_for.clear();
            }
            Event::Forked(_)
            | Event::PromptChanged(_)
            | Event::Hooked(_)
            | Event::AskFailed(_)
            | Event::Violated(_)
            | Event::Cut(_)
            | Event::Compacted(_)
            | Event::DecisionRefused(_)
            | Event::Snapshotted(_)
            | Event::Restored(_)
            | Event::Compensated(_) => {}
        }
        self.at = record.at;
        self.active_ms = self.active_ms.saturating_add(active);
        Ok(())
    }

    /// Returns the milliseconds of activity from the previous record to this one.
    fn activity(&self, record: &Record) -> u64 {
        let event = &record.event;
        if matches!(
            event,
            Event::RunStarted(_) | Event::Resumed(_) | Event::Rewound(_)
        ) {
            return 0;
        }
        // A record contains its own time only if the system clock was set.
        if let Some(elapsed) = record.elapsed {
            return elapsed;
        }
        if event.timed() && !self.status.idle() {
            return u64::try_from(record.at.saturating_sub(self.at)).unwrap_or(0);
        }
        0
    }

    fn count_reply(&mut self, event: &Replied) {
        self.model_calls += u64::from(!event.cached);
        self.masked |= event.masked;
        self.consume(&event.model, &event.usage);
    }

    fn consume(&mut self, model: &str, usage: &Usage) {
        self.usage.add(usage);
        let by_model = self.usage_by_model.entry(model.to_owned());
        by_model.or_default().add(usage);
    }

    fn count_child(&mut self, event: &Observed) {
        if let Some((asked, acted)) = event.calls {
            self.child_model_calls = self.child_model_calls.saturating_add(asked);
            self.child_tool_calls = self.child_tool_calls.saturating_add(acted);
        }
        if let Some(usage) = &event.usage {
            self.usage.add(usage);
        }
        for (model, usage) in &event.models {
            self.usage_by_model
                .entry(model.clone())
                .or_default()
                .add(usage);
        }
        for (tool, calls) in &event.tools {
            let count = self.per_tool.entry(tool.clone()).or_default();
            *count = count.saturating_add(*calls);
        }
    }

    fn slot(&mut self, record: &Record) -> Result<&mut Slot, LogError> {
        let (key, index) = (record.event.key(), record.event.index().unwrap_or(0));
        let missing = || LogError::NoSuchSlot {
            tag: record.event.tag(),
            key: key.to_owned(),
            index,
        };
        let step = self.open.get_mut(key).ok_or_else(missing)?;
        let place = usize::try_from(index).map_err(|_| missing())?;
        step.slots.get_mut(place).ok_or_else(missing)
    }

    /// Marks the calls that the previous activation left unfinished.
    ///
    /// An orderly end is recorded, so the status is then no longer `running`. The first owner of a
    /// run has epoch 1 and records no `resumed`.
    fn mark_lost_calls(&mut self, epoch: u64) {
        if self.status.name() != "running" || epoch <= self.epoch.max(1) {
            return;
        }
        let slots = self.open.values_mut().flat_map(|step| &mut step.slots);
        for slot in slots.filter(|slot| slot.is_at_work()) {
            slot.lost += 1;
            slot.cut = true;
        }
    }

    fn decide(
        &mut self,
        record: &Record,
        edited: Option<&Action>,
        asking: bool,
    ) -> Result<(), LogError> {
        let slot = self.slot(record)?;
        slot.asking = asking;
        if let Some(action) = edited {
            slot.action = action.clone();
        }
        self.status.set("running");
        Ok(())
    }

    fn start(&mut self, record: &Record, retry: u64) -> Result<(), LogError> {
        let slot = self.slot(record)?;
        // A call that continues after an orderly stop counts once. A call that is repeated after a
        // failure or a crash counts again.
        let counts = !slot.started || slot.cut || retry > 0;
        slot.started = true;
        slot.cut = false;
        slot.attempts += 1;
        let tool = slot.action.tool.clone();
        if counts {
            self.tool_calls += 1;
            *self.per_tool.entry(tool).or_default() += 1;
            self.refused_row = 0;
        }
        Ok(())
    }

    fn observe(&mut self, record: &Record, event: &Observed) -> Result<(), LogError> {
        let slot = self.slot(record)?;
        slot.observation = Some(event.observation.clone());
        slot.update.clone_from(&event.update);
        if event.observation.refused.is_empty() {
            self.refused_row = 0;
        } else {
            self.refused_calls += 1;
            self.refused_row += 1;
        }
        self.masked |= event.observation.masked;
        self.count_child(event);
        self.close(&event.key);
        Ok(())
    }

    /// Moves the step `key` to the complete steps if every slot has its observation.
    fn close(&mut self, key: &str) {
        let complete = |step: &OpenStep| step.slots.iter().all(|slot| slot.observation.is_some());
        if !self.open.get(key).is_some_and(complete) {
            return;
        }
        let Some(step) = self.open.remove(key) else {
            return;
        };
        let mut actions = Vec::with_capacity(step.slots.len());
        let mut observations = Vec::with_capacity(step.slots.len());
        for slot in step.slots {
            actions.push(slot.action);
            observations.extend(slot.observation);
            // In the order of the batch and not of arrival.
            self.data.extend(slot.update);
        }
        self.steps.push(Step {
            number: self.steps.len() as u64 + 1,
            thought: step.thought,
            actions,
            observations,
        });
    }
}

/// Returns the records that count, without rewound ones.
pub fn live(records: &[Record]) -> Vec<&Record> {
    let mut surviving: Vec<&Record> = Vec::with_capacity(records.len());
    for record in records {
        if let Event::Rewound(event) = &record.event {
            while surviving.last().is_some_and(|last| last.seq > event.to) {
                surviving.pop();
            }
        }
        surviving.push(record);
    }
    surviving
}

/// Returns the state after `records`. A prefix gives an earlier state.
///
/// # Errors
///
/// [`LogError::NoSuchSlot`] if the log was changed.
pub fn fold(records: &[Record]) -> Result<RunState, LogError> {
    let counted = live(records);
    let mut state = RunState::default();
    for record in &counted {
        state.apply(record)?;
    }
    if counted.len() == records.len() {
        return Ok(state);
    }
    // Tokens and dollars of a rewound branch still count.
    let surviving: HashSet<u64> = counted.iter().map(|record| record.seq).collect();
    for record in records.iter().filter(|it| !surviving.contains(&it.seq)) {
        match &record.event {
            Event::Replied(event) => state.count_reply(event),
            Event::Charged(event) => state.consume(&event.model, &event.usage),
            Event::Observed(event) => state.count_child(event),
            _ => {}
        }
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Parked;

    #[test]
    fn an_observation_of_no_open_step_is_an_error() {
        let record = Record {
            run: "r".into(),
            seq: 0,
            at: 0,
            elapsed: None,
            event: Observed::new("1", 0, Observation::default()).into(),
        };
        assert!(matches!(fold(&[record]), Err(LogError::NoSuchSlot { .. })));
    }

    #[test]
    fn a_clock_that_goes_back_adds_no_activity() {
        let record = |seq, at, event: Event| Record {
            run: "r".into(),
            seq,
            at,
            elapsed: None,
            event,
        };
        let records = [
            record(0, 1000, RunStarted::new("go").into()),
            record(1, 10, Parked { reason: "x".into() }.into()),
        ];
        assert_eq!(fold(&records).unwrap().active_ms, 0);
    }
}

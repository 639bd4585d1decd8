//! Recorded results of earlier activations, used instead of external calls.
//!
//! A resume compares requests; an exact replay compares everything. The tape holds the records by
//! the key of each effect. This module does not depend on models or tools.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::errors::{LogError, ReplayDiverged};
use crate::events::{Event, Record, Steered, Violated};
use crate::json::{Value, json};
use crate::runtime::ask::{NAME, RUNTIME};
use crate::state::live;

/// The rules about the form of a reply.
const DEMANDS: [&str; 9] = [
    "R1",
    "R4",
    "thought_type",
    "unclear_intent",
    "missing_reason",
    "missing_rationale",
    "missing_extraction",
    "exception",
    "research_changes_state",
];

type Place = (String, Option<u64>);

/// Returns the kind under which a record is filed. All starts share one kind.
fn kind_of(event: &Event) -> &'static str {
    match event {
        Event::StartedOnce(_) => "started",
        other => other.tag(),
    }
}

/// Returns the branch of an effect and its position in the branch.
fn position(key: &str) -> Result<(&str, i64), LogError> {
    let (branch, place) = key.rsplit_once('.').unwrap_or(("", key));
    let number = place.parse().map_err(|_| LogError::Format {
        message: format!("{key:?} is no place in a run: its log was changed"),
    })?;
    Ok((branch, number))
}

/// Returns the fork around a branch: `3` for `3.1`.
fn around(branch: &str) -> &str {
    branch.rsplit_once('.').map_or("", |(fork, _)| fork)
}

/// The scope of a replay's comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Comparison {
    /// Every derived event, whole.
    #[default]
    Whole,
    /// The fields that the runtimes share, without prompts, digests and texts of one runtime.
    Shared,
}

impl Comparison {
    /// Returns the comparison for a run: `Whole` if only this runtime recorded it.
    pub fn of(records: &[Record]) -> Self {
        let foreign = |record: &Record| match &record.event {
            Event::Replied(event) => !event.prompt.starts_with(RUNTIME),
            Event::Resumed(event) => event.runtime != NAME,
            Event::RunStarted(event) => {
                event.settings.get("runtime").and_then(Value::as_str) != Some(NAME)
            }
            _ => false,
        };
        if records.iter().any(foreign) {
            Self::Shared
        } else {
            Self::Whole
        }
    }
}

/// The names of fields that `docs/log-format.md` leaves to each runtime.
const OWN: [&str; 8] = [
    "prompt",
    "prefix",
    "digest",
    "policy",
    "preview",
    "detail",
    "deciders",
    "expires_at",
];

/// Returns the fields of an event that the runtimes share.
fn shared(event: &Event) -> Value {
    let mut value = crate::json::to_value(event);
    let Value::Object(members) = &mut value else {
        return value;
    };
    members.retain(|name, _| !OWN.contains(&name.as_str()));
    // The kind of refusal and the failure of a strategy's step are shared; the texts are not.
    if let Some(Value::Object(observation)) = members.get_mut("observation") {
        observation.shift_remove("duration_ms");
        let own = observation.get("auto") == Some(&Value::Bool(true));
        let failed = own && observation.get("status") == Some(&json!("failure"));
        if failed || observation.contains_key("refused") {
            observation.retain(|name, _| name == "refused" || name == "status");
        }
    }
    if let Some(Value::Object(thought)) = members.get_mut("thought")
        && thought.contains_key("synthesized")
    {
        thought.shift_remove("content");
    }
    if let Some(Value::Array(actions)) = members.get_mut("actions") {
        for action in actions.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(error) = action.get_mut("error") {
                *error = json!("unread");
            }
        }
    }
    let words: &[&str] = match event {
        Event::RunFinished(_) => &["error"],
        Event::Decided(_) | Event::Resolved(_) => &["reason"],
        _ => &[],
    };
    members.retain(|name, _| !words.contains(&name.as_str()));
    if let Event::Noted(noted) = event
        && let Some(Value::Object(data)) = members.get_mut("data")
    {
        match noted.kind.as_str() {
            "unread" => data.clear(),
            "corrected" => data.retain(|name, _| name != "stopped"),
            _ => {}
        }
    }
    value
}

/// The recorded past of a run.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// True if everything is compared and no model or tool is called.
    pub(super) exact: bool,
    /// True if another runtime recorded the run, so that only shared fields are compared.
    pub(super) shared: bool,
    /// All records, also rewound ones: the state counts their cost.
    order: VecDeque<Record>,
    /// The numbers of rewound records and of the rewinds themselves.
    rewound: HashSet<u64>,
    at: HashMap<Place, HashMap<&'static str, VecDeque<Record>>>,
    steered: Vec<Record>,
    last: HashMap<String, i64>,
    left: HashMap<String, i64>,
}

/// Returns true if another agent than the first continues the run.
fn is_handed_over(event: &Event) -> bool {
    match event {
        Event::HandedOff(_) => true,
        // The agent that was active last in the session.
        Event::RunStarted(event) => event.settings.contains_key("active_agent"),
        _ => false,
    }
}

impl Recording {
    pub(super) fn new(records: &[Record], exact: bool) -> Result<Self, LogError> {
        let mut recording = Self {
            exact,
            order: records.iter().cloned().collect(),
            rewound: records.iter().map(|record| record.seq).collect(),
            ..Self::default()
        };
        for record in live(records) {
            if is_handed_over(&record.event) {
                return Err(LogError::Format {
                    message: "the run was handed over to another agent, which this runtime cannot \
                              do: continue it with the Python runtime"
                        .to_owned(),
                });
            }
            if !matches!(record.event, Event::Rewound(_)) {
                recording.rewound.remove(&record.seq);
            }
            if matches!(record.event, Event::Steered(_)) {
                recording.steered.push(record.clone());
            } else if record.event.derived() {
                let place = (record.event.key().to_owned(), record.event.index());
                recording.count(&place.0, 1)?;
                let kinds = recording.at.entry(place).or_default();
                kinds
                    .entry(kind_of(&record.event))
                    .or_default()
                    .push_back(record.clone());
            }
        }
        Ok(recording)
    }

    /// Counts an effect for every enclosing fork, so that [`behind`](Self::behind) needs no search.
    fn count(&mut self, key: &str, change: i64) -> Result<(), LogError> {
        let mut key = key;
        while !key.is_empty() {
            let (branch, place) = position(key)?;
            let last = self.last.entry(branch.to_owned()).or_insert(-1);
            *last = (*last).max(place);
            *self.left.entry(key.to_owned()).or_default() += change;
            key = around(branch);
        }
        Ok(())
    }

    /// Returns true if every derived event was consumed.
    pub(super) fn used_up(&self) -> bool {
        self.left.values().all(|&left| left <= 0)
    }

    /// Returns the first derived event that was not consumed, in the order of the log.
    pub(super) fn first_left(&self) -> Option<&Event> {
        let queues = self.at.values().flat_map(HashMap::values);
        let first = queues.filter_map(VecDeque::front).min_by_key(|it| it.seq);
        first.map(|record| &record.event)
    }

    /// Returns true if the tape holds an event of this branch at `key` or later.
    pub(super) fn behind(&self, key: &str) -> bool {
        self.holds_more(key, 0)
    }

    /// Returns true if the tape holds more than `beside` events of this branch from `key` on.
    fn holds_more(&self, key: &str, beside: i64) -> bool {
        let Ok((branch, place)) = position(key) else {
            return false;
        };
        let last = self.last.get(branch).copied().unwrap_or(-1);
        place < last || self.left.get(key).copied().unwrap_or(0) > beside
    }

    /// Returns true if the events at `key` are recorded, or if nothing may be added to them.
    pub(super) fn covers(&self, key: &str) -> bool {
        self.exact || self.behind(key)
    }

    /// Returns true if limits at `key` come from the record instead of the current count.
    pub(super) fn settles_limits(&self, key: &str) -> bool {
        // In a fork of a replay, the consumed amounts depend on the order of its branches.
        self.behind(key) && (!self.exact || key.contains('.'))
    }

    fn queue(&self, kind: &str, key: &str, index: Option<u64>) -> Option<&VecDeque<Record>> {
        self.at.get(&(key.to_owned(), index))?.get(kind)
    }

    /// Returns the next recorded event of `kind` at this place and leaves it on the tape.
    pub(super) fn peek(&self, kind: &str, key: &str, index: Option<u64>) -> Option<&Event> {
        let queue = self.queue(kind, key, index)?;
        queue.front().map(|record| &record.event)
    }

    /// Returns the broken rules of form of the reply before `key` and leaves them on the tape.
    ///
    /// The second value is false if the record ends before, within or right after them, so that
    /// the rest is judged now.
    pub(super) fn verdict(&self, key: &str) -> (Vec<Violated>, bool) {
        let queue = self.queue("violated", key, None).into_iter().flatten();
        let broken: Vec<Violated> = queue
            .filter_map(|record| match &record.event {
                Event::Violated(event) if DEMANDS.contains(&event.rule.as_str()) => Some(event),
                _ => None,
            })
            .cloned()
            .collect();
        let is_whole = self.holds_more(key, broken.len() as i64);
        (broken, is_whole)
    }

    /// Takes the next recorded event of `kind` at this place off the tape.
    pub(super) fn take(&mut self, kind: &str, key: &str, index: Option<u64>) -> Option<Record> {
        let kinds = self.at.get_mut(&(key.to_owned(), index))?;
        let record = kinds.get_mut(kind)?.pop_front()?;
        // The key is valid because it was counted when it was put on the tape.
        self.count(key, -1).ok()?;
        Some(record)
    }

    /// Takes all records of one action up to its last start off the tape, in order.
    pub(super) fn take_attempts(&mut self, key: &str, index: u64) -> Vec<Record> {
        let last = self
            .queue("started", key, Some(index))
            .and_then(VecDeque::back)
            .map(|record| record.seq);
        last.map_or_else(Vec::new, |last| self.take_call(key, index, last))
    }

    /// Takes all records of one action up to record `until` off the tape, in order.
    pub(super) fn take_call(&mut self, key: &str, index: u64, until: u64) -> Vec<Record> {
        let mut taken = Vec::new();
        if let Some(kinds) = self.at.get_mut(&(key.to_owned(), Some(index))) {
            for queue in kinds.values_mut() {
                while queue.front().is_some_and(|record| record.seq <= until) {
                    taken.extend(queue.pop_front());
                }
            }
        }
        let count = i64::try_from(taken.len()).unwrap_or(i64::MAX);
        if count > 0 {
            // The key is valid, as in `take`.
            let _ = self.count(key, -count);
        }
        taken.sort_by_key(|record| record.seq);
        taken
    }

    /// Takes the steering messages up to the turn at `key` of its branch off the tape.
    pub(super) fn take_steering(&mut self, key: &str) -> Vec<(u64, Steered)> {
        let Ok((branch, place)) = position(key) else {
            return Vec::new();
        };
        let mut heard = Vec::new();
        self.steered.retain(|record| {
            let Event::Steered(event) = &record.event else {
                return false;
            };
            let here = position(&event.key).is_ok_and(|(own, at)| own == branch && at <= place);
            if here {
                heard.push((record.seq, event.clone()));
            }
            !here
        });
        heard
    }

    /// Takes the records up to `seq` (`None` for all) that the state has not folded yet.
    ///
    /// A rewind after them is included, with the records that it revoked: the next limit counts
    /// their cost.
    pub(super) fn restore(&mut self, seq: Option<u64>) -> Vec<Record> {
        let mut records = Vec::new();
        let rewound = &self.rewound;
        let before = |record: &Record| {
            seq.is_none_or(|seq| record.seq <= seq || rewound.contains(&record.seq))
        };
        while self.order.front().is_some_and(before) {
            records.extend(self.order.pop_front());
        }
        records
    }

    /// Compares a recorded event with the event that this code derives at the same place.
    pub(super) fn compare(&self, recorded: &Event, derived: &Event) -> Result<(), ReplayDiverged> {
        let same = if self.shared {
            shared(recorded) == shared(derived)
        } else if self.exact {
            recorded == derived
        } else {
            same_request(recorded, derived)
        };
        if same {
            return Ok(());
        }
        Err(diverged(derived.key(), Some(recorded), Some(derived)))
    }
}

/// Returns true if two events request the same. Changed wording of a prompt or thought is ignored.
fn same_request(recorded: &Event, derived: &Event) -> bool {
    match (recorded, derived) {
        (Event::Proposed(recorded), Event::Proposed(derived)) => {
            let same = |(a, b): (&crate::values::Action, &crate::values::Action)| {
                a.tool == b.tool && a.parameters == b.parameters
            };
            recorded.key == derived.key
                && recorded.actions.len() == derived.actions.len()
                && recorded.actions.iter().zip(&derived.actions).all(same)
        }
        (recorded, derived) => {
            kind_of(recorded) == kind_of(derived)
                && recorded.key() == derived.key()
                && recorded.index() == derived.index()
        }
    }
}

/// Returns the divergence at `key`.
pub(super) fn diverged(
    key: &str,
    recorded: Option<&Event>,
    requested: Option<&Event>,
) -> ReplayDiverged {
    ReplayDiverged {
        key: key.to_owned(),
        recorded: recorded.cloned().map(Box::new),
        requested: requested.cloned().map(Box::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Noted;
    use crate::json::Object;

    fn note(seq: u64, key: &str) -> Record {
        let event = Noted {
            key: key.to_owned(),
            kind: "x".to_owned(),
            data: Object::new(),
        };
        Record {
            run: "r".to_owned(),
            seq,
            at: 0,
            elapsed: None,
            event: event.into(),
        }
    }

    #[test]
    fn an_effect_inside_a_fork_counts_for_the_fork() {
        let mut recording = Recording::new(&[note(0, "3.1.0")], false).unwrap();
        assert!(recording.behind("3"));
        assert!(recording.behind("2"));
        assert!(!recording.behind("4"));
        assert!(recording.take("noted", "3.1.0", None).is_some());
        assert!(!recording.behind("3"));
        assert!(recording.used_up());
    }

    #[test]
    fn a_key_that_is_no_place_is_an_error() {
        assert!(Recording::new(&[note(0, "3.x")], false).is_err());
    }
}

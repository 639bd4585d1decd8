//! The guard against repetition without progress and against repeating a failed call unchanged.
//!
//! A call is a tool with its parameters. Repeating a call is polling while its result changes, and
//! a loop when the result stays the same. The guard escalates: it refuses the call, then gives the
//! model a turn without tools, then ends the run. It is pure: the same steps give the same
//! judgements.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::LazyLock;

use regex::Regex;

use crate::values::{Action, Observation, ObservationStatus, Step};

const WINDOW: usize = 8;
const ALLOWED: u32 = 3;
const BACKOFF_AFTER: u32 = 3;
const FIRST_BACKOFF_MS: u64 = 50;
const LONGEST_BACKOFF_MS: u64 = 1000;
const MOST_UNTRIED: usize = 8;

/// The volatile parts of a text: UUIDs, times, addresses, temporary paths, durations.
static VOLATILE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
        | \b\d{4}-\d\d-\d\d(?:[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?
        | \b\d\d:\d\d:\d\d(?:[.,]\d+)?\b
        | \b0x[0-9a-fA-F]{4,16}\b
        | /(?:private/)?(?:var/)?tmp/[\w.\-/]+
        | \b\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|sec|secs|seconds|minutes|min)\b",
    )
    .ok()
});

/// The severity of a refusal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// The call may be made.
    #[default]
    Run,
    /// The call is refused.
    Blocked,
    /// The call is refused, and the next turn has no tools.
    Toolless,
    /// The call is refused, and the run ends.
    Stop,
    /// The same call has just failed.
    FailedUnchanged,
}

impl Level {
    /// Returns the value for `Observation::refused`; empty if the call may run.
    pub fn word(self) -> &'static str {
        match self {
            Self::Run => "",
            Self::Blocked => "blocked",
            Self::Toolless => "toolless",
            Self::Stop => "stop",
            Self::FailedUnchanged => "repeat_same_action_unchanged",
        }
    }
}

/// The guard's judgement on one proposed call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The severity.
    pub level: Level,
    /// The reason for a refusal.
    pub reason: String,
    /// The delay before a repeated poll, in milliseconds.
    pub backoff_ms: u64,
}

#[derive(Debug)]
struct Call {
    text: String,
    same: u32,
    count: u32,
}

/// Detects repetition. Pass every step to [`seen`](Self::seen) and every proposed call to
/// [`judge`](Self::judge).
#[derive(Debug, Default)]
pub struct Repetition {
    offered: BTreeSet<String>,
    used: HashSet<String>,
    recent: VecDeque<String>,
    calls: HashMap<String, Call>,
    mutations: HashSet<String>,
    failed: HashMap<String, f64>,
    blocked: usize,
    /// The number of consecutive refused calls, counted over turns in which no call ran.
    pub refused_row: usize,
    /// A hint for the model's next turn.
    pub hint: String,
}

impl Repetition {
    /// Returns a guard; `offered` are the names of the model's tools.
    pub fn new(offered: impl IntoIterator<Item = String>) -> Self {
        Self {
            offered: offered.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns true if the next turn must have no tools.
    pub fn toolless(&self) -> bool {
        self.blocked >= 2
    }

    /// Judges a proposed call. It changes no state.
    ///
    /// `beside` is the number of the same calls that precede this one in its batch.
    pub fn judge(&self, action: &Action, beside: u32) -> Judgement {
        let key = action.fingerprint();
        let tool = &action.tool;
        if self
            .failed
            .get(&key)
            .is_some_and(|&time| action.seconds() <= time)
        {
            return Judgement {
                level: Level::FailedUnchanged,
                reason: format!(
                    "{tool} just failed with exactly these parameters: change something"
                ),
                backoff_ms: 0,
            };
        }
        // Calls outside the window do not count.
        let known = self.calls.get(&key).filter(|_| self.recent.contains(&key));
        let (same, count) = known.map_or((0, 0), |call| (call.same, call.count));
        let same = same.saturating_add(beside);
        if same >= ALLOWED {
            return Judgement {
                level: match self.blocked {
                    0 => Level::Blocked,
                    1 => Level::Toolless,
                    _ => Level::Stop,
                },
                reason: format!(
                    "{tool} was called {same} times with these parameters and returned the same \
                     each time: it will not be run again; use what you know"
                ),
                backoff_ms: 0,
            };
        }
        let backoff_ms = count.checked_sub(BACKOFF_AFTER).map_or(0, |over| {
            (FIRST_BACKOFF_MS << over.min(10)).min(LONGEST_BACKOFF_MS)
        });
        Judgement {
            backoff_ms,
            ..Judgement::default()
        }
    }

    /// Records a complete step. `mutating` are the tools with side effects.
    pub fn seen(&mut self, step: &Step, mutating: &BTreeSet<String>) {
        // Only failures of the last step count: after another step the same call may succeed.
        self.failed.clear();
        self.hint.clear();
        let mut refused = 0;
        for (action, observation) in step.actions.iter().zip(&step.observations) {
            refused += usize::from(!observation.refused.is_empty());
            self.one(action, observation, mutating);
        }
        self.refused_row = if refused == step.actions.len() {
            self.refused_row + refused
        } else {
            0
        };
    }

    fn one(&mut self, action: &Action, observation: &Observation, mutating: &BTreeSet<String>) {
        let key = action.fingerprint();
        self.used.insert(action.tool.clone());
        if matches!(
            observation.refused.as_str(),
            "blocked" | "toolless" | "stop"
        ) {
            self.blocked += 1;
            self.remember(key);
            return;
        }
        if observation.status.failed() {
            self.failed.insert(key.clone(), action.seconds());
        }
        // Only the first time counts: repeating a change is no progress.
        if observation.status == ObservationStatus::Success
            && mutating.contains(&action.tool)
            && self.mutations.insert(key.clone())
        {
            // A change resets the poll counters, because earlier results do not predict the next
            // one.
            self.calls.clear();
            self.blocked = 0;
        }
        let text = if observation.blob.is_empty() {
            crate::json::render(&observation.result)
        } else {
            observation.blob.clone()
        };
        let known = self.recent.contains(&key);
        match self.calls.get_mut(&key).filter(|_| known) {
            None => {
                let first = Call {
                    text,
                    same: 1,
                    count: 1,
                };
                self.calls.insert(key.clone(), first);
            }
            Some(call) => {
                call.count += 1;
                if call.text == text || masked(&call.text) == masked(&text) {
                    call.same += 1;
                    let same = call.same;
                    self.hint = format!(
                        "{} returned the same as before ({same} times). Repeating it brings \
                         nothing new: try something else or finish.{}",
                        action.tool,
                        self.untried()
                    );
                } else {
                    call.text = text;
                    call.same = 1;
                }
            }
        }
        self.remember(key);
    }

    fn remember(&mut self, key: String) {
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(key);
    }

    fn untried(&self) -> String {
        let names: Vec<&str> = self
            .offered
            .iter()
            .filter(|name| !self.used.contains(*name))
            .map(String::as_str)
            .take(MOST_UNTRIED)
            .collect();
        if names.is_empty() {
            return String::new();
        }
        format!(" Tools not used yet: {}.", names.join(", "))
    }
}

/// Returns the text without its volatile parts.
fn masked(text: &str) -> String {
    match VOLATILE.as_ref() {
        Some(pattern) => pattern.replace_all(text, "·").into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Object, Value};
    use crate::values::Thought;

    fn poll() -> Action {
        Action::new("poll", Object::new())
    }

    fn step(result: &str, status: ObservationStatus, refused: &str) -> Step {
        let observation = Observation {
            result: Value::String(result.to_owned()),
            status,
            refused: refused.to_owned(),
            ..Observation::default()
        };
        Step {
            number: 0,
            thought: Thought::default(),
            actions: vec![poll()],
            observations: vec![observation],
        }
    }

    #[test]
    fn the_volatile_pattern_compiles() {
        assert!(VOLATILE.is_some());
        assert_eq!(masked("took 12 ms"), "took ·");
    }

    #[test]
    fn a_call_that_returns_the_same_three_times_is_refused_then_toolless_then_the_end() {
        let mut guard = Repetition::new(["poll".to_owned(), "read".to_owned()]);
        for milliseconds in [3, 4, 5] {
            assert_eq!(guard.judge(&poll(), 0).level, Level::Run);
            let result = format!("nothing, took {milliseconds} ms");
            guard.seen(
                &step(&result, ObservationStatus::Success, ""),
                &BTreeSet::new(),
            );
        }
        assert!(guard.hint.contains("Tools not used yet: read"));
        for level in [Level::Blocked, Level::Toolless, Level::Stop] {
            assert_eq!(guard.judge(&poll(), 0).level, level);
            guard.seen(
                &step("no", ObservationStatus::Failure, level.word()),
                &BTreeSet::new(),
            );
        }
    }

    #[test]
    fn a_poll_whose_result_changes_goes_on() {
        let mut guard = Repetition::default();
        for number in 0..20 {
            assert_eq!(guard.judge(&poll(), 0).level, Level::Run);
            guard.seen(
                &step(&format!("{number} files"), ObservationStatus::Success, ""),
                &BTreeSet::new(),
            );
        }
    }

    #[test]
    fn a_failed_call_is_not_repeated_unchanged_but_with_more_time() {
        let mut guard = Repetition::default();
        guard.seen(
            &step("no", ObservationStatus::Timeout, ""),
            &BTreeSet::new(),
        );
        assert_eq!(guard.judge(&poll(), 0).level, Level::FailedUnchanged);
        let mut longer = poll();
        longer.parameters.insert("timeout_s".into(), 60.into());
        assert_eq!(guard.judge(&longer, 0).level, Level::Run);
    }

    #[test]
    fn a_change_of_the_world_forgives_but_only_the_first_time() {
        let mut guard = Repetition::default();
        let mutating = BTreeSet::from(["poll".to_owned()]);
        for _ in 0..4 {
            guard.seen(&step("same", ObservationStatus::Success, ""), &mutating);
        }
        assert_eq!(guard.judge(&poll(), 0).level, Level::Blocked);
    }
}

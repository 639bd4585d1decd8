//! Limits: independent counters, all checked before the call, with `>=`.

use crate::values::times;
use std::collections::BTreeMap;

use crate::state::RunState;

/// A bound of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Accepted turns.
    Steps,
    /// Calls of models.
    ModelCalls,
    /// Tool calls that were started.
    ToolCalls,
    /// Seconds of activity.
    Seconds,
    /// Input plus output tokens.
    Tokens,
    /// US dollars.
    Usd,
}

impl Limit {
    const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Steps, "steps", "max_steps"),
        (Self::ModelCalls, "model_calls", "max_model_calls"),
        (Self::ToolCalls, "tool_calls", "max_tool_calls"),
        (Self::Seconds, "seconds", "max_seconds"),
        (Self::Tokens, "tokens", "max_tokens"),
        (Self::Usd, "usd", "max_usd"),
    ];

    /// Returns the name in the log.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the `stop_reason` of a run that the limit ended.
    pub fn stop_reason(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Returns the limit with this name in the log.
    pub fn named(name: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|known| known.1 == name);
        known.map(|known| known.0)
    }

    /// Returns the limit of this `stop_reason`.
    pub fn of_stop_reason(reason: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|known| known.2 == reason);
        known.map(|known| known.0)
    }
}

/// Bounds of one run. `None` is unbounded; seconds count activity, not waiting.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Accepted turns.
    pub steps: Option<u64>,
    /// Calls of models; `None`: three more than steps.
    pub model_calls: Option<u64>,
    /// Tool calls that were started.
    pub tool_calls: Option<u64>,
    /// Seconds of activity.
    pub seconds: Option<f64>,
    /// Input plus output tokens.
    pub tokens: Option<u64>,
    /// US dollars.
    pub usd: Option<f64>,
    /// Calls by tool.
    pub per_tool: BTreeMap<String, u64>,
    /// Extra attempts at one unreadable reply.
    pub parse_retries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: Some(10),
            model_calls: None,
            tool_calls: None,
            seconds: None,
            tokens: None,
            usd: None,
            per_tool: BTreeMap::new(),
            parse_retries: 2,
        }
    }
}

/// What calls that were allowed and have not begun will count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Of any tool.
    pub calls: u64,
    /// Of the tool in question.
    pub of_tool: u64,
}

impl Limits {
    /// Returns the model calls that are allowed: three more than steps, if nothing else is said.
    pub fn calls(&self) -> Option<u64> {
        let derived = |steps: u64| if steps == 0 { 0 } else { steps + 3 };
        self.model_calls.or_else(|| self.steps.map(derived))
    }

    /// Returns the limit that forbids another turn; without `turn` another model call.
    pub fn hit(&self, state: &RunState, turn: bool) -> Option<Limit> {
        let steps = state.steps.len() as u64;
        if turn && self.steps.is_some_and(|bound| steps >= bound) {
            return Some(Limit::Steps);
        }
        if self.calls().is_some_and(|bound| self.asked(state) >= bound) {
            return Some(Limit::ModelCalls);
        }
        if self.out_of_time(state) {
            return Some(Limit::Seconds);
        }
        if self
            .tokens
            .is_some_and(|bound| state.usage.tokens() >= bound)
        {
            return Some(Limit::Tokens);
        }
        if self
            .usd
            .is_some_and(|bound| state.usage.priced_usd() >= bound)
        {
            return Some(Limit::Usd);
        }
        None
    }

    /// Returns the limit that makes the coming turn the last one: it is offered without tools.
    pub fn last(&self, state: &RunState) -> Option<Limit> {
        let steps = state.steps.len() as u64;
        if self.steps.is_some_and(|bound| steps + 1 >= bound) {
            return Some(Limit::Steps);
        }
        if self
            .calls()
            .is_some_and(|bound| self.asked(state) + 1 >= bound)
        {
            return Some(Limit::ModelCalls);
        }
        if self.tool_calls.is_some_and(|bound| acted(state) >= bound) {
            return Some(Limit::ToolCalls);
        }
        None
    }

    fn asked(&self, state: &RunState) -> u64 {
        // A bound derived from steps is about this run's own turns; children have their own.
        let children = self.model_calls.map_or(0, |_| state.child_model_calls);
        state.model_calls + children
    }

    /// Returns what forbids one more call of `tool`: the word for it, and why.
    pub fn blocks(
        &self,
        state: &RunState,
        tool: &str,
        allowed: Allowed,
    ) -> Option<(&'static str, String)> {
        if let Some(bound) = self.tool_calls
            && acted(state) + allowed.calls >= bound
        {
            return Some((
                "limit",
                format!("limit reached: {}", times(bound, "tool call")),
            ));
        }
        if let Some(&bound) = self.per_tool.get(tool)
            && state.per_tool.get(tool).copied().unwrap_or(0) + allowed.of_tool >= bound
        {
            let why = format!("limit reached: {} of {tool:?}", times(bound, "call"));
            return Some(("tool_limit", why));
        }
        if let Some(bound) = self.seconds
            && self.out_of_time(state)
        {
            return Some(("time_limit", format!("limit reached: {bound} seconds")));
        }
        None
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a run lasts less than 2^53 milliseconds"
    )]
    fn out_of_time(&self, state: &RunState) -> bool {
        self.seconds
            .is_some_and(|bound| state.active_ms as f64 >= bound * 1000.0)
    }

    /// Returns what was allowed and spent when a limit ended the run, and what to change.
    pub fn explained(&self, limit: Limit, state: &RunState) -> String {
        let change = format!("raise limits.{}", limit.name());
        match limit {
            Limit::Steps => {
                let bound = self.steps.unwrap_or(0);
                format!("{}: {change}", all_used(bound, "step"))
            }
            Limit::ModelCalls => {
                let derived = if self.model_calls.is_some() {
                    ""
                } else {
                    ", 3 more than limits.steps"
                };
                let bound = self.calls().unwrap_or(0);
                format!("{}{derived}: {change}", all_used(bound, "model call"))
            }
            Limit::ToolCalls => {
                let bound = self.tool_calls.unwrap_or(0);
                format!(
                    "{} of {} were used: {change}",
                    acted(state),
                    times(bound, "tool call")
                )
            }
            Limit::Seconds => {
                let bound = self.seconds.unwrap_or(0.0);
                let worked = state.active_ms / 1000;
                format!("it worked for {worked} of {bound} seconds: {change}")
            }
            Limit::Tokens => {
                let bound = self.tokens.unwrap_or(0);
                let spent = state.usage.tokens();
                format!("{spent} of {bound} tokens were spent: {change}")
            }
            Limit::Usd => {
                let bound = self.usd.unwrap_or(0.0);
                format!(
                    "${:.4} of ${bound:.4} was spent: {change}",
                    state.usage.priced_usd()
                )
            }
        }
    }
}

fn all_used(bound: u64, noun: &str) -> String {
    if bound == 1 {
        return format!("the only {noun} was used");
    }
    format!("all {bound} {noun}s were used")
}

fn acted(state: &RunState) -> u64 {
    state.tool_calls + state.child_tool_calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_one_name_and_one_reason() {
        for (limit, name, reason) in Limit::ALL {
            assert_eq!(limit.name(), name);
            assert_eq!(limit.stop_reason(), reason);
            assert_eq!(Limit::named(name), Some(limit));
            assert_eq!(Limit::of_stop_reason(reason), Some(limit));
        }
    }

    #[test]
    fn the_turn_before_the_bound_is_the_last_and_at_the_bound_nothing_is_called() {
        let limits = Limits {
            model_calls: Some(2),
            steps: None,
            ..Limits::default()
        };
        let state = |model_calls| RunState {
            model_calls,
            ..RunState::default()
        };
        assert_eq!(limits.last(&state(0)), None);
        assert_eq!(limits.last(&state(1)), Some(Limit::ModelCalls));
        assert_eq!(limits.hit(&state(1), true), None);
        assert_eq!(limits.hit(&state(2), true), Some(Limit::ModelCalls));
    }

    #[test]
    fn calls_of_children_count_against_a_bound_that_was_set() {
        let state = RunState {
            child_model_calls: 5,
            ..RunState::default()
        };
        let mut limits = Limits {
            steps: Some(1),
            ..Limits::default()
        };
        assert_eq!(limits.hit(&state, false), None);
        limits.model_calls = Some(5);
        assert_eq!(limits.hit(&state, false), Some(Limit::ModelCalls));
    }

    #[test]
    fn calls_that_are_allowed_and_not_begun_count() {
        let limits = Limits {
            tool_calls: Some(2),
            ..Limits::default()
        };
        let allowed = |calls| Allowed { calls, of_tool: 0 };
        let state = RunState::default();
        assert_eq!(limits.blocks(&state, "read", allowed(1)), None);
        let blocked = limits.blocks(&state, "read", allowed(2));
        assert_eq!(blocked.map(|it| it.0), Some("limit"));
    }
}

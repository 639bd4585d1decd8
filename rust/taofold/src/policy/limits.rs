//! Limits: independent counters, all checked before the call, with `>=`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::state::RunState;
use crate::values::times;

/// A bound of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Accepted turns.
    Steps,
    /// Model calls.
    ModelCalls,
    /// Started tool calls.
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

    /// Returns the `stop_reason` of a run that this limit ended.
    pub fn stop_reason(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Returns the limit with this name in the log.
    pub fn named(name: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|known| known.1 == name);
        known.map(|known| known.0)
    }

    /// Returns the limit with this `stop_reason`.
    pub fn of_stop_reason(reason: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|known| known.2 == reason);
        known.map(|known| known.0)
    }
}

/// The bounds of one run. `None` is unbounded. Seconds count activity, not waiting.
///
/// The consumption of child runs counts, except for steps and for model calls that are only derived
/// from steps. A child run records its bounds in this form, as the Python runtime does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Accepted turns.
    pub steps: Option<u64>,
    /// Model calls; `None` allows three more than `steps`.
    pub model_calls: Option<u64>,
    /// Started tool calls.
    pub tool_calls: Option<u64>,
    /// Seconds of activity.
    pub seconds: Option<f64>,
    /// Input plus output tokens.
    pub tokens: Option<u64>,
    /// US dollars.
    pub usd: Option<f64>,
    /// Calls by tool.
    pub per_tool: BTreeMap<String, u64>,
    /// Extra attempts after one unreadable reply.
    pub parse_retries: usize,
    /// The allowed depth of nested agent calls. A child run below -1 is refused.
    pub depth: i64,
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
            depth: 3,
        }
    }
}

/// The amounts that a permitted call or an active child run may still consume.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reserved {
    /// Model calls.
    pub model_calls: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Tokens.
    pub tokens: u64,
    /// US dollars.
    pub usd: f64,
    /// Calls by tool.
    pub per_tool: BTreeMap<String, u64>,
}

impl Reserved {
    /// Returns the amounts of one call of `tool`.
    pub fn call(tool: &str) -> Self {
        Self {
            tool_calls: 1,
            per_tool: BTreeMap::from([(tool.to_owned(), 1)]),
            ..Self::default()
        }
    }

    /// Returns the sum of several reservations.
    pub fn sum<'r>(all: impl IntoIterator<Item = &'r Self>) -> Self {
        let mut whole = Self::default();
        for each in all {
            whole.model_calls = whole.model_calls.saturating_add(each.model_calls);
            whole.tool_calls = whole.tool_calls.saturating_add(each.tool_calls);
            whole.tokens = whole.tokens.saturating_add(each.tokens);
            whole.usd += each.usd;
            for (tool, calls) in &each.per_tool {
                let sum = whole.per_tool.entry(tool.clone()).or_default();
                *sum = sum.saturating_add(*calls);
            }
        }
        whole
    }
}

impl Limits {
    /// Returns the allowed model calls, which default to three more than `steps`.
    pub fn calls(&self) -> Option<u64> {
        let derived = |steps: u64| if steps == 0 { 0 } else { steps + 3 };
        self.model_calls.or_else(|| self.steps.map(derived))
    }

    /// Returns the limit that forbids another turn or, without `turn`, another model call.
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

    /// Returns the limit that makes the next turn the last one, which has no tools.
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
        // A bound derived from steps covers only this run's own turns; child runs have their own.
        let children = self.model_calls.map_or(0, |_| state.child_model_calls);
        state.model_calls + children
    }

    /// Returns the limit that forbids another model call while child runs may still consume
    /// `beside`.
    pub fn hit_beside(&self, state: &RunState, beside: &Reserved) -> Option<Limit> {
        if self
            .model_calls
            .is_some_and(|bound| self.asked(state).saturating_add(beside.model_calls) >= bound)
        {
            return Some(Limit::ModelCalls);
        }
        if self
            .tokens
            .is_some_and(|bound| state.usage.tokens().saturating_add(beside.tokens) >= bound)
        {
            return Some(Limit::Tokens);
        }
        if self
            .usd
            .is_some_and(|bound| state.usage.priced_usd() + beside.usd >= bound)
        {
            return Some(Limit::Usd);
        }
        None
    }

    /// Returns the bound of a limit, or `None` if it has none.
    pub fn bound(&self, limit: Limit) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "bounds are compared, not added")]
        let count = |bound: Option<u64>| bound.map(|it| it as f64);
        match limit {
            Limit::Steps => count(self.steps),
            Limit::ModelCalls => count(self.model_calls),
            Limit::ToolCalls => count(self.tool_calls),
            Limit::Seconds => self.seconds,
            Limit::Tokens => count(self.tokens),
            Limit::Usd => self.usd,
        }
    }

    /// Returns the remaining bounds for a child run, of which `among` start at once.
    ///
    /// `beside` is the amount that active calls may still consume, so that the sum stays within the
    /// bound. Counts are rounded up, so the first of several child runs gets the remainder.
    pub fn left(&self, state: &RunState, beside: &Reserved, among: u64) -> Self {
        let among = among.max(1);
        let share = |bound: u64, gone: u64| bound.saturating_sub(gone).div_ceil(among);
        #[expect(clippy::cast_precision_loss, reason = "few branches run at once")]
        let parts = among as f64;
        #[expect(clippy::cast_precision_loss, reason = "a run lasts less than 2^53 ms")]
        let worked = state.active_ms as f64 / 1000.0;
        let of_tool = |tool: &String| {
            let begun = state.per_tool.get(tool).copied().unwrap_or(0);
            begun.saturating_add(beside.per_tool.get(tool).copied().unwrap_or(0))
        };
        let per_tool = self
            .per_tool
            .iter()
            .map(|(tool, bound)| (tool.clone(), share(*bound, of_tool(tool))));
        let asked = self.asked(state).saturating_add(beside.model_calls);
        let begun = acted(state).saturating_add(beside.tool_calls);
        let tokens = state.usage.tokens().saturating_add(beside.tokens);
        let usd = state.usage.priced_usd() + beside.usd;
        Self {
            // Passed on without sharing, because a child's turns are its own.
            steps: self.steps,
            model_calls: self.model_calls.map(|bound| share(bound, asked)),
            tool_calls: self.tool_calls.map(|bound| share(bound, begun)),
            seconds: self.seconds.map(|bound| (bound - worked).max(0.0)),
            tokens: self.tokens.map(|bound| share(bound, tokens)),
            usd: self.usd.map(|bound| (bound - usd).max(0.0) / parts),
            per_tool: per_tool.collect(),
            parse_retries: self.parse_retries,
            depth: self.depth.saturating_sub(1),
        }
    }

    /// Returns the bounds as the reservation of a child run. Unbounded amounts reserve nothing.
    pub fn reserved(&self) -> Reserved {
        Reserved {
            model_calls: self.model_calls.unwrap_or(0),
            tool_calls: self.tool_calls.unwrap_or(0),
            tokens: self.tokens.unwrap_or(0),
            usd: self.usd.unwrap_or(0.0),
            per_tool: self.per_tool.clone(),
        }
    }

    /// Returns the tighter bound of both for each limit.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        fn tighter<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(if one <= other { one } else { other }),
                (one, other) => one.or(other),
            }
        }
        let mut per_tool = self.per_tool.clone();
        for (tool, bound) in &other.per_tool {
            let own = per_tool.entry(tool.clone()).or_insert(*bound);
            *own = (*own).min(*bound);
        }
        Self {
            steps: tighter(self.steps, other.steps),
            model_calls: tighter(self.model_calls, other.model_calls),
            tool_calls: tighter(self.tool_calls, other.tool_calls),
            seconds: tighter(self.seconds, other.seconds),
            tokens: tighter(self.tokens, other.tokens),
            usd: tighter(self.usd, other.usd),
            per_tool,
            parse_retries: self.parse_retries,
            depth: self.depth.min(other.depth),
        }
    }

    /// Returns the limit that forbids one more call of `tool` beside the active ones, and the
    /// reason.
    pub fn blocks(
        &self,
        state: &RunState,
        tool: &str,
        beside: &Reserved,
    ) -> Option<(&'static str, String)> {
        if let Some(bound) = self.tool_calls
            && acted(state).saturating_add(beside.tool_calls) >= bound
        {
            return Some((
                "limit",
                format!("limit reached: {}", times(bound, "tool call")),
            ));
        }
        if let Some(&bound) = self.per_tool.get(tool)
            && state
                .per_tool
                .get(tool)
                .copied()
                .unwrap_or(0)
                .saturating_add(beside.per_tool.get(tool).copied().unwrap_or(0))
                >= bound
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

    /// Returns a message with the allowed and consumed amounts and the setting to change.
    ///
    /// `place` names the owner of the limit if it is not obvious.
    pub fn explained(&self, limit: Limit, state: &RunState, place: &str) -> String {
        let change = format!("raise limits.{}{place}", limit.name());
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
        let allowed = |calls| Reserved {
            tool_calls: calls,
            ..Reserved::default()
        };
        let state = RunState::default();
        assert_eq!(limits.blocks(&state, "read", &allowed(1)), None);
        let blocked = limits.blocks(&state, "read", &allowed(2));
        assert_eq!(blocked.map(|it| it.0), Some("limit"));
    }

    #[test]
    fn children_that_start_at_once_keep_the_bound_together() {
        let limits = Limits {
            model_calls: Some(8),
            tool_calls: Some(5),
            usd: Some(1.0),
            per_tool: BTreeMap::from([("read".to_owned(), 3)]),
            ..Limits::default()
        };
        let state = RunState {
            model_calls: 1,
            child_tool_calls: 1,
            ..RunState::default()
        };
        let first = limits.left(&state, &Reserved::default(), 2);
        assert_eq!((first.model_calls, first.tool_calls), (Some(4), Some(2)));
        assert_eq!((first.steps, first.depth), (Some(10), 2));
        let second = limits.left(&state, &first.reserved(), 1);
        assert_eq!((second.model_calls, second.tool_calls), (Some(3), Some(2)));
        assert_eq!(first.per_tool["read"] + second.per_tool["read"], 3);
        assert_eq!((first.usd, second.usd), (Some(0.5), Some(0.5)));
    }

    #[test]
    fn a_child_gets_the_tighter_of_its_own_bounds_and_its_callers() {
        let own = Limits {
            steps: Some(4),
            tokens: Some(10),
            ..Limits::default()
        };
        let caller = Limits {
            steps: None,
            tokens: Some(7),
            depth: 0,
            per_tool: BTreeMap::from([("read".to_owned(), 1)]),
            ..Limits::default()
        };
        let both = own.within(&caller);
        assert_eq!((both.steps, both.tokens, both.depth), (Some(4), Some(7), 0));
        assert_eq!(both.per_tool["read"], 1);
    }
}

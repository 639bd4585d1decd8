//! The actions of one step, its batch, from `Proposed` to the last `Observed`.
//!
//! Every action passes the stages refused → ruled on → (asked about) → started → observed. Each
//! stage appends an event. After a crash between two stages, the log shows the next activation
//! which calls may be repeated.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};

use crate::effects::{Act, Resolution};
use crate::events::{
    Decided, Event, Noted, Observed, Proposed, Started, StartedOnce, Verdict, Violated,
};
use crate::json::{Object, Value, json, render, to_value};
use crate::policy::{Facts, Level, MARK, Ruling, Tier, has_mask, is_masked};
use crate::runtime::approvals::{Asked, Question, Settled};
use crate::runtime::child::{self, Parent, Subagent};
use crate::runtime::ledger::{Interrupt, Ledger, Place};
use crate::text::{excerpt, key_line};
use crate::tools::{CallContext, Tool};
use crate::values::{
    ASK_USER, Action, FINISH, Observation, ObservationStatus, Sideeffect, Step, ThoughtType,
};

/// The values of `Observation::refused` for calls that a limit forbids.
const LIMIT_REFUSALS: [&str; 3] = ["limit", "tool_limit", "time_limit"];

/// The number of activations that may end during a harmless call before an approval is required.
const MOST_LOST: u64 = 3;
/// The maximum number of characters of a result in the log and the prompt. Longer results are cut
/// to an excerpt.
const LONGEST_RESULT: usize = 16_000;
/// The repair of a parameter from which a secret was removed.
const ALTERED: &str = "a secret was taken out";

struct Ready {
    index: usize,
    tool: Arc<dyn Tool>,
    /// True if the start is recorded, as for a child run that continues.
    begun: bool,
}

struct Batch<'a, 'b> {
    ledger: &'a Ledger<'b>,
    key: &'a str,
    act: Act,
    observations: Vec<Option<Observation>>,
    ready: Vec<Ready>,
    fingerprints: Vec<String>,
    pause_ms: u64,
    /// Questions that were asked before their call's turn.
    asked: HashMap<usize, Asked>,
}

pub(super) async fn perform(
    ledger: &Ledger<'_>,
    key: &str,
    act: Act,
) -> Result<Resolution, Interrupt> {
    let act = redacted(ledger, key, act);
    let count = act.actions.len();
    let mut batch = Batch {
        ledger,
        key,
        act,
        observations: vec![None; count],
        ready: Vec::new(),
        fingerprints: Vec::new(),
        pause_ms: 0,
        asked: HashMap::new(),
    };
    let performed = batch.perform().await;
    ledger.book().allowed.retain(|(place, _), _| place != key);
    performed?;
    let observations: Vec<Observation> = batch.observations.into_iter().flatten().collect();
    if !batch.act.planned {
        let step = Step {
            number: 0,
            thought: batch.act.thought,
            actions: batch.act.actions,
            observations: observations.clone(),
        };
        let tools = &ledger.setup.tools;
        let mutates = |name: &&str| {
            tools
                .get(name)
                .is_some_and(|tool| tool.effect() != Sideeffect::Read)
        };
        let mutating: BTreeSet<String> = tools.names().filter(mutates).map(str::to_owned).collect();
        ledger
            .book()
            .guard(key, ledger.setup)
            .seen(&step, &mutating);
    }
    Ok(Resolution::Observations(observations))
}

/// Removes secrets from a step.
///
/// An action is marked as altered if a parameter lost a secret, or if it contains a mask for a
/// secret that the model does not see.
fn redacted(ledger: &Ledger<'_>, key: &str, act: Act) -> Act {
    let redactor = &ledger.setup.redactor;
    let masked = {
        let book = ledger.book();
        // A call of this step may have masked a secret since; the record holds the state at that
        // time.
        match book.recording.peek("proposed", key, None) {
            Some(Event::Proposed(event)) => {
                let altered = |action: &Action| action.repairs.iter().any(|it| it == ALTERED);
                event.actions.iter().any(altered)
            }
            _ => book.state.masked,
        }
    };
    let text = |text: String| redactor.text(&text).into_owned();
    let action = |action: Action| {
        let before = to_value(&action.parameters).to_string();
        let parameters = redactor.object(action.parameters);
        let whole = Value::Object(parameters.clone());
        let lost = is_masked(&before, &whole.to_string()) || (masked && has_mask(&whole));
        let reserved = matches!(action.tool.as_str(), FINISH | ASK_USER);
        let mut action = Action {
            parameters,
            rationale: text(action.rationale),
            ..action
        };
        // An answer may lose a secret; any other action must not run with a mask in its parameters.
        if lost && !reserved && !action.repairs.iter().any(|it| it == ALTERED) {
            action.repairs.push(ALTERED.to_owned());
            action.guessed = true;
        }
        action
    };
    let observation = |observation: Observation| redacted_observation(ledger, observation);
    let mut thought = act.thought;
    thought.content = text(thought.content);
    Act {
        thought,
        actions: act.actions.into_iter().map(action).collect(),
        local: act
            .local
            .into_iter()
            .map(|it| it.map(observation))
            .collect(),
        planned: act.planned,
    }
}

/// Removes secrets from an observation.
fn redacted_observation(ledger: &Ledger<'_>, observation: Observation) -> Observation {
    let redactor = &ledger.setup.redactor;
    Observation {
        result: redactor.value(observation.result),
        extraction: redactor.text(&observation.extraction).into_owned(),
        ..observation
    }
}

/// Removes secrets from a tool's result, reports whether it contained any, and limits its length.
fn redacted_result(ledger: &Ledger<'_>, observation: Observation) -> Observation {
    let before = to_value(&observation).to_string();
    let mut clean = redacted_observation(ledger, observation);
    clean.masked = clean.masked || is_masked(&before, &to_value(&clean).to_string());
    let mut text = render(&clean.result);
    if text.chars().nth(LONGEST_RESULT).is_some() {
        text = excerpt(&text, LONGEST_RESULT);
        clean.result = Value::String(text.clone());
        clean.cut = true;
    }
    // After redaction, because a key line could end inside a secret.
    if clean.extraction.is_empty() {
        let line = key_line(&text, clean.status.failed());
        clean.extraction = if line.is_empty() {
            "(empty)".to_owned()
        } else {
            line
        };
        clean.auto = true;
    }
    clean
}

/// Converts an index of a batch to its form in the log.
fn place(index: usize) -> u64 {
    index as u64
}

impl Batch<'_, '_> {
    async fn perform(&mut self) -> Result<(), Interrupt> {
        // Recorded before any judgement, so that a crash in between leaves the whole batch open.
        self.ledger.put(Proposed {
            key: self.key.to_owned(),
            thought: self.act.thought.clone(),
            actions: self.act.actions.clone(),
        })?;
        for index in 0..self.act.actions.len() {
            if let Some(observation) = self.act.local.get_mut(index).and_then(Option::take) {
                self.observe(index, observation)?;
            } else if self.recall(index)? {
                continue;
            } else if self.act.actions[index].tool == ASK_USER {
                self.run_ready().await?;
                self.ask_user(index).await?;
            } else {
                self.consider(index).await?;
            }
        }
        self.run_ready().await
    }

    /// Takes the recorded observation on resume. Returns true if there is one.
    ///
    /// It is kept even if the current code would decide differently.
    fn recall(&mut self, index: usize) -> Result<bool, Interrupt> {
        let mut book = self.ledger.book();
        let recording = &mut book.recording;
        if recording.exact
            || recording
                .peek("observed", self.key, Some(place(index)))
                .is_none()
        {
            return Ok(false);
        }
        for record in recording.take_call(self.key, place(index), u64::MAX) {
            book.restore(Some(record.seq))?;
            match record.event {
                Event::Observed(event) => self.observations[index] = Some(event.observation),
                Event::Resolved(event) => self.edit(index, event.decided.action),
                Event::Decided(event) => self.edit(index, event.action),
                _ => {}
            }
        }
        Ok(true)
    }

    fn edit(&mut self, index: usize, edited: Option<Action>) {
        if let Some(action) = edited {
            self.act.actions[index] = action;
        }
    }

    async fn consider(&mut self, index: usize) -> Result<(), Interrupt> {
        let action = self.act.actions[index].clone();
        let tool = self.ledger.setup.tools.get(&action.tool).cloned();
        let tool = match self.fit(&action, tool) {
            Ok(tool) => tool,
            Err(refused) => return self.observe(index, *refused),
        };
        if !self.act.planned
            && let Some(refused) = self.judge(&action)?
        {
            return self.observe(index, refused);
        }
        if let Err(why) = tool.check(&action.parameters) {
            return self.observe(index, Observation::refused(why, "invalid"));
        }
        let begun = match self.earlier_start(index, &action, &tool).await? {
            Earlier::Answered => return Ok(()),
            Earlier::Started => false,
            Earlier::Delegated => true,
            Earlier::None => {
                if !self.ruled(index, &action, &tool).await? || self.over_limit(index, &action)? {
                    return Ok(());
                }
                false
            }
        };
        self.ready.push(Ready { index, tool, begun });
        Ok(())
    }

    /// Returns the tool of an action that can be ruled on, or the observation that refuses the
    /// action.
    fn fit(
        &self,
        action: &Action,
        tool: Option<Arc<dyn Tool>>,
    ) -> Result<Arc<dyn Tool>, Box<Observation>> {
        if !action.error.is_empty() {
            return Err(Box::new(Observation::refused(
                action.error.clone(),
                "malformed",
            )));
        }
        let Some(tool) = tool else {
            let names: Vec<&str> = self.ledger.setup.tools.names().collect();
            let names = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            let why = format!("unknown tool '{}'; available tools: {names}", action.tool);
            return Err(Box::new(Observation::refused(why, "unknown")));
        };
        let altered = action.repairs.iter().any(|it| it == ALTERED);
        if altered && tool.effect() != Sideeffect::Read {
            return Err(Box::new(Observation::refused(
                masked_words(action),
                "masked",
            )));
        }
        let facts = self.facts(tool.as_ref());
        let tier = self.ledger.setup.policy.tier(tool.name(), &facts);
        // An agent with side effects may call tools whose calls must not be repeated.
        let once = tool.effect() == Sideeffect::Once
            || (facts.delegated && tool.effect() != Sideeffect::Read);
        if action.guessed && (once || tier >= Tier::Confirm) {
            let repairs = action.repairs.join(", ");
            let why = format!(
                "the parameters of {} were not well-formed ({repairs}) and it must not run on \
                 guessed parameters: send the action again, exactly",
                action.tool
            );
            return Err(Box::new(Observation::refused(why, "guessed")));
        }
        Ok(tool)
    }

    /// Asks the repetition guard. Returns the observation for a call that it refuses.
    fn judge(&mut self, action: &Action) -> Result<Option<Observation>, Interrupt> {
        let fingerprint = action.fingerprint();
        let beside = self
            .fingerprints
            .iter()
            .filter(|it| **it == fingerprint)
            .count();
        let judgement = {
            let mut book = self.ledger.book();
            let guard = book.guard(self.key, self.ledger.setup);
            guard.judge(action, u32::try_from(beside).unwrap_or(u32::MAX))
        };
        if judgement.level == Level::Run {
            self.fingerprints.push(fingerprint);
            self.pause_ms = self.pause_ms.max(judgement.backoff_ms);
            return Ok(None);
        }
        let word = judgement.level.word();
        let rule = if judgement.level == Level::FailedUnchanged {
            word
        } else {
            "repetition"
        };
        self.ledger.put(Violated {
            key: self.key.to_owned(),
            rule: rule.to_owned(),
            detail: judgement.reason.clone(),
            ..Violated::default()
        })?;
        Ok(Some(Observation::refused(judgement.reason, word)))
    }

    /// Handles, on resume, a call that an earlier activation started and that may have run.
    async fn earlier_start(
        &mut self,
        index: usize,
        action: &Action,
        tool: &Arc<dyn Tool>,
    ) -> Result<Earlier, Interrupt> {
        let attempts = {
            let mut book = self.ledger.book();
            let recording = &mut book.recording;
            if recording.exact
                || recording
                    .peek("started", self.key, Some(place(index)))
                    .is_none()
            {
                return Ok(Earlier::None);
            }
            let taken = recording.take_attempts(self.key, place(index));
            let mut starts = 0;
            for record in taken {
                book.restore(Some(record.seq))?;
                starts += u64::from(matches!(
                    record.event,
                    Event::Started(_) | Event::StartedOnce(_)
                ));
            }
            starts
        };
        // The recorded past ends here: the record shows how often the call was lost.
        self.ledger.touch(self.key)?;
        if self.agent_of(tool.name()).is_some() {
            // A child run finds its progress in its own log.
            return Ok(Earlier::Delegated);
        }
        let (lost, cut) = {
            let book = self.ledger.book();
            let slots = book.state.open.get(self.key).map(|step| &step.slots);
            let slot = slots.and_then(|slots| slots.get(index));
            slot.map_or((0, false), |slot| (slot.lost, slot.cut))
        };
        let reason = if tool.effect() == Sideeffect::Once {
            "it was started and nobody knows whether it happened: done, not done (allow), or skip \
             (deny)?"
                .to_owned()
        } else if lost >= MOST_LOST {
            format!(
                "it was at work {lost} times when the process of the run ended: start it again?"
            )
        } else {
            String::new()
        };
        if !reason.is_empty() {
            let question = Question {
                key: self.key,
                index: place(index),
                action,
                tool: Some(tool),
                tier: u64::from(u8::from(tool.tier())),
                reason,
                attempt: attempts,
                doubt: true,
            };
            let asked = question.ask(self.ledger)?;
            match question.settle(self.ledger, asked, || None).await? {
                Settled::Run(edited) => self.edit(index, edited),
                Settled::Answered(observation) => {
                    self.observe(index, *observation)?;
                    return Ok(Earlier::Answered);
                }
            }
        }
        // A start that replaces a lost one counts against the limits.
        if cut && let Some(why) = self.blocked(index, action) {
            let text = format!(
                "{} was started before an interruption and may have happened; {why}",
                action.tool
            );
            self.observe(index, Observation::failure(text))?;
            return Ok(Earlier::Answered);
        }
        Ok(Earlier::Started)
    }

    fn blocked(&self, index: usize, action: &Action) -> Option<String> {
        let book = self.ledger.book();
        let limits = &self.ledger.setup.limits;
        let beside = book.beside(&(self.key.to_owned(), place(index)));
        let blocked = limits.blocks(&book.state, &action.tool, &beside);
        blocked.map(|(_, why)| why)
    }

    fn agent_of(&self, tool: &str) -> Option<&Arc<dyn Subagent>> {
        self.ledger.setup.agents.get(tool)
    }

    fn facts(&self, tool: &dyn Tool) -> Facts {
        Facts {
            tier: tool.tier(),
            effect: tool.effect(),
            role: tool.declared().role.clone(),
            delegated: self.agent_of(tool.name()).is_some(),
        }
    }

    fn rule(&self, action: &Action, tool: &Arc<dyn Tool>) -> Ruling {
        let setup = self.ledger.setup;
        let thought = &self.act.thought;
        let critical = thought.critical && thought.kind == ThoughtType::Exception;
        let facts = self.facts(tool.as_ref());
        setup
            .policy
            .rule(action, &facts, &setup.principal, critical)
    }

    fn question<'b>(
        &self,
        index: usize,
        action: &'b Action,
        tool: &'b Arc<dyn Tool>,
        ruling: Ruling,
    ) -> Question<'b>
    where
        Self: 'b,
    {
        Question {
            key: self.key,
            index: place(index),
            action,
            tool: Some(tool),
            tier: u64::from(u8::from(ruling.tier)),
            reason: ruling.reason,
            attempt: 0,
            doubt: false,
        }
    }

    /// Asks now about every later call that needs an approval, so that approvers see them together.
    ///
    /// Each call is ruled on again at its turn.
    fn ask_ahead(&mut self, index: usize) -> Result<(), Interrupt> {
        let recorded = |kind: &'static str, index: usize| {
            let book = self.ledger.book();
            let found = book.recording.peek(kind, self.key, Some(place(index)));
            found.is_some()
        };
        // A question that was asked and answered alone belongs to the past; its batch continues the
        // same way.
        if recorded("resolved", index) {
            return Ok(());
        }
        for later in index + 1..self.act.actions.len() {
            let action = self.act.actions[later].clone();
            if action.tool == ASK_USER {
                // The user's answer may affect the remaining calls.
                return Ok(());
            }
            let own = matches!(self.act.local.get(later), Some(Some(_)));
            if own
                || ["started", "observed"]
                    .into_iter()
                    .any(|kind| recorded(kind, later))
            {
                continue;
            }
            let tool = self.ledger.setup.tools.get(&action.tool).cloned();
            let Ok(tool) = self.fit(&action, tool) else {
                continue;
            };
            if tool.check(&action.parameters).is_err() || !self.passes_guard(later, &action) {
                continue;
            }
            let ruling = self.rule(&action, &tool);
            if ruling.verdict == Verdict::Ask {
                let asked = self
                    .question(later, &action, &tool, ruling)
                    .ask(self.ledger)?;
                self.asked.insert(later, asked);
            }
        }
        Ok(())
    }

    /// Returns true if the repetition guard permits a later call of the batch.
    fn passes_guard(&self, index: usize, action: &Action) -> bool {
        if self.act.planned {
            return true;
        }
        let fingerprint = action.fingerprint();
        let before = self.act.actions[..index].iter();
        let beside = before.filter(|it| it.fingerprint() == fingerprint).count();
        let beside = u32::try_from(beside).unwrap_or(u32::MAX);
        let mut book = self.ledger.book();
        let guard = book.guard(self.key, self.ledger.setup);
        guard.judge(action, beside).level == Level::Run
    }

    /// Applies the policy and obtains an approval if required. Returns true if the call may run.
    async fn ruled(
        &mut self,
        index: usize,
        action: &Action,
        tool: &Arc<dyn Tool>,
    ) -> Result<bool, Interrupt> {
        let ruling = self.rule(action, tool);
        self.overrule(index, &ruling)?;
        let tier = u64::from(u8::from(ruling.tier));
        if ruling.verdict == Verdict::Ask {
            self.run_ready().await?;
            let asked = self.asked.remove(&index);
            let question = self.question(index, action, tool, ruling);
            let asked = match asked {
                Some(asked) => asked,
                None => {
                    let asked = question.ask(self.ledger)?;
                    self.ask_ahead(index)?;
                    asked
                }
            };
            let rule = || Some(self.rule(action, tool));
            return match question.settle(self.ledger, asked, rule).await? {
                Settled::Run(edited) => {
                    self.edit(index, edited);
                    Ok(true)
                }
                Settled::Answered(observation) => {
                    let denied = observation.refused == "denied";
                    let reason = crate::json::render(&observation.result);
                    self.observe(index, *observation)?;
                    if denied {
                        self.stop_on_denial(reason)?;
                    }
                    Ok(false)
                }
            };
        }
        self.ledger.put(Decided {
            tier,
            reason: ruling.reason.clone(),
            ..Decided::new(self.key, place(index), ruling.verdict)
        })?;
        if ruling.verdict == Verdict::Allow {
            return Ok(true);
        }
        let reason = ruling.reason;
        self.observe(index, Observation::refused(reason.clone(), "denied"))?;
        self.stop_on_denial(reason).map(|()| false)
    }

    /// Ends the run if `stop_on_denial` is set. The denied action is observed first, so that the
    /// call is closed.
    fn stop_on_denial(&self, reason: String) -> Result<(), Interrupt> {
        if self.ledger.setup.stop_on_denial {
            return Err(Interrupt::Denied(reason));
        }
        Ok(())
    }

    /// Discards, on resume, the verdict on a call that has not started if the policy has changed
    /// its ruling.
    fn overrule(&self, index: usize, ruling: &Ruling) -> Result<(), Interrupt> {
        let mut book = self.ledger.book();
        if book.recording.exact {
            return Ok(());
        }
        let index = Some(place(index));
        let other = match book.recording.peek("decided", self.key, index) {
            Some(Event::Decided(event)) => event.verdict != ruling.verdict,
            _ => false,
        };
        if !other {
            return Ok(());
        }
        for kind in ["decided", "resolved"] {
            while let Some(record) = book.recording.take(kind, self.key, index) {
                book.restore(Some(record.seq))?;
            }
        }
        Ok(())
    }

    /// Refuses the action if a limit forbids the call; otherwise counts the call as allowed.
    fn over_limit(&mut self, index: usize, action: &Action) -> Result<bool, Interrupt> {
        let blocked = {
            let mut book = self.ledger.book();
            match settled_limit(&book.recording, self.key, place(index)) {
                Some(settled) => settled,
                None => {
                    let call = (self.key.to_owned(), place(index));
                    let beside = book.beside(&call);
                    let limits = &self.ledger.setup.limits;
                    let blocked = limits.blocks(&book.state, &action.tool, &beside);
                    if blocked.is_none() {
                        book.allowed.insert(call, action.tool.clone());
                    }
                    blocked.map(|(word, why)| Observation::refused(why, word))
                }
            }
        };
        match blocked {
            Some(refused) => self.observe(index, refused).map(|()| true),
            None => Ok(false),
        }
    }

    /// Performs the reserved action `ask_user`: the run waits for the user's answer.
    async fn ask_user(&mut self, index: usize) -> Result<(), Interrupt> {
        let action = self.act.actions[index].clone();
        let asked = action.parameters.get("question").and_then(Value::as_str);
        let asked = asked.unwrap_or_default();
        let question = Question {
            key: self.key,
            index: place(index),
            action: &action,
            tool: None,
            tier: u64::from(u8::from(Tier::Card)),
            reason: asked.to_owned(),
            attempt: 0,
            doubt: false,
        };
        let asked = question.ask(self.ledger)?;
        let observation = match question.settle(self.ledger, asked, || None).await? {
            Settled::Run(_) => Observation::auto(Value::String("yes".to_owned()), "yes"),
            Settled::Answered(observation) => *observation,
        };
        self.observe(index, observation)
    }

    /// Starts all permitted calls concurrently and waits for all of them.
    async fn run_ready(&mut self) -> Result<(), Interrupt> {
        let ready = std::mem::take(&mut self.ready);
        if ready.is_empty() {
            return Ok(());
        }
        self.slow_down().await?;
        // All starts are recorded before the first call begins, so that a crash leaves each one in
        // doubt.
        for call in &ready {
            self.begin(call)?;
        }
        if self.recorded_results(&ready)? {
            return Ok(());
        }
        self.ledger.touch(self.key)?;
        self.ledger.flush().await?;
        let calls = ready.iter().map(|call| self.call(call));
        let mut interrupts = Vec::new();
        for (call, ended) in ready.iter().zip(join_all(calls).await) {
            match ended {
                Ok(observed) => self.observe_as(call.index, observed)?,
                Err(interrupt) => interrupts.push(interrupt),
            }
        }
        self.ledger.flush().await?;
        // An error precedes a wait: a run that has failed must not be parked.
        interrupts.sort_by_key(|it| matches!(it, Interrupt::Park(_)));
        interrupts.into_iter().next().map_or(Ok(()), Err)
    }

    async fn slow_down(&mut self) -> Result<(), Interrupt> {
        let milliseconds = std::mem::take(&mut self.pause_ms);
        if milliseconds == 0 {
            return Ok(());
        }
        let replayed = {
            let book = self.ledger.book();
            book.recording.peek("noted", self.key, None).is_some()
        };
        self.ledger.put(Noted {
            key: self.key.to_owned(),
            kind: "backoff".to_owned(),
            data: Object::from_iter([("ms".to_owned(), json!(milliseconds))]),
        })?;
        if !replayed {
            let clock = &self.ledger.setup.clock;
            clock.sleep(Duration::from_millis(milliseconds)).await;
        }
        Ok(())
    }

    fn begin(&self, call: &Ready) -> Result<(), Interrupt> {
        let index = place(call.index);
        let key = self.key.to_owned();
        if self.agent_of(call.tool.name()).is_some() {
            self.ledger.book().queue.insert((key.clone(), index));
        }
        if call.begun {
            return Ok(());
        }
        let started: Event = match call.tool.effect() {
            Sideeffect::Read => Started {
                key,
                index,
                kept: Value::Null,
                retry: 0,
            }
            .into(),
            effect => StartedOnce {
                key,
                index,
                kept: Value::Null,
                retry: 0,
                effect,
            }
            .into(),
        };
        self.ledger.put(started)?;
        // The state's count includes the call from now on.
        self.ledger
            .book()
            .allowed
            .remove(&(self.key.to_owned(), index));
        Ok(())
    }

    /// Takes the recorded results in an exact replay.
    fn recorded_results(&mut self, ready: &[Ready]) -> Result<bool, Interrupt> {
        let mut missing = false;
        for call in ready {
            let index = place(call.index);
            let mut book = self.ledger.book();
            if !book.recording.exact {
                return Ok(false);
            }
            let Some(record) = book.recording.take("observed", self.key, Some(index)) else {
                // The other calls of the batch may have ended while this one, a child run, waited.
                missing = true;
                continue;
            };
            // A later activation may have started the call and asked about it again.
            for later in book.recording.take_call(self.key, index, u64::MAX) {
                book.restore(Some(later.seq))?;
            }
            book.restore(Some(record.seq))?;
            if let Event::Observed(event) = record.event {
                self.observations[call.index] = Some(event.observation);
            }
        }
        if missing {
            self.ledger.touch(self.key)?;
        }
        Ok(!missing)
    }

    async fn call(&self, call: &Ready) -> Result<Observed, Interrupt> {
        match self.agent_of(call.tool.name()) {
            Some(agent) => self.delegate(call, agent.as_ref()).await,
            None => Ok(self.call_tool(call).await),
        }
    }

    /// Runs the agent behind a tool as a child run, or resumes it, within the remaining limits.
    async fn delegate(&self, call: &Ready, agent: &dyn Subagent) -> Result<Observed, Interrupt> {
        let (ledger, index) = (self.ledger, place(call.index));
        let at: Place = (self.key.to_owned(), index);
        let Some(log) = ledger.log() else {
            return Err(Interrupt::EndOfTape);
        };
        let setup = ledger.setup;
        let (limits, run) = {
            let mut book = ledger.book();
            book.queue.remove(&at);
            // Computed before this call reserves its own share, which would count against itself.
            let (beside, among) = (book.beside(&at), book.sharing(self.key));
            let limits = setup.limits.left(&book.state, &beside, among);
            book.reserved.insert(at.clone(), limits.reserved());
            let rewinds = book.state.rewinds;
            (
                limits,
                child::child_id(&ledger.run, self.key, index, rewinds),
            )
        };
        let goal = self.act.actions[call.index].parameters.get("goal");
        let goal = goal.and_then(Value::as_str).unwrap_or_default();
        let began = setup.clock.steady_ms();
        let ended = if limits.depth < 0 {
            let deep = setup.depth;
            let why = format!("limit reached: agents call agents at most {deep} deep");
            Ok(Observed::new(
                self.key,
                index,
                Observation::refused(why, "tool_limit"),
            ))
        } else {
            let parent = Parent {
                run: &ledger.run,
                setup,
                limits,
            };
            let state = child::descend(log, agent, goal, &run, parent).await;
            state.map_err(Interrupt::from).and_then(|state| {
                if state.status.name() == "waiting" {
                    return Err(Interrupt::Park(state.waiting_for));
                }
                Ok(child::observed(self.key, index, agent.name(), &run, state))
            })
        };
        if let Err(Interrupt::Park(_)) = &ended {
            // The share stays reserved because the child run continues. A run is not parked while
            // its inbox holds messages that the model has not read.
            ledger.read_inbox().await?;
            ledger.record_steering(self.key)?;
            return ended;
        }
        ledger.book().reserved.remove(&at);
        let mut observed = ended?;
        observed.observation = redacted_result(ledger, observed.observation);
        #[expect(clippy::cast_precision_loss, reason = "a call lasts less than 2^53 ms")]
        let duration_ms = setup.clock.steady_ms().saturating_sub(began) as f64;
        observed.observation.duration_ms = duration_ms;
        Ok(observed)
    }

    async fn call_tool(&self, call: &Ready) -> Observed {
        let action = &self.act.actions[call.index];
        let clock = &self.ledger.setup.clock;
        let run = &self.ledger.run;
        let data = self.ledger.book().state.data.clone();
        let context =
            CallContext::new(run, format!("{run}/{}/{}", self.key, call.index)).with_data(data);
        let updated = context.clone();
        let began = clock.steady_ms();
        let work = call.tool.call(action.parameters.clone(), context);
        let seconds = action.seconds();
        let observation = if seconds > 0.0 && seconds.is_finite() {
            let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            match select(work, clock.sleep(limit)).await {
                Either::Left((observation, _)) => observation,
                Either::Right(_) => Observation {
                    status: ObservationStatus::Timeout,
                    ..Observation::failure(format!("{} took longer than {seconds} s", action.tool))
                },
            }
        } else {
            work.await
        };
        #[expect(clippy::cast_precision_loss, reason = "a call lasts less than 2^53 ms")]
        let duration_ms = clock.steady_ms().saturating_sub(began) as f64;
        let observation = Observation {
            duration_ms,
            ..observation
        };
        let update = updated.update().map(|(name, value)| {
            let redactor = &self.ledger.setup.redactor;
            (redactor.text(&name).into_owned(), redactor.value(value))
        });
        let observation = redacted_result(self.ledger, observation);
        Observed {
            update,
            ..Observed::new(self.key, place(call.index), observation)
        }
    }

    fn observe(&mut self, index: usize, observation: Observation) -> Result<(), Interrupt> {
        self.observe_as(index, Observed::new(self.key, place(index), observation))
    }

    fn observe_as(&mut self, index: usize, observed: Observed) -> Result<(), Interrupt> {
        let call = (self.key.to_owned(), place(index));
        {
            let mut book = self.ledger.book();
            book.allowed.remove(&call);
            // The recorded observation is the text that the model received, which another runtime
            // may have written.
            let told = match book.recording.peek("observed", self.key, Some(call.1)) {
                Some(Event::Observed(recorded)) => recorded.observation.clone(),
                _ => observed.observation.clone(),
            };
            self.observations[index] = Some(told);
        }
        self.ledger.put(observed).map(drop)
    }
}

/// Returns the reason why a call with side effects does not run with a mask in its parameters.
fn masked_words(action: &Action) -> String {
    format!(
        "{} was not called: its parameters hold a secret, or {MARK}, which stands for one that you \
         are not shown. Nothing was changed. Send the call without it: edit the text around it, \
         read it from the environment, or ask a person to put it there",
        action.tool
    )
}

/// The recorded state of a call.
enum Earlier {
    /// The call has no record.
    None,
    /// The call was started and may be started again.
    Started,
    /// A child run was started and is resumed.
    Delegated,
    /// The call has an observation.
    Answered,
}

/// Returns the recorded outcome of the limits for a call in a fork that is replayed, where the
/// order of branches decides it.
#[expect(
    clippy::option_option,
    reason = "not settled, or settled with or without a refusal"
)]
fn settled_limit(
    recording: &crate::runtime::recording::Recording,
    key: &str,
    index: u64,
) -> Option<Option<Observation>> {
    if !recording.settles_limits(key) {
        return None;
    }
    if recording.peek("started", key, Some(index)).is_some() {
        return Some(None);
    }
    match recording.peek("observed", key, Some(index)) {
        Some(Event::Observed(event))
            if LIMIT_REFUSALS.contains(&event.observation.refused.as_str()) =>
        {
            Some(Some(event.observation.clone()))
        }
        _ => None,
    }
}

//! Approvals: recorded as questions and answered through the run's inbox.
//!
//! The record of the question is the approval. It is bound to a digest of the tool, its exact
//! arguments and its definition, to the policy's version and to the preview. If any of these
//! changes, the approval is void and the question is asked once more. Until the answer arrives, the
//! run exists only as rows in the log.

use std::sync::Arc;

use blake2::digest::consts::{U10, U16};
use blake2::{Blake2b, Digest};

use crate::content::hex;
use crate::events::{Decided, DecisionRefused, Event, Resolved, Verdict};
use crate::json::{Value, canonical, json};
use crate::log::Signal;
use crate::policy::{Ruling, is_masked};
use crate::runtime::ledger::{Interrupt, Ledger};
use crate::tools::{Tool, definition};
use crate::values::{ASK_USER, Action, Observation};

/// The reason for a wait while a question is open.
pub(super) const AWAITING_APPROVAL: &str = "awaiting_approval";
/// The reason for a wait while the model's own question is open.
pub(super) const AWAITING_INPUT: &str = "awaiting_input";
/// The maximum number of characters of a preview.
const PREVIEW: usize = 100_000;

/// Returns the digest to which an approval of `action` is bound.
pub fn digest(action: &Action, tool: Option<&dyn Tool>) -> String {
    let definition = tool.map_or_else(String::new, definition);
    let bound = json!([action.tool, action.parameters, definition]);
    hex(&Blake2b::<U10>::digest(canonical(&bound)))
}

/// Returns the beginning of a long preview with a mark that shows prompts that it is cut.
///
/// The digest distinguishes texts that differ after the cut.
fn shorten(shown: String) -> String {
    let Some((cut, _)) = shown.char_indices().nth(PREVIEW) else {
        return shown;
    };
    let more = shown[cut..].chars().count();
    let whole = hex(&Blake2b::<U16>::digest(&shown));
    format!(
        "{} [… cut: {more} more characters, digest {whole}]",
        &shown[..cut]
    )
}

/// A question about one action.
pub(super) struct Question<'a> {
    pub(super) key: &'a str,
    pub(super) index: u64,
    pub(super) action: &'a Action,
    pub(super) tool: Option<&'a Arc<dyn Tool>>,
    pub(super) tier: u64,
    pub(super) reason: String,
    /// The number of earlier starts of the call.
    pub(super) attempt: u64,
    /// True if the question is about the outcome of an interrupted call.
    pub(super) doubt: bool,
}

/// A question on record: the record's number and the event.
pub(super) type Asked = (u64, Decided);

/// The decision of an approver.
pub(super) enum Settled {
    /// The call may start, with the approver's edits if there are any.
    Run(Option<Action>),
    /// The observation that answers the call.
    Answered(Box<Observation>),
}

impl Question<'_> {
    /// Returns the answer to a recorded question. If an approval is void, `rule` judges the action
    /// again, and the question is asked again.
    ///
    /// # Errors
    ///
    /// [`Interrupt::Park`] if there is no answer yet.
    pub(super) async fn settle(
        &self,
        ledger: &Ledger<'_>,
        (mut seq, mut asked): Asked,
        rule: impl Fn() -> Option<Ruling>,
    ) -> Result<Settled, Interrupt> {
        loop {
            let resolved = self.resolve(ledger, seq, &asked).await?;
            if resolved.decided.verdict != Verdict::Void {
                return Ok(self.consequence(resolved));
            }
            match rule().map(|ruling| (ruling.verdict, ruling.reason)) {
                Some((Verdict::Deny, reason)) => {
                    let refused = Observation::refused(reason, "denied");
                    return Ok(Settled::Answered(Box::new(refused)));
                }
                Some((Verdict::Allow, _)) => return Ok(Settled::Run(None)),
                _ => (seq, asked) = self.ask(ledger)?,
            }
        }
    }

    fn digest(&self, action: &Action) -> String {
        digest(action, self.tool.map(AsRef::as_ref))
    }

    /// Records the question, or finds its record.
    pub(super) fn ask(&self, ledger: &Ledger<'_>) -> Result<Asked, Interrupt> {
        let setup = ledger.setup;
        let recorded = {
            let book = ledger.book();
            let decided = book.recording.peek("decided", self.key, Some(self.index));
            match decided {
                Some(Event::Decided(event)) if event.verdict == Verdict::Ask => Some(event.clone()),
                _ => None,
            }
        };
        let derived = Decided {
            tier: self.tier,
            reason: self.reason.clone(),
            digest: self.digest(self.action),
            ..Decided::new(self.key, self.index, Verdict::Ask)
        };
        let event = match &recorded {
            // The preview and the times come from outside; the count comes from the log.
            Some(event) => Decided {
                expires_at: event.expires_at,
                policy: event.policy.clone(),
                preview: event.preview.clone(),
                attempt: event.attempt,
                deciders: event.deciders.clone(),
                ..derived
            },
            None => Decided {
                expires_at: self.expires_at(ledger),
                policy: setup.policy.version(),
                preview: self.preview(ledger),
                attempt: self.attempt,
                deciders: self
                    .tool
                    .map(|tool| setup.policy.deciders(tool.name(), &tool.declared().role)),
                ..derived
            },
        };
        let seq = ledger.put(event.clone())?;
        // The recorded question is the one that was shown. The current digest is compared at its
        // use.
        Ok((seq, recorded.unwrap_or(event)))
    }

    fn expires_at(&self, ledger: &Ledger<'_>) -> u64 {
        let seconds = ledger.setup.policy.approve_seconds;
        if seconds <= 0.0 {
            return 0;
        }
        let now = u64::try_from(ledger.setup.clock.now_ms()).unwrap_or_default();
        let open = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
        now.saturating_add(u64::try_from(open.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the current preview of the call.
    fn preview(&self, ledger: &Ledger<'_>) -> String {
        let shown = match self.tool {
            Some(tool) => tool.preview(&self.action.parameters),
            None => crate::tools::call_line(&self.action.tool, &self.action.parameters),
        };
        shorten(ledger.setup.redactor.text(&shown).into_owned())
    }

    /// Returns the outcome of the question from the record, the inbox or the clock.
    async fn resolve(
        &self,
        ledger: &Ledger<'_>,
        seq: u64,
        asked: &Decided,
    ) -> Result<Resolved, Interrupt> {
        if let Some(recorded) = self.recorded(ledger) {
            ledger.put(recorded.clone())?;
            // A void directly follows the decision that it revokes.
            if let Some(void) = self.recorded(ledger)
                && void.decided.verdict == Verdict::Void
            {
                ledger.put(void.clone())?;
                return Ok(void);
            }
            return self.void_if_changed(ledger, asked, recorded);
        }
        ledger.touch(self.key)?;
        // The question is durable before an answer can refer to its number.
        ledger.flush().await?;
        ledger.read_inbox().await?;
        let resolved = match self.posted(ledger, seq, asked)? {
            Some(resolved) => Some(resolved),
            None => self.expiry(ledger, asked),
        };
        let Some(resolved) = resolved else {
            // A run is not parked while its inbox holds messages that the model has not read.
            ledger.record_steering(self.key)?;
            let waits_for = if self.action.tool == ASK_USER {
                AWAITING_INPUT
            } else {
                AWAITING_APPROVAL
            };
            return Err(Interrupt::Park(waits_for.to_owned()));
        };
        ledger.put(resolved.clone())?;
        self.void_if_changed(ledger, asked, resolved)
    }

    fn recorded(&self, ledger: &Ledger<'_>) -> Option<Resolved> {
        let book = ledger.book();
        match book.recording.peek("resolved", self.key, Some(self.index)) {
            Some(Event::Resolved(event)) => Some(event.clone()),
            _ => None,
        }
    }

    fn expiry(&self, ledger: &Ledger<'_>, asked: &Decided) -> Option<Resolved> {
        let now = u64::try_from(ledger.setup.clock.now_ms()).unwrap_or_default();
        let expired = asked.expires_at > 0 && now > asked.expires_at;
        expired.then(|| Resolved::new(self.resolution(asked, Verdict::Expired, "clock")))
    }

    fn resolution(&self, asked: &Decided, verdict: Verdict, by: &str) -> Decided {
        Decided {
            by: by.to_owned(),
            tier: asked.tier,
            digest: asked.digest.clone(),
            attempt: asked.attempt,
            ..Decided::new(self.key, self.index, verdict)
        }
    }

    /// Returns the first usable decision in the inbox about record `seq`. Refuses the others.
    fn posted(
        &self,
        ledger: &Ledger<'_>,
        seq: u64,
        asked: &Decided,
    ) -> Result<Option<Resolved>, Interrupt> {
        let about_this = |message: &Signal| {
            matches!(message.kind.as_str(), "decide" | "answer")
                && message.data.get("seq").and_then(Value::as_u64) == Some(seq)
        };
        loop {
            let message = ledger.book().consume(about_this);
            let Some(message) = message else {
                return Ok(None);
            };
            match self.read(ledger, &message, asked) {
                Ok(resolved) => return Ok(Some(resolved)),
                Err(why) => ledger.append(DecisionRefused {
                    id: format!("{}:{seq}", ledger.run),
                    by: ledger.setup.redactor.text(&message.by).into_owned(),
                    why,
                    at: u64::try_from(message.at).unwrap_or_default(),
                })?,
            }
        }
    }

    /// Parses a message. Its sender was checked when it was posted; the checks possible here are
    /// repeated.
    fn read(
        &self,
        ledger: &Ledger<'_>,
        message: &Signal,
        asked: &Decided,
    ) -> Result<Resolved, String> {
        let setup = ledger.setup;
        let text = |name: &str| message.data.get(name).and_then(Value::as_str);
        let nobody_else = match &asked.deciders {
            Some(deciders) => deciders.others.is_empty() && setup.policy.approvers.is_empty(),
            None => setup.policy.approvers.is_empty(),
        };
        if message.by.starts_with("agent:") {
            return Err("an agent may not approve".to_owned());
        }
        if message.by != setup.principal.id && nobody_else {
            let owner = &setup.principal.id;
            return Err(format!("not yours to decide: the run belongs to {owner:?}"));
        }
        if text("digest").is_some_and(|digest| digest != asked.digest) {
            return Err("the decision is about another action than was shown".to_owned());
        }
        let verdict = match text("verdict").unwrap_or("allow") {
            "allow" => Verdict::Allow,
            "deny" => Verdict::Deny,
            "done" => Verdict::Done,
            other => return Err(format!("a decision is allow, deny or done, not {other:?}")),
        };
        let words = text("text").or_else(|| text("reason")).unwrap_or_default();
        let reason = setup.redactor.text(words).into_owned();
        let by = setup.redactor.text(&message.by);
        let was_masked = message.data.get("masked") == Some(&Value::Bool(true));
        let masked = was_masked || is_masked(words, &reason);
        let decided = Decided {
            reason,
            ..self.resolution(asked, verdict, &by)
        };
        let mut resolved = Resolved {
            masked,
            ..Resolved::new(decided)
        };
        let edited = message.data.get("parameters").and_then(Value::as_object);
        if let (Some(parameters), Verdict::Allow) = (edited, verdict) {
            // After redaction the call would run with parameters that differ from the approved
            // ones.
            if setup.redactor.object(parameters.clone()) != *parameters {
                resolved.decided.verdict = Verdict::Deny;
                "edited parameters may hold no secret, and a log keeps none"
                    .clone_into(&mut resolved.decided.reason);
                return Ok(resolved);
            }
            let action = Action {
                parameters: parameters.clone(),
                ..self.action.clone()
            };
            resolved.decided.digest = self.digest(&action);
            resolved.decided.action = Some(action);
        }
        Ok(resolved)
    }

    /// Checks an approval directly before its use.
    fn void_if_changed(
        &self,
        ledger: &Ledger<'_>,
        asked: &Decided,
        resolved: Resolved,
    ) -> Result<Resolved, Interrupt> {
        // Only an approval is bound; a denial remains valid after any change.
        let exact = ledger.book().recording.exact;
        let Some(tool) = self
            .tool
            .filter(|_| resolved.decided.verdict == Verdict::Allow && !exact)
        else {
            return Ok(resolved);
        };
        let edited = resolved.decided.action.as_ref();
        let changed = if self.digest(self.action) != asked.digest {
            "the tool or its parameters changed after the approval was asked for".to_owned()
        } else if ledger.setup.policy.version() != asked.policy {
            "the policy changed after the approval was asked for".to_owned()
        } else if self.preview(ledger) != asked.preview {
            // The shown content can change, for example the file of a diff.
            "what the call would do changed after a person was shown it".to_owned()
        } else if let Some(Err(wrong)) = edited.map(|it| tool.check(&it.parameters)) {
            format!("edited parameters: {wrong}")
        } else {
            return Ok(resolved);
        };
        let void = Resolved::new(Decided {
            reason: changed,
            // A void edit is revoked: the question is about the original action.
            action: edited.map(|_| self.action.clone()),
            digest: self.digest(self.action),
            ..self.resolution(asked, Verdict::Void, "runtime")
        });
        ledger.put(void.clone())?;
        Ok(void)
    }

    fn consequence(&self, resolved: Resolved) -> Settled {
        let answered = |observation| Settled::Answered(Box::new(observation));
        if self.action.tool == ASK_USER {
            let said = if resolved.decided.reason.is_empty() {
                "(no answer)".to_owned()
            } else {
                resolved.decided.reason.clone()
            };
            return answered(Observation::auto(
                Value::String(said),
                resolved.decided.reason,
            ));
        }
        let because = if resolved.decided.reason.is_empty() {
            String::new()
        } else {
            format!(": {}", resolved.decided.reason)
        };
        let by = &resolved.decided.by;
        match resolved.decided.verdict {
            Verdict::Allow => Settled::Run(resolved.decided.action),
            Verdict::Done => answered(Observation {
                result: Value::String("a person says that it had already happened".to_owned()),
                extraction: "done".to_owned(),
                ..Observation::default()
            }),
            Verdict::Expired => answered(Observation::refused("approval expired", "expired")),
            _ if self.doubt => {
                let text =
                    format!("skipped by {by}: it may or may not have happened before{because}");
                answered(Observation::refused(text, "denied"))
            }
            _ => answered(Observation::refused(
                format!("denied by {by}{because}"),
                "denied",
            )),
        }
    }
}

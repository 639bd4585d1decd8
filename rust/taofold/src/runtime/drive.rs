//! The drive: performs the effects of a strategy, one after another, until the strategy returns.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;

use crate::content::{Content, Message, Part, Role, TextPart};
use crate::effects::{Assess, Coroutine, Effect, Lack, Note, Outlook, Resolution, Resumed};
use crate::errors::Error;
use crate::events::{Compacted, Event, LimitHit, Noted, Steered, Violated};
use crate::json::{Object, Value};
use crate::policy::{Limit, is_masked};
use crate::runtime::ledger::{Interrupt, Ledger};
use crate::runtime::{act, ask};

/// The number of consecutive refused calls after which the run must answer.
const REFUSED_ROW: usize = 3;

type Driven<'s, T> = Pin<Box<dyn Future<Output = Result<T, Interrupt>> + Send + 's>>;

impl Ledger<'_> {
    /// Drives `strategy` until it returns. The keys of its effects are `prefix` and a number.
    pub(super) fn drive<'s, T: Send + 'static>(
        &'s self,
        mut strategy: Coroutine<T>,
        prefix: String,
    ) -> Driven<'s, T> {
        Box::pin(async move {
            let mut position = 0_u64;
            let mut resumed = strategy.start()?;
            loop {
                let effect = match resumed {
                    Resumed::Complete(result) => return Ok(result),
                    Resumed::Yielded(effect) => effect,
                };
                let key = format!("{prefix}{position}");
                // A note has no key of its own, so a new note does not shift other effects.
                if let Effect::Note(note) = effect {
                    self.note(&key, note)?;
                    resumed = strategy.resume(Resolution::Done)?;
                    continue;
                }
                if let Effect::Assess(verdict) = effect {
                    let verdict = Resolution::Assessed(self.assessed(&key, verdict));
                    resumed = strategy.resume(verdict)?;
                    continue;
                }
                match self.resolve(&key, effect).await {
                    Ok(resolution) => resumed = strategy.resume(resolution)?,
                    Err(Interrupt::Halt(halt)) => {
                        return match strategy.resume(Resolution::Halt(halt))? {
                            Resumed::Complete(result) => Ok(result),
                            Resumed::Yielded(_) => Err(Error::EffectAfterHalt.into()),
                        };
                    }
                    Err(interrupt) => return Err(interrupt),
                }
                position += 1;
            }
        })
    }

    async fn resolve(&self, key: &str, effect: Effect) -> Result<Resolution, Interrupt> {
        match effect {
            Effect::Begin => self.begin(key).await.map(Resolution::Outlook),
            Effect::Ask(effect) => ask::perform(self, key, *effect).await,
            Effect::Act(effect) => act::perform(self, key, *effect).await,
            Effect::Fork(branches) => self.fork(key, branches).await,
            Effect::Note(note) => self.note(key, note).map(|()| Resolution::Done),
            Effect::Assess(verdict) => Ok(Resolution::Assessed(self.assessed(key, verdict))),
        }
    }

    /// Opens a turn: collects steering messages, limits that are near, and the guard's hints.
    async fn begin(&self, key: &str) -> Result<Outlook, Interrupt> {
        let mut heard = self.recorded_steering(key)?;
        // A recorded turn does not receive messages that arrived later.
        if !self.book().recording.covers(key) {
            self.touch(key)?;
            self.read_inbox().await?;
            heard.extend(self.record_steering(key)?);
        }
        let (hit, last) = self.limits(key)?;
        let mut book = self.book();
        let guard = book.guard(key, self.setup);
        Ok(Outlook {
            heard,
            wrap_up: last.map_or_else(String::new, |limit| limit.stop_reason().to_owned()),
            stop: hit.map_or_else(String::new, |limit| limit.stop_reason().to_owned()),
            hint: guard.hint.clone(),
            toolless: guard.toolless() || guard.refused_row >= REFUSED_ROW,
        })
    }

    fn recorded_steering(&self, key: &str) -> Result<Vec<Message>, Interrupt> {
        let mut book = self.book();
        let steering = book.recording.take_steering(key);
        let mut heard = Vec::with_capacity(steering.len());
        for (seq, event) in steering {
            book.restore(Some(seq))?;
            heard.push(framed(&event));
        }
        Ok(heard)
    }

    pub(super) fn record_steering(&self, key: &str) -> Result<Vec<Message>, Interrupt> {
        let mut heard = Vec::new();
        loop {
            // Recorded and consumed in one flush, so that a message is neither lost nor read twice.
            let message = self.book().consume(|message| message.kind == "steer");
            let Some(message) = message else {
                return Ok(heard);
            };
            let words = message.data.get("text").and_then(Value::as_str);
            let words = words.unwrap_or_default();
            let text = self.setup.redactor.text(words).into_owned();
            let was_masked = message.data.get("masked") == Some(&Value::Bool(true));
            let event = Steered {
                key: key.to_owned(),
                id: self.setup.redactor.text(&message.id).into_owned(),
                masked: was_masked || is_masked(words, &text),
                text,
                by: message.by,
                ..Steered::default()
            };
            heard.push(framed(&event));
            self.append(event)?;
        }
    }

    /// Returns the limit that forbids this turn, and the limit that makes it the last one.
    fn limits(&self, key: &str) -> Result<(Option<Limit>, Option<Limit>), Interrupt> {
        let recorded = {
            let book = self.book();
            if book.recording.settles_limits(key) {
                Some(match book.recording.peek("limit_hit", key, None) {
                    Some(Event::LimitHit(event)) => Some(event.clone()),
                    _ => None,
                })
            } else {
                None
            }
        };
        if let Some(recorded) = recorded {
            let Some(event) = recorded else {
                return Ok((None, None));
            };
            let limit = Limit::named(&event.limit);
            let is_last = event.value < 0.0;
            self.put(event)?;
            return Ok(if is_last {
                (None, limit)
            } else {
                (limit, None)
            });
        }
        let (hit, last) = {
            let book = self.book();
            let hit = self.setup.limits.hit(&book.state, true);
            let last = self.setup.limits.last(&book.state);
            (hit, last.filter(|_| hit.is_none()))
        };
        if let Some(limit) = hit.or(last) {
            let value = if hit.is_some() { 1.0 } else { -1.0 };
            self.put(limit_hit(key, limit, value))?;
        }
        Ok((hit, last))
    }

    fn note(&self, key: &str, note: Note) -> Result<(), Interrupt> {
        let data = self.setup.redactor.object(note.data);
        let key = key.to_owned();
        let event: Event = match note.kind.as_str() {
            "violation" => Violated {
                key,
                rule: text_of(&data, "rule"),
                detail: text_of(&data, "detail"),
                refused: data.get("refused") == Some(&Value::Bool(true)),
                ..Violated::default()
            }
            .into(),
            "compacted" => Compacted {
                key,
                upto: number_of(&data, "upto"),
                chars_before: number_of(&data, "chars_before"),
                chars_after: number_of(&data, "chars_after"),
            }
            .into(),
            _ => Noted {
                key,
                kind: note.kind,
                data,
            }
            .into(),
        };
        self.annotate(event)
    }

    /// Returns the recorded verdict on a recorded reply, or else `verdict`.
    ///
    /// If the record ends within the verdict, the rest is that of `verdict`. The recorded part
    /// keeps its wording, which may be that of another runtime: a replay reads it there.
    fn assessed(&self, key: &str, verdict: Assess) -> Assess {
        let (recorded, is_whole) = self.book().recording.verdict(key);
        if recorded.is_empty() && !is_whole {
            return verdict;
        }
        let lack = |broken: &Violated| Lack {
            rule: broken.rule.clone(),
            detail: broken.detail.clone(),
        };
        let rest = if is_whole { usize::MAX } else { recorded.len() };
        Assess {
            lacks: recorded
                .iter()
                .map(lack)
                .chain(verdict.lacks.into_iter().skip(rest))
                .collect(),
            refused: recorded.iter().any(|broken| broken.refused),
        }
    }

    /// Runs all branches to their end, even if one stops, because their work must reach the log.
    async fn fork(&self, key: &str, branches: Vec<Coroutine<()>>) -> Result<Resolution, Interrupt> {
        // From its first call on, each branch shares the remaining limits with the others.
        let running = AtomicUsize::new(branches.len());
        self.book().others += (branches.len() as u64).saturating_sub(1);
        let drives = branches.into_iter().enumerate().map(|(number, branch)| {
            let drive = self.drive(branch, format!("{key}.{number}."));
            let running = &running;
            async move {
                let ended = drive.await;
                // The last branch has no other branch beside it.
                if running.fetch_sub(1, Ordering::Relaxed) > 1 {
                    let mut book = self.book();
                    book.others = book.others.saturating_sub(1);
                }
                ended
            }
        });
        let mut interrupts: Vec<Interrupt> = join_all(drives)
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect();
        // Errors first: they precede the two interrupts that only mean that nothing can be done
        // now.
        interrupts.sort_by_key(|it| matches!(it, Interrupt::Park(_) | Interrupt::EndOfTape));
        match interrupts.into_iter().next() {
            Some(interrupt) => Err(interrupt),
            None => Ok(Resolution::Done),
        }
    }
}

pub(super) fn limit_hit(key: &str, limit: Limit, value: f64) -> LimitHit {
    LimitHit {
        key: key.to_owned(),
        limit: limit.name().to_owned(),
        value,
        needed: 0.0,
        allowed: 0.0,
    }
}

/// Returns a steering message in the form that the model reads.
fn framed(message: &Steered) -> Message {
    let head = format!("[message from {}] ", message.by);
    if message.parts.is_empty() {
        return Message::new(Role::User, head + &message.text);
    }
    let head = Part::Text(TextPart {
        text: head,
        ..TextPart::default()
    });
    let parts = std::iter::once(head).chain(message.parts.iter().cloned());
    Message::new(Role::User, Content::Parts(parts.collect()))
}

fn text_of(data: &Object, name: &str) -> String {
    data.get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn number_of(data: &Object, name: &str) -> u64 {
    data.get(name).and_then(Value::as_u64).unwrap_or_default()
}

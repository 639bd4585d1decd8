//! Effects: the operations that a strategy requests from the runtime, and the coroutine that
//! requests them.
//!
//! A strategy is an `async` block that gets a [`Scope`]. Each method of the scope yields one
//! [`Effect`] and awaits its [`Resolution`]. The compiler turns the block into a state machine, and
//! [`Coroutine`] drives it without an executor. A strategy never reads a clock or opens a file.
//! Therefore the same strategy runs live, replays from a log and is tested with
//! [`Coroutine::resume`].
//!
//! ```
//! use taofold::effects::{Answer, Coroutine, Effect, Outlook, Resolution, Resumed};
//!
//! let mut once = Coroutine::new(|scope| async move {
//!     match scope.begin().await {
//!         Ok(outlook) if outlook.stop.is_empty() => Answer::new("done".into()),
//!         Ok(outlook) => Answer::stopped(outlook.stop),
//!         Err(halt) => Answer::stopped(halt.reason),
//!     }
//! });
//! assert!(matches!(once.start(), Ok(Resumed::Yielded(Effect::Begin))));
//! let end = once.resume(Resolution::Outlook(Outlook::default()));
//! assert!(matches!(end, Ok(Resumed::Complete(answer)) if answer.stop == "final_answer"));
//! ```

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use thiserror::Error;

use crate::content::{Conversation, Message};
use crate::errors::Error;
use crate::json::{Object, Value};
use crate::values::{Action, ModelSettings, Observation, Reply, StepRole, Thought};

/// Calls the model.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// The conversation, which the resolution returns.
    pub conversation: Conversation,
    /// The role of the model that answers.
    pub role: StepRole,
    /// Names of tools that are offered natively.
    pub tools: Vec<String>,
    /// The schema for constrained decoding, if the model supports it.
    pub schema: Option<Value>,
    /// The name of one of the run's models; empty for the model of `role`.
    pub model: String,
    /// The settings that replace those of the run for this call.
    pub settings: ModelSettings,
    /// The subset of `tools` that may be called now; `None` for all.
    pub allowed: Option<Vec<String>>,
    /// True if a provider failure does not end the run, but is a reply whose `finish` is `error`.
    pub tolerant: bool,
}

/// Performs one step: records the thought and runs its batch.
#[derive(Debug, Clone, Default)]
pub struct Act {
    /// The thought that gives the reason.
    pub thought: Thought,
    /// The batch of actions.
    pub actions: Vec<Action>,
    /// Observations that the strategy makes itself, by index in the batch.
    pub local: Vec<Option<Observation>>,
    /// True if a user defined these calls, so that the repetition guard, which checks models, is
    /// disabled.
    pub planned: bool,
}

impl Act {
    /// Returns a step with one action that the strategy answers itself.
    pub fn own(thought: Thought, action: Action, observation: Observation) -> Self {
        Self {
            thought,
            actions: vec![action],
            local: vec![Some(observation)],
            planned: false,
        }
    }
}

/// Records derived data. A note has no key of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// The kind: `violation`, `compacted`, `state`, or a kind defined by the strategy.
    pub kind: String,
    /// The content.
    pub data: Object,
}

/// A rule of form that a reply breaks, and the message about it for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The name of the rule.
    pub rule: String,
    /// The message.
    pub detail: String,
}

/// The verdict on the form of a readable reply. Like a note, it has no key of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assess {
    /// The broken rules.
    pub lacks: Vec<Lack>,
    /// True if the model is asked again for what the reply lacks.
    pub refused: bool,
}

/// An operation that a strategy yields.
#[derive(Debug)]
pub enum Effect {
    /// Opens a turn. Resolves to an [`Outlook`].
    Begin,
    /// Calls the model. Resolves to a [`Reply`].
    Ask(Box<Ask>),
    /// Performs one step. Resolves to its observations.
    Act(Box<Act>),
    /// Records data.
    Note(Note),
    /// Judges the form of a reply. Resolves to the recorded verdict on a recorded reply.
    Assess(Assess),
    /// Runs strategies concurrently, each to its end.
    Fork(Vec<Coroutine<()>>),
}

/// The result of an effect.
#[derive(Debug)]
pub enum Resolution {
    /// The result of [`Effect::Begin`].
    Outlook(Outlook),
    /// The result of [`Effect::Ask`]: the reply and the conversation that was sent.
    Reply(Box<Reply>, Conversation),
    /// The result of [`Effect::Act`].
    Observations(Vec<Observation>),
    /// The result of [`Effect::Assess`]: the verdict that counts.
    Assessed(Assess),
    /// The result of [`Effect::Note`] and [`Effect::Fork`].
    Done,
    /// A limit stops the strategy. It may return a partial answer and yields no further effect.
    Halt(Halt),
}

/// The conditions at the start of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outlook {
    /// The users' messages since the last turn.
    pub heard: Vec<Message>,
    /// The stop reason of the limit that makes this turn the last one, which must offer no tools.
    pub wrap_up: String,
    /// The reason to stop now, without another model call.
    pub stop: String,
    /// The repetition guard's hint for the model.
    pub hint: String,
    /// True if the repetition guard requires an answer without tools.
    pub toolless: bool,
}

/// A limit stops the strategy in the middle of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Error)]
#[error("stopped: {reason}")]
pub struct Halt {
    /// The stop reason.
    pub reason: String,
    /// The error message, if the strategy cannot continue.
    pub error: String,
}

impl Halt {
    /// Returns the halt of a strategy that cannot continue.
    pub fn failed(error: impl Into<String>) -> Self {
        Self {
            reason: "error".to_owned(),
            error: error.into(),
        }
    }
}

/// The answer that a strategy returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The answer as JSON.
    pub output: Value,
    /// The reason why the strategy stopped.
    pub stop: String,
    /// The error message. An answer with an error is no success.
    pub error: String,
}

impl Answer {
    /// Returns an answer that ends a run successfully.
    pub fn new(output: Value) -> Self {
        Self {
            output,
            stop: "final_answer".to_owned(),
            error: String::new(),
        }
    }

    /// Returns an answer without output, with the reason to stop.
    pub fn stopped(reason: impl Into<String>) -> Self {
        Self {
            output: Value::Null,
            stop: reason.into(),
            error: String::new(),
        }
    }

    /// Returns a failure.
    pub fn error(error: impl Into<String>) -> Self {
        Self {
            output: Value::Null,
            stop: "error".to_owned(),
            error: error.into(),
        }
    }
}

impl From<Halt> for Answer {
    fn from(halt: Halt) -> Self {
        if !halt.error.is_empty() {
            return Self::error(halt.error);
        }
        Self::stopped(halt.reason)
    }
}

#[derive(Debug)]
enum Slot {
    Idle,
    Requested(Effect),
    Performing,
    Resolved(Resolution),
}

#[derive(Debug)]
struct Channel(Mutex<Slot>);

impl Channel {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        // No code panics while it holds the lock, and the value is consistent in any case.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A strategy's only access to the runtime. Each method yields an effect and awaits its resolution.
#[derive(Debug, Clone)]
pub struct Scope {
    channel: Arc<Channel>,
}

impl Scope {
    /// Yields `effect` and returns its resolution.
    ///
    /// # Errors
    ///
    /// [`Halt`] if a limit stops the strategy, which must then yield nothing more.
    pub async fn perform(&self, effect: Effect) -> Result<Resolution, Halt> {
        *self.channel.lock() = Slot::Requested(effect);
        std::future::poll_fn(|_| {
            let mut slot = self.channel.lock();
            match std::mem::replace(&mut *slot, Slot::Idle) {
                Slot::Resolved(Resolution::Halt(halt)) => Poll::Ready(Err(halt)),
                Slot::Resolved(resolution) => Poll::Ready(Ok(resolution)),
                other => {
                    *slot = other;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Opens a turn.
    ///
    /// # Errors
    ///
    /// [`Halt`] if a limit stops the strategy.
    pub async fn begin(&self) -> Result<Outlook, Halt> {
        match self.perform(Effect::Begin).await? {
            Resolution::Outlook(outlook) => Ok(outlook),
            other => Err(unexpected(&other)),
        }
    }

    /// Calls the model with `conversation`, which is moved into the effect and returned.
    ///
    /// # Errors
    ///
    /// [`Halt`] if a limit forbids the call.
    pub async fn ask(&self, conversation: &mut Conversation, mut ask: Ask) -> Result<Reply, Halt> {
        ask.conversation = std::mem::take(conversation);
        match self.perform(Effect::Ask(Box::new(ask))).await? {
            Resolution::Reply(reply, asked) => {
                *conversation = asked;
                Ok(*reply)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Performs one step.
    ///
    /// # Errors
    ///
    /// [`Halt`] if a limit stops the strategy.
    pub async fn act(&self, act: Act) -> Result<Vec<Observation>, Halt> {
        match self.perform(Effect::Act(Box::new(act))).await? {
            Resolution::Observations(observations) => Ok(observations),
            other => Err(unexpected(&other)),
        }
    }

    /// Records `data`.
    ///
    /// # Errors
    ///
    /// [`Halt`] if a limit stops the strategy.
    pub async fn note(&self, kind: &str, data: Object) -> Result<(), Halt> {
        let note = Note {
            kind: kind.to_owned(),
            data,
        };
        self.perform(Effect::Note(note)).await.map(drop)
    }

    /// Returns the verdict on a reply that counts: the recorded one, or else `verdict`.
    ///
    /// # Errors
    ///
    /// [`Halt`] if a limit stops the strategy.
    pub async fn assess(&self, verdict: Assess) -> Result<Assess, Halt> {
        match self.perform(Effect::Assess(verdict)).await? {
            Resolution::Assessed(verdict) => Ok(verdict),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs branches concurrently and returns their results in order.
    ///
    /// # Errors
    ///
    /// [`Halt`] if a limit stops the strategy.
    pub async fn fork<T: Send + 'static>(
        &self,
        branches: Vec<Coroutine<T>>,
    ) -> Result<Vec<T>, Halt> {
        let results: Arc<Mutex<Vec<Option<T>>>> =
            Arc::new(Mutex::new(branches.iter().map(|_| None).collect()));
        let wrapped = branches.into_iter().enumerate().map(|(number, branch)| {
            let results = Arc::clone(&results);
            branch.map(move |result| {
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(place) = results.get_mut(number) {
                    *place = Some(result);
                }
            })
        });
        self.perform(Effect::Fork(wrapped.collect())).await?;
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        let complete: Option<Vec<T>> = results.drain(..).collect();
        complete.ok_or_else(|| Halt {
            reason: "error".to_owned(),
            ..Halt::default()
        })
    }
}

/// Returns the halt for a resolution of the wrong kind, which only a faulty runtime gives.
fn unexpected(resolution: &Resolution) -> Halt {
    debug_assert!(false, "unexpected resolution {resolution:?}");
    Halt {
        reason: "error".to_owned(),
        ..Halt::default()
    }
}

/// The state of a coroutine after it was resumed.
#[derive(Debug)]
pub enum Resumed<T> {
    /// The coroutine yielded this effect.
    Yielded(Effect),
    /// The coroutine returned.
    Complete(T),
}

/// A strategy in execution.
pub struct Coroutine<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    channel: Arc<Channel>,
}

impl<T> std::fmt::Debug for Coroutine<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Coroutine")
    }
}

impl<T: 'static> Coroutine<T> {
    /// Returns the coroutine of an `async` block that gets its scope.
    pub fn new<F>(story: impl FnOnce(Scope) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let channel = Arc::new(Channel(Mutex::new(Slot::Idle)));
        let scope = Scope {
            channel: Arc::clone(&channel),
        };
        Self {
            future: Box::pin(story(scope)),
            channel,
        }
    }

    /// Returns a coroutine that passes its result to `then`.
    pub(crate) fn map<U: 'static>(self, then: impl FnOnce(T) -> U + Send + 'static) -> Coroutine<U>
    where
        T: Send,
    {
        let future = self.future;
        Coroutine {
            future: Box::pin(async move { then(future.await) }),
            channel: self.channel,
        }
    }

    /// Runs up to the first effect.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignAwait`] if the strategy awaits something other than an effect.
    pub fn start(&mut self) -> Result<Resumed<T>, Error> {
        self.advance()
    }

    /// Resolves the last effect and runs up to the next one.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignAwait`] if the strategy awaits something other than an effect.
    pub fn resume(&mut self, resolution: Resolution) -> Result<Resumed<T>, Error> {
        *self.channel.lock() = Slot::Resolved(resolution);
        self.advance()
    }

    fn advance(&mut self) -> Result<Resumed<T>, Error> {
        // Nothing wakes a strategy: it is polled again when its effect is resolved.
        let mut context = Context::from_waker(Waker::noop());
        let future = pin!(&mut self.future);
        if let Poll::Ready(result) = future.poll(&mut context) {
            return Ok(Resumed::Complete(result));
        }
        match std::mem::replace(&mut *self.channel.lock(), Slot::Performing) {
            Slot::Requested(effect) => Ok(Resumed::Yielded(effect)),
            Slot::Idle | Slot::Performing | Slot::Resolved(_) => Err(Error::ForeignAwait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn branches_of_a_fork_give_their_results_in_order() {
        let mut outer = Coroutine::new(|scope| async move {
            let branches = (0..3).map(|n| Coroutine::new(move |_| async move { n }));
            scope.fork(branches.collect()).await
        });
        let Ok(Resumed::Yielded(Effect::Fork(branches))) = outer.start() else {
            panic!("no fork");
        };
        for mut branch in branches.into_iter().rev() {
            assert!(matches!(branch.start(), Ok(Resumed::Complete(()))));
        }
        let Ok(Resumed::Complete(result)) = outer.resume(Resolution::Done) else {
            panic!("not complete");
        };
        assert_eq!(result, Ok(vec![0, 1, 2]));
    }

    #[test]
    fn a_halt_reaches_the_strategy_as_an_error() {
        let mut strategy = Coroutine::new(|scope| async move {
            match scope.act(Act::default()).await {
                Ok(_) => Answer::new(json!("went on")),
                Err(halt) => halt.into(),
            }
        });
        assert!(matches!(strategy.start(), Ok(Resumed::Yielded(_))));
        let halt = Halt {
            reason: "budget".to_owned(),
            ..Halt::default()
        };
        let Ok(Resumed::Complete(answer)) = strategy.resume(Resolution::Halt(halt)) else {
            panic!("not complete");
        };
        assert_eq!(answer.stop, "budget");
    }

    #[test]
    fn awaiting_what_is_no_effect_is_an_error_and_no_deadlock() {
        let mut strategy = Coroutine::new(|_| std::future::pending::<()>());
        assert!(matches!(strategy.start(), Err(Error::ForeignAwait)));
    }
}

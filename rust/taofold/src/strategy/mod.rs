//! Reasoning strategies: coroutines that yield effects, and nothing else.
//!
//! Each is a value of its options that is run with a [`Task`]; they compose, as
//! `SelfCorrect { inner: Arc::new(React), .. }`.

mod conversation;
mod cot;
mod decompose;
mod demands;
mod dependencies;
mod direct;
mod nested;
mod plan;
mod prompt;
mod question;
mod react;
mod self_correct;
mod task;
mod vague;

use std::fmt::Debug;

pub use self::conversation::Talk;
pub use self::cot::{Cot, Example, ThinkingFormat};
pub use self::decompose::Decompose;
pub use self::dependencies::{Tangle, waves};
pub use self::direct::Direct;
pub(crate) use self::nested::{Interceptor, forward};
pub use self::nested::{Solved, alone, closing, named_step};
pub use self::plan::Plan;
pub use self::prompt::Prompt;
pub(crate) use self::question::object;
pub use self::react::React;
pub use self::self_correct::SelfCorrect;
pub use self::task::{Offer, Output, Task};
use crate::effects::{Answer, Coroutine};

/// A way to reach a goal.
pub trait Strategy: Debug + Send + Sync {
    /// The name in the log.
    fn name(&self) -> &'static str;

    /// Returns the coroutine that works on `task`.
    fn run(&self, task: Task) -> Coroutine<Answer>;
}

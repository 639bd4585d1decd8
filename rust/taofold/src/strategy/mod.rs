//! Reasoning strategies: coroutines that only yield effects.
//!
//! Each strategy is a value with its options and runs with a [`Task`]. Strategies compose, as in
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
pub(crate) use self::task::is_native;
pub use self::task::{Offer, Output, Task};
use crate::effects::{Answer, Coroutine};

/// A method to reach a goal.
pub trait Strategy: Debug + Send + Sync {
    /// Returns the name in the log.
    fn name(&self) -> &'static str;

    /// Returns the coroutine that works on `task`.
    fn run(&self, task: Task) -> Coroutine<Answer>;
}

#[cfg(test)]
mod tests {
    use super::vague::{lacks_intent, lacks_reason};
    use crate::json::Value;

    /// Both runtimes must judge a recorded thought alike.
    #[test]
    fn a_text_is_judged_as_the_kit_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/texts.json");
        let kit: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let rows = kit.as_array().unwrap();
        assert!(rows.len() >= 36, "a text was lost");
        for row in rows {
            let text = row["text"].as_str().unwrap();
            assert_eq!(lacks_intent(text), row["lacks_intent"], "aim of {text:?}");
            assert_eq!(
                lacks_reason(text),
                row["lacks_reason"],
                "reason of {text:?}"
            );
        }
    }
}

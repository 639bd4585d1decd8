//! Runs, resumes and replays strategies: performs the effects they yield and records them.
//!
//! Run, resume and replay are one operation, a drive. They differ in the recording, which holds the
//! existing records at each place. `start`, `resume` and `replay` are the entry points.

mod act;
mod approvals;
mod ask;
mod child;
pub mod control;
mod drive;
mod ledger;
pub mod ownership;
mod recording;
mod run;
mod setup;

pub use self::approvals::digest;
pub use self::child::{Subagent, replay as replay_child};
pub use self::recording::Comparison;
pub use self::run::{Outcome, new_id, replay, resume, start};
pub use self::setup::{Clock, Setup, SystemClock, TextListener};

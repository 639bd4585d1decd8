//! Runs, resumes and replays strategies: the effects they yield, performed and put on record.
//!
//! Run, resume and replay are one operation, a drive; they differ in the recording, what the
//! log already has at each place. `start`, `resume` and `replay` are the entry points.

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

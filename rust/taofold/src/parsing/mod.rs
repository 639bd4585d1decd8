//! Parses replies of models: a turn with a thought and its calls, prose, or feedback for the model.
//!
//! [`read_reply`] parses the JSON protocol and the ReAct text protocol, [`read_call`] a native
//! call, and [`read_object`] one JSON object for a typed question. `repairs` lists every change
//! that parsing required. A change that may have altered the meaning marks the call as guessed. The
//! functions are pure and do not check that a tool exists.

mod decision;
mod json_text;
mod labels;
mod outcome;
mod reply;

pub use self::json_text::read_object;
pub use self::outcome::{Call, Prose, Read, Remark, Repair, Turn, Unparsed};
pub(crate) use self::reply::read_text;
pub use self::reply::{read_call, read_reply};

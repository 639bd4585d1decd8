//! Replies of models as turns: a thought and its calls, prose, or a refusal for the model.
//!
//! [`read_reply`] reads the JSON protocol and the ReAct text protocol, [`read_call`] a native call,
//! [`read_object`] one JSON object for a typed question. What had to be changed to read a text is
//! in the receipt (`repairs`); a change that may have altered what the model says marks the call as
//! guessed. Pure; knows nothing about whether a tool exists.

mod decision;
mod json_text;
mod labels;
mod outcome;
mod reply;

pub use self::json_text::read_object;
pub use self::outcome::{Call, Prose, Read, Remark, Repair, Turn, Unparsed};
pub(crate) use self::reply::ends_inside_reasoning;
pub use self::reply::{read_call, read_reply};

//! The policy: tiers and roles, limits, the guard against repetition, redaction. Pure functions.

mod limits;
mod redaction;
mod repetition;
mod roles;
mod rules;

pub use self::limits::{Limit, Limits, Reserved};
pub use self::redaction::{MARK, Redactor, has_mask, is_masked};
pub use self::repetition::{Judgement, Level, Repetition};
pub use self::roles::Roles;
pub use self::rules::{Autonomy, Facts, Policy, Ruling, Tier, may_decide};

//! Evidence: the hash chain over the records of a run, as `docs/evidence.md` defines it.
//!
//! Logs store the links. Signing and verifying are left to the Python runtime. This module does not
//! depend on databases.

mod canonical;
pub(crate) mod chain;

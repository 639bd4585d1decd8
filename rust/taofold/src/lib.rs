//! An agent runtime on one append-only event log.
//!
//! A **strategy** is a coroutine that yields **effects**; the **runtime** performs them and appends
//! **events**; the **state** of a run is a fold of its events. `rust/README.md` maps the modules.
//! The log format is that of `docs/log-format.md`, and `conformance/` holds the shared examples.

pub mod agent;
pub mod content;
pub mod effects;
pub mod errors;
pub mod events;
mod evidence;
pub mod flow;
mod folders;
pub mod json;
pub mod log;
pub mod mcp;
pub mod model;
pub mod parsing;
pub mod policy;
mod process;
pub mod providers;
pub mod runtime;
mod schema;
pub mod state;
pub mod strategy;
pub mod tao;
mod text;
pub mod tools;
pub mod trace;
pub mod values;

/// The README's example, which is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

//! Logs: where the records of runs lie.
//!
//! A log is append-only. A run has one owner, known by its epoch; the append of an owner that was
//! overtaken fails with [`LogError::Conflict`]. While the owner's lease lasts nobody else becomes the
//! owner. Whoever is not the owner leaves a [`Signal`] in the run's inbox. [`MemoryLog`] keeps runs in
//! this process, [`SqliteLog`] in the file that the Python runtime uses too, [`ndjson`] writes and
//! reads the exchange format.

mod memory;
pub mod ndjson;
pub mod sqlite;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::memory::MemoryLog;
pub use self::sqlite::SqliteLog;
use crate::errors::LogError;
use crate::events::Record;
use crate::json::Object;

/// The time without a sign of the owner after which another process may take the run.
pub const LEASE_MS: i64 = 10_000;
/// No lease is longer. One that ends later than this from now was taken by another clock.
pub const LONGEST_LEASE_MS: i64 = 60_000;

/// The row of a run, readable without its records. Times are milliseconds since the epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunRow {
    /// The run.
    pub run: String,
    /// The status.
    pub status: String,
    /// The beginning of its goal.
    pub goal: String,
    /// The agent's name.
    pub agent: String,
    /// The session.
    pub session: String,
    /// The run that called this one.
    pub parent: String,
    /// The principal that asked for the run.
    pub principal: String,
    /// When it was created.
    pub created_at: i64,
    /// When it was written to last.
    pub updated_at: i64,
    /// The number of records.
    pub events: u64,
    /// The fencing token of its owner.
    pub epoch: u64,
    /// The present or last owner.
    pub owner: String,
    /// The reason for its wait.
    pub waiting_for: String,
    /// When the owner's lease ends; 0: there is none.
    pub lease_until: i64,
    /// When a waiting run is due; 0: when a message comes.
    pub wake_at: i64,
    /// True if it ran under a lease that was not over when the row was read.
    pub held: bool,
    /// Its number in the order in which runs were created.
    pub place: i64,
    /// Labels by which a caller filters lists.
    pub tags: BTreeMap<String, String>,
}

/// A message from outside for one run. The same `id` is taken once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The message's id.
    pub id: String,
    /// `decide`, `answer`, `steer`, `cancel` or `refused`.
    pub kind: String,
    /// The sender.
    #[serde(default)]
    pub by: String,
    /// When, in milliseconds since the epoch.
    #[serde(default)]
    pub at: i64,
    /// Its content.
    #[serde(default)]
    pub data: Object,
}

/// The owner of a run, with its epoch and lease.
#[derive(Debug, Clone, Copy, Default)]
pub struct Owner<'a> {
    /// The owner's name; empty: none.
    pub name: &'a str,
    /// The length of the lease; 0: no lease.
    pub lease_ms: i64,
}

impl<'a> Owner<'a> {
    /// Returns an owner that drives the run under a lease of the usual length.
    pub fn driving(name: &'a str) -> Self {
        Self {
            name,
            lease_ms: LEASE_MS,
        }
    }
}

/// The status of a run after an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The status; any but `running` ends the lease.
    pub status: &'a str,
    /// The reason for its wait.
    pub waiting_for: &'a str,
    /// When it is due; 0: when a message comes.
    pub wake_at: i64,
}

/// Returns whether a lease lasts at `now`. A lease that another clock took counts as over.
pub fn lease_lasts(lease_until: i64, now: i64) -> bool {
    now < lease_until && lease_until <= now.saturating_add(LONGEST_LEASE_MS)
}

/// The content of one append, written in one transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Append<'a> {
    /// Records whose numbers follow those of the log.
    pub records: &'a [Record],
    /// Ids of inbox messages that these records have taken in: they are not given out again.
    pub consumed: &'a [String],
    /// True if it must survive a power cut when the append returns.
    pub durable: bool,
    /// The new status of the run, if it changes.
    pub standing: Option<Standing<'a>>,
    /// Write nothing if the inbox holds more than `consumed`.
    pub if_quiet: bool,
}

/// A log. Every implementation passes `tests/log.rs`.
#[async_trait]
pub trait Log: Send + Sync {
    /// Creates a run with its first records, in one transaction. Returns the epoch of its owner: 1,
    /// or 0 if nobody owns it. Of `row` the epoch, the owner, the lease and the events do not count.
    ///
    /// # Errors
    ///
    /// [`LogError::Conflict`] if the id is taken, or the session has another run that has not ended.
    async fn create(
        &self,
        row: &RunRow,
        records: &[Record],
        owner: Owner<'_>,
    ) -> Result<u64, LogError>;

    /// Becomes the owner of a run: the epoch rises by one. With a lease the run is `running`.
    ///
    /// # Errors
    ///
    /// [`LogError::Conflict`] if `epoch` is given and is not the run's, or another owner's lease
    /// lasts and `force` is not set; [`LogError::UnknownRun`].
    async fn claim(
        &self,
        run: &str,
        owner: Owner<'_>,
        epoch: Option<u64>,
        force: bool,
    ) -> Result<u64, LogError>;

    /// Renews the lease of `run` from a thread or task of its own until the guard is dropped.
    fn keep(&self, run: &str, owner: &str) -> Box<dyn Send>;

    /// Appends records and consumes messages, both or neither. False if `if_quiet` held it back.
    ///
    /// # Errors
    ///
    /// [`LogError::Conflict`] if `epoch` is not the owner's or the numbers do not follow.
    async fn append(&self, run: &str, epoch: u64, append: Append<'_>) -> Result<bool, LogError>;

    /// Reads the records of a run from number `from` on.
    ///
    /// # Errors
    ///
    /// [`LogError::UnknownRun`], or a row that is not of the format.
    async fn read(&self, run: &str, from: u64) -> Result<Vec<Record>, LogError>;

    /// Returns what is known of a run.
    ///
    /// # Errors
    ///
    /// [`LogError::UnknownRun`].
    async fn row(&self, run: &str) -> Result<RunRow, LogError>;

    /// Returns at most `limit` rows, newest first, of one status if it is not empty.
    ///
    /// # Errors
    ///
    /// [`LogError::Store`].
    async fn rows(&self, status: &str, limit: usize) -> Result<Vec<RunRow>, LogError>;

    /// Returns the rows of the child runs that calls of `run` began, oldest first.
    ///
    /// # Errors
    ///
    /// [`LogError::Store`].
    async fn children(&self, run: &str) -> Result<Vec<RunRow>, LogError>;

    /// Returns at most `limit` ids that begin with `prefix`, in their order.
    ///
    /// # Errors
    ///
    /// [`LogError::Store`].
    async fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<String>, LogError>;

    /// Puts a message into a run's inbox, durably. False if one with its id was ever posted.
    ///
    /// # Errors
    ///
    /// [`LogError::UnknownRun`].
    async fn post(&self, run: &str, signal: &Signal) -> Result<bool, LogError>;

    /// Returns the messages of a run that no append has consumed, in order of arrival.
    ///
    /// # Errors
    ///
    /// [`LogError::UnknownRun`].
    async fn inbox(&self, run: &str) -> Result<Vec<Signal>, LogError>;
}

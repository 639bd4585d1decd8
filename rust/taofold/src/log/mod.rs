//! Logs: the storage of a run's records.
//!
//! A log is append-only. A run has one owner, identified by its epoch. An append of a former owner
//! fails with [`LogError::Conflict`]. No other process becomes the owner while the owner's lease
//! lasts. Other processes leave a [`Signal`] in the run's inbox. [`MemoryLog`] keeps runs in this
//! process and [`SqliteLog`] in the file that the Python runtime also uses. [`ndjson`] writes and
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

/// The time without a heartbeat of the owner after which another process may take the run.
pub const LEASE_MS: i64 = 10_000;
/// The maximum length of a lease. A lease that ends later was taken by another clock.
pub const LONGEST_LEASE_MS: i64 = 60_000;

/// The row of a run, readable without its records. Times are milliseconds since the epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunRow {
    /// The id of the run.
    pub run: String,
    /// The status.
    pub status: String,
    /// The beginning of the goal.
    pub goal: String,
    /// The agent's name.
    pub agent: String,
    /// The id of the session.
    pub session: String,
    /// The id of the parent run.
    pub parent: String,
    /// The principal that requested the run.
    pub principal: String,
    /// The time of creation.
    pub created_at: i64,
    /// The time of the last write.
    pub updated_at: i64,
    /// The number of records.
    pub events: u64,
    /// The fencing token of the owner.
    pub epoch: u64,
    /// The current or last owner.
    pub owner: String,
    /// The reason for waiting.
    pub waiting_for: String,
    /// The end of the owner's lease; 0 without a lease.
    pub lease_until: i64,
    /// The time at which a waiting run is due; 0 if it waits for a message.
    pub wake_at: i64,
    /// True if the run was under a valid lease when the row was read.
    pub held: bool,
    /// The run's number in the order of creation.
    pub place: i64,
    /// Labels by which callers filter lists.
    pub tags: BTreeMap<String, String>,
}

/// A message from outside for one run. The same `id` is accepted once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The id of the message.
    pub id: String,
    /// `decide`, `answer`, `steer`, `cancel` or `refused`.
    pub kind: String,
    /// The sender.
    #[serde(default)]
    pub by: String,
    /// The time, in milliseconds since the epoch.
    #[serde(default)]
    pub at: i64,
    /// The content.
    #[serde(default)]
    pub data: Object,
}

/// The owner of a run, with its epoch and lease.
#[derive(Debug, Clone, Copy, Default)]
pub struct Owner<'a> {
    /// The name of the owner; empty for none.
    pub name: &'a str,
    /// The length of the lease in milliseconds; 0 for no lease.
    pub lease_ms: i64,
}

impl<'a> Owner<'a> {
    /// Returns an owner that drives the run under a lease of the default length.
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
    /// The status. Any status but `running` ends the lease.
    pub status: &'a str,
    /// The reason for waiting.
    pub waiting_for: &'a str,
    /// The time at which it is due; 0 if it waits for a message.
    pub wake_at: i64,
}

/// Returns true if a lease is valid at `now`. A lease taken by another clock counts as expired.
pub fn lease_lasts(lease_until: i64, now: i64) -> bool {
    now < lease_until && lease_until <= now.saturating_add(LONGEST_LEASE_MS)
}

/// The content of one append, written in one transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Append<'a> {
    /// Records whose numbers continue those of the log.
    pub records: &'a [Record],
    /// The ids of inbox messages that these records include. They are not delivered again.
    pub consumed: &'a [String],
    /// True if the records must survive a power failure when the append returns.
    pub durable: bool,
    /// The new status of the run, if it changes.
    pub standing: Option<Standing<'a>>,
    /// True if nothing is written when the inbox holds more than `consumed`.
    pub if_quiet: bool,
}

/// A store of runs. Every implementation passes `tests/log.rs`.
#[async_trait]
pub trait Log: Send + Sync {
    /// Creates a run with its first records, in one transaction. Returns the epoch of its owner: 1,
    /// or 0 without an owner.
    ///
    /// The epoch, owner, lease and event count of `row` are ignored.
    ///
    /// # Errors
    ///
    /// [`LogError::Conflict`] if the id is taken, or the session has another run that has not
    /// ended.
    async fn create(
        &self,
        row: &RunRow,
        records: &[Record],
        owner: Owner<'_>,
    ) -> Result<u64, LogError>;

    /// Becomes the owner of a run, which increments the epoch. With a lease the run is `running`.
    ///
    /// # Errors
    ///
    /// [`LogError::Conflict`] if `epoch` is given and differs from the run's, or if another owner's
    /// lease is valid and `force` is not set; [`LogError::UnknownRun`].
    async fn claim(
        &self,
        run: &str,
        owner: Owner<'_>,
        epoch: Option<u64>,
        force: bool,
    ) -> Result<u64, LogError>;

    /// Renews the lease of `run` in its own thread or task until the guard is dropped.
    fn keep(&self, run: &str, owner: &str) -> Box<dyn Send>;

    /// Appends records and consumes messages atomically. Returns false if `if_quiet` prevented it.
    ///
    /// # Errors
    ///
    /// [`LogError::Conflict`] if `epoch` is not the owner's or the numbers are not consecutive.
    async fn append(&self, run: &str, epoch: u64, append: Append<'_>) -> Result<bool, LogError>;

    /// Reads the records of a run from number `from` on.
    ///
    /// # Errors
    ///
    /// [`LogError::UnknownRun`], or an error for a row that is not of the format.
    async fn read(&self, run: &str, from: u64) -> Result<Vec<Record>, LogError>;

    /// Returns the row of a run.
    ///
    /// # Errors
    ///
    /// [`LogError::UnknownRun`].
    async fn row(&self, run: &str) -> Result<RunRow, LogError>;

    /// Returns at most `limit` rows, newest first, filtered by `status` if it is not empty.
    ///
    /// # Errors
    ///
    /// [`LogError::Store`].
    async fn rows(&self, status: &str, limit: usize) -> Result<Vec<RunRow>, LogError>;

    /// Returns the rows of the child runs that calls of `run` started, oldest first.
    ///
    /// # Errors
    ///
    /// [`LogError::Store`].
    async fn children(&self, run: &str) -> Result<Vec<RunRow>, LogError>;

    /// Returns at most `limit` ids that begin with `prefix`, in sorted order.
    ///
    /// # Errors
    ///
    /// [`LogError::Store`].
    async fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<String>, LogError>;

    /// Posts a message durably to a run's inbox. Returns false if a message with its id was already
    /// posted.
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

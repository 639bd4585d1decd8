//! The log on disk: one SQLite file for many runs and several processes of either runtime.
//!
//! The layout, the leases and the inbox are those of the Python runtime. Each method is one short
//! transaction on a thread that may block. Leases are compared with this machine's clock.

mod open;
mod origin;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::{Append, LEASE_MS, LONGEST_LEASE_MS, Log, Owner, RunRow, Signal, lease_lasts};
use crate::errors::LogError;
use crate::events::{Event, Record, SCHEMA_VERSION, decode, encode};
use crate::evidence::chain::{Hash, genesis, leaf, link};

/// The time for which a call waits for other writing processes.
const WAIT: Duration = Duration::from_secs(10);
/// The interval between two heartbeats.
const BEAT: Duration = Duration::from_millis(2500);
/// The largest record number. Ids of records are `number << 32 | seq`, so the records of a run are
/// one range of the primary key.
const LAST: i64 = 0xFFFF_FFFF;

const ROW: &str = "select run, status, goal, agent, session, parent, principal, created_at, \
    max(updated_at, coalesce((select at from events where id between number << 32 and \
    (number << 32) + 4294967295 order by id desc limit 1), 0)), \
    coalesce((select max(id) from events where id between number << 32 and \
    (number << 32) + 4294967295) & 4294967295, -1) + 1, \
    epoch, owner, waiting_for, lease_until, wake_at, number, tags from runs";

/// A [`Log`] in a SQLite file. Its folder must exist.
#[derive(Debug, Clone)]
pub struct SqliteLog {
    file: Arc<SqliteFile>,
}

#[derive(Debug)]
struct SqliteFile {
    path: PathBuf,
    connection: Mutex<Connection>,
    numbers: Mutex<HashMap<String, i64>>,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX))
}

/// Returns random bytes from the operating system.
pub(crate) fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The errors of a transaction in addition to SQLite's own.
enum Failure {
    Sqlite(rusqlite::Error),
    Log(LogError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

type Outcome<T> = Result<T, Failure>;

fn conflict(run: &str) -> LogError {
    LogError::Conflict {
        run: run.to_owned(),
    }
}

fn unknown(run: &str) -> LogError {
    LogError::UnknownRun {
        run: run.to_owned(),
    }
}

impl SqliteFile {
    fn explained(&self, failure: Failure) -> LogError {
        match failure {
            Failure::Sqlite(error) => open::explain(&error, &self.path),
            Failure::Log(error) => error,
        }
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Outcome<T>) -> Result<T, LogError> {
        let connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        work(&connection).map_err(|failure| self.explained(failure))
    }

    /// Runs `work` in one transaction that holds the write lock from its start.
    fn write<T>(&self, work: impl FnOnce(&Connection) -> Outcome<T>) -> Result<T, LogError> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let transact = || {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        transact().map_err(|failure| self.explained(failure))
    }

    /// Returns when the committed content of the -wal file survives a power failure.
    fn settle(&self) -> Result<(), LogError> {
        let mut wal = self.path.clone().into_os_string();
        wal.push("-wal");
        let synced = File::options()
            .write(true)
            .open(PathBuf::from(wal))
            .and_then(|file| file.sync_data());
        synced.map_err(|error| {
            let message = format!(
                "was written, but the disk reports {error}: do not rely on what happened since the \
                 last good write"
            );
            open::store(&self.path, &message)
        })
    }

    fn number(&self, connection: &Connection, run: &str) -> Outcome<i64> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(run) {
            return Ok(*number);
        }
        let number = connection
            .query_row("select number from runs where run = ?1", [run], |row| {
                row.get(0)
            })
            .optional()?
            .ok_or_else(|| unknown(run))?;
        numbers.insert(run.to_owned(), number);
        Ok(number)
    }

    fn renew(&self, run: &str, owner: &str, lease_ms: i64) -> Result<(), LogError> {
        self.write(|db| {
            db.execute(
                "update runs set lease_until = ?1 where run = ?2 and owner = ?3 and \
                 status = 'running'",
                params![now() + lease_ms, run, owner],
            )?;
            Ok(())
        })
    }
}

/// A record as the file stores it.
struct StoredEvent {
    seq: u64,
    at: i64,
    body: String,
    leaf: Hash,
}

/// Returns the records of a run as rows.
fn rows_of(run: &str, records: &[Record]) -> Result<Vec<StoredEvent>, LogError> {
    let row = |record: &Record| {
        if record.run != run {
            return Err(conflict(run));
        }
        let body = encode(&record.event, record.elapsed)?;
        Ok(StoredEvent {
            seq: record.seq,
            at: record.at,
            leaf: leaf(record, &body)?,
            body,
        })
    };
    records.iter().map(row).collect()
}

/// Returns the link before record `head` of a run.
fn last_link(db: &Connection, run: &str, number: i64, head: u64) -> Outcome<Hash> {
    let Some(last) = head.checked_sub(1) else {
        let log: String =
            db.query_row("select value from meta where key = 'chain'", [], |row| {
                row.get(0)
            })?;
        return Ok(genesis(&log, run));
    };
    let last = i64::try_from(last).unwrap_or(LAST);
    let mut statement = db.prepare_cached("select link from events where id = ?1")?;
    Ok(statement.query_row([number << 32 | last], |row| row.get(0))?)
}

/// Appends rows to a run after record `head - 1`, whose link is `last`. Returns the last link.
fn insert(
    db: &Connection,
    run: &str,
    number: i64,
    head: u64,
    rows: &[StoredEvent],
    mut last: Hash,
) -> Outcome<Hash> {
    let mut statement = db.prepare_cached(
        "insert into events(id, at, body, version, link) values(?1, ?2, cast(?3 as text), ?4, ?5)",
    )?;
    for (seq, row) in (head..).zip(rows) {
        let place = i64::try_from(seq).ok().filter(|seq| *seq <= LAST);
        let (Some(place), true) = (place, row.seq == seq) else {
            return Err(conflict(run).into());
        };
        last = link(&last, &row.leaf);
        statement.execute(params![
            number << 32 | place,
            row.at,
            row.body,
            i64::try_from(SCHEMA_VERSION).unwrap_or(i64::MAX),
            last
        ])?;
    }
    Ok(last)
}

/// Stores the link of record `head - 1`, at which a run rests, beside the records.
fn set_head(db: &Connection, number: i64, head: u64, last: &Hash) -> Outcome<()> {
    let Some(seq) = head.checked_sub(1) else {
        return Ok(());
    };
    db.execute(
        "insert into heads(number, seq, at, link, envelope, stamp) \
         values(?1, ?2, ?3, ?4, x'', x'') on conflict(number, seq) do nothing",
        params![number, i64::try_from(seq).unwrap_or(LAST), now(), last],
    )?;
    Ok(())
}

/// The columns of a charge: hour, tokens, tokens without a price, billionths of a dollar.
type Charge = (i64, i64, i64, i64);

/// Returns what each reply or charge among the records cost, rounded up as in the Python runtime.
fn charges(records: &[Record]) -> Vec<Charge> {
    let most_tokens = 1_000_000_000_000_u64;
    let mut costs = Vec::new();
    for record in records {
        let usage = match &record.event {
            Event::Replied(reply) => &reply.usage,
            Event::Charged(charge) => &charge.usage,
            _ => continue,
        };
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        let tokens = i64::try_from(tokens.min(most_tokens)).unwrap_or(i64::MAX);
        let nano = (usage.usd.unwrap_or_default() * 1e9).min(1e15).ceil();
        #[expect(clippy::cast_possible_truncation, reason = "bounded above")]
        let nano = nano as i64;
        if tokens > 0 || nano > 0 {
            let unpriced = if usage.usd.is_none() { tokens } else { 0 };
            costs.push((record.at / 3_600_000, tokens, unpriced, nano));
        }
    }
    costs
}

/// Adds a charge to the totals of all scopes of a run. Python's budgets read them.
fn charge(db: &Connection, number: i64, cost: Charge) -> Outcome<()> {
    let mut statement = db.prepare_cached(
        "insert into spend(scope, hour, tokens, unpriced, nano_usd) \
         select scope, ?2, ?3, ?4, ?5 from (select 'all' as scope \
         union all select 'principal:' || principal from runs where number = ?1 \
         union all select 'agent:' || agent from runs where number = ?1 \
         union all select 'tag:' || key || '=' || value from runs, json_each(runs.tags) \
         where number = ?1) where true on conflict(scope, hour) do update set \
         tokens = tokens + excluded.tokens, unpriced = unpriced + excluded.unpriced, \
         nano_usd = nano_usd + excluded.nano_usd",
    )?;
    statement.execute(params![number, cost.0, cost.1, cost.2, cost.3])?;
    Ok(())
}

fn run_row(row: &Row<'_>, now: i64) -> rusqlite::Result<RunRow> {
    let tags: String = row.get(16)?;
    let events: i64 = row.get(9)?;
    let epoch: i64 = row.get(10)?;
    let mut read = RunRow {
        run: row.get(0)?,
        status: row.get(1)?,
        goal: row.get(2)?,
        agent: row.get(3)?,
        session: row.get(4)?,
        parent: row.get(5)?,
        principal: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
        events: u64::try_from(events).unwrap_or_default(),
        epoch: u64::try_from(epoch).unwrap_or_default(),
        owner: row.get(11)?,
        waiting_for: row.get(12)?,
        lease_until: row.get(13)?,
        wake_at: row.get(14)?,
        held: false,
        place: row.get(15)?,
        tags: serde_json::from_str::<BTreeMap<String, String>>(&tags).unwrap_or_default(),
    };
    read.held = read.status == "running" && lease_lasts(read.lease_until, now);
    Ok(read)
}

fn record_of(run: &str, row: (i64, i64, String, Option<i64>)) -> Result<Record, LogError> {
    let (seq, at, body, version) = row;
    let seq = u64::try_from(seq).unwrap_or_default();
    let version = version.map_or(1, |it| u64::try_from(it).unwrap_or(u64::MAX));
    if version > SCHEMA_VERSION {
        return Err(LogError::Newer {
            found: version,
            known: SCHEMA_VERSION,
        });
    }
    if version < SCHEMA_VERSION {
        let message = format!(
            "record {seq} of run {run:?} has schema {version}: the Python runtime reads it"
        );
        return Err(LogError::Format { message });
    }
    if at < 0 {
        let message = format!("record {seq} of run {run:?} is damaged: {at} is no time");
        return Err(LogError::Format { message });
    }
    let (event, elapsed) = decode(&body).map_err(|error| LogError::Format {
        message: format!("record {seq} of run {run:?} is damaged: {error}"),
    })?;
    Ok(Record {
        run: run.to_owned(),
        seq,
        at,
        elapsed,
        event,
    })
}

impl SqliteLog {
    /// Opens or creates the log at `path`. Blocks.
    ///
    /// # Errors
    ///
    /// [`LogError::Store`] if the file cannot be used, or if this user did not create it on this
    /// machine.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let path = path.as_ref();
        let path = std::path::absolute(path)
            .map_err(|error| open::store(path, &format!("has no absolute path: {error}")))?;
        let connection = open::connect(&path, WAIT)?;
        Ok(Self {
            file: Arc::new(SqliteFile {
                path,
                connection: Mutex::new(connection),
                numbers: Mutex::default(),
            }),
        })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SqliteFile) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let file = Arc::clone(&self.file);
        let joined = tokio::task::spawn_blocking(move || work(&file)).await;
        joined.unwrap_or_else(|error| {
            Err(LogError::Store {
                message: error.to_string(),
            })
        })
    }
}

#[async_trait]
impl Log for SqliteLog {
    async fn create(
        &self,
        row: &RunRow,
        records: &[Record],
        owner: Owner<'_>,
    ) -> Result<u64, LogError> {
        let records = rows_of(&row.run, records)?;
        let row = row.clone();
        let (owner, lease_ms) = (owner.name.to_owned(), owner.lease_ms);
        self.blocking(move |file| {
            file.write(|db| {
                let unended = "select 1 from runs where session = ?1 and session <> '' and \
                     status not in ('cancelled', 'failed', 'finished', 'limited')";
                let known = "select 1 from runs where run = ?1";
                for (query, value) in [(unended, &row.session), (known, &row.run)] {
                    if db.query_row(query, [value], |_| Ok(())).optional()?.is_some() {
                        return Err(conflict(&row.run).into());
                    }
                }
                let epoch = u64::from(!owner.is_empty());
                let tags = serde_json::to_string(&row.tags).unwrap_or_else(|_| "{}".to_owned());
                db.execute(
                    "insert into runs(run, status, goal, agent, session, parent, principal, \
                     created_at, updated_at, waiting_for, wake_at, tags, epoch, owner, lease_until) \
                     values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
                    params![
                        row.run,
                        row.status,
                        row.goal,
                        row.agent,
                        row.session,
                        row.parent,
                        row.principal,
                        row.created_at,
                        row.updated_at,
                        row.waiting_for,
                        row.wake_at,
                        tags,
                        i64::from(!owner.is_empty()),
                        owner,
                        if lease_ms > 0 { now() + lease_ms } else { 0 },
                    ],
                )?;
                let number = db.last_insert_rowid();
                let first = last_link(db, &row.run, number, 0)?;
                let last = insert(db, &row.run, number, 0, &records, first)?;
                if row.status != "running" {
                    set_head(db, number, records.len() as u64, &last)?;
                }
                Ok(epoch)
            })
        })
        .await
    }

    async fn claim(
        &self,
        run: &str,
        owner: Owner<'_>,
        epoch: Option<u64>,
        force: bool,
    ) -> Result<u64, LogError> {
        let (run, name, lease_ms) = (run.to_owned(), owner.name.to_owned(), owner.lease_ms);
        self.blocking(move |file| {
            file.write(|db| {
                let found = db
                    .query_row(
                        "select number, epoch, owner, status, lease_until from runs where run = ?1",
                        [&run],
                        |row| {
                            Ok((
                                row.get::<_, i64>(0)?,
                                row.get::<_, i64>(1)?,
                                row.get::<_, String>(2)?,
                                row.get::<_, String>(3)?,
                                row.get::<_, i64>(4)?,
                            ))
                        },
                    )
                    .optional()?;
                let (number, current, before, status, until) =
                    found.ok_or_else(|| unknown(&run))?;
                if epoch.is_some_and(|epoch| i64::try_from(epoch) != Ok(current)) {
                    return Err(conflict(&run).into());
                }
                // Read inside the transaction, after any wait for the lock.
                let now = now();
                let held = status == "running" && lease_lasts(until, now);
                if held && !force && name != before {
                    return Err(conflict(&run).into());
                }
                if lease_ms > 0 {
                    db.execute(
                        "update runs set epoch = ?1, owner = ?2, status = 'running', \
                         waiting_for = '', wake_at = 0, lease_until = ?3 where number = ?4",
                        params![current + 1, name, now + lease_ms, number],
                    )?;
                } else {
                    db.execute(
                        "update runs set epoch = ?1, owner = ?2, lease_until = 0 where number = ?3",
                        params![current + 1, name, number],
                    )?;
                }
                Ok(u64::try_from(current + 1).unwrap_or_default())
            })
        })
        .await
    }

    fn keep(&self, run: &str, owner: &str) -> Box<dyn Send> {
        let (file, run, owner) = (Arc::clone(&self.file), run.to_owned(), owner.to_owned());
        let (stop, stopped) = channel::<()>();
        // A thread and not a task, because a tool that blocks the executor must not stop
        // heartbeats.
        let beat = std::thread::Builder::new()
            .name("taofold-heartbeat".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                    // A failure needs no handling: the next heartbeat tries again.
                    let _ = file.renew(&run, &owner, LEASE_MS);
                }
            });
        Box::new(Heartbeat {
            stop,
            beat: beat.ok(),
        })
    }

    async fn append(&self, run: &str, epoch: u64, append: Append<'_>) -> Result<bool, LogError> {
        let (records, costs) = (rows_of(run, append.records)?, charges(append.records));
        let run = run.to_owned();
        let consumed = append.consumed.to_vec();
        let (durable, if_quiet) = (append.durable, append.if_quiet);
        let standing = append.standing.map(|it| {
            let (status, waiting_for) = (it.status.to_owned(), it.waiting_for.to_owned());
            (status, waiting_for, it.wake_at)
        });
        self.blocking(move |file| {
            let written = file.write(|db| {
                let number = file.number(db, &run)?;
                let first = number << 32;
                let fence = db
                    .query_row(
                        "select epoch, (select max(id) from events where id between ?1 and ?2) \
                         from runs where number = ?3",
                        params![first, first + LAST, number],
                        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)),
                    )
                    .optional()?;
                let (current, last) = fence.ok_or_else(|| unknown(&run))?;
                if i64::try_from(epoch) != Ok(current) {
                    return Err(conflict(&run).into());
                }
                if if_quiet {
                    let mut statement = db.prepare("select id from inbox where number = ?1")?;
                    let ids = statement
                        .query_map([number], |row| row.get::<_, String>(0))?
                        .collect::<Result<Vec<_>, _>>()?;
                    if ids.iter().any(|id| !consumed.contains(id)) {
                        return Ok(false);
                    }
                }
                let head = last.map_or(0, |id| (id & LAST) + 1);
                let head = u64::try_from(head).unwrap_or_default();
                let before = last_link(db, &run, number, head)?;
                let last = insert(db, &run, number, head, &records, before)?;
                for cost in costs {
                    charge(db, number, cost)?;
                }
                for id in &consumed {
                    db.execute(
                        "delete from inbox where number = ?1 and id = ?2",
                        params![number, id],
                    )?;
                }
                if let Some((status, waiting_for, wake_at)) = &standing {
                    db.execute(
                        "update runs set status = ?1, waiting_for = ?2, wake_at = ?3, lease_until = \
                         case ?1 when 'running' then lease_until else 0 end where number = ?4",
                        params![status, waiting_for, wake_at, number],
                    )?;
                    if status != "running" {
                        set_head(db, number, head + records.len() as u64, &last)?;
                    }
                }
                Ok(true)
            })?;
            if durable && written {
                file.settle()?;
            }
            Ok(written)
        })
        .await
    }

    async fn read(&self, run: &str, from: u64) -> Result<Vec<Record>, LogError> {
        let run = run.to_owned();
        self.blocking(move |file| {
            let rows = file.read(|db| {
                let number = file.number(db, &run)?;
                let first = (number << 32) + i64::try_from(from).unwrap_or(LAST).min(LAST);
                let mut statement = db.prepare_cached(
                    "select id & 4294967295, at, body, version from events where id >= ?1 and \
                     id <= ?2 order by id",
                )?;
                let rows = statement
                    .query_map(params![first, (number << 32) + LAST], |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                    })?
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(rows)
            })?;
            rows.into_iter().map(|row| record_of(&run, row)).collect()
        })
        .await
    }

    async fn row(&self, run: &str) -> Result<RunRow, LogError> {
        let run = run.to_owned();
        self.blocking(move |file| {
            file.read(|db| {
                let query = format!("{ROW} where run = ?1");
                let row = db.query_row(&query, [&run], |row| run_row(row, now()));
                Ok(row.optional()?.ok_or_else(|| unknown(&run))?)
            })
        })
        .await
    }

    async fn rows(&self, status: &str, limit: usize) -> Result<Vec<RunRow>, LogError> {
        let status = status.to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.blocking(move |file| {
            file.read(|db| {
                let filter = if status.is_empty() {
                    "?1 = ''"
                } else {
                    "status = ?1"
                };
                let query = format!("{ROW} where {filter} order by number desc limit ?2");
                let mut statement = db.prepare(&query)?;
                let rows = statement
                    .query_map(params![status, limit], |row| run_row(row, now()))?
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(rows)
            })
        })
        .await
    }

    async fn children(&self, run: &str) -> Result<Vec<RunRow>, LogError> {
        let run = run.to_owned();
        self.blocking(move |file| {
            file.read(|db| {
                let query = format!("{ROW} where parent = ?1 order by number");
                let mut statement = db.prepare(&query)?;
                let rows = statement
                    .query_map(params![run], |row| run_row(row, now()))?
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(rows)
            })
        })
        .await
    }

    async fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<String>, LogError> {
        let (first, last) = (prefix.to_owned(), format!("{prefix}{}", char::MAX));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.blocking(move |file| {
            file.read(|db| {
                let mut statement = db.prepare(
                    "select run from runs where run >= ?1 and run < ?2 order by run limit ?3",
                )?;
                let ids = statement
                    .query_map(params![first, last, limit], |row| row.get(0))?
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(ids)
            })
        })
        .await
    }

    async fn post(&self, run: &str, signal: &Signal) -> Result<bool, LogError> {
        let body = serde_json::to_string(signal).map_err(|error| LogError::Format {
            message: error.to_string(),
        })?;
        let (run, id) = (run.to_owned(), signal.id.clone());
        let wakes = signal.kind != "refused";
        self.blocking(move |file| {
            let new = file.write(|db| {
                let number = file.number(db, &run)?;
                let seen = "insert or ignore into seen(number, id) values(?1, ?2)";
                // The ids stay known after the message is consumed, so a repeated message is
                // detected.
                if db.execute(seen, params![number, id])? == 0 {
                    return Ok(false);
                }
                db.execute(
                    "insert into inbox(number, place, id, body) values(?1, (select \
                     coalesce(max(place), 0) + 1 from inbox where number = ?1), ?2, \
                     cast(?3 as text))",
                    params![number, id, body],
                )?;
                if wakes {
                    db.execute("update runs set wake_at = 1 where number = ?1", [number])?;
                }
                Ok(true)
            })?;
            file.settle()?;
            Ok(new)
        })
        .await
    }

    async fn inbox(&self, run: &str) -> Result<Vec<Signal>, LogError> {
        let run = run.to_owned();
        self.blocking(move |file| {
            let bodies = file.read(|db| {
                let number = file.number(db, &run)?;
                let mut statement =
                    db.prepare_cached("select body from inbox where number = ?1 order by place")?;
                let bodies = statement
                    .query_map([number], |row| row.get::<_, String>(0))?
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(bodies)
            })?;
            let read = |body: &String| {
                serde_json::from_str(body).map_err(|error| LogError::Format {
                    message: format!("a message in the inbox is damaged: {error}"),
                })
            };
            bodies.iter().map(read).collect()
        })
        .await
    }
}

/// Renews a lease until it is dropped.
struct Heartbeat {
    stop: Sender<()>,
    beat: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        // The thread may have ended.
        let _ = self.stop.send(());
        // The thread holds the log open: a process that ended first would leave the -wal file
        // behind.
        if let Some(beat) = self.beat.take() {
            let _ = beat.join();
        }
    }
}

const _: () = assert!(LEASE_MS <= LONGEST_LEASE_MS);

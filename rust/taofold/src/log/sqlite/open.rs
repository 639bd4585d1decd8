//! Opens or creates a log's file and checks its origin and its layout.
//!
//! Nothing is written before the file is known to be a log of this user.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::origin;
use crate::content::hex;
use crate::errors::LogError;

/// The version of the layout.
const VERSION: i64 = 7;
/// The application id in the file's header, which other programs can read.
const APPLICATION: i64 = 0x7A0F_01D5;
const SCHEMA: &str = include_str!("schema.sql");
const PAGE_BYTES: i64 = 2048;

/// Returns the message that replaces SQLite's own error.
pub(super) fn explain(error: &rusqlite::Error, path: &Path) -> LogError {
    use rusqlite::ErrorCode;
    let text = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "is locked by another process. Nothing of this call was saved; try again"
        }
        Some(ErrorCode::DiskFull) => {
            "cannot grow: the disk is full. Nothing of this write was saved. Free some space, then \
             resume"
        }
        Some(ErrorCode::ReadOnly) => "is read-only: check the permissions of file and folder",
        Some(ErrorCode::DatabaseCorrupt) => {
            "is damaged. Nothing was changed: restore it from a backup, or save what can be read \
             with `sqlite3 FILE .recover`"
        }
        Some(ErrorCode::NotADatabase) => {
            "is not a taofold log: it is no SQLite database. Nothing was changed"
        }
        _ => "failed",
    };
    store(path, &format!("{text} ({error})"))
}

/// Returns an error about the file.
pub(super) fn store(path: &Path, message: &str) -> LogError {
    LogError::Store {
        message: format!("{path:?} {message}"),
    }
}

/// Opens or creates the log at `path`.
pub(super) fn connect(path: &Path, wait: Duration) -> Result<Connection, LogError> {
    touch(path)?;
    let wal = beside(path, "-wal");
    // SQLite accepts any content of this file as the newest content of the log.
    if !origin::wal_is_ours(&wal) {
        return Err(store(
            &wal,
            "was not written by this user's taofold on this machine, and would change the log; \
             nothing was changed. If it came with the project, delete it. If it is yours (a \
             restored backup): `taofold runs adopt`",
        ));
    }
    let explained = |error: rusqlite::Error| explain(&error, path);
    // Checked first, because reading a log makes SQLite create the file.
    let alone = !wal.exists();
    let stored = {
        // Read-only, so that a foreign file is not changed.
        let reader = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(explained)?;
        reader.busy_timeout(wait).map_err(explained)?;
        layout(&reader, path, alone)?
    };
    // A file that was deleted in the meantime is not created again as an empty file.
    let mut connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(explained)?;
    prepare_connection(&connection, stored == 0, wait).map_err(explained)?;
    let mode: String = connection
        .query_row("pragma journal_mode = wal", [], |row| row.get(0))
        .map_err(explained)?;
    if mode != "wal" {
        let message = "lies on a file system that does not allow several processes to share a log \
                       (no WAL); choose a local disk";
        return Err(store(path, message));
    }
    // A read makes SQLite create the -wal file, which is marked before the first write.
    connection
        .pragma_query_value(None, "schema_version", |row| row.get::<_, i64>(0))
        .map_err(explained)?;
    origin::mark_wal(&wal);
    if stored == 0 {
        create(&mut connection, path)?;
    }
    Ok(connection)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn prepare_connection(
    connection: &Connection,
    empty: bool,
    wait: Duration,
) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(wait)?;
    connection.pragma_update(None, "synchronous", "normal")?;
    // A foreign file may hold triggers or views that call functions with side effects.
    connection.pragma_update(None, "trusted_schema", "off")?;
    if empty {
        // Applies only to an empty file. Small pages keep a commit small.
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    }
    Ok(())
}

fn touch(path: &Path) -> Result<(), LogError> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    if folder.is_some_and(|it| !it.is_dir()) {
        return Err(store(
            path,
            "lies in a folder that does not exist; create it first",
        ));
    }
    if path.is_dir() {
        return Err(store(path, "is a folder; name a file in it"));
    }
    let created = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match created {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(store(path, &format!("cannot be created: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns the layout version of the file; 0 if it is empty. Only reads.
///
/// `alone` is true if no -wal file exists beside it.
fn layout(connection: &Connection, path: &Path, alone: bool) -> Result<i64, LogError> {
    let explained = |error: rusqlite::Error| explain(&error, path);
    let number = |pragma: &str| {
        connection
            .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
            .map_err(explained)
    };
    let version = number("user_version")?;
    if number("application_id")? != APPLICATION {
        let tables: i64 = connection
            .query_row("select count(*) from sqlite_master", [], |row| row.get(0))
            .map_err(explained)?;
        if tables > 0 {
            return Err(store(path, "is a database, but not a taofold log"));
        }
        return Ok(0);
    }
    if version != VERSION {
        return Err(store(
            path,
            &format!(
                "has layout {version}, this release reads {VERSION}; nothing was changed: use the \
                 newer taofold, or let the Python runtime bring it up to date"
            ),
        ));
    }
    let notes = notes(connection).map_err(explained)?;
    // The Python runtime notes at each checkpoint that the -wal file holds further records.
    if alone && notes.get("records follow").is_some_and(|it| it == "1") {
        return Err(store(
            path,
            "was copied while it was in use, without its -wal file: its last records are missing, \
             and actions that were done could be done again; nothing was changed. To go on \
             without those records: `taofold runs adopt`",
        ));
    }
    if !origin::ours(path, &notes)? {
        return Err(store(
            path,
            "was not created by this user on this machine, or is a copy, so its approvals and \
             events are not trusted; nothing was changed. If it is yours: `taofold runs adopt`",
        ));
    }
    Ok(version)
}

fn notes(connection: &Connection) -> Result<BTreeMap<String, String>, rusqlite::Error> {
    connection
        .prepare("select key, value from meta")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Creates the tables and marks the file as this user's, in one transaction.
fn create(connection: &mut Connection, path: &Path) -> Result<(), LogError> {
    let explained = |error: rusqlite::Error| explain(&error, path);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(explained)?;
    // Another process may have created them since the check.
    let known: i64 = transaction
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(explained)?;
    if known == APPLICATION {
        return Ok(());
    }
    for statement in SCHEMA.split("-- ;") {
        transaction.execute_batch(statement).map_err(explained)?;
    }
    transaction
        .pragma_update(None, "application_id", APPLICATION)
        .map_err(explained)?;
    transaction
        .pragma_update(None, "user_version", VERSION)
        .map_err(explained)?;
    let chain = super::random()
        .map_err(|error| store(path, &format!("gets no id: no random bytes ({error})")))?;
    // The id that the chains of all runs of this file cover.
    let mut notes = origin::mark_as_ours(path)?;
    notes.insert("chain".to_owned(), hex(&chain));
    for (key, value) in notes {
        transaction
            .execute("insert or replace into meta values(?1, ?2)", [key, value])
            .map_err(explained)?;
    }
    transaction.commit().map_err(explained)
}

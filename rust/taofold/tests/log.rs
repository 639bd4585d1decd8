//! Guarantees of every log. Add a new log to `logs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use taofold::errors::LogError;
use taofold::events::{Event, Parked, Record, RunStarted};
use taofold::log::{Append, Log, MemoryLog, Owner, RunRow, Signal, SqliteLog, Standing, ndjson};

/// A log with the folder that it needs.
struct Place {
    log: Box<dyn Log>,
    _folder: Option<tempfile::TempDir>,
}

impl std::ops::Deref for Place {
    type Target = dyn Log;

    fn deref(&self) -> &Self::Target {
        self.log.as_ref()
    }
}

fn logs() -> Vec<Place> {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteLog::open(folder.path().join("runs.db")).unwrap();
    vec![
        Place {
            log: Box::new(MemoryLog::new()),
            _folder: None,
        },
        Place {
            log: Box::new(file),
            _folder: Some(folder),
        },
    ]
}

const ME: Owner<'_> = Owner {
    name: "me",
    lease_ms: 0,
};

fn row(run: &str) -> RunRow {
    RunRow {
        run: run.to_owned(),
        status: "running".to_owned(),
        ..RunRow::default()
    }
}

fn record(seq: u64, event: impl Into<Event>) -> Record {
    Record {
        run: "r".to_owned(),
        seq,
        at: 1_769_337_000_000,
        elapsed: (seq == 1).then_some(5),
        event: event.into(),
    }
}

fn started() -> Record {
    record(0, RunStarted::new("go"))
}

fn parked(seq: u64) -> Record {
    let reason = "x".to_owned();
    record(seq, Parked { reason })
}

fn append(records: &[Record]) -> Append<'_> {
    Append {
        records,
        ..Append::default()
    }
}

fn message(id: &str) -> Signal {
    Signal {
        id: id.to_owned(),
        kind: "steer".to_owned(),
        by: "ann".to_owned(),
        ..Signal::default()
    }
}

#[tokio::test]
async fn what_was_written_is_read_back_in_order() {
    for log in logs() {
        let epoch = log.create(&row("r"), &[started()], ME).await.unwrap();
        let records = [parked(1), parked(2)];
        let waits = Append {
            standing: Some(Standing {
                status: "waiting",
                waiting_for: "x",
                wake_at: 0,
            }),
            ..append(&records)
        };
        assert!(log.append("r", epoch, waits).await.unwrap());
        assert_eq!(
            log.read("r", 0).await.unwrap(),
            [started(), parked(1), parked(2)]
        );
        assert_eq!(log.read("r", 2).await.unwrap(), [parked(2)]);
        let row = log.row("r").await.unwrap();
        assert_eq!(
            (row.status.as_str(), row.waiting_for.as_str()),
            ("waiting", "x")
        );
        assert_eq!((row.events, row.epoch), (3, epoch));
        let exported = ndjson::export(&log.read("r", 0).await.unwrap()).unwrap();
        assert_eq!(ndjson::import(&exported).unwrap().len(), 3);
    }
}

#[tokio::test]
async fn an_id_is_taken_once_and_an_unknown_run_is_an_error() {
    for log in logs() {
        log.create(&row("r"), &[started()], ME).await.unwrap();
        let again = log.create(&row("r"), &[started()], ME).await;
        assert!(matches!(again, Err(LogError::Conflict { .. })));
        assert!(matches!(
            log.read("s", 0).await,
            Err(LogError::UnknownRun { .. })
        ));
        assert!(matches!(
            log.row("s").await,
            Err(LogError::UnknownRun { .. })
        ));
        let sent = log.post("s", &message("m")).await;
        assert!(matches!(sent, Err(LogError::UnknownRun { .. })));
    }
}

#[tokio::test]
async fn an_owner_that_was_overtaken_cannot_append() {
    for log in logs() {
        let first = log.create(&row("r"), &[started()], ME).await.unwrap();
        let second = log.claim("r", ME, Some(first), false).await.unwrap();
        assert!(second > first);
        let late = log.append("r", first, append(&[parked(1)])).await;
        assert!(matches!(late, Err(LogError::Conflict { .. })));
        let claim = log.claim("r", ME, Some(first), false).await;
        assert!(matches!(claim, Err(LogError::Conflict { .. })));
        log.append("r", second, append(&[parked(1)])).await.unwrap();
    }
}

#[tokio::test]
async fn a_gap_and_a_number_that_is_taken_are_conflicts_and_write_nothing() {
    for log in logs() {
        let epoch = log.create(&row("r"), &[started()], ME).await.unwrap();
        for seq in [0, 2] {
            let wrong = log.append("r", epoch, append(&[parked(seq)])).await;
            assert!(matches!(wrong, Err(LogError::Conflict { .. })));
        }
        assert_eq!(log.read("r", 0).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_message_is_there_until_an_append_consumes_it() {
    for log in logs() {
        let epoch = log.create(&row("r"), &[started()], ME).await.unwrap();
        for id in ["a", "b", "a"] {
            log.post("r", &message(id)).await.unwrap();
        }
        assert_eq!(log.inbox("r").await.unwrap(), [message("a"), message("b")]);
        let consumed = ["a".to_owned()];
        let taken = Append {
            records: &[parked(1)],
            consumed: &consumed,
            durable: true,
            ..Append::default()
        };
        log.append("r", epoch, taken).await.unwrap();
        assert_eq!(log.inbox("r").await.unwrap(), [message("b")]);
        // A repeated message is the same message, which was already read.
        assert!(!log.post("r", &message("a")).await.unwrap());
        assert_eq!(log.inbox("r").await.unwrap(), [message("b")]);
    }
}

#[tokio::test]
async fn child_runs_are_listed_with_the_run_that_began_them_oldest_first() {
    for log in logs() {
        for (run, parent) in [("r", ""), ("r.1-0", "r"), ("other", ""), ("r.2-0", "r")] {
            let row = RunRow {
                parent: parent.to_owned(),
                ..row(run)
            };
            let first = Record {
                run: run.to_owned(),
                ..started()
            };
            log.create(&row, &[first], ME).await.unwrap();
        }
        let rows = log.children("r").await.unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.run.as_str()).collect();
        assert_eq!(names, ["r.1-0", "r.2-0"]);
        assert!(log.children("other").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_found_by_the_beginning_of_their_id() {
    for log in logs() {
        for run in ["b", "a"] {
            let first = Record {
                run: run.to_owned(),
                ..started()
            };
            log.create(&row(run), &[first], ME).await.unwrap();
        }
        let rows = log.rows("", 10).await.unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.run.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(log.rows("", 1).await.unwrap().len(), 1);
        assert!(log.rows("failed", 10).await.unwrap().is_empty());
        assert_eq!(log.ids("a", 10).await.unwrap(), ["a"]);
    }
}

#[tokio::test]
async fn nobody_takes_a_run_whose_lease_lasts_but_by_force() {
    for log in logs() {
        let driving = Owner::driving("a");
        log.create(&row("r"), &[started()], driving).await.unwrap();
        assert!(log.row("r").await.unwrap().held);
        let other = Owner::driving("b");
        let taken = log.claim("r", other, None, false).await;
        assert!(matches!(taken, Err(LogError::Conflict { .. })));
        assert_eq!(log.claim("r", driving, None, false).await.unwrap(), 2);
        assert_eq!(log.claim("r", other, Some(2), true).await.unwrap(), 3);
        assert_eq!(log.row("r").await.unwrap().owner, "b");
    }
}

#[tokio::test]
async fn a_run_that_waits_has_no_lease_and_an_append_can_leave_unread_messages_alone() {
    for log in logs() {
        let epoch = log
            .create(&row("r"), &[started()], Owner::driving("a"))
            .await
            .unwrap();
        log.post("r", &message("m")).await.unwrap();
        let records = [parked(1)];
        let standing = Some(Standing {
            status: "waiting",
            waiting_for: "x",
            wake_at: 7,
        });
        let quiet = Append {
            standing,
            if_quiet: true,
            ..append(&records)
        };
        assert!(!log.append("r", epoch, quiet).await.unwrap());
        assert_eq!(log.read("r", 0).await.unwrap().len(), 1);
        let loud = Append {
            if_quiet: false,
            ..quiet
        };
        assert!(log.append("r", epoch, loud).await.unwrap());
        let row = log.row("r").await.unwrap();
        assert_eq!((row.held, row.lease_until, row.wake_at), (false, 0, 7));
    }
}

#[tokio::test]
async fn a_session_has_one_run_that_has_not_ended() {
    for log in logs() {
        let in_session = |run: &str| RunRow {
            session: "s".to_owned(),
            ..row(run)
        };
        let epoch = log
            .create(&in_session("r"), &[started()], ME)
            .await
            .unwrap();
        let other = [Record {
            run: "q".to_owned(),
            ..started()
        }];
        let second = log.create(&in_session("q"), &other, ME).await;
        assert!(matches!(second, Err(LogError::Conflict { .. })));
        let ended = Append {
            standing: Some(Standing {
                status: "finished",
                waiting_for: "",
                wake_at: 0,
            }),
            ..Append::default()
        };
        log.append("r", epoch, ended).await.unwrap();
        log.create(&in_session("q"), &other, ME).await.unwrap();
    }
}

#[test]
fn a_file_that_is_no_log_or_a_copy_of_one_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.db");
    std::fs::write(
        &text,
        "not a database, and long enough to have a header of one",
    )
    .unwrap();
    assert!(SqliteLog::open(&text).is_err());
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("not a"));
    let foreign = folder.path().join("foreign.db");
    let other = rusqlite::Connection::open(&foreign).unwrap();
    other.execute_batch("create table t(x)").unwrap();
    assert!(SqliteLog::open(&foreign).is_err());
    assert!(SqliteLog::open(folder.path().join("none/runs.db")).is_err());
}

//! Runs: start, resume and replay, which are three ways to drive a strategy.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::content::hex;
use crate::effects::{Answer, Coroutine};
use crate::errors::{Error, ModelError};
use crate::events::{Event, Parked, Record, Resumed, RunFinished, RunStarted};
use crate::json::to_value;
use crate::log::sqlite::random;
use crate::log::{Append, Log, Owner, RunRow, Standing};
use crate::policy::{Limit, is_masked};
use crate::runtime::ask::NAME;
use crate::runtime::child;
use crate::runtime::ledger::{Interrupt, Ledger};
use crate::runtime::ownership;
use crate::runtime::recording::{Comparison, Recording, diverged};
use crate::runtime::setup::Setup;
use crate::state::{RunState, fold, live};

/// The stop reasons of ended runs that can be resumed.
const RESUMABLE: [&str; 3] = ["cancelled", "interrupted", "error"];

/// The number of activations that may end without a record at the same place, for example when
/// killed.
const MOST_LOST: usize = 3;

/// The end of an activation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The run.
    pub run: String,
    /// The state of the run, which has ended or waits.
    pub state: RunState,
}

/// Creates run `run` and drives it until it ends or waits.
///
/// # Errors
///
/// [`Error::Log`] if the id is taken or nothing can be written. A cause that ends the run itself,
/// such as a failing provider, is not an error but part of the outcome.
pub async fn start(
    log: &dyn Log,
    run: &str,
    started: RunStarted,
    strategy: Coroutine<Answer>,
    setup: &Setup,
) -> Result<Outcome, Error> {
    let first = Record {
        run: run.to_owned(),
        seq: 0,
        at: setup.clock.now_ms(),
        elapsed: None,
        event: redacted_start(started, setup).into(),
    };
    let records = [first];
    let owner = ownership::me();
    let row = row_of(run, &records[0]);
    let epoch = log.create(&row, &records, Owner::driving(&owner)).await?;
    let _lease = log.keep(run, &owner);
    let recording = Recording::new(&records, false)?;
    let ledger = Ledger::new(setup, run, Some((log, epoch)), recording, 1, false);
    activate(&ledger, strategy).await
}

/// The time for which an expired lease is watched before its run is taken. A clock that jumped
/// expires all leases at once, and a live process renews its lease within this time.
const SILENT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(250);

/// Returns a run id that sorts by time.
///
/// # Errors
///
/// The operating system provides no random bytes.
pub fn new_id(now_ms: i64) -> std::io::Result<String> {
    let chance = random()?;
    // 48 bits of time and 32 random bits, in hex. The first digit is 0 until the year 2527.
    let time = format!("{now_ms:012x}");
    Ok(format!("{}{}", &time[time.len() - 11..], hex(&chance[..4])))
}

/// Returns the row of a run after a live owner had time to renew an expired lease.
async fn silent(log: &dyn Log, mut row: RunRow, own: &str) -> Result<RunRow, Error> {
    let begun = Instant::now();
    let left = |row: &RunRow| row.owner == own || ownership::gone(&row.owner);
    while row.status == "running"
        && row.lease_until > 0
        && !row.held
        && !left(&row)
        && begun.elapsed() < SILENT
    {
        tokio::time::sleep(LOOK).await;
        row = log.row(&row.run).await?;
    }
    Ok(row)
}

fn row_of(run: &str, first: &Record) -> RunRow {
    let Event::RunStarted(started) = &first.event else {
        return RunRow::default();
    };
    RunRow {
        run: run.to_owned(),
        status: "running".to_owned(),
        goal: started.goal.chars().take(500).collect(),
        agent: started.agent.clone(),
        session: started.session.clone(),
        parent: started.parent.clone(),
        principal: started.principal.id.clone(),
        created_at: first.at,
        updated_at: first.at,
        tags: started.tags.clone(),
        ..RunRow::default()
    }
}

fn redacted_start(mut started: RunStarted, setup: &Setup) -> RunStarted {
    let own = started.settings.entry("runtime");
    own.or_insert_with(|| NAME.into());
    let goal = setup.redactor.text(&started.goal).into_owned();
    let data = setup.redactor.object(started.data.clone());
    let before = to_value(&started.data).to_string();
    let masked =
        is_masked(&started.goal, &goal) || is_masked(&before, &to_value(&data).to_string());
    RunStarted {
        goal,
        data,
        masked,
        ..started
    }
}

/// Continues `run` from the end of its log.
///
/// # Errors
///
/// * [`Error::Log`] if there is no such run or another process drives it.
/// * [`Error::Ended`] if it has ended in a way that cannot be resumed.
/// * [`Error::Diverged`] if this code would differ from the recorded events.
pub async fn resume(
    log: &dyn Log,
    run: &str,
    strategy: Coroutine<Answer>,
    setup: &Setup,
) -> Result<Outcome, Error> {
    let owner = ownership::me();
    let row = silent(log, log.row(run).await?, &owner).await?;
    let mut records = log.read(run, 0).await?;
    let state = fold(&records)?;
    if state.status.ended() && !RESUMABLE.contains(&state.stop_reason.as_str()) {
        return Err(Error::Ended {
            run: run.to_owned(),
            status: state.status.name().to_owned(),
            stop_reason: state.stop_reason,
        });
    }
    let force = !row.held || ownership::gone(&row.owner);
    let epoch = log
        .claim(run, Owner::driving(&owner), Some(row.epoch), force)
        .await?;
    let _lease = log.keep(run, &owner);
    // A run that was only created had no activation.
    let was_cut_off = state.status.name() == "running" && (row.epoch > 1 || records.len() > 1);
    if was_cut_off {
        if deaths(&records) >= MOST_LOST && !child::delegates(&records, setup)? {
            let next = next_of(&records);
            let recording = Recording::new(&records, false)?;
            let ledger = Ledger::new(setup, run, Some((log, epoch)), recording, next, false);
            return close(&ledger, worn_out().into()).await;
        }
        // Recorded first, so that code that ends the process while the past is derived again is
        // counted, too.
        let resumed = Record {
            run: run.to_owned(),
            seq: next_of(&records),
            at: setup.clock.now_ms(),
            elapsed: None,
            event: Resumed {
                epoch,
                owner,
                runtime: NAME.to_owned(),
            }
            .into(),
        };
        let append = Append {
            records: std::slice::from_ref(&resumed),
            ..Append::default()
        };
        log.append(run, epoch, append).await?;
        records.push(resumed);
    }
    let recording = Recording::new(&records, false)?;
    let place = Some((log, epoch));
    let ledger = Ledger::new(
        setup,
        run,
        place,
        recording,
        next_of(&records),
        !was_cut_off,
    );
    activate(&ledger, strategy).await
}

fn next_of(records: &[Record]) -> u64 {
    records.last().map_or(0, |record| record.seq + 1)
}

/// Returns the number of consecutive activations that ended without a new record, including the
/// last one.
fn deaths(records: &[Record]) -> usize {
    let mut epochs = BTreeSet::new();
    for record in records.iter().rev() {
        match &record.event {
            Event::Resumed(event) => {
                epochs.insert(event.epoch);
            }
            Event::PromptChanged(_) => {}
            Event::Parked(_)
            | Event::RunFinished(_)
            | Event::Forked(_)
            | Event::Rewound(_)
            | Event::Restored(_)
            | Event::Compensated(_) => {
                return epochs.len();
            }
            // The last new record: the activation that wrote it got no further.
            _ => return epochs.len() + 1,
        }
    }
    epochs.len()
}

/// Returns the end of a run at which several processes ended before they recorded a new event.
fn worn_out() -> RunFinished {
    RunFinished {
        status: "failed".to_owned(),
        stop_reason: "error".to_owned(),
        error: format!(
            "the process that drove it ended {MOST_LOST} times at the same place, without an error \
             on record: find out why, then resume the run or cancel it"
        ),
        ..RunFinished::default()
    }
}

/// Replays a run without models or tools and compares every derived event.
///
/// Returns the derived end; `None` if the recording stops before an end.
///
/// # Errors
///
/// [`Error::Diverged`] at the first event that differs.
pub async fn replay(
    records: &[Record],
    strategy: Coroutine<Answer>,
    setup: &Setup,
    comparison: Comparison,
) -> Result<Option<RunFinished>, Error> {
    let mut recording = Recording::new(records, true)?;
    recording.shared = comparison == Comparison::Shared;
    let run = records.first().map_or("", |record| record.run.as_str());
    let next = records.len() as u64;
    let ledger = Ledger::new(setup, run, None, recording, next, false);
    // A rewind to the start may follow it: the first limit counts the cost of what was revoked.
    ledger.book().restore(Some(0))?;
    let end = match ledger.drive(strategy, String::new()).await {
        Ok(answer) => finished(&ledger, answer),
        Err(Interrupt::Halt(halt)) => finished(&ledger, halt.into()),
        Err(Interrupt::Error(Error::Model(error))) => failed(&error),
        Err(Interrupt::Error(error)) => return Err(error),
        Err(Interrupt::Denied(reason)) => denied(reason),
        Err(Interrupt::EndOfTape | Interrupt::Park(_) | Interrupt::Cancelled(_)) => {
            return Ok(None);
        }
    };
    ledger.check_used_up()?;
    let recorded = live(records)
        .into_iter()
        .rev()
        .find(|record| matches!(record.event, Event::RunFinished(_)));
    let derived: Event = end.clone().into();
    if let Some(record) = recorded
        && ledger
            .book()
            .recording
            .compare(&record.event, &derived)
            .is_err()
        && !abandoned(&record.event)
    {
        return Err(diverged("", Some(&record.event), Some(&derived)).into());
    }
    Ok(Some(end))
}

/// Returns true if a run was ended from outside, before the end of its strategy.
fn abandoned(event: &Event) -> bool {
    matches!(event, Event::RunFinished(end) if end.status == "cancelled")
}

/// Returns the time at which a waiting run is due.
///
/// It is due at once if a message is unread, and otherwise when its first question expires. 0 means
/// that only a message makes it due.
fn wake_at(ledger: &Ledger<'_>) -> i64 {
    if ledger.book().has_unread() {
        return 1;
    }
    let expires = ledger.book().first_expiry();
    expires.map_or(0, |at| {
        i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1)
    })
}

async fn activate(ledger: &Ledger<'_>, strategy: Coroutine<Answer>) -> Result<Outcome, Error> {
    let end: Event = match ledger.drive(strategy, String::new()).await {
        Ok(answer) => finished(ledger, answer).into(),
        Err(Interrupt::Halt(halt)) => finished(ledger, halt.into()).into(),
        Err(Interrupt::Park(reason)) => Parked { reason }.into(),
        Err(Interrupt::Denied(reason)) => denied(reason).into(),
        Err(Interrupt::Cancelled(by)) => cancelled(&by).into(),
        Err(Interrupt::Error(Error::Model(error))) => failed(&error).into(),
        Err(Interrupt::Error(error)) => {
            // Dispatched events are kept, unless the log itself failed.
            if !matches!(error, Error::Log(_)) {
                ledger.flush().await?;
            }
            return Err(error);
        }
        // Only an exact replay reaches an end of tape.
        Err(Interrupt::EndOfTape) => return Err(Error::ForeignAwait),
    };
    close(ledger, end).await
}

/// Records the end of an activation.
async fn close(ledger: &Ledger<'_>, end: Event) -> Result<Outcome, Error> {
    // The row holds the status, so that lists and servers need not read records.
    let (status, waiting_for, wake_at) = match &end {
        Event::RunFinished(end) => (end.status.clone(), "", 0),
        Event::Parked(parked) => (
            "waiting".to_owned(),
            parked.reason.as_str(),
            wake_at(ledger),
        ),
        _ => ("running".to_owned(), "", 0),
    };
    ledger.append(end.clone())?;
    let standing = Standing {
        status: &status,
        waiting_for,
        wake_at,
    };
    ledger.flush_as(Some(standing)).await?;
    Ok(Outcome {
        run: ledger.run.clone(),
        state: ledger.book().state.clone(),
    })
}

/// Converts a strategy's answer to the end of the run.
fn finished(ledger: &Ledger<'_>, answer: Answer) -> RunFinished {
    let limit = Limit::of_stop_reason(&answer.stop);
    let status = match answer.stop.as_str() {
        _ if limit.is_some() => "limited",
        "loop_detected" => "limited",
        "denied" | "error" => "failed",
        "cancelled" | "interrupted" => "cancelled",
        _ => "finished",
    };
    let explained = limit.map(|limit| {
        let (book, limits) = (ledger.book(), &ledger.setup.limits);
        let Some((agent, own)) = &ledger.setup.own else {
            return limits.explained(limit, &book.state, "");
        };
        let agent = crate::tools::quoted(agent);
        let place = if own.bound(limit) == limits.bound(limit) {
            format!(" of agent {agent}")
        } else {
            format!(" of the agent that called {agent} (it had no more left)")
        };
        let words = limits.explained(limit, &book.state, &place);
        format!("agent {agent}: {words}")
    });
    let error = if answer.error.is_empty() {
        explained.unwrap_or_default()
    } else {
        answer.error.clone()
    };
    RunFinished {
        status: status.to_owned(),
        stop_reason: answer.stop,
        success: status == "finished" && answer.error.is_empty(),
        output: ledger.setup.redactor.value(answer.output),
        error: ledger.setup.redactor.text(&error).into_owned(),
        ..RunFinished::default()
    }
}

fn failed(error: &ModelError) -> RunFinished {
    RunFinished {
        status: "failed".to_owned(),
        stop_reason: "error".to_owned(),
        error: error.to_string(),
        ..RunFinished::default()
    }
}

fn denied(reason: String) -> RunFinished {
    RunFinished {
        status: "failed".to_owned(),
        stop_reason: "denied".to_owned(),
        error: reason,
        ..RunFinished::default()
    }
}

fn cancelled(by: &str) -> RunFinished {
    RunFinished {
        status: "cancelled".to_owned(),
        stop_reason: "cancelled".to_owned(),
        error: format!("cancelled by {by}"),
        ..RunFinished::default()
    }
}

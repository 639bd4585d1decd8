//! The ledger of one activation: records, folds, compares and persists its events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::effects::Halt;
use crate::errors::{Error, LogError, ReplayDiverged};
use crate::events::{DecisionRefused, Event, PromptChanged, Record, Resumed};
use crate::json::Value;
use crate::log::{Append, Log, Signal, Standing};
use crate::policy::{Repetition, Reserved};
use crate::runtime::ask::NAME;
use crate::runtime::recording::{Recording, diverged};
use crate::runtime::setup::Setup;
use crate::state::{RunState, fold, live};

/// The maximum difference of the two clocks between two records without a written `elapsed`.
const CLOCK_SET_MS: i64 = 1000;

/// The causes that stop a drive before its strategy has returned.
#[derive(Debug)]
pub(super) enum Interrupt {
    /// A limit stops the strategy, which may still answer.
    Halt(Halt),
    /// The run waits.
    Park(String),
    /// The denial of an action ends the run.
    Denied(String),
    /// A user cancelled the run.
    Cancelled(String),
    /// An exact replay reached the end of the recording.
    EndOfTape,
    /// An error ends the run, or this activation.
    Error(Error),
}

impl<E: Into<Error>> From<E> for Interrupt {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// The place of a call: the key of its step, and its index in the batch.
pub(super) type Place = (String, u64);

/// The state of one activation. Its lock is never held across an await.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) state: RunState,
    pub(super) recording: Recording,
    pub(super) guards: HashMap<String, Repetition>,
    /// The tools of calls that were allowed and have not started, by place.
    pub(super) allowed: BTreeMap<Place, String>,
    /// The reservations of active child runs, by place.
    pub(super) reserved: BTreeMap<Place, Reserved>,
    /// The places of child runs that are about to start.
    pub(super) queue: BTreeSet<Place>,
    /// The number of other branches.
    pub(super) others: u64,
    /// Messages that were read in this activation and that no record includes yet.
    pub(super) inbox: Vec<Signal>,
    /// Ids of all messages that were read in this activation.
    read: BTreeSet<String>,
    /// The ids of messages that pending records include.
    consumed: Vec<String>,
    /// The expiry of open questions, by place.
    expiries: BTreeMap<(String, u64), u64>,
    late: Option<PromptChanged>,
    /// The records of earlier activations that the state includes.
    restored: Vec<Record>,
    next: u64,
    pending: Vec<Record>,
    steady: Option<(i64, u64)>,
    live: bool,
}

/// Setup, log and book of one activation.
pub(super) struct Ledger<'a> {
    pub(super) setup: &'a Setup,
    pub(super) run: String,
    log: Option<&'a dyn Log>,
    epoch: u64,
    owner: String,
    resumed: bool,
    book: Mutex<Book>,
    /// Held while records are appended: branches flush concurrently, and the numbers must be
    /// consecutive.
    appending: tokio::sync::Mutex<()>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        run: &str,
        log: Option<(&'a dyn Log, u64)>,
        recording: Recording,
        next: u64,
        resumed: bool,
    ) -> Self {
        let guards = HashMap::new();
        Self {
            setup,
            run: run.to_owned(),
            log: log.map(|(log, _)| log),
            epoch: log.map_or(0, |(_, epoch)| epoch),
            owner: super::ownership::me(),
            resumed,
            book: Mutex::new(Book {
                state: RunState::default(),
                recording,
                guards,
                allowed: BTreeMap::new(),
                reserved: BTreeMap::new(),
                queue: BTreeSet::new(),
                others: 0,
                inbox: Vec::new(),
                read: BTreeSet::new(),
                consumed: Vec::new(),
                expiries: BTreeMap::new(),
                late: None,
                restored: Vec::new(),
                next,
                pending: Vec::new(),
                steady: None,
                live: false,
            }),
            appending: tokio::sync::Mutex::new(()),
        }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event, or finds its existing record. Returns the record's number.
    ///
    /// # Errors
    ///
    /// An interrupt if another event is recorded at this place, or if the log of a replay ends.
    pub(super) fn put(&self, event: impl Into<Event>) -> Result<u64, Interrupt> {
        let event = event.into();
        let mut book = self.book();
        let kind = match &event {
            Event::StartedOnce(_) => "started",
            other => other.tag(),
        };
        if let Some(record) = book.recording.take(kind, event.key(), event.index()) {
            book.recording.compare(&record.event, &event)?;
            book.restore(Some(record.seq))?;
            return Ok(record.seq);
        }
        if book.recording.exact {
            if book.recording.behind(event.key()) {
                return Err(diverged(event.key(), None, Some(&event)).into());
            }
            return Err(Interrupt::EndOfTape);
        }
        Ok(self.record(&mut book, event)?)
    }

    /// Records an annotation of an effect. On resume, past annotations are not written again.
    pub(super) fn annotate(&self, event: impl Into<Event>) -> Result<(), Interrupt> {
        let event = event.into();
        {
            let book = self.book();
            let recorded = book
                .recording
                .peek(event.tag(), event.key(), None)
                .is_some();
            if !book.recording.exact && book.recording.behind(event.key()) && !recorded {
                return Ok(());
            }
        }
        self.put(event).map(drop)
    }

    /// Records a new event at the end of the log.
    fn record(&self, book: &mut Book, event: Event) -> Result<u64, LogError> {
        self.enter_present(book)?;
        book.append(self.setup, &self.run, event)
    }

    fn enter_present(&self, book: &mut Book) -> Result<(), LogError> {
        if book.live {
            return Ok(());
        }
        book.live = true;
        book.restore(None)?;
        if self.resumed {
            let resumed = Resumed {
                epoch: self.epoch,
                owner: self.owner.clone(),
                runtime: NAME.to_owned(),
            };
            book.append(self.setup, &self.run, resumed.into())?;
        }
        if let Some(changed) = book.late.take() {
            book.append(self.setup, &self.run, changed.into())?;
        }
        Ok(())
    }

    /// Appends an event of the driver itself, such as the end of the run.
    pub(super) fn append(&self, event: impl Into<Event>) -> Result<(), LogError> {
        let mut book = self.book();
        self.record(&mut book, event.into()).map(drop)
    }

    /// Checks that an external call may be made: an exact replay makes none. Call it before each
    /// one.
    pub(super) fn touch(&self, key: &str) -> Result<(), Interrupt> {
        let mut book = self.book();
        if book.recording.exact {
            if book.recording.behind(key) {
                let left = book.recording.first_left();
                return Err(diverged(key, left, None).into());
            }
            return Err(Interrupt::EndOfTape);
        }
        Ok(self.enter_present(&mut book)?)
    }

    /// Returns the log; `None` in an exact replay.
    pub(super) fn log(&self) -> Option<&'a dyn Log> {
        self.log
    }

    /// Flushes pending records, with the durability that their events require.
    pub(super) async fn flush(&self) -> Result<(), LogError> {
        self.flush_as(None).await
    }

    /// Flushes pending records and updates the status in the run's row.
    pub(super) async fn flush_as(&self, standing: Option<Standing<'_>>) -> Result<(), LogError> {
        // Records that another branch is appending are also durable before this branch continues.
        let _appending = self.appending.lock().await;
        let (pending, consumed) = {
            let mut book = self.book();
            let consumed = std::mem::take(&mut book.consumed);
            (std::mem::take(&mut book.pending), consumed)
        };
        let Some(log) = self.log else {
            return Ok(());
        };
        if pending.is_empty() && consumed.is_empty() && standing.is_none() {
            return Ok(());
        }
        let append = Append {
            records: &pending,
            consumed: &consumed,
            durable: pending.iter().any(|record| record.event.durable()),
            standing,
            ..Append::default()
        };
        log.append(&self.run, self.epoch, append).await.map(drop)
    }

    /// Reads new messages. A cancellation interrupts the drive.
    pub(super) async fn read_inbox(&self) -> Result<(), Interrupt> {
        let Some(log) = self.log else {
            return Ok(());
        };
        let unread = log.inbox(&self.run).await?;
        let mut book = self.book();
        for message in unread {
            if !book.read.insert(message.id.clone()) {
                continue;
            }
            if message.kind != "refused" {
                book.inbox.push(message);
                continue;
            }
            let text = |name: &str| {
                let text = message.data.get(name).and_then(Value::as_str);
                let text = text.unwrap_or_default();
                self.setup.redactor.text(text).into_owned()
            };
            let refused = DecisionRefused {
                id: text("id"),
                why: text("why"),
                by: self.setup.redactor.text(&message.by).into_owned(),
                at: u64::try_from(message.at).unwrap_or_default(),
            };
            book.consumed.push(message.id.clone());
            self.record(&mut book, refused.into())?;
        }
        match book.consume(|message| message.kind == "cancel") {
            Some(message) => Err(Interrupt::Cancelled(message.by)),
            None => Ok(()),
        }
    }

    /// Checks at the end of an exact replay that every recorded event was derived.
    pub(super) fn check_used_up(&self) -> Result<(), ReplayDiverged> {
        let book = self.book();
        if book.recording.used_up() {
            return Ok(());
        }
        let left = book.recording.first_left();
        let key = left.map_or("", Event::key);
        Err(diverged(key, left, None))
    }
}

impl Book {
    /// Returns the amounts that all other calls may still consume, beside the call at `place`.
    pub(super) fn beside(&self, place: &Place) -> Reserved {
        let allowed = self.allowed.iter().filter(|(at, _)| *at != place);
        let allowed: Vec<Reserved> = allowed.map(|(_, tool)| Reserved::call(tool)).collect();
        let reserved = self.reserved.iter().filter(|(at, _)| *at != place);
        Reserved::sum(reserved.map(|(_, share)| share).chain(&allowed))
    }

    /// Returns the number of consumers that share the remaining limits with a child run at `key`.
    ///
    /// These are its own branch, the queued child runs, and the other branches that are not already
    /// counted by a queued or active child run.
    pub(super) fn sharing(&self, key: &str) -> u64 {
        let own = branch(key);
        let places = self.queue.iter().chain(self.reserved.keys());
        let served: BTreeSet<&str> = places
            .map(|(key, _)| branch(key))
            .filter(|other| *other != own)
            .collect();
        let others = self.others.saturating_sub(served.len() as u64);
        1 + self.queue.len() as u64 + others
    }

    /// Folds recorded records up to `seq`.
    pub(super) fn restore(&mut self, seq: Option<u64>) -> Result<(), LogError> {
        for record in self.recording.restore(seq) {
            let is_rewind = matches!(record.event, Event::Rewound(_));
            self.note_expiry(&record.event);
            if !is_rewind {
                self.state.apply(&record)?;
            }
            self.restored.push(record);
            if is_rewind {
                self.state = fold(&self.restored)?;
                self.expiries.clear();
                let standing = live(&self.restored).into_iter().cloned();
                for record in standing.collect::<Vec<_>>() {
                    self.note_expiry(&record.event);
                }
            }
        }
        Ok(())
    }

    /// Consumes the first message of the inbox that `wanted` accepts, as part of the next flush.
    pub(super) fn consume(&mut self, wanted: impl Fn(&Signal) -> bool) -> Option<Signal> {
        let place = self.inbox.iter().position(wanted)?;
        let message = self.inbox.remove(place);
        self.consumed.push(message.id.clone());
        Some(message)
    }

    /// Returns true if the inbox holds an unread message.
    pub(super) fn has_unread(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Returns the time at which the first open question expires.
    pub(super) fn first_expiry(&self) -> Option<u64> {
        self.expiries.values().copied().min()
    }

    /// Notes a prompt that differs from the recorded one. It is written when the recorded past
    /// ends.
    pub(super) fn note_change(&mut self, changed: PromptChanged) {
        self.late.get_or_insert(changed);
    }

    fn note_expiry(&mut self, event: &Event) {
        let place = (event.key().to_owned(), event.index().unwrap_or_default());
        match event {
            Event::Decided(asked) if asked.expires_at > 0 => {
                self.expiries.insert(place, asked.expires_at);
            }
            Event::Resolved(_) | Event::Observed(_) => {
                self.expiries.remove(&place);
            }
            _ => {}
        }
    }

    fn append(&mut self, setup: &Setup, run: &str, event: Event) -> Result<u64, LogError> {
        let (at, steady) = (setup.clock.now_ms(), setup.clock.steady_ms());
        let elapsed = self.steady.and_then(|(at_before, steady_before)| {
            let passed = steady.saturating_sub(steady_before);
            let shown = at.saturating_sub(at_before);
            let difference = shown.saturating_sub(i64::try_from(passed).unwrap_or(i64::MAX));
            (difference.abs() > CLOCK_SET_MS).then_some(passed)
        });
        self.steady = Some((at, steady));
        let record = Record {
            run: run.to_owned(),
            seq: self.next,
            at,
            elapsed,
            event,
        };
        self.note_expiry(&record.event);
        self.state.apply(&record)?;
        let seq = self.next;
        self.next += 1;
        self.pending.push(record);
        Ok(seq)
    }

    /// Returns the guard of the branch that contains `key`.
    pub(super) fn guard(&mut self, key: &str, setup: &Setup) -> &mut Repetition {
        self.guards
            .entry(branch(key).to_owned())
            .or_insert_with(|| Repetition::new(setup.tools.names().map(str::to_owned)))
    }
}

/// Returns the branch that contains `key`; empty outside of every fork.
fn branch(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(branch, _)| branch)
}

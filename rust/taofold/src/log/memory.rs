//! A log in the memory of this process, for tests and for runs that need not survive the process.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use super::{Append, Log, Owner, RunRow, Signal, lease_lasts};
use crate::errors::LogError;
use crate::events::Record;

#[derive(Debug, Default)]
struct Run {
    row: RunRow,
    records: Vec<Record>,
    inbox: Vec<Signal>,
    seen: BTreeSet<String>,
}

impl Run {
    fn conflict(&self) -> LogError {
        LogError::Conflict {
            run: self.row.run.clone(),
        }
    }

    fn row(&self, now: i64) -> RunRow {
        RunRow {
            events: self.records.len() as u64,
            held: self.row.status == "running" && lease_lasts(self.row.lease_until, now),
            ..self.row.clone()
        }
    }

    fn take_in(&mut self, records: &[Record]) -> Result<(), LogError> {
        let next = self.records.len() as u64;
        let follows = |(place, record): (u64, &Record)| record.seq == next + place;
        if !(0..).zip(records).all(follows) {
            return Err(self.conflict());
        }
        self.row.updated_at = records.last().map_or(self.row.updated_at, |it| it.at);
        self.records.extend_from_slice(records);
        Ok(())
    }
}

/// A log in the memory of this process.
#[derive(Debug, Default)]
pub struct MemoryLog {
    runs: Mutex<Vec<Run>>,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX))
}

impl MemoryLog {
    /// Returns an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        run: &str,
        work: impl FnOnce(&mut Run) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut runs = self.lock();
        let found = runs.iter_mut().find(|candidate| candidate.row.run == run);
        work(found.ok_or_else(|| LogError::UnknownRun {
            run: run.to_owned(),
        })?)
    }
}

#[async_trait]
impl Log for MemoryLog {
    async fn create(
        &self,
        row: &RunRow,
        records: &[Record],
        owner: Owner<'_>,
    ) -> Result<u64, LogError> {
        let mut runs = self.lock();
        let ended = ["finished", "limited", "failed", "cancelled"];
        let in_the_way = |other: &Run| {
            let same_session = !row.session.is_empty() && other.row.session == row.session;
            other.row.run == row.run
                || (same_session && !ended.contains(&other.row.status.as_str()))
        };
        if let Some(other) = runs.iter().find(|other| in_the_way(other)) {
            return Err(other.conflict());
        }
        let epoch = u64::from(!owner.name.is_empty());
        let mut created = Run {
            row: RunRow {
                epoch,
                owner: owner.name.to_owned(),
                lease_until: lease_end(owner),
                place: i64::try_from(runs.len() + 1).unwrap_or(i64::MAX),
                ..row.clone()
            },
            ..Run::default()
        };
        created.take_in(records)?;
        runs.push(created);
        Ok(epoch)
    }

    async fn claim(
        &self,
        run: &str,
        owner: Owner<'_>,
        epoch: Option<u64>,
        force: bool,
    ) -> Result<u64, LogError> {
        self.with(run, |run| {
            let held = run.row(now()).held && !force && run.row.owner != owner.name;
            if held || epoch.is_some_and(|epoch| epoch != run.row.epoch) {
                return Err(run.conflict());
            }
            run.row.epoch += 1;
            owner.name.clone_into(&mut run.row.owner);
            run.row.lease_until = lease_end(owner);
            if owner.lease_ms > 0 {
                "running".clone_into(&mut run.row.status);
                run.row.waiting_for.clear();
                run.row.wake_at = 0;
            }
            Ok(run.row.epoch)
        })
    }

    fn keep(&self, _: &str, _: &str) -> Box<dyn Send> {
        // No other process can see this log, so an expired lease admits no other owner.
        Box::new(())
    }

    async fn append(&self, run: &str, epoch: u64, append: Append<'_>) -> Result<bool, LogError> {
        self.with(run, |run| {
            if run.row.epoch != epoch {
                return Err(run.conflict());
            }
            let unread = |signal: &Signal| !append.consumed.contains(&signal.id);
            if append.if_quiet && run.inbox.iter().any(unread) {
                return Ok(false);
            }
            run.take_in(append.records)?;
            run.inbox.retain(unread);
            if let Some(standing) = append.standing {
                standing.status.clone_into(&mut run.row.status);
                standing.waiting_for.clone_into(&mut run.row.waiting_for);
                run.row.wake_at = standing.wake_at;
                if standing.status != "running" {
                    run.row.lease_until = 0;
                }
            }
            Ok(true)
        })
    }

    async fn read(&self, run: &str, from: u64) -> Result<Vec<Record>, LogError> {
        self.with(run, |run| {
            let later = run.records.iter().filter(|record| record.seq >= from);
            Ok(later.cloned().collect())
        })
    }

    async fn row(&self, run: &str) -> Result<RunRow, LogError> {
        self.with(run, |run| Ok(run.row(now())))
    }

    async fn rows(&self, status: &str, limit: usize) -> Result<Vec<RunRow>, LogError> {
        let runs = self.lock();
        let wanted = |run: &&Run| status.is_empty() || run.row.status == status;
        let newest = runs.iter().rev().filter(wanted).take(limit);
        Ok(newest.map(|run| run.row(now())).collect())
    }

    async fn children(&self, run: &str) -> Result<Vec<RunRow>, LogError> {
        let runs = self.lock();
        let children = runs.iter().filter(|it| it.row.parent == run);
        Ok(children.map(|it| it.row(now())).collect())
    }

    async fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<String>, LogError> {
        let runs = self.lock();
        let mut ids: Vec<String> = runs.iter().map(|run| run.row.run.clone()).collect();
        ids.retain(|id| id.starts_with(prefix));
        ids.sort();
        ids.truncate(limit);
        Ok(ids)
    }

    async fn post(&self, run: &str, signal: &Signal) -> Result<bool, LogError> {
        self.with(run, |run| {
            let new = run.seen.insert(signal.id.clone());
            if new {
                run.inbox.push(signal.clone());
                if signal.kind != "refused" {
                    run.row.wake_at = 1;
                }
            }
            Ok(new)
        })
    }

    async fn inbox(&self, run: &str) -> Result<Vec<Signal>, LogError> {
        self.with(run, |run| Ok(run.inbox.clone()))
    }
}

fn lease_end(owner: Owner<'_>) -> i64 {
    if owner.lease_ms > 0 {
        now() + owner.lease_ms
    } else {
        0
    }
}

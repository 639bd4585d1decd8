//! Operations on runs from outside: list questions, decide, answer, steer, cancel.
//!
//! Every operation goes through the inbox of the run exactly once. A refused attempt is posted for
//! the run's record.

use thiserror::Error;

use crate::errors::LogError;
use crate::events::{Decided, Event, Record, RunFinished, Verdict};
use crate::json::{Object, Value, json};
use crate::log::{Append, Log, Owner, RunRow, Signal, Standing};
use crate::policy::{Policy, Redactor, is_masked, may_decide};
use crate::state::{fold, live};
use crate::values::{ASK_USER, Action, Principal};

/// The maximum number of refused decision attempts in the log of one run.
const REFUSALS: usize = 64;

/// The reasons for which an operation on a run is refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The operation is late, repeated, or not permitted for this principal.
    #[error("{0}")]
    Refused(String),
}

fn refused(why: impl Into<String>) -> ControlError {
    ControlError::Refused(why.into())
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// The id, in the form `RUN:SEQ`.
    pub id: String,
    /// The run.
    pub run: String,
    /// The number of the question's record.
    pub seq: u64,
    /// The action.
    pub action: Action,
    /// The record of the question.
    pub asked: Decided,
    /// The time of the question, in milliseconds since the epoch.
    pub asked_at: i64,
    /// The principal that requested the run.
    pub requester: Principal,
    /// A question that needs a text, or that is about the outcome of a call; empty for an approval.
    pub question: String,
}

impl Approval {
    /// Returns true if the answer is a text.
    pub fn wants_text(&self) -> bool {
        self.action.tool == ASK_USER || self.asked.request.is_some()
    }
}

/// The answer of an approver to a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// `allow`, `deny` or `done`.
    pub verdict: String,
    /// The reason for the record. The agent sees the reason of a denial.
    pub reason: String,
    /// The answer to a question.
    pub answer: Option<String>,
    /// The replacement parameters.
    pub parameters: Option<Object>,
}

/// Returns the open questions of one run, from its records.
///
/// # Errors
///
/// [`LogError`] if the records cannot be folded.
pub fn pending(records: &[Record]) -> Result<Vec<Approval>, LogError> {
    let state = fold(records)?;
    let Some(Event::RunStarted(started)) = records.first().map(|record| &record.event) else {
        return Ok(Vec::new());
    };
    if state.status.ended() {
        return Ok(Vec::new());
    }
    // A later question about the same action replaces the earlier one.
    let mut open: Vec<(&Record, &Decided)> = Vec::new();
    for record in live(records) {
        let (key, index) = (record.event.key(), record.event.index());
        let asks = matches!(&record.event, Event::Decided(it) if it.verdict == Verdict::Ask);
        if asks
            || matches!(
                record.event,
                Event::Decided(_) | Event::Resolved(_) | Event::Observed(_)
            )
        {
            open.retain(|(_, event)| event.key != key || Some(event.index) != index);
        }
        if let Event::Decided(event) = &record.event
            && asks
        {
            open.push((record, event));
        }
    }
    let approval = |(record, event): (&Record, &Decided)| {
        let slots = &state.open.get(&event.key)?.slots;
        let slot = slots.get(usize::try_from(event.index).ok()?)?;
        let asks = slot.action.tool == ASK_USER || slot.started || event.request.is_some();
        let own = slot
            .action
            .parameters
            .get("question")
            .and_then(Value::as_str);
        let words = if event.reason.is_empty() {
            own.unwrap_or_default()
        } else {
            &event.reason
        };
        Some(Approval {
            id: format!("{}:{}", record.run, record.seq),
            run: record.run.clone(),
            seq: record.seq,
            action: slot.action.clone(),
            asked: event.clone(),
            asked_at: record.at,
            requester: started.principal.clone(),
            question: if asks {
                words.to_owned()
            } else {
                String::new()
            },
        })
    };
    Ok(open.into_iter().filter_map(approval).collect())
}

/// Returns the open questions of a run and of its child runs, at any depth.
///
/// # Errors
///
/// [`LogError`] if there is no such run, or its records cannot be folded.
pub async fn pending_in(log: &dyn Log, run: &str) -> Result<Vec<Approval>, LogError> {
    let mut open = pending(&log.read(run, 0).await?)?;
    for row in descendants(log, run).await? {
        if matches!(row.status.as_str(), "waiting" | "running") {
            open.extend(pending(&log.read(&row.run, 0).await?)?);
        }
    }
    Ok(open)
}

/// Returns the rows of all descendants of `run`, callers before the runs they called.
///
/// # Errors
///
/// [`LogError::Store`].
pub async fn descendants(log: &dyn Log, run: &str) -> Result<Vec<RunRow>, LogError> {
    let mut found: Vec<RunRow> = log.children(run).await?;
    let mut at = 0;
    while let Some(row) = found.get(at) {
        let further = log.children(&row.run).await?;
        // A manipulated log may name a run as its own caller.
        let new = further.into_iter().filter(|row| row.run != run);
        let new: Vec<RunRow> = new
            .filter(|row| found.iter().all(|it| it.run != row.run))
            .collect();
        found.extend(new);
        at += 1;
    }
    Ok(found)
}

/// Returns the id of the root run above `run`. Resuming it resumes its child runs.
///
/// # Errors
///
/// [`LogError`] if there is no run with this id.
pub async fn root(log: &dyn Log, run: &str) -> Result<String, LogError> {
    let mut row = log.row(run).await?;
    let mut seen = vec![row.run.clone()];
    while !row.parent.is_empty() && !seen.contains(&row.parent) {
        row = match log.row(&row.parent).await {
            Ok(caller) => caller,
            Err(LogError::UnknownRun { .. }) => break,
            Err(error) => return Err(error),
        };
        seen.push(row.run.clone());
    }
    Ok(row.run)
}

/// Posts a decision to the run's inbox. The run applies it when it is resumed.
///
/// # Errors
///
/// [`ControlError::Refused`] if it is late, repeated or not permitted for this principal.
pub async fn decide(
    log: &dyn Log,
    id: &str,
    decision: &Decision,
    by: &Principal,
    policy: &Policy,
    redactor: &Redactor,
    now: i64,
) -> Result<Approval, ControlError> {
    match decide_now(log, id, decision, by, policy, redactor, now).await {
        Err(ControlError::Refused(why)) => {
            record_refusal(log, id, by, &why, redactor, now).await?;
            Err(ControlError::Refused(why))
        }
        other => other,
    }
}

async fn decide_now(
    log: &dyn Log,
    id: &str,
    decision: &Decision,
    by: &Principal,
    policy: &Policy,
    redactor: &Redactor,
    now: i64,
) -> Result<Approval, ControlError> {
    let run = match id.rsplit_once(':') {
        Some((run, seq)) if !run.is_empty() && seq.parse::<u64>().is_ok() => run,
        _ => {
            return Err(refused(format!(
                "{id:?} is no id of a question: it looks like RUN:SEQ"
            )));
        }
    };
    let open = pending(&log.read(run, 0).await?)?;
    let found = open.into_iter().find(|approval| approval.id == id);
    let Some(approval) = found else {
        let why = format!("{id:?} is not pending: it was already resolved, or never asked");
        return Err(refused(why));
    };
    // Checks the local policy and the policy under which the run asked.
    let (requester, tool) = (&approval.requester, &approval.action.tool);
    let own = policy.deciders(tool, "");
    let mut recorded = approval.asked.deciders.clone();
    if let Some(deciders) = &mut recorded
        && deciders.others.is_empty()
    {
        deciders.others.clone_from(&policy.approvers);
    }
    for deciders in [Some(own), recorded].into_iter().flatten() {
        may_decide(&deciders, by, requester, &policy.roles).map_err(refused)?;
    }
    let expires = approval.asked.expires_at;
    if expires > 0 && u64::try_from(now).unwrap_or_default() > expires {
        let tool = &approval.action.tool;
        return Err(refused(format!(
            "EXPIRED: the approval of {tool:?} was open until then"
        )));
    }
    if !["allow", "deny", "done"].contains(&decision.verdict.as_str()) {
        let verdict = &decision.verdict;
        return Err(refused(format!(
            "a decision is allow, deny or done, not {verdict:?}"
        )));
    }
    if approval.wants_text() && decision.verdict == "allow" && decision.answer.is_none() {
        return Err(refused("it is a question: it wants an answer"));
    }
    if let Some(parameters) = &decision.parameters
        && redactor.object(parameters.clone()) != *parameters
    {
        return Err(refused(
            "edited parameters may hold no secret: a log keeps none",
        ));
    }
    let signal = Signal {
        id: format!("decide:{id}"),
        kind: "decide".to_owned(),
        by: redactor.text(&by.id).into_owned(),
        at: now,
        data: message_data(approval.seq, decision, redactor),
    };
    // The id is unique in the log, so the second of two concurrent decisions is refused.
    if log.post(run, &signal).await? {
        Ok(approval)
    } else {
        Err(refused(format!("{id:?} was already resolved")))
    }
}

fn message_data(seq: u64, decision: &Decision, redactor: &Redactor) -> Object {
    let reason = redactor.text(&decision.reason).into_owned();
    let mut masked = is_masked(&decision.reason, &reason);
    let mut data = Object::from_iter([
        ("seq".to_owned(), json!(seq)),
        ("verdict".to_owned(), json!(decision.verdict)),
        ("reason".to_owned(), json!(reason)),
    ]);
    if let Some(parameters) = &decision.parameters {
        data.insert("parameters".to_owned(), json!(parameters));
    }
    if let Some(answer) = &decision.answer {
        let text = redactor.text(answer).into_owned();
        masked |= is_masked(answer, &text);
        data.insert("text".to_owned(), json!(text));
    }
    if masked {
        data.insert("masked".to_owned(), json!(true));
    }
    data
}

/// Posts a refused attempt for the record of an active run, up to a maximum number.
async fn record_refusal(
    log: &dyn Log,
    id: &str,
    by: &Principal,
    why: &str,
    redactor: &Redactor,
    now: i64,
) -> Result<(), LogError> {
    const LONGEST: usize = 500;
    let run = id.rsplit_once(':').map_or("", |(run, _)| run);
    let records = match log.read(run, 0).await {
        Err(LogError::UnknownRun { .. }) => return Ok(()),
        other => other?,
    };
    if fold(&records)?.status.ended() {
        return Ok(());
    }
    let refusals = |record: &&Record| matches!(record.event, Event::DecisionRefused(_));
    let waiting = log.inbox(run).await?;
    let kept = records.iter().filter(refusals).count()
        + waiting
            .iter()
            .filter(|signal| signal.kind == "refused")
            .count();
    let short = |text: &str| -> String { redactor.text(text).chars().take(LONGEST).collect() };
    for number in kept..REFUSALS {
        let data = json!({"id": short(id), "why": short(why)});
        let signal = Signal {
            id: format!("refused:{number}"),
            kind: "refused".to_owned(),
            by: short(&by.id),
            at: now,
            data: data.as_object().cloned().unwrap_or_default(),
        };
        if log.post(run, &signal).await? {
            break;
        }
    }
    Ok(())
}

/// Sends a message that the model reads once, at its next turn.
///
/// # Errors
///
/// [`ControlError::Refused`] if the run has ended.
pub async fn steer(
    log: &dyn Log,
    run: &str,
    text: &str,
    by: &Principal,
    redactor: &Redactor,
    now: i64,
) -> Result<(), ControlError> {
    let records = log.read(run, 0).await?;
    let state = fold(&records)?;
    if state.status.ended() {
        let status = state.status.name();
        return Err(refused(format!(
            "run {run:?} has ended as {status} and reads no messages"
        )));
    }
    let clean = redactor.text(text).into_owned();
    let mut data = Object::from_iter([("text".to_owned(), json!(clean))]);
    if is_masked(text, &clean) {
        data.insert("masked".to_owned(), json!(true));
    }
    let chance = crate::log::sqlite::random().map_err(|error| refused(error.to_string()))?;
    let signal = Signal {
        id: format!("steer:{now}:{}", crate::content::hex(&chance[..4])),
        kind: "steer".to_owned(),
        by: by.id.clone(),
        at: now,
        data,
    };
    log.post(run, &signal).await?;
    Ok(())
}

/// Requests the cancellation of a run and its child runs. A waiting run ends at once; an active run
/// ends before its next call.
///
/// Returns true if the run has ended.
///
/// # Errors
///
/// [`ControlError::Refused`] if it has already ended.
pub async fn cancel(
    log: &dyn Log,
    run: &str,
    by: &Principal,
    now: i64,
) -> Result<bool, ControlError> {
    let state = fold(&log.read(run, 0).await?)?;
    if state.status.ended() {
        let status = state.status.name();
        return Err(refused(format!(
            "run {run:?} has already ended as {status}"
        )));
    }
    // Child runs first, because a caller that has ended would leave them without an owner.
    for row in descendants(log, run).await?.into_iter().rev() {
        match cancel_one(log, &row.run, by, now).await {
            // The child run ended in the meantime.
            Ok(_) | Err(ControlError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    cancel_one(log, run, by, now).await
}

async fn cancel_one(
    log: &dyn Log,
    run: &str,
    by: &Principal,
    now: i64,
) -> Result<bool, ControlError> {
    let row = log.row(run).await?;
    let records = log.read(run, 0).await?;
    let state = fold(&records)?;
    if state.status.ended() {
        let status = state.status.name();
        return Err(refused(format!(
            "run {run:?} has already ended as {status}"
        )));
    }
    if row.status == "waiting" {
        let end = RunFinished {
            status: "cancelled".to_owned(),
            stop_reason: "cancelled".to_owned(),
            error: format!("cancelled by {}", by.id),
            ..RunFinished::default()
        };
        // Waiting does not count as activity.
        finish(log, run, &records, end, Some(0), now, Some(row.epoch)).await?;
        return Ok(true);
    }
    let signal = Signal {
        id: format!("cancel:{run}:{}", state.wakes),
        kind: "cancel".to_owned(),
        by: by.id.clone(),
        at: now,
        data: Object::new(),
    };
    log.post(run, &signal).await?;
    Ok(false)
}

/// Ends a run whose drive was dropped in this process, for example by Ctrl-C, and its active child
/// runs. A resume continues it.
///
/// # Errors
///
/// [`ControlError::Refused`] if the run is not running.
pub async fn interrupt(log: &dyn Log, run: &str, now: i64) -> Result<(), ControlError> {
    let own = super::ownership::me();
    for row in descendants(log, run).await?.into_iter().rev() {
        if row.status == "running" && row.owner == own {
            interrupt_one(log, &row.run, now).await?;
        }
    }
    interrupt_one(log, run, now).await
}

async fn interrupt_one(log: &dyn Log, run: &str, now: i64) -> Result<(), ControlError> {
    let records = log.read(run, 0).await?;
    let status = fold(&records)?.status;
    if status.name() != "running" {
        let status = status.name();
        return Err(refused(format!("run {run:?} does not run: it is {status}")));
    }
    let end = RunFinished {
        status: "cancelled".to_owned(),
        stop_reason: "interrupted".to_owned(),
        error: "interrupted".to_owned(),
        ..RunFinished::default()
    };
    finish(log, run, &records, end, None, now, None).await
}

/// Appends the end of a run as its owner. A remaining drive can append nothing afterwards.
async fn finish(
    log: &dyn Log,
    run: &str,
    records: &[Record],
    end: RunFinished,
    elapsed: Option<u64>,
    now: i64,
    epoch: Option<u64>,
) -> Result<(), ControlError> {
    let end = Record {
        run: run.to_owned(),
        seq: records.last().map_or(0, |record| record.seq + 1),
        at: records.last().map_or(now, |record| now.max(record.at)),
        elapsed,
        event: end.into(),
    };
    let epoch = log
        .claim(run, Owner::default(), epoch, epoch.is_none())
        .await?;
    let append = Append {
        records: std::slice::from_ref(&end),
        durable: true,
        standing: Some(Standing {
            status: "cancelled",
            waiting_for: "",
            wake_at: 0,
        }),
        ..Append::default()
    };
    log.append(run, epoch, append).await?;
    Ok(())
}

//! TAO documents in the form of the AIWG rules: `ralph_tao_log`, or `tao_iteration` documents.
//!
//! An imported document becomes the records of a run, which fold and can be judged but replay
//! nothing. Unknown thought types and statuses become `reasoning` and `partial`, with a recorded
//! violation. `Gaps` are recorded beside a turn, so that an export states no time that its document
//! did not state.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::errors::ConfigError;
use crate::events::{
    Event, Noted, Observed, Proposed, Record, RunFinished, RunStarted, Started, StartedOnce,
    Violated,
};
use crate::json::{Object, Value, json, to_value};
use crate::log::ndjson::iso;
use crate::state::live;
use crate::strategy::object;
use crate::trace::{TracedCall, TracedTurn, turns};
use crate::values::{
    ASK_USER, Action, FINISH, Observation, ObservationStatus, Sideeffect, Thought, ThoughtType,
};

/// The strategy name of a run imported from a document.
const IMPORTED: &str = "imported";
/// The kind of the note that holds [`Gaps`].
const GAPS: &str = "gaps";

/// The missing times of a turn, and its observations without an action, by index in the batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Gaps {
    #[serde(skip_serializing_if = "is_default")]
    thought: bool,
    #[serde(skip_serializing_if = "is_default")]
    actions: Vec<usize>,
    #[serde(skip_serializing_if = "is_default")]
    observations: Vec<usize>,
    #[serde(skip_serializing_if = "is_default")]
    durations: Vec<usize>,
    /// Observations without an action, as the document has them.
    #[serde(skip_serializing_if = "is_default")]
    stray: Vec<Value>,
    /// The document states no time of its start. Only under the key "".
    #[serde(skip_serializing_if = "is_default")]
    log: bool,
    /// The end has no time. Only under the key "".
    #[serde(skip_serializing_if = "is_default")]
    outcome: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns the gaps by the key of their turn.
fn gaps_of<'a>(records: impl IntoIterator<Item = &'a Record>) -> HashMap<String, Gaps> {
    let noted = records
        .into_iter()
        .filter_map(|record| match &record.event {
            Event::Noted(note) if note.kind == GAPS => Some(note),
            _ => None,
        });
    let read = noted.filter_map(|note| {
        // A foreign log may hold any data here.
        let gaps = serde_json::from_value(Value::Object(note.data.clone())).ok()?;
        Some((note.key.clone(), gaps))
    });
    read.collect()
}

/// Parses a document to the records of a run. `at` is the time for entries without a timestamp.
///
/// # Errors
///
/// [`ConfigError`] with the path of the field that is missing, unknown or of the wrong type.
pub fn import(text: &str, run: &str, at: i64) -> Result<Vec<Record>, ConfigError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| ConfigError::new("", format!("not readable YAML: {error}")))?;
    let mut writer = Writer {
        run: run.to_owned(),
        at,
        records: Vec::new(),
        listed: Vec::new(),
    };
    let log = match documents.as_slice() {
        [] => {
            return Err(ConfigError::new(
                "",
                "the document is empty: expected ralph_tao_log",
            ));
        }
        [Value::Object(top)] if top.contains_key("ralph_tao_log") => top.get("ralph_tao_log"),
        _ => None,
    };
    match log {
        Some(log) => read_log(&mut writer, log)?,
        None => {
            writer.put(RunStarted {
                strategy: IMPORTED.to_owned(),
                ..RunStarted::new("")
            });
            for (number, document) in (1..).zip(&documents) {
                let mut top = Fields::new(document, "document")?;
                let inner = top.required("tao_iteration")?;
                top.close()?;
                read_iteration(&mut writer, &inner, number, "tao_iteration")?;
            }
            writer.lacks(
                "",
                &Gaps {
                    log: true,
                    ..Gaps::default()
                },
            );
            writer.begin_with_the_first();
        }
    }
    Ok(writer.records)
}

fn read_log(writer: &mut Writer, value: &Value) -> Result<(), ConfigError> {
    let path = "ralph_tao_log";
    let mut log = Fields::new(value, path)?;
    let loop_id = log.text("loop_id")?;
    if writer.run.is_empty() {
        writer.run = if loop_id.is_empty() {
            IMPORTED.to_owned()
        } else {
            loop_id
        };
    }
    let dated = log.has("timestamp");
    writer.at = log.instant("timestamp", writer.at)?;
    let mut settings = Object::new();
    for name in ["instructions", "research"] {
        if let Some(value) = log.take(name) {
            settings.insert(name.to_owned(), value);
        }
    }
    let agent = log.text("agent")?;
    let mut start = RunStarted {
        strategy: IMPORTED.to_owned(),
        model: log.text("model")?,
        settings,
        ..RunStarted::new(log.text("task")?)
    };
    if !agent.is_empty() {
        start.agent = agent;
    }
    writer.put(start);
    let iterations = log.list("iterations")?;
    for violation in log.list("violations")? {
        let mut fields = Fields::new(&violation, "ralph_tao_log.violations")?;
        let steps = fields.numbers("steps")?;
        writer.listed.push(Violated {
            key: steps.first().map_or_else(String::new, u64::to_string),
            rule: fields.text("rule")?,
            detail: fields.text("detail")?,
            steps,
            refused: fields.flag("refused")?,
        });
        fields.close()?;
    }
    for (number, iteration) in (1..).zip(iterations) {
        let path = format!("{path}.iterations.{}", number - 1);
        read_iteration(writer, &iteration, number, &path)?;
    }
    for violation in writer.listed.clone() {
        writer.put(violation);
    }
    let outcome = log.take("outcome").filter(|it| !it.is_null());
    writer.lacks(
        "",
        &Gaps {
            log: !dated,
            outcome: outcome.as_ref().is_some_and(|it| !states(it, "timestamp")),
            ..Gaps::default()
        },
    );
    if let Some(outcome) = outcome {
        let mut fields = Fields::new(&outcome, "ralph_tao_log.outcome")?;
        let end = RunFinished {
            status: fields.text("status")?,
            stop_reason: fields.text("stop_reason")?,
            success: fields.flag("success")?,
            output: fields.take("output").unwrap_or_default(),
            error: fields.text("error")?,
            ..RunFinished::default()
        };
        writer.at = fields.instant("timestamp", writer.at)?;
        fields.close()?;
        writer.put(end);
    }
    log.close()?;
    if !dated {
        writer.begin_with_the_first();
    }
    Ok(())
}

fn read_iteration(
    writer: &mut Writer,
    value: &Value,
    number: u64,
    path: &str,
) -> Result<(), ConfigError> {
    let mut fields = Fields::new(value, path)?;
    let given = fields.either("iteration", "iteration_number")?;
    // Numbers of a foreign file are checked and not trusted, because `because` refers to them.
    if given.is_some_and(|given| given.as_u64() != Some(number)) {
        return Err(fields.fault("", &format!("is not iteration {number}: number from 1")));
    }
    fields.flag("interrupted")?;
    let thought = fields.take("thought");
    let untimed = !thought.as_ref().is_some_and(|it| states(it, "timestamp"));
    let (thought, at) = read_thought(writer, thought, number, path)?;
    let actions = listed(fields.either("action", "actions")?);
    let mut observations = listed(fields.either("observation", "observations")?);
    fields.close()?;
    let stray = observations.split_off(observations.len().min(actions.len()));
    let gaps = Gaps {
        thought: untimed,
        actions: lacking("timestamp", &actions),
        observations: lacking("timestamp", &observations),
        durations: lacking("duration_ms", &observations),
        ..Gaps::default()
    };
    let mut calls = Vec::with_capacity(actions.len());
    let mut observations = observations.into_iter();
    for action in &actions {
        let mut call = read_action(action, path, at)?;
        if let Some(observation) = observations.next().filter(|it| !it.is_null()) {
            let when = call.started_at;
            let (observation, seen) = read_observation(writer, observation, number, path, when)?;
            call.observation = Some(observation);
            call.observed_at = seen;
        }
        let likely = likely_started(&call);
        let said = action
            .get("started")
            .filter(|_| action.get("parameters").is_some());
        call.started = said.and_then(Value::as_bool).unwrap_or(likely);
        calls.push(call);
    }
    for _ in &stray {
        let detail = "an observation without an action".to_owned();
        writer.mended("R3", detail, number);
    }
    writer.turn(number, at, thought, calls);
    writer.lacks(&number.to_string(), &Gaps { stray, ..gaps });
    Ok(())
}

fn states(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|it| !it.is_null())
}

/// Returns the indexes of the values that do not state `key`.
fn lacking(key: &str, values: &[Value]) -> Vec<usize> {
    let lacking = values.iter().enumerate().filter(|(_, it)| !states(it, key));
    lacking.map(|(index, _)| index).collect()
}

fn listed(value: Option<Value>) -> Vec<Value> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(value) => vec![value],
    }
}

/// Returns true if a call was probably started, for documents without that information.
fn likely_started(call: &TracedCall) -> bool {
    let refused = |it: &Observation| !it.refused.is_empty();
    let reserved = matches!(call.action.tool.as_str(), FINISH | ASK_USER);
    !call.action.tool.is_empty()
        && !reserved
        && call.action.error.is_empty()
        && !call.observation.as_ref().is_some_and(refused)
}

fn read_thought(
    writer: &mut Writer,
    value: Option<Value>,
    number: u64,
    path: &str,
) -> Result<(Thought, i64), ConfigError> {
    let value = match value {
        None | Some(Value::Null) => return Ok((Thought::default(), writer.at)),
        Some(Value::String(content)) => json!({"content": content}),
        Some(value) => value,
    };
    let mut fields = Fields::new(&value, &format!("{path}.thought"))?;
    let confidence = fields.number("confidence")?;
    let mut thought = Thought {
        content: fields.text("content")?,
        because: fields.numbers("because")?,
        confidence,
        critical: fields.flag("critical")?,
        synthesized: fields.flag("synthesized")?,
        inferred: fields.flag("inferred")?,
        learned: fields.text("learned")?,
        ..Thought::default()
    };
    let kind = fields.text("type")?;
    match ThoughtType::named(&kind.trim().to_lowercase()) {
        Some(kind) => thought.kind = kind,
        None => {
            let detail = if kind.is_empty() {
                "the thought has no type".to_owned()
            } else {
                format!("unknown thought type {kind:?}")
            };
            writer.mended("thought_type", detail, number);
            thought.synthesized = true;
        }
    }
    let at = fields.instant("timestamp", writer.at)?;
    fields.close()?;
    Ok((thought, at))
}

fn read_action(value: &Value, path: &str, at: i64) -> Result<TracedCall, ConfigError> {
    if let Value::String(text) = value {
        let mut call = TracedCall::new(Action {
            error: format!("names no tool: {text:?}"),
            ..Action::default()
        });
        call.started_at = at;
        return Ok(call);
    }
    let mut fields = Fields::new(value, &format!("{path}.action"))?;
    let mut action = Action {
        tool: fields.text("tool")?,
        rationale: fields.text("rationale")?,
        ..Action::default()
    };
    let started_at = fields.instant("timestamp", at)?;
    let mut effect = None;
    match fields.take("parameters") {
        // Arguments may be beside `tool`, as in the rules' second example.
        None | Some(Value::Null) => action.parameters = fields.rest(),
        Some(Value::Object(parameters)) => {
            action.parameters = parameters;
            action.id = fields.text("id")?;
            action.repairs = fields.texts("repairs")?;
            action.guessed = fields.flag("guessed")?;
            action.error = fields.text("error")?;
            effect = match fields.text("effect")?.as_str() {
                "once" => Some(Sideeffect::Once),
                "idempotent" => Some(Sideeffect::Idempotent),
                "" => None,
                other => return Err(fields.fault("effect", &format!("is unknown: {other:?}"))),
            };
            fields.flag("started")?;
            fields.close()?;
        }
        Some(_) => return Err(fields.fault("parameters", "must be a mapping")),
    }
    let mut call = TracedCall::new(action);
    call.started_at = started_at;
    call.effect = effect;
    Ok(call)
}

fn read_observation(
    writer: &mut Writer,
    value: Value,
    number: u64,
    path: &str,
    at: i64,
) -> Result<(Observation, i64), ConfigError> {
    let value = match value {
        Value::Object(_) => value,
        result => json!({"result": result}),
    };
    let mut fields = Fields::new(&value, &format!("{path}.observation"))?;
    let named = fields.text("status")?;
    let status = serde_json::from_value(json!(named)).unwrap_or_else(|_| {
        let detail = if named.is_empty() {
            "no status".to_owned()
        } else {
            format!("unknown status {named:?}")
        };
        writer.mended("status", detail, number);
        // An unknown status must not improve the run's success rate.
        ObservationStatus::Partial
    });
    let observation = Observation {
        result: fields.take("result").unwrap_or_default(),
        status,
        extraction: fields.text("extraction")?,
        auto: fields.flag("auto")?,
        duration_ms: fields.number("duration_ms")?.unwrap_or(0.0),
        options: fields.texts("options")?,
        blob: fields.text("blob")?,
        refused: fields.text("refused")?,
        cut: fields.flag("cut")?,
        ..Observation::default()
    };
    let seen = fields.instant("timestamp", at)?;
    fields.close()?;
    Ok((observation, seen))
}

/// A writer that assembles turns to the records of a run.
struct Writer {
    run: String,
    at: i64,
    records: Vec<Record>,
    /// The violations that the document lists. They are not recorded twice.
    listed: Vec<Violated>,
}

impl Writer {
    fn put(&mut self, event: impl Into<Event>) {
        self.records.push(Record {
            run: self.run.clone(),
            seq: self.records.len() as u64,
            at: self.at,
            elapsed: None,
            event: event.into(),
        });
    }

    fn turn(&mut self, number: u64, at: i64, thought: Thought, calls: Vec<TracedCall>) {
        let key = number.to_string();
        self.at = at;
        self.put(Proposed {
            key: key.clone(),
            thought,
            actions: calls.iter().map(|call| call.action.clone()).collect(),
        });
        // All starts before the first observation, in the order in which a run writes a batch.
        for (index, call) in (0..).zip(&calls).filter(|(_, call)| call.started) {
            self.at = call.started_at;
            let key = key.clone();
            match call.effect {
                Some(effect) => self.put(StartedOnce {
                    key,
                    index,
                    kept: Value::Null,
                    retry: 0,
                    effect,
                }),
                None => self.put(Started {
                    key,
                    index,
                    kept: Value::Null,
                    retry: 0,
                }),
            }
        }
        for (index, call) in (0..).zip(calls) {
            if let Some(observation) = call.observation {
                self.at = call.observed_at;
                self.put(Observed::new(key.as_str(), index, observation));
            }
        }
    }

    /// Records the gaps of a turn, or of the document under the key "".
    fn lacks(&mut self, key: &str, gaps: &Gaps) {
        if *gaps != Gaps::default() {
            self.put(Noted {
                key: key.to_owned(),
                kind: GAPS.to_owned(),
                data: object(to_value(gaps)),
            });
        }
    }

    fn mended(&mut self, rule: &str, detail: String, number: u64) {
        let violation = Violated {
            key: number.to_string(),
            rule: rule.to_owned(),
            detail,
            steps: vec![number],
            ..Violated::default()
        };
        if !self.listed.contains(&violation) {
            self.put(violation);
        }
    }

    /// Dates a start without its own time, not after the following record.
    fn begin_with_the_first(&mut self) {
        let first = self.records.iter().map(|record| record.at).min();
        if let (Some(start), Some(first)) = (self.records.first_mut(), first) {
            start.at = first;
        }
    }
}

/// A mapping of the document, whose keys are consumed one by one.
struct Fields {
    left: Object,
    path: String,
}

impl Fields {
    fn new(value: &Value, path: &str) -> Result<Self, ConfigError> {
        match value {
            Value::Object(members) => Ok(Self {
                left: members.clone(),
                path: path.to_owned(),
            }),
            _ => Err(ConfigError::new(path, "must be a mapping")),
        }
    }

    fn fault(&self, key: &str, message: &str) -> ConfigError {
        let path = if key.is_empty() {
            self.path.clone()
        } else {
            format!("{}.{key}", self.path)
        };
        ConfigError::new(path, message)
    }

    fn has(&self, key: &str) -> bool {
        self.left.get(key).is_some_and(|it| !it.is_null())
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.left.shift_remove(key)
    }

    fn required(&mut self, key: &str) -> Result<Value, ConfigError> {
        self.take(key).ok_or_else(|| self.fault(key, "is missing"))
    }

    /// Takes the value under either of two spellings. Both at once are an error.
    fn either(&mut self, one: &str, other: &str) -> Result<Option<Value>, ConfigError> {
        match (self.take(one), self.take(other)) {
            (Some(_), Some(_)) => Err(self.fault(
                other,
                &format!("says the same as {one:?}: keep one of them"),
            )),
            (value, None) | (None, value) => Ok(value),
        }
    }

    fn text(&mut self, key: &str) -> Result<String, ConfigError> {
        match self.take(key) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.fault(key, "must be text")),
        }
    }

    fn flag(&mut self, key: &str) -> Result<bool, ConfigError> {
        match self.take(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(self.fault(key, "must be true or false")),
        }
    }

    fn number(&mut self, key: &str) -> Result<Option<f64>, ConfigError> {
        match self.take(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => Ok(number.as_f64()),
            Some(_) => Err(self.fault(key, "must be a number")),
        }
    }

    fn list(&mut self, key: &str) -> Result<Vec<Value>, ConfigError> {
        match self.take(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(entries)) => Ok(entries),
            Some(_) => Err(self.fault(key, "must be a list")),
        }
    }

    fn texts(&mut self, key: &str) -> Result<Vec<String>, ConfigError> {
        let entries = self.list(key)?;
        let texts = entries
            .iter()
            .map(|entry| entry.as_str().map(str::to_owned));
        texts
            .collect::<Option<_>>()
            .ok_or_else(|| self.fault(key, "must be a list of texts"))
    }

    fn numbers(&mut self, key: &str) -> Result<Vec<u64>, ConfigError> {
        let entries = self.list(key)?;
        let numbers = entries.iter().map(Value::as_u64);
        numbers
            .collect::<Option<_>>()
            .ok_or_else(|| self.fault(key, "must be a list of whole numbers"))
    }

    fn instant(&mut self, key: &str, default: i64) -> Result<i64, ConfigError> {
        let text = self.text(key)?;
        if text.is_empty() {
            return Ok(default);
        }
        milliseconds(&text)
            .ok_or_else(|| self.fault(key, "must be a time as 2026-01-25T10:30:00.000Z"))
    }

    fn rest(&mut self) -> Object {
        std::mem::take(&mut self.left)
    }

    fn close(&self) -> Result<(), ConfigError> {
        match self.left.keys().next() {
            Some(unknown) => Err(self.fault(unknown, "is an unknown field")),
            None => Ok(()),
        }
    }
}

/// Parses a time in UTC or with an offset to milliseconds since the epoch.
fn milliseconds(text: &str) -> Option<i64> {
    let number = |part: &str| -> Option<i64> {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse().ok() } else { None }
    };
    let (date, rest) = text.split_once(['T', ' '])?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (
        number(date.next()?)?,
        number(date.next()?)?,
        number(date.next()?)?,
    );
    let (clock, offset_minutes) = match rest.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, 0),
        None => {
            let at = rest.rfind(['+', '-'])?;
            let (hours, minutes) = rest[at + 1..].split_once(':')?;
            let minutes = number(hours)? * 60 + number(minutes)?;
            let sign = if rest[at..].starts_with('-') { -1 } else { 1 };
            (&rest[..at], sign * minutes)
        }
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.splitn(3, ':');
    let (hour, minute, second) = (
        number(clock.next()?)?,
        number(clock.next()?)?,
        number(clock.next().unwrap_or("0"))?,
    );
    let mut fraction: String = fraction.chars().take(3).collect();
    while fraction.len() < 3 {
        fraction.push('0');
    }
    let valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let seconds = (hour * 60 + minute - offset_minutes) * 60 + second;
    Some((days_from_civil(year, month, day) * 86_400 + seconds) * 1000 + number(&fraction)?)
}

/// Returns the days since 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns the run as one `ralph_tao_log` document.
pub fn document(records: &[Record]) -> Value {
    let live = live(records);
    let gaps = gaps_of(live.iter().copied());
    let gaps = |key: &str| gaps.get(key).cloned().unwrap_or_default();
    let whole = gaps("");
    let mut log = Object::new();
    let run = live.first().map_or("", |record| record.run.as_str());
    log.insert("loop_id".to_owned(), json!(run));
    for record in &live {
        if let Event::RunStarted(start) = &record.event {
            log.insert("task".to_owned(), json!(start.goal));
            put_time(&mut log, record.at, !whole.log);
            log.insert("agent".to_owned(), json!(start.agent));
            put_filled(&mut log, "model", json!(start.model));
        }
    }
    let turns = turns(records);
    let iterations = turns.iter().map(|turn| iteration(turn, gaps(&turn.key)));
    log.insert("iterations".to_owned(), iterations.collect());
    for record in &live {
        if let Event::RunFinished(end) = &record.event {
            let mut outcome = object(json!({
                "status": end.status,
                "stop_reason": end.stop_reason,
                "success": end.success,
                "output": end.output,
            }));
            put_filled(&mut outcome, "error", json!(end.error));
            put_time(&mut outcome, record.at, !whole.outcome);
            log.insert("outcome".to_owned(), Value::Object(outcome));
        }
    }
    json!({"ralph_tao_log": log})
}

fn iteration(turn: &TracedTurn, gaps: Gaps) -> Value {
    let mut document = object(json!({"iteration": turn.number, "thought": thought(turn, &gaps)}));
    if !turn.calls.is_empty() && !turn.complete() {
        document.insert("interrupted".to_owned(), json!(true));
    }
    let calls = || turn.calls.iter().enumerate();
    let actions: Vec<Value> = calls()
        .map(|(index, call)| action(call, turn.at, !gaps.actions.contains(&index)))
        .collect();
    let mut observations: Vec<Value> = calls()
        .map(|(index, call)| observation(call, index, &gaps))
        .collect();
    observations.extend(gaps.stray);
    // The rules' own form for one action; lists are used only for larger batches.
    let batch = actions.len() > 1 || observations.len() > 1;
    for (name, values) in [("action", actions), ("observation", observations)] {
        if batch {
            put_filled(&mut document, &format!("{name}s"), values.into());
        } else {
            let value = values.into_iter().next().unwrap_or_default();
            if !value.is_null() {
                document.insert(name.to_owned(), value);
            }
        }
    }
    Value::Object(document)
}

fn thought(turn: &TracedTurn, gaps: &Gaps) -> Value {
    let thought = &turn.thought;
    let mut document = object(json!({"type": thought.kind, "content": thought.content}));
    if let Some(confidence) = thought.confidence {
        document.insert("confidence".to_owned(), json!(confidence));
    }
    put_filled(&mut document, "because", json!(thought.because));
    put_filled(&mut document, "learned", json!(thought.learned));
    put_filled(&mut document, "critical", json!(thought.critical));
    put_filled(&mut document, "synthesized", json!(thought.synthesized));
    put_filled(&mut document, "inferred", json!(thought.inferred));
    put_time(&mut document, turn.at, !gaps.thought);
    Value::Object(document)
}

fn action(call: &TracedCall, proposed: i64, timed: bool) -> Value {
    let action = &call.action;
    let mut document = object(json!({"tool": action.tool, "parameters": action.parameters}));
    put_filled(&mut document, "rationale", json!(action.rationale));
    put_filled(&mut document, "id", json!(action.id));
    put_filled(&mut document, "repairs", json!(action.repairs));
    put_filled(&mut document, "guessed", json!(action.guessed));
    put_filled(&mut document, "error", json!(action.error));
    if let Some(effect) = call.effect {
        document.insert("effect".to_owned(), json!(effect));
    }
    // Written only if a reader would infer it wrongly.
    if call.started != likely_started(call) {
        document.insert("started".to_owned(), json!(call.started));
    }
    let at = if call.started {
        call.started_at
    } else {
        proposed
    };
    put_time(&mut document, at, timed);
    Value::Object(document)
}

fn observation(call: &TracedCall, index: usize, gaps: &Gaps) -> Value {
    let Some(observation) = &call.observation else {
        return Value::Null;
    };
    let status = observation.status;
    let mut document = object(json!({"result": observation.result, "status": status}));
    put_filled(&mut document, "extraction", json!(observation.extraction));
    put_filled(&mut document, "auto", json!(observation.auto));
    put_filled(&mut document, "options", json!(observation.options));
    put_filled(&mut document, "blob", json!(observation.blob));
    put_filled(&mut document, "refused", json!(observation.refused));
    put_filled(&mut document, "cut", json!(observation.cut));
    if !gaps.durations.contains(&index) {
        document.insert("duration_ms".to_owned(), json!(observation.duration_ms));
    }
    put_time(
        &mut document,
        call.observed_at,
        !gaps.observations.contains(&index),
    );
    Value::Object(document)
}

/// Adds a time, if the document that was imported states it.
fn put_time(document: &mut Object, at: i64, stated: bool) {
    if stated {
        document.insert("timestamp".to_owned(), json!(iso(at)));
    }
}

/// Adds a field unless it is empty.
fn put_filled(document: &mut Object, name: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(_) => false,
    };
    if !empty {
        document.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_an_offset() {
        let utc = milliseconds("2026-01-25T10:30:01.150Z");
        assert_eq!(utc, Some(1_769_337_001_150));
        assert_eq!(milliseconds("2026-01-25T12:30:01.15+02:00"), utc);
        assert_eq!(milliseconds("2026-13-25T12:30:01Z"), None);
        assert_eq!(milliseconds("yesterday"), None);
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_path() {
        let text = "ralph_tao_log: {iterations: [{thought: {content: x, typ: goal}}]}";
        let error = import(text, "r", 0).unwrap_err();
        assert_eq!(error.path, "ralph_tao_log.iterations.0.thought.typ");
    }

    #[test]
    fn an_unknown_status_becomes_partial_with_a_violation() {
        let text = "ralph_tao_log: {iterations: [{thought: {type: goal, content: x}, \
                    action: {tool: t}, observation: {status: great}}]}";
        let records = import(text, "r", 0).unwrap();
        let has = |check: fn(&Event) -> bool| records.iter().any(|it| check(&it.event));
        assert!(has(
            |it| matches!(it, Event::Violated(event) if event.rule == "status")
        ));
        assert!(has(|it| matches!(
            it,
            Event::Observed(event) if event.observation.status == ObservationStatus::Partial
        )));
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        assert!(import("ralph_tao_log: {task: a, task: b}", "r", 0).is_err());
    }

    #[test]
    fn a_document_round_trips_through_its_records() {
        let text = "ralph_tao_log:\n  loop_id: l\n  task: t\n  iterations:\n  - thought: {type: goal, \
                    content: x}\n    action: {tool: t, parameters: {a: 1}}\n    observation: {status: \
                    success, result: 5}\n";
        let records = import(text, "", 0).unwrap();
        let again = import(&document(&records).to_string(), "", 0).unwrap();
        assert_eq!(records, again);
    }

    #[test]
    fn absent_times_and_observations_without_an_action_stay_as_they_are() {
        let text = "ralph_tao_log:\n  iterations:\n  - thought: {type: goal, content: x}\n    \
                    observation: {status: success, result: 5}\n  - thought: {type: goal, content: go, \
                    timestamp: \"2026-01-25T10:30:00Z\"}\n    action: {tool: t, parameters: {a: 1}}\n    \
                    observation: {status: success, result: 5, duration_ms: 3}\n";
        let written = document(&import(text, "", 7).unwrap());
        let log = &written["ralph_tao_log"];
        assert_eq!(log.get("timestamp"), None);
        assert_eq!(
            log["iterations"][0],
            json!({
                "iteration": 1,
                "thought": {"type": "goal", "content": "x"},
                "observation": {"status": "success", "result": 5},
            })
        );
        assert_eq!(
            log["iterations"][1]["thought"]["timestamp"],
            json!("2026-01-25T10:30:00.000Z")
        );
        let observed = &log["iterations"][1]["observation"];
        assert_eq!(
            (observed.get("timestamp"), &observed["duration_ms"]),
            (None, &json!(3.0))
        );
        let again = document(&import(&written.to_string(), "", 9).unwrap());
        assert_eq!(again, written);
    }
}

//! Files of the conformance kit and comparisons of JSON, for the integration tests.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use taofold::events::Record;
use taofold::log::{Log, Owner, RunRow};

/// Keys that another runtime may fill differently: `UNCOMPARED` in `tests/conformance_kit.py`.
pub const UNCOMPARED: [&str; 24] = [
    "at",
    "elapsed",
    "duration_ms",
    "ms",
    "prompt",
    "prefix",
    "policy",
    "digest",
    "settings",
    "profile",
    "principal",
    "usage",
    "strategy_version",
    "agent",
    "model",
    "session",
    "preview",
    "thinking_format",
    "detail",
    "owner",
    "runtime",
    "deciders",
    "expires_at",
    "models",
];

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance")
}

pub fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

pub fn read_json(name: &str) -> Value {
    read(&folder().join(name))
}

pub fn json_files(name: &str) -> Vec<PathBuf> {
    files(name, ".json")
}

pub fn files(name: &str, ending: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder().join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    paths.sort();
    paths
}

/// Returns the value without the keys on which the runtimes need not agree.
pub fn compared(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(key, _)| !UNCOMPARED.contains(&key.as_str()))
                .map(|(key, member)| (key.clone(), compared(member)))
                .collect(),
        ),
        Value::Array(entries) => entries.iter().map(compared).collect(),
        other => other.clone(),
    }
}

/// Returns an object with missing fields filled from `defaults`.
pub fn filled(value: Value, defaults: &Value) -> Value {
    let mut whole = defaults.as_object().unwrap().clone();
    whole.extend(value.as_object().unwrap().clone());
    Value::Object(whole)
}

/// Asserts that two values are equal; fails at the first difference. `1` equals `1.0` in JSON.
pub fn assert_same(actual: &Value, expected: &Value, place: &str) {
    if let Some(difference) = difference(actual, expected, "") {
        panic!("{place}: {difference}");
    }
}

/// Returns the first difference of two values, with its path.
pub fn difference(actual: &Value, expected: &Value, path: &str) -> Option<String> {
    match (actual, expected) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()) {
                let here = format!("{path}/{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => {
                        if let Some(found) = difference(a, b, &here) {
                            return Some(found);
                        }
                    }
                    (a, b) => return Some(format!("{here}: {a:?}, expected {b:?}")),
                }
            }
            None
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => (0..a.len())
            .find_map(|place| difference(&a[place], &b[place], &format!("{path}/{place}"))),
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        (a, b) if a == b => None,
        (a, b) => Some(format!("{path}: {a}, expected {b}")),
    }
}

/// Writes records to a log as if their process had ended without an orderly stop.
pub async fn register(log: &dyn Log, run: &str, records: &[Record]) {
    register_child(log, run, "", records).await;
}

/// Writes the records of a child run that a call of the run `parent` started.
pub async fn register_child(log: &dyn Log, run: &str, parent: &str, records: &[Record]) {
    let row = RunRow {
        run: run.to_owned(),
        status: status_of(records),
        parent: parent.to_owned(),
        ..RunRow::default()
    };
    let gone = Owner {
        name: "gone",
        lease_ms: 0,
    };
    log.create(&row, records, gone).await.unwrap();
}

fn status_of(records: &[Record]) -> String {
    let state = taofold::state::fold(records).unwrap();
    match state.status.name() {
        "new" => "running".to_owned(),
        status => status.to_owned(),
    }
}

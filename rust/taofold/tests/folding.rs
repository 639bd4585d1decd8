//! The folding part of the conformance kit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kit;

use kit::{assert_same, json_files, read_json};
use serde_json::{Value, json};
use taofold::events::{Event, Record, decode};
use taofold::state::{RunState, fold};

fn records(file: &Value) -> Vec<Record> {
    let lines = file["records"].as_array().unwrap();
    lines
        .iter()
        .map(|line| {
            let (event, elapsed) = decode(&line["event"].to_string()).unwrap();
            Record {
                run: "run".to_owned(),
                seq: line["seq"].as_u64().unwrap(),
                at: line["at"].as_i64().unwrap(),
                elapsed,
                event,
            }
        })
        .collect()
}

/// Returns a state in the form of the kit, where values hold every field, including defaults.
fn state_json(state: &RunState, defaults: &Value) -> Value {
    let usage = |usage| kit::filled(serde_json::to_value(usage).unwrap(), &defaults["usage"]);
    let steps: Vec<Value> = state
        .steps
        .iter()
        .map(|step| {
            let fill = |value: Value, kind: &str| kit::filled(value, &defaults[kind]);
            let actions: Vec<_> = step
                .actions
                .iter()
                .map(|action| fill(serde_json::to_value(action).unwrap(), "action"))
                .collect();
            let observations: Vec<_> = step
                .observations
                .iter()
                .map(|observation| fill(serde_json::to_value(observation).unwrap(), "observation"))
                .collect();
            json!({
                "number": step.number,
                "thought": fill(serde_json::to_value(&step.thought).unwrap(), "thought"),
                "actions": actions,
                "observations": observations,
            })
        })
        .collect();
    let by_model: serde_json::Map<_, _> = state
        .usage_by_model
        .iter()
        .map(|(model, use_)| (model.clone(), usage(use_)))
        .collect();
    let heard: Vec<_> = state.heard.iter().map(|it| it.content.text()).collect();
    json!({
        "goal": state.goal, "status": state.status.name(), "stop_reason": state.stop_reason,
        "success": state.success, "output": state.output, "error": state.error,
        "accepted": state.accepted,
        "waiting_for": state.waiting_for, "agent": state.agent, "data": state.data, "steps": steps,
        "open": state.open.keys().collect::<Vec<_>>(), "model_calls": state.model_calls,
        "tool_calls": state.tool_calls, "per_tool": state.per_tool,
        "child_model_calls": state.child_model_calls, "child_tool_calls": state.child_tool_calls,
        "refused_calls": state.refused_calls, "refused_row": state.refused_row,
        "usage": usage(&state.usage), "usage_by_model": by_model, "limits_hit": state.limits_hit,
        "heard": heard, "epoch": state.epoch, "wakes": state.wakes, "rewinds": state.rewinds,
        "at": state.at, "masked": state.masked, "active_ms": state.active_ms,
    })
}

#[test]
fn the_state_after_each_record_is_the_expected_one() {
    let defaults = read_json("defaults.json");
    let files = json_files("folding");
    assert!(files.len() >= 9, "the kit has {} foldings", files.len());
    for path in files {
        let file = kit::read(&path);
        let records = records(&file);
        let states = file["states"].as_array().unwrap();
        assert_eq!(states.len(), records.len());
        for (n, expected) in states.iter().enumerate() {
            let state = fold(&records[..=n]).unwrap();
            let place = format!("{} after record {n}", path.display());
            assert_same(&state_json(&state, &defaults), expected, &place);
        }
    }
}

#[test]
fn the_kinds_of_events_are_those_of_the_kit() {
    let kinds = read_json("events.json");
    let kinds = kinds.as_object().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for path in json_files("folding") {
        for record in records(&kit::read(&path)) {
            let event: &Event = &record.event;
            let kind = &kinds[event.tag()];
            assert_eq!(kind["timed"], event.timed(), "{}", event.tag());
            assert_eq!(kind["annotation"], event.is_annotation(), "{}", event.tag());
            seen.insert(event.tag());
        }
    }
    for name in kinds.keys() {
        assert!(seen.contains(name.as_str()), "no folding has {name}");
    }
}

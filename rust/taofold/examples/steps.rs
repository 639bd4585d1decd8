//! Times the steps of a run: `steps FLOOR|MEMORY|SQLITE STEPS RUNS`.
//!
//! Prints the microseconds per step of the median run, and the peak memory in kB. `floor` is the
//! loop without events, limits and policy, which is the cost of the language. `bench/rust/run.py`
//! compares the results.
#![allow(
    clippy::print_stdout,
    reason = "a program whose output is its standard output"
)]

use std::error::Error;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Deserialize;
use taofold::content::{Content, Conversation, Message, Role};
use taofold::events::RunStarted;
use taofold::json::{Value, json};
use taofold::log::{Log, MemoryLog, SqliteLog};
use taofold::model::{Models, ScriptedModel};
use taofold::policy::Limits;
use taofold::runtime::{Setup, start};
use taofold::strategy::{Offer, React, Strategy, Task};
use taofold::tools::FunctionTool;
use taofold::values::Sideeffect;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: u64,
    b: u64,
}

/// Returns the model's replies for `steps` turns; the last one is the answer.
fn replies(steps: u64) -> Vec<String> {
    let call = |tool: &str, parameters: Value| {
        let call = json!({"tool": tool, "parameters": parameters, "rationale": "it is next"});
        json!({"thought": "I add.", "thought_type": "reasoning", "action": call}).to_string()
    };
    let turns = (1..steps).map(|turn| call("add", json!({"a": turn, "b": turn + 1})));
    turns
        .chain([call("finish", json!({"answer": "done"}))])
        .collect()
}

/// Runs the loop without the runtime.
fn floor(steps: u64) -> Result<usize, Box<dyn Error>> {
    let mut conversation = Conversation::new([Message::new(Role::User, "add")]);
    for reply in replies(steps) {
        let turn: Value = serde_json::from_str(&reply)?;
        conversation.append(Message::new(Role::Assistant, reply));
        let action = &turn["action"];
        if action["tool"] != "finish" {
            let add: Add = serde_json::from_value(action["parameters"].clone())?;
            let result = Content::Text((add.a + add.b).to_string());
            conversation.append(Message::new(Role::User, result));
        }
    }
    Ok(conversation.chars())
}

async fn run(log: &dyn Log, number: u64, steps: u64) -> Result<(), Box<dyn Error>> {
    let add = FunctionTool::new("add", "Adds two numbers.", |add: Add, _| async move {
        Ok((add.a + add.b).into())
    })
    .with_effect(Sideeffect::Read);
    let mut setup = Setup::new(Models::new(std::sync::Arc::new(ScriptedModel::new(
        replies(steps),
    ))));
    setup.tools = setup.tools.with(add);
    setup.limits = Limits {
        steps: None,
        ..Limits::default()
    };
    let offers = setup.tools.offers().into_iter().map(|offer| Offer {
        name: offer.name,
        description: offer.description,
        schema: offer.schema,
        effect: Sideeffect::Read,
    });
    let task = Task {
        window: 1_000_000_000,
        offers: offers.collect(),
        ..Task::new("add")
    };
    let started = RunStarted {
        strategy: "react".to_owned(),
        ..RunStarted::new("add")
    };
    let outcome = start(log, &format!("r{number}"), started, React.run(task), &setup).await?;
    if outcome.state.success {
        Ok(())
    } else {
        Err(outcome.state.error.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [mode, steps, runs] = words.as_slice() else {
        return Err("usage: steps floor|memory|sqlite STEPS RUNS".into());
    };
    let (steps, runs): (u64, u64) = (steps.parse()?, runs.parse()?);
    let folder = std::env::temp_dir().join(format!("taofold-steps-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let log: Box<dyn Log> = match mode.as_str() {
        "sqlite" => Box::new(SqliteLog::open(folder.join("runs.db"))?),
        _ => Box::new(MemoryLog::new()),
    };
    let mut samples = Vec::new();
    for number in 0..runs {
        let began = Instant::now();
        if mode == "floor" {
            floor(steps)?;
        } else {
            run(log.as_ref(), number, steps).await?;
        }
        samples.push(began.elapsed().as_secs_f64() * 1e6);
    }
    samples.sort_by(f64::total_cmp);
    let median = samples[samples.len() / 2];
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|it| it.split_whitespace().next());
    #[expect(clippy::cast_precision_loss, reason = "a few steps")]
    let each = median / steps as f64;
    println!(
        "{}",
        json!({"us": each, "kb": peak.and_then(|it| it.parse::<u64>().ok())})
    );
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

//! The runs of the conformance kit: with the recorded replies, a flow must produce the expected
//! log.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kit;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use taofold::agent::{Agent, Choice, Place};
use taofold::events::{Event, Noted, Record, RunStarted, encode};
use taofold::flow::Flow;
use taofold::log::{Log, MemoryLog};
use taofold::model::{Models, ScriptedModel};
use taofold::policy::{Policy, Redactor, Tier};
use taofold::runtime::control::{Decision, cancel, decide, descendants, pending_in, steer};
use taofold::runtime::{Comparison, Setup, replay, replay_child, resume, start};
use taofold::state::{RunState, fold};
use taofold::strategy::{Offer, Strategy, Task};
use taofold::tools::{CallContext, Declared, Tool, Toolset};
use taofold::values::{Observation, Principal, Sideeffect};

/// The observation of a call, and the variable that it set.
#[derive(Clone, serde::Deserialize)]
struct Recorded {
    observation: Observation,
    #[serde(default)]
    update: Option<(String, Value)>,
}

/// A tool that returns recorded observations, because the kit does not test tools.
struct RecordedTool {
    declared: Declared,
    observations: Mutex<Vec<Recorded>>,
}

impl RecordedTool {
    fn new(name: &str, effect: Sideeffect, observations: Vec<Recorded>) -> Self {
        Self {
            declared: Declared {
                effect,
                ..Declared::new(name, "recorded", json!({"type": "object"}))
            },
            observations: Mutex::new(observations),
        }
    }
}

#[async_trait::async_trait]
impl Tool for RecordedTool {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    async fn call(&self, _: taofold::json::Object, context: CallContext) -> Observation {
        let mut observations = self.observations.lock().unwrap();
        assert!(
            !observations.is_empty(),
            "{} was called too often",
            self.name()
        );
        let recorded = observations.remove(0);
        if let Some((name, value)) = recorded.update {
            context.set(name, value);
        }
        recorded.observation
    }
}

/// Returns the observations of started calls in a run, in the order of the log.
fn brought(events: &Value) -> Vec<(String, Sideeffect, Recorded)> {
    let place = |event: &Value| {
        let index = usize::try_from(event["index"].as_u64().unwrap_or(0)).unwrap();
        (event["key"].to_string(), index)
    };
    let mut proposed: HashMap<String, &Value> = HashMap::new();
    let mut effects: HashMap<(String, usize), Sideeffect> = HashMap::new();
    let mut found = Vec::new();
    for event in events.as_array().unwrap() {
        let (key, index) = place(event);
        match event["e"].as_str().unwrap() {
            "proposed" => {
                proposed.insert(key, &event["actions"]);
            }
            "started" => {
                effects.insert((key, index), Sideeffect::Read);
            }
            "started_once" => {
                let effect = event.get("effect").cloned().unwrap_or(json!("once"));
                let effect = serde_json::from_value(effect).unwrap();
                effects.insert((key, index), effect);
            }
            "observed" => {
                if let Some(effect) = effects.get(&(key.clone(), index)) {
                    let tool = proposed[&key][index]["tool"].as_str().unwrap();
                    let recorded = serde_json::from_value(event.clone()).unwrap();
                    found.push((tool.to_owned(), *effect, recorded));
                }
            }
            _ => {}
        }
    }
    found
}

struct Case {
    folder: PathBuf,
    script: Value,
    flow: Flow,
    policy: Policy,
    brought: Vec<(String, Sideeffect, Recorded)>,
}

/// Returns the flow of a file, and its policy, of which the kit uses the tiers.
fn flow_of(file: &Path) -> (Flow, Policy) {
    let text = fs::read_to_string(file).unwrap();
    let mut keys: taofold::json::Object = serde_saphyr::from_str(&text).unwrap();
    let written = keys.shift_remove("policy").unwrap_or_default();
    keys.shift_remove("limits");
    let tiers = written["tiers"].as_object().into_iter().flatten();
    let tier = |(name, tier): (&String, &Value)| {
        assert_eq!(tier, 3, "{name}");
        (name.clone(), Tier::Confirm)
    };
    let policy = Policy {
        tiers: tiers.map(tier).collect(),
        ..Policy::default()
    };
    let flow = Flow::read(&Value::Object(keys).to_string())
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    (flow, policy)
}

fn cases() -> Vec<Case> {
    let mut folders: Vec<PathBuf> = fs::read_dir(kit::folder().join("runs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("case.json").is_file())
        .collect();
    folders.sort();
    folders
        .into_iter()
        .map(|folder| {
            let (flow, policy) = flow_of(&folder.join("flow.yaml"));
            Case {
                script: kit::read(&folder.join("case.json")),
                brought: brought(&kit::read(&folder.join("events.json"))),
                flow,
                policy,
                folder,
            }
        })
        .collect()
}

impl Case {
    fn name(&self) -> String {
        self.folder
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned()
    }

    fn expected(&self, file: &str) -> Value {
        kit::read(&self.folder.join(file))
    }

    /// Returns the tools with recorded calls, and the other tools that the flow names.
    fn tools(&self) -> Toolset {
        let mut observations: HashMap<String, Vec<Recorded>> = HashMap::new();
        let mut effects: HashMap<String, Sideeffect> = HashMap::new();
        for (tool, effect, recorded) in &self.brought {
            effects.insert(tool.clone(), *effect);
            let observations = observations.entry(tool.clone()).or_default();
            observations.push(recorded.clone());
        }
        let named = ["web.search", "web.scrape", "memory.store"].map(str::to_owned);
        let mut tools = Toolset::new();
        for name in named
            .into_iter()
            .chain(observations.keys().cloned().collect::<Vec<_>>())
        {
            let effect = effects.get(&name).copied().unwrap_or_default();
            let observations = observations.get(&name).cloned().unwrap_or_default();
            tools.insert(Arc::new(RecordedTool::new(&name, effect, observations)));
        }
        tools
    }

    /// Returns the setup of the run without the first `given` replies.
    fn setup_after(&self, given: usize) -> Setup {
        let replies = self.script["replies"].as_array().unwrap();
        let left = replies.iter().skip(given);
        let model = ScriptedModel::new(left.map(|it| it.as_str().unwrap()));
        let models = Models::new(Arc::new(model));
        if self.has_children() {
            // Agents of files have their own tools.
            return agent(&self.folder, "flow.yaml", &models).setup;
        }
        let mut setup = Setup::new(models);
        setup.tools = self.tools();
        setup.policy = self.policy.clone();
        setup
    }

    fn setup(&self) -> Setup {
        self.setup_after(0)
    }

    fn has_children(&self) -> bool {
        self.folder.join("children.json").is_file()
    }

    fn is_cancelled(&self) -> bool {
        self.expected("result.json")["status"] == "cancelled"
    }

    /// Returns the user's action for each wait of the run.
    fn people(&self) -> &[Value] {
        self.script["people"].as_array().map_or(&[], Vec::as_slice)
    }

    fn task(&self, setup: &Setup) -> Task {
        let mut task = Task::new(self.script["goal"].as_str().unwrap());
        task.data = self.script["data"].as_object().unwrap().clone();
        task.strict = self.script["strict"] == true;
        task.offers = setup
            .tools
            .offers()
            .into_iter()
            .map(|offer| Offer {
                effect: setup.tools.get(&offer.name).unwrap().effect(),
                name: offer.name,
                description: offer.description,
                schema: offer.schema,
            })
            .collect();
        task
    }

    async fn run(&self) -> (Vec<Record>, RunState) {
        self.run_in(&MemoryLog::new()).await
    }

    async fn run_in(&self, log: &MemoryLog) -> (Vec<Record>, RunState) {
        let setup = self.setup();
        let task = self.task(&setup);
        let started = RunStarted {
            strategy: self.flow.name().to_owned(),
            data: task.data.clone(),
            ..RunStarted::new(task.goal.as_str())
        };
        start(log, "r1", started, self.flow.run(task), &setup)
            .await
            .unwrap();
        for acts in self.people() {
            if act(log, acts, &setup).await {
                let strategy = self.flow.run(self.task(&setup));
                resume(log, "r1", strategy, &setup).await.unwrap();
            }
        }
        let records = log.read("r1", 0).await.unwrap();
        let state = fold(&records).unwrap();
        (records, state)
    }
}

/// Returns the agent of a file, with the agents that it calls, using one model everywhere.
fn agent(folder: &Path, file: &str, models: &Models) -> Agent {
    let choice = Choice {
        agent: file.to_owned(),
        folder: folder.to_string_lossy().into_owned(),
        model: "test:answer".to_owned(),
        ..Choice::default()
    };
    let place = Place::find(folder, HashMap::new()).unwrap();
    let mut made = Agent::make(&choice, &place).unwrap();
    made.setup.models = models.clone();
    let text = fs::read_to_string(folder.join(file)).unwrap();
    let keys: Value = serde_saphyr::from_str(&text).unwrap();
    for (name, asked) in keys["agents"].as_object().into_iter().flatten() {
        let asked = agent(folder, asked.as_str().unwrap(), models);
        made.setup.add_agent(name, Arc::new(asked));
    }
    made
}

/// Performs the user's actions while a run waits. Returns false if they cancelled it.
async fn act(log: &MemoryLog, acts: &Value, setup: &Setup) -> bool {
    let now = || setup.clock.now_ms();
    let (by, redactor) = (Principal::default(), Redactor::default());
    let mut open = pending_in(log, "r1").await.unwrap().into_iter();
    for act in acts.as_array().unwrap() {
        if let Some(text) = act["steer"].as_str() {
            steer(log, "r1", text, &by, &redactor, now()).await.unwrap();
        } else if act["cancel"] == true {
            assert!(cancel(log, "r1", &by, now()).await.unwrap());
            return false;
        } else {
            let decision = Decision {
                verdict: act["decide"].as_str().unwrap().to_owned(),
                reason: act["reason"].as_str().unwrap_or_default().to_owned(),
                parameters: act["parameters"].as_object().cloned(),
                ..Decision::default()
            };
            let id = open.next().unwrap().id;
            decide(log, &id, &decision, &by, &setup.policy, &redactor, now())
                .await
                .unwrap();
        }
    }
    true
}

fn events_json(records: &[Record]) -> Value {
    records
        .iter()
        .map(|record| {
            let text = encode(&record.event, record.elapsed).unwrap();
            let mut event = serde_json::from_str::<Value>(&text).unwrap();
            if let (Event::Steered(_), Some(members)) = (&record.event, event.as_object_mut()) {
                // The id of a message is random.
                members.shift_remove("id");
            }
            event
        })
        .collect()
}

#[tokio::test]
async fn every_case_comes_to_the_expected_files() {
    let cases = cases();
    assert!(cases.len() >= 74);
    let mut differences: Vec<String> = Vec::new();
    for case in cases {
        let name = case.name();
        let log = MemoryLog::new();
        let (records, state) = case.run_in(&log).await;
        let events = kit::compared(&events_json(&records));
        let mut called = taofold::json::Object::new();
        for row in descendants(&log, "r1").await.unwrap() {
            let records = log.read(&row.run, 0).await.unwrap();
            called.insert(row.run, kit::compared(&events_json(&records)));
        }
        let mut same = |actual: &Value, file: &str| {
            let difference = kit::difference(actual, &case.expected(file), "");
            differences.extend(difference.map(|it| format!("{name}/{file}: {it}")));
        };
        same(&events, "events.json");
        assert_eq!(called.is_empty(), !case.has_children(), "{name}");
        if case.has_children() {
            same(&Value::Object(called), "children.json");
        }
        let outcome = json!({
            "status": state.status.name(), "stop_reason": state.stop_reason,
            "success": state.success, "output": state.output, "state": state.data,
        });
        same(&kit::compared(&outcome), "result.json");
        let trace = taofold::trace::react_trace(&records);
        same(&trace, "trace.json");
        let document = taofold::tao::document(&records);
        let iterations = timeless(&document["ralph_tao_log"]["iterations"]);
        same(&kit::compared(&iterations), "iterations.json");
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn timeless(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(key, _)| *key != "timestamp")
                .map(|(key, member)| (key.clone(), timeless(member)))
                .collect(),
        ),
        Value::Array(entries) => entries.iter().map(timeless).collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn every_case_replays_without_models_and_tools() {
    for case in cases() {
        let (records, _) = case.run().await;
        let setup = case.setup();
        let derived = replay(
            &records,
            case.flow.run(case.task(&setup)),
            &setup,
            Comparison::Whole,
        )
        .await;
        // A cancellation ends a waiting run, and no strategy derives that end.
        assert!(
            matches!(&derived, Ok(end) if end.is_some() != case.is_cancelled()),
            "{}: {derived:?}",
            case.name()
        );
    }
}

#[tokio::test]
async fn a_replay_of_a_changed_log_stops_at_the_change() {
    for case in cases() {
        let (records, _) = case.run().await;
        for place in 0..records.len() {
            let mut changed = records.clone();
            let cancelled = case.is_cancelled() && place + 1 == records.len();
            if cancelled || !tamper(&mut changed[place].event) {
                continue;
            }
            let setup = case.setup();
            let derived = replay(
                &changed,
                case.flow.run(case.task(&setup)),
                &setup,
                Comparison::Whole,
            )
            .await;
            let event = changed[place].event.tag();
            assert!(
                derived.is_err(),
                "{}: {event} at {place} was not compared",
                case.name()
            );
        }
    }
}

#[tokio::test]
async fn a_replay_of_a_log_with_an_event_too_many_is_an_error() {
    for case in cases().into_iter().filter(|it| !it.is_cancelled()) {
        let (records, _) = case.run().await;
        let end = records.last().unwrap().clone();
        let mut longer = records[..records.len() - 1].to_vec();
        longer.push(Record {
            event: Noted {
                key: "2".to_owned(),
                kind: "extra".to_owned(),
                data: taofold::json::Object::new(),
            }
            .into(),
            ..end.clone()
        });
        longer.push(Record {
            seq: end.seq + 1,
            ..end
        });
        let setup = case.setup();
        let derived = replay(
            &longer,
            case.flow.run(case.task(&setup)),
            &setup,
            Comparison::Whole,
        )
        .await;
        assert!(derived.is_err(), "{}: {derived:?}", case.name());
    }
}

/// Changes derived data. Replies and results of tools are external and stay.
fn tamper(event: &mut Event) -> bool {
    match event {
        Event::Replied(event) => event.prompt.push('0'),
        Event::Violated(event) => event.rule.push('x'),
        Event::Noted(event) => event.kind.push('x'),
        Event::Proposed(event) => event.thought.content.push('x'),
        Event::Decided(event) => event.reason.push('x'),
        // The result of a child run belongs to its own log.
        Event::Observed(event) if event.observation.auto && event.calls.is_none() => {
            event.observation.result = json!("another");
        }
        Event::RunFinished(event) => event.output = json!("another"),
        _ => return false,
    }
    true
}

#[tokio::test]
async fn a_run_that_was_cut_anywhere_goes_on_to_the_same_end() {
    // User messages are in the inbox, which a copy of the records lacks.
    for case in cases().into_iter().filter(|it| it.people().is_empty()) {
        let (records, whole) = case.run().await;
        for cut in 1..records.len() {
            let log = MemoryLog::new();
            kit::register(&log, "r1", &records[..cut]).await;
            let mut setup = case.setup_after(replied(&records[..cut]));
            if !case.has_children() {
                setup.tools = left_over(&case, &records[..cut]);
            }
            let strategy = case.flow.run(case.task(&setup));
            let outcome = resume(&log, "r1", strategy, &setup).await;
            let state = outcome
                .unwrap_or_else(|error| panic!("{} at {cut}: {error}", case.name()))
                .state;
            let place = format!("{} cut at {cut}", case.name());
            assert_eq!(state.status, whole.status, "{place}: {}", state.error);
            kit::assert_same(&state.output, &whole.output, &place);
            assert_eq!(state.steps.len(), whole.steps.len(), "{place}");
        }
    }
}

/// Returns the number of replies that these records consumed, including ended child runs.
fn replied(records: &[Record]) -> usize {
    let used = |record: &Record| match &record.event {
        Event::Replied(_) => 1,
        Event::Observed(event) => event.calls.map_or(0, |(asked, _)| asked),
        _ => 0,
    };
    usize::try_from(records.iter().map(used).sum::<u64>()).unwrap()
}

/// Mutant: a child run that is started again instead of resumed.
#[tokio::test]
async fn a_run_whose_child_run_was_cut_anywhere_goes_on_to_the_same_end() {
    let with_children = cases()
        .into_iter()
        .filter(|it| it.has_children() && it.people().is_empty());
    for case in with_children {
        let whole = MemoryLog::new();
        let (records, ended) = case.run_in(&whole).await;
        let row = whole.children("r1").await.unwrap().remove(0);
        let child = whole.read(&row.run, 0).await.unwrap();
        // The caller has started the call and does not know its result.
        let begun = records
            .iter()
            .position(|record| matches!(record.event, Event::Observed(_)))
            .unwrap();
        for cut in 1..=child.len() {
            let log = MemoryLog::new();
            kit::register(&log, "r1", &records[..begun]).await;
            kit::register_child(&log, &row.run, "r1", &child[..cut]).await;
            let given = replied(&records[..begun]) + replied(&child[..cut]);
            let setup = case.setup_after(given);
            let strategy = case.flow.run(case.task(&setup));
            let state = resume(&log, "r1", strategy, &setup).await.unwrap().state;
            let place = format!("{} cut at {cut} of its child", case.name());
            assert_eq!(state.status, ended.status, "{place}: {}", state.error);
            kit::assert_same(&state.output, &ended.output, &place);
            assert_eq!(log.children("r1").await.unwrap().len(), 1, "{place}");
            let again = fold(&log.read(&row.run, 0).await.unwrap()).unwrap();
            let before = fold(&child).unwrap();
            assert_eq!(again.steps.len(), before.steps.len(), "{place}");
            assert_eq!(again.model_calls, before.model_calls, "{place}");
            assert_eq!(state.child_model_calls, ended.child_model_calls, "{place}");
        }
    }
}

#[tokio::test]
async fn every_child_run_replays_without_models_and_tools() {
    for case in cases().into_iter().filter(Case::has_children) {
        let log = MemoryLog::new();
        case.run_in(&log).await;
        let caller = case.setup();
        for row in log.children("r1").await.unwrap() {
            let records = log.read(&row.run, 0).await.unwrap();
            let asked = caller.agents.values().next().unwrap();
            let derived = replay_child(&records, asked.as_ref(), &caller, Comparison::Whole).await;
            let ended = matches!(&derived, Ok(end) if end.is_some() != case.is_cancelled());
            assert!(ended, "{}: {derived:?}", case.name());
        }
    }
}

/// Returns the tools without the results that are already recorded.
fn left_over(case: &Case, records: &[Record]) -> Toolset {
    let all = case.tools();
    let mut tools = Toolset::new();
    let turns = taofold::trace::turns(records);
    for offer in all.offers() {
        let done = turns
            .iter()
            .flat_map(|turn| &turn.calls)
            .filter(|call| {
                call.action.tool == offer.name && call.started && call.observation.is_some()
            })
            .count();
        let recorded = all.get(&offer.name).unwrap();
        let effect = recorded.effect();
        let observations = observations_of(case, &offer.name);
        let left = observations.into_iter().skip(done).collect();
        tools.insert(Arc::new(RecordedTool::new(&offer.name, effect, left)));
    }
    tools
}

fn observations_of(case: &Case, tool: &str) -> Vec<Recorded> {
    let of_tool = case.brought.iter().filter(|(name, _, _)| name == tool);
    of_tool.map(|(_, _, recorded)| recorded.clone()).collect()
}

#[test]
fn the_kit_is_where_the_tests_look_for_it() {
    assert!(Path::new(&kit::folder()).join("README.md").is_file());
}

//! Drives runs that a test describes, so that another runtime can continue them.
//!
//! Reads one JSON order per line and writes one JSON result per line. `tests/rust/scenarios.py`
//! writes the orders, for runs of one SQLite log. The program also shows the parts that are needed
//! to drive a run: models, tools, a strategy, a log.
#![allow(
    clippy::print_stdout,
    reason = "a program whose output is its standard output"
)]

use std::collections::HashMap;
use std::error::Error;
use std::io::stdin;
use std::sync::Arc;

use serde::Deserialize;
use taofold::content::{Content, Part, TextPart, ToolCall};
use taofold::events::{Event, Record, RunStarted};
use taofold::json::{Object, Value, json};
use taofold::log::{Log, SqliteLog};
use taofold::model::{Models, ScriptedModel};
use taofold::policy::{Limits, Policy, Redactor, Tier};
use taofold::runtime::control::{Decision, decide, pending};
use taofold::runtime::{Clock, Comparison, Outcome, Setup, SystemClock, replay, resume, start};
use taofold::strategy::{Cot, Decompose, Direct, Offer, Plan, React, SelfCorrect, Strategy, Task};
use taofold::tools::{CallContext, Declared, Tool};
use taofold::values::{
    Observation, ObservationStatus, Principal, Profile, Reply, Sideeffect, StepRole,
};

/// The number of repetitions of the last reply of a script.
const REPEATED: usize = 60;

#[derive(Deserialize)]
struct Order {
    verb: Verb,
    run: String,
    scenario: Scenario,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Verb {
    Start,
    Resume,
    Allow,
    Deny,
    Replay,
}

#[derive(Deserialize)]
struct Scenario {
    strategy: String,
    goal: String,
    strict: bool,
    profile: Profile,
    steps: u64,
    tool_calls: Option<u64>,
    tools: Vec<Offered>,
    replies: HashMap<StepRole, Vec<Line>>,
}

#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum Line {
    Text(String),
    Calls { text: String, calls: Vec<ToolCall> },
}

impl From<Line> for Reply {
    fn from(line: Line) -> Self {
        match line {
            Line::Text(text) => Self::text_only(text),
            Line::Calls { text, calls } => {
                let text = Part::Text(TextPart {
                    text,
                    ..TextPart::default()
                });
                let calls = calls.into_iter().map(Part::Call);
                Self {
                    content: Content::from_parts(std::iter::once(text).chain(calls).collect()),
                    ..Self::default()
                }
            }
        }
    }
}

/// A tool as the other runtime declares it.
#[derive(Deserialize)]
struct Offered {
    name: String,
    description: String,
    schema: Value,
    effect: Sideeffect,
    tier: u8,
}

/// A tool whose behavior is implemented in both languages.
struct Lookup {
    declared: Declared,
}

#[async_trait::async_trait]
impl Tool for Lookup {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn check(&self, parameters: &Object) -> Result<(), String> {
        match parameters.get("n") {
            Some(Value::Number(_)) => Ok(()),
            _ => Err("n must be an integer".to_owned()),
        }
    }

    async fn call(&self, parameters: Object, _: CallContext) -> Observation {
        let n = parameters.get("n").and_then(Value::as_i64).unwrap_or(0);
        let failed = self.name() == "flaky" && n % 2 == 1;
        Observation {
            result: if failed {
                json!(format!("no answer for {n}"))
            } else {
                json!({"n": n, "code": format!("C{n}_x")})
            },
            status: if failed {
                ObservationStatus::Failure
            } else {
                ObservationStatus::Success
            },
            ..Observation::default()
        }
    }
}

impl Scenario {
    /// Returns the setup of a run after these records, without the recorded replies.
    fn setup(&self, records: &[Record]) -> Setup {
        let mut given: HashMap<StepRole, usize> = HashMap::new();
        for record in records {
            if let Event::Replied(event) = &record.event {
                *given.entry(event.role).or_default() += 1;
            }
        }
        let scripted = |role: StepRole| {
            let lines = self.replies.get(&role).cloned().unwrap_or_default();
            let last = lines.last().cloned().into_iter().cycle().take(REPEATED);
            let left = lines.iter().cloned().chain(last);
            let left = left.skip(given.get(&role).copied().unwrap_or(0));
            ScriptedModel::with_replies(left.map(Reply::from), self.profile.clone())
        };
        let roles = [
            StepRole::Planner,
            StepRole::Evaluator,
            StepRole::Finalizer,
            StepRole::Critic,
        ];
        let mut models = Models::new(Arc::new(scripted(StepRole::Executor)));
        for role in roles {
            models = models.with_role(role, Arc::new(scripted(role)));
        }
        let mut setup = Setup::new(models);
        for tool in &self.tools {
            let tier = match tool.tier {
                1 => Tier::Auto,
                2 => Tier::Card,
                _ => Tier::Confirm,
            };
            let declared = Declared {
                effect: tool.effect,
                tier,
                ..Declared::new(&tool.name, &tool.description, tool.schema.clone())
            };
            setup.tools.insert(Arc::new(Lookup { declared }));
        }
        setup.limits = Limits {
            steps: Some(self.steps),
            tool_calls: self.tool_calls,
            ..Limits::default()
        };
        setup
    }

    fn task(&self) -> Task {
        let offers = self.tools.iter().map(|tool| Offer {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.schema.clone(),
            effect: tool.effect,
        });
        Task {
            strict: self.strict,
            native: self.profile.native_tools && (!self.tools.is_empty() || !self.strict),
            enforces_schema: self.profile.json_schema,
            window: self.profile.window,
            offers: offers.collect(),
            ..Task::new(self.goal.as_str())
        }
    }

    fn strategy(&self) -> Result<Box<dyn Strategy>, String> {
        Ok(match self.strategy.as_str() {
            "react" => Box::new(React),
            "cot" => Box::new(Cot::default()),
            "direct" => Box::new(Direct::default()),
            "self_correct" => Box::new(SelfCorrect::default()),
            "decompose" => Box::new(Decompose::default()),
            "plan" => Box::new(Plan::default()),
            other => return Err(format!("there is no strategy {other:?}")),
        })
    }
}

async fn perform(log: &dyn Log, order: &Order) -> Result<Value, Box<dyn Error>> {
    let (run, scenario) = (order.run.as_str(), &order.scenario);
    let strategy = scenario.strategy()?;
    let records = match order.verb {
        Verb::Start => Vec::new(),
        _ => log.read(run, 0).await?,
    };
    let setup = scenario.setup(&records);
    let outcome = match order.verb {
        Verb::Start => {
            let settings = json!({"strict": scenario.strict});
            let started = RunStarted {
                strategy: scenario.strategy.clone(),
                model: setup.models.main().name().to_owned(),
                profile: scenario.profile.clone(),
                policy: setup.policy.version(),
                settings: settings.as_object().cloned().unwrap_or_default(),
                ..RunStarted::new(scenario.goal.as_str())
            };
            start(log, run, started, strategy.run(scenario.task()), &setup).await?
        }
        Verb::Resume => resume(log, run, strategy.run(scenario.task()), &setup).await?,
        Verb::Replay => {
            let comparison = Comparison::of(&records);
            let strategy = strategy.run(scenario.task());
            let end = replay(&records, strategy, &setup, comparison).await?;
            return Ok(json!({"ended": end.is_some()}));
        }
        Verb::Allow | Verb::Deny => {
            let verdict = if matches!(order.verb, Verb::Allow) {
                "allow"
            } else {
                "deny"
            };
            let decision = Decision {
                verdict: verdict.to_owned(),
                ..Decision::default()
            };
            for asked in pending(&records)? {
                decide(
                    log,
                    &asked.id,
                    &decision,
                    &Principal::default(),
                    &Policy::default(),
                    &Redactor::default(),
                    SystemClock.now_ms(),
                )
                .await?;
            }
            return Ok(json!({}));
        }
    };
    Ok(told(&outcome))
}

fn told(outcome: &Outcome) -> Value {
    let state = &outcome.state;
    json!({"status": state.status.name(), "stop_reason": state.stop_reason, "error": state.error})
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("which log?")?;
    let log = SqliteLog::open(&path)?;
    for line in stdin().lines() {
        let order: Order = serde_json::from_str(&line?)?;
        let said = match perform(&log, &order).await {
            Ok(said) => said,
            Err(error) => json!({"refused": error.to_string()}),
        };
        println!("{said}");
    }
    Ok(())
}

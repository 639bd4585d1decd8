//! Guarantees of runs: limits, approvals, calls that must not be repeated, secrets, strictness.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kit;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use taofold::content::{Content, Part, ToolCall};
use taofold::errors::{Error, LogError, ModelError};
use taofold::events::{Event, Record, Resumed, RunStarted, Verdict};
use taofold::log::{Append, Log, MemoryLog, Owner, RunRow, Signal};
use taofold::model::{Model, Models, Request, ScriptedModel};
use taofold::policy::{Redactor, Tier};
use taofold::runtime::{Comparison, Outcome, Setup, control, replay, resume, start};
use taofold::strategy::{Decompose, Offer, React, Strategy, Task};
use taofold::tools::{CallContext, Declared, Tool};
use taofold::values::{Observation, Principal, Profile, Reply, Sideeffect};

fn counts(name: &str, effect: Sideeffect, schema: Value) -> Declared {
    Declared {
        effect,
        ..Declared::new(name, "counts", schema)
    }
}

/// A tool that counts its calls.
struct Counting {
    declared: Declared,
    result: Value,
    calls: Arc<AtomicUsize>,
    preview: &'static str,
}

#[async_trait::async_trait]
impl Tool for Counting {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn preview(&self, _: &taofold::json::Object) -> String {
        self.preview.to_owned()
    }

    async fn call(&self, _: taofold::json::Object, _: CallContext) -> Observation {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Observation {
            result: self.result.clone(),
            ..Observation::default()
        }
    }
}

struct World {
    log: MemoryLog,
    setup: Setup,
    task: Task,
    calls: Arc<AtomicUsize>,
}

impl World {
    fn new(effect: Sideeffect, replies: &[&str]) -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let tool = Counting {
            declared: counts("work", effect, json!({"type": "object"})),
            result: json!("done with hunter22"),
            calls: Arc::clone(&calls),
            preview: "does some work",
        };
        let mut world = Self {
            log: MemoryLog::new(),
            setup: Setup::new(models(replies)),
            task: Task::new("go"),
            calls,
        };
        world.setup.tools.insert(Arc::new(tool));
        world.task.offers = vec![Offer {
            name: "work".into(),
            description: "counts".into(),
            schema: json!({"type": "object"}),
            effect,
        }];
        world
    }

    async fn start(&self) -> Outcome {
        let strategy = React.run(self.task.clone());
        start(&self.log, "r", RunStarted::new("go"), strategy, &self.setup)
            .await
            .unwrap()
    }

    async fn resume(&mut self, replies: &[&str]) -> Outcome {
        self.setup.models = models(replies);
        let strategy = React.run(self.task.clone());
        resume(&self.log, "r", strategy, &self.setup).await.unwrap()
    }

    async fn records(&self) -> Vec<Record> {
        self.log.read("r", 0).await.unwrap()
    }

    fn count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    async fn decide(&self, by: &str, verdict: &str, digest: &str, id: &str) {
        let data =
            json!({"seq": self.open_question().await.seq, "verdict": verdict, "digest": digest});
        let message = Signal {
            id: id.into(),
            kind: "decide".into(),
            by: by.into(),
            at: 0,
            data: data.as_object().unwrap().clone(),
        };
        assert!(self.log.post("r", &message).await.unwrap());
    }

    async fn open_question(&self) -> Record {
        let asks = |record: &Record| match &record.event {
            Event::Decided(event) => event.verdict == Verdict::Ask,
            _ => false,
        };
        self.records().await.into_iter().rfind(asks).unwrap()
    }

    async fn open_digest(&self) -> String {
        match self.open_question().await.event {
            Event::Decided(event) => event.digest,
            other => panic!("{other:?}"),
        }
    }
}

fn models(replies: &[&str]) -> Models {
    Models::new(Arc::new(ScriptedModel::new(replies.iter().copied())))
}

const WORK: &str = r#"{"thought": "I need it to go on", "thought_type": "goal", "action": {"tool": "work", "parameters": {"n": 1}, "rationale": "it is needed"}}"#;
const ANSWER: &str = r#"{"thought": "it is done", "thought_type": "synthesis", "action": {"tool": "finish", "parameters": {"answer": "42"}, "rationale": "it is known"}}"#;

/// A log whose appends are alternately slow: of two concurrent appends the first one ends last.
struct Slow {
    log: MemoryLog,
    appends: AtomicUsize,
}

#[async_trait::async_trait]
impl Log for Slow {
    async fn create(
        &self,
        row: &RunRow,
        records: &[Record],
        owner: Owner<'_>,
    ) -> Result<u64, LogError> {
        self.log.create(row, records, owner).await
    }

    async fn claim(
        &self,
        run: &str,
        owner: Owner<'_>,
        epoch: Option<u64>,
        force: bool,
    ) -> Result<u64, LogError> {
        self.log.claim(run, owner, epoch, force).await
    }

    fn keep(&self, run: &str, owner: &str) -> Box<dyn Send> {
        self.log.keep(run, owner)
    }

    async fn append(&self, run: &str, epoch: u64, append: Append<'_>) -> Result<bool, LogError> {
        let turns = 10 * (1 - self.appends.fetch_add(1, Ordering::SeqCst) % 2);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        self.log.append(run, epoch, append).await
    }

    async fn read(&self, run: &str, from: u64) -> Result<Vec<Record>, LogError> {
        self.log.read(run, from).await
    }

    async fn row(&self, run: &str) -> Result<RunRow, LogError> {
        self.log.row(run).await
    }

    async fn rows(&self, status: &str, limit: usize) -> Result<Vec<RunRow>, LogError> {
        self.log.rows(status, limit).await
    }

    async fn children(&self, run: &str) -> Result<Vec<RunRow>, LogError> {
        self.log.children(run).await
    }

    async fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<String>, LogError> {
        self.log.ids(prefix, limit).await
    }

    async fn post(&self, run: &str, signal: &Signal) -> Result<bool, LogError> {
        self.log.post(run, signal).await
    }

    async fn inbox(&self, run: &str) -> Result<Vec<Signal>, LogError> {
        self.log.inbox(run).await
    }
}

/// Mutant: a flush that does not wait for the one of another branch.
#[tokio::test]
async fn branches_that_append_at_the_same_time_append_in_order() {
    const PARTS: &str = r#"{"reasoning": "r", "sub_problems": [{"id": "a", "description": "a"}, {"id": "b", "description": "b"}, {"id": "c", "description": "c"}]}"#;
    const PART: &str = r#"{"thinking": "t", "answer": "1"}"#;
    let log = Slow {
        log: MemoryLog::new(),
        appends: AtomicUsize::new(0),
    };
    let setup = Setup::new(models(&[PARTS, PART, PART, PART, PART]));
    let strategy = Decompose {
        max_depth: 1,
        ..Decompose::default()
    };
    let strategy = strategy.run(Task::new("go"));
    let outcome = start(&log, "r", RunStarted::new("go"), strategy, &setup).await;
    assert!(outcome.unwrap().state.success);
}

/// A model that rejects its own signed content.
struct Forgetful(Profile);

#[async_trait::async_trait]
impl Model for Forgetful {
    fn name(&self) -> &str {
        "forgetful:model"
    }

    fn profile(&self) -> &Profile {
        &self.0
    }

    async fn ask(&self, request: Request<'_>) -> Result<Reply, ModelError> {
        if request.conversation.is_bound() {
            return Err(ModelError::new("binding", "it is bound to another prompt"));
        }
        let text = match request.conversation.messages().len() {
            0..=2 => WORK,
            _ => ANSWER,
        };
        let parts = [
            json!({"type": "opaque", "data": "{}"}),
            json!({"type": "text", "text": text}),
        ];
        Ok(Reply {
            content: serde_json::from_value(json!(parts)).unwrap(),
            ..Reply::default()
        })
    }
}

/// Mutants: a cut that is not recorded; one that a replay does not take off the record.
#[tokio::test]
async fn what_a_provider_no_longer_takes_back_is_left_out_and_the_run_goes_on() {
    let mut world = World::new(Sideeffect::Read, &[]);
    world.setup.models = Models::new(Arc::new(Forgetful(Profile::default())));
    let state = world.start().await.state;
    assert_eq!((state.success, world.count()), (true, 1), "{}", state.error);
    let records = world.records().await;
    let cuts = records.iter().filter_map(|record| match &record.event {
        Event::Cut(event) => Some(event.reason.as_str()),
        _ => None,
    });
    assert_eq!(cuts.collect::<Vec<_>>(), ["refused"]);
    let strategy = React.run(world.task.clone());
    let derived = replay(&records, strategy, &world.setup, Comparison::Whole).await;
    assert!(matches!(derived, Ok(Some(_))), "{derived:?}");
}

#[tokio::test]
async fn an_answer_in_the_last_turn_is_a_success() {
    let mut world = World::new(Sideeffect::Read, &[WORK, ANSWER]);
    world.setup.limits.steps = Some(2);
    let state = world.start().await.state;
    assert_eq!(state.status.name(), "finished", "{}", state.error);
    assert!(state.success);
    assert_eq!(state.limits_hit, ["steps"]);
}

#[tokio::test]
async fn a_tool_called_in_the_last_turn_is_not_run_and_the_limit_ends_the_run() {
    let mut world = World::new(Sideeffect::Read, &[WORK, ANSWER]);
    world.setup.limits.steps = Some(1);
    let state = world.start().await.state;
    assert_eq!(state.status.name(), "limited");
    assert_eq!(state.stop_reason, "max_steps");
    assert_eq!(state.output, json!("42"));
    assert_eq!(world.count(), 0);
}

#[tokio::test]
async fn at_a_limit_nothing_is_called() {
    let mut world = World::new(Sideeffect::Read, &[ANSWER]);
    world.setup.limits.steps = Some(0);
    let state = world.start().await.state;
    assert_eq!(state.stop_reason, "max_steps");
    assert_eq!(state.model_calls, 0);
}

#[tokio::test]
async fn a_call_over_the_limit_of_tool_calls_is_refused() {
    let mut world = World::new(Sideeffect::Read, &[WORK, ANSWER, ANSWER]);
    world.setup.limits.tool_calls = Some(1);
    let batch = r#"{"thought": "t", "thought_type": "goal", "actions": [{"tool": "work", "parameters": {"n": 1}, "rationale": "r"}, {"tool": "work", "parameters": {"n": 2}, "rationale": "r"}]}"#;
    world.setup.models = models(&[batch, ANSWER, ANSWER]);
    let state = world.start().await.state;
    assert_eq!(world.count(), 1);
    assert_eq!(state.steps[0].observations[1].refused, "limit");
    assert_eq!(state.stop_reason, "max_tool_calls");
}

#[tokio::test]
async fn a_call_that_must_not_be_repeated_is_asked_about_after_a_crash() {
    for (verdict, calls) in [("allow", 1), ("done", 0), ("deny", 0)] {
        let whole = World::new(Sideeffect::Once, &[WORK, ANSWER]);
        whole.start().await;
        let records = whole.records().await;
        let started = records
            .iter()
            .position(|record| matches!(record.event, Event::StartedOnce(_)))
            .unwrap();

        let mut world = World::new(Sideeffect::Once, &[]);
        kit::register(&world.log, "r", &records[..=started]).await;
        let state = world.resume(&[ANSWER]).await.state;
        assert_eq!(state.status.name(), "waiting");
        assert_eq!(world.count(), 0, "it was repeated without asking");

        let digest = world.open_digest().await;
        world.decide("local", verdict, &digest, "m1").await;
        let state = world.resume(&[ANSWER]).await.state;
        assert_eq!(
            state.status.name(),
            "finished",
            "{verdict}: {}",
            state.error
        );
        assert_eq!(world.count(), calls, "{verdict}");
        let records = world.records().await;
        let derived = replay(
            &records,
            React.run(world.task.clone()),
            &world.setup,
            Comparison::Whole,
        )
        .await;
        assert!(matches!(derived, Ok(Some(_))), "{verdict}: {derived:?}");
    }
}

#[tokio::test]
async fn a_read_that_was_cut_is_run_again() {
    let whole = World::new(Sideeffect::Read, &[WORK, ANSWER]);
    whole.start().await;
    let records = whole.records().await;
    let started = records
        .iter()
        .position(|record| matches!(record.event, Event::Started(_)))
        .unwrap();
    let mut world = World::new(Sideeffect::Read, &[]);
    kit::register(&world.log, "r", &records[..=started]).await;
    let state = world.resume(&[ANSWER]).await.state;
    assert_eq!(state.status.name(), "finished");
    // The lost start also counts.
    assert_eq!((world.count(), state.tool_calls), (1, 2));
}

/// Returns the log of a run whose process ended three times during the same call, or before it.
async fn cut_off_three_times(at_work: bool) -> World {
    let whole = World::new(Sideeffect::Read, &[WORK, ANSWER]);
    whole.start().await;
    let records = whole.records().await;
    let started = records
        .iter()
        .position(|record| matches!(record.event, Event::Started(_)))
        .unwrap();
    let mut events: Vec<Event> = records[..=started]
        .iter()
        .map(|it| it.event.clone())
        .collect();
    for epoch in 2..=4 {
        if !at_work && epoch == 4 {
            break;
        }
        let resumed = Resumed {
            epoch,
            ..Resumed::default()
        };
        events.push(resumed.into());
        if at_work {
            events.push(records[started].event.clone());
        }
    }
    let world = World::new(Sideeffect::Read, &[]);
    let first = &records[0];
    let records: Vec<Record> = (0..)
        .zip(events)
        .map(|(seq, event)| Record {
            seq,
            event,
            ..first.clone()
        })
        .collect();
    kit::register(&world.log, "r", &records).await;
    let mut epoch = 1;
    for _ in 2..=4 {
        epoch = world
            .log
            .claim("r", Owner::default(), Some(epoch), false)
            .await
            .unwrap();
    }
    world
}

#[tokio::test]
async fn a_harmless_call_that_took_its_process_three_times_is_asked_about() {
    let mut world = cut_off_three_times(true).await;
    let state = world.resume(&[ANSWER]).await.state;
    assert_eq!(state.waiting_for, "awaiting_approval");
    assert_eq!(world.count(), 0);
    let digest = world.open_digest().await;
    world.decide("local", "allow", &digest, "m").await;
    let state = world.resume(&[ANSWER]).await.state;
    assert_eq!(state.status.name(), "finished", "{}", state.error);
    assert_eq!(world.count(), 1);
}

#[tokio::test]
async fn a_run_that_was_cut_off_three_times_at_one_place_fails() {
    let mut world = cut_off_three_times(false).await;
    let state = world.resume(&[ANSWER]).await.state;
    assert_eq!(
        (state.status.name(), state.stop_reason.as_str()),
        ("failed", "error")
    );
    assert_eq!(world.count(), 0);
}

#[tokio::test]
async fn a_tier_3_call_waits_for_the_requester_and_for_the_call_that_was_shown() {
    let mut world = World::new(Sideeffect::Once, &[WORK]);
    world
        .setup
        .policy
        .tiers
        .insert("work".into(), Tier::Confirm);
    assert_eq!(world.start().await.state.waiting_for, "awaiting_approval");
    let digest = world.open_digest().await;
    world.decide("eve", "allow", &digest, "m1").await;
    world.decide("agent:r", "allow", &digest, "m2").await;
    world.decide("local", "allow", "another", "m3").await;
    assert_eq!(world.resume(&[ANSWER]).await.state.status.name(), "waiting");
    assert_eq!(world.count(), 0);
    world.decide("local", "allow", &digest, "m4").await;
    let state = world.resume(&[ANSWER]).await.state;
    assert_eq!(state.status.name(), "finished", "{}", state.error);
    assert_eq!(world.count(), 1);
    let records = world.records().await;
    let refused = records
        .iter()
        .filter(|it| matches!(it.event, Event::DecisionRefused(_)));
    assert_eq!(refused.count(), 3);
}

#[tokio::test]
async fn a_denied_call_is_told_or_ends_the_run() {
    let mut world = World::new(Sideeffect::Once, &[WORK, ANSWER]);
    world.setup.policy.deny = BTreeSet::from(["work".to_owned()]);
    let state = world.start().await.state;
    assert_eq!(state.steps[0].observations[0].refused, "denied");
    assert!(state.success);

    let mut world = World::new(Sideeffect::Once, &[WORK, ANSWER]);
    world.setup.policy.deny = BTreeSet::from(["work".to_owned()]);
    world.setup.stop_on_denial = true;
    let state = world.start().await.state;
    assert_eq!(
        (state.status.name(), state.stop_reason.as_str()),
        ("failed", "denied")
    );
    assert_eq!(world.count(), 0);
}

#[tokio::test]
async fn a_known_secret_reaches_neither_the_log_nor_the_model() {
    let mut world = World::new(Sideeffect::Read, &[WORK, ANSWER]);
    world.setup.redactor = Redactor::new(["hunter22".to_owned()]);
    world.start().await;
    let text = taofold::log::ndjson::export(&world.records().await).unwrap();
    assert!(!text.contains("hunter22"));
    assert!(text.contains("done with [redacted]"));
}

/// Mutant: a key line that is made before redaction.
#[tokio::test]
async fn a_key_line_that_ends_inside_of_a_secret_holds_no_part_of_it() {
    let mut world = World::new(Sideeffect::Read, &[WORK, ANSWER]);
    world.setup.redactor = Redactor::new(["hunter22".to_owned()]);
    let calls = Arc::clone(&world.calls);
    world.setup.tools.insert(Arc::new(Counting {
        declared: counts("work", Sideeffect::Read, json!({"type": "object"})),
        result: json!(format!(
            "{} hunter22{}",
            "x".repeat(193),
            "y".repeat(20_000)
        )),
        calls,
        preview: "",
    }));
    world.start().await;
    let log = taofold::log::ndjson::export(&world.records().await).unwrap();
    assert!(!log.contains("hunt"), "{log}");
    assert!(log.contains("characters left out"));
}

#[tokio::test]
async fn a_call_that_changes_something_does_not_run_with_a_mask_in_its_parameters() {
    for (effect, calls) in [(Sideeffect::Once, 1), (Sideeffect::Read, 2)] {
        let masked = WORK.replace("\"n\": 1", "\"text\": \"x [redacted]\"");
        let mut world = World::new(effect, &[WORK, &masked, ANSWER]);
        world.setup.redactor = Redactor::new(["hunter22".to_owned()]);
        let state = world.start().await.state;
        assert!(state.masked);
        assert_eq!(world.count(), calls, "{effect:?}");
        let refused = if calls == 1 { "masked" } else { "" };
        assert_eq!(state.steps[1].observations[0].refused, refused);
    }
}

#[tokio::test]
async fn a_cancelled_run_calls_nothing_more_and_can_be_resumed() {
    let mut world = World::new(Sideeffect::Read, &[]);
    world
        .setup
        .policy
        .tiers
        .insert("work".into(), Tier::Confirm);
    world.setup.models = models(&[WORK]);
    world.start().await;
    let cancel = Signal {
        id: "c".into(),
        kind: "cancel".into(),
        by: "ann".into(),
        ..Signal::default()
    };
    world.log.post("r", &cancel).await.unwrap();
    let state = world.resume(&[ANSWER]).await.state;
    assert_eq!(
        (state.status.name(), state.error.as_str()),
        ("cancelled", "cancelled by ann")
    );
}

#[tokio::test]
async fn a_message_is_read_once_and_stands_on_record() {
    let mut world = World::new(Sideeffect::Read, &[]);
    world
        .setup
        .policy
        .tiers
        .insert("work".into(), Tier::Confirm);
    world.setup.models = models(&[WORK]);
    world.start().await;
    let ann = Principal {
        id: "ann".into(),
        ..Principal::default()
    };
    control::steer(&world.log, "r", "be quick", &ann, &Redactor::default(), 0)
        .await
        .unwrap();
    let digest = world.open_digest().await;
    world.decide("local", "allow", &digest, "d").await;
    let state = world.resume(&[ANSWER]).await.state;
    assert_eq!(state.heard.len(), 1);
    assert_eq!(state.status.name(), "finished");
}

#[tokio::test]
async fn an_ended_run_is_not_resumed() {
    let world = World::new(Sideeffect::Read, &[ANSWER]);
    world.start().await;
    let strategy = React.run(world.task.clone());
    let again = resume(&world.log, "r", strategy, &world.setup).await;
    assert!(matches!(again, Err(Error::Ended { .. })));
}

#[tokio::test]
async fn a_provider_that_fails_ends_the_run_and_a_resume_asks_again() {
    let mut world = World::new(Sideeffect::Read, &[]);
    let state = world.start().await.state;
    assert_eq!(
        (state.status.name(), state.stop_reason.as_str()),
        ("failed", "error")
    );
    let state = world.resume(&[ANSWER]).await.state;
    assert!(state.success);
}

#[tokio::test]
async fn native_calls_are_run_and_replayed() {
    let mut world = World::new(Sideeffect::Read, &[]);
    world.task.native = true;
    let call = Part::Call(ToolCall {
        name: "work".into(),
        arguments: "{\"n\": 1}".into(),
        id: "c1".into(),
        ..ToolCall::default()
    });
    let replies = || {
        let reply = Reply {
            content: Content::Parts(vec![call.clone()]),
            finish: "tool_calls".into(),
            ..Reply::default()
        };
        [reply, Reply::text_only("It is 42.")]
    };
    let profile = Profile {
        native_tools: true,
        ..Profile::default()
    };
    world.setup.models = Models::new(Arc::new(ScriptedModel::with_replies(replies(), profile)));
    let state = world.start().await.state;
    assert_eq!(state.output, json!("It is 42."));
    assert_eq!(state.stop_reason, "no_tool_call");
    assert_eq!(world.count(), 1);
    let records = world.records().await;
    let strategy = React.run(world.task.clone());
    assert!(matches!(
        replay(&records, strategy, &world.setup, Comparison::Whole).await,
        Ok(Some(_))
    ));
    assert_eq!(world.count(), 1, "a replay called a tool");
}

async fn violations(strict: bool, replies: &[&str]) -> (Vec<(String, bool)>, u64) {
    let mut world = World::new(Sideeffect::Read, replies);
    world.task.strict = strict;
    let state = world.start().await.state;
    assert_eq!(state.status.name(), "finished", "{}", state.error);
    let records = world.records().await;
    let found = records.into_iter().filter_map(|record| match record.event {
        Event::Violated(event) => Some((event.rule, event.refused)),
        _ => None,
    });
    (found.collect(), state.model_calls)
}

#[tokio::test]
async fn a_lenient_run_records_what_a_reply_lacks_and_goes_on() {
    let bare = r#"{"action": {"tool": "work", "parameters": {"n": 1}}}"#;
    let (found, calls) = violations(false, &[bare, ANSWER]).await;
    let rules: Vec<(&str, bool)> = found
        .iter()
        .map(|(rule, it)| (rule.as_str(), *it))
        .collect();
    assert_eq!(rules, [("R1", false), ("missing_rationale", false)]);
    assert_eq!(calls, 2);
}

#[tokio::test]
async fn a_strict_run_asks_once_for_all_that_is_lacking_and_then_accepts() {
    let bare = r#"{"action": {"tool": "work", "parameters": {"n": 1}}}"#;
    let answer = ANSWER.replace("\"action\"", "\"learned\": \"done\", \"action\"");
    let (found, calls) = violations(true, &[bare, bare, &answer]).await;
    let rules: Vec<(&str, bool)> = found
        .iter()
        .map(|(rule, it)| (rule.as_str(), *it))
        .collect();
    let demanded = [("R1", true), ("missing_rationale", true)];
    let recorded = [("R1", false), ("missing_rationale", false)];
    assert_eq!(rules, [&demanded[..], &recorded].concat());
    assert_eq!(calls, 3);
}

/// Mutant: the verdict of today's rules on a recorded reply.
#[tokio::test]
async fn a_recorded_reply_keeps_its_recorded_verdict() {
    let bare = r#"{"action": {"tool": "work", "parameters": {"n": 1}}}"#;
    let answer = ANSWER.replace("\"action\"", "\"learned\": \"done\", \"action\"");
    let mut world = World::new(Sideeffect::Read, &[bare, bare, &answer]);
    world.task.strict = true;
    world.start().await;
    let mut records = world.records().await;
    for record in &mut records {
        if let Event::Violated(event) = &mut record.event
            && event.rule == "missing_rationale"
        {
            // As if by a rule that this release does not have any more.
            event.rule = "R4".into();
        }
    }
    let strategy = React.run(world.task.clone());
    let again = replay(&records, strategy, &world.setup, Comparison::Whole).await;
    assert!(matches!(again, Ok(Some(_))), "{again:?}");
}

#[tokio::test]
async fn a_reply_that_can_never_be_read_ends_the_run_after_the_attempts() {
    let world = World::new(
        Sideeffect::Read,
        &["{\"thought\": \"I", "{\"thought\": ", "{\""],
    );
    let state = world.start().await.state;
    assert_eq!((state.status.name(), state.model_calls), ("failed", 3));
}

/// Mutants: no comparison of the preview; one of its first 100,000 characters only.
#[tokio::test]
async fn an_approval_of_what_has_changed_since_is_void_and_asked_for_again() {
    let long = |end: &str| -> &'static str { Box::leak(("x".repeat(100_000) + end).into()) };
    for changed in ["policy", "tool", "preview", "end of the preview"] {
        let mut world = World::new(Sideeffect::Once, &[WORK]);
        let tool = |preview, schema: Value| {
            Arc::new(Counting {
                declared: counts("work", Sideeffect::Once, schema),
                result: json!("done"),
                calls: Arc::clone(&world.calls),
                preview,
            })
        };
        let plain = json!({"type": "object"});
        let (before, after) = match changed {
            "tool" => (
                tool("x", plain),
                tool("x", json!({"type": "object", "title": "Another"})),
            ),
            "preview" => (tool("x", plain.clone()), tool("y", plain)),
            "end of the preview" => (tool(long("ya"), plain.clone()), tool(long("yb"), plain)),
            _ => (tool("x", plain.clone()), tool("x", plain)),
        };
        world.setup.tools.insert(before);
        world
            .setup
            .policy
            .tiers
            .insert("work".into(), Tier::Confirm);
        world.start().await;
        let digest = world.open_digest().await;
        world.decide("local", "allow", &digest, "d").await;
        if changed == "policy" {
            world.setup.policy.deny.insert("another".into());
        }
        world.setup.tools.insert(after);
        let state = world.resume(&[ANSWER]).await.state;
        assert_eq!(state.waiting_for, "awaiting_approval", "{changed}");
        assert_eq!(world.count(), 0);
        let digest = world.open_digest().await;
        world.decide("local", "allow", &digest, "e").await;
        let state = world.resume(&[ANSWER]).await.state;
        assert_eq!(state.status.name(), "finished", "{}", state.error);
        assert_eq!(world.count(), 1);
    }
}

//! The commands of the program.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use taofold::agent::{Agent, Choice, Place};
use taofold::errors::{ConfigError, Error, LogError, shown};
use taofold::events::{Event, Record, RunStarted, encode};
use taofold::log::{Log, RunRow, SqliteLog, ndjson};
use taofold::policy::Redactor;
use taofold::runtime::control::{self, Approval, Decision};
use taofold::runtime::{Comparison, Outcome, new_id, replay, replay_child, resume, start};
use taofold::state::{RunState, fold};
use taofold::values::Principal;

use crate::arguments::{Approvals, Approve, Check, Cli, Command, Drive, Run, Runs};
use crate::output::{
    Failure, UNREACHED, USAGE, approval_json, code_of, give, give_json, iso, result_json, row_json,
    say,
};
use crate::terminal;

type Done = Result<ExitCode, Failure>;

/// The recorded reason for a decision without a question.
const WAVED: &str = "--approve all";
const SHOWN: usize = 5;

pub(crate) async fn run(cli: Cli) -> Done {
    let environment: HashMap<String, String> = std::env::vars().collect();
    let here = std::env::current_dir().map_err(|error| Failure::usage(error.to_string()))?;
    let place = Place::find(&here, environment)?;
    let project = Project { place };
    match cli.command {
        Command::Run(arguments) => project.run(&here, arguments).await,
        Command::Check(arguments) => project.check(&here, &arguments),
        Command::Runs(command) => project.runs(&here, command).await,
        Command::Approvals(command) => project.approvals(command).await,
    }
}

struct Project {
    place: Place,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX))
}

fn started(records: &[Record]) -> Result<&RunStarted, Failure> {
    match records.first().map(|record| &record.event) {
        Some(Event::RunStarted(started)) => Ok(started),
        _ => Err(Failure::usage("the run has no beginning on record")),
    }
}

/// Returns the pairs of `KEY=VALUE` arguments.
fn pairs(arguments: &[String], option: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for argument in arguments {
        match argument.split_once('=') {
            Some((name, _)) if pairs.iter().any(|(known, _)| known == name) => {
                return Err(Failure::usage(format!("{option} gives {name:?} twice")));
            }
            Some((name, value)) if !name.is_empty() => {
                pairs.push((name.to_owned(), value.to_owned()));
            }
            _ => {
                return Err(Failure::usage(format!(
                    "{option} takes KEY=VALUE, not {argument:?}"
                )));
            }
        }
    }
    Ok(pairs)
}

fn goal_of(arguments: &Run) -> Result<(String, String), Failure> {
    let (agent, goal) = match (arguments.agent.as_deref(), arguments.arguments.as_slice()) {
        (Some(agent), [goal]) => (agent, goal.clone()),
        (None, [agent, goal]) => (agent.as_str(), goal.clone()),
        (None, [agent]) => {
            return Err(Failure::usage(format!(
                "GOAL is missing: taofold-rs run {agent} \"what to do\""
            )));
        }
        _ => {
            return Err(Failure::usage(
                "with --agent there is one more argument, the goal",
            ));
        }
    };
    let goal = if goal == "-" {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::usage(error.to_string()))?;
        text
    } else {
        goal
    };
    if goal.trim().is_empty() {
        return Err(Failure::usage("GOAL is empty: say what to do"));
    }
    Ok((agent.to_owned(), goal))
}

impl Project {
    fn redactor(&self) -> Redactor {
        Redactor::new(self.place.secrets())
    }

    /// Opens the project's log. Only the owner can access its folder.
    fn log(&self, create: bool) -> Result<SqliteLog, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let path = self.place.log_path()?;
        if !create && !path.exists() {
            return Err(Failure::usage(format!(
                "there are no runs yet: {path:?} does not exist; start one with `taofold-rs run`"
            )));
        }
        let home = self.place.home();
        if create && path.starts_with(home) && !home.is_dir() {
            let made = std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(home);
            made.map_err(|error| Failure::usage(format!("{home:?}: {error}")))?;
            // A log does not belong in the project's version control.
            let _ = std::fs::write(home.join(".gitignore"), "*\n");
        }
        Ok(SqliteLog::open(path)?)
    }

    async fn run(&self, here: &Path, arguments: Run) -> Done {
        let (agent, goal) = goal_of(&arguments)?;
        let mut data = Map::new();
        for (name, text) in pairs(&arguments.values, "--set")? {
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            data.insert(name, value);
        }
        let tags: BTreeMap<String, String> = pairs(&arguments.tags, "--tag")?.into_iter().collect();
        let limits = [
            ("steps", arguments.steps.map(|it| json!(it))),
            ("tool_calls", arguments.tool_calls.map(|it| json!(it))),
            ("seconds", arguments.seconds.map(|it| json!(it))),
            ("tokens", arguments.tokens.map(|it| json!(it))),
            ("usd", arguments.usd.map(|it| json!(it))),
        ];
        let limits = limits.into_iter();
        let root = match &arguments.root {
            Some(root) => here.join(root),
            None => here.to_owned(),
        };
        let root = root
            .canonicalize()
            .map_err(|error| Failure::usage(format!("--root: {root:?}: {error}")))?;
        let mut choice = Choice {
            agent,
            folder: here.to_string_lossy().into_owned(),
            root: root.to_string_lossy().into_owned(),
            model: arguments.model.unwrap_or_default(),
            autonomy: arguments.autonomy.unwrap_or_default(),
            strict: arguments.strict,
            limits: limits
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
            ..Choice::default()
        };
        choice.digest = choice.current_digest();
        // Before the log is created, so that an invalid agent file leaves nothing behind.
        let mut agent = Agent::make(&choice, &self.place)?;
        open(&mut agent).await?;
        let log = self.log(true)?;
        let run = new_id(now()).map_err(|error| Failure::usage(error.to_string()))?;
        let first = agent.started(&goal, data, tags);
        let driven = Driven {
            project: self,
            log: &log,
            run: &run,
            drive: &arguments.drive,
        };
        driven.go(agent, Some(first)).await
    }

    fn check(&self, here: &Path, arguments: &Check) -> Done {
        let mut faults = Vec::new();
        for file in &arguments.files {
            let choice = Choice {
                agent: file.to_string_lossy().into_owned(),
                folder: here.to_string_lossy().into_owned(),
                // Any model, because a file is checked without keys.
                model: "test:answer".to_owned(),
                ..Choice::default()
            };
            if let Err(error) = Agent::make(&choice, &self.place) {
                let text = std::fs::read_to_string(file).unwrap_or_default();
                let (path, line) = taofold::agent::line_of(&text, &error.path);
                faults.push(json!({
                    "file": choice.agent, "line": line, "path": path, "message": error.message,
                }));
            }
        }
        if arguments.json {
            give_json(&json!(faults));
        } else if faults.is_empty() {
            say("no faults");
        } else {
            for fault in &faults {
                let text = |name: &str| fault[name].as_str().unwrap_or_default();
                let path = match text("path") {
                    "" => String::new(),
                    path => format!("{path}: "),
                };
                let line = match fault["line"].as_u64() {
                    None | Some(0) => String::new(),
                    Some(line) => format!(":{line}"),
                };
                say(&format!(
                    "{}{line}: {path}{}",
                    text("file"),
                    text("message")
                ));
            }
        }
        if faults.is_empty() {
            Ok(ExitCode::SUCCESS)
        } else {
            Ok(ExitCode::from(USAGE))
        }
    }

    async fn runs(&self, here: &Path, command: Runs) -> Done {
        match command {
            Runs::List {
                status,
                limit,
                json,
            } => {
                let rows = self.log(false)?.rows(&status, limit).await?;
                if json {
                    give_json(&rows.iter().map(row_json).collect());
                } else if rows.is_empty() {
                    say("no runs");
                } else {
                    rows.iter().for_each(|row| give(&row_line(row)));
                }
                Ok(ExitCode::SUCCESS)
            }
            Runs::Show { run, json } => {
                let log = self.log(false)?;
                let run = find(&log, &run).await?;
                let pending = control::pending_in(&log, &run).await?;
                show(&run, &log.read(&run, 0).await?, &pending, json)
            }
            Runs::Log { run, json } => {
                let log = self.log(false)?;
                let run = find(&log, &run).await?;
                for record in log.read(&run, 0).await? {
                    give(&record_line(&record, json)?);
                }
                Ok(ExitCode::SUCCESS)
            }
            Runs::Export { run } => {
                let log = self.log(false)?;
                let run = find(&log, &run).await?;
                give(ndjson::export(&log.read(&run, 0).await?)?.trim_end());
                Ok(ExitCode::SUCCESS)
            }
            Runs::Resume {
                run,
                agent,
                model,
                drive,
            } => {
                let log = self.log(false)?;
                let run = find(&log, &run).await?;
                let records = log.read(&run, 0).await?;
                let first = started(&records)?;
                if !first.parent.is_empty() && agent.is_none() {
                    let root = control::root(&log, &run).await?;
                    return Err(Failure::usage(format!(
                        "{run:?} is a child run, which the run that began it carries on: taofold-rs \
                         runs resume {root}"
                    )));
                }
                let mut agent = self.agent_of(here, first, agent, model)?;
                open(&mut agent).await?;
                let driven = Driven {
                    project: self,
                    log: &log,
                    run: &run,
                    drive: &drive,
                };
                driven.go(agent, None).await
            }
            Runs::Replay { run, agent, json } => {
                let log = self.log(false)?;
                let run = find(&log, &run).await?;
                self.replay(here, &log, &run, agent, json).await
            }
            Runs::Steer { run, text } => {
                let log = self.log(false)?;
                let run = find(&log, &run).await?;
                let by = Principal::default();
                control::steer(&log, &run, &text, &by, &self.redactor(), now()).await?;
                say("the model reads it at its next turn");
                Ok(ExitCode::SUCCESS)
            }
            Runs::Cancel { run } => {
                let log = self.log(false)?;
                let run = find(&log, &run).await?;
                let over = control::cancel(&log, &run, &Principal::default(), now()).await?;
                say(if over {
                    "cancelled"
                } else {
                    "it ends before its next call"
                });
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    /// Makes the agent of a run again, from its record or the command line.
    fn agent_of(
        &self,
        here: &Path,
        started: &RunStarted,
        agent: Option<String>,
        model: Option<String>,
    ) -> Result<Agent, Failure> {
        let recorded = Choice::recorded(&started.settings);
        let mut choice = match (agent, recorded) {
            (Some(agent), recorded) => Choice {
                agent,
                folder: here.to_string_lossy().into_owned(),
                ..recorded.unwrap_or_default()
            },
            (None, recorded) => {
                let choice = recorded?;
                if !choice.digest.is_empty() && choice.digest != choice.current_digest() {
                    say(&format!(
                        "note: {} has changed since this run began",
                        choice.agent
                    ));
                }
                choice
            }
        };
        if let Some(model) = model {
            choice.model = model;
        }
        Ok(Agent::make(&choice, &self.place)?)
    }

    async fn replay(
        &self,
        here: &Path,
        log: &SqliteLog,
        run: &str,
        agent: Option<String>,
        as_json: bool,
    ) -> Done {
        let records = log.read(run, 0).await?;
        let first = started(&records)?;
        // The replies come from the log, so no key and no network is needed.
        let stand_in = Some("test:answer".to_owned());
        // The agent of a child run is called by the agent of the root run.
        let root = control::root(log, run).await?;
        let named = agent.is_some();
        let above = log.read(&root, 0).await?;
        let mut agent = self.agent_of(here, started(&above)?, agent, stand_in)?;
        agent.open_accepted()?;
        let comparison = Comparison::of(&records);
        let asked = (root != run).then(|| agent.asked(&first.agent));
        let derived = match asked.flatten() {
            Some(asked) => replay_child(&records, asked.as_ref(), &agent.setup, comparison).await,
            None if root != run && !named => {
                let name = &first.agent;
                let message = format!("the agent of the run {root} asks no agent {name:?}");
                return Err(Failure::usage(message));
            }
            None => {
                let strategy = agent.strategy(first);
                replay(&records, strategy, &agent.setup, comparison).await
            }
        };
        let error = match derived {
            Ok(_) => None,
            Err(Error::Diverged(error)) => Some(error),
            Err(error) => return Err(error.into()),
        };
        let count = records.len();
        if as_json {
            let mut result = json!({"run": run, "events": count, "identical": error.is_none()});
            if let Some(error) = &error {
                result["key"] = json!(error.key);
                result["recorded"] = json!(shown(error.recorded.as_deref()));
                result["requested"] = json!(shown(error.requested.as_deref()));
            }
            give_json(&result);
        } else {
            match &error {
                None => give(&format!(
                    "identical: the {count} events of {run} were derived again"
                )),
                Some(error) => give(&error.to_string()),
            }
        }
        Ok(match error {
            None => ExitCode::SUCCESS,
            Some(_) => ExitCode::from(UNREACHED),
        })
    }

    async fn approvals(&self, command: Approvals) -> Done {
        let log = self.log(false)?;
        match command {
            Approvals::List { run, json } => self.pending(&log, run, json).await,
            Approvals::Approve {
                ids,
                parameters,
                answer,
                done,
                reason,
            } => {
                let one = answer.is_some() || done || parameters.is_some();
                if one && ids.len() > 1 {
                    let message =
                        "--answer, --parameters and --done are about one question: name one";
                    return Err(Failure::usage(message));
                }
                let edited = match parameters.as_deref().map(serde_json::from_str::<Value>) {
                    None => None,
                    Some(Ok(Value::Object(members))) => Some(members),
                    Some(_) => return Err(Failure::usage("--parameters is a JSON object")),
                };
                let decision = Decision {
                    verdict: if done { "done" } else { "allow" }.to_owned(),
                    reason,
                    answer,
                    parameters: edited,
                };
                self.decide(&log, &ids, &decision, "approved").await
            }
            Approvals::Deny { ids, reason } => {
                let decision = Decision {
                    verdict: "deny".to_owned(),
                    reason,
                    ..Decision::default()
                };
                self.decide(&log, &ids, &decision, "denied").await
            }
        }
    }

    async fn pending(&self, log: &SqliteLog, run: Option<String>, as_json: bool) -> Done {
        let mut runs: Vec<RunRow> = Vec::new();
        if let Some(run) = run {
            let run = find(log, &run).await?;
            runs.push(log.row(&run).await?);
            runs.extend(control::descendants(log, &run).await?);
        } else {
            for status in ["waiting", "running"] {
                runs.extend(log.rows(status, usize::MAX >> 1).await?);
            }
        }
        let mut listed = Vec::new();
        for row in runs {
            let posted: Vec<u64> = log
                .inbox(&row.run)
                .await?
                .iter()
                .filter(|signal| matches!(signal.kind.as_str(), "decide" | "answer"))
                .filter_map(|signal| signal.data.get("seq").and_then(Value::as_u64))
                .collect();
            for approval in control::pending(&log.read(&row.run, 0).await?)? {
                let decided = posted.contains(&approval.seq);
                listed.push((approval, row.held && !decided, decided));
            }
        }
        if as_json {
            let one = |(approval, live, decided): &(Approval, bool, bool)| {
                let mut shown = approval_json(approval);
                shown["live"] = json!(live);
                shown["decided"] = json!(decided);
                shown
            };
            give_json(&listed.iter().map(one).collect());
        } else if listed.is_empty() {
            say("nothing waits for you");
        } else {
            for (approval, _, decided) in &listed {
                let note = if *decided {
                    "  (decided: resume the run)"
                } else {
                    ""
                };
                give(&format!("{}  {}{note}", approval.id, subject(approval)));
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn decide(
        &self,
        log: &SqliteLog,
        ids: &[String],
        decision: &Decision,
        what: &str,
    ) -> Done {
        let mut resumable: Vec<String> = Vec::new();
        for reference in ids {
            let id = question_of(log, reference).await?;
            let approval = self.decide_one(log, &id, decision).await?;
            say(&format!("{what}: {}", subject(&approval)));
            let root = control::root(log, &approval.run).await?;
            if !resumable.contains(&root) {
                resumable.push(root);
            }
        }
        for run in resumable {
            say(&format!("go on with: taofold-rs runs resume {run}"));
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn decide_one(
        &self,
        log: &SqliteLog,
        id: &str,
        decision: &Decision,
    ) -> Result<Approval, Failure> {
        let policy = self.place.operator_policy()?;
        let by = Principal::default();
        let redactor = self.redactor();
        let decided = control::decide(log, id, decision, &by, &policy, &redactor, now());
        Ok(decided.await?)
    }
}

/// Adds the tools of the agent's servers, and reports omitted tools.
async fn open(agent: &mut Agent) -> Result<(), Failure> {
    for note in agent.open().await? {
        say(&note);
    }
    Ok(())
}

fn subject(approval: &Approval) -> String {
    let asked = &approval.asked;
    let words = [
        approval.question.as_str(),
        asked.preview.as_str(),
        approval.action.tool.as_str(),
    ];
    let first = words.into_iter().find(|text| !text.is_empty());
    first.unwrap_or_default().to_owned()
}

/// Returns the id of the question for `RUN:SEQ`, or for a run with one question.
async fn question_of(log: &SqliteLog, reference: &str) -> Result<String, Failure> {
    if let Some((run, seq)) = reference.rsplit_once(':') {
        return Ok(format!("{}:{seq}", find(log, run).await?));
    }
    let run = find(log, reference).await?;
    let open = control::pending_in(log, &run).await?;
    match open.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(Failure::unreached(format!(
            "run {run:?} has nothing that waits for a person"
        ))),
        several => {
            let ids: Vec<&str> = several.iter().map(|it| it.id.as_str()).collect();
            Err(Failure::usage(format!(
                "run {run:?} has {} questions: {}; name them",
                ids.len(),
                ids.join(", ")
            )))
        }
    }
}

/// Returns the run id for `reference`, which is an id, the beginning of one, or `last`.
async fn find(log: &SqliteLog, reference: &str) -> Result<String, Failure> {
    match log.row(reference).await {
        Ok(row) => return Ok(row.run),
        Err(LogError::UnknownRun { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    if reference == "last" {
        // A child run is newer than its caller, but `last` rarely refers to it.
        let rows = log.rows("", usize::MAX >> 1).await?;
        let newest = rows.iter().find(|row| row.parent.is_empty());
        if let Some(newest) = newest.or(rows.first()) {
            return Ok(newest.run.clone());
        }
    }
    let ids = log.ids(reference, SHOWN + 1).await?;
    match ids.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::usage(format!(
            "there is no run {reference:?}; see `taofold-rs runs list`"
        ))),
        several => Err(Failure::usage(format!(
            "{reference:?} is the beginning of several runs: {}",
            several.join(", ")
        ))),
    }
}

fn row_line(row: &RunRow) -> String {
    let status = if row.status == "running" && !row.held {
        "interrupted"
    } else {
        &row.status
    };
    let waits = if row.waiting_for.is_empty() {
        String::new()
    } else {
        format!(" ({})", row.waiting_for)
    };
    let goal: String = row.goal.chars().take(60).collect();
    let goal = goal.replace('\n', " ");
    let child = if row.parent.is_empty() { "" } else { "  child" };
    format!(
        "{}  {}  {status}{waits}{child}  {goal}",
        row.run,
        iso(row.updated_at)
    )
}

fn record_line(record: &Record, as_json: bool) -> Result<String, Failure> {
    let text = encode(&record.event, record.elapsed)?;
    if as_json {
        let event: Value = serde_json::from_str(&text).unwrap_or_default();
        let row = json!({"run": record.run, "seq": record.seq, "at": record.at, "event": event});
        return Ok(row.to_string());
    }
    let time = iso(record.at);
    let short: String = text.chars().take(120).collect();
    Ok(format!(
        "{:>4}  {}  {:<16} {short}",
        record.seq,
        time.get(11..23).unwrap_or(&time),
        record.event.tag()
    ))
}

fn show(run: &str, records: &[Record], pending: &[Approval], as_json: bool) -> Done {
    let state = fold(records)?;
    if as_json {
        let mut shown = result_json(run, &state, pending);
        shown["goal"] = json!(state.goal);
        shown["trace"] = json!(state.steps);
        shown["data"] = json!(state.data);
        give_json(&shown);
        return Ok(ExitCode::SUCCESS);
    }
    give(&format!(
        "{run}: {} ({})",
        state.status.name(),
        state.stop_reason
    ));
    give(&format!("goal: {}", state.goal));
    for turn in taofold::trace::turns(records) {
        give(&format!("{}. {}", turn.number, turn.thought.content));
        for call in &turn.calls {
            let action = &call.action;
            let line = taofold::tools::call_line(&action.tool, &action.parameters);
            let edited = match call.edited_by.as_str() {
                "" => String::new(),
                by => format!("    (approved by {by} with edited parameters)"),
            };
            give(&format!("   {line}{edited}"));
            match &call.observation {
                Some(observation) => {
                    let result = taofold::json::render(&observation.result);
                    let result: String = result.chars().take(300).collect();
                    give(&format!("   {}: {result}", observation.status.name()));
                }
                None if call.started => give("   started, not observed"),
                None => give("   not started"),
            }
        }
    }
    for approval in pending {
        give(&format!("waits: {}  {}", approval.id, subject(approval)));
    }
    if !state.output.is_null() {
        give(&format!("answer: {}", taofold::json::render(&state.output)));
    }
    if !state.error.is_empty() {
        give(&format!("error: {}", state.error));
    }
    Ok(ExitCode::SUCCESS)
}

/// A run that is driven at a terminal.
struct Driven<'a> {
    project: &'a Project,
    log: &'a SqliteLog,
    run: &'a str,
    drive: &'a Drive,
}

impl Driven<'_> {
    /// Starts or resumes the run until it ends or waits for a decision that cannot be made here.
    async fn go(&self, mut agent: Agent, first: Option<RunStarted>) -> Done {
        let done = self.driven(&mut agent, first).await;
        agent.close().await;
        done
    }

    async fn driven(&self, agent: &mut Agent, first: Option<RunStarted>) -> Done {
        let quiet = self.drive.quiet || self.drive.json;
        if !quiet && terminal::is_here() {
            agent.setup.on_text = Some(Arc::new(|text: &str| {
                use std::io::Write;
                let _ = write!(std::io::stderr(), "{text}");
            }));
        }
        let started = match &first {
            Some(started) => started.clone(),
            None => started(&self.log.read(self.run, 0).await?)?.clone(),
        };
        let mut next = first;
        loop {
            let strategy = agent.strategy(&started);
            let driving = async {
                match next.take() {
                    Some(first) => start(self.log, self.run, first, strategy, &agent.setup).await,
                    None => resume(self.log, self.run, strategy, &agent.setup).await,
                }
            };
            let outcome = tokio::select! {
                outcome = driving => Some(outcome?),
                () = interrupted() => None,
            };
            // The drive has been dropped, together with its active calls.
            let Some(outcome) = outcome else {
                return self.interrupted().await;
            };
            let pending = control::pending_in(self.log, self.run).await?;
            let waits = outcome.state.status.name() == "waiting";
            if !(waits && self.decide(&pending).await?) {
                return Ok(self.show(&outcome, &pending));
            }
        }
    }

    async fn interrupted(&self) -> Done {
        // A resume continues the unfinished work of the drive.
        let ended = control::interrupt(self.log, self.run, now()).await;
        if let Err(error) = ended {
            say(&error.to_string());
        }
        say(&format!(
            "interrupted; what was done is kept. Go on with: taofold-rs runs resume {}",
            self.run
        ));
        Ok(ExitCode::from(crate::output::INTERRUPTED))
    }

    /// Makes the decisions that are possible here. Returns true if there was any.
    async fn decide(&self, pending: &[Approval]) -> Result<bool, Failure> {
        let mut decided = false;
        for approval in pending {
            let decision = match self.drive.approve {
                // A question needs an answer, not an approval: after a crash the outcome must not
                // be guessed.
                Approve::All if approval.question.is_empty() => Some(Decision {
                    verdict: "allow".to_owned(),
                    reason: WAVED.to_owned(),
                    ..Decision::default()
                }),
                Approve::Ask if terminal::is_here() => terminal::ask(approval),
                _ => None,
            };
            if let Some(decision) = decision {
                self.project
                    .decide_one(self.log, &approval.id, &decision)
                    .await?;
                decided = true;
            }
        }
        Ok(decided)
    }

    fn show(&self, outcome: &Outcome, pending: &[Approval]) -> ExitCode {
        let state: &RunState = &outcome.state;
        if self.drive.json {
            give_json(&result_json(self.run, state, pending));
            return code_of(state);
        }
        if !state.output.is_null() {
            give(&taofold::json::render(&state.output));
        }
        if state.status.name() == "waiting" {
            for approval in pending {
                say(&format!("waits: {}  {}", approval.id, subject(approval)));
                ways(approval).iter().for_each(|way| say(way));
            }
            say(&format!("then:\n  taofold-rs runs resume {}", self.run));
            return code_of(state);
        }
        if self.drive.quiet && !state.error.is_empty() {
            say(&format!("{}: {}", state.status.name(), state.error));
        }
        if !self.drive.quiet {
            say(&summary(state));
            say(&format!("log: taofold-rs runs show {}", self.run));
        }
        code_of(state)
    }
}

/// Returns the commands that decide a question.
fn ways(approval: &Approval) -> Vec<String> {
    let id = &approval.id;
    let approve = format!("taofold-rs approvals approve {id}");
    if approval.wants_text() {
        return vec![format!("  {approve} --answer TEXT")];
    }
    if approval.question.is_empty() {
        return vec![format!("  {approve}    (or deny)")];
    }
    vec![
        format!("  it happened:   {approve} --done"),
        format!("  run it again:  {approve}"),
        format!("  skip it:       taofold-rs approvals deny {id}"),
    ]
}

/// Returns the status and the consumption of a run on one line.
fn summary(state: &RunState) -> String {
    let count = |number: u64, name: &str| {
        let ending = if number == 1 { "" } else { "s" };
        format!("{number} {name}{ending}")
    };
    let error = match state.error.as_str() {
        "" => String::new(),
        error => format!(" — {error}"),
    };
    let usd = state
        .usage
        .usd
        .map_or("$?".to_owned(), |usd| format!("${usd:.2}"));
    format!(
        "{}: {}{error} ({} · {} · {} · {usd} · {} ms)",
        state.status.name(),
        state.stop_reason,
        count(state.steps.len() as u64, "step"),
        count(state.tool_calls, "call"),
        count(state.usage.tokens(), "token"),
        state.active_ms
    )
}

/// Returns when the user ends the program with Ctrl-C or a termination signal.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

const _: fn(ConfigError) -> Failure = Failure::from;

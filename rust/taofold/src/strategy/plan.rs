//! Plan, execute, evaluate, plan again: tasks with dependencies, judged by another role.
//!
//! The planner lists tool calls, the runtime performs them in waves of independent ones, and the
//! evaluator judges the result. Its objections become part of the next planning prompt. A call that
//! cannot run never reaches a tool and is observed as a failure with its reason. Examples are an
//! invalid reference or a failed dependency. The roles are planner, executor (retries of failed
//! tasks), evaluator and finalizer (the form of the answer).

use std::collections::{BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::content::Message;
use crate::effects::{Act, Answer, Coroutine, Halt, Outlook, Scope};
use crate::json::{Object, Value, json, render, to_value};
use crate::parsing::{Read, Repair, Unparsed, read_object, read_reply};
use crate::strategy::dependencies::{self, Results, references, resolve_members};
use crate::strategy::direct::answer;
use crate::strategy::nested::{closing, failure};
use crate::strategy::question::{Parsed, Question, Unread, ask_for, object, violation};
use crate::strategy::{Strategy, Tangle, Task};
use crate::tools::quoted;
use crate::values::{
    Action, FINISH, Observation, ObservationStatus, Reply, StepRole, Thought, ThoughtType,
};

/// The maximum number of characters of one result in a prompt.
const SHOWN: usize = 4000;
/// The maximum number of characters of one result when the prompt is nearly full.
const SHORT: usize = 200;
const EVALUATOR: &str = "\
You judge whether a goal is reached, by the results alone: what they do not show is not done.
Reply with exactly one JSON object, nothing before or after it:
{\"reasoning\": \"<how you judged>\", \"achieved\": <true or false>, \"feedback\": \"<what is wrong>\", \
\"missing\": [\"<what is missing>\", …], \"suggestions\": [\"<what to try>\", …]}";
const FINALIZER: &str = "Give the answer to the goal from these results. Invent nothing.";
/// The stop reason of a used limit of steps.
const STEPS: &str = "max_steps";

/// A strategy that plans, executes and evaluates.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The number of rejections by the evaluator, from 1, before the run ends as not achieved.
    pub rejections: u64,
    /// The number of alternative attempts for one failed task.
    pub retries: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            rejections: 3,
            retries: 1,
        }
    }
}

impl Strategy for Plan {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn run(&self, task: Task) -> Coroutine<Answer> {
        let mut planning = Planning {
            options: self.clone(),
            task,
            tasks: HashMap::new(),
            seen: Vec::new(),
            heard: Vec::new(),
            used: HashSet::new(),
            guessed: HashMap::new(),
            failed: false,
            plans: Vec::new(),
            hint: String::new(),
            feedback: String::new(),
            rejected: 0,
            flags: 0,
        };
        Coroutine::new(|scope| async move {
            loop {
                if let Err(End(answer)) = planning.cycle(&scope).await {
                    return *answer;
                }
            }
        })
    }
}

/// The final answer of the strategy.
struct End(Box<Answer>);

impl From<Halt> for End {
    fn from(halt: Halt) -> Self {
        Answer::from(halt).into()
    }
}

impl From<Answer> for End {
    fn from(answer: Answer) -> Self {
        Self(Box::new(answer))
    }
}

/// One task of a plan: a tool call that may refer to the results of others.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct PlannedTask {
    id: String,
    #[serde(default)]
    description: String,
    tool: String,
    #[serde(default)]
    args: Object,
    #[serde(default)]
    depends: Vec<String>,
}

impl PlannedTask {
    /// Returns the tasks that must run first: the named ones, and the referenced ones that `known`
    /// accepts.
    fn needs(&self, known: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let referred = references(&Value::Object(self.args.clone()));
        let referred = referred.into_iter().filter(|id| known(id));
        self.depends.iter().cloned().chain(referred).collect()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Tasks {
    #[serde(default, skip_serializing)]
    thought: String,
    tasks: Vec<PlannedTask>,
}

/// How a failed task is to be done otherwise.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
struct Retry {
    #[serde(default)]
    thought: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    args: Object,
    #[serde(default)]
    give_up: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Evaluation {
    #[serde(default, skip_serializing)]
    reasoning: String,
    achieved: bool,
    #[serde(default)]
    feedback: String,
    #[serde(default)]
    missing: Vec<String>,
    #[serde(default)]
    suggestions: Vec<String>,
}

impl Evaluation {
    /// Returns the feedback for the next planner.
    fn told(&self) -> String {
        let why = if self.feedback.is_empty() {
            "no reason was given"
        } else {
            &self.feedback
        };
        let mut parts = vec![format!("The goal is not reached yet: {why}")];
        for (name, lines) in [
            ("Missing", &self.missing),
            ("Suggestions", &self.suggestions),
        ] {
            if !lines.is_empty() {
                parts.push(format!("{name}:\n- {}", lines.join("\n- ")));
            }
        }
        parts.join("\n")
    }
}

/// A parsed reply with the repairs that may have changed its meaning.
struct Told<T> {
    value: T,
    guessed: Vec<String>,
}

fn read_as<T: DeserializeOwned>(reply: &Reply) -> Result<Parsed<Told<T>>, Unparsed> {
    let (object, repairs) = read_object(&reply.text(), &reply.finish)?;
    let value = serde_json::from_value(Value::Object(object))
        .map_err(|error| Unparsed::new("invalid", error.to_string()))?;
    Ok(told(value, repairs))
}

fn told<T>(value: T, repairs: Vec<Repair>) -> Parsed<Told<T>> {
    let mut guessed: Vec<String> = Vec::new();
    for repair in repairs.iter().filter(|repair| repair.content) {
        if !guessed.iter().any(|kind| kind == repair.kind) {
            guessed.push(repair.kind.to_owned());
        }
    }
    Parsed {
        value: Told { value, guessed },
        repairs,
    }
}

/// Parses a retry in the form of a call, in the JSON or text protocol of `react`.
///
/// Returns `None` if the reply has the requested form or is no call.
fn called(reply: &Reply) -> Option<Parsed<Told<Retry>>> {
    let text = reply.text();
    if let Ok((object, _)) = read_object(&text, &reply.finish)
        && (object.contains_key("tool") || object.contains_key("give_up"))
    {
        return None;
    }
    let Read::Turn(turn) = read_reply(&text, &reply.finish) else {
        return None;
    };
    let [call] = turn.calls.try_into().ok()?;
    if !call.error.is_empty() || call.tool == FINISH {
        return None;
    }
    let repairs = [Repair::envelope("call_form")].into_iter();
    let retry = Retry {
        thought: turn.remark.map(|it| it.content).unwrap_or_default(),
        tool: call.tool,
        args: call.parameters,
        give_up: false,
    };
    Some(told(retry, repairs.chain(call.repairs).collect()))
}

/// The tasks so far, their results, and the evaluator's objections.
struct Planning {
    options: Plan,
    task: Task,
    tasks: HashMap<String, PlannedTask>,
    /// The results in the order in which the tasks first ran.
    seen: Vec<(String, Observation)>,
    heard: Vec<Message>,
    used: HashSet<String>,
    /// The tasks of plans that were repaired with a possible change of meaning, with these repairs.
    guessed: HashMap<String, Vec<String>>,
    /// True if the last step failed, so that the next thought is an exception.
    failed: bool,
    plans: Vec<String>,
    hint: String,
    feedback: String,
    rejected: u64,
    flags: u64,
}

impl Results for Planning {
    fn output(&self, id: &str) -> Result<&Value, String> {
        let Some(observation) = self.observation(id) else {
            return Err(format!("there is no result of a task {}", quoted(id)));
        };
        // A log stores large outputs separately and shows only their beginning, which is no usable
        // value.
        if !observation.blob.is_empty() || observation.cut {
            return Err(format!(
                "the output of {id:?} is too large to be passed on whole"
            ));
        }
        Ok(&observation.result)
    }

    fn is_task(&self, id: &str) -> bool {
        self.tasks.contains_key(id)
    }
}

impl Planning {
    async fn cycle(&mut self, scope: &Scope) -> Result<(), End> {
        self.turn(scope, false).await?;
        let words = [self.feedback.clone(), self.hint.clone()];
        let rules = planner_rules(&self.task.tool_lines());
        let words = words.iter().map(String::as_str);
        let read = |planning: &Self, reply: &Reply| planning.read_plan(reply);
        let asked = self.ask::<Tasks>(scope, StepRole::Planner, rules, words, read);
        let plan = match asked.await? {
            Ok(plan) => plan,
            Err(unread) => return Err(Answer::from(unread).into()),
        };
        for task in &plan.value.tasks {
            self.guessed.insert(task.id.clone(), plan.guessed.clone());
        }
        let plan = plan.value;
        let circles = self.circles(&plan.tasks);
        let step = self.step("plan", &plan.thought, ThoughtType::Goal, to_value(&plan));
        scope.act(step).await?;
        // The plan is recorded in either case; a repeated plan does not run.
        if circles {
            return self.flag(scope).await;
        }
        self.execute(scope, plan).await?;
        self.evaluate(scope).await
    }

    /// Opens a turn. Near a limit, the remaining turn is used for the answer instead of another
    /// plan.
    ///
    /// `evaluates` is true for an evaluation, which needs no tools and may be the last step.
    async fn turn(&mut self, scope: &Scope, evaluates: bool) -> Result<Outlook, End> {
        let outlook = self.open(scope).await?;
        let evaluable = ["", STEPS, "max_tool_calls"].contains(&outlook.wrap_up.as_str());
        if outlook.wrap_up.is_empty() || (evaluates && evaluable) {
            return Ok(outlook);
        }
        Err(self.finish(scope, outlook.wrap_up).await?)
    }

    async fn open(&mut self, scope: &Scope) -> Result<Outlook, End> {
        let outlook = scope.begin().await?;
        self.heard.extend(outlook.heard.iter().cloned());
        if outlook.stop.is_empty() {
            Ok(outlook)
        } else {
            Err(Answer::stopped(outlook.stop).into())
        }
    }

    async fn ask<'a, T: DeserializeOwned + JsonSchema>(
        &self,
        scope: &Scope,
        role: StepRole,
        rules: String,
        words: impl IntoIterator<Item = &'a str>,
        read: impl Fn(&Self, &Reply) -> Result<Parsed<Told<T>>, Unparsed>,
    ) -> Result<Result<Told<T>, Unread>, Halt> {
        let text = self.question(words);
        let history = role == StepRole::Planner;
        let question = Question {
            conversation: self.task.opening(&rules, &text, &self.heard, history),
            attempts: self.task.attempts,
            role,
            schema: Some(to_value(&schemars::schema_for!(T))),
            strict: false,
        };
        let read = ask_for(scope, question, |_| None, |reply| read(self, reply)).await?;
        Ok(read.map(|(told, _)| told))
    }

    fn question<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> String {
        let (goal, results) = (&self.task.goal, self.digest(self.task.budget() / 2));
        let mut text = format!("The goal:\n{goal}\n\nResults so far:\n{results}");
        for word in words.into_iter().filter(|word| !word.is_empty()) {
            text += "\n\n";
            text += word;
        }
        text
    }

    /// Returns the results for a prompt: older ones short, the oldest omitted.
    ///
    /// `budget` is the number of characters for complete results; half as many more are used for
    /// short ones.
    fn digest(&self, budget: usize) -> String {
        let mut lines = Vec::new();
        let mut used = 0;
        // From the newest on, because the next call depends most on recent results.
        for (left, (id, observation)) in (0..self.seen.len()).rev().zip(self.seen.iter().rev()) {
            let most = if used + SHOWN <= budget { SHOWN } else { SHORT };
            let line = self.line(id, observation, most);
            used += line.chars().count();
            if used > budget + budget / 2 {
                lines.push(format!("({} older results are not shown)", left + 1));
                break;
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return "(no results yet)".to_owned();
        }
        lines.reverse();
        lines.join("\n")
    }

    fn line(&self, id: &str, observation: &Observation, most: usize) -> String {
        let task = self.tasks.get(id);
        let (tool, description) = task.map_or(("", ""), |it| (&it.tool, &it.description));
        let mut text = render(&observation.result);
        let more = text.chars().count().saturating_sub(most);
        if more > 0 {
            text = text.chars().take(most).collect();
            text += &format!(" […{more} more characters]");
        }
        let status = observation.status.name();
        format!("[{id}] {tool} {description} [{status}]: {text}")
    }

    /// Returns the type of the next thought: only the first one after a failure is an exception.
    fn kind(&mut self, kind: ThoughtType) -> ThoughtType {
        if std::mem::take(&mut self.failed) {
            ThoughtType::Exception
        } else {
            kind
        }
    }

    /// Converts the results to the form of the answer, in the last call and the last step.
    async fn finish(&mut self, scope: &Scope, limit: String) -> Result<End, Halt> {
        let text = self.question([FINALIZER]);
        let role = StepRole::Finalizer;
        let output = match answer(scope, &self.task, &text, role, &self.heard).await? {
            Ok((output, _)) => output,
            Err(Unread { error }) => {
                let error = format!("the results could not be put into the answer's form: {error}");
                let stop = or(limit, "error");
                return Ok(Answer {
                    stop,
                    ..Answer::error(error)
                }
                .into());
            }
        };
        let kind = self.kind(ThoughtType::Synthesis);
        let thought = Thought::synthesized("The answer from the results.", kind);
        scope.act(closing(thought, &output)).await?;
        let stop = or(limit, "criteria_met");
        Ok(Answer {
            stop,
            ..Answer::new(output)
        }
        .into())
    }

    /// Returns a step of the strategy itself about the current plan.
    fn step(&mut self, name: &str, said: &str, kind: ThoughtType, result: Value) -> Act {
        let kind = self.kind(kind);
        let thought = match (said, name) {
            ("", "plan") => Thought::synthesized("Plan the next tasks.", kind),
            ("", _) => Thought::synthesized("Is the goal reached?", kind),
            (said, _) => Thought::new(said, kind),
        };
        let action = Action::new(name, self.cycle_number());
        Act::own(thought, action, Observation::auto(result, name))
    }

    fn cycle_number(&self) -> Object {
        object(json!({"cycle": self.plans.len()}))
    }

    /// Parses a plan and checks that its tools exist, its ids are new, and its tasks can be
    /// ordered.
    fn read_plan(&self, reply: &Reply) -> Result<Parsed<Told<Tasks>>, Unparsed> {
        let parsed = read_as::<Tasks>(reply)?;
        let tasks = &parsed.value.value.tasks;
        for task in tasks {
            self.check_tool(&task.tool)?;
            // A failed task may be planned again under its id, but a successful result must not
            // change.
            if self.is_good(&task.id) {
                let feedback = format!(
                    "the id {} has a result already: use new ids",
                    quoted(&task.id)
                );
                return Err(Unparsed::new("duplicate_id", feedback));
            }
        }
        self.order(tasks)
            .map_err(|tangle| Unparsed::new(tangle.kind, tangle.message))?;
        Ok(parsed)
    }

    /// Parses a retry and checks that its tool exists.
    fn read_retry(&self, reply: &Reply) -> Result<Parsed<Told<Retry>>, Unparsed> {
        let parsed = match called(reply) {
            Some(parsed) => parsed,
            None => read_as::<Retry>(reply)?,
        };
        let retry = &parsed.value.value;
        if !retry.give_up {
            self.check_tool(&retry.tool)?;
        }
        Ok(parsed)
    }

    fn check_tool(&self, name: &str) -> Result<(), Unparsed> {
        let mut names = self.task.offers.iter().map(|offer| offer.name.as_str());
        if names.clone().any(|known| known == name) {
            return Ok(());
        }
        let have = if self.task.offers.is_empty() {
            "none; leave the tasks empty".to_owned()
        } else {
            let first = names.next().unwrap_or_default().to_owned();
            names.fold(first, |have, name| format!("{have}, {name}"))
        };
        let feedback = format!("there is no tool {}; there is: {have}", quoted(name));
        Err(Unparsed::new("unknown_tool", feedback))
    }

    /// Returns the ids of the tasks in waves.
    fn order(&self, tasks: &[PlannedTask]) -> Result<Vec<Vec<String>>, Tangle> {
        let listed: HashSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        let known = |id: &str| listed.contains(id) || self.observation(id).is_some();
        let parts: Vec<(String, BTreeSet<String>)> = tasks
            .iter()
            .map(|task| (task.id.clone(), task.needs(known)))
            .collect();
        dependencies::waves(&parts, self.seen.iter().map(|(id, _)| id.as_str()))
    }

    fn observation(&self, id: &str) -> Option<&Observation> {
        let found = self.seen.iter().find(|(seen, _)| seen == id);
        found.map(|(_, observation)| observation)
    }

    fn is_good(&self, id: &str) -> bool {
        self.observation(id).is_some_and(|it| !it.status.failed())
    }

    /// Returns true if this plan repeats the last one, or alternates with another.
    fn circles(&mut self, tasks: &[PlannedTask]) -> bool {
        // Compared by calls and not by wording: the same tasks in another order are the same plan.
        let mut calls: Vec<String> = tasks
            .iter()
            .map(|task| Action::new(task.tool.as_str(), task.args.clone()).fingerprint())
            .collect();
        calls.sort();
        self.plans.push(calls.join("\n"));
        match self.plans.as_slice() {
            _ if tasks.is_empty() => false,
            [.., a, b] if a == b => true,
            [.., a, b, c, d] => a == c && b == d,
            _ => false,
        }
    }

    /// Handles a repeated plan: a hint the first time, the end the second.
    async fn flag(&mut self, scope: &Scope) -> Result<(), End> {
        self.flags += 1;
        let names: BTreeSet<&str> = self.task.offers.iter().map(|it| it.name.as_str()).collect();
        let unused: Vec<&str> = names
            .into_iter()
            .filter(|it| !self.used.contains(*it))
            .collect();
        let other = if unused.is_empty() {
            "Every tool was used.".to_owned()
        } else {
            format!("Tools not used yet: {}.", unused.join(", "))
        };
        self.hint =
            format!("This plan repeats an earlier one and was not run. Find another way. {other}");
        let note = violation("repetition", &self.hint, false);
        scope.note("violation", note).await?;
        if self.flags > 1 {
            self.open(scope).await?;
            return Err(self.finish(scope, "loop_detected".to_owned()).await?);
        }
        Ok(())
    }

    async fn execute(&mut self, scope: &Scope, plan: Tasks) -> Result<(), End> {
        self.hint.clear();
        // The plan was accepted only after its order was computed.
        let waves = self.order(&plan.tasks).unwrap_or_default();
        let listed: HashMap<String, PlannedTask> = plan
            .tasks
            .into_iter()
            .map(|task| (task.id.clone(), task))
            .collect();
        self.tasks.extend(listed.clone());
        let mut said = plan.thought;
        for wave in waves {
            self.turn(scope, false).await?;
            let tasks: Vec<&PlannedTask> = wave.iter().filter_map(|id| listed.get(id)).collect();
            self.wave(scope, &tasks, &std::mem::take(&mut said)).await?;
            for task in tasks {
                self.mend(scope, task.clone()).await?;
            }
        }
        Ok(())
    }

    /// Runs independent tasks concurrently as one batch. Calls that cannot run are observed as
    /// failures.
    async fn wave(
        &mut self,
        scope: &Scope,
        tasks: &[&PlannedTask],
        said: &str,
    ) -> Result<(), Halt> {
        let (actions, local) = tasks.iter().map(|task| self.action(task)).unzip();
        let kind = self.kind(ThoughtType::Progress);
        let thought = if said.is_empty() {
            let named = tasks.iter().map(|task| {
                if task.description.is_empty() {
                    task.id.as_str()
                } else {
                    task.description.as_str()
                }
            });
            let named: Vec<&str> = named.collect();
            Thought::synthesized(format!("Next: {}.", named.join(", ")), kind)
        } else {
            Thought::new(said, kind)
        };
        let act = Act {
            thought,
            actions,
            local,
            planned: false,
        };
        let observations = scope.act(act).await?;
        self.saw(tasks, observations);
        Ok(())
    }

    /// Returns the call with its references resolved, or the reason why it cannot be made.
    fn action(&self, task: &PlannedTask) -> (Action, Option<Observation>) {
        let why = if task.description.is_empty() {
            format!("{} of the plan", task.id)
        } else {
            task.description.clone()
        };
        let action = |parameters: Object| Action {
            rationale: why.clone(),
            id: task.id.clone(),
            ..Action::new(task.tool.as_str(), parameters)
        };
        let refused = |text: String, word: &str| {
            let observation = Observation {
                extraction: text.clone(),
                ..Observation::refused(text, word)
            };
            (action(task.args.clone()), Some(observation))
        };
        // Includes references in the arguments that `depends` does not name.
        let needs = task.needs(|id| self.observation(id).is_some());
        if let Some(failed) = needs.iter().find(|id| !self.is_good(id)) {
            let text = format!("not run: it depends on {}, which failed", quoted(failed));
            return refused(text, "skipped");
        }
        // Resolved directly before the call, so that the log contains the parameters that were
        // sent.
        match resolve_members(&task.args, self) {
            Ok(args) => {
                // A repair that may have changed the plan marks each of its calls as guessed.
                let repairs = self.guessed.get(&task.id).cloned().unwrap_or_default();
                let guessed = !repairs.is_empty();
                let action = Action {
                    repairs,
                    guessed,
                    ..action(args)
                };
                (action, None)
            }
            Err(why) => refused(format!("not run: {why}"), "unresolved"),
        }
    }

    fn saw(&mut self, tasks: &[&PlannedTask], observations: Vec<Observation>) {
        self.failed = observations.iter().any(|it| it.status.failed());
        for (task, observation) in tasks.iter().zip(observations) {
            if observation.refused.is_empty() {
                self.used.insert(task.tool.clone());
            }
            match self.seen.iter_mut().find(|(id, _)| *id == task.id) {
                Some((_, seen)) => *seen = observation,
                None => self.seen.push((task.id.clone(), observation)),
            }
        }
    }

    /// Retries a failed task in another way, within the allowed number of attempts.
    async fn mend(&mut self, scope: &Scope, mut task: PlannedTask) -> Result<(), End> {
        for _ in 0..self.options.retries {
            let problem = match self.observation(&task.id) {
                Some(observation) if is_mendable(observation) => format!(
                    "The failed task: {} {}\ntool {}, args {}\nIt failed: {}",
                    task.id,
                    task.description,
                    task.tool,
                    Value::Object(task.args.clone()),
                    render(&observation.result)
                ),
                _ => return Ok(()),
            };
            self.turn(scope, false).await?;
            let rules = executor_rules(&self.task.tool_lines());
            let read = |planning: &Self, reply: &Reply| planning.read_retry(reply);
            let role = StepRole::Executor;
            let asked = self.ask::<Retry>(scope, role, rules, [problem.as_str()], read);
            let Ok(told) = asked.await? else {
                return Ok(());
            };
            let retry = told.value;
            if retry.give_up {
                return Ok(());
            }
            task.tool = retry.tool;
            task.args = retry.args;
            self.guessed.insert(task.id.clone(), told.guessed);
            let (action, refused) = self.action(&task);
            let thought = or(retry.thought, "Try it in another way.");
            self.tasks.insert(task.id.clone(), task.clone());
            let act = Act {
                thought: Thought::new(thought, ThoughtType::Exception),
                actions: vec![action],
                local: vec![refused],
                planned: false,
            };
            let observations = scope.act(act).await?;
            self.saw(&[&task], observations);
        }
        Ok(())
    }

    async fn evaluate(&mut self, scope: &Scope) -> Result<(), End> {
        let outlook = self.turn(scope, true).await?;
        let read = |_: &Self, reply: &Reply| read_as(reply);
        let role = StepRole::Evaluator;
        let asked = self.ask::<Evaluation>(scope, role, EVALUATOR.to_owned(), [], read);
        let verdict = match asked.await? {
            Ok(told) => {
                let verdict = told.value;
                let kind = ThoughtType::Reasoning;
                let step = self.step("evaluate", &verdict.reasoning, kind, to_value(&verdict));
                scope.act(step).await?;
                verdict
            }
            Err(unread) => {
                let step = failure("evaluate", &unread.error, self.cycle_number(), None);
                scope.act(step).await?;
                self.failed = true;
                // An unreadable verdict is a rejection, because it must not accept anything.
                Evaluation {
                    feedback: "the evaluator gave no verdict".to_owned(),
                    ..Evaluation::default()
                }
            }
        };
        if verdict.achieved {
            return Err(self.finish(scope, String::new()).await?);
        }
        self.reject(&verdict)?;
        if outlook.wrap_up == STEPS {
            return Err(self.finish(scope, outlook.wrap_up).await?);
        }
        Ok(())
    }

    fn reject(&mut self, verdict: &Evaluation) -> Result<(), End> {
        self.rejected += 1;
        self.feedback = verdict.told();
        if self.rejected < self.options.rejections {
            return Ok(());
        }
        let objections = std::iter::once(&verdict.feedback).chain(&verdict.missing);
        let objections: Vec<&str> = objections.map(String::as_str).collect();
        let objections = objections.join("; ");
        let objections = objections.trim_matches([';', ' ']);
        let rejected = self.rejected;
        Err(Answer {
            error: format!("not achieved after {rejected} rejections: {objections}"),
            ..Answer::new(Value::Null)
        }
        .into())
    }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() {
        otherwise.to_owned()
    } else {
        text
    }
}

/// Returns true if another call may help: the task failed, but not by a denial or a limit.
fn is_mendable(observation: &Observation) -> bool {
    let is_final = matches!(
        observation.refused.as_str(),
        "denied" | "expired" | "limit" | "tool_limit" | "time_limit" | "unresolved" | "skipped"
    );
    let failed = matches!(
        observation.status,
        ObservationStatus::Failure | ObservationStatus::Timeout
    );
    failed && !is_final
}

fn planner_rules(tools: &str) -> String {
    format!(
        "You plan how to reach a goal with tools. You do not act: the tasks you list are carried \
         out.\n\
         Tools:\n{tools}\n\
         Reply with exactly one JSON object, nothing before or after it:\n\
         {{\"thought\": \"<why these tasks>\", \"tasks\": [{{\"id\": \"task_1\", \"description\": \
         \"<what for>\", \"tool\": \"<name>\", \"args\": {{…}}, \"depends\": [\"<ids of tasks that \
         come first>\"]}}]}}\n\
         Tasks that do not depend on each other run at the same time. Ids are never used twice.\n\
         To pass on a result write \"{{{{ task_1.output.key[0] }}}}\" as an argument: the value \
         itself is passed.\n\
         If the results so far are enough, \"tasks\" is empty."
    )
}

fn executor_rules(tools: &str) -> String {
    format!(
        "A task failed. Say how to do it otherwise, or give it up.\n\
         Tools:\n{tools}\n\
         Reply with exactly one JSON object, nothing before or after it:\n\
         {{\"thought\": \"<why it failed and what you change>\", \"tool\": \"<name>\", \"args\": \
         {{…}}, \"give_up\": <true if it cannot be done>}}\n\
         Never repeat the call unchanged."
    )
}

//! Runs a flow, which is a strategy: a coroutine of effects.
//!
//! The interpreter keeps its own copy of the state, which depends only on the results of the
//! effects, and records every change.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::content::Message;
use crate::effects::{Answer, Coroutine, Halt, Scope};
use crate::flow::actions::{ActionCall, Done, Kind};
use crate::flow::file::{END, FlowFile, Goto, MOST_VISITS, Node, Outputs, Then};
use crate::flow::template;
use crate::json::{Object, Value, json};
use crate::strategy::{Task, closing, object};
use crate::values::{Thought, ThoughtType};

const TRACE: &str = "reasoning_trace";
const ERROR_CHARS: usize = 1000;

type Visited<'s> = Pin<Box<dyn Future<Output = Result<Done, Halt>> + Send + 's>>;

/// Returns the strategy of a flow.
pub(super) fn run(file: Arc<FlowFile>, task: Task) -> Coroutine<Answer> {
    let mut state = task.data.clone();
    if !file.input.is_empty() {
        state.insert(file.input.clone(), json!(task.goal));
    }
    let mut run = Run {
        file: Arc::clone(&file),
        task,
        state,
        extra: Object::new(),
        heard: Vec::new(),
        last: Value::Null,
    };
    Coroutine::new(|scope| async move {
        match run.story(&scope).await {
            Ok(answer) => answer,
            Err(halt) => halt.into(),
        }
    })
}

struct Run {
    file: Arc<FlowFile>,
    task: Task,
    state: Object,
    extra: Object,
    heard: Vec<Message>,
    last: Value,
}

impl Run {
    async fn story(&mut self, scope: &Scope) -> Result<Answer, Halt> {
        let file = Arc::clone(&self.file);
        let ended = self.sequence(scope, &file.nodes).await?;
        if !ended.good() {
            let stop = if ended.stop.is_empty() {
                "error".to_owned()
            } else {
                ended.stop
            };
            return Ok(Answer {
                output: ended.value,
                stop,
                error: ended.error,
            });
        }
        let output = match &file.result {
            None => self.last.clone(),
            Some(result) => match template::render(result, &self.variables()) {
                Ok(output) => output,
                Err(error) => return Ok(Answer::error(format!("result: {error}"))),
            },
        };
        let thought = Thought::synthesized("The flow is at its end.", ThoughtType::Synthesis);
        scope.act(closing(thought, &output)).await?;
        Ok(Answer::new(output))
    }

    /// Returns the variables of templates and conditions.
    fn variables(&self) -> Object {
        let mut variables = object(json!({
            "state": self.state,
            "variables": self.file.variables,
            "goal": self.task.goal,
        }));
        variables.extend(self.extra.clone());
        variables
    }

    /// Runs the nodes in the order of their edges.
    fn sequence<'s>(&'s mut self, scope: &'s Scope, nodes: &'s [Node]) -> Visited<'s> {
        Box::pin(async move {
            let mut visits: HashMap<&str, usize> = HashMap::new();
            let mut position = 0;
            while let Some(node) = nodes.get(position) {
                let count = visits.entry(node.name.as_str()).or_default();
                *count += 1;
                // `goto` can create a loop without its own bound.
                if *count > MOST_VISITS {
                    let name = &node.name;
                    return Ok(Done::error(format!(
                        "node {name:?} was reached more than {MOST_VISITS} times"
                    )));
                }
                let (done, to) = self.visit(scope, node).await?;
                if !done.good() {
                    return Ok(done);
                }
                if END.contains(&to.as_str()) {
                    break;
                }
                let target = nodes
                    .iter()
                    .position(|other| !to.is_empty() && other.name == to);
                position = target.unwrap_or(position + 1);
            }
            Ok(Done::value(self.last.clone()))
        })
    }

    /// Runs one node and applies its `on_error`. Returns the next target.
    async fn visit(&mut self, scope: &Scope, node: &Node) -> Result<(Done, String), Halt> {
        let outlook = scope.begin().await?;
        self.heard.extend(outlook.heard);
        if !outlook.stop.is_empty() {
            return Ok((Done::stopped(outlook.stop), String::new()));
        }
        let mut done = self.work(scope, node).await?;
        if !done.error.is_empty() {
            let data = json!({"node": node.name, "error": clipped(&done.error)});
            scope.note("attempt_failed", object(data)).await?;
        }
        if !done.stop.is_empty() {
            let own = self.own_variables(&done);
            self.put(scope, own).await?;
            return Ok((done, String::new()));
        }
        if done.good() {
            match self.pass(scope, node, &done).await? {
                Ok(to) => return Ok((done, to)),
                Err(fault) => done.error = fault,
            }
        }
        self.fail(scope, node, done).await
    }

    async fn work(&mut self, scope: &Scope, node: &Node) -> Result<Done, Halt> {
        if let Some(kind) = Kind::named(&node.uses) {
            let mut task = self.task.clone();
            task.history.extend(self.heard.iter().cloned());
            task.data = self.state.clone();
            let call = ActionCall {
                node: &node.name,
                uses: &node.uses,
                description: &node.description,
                with: &node.with,
                task,
                variables: self.variables(),
                settings: self.file.settings.asks(),
            };
            let done = kind.run(scope, &call).await?;
            // The action has already passed the user's messages to its model.
            self.heard.clear();
            return Ok(done);
        }
        if let Some(sets) = &node.set {
            let rendered = template::render_object(sets, &self.variables());
            return Ok(match rendered {
                Ok(values) => Done::value(Value::Object(values)),
                Err(error) => Done::error(error),
            });
        }
        match &node.repeat {
            Some(repeat) => {
                let outer = self.extra.clone();
                let done = self
                    .repeat(scope, node, &repeat.condition, repeat.max_iterations)
                    .await;
                self.extra = outer;
                done
            }
            None => self.sequence(scope, &node.steps).await,
        }
    }

    async fn repeat(
        &mut self,
        scope: &Scope,
        node: &Node,
        condition: &str,
        most: usize,
    ) -> Result<Done, Halt> {
        for turn in 0..=most {
            self.extra.insert("iteration".to_owned(), json!(turn));
            match template::holds(condition, &self.variables()) {
                Ok(true) => {}
                Ok(false) => {
                    return Ok(Done::value(json!({"iterations": turn, "exhausted": false})));
                }
                Err(error) => return Ok(Done::error(format!("while: {error}"))),
            }
            if turn == most {
                break;
            }
            self.extra.insert("iteration".to_owned(), json!(turn + 1));
            let done = self.sequence(scope, &node.steps).await?;
            if !done.good() {
                return Ok(done);
            }
        }
        let data = json!({"node": node.name, "iterations": most});
        scope.note("loop_limit", object(data)).await?;
        Ok(Done::value(json!({"iterations": most, "exhausted": true})))
    }

    /// Records the node's value. Returns the next target, or the reason why the flow cannot
    /// continue.
    async fn pass(
        &mut self,
        scope: &Scope,
        node: &Node,
        done: &Done,
    ) -> Result<Result<String, String>, Halt> {
        let mut update = self.own_variables(done);
        match outputs(node, &done.value) {
            Ok(values) => update.extend(values),
            Err(fault) => {
                self.put(scope, update).await?;
                return Ok(Err(fault));
            }
        }
        self.put(scope, update).await?;
        if node.steps.is_empty() {
            self.last = done.value.clone();
        }
        // A node that succeeds again has no error any more, because `goto` conditions read the
        // errors.
        if let Some(Value::Object(errors)) = self.state.get("errors")
            && errors.contains_key(&node.name)
        {
            let mut rest = errors.clone();
            rest.shift_remove(&node.name);
            self.put(scope, object(json!({"errors": rest}))).await?;
        }
        let edges = match &node.goto {
            Goto::Always(to) => return Ok(Ok(to.clone())),
            Goto::Edges(edges) => edges,
        };
        let variables = self.variables();
        let mut to = "";
        for edge in edges {
            let taken = edge.condition.is_empty()
                || match template::holds(&edge.condition, &variables) {
                    Ok(holds) => holds,
                    Err(error) => return Ok(Err(format!("goto: {error}"))),
                };
            if taken {
                to = &edge.to;
                break;
            }
        }
        if edges.iter().any(|edge| !edge.condition.is_empty()) {
            let data = json!({"node": node.name, "to": to});
            scope.note("branch", object(data)).await?;
        }
        Ok(Ok(to.to_owned()))
    }

    async fn fail(
        &mut self,
        scope: &Scope,
        node: &Node,
        done: Done,
    ) -> Result<(Done, String), Halt> {
        let data = json!({"node": node.name, "error": clipped(&done.error)});
        scope.note("node_failed", object(data)).await?;
        let rule = &node.on_error;
        let tolerated = !rule.fallback.is_empty() || rule.then == Then::Continue;
        let mut update = self.own_variables(&done);
        if tolerated && let Ok(values) = outputs(node, &done.value) {
            update.extend(values);
        }
        self.put(scope, update).await?;
        let mut errors = match self.state.get("errors") {
            Some(Value::Object(errors)) => errors.clone(),
            _ => Object::new(),
        };
        errors.insert(node.name.clone(), json!(done.error));
        self.put(scope, object(json!({"errors": errors}))).await?;
        if tolerated {
            return Ok((Done::value(done.value), rule.fallback.clone()));
        }
        let error = format!("node '{}': {}", node.name, done.error);
        Ok((Done { error, ..done }, String::new()))
    }

    /// Returns the variables that an action sets in addition to its output.
    fn own_variables(&self, done: &Done) -> Object {
        let kept = |name: &str| self.file.settings.tracing || name != TRACE;
        let variables = done.state.iter().filter(|(name, _)| kept(name));
        variables
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    async fn put(&mut self, scope: &Scope, update: Object) -> Result<(), Halt> {
        if update.is_empty() {
            return Ok(());
        }
        self.state.extend(update.clone());
        scope.note("state", update).await
    }
}

fn clipped(error: &str) -> String {
    error.chars().take(ERROR_CHARS).collect()
}

/// Returns the variables that a node's value sets.
fn outputs(node: &Node, value: &Value) -> Result<Object, String> {
    if node.set.is_some() {
        return Ok(object(value.clone()));
    }
    match &node.output {
        Outputs::Name(name) => {
            // Nested lists have no value of their own.
            let plain = !node.uses.is_empty() || node.repeat.is_some();
            let name = if name.is_empty() && plain {
                &node.name
            } else {
                name
            };
            let named = (!name.is_empty()).then(|| (name.clone(), value.clone()));
            Ok(named.into_iter().collect())
        }
        Outputs::Paths(paths) => paths
            .iter()
            .map(|(name, path)| Ok((name.clone(), at(value, path)?)))
            .collect(),
    }
}

/// Returns the part of a value at the dotted `path`; `.` is the whole value.
fn at(value: &Value, path: &str) -> Result<Value, String> {
    if path == "." {
        return Ok(value.clone());
    }
    let mut here = value;
    for part in path.split('.') {
        let next = match here {
            Value::Object(members) => members.get(part),
            Value::Array(entries) => part
                .parse::<usize>()
                .ok()
                .and_then(|place| entries.get(place)),
            _ => None,
        };
        here = next.ok_or_else(|| format!("output: the value has no {path:?} (at {part:?})"))?;
    }
    Ok(here.clone())
}

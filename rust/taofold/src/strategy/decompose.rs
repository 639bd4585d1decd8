//! Decomposition: split a problem, solve the parts, combine the answers.
//!
//! Parts without unsolved dependencies are solved concurrently, each in its own branch. A complex
//! part is split again, down to `max_depth`. A part that fails is marked as failed for all parts
//! that need its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::content::Message;
use crate::effects::{Act, Answer, Coroutine, Halt, Outlook, Scope};
use crate::json::{Value, json, render};
use crate::parsing::{Unparsed, read_object};
use crate::strategy::cot::{Cot, form, read_reasoned, schema_of, thinking_of};
use crate::strategy::nested::{Solved, Unchanged, closing, forward, named_step};
use crate::strategy::question::{Parsed, Question, ask_for, object};
use crate::strategy::{Output, Prompt, Strategy, Task, waves};
use crate::values::{Action, Observation, Reply, StepRole, Thought, ThoughtType};

/// A strategy that splits, solves and synthesizes.
#[derive(Debug, Clone)]
pub struct Decompose {
    /// The strategy that solves a part.
    pub inner: Arc<dyn Strategy>,
    /// The maximum depth of further splits. 0 solves the problem directly, 1 splits once.
    pub max_depth: u64,
    /// The maximum number of parts of one problem.
    pub max_parts: usize,
    /// True if independent parts are solved concurrently.
    pub parallel: bool,
    /// The instructions for combining the answers.
    pub synthesis_prompt: Prompt,
}

impl Default for Decompose {
    fn default() -> Self {
        Self {
            inner: Arc::new(Cot::default()),
            max_depth: 2,
            max_parts: 8,
            parallel: true,
            synthesis_prompt: Prompt::Default,
        }
    }
}

impl Decompose {
    fn question(&self, goal: &str, answers: &[Value]) -> Result<String, Halt> {
        let failed: Vec<String> = answers
            .iter()
            .filter_map(|part| {
                Some(format!(
                    "- {}: {}",
                    text(part, "id"),
                    part.get("error")?.as_str()?
                ))
            })
            .collect();
        let mut question = match &self.synthesis_prompt {
            Prompt::Render(render) => {
                let answers = Value::Array(answers.to_vec());
                let rendered = render(&answers).map_err(Halt::failed)?;
                format!("The problem:\n{goal}\n\n{rendered}")
            }
            prompt => {
                let how = match prompt {
                    Prompt::Text(text) if !text.trim().is_empty() => text.trim(),
                    _ => {
                        "Put the answers of the parts together into one answer to the whole problem."
                    }
                };
                let solved: Vec<String> = answers
                    .iter()
                    .filter(|part| part.get("error").is_none())
                    .map(|part| {
                        let answer = part.get("answer").map(render).unwrap_or_default();
                        format!(
                            "[{}] {}\n{answer}",
                            text(part, "id"),
                            text(part, "description")
                        )
                    })
                    .collect();
                format!("The problem:\n{goal}\n\n{how}\n\n{}", solved.join("\n\n"))
            }
        };
        if !failed.is_empty() {
            question += "\n\nThese parts could not be solved; say so where it matters:\n";
            question += &failed.join("\n");
        }
        Ok(question)
    }
}

fn text<'a>(part: &'a Value, name: &str) -> &'a str {
    part.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Strategy for Decompose {
    fn name(&self) -> &'static str {
        "decompose"
    }

    fn run(&self, task: Task) -> Coroutine<Answer> {
        splitting(self.clone(), task, 1, String::new())
    }
}

/// The same strategy one level down.
#[derive(Debug, Clone)]
struct Nested {
    options: Decompose,
    level: u64,
    path: String,
}

impl Strategy for Nested {
    fn name(&self) -> &'static str {
        "decompose"
    }

    fn run(&self, task: Task) -> Coroutine<Answer> {
        splitting(self.options.clone(), task, self.level, self.path.clone())
    }
}

fn splitting(options: Decompose, task: Task, level: u64, path: String) -> Coroutine<Answer> {
    let mut splitting = Splitting {
        options,
        task,
        level,
        path,
        heard: Vec::new(),
        parts: Vec::new(),
        solved: Vec::new(),
    };
    Coroutine::new(|scope| async move {
        match splitting.story(&scope).await {
            Ok(answer) => answer,
            // Each level handles its own halt, so that the level above may still synthesize.
            Err(halt) if !halt.error.is_empty() => halt.into(),
            Err(halt) => Answer {
                output: splitting.partial(),
                ..halt.into()
            },
        }
    })
}

#[derive(Debug, Clone, Deserialize)]
struct Part {
    id: String,
    description: String,
    #[serde(default)]
    dependencies: Vec<String>,
    /// `None` if unspecified; then the model decides again while `max_depth` allows.
    #[serde(default)]
    complex: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
struct Split {
    #[serde(default)]
    reasoning: String,
    sub_problems: Vec<Part>,
}

fn read_split(reply: &Reply, most: usize) -> Result<Parsed<Split>, Unparsed> {
    let (object, repairs) = read_object(&reply.text(), &reply.finish)?;
    let value: Split = serde_json::from_value(Value::Object(object))
        .map_err(|error| Unparsed::new("invalid", error.to_string()))?;
    if value.sub_problems.len() > most {
        let feedback = format!("use at most {most} parts");
        return Err(Unparsed::new("too_many_parts", feedback));
    }
    order(&value.sub_problems).map_err(|tangle| Unparsed::new(tangle.kind, tangle.message))?;
    Ok(Parsed { value, repairs })
}

fn order(parts: &[Part]) -> Result<Vec<Vec<String>>, crate::strategy::Tangle> {
    let named: Vec<(String, BTreeSet<String>)> = parts
        .iter()
        .map(|part| (part.id.clone(), part.dependencies.iter().cloned().collect()))
        .collect();
    waves(&named, [])
}

fn split_schema() -> Value {
    json!({
        "type": "object",
        "title": "Split",
        "properties": {
            "reasoning": {"type": "string"},
            "sub_problems": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "description": {"type": "string"},
                    "dependencies": {"type": "array", "items": {"type": "string"}},
                    "complex": {"type": ["boolean", "null"]},
                },
                "required": ["id", "description"],
            }},
        },
        "required": ["sub_problems"],
    })
}

/// One problem at one level: level 1 is the whole problem, and `path` holds the ids leading here.
struct Splitting {
    options: Decompose,
    task: Task,
    level: u64,
    path: String,
    heard: Vec<Message>,
    parts: Vec<Part>,
    /// The answers in the order in which the parts were solved.
    solved: Vec<(String, Solved)>,
}

impl Splitting {
    async fn story(&mut self, scope: &Scope) -> Result<Answer, Halt> {
        if self.level > self.options.max_depth {
            return self.direct(scope).await;
        }
        let outlook = self.turn(scope).await?;
        if !outlook.stop.is_empty() {
            return Ok(Answer::stopped(outlook.stop));
        }
        // With one turn left, an answer is better than a plan.
        if !outlook.wrap_up.is_empty() {
            return self.direct(scope).await;
        }
        let most = self.options.max_parts;
        let question = Question {
            conversation: self
                .task
                .opening(&rules(most), &self.task.goal, &self.heard, true),
            attempts: self.task.attempts,
            role: StepRole::Planner,
            schema: Some(split_schema()),
            strict: false,
        };
        let split =
            match ask_for(scope, question, |_| None, |reply| read_split(reply, most)).await? {
                Ok((split, _)) => split,
                Err(unread) => return Ok(unread.into()),
            };
        scope.act(self.step(&split)).await?;
        self.parts = split.sub_problems;
        if self.parts.is_empty() {
            return self.direct(scope).await;
        }
        // The split was accepted only after its order was computed.
        for wave in order(&self.parts).unwrap_or_default() {
            self.solve(scope, &wave).await?;
        }
        self.synthesize(scope).await
    }

    async fn turn(&mut self, scope: &Scope) -> Result<Outlook, Halt> {
        let outlook = scope.begin().await?;
        self.heard.extend(outlook.heard.iter().cloned());
        Ok(outlook)
    }

    fn step(&self, split: &Split) -> Act {
        let thought = if split.reasoning.is_empty() {
            Thought::synthesized("Split the problem into parts.", ThoughtType::Goal)
        } else {
            Thought::new(split.reasoning.as_str(), ThoughtType::Goal)
        };
        let parts: Vec<Value> = split
            .sub_problems
            .iter()
            .map(|part| {
                json!({
                    "id": part.id,
                    "description": part.description,
                    "dependencies": part.dependencies,
                    "complex": part.complex,
                })
            })
            .collect();
        let ids: Vec<&str> = split
            .sub_problems
            .iter()
            .map(|part| part.id.as_str())
            .collect();
        let line = format!("{} parts: {}", ids.len(), ids.join(", "));
        let line: String = line.chars().take(200).collect();
        let parameters = object(json!({"level": self.level, "path": self.path}));
        let action = Action::new("decompose", parameters);
        Act::own(thought, action, Observation::auto(parts.into(), line))
    }

    /// Solves parts that do not depend on each other.
    async fn solve(&mut self, scope: &Scope, wave: &[String]) -> Result<(), Halt> {
        let ready: Vec<Part> = self
            .parts
            .iter()
            .filter(|part| wave.contains(&part.id))
            .cloned()
            .collect();
        let at_once = if self.options.parallel {
            ready.len().max(1)
        } else {
            1
        };
        for some in ready.chunks(at_once) {
            // Even for a single part, so that its effects have keys of their own.
            let branches = some.iter().map(|part| self.branch(part)).collect();
            let outcomes = scope.fork(branches).await?;
            for (part, outcome) in some.iter().zip(outcomes) {
                // User messages inside a branch must reach the parts that are solved later.
                self.heard.extend(outcome.heard.iter().cloned());
                self.solved.push((part.id.clone(), outcome));
            }
        }
        Ok(())
    }

    fn branch(&self, part: &Part) -> Coroutine<Solved> {
        let mut goal = format!(
            "This is one part of a larger problem:\n{}\n\nSolve only this part:\n{}",
            self.task.goal, part.description
        );
        let mut before: Vec<&String> = Vec::new();
        for id in &part.dependencies {
            if !before.contains(&id) {
                before.push(id);
            }
        }
        if !before.is_empty() {
            let known: Vec<String> = before.iter().map(|id| self.answer_text(id)).collect();
            goal += "\n\nWhat is known from other parts:\n";
            goal += &known.join("\n");
        }
        let mut task = self.task.clone();
        task.goal = goal;
        // A part answers in text; only the whole problem has the task's type.
        task.output = Output::text();
        task.history.extend(self.heard.iter().cloned());
        let path = if self.path.is_empty() {
            part.id.clone()
        } else {
            format!("{}/{}", self.path, part.id)
        };
        let inner: Arc<dyn Strategy> = if part.complex == Some(false) {
            Arc::clone(&self.options.inner)
        } else {
            Arc::new(Nested {
                options: self.options.clone(),
                level: self.level + 1,
                path: path.clone(),
            })
        };
        let parameters = object(json!({"id": part.id, "path": path, "level": self.level}));
        named_step(inner, task, "solve", parameters)
    }

    fn answer_text(&self, id: &str) -> String {
        match self.solved.iter().find(|(solved, _)| solved == id) {
            Some((_, outcome)) if outcome.usable() => {
                format!("- {id}: {}", render(&outcome.answer.output))
            }
            Some((_, outcome)) => format!("- {id}: (could not be solved: {})", outcome.error()),
            None => format!("- {id}: (not reached)"),
        }
    }

    /// Returns the parts with their answers or errors, in listed order.
    fn answers(&self) -> Vec<Value> {
        let solved: BTreeMap<&str, &Solved> = self
            .solved
            .iter()
            .map(|(id, outcome)| (id.as_str(), outcome))
            .collect();
        self.parts
            .iter()
            .map(|part| match solved.get(part.id.as_str()) {
                Some(outcome) if outcome.usable() => json!({
                    "id": part.id,
                    "description": part.description,
                    "answer": outcome.answer.output,
                }),
                outcome => json!({
                    "id": part.id,
                    "description": part.description,
                    "answer": null,
                    "error": outcome.map_or_else(|| "not reached".to_owned(), |it| it.error()),
                }),
            })
            .collect()
    }

    async fn synthesize(&mut self, scope: &Scope) -> Result<Answer, Halt> {
        let answers = self.answers();
        let outlook = self.turn(scope).await?;
        if !outlook.stop.is_empty() {
            return Ok(Answer {
                output: self.partial(),
                ..Answer::stopped(outlook.stop)
            });
        }
        let failed: Vec<&Value> = answers
            .iter()
            .filter(|part| part.get("error").is_some())
            .collect();
        // Without any answer, the model would invent one.
        if failed.len() == answers.len() {
            let errors: Vec<String> = failed
                .iter()
                .map(|part| format!("{}: {}", text(part, "id"), text(part, "error")))
                .collect();
            let error = format!("no part could be solved: {}", errors.join("; "));
            return Ok(Answer::error(error.chars().take(1000).collect::<String>()));
        }
        let question = self.options.question(&self.task.goal, &answers)?;
        let question = Question {
            // The parts contain the relevant messages of the session.
            conversation: self.task.opening(
                &form(&self.task.output),
                &question,
                &self.heard,
                false,
            ),
            attempts: self.task.attempts,
            role: StepRole::Finalizer,
            schema: Some(schema_of(&self.task.output)),
            strict: self.task.strict,
        };
        let task = &self.task;
        let read = ask_for(scope, question, thinking_of, |reply| {
            read_reasoned(task, reply)
        })
        .await?;
        let reasoned = match read {
            Ok((reasoned, _)) => reasoned,
            Err(unread) => {
                return Ok(Answer {
                    output: self.partial(),
                    ..unread.into()
                });
            }
        };
        let ids: Vec<&str> = failed.iter().map(|part| text(part, "id")).collect();
        let parameters = object(json!({"path": self.path, "failed": ids}));
        let output = reasoned.answer.clone();
        let observation = Observation::auto(output.clone(), "answers put together");
        let thought = reasoned.thought(ThoughtType::Synthesis);
        scope
            .act(Act::own(
                thought,
                Action::new("synthesize", parameters),
                observation,
            ))
            .await?;
        let thought = Thought::synthesized("The parts are put together.", ThoughtType::Synthesis);
        scope.act(closing(thought, &output)).await?;
        let limit = self.solved.iter().find_map(|(_, outcome)| outcome.limit());
        Ok(match limit {
            None => Answer::new(output),
            Some(limit) => Answer {
                output,
                ..Answer::stopped(limit)
            },
        })
    }

    /// Solves without splitting.
    async fn direct(&self, scope: &Scope) -> Result<Answer, Halt> {
        let mut task = self.task.clone();
        task.history.extend(self.heard.iter().cloned());
        let inner = self.options.inner.run(task);
        let forwarded = forward(scope, inner, &mut Unchanged).await;
        Ok(forwarded.result.unwrap_or_else(Answer::error))
    }

    /// Returns the result without a synthesis: for a text answer, the answers of the parts.
    fn partial(&self) -> Value {
        if !self.task.output.is_text() {
            return Value::Null;
        }
        let lines: Vec<String> = self
            .solved
            .iter()
            .filter(|(_, outcome)| outcome.usable())
            .map(|(id, _)| self.answer_text(id))
            .collect();
        if lines.is_empty() {
            Value::Null
        } else {
            Value::String(lines.join("\n"))
        }
    }
}

fn rules(most: usize) -> String {
    format!(
        "Split the problem into at most {most} parts that can be solved one by one and together \
         solve it.\n\
         Reply with exactly one JSON object, nothing before or after it:\n\
         {{\"reasoning\": \"<why these parts>\", \"sub_problems\": [{{\"id\": \"<short name>\", \
         \"description\": \"<the part, understandable by itself>\", \"dependencies\": [\"<ids of \
         parts whose answers it needs>\"], \"complex\": <true if it should be split again>}}]}}\n\
         If the problem is simple enough to be solved at once, \"sub_problems\" is empty."
    )
}

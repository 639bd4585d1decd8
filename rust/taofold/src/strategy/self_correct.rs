//! Self-correction: draft, let a critic judge, revise, return the best (Madaan et al., 2023).
//!
//! The critic only judges. The answer is the version with the highest score, and the earlier one of
//! equal scores, so that a revision never makes the result worse.

use std::sync::Arc;

use serde::Deserialize;

use crate::content::Message;
use crate::effects::{Act, Answer, Coroutine, Halt, Scope};
use crate::json::{Object, Value, json, render};
use crate::parsing::{Unparsed, read_object};
use crate::strategy::nested::{Solved, alone, closing, failure};
use crate::strategy::question::{Parsed, Question, ask_for, object};
use crate::strategy::{Direct, Prompt, Strategy, Task};
use crate::values::{Action, Observation, Reply, StepRole, Thought, ThoughtType};

const RULES: &str = "\
You are a critic. You judge a version of an answer to a task; you never rewrite it.
Reply with exactly one JSON object, nothing before or after it:
{\"reasoning\": \"<how you judged>\", \"score\": <0 to 1>, \"issues\": [\"<what is wrong>\", …], \
\"suggestions\": [\"<what would make it better>\", …]}
1 means that nothing can be improved. If nothing is wrong, \"issues\" is empty.";

/// A strategy that drafts and improves in up to `rounds` rounds.
#[derive(Debug, Clone)]
pub struct SelfCorrect {
    /// The strategy that drafts and revises.
    pub inner: Arc<dyn Strategy>,
    /// The maximum number of revisions.
    pub rounds: u64,
    /// The criteria of the critic.
    pub critic_prompt: Prompt,
}

impl Default for SelfCorrect {
    fn default() -> Self {
        Self {
            inner: Arc::new(Direct::default()),
            rounds: 2,
            critic_prompt: Prompt::Default,
        }
    }
}

impl SelfCorrect {
    fn question(&self, goal: &str, output: &Value) -> Result<String, Halt> {
        let head = format!("The task was:\n{goal}");
        Ok(match &self.critic_prompt {
            Prompt::Render(render) => {
                let rendered = render(output).map_err(Halt::failed)?;
                format!("{head}\n\n{rendered}")
            }
            Prompt::Text(text) if !text.trim().is_empty() => {
                let looks = text.trim();
                let version = render(output);
                format!("{head}\n\n{looks}\n\nThe version to judge:\n{version}")
            }
            _ => format!("{head}\n\nThe version to judge:\n{}", render(output)),
        })
    }
}

impl Strategy for SelfCorrect {
    fn name(&self) -> &'static str {
        "self_correct"
    }

    fn run(&self, task: Task) -> Coroutine<Answer> {
        let mut correction = Correction {
            options: self.clone(),
            task,
            versions: Vec::new(),
            heard: Vec::new(),
            done: 0,
            why: String::new(),
            unjudged: String::new(),
            failed: false,
        };
        Coroutine::new(|scope| async move {
            match correction.story(&scope).await {
                Ok(answer) => answer,
                Err(halt) if !halt.error.is_empty() => halt.into(),
                Err(halt) => Answer {
                    output: correction
                        .best()
                        .map_or(Value::Null, |it| it.output.clone()),
                    ..halt.into()
                },
            }
        })
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Critique {
    #[serde(default)]
    reasoning: String,
    score: f64,
    #[serde(default)]
    issues: Vec<String>,
    #[serde(default)]
    suggestions: Vec<String>,
}

fn read_critique(reply: &Reply) -> Result<Parsed<Critique>, Unparsed> {
    let (object, repairs) = read_object(&reply.text(), &reply.finish)?;
    let value: Critique = serde_json::from_value(Value::Object(object))
        .map_err(|error| Unparsed::new("invalid", error.to_string()))?;
    if !(0.0..=1.0).contains(&value.score) {
        return Err(Unparsed::new("invalid", "\"score\" must be from 0 to 1"));
    }
    Ok(Parsed { value, repairs })
}

fn schema() -> Value {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "title": "Verdict",
        "properties": {
            "reasoning": {"type": "string"},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "issues": texts,
            "suggestions": texts,
        },
        "required": ["score"],
    })
}

/// One version of the answer; 0 is the draft.
#[derive(Debug, Clone)]
struct Version {
    number: u64,
    output: Value,
    verdict: Option<Critique>,
}

/// The state of one run.
struct Correction {
    options: SelfCorrect,
    task: Task,
    versions: Vec<Version>,
    heard: Vec<Message>,
    done: u64,
    why: String,
    /// The newest round without a verdict, with the reason.
    unjudged: String,
    failed: bool,
}

impl Correction {
    /// Returns the best version: judged before unjudged, then by score, then the earlier one.
    fn best(&self) -> Option<&Version> {
        let score = |version: &Version| version.verdict.as_ref().map_or(-1.0, |it| it.score);
        self.versions.iter().reduce(|best, version| {
            if score(version) > score(best) {
                version
            } else {
                best
            }
        })
    }

    async fn story(&mut self, scope: &Scope) -> Result<Answer, Halt> {
        let goal = self.task.goal.clone();
        let drafted = self.make(scope, "draft", goal, 0).await?;
        if !drafted.usable() {
            return Ok(drafted.answer);
        }
        let limit = drafted.limit().unwrap_or_default().to_owned();
        self.versions.push(Version {
            number: 0,
            output: drafted.answer.output,
            verdict: None,
        });
        if !limit.is_empty() {
            return self.end(scope, limit).await;
        }
        let mut limit = String::new();
        for number in 1..=self.options.rounds {
            limit = self.round(scope, number).await?;
            if !limit.is_empty() || !self.why.is_empty() {
                return self.end(scope, limit).await;
            }
        }
        // All rounds were used, and the last revision has not been judged yet.
        if self.done > 0 {
            limit = self.judge(scope, self.options.rounds).await?;
        }
        self.why = format!(
            "{} rounds were allowed{}",
            self.options.rounds, self.unjudged
        );
        self.end(scope, limit).await
    }

    /// Judges the newest version and revises it. Returns the limit that ends the run.
    async fn round(&mut self, scope: &Scope, number: u64) -> Result<String, Halt> {
        let limit = self.judge(scope, number).await?;
        let latest = self.versions.last().cloned();
        // The critic's reply was not readable, and a revision without criticism would be a guess.
        let Some((latest, verdict)) =
            latest.and_then(|it| it.verdict.clone().map(|verdict| (it, verdict)))
        else {
            return Ok(limit);
        };
        if !limit.is_empty() {
            return Ok(limit);
        }
        if verdict.issues.is_empty() || verdict.score >= 1.0 {
            "the critic found nothing to improve".clone_into(&mut self.why);
            return Ok(String::new());
        }
        let request = self.request(&latest, &verdict);
        let revised = self.make(scope, "revise", request, number).await?;
        let limit = revised.limit().unwrap_or_default().to_owned();
        if !revised.usable() {
            return Ok(limit);
        }
        self.done += 1;
        let output = revised.answer.output;
        let unchanged = output == latest.output;
        if unchanged {
            "the revision changed nothing".clone_into(&mut self.why);
        }
        self.versions.push(Version {
            number: latest.number + 1,
            output,
            // The same text has the same verdict, so another call would only cost money.
            verdict: unchanged.then_some(verdict),
        });
        Ok(limit)
    }

    /// Runs the inner strategy to write a version.
    async fn make(
        &mut self,
        scope: &Scope,
        name: &str,
        goal: String,
        number: u64,
    ) -> Result<Solved, Halt> {
        let mut task = self.task.clone();
        task.goal = goal;
        task.history.extend(self.heard.iter().cloned());
        let parameters = object(json!({"round": number}));
        let inner = Arc::clone(&self.options.inner);
        let solved = alone(scope, inner, task, name, parameters).await?;
        self.heard.extend(solved.heard.iter().cloned());
        Ok(solved)
    }

    fn request(&self, version: &Version, verdict: &Critique) -> String {
        let list = |lines: &[String]| {
            let lines: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
            lines.join("\n")
        };
        let suggested = if verdict.suggestions.is_empty() {
            String::new()
        } else {
            format!("\nSuggestions:\n{}", list(&verdict.suggestions))
        };
        format!(
            "{}\n\nYour previous version:\n{}\n\nA critic found:\n{}{suggested}\n\n\
             Write the improved version, complete.",
            self.task.goal,
            render(&version.output),
            list(&verdict.issues),
        )
    }

    /// Asks the critic about the newest version, once. Returns the limit that forbids it.
    async fn judge(&mut self, scope: &Scope, round: u64) -> Result<String, Halt> {
        let Some(version) = self.versions.last().cloned() else {
            return Ok(String::new());
        };
        if version.verdict.is_some() {
            return Ok(String::new());
        }
        let outlook = scope.begin().await?;
        self.heard.extend(outlook.heard);
        // Also in the last turn: if the critic accepts the version, no further one is needed.
        if !outlook.stop.is_empty() {
            return Ok(outlook.stop);
        }
        let text = self.options.question(&self.task.goal, &version.output)?;
        let question = Question {
            conversation: self.task.opening(RULES, &text, &self.heard, false),
            attempts: self.task.attempts,
            role: StepRole::Critic,
            schema: Some(schema()),
            strict: false,
        };
        let mut parameters = object(json!({"version": version.number}));
        match ask_for(scope, question, |_| None, read_critique).await? {
            Err(unread) => {
                let content = format!(
                    "The critic gave no usable verdict on version {}",
                    version.number
                );
                parameters.insert("round".to_owned(), json!(round));
                self.unjudged = format!(
                    "; in round {round} the critic gave no usable verdict: {}",
                    unread.error
                );
                let act = failure("critique", &unread.error, parameters, Some(content));
                scope.act(act).await?;
                self.failed = true;
            }
            Ok((verdict, _)) => {
                let act = self.critique(&verdict, parameters, version.number);
                if let Some(version) = self.versions.last_mut() {
                    version.verdict = Some(verdict);
                }
                scope.act(act).await?;
            }
        }
        Ok(String::new())
    }

    fn critique(&mut self, verdict: &Critique, parameters: Object, number: u64) -> Act {
        let kind = self.kind(ThoughtType::Reasoning);
        let thought = if verdict.reasoning.is_empty() {
            Thought::synthesized(format!("Judge version {number}."), kind)
        } else {
            Thought::new(verdict.reasoning.as_str(), kind)
        };
        let judgement = json!({
            "score": verdict.score,
            "issues": verdict.issues,
            "suggestions": verdict.suggestions,
        });
        let line = format!("score {}, {} issues", verdict.score, verdict.issues.len());
        let action = Action::new("critique", parameters);
        Act::own(thought, action, Observation::auto(judgement, line))
    }

    /// Returns the type of the next thought: an exception after a failure.
    fn kind(&mut self, kind: ThoughtType) -> ThoughtType {
        if std::mem::take(&mut self.failed) {
            ThoughtType::Exception
        } else {
            kind
        }
    }

    async fn end(&mut self, scope: &Scope, limit: String) -> Result<Answer, Halt> {
        let Some(best) = self.best().cloned() else {
            return Ok(Answer::stopped(limit));
        };
        let why = if limit.is_empty() {
            self.why.clone()
        } else {
            limit.clone()
        };
        let score = best
            .verdict
            .map_or_else(|| "unjudged".to_owned(), |it| format!("score {}", it.score));
        let data = json!({"rounds_completed": self.done, "best": best.number, "stopped": why});
        scope.note("corrected", object(data)).await?;
        let content = format!("Version {} is the best ({score}): {why}.", best.number);
        let thought = Thought::synthesized(content, self.kind(ThoughtType::Synthesis));
        scope.act(closing(thought, &best.output)).await?;
        Ok(if limit.is_empty() {
            Answer::new(best.output)
        } else {
            Answer {
                output: best.output,
                ..Answer::stopped(limit)
            }
        })
    }
}

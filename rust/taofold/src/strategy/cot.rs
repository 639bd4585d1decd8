//! Chain of thought: think in a given format, then answer (Wei et al., 2022).
//!
//! One model call gives one triplet: the thought is the thinking, the action is `finish`, and its
//! observation is the answer in the task's type.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::effects::{Answer, Coroutine, Halt, Scope};
use crate::json::{Value, json};
use crate::parsing::{Repair, Unparsed, read_object};
use crate::strategy::nested::closing;
use crate::strategy::question::{Parsed, Question, ask_for};
use crate::strategy::{Output, Strategy, Task};
use crate::values::{Reply, StepRole, Thought, ThoughtType};

/// The format of the model's thinking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingFormat {
    /// Numbered steps.
    #[default]
    #[serde(alias = "step-by-step")]
    StepByStep,
    /// Arguments for and against each option.
    #[serde(alias = "pros-cons")]
    ProsCons,
    /// Several approaches, from which the weak ones are dropped.
    Tree,
    /// Reasoning from certain facts.
    #[serde(alias = "first-principles")]
    FirstPrinciples,
}

impl ThinkingFormat {
    /// Returns the instructions for the thinking.
    fn rules(self) -> &'static str {
        match self {
            Self::StepByStep => {
                "Think step by step: number the steps, each of which follows from the last."
            }
            Self::ProsCons => {
                "Think in pros and cons: list what speaks for and against each option, weigh them, \
                 then decide."
            }
            Self::Tree => {
                "Think as a tree: branch into several approaches, follow each a little way, drop \
                 the weak ones and say why, then follow the best to its end."
            }
            Self::FirstPrinciples => {
                "Think from first principles: name the basic facts that are certain, question every \
                 assumption, and build the answer up from those facts alone."
            }
        }
    }
}

/// A solved example in the prompt.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The problem.
    pub problem: String,
    /// The thinking.
    pub thinking: String,
    /// The answer.
    pub answer: Value,
}

/// Chain of thought.
#[derive(Debug, Clone, Default)]
pub struct Cot {
    /// The format of the thinking.
    pub format: ThinkingFormat,
    /// The examples in the order of the prompt.
    pub examples: Vec<Example>,
    /// The role of the model.
    pub role: StepRole,
}

impl Cot {
    fn rules(&self, output: &Output) -> String {
        let examples: String = self
            .examples
            .iter()
            .map(|example| {
                let reply = json!({"thinking": example.thinking, "answer": example.answer});
                format!(
                    "Example problem: {}\nExample reply: {reply}\n\n",
                    example.problem
                )
            })
            .collect();
        format!("{}\n\n{examples}{}", self.format.rules(), form(output))
    }
}

impl Strategy for Cot {
    fn name(&self) -> &'static str {
        "cot"
    }

    fn run(&self, task: Task) -> Coroutine<Answer> {
        let (rules, role) = (self.rules(&task.output), self.role);
        Coroutine::new(move |scope| async move {
            story(&scope, &task, &rules, role)
                .await
                .unwrap_or_else(Answer::from)
        })
    }
}

async fn story(scope: &Scope, task: &Task, rules: &str, role: StepRole) -> Result<Answer, Halt> {
    let outlook = scope.begin().await?;
    if !outlook.stop.is_empty() {
        return Ok(Answer::stopped(outlook.stop));
    }
    let question = Question {
        conversation: task.opening(rules, &task.goal, &outlook.heard, true),
        attempts: task.attempts,
        role,
        schema: Some(schema_of(&task.output)),
        strict: task.strict,
    };
    let reasoned = match ask_for(scope, question, thinking_of, |reply| {
        read_reasoned(task, reply)
    })
    .await?
    {
        Ok((reasoned, _)) => reasoned,
        Err(unread) => return Ok(unread.into()),
    };
    let thought = reasoned.thought(ThoughtType::Reasoning);
    scope.act(closing(thought, &reasoned.answer)).await?;
    Ok(Answer::new(reasoned.answer))
}

/// Thinking and an answer of the task's type.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reasoned {
    pub(super) thinking: String,
    pub(super) answer: Value,
}

impl Reasoned {
    /// Returns the thinking as a thought, or a thought that reports missing thinking.
    pub(super) fn thought(&self, kind: ThoughtType) -> Thought {
        if self.thinking.is_empty() {
            return Thought::synthesized("The answer was given without thinking.", kind);
        }
        Thought::new(self.thinking.as_str(), kind)
    }
}

/// Returns the thinking as text; empty if the model gave none.
#[expect(clippy::unnecessary_wraps, reason = "a question may demand no thought")]
pub(super) fn thinking_of(reasoned: &Reasoned) -> Option<&str> {
    Some(&reasoned.thinking)
}

/// Returns the required format of a reply with thinking and an answer.
pub(super) fn form(output: &Output) -> String {
    let kind = if output.is_text() {
        "\"<the answer>\"".to_owned()
    } else {
        format!("<the answer: {}>", output.rendered())
    };
    format!(
        "Reply with exactly one JSON object, nothing before or after it:\n\
         {{\"thinking\": \"<your thinking>\", \"answer\": {kind}}}"
    )
}

/// Returns the JSON Schema of the expected reply.
pub(super) fn schema_of(output: &Output) -> Value {
    let answer = output.schema().cloned();
    json!({
        "type": "object",
        "title": "Reasoned",
        "properties": {
            "thinking": {"type": "string"},
            "answer": answer.unwrap_or_else(|| json!({"type": "string"})),
        },
        "required": ["thinking", "answer"],
    })
}

static TAGGED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?is)(?:<think>(.*?)</think>|<thinking>(.*?)</thinking>|<reasoning>(.*?)</reasoning>)(.*)",
    )
    .ok()
});
static ANSWER_TAG: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?is)\A\s*<answer>(.*)</answer>\s*\z").ok());
static LABELLED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?ism)\A(.*?)^\s*\**(?:final )?answer\**\s*:\**[ \t]*(.+)\z").ok()
});

/// Parses thinking and an answer from a reply.
///
/// It accepts JSON in any wrapping, `<thinking>` text, an `Answer:` label, or only the answer.
pub(super) fn read_reasoned(task: &Task, reply: &Reply) -> Result<Parsed<Reasoned>, Unparsed> {
    let text = reply.text();
    match structured(task, reply, &text) {
        Err(refused) => loose(task, reply, &text, refused),
        read => read,
    }
}

fn structured(task: &Task, reply: &Reply, text: &str) -> Result<Parsed<Reasoned>, Unparsed> {
    let (mut object, repairs) = read_object(text, &reply.finish)?;
    let Some(answer) = object.shift_remove("answer") else {
        return Err(Unparsed::new("invalid", "The object has no \"answer\"."));
    };
    let answer = accepted(task, &answer)?;
    let own = object
        .get("thinking")
        .map(crate::json::render)
        .unwrap_or_default();
    // The thinking may be in the object, in tags before it, or in the provider's own field.
    let thinking = [
        own,
        tagged(text).map_or_else(String::new, |it| it.0),
        reply.content.thinking(),
    ]
    .into_iter()
    .find(|thinking| !thinking.trim().is_empty())
    .unwrap_or_default();
    Ok(Parsed {
        value: Reasoned {
            thinking: thinking.trim().to_owned(),
            answer,
        },
        repairs,
    })
}

fn loose(
    task: &Task,
    reply: &Reply,
    text: &str,
    refused: Unparsed,
) -> Result<Parsed<Reasoned>, Unparsed> {
    let text = text.trim();
    let looks_like_json = text.starts_with('{') || text.starts_with("```json");
    // Half an object is no answer: the user would receive JSON or a cut answer.
    if text.contains("\"answer\"")
        || (task.output.is_text() && looks_like_json)
        || !matches!(refused.reason, "no_candidate" | "invalid")
    {
        return Err(refused);
    }
    let labelled = LABELLED.as_ref().and_then(|pattern| {
        let found = pattern.captures(text)?;
        Some((
            found.get(1)?.as_str().to_owned(),
            found.get(2)?.as_str().to_owned(),
        ))
    });
    let (thinking, answer, kind) = if let Some((thinking, rest)) = tagged(text) {
        let inner = ANSWER_TAG.as_ref().and_then(|pattern| {
            let found = pattern.captures(&rest)?;
            Some(found.get(1)?.as_str().to_owned())
        });
        (thinking, inner.unwrap_or(rest), "thinking_tag")
    } else if let Some((thinking, answer)) = labelled {
        (thinking, answer, "answer_label")
    } else if refused.reason == "no_candidate" || !task.output.is_text() {
        (reply.content.thinking(), text.to_owned(), "bare_answer")
    } else {
        return Err(refused);
    };
    match accepted(task, &Value::String(answer.trim().to_owned())) {
        Ok(answer) => Ok(Parsed {
            value: Reasoned {
                thinking: thinking.trim().to_owned(),
                answer,
            },
            repairs: vec![Repair {
                kind,
                content: false,
            }],
        }),
        // Without a marked answer, the first error, which is about the form, is reported.
        Err(_) if kind == "bare_answer" => Err(refused),
        Err(error) => Err(error),
    }
}

/// Returns the machine-readable reason why an answer is refused.
pub(super) fn refusal_of(task: &Task, answer: &Value) -> &'static str {
    if task.output.is_text() && crate::json::render(answer).trim().is_empty() {
        "empty"
    } else {
        "invalid"
    }
}

fn accepted(task: &Task, answer: &Value) -> Result<Value, Unparsed> {
    let refused = |error| {
        Unparsed::new(
            refusal_of(task, answer),
            format!("The answer is not accepted: {error}"),
        )
    };
    task.output.accept(answer).map_err(refused)
}

/// Returns the thinking in tags and the text after it.
fn tagged(text: &str) -> Option<(String, String)> {
    let found = TAGGED.as_ref()?.captures(text)?;
    let thinking = (1..=3).find_map(|group| found.get(group))?;
    Some((
        thinking.as_str().to_owned(),
        found.get(4)?.as_str().to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, Value), &'static str> {
        let reply = Reply::text_only(text);
        read_reasoned(&Task::new("go"), &reply)
            .map(|read| (read.value.thinking, read.value.answer))
            .map_err(|refused| refused.reason)
    }

    #[test]
    fn thinking_and_answer_are_read_in_every_form() {
        let expected = Ok(("because".to_owned(), json!("27")));
        for text in [
            r#"{"thinking": "because", "answer": "27"}"#,
            r#"{"thinking": "because", "answer": 27}"#,
            "<think>because</think>{\"answer\": \"27\"}",
            "<thinking>because</thinking><answer>27</answer>",
            "because\nAnswer: 27",
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read("27"), Ok((String::new(), json!("27"))));
    }

    #[test]
    fn half_an_object_is_no_bare_answer() {
        assert_eq!(read("{\"thinking\": \"because\", \"ans"), Err("incomplete"));
        assert_eq!(read("{\"result\": 1}"), Err("invalid"));
    }
}

//! Answers at once: the whole reply is the answer, so that code and prose need no escaping.

use crate::content::Message;
use crate::effects::{Answer, Coroutine, Halt, Scope};
use crate::json::Value;
use crate::parsing::{Unparsed, read_object, read_text};
use crate::strategy::nested::closing;
use crate::strategy::question::{Parsed, Question, Unread, ask_for};
use crate::strategy::{Strategy, Task};
use crate::values::{Reply, StepRole, Thought, ThoughtType};

/// A strategy that answers at once.
#[derive(Debug, Clone, Default)]
pub struct Direct {
    /// The role of the model.
    pub role: StepRole,
}

impl Strategy for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn run(&self, task: Task) -> Coroutine<Answer> {
        let role = self.role;
        Coroutine::new(move |scope| async move {
            story(&scope, &task, role)
                .await
                .unwrap_or_else(Answer::from)
        })
    }
}

async fn story(scope: &Scope, task: &Task, role: StepRole) -> Result<Answer, Halt> {
    let outlook = scope.begin().await?;
    if !outlook.stop.is_empty() {
        return Ok(Answer::stopped(outlook.stop));
    }
    let (output, reply) = match answer(scope, task, &task.goal, role, &outlook.heard).await? {
        Ok(read) => read,
        Err(unread) => return Ok(unread.into()),
    };
    let thinking = reply.content.thinking();
    let content = if thinking.is_empty() {
        "The answer.".to_owned()
    } else {
        thinking
    };
    let thought = Thought::synthesized(content, ThoughtType::Synthesis);
    scope.act(closing(thought, &output)).await?;
    Ok(Answer::new(output))
}

/// Asks only for a value of the task's output type.
pub(super) async fn answer(
    scope: &Scope,
    task: &Task,
    text: &str,
    role: StepRole,
    heard: &[Message],
) -> Result<Result<(Value, Reply), Unread>, Halt> {
    let rules = if task.output.is_text() {
        "Reply with the answer itself and nothing else.".to_owned()
    } else {
        task.typed_answer()
    };
    let question = Question {
        conversation: task.opening(&rules, text, heard, true),
        attempts: task.attempts,
        role,
        schema: task.output.schema().cloned(),
        strict: false,
    };
    ask_for(scope, question, |_| None, |reply| read(task, reply)).await
}

/// Reads an answer that is a whole reply.
pub(super) fn read(task: &Task, reply: &Reply) -> Result<Parsed<Value>, Unparsed> {
    let text = reply.text();
    let refused = |feedback: String| Unparsed::new("invalid", feedback);
    let plain = |value| Parsed {
        value,
        repairs: Vec::new(),
    };
    if task.output.is_text() {
        // The thinking of a reasoning model is not part of its answer; all other text is.
        let clean = read_text(&text, &reply.finish)?;
        // A text may be sent as a JSON string.
        let clean = serde_json::from_str::<String>(&clean).unwrap_or(clean);
        return task
            .output
            .accept(&Value::String(clean))
            .map(plain)
            .map_err(refused);
    }
    if let Ok(value) = serde_json::from_str::<Value>(text.trim()) {
        return task.output.accept(&value).map(plain).map_err(refused);
    }
    let (object, repairs) = read_object(&text, &reply.finish)?;
    let value = task
        .output
        .accept(&Value::Object(object))
        .map_err(refused)?;
    Ok(Parsed { value, repairs })
}

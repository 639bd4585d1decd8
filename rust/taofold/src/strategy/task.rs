//! The input of a strategy: the goal, the offered tools, the type of the answer.
//!
//! [`Task`] also writes the text of the protocol. This module does not depend on models, policy or
//! storage.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::content::{Conversation, Message, Role};
use crate::json::{Object, Value, json, render, to_value};
use crate::values::{ASK_USER, FINISH, Sideeffect, ThoughtType};

/// The average number of characters per token of English and JSON.
const CHARS_PER_TOKEN: f64 = 3.8;

const NATIVE: &str = "\
Before each tool call say in a sentence what you conclude, with concrete values from earlier \
results, and why this call is next. After a failure say why it failed and what you change.";

/// A tool as a strategy sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON Schema of its parameters.
    pub schema: Value,
    /// The side effect.
    pub effect: Sideeffect,
}

type Check = Arc<dyn Fn(&Value) -> Result<Value, String> + Send + Sync>;

/// The required type of an answer.
#[derive(Clone, Default)]
pub struct Output {
    schema: Option<Value>,
    check: Option<Check>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Output({})", self.rendered())
    }
}

impl Output {
    /// Returns the type of plain text.
    pub fn text() -> Self {
        Self::default()
    }

    /// Returns the type `T`.
    pub fn of<T: Serialize + DeserializeOwned + JsonSchema>() -> Self {
        Self::new(to_value(&schemars::schema_for!(T)), |value| {
            let typed: T = serde_json::from_value(value.clone()).map_err(|it| it.to_string())?;
            Ok(to_value(&typed))
        })
    }

    /// Returns a type with a schema and a check that returns the accepted value.
    pub fn new(
        schema: Value,
        check: impl Fn(&Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            schema: Some(schema),
            check: Some(Arc::new(check)),
        }
    }

    /// Returns true if the answer is plain text.
    pub fn is_text(&self) -> bool {
        self.schema.is_none()
    }

    /// Returns the JSON Schema of the answer; `None` for text.
    pub fn schema(&self) -> Option<&Value> {
        self.schema.as_ref()
    }

    /// Validates an answer and returns it as JSON of the right type.
    ///
    /// # Errors
    ///
    /// The feedback for the model.
    pub fn accept(&self, answer: &Value) -> Result<Value, String> {
        let Some(check) = &self.check else {
            let text = render(answer);
            if text.trim().is_empty() {
                return Err("the answer is empty".to_owned());
            }
            return Ok(Value::String(text));
        };
        match (check(answer), answer) {
            (Err(error), Value::String(text)) => {
                // A typed answer may be sent as JSON text.
                let parsed = serde_json::from_str(text).map_err(|_| error)?;
                check(&parsed)
            }
            (accepted, _) => accepted,
        }
    }

    /// Returns the type in the form of a prompt.
    pub fn rendered(&self) -> String {
        match &self.schema {
            None => "text".to_owned(),
            Some(schema) => schema.to_string(),
        }
    }

    /// Returns the JSON Schema of the parameters of `finish`.
    pub(crate) fn finish_schema(&self) -> Value {
        let answer = self
            .schema
            .clone()
            .unwrap_or_else(|| json!({"type": "string"}));
        json!({
            "type": "object",
            "properties": {"answer": answer, "success": {"type": "boolean"}},
            "required": ["answer"],
        })
    }
}

/// The input of every strategy.
#[derive(Debug, Clone)]
pub struct Task {
    /// The goal.
    pub goal: String,
    /// The application's instructions.
    pub instructions: String,
    /// The offered tools.
    pub offers: Vec<Offer>,
    /// The type of the answer.
    pub output: Output,
    /// True if a reply that violates a rule of form is requested again, once per turn.
    pub strict: bool,
    /// True if thoughts of type `research` are accepted.
    pub research: bool,
    /// The maximum number of replies for one turn.
    pub attempts: usize,
    /// True if the model calls tools natively, false for the text protocol.
    pub native: bool,
    /// True if the model's provider enforces the JSON Schema of an answer.
    pub enforces_schema: bool,
    /// The size of the model's context window in tokens.
    pub window: u64,
    /// The tokens reserved for the reply.
    pub reserve: u64,
    /// The earlier messages of the session.
    pub history: Vec<Message>,
    /// True if the reserved action `ask_user` is offered.
    pub ask_user: bool,
    /// The initial state of the run.
    pub data: Object,
    /// The prefix of each line of reference data in the goal; empty if there is none.
    pub reference: String,
}

/// Returns whether a model gets no text protocol.
///
/// A strict run without tools keeps the protocol, because it demands a thought before the answer.
pub(crate) fn is_native(calls: bool, offers: bool, strict: bool) -> bool {
    calls && (offers || !strict)
}

impl Task {
    /// Returns a task with a goal, a text answer and no tools.
    pub fn new(goal: impl Into<String>) -> Self {
        Self {
            goal: goal.into(),
            instructions: String::new(),
            offers: Vec::new(),
            output: Output::text(),
            strict: false,
            research: false,
            attempts: 3,
            native: false,
            enforces_schema: false,
            window: 8192,
            reserve: 1024,
            history: Vec::new(),
            ask_user: false,
            data: Object::new(),
            reference: String::new(),
        }
    }

    /// Returns the names a model may call.
    pub fn names(&self) -> Vec<String> {
        let offered = self.offers.iter().map(|offer| offer.name.clone());
        let asks = self.ask_user.then(|| ASK_USER.to_owned());
        offered.chain([FINISH.to_owned()]).chain(asks).collect()
    }

    /// Returns true if the text of a reply is the answer, because the model has nothing to call.
    pub(super) fn is_plain(&self) -> bool {
        let calls = !self.offers.is_empty() || self.ask_user;
        self.native && !calls && (self.output.is_text() || self.enforces_schema)
    }

    /// Returns the number of characters of conversation that fit the window.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a window is far below 2^53 tokens, and not negative"
    )]
    pub fn budget(&self) -> usize {
        // In a small window, at most a quarter is reserved for the reply.
        let kept = self.reserve.min(self.window / 4);
        ((self.window - kept) as f64 * CHARS_PER_TOKEN) as usize
    }

    /// Returns the instructions, the tools and the protocol.
    pub fn system_prompt(&self) -> String {
        let mut parts = Vec::new();
        if !self.instructions.trim().is_empty() {
            parts.push(self.instructions.trim().to_owned());
        }
        if self.native {
            if !self.offers.is_empty() {
                parts.push(NATIVE.to_owned());
            }
            if !self.output.is_text() {
                parts.push(if self.is_plain() {
                    self.typed_answer()
                } else {
                    format!("When you are done, call {FINISH} with the answer.")
                });
            }
            return parts.join("\n\n");
        }
        if !self.offers.is_empty() {
            parts.push(format!("Tools:\n{}", self.tool_lines()));
        }
        parts.push(self.form());
        parts.join("\n\n")
    }

    /// Returns the rule for a reply that is a value of the output's type.
    pub(super) fn typed_answer(&self) -> String {
        let kind = self.output.rendered();
        format!("Reply with one JSON value of this type and nothing else: {kind}")
    }

    /// Returns the offered tools, one line each.
    pub(super) fn tool_lines(&self) -> String {
        let line = |offer: &Offer| {
            let (name, schema) = (&offer.name, &offer.schema);
            format!("- {name}({schema}): {}", offer.description.trim())
        };
        let lines: Vec<String> = self.offers.iter().map(line).collect();
        if lines.is_empty() {
            "(none)".to_owned()
        } else {
            lines.join("\n")
        }
    }

    fn form(&self) -> String {
        let research = if self.research {
            ", research (look things up; change nothing in that step)"
        } else {
            ""
        };
        let answer = if self.output.is_text() {
            "\"<text>\"".to_owned()
        } else {
            format!("<{}>", self.output.rendered())
        };
        let ask_user = if self.ask_user {
            "\n- To ask the person: \"action\": {\"tool\": \"ask_user\", \"parameters\": {\"question\": \"…\"}}"
        } else {
            ""
        };
        let learned = if self.strict {
            "\"learned\": \"<what the last results showed>\", "
        } else {
            ""
        };
        format!(
            "Work in steps. Each reply is exactly one JSON object, nothing before or after it:\n\
             {{\"thought\": \"<what you conclude and why this action is next>\", \"thought_type\": \"<type>\", \
             \"because\": [<numbers of the steps you rely on>], {learned}\
             \"action\": {{\"tool\": \"<name>\", \"parameters\": {{…}}, \"rationale\": \"<why this tool>\"}}}}\n\
             Several independent calls: \"actions\": [ … ] instead of \"action\".\n\
             Types: goal, progress, extraction, reasoning, exception, synthesis{research}.\n\
             Rules:\n\
             - Every reply has a thought and an action. Quote concrete values from earlier observations.\n\
             - Never write an observation yourself; it comes after your reply.\n\
             - After a failure or a timeout the next thought is an exception: say why it failed and what \
             you change. Never repeat a failed action unchanged.\n\
             - When the goal is reached: \"action\": {{\"tool\": \"finish\", \"parameters\": {{\"answer\": {answer}}}}}\n\
             - When it cannot be reached: the same with \"success\": false beside the answer that says why.{ask_user}"
        )
    }

    /// Returns the notice that opens the last turn.
    pub fn wrap_up(&self) -> String {
        let how = if self.native {
            ""
        } else {
            " with \"tool\": \"finish\""
        };
        format!(
            "This is your last turn and no tool can be used any more. \
             Give the best answer you can from what you know{how}."
        )
    }

    /// Returns the schema of one reply: a thought and an action, or only `finish` if `toolless`.
    pub fn reply_schema(&self, toolless: bool) -> Value {
        let action = |name: &str, parameters: &Value| {
            json!({
                "type": "object",
                "properties": {
                    "tool": {"type": "string", "enum": [name]},
                    "parameters": parameters,
                    "rationale": {"type": "string", "maxLength": 300},
                },
                "required": ["tool", "parameters", "rationale"],
                "additionalProperties": false,
            })
        };
        let offered = self.offers.iter().filter(|_| !toolless);
        let mut actions: Vec<Value> = offered
            .map(|offer| action(&offer.name, &offer.schema))
            .collect();
        if self.ask_user && !toolless {
            let question = json!({
                "type": "object",
                "properties": {"question": {"type": "string"}},
                "required": ["question"],
                "additionalProperties": false,
            });
            actions.push(action(ASK_USER, &question));
        }
        actions.push(action(FINISH, &self.output.finish_schema()));
        let types: Vec<&str> = ThoughtType::ALL
            .into_iter()
            .filter(|(_, kind)| self.research || *kind != ThoughtType::Research)
            .map(|(name, _)| name)
            .collect();
        let mut schema = json!({
            "type": "object",
            "properties": {
                // Without a bound, a small model could think without end under constrained
                // decoding.
                "thought": {"type": "string", "maxLength": 1000},
                "thought_type": {"type": "string", "enum": types},
                "action": {"anyOf": actions},
            },
            "required": ["thought", "thought_type", "action"],
            "additionalProperties": false,
        });
        if self.strict {
            schema["properties"]["because"] =
                json!({"type": "array", "items": {"type": "integer"}});
            schema["properties"]["learned"] = json!({"type": "string", "maxLength": 300});
            schema["required"] = json!(["thought", "thought_type", "because", "learned", "action"]);
        }
        schema
    }

    /// Returns a new conversation: instructions and rules, the session so far, the question, and
    /// user messages since the start of the run.
    pub(super) fn opening(
        &self,
        rules: &str,
        question: &str,
        heard: &[Message],
        with_history: bool,
    ) -> Conversation {
        let parts: Vec<&str> = [self.instructions.trim(), rules.trim()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let system = (!parts.is_empty()).then(|| Message::new(Role::System, parts.join("\n\n")));
        let history = self.history.iter().filter(|_| with_history).cloned();
        Conversation::new(
            system
                .into_iter()
                .chain(history)
                .chain([Message::new(Role::User, question)])
                .chain(heard.iter().cloned()),
        )
    }
}

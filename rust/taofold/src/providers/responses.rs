//! OpenAI's Responses API, without any state at the provider.
//!
//! `store` is always false. The model's reasoning arrives encrypted, is kept complete as an opaque
//! part, and is sent back before the items that followed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::answered::{Entry, answered};
use super::names::wire_name;
use super::reply::{ReadReply, Reader, count, text, usage};
use super::{Turn, Wire};
use crate::content::{Issuer, Message, OpaquePart, Part, Role, TextPart, ThinkingPart, ToolCall};
use crate::errors::ModelError;
use crate::json::{Object, Value, json};
use crate::values::finish_of;

/// Fields that can be omitted without changing the meaning of the request.
const DROPPABLE: [&str; 5] = [
    "reasoning.summary",
    "include",
    "service_tier",
    "temperature",
    "top_p",
];

pub(super) struct Responses {
    model: String,
    without: Mutex<BTreeSet<&'static str>>,
}

impl Responses {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            without: Mutex::default(),
        }
    }
}

impl Wire for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn body(&self, turn: &Turn<'_>, issuer: &Issuer) -> Result<Object, ModelError> {
        let without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        let (request, settings) = (turn.request, &turn.settings);
        let mut body = Object::new();
        let mut put = |name: &str, value: Value| {
            if !without.contains(name) && !value.is_null() {
                body.insert(name.to_owned(), value);
            }
        };
        put("model", json!(self.model));
        put("store", json!(false));
        put("include", json!(["reasoning.encrypted_content"]));
        if let Some(effort) = &settings.effort {
            put("reasoning", json!({"effort": effort}));
        }
        put("temperature", json!(settings.temperature));
        put("top_p", json!(settings.top_p));
        if settings.max_tokens > 0 {
            put("max_output_tokens", json!(settings.max_tokens));
        }
        if !settings.service_tier.is_empty() {
            put("service_tier", json!(settings.service_tier));
        }
        if turn.streaming {
            put("stream", json!(true));
        }
        if let Some(schema) = request.schema {
            let format = json!({
                "type": "json_schema", "name": "output", "schema": schema, "strict": false,
            });
            put("text", json!({"format": format}));
        }
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|offer| {
                json!({
                    "type": "function",
                    "name": wire_name(&offer.name),
                    "description": offer.description,
                    "parameters": offer.schema,
                    "strict": false,
                })
            });
            put("tools", tools.collect());
            if let Some(allowed) = request.allowed {
                put("tool_choice", choice(allowed));
            }
        }
        let conversation = request.conversation.messages();
        let leading = conversation
            .iter()
            .take_while(|it| it.role == Role::System)
            .count();
        let (system, rest) = conversation.split_at(leading);
        let instructions: Vec<String> = system.iter().map(|it| it.content.text()).collect();
        if !instructions.is_empty() {
            put("instructions", json!(instructions.join("\n\n")));
        }
        let input = items(rest, issuer);
        if input.is_empty() {
            let message = "a conversation needs a message besides the system's";
            return Err(ModelError::new("request", message));
        }
        put("input", Value::Array(input));
        body.extend(settings.extra.clone());
        Ok(body)
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(ResponsesReader::default())
    }

    fn learn(&self, error: &ModelError) -> bool {
        if error.kind != "request" || error.status != 400 {
            return false;
        }
        let mut without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |name: &&str| error.message.contains(*name) && !without.contains(*name);
        match DROPPABLE.into_iter().find(named) {
            Some(name) => without.insert(name),
            None => false,
        }
    }
}

/// Restricts the callable tools but leaves the offer unchanged, because reasoning is bound to the
/// offer.
fn choice(allowed: &[String]) -> Value {
    if allowed.is_empty() {
        return json!("none");
    }
    let tools: Vec<Value> = allowed
        .iter()
        .map(|name| json!({"type": "function", "name": wire_name(name)}))
        .collect();
    json!({"type": "allowed_tools", "mode": "auto", "tools": tools})
}

fn output(id: &str, text: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": text})
}

fn items(conversation: &[Message], issuer: &Issuer) -> Vec<Value> {
    let mut written = Vec::with_capacity(conversation.len());
    for entry in answered(conversation) {
        match entry {
            Entry::Result { id, text, .. } => written.push(output(&id, &text)),
            Entry::Message(message) => match message.role {
                Role::Assistant => written.extend(said(message, issuer)),
                Role::System => {
                    written.push(json!({"role": "developer", "content": message.content.text()}));
                }
                _ => written.push(json!({"role": "user", "content": message.content.text()})),
            },
        }
    }
    written
}

/// Returns the model's items in order, with reasoning before the items that followed it.
fn said(message: &Message, issuer: &Issuer) -> Vec<Value> {
    let own = message.issuer.as_ref() == Some(issuer);
    let mut items: Vec<(Value, bool)> = Vec::new();
    for part in message.content.to_parts() {
        match part {
            // Only the endpoint that issued an item can read it.
            Part::Opaque(part) if own => {
                if let Ok(item) = serde_json::from_str(&part.data) {
                    items.push((item, true));
                }
            }
            Part::Text(part) if !part.text.is_empty() => {
                let mut item = json!({"role": "assistant", "content": part.text});
                if !part.phase.is_empty() {
                    item["phase"] = json!(part.phase);
                }
                items.push((item, false));
            }
            Part::Call(call) => {
                let arguments = if call.arguments.is_empty() {
                    "{}"
                } else {
                    &call.arguments
                };
                let item = json!({
                    "type": "function_call",
                    "call_id": call.id,
                    "name": wire_name(&call.name),
                    "arguments": arguments,
                });
                items.push((item, false));
            }
            _ => {}
        }
    }
    // The API refuses reasoning that was cut off before its following item.
    while items.last().is_some_and(|(_, opaque)| *opaque) {
        items.pop();
    }
    if items.is_empty() {
        return vec![json!({"role": "assistant", "content": "(empty)"})];
    }
    items.into_iter().map(|(item, _)| item).collect()
}

/// The reader of a response. In a stream only finished items count, because an added one holds
/// partial ciphertext.
#[derive(Debug, Default)]
struct ResponsesReader {
    items: BTreeMap<u64, Value>,
    last: Option<Value>,
}

impl Reader for ResponsesReader {
    fn event(&mut self, event: &Value, said: &mut String) -> Result<bool, ModelError> {
        match text(event, "type") {
            "response.output_item.done" => {
                // Without numbers from the server, items are in order of arrival.
                let next = self.items.len() as u64;
                let index = event["output_index"].as_u64().unwrap_or(next);
                self.items.insert(index, event["item"].clone());
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                said.push_str(text(event, "delta"));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.last = Some(event["response"].clone());
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    fn complete(&self) -> bool {
        self.last.is_some()
    }

    fn finish(&mut self) -> Result<ReadReply, ModelError> {
        let response = self.last.take().unwrap_or_default();
        let done: Vec<Value> = std::mem::take(&mut self.items).into_values().collect();
        // In a stream the last event may omit the output that was sent before.
        let sent = response["output"].as_array().cloned().unwrap_or_default();
        let items = if done.is_empty() { sent } else { done };
        let status = text(&response, "status");
        if matches!(status, "failed" | "cancelled") {
            let why = text(&response["error"], "message");
            return Err(ModelError::new(
                "server",
                format!("the response {status}: {why}"),
            ));
        }
        if status.is_empty() && items.is_empty() {
            return Err(ModelError::new("reply", "the answer holds no output"));
        }
        let mut parts = Vec::new();
        let mut refused = false;
        for item in &items {
            refused |= take(item, &mut parts);
        }
        let has_calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
        let finish = if refused {
            "refusal"
        } else if status == "incomplete" {
            match finish_of(text(&response["incomplete_details"], "reason")) {
                "" => "length",
                known => known,
            }
        } else if has_calls {
            "tool_calls"
        } else {
            "stop"
        };
        let counts = &response["usage"];
        Ok(ReadReply {
            parts,
            usage: usage(
                count(counts, &["input_tokens"]),
                count(counts, &["output_tokens"]),
                count(counts, &["input_tokens_details", "cached_tokens"]),
                count(counts, &["input_tokens_details", "cache_write_tokens"]),
                count(counts, &["output_tokens_details", "reasoning_tokens"]),
            ),
            charged: None,
            tier: text(&response, "service_tier").to_owned(),
            finish: finish.to_owned(),
            notes: Vec::new(),
        })
    }

    fn whole(&mut self, answer: &Value) -> Result<ReadReply, ModelError> {
        self.last = Some(answer.clone());
        self.finish()
    }
}

/// Adds the parts of an item. Returns true if it is a refusal.
fn take(item: &Value, parts: &mut Vec<Part>) -> bool {
    match text(item, "type") {
        "message" => {
            let mut refused = false;
            for block in item["content"].as_array().into_iter().flatten() {
                let words = [text(block, "text"), text(block, "refusal")].concat();
                refused |= text(block, "type") == "refusal";
                if !words.is_empty() {
                    parts.push(Part::Text(TextPart {
                        text: words,
                        phase: text(item, "phase").to_owned(),
                        ..TextPart::default()
                    }));
                }
            }
            refused
        }
        "function_call" => {
            parts.push(Part::Call(ToolCall {
                name: text(item, "name").to_owned(),
                arguments: text(item, "arguments").to_owned(),
                id: text(item, "call_id").to_owned(),
                ..ToolCall::default()
            }));
            false
        }
        // The API does not accept it back without its ciphertext.
        "reasoning" if text(item, "encrypted_content").is_empty() => false,
        kind => {
            let summaries = item["summary"].as_array().into_iter().flatten();
            let summary: Vec<&str> = summaries.map(|block| text(block, "text")).collect();
            let summary = summary.join("\n\n");
            if kind == "reasoning" && !summary.is_empty() {
                parts.push(Part::Thinking(ThinkingPart {
                    text: summary,
                    echo: String::new(),
                }));
            }
            // Absent fields arrive as null and are omitted when the item is sent back.
            let mut stored = item.clone();
            if let Value::Object(members) = &mut stored {
                members.retain(|_, value| !value.is_null());
            }
            parts.push(Part::Opaque(OpaquePart {
                data: stored.to_string(),
                kind: kind.to_owned(),
                digest: String::new(),
                size: 0,
            }));
            false
        }
    }
}

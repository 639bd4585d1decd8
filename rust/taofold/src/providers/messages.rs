//! Anthropic's Messages API, and compatible servers.
//!
//! Thinking blocks are kept complete as opaque parts and sent back at their original position.
//! Adjacent messages of one role are merged, as the API requires.

use std::collections::{BTreeMap, BTreeSet};

use super::answered::{Entry, answered};
use super::names::wire_name;
use super::reply::{ReadReply, Reader, count, text, usage};
use super::{Turn, Wire};
use crate::content::{Issuer, Message, OpaquePart, Part, Role, TextPart, ThinkingPart, ToolCall};
use crate::errors::ModelError;
use crate::json::{Object, Value, json};
use crate::values::finish_of;

pub(super) const VERSION: &str = "2023-06-01";
/// The default output bound, because the API requires one.
const OUTPUT: u64 = 8_192;
/// The default output bound for a model with a thinking effort.
const THINKING_OUTPUT: u64 = 32_000;

pub(super) struct Messages {
    model: String,
}

impl Messages {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
        }
    }
}

impl Wire for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn body(&self, turn: &Turn<'_>, issuer: &Issuer) -> Result<Object, ModelError> {
        let (request, settings) = (turn.request, &turn.settings);
        let mut body = Object::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                body.insert(name.to_owned(), value);
            }
        };
        put("model", json!(self.model));
        let effort = settings
            .effort
            .as_deref()
            .filter(|effort| *effort != "none");
        let limit = match (settings.max_tokens, effort) {
            (0, None) => OUTPUT,
            (0, Some(_)) => THINKING_OUTPUT,
            (own, _) => own,
        };
        put("max_tokens", json!(limit));
        if let Some(effort) = effort {
            put(
                "thinking",
                json!({"type": "adaptive", "display": "summarized"}),
            );
            put("output_config", json!({"effort": effort}));
        }
        put("temperature", json!(settings.temperature));
        put("top_p", json!(settings.top_p));
        if !settings.service_tier.is_empty() {
            put("service_tier", json!(settings.service_tier));
        }
        if turn.streaming {
            put("stream", json!(true));
        }
        let conversation = request.conversation.messages();
        put_tools(&mut put, turn, conversation);
        let leading = conversation
            .iter()
            .take_while(|it| it.role == Role::System)
            .count();
        let (system, rest) = conversation.split_at(leading);
        let cached = settings.prompt_cache != "off";
        let mark = if settings.prompt_cache == "1h" {
            json!({"type": "ephemeral", "ttl": "1h"})
        } else {
            json!({"type": "ephemeral"})
        };
        let mut blocks: Vec<Value> = system
            .iter()
            .map(|message| message.content.text())
            .filter(|text| !text.trim().is_empty())
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        if let (Some(last), true) = (blocks.last_mut(), cached) {
            last["cache_control"] = mark.clone();
        }
        if !blocks.is_empty() {
            put("system", Value::Array(blocks));
        }
        let mut messages = messages(rest, issuer);
        if messages.is_empty() {
            let message = "a conversation needs a message besides the system's";
            return Err(ModelError::new("request", message));
        }
        if let (Some((_, blocks)), true) = (messages.last_mut(), cached)
            && let Some(last) = blocks.last_mut()
        {
            last["cache_control"] = mark;
        }
        let messages = messages.into_iter();
        let messages = messages.map(|(role, blocks)| json!({"role": role, "content": blocks}));
        put("messages", messages.collect());
        body.extend(settings.extra.clone());
        Ok(body)
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(MessagesReader::default())
    }
}

fn put_tools(put: &mut impl FnMut(&str, Value), turn: &Turn<'_>, conversation: &[Message]) {
    let request = turn.request;
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|offer| {
            json!({
                "name": wire_name(&offer.name),
                "description": offer.description,
                "input_schema": offer.schema,
            })
        })
        .collect();
    let mut forbidden = request.allowed.is_some_and(<[String]>::is_empty);
    if tools.is_empty() {
        // The API refuses a history with tool blocks unless tools are defined, so the used ones are
        // named.
        let calls = conversation
            .iter()
            .flat_map(|message| message.content.calls());
        let used: BTreeSet<String> = calls.map(|call| wire_name(&call.name)).collect();
        tools = used
            .iter()
            .map(|name| json!({"name": name, "input_schema": {"type": "object"}}))
            .collect();
        forbidden = true;
    }
    if tools.is_empty() {
        return;
    }
    put("tools", Value::Array(tools));
    if forbidden {
        put("tool_choice", json!({"type": "none"}));
    }
}

type Written = Vec<(&'static str, Vec<Value>)>;

/// Adds blocks to the last message if it has the same role.
fn add(written: &mut Written, role: &'static str, mut blocks: Vec<Value>) {
    if written.is_empty() && role == "assistant" {
        // A conversation begins with the user.
        written.push(("user", vec![json!({"type": "text", "text": "(start)"})]));
    }
    match written.last_mut() {
        Some((last, earlier)) if *last == role => earlier.append(&mut blocks),
        _ => written.push((role, blocks)),
    }
}

fn result(id: &str, text: &str, error: bool) -> Value {
    let mut block = json!({
        "type": "tool_result",
        "tool_use_id": id,
        "content": if text.is_empty() { "(empty)" } else { text },
    });
    if error {
        block["is_error"] = json!(true);
    }
    block
}

fn words(text: &str) -> Vec<Value> {
    // The API refuses empty blocks, and omitting the message would merge its neighbours.
    let text = if text.trim().is_empty() {
        "(empty)"
    } else {
        text
    };
    vec![json!({"type": "text", "text": text})]
}

fn messages(conversation: &[Message], issuer: &Issuer) -> Written {
    let mut written = Written::new();
    for entry in answered(conversation) {
        match entry {
            Entry::Result { id, text, error } => {
                add(&mut written, "user", vec![result(&id, &text, error)]);
            }
            Entry::Message(message) if message.role == Role::Assistant => {
                add(&mut written, "assistant", said(message, issuer));
            }
            Entry::Message(message) => {
                add(&mut written, "user", words(&message.content.text()));
            }
        }
    }
    let paused = conversation.last().is_some_and(|message| {
        let parts = message.content.to_parts();
        matches!(parts.last(), Some(Part::Opaque(part)) if part.kind.contains("tool"))
    });
    // Current models refuse to continue an assistant's message, except a paused one.
    if written.last().is_some_and(|(role, _)| *role == "assistant") && !paused {
        add(&mut written, "user", words("(go on)"));
    }
    written
}

/// Returns the model's message, block by block in its original form.
fn said(message: &Message, issuer: &Issuer) -> Vec<Value> {
    let own = message.issuer.as_ref() == Some(issuer);
    let mut blocks: Vec<Value> = Vec::new();
    for part in message.content.to_parts() {
        match part {
            Part::Opaque(part) if own => {
                blocks.extend(serde_json::from_str::<Value>(&part.data).ok())
            }
            Part::Text(part) if !part.text.trim().is_empty() => {
                blocks.push(json!({"type": "text", "text": part.text}));
            }
            Part::Call(call) => {
                let input = serde_json::from_str::<Value>(&call.arguments).ok();
                blocks.push(json!({
                    "type": "tool_use",
                    "id": call.id,
                    "name": wire_name(&call.name),
                    "input": input.filter(Value::is_object).unwrap_or_else(|| json!({})),
                }));
            }
            _ => {}
        }
    }
    if blocks.is_empty() { words("") } else { blocks }
}

/// A content block that is still arriving: its beginning and its deltas.
#[derive(Debug, Default)]
struct Growing {
    block: Value,
    text: String,
    thinking: String,
    signature: String,
    json: String,
}

impl Growing {
    fn new(block: &Value) -> Self {
        let input = &block["input"];
        // Streams begin a call with an empty input and send its JSON as deltas.
        let whole = input.as_object().is_some_and(|input| !input.is_empty());
        Self {
            text: text(block, "text").to_owned(),
            thinking: text(block, "thinking").to_owned(),
            signature: text(block, "signature").to_owned(),
            json: if whole {
                input.to_string()
            } else {
                String::new()
            },
            block: block.clone(),
        }
    }

    fn parts(self) -> Vec<Part> {
        let opaque = |block: &Value, kind: &str| {
            Part::Opaque(OpaquePart {
                data: block.to_string(),
                kind: kind.to_owned(),
                digest: String::new(),
                size: 0,
            })
        };
        match text(&self.block, "type") {
            "text" if self.text.is_empty() => Vec::new(),
            "text" => vec![Part::Text(TextPart {
                text: self.text,
                ..TextPart::default()
            })],
            "thinking" => {
                let readable = (!self.thinking.is_empty()).then(|| {
                    Part::Thinking(ThinkingPart {
                        text: self.thinking.clone(),
                        echo: String::new(),
                    })
                });
                // Without a signature the stream was cut, and the block would be refused when sent
                // back.
                let signed = (!self.signature.is_empty()).then(|| {
                    let mut whole = self.block.clone();
                    whole["thinking"] = json!(self.thinking);
                    whole["signature"] = json!(self.signature);
                    opaque(&whole, "thinking")
                });
                signed.into_iter().chain(readable).collect()
            }
            "tool_use" => vec![Part::Call(ToolCall {
                name: text(&self.block, "name").to_owned(),
                arguments: self.json,
                id: text(&self.block, "id").to_owned(),
                ..ToolCall::default()
            })],
            kind => {
                let mut whole = self.block.clone();
                if let Ok(input) = serde_json::from_str::<Value>(&self.json) {
                    whole["input"] = input;
                }
                vec![opaque(&whole, kind)]
            }
        }
    }
}

#[derive(Debug, Default)]
struct MessagesReader {
    blocks: BTreeMap<u64, Growing>,
    /// The running totals; counts in later events replace those in earlier ones.
    counts: Object,
    finish: Option<String>,
    notes: Vec<String>,
}

impl MessagesReader {
    fn count(&mut self, usage: &Value) {
        let counts = usage.as_object().into_iter().flatten();
        let known = counts.filter(|(_, value)| !value.is_null());
        self.counts
            .extend(known.map(|(name, value)| (name.clone(), value.clone())));
    }

    fn explain(&mut self, details: &Value) {
        let why = text(details, "explanation");
        if !why.is_empty() {
            self.notes.push(format!("refused: {why}"));
        }
    }
}

impl Reader for MessagesReader {
    fn event(&mut self, event: &Value, said: &mut String) -> Result<bool, ModelError> {
        let index = event["index"].as_u64().unwrap_or_default();
        match text(event, "type") {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => {
                said.push_str(text(&event["content_block"], "text"));
                let block = Growing::new(&event["content_block"]);
                if self.blocks.insert(index, block).is_some() {
                    let message = format!("block {index} begins twice");
                    return Err(ModelError::new("reply", message));
                }
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                // A delta of an unknown block counts as text.
                let block = self
                    .blocks
                    .entry(index)
                    .or_insert_with(|| Growing::new(&json!({"type": "text"})));
                block.text.push_str(text(delta, "text"));
                block.thinking.push_str(text(delta, "thinking"));
                block.signature.push_str(text(delta, "signature"));
                block.json.push_str(text(delta, "partial_json"));
                said.push_str(text(delta, "text"));
            }
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.finish = Some(reason.to_owned());
                }
                self.count(&event["usage"]);
                self.explain(&event["delta"]["stop_details"]);
            }
            "message_stop" => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    fn complete(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(&mut self) -> Result<ReadReply, ModelError> {
        let blocks = std::mem::take(&mut self.blocks).into_values();
        let counts = Value::Object(std::mem::take(&mut self.counts));
        let read = count(&counts, &["cache_read_input_tokens"]);
        let written = count(&counts, &["cache_creation_input_tokens"]);
        Ok(ReadReply {
            parts: blocks.flat_map(Growing::parts).collect(),
            usage: usage(
                // The API's `input_tokens` excludes tokens read from or written to the cache.
                count(&counts, &["input_tokens"]) + read + written,
                count(&counts, &["output_tokens"]),
                read,
                written,
                count(&counts, &["output_tokens_details", "thinking_tokens"]),
            ),
            charged: None,
            tier: text(&counts, "service_tier").to_owned(),
            finish: finish_of(self.finish.as_deref().unwrap_or_default()).to_owned(),
            notes: std::mem::take(&mut self.notes),
        })
    }

    fn whole(&mut self, answer: &Value) -> Result<ReadReply, ModelError> {
        let Some(content) = answer["content"].as_array() else {
            return Err(ModelError::new("reply", "the answer holds no content"));
        };
        for (index, block) in (0..).zip(content) {
            self.blocks.insert(index, Growing::new(block));
        }
        self.finish = answer["stop_reason"].as_str().map(str::to_owned);
        self.count(&answer["usage"]);
        self.explain(&answer["stop_details"]);
        self.finish()
    }
}

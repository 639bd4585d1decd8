//! Chat completions: the format introduced by OpenAI, which many servers support.
//!
//! A feature that a server does not support, such as a response format or a parameter, is omitted
//! after its first refusal. The refusal is remembered. The reader is lenient about differences
//! between servers and strict about the end: a stream without an end is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::answered::{Entry, answered};
use super::names::wire_name;
use super::reply::{ReadReply, Reader, count, text, usage};
use super::{Turn, Wire};
use crate::content::{Issuer, Message, Part, Role, TextPart, ThinkingPart, ToolCall};
use crate::errors::ModelError;
use crate::json::{Object, Value, json};
use crate::values::finish_of;

/// The response formats in the order in which they are tried.
const FORMATS: [&str; 3] = ["json_schema", "json_object", "none"];
/// Fields that can be omitted without changing the meaning of the request.
const DROPPABLE: [&str; 7] = [
    "temperature",
    "top_p",
    "stream_options",
    "max_tokens",
    "tool_choice",
    "reasoning_effort",
    "service_tier",
];
/// The maximum plausible reported cost. Above it, the cost is computed from the tokens.
const MOST_USD: f64 = 1e6;

#[derive(Debug, Default)]
struct Learnt {
    level: usize,
    without: BTreeSet<&'static str>,
}

pub(super) struct Chat {
    model: String,
    /// True if the server expects `max_completion_tokens` instead of `max_tokens`.
    new_limit: bool,
    learnt: Mutex<Learnt>,
}

impl Chat {
    pub(super) fn new(model: &str, new_limit: bool, schema: bool) -> Self {
        Self {
            model: model.to_owned(),
            new_limit,
            learnt: Mutex::new(Learnt {
                level: if schema { 0 } else { FORMATS.len() - 1 },
                ..Learnt::default()
            }),
        }
    }
}

impl Wire for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn body(&self, turn: &Turn<'_>, issuer: &Issuer) -> Result<Object, ModelError> {
        let learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        let (request, settings) = (turn.request, &turn.settings);
        let mut body = Object::new();
        let mut put = |name: &str, value: Value| {
            if !learnt.without.contains(name) && !value.is_null() {
                body.insert(name.to_owned(), value);
            }
        };
        put("model", json!(self.model));
        put(
            "messages",
            Value::Array(messages(request.conversation.messages(), issuer)),
        );
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|offer| {
                json!({"type": "function", "function": {
                    "name": wire_name(&offer.name),
                    "description": offer.description,
                    "parameters": offer.schema,
                }})
            });
            put("tools", tools.collect());
            if request.allowed.is_some_and(<[String]>::is_empty) {
                put("tool_choice", json!("none"));
            }
        }
        if let Some(schema) = request.schema {
            put(
                "response_format",
                match FORMATS[learnt.level] {
                    "json_schema" => json!({
                        "type": "json_schema",
                        "json_schema": {"name": "output", "schema": schema, "strict": false},
                    }),
                    "json_object" => json!({"type": "json_object"}),
                    _ => Value::Null,
                },
            );
        }
        put("temperature", json!(settings.temperature));
        put("top_p", json!(settings.top_p));
        put("reasoning_effort", json!(settings.effort));
        if settings.max_tokens > 0 {
            let name = if self.new_limit {
                "max_completion_tokens"
            } else {
                "max_tokens"
            };
            put(name, json!(settings.max_tokens));
        }
        if !settings.service_tier.is_empty() {
            put("service_tier", json!(settings.service_tier));
        }
        if turn.streaming {
            put("stream", json!(true));
            put("stream_options", json!({"include_usage": true}));
        }
        body.extend(settings.extra.clone());
        Ok(body)
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(ChatReader::default())
    }

    fn learn(&self, error: &ModelError) -> bool {
        if error.kind != "request" || !matches!(error.status, 400 | 404 | 422) {
            return false;
        }
        let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        let about_format = ["response_format", "json_schema", "json_object", "grammar"]
            .iter()
            .any(|mark| error.message.contains(mark));
        // Each round omits one more feature, so the loop ends after a few attempts.
        if about_format && learnt.level + 1 < FORMATS.len() {
            learnt.level += 1;
            return true;
        }
        let named = |name: &&str| error.message.contains(*name) && !learnt.without.contains(*name);
        match DROPPABLE.into_iter().find(named) {
            Some(name) => learnt.without.insert(name),
            None => false,
        }
    }
}

/// Returns the conversation with a result for every call.
fn messages(conversation: &[Message], issuer: &Issuer) -> Vec<Value> {
    answered(conversation)
        .into_iter()
        .map(|entry| match entry {
            Entry::Result { id, text, .. } => {
                json!({"role": "tool", "tool_call_id": id, "content": text})
            }
            Entry::Message(message) => match message.role {
                Role::Assistant => assistant(message, issuer),
                Role::System => json!({"role": "system", "content": message.content.text()}),
                _ => json!({"role": "user", "content": message.content.text()}),
            },
        })
        .collect()
}

fn assistant(message: &Message, issuer: &Issuer) -> Value {
    let said = message.content.text();
    let calls: Vec<Value> = message
        .content
        .calls()
        .iter()
        .map(|call| {
            json!({"id": call.id, "type": "function", "function": {
                "name": wire_name(&call.name),
                "arguments": if call.arguments.is_empty() { "{}" } else { &call.arguments },
            }})
        })
        .collect();
    let content = if said.is_empty() && !calls.is_empty() {
        Value::Null
    } else {
        json!(said)
    };
    let mut written = Object::from_iter([
        ("role".to_owned(), json!("assistant")),
        ("content".to_owned(), content),
    ]);
    if !calls.is_empty() {
        written.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    // Only the server that sent its thinking in a field expects it back there.
    if message.issuer.as_ref() == Some(issuer) {
        for part in message.content.to_parts() {
            if let Part::Thinking(thinking) = part
                && !thinking.echo.is_empty()
            {
                written.insert(thinking.echo, json!(thinking.text));
            }
        }
    }
    Value::Object(written)
}

#[derive(Debug, Default)]
struct ChatReader {
    text: String,
    thinking: String,
    echo: &'static str,
    refusal: String,
    calls: BTreeMap<u64, ToolCall>,
    usage: Value,
    tier: String,
    finish: Option<String>,
}

impl ChatReader {
    fn take(&mut self, message: &Value, said: &mut String) {
        let words = content_text(&message["content"]);
        said.push_str(&words);
        self.text.push_str(&words);
        for field in ["reasoning_content", "reasoning"] {
            if let Some(thought) = message.get(field).and_then(Value::as_str) {
                self.thinking.push_str(thought);
                if self.echo.is_empty() {
                    self.echo = field;
                }
                break;
            }
        }
        self.refusal.push_str(text(message, "refusal"));
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.grow(call);
        }
    }

    fn grow(&mut self, call: &Value) {
        let id = text(call, "id");
        let function = &call["function"];
        let name = text(function, "name");
        let last = self.calls.keys().next_back().copied();
        let next = last.map_or(0, |last| last + 1);
        let index = match call["index"].as_u64() {
            // Some servers send complete calls that all have the index 0.
            Some(index) => match self.calls.get(&index) {
                Some(known) if !id.is_empty() && known.id != id => next,
                _ => index,
            },
            // Without an index, a call with an id or a name is new; otherwise it continues the last
            // one.
            None if !id.is_empty() || !name.is_empty() => next,
            None => last.unwrap_or_default(),
        };
        let grown = self.calls.entry(index).or_default();
        if !id.is_empty() {
            id.clone_into(&mut grown.id);
        }
        if !name.is_empty() {
            name.clone_into(&mut grown.name);
        }
        match &function["arguments"] {
            Value::String(piece) => grown.arguments.push_str(piece),
            // Some servers send an object although the format requires a JSON string.
            Value::Object(whole) => grown.arguments = json!(whole).to_string(),
            _ => {}
        }
    }
}

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .map(|part| match part {
                Value::String(text) => text.as_str(),
                part => text(part, "text"),
            })
            .collect(),
        _ => String::new(),
    }
}

impl Reader for ChatReader {
    fn event(&mut self, event: &Value, said: &mut String) -> Result<bool, ModelError> {
        if !event["usage"].is_null() {
            self.usage = event["usage"].clone();
        }
        let tier = text(event, "service_tier");
        if !tier.is_empty() {
            tier.clone_into(&mut self.tier);
        }
        // The last event may contain only the usage.
        let choice = &event["choices"][0];
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish = Some(reason.to_owned());
        }
        self.take(&choice["delta"], said);
        Ok(false)
    }

    fn complete(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(&mut self) -> Result<ReadReply, ModelError> {
        let mut parts = Vec::new();
        if !self.thinking.is_empty() || !self.echo.is_empty() {
            parts.push(Part::Thinking(ThinkingPart {
                text: std::mem::take(&mut self.thinking),
                echo: self.echo.to_owned(),
            }));
        }
        let mut finish = finish_of(self.finish.as_deref().unwrap_or_default());
        let mut said = std::mem::take(&mut self.text);
        if !self.refusal.is_empty() {
            finish = "refusal";
            if said.is_empty() {
                said = std::mem::take(&mut self.refusal);
            }
        }
        if !said.is_empty() {
            parts.push(Part::Text(TextPart {
                text: said,
                ..TextPart::default()
            }));
        }
        parts.extend(
            std::mem::take(&mut self.calls)
                .into_values()
                .map(Part::Call),
        );
        let counts = &self.usage;
        let cached = count(counts, &["prompt_tokens_details", "cached_tokens"])
            .max(count(counts, &["prompt_cache_hit_tokens"]));
        let charged = counts["cost"]
            .as_f64()
            .filter(|cost| *cost > 0.0 && *cost < MOST_USD);
        Ok(ReadReply {
            parts,
            usage: usage(
                count(counts, &["prompt_tokens"]),
                count(counts, &["completion_tokens"]),
                cached,
                count(counts, &["prompt_tokens_details", "cache_write_tokens"]),
                count(counts, &["completion_tokens_details", "reasoning_tokens"]),
            ),
            charged,
            tier: std::mem::take(&mut self.tier),
            finish: finish.to_owned(),
            notes: Vec::new(),
        })
    }

    fn whole(&mut self, answer: &Value) -> Result<ReadReply, ModelError> {
        let choice = &answer["choices"][0];
        if !choice["message"].is_object() {
            return Err(ModelError::new("reply", "the answer holds no message"));
        }
        self.take(&choice["message"], &mut String::new());
        self.finish = choice["finish_reason"].as_str().map(str::to_owned);
        self.usage = answer["usage"].clone();
        text(answer, "service_tier").clone_into(&mut self.tier);
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;

    fn issuer() -> Issuer {
        Issuer {
            wire: "chat".to_owned(),
            host: "h".to_owned(),
            model: "m".to_owned(),
        }
    }

    #[test]
    fn a_call_that_comes_in_pieces_is_whole_with_and_without_indices() {
        let streams = [
            vec![
                json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": "{\"p\""}}),
                json!({"index": 0, "function": {"arguments": ": 1}"}}),
            ],
            vec![
                json!({"id": "a", "function": {"name": "read", "arguments": "{\"p\""}}),
                json!({"function": {"arguments": ": 1}"}}),
            ],
            vec![
                json!({"index": 0, "id": "a", "function": {"name": "read", "arguments": {"p": 1}}}),
            ],
        ];
        for pieces in streams {
            let mut reader = ChatReader::default();
            for piece in pieces {
                let event = json!({"choices": [{"delta": {"tool_calls": [piece]}}]});
                reader.event(&event, &mut String::new()).unwrap();
            }
            assert!(!reader.complete());
            let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
            reader.event(&end, &mut String::new()).unwrap();
            assert!(reader.complete());
            let reply = reader.finish().unwrap();
            let [Part::Call(call)] = reply.parts.as_slice() else {
                panic!("{reply:?}");
            };
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            assert_eq!((call.id.as_str(), arguments), ("a", json!({"p": 1})));
        }
    }

    #[test]
    fn every_call_has_a_result_and_thinking_goes_back_to_its_issuer_only() {
        let parts = vec![
            Part::Thinking(ThinkingPart {
                text: "hm".to_owned(),
                echo: "reasoning_content".to_owned(),
            }),
            Part::Call(ToolCall {
                name: "web.search".to_owned(),
                arguments: "{}".to_owned(),
                id: "a".to_owned(),
                ..ToolCall::default()
            }),
        ];
        let message = |issuer| Message {
            role: Role::Assistant,
            content: Content::Parts(parts.clone()),
            issuer,
        };
        let talk = [message(Some(issuer())), Message::new(Role::User, "go on")];
        let written = messages(&talk, &issuer());
        assert_eq!(written[0]["reasoning_content"], "hm");
        assert_eq!(
            written[0]["tool_calls"][0]["function"]["name"],
            "web__search"
        );
        assert_eq!(
            (&written[1]["role"], &written[1]["tool_call_id"]),
            (&json!("tool"), &json!("a"))
        );
        let foreign = messages(&[message(None)], &issuer());
        assert_eq!(foreign[0].get("reasoning_content"), None);
    }

    #[test]
    fn what_a_server_refuses_is_left_out_and_an_end_comes() {
        let chat = Chat::new("m", false, true);
        let refusal = |words: &str| {
            let mut error = ModelError::new("request", words);
            error.status = 400;
            error
        };
        assert!(chat.learn(&refusal("response_format is not supported")));
        assert!(chat.learn(&refusal("response_format is not supported")));
        assert!(!chat.learn(&refusal("response_format is not supported")));
        assert!(chat.learn(&refusal("unknown field temperature")));
        assert!(!chat.learn(&refusal("unknown field temperature")));
        assert!(!chat.learn(&refusal("no such model")));
    }
}

//! Models over HTTP: requests, parsing of responses, and retries.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use taofold::content::{Conversation, Message, Part, Role};
use taofold::errors::ModelError;
use taofold::model::{Model, Request, ToolOffer};
use taofold::providers::resolve;
use taofold::values::{ModelSettings, Reply};

/// A response of the server: its head, and a body that may be cut.
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// True if the server announces more content and closes the connection.
    cut: bool,
}

fn document(status: u16, body: &Value) -> Answer {
    Answer {
        status,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.to_string(),
        cut: false,
    }
}

fn stream(events: &[Value]) -> Answer {
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    Answer {
        status: 200,
        headers: vec![("content-type", "text/event-stream".to_owned())],
        body: events.collect(),
        cut: false,
    }
}

/// A server that returns prepared responses in order and stores the requests.
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for answer in answers {
                let (mut connection, _) = listener.accept().unwrap();
                kept.lock().unwrap().push(request(&mut connection));
                respond(&mut connection, &answer);
            }
        });
        Self { url, seen }
    }

    fn seen(&self) -> Vec<(String, Value)> {
        self.seen.lock().unwrap().clone()
    }
}

fn request(connection: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = connection.read(&mut chunk).unwrap();
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        });
        let length: usize = length.unwrap_or_default();
        if body.len() >= length {
            return (head.to_owned(), serde_json::from_str(body).unwrap());
        }
    }
}

fn respond(connection: &mut TcpStream, answer: &Answer) {
    let mut head = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = answer.body.len() + if answer.cut { 100 } else { 0 };
    head.push_str(&format!("content-length: {length}\r\n\r\n"));
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(answer.body.as_bytes()).unwrap();
}

fn model(spec: &str, server: &Server) -> Arc<dyn Model> {
    let environment = HashMap::from(
        [
            ("OPENAI_COMPATIBLE_BASE_URL", format!("{}/v1", server.url)),
            ("OPENAI_COMPATIBLE_API_KEY", "sk-test".to_owned()),
            ("ANTHROPIC_BASE_URL", server.url.clone()),
            ("ANTHROPIC_API_KEY", "sk-test".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let profile = json!({"profile": {"native_tools": true, "window": 100_000}});
    let profiles = json!({"openai-compatible:m": profile, "anthropic:claude-3-haiku": profile});
    let profiles = profiles.as_object().unwrap();
    resolve(&json!(spec), "openai", &environment, profiles).unwrap()
}

fn offers() -> Vec<ToolOffer> {
    vec![ToolOffer {
        name: "web.search".to_owned(),
        description: "searches".to_owned(),
        schema: json!({"type": "object"}),
    }]
}

async fn ask(model: &dyn Model, streamed: bool) -> (Result<Reply, ModelError>, String) {
    let conversation = Conversation::new([
        Message::new(Role::System, "be brief"),
        Message::new(Role::User, "go"),
    ]);
    let (offers, settings) = (offers(), ModelSettings::default());
    let heard = Mutex::new(String::new());
    let listen = |text: &str| heard.lock().unwrap().push_str(text);
    let reply = model
        .ask(Request {
            conversation: &conversation,
            tools: &offers,
            allowed: None,
            schema: None,
            settings: &settings,
            on_text: streamed.then_some(&listen),
        })
        .await;
    (reply, heard.into_inner().unwrap())
}

fn chat_document(text: &str) -> Value {
    json!({
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    })
}

#[tokio::test]
async fn a_chat_stream_becomes_text_calls_and_usage() {
    let server = Server::start(vec![stream(&[
        json!({"choices": [{"delta": {"content": "I sea"}}]}),
        json!({"choices": [{"delta": {"content": "rch."}}]}),
        json!({"choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": "c1", "function": {"name": "web__search", "arguments": "{\"q\""}},
        ]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [
            {"index": 0, "function": {"arguments": ": 1}"}},
        ]}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}),
    ])]);
    let (reply, heard) = ask(model("openai-compatible:m", &server).as_ref(), true).await;
    let reply = reply.unwrap();
    assert_eq!(
        (reply.text().as_str(), heard.as_str()),
        ("I search.", "I search.")
    );
    let [call] = &reply.calls()[..] else {
        panic!("{reply:?}");
    };
    assert_eq!(
        (call.name.as_str(), call.arguments.as_str()),
        ("web.search", "{\"q\": 1}")
    );
    assert_eq!((reply.usage.tokens(), reply.usage.usd), (10, None));
    let (head, body) = server.seen().remove(0);
    assert!(
        head.to_lowercase()
            .contains("authorization: bearer sk-test")
    );
    assert_eq!(
        body["messages"][0],
        json!({"role": "system", "content": "be brief"})
    );
    assert_eq!(body["tools"][0]["function"]["name"], "web__search");
    assert_eq!(body["stream"], true);
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_asked_for_again_and_never_taken_for_a_reply() {
    let half = Answer {
        cut: true,
        ..stream(&[json!({"choices": [{"delta": {"content": "hal"}}]})])
    };
    let server = Server::start(vec![half, document(200, &chat_document("whole"))]);
    let (reply, _) = ask(model("openai-compatible:m", &server).as_ref(), true).await;
    assert_eq!(reply.unwrap().text(), "whole");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_busy_server_is_asked_again_and_a_refusal_is_not() {
    let busy = Answer {
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("retry-after-ms", "5".to_owned()),
        ],
        ..document(429, &json!({"error": {"message": "slow down"}}))
    };
    let server = Server::start(vec![busy, document(200, &chat_document("there"))]);
    let (reply, _) = ask(model("openai-compatible:m", &server).as_ref(), false).await;
    assert_eq!(reply.unwrap().text(), "there");
    let refusal = json!({"error": {"message": "wrong key sk-test", "code": "invalid_api_key"}});
    let server = Server::start(vec![document(401, &refusal)]);
    let (reply, _) = ask(model("openai-compatible:m", &server).as_ref(), false).await;
    let error = reply.unwrap_err();
    assert_eq!((error.kind.as_str(), error.status), ("auth", 401));
    assert!(!error.message.contains("sk-test"), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn an_error_inside_of_an_answer_is_an_error() {
    let overflow = json!({"error": {"code": "context_length_exceeded", "message": "too long"}});
    let server = Server::start(vec![document(200, &overflow)]);
    let (reply, _) = ask(model("openai-compatible:m", &server).as_ref(), false).await;
    assert_eq!(reply.unwrap_err().kind, "overflow");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let elsewhere = Server::start(Vec::new());
    let moved = Answer {
        headers: vec![("location", format!("{}/v1/chat/completions", elsewhere.url))],
        ..document(307, &json!({}))
    };
    let server = Server::start(vec![moved]);
    let (reply, _) = ask(model("openai-compatible:m", &server).as_ref(), false).await;
    assert_eq!(reply.unwrap_err().status, 307);
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_messages_stream_keeps_signed_thinking_whole_and_prices_what_was_used() {
    let server = Server::start(vec![stream(&[
        json!({"type": "message_start", "message": {"usage": {
            "input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1,
        }}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "signature_delta", "signature": "sig"}}),
        json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": "t1", "name": "web__search", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": "{\"q\": 2}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ])]);
    let (reply, _) = ask(model("anthropic:claude-3-haiku", &server).as_ref(), true).await;
    let reply = reply.unwrap();
    let parts = reply.content.to_parts();
    let Part::Opaque(thinking) = &parts[0] else {
        panic!("{parts:?}");
    };
    let block: Value = serde_json::from_str(&thinking.data).unwrap();
    assert_eq!(
        block,
        json!({"type": "thinking", "thinking": "hm", "signature": "sig"})
    );
    assert_eq!(reply.content.thinking(), "hm");
    assert_eq!(reply.calls()[0].name, "web.search");
    assert_eq!(
        (reply.finish.as_str(), reply.usage.input_tokens),
        ("tool_calls", 100)
    );
    assert!(reply.usage.usd.unwrap() > 0.0);
    let (head, body) = server.seen().remove(0);
    assert!(head.to_lowercase().contains("x-api-key: sk-test"));
    assert_eq!(body["system"][0]["text"], "be brief");
    assert_eq!(body["messages"][0]["role"], "user");
}

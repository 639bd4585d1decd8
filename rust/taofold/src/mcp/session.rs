//! A session with one server: opens, requests, closes. The messages are those of the crate `rmcp`.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, PeerRequestOptions, RunningService,
    ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};

use super::Options;
use super::address::{Address, with_environment};
use crate::json::{Object, Value, to_value};
use crate::process::Group;
use crate::text::clip;

/// The maximum size of one server message in bytes: a result, or a page of its tools.
const LARGEST: usize = 32 * 1024 * 1024;
const MOST_PAGES: usize = 100;
/// The variables that a program inherits; all others may be secrets.
const INHERITED: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
/// The variable that names the tool that started a program for an agent.
const MARK: &str = "TAOFOLD_STARTED_BY";
/// The time for which a program may shut down by itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of lines kept from a program's standard error.
const LINES: usize = 3;
/// The maximum number of characters of such a line.
const LINE: usize = 300;

/// The error of a server that did not answer.
#[derive(Debug, Clone)]
pub(super) struct Unanswered {
    pub(super) why: String,
    /// True if the time limit was reached.
    pub(super) late: bool,
}

impl Unanswered {
    fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            late: false,
        }
    }
}

/// The handler for notifications of the server.
#[derive(Debug, Clone, Default)]
struct Client {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        // No capabilities: a server must not ask users or models through this client.
        let own = Implementation::new("taofold", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }
}

type Tail = Arc<Mutex<VecDeque<String>>>;

/// An open session.
#[derive(Debug)]
pub(super) struct Session {
    running: tokio::sync::Mutex<Option<RunningService<RoleClient, Client>>>,
    peer: rmcp::Peer<RoleClient>,
    words: String,
    changed: Arc<AtomicBool>,
    /// True for a session of the protocol's older era.
    pub(super) legacy: bool,
    program: tokio::sync::Mutex<Option<Program>>,
    tail: Tail,
}

#[derive(Debug)]
struct Program {
    child: Child,
    /// The process group, so that background processes end with the session.
    _group: Group,
}

impl Session {
    pub(super) async fn open(
        label: &str,
        address: &Address,
        options: &Options,
    ) -> Result<Self, Unanswered> {
        let tail = Tail::default();
        let words = address.words();
        let client = Client::default();
        let changed = Arc::clone(&client.changed);
        let mode = if options.legacy {
            ClientLifecycleMode::Initialize
        } else {
            ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: None,
            }
        };
        let seconds = options.connect_timeout;
        let (program, greeting) = match address {
            Address::Stdio { .. } => {
                let (program, transport) = start(label, address, &tail)?;
                let serving = client.serve_with_lifecycle(transport, mode);
                (Some(program), tokio::time::timeout(seconds, serving).await)
            }
            Address::Http { .. } => {
                let transport = reach(address)?;
                let serving = client.serve_with_lifecycle(transport, mode);
                (None, tokio::time::timeout(seconds, serving).await)
            }
        };
        let unreachable = |why: String| {
            let last = last_words(&tail);
            Unanswered::new(format!("{words} cannot be reached: {why}{last}"))
        };
        let running = match greeting {
            Ok(Ok(running)) => running,
            Ok(Err(error)) => {
                if program.is_some() {
                    // Its error output may still be in the pipe.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                return Err(unreachable(clip(&error.to_string(), LINE)));
            }
            Err(_) => {
                let seconds = seconds.as_secs_f64();
                return Err(unreachable(format!("it did not answer within {seconds} s")));
            }
        };
        let legacy = running
            .peer_info()
            .is_none_or(|info| info.protocol_version < ProtocolVersion::V_2026_07_28);
        Ok(Self {
            peer: running.peer().clone(),
            running: tokio::sync::Mutex::new(Some(running)),
            words,
            changed,
            legacy,
            program: tokio::sync::Mutex::new(program),
            tail,
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Returns true if the server has announced a change of its list since the last call.
    pub(super) fn has_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// Returns the elements of the server's list of tools, unchanged.
    pub(super) async fn list(&self, limit: Duration) -> Result<Vec<Value>, Unanswered> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest {
                params: Some(params),
                ..ListToolsRequest::default()
            };
            let page = self
                .ask(ClientRequest::ListToolsRequest(request), limit)
                .await
                .map_err(|error| Unanswered {
                    why: format!(
                        "the tools of {} cannot be listed: {}",
                        self.words, error.why
                    ),
                    ..error
                })?;
            match page.get("tools") {
                Some(Value::Array(listed)) => tools.extend(listed.iter().cloned()),
                None | Some(Value::Null) => {}
                Some(listed) => tools.push(listed.clone()),
            }
            cursor = match page.get("nextCursor") {
                Some(Value::String(next)) if !next.is_empty() => Some(next.clone()),
                Some(Value::Number(next)) => Some(next.to_string()),
                _ => return Ok(tools),
            };
        }
        Ok(tools)
    }

    /// Returns the server's result of a call.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: Object,
        limit: Duration,
    ) -> Result<Value, Unanswered> {
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        self.ask(request, limit).await
    }

    async fn ask(&self, request: ClientRequest, limit: Duration) -> Result<Value, Unanswered> {
        let options = PeerRequestOptions::with_timeout(limit);
        let asked = self.peer.send_request_with_option(request, options).await;
        let answered = match asked {
            Ok(handle) => handle.await_response().await,
            Err(error) => Err(error),
        };
        match answered {
            // A list or result with an invalid element is returned as it was sent.
            Ok(ServerResult::CustomResult(result)) => Ok(result.0),
            Ok(result) => Ok(to_value(&result)),
            Err(error) => Err(self.told(&error, limit)),
        }
    }

    fn told(&self, error: &ServiceError, limit: Duration) -> Unanswered {
        let words = &self.words;
        match error {
            ServiceError::Timeout { .. } => Unanswered {
                why: format!("{words} did not answer within {} s", limit.as_secs_f64()),
                late: true,
            },
            ServiceError::McpError(error) => Unanswered::new(format!(
                "the server {words}: error {}: {}",
                error.code.0,
                clip(&error.message, 2000)
            )),
            ServiceError::TransportSend(error) => Unanswered::new(format!(
                "{words}: {}; it may have happened{}",
                clip(&error.to_string(), LINE),
                last_words(&self.tail)
            )),
            ServiceError::TransportClosed => Unanswered::new(format!(
                "{words} went away in the middle of a call{}; it may have happened",
                last_words(&self.tail)
            )),
            other => Unanswered::new(format!("{words}: {}", clip(&other.to_string(), LINE))),
        }
    }

    /// Ends the session and the program, which may first shut down by itself.
    pub(super) async fn close(&self) {
        if let Some(mut running) = self.running.lock().await.take() {
            let _ = running.close_with_timeout(PATIENCE).await;
        }
        if let Some(mut program) = self.program.lock().await.take() {
            let _ = tokio::time::timeout(PATIENCE, program.child.wait()).await;
        }
    }
}

type Pipes = AsyncRwTransport<RoleClient, tokio::process::ChildStdout, tokio::process::ChildStdin>;

fn start(label: &str, address: &Address, tail: &Tail) -> Result<(Program, Pipes), Unanswered> {
    let Address::Stdio {
        command,
        args,
        env,
        cwd,
    } = address
    else {
        return Err(Unanswered::new("it is no program"));
    };
    let env = with_environment(env).map_err(|error| Unanswered::new(error.message))?;
    let inherited = INHERITED
        .iter()
        .filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let started = Command::new(command)
        .args(args)
        .current_dir(cwd)
        .env_clear()
        .envs(inherited)
        .envs(env)
        // The mark is set last, so that an agent file cannot clear it.
        .env(MARK, format!("MCP server {label}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let wrong =
        |why: String| Unanswered::new(format!("{} cannot be started: {why}", address.words()));
    let mut child = started.map_err(|error| wrong(error.to_string()))?;
    let group = Group(child.id());
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(wrong("it has no pipes".to_owned()));
    };
    if let Some(errors) = child.stderr.take() {
        tokio::spawn(listen(errors, Arc::clone(tail)));
    }
    let transport = AsyncRwTransport::new_client(output, input).with_max_line_length(LARGEST);
    let program = Program {
        child,
        _group: group,
    };
    Ok((program, transport))
}

/// Keeps the last lines of a program's standard error and discards the rest.
async fn listen(errors: ChildStderr, tail: Tail) {
    let mut reader = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without an end is read in pieces, to bound the memory.
        let mut piece = tokio::io::AsyncReadExt::take(&mut reader, 64 * 1024);
        match piece.read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            _ => return,
        }
        let text = clip(String::from_utf8_lossy(&line).trim(), LINE);
        if text.is_empty() {
            continue;
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.push_back(text);
        if tail.len() > LINES {
            tail.pop_front();
        }
    }
}

fn last_words(tail: &Tail) -> String {
    let tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    let lines: Vec<&str> = tail.iter().map(String::as_str).collect();
    match lines.as_slice() {
        [] => String::new(),
        lines => format!("; its last words: {}", clip(&lines.join(" | "), LINE)),
    }
}

fn reach(address: &Address) -> Result<StreamableHttpClientTransport<reqwest::Client>, Unanswered> {
    let Address::Http { url, headers } = address else {
        return Err(Unanswered::new("it has no address"));
    };
    let headers = with_environment(headers).map_err(|error| Unanswered::new(error.message))?;
    let mut map = HeaderMap::new();
    for (name, value) in &headers {
        // A value is a secret. The crate's error would not contain it, and neither does this one.
        let wrong = || Unanswered::new(format!("the header {name:?} cannot be sent"));
        let key: HeaderName = name.parse().map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    // One cryptography provider for the process; it may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .default_headers(map)
        // A redirect would pass the headers to another host.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| Unanswered::new(error.to_string()))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.max_sse_event_size = LARGEST;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

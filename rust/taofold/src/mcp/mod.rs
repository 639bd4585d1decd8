//! Servers of the Model Context Protocol: their tools as tools of a run.
//!
//! [`Server::tools`] starts or contacts a [`Server`] and returns its tools. Their calls use the
//! same session, which is opened again if it broke. Definitions are untrusted data: a server never
//! lowers a tier unless the file has `trust`, and a tool that changed since the first contact is
//! not called. A session lives on the tokio runtime that opened it. The crate `rmcp` implements the
//! protocol.

mod address;
mod content;
mod definitions;

mod session;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

pub use self::address::Address;
use self::definitions::{Definition, Pins, RENAMED, RESERVED, differences, safe_names};

use self::session::{Session, Unanswered};
use crate::errors::ConfigError;
use crate::json::{Object, Value, json};
use crate::schema::Schema;
use crate::tools::{CallContext, Declared, Tool, literal};
use crate::values::{Observation, ObservationStatus};

/// The default time for which a list counts as fresh.
const STALE: Duration = Duration::from_secs(300);
/// The maximum duration of a call, in seconds.
const LONGEST_S: f64 = 3600.0;
/// The maximum number of tools of one server.
const MOST_TOOLS: usize = 512;

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The only tools to use, by the server's names; `None` for all.
    pub tools: Option<Vec<String>>,
    /// True if its hints about its tools are trusted: a read-only tool then has tier 1.
    pub trust: bool,
    /// The default duration of a call, in seconds.
    pub timeout: f64,
    /// The maximum time for starting and connecting, and again for listing.
    pub connect_timeout: Duration,
    /// True if the agent needs the server; otherwise only its tools are missing.
    pub required: bool,
    /// True if the connection starts with the protocol's older handshake.
    pub legacy: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tools: None,
            trust: false,
            timeout: 60.0,
            connect_timeout: Duration::from_secs(30),
            required: true,
            legacy: false,
        }
    }
}

/// One server.
#[derive(Debug)]
pub struct Server {
    label: String,
    address: Address,
    options: Options,
    pins: Pins,
    work: tokio::sync::Mutex<Work>,
}

/// The session and its list of tools.
#[derive(Debug, Default)]
struct Work {
    session: Option<Arc<Session>>,
    listed: Arc<Listing>,
    until: Option<Instant>,
}

#[derive(Debug, Default)]
struct Listing {
    definitions: BTreeMap<String, Definition>,
    /// The names of all tools that it lists, used or not.
    names: Vec<String>,
    /// The tools that cannot be offered, with the reasons.
    skipped: Vec<String>,
}

/// The tools of a server, with notes for the user.
#[derive(Debug)]
pub struct Offer {
    /// The tools.
    pub tools: Vec<Arc<RemoteTool>>,
    /// The listed tools that cannot be offered, with the reasons.
    pub skipped: Vec<String>,
}

impl Server {
    /// Returns a server without contacting it. Accepted definitions are stored in the folder `mcp`
    /// of `operator`.
    pub fn new(
        label: impl Into<String>,
        address: Address,
        options: Options,
        operator: &Path,
    ) -> Self {
        let name = format!("{}-{}.json", address.label(), address.digest());
        Self {
            label: label.into(),
            pins: Pins::new(operator.join("mcp").join(name), address.words()),
            address,
            options,
            work: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the accepted tools without contacting the server, for a replay.
    ///
    /// # Errors
    ///
    /// The accepted definitions cannot be read.
    pub fn accepted(self: &Arc<Self>) -> Result<Offer, ConfigError> {
        let known = self.pins.known()?.unwrap_or_default();
        Ok(Offer {
            tools: self.offered(known.values().cloned(), &known)?,
            skipped: Vec::new(),
        })
    }

    /// Starts or contacts the server and returns its accepted tools.
    ///
    /// On first contact, all listed tools are accepted.
    ///
    /// # Errors
    ///
    /// The server is required and cannot be reached, or lacks the named tools.
    pub async fn tools(self: &Arc<Self>) -> Result<Offer, ConfigError> {
        let listing = match self.listed().await {
            Ok(listing) => listing,
            // The accepted definitions serve while the server is not reachable; each call then
            // fails.
            Err(_) if self.pins.known()?.is_some() => return self.accepted(),
            Err(_) if !self.options.required => {
                return Ok(Offer {
                    tools: Vec::new(),
                    skipped: Vec::new(),
                });
            }
            Err(Unanswered { why, .. }) => {
                return Err(ConfigError::new(
                    self.path(),
                    format!("mcp server {:?}: {why}", self.label),
                ));
            }
        };
        let known = match self.pins.known()? {
            Some(known) => known,
            None => {
                self.pins.meet(listing.definitions.values())?;
                listing.definitions.clone()
            }
        };
        self.refuse_missing(&listing)?;
        let offered = listing.definitions.values().map(|listed| {
            let accepted = known.get(&listed.name).cloned();
            accepted.unwrap_or_else(|| listed.without_prose())
        });
        Ok(Offer {
            tools: self.offered(offered, &known)?,
            skipped: listing
                .skipped
                .iter()
                .map(|flaw| format!("mcp server {:?}: a tool is left out: {flaw}", self.label))
                .collect(),
        })
    }

    /// Ends the session and the program. A later call opens it again.
    pub async fn close(&self) {
        let session = std::mem::take(&mut *self.work.lock().await).session;
        if let Some(session) = session {
            session.close().await;
        }
    }

    fn path(&self) -> String {
        format!("mcp.{}", self.label)
    }

    fn refuse_missing(&self, listing: &Listing) -> Result<(), ConfigError> {
        let wanted = self.options.tools.iter().flatten();
        let missing: Vec<&String> = wanted
            .filter(|name| !listing.definitions.contains_key(*name))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!(
            "mcp server {:?} has no tools {missing:?}; it has {}",
            self.label,
            listing.names.join(", ")
        );
        Err(ConfigError::new(self.path(), message))
    }

    fn is_wanted(&self, name: &str) -> bool {
        let tools = self.options.tools.as_ref();
        tools.is_none_or(|tools| tools.iter().any(|it| it == name))
    }

    fn offered(
        self: &Arc<Self>,
        definitions: impl Iterator<Item = Definition>,
        known: &BTreeMap<String, Definition>,
    ) -> Result<Vec<Arc<RemoteTool>>, ConfigError> {
        let definitions: Vec<Definition> =
            definitions.filter(|it| self.is_wanted(&it.name)).collect();
        // Includes tools that are currently missing: their names stay taken.
        let names: Vec<&str> = match &self.options.tools {
            Some(tools) => tools.iter().map(String::as_str).collect(),
            None => definitions
                .iter()
                .map(|it| it.name.as_str())
                .chain(known.keys().map(String::as_str))
                .collect(),
        };
        let named = safe_names(names, &format!("{}_", self.label));
        let tool = |definition: Definition| {
            let name = named.get(&definition.name).cloned().unwrap_or_default();
            RemoteTool::new(Arc::clone(self), definition, name).map(Arc::new)
        };
        definitions.into_iter().map(tool).collect()
    }

    /// Returns the server's list, renewed after a reconnection or when it is no longer fresh.
    async fn listed(&self) -> Result<Arc<Listing>, Unanswered> {
        let mut work = self.work.lock().await;
        let session = match work.session.take().filter(|it| !it.is_closed()) {
            Some(session) => {
                if work.until.is_some_and(|until| Instant::now() < until) && !session.has_changed()
                {
                    work.session = Some(session);
                    return Ok(Arc::clone(&work.listed));
                }
                session
            }
            None => Arc::new(Session::open(&self.label, &self.address, &self.options).await?),
        };
        let listed = session.list(self.options.connect_timeout).await?;
        let mut listing = Listing::default();
        for raw in listed {
            let name = raw.get("name").and_then(Value::as_str).unwrap_or_default();
            listing.names.push(name.to_owned());
            if !self.is_wanted(name) {
                continue;
            }
            match Definition::read(&raw, session.legacy) {
                Ok(definition) if listing.definitions.len() < MOST_TOOLS => {
                    listing
                        .definitions
                        .insert(definition.name.clone(), definition);
                }
                Ok(definition) => {
                    let name = literal(&json!(definition.name));
                    listing
                        .skipped
                        .push(format!("{name}: more than {MOST_TOOLS} tools"));
                }
                Err(flaw) => listing
                    .skipped
                    .push(crate::text::visible(&flaw).into_owned()),
            }
        }
        work.session = Some(session);
        work.until = Some(Instant::now() + STALE);
        work.listed = Arc::new(listing);
        Ok(Arc::clone(&work.listed))
    }

    async fn call(&self, pinned: &Definition, arguments: Object, limit: Duration) -> Observation {
        let listing = match self.listed().await {
            Ok(listing) => listing,
            Err(Unanswered { why, .. }) => return Observation::failure(why),
        };
        let label = literal(&json!(self.label));
        let name = literal(&json!(pinned.name));
        let Some(now) = listing.definitions.get(&pinned.name) else {
            return Observation::failure(format!("{} does not offer {name} any more", self.label));
        };
        if let Err(why) = self.accept(pinned, now) {
            return Observation::failure(format!("the server {label} {why}"));
        }
        let Some(session) = self.work.lock().await.session.clone() else {
            return Observation::failure(format!("the server {label} was closed"));
        };
        let result = match session.call(&now.name, arguments, limit).await {
            Ok(result) => result,
            Err(Unanswered { why, late }) => {
                return Observation {
                    status: if late {
                        ObservationStatus::Timeout
                    } else {
                        ObservationStatus::Failure
                    },
                    ..Observation::failure(why)
                };
            }
        };
        match unfinished(&result) {
            Some(why) => Observation::failure(why),
            // A structured result that violates its schema would be mistaken for data of that
            // shape.
            None => match broken_promise(now, &result) {
                Some(why) => Observation::failure(format!(
                    "the result of {name} is not what its server promised: {why}"
                )),
                None => content::observation(&result),
            },
        }
    }

    /// Checks that the current tool equals the accepted one and the one for which the call was
    /// allowed.
    fn accept(&self, pinned: &Definition, now: &Definition) -> Result<(), String> {
        let name = literal(&json!(pinned.name));
        let known = self.pins.known().map_err(|error| error.to_string())?;
        let accepted = known.as_ref().and_then(|known| known.get(&pinned.name));
        match accepted {
            Some(accepted) if accepted.digest() == now.digest() => {
                if now.digest() == pinned.digest() {
                    return Ok(());
                }
                Err(format!(
                    "changed its tool {name}, which was accepted since this call was allowed: it \
                     was not called"
                ))
            }
            Some(accepted) => Err(format!(
                "changed its tool {name} since it was accepted: {}. It was not called. A run of the \
                 Python runtime asks a person about it",
                differences(accepted, now)
            )),
            None => Err(format!(
                "has a new tool {name}, which no person has accepted. It was not called. A run of \
                 the Python runtime asks a person about it"
            )),
        }
    }
}

/// Returns the reason why a result is not complete yet.
fn unfinished(result: &Value) -> Option<&'static str> {
    match result.get("resultType").and_then(Value::as_str) {
        Some("input_required") => {
            Some("the server asks a question, which this runtime does not put to a person yet")
        }
        Some("task") => {
            Some("the server made a task of the call, which this runtime does not follow")
        }
        _ => None,
    }
}

fn broken_promise(definition: &Definition, result: &Value) -> Option<String> {
    let output = definition.output.clone()?;
    if content::is_error(result) {
        return None;
    }
    let schema = Schema::new(Value::Object(output)).ok()?;
    match result.get("structuredContent") {
        None | Some(Value::Null) => Some("there is none".to_owned()),
        Some(value) => schema.check(value).err(),
    }
}

/// A tool of a server.
#[derive(Debug)]
pub struct RemoteTool {
    server: Arc<Server>,
    definition: Definition,
    declared: Declared,
    check: Schema,
}

impl RemoteTool {
    fn new(server: Arc<Server>, definition: Definition, name: String) -> Result<Self, ConfigError> {
        let (tier, effect) = definition.tier_and_effect(server.options.trust);
        let schema = definition.shown_schema();
        let check = Schema::new(schema.clone())
            .map_err(|why| ConfigError::new(server.path(), format!("{name}: {why}")))?;
        Ok(Self {
            declared: Declared {
                effect,
                tier,
                ..Declared::new(name, definition.shown_description(), schema)
            },
            server,
            definition,
            check,
        })
    }

    /// Returns the maximum duration of a call, in seconds.
    fn seconds(&self, parameters: &Object) -> f64 {
        let wish = parameters.get(RESERVED).and_then(Value::as_f64);
        wish.filter(|it| *it > 0.0)
            .unwrap_or(self.server.options.timeout)
            .min(LONGEST_S)
    }
}

#[async_trait]
impl Tool for RemoteTool {
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn check(&self, parameters: &Object) -> Result<(), String> {
        let mut parameters = parameters.clone();
        parameters.shift_remove(RESERVED);
        self.check.check(&Value::Object(parameters))
    }

    async fn call(&self, mut parameters: Object, _: CallContext) -> Observation {
        let limit = Duration::try_from_secs_f64(self.seconds(&parameters));
        parameters.shift_remove(RESERVED);
        // A parameter with a reserved name was shown under another name.
        if let Some(own) = parameters.shift_remove(RENAMED) {
            parameters.insert(RESERVED.to_owned(), own);
        }
        let limit = limit.unwrap_or(Duration::from_secs(60));
        self.server.call(&self.definition, parameters, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Tier;
    use crate::values::Sideeffect;

    const GREETING: &str = r#"read a; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}'; read b;"#;
    const LIST: &str = r#"read c; echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[7,{"name":"bad","inputSchema":1},{"name":"count","inputSchema":{"required":["n"]},"annotations":{"readOnlyHint":true}}]}}';"#;
    const ODD: &str =
        r#"read d; echo '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"new"},"plain"]}}';"#;

    fn server(script: &str, folder: &Path) -> Arc<Server> {
        let path = folder.join("server.sh");
        std::fs::write(&path, script).unwrap();
        let address = Address::Stdio {
            command: "/bin/sh".to_owned(),
            args: vec![path.to_string_lossy().into_owned()],
            env: BTreeMap::new(),
            cwd: folder.to_owned(),
        };
        let options = Options {
            legacy: true,
            connect_timeout: Duration::from_secs(5),
            timeout: 0.3,
            ..Options::default()
        };
        Arc::new(Server::new("x", address, options, folder))
    }

    async fn called(tool: &RemoteTool) -> Observation {
        let parameters = json!({"n": 1}).as_object().cloned().unwrap_or_default();
        tool.call(parameters, CallContext::new("r", "r/0/0")).await
    }

    #[tokio::test]
    async fn a_bad_tool_and_a_bad_block_spoil_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let server = server(&format!("{GREETING} {LIST} {ODD} sleep 9"), folder.path());
        let offer = server.tools().await.unwrap();
        let [tool] = offer.tools.as_slice() else {
            panic!("{offer:?}")
        };
        assert_eq!(tool.name(), "x_count");
        assert_eq!((tool.tier(), tool.effect()), (Tier::Card, Sideeffect::Once));
        assert_eq!(offer.skipped.len(), 2);
        assert!(tool.check(&Object::new()).is_err());
        let observation = called(tool).await;
        let text = "[new that cannot be shown: {'type': 'new'}]\nplain";
        assert_eq!(observation.result, text, "{observation:?}");
        server.close().await;
        let accepted = server.accepted().unwrap();
        assert_eq!(accepted.tools[0].declared(), tool.declared());
    }

    #[tokio::test]
    async fn a_server_that_goes_away_or_keeps_silent_fails_the_call_only() {
        for (end, said) in [
            ("echo no more >&2; exit", "it may have happened"),
            ("sleep 9", "did not answer within 0.3 s"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let server = server(&format!("{GREETING} {LIST} read d; {end}"), folder.path());
            let offer = server.tools().await.unwrap();
            let observation = called(&offer.tools[0]).await;
            assert!(observation.status.failed());
            let text = crate::json::render(&observation.result);
            assert!(text.contains(said), "{text}");
        }
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_is_an_error_unless_it_was_met() {
        let folder = tempfile::tempdir().unwrap();
        let gone = server("echo no licence >&2", folder.path());
        let error = gone.tools().await.unwrap_err();
        assert!(error.to_string().contains("no licence"), "{error}");
        gone.pins.meet(std::iter::empty()).unwrap();
        assert!(gone.tools().await.unwrap().tools.is_empty());
    }
}

//! Agents from files: an agent or a flow in YAML, with its models, tools, limits and policy.
//!
//! A [`Choice`] holds the command-line settings, or those that a run recorded. [`Agent::make`]
//! builds its agent. The keys and their meaning are those of the Python runtime. Keys that this
//! runtime does not know are rejected, and so are tools that only Python can run.

mod builtin;
mod choice;
mod command;
mod diff;
mod files;
mod flow_tools;
mod jail;
mod lines;
mod policy_file;
mod servers;
mod syscall_filter;
mod tools;
pub(crate) mod types;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;

use self::builtin::CommandTool;
pub use self::choice::{Choice, Place};
use self::command::Shell;
use self::jail::Jail;
pub use self::lines::line_of;
use self::policy_file::PolicyKeys;
use self::tools::InlineTool;
use self::types::Kind;
use crate::effects::{Answer, Coroutine};
use crate::errors::{ConfigError, ModelError};
use crate::events::RunStarted;
use crate::flow::Flow;
use crate::json::{Object, Value, json};
use crate::mcp::{RemoteTool, Server};
use crate::model::{Model, Models, Request, ToolOffer};
use crate::policy::{Limits, Policy, Redactor};
use crate::providers;
use crate::runtime::{Setup, Subagent};
use crate::strategy::{
    Cot, Decompose, Direct, Offer, Output, Plan, React, SelfCorrect, Strategy, Task, is_native,
};
use crate::text::near;
use crate::tools::{Tool, Toolset};
use crate::values::{ASK_USER, FINISH, ModelSettings, Profile, Reply, StepRole};

/// The keys of agent files that a flow file shares; all others define the graph.
const SHARED: [&str; 21] = [
    "model",
    "models",
    "tools",
    "mcp",
    "discover",
    "limits",
    "policy",
    "ask_user",
    "strict",
    "research",
    "on_denial",
    "cache",
    "max_tokens",
    "temperature",
    "top_p",
    "effort",
    "prompt_cache",
    "service_tier",
    "extra",
    "name",
    "description",
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentKeys {
    #[serde(default)]
    model: Value,
    #[serde(default)]
    output: Value,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    instructions: String,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    mcp: Object,
    #[serde(default)]
    discover: Value,
    #[serde(default)]
    strategy: Option<String>,
    #[serde(default)]
    limits: LimitKeys,
    #[serde(default)]
    policy: Value,
    #[serde(default)]
    models: BTreeMap<String, Value>,
    #[serde(default)]
    ask_user: bool,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    research: bool,
    #[serde(default)]
    on_denial: OnDenial,
    #[serde(default, rename = "cache")]
    _cache: bool,
    #[serde(default)]
    max_tokens: u64,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    top_p: Option<f64>,
    #[serde(default)]
    effort: Option<String>,
    #[serde(default)]
    prompt_cache: String,
    #[serde(default)]
    service_tier: String,
    #[serde(default)]
    extra: Object,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnDenial {
    #[default]
    Continue,
    Stop,
}

/// The bounds of a run in files and on the command line; `None` if unset.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitKeys {
    steps: Option<u64>,
    model_calls: Option<u64>,
    tool_calls: Option<u64>,
    seconds: Option<f64>,
    tokens: Option<u64>,
    usd: Option<f64>,
    #[serde(default)]
    per_tool: BTreeMap<String, u64>,
    parse_retries: Option<usize>,
    depth: Option<u32>,
}

impl LimitKeys {
    fn over(&self, base: Limits) -> Limits {
        let mut per_tool = base.per_tool;
        per_tool.extend(self.per_tool.clone());
        Limits {
            steps: self.steps.or(base.steps),
            model_calls: self.model_calls.or(base.model_calls),
            tool_calls: self.tool_calls.or(base.tool_calls),
            seconds: self.seconds.or(base.seconds),
            tokens: self.tokens.or(base.tokens),
            usd: self.usd.or(base.usd),
            per_tool,
            parse_retries: self.parse_retries.unwrap_or(base.parse_retries),
            depth: self.depth.map_or(base.depth, i64::from),
        }
    }
}

/// The placeholder for the model of a flow that calls none. It refuses every call.
#[derive(Debug, Default)]
struct UnaskedModel(Profile);

#[async_trait]
impl Model for UnaskedModel {
    fn name(&self) -> &str {
        "no model"
    }

    fn profile(&self) -> &Profile {
        &self.0
    }

    async fn ask(&self, _: Request<'_>) -> Result<Reply, ModelError> {
        Err(ModelError::new("request", NO_MODEL))
    }
}

const NO_MODEL: &str = "no model: pass --model provider:model, set TAOFOLD_MODEL, or write `model:` \
                        in the agent file or in .taofold/config.yml";

/// An agent that can start, resume and replay runs.
#[derive(Debug)]
pub struct Agent {
    name: String,
    instructions: String,
    strategy: Arc<dyn Strategy>,
    output: Output,
    strict: bool,
    research: bool,
    ask_user: bool,
    attempts: usize,
    choice: Choice,
    servers: Vec<Arc<Server>>,
    /// The agents that a flow calls, until their tools are known.
    unlinked: Vec<(String, Agent)>,
    /// The agents that a flow calls, after their tools are known.
    linked: Vec<Arc<Agent>>,
    description: String,
    /// The setup of its runs.
    pub setup: Setup,
}

impl Agent {
    /// Makes the agent of a choice, under the operator's policy.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the location of the first error in the file, the policies or the
    /// models.
    pub fn make(choice: &Choice, place: &Place) -> Result<Self, ConfigError> {
        Self::make_asked(choice, place, None, &[])
    }

    /// Makes an agent, under the policy of the agent that calls it, if there is one.
    ///
    /// A file in `askers` must not be called again.
    fn make_asked(
        choice: &Choice,
        place: &Place,
        above: Option<&Policy>,
        askers: &[PathBuf],
    ) -> Result<Self, ConfigError> {
        let operator = place.operator_policy()?;
        let operator = above.cloned().unwrap_or(operator);
        let operator = match choice.autonomy.as_str() {
            "" => operator,
            word => Policy {
                autonomy: serde_json::from_value(json!(word))
                    .map_err(|_| ConfigError::new("--autonomy", format!("there is no {word:?}")))?,
                ..operator
            },
        };
        let config = place.config()?;
        let written = choice.read()?;
        let folder = choice.file_folder();
        let (keys, flow) = split(written)?;
        let policy = policy_of(&keys.policy, &operator, &folder)?;
        if !keys.discover.is_null() {
            let message = "this runtime runs no Python files: use the Python runtime";
            return Err(ConfigError::new("discover", message));
        }
        let root = choice.work_root()?;
        let servers = servers::read(&keys.mcp, &root, &folder, place)?;
        let mut setup = Setup::new(Models::new(Arc::new(UnaskedModel::default())));
        for (index, entry) in keys.tools.iter().enumerate() {
            let path = format!("tools.{index}");
            let shell = Shell::new(&root, place.reserved())
                .map_err(|error| ConfigError::new(&path, error.to_string()))?;
            match entry {
                Value::Object(members) if members.contains_key("name") => {
                    let tool = InlineTool::read(entry, &path, shell)?;
                    setup.tools.insert(Arc::new(tool));
                }
                other => {
                    for tool in built_in(other, &path, &root, place)? {
                        setup.tools.insert(tool);
                    }
                }
            }
        }
        if let Some(flow) = &flow {
            add_flow_tools(&mut setup.tools, flow, &root, place)?;
            let mut named = flow.tools().into_iter();
            let agents = flow.agents();
            let missing =
                named.find(|name| setup.tools.get(name).is_none() && !agents.contains_key(name));
            // The tools of a server are only known after it is reached.
            if let Some(name) = missing.filter(|_| servers.is_empty()) {
                let agents = agents.keys().map(String::as_str);
                let known = setup.tools.names().chain(flow_tools::NAMES).chain(agents);
                let message = format!("there is no tool {name:?}; {}", near(&name, known));
                return Err(ConfigError::new("nodes", message));
            }
        }
        let base = Limits {
            // A flow's steps are unbounded by default.
            steps: flow.is_none().then_some(Limits::default().steps).flatten(),
            ..Limits::default()
        };
        let limits = config.limits.over(base);
        setup.limits = choice.limits()?.over(keys.limits.over(limits));
        setup.policy = policy;
        setup.redactor = Redactor::new(place.secrets());
        setup.stop_on_denial = keys.on_denial == OnDenial::Stop;
        setup.settings = ModelSettings {
            effort: keys.effort.clone(),
            temperature: keys.temperature,
            top_p: keys.top_p,
            max_tokens: keys.max_tokens,
            prompt_cache: keys.prompt_cache.clone(),
            service_tier: keys.service_tier.clone(),
            extra: keys.extra.clone(),
        };
        let unlinked = match &flow {
            Some(flow) => asked_agents(flow, choice, place, &setup, askers)?,
            None => Vec::new(),
        };
        let output = output_of(&keys.output)?;
        setup.models = models_of(&keys, flow.as_ref(), choice, &config, place)?;
        setup.reserved = reserved(&output, keys.ask_user);
        let strategy: Arc<dyn Strategy> = match (flow, keys.strategy.as_deref()) {
            (Some(flow), None) => Arc::new(flow),
            (Some(_), Some(_)) => {
                return Err(ConfigError::new(
                    "strategy",
                    "a flow has none: its nodes say it",
                ));
            }
            (None, name) => strategy_of(name.unwrap_or("react"))?,
        };
        let mut agent = Self {
            name: keys.name.unwrap_or_else(|| "agent".to_owned()),
            instructions: keys.instructions,
            strategy,
            output,
            strict: keys.strict || choice.strict,
            research: keys.research,
            ask_user: keys.ask_user,
            attempts: setup.limits.parse_retries + 1,
            choice: choice.clone(),
            servers,
            unlinked,
            linked: Vec::new(),
            description: keys.description,
            setup,
        };
        if agent.has_no_servers() {
            agent.link()?;
        }
        Ok(agent)
    }

    /// Returns true if all tools are known without contacting a server.
    fn has_no_servers(&self) -> bool {
        self.servers.is_empty() && self.unlinked.iter().all(|(_, it)| it.has_no_servers())
    }

    /// Adds the agents that the flow calls as tools, with the tiers of their own tools.
    fn link(&mut self) -> Result<(), ConfigError> {
        for (name, agent) in std::mem::take(&mut self.unlinked) {
            if self.setup.tools.get(&name).is_some() {
                let message = format!("there is another tool with the name {name:?}");
                return Err(ConfigError::new(format!("agents.{name}"), message));
            }
            let agent = Arc::new(agent);
            self.linked.push(Arc::clone(&agent));
            self.setup.add_agent(name, agent);
        }
        Ok(())
    }

    /// Returns the agent with this name among those that this one calls, at any depth.
    #[must_use]
    pub fn asked(&self, name: &str) -> Option<Arc<Agent>> {
        let own = self.linked.iter().find(|it| it.name == name).cloned();
        own.or_else(|| self.linked.iter().find_map(|it| it.asked(name)))
    }

    /// Starts or contacts the MCP servers of the agent and adds their tools. Returns notes about
    /// omitted tools.
    ///
    /// # Errors
    ///
    /// A required server cannot be reached, or a tool has the name of another one.
    pub async fn open(&mut self) -> Result<Vec<String>, ConfigError> {
        let mut notes = Vec::new();
        for (_, agent) in &mut self.unlinked {
            notes.extend(Box::pin(agent.open()).await?);
        }
        for server in self.servers.clone() {
            let offer = server.tools().await?;
            notes.extend(offer.skipped);
            self.add(offer.tools)?;
        }
        self.link()?;
        Ok(notes)
    }

    /// Adds the accepted tools of the servers without contacting them, for a replay.
    ///
    /// # Errors
    ///
    /// The accepted definitions cannot be read.
    pub fn open_accepted(&mut self) -> Result<(), ConfigError> {
        for (_, agent) in &mut self.unlinked {
            agent.open_accepted()?;
        }
        for server in self.servers.clone() {
            self.add(server.accepted()?.tools)?;
        }
        self.link()
    }

    /// Ends the sessions and the programs of the servers. Without this call they are killed on
    /// drop.
    pub async fn close(&self) {
        futures_util::future::join_all(self.servers.iter().map(|server| server.close())).await;
        for agent in &self.linked {
            Box::pin(agent.close()).await;
        }
    }

    fn add(&mut self, tools: Vec<Arc<RemoteTool>>) -> Result<(), ConfigError> {
        for tool in tools {
            if self.setup.tools.get(tool.name()).is_some() {
                let message = format!("there are two tools with the name {:?}", tool.name());
                return Err(ConfigError::new("mcp", message));
            }
            self.setup.tools.insert(tool);
        }
        Ok(())
    }

    /// Returns the fixed facts of a new run.
    pub fn started(&self, goal: &str, data: Object, tags: BTreeMap<String, String>) -> RunStarted {
        let settings = json!({
            "strict": self.strict,
            "cli": self.choice,
        });
        RunStarted {
            settings: settings.as_object().cloned().unwrap_or_default(),
            data,
            tags,
            ..self.facts(goal)
        }
    }

    fn facts(&self, goal: &str) -> RunStarted {
        let model = self.setup.models.main();
        let settings = json!({"strict": self.strict});
        RunStarted {
            agent: self.name.clone(),
            strategy: self.strategy.name().to_owned(),
            model: model.name().to_owned(),
            profile: model.profile().clone(),
            principal: self.setup.principal.clone(),
            policy: self.setup.policy.version(),
            settings: settings.as_object().cloned().unwrap_or_default(),
            ..RunStarted::new(goal)
        }
    }

    /// Returns the strategy of a run, from its recorded facts.
    pub fn strategy(&self, started: &RunStarted) -> Coroutine<Answer> {
        self.strategy.run(self.task(started))
    }

    fn task(&self, started: &RunStarted) -> Task {
        let strict = started.settings.get("strict").and_then(Value::as_bool);
        let reference = started.settings.get("reference").and_then(Value::as_str);
        let offers: Vec<Offer> = self
            .setup
            .tools
            .offers()
            .into_iter()
            .map(|offer| Offer {
                effect: self
                    .setup
                    .tools
                    .get(&offer.name)
                    .map(|tool| tool.effect())
                    .unwrap_or_default(),
                name: offer.name,
                description: offer.description,
                schema: offer.schema,
            })
            .collect();
        // The recorded strictness, because another one would derive a different conversation.
        let strict = strict.unwrap_or(self.strict);
        Task {
            instructions: self.instructions.clone(),
            output: self.output.clone(),
            strict,
            research: self.research,
            attempts: self.attempts,
            native: is_native(started.profile.native_tools, !offers.is_empty(), strict),
            enforces_schema: started.profile.json_schema,
            window: started.profile.window,
            history: started.history.clone(),
            ask_user: self.ask_user,
            data: started.data.clone(),
            reference: reference.unwrap_or_default().to_owned(),
            offers,
            ..Task::new(started.goal.as_str())
        }
    }
}

impl Subagent for Agent {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn started(&self, goal: &str) -> RunStarted {
        self.facts(goal)
    }

    fn strategy(&self, started: &RunStarted) -> Coroutine<Answer> {
        Agent::strategy(self, started)
    }
}

/// Makes the agents that a flow calls, with the models and the autonomy of the command line.
fn asked_agents(
    flow: &Flow,
    choice: &Choice,
    place: &Place,
    setup: &Setup,
    askers: &[PathBuf],
) -> Result<Vec<(String, Agent)>, ConfigError> {
    let folder = canonical(&choice.file_folder(), "agents")?;
    let root = choice.work_root()?;
    let mut agents = Vec::new();
    for (name, spec) in flow.agents() {
        let wrong = |message: String| ConfigError::new(format!("agents.{name}"), message);
        if !folder.join(spec).exists() {
            return Err(wrong(format!("there is no agent file {spec:?}")));
        }
        let path = canonical(&folder.join(spec), &format!("agents.{name}"))?;
        // Beside the file or in the project: an agent elsewhere is code of another project.
        if !path.starts_with(&folder) && !path.starts_with(&root) {
            return Err(wrong(format!("{spec:?} leads out of the project")));
        }
        if askers.contains(&path) {
            let message = format!("{spec:?} asks itself, by way of the agents that it asks");
            return Err(wrong(message));
        }
        let asked = Choice {
            agent: path.to_string_lossy().into_owned(),
            folder: choice.folder.clone(),
            root: choice.root.clone(),
            model: choice.model.clone(),
            autonomy: choice.autonomy.clone(),
            ..Choice::default()
        };
        let mut above = askers.to_vec();
        above.push(path);
        let agent = Agent::make_asked(&asked, place, Some(&setup.policy), &above);
        let agent = agent.map_err(|error| wrong(format!("{spec}: {error}")))?;
        agents.push((name.clone(), agent));
    }
    Ok(agents)
}

/// Returns the keys of the agent, and the flow if the file has nodes.
fn split(written: Value) -> Result<(AgentKeys, Option<Flow>), ConfigError> {
    let Value::Object(mut members) = written else {
        return Err(ConfigError::new("", "must be a mapping of keys to values"));
    };
    if !members.contains_key("nodes") {
        let keys = ConfigError::reading("", Value::Object(members))?;
        return Ok((keys, None));
    }
    let mut shared = Object::new();
    for name in SHARED {
        if let Some(value) = members.shift_remove(name) {
            shared.insert(name.to_owned(), value);
        }
    }
    let instructions = members.get("instructions").cloned();
    let flow = Flow::from_value(Value::Object(members))?;
    let mut keys: AgentKeys = ConfigError::reading("", Value::Object(shared))?;
    if let Some(Value::String(text)) = instructions {
        keys.instructions = text;
    }
    Ok((keys, Some(flow)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FilesKeys {
    root: String,
    write: bool,
}

impl Default for FilesKeys {
    fn default() -> Self {
        Self {
            root: ".".to_owned(),
            write: true,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CommandKeys {
    root: String,
    timeout: f64,
    longest: f64,
}

impl Default for CommandKeys {
    fn default() -> Self {
        Self {
            root: ".".to_owned(),
            timeout: 60.0,
            longest: 600.0,
        }
    }
}

/// Returns the tools of an entry that names a built-in tool, with or without options.
fn built_in(
    entry: &Value,
    path: &str,
    root: &Path,
    place: &Place,
) -> Result<Vec<Arc<dyn Tool>>, ConfigError> {
    let wrong = |message: String| ConfigError::new(path, message);
    let (name, options) = match entry {
        Value::String(name) => (name.as_str(), json!({})),
        Value::Object(members) if members.len() == 1 => match members.iter().next() {
            Some((name, Value::Null)) => (name.as_str(), json!({})),
            Some((name, options)) => (name.as_str(), options.clone()),
            None => ("", json!({})),
        },
        _ => ("", json!({})),
    };
    // A project's file may narrow the work root, but never leave it.
    let inside = |relative: &str| {
        let target = root.join(relative).canonicalize();
        let target = target.map_err(|error| wrong(format!("{relative:?}: {error}")))?;
        if target.starts_with(root) {
            return Ok(target);
        }
        Err(wrong(format!("{relative:?} leads out of {root:?}")))
    };
    match name {
        "files" => {
            let keys: FilesKeys =
                serde_json::from_value(options).map_err(|error| wrong(error.to_string()))?;
            let jail = Jail::new(inside(&keys.root)?, &place.reserved());
            files::tools(jail, keys.write)
        }
        "command" => {
            let keys: CommandKeys =
                serde_json::from_value(options).map_err(|error| wrong(error.to_string()))?;
            if !(keys.timeout > 0.0 && keys.longest > 0.0) {
                return Err(wrong("timeout and longest are seconds above 0".to_owned()));
            }
            let target = inside(&keys.root)?;
            let shell =
                Shell::new(&target, place.reserved()).map_err(|error| wrong(error.to_string()))?;
            let jail = Jail::new(target, &place.reserved());
            let tool = CommandTool::new(shell, jail, keys.timeout, keys.longest)
                .map_err(|error| wrong(error.message))?;
            Ok(vec![Arc::new(tool)])
        }
        _ => Err(wrong(format!(
            "{entry} is no tool of this runtime: it has files, command and tools that are defined \
             in place (name, description, parameters, command)"
        ))),
    }
}

/// Adds the tools that nodes of a flow name and the file does not define.
fn add_flow_tools(
    tools: &mut Toolset,
    flow: &Flow,
    root: &Path,
    place: &Place,
) -> Result<(), ConfigError> {
    for tool in flow_tools::tools(flow, root, &place.reserved())? {
        if tools.get(tool.name()).is_none() {
            tools.insert(tool);
        }
    }
    Ok(())
}

fn strategy_of(name: &str) -> Result<Arc<dyn Strategy>, ConfigError> {
    Ok(match name {
        "react" => Arc::new(React),
        "cot" => Arc::new(Cot::default()),
        "direct" => Arc::new(Direct::default()),
        "self_correct" => Arc::new(SelfCorrect::default()),
        "decompose" => Arc::new(Decompose::default()),
        "plan" => Arc::new(Plan::default()),
        other => {
            const KNOWN: [&str; 6] = [
                "react",
                "cot",
                "direct",
                "self_correct",
                "decompose",
                "plan",
            ];
            let message = format!("unknown strategy {other:?}; {}", near(other, KNOWN));
            return Err(ConfigError::new("strategy", message));
        }
    })
}

/// Returns the type of the answer from `output`.
pub(crate) fn output_of(written: &Value) -> Result<Output, ConfigError> {
    match written {
        Value::Null => return Ok(Output::text()),
        Value::String(name) if name == "str" => return Ok(Output::text()),
        _ => {}
    }
    let kind = Kind::read(written, "Answer").map_err(|error| ConfigError::new("output", error))?;
    Ok(Output::new(kind.schema(), move |value| kind.accept(value)))
}

fn policy_of(written: &Value, operator: &Policy, folder: &Path) -> Result<Policy, ConfigError> {
    match written {
        Value::Null => Ok(operator.clone()),
        // Relative to the agent file, not to the working directory of the command.
        Value::String(name) => {
            let path = folder.join(name);
            let keys = PolicyKeys::read(choice::read_yaml(&path)?, &path.to_string_lossy())?;
            keys.tighten(operator, &path.to_string_lossy())
        }
        keys => PolicyKeys::read(keys.clone(), "policy")?.tighten(operator, "policy"),
    }
}

/// Returns the reserved actions in the form offered to a native caller.
fn reserved(output: &Output, ask_user: bool) -> Vec<ToolOffer> {
    let mut offers = vec![ToolOffer {
        name: FINISH.to_owned(),
        description: "Ends the work with its answer.".to_owned(),
        schema: output.finish_schema(),
    }];
    if ask_user {
        offers.push(ToolOffer {
            name: ASK_USER.to_owned(),
            description: "Asks the person a question and waits for the answer.".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {"question": {"type": "string"}},
                "required": ["question"],
                "additionalProperties": false,
            }),
        });
    }
    offers
}

fn models_of(
    keys: &AgentKeys,
    flow: Option<&Flow>,
    choice: &Choice,
    config: &choice::Config,
    place: &Place,
) -> Result<Models, ConfigError> {
    let profiles = place.profiles()?;
    let provider = config.provider.as_str();
    let resolve = |spec: &Value, provider: &str| {
        providers::resolve(spec, provider, place.environment(), &profiles)
    };
    if !choice.model.is_empty() {
        // The command line replaces every model that the agent names.
        return Ok(Models::new(resolve(&json!(choice.model), provider)?));
    }
    let own = flow.map_or("", Flow::model);
    let provider = flow
        .map(Flow::provider)
        .filter(|it| !it.is_empty())
        .unwrap_or(provider);
    let main = if !keys.model.is_null() {
        Some(keys.model.clone())
    } else if !own.is_empty() {
        Some(json!(own))
    } else if !config.model.is_empty() {
        Some(json!(config.model))
    } else {
        None
    };
    let named = flow.map(Flow::models).unwrap_or_default();
    let mut models = match main {
        Some(spec) => Models::new(resolve(&spec, provider)?),
        None if flow.is_some() => Models::new(Arc::new(UnaskedModel::default())),
        None => return Err(ConfigError::new("model", NO_MODEL)),
    };
    for name in named {
        let model = resolve(&json!(name), provider)?;
        models = models.with_name(name, model);
    }
    for (role, spec) in &keys.models {
        let role: StepRole = serde_json::from_value(json!(role))
            .map_err(|_| ConfigError::new("models", format!("unknown role {role:?}")))?;
        models = models.with_role(role, resolve(spec, provider)?);
    }
    Ok(models)
}

/// Returns a path below `root` with links resolved, or an error that names it.
fn canonical(path: &Path, what: &str) -> Result<PathBuf, ConfigError> {
    path.canonicalize()
        .map_err(|error| ConfigError::new(what, format!("{path:?}: {error}")))
}

//! The keys of a flow file.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::errors::ConfigError;
use crate::flow::actions::Kind;
use crate::flow::template;
use crate::json::{Object, Value};
use crate::values::ModelSettings;

/// Targets of `goto` that leave the list of nodes.
pub(super) const END: [&str; 2] = ["end", "__end__"];
/// The maximum number of visits of one node and turns of one loop.
pub(super) const MOST_VISITS: usize = 1000;
const DEEPEST: usize = 20;
/// The keys of actions that name a model.
pub(super) const MODEL_KEYS: [&str; 5] = [
    "model",
    "generator_model",
    "critic_model",
    "planner_model",
    "evaluator_model",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowFile {
    #[serde(default, rename = "name")]
    _name: String,
    #[serde(default, rename = "description")]
    _description: String,
    #[serde(default, rename = "model")]
    _model: String,
    #[serde(default)]
    pub(super) instructions: String,
    #[serde(default)]
    pub(super) variables: Object,
    #[serde(default)]
    pub(super) settings: Settings,
    /// The state variable that holds the goal.
    #[serde(default)]
    pub(super) input: String,
    /// Agent files by name. The action `agent.NAME` runs one as a child.
    #[serde(default)]
    pub(super) agents: BTreeMap<String, String>,
    /// The answer; by default the last node's value.
    #[serde(default)]
    pub(super) result: Option<Value>,
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// True if the state keeps `reasoning_trace`.
    #[serde(default = "yes")]
    pub(super) tracing: bool,
    #[serde(default)]
    pub(super) model: String,
    /// The provider that completes bare model names.
    #[serde(default)]
    pub(super) provider: String,
    #[serde(default)]
    pub(super) temperature: Option<f64>,
    #[serde(default)]
    pub(super) effort: Option<String>,
    /// The backend of `web.search`.
    #[serde(default)]
    pub(super) search: String,
    #[serde(default, rename = "dspy")]
    _dspy: Value,
}

impl Settings {
    /// Returns the default settings of the flow's model calls.
    pub(super) fn asks(&self) -> ModelSettings {
        ModelSettings {
            temperature: self.temperature,
            effort: self.effort.clone(),
            ..ModelSettings::default()
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tracing: true,
            model: String::new(),
            provider: String::new(),
            temperature: None,
            effort: None,
            search: String::new(),
            _dspy: Value::Null,
        }
    }
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) name: String,
    /// The recorded thought of a call that the node makes itself.
    #[serde(default)]
    pub(super) description: String,
    /// The action that the node performs.
    #[serde(default, alias = "action")]
    pub(super) uses: String,
    #[serde(default)]
    pub(super) with: Object,
    #[serde(default)]
    pub(super) set: Option<Object>,
    #[serde(default, rename = "while")]
    pub(super) repeat: Option<While>,
    #[serde(default)]
    pub(super) steps: Vec<Node>,
    #[serde(default)]
    pub(super) output: Outputs,
    #[serde(default)]
    pub(super) goto: Goto,
    #[serde(default)]
    pub(super) on_error: OnError,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct While {
    pub(super) condition: String,
    pub(super) max_iterations: usize,
}

/// The target of a node's value: a name, or names with paths into the value.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Outputs {
    Name(String),
    Paths(std::collections::BTreeMap<String, String>),
}

impl Default for Outputs {
    fn default() -> Self {
        Self::Name(String::new())
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Goto {
    Always(String),
    Edges(Vec<Edge>),
}

impl Default for Goto {
    fn default() -> Self {
        Self::Always(String::new())
    }
}

/// An edge to another node. Without `if` it is always taken.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edge {
    #[serde(default, rename = "if")]
    pub(super) condition: String,
    pub(super) to: String,
}

/// The rule for a node that fails.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnError {
    #[serde(default)]
    pub(super) fallback: String,
    #[serde(default)]
    pub(super) then: Then,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Then {
    #[default]
    Raise,
    Continue,
}

impl FlowFile {
    pub(super) fn read(text: &str) -> Result<Self, ConfigError> {
        let file = serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::new("", error.to_string()))?;
        Self::checked(file)
    }

    pub(super) fn from_value(value: Value) -> Result<Self, ConfigError> {
        let file = ConfigError::reading("", value)?;
        Self::checked(file)
    }

    /// Returns the tools that nodes name literally.
    pub(super) fn tools(&self) -> BTreeSet<String> {
        fn collect(nodes: &[Node], names: &mut BTreeSet<String>) {
            for node in nodes {
                let named = node.with.get("tools").and_then(Value::as_array);
                let named = named.into_iter().flatten().filter_map(Value::as_str);
                let plain = named.filter(|it| !template::is_template(it));
                names.extend(plain.map(|it| it.strip_prefix("tool.").unwrap_or(it).to_owned()));
                collect(&node.steps, names);
            }
        }
        let mut names = BTreeSet::new();
        collect(&self.nodes, &mut names);
        names
    }

    /// Returns the models that nodes name literally.
    pub(super) fn models(&self) -> BTreeSet<String> {
        fn collect(nodes: &[Node], names: &mut BTreeSet<String>) {
            for node in nodes {
                for key in MODEL_KEYS {
                    let named = node.with.get(key).and_then(Value::as_str);
                    let plain = named.filter(|it| !it.is_empty() && !template::is_template(it));
                    names.extend(plain.map(str::to_owned));
                }
                collect(&node.steps, names);
            }
        }
        let mut names = BTreeSet::new();
        collect(&self.nodes, &mut names);
        names
    }

    fn checked(file: Self) -> Result<Self, ConfigError> {
        for (name, spec) in &file.agents {
            check_agent(name, spec)?;
        }
        let agents: Vec<&str> = file.agents.keys().map(String::as_str).collect();
        check(&file.nodes, "nodes", &agents, &mut BTreeSet::new(), 0)?;
        if let Some(result) = &file.result {
            template::check(result, "result")?;
        }
        Ok(file)
    }
}

fn check_agent(name: &str, spec: &str) -> Result<(), ConfigError> {
    const LONGEST: usize = 64;
    let wrong = |message: String| Err(ConfigError::new(format!("agents.{name}"), message));
    let fits = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if !begins || !name.chars().all(fits) || name.len() > LONGEST {
        return wrong("the name must be letters, digits, _ and -, and begin with a letter".into());
    }
    if !(spec.ends_with(".yaml") || spec.ends_with(".yml")) {
        return wrong(format!(
            "{spec:?} is no agent file (.yaml): this runtime runs no Python code"
        ));
    }
    Ok(())
}

fn check(
    nodes: &[Node],
    path: &str,
    agents: &[&str],
    names: &mut BTreeSet<String>,
    depth: usize,
) -> Result<(), ConfigError> {
    if nodes.is_empty() {
        return Err(ConfigError::new(path, "must hold at least one node"));
    }
    if depth > DEEPEST {
        return Err(ConfigError::new(path, "is nested too deep"));
    }
    let beside: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    for (place, node) in nodes.iter().enumerate() {
        let path = format!("{path}.{place}");
        if END.contains(&node.name.as_str()) || !names.insert(node.name.clone()) {
            let message = format!("there is another node {:?}", node.name);
            return Err(ConfigError::new(format!("{path}.name"), message));
        }
        check_node(node, &path, agents, &beside)?;
        if !node.steps.is_empty() {
            check(
                &node.steps,
                &format!("{path}.steps"),
                agents,
                names,
                depth + 1,
            )?;
        }
    }
    Ok(())
}

fn check_node(
    node: &Node,
    path: &str,
    agents: &[&str],
    beside: &[&str],
) -> Result<(), ConfigError> {
    let does = [
        !node.uses.is_empty(),
        node.set.is_some(),
        !node.steps.is_empty(),
    ];
    if does.into_iter().filter(|it| *it).count() != 1 {
        let message = "does nothing or several things: it needs one of 'uses', 'set' and 'steps'";
        return Err(ConfigError::new(path, message));
    }
    if let Some(repeat) = &node.repeat {
        if node.steps.is_empty() {
            return Err(ConfigError::new(path, "a 'while' needs 'steps'"));
        }
        if !(1..=MOST_VISITS).contains(&repeat.max_iterations) {
            let message = format!("must be from 1 to {MOST_VISITS}");
            return Err(ConfigError::new(
                format!("{path}.while.max_iterations"),
                message,
            ));
        }
        template::check_condition(&repeat.condition, &format!("{path}.while.condition"))?;
    }
    if node.uses.is_empty() && !node.with.is_empty() {
        return Err(ConfigError::new(
            format!("{path}.with"),
            "is only for 'uses'",
        ));
    }
    if !node.uses.is_empty() {
        let known = |kind: &Kind| kind.agent(&node.uses).is_none_or(|it| agents.contains(&it));
        let kind = Kind::named(&node.uses).filter(known).ok_or_else(|| {
            ConfigError::new(format!("{path}.uses"), Kind::unknown(&node.uses, agents))
        })?;
        kind.check(&node.with, &format!("{path}.with"))?;
    }
    for (key, values) in [("with", Some(&node.with)), ("set", node.set.as_ref())] {
        for (name, value) in values.into_iter().flatten() {
            template::check(value, &format!("{path}.{key}.{name}"))?;
        }
    }
    let edges: Vec<&str> = match &node.goto {
        Goto::Always(to) => vec![to.as_str()],
        Goto::Edges(edges) => {
            for (place, edge) in edges.iter().enumerate() {
                let path = format!("{path}.goto.{place}");
                if !edge.condition.is_empty() {
                    template::check_condition(&edge.condition, &format!("{path}.if"))?;
                } else if place + 1 < edges.len() {
                    let message = "without 'if' it is always taken: it must be the last";
                    return Err(ConfigError::new(path, message));
                }
            }
            edges.iter().map(|edge| edge.to.as_str()).collect()
        }
    };
    let known = |to: &str| to.is_empty() || END.contains(&to) || beside.contains(&to);
    let targets = edges.into_iter().chain([node.on_error.fallback.as_str()]);
    for to in targets {
        if !known(to) {
            let message = format!("there is no node {to:?} beside this one");
            return Err(ConfigError::new(format!("{path}.goto"), message));
        }
    }
    if !node.on_error.fallback.is_empty() && node.on_error.then == Then::Continue {
        let message = "has a fallback and 'then: continue': keep one";
        return Err(ConfigError::new(format!("{path}.on_error"), message));
    }
    Ok(())
}

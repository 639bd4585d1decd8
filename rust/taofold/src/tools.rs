//! Tools: the trait, a registry, and tools made from functions with typed parameters.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::content::hex;
use crate::json::{Object, Value, canonical, json, to_value};
use crate::model::ToolOffer;
use crate::policy::Tier;
use crate::values::{Observation, Sideeffect};

/// The context of a tool call, in addition to its parameters.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The id of the run.
    pub run: String,
    /// The id of the call, the same after a crash: `run/key/index`.
    pub effect_id: String,
    /// The variables of the run's state at the start of the call.
    pub data: Object,
    update: Arc<Mutex<Option<(String, Value)>>>,
}

impl CallContext {
    /// Returns the context of a call.
    pub fn new(run: impl Into<String>, effect_id: impl Into<String>) -> Self {
        Self {
            run: run.into(),
            effect_id: effect_id.into(),
            data: Object::new(),
            update: Arc::default(),
        }
    }

    /// Returns the context with `data` as the variables of the run.
    #[must_use]
    pub fn with_data(mut self, data: Object) -> Self {
        self.data = data;
        self
    }

    /// Sets the variable `name` of the run's state to `value` when the call is observed.
    pub fn set(&self, name: impl Into<String>, value: Value) {
        let mut update = self.update.lock().unwrap_or_else(PoisonError::into_inner);
        *update = Some((name.into(), value));
    }

    /// Returns the variable set by the tool.
    pub(crate) fn update(&self) -> Option<(String, Value)> {
        let update = self.update.lock().unwrap_or_else(PoisonError::into_inner);
        update.clone()
    }
}

/// The declaration of a tool. An approval of a call is bound to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// The name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of its parameters.
    pub schema: Value,
    /// The side effect.
    pub effect: Sideeffect,
    /// The approval tier.
    pub tier: Tier,
    /// The role that the requester needs; empty for none.
    pub role: String,
}

impl Declared {
    /// Returns a declaration with tier 1 and side effect [`Sideeffect::Once`].
    ///
    /// Such a tool runs without approval and is never repeated without one.
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            schema,
            effect: Sideeffect::Once,
            tier: Tier::Auto,
            role: String::new(),
        }
    }
}

/// A tool that a model may call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns its declaration.
    fn declared(&self) -> &Declared;

    /// Returns its name.
    fn name(&self) -> &str {
        &self.declared().name
    }

    /// Returns its side effect.
    fn effect(&self) -> Sideeffect {
        self.declared().effect
    }

    /// Returns its approval tier.
    fn tier(&self) -> Tier {
        self.declared().tier
    }

    /// Returns a preview of the call's effect for approvers.
    fn preview(&self, parameters: &Object) -> String {
        call_line(self.name(), parameters)
    }

    /// Checks the parameters of a call before the decision about it.
    ///
    /// # Errors
    ///
    /// The feedback for the model.
    fn check(&self, parameters: &Object) -> Result<(), String> {
        let _ = parameters;
        Ok(())
    }

    /// Runs the tool. A failure is an observation.
    ///
    /// If the key line is empty, it becomes the first line of the result, or its first error.
    async fn call(&self, parameters: Object, context: CallContext) -> Observation;
}

/// Returns a call on one line, such as `name(a=1, b="x")`.
pub fn call_line(name: &str, parameters: &Object) -> String {
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| match is_identifier(name) {
            true => format!("{name}={}", literal(value)),
            false => format!("{}={}", quoted(name), literal(value)),
        })
        .collect();
    format!("{name}({})", pairs.join(", "))
}

/// Returns true if a name can be distinguished from the values around it.
fn is_identifier(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|one| one.is_alphanumeric() || one == '_')
}

/// Returns a value as a Python literal.
///
/// A preview is compared when its approval is used, so both runtimes must write it alike.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{}: {}", quoted(name), literal(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

/// Returns a text as a Python literal.
pub(crate) fn quoted(text: &str) -> String {
    let mark = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(mark);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            _ if character == mark => out.extend(['\\', mark]),
            _ if character.is_control() => {
                out.push_str(&format!("\\x{:02x}", u32::from(character)))
            }
            _ => out.push(character),
        }
    }
    out.push(mark);
    out
}

/// Returns a digest of a tool's declaration, to which approvals are bound.
///
/// It equals the Python runtime's for the same tool.
pub fn definition(tool: &dyn Tool) -> String {
    let tool = tool.declared();
    let facts = json!([
        tool.name,
        tool.description,
        tool.schema,
        u8::from(tool.tier),
        tool.effect,
        tool.role,
    ]);
    hex(&Blake2b::<U8>::digest(canonical(&facts)))
}

/// The tools of a run, by name.
#[derive(Clone, Default)]
pub struct Toolset {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl std::fmt::Debug for Toolset {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.tools.keys()).finish()
    }
}

impl Toolset {
    /// Returns a set without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool and replaces one with the same name.
    pub fn insert(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.name().to_owned(), tool);
    }

    /// Adds a tool.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.insert(Arc::new(tool));
        self
    }

    /// Returns the tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Returns the tools in the form offered to a model, sorted by name.
    pub fn offers(&self) -> Vec<ToolOffer> {
        self.tools
            .values()
            .map(|tool| offer(tool.as_ref()))
            .collect()
    }
}

fn offer(tool: &dyn Tool) -> ToolOffer {
    let declared = tool.declared();
    ToolOffer {
        name: declared.name.clone(),
        description: declared.description.clone(),
        schema: declared.schema.clone(),
    }
}

/// A tool made from an async function with typed parameters.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use taofold::tools::{FunctionTool, Tool};
/// use taofold::values::Sideeffect;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// let add = FunctionTool::new("add", "Adds two numbers.", |add: Add, _| async move {
///     Ok((add.a + add.b).into())
/// })
/// .with_effect(Sideeffect::Read);
/// assert_eq!(add.declared().schema["required"], serde_json::json!(["a", "b"]));
/// ```
pub struct FunctionTool<P, F> {
    declared: Declared,
    function: F,
    parameters: PhantomData<fn(P)>,
}

impl<P: DeserializeOwned + JsonSchema, F> FunctionTool<P, F> {
    /// Returns a tool that calls `function`. An `Err` becomes a failed observation.
    pub fn new(name: impl Into<String>, description: impl Into<String>, function: F) -> Self {
        let schema = to_value(&schemars::schema_for!(P));
        Self {
            declared: Declared::new(name, description, schema),
            function,
            parameters: PhantomData,
        }
    }

    /// Sets the side effect of the tool.
    #[must_use]
    pub fn with_effect(mut self, effect: Sideeffect) -> Self {
        self.declared.effect = effect;
        self
    }
}

#[async_trait]
impl<P, F, R> Tool for FunctionTool<P, F>
where
    P: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(P, CallContext) -> R + Send + Sync,
    R: Future<Output = Result<Value, String>> + Send,
{
    fn declared(&self) -> &Declared {
        &self.declared
    }

    fn check(&self, parameters: &Object) -> Result<(), String> {
        read_parameters::<P>(self.name(), parameters.clone()).map(drop)
    }

    async fn call(&self, parameters: Object, context: CallContext) -> Observation {
        let typed = match read_parameters::<P>(self.name(), parameters) {
            Ok(typed) => typed,
            Err(error) => return Observation::refused(error, "invalid"),
        };
        match (self.function)(typed, context).await {
            Ok(result) => Observation {
                result,
                ..Observation::default()
            },
            Err(error) => Observation::failure(error),
        }
    }
}

fn read_parameters<P: DeserializeOwned>(tool: &str, mut parameters: Object) -> Result<P, String> {
    // Reserved: the time limit of the call, not a parameter of the function.
    parameters.shift_remove("timeout_s");
    serde_json::from_value(Value::Object(parameters))
        .map_err(|error| format!("the parameters of {tool} are invalid: {error}"))
}

#[cfg(test)]
mod tests {
    use super::call_line;
    use crate::json::{Value, json};

    #[test]
    fn a_call_is_written_as_python_writes_it() {
        let Value::Object(parameters) = json!({
            "path": "a.txt", "why": "it's \"so\"", "quote": "it's", "lines": "a\n\tb\\",
            "deep": [1, 2.5, true, null, {"k": false}],
        }) else {
            unreachable!("an object is written above")
        };
        assert_eq!(
            call_line("count", &parameters),
            r#"count(path='a.txt', why='it\'s "so"', quote="it's", lines='a\n\tb\\', deep=[1, 2.5, True, None, {'k': False}])"#
        );
    }
}

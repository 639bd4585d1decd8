//! Models of providers over HTTP, by name: `provider:model`.
//!
//! A `RemoteModel` has an `Endpoint`, which sends and retries, and a `Wire`, the format of one API:
//! chat completions, Responses or Messages. Keys and addresses come from the environment, never
//! from a file. A key is only sent to its own provider or to the address set in the environment.

mod answered;
mod chat;
mod endpoint;
mod errors;
mod messages;
mod names;
mod prices;
mod reply;
mod responses;
mod sse;
mod test_model;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use self::endpoint::Endpoint;
pub use self::prices::Price;
use self::reply::Reader;
pub use self::test_model::TestModel;
use crate::content::Issuer;
use crate::errors::{ConfigError, ModelError};
use crate::json::{Object, Value};
use crate::model::{Model, Request};
use crate::values::{ModelSettings, Profile, Reply};

/// The environment that models read.
pub type Environment = HashMap<String, String>;

/// One call with its resolved request and settings.
struct Turn<'a> {
    request: &'a Request<'a>,
    settings: ModelSettings,
    streaming: bool,
}

/// The format of one provider's API.
trait Wire: Send + Sync {
    /// Returns its name in the log: `chat`, `responses` or `messages`.
    fn name(&self) -> &'static str;

    /// Returns the body of a request.
    fn body(&self, turn: &Turn<'_>, issuer: &Issuer) -> Result<Object, ModelError>;

    /// Returns a reader for one response.
    fn reader(&self) -> Box<dyn Reader>;

    /// Learns from a refusal which feature to omit. Returns true if a retry may help.
    fn learn(&self, error: &ModelError) -> bool {
        let _ = error;
        false
    }
}

/// A model behind an HTTP endpoint.
struct RemoteModel {
    name: String,
    profile: Profile,
    issuer: Issuer,
    settings: ModelSettings,
    price: Option<Price>,
    endpoint: Endpoint,
    wire: Box<dyn Wire>,
}

#[async_trait]
impl Model for RemoteModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn ask(&self, request: Request<'_>) -> Result<Reply, ModelError> {
        // Settings of the model take precedence over those of the agent.
        let settings = self.settings.over(request.settings);
        let turn = Turn {
            settings,
            streaming: request.on_text.is_some() && self.profile.streaming,
            request: &request,
        };
        loop {
            let body = self.wire.body(&turn, &self.issuer)?;
            let reader = || self.wire.reader();
            let asked = self
                .endpoint
                .ask(
                    &Value::Object(body),
                    &reader,
                    request.on_text,
                    turn.streaming,
                )
                .await;
            match asked {
                Ok(read) => return self.reply(read, &request),
                Err(error) if self.wire.learn(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl RemoteModel {
    fn reply(&self, read: reply::ReadReply, request: &Request<'_>) -> Result<Reply, ModelError> {
        let turn = request.conversation.messages().len();
        let (content, finish) = reply::settled(read.parts, &read.finish, request.tools, turn)?;
        let mut usage = read.usage;
        usage.usd = match (&self.price, read.charged) {
            (_, Some(charged)) => Some(charged),
            (Some(price), None) => Some(price.cost(&usage, &read.tier)),
            (None, None) if usage.tokens() > 0 => None,
            (None, None) => Some(0.0),
        };
        Ok(Reply {
            content,
            usage,
            model: self.name.clone(),
            finish,
            issuer: Some(self.issuer.clone()),
            notes: read.notes,
        })
    }
}

/// A model under OpenAI's name at another address.
///
/// Most such servers only support chat completions and respond that the path is unknown. After
/// that, the model uses chat completions.
struct ElsewhereModel {
    responses: RemoteModel,
    chat: RemoteModel,
    chat_only: AtomicBool,
}

#[async_trait]
impl Model for ElsewhereModel {
    fn name(&self) -> &str {
        &self.responses.name
    }

    fn profile(&self) -> &Profile {
        &self.responses.profile
    }

    async fn ask(&self, request: Request<'_>) -> Result<Reply, ModelError> {
        if self.chat_only.load(Ordering::Relaxed) {
            return self.chat.ask(request).await;
        }
        match self.responses.ask(request).await {
            Err(error) if matches!(error.status, 404 | 405) => {
                // An unknown model is also a 404, but then this call fails with its own error.
                let reply = self.chat.ask(request).await?;
                self.chat_only.store(true, Ordering::Relaxed);
                Ok(reply)
            }
            other => other,
        }
    }
}

/// A list of models of which the first working one answers.
struct FallbackModel {
    name: String,
    profile: Profile,
    models: Vec<Arc<dyn Model>>,
}

#[async_trait]
impl Model for FallbackModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn ask(&self, request: Request<'_>) -> Result<Reply, ModelError> {
        let mut first = None;
        for model in &self.models {
            match model.ask(request).await {
                Ok(reply) => return Ok(reply),
                // The strategy shortens a conversation that is too long.
                Err(error) if error.kind == "overflow" => return Err(error),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| ModelError::new("request", "there is no model to ask")))
    }
}

/// The properties of a provider with chat completions.
struct Preset {
    name: &'static str,
    url: &'static str,
    key: &'static str,
    /// True for a local server, which needs no key and costs nothing.
    local: bool,
    /// True for a server with unknown properties.
    unknown: bool,
}

const fn preset(name: &'static str, url: &'static str, key: &'static str) -> Preset {
    Preset {
        name,
        url,
        key,
        local: false,
        unknown: false,
    }
}

const fn local(name: &'static str, url: &'static str, key: &'static str) -> Preset {
    Preset {
        local: true,
        unknown: true,
        ..preset(name, url, key)
    }
}

const OPENAI: Preset = preset("openai", "https://api.openai.com/v1", "OPENAI_API_KEY");
const ANTHROPIC: Preset = preset(
    "anthropic",
    "https://api.anthropic.com/v1",
    "ANTHROPIC_API_KEY",
);
const CHAT: [Preset; 15] = [
    preset("openai-chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Preset {
        unknown: true,
        ..preset("openai-compatible", "", "OPENAI_COMPATIBLE_API_KEY")
    },
    preset(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
    ),
    preset("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    preset(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
    ),
    preset("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    preset("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    preset(
        "together",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
    ),
    preset(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
    ),
    preset("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    preset("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    preset("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    local("llamacpp", "http://127.0.0.1:8080/v1", "LLAMACPP_API_KEY"),
    local("lmstudio", "http://127.0.0.1:1234/v1", "LMSTUDIO_API_KEY"),
    local("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
];

/// Returns the names of all providers.
pub fn names() -> Vec<&'static str> {
    let chat = CHAT.iter().map(|preset| preset.name);
    chat.chain([OPENAI.name, ANTHROPIC.name, "test"]).collect()
}

/// Returns the values of the environment that are keys of providers.
pub fn keys(environment: &Environment) -> Vec<String> {
    let known = CHAT.iter().chain([&OPENAI, &ANTHROPIC]);
    known
        .filter_map(|preset| environment.get(preset.key).cloned())
        .collect()
}

/// Returns the model of `spec`.
///
/// `spec` is `provider:model`, a mapping with `model` and its own settings, or a list of these. In
/// a list, the first working model answers. `provider` completes a bare name. `profiles` are
/// measured ones, by `provider:model`.
///
/// # Errors
///
/// An unknown provider, a missing key or address, or an invalid setting.
pub fn resolve(
    spec: &Value,
    provider: &str,
    environment: &Environment,
    profiles: &Object,
) -> Result<Arc<dyn Model>, ConfigError> {
    match spec {
        Value::String(name) => {
            let settings = ModelSettings::default();
            by_name(name, provider, environment, profiles, settings)
        }
        Value::Object(members) => {
            let mut own = members.clone();
            let Some(Value::String(name)) = own.shift_remove("model") else {
                return Err(ConfigError::new("model", "a model with settings names it"));
            };
            let settings = serde_json::from_value(Value::Object(own))
                .map_err(|error| ConfigError::new("model", error.to_string()))?;
            by_name(&name, provider, environment, profiles, settings)
        }
        Value::Array(entries) => {
            let models = entries
                .iter()
                .map(|entry| resolve(entry, provider, environment, profiles))
                .collect::<Result<Vec<_>, _>>()?;
            match models.as_slice() {
                [] => Err(ConfigError::new("model", "no model is named")),
                [one] => Ok(Arc::clone(one)),
                [first, ..] => Ok(Arc::new(FallbackModel {
                    name: first.name().to_owned(),
                    profile: first.profile().clone(),
                    models,
                })),
            }
        }
        other => Err(ConfigError::new("model", format!("{other} is no model"))),
    }
}

fn by_name(
    spec: &str,
    provider: &str,
    environment: &Environment,
    profiles: &Object,
    settings: ModelSettings,
) -> Result<Arc<dyn Model>, ConfigError> {
    // Split at the first colon only, because names of models may contain colons.
    let (provider, model) = spec.split_once(':').unwrap_or((provider, spec));
    let (provider, model) = (provider.trim(), model.trim());
    if model.is_empty() {
        let message = format!("no model is named in {spec:?}: write 'provider:model'");
        return Err(ConfigError::new("model", message));
    }
    if provider == "test" {
        return Ok(Arc::new(TestModel::named(model)?));
    }
    let measured = profiles
        .get(&format!("{provider}:{model}"))
        .and_then(|entry| entry.get("profile"))
        .map(|profile| serde_json::from_value::<Profile>(profile.clone()))
        .transpose()
        .map_err(|error| ConfigError::new("profiles.json", error.to_string()))?;
    let known = CHAT.iter().chain([&OPENAI, &ANTHROPIC]);
    let Some(preset) = known.into_iter().find(|known| known.name == provider) else {
        let near = crate::text::near(provider, names());
        let message = format!("unknown provider {provider:?} in {spec:?}: {near}");
        return Err(ConfigError::new("model", message));
    };
    let url = preset.address(environment)?;
    let key = preset.key(&url, environment)?;
    let entry = prices::find(provider, model);
    let profile = measured.unwrap_or_else(|| preset.profile(&url, entry.as_ref()));
    let price = if preset.local {
        Some(Price::default())
    } else {
        entry.and_then(|entry| entry.price)
    };
    let connect = |path: &str, wire: Box<dyn Wire>| {
        let headers = match (preset.name, key.is_empty()) {
            ("anthropic", true) => vec![("anthropic-version", messages::VERSION.to_owned())],
            ("anthropic", false) => vec![
                ("anthropic-version", messages::VERSION.to_owned()),
                ("x-api-key", key.clone()),
            ],
            (_, true) => Vec::new(),
            (_, false) => vec![("authorization", format!("Bearer {key}"))],
        };
        let endpoint = Endpoint::new(&format!("{url}/{path}"), &headers, key.clone())?;
        Ok::<_, ConfigError>(RemoteModel {
            name: format!("{provider}:{model}"),
            issuer: Issuer {
                wire: wire.name().to_owned(),
                host: endpoint.host(),
                model: model.to_owned(),
            },
            profile: profile.clone(),
            settings: settings.clone(),
            price: price.clone(),
            endpoint,
            wire,
        })
    };
    let own = same_server(&url, preset.url);
    let new_limit = preset.name.starts_with("openai") && own;
    let chat = || Box::new(chat::Chat::new(model, new_limit, profile.json_schema));
    if preset.name == ANTHROPIC.name {
        let messages = Box::new(messages::Messages::new(model));
        return Ok(Arc::new(connect("messages", messages)?));
    }
    if preset.name != OPENAI.name || model.contains("audio") {
        return Ok(Arc::new(connect("chat/completions", chat())?));
    }
    let responses = connect("responses", Box::new(responses::Responses::new(model)))?;
    if own {
        return Ok(Arc::new(responses));
    }
    Ok(Arc::new(ElsewhereModel {
        responses,
        chat: connect("chat/completions", chat())?,
        chat_only: AtomicBool::new(false),
    }))
}

impl Preset {
    fn address(&self, environment: &Environment) -> Result<String, ConfigError> {
        let variable = format!("{}_BASE_URL", self.name.to_uppercase().replace('-', "_"));
        let set = environment.get(&variable).map(String::as_str);
        let url = set.filter(|it| !it.trim().is_empty()).unwrap_or(self.url);
        let mut url = url.trim().trim_end_matches('/').to_owned();
        if url.is_empty() {
            let message = format!(
                "provider {:?} needs an address: set the environment variable {variable}, such as \
                 http://127.0.0.1:8000/v1",
                self.name
            );
            return Err(ConfigError::new("model", message));
        }
        if self.name == ANTHROPIC.name && !url.ends_with("/v1") {
            url.push_str("/v1");
        }
        Ok(url)
    }

    fn key(&self, url: &str, environment: &Environment) -> Result<String, ConfigError> {
        let key = environment.get(self.key).map_or("", |key| key.trim());
        let needed = self.name == ANTHROPIC.name || same_server(url, self.url);
        if key.is_empty() && needed && !self.local {
            let message = format!(
                "provider {:?} needs a key: set the environment variable {}",
                self.name, self.key
            );
            return Err(ConfigError::new("model", message));
        }
        if !key.chars().all(|it| it.is_ascii_graphic()) {
            let message = format!(
                "the key in {} holds characters that no key has: copy it again",
                self.key
            );
            return Err(ConfigError::new("model", message));
        }
        Ok(key.to_owned())
    }

    /// Returns the known profile of a model, or an unknown profile for an unknown server.
    fn profile(&self, url: &str, entry: Option<&prices::Entry>) -> Profile {
        let own = self.name == ANTHROPIC.name || same_server(url, self.url);
        let known = own && !self.unknown;
        let window = entry
            .map_or(0, |entry| entry.window)
            .max(if known { 128_000 } else { 0 });
        Profile {
            window: if window > 0 {
                window
            } else {
                Profile::default().window
            },
            window_known: window > 0,
            native_tools: known,
            json_schema: (known && self.name != ANTHROPIC.name) || self.local,
            ..Profile::default()
        }
    }
}

/// Returns true if both addresses use one server with one protocol.
fn same_server(url: &str, other: &str) -> bool {
    let origin = |url: &str| reqwest::Url::parse(url).ok().map(|url| url.origin());
    origin(url).is_some_and(|own| Some(own) == origin(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(pair).collect()
    }

    fn resolved(spec: &str, pairs: &[(&str, &str)]) -> Result<String, String> {
        let model = resolve(&spec.into(), "openai", &environment(pairs), &Object::new());
        model
            .map(|model| model.name().to_owned())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_missing_key_or_address_is_named_before_anything_is_asked() {
        let error = resolved("anthropic:claude-opus-5", &[]).unwrap_err();
        assert!(error.contains("ANTHROPIC_API_KEY"), "{error}");
        let error = resolved("openai-compatible:m", &[]).unwrap_err();
        assert!(error.contains("OPENAI_COMPATIBLE_BASE_URL"), "{error}");
        let error = resolved("opneai:gpt", &[]).unwrap_err();
        assert!(error.contains("unknown provider"), "{error}");
    }

    #[test]
    fn a_server_in_a_providers_place_needs_no_key_and_nothing_is_assumed_of_it() {
        let at = [("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")];
        let model = resolve(&"gpt".into(), "openai", &environment(&at), &Object::new()).unwrap();
        assert_eq!(model.name(), "openai:gpt");
        assert!(!model.profile().native_tools);
    }
}

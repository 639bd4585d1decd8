//! The tools that a server declares: each [`Definition`], and [`Pins`], the accepted ones.
//!
//! A definition is untrusted data. It is bounded and shown, and it may raise a tier. It never
//! lowers a tier unless the agent's file has `trust`. On first contact, the definitions of a server
//! are accepted and stored in the operator's folder, in the file of the Python runtime. Afterwards
//! a changed definition or a new tool is not called, while the Python runtime asks for an approval.
//! This module does not depend on connections or calls.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use blake2::digest::consts::{U4, U16};
use blake2::{Blake2b, Digest};
use serde::{Deserialize, Serialize};

use crate::content::hex;
use crate::errors::ConfigError;
use crate::json::{Object, Value, canonical, json, to_value};
use crate::policy::Tier;
use crate::schema::Schema;
use crate::text::{clip, visible};
use crate::tools::literal;
use crate::values::{ASK_USER, FINISH, Sideeffect};

/// The maximum number of characters of a description in the prompt.
const DESCRIPTION: usize = 4000;
/// The maximum size of a definition, in bytes.
const LARGEST: usize = 64_000;
const UNACCEPTED: &str =
    "New at this server: a person is asked before it is called the first time.";
const LONGEST_NAME: usize = 64;
/// Keywords of a schema that only serve readers.
const PROSE: [&str; 3] = ["description", "title", "$comment"];
/// Keywords whose keys are names and not keywords.
const NAMED: [&str; 5] = [
    "properties",
    "$defs",
    "definitions",
    "patternProperties",
    "dependentSchemas",
];
const HINTS: [(&str, &str); 4] = [
    ("readOnlyHint", "read_only_hint"),
    ("destructiveHint", "destructive_hint"),
    ("idempotentHint", "idempotent_hint"),
    ("openWorldHint", "open_world_hint"),
];
/// The parameter that this runtime reserves, and the replacement for a server's own one.
pub(super) const RESERVED: &str = "timeout_s";
pub(super) const RENAMED: &str = "timeout_s_of_tool";

/// One tool as its server describes it, with the fields of the file of pins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Definition {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) schema: Object,
    #[serde(default)]
    pub(super) output: Option<Object>,
    #[serde(default)]
    pub(super) hints: BTreeMap<String, bool>,
    /// The tier that the server proposes; 0 for none.
    #[serde(default)]
    pub(super) tier: u8,
}

impl Definition {
    /// Parses the listed tools element by element.
    ///
    /// A tool that cannot be offered is an error; unused fields of the others are dropped. `legacy`
    /// is true for the protocol's older era, in which a structured result is an object.
    pub(super) fn read(listed: &Value, legacy: bool) -> Result<Self, String> {
        let Some(entry) = listed.as_object() else {
            return Err("a tool without a name".to_owned());
        };
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = text("name");
        if name.trim().is_empty() {
            return Err("a tool without a name".to_owned());
        }
        let shown = literal(&json!(name.chars().take(80).collect::<String>()));
        let wrong = |why: String| Err(format!("{shown}: {why}"));
        let schema = match sound_schema(entry.get("inputSchema").unwrap_or(&Value::Null)) {
            Ok(schema) => schema,
            Err(why) => return wrong(why),
        };
        let definition = Self {
            name: name.to_owned(),
            description: match text("description") {
                "" => text("title").to_owned(),
                description => description.to_owned(),
            },
            schema,
            output: output_schema(entry.get("outputSchema"), legacy),
            hints: hints(entry.get("annotations")),
            tier: proposed(entry.get("_meta")),
        };
        let size = to_value(&definition).to_string().len();
        if size > LARGEST {
            return wrong(format!(
                "its definition has {size} bytes, at most {LARGEST}"
            ));
        }
        let whole = Value::Object(definition.schema.clone());
        if let Some(hidden) = hidden_text(&whole) {
            let hidden = literal(&json!(clip(&visible(hidden), 80)));
            return wrong(format!("{hidden} in its schema hides characters"));
        }
        if let Err(why) = Schema::new(whole) {
            return wrong(format!("its schema cannot be used ({why})"));
        }
        Ok(definition)
    }

    /// Returns a digest of the whole definition, the same in both runtimes.
    pub(super) fn digest(&self) -> String {
        hex(&Blake2b::<U16>::digest(canonical(&to_value(self))))
    }

    /// Returns the tier and effect from the hints, which may lower them only if `trusted` is true.
    pub(super) fn tier_and_effect(&self, trusted: bool) -> (Tier, Sideeffect) {
        let hint = |name: &str| self.hints.get(name) == Some(&true);
        let destroys = hint("destructive_hint");
        let (least, effect) = if trusted && !destroys && hint("read_only_hint") {
            (Tier::Auto, Sideeffect::Read)
        } else if trusted && hint("idempotent_hint") {
            (Tier::Card, Sideeffect::Idempotent)
        } else {
            (Tier::Card, Sideeffect::Once)
        };
        let least = if destroys { Tier::Confirm } else { least };
        let proposed = Tier::try_from(self.tier).unwrap_or(Tier::Auto);
        (least.max(proposed), effect)
    }

    /// Returns the description in the form shown to a model.
    pub(super) fn shown_description(&self) -> String {
        let text = visible(&self.description);
        match text.char_indices().nth(DESCRIPTION) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.into_owned(),
        }
    }

    /// Returns the schema in the form shown to a model.
    ///
    /// No parameter has the reserved name, and invisible text is made visible.
    pub(super) fn shown_schema(&self) -> Value {
        let mut schema = match seen(&Value::Object(self.schema.clone())) {
            Value::Object(schema) => schema,
            _ => Object::new(),
        };
        let properties = match schema.shift_remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Object::new(),
        };
        let renamed = |name: &str| {
            let name = if name == RESERVED { RENAMED } else { name };
            name.to_owned()
        };
        if properties.contains_key(RESERVED)
            && let Some(Value::Array(required)) = schema.get_mut("required")
        {
            for name in required {
                *name = json!(renamed(name.as_str().unwrap_or_default()));
            }
        }
        let properties: Object = properties
            .into_iter()
            .map(|(name, rules)| (renamed(&name), rules))
            .collect();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        Value::Object(schema)
    }

    /// Returns the definition of a tool that has not been accepted: how to call it, without prose.
    pub(super) fn without_prose(&self) -> Self {
        let schema = match wordless(&Value::Object(self.schema.clone())) {
            Value::Object(schema) => schema,
            _ => Object::new(),
        };
        let raising = self
            .hints
            .iter()
            .filter(|(name, value)| *name == "destructive_hint" && **value);
        Self {
            name: self.name.clone(),
            description: UNACCEPTED.to_owned(),
            schema,
            output: self.output.clone(),
            hints: raising
                .map(|(name, value)| (name.clone(), *value))
                .collect(),
            tier: self.tier,
        }
    }
}

/// Returns the schema without null keywords, or an error if it is no schema of parameters.
fn sound_schema(schema: &Value) -> Result<Object, String> {
    let words = |value: &Value| clip(&literal(value), 200);
    let Value::Object(schema) = schema else {
        return Err(format!("its schema is no object but {}", words(schema)));
    };
    let kind = schema.get("type").unwrap_or(&Value::Null);
    if !kind.is_null() && kind != "object" || schema.contains_key("type") && kind.is_null() {
        return Err(format!("its arguments are no object but {}", words(kind)));
    }
    match schema.get("properties") {
        None | Some(Value::Null) => {}
        Some(Value::Object(properties)) => {
            for (name, rules) in properties {
                if !rules.is_object() && !rules.is_boolean() {
                    let name = literal(&json!(clip(name, 80)));
                    return Err(format!(
                        "its property {name} is no schema but {}",
                        words(rules)
                    ));
                }
            }
        }
        Some(other) => return Err(format!("its properties are no object but {}", words(other))),
    }
    let mut sound = Object::from_iter([("type".to_owned(), json!("object"))]);
    for (name, value) in schema {
        let kept = match name.as_str() {
            "$schema" | "title" | "description" => value.is_string(),
            "properties" => !value.is_null(),
            "required" => value.is_array(),
            _ => true,
        };
        if kept {
            sound.insert(name.clone(), value.clone());
        }
    }
    if let Some(Value::Array(required)) = sound.get_mut("required") {
        required.retain(Value::is_string);
    }
    Ok(sound)
}

fn output_schema(listed: Option<&Value>, legacy: bool) -> Option<Object> {
    let mut output = listed?.as_object()?.clone();
    let kind = output.get("type").cloned();
    output.insert("type".to_owned(), json!("object"));
    let mut sound = sound_schema(&Value::Object(output)).ok()?;
    match kind {
        Some(kind) if legacy && kind != "object" => return None,
        Some(kind) => {
            sound.insert("type".to_owned(), kind);
        }
        None if legacy => {}
        None => {
            sound.shift_remove("type");
        }
    }
    Some(sound)
}

fn hints(listed: Option<&Value>) -> BTreeMap<String, bool> {
    HINTS
        .iter()
        .filter_map(|(wire, name)| Some(((*name).to_owned(), listed?.get(wire)?.as_bool()?)))
        .collect()
}

fn proposed(meta: Option<&Value>) -> u8 {
    let tier = meta
        .and_then(|meta| meta.get("tier"))
        .and_then(Value::as_u64);
    tier.and_then(|tier| u8::try_from(tier).ok())
        .filter(|tier| (1..=4).contains(tier))
        .unwrap_or(0)
}

/// Returns a name or value in a schema that looks like another one.
///
/// Both must be written exactly, and cannot be shown to a model in another way.
fn hidden_text(schema: &Value) -> Option<&str> {
    let differs = |text: &str| visible(text) != text;
    match schema {
        Value::String(text) => differs(text).then_some(text),
        Value::Array(items) => items.iter().find_map(hidden_text),
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            if differs(name) || name.contains(['\n', '\t']) {
                return Some(name.as_str());
            }
            let prose = PROSE.contains(&name.as_str()) && value.is_string();
            if prose { None } else { hidden_text(value) }
        }),
        _ => None,
    }
}

/// Returns the schema with invisible text in its prose made visible.
fn seen(schema: &Value) -> Value {
    mapped(schema, &seen, &|name, value| {
        let prose = PROSE.contains(&name);
        prose
            .then(|| value.as_str().map(|text| json!(visible(text))))
            .flatten()
            .map_or_else(|| Kept::Changed(seen(value)), Kept::Changed)
    })
}

/// Returns the schema without prose. Names of parameters stay.
fn wordless(schema: &Value) -> Value {
    mapped(schema, &wordless, &|name, value| {
        let prose = PROSE.contains(&name) || matches!(name, "examples" | "default");
        if prose {
            Kept::Dropped
        } else {
            Kept::Changed(wordless(value))
        }
    })
}

enum Kept {
    Changed(Value),
    Dropped,
}

/// Returns the schema with `keyword` applied to each keyword, and `inner` to named schemas.
///
/// Values that must be written exactly stay.
fn mapped(
    schema: &Value,
    inner: &dyn Fn(&Value) -> Value,
    keyword: &dyn Fn(&str, &Value) -> Kept,
) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(inner).collect(),
        Value::Object(members) => {
            let mut changed = Object::new();
            for (name, value) in members {
                let value = match value {
                    Value::Object(named) if NAMED.contains(&name.as_str()) => {
                        let named = named.iter().map(|(name, it)| (name.clone(), inner(it)));
                        Kept::Changed(Value::Object(named.collect()))
                    }
                    _ => match keyword(name, value) {
                        Kept::Changed(_)
                            if matches!(name.as_str(), "enum" | "const" | "default") =>
                        {
                            Kept::Changed(value.clone())
                        }
                        kept => kept,
                    },
                };
                if let Kept::Changed(value) = value {
                    changed.insert(name.clone(), value);
                }
            }
            Value::Object(changed)
        }
        other => other.clone(),
    }
}

/// Returns the changes in a readable form.
pub(super) fn differences(old: &Definition, new: &Definition) -> String {
    let mut parts = Vec::new();
    let short = |text: &str| literal(&json!(clip(&visible(text), 160)));
    if old.description != new.description {
        parts.push(format!(
            "its description was {}, is {}",
            short(&old.description),
            short(&new.description)
        ));
    }
    if old.schema != new.schema {
        parts.push("its parameters changed".to_owned());
    }
    if old.hints != new.hints || old.tier != new.tier {
        parts.push("what it says of its effect changed".to_owned());
    }
    if old.output != new.output {
        parts.push("the form of its result changed".to_owned());
    }
    parts.join("; ")
}

/// Returns the possible local names of a tool that its server calls `name`, plainest first.
fn name_forms(name: &str, prefix: &str) -> Vec<String> {
    let mut plain = String::new();
    for character in name.chars() {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '-') {
            plain.push(character);
        } else if !plain.ends_with('\0') {
            plain.push('\0');
        }
    }
    let plain = plain.replace('\0', "_");
    let plain = match plain.trim_matches(['_', '-']) {
        "" => format!("{prefix}tool"),
        plain => format!("{prefix}{plain}"),
    };
    let plain = if plain.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_') {
        plain
    } else {
        format!("_{plain}")
    };
    // The mark is derived from the server's own name, so it is the same at the next start.
    let marks = [
        hex(&Blake2b::<U4>::digest(name)),
        hex(&Blake2b::<U16>::digest(name)),
    ];
    let marked = marks.map(|mark| {
        let head: String = plain.chars().take(LONGEST_NAME - 1 - mark.len()).collect();
        format!("{head}_{mark}")
    });
    let fits = plain.len() <= LONGEST_NAME && ![FINISH, ASK_USER].contains(&plain.as_str());
    fits.then_some(plain).into_iter().chain(marked).collect()
}

/// Returns the local names of the tools of one server, by the server's names, in any order.
///
/// Each tool gets its plainest form that is no form of another tool, so that names never collide.
pub(super) fn safe_names<'a>(
    names: impl IntoIterator<Item = &'a str>,
    prefix: &str,
) -> BTreeMap<String, String> {
    let forms: BTreeMap<&str, Vec<String>> = names
        .into_iter()
        .map(|name| (name, name_forms(name, prefix)))
        .collect();
    let mut shared: BTreeMap<&str, usize> = BTreeMap::new();
    for form in forms.values().flatten() {
        *shared.entry(form).or_default() += 1;
    }
    let own = |all: &[String]| {
        let free = all
            .iter()
            .find(|form| shared.get(form.as_str()) == Some(&1));
        free.or(all.last()).cloned().unwrap_or_default()
    };
    forms
        .iter()
        .map(|(name, all)| ((*name).to_owned(), own(all)))
        .collect()
}

/// The accepted definitions of one server, in a file of the operator's folder.
#[derive(Debug)]
pub(super) struct Pins {
    path: PathBuf,
    /// The name of the server, for readers of the file.
    server: String,
}

#[derive(Serialize, Deserialize)]
struct PinFile {
    #[serde(default)]
    format: u64,
    #[serde(default)]
    server: String,
    tools: Vec<Definition>,
}

impl Pins {
    pub(super) fn new(path: PathBuf, server: String) -> Self {
        Self { path, server }
    }

    /// Returns the accepted definitions by the server's names; `None` before the first contact.
    ///
    /// # Errors
    ///
    /// The file is damaged or could have been written by another user, so the accepted definitions
    /// are unknown.
    pub(super) fn known(&self) -> Result<Option<BTreeMap<String, Definition>>, ConfigError> {
        let path = self.path.to_string_lossy();
        let wrong = |why: String| {
            let message = format!(
                "the tools that were accepted cannot be read ({why}): look at the file, or delete \
                 it to accept the server's tools as they are now"
            );
            ConfigError::new(path.as_ref(), message)
        };
        let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let opened = fs::OpenOptions::new()
            .read(true)
            .custom_flags(no_follow)
            .open(&self.path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
        let own = metadata.uid() == rustix::process::getuid().as_raw();
        if !metadata.is_file() || !own || metadata.mode() & 0o022 != 0 {
            return Err(wrong("another user could have written it".to_owned()));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(|error| wrong(error.to_string()))?;
        let held: PinFile =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let tools = held.tools.into_iter();
        Ok(Some(tools.map(|it| (it.name.clone(), it)).collect()))
    }

    /// Accepts the listed tools of a server on first contact.
    pub(super) fn meet<'a>(
        &self,
        definitions: impl Iterator<Item = &'a Definition>,
    ) -> Result<(), ConfigError> {
        let file = PinFile {
            format: 1,
            server: self.server.clone(),
            tools: definitions.cloned().collect(),
        };
        let text = serde_json::to_string_pretty(&file).unwrap_or_default();
        write_whole(&self.path, &text).map_err(|error| {
            let message = format!("what was accepted of a server's tools cannot be kept: {error}");
            ConfigError::new(self.path.to_string_lossy(), message)
        })
    }
}

/// Writes a file of the operator's folder atomically.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut maker = fs::DirBuilder::new();
    maker.recursive(true).mode(0o700).create(folder)?;
    let partial = path.with_extension(format!("{}.part", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            // Before the rename: otherwise a power failure may leave an empty file under the name.
            file.sync_all()
        })
        .and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_safe_and_no_tool_takes_anothers() {
        let names = safe_names(["a b", "a/b", "c", "42", "finish", "äö"], "");
        assert_eq!(names["c"], "c");
        assert_eq!(names["42"], "_42");
        assert_ne!(names["a b"], names["a/b"]);
        assert!(names["a b"].starts_with("a_b_"), "{names:?}");
        assert!(names["finish"].starts_with("finish_"));
        assert_eq!(names["äö"], "tool");
        assert_eq!(safe_names(["wipe/all"], "box_")["wipe/all"], "box_wipe_all");
        let long = "x".repeat(80);
        assert_eq!(safe_names([long.as_str()], "")[&long].len(), 64);
    }

    #[test]
    fn a_hint_raises_a_tier_and_lowers_it_with_trust_only() {
        let read = |hints: Value| {
            let listed = json!({"name": "x", "inputSchema": {}, "annotations": hints});
            Definition::read(&listed, true).unwrap()
        };
        let reads = read(json!({"readOnlyHint": true}));
        assert_eq!(reads.tier_and_effect(false), (Tier::Card, Sideeffect::Once));
        assert_eq!(reads.tier_and_effect(true), (Tier::Auto, Sideeffect::Read));
        let both = read(json!({"readOnlyHint": true, "destructiveHint": true}));
        assert_eq!(
            both.tier_and_effect(true),
            (Tier::Confirm, Sideeffect::Once)
        );
        let again = read(json!({"idempotentHint": true}));
        assert_eq!(again.tier_and_effect(true).1, Sideeffect::Idempotent);
    }

    #[test]
    fn a_tool_that_cannot_be_offered_says_why() {
        let flaw = |listed: Value| Definition::read(&listed, true).unwrap_err();
        assert_eq!(flaw(json!("x")), "a tool without a name");
        assert_eq!(
            flaw(json!({"name": "broken", "inputSchema": "nope"})),
            "'broken': its schema is no object but 'nope'"
        );
        for schema in [
            json!({"type": "string"}),
            json!({"properties": []}),
            json!({"properties": {"a": 1}}),
            json!({"properties": {"a\u{200b}": {}}}),
            json!({"properties": {"a": {"enum": ["x\u{202e}y"]}}}),
            json!({"description": "x".repeat(LARGEST)}),
        ] {
            assert!(flaw(json!({"name": "x", "inputSchema": schema})).starts_with("'x': "));
        }
    }

    #[test]
    fn the_reserved_parameter_of_a_server_has_another_name_here() {
        let listed = json!({"name": "x", "inputSchema": {
            "properties": {"timeout_s": {"type": "integer", "description": "a\u{200b}b"}},
            "required": ["timeout_s"],
        }});
        let shown = Definition::read(&listed, true).unwrap().shown_schema();
        assert_eq!(shown["required"], json!([RENAMED]));
        assert_eq!(shown["properties"][RENAMED]["description"], "a\\u{200b}b");
    }

    #[test]
    fn pins_that_another_could_have_written_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp/box-1.json");
        let pins = Pins::new(path.clone(), "box".to_owned());
        assert!(pins.known().unwrap().is_none());
        let listed = json!({"name": "x", "inputSchema": {}});
        let definition = Definition::read(&listed, true).unwrap();
        pins.meet([&definition].into_iter()).unwrap();
        assert_eq!(pins.known().unwrap().unwrap()["x"], definition);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(pins.known().is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{").unwrap();
        assert!(pins.known().is_err());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(pins.known().is_err());
    }
}

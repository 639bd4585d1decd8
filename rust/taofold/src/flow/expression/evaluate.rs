//! Evaluates the tree of a template with its variables.

use std::rc::Rc;

use super::bounds::{Budget, LARGEST, PASSED, characters, check_size};
use super::functions::{self, Given};
use super::operators::{binary, compare, kind, signed, truth};
use super::tree::{Arguments, Expr, Kind, Part};
use crate::json::{Object, Value, json, render};
use crate::text::near;

/// The maximum number of names compared with a missing one for a suggestion.
const COMPARED: usize = 200;

/// A value of an expression.
#[derive(Clone)]
pub(super) enum Item<'v> {
    /// A missing name or entry, with the error for its use.
    Missing(String),
    /// A borrowed value of the variables or of the template.
    Lent(&'v Value),
    /// A value that the expression created.
    Made(Rc<Value>),
    /// The variable `loop`.
    Loop { at: usize, length: usize },
}

impl<'v> Item<'v> {
    pub(super) fn of(value: Value) -> Self {
        Self::Made(Rc::new(value))
    }

    /// Returns the value, or the error of a missing one.
    pub(super) fn value(&self) -> Result<&Value, String> {
        match self {
            Self::Missing(fault) => Err(fault.clone()),
            Self::Lent(value) => Ok(value),
            Self::Made(value) => Ok(value),
            Self::Loop { .. } => {
                Err("TypeError: Encoding objects of type LoopContext is unsupported".to_owned())
            }
        }
    }

    /// Returns the entry that `part` selects, copied if the value was created by the expression.
    pub(super) fn entry<'s>(
        &'s self,
        budget: &Budget,
        part: impl Fn(&Value) -> Option<&Value>,
    ) -> Result<Option<Item<'v>>, String> {
        match self {
            Self::Lent(value) => Ok(part(value).map(Item::Lent)),
            other => {
                let Some(entry) = part(other.value()?) else {
                    return Ok(None);
                };
                budget.charge(entry)?;
                Ok(Some(Item::of(entry.clone())))
            }
        }
    }
}

/// One rendering.
pub(super) struct Evaluation<'v> {
    variables: &'v Object,
    scope: Vec<(&'v str, Item<'v>)>,
    budget: Budget,
}

type Evaluated<'v> = Result<Item<'v>, String>;

impl<'v> Evaluation<'v> {
    pub(super) fn new(variables: &'v Object, budget: Budget) -> Self {
        Self {
            variables,
            scope: Vec::new(),
            budget,
        }
    }

    /// Returns the value of an expression as JSON.
    pub(super) fn native(&mut self, expression: &'v Expr) -> Result<Value, String> {
        let item = self.item(expression)?;
        let value = item.value()?;
        match value {
            Value::String(text) => check_size(characters(text), PASSED)?,
            other => self.budget.charge(other)?,
        }
        Ok(value.clone())
    }

    /// Returns the text of a template.
    pub(super) fn text(&mut self, parts: &'v [Part]) -> Result<String, String> {
        let mut out = Output::default();
        self.parts(parts, &mut out)?;
        Ok(out.text)
    }

    fn parts(&mut self, parts: &'v [Part], out: &mut Output) -> Result<(), String> {
        for part in parts {
            match part {
                Part::Text(text) => out.push(text)?,
                Part::Show(expression) => {
                    let item = self.item(expression)?;
                    let value = item.value()?;
                    self.budget.charge(value)?;
                    out.push(&render(value))?;
                }
                Part::If {
                    branches,
                    otherwise,
                } => {
                    let mut taken = otherwise;
                    for (condition, body) in branches {
                        if self.holds(condition)? {
                            taken = body;
                            break;
                        }
                    }
                    self.parts(taken, out)?;
                }
                Part::For { .. } => self.repeat(part, out)?,
            }
        }
        Ok(())
    }

    fn repeat(&mut self, part: &'v Part, out: &mut Output) -> Result<(), String> {
        let Part::For {
            targets,
            values,
            condition,
            body,
            otherwise,
        } = part
        else {
            return Ok(());
        };
        let values = self.item(values)?;
        let outer = self.scope.len();
        let mut kept = Vec::new();
        for entry in self.entries(&values)? {
            self.budget.spend(1)?;
            if let Some(condition) = condition {
                self.bind(targets, &entry)?;
                let holds = self.holds(condition);
                self.scope.truncate(outer);
                if !holds? {
                    continue;
                }
            }
            kept.push(entry);
        }
        if kept.is_empty() {
            return self.parts(otherwise, out);
        }
        let length = kept.len();
        for (at, entry) in kept.into_iter().enumerate() {
            self.bind(targets, &entry)?;
            self.scope.push(("loop", Item::Loop { at, length }));
            let turn = self.parts(body, out);
            self.scope.truncate(outer);
            turn?;
        }
        Ok(())
    }

    /// Returns the entries that a loop visits.
    fn entries(&self, values: &Item<'v>) -> Result<Vec<Item<'v>>, String> {
        if let Item::Lent(Value::Array(entries)) = values {
            return Ok(entries.iter().map(Item::Lent).collect());
        }
        let value = values.value()?;
        self.budget.charge(value)?;
        let entries = functions::entries(value)?;
        Ok(entries.into_iter().map(Item::of).collect())
    }

    fn bind(&mut self, targets: &'v [String], entry: &Item<'v>) -> Result<(), String> {
        if let [target] = targets {
            self.scope.push((target, entry.clone()));
            return Ok(());
        }
        let parts = self.entries(entry)?;
        if parts.len() != targets.len() {
            let (expected, count) = (targets.len(), parts.len());
            return Err(format!(
                "ValueError: {expected} values expected for the targets of a loop, got {count}"
            ));
        }
        let names = targets.iter().map(String::as_str);
        self.scope.extend(names.zip(parts));
        Ok(())
    }

    fn holds(&mut self, expression: &'v Expr) -> Result<bool, String> {
        match self.item(expression)? {
            Item::Loop { .. } => Ok(true),
            item => Ok(truth(item.value()?)),
        }
    }

    fn item(&mut self, expression: &'v Expr) -> Evaluated<'v> {
        match &*expression.kind {
            Kind::Constant(value) => Ok(Item::Lent(value)),
            Kind::Name(name) => Ok(self.named(name)),
            Kind::List(parts) => self.list(parts),
            Kind::Mapping(pairs) => self.mapping(pairs),
            Kind::Attribute(of, name) => {
                let of = self.item(of)?;
                self.attribute(&of, name)
            }
            Kind::Item(of, key) => {
                let (of, key) = (self.item(of)?, self.item(key)?);
                self.member(&of, &key)
            }
            Kind::Slice(of, bounds) => self.slice(of, bounds),
            Kind::Filter(of, name, arguments) => {
                let of = self.item(of)?;
                let given = self.given(arguments)?;
                functions::filter(&self.budget, name, of, given)
            }
            Kind::Test(of, name, arguments) => self.test(of, name, arguments),
            Kind::Call(function, arguments) => self.call(function, arguments),
            Kind::Compare(first, rest) => self.compared(first, rest),
            Kind::And(left, right) => {
                let left = self.item(left)?;
                match left {
                    Item::Loop { .. } => self.item(right),
                    left if truth(left.value()?) => self.item(right),
                    left => Ok(left),
                }
            }
            Kind::Or(left, right) => {
                let left = self.item(left)?;
                if matches!(left, Item::Loop { .. }) || truth(left.value()?) {
                    return Ok(left);
                }
                self.item(right)
            }
            Kind::Not(inner) => Ok(Item::of(json!(!self.holds(inner)?))),
            Kind::Sign(sign, inner) => {
                let inner = self.item(inner)?;
                signed(sign, inner.value()?).map(Item::of)
            }
            Kind::Binary(sign, left, right) => {
                let (left, right) = (self.item(left)?, self.item(right)?);
                binary(&self.budget, sign, left.value()?, right.value()?).map(Item::of)
            }
            Kind::Concat(parts) => self.concat(parts),
            Kind::Choice { condition, yes, no } => {
                if self.holds(condition)? {
                    return self.item(yes);
                }
                match no {
                    Some(no) => self.item(no),
                    None => Ok(Item::Missing(
                        "an if without else has no value where it is false".to_owned(),
                    )),
                }
            }
        }
    }

    fn named(&self, name: &str) -> Item<'v> {
        let scope = self.scope.iter().rev();
        if let Some((_, item)) = scope.into_iter().find(|(known, _)| *known == name) {
            return item.clone();
        }
        match self.variables.get(name) {
            Some(value) => Item::Lent(value),
            None => Item::Missing(format!("'{name}' is undefined")),
        }
    }

    fn list(&mut self, parts: &'v [Expr]) -> Evaluated<'v> {
        let mut made = Vec::new();
        let mut weight = 1;
        for part in parts {
            let item = self.item(part)?;
            let value = item.value()?;
            // Checked before the copy, which would already allocate the memory.
            weight += self.budget.weigh(value, LARGEST)?;
            check_size(weight, LARGEST)?;
            made.push(value.clone());
        }
        Ok(Item::of(Value::Array(made)))
    }

    fn mapping(&mut self, pairs: &'v [(Expr, Expr)]) -> Evaluated<'v> {
        let mut made = Object::new();
        let mut weight = 1;
        for (key, value) in pairs {
            let (key, value) = (self.item(key)?, self.item(value)?);
            let name = key_of(key.value()?)?;
            let value = value.value()?;
            weight += self.budget.weigh(value, LARGEST)? + characters(&name);
            check_size(weight, LARGEST)?;
            made.insert(name, value.clone());
        }
        Ok(Item::of(Value::Object(made)))
    }

    fn attribute(&self, of: &Item<'v>, name: &str) -> Evaluated<'v> {
        if let Item::Loop { at, length } = of {
            let value = match name {
                "index" => json!(at + 1),
                "index0" => json!(at),
                "revindex" => json!(length - at),
                "revindex0" => json!(length - at - 1),
                "first" => json!(*at == 0),
                "last" => json!(at + 1 == *length),
                "length" => json!(length),
                _ => return Ok(Item::Missing(format!("loop has no '{name}'"))),
            };
            return Ok(Item::of(value));
        }
        match of.entry(&self.budget, |value| value.as_object()?.get(name))? {
            Some(entry) => Ok(entry),
            None => self.missing(of, name),
        }
    }

    /// Returns the missing item for a name that a value does not have.
    fn missing(&self, of: &Item<'v>, name: &str) -> Evaluated<'v> {
        let value = of.value()?;
        let Value::Object(members) = value else {
            return Ok(Item::Missing(format!(
                "{} values have no '{name}'",
                kind(value)
            )));
        };
        self.budget.skim(value)?;
        let hint = near(name, members.keys().map(String::as_str).take(COMPARED));
        Ok(Item::Missing(format!("there is no '{name}'; {hint}")))
    }

    fn member(&self, of: &Item<'v>, key: &Item<'v>) -> Evaluated<'v> {
        let (value, key) = (of.value()?, key.value()?);
        if let (Value::String(text), Some(place)) = (value, place(key)) {
            let length = characters(text);
            self.budget.charge(value)?;
            let character = from_end(place, length).and_then(|at| text.chars().nth(at));
            if let Some(character) = character {
                return Ok(Item::of(Value::String(character.into())));
            }
        }
        let entry = of.entry(&self.budget, |value| match value {
            Value::Array(entries) => entries.get(from_end(place(key)?, entries.len())?),
            Value::Object(members) => members.get(&key_of(key).ok()?),
            _ => None,
        })?;
        match entry {
            Some(entry) => Ok(entry),
            None => self.missing(of, &render(key)),
        }
    }

    fn slice(&mut self, of: &'v Expr, bounds: &'v [Option<Expr>; 3]) -> Evaluated<'v> {
        let of = self.item(of)?;
        let value = of.value()?;
        self.budget.charge(value)?;
        let mut limits = [None; 3];
        for (limit, bound) in limits.iter_mut().zip(bounds) {
            let Some(bound) = bound else { continue };
            let bound = self.item(bound)?;
            let bound = bound.value()?;
            *limit = match bound {
                Value::Null => None,
                other => Some(place(other).ok_or_else(|| {
                    "TypeError: slice indices must be integers or None".to_owned()
                })?),
            };
        }
        let [start, stop, step] = limits;
        match value {
            Value::String(text) => {
                let characters: Vec<char> = text.chars().collect();
                let places = slice_places(characters.len(), start, stop, step)?;
                let part: String = places.into_iter().map(|at| characters[at]).collect();
                Ok(Item::of(Value::String(part)))
            }
            Value::Array(entries) => {
                let places = slice_places(entries.len(), start, stop, step)?;
                let part = places.into_iter().map(|at| entries[at].clone());
                Ok(Item::of(part.collect()))
            }
            other => Ok(Item::Missing(format!(
                "{} values have no slices",
                kind(other)
            ))),
        }
    }

    fn given(&mut self, arguments: &'v Arguments) -> Result<Given<'v>, String> {
        let mut given = Given::default();
        for value in &arguments.positional {
            given.positional.push(self.item(value)?);
        }
        for (name, value) in &arguments.named {
            given.named.push((name.clone(), self.item(value)?));
        }
        Ok(given)
    }

    fn test(&mut self, of: &'v Expr, name: &str, arguments: &'v Arguments) -> Evaluated<'v> {
        let of = self.item(of)?;
        let given = self.given(arguments)?;
        let holds = match name {
            "defined" => !matches!(of, Item::Missing(_)),
            "undefined" => matches!(of, Item::Missing(_)),
            _ => functions::test(&self.budget, name, of.value()?, given)?,
        };
        Ok(Item::of(json!(holds)))
    }

    fn call(&mut self, function: &'v Expr, arguments: &'v Arguments) -> Evaluated<'v> {
        match &*function.kind {
            Kind::Name(name) => {
                let given = self.given(arguments)?;
                functions::function(&self.budget, name, given)
            }
            Kind::Attribute(of, name) => {
                let of = self.item(of)?;
                let value = of.value()?;
                let key = matches!(value, Value::Object(members) if members.contains_key(name));
                if key || !functions::is_method(value, name) {
                    let entry = self.attribute(&of, name)?;
                    let shown = kind(entry.value()?);
                    return Err(format!("TypeError: '{shown}' object is not callable"));
                }
                let given = self.given(arguments)?;
                functions::method(&self.budget, &of, name, given)
            }
            _ => Err("TypeError: this value is not callable".to_owned()),
        }
    }

    fn compared(&mut self, first: &'v Expr, rest: &'v [(&'static str, Expr)]) -> Evaluated<'v> {
        let mut left = self.item(first)?;
        self.budget.charge(left.value()?)?;
        for (sign, right) in rest {
            let right = self.item(right)?;
            self.budget.charge(right.value()?)?;
            if !compare(sign, left.value()?, right.value()?)? {
                return Ok(Item::of(json!(false)));
            }
            left = right;
        }
        Ok(Item::of(json!(true)))
    }

    fn concat(&mut self, parts: &'v [Expr]) -> Evaluated<'v> {
        let mut out = Output::default();
        for part in parts {
            let item = self.item(part)?;
            let value = item.value()?;
            self.budget.charge(value)?;
            out.push(&render(value))?;
        }
        Ok(Item::of(Value::String(out.text)))
    }
}

/// A text that stops growing at its limit.
#[derive(Default)]
struct Output {
    text: String,
    length: usize,
}

impl Output {
    fn push(&mut self, part: &str) -> Result<(), String> {
        self.length += characters(part);
        check_size(self.length, LARGEST)?;
        self.text.push_str(part);
        Ok(())
    }
}

/// Returns a key of a mapping as text.
fn key_of(key: &Value) -> Result<String, String> {
    match key {
        Value::String(name) => Ok(name.clone()),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        other => Err(format!(
            "TypeError: a key of a mapping is text, not {}",
            kind(other)
        )),
    }
}

/// Returns an integer index.
fn place(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag)),
        other => other.as_i64(),
    }
}

/// Returns an index from the start; negative indexes count from the end.
fn from_end(place: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let at = if place < 0 { place + length } else { place };
    usize::try_from(at).ok().filter(|_| at < length)
}

/// Returns the indexes of a slice with Python's semantics.
fn slice_places(
    length: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: Option<i64>,
) -> Result<Vec<usize>, String> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err("ValueError: slice step cannot be zero".to_owned());
    }
    let length = i64::try_from(length).map_err(|error| error.to_string())?;
    let (lowest, highest) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let bounded = |bound: i64| {
        let at = if bound < 0 {
            bound.saturating_add(length)
        } else {
            bound
        };
        at.clamp(lowest, highest)
    };
    let (first, last) = if step > 0 {
        (lowest, highest)
    } else {
        (highest, lowest)
    };
    let mut at = start.map_or(first, bounded);
    let end = stop.map_or(last, bounded);
    let mut places = Vec::new();
    while (step > 0 && at < end) || (step < 0 && at > end) {
        places.extend(usize::try_from(at).ok());
        at = at.saturating_add(step);
    }
    Ok(places)
}

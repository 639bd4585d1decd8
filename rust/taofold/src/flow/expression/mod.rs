//! Compiles and renders templates of files: a subset of Jinja with bounded cost.
//!
//! A template has expressions, `if` and `for`. Filters, functions, methods and tests have the names
//! of the Python runtime. Every loop, operator, call and filter spends from a budget. Large results
//! are rejected before they are created. This module does not depend on flows.

mod bounds;
mod evaluate;
mod functions;
mod lexer;
mod operators;
mod parser;
mod tree;

use crate::json::{Object, Value};
use bounds::Budget;
use evaluate::Evaluation;
use tree::{Expr, Part};

/// A compiled template.
pub(super) struct Template {
    source: String,
    parts: Vec<Part>,
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    ///
    /// The text is not a template, is too long, or uses a forbidden construct.
    pub(super) fn new(source: &str) -> Result<Self, String> {
        let parts = parser::parse(lexer::tokens(source)?)?;
        Ok(Self {
            source: source.to_owned(),
            parts,
        })
    }

    /// Returns the expression of a template that consists of one `{{ expression }}` and whitespace.
    fn lone(&self) -> Option<&Expr> {
        let blank = |part: &&Part| !matches!(part, Part::Text(text) if text.trim().is_empty());
        let mut parts = self.parts.iter().filter(blank);
        match (parts.next(), parts.next()) {
            (Some(Part::Show(expression)), None) => Some(expression),
            _ => None,
        }
    }

    /// Returns true if the template consists of one `{{ expression }}` and whitespace.
    pub(super) fn is_expression(&self) -> bool {
        self.lone().is_some()
    }

    /// Returns true if the value of a lone expression is truthy.
    ///
    /// # Errors
    ///
    /// As [`Template::render`].
    pub(super) fn holds(&self, variables: &Object) -> Result<bool, String> {
        self.render(variables).map(|value| operators::truth(&value))
    }

    /// Renders the template: the native value of a lone expression, otherwise text.
    ///
    /// # Errors
    ///
    /// A name is undefined, types do not match, or the rendering would cost too much.
    pub(super) fn render(&self, variables: &Object) -> Result<Value, String> {
        let mut evaluation = Evaluation::new(variables, Budget::new());
        let rendered = match self.lone() {
            Some(expression) => evaluation.native(expression),
            None => evaluation.text(&self.parts).map(Value::String),
        };
        rendered.map_err(|error| {
            let line = self.source.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("{}: {error}", crate::text::clip(&line, 60))
        })
    }
}

//! The tree of a template. Each node knows its depth, so that no tree exceeds the maximum depth.

use crate::json::Value;

/// The maximum depth of an expression.
const DEEPEST: usize = 200;

/// A part of a template.
pub(super) enum Part {
    Text(String),
    Show(Expr),
    If {
        branches: Vec<(Expr, Vec<Part>)>,
        otherwise: Vec<Part>,
    },
    For {
        targets: Vec<String>,
        values: Expr,
        condition: Option<Expr>,
        body: Vec<Part>,
        otherwise: Vec<Part>,
    },
}

/// An expression.
pub(super) struct Expr {
    pub(super) kind: Box<Kind>,
    depth: usize,
}

/// A kind of expression.
pub(super) enum Kind {
    Constant(Value),
    Name(String),
    List(Vec<Expr>),
    Mapping(Vec<(Expr, Expr)>),
    Attribute(Expr, String),
    Item(Expr, Expr),
    Slice(Expr, [Option<Expr>; 3]),
    Filter(Expr, String, Arguments),
    Test(Expr, String, Arguments),
    Call(Expr, Arguments),
    Compare(Expr, Vec<(&'static str, Expr)>),
    And(Expr, Expr),
    Or(Expr, Expr),
    Not(Expr),
    Sign(&'static str, Expr),
    Binary(&'static str, Expr, Expr),
    Concat(Vec<Expr>),
    Choice {
        condition: Expr,
        yes: Expr,
        no: Option<Expr>,
    },
}

/// The arguments of a call.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(String, Expr)>,
}

impl Arguments {
    pub(super) fn each(&self) -> impl Iterator<Item = &Expr> {
        let named = self.named.iter().map(|(_, value)| value);
        self.positional.iter().chain(named)
    }
}

pub(super) const TOO_DEEP: &str = "the template is nested too deep";

impl Expr {
    pub(super) fn new(kind: Kind) -> Result<Self, String> {
        let depth = 1 + kind.below();
        if depth > DEEPEST {
            return Err(TOO_DEEP.to_owned());
        }
        Ok(Self {
            kind: Box::new(kind),
            depth,
        })
    }
}

impl Kind {
    /// Returns the depth of the deepest node below.
    fn below(&self) -> usize {
        let deepest = |parts: &mut dyn Iterator<Item = &Expr>| {
            parts.map(|part| part.depth).max().unwrap_or_default()
        };
        match self {
            Self::Constant(_) | Self::Name(_) => 0,
            Self::List(parts) | Self::Concat(parts) => deepest(&mut parts.iter()),
            Self::Mapping(pairs) => {
                deepest(&mut pairs.iter().flat_map(|(key, value)| [key, value]))
            }
            Self::Attribute(of, _) | Self::Not(of) | Self::Sign(_, of) => of.depth,
            Self::Item(of, key) => of.depth.max(key.depth),
            Self::Slice(of, bounds) => of.depth.max(deepest(&mut bounds.iter().flatten())),
            Self::Filter(of, _, arguments)
            | Self::Test(of, _, arguments)
            | Self::Call(of, arguments) => of.depth.max(deepest(&mut arguments.each())),
            Self::Compare(first, rest) => first
                .depth
                .max(deepest(&mut rest.iter().map(|pair| &pair.1))),
            Self::And(left, right) | Self::Or(left, right) | Self::Binary(_, left, right) => {
                left.depth.max(right.depth)
            }
            Self::Choice { condition, yes, no } => condition
                .depth
                .max(yes.depth)
                .max(no.as_ref().map_or(0, |no| no.depth)),
        }
    }
}

//! Parses the tokens of a template to a tree, with Jinja's grammar for the supported tags.

use super::functions::{self, FILTERS, FUNCTIONS, TESTS};
use super::lexer::Token;
use super::tree::{Arguments, Expr, Kind, Part, TOO_DEEP};
use crate::json::{Value, json};
use crate::text::near;

/// The maximum nesting of brackets and calls.
const NESTED: usize = 70;
/// The maximum nesting of blocks.
const BLOCKS: usize = 90;
/// The maximum nesting of loops.
const LOOPS: usize = 20;

/// Returns the parts of a template.
pub(super) fn parse(tokens: Vec<Token>) -> Result<Vec<Part>, String> {
    let mut parser = Parser {
        tokens,
        at: 0,
        nested: 0,
        blocks: 0,
        loops: 0,
    };
    let (parts, _) = parser.parts(&[])?;
    Ok(parts)
}

/// Returns the closest known name after a semicolon; empty if none is close. The lists are too long
/// to print.
fn similar(name: &str, known: &[&str]) -> String {
    let hint = near(name, known.iter().copied());
    if hint.starts_with("did you mean") {
        format!("; {hint}")
    } else {
        String::new()
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    nested: usize,
    blocks: usize,
    loops: usize,
}

type Parsed<T = Expr> = Result<T, String>;

fn unreadable<T>(fault: impl std::fmt::Display) -> Parsed<T> {
    Err(format!("the template cannot be read: {fault}"))
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(here)) if *here == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(here)) if here == word)
    }

    fn skip_sign(&mut self, sign: &str) -> bool {
        let here = self.is_sign(sign);
        self.at += usize::from(here);
        here
    }

    fn skip_word(&mut self, word: &str) -> bool {
        let here = self.is_word(word);
        self.at += usize::from(here);
        here
    }

    fn expect_sign(&mut self, sign: &str) -> Parsed<()> {
        if self.skip_sign(sign) {
            return Ok(());
        }
        unreadable(format!("expected '{sign}', got {}", self.here()))
    }

    fn expect_name(&mut self) -> Parsed<String> {
        match self.take() {
            Some(Token::Name(name)) => Ok(name),
            _ => {
                self.at -= 1;
                unreadable(format!("expected a name, got {}", self.here()))
            }
        }
    }

    fn expect(&mut self, token: &Token) -> Parsed<()> {
        if self.peek() == Some(token) {
            self.at += 1;
            return Ok(());
        }
        unreadable(format!("unexpected {}", self.here()))
    }

    /// Describes the next token.
    fn here(&self) -> String {
        match self.peek() {
            None => "the end of the template".to_owned(),
            Some(Token::Name(name)) => format!("'{name}'"),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
            Some(Token::ShowEnd) => "'}}'".to_owned(),
            Some(Token::BlockEnd) => "'%}'".to_owned(),
            Some(Token::Integer(_) | Token::Float(_)) => "a number".to_owned(),
            Some(Token::String(_)) => "a string".to_owned(),
            Some(Token::Text(_) | Token::ShowStart | Token::BlockStart) => "text".to_owned(),
        }
    }

    /// Parses up to a block with one of these names and returns that name too.
    fn parts(&mut self, ends: &[&str]) -> Parsed<(Vec<Part>, String)> {
        let mut parts = Vec::new();
        while let Some(token) = self.take() {
            match token {
                Token::Text(text) => parts.push(Part::Text(text)),
                Token::ShowStart => {
                    parts.push(Part::Show(self.tuple(true)?));
                    self.expect(&Token::ShowEnd)?;
                }
                _ => {
                    let name = self.expect_name()?;
                    if ends.contains(&name.as_str()) {
                        return Ok((parts, name));
                    }
                    parts.push(self.block(&name)?);
                }
            }
        }
        match ends {
            [] => Ok((parts, String::new())),
            ends => unreadable(format!(
                "unexpected end of template, expected {}",
                ends.join(" or ")
            )),
        }
    }

    fn block(&mut self, name: &str) -> Parsed<Part> {
        self.blocks += 1;
        if self.blocks > BLOCKS {
            return Err(TOO_DEEP.to_owned());
        }
        let part = match name {
            "if" => self.branches(),
            "for" => self.repeat(),
            other => Err(format!(
                "templates here have no '{other}': only expressions, if and for"
            )),
        };
        self.blocks -= 1;
        part
    }

    fn branches(&mut self) -> Parsed<Part> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            let condition = self.tuple(false)?;
            self.expect(&Token::BlockEnd)?;
            let (body, end) = self.parts(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            if end == "elif" {
                continue;
            }
            if end == "else" {
                self.expect(&Token::BlockEnd)?;
                (otherwise, _) = self.parts(&["endif"])?;
            }
            self.expect(&Token::BlockEnd)?;
            return Ok(Part::If {
                branches,
                otherwise,
            });
        }
    }

    fn repeat(&mut self) -> Parsed<Part> {
        self.loops += 1;
        if self.loops > LOOPS {
            return Err(TOO_DEEP.to_owned());
        }
        let mut targets = Vec::new();
        let bracket = self.skip_sign("(");
        loop {
            let target = self.expect_name()?;
            if FUNCTIONS.contains(&target.as_str()) {
                return Err(format!("'{target}' is a function: write {target}(…)"));
            }
            targets.push(target);
            if !self.skip_sign(",") || self.is_word("in") {
                break;
            }
        }
        if bracket {
            self.expect_sign(")")?;
        }
        if !self.skip_word("in") {
            return unreadable(format!("expected 'in', got {}", self.here()));
        }
        let values = self.tuple(false)?;
        let condition = if self.skip_word("if") {
            Some(self.expression()?)
        } else {
            None
        };
        if self.is_word("recursive") {
            return Err("a loop cannot be recursive".to_owned());
        }
        self.expect(&Token::BlockEnd)?;
        let (body, end) = self.parts(&["endfor", "else"])?;
        let mut otherwise = Vec::new();
        if end == "else" {
            self.expect(&Token::BlockEnd)?;
            (otherwise, _) = self.parts(&["endfor"])?;
        }
        self.expect(&Token::BlockEnd)?;
        self.loops -= 1;
        Ok(Part::For {
            targets,
            values,
            condition,
            body,
            otherwise,
        })
    }

    /// Parses one expression, or several expressions separated by commas as a list.
    fn tuple(&mut self, choices: bool) -> Parsed {
        let first = if choices {
            self.expression()?
        } else {
            self.or()?
        };
        if !self.is_sign(",") {
            return Ok(first);
        }
        let mut entries = vec![first];
        while self.skip_sign(",") {
            if matches!(
                self.peek(),
                None | Some(Token::ShowEnd | Token::BlockEnd | Token::Sign(")"))
            ) {
                break;
            }
            entries.push(if choices {
                self.expression()?
            } else {
                self.or()?
            });
        }
        Expr::new(Kind::List(entries))
    }

    fn expression(&mut self) -> Parsed {
        self.nested += 1;
        if self.nested > NESTED {
            return Err(TOO_DEEP.to_owned());
        }
        let mut yes = self.or()?;
        while self.skip_word("if") {
            let condition = self.or()?;
            let no = if self.skip_word("else") {
                Some(self.expression()?)
            } else {
                None
            };
            yes = Expr::new(Kind::Choice { condition, yes, no })?;
        }
        self.nested -= 1;
        Ok(yes)
    }

    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        while self.skip_word("or") {
            left = Expr::new(Kind::Or(left, self.and()?))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.not()?;
        while self.skip_word("and") {
            left = Expr::new(Kind::And(left, self.not()?))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed {
        let mut signs = 0;
        while self.skip_word("not") {
            signs += 1;
        }
        let mut inner = self.compare()?;
        for _ in 0..signs {
            inner = Expr::new(Kind::Not(inner))?;
        }
        Ok(inner)
    }

    fn compare(&mut self) -> Parsed {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let operator = match self.peek() {
                Some(Token::Sign(sign @ ("==" | "!=" | "<" | "<=" | ">" | ">="))) => *sign,
                Some(Token::Name(word)) if word == "in" => "in",
                Some(Token::Name(word)) if word == "not" => {
                    let next = self.tokens.get(self.at + 1);
                    if !matches!(next, Some(Token::Name(word)) if word == "in") {
                        break;
                    }
                    self.at += 1;
                    "not in"
                }
                _ => break,
            };
            self.at += 1;
            rest.push((operator, self.sum()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Expr::new(Kind::Compare(first, rest))
    }

    fn sign_of(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let found = signs.iter().find(|sign| self.is_sign(sign)).copied();
        self.at += usize::from(found.is_some());
        found
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.concat()?;
        while let Some(sign) = self.sign_of(&["+", "-"]) {
            left = Expr::new(Kind::Binary(sign, left, self.concat()?))?;
        }
        Ok(left)
    }

    fn concat(&mut self) -> Parsed {
        let first = self.product()?;
        if !self.is_sign("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.skip_sign("~") {
            parts.push(self.product()?);
        }
        Expr::new(Kind::Concat(parts))
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.power()?;
        while let Some(sign) = self.sign_of(&["*", "/", "//", "%"]) {
            left = Expr::new(Kind::Binary(sign, left, self.power()?))?;
        }
        Ok(left)
    }

    fn power(&mut self) -> Parsed {
        let mut left = self.unary()?;
        while self.skip_sign("**") {
            left = Expr::new(Kind::Binary("**", left, self.unary()?))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        let mut signs = Vec::new();
        while let Some(sign) = self.sign_of(&["-", "+"]) {
            signs.push(sign);
        }
        let primary = self.primary()?;
        let mut inner = self.postfix(primary)?;
        for sign in signs.into_iter().rev() {
            inner = Expr::new(Kind::Sign(sign, inner))?;
        }
        self.filters(inner)
    }

    fn primary(&mut self) -> Parsed {
        let token = self.take();
        let constant = |value: Value| Expr::new(Kind::Constant(value));
        match token {
            Some(Token::Name(name)) => match name.as_str() {
                "true" | "True" => constant(Value::Bool(true)),
                "false" | "False" => constant(Value::Bool(false)),
                "none" | "None" | "null" => constant(Value::Null),
                name if FUNCTIONS.contains(&name) && !self.is_sign("(") => {
                    Err(format!("'{name}' is a function: write {name}(…)"))
                }
                _ => Expr::new(Kind::Name(name)),
            },
            Some(Token::String(mut text)) => {
                while let Some(Token::String(more)) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                constant(Value::String(text))
            }
            Some(Token::Integer(number)) => constant(json!(number)),
            Some(Token::Float(number)) => constant(json!(number)),
            Some(Token::Sign("(")) => {
                if self.skip_sign(")") {
                    return Expr::new(Kind::List(Vec::new()));
                }
                let inner = self.tuple(true)?;
                self.expect_sign(")")?;
                Ok(inner)
            }
            Some(Token::Sign("[")) => Expr::new(Kind::List(self.entries()?)),
            Some(Token::Sign("{")) => self.mapping(),
            _ => {
                self.at -= 1;
                unreadable(format!("unexpected {}", self.here()))
            }
        }
    }

    fn entries(&mut self) -> Parsed<Vec<Expr>> {
        let mut entries = Vec::new();
        while !self.skip_sign("]") {
            if !entries.is_empty() {
                self.expect_sign(",")?;
                if self.skip_sign("]") {
                    break;
                }
            }
            entries.push(self.expression()?);
        }
        Ok(entries)
    }

    fn mapping(&mut self) -> Parsed {
        let mut pairs = Vec::new();
        while !self.skip_sign("}") {
            if !pairs.is_empty() {
                self.expect_sign(",")?;
                if self.skip_sign("}") {
                    break;
                }
            }
            let key = self.expression()?;
            self.expect_sign(":")?;
            pairs.push((key, self.expression()?));
        }
        Expr::new(Kind::Mapping(pairs))
    }

    fn postfix(&mut self, mut inner: Expr) -> Parsed {
        loop {
            if self.skip_sign(".") {
                inner = match self.take() {
                    Some(Token::Name(name)) if name.starts_with('_') => {
                        return Err(format!("'{name}' cannot be reached from a template"));
                    }
                    Some(Token::Name(name)) => Expr::new(Kind::Attribute(inner, name))?,
                    Some(Token::Integer(place)) => {
                        let place = Expr::new(Kind::Constant(json!(place)))?;
                        Expr::new(Kind::Item(inner, place))?
                    }
                    _ => return unreadable("expected name or number"),
                };
            } else if self.skip_sign("[") {
                inner = self.subscript(inner)?;
            } else if self.is_sign("(") {
                inner = self.call(inner)?;
            } else {
                return Ok(inner);
            }
        }
    }

    fn subscript(&mut self, of: Expr) -> Parsed {
        let mut bounds = [None, None, None];
        let mut colons = 0;
        while !self.skip_sign("]") {
            if self.skip_sign(":") {
                colons += 1;
                if colons > 2 {
                    return unreadable("unexpected ':'");
                }
            } else if bounds[colons].is_none() {
                bounds[colons] = Some(self.expression()?);
            } else {
                return unreadable(format!("expected ']', got {}", self.here()));
            }
        }
        match (colons, bounds) {
            (0, [Some(key), ..]) => Expr::new(Kind::Item(of, key)),
            (0, _) => unreadable("unexpected ']'"),
            (_, bounds) => Expr::new(Kind::Slice(of, bounds)),
        }
    }

    fn call(&mut self, inner: Expr) -> Parsed {
        if let Kind::Name(name) = &*inner.kind
            && name != "range"
            && !FUNCTIONS.contains(&name.as_str())
        {
            let hint = near(name, FUNCTIONS);
            return Err(format!("there is no function '{name}'; {hint}"));
        }
        let arguments = self.arguments()?;
        Expr::new(Kind::Call(inner, arguments))
    }

    fn arguments(&mut self) -> Parsed<Arguments> {
        self.expect_sign("(")?;
        let mut arguments = Arguments::default();
        let mut first = true;
        while !self.skip_sign(")") {
            if !first {
                self.expect_sign(",")?;
                if self.skip_sign(")") {
                    break;
                }
            }
            first = false;
            if self.is_sign("*") || self.is_sign("**") {
                return unreadable("a call here has no '*'");
            }
            let named = matches!(
                (self.peek(), self.tokens.get(self.at + 1)),
                (Some(Token::Name(_)), Some(Token::Sign("=")))
            );
            if named {
                let name = self.expect_name()?;
                self.at += 1;
                arguments.named.push((name, self.expression()?));
            } else if arguments.named.is_empty() {
                arguments.positional.push(self.expression()?);
            } else {
                return unreadable("invalid syntax for function call expression");
            }
        }
        Ok(arguments)
    }

    fn filters(&mut self, mut inner: Expr) -> Parsed {
        loop {
            if self.skip_sign("|") {
                let name = self.dotted()?;
                if !FILTERS.contains(&name.as_str()) {
                    let hint = similar(&name, &FILTERS);
                    return Err(format!("there is no filter '{name}'{hint}"));
                }
                let arguments = if self.is_sign("(") {
                    self.arguments()?
                } else {
                    Arguments::default()
                };
                inner = Expr::new(Kind::Filter(inner, name, arguments))?;
            } else if self.skip_word("is") {
                inner = self.test(inner)?;
            } else if self.is_sign("(") {
                inner = self.call(inner)?;
            } else {
                return Ok(inner);
            }
        }
    }

    fn test(&mut self, inner: Expr) -> Parsed {
        let negated = self.skip_word("not");
        let name = self.dotted()?;
        let Some(test) = functions::test_named(&name) else {
            let hint = similar(&name, &TESTS);
            return Err(format!("there is no test '{name}'{hint}"));
        };
        let arguments = if self.is_sign("(") {
            self.arguments()?
        } else if self.test_argument()? {
            let primary = self.primary()?;
            Arguments {
                positional: vec![self.postfix(primary)?],
                named: Vec::new(),
            }
        } else {
            Arguments::default()
        };
        let tested = Expr::new(Kind::Test(inner, test.to_owned(), arguments))?;
        if negated {
            return Expr::new(Kind::Not(tested));
        }
        Ok(tested)
    }

    /// Returns true if an argument without brackets follows the name of a test.
    fn test_argument(&self) -> Parsed<bool> {
        match self.peek() {
            Some(Token::Name(word)) if word == "is" => {
                unreadable("You cannot chain multiple tests with is")
            }
            Some(Token::Name(word)) => Ok(!["else", "or", "and"].contains(&word.as_str())),
            Some(Token::String(_) | Token::Integer(_) | Token::Float(_)) => Ok(true),
            Some(Token::Sign(sign)) => Ok(["[", "{"].contains(sign)),
            _ => Ok(false),
        }
    }

    fn dotted(&mut self) -> Parsed<String> {
        let mut name = self.expect_name()?;
        while self.skip_sign(".") {
            name.push('.');
            name.push_str(&self.expect_name()?);
        }
        Ok(name)
    }
}

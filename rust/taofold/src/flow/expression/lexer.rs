//! Splits a template into text and tokens, with Jinja's rules for whitespace around tags.
//!
//! The first line break after a block or comment is removed, and so is whitespace between the start
//! of a line and a block or comment. `-` beside a tag removes all whitespace on its side; `+` keeps
//! it.

/// The maximum number of characters of a template.
const LONGEST: usize = 200_000;
/// The maximum number of tokens of a template; a text between tags counts as one.
const MOST: usize = 10_000;

const OPERATORS: [&str; 27] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[",
    "]", "{", "}", ".", ",", ":", "|", ";", "@",
];

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Text(String),
    ShowStart,
    ShowEnd,
    BlockStart,
    BlockEnd,
    Name(String),
    String(String),
    Integer(u64),
    Float(f64),
    Sign(&'static str),
}

/// Returns the tokens of a template.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, String> {
    let length = source.chars().count();
    if length > LONGEST {
        let length = super::bounds::grouped(length);
        return Err(format!("the template is too long: {length} characters"));
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut lexer = Lexer {
        rest: &source,
        tokens: Vec::new(),
        counted: 0,
        line_starts: true,
    };
    lexer.text()?;
    Ok(lexer.tokens)
}

fn unreadable(fault: impl std::fmt::Display) -> String {
    format!("the template cannot be read: {fault}")
}

struct Lexer<'s> {
    rest: &'s str,
    tokens: Vec<Token>,
    counted: usize,
    line_starts: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Tag {
    Show,
    Block,
    Comment,
}

impl Tag {
    fn end(self) -> &'static str {
        match self {
            Self::Show => "}}",
            Self::Block => "%}",
            Self::Comment => "#}",
        }
    }
}

impl Lexer<'_> {
    fn push(&mut self, token: Token) -> Result<(), String> {
        self.counted += 1;
        if self.counted > MOST {
            let most = super::bounds::grouped(MOST);
            return Err(format!(
                "the template is too long: more than {most} words and signs"
            ));
        }
        self.tokens.push(token);
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.line_starts = bytes > 0 && self.rest[..bytes].ends_with('\n');
        self.rest = &self.rest[bytes..];
    }

    fn text(&mut self) -> Result<(), String> {
        loop {
            let Some((place, tag)) = first_tag(self.rest) else {
                if !self.rest.is_empty() {
                    self.push(Token::Text(self.rest.to_owned()))?;
                }
                return Ok(());
            };
            let text = self.before(place, tag);
            if !text.is_empty() {
                self.push(Token::Text(text))?;
            }
            self.advance(place + 2);
            let sign = usize::from(self.rest.starts_with(['-', '+']));
            self.advance(sign);
            match tag {
                Tag::Show => {
                    self.push(Token::ShowStart)?;
                    self.tag(tag)?;
                    self.push(Token::ShowEnd)?;
                }
                Tag::Comment => self.comment()?,
                Tag::Block if self.raw_start() => self.raw()?,
                Tag::Block => {
                    self.push(Token::BlockStart)?;
                    self.tag(tag)?;
                    self.push(Token::BlockEnd)?;
                }
            }
        }
    }

    /// Returns the text before a tag, without the whitespace that the tag removes.
    fn before(&self, place: usize, tag: Tag) -> String {
        let text = &self.rest[..place];
        match self.rest[place + 2..].chars().next() {
            Some('-') => text.trim_end().to_owned(),
            Some('+') => text.to_owned(),
            _ if tag == Tag::Show => text.to_owned(),
            _ => {
                let line = text.rfind('\n').map_or(0, |end| end + 1);
                let starts = line > 0 || self.line_starts;
                let kept = starts && text[line..].trim().is_empty();
                text[..if kept { line } else { place }].to_owned()
            }
        }
    }

    /// Consumes the end of a tag if it is next.
    fn ends(&mut self, tag: Tag) -> bool {
        let end = tag.end();
        if let Some(after) = self.rest.strip_prefix('-')
            && let Some(after) = after.strip_prefix(end)
        {
            let blanks = after.len() - after.trim_start().len();
            self.advance(1 + end.len() + blanks);
            return true;
        }
        if tag != Tag::Show
            && self
                .rest
                .strip_prefix('+')
                .is_some_and(|after| after.starts_with(end))
        {
            self.advance(1 + end.len());
            return true;
        }
        let Some(after) = self.rest.strip_prefix(end) else {
            return false;
        };
        let line = usize::from(tag != Tag::Show && after.starts_with('\n'));
        self.advance(end.len() + line);
        true
    }

    fn comment(&mut self) -> Result<(), String> {
        let end = self
            .rest
            .find("#}")
            .ok_or_else(|| unreadable("Missing end of comment tag"))?;
        let sign = usize::from(self.rest[..end].ends_with(['-', '+']));
        self.advance(end - sign);
        self.ends(Tag::Comment);
        Ok(())
    }

    fn raw_start(&self) -> bool {
        raw_tag(self.rest, "raw").is_some()
    }

    /// Consumes `{% raw %}` text `{% endraw %}` and keeps its text unchanged.
    fn raw(&mut self) -> Result<(), String> {
        let start = raw_tag(self.rest, "raw").unwrap_or_default();
        self.advance(start);
        // `raw` removes no line break after it.
        if self.rest.starts_with('-') {
            self.ends(Tag::Block);
        } else {
            self.advance(2);
        }
        let mut from = 0;
        while let Some(place) = self.rest[from..].find("{%").map(|place| from + place) {
            let sign = usize::from(self.rest[place + 2..].starts_with(['-', '+']));
            if let Some(end) = raw_tag(&self.rest[place + 2 + sign..], "endraw") {
                let text = self.before(place, Tag::Block);
                if !text.is_empty() {
                    self.push(Token::Text(text))?;
                }
                self.advance(place + 2 + sign + end);
                self.ends(Tag::Block);
                return Ok(());
            }
            from = place + 2;
        }
        Err(unreadable("Missing end of raw directive"))
    }

    /// Reads the tokens up to the end of a tag.
    fn tag(&mut self, tag: Tag) -> Result<(), String> {
        let mut open: Vec<&str> = Vec::new();
        loop {
            if open.is_empty() && self.ends(tag) {
                return Ok(());
            }
            let blanks = self.rest.len() - self.rest.trim_start().len();
            if blanks > 0 {
                self.advance(blanks);
                continue;
            }
            let Some(first) = self.rest.chars().next() else {
                return Err(unreadable("unexpected end of template"));
            };
            if first.is_ascii_digit() {
                self.number()?;
            } else if first == '_' || first.is_alphabetic() {
                let name = |c: char| c == '_' || c.is_alphanumeric();
                let end = self.rest.find(|c| !name(c)).unwrap_or(self.rest.len());
                let word = self.rest[..end].to_owned();
                self.advance(end);
                self.push(Token::Name(word))?;
            } else if first == '"' || first == '\'' {
                self.string(first)?;
            } else {
                self.sign(first, &mut open)?;
            }
        }
    }

    fn sign(&mut self, first: char, open: &mut Vec<&str>) -> Result<(), String> {
        let sign = OPERATORS
            .into_iter()
            .find(|sign| self.rest.starts_with(sign))
            .ok_or_else(|| unreadable(format!("unexpected char {first:?}")))?;
        match sign {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" => {
                let expected = open.pop();
                if expected != Some(sign) {
                    let instead = expected.map(|end| format!(", expected '{end}'"));
                    let instead = instead.unwrap_or_default();
                    return Err(unreadable(format!("unexpected '{sign}'{instead}")));
                }
            }
            _ => {}
        }
        self.advance(sign.len());
        self.push(Token::Sign(sign))
    }

    fn number(&mut self) -> Result<(), String> {
        let bytes = self.rest.as_bytes();
        let run = |from: usize| {
            let digits = bytes[from..].iter();
            let end = digits
                .take_while(|byte| byte.is_ascii_digit() || **byte == b'_')
                .count();
            from + end
        };
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        // `a.1.2` selects two entries and contains no fraction.
        let after_dot = self.tokens.last() == Some(&Token::Sign("."));
        let mut end = run(0);
        let mut float = false;
        if !after_dot {
            if bytes.get(end) == Some(&b'.') && digit(end + 1) {
                end = run(end + 1);
                float = true;
            }
            if matches!(bytes.get(end), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                if digit(end + 1 + sign) {
                    end = run(end + 1 + sign);
                    float = true;
                }
            }
        }
        let digits = self.rest[..end].replace('_', "");
        let token = if float {
            let number: f64 = digits.parse().map_err(unreadable)?;
            if !number.is_finite() {
                return Err("a number is not finite: JSON has none".to_owned());
            }
            Token::Float(number)
        } else {
            let whole = digits.parse();
            Token::Integer(whole.map_err(|_| format!("the number {digits} is too large"))?)
        };
        if bytes[..end].ends_with(b"_") {
            return Err(unreadable("unexpected '_'"));
        }
        self.advance(end);
        self.push(token)
    }

    fn string(&mut self, quote: char) -> Result<(), String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1).peekable();
        while let Some((place, character)) = characters.next() {
            if character == quote {
                self.advance(place + 1);
                return self.push(Token::String(text));
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let Some((_, escaped)) = characters.next() else {
                break;
            };
            let mut hexadecimal = |length: usize| -> Result<char, String> {
                let mut code = 0;
                for _ in 0..length {
                    let digit = characters.next().and_then(|(_, digit)| digit.to_digit(16));
                    code = code * 16 + digit.ok_or_else(|| unreadable("truncated escape"))?;
                }
                char::from_u32(code).ok_or_else(|| unreadable("illegal Unicode character"))
            };
            match escaped {
                '\n' => {}
                '\\' | '\'' | '"' => text.push(escaped),
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'a' => text.push('\x07'),
                'b' => text.push('\x08'),
                'f' => text.push('\x0c'),
                'v' => text.push('\x0b'),
                'x' => text.push(hexadecimal(2)?),
                'u' => text.push(hexadecimal(4)?),
                'U' => text.push(hexadecimal(8)?),
                '0'..='7' => {
                    let mut code = escaped.to_digit(8).unwrap_or_default();
                    for _ in 0..2 {
                        let digit = characters.peek().and_then(|(_, next)| next.to_digit(8));
                        let Some(digit) = digit else { break };
                        code = code * 8 + digit;
                        characters.next();
                    }
                    text.push(char::from_u32(code).unwrap_or_default());
                }
                other => {
                    text.push('\\');
                    text.push(other);
                }
            }
        }
        Err(unreadable("a string has no end"))
    }
}

/// Returns the position and the kind of the first tag.
fn first_tag(text: &str) -> Option<(usize, Tag)> {
    text.match_indices('{').find_map(|(place, _)| {
        let tag = match text.as_bytes().get(place + 1)? {
            b'{' => Tag::Show,
            b'%' => Tag::Block,
            b'#' => Tag::Comment,
            _ => return None,
        };
        Some((place, tag))
    })
}

/// Returns the length of `raw` or `endraw` with its whitespace if the end of the tag follows.
fn raw_tag(rest: &str, word: &str) -> Option<usize> {
    let after = rest.trim_start().strip_prefix(word)?.trim_start();
    let ends = ["%}", "-%}"].iter().any(|end| after.starts_with(end))
        || (word == "endraw" && after.starts_with("+%}"));
    ends.then(|| rest.len() - after.len())
}

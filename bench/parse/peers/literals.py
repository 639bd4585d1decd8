"""Reads literals out of Go, Rust and C++ sources: strings, numbers, composite values.

A reader of test tables, not a compiler: what it does not understand is a `Name` or a `Call`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<raw>R"(?P<d>[^(\s]*)\((?P<rb>.*?)\)(?P=d)"|r(?P<h>\#*)"(?P<hb>.*?)"(?P=h)|`(?P<gb>[^`]*)`)
    |(?P<text>"(?:[^"\\]|\\.)*")|(?P<char>'(?:[^'\\]|\\.)+')
    |(?P<number>-?\d[\w.]*)|(?P<word>[A-Za-z_]\w*!?)|(?P<mark>::|:=|->|=>|==|&&|\|\||\S)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass
class Name:
    text: str


@dataclass
class Call:
    name: str
    arguments: list[Any] = field(default_factory=list)


@dataclass
class Struct:
    name: str
    items: list[Any] = field(default_factory=list)
    fields: dict[Any, Any] = field(default_factory=dict)


def unescape(body: str) -> str:
    body = re.sub(r"\\u\{([0-9a-fA-F]+)\}", lambda m: chr(int(m[1], 16)), body)
    body = re.sub(r"\\\n\s*", "", body)
    try:
        return ast.literal_eval('"""' + body.replace('"""', '\\"\\"\\"') + ' """')[:-1]
    except (SyntaxError, ValueError):
        return body


def tokens_of(source: str) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for found in _TOKEN.finditer(source):
        kind = found.lastgroup
        if found["space"] is not None:
            continue
        if found["raw"] is not None:
            body = next(b for b in (found["rb"], found["hb"], found["gb"]) if b is not None)
            out.append(("string", body))
        elif found["text"] is not None or found["char"] is not None:
            out.append(("string", unescape(found[0][1:-1])))
        elif found["number"] is not None:
            out.append(("number", found[0]))
        else:
            out.append((str(kind), found[0]))
    return out


class Literals:
    """Parses one expression after another from a list of tokens."""

    def __init__(self, tokens: list[tuple[str, Any]], at: int = 0) -> None:
        self.tokens = tokens
        self.at = at

    def peek(self, ahead: int = 0) -> tuple[str, Any]:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ("end", "")

    def expression(self) -> Any:
        value = self._term()
        while self.peek()[1] == "+" or (isinstance(value, str) and self.peek()[0] == "string"):
            if self.peek()[1] == "+":
                self.at += 1
            right = self._term()
            value = (
                value + right if isinstance(value, str) and isinstance(right, str) else Name("?")
            )
        return value

    def _term(self) -> Any:
        kind, text = self.peek()
        self.at += 1
        if kind == "string":
            return text
        if kind == "number":
            return _number(text)
        if text in ("&", "*"):
            return self._term()
        if text == "{":
            return self._body("")
        if text == "[":
            return self._bracket()
        if kind == "word":
            return self._named(text)
        return Name(str(text))

    def _bracket(self) -> Any:
        if self.peek()[1] == "]" and self.peek(1)[0] in ("word", "mark") and self.peek(1)[1] != ",":
            self.at += 1  # Go: []T{…}
            while self.peek()[1] not in ("{", "", ")", ","):
                self.at += 3 if self.peek()[1] == "interface" else 1
            if self.peek()[1] == "{":
                self.at += 1
                return self._body("[]")
            return Name("[]")
        out = Struct("[]")
        while self.peek() != ("end", "") and self.peek()[1] != "]":
            out.items.append(self.expression())
            if self.peek()[1] == ",":
                self.at += 1
        self.at += 1
        return out

    def _named(self, name: str) -> Any:
        while self.peek()[1] in (".", "::") and self.peek(1)[0] == "word":
            name += "." + str(self.peek(1)[1])
            self.at += 2
        if name in ("true", "false", "nil", "None", "nullptr", "null"):
            return {"true": True, "false": False}.get(name)
        following = self.peek()[1]
        if name == "map" and following == "[":
            while self.peek()[1] != "{":
                self.at += 1
                if self.peek()[1] == "interface":
                    self.at += 3
            following = "{"
        if following == "(":
            self.at += 1
            call = Call(name)
            while self.peek() != ("end", "") and self.peek()[1] != ")":
                call.arguments.append(self.expression())
                if self.peek()[1] not in (",", ")") or self.peek()[1] == ",":
                    self.at += 1
            self.at += 1
            return call
        if following == "{" and name not in ("if", "for", "range", "interface"):
            self.at += 1
            return self._body(name)
        if name == "interface" and following == "{":
            self.at += 2
        return Name(name)

    def _body(self, name: str) -> Struct:
        out = Struct(name)
        while self.peek() != ("end", "") and self.peek()[1] != "}":
            before = self.at
            key = self.expression()
            if self.peek()[1] == ":":
                self.at += 1
                value = self.expression()
                out.fields[key.text if isinstance(key, Name) else str(key)] = value
            else:
                out.items.append(key)
            while self.peek() != ("end", "") and self.peek()[1] not in (
                ",",
                "}",
            ):  # an operator that is not understood
                self.at += 1
            if self.peek()[1] == ",":
                self.at += 1
            if self.at == before:
                self.at += 1
        self.at += 1
        return out


def _number(text: str) -> Any:
    try:
        return ast.literal_eval(re.sub(r"(?<=\d)_?[iuf](?:8|16|32|64|size)$", "", text))
    except (SyntaxError, ValueError):
        return Name(text)


def plain(value: Any) -> Any:
    """Returns a literal as JSON data. Raises ValueError at a name."""
    match value:
        case Struct(fields=fields, items=items) if fields and not items:
            return {key: plain(each) for key, each in fields.items()}
        case Struct(name=name, items=items):
            return [plain(each) for each in items] if items or name != "map" else {}
        case Call(name=name, arguments=[only]) if name in (
            "json!",
            "float64",
            "int64",
            "int",
            "string",
        ):
            return plain(only)
        case Name() | Call():
            raise ValueError(repr(value))
    return value

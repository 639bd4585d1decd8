"""What a strategy is asked to do: the goal, the tools on offer, the type of the answer.

Knows nothing about models, policy or storage.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter

from taofold.core.content import Content, Part, TextPart, described, media_of
from taofold.core.values import FINISH, Message, Sideeffect
from taofold.parsing import Parsed, Unparsed, parse, render_schema

CHARS_PER_TOKEN: Final = 3.8


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as a strategy sees it: `schema` is the JSON Schema of its parameters."""

    name: str
    description: str
    schema: dict[str, Any]
    effect: Sideeffect = "once"


class Output:
    """The type an answer must have, and how it is asked for and checked."""

    def __init__(self, type_: Any = str) -> None:
        self.type = type_
        self.text = type_ is str
        self._adapter: TypeAdapter[Any] = TypeAdapter(type_)
        self.schema: dict[str, Any] | None = None if self.text else self._adapter.json_schema()

    def accept(self, answer: Any) -> Parsed[Any] | Unparsed:
        """The answer as JSON of the right type, or why it is none."""
        if self.text:
            said = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
            if not said.strip():
                return Unparsed("empty", "the answer is empty")
            return Parsed(said)
        text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
        parsed = parse(text, self.type)
        if isinstance(parsed, Unparsed):
            return parsed
        return Parsed(self._adapter.dump_python(parsed.value, mode="json"), parsed.repairs)

    def dump(self, value: Any) -> Any:
        """A typed value as JSON: the inverse of `load`."""
        return self._adapter.dump_python(value, mode="json")

    def load(self, output: Any) -> Any:
        """The typed value of an accepted output."""
        return self._adapter.validate_python(output)

    def rendered(self) -> str:
        """The type as a prompt shows it."""
        return "text" if self.schema is None else render_schema(self.schema)

    def finish_schema(self) -> dict[str, Any]:
        """JSON Schema of the parameters of `finish`."""
        answer = dict(self.schema) if self.schema is not None else {"type": "string"}
        definitions = answer.pop("$defs", None)
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {"answer": answer, "success": {"type": "boolean"}},
            "required": ["answer"],
        }
        return schema | ({"$defs": definitions} if definitions else {})


@dataclass(frozen=True, kw_only=True)
class Task:
    """The input of every strategy.

    `attempts` bounds the replies per turn; `window` is the model's context in tokens;
    `native` says that the model calls tools natively; `research` opts in to the
    seventh thought type.
    """

    goal: str
    parts: tuple[Part, ...] = ()
    """The goal as it was given, if it holds more than text."""
    instructions: str = ""
    offers: tuple[Offer, ...] = ()
    output: Output = field(default_factory=Output)
    strict: bool = False
    research: bool = False
    attempts: int = 3
    native: bool = False
    window: int = 8192
    reserve: int = 1024
    """Tokens kept free for the reply."""
    history: tuple[Message, ...] = ()
    ask_user: bool = False
    """Is the reserved action `ask_user` on offer?"""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The state that the run started with, for strategies that read it. JSON."""

    @property
    def content(self) -> Content:
        """The goal as a message: as it was given, or what became of it with the same media."""
        if not self.parts or described(self.parts) == self.goal:
            return self.parts or self.goal
        return self.with_media(self.goal)

    def with_media(self, text: str) -> Content:
        """`text` with the media of the goal behind it."""
        media = tuple(media_of(self.parts))
        return (TextPart(text), *media) if media else text

    @property
    def names(self) -> tuple[str, ...]:
        """The names a model may call."""
        reserved = (FINISH, "ask_user") if self.ask_user else (FINISH,)
        return (*[offer.name for offer in self.offers], *reserved)

    @cached_property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """The JSON Schemas of the parameters, by tool."""
        return {offer.name: offer.schema for offer in self.offers}

    @cached_property
    def signatures(self) -> dict[str, dict[str, Any]]:
        """The JSON Schemas of the parameters of all that a model may call, `finish` included."""
        return self.schemas | {FINISH: self.output.finish_schema()}

    @property
    def budget(self) -> int:
        """Characters of conversation that fit the window."""
        return int((self.window - min(self.reserve, self.window // 4)) * CHARS_PER_TOKEN)

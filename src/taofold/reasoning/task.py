"""The input of a strategy: the goal, the offered tools, the type of the answer.

`Task` also writes the text of the protocol: the system prompt with its tools, the schema of a whole
reply, the opening of a conversation, the notice before a limit. `Output` describes a type and
checks an answer. Knows nothing about models, policy or storage.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from taofold.core.content import Content, Conversation, Part, TextPart, media_of, text_with_media
from taofold.core.json_values import is_object, render
from taofold.core.values import (
    ASK_USER,
    FINISH,
    THOUGHT_TYPES,
    Compaction,
    Message,
    Observation,
    Reply,
    Searcher,
    Sideeffect,
)
from taofold.parsing import Parsed, Unparsed, parse, render_schema
from taofold.parsing.protocol_keys import FINISH_KEYS, REMARK_KEYS
from taofold.parsing.schema.target import typed_value
from taofold.parsing.typed import parse_with_source

if TYPE_CHECKING:
    from taofold.reasoning.conversation import Talk

# For English and JSON; `core.content` uses the same figure for images.
CHARS_PER_TOKEN: Final = 3.8
_FORM: Final = """\
Work in steps. Each reply is exactly one JSON object, nothing before or after it:
{"thought": "<what you conclude and why this action is next>", "thought_type": "<type>", \
"because": [<numbers of the steps you rely on>], %s\
"action": {"tool": "<name>", "parameters": {…}, "rationale": "<why this tool>"}}
Several independent calls: "actions": [ … ] instead of "action".
Types: goal, progress, extraction, reasoning, exception, synthesis%s.
Rules:
- Every reply has a thought and an action. Quote concrete values from earlier observations.
- Never write an observation yourself; it comes after your reply.
- After a failure or a timeout the next thought is an exception: say why it failed and what \
you change. Never repeat a failed action unchanged.
- When the goal is reached: "action": {"tool": "finish", "parameters": {"answer": %s}}
- When it cannot be reached: the same with "success": false beside the answer that says why."""
_LEARNED: Final = '"learned": "<what the last results showed>", '
NATIVE: Final = """\
Before each tool call say in a sentence what you conclude, with concrete values from earlier \
results, and why this call is next. After a failure say why it failed and what you change."""
"""The end of the instructions for a model that calls tools natively."""
_FINISH: Final = f"When you are done, call {FINISH} with the answer."
_RESEARCH: Final = ", research (look things up; change nothing in that step)"
_ASK_USER: Final = (
    '\n- To ask the person: "action": {"tool": "ask_user", "parameters": {"question": "…"}}'
)
WRAP_UP: Final = (
    "This is your last turn and no tool can be used any more. "
    "Give the best answer you can from what you know%s."
)
_DECLARED: Final = FINISH_KEYS | REMARK_KEYS
"""The parameters of `finish`, and the keys in which models describe a call."""
_ENVELOPE: Final = (
    'the parameters of finish can be read in two ways. Send the whole answer as "answer", '
    'and nothing but "success" beside it'
)
_KEPT: Final = 32
"""The most accepted typed values that are kept until they are loaded."""
_QUESTION: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Offer:
    """A tool as a strategy sees it: `schema` is the JSON Schema of its parameters.

    Results of a `pinned` tool stay complete when older steps are shortened. A `deferred` tool is
    offered only after a call of `search_tools` has found it. A call of a tool with `hands_to` makes
    the agent of this name the active one.
    """

    name: str
    description: str
    schema: dict[str, Any]
    effect: Sideeffect = "once"
    pinned: bool = False
    deferred: bool = False
    hands_to: str = ""

    @cached_property
    def signature(self) -> str:
        """The tool as one line of signature and its full description."""
        head = f"{self.name}({render_schema(self.schema)})"
        description = self.description.strip()
        return f"- {head}: {description}" if description else f"- {head}"


@dataclass(frozen=True, slots=True)
class FinishReading:
    """The content of a call of `finish`.

    Attributes:
        answer: The accepted answer, or the model's substitute if it gave up.
        gave_up: True if the model reports that it did not reach the goal.
    """

    answer: Any
    gave_up: bool = False


class Output:
    """The type of an answer, with its description and validation."""

    def __init__(self, type_: Any = str) -> None:
        self.type = type_
        self.text = type_ is str
        # Compiled once per output: it takes milliseconds.
        self._adapter: TypeAdapter[Any] = TypeAdapter(type_)
        self.schema: dict[str, Any] | None = None if self.text else self._adapter.json_schema()
        self._hides = _hides(self.schema)
        self._values: dict[bytes, Any] = {}

    def accept(self, answer: Any) -> Parsed[Any] | Unparsed:
        """Validates an answer that is JSON, such as a parameter of `finish`.

        Returns:
            The answer in the form in which it was validated; `load` gives its typed value.
        """
        if self.text or not isinstance(answer, str):
            return self.read(render(answer))
        try:
            # Text may satisfy the type directly: a date, or the text "7" for `int | str`.
            value = self._adapter.validate_json(to_json(answer), strict=True)
        except ValueError:  # includes lone surrogates
            return self.read(answer)
        return Parsed(self.keep(answer, value))

    def read(self, text: str, finish_reason: str | None = None) -> Parsed[Any] | Unparsed:
        """Reads an answer from text and validates it. Returns the same as `accept`."""
        if self.text:
            if not text.strip():
                return Unparsed("empty", "the answer is empty")
            return Parsed(text)
        read = parse_with_source(text, self.type, finish_reason=finish_reason)
        if isinstance(read, Unparsed):
            return read
        return Parsed(self.keep(read.plain, read.value), read.repairs)

    def read_reply(self, reply: Reply) -> Parsed[Any] | Unparsed:
        """Reads an answer that is a whole reply. Text is kept as it is, without reasoning."""
        finish_reason = reply.finish or None
        if not self.text:
            return self.read(reply.text, finish_reason)
        read: Parsed[str] | Unparsed = parse(reply.text, str, finish_reason=finish_reason)
        return read if isinstance(read, Unparsed) else self.read(read.value)

    def keep(self, accepted: Any, value: Any) -> Any:
        """Keeps the typed value of an accepted answer for the next `load`. Returns the answer."""
        self._values[to_json(accepted)] = value
        while len(self._values) > _KEPT:
            self._values.pop(next(iter(self._values)), None)
        return accepted

    def load(self, accepted: Any) -> Any:
        """Returns the typed value of an accepted answer, with one validation in total.

        It is the value that `accept` validated, if this process did so and the value was not taken
        yet.
        """
        if self.text:
            return accepted
        try:
            # Removed from the cache: each caller owns its value and may change it.
            return self._values.pop(to_json(accepted))
        except KeyError:
            return typed_value(self._adapter, accepted)

    def shown(self, accepted: Any) -> Any:
        """Returns an accepted answer for display and for other models: hidden texts are masked."""
        if not self._hides or accepted is None:
            return accepted
        try:
            value = self._values.get(to_json(accepted))
            if value is None:
                value = typed_value(self._adapter, accepted)
            return self._adapter.dump_python(value, mode="json", by_alias=True)
        # a value that does not satisfy the type may hold any text
        except (ValueError, PydanticSerializationError):
            return None

    def read_finish(self, parameters: Mapping[str, Any]) -> FinishReading | Unparsed:
        """Reads the parameters of `finish` as `finish_schema` declares them.

        A bare answer, whose fields are the parameters, is accepted if it is unambiguous.
        """
        gave_up = _is_false(parameters.get("success"))
        answered = "answer" in parameters
        if self.text:
            bare = {key: each for key, each in parameters.items() if key != "success"}
            answer = parameters["answer"] if answered else bare or None
            accepted = self.accept("" if answer is None else answer)
            if isinstance(accepted, Unparsed):
                return accepted
            return FinishReading(accepted.value, gave_up)
        if gave_up and answered:
            return FinishReading(parameters["answer"], gave_up=True)
        if not parameters:
            return Unparsed("empty", 'the parameter "answer" of finish is missing')

        # The declared form first, then the readings in which the parameters are the answer's own
        # fields.
        others = {key: each for key, each in parameters.items() if key != "success"}
        readings: list[FinishReading] = []
        if gave_up:
            readings.append(FinishReading(others or None, gave_up=True))
            declared: Parsed[Any] | Unparsed = Unparsed("invalid", "")
        else:
            declared = self.accept(parameters["answer"] if answered else others)
            if isinstance(declared, Parsed):
                readings.append(FinishReading(declared.value))
        if readings and answered and parameters.keys() <= _DECLARED:
            return readings[0]
        if answered or "success" in parameters:
            whole = self.accept(dict(parameters))
            if isinstance(whole, Parsed) and FinishReading(whole.value) not in readings:
                readings.append(FinishReading(whole.value))
        if len(readings) > 1:
            return Unparsed("ambiguous", _ENVELOPE)
        return readings[0] if readings else cast("Unparsed", declared)

    def rendered(self) -> str:
        """Returns the type as a prompt shows it."""
        return "text" if self.schema is None else render_schema(self.schema)

    def finish_schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of the parameters of `finish`."""
        answer = dict(self.schema) if self.schema is not None else {"type": "string"}
        # References in the schema start at its root (`#/$defs/…`), so the definitions move there.
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

    `attempts` bounds the replies per turn. `window` is the model's context in tokens. `native` is
    True if the model calls tools natively, and False for the text protocol (`is_native`).
    `research` enables the seventh thought type.
    """

    goal: str
    parts: tuple[Part, ...] = ()
    """The goal as the caller passed it, if it holds more than text."""
    instructions: str = ""
    offers: tuple[Offer, ...] = ()
    output: Output = field(default_factory=Output)
    strict: bool = False
    """True to ask again, once per turn, for a reply that breaks a rule about its form."""
    reference: str = ""
    """The prefix of each line of reference data in the goal; "" = it holds none."""
    research: bool = False
    attempts: int = 3
    native: bool = False
    enforces_schema: bool = False
    """True if the model's provider enforces the JSON Schema of an answer."""
    window: int = 8192
    reserve: int = 1024
    """Tokens kept free for the reply."""
    history: tuple[Message, ...] = ()
    ask_user: bool = False
    """True if the reserved action `ask_user` is offered."""
    compaction: Compaction = "fold"
    """How older steps are shortened near the end of the window."""
    search: Searcher = ""
    """The side that searches deferred tools, if the model can load what was found."""
    notes: str = ""
    """The digest of a notebook: data that is shown before the goal. "" = there is none."""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The initial state of the run, for strategies that read it. JSON."""
    past: "Talk | None" = None
    """The conversation of the agent that handed the run over. None: the goal begins it."""

    @property
    def content(self) -> Content:
        """The goal as a message, with its media, after the notes."""
        # If redaction changed the text, the recorded goal is used, with the same media.
        if self.parts and text_with_media(self.parts) == self.goal:
            return (TextPart(self.notes), *self.parts) if self.notes else self.parts
        return self.with_media(self.goal)

    def with_media(self, text: str) -> Content:
        """Returns `text` after the notes, followed by the media of the goal."""
        media = tuple(media_of(self.parts))
        text = self.notes + text
        return (TextPart(text), *media) if media else text

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a model may call."""
        reserved = (FINISH, "ask_user") if self.ask_user else (FINISH,)
        return (*[offer.name for offer in self.offers], *reserved)

    @cached_property
    def plain(self) -> bool:
        """True if the text of a reply is the answer: the model has nothing to call."""
        calls = bool(self.offers) or self.ask_user
        return self.native and not calls and (self.output.text or self.enforces_schema)

    @cached_property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """The JSON Schemas of the parameters, by tool."""
        return {offer.name: offer.schema for offer in self.offers}

    @cached_property
    def signatures(self) -> dict[str, dict[str, Any]]:
        """The JSON Schemas of the parameters of all callable names, `finish` included."""
        return self.schemas | {FINISH: self.output.finish_schema()}

    @cached_property
    def successors(self) -> dict[str, str]:
        """The agents that a call makes the active ones, by tool."""
        return {offer.name: offer.hands_to for offer in self.offers if offer.hands_to}

    @cached_property
    def deferred(self) -> frozenset[str]:
        """The names of the tools that are offered only after they were found."""
        return frozenset([offer.name for offer in self.offers if offer.deferred])

    def tool_lines(self) -> str:
        """Returns the tools that are offered at first, one line each."""
        lines = [offer.signature for offer in self.offers if not offer.deferred]
        return "\n".join(lines) or "(none)"

    def system_prompt(self) -> str:
        """Returns instructions, tools and protocol."""
        parts = [self.instructions.strip()] if self.instructions.strip() else []
        if self.native:
            if self.offers:
                parts.append(NATIVE)
            if not self.output.text:
                parts.append(self.typed_answer() if self.plain else _FINISH)
            return "\n\n".join(parts)
        if self.offers:
            parts.append(f"Tools:\n{self.tool_lines()}")
        answer = '"<text>"' if self.output.text else f"<{self.output.rendered()}>"
        learned = _LEARNED if self.strict else ""
        form = _FORM % (learned, _RESEARCH if self.research else "", answer)
        parts.append(form + (_ASK_USER if self.ask_user else ""))
        return "\n\n".join(parts)

    def typed_answer(self) -> str:
        """Returns the rule for a reply that is a value of the output's type."""
        rendered = self.output.rendered()
        return f"Reply with one JSON value of this type and nothing else: {rendered}"

    def wrap_up(self, kept: Sequence[str] = ()) -> str:
        """Returns the notice that opens the last turn. `kept` may still be called."""
        call = "" if self.native else f' with "tool": "{FINISH}"'
        return WRAP_UP % (call + "".join([f", or call {name}" for name in kept]))

    def reply_schema(
        self, *, kept: Sequence[str] | None = None, found: Collection[str] = ()
    ) -> dict[str, Any]:
        """Returns the schema of one thought and one action out of those on offer.

        Args:
            kept: The only names that may be called besides `finish`; None = all.
            found: Deferred tools that were found.
        """
        finish = self.output.finish_schema()
        definitions = dict(finish.pop("$defs", {}))
        offered: list[tuple[str, dict[str, Any]]] = []
        for offer in self.offers:
            if kept is not None and offer.name not in kept:
                continue
            if offer.deferred and offer.name not in found:
                continue
            schema = dict(offer.schema)
            own: dict[str, Any] = schema.pop("$defs", {})
            # Two tools may use one name for different definitions: each then gets its own name.
            names = {
                name: f"{offer.name}.{name}"
                for name, definition in own.items()
                if definitions.get(name, definition) != definition
            }
            if names:
                schema, own = _renamed(schema, names), _renamed(own, names)
            definitions |= {names.get(name, name): own[name] for name in own}
            offered.append((offer.name, schema))
        if self.ask_user and kept is None:
            offered.append((ASK_USER, _QUESTION))

        offered.append((FINISH, {**finish, "additionalProperties": False}))
        types = sorted(THOUGHT_TYPES if self.research else THOUGHT_TYPES - {"research"})
        demanded: dict[str, dict[str, Any]] = {}
        if self.strict:
            demanded["because"] = {"type": "array", "items": {"type": "integer"}}
            demanded["learned"] = {"type": "string", "maxLength": 300}
        schema = _object(
            # Constrained decoding would let a small model think without end.
            thought={"type": "string", "maxLength": 1000},
            thought_type={"type": "string", "enum": types},
            **demanded,
            action={"anyOf": [_action(name, parameters) for name, parameters in offered]},
        )
        return schema | ({"$defs": definitions} if definitions else {})

    def opening(
        self, rules: str, text: str, heard: Sequence[Message] = (), *, history: bool = True
    ) -> Conversation:
        """Returns a new conversation: instructions and rules, the session so far, the question.

        `heard` holds the steering since the run started. It comes last, as the newest messages.
        """
        system = "\n\n".join([part for part in (self.instructions.strip(), rules.strip()) if part])
        messages = [Message("system", system)] if system else []
        before = self.history if history else ()
        question = Message("user", self.with_media(text))
        return Conversation([*messages, *before, question, *heard])

    @property
    def budget(self) -> int:
        """The characters of conversation that fit the window."""
        # In a small window at most a quarter is reserved for the reply.
        return int((self.window - min(self.reserve, self.window // 4)) * CHARS_PER_TOKEN)


def is_native(*, calls: bool, offers: bool, strict: bool) -> bool:
    """Returns whether a model gets no text protocol.

    A strict run without tools keeps the protocol: it demands a thought before the answer.

    Args:
        calls: True if the model calls tools natively.
        offers: True if tools are offered.
        strict: True if the run is strict.
    """
    return calls and (offers or not strict)


def found_tools(observation: Observation) -> list[str]:
    """Returns the names in a result of `search_tools`."""
    result: Any = observation.result
    tools: Any = result.get("tools") if is_object(result) else None
    return [str(name) for name in tools] if is_object(tools) else []


def _hides(schema: Any) -> bool:
    """Returns whether a part of a schema is hidden text, such as a `SecretStr`."""
    if isinstance(schema, list):
        return any(map(_hides, cast("list[Any]", schema)))
    if not isinstance(schema, dict):
        return False
    parts = cast("dict[str, Any]", schema)
    return parts.get("writeOnly") is True or any(map(_hides, parts.values()))


def _is_false(value: Any) -> bool:
    return value is False or (isinstance(value, str) and value.strip().lower() == "false")


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """Returns `schema` with its references to definitions renamed."""
    if isinstance(schema, list):
        return [_renamed(element, names) for element in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    renamed: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        if key == "$ref" and isinstance(value, str):
            head, _, name = value.rpartition("/")
            renamed[key] = f"{head}/{names[name]}" if name in names else value
        else:
            renamed[key] = _renamed(value, names)
    return renamed


def _action(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return _object(
        tool={"type": "string", "enum": [name]},
        parameters=parameters,
        rationale={"type": "string", "maxLength": 300},
    )


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

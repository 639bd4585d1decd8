"""Models for tests: from a script, from a function, or by the schemas of the offered tools.

`ScriptedModel` reads a script, `FunctionModel` calls a function, and both record each request
(`Asked`). `TestModel` needs neither: it calls every tool and then answers, with the simplest values
that their schemas allow (`SchemaExample`); the spec `test:tools` creates one. All implement the
ordinary `Model` protocol, need no network and take almost no time per call. They know nothing about
reply formats.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import ceil, floor
from typing import Any, Final, TypeAlias

import msgspec

from taofold.core.content import Conversation, ToolCall
from taofold.core.errors import ConfigError, TaofoldError
from taofold.core.json_values import at_pointer, is_object
from taofold.core.text import line, times
from taofold.core.values import FINISH, Message, Profile, Reply, Value
from taofold.runtime.model import OnText, Request, ToolSpec

ROOMY: Final = Profile(window=1_000_000, window_known=True)
"""The profile of a test model: text only, and a window that no test fills by accident."""

Line: TypeAlias = str | Reply | Exception
"""One entry of a script: a reply's text, a whole reply, or an error to raise."""

Answer: TypeAlias = str | Reply
_CHUNK: Final = 16
_LONGEST_ERROR: Final = 300


class ScriptEnded(TaofoldError):
    """The script has no reply for this call: the agent asked more often than expected."""


class Asked(Value, frozen=True):
    """A request as it was when it was made. The conversation may have grown since.

    Attributes:
        request: The request.
        length: Number of messages at that time.
    """

    request: Request
    length: int

    @property
    def messages(self) -> list[Message]:
        """The messages sent to the model (copied here, not at the time of the request)."""
        return self.request.conversation[: self.length]

    @property
    def text(self) -> str:
        """The texts of all messages, joined: convenient for `in`."""
        return "\n".join(message.text for message in self.messages)

    @property
    def last(self) -> str:
        """The text of the newest message, "" if there was none."""
        return self.request.conversation[self.length - 1].text if self.length else ""

    @property
    def digest(self) -> str:
        """The digest of the conversation at that time (recomputed: O(n))."""
        return Conversation(self.messages).digest

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that were offered."""
        return self.request.tools

    @property
    def role(self) -> str:
        """The step role of the request."""
        return self.request.role


def _price(usd: tuple[float, float] | None, input_tokens: int, output_tokens: int) -> float | None:
    if usd is None:
        return None
    return (usd[0] * input_tokens + usd[1] * output_tokens) / 1e6


def _speak(text: str, on_text: OnText) -> None:
    for start in range(0, len(text), _CHUNK):
        on_text(text[start : start + _CHUNK])


class ScriptedModel:
    """Returns `replies` in order and records each request.

    A new process that resumes a run creates its script again. If the newest replies of the first
    conversation equal the first ones of the script, the script continues after them.

    Example:
        ```python
        from taofold import Agent
        from taofold.testing import ScriptedModel

        model = ScriptedModel(["Oslo."])
        assert Agent(model).run_sync("Capital of Norway?").output == "Oslo."
        assert "Norway" in model.requests[0].text
        ```

    Args:
        replies: Texts, whole replies, or exceptions to raise; may be endless.
        profile: The capabilities that it reports.
        name: The name of the model.
        usd: Dollars per million input and output tokens; None = price unknown.
    """

    def __init__(
        self,
        replies: Iterable[Line],
        profile: Profile = ROOMY,
        name: str = "scripted:model",
        *,
        usd: tuple[float, float] | None = (0.0, 0.0),
    ) -> None:
        self.name = name
        self.profile = profile
        self.requests: list[Asked] = []
        if isinstance(replies, str):
            raise ConfigError(f"replies is a list of replies: write ScriptedModel([{replies!r}])")
        self._replies: Iterator[Line] = iter(replies)
        self._usd = usd

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Returns the next reply.

        Raises `ScriptEnded` if there is none, or the scripted exception.
        """
        # The conversation is not copied. It only grows, so its length restores its earlier state.
        received = Asked(request, len(request.conversation))
        if not self.requests:
            self._skip_given(received)
        self.requests.append(received)
        line = next(self._replies, None)
        if line is None:
            raise ScriptEnded(
                f"{self.name!r} was asked {times(len(self.requests), 'time')}, but its script has "
                f"{times(len(self.requests) - 1, 'reply', 'replies')}; "
                f"it was shown {received.last[-200:]!r}: "
                "add a reply, or find out why the agent asks again"
            )
        if isinstance(line, Exception):
            raise line
        reply = line if isinstance(line, Reply) else Reply(text=line, model=self.name)
        if on_text is not None:
            _speak(reply.text, on_text)
        return reply

    def _skip_given(self, received: Asked) -> None:
        """Moves the script past the replies with which the conversation already ends."""
        given = [_heard(m.text, m.calls) for m in received.messages if m.role == "assistant"]
        first = list(islice(self._replies, len(given)))
        script = [_heard(*_content(line)) for line in first]
        # The longest match: a script may hold the same reply several times in a row.
        known = next((n for n in range(len(first), 0, -1) if given[-n:] == script[:n]), 0)
        self._replies = chain(first[known:], self._replies)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns the US dollars for a call of this size."""
        return _price(self._usd, input_tokens, output_tokens)

    def assert_complete(self) -> None:
        """Raises `AssertionError` if replies are left over. Takes one from an endless script."""
        left = next(self._replies, None)
        if left is not None:
            raise AssertionError(
                f"{self.name!r} was asked {times(len(self.requests), 'time')} "
                f"and has replies left; "
                f"the next is {left!r}"
            )


def _content(line: Line) -> tuple[str, Sequence[ToolCall]]:
    """Returns the text and the calls of a line; an exception has neither."""
    if isinstance(line, Reply):
        return line.text, line.calls
    return (line, ()) if isinstance(line, str) else ("", ())


def _heard(text: str, calls: Sequence[ToolCall]) -> tuple[str, list[tuple[str, str]]]:
    """Returns the identity of a reply without the ids of its calls, which the recorder assigns."""
    return text, [(call.name, call.arguments) for call in calls]


class FunctionModel:
    """A model that answers with a function.

    Example:
        ```python
        from taofold import Agent
        from taofold.testing import FunctionModel

        model = FunctionModel(lambda request: f"{len(request.conversation)} messages")
        print(Agent(model).run_sync("How many messages?").output)
        ```

    Args:
        fn: Takes the request. Returns a text, a reply, or an awaitable of one.
        profile: The capabilities that it reports.
        name: The name of the model.
        usd: Dollars per million input and output tokens; None = price unknown.
    """

    def __init__(
        self,
        fn: Callable[[Request], Answer | Awaitable[Answer]],
        profile: Profile = ROOMY,
        name: str = "function:model",
        *,
        usd: tuple[float, float] | None = (0.0, 0.0),
    ) -> None:
        self.name = name
        self.profile = profile
        self._fn = fn
        self._usd = usd

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Calls the function. Its exceptions pass through."""
        answer = self._fn(request)
        # A coroutine or any other awaitable.
        if not isinstance(answer, (str, Reply)):
            answer = await answer
        reply = answer if isinstance(answer, Reply) else Reply(text=answer, model=self.name)
        if on_text is not None:
            _speak(reply.text, on_text)
        return reply

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns the US dollars for a call of this size."""
        return _price(self._usd, input_tokens, output_tokens)


_PROFILE: Final = Profile(window=1_000_000, window_known=True, native_tools=True, json_schema=True)


def connect(model: str, **options: Any) -> "TestModel":
    """Creates `test:answer` or `test:tools`, to try an agent without a model.

    Other options are ignored.

    Raises:
        ConfigError: The name is neither of the two.
    """
    # Any address or key is ignored: they belong to the model that this one replaces.
    if model == "answer":
        return TestModel(call=(), name="test:answer")
    if model == "tools":
        return TestModel(name="test:tools")
    raise ConfigError(
        f"there is no test:{model}: test:answer answers with the simplest value of the output's "
        "type, test:tools calls every tool first, with the simplest arguments"
    )


class TestModel:
    """Calls each tool once with the simplest arguments that its schema allows, then answers.

    For tests of the code around a model: the tools are wired, the outputs are typed, the
    application fits together. The same requests get the same replies. If a call of a tool failed,
    it gives up: the run has `success=False`, and its answer names the tool and the error.

    Example:
        ```python
        from taofold import Agent, tool
        from taofold.testing import TestModel


        @tool(effect="read")
        def price(item: str) -> float:
            "Price of an item in euros."
            return 2.5


        result = Agent(TestModel(), tools=[price], output=float).run_sync("What is it?")
        assert isinstance(result.output, float)
        ```

    Args:
        call: Names of the tools to call, in this order; None = all offered tools.
        arguments: Parameters by tool, if the simplest ones are not sufficient.
        answer: The answer if no call failed; None = the simplest value of the output's type, or a
            text with the names of the called tools.
        name: The name of the model.
    """

    __test__ = False  # a model, which pytest must not collect for its name

    def __init__(
        self,
        *,
        call: Collection[str] | None = None,
        arguments: Mapping[str, Mapping[str, Any]] | None = None,
        answer: Any = None,
        name: str = "test:model",
    ) -> None:
        self.name = name
        self.profile = _PROFILE
        self.requests: list[Asked] = []
        self._call = call
        self._arguments = dict(arguments or {})
        self._answer = answer

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Returns calls of tools that were not called yet, or the answer.

        Raises:
            ConfigError: No value can be made for a schema; the message names it.
        """
        self.requests.append(Asked(request, len(request.conversation)))
        # The calls so far are read from the conversation, so one model serves many runs at once.
        conversation = request.conversation[:]
        called = [call.name for message in conversation for call in message.calls]
        offered = [tool.name for tool in request.tools]
        missing = [name for name in self._call or () if name not in (*offered, *called)]
        # A tool may be used up or withdrawn later; a wrong name is reported at once.
        if missing and not called:
            raise ConfigError(f"TestModel is to call {missing[0]!r}, which is not offered")
        calls = [] if request.schema else self._calls(request, called)
        failed = _failed(conversation)
        if failed and (not calls or calls[0].name == FINISH):
            calls = [_call(FINISH, {"answer": failed, "success": False}, len(called))]
            text = "A call failed, so I give up."
        elif calls:
            # A strict agent requires a reason for each call.
            text = (
                f"I call {', '.join(call.name for call in calls)}, to try what is around a model."
            )
        else:
            text = self._text(request, called)
        if text and on_text is not None:
            on_text(text)
        return Reply(text, calls, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns 0."""
        return 0.0

    def _calls(self, request: Request, called: list[str]) -> list[ToolCall]:
        """Returns the next calls: all tools at once, then `finish` if the answer is typed."""
        tools = {tool.name: tool for tool in request.tools}
        finish = tools.pop(FINISH, None)
        names = list(tools) if self._call is None else self._call
        allowed = tools if request.allowed is None else request.allowed
        due = [name for name in names if name in allowed and name not in called]
        if due:
            return [self._call_tools(tools[name], len(called) + n) for n, name in enumerate(due)]
        return [self._finish(finish, len(called))] if finish else []

    def _call_tools(self, tool: ToolSpec, number: int) -> ToolCall:
        parameters = SchemaExample(f"the parameters of tool {tool.name!r}", tool.parameters)
        fixed = self._arguments.get(tool.name)
        return _call(tool.name, parameters.value() if fixed is None else fixed, number)

    def _finish(self, finish: ToolSpec, number: int) -> ToolCall:
        if self._answer is not None:
            return _call(FINISH, {"answer": self._answer}, number)
        return _call(FINISH, SchemaExample("the answer", finish.parameters).value(), number)

    def _text(self, request: Request, called: list[str]) -> str:
        text = f"called {', '.join(called)}" if called else "done"
        if request.schema is None:
            answer = text if self._answer is None else self._answer
            return answer if isinstance(answer, str) else _json(answer)
        if not _wraps(request.schema):
            example = SchemaExample("the answer", request.schema)
            return _json(example.value() if self._answer is None else self._answer)
        step = SchemaExample("the answer", _finishing(request.schema)).value()
        parameters = step["action"]["parameters"]
        if self._answer is not None:
            parameters["answer"] = self._answer
        elif isinstance(parameters["answer"], str):
            parameters["answer"] = text
        return _json(step)


def _failed(conversation: Sequence[Message]) -> str:
    """Returns the tools whose calls failed, each with its error; "" if none did."""
    names = {call.id: call.name for message in conversation for call in message.calls}
    # `corrections` answers an unusable `finish` with a result, which is not a failed tool call.
    failures = [
        (names[result.id], result.text)
        for message in conversation
        for result in message.results
        if result.error and names.get(result.id, FINISH) != FINISH
    ]
    # The head of an observation ends with the name of the tool.
    errors = [(name, text.partition(f"{name}: ")[2] or text) for name, text in failures]
    return "\n".join([f"{name} failed: {line(text, _LONGEST_ERROR)}" for name, text in errors])


def _finishing(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of a whole step, with `finish` as its only action."""
    action = schema["properties"]["action"]
    options = action.get("anyOf") or [action]
    ends = [each for each in options if FINISH in each["properties"]["tool"].get("enum", ())]
    properties = {**schema["properties"], "action": (ends or options)[0]}
    return {**schema, "properties": properties}


def _wraps(schema: Mapping[str, Any]) -> bool:
    """Returns whether a schema is that of a whole step (a thought, and `finish`)."""
    return {"thought", "action"}.issubset(schema.get("properties", {}))


def _call(name: str, arguments: Any, number: int) -> ToolCall:
    return ToolCall(name, _json(arguments), f"call-{number}")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_DEPTH: Final = 32
"""The deepest nesting of a schema: one whose required parts contain itself would never end."""

_FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "PT1S",
    "email": "a@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.com",
    "binary": "",
}


class SchemaExample:
    """Makes values for one schema, in which its `$ref`s are resolved.

    SchemaExample("parameters of 'price'", {"type": "integer", "minimum": 3}).value() == 3
    """

    def __init__(self, subject: str, schema: Mapping[str, Any]) -> None:
        self.subject = subject
        self.schema = schema

    def value(self) -> Any:
        """Returns the same value every time: required properties only, as short and small as
        possible.

        Raises:
            ConfigError: The schema has a `pattern`, or requires itself: pass the value instead.
        """
        return self._of(self.schema, _DEPTH)

    def _of(self, schema: Mapping[str, Any] | bool, depth: int) -> Any:
        if isinstance(schema, bool):
            return None
        if not depth:
            raise ConfigError(f"{self.subject}: the schema requires itself")
        # Values in the schema come first: they are valid under its other keywords.
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if schema.get(key):
                return schema[key][0]
        if "$ref" in schema:
            # Keywords beside `$ref` count since draft 2019-09; Pydantic puts `default` there.
            return self._of({**self._target(schema["$ref"]), **_without(schema, "$ref")}, depth - 1)
        if schema.get("allOf"):
            return self._of(_joined(_without(schema, "allOf"), schema["allOf"]), depth - 1)
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                return self._first(schema, key, depth)
        return self._typed(schema, depth)

    def _first(self, schema: Mapping[str, Any], key: str, depth: int) -> Any:
        """Returns the first alternative for which a value can be made; null is the shortest."""
        fault: ConfigError | None = None
        for option in schema[key]:
            try:
                return self._of(_joined(_without(schema, key), [option]), depth - 1)
            except ConfigError as error:
                fault = fault or error
        raise fault or ConfigError(f"{self.subject}: {key} is empty")

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Any:
        kinds = schema.get("type", "")
        kind: str = kinds if isinstance(kinds, str) else kinds[0]
        match kind:
            case "object":
                properties = schema.get("properties", {})
                required = schema.get("required", ())
                return {name: self._of(properties.get(name, {}), depth - 1) for name in required}
            case "array":
                return self._array(schema, depth)
            case "string":
                return self._string(schema)
            case "integer" | "number":
                return _number(self.subject, schema, whole=kind == "integer")
            case "boolean":
                return True  # achieved: a critic that never agrees would continue forever
            case "null":
                return None
            case _:  # any value, unless its keywords restrict the kind
                kind = "object" if "properties" in schema else "string"
                return self._typed({**schema, "type": kind}, depth)

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        fixed = schema.get("prefixItems", [])
        values = [self._of(item, depth - 1) for item in fixed]
        while len(values) < schema.get("minItems", 0):
            values.append(self._of(schema.get("items", {}), depth - 1))
        if schema.get("uniqueItems") and len(values) > 1:
            # Repeated values would be invalid, and different ones cannot be made for every schema.
            raise ConfigError(f"{self.subject}: several different items are wanted")
        return values

    def _string(self, schema: Mapping[str, Any]) -> str:
        if "pattern" in schema:
            raise ConfigError(f"{self.subject}: {schema['pattern']!r} must be matched")
        text = _FORMATS.get(schema.get("format", ""), "a")
        text = text.ljust(schema.get("minLength", 0), "a")
        return text[: schema.get("maxLength", len(text))]

    def _target(self, pointer: str) -> Mapping[str, Any]:
        target = at_pointer(self.schema, pointer)
        if not is_object(target):
            raise ConfigError(f"{self.subject}: {pointer!r} leads nowhere")
        return target


def _without(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}


def _joined(schema: dict[str, Any], options: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns one schema that combines the properties of all of them."""
    joined = dict(schema)
    for option in options:
        properties = {**joined.get("properties", {}), **option.get("properties", {})}
        required = [*joined.get("required", ()), *option.get("required", ())]
        joined.update(option)
        if properties:
            joined["properties"] = properties
        if required:
            joined["required"] = list(dict.fromkeys(required))
    return joined


def _number(subject: str, schema: Mapping[str, Any], *, whole: bool) -> int | float:
    """Returns 0 if it is allowed, else a number at one of the bounds, or between them."""
    for value in _likely_numbers(schema, whole=whole):
        if _allows(schema, value) and (not whole or value == int(value)):
            return int(value) if whole else value
    raise ConfigError(f"{subject}: no number was found that lies within {dict(schema)!r}")


def _likely_numbers(schema: Mapping[str, Any], *, whole: bool) -> Iterator[float]:
    """Yields 0, the bounds (rounded to a multiple) and one step inside, then their middles."""
    step = schema.get("multipleOf") or (1 if whole else None)
    lows = [schema[key] for key in ("minimum", "exclusiveMinimum") if key in schema]
    highs = [schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema]
    if step is not None:
        lows = [ceil(low / step) * step for low in lows]
        highs = [floor(high / step) * step for high in highs]
    inside = step or 1
    yield 0
    for low in lows:
        yield from (low, low + inside)
    for high in highs:
        yield from (high, high - inside)
    if step is None:
        yield from [(low + high) / 2 for low in lows for high in highs]


def _allows(schema: Mapping[str, Any], value: float) -> bool:
    return not (
        value < schema.get("minimum", value)
        or value > schema.get("maximum", value)
        or value <= schema.get("exclusiveMinimum", value - 1)
        or value >= schema.get("exclusiveMaximum", value + 1)
    )

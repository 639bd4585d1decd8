"""Models for tests: from a script, from a function, or by the schemas of what is offered.

`ScriptedModel` reads a script, `FunctionModel` calls a function, and `TestModel` needs neither: it
calls every tool and then answers, with the simplest values that their schemas allow. All go through
the ordinary `Model` seam, need no network and cost next to nothing per call. They know nothing
about reply formats.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from taofold.core.content import Conversation, ToolCall
from taofold.core.errors import ConfigError, TaofoldError
from taofold.core.values import FINISH, Message, Profile, Reply, Value
from taofold.runtime.model import OnText, Request, ToolSpec
from taofold.testing.schema_examples import SchemaExample

ROOMY: Final = Profile(window=1_000_000, window_known=True)
"""The profile of a test model: text only, and a window no test fills by accident."""

Line: TypeAlias = str | Reply | Exception
"""One entry of a script: a reply's text, a whole reply, or an error to raise."""

Answer: TypeAlias = str | Reply
_CHUNK: Final = 16


class ScriptEnded(TaofoldError):
    """The script has no reply for this call: the agent asked more often than expected."""


class Asked(Value, frozen=True):
    """A request as it was when it was made. The conversation may have grown since."""

    request: Request
    length: int

    @property
    def messages(self) -> list[Message]:
        """What the model was shown (copied here, not when it was asked)."""
        return self.request.conversation[: self.length]

    @property
    def text(self) -> str:
        """Every message's text, joined: handy for `in`."""
        return "\n".join(message.text for message in self.messages)

    @property
    def last(self) -> str:
        """The text of the newest message, "" if there was none."""
        return self.request.conversation[self.length - 1].text if self.length else ""

    @property
    def digest(self) -> str:
        """The digest the conversation had (recomputed: O(n))."""
        return Conversation(self.messages).digest

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools it was offered."""
        return self.request.tools

    @property
    def role(self) -> str:
        """The step role it was asked in."""
        return self.request.role


def _price(usd: tuple[float, float] | None, input_tokens: int, output_tokens: int) -> float | None:
    if usd is None:
        return None
    return (usd[0] * input_tokens + usd[1] * output_tokens) / 1e6


def _speak(text: str, on_text: OnText) -> None:
    for start in range(0, len(text), _CHUNK):
        on_text(text[start : start + _CHUNK])


class ScriptedModel:
    """Gives `replies` in order and remembers what it was asked.

    Args:
        replies: texts, whole replies, or exceptions to raise; may be endless.
        profile: what it claims to be able to do.
        usd: dollars per million input and output tokens; None = price unknown.
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
        self._replies: Iterator[Line] = iter(replies)
        self._usd = usd

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The next reply. Raises `ScriptEnded` if there is none, or the scripted exception."""
        # The conversation is not copied, it only grows:
        # its length is enough to see it as it was.
        received = Asked(request, len(request.conversation))
        self.requests.append(received)
        line = next(self._replies, None)
        if line is None:
            raise ScriptEnded(
                f"{self.name!r} was asked {len(self.requests)} times, but its script has "
                f"{len(self.requests) - 1} replies; it was shown {received.last[-200:]!r}: "
                "add a reply, or find out why the agent asks again"
            )
        if isinstance(line, Exception):
            raise line
        reply = line if isinstance(line, Reply) else Reply(text=line, model=self.name)
        if on_text is not None:
            _speak(reply.text, on_text)
        return reply

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for a call of this size."""
        return _price(self._usd, input_tokens, output_tokens)

    def assert_complete(self) -> None:
        """Raise `AssertionError` if replies are left over. Takes one from an endless script."""
        left = next(self._replies, None)
        if left is not None:
            raise AssertionError(
                f"{self.name!r} was asked {len(self.requests)} times and has replies left; "
                f"the next is {left!r}"
            )


class FunctionModel:
    """Answers with `fn(request)`: a text, a reply, or an awaitable of one."""

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
        """Ask the function. What it raises passes through."""
        answer = self._fn(request)
        # A coroutine or any other awaitable.
        if not isinstance(answer, (str, Reply)):
            answer = await answer
        reply = answer if isinstance(answer, Reply) else Reply(text=answer, model=self.name)
        if on_text is not None:
            _speak(reply.text, on_text)
        return reply

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for a call of this size."""
        return _price(self._usd, input_tokens, output_tokens)


_PROFILE: Final = Profile(window=1_000_000, window_known=True, native_tools=True, json_schema=True)


class TestModel:
    """Calls each tool once with the simplest arguments that its schema allows, then answers.

    For tests of what is around a model: that tools are wired, that outputs are typed, that an
    application holds together. The same requests get the same replies.

        result = Agent(TestModel(), tools=[price], output=Invoice).run_sync("What is it?")
        assert isinstance(result.output, Invoice)

    Args:
        call: names of the tools to call, in this order; None = all that are offered.
        arguments: parameters by tool, where the simplest ones will not do.
        answer: what to answer with; None = the simplest value of the output's type, or a text
            that says which tools were called.
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
        """Calls of tools that were not called yet, or the answer.

        Raises:
            ConfigError: no value can be made for a schema; the message says for which.
        """
        self.requests.append(Asked(request, len(request.conversation)))
        # What was called is read from the conversation, so one model serves many runs at once.
        conversation = request.conversation[:]
        called = [call.name for message in conversation for call in message.calls]
        offered = [tool.name for tool in request.tools]
        missing = [name for name in self._call or () if name not in (*offered, *called)]
        # Later on a tool may have been used up or withdrawn; a name that is wrong shows at once.
        if missing and not called:
            raise ConfigError(f"TestModel shall call {missing[0]!r}, which is not offered")
        calls = [] if request.schema else self._calls(request, called)
        text = "" if calls else self._text(request, called)
        if text and on_text is not None:
            on_text(text)
        return Reply(text, calls, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Nothing."""
        return 0.0

    def _calls(self, request: Request, called: list[str]) -> list[ToolCall]:
        """What is to be called now: all tools at once, then `finish` where the answer is typed."""
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
        step = SchemaExample("the answer", request.schema).value()
        parameters = step["action"]["parameters"]
        if self._answer is not None:
            parameters["answer"] = self._answer
        elif isinstance(parameters["answer"], str):
            parameters["answer"] = text
        return _json(step)


def _wraps(schema: Mapping[str, Any]) -> bool:
    """Is it the schema of a whole step (a thought, and `finish` with the answer)?"""
    return {"thought", "action"}.issubset(schema.get("properties", {}))


def _call(name: str, arguments: Any, number: int) -> ToolCall:
    return ToolCall(name, _json(arguments), f"call-{number}")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

"""A model for tests that needs no script: it calls every tool, then answers, as schemas demand."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from taofold.core.content import ToolCall
from taofold.core.errors import ConfigError
from taofold.core.values import FINISH, Profile, Reply
from taofold.runtime.model import OnText, Request, ToolSpec
from taofold.testing.models import Asked
from taofold.testing.schema_examples import SchemaExample

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
            return [self._called(tools[name], len(called) + n) for n, name in enumerate(due)]
        return [self._finished(finish, len(called))] if finish else []

    def _called(self, tool: ToolSpec, number: int) -> ToolCall:
        parameters = SchemaExample(f"the parameters of tool {tool.name!r}", tool.parameters)
        fixed = self._arguments.get(tool.name)
        return _call(tool.name, parameters.value() if fixed is None else fixed, number)

    def _finished(self, finish: ToolSpec, number: int) -> ToolCall:
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

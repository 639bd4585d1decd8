"""The actions `llm.call` and `llm.tools`: one question to a model, without and with tools.

A question is a `prompt` with `system`, or `messages` as OpenAI's API has them. The type of the
answer is an `output_format`, or a `response_format` of that API. The value is the answer, or with
`reply: true` the mapping that The Edge Agent returns.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from taofold.core.effects import Strategy
from taofold.core.json_values import is_array, is_object
from taofold.core.values import FINISH, Message
from taofold.files.actions.action import (
    ActionCall,
    Asking,
    Done,
    Ended,
    Keys,
    Text,
    Unusable,
    asking,
    offered_tools,
    output_of,
    roles,
    think,
)
from taofold.files.types import NoType, type_of
from taofold.reasoning import Direct, Output, react
from taofold.tools.schema_check import SchemaCheck


def _joined(value: Any) -> Any:
    """Returns the text of a list of content parts."""
    if not is_array(value):
        return value
    texts: list[str] = []
    for part in value:
        text = part.get("text") if is_object(part) else part
        if not isinstance(text, str):
            raise ValueError("parts other than text are not supported here")
        texts.append(text)
    return "\n".join(texts)


class ChatMessage(Keys):
    """One message of a conversation, as OpenAI's API has it."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[Text, BeforeValidator(_joined)]

    @property
    def instructs(self) -> bool:
        """True for instructions."""
        return self.role in ("system", "developer")


class CallKeys(Asking):
    """The keys of the action `llm.call`."""

    elsewhere = {
        "timeout": "it is a key of the node, beside `with`",
        "max_retries": "`on_error: {retry: {max: 3}}` of the node repeats a failed call",
        "api_base": "where keys are sent is set by the environment, never by a file",
    }

    prompt: Text = ""
    messages: list[ChatMessage] = []
    """In place of `prompt`."""
    system: str = ""
    output_format: Any = None
    """Type of the answer, text by default. Answers that do not fit are corrected."""
    response_format: Any = None
    """The same as OpenAI's API writes it: `{type: json_object}`, `{type: json_schema, …}`."""
    reply: bool = False
    """The value is a mapping with `content`, `usage` and `model`, not the answer alone."""

    @field_validator("messages")
    @classmethod
    def _a_question(cls, messages: list[ChatMessage]) -> list[ChatMessage]:
        _question(messages)
        return messages

    @field_validator("response_format")
    @classmethod
    def _a_format(cls, written: Any) -> Any:
        response_type(written)
        return written

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if "prompt" not in self.model_fields_set and "messages" not in self.model_fields_set:
            raise ValueError("needs the key 'prompt' (or 'messages')")
        if "prompt" in self.model_fields_set and "messages" in self.model_fields_set:
            raise ValueError("has 'prompt' and 'messages': keep one of them")
        if self.output_format is not None and self.response_format is not None:
            raise ValueError("has 'output_format' and 'response_format': keep one of them")
        return self


class ToolsKeys(CallKeys):
    """The keys of the action `llm.tools`."""

    tools: list[str] | None = None
    max_tool_rounds: Annotated[int, Field(ge=0)] = 10


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    before: tuple[Message, ...] = ()
    system: str = ""


def _question(messages: list[ChatMessage]) -> _Question:
    """Returns the question of a conversation: its last message, which the others precede.

    Raises:
        ValueError: There is no message, or the last one is the model's.
    """
    spoken = [message for message in messages if not message.instructs]
    system = [message.content for message in messages if message.instructs]
    if not messages:
        raise ValueError("needs a message")
    if not spoken:
        # Instructions alone are a question.
        return _Question(system[-1], system="\n\n".join(system[:-1]))
    if spoken[-1].role != "user":
        raise ValueError("the last message must have the role user")
    before = tuple([Message(message.role, message.content) for message in spoken[:-1]])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    return _Question(spoken[-1].content, before, "\n\n".join(system))


_FORMATS: Final = ("text", "json_object", "json_schema")


def response_type(written: Any) -> Any:
    """Returns the type of the answer that a `response_format` requests.

    Raises:
        ValueError: It is not one of OpenAI's forms.
    """
    kind: Any = written.get("type") if is_object(written) else written
    if kind == "text":
        return str
    if kind == "json_object":
        return dict[str, Any]
    if kind != "json_schema" or not is_object(written):
        raise ValueError(f"its type is one of {', '.join(_FORMATS)}, not {kind!r}")
    named: Any = written.get("json_schema")
    schema: Any = named.get("schema") if is_object(named) else None
    if not is_object(schema):
        raise ValueError("the schema must be at json_schema.schema")
    try:
        return type_of(dict(schema))
    except NoType:
        return _checked_type(schema)


def _checked_type(schema: Mapping[str, Any]) -> Any:
    """Returns a type for a schema that has more than the types of files can express."""
    check = SchemaCheck(schema)
    if check.flaw:
        raise ValueError(f"the schema cannot be used: {check.flaw}")

    def checked(value: Any) -> Any:
        faults = check.faults(value)
        if faults:
            raise ValueError("; ".join(faults[:5]))
        return value

    return Annotated[Any, AfterValidator(checked), WithJsonSchema(dict(schema))]


def _output(keys: CallKeys) -> Output:
    if keys.response_format is None:
        return output_of(keys.output_format)
    try:
        return Output(response_type(keys.response_format))
    except ValueError as error:
        raise Unusable(str(error)) from None


def _asked(keys: CallKeys) -> _Question:
    if not keys.messages:
        return _Question(keys.prompt, system=keys.system)
    asked = _question(keys.messages)
    system = "\n\n".join(filter(None, [keys.system, asked.system]))
    return _Question(asked.text, asked.before, system)


def _call(call: ActionCall[CallKeys]) -> Strategy[Done]:
    keys, asked = call.keys, _asked(call.keys)
    ended = yield from think(
        Direct(),
        call,
        "llm.call",
        asked.text,
        models=roles(call, executor="model"),
        output=_output(keys),
        instructions=asked.system,
        before=asked.before,
        settings=keys.settings,
    )
    value = _reply(ended) if keys.reply and not ended.error else ended.output
    return Done(value, ended.error, ended.stop)


def _reply(ended: Ended) -> dict[str, Any]:
    """Returns an answer in the form of The Edge Agent.

    Keys of an answer that is a mapping are beside `content`, which is then JSON text.
    """
    answer, usage = ended.output, ended.trace.usage
    content = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return {
        **(answer if is_object(answer) else {}),
        "content": content,
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.tokens,
        },
        "model": ended.trace.model("executor"),
    }


def _tools(call: ActionCall[ToolsKeys]) -> Strategy[Done]:
    keys, asked = call.keys, _asked(call.keys)
    ended = yield from think(
        react,
        call,
        "llm.tools",
        asked.text,
        models=roles(call, executor="model"),
        output=_output(keys),
        offers=offered_tools(call.task, keys.tools),
        instructions=asked.system,
        before=asked.before,
        # The rounds of tools, and one for the answer.
        steps=keys.max_tool_rounds + 1,
        bound=("max_tool_rounds", keys.max_tool_rounds),
        settings=keys.settings,
    )
    # The answer is in `content`. Its step is not a tool call and is left out.
    steps = [step for step in ended.trace.steps if step["action"] not in ("llm.tools", FINISH)]
    reply = _reply(ended) if keys.reply and not ended.error else {"content": ended.output}
    value = {
        **reply,
        "tool_calls": [{"name": s["action"], "arguments": s["action_input"]} for s in steps],
        "tool_results": [s["observation"] for s in steps],
        "rounds": len(steps),
    }
    return Done(value, ended.error, ended.stop)


BUILT_IN: Final = (
    asking("llm.call", "Ask a model once.", CallKeys, _call),
    asking("llm.tools", "Ask a model that may use tools.", ToolsKeys, _tools),
)

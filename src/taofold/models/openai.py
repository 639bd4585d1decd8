"""Chat completions: OpenAI and everybody who speaks its format.

Each message is encoded once in its life; a request joins the pieces. What a server
does not support (a response format, a parameter) is left out after its first 4xx, and
that is remembered. It knows nothing about HTTP or about what replies mean to an agent.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from taofold.core.errors import ModelError
from taofold.core.values import JSON, Message, Profile, Reply
from taofold.models.anyjson import is_array, is_object
from taofold.models.chat_reply import ChatReader
from taofold.models.endpoint import Endpoint
from taofold.models.prices import Price
from taofold.models.wire import (
    NO_RESULT,
    Frame,
    Memo,
    arguments_of,
    as_text,
    encode,
    estimate,
    follows_its_call,
    names_of,
    pending,
    wire_name,
)
from taofold.runtime.fallback import Speaker
from taofold.runtime.model import OnText, Request, ToolSpec

_LEVELS: Final = ("json_schema", "json_object", "none")
_DROPPABLE: Final = ("temperature", "stop", "stream_options", "max_tokens")


class ChatModel:
    """A model behind a chat-completions endpoint.

    Args:
        name: `provider:model`.
        model: its name at the provider.
        price: None if unknown.
        new_limit: say `max_completion_tokens` (OpenAI) instead of `max_tokens` (the rest).
        extra: further fields of every request.
    """

    def __init__(
        self,
        name: str,
        model: str,
        endpoint: Endpoint,
        profile: Profile,
        *,
        price: Price | None = None,
        new_limit: bool = False,
        extra: Mapping[str, JSON] | None = None,
    ) -> None:
        self.name, self.profile = name, profile
        self._endpoint, self._price = endpoint, price
        self._start = encode({"model": model, **(extra or {})})[:-1] + b',"messages":['
        self._limits = (b"max_completion_tokens", b"max_tokens")[:: 1 if new_limit else -1]
        self._level = 0 if profile.json_schema else 2
        self._without: frozenset[str] = frozenset()
        self._memo = Memo()

    def __repr__(self) -> str:
        return f"ChatModel({self.name!r})"

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for a call of this size if nothing is cached; None if unknown."""
        return self._price.upper(input_tokens, output_tokens) if self._price else None

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask once; see `Model`. Leaves out, step by step, what the server does not support."""
        speaker = Speaker(on_text) if on_text else None
        level, without = self._level, self._without
        first: ModelError | None = None
        while True:
            try:
                reply = await self._ask(request, speaker, level, without)
            except ModelError as error:
                first = first or error
                less = self._less(request, speaker is not None, error, level, without)
                if less is None:
                    raise first from None
                level, without = less
            else:
                if first:
                    self._level, self._without = level, without
                return reply

    async def _ask(
        self, request: Request, speaker: Speaker | None, level: int, without: frozenset[str]
    ) -> Reply:
        streaming = speaker is not None and self.profile.streaming
        key = (
            id(request.tools), id(request.schema), request.temperature, request.stop,
            streaming, level, without,
        )  # fmt: skip
        names, tail = self._memo.get(
            key,
            (request.tools, request.schema),
            lambda: self._tail(request, streaming, level, without),
        )
        body = self._body(request, tail, without)
        conversation = request.conversation
        frame = Frame(
            self.name, self._endpoint.url, self._endpoint.secret, self._price, names,
            len(conversation), speaker,
        )  # fmt: skip
        return await self._endpoint.ask(
            body, estimate(request), lambda: ChatReader(frame), speaker, streaming=streaming
        )

    def _body(self, request: Request, tail: bytes, without: frozenset[str]) -> bytes:
        conversation = request.conversation
        if self.profile.native_tools:
            pieces = conversation.fragments("openai", native)
            if open_calls := pending(conversation, len(conversation)):
                pieces = [*pieces, *(b"," + _missing(call.id) for call in open_calls)]
        else:
            pieces = conversation.fragments("openai text", plain)
        body = self._start + b"".join(pieces) + b"]" + tail
        if not request.max_tokens:
            return body + b"}"
        limit = self._limits["max_tokens" in without]
        return body + b',"%b":%d}' % (limit, request.max_tokens)

    def _tail(
        self, request: Request, streaming: bool, level: int, without: frozenset[str]
    ) -> tuple[dict[str, str], bytes]:
        fields: dict[str, Any] = {}
        if request.tools and self.profile.native_tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.stop:
            fields["stop"] = request.stop
        if request.schema is not None and level < 2:
            fields["response_format"] = _format(request.schema, level)
        if streaming:
            fields["stream"] = True
            fields["stream_options"] = {"include_usage": True}
        kept = {name: value for name, value in fields.items() if name not in without}
        return names_of(request.tools), b"," + encode(kept)[1:-1] if kept else b""

    def _less(
        self,
        request: Request,
        streaming: bool,
        error: ModelError,
        level: int,
        without: frozenset[str],
    ) -> tuple[int, frozenset[str]] | None:
        """What to ask for next, None if nothing can be left out."""
        shaped = request.schema is not None and level < 2
        if error.kind == "request" and error.status in (400, 422):
            sent = {
                "temperature": request.temperature is not None,
                "stop": bool(request.stop),
                "stream_options": streaming,
                "max_tokens": bool(request.max_tokens),
            }
            said = str(error).lower().replace("max_completion_tokens", "max_tokens")
            for name in _DROPPABLE:
                if sent[name] and name not in without and name in said:
                    return level, without | {name}
        # Some servers answer 500 to a response format they do not know.
        if shaped and error.kind in ("request", "server") and error.status >= 400:
            return level + 1, without
        return None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": wire_name(tool.name),
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _format(schema: dict[str, JSON], level: int) -> dict[str, Any]:
    if _LEVELS[level] == "json_object":
        return {"type": "json_object", "schema": schema}
    named = {"name": "output", "strict": closed(schema), "schema": schema}
    return {"type": "json_schema", "json_schema": named}


def closed(schema: JSON) -> bool:
    """Does `schema` obey OpenAI's strict rules: no object with optional or further keys?"""
    if is_array(schema):
        return all(closed(item) for item in schema)
    if not is_object(schema):
        return True
    if "properties" in schema or schema.get("type") == "object":
        keys = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(keys):
            return False
    return all(closed(item) for item in schema.values())


def native(messages: Sequence[Message], index: int) -> bytes:
    """A message for a model with native tools, preceded by results that are missing."""
    message = messages[index]
    if message.role == "tool":
        if follows_its_call(messages, index):
            return _result(message.results[0].id, message.text)
        return encode({"role": "user", "content": message.text})
    piece = encode(_entry(message))
    if index and (open_calls := pending(messages, index)):
        return b",".join([*(_missing(call.id) for call in open_calls), piece])
    return piece


def plain(messages: Sequence[Message], index: int) -> bytes:
    """A message for a model without native tools."""
    message = messages[index]
    role = "user" if message.role == "tool" else message.role
    return encode({"role": role, "content": as_text(message)})


def _entry(message: Message) -> dict[str, Any]:
    if not message.calls:
        return {"role": message.role, "content": message.text}
    calls = [
        {
            "id": call.id or "call",
            "type": "function",
            "function": {
                "name": wire_name(call.name),
                "arguments": encode(arguments_of(call)).decode(),
            },
        }
        for call in message.calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def _result(call_id: str, content: str) -> bytes:
    return encode({"role": "tool", "tool_call_id": call_id or "call", "content": content})


def _missing(call_id: str) -> bytes:
    return _result(call_id, NO_RESULT)

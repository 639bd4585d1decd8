"""Ollama's native `/api/chat`: unlike its OpenAI endpoint it can set the context size,
without which a longer prompt is cut silently. It needs no key and costs nothing.
"""

import os
from collections.abc import Sequence
from typing import Any, Final

from typing_extensions import Unpack

from taofold.core.errors import ConfigError
from taofold.core.values import Message, Profile, Reply
from taofold.models.endpoint import Endpoint
from taofold.models.ollama_reply import OllamaReader
from taofold.models.openai import plain
from taofold.models.options import Options, endpoint, known_price, refuse_unknown
from taofold.models.prices import FREE, Price
from taofold.models.profiles import UNKNOWN, profile_of
from taofold.models.wire import (
    NO_RESULT,
    Frame,
    Memo,
    arguments_of,
    encode,
    estimate,
    follows_its_call,
    names_of,
    pending,
    wire_name,
)
from taofold.runtime.fallback import Speaker
from taofold.runtime.model import OnText, Request

_URL: Final = "http://127.0.0.1:11434"
_LARGEST: Final = 32_768
"""The context asked for by default at most: memory for it is set aside at once."""


class OllamaModel:
    """A model that a local Ollama serves. `context` is the window in tokens that is asked for."""

    def __init__(
        self,
        name: str,
        model: str,
        endpoint: Endpoint,
        profile: Profile,
        *,
        price: Price | None = FREE,
        context: int,
    ) -> None:
        self.name, self.profile = name, profile
        self._endpoint, self._price, self._context = endpoint, price, context
        self._start = encode({"model": model})[:-1] + b',"messages":['
        self._memo = Memo()

    def __repr__(self) -> str:
        return f"OllamaModel({self.name!r})"

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for a call of this size."""
        return self._price.upper(input_tokens, output_tokens) if self._price else None

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask once; see `Model`."""
        speaker = Speaker(on_text) if on_text else None
        streaming = speaker is not None and self.profile.streaming
        key = (
            id(request.tools), id(request.schema), request.temperature, request.stop,
            request.max_tokens, streaming,
        )  # fmt: skip
        names, tail = self._memo.get(
            key,
            (request.tools, request.schema),
            lambda: (names_of(request.tools), self._tail(request, streaming)),
        )
        conversation = request.conversation
        if self.profile.native_tools:
            pieces = conversation.fragments("ollama", native)
            missing = [
                b"," + _missing(call.name) for call in pending(conversation, len(conversation))
            ]
            pieces = [*pieces, *missing] if missing else pieces
        else:
            pieces = conversation.fragments("openai text", plain)
        frame = Frame(
            self.name, self._endpoint.url, self._endpoint.secret, self._price, names,
            len(conversation), speaker,
        )  # fmt: skip
        body = self._start + b"".join(pieces) + b"]" + tail
        return await self._endpoint.ask(
            body, estimate(request), lambda: OllamaReader(frame), speaker, streaming=streaming
        )

    def _tail(self, request: Request, streaming: bool) -> bytes:
        options: dict[str, Any] = {"num_ctx": self._context}
        if request.max_tokens:
            options["num_predict"] = request.max_tokens
        if request.temperature is not None:
            options["temperature"] = request.temperature
        if request.stop:
            options["stop"] = request.stop
        fields: dict[str, Any] = {"stream": streaming, "options": options}
        if request.schema is not None and self.profile.json_schema:
            fields["format"] = request.schema
        if request.tools and self.profile.native_tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": wire_name(tool.name),
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in request.tools
            ]
        return b"," + encode(fields)[1:]


def connect(model: str, **options: Unpack[Options]) -> OllamaModel:
    """Connect to `model`, at OLLAMA_HOST or the usual port. Raises `ConfigError` for a
    missing name or an unknown option.
    """
    refuse_unknown(**options)
    if not model:
        raise ConfigError("write ollama:MODEL, the model is missing")
    url = options.get("base_url") or os.environ.get("OLLAMA_HOST") or _URL
    url = (url if "://" in url else f"http://{url}").rstrip("/").removesuffix("/v1")
    key = options.get("api_key") or ""
    profile = options.get("profile")
    if profile is None:
        known = profile_of(model)
        window = min(known.window, _LARGEST)
        # We set the window ourselves, so it is known, and a local Ollama enforces schemas.
        profile = Profile(
            window=window,
            window_known=True,
            native_tools=known != UNKNOWN and known.native_tools,
            json_schema=True,
        )
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return OllamaModel(
        f"ollama:{model}",
        model,
        endpoint(f"{url}/api/chat", headers, key, options),
        profile,
        price=known_price(model, options, FREE),
        context=profile.window,
    )


def native(messages: Sequence[Message], index: int) -> bytes:
    """A message for a model with native tools: Ollama's calls hold objects, and results name
    their tool.
    """
    message = messages[index]
    if message.role == "tool":
        if not follows_its_call(messages, index):
            return encode({"role": "user", "content": message.text})
        calls = {call.id: call.name for call in pending(messages, index)}
        return _result(calls[message.results[0].id], message.text)
    entry: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.calls:
        entry["tool_calls"] = [
            {"function": {"name": wire_name(call.name), "arguments": arguments_of(call)}}
            for call in message.calls
        ]
    missing = [_missing(call.name) for call in pending(messages, index)] if index else []
    return b",".join([*missing, encode(entry)])


def _result(name: str, content: str) -> bytes:
    return encode({"role": "tool", "tool_name": wire_name(name), "content": content})


def _missing(name: str) -> bytes:
    return _result(name, NO_RESULT)

"""Anthropic's Messages API, and servers that speak it.

Fragments hold whole content blocks and the borders between roles, so neighbouring
messages of one role are merged (as the API wants) while each is still encoded once.
Extended thinking is not asked for: its signed blocks have no place in a conversation.
"""

import os
from typing import Any, Final
from urllib.parse import urlsplit

from typing_extensions import Unpack

from taofold.core.conversation import Conversation
from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import JSON, Profile, Reply
from taofold.models.anthropic_history import ending, missing, native, plain, system
from taofold.models.anthropic_reply import MessagesReader
from taofold.models.endpoint import Endpoint
from taofold.models.options import Options, endpoint, key_for, known_price, refuse_unknown
from taofold.models.prices import Price
from taofold.models.profiles import profile_of
from taofold.models.wire import Frame, Memo, encode, estimate, names_of, wire_name
from taofold.runtime.fallback import Speaker
from taofold.runtime.model import OnText, Request

VERSION: Final = "2023-06-01"
_URL: Final = "https://api.anthropic.com/v1"
_KEY: Final = "ANTHROPIC_API_KEY"
_OUTPUT: Final = 8192
"""The API demands a bound on the output; this one if the request has none."""
_CACHE: Final = b',"cache_control":{"type":"ephemeral"}}'


class MessagesModel:
    """A model behind a Messages endpoint. `cache` marks prefixes for the prompt cache."""

    def __init__(
        self,
        name: str,
        model: str,
        endpoint: Endpoint,
        profile: Profile,
        *,
        price: Price | None = None,
        cache: bool = True,
    ) -> None:
        self.name, self.profile = name, profile
        self._endpoint, self._price, self._cache = endpoint, price, cache
        self._start = encode({"model": model})[:-1]
        self._shapes = profile.json_schema
        self._tempered = True
        self._memo = Memo()

    def __repr__(self) -> str:
        return f"MessagesModel({self.name!r})"

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for a call of this size if nothing is cached; None if unknown."""
        return self._price.upper(input_tokens, output_tokens) if self._price else None

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask once; see `Model`. Without schema or temperature where they are refused."""
        speaker = Speaker(on_text) if on_text else None
        shapes, tempered = self._shapes, self._tempered
        first: ModelError | None = None
        while True:
            try:
                reply = await self._ask(request, speaker, shapes, tempered)
            except ModelError as error:
                first = first or error
                if error.kind != "request" or error.status not in (400, 422):
                    raise first from None
                if tempered and request.temperature is not None and "temperature" in str(error):
                    tempered = False
                elif shapes and request.schema is not None:
                    shapes = False
                else:
                    raise first from None
            else:
                self._shapes, self._tempered = shapes, tempered
                return reply

    async def _ask(
        self, request: Request, speaker: Speaker | None, shapes: bool, tempered: bool
    ) -> Reply:
        streaming = speaker is not None and self.profile.streaming
        tools = request.tools if self.profile.native_tools else ()
        schema = request.schema if shapes else None
        heat = request.temperature if tempered else None
        key = id(request.tools), id(schema), heat, request.stop, streaming
        names, tail = self._memo.get(
            key,
            (request.tools, schema),
            lambda: (names_of(tools), self._tail(request, schema, heat, streaming)),
        )
        conversation = request.conversation
        body = b'%b,"max_tokens":%d%b%b,"messages":%b}' % (
            self._start,
            request.max_tokens or _OUTPUT,
            tail if tools else tail + self._past_tools(conversation),
            self._system(conversation),
            self._messages(conversation),
        )
        frame = Frame(
            self.name, self._endpoint.url, self._endpoint.secret, self._price, names,
            len(conversation), speaker,
        )  # fmt: skip
        return await self._endpoint.ask(
            body, estimate(request), lambda: MessagesReader(frame), speaker, streaming=streaming
        )

    def _tail(self, request: Request, schema: JSON, heat: float | None, streaming: bool) -> bytes:
        fields: dict[str, Any] = {}
        if self.profile.native_tools and request.tools:
            fields["tools"] = [
                {
                    "name": wire_name(tool.name),
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in request.tools
            ]
        if heat is not None:
            fields["temperature"] = heat
        if request.stop:
            fields["stop_sequences"] = request.stop
        if schema is not None:
            fields["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        if streaming:
            fields["stream"] = True
        return b"," + encode(fields)[1:-1] if fields else b""

    def _past_tools(self, conversation: Conversation) -> bytes:
        # A history with tool blocks is refused unless tools are defined: name the ones
        # it used, and forbid them.
        if not self.profile.native_tools:
            return b""
        used = sorted({wire_name(call.name) for message in conversation for call in message.calls})
        if not used:
            return b""
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in used]
        return b"," + encode({"tools": tools, "tool_choice": {"type": "none"}})[1:-1]

    def _system(self, conversation: Conversation) -> bytes:
        blocks = b"".join(conversation.fragments("anthropic system", system))
        if not blocks:
            return b""
        return b',"system":[' + (blocks[:-1] + _CACHE if self._cache else blocks) + b"]"

    def _messages(self, conversation: Conversation) -> bytes:
        if self.profile.native_tools:
            joined = b"".join(conversation.fragments("anthropic", native, b""))
            lacking = missing(conversation, len(conversation))
        else:
            joined = b"".join(conversation.fragments("anthropic text", plain, b""))
            lacking = []
        if not joined:
            raise ModelError("a conversation needs a message besides the system's", kind="request")
        joined += ending(conversation, lacking)
        return b"[" + (joined[:-1] + _CACHE if self._cache else joined) + b"]}]"


def connect(model: str, **options: Unpack[Options]) -> MessagesModel:
    """Connect to `model`. Raises `ConfigError` for a missing key or an unknown option."""
    refuse_unknown(**options)
    if not model:
        raise ConfigError("write anthropic:MODEL, the model is missing")
    base, given = options.get("base_url"), options.get("api_key")
    url = (base or os.environ.get("ANTHROPIC_BASE_URL") or _URL).rstrip("/")
    url = url if url.endswith("/v1") else f"{url}/v1"
    # As in presets: the environment's key does not go where an argument points.
    elsewhere = base is not None and urlsplit(base).netloc != urlsplit(_URL).netloc
    key = "" if elsewhere and not given else key_for("anthropic", _KEY, given)
    headers = {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
    return MessagesModel(
        f"anthropic:{model}",
        model,
        endpoint(f"{url}/messages", headers, key, options),
        options.get("profile") or profile_of(model),
        price=known_price(model, options),
    )

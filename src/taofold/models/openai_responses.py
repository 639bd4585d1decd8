"""OpenAI's Responses API, without state at the provider.

`store` is always false. Encrypted reasoning is kept whole as an opaque part and sent back in front
of the items that it led to. Ids of calls and messages are omitted, because with them each item
would require its reasoning. The conversation is the end of the request, so that one request is a
prefix of the next.

Another server at OpenAI's place may only have chat completions. `ElsewhereModel` switches to these
permanently when the server has no such path.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import msgspec

from taofold.core.content import (
    Conversation,
    MediaPart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    parts_of,
    text_of,
)
from taofold.core.errors import ModelError
from taofold.core.json_values import is_array, is_object
from taofold.core.reply import finish_of
from taofold.core.text import excerpt
from taofold.core.values import JSON, SEARCH, Message, Reply, Usage
from taofold.models.capabilities import Abilities
from taofold.models.chat_completions import ChatModel, is_strict
from taofold.models.decoding import arguments_text, spelling_of
from taofold.models.encoding import (
    NO_RESULT,
    arguments_of,
    as_text,
    content_for,
    data_url,
    encode,
    follows_its_call,
    leading,
    pending,
    present,
    raw,
    system_texts,
    text_or_blocks,
)
from taofold.models.endpoint import ReplyReader
from taofold.models.remote import Connection, ModelTurn, RemoteModel, effort_at_most
from taofold.models.replies import (
    EventReader,
    ReplyContext,
    count_of,
    decode,
    objects,
    reported_error,
)
from taofold.models.tool_search import decoded, searched_tools
from taofold.models.wire_names import OPENAI_TOOLS, RESPONSES_ID, WireTools, wire_name
from taofold.models.wire_schema import OPENAI_FORM, AnswerForm
from taofold.runtime.model import Request, Speaker, ToolSpec

_DROPPABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "reasoning.summary": ("reasoning.summary",),
    "include": ("include", "encrypted content", "encrypted_content"),
    "reasoning": ("reasoning.effort", "'reasoning'", "reasoning is not supported"),
    "prompt_cache_key": ("prompt_cache_key",),
    "service_tier": ("service_tier",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
}
"""Optional fields that a server may refuse, and the words that identify them in an error."""
_SEARCH_OUTPUT: Final = "tool_search_output"
_SEARCH_ITEMS: Final = ("tool_search_call", _SEARCH_OUTPUT)
"""Items of OpenAI's search of deferred tools."""
_KEYWORDS: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const"),
        *("description", "title", "anyOf", "$ref", "$defs"),
    }
)
"""Keywords of JSON Schema that OpenAI's strict mode is known to accept."""


class ResponsesModel(RemoteModel):
    """A model behind a Responses endpoint."""

    wire = "responses"
    tool_rules = OPENAI_TOOLS
    form_rules = OPENAI_FORM
    searches_tools = True

    def __init__(self, connection: Connection, rules: Abilities) -> None:
        super().__init__(connection)
        self._rules = rules
        self._without = frozenset[str]()

    def _version(self) -> Any:
        return self._without, self._refuses_search

    async def _ask(self, request: Request, speaker: Speaker | None) -> Reply:
        """Sends the request, and omits fields that this account or server refuses."""
        learnt = self._without
        while True:
            try:
                return await super()._ask(request, speaker)
            except ModelError as error:
                if self._is_without_search(request, error):
                    continue
                reason = str(error).lower()
                # The error names the field. Only fields not yet omitted are tried, so the loop
                # ends.
                less = [
                    name
                    for name, words in _DROPPABLE.items()
                    if name not in self._without and any([word in reason for word in words])
                ]
                if error.kind != "request" or error.status != 400 or not less:
                    self._without = learnt
                    raise
                self._without |= {less[0]}

    def _head(self, turn: ModelTurn, notes: list[str]) -> bytes:
        settings = turn.settings
        effort = effort_at_most(settings.effort, self._rules.efforts, notes, self.name)
        rules = self._rules
        thinks = effort != "none" and not (effort is None and rules.thinking == "opt_in")
        body: dict[str, Any] = {"model": self.connection.model, "store": False}
        body |= present({"stream": turn.streaming})
        body |= self._reasoning(effort)
        body |= self._sampling(rules, settings, notes, thinks=thinks)
        body |= present(
            {
                "max_output_tokens": settings.max_tokens,
                "service_tier": settings.service_tier,
                "prompt_cache_key": _cache_key(turn),
                "text": None if turn.form is None else {"format": _format(turn.form)},
                "tools": _tools(turn),
                "tool_choice": turn.wire.tools and _choice(turn),
            }
        )
        notes += filter(None, [self._not_enforced(turn)])
        if effort is not None and "reasoning" in self._without:
            notes.append(f"effort {effort!r} is not sent: {self.name} does not take it")
        accepted = {name: value for name, value in body.items() if name not in self._without}
        return encode({**accepted, **settings.extra})[:-1]

    def _reasoning(self, effort: str | None) -> dict[str, Any]:
        if self._rules.thinking in ("", "off"):
            return {}
        reasoning: dict[str, Any] = {} if effort is None else {"effort": effort}
        if effort != "none" and "reasoning.summary" not in self._without:
            reasoning["summary"] = "auto"
        # Without it, and with `store` false, the reasoning could not be sent back.
        fields_of: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}
        return fields_of | ({"reasoning": reasoning} if reasoning else {})

    def _messages(self, turn: ModelTurn) -> Sequence[bytes]:
        conversation, native = turn.request.conversation, self.profile.native_tools
        written = self._written(turn)
        if not written:
            raise ModelError("a conversation needs a message besides the system's", kind="request")
        opening = "\n\n".join(system_texts(conversation))
        head = b"," + encode({"instructions": opening})[1:-1] if opening else b""
        missing = [
            b"," + encode(_missing_output(call, turn.wire))
            for call in (pending(conversation, len(conversation)) if native else ())
        ]
        return [head + b',"input":[', *written, *missing, b"]}"]

    def _reader(self, frame: ReplyContext) -> ReplyReader:
        return ResponsesReader(frame)

    def _searchable(self, request: Request) -> WireTools:
        # A search of ours sends found tools only, so that no maximum applies to the deferred ones.
        wire = searched_tools(request, replace(self.tool_rules, most=0))
        fits = len(wire.tools) <= self.tool_rules.most
        return wire if fits else wire.searched("local", wire.deferred)

    def _named(self, conversation: Conversation, wire: WireTools) -> tuple[set[str], set[str]]:
        named: set[str] = set()
        bare: set[str] = set()
        for index, message in enumerate(conversation):
            if message.role == "assistant":
                parts = self._parts(conversation, index, wire)
                named |= _loaded_by(parts, wire)
                bare |= {call.name for call in _calls(parts) if not call.opaque}
            elif wire.search == "local" and follows_its_call(conversation, index):
                searches = _search_ids(conversation, index)
                named |= {
                    name for each in message.results if each.id in searches for name in each.found
                }
        # The API refuses a call without a namespace, unless the tool has none.
        return (named - bare) & wire.deferred, bare & wire.deferred

    def _parts(self, conversation: Conversation, index: int, wire: WireTools) -> list[Part]:
        """Returns the parts of a model's message that are sent."""
        parts = list(parts_of(content_for(conversation, index, self.issuer)))
        if wire.search != "provider":
            parts = [part for part in parts if not _is_search(part)]
        while parts and isinstance(parts[-1], OpaquePart):
            parts.pop()  # truncated reasoning without its item is refused
        return parts

    def _native(self, conversation: Conversation, index: int, wire: WireTools) -> bytes:
        """Returns the items of a message, after missing outputs. b"" = none."""
        message = conversation[index]
        if follows_its_call(conversation, index):
            searches = _search_ids(conversation, index) if wire.search == "local" else ()
            return _items(
                [
                    _search_output(result, wire) if result.id in searches else self._result(result)
                    for result in message.results
                ]
            )
        open_calls = pending(conversation, index) if index else ()
        items: list[Any] = [_missing_output(call, wire) for call in open_calls]
        return _items([*items, *self._model_turn(conversation, index, wire)])

    def _plain(self, conversation: Conversation, index: int) -> bytes:
        message = conversation[index]
        if message.role == "tool":
            return _items([self._user(Message("user", as_text(message)))])
        if message.role == "assistant" and message.calls:
            return _items([{"role": "assistant", "content": text_of(parts_of(as_text(message)))}])
        return _items(self._model_turn(conversation, index, WireTools()))

    def _model_turn(self, conversation: Conversation, index: int, wire: WireTools) -> list[Any]:
        message = conversation[index]
        if message.role == "assistant":
            return self._items_of(conversation, index, wire)
        if message.role == "system" and leading(conversation, index):
            return []
        if message.role == "system":
            return [{"role": "developer", "content": message.text}]
        return [self._user(message)]

    def _items_of(self, conversation: Conversation, index: int, wire: WireTools) -> list[Any]:
        """Returns the model's items in order. Reasoning precedes the items that it led to."""
        items: list[Any] = []
        for part in self._parts(conversation, index, wire):
            match part:
                case OpaquePart():
                    # Byte for byte, at its place, because reasoning is checked against the
                    # following items.
                    items.append(raw(part.data))
                case TextPart() if part.text:
                    phase = {"phase": part.phase} if part.phase else {}
                    items.append({"role": "assistant", "content": part.text, **phase})
                case ToolCall(name=name) if name == SEARCH and wire.search == "local":
                    items.append(
                        {
                            "type": "tool_search_call",
                            "execution": "client",
                            "call_id": RESPONSES_ID.apply(part.id),
                            "arguments": arguments_of(part),
                            "status": "completed",
                        }
                    )
                case ToolCall():
                    items.append(
                        {
                            "type": "function_call",
                            "call_id": RESPONSES_ID.apply(part.id),
                            "name": wire.name(part.name),
                            "arguments": _arguments(part, wire),
                            **(_OBJECT.decode(part.opaque) if part.opaque and wire.search else {}),
                        }
                    )
                case _:
                    pass
        return items or [{"role": "assistant", "content": "(empty)"}]

    def _user(self, message: Message) -> dict[str, Any]:
        return {"role": "user", "content": self._content(message.parts) or "(empty)"}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        if isinstance(result.content, str):
            return _output(result.id, result.content)
        return _output(result.id, self._content(result.content))

    def _content(self, parts: Sequence[Part]) -> Any:
        return text_or_blocks(parts, self.profile.inputs, _block)


_NO_SUCH_PATH: Final = frozenset({404, 405})


class ElsewhereModel(ResponsesModel):
    """An OpenAI model at another address.

    A gateway to OpenAI has the Responses API. Most other servers have only chat completions and
    answer with an unknown path. They are then asked through chat completions.
    """

    def __init__(self, connection: Connection, rules: Abilities, chat: ChatModel) -> None:
        super().__init__(connection, rules)
        self._chat = chat
        self._chat_only = False

    async def _ask(self, request: Request, speaker: Speaker | None) -> Reply:
        if self._chat_only:
            return await self._chat.complete(request, speaker)
        try:
            return await super()._ask(request, speaker)
        except ModelError as error:
            if error.status not in _NO_SUCH_PATH:
                raise
        # An unknown model is a 404 too. Then this request fails as well.
        reply = await self._chat.complete(request, speaker)
        self._chat_only, self.issuer = True, self._chat.issuer
        return reply


def _cache_key(turn: ModelTurn) -> str:
    """Returns a key that routes a run's calls to the same cache, or "" for no cache."""
    if turn.settings.prompt_cache == "off" or not turn.request.run:
        return ""
    # Hashed, because the provider does not need the run's id.
    return blake2b(turn.request.run.encode(), digest_size=16).hexdigest()


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": strict(tool.parameters),
    }


_NAMESPACE_CHARS: Final = 2_000
"""Most characters of the description of a namespace."""
_UNGROUPED: Final = "more_tools"


def _tools(turn: ModelTurn) -> list[dict[str, Any]]:
    """Returns the tools, with the provider's search and the tools that it finds."""
    wire = turn.wire
    if not wire.search:
        return [_tool(tool) for tool in wire.tools]
    away = {wire.names[name] for name in wire.deferred}
    own = wire.names.get(SEARCH)
    first = [_tool(tool) for tool in wire.tools if tool.name not in away and tool.name != own]
    # Without a namespace: calls of another provider's replies have none.
    loaded = {wire.names[name] for name in turn.loaded}
    plain = [_tool(tool) for tool in wire.tools if tool.name in loaded]
    if wire.search == "provider":
        rest = [tool for tool in wire.tools if tool.name in away - loaded]
        search = [{"type": "tool_search"}] if rest else []
        return [*first, *search, *_namespaces(rest), *plain]
    own_search = [
        {
            "type": "tool_search",
            "execution": "client",
            "description": tool.description,
            "parameters": tool.parameters,
        }
        for tool in wire.tools
        if tool.name == own
    ]
    return [*first, *own_search, *plain]


def _namespaces(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Returns deferred tools in a namespace for each toolset.

    A model sees only the description of a namespace before it searches, so it names the tools.
    """
    groups: dict[str, list[ToolSpec]] = {}
    for tool in tools:
        groups.setdefault(wire_name(tool.group) if tool.group else _UNGROUPED, []).append(tool)
    return [
        {
            "type": "namespace",
            "name": name,
            "description": excerpt(
                f"Tools: {', '.join([tool.name for tool in group])}", _NAMESPACE_CHARS
            ),
            "tools": [_tool(tool) | {"defer_loading": True} for tool in group],
        }
        for name, group in groups.items()
    ]


def _search_output(result: ToolResult, wire: WireTools) -> dict[str, Any]:
    """Returns the found tools of a call of `search_tools`."""
    names = {wire.names[name] for name in result.found if name in wire.deferred}
    return {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": RESPONSES_ID.apply(result.id),
        "status": "completed",
        "tools": _namespaces([tool for tool in wire.tools if tool.name in names]),
    }


def _missing_output(call: ToolCall, wire: WireTools) -> dict[str, Any]:
    if call.name == SEARCH and wire.search == "local":
        return _search_output(ToolResult(call.id, NO_RESULT), wire)
    return _output(call.id, NO_RESULT)


def _search_ids(conversation: Conversation, index: int) -> set[str]:
    """Returns the ids of the calls of `search_tools` that message `index` may answer."""
    before = next(
        (conversation[at] for at in range(index - 1, -1, -1) if conversation[at].calls), None
    )
    return {call.id for call in before.calls if call.name == SEARCH} if before else set()


def _is_search(part: Part) -> bool:
    return isinstance(part, OpaquePart) and part.kind in _SEARCH_ITEMS


def _calls(parts: Sequence[Part]) -> list[ToolCall]:
    return [part for part in parts if isinstance(part, ToolCall)]


def _loaded_by(parts: Sequence[Part], wire: WireTools) -> set[str]:
    """Returns the deferred tools that results of the provider's search load."""
    names = [
        name
        for part in parts
        if isinstance(part, OpaquePart) and part.kind == _SEARCH_OUTPUT
        for name in _functions(decoded(part))
    ]
    known = {wire.names[name]: name for name in wire.deferred}
    return {known[name] for name in names if name in known}


def _functions(item: Mapping[str, Any]) -> list[str]:
    """Returns the names of the functions in a result of the provider's search."""
    names: list[str] = []
    for tool in objects(item.get("tools")):
        inner = objects(tool.get("tools")) if tool.get("type") == "namespace" else [tool]
        names += [_text_of(each, "name") for each in inner]
    return names


def _items(items: Sequence[Any]) -> bytes:
    return encode(items)[1:-1] if items else b""


def _output(call_id: str, output: Any) -> dict[str, Any]:
    sent = RESPONSES_ID.apply(call_id)
    return {"type": "function_call_output", "call_id": sent, "output": output}


def _arguments(call: ToolCall, wire: WireTools) -> str:
    """Returns the arguments unchanged, unless stand-ins have to be replaced."""
    if call.name not in wire.properties:
        return call.arguments or "{}"
    return encode(wire.arguments(call.name, arguments_of(call))).decode()


def _block(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text} if part.text else None
        case MediaPart(kind="image"):
            return {
                "type": "input_image",
                "image_url": data_url(part),
                "detail": part.detail or "auto",
            }
        case MediaPart() if part.url:
            return {"type": "input_file", "file_url": part.url}
        case MediaPart():
            name = part.name or f"file.{part.media_type.rpartition('/')[2]}"
            return {"type": "input_file", "filename": name, "file_data": data_url(part)}
        case _:
            return None


def _choice(turn: ModelTurn) -> Any:
    """Returns a restriction of the callable tools. Reasoning is bound to the offer, which stays."""
    allowed = turn.request.allowed
    if allowed is None:
        return None
    later = turn.wire.deferred.difference(turn.loaded)
    # The API restricts no call to a deferred tool. The runtime refuses what is not allowed.
    if later.intersection(allowed):
        return None
    called = [name for name in allowed if not (turn.wire.search and name == SEARCH)]
    names = [{"type": "function", "name": name} for name in turn.wire.allowed(called)]
    if not names:
        return "none"
    return {"type": "allowed_tools", "mode": "auto", "tools": names}


def _format(form: AnswerForm) -> dict[str, Any]:
    enforced = not form.reason
    return {"type": "json_schema", "name": "output", "schema": form.schema, "strict": enforced}


def strict(schema: JSON) -> bool:
    """Returns True if OpenAI can certainly enforce `schema` exactly."""
    return is_strict(schema) and _simple(schema)


def _simple(schema: JSON) -> bool:
    if not is_object(schema):
        return True
    if not set(schema) <= _KEYWORDS:
        return False
    named: list[Any] = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    others: list[Any] = [schema.get("items"), *schema.get("anyOf", ())]
    return all(_simple(inner) for inner in (*named, *others))


class _Why(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = None
    incomplete_details: _Why | None = None
    error: Any = None
    input_transformations: list[dict[str, Any]] | None = None
    service_tier: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    response: _Response | None = None
    item: dict[str, Any] | None = None
    output_index: int | None = None
    delta: Any = None


_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
_EVENT: Final = msgspec.json.Decoder(_Event)
_RESPONSE: Final = msgspec.json.Decoder(_Response)
_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")


class ResponsesReader(EventReader):
    """Reads one response. The `ReplyReader` of this format.

    Of a stream only finished items count: an added item holds incomplete ciphertext.
    """

    def __init__(self, frame: ReplyContext) -> None:
        super().__init__(frame)
        self._items: dict[int, dict[str, Any]] = {}
        self._last: _Response | None = None

    def whole(self, body: bytes) -> Reply:
        """Reads a response that was not streamed."""
        self._last = decode(self._frame, _RESPONSE, body)
        for item in self._last.output or ():
            for text in _texts(item):
                self._frame.speak(text)
        if self._last.status is None and not self._last.output:
            raise self._frame.empty("it holds no output", body)
        return self._reply()

    @property
    def complete(self) -> bool:
        """True if the last event has arrived."""
        return self._last is not None

    def _event(self, data: bytes) -> None:
        event = decode(self._frame, _EVENT, data)
        match event.type:
            case "response.output_item.done" if event.item is not None:
                # Servers that do not number their items send them in order.
                index = len(self._items) if event.output_index is None else event.output_index
                self._items[index] = event.item
            case "response.output_text.delta" | "response.refusal.delta":
                self._frame.speak(spelling_of(event.delta))
            case name if name in _ENDS and event.response is not None:
                self._last, self._ended = event.response, True
            case _:
                pass

    def _reply(self) -> Reply:
        response = self._last or _Response()
        done = [item for _, item in sorted(self._items.items())]
        # In a stream the last event may omit output that was sent before.
        items = done or response.output or []
        if response.status in ("failed", "cancelled") or (response.error and not items):
            why = response.error or {"message": f"the response is {response.status}"}
            raise reported_error(self._frame, why)
        if response.status is None and not items:
            raise self._frame.unreadable("it holds no output")
        parts: list[Part] = []
        refusals = [self._take(item, index, parts) for index, item in enumerate(items)]
        found = [
            name
            for item in items
            if item.get("type") == _SEARCH_OUTPUT
            for name in _functions(item)
        ]
        return self._frame.reply(
            parts,
            self._count(response),
            "refusal" if any(refusals) else self._finish(response, parts),
            _notes(response.input_transformations or ()),
            self._frame.tools(found),
        )

    def _finish(self, response: _Response, parts: Sequence[Part]) -> str:
        if response.status == "incomplete":
            why = response.incomplete_details
            return finish_of(why.reason if why else "") or "length"
        return "tool_calls" if any([isinstance(part, ToolCall) for part in parts]) else "stop"

    def _take(self, item: dict[str, Any], place: int, parts: list[Part]) -> bool:
        """Adds the item's parts. Returns True for a refusal."""
        match item.get("type"):
            case "message":
                blocks = _blocks(item)
                texts = [_text_of(block, "text") or _text_of(block, "refusal") for block in blocks]
                parts += [TextPart(text, _text_of(item, "phase")) for text in texts if text]
                return any(block.get("type") == "refusal" for block in blocks)
            case "function_call":
                name, arguments = _text_of(item, "name"), arguments_text(item.get("arguments"))
                # A later request must name the namespace again.
                space = _text_of(item, "namespace")
                opaque = encode({"namespace": space}).decode() if space else ""
                call_id = _text_of(item, "call_id")
                parts.append(self._frame.call(name, arguments, call_id, place, opaque))
            case "tool_search_call" if item.get("execution") == "client":
                arguments, call_id = (
                    arguments_text(item.get("arguments")),
                    _text_of(item, "call_id"),
                )
                parts.append(self._frame.call(SEARCH, arguments, call_id, place))
            case "reasoning" if not item.get("encrypted_content"):
                pass  # without its ciphertext it cannot be sent back
            case kind:
                summary = "\n\n".join(_summaries(item)) if kind == "reasoning" else ""
                parts += [ThinkingPart(summary)] if summary else []
                # Absent fields arrive as null and are omitted when sent back.
                stored = {name: value for name, value in item.items() if value is not None}
                if kind in _SEARCH_ITEMS:
                    # The provider stores no items: an id would be looked up there.
                    stored = {n: v for n, v in stored.items() if n not in ("id", "created_by")}
                parts.append(OpaquePart(encode(stored).decode(), str(kind or "item")))
        return False

    def _count(self, response: _Response) -> Usage:
        usage = response.usage
        return self._frame.usage(
            count_of(usage, "input_tokens"),
            count_of(usage, "output_tokens"),
            count_of(usage, "input_tokens_details", "cached_tokens"),
            count_of(usage, "input_tokens_details", "cache_write_tokens"),
            count_of(usage, "output_tokens_details", "reasoning_tokens"),
            response.service_tier or "",
            total=count_of(usage, "total_tokens"),
        )


def _texts(item: dict[str, Any]) -> list[str]:
    if item.get("type") != "message":
        return []
    return [_text_of(block, "text") for block in _blocks(item)]


def _blocks(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the blocks of a message. Some servers send its text, or a single block, instead."""
    content: Any = item.get("content")
    if is_object(content):
        return [content]
    if is_array(content):
        return [block if is_object(block) else {"text": block} for block in content]
    return [{"text": content}]


def _text_of(item: dict[str, Any], name: str) -> str:
    return spelling_of(item.get(name))


def _summaries(item: dict[str, Any]) -> list[str]:
    return [str(block.get("text") or "") for block in objects(item.get("summary"))]


def _notes(transformations: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the provider's list of omissions from the request, with reasons."""
    counts = Counter(
        f"{change.get('type', 'item')} {change.get('action') or 'changed'}: "
        f"{change.get('reason', '?')}"
        for change in transformations
    )
    return [f"{what} (×{count})" if count > 1 else what for what, count in counts.items()]

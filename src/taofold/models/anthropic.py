"""Anthropic's Messages API, and servers with the same format.

Thinking blocks are kept whole as opaque parts and sent back at their place. On current models they
are bound to everything before them, so `system`, `tools` and earlier messages keep their bytes. The
API wants neighbouring messages of one role merged, while each message is encoded once. An encoded
piece therefore holds its blocks and the border to the role before it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from typing_extensions import Unpack

from taofold.core.content import (
    Content,
    Conversation,
    MediaPart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    parts_of,
)
from taofold.core.errors import ModelError
from taofold.core.json_values import is_object
from taofold.core.reply import finish_of
from taofold.core.values import SEARCH, Effort, Message, Reply, Usage
from taofold.models.capabilities import Abilities, rules_for
from taofold.models.decoding import arguments_text, spelling_of
from taofold.models.encoding import (
    NO_RESULT,
    acceptable_parts,
    arguments_of,
    as_text,
    blob,
    content_for,
    encode,
    flat,
    follows_its_call,
    leading,
    open_role,
    pending,
    present,
    raw,
    system_texts,
)
from taofold.models.endpoint import ReplyReader
from taofold.models.remote import (
    Connection,
    ModelOptions,
    ModelTurn,
    RemoteModel,
    cache_mark,
    check_choice,
    connection,
    effort_at_most,
    endpoint,
    key_for,
)
from taofold.models.replies import (
    EventReader,
    ReplyContext,
    count_of,
    decode,
    objects,
    reported_error,
)
from taofold.models.tool_search import decoded, originals
from taofold.models.transport import same_server
from taofold.models.wire_names import ANTHROPIC_ID, ANTHROPIC_TOOLS, WireTools
from taofold.models.wire_schema import ANTHROPIC_FORM
from taofold.runtime.model import Request, Speaker, ToolSpec

VERSION: Final = "2023-06-01"
_HOST: Final = "api.anthropic.com"
_URL: Final = f"https://{_HOST}/v1"
_KEY: Final = "ANTHROPIC_API_KEY"
_OUTPUT: Final = 8_192
_THINKING_OUTPUT: Final = 32_000
"""Default output limit, because the API requires one."""
_BUDGETS: Final[Mapping[Effort, int]] = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 28_672,
}
"""Thinking tokens for models that take a budget instead of a level."""
_BLOCK_LIMIT: Final = 32 << 20
"""Maximum bytes of a request."""
_SEARCH: Final = "tool_search_tool_bm25"
_SEARCH_TOOL: Final = {"type": f"{_SEARCH}_20251119", "name": _SEARCH}
"""Anthropic's search of deferred tools by words."""
_SEARCH_RESULT: Final = "tool_search_tool_result"


class MessagesModel(RemoteModel):
    """A model behind a Messages endpoint.

    `whole_cache`: one cache mark at the top of the request, which leaves the messages' bytes
    unchanged. Servers that do not support it get a mark at the last block.
    """

    wire = "messages"
    tool_rules = ANTHROPIC_TOOLS
    form_rules = ANTHROPIC_FORM
    searches_tools = True

    def __init__(
        self,
        connection: Connection,
        rules: Abilities,
        *,
        whole_cache: bool = False,
        fixed: Mapping[str, Any] | None = None,
        names_model: bool = True,
    ) -> None:
        super().__init__(connection)
        self._rules, self._whole_cache = rules, whole_cache
        self._fixed = {**({"model": connection.model} if names_model else {}), **(fixed or {})}
        self._shapes = self.profile.json_schema

    def _version(self) -> Any:
        return self._shapes, self._refuses_search

    async def _ask(self, request: Request, speaker: Speaker | None) -> Reply:
        """Sends the request. If a schema or the search of tools is refused, retries without it.

        The model remembers that.
        """
        try:
            return await super()._ask(request, speaker)
        except ModelError as error:
            if self._is_without_search(request, error):
                return await self._ask(request, speaker)
            # Other servers with this format may not support `output_config.format`. Anthropic's
            # does.
            shaped = self._shapes and request.schema is not None
            if not shaped or error.kind != "request" or error.status not in (400, 422):
                raise
            self._shapes = False
            try:
                return await super()._ask(request, speaker)
            except ModelError:
                # The schema was not the cause, so the first error has the reason.
                self._shapes = True
                raise error from None

    def _head(self, turn: ModelTurn, notes: list[str]) -> bytes:
        settings = turn.settings
        thinking, config = self._thinking(settings.effort, notes)
        thinks = thinking.get("type") in ("adaptive", "enabled") or (
            not thinking and self._rules.thinking in ("always", "default")
        )
        limit = settings.max_tokens or (_THINKING_OUTPUT if thinks else _OUTPUT)
        body: dict[str, Any] = {**self._fixed, "max_tokens": limit}
        if thinking.get("type") == "enabled":
            budget = thinking["budget_tokens"]
            # The API requires at least 1,024 thinking tokens, and more output than that.
            if limit <= budget:
                thinking = {**thinking, "budget_tokens": max(limit - 1, 1_024)}
                body["max_tokens"] = max(limit, 1_025)
        if turn.form is not None and self._shapes and not turn.form.reason:
            config["format"] = {"type": "json_schema", "schema": turn.form.schema}
        elif turn.form is not None:
            notes += filter(None, [self._not_enforced(turn)])
        body |= present({"thinking": thinking, "output_config": config})
        body |= self._sampling(self._rules, settings, notes, thinks=thinks)
        body |= present(
            {
                "stop_sequences": turn.request.stop,
                "service_tier": settings.service_tier,
                "stream": turn.streaming,
                "cache_control": self._whole_cache and self._cache_mark(turn),
                "tools": _tools(turn),
                # Current models refuse forced calls. The offer stays, and calling can be disabled.
                "tool_choice": turn.wire.tools and turn.request.allowed == () and {"type": "none"},
            }
        )
        # Without the closing brace, which `_messages` adds. Tools and system follow as bytes.
        return encode({**body, **settings.extra})[:-1]

    def _thinking(
        self, effort: Effort | None, notes: list[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the fields `thinking` and `output_config`."""
        rules = self._rules
        if rules.thinking in ("", "off"):
            effort_at_most(effort, (), notes, self.name)
            return {}, {}
        # A model's thinking is off by default, can be disabled, or cannot.
        if effort == "none":
            if rules.thinking == "opt_in":
                return {}, {}
            if rules.off:
                return {"type": rules.off}, {}
            notes.append(f"effort 'none' is not sent: {self.name} always thinks")
            effort = None
        thinking = {"type": "adaptive", "display": "summarized"}
        if rules.budget:
            if effort is None:
                return {}, {}
            # The notes are dropped: the budget below replaces the level.
            config = {"effort": effort_at_most(effort, rules.efforts, [], self.name)}
            return {"type": "enabled", "budget_tokens": _BUDGETS[effort]}, (
                config if rules.efforts else {}
            )
        if effort is None:
            return (thinking if rules.thinking in ("always", "default") else {}), {}
        return thinking, {"effort": effort_at_most(effort, rules.efforts, notes, self.name)}

    def _cache_mark(self, turn: ModelTurn) -> dict[str, str]:
        """Returns the mark for the end of the cached prefix, or {} for no cache."""
        return {} if turn.settings.prompt_cache == "off" else cache_mark(turn.settings)

    def _messages(self, turn: ModelTurn) -> Sequence[bytes]:
        conversation, native = turn.request.conversation, self.profile.native_tools
        written = self._written(turn, b"")
        lacking = _missing(conversation, len(conversation)) if native else []
        ending = self._ending(conversation, lacking)
        # Fragments without a message: system messages have their own field (`_system`).
        if not written:
            raise ModelError("a conversation needs a message besides the system's", kind="request")
        past = self._past_tools(turn) if native and not turn.wire.tools else b""
        body = [past + self._system(turn) + b',"messages":[', *written, ending, b"]}]}"]
        if not self._whole_cache:
            body = _with_cache_mark(body, self._cache_mark(turn))
        size = sum([len(piece) for piece in body])
        # Checked here, with advice, before megabytes are sent and refused.
        if size > _BLOCK_LIMIT:
            raise ModelError(
                f"the request has {size / 1e6:.1f} MB, {self.name} takes "
                f"{_BLOCK_LIMIT / 1e6:.0f} MB: send less media, or smaller ones",
                kind="request",
            )
        return body

    def _past_tools(self, turn: ModelTurn) -> bytes:
        # A history with tool blocks needs tool definitions. Names the used ones and forbids calls.
        used = {
            turn.wire.name(call.name)
            for message in turn.request.conversation
            for call in message.calls
        }
        if not used:
            return b""
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in sorted(used)]
        return b"," + encode({"tools": tools, "tool_choice": {"type": "none"}})[1:-1]

    def _system(self, turn: ModelTurn) -> bytes:
        # Only leading messages: later ones stay in place, so the prefix before them keeps its
        # bytes.
        texts = system_texts(turn.request.conversation)
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": text} for text in texts if text.strip()
        ]
        if not blocks:
            return b""
        blocks[-1] |= present({"cache_control": self._cache_mark(turn)})
        return b',"system":' + encode(blocks)

    def _native(self, conversation: Conversation, index: int, wire: WireTools) -> bytes:
        """Returns a message's blocks, after missing results and the border."""
        message = conversation[index]
        if message.role == "tool":
            answers = follows_its_call(conversation, index)
            blocks = (
                [self._result(result, wire) for result in message.results]
                if answers
                else self._visible_content(message.content)
            )
            return _piece(conversation, index, blocks)
        # The next message must answer each tool_use, also if the call was not made.
        lacking = _missing(conversation, index)
        if message.role != "assistant":
            return _piece(conversation, index, [*lacking, *self._visible_content(message.content)])
        content = self._model_turn(conversation, index, wire)
        if not lacking:
            return _piece(conversation, index, content)
        between = join(lacking, "user", open_role(conversation, index))
        return between + join(content, "assistant", "user")

    def _plain(self, conversation: Conversation, index: int) -> bytes:
        """Returns a message for a model without native tools."""
        message = conversation[index]
        if message.role == "assistant" and not message.calls:
            return _piece(conversation, index, self._model_turn(conversation, index, WireTools()))
        return _piece(conversation, index, self._visible_content(as_text(message)))

    def _model_turn(self, conversation: Conversation, index: int, wire: WireTools) -> list[Any]:
        """Returns the model's blocks in their original order."""
        blocks: list[Any] = []
        parts = parts_of(content_for(conversation, index, self.issuer))
        searches, _ = _searches(parts, wire)
        for part in parts:
            match part:
                case OpaquePart() if searches and decoded(part).get(_ids(part)) in searches:
                    pass
                case OpaquePart():
                    # Byte for byte, because it is signed.
                    blocks.append(raw(part.data))
                case TextPart() if part.text.strip():
                    blocks.append({"type": "text", "text": part.text})
                case ToolCall():
                    blocks.append(
                        {
                            "type": "tool_use",
                            "id": ANTHROPIC_ID.apply(part.id),
                            "name": wire.name(part.name),
                            "input": wire.arguments(part.name, arguments_of(part)),
                        }
                    )
                case _:
                    pass
        return blocks or [{"type": "text", "text": "(empty)"}]

    def _visible_content(self, content: Content) -> list[Any]:
        taken = acceptable_parts(flat(parts_of(content)), self.profile.inputs)
        blocks = [block for block in map(_block, taken) if block is not None]
        # The API refuses empty blocks, and without the message its neighbours would merge.
        return blocks or [{"type": "text", "text": "(empty)"}]

    def _named(self, conversation: Conversation, wire: WireTools) -> tuple[set[str], set[str]]:
        named: set[str] = set()
        for index, message in enumerate(conversation):
            if message.role == "assistant":
                parts = parts_of(content_for(conversation, index, self.issuer))
                named |= _searches(parts, wire)[1]
            elif message.role == "tool" and follows_its_call(conversation, index):
                named |= {name for result in message.results for name in result.found}
        return named & wire.deferred, set()

    def _result(self, result: ToolResult, wire: WireTools) -> dict[str, Any]:
        content: Any = result.content
        references = [wire.names[name] for name in result.found if name in wire.deferred]
        if references:
            content = [{"type": "tool_reference", "tool_name": name} for name in references]
        elif not isinstance(content, str):
            content = self._visible_content(content)
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": ANTHROPIC_ID.apply(result.id),
        }
        block["content"] = content or "(empty)"
        return block | ({"is_error": True} if result.error else {})

    def _ending(self, messages: Sequence[Message], lacking: list[Any]) -> bytes:
        """Returns the required end of the request: missing results or a user's message.

        Current models do not continue an assistant's message.
        """
        last = messages[-1] if messages else None
        # A turn that the provider paused continues from its own message.
        if not lacking and (last is None or last.role != "assistant" or _paused(last)):
            return b""
        blocks = lacking or [{"type": "text", "text": "(go on)"}]
        return join(blocks, "user", open_role(messages, len(messages)))

    def _reader(self, frame: ReplyContext) -> ReplyReader:
        return MessagesReader(frame)


def _paused(message: Message) -> bool:
    """Returns True if the provider paused the turn during its own tools."""
    parts = message.parts
    return bool(parts) and isinstance(parts[-1], OpaquePart) and "tool" in parts[-1].kind


def _with_cache_mark(body: list[bytes], cache: dict[str, str]) -> list[bytes]:
    """Returns the body with the mark at its last block."""
    if not cache:
        return body
    # The last non-empty piece ends with a block's `}`. The mark goes before it.
    last = max([at for at, piece in enumerate(body[:-1]) if piece])
    mark = b',"cache_control":' + encode(cache) + b"}"
    return [*body[:last], body[last][:-1] + mark, *body[last + 1 :]]


def _tools(turn: ModelTurn) -> list[dict[str, Any]]:
    """Returns the tools, with the provider's search and the tools that it finds."""
    wire = turn.wire
    if not wire.search:
        return [_tool(tool) for tool in wire.tools]
    deferred = {wire.names[name] for name in wire.deferred}
    later = {wire.names[name] for name in wire.deferred.difference(turn.loaded)}
    own = wire.names.get(SEARCH)
    hosted = wire.search == "provider"
    first = [
        _tool(tool)
        for tool in wire.tools
        if tool.name not in deferred and not (hosted and tool.name == own)
    ]
    return [
        *first,
        *([_SEARCH_TOOL] if hosted and later else []),
        *[
            _tool(tool) | ({"defer_loading": True} if tool.name in later else {})
            for tool in wire.tools
            if tool.name in deferred
        ],
    ]


def _ids(part: OpaquePart) -> str:
    """Returns the key of a search's id in its block."""
    return "tool_use_id" if part.kind == _SEARCH_RESULT else "id"


def _searches(parts: Sequence[Part], wire: WireTools) -> tuple[set[object], set[str]]:
    """Returns the ids of searches of tools that cannot be sent, and the tools that the others name.

    The API refuses a search that it is not offered, and references to tools that are not sent.
    """
    unsent: set[object] = set()
    named: set[str] = set()
    for part in parts:
        if not isinstance(part, OpaquePart) or part.kind not in ("server_tool_use", _SEARCH_RESULT):
            continue
        block = decoded(part)
        if part.kind == _SEARCH_RESULT:
            tools = originals(wire, _references(block))
            if tools is None or wire.search != "provider":
                unsent.add(block.get("tool_use_id"))
            else:
                named |= tools
        elif str(block.get("name")).startswith("tool_search_tool") and wire.search != "provider":
            unsent.add(block.get("id"))
    unsent.discard(None)
    return unsent, named


def _references(block: Mapping[str, Any]) -> list[str]:
    """Returns the names of tools in a result of the provider's search."""
    content = block.get("content")
    found = content.get("tool_references") if is_object(content) else None
    return [str(each.get("tool_name")) for each in objects(found)]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }


def _missing(messages: Sequence[Message], end: int) -> list[Any]:
    """Returns error results for the calls before index `end` that have none."""
    return [
        {"type": "tool_result", "tool_use_id": ANTHROPIC_ID.apply(call.id), "content": NO_RESULT}
        for call in pending(messages, end)
    ]


def _block(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case MediaPart(kind="image"):
            return {"type": "image", "source": _source(part)}
        case MediaPart():
            title = {"title": part.name} if part.name else {}
            return {"type": "document", "source": _source(part), **title}
        case _:
            return None


def _source(part: MediaPart) -> dict[str, Any]:
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": blob(part)}


def join(blocks: Sequence[Any], role: str, before: str) -> bytes:
    """Returns blocks of `role` after messages of role `before` ("" = none)."""
    # Without the brackets, because the border depends on the role before.
    joined = encode(blocks)[1:-1]
    if role == before:
        return b"," + joined
    opened = b'{"role":"%b","content":[%b' % (role.encode(), joined)
    if before:
        return b"]}," + opened
    # A conversation must begin with the user.
    first = b'{"role":"user","content":[%b]},' % encode({"type": "text", "text": "(start)"})
    return first + opened if role == "assistant" else opened


def _piece(messages: Sequence[Message], index: int, blocks: Sequence[Any]) -> bytes:
    message = messages[index]
    if message.role == "system" and leading(messages, index):
        return b""
    role = "assistant" if message.role == "assistant" else "user"
    return join(blocks, role, open_role(messages, index))


def connect(model: str, **options: Unpack[ModelOptions]) -> MessagesModel:
    """Connects to `model`.

    Raises:
        ConfigError: The key is missing, or an option is unknown.
    """
    check_choice("anthropic", model, options)
    base, api_key = options.get("base_url"), options.get("api_key")
    url = (base or os.environ.get("ANTHROPIC_BASE_URL") or _URL).rstrip("/")
    url = url if url.endswith("/v1") else f"{url}/v1"
    # As in presets: the environment's key is not sent to a host from an argument.
    elsewhere = base is not None and not same_server(base, _URL)
    key = "" if elsewhere and not api_key else key_for("anthropic", _KEY, api_key)
    headers = {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
    rules = rules_for("anthropic", model)
    if not same_server(url, _URL):
        rules = replace(rules, tool_search=False)
    connected = connection(
        "anthropic",
        model,
        endpoint(f"{url}/messages", headers, key, options),
        options,
        server=url,
        rules=rules,
    )
    return MessagesModel(connected, rules, whole_cache=rules.vendor == "anthropic")


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: Any = None
    stop_reason: str | None = None
    stop_details: Any = None


class _Answer(msgspec.Struct):
    type: str = ""
    index: int = 0
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    stop_details: Any = None
    usage: dict[str, Any] | None = None
    message: "_Answer | None" = None
    content_block: dict[str, Any] | None = None
    delta: _Delta | None = None
    error: Any = None
    input_transformations: list[dict[str, Any]] | None = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_ANY: Final = msgspec.json.Decoder()


class _Growing:
    """An unfinished content block: its start and the additions to it."""

    __slots__ = ("block", "json", "signature", "text", "thinking")

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.text = [spelling_of(block.get("text"))]
        self.thinking = [spelling_of(block.get("thinking"))]
        self.signature = [spelling_of(block.get("signature"))]
        arguments = block.get("input")
        # Streams begin a call with `input: {}` and send deltas. Whole answers have the JSON here.
        self.json = (
            [arguments_text(arguments)] if arguments and block.get("type") == "tool_use" else []
        )

    def add(self, delta: _Delta) -> None:
        self.text.append(delta.text or "")
        self.thinking.append(delta.thinking or "")
        self.signature.append(delta.signature or "")
        if delta.partial_json:
            self.json.append(arguments_text(delta.partial_json))

    def parts(self, frame: ReplyContext, place: int) -> list[Part]:
        """Returns the block as parts."""
        kind = str(self.block.get("type") or "")
        match kind:
            case "text":
                text = "".join(self.text)
                return [TextPart(text)] if text else []
            case "thinking":
                return self._thought()
            case "tool_use":
                name, call_id = str(self.block.get("name") or ""), str(self.block.get("id") or "")
                return [frame.call(name, "".join(self.json), call_id, place)]
            case _:
                whole = self.block
                if self.json:
                    try:
                        whole = {**whole, "input": _ANY.decode("".join(self.json))}
                    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                        raise frame.unreadable(f"the input of a {kind} block: {error}") from None
                return [OpaquePart(encode(whole).decode(), kind)]

    def _thought(self) -> list[Part]:
        text, signature = "".join(self.thinking), "".join(self.signature)
        parts: list[Part] = [ThinkingPart(text)] if text else []
        if not signature:
            return parts  # a truncated block would make the conversation invalid
        whole = {**self.block, "thinking": text, "signature": signature}
        # The signed block is sent back. The readable text is only for display.
        return [OpaquePart(encode(whole).decode(), "thinking"), *parts]


class MessagesReader(EventReader):
    """Reads one answer. The `ReplyReader` of this format."""

    def __init__(self, frame: ReplyContext) -> None:
        super().__init__(frame)
        self._blocks: dict[int, _Growing] = {}
        self._usage: dict[str, Any] = {}
        self._finish: str | None = None
        self._notes: list[str] = []

    def whole(self, body: bytes) -> Reply:
        """Reads an answer that was not streamed."""
        answer = self._decode(body)
        if answer.content is None:
            raise self._frame.empty("it holds no content", body)
        for index, block in enumerate(answer.content):
            self._blocks[index] = _Growing(block)
            if block.get("type") == "text":
                self._frame.speak(spelling_of(block.get("text")))
        self._finish = answer.stop_reason
        self._count(answer.usage)
        self._note(answer)
        return self._reply()

    @property
    def complete(self) -> bool:
        """True if the stop reason has arrived, which follows all blocks."""
        return self._finish is not None

    def _decode(self, body: bytes) -> _Answer:
        answer = decode(self._frame, _ANSWER, body)
        if answer.error or answer.type == "error":
            raise reported_error(self._frame, answer.error)
        return answer

    def _event(self, data: bytes) -> None:
        event = self._decode(data)
        match event.type:
            case "message_start" if event.message:
                self._count(event.message.usage)
                self._note(event.message)
            case "content_block_start" if event.content_block is not None:
                if event.index in self._blocks:
                    raise self._frame.unreadable(f"block {event.index} begins twice")
                self._blocks[event.index] = _Growing(event.content_block)
                self._frame.speak(spelling_of(event.content_block.get("text")))
            case "content_block_delta" if event.delta:
                # A delta without a started block counts as text.
                block = self._blocks.setdefault(event.index, _Growing({"type": "text"}))
                block.add(event.delta)
                self._frame.speak(event.delta.text)
            case "message_delta":
                self._finish = (event.delta and event.delta.stop_reason) or self._finish
                self._count(event.usage)
                if event.delta:
                    self._explain(event.delta.stop_details)
            case "message_stop":
                self._ended = True
            case _:
                pass

    def _note(self, answer: _Answer) -> None:
        for change in answer.input_transformations or ():
            self._notes.append(
                f"{change.get('type')} at {change.get('path')}: {change.get('reason')}"
            )
        self._explain(answer.stop_details)

    def _explain(self, details: Any) -> None:
        if is_object(details) and details.get("explanation"):
            self._notes.append(f"refused: {details['explanation']}")

    def _count(self, usage: dict[str, Any] | None) -> None:
        # Counts are running totals, so later events replace earlier ones.
        self._usage |= {name: value for name, value in (usage or {}).items() if value is not None}

    def _reply(self) -> Reply:
        parts: list[Part] = []
        found: list[str] = []
        for index, block in sorted(self._blocks.items()):
            parts += block.parts(self._frame, index)
            if block.block.get("type") == _SEARCH_RESULT:
                found += _references(block.block)
        tools = self._frame.tools(found)
        finish = finish_of(self._finish)
        return self._frame.reply(parts, self._total(), finish, self._notes, tools)

    def _total(self) -> Usage:
        used = self._usage
        read = count_of(used, "cache_read_input_tokens")
        written = count_of(used, "cache_creation_input_tokens")
        return self._frame.usage(
            # Anthropic's `input_tokens` excludes tokens read from or written to the cache.
            count_of(used, "input_tokens") + read + written,
            count_of(used, "output_tokens"),
            read,
            written,
            count_of(used, "output_tokens_details", "thinking_tokens"),
            spelling_of(used.get("service_tier")),
            count_of(used, "cache_creation", "ephemeral_1h_input_tokens"),
        )

"""Chat completions: requests and replies in the format that OpenAI introduced.

Servers differ (`Dialect`) in what they refuse and in what must be sent back. Fields to send back
are kept unchanged: `reasoning_content` and `reasoning` as thinking with a field to echo,
`reasoning_details` and `extra_content` as opaque parts. An unsupported response format or parameter
is omitted after the server's first 4xx, and the adapter remembers it.

The readers of replies accept the servers' differences: missing indices, objects for strings, null
for absent values. A stream without an end is an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import msgspec

from taofold.core.content import (
    Content,
    Conversation,
    MediaPart,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    parts_of,
)
from taofold.core.errors import ModelError
from taofold.core.json_values import is_object, is_sequence
from taofold.core.reply import finish_of
from taofold.core.values import JSON, Effort, ModelSettings, Reply, Usage
from taofold.models.capabilities import Abilities
from taofold.models.decoding import arguments_text, spelling_of
from taofold.models.encoding import (
    NO_RESULT,
    arguments_of,
    as_text,
    batch,
    blob,
    content_for,
    data_url,
    encode,
    follows_its_call,
    more_entries,
    present,
    raw,
    sampling,
    text_or_blocks,
)
from taofold.models.remote import Connection, ModelTurn, RemoteModel, cache_mark, effort_at_most
from taofold.models.replies import (
    EventReader,
    ReplyContext,
    amount_of,
    count_of,
    decode,
    reported_error,
)
from taofold.models.wire_names import (
    ANTHROPIC_TOOLS,
    ANY_ID,
    ANY_TOOLS,
    IdRule,
    ToolRules,
    WireTools,
)
from taofold.models.wire_schema import ANTHROPIC_FORM, OPENAI_FORM, AnswerForm, FormRules
from taofold.runtime.model import Request, Speaker, ToolSpec

DETAILS: Final = "reasoning_details"
"""OpenRouter's field that must come back whole, in order and unmodified."""
_MOST_USD: Final = 1e6
"""A higher reported cost is implausible. The tokens are then priced instead."""
_MERGED: Final = ("text", "summary", "data")
"""Fields of a detail that arrive in pieces. Other fields take their last value."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    id: str | None = None
    index: int | None = None
    function: _Function | None = None
    name: str | None = None
    arguments: Any = None
    extra_content: Any = None


class _Message(msgspec.Struct):
    content: Any = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: Any = None


class _Choice(msgspec.Struct):
    index: int | None = None
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    service_tier: str | None = None
    error: Any = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(map(_part, cast("list[Any]", content)))
    return _part(content)


def _part(part: Any) -> str:
    if is_object(part):
        return spelling_of(part.get("text")) if part.get("type", "text") in _TEXTS else ""
    return spelling_of(part)


_TEXTS: Final = ("text", "output_text")


class _Growing:
    """An unfinished tool call."""

    __slots__ = ("extra", "id", "name", "pieces")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.extra: Any = None
        self.pieces: list[str] = []

    def add(self, call: _Call) -> None:
        self.id = call.id or self.id
        self.extra = call.extra_content or self.extra
        if call.function:
            self.name = call.function.name or self.name
            self.pieces.append(arguments_text(call.function.arguments))

    @property
    def opaque(self) -> str:
        return encode(self.extra).decode() if self.extra else ""


class _Detail:
    """One of `reasoning_details`, which arrives in pieces."""

    __slots__ = ("_fields", "_pieces")

    def __init__(self, detail: dict[str, Any]) -> None:
        self._fields: dict[str, Any] = {}
        # Joined once, at the end, because there may be very many.
        self._pieces: dict[str, list[str]] = {}
        self.add(detail, first=True)

    def goes_on(self, detail: dict[str, Any]) -> bool:
        """Returns True if `detail` is the next piece of this one."""
        index = detail.get("index")
        fields = self._fields
        return (
            index is not None
            and fields.get("index") == index
            and fields.get("type") == detail.get("type")
        )

    def add(self, detail: dict[str, Any], *, first: bool = False) -> None:
        for name, value in detail.items():
            if name in _MERGED and isinstance(value, str):
                self._pieces.setdefault(name, []).append(value)
                self._fields[name] = value
            elif value is not None or first:
                self._fields[name] = value
                self._pieces.pop(name, None)

    def whole(self) -> dict[str, Any]:
        """Returns the joined detail."""
        return self._fields | {name: "".join(pieces) for name, pieces in self._pieces.items()}


class ChatReader(EventReader):
    """Reads one answer. The `ReplyReader` of this format."""

    def __init__(self, frame: ReplyContext, *, bills: bool = False) -> None:
        super().__init__(frame)
        self._bills = bills
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._echo = ""
        self._details: list[_Detail] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _Growing] = {}
        self._usage: dict[str, Any] | None = None
        self._in_messages = False
        self._tier = ""
        self._finish: str | None = None
        self._place: int | None = None
        """Index of the answer that is read."""

    def whole(self, body: bytes) -> Reply:
        """Reads an answer that was not streamed."""
        answer = self._decode(body)
        message = answer.choices[0].message if answer.choices else None
        if message is None:
            raise self._frame.empty("it holds no message", body)
        self._frame.speak(_text(message.content))
        self._take(message)
        self._finish = (answer.choices or [_Choice()])[0].finish_reason
        self._usage, self._tier = answer.usage, answer.service_tier or ""
        return self._reply()

    @property
    def complete(self) -> bool:
        """True if the reply is whole. The usage may still follow."""
        return self._ended or self._finish is not None

    def _decode(self, body: bytes) -> _Answer:
        answer = decode(self._frame, _ANSWER, body)
        if answer.error:
            raise reported_error(self._frame, answer.error)
        return answer

    def _event(self, data: bytes) -> None:
        answer = self._decode(data)
        self._tier = answer.service_tier or self._tier
        if answer.usage is not None:
            self._usage = answer.usage
        # The last event of a stream may hold only the usage (`include_usage`).
        choices = answer.choices or []
        if choices and self._place is None:
            self._place = choices[0].index or 0
        # Several answers arrive interleaved. The one that began first is read.
        choice = next((each for each in choices if (each.index or 0) == self._place), None)
        if choice is None:
            return
        self._finish = choice.finish_reason or self._finish
        piece = choice.delta
        if piece is None and (self._in_messages or not (self._text or self._calls)):
            # Some servers send `message` where a stream has `delta`. After deltas it repeats them.
            piece = choice.message
            self._in_messages = piece is not None
        if piece is not None:
            self._frame.speak(_text(piece.content))
            self._take(piece)

    def _take(self, message: _Message) -> None:
        if text := _text(message.content):
            self._text.append(text)
        # DeepSeek and others use `reasoning_content`, OpenRouter and vLLM `reasoning`. Each wants
        # its own field back.
        field, thought = "reasoning_content", message.reasoning_content
        if thought is None:
            field, thought = "reasoning", message.reasoning
        if thought is not None:
            self._thinking.append(thought)
            self._echo = self._echo or field
        for detail in message.reasoning_details or ():
            self._detail(detail)
        if message.refusal and isinstance(message.refusal, str):
            self._refusal.append(message.refusal)
        for call in message.tool_calls or ():
            if call.function is None and call.name:
                # As in the Responses format: name and arguments without a `function` around them.
                call.function = _Function(call.name, call.arguments)
            self._grow(call)
        if message.function_call and not message.tool_calls:
            # The predecessor of `tool_calls`, which some servers still send.
            self._grow(_Call(index=0, function=message.function_call))

    def _detail(self, detail: dict[str, Any]) -> None:
        """Adds a piece of a detail. All pieces of one have the same index and type, in sequence."""
        if self._details and self._details[-1].goes_on(detail):
            self._details[-1].add(detail)
        else:
            self._details.append(_Detail(detail))

    def _grow(self, call: _Call) -> None:
        index = call.index
        if index is None:
            # Without an index: a call with an id or a name is new, others continue the last call.
            new = bool(call.id or (call.function and call.function.name)) or not self._calls
            index = len(self._calls) if new else max(self._calls)
        elif index in self._calls and call.id and call.id != self._calls[index].id:
            index = max(self._calls) + 1  # whole calls that all have index 0
        if index not in self._calls:
            self._frame.check_calls(len(self._calls) + 1)
            self._calls[index] = _Growing()
        self._calls[index].add(call)

    def _reply(self) -> Reply:
        frame = self._frame
        parts: list[Part] = []
        thinking = "".join(self._thinking)
        if self._details:
            parts.append(
                OpaquePart(encode([detail.whole() for detail in self._details]).decode(), DETAILS)
            )
            # Thinking in the details is sent back only in them.
            self._echo = ""
        # Also if empty: DeepSeek wants the field back with every tool call.
        if thinking or self._echo:
            parts.append(ThinkingPart(thinking, self._echo))
        finish = finish_of(self._finish)
        text = "".join(self._text)
        if self._refusal:
            text, finish = text or "".join(self._refusal), "refusal"
        if text:
            parts.append(TextPart(text))
        parts += [
            frame.call(call.name, "".join(call.pieces), call.id, index, call.opaque)
            for index, call in sorted(self._calls.items())
        ]
        return self._billed(frame.reply(parts, self._count(), finish))

    def _count(self) -> Usage:
        usage = self._usage
        cached = count_of(usage, "prompt_tokens_details", "cached_tokens")
        return self._frame.usage(
            count_of(usage, "prompt_tokens"),
            count_of(usage, "completion_tokens"),
            cached or count_of(usage, "prompt_cache_hit_tokens"),  # DeepSeek's field
            count_of(usage, "prompt_tokens_details", "cache_write_tokens"),
            reasoning=count_of(usage, "completion_tokens_details", "reasoning_tokens"),
            tier=self._tier,
            total=count_of(usage, "total_tokens"),
        )

    def _billed(self, reply: Reply) -> Reply:
        """Returns the reply with the cost that the server reports.

        A user's own price takes precedence. OpenRouter's `cost` is its bill. On other servers the
        unit and the meaning are not documented, so the field counts only if it is higher than the
        table's price.
        """
        usage, known = self._usage or {}, reply.usage.usd
        charged, own_key = amount_of(usage, "cost"), usage.get("is_byok") is True
        if own_key:
            # With the user's own provider key, OpenRouter's `cost` is only its fee.
            paid = amount_of(usage, "cost_details", "upstream_inference_cost")
            charged = max(charged, 0.0) + max(paid, 0.0)
        if self._frame.has_own_price or not 0 < charged < _MOST_USD:
            return reply
        if known is not None and (not self._bills or own_key):
            charged = max(charged, known)
        return replace(reply, usage=msgspec.structs.replace(reply.usage, usd=charged))


# In the order of attempts. The index is the level.
_FORMATS: Final = ("json_schema", "json_object", "none")
_DROPPABLE: Final = (
    *("temperature", "top_p", "stop", "stream_options", "max_tokens", "tool_choice"),
    *("reasoning_effort", "service_tier", "cache_control"),
)
SKIP_SIGNATURE: Final = "skip_thought_signature_validator"
"""Google's value for a call that another model made."""
_VENDOR_FORMS: Final = {"openai": OPENAI_FORM, "anthropic": ANTHROPIC_FORM}
_SIGNED: Final = {"google": {"thought_signature": SKIP_SIGNATURE}}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The peculiarities of a server.

    Args:
        new_limit: Uses `max_completion_tokens` instead of `max_tokens`.
        format: The first of "json_schema", "json_object", "none" that it supports.
        signs_calls: Wants a signature on the first call of each reply (Gemini).
        stops_thinking: Fields that disable thinking.
        efforts: Accepts `reasoning_effort` also for a model with unknown levels.
        marks_cache: Caches a Claude's prompt only on request (OpenRouter).
        bills: Its `usage.cost` is documented as the dollars charged (OpenRouter).
        extra: Further fields of every request.
        ids: Rule for ids of calls.
        tools: Rules for a list of tools.
        form: Rules for an answer's schema. None = any bound that a grammar can express.
    """

    new_limit: bool = False
    format: str = "json_schema"
    signs_calls: bool = False
    stops_thinking: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    efforts: bool = True
    marks_cache: bool = False
    bills: bool = False
    extra: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    ids: IdRule = ANY_ID
    tools: ToolRules = ANY_TOOLS
    form: FormRules | None = OPENAI_FORM


class ChatModel(RemoteModel):
    """A model behind a chat-completions endpoint."""

    wire = "chat"

    def __init__(
        self, connection: Connection, rules: Abilities, dialect: Dialect = Dialect()
    ) -> None:
        super().__init__(connection)
        self._rules, self._dialect = rules, dialect
        # A Claude behind such a server has Anthropic's rules for properties.
        self.tool_rules = ANTHROPIC_TOOLS if rules.vendor == "anthropic" else dialect.tools
        # A local server may be a proxy to the vendor.
        self.form_rules = _VENDOR_FORMS.get(rules.vendor, dialect.form)
        level = _FORMATS.index(dialect.format) if self.profile.json_schema else 2
        self._level, self._without = level, frozenset[str]()

    def _version(self) -> Any:
        return self._level, self._without

    async def _ask(self, request: Request, speaker: Speaker | None) -> Reply:
        """Sends the request, and omits step by step what the server does not support."""
        first: ModelError | None = None
        # Restored if no attempt helps, because the cause was another one.
        learnt = self._level, self._without
        while True:
            try:
                return await super()._ask(request, speaker)
            except ModelError as error:
                first = first or error
                # Each round omits one more thing, so the loop ends after a few attempts.
                less = self._less(request, error)
                if less is None:
                    self._level, self._without = learnt
                    raise first from None
                self._level, self._without = less

    def _head(self, turn: ModelTurn, notes: list[str]) -> bytes:
        settings, dialect = turn.settings, self._dialect
        body: dict[str, Any] = {"model": self.connection.model, **dialect.extra}
        body |= self._thinking(settings.effort, notes)
        body |= present(
            {
                "tools": [_tool(tool) for tool in turn.wire.tools],
                # The offer stays the same, so that its bytes do. Only the permission to call
                # changes.
                "tool_choice": turn.wire.tools and turn.request.allowed == () and "none",
            }
        )
        if turn.form is not None and self._level < 2:
            body["response_format"] = _format(turn.form, self._level)
            # Servers other than OpenAI's use grammars, which also enforce what its strict mode
            # cannot.
            if self._rules.vendor == "openai":
                notes += filter(None, [self._not_enforced(turn)])
        # OpenAI's thinking models refuse the old name, also behind a proxy.
        newer = dialect.new_limit or (self._rules.vendor == "openai" and bool(self._rules.thinking))
        # `max_tokens` in the omitted fields means: use the other of the two names.
        new = newer != ("max_tokens" in self._without)
        body |= sampling(settings)
        body |= present(
            {
                "stop": turn.request.stop,
                "service_tier": settings.service_tier,
                "max_completion_tokens" if new else "max_tokens": settings.max_tokens,
                "cache_control": self._marks_cache(settings) and cache_mark(settings),
                "stream": turn.streaming,
                "stream_options": turn.streaming and {"include_usage": True},
            }
        )
        accepted = {
            name: value
            for name, value in body.items()
            if name not in self._without or name == "max_tokens"
        }
        return encode({**accepted, **settings.extra})[:-1] + b',"messages":['

    def _marks_cache(self, settings: ModelSettings) -> bool:
        claude = self._dialect.marks_cache and self._rules.vendor == "anthropic"
        return claude and settings.prompt_cache != "off"

    def _thinking(self, effort: Effort | None, notes: list[str]) -> dict[str, Any]:
        if effort is None:
            return {}
        off = self._dialect.stops_thinking
        if effort == "none" and off and self._rules.thinking != "always":
            return dict(off)
        if not self._dialect.efforts and not self._rules.efforts:
            effort_at_most(effort, (), notes, self.name)
            return {}
        levels = self._rules.efforts
        if self._rules.vendor and not levels and not self._rules.thinking:
            effort_at_most(effort, (), notes, self.name)
            return {}
        # For an unknown server the level is sent. It reports if it does not support it.
        taken = effort_at_most(effort, levels, notes, self.name) if levels else effort
        return {"reasoning_effort": taken}

    def _messages(self, turn: ModelTurn) -> Sequence[bytes]:
        conversation, native = turn.request.conversation, self.profile.native_tools
        behind = self._behind(conversation, len(conversation)) if native else ()
        ending = more_entries(behind, turn.request.blobs)
        return [*self._written(turn), *ending, b"]}"]

    def _reader(self, frame: ReplyContext) -> ChatReader:
        return ChatReader(frame, bills=self._dialect.bills)

    def _native(self, conversation: Conversation, index: int, wire: WireTools) -> bytes:
        """Returns a message for a model with native tools, after missing results of the batch."""
        message = conversation[index]
        if follows_its_call(conversation, index):
            return b",".join([self._result(result.id, result.text) for result in message.results])
        entry = encode(self._entry(conversation, index, wire))
        behind = self._behind(conversation, index)
        return b",".join([*behind, entry]) if behind else entry

    def _behind(self, conversation: Conversation, end: int) -> list[bytes]:
        """Returns the missing results of the batch before `end`, and the media of all its results.

        Media go into a user's message, because a result holds only text here.
        """
        before = batch(conversation, end)
        written = [self._result(call.id, NO_RESULT) for call in before.open_calls]
        media = [part for part in before.media if self._takes(part)]
        if media:
            content = self._content((TextPart("What the tools returned:"), *media))
            written.append(encode({"role": "user", "content": content}))
        return written

    def _takes(self, part: MediaPart) -> bool:
        return self.profile.inputs is None or part.kind in self.profile.inputs

    def _plain(self, conversation: Conversation, index: int) -> bytes:
        """Returns a message for a model without native tools."""
        message = conversation[index]
        role = "user" if message.role == "tool" else message.role
        entry = {"role": role, "content": self._content(as_text(message))}
        if role == "assistant":
            entry |= self._echo(content_for(conversation, index, self.issuer))
        return encode(entry)

    def _entry(self, conversation: Conversation, index: int, wire: WireTools) -> dict[str, Any]:
        message = conversation[index]
        if message.role != "assistant":
            role = "user" if message.role == "tool" else message.role
            return {"role": role, "content": self._content(message.content)}
        content = content_for(conversation, index, self.issuer)
        calls = message.calls
        # null beside calls, as in OpenAI's own replies, but never null alone.
        text = message.text or (None if calls else "")
        entry: dict[str, Any] = {"role": "assistant", "content": text}
        entry |= self._echo(content)
        if calls:
            bound = [part for part in parts_of(content) if isinstance(part, ToolCall)]
            entry["tool_calls"] = [
                self._call(call, wire, first=number == 0) for number, call in enumerate(bound)
            ]
            if self._rules.echo and not self._dialect.signs_calls:
                # Also for another model's turn: DeepSeek refuses a call without the field.
                entry.setdefault(self._rules.echo, "")
        return entry

    def _echo(self, content: Content) -> dict[str, Any]:
        """Returns the fields that the server wants back besides text and calls."""
        fields_of: dict[str, Any] = {}
        for part in parts_of(content):
            match part:
                case ThinkingPart() if part.echo:
                    fields_of[part.echo] = fields_of.get(part.echo, "") + part.text
                case _ if getattr(part, "kind", "") == DETAILS:
                    fields_of[DETAILS] = raw(part.data)  # type: ignore[union-attr]
                case _:
                    pass
        return fields_of

    def _call(self, call: ToolCall, wire: WireTools, *, first: bool) -> dict[str, Any]:
        function = {
            "name": wire.name(call.name),
            "arguments": encode(wire.arguments(call.name, arguments_of(call))).decode(),
        }
        call_id = self._dialect.ids.apply(call.id)
        entry: dict[str, Any] = {"id": call_id, "type": "function", "function": function}
        if call.opaque:
            entry["extra_content"] = raw(call.opaque)
        elif first and self._dialect.signs_calls:
            entry["extra_content"] = _SIGNED
        return entry

    def _result(self, call_id: str, content: str) -> bytes:
        sent = self._dialect.ids.apply(call_id)
        return encode({"role": "tool", "tool_call_id": sent, "content": content})

    def _content(self, content: Content) -> Any:
        """Returns text unchanged, and text with media as parts."""
        if isinstance(content, str):
            return content
        return text_or_blocks(content, self.profile.inputs, _block)

    def _droppable(self, request: Request) -> list[str]:
        """Returns the parameters of the request that may be omitted."""
        settings = request.asked(self.connection.settings)
        sent = {
            "temperature": settings.temperature is not None,
            "top_p": settings.top_p is not None,
            "stop": bool(request.stop),
            "stream_options": True,
            "max_tokens": bool(settings.max_tokens),
            "tool_choice": request.allowed is not None,
            "reasoning_effort": settings.effort is not None,
            "service_tier": bool(settings.service_tier),
            "cache_control": self._marks_cache(settings),
        }
        return [name for name in _DROPPABLE if sent[name]]

    def _less(self, request: Request, error: ModelError) -> tuple[int, frozenset[str]] | None:
        """Returns the next level and omissions to try, or None."""
        level, without = self._level, self._without
        shaped = request.schema is not None and level < 2 and self.profile.json_schema
        if error.kind == "request" and error.status in (400, 422):
            # Servers have no common code for an unknown parameter, so the error text is searched.
            reason = str(error).lower().replace("max_completion_tokens", "max_tokens")
            for name in self._droppable(request):
                if name not in without and name in reason:
                    return level, without | {name}
        # Some servers answer 500 to an unknown response format.
        if shaped and error.kind in ("request", "server") and error.status >= 400:
            return level + 1, without
        return None


def _block(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text} if part.text else None
        case MediaPart(kind="image"):
            image = {"url": data_url(part)} | ({"detail": part.detail} if part.detail else {})
            return {"type": "image_url", "image_url": image}
        case MediaPart(kind="audio"):
            # `audio/mpeg` is "mp3" here, `audio/x-wav` is "wav".
            form = part.media_type.rpartition("/")[2].replace("mpeg", "mp3").removeprefix("x-")
            return {"type": "input_audio", "input_audio": {"data": blob(part), "format": form}}
        case MediaPart():
            name = part.name or f"file.{part.media_type.rpartition('/')[2]}"
            return {"type": "file", "file": {"filename": name, "file_data": data_url(part)}}
        case _:
            return None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _format(form: AnswerForm, level: int) -> dict[str, Any]:
    schema = form.schema
    if _FORMATS[level] == "json_object":
        # llama.cpp and Together enforce `schema` here. Others ignore it, and the reply is checked
        # anyway.
        return {"type": "json_object", "schema": schema}
    named = {"name": "output", "strict": not form.reason and is_strict(schema), "schema": schema}
    return {"type": "json_schema", "json_schema": named}


def is_strict(schema: JSON) -> bool:
    """Returns True if all objects of `schema` are closed and require every property (OpenAI)."""
    if is_sequence(schema):
        return all(is_strict(item) for item in schema)
    if not is_object(schema):
        return True
    if "properties" in schema or schema.get("type") == "object":
        keys = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(keys):
            return False
    return all(is_strict(item) for item in schema.values())

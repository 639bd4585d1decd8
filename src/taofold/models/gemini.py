"""Google's generateContent, on the Gemini API and on Vertex AI.

From Gemini 3 on the first call of each step has a signature that must come back with it. A streamed
signature in a part with empty text stays such a part. A call of another model gets the value that
Google documents for it.
"""

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from typing_extensions import Unpack

from taofold.core.content import (
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
from taofold.core.json_values import is_object
from taofold.core.values import Effort, Message, Reply, Usage
from taofold.models.capabilities import Abilities, rules_for
from taofold.models.chat_completions import SKIP_SIGNATURE
from taofold.models.decoding import arguments_text, spelling_of
from taofold.models.encoding import (
    NO_RESULT,
    acceptable_parts,
    arguments_of,
    as_text,
    batch,
    blob,
    content_for,
    encode,
    flat,
    follows_its_call,
    leading,
    open_role,
    pending,
    pieces,
    present,
    raw,
    sampling,
    system_texts,
)
from taofold.models.endpoint import ReplyReader
from taofold.models.remote import (
    Connection,
    ModelOptions,
    ModelTurn,
    RemoteModel,
    check_choice,
    connection,
    effort_at_most,
    endpoint,
    key_for,
)
from taofold.models.replies import EventReader, ReplyContext, count_of, decode, reported_error
from taofold.models.transport import same_server
from taofold.models.wire_names import WireTools
from taofold.models.wire_schema import GEMINI_FORM
from taofold.runtime.model import ToolSpec

_URL: Final = "https://generativelanguage.googleapis.com"
_KEY: Final = "GEMINI_API_KEY"
_SIGNATURE: Final = "thoughtSignature"
_SKIP: Final = b64encode(SKIP_SIGNATURE.encode()).decode()
_INLINE_LIMIT: Final = 20 << 20
"""Maximum bytes of media inside a request."""
_BUDGETS: Final[Mapping[Effort, int]] = {
    "none": 0,
    "minimal": 512,
    "low": 2_048,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
"""Thinking tokens for models that take a budget instead of a level."""
_FINISH: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "PROHIBITED_CONTENT": "refusal",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
    "TOO_MANY_TOOL_CALLS": "malformed",
    "CONTINUATION": "pause",
    "FINISH_REASON_UNSPECIFIED": "",
}


class GeminiModel(RemoteModel):
    """A model behind generateContent. `call_ids`: the format has ids of calls."""

    wire = "gemini"
    form_rules = GEMINI_FORM

    def __init__(self, connection: Connection, rules: Abilities, *, call_ids: bool = True) -> None:
        super().__init__(connection)
        self._rules, self._call_ids = rules, call_ids

    def _url(self, turn: ModelTurn) -> str:
        verb = "streamGenerateContent?alt=sse" if turn.streaming else "generateContent"
        return f"{self.connection.endpoint.url}:{verb}"

    def _head(self, turn: ModelTurn, notes: list[str]) -> bytes:
        settings = turn.settings
        config = present({"maxOutputTokens": settings.max_tokens})
        config |= sampling(settings, "topP") | present({"stopSequences": turn.request.stop})
        # Before Gemini 3 a schema and tools exclude each other. The reply is checked anyway.
        if turn.form is not None and (self._rules.signed or not turn.wire.tools):
            config |= {"responseMimeType": "application/json"}
            if not turn.form.reason:
                config |= {"responseJsonSchema": turn.form.schema}
            notes += filter(None, [self._not_enforced(turn)])
        config |= present({"thinkingConfig": self._thinking(settings.effort, notes)})
        body = {"generationConfig": config} | present(
            {
                "tools": turn.wire.tools
                and [{"functionDeclarations": list(map(_tool, turn.wire.tools))}],
                "toolConfig": turn.wire.tools and _choice(turn),
                "serviceTier": settings.service_tier,
            }
        )
        return encode({**body, **settings.extra})[:-1]

    def _thinking(self, effort: Effort | None, notes: list[str]) -> dict[str, Any]:
        rules = self._rules
        if rules.thinking in ("", "off"):
            effort_at_most(effort, (), notes, self.name)
            return {}
        config = {"includeThoughts": True}
        if rules.budget:
            if effort == "none" and not rules.off:
                notes.append(f"effort 'none' is not sent: {self.name} always thinks")
                return config
            return config if effort is None else {**config, "thinkingBudget": _BUDGETS[effort]}
        level = effort_at_most(effort, rules.efforts, notes, self.name)
        return config if level is None else {**config, "thinkingLevel": level.upper()}

    def _messages(self, turn: ModelTurn) -> Sequence[bytes]:
        conversation, blobs = turn.request.conversation, turn.request.blobs
        written = self._written(turn, b"")
        if not written:
            raise ModelError("a conversation needs a message besides the system's", kind="request")
        ending: list[bytes] = []
        native = self.profile.native_tools
        behind = self._behind(conversation, len(conversation), turn.wire) if native else []
        if behind:
            more = pieces(_join(behind, "user", open_role(conversation, len(conversation))), blobs)
            ending = [more] if isinstance(more, bytes) else list(more)
        parts = [{"text": text} for text in system_texts(conversation)]
        system = b',"systemInstruction":' + encode({"parts": parts}) if parts else b""
        media = sum([part.size for part in conversation.media if part.digest])
        if media > _INLINE_LIMIT:
            raise ModelError(
                f"the media of this conversation have {media / 1e6:.1f} MB, {self.name} takes "
                f"{_INLINE_LIMIT / 1e6:.0f} MB in a request: give an address (url), or less",
                kind="request",
            )
        return [system + b',"contents":[', *written, *ending, b"]}]}"]

    def _native(self, conversation: Conversation, index: int, wire: WireTools) -> bytes:
        message = conversation[index]
        if follows_its_call(conversation, index):
            return _piece(conversation, index, [self._result(conversation, index, wire)])
        behind = self._behind(conversation, index, wire) if index else []
        parts = (
            self._model_turn(conversation, index, wire)
            if message.role == "assistant"
            else self._visible_content(message.parts)
        )
        if not behind:
            return _piece(conversation, index, parts)
        between = _join(behind, "user", open_role(conversation, index))
        return between + _content_border(parts, message.role)

    def _plain(self, conversation: Conversation, index: int) -> bytes:
        message = conversation[index]
        if message.role == "assistant" and not message.calls:
            return _piece(conversation, index, self._model_turn(conversation, index, WireTools()))
        return _piece(conversation, index, self._visible_content(parts_of(as_text(message))))

    def _behind(self, conversation: Conversation, end: int, wire: WireTools) -> list[Any]:
        """Returns missing results of the batch before `end`, and media that results cannot hold."""
        before = batch(conversation, end)
        missing = [
            self._response(wire.name(call.name), call.id, {"output": NO_RESULT})
            for call in before.open_calls
        ]
        if self._rules.media_results or not before.media:
            return missing
        return [*missing, *self._visible_content(before.media)]

    def _model_turn(self, conversation: Conversation, index: int, wire: WireTools) -> list[Any]:
        """Returns the model's parts in their original order."""
        contents: list[Any] = []
        # Only the first call of a step has a signature. Before Gemini 3 none has.
        signed = not self._rules.signed
        for part in parts_of(content_for(conversation, index, self.issuer)):
            match part:
                case OpaquePart():
                    contents.append(raw(part.data))
                case TextPart() if part.text or part.opaque:
                    contents.append({"text": part.text, **_fields(part.opaque)})
                case ToolCall():
                    call: dict[str, Any] = {
                        "name": wire.name(part.name),
                        "args": wire.arguments(part.name, arguments_of(part)),
                    }
                    if part.id and self._call_ids:
                        call["id"] = part.id
                    fields = _fields(part.opaque)
                    if not signed and _SIGNATURE not in fields:
                        fields = {**fields, _SIGNATURE: _SKIP}
                    signed = True
                    contents.append({"functionCall": call, **fields})
                case _:
                    pass
        return contents or [{"text": "(empty)"}]

    def _result(self, conversation: Conversation, index: int, wire: WireTools) -> dict[str, Any]:
        result = conversation[index].results[0]
        # A response names its function, so the call is looked up by its id.
        calls = {call.id: call.name for call in pending(conversation, index)}
        word = "error" if result.error else "output"
        parts = self._response(wire.name(calls[result.id]), result.id, {word: result.text})
        if self._rules.media_results and not isinstance(result.content, str):
            media = [part for part in result.content if isinstance(part, MediaPart)]
            pictures = self._visible_content(media)
            encoded = [picture for picture in pictures if {"inlineData", "fileData"} & {*picture}]
            if encoded:
                parts["functionResponse"]["parts"] = encoded
        return parts

    def _response(self, name: str, call_id: str, response: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"name": name, "response": response}
        if call_id and self._call_ids:
            body["id"] = call_id
        return {"functionResponse": body}

    def _visible_content(self, parts: Sequence[Part]) -> list[Any]:
        taken = acceptable_parts(flat(parts), self.profile.inputs)
        blocks = [block for block in map(_block, taken) if block is not None]
        return blocks or [{"text": "(empty)"}]

    def _reader(self, frame: ReplyContext) -> ReplyReader:
        return GeminiReader(frame)


def _fields(opaque: str) -> dict[str, Any]:
    wire_part: dict[str, Any] = msgspec.json.decode(opaque) if opaque else {}
    return wire_part


def _block(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"text": part.text} if part.text else None
        case MediaPart() if part.url:
            return {"fileData": {"fileUri": part.url, "mimeType": part.media_type}}
        case MediaPart():
            return {"inlineData": {"mimeType": part.media_type, "data": blob(part)}}
        case _:
            return None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": tool.parameters,
    }


def _choice(turn: ModelTurn) -> dict[str, Any] | None:
    """Returns a restriction of the callable tools that leaves the offer unchanged."""
    if turn.request.allowed is None:
        return None
    names = turn.wire.allowed(turn.request.allowed)
    if not names:
        return {"functionCallingConfig": {"mode": "NONE"}}
    # VALIDATED restricts calls without requiring one. ANY would require one.
    return {"functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": names}}


def _join(parts: Sequence[Any], role: str, before: str) -> bytes:
    """Returns parts of `role` after contents of role `before` ("" = none)."""
    if role == before:
        return b"," + encode(parts)[1:-1]
    if before:
        return _content_border(parts, role)
    # Without the `]},` that would end a content before it.
    opened = _content_border(parts, role)[3:]
    # A call must follow a user's message.
    first = b'{"role":"user","parts":[{"text":"(start)"}]},'
    return first + opened if role == "assistant" else opened


def _content_border(parts: Sequence[Any], role: str) -> bytes:
    """Returns the end of one content and the start of another. An assistant is a model here."""
    name = b"model" if role == "assistant" else b"user"
    return b']},{"role":"%b","parts":[%b' % (name, encode(parts)[1:-1])


def _piece(messages: Sequence[Message], index: int, parts: Sequence[Any]) -> bytes:
    message = messages[index]
    if message.role == "system" and leading(messages, index):
        return b""
    role = "assistant" if message.role == "assistant" else "user"
    before = open_role(messages, index)
    # A user's message is a separate turn and must not mix with function responses.
    if role == before == "user" and message.role != "tool" and messages[index - 1].role == "tool":
        return _content_border(parts, "user")
    return _join(parts, role, before)


def connect(model: str, **options: Unpack[ModelOptions]) -> GeminiModel:
    """Connects to `model` on the Gemini API.

    Raises:
        ConfigError: The key or the model is missing, or an option is unknown.
    """
    check_choice("gemini", model, options)
    base, api_key = options.get("base_url"), options.get("api_key")
    url = (base or os.environ.get("GEMINI_BASE_URL") or _URL).rstrip("/")
    url = url if url.rpartition("/")[2].startswith("v1") else f"{url}/v1beta"
    elsewhere = base is not None and not same_server(base, _URL)
    key = "" if elsewhere and not api_key else key_for("gemini", _KEY, api_key)
    headers = {"x-goog-api-key": key} if key else {}
    rules = rules_for("gemini", model)
    at = endpoint(f"{url}/models/{model}", headers, key, options)
    return GeminiModel(connection("gemini", model, at, options, server=url, rules=rules), rules)


class _Content(msgspec.Struct):
    parts: list[dict[str, Any]] | None = None


class _Candidate(msgspec.Struct):
    content: _Content | None = None
    finishReason: str | None = None  # noqa: N815 - Google's name
    finishMessage: str | None = None  # noqa: N815


class _Feedback(msgspec.Struct):
    blockReason: str | None = None  # noqa: N815


class _Answer(msgspec.Struct):
    candidates: list[_Candidate] | None = None
    promptFeedback: _Feedback | None = None  # noqa: N815
    usageMetadata: dict[str, Any] | None = None  # noqa: N815
    error: Any = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)


class GeminiReader(EventReader):
    """Reads one answer. The `ReplyReader` of this format."""

    def __init__(self, frame: ReplyContext) -> None:
        super().__init__(frame)
        self._parts: list[Part] = []
        self._more: list[str] = []
        """Further pieces of the last part."""
        self._usage: dict[str, Any] | None = None
        self._finish: str | None = None
        self._notes: list[str] = []

    def whole(self, body: bytes) -> Reply:
        """Reads an answer that was not streamed."""
        self._event(body)
        if self._finish is None and not self._parts:
            raise self._frame.empty("it holds no candidate", body)
        return self._reply()

    @property
    def complete(self) -> bool:
        """True if the finish reason has arrived. A signature may still follow."""
        return self._finish is not None

    def _event(self, data: bytes) -> None:
        answer = decode(self._frame, _ANSWER, data)
        if answer.error:
            raise reported_error(self._frame, answer.error)
        self._usage = answer.usageMetadata or self._usage
        blocked = answer.promptFeedback.blockReason if answer.promptFeedback else None
        if blocked and not answer.candidates:
            # A blocked prompt has no candidates, and so no finish reason.
            self._finish = "PROHIBITED_CONTENT"
            self._notes.append(f"refused: the prompt was blocked ({blocked})")
        for candidate in (answer.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                self._take(part)
            self._finish = candidate.finishReason or self._finish
            if candidate.finishMessage:
                self._notes.append(candidate.finishMessage)

    def _take(self, part: dict[str, Any]) -> None:
        opaque = {_SIGNATURE: part[_SIGNATURE]} if part.get(_SIGNATURE) else {}
        bound = encode(opaque).decode() if opaque else ""
        call: Any = part.get("functionCall")
        if is_object(call):
            arguments = arguments_text(call.get("args")) or "{}"
            name, call_id = str(call.get("name") or ""), str(call.get("id") or "")
            position = len(self._parts)
            self._add(self._frame.call(name, arguments, call_id, position, bound))
        elif isinstance(part.get("text"), str | int | float):
            self._text(spelling_of(part["text"]), part.get("thought") in (True, "true"), bound)
        else:
            kind = next((name for name in part if name not in (_SIGNATURE, "thought")), "part")
            self._add(OpaquePart(encode(part).decode(), kind))

    def _text(self, text: str, thought: bool, opaque: str) -> None:
        last = self._parts[-1] if self._parts else None
        if thought:
            if isinstance(last, ThinkingPart):
                self._more.append(text)
            elif text:
                self._add(ThinkingPart(text))
            return
        self._frame.speak(text)
        # Pieces of a stream are one text. A signed part is never joined with another.
        if isinstance(last, TextPart) and not last.opaque and not opaque:
            self._more.append(text)
        elif text or opaque:
            self._add(TextPart(text, opaque=opaque))

    def _add(self, part: Part) -> None:
        self._join()
        self._parts.append(part)

    def _join(self) -> None:
        """Joins later pieces to the last part, once, because there may be very many."""
        last = self._parts[-1] if self._parts else None
        if self._more and isinstance(last, TextPart | ThinkingPart):
            self._parts[-1] = msgspec.structs.replace(last, text="".join((last.text, *self._more)))
        self._more = []

    def _reply(self) -> Reply:
        self._join()
        # Google names other endings after the problem: OTHER, MALFORMED_RESPONSE, …
        finish = _FINISH.get(self._finish, "error") if self._finish else ""
        calls = any([isinstance(part, ToolCall) for part in self._parts])
        # Google reports STOP for calls too.
        if calls and finish in ("stop", ""):
            finish = "tool_calls"
        return self._frame.reply(self._parts, self._count(), finish, self._notes)

    def _count(self) -> Usage:
        usage = self._usage
        thoughts = count_of(usage, "thoughtsTokenCount")
        return self._frame.usage(
            count_of(usage, "promptTokenCount") + count_of(usage, "toolUsePromptTokenCount"),
            # Google counts thoughts separately. Both are billed as output.
            count_of(usage, "candidatesTokenCount") + thoughts,
            count_of(usage, "cachedContentTokenCount"),
            reasoning=thoughts,
            total=count_of(usage, "totalTokenCount"),
        )

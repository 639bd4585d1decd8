"""Reads earlier conversations in the formats of the SDKs.

Accepts `Message`s, pairs of role and text, and the formats that OpenAI's and Anthropic's SDKs take
and return: chat messages, items of the Responses API, and messages with content blocks. Both
dictionaries and the SDKs' own objects are accepted. Parts of unknown types become readable text, so
the history of a newer SDK is never refused. Reasoning is dropped, because only its issuer can read
it. `taofold.agent.conversation` writes the same formats.

Example:
    ```python
    await agent.run("And in winter?", history=[
        {"role": "user", "content": "How long is the night in Oslo?"},
        ("assistant", "In June about five hours."),
    ])
    ```
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast, get_args

from taofold.core.content import (
    MediaPart,
    Message,
    Part,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
    content_of,
)
from taofold.core.errors import ConfigError
from taofold.core.json_values import render
from taofold.core.text import clip, utf8
from taofold.tools.attachments import Attachment, Audio, Document, Image, showing


class Dumpable(Protocol):
    """An SDK's object with Pydantic's `model_dump`."""

    def model_dump(self) -> Any:
        """Returns its fields."""
        ...


Earlier: TypeAlias = Message | Mapping[str, Any] | tuple[str, str] | Dumpable
"""One message of an earlier conversation."""

_ROLES: Final[Mapping[str, Role]] = {
    **{role: role for role in cast("tuple[Role, ...]", get_args(Role))},
    "developer": "system",
    "function": "tool",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
}
_REASONING: Final = frozenset({"reasoning", "thinking", "redacted_thinking", "compaction"})
"""Types of parts that are dropped: only their issuer can read them."""
_SHOWN: Final = 1_000
"""Maximum characters of an unknown part that is shown as text."""


class History:
    """The messages of a history, and the bytes of their media by digest.

    Args:
        history: Messages in any of the known formats.

    Raises:
        ConfigError: A message has an unknown format, a result answers no call, or a call has no
            result.
    """

    def __init__(self, history: Iterable[Earlier]) -> None:
        self.blobs: dict[str, bytes] = {}
        self.messages: list[Message] = []
        self._open: set[str] = set()
        self._late: list[Message] = []
        """Messages that came between a call and its result."""
        self._at = ""
        for number, earlier in enumerate(history):
            self._at = f"history[{number}]"
            # Items of the Responses API have a type, chat messages have none.
            item = _mapping(earlier).get("type") is not None
            for message in self._messages(earlier):
                self._take(message, item=item)
        if self._open:
            raise self._fault(f"no result follows the call {min(self._open)!r}")

    def _messages(self, earlier: Any) -> Sequence[Message]:
        if isinstance(earlier, Message):
            return [earlier]
        if isinstance(earlier, tuple | list):
            pair = cast("Sequence[Any]", earlier)
            if len(pair) != 2:
                raise self._fault(f"a pair is a role and a text, not {len(pair)} values")
            return [Message(self._role(pair[0]), content_of(self._parts(pair[1])))]

        mapping = _mapping(earlier)
        if not mapping:
            raise self._fault(
                "a message is a Message, a pair of role and text, a dictionary with role and "
                f"content, or an object of an SDK, not {type(earlier).__name__}"
            )
        if "role" not in mapping:
            # A whole response contains its messages.
            for key in ("choices", "output"):
                inner = mapping.get(key)
                if isinstance(inner, list) and mapping.get("type") is None:
                    return self._response(cast("list[Any]", inner))
            if isinstance(mapping.get("type"), str):
                return self._item(mapping)

        role = self._role(mapping.get("role"))
        if role == "tool":
            return [Message("tool", (self._result(mapping, _answered(mapping)),))]
        parts = self._parts(mapping.get("content")) or self._spoken(mapping)
        parts += [self._call(call) for call in mapping.get("tool_calls") or ()]
        if legacy := _mapping(mapping.get("function_call")):
            # `function_call` is the predecessor of `tool_calls`. Its result names the function.
            parts.append(self._call({**legacy, "id": f"function:{legacy.get('name')}"}))
        # Anthropic puts all results in one user message. A `Message` holds one result.
        results = [Message("tool", (part,)) for part in parts if isinstance(part, ToolResult)]
        rest = [part for part in parts if not isinstance(part, ToolResult)]
        return [*results, Message(role, content_of(rest))]

    def _response(self, entries: list[Any]) -> Sequence[Message]:
        """Returns the messages of an OpenAI response: its first choice, or all its output items."""
        messages: list[Message] = []
        for entry in entries:
            mapping = _mapping(entry)
            if "message" in mapping:
                return self._messages(mapping["message"])
            messages += self._messages(entry)
        return _joined(messages)

    def _item(self, item: Mapping[str, Any]) -> Sequence[Message]:
        """Returns the messages of a Responses API item that is not a message."""
        match str(item["type"]):
            case "function_call" | "custom_tool_call":
                return [Message("assistant", (self._call(item),))]
            case "function_call_output" | "custom_tool_call_output":
                return [Message("tool", (self._result(item, item.get("call_id")),))]
            case kind if kind in _REASONING:
                return []
            case _:
                return [Message("assistant", (TextPart(_readable(item)),))]

    def _spoken(self, mapping: Mapping[str, Any]) -> list[Part]:
        """Returns the parts of a chat message that are outside its content: refusal and audio."""
        if isinstance(mapping.get("refusal"), str):
            return self._parts(mapping["refusal"])
        audio = _mapping(mapping.get("audio"))
        if audio:
            return [TextPart(str(audio.get("transcript") or _readable({**audio, "type": "audio"})))]
        return []

    def _role(self, role: Any) -> Role:
        if role not in _ROLES:
            raise self._fault(f"the role is {', '.join(_ROLES)}, not {role!r}")
        return _ROLES[role]

    def _parts(self, content: Any) -> list[Part]:
        if content is None or content == "":
            return []
        if isinstance(content, str):
            return [TextPart(content)]
        if not isinstance(content, list | tuple):
            raise self._fault(
                f"the content is text or a list of parts, not {type(content).__name__}"
            )
        parts: list[Part] = []
        for part in cast("Sequence[Any]", content):
            parts += self._part(part)
        return parts

    def _part(self, part: Any) -> Sequence[Part]:
        if isinstance(part, str):
            return [TextPart(part)]
        if isinstance(part, Part):
            return [part]
        if isinstance(part, Attachment):
            return self._attach(part)
        mapping = _mapping(part)
        kind = mapping.get("type")
        if kind in _REASONING:
            return []
        match kind:
            case "text" | "input_text" | "output_text":
                return self._parts(str(mapping.get("text") or ""))
            case "refusal":
                return self._parts(str(mapping.get("refusal") or ""))
            case "image_url" | "input_image" if mapping.get("image_url"):
                return self._attach(self._at_url(mapping["image_url"]))
            case "image" | "document":
                return self._sourced(mapping)
            case "input_audio" if _mapping(mapping.get("input_audio")).get("data"):
                audio = _mapping(mapping["input_audio"])
                return self._attach(self._decode(Audio, "", audio["data"]))
            case "file" | "input_file":
                return self._file(_mapping(mapping.get("file", mapping)), mapping)
            case "tool_use":
                arguments = render(_plain(mapping.get("input") or {}))
                return [
                    ToolCall(str(mapping.get("name", "")), arguments, str(mapping.get("id", "")))
                ]
            case "tool_result":
                return [self._result(mapping, mapping.get("tool_use_id"))]
            case _:
                return [TextPart(_readable(mapping))]

    def _sourced(self, mapping: Mapping[str, Any]) -> Sequence[Part]:
        """Returns Anthropic's images and documents as parts."""
        source = _mapping(mapping.get("source"))
        name = str(mapping.get("title") or "")
        kind = Image if mapping.get("type") == "image" else Document
        match source.get("type"):
            case "url":
                return self._attach(kind(url=str(source.get("url")), name=name))
            case "text":
                head = f"[file {name}]\n" if name else ""
                return [TextPart(f"{head}{source.get('data', '')}")]
            case "content":
                return self._parts(source.get("content"))
            case "base64" | None if "data" in source:
                media_type = str(source.get("media_type") or "")
                return self._attach(self._decode(kind, media_type, source["data"], name))
            case _:
                return [TextPart(_readable(mapping))]

    def _file(self, file: Mapping[str, Any], mapping: Mapping[str, Any]) -> Sequence[Part]:
        """Returns OpenAI's files as parts: bytes, an address, or an id that OpenAI can resolve."""
        name = str(file.get("filename") or "")
        if file.get("file_url"):
            return self._attach(Document(url=str(file["file_url"]), name=name))
        data = file.get("file_data")
        if not isinstance(data, str):
            return [TextPart(_readable(mapping))]
        # The type comes from the bytes: a file may be an image.
        return self._attach(self._decode(Attachment, "", data.rpartition(";base64,")[2], name))

    def _call(self, call: Any) -> ToolCall:
        mapping = _mapping(call)
        function = _mapping(mapping.get("function") or mapping.get("custom") or mapping)
        # OpenAI has the arguments as JSON text, others as an object. They are stored as text.
        name, arguments = function.get("name"), function.get("arguments", "{}")
        if "arguments" not in function and "input" in function:
            arguments = {"input": function["input"]}  # a custom tool takes text
        if not isinstance(name, str) or not name:
            raise self._fault("a tool call has no name")
        identity = mapping.get("call_id") or mapping.get("id", "")
        return ToolCall(name, render(_plain(arguments)), str(identity))

    def _result(self, mapping: Mapping[str, Any], call: Any) -> ToolResult:
        if not isinstance(call, str) or not call:
            raise self._fault("a result names its call: tool_call_id")
        parts = self._parts(mapping.get("content", mapping.get("output")))
        content = [part for part in parts if isinstance(part, TextPart | MediaPart)]
        if len(content) < len(parts):
            raise self._fault("a result holds text and media, no calls and no other results")
        media = any([isinstance(part, MediaPart) for part in content])
        text = "".join([part.text for part in content if isinstance(part, TextPart)])
        return ToolResult(call, tuple(content) if media else text, bool(mapping.get("is_error")))

    def _at_url(self, source: Any) -> Attachment:
        url = source if isinstance(source, str) else _mapping(source).get("url")
        if not isinstance(url, str):
            raise self._fault("an image has an address")
        if not url.startswith("data:"):
            return Image(url=url)
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        return self._decode(Image, media_type, data)

    def _decode(
        self, kind: type[Attachment], media_type: str, data: Any, name: str = ""
    ) -> Attachment:
        try:
            return kind(
                data=base64.b64decode(data, validate=True), media_type=media_type, name=name
            )
        except (binascii.Error, TypeError, ValueError) as error:
            what = (kind.kind or "file").replace("image", "an image", 1)
            raise self._fault(f"the bytes of {what} are not base64") from error

    def _attach(self, attachment: Attachment) -> Sequence[Part]:
        loaded = showing([attachment])
        self.blobs |= loaded.blobs
        return loaded.parts

    def _take(self, message: Message, *, item: bool) -> None:
        """Appends a message. Raises for a call without a result, or a result without its call.

        Providers refuse both.
        """
        for result in message.results:
            if result.id not in self._open:
                raise self._fault(f"no call {result.id!r} comes before this result")
            self._open.remove(result.id)
        last = self.messages[-1] if self.messages else None
        if item and message.role == "assistant" and last is not None and last.role == "assistant":
            # The Responses API has a separate item for each call of a turn.
            self.messages[-1] = Message("assistant", content_of([*last.parts, *message.parts]))
        elif self._open and message.role != "tool":
            if not item or message.calls:
                raise self._fault(f"no result follows the call {min(self._open)!r}")
            self._late.append(message)
        elif message.content:
            # A user message with only results is empty here: the results were taken separately.
            self.messages.append(message)
        self._open |= {call.id for call in message.calls}
        if not self._open:
            self.messages += self._late
            self._late.clear()

    def _fault(self, what: str) -> ConfigError:
        return ConfigError(what, path=self._at)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Returns a dictionary, or an SDK's object as one. Empty for other values."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    dump = getattr(value, "model_dump", None)
    dumped: Any = dump() if callable(dump) and not isinstance(value, type) else None
    return cast("Mapping[str, Any]", dumped) if isinstance(dumped, Mapping) else {}


def _answered(mapping: Mapping[str, Any]) -> Any:
    """Returns the id of the call that a tool's chat message answers."""
    if mapping.get("role") == "function":
        return f"function:{mapping.get('name')}"
    return mapping.get("tool_call_id")


def _joined(messages: Sequence[Message]) -> Sequence[Message]:
    """Merges consecutive assistant messages."""
    joined: list[Message] = []
    for message in messages:
        if joined and message.role == joined[-1].role == "assistant":
            parts = [*joined[-1].parts, *message.parts]
            joined[-1] = Message("assistant", content_of(parts))
        else:
            joined.append(message)
    return joined


def _readable(part: Mapping[str, Any]) -> str:
    """Returns an unknown part as text: `[web_search_call {"status":"completed"}]`."""
    text = part.get("text")
    if isinstance(text, str) and text:
        return text
    rest = {key: value for key, value in part.items() if key not in ("type", "id")}
    return f"[{part.get('type', 'part')} {clip(render(_plain(rest, legible=True)), _SHOWN)}]"


def _plain(value: Any, depth: int = 32, *, legible: bool = False) -> Any:
    """Returns `value` as plain JSON. `legible` omits empty, signed and encrypted fields."""
    if depth and isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {
            utf8(str(key)): _plain(entry, depth - 1, legible=legible)
            for key, entry in pairs
            if not (legible and (entry is None or key == "signature" or "encrypted" in str(key)))
        }
    if depth and isinstance(value, list | tuple):
        entries = cast("Sequence[Any]", value)
        return [_plain(entry, depth - 1, legible=legible) for entry in entries]
    return value if isinstance(value, int | float | bool | None) else utf8(str(value))

"""Earlier conversations in the shapes that people have them in, as messages.

    await agent.run("And in winter?", history=[
        {"role": "user", "content": "How long is the night in Oslo?"},
        ("assistant", "In June about five hours."),
    ])

Taken are `Message`s, pairs of role and text, and the dictionaries of the chat formats of OpenAI
(`tool_calls`, `tool_call_id`) and Anthropic (`tool_use`, `tool_result`).
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, get_args

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
from taofold.tools.attachments import Attachment, Image, showing

Earlier: TypeAlias = Message | Mapping[str, Any] | tuple[str, str]
"""One message of an earlier conversation."""

_ROLES: Final[Mapping[str, Role]] = {
    **{role: role for role in cast("tuple[Role, ...]", get_args(Role))},
    "developer": "system",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
}


class History:
    """Messages and the bytes of the media in them, by digest.

    Raises:
        ConfigError: a message is in none of the known shapes, a result answers no call, or a
            call has no result.
    """

    def __init__(self, history: Iterable[Earlier]) -> None:
        self.blobs: dict[str, bytes] = {}
        self.messages: list[Message] = []
        self._open: set[str] = set()
        self._at = ""
        for number, earlier in enumerate(history):
            self._at = f"history[{number}]"
            for message in self._messages(earlier):
                self._take(message)
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

        if not isinstance(earlier, Mapping):
            raise self._fault(
                "a message is a Message, a pair of role and text, or a dictionary with role and "
                f"content, not {type(earlier).__name__}"
            )

        mapping = cast("Mapping[str, Any]", earlier)
        role = self._role(mapping.get("role"))
        if role == "tool":
            return [Message("tool", (self._result(mapping, mapping.get("tool_call_id")),))]
        parts = self._parts(mapping.get("content"))
        parts += [self._call(call) for call in mapping.get("tool_calls") or ()]
        # Anthropic has results in the user's message; a message of ours holds one.
        results = [Message("tool", (part,)) for part in parts if isinstance(part, ToolResult)]
        rest = [part for part in parts if not isinstance(part, ToolResult)]
        return [*results, Message(role, content_of(rest))]

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
        match mapping.get("type"):
            case "text" | "input_text" | "output_text":
                return [TextPart(str(mapping.get("text", "")))]
            case "image_url" | "input_image":
                return self._attach(self._at_url(mapping.get("image_url")))
            case "image":
                return self._attach(self._source(mapping.get("source")))
            case "tool_use":
                arguments = render(mapping.get("input") or {})
                return [
                    ToolCall(str(mapping.get("name", "")), arguments, str(mapping.get("id", "")))
                ]
            case "tool_result":
                return [self._result(mapping, mapping.get("tool_use_id"))]
            case kind:
                raise self._fault(f"a part of the type {kind!r} is not known here")

    def _call(self, call: Any) -> ToolCall:
        mapping = _mapping(call)
        function = _mapping(mapping.get("function", mapping))
        # OpenAI has the arguments as JSON text, others as an object: text is what is kept.
        name, arguments = function.get("name"), function.get("arguments", "{}")
        if not isinstance(name, str) or not name:
            raise self._fault("a tool call has no name")
        return ToolCall(name, render(arguments), str(mapping.get("id", "")))

    def _result(self, mapping: Mapping[str, Any], call: Any) -> ToolResult:
        if not isinstance(call, str) or not call:
            raise self._fault("a result names its call: tool_call_id")
        parts = self._parts(mapping.get("content"))
        content = [part for part in parts if isinstance(part, TextPart | MediaPart)]
        if len(content) < len(parts):
            raise self._fault("a result holds text and media, no calls and no other results")
        media = any([isinstance(part, MediaPart) for part in content])
        text = "".join([part.text for part in content if isinstance(part, TextPart)])
        return ToolResult(call, tuple(content) if media else text, bool(mapping.get("is_error")))

    def _at_url(self, source: Any) -> Image:
        url = source if isinstance(source, str) else _mapping(source).get("url")
        if not isinstance(url, str):
            raise self._fault("an image has an address")
        if not url.startswith("data:"):
            return Image(url=url)
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        return self._decode(media_type, data)

    def _source(self, source: Any) -> Image:
        mapping = _mapping(source)
        if mapping.get("type") == "url":
            return self._at_url(mapping.get("url"))
        return self._decode(str(mapping.get("media_type", "")), mapping.get("data"))

    def _decode(self, media_type: str, data: Any) -> Image:
        try:
            return Image(data=base64.b64decode(data, validate=True), media_type=media_type)
        except (binascii.Error, TypeError, ValueError) as error:
            raise self._fault("the bytes of an image are not base64") from error

    def _attach(self, attachment: Attachment) -> Sequence[Part]:
        loaded = showing([attachment])
        self.blobs |= loaded.blobs
        return loaded.parts

    def _take(self, message: Message) -> None:
        """Keep it. Providers refuse a call without a result, and a result without its call."""
        for result in message.results:
            if result.id not in self._open:
                raise self._fault(f"no call {result.id!r} comes before this result")
            self._open.remove(result.id)
        if self._open and message.role != "tool":
            raise self._fault(f"no result follows the call {min(self._open)!r}")
        self._open |= {call.id for call in message.calls}
        # A user's message that held only results is empty by now, and was taken as these.
        if message.content:
            self.messages.append(message)

    def _fault(self, what: str) -> ConfigError:
        return ConfigError(what, path=self._at)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}

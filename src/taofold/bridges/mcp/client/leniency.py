"""Repairs server responses so that the `mcp` package accepts them.

The package validates a page of tools or the content of a result as a whole, so one bad field loses
all elements. `lenient` wraps a transport and repairs each element: it keeps used fields of the
right type, replaces blocks of an unknown kind by a text that names the kind, and marks tools with a
bad schema (`UNUSABLE` in `_meta`) so that they are skipped with a reason. Errors, requests and
notifications pass unchanged. `make_plain` limits the unpacked size of HTTP bodies and skips a byte
order mark, which the package does not. Knows nothing about tools or runs.
"""

import json
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip
from taofold.network import unpacking

UNUSABLE: Final = "taofold/unusable"
"""Key of a tool's `_meta`: why it cannot be offered."""
_SHOWN: Final = 200
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def readable(result: dict[str, Any], *, legacy: bool = True) -> dict[str, Any]:
    """Returns the result of a request without bad fields, and with bad elements described.

    `legacy`: older protocol versions, in which structured content is an object.
    """
    sound = dict(result)
    if "toolResult" in sound and "content" not in sound:
        # The form before the protocol's first version.
        sound["content"] = _block(_said(sound["toolResult"]))
    elif not sound:
        sound["content"] = []  # a tool without a result
    lists = {**_LISTS, "tools": _legacy_tool} if legacy else _LISTS
    for name, element in lists.items():
        if name in sound:
            listed: Any = sound[name]
            # Some servers send a single element without a list, or null for an empty list.
            elements = listed if is_array(listed) else [] if listed is None else [listed]
            sound[name] = [one for one in map(element, elements) if one is not None]
    for name, fits in _FIELDS.items():
        if name in sound and not fits(sound[name]):
            odd: Any = sound.pop(name)
            if name == "nextCursor" and _is_count(odd):
                sound[name] = str(odd)
            elif name == "isError":
                sound[name] = str(odd).lower() in ("true", "1")
    _structured(sound, legacy=legacy)
    _greeting(sound)
    if is_object(sound.get("result")):  # the result of a completed task
        sound["result"] = readable(sound["result"], legacy=legacy)
    return sound


def _structured(sound: dict[str, Any], *, legacy: bool) -> None:
    if "structuredContent" not in sound:
        return
    value: Any = sound["structuredContent"]
    sound.setdefault("content", [])
    if value is None and legacy:
        del sound["structuredContent"]
    elif legacy and not is_object(value):
        sound["structuredContent"] = {"result": value}


def _greeting(sound: dict[str, Any]) -> None:
    if "serverInfo" in sound:
        info: Any = sound["serverInfo"]
        named = _kept(info, name=str, title=str, version=str) if is_object(info) else {}
        sound["serverInfo"] = {"name": "a server without a name", "version": "", **named}
    if "capabilities" in sound:
        offers: Any = sound["capabilities"]
        sound["capabilities"] = (
            {name: offer for name, offer in offers.items() if is_object(offer)}
            if is_object(offers)
            else {}
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_FIELDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "nextCursor": _is_text,
    "instructions": _is_text,
    "isError": lambda value: isinstance(value, bool),
    "_meta": is_object,
    "ttlMs": _is_count,
    "cacheScope": lambda value: value in ("public", "private"),
}
"""Checks of result fields by name. A field that fails is dropped."""


def _kept(entry: Mapping[str, Any], **kinds: type) -> dict[str, Any]:
    """Returns the fields of `kinds` that have the right type."""
    return {
        name: entry[name]
        for name, kind in kinds.items()
        if isinstance(entry.get(name), kind) and (kind is bool or entry[name] is not True)
    }


def _base(entry: dict[str, Any]) -> dict[str, Any]:
    """Returns the well-formed parts of `_meta` and annotations."""
    kept = _kept(entry, _meta=dict)
    notes: Any = entry.get("annotations")
    if is_object(notes):
        sound: dict[str, Any] = _kept(notes, title=str) | {
            name: notes[name] for name in _HINTS if isinstance(notes.get(name), bool)
        }
        audience: Any = notes.get("audience")
        if is_array(audience):
            sound["audience"] = [who for who in audience if who in ("user", "assistant")]
        priority: Any = notes.get("priority")
        if isinstance(priority, int | float) and 0 <= priority <= 1:
            sound["priority"] = priority
        kept["annotations"] = sound
    return kept


def _legacy_tool(entry: Any) -> dict[str, Any] | None:
    tool = _tool(entry)
    # In older protocol versions a result is an object; other output schemas cannot apply.
    if tool is not None and "outputSchema" in tool:
        promised = {"type": "object", **tool.pop("outputSchema")}
        if promised["type"] == "object":
            tool["outputSchema"] = promised
    return tool


def _tool(entry: Any) -> dict[str, Any] | None:
    if not is_object(entry):
        return _unusable({"name": ""}, f"it is no object but {_words(entry)}")
    tool = _base(entry) | _kept(entry, name=str, title=str, description=str)
    tool.setdefault("name", "")
    execution: Any = entry.get("execution")
    if is_object(execution) and execution.get("taskSupport") in (
        *("forbidden", "optional", "required"),
    ):
        tool["execution"] = {"taskSupport": execution["taskSupport"]}
    schema: Any = entry.get("inputSchema")
    if flaw := _flaw(schema):
        return _unusable(tool, flaw)
    tool["inputSchema"] = {"type": "object", **_sound_schema(schema)}
    output: Any = entry.get("outputSchema")
    if is_object(output) and not _flaw({**output, "type": "object"}):
        tool["outputSchema"] = _sound_schema(output)
    return tool


def _flaw(schema: Any) -> str:
    """Returns why the package would refuse the schema, or ""."""
    if not is_object(schema):
        return f"its schema is no object but {_words(schema)}"
    kind: Any = schema.get("type", "object")
    if kind != "object":
        return f"its arguments are no object but {_words(kind)}"
    properties: Any = schema.get("properties")
    if properties is not None and not is_object(properties):
        return f"its properties are no object but {_words(properties)}"
    for name, rules in properties.items() if properties else ():
        if not is_object(rules) and not isinstance(rules, bool):
            return f"its property {name[:80]!r} is no schema but {_words(rules)}"
    return ""


def _sound_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema without keywords that the package refuses."""
    sound = dict(schema)
    if not isinstance(sound.get("$schema", ""), str):
        del sound["$schema"]
    for name in ("title", "description"):
        if not isinstance(sound.get(name, ""), str):
            del sound[name]
    if sound.get("properties", ()) is None:
        del sound["properties"]
    if "required" in sound:
        required: Any = sound.pop("required")
        if is_array(required):
            sound["required"] = [name for name in required if isinstance(name, str)]
    return sound


def _unusable(tool: dict[str, Any], flaw: str) -> dict[str, Any]:
    meta = {**tool.get("_meta", {}), UNUSABLE: flaw}
    return {**tool, "inputSchema": {"type": "object"}, "_meta": meta}


def _words(value: Any) -> str:
    return clip(repr(value), _SHOWN)


def _block(entry: Any) -> dict[str, Any]:
    """Returns a content block, or a text that names an unreadable one."""
    if isinstance(entry, str):
        return {"type": "text", "text": entry}
    if not is_object(entry):
        return _described(entry, "block")
    kind: Any = entry.get("type")
    block = _base(entry)
    match kind:
        case "text" if isinstance(entry.get("text"), str):
            return {**block, "type": "text", "text": entry["text"]}
        case "text" if isinstance(entry.get("text"), bool | int | float):
            return {**block, "type": "text", "text": _words(entry["text"])}
        case "image" | "audio" if isinstance(entry.get("data"), str):
            mime = entry.get("mimeType")
            mime = mime if isinstance(mime, str) else "application/octet-stream"
            return {**block, "type": kind, "data": entry["data"], "mimeType": mime}
        case "resource" if contents := _contents(entry.get("resource")):
            return {**block, "type": kind, "resource": contents}
        case "resource_link" if isinstance(entry.get("uri"), str):
            link = _kept(entry, name=str, title=str, description=str, mimeType=str, size=int)
            return {**block, "name": entry["uri"], **link, "type": kind, "uri": entry["uri"]}
        case _:
            return _described(entry, str(kind or "block"))


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _described(entry: Any, kind: str) -> dict[str, Any]:
    return {"type": "text", "text": f"[{clip(kind, 40)} that cannot be shown: {_words(entry)}]"}


def _contents(entry: Any) -> dict[str, Any] | None:
    """Returns the contents of a resource; None if they have neither text nor bytes."""
    if not is_object(entry):
        return None
    kept = _kept(entry, uri=str, mimeType=str, text=str, blob=str, _meta=dict)
    kept.setdefault("uri", "unknown:")
    return kept if "text" in kept or "blob" in kept else None


def _uncontained(entry: Any) -> dict[str, Any]:
    return {"uri": "unknown:", "text": _described(entry, "resource")["text"]}


def _resource(entry: Any) -> dict[str, Any] | None:
    if not is_object(entry) or not isinstance(entry.get("uri"), str):
        return None
    kept = _kept(entry, uri=str, name=str, title=str, description=str, mimeType=str, size=int)
    return {"name": entry["uri"], **_base(entry), **kept}


def _template(entry: Any) -> dict[str, Any] | None:
    if not is_object(entry) or not isinstance(entry.get("uriTemplate"), str):
        return None
    kept = _kept(entry, uriTemplate=str, name=str, title=str, description=str, mimeType=str)
    return {"name": entry["uriTemplate"], **_base(entry), **kept}


def _prompt(entry: Any) -> dict[str, Any] | None:
    if not is_object(entry) or not isinstance(entry.get("name"), str):
        return None
    prompt = _kept(entry, name=str, title=str, description=str, _meta=dict)
    arguments: Any = entry.get("arguments")
    prompt["arguments"] = [
        _kept(argument, name=str, title=str, description=str, required=bool)
        for argument in (arguments if is_array(arguments) else [])
        if is_object(argument) and isinstance(argument.get("name"), str)
    ]
    return prompt


def _message(entry: Any) -> dict[str, Any] | None:
    """Returns a message of a prompt."""
    if not is_object(entry):
        return {"role": "user", "content": _block(entry)}
    role = entry.get("role") if entry.get("role") in ("user", "assistant") else "user"
    return {"role": role, "content": _block(entry.get("content"))}


_LISTS: Final[Mapping[str, Callable[[Any], dict[str, Any] | None]]] = {
    "tools": _tool,
    "content": _block,
    "contents": lambda entry: _contents(entry) or _uncontained(entry),
    "resources": _resource,
    "resourceTemplates": _template,
    "prompts": _prompt,
    "messages": _message,
}
"""Repair functions for the elements of a result's lists, by the list's name."""


@asynccontextmanager
async def lenient(transport: Any) -> AsyncGenerator[Any]:
    """Opens `transport` and repairs the messages that it reads."""
    async with transport as streams:
        yield (_Readable(streams[0]), *streams[1:])


class _Readable:
    """A stream of messages that repairs each result."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._legacy = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def receive(self) -> Any:
        """Returns the next message."""
        return self._sound(await self._inner.receive())

    def __aiter__(self) -> "_Readable":
        return self

    async def __anext__(self) -> Any:
        return self._sound(await self._inner.__anext__())

    async def __aenter__(self) -> "_Readable":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> Any:
        return await self._inner.__aexit__(*exception)

    def _sound(self, item: Any) -> Any:
        message: Any = getattr(item, "message", None)
        result: Any = getattr(message, "result", None)
        if is_object(result):
            version: Any = result.get("protocolVersion")
            if isinstance(version, str):  # only older protocol versions have a handshake
                self._legacy = version < "2026"
            message.result = readable(result, legacy=self._legacy)
        return item


def make_plain(errors: Any, response: Any, most: int) -> None:
    """Unpacks the body of an HTTP response within a limit, and skips a byte order mark.

    Args:
        errors: The HTTP package of `response`.
        response: A response whose body is not read yet.
        most: Maximum bytes of a document, or of one chunk of an event stream.

    Raises:
        errors.RemoteProtocolError: The content encoding is unknown.
    """
    if not isinstance(response.stream, errors.AsyncByteStream):
        return
    try:
        unpacked = unpacking(response.headers.get("content-encoding", ""), most)
    except ValueError as error:
        raise errors.RemoteProtocolError(f"the answer {error}") from error
    inner = response.stream
    # An event stream may last as long as the session, so its chunks are limited one by one.
    endless = response.headers.get("content-type", "").lower().startswith("text/event-stream")

    async def pieces() -> AsyncGenerator[bytes]:
        size = 0
        async for piece in inner:
            data = unpacked(piece) if unpacked else piece
            size = len(data) if endless else size + len(data)
            if size > most:
                raise errors.ReadError(f"the answer is larger than {most} bytes")
            yield data

    class Plain(errors.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            async for piece in _unmarked(pieces()):
                yield piece

        async def aclose(self) -> None:
            await inner.aclose()

    response.stream = Plain()
    response.headers.pop("content-encoding", None)


async def _unmarked(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yields the chunks without a leading byte order mark."""
    head, begun = b"", False
    async for piece in pieces:
        if begun:
            yield piece
            continue
        head += piece
        if len(head) >= len(BOM_UTF8) or not BOM_UTF8.startswith(head):
            begun = True
            yield head.removeprefix(BOM_UTF8)
    if not begun and head:
        yield head

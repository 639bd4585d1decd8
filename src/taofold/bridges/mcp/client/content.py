"""MCP content as ours: the observation of a call, the text of a block, a resource, a prompt.

Images, sounds and PDFs become media; whatever else is no text is described. A flood is cut before
anybody has to read it. Pure.
"""

from base64 import b64decode
from typing import Any, Final

from taofold.bridges.mcp.sdk import get, plain
from taofold.core.content import MediaPart, TextPart
from taofold.core.content import text_with_media as shown_as_text
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.text import excerpt
from taofold.core.values import ObservationStatus
from taofold.tools import Outcome
from taofold.tools.attachments import Attachment, Showing, showing

FLOOD: Final = 1_000_000
"""Characters of a result that are kept; more is cut to an excerpt."""
_QUARTER: Final = 4 / 3


def outcome(result: Any) -> Outcome:
    """The outcome of a call that is complete."""
    blocks = list(get(result, "content", ()) or ())
    media = [medium(block) for block in blocks]
    failed = bool(get(result, "is_error", False))
    if any(media):
        return _shown(blocks, media, "failure" if failed else "success")
    texts = [block_text(block) for block in blocks]
    text = bounded("\n".join(texts))
    if failed:
        return Outcome(text or "the server reports an error and does not say which", "failure")
    value = get(result, "structured_content")
    return Outcome(text if value is None else _small(_structured(value, blocks, texts), text))


def _structured(value: Any, blocks: list[Any], texts: list[str]) -> Any:
    """The structured result, without its wrapper, and what else came with it."""
    if is_object(value) and set(value) == {"result"}:
        value = value["result"]  # how results that are no objects are wrapped
    pairs = zip(blocks, texts, strict=True)
    attached = [rest for block, rest in pairs if get(block, "type") != "text"]
    return {"result": value, "attached": attached} if attached else value


def _shown(blocks: list[Any], media: list[Showing | None], status: ObservationStatus) -> Outcome:
    """Blocks of which some are media: the others are text between them."""
    parts: list[TextPart | MediaPart] = []
    blobs: dict[str, bytes] = {}
    for block, held in zip(blocks, media, strict=True):
        if held is None:
            parts.append(TextPart(block_text(block)))
        else:
            parts += held.parts
            blobs |= held.blobs
    return Outcome(bounded(shown_as_text(parts)), status, parts=tuple(parts), blobs=blobs)


def medium(block: Any) -> Showing | None:
    """The medium that a block holds; None if it holds none, or one that nobody could look at."""
    held = get(block, "resource") if get(block, "type") == "resource" else block
    data = get(held, "blob") or (get(held, "data") if held is block else None)
    if not isinstance(data, str):
        return None
    try:
        content = b64decode(data, validate=True)
        name = str(get(held, "uri", "") or "").rpartition("/")[2]
        attached = showing([Attachment(data=content, name=name)])
    except (ValueError, ConfigError):
        return None
    return attached if attached.media else None


def _small(value: Any, text: str) -> Any:
    # Its length stands for the JSON's, which would cost an encoding.
    literal = repr(value)
    return value if len(literal) <= FLOOD else text or bounded(literal)


def bounded(text: str) -> str:
    """`text`, or its excerpt if it is a flood."""
    return text if len(text) <= FLOOD else excerpt(text, FLOOD)


def block_text(block: Any) -> str:
    """One block of content as text."""
    match get(block, "type", ""):
        case "text":
            return str(get(block, "text", ""))
        case "image" | "audio" as kind:
            size = round(len(str(get(block, "data", ""))) / _QUARTER)
            return f"[{kind} {get(block, 'mime_type', '?')}, {size} bytes, not shown]"
        case "resource_link":
            more = get(block, "description", "")
            heading = f"[resource {get(block, 'name', '')!r} at {get(block, 'uri', '')}]"
            return f"{heading} {more}" if more else heading
        case "resource":
            return resource(get(block, "resource"))
        case kind:
            return f"[{kind or 'something'} that cannot be shown: {str(plain(block))[:200]}]"


def resource(contents: Any) -> str:
    """The contents of a resource: its text, or what it is."""
    text = get(contents, "text")
    if text is not None:
        return str(text)
    kind = get(contents, "mime_type", "unknown type")
    size = round(len(str(get(contents, "blob", ""))) / _QUARTER)
    return f"[resource {get(contents, 'uri', '')}: {kind}, {size} bytes, not shown]"


def message(prompt_message: Any) -> str:
    """One message of a prompt."""
    content = get(prompt_message, "content")
    return f"{get(prompt_message, 'role', 'user')}: {block_text(content)}"

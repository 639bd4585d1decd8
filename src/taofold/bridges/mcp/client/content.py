"""Converts MCP content: results of calls, blocks, resources and prompts.

Images, sounds and PDFs become media. Other content without text becomes a description. Very long
results are cut to an excerpt. Pure.
"""

from base64 import b64decode
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Final

from taofold.bridges.mcp.sdk import plain
from taofold.core.content import MediaPart, TextPart
from taofold.core.content import text_with_media as shown_as_text
from taofold.core.errors import ConfigError
from taofold.core.json_values import DECODER, is_array, is_object
from taofold.core.text import clip, excerpt, visible
from taofold.core.values import ObservationStatus
from taofold.tools import Outcome
from taofold.tools.attachments import Attachment, Showing, showing

FLOOD: Final = 1_000_000
"""Maximum characters of a result. A longer one is cut to an excerpt."""
_QUARTER: Final = 4 / 3


def outcome(result: Any) -> Outcome:
    """Returns the outcome of a completed call."""
    blocks = list(result.content)
    media = [medium(block) for block in blocks]
    failed = bool(result.is_error)
    if any([isinstance(held, Showing) for held in media]):
        return _shown(blocks, media, "failure" if failed else "success")
    texts = [
        block_text(block, held if isinstance(held, str) else "")
        for block, held in zip(blocks, media, strict=True)
    ]
    text = bounded("\n".join(texts))
    if failed:
        return Outcome(text or "the server reports an error and does not say which", "failure")
    value = result.structured_content
    return Outcome(text if value is None else _small(_structured(value, blocks, texts), text))


def _structured(value: Any, blocks: list[Any], texts: list[str]) -> Any:
    """Returns the structured result without its wrapper, with other content as `attached`.

    Servers repeat the structured result as text; only other text is attached.
    """
    if is_object(value) and set(value) == {"result"}:
        value = value["result"]  # the wrapper of results that are no objects
    if is_object(value) and [*value.values()] == texts:
        return texts[0]  # a text in an object would be escaped for the model
    pairs = zip(blocks, texts, strict=True)
    attached = [rest for block, rest in pairs if block.type != "text" or not _says(rest, value)]
    return {"result": value, "attached": attached} if attached else value


def _says(text: str, value: Any) -> bool:
    """Returns whether a text repeats the structured result or one of its items."""
    if not text.strip() or text == value:
        return True
    try:
        said: Any = DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        said = text
    if said in (value, {"result": value}):
        return True
    # One block for each item, as some servers send a list.
    return is_array(value) and said in value


def _shown(blocks: list[Any], media: Sequence[Showing | str], status: ObservationStatus) -> Outcome:
    """Returns an outcome of media blocks with text between them."""
    parts: list[TextPart | MediaPart] = []
    blobs: dict[str, bytes] = {}
    for block, held in zip(blocks, media, strict=True):
        if isinstance(held, str):
            parts.append(TextPart(block_text(block, held)))
        else:
            parts += held.parts
            blobs |= held.blobs
    return Outcome(bounded(shown_as_text(parts)), status, parts=tuple(parts), blobs=blobs)


def read_contents(contents: Iterable[Any]) -> Outcome:
    """Returns the contents of a resource as text and media."""
    blocks = [SimpleNamespace(type="resource", resource=each) for each in contents]
    return outcome(SimpleNamespace(content=blocks, is_error=False, structured_content=None))


def medium(block: Any) -> Showing | str:
    """Returns the medium in a block, or why it cannot be shown; "" if there is none."""
    held = block.resource if block.type == "resource" else block
    data = getattr(block, "data", getattr(held, "blob", None))
    if not isinstance(data, str):
        return ""
    try:
        content = b64decode(data, validate=True)
    except ValueError:
        return "its data are no base64"
    name = getattr(held, "uri", "").rpartition("/")[2]
    attachment = Attachment(data=content, name=name)
    try:
        attached = showing([attachment])
    except ConfigError as error:
        return clip(str(error).removeprefix(repr(attachment)).lstrip(": "), 200)
    return attached if attached.media else ""


def _small(value: Any, text: str) -> Any:
    # The length of `repr` approximates the JSON's length without an encoding.
    literal = repr(value)
    return value if len(literal) <= FLOOD else text or bounded(literal)


def bounded(text: str) -> str:
    """Returns `text`, or an excerpt if it is longer than `FLOOD`."""
    return text if len(text) <= FLOOD else excerpt(text, FLOOD)


def block_text(block: Any, flaw: str = "") -> str:
    """Returns one content block as text. `flaw` is the reason why a medium is not shown."""
    why = f" ({visible(flaw)})" if flaw else ""
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio" as kind:
            size = round(len(block.data) / _QUARTER)
            return f"[{kind} {block.mime_type}, {size} bytes, not shown{why}]"
        case "resource_link":
            more = block.description
            heading = f"[resource {block.name!r} at {block.uri}]"
            return f"{heading} {more}" if more else heading
        case "resource":
            return resource(block.resource, why)
        case kind:
            return f"[{kind or 'something'} that cannot be shown: {str(plain(block))[:200]}]"


def resource(contents: Any, why: str = "") -> str:
    """Returns a resource's text, or its description with `why` it is not shown."""
    if hasattr(contents, "text"):
        return str(contents.text)
    kind, size = contents.mime_type or "unknown type", round(len(contents.blob) / _QUARTER)
    return f"[resource {contents.uri}: {kind}, {size} bytes, not shown{why}]"


def message(prompt_message: Any) -> str:
    """Returns one message of a prompt as text."""
    return f"{prompt_message.role}: {block_text(prompt_message.content)}"

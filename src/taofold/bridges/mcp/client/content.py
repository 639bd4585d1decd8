"""MCP content as ours: the observation of a call, the text of a block, a resource, a prompt.

Images, sounds and PDFs become media; whatever else is no text is described. A flood is cut before
anybody has to read it. Pure.
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
"""Characters of a result that are kept; more is cut to an excerpt."""
_QUARTER: Final = 4 / 3


def outcome(result: Any) -> Outcome:
    """The outcome of a call that is complete."""
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
    """The structured result, without its wrapper, and what else came with it.

    Servers send the structured result as text, too. Any other text goes along.
    """
    if is_object(value) and set(value) == {"result"}:
        value = value["result"]  # how results that are no objects are wrapped
    if is_object(value) and [*value.values()] == texts:
        return texts[0]  # for a model a text in an object would be escaped
    pairs = zip(blocks, texts, strict=True)
    attached = [rest for block, rest in pairs if block.type != "text" or not _says(rest, value)]
    return {"result": value, "attached": attached} if attached else value


def _says(text: str, value: Any) -> bool:
    """Whether a text repeats the structured result, or one of its members."""
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
    """Blocks of which some are media: the others are text between them."""
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
    """The contents of a resource: texts and media."""
    blocks = [SimpleNamespace(type="resource", resource=each) for each in contents]
    return outcome(SimpleNamespace(content=blocks, is_error=False, structured_content=None))


def medium(block: Any) -> Showing | str:
    """The medium that a block holds, or why it cannot be shown; "" if it holds none."""
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
    # Its length stands for the JSON's, which would cost an encoding.
    literal = repr(value)
    return value if len(literal) <= FLOOD else text or bounded(literal)


def bounded(text: str) -> str:
    """`text`, or its excerpt if it is a flood."""
    return text if len(text) <= FLOOD else excerpt(text, FLOOD)


def block_text(block: Any, flaw: str = "") -> str:
    """One block of content as text; `flaw` is the reason why a medium is not shown."""
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
    """The contents of a resource: its text, or what it is and `why` it is not shown."""
    if hasattr(contents, "text"):
        return str(contents.text)
    kind, size = contents.mime_type or "unknown type", round(len(contents.blob) / _QUARTER)
    return f"[resource {contents.uri}: {kind}, {size} bytes, not shown{why}]"


def message(prompt_message: Any) -> str:
    """One message of a prompt."""
    return f"{prompt_message.role}: {block_text(prompt_message.content)}"

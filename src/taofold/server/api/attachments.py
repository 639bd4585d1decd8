"""Images, documents and sound: read from requests, checked, and served to users of the run.

Requests send them as base64 in JSON, also in AG-UI messages; a run's media route returns them as
files. The type of a file is detected from its bytes, not from its name. Knows only the events of
runs.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ag_ui.core import AudioPart, DocumentPart, ImagePart, TextPart, VideoPart
from starlette.responses import Response

from taofold.core.content import MediaPart, media_of
from taofold.core.events import Observed, Record, Replied, RunStarted, Steered
from taofold.server.api.schemas import MOST_FILES, Attached
from taofold.server.endpoint import ApiCall, Problem, Routes, visible_run
from taofold.tools.attachments import Attachment, Prompt

routes: Final = Routes("runs")

_SHOWN: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types that a browser may display. All others are downloads, because they may contain scripts."""
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=3600, immutable",
}


def prompt(text: str, attached: Iterable[Attached]) -> Prompt:
    """Returns the text with its files, which are checked when the run begins.

    Raises:
        Problem: 422, a file is not base64.
    """
    files = [_attachment(file.name, file.data, file.url) for file in attached]
    return [text, *files] if files else text


def _attachment(name: str, data: str, url: str) -> Attachment:
    if url:
        return Attachment(url=_https(url), name=name)
    try:
        # Without `validate` Python ignores invalid characters.
        return Attachment(data=b64decode(data, validate=True), name=name)
    except (binascii.Error, ValueError):
        raise Problem(422, "attachment", f"the data of {name[:80]!r} is no base64") from None


def _https(url: str) -> str:
    if not url.startswith("https://"):
        raise Problem(422, "attachment", "an address begins with https://; else send the data")
    return url


def from_ag_ui(content: Sequence[Any]) -> tuple[str, list[Attachment]]:
    """Returns the text and the media of an AG-UI message.

    Raises:
        Problem: 422, a part has an unsupported kind or source.
    """
    texts: list[str] = []
    files: list[Attachment] = []
    for part in content:
        match part:
            case TextPart():
                texts.append(part.text)
            case ImagePart() | AudioPart() | VideoPart() | DocumentPart():
                source = part.source
                if source.type not in ("data", "url"):
                    raise Problem(422, "messages", f"a source of type {source.type} is not known")
                data, url = ("", source.value) if source.type == "url" else (source.value, "")
                files.append(_attachment(part.type, data, url))
            case _:
                raise Problem(422, "messages", "only text, images, sound and documents are known")
    if len(files) > MOST_FILES:
        raise Problem(422, "messages", f"a message has at most {MOST_FILES} files")
    return "\n".join(texts), files


@routes.get(
    "/runs/{run}/media/{digest}",
    right="read",
    answers={200: "application/octet-stream"},
    errors=(404,),
)
async def medium(call: ApiCall) -> Response:
    """Returns an image, document or sound of the run."""
    row = await visible_run(call, call.path["run"])
    log, digest = call.server.log, call.path["digest"]
    # All runs share blobs, so only blobs that this run references can be read through it.
    part = _mentioned(await log.read(row.run), digest)
    if part is None:
        raise Problem(404, "not_found", "the run was shown nothing of this name")
    kind = part.media_type
    headers = _HEADERS
    if kind not in _SHOWN:
        headers = {**_HEADERS, "Content-Disposition": "attachment"}
        kind = "application/octet-stream"
    return Response(await log.blob(digest), headers=headers, media_type=kind)


def _mentioned(records: Iterable[Record], digest: str) -> MediaPart | None:
    """Returns the medium with this digest in the records, or None."""
    for record in records:
        for part in media_in(record):
            if part.digest == digest:
                return part
    return None


def media_in(record: Record) -> list[MediaPart]:
    """Returns the media in a record."""
    match record.event.public:
        case RunStarted(parts=parts) | Steered(parts=parts):
            return list(media_of(parts))
        case Observed(observation=seen_then):
            return list(media_of(seen_then.parts))
        case Replied(content=content):
            return list(media_of(content))
        case _:
            return []

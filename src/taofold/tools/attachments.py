"""Images, documents and audio for models, read and checked before they are sent.

`showing` orders them with the text between them. The type of a file comes from its bytes, never
from its name alone. Files are sent unchanged, unless `longest_side` scales an image down. This
module does not depend on models or logs.

Example:
    ```python
    await agent.run(["What is wrong here?", Image("screen.png"), Document("report.pdf")])


    @tool(effect="read")
    def chart(days: int) -> Image:
        return Image(data=plot(days))
    ```
"""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from taofold.core.content import MediaKind, MediaPart, TextPart, blob_digest, text_with_media
from taofold.core.errors import ConfigError
from taofold.reserved_places import read_named

LARGEST: Final = 32 << 20
"""Maximum bytes of one file. No provider accepts a larger one in a request."""
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_TAIL: Final = 4096
_BRANDS: Final = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"avif": "image/avif",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
_BEGINS: Final = (
    (_PNG, "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3\x03", "audio/mpeg"),
    (b"ID3\x04", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_EXTENSIONS: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "heic": "image/heic",
}


class Loaded(NamedTuple):
    """A medium with its bytes, or with b"" if it has only an address."""

    part: MediaPart
    data: bytes


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file, bytes or an address that is not text. Nothing is read until it is used.

    Pass exactly one of `path`, `data` and `url`.

    Args:
        path: Path of a file.
        data: The bytes of the medium.
        url: Address from which the provider fetches it. taofold does not.
        media_type: Media type such as `image/png`. An empty string detects it from the bytes.
        name: Display name, for users and models.
        detail: OpenAI's hint for images (`"low"`, `"high"`).
        longest_side: Pixels. A larger image is scaled down to it (needs `taofold[images]`).
    """

    path: str | Path = ""
    _: KW_ONLY
    data: bytes | None = None
    url: str = ""
    media_type: str = ""
    name: str = ""
    detail: str = ""
    longest_side: int = 0

    kind: ClassVar[MediaKind | None] = None

    def __repr__(self) -> str:
        what = str(self.path) or self.url or self.name or f"{len(self.data or b'')} bytes"
        return f"{type(self).__name__}({what!r})"

    def load(self) -> Loaded | TextPart:
        """Reads the file and returns the medium with its bytes, or the text of a text file.

        Raises:
            ConfigError: The file cannot be read, is too large, damaged, or of another kind.
        """
        sources = [bool(self.path), self.data is not None, bool(self.url)]
        if sum(sources) != 1:
            raise ConfigError(f"{self!r}: give a path, data= or url=, one of them")
        name = self.name or (Path(self.path).name if self.path else "")
        if self.url:
            return Loaded(self._at_url(name), b"")
        data = self._read() if self.data is None else self.data
        if len(data) > LARGEST:
            raise ConfigError(
                f"{self!r} has {len(data) / 1e6:.1f} MB: no provider takes more than "
                f"{LARGEST / 1e6:.1f} MB in a request; give a part of it, or an address (url=)"
            )
        detected = media_type_of(data)
        # A text file is sent as text: every model reads it, and it costs no media tokens.
        if not detected and self.kind in (None, "document") and (text := _text(data)) is not None:
            return TextPart(f"[file {name}]\n{text}" if name else text)
        media_type = detected or self.media_type or "application/octet-stream"
        self._check(media_type, data)
        if self.longest_side and media_type.startswith("image/"):
            data, media_type = scaled(data, media_type, self.longest_side)
        return Loaded(
            MediaPart(
                kind_of(media_type), media_type, blob_digest(data), len(data), name, "", self.detail
            ),
            data,
        )

    def _check(self, media_type: str, data: bytes) -> None:
        if not data:
            raise ConfigError(f"{self!r} is empty")
        kind = kind_of(media_type)
        if media_type == "application/octet-stream":
            raise ConfigError(f"{self!r}: its bytes are of no kind that models take")
        if self.kind is not None and kind != self.kind:
            raise ConfigError(f"{self!r} is {media_type}, no {self.kind}")
        if self.media_type and kind_of(self.media_type) != kind:
            raise ConfigError(f"{self!r} is said to be {self.media_type}, its bytes: {media_type}")
        flaw = damage(media_type, data)
        if flaw:
            raise ConfigError(f"{self!r} is damaged: {flaw}")

    def _at_url(self, name: str) -> MediaPart:
        if not self.url.startswith(("https://", "http://", "gs://")):
            raise ConfigError(f"{self!r}: an address begins with https://")
        extension = self.url.partition("?")[0].rpartition(".")[2].lower()
        default = {"image": "image/jpeg", "audio": "audio/mpeg", "video": "video/mp4"}
        media_type = (
            self.media_type
            or _EXTENSIONS.get(extension)
            or default.get(self.kind or "", "application/pdf")
        )
        return MediaPart(
            self.kind or kind_of(media_type), media_type, "", 0, name, self.url, self.detail
        )

    def _read(self) -> bytes:
        path = Path(self.path)
        try:
            # Checked before reading, so that a file of many gigabytes is not loaded.
            size = path.stat().st_size
            if size > LARGEST:
                raise ConfigError(
                    f"{self!r} has {size / 1e6:.1f} MB: no provider takes more than "
                    f"{LARGEST / 1e6:.1f} MB in a request; give a part of it, or an address (url=)"
                )
            return read_named(path)
        except OSError as error:
            raise ConfigError(f"{self!r} cannot be read: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True, repr=False)
class Image(Attachment):
    """An image for a model: PNG, JPEG, GIF or WebP.

    Example:
        ```python
        from taofold import Image

        goal = ["What is wrong here?", Image("screen.png", longest_side=1024)]
        ```

    Args:
        path: Path of the image file.
        data: The bytes of the image.
        url: Address from which the provider fetches it. taofold does not.
        media_type: Media type such as `image/png`. An empty string detects it from the bytes.
        name: Display name, for users and models.
        detail: OpenAI's hint (`"low"`, `"high"`).
        longest_side: Pixels. A larger image is scaled down to it (needs `taofold[images]`).
    """

    kind: ClassVar[MediaKind | None] = "image"


@dataclass(frozen=True, slots=True, repr=False)
class Document(Attachment):
    """A document for a model: a PDF, or a text file, which is sent as text.

    Example:
        ```python
        from taofold import Document

        goal = ["Summarize this report.", Document("report.pdf")]
        ```

    Args:
        path: Path of the file.
        data: The bytes of the document.
        url: Address from which the provider fetches it. taofold does not.
        media_type: Media type such as `application/pdf`. An empty string detects it from the bytes.
        name: Display name, for users and models.
        detail: Not used for documents.
        longest_side: Not used for documents.
    """

    kind: ClassVar[MediaKind | None] = "document"


@dataclass(frozen=True, slots=True, repr=False)
class Audio(Attachment):
    """Audio for a model: WAV, MP3, Ogg or FLAC.

    Example:
        ```python
        from taofold import Audio

        goal = ["Transcribe this message.", Audio("message.mp3")]
        ```

    Args:
        path: Path of the file.
        data: The bytes of the audio.
        url: Address from which the provider fetches it. taofold does not.
        media_type: Media type such as `audio/mpeg`. An empty string detects it from the bytes.
        name: Display name, for users and models.
        detail: Not used for audio.
        longest_side: Not used for audio.
    """

    kind: ClassVar[MediaKind | None] = "audio"


Shown: TypeAlias = str | Attachment | TextPart | MediaPart
"""One part of a user's message or of a tool's result."""
Prompt: TypeAlias = str | Attachment | Sequence[Shown]
"""A text, an attachment, or a sequence of both in order."""


@dataclass(frozen=True, slots=True)
class Showing:
    """Text and media in order, and the bytes of the media by digest."""

    parts: tuple[TextPart | MediaPart, ...] = ()
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    attached: bool = False
    """True if any part came from an attachment. A text file becomes text."""

    @property
    def media(self) -> bool:
        """True if it holds anything besides text."""
        return any([isinstance(part, MediaPart) for part in self.parts])

    @property
    def text(self) -> str:
        """All parts as text, with one line for each medium."""
        return text_with_media(self.parts)


def prompted(prompt: Prompt) -> Showing:
    """Reads and checks the user's input. See `showing`.

    Raises:
        TypeError: The input is neither text nor an attachment nor a sequence of these.
        ConfigError: The input is a mapping, whose keys would become the text.
    """
    given: Any = prompt  # callers may pass wrong types
    if isinstance(given, Mapping):
        raise ConfigError("a goal is text, not a mapping: pass the state at the start as data={…}")
    if not isinstance(given, str | Attachment | Iterable):
        raise TypeError(f"a goal is text, or a list of texts and attachments, not {given!r}")
    return showing([prompt] if isinstance(prompt, str | Attachment) else prompt)


def showing(said: Iterable[Shown]) -> Showing:
    """Reads and checks the pieces.

    Raises:
        ConfigError: A file cannot be read, is too large, damaged, or of another kind.
    """
    parts: list[TextPart | MediaPart] = []
    blobs: dict[str, bytes] = {}
    attached = False
    attachment: Any
    for attachment in said:
        attached = attached or not isinstance(attachment, str)
        match attachment:
            case str():
                parts.append(TextPart(attachment))
            case Attachment():
                loaded = attachment.load()
                if isinstance(loaded, Loaded):
                    parts.append(loaded.part)
                    if loaded.data:
                        blobs[loaded.part.digest] = loaded.data
                else:
                    parts.append(loaded)
            case TextPart() | MediaPart():
                parts.append(attachment)
            case other:
                raise TypeError(f"a goal holds texts and attachments, not {other!r}")
    return Showing(tuple(parts), blobs, attached)


def media_type_of(data: bytes) -> str:
    """Returns the media type of the bytes, or "" if it is unknown."""
    for begins, media_type in _BEGINS:
        if data.startswith(begins):
            return media_type
    if data[:4] == b"RIFF":
        # RIFF and ISO files name their type after the first bytes.
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video/mp4")
    return ""


def kind_of(media_type: str) -> MediaKind:
    """Returns the kind of medium that a media type belongs to."""
    match media_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "document"


def damage(media_type: str, data: bytes) -> str:
    """Returns the damage that is visible without decoding, or ""."""
    match media_type:
        case "image/png":
            return _png_flaw(data)
        case "image/jpeg":
            # An end marker (EOI) must follow the first scan (SOS). Earlier ones belong to
            # thumbnails.
            start = data.find(b"\xff\xda")
            whole = start > 0 and data.find(b"\xff\xd9", start) > 0
            return "" if whole else "the picture is cut off"
        case "image/gif":
            return "" if data.rstrip(b"\0").endswith(b";") else "the picture is cut off"
        case "image/webp" | "audio/wav":
            declared = int.from_bytes(data[4:8], "little") + 8
            # RIFF pads chunks to even lengths, and some writers omit the last byte.
            return "" if declared <= len(data) + 1 else "it is cut off"
        case "application/pdf":
            ended = b"%%EOF" in data[-_TAIL:] or b"startxref" in data[-_TAIL:]
            return "" if ended else "the document is cut off"
        case _:
            return ""


def _png_flaw(data: bytes) -> str:
    at = len(_PNG)
    first = True
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name = data[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(data):
            return "the picture is cut off"
        (checksum,) = struct.unpack_from(">I", data, end - 4)
        # Decoders skip a damaged ancillary chunk (its name begins in lower case, PNG 5.4).
        is_critical = not name[:1].islower()
        # A view instead of a slice, so that the checksum needs no copy of the image.
        if is_critical and zlib.crc32(memoryview(data)[at + 4 : end - 4]) != checksum:
            return f"the checksum of its {name.decode('latin-1')} part is wrong"
        if first and (name != b"IHDR" or 0 in struct.unpack_from(">II", data, at + 8)):
            return "it has no size"
        if name == b"IEND":
            return ""
        at, first = end, False
    return "the picture is cut off"


def scaled(data: bytes, media_type: str, longest: int) -> tuple[bytes, str]:
    """Returns the image with no side longer than `longest` pixels, and its media type.

    Raises:
        ConfigError: Pillow is not installed, or cannot read the image.
    """
    try:
        library: Any = import_module("PIL.Image")
    except ImportError as error:
        raise ConfigError("scaling images needs Pillow: pip install 'taofold[images]'") from error
    try:
        image = library.open(BytesIO(data))
        if max(image.size) <= longest:
            return data, media_type
        image.thumbnail((longest, longest))
        written = BytesIO()
        file_format = image.format if image.format in ("PNG", "JPEG", "WEBP") else "PNG"
        image.save(written, file_format)
    except Exception as error:
        raise ConfigError(f"the image cannot be scaled: {error}") from error
    return written.getvalue(), f"image/{file_format.lower()}"


def pillow_png(value: Any) -> bytes | None:
    """Returns the PNG of a Pillow image, or None for other values. Does not import Pillow."""
    if not type(value).__module__.startswith("PIL.") or not callable(getattr(value, "save", None)):
        return None
    written = BytesIO()
    value.save(written, "PNG")
    return written.getvalue()


def _text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None

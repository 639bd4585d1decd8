"""Reads pattern files, the seed's own or anybody's: what is sound is taken, the rest is said.

Every fault names its file and the path in it. What a file claims about success is noted as a claim.
Text in it stays data.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec

from taofold.learning.events import PatternArchived, PatternImported
from taofold.learning.exchange.records import pattern_of
from taofold.learning.exchange.wire import FORMATS
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import PREFIXES, ImportClaim, Pattern, fresh
from taofold.learning.state import Writing

_KEYS: Final[dict[Kind, str]] = {kind: form.key for kind, form in FORMATS.items()}
_ARCHIVE: Final = re.compile(r"(?:^|/)archive/(\d{4}-(?:0[1-9]|1[0-2]))-patterns\.json$")
_OTHER: Final = re.compile(r"(?:^|/)effectiveness-metrics\.json$")
_LARGEST: Final = 64 << 20


class Incoming(NamedTuple):
    """A pattern as a file has it, with what the file claims. `month` is "" but in an archive."""

    pattern: Pattern
    claim: ImportClaim
    file: str
    month: str = ""


class ImportReport(NamedTuple):
    """What became of files: ids that are new, ids that were known, and what is wrong.

    `renamed` are pairs of a file's id, which somebody else has here, and the new one;
    `broken` are the files that could not be read at all.
    """

    added: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    faults: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


class FileReading(NamedTuple):
    """What stands in files."""

    found: tuple[Incoming, ...]
    faults: tuple[str, ...]
    broken: tuple[str, ...]


def read(files: Mapping[str, bytes], at: int) -> FileReading:
    """The patterns in `files`, by name; `at` is when they are read."""
    patterns: list[Incoming] = []
    faults: list[str] = []
    broken: list[str] = []
    for name, body in sorted(files.items()):
        # Metrics are derived from the patterns: only these are taken in.
        if _OTHER.search(name):
            continue
        try:
            content = _load(body)
        except ValueError as error:
            broken.append(name)
            faults.append(f"{name}: it cannot be read: {error}; the other files were taken")
            continue
        month = _ARCHIVE.search(name)
        for path, kind, raw in _listed(name, content, faults):
            try:
                pattern, claim = pattern_of(kind, raw, at)
            except ValueError as error:
                faults.append(f"{name}: {_placed(path, error)}")
            else:
                patterns.append(Incoming(pattern, claim, name, month[1] if month else ""))
    return FileReading(tuple(patterns), tuple(faults), tuple(broken))


def _load(body: bytes) -> Any:
    if len(body) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST >> 20} MB")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error


def _listed(name: str, content: Any, faults: list[str]) -> list[tuple[str, Kind, Any]]:
    """Every pattern in a file with its path and kind."""
    entries: list[tuple[str, Kind, Any]] = []
    groups: dict[str, Any] = {}
    if isinstance(content, list):
        groups[""] = content
    elif isinstance(content, dict):
        mapping = cast("dict[str, Any]", content)
        if not {"pattern_id", "template_id"}.isdisjoint(mapping):
            mapping = {"patterns": [mapping]}  # one pattern, as the seed prints it
        inner = mapping.get("pattern_registry")
        prefix = "pattern_registry." if isinstance(inner, dict) else ""
        where = cast("dict[str, Any]", inner) if prefix else mapping
        keys = {*_KEYS.values(), "patterns", "templates"}
        groups = {prefix + key: value for key, value in where.items() if key in keys}
    if not groups:
        faults.append(f"{name}: there are no patterns in it; {', '.join(_KEYS.values())} are known")
    for key, value in groups.items():
        if not isinstance(value, list):
            faults.append(f"{name}: {key}: must be a list, not {type(value).__name__}")
            continue
        for n, raw in enumerate(cast("list[Any]", value)):
            path = f"{key}[{n}]"
            kind = _kind(raw, key, name)
            if kind is None:
                faults.append(
                    f"{name}: {path}: it is of no known kind: its id starts with none of "
                    f"{', '.join(PREFIXES.values())}"
                )
            else:
                entries.append((path, kind, raw))
    return entries


def _kind(raw: Any, key: str, name: str) -> Kind | None:
    for kind, named in _KEYS.items():
        # In this order: the key says it, else the file's name, else the beginning of the id.
        if key.endswith(named):
            return kind
    for kind, form in FORMATS.items():
        if name.endswith(form.file):
            return kind
    if isinstance(raw, dict):
        entry = cast("dict[str, Any]", raw)
        identity = str(entry.get("pattern_id", entry.get("template_id", "")))
        for kind, prefix in PREFIXES.items():
            if identity.startswith(prefix):
                return kind
    return None


def _placed(path: str, error: ValueError) -> str:
    """`Invalid … - at `$.a.b`` as `path.a.b: Invalid …`."""
    message, _, path_in_file = str(error).partition(" - at `$")
    return f"{path}{path_in_file.removesuffix('`')}: {message}"


def imported(tx: Writing, given: Mapping[str, bytes], at: int) -> ImportReport:
    """Take in the patterns of exported files. The same files again change nothing.

    A pattern that says word for word what a known one says is that one. An id that somebody
    else has here is replaced by a fresh one.
    """
    reading = read(given, at)
    added: list[str] = []
    present: list[str] = []
    renamed: list[tuple[str, str]] = []
    for raw in reading.found:
        incoming = raw._replace(pattern=tx.clean(raw.pattern))
        there = _known(tx, incoming)
        if there:
            present.append(there)
            continue
        pattern = incoming.pattern
        # Ids are numbered per registry: the same one elsewhere is another pattern.
        if tx.pattern(pattern.id) is not None or tx.archived(pattern.id) is not None:
            pattern = msgspec.structs.replace(pattern, id=fresh(pattern, tx.ids))
            renamed.append((incoming.pattern.id, pattern.id))
        tx.emit(PatternImported(pattern, incoming.claim, incoming.file))
        if incoming.month:
            # Imported first, archived at once: the archive holds only what was in the registry.
            tx.emit(PatternArchived(pattern.id, "it came from an archive", incoming.month))
        added.append(pattern.id)
    return ImportReport(
        tuple(added), tuple(present), tuple(renamed), reading.faults, reading.broken
    )


def _known(tx: Writing, one: Incoming) -> str:
    same = tx.same(one.pattern)
    if same:
        return same
    old = tx.archived(one.pattern.id)
    return one.pattern.id if old is not None and _says(old) == _says(one.pattern) else ""


def _says(pattern: Pattern) -> tuple[object, ...]:
    return pattern.name, pattern.body

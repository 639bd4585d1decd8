"""Imports pattern files from any source: valid patterns are added, faults are reported.

Every fault names its file and the path in it. Success claimed by a file is recorded as a claim.
Text in it stays data.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip
from taofold.learning.book import Writing
from taofold.learning.events import PatternArchived, PatternImported
from taofold.learning.exchange.records import FORMATS, pattern_of
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import PREFIXES, ImportClaim, fresh

_ARCHIVE: Final = re.compile(r"(?:^|/)archive/(\d{4}-(?:0[1-9]|1[0-2]))-patterns\.json$")
_METRICS: Final = re.compile(r"(?:^|/)effectiveness-metrics\.json$")
_LARGEST: Final = 64 << 20
_LONGEST_FAULT: Final = 300
"""The most characters of a fault, which may quote the file."""


class ImportReport(NamedTuple):
    """The result of an import: new ids, known ids, and faults."""

    added: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def imported(tx: Writing, files: Mapping[str, bytes], at: int) -> ImportReport:
    """Imports the patterns of exported files, by name. Importing the same files again changes
    nothing.

    A pattern with exactly the text of a known one is that one. An id that another pattern has here
    is replaced by a new one.
    """
    added: list[str] = []
    known: list[str] = []
    faults: list[str] = []
    for name, body in sorted(files.items()):
        # Metrics are derived from the patterns: only these are imported.
        if _METRICS.search(name):
            continue
        try:
            content = _load(body)
        except ValueError as error:
            faults.append(f"{name}: it cannot be read: {error}; the other files were taken")
            continue
        month = _ARCHIVE.search(name)
        for path, kind, raw in _listed(name, content, faults):
            try:
                pattern = tx.clean(pattern_of(kind, raw, at))
            except ValueError as error:
                faults.append(f"{name}: {_placed(path, error)}")
                continue
            if there := tx.same(pattern):
                known.append(there)
                continue
            # Ids are numbered per registry: the same id elsewhere is another pattern.
            if pattern.id in tx.ids(pattern.id):
                pattern = msgspec.structs.replace(pattern, id=fresh(pattern, tx.ids))
            tx.emit(PatternImported(pattern, pattern.claim or ImportClaim(), name))
            if month:
                # Imported first, archived at once: the archive holds only patterns from the
                # registry.
                tx.emit(PatternArchived(pattern.id, "it came from an archive", month[1]))
            added.append(pattern.id)
    return ImportReport(tuple(added), tuple(known), tuple(faults))


def _load(body: bytes) -> Any:
    if len(body) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST >> 20} MB")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error


def _listed(name: str, content: Any, faults: list[str]) -> Iterator[tuple[str, Kind, Any]]:
    """Yields every pattern in a file with its path and kind."""
    kinds: dict[str, Kind] = {form.key: kind for kind, form in FORMATS.items()}
    if is_array(content):
        groups = {"": content}
    elif not is_object(content):
        groups = {}
    elif "pattern_id" in content or "template_id" in content:
        # one pattern, as the command for a single pattern prints it
        groups = {"patterns": [content]}
    else:
        inner = content.get("pattern_registry")
        prefix, where = ("pattern_registry.", inner) if is_object(inner) else ("", content)
        keys = {*kinds, "patterns", "templates"}
        groups = {prefix + key: value for key, value in where.items() if key in keys}
    if not groups:
        faults.append(f"{name}: there are no patterns in it; {', '.join(kinds)} are known")
    for key, value in groups.items():
        if not is_array(value):
            faults.append(f"{name}: {key}: must be a list, not {type(value).__name__}")
            continue
        for n, raw in enumerate(value):
            if kind := kinds.get(key.rpartition(".")[2]) or _kind(raw):
                yield f"{key}[{n}]", kind, raw
            else:
                faults.append(
                    f"{name}: {key}[{n}]: it is of no known kind: its id starts with none of "
                    f"{', '.join(PREFIXES.values())}"
                )


def _kind(raw: Any) -> Kind | None:
    """Returns the kind of a pattern by the start of its id, if no key names it."""
    record = raw if is_object(raw) else {}
    identity = str(record.get("pattern_id", record.get("template_id")))
    return next((kind for kind, start in PREFIXES.items() if identity.startswith(start)), None)


def _placed(path: str, error: ValueError) -> str:
    """Converts `Invalid … - at `$.a.b`` to `path.a.b: Invalid …`."""
    message, _, path_in_file = str(error).partition(" - at `$")
    return f"{path}{path_in_file.removesuffix('`')}: {clip(message, _LONGEST_FAULT)}"

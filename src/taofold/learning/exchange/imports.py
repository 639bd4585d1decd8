"""Imports pattern files from any source: valid patterns are added, faults are reported.

Files of loops, as AIWG writes them, are read too, and their patterns extracted. Every fault names
its file and the path in it. Success claimed by a file is recorded as a claim, which counts as
nothing unless `check` returns its licence. Text stays data.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from taofold.core.json_values import DECODER, is_array, is_object
from taofold.core.text import clip
from taofold.learning.book import Writing
from taofold.learning.events import PatternArchived, PatternImported, PatternLicensed
from taofold.learning.exchange.claimed_patterns import claimed_patterns
from taofold.learning.exchange.foreign_loops import foreign_loops, is_of_loop
from taofold.learning.exchange.records import FORMATS, pattern_of, written
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import PREFIXES, ImportClaim, Licence, Pattern, fresh

_ARCHIVE: Final = re.compile(r"(?:^|/)archive/(\d{4}-(?:0[1-9]|1[0-2]))-patterns\.json$")
_METRICS: Final = re.compile(r"(?:^|/)effectiveness-metrics\.json$")
_LARGEST: Final = 64 << 20
_MOST_OTHERS: Final = 20
_LONGEST_FAULT: Final = 300
"""The most characters of a fault, which may quote the file."""


LicenceCheck: TypeAlias = Callable[[Pattern, Any], Licence]
"""Checks the licence that a file has for a pattern. Raises ValueError with the reason."""


class UntrustedLicence(ValueError):
    """No trusted key signed the licence. That is no fault of the file."""


class LicenceTally(NamedTuple):
    """The numbers of licences in an import that was given keys.

    `counting` licences show a benefit and count, those `without_benefit` do not. The `untrusted`
    ones are not signed by a given key. A licence with a fault is in none of the three.
    """

    counting: int = 0
    without_benefit: int = 0
    untrusted: int = 0


class ImportReport(NamedTuple):
    """The result of an import: new ids, known ids, faults, and the loops that were read.

    `added` and `known` include the patterns extracted from the loops.
    """

    added: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    licences: LicenceTally = LicenceTally()


def imported(
    tx: Writing, files: Mapping[str, bytes], at: int, check: LicenceCheck | None = None
) -> ImportReport:
    """Imports the patterns of exported files, by name. Importing the same files again changes
    nothing.

    `check` is called for each pattern with a licence. If it raises, the pattern is imported
    without the licence, and the reason is a fault, unless it is `UntrustedLicence`.

    A pattern with exactly the text of a known one is that one. An id that another pattern has here
    is replaced by a new one.
    """
    report, licences = _Report([], [], []), list[Licence | None]()
    documents: dict[str, Any] = {}
    for name, body in sorted(files.items()):
        # Metrics are derived from the patterns: only these are imported.
        if _METRICS.search(name):
            continue
        try:
            content = _load(body)
        except ValueError as error:
            report.faults.append(f"{name}: it cannot be read: {error}; the other files were taken")
            continue
        if is_of_loop(name):
            documents[name] = content
            continue
        month = _ARCHIVE.search(name)
        for path, kind, raw in _listed(name, content, report.faults):
            try:
                given = pattern_of(kind, raw, at)
                pattern = tx.clean(given)
            except ValueError as error:
                report.faults.append(f"{name}: {_placed(path, error)}")
                continue
            licence = _licence_in(raw)
            # The signature is about the text in the file, not about a text without its secrets.
            if licence is not None and check is not None and pattern.body == given.body:
                try:
                    checked = check(given, licence)
                    pattern = _licensed(pattern, checked)
                    licences.append(checked)
                except UntrustedLicence:
                    licences.append(None)
                except ValueError as error:
                    report.faults.append(
                        f"{name}: {path}: the licence counts as nothing: {error}; the lesson was "
                        "imported without it"
                    )
            report.take(tx, pattern, name, month[1] if month else "")
    loops = foreign_loops(documents, report.faults)
    for draft in claimed_patterns(loops):
        # Through the form of a file: the same bounds hold for every import.
        identified = msgspec.structs.replace(draft, id=fresh(draft, tx.ids))
        try:
            pattern = tx.clean(pattern_of(draft.kind, written(identified), at))
        except ValueError as error:
            report.faults.append(f"{draft.sources[0].loop}: {_placed(draft.kind, error)}")
            continue
        report.take(tx, pattern, f"loop {draft.sources[0].loop}", "")
    return ImportReport(
        tuple(report.added),
        tuple(report.known),
        tuple(report.faults),
        tuple([loop.id for loop in loops]),
        _tally(licences),
    )


def _tally(licences: Sequence[Licence | None]) -> LicenceTally:
    """Counts the checked licences; None stands for one that no given key signed."""
    counting = sum([each is not None and each.helps for each in licences])
    untrusted = licences.count(None)
    return LicenceTally(counting, len(licences) - counting - untrusted, untrusted)


def _licence_in(raw: Any) -> Any:
    """Returns the licence that a pattern of a file has; None without one."""
    own = raw.get("taofold") if is_object(raw) else None
    return own.get("licence") if is_object(own) else None


def _licensed(pattern: Pattern, licence: Licence) -> Pattern:
    claim = pattern.claim or ImportClaim()
    return msgspec.structs.replace(pattern, claim=msgspec.structs.replace(claim, licence=licence))


class _Report(NamedTuple):
    """The lists of a report while they grow."""

    added: list[str]
    known: list[str]
    faults: list[str]

    def take(self, tx: Writing, pattern: Pattern, file: str, month: str) -> None:
        """Adds the pattern, unless it is known; with a `month`, to the archive."""
        if there := tx.same(pattern):
            self.known.append(there)
            if pattern.claim is not None and pattern.claim.licence is not None:
                tx.emit(PatternLicensed(there, pattern.claim.licence))
            return
        # Ids are numbered per registry: the same id elsewhere is another pattern.
        if pattern.id in tx.ids(pattern.id):
            pattern = msgspec.structs.replace(pattern, id=fresh(pattern, tx.ids))
        tx.emit(PatternImported(pattern, pattern.claim or ImportClaim(), file))
        if month:
            # Imported first, archived at once: the archive holds only patterns from the registry.
            tx.emit(PatternArchived(pattern.id, "it came from an archive", month))
        self.added.append(pattern.id)


def _load(body: bytes) -> Any:
    if len(body) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST >> 20} MB")
    try:
        content = msgspec.json.decode(body)
        # A second value of a key would hide the first one.
        DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    return content


def _listed(name: str, content: Any, faults: list[str]) -> Iterator[tuple[str, Kind, Any]]:
    """Yields every pattern in a file with its path and kind."""
    kinds: dict[str, Kind] = {form.key: kind for kind, form in FORMATS.items()}
    if is_array(content):
        groups = {"": content}
    elif not is_object(content):
        groups = {}
    elif _is_pattern(content):
        # one pattern, as the command for a single pattern prints it
        groups = {"patterns": [content]}
    elif single := {key: [each] for key, each in content.items() if _is_pattern(each)}:
        # patterns under names of their own: `pattern:`, `error_pattern_example:`
        groups = single
        _report_others(name, content, {*single}, faults)
    else:
        inner = content.get("pattern_registry")
        prefix, where = ("pattern_registry.", inner) if is_object(inner) else ("", content)
        keys = {*kinds, "patterns", "templates"}
        groups = {prefix + key: value for key, value in where.items() if key in keys}
        _report_others(name + ": pattern_registry" * bool(prefix), where, keys, faults)
        if prefix:
            _report_others(name, content, {"pattern_registry"}, faults)
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


def _report_others(
    name: str, content: Mapping[str, Any], known: Set[str], faults: list[str]
) -> None:
    """Reports lists under keys that hold no known patterns."""
    if content.keys() & known:
        faults += [
            f"{name}: {clip(repr(key), 60)}: this list is of no known kind and was left out"
            for key, value in content.items()
            if is_array(value) and value and key not in known
        ][:_MOST_OTHERS]


def _is_pattern(raw: Any) -> bool:
    return is_object(raw) and ("pattern_id" in raw or "template_id" in raw)


def _kind(raw: Any) -> Kind | None:
    """Returns the kind of a pattern by its type or the start of its id, if no key names it."""
    record = raw if is_object(raw) else {}
    for kind, form in FORMATS.items():
        if record.get("type") in (form.type, kind):
            return kind
    identity = str(record.get("pattern_id", record.get("template_id")))
    return next((kind for kind, start in PREFIXES.items() if identity.startswith(start)), None)


def _placed(path: str, error: ValueError) -> str:
    """Converts `Invalid … - at `$.a.b`` to `path.a.b: Invalid …`."""
    message, _, path_in_file = str(error).partition(" - at `$")
    return f"{path}{path_in_file.removesuffix('`')}: {clip(message, _LONGEST_FAULT)}"

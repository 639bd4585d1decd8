"""Pattern files on disk: exported atomically, imported as far as they are valid.

A name that ends in `.json` is one file with everything, any other a folder in AIWG's layout
`.aiwg/ralph`. An export keeps the entries of others: loops, patterns, tasks and active loops
(`learning.exchange.joining`). It copies a file to `NAME.bak` before it replaces something in it
that is not its own. An import writes
nothing beside the files it reads. Files of a folder that cannot be read are reported, and the
others are read.
"""

import asyncio
import codecs
import os
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core.errors import ConfigError, LogError
from taofold.core.json_values import is_object
from taofold.learning.exchange.exports import Licensing, bundle
from taofold.learning.exchange.foreign_loops import is_of_loop
from taofold.learning.exchange.imports import ImportReport, LicenceCheck
from taofold.learning.exchange.joining import joined
from taofold.learning.registry import Registry
from taofold.log.formats.yaml_document import DocumentFault, check_json, load
from taofold.reserved_places import make_folder, open_file, read_file, read_named, write_file

_SHARED = "shared"
"""The seed's folder of patterns, archive and metrics, beside `memory` and `loops`."""
_FOLDERS: Final = (
    "",
    "patterns",
    "archive",
    f"{_SHARED}/patterns",
    f"{_SHARED}/archive",
    "memory/patterns",
)
"""The folders searched for patterns: of the seed's layout, and of release 0.1."""
_NO_PATTERNS: Final = frozenset(
    {"registry", "effectiveness-metrics", "session-state", "memory-config", "patterns-index"}
)
"""Files in these folders that hold no patterns, without their ending."""
_ENDINGS: Final = (".json", ".yaml", ".yml")
_BELOW: Final = ("", ".aiwg/ralph", "ralph")
"""The places of the layout in a named folder: itself, a project, or its folder `.aiwg`."""
_DEEPEST: Final = 5
"""The most folders between the named one and a file."""
_MOST_FILES: Final = 5000
_MOST_ENTRIES: Final = 50_000
_MOST_BYTES: Final = 256 << 20
_MOST_BACKUPS: Final = 100
_LARGEST: Final = 64 << 20
_LARGEST_YAML: Final = 1 << 20
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Marks at the start of a file, as programs on Windows write them, and the encodings."""


async def export_to(
    registry: Registry, path: Path, licensing: Licensing | None = None
) -> list[Path]:
    """Writes the whole registry. Returns the files. With `licensing`, own patterns have licences.

    Raises:
        LogError: A file cannot be written; each written one is complete.
    """
    contents = await registry.export(licensing)
    patterns, archive = await registry.patterns(), await registry.archive()
    known = frozenset([each.id for each in (*patterns, *[each for each, _ in archive])])
    if path.suffix == ".json":
        return await asyncio.to_thread(_write, {path: bundle(contents)}, path.parent, known)
    return await write_files(contents, path, known)


async def write_files(
    contents: Mapping[str, Any], folder: Path, known: Set[str] = frozenset()
) -> list[Path]:
    """Writes files of AIWG's layout, by their names below `folder`. Returns the written ones.

    Args:
        contents: The contents by name.
        folder: The folder.
        known: Ids of all own patterns. Other patterns in the folder stay there.

    Raises:
        LogError: A file cannot be written; each written one is complete.
    """
    files = {folder / _file_name(name): content for name, content in contents.items()}
    return await asyncio.to_thread(_write, files, folder, known)


async def import_from(
    registry: Registry, path: Path, check: LicenceCheck | None = None
) -> ImportReport:
    """Imports the file, or the folder, `path`. `check` decides which licences count.

    Raises:
        LogError: Nothing at `path` can be read.
    """
    read = await asyncio.to_thread(_read, path)
    report = await registry.import_(read.files, check)
    return report._replace(faults=(*read.faults, *report.faults))


def _write(files: Mapping[Path, Any], place: Path, known: Set[str] = frozenset()) -> list[Path]:
    # The user named this folder; files and folders below it must not be links.
    done: list[Path] = []
    kept: dict[Path, bool] = {}
    for file, content in files.items():
        try:
            make_folder(file.parent, place=place)
            loop = _loop_folder(file, place)
            if loop is not None:
                # Asked once, before the loop's own state is replaced.
                if loop not in kept:
                    kept[loop] = _belongs_to_another(loop, content, place)
                if kept[loop]:
                    continue
            body: bytes | None = None
            with suppress(FileNotFoundError):
                body = read_file(file, place=place)
            if body is not None:
                content, complete = joined(content, body, known)
                if not complete:
                    done.append(_backup(file, body, place))
            text = msgspec.json.format(msgspec.json.encode(content), indent=2)
            write_file(file, text + b"\n", place=place)
        except OSError as error:
            raise LogError(f"{str(file)!r} cannot be written: {error.strerror or error}") from error
        done.append(file)
    return done


def _backup(file: Path, body: bytes, place: Path) -> Path:
    """Writes the old content to `NAME.bak`, or to `NAME.2.bak` if that is another content."""
    for number in range(1, _MOST_BACKUPS):
        ending = "bak" if number == 1 else f"{number}.bak"
        backup = file.with_name(f"{file.name}.{ending}")
        try:
            if read_file(backup, place=place) != body:
                continue
        except FileNotFoundError:
            pass
        try:
            write_file(backup, body, place=place)
        except OSError as error:
            raise LogError(
                f"{str(file)!r} would be replaced, and its backup {str(backup)!r} failed: "
                f"{error.strerror}"
            ) from error
        return backup
    raise LogError(f"{str(file)!r} has {_MOST_BACKUPS} backups; move them away, then export again")


def _file_name(name: str) -> str:
    own = name.startswith(("memory/", "loops/")) or name == "registry.json"
    return name if own else f"{_SHARED}/{name}"


def _loop_folder(file: Path, place: Path) -> Path | None:
    parts = file.relative_to(place).parts
    return place / parts[0] / parts[1] if parts[0] == "loops" and len(parts) > 2 else None


def _belongs_to_another(folder: Path, content: Any, place: Path) -> bool:
    """Returns whether AIWG wrote the loop, or the files there know more than the new ones."""
    try:
        state = msgspec.json.decode(read_file(folder / "state.json", place=place))
    except FileNotFoundError:
        # The state of an own loop is written before its other files.
        return any(each.is_file() for each in folder.rglob("*"))
    except (OSError, ConfigError, msgspec.DecodeError, RecursionError):
        return False
    there, new = (each.get("taofold") if is_object(each) else None for each in (state, content))
    if not is_object(there):
        return True
    complete = is_object(new) and new.get("source") == "registry"
    return complete and there.get("source") == "loop"


class _Files(NamedTuple):
    """The files of a folder by name, as JSON, and the reasons against others."""

    files: dict[str, bytes]
    faults: tuple[str, ...] = ()


def _read(path: Path) -> _Files:
    if not path.is_dir():
        try:
            body = read_named(path)
        except OSError as error:
            raise LogError(f"{error.filename!r} cannot be read: {error.strerror}") from error
        try:
            return _Files({str(path): _as_json(str(path), body)})
        except ValueError as error:
            return _Files({}, (f"{path}: it cannot be read: {error}",))
    if (path / "SKILL.md").is_file():
        # A skill with learnt patterns has all of them in one file.
        return _read(path / "references" / "patterns.json")
    for below in _BELOW:
        # A project's folder holds many other files: only the layout's own folder is read.
        files = _read_folder(path / below) if (path / below).is_dir() else _Files({})
        if files.files or files.faults:
            return files
    raise LogError(
        f"there are no pattern files and no loops in {str(path)!r}: *.json, or in its folder "
        "'patterns' or 'loops'"
    )


def _read_folder(folder: Path) -> _Files:
    files: dict[str, bytes] = {}
    faults: list[str] = []
    total = 0
    for name in sorted(_names(folder, faults)):
        if len(files) >= _MOST_FILES or total > _MOST_BYTES:
            faults.append(f"{name}: it and all after it were left out: the folder is too large")
            break
        try:
            # A FIFO would never end, and a link leads out of the named folder.
            body = _bounded(folder / name, folder)
            total += len(body)
            files[name] = _as_json(name, body)
        except (ValueError, ConfigError) as error:
            faults.append(f"{name}: it cannot be read: {error}; the other files were taken")
        except OSError as error:
            why = error.strerror or error
            faults.append(f"{name}: it cannot be read: {why}; the other files were taken")
    return _Files(files, tuple(faults))


def _names(folder: Path, faults: list[str]) -> Iterator[str]:
    """Yields the files that hold patterns or loops, by their path below `folder`."""
    left = [("", 0)]
    seen = 0
    while left:
        name, depth = left.pop()
        try:
            entries = sorted(os.scandir(folder / name), key=lambda entry: entry.name)
        except OSError as error:
            faults.append(f"{name or '.'}: it cannot be read: {error.strerror or error}")
            continue
        for entry in entries:
            seen += 1
            if seen > _MOST_ENTRIES:
                faults.append(f"{name or '.'}: there are more than {_MOST_ENTRIES} files in it")
                return
            path = f"{name}/{entry.name}" if name else entry.name
            if not path.isprintable():
                faults.append(f"{path!r}: its name is not readable, so it was left out")
            elif entry.is_symlink() and _concerns(path):
                faults.append(f"{path}: it is a link, so it was left out")
            elif entry.is_dir(follow_symlinks=False):
                if depth < _DEEPEST and (depth or entry.name in _TOP):
                    left.append((path, depth + 1))
            elif _concerns(path):
                yield path


_TOP: Final = frozenset(
    {
        "analytics",
        "archive",
        "debug-memory",
        "iterations",
        "loops",
        "memory",
        "patterns",
        "reflections",
        _SHARED,
    }
)


def _concerns(name: str) -> bool:
    """Returns whether a file, by its path, holds patterns or is about a loop."""
    file = PurePosixPath(name)
    if file.suffix not in _ENDINGS:
        return False
    folder = "" if file.parent == PurePosixPath() else str(file.parent)
    return is_of_loop(name) or (folder in _FOLDERS and file.stem not in _NO_PATTERNS)


def _bounded(file: Path, place: Path) -> bytes:
    most = _LARGEST if file.suffix == ".json" else _LARGEST_YAML
    with os.fdopen(open_file(file, trust="content", place=place), "rb") as opened:
        body = opened.read(most + 1)
    if len(body) > most:
        raise ValueError(f"it is larger than {most >> 20} MB")
    return body


def _as_json(name: str, body: bytes) -> bytes:
    """Returns the file as JSON in UTF-8; a YAML file of several documents is a list.

    Raises:
        ValueError: It is not text of its encoding, or not YAML.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            try:
                body = body.decode(encoding).encode()
            except UnicodeError:
                raise ValueError(f"not text in {encoding.upper()}") from None
            break
    if not name.endswith((".yaml", ".yml")):
        return body
    if len(body) > _LARGEST_YAML:
        raise ValueError(f"it is larger than {_LARGEST_YAML >> 20} MB")
    try:
        documents = load(body.decode(), "line")
        for document in documents:
            check_json(document, ())
        return msgspec.json.encode(documents[0] if len(documents) == 1 else documents)
    except UnicodeError:
        raise ValueError("not text in UTF-8") from None
    except (ConfigError, DocumentFault, msgspec.ValidationError, OverflowError) as error:
        raise ValueError(str(error)) from None

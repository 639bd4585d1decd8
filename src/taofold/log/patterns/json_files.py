"""Pattern files on disk: exported atomically, imported as far as they are valid.

A name that ends in `.json` is one file with everything, any other a folder in the seed's layout. An
export copies a damaged file to `NAME.bak` before it replaces it. An import writes nothing beside
the files it reads.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from taofold.core.errors import LogError
from taofold.learning.exchange.exports import bundle
from taofold.learning.exchange.imports import ImportReport
from taofold.learning.registry import Registry
from taofold.reserved_places import make_folder, read_file, read_named, write_file

_SHARED = "shared"
"""The seed's folder of patterns, archive and metrics, beside `memory` and `loops`."""
_FOLDERS = ("", "patterns", "archive", f"{_SHARED}/patterns", f"{_SHARED}/archive")
"""The folders searched for patterns: of the seed's layout, and of release 0.1."""


async def export_to(registry: Registry, path: Path) -> list[Path]:
    """Writes the whole registry. Returns the files.

    Raises:
        LogError: A file cannot be written; each written one is complete.
    """
    return await asyncio.to_thread(_export, await registry.export(), path)


async def import_from(registry: Registry, path: Path) -> ImportReport:
    """Imports the file, or the folder, `path`.

    Raises:
        LogError: Nothing at `path` can be read.
    """
    files = await asyncio.to_thread(_read, path)
    return await registry.import_({str(file): body for file, body in files.items()})


def _export(contents: dict[str, Any], path: Path) -> list[Path]:
    # The user named this folder; files and folders below it must not be links.
    place = path
    if path.suffix == ".json":
        place, files = path.parent, {path: bundle(contents)}
    else:
        files = {path / _file_name(name): content for name, content in contents.items()}
    for file, content in files.items():
        body = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
        try:
            make_folder(file.parent, place=place)
            with suppress(FileNotFoundError):
                _back_up_if_damaged(file, read_file(file, place=place), place)
            write_file(file, body, place=place)
        except OSError as error:
            raise LogError(f"{str(file)!r} cannot be written: {error.strerror or error}") from error
    return list(files)


def _file_name(name: str) -> str:
    return name if name.startswith(("memory/", "loops/")) else f"{_SHARED}/{name}"


def _read(path: Path) -> dict[Path, bytes]:
    if path.is_dir():
        # In a fixed order, so that two imports of one folder have the same result.
        files = [file for name in _FOLDERS for file in sorted((path / name).glob("*.json"))]
        if not files:
            raise LogError(
                f"there are no pattern files in {str(path)!r}: *.json, or in its folder 'patterns'"
            )
    else:
        files = [path]
    try:
        if not path.is_dir():
            return {path: read_named(path)}
        # A FIFO would never end, and a link leads out of the named folder.
        return {file: read_file(file, trust="content", place=path) for file in files}
    except OSError as error:
        raise LogError(f"{error.filename!r} cannot be read: {error.strerror}") from error


def _back_up_if_damaged(file: Path, body: bytes, place: Path) -> None:
    """Writes `body`, the content of the file, to `NAME.bak` if it is not JSON."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        backup = file.with_name(f"{file.name}.bak")
        try:
            write_file(backup, body, place=place)
        except OSError as error:
            raise LogError(
                f"{str(file)!r} is damaged, and its backup {str(backup)!r} failed: {error.strerror}"
            ) from error

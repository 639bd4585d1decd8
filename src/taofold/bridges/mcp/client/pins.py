"""`Pins`: which definitions of an MCP server's tools are let in, by a person or at first sight.

They are like ssh's known hosts: the first time a server is met its definitions are taken as they
are, and kept in the operator's folder, out of reach of the agent's work root. From then on that is
what a model is shown; a definition that changed, or a tool that is new, counts only when a person
has accepted it. Knows nothing about connections or calls.
"""

import secrets
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.definitions import Definition, without_prose
from taofold.core.errors import ConfigError
from taofold.reserved_places import operator_folder

FOLDER: Final = "mcp"
_FORMAT: Final = 1


class PinFile(NamedTuple):
    """What was accepted of one server, as it is kept."""

    name: str
    """Of the file, without its ending."""
    server: str
    """Where the server is, in words; "" in a file of an earlier release or that cannot be read."""
    tools: tuple[str, ...]
    path: Path


class Pins:
    """Of one server. Without a `path` they last as long as the process.

    `server` says in the file, to people, whose tools they are.
    """

    def __init__(self, path: Path | None = None, server: str = "") -> None:
        self._path, self._server = path, server
        self._known: dict[str, Definition] = {}
        self._read = path is None
        self._met = False

    @staticmethod
    def file(address: ServerAddress, folder: Path | None = None) -> Path:
        """Where the pins of the server at `address` are kept."""
        name = f"{address.label}-{address.digest}.json"
        return (operator_folder() / FOLDER if folder is None else folder) / name

    @staticmethod
    def files(folder: Path | None = None) -> list[PinFile]:
        """All that are kept in `folder`, by name; left out: the operator's folder."""
        pins = operator_folder() / FOLDER if folder is None else folder
        files: list[PinFile] = []
        for path in sorted(pins.glob("*.json")):
            try:
                held = msgspec.json.decode(path.read_bytes())
                names = tuple([str(entry["name"]) for entry in held["tools"]])
                files.append(PinFile(path.stem, str(held.get("server", "")), names, path))
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                files.append(PinFile(path.stem, "", (), path))
        return files

    @property
    def met(self) -> bool:
        """Was the server met before, whatever it offered?

        Raises:
            ConfigError: as `known`.
        """
        self.known()
        return self._met

    def known(self, *, fresh: bool = False) -> dict[str, Definition]:
        """By the names that the server gives them. `fresh` looks again.

        Raises:
            ConfigError: the file is damaged: nobody can say any more what was accepted.
        """
        if self._read and not fresh:
            return self._known
        self._read = True
        if self._path is not None and self._path.exists():
            try:
                held = msgspec.json.decode(self._path.read_bytes())
                self._known = {entry["name"]: Definition(**entry) for entry in held["tools"]}
                self._met = True
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise ConfigError(
                    f"the tools that were accepted cannot be read ({error}): look at the file, "
                    "or delete it to accept the server's tools as they are now",
                    path=str(self._path),
                ) from error
        return self._known

    def add(self, definitions: Iterable[Definition]) -> None:
        """Take these in: met for the first time, or accepted by a person."""
        self._known = {
            # Read again: another process may have accepted something meanwhile.
            **self.known(fresh=True),
            **{definition.name: definition for definition in definitions},
        }
        self._met = True
        if self._path is None:
            return
        body = {
            "format": _FORMAT,
            "server": self._server,
            "tools": [asdict(definition) for definition in self._known.values()],
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = self._path.with_suffix(f".{secrets.token_hex(4)}")
            beside.write_bytes(msgspec.json.format(msgspec.json.encode(body)))
            # Whole or not at all; of two writers at once the last one's file stays.
            beside.replace(self._path)
        except OSError as error:
            raise ConfigError(
                f"what was accepted of a server's tools cannot be kept: {error}",
                path=str(self._path),
            ) from error


def offered_definition(
    known: dict[str, Definition], listed: Iterable[Definition]
) -> list[Definition]:
    """What a model may be shown: of what is listed now, the definition that was accepted.

    Of a tool that nobody has accepted, the bare form of its call.
    """
    return [known.get(definition.name) or without_prose(definition) for definition in listed]

"""What is known of a server's tools from before: the definitions a person has let in.

Like ssh's known hosts: the first time a server is met its definitions are taken as they are, and
kept in the operator's folder, out of reach of the agent's work root. From then on that is what a
model is shown; a definition that changed, or a tool that is new, counts only when a person has
accepted it.
"""

import secrets
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from taofold.bridges.mcp_definitions import Definition, bare
from taofold.bridges.mcp_place import Place
from taofold.core.errors import ConfigError
from taofold.reserved import operator_folder

FOLDER: Final = "mcp"
_FORMAT: Final = 1


class Pins:
    """Of one server. Without a `path` they last as long as the process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[str, Definition] = {}
        self._read = path is None
        self._met = False

    @staticmethod
    def file(place: Place, folder: Path | None = None) -> Path:
        """Where the pins of the server at `place` are kept."""
        name = f"{place.label}-{place.digest}.json"
        return (operator_folder() / FOLDER if folder is None else folder) / name

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
                self._known = {one["name"]: Definition(**one) for one in held["tools"]}
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
        self._known = {**self.known(fresh=True), **{one.name: one for one in definitions}}
        self._met = True
        if self._path is None:
            return
        body = {"format": _FORMAT, "tools": [asdict(one) for one in self._known.values()]}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = self._path.with_suffix(f".{secrets.token_hex(4)}")
            beside.write_bytes(msgspec.json.format(msgspec.json.encode(body)))
            beside.replace(self._path)
        except OSError as error:
            raise ConfigError(
                f"what was accepted of a server's tools cannot be kept: {error}",
                path=str(self._path),
            ) from error


def offered(known: dict[str, Definition], listed: Iterable[Definition]) -> list[Definition]:
    """What a model may be shown: of what is listed now, the definition that was accepted.

    Of a tool that nobody has accepted, the bare form of its call.
    """
    return [known.get(one.name) or bare(one) for one in listed]

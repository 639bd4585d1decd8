"""Where an MCP server is and how it is reached. Knows nothing about tools or runs.

Values of the environment and headers may hold `${NAME}`: they are filled in from this process's
environment when the server is started, so that no secret stands in a file.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from taofold.core.errors import ConfigError
from taofold.core.value import is_array
from taofold.policy.redaction import Redactor

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_AROUND: Final = re.compile(r"^(?:mcp[-_])?(?:server[-_])?|(?:[-_]mcp)?(?:[-_]server)?$")
_VERSION: Final = re.compile(r"(?<=.)@[^/]*$")
_ODD: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Place:
    """A program to start, an address, or (`server`) a server object in this process."""

    kind: Literal["stdio", "http", "sse", "here"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    header_source: Any = field(default=None, repr=False)
    """Gives the headers instead of `headers`: a function without parameters."""
    server: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if is_array(self.command) or not isinstance(self.command, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"the command of a server is one program, not {self.command!r}")
        if self.kind == "stdio" and not self.command.strip():
            raise ConfigError("a stdio server needs the command that starts it")
        if self.kind in ("http", "sse"):
            wrong = f"a server's url is http(s)://…, not {self.url!r}"
            try:
                parts = urlsplit(self.url)
                fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            except ValueError as error:
                raise ConfigError(wrong) from error
            if not fine:
                raise ConfigError(wrong)
            if parts.username or parts.password:
                raise ConfigError("credentials do not belong in a url: use headers with ${NAME}")

    @property
    def digest(self) -> str:
        """The same for the same place, whatever its secrets are."""
        said = (self.kind, self.command, self.args, self.cwd, self.url)
        return blake2b(msgspec.json.encode(said), digest_size=8).hexdigest()

    @property
    def words(self) -> str:
        """For messages: without what looks like a secret."""
        if self.kind == "stdio":
            said = Redactor().text(" ".join(" ".join([self.command, *self.args]).split()))
            return said if len(said) <= 100 else f"{said[:100]}…"
        return Redactor().text(self.url) or "a server in this process"

    @property
    def label(self) -> str:
        """A short name: of the program, the package it runs, or the host."""
        if self.kind == "stdio":
            words = [
                self.command,
                *[one for one in self.args if not one.startswith(("-", "/", "."))],
            ]
            known = [one for one in words if "mcp" in one or "server" in one]
            said = PurePath(_VERSION.sub("", (known or words)[0])).name.removesuffix(".py")
        else:
            said = (urlsplit(self.url).hostname or "local").removeprefix("www.").partition(".")[0]
        short = _AROUND.sub("", said) or said
        plain = _ODD.sub("_", short).strip("_").lower() or "mcp"
        return plain if plain[0].isalpha() else f"mcp_{plain}"


def filled(
    values: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """`values` with each `${NAME}` replaced.

    Raises:
        ConfigError: a variable is not set.
    """
    missing = sorted(
        {n for said in values.values() for n in _VARIABLE.findall(said) if n not in environment}
    )
    if missing:
        raise ConfigError(f"set the environment variable {', '.join(missing)}: a server needs it")
    return {
        name: _VARIABLE.sub(lambda match: environment[match.group(1)], said)
        for name, said in values.items()
    }

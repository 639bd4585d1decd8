"""`ServerAddress`: how one MCP server is started or reached, and as whom (headers, `OAuth`); and
what it is called: a digest that outlasts its secrets, words for messages, a short label.

Values of the environment and headers may hold `${NAME}`: they are filled in from this process's
environment when the server is started, so that no secret stands in a file. Nothing here connects.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array
from taofold.core.text import clip
from taofold.core.values import Principal
from taofold.network import http_parts
from taofold.policy.redaction import Redactor

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_AROUND: Final = re.compile(r"^(?:mcp[-_])?(?:server[-_])?|(?:[-_]mcp)?(?:[-_]server)?$")
_VERSION: Final = re.compile(r"(?<=.)@[^/]*$")
_ODD: Final = re.compile(r"[^A-Za-z0-9]+")

_LOCAL: Final = Principal().id

Grant = Literal["authorization_code", "client_credentials"]


@dataclass(frozen=True, slots=True)
class OAuth:
    """How this client is known at a server's authorization server.

        McpServer.http(url, oauth=OAuth())                      # `taofold mcp login URL` first
        McpServer.http(url, oauth=OAuth(grant="client_credentials", client_id="me",
                                        client_secret="${SECRET}", issuer="https://auth.example"))

    `client_secret` may hold `${NAME}`, which is taken from the environment when it is needed.
    """

    client_id: str = ""
    """Empty: the client registers itself when somebody signs in."""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    """Empty: what the server asks for."""
    grant: Grant = "authorization_code"
    issuer: str = ""
    """The authorization server that the client is registered with; it gets no secret elsewhere."""
    per_principal: bool = False
    """Does each principal sign in for itself? Else all runs call as the user of this process."""

    def __post_init__(self) -> None:
        if self.client_secret and not self.issuer:
            # Else any MCP server could name an authorization server of its own and get the secret.
            raise ConfigError("a client_secret needs the issuer at which it is registered")
        if self.grant != "client_credentials":
            if self.client_secret and not self.client_id:
                raise ConfigError("a client_secret belongs to a client_id")
            return
        if not (self.client_id and self.client_secret):
            raise ConfigError("the grant client_credentials needs client_id and client_secret")
        if self.per_principal:
            raise ConfigError("the grant client_credentials has no principals: nobody signs in")


@dataclass(frozen=True, slots=True)
class ServerAddress:
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
    personal: bool = False
    """Does `header_source` take a principal? See `of`."""
    server: Any = field(default=None, repr=False)
    oauth: OAuth | None = None
    principal: str = ""
    """Whose tokens are used; "" = those of the user of this process."""

    def __post_init__(self) -> None:
        if is_array(self.command) or not isinstance(self.command, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"the command of a server is one program, not {self.command!r}")
        if self.kind == "stdio" and not self.command.strip():
            raise ConfigError("a stdio server needs the command that starts it")
        if self.kind in ("http", "sse"):
            try:
                parts = http_parts(self.url)
            except ValueError as error:
                raise ConfigError(f"a server's url is http(s)://…, not {self.url!r}") from error
            if parts.username or parts.password:
                raise ConfigError("credentials do not belong in a url: use headers with ${NAME}")

    @property
    def per_principal(self) -> bool:
        """Has each principal credentials of its own, and so a connection of its own?"""
        return self.personal or (self.oauth is not None and self.oauth.per_principal)

    def of(self, principal: Principal | None) -> "ServerAddress":
        """The same place, with the credentials of `principal` where each has its own.

        None, and whoever uses this process on the command line, is the user of this process.
        """
        address = self
        if self.personal:
            source = partial(self.header_source, principal)
            address = replace(address, header_source=source, personal=False)
        if self.oauth is not None and self.oauth.per_principal:
            who = _LOCAL if principal is None else principal.id
            address = replace(address, principal="" if who == _LOCAL else who)
        return address

    @property
    def digest(self) -> str:
        """The same for the same place, whatever its secrets are."""
        # Without `env` and headers: a renewed key is no new server.
        identity = (self.kind, self.command, self.args, self.cwd, self.url)
        return blake2b(msgspec.json.encode(identity), digest_size=8).hexdigest()

    @property
    def words(self) -> str:
        """For messages: without what looks like a secret."""
        if self.kind == "stdio":
            words = " ".join([self.command, *self.args]).split()
            return clip(Redactor(guesses=True).text(" ".join(words)), 100)
        return Redactor(guesses=True).text(self.url) or "a server in this process"

    @property
    def label(self) -> str:
        """A short name: of the program, the package it runs, or the host."""
        name = self._program() if self.kind == "stdio" else self._host()
        short = _AROUND.sub("", name) or name
        plain = _ODD.sub("_", short).strip("_").lower() or "mcp"
        return plain if plain[0].isalpha() else f"mcp_{plain}"

    def _program(self) -> str:
        arguments = [word for word in self.args if not word.startswith(("-", "/", "."))]
        words = [self.command, *arguments]
        telling = [word for word in words if "mcp" in word or "server" in word]
        return PurePath(_VERSION.sub("", (telling or words)[0])).name.removesuffix(".py")

    def _host(self) -> str:
        return (urlsplit(self.url).hostname or "local").removeprefix("www.").partition(".")[0]


def with_environment(values: Mapping[str, str]) -> dict[str, str]:
    """`values` with each `${NAME}` replaced.

    Raises:
        ConfigError: a variable is not set.
    """
    missing = sorted(
        {n for value in values.values() for n in _VARIABLE.findall(value) if n not in os.environ}
    )
    if missing:
        raise ConfigError(f"set the environment variable {', '.join(missing)}: a server needs it")
    return {
        name: _VARIABLE.sub(lambda match: os.environ[match.group(1)], value)
        for name, value in values.items()
    }

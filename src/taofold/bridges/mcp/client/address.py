"""`ServerAddress`: how one MCP server is started or reached, with its credentials and its names.

The credentials are headers or `OAuth`. The names are a digest that does not depend on secrets, a
text for messages and a short label. Environment values and headers may contain `${NAME}`, which is
replaced from this process's environment when the server starts, so that files hold no secrets. This
module opens no connection.
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
    """The client's registration at a server's authorization server.

        McpServer.http(url, oauth=OAuth())                      # `taofold mcp login URL` first
        McpServer.http(url, oauth=OAuth(grant="client_credentials", client_id="me",
                                        client_secret="${SECRET}", issuer="https://auth.example"))

    `client_secret` may contain `${NAME}`, which is replaced from the environment on use.
    """

    client_id: str = ""
    """Empty: the client registers itself at sign-in."""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    """Empty: the scope that the server requests."""
    grant: Grant = "authorization_code"
    issuer: str = ""
    """The authorization server with the registration. The secret is sent to no other server."""
    per_principal: bool = False
    """True: each principal signs in itself. False: all runs use the tokens of this process's
    user."""

    def __post_init__(self) -> None:
        if self.client_secret and not self.issuer:
            # Otherwise any MCP server could name its own authorization server and get the secret.
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
    """A program to start, a URL, or (`server`) a server object in this process."""

    kind: Literal["stdio", "http", "sse", "here"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    header_source: Any = field(default=None, repr=False)
    """A function without parameters that returns the headers, instead of `headers`."""
    personal: bool = False
    """True if `header_source` takes a principal; see `of`."""
    server: Any = field(default=None, repr=False)
    oauth: OAuth | None = None
    principal: str = ""
    """The principal whose tokens are used; "" = the user of this process."""

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
        """True if each principal has its own credentials, and so its own connection."""
        return self.personal or (self.oauth is not None and self.oauth.per_principal)

    def of(self, principal: Principal | None) -> "ServerAddress":
        """Returns this address with the credentials of `principal` if each principal has its own.

        None and the command line's principal stand for the user of this process.
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
        """A digest of the address, independent of its secrets."""
        # Without `env` and headers, because a renewed key is no new server.
        identity = (self.kind, self.command, self.args, self.cwd, self.url)
        return blake2b(msgspec.json.encode(identity), digest_size=8).hexdigest()

    @property
    def words(self) -> str:
        """The address for messages, without values that look like secrets."""
        if self.kind == "stdio":
            words = " ".join([self.command, *self.args]).split()
            return clip(Redactor(guesses=True).text(" ".join(words)), 100)
        return Redactor(guesses=True).text(self.url) or "a server in this process"

    @property
    def label(self) -> str:
        """A short name: the program, the package it runs, or the host."""
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
    """Returns `values` with each `${NAME}` replaced.

    Raises:
        ConfigError: A variable is not set.
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

"""The secret of the principal `local`: whoever can read this user's own file is this user.

An address proves nothing: a command of an agent, a browser's page and another user of the
machine all come from loopback. So a program on this machine proves with a secret that it runs
with the user's rights. It lies outside every project, in a folder that no file tool and no
contained command reaches (`taofold.reserved`).
"""

import hmac
from pathlib import Path
from secrets import token_hex, token_urlsafe
from typing import Any, Final

from taofold.core.value import is_object
from taofold.reserved import state_folder
from taofold.server.kept import Form, Kept

NAME: Final = "local-token.json"


def _token(said: Any) -> str:
    token = said.get("token") if is_object(said) else None
    if not isinstance(token, str) or len(token) < 32:
        raise ValueError("it holds no token")
    return token


_FORM: Final = Form[str]("", _token, lambda token: {"token": token})


class LocalToken:
    """The token in the file at `path`, made at the first need; without one, in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._kept = Kept(path, _FORM)

    @classmethod
    def of_user(cls) -> "LocalToken":
        """The one of the user that this process runs as."""
        return cls(state_folder() / NAME)

    def value(self) -> str:
        """The token. Blocks when it is made. Delete the file to have another.

        Raises:
            ConfigError: the file cannot be read, or others can read it.
            LogError: it cannot be written.
        """
        known = self._kept.value()
        if known:
            return known
        if self.path is not None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._kept.change(lambda token: token or f"tf_{token_hex(4)}_{token_urlsafe(32)}")
        return self._kept.value()

    def matches(self, said: str) -> bool:
        """Is it the token? Where none was made, nothing is.

        Raises:
            ConfigError: the file cannot be read.
        """
        known = self._kept.value()
        return bool(known) and hmac.compare_digest(known.encode(), said.encode("utf-8", "replace"))

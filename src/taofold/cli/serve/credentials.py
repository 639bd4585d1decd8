"""The places of tokens and sign-in sessions of this project's servers.

They are in the log's database, which all servers of the log read, or in this user's state folder.
They are never in the project, because the author of a repository could add files to it and sign in.
"""

import os
from pathlib import Path
from typing import Any, Final

from taofold.cli.output import invocation, say
from taofold.cli.project import home
from taofold.core.errors import ConfigError
from taofold.core.text import times
from taofold.log.log import Log
from taofold.log.open import shelf_beside
from taofold.reserved_places import make_folder, project_state_folder
from taofold.server.auth import Signin, TokenStore
from taofold.shared_document import Shared

_PLANTED: Final = ("tokens.json", "sessions.json")


def token_place(file: Path | None, log: Log | None) -> Path | Shared:
    """Returns the place of the tokens: `file`, the database of `log`, or a file of this user.

    Raises:
        ConfigError: The project contains tokens or sessions, or a folder cannot be used.
    """
    if file is not None:
        refuse_planted()
        # The operator named the file, so links are followed (`/run/secrets`).
        return Path(os.path.realpath(file))
    return _place("tokens", log)


def session_place(log: Log | None) -> Path | Shared:
    """Returns the place of the sessions. Raises as `token_place` does."""
    return _place("sessions", log)


def _place(name: str, log: Log | None) -> Path | Shared:
    refuse_planted()
    shelf: Any = shelf_beside(log) if log is not None else None
    if shelf is not None:
        return Shared(shelf, name)
    folder = project_state_folder(home())
    make_folder(folder)
    return folder / f"{name}.json"


def refuse_planted() -> None:
    """Refuses tokens and sessions in the project's folder.

    Raises:
        ConfigError: There are such files.
    """
    for name in _PLANTED:
        planted = home() / name
        if os.path.lexists(planted):
            raise ConfigError(
                f"{str(planted)!r} could let strangers sign in, and may be part of the project: it "
                "is not used. Delete it; create tokens with "
                f"`{invocation()} serve tokens add NAME --role ROLE`, stored in "
                f"{str(project_state_folder(home()))!r}"
            )


def announce_accepted(tokens: TokenStore, signin: Signin | None = None) -> None:
    """Prints how many tokens and sessions are accepted, and where they are kept."""
    accepted = times(tokens.active(), "token")
    if signin is not None:
        accepted += f" and {times(signin.active(), 'session')}"
    say(f"accepted, besides this machine's own token: {accepted} (in {tokens.path})")

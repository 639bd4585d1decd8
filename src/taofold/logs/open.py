"""From what a user writes to a log: `"memory"`, `"sqlite:PATH"`, or a path."""

from pathlib import Path
from typing import Final

from taofold.core.errors import ConfigError, LogError
from taofold.logs.sqlite import SqliteLog
from taofold.store.log import Log
from taofold.store.memory import MemoryLog

HOME: Final = ".taofold"


def open_log(spec: str | Path, *, adopt: bool = False) -> Log:
    """Open the log that `spec` names, and create its file, and its folder `.taofold`, if missing.

    Args:
        spec: "memory", "sqlite:PATH" or a path.
        adopt: Trust a file that another user or machine created, from now on.

    Raises:
        ConfigError: `spec` names no log.
        LogError: the file cannot be used; the message says why.
    """
    if spec == "memory":
        return MemoryLog()
    text = str(spec).removeprefix("sqlite:")
    scheme, colon, _ = text.partition(":")
    if not text or (colon and len(scheme) > 1 and "/" not in scheme and isinstance(spec, str)):
        raise ConfigError(f"{str(spec)!r} names no log; write 'memory', 'sqlite:PATH' or a path")
    path = Path(text).expanduser()
    if path.parent.name == HOME:
        make_home(path.parent)
    log = SqliteLog(path, adopt=adopt)
    log.open()
    return log


def make_home(folder: Path) -> None:
    """Create the folder `.taofold`, for its owner only, and keep it out of git."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise LogError(f"the folder {str(folder)!r} cannot be created: {error.strerror}") from error

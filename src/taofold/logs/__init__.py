"""The logs under the path that earlier releases documented; `taofold.log` is their room."""

from taofold.log.open import open_builtin as open_log
from taofold.log.sqlite.log import SqliteLog

__all__ = ["SqliteLog", "open_log"]

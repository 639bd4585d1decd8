"""Logs on disk. `open_log` turns what a user writes, such as a path, into a log."""

from taofold.logs.open import open_log
from taofold.logs.sqlite import SqliteLog

__all__ = ["SqliteLog", "open_log"]

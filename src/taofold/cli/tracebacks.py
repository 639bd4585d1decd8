"""Keeps secrets out of tracebacks: what Python, threads and logging write of an exception.

Code of others (a model, a tool, an agent file) may raise an error whose text holds a key. What a
run records of it is redacted by the run; this is for what reaches the terminal and a server's
output besides. Knows the environment's values and those of agents that a command has made (`know`).
"""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final

_known: Final[set[str]] = set()


def know(values: Iterable[str]) -> None:
    """Hides these values in tracebacks, too."""
    _known.update(values)


def hide_secrets() -> None:
    """Installs the hooks, once in a process."""
    if threading.excepthook is not _of_thread:
        threading.excepthook = _of_thread
        logging.setLogRecordFactory(_record)


def print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """`sys.excepthook` that hides secrets."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


def _of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is None or failed.exc_type is SystemExit:
        return
    name = failed.thread.name if failed.thread is not None else "unknown"
    sys.stderr.write(f"Exception in thread {name}:\n")
    print_traceback(failed.exc_type, failed.exc_value, failed.exc_traceback)


class _Record(logging.LogRecord):
    def getMessage(self) -> str:  # noqa: N802 - logging's name
        """The message without secrets: it may quote the error."""
        return redacted(super().getMessage(), guesses=False)


def _record(*args: Any, **options: Any) -> logging.LogRecord:
    record = _Record(*args, **options)
    if record.exc_info and record.exc_info[1] is not None:
        # A formatter takes the text that is there.
        record.exc_text = redacted("".join(traceback.format_exception(*record.exc_info))).rstrip()
    return record


def redacted(text: str, *, guesses: bool = True) -> str:
    """Returns `text` without the values that are known here."""
    # Imported here: only a process that has something to say pays for it.
    from taofold.policy.redaction import Redactor

    return Redactor({*_known, *Redactor.secrets_in(os.environ)}, guesses=guesses).text(text)

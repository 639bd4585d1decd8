"""Removes secrets from tracebacks of Python, threads and logging.

Foreign code (a model, a tool, an agent file) may raise an error whose text contains a key. A run
redacts its own records; this module redacts the output of the terminal and of a server. It knows
the environment's values and those of agents that a command made (`know`).
"""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final

EVIDENCE_KEY: Final = "TAOFOLD_EVIDENCE_KEY"
"""Variable with the key that signs runs: a PEM file, PEM, or `SCHEME://…` of a key service."""
_known: Final[set[str]] = set()


def know(values: Iterable[str]) -> None:
    """Adds values to hide in tracebacks."""
    _known.update(values)


def hide_secrets() -> None:
    """Installs the hooks, once per process."""
    if threading.excepthook is not _of_thread:
        threading.excepthook = _of_thread
        logging.setLogRecordFactory(_record)


def print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Prints a traceback without secrets; a `sys.excepthook`."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


def _of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is None or failed.exc_type is SystemExit:
        return
    name = failed.thread.name if failed.thread is not None else "unknown"
    sys.stderr.write(f"Exception in thread {name}:\n")
    print_traceback(failed.exc_type, failed.exc_value, failed.exc_traceback)


class _Record(logging.LogRecord):
    def getMessage(self) -> str:  # noqa: N802 - logging's name
        """Returns the message without secrets, because it may quote the error."""
        return redacted(super().getMessage(), guesses=False)


def _record(*args: Any, **options: Any) -> logging.LogRecord:
    record = _Record(*args, **options)
    if record.exc_info and record.exc_info[1] is not None:
        # A formatter uses an existing text.
        record.exc_text = redacted("".join(traceback.format_exception(*record.exc_info))).rstrip()
    return record


def redacted(text: str, *, guesses: bool = True) -> str:
    """Returns `text` without known secrets."""
    # Imported on demand, because most processes print no traceback.
    from taofold.policy.redaction import Redactor

    variables = dict(os.environ)
    known = set(_known)
    # Its name is that of a secret, but an error must show which file was meant.
    if is_key_file(path := variables.get(EVIDENCE_KEY, "")):
        del variables[EVIDENCE_KEY]
        known.discard(path)  # an agent knows all values with such names
    return Redactor({*known, *Redactor.secrets_in(variables)}, guesses=guesses).text(text)


def is_key_file(spec: str) -> bool:
    """Returns whether a signing key is certainly given by its path, and not by its own text.

    PEM, base64 and hexadecimal digits have no point. An address may hold a password.
    """
    return "." in spec and "PRIVATE KEY" not in spec and "://" not in spec

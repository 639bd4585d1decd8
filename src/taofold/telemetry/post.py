"""One POST or PUT to a back end: patient with what passes, plain about what does not.

Synchronous, for a thread of its own or a command. Knows nothing about spans. Proxies are
the environment's.
"""

import gzip
import time
import urllib.error
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from taofold.core.errors import ConfigError, TaofoldError
from taofold.network import direct

TIMEOUT: Final = 10.0
"""Seconds for one attempt."""
ATTEMPTS: Final = 3
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_SHOWN: Final = 300
_PAUSE: Final = 0.5


class ExportFailed(TaofoldError):
    """A back end did not take the spans. The run is not affected; export it again later."""


def send(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    method: str = "POST",
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send `body`, compressed.

    Raises:
        ExportFailed: it was refused, or the back end could not be reached three times.
        ConfigError: `url` is none.
    """
    where = place(url)
    sent = {**headers, "Content-Encoding": "gzip", "User-Agent": "taofold"}
    packed = gzip.compress(body, 1)
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            sleep(_PAUSE * 2 ** (attempt - 1))
        try:
            with direct.send(url, packed, sent, timeout=TIMEOUT, method=method):
                return
        except urllib.error.HTTPError as error:
            said = error.read(_SHOWN).decode("utf-8", "replace").strip()
            reason = f"{direct.reason(error)}{f': {said}' if said else ''}"
            error.close()
            if error.code not in _PASSING:
                break
        except OSError as error:
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
    raise ExportFailed(f"{where} did not take the spans: {reason}")


def place(url: str) -> str:
    """What of `url` may be shown: no user, password or query.

    Raises:
        ConfigError: it is no HTTP URL.
    """
    wrong = f"an endpoint is an http or https URL, not {url[:100]!r}"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise ConfigError(wrong) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(wrong)
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"

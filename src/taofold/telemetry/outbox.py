"""What exporters send with: `Outbox`, a thread that collects entries, and `send`, one HTTP request.

Bounded: what does not fit is dropped and counted, for a run must not grow with a back end that is
away; a request is tried again a few times. Proxies are the environment's. `endpoint_of` is what of
an address may be shown. Knows nothing of spans.
"""

import atexit
import gzip
import logging
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from taofold import network
from taofold.core.errors import ConfigError, TaofoldError

_LOGGER: Final = logging.getLogger("taofold.telemetry")
T = TypeVar("T")
MOST_WAITING: Final = 10_000
"""Entries that wait to be sent."""
LINGER: Final = 1.0
"""Seconds that entries wait for others to go with."""
GRACE: Final = 1.0
"""Seconds that closing waits for a back end of which nothing was heard yet."""
PATIENCE: Final = 4.0
"""Seconds more for one that took something before."""


class Outbox(Generic[T]):
    """Collects entries and hands them to `send`, many at a time."""

    def __init__(self, send: Callable[[Sequence[T]], object], *, linger: float = LINGER) -> None:
        self._send, self._linger = send, linger
        self._waiting: list[T] = []
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ended = threading.Event()
        self._answered = False
        self._sending = 0
        self._hurried = False
        """True while a flush waits: nothing lingers."""
        self._told = ""
        self.lost = 0
        """Entries that were dropped or refused."""

    def put(self, entries: Sequence[T]) -> None:
        """Queue entries. Returns at once."""
        with self._lock:
            if self._closed or len(self._waiting) + len(entries) > MOST_WAITING:
                # All or none: half of a step's spans would be a
                # trace with holes that nobody can tell from a bug.
                self.lost += len(entries)
                return
            first = not self._waiting
            self._waiting += entries
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="taofold-traces", daemon=True
                )
                self._thread.start()
                # A daemon thread is stopped in the middle of a
                # request at exit; this waits for it, in bounds.
                atexit.register(self.close)
            if first:  # else it lingers: to wake it for each would cost more than the sending
                self._lock.notify_all()

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until everything queued so far is sent or dropped.

        Args:
            seconds: How long to wait at most.

        Returns:
            False if the time was over first.
        """
        with self._lock:
            self._hurried = True
            self._lock.notify_all()
            return self._lock.wait_for(lambda: not (self._waiting or self._sending), seconds)

    def close(self) -> None:
        """Send what waits: for a second, or five if the back end is known to answer."""
        with self._lock:
            self._closed = True
            # Taken under the lock: a second `close` finds none and does not wait twice.
            thread, self._thread = self._thread, None
            self._lock.notify_all()
        # Ends a pause between two attempts: the remaining ones follow at once.
        self._ended.set()
        if thread is not None:
            atexit.unregister(self.close)
            thread.join(GRACE)
            if self._answered and thread.is_alive():
                thread.join(PATIENCE)
            if thread.is_alive():
                left = self._sending + len(self._waiting)
                _LOGGER.warning("%d spans were not sent in time", left)
        if self.lost:
            _LOGGER.warning("%d spans could not be sent", self.lost)
            self.lost = 0

    def pause(self, seconds: float) -> None:
        """Wait between two attempts, unless it is closed."""
        self._ended.wait(seconds)

    def _work(self) -> None:
        while True:
            with self._lock:
                # Until there is something to send; then a little
                # longer, so that more goes in one request.
                self._lock.wait_for(lambda: self._waiting or self._closed)
                self._lock.wait_for(lambda: self._closed or self._hurried, self._linger)
                batch, self._waiting = self._waiting, []
                self._sending, self._hurried = len(batch), False
                # Only after `close`: whatever was queued before it has been sent.
                if not batch:
                    return
            try:
                # Outside the lock: `put` must return at once, however slow the back end is.
                self._send(batch)
                self._answered = True
            except TaofoldError as error:
                self.lost += len(batch)
                if str(error) != self._told:  # once, however long it is away
                    self._told = str(error)
                    _LOGGER.warning("%s", error)
            except Exception:
                self.lost += len(batch)
                _LOGGER.exception("%d spans could not be sent", len(batch))
            with self._lock:
                self._sending = 0
                self._lock.notify_all()


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
    where = endpoint_of(url)
    sent = {**headers, "Content-Encoding": "gzip", "User-Agent": "taofold"}
    # Level 1: JSON and repeated names shrink well at any level, and runs share the processor.
    packed = gzip.compress(body, 1)
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            sleep(_PAUSE * 2 ** (attempt - 1))
        try:
            with network.send(url, packed, sent, timeout=TIMEOUT, method=method):
                return
        except urllib.error.HTTPError as error:
            detail = error.read(_SHOWN).decode("utf-8", "replace").strip()
            reason = f"{network.reason(error)}{f': {detail}' if detail else ''}"
            error.close()
            # A refusal (400, 401) does not pass by itself: trying again
            # would only delay the reason.
            if error.code not in _PASSING:
                break
        except OSError as error:
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
    raise ExportFailed(f"{where} did not take the spans: {reason}")


def endpoint_of(url: str) -> str:
    """What of `url` may be shown: no user, password or query.

    Raises:
        ConfigError: it is no HTTP URL.
    """
    try:
        network.http_parts(url)
    except ValueError as error:
        raise ConfigError(f"an endpoint is an http or https URL, not {url[:100]!r}") from error
    return network.bare_url(url)

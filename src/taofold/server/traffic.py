"""What a server keeps of its requests: how often each caller asks, counts, and the audit.

`RateLimiter` is a token bucket for each name. `Counts` are printed in the text format of
Prometheus. `Audit` is who did what at the server, and what was refused, a line of JSON each.
"""

import json
import logging
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from taofold.core.text import iso
from taofold.log.store import clock
from taofold.policy.redaction import Redactor
from taofold.reserved import reserve_file

_MOST: Final = 10_000


@dataclass(slots=True)
class RateLimiter:
    """`burst` requests at once, `per_s` more each second, for each name."""

    per_s: float
    burst: float
    _buckets: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict[str, tuple[float, float]]
    )

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Take from the bucket; 0.0, or the seconds to wait until that is possible."""
        # Popped and put back: the dict's order is then who was heard of last.
        left, at = self._buckets.pop(name, (self.burst, now))
        left = min(self.burst, left + max(0.0, now - at) * self.per_s)
        # A refused request takes nothing: a client that hammers is not pushed back ever further.
        wait = 0.0 if left >= cost else (cost - left) / self.per_s
        self._buckets[name] = (left if wait else left - cost, now)
        # The one unheard of for longest goes: its bucket is the fullest, so it loses nothing.
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return wait

    def is_exhausted(self, name: str, now: float) -> bool:
        """Would the next request have to wait?"""
        left, at = self._buckets.get(name, (self.burst, now))
        return left + max(0.0, now - at) * self.per_s < 1.0


MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Counts:
    """Requests by route and status, and refusals by code."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter[tuple[str, str, int]])
    refusals: Counter[str] = field(default_factory=Counter[str])
    events: int = 0

    def text(self, gauges: Mapping[str, tuple[str, float]], runs: Mapping[str, int]) -> str:
        """Everything, with the gauges of this moment: name → (help, value)."""
        lines = list[str]()
        for name, (about, value) in gauges.items():
            lines += _head(name, about, "gauge")
            lines.append(f"taofold_{name} {value:g}")
        lines += _head("runs", "Runs in the log by status.", "gauge")
        lines += [f'taofold_runs{{status="{s}"}} {n}' for s, n in sorted(runs.items())]
        lines += _head("http_requests_total", "Requests by method, route and status.", "counter")
        for (method, route, status), count in sorted(self.requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"taofold_http_requests_total{{{labels}}} {count}")
        lines += _head("http_refusals_total", "Requests refused, by code.", "counter")
        for code, count in sorted(self.refusals.items()):
            lines.append(f'taofold_http_refusals_total{{code="{code}"}} {count}')
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP taofold_{name} {about}", f"# TYPE taofold_{name} {kind}"]


REFUSALS_PER_S: Final = 50
_LONGEST: Final = 300
_KEPT: Final = 1000

_logger = logging.getLogger(__name__)


class Audit:
    """Writes to the file at `path`; without one it keeps the last thousand lines."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        now: Callable[[], int] = clock,
        secrets: Iterable[str] = (),
    ) -> None:
        self._path, self._now = path, now
        if path is not None:
            reserve_file(path)
        self._redactor = Redactor((*secrets, *Redactor.secrets_in(os.environ)))
        self._descriptor = -1
        self._second, self._count = 0, 0
        self.last: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def __call__(self, what: str, who: str, **said: Any) -> None:
        """Write a line: what happened, and who did it."""
        line = {"at": iso(self._now()), "what": what, "who": self._clean(who)}
        line |= {name: self._clean(value) for name, value in said.items()}
        self.last.append(line)
        if self._path is not None:
            self._write(line)

    def refusal(self, who: str, **said: Any) -> None:
        """Write a line about a request that was refused; the excess of a flood is counted."""
        second = self._now() // 1000
        if second != self._second:
            missed = self._count - REFUSALS_PER_S
            # What a flood left out is one line, with the first refusal of a later second.
            self._second, self._count = second, 0
            if missed > 0:
                self("refused", "several", count=missed, detail="refusals that were not written")
        self._count += 1
        if self._count <= REFUSALS_PER_S:
            self("refused", who, **said)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _clean(self, value: Any) -> Any:
        # The other way round a secret across the cut would be half written.
        return _short(self._redactor.text(value)) if isinstance(value, str) else value

    def _write(self, line: dict[str, Any]) -> None:
        assert self._path is not None
        body = (json.dumps(line, ensure_ascii=True, default=str) + "\n").encode()
        try:
            if self._descriptor < 0:
                # With a log in a database nothing else of a server needs this folder.
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                # Opened once and kept. Whoever rotates the file has to restart the server.
                self._descriptor = os.open(self._path, flags, 0o600)
            # One write with O_APPEND: lines of several processes do not mix.
            os.write(self._descriptor, body)
        except OSError as error:
            _logger.error("the audit cannot be written: %s: %s", error, body.decode())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} [… cut]"

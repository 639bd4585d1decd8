"""What a server counts, in the text format of Prometheus."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

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

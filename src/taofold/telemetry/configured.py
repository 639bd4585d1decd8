"""Tracing by name, as a configuration asks for it: `traces: otlp` or `traces: opik`.

The exporter's libraries are loaded with the first span, for most commands have none.
"""

import logging
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from taofold.core.errors import ConfigError
from taofold.log.log import Log
from taofold.telemetry.post import place
from taofold.telemetry.spans import Span
from taofold.telemetry.traced import Exporter, TracedLog


def traced(log: Log, name: str, *, content: bool = False) -> Log:
    """`log` as it is ("" ), or with an exporter that the environment says the rest of.

    Raises:
        ConfigError: there is no such exporter, or its extra is not installed.
    """
    match name:
        case "":
            return log
        case "otlp":
            if find_spec("opentelemetry.exporter") is None:
                raise ConfigError(
                    "traces: otlp needs OpenTelemetry: pip install 'taofold[otel]'", path="traces"
                )
            _check("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
            if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
                return log
            return TracedLog(log, Lazy(lambda: _otlp(content)), prompts=content)
        case "opik":
            _check("OPIK_URL_OVERRIDE")
            return TracedLog(log, Lazy(lambda: _opik(content)), prompts=content)
        case _:
            raise ConfigError(f"traces is otlp or opik, not {name!r}", path="traces")


def _check(*names: str) -> None:
    """Raises ConfigError if the first that is set is no URL."""
    for name in names:
        said = os.environ.get(name, "").strip()
        if said:
            try:
                place(said)
            except ConfigError as error:
                raise ConfigError(str(error), path=name) from error
            return


class Lazy:
    """An exporter that is made when it gets its first spans."""

    def __init__(self, make: Callable[[], Exporter]) -> None:
        self._make = make
        self._made: Exporter | None = None

    def export(self, spans: Sequence[Span]) -> None:
        """Pass the spans on."""
        self._made = self._made or self._make()
        self._made.export(spans)

    def close(self) -> None:
        """Close what was made."""
        if self._made is not None:
            self._made.close()


def _otlp(content: bool) -> Exporter:
    from taofold.telemetry import otel  # noqa: PLC0415 - 0.3 s

    # It tells of every attempt; ours say once what came of them.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
    return otel.exporter(content=content)


def _opik(content: bool) -> Exporter:
    from taofold.telemetry import opik  # noqa: PLC0415 - only who asks for it

    return opik.OpikExporter(opik.Opik.from_environment(), content=content)

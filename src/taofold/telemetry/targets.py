"""Targets: the URL and the headers to which spans are sent, from arguments and the environment.

Imports nothing of OpenTelemetry: a command checks its configuration without loading the SDK.
"""

import os
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import urlsplit

from taofold import network
from taofold.core.errors import ConfigError

Backend: TypeAlias = Literal["otlp", "opik"]
BACKENDS: Final[tuple[Backend, ...]] = get_args(Backend)
PROJECT: Final = "taofold"
"""Default name of the service, and of the project in Opik."""
_TRACES: Final = "/v1/traces"
_COLLECTOR: Final = "http://localhost:4318"
_OPIK: Final = "http://localhost:5173/api"
_OPIK_TRACES: Final = "/v1/private/otel/v1/traces"


class TraceTarget(NamedTuple):
    """The destination of spans.

    `named`: the headers in `OTEL_EXPORTER_OTLP_HEADERS` belong to this target and are sent.
    """

    url: str
    headers: Mapping[str, str]
    named: bool

    @property
    def shown(self) -> str:
        """The URL without user, password and query."""
        return network.bare_url(self.url)


def target(
    backend: Backend,
    endpoint: str = "",
    headers: Mapping[str, str] | None = None,
    *,
    project: str = "",
    environment: Mapping[str, str] = os.environ,
) -> TraceTarget:
    """Returns the destination of the spans for `backend`.

    Args:
        backend: `"otlp"`, or `"opik"` for Opik's own OTLP endpoint
            (https://www.comet.com/docs/opik/tracing/opentelemetry/overview).
        endpoint: A URL. The path of traces is added to a collector's URL without a path, and to
            Opik's URL, which ends with `/api`. "" uses the environment's.
        headers: Sent besides those of the environment.
        project: The name of the project in Opik. "" uses the environment's.
        environment: The environment variables.

    Raises:
        ConfigError: The URL is not an http or https URL. `path` is its variable.
    """
    if backend == "opik":
        own = {"projectName": project or _value(environment, "OPIK_PROJECT_NAME") or PROJECT}
        own["Comet-Workspace"] = _value(environment, "OPIK_WORKSPACE") or "default"
        if key := _value(environment, "OPIK_API_KEY"):
            own["Authorization"] = key
        url = _checked(endpoint, environment, "OPIK_URL_OVERRIDE") or _OPIK
        full = url if url.endswith(_OPIK_TRACES) else url.rstrip("/") + _OPIK_TRACES
        return TraceTarget(full, {**own, **(headers or {})}, named=False)
    if endpoint:
        _checked(endpoint, environment)
        path = urlsplit(endpoint).path.strip("/")
        return TraceTarget(
            endpoint if path else endpoint.rstrip("/") + _TRACES, headers or {}, True
        )
    # By OpenTelemetry's specification the variable for traces is a whole URL, the other one a base.
    url = _checked("", environment, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = "" if url else _checked("", environment, "OTEL_EXPORTER_OTLP_ENDPOINT") or _COLLECTOR
    return TraceTarget(url or base.rstrip("/") + _TRACES, headers or {}, named=True)


def disabled() -> bool:
    """Returns True if `OTEL_SDK_DISABLED` switches OpenTelemetry off."""
    return _value(os.environ, "OTEL_SDK_DISABLED").lower() == "true"


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip()


def _checked(url: str, environment: Mapping[str, str], name: str = "") -> str:
    """Returns `url`, else the URL in the variable `name`, else ""."""
    found = url or _value(environment, name)
    try:
        if found:
            network.http_parts(found)
    except ValueError as error:
        message = f"an endpoint is an http or https URL, not {found[:100]!r}"
        raise ConfigError(message, path="" if url else name) from error
    return found

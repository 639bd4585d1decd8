"""Tools for testing agents: models without a network, cassettes, a replay check, conformance
suites.

Cassettes are recorded answers of providers. The pytest plugin blocks real requests. The conformance
suites are for logs, journals and engines.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taofold.testing.models import Asked, FunctionModel, ScriptedModel, ScriptEnded, TestModel

if TYPE_CHECKING:
    from taofold.models.transport import allow_model_requests, answered_by, forbid_model_requests
    from taofold.testing.cassette import Cassette, Recorder

# Imported on first use: a scripted model needs no HTTP client.
_HOME = {
    "Cassette": "taofold.testing.cassette",
    "Recorder": "taofold.testing.cassette",
    "allow_model_requests": "taofold.models.transport",
    "answered_by": "taofold.models.transport",
    "forbid_model_requests": "taofold.models.transport",
}

__all__ = [
    "Asked",
    "Cassette",
    "FunctionModel",
    "Recorder",
    "ScriptEnded",
    "ScriptedModel",
    "TestModel",
    "allow_model_requests",
    "answered_by",
    "forbid_model_requests",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

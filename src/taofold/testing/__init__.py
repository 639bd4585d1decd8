"""Tools for testing agents: models without a network, cassettes, a replay check, conformance
suites.

Cassettes are recorded answers of providers. The pytest plugin blocks real requests. The conformance
suites are for logs, journals and engines.
"""

from typing import TYPE_CHECKING

from taofold.lazy_names import lazy_names
from taofold.testing.models import Asked, FunctionModel, ScriptedModel, ScriptEnded, TestModel

if TYPE_CHECKING:
    from taofold.models.transport import allow_model_requests, answered_by, forbid_model_requests
    from taofold.testing.cassette import Cassette, Recorder


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

# A scripted model needs no HTTP client.
__getattr__ = lazy_names(
    __name__,
    {
        "models.transport": "allow_model_requests answered_by forbid_model_requests",
        "testing.cassette": "Cassette Recorder",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)

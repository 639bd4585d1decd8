"""What tests of agents need: models without a network, guards, conformance suites."""

from taofold.models.transport import allow_model_requests, answered_by, forbid_model_requests
from taofold.testing.cassette import Cassette, Recorder
from taofold.testing.models import Asked, FunctionModel, ScriptedModel, ScriptEnded, TestModel

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

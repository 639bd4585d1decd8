"""What tests of agents need: models without a network, guards, conformance suites."""

from taofold.models.transport import allow_model_requests, answered_by, forbid_model_requests
from taofold.testing.cassette import Cassette
from taofold.testing.models import Asked, FunctionModel, ScriptedModel, ScriptEnded
from taofold.testing.obliging import TestModel
from taofold.testing.recorder import Recorder

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

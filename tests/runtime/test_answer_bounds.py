"""A model's own settings override the agent's, and a dollar budget uses them."""

import pytest

from taofold.core.content import Conversation
from taofold.core.values import ModelSettings
from taofold.runtime.model import FallbackModel, Model, Request, dearest
from taofold.runtime.providers import resolve

PRICES = {"m": (1.0, 1000.0)}
"""A thousand dollars for a million tokens of output."""


def model(**settings: object) -> Model:
    own = {"model": "openai-compatible:m", "base_url": "http://127.0.0.1:9/v1", "prices": PRICES}
    return resolve({**own, **settings})


@pytest.mark.parametrize(
    ("own", "agents", "dollars"),
    [
        ({"max_tokens": 100}, 4096, 0.1),  # its own bound is the shorter
        ({"max_tokens": 5000}, 100, 5.0),  # and holds where it is the longer: it is what is sent
        ({}, 100, 0.1),
    ],
)
def test_the_bound_of_a_call_is_that_of_what_is_sent(
    own: dict[str, object], agents: int, dollars: float
) -> None:
    request = Request(Conversation(), settings=ModelSettings(max_tokens=agents))
    assert dearest(model(**own), request, 0) == pytest.approx(dollars)


def test_of_a_list_the_dearest_answer_counts() -> None:
    """Mutant: the agent's bound for all of them."""
    request = Request(Conversation(), settings=ModelSettings(max_tokens=100))
    several = FallbackModel([model(), model(max_tokens=5000)])
    assert dearest(several, request, 0) == pytest.approx(5.0)

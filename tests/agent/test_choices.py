"""A word that stands for a choice is checked where it is written."""

from typing import Any

import pytest

from taofold import Agent, Policy, Tier
from taofold.core.errors import ConfigError
from taofold.testing import FunctionModel, TestModel


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "reakt"}, "strategy: unknown strategy 'reakt'; did you mean 'react'"),
        ({"models": {"critik": "m"}}, "models: unknown role 'critik'; did you mean 'critic'"),
        ({"tools": ["fils"]}, "tools[0]: there is no built-in tool 'fils'; did you mean 'files'"),
        ({"approve": "terminl"}, "approve: is a callback, 'terminal' or 'all'"),
        ({"on_denial": "stopp"}, "on_denial: is 'continue' or 'stop'"),
        ({"effort": "hihg"}, "effort: must be one of none, minimal, low"),
        ({"prompt_cache": "5mn"}, "prompt_cache: must be '5m'"),
    ],
)
def test_an_agent_with_a_misspelt_choice_is_not_made(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Agent(TestModel(), **options)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("name", ["tiers", "production_tiers"])
@pytest.mark.parametrize("tier", ["confirm", 0, 5, True, None])
def test_a_policy_takes_no_tier_that_there_is_not(name: str, tier: Any) -> None:
    with pytest.raises(ConfigError, match=rf"policy\.{name}\.send: is a Tier"):
        Policy(**{name: {"send": tier}})
    assert Policy(**{name: {"send": Tier.CONFIRM}})


def test_a_function_that_stands_for_a_model_reads_the_last_message() -> None:
    seen: list[str] = []

    def reply(request: Any) -> str:
        seen.append(request.last)
        assert request.last in request.text
        return "Oslo."

    Agent(FunctionModel(reply)).run_sync("What is the capital of Norway?")
    assert seen == ["What is the capital of Norway?"]

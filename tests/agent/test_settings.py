"""Settings of an agent: one settings object, a server's address, tools by name, typos."""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent
from taofold.core.errors import ConfigError
from taofold.runtime.providers import resolve
from taofold.testing import ScriptedModel

pytestmark = pytest.mark.anyio


async def test_settings_reach_the_model() -> None:
    model = ScriptedModel(["ok"])
    await Agent(model, temperature=0.2, max_tokens=900, extra={"seed": 7}).run("g")
    asked = model.requests[0].request.asked()
    assert (asked.temperature, asked.max_tokens, asked.extra) == (0.2, 900, {"seed": 7})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": "hot"}, r"temperature: must be a number ≥ 0, not 'hot'"),
        ({"temperature": float("nan")}, "a number ≥ 0, not nan"),
        ({"top_p": 7}, r"top_p: must be a number in \(0, 1\], not 7"),
        ({"max_tokens": -4}, "max_tokens: must be a whole number ≥ 0, not -4"),
        ({"effort": "insane"}, "effort: must be one of none, minimal, .* not 'insane'"),
    ],
)
def test_a_setting_that_is_wrong_is_refused_when_the_agent_is_made(
    settings: Any, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Agent(ScriptedModel([]), **settings)


def test_a_field_is_checked_like_the_setting_of_its_name() -> None:
    hot: Any = "hot"
    with pytest.raises(ConfigError, match=r"^temperature: must be a number ≥ 0"):
        Agent(ScriptedModel([]), temperature=hot)
    with pytest.raises(ConfigError, match="temperature: must be a number ≥ 0"):
        resolve({"model": "ollama:x", "temperature": hot})


@pytest.mark.parametrize(
    ("name", "meant"), [("gpt-5", "openai:gpt-5"), ("claude-x", "anthropic:claude-x")]
)
async def test_a_model_without_a_provider_says_how_it_is_named(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        await Agent(name).run("g")


async def test_a_base_url_goes_to_the_model_that_is_named() -> None:
    agent = Agent("openai:local-model", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9"):  # tests may not ask it
        await agent.run("g")


async def test_a_base_url_beside_a_model_object_is_refused() -> None:
    with pytest.raises(ConfigError, match="base_url"):
        await Agent(ScriptedModel([]), base_url="http://127.0.0.1:9").run("g")


def test_built_in_tools_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = list(Agent(ScriptedModel([]), tools=["files", "command"]).toolset)
    assert {"read_file", "write_file", "run_command"} <= set(names)
    with pytest.raises(ConfigError, match="did you mean 'files'"):
        _ = Agent(ScriptedModel([]), tools=["file"]).toolset


async def test_a_strategy_that_is_mistyped_is_guessed() -> None:
    with pytest.raises(ConfigError, match="did you mean 'react'"):
        await Agent(ScriptedModel([]), strategy="reakt").run("g")


def test_what_becomes_of_a_denial_is_one_of_two_words() -> None:
    with pytest.raises(ConfigError, match="'continue' or 'stop', not 'halt'"):
        Agent("openai:gpt-5", on_denial="halt")


class City:
    """A class that no schema can be made of."""


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("City", "output: is a type: write output=City, not 'City'"),
        (3, "output: is a type, not 3"),
        (City, "output: <class .*City'> is no type of an answer"),
        (list["Nowhere"], "output: .* is no type of an answer"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_an_output_that_is_no_type_is_refused_with_what_to_write(output: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Agent(ScriptedModel(["x"]), output=output).run_sync("g")

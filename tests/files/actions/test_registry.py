"""The registry: both names of every action, tools, and what others bring."""

from typing import Any

import pytest

from taofold.core.effects import Strategy, note
from taofold.core.errors import ConfigError
from taofold.files.actions import (
    ActionCall,
    Done,
    Keys,
    Kind,
    alias,
    build_actions_registry,
    canonical,
)
from tests.files.flow.kit import FunctionModel, echo, made, with_model


class Shout(Keys):
    text: str
    loud: bool = False


def shout(call: ActionCall[Shout]) -> Strategy[Done]:
    yield from note("shouted", text=call.keys.text)
    return Done(call.keys.text.upper(), state={"shouted": call.keys.loud})


KIND = Kind("voice.shout", "Shout.", Shout, shout)


@pytest.mark.scenario("TEA-34")
def test_every_action_has_both_names() -> None:
    actions = build_actions_registry()
    assert {"reason.cot", "reason.react", "reason.self_correct", "reason.decompose"} <= set(actions)
    for name in actions:
        assert alias(name).startswith("actions.")
        assert actions[alias(name)] is actions[name]
    assert actions["actions.reason_self_correct"].name == "reason.self_correct"
    assert canonical("actions.tool_word_count") == "tool.word_count"


def test_every_tool_is_an_action() -> None:
    actions = build_actions_registry()
    assert actions["tool.anything"].tools == ("anything",)
    assert "tool.anything" in actions
    assert "nothing" not in actions
    assert "tool." not in actions


def test_a_package_brings_actions(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # A package as it lies on disk, found through its entry point.
    (tmp_path / "loud.py").write_text(
        "from tests.files.actions.test_registry import KIND\nGIVEN = [KIND]\n"
    )
    info = tmp_path / "loud-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[taofold.actions]\nloud = loud:GIVEN\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    actions = build_actions_registry()
    assert actions["voice.shout"].description == "Shout."
    flow = (
        "nodes: [{name: a, action: actions.voice_shout, with: {text: 'hi {{ goal }}', loud: true}}]"
    )
    agent = with_model(made(flow, tmp_path), FunctionModel(echo))
    result = agent.run_sync("you")
    assert result.output == "HI YOU"
    assert result.state.data["shouted"] is True


def test_what_a_package_brings_must_be_an_action(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "bad-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for target, said in (("json:nothing", "cannot be loaded"), ("string:digits", "no action")):
        (info / "entry_points.txt").write_text(f"[taofold.actions]\nbad = {target}\n")
        with pytest.raises(ConfigError, match=said):
            build_actions_registry()


@pytest.mark.parametrize("name", ["shout", "tool.x", "a_b.c", "a.b-c", "../x.y", "agent.x", "a."])
def test_an_action_has_two_words(name: str) -> None:
    with pytest.raises(ConfigError):
        build_actions_registry(Kind(name, "", Shout, shout))


def test_a_name_is_given_once() -> None:
    with pytest.raises(ConfigError, match="two actions"):
        build_actions_registry(KIND, KIND)

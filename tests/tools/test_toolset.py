"""Toolsets, custom actions, documentation and chat text."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.tools import RunContext, Toolset, external, tool
from taofold.tools.tool import get_tool_documentation
from taofold.tools.toolset import custom_actions, forget_action, register_custom_action


@tool(effect="read")
def look(path: str) -> str:
    """
    Look at a file.

    Closely.
    """
    return path


def touch(path: str) -> None:
    pass


@pytest.fixture
def tools() -> Toolset:
    return Toolset.of(look, touch)


@pytest.fixture
def action_name() -> Iterator[str]:
    yield "greet"
    forget_action("greet")


def test_a_toolset_is_a_mapping_in_order_of_declaration(tools: Toolset) -> None:
    assert tools.names == ("look", "touch") == tuple(tools)
    assert tools["look"] is look
    assert tools.get("nothing") is None
    assert len(tools) == 2


@pytest.mark.scenario("RCT-26")
def test_a_name_that_occurs_twice_is_refused(tools: Toolset) -> None:
    with pytest.raises(ConfigError, match="two tools are named 'look'"):
        tools.merged(Toolset.of(look))
    with pytest.raises(ConfigError, match="two tools"):
        tools.renamed({"touch": "look"})


def test_toolsets_are_combined_without_changing_the_original(tools: Toolset) -> None:
    assert tools.prefixed("fs_").names == ("fs_look", "fs_touch")
    assert tools.renamed({"touch": "tap"}).names == ("look", "tap")
    assert tools.filtered(["touch"]).names == ("touch",)
    assert tools.filtered(lambda t: t.effect == "read").names == ("look",)
    assert tools.merged(tools.prefixed("x.")).names == ("look", "touch", "x.look", "x.touch")
    assert tools.with_options(timeout=5)["look"].timeout == 5
    assert tools.names == ("look", "touch")


def test_unknown_names_and_unsafe_changes_are_refused(tools: Toolset) -> None:
    changes: list[Callable[[], object]] = [
        lambda: tools.filtered(["lok"]),
        lambda: tools.filtered("look"),
        lambda: tools.renamed({"lok": "x"}),
        lambda: tools.with_tier(3, "lok"),
        lambda: tools.with_tier(9),
        lambda: tools.with_options(effect="read"),
        lambda: tools.prefixed("../"),
    ]
    for change in changes:
        with pytest.raises(ConfigError):
            change()


@pytest.mark.scenario("PEER-26")
def test_tiers_can_be_raised_and_never_lowered(tools: Toolset) -> None:
    raised = tools.with_tier(2)
    assert [t.tier for t in raised.values()] == [Tier.CARD, Tier.CARD]
    assert tools.with_tier(3, "touch")["look"].tier is Tier.AUTO
    assert tools.with_tier(3).with_tier(1)["look"].tier is Tier.CONFIRM
    with pytest.raises(ConfigError, match="never lowered"):
        tools.with_tier(1, "touch")
    assert raised["look"].definition != look.definition


@pytest.mark.scenario("TAG-24")
@pytest.mark.anyio
async def test_a_registered_custom_action_runs(action_name: str, ctx: RunContext[None]) -> None:
    def action(state: dict[str, Any], args: dict[str, Any]) -> tuple[str, str]:
        return "greeting", f"hi {args['name']}"

    register_custom_action(action_name, action)
    outcome = await custom_actions()["greet"].bind({"name": "you"}).run(ctx)
    assert outcome.update == ("greeting", "hi you")
    with pytest.raises(ConfigError, match="registered already"):
        register_custom_action(action_name, action)
    forget_action(action_name)
    assert "greet" not in custom_actions()


@pytest.mark.scenario("TEA-14")
@pytest.mark.parametrize("name", ["../x", "a/b", "a..b", "", "finish"])
def test_custom_actions_have_safe_names(name: str) -> None:
    with pytest.raises(ConfigError):
        register_custom_action(name, touch)


@pytest.mark.scenario("TAG-29")
def test_documentation_shows_signatures_descriptions_and_the_fallback() -> None:
    foreign = external("far", "Far away.", {"type": "object", "properties": {"n": {}}}, dict)
    assert get_tool_documentation({"look": look, "touch": touch, "far": foreign}) == (
        "Available tools:\n"
        "- look(path: str) -> str: Look at a file.\n\nClosely.\n"
        "- touch(path: str) -> None: No documentation available\n"
        "- far(n): Far away."
    )
    assert "- touch(" in get_tool_documentation([touch])
    assert "- touch(" in get_tool_documentation(Toolset.of(touch))

"""A rule for a tool that no agent has is mentioned, if all tools are known."""

import warnings
from dataclasses import replace
from typing import Any

import pytest

from taofold import Agent, Limits, Policy, Tier, tool
from taofold.agent.unknown_names import PolicyWarning, unknown_names
from taofold.bridges.mcp.client import McpServer


@tool(effect="read")
def read_file(path: str) -> str:
    """Read a file."""
    return path


@tool(effect="read")
def search(text: str) -> str:
    """Search."""
    return text


SEARCH = replace(search, aliases=("read_fill",))


def agent(**options: Any) -> Agent[Any, str]:
    return Agent("test:tools", tools=[read_file, SEARCH], **options)


def warned(of: Agent[Any, Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _ = of.plan
    return [str(each.message) for each in caught if each.category is PolicyWarning]


@pytest.mark.parametrize(
    ("key", "policy"),
    [
        ("deny", Policy(deny=frozenset({"raed_file"}))),
        ("allow", Policy(allow=frozenset({"raed_file"}))),
        ("tiers", Policy(tiers={"raed_file": Tier.CONFIRM})),
        ("production_tiers", Policy(production_tiers={"raed_file": Tier.CONFIRM})),
        ("required", Policy(required={"raed_file": "ADMIN"})),
    ],
)
def test_a_misspelt_name_is_warned_of_with_the_similar_one(key: str, policy: Policy) -> None:
    """Mutant: `_ruled` leaves out the key."""
    expected = "no tool of this agent is named 'raed_file'; did you mean 'read_file'?"
    assert warned(agent(policy=policy)) == [f"policy.{key}: {expected}"]


def test_a_misspelt_limit_is_warned_of() -> None:
    (message,) = warned(agent(limits=Limits(per_tool={"serch": 3})))
    assert message.startswith("limits.per_tool: no tool of this agent is named 'serch'")


def test_a_pattern_of_names_is_warned_of_because_rules_name_tools() -> None:
    (message,) = warned(agent(policy=Policy(deny=frozenset({"read_*"}))))
    assert message.endswith("rules name tools, not patterns of names")


def test_a_name_that_is_like_no_tool_may_be_that_of_another_agent() -> None:
    """Mutant: `warn_of_unknown_names` warns of names that are not likely."""
    assert warned(agent(policy=Policy(deny=frozenset({"deploy"})))) == []


def test_names_and_aliases_of_this_agent_and_of_those_it_asks_are_known() -> None:
    """Mutants: aliases are left out; only the agent's own tools are looked at."""
    policy = Policy(deny=frozenset({"read_fill", "read_fila"}))

    @tool(effect="read")
    def read_fila(path: str) -> str:
        """Read."""
        return path

    asked = Agent("test:tools", name="asked", tools=[read_fila])
    assert warned(agent(policy=policy)) != []
    assert warned(Agent("test:tools", tools=[read_file, SEARCH, asked], policy=policy)) == []
    handed = Agent("test:tools", tools=[read_file, SEARCH], handoffs=[asked], policy=policy)
    assert warned(handed) == []


def test_an_agent_with_a_server_is_not_judged() -> None:
    """Mutant: `tool_names_of` ignores that a toolset is remote."""
    from mcp.server.mcpserver import MCPServer

    server = McpServer.within(MCPServer("notes"))
    served = Agent(
        "test:tools", tools=[read_file, server], policy=Policy(deny=frozenset({"raed_file"}))
    )
    assert warned(served) == []


def test_every_unknown_name_is_listed_for_a_file() -> None:
    policy = Policy(deny=frozenset({"xx", "read_file"}), allow=frozenset({"read_file"}))
    (found,) = unknown_names(policy, {"read_file"})
    assert found.key == ("deny", "xx")
    assert not found.likely

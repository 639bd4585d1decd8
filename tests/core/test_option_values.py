"""Options that are collections of names refuse one text, whose parts would match."""

from collections.abc import Callable
from typing import Any

import pytest

from taofold import Agent, Budget, ConfigError, Limits, Policy, Principal, tool
from taofold.bridges.mcp.client import McpServer
from taofold.bridges.mcp.server.server import http_app
from taofold.core.option_values import checked_names
from taofold.core.values import Action, Tier
from taofold.policy.policy import Facts
from taofold.policy.redaction import Redactor
from taofold.server.auth import Authenticator
from taofold.tools.tool import Tool

SECRET = "hunter2hunter2"
NONE: Any = None


def given(value: Any) -> Any:
    """Returns a value of a type that type checkers would refuse."""
    return value


REFUSED: dict[str, Callable[[], object]] = {
    'Policy(allow="resend")': lambda: Policy(allow=given("resend")),
    'Policy(deny="send")': lambda: Policy(deny=given("send")),
    "Policy(deny=None)": lambda: Policy(deny=NONE),
    "Policy(deny=[1])": lambda: Policy(deny=given([1])),
    'Policy(deny={"send": 1})': lambda: Policy(deny=given({"send": 1})),
    'Policy(tiers=["send"])': lambda: Policy(tiers=given(["send"])),
    "Policy(tiers={1: 2})": lambda: Policy(tiers=given({1: 2})),
    'Policy(tiers={"send": True})': lambda: Policy(tiers=given({"send": True})),
    'Policy(production_tiers="send")': lambda: Policy(production_tiers=given("send")),
    'Policy(roles={"A": "x"})': lambda: Policy(roles=given({"A": "x"})),
    'Policy(roles={"A": -1})': lambda: Policy(roles={"A": -1}),
    'Policy(roles="A")': lambda: Policy(roles=given("A")),
    'Policy(required="send")': lambda: Policy(required=given("send")),
    'Policy(required={"send": ["ADMIN"]})': lambda: Policy(required=given({"send": ["ADMIN"]})),
    'Policy(rights="start")': lambda: Policy(rights=given("start")),
    'Policy(rights={"start": ["ADMIN"]})': lambda: Policy(rights=given({"start": ["ADMIN"]})),
    'Policy(approvers=["ADMIN"])': lambda: Policy(approvers=given(["ADMIN"])),
    'Policy(production="no")': lambda: Policy(production=given("no")),
    'Policy(own_approval="false")': lambda: Policy(own_approval=given("false")),
    "Policy(approve_seconds=-1)": lambda: Policy(approve_seconds=-1),
    'Policy(budgets="x")': lambda: Policy(budgets=given("x")),
    "Budget(per=None)": lambda: Budget(per=NONE, tokens=3),
    "Budget(name=3)": lambda: Budget(name=given(3), tokens=3),
    'Limits(per_tool=["send"])': lambda: Limits(per_tool=given(["send"])),
    'Limits(per_tool={"send": "3"})': lambda: Limits(per_tool=given({"send": "3"})),
    'Limits(depth="3")': lambda: Limits(depth=given("3")),
    'Tool(aliases="send")': lambda: Tool("send_mail", "Sends.", {}, aliases=given("send")),
    'Authenticator(hosts="e.com")': lambda: Authenticator(NONE, NONE, NONE, hosts=given("e.com")),
    'Authenticator(origins="https://e.com")': lambda: Authenticator(
        NONE, NONE, NONE, origins=given("https://e.com")
    ),
    'http_app(hosts="e.com")': lambda: http_app(NONE, NONE, hosts="e.com"),
    'McpServer(tools="send")': lambda: McpServer.stdio("server", tools="send"),
    'McpServer(roots="/home")': lambda: McpServer.stdio("server", roots="/home"),
    "Redactor(SECRET)": lambda: Redactor(SECRET),
    "Agent(secrets=SECRET)": lambda: Agent("test:tools", secrets=SECRET),
    'Agent(tools="files")': lambda: Agent("test:tools", tools="files"),
    'Agent(skills="user")': lambda: Agent("test:tools", skills="user"),
}


@pytest.mark.parametrize("written", REFUSED)
def test_an_option_of_another_kind_is_an_error_at_its_own_name(written: str) -> None:
    """Mutant: `checked_names` returns the letters of a text."""
    with pytest.raises(ConfigError) as caught:
        REFUSED[written]()
    assert caught.value.path
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("names", [["send"], ("send",), {"send"}, frozenset({"send"})])
def test_a_policy_reads_any_collection_of_names(names: Any) -> None:
    policy = Policy(allow=names, deny=names)
    assert policy.allow == policy.deny == frozenset({"send"})
    assert policy.tightened(Policy(deny=frozenset({"x"}))).deny == {"send", "x"}


def test_a_tool_whose_name_is_part_of_an_allowed_one_is_denied() -> None:
    """Mutant: `Policy` keeps `allow` as it was written."""
    facts, action = Facts(Tier.AUTO, "read"), Action(tool="send", parameters={})
    policy = Policy(allow=given(["resend"]))
    assert policy.rule(action, facts, Principal()).verdict == "deny"


def test_the_message_shows_the_form_to_write() -> None:
    with pytest.raises(ConfigError, match=r"write deny=\{'send'\}"):
        Policy(deny=given("send"))
    with pytest.raises(ConfigError, match=r"write per_tool=\{'search': 3\}"):
        Limits(per_tool=given(["send"]))


def test_a_generator_is_read_once() -> None:
    assert checked_names((name for name in "ab"), "x") == ("a", "b")


def test_the_share_of_a_warning_is_named() -> None:
    """Mutant: the message of `usd`, which has no upper bound, is used."""
    with pytest.raises(ConfigError, match=r"warn is a share from 0 to 1, such as 0\.8.*not 80"):
        Budget(tokens=3, warn=80)


def test_a_wrong_option_is_shown_in_one_short_line() -> None:
    """Mutant: the whole text of the agent is shown."""
    billing = Agent("test:tools", name="billing")
    for arguments in ({"handoffs": billing}, {"tools": tool(effect="read")(sleep)}):
        with pytest.raises(ConfigError) as caught:
            Agent("test:tools", **given(arguments))
        assert len(str(caught.value)) < 200


def sleep() -> str:
    """Sleeps."""
    return "slept"

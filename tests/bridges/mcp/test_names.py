"""The names of a server's tools do not depend on the order in which it lists them."""

from itertools import permutations
from pathlib import Path

import pytest

from taofold import Agent, Limits, MemoryLog, Policy
from taofold.bridges.foreign_tools import name_forms, safe_names
from taofold.core.values import Tier

from .kit import Lister, act, agent, finish, lister, tool

pytestmark = pytest.mark.anyio
READ, DELETE = "notes.read", "notes read"
PLAIN, READ_MARKED, DELETE_MARKED = "s_notes_read", "s_notes_read_7a902cd0", "s_notes_read_13a4aacc"
TWINS = ("notes\u0251\u0134read", "notes\u0109\u0146read")
"""Two names with one plain form and one short mark."""


@pytest.fixture
def made() -> Lister:
    return lister(tool(READ, "Read the notes."), tool(DELETE, "Delete the account."))


@pytest.mark.parametrize(
    "names",
    [
        (READ, DELETE),
        (READ, DELETE, "notes_read"),
        (READ, DELETE, "notes_read_13a4aacc"),
        TWINS,
        (*TWINS, READ),
        ("finish", "finish ", "ask_user"),
        ("x" * 100, "x" * 101, "x" * 55),
        ("-", "?", "tool"),
    ],
)
def test_names_are_the_same_in_every_order_and_nobody_has_two(names: tuple[str, ...]) -> None:
    named = {frozenset(safe_names(order, "s_").items()) for order in permutations(names)}
    assert len(named) == 1
    assert len({name for _, name in named.pop()}) == len(names)


def test_a_name_that_nobody_shares_is_plain_and_one_that_is_shared_is_nobodys() -> None:
    assert safe_names([READ, "b"], "s_") == {READ: PLAIN, "b": "s_b"}
    assert safe_names([READ, DELETE], "s_") == {READ: READ_MARKED, DELETE: DELETE_MARKED}
    assert len({name_forms(twin)[1] for twin in TWINS}) == 1
    # A tool with another tool's marked name does not replace it.
    assert DELETE_MARKED not in safe_names([READ, DELETE, "notes_read_13a4aacc"], "s_").values()


async def called(made: Lister, name: str, **options: object) -> str:
    """Returns the result of a call of `name` in a new process."""
    async with made.bridge(pins=False) as server:
        one = agent(server, act(name, x="1"), finish(), approve="all", **options)
        result = await one.run("x")
    return str(result.steps[0].observations[0].result)


@pytest.mark.parametrize("reverse", [False, True])
async def test_a_policy_that_names_one_of_them_hits_that_one(made: Lister, reverse: bool) -> None:
    made.tools.sort(key=lambda each: each.name, reverse=reverse)
    policy = Policy(deny=frozenset({DELETE_MARKED}))
    assert "forbids" in await called(made, DELETE_MARKED, policy=policy)
    assert "called" in await called(made, READ_MARKED, policy=policy)
    assert [name for name, _ in made.called] == [READ]


@pytest.mark.parametrize("name", [READ_MARKED, DELETE_MARKED])
@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Policy(deny=frozenset({PLAIN})), "forbids"),
        (Policy(allow=frozenset({PLAIN})), "forbids"),
        (Policy(tiers={PLAIN: Tier.FORBIDDEN}), "tier 4"),
        (Policy(production=True, production_tiers={PLAIN: Tier.FORBIDDEN}), "tier 4"),
        (Policy(required={PLAIN: "NOBODY"}), "requires role NOBODY"),
    ],
)
async def test_a_rule_of_the_name_that_they_share_hits_both(
    made: Lister, name: str, policy: Policy, why: str
) -> None:
    """The rule was written when only one of the tools existed."""
    assert why in await called(made, name, policy=policy)
    assert made.called == []


async def test_a_rule_of_the_marked_name_holds_when_the_other_is_gone(made: Lister) -> None:
    made.tools = [tool(DELETE)]
    assert "forbids" in await called(made, PLAIN, policy=Policy(deny=frozenset({DELETE_MARKED})))
    strict = Policy(required={DELETE_MARKED: "NOBODY", PLAIN: "VIEWER"})
    assert "NOBODY" in await called(made, PLAIN, policy=strict)
    assert made.called == []


async def test_a_bound_of_the_name_that_they_share_holds_for_each(made: Lister) -> None:
    limits = Limits(per_tool={PLAIN: 0})
    assert "limit reached" in await called(made, READ_MARKED, limits=limits)
    assert made.called == []


async def test_a_rule_holds_for_an_agent_that_is_asked_by_another(made: Lister) -> None:
    async with made.bridge() as server:
        inner = agent(server, act(DELETE_MARKED, x="1"), finish("inner"), name="inner")
        outer = Agent(
            agent(inner, act("inner", goal="go"), finish()).model,
            tools=[inner],
            approve="all",
            policy=Policy(deny=frozenset({PLAIN})),
            log=MemoryLog(),
        )
        assert (await outer.run("x")).success
    assert made.called == []


async def test_names_stay_marked_while_one_of_them_is_gone(made: Lister, tmp_path: Path) -> None:
    async with made.bridge(pins=tmp_path) as server:
        assert set(server) == {READ_MARKED, DELETE_MARKED}
    made.tools = [tool(DELETE)]
    async with made.bridge(pins=tmp_path) as server:
        assert list(server) == [DELETE_MARKED]


async def test_who_names_the_tools_that_he_wants_decides_on_their_names(made: Lister) -> None:
    async with made.bridge(tools=[READ]) as server:
        assert list(server) == [PLAIN]


async def test_a_prefix_goes_before_all_forms_and_an_own_name_has_none(made: Lister) -> None:
    async with made.bridge() as server:
        prefixed = server.prefixed("my_")
        assert f"my_{PLAIN}" in prefixed.aliases[f"my_{READ_MARKED}"]
        assert server.renamed({READ_MARKED: "reader"})["reader"].aliases == ()
        assert server.renamed({READ_MARKED: "reader"})[DELETE_MARKED].aliases


async def test_who_names_nobody_of_them_changes_no_ruling(made: Lister) -> None:
    policy = Policy(deny=frozenset({"other"}), tiers={"other": Tier.CONFIRM})
    async with made.bridge() as server:
        assert policy.covering(server.aliases) == policy
        assert policy.covering(server.aliases).version == policy.version

"""The command line and HTTP show the same run: one view, to which each may add keys."""

from dataclasses import replace
from typing import Any

import pytest

from taofold import Agent, Policy, Tier, tool
from taofold.cli.render.runs import state_json
from taofold.cli.runs.drive import as_json
from taofold.core.events import Record
from taofold.server.api import responses
from taofold.testing.models import ScriptedModel
from taofold.views import run_json, run_state_json

pytestmark = pytest.mark.anyio


@tool(effect="once")
def send(text: str) -> str:
    """Send it."""
    return "sent"


async def waiting() -> tuple[str, list[Record]]:
    """Returns a run that waits for an approval, and its records."""
    reply = '{"thought": "send it", "action": {"tool": "send", "parameters": {"text": "hi"}}}'
    agent = Agent(ScriptedModel([reply]), tools=(send,), log="memory", name="postman")
    result = await agent.run("send a word")
    return result.run_id, list(await result.log.read(result.run_id))


async def test_an_agent_is_shown_with_what_its_policy_says_of_its_tools_aliases() -> None:
    """Mutants: aliases are not checked; a policy's lower role hides the tool's own."""
    named = replace(send, aliases=("post",), role="EDITOR")
    policy = Policy(tiers={"post": Tier.CONFIRM}, required={"post": "ADMIN"})
    agent = Agent(ScriptedModel([]), tools=(named,), policy=policy)
    (shown,) = responses.agent("postman", agent).tools
    assert (shown.tier, shown.role) == (3, "ADMIN")
    lower = agent.replace(policy=Policy(required={"send": "VIEWER"}))
    assert responses.agent("postman", lower).tools[0].role == "EDITOR"


@pytest.mark.parametrize(
    ("policy", "asks"),
    [
        (Policy(), True),
        (Policy(autonomy="autonomous"), False),
        (Policy(autonomy="autonomous", tiers={"send": Tier.CONFIRM}), True),
        (Policy(deny=frozenset({"send"})), False),
        (Policy(tiers={"send": Tier.FORBIDDEN}), False),
    ],
)
async def test_an_agent_shows_whether_a_call_waits_for_an_approval(
    policy: Policy, asks: bool
) -> None:
    agent = Agent(ScriptedModel([]), tools=(send,), policy=policy)
    (shown,) = responses.agent("postman", agent).tools
    assert shown.requires_confirmation is asks


async def test_an_agent_as_a_tool_asks_itself() -> None:
    helper = Agent(ScriptedModel([]), name="helper", tools=(send,)).as_tool("ask_helper")
    agent = Agent(ScriptedModel([]), tools=(helper,))
    (shown,) = responses.agent("postman", agent).tools
    assert shown.requires_confirmation is False


async def test_the_command_line_and_http_show_the_same_state() -> None:
    run, records = await waiting()
    shared = run_state_json(run, records)
    http: dict[str, Any] = responses.moment(run, records).model_dump()
    line = state_json(run, records)
    assert shared["status"] == "waiting"
    assert shared["agent"] == "postman"
    assert {name: http[name] for name in shared} == shared
    assert {name: line[name] for name in shared} == shared


async def test_a_run_in_a_list_is_shown_the_same() -> None:
    reply = '{"thought": "done", "action": {"tool": "finish", "parameters": {"answer": "x"}}}'
    result = await Agent(ScriptedModel([reply]), log="memory").run("a word")
    row = await result.log.row(result.run_id)
    shared = run_json(row)
    assert responses.run(row).model_dump() == shared
    detail = responses.detail(row, await result.log.read(row.run), [], []).model_dump()
    printed = as_json(result)
    both = {name for name in printed if name in detail} - {"pending", "steps"}
    assert {"status", "output", "tokens", "usd", "seconds", "model_calls"} <= both
    assert {name: printed[name] for name in both} == {name: detail[name] for name in both}

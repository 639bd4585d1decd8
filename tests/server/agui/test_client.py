"""The official AG-UI client, under node, against a real server: what it ends up with."""

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent
from taofold.core.errors import ModelError
from taofold.server.auth import TokenStore
from tests.console import node
from tests.server.agents import Bench, act, batch, finish
from tests.server.live import serving

pytestmark = [pytest.mark.anyio, pytest.mark.agui]
SCRIPT = Path(__file__).with_name("client.mjs")


async def drive(
    agent: Agent[Any, Any],
    folder: Path,
    *payloads: Any,
    script: Path = SCRIPT,
    pinned: Mapping[str, str] = node.PINNED,
) -> dict[str, Any]:
    """Runs the client with the answers, one by one, and returns its output."""
    packages = await asyncio.to_thread(node.needs, pinned)
    program = shutil.which("node")
    assert program is not None
    tokens = TokenStore(folder / "tokens.json")
    token = tokens.add("ann", ["EDITOR"])
    async with serving(
        agent, folder / "runs.db", tokens=tokens, token=token, seconds=300
    ) as client:
        process = await asyncio.create_subprocess_exec(
            program, script, packages, f"{client.url}/ag-ui", token, "one", json.dumps(payloads),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "COPILOTKIT_TELEMETRY_DISABLED": "true", "DO_NOT_TRACK": "1"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(300):
                said, wrong = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, wrong.decode()
    # The result is the last line: a runtime of others may greet before it.
    return json.loads(said.decode().strip().splitlines()[-1])


async def test_it_rebuilds_thoughts_calls_results_and_the_answer(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(
        batch("I look twice", ("look", {"at": "a"}), ("look", {"at": "b"})), finish("all seen")
    )
    told = await drive(agent, tmp_path)
    assert told["failures"] == []
    assert [one["role"] for one in told["messages"]] == [
        "user", "reasoning", "assistant", "tool", "tool", "reasoning", "assistant",
    ]  # fmt: skip
    calls = told["messages"][2]["toolCalls"]
    assert [one["function"]["name"] for one in calls] == ["look", "look"]
    assert json.loads(calls[0]["function"]["arguments"]) == {"at": "a"}
    assert {one["content"] for one in told["messages"][3:5]} == {"seen a", "seen b"}
    assert told["messages"][-1]["content"] == "all seen"
    assert told["state"]["status"] == "finished"
    assert told["state"]["steps"] == 2
    assert told["results"][0]["success"] is True


@pytest.mark.scenario("RCT-14")
@pytest.mark.scenario("RCT-15")
async def test_it_approves_one_action_and_denies_another(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(
        act("I tell", "publish", text="first"),
        act("and again", "publish", text="second"),
        act("it was denied", "finish", "exception", answer="one of two"),
    )
    told = await drive(agent, tmp_path, {"approved": True}, {"approved": False, "reason": "no"})
    assert told["failures"] == []
    first, second, last = told["interrupts"]
    assert first[0]["metadata"]["parameters"] == {"text": "first"}
    assert second[0]["metadata"]["parameters"] == {"text": "second"}
    assert last == []
    assert bench.done == [("publish", "first")]
    contents = [one["content"] for one in told["messages"] if one["role"] == "tool"]
    assert contents == ["published first", "denied by ann: no"]
    assert told["messages"][-1]["content"] == "one of two"


async def test_it_edits_parameters_and_answers_questions(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(
        act("I ask", "ask_user", question="Which colour?"),
        act("I tell", "publish", text="grey"),
        finish("done"),
        ask_user=True,
    )
    edit = {"approved": True, "parameters": {"text": "blue"}}
    told = await drive(agent, tmp_path, {"answer": "blue"}, edit)
    assert told["failures"] == []
    assert [one[0]["reason"] for one in told["interrupts"][:2]] == [
        "input_required",
        "tool_approval",
    ]
    assert bench.done == [("publish", "blue")]


async def test_it_takes_a_batch_with_several_interrupts(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(
        batch("all", ("look", {}), ("publish", {"text": "x"}), ("comment", {"text": "y"})),
        finish("done"),
    )
    # Both are asked at once: one answer has a decision for each.
    told = await drive(agent, tmp_path, {"approved": True})
    assert told["failures"] == []
    assert sorted(name for name, _ in bench.done) == ["comment", "look", "publish"]
    assert told["messages"][-1]["content"] == "done"


async def test_it_follows_a_child_run_and_hears_of_a_failure(tmp_path: Path) -> None:
    bench = Bench()
    helper = bench.agent(act("I look", "look", at="in"), finish("inner"), name="helper",
                         tools=bench.safe)  # fmt: skip
    agent = bench.agent(act("help", "helper", goal="x"), finish("outer"), tools=[helper])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    told = await drive(agent, tmp_path / "a")
    assert told["failures"] == []
    assert "SUBAGENT_FINISHED" in told["events"]
    assert told["messages"][-1]["content"] == "outer"
    broken = bench.agent(ModelError("the provider is away", kind="network"))
    told = await drive(broken, tmp_path / "b")
    assert told["events"][-1] == "RUN_ERROR"
    assert told["results"] == [None]


async def test_it_is_told_why_a_request_was_refused(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(act("I tell", "publish", text="x"), finish("done"))
    told = await drive(agent, tmp_path, {"approved": "perhaps"})
    assert bench.done == []
    assert len(told["failures"]) == 1
    assert "the payload is" in told["failures"][0]


def in_call_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`messages` with the results of one batch in the order of its calls.

    The calls of a batch work at once, so their results may come in either order.
    """
    ordered: list[dict[str, Any]] = []
    for role, group in itertools.groupby(messages, key=lambda message: message["role"]):
        members = list(group)
        if role == "tool":
            members.sort(key=lambda message: message["of"])
        ordered += members
    return ordered


async def test_a_client_that_is_cut_off_at_any_event_comes_back_to_the_same(
    tmp_path: Path,
) -> None:
    """Mutants: no snapshot of the messages; a repeated request begins another run."""
    bench = Bench()
    agent = bench.agent(
        batch("I look twice", ("look", {"at": "a"}), ("look", {"at": "b"})),
        act("I tell", "publish", text="seen"),
        finish("all seen"),
    )
    told = await drive(agent, tmp_path, script=SCRIPT.with_name("drops.mjs"))
    whole, cuts = told["whole"], told["cuts"]
    assert len(cuts) == whole["events"] > 30
    assert [message["role"] for message in whole["messages"]].count("tool") == 3
    for number, cut in enumerate(cuts, 1):
        assert cut["cutOff"] == 1, number
        own = f"go {number}"
        assert cut["messages"][0]["content"] == own, number
        assert in_call_order(cut["messages"][1:]) == in_call_order(whole["messages"][1:]), number
        assert {**cut["state"], "goal": ""} == {**whole["state"], "goal": ""}, number
    assert bench.done.count(("publish", "seen")) == len(cuts) + 1, "each thread acted once"


async def test_behind_copilotkit_each_cut_thread_ends_alike_and_acts_once(tmp_path: Path) -> None:
    """The stream between CopilotKit's runtime and us is cut at every event of a run."""
    bench = Bench()
    agent = bench.agent(
        batch("I look twice", ("look", {"at": "a"}), ("look", {"at": "b"})),
        act("I tell", "publish", text="seen"),
        finish("all seen"),
    )
    told = await drive(
        agent, tmp_path, script=SCRIPT.with_name("copilotkit.mjs"), pinned=node.COPILOTKIT
    )
    whole, threads = told["whole"], told["all"]
    assert len(threads) == whole["events"] > 30
    for number, thread in enumerate(threads, 1):
        assert thread["cuts"] == 1, number
        assert thread["last"]["result"]["output"] == "all seen", number
    assert bench.done.count(("publish", "seen")) == len(threads) + 1, "each thread acted once"

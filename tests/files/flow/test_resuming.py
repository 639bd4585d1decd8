# ruff: noqa: E501 - YAML in lines
"""A flow that is cut at any event and resumed ends in the same state; replays are offline."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, MemoryLog
from taofold.core import events as e
from taofold.core.state import fold
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel
from taofold.testing.replay import assert_replays
from tests.files.flow.kit import made, with_model
from tests.runtime.kit import LOGS, assert_alike, neutral, planted, settled

pytestmark = pytest.mark.anyio

FLOW = """
settings: {search: "folder:."}
tools: [files]
state_schema: {files: "list[str]"}
nodes:
  - {name: note, uses: memory.store, with: {key: topic, value: "{{ goal }}"}}
  - name: each
    parallel: {items: "{{ state.files }}", as: file, max_concurrency: 2}
    steps:
      - {name: text, uses: file.read, with: {path: "{{ file }}"}, on_error: {then: continue}}
      - {name: sum, uses: llm.call, with: {prompt: "sum up {{ state.text }}"}}
    output: sums
  - name: loop
    while: {condition: "get(state, 'n', 0) < 2", max_iterations: 3}
    steps:
      - {name: inc, set: {n: "{{ (state.n | default(0)) + 1 }}"}}
      - {name: ask, uses: reason.cot, with: {problem: "turn {{ iteration }}"}}
  - {name: missing, uses: file.read, with: {path: gone}, on_error: {retry: {max: 1, backoff: 0.001}, fallback: save}}
  - {name: never, set: {never: 1}}
  - {name: save, uses: memory.store, approve: "Keep?", with: {key: k, value: "{{ state.ask.answer }}"}}
  - {name: look, uses: reason.react, with: {goal: look, tools: [read_file], max_steps: 3}}
  - {name: back, uses: memory.recall, with: {key: topic}}
result: "{{ [state.sums, state.n, state.look.final_answer, state.back] }}"
"""


def say(request: Request) -> str:
    """The same reply to the same prompt, always."""
    first, last = request.conversation[0].content, request.conversation[-1].content
    if '{"thinking"' in first:
        return json.dumps({"thinking": "t", "answer": f"a {last}"})
    if "Reply with the answer itself" in first:
        return hashlib.blake2b(last.encode(), digest_size=4).hexdigest()
    tool, parameters = "read_file", {"path": "a.txt"}
    if "Observation" in last:
        tool, parameters = "finish", {"answer": "seen"}
    action = {"tool": tool, "parameters": parameters, "rationale": "r"}
    return json.dumps({"thought": "I look", "thought_type": "reasoning", "action": action})


def agent(folder: Path) -> Agent[Any, Any]:
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"text {name}")
    return with_model(made(FLOW, folder), FunctionModel(say))


@pytest.mark.scenario("PEER-05")
@pytest.mark.parametrize("kind", LOGS)
async def test_a_flow_cut_at_every_event_and_resumed_ends_in_the_same_state(
    tmp_path: Path, kind: str
) -> None:
    log = MemoryLog()
    flow = agent(tmp_path).replace(log=log)
    data = {"files": ["a.txt", "b.txt", "gone.txt", "c.txt"]}
    result = await settled(flow, await flow.run("the goal", run_id="r", data=data))
    assert result.success, result.error
    assert result.output[1:] == [2, "seen", "the goal"]
    wanted = neutral(fold(await log.read("r")), ordered=False)
    await assert_replays(flow, "r")
    records = list(result.records)
    assert len(records) > 60
    for upto in range(1, len(records), 1 if kind == "memory" else 9):
        (tmp_path / str(upto)).mkdir()
        cut = await planted(records[:upto], LOGS[kind](tmp_path / str(upto)))
        again = flow.replace(log=cut)
        result = await settled(again, await again.resume("r", takeover=True))
        got = neutral(result.state, ordered=False)
        assert_alike(got, wanted, result.records, where=upto)
        await cut.close()


async def test_a_resumed_flow_asks_no_model_and_calls_no_tool_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(request: Request) -> str:
        asked.append(request.conversation.digest)
        return say(request)

    log = MemoryLog()
    flow = with_model(agent(tmp_path), FunctionModel(counted), log=log)
    waiting = await flow.run("the goal", run_id="r", data={"files": ["a.txt"]})
    assert waiting.status == "waiting"
    before = len(asked)
    result = await settled(flow, waiting)
    assert result.success
    assert len(asked) == len(set(asked))
    assert len(asked) > before


async def test_a_changed_template_does_not_strand_a_waiting_flow(tmp_path: Path) -> None:
    log = MemoryLog()
    flow = agent(tmp_path).replace(log=log)
    waiting = await flow.run("the goal", run_id="r", data={"files": ["a.txt"]})
    changed = with_model(
        made(FLOW.replace("sum up", "please sum up"), tmp_path), FunctionModel(say), log=log
    )
    result = await settled(changed, waiting)
    assert result.success, result.error
    assert any(isinstance(one.event, e.PromptChanged) for one in result.records)

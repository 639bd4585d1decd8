# ruff: noqa: E501 - YAML in lines
"""Nodes of a flow: their results, order and errors."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from taofold import Agent, MemoryLog, ReplayDiverged
from taofold.core import events as e
from taofold.core.errors import ModelError
from taofold.log.log import RunRow
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel, ScriptedModel, TestModel
from tests.files.flow.kit import flow, made, reasoned, with_model

HOSTILE = "{{ 7 * 7 }} {% for x in range(10) %}x{% endfor %} {{ state.__class__ }}"


def test_nodes_run_in_order_and_the_last_value_is_the_answer(tmp_path: Path) -> None:
    result = flow(
        """
nodes:
  - {name: one, uses: llm.call, with: {prompt: "first {{ goal }}"}}
  - {name: two, uses: llm.call, with: {prompt: "then {{ state.one }}"}, output: second}
""",
        tmp_path,
    ).run_sync("x")
    assert result.output == "said: then said: first x"
    assert result.state.data["second"] == result.output
    assert [step.actions[0].tool for step in result.steps] == ["llm.call", "llm.call", "finish"]


def test_an_output_may_take_parts_of_a_value(tmp_path: Path) -> None:
    result = flow(
        """
nodes:
  - name: think
    uses: reason.cot
    with: {problem: p, output_format: {list: "list[int]"}}
    output: {why: thinking, first: answer.list.0, all: "."}
result: "{{ [state.why, state.first, state.all.answer] }}"
""",
        tmp_path,
        lambda _: reasoned({"list": [4, 5]}),
    ).run_sync("x")
    assert result.output == ["because", 4, {"list": [4, 5]}]


def test_an_output_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    text = "nodes: [{name: a, uses: llm.call, with: {prompt: p}, output: {x: nope.y}}]"
    result = flow(text, tmp_path).run_sync("x")
    assert "the value has no 'nope.y'" in result.error
    assert "x" not in result.state.data


@pytest.mark.parametrize(("n", "path"), [(1, ["low"]), (5, ["mid", "low"]), (9, [])])
def test_goto_takes_the_first_condition_that_holds(tmp_path: Path, n: int, path: list[str]) -> None:
    result = flow(
        """
nodes:
  - name: start
    set: {seen: []}
    goto: [{if: "state.n > 8", to: end}, {if: "state.n > 4", to: mid}, {to: low}]
  - {name: never, set: {seen: "{{ state.seen + ['never'] }}"}}
  - {name: mid, set: {seen: "{{ state.seen + ['mid'] }}"}}
  - {name: low, set: {seen: "{{ state.seen + ['low'] }}"}, goto: end}
  - {name: last, set: {seen: "{{ state.seen + ['last'] }}"}}
""",
        tmp_path,
    ).run_sync("x", data={"n": n})
    assert result.state.data["seen"] == path


def test_a_loop_stops_when_its_condition_no_longer_holds(tmp_path: Path) -> None:
    text = """
nodes:
  - {name: zero, set: {n: 0}}
  - name: up
    while: {condition: "state.n < %d", max_iterations: 5}
    steps: [{name: inc, set: {n: "{{ state.n + 1 }}", turn: "{{ iteration }}"}}]
result: "{{ [state.n, state.turn, state.up] }}"
"""
    short = flow(text % 3, tmp_path).run_sync("x")
    assert short.output == [3, 3, {"iterations": 3, "exhausted": False}]
    long = flow(text % 99, tmp_path).run_sync("x")
    assert long.output == [5, 5, {"iterations": 5, "exhausted": True}]
    notes = [r.event for r in long.records if isinstance(r.event, e.Noted)]
    assert [one.data for one in notes if one.kind == "loop_limit"] == [
        {"node": "up", "iterations": 5}
    ]


def test_a_circle_of_gotos_ends_with_an_error(tmp_path: Path) -> None:
    result = flow("nodes: [{name: a, set: {x: 1}, goto: a}]", tmp_path).run_sync("x")
    assert "reached more than 1000 times" in result.error


def test_items_run_in_parallel_and_keep_their_order(tmp_path: Path) -> None:
    result = flow(
        """
nodes:
  - name: each
    parallel: {items: "{{ range(7) | list }}", as: number, max_concurrency: 3}
    uses: llm.call
    with: {prompt: "{{ number }}/{{ index }}"}
""",
        tmp_path,
    ).run_sync("x")
    assert result.output == [f"said: {i}/{i}" for i in range(7)]


@pytest.mark.document_item("004.risk.parallel")
def test_branches_see_their_own_state_only(tmp_path: Path) -> None:
    result = flow(
        """
nodes:
  - {name: before, set: {x: 0}}
  - name: both
    parallel:
      branches:
        a: [{name: a1, set: {x: "{{ state.x + 1 }}"}}, {name: a2, set: {y: "{{ [branch, state.x] }}"}}]
        b: {set: {x: "{{ state.x + 2 }}"}}
result: "{{ [state.both, state.x, state.y is defined] }}"
""",
        tmp_path,
    ).run_sync("x")
    assert result.output == [{"a": {"y": ["a", 1]}, "b": {"x": 2}}, 0, False]
    assert result.state.data["x"] == 0
    assert "y" not in result.state.data


@pytest.mark.scenario("TEA-32")
@pytest.mark.document_item("004.risk.parallel")
def test_traces_of_parallel_branches_do_not_mix(tmp_path: Path) -> None:
    def say(request: Request) -> str:
        name = request.conversation[-1].content
        return reasoned(f"answer {name}", f"thinking of {name}")

    result = flow(
        """
nodes:
  - name: both
    parallel:
      branches:
        a: [{name: a1, uses: reason.cot, with: {problem: one}}, {name: a2, uses: reason.cot, with: {problem: two}}]
        b: {uses: reason.cot, with: {problem: three}}
      result: "{{ state.reasoning_answer }}"
""",
        tmp_path,
        say,
    ).run_sync("x")
    assert result.output == {"a": "answer two", "b": "answer three"}
    trace = result.state.data["reasoning_trace"]
    assert [(t["branch"], t["step"], t["thought"]) for t in trace] == [
        ("a", 1, "thinking of two"),
        ("b", 2, "thinking of three"),
    ]


@pytest.mark.parametrize(("fast", "asked"), [(True, 2), (False, 5)])
def test_fail_fast_starts_nothing_after_a_failure(tmp_path: Path, fast: bool, asked: int) -> None:
    seen: list[str] = []

    def say(request: Request) -> str:
        seen.append(request.conversation[-1].content)
        if seen[-1] == "1":
            raise ModelError("down", kind="server")
        return "ok"

    result = flow(
        f"""
nodes:
  - name: each
    parallel: {{items: "{{{{ range(5) | list }}}}", max_concurrency: 2, fail_fast: {str(fast).lower()}}}
    uses: llm.call
    with: {{prompt: "{{{{ item }}}}"}}
""",
        tmp_path,
        say,
    ).run_sync("x")
    assert not result.success
    assert len(seen) == asked
    assert "1 of 5 branches failed" in result.error


def test_a_failure_without_a_rule_ends_the_run_with_its_node(tmp_path: Path) -> None:
    text = "nodes: [{name: read, uses: file.read, with: {path: gone.txt}}]"
    result = flow(text, tmp_path).run_sync("x")
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert result.error.startswith("node 'read': ")


def test_a_failure_may_be_tried_again_and_waits_in_between(tmp_path: Path) -> None:
    model = ScriptedModel([ModelError("down"), ModelError("down"), "up"])
    agent = with_model(
        made(
            """
nodes:
  - name: ask
    uses: llm.call
    with: {prompt: p}
    on_error: {retry: {max: 2, backoff: 0.001}}
""",
            tmp_path,
        ),
        model,
    )
    result = agent.run_sync("x")
    assert result.output == "up"
    waits = [s.actions[0] for s in result.steps if s.actions[0].tool == "flow.wait"]
    assert [one.parameters for one in waits] == [{"seconds": 0.001}, {"seconds": 0.002}]


def test_the_same_call_may_be_tried_again_unchanged(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(
        "from taofold import tool\nN = []\n\n@tool(effect='read')\ndef flaky() -> str:\n"
        "    '''Fail twice.'''\n    N.append(1)\n    if len(N) < 4: raise OSError('not yet')\n"
        "    return 'now'\n"
    )
    result = flow(
        """
tools: ["t.py:flaky"]
nodes: [{name: go, uses: tool.flaky, on_error: {retry: {max: 5}}}]
""",
        tmp_path,
    ).run_sync("x")
    assert result.output == "now"


def test_a_failure_may_lead_elsewhere_or_be_passed_over(tmp_path: Path) -> None:
    result = flow(
        """
nodes:
  - {name: a, uses: file.read, with: {path: gone}, on_error: {then: continue}}
  - {name: b, uses: file.read, with: {path: gone}, on_error: {fallback: d}}
  - {name: c, set: {never: 1}}
  - {name: d, set: {told: "{{ state.errors | list }}"}}
""",
        tmp_path,
    ).run_sync("x")
    assert result.success
    assert result.state.data["told"] == ["a", "b"]
    assert "never" not in result.state.data


def test_a_provider_that_fails_is_a_failed_node(tmp_path: Path) -> None:
    model = ScriptedModel([ModelError("no credit", kind="request")])
    agent = with_model(
        made("nodes: [{name: a, uses: reason.cot, with: {problem: p}}]", tmp_path), model
    )
    result = agent.run_sync("x")
    assert "no credit" in result.error
    assert result.state.data["reasoning_answer"] is None


@pytest.mark.scenario("TEA-28")
def test_a_model_that_hangs_is_stopped_and_the_flow_goes_on(tmp_path: Path) -> None:
    import asyncio

    async def hang(_: Request) -> str:
        await asyncio.Event().wait()
        return "never"

    agent = with_model(
        made(
            """
nodes:
  - {name: a, uses: llm.call, with: {prompt: p}, timeout: 0.02, on_error: {then: continue}}
  - {name: b, set: {told: "{{ state.errors.a }}"}}
""",
            tmp_path,
        ),
        FunctionModel(hang),
    )
    result = agent.run_sync("x")
    assert "no reply within 0.02 s" in result.state.data["told"]
    failed = [r.event for r in result.records if isinstance(r.event, e.AskFailed)]
    assert [one.kind for one in failed] == ["timeout"]


@pytest.mark.scenario("TEA-36")
def test_text_of_models_and_tools_is_never_rendered(tmp_path: Path) -> None:
    (tmp_path / "evil.txt").write_text(HOSTILE)
    result = flow(
        """
nodes:
  - {name: said, uses: llm.call, with: {prompt: p}}
  - {name: again, uses: llm.call, with: {prompt: "x {{ state.said }}"}}
  - {name: kept, uses: memory.store, with: {key: k, value: "{{ state.said }}"}}
  - {name: back, uses: memory.recall, with: {key: "{{ 'k' }}"}}
  - {name: file, uses: file.read, with: {path: evil.txt}}
  - {name: set, set: {copy: "{{ state.file }}"}, goto: [{if: "state.back == state.said", to: end}]}
  - {name: wrong, set: {differs: true}}
""",
        tmp_path,
        lambda _: HOSTILE,
    ).run_sync(HOSTILE, data={"given": HOSTILE})
    assert result.success, result.error
    data = result.state.data
    assert data["said"] == data["again"] == data["back"] == data["given"] == HOSTILE
    assert HOSTILE in data["copy"]
    assert "differs" not in data


@pytest.mark.scenario("TEA-35")
def test_settings_are_defaults_of_all_nodes(tmp_path: Path) -> None:
    agent = made(
        """
settings: {model: small, provider: ollama, temperature: 0.3, tracing: false}
nodes:
  - {name: a, uses: llm.call, with: {prompt: p}}
  - {name: b, uses: reason.cot, with: {problem: p, model: "openai:big", temperature: 0.9}}
  - {name: c, uses: reason.self_correct, with: {task: p, critic_model: judge, improvement_rounds: 1}}
""",
        tmp_path,
    )
    assert agent.model == ["ollama:small"]
    assert set(agent.models) == {"openai:big", "ollama:judge"}
    verdict = json.dumps({"reasoning": "r", "score": 1, "issues": [], "suggestions": []})
    small = ScriptedModel(["a", "draft"], name="small")
    big = ScriptedModel([reasoned("b")], name="big")
    judge = ScriptedModel([verdict], name="judge")
    agent = agent.replace(model=small, models={"openai:big": big, "ollama:judge": judge})
    result = agent.run_sync("x")
    assert result.success, result.error
    assert [one.request.asked().temperature for one in small.requests] == [0.3, 0.3]
    assert [one.request.asked().temperature for one in big.requests] == [0.9]
    assert len(judge.requests) == 1
    assert "reasoning_trace" not in result.state.data
    assert result.state.data["reasoning_answer"] == "draft"


def test_a_node_waits_for_a_persons_word(tmp_path: Path) -> None:
    text = """
nodes:
  - {name: a, set: {x: 1}}
  - {name: b, uses: llm.call, approve: "Spend {{ state.x }}?", with: {prompt: p}}
"""
    agent = flow(text, tmp_path, log=MemoryLog())
    waiting = agent.run_sync("x")
    assert waiting.status == "waiting"
    assert "Spend 1?" in waiting.pending[0].preview
    denied = flow(text, tmp_path, approve=lambda _: False).run_sync("x")
    assert "not approved" in denied.error
    approved = flow(text, tmp_path, approve="all").run_sync("x")
    assert approved.output == "said: p"


def test_a_limit_of_the_run_ends_the_flow(tmp_path: Path) -> None:
    text = """
limits: {model_calls: 2}
nodes:
  - name: go
    while: {condition: "true", max_iterations: 9}
    steps: [{name: a, uses: llm.call, with: {prompt: p}, on_error: {then: continue}}]
"""
    result = flow(text, tmp_path).run_sync("x")
    assert (result.status, result.stop_reason) == ("limited", "max_model_calls")


@pytest.mark.scenario("TEA-09")
@pytest.mark.parametrize("tool", ["read_file", "ask_user"])
def test_a_node_keeps_to_the_tools_it_names(tool: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")

    def act(tool: str, kind: str = "reasoning", **parameters: Any) -> str:
        action = {"tool": tool, "parameters": parameters, "rationale": "r"}
        return json.dumps({"thought": "t", "thought_type": kind, "action": action})

    model = ScriptedModel([act(tool, path="secret.txt"), act("finish", "exception", answer="no")])
    agent = with_model(
        made(
            """
tools: [files]
ask_user: true
nodes: [{name: a, uses: reason.react, with: {goal: g, tools: [list_files]}}]
""",
            tmp_path,
        ),
        model,
    )
    result = agent.run_sync("x")
    assert f"unknown tool {tool!r}; available tools: list_files" in model.requests[1].last
    assert result.state.tool_calls == 0


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_node_takes_at_most_its_own_steps(tmp_path: Path, steps: int) -> None:
    looks = json.dumps(
        {
            "thought": "t",
            "thought_type": "reasoning",
            "action": {"tool": "list_files", "parameters": {}, "rationale": "r"},
        }
    )
    seen: list[str] = []

    def say(request: Request) -> str:
        seen.append(request.conversation[-1].content)
        return looks

    result = flow(
        f"""
strict: false
limits: {{parse_retries: 0}}
nodes:
  - name: a
    uses: reason.react
    with: {{goal: g, tools: [list_files], max_steps: {steps}}}
""",
        tmp_path,
        say,
    ).run_sync("x")
    assert len(seen) == steps
    assert not result.success
    assert "max_steps" in result.error
    assert len(result.state.data["react_steps"]) == max(0, steps - 1)


@pytest.mark.parametrize(
    ("action", "key", "bound", "calls"),
    [
        ("reason.react", "max_steps", 1, 0),
        ("reason.react", "max_steps", 3, 2),
        ("llm.tools", "max_tool_rounds", 0, 0),
        ("llm.tools", "max_tool_rounds", 2, 2),
    ],
)
@pytest.mark.parametrize("more", [0, 1])
def test_a_node_that_answers_within_its_steps_succeeds_and_one_more_call_fails(
    tmp_path: Path, action: str, key: str, bound: int, calls: int, more: int
) -> None:
    def act(tool: str, **parameters: Any) -> str:
        call = {"tool": tool, "parameters": parameters, "rationale": "r"}
        return json.dumps({"thought": "t", "thought_type": "reasoning", "action": call})

    goal = "prompt" if action == "llm.tools" else "goal"
    text = f"""
tools: [files]
strict: false
nodes: [{{name: a, uses: {action}, with: {{{goal}: g, tools: [list_files], {key}: {bound}}}}}]
"""
    looks = [act("list_files", path=".", depth=1 + number) for number in range(calls + more)]
    agent = with_model(made(text, tmp_path), ScriptedModel([*looks, act("finish", answer="ok")]))
    result = agent.run_sync("x")
    assert result.success is not bool(more), result.error
    assert not more or f"all {bound} of {key} were used: raise {key}" in result.error


def test_a_limit_of_the_run_is_never_taken_for_the_bound_of_a_node(tmp_path: Path) -> None:
    text = """
strict: false
limits: {steps: 0}
nodes: [{name: a, uses: reason.react, with: {goal: g, max_steps: 9}}]
"""
    result = flow(text, tmp_path).run_sync("x")
    assert (result.status, result.stop_reason) == ("limited", "max_steps")
    assert "raise limits.steps" in result.error


def test_steering_reaches_the_next_model(tmp_path: Path) -> None:
    result = flow(
        """
state_schema: {n: int, word: str, out: "list[str]"}
input: word
nodes: [{name: out, set: {out: "{{ [state.word, state.n | string] }}"}}]
""",
        tmp_path,
    ).run_sync("hello", data={"n": 3})
    assert result.state.data["out"] == ["hello", "3"]


@pytest.mark.parametrize(
    ("data", "said"),
    [({"n": "x"}, "n: Input should be a valid integer"), ({}, "n: Field required")],
)
def test_a_state_that_does_not_fit_its_schema_is_refused(
    tmp_path: Path, data: dict[str, Any], said: str
) -> None:
    text = "state_schema: {n: int}\nnodes: [{name: a, set: {x: 1}}]"
    result = flow(text, tmp_path).run_sync("x", data=data)
    assert said in result.error
    assert not result.steps


def test_a_value_that_does_not_fit_the_schema_fails_its_node(tmp_path: Path) -> None:
    text = "state_schema: {x: int}\nnodes: [{name: a, set: {x: 'text'}}]"
    result = flow(text, tmp_path).run_sync("x")
    assert "'x' does not fit state_schema" in result.error
    assert "x" not in result.state.data


def test_the_answer_has_the_type_that_the_file_says(tmp_path: Path) -> None:
    text = "output: {n: int}\nnodes: [{name: a, set: {v: 1}}]\nresult: {n: '{{ state.v }}'}"
    result = flow(text, tmp_path).run_sync("x")
    assert result.output.n == 1
    wrong = flow(text.replace("{v: 1}", "{v: word}"), tmp_path).run_sync("x")
    assert "the result is not accepted" in wrong.error


def test_a_thousand_nodes_cost_as_much_each_as_ten(tmp_path: Path) -> None:
    def run(count: int) -> float:
        """Calls of functions for each node."""
        nodes = "\n".join(f"  - {{name: n{i}, set: {{x: '{{{{ {i} }}}}'}}}}" for i in range(count))
        agent: Agent[Any, Any] = flow("nodes:\n" + nodes, tmp_path)
        calls = 0

        def counted(*_: Any) -> None:
            nonlocal calls
            calls += 1

        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            result = agent.run_sync("x")
        finally:
            sys.setprofile(before)
        assert result.state.data["x"] == count - 1
        return calls / count

    run(10)
    assert run(1000) < run(50) * 1.5  # a quadratic cost would be twenty times


def test_another_flow_is_an_action(tmp_path: Path) -> None:
    (tmp_path / "sub.yaml").write_text(
        "state_schema: {n: int}\nnodes: [{name: a, set: {m: '{{ state.n * 2 }}'}}]\n"
        "result: '{{ state.m }}'\n"
    )
    text = """
imports: [{path: sub.yaml, namespace: twice}]
nodes:
  - {name: a, uses: flow.twice, with: {n: %s}, on_error: {then: continue}}
result: "{{ [state.a, state.m is defined, state.errors | default('')] }}"
"""
    assert flow(text % 4, tmp_path).run_sync("x").output == [8, False, ""]
    assert "does not fit the state_schema" in str(flow(text % "x", tmp_path).run_sync("x").output)


BRANCHING = """\
name: branching
input: text
nodes:
  - name: first
    set: {size: "{{ state.text | length }}"}
    goto: [{if: "state.size > 3", to: long}, {if: "state.size > 2", to: end}]
  - name: short
    set: {said: short}
    goto: end
  - name: long
    set: {said: long}
result: "{{ state.said }}"
"""


BRANCHING_IN_A_LOOP = """\
name: looping
input: text
nodes:
  - name: turns
    while: {condition: "iteration < 2", max_iterations: 3}
    steps: [{name: inner, set: {said: long}, goto: [{if: "iteration > 0", to: end}]}]
result: "{{ state.said }}"
"""
"""The loop's own note follows under the same number as the branch's."""


@pytest.mark.parametrize(("text", "way"), [("four", "long"), ("x", "")])
@pytest.mark.anyio
async def test_the_way_that_a_flow_takes_is_on_record(tmp_path: Path, text: str, way: str) -> None:
    agent = flow(BRANCHING, tmp_path).replace(log="memory")
    result = await agent.run(text)
    notes = [r.event for r in result.records if isinstance(r.event, e.Noted)]
    assert [note.data for note in notes if note.kind == "branch"] == [{"node": "first", "to": way}]
    assert (await agent.replay(result.run_id)).output == result.output


@pytest.mark.anyio
async def test_a_log_of_a_release_that_did_not_record_the_way_replays_and_resumes(
    tmp_path: Path,
) -> None:
    agent = flow(BRANCHING_IN_A_LOOP, tmp_path)
    result = await agent.run("four")
    older = [r.event for r in result.records if getattr(r.event, "kind", "") != "branch"]
    for last in (len(older), len(older) - 1, 2):
        log = MemoryLog()
        records = [e.Record("old", seq, 1, event) for seq, event in enumerate(older[:last])]
        await log.create(RunRow("old", status="running"), records=records)
        again = agent.replace(log=log)
        if last == len(older):
            assert (await again.replay("old")).output == "long"
        else:
            assert (await again.resume("old")).output == "long"


@pytest.mark.anyio
async def test_another_way_than_the_recorded_one_is_a_divergence(tmp_path: Path) -> None:
    agent = flow(BRANCHING, tmp_path)
    result = await agent.run("four")
    events = [r.event for r in result.records]
    forged = [
        replace(event, data={"node": "first", "to": "short"})
        if isinstance(event, e.Noted) and event.kind == "branch"
        else event
        for event in events
    ]
    log = MemoryLog()
    await log.create(
        RunRow("old", status="running"),
        records=[e.Record("old", seq, 1, event) for seq, event in enumerate(forged)],
    )
    with pytest.raises(ReplayDiverged):
        await agent.replace(log=log).replay("old")


def test_a_test_model_finishes_a_node_that_names_a_model(tmp_path: Path) -> None:
    # Such a node gets its tools in the prompt, so the reply is a step in JSON.
    text = """
    name: f
    nodes:
      - {name: a, uses: reason.react, output: a,
         with: {goal: hi, tools: [memory.store], model: "openai:gpt-4"}}
    """
    agent = made(text, tmp_path)
    run = agent.replace(model=TestModel(), models={"openai:gpt-4": TestModel()}).run_sync("g")
    assert run.success, run.error

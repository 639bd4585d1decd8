"""Python of a model: what it may not do, and what happens to the calls it makes."""

import asyncio
import json
from typing import Any

import pytest

from taofold import Agent, Limits, MemoryLog, tool
from taofold.bridges.python_sandbox import (
    CodeBounds,
    CodeFailure,
    CodeProgram,
    CodeResult,
    CodeTurn,
    FunctionCall,
    Interpreter,
)
from taofold.bridges.python_tool import python_tool
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.values import Reply, ToolCall
from taofold.policy import Policy
from tests.runtime.kit import LOGS, Memo, act, events, finish, settled

pytestmark = pytest.mark.anyio

QUICK = CodeBounds(seconds=0.5, memory=32_000_000)
"""For code that does not end."""
PATIENT = CodeBounds(seconds=60, memory=32_000_000)
"""For code that ends, also on a busy machine."""


def turn(code: str, *functions: str, bounds: CodeBounds = PATIENT) -> CodeTurn:
    return Interpreter(bounds).turn(CodeProgram(code, frozenset(functions)))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("open('/etc/passwd').read()", "PermissionError"),
        ("import os\nos.listdir('/')", "PermissionError"),
        ("import os\nos.environ['HOME']", "RuntimeError"),
        ("from pathlib import Path\nPath('/etc/passwd').read_text()", "PermissionError"),
        ("import socket", "ModuleNotFoundError"),
        ("import subprocess", "ModuleNotFoundError"),
        ("__import__('os').system('ls')", "NameError"),
        ("eval(\"open('/etc/passwd').read()\")", "PermissionError"),
        ("().__class__.__mro__[1].__subclasses__()", "AttributeError"),
        ("while True: pass", "TimeoutError"),
        ("x = [0] * 10**9", "MemoryError"),
        ("'a' * 10**10", "MemoryError"),
        ("9 ** 9 ** 9", "MemoryError"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
        ("nobody(1)", "NameError"),
        ("x = = 1", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_code_can_do_nothing_but_compute(code, said):
    end = turn(code, bounds=QUICK if said == "TimeoutError" else PATIENT).end
    assert isinstance(end, CodeFailure)
    assert said in end.text


def test_code_computes_and_prints():
    code = "import json, re\nprint(json.dumps(re.findall('a+', 'caat')))\n{'x': (1, {2})}"
    assert turn(code) == CodeTurn(CodeResult({"x": [1, [2]]}), '["aa"]\n')


def test_an_unknown_attribute_of_a_value_is_an_error_of_the_code():
    assert isinstance(turn("'x'.nonsense").end, CodeFailure)


def test_a_turn_ends_where_a_function_of_ours_is_called():
    assert turn("print('a')\nx = f(1, b=[2])", "f") == CodeTurn(
        FunctionCall("f", (1,), {"b": [2]}), "a\n"
    )
    assert turn("g = f\ng(1)", "f").end == FunctionCall("f", (1,), {})
    assert turn("x = await f(1)", "f").end == FunctionCall("f", (1,), {})


@pytest.mark.parametrize("code", ["r = f(1)\nprint(r)\nr", "r = await f(1)\nprint(r)\nr"])
def test_the_answer_to_a_call_is_its_value_or_an_exception(code):
    one = Interpreter(PATIENT)
    program = CodeProgram(code, frozenset("f"))
    first = one.turn(program).end
    assert isinstance(first, FunctionCall)
    assert one.turn(program.then(first, {"value": 7})) == CodeTurn(CodeResult(7), "7\n")
    failed = one.turn(program.then(first, {"error": "PermissionError", "text": "denied"})).end
    assert isinstance(failed, CodeFailure)
    assert "PermissionError: denied" in failed.text


STORY = """
import random, time, datetime
print(random.random(), time.time(), datetime.datetime.now(), list({'a', 'bb', 'ccc'}))
found = []
for i in range(4):
    found.append(f(i))
    print('got', found[-1])
found
"""


def test_a_program_that_is_run_again_from_its_beginning_takes_the_same_turns():
    """After a crash, another process has only the code and the answers."""
    kept, program = Interpreter(PATIENT), CodeProgram(STORY, frozenset("f"))
    for number in range(5):
        mine, other = kept.turn(program), Interpreter(PATIENT).turn(program)
        assert mine == other
        if isinstance(mine.end, FunctionCall):
            program = program.then(mine.end, {"value": number * 10})
    assert mine.end == CodeResult([0, 10, 20, 30])


def test_a_program_that_does_not_repeat_itself_is_stopped():
    """Never give an answer to another call than the one that was made."""
    other = CodeProgram("f(2)", frozenset("f")).then(FunctionCall("f", (1,), {}), {"value": 1})
    end = Interpreter(PATIENT).turn(other).end
    assert isinstance(end, CodeFailure)
    assert "did not repeat itself" in end.text


# --- as a tool


@tool(effect="read")
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


REMOVED: list[str] = []


@tool
def remove(path: str) -> str:
    """Remove a file."""
    REMOVED.append(path)
    return f"{path} is gone"


@tool(effect="read")
def broken() -> str:
    """Fail."""
    raise ValueError("it broke")


def coder(code: str, *more: Any, **options: Any) -> Agent[Any, Any]:
    tools = python_tool(tools=[add, remove, broken], bounds=PATIENT)
    return Agent(Memo([act("python", code=code), *more, finish()]), tools=[tools], **options)


async def came(code: str, **options: Any) -> Any:
    result = await coder(code, **options).run("go")
    assert result.success, result
    return events(result, e.Observed)[0].observation


async def test_code_gets_what_tools_return_and_the_model_what_code_comes_to():
    seen = await came("total = 0\nfor i in range(5):\n    total = add(total, b=i)\ntotal")
    assert (seen.status, seen.result) == ("success", 10)
    seen = await came("print('x', add(1))\nadd(2, 3)")
    assert seen.result == {"printed": "x 1\n", "value": 5}
    assert (await came("x = 1")).result == "(no output)"


async def test_the_model_is_told_which_functions_there_are():
    agent = coder("1")
    await agent.run("go")
    shown = agent.model.asked[0][0].content
    assert "- add(a: integer, b: integer = …): Add two numbers." in shown
    assert "- remove(path: string): Remove a file." in shown


async def test_an_error_of_the_code_is_a_failed_observation_with_its_traceback():
    seen = await came("print('before')\nadd(1) / 0")
    assert seen.status == "failure"
    assert "before" in seen.result
    assert "ZeroDivisionError" in seen.result


async def test_a_failed_call_is_an_exception_that_code_may_catch():
    seen = await came("try:\n    broken()\nexcept RuntimeError as error:\n    x = str(error)\nx")
    assert seen.status == "success"
    assert "it broke" in seen.result
    assert (await came("add('x')")).status == "failure"
    assert "too many arguments" in (await came("add(1, 2, 3)")).result


async def test_code_waits_in_the_middle_for_the_approval_of_a_call():
    REMOVED.clear()
    agent = coder("x = add(1, 1)\nsaid = remove('/tmp/x')\n[x, said]", log=MemoryLog())
    waiting = await agent.run("go")
    assert waiting.status == "waiting"
    [asked] = waiting.pending
    assert (asked.action.tool, asked.action.parameters) == ("remove", {"path": "/tmp/x"})
    assert REMOVED == []
    ended = await settled(agent, waiting)
    assert events(ended, e.Observed)[0].observation.result == [2, "/tmp/x is gone"]
    assert REMOVED == ["/tmp/x"]


async def test_a_denied_call_is_a_permission_error_in_the_code():
    REMOVED.clear()
    code = "try:\n    remove('/x')\nexcept PermissionError as error:\n    said = str(error)\nsaid"
    seen = await came(code, approve=lambda _: False)
    assert "denied by" in seen.result
    assert REMOVED == []


async def test_policy_rules_on_every_call_that_code_makes():
    REMOVED.clear()
    seen = await came("remove('/x')", approve="all", policy=Policy(tiers={"remove": 4}))
    assert seen.status == "failure"
    assert "PermissionError" in seen.result
    assert REMOVED == []


async def test_every_call_is_on_the_record_of_a_child_run():
    log = MemoryLog()
    result = await coder("add(1)\nadd(2)", log=log).run("go")
    [row] = await log.rows(parent=result.run_id)
    made = [
        action.tool
        for one in await log.read(row.run)
        if isinstance(one.event, e.Proposed)
        for action in one.event.actions
    ]
    assert made == ["interpret", "add", "interpret", "add", "interpret"]
    assert result.state.child_tool_calls == 5


@pytest.mark.parametrize("name", LOGS)
async def test_another_process_carries_code_on_with_the_answers_it_had(name, tmp_path):
    """The second agent shares nothing with the first but the log."""
    REMOVED.clear()
    code = "a = add(1, 1)\nb = add(a, 1)\nremove('/x')\nadd(b, 10)"
    first = coder(code, log=LOGS[name](tmp_path))
    waiting = await first.run("go")
    fresh = coder(code, log=first.log)
    fresh = fresh.replace(model=Memo([finish()]))
    ended = await settled(fresh, waiting)
    assert events(ended, e.Observed)[0].observation.result == 13
    assert REMOVED == ["/x"]
    await first.log.close()


@pytest.mark.parametrize("cut", range(8, 40, 3))
async def test_a_crash_anywhere_in_the_code_repeats_no_call_that_writes(cut):
    """The log ends during the child run. A removed file is not removed again."""
    from tests.runtime.kit import planted

    REMOVED.clear()
    code = "a = add(1, 1)\nremove('/x')\nb = add(a, 1)\nremove('/y')\nb"
    log = MemoryLog()
    done = await coder(code, log=log, approve="all").run("go", run_id="r")
    [row] = await log.rows(parent="r")
    child = (await log.read(row.run))[:cut]
    parent = [one for one in await log.read("r") if one.at >= 0][: _started(done)]
    before = sum(type(one.event).__name__ == "StartedOnce" for one in child)
    kept = await planted([*parent, *child], MemoryLog())
    REMOVED.clear()
    agent = coder(code, log=kept, approve="all").replace(model=Memo([finish()]))
    ended = await agent.resume("r", takeover=True)
    ended = await settled(agent, ended)
    assert ended.success, ended
    assert len(REMOVED) <= 2 - before + _open(child)
    if not _open(child):
        assert events(ended, e.Observed)[0].observation.result == 3


def _started(result: Any) -> int:
    """Counts the parent's records up to the start of the code."""
    return next(n for n, r in enumerate(result.records, 1) if isinstance(r.event, e.Started))


def _open(child: list[e.Record]) -> int:
    """Returns the calls in doubt, for which the run asks the user."""
    started = {one.event.key for one in child if isinstance(one.event, e.StartedOnce)}
    seen = {one.event.key for one in child if isinstance(one.event, e.Observed)}
    return len(started - seen)


async def test_code_that_calls_too_often_is_stopped():
    tools = python_tool(tools=[add], bounds=CodeBounds(seconds=60, calls=3))
    code = "while True:\n    add(1)"
    result = await Agent(Memo([act("python", code=code), finish()]), tools=[tools]).run("go")
    seen = events(result, e.Observed)[0].observation
    assert seen.status == "failure"
    assert "more than 3 calls" in seen.result


async def test_the_limits_of_the_run_hold_inside_code():
    log = MemoryLog()
    agent = coder("for i in range(50):\n    add(i)", log=log, limits=Limits(tool_calls=8))
    result = await agent.run("go")
    [row] = await log.rows(parent=result.run_id)
    started = [one for one in await log.read(row.run) if isinstance(one.event, e.Started)]
    assert 0 < len(started) <= 8


async def test_guessed_code_does_not_run_when_its_functions_write():
    """D7: a repaired text could remove another file than the model intended."""
    said = '{"thought": "t", "action": {"tool": "python", "parameters": {"code": "remove("/x")"}}}'
    agent = coder("1").replace(model=Memo([said, finish()]), approve="all")
    REMOVED.clear()
    result = await agent.run("go")
    assert REMOVED == []
    assert events(result, e.Observed)[0].observation.refused == "guessed"


async def test_code_of_a_native_call_runs_too():
    arguments = json.dumps({"code": "add(20, 22)"})
    reply = Reply("", (ToolCall("python", arguments, "c1"),))
    from taofold.core.values import Profile

    model = Memo([reply, finish()], profile=Profile(100_000, True, native_tools=True))
    result = await coder("1").replace(model=model).run("go")
    assert events(result, e.Observed)[0].observation.result == 42


async def test_two_runs_of_the_same_code_do_not_disturb_each_other():
    tools = python_tool(tools=[add], bounds=PATIENT)

    async def one() -> Any:
        code = "t = 0\nfor i in range(10):\n    t = add(t, i)\nt"
        model = Memo([act("python", code=code), finish()])
        return await Agent(model, tools=[tools]).run("go")

    results = await asyncio.gather(*[one() for _ in range(8)])
    found = [events(result, e.Observed)[0].observation.result for result in results]
    assert found == [45] * 8
    code = tools.agent.strategy.__self__
    assert (code._programs, dict(code._held)) == ({}, {})


async def test_arguments_that_are_too_large_for_the_log_are_refused():
    seen = await came("remove('x' * 20_000)", approve="all")
    assert seen.status == "failure"
    assert "16,000 characters" in seen.result


async def test_a_tool_that_has_no_name_in_python_is_the_programmers_mistake():
    @tool(name="lambda", effect="read")
    def odd(x: int) -> int:
        """Oddly named."""
        return x

    with pytest.raises(ConfigError, match="rename"):
        python_tool(tools=[odd])


async def test_two_tools_that_code_would_call_by_one_name_are_refused():
    @tool(name="a-b", effect="read")
    def one(x: int) -> int:
        """One."""
        return x

    @tool(name="a_b", effect="read")
    def other(x: int) -> int:
        """Another."""
        return x

    with pytest.raises(ConfigError, match="by one name"):
        python_tool(tools=[one, other])


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    print('x' * 10_000)",
        "while True:\n    try:\n        print('x' * 900)\n    except BaseException:\n        pass",
        "print('x' * 4_000_000)\nwhile True:\n    print('y' * 4_000_000)",
    ],
)
def test_code_that_prints_without_end_is_ended(code: str) -> None:
    """Mutant: output is not counted; then the turn lasts many times its seconds."""
    ended = turn(code)
    assert isinstance(ended.end, CodeFailure)
    assert "prints without end" in ended.end.text
    assert len(ended.printed) < 10_000


def test_code_that_prints_much_and_ends_is_fine() -> None:
    ended = turn("for i in range(1000):\n    print('x' * 500)\n'end'")
    assert ended.end == CodeResult("end")
    assert len(ended.printed) < 10_000

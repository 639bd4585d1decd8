"""A loop's facts and its runs' logs become a history that believes the gates."""

import asyncio
from collections.abc import Sequence

from taofold.core.events import Record
from taofold.core.failing_checks import Check, Location
from taofold.learning.extraction.history import LoopHistory
from taofold.loop.events import BaselineTaken, IterationEnded
from taofold.loop.learner import history_of
from taofold.loop.state import Iteration, LoopState
from taofold.loop.values import LoopRequest
from taofold.loop.verdict import Gate, GateResult, Verdict

from .loops import GREEN, Log, red

NAME = "tests/test_shop.py::test_a"


def verdict(*failing: str, passed: bool = False) -> Verdict:
    checks = tuple([Check(name, "failed", "AssertionError", "assert 3 == 4") for name in failing])
    return Verdict(passed, (GateResult(Gate("pytest"), passed, checks=checks),), 0.5)


class Work:
    def __init__(self, log: Log, files: dict[tuple[str, str], str]) -> None:
        self.log, self.files = log, files

    async def records(self, run: str) -> Sequence[Record]:
        return self.log.records

    async def text(self, snapshot: str, path: str) -> str | None:
        return self.files.get((snapshot, path))


def read(log: Log, after: Verdict, *changed: str, before: Verdict = verdict(NAME)) -> LoopHistory:
    ended = IterationEnded(
        number=1,
        run="loop.1",
        verdict=after,
        snapshot="s1",
        changed=changed,
        tools={"edit_file": 1},
    )
    state = LoopState(
        "completed" if after.passed else "exhausted", LoopRequest("Fix it", ("pytest",), "/w"),
        baseline=BaselineTaken(verdict=before, snapshot="s0"),
        iterations=(Iteration(1, "loop.1", ended=ended),),
    )  # fmt: skip
    files = {("s0", "shop.py"): "a > b\n", ("s1", "shop.py"): "a >= b\n"}
    return asyncio.run(history_of("loop", state, Work(log, files)))


def test_attempts_inside_a_run_are_taken_where_its_log_tells_them() -> None:
    log = Log().test(red()).edit("a > b", "a >= b").test(GREEN)
    past = read(log, verdict(passed=True), "shop.py")
    (one,) = past.attempts
    assert one.changes[0].after == "a >= b\n"
    assert (past.language, past.outcome, past.iterations) == ("python", "completed", 1)


def test_a_run_that_claims_more_than_the_gates_saw_is_not_believed() -> None:
    log = Log().test(red()).edit("a > b", "a >= b").test(GREEN)
    (one,) = read(log, verdict(NAME), "shop.py").attempts
    assert not one.kept


def test_an_iteration_without_test_runs_is_one_attempt_out_of_its_files() -> None:
    log = Log().edit("a > b", "a >= b")
    (one,) = read(log, verdict(passed=True), "shop.py", "tests/test_shop.py").attempts
    assert [(c.path, c.before, c.after) for c in one.changes] == [
        ("shop.py", "a > b\n", "a >= b\n")
    ]
    assert [fault.id for fault in one.turned] == [NAME]


def test_what_a_shell_command_edited_is_read_from_the_files() -> None:
    """The log shows an edit without effect. The files show the real one."""
    log = Log().test(red()).edit("x", "y").step("run_command", "", command="sed -i s/>/>=/ shop.py")
    log.test(GREEN)
    (one,) = [one for one in read(log, verdict(passed=True), "shop.py").attempts if one.kept]
    assert [(c.before, c.after) for c in one.changes] == [("a > b\n", "a >= b\n")]


def test_what_a_program_stopped_before_was_not_broken_by_the_edit_that_let_it_go_on() -> None:
    def printed(text: str) -> Verdict:
        result = GateResult(Gate("node a.js"), not text, int(bool(text)), output=text)
        return Verdict(not text, (result,), 0.0)

    frame = "\n    at run (lib/{0}.js:3:1)\n"
    first = printed(f"TypeError: x is null{frame.format('a')}")
    then = printed(f"RangeError: too far{frame.format('b')}")
    log = Log().edit("a > b", "a >= b")
    (one,) = read(log, then, "shop.py", before=first).attempts
    assert [check.error_type for check in one.turned] == ["TypeError"]
    assert one.broke == ()
    named = printed(f"✔ b (1ms)\nTypeError: x is null{frame.format('a')}")
    late = printed("✖ b (1ms)\nnot ok 1 - b\n  ---\n  name: 'RangeError'\n  error: 'no'\n  ...\n")
    (one,) = read(log, late, "shop.py", before=named).attempts
    assert [check.id for check in one.broke] == ["b"]


def test_each_error_of_a_program_has_the_lines_by_which_it_came_up() -> None:
    """Both are named after their file and class, and an edited file has other lines."""

    def printed(message: str, line: int) -> Verdict:
        frames = f"    at run (lib.js:3:1)\n    at main (main.js:{line}:1)\n"
        text = f"TypeError: {message}\n{frames}" if message else ""
        return Verdict(not text, (GateResult(Gate("node"), not text, 1, output=text),), 0.0)

    def story(path: str, text: str = "first()\n  b()\n") -> dict[str, str]:
        steps = [printed("one", 1), printed("two", 2), printed("", 0)]
        ended = [
            IterationEnded(number=n, run=f"l.{n}", verdict=one, snapshot=f"s{n}", changed=(path,))
            for n, one in enumerate(steps)
        ]
        state = LoopState(
            "completed", LoopRequest("Fix it", ("node",), "/w"),
            baseline=BaselineTaken(verdict=steps[0], snapshot="s0"),
            iterations=tuple(Iteration(one.number, one.run, ended=one) for one in ended[1:]),
        )  # fmt: skip
        files = {(f"s{n}", path): f"a({n})\n" for n in range(3)}
        files["s0", "main.js"] = "first()\n\nsecond()\n" if path == "main.js" else text
        past = asyncio.run(history_of("loop", state, Work(Log(), files)))
        return {name.rpartition(": ")[2]: text for name, text in past.callers.items()}

    assert story("lib.js") == {"one": "first()", "two": "b()"}
    assert story("main.js") == {"one": "first()"}
    raises = "with raises(OSError):\n    b()\n"
    assert story("lib.js", raises)["two"] == raises.strip(), "what is to be raised as well"


def test_what_a_gate_did_not_take_for_mended_still_stands() -> None:
    """Findings that are silenced in place are gone from the report, and not from the code."""
    found = Check("a.py: E1 x", "failed", "E1", "x", (Location("a.py", 1),))
    gate = Gate("lint .")
    before = Verdict(False, (GateResult(gate, False, 1, "ruff", checks=(found,)),))
    refused = GateResult(gate, False, 0, "ruff", output="ok", reasons=("silenced in place",))
    past = read(Log(), Verdict(False, (refused,)), "a.py", before=before)
    assert past.attempts[-1].after == (found,)
    crashed = GateResult(gate, False, 2, "ruff", output="no such option")
    past = read(Log(), Verdict(False, (crashed,)), "a.py", before=before)
    assert [check.error_type for check in past.attempts[-1].after] == ["command"]


def test_a_runner_that_names_a_check_alone_tells_of_the_one_that_the_gates_know() -> None:
    known = Check("a.test.js > adds up", "failed", "TypeError", "x", (Location("a.js", 1),))
    before = Verdict(False, (GateResult(Gate("node --test"), False, 1, "node", checks=(known,)),))
    log = Log().edit("1", "2", path="a.js").test("not ok 1 - adds up\n")
    past = read(log, before, "a.js", before=before)
    assert past.attempts[0].after == (known,)
    assert past.attempts[0].broke == ()

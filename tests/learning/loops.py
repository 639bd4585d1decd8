"""Histories and logs, briefly."""

from taofold.core.events import Observed, Proposed, Record
from taofold.core.failing_checks import Check, Location
from taofold.core.values import Action, Observation, Thought
from taofold.learning.extraction.history import FileChange, LoopHistory, RepairAttempt

GREEN = "exit code 0\n....\n4 passed in 0.01s\n"


def red(error: str = "AssertionError", message: str = "assert 3 == 4", test: str = "test_a") -> str:
    return (
        f"exit code 1\n=== FAILURES ===\n____ {test} ____\nshop.py:7: in total\n"
        f"E   {error}: {message}\n=== short test summary info ===\n"
        f"FAILED tests/test_shop.py::{test} - {error}: {message}\n1 failed, 3 passed in 0.01s\n"
    )


class Log:
    """The records of a run, one step after the other."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def step(self, tool: str, result: str, thought: str = "go on", **parameters: str) -> "Log":
        key = str(len(self.records))
        status = "failure" if "exit code 1" in result else "success"
        action = Action(tool, parameters, "it is needed")
        self._add(Proposed(key=key, thought=Thought(thought), actions=(action,)))
        self._add(Observed(key=key, observation=Observation(result, status)))  # type: ignore[arg-type]
        return self

    def edit(self, old: str, new: str, thought: str = "try", path: str = "shop.py") -> "Log":
        return self.step("edit_file", f"edited {path}", thought, path=path, old=old, new=new)

    def test(self, result: str) -> "Log":
        return self.step("run_command", result, command="python -m pytest -q")

    def _add(self, event: Proposed | Observed) -> None:
        self.records.append(Record("run", len(self.records), 0, event))


def fault(
    error: str = "AttributeError",
    message: str = "'NoneType' object has no attribute 'email'",
    check: str = "tests/test_users.py::test_mail",
    path: str = "users/mail.py",
    function: str = "address",
) -> Check:
    return Check(check, "failed", error, message, (Location(path, 12, function),))


GUARD = FileChange(
    "users/mail.py",
    "    user = find(name)\n    return user.email\n",
    "    user = find(name)\n    if user is None:\n        raise ValueError('who?')\n"
    "    return user.email\n",
)
BOUND = FileChange("shop.py", "    if amount > LIMIT:\n", "    if amount >= LIMIT:\n")


def attempt(
    *changes: FileChange,
    before: tuple[Check, ...] = (fault(),),
    after: tuple[Check, ...] = (),
    iteration: int = 1,
    **more: object,
) -> RepairAttempt:
    return RepairAttempt(iteration, before, changes, after, **more)  # type: ignore[arg-type]


def history(
    *attempts: RepairAttempt, loop: str = "loop-1", outcome: str = "completed"
) -> LoopHistory:
    return LoopHistory(
        loop,
        "Fix the failing tests of `users`",
        "python",
        outcome,
        attempts,
        max([one.iteration for one in attempts], default=0),
        1_700_000_000_000,
    )

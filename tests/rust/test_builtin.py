"""The built-in tools `files` and `command`: same declarations, previews and results in both.

Mutants: an approval that is used although the file changed; a difference by another algorithm; a
jail that follows links; `command` where nothing contains it.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from taofold.files.actions.tools import memory
from taofold.files.actions.web import web_tools
from taofold.tools.command import command_tool
from taofold.tools.containment import why_not
from taofold.tools.files import file_tools
from tests.prerequisites import TAOFOLD_RS
from tests.rust.kit import (
    ANSWER,
    Program,
    Script,
    action,
    begun,
    done,
    events,
    identical,
)

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]

DECLARED = Path(__file__).parents[2] / "rust/taofold/src/agent/builtin.json"
BUILT_IN = "tools: [files, command]\nlimits: {steps: 30}\n"


def test_both_declare_the_same_tools(tmp_path: Path) -> None:
    """Compares with `builtin.json`; renew that file after a changed description or schema."""
    tools = [*file_tools(tmp_path).values(), command_tool(tmp_path), *web_tools(), *memory()]
    declared = {
        tool.name: {"description": tool.description, "schema": tool.schema} for tool in tools
    }
    assert json.loads(DECLARED.read_text()) == declared


def text(seed: int) -> str:
    """Returns lines of which some are frequent, because `difflib` treats those differently."""
    chance = random.Random(seed)
    return "".join(f"{chance.choice(['', 'x', 'pass', str(n)])}\n" for n in range(260))


def edited(seed: int) -> str:
    chance = random.Random(seed)
    lines = text(seed).splitlines(keepends=True)
    for _ in range(9):
        at = chance.randrange(len(lines))
        lines[at : at + chance.randrange(4)] = ["new\n"] * chance.randrange(4)
    return "".join(lines)


CALLS = [
    action("write_file", path="sub/a.txt", content="one\ntwo\n"),
    action("write_file", path="b.txt", content=edited(1)),
    action("write_file", path="c.txt", content=edited(2)),
    action("edit_file", path="sub/a.txt", old="two", new="2"),
    action("edit_file", path="sub/a.txt", old="three", new="3"),
    action("read_file", path="sub/a.txt"),
    action("read_file", path="b.txt", start=3, end=5),
    action("read_file", path="b.txt", start=0),
    action("read_file", path="../secret"),
    action("read_file", path=".taofold/runs.db"),
    action("read_file", path="link"),
    action("list_files", glob="*.txt"),
    action("search", pattern="o.e", regex=True, path="sub"),
    action("run_command", command=["cat", "sub/a.txt"]),
    action("run_command", command="echo oops >&2; exit 3", folder="sub"),
    action("run_command", command=[]),
    ANSWER,
]


def prepare(project: Path) -> None:
    (project / "agent.yaml").write_text(BUILT_IN)
    (project / "b.txt").write_text(text(1))
    (project / "c.txt").write_text(text(2))
    link = project / "link"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")


def bare(event: dict[str, Any]) -> dict[str, Any]:
    """Returns an event without runtime-specific text: refusals and durations."""
    observation = event.get("observation", {})
    if observation.get("refused") or "exit code" in str(observation.get("result")):
        observation = {**observation, "result": "", "extraction": ""}
        return {**event, "observation": observation}
    return event


@pytest.mark.skipif(bool(why_not()), reason="nothing contains commands here")
def test_both_write_the_same_records_of_files_and_commands(
    python: Program, rust: Program, script: Script, project: Path
) -> None:
    runs = []
    for program in (python, rust):
        prepare(project)
        (project / "sub").mkdir(exist_ok=True)
        (project / "sub" / "a.txt").unlink(missing_ok=True)
        script(CALLS)
        runs.append(done(program))
        assert (project / "sub" / "a.txt").read_text() == "one\n2\n"
        assert (project / "b.txt").read_text() == edited(1)
    first, second = ([*map(bare, events(rust, run))] for run in runs)
    assert first[1:] == second[1:]
    identical(runs[0], rust, python)
    identical(runs[1], rust, python)


CHANGES = [
    (b"one\n", "one \n"),
    (b"\tone\n", "    one\n\xa0"),
    (b"caf\xe9 \xff\n", "café\u200b\n"),
    (b"a\r\nb\r\n", "a\r\nc \r\n"),
    (b"a\r\n", "a\nb"),
    (b"\xef\xbb\xbfa\n", "⇥ \\u{20}\n" * 70),
    (b"\0a\n", "x\n\r\n"),
    (b"a\n", "\u0e38a\u0301\n\u20d2b"),
    (b"", "line\n" * 30_000),
]


def test_both_show_a_change_alike(
    python: Program, rust: Program, script: Script, project: Path
) -> None:
    """Mutant: one of them spells white space, bytes, or the cut of a long preview otherwise."""
    prepare(project)
    for before, after in CHANGES:
        (project / "a\u2003b").write_bytes(before)
        shown: list[str] = []
        for program in (python, rust):
            script([action("write_file", path="a\u2003b", content=after)])
            (asked,) = program("approvals", "list", begun(program, "edit"), "--json").json
            shown.append(asked["summary"])
        assert shown[0] == shown[1]


def test_an_approved_change_is_made_by_the_other_unless_the_file_changed(
    both: tuple[Program, Program], script: Script, project: Path
) -> None:
    first, second = both
    prepare(project)
    script([action("edit_file", path="a.txt", old="three", new="3"), ANSWER])
    run = begun(first, "edit")
    assert second("approvals", "approve", run).code == 0
    (project / "a.txt").write_text("one two three\nfour\n")
    waiting = second("runs", "resume", run, "--json")
    assert (waiting.code, waiting.json["tool_calls"]) == (3, 0), waiting
    assert first("approvals", "approve", run).code == 0
    finished = second("runs", "resume", run, "--json")
    assert (finished.code, finished.json["tool_calls"]) == (0, 1), finished
    assert (project / "a.txt").read_text() == "one two 3\nfour\n"
    identical(run, first, second)

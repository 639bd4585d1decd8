"""An approval is bound to the preview that the approver saw.

Mutants: `_void_if_changed` without the preview; a preview without the file's digest.
"""

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Approval, Decision, MemoryLog, tool
from taofold.runtime.control import decide
from taofold.tools.files import file_tools

from .kit import Memo, act, batch, finish

pytestmark = pytest.mark.anyio
CONFIG = "DEBUG = True\nVERIFY_TLS = False\nAUTH = False\n"
SAFE = "DEBUG = True\nVERIFY_TLS = True\nAUTH = True\n"
EDIT = act("edit_file", path="config.py", old="True", new="False", all=True)
ONE = act("edit_file", path="config.py", old="DEBUG = True", new="DEBUG = False")
REPLACE = act("write_file", path="config.py", content="DEBUG = False\n")


def editor(root: Path, *script: str, **options: Any) -> Agent[Any, Any]:
    options.setdefault("log", MemoryLog())
    return Agent(Memo([*script, finish()]), tools=[file_tools(root)], **options)


@pytest.mark.parametrize("call", [EDIT, ONE, REPLACE], ids=["all", "one", "write"])
@pytest.mark.parametrize("change", [SAFE, "# x\n" + CONFIG, CONFIG + "\n", CONFIG * 50])
async def test_a_file_that_changes_while_the_question_waits_is_asked_about_anew(
    tmp_path: Path, call: str, change: str
) -> None:
    file = tmp_path / "config.py"
    file.write_text(CONFIG)
    one = editor(tmp_path, call)
    waiting = await one.run("go")
    first = waiting.pending[0]
    assert "-DEBUG = True" in first.preview
    file.write_text(change)
    await decide(one.opened_log, first.id, Decision("approve"))
    again = await one.resume(waiting)
    assert file.read_text() == change, "nothing of what was not shown is done"
    assert again.status == "waiting"
    second = again.pending[0]
    assert second.id != first.id
    await decide(one.opened_log, second.id, Decision("approve"))
    done = await one.resume(again)
    assert done.success
    assert "DEBUG = False" in file.read_text() or done.steps[0].observations[0].status == "failure"


@pytest.mark.parametrize("start", [b"", b"\0"], ids=["text", "binary"])
async def test_bytes_that_are_no_text_are_told_apart(start: bytes, tmp_path: Path) -> None:
    """Mutant: the digest is of the text, in which U+FFFD stands for each such byte."""
    file = tmp_path / "config.py"
    file.write_bytes(start + b"caf\xe9 = 1\n")
    one = editor(tmp_path, REPLACE)
    waiting = await one.run("go")
    assert ("-caf\\u{dce9} = 1" in waiting.pending[0].preview) != bool(start)
    file.write_bytes(start + b"caf\xe8 = 1\n")
    await decide(one.opened_log, waiting.pending[0].id, Decision("approve"))
    assert (await one.resume(waiting)).status == "waiting"
    assert file.read_bytes() == start + b"caf\xe8 = 1\n"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a\n", "a \n", "-a\n+a\\u{20}\n "),
        ("a\n", "a\xa0\n", "-a\n+a\\u{a0}\n "),
        ("\ta\n", "    a\n", "-⇥\ta\n+    a\n "),
        ("a\n", "a\r\n", "-a\n+a\\u{d}\n "),
        ("a\r\n", "a\n", "-a\\u{d}\n+a\n "),
        ("a\r\nb\r\n", "a\r\nc\r\n", "(line ends: CRLF)\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n "),
        ("\ufeffa\n", "a\n", "-\\u{feff}a\n+a\n "),
        ("a\n", "a", " a\n-\n"),
        ("x = '\\u{20}'\n", "x = ' '\n", "-x = '\\u{5c}u{20}'\n+x = ' '\n "),
        ("", "x\n" * 500, "+x\n" * 500),
    ],
)
async def test_a_difference_is_whole_and_shows_what_white_space_it_changes(
    before: str, after: str, shown: str, tmp_path: Path
) -> None:
    """Mutants: lines are shown unescaped; line ends are unified; at most 60 lines are shown."""
    (tmp_path / "config.py").write_bytes(before.encode())
    call = act("write_file", path="config.py", content=after)
    assert shown in (await editor(tmp_path, call).run("go")).pending[0].preview


async def test_a_file_that_appears_is_not_replaced_by_an_approval_to_create_it(
    tmp_path: Path,
) -> None:
    one = editor(tmp_path, REPLACE)
    waiting = await one.run("go")
    (tmp_path / "config.py").write_text("mine\n")
    await decide(one.opened_log, waiting.pending[0].id, Decision("approve"))
    assert (await one.resume(waiting)).status == "waiting"
    assert (tmp_path / "config.py").read_text() == "mine\n"


async def test_what_a_callback_approves_is_bound_too(tmp_path: Path) -> None:
    file, asked = tmp_path / "config.py", list[str]()
    file.write_text(CONFIG)

    def approve(approval: Approval) -> bool:
        asked.append(approval.preview)
        if len(asked) == 1:
            file.write_text(SAFE)
            return True
        return False

    await editor(tmp_path, EDIT, approve=approve).run("go")
    assert len(asked) == 2
    assert "-AUTH = True" not in asked[0]
    assert "-AUTH = True" in asked[1]
    assert file.read_text() == SAFE


async def test_a_file_that_stays_is_changed_as_shown(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text(CONFIG)
    one = editor(tmp_path, EDIT)
    waiting = await one.run("go")
    await decide(one.opened_log, waiting.pending[0].id, Decision("approve"))
    assert (await one.resume(waiting)).success
    assert "DEBUG = False" in (tmp_path / "config.py").read_text()


async def test_two_calls_of_a_step_that_change_one_file_are_each_shown_as_they_will_be(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    calls = [
        ("edit_file", {"path": "a.txt", "old": old, "new": old.upper()}) for old in ("one", "two")
    ]
    asked: list[str] = []

    def approve(approval: Approval) -> bool:
        asked.append(approval.preview)
        return True

    await editor(tmp_path, batch(*calls), approve=approve).run("go")
    assert (tmp_path / "a.txt").read_text() == "ONE\nTWO\n"
    assert " ONE" in asked[-1]


async def test_a_call_that_would_do_something_else_each_time_is_not_made() -> None:
    ran, numbers = list[int](), count()

    @tool(tier=3, preview=lambda _: f"order number {next(numbers)}")
    def order() -> str:
        """Order."""
        ran.append(1)
        return "ordered"

    agent = Agent(Memo([act("order"), finish()]), tools=[order], approve=lambda _: True)
    result = await agent.run("go")
    assert ran == []
    assert "something else by then" in str(result.steps[0].observations[0].result)


async def test_a_difference_behind_the_cut_voids_too() -> None:
    tail, ran = ["a"], list[str]()

    @tool(tier=3, preview=lambda _: "x" * 101_000 + tail[0])
    def send() -> str:
        """Send."""
        ran.append(tail[0])
        return "sent"

    agent = Agent(Memo([act("send"), finish()]), tools=[send], log=MemoryLog())
    waiting = await agent.run("go")
    assert "1001 more characters" in waiting.pending[0].preview
    assert waiting.pending[0].cut
    tail[0] = "b"
    await decide(agent.opened_log, waiting.pending[0].id, Decision("approve"))
    assert (await agent.resume(waiting)).status == "waiting"
    assert ran == []

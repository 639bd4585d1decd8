"""The file tools as a model sees them."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.tools import Outcome, RunContext, Toolset
from taofold.tools.files import file_tools
from taofold.tools.regex_process import Unmatched, matching

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "main.py").write_text("def main():\n    return 1\n")
    (tmp_path / "src" / "deep" / "more.py").write_text("import main\n\n\nmain.main()\n")
    (tmp_path / "notes.md").write_text("Main things\n")
    (tmp_path / "image.bin").write_bytes(b"\x89PNG\0\0main")
    return tmp_path


@pytest.fixture
def tools(root: Path) -> Toolset:
    return file_tools(root)


async def use(tools: Toolset, name: str, **parameters: Any) -> Outcome:
    return await tools[name].bind(parameters).run(RunContext(None))


def test_reads_are_tier_1_and_writes_tier_2_and_idempotent(tools: Toolset, root: Path) -> None:
    assert {name: (tool.tier, tool.effect) for name, tool in tools.items()} == {
        "list_files": (Tier.AUTO, "read"),
        "read_file": (Tier.AUTO, "read"),
        "search": (Tier.AUTO, "read"),
        "write_file": (Tier.CARD, "idempotent"),
        "edit_file": (Tier.CARD, "idempotent"),
    }
    assert file_tools(root, write=False).names == ("list_files", "read_file", "search")


def test_every_tool_and_parameter_is_described(tools: Toolset) -> None:
    for tool in tools.values():
        assert tool.description
        assert all(rules["description"] for rules in tool.schema["properties"].values())


def test_a_root_that_is_no_directory_is_a_config_error(root: Path) -> None:
    for wrong in (root / "none", root / "notes.md"):
        with pytest.raises(ConfigError):
            file_tools(wrong)


async def test_list_files_shows_sizes_and_filters(tools: Toolset, root: Path) -> None:
    (root / "link").symlink_to("notes.md")
    said = (await use(tools, "list_files")).value
    assert said == (
        "image.bin  10\nlink -> notes.md (a link, not followed)\nnotes.md  12\n"
        "src/\nsrc/deep/\nsrc/deep/more.py  26\nsrc/main.py  25"
    )
    assert (
        await use(tools, "list_files", depth=1, path="src")
    ).value == "src/deep/\nsrc/main.py  25"
    assert (await use(tools, "list_files", glob="src/**/*.py")).value.count("\n") == 1
    assert "nothing matches" in (await use(tools, "list_files", glob="*.rs")).value


async def test_read_file_numbers_lines_and_reads_ranges(tools: Toolset) -> None:
    whole = await use(tools, "read_file", path="src/main.py")
    assert whole.value == "src/main.py: lines 1-2 of 2\n1\tdef main():\n2\t    return 1"
    assert whole.extraction == "src/main.py: lines 1-2 of 2"
    part = await use(tools, "read_file", path="src/deep/more.py", start=4)
    assert part.value == "src/deep/more.py: lines 4-4 of 4\n4\tmain.main()"


async def test_read_file_says_how_to_go_on_when_a_file_is_long(tools: Toolset, root: Path) -> None:
    (root / "long.txt").write_text("".join(f"line {n} {'x' * 50}\n" for n in range(1, 2001)))
    said = await use(tools, "read_file", path="long.txt")
    assert len(said.value) < tools["read_file"].max_chars
    last = int(said.extraction.split("-")[1].split()[0])
    assert said.value.endswith(f"continue with start={last + 1}")
    more = await use(tools, "read_file", path="long.txt", start=last + 1)
    assert f"\n{last + 1}\tline {last + 1} " in more.value


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"path": "none.py"}, "there is no file 'none.py'"),
        ({"path": "none/x.py"}, "there is no directory 'none'"),
        ({"path": "src"}, "is a directory"),
        ({"path": "image.bin"}, "is a binary file of 10 bytes"),
        ({"path": "notes.md", "start": 5}, "has 1 line"),
        ({"path": "../x"}, "leads out of the work root"),
        ({"path": "x" * 300}, "File name too long"),
    ],
)
async def test_what_cannot_be_read_is_a_failure_with_its_reason(
    tools: Toolset, parameters: dict[str, Any], reason: str
) -> None:
    outcome = await use(tools, "read_file", **parameters)
    assert outcome.status == "failure"
    assert reason in outcome.value


async def test_search_finds_text_and_expressions_and_skips_binary_files(tools: Toolset) -> None:
    literal = await use(tools, "search", pattern="main(", glob="*.py")
    assert literal.value == "src/deep/more.py:4: main.main()\nsrc/main.py:1: def main():"
    case = await use(tools, "search", pattern="MAIN t", ignore_case=True)
    assert case.value == "notes.md:1: Main things"
    regex = await use(tools, "search", pattern=r"^(def|import)\s", regex=True)
    assert regex.value == "src/deep/more.py:1: import main\nsrc/main.py:1: def main():"
    assert (await use(tools, "search", pattern="x", path="src/main.py")).extraction == (
        "no line matches in 1 file"
    )
    limited = await use(tools, "search", pattern="a", limit=1)
    assert "more than 1 hits" in limited.value


async def test_a_wrong_expression_is_explained(tools: Toolset) -> None:
    outcome = await use(tools, "search", pattern="(", regex=True)
    assert outcome.status == "failure"
    assert "no regular expression" in outcome.value


def test_an_exponential_expression_is_stopped_in_time() -> None:
    with pytest.raises(Unmatched, match="more than"):
        matching(r"(a+)+$", ["a" * 60 + "b"], ignore_case=False, most=1, seconds=1)


async def test_write_file_creates_replaces_and_tells_the_difference(
    tools: Toolset, root: Path
) -> None:
    made = await use(tools, "write_file", path="new/x.txt", content="a\nb\n")
    assert made.value == "created new/x.txt: 2 lines, 4 bytes"
    again = await use(tools, "write_file", path="new/x.txt", content="a\nb\n")
    assert again.value == "new/x.txt already has this content"
    over = await use(tools, "write_file", path="new/x.txt", content="a\nc\n")
    assert "-b\n+c" in over.value
    assert (root / "new" / "x.txt").read_text() == "a\nc\n"


async def test_edit_file_replaces_exactly_one_place(tools: Toolset, root: Path) -> None:
    outcome = await use(tools, "edit_file", path="src/main.py", old="return 1", new="return 2")
    assert outcome.extraction == "edited src/main.py: 1 occurrence replaced"
    assert "-    return 1\n+    return 2" in outcome.value
    assert (root / "src" / "main.py").read_text() == "def main():\n    return 2\n"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("main", "x", "occurs 3 times in 'src/deep/more.py', at lines 1, 4, 4"),
        ("import  main", "x", "The nearest text is, at line 1:\n1\timport main"),
        ("  import main", "x", "Only white space or a later line differs, at line 1"),
        ("wholly different", "y", "Nothing similar is there"),
        ("gone", "main.main()", "The new text is there, at line 4"),
        ("", "x", "old is empty"),
        ("main", "main", "are the same"),
    ],
)
async def test_an_edit_that_does_not_fit_changes_nothing_and_says_where(
    tools: Toolset, root: Path, old: str, new: str, reason: str
) -> None:
    before = (root / "src" / "deep" / "more.py").read_bytes()
    outcome = await use(tools, "edit_file", path="src/deep/more.py", old=old, new=new)
    assert outcome.status == "failure"
    assert reason in outcome.value
    assert (root / "src" / "deep" / "more.py").read_bytes() == before


EDITS = """
import asyncio, sys
from taofold.tools import RunContext
from taofold.tools.files import file_tools
root, mine = sys.argv[1:]
tools = file_tools(root)
print("ready", flush=True)
sys.stdin.readline()
async def story():
    for number in range(25):
        change = {"path": "both.txt", "old": f"{mine}{number};", "new": f"{mine}{number} done;"}
        outcome = await tools["edit_file"].bind(change).run(RunContext(None))
        assert outcome.status == "success", outcome.value
asyncio.run(story())
"""
"""Edits lines of its own in a file that another process edits, too."""


def test_edits_of_one_file_by_two_processes_are_both_kept(root: Path) -> None:
    names = "ab"
    (root / "both.txt").write_text("\n".join(f"{n}{i};" for i in range(25) for n in names))
    command = [sys.executable, "-c", EDITS, str(root)]
    pipe = subprocess.PIPE
    writers = [subprocess.Popen([*command, n], stdin=pipe, stdout=pipe, text=True) for n in names]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.communicate(timeout=600)[1] for writer in writers] == [None, None]
    assert [writer.returncode for writer in writers] == [0, 0]
    lines = (root / "both.txt").read_text().split("\n")
    assert [line for line in lines if not line.endswith(" done;")] == []


@contextmanager
def locked(folder: Path) -> Generator[None]:
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


async def test_a_folder_that_stays_locked_is_a_failure_and_changes_nothing(
    tools: Toolset, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taofold.tools.jail._LONGEST_WAIT", 0.01)
    with locked(root):
        for name, more in (
            ("edit_file", {"old": "Main", "new": "x"}),
            ("write_file", {"content": ""}),
        ):
            outcome = await use(tools, name, path="notes.md", **more)
            assert outcome.status == "failure"
            assert "has locked its directory" in outcome.value
        assert (root / "notes.md").read_text() == "Main things\n"
    assert (await use(tools, "write_file", path="notes.md", content="x")).status == "success"


async def test_a_file_system_without_locks_is_written(
    tools: Toolset, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr("taofold.tools.jail.fcntl.flock", unsupported)
    assert (await use(tools, "write_file", path="notes.md", content="x")).status == "success"


async def test_all_replaces_every_place(tools: Toolset, root: Path) -> None:
    path = "src/deep/more.py"
    outcome = await use(tools, "edit_file", path=path, old="main", new="core", all=True)
    assert "3 occurrences" in outcome.extraction
    assert "main" not in (root / path).read_text()


async def test_line_ends_and_byte_order_marks_survive_an_edit(tools: Toolset, root: Path) -> None:
    (root / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    await use(tools, "edit_file", path="dos.txt", old="one\ntwo", new="one\n2")
    assert (root / "dos.txt").read_bytes() == b"\xef\xbb\xbfone\r\n2\r\n"
    (root / "mixed.txt").write_bytes(b"one\r\ntwo\n")
    await use(tools, "edit_file", path="mixed.txt", old="two", new="2")
    assert (root / "mixed.txt").read_bytes() == b"one\r\n2\n"
    (root / "latin.txt").write_bytes(b"caf\xe9 two\n")
    refused = await use(tools, "edit_file", path="latin.txt", old="two", new="2")
    assert refused.status == "failure"
    assert (root / "latin.txt").read_bytes() == b"caf\xe9 two\n"


@pytest.mark.scenario("PEER-05")
async def test_an_edit_repeated_after_a_crash_is_not_made_twice(
    tools: Toolset, root: Path, ctx: RunContext[None]
) -> None:
    bound = tools["edit_file"].bind({"path": "notes.md", "old": "Main", "new": "Main Main"})
    first = await bound.run(ctx)
    second = await bound.run(replace(ctx, partial=[]))
    assert (root / "notes.md").read_text() == "Main Main things\n"
    assert first.status == "success"
    assert second.status in ("success", "failure")  # the latter without extended attributes
    await bound.run(replace(ctx, effect_id="run#1"))
    assert (root / "notes.md").read_text() == "Main Main things\n"


async def test_a_preview_shows_the_difference_and_changes_nothing(
    tools: Toolset, root: Path
) -> None:
    write, edit = tools["write_file"].preview, tools["edit_file"].preview
    assert write is not None
    assert edit is not None
    assert "+new" in write({"path": "notes.md", "content": "new\n"})
    assert write({"path": "n.md", "content": "new\n"}).startswith("create n.md")
    assert "+Side" in edit({"path": "notes.md", "old": "Main", "new": "Side"})
    assert "old is not in" in edit({"path": "notes.md", "old": "Mein", "new": "Side"})
    assert "leads out" in write({"path": "../x", "content": ""})
    # The path's target, on its own line.
    assert write({"path": f"{root}/./n.md", "content": "new\n"}).startswith("create n.md\n")
    assert edit({"path": "./notes.md", "old": "Main", "new": "Side"}).startswith("edit notes.md\n")
    forged = write({"path": "notes.md\n@@ -1 +1 @@\n+hi\n…/../x", "content": "evil\n"})
    assert "\n" not in forged.partition(": ")[0]
    assert "goes back" in forged or "control character" in forged
    assert (root / "notes.md").read_text() == "Main things\n"
    assert not (root / "n.md").exists()


async def test_a_vanished_root_is_a_failure(tools: Toolset, root: Path) -> None:
    shutil.rmtree(root)
    assert (await use(tools, "read_file", path="notes.md")).status == "failure"


async def test_a_name_in_a_listing_shows_what_it_hides(tools: Toolset, root: Path) -> None:
    (root / "evil\nname\u202e.txt").write_text("needle\n")
    listed = await use(tools, "list_files")
    found = await use(tools, "search", pattern="needle")
    for shown in (str(listed.value), str(found.value)):
        assert "evil␊name\\u{202e}.txt" in shown


def test_a_process_that_begins_late_has_its_time_to_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: the time limit counts seconds of the clock. A busy machine begins a process late."""
    run = subprocess.run

    def late(words: list[str], **options: Any) -> Any:
        return run(["sh", "-c", 'sleep 1.5; exec "$@"', "sh", *words], **options)

    monkeypatch.setattr(subprocess, "run", late)
    assert matching("b+", ["abc"], ignore_case=False, most=1, seconds=1) == [[0]]

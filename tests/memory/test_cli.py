"""`taofold memory`, as a user types it.

Mutants it catches: `list` in the commands that agents may call, `forget` without its question,
`--everywhere` that deletes the note only.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Principal
from taofold.log.log import Log
from taofold.log.open import open_log
from taofold.reserved_places import MARK
from tests.memory.conftest import act
from tests.memory.test_runs import desk
from tests.terminal import Taofold, taofold

__all__ = ["taofold"]
ADA = Principal("ada", ("EDITOR",))


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def opened(project: Path) -> Log:
    project.joinpath(".taofold").mkdir(mode=0o700, exist_ok=True)
    return open_log(project / ".taofold" / "runs.db")


@pytest.fixture
def notes(project: Path) -> tuple[str, str]:
    """The ids of the runs that wrote and that read the note."""
    log = opened(project)
    first = desk(log, act("remember", text="Ada likes HERONS."), "Noted.")
    wrote = first.run_sync("Remember: Ada likes HERONS.", principal=ADA).run_id
    read = desk(log, act("recall", query="herons"), "x").run_sync("Go.", principal=ADA).run_id
    desk(log, "x", name="other").run_sync("Another run.", principal=ADA)
    asyncio.run(log.close())
    return wrote, read


def listed(taofold: Taofold) -> list[dict[str, Any]]:
    code, out, _ = taofold("memory", "list", "--json")
    assert code == 0
    rows: list[dict[str, Any]] = json.loads(out)
    return rows


def test_a_note_is_listed_shown_edited_and_deleted(
    taofold: Taofold, notes: tuple[str, str]
) -> None:
    [note] = listed(taofold)
    assert (note["principal"], note["agent"], note["origin"]) == ("ada", "desk", "model")
    code, out, _ = taofold("memory", "list")
    assert code == 0
    assert "Ada likes HERONS." in out
    code, _, err = taofold("memory", "edit", note["id"][:6], "--text", "Ada likes terns.", "--pin")
    assert code == 0
    assert "(pinned)" in err
    code, out, _ = taofold("memory", "show", note["id"])
    assert "text: Ada likes terns." in out
    assert "earlier: Ada likes HERONS." in out
    assert f"run: {notes[0]}" in out
    code, _, err = taofold("memory", "forget", note["id"])
    assert code == 2
    assert "--yes" in err
    assert len(listed(taofold)) == 1
    code, _, err = taofold("memory", "forget", note["id"], "--yes")
    assert code == 0
    assert "2 runs still have its text" in err
    assert listed(taofold) == []


def test_an_empty_text_and_an_empty_list_say_why(taofold: Taofold, notes: tuple[str, str]) -> None:
    [note] = listed(taofold)
    code, _, err = taofold("memory", "edit", note["id"], "--text", "")
    assert code == 1
    assert "the text of a note is empty" in err
    assert listed(taofold)[0]["text"] == "Ada likes HERONS."
    code, _, err = taofold("memory", "list", "--agent", "dek")
    assert code == 0
    assert "no notes of agent 'dek': `taofold memory list` shows all" in err


def test_everywhere_deletes_the_runs_that_have_the_text(
    taofold: Taofold, notes: tuple[str, str], project: Path
) -> None:
    [note] = listed(taofold)
    code, _, err = taofold("memory", "forget", note["id"], "--everywhere", "--yes")
    assert code == 0
    assert "and 2 runs" in err
    for run in notes:
        assert taofold("runs", "show", run).code != 0
    code, out, _ = taofold("runs", "list")
    assert "Another run." in out
    content = b"".join([file.read_bytes() for file in project.glob(".taofold/runs.db*")])
    assert b"HERONS" not in content


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("show", "zzzz"), "there is no note 'zzzz'"),
        (("edit", "zzzz", "--text", "x"), "there is no note"),
        (("forget", "", "--yes"), "there is no note"),
        (("show", "zzzz", "--agent", "x"), "there is no note"),
    ],
)
def test_an_unknown_note_is_an_error(
    taofold: Taofold, notes: tuple[str, str], arguments: tuple[str, ...], text: str
) -> None:
    code, _, err = taofold("memory", *arguments)
    assert code
    assert text in err
    assert len(listed(taofold)) == 1


def test_edit_needs_a_change(taofold: Taofold, notes: tuple[str, str]) -> None:
    [note] = listed(taofold)
    code, _, err = taofold("memory", "edit", note["id"])
    assert code == 2
    assert "--text" in err
    code, _, err = taofold("memory", "edit", note["id"], "--text", " \n ")
    assert code
    assert "empty" in err


@pytest.mark.parametrize("command", ["list", "show", "edit", "forget"])
def test_a_process_of_an_agent_reads_and_changes_no_note(
    taofold: Taofold, notes: tuple[str, str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [note] = listed(taofold)
    monkeypatch.setenv(MARK, "run_command")
    code, out, err = taofold("memory", command, *([] if command == "list" else [note["id"]]))
    assert code
    assert "may not call" in err
    assert "HERONS" not in out

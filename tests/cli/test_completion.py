"""Shell completion: ids of this project, and no output after an error."""

import errno
import json
from pathlib import Path

import pytest

from taofold.cli import options
from taofold.cli.output import UNREACHED, explain
from tests.terminal import Taofold


def test_ids_of_runs_and_questions_complete(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = taofold("run", "agents.py:pair", "two notes", "--json")
    pending = [one["id"] for one in json.loads(done.out)["pending"]]
    run = pending[0].partition(":")[0]
    monkeypatch.chdir(project)
    assert options.runs("") == [(run, "two notes"), ("last", "the newest run")]
    assert options.runs(run[:6]) == [(run, "two notes")]
    assert options.runs("zz") == []
    assert [offer for offer, _ in options.questions(run)] == pending


def test_a_completion_never_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert options.runs("") == []
    (tmp_path / ".taofold").mkdir()
    (tmp_path / ".taofold" / "runs.db").write_text("this is no database")
    assert options.runs("") == options.questions("") == options.loops("") == []


def test_serve_help_shows_the_options_of_serving(taofold: Taofold) -> None:
    shown = taofold("serve", "--help").out
    for option in ("--host", "--allow-host", "--max-runs", "--token-file"):
        assert option in shown
    assert "tokens add" in shown
    assert "--role" in taofold("serve", "tokens", "add", "--help").out


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(OSError(number, "No space left on device", "report.json")) == UNREACHED
    assert "the disk is full" in capsys.readouterr().err
    assert explain(OSError(errno.EPERM, "no", "x")) is None

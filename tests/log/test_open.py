"""Log names as users write them, and the opened log."""

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from taofold.cli import project
from taofold.core.errors import ConfigError, LogError
from taofold.log import open as named
from taofold.log.memory import MemoryLog
from taofold.log.open import open_builtin as open_log
from taofold.log.sqlite.log import SqliteLog


def test_memory_is_a_memory_log() -> None:
    assert isinstance(open_log("memory"), MemoryLog)


@pytest.mark.parametrize("form", ["{}", "sqlite:{}"])
def test_a_path_is_a_sqlite_log_that_exists_at_once(tmp_path: Path, form: str) -> None:
    path = tmp_path / "log.db"
    log = open_log(form.format(path))
    assert isinstance(log, SqliteLog)
    assert path.exists()
    asyncio.run(log.close())


def test_the_home_folder_is_created_for_its_owner_and_kept_out_of_git(tmp_path: Path) -> None:
    path = tmp_path / ".taofold" / "log.db"
    log = open_log(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (path.parent / ".gitignore").read_text() == "*\n"
    asyncio.run(log.close())


def test_an_ignore_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / ".taofold"
    home.mkdir()
    (home / ".gitignore").write_text("*.db\n")
    asyncio.run(open_log(home / "log.db").close())
    assert (home / ".gitignore").read_text() == "*.db\n"


def test_another_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="does not exist"):
        open_log(tmp_path / "deep" / "log.db")


@pytest.mark.parametrize("spec", ["", "sqlite:", "mysql:x"])
def test_what_names_no_log_is_a_mistake_of_the_configuration(spec: str) -> None:
    with pytest.raises(ConfigError, match="names no log"):
        open_log(spec)


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers logs for `elsewhere://`."""
    (tmp_path / "elsewhere.py").write_text(
        "from taofold.log.memory import MemoryLog\n"
        "class ElsewhereLog(MemoryLog):\n"
        "    def __init__(self, spec):\n"
        "        super().__init__()\n"
        "        self.spec = spec\n"
    )
    info = tmp_path / "elsewhere-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[taofold.logs]\nelsewhere = elsewhere:ElsewhereLog\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("way", ["python", "environment"])
def test_a_log_of_another_package_is_opened_by_its_scheme(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"elsewhere://host/{way}"
    monkeypatch.setenv("TAOFOLD_LOG", address)
    log: Any = named.open_log(address) if way == "python" else project.open_store()
    assert type(log).__name__ == "ElsewhereLog"
    assert log.spec == address


def test_a_scheme_that_nobody_offers_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no log is known for 'nowhere'"):
        named.open_log("nowhere://host/db")
    monkeypatch.setenv("TAOFOLD_LOG", "nowhere://host/db")
    with pytest.raises(ConfigError, match="no log is known for 'nowhere'") as raised:
        project.open_store()
    assert raised.value.path == "TAOFOLD_LOG"

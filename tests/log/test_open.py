"""What a user writes, and the log that it opens."""

import asyncio
import stat
from pathlib import Path

import pytest

from taofold.core.errors import ConfigError, LogError
from taofold.log.adapters import open_log
from taofold.log.memory import MemoryLog
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

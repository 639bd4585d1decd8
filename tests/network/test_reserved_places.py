"""Neither file tools nor contained commands reach reserved places inside a work root.

Mutants: `reserved_places.holds` always False; `_reserved` without options; journals that are not
among the files; a case-sensitive comparison.
"""

from pathlib import Path

import pytest

from taofold import RunContext, reserved_places
from taofold.log.sqlite.log import SqliteLog
from taofold.server.auth import LocalToken
from taofold.tools.command import command_tool
from taofold.tools.jail import OutsideJail, jail
from tests.prerequisites import CONTAINMENT

pytestmark = pytest.mark.anyio
TOKEN = ".local/state/taofold/local-token.json"
POLICY = ".config/taofold/policy.yaml"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a home directory that is an agent's work root."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / POLICY).parent.mkdir(parents=True)
    (tmp_path / POLICY).write_text("deny: [publish]\n")
    (tmp_path / "notes.txt").write_text("mine\n")
    return tmp_path


@pytest.mark.parametrize(
    "path", [TOKEN, POLICY, TOKEN.upper(), ".config/taofold", ".config/./taofold/new.yaml"]
)
async def test_no_file_tool_reaches_secrets_or_policy_in_a_home_directory(
    home: Path, path: str
) -> None:
    LocalToken.of_user().value()
    inside = jail(home)
    for write in (False, True):
        with pytest.raises(OutsideJail, match="belongs to the runtime"):
            inside.parts(path, write=write)
    assert inside.parts("notes.txt", write=True)


async def test_a_log_in_the_work_root_is_reserved_with_what_lies_beside_it(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "mine.db")
    await log.rows()
    inside = jail(tmp_path)
    for name in ("mine.db", "mine.db-wal", "mine.db-journal", "MINE.DB", "mine.db.lock"):
        with pytest.raises(OutsideJail, match="belongs to the runtime"):
            inside.parts(name, write=True)
    assert inside.parts("mine.dbx", write=True)
    await log.close()


@CONTAINMENT.mark
async def test_no_contained_command_reaches_them_either(home: Path) -> None:
    token = LocalToken.of_user().value()
    log = SqliteLog(home / "mine.db")
    await log.rows()
    tool = command_tool(home, contain="always")
    script = (
        f"cat {TOKEN} {POLICY} mine.db notes.txt; echo 'allow: [publish]' > {POLICY}; "
        f"echo x > {TOKEN}; echo x > mine.db; echo x > mine.db-journal; ls .config/taofold"
    )
    outcome = await tool.bind({"command": script}).run(RunContext(None))
    assert "mine\n" in outcome.value
    assert token not in outcome.value
    assert "publish" not in outcome.value
    assert "SQLite format" not in outcome.value
    assert (home / POLICY).read_text() == "deny: [publish]\n"
    assert LocalToken.of_user().value() == token
    assert await log.rows() == []
    assert (home / "mine.db-journal").read_bytes() == b""
    await log.close()


async def test_the_token_is_for_its_owner_alone_and_a_new_one_needs_only_a_deletion(
    home: Path,
) -> None:
    first = LocalToken.of_user()
    token = first.value()
    assert first.path is not None
    assert first.path == home / TOKEN
    assert first.path.stat().st_mode & 0o077 == 0
    assert first.path.parent.stat().st_mode & 0o077 == 0
    assert LocalToken.of_user().value() == token
    first.path.unlink()
    assert LocalToken.of_user().value() != token
    assert not first.matches(token), "a server that runs takes the new one"
    assert not first.matches("")


def test_a_root_inside_a_reserved_place_is_the_choice_of_whoever_made_it(home: Path) -> None:
    root = home / ".config/taofold/drafts"
    assert not reserved_places.holds(root, root / "x.yaml")
    assert reserved_places.holds(root.parent, root / "x.yaml")

"""Files planted in `.taofold`, or beside a file that is read, are not used.

Mutants: `open_file` without O_NOFOLLOW and `_check_entry`; `_check` without the kind, the owner,
the number of names or the mode; `_parent` that does not check folders; `Audit.check` left out; a
backup beside an imported file; `write_text` for an export.
"""

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from taofold import Agent
from taofold.core.errors import ConfigError
from taofold.evals.report_files import store_report, stored_reports
from taofold.log.memory import MemoryLog
from taofold.reserved_places import make_folder, open_file, write_file
from taofold.server import Server
from taofold.testing.models import ScriptedModel
from tests.terminal import Taofold

BASHRC = "echo mine\n"


@pytest.fixture
def target(project: Path) -> Path:
    """A file of the user's outside the project, which must stay as it is."""
    path = project.parent / "bashrc"
    path.write_text(BASHRC)
    return path


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def dangling(path: Path, target: Path) -> None:
    path.symlink_to(target.with_name("new"))


def hard(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def fifo(path: Path, target: Path) -> None:
    os.mkfifo(path, 0o600)


def unix(path: Path, target: Path) -> None:
    # The address of a socket is short: it is bound by a name in its folder.
    with contextlib.chdir(path.parent):
        socket.socket(socket.AF_UNIX).bind(path.name)


def folder(path: Path, target: Path) -> None:
    path.mkdir()


def foreign(path: Path, target: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    path.write_text("")
    os.chown(path, 4711, -1)


def writable(path: Path, target: Path) -> None:
    path.write_text("")
    path.chmod(0o666)


Plant = Callable[[Path, Path], None]
PLANTS: list[Plant] = [link, dangling, hard, fifo, unix, folder, foreign, writable]


def name(plant: object) -> str:
    return getattr(plant, "__name__", str(plant))


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("plant", PLANTS, ids=name)
@pytest.mark.parametrize("file", ["audit.jsonl", "runs.db", "runs.db-wal", "config.yml"])
def test_nothing_is_read_or_written_through_a_planted_file(
    project: Path, target: Path, taofold: Taofold, file: str, plant: Plant
) -> None:
    path = project / ".taofold" / file
    plant(path, target)
    if file == "audit.jsonl":
        with pytest.raises(ConfigError, match=r"audit\.jsonl"):
            Server(MemoryLog(), {"a": Agent(ScriptedModel([]))}, folder=project / ".taofold")
    else:
        result = taofold("run", "agents:adder", "17 + 25")
        assert result.code != 0
        assert file in result.err
    assert target.read_text() == BASHRC
    assert sorted(each.name for each in project.parent.iterdir() if each.is_file()) == ["bashrc"]


@pytest.mark.parametrize("plant", [link, dangling, hard, fifo], ids=name)
def test_gitignore_is_not_written_through_a_link(
    project: Path, target: Path, taofold: Taofold, plant: Plant
) -> None:
    plant(project / ".taofold/.gitignore", target)
    assert taofold("run", "agents:adder", "17 + 25").code != 0
    assert target.read_text() == BASHRC
    assert not target.with_name("new").exists()


@pytest.mark.parametrize("kind", ["link", "foreign"])
def test_a_folder_on_the_way_is_looked_at_too(project: Path, target: Path, kind: str) -> None:
    evals = project / ".taofold/evals"
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    if kind == "link":
        evals.symlink_to(elsewhere)
    else:
        if os.geteuid() != 0:
            pytest.skip("only root gives folders away")
        evals.mkdir()
        os.chown(evals, 4711, -1)
    with pytest.raises(ConfigError, match="evals"):
        store_report(project / ".taofold", "x", [])
    assert list(elsewhere.iterdir()) == []
    (elsewhere / "1700000000000-00000000.json").write_text('{"at": "", "name": "x", "reports": []}')
    assert kind == "foreign" or stored_reports(project / ".taofold") == []


def test_folders_are_their_owners_alone_whatever_the_umask(project: Path, taofold: Taofold) -> None:
    before = os.umask(0)
    try:
        (project / ".taofold").chmod(0o777)
        assert taofold("run", "agents:adder", "17 + 25").code == 0
        assert taofold("serve", "tokens", "local").code == 0
        made = [project / ".taofold", *(project.parent / "state").rglob("*")]
    finally:
        os.umask(before)
    for path in made:
        if path.is_dir():
            assert path.stat().st_mode & 0o077 == 0, path
    for file in (project / ".taofold").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file


def test_a_place_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    place = tmp_path / ".taofold"
    place.mkdir()
    place.chmod(0o777)
    (place / "x").write_text("")
    with pytest.raises(ConfigError, match="chmod 700"):
        open_file(place / "x")
    make_folder(place)
    os.close(open_file(place / "x"))


def test_a_path_does_not_leave_its_place(tmp_path: Path) -> None:
    make_folder(tmp_path / ".taofold/a")
    with pytest.raises(ConfigError, match=r"without '\.\.'"):
        write_file(tmp_path / ".taofold/a/../../x", b"")


def test_an_import_writes_nothing_beside_what_it_reads(
    project: Path, target: Path, taofold: Taofold
) -> None:
    team = project / "team"
    team.mkdir()
    (team / "patterns.json").write_text("curl evil | sh\n")
    (team / "patterns.json.bak").symlink_to(target)
    for named in ("team/patterns.json", "team"):
        taofold("patterns", "import", "-i", named)
        assert target.read_text() == BASHRC
    assert sorted(each.name for each in team.iterdir()) == ["patterns.json", "patterns.json.bak"]


@pytest.mark.parametrize("plant", [link, fifo], ids=name)
def test_an_import_of_a_folder_opens_files_only(
    project: Path, target: Path, taofold: Taofold, plant: Plant
) -> None:
    (project / "team").mkdir()
    plant(project / "team/patterns.json", target)
    result = taofold("patterns", "import", "-i", "team")
    assert result.code != 0
    assert "patterns.json: it " in result.err


@pytest.mark.parametrize("where", ["shared", "shared/patterns", "shared/patterns/x.json"])
def test_an_export_writes_through_no_link(
    project: Path, target: Path, taofold: Taofold, where: str
) -> None:
    out, elsewhere = project / "out", project.parent / "elsewhere"
    elsewhere.mkdir()
    taofold("run", "agents:adder", "17 + 25")
    place = out / where.replace("x.json", "success-patterns.json")
    place.parent.mkdir(parents=True)
    place.symlink_to(target if place.suffix else elsewhere)
    result = taofold("patterns", "export", "-o", "out")
    assert result.code != 0, result.out
    assert "link" in result.err
    assert list(elsewhere.iterdir()) == []
    assert target.read_text() == BASHRC


def test_what_is_exported_is_its_owners_alone(project: Path, taofold: Taofold) -> None:
    taofold("run", "agents:adder", "17 + 25")
    run = json.loads(taofold("runs", "list", "--json").out)[0]["id"]
    assert taofold("runs", "export", run, "-o", "run.ndjson").code == 0
    assert taofold("patterns", "export", "-o", "out").code == 0
    written = [project / "run.ndjson", *(project / "out").rglob("*.json")]
    assert len(written) > 3
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    (project / "dangling").symlink_to("../new")
    assert taofold("runs", "export", run, "-o", "dangling").code != 0
    assert not (project.parent / "new").exists()

"""`taofold log backup`, and a restored log at the terminal."""

import shutil
from pathlib import Path

from tests.terminal import Taofold


def test_backup_and_restore_at_the_terminal(project: Path, taofold: Taofold) -> None:
    outside = project.parent / "backup.db"
    assert "there is no log" in taofold("log", "backup", str(outside)).err
    taofold("run", "--model", "test:answer", "hello")
    assert taofold("log", "backup", str(outside)).out.strip() == str(outside)
    assert "exists" in taofold("log", "backup", str(outside)).err
    before = taofold("runs", "list").out
    (project / ".taofold" / "runs.db").unlink()
    shutil.copyfile(outside, project / ".taofold" / "runs.db")
    adopted = taofold("runs", "adopt")  # on a machine without an id a copy has no owner
    assert "is now trusted" in adopted.err
    assert "missing" not in adopted.err
    assert taofold("runs", "list").out.split()[5:6] == before.split()[5:6]

"""`taofold demo`: real pytest, real edits, no key, no network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from taofold.cli.demo import invocation
from tests.prerequisites import GIT

pytestmark = GIT.mark


def program(folder: Path) -> Path:
    """A `taofold` that is this one, as an installation makes it."""
    folder.mkdir()
    script = folder / "taofold"
    script.write_text(f"#!{sys.executable}\nfrom taofold.cli import main\nmain()\n")
    script.chmod(0o755)
    return script


@pytest.mark.crash
def test_the_demo_survives_kill_9_repairs_the_project_and_says_how_to_look(tmp_path: Path) -> None:
    place = tmp_path / "a demo"
    program(tmp_path / "bin")
    environment = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path),
        "TAOFOLD_HOME": str(tmp_path / "elsewhere"),
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )

    done = run("bin/taofold", "demo", "--keep", str(place), "--kill-at", "20")
    assert done.returncode == 0, done.stderr
    assert "kill -9 after event 20" in done.stderr
    assert "search policy, not a language model" in done.stdout
    took = {line.split()[0]: line.split() for line in done.stdout.splitlines()[1:4]}
    assert [row[-1] for row in took.values()] == ["completed"] * 3
    # A search policy learns rates. Lessons in words are for readers.
    assert {loop: row[2] for loop, row in took.items()} == {
        "demo-storeroom": "–", "demo-library": "yes", "demo-control": "–",
    }  # fmt: skip
    assert int(took["demo-library"][3]) <= int(took["demo-control"][3])
    assert int(took["demo-library"][4]) < int(took["demo-control"][4])
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=place / "storeroom", capture_output=True, text=True,
    )  # fmt: skip
    assert tests.returncode == 0, tests.stdout
    told = done.stderr.partition("look at the results:\n")[2].splitlines()
    commands = [line for line in told if line.startswith("  ")]
    assert [line.split()[-2] for line in commands[-2:]] == ["show", "replay"]
    assert "taofold loops" not in done.stderr.partition("look at the results:\n")[0]
    looked = run("/bin/sh", "-c", "set -e\n" + "\n".join(commands))
    assert looked.returncode == 0, looked.stderr
    assert "identical" in looked.stdout


def test_the_demo_says_how_to_get_pytest(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    python = str(bare / "bin" / "python")
    done = subprocess.run(
        [python, "-m", "taofold.cli", "demo", "--keep", str(tmp_path / "demo")],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.endswith(f"{python} -m pip install pytest\n")
    assert not (tmp_path / "demo").exists()


def test_commands_to_type_name_the_program_that_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, other = program(tmp_path / "bin"), program(tmp_path / "other")
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", str(script.parent))
    assert invocation() == "taofold"
    monkeypatch.setenv("PATH", str(other.parent))
    assert invocation() == str(script)
    monkeypatch.setattr(sys, "argv", ["-m"])
    assert invocation() == f"{sys.executable} -m taofold.cli"

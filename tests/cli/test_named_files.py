"""A file named by a command line, an agent file or a project is read only if it is regular.

Mutants: `open_named` without `_check_regular`; without `is_seed_settings`; `_parent` that checks
the folders of a place alone.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.files.actions.web import Folder
from taofold.files.config import read_learning
from taofold.loop.gates.gate_files import npm_scripts
from taofold.reserved_places import open_named, read_named
from taofold.tools.discovery import discover
from taofold.tools.jail import jail
from tests.terminal import Taofold

AGENT = "model: scripted:x\ninstructions: Add.\n"
LEARNING = "ralph:\n  cross_loop_learning:\n    injection:\n      top_k_patterns: 3\n"


def fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


def device(path: Path) -> None:
    path.symlink_to("/dev/null")


def folder(path: Path) -> None:
    path.mkdir()


PLANTS = (fifo, device, folder)
COMMANDS = {
    "an agent file": ("check", "x.yaml"),
    "a policy file": ("check", "policy.yaml"),
    "a policy of an agent file": ("check", "agent.yaml"),
    "an agent to run": ("run", "x.yaml", "17 + 25"),
    "a flow": ("graph", "x.yaml"),
    "an attachment": ("run", "agents:adder", "look", "--attach", "x.png"),
    "cases": ("eval", "x.yaml", "--agent", "agents:adder"),
    "samples": ("eval", "x.jsonl", "--agent", "agents:adder"),
    "a run": ("runs", "import", "x.ndjson"),
    "patterns": ("patterns", "import", "-i", "x.json"),
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("what", COMMANDS)
def test_what_is_no_regular_file_is_not_read(
    project: Path, taofold: Taofold, what: str, plant: Callable[[Path], None]
) -> None:
    command = COMMANDS[what]
    if plant is folder and what == "patterns":
        pytest.skip("a folder of patterns is imported")
    name = next(word for word in command if word.startswith(("x.", "policy.", "agent.")))
    if name == "agent.yaml":
        (project / name).write_text(f"{AGENT}policy: own.yaml\n")
        name = "own.yaml"
    plant(project / name)
    result = taofold(*command)
    assert result.code != 0
    assert (
        f"is {plant.__name__.replace('fifo', 'FIFO').join(('a ', ','))}" in result.out + result.err
    )
    assert name in result.out + result.err


def test_links_to_regular_files_are_followed(project: Path, taofold: Taofold) -> None:
    (project / "there.yaml").write_text("{}")
    (project / "policy.yaml").symlink_to("there.yaml")
    assert taofold("check", "policy.yaml").code == 0
    assert read_named(project / "policy.yaml") == b"{}"


def test_a_makefile_that_is_a_fifo_holds_no_loop_up(tmp_path: Path) -> None:
    fifo(tmp_path / "package.json")
    assert npm_scripts(tmp_path) == {}


def test_a_search_in_a_folder_and_tools_of_a_folder_wait_for_no_fifo(tmp_path: Path) -> None:
    """Mutant: names alone are looked at."""
    fifo(tmp_path / "a.md")
    fifo(tmp_path / "tools.py")
    assert asyncio.run(Folder(jail(tmp_path)).search("otters", 5)) == []
    assert not discover(tmp_path).tools


def link(path: Path, settings: Path) -> None:
    path.symlink_to(settings)


def hard(path: Path, settings: Path) -> None:
    path.hardlink_to(settings)


def pipe(path: Path, settings: Path) -> None:
    fifo(path)


def foreign(path: Path, settings: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    path.write_text(LEARNING)
    os.chown(path, 4711, -1)


def writable(path: Path, settings: Path) -> None:
    path.write_text(LEARNING)
    path.chmod(0o666)


@pytest.mark.parametrize("plant", [link, hard, pipe, foreign, writable])
@pytest.mark.parametrize("name", ["aiwg.yml", ".aiwg/config.yml"])
def test_settings_that_a_repository_planted_are_refused(
    tmp_path: Path, name: str, plant: Callable[[Path, Path], None]
) -> None:
    settings, path = tmp_path / "mine.yml", tmp_path / "project" / name
    settings.write_text(LEARNING)
    path.parent.mkdir(parents=True)
    plant(path, settings)
    learning, faults = read_learning([path])
    assert learning is None
    assert name in str(faults[0])


@pytest.mark.parametrize("kind", ["link", "foreign", "writable"])
def test_a_folder_of_settings_that_was_planted_is_refused(tmp_path: Path, kind: str) -> None:
    there, place = tmp_path / "there", tmp_path / "project" / ".aiwg"
    there.mkdir()
    place.parent.mkdir()
    if kind == "link":
        place.symlink_to(there)
    else:
        place.mkdir()
    (place / "config.yml").write_text(LEARNING)
    if kind == "foreign":
        if os.geteuid() != 0:
            pytest.skip("only root gives folders away")
        os.chown(place, 4711, -1)
    if kind == "writable":
        place.chmod(0o777)
    with pytest.raises(ConfigError, match="aiwg"):
        open_named(place / "config.yml")


def test_settings_of_the_seed_are_read_below_a_linked_project(tmp_path: Path) -> None:
    (tmp_path / "there/.aiwg").mkdir(parents=True)
    (tmp_path / "there/.aiwg/config.yml").write_text(LEARNING)
    (tmp_path / "project").symlink_to("there")
    learning, faults = read_learning([tmp_path / "project/.aiwg/config.yml"])
    assert faults == []
    assert learning is not None
    assert learning.injection.top_k_patterns == 3

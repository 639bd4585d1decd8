"""Tokens and sessions in a project's files grant no access.

Mutants: `refuse_planted` does nothing, or checks with `exists`; the tokens are in `home()`; the key
is the unresolved path, or empty; `home` follows a link.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from taofold.reserved_places import project_state_folder, state_folder
from taofold.server.auth import TokenStore
from tests.terminal import PATIENCE, Taofold, until

SERVERS = (
    ("serve", "agents:adder", "--port", "0"),
    ("serve", "agents:adder", "--mcp-http", "--port", "0"),
    ("work", "agents:adder"),
)
VERBS = (
    ("tokens", "list"),
    ("tokens", "add", "bob", "--role", "USER"),
    ("tokens", "list", "--token-file", "elsewhere.json"),
)


def strangers_tokens(path: Path) -> str:
    """Writes a token file as an attacker would, with the strictest permissions.

    Returns the token.
    """
    token = TokenStore(path).add("stranger", ["ADMIN"])
    Path(f"{path}.lock").unlink()
    return token


def served(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "taofold.cli", *arguments],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


@pytest.mark.parametrize("arguments", SERVERS, ids=" ".join)
def test_a_project_that_brings_tokens_is_not_served(
    project: Path, arguments: tuple[str, ...]
) -> None:
    strangers_tokens(project / ".taofold/tokens.json")
    process = served(project, *arguments)
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2, error
    assert ".taofold/tokens.json' could let strangers sign in" in error
    assert "Delete it" in error


@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_no_verb_about_tokens_uses_those_of_a_project(
    project: Path, taofold: Taofold, arguments: tuple[str, ...]
) -> None:
    strangers_tokens(project / ".taofold/tokens.json")
    result = taofold("serve", *arguments)
    assert result.code == 2
    assert ".taofold/tokens.json' could let strangers sign in" in result.err
    assert "stranger" not in result.out


@pytest.mark.parametrize("planted", ["sessions", "dangling link", "link", "folder"])
def test_no_other_form_of_it_is_taken_either(project: Path, taofold: Taofold, planted: str) -> None:
    path = project / ".taofold" / ("sessions.json" if planted == "sessions" else "tokens.json")
    if planted == "sessions":
        path.write_text("{}")
        path.chmod(0o600)
    elif planted == "folder":
        path.mkdir()
    else:
        strangers_tokens(project / "innocent.json")
        path.symlink_to("../innocent.json" if planted == "link" else "../nothing.json")
    result = taofold("serve", "tokens", "list")
    assert result.code == 2
    assert f"{path.name}' could let strangers sign in" in result.err


def test_a_folder_that_is_a_link_is_no_project(project: Path, taofold: Taofold) -> None:
    """Else a clone could name another project of the user, and with it that one's tokens."""
    mine = project / "mine"
    (project / ".taofold").rename(mine)
    (project / ".taofold").symlink_to("mine")
    result = taofold("serve", "tokens", "list")
    assert result.code == 2
    assert ".taofold' is a link" in result.err


def test_tokens_lie_outside_the_project_and_belong_to_its_path(
    project: Path, taofold: Taofold
) -> None:
    taofold("serve", "tokens", "add", "alice", "--role", "USER")
    assert list((project / ".taofold").iterdir()) == []
    folder = project_state_folder(project / ".taofold")
    assert folder.is_relative_to(state_folder())
    assert [token.principal for token in TokenStore(folder / "tokens.json").all()] == ["alice"]
    # This includes the parent folders, under any umask.
    for made in (folder, folder.parent, state_folder()):
        assert made.stat().st_mode & 0o777 == 0o700
    # The same project by another spelling, and another project.
    os.environ["TAOFOLD_HOME"] = str(project / "x/../.taofold")
    try:
        assert "alice" in taofold("serve", "tokens", "list").out
        os.environ["TAOFOLD_HOME"] = str(project / "other")
        assert "alice" not in taofold("serve", "tokens", "list").out
    finally:
        del os.environ["TAOFOLD_HOME"]


def test_a_copy_of_a_project_lets_in_nobody_who_was_let_into_the_first(
    project: Path, taofold: Taofold, monkeypatch: pytest.MonkeyPatch
) -> None:
    taofold("serve", "tokens", "add", "alice", "--role", "USER")
    shutil.copytree(project, project.parent / "copy")
    monkeypatch.chdir(project.parent / "copy")
    assert "there are no tokens" in taofold("serve", "tokens", "list").err


def test_a_server_says_how_many_it_accepts_and_refuses_a_strangers(project: Path) -> None:
    added = subprocess.run(
        [sys.executable, "-m", "taofold.cli", "serve", "tokens", "add", "alice", "--role", "USER"],
        cwd=project, capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    # Made beside the project: nothing that lies there is read.
    stranger = strangers_tokens(project / "tokens.json")
    said = project / "said.txt"
    with said.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "taofold.cli", "serve", "agents:adder", "--port", "0"],
            cwd=project, stderr=errors, text=True,
        )  # fmt: skip
    try:
        until(lambda: "sign in" in said.read_text(), process)
        assert re.search(r"accepted, .*: 1 token and 0 sessions \(in ", said.read_text())
        (url,) = re.findall(r"^serving \S+ at (\S+)$", said.read_text(), re.MULTILINE)
        assert who(url, added.stdout.strip()) == "alice"
        assert who(url, stranger) == ""
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def who(url: str, token: str) -> str:
    """Returns the server's principal for the token; "" for an anonymous one."""
    request = urllib.request.Request(f"{url}/me", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return str(json.load(answer)["id"])
    except urllib.error.HTTPError as error:
        return "" if error.code == 401 else f"status {error.code}"


@pytest.mark.parametrize("fault", ["others", "owner", "link", "hard link", "fifo"])
def test_a_file_of_tokens_that_is_not_this_users_alone_is_refused(
    project: Path, taofold: Taofold, fault: str
) -> None:
    taofold("serve", "tokens", "add", "alice", "--role", "USER")
    path = project_state_folder(project / ".taofold") / "tokens.json"
    if fault == "others":
        path.chmod(0o640)
    elif fault == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(path, 4711, -1)
    elif fault == "fifo":
        path.unlink()
        os.mkfifo(path, 0o600)
    else:
        there = project / "planted.json"
        path.rename(there)
        path.hardlink_to(there) if fault == "hard link" else path.symlink_to(there)
    result = taofold("serve", "tokens", "list")
    assert result.code == 2
    assert str(path) in result.err
    assert "alice" not in result.out

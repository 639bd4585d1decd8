"""No secret appears on the terminal or in a server's output after an error that contains one.

Mutants: no `excepthook`; logging records are unchanged; values of agents are unknown.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import PATIENCE
from tests.server.live import settled
from tests.server.test_restart import program, program_client

KEY = "zq'internal&9f8e<7d6c>"
OWN = "correct-horse-battery"
AGENT = """
import logging, os, threading
from taofold import Agent, tool
from taofold.testing.models import FunctionModel

KEY, OWN = os.environ["MY_API_KEY"], "correct-horse-battery"

def fails(request):
    raise AssertionError(f"no answer with {KEY} and {OWN}")

def chained(request):
    try:
        fails(request)
    except AssertionError as error:
        raise AssertionError(repr(KEY)) from error

def threaded(request):
    thread = threading.Thread(target=fails, args=(request,))
    thread.start()
    thread.join()
    fails(request)

def logged(request):
    try:
        fails(request)
    except AssertionError:
        logging.getLogger("theirs").exception("failed with %s", KEY)
    raise AssertionError(KEY)

agent = Agent(FunctionModel(fails), secrets=[OWN])
chain = Agent(FunctionModel(chained), secrets=[OWN])
thread = Agent(FunctionModel(threaded), secrets=[OWN])
log = Agent(FunctionModel(logged), secrets=[OWN])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "agents.py").write_text(AGENT)
    monkeypatch.setenv("MY_API_KEY", KEY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def holds(text: str) -> bool:
    return any(part in text for part in (KEY, repr(KEY)[1:-1], OWN, "9f8e<7d6c"))


@pytest.mark.parametrize("name", ["agent", "chain", "thread", "log"])
def test_the_traceback_of_a_command_holds_no_known_value(folder: Path, name: str) -> None:
    command = [sys.executable, "-m", "taofold.cli", "run", f"agents.py:{name}", "go"]
    environment = {key: value for key, value in os.environ.items() if key != "TAOFOLD_HOME"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode != 0
    assert "AssertionError" in done.stderr, "the traceback itself is there"
    assert "[redacted]" in done.stderr
    assert not holds(done.stdout + done.stderr)


def test_an_agent_file_that_fails_shows_no_known_value(folder: Path) -> None:
    (folder / "broken.py").write_text("import os\nraise KeyError(os.environ['MY_API_KEY'])\n")
    command = [sys.executable, "-m", "taofold.cli", "run", "broken.py:agent", "go"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode != 0
    assert not holds(done.stdout + done.stderr)


@pytest.mark.anyio
async def test_a_servers_output_holds_no_known_value(folder: Path) -> None:
    with program(folder) as started:
        url = await started.up()
        async with program_client(url) as client:
            assert (await client.post("/runs", json={"goal": "go"})).status_code == 201
            await settled(lambda: "AssertionError" in started.said.read_text())
        await asyncio.to_thread(started.process.terminate)
        await asyncio.to_thread(started.process.wait, 15)
        assert not holds(started.said.read_text())

"""Runs compose.yaml without containers: its commands and environment, on a real PostgreSQL.

`pip` is a stub that records its arguments. Addresses and folders of the containers are replaced by
those of a test. Passwords are not checked, because the server trusts every client of its socket.
"""

import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from taofold.cli.serve import commands
from taofold.server.uvicorn_server import STOP_S
from tests import postgres
from tests.ports import PATIENCE, free_port

FILE = Path(__file__).parents[1] / "compose.yaml"
AGENTS = """
import json
from taofold import Agent
from taofold.testing.models import FunctionModel

def answer(request):
    action = {"tool": "finish", "parameters": {"answer": "done"}, "rationale": "over"}
    return json.dumps({"thought": "on", "thought_type": "synthesis", "action": action})

agent = Agent(FunctionModel(answer))
"""
GIVEN = {"POSTGRES_PASSWORD": "secret1"}


def filled(text: str) -> str:
    """`text` with `${NAME:-default}` and `${NAME:?message}` put in, as Compose does."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        if kind == ":-":
            return GIVEN.get(name, rest)
        assert name in GIVEN, rest
        return GIVEN[name]

    return re.sub(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", value, text)


class Composition:
    """The services as processes."""

    def __init__(self, folder: Path, server: postgres.Server) -> None:
        self.folder, self.server = folder, server
        self.services: dict[str, Any] = yaml.safe_load(filled(FILE.read_text()))["services"]
        self.processes: list[subprocess.Popen[str]] = []
        (folder / "agents.py").write_text(AGENTS)
        (folder / "home").mkdir()
        programs = folder / "bin"
        programs.mkdir()
        (programs / "pip").write_text(f'#!/bin/sh\necho "$@" >> {folder}/installed\n')
        (programs / "taofold").write_text(f'#!/bin/sh\nexec {sys.executable} -m taofold.cli "$@"\n')
        for program in programs.iterdir():
            program.chmod(0o755)
        database = self.services["database"]["environment"]
        user, self.name = database["POSTGRES_USER"], database["POSTGRES_DB"]
        server.execute(f"create role {user} login password '{database['POSTGRES_PASSWORD']}'")
        server.execute(f"create database {self.name} owner {user}")

    def start(self, service: str, *options: str) -> subprocess.Popen[str]:
        described = self.services[service]
        environment = dict(described["environment"])
        host = f"@{quote(str(self.server.root), safe='')}/"
        address = environment["TAOFOLD_LOG"].replace("@database/", host)
        assert host in address
        for volume in described["volumes"]:
            source, inside = volume.split(":")[:2]
            if source == "home":
                assert environment["TAOFOLD_HOME"] == inside
        shell, flag, script = shlex.split(described["command"])
        process = subprocess.Popen(
            [shell, flag, f"{script} {shlex.join(options)}"],
            cwd=self.folder,
            env={
                **os.environ,
                **environment,
                "TAOFOLD_LOG": address,
                "TAOFOLD_HOME": str(self.folder / "home"),
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.fixture
def composition(tmp_path: Path) -> Iterator[Composition]:
    found = postgres.Server(postgres.server().binaries)
    made = Composition(tmp_path, found)
    yield made
    made.stop()
    found.remove()


def ask(port: int, path: str, token: str = "", body: Any = None) -> tuple[int, Any]:
    """Returns the status and the body of a response; 0 if there is no server."""
    request = urllib.request.Request(
        f"http://localhost:{port}{path}", None if body is None else json.dumps(body).encode()
    )
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, None
    except OSError:
        return 0, None


def until(condition: Any) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return value


def test_the_services_work_together(composition: Composition) -> None:
    token, _ = composition.start("token").communicate(timeout=PATIENCE)
    port = free_port()
    server = composition.start("server", "--port", str(port))
    workers = [composition.start("worker") for _ in range(2)]
    assert composition.services["worker"]["deploy"]["replicas"] == len(workers)
    until(lambda: ask(port, "/readyz")[0] == 200)
    assert ask(port, "/runs")[0] == 401
    status, run = ask(port, "/runs", token.strip(), {"goal": "x"})
    assert status == 201
    until(lambda: ask(port, f"/runs/{run['id']}", token.strip())[1]["status"] == "finished")
    for process in (server, *workers):
        process.send_signal(signal.SIGTERM)
    worker = inspect.signature(commands.work).parameters["stop_seconds"].default
    for name in ("server", "worker"):
        grace = int(composition.services[name]["stop_grace_period"].removesuffix("s"))
        assert grace > worker + STOP_S
    for process in (server, *workers):
        process.communicate(timeout=PATIENCE)
    installed = (composition.folder / "installed").read_text().split("\n")
    assert set(installed) == {"install -q taofold[serve,postgres]", ""}


def test_the_health_check_tells_whether_the_database_is_there(composition: Composition) -> None:
    check = shlex.split(composition.services["database"]["healthcheck"]["test"])
    # The server of a test listens at its socket only.
    check = [str(composition.server.root) if word == "127.0.0.1" else word for word in check]
    check[0] = str(composition.server.binaries / check[0])
    assert subprocess.run(check, capture_output=True).returncode == 0
    composition.server.stop()
    assert subprocess.run(check, capture_output=True).returncode != 0

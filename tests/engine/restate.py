"""A Restate server for tests: the binary of its npm package, started once for each test process."""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests import environments
from tests.console import node
from tests.ports import free_port

PINNED: Final[Mapping[str, str]] = {"@restatedev/restate-server": "1.7.12"}
"""Brings the program as a package for the platform."""


class RestateServer:
    """One node in its own folder, on free ports."""

    def __init__(self, binary: Path) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="restate"))
        self.binary = binary
        self.ingress, self.admin, self.worker, self._fabric, self._more = ports(5)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def engine(self, port: int = 0) -> str:
        """The engine's name, for workers of this process that share a port."""
        return (
            f"restate:http://127.0.0.1:{self.ingress}?admin=http://127.0.0.1:{self.admin}"
            f"&port={port or self.worker}&shared=yes"
        )

    def start(self) -> None:
        environment = {
            **os.environ,
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self.admin}",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{self._fabric}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{self._fabric}",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "1",
        }
        log = (self.root / "log").open("ab")
        self._process = subprocess.Popen(
            [str(self.binary), "--base-dir", str(self.root / "data"), "--node-name", "test"],
            env=environment, stdout=log, stderr=log, preexec_fn=_die_with_us, cwd=self.root,
        )  # fmt: skip
        log.close()
        end = time.monotonic() + 180
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.root / "log").read_text()[-3000:])
            time.sleep(0.05)

    def _healthy(self) -> bool:
        try:
            for port, path in ((self.admin, "health"), (self.ingress, "restate/health")):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10).close()
        except (urllib.error.URLError, OSError):
            return False
        return True

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def ports(count: int) -> list[int]:
    """Free ports, all different."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port())
    return list(found)


def _die_with_us() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def binary() -> Path | None:
    """The server's program, if it was installed."""
    if named := os.environ.get("TAOFOLD_TEST_RESTATE"):
        return Path(named)
    folder = node.place(PINNED) / "node_modules" / "@restatedev"
    return next(iter(sorted(folder.glob("restate-server-*/bin/restate-server"))), None)


@cache
def _started() -> RestateServer | None:
    program = binary()
    return None if program is None else RestateServer(program)


def server() -> RestateServer:
    """The server of this process. Skips the test where its program was not installed."""
    found = _started()
    if found is None:
        pytest.skip(environments.reason("Restate server"))
    return found


def stop() -> None:
    """Stop the server of this process, if one was started."""
    if _started.cache_info().currsize:
        found = _started()
        if found is not None:
            found.remove()
        _started.cache_clear()

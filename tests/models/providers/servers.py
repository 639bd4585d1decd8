"""The fakes as processes: started once per session, loaded with a scenario per test."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import environments
from tests.ports import free_port

MODULES = {
    "responses": "openai_responses",
    "chat": "openai_chat",
    "messages": "anthropic_messages",
    "gemini": "gemini_generate",
}
ROOT = Path(__file__).resolve().parents[3]
OLLAMA = "tests.models.providers.ollama"
SECONDS = 600
"""Startup timeout of a fake: it imports whole SDKs, perhaps on a busy machine."""


def folder() -> Path | None:
    """Returns the folder of the package `fakes`, or None."""
    named = os.environ.get("TAOFOLD_PROVIDER_FAKES")
    places = [Path(named)] if named else []
    places += [up / "shared/tools/providers" for up in Path(__file__).resolve().parents]
    return next((one for one in places if (one / "fakes/common.py").exists()), None)


def needs() -> tuple[Path, Path]:
    """Returns the fakes' folder and their Python. Skips the test if one is missing."""
    found = folder()
    if found is None:
        pytest.skip("no fake providers: set TAOFOLD_PROVIDER_FAKES to their folder")
    return found, environments.needs("providers").python


@dataclass
class Server:
    """One fake provider."""

    kind: str
    port: int = field(default_factory=free_port)
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, again on its port, and wait until it answers."""
        # Ours needs nothing but this repository.
        place, python = (ROOT, sys.executable) if self.kind == "ollama" else needs()
        module = OLLAMA if self.kind == "ollama" else f"fakes.{MODULES[self.kind]}"
        self.process = subprocess.Popen(
            [python, "-m", module, "--port", str(self.port), *self.options],
            cwd=place,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + SECONDS
        while True:
            try:
                self.seen()
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def load(self, turns: Any) -> None:
        """Loads the next turns and clears the recorded requests."""
        body = json.dumps(turns).encode()
        request = urllib.request.Request(
            f"{self.url}/__scenario", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            answer.read()

    def seen(self) -> list[dict[str, Any]]:
        """Returns the requests since the scenario was loaded, with their verdicts."""
        with urllib.request.urlopen(f"{self.url}/__requests", timeout=SECONDS) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def refused(self) -> list[Any]:
        """Why requests were refused, of those that the scenario did not mean to fail."""
        return [one.get("error") for one in self.seen() if one["status"] in (400, 401, 403, 404)]

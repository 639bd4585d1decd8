"""`TAOFOLD_EMBEDDINGS`: a model of sentences for loops that are started on the command line."""

import json
from pathlib import Path

import pytest
from tests.loop.conftest import GATE, project
from tests.ports import free_port
from tests.prerequisites import GIT
from tests.terminal import Taofold, taofold

from taofold.cli.project import EMBEDDINGS, embedder
from taofold.core.errors import ConfigError

__all__ = ["project", "taofold"]


def test_a_model_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EMBEDDINGS, raising=False)
    assert embedder() is None
    monkeypatch.setenv(EMBEDDINGS, "nomic@http://127.0.0.1:9/v1")
    found = embedder()
    assert found is not None
    assert found.name == "nomic@http://127.0.0.1:9/v1"
    monkeypatch.setenv("TAOFOLD_MINILM", "/nowhere")
    for said, told in (
        ("nomic", "must be minilm or MODEL@URL"),
        ("@http://127.0.0.1/v1", "must be minilm or MODEL@URL"),
        ("nomic@ftp://127.0.0.1/v1", "must be an http or https URL"),
        ("minilm", "has no model.safetensors"),
    ):
        monkeypatch.setenv(EMBEDDINGS, said)
        with pytest.raises(ConfigError, match=told):
            embedder()


@GIT.mark
def test_inject_asks_the_model_and_says_if_it_does_not_answer(
    project: Path, taofold: Taofold, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = "Make the failing tests pass"
    taofold("loop", task, "-c", GATE, "--agent", "agents:fixer", "--loop-id", "ended")
    (project / "calc.py").write_text("def double(n):\n    return n\n")
    taofold("loop", task, "-c", GATE, "--agent", "agents:asker", "--loop-id", "open")
    name = f"nomic@http://127.0.0.1:{free_port()}/v1"
    monkeypatch.setenv(EMBEDDINGS, name)
    code, out, err = taofold("patterns", "inject", "open", "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["patterns"], "words alone decide"
    assert said["reasons"][-1].startswith(f"{name}: meanings were not compared: cannot talk to")

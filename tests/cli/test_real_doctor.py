"""`taofold doctor MODEL` against a genuine llama.cpp server, where there is one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.llama import KEY, serving
from tests.prerequisites import LLAMA
from tests.terminal import Taofold

pytestmark = [
    pytest.mark.real_server,
    pytest.mark.allow_model_requests,
    LLAMA.mark,
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, project: Path) -> Iterator[str]:
    with serving("react") as url:
        monkeypatch.setenv("LLAMACPP_BASE_URL", url)
        monkeypatch.setenv("LLAMACPP_API_KEY", KEY)
        yield url


def test_doctor_probes_a_model_and_later_runs_use_what_it_found(
    taofold: Taofold, server: str, project: Path
) -> None:
    done = taofold("doctor", "llamacpp:react", "--json")
    assert done.code == 0, done.err
    found = {one["what"]: one for one in json.loads(done.out)}
    assert all(found[what]["good"] for what in ("plain reply", "window", "profile"))
    kept = json.loads((project.parent / "config" / "taofold" / "profiles.json").read_text())
    profile = kept[f"llamacpp:react at {server}"]["profile"]
    assert profile["window_known"]
    assert KEY not in done.out + done.err + json.dumps(kept)
    taofold("run", "-m", "llamacpp:react", "count", "--steps", "1", "-q")
    log = taofold("runs", "log", "last", "--json").out.splitlines()
    assert json.loads(log[0])["event"]["profile"]["window"] == profile["window"]


def test_doctor_says_when_the_key_is_wrong(
    taofold: Taofold, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMACPP_API_KEY", "wrong-key-of-this-test")
    done = taofold("doctor", "llamacpp:react")
    assert done.code == 1
    assert "auth" in done.out
    assert "wrong-key-of-this-test" not in done.out + done.err

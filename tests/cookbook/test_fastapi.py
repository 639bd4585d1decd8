"""docs/cookbook/fastapi.md, with FastAPI in an environment of its own."""

import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests import environments
from tests.cookbook.conftest import Reader, answer, call
from tests.ports import free_port, wait_for
from tests.road.mind import Asked, Said
from tests.terminal import PATIENCE
from tests.test_docs import ROOT

Post = Callable[..., tuple[int, str]]


@pytest.fixture
def post(reader: Reader) -> Post:
    """The application of the page, and a way to post to it with a user's token."""
    return serving(reader)


def serving(reader: Reader) -> Post:
    """Starts the application of the page; returns a way to post to it."""
    environment = environments.needs("fastapi")
    reader.opens("fastapi.md")
    (line,) = [line for line in reader.commands if line.startswith("export APP_TOKENS=")]
    port = free_port()
    reader.environment |= {
        "APP_TOKENS": line.partition("=")[2].strip("'"),
        "PATH": f"{environment.program('')}{os.pathsep}{reader.environment['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "UVICORN_PORT": str(port),
    }
    wait_for(port, reader.starts("uvicorn app:app"))  # type: ignore[arg-type]

    def send(path: str, body: dict[str, Any], user: str) -> tuple[int, str]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer t-{user}"}
        url = f"http://127.0.0.1:{port}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return send


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def events(body: str) -> list[tuple[str, Any]]:
    pairs = [event.splitlines() for event in body.strip().split("\n\n")]
    return [(n.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for n, d in pairs]


def test_the_answer_streams(reader: Reader, post: Post) -> None:
    reader.scripts(answer("Ada owes forty euros."))
    status, body = post("/runs", {"goal": "What does Ada owe?"}, "ada")
    *texts, (name, end) = events(body)
    assert (status, name) == (200, "end")
    assert len(texts) > 1
    assert "".join(text for _, text in texts) == "Ada owes forty euros."
    assert (end["status"], end["output"], end["asks"]) == (
        "finished",
        "Ada owes forty euros.",
        [],
    )


def test_an_approval_is_taken_from_whom_the_policy_names(reader: Reader, post: Post) -> None:
    reader.scripts(call("send_invoice", customer="Ada", euros=40), answer("Sent."))
    _, body = post("/runs", {"goal": "Bill Ada."}, "ada")
    end = events(body)[-1][1]
    (asked,) = end["asks"]
    assert asked["preview"] == "send_invoice(customer='Ada', euros=40)"
    path = f"/runs/{end['run']}/questions/{asked['id']}"
    approve = {"verdict": "approve", "digest": asked["digest"]}
    assert post(path, approve, "eve")[0] == 401
    assert post("/runs/none/questions/x", approve, "grace")[0] == 404
    assert post(path, {**approve, "digest": "another"}, "grace")[0] == 403
    status, body = post(path, approve, "grace")
    assert status == 200, body
    assert (json.loads(body)["status"], json.loads(body)["output"]) == ("finished", "Sent.")
    assert post(path, approve, "grace")[0] == 409  # decided already
    assert "sent 40 EUR to Ada" in reader.providers.asked[1].turns[-1].text


def test_a_client_that_disconnects_cancels_its_run(reader: Reader, post: Post) -> None:
    asked, gone = threading.Event(), threading.Event()

    def slow(request: Asked) -> Said:
        asked.set()
        gone.wait(PATIENCE)
        return answer("Too late.")(request)

    reader.providers.model = slow
    client = http.client.HTTPConnection("127.0.0.1", int(reader.environment["UVICORN_PORT"]))
    headers = {"Content-Type": "application/json", "Authorization": "Bearer t-ada"}
    client.request("POST", "/runs", json.dumps({"goal": "Tell me all."}), headers)
    assert asked.wait(PATIENCE)
    client.close()
    until(lambda: " cancelled " in reader.runs("taofold", "runs", "list").stdout)
    gone.set()


def test_without_a_key(reader: Reader) -> None:
    reader.environment["TAOFOLD_MODEL"] = "test:tools"
    post = serving(reader)
    _, body = post("/runs", {"goal": "Bill Ada."}, "ada")
    end = events(body)[-1][1]
    (asked,) = end["asks"]
    assert (end["status"], asked["preview"]) == (
        "waiting",
        "send_invoice(customer='a', euros=0)",
    )
    path = f"/runs/{end['run']}/questions/{asked['id']}"
    _, body = post(path, {"verdict": "deny", "digest": asked["digest"]}, "grace")
    assert json.loads(body)["status"] == "finished"

"""Broken input: the error is clear, the log stays complete, no data is lost.

Each case is a whole run in a file. Afterwards the file is opened and read by a new log object.
"""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, ConfigError, Document, Image, Limits, tool
from taofold.core import events as e
from taofold.core.content import MediaPart, Message, blob_digest
from taofold.core.state import RunState, fold
from taofold.log.sqlite.log import SqliteLog
from taofold.models.transport import Body, Bounds, HttpResponse, OnBytes
from taofold.testing.cassette import Cassette
from taofold.testing.models import FunctionModel
from taofold.tools.files import file_tools
from tests.killed import kill, killed
from tests.models.forms import FORMS, Form, add
from tests.pictures import PDF, PICTURE

pytestmark = pytest.mark.anyio

each = pytest.mark.parametrize("form", FORMS, ids=str)
LARGE = 40_000_000


@pytest.fixture(autouse=True)
def prompts_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taofold.testing.cassette._difference", lambda *_: "")


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path / "log.db")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A PDF of 40 MB, on the disk only where it is not zeros."""
    path = tmp_path / "large.pdf"
    with path.open("wb") as file:
        file.write(PDF)
        file.truncate(LARGE)
        file.seek(LARGE - len(PDF))
        file.write(PDF)
    return path


async def read(log: str, run: str) -> tuple[RunState, list[e.Event]]:
    """The run as the file has it, every record decoded, encoded and decoded again."""
    opened = SqliteLog(log)
    try:
        records = list(await opened.read(run))
    finally:
        await opened.close()
    assert [record.seq for record in records] == list(range(len(records)))
    assert [e.decode(e.encode(record.event)) for record in records] == [r.event for r in records]
    with sqlite3.connect(log) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    return fold(records), [record.event for record in records]


async def runs(log: str) -> list[str]:
    if not Path(log).exists():
        return []
    opened = SqliteLog(log)
    try:
        return [row.run for row in await opened.rows()]
    finally:
        await opened.close()


class Scripted:
    """A model that calls one tool once and then returns the messages it received."""

    def __init__(self, name: str, **parameters: Any) -> None:
        self._call = {"tool": name, "parameters": parameters}
        self.seen: list[Message] = []

    def __call__(self, request: Any) -> Any:
        self.seen = list(request.conversation)
        if any(message.role == "assistant" for message in self.seen):
            answer = {"tool": "finish", "parameters": {"answer": "done"}}
            return json.dumps({"thought": "That is all.", "action": answer})
        return json.dumps({"thought": "I look.", "action": self._call})


# In the goal: no run begins and no request is sent.


@pytest.mark.parametrize("kind", ["too large", "damaged", "gone"])
async def test_what_cannot_be_shown_begins_no_run(
    kind: str, log: str, large: Path, tmp_path: Path
) -> None:
    wrong, words = {
        "too large": (Document(large), r"large\.pdf.* has 40\.0 MB.*give a part of it"),
        "damaged": (Image(data=PICTURE[:-6], name="a.png"), r"a\.png.* is damaged.*cut off"),
        "gone": (Image(tmp_path / "gone.png"), r"gone\.png.* cannot be read: No such file"),
    }[kind]
    provider = Cassette([])
    agent = Agent(FORMS[0].connect(provider), log=log)
    with pytest.raises(ConfigError, match=words):
        await agent.run(["What is this?", wrong], run_id="r")
    assert provider.requests == []
    assert await runs(log) == []


# From a tool: the call gets a result, and the run continues.


@tool(effect="read")
def shown(kind: str, folder: str) -> Any:
    """Show something."""
    match kind:
        case "too large":
            return Document(Path(folder) / "large.pdf")
        case "damaged":
            return Image(data=PICTURE[:-6], name="a.png")
        case _:
            return Image(Path(folder) / "gone.png")


@pytest.mark.parametrize("through", ["our tool", "read_file"])
@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("too large", "large.pdf", "large.pdf"),
        ("damaged", "a.png", "damaged"),
        ("gone", "gone.png", "gone.png"),
    ],
)
async def test_a_tool_that_cannot_show_it_says_why(
    kind: str, name: str, words: str, through: str, log: str, large: Path
) -> None:
    folder = large.parent
    (folder / "a.png").write_bytes(PICTURE[:-6])
    script = (
        Scripted("shown", kind=kind, folder=str(folder))
        if through == "our tool"
        else Scripted("read_file", path=name)
    )
    agent = Agent(FunctionModel(script), tools=[shown, file_tools(folder)], log=log)
    result = await agent.run("Show me.", run_id="r")
    assert result.success, result.error
    (observation,) = result.steps[0].observations
    assert words in str(observation.result), observation
    assert kind != "too large" or " has 40" in str(observation.result)
    assert words in script.seen[-1].text, "the model is told, too"
    state, events = await read(log, "r")
    assert state.status == "finished"
    assert not any(isinstance(event, e.AskFailed) for event in events)
    assert (await agent.replay("r")).success


# A model that cannot see.


async def test_a_picture_that_one_model_cannot_see_is_kept_for_one_that_can(log: str) -> None:
    blind, seeing = (
        next(form for form in FORMS if form.name == n) for n in ("deepseek", "messages")
    )
    exchanges = blind.recorded(streamed=False)
    first = Cassette([*exchanges[:1], {"response": {"status": 400, "json": {"error": "no"}}}])
    model = blind.connect(first)
    agent = Agent(model, tools=[add], limits=Limits(steps=8), log=log)
    goal = ["Add them up.", Image(data=PICTURE, name="a.png")]
    result = await agent.run(goal, run_id="r")
    assert not result.success
    assert "[image image/png 1 kB a.png" in str(first.requests[0])
    state, _ = await read(log, "r")
    assert state.started is not None
    assert [part.name for part in state.started.parts if isinstance(part, MediaPart)] == ["a.png"]
    second = Cassette(seeing.recorded(streamed=False)[1:])
    other = agent.replace(model=seeing.connect(second))
    result = await other.resume("r")
    assert (result.success, result.output) == (True, "It is 10."), result.error
    assert "iVBOR" in str(second.requests[0]), "the picture itself was sent"


# A file that is gone from the log itself.


async def test_bytes_that_are_gone_from_the_log_are_named_and_the_rest_is_kept(log: str) -> None:
    form = next(form for form in FORMS if form.name == "messages")
    exchanges = form.recorded(streamed=False)
    agent = Agent(form.connect(Dying(exchanges[:1])), tools=[add], log=log)
    with killed():
        await agent.run(form.goal, run_id="r")
    with sqlite3.connect(log) as db:
        db.execute("delete from blobs where body = ?", (PICTURE,))
    result = await agent.replace(model=form.connect(Cassette(exchanges[1:]))).resume("r")
    assert not result.success
    assert "the bytes of [image image/png 1 kB a.png" in result.error
    assert "are not in the log" in result.error
    state, events = await read(log, "r")
    assert state.status == "failed"
    assert [event.observation.result for event in events if isinstance(event, e.Observed)] == [3, 7]
    # Put back, it goes on where it was.
    with sqlite3.connect(log) as db:
        digest = blob_digest(PICTURE)
        db.execute("insert into blobs(digest, body) values(?, ?)", (digest, PICTURE))
    result = await agent.replace(model=form.connect(Cassette(exchanges[1:]))).resume("r")
    assert (result.success, result.output) == (True, "It is 10."), result.error


class Dying(Cassette):
    """A provider that is asked by a process that is killed when the recording is over."""

    async def post(self, *args: Any, **more: Any) -> Any:
        if not self._left:
            await kill()
        return await super().post(*args, **more)


# A provider that streams garbage.

GARBAGE = {
    "noise": b"\xff\xfe\x00garbage\r\n\r\n" * 50,
    "html": b"<html><body>502 Bad Gateway</body></html>",
    "other json": b'data: {"hello": [1, 2, {"x": null}]}\n\ndata: 7\n\ndata: "s"\n\n',
    "nested": b"data: " + b"[" * 5_000 + b"\n\n",
    "nothing": b"",
}


class Garbled(Cassette):
    """A provider whose answers are garbage after the recorded ones."""

    def __init__(self, exchanges: list[dict[str, Any]], garbage: bytes) -> None:
        super().__init__(exchanges)
        self.garbage, self.answered = garbage, 0

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        if self._left:
            return await super().post(url, headers, body, bounds, on_bytes)
        self.answered += 1
        if on_bytes is None:
            return HttpResponse(200, {}, self.garbage)
        for start in range(0, len(self.garbage), 37):
            on_bytes(self.garbage[start : start + 37])
        return HttpResponse(200, {}, b"")


@each
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_asked_for_again_and_then_fails_without_loss(
    form: Form, streamed: bool, garbage: bytes, log: str
) -> None:
    exchanges = form.recorded(streamed=streamed)
    provider = Garbled(exchanges[:1], garbage)
    agent = Agent(form.connect(provider), tools=[add], limits=Limits(steps=8), log=log)
    result = await driven(agent, form, streamed=streamed)
    assert not result.success
    assert form.model in result.error
    assert "unreadable answer" in result.error or "broke off" in result.error, result.error
    assert provider.answered == 3
    state, events = await read(log, "r")
    assert state.status == "failed"
    assert [event.kind for event in events if isinstance(event, e.AskFailed)] != []
    observed = [event.observation.result for event in events if isinstance(event, e.Observed)]
    assert sorted(observed) == [3, 7], "two calls at once, in whatever order they end"
    well = Cassette(exchanges[1:])
    result = await agent.replace(model=form.connect(well)).resume("r", listener=listens(streamed))
    assert (result.success, result.output) == (True, "It is 10."), result.error
    assert (await agent.replay("r")).success


def listens(streamed: bool) -> Any:
    return (lambda happening: None) if streamed else None


async def driven(agent: Agent[Any, Any], form: Form, *, streamed: bool) -> Any:
    return await agent.run(form.goal, run_id="r", listener=listens(streamed))

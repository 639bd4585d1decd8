"""Streams: no event is lost or repeated, at any point of a reconnect."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Limits, RunContext, tool
from taofold.core.values import Profile, Reply, ToolCall
from taofold.runtime.model import OnText, Request
from taofold.server import Settings
from taofold.server.streams.partial_answer import PartialAnswer
from tests.server.agents import Bench, Slowly, act, batch, finish, scripted
from tests.server.live import PATIENCE, Client, Event, serving, settled

pytestmark = pytest.mark.anyio


def durable(events: list[Event]) -> list[tuple[str, Any]]:
    return [(one.id, one.data) for one in events if one.id]


def answer_of(events: list[Event]) -> str:
    """Returns the answer of a client that orders each chunk by its position."""
    text = ""
    for one in events:
        if one.name == "answer_chunk":
            text = text[: one.data["offset"]] + one.data["text"]
    return text


@pytest.mark.scenario("PEER-15")
async def test_a_client_that_drops_at_any_event_gets_the_rest_once(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(
        act("look", "look"),
        batch("two", ("look", {"at": "a"}), ("label", {"name": "b"})),
        act("stop", "finish", answer="all\ndone"),
        limits=Limits(steps=3),
    )
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start()
        whole = await client.events(run)
        assert whole[-1].name == "done"
        ids = [one.id for one in whole if one.id]
        assert len(ids) == len(set(ids))
        for number, id_ in enumerate(ids):
            rest = await client.events(run, id_)
            assert durable(rest) == durable(whole)[number + 1 :]
        assert answer_of(whole) == "all\ndone"


@pytest.mark.scenario("PEER-15")
async def test_another_server_on_the_same_log_continues_a_stream_of_a_run_and_its_children(
    tmp_path: Path,
) -> None:
    bench = Bench()
    replies = (act("look", "look", at="in"), act("wait", "slow"), finish("x"))
    inner = bench.agent(*replies, name="sub", tools=bench.safe)
    replies = (
        batch("both", ("sub", {"goal": "one"}), ("sub", {"goal": "two"})),
        act("once more", "sub", goal="three"),
        finish(),
    )
    agent = Agent(scripted(*replies), tools=[inner], limits=Limits(steps=9))
    path = tmp_path / "runs.db"
    bench.gate.clear()
    async with serving(agent, path) as one, serving(agent, path) as other:
        run = await one.start()
        await bench.arrived.wait()
        early = await one.events(run, most=6)
        position = [event.id for event in early if event.id][-1]
        watching = asyncio.create_task(other.events(run, position))
        await settled(lambda: other.server.hub.watched(run))
        bench.gate.set()
        late = await watching
        whole = await one.events(run)
        key = lambda event: (event.data["run"], event.data["seq"], event.name)  # noqa: E731
        seen = [key(event) for event in early + late if event.id]
        assert sorted(seen) == sorted(key(event) for event in whole if event.id)
        assert len(seen) == len(set(seen))
        assert late[-1].name == "done"
        assert {event.data["child"] for event in whole} == {True, False}
        for server in (one, other):
            for number, event in enumerate(whole):
                if event.id:
                    rest = await server.events(run, event.id)
                    got = sorted(key(one) for one in rest if one.id)
                    assert got == sorted(key(one) for one in whole[number + 1 :] if one.id)


async def test_a_finished_run_that_was_read_is_204(tmp_path: Path) -> None:
    async with serving(Bench().agent(finish()), tmp_path / "runs.db") as client:
        run = await client.start()
        last = (await client.events(run))[-1]
        answer = await client.get(f"/runs/{run}/events", headers={"Last-Event-ID": last.id})
        assert answer.status_code == 204


@pytest.mark.scenario("RCT-06")
async def test_the_chunks_of_an_answer_add_up_to_it_exactly(tmp_path: Path) -> None:
    text = 'a "quoted"\nlong – answer 🌍 ' * 9
    model = Slowly(finish(text))
    async with serving(Agent(model), tmp_path / "runs.db") as client:
        run = await client.start()
        watching = asyncio.create_task(client.events(run))
        await settled(lambda: client.server.hub.watched(run))
        for _ in range(len(model.replies[0])):
            model.go()
            await asyncio.sleep(0.001)
        events = await watching
    chunks = [one for one in events if one.name == "answer_chunk"]
    assert len(chunks) > 3
    assert all(one.id == "" for one in chunks)
    assert "".join(one.data["text"] for one in chunks) == text
    assert [one.data["text"] for one in events if one.name == "answer"] == [text]
    assert [one.name for one in events][-2:] == ["answer", "done"]
    sequence = [one.data["sequence"] for one in events]
    assert sequence == sorted(sequence)


async def test_who_comes_back_in_the_middle_of_an_answer_gets_it_whole(tmp_path: Path) -> None:
    text = "one two three four five six seven eight nine ten " * 5
    model = Slowly(finish(text))
    async with serving(Agent(model), tmp_path / "runs.db") as client:
        run = await client.start()
        model.go(15)
        first = await client.events(run, stop="answer_chunk")
        assert first[-1].data["offset"] == 0
        watching = asyncio.create_task(client.events(run))
        await settled(lambda: client.server.hub.watched(run))
        model.go(1000)
        events = await watching
    assert answer_of(events) == text
    assert "".join(one.data["text"] for one in events if one.name == "answer_chunk") == text


async def test_an_answer_that_is_not_accepted_is_taken_back(tmp_path: Path) -> None:
    """Strict: after a failure the next thought must be an exception. The first answer has none."""
    hasty = "a hasty answer that is wrong, and long enough to be seen while it is written"
    model = Slowly(
        act("try", "broken"),
        act("ignore it", "finish", "synthesis", answer=hasty),
        act("it failed because", "finish", "exception", answer="a better one"),
    )
    agent = Agent(model, tools=Bench().tools, strict=True)
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start()
        seen: list[Event] = []
        watching = asyncio.create_task(client.events(run, into=seen))
        model.go(sum(len(reply) // 12 for reply in model.replies[:2]))
        await settled(lambda: any(one.name == "answer_chunk" for one in seen))
        assert hasty.startswith(answer_of(seen))
        model.go(1000)
        events = await watching
    assert answer_of(events) == "a better one"
    assert [one.data["text"] for one in events if one.name == "answer"] == ["a better one"]


async def test_what_a_tool_says_of_its_work_is_told_while_it_works_and_not_kept(
    tmp_path: Path,
) -> None:
    go = asyncio.Event()

    @tool(effect="read")
    async def dig(ctx: RunContext[Any]) -> str:
        """Dig."""
        while not go.is_set():
            ctx.report(f"{'deep ' * 1000}secret-digger-1")
            await asyncio.sleep(0.02)
        return "dug"

    bench = Bench()
    agent = bench.agent(act("dig", "dig"), finish(), tools=[dig], secrets=["secret-digger-1"])
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start()
        some = await client.events(run, stop="progress")
        said = some[-1]
        assert (said.id, said.data["tool"], said.data["run"]) == ("", "dig", run)
        assert len(said.data["text"]) == 2000
        again = await client.events(run, some[-2].id, stop="progress")
        assert again[-1].name == "progress"
        go.set()
        whole = await client.events(run)
        assert whole[-1].name == "done"
        assert "progress" not in [event.name for event in whole]


@pytest.mark.scenario("PEER-16")
async def test_a_streamed_and_a_plain_run_are_the_same(tmp_path: Path) -> None:
    agent = Bench().agent(act("look", "look"), finish())
    async with serving(agent, tmp_path / "runs.db") as client:
        plain = await client.start()
        await client.until(plain)
        accept = {"Accept": "text/event-stream"}
        answer = await client.post("/runs", {"goal": "go"}, headers=accept)
        assert answer.headers["content-type"].startswith("text/event-stream")
        streamed = answer.headers["location"].rpartition("/")[2]

        def same(found: dict[str, Any]) -> dict[str, Any]:
            keep = ("status", "stop_reason", "success", "output", "steps", "model_calls")
            return {name: found[name] for name in (*keep, "tool_calls", "events")}

        one, other = await client.until(plain), await client.until(streamed)
        assert same(one) == same(other)
        kinds = [
            [event["event"]["e"] for event in found["items"]]
            for found in [
                (await client.get(f"/runs/{run}/records")).json() for run in (plain, streamed)
            ]
        ]
        assert kinds[0] == kinds[1]
        lines = [line for line in answer.text.splitlines() if line.startswith("event: ")]
        again = [f"event: {event.name}" for event in await client.events(plain)]
        # A piece of an answer has no id and no place among the events: live it comes when the model
        # writes it, before its turn is recorded.
        piece = "event: answer_chunk"
        assert lines.count(piece) == again.count(piece) == 1
        lines.remove(piece)
        again.remove(piece)
        assert lines == again


@pytest.mark.parametrize("said", ["x", "-1", "1~", "1~x", "1.2.3", "9" * 5000, "0~a:b", "99"])
async def test_a_position_that_is_none_is_refused(tmp_path: Path, said: str) -> None:
    async with serving(Bench().agent(finish()), tmp_path / "runs.db") as client:
        run = await client.start()
        await client.until(run)
        answer = await client.get(f"/runs/{run}/events", headers={"Last-Event-ID": said})
        assert answer.status_code == 400
        assert answer.json()["code"] == "position"


async def test_a_waiting_run_keeps_its_stream_and_heartbeats(tmp_path: Path) -> None:
    bench = Bench()
    agent = bench.agent(act("write", "publish", text="x"), finish())
    settings = Settings(look_s=0.02, tail_s=0.01, ping_s=0.02)
    async with serving(agent, tmp_path / "runs.db", settings=settings) as client:
        run = await client.start()
        one = await client.pending(run)
        beats = 0
        async with client.http.stream("GET", f"/runs/{run}/events") as answer:
            async for line in answer.aiter_lines():
                beats += line.startswith(":")
                if beats == 3:
                    await client.post(f"/approvals/{one['id']}", {"decision": "approve"})
                if line == "event: done":
                    break
        assert beats >= 3
        assert bench.done == [("publish", "x")]


def talkative() -> Agent[Any, str]:
    """Says far more than fits into the buffers of a connection, then asks."""

    @tool(effect="read")
    def dump(at: int) -> str:
        """Say a lot."""
        return f"{at}:" + "x" * 15_000

    replies = [act(f"step {n}", "dump", at=n) for n in range(40)]
    return Bench().agent(*replies, act("w", "ask_user", question="?"), finish(), tools=[dump],
                         limits=Limits(steps=100), ask_user=True)  # fmt: skip


def signed(client: Client) -> str:
    """The header of a program that runs as this machine's user."""
    return f"Authorization: Bearer {client.server.local.value()}\r\n"


async def test_one_who_never_reads_is_dropped_and_does_not_hold_up_the_others(
    tmp_path: Path,
) -> None:
    agent = talkative()
    settings = Settings(look_s=0.02, tail_s=0.01, send_s=3)
    path = tmp_path / "runs.db"
    async with serving(agent, path, settings=settings, buffer_bytes=4096) as client:
        run = await client.start()
        reading = asyncio.create_task(client.events(run))
        await settled(lambda: client.server.streams == 1)
        with socket.create_connection(("127.0.0.1", client.port)) as idle:
            request = f"GET /runs/{run}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            idle.sendall(f"{request}{signed(client)}\r\n".encode())
            await settled(lambda: client.server.streams == 2)
            one = await client.pending(run)
            await settled(lambda: client.server.streams == 1)
            await client.post(f"/approvals/{one['id']}", {"decision": "answer", "answer": "go"})
            events = await reading
        assert events[-1].name == "done"
        assert len([one for one in events if one.name == "tool_result"]) == 41


async def test_that_a_client_of_ag_ui_never_reads_is_no_failure_of_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(look_s=0.02, tail_s=0.01, send_s=3)
    path = tmp_path / "runs.db"
    body = json.dumps({
        "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [],
        "forwardedProps": {}, "messages": [{"id": "1", "role": "user", "content": "go"}],
    }).encode()  # fmt: skip
    head = (
        f"POST /ag-ui HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
    )
    async with serving(talkative(), path, settings=settings, buffer_bytes=4096) as client:
        with socket.create_connection(("127.0.0.1", client.port)) as idle:
            idle.sendall(f"{head}{signed(client)}\r\n".encode() + body)
            await settled(lambda: client.server.streams == 1)
            await settled(lambda: client.server.streams == 0)
    assert [one.message for one in caplog.records if one.exc_info] == []


def arrived(reply: str, size: int = 7) -> str:
    """The answer that the pieces of a reply show."""
    partial = PartialAnswer(["look"])
    for at in range(0, len(reply), size):
        partial.feed(reply[at : at + size])
    return partial.text


def test_an_answer_is_shown_only_from_its_field() -> None:
    assert not arrived('{"thought": "answer", "action": {"tool": "look", "parameters": {"answer')
    assert arrived(finish("so it is")[:-9]).startswith("so it")
    whole = json.dumps({"actions": [{"tool": "finish", "parameters": {"answer": "yes"}}]})
    assert arrived(whole) == "yes"


class Prose:
    """A model with native calls: it looks once, and answers in prose that takes its time."""

    name = "native:model"
    profile = Profile(window=10**6, native_tools=True, streaming=True)

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        first = len(request.conversation) < 3
        text = "I look first." if first else "Forty-two, and no more."
        begin = text[:15]
        if on_text is not None:
            on_text(begin)
        if not first:
            await self.go.wait()
        if on_text is not None:
            on_text(text[15:])
        return Reply(text, (ToolCall("look", "{}", "c1"),) if first else ())

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        return None


async def test_prose_of_a_native_model_is_shown_as_it_comes(tmp_path: Path) -> None:
    """Mutants: only answers inside JSON are shown; words before a call stay the answer."""

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    model = Prose()
    async with serving(Agent(model, tools=[look]), tmp_path / "log.db") as client:
        run, events = await client.start(), list[Event]()
        watching = asyncio.create_task(client.events(run, into=events))
        async with asyncio.timeout(PATIENCE):
            # The model has not sent more yet. A possible secret is held back up to a blank.
            while not answer_of(events).startswith("Forty-two,"):  # noqa: ASYNC110 - no signal
                await asyncio.sleep(0.01)
        model.go.set()
        await watching
    assert answer_of(events) == "Forty-two, and no more."
    # The words before the call were an answer for a moment at most, and were taken back.
    first = [event.data["text"] for event in events if event.name == "answer_chunk"]
    assert not first[0].startswith("I look") or "" in first

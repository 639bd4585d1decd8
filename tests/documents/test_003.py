"""The feature file of react-loop, over HTTP: what `tests/features` does not show."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from taofold import Limits
from tests.server.agents import Bench, act, batch, finish
from tests.server.live import Client, serving


def played(folder: Path, *replies: Any, goals: int = 1) -> tuple[Bench, list[list[dict[str, Any]]]]:
    """Sends messages to a server with the limits of a chat. Returns the tools and the events."""
    bench = Bench()
    agent = bench.agent(*replies, limits=Limits.chat())

    async def play() -> list[list[dict[str, Any]]]:
        async with serving(agent, folder / "runs.db") as client:
            return [await one(client) for _ in range(goals)]

    async def one(client: Client) -> list[dict[str, Any]]:
        run = await client.start("What is the answer?", session="chat")
        await client.until(run, "finished", "limited", "failed", "waiting")
        return [event.data for event in await client.events(run)]

    return bench, asyncio.run(play())


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


@pytest.mark.document_item(
    "003.loop.max-iterations", "003.loop.max-iterations.error", "003.accept.bounds"
)
def test_a_loop_that_never_ends_is_ended_after_eight_iterations_with_an_error(
    tmp_path: Path,
) -> None:
    asked: list[int] = []

    def reply(_: Any) -> str:
        asked.append(1)
        name = "look" if len(asked) % 2 else "nothing"
        return act(f"try {len(asked)}", name, at=f"place {len(asked)}")

    bench, (events,) = played(tmp_path, reply)
    assert len(asked) == 8
    assert len(bench.done) <= 5
    (error,) = of(events, "error")
    assert error["code"] == "max_model_calls"
    assert [event["type"] for event in events][-2:] == ["error", "done"]


@pytest.mark.document_item("003.loop.max-tool-calls.answer", "003.loop.bounds")
def test_five_calls_and_an_answer_are_a_success(tmp_path: Path) -> None:
    calls = [act(f"look {n}", "look", at=f"{n}") for n in range(5)]
    bench, (events,) = played(tmp_path, *calls, finish())
    assert len(bench.done) == 5
    assert of(events, "error") == []
    assert len(of(events, "answer")) == 1


@pytest.mark.document_item("003.loop.max-tool-calls.request")
def test_the_next_request_has_five_calls_again(tmp_path: Path) -> None:
    asked: list[int] = []

    def reply(_: Any) -> str:
        asked.append(1)
        number = len(asked)
        return act(f"look {number}", "look", at=f"{number}") if number % 6 else finish()

    bench, all_events = played(tmp_path, reply, goals=2)
    assert len(bench.done) == 10
    assert [of(events, "error") for events in all_events] == [[], []]


@pytest.mark.document_item("003.tools.tier1", "003.tools.tier1.event")
def test_a_read_runs_unasked_without_the_event_and_a_write_with_it(tmp_path: Path) -> None:
    bench, (events,) = played(
        tmp_path, act("look", "look"), act("label it", "label", name="a"), finish()
    )
    assert [name for name, _ in bench.done] == ["look", "label"]
    assert [one["tool"] for one in of(events, "autonomous_action")] == ["label"]
    assert of(events, "confirmation_request") == []


@pytest.mark.document_item("003.stream.answer_chunk", "003.stream.answer")
def test_the_answer_comes_in_chunks_that_add_up_to_it(tmp_path: Path) -> None:
    _, (events,) = played(tmp_path, "It is forty-two, as everybody knows.")
    (answer,) = of(events, "answer")
    chunks = of(events, "answer_chunk")
    assert chunks
    assert "".join(chunk["text"] for chunk in chunks) == answer["text"]


@pytest.mark.document_item("003.loop.max-tool-calls.batch", "003.accept.bounds")
def test_of_a_batch_beyond_the_bound_only_the_permitted_calls_run(tmp_path: Path) -> None:
    def six(_: Any) -> str:
        return batch("all", *[("look", {"at": f"{n}"}) for n in range(6)])

    bench, _ = played(tmp_path, six, finish(), finish())
    assert len(bench.done) == 5

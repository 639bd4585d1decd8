"""Failures and changes during a run: each format against its strict fake."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from taofold import Agent, Image, Limits
from taofold.core import events as e
from taofold.core.content import OpaquePart, Part, ToolCall
from taofold.core.values import Reply
from taofold.runtime.model import Model, OnText, Request
from tests.killed import killed
from tests.models.providers.test_agents import (
    CASES,
    TURNS,
    Case,
    Dies,
    Fakes,
    add,
    agent,
    each,
    extends,
    one_each,
)
from tests.pictures import PICTURE

pytestmark = pytest.mark.anyio

OPENAI, CLAUDE, GEMINI, DEEPSEEK, ROUTER, OLLAMA = (CASES[at] for at in (1, 3, 8, 11, 14, 17))
OVERFLOWS = {
    "responses": {"status": 400, "message": "Your input exceeds the context window of this model."},
    "chat": {"status": 400, "message": "This model's maximum context length is 8192 tokens."},
    "messages": {"status": 400, "message": "prompt is too long: 210000 tokens > 200000 maximum"},
    "gemini": {
        "status": 400,
        "message": "The input token count (1048600) exceeds the maximum "
        "number of tokens allowed (1048576).",
    },
    "ollama": {
        "status": 400,
        "message": "the prompt is longer than the context length currently available to the model",
    },
}


class Sum(BaseModel):
    """Output type of the runs."""

    total: int
    why: str


class Wrapped:
    """A model whose requests and replies a test may look at."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        return await self.model.complete(request, on_text)


@each
async def test_an_output_has_its_type(case: Case, fakes: Fakes) -> None:
    model, server = case.connect(fakes)
    server.load([*TURNS[:2], {"think": "Done.", "json": {"total": 10, "why": "sums"}}])
    result = await agent(model, output=Sum).run("Add them up.")
    assert not server.refused(), server.refused()
    assert (result.success, result.output) == (True, Sum(total=10, why="sums"))
    bodies = [one["body"] for one in server.seen()]
    assert len(bodies) == 3
    assert all(extends(a, b) for a, b in pairwise(bodies))


def many(count: int) -> list[dict[str, Any]]:
    """Turns that call `add` once each."""
    return [
        {"think": f"Number {n}.", "call": [{"name": "add", "args": {"a": n, "b": n}}]}
        for n in range(count)
    ]


def patient(model: Model, log: str) -> Agent[Any, Any]:
    return Agent(model, tools=[add], limits=Limits(steps=12), log=log)


@one_each
async def test_what_does_not_fit_is_shortened_and_goes_on(
    case: Case, fakes: Fakes, tmp_path: Path
) -> None:
    model, server = case.connect(fakes)
    goal = ["Look and add.", Image(data=PICTURE)]
    server.load([*many(6), OVERFLOWS[case.kind], *many(2), {"think": "Done.", "say": "It is 2."}])
    doing = patient(model, str(tmp_path / "log.db"))
    result = await doing.run(goal, run_id="r")
    assert (result.success, result.output) == (True, "It is 2."), result.error
    seen = server.seen()
    refused = [place for place, one in enumerate(seen) if one["status"] == 400]
    assert refused == [6], "one request was too long, and none was refused for another reason"
    assert len(json.dumps(seen[7]["body"])) < len(json.dumps(seen[6]["body"]))
    assert all(extends(a["body"], b["body"]) for a, b in pairwise(seen[7:]))
    assert (await doing.replay("r")).success


@one_each
async def test_killed_right_after_it_was_shortened(
    case: Case, fakes: Fakes, tmp_path: Path
) -> None:
    model, server = case.connect(fakes)
    server.load([*many(6), OVERFLOWS[case.kind], *many(2), {"think": "Done.", "say": "It is 2."}])
    log = str(tmp_path / "log.db")
    with killed():
        await patient(Dies(model, 8), log).run("Add.", run_id="r")
    doing = patient(case.connect(fakes)[0], log)
    result = await doing.resume("r")
    assert (result.success, result.output) == (True, "It is 2."), result.error
    seen = server.seen()
    assert [one["status"] for one in seen].count(400) == 1
    assert all(extends(a["body"], b["body"]) for a, b in pairwise(seen[7:]))


@pytest.mark.parametrize(
    ("first", "second"),
    [(a, b) for a in (OPENAI, CLAUDE, GEMINI, DEEPSEEK)
     for b in (OPENAI, CLAUDE, GEMINI, ROUTER, OLLAMA)
     if a.kind != b.kind],
    ids=str,
)  # fmt: skip
async def test_another_vendor_takes_over_and_hands_back(
    first: Case, second: Case, fakes: Fakes
) -> None:
    (one, here), (two, there) = first.connect(fakes), second.connect(fakes)
    here.load([TURNS[0], {"status": 401}, TURNS[3]])
    there.load([TURNS[1], TURNS[2], {"status": 401}])
    doing = Agent([one, two], tools=[add], limits=Limits(steps=8))
    goal = ["Add them up.", Image(data=PICTURE)]
    result = await doing.run(goal)
    assert (result.success, result.output) == (True, "It is 10."), result.error
    assert [one["status"] for one in here.seen()] == [200, 401, 200]
    assert [one["status"] for one in there.seen()] == [200, 200, 401]
    ours = [json.dumps(one["body"]) for one in here.seen()]
    theirs = json.dumps(there.seen()[0]["body"])
    assert "Two sums at once." not in theirs, "thinking of another's was sent"
    assert "Now both together." not in ours[-1]
    for text in (ours[-1], theirs):
        assert "Add them up." in text


def altered(part: Part) -> Part:
    """The part as another account's, or one that was damaged."""
    mark = '"encrypted_content":"', '"signature":"', '"thoughtSignature":"'
    match part:
        case OpaquePart(data=data):
            for begin in mark:
                data = data.replace(begin, begin + "Zm9yZWln", 1)
            return OpaquePart(data, part.kind)
        case ToolCall(opaque=opaque) if opaque:
            for begin in mark:
                opaque = opaque.replace(begin, begin + "Zm9yZWln", 1)
            return ToolCall(part.name, part.arguments, part.id, opaque)
        case _:
            return part


class Foreign(Wrapped):
    """The first reply has another issuer's signature."""

    first = True

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        reply = await self.model.complete(request, on_text)
        if not self.first:
            return reply
        self.first = False
        return replace_parts(reply, [altered(part) for part in reply.parts])


def replace_parts(reply: Reply, parts: list[Part]) -> Reply:
    return Reply(
        usage=reply.usage,
        model=reply.model,
        finish=reply.finish,
        parts=tuple(parts),
        issuer=reply.issuer,
        notes=reply.notes,
    )


@pytest.mark.parametrize("case", [OPENAI, CLAUDE, GEMINI], ids=str)
async def test_a_signature_of_another_account_is_dropped_once_and_recorded(
    case: Case, fakes: Fakes, tmp_path: Path
) -> None:
    model, server = case.connect(fakes)
    server.load(TURNS)
    doing = agent(Foreign(model), log=str(tmp_path / "log.db"))
    result = await doing.run("Add them up.", run_id="r")
    assert (result.success, result.output) == (True, "It is 10."), result.error
    statuses = [one["status"] for one in server.seen()]
    assert statuses == [200, 400, 200, 200, 200]
    events = [record.event for record in result.records]
    cuts = [event for event in events if isinstance(event, e.Cut)]
    assert [cut.reason for cut in cuts] == ["refused"]
    assert (await doing.replay("r")).success

"""Whole runs in each format from their recordings: what goes back is what was recorded."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from taofold.models.encoding import encode
from taofold.testing.cassette import Cassette
from tests.killed import kill, killed
from tests.models.forms import FORMS, Form, agent
from tests.pictures import PDF, PICTURE

pytestmark = pytest.mark.anyio

each = pytest.mark.parametrize("form", FORMS, ids=str)
ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
GROWS = ("input", "messages", "contents")


def entries(body: Any) -> list[Any]:
    """Returns the part that grows from request to request."""
    found: list[Any] = next(body[name] for name in GROWS if name in body)
    return found


def head(body: Any) -> Any:
    return {name: value for name, value in body.items() if name not in GROWS}


def added(bodies: list[Any]) -> list[str]:
    """Returns the text that each request adds to the one before.

    Key order matters, because providers bind their reasoning to bytes.
    """
    for shorter, longer in pairwise(bodies):
        assert json.dumps(head(shorter)) == json.dumps(head(longer))
        old, new = entries(shorter), entries(longer)
        assert json.dumps(new[: len(old)]) == json.dumps(old)
    return [json.dumps(entries(b)[len(entries(a)) :]) for a, b in pairwise(bodies)]


async def run(form: Form, *, streamed: bool, **more: Any) -> tuple[Any, list[Any]]:
    model, cassette = form.played(streamed=streamed)
    doing = agent(model, **more)
    if not streamed:
        result = await doing.run(form.goal, run_id="recorded")
    else:
        stream = doing.stream(form.goal, run_id="recorded")
        async for _ in stream:
            pass
        result = stream.result
    cassette.assert_complete()
    return result, cassette.requests


@pytest.fixture(autouse=True)
def prompts_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording is asked for what comes back, not for the words of this release's prompt."""
    monkeypatch.setattr("taofold.testing.cassette._difference", lambda *_: "")


@each
@ways
async def test_every_request_adds_what_was_recorded(form: Form, streamed: bool) -> None:
    result, requests = await run(form, streamed=streamed)
    assert (result.success, result.output) == (True, "It is 10."), result.error
    assert added(requests) == added(
        [x["request"]["body"] for x in form.recorded(streamed=streamed)]
    )
    first = json.dumps(requests[0])
    for media in (PICTURE, PDF):
        shown = encode(media).decode().strip('"')
        assert (shown in first) == form.sees


OWN = {
    "responses": '"encrypted_content": "',
    "messages": '"signature": "',
    "gemini": '"thoughtSignature": "',
    "deepseek": '"reasoning_content": "',
    "openrouter": '"reasoning_details": ',
    "vllm": '"reasoning": "',
}


@each
def test_the_recordings_hold_what_a_provider_wants_back(form: Form) -> None:
    last = json.dumps(form.recorded(streamed=True)[-1]["request"]["body"])
    assert last.count(OWN[form.name]) == 2, "once for each reply before it"


@each
async def test_whole_and_streamed_are_the_same_run(form: Form) -> None:
    (one, _), (other, _) = [await run(form, streamed=way) for way in (False, True)]
    told = [[step.thought.content for step in result.steps] for result in (one, other)]
    assert told[0] == told[1]
    assert one.usage.cached_tokens == other.usage.cached_tokens == 100
    assert one.usage.reasoning_tokens == other.usage.reasoning_tokens > 0


class Dying(Cassette):
    """A provider that is asked by a process that is killed when the recording is over."""

    async def post(self, *args: Any, **more: Any) -> Any:
        if not self._left:
            await kill()
        return await super().post(*args, **more)


@each
@pytest.mark.parametrize("calls", [1, 2])
async def test_a_later_life_adds_what_was_recorded_too(
    form: Form, calls: int, tmp_path: Path
) -> None:
    """The log alone holds all that is needed: another process, another model object."""
    log, exchanges = str(tmp_path / "log.db"), form.recorded(streamed=False)
    first, second = Dying(exchanges[:calls]), Cassette(exchanges[calls:])
    with killed():
        await agent(form.connect(first), log=log).run(form.goal, run_id="recorded")
    result = await agent(form.connect(second), log=log).resume("recorded")
    assert (result.success, result.output) == (True, "It is 10."), result.error
    wanted = added([one["request"]["body"] for one in exchanges])
    assert added([*first.requests, *second.requests]) == wanted

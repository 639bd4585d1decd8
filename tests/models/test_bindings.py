"""Data bound to one account is never sent to another; it is dropped once, on record.

No fake provider is needed: replies are recorded, refusals have the providers' own text.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Image, Limits, tool
from taofold.core import events as e
from taofold.core.content import MediaPart, Message, ToolResult
from taofold.log.sqlite.log import SqliteLog
from taofold.models.prices import find
from taofold.policy.redaction import MARK, Redactor
from taofold.runtime.redaction import RedactionPass, unsaid
from taofold.testing.cassette import Cassette
from tests.killed import kill, killed
from tests.models.forms import FORMS, Form, add
from tests.pictures import PICTURE

pytestmark = pytest.mark.anyio

BOUND = [form for form in FORMS if form.name in ("responses", "messages", "gemini")]
each = pytest.mark.parametrize("form", BOUND, ids=str)
MARKS = {
    "responses": "encrypted_content\": \"",
    "messages": '"signature": "',
    "gemini": '"thoughtSignature": "',
}  # fmt: skip
SKIPPED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""Google's documented value for an unsigned call, in base64."""
WORDS = {
    "responses": {
        "message": "The encrypted content gAAA…xQ== could not be verified.",
        "code": "invalid_encrypted_content",
    },
    "messages": {"message": "messages.1.content.0: Invalid `signature` in `thinking` block"},
    "gemini": {"message": "Function call is missing a thought_signature in functionCall parts."},
}


def refusal(form: Form) -> dict[str, Any]:
    return {"response": {"status": 400, "json": {"error": WORDS[form.name]}}}


def opaque(body: Any, form: Form) -> int:
    """Counts the provider's own items in the request."""
    return json.dumps(body).replace(SKIPPED, "").count(MARKS[form.name]) - json.dumps(body).count(
        f'"thoughtSignature": "{SKIPPED}'
    )


def doing(form: Form, transport: Any, url: str = "http://provider", **more: Any) -> Agent[Any, Any]:
    model = form.connect(transport, url)
    return Agent(model, tools=[add], limits=Limits(steps=8), **more)


@pytest.fixture(autouse=True)
def prompts_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taofold.testing.cassette._difference", lambda *_: "")


@each
async def test_what_is_refused_is_given_up_once_and_on_record(form: Form, tmp_path: Path) -> None:
    log, exchanges = str(tmp_path / "log.db"), form.recorded(streamed=False)
    provider = Cassette([exchanges[0], refusal(form), *exchanges[1:]])
    agent = doing(form, provider, log=log)
    result = await agent.run(form.goal, run_id="r")
    assert (result.success, result.output) == (True, "It is 10."), result.error
    provider.assert_complete()
    found = [opaque(body, form) for body in provider.requests]
    assert found[1] > 0, "it was not what the provider would not have back"
    assert found[2] == 0, "asked again with what was refused"
    text = json.dumps(provider.requests[2])
    assert text.count("call_a") == text.count("call_b") == 2 or form.name == "gemini"
    cuts = [one.event for one in result.records if isinstance(one.event, e.Cut)]
    assert [cut.reason for cut in cuts] == ["refused"]
    assert WORDS[form.name]["message"][:20] in cuts[0].detail
    assert (await agent.replay("r")).success


@each
async def test_what_is_refused_again_ends_the_run(form: Form) -> None:
    provider = Cassette([form.recorded(streamed=False)[0], refusal(form), refusal(form)])
    result = await doing(form, provider).run(form.goal)
    assert not result.success
    assert "does not accept its own earlier reasoning back" in result.error
    assert len(provider.requests) == 3, "once more, and never twice"


@each
async def test_where_nothing_is_bound_nothing_is_given_up(form: Form) -> None:
    provider = Cassette([refusal(form)])
    result = await doing(form, provider).run(form.goal)
    assert not result.success
    assert len(provider.requests) == 1
    assert not [one for one in result.records if isinstance(one.event, e.Cut)]


class Dying(Cassette):
    """A provider that is asked by a process that is killed when the recording is over."""

    async def post(self, *args: Any, **more: Any) -> Any:
        if not self._left:
            await kill()
        return await super().post(*args, **more)


@each
async def test_a_life_that_is_killed_at_the_second_try_is_not_asked_to_forget_it(
    form: Form, tmp_path: Path
) -> None:
    log, exchanges = str(tmp_path / "log.db"), form.recorded(streamed=False)
    with killed():
        await doing(form, Dying([exchanges[0], refusal(form)]), log=log).run(form.goal, run_id="r")
    provider = Cassette(exchanges[1:])
    result = await doing(form, provider, log=log).resume("r")
    assert (result.success, result.output) == (True, "It is 10."), result.error
    assert opaque(provider.requests[0], form) == 0


class Reading(Cassette):
    """A provider that looks, at each request, at what a killed process would have left."""

    def __init__(self, exchanges: list[dict[str, Any]], log: str) -> None:
        super().__init__(exchanges)
        self._log = log
        self.cuts: list[int] = []

    async def post(self, *args: Any, **more: Any) -> Any:
        opened = SqliteLog(self._log)
        try:
            records = await opened.read("r")
        finally:
            await opened.close()
        self.cuts.append(sum([isinstance(record.event, e.Cut) for record in records]))
        return await super().post(*args, **more)


@each
async def test_a_cut_is_in_the_log_before_it_is_asked_again(form: Form, tmp_path: Path) -> None:
    log, exchanges = str(tmp_path / "log.db"), form.recorded(streamed=False)
    provider = Reading([exchanges[0], refusal(form), *exchanges[1:]], log)
    result = await doing(form, provider, log=log).run(form.goal, run_id="r")
    assert result.success, result.error
    assert provider.cuts == [0, 0, 1, 1]


@each
@pytest.mark.parametrize("moved", [False, True], ids=["the same host", "another host"])
async def test_another_host_is_sent_nothing_that_was_signed_here(
    form: Form, moved: bool, tmp_path: Path
) -> None:
    log, exchanges = str(tmp_path / "log.db"), form.recorded(streamed=False)
    with killed():
        await doing(form, Dying(exchanges[:1]), log=log).run(form.goal, run_id="r")
    provider = Cassette(exchanges[1:])
    url = "http://elsewhere" if moved else "http://provider"
    result = await doing(form, provider, url, log=log).resume("r")
    assert (result.success, result.output) == (True, "It is 10."), result.error
    assert (opaque(provider.requests[0], form) == 0) is moved
    assert "Two sums at once." not in json.dumps(provider.requests[0]) or not moved


@each
async def test_behind_a_cut_the_requests_are_one_prefix_again(form: Form) -> None:
    """The bytes before a cut change once, at the cut, and never again."""
    exchanges = form.recorded(streamed=False)
    again = [exchanges[1], exchanges[1], exchanges[1], exchanges[2]]
    provider = Cassette([exchanges[0], refusal(form), *again])
    result = await doing(form, provider).run(form.goal)
    assert result.success, result.error
    behind = [_entries(body) for body in provider.requests[2:]]
    for shorter, longer in pairwise(behind):
        assert json.dumps(longer[: len(shorter)]) == json.dumps(shorter)
    assert [opaque(body, form) > 0 for body in provider.requests[2:]] == [False, True, True, True]


def _entries(body: Any) -> list[Any]:
    return next(list(body[name]) for name in ("input", "messages", "contents") if name in body)


SECRET = "correct horse battery"


async def test_the_name_and_address_of_a_medium_are_searched_for_secrets() -> None:
    named = MediaPart(
        "image", "image/png", name=f"{SECRET}.png", url=f"https://x/?key={SECRET}"
    )  # fmt: skip
    content = (named, ToolResult("c", (named,)))
    clean = unsaid(RedactionPass(Redactor([SECRET])), Message("user", content))
    assert SECRET not in repr(clean)
    assert repr(clean).count(MARK) == 4


async def test_a_secret_in_a_shown_file_s_name_is_not_in_the_log(tmp_path: Path) -> None:
    @tool(effect="read")
    def look() -> Any:
        """Look."""
        return ["seen", Image(data=PICTURE, name=f"{SECRET}.png")]

    form = FORMS[0]
    exchanges = form.recorded(streamed=False)
    call = json.dumps(exchanges[1]).replace('"add"', '"look"')
    for arguments in ('{\\\\\\"a\\\\\\": 3, \\\\\\"b\\\\\\": 7}', '{\\"a\\": 3, \\"b\\": 7}'):
        call = call.replace(arguments, "{}")
    provider = Cassette([json.loads(call), exchanges[2]])
    agent = Agent(form.connect(provider), tools=[look], secrets=[SECRET])
    result = await agent.run("Look.")
    assert any(isinstance(one.event, e.Observed) for one in result.records)
    assert SECRET not in repr(result.records)
    assert SECRET not in json.dumps(provider.requests)


@pytest.mark.parametrize(("tier", "asked"), [("", True), ("priority", False), ("flex", True)])
async def test_a_budget_is_that_of_the_service_tier(tier: str, asked: bool) -> None:
    """Priority costs twice as much: what pays one usual call does not pay it."""
    form = FORMS[0]
    entry = find("openai", "gpt-6.1-sol")
    assert entry is not None
    assert entry.price is not None
    provider = Cassette(form.recorded(streamed=False)[2:])
    model = form.connect(provider)
    usual = model.price(2_000, 16_384) or 0.0
    agent = Agent(model, service_tier=tier, limits=Limits(usd=1.5 * usual))
    result = await agent.run("Say it.")
    assert bool(provider.requests) is asked
    assert result.success is asked, result.error
    if not asked:
        assert result.stop_reason == "max_usd"
    elif tier:
        assert provider.requests[0]["service_tier"] == tier


async def test_the_tier_that_served_is_the_one_that_is_paid() -> None:
    form = FORMS[0]
    costs = {}
    for served in ("default", "priority"):
        exchange = form.recorded(streamed=False)[2]
        exchange["response"]["json"]["service_tier"] = served
        exchange["response"]["json"]["usage"] |= {"input_tokens": 1_000, "output_tokens": 1_000}
        exchange["response"]["json"]["usage"]["input_tokens_details"] = {"cached_tokens": 0}
        provider = Cassette([exchange])
        costs[served] = (await doing(form, provider).run("Say it.")).usage.usd
    assert costs["priority"] == pytest.approx(2 * costs["default"])
    assert costs["default"] > 0

"""Whole runs against a genuine llama.cpp server: native tools, ReAct text, random weights."""

from collections.abc import AsyncIterator

import pytest

from taofold import Agent, Limits, tool
from taofold.core import events as e
from taofold.core.values import THOUGHT_TYPES, Profile
from taofold.models.transport import aclose_all
from taofold.runtime.providers import resolve
from tests.llama import KEY, serving
from tests.prerequisites import LLAMA

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real_server,
    pytest.mark.allow_model_requests,
    LLAMA.mark,
]
CALLS: list[tuple[int, int]] = []


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    CALLS.append((a, b))
    return a + b


@pytest.fixture(autouse=True)
async def clean() -> AsyncIterator[None]:
    CALLS.clear()
    yield
    await aclose_all()


def agent(url: str, name: str, profile: Profile, **options: object) -> Agent:
    model = resolve(f"openai-compatible:{name}", base_url=url, api_key=KEY, profile=profile)
    return Agent(model, tools=[add], **options)  # type: ignore[arg-type]


async def test_a_model_with_native_tools_calls_the_tool_and_answers() -> None:
    profile = Profile(window=4096, window_known=True, native_tools=True)
    with serving("tools") as url:
        result = await agent(url, "tools", profile).run("What is 2 + 3?")
    assert CALLS == [(2, 3)]
    assert (result.output, result.success, result.stop_reason) == (
        "The sum is 5.",
        True,
        "no_tool_call",
    )
    assert result.usage.output_tokens > 0


async def test_a_streamed_run_has_the_same_events_as_one_that_is_not() -> None:
    profile = Profile(window=4096, window_known=True, native_tools=True)
    with serving("tools") as url:
        plain = await agent(url, "tools", profile).run("What is 2 + 3?")
        stream = agent(url, "tools", profile).stream("What is 2 + 3?")
        text = "".join([h.text async for h in stream if not hasattr(h, "seq")])
    assert text.endswith("The sum is 5.")
    kinds = [[type(r.event) for r in records] for records in (plain.records, stream.result.records)]
    assert kinds[0] == kinds[1]
    assert stream.result.output == plain.output


@pytest.mark.scenario("TEA-05", "TEA-08")
async def test_a_model_that_writes_react_text_calls_the_tool_and_answers() -> None:
    with serving("react") as url:
        result = await agent(url, "react", Profile(window=4096, window_known=True)).run("2 + 3?")
    assert CALLS == [(2, 3)]
    assert (result.output, result.success) == ("5", True)


async def test_random_weights_under_the_protocols_schema_give_turns_that_can_be_read() -> None:
    profile = Profile(window=4096, window_known=True, json_schema=True)
    with serving("random") as url:
        limits = Limits(steps=3)
        one = agent(url, "random", profile, limits=limits, output=bool, max_tokens=1800)
        result = await one.run("Say anything.")
    proposed = [r.event for r in result.records if isinstance(r.event, e.Proposed)]
    assert proposed
    assert all(p.thought.type in THOUGHT_TYPES for p in proposed)
    assert {a.tool for p in proposed for a in p.actions} <= {"add", "finish"}


@pytest.mark.scenario("TAG-10", "RCT-24")
async def test_random_weights_without_a_schema_end_in_a_typed_error_not_an_exception() -> None:
    with serving("random") as url:
        one = agent(
            url, "random", Profile(window=4096, window_known=True), output=int, max_tokens=60
        )
        result = await one.run("How many?")
    assert (result.success, result.stop_reason, result.output_or_none) == (False, "error", None)
    assert "3 attempts" in result.error
    assert CALLS == []

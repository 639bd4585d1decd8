"""A whole agent through each format: what real providers refuse, these refuse."""

import base64
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Limits, tool
from taofold.models.endpoint import RetryPolicy
from taofold.runtime.model import Model, OnText, Request
from taofold.runtime.providers import resolve
from tests.killed import kill, killed
from tests.models.providers.servers import Server

pytestmark = pytest.mark.anyio

Fakes = Callable[[str], Server]
QUICK = RetryPolicy(first=0.01, longest=0.05)


@dataclass(frozen=True)
class Case:
    """A model and the fake that plays its provider."""

    model: str
    kind: str
    path: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.model

    def connect(self, fakes: Fakes, **more: Any) -> tuple[Model, Server]:
        server = fakes(self.kind)
        options = {"api_key": "k", "retry": QUICK, **dict(self.options), **more}
        return resolve(self.model, base_url=server.url + self.path, **options), server


CASES = [
    Case("openai:gpt-5.6-terra", "responses", "/v1"),
    Case("openai:gpt-6.1-sol", "responses", "/v1"),
    Case("openai:gpt-7-unheard-of", "responses", "/v1"),
    Case("anthropic:claude-opus-5-5", "messages"),
    Case("anthropic:claude-sonnet-5-5", "messages", options=(("effort", "low"),)),
    Case("anthropic:claude-opus-4-8", "messages", options=(("effort", "high"),)),
    Case("anthropic:claude-sonnet-4-5", "messages", options=(("effort", "low"),)),
    Case("anthropic:claude-epic-9", "messages"),
    Case("gemini:gemini-3.7-flash", "gemini"),
    Case("gemini:gemini-2.5-flash", "gemini"),
    Case("gemini:gemini-9-unheard-of", "gemini", options=(("effort", "minimal"),)),
    Case("deepseek:deepseek-v4", "chat", "/deepseek-reasoning"),
    Case("gemini-compatible:gemini-3.7-flash", "chat", "/gemini-signature"),
    Case("vllm:qwen3-32b", "chat", "/vllm"),
    Case("openrouter:anthropic/claude-opus-5.5", "chat", "/openrouter"),
    Case("openai-chat:gpt-4.1", "chat", "/plain"),
    Case("openai-chat:gpt-5.6-terra", "chat", "/gpt56-tools-refused",
         options=(("effort", "none"),)),
    Case("ollama:qwen3:8b", "ollama"),
    Case("ollama:llama3.1:8b", "ollama"),
]  # fmt: skip
each = pytest.mark.parametrize("case", CASES, ids=str)
SIX = [CASES[1], CASES[3], CASES[8], CASES[11], CASES[14], CASES[17]]
one_each = pytest.mark.parametrize("case", SIX, ids=str)

TURNS: list[dict[str, Any]] = [
    {"think": "Two sums at once.", "call": [
        {"name": "add", "args": {"a": 1, "b": 2}}, {"name": "add", "args": {"a": 3, "b": 4}},
    ]},
    {"think": "Now both together.", "say": "I add the sums.", "call": [
        {"name": "add", "args": {"a": 3, "b": 7}},
    ]},
    {"think": "Once more.", "call": [{"name": "add", "args": {"a": 10, "b": 0}}]},
    {"think": "Done.", "say": "It is 10."},
]  # fmt: skip

HALF = "This reply is never told to its end. " * 9


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(model: Model, **more: Any) -> Agent[Any, Any]:
    return Agent(model, tools=[add], limits=Limits(steps=8), **more)


def extends(shorter: Any, longer: Any) -> bool:
    """Returns whether `longer` starts with all of `shorter`."""
    grows = {"input", "messages", "contents"}
    if {k: v for k, v in shorter.items() if k not in grows} != {
        k: v for k, v in longer.items() if k not in grows
    }:
        return False
    (name,) = grows & set(shorter)
    return bool(longer[name][: len(shorter[name])] == shorter[name])


@each
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_three_turns_of_tools_with_thinking(case: Case, streamed: bool, fakes: Fakes) -> None:
    model, server = case.connect(fakes)
    server.load(TURNS)
    if streamed:
        stream = agent(model).stream("Add them up.")
        async for _ in stream:
            pass
        result = stream.result
    else:
        result = await agent(model).run("Add them up.")
    assert not server.refused()
    assert (result.success, result.output) == (True, "It is 10.")
    found = [[o.result for o in step.observations] for step in result.steps]
    assert found[:3] == [[3, 7], [10], [10]]
    bodies = [one["body"] for one in server.seen()]
    assert len(bodies) == len(TURNS)
    assert all(extends(a, b) for a, b in pairwise(bodies))


SENT_BACK = {
    "openai": '"encrypted_content"',
    "anthropic": '"type": "thinking"',
    "gemini": '"thoughtSignature"',
    "deepseek": '"reasoning_content": "',
    "openrouter": '"type": "reasoning.encrypted"',
    "ollama": '"thinking": "',
}


@one_each
async def test_what_a_model_thought_goes_back_to_it(case: Case, fakes: Fakes) -> None:
    model, server = case.connect(fakes)
    server.load(TURNS)
    assert (await agent(model).run("Add them up.")).success
    last = json.dumps(server.seen()[-1]["body"])
    mark = SENT_BACK[case.model.partition(":")[0]]
    assert last.count(mark) == 3, last
    assert base64.b64encode(b"skip_thought").decode()[:12] not in last


class Dies:
    """A model whose process ends before the call number `at` is made."""

    def __init__(self, model: Model, at: int) -> None:
        self._model, self._left = model, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Any:
        if self._left == 0:
            await kill()
        self._left -= 1
        return await self._model.complete(request, on_text)


@one_each
async def test_killed_and_resumed_between_any_two_turns(
    case: Case, fakes: Fakes, tmp_path: Path
) -> None:
    model, server = case.connect(fakes)
    server.load(TURNS)
    log, result = str(tmp_path / "log.db"), None
    for life in range(len(TURNS)):
        doing = agent(Dies(case.connect(fakes)[0], 1), log=log)
        last = life == len(TURNS) - 1
        with nullcontext() if last else killed():
            if life == 0:
                result = await doing.run("Add them up.", run_id="r")
            else:
                result = await doing.resume("r")
    assert not server.refused()
    assert result is not None
    assert (result.success, result.output) == (True, "It is 10.")
    bodies = [one["body"] for one in server.seen()]
    assert len(bodies) == len(TURNS)
    assert all(extends(a, b) for a, b in pairwise(bodies))
    assert (await agent(model, log=log).replay("r")).success


@pytest.mark.parametrize("case", [CASES[1], CASES[3], CASES[8]], ids=str)
async def test_a_provider_that_was_restarted_still_knows_what_it_signed(
    case: Case, fakes: Fakes, tmp_path: Path
) -> None:
    model, server = case.connect(fakes)
    server.load(TURNS[:2])
    log = str(tmp_path / "log.db")
    with killed():
        await agent(Dies(model, 2), log=log).run("Add them up.", run_id="r")
    server.stop()
    server.start()
    server.load(TURNS[2:])
    result = await agent(case.connect(fakes)[0], log=log).resume("r")
    assert not server.refused()
    assert result.success


@one_each
@pytest.mark.parametrize(
    "trouble",
    [
        {"status": 429, "retry_after": 0},
        {"status": 529},
        {"status": 503},
        {"cut": 3, "think": "Hm.", "say": HALF},
        {"cut": 12, "think": "Hm.", "say": HALF},
    ],
    ids=["429", "529", "503", "cut early", "cut late"],
)
async def test_trouble_is_survived(case: Case, trouble: dict[str, Any], fakes: Fakes) -> None:
    model, server = case.connect(fakes)
    server.load([TURNS[0], trouble, *TURNS[1:]])
    stream = agent(model).stream("Add them up.")
    async for _ in stream:
        pass
    assert not server.refused()
    assert (stream.result.success, stream.result.output) == (True, "It is 10.")


@one_each
async def test_a_refusal_ends_the_run_and_says_why(case: Case, fakes: Fakes) -> None:
    if case.kind == "ollama":
        pytest.skip("it has no word for a refusal")
    model, server = case.connect(fakes)
    server.load([TURNS[0], {"refuse": "I will not."}])
    result = await agent(model).run("Add them up.")
    assert not server.refused()
    assert not result.success
    assert "refuse" in result.error or "filter" in result.error, result.error

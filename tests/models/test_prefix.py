"""In a long run, every request extends the previous one, so caches hit; media are stored once."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Image, Limits
from taofold.core.events import Replied
from taofold.models.transport import Body, Bounds, HttpResponse, OnBytes, whole
from tests.killed import kill, killed
from tests.models.forms import FORMS, Form, add
from tests.pictures import PICTURE

pytestmark = pytest.mark.anyio

each = pytest.mark.parametrize("form", FORMS, ids=str)
CLOSING = 8
"""Bytes at a request's end that close what stays open in it: `]}]}`."""
INSTRUCTIONS = "\n".join(f"Rule {n}: keep to what you were told, and say why." for n in range(80))


class Endless:
    """A provider that wants one more sum `turns` times, as it was recorded, and is done."""

    def __init__(self, form: Form, turns: int) -> None:
        _, call, end = [one["response"]["json"] for one in form.recorded(streamed=False)]
        self._call, self._end = json.dumps(call), json.dumps(end)
        self._turns = turns
        self.bodies: list[bytes] = []
        self.large: list[int] = []
        """The objects that hold the media of each request."""
        self.keep = True

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        if self.keep:
            self.bodies.append(whole(body))
        if not isinstance(body, bytes):
            self.large += [id(piece) for piece in body if len(piece) > 1e6]
        self._turns -= 1
        if self._turns < 0:
            return HttpResponse(200, {}, self._end.encode())
        said = self._call.replace("call_c", f"call_{self._turns}")
        return HttpResponse(
            200, {}, re.sub(r'(\\?"b\\?": )7', rf"\g<1>{self._turns}", said).encode()
        )


def common(a: bytes, b: bytes) -> int:
    """Returns the length of the common prefix in bytes."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


async def fifty(form: Form) -> list[bytes]:
    provider = Endless(form, 50)
    doing = Agent(
        form.connect(provider), tools=[add], limits=Limits(steps=60), instructions=INSTRUCTIONS
    )
    result = await doing.run(form.goal, run_id="long")
    assert (result.success, result.output) == (True, "It is 10."), result.error
    assert len(provider.bodies) == 51
    return provider.bodies


@each
async def test_over_fifty_turns_each_request_begins_with_the_one_before(form: Form) -> None:
    bodies = await fifty(form)
    shared = [common(a, b) for a, b in pairwise(bodies)]
    lacking = [len(a) - n for a, n in zip(bodies, shared, strict=False)]
    assert max(lacking) <= CLOSING, "a request did not begin with the one before it"
    # A prefix cache can serve all but the additions of the last turn.
    share = sum(shared[2:]) / sum(map(len, bodies[3:]))
    assert share >= 0.95, f"{share:.1%} of the bytes after turn 2 could be cached"


@each
async def test_an_image_is_never_copied(form: Form) -> None:
    if not form.sees:
        pytest.skip("this model is shown no images")
    provider = Endless(form, 100)
    provider.keep = False
    # A whole picture with 5 MB behind its end, which decoders ignore.
    large = PICTURE + bytes(5 << 20)
    doing = Agent(form.connect(provider), tools=[add], limits=Limits(steps=110))
    result = await doing.run(["Add.", Image(data=large)], run_id="long")
    assert result.success, result.error
    assert len(provider.large) == 101
    assert len(set(provider.large)) == 1, "the bytes of the image were copied from step to step"


TOKEN = 4
"""Bytes."""
LOOKBACK = 20
"""Blocks before a mark in which Anthropic looks for what it kept."""
LEAST = {"responses": (1024, 128), "gemini": (1024, 1), "deepseek": (64, 64), "vllm": (16, 16)}
"""Tokens from which each caches by itself, and in which steps."""


def blocks(body: Any) -> list[str]:
    """Returns the cached blocks in the order in which the format's models read them."""
    named = [
        body.get(name, ()) for name in ("tools", "instructions", "systemInstruction", "system")
    ]
    grown = next(body[name] for name in ("input", "messages", "contents") if name in body)
    each: list[Any] = [*named]
    for entry in grown:
        inner = entry.get("content")
        each += inner if isinstance(inner, list) else [entry]
    return [json.dumps(unmarked(one)) for one in each]


def unmarked(block: Any) -> Any:
    if isinstance(block, list):
        return [unmarked(one) for one in block]
    if not isinstance(block, dict):
        return block
    return {name: unmarked(one) for name, one in block.items() if name != "cache_control"}


def marks(body: Any, count: int) -> list[int]:
    """After how many blocks a Claude keeps the prompt: at the last, or at those that are marked."""
    if "cache_control" in body:
        return [count]
    each = [one for entry in body["messages"] for one in entry["content"] if isinstance(one, dict)]
    before = count - len(each)
    return [before + n for n, one in enumerate(each, 1) if "cache_control" in one]


class Keeping(Endless):
    """The same provider with its documented prompt cache and the matching usage counts."""

    def __init__(self, form: Form, turns: int) -> None:
        super().__init__(form, turns)
        self._form = form.name
        self._kept: list[list[str]] = []

    def cached(self, body: Any) -> int:
        """Tokens of the prompt that are read from what earlier requests left."""
        said = blocks(body)
        if self._form in LEAST:
            least, step = LEAST[self._form]
            text = "".join(said)
            longest = max([common(text.encode(), "".join(k).encode()) for k in self._kept] or [0])
            self._kept.append(said)
            tokens = longest // TOKEN
            return tokens // step * step if tokens >= least else 0
        found = 0
        for mark in marks(body, len(said)):
            for at in range(mark, max(mark - LOOKBACK, 0), -1):
                if said[:at] in self._kept:
                    found = max(found, at)
                    break
            self._kept.append(said[:mark])
        return len("".join(said[:found])) // TOKEN

    async def post(self, url: str, headers: Any, body: Body, *more: Any) -> HttpResponse:
        asked = json.loads(whole(body))
        size, cached = len("".join(blocks(asked))) // TOKEN, self.cached(asked)
        answer = await super().post(url, headers, body, *more)
        said = json.loads(answer.body)
        match self._form:
            case "responses":
                said["usage"] |= {
                    "input_tokens": size,
                    "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
                }
            case "messages":
                said["usage"] |= {"input_tokens": size - cached, "cache_read_input_tokens": cached}
            case "gemini":
                said["usageMetadata"] |= {
                    "promptTokenCount": size, "cachedContentTokenCount": cached,
                }  # fmt: skip
            case _:
                said["usage"] |= {
                    "prompt_tokens": size,
                    "prompt_tokens_details": {"cached_tokens": cached},
                    "prompt_cache_hit_tokens": cached,
                }
        return HttpResponse(200, {}, json.dumps(said).encode())


@each
async def test_over_fifty_turns_the_provider_reads_the_prompt_from_its_cache(
    form: Form, tmp_path: Path
) -> None:
    """Two lives of a run, the second in another model object: the cache does not notice."""
    provider, log = Keeping(form, 50), str(tmp_path / "log.db")

    def doing(transport: Any) -> Agent[Any, Any]:
        model = form.connect(transport)
        limits = Limits(steps=60)
        return Agent(model, tools=[add], limits=limits, instructions=INSTRUCTIONS, log=log)

    with killed():
        await doing(Mortal(provider, 25)).run(form.goal, run_id="long")
    result = await doing(provider).resume("long")
    assert (result.success, result.output) == (True, "It is 10."), result.error
    usages = [r.event.usage for r in result.records if isinstance(r.event, Replied)]
    assert len(usages) == 51
    read = sum([usage.cached_tokens for usage in usages[2:]])
    share = read / sum([usage.input_tokens for usage in usages[2:]])
    assert share >= 0.95, f"{share:.1%} of the tokens after turn 2 came from the cache"


class Mortal:
    """A provider that is asked by a process that is killed after so many calls."""

    def __init__(self, provider: Endless, calls: int) -> None:
        self._provider, self._calls = provider, calls

    async def post(self, *args: Any) -> HttpResponse:
        if self._calls == 0:
            await kill()
        self._calls -= 1
        return await self._provider.post(*args)


@pytest.mark.parametrize(
    ("prompt_cache", "mark"),
    [("", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"}), ("off", None)],
)
async def test_a_router_is_told_to_keep_the_prompt_of_a_claude(
    prompt_cache: str, mark: Any
) -> None:
    """OpenRouter caches a Claude's prompt only where it is asked to."""
    for name, wanted in (("anthropic/claude-opus-5.5", mark), ("openai/gpt-6.1-sol", None)):
        form = next(form for form in FORMS if form.name == "openrouter")
        provider = Endless(form, 0)
        model = replace(form, model=f"openrouter:{name}").connect(provider)
        agent = Agent(model, tools=[add], prompt_cache=prompt_cache)
        assert (await agent.run("Add.")).success
        assert json.loads(provider.bodies[0]).get("cache_control") == wanted


SCRIPT = """
import asyncio, sys
from tests.models.test_prefix import digests
print(asyncio.run(digests(sys.argv[1])))
"""


async def digests(name: str) -> str:
    form = next(one for one in FORMS if one.name == name)
    return ",".join([hashlib.sha256(body).hexdigest()[:12] for body in await fifty(form)])


@pytest.mark.parametrize("name", ["responses", "messages"])
def test_another_process_sends_the_same_bytes(name: str) -> None:
    """Nothing in a request depends on the order of a set or on where an object lies."""
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, name],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert said[0].count(",") == 50

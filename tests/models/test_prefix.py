"""A long run: every request is the one before it and more behind, so caches hit; media lie once."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise

import pytest
from tests.models.forms import FORMS, Form, add
from tests.pictures import PICTURE

from taofold import Agent, Image, Limits
from taofold.models.transport import Body, Bounds, HttpResponse, OnBytes, whole

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
        """Which objects hold the media of each request."""
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
    """How many bytes at the beginning are the same."""
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
    # What a cache of prefixes can serve: everything but what the last turn added.
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

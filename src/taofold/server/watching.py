"""Who has a stream open: so many at once, and only for as long as they may watch.

A stream lasts longer than a request, so it is asked again and again whether its token still
holds. Knows nothing of what is streamed.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Final

from taofold.core.errors import TaofoldError
from taofold.server.endpoint import Call
from taofold.server.problem import Problem

SHARE: Final = 2
"""One principal may have this part of all streams: the others come in too."""


class Watching:
    """The open streams of one server, `most` at once."""

    def __init__(self, most: int) -> None:
        self._most, self._open = most, Counter[str]()

    @property
    def total(self) -> int:
        """How many streams are open."""
        return self._open.total()

    def room(self, who: str) -> None:
        """Is there a place for one more stream of the principal `who`?

        Raises:
            Problem: 503.
        """
        if self.total >= self._most or self._open[who] >= max(1, self._most // SHARE):
            raise Problem(503, "busy", "too many streams are open", headers={"Retry-After": "5"})

    @contextmanager
    def place(self, who: str) -> Generator[None]:
        """Hold a place while the stream is open."""
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]


async def allowed(call: Call, run: str, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`frames` of the run, until its watcher may not see it any more.

    It is asked before a frame, at most every `look_again_s` seconds: nothing is told later.
    """
    clock = asyncio.get_running_loop().time
    asked = clock()
    async for frame in frames:
        if clock() - asked >= call.server.settings.look_again_s:
            asked = clock()
            if not await _may(call, run):
                return
        yield frame


async def _may(call: Call, run: str) -> bool:
    request = call.request
    client = request.client.host if request.client else ""
    try:
        guest = call.server.door.guest(request.headers, client, unsafe=False)
        row = await call.server.log.row(run)
    except (Problem, TaofoldError):
        return False
    if guest is None or call.server.settings.policy.lacks(guest.principal, "read"):
        return False
    return call.server.sees(guest.principal, row)

"""One limiter for all users of an account, with its own clock."""

import asyncio
import heapq
import itertools

import pytest

from taofold.core.content import Conversation
from taofold.core.errors import ModelError
from taofold.core.values import Message, ModelSettings, Reply
from taofold.models.endpoint import Endpoint, RetryPolicy
from taofold.models.limiter import Limiter, shared_limiter
from taofold.models.transport import Bounds, HttpResponse, OnBytes
from taofold.runtime.model import Request

pytestmark = pytest.mark.anyio


class Time:
    """A clock that moves only when everybody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.now + seconds, next(self._order), wake))
        await wake

    async def run(self, *stories: object) -> list[object]:
        done = asyncio.gather(*stories)  # type: ignore[call-overload]
        while not done.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if self._waiting and not done.done():
                self.now, _, wake = heapq.heappop(self._waiting)
                wake.set_result(None)
        return list(await done)


class Provider:
    """Says 429 until it opens, and whenever two requests are closer than `spacing`."""

    def __init__(self, time: Time, opens_at: float, retry_after: str, spacing: float = 0.0) -> None:
        self.time, self.opens_at, self.retry_after, self.spacing = (
            time, opens_at, retry_after, spacing,
        )  # fmt: skip
        self.starts: list[float] = []
        self.refused = 0

    async def post(
        self,
        url: str,
        headers: object,
        body: bytes,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        previous = self.starts[-1] if self.starts else -99.0
        start = self.time.now
        self.starts.append(start)
        await self.time.sleep(1.0)
        if start < self.opens_at or start - previous < self.spacing:
            self.refused += 1
            return HttpResponse(429, {"Retry-After": self.retry_after}, b"{}")
        return HttpResponse(200, {}, b"ok")


class Plain:
    """Reads nothing into the answer."""

    def feed(self, chunk: bytes) -> None:
        raise NotImplementedError

    def close(self) -> Reply:
        raise NotImplementedError

    def whole(self, body: bytes) -> Reply:
        return Reply(text=body.decode())

    def charge(self, error: ModelError) -> None:
        """Leaves the error without a usage."""


def agents(time: Time, provider: Provider, count: int, limiter: Limiter) -> list[object]:
    def one() -> object:
        endpoint = Endpoint(
            "http://provider/v1", {}, transport=provider, limiter=limiter, clock=time.clock,
            sleep=time.sleep, retry=RetryPolicy(draw=lambda: 0.0),
        )  # fmt: skip
        return endpoint.ask([b"{}"], 10, Plain)

    return [one() for _ in range(count)]


@pytest.mark.scenario("PEER-34", "RCT-22")
async def test_fifty_agents_that_share_one_429_all_wait_and_come_back_one_by_one() -> None:
    time = Time()
    provider = Provider(time, opens_at=10.0, retry_after="12")
    limiter = Limiter(clock=time.clock, sleep=time.sleep)
    replies = await time.run(*agents(time, provider, 50, limiter))
    assert len(replies) == 50
    assert provider.refused == 50, "the first burst, and nobody after it"
    assert len(provider.starts) == 100
    second = provider.starts[50:]
    assert min(second) >= 13.0, "Retry-After is honoured by everyone"
    assert second[1] - second[0] >= 0.25, "no thundering herd when it opens"
    assert max(second) < 13.0 + 15
    assert not limiter.busy, "and then it costs nothing again"


@pytest.mark.scenario("PEER-34")
async def test_an_agent_that_comes_later_waits_too() -> None:
    time = Time()
    provider = Provider(time, opens_at=5.0, retry_after="8")
    limiter = Limiter(clock=time.clock, sleep=time.sleep)

    async def late() -> Reply:
        await time.sleep(2.0)
        return await agents(time, provider, 1, limiter)[0]  # type: ignore[misc,no-any-return]

    await time.run(agents(time, provider, 1, limiter)[0], late())
    assert provider.starts[0] == 0.0
    assert all(start >= 9.0 for start in provider.starts[1:])


async def test_the_gap_widens_while_the_provider_keeps_refusing() -> None:
    time = Time()
    provider = Provider(time, opens_at=0.0, retry_after="1", spacing=1.0)
    limiter = Limiter(clock=time.clock, sleep=time.sleep)
    stories = agents(time, provider, 8, limiter)
    replies = await time.run(*stories)
    assert len(replies) == 8
    assert len(provider.starts) <= 8 * 4


async def test_a_wait_longer_than_the_caller_allows_is_an_error_that_says_how_long() -> None:
    time = Time()
    provider = Provider(time, opens_at=1e9, retry_after="3600")
    limiter = Limiter(clock=time.clock, sleep=time.sleep)
    with pytest.raises(ModelError) as caught:
        await time.run(agents(time, provider, 1, limiter)[0])
    assert (caught.value.kind, caught.value.retry_after) == ("rate", 3600.0)
    assert len(provider.starts) == 1


async def test_a_configured_rate_is_never_exceeded() -> None:
    time = Time()
    provider = Provider(time, opens_at=0.0, retry_after="1")
    limiter = Limiter(60, clock=time.clock, sleep=time.sleep)
    await time.run(*agents(time, provider, 30, limiter))
    starts = provider.starts
    assert starts == sorted(starts)
    assert all(b - a >= 1.0 - 1e-9 for a, b in itertools.pairwise(starts))


async def test_a_token_rate_spaces_large_requests_further() -> None:
    time = Time()
    limiter = Limiter(None, 6000, clock=time.clock, sleep=time.sleep)

    async def two() -> float:
        await limiter.admit(1000)
        await limiter.admit(1)
        return time.now

    assert await time.run(two()) == [pytest.approx(10.0)]


async def test_an_unlimited_limiter_is_not_even_asked(hello: Request) -> None:
    assert not Limiter().busy
    assert Request(Conversation([Message("user", "x")])).asked() == ModelSettings()


def test_one_account_has_one_limiter_and_its_key_is_not_kept() -> None:
    one, same = shared_limiter("http://a", "secret-key"), shared_limiter("http://a", "secret-key")
    other = shared_limiter("http://a", "else")
    assert one is same
    assert one is not other
    from taofold.models import limiter

    assert b"secret-key" not in b"".join(limiter._shared)

"""`http.get` reaches the public web only, for all names, redirects and resolvers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from taofold.tools.http import LARGEST, Web

pytestmark = pytest.mark.anyio
Handler = Callable[[web.Request], Any]


@asynccontextmanager
async def server(**handlers: Handler) -> AsyncIterator[int]:
    app = web.Application()
    for name, handler in handlers.items():
        app.router.add_get(f"/{name}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def here(name: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def trusting(address: str) -> bool:
    """Treats 127.0.0.1 as a public address. All other local addresses stay refused."""
    return address == "127.0.0.1"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/page",
        "http://[::1]:{port}/page",
        "http://[::ffff:127.0.0.1]:{port}/page",
        "http://localhost:{port}/page",
        "http://2130706433:{port}/page",
        "http://0x7f.1:{port}/page",
        "http://0:{port}/page",
        "http://name:word@example.com/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "http://",
        "nonsense",
    ],
)
async def test_what_is_near_or_no_page_is_refused(url: str) -> None:
    reached: list[str] = []

    async def page(request: web.Request) -> web.Response:
        reached.append(str(request.url))
        return web.Response(text="secret")

    async with server(page=page) as port:
        outcome = await Web().get(url.format(port=port))
    assert outcome.status == "failure"
    assert not reached


async def test_a_page_is_read() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="hällo", charset="utf-8")

    async with server(page=page) as port:
        outcome = await Web(here, trusting).get(f"http://example.com:{port}/page")
    assert (outcome.status, outcome.value) == ("success", "hällo")


async def test_a_redirect_to_what_is_near_is_refused() -> None:
    targets = ["http://10.0.0.1/", "http://inner.example/", "file:///etc/passwd"]

    async def resolve(name: str, port: int) -> list[str]:
        return ["192.168.0.1"] if name == "inner.example" else ["127.0.0.1"]

    for target in targets:

        async def away(_: web.Request, target: str = target) -> web.Response:
            return web.Response(status=302, headers={"Location": target})

        async with server(page=away) as port:
            outcome = await Web(resolve, trusting).get(f"http://example.com:{port}/page")
        assert outcome.status == "failure", target
        assert "not an address of the public" in outcome.value or "only http" in outcome.value


async def test_a_name_that_changes_its_mind_gains_nothing() -> None:
    asked: list[str] = []

    async def rebinding(name: str, port: int) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async def page(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/page"})

    async with server(page=page) as port:
        outcome = await Web(rebinding, trusting).get(f"http://example.com:{port}/page")
    # Each connection is to the address that its own look-up gave and that was checked.
    assert outcome.status == "failure"
    assert len(asked) <= 2


async def test_redirects_size_kind_and_status_are_bounded() -> None:
    async def around(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/around"})

    async def large(_: web.Request) -> web.Response:
        return web.Response(text="x" * (LARGEST + 10))

    async def picture(_: web.Request) -> web.Response:
        return web.Response(body=b"\x00", content_type="image/png")

    async def gone(_: web.Request) -> web.Response:
        return web.Response(status=404, text="gone")

    async with server(around=around, large=large, picture=picture, gone=gone) as port:
        get = Web(here, trusting).get
        outcomes = [
            await get(f"http://example.com:{port}/{name}")
            for name in ("around", "large", "picture", "gone")
        ]
    assert "redirects" in outcomes[0].value
    assert (outcomes[1].status, len(outcomes[1].value)) == ("partial", LARGEST)
    assert "image/png" in outcomes[2].value
    assert "404" in outcomes[3].value


async def test_a_page_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await released.wait()
        return web.Response(text="late")

    import taofold.tools.http as module

    monkeypatch.setattr(module, "SECONDS", 0.05)
    async with server(page=hang) as port:
        outcome = await Web(here, trusting).get(f"http://example.com:{port}/page")
        released.set()
    assert outcome.status in ("timeout", "failure")
    assert "0.05" in outcome.value or "cannot be had" in outcome.value

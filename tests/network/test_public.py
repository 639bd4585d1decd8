"""`http.get` against real servers, for every spelling of a host and every redirect.

Mutants: the decision uses the text of the URL (`urlsplit`) instead of the address; a socket is
created without a check; a redirect is not checked.
"""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from taofold.network import reachable
from taofold.tools.http import Web

pytestmark = pytest.mark.anyio
Handler = Callable[[web.Request], Any]
FRONT = "127.0.0.2"
"""Stands for a public address: a server there redirects to 127.0.0.1, which is near."""

SPELLINGS = [
    "127.0.0.1", "127.0.0.1.", "127.1", "0x7f.1", "0177.0.0.1", "2130706433", "0x7f000001", "0",
    "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "①②⑦.⓪.⓪.①", "１２７.０.０.１", "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
    "⑫7.0.0.1", "127.0.0.①", "127.0.0.1。", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]", "[::1%25lo]", "localhost", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "LOCALHOST", "localhost.",
    "%31%32%37.0.0.1", "%6cocalhost", "127.0.0.1%00.example.com", "example.com@127.0.0.1",
    "example.com\\@127.0.0.1", "127.0.0.1\\.example.com", "127.0.0.1#@example.com", "[::]",
]  # fmt: skip


@asynccontextmanager
async def serving(host: str, port: int, handler: Handler) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Secret:
    """A server on this machine that must not be reachable."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def page(self, request: web.Request) -> web.Response:
        self.reached.append(str(request.url))
        return web.Response(text="the secret")


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_this_machine_reaches_it(host: str) -> None:
    secret = Secret()
    async with serving("127.0.0.1", 0, secret.page) as port:
        outcome = await Web().get(f"http://{host}:{port}/page")
    assert secret.reached == []
    assert outcome.status == "failure", outcome
    assert "the secret" not in outcome.value


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_this_machine_is_reached_through_a_redirect(host: str) -> None:
    try:
        socket.create_server((FRONT, 0)).close()
    except OSError as error:
        pytest.skip(f"{FRONT} cannot be listened at here: {error}")
    secret = Secret()
    asked: list[str] = []

    async with serving("127.0.0.1", 0, secret.page) as port:

        async def away(request: web.Request) -> web.Response:
            asked.append(request.path)
            # As bytes on the wire: aiohttp itself would refuse to write this header.
            location = f"http://{host}:{port}/page"
            return web.Response(status=302, headers={"Location": location})

        async with serving(FRONT, 0, away) as front:
            allowed = lambda address: address == FRONT or reachable(address)  # noqa: E731
            outcome = await Web(allowed=allowed).get(f"http://{FRONT}:{front}/go")
    assert asked == ["/go"]
    assert secret.reached == []
    assert outcome.status == "failure", outcome


async def test_what_is_not_near_is_reached_so_the_tables_above_can_fail() -> None:
    secret = Secret()
    async with serving("127.0.0.1", 0, secret.page) as port:
        for host in ("127。0。0。1", "①②⑦.⓪.⓪.①", "localhost"):
            outcome = await Web(allowed=lambda _: True).get(f"http://{host}:{port}/page")
            assert outcome.value == "the secret", host
    assert len(secret.reached) == 3


async def test_a_near_address_among_public_ones_is_never_connected_to() -> None:
    secret = Secret()
    asked: list[str] = []

    async def both(name: str, port: int) -> list[str]:
        return ["10.0.0.1", "127.0.0.1"]

    def nothing(address: str) -> bool:
        asked.append(address)
        return False

    async with serving("127.0.0.1", 0, secret.page) as port:
        outcome = await Web(both, nothing).get(f"http://example.com:{port}/page")
    assert set(asked) == {"10.0.0.1", "127.0.0.1"}
    assert secret.reached == []
    assert "is not an address of the public internet" in outcome.value

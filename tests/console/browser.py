"""Chromium, signed in to a server of its own; every error in the page fails the test."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Locator, Page, Request, TimeoutError, async_playwright, expect

from taofold import Agent
from taofold.server.auth import TokenStore
from tests import prerequisites
from tests.server.live import Client, serving

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 60_000
"""Milliseconds that an expectation may take on a busy machine."""
SECONDS = 360
"""Seconds that a test may take on a busy machine: less than `faulthandler_timeout`."""
ATTEMPTS = 10
"""How often a control is pressed until the press has an effect."""
HEADS = {
    "runs": "Runs",
    "approvals": "Approvals",
    "sessions": "Sessions",
    "evals": "Evals",
    "loops": "Loops",
    "patterns": "Patterns",
    "learning": "Learning",
}
"""The views that are lists, and what stands over each."""
GO = """(hash) => {
  if (location.hash === hash) return;
  for (const node of document.querySelector("main").children) node.dataset.left = "";
  location.hash = hash;
}"""
"""Marks what the page shows now and sets the address: a new address is shown a moment later.

Both in one task, because a list that arrives in between writes its choices into the address.
"""
ARTIFACTS = Path(
    os.environ.get("TAOFOLD_ARTIFACTS") or Path(__file__).parents[2] / "build/artifacts"
)


class Wire:
    """A wire between browser and server that can be cut, and mended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self._whole = asyncio.Event()
        self._whole.set()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Cuts every connection in the middle of its data. New ones wait for the end."""
        self._whole.clear()
        for writer in self._open:
            writer.transport.abort()
        try:
            yield
        finally:
            self._whole.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        await self._whole.wait()
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        ends = {writer, back}
        self._open |= ends
        try:
            await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        finally:
            self._open -= ends

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()


async def press(control: Locator, effect: Locator) -> None:
    """Presses a control until `effect` is visible.

    A press may have no effect: a list may be drawn again between the two halves of a click, and a
    poll of the page may remove the control.
    """
    for _ in range(ATTEMPTS):
        with suppress(TimeoutError):
            await control.click(timeout=PATIENCE / 4)
        with suppress(AssertionError):
            await expect(effect.first).to_be_visible(timeout=PATIENCE / 10)
            return
    await expect(effect.first).to_be_visible()


async def decide(control: Locator) -> None:
    """Presses a control of a card until the page sends the decision.

    A card ignores a press if it moved since its controls were enabled. Neither the card nor the
    next one is pressed again after the request, however long the response takes.
    """
    for _ in range(ATTEMPTS):
        with suppress(TimeoutError):
            async with control.page.expect_request(_decides, timeout=PATIENCE / 4):
                await control.click(timeout=PATIENCE / 4)
            return
    raise AssertionError(f"no press of {control} sent a decision")


def _decides(request: Request) -> bool:
    return request.method == "POST" and urlsplit(request.url).path.startswith("/approvals")


class Seat:
    """A page of the console, the server behind it, and everything that went wrong so far."""

    def __init__(self, page: Page, client: Client, url: str, wire: Wire) -> None:
        self.page, self.client, self.url, self.wire = page, client, url, wire
        self.wrong: list[str] = []

    async def start(self, goal: str) -> str:
        """Starts a run through the page. Returns the id of the displayed run."""
        await self.page.keyboard.press("n")
        await self.page.fill("#goal", goal)
        before = self.page.url
        await self.page.click("dialog button.primary")
        await self.page.wait_for_url(lambda url: url != before and "#/runs/" in url)
        run = self.page.url.rpartition("/")[2]
        await expect(self.page.locator(".crumbs .mono").first).to_have_text(run)
        return run

    async def open(self, where: str) -> None:
        """Goes to a view, and waits until the previous one has left the page."""
        await self.page.evaluate(GO, f"#/{where}")
        await expect(self.page.locator("main > [data-left]")).to_have_count(0)
        if where in HEADS:
            await expect(self.page.locator(".viewhead h1")).to_have_text(HEADS[where])

    async def read(self, last: str) -> None:
        """Wait until the time slider has every event up to the one called `last`."""
        await expect(self.page.locator(".where")).to_contain_text(last)

    async def keep(self, name: str) -> None:
        """Stores a screenshot with the results."""
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=ARTIFACTS / f"console-{name}.png")


@asynccontextmanager
async def seated(
    agents: Mapping[str, Agent[Any, Any]] | Agent[Any, Any],
    folder: Path,
    *,
    csp: bool = True,
    server: Mapping[str, Any] | None = None,
    **view: Any,
) -> AsyncIterator[Seat]:
    """A signed-in browser. On leaving, nothing may have gone wrong in the page."""
    program = prerequisites.chromium()
    expect.set_options(timeout=PATIENCE)
    token = TokenStore(folder / "tokens.json").add("ann", ["ADMIN"])
    tokens = TokenStore(folder / "tokens.json")
    async with (
        serving(
            agents,
            folder / "runs.db",
            tokens=tokens,
            token=token,
            seconds=SECONDS,
            **(server or {}),
        ) as client,
        async_playwright() as playwright,
    ):
        browser = await playwright.chromium.launch(
            executable_path=program, args=[*FLAGS], timeout=2 * PATIENCE
        )
        view.setdefault("viewport", {"width": 1280, "height": 860})
        view.setdefault("reduced_motion", "reduce")
        context = await browser.new_context(bypass_csp=not csp, **view)
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        wire = Wire(int(client.url.rpartition(":")[2]))
        between = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
        port = between.sockets[0].getsockname()[1]
        seat = Seat(page, client, f"http://127.0.0.1:{port}", wire)
        page.on("pageerror", lambda error: seat.wrong.append(f"error: {error}"))
        page.on("console", lambda said: _heard(seat, said.type, said.text))
        try:
            await sign_in(seat, token)
            yield seat
            assert seat.wrong == [], seat.wrong
        finally:
            await browser.close()
            between.close()


async def sign_in(seat: Seat, token: str) -> None:
    """Signs in by token, in the page's own form."""
    await seat.page.goto(seat.url)
    await seat.page.fill("#token", token)
    await seat.page.click("main button.primary")
    await seat.page.wait_for_selector(".viewhead")
    seat.wrong.clear()  # the missing sign-in was logged as an error


def _heard(seat: Seat, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        seat.wrong.append(f"{kind}: {text}")

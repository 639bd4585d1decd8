"""WCAG 2.1 AA by axe-core, in light and in dark, on every view and in its states."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.console import node
from tests.console.browser import Seat, decide, seated
from tests.server.agents import Bench, act, finish

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


async def faults(seat: Seat, source: str) -> list[str]:
    """Returns the faults that axe finds in the current page."""
    await seat.page.evaluate(source)
    found: dict[str, Any] = await seat.page.evaluate(
        "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", TAGS
    )
    return [
        f"{one['id']}: {place['html'][:160]}"
        for one in found["violations"]
        for place in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_view_meets_wcag_aa(tmp_path: Path, scheme: str) -> None:
    packages = await asyncio.to_thread(node.needs)
    source = (packages / "node_modules/axe-core/axe.min.js").read_text()
    bench = Bench()
    agent = bench.agent(
        act("I look", "look", "goal"),
        act("I fail", "broken", "extraction"),
        act("It failed", "label", "exception", name="x"),
        act("I tell", "publish", "progress", text="x"),
        finish("done"),
    )
    async with seated(agent, tmp_path, csp=False, color_scheme=scheme) as seat:
        page = seat.page
        wrong = {"empty": await faults(seat, source)}
        await page.keyboard.press("n")
        await page.fill("#goal", "Look, fail, and tell")
        wrong["dialog"] = await faults(seat, source)
        await page.click("dialog button.primary")
        await expect(page.locator(".card")).to_be_visible()
        await page.click(".call summary")
        await page.click(".card .edit summary")
        wrong["waiting"] = await faults(seat, source)
        await seat.keep(f"run-{scheme}")
        await seat.read("parked")
        await page.locator("main").focus()
        for key in "[[[c[[[":
            await page.keyboard.press(key)
        await expect(page.locator(".difference")).to_be_visible()
        wrong["difference"] = await faults(seat, source)
        await page.keyboard.press("Escape")
        for view in ("approvals", "runs", "loops", "patterns", "learning"):
            await seat.open(view)
            await expect(page.locator("h1")).to_be_visible()
            await expect(page.locator("main .loading")).to_have_count(0)
            wrong[view] = await faults(seat, source)
            await seat.keep(f"{view}-{scheme}")
        await seat.open("runs")
        await page.click(".entry")
        await decide(page.locator(".card [data-do=approve]"))
        await expect(page.locator(".done")).to_be_visible()
        wrong["finished"] = await faults(seat, source)
        await page.keyboard.press("?")
        wrong["help"] = await faults(seat, source)
        assert {view: found for view, found in wrong.items() if found} == {}
        seat.wrong = [one for one in seat.wrong if "404" not in one]

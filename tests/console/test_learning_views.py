"""Loops, patterns and the learning curve in Chromium, from a journal and a registry with facts."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Route, expect

from taofold.learning.patterns.kinds import ErrorFix, ErrorSignature, Fix
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.settings import Extraction
from taofold.log.journal import MemoryJournal
from taofold.log.patterns.stores import memory_registry
from tests.console.browser import Seat, seated
from tests.server.agents import Bench, finish

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
EVIL = "<img src=x onerror=alert(1)>"
AT = "2026-11-20T10:00:00.000Z"


def loop(number: int, status: str, iterations: int) -> dict[str, Any]:
    return {
        "id": f"loop-{number}", "task": f"Repair part {number} {EVIL}", "status": status,
        "reason": "the gates pass", "iterations": iterations, "max_iterations": 10,
        "quality": 0.5, "usd": 0.1, "tokens": 10, "started_at": AT, "updated_at": AT,
    }  # fmt: skip


DETAIL = {
    **loop(1, "completed", 2),
    "best": 2,
    "gates": [{"command": f"pytest {EVIL}", "passed": True, "passed_before": False}],
    "steps": [
        {"number": 1, "run": "r.1", "quality": 0.5, "passed": False, "changed": ["a.py"],
         "diff": f"-{EVIL}", "said": EVIL, "seconds": 2, "usd": 0, "tampered": True},
        {"number": 2, "run": "r.2", "quality": 1.0, "passed": True, "changed": [], "diff": "",
         "said": "done", "seconds": 1, "usd": 0, "tampered": False},
    ],
    "lessons": {"text": f"## Context {EVIL}", "control": False},
}  # fmt: skip
PATTERN = {
    "id": "p1", "name": f"Off by one {EVIL}", "kind": "error", "tags": [EVIL], "rate": 0.75,
    "usage": 4, "successes": 3, "failures": 1, "loops": 2, "probation": True, "retired": "",
    "first_discovered": AT, "last_used": AT,
}  # fmt: skip
KNOWN = {
    **PATTERN,
    "body": {"fix": EVIL}, "shown": {"loops": 3, "mean": 2.0}, "held": {"loops": 1, "mean": 4.0},
    "trend": [{"at": AT, "rate": 0.5, "size": 2}, {"at": AT, "rate": 0.75, "size": 4}],
    "lineage": [{"what": "applied", "loop": "loop-1", "at": AT, "outcome": EVIL}],
}  # fmt: skip
LOOPS = [loop(3, "exhausted", 10), loop(2, "completed", 2), loop(1, "completed", 4)]


async def learnt(seat: Seat) -> None:
    """Serves the facts above on the learning routes. The server handles the others."""
    said: dict[str, Any] = {
        "/loops": {"items": LOOPS}, "/loops/loop-1": DETAIL, "/patterns": {"items": [PATTERN]},
        "/patterns/p1": KNOWN, "/patterns/metrics": {"total_patterns": 1, "n": {"loops": 3}},
    }  # fmt: skip

    def answer(body: Any) -> Any:
        async def give(route: Route) -> None:
            await route.fulfill(json=body)

        return give

    for path, body in said.items():
        await seat.page.route(f"{seat.url}{path}", answer(body))


async def test_a_loop_shows_its_gates_iterations_and_quality(tmp_path: Path) -> None:
    async with seated(Bench().agent(finish()), tmp_path) as seat:
        await learnt(seat)
        page = seat.page
        await seat.open("loops")
        await expect(page.locator(".entry")).to_have_count(3)
        await page.click(".entry >> nth=2")
        await expect(page.locator(".gate")).to_contain_text("failed before iteration 1")
        rows = page.locator("tbody tr")
        await expect(rows.nth(0)).to_contain_text("tampered")
        await expect(rows.nth(1)).to_contain_text("kept")
        await expect(page.locator(".chart")).to_have_attribute(
            "aria-label",
            "Share of checks that pass, by iteration: iteration 1 50 %, iteration 2 100 %",
        )
        assert await page.locator("main img").count() == 0


async def test_a_pattern_never_shows_a_rate_without_its_counts(tmp_path: Path) -> None:
    async with seated(Bench().agent(finish()), tmp_path) as seat:
        await learnt(seat)
        page = seat.page
        await seat.open("patterns")
        await expect(page.locator(".entry")).to_contain_text("3 of 4 (75 %)")
        await expect(page.locator(".entry")).to_contain_text("on probation")
        await page.click(".entry")
        await expect(page.locator(".facts")).to_contain_text("iterations without")
        await expect(page.locator(".lineage")).to_contain_text("loop-1")
        assert await page.locator("main img").count() == 0


async def test_a_pattern_is_retired_restored_and_rewritten(tmp_path: Path) -> None:
    registry = memory_registry()
    body = ErrorFix(
        ErrorSignature("RuntimeError", "it broke", hints=("*.py:*", "b")),
        Fix("mend it", diff="-a\n+b"),
    )
    (found,) = await registry.discover("loop-1", [Pattern("", "Broken", body)], Extraction())
    options = {"journal": MemoryJournal(), "registry": registry}
    async with seated(Bench().agent(finish()), tmp_path, server=options) as seat:
        page = seat.page
        await seat.open(f"patterns/{found.id}")
        await page.fill("#why", "it misleads")
        await page.click("[data-do=retire]")
        await expect(page.locator(".facts")).to_contain_text("ann: it misleads")
        await page.click("[data-do=restore]")
        await expect(page.locator("[data-do=retire]")).to_be_visible()
        assert (await registry.show(found.id)).retired == ""

        await page.click(".rewrite summary")
        await page.fill("textarea[name=name]", "Broken again")
        await page.fill("textarea[name='fix description']", "mend it\nwith care, and with patience")
        await page.fill("textarea[name='signature hints']", "one\n\ntwo\n")
        # New events do not remove the text that the user is typing.
        await registry.retire(found.id, "by somebody else")
        await page.wait_for_timeout(4_500)
        await page.click("[data-do=save]")
        await expect(page.locator("h1")).to_have_text("Broken again")
        new = await registry.show(found.id)
        assert isinstance(new.body, ErrorFix)
        assert new.body.fix == Fix("mend it\nwith care, and with patience", diff="-a\n+b")
        assert new.body.signature.hints == ("one", "two")

        await page.click(".rewrite summary")
        await page.fill("textarea[name='signature type']", "Odd")
        await page.click("[data-do=save]")
        await expect(page.locator(".rewrite .wrong")).to_contain_text("signature.type")
        assert await registry.show(found.id) == new
        seat.wrong.clear()  # the refusal is a line in the browser's own console


async def test_the_curve_has_completed_loops_only_and_says_what_it_leaves_out(
    tmp_path: Path,
) -> None:
    async with seated(Bench().agent(finish()), tmp_path) as seat:
        await learnt(seat)
        await seat.open("learning")
        await expect(seat.page.locator(".point")).to_have_count(2)
        panel = seat.page.locator(".panel").first
        await expect(panel).to_contain_text("Loops that did not complete are left out: 1.")
        await expect(seat.page.locator("main")).to_contain_text("total patterns")


async def test_a_server_without_loops_says_so(tmp_path: Path) -> None:
    async with seated(Bench().agent(finish()), tmp_path) as seat:
        await seat.open("loops")
        await expect(seat.page.locator(".empty h2")).to_have_text("Nothing to see here")
        seat.wrong = [one for one in seat.wrong if "404" not in one]

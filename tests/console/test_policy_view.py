"""The page Policy in Chromium: a rule is edited, and the changed calls link to their runs."""

import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from taofold import Agent, Policy
from taofold.core.values import Reply, Usage
from taofold.testing import FunctionModel
from taofold.tools import external
from tests.console.browser import ARTIFACTS, seated
from tests.server.agents import act, finish

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
EVIL = "<img src=x onerror=alert(1)>\u202e"


def agent() -> Agent:
    """Asks to write a hostile text."""

    async def write(parameters: object) -> str:
        return "written"

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tool = external("write", "Write.", schema, write, tier=3, effect="once")

    def reply(request: object) -> Reply:
        turn = sum(each.role == "assistant" for each in request.conversation)  # type: ignore[attr-defined]
        text = (act("so", "write", text=EVIL), finish())[min(turn, 1)]
        return Reply(text, usage=Usage(100, usd=0.1))

    policy = Policy(autonomy="conservative", deny=frozenset({EVIL}))
    return Agent(FunctionModel(reply), tools=[tool], policy=policy)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_an_edited_policy_shows_the_calls_that_it_would_change(
    scheme: str, tmp_path: Path
) -> None:
    async with seated(agent(), tmp_path) as seat:
        page = seat.page
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        runs = [await seat.client.start() for _ in range(2)]
        for run in runs:
            await seat.client.until(run, "waiting")
        await seat.open("policy")
        text = page.locator("[name=policy]")
        await expect(text).to_have_value(re.compile("autonomy: conservative"))
        await page.click("[data-do=test]")
        result = page.locator("[data-result]")
        await expect(result).to_contain_text("2 calls of 2 runs judged")
        await expect(result).to_contain_text("Nothing changes.")
        await expect(result).to_contain_text("No stored call meets: deny.<img src=x")
        await text.fill("deny: [write]\nbudgets: [{tokens: 0}]\nrights: {read: ADMIN}\n")
        await page.click("[data-do=test]")
        await expect(result).to_contain_text("asked → denied")
        await expect(result).to_contain_text("deny.write the policy forbids 'write'")
        await expect(result).to_contain_text("model calls refused")
        await expect(result).to_contain_text("tightened")
        await expect(result).to_contain_text("Not tested: rights.read")
        for width in (1440, 390):
            await page.set_viewport_size({"width": width, "height": 1100})
            await page.screenshot(
                path=ARTIFACTS / f"console-policy-{scheme}-{width}.png", full_page=True
            )
            over = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not await page.evaluate(over)
            for cell in await result.locator("tbody td").all():
                await expect(cell).to_be_visible()
                box = await cell.bounding_box()
                assert box is not None
                assert box["x"] + box["width"] <= width
        assert await page.locator("main img").count() == 0
        await text.fill(f"deny: 5\n'{EVIL}': 1\n")
        await page.click("[data-do=test]")
        await expect(page.locator("form .wrong")).to_contain_text("unknown key")
        await expect(result).to_have_count(0)
        # The browser reports the refusal, which is meant here.
        assert all("422" in each for each in seat.wrong)
        seat.wrong.clear()
        assert await page.locator("main img").count() == 0
        await page.click("text=Start again")
        await expect(text).to_have_value(re.compile("autonomy: conservative"))
        await expect(page.locator("form .wrong")).to_be_empty()
        await page.click("[data-do=test]")
        await expect(result).to_contain_text("Nothing changes.")
        await page.click("text=Start again")
        await expect(result).to_have_count(0)
        await page.click("[data-do=test]")
        await text.fill("deny: [write]")
        await page.click("[data-do=test]")
        await result.locator("a").first.click()
        await expect(page.locator(".crumbs .mono").first).to_contain_text(runs[1])

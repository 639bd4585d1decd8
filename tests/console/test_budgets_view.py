"""The page Budgets in Chromium: use, period and warning are shown, and an admin lifts one once."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from taofold import Agent, Budget, Policy
from taofold.core.values import Reply, Usage
from taofold.testing import FunctionModel
from tests.console.browser import seated

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
EVIL = "<img src=x onerror=alert(1)>"
BUDGETS = [
    Budget(per="principal", period="month", tokens=900),
    Budget(period="month", tokens=1200, name="house"),
    Budget(per="tag:team", period="month", usd=9.5, tokens=90_000),
]


@pytest.mark.parametrize("own", [True, False], ids=["any", "others only"])
async def test_a_budget_is_read_and_lifted_once(tmp_path: Path, own: bool) -> None:
    """Mutant: the form is shown for an amount that the caller may not lift."""
    policy = Policy(budgets=BUDGETS, own_approval=own)
    model = FunctionModel(lambda _: Reply("done", usage=Usage(1000, usd=0.5)), usd=(1.0, 1.0))
    agent = Agent(model, policy=policy, strategy="direct")
    async with seated(agent, tmp_path) as seat:
        page = seat.page
        run = await seat.client.start(tags={"team": EVIL})
        await seat.client.until(run, "finished")
        await seat.open("budgets")
        rows = page.locator("li.entry")
        await expect(rows).to_have_count(3)
        assert await page.locator("main img").count() == 0
        await expect(rows.nth(0)).to_contain_text("used up")
        await expect(rows.nth(0)).to_contain_text("1.0k of 900 tokens")
        await expect(rows.nth(1)).to_contain_text("nearly used up")
        await expect(rows.nth(1)).to_contain_text("per month, until 20")
        await expect(rows.nth(2)).to_contain_text(f"tag:team={EVIL}")
        await expect(rows.nth(2)).to_contain_text("$0.50 of $9.50")
        width = await rows.nth(1).locator(".meter rect").get_attribute("width")
        assert float(width or 0) == pytest.approx(83.33)
        if not own:
            for size in (1440, 390):
                await page.set_viewport_size({"width": size, "height": 900})
                await seat.keep(f"budgets-{size}")
            await expect(page.locator(".lift")).to_have_count(0)
            return
        await rows.nth(0).locator(".lift summary").click()
        await page.set_viewport_size({"width": 390, "height": 900})
        await seat.keep("budgets-lift-390")
        await page.set_viewport_size({"width": 1440, "height": 900})
        await seat.keep("budgets-lift-1440")
        await rows.nth(0).locator("[name=reason]").fill(f"a release {EVIL}")
        await rows.nth(0).locator("[data-do=lift]").click()
        await expect(page.locator(".lifted")).to_contain_text(f"by ann: a release {EVIL}")
        await expect(page.locator("li.entry").nth(0)).to_contain_text("1.0k of 1.8k tokens")
        await expect(page.locator("li.entry").nth(0).locator(".lift")).to_have_count(0)

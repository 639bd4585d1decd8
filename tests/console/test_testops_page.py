"""The rehearsal of the test-operations copilot in Chromium: its approvals are given on the page."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from taofold import Agent
from tests.console.browser import decide, seated

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


def rehearsed(office: Any) -> Agent[Any, Any]:
    """Returns the rehearsal with this office."""
    from testops.rehearsal import rehearsal

    return rehearsal(0.0, office)


async def begin(page: Page, about: str) -> None:
    """Starts a run in the dialog, which has the text about the agent."""
    await page.keyboard.press("n")
    await expect(page.locator("#about")).to_contain_text(about)
    await page.fill("#goal", "Why is checkout red?")
    await page.click("dialog button.primary")


async def test_both_changes_are_approved_on_the_page_and_arrive_in_jira(tmp_path: Path) -> None:
    """Mutants: the dialog counts all tools; the second card is not shown."""
    from testops.office import Office

    office = Office()
    issues = office.world["issues"]
    async with seated(rehearsed(office), tmp_path) as seat:
        page, card = seat.page, seat.page.locator(".card")
        await begin(page, "24 tools, 13 need a confirmation")
        await expect(card).to_contain_text("tier 2 · asks")
        await expect(card).to_contain_text("Open an issue: Refund of half a cent")
        await expect(page.locator(".call", has_text="jira_add_label")).to_contain_text(
            "without asking"
        )
        before = set(issues)
        await decide(card.locator("[data-do=approve]"))
        await expect(page.locator(".note", has_text="jira_create_issue")).to_be_visible()
        await expect(card).to_contain_text("tier 3 · confirmation")
        await expect(card).to_contain_text("Move SHOP-101 to Reopened")
        (made,) = set(issues) - before
        assert issues["SHOP-101"]["status"] == "Done"
        await seat.keep("testops")
        await decide(card.locator("[data-do=approve]"))
        await expect(page.locator(".answer .text")).to_contain_text("half to even")
        assert issues[made]["summary"].startswith("Refund of half a cent")
        assert issues["SHOP-101"]["status"] == "Reopened"


async def test_a_conservative_policy_asks_for_a_change_of_tier_one(tmp_path: Path) -> None:
    from testops.office import Office

    office = Office()
    agent = rehearsed(office)
    strict = agent.replace(policy=replace(agent.policy, autonomy="conservative"))
    async with seated(strict, tmp_path) as seat:
        await begin(seat.page, "24 tools, 16 need a confirmation")
        card = seat.page.locator(".card", has_text="jira_add_label")
        await expect(card).to_contain_text("tier 2 · asks")
        assert office.world["issues"]["SHOP-101"]["labels"] == ["rounding"]

"""The page Memory in Chromium: notes are read as text, corrected, pinned and deleted."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from taofold.memory import LogNotebooks, NotebookEntry, NotebookOwner
from tests.console.browser import seated
from tests.server.agents import Bench, finish

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
EVIL = "<img src=x onerror=alert(1)>"


async def test_a_note_is_read_corrected_pinned_and_deleted(tmp_path: Path) -> None:
    async with seated(Bench().agent(finish()), tmp_path) as seat:
        page, owner = seat.page, NotebookOwner("ann", "desk")
        store = LogNotebooks(seat.client.server.log)
        note = NotebookEntry("aaaa", f"Tea {EVIL}", origin="mixed", after=("read_page",))
        await store.add(owner, note, 10)
        await store.add(NotebookOwner("ben", "desk"), NotebookEntry("b", "Ben's note"), 10)
        await seat.open("memory")
        entry = page.locator(".note")
        await expect(entry).to_have_count(1)
        await expect(entry).to_contain_text(f"Tea {EVIL}")
        await expect(entry).to_contain_text("model, after reading read_page, unverified")
        assert await page.locator("main img").count() == 0
        await entry.locator("summary").click()
        await entry.locator("textarea").fill("Coffee.")
        await entry.locator("[data-do=save]").click()
        await expect(page.locator(".note .goal")).to_have_text("Coffee.")
        await expect(page.locator(".note")).to_contain_text("correction")
        if not await page.locator(".note[open]").count():
            await page.locator(".note summary").click()
        await page.locator("[data-do=pin]").click()
        await expect(page.locator(".note")).to_contain_text("pinned")
        page.on("dialog", lambda dialog: dialog.accept())
        if not await page.locator(".note[open]").count():
            await page.locator(".note summary").click()
        await page.locator("[data-do=forget]").click()
        await expect(page.locator("main")).to_contain_text("No notes yet")
        assert (await store.read(owner)).entries == ()

"""The page of a run in Chromium shows whether its records are signed, unsigned or changed."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import expect

from taofold import Agent
from taofold.log.signed import sign_run
from taofold.log.sqlite.log import SqliteLog
from taofold.testing import TestModel
from tests.console.browser import seated
from tests.evidence.keys import signer
from tests.server.live import QUICK

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
pytest.importorskip("cryptography")


async def test_the_verdict_on_a_run_is_shown(tmp_path: Path) -> None:
    """Mutant: a broken chain has the mark of an unsigned one."""
    settings = replace(QUICK, evidence_keys=(signer(1).public,))
    async with seated(Agent(TestModel()), tmp_path, server={"settings": settings}) as seat:
        run = await seat.client.start()
        await seat.client.until(run, "finished")
        proof = seat.page.locator(".proof")
        await seat.open(f"runs/{run}")
        await expect(proof.locator(".pill.unsigned")).to_have_text("unsigned")
        log = SqliteLog(tmp_path / "runs.db")
        await sign_run(log, run, signer(1))
        await log.close()
        await seat.page.reload()
        await expect(proof.locator(".pill.verified")).to_have_text("verified")
        await expect(proof).to_contain_text(f"signed with key {signer(1).keyid[:16]}")
        for size in (1440, 390):
            await seat.page.set_viewport_size({"width": size, "height": 900})
            await seat.keep(f"evidence-{size}")
        with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
            db.execute("update events set at = at + 1 where id & 4294967295 = 1")
        await seat.page.reload()
        await expect(proof.locator(".pill.broken")).to_have_text("broken")
        await expect(proof).to_contain_text("Evidence: broken: record 1")
        await expect(seat.page.locator(".run > .proof.broken[role=alert]")).to_be_visible()
        await seat.keep("evidence-broken-390")

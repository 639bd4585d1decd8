"""Ratings over HTTP: every principal that may see a run may rate it, and no other."""

from pathlib import Path

import pytest

from taofold.log.journal import MemoryJournal
from taofold.server.auth import TokenStore
from tests.server.agents import Bench, finish
from tests.server.live import serving

pytestmark = pytest.mark.anyio


async def test_a_run_is_rated_and_shown(tmp_path: Path) -> None:
    async with serving(
        Bench().agent(finish()), tmp_path / "r.db", journal=MemoryJournal(), folder=tmp_path
    ) as client:
        run = await client.start()
        await client.until(run)
        path = f"/runs/{run}/ratings"
        assert (await client.get(path)).json() == {"items": [], "kept": True}
        answer = await client.post(path, {"value": 0, "note": "it is 41"})
        (item,) = answer.json()["items"]
        assert (item["by"], item["value"], item["note"]) == ("local", 0.0, "it is 41")
        await client.post(path, {"value": 1})
        (item,) = (await client.get(path)).json()["items"]
        assert (item["value"], item["note"]) == (1.0, "")
        for wrong in ({}, {"value": 2}, {"value": "1"}, {"value": 1, "note": "x" * 2001}):
            assert (await client.post(path, wrong)).status_code == 422, wrong
        assert (await client.get("/runs/nobody/ratings")).status_code == 404
    assert '"rate"' in (tmp_path / "audit.jsonl").read_text()


async def test_others_neither_see_nor_rate_a_run(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    ann, bob = tokens.add("ann", ["USER"]), tokens.add("bob", ["USER"])
    viewer = tokens.add("ann", ["VIEWER"])
    options = {"journal": MemoryJournal(), "tokens": tokens, "token": ann}
    async with serving(Bench().agent(finish()), tmp_path / "r.db", **options) as client:
        run = await client.start()
        await client.until(run)
        path = f"/runs/{run}/ratings"
        for token, get, post in ((bob, 404, 404), (viewer, 200, 403), (ann, 200, 200)):
            headers = {"Authorization": f"Bearer {token}"}
            assert (await client.get(path, headers=headers)).status_code == get
            answer = await client.post(path, {"value": 1}, headers=headers)
            assert answer.status_code == post


async def test_a_server_without_a_journal_keeps_none(tmp_path: Path) -> None:
    async with serving(Bench().agent(finish()), tmp_path / "r.db") as client:
        run = await client.start()
        await client.until(run)
        shown = await client.get(f"/runs/{run}/ratings")
        assert shown.json() == {"items": [], "kept": False}
        assert (await client.post(f"/runs/{run}/ratings", {"value": 1})).status_code == 404

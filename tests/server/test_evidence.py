"""`GET /runs/{run}/evidence`: unsigned, verified, signed by another key, broken.

Mutants: the keys of the server are not used; a broken chain is reported as unsigned.
"""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taofold.core.values import Reply
from taofold.log.signed import sign_run
from taofold.log.sqlite.log import SqliteLog
from tests.evidence.keys import signer
from tests.server.agents import Bench, finish
from tests.server.live import QUICK, serving

pytestmark = pytest.mark.anyio
pytest.importorskip("cryptography")


async def sign(path: Path, run: str, seed: int) -> None:
    log = SqliteLog(path)
    try:
        await sign_run(log, run, signer(seed))
    finally:
        await log.close()


async def test_the_verdict_on_the_evidence_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    agent = Bench().agent(Reply(finish()))
    settings = replace(QUICK, evidence_keys=(signer(1).public,))
    async with serving(agent, path, settings=settings) as client:
        run = await client.start()
        await client.until(run, "finished")

        async def verdict() -> dict[str, Any]:
            answer = await client.get(f"/runs/{run}/evidence")
            assert answer.status_code == 200
            seen: dict[str, Any] = answer.json()
            return seen

        first = await verdict()
        assert (first["status"], first["signed"], first["first"]) == ("unsigned", 0, None)
        assert first["records"] > 3
        await sign(path, run, 2)
        other = await verdict()
        assert (other["status"], other["keys"]) == ("no_key", [signer(2).keyid[:16]])
        await sign(path, run, 1)
        own = await verdict()
        assert (own["status"], own["signed"]) == ("verified", own["records"])
        with closing(sqlite3.connect(path)) as db, db:
            changed = "update events set at = at + 1 where id & 4294967295 = 2"
            assert db.execute(changed).rowcount == 1
        broken = await verdict()
        assert (broken["status"], broken["first"]) == ("broken", 2)
        missing = await client.get("/runs/none/evidence")
        assert missing.status_code == 404

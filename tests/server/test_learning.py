"""Loops and patterns over HTTP: what is in the journal, for who may see it."""

from pathlib import Path

import pytest

from taofold.learning.patterns.kinds import ErrorFix, ErrorSignature, Fix
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.settings import Extraction
from taofold.log.journal import MemoryJournal
from taofold.log.patterns.stores import memory_registry
from taofold.loop import events as loop_events
from taofold.loop.stream import LoopStream
from taofold.loop.values import LoopRequest
from taofold.server.auth import TokenStore
from tests.server.agents import Bench, finish
from tests.server.live import serving

pytestmark = pytest.mark.anyio


async def test_loops_and_patterns_are_shown_to_the_local_principal(tmp_path: Path) -> None:
    journal = MemoryJournal()
    stream = LoopStream(journal, "ralph-fix-it-00000001")
    await stream.append(
        loop_events.LoopStarted(wish=LoopRequest("fix it", ("pytest",), "/work"), owner="me")
    )
    registry = memory_registry()
    draft = Pattern(
        "",
        "index off by one",
        ErrorFix(
            ErrorSignature("RuntimeError", "list index out of range", name="IndexError"),
            Fix("stop one element before the end of the list", "fix_logic_error"),
        ),
    )
    found = await registry.discover("ralph-fix-it-00000001", [draft], Extraction())
    agent = Bench().agent(finish())
    async with serving(agent, tmp_path / "r.db", journal=journal, registry=registry) as client:
        (loop,) = (await client.get("/loops")).json()["items"]
        assert (loop["id"], loop["task"]) == ("ralph-fix-it-00000001", "fix it")
        detail = (await client.get(f"/loops/{loop['id']}")).json()
        assert detail["commands"] == ["pytest"]
        assert detail["steps"] == []
        assert detail["gates"] == [{"command": "pytest", "passed": None, "passed_before": False}]
        (pattern,) = (await client.get("/patterns")).json()["items"]
        assert pattern["id"] == found[0].id
        shown = (await client.get(f"/patterns/{pattern['id']}")).json()
        assert shown["lineage"][0]["loop"] == "ralph-fix-it-00000001"
        figures = (await client.get("/patterns/metrics")).json()
        assert figures["total_patterns"] == 1
        for path in ("/loops/nobody", "/patterns/nobody"):
            assert (await client.get(path)).status_code == 404


async def test_a_person_retires_restores_and_rewrites_a_pattern(tmp_path: Path) -> None:
    registry = memory_registry()
    body = ErrorFix(ErrorSignature("RuntimeError", "it broke"), Fix("mend it"))
    (found,) = await registry.discover("loop-1", [Pattern("", "Broken", body)], Extraction())
    tokens = TokenStore(tmp_path / "tokens.json")
    root, alice = tokens.add("root", ["ADMIN"]), tokens.add("alice", ["USER"])
    options = {"journal": MemoryJournal(), "registry": registry, "tokens": tokens, "token": root}
    agent = Bench().agent(finish())
    async with serving(agent, tmp_path / "r.db", **options) as client:
        path = f"/patterns/{found.id}"
        retired = await client.post(f"{path}/retire", {"reason": "it misleads"})
        assert retired.json()["retired"] == "root: it misleads"
        assert (await registry.show(found.id)).retired
        restored = await client.post(f"{path}/restore", {})
        assert restored.json()["retired"] == ""
        assert (await client.post(f"{path}/restore", {})).status_code == 404

        known = (await client.get(path)).json()
        known["body"]["fix"]["description"] = "mend it with care and patience"
        new = {"name": "Broken again", "tags": ["x"], "body": known["body"]}
        edited = await client.post(f"{path}/edit", new)
        assert (edited.status_code, edited.json()["name"]) == (200, "Broken again")
        kept = (await client.get(path)).json()
        assert (kept["tags"], kept["body"]) == (["x"], known["body"])
        wrong = await client.post(f"{path}/edit", {**new, "body": {"fix": {"oops": 1}}})
        assert wrong.status_code == 422
        assert "it was not saved" in wrong.json()["detail"]
        assert (await client.post("/patterns/nobody/edit", new)).status_code == 404
        for action, said in (("retire", {"reason": "no"}), ("restore", {}), ("edit", new)):
            headers = {"Authorization": f"Bearer {alice}"}
            answer = await client.post(f"{path}/{action}", said, headers=headers)
            assert answer.status_code == 403, action
        assert (await client.get(path)).json() == kept


async def test_others_need_to_be_administrators(tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "tokens.json")
    alice, root = tokens.add("alice", ["USER"]), tokens.add("root", ["ADMIN"])
    agent = Bench().agent(finish())
    options = {"journal": MemoryJournal(), "registry": memory_registry(), "tokens": tokens}
    async with serving(agent, tmp_path / "r.db", **options) as client:
        for token, status in ((alice, 403), (root, 200)):
            for path in ("/loops", "/patterns", "/patterns/metrics"):
                headers = {"Authorization": f"Bearer {token}"}
                assert (await client.get(path, headers=headers)).status_code == status

"""Notebooks over HTTP: each caller reads and changes its own notes, with the rights of runs.

Mutants: `_owner` from a parameter; `right="read"` for `forget`; the text in the audit.
"""

from pathlib import Path
from typing import Any

import pytest

from taofold import Agent
from taofold.log.memory import MemoryLog
from taofold.memory import LogNotebooks, NotebookEntry, NotebookOwner
from taofold.server.auth import TokenStore
from taofold.testing import ScriptedModel
from tests.memory.conftest import act
from tests.server.live import serving

pytestmark = pytest.mark.anyio


async def noted(log: MemoryLog, principal: str, identity: str, text: str, **fields: Any) -> None:
    owner = NotebookOwner(principal, "desk")
    await LogNotebooks(log).add(owner, NotebookEntry(identity, text, **fields), 10)


def agent(log: MemoryLog) -> Agent[Any, Any]:
    replies = [act("remember", text="Tea at four."), "Noted."]
    return Agent(ScriptedModel(replies), name="desk", memory=True, log=log)


async def test_the_notes_of_a_run_are_listed_corrected_and_deleted(tmp_path: Path) -> None:
    log = MemoryLog()
    async with serving(agent(log), log, folder=tmp_path) as client:
        run = await client.start("Remember: Tea at four.")
        await client.until(run)
        [note] = (await client.get("/memory")).json()["items"]
        assert (note["text"], note["origin"], note["run"], note["agent"]) == (
            "Tea at four.",
            "model",
            run,
            "desk",
        )
        path = f"/memory/{note['id']}"
        answer = await client.post(f"{path}/edit", {"agent": "desk", "text": " Tea\nat five. "})
        assert answer.status_code == 200
        assert (answer.json()["text"], answer.json()["origin"]) == ("Tea at five.", "correction")
        assert answer.json()["earlier"] == ["Tea at four."]
        answer = await client.post(f"{path}/edit", {"agent": "desk", "pinned": True})
        assert answer.json()["pinned"]
        for wrong in (
            {"agent": "desk"},
            {"agent": "desk", "text": ""},
            {"agent": "desk", "text": "x" * 501},
            {"agent": "desk", "text": "x", "principal": "ben"},
            {"text": "x"},
        ):
            assert (await client.post(f"{path}/edit", wrong)).status_code == 422, wrong
        assert (await client.get("/memory?agent=other")).json() == {"items": []}
        assert (await client.post(f"{path}/forget", {"agent": "other"})).status_code == 404
        assert (await client.post(f"{path}/forget", {"agent": "desk"})).json() == {"id": note["id"]}
        assert (await client.get("/memory")).json() == {"items": []}
        assert (await client.post(f"{path}/forget", {"agent": "desk"})).status_code == 404
    audit = (tmp_path / "audit.jsonl").read_text()
    assert '"forget_note"' in audit
    assert '"edit_note"' in audit
    assert "Tea at" not in audit


async def test_others_neither_see_nor_change_a_note(tmp_path: Path) -> None:
    log = MemoryLog()
    await noted(log, "ann", "aaaa", "Ann's code word is heron.")
    tokens = TokenStore(tmp_path / "tokens.json")
    ann, viewer = tokens.add("ann", ["USER"]), tokens.add("ann", ["VIEWER"])
    bob, root = tokens.add("bob", ["USER"]), tokens.add("root", ["ADMIN"])
    body = {"agent": "desk", "text": "x"}
    async with serving(agent(log), log, tokens=tokens, token=ann) as client:
        for token in (bob, root):
            headers = {"Authorization": f"Bearer {token}"}
            for query in ("", "?agent=desk"):
                listed = await client.get(f"/memory{query}", headers=headers)
                assert listed.json() == {"items": []}
            assert (await client.get("/memory?principal=ann", headers=headers)).status_code == 422
            edited = await client.post("/memory/aaaa/edit", body, headers=headers)
            gone = await client.post("/memory/aaaa/forget", {"agent": "desk"}, headers=headers)
            assert (edited.status_code, gone.status_code) == (404, 404)
            assert "heron" not in edited.text + gone.text
        headers = {"Authorization": f"Bearer {viewer}"}
        assert len((await client.get("/memory", headers=headers)).json()["items"]) == 1
        answer = await client.post("/memory/aaaa/edit", body, headers=headers)
        assert answer.status_code == 403
        answer = await client.post("/memory/aaaa/forget", {"agent": "desk"}, headers=headers)
        assert answer.status_code == 403
        assert (await client.get("/memory")).json()["items"][0]["text"].endswith("heron.")


async def test_without_credentials_there_is_no_note(tmp_path: Path) -> None:
    log = MemoryLog()
    await noted(log, "local", "aaaa", "A note of the owner.")
    async with serving(agent(log), log, token="") as client:
        assert (await client.get("/memory")).status_code == 401
        answer = await client.post("/memory/aaaa/forget", {"agent": "desk"})
        assert answer.status_code == 401


async def test_guessed_secrets_in_a_note_are_masked_and_never_saved(tmp_path: Path) -> None:
    log = MemoryLog()
    await noted(log, "local", "aaaa", 'The login is password: "hunter2hunter2"')
    async with serving(agent(log), log) as client:
        assert "hunter2" not in (await client.get("/memory")).text
        body = {"agent": "desk", "text": 'Use password: "hunter3hunter3"'}
        answer = await client.post("/memory/aaaa/edit", body)
        assert "hunter3" not in answer.text
    page = await LogNotebooks(log).read(NotebookOwner("local", "desk"))
    assert "hunter3" not in page.entries[0].text

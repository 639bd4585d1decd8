"""The example of notebooks in mem0, over a fake with the documented methods of `mem0.Memory`.

Documented at docs.mem0.ai (open source, Python): `add(messages, user_id=, metadata=, infer=)`,
`get_all(user_id=, limit=)` and `search(query, user_id=, limit=)` with `{"results": [...]}`,
`delete(memory_id)`.
"""

import asyncio
import importlib.util
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from taofold import Memory
from taofold.core.errors import Refused
from taofold.log.memory import MemoryLog
from taofold.memory import NotebookEntry, NotebookOwner
from tests.memory.conftest import act
from tests.memory.test_runs import ADA, BEN, desk, prompt, results

OWNER = NotebookOwner("ada", "desk")
PATH = Path(__file__).parents[2] / "examples" / "mem0" / "notebooks.py"


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("mem0_example", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Mem0Notebooks


Mem0Notebooks: Any = _example()


class FakeMem0:
    """mem0's client: it stores raw texts with metadata, and filters by user."""

    def __init__(self, *, leaks: bool = False) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.leaks, self._numbers = leaks, count()

    def add(
        self,
        messages: list[dict[str, str]],
        *,
        user_id: str,
        metadata: dict[str, Any],
        infer: bool = True,
    ) -> dict[str, Any]:
        assert not infer, "mem0 would rewrite the text with its own model"
        [message] = messages
        row: dict[str, Any] = {
            "id": f"m{next(self._numbers)}",
            "memory": message["content"],
            "user_id": user_id,
            "metadata": metadata,
        }
        self.rows[row["id"]] = row
        return {"results": [{"id": row["id"], "memory": row["memory"], "event": "ADD"}]}

    def get_all(self, *, user_id: str, limit: int = 100) -> dict[str, Any]:
        rows = [row for row in self.rows.values() if self.leaks or row["user_id"] == user_id]
        return {"results": rows[:limit]}

    def search(self, query: str, *, user_id: str, limit: int = 100) -> dict[str, Any]:
        rows = self.get_all(user_id=user_id)["results"]
        return {
            "results": [{**row, "score": 0.5} for row in rows if query in row["memory"]][:limit]
        }

    def delete(self, memory_id: str) -> dict[str, str]:
        del self.rows[memory_id]
        return {"message": "Memory deleted successfully!"}


def test_entries_are_added_corrected_and_forgotten() -> None:
    client = FakeMem0()
    clock = count(1)
    store = Mem0Notebooks(client, now=lambda: next(clock))

    async def main() -> None:
        for _ in range(2):
            await store.add(OWNER, NotebookEntry("a", "first", origin="mixed"), 2)
        await store.add(OWNER, NotebookEntry("b", "second"), 2)
        with pytest.raises(Refused, match="full"):
            await store.add(OWNER, NotebookEntry("c", "third"), 2)
        page = await store.read(OWNER)
        assert [(e.id, e.text, e.origin) for e in page.entries] == [
            ("a", "first", "mixed"),
            ("b", "second", "model"),
        ]
        assert page.at(page.position) == page.entries
        changed = await store.correct(OWNER, "a", by="eve", text="better", pinned=True)
        assert (changed.text, changed.origin, changed.pinned) == ("better", "correction", True)
        await store.forget(OWNER, "a")
        assert [e.id for e in (await store.read(OWNER)).entries] == ["b"]
        assert "first" not in str(client.rows)
        assert "better" not in str(client.rows)
        with pytest.raises(Refused, match="no entry"):
            await store.forget(OWNER, "a")

    asyncio.run(main())


@pytest.mark.parametrize("leaks", [False, True])
def test_runs_remember_in_mem0_and_nothing_reaches_another_user(leaks: bool) -> None:
    log, memory = MemoryLog(), Memory(store=Mem0Notebooks(FakeMem0(leaks=leaks)))
    desk(log, act("remember", text="Herons are grey."), "x", memory=memory).run_sync(
        "Go.", principal=ADA
    )
    agent = desk(log, act("recall", query="grey"), "x", memory=memory)
    run = agent.run_sync("Go.", principal=ADA)
    assert "Herons are grey." in prompt(agent, run)
    assert results(run)[0][0]["note"] == "Herons are grey."
    other = desk(log, act("recall", query="grey"), "x", memory=memory)
    run = other.run_sync("Go.", principal=BEN)
    assert results(run)[0] == "no note matches"
    assert "Herons" not in prompt(other, run)


def test_rows_of_other_programs_are_left_alone() -> None:
    client = FakeMem0()
    client.add([{"role": "user", "content": "x"}], user_id=OWNER.stream, metadata={}, infer=False)
    assert asyncio.run(Mem0Notebooks(client).read(OWNER)).entries == ()

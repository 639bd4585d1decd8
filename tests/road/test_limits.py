"""A limit of as many steps as a road needs is enough: the last step may be the answer."""

import asyncio
import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from tests.road.conftest import MODELS, PROTOCOLS
from tests.road.entries import ENTRIES, Ended, Road, same
from tests.road.pairwise import rows
from tests.road.providers import Providers
from tests.road.test_matrix import STRATEGIES, coroutine
from tests.road.types import KINDS

NAMES = ("str", "list", "typed_dict")
ROADS = [
    Road(**row)
    for row in rows({
        "kind": [kind for kind in KINDS if kind.name in NAMES], "protocol": tuple(PROTOCOLS),
        "strategy": STRATEGIES, "entry": tuple(ENTRIES),
        "provider": [name for name in MODELS if name not in ("messages", "responses")],
    })
]  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Selects all rows with `--road all`, as `make test` does; else a few."""
    if "road" in metafunc.fixturenames:
        step = 1 if metafunc.config.getoption("--road") == "all" else 20
        metafunc.parametrize("road", ROADS[::step], ids=str)


def enter(road: Road, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ended:
    folder.mkdir()
    monkeypatch.chdir(folder)
    entered = ENTRIES[road.entry](road, folder / "runs.db")
    return asyncio.run(coroutine(entered)) if inspect.isawaitable(entered) else entered


def test_the_last_allowed_step_may_be_the_answer(
    road: Road, providers: Providers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = enter(road, tmp_path / "free", monkeypatch)
    needed = len(asyncio.run(free.agent.result(free.run)).steps)
    exact = enter(replace(road, steps=needed), tmp_path / "exact", monkeypatch)
    found = asyncio.run(exact.agent.result(exact.run))
    assert found.success
    assert same(found.output, road.kind.expected)
    assert len(found.steps) <= needed
    assert not providers.refused

"""For every entry point, the value equals a single validation of the model's JSON.

It holds for the returned value, and after reload from the log, replay and fork.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from taofold.parsing import Unparsed
from taofold.reasoning import Output
from tests.road.conftest import MODELS, PROTOCOLS
from tests.road.entries import ENTRIES, NOTHING, Ended, Road, same
from tests.road.mind import Asked, Said, fitted, reply
from tests.road.pairwise import rows
from tests.road.providers import Model, Providers
from tests.road.types import KINDS

STRATEGIES = ("direct", "react", "cot", "self_correct", "decompose", "plan")
COLUMNS = {
    "kind": KINDS,
    "protocol": tuple(PROTOCOLS),
    "strategy": STRATEGIES,
    "entry": tuple(ENTRIES),
    "provider": tuple(MODELS),
}
ROADS = [Road(**row) for row in rows(COLUMNS)]


def marked(road: Road) -> Any:
    """The row as a parameter."""
    return pytest.param(road, id=str(road))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Selects all rows with `--road all`, as `make test` does; else each fortieth."""
    if "road" in metafunc.fixturenames:
        step = 1 if metafunc.config.getoption("--road") == "all" else 40
        metafunc.parametrize("road", [marked(road) for road in ROADS[::step]])


def test_the_rows_hold_every_pair_of_values() -> None:
    for first, second in combinations(COLUMNS, 2):
        pairs = {(getattr(road, first), getattr(road, second)) for road in map(Named, ROADS)}
        assert len(pairs) == len(COLUMNS[first]) * len(COLUMNS[second])
    assert len(ROADS) < len(list(product(*COLUMNS.values()))) / 10


class Named:
    """A road whose values can be compared: kinds by their names."""

    def __init__(self, road: Road) -> None:
        self.__dict__ = {**vars(road), "kind": road.kind.name}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_json_of_each_kind_is_allowed_by_the_schema_of_its_type(kind: Any) -> None:
    schema = Output(kind.type).schema
    assert schema is None or fitted(kind.wire, schema) == kind.wire


def test_the_value_is_that_of_a_single_validation(
    road: Road, providers: Providers, tmp_path: Path
) -> None:
    entered = ENTRIES[road.entry](road, tmp_path / "runs.db")
    ended = asyncio.run(coroutine(entered)) if inspect.isawaitable(entered) else entered
    assert not providers.refused
    expected = road.kind.expected
    assert ended.value is NOTHING or same(ended.value, expected), ended.value
    asyncio.run(reread(ended, expected))
    assert not providers.refused


async def coroutine(entered: Awaitable[Ended]) -> Ended:
    return await entered


async def reread(ended: Ended, expected: Any) -> None:
    """Reload, replay and fork give the same value."""
    stored = await ended.agent.result(ended.run)
    assert same(stored.output, expected), ("result", stored.output)
    if not ended.replays:
        return
    replayed = await ended.agent.replay(ended.run)
    assert same(replayed.output, expected), ("replay", replayed.output)
    forked = await ended.agent.fork(ended.run)
    assert forked.success
    assert same(forked.output, expected), ("fork", forked.output)


WRONG = [["no", {"such": "answer"}]]
"""An answer that no kind but the loosest allows."""


def first_wrong(made: list[str]) -> Model:
    """The road's model, whose first `finish` holds an answer of the wrong type."""

    def model(asked: Asked) -> Said:
        said = reply(asked)
        if made:
            return said
        if said.call is not None and said.call[0] == "finish":
            made.append("native")
            return Said(said.text, ("finish", {"answer": WRONG}))
        if '"tool": "finish"' in said.text:
            made.append("text")
            step = json.loads(said.text)
            step["action"]["parameters"] = {"answer": WRONG}
            return Said(json.dumps(step))
        return said

    return model


MISTAKEN = {
    (road.protocol, road.provider): road
    for road in ROADS
    if road.strategy == "react" and isinstance(Output(road.kind.type).accept(WRONG), Unparsed)
}
"""One row for each protocol and provider whose type refuses `WRONG`."""


@pytest.mark.parametrize("mistaken", [marked(road) for road in MISTAKEN.values()])
def test_a_first_answer_of_the_wrong_type_is_refused_and_asked_again(
    mistaken: Road, providers: Providers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red with the mutant "`Output.read_finish` returns the answer without validation"."""
    made: list[str] = []
    monkeypatch.setattr(providers, "model", first_wrong(made))
    entered = ENTRIES[mistaken.entry](mistaken, tmp_path / "runs.db")
    ended = asyncio.run(coroutine(entered)) if inspect.isawaitable(entered) else entered
    assert made
    assert not providers.refused
    expected = mistaken.kind.expected
    assert ended.value is NOTHING or same(ended.value, expected), ended.value
    stored = asyncio.run(ended.agent.result(ended.run))
    assert same(stored.output, expected), stored.output

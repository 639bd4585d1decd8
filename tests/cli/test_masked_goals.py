"""A guessed secret in a goal is masked in every list of runs and loops."""

from pathlib import Path

import pytest

from taofold import Agent
from taofold.cli import options
from taofold.testing import TestModel
from tests.server.live import Client, serving
from tests.terminal import Taofold

GUESS = "Tr0ub4dor-x9"
GOAL = f"Log in with password={GUESS} and read."
VIEWS = (
    ("runs", "list"),
    ("runs", "list", "--json"),
    ("runs", "show", "last"),
    ("runs", "show", "last", "--json"),
    ("runs", "log", "last"),
)


def test_no_view_of_a_run_shows_it(taofold: Taofold) -> None:
    done = taofold("run", "agents.py:adder", GOAL)
    assert GUESS not in done.err
    for words in VIEWS:
        shown = taofold(*words).out
        assert "Log in with password=" in shown, words
        assert GUESS not in shown, words
    assert not any(GUESS in text for _, text in options.runs(""))


def test_no_view_of_a_loop_shows_it(taofold: Taofold) -> None:
    gate = ("--completion", "test -f notes.txt", "--in-place", "--approve", "all")
    done = taofold("loop", GOAL, "--agent", "agents.py:writer", *gate)
    assert GUESS not in done.err
    for words in (("list",), ("list", "--json"), ("status", "last"), ("report", "last")):
        shown = taofold("loops", *words)
        assert "Log in" in shown.out or "--json" in words, words
        assert GUESS not in shown.out + shown.err, words


@pytest.mark.anyio
async def test_no_answer_of_the_server_shows_it(tmp_path: Path) -> None:
    agent = Agent(TestModel(), name="agent")
    async with serving(agent, tmp_path / "runs.db") as client:
        run = await client.start(GOAL)
        await client.until(run)
        for path in ("/runs", f"/runs/{run}", f"/runs/{run}/state", f"/runs/{run}/events"):
            shown = (await client.get(path)).text
            assert GUESS not in shown, path


__all__ = ["Client"]

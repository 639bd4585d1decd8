"""For a task without a gate, the loop proposes one and the user confirms it."""

import asyncio
from pathlib import Path

import pytest

from taofold.cli.loops.start import Answers, Ask, gate, inferred_gate, questions


def person(*answers: str | None) -> tuple[Ask, list[str]]:
    """Returns a callback with these answers, and the list of its questions."""
    left, asked = list(answers), list[str]()

    async def ask(prompt: str) -> str | None:
        asked.append(prompt)
        return left.pop(0)

    return ask, asked


@pytest.mark.scenario("RLP-01")
@pytest.mark.parametrize(
    ("task", "files", "command"),
    [
        ("fix the tests", ("pyproject.toml",), "python -m pytest -q"),
        ("make lint pass", ("pyproject.toml",), "ruff check ."),
        ("fix types", ("pyproject.toml",), "mypy ."),
        ("fix types", ("tsconfig.json",), "npx tsc --noEmit"),
        ("fix the build", ("Cargo.toml",), "cargo build"),
        ("refactor the parser", ("pyproject.toml",), "python -m pytest -q"),
        ("make the tests pass", ("Cargo.toml",), "cargo test"),
    ],
)
def test_what_a_task_means_is_inferred_from_the_project(
    tmp_path: Path, task: str, files: tuple[str, ...], command: str
) -> None:
    for name in files:
        (tmp_path / name).write_text("")
    assert inferred_gate(task, tmp_path) == command


@pytest.mark.scenario("RLP-01")
def test_enter_confirms_the_inferred_gate_and_prose_is_asked_again(tmp_path: Path) -> None:
    ask, asked = person("")
    assert asyncio.run(gate(ask, "true", tmp_path)) == ("true",)
    assert "[enter = true]" in asked[0]
    ask, asked = person("", "the code is clean", "false")
    assert asyncio.run(gate(ask, "", tmp_path)) == ("false",)
    assert len(asked) == 3
    ask, _ = person(None)
    assert asyncio.run(gate(ask, "true", tmp_path)) == ()


def test_the_five_questions(tmp_path: Path) -> None:
    ask, asked = person("use the standard library", "", "the public names", "x", "7", "copy")
    said = asyncio.run(questions(ask, "Speed it up", ("true",), tmp_path))
    assert said == Answers(
        "Speed it up. use the standard library", ("true",), ("must be kept: the public names",),
        7, "copy",
    )  # fmt: skip
    assert [one[:3] for one in asked] == ["1/5", "2/5", "3/5", "4/5", "4/5", "5/5"]


def test_the_five_questions_ask_for_what_is_missing(tmp_path: Path) -> None:
    ask, _ = person("Speed it up", "true", "", "", "nowhere", "")
    said = asyncio.run(questions(ask, "", (), tmp_path))
    assert said == Answers("Speed it up", ("true",))

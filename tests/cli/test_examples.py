"""Examples that the program shows: commands in `--help`, and the files of `taofold init`."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from taofold.cli.app import app
from tests.terminal import Taofold

PROGRAM: Final = typer.main.get_command(app)
WITH_EXAMPLES: Final = ("run", "loop", "serve start", "eval", "check", "init")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    yield " ".join(path), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def examples(command: Any) -> list[str]:
    return re.findall(r"^  (taofold .*)$", command.epilog or "", re.MULTILINE)


def parse(example: str) -> None:
    """Parses the words of `example` as the program does, and invokes nothing."""
    words = shlex.split(re.split(r" [<>|] ", example)[0], comments=True)
    command: Any = PROGRAM
    context = command.make_context("taofold", words[1:])
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("path", WITH_EXAMPLES)
def test_the_main_commands_show_two_or_three_examples(path: str) -> None:
    command = dict(commands(PROGRAM))[path]
    shown = examples(command)
    assert len(shown) in (2, 3)
    assert all(len(line) <= 76 for line in shown), "they fit into 80 columns"


@pytest.mark.parametrize(
    "example", sorted({line for _, command in commands(PROGRAM) for line in examples(command)})
)
def test_every_example_in_help_parses(example: str) -> None:
    parse(example)


def test_an_example_with_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(Exception, match="--complete"):
        parse('taofold loop "fix it" --complete "make test"')


def test_help_shows_the_examples_indented(taofold: Taofold) -> None:
    assert "\n   taofold run agent.yaml" in taofold("run", "--help").out


def test_the_example_of_init_runs_without_a_key(taofold: Taofold, project: Path) -> None:
    done = taofold("init")
    lines = [line.strip() for line in done.err.splitlines()]
    shown = [line for line in lines if " run agent.yaml " in line]
    assert [line.partition(" --model ")[2] for line in shown] == [
        "",
        "openai:gpt-5",
        "ollama:llama3.2",
    ]
    for line in lines:
        if " run agent.yaml " in line or " check agent.yaml " in line:
            words = shlex.split(line)
            parse(shlex.join(["taofold", *words[words.index("agent.yaml") - 1 :]]))
    run = taofold(*shlex.split(shown[0])[-3:])
    assert run.code == 0, run.err
    assert run.out.strip() == "called count_words"
    assert taofold("run", "agent.yaml", "hello", "--model", "test:tools").code == 0


def test_the_file_of_init_names_the_same_commands(taofold: Taofold, project: Path) -> None:
    printed = taofold("init").err
    text = (project / "agent.yaml").read_text(encoding="utf-8")
    for words in ("export OPENAI_API_KEY=", "--model openai:gpt-5", "ollama pull llama3.2",
                  "--model ollama:llama3.2"):  # fmt: skip
        assert words in text
        assert words in printed

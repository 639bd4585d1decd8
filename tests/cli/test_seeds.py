"""docs/internals/seeds.md names only what there is: Python names, commands, actions."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

import taofold as package
from taofold.actions import build_actions_registry, reasoning_actions
from taofold.cli.app import app

PAGE = (Path(package.__file__).parents[2] / "docs" / "internals" / "seeds.md").read_text(
    encoding="utf-8"
)
CODE = re.findall(r"`([^`\n]+)`", PAGE)
NAMES = sorted({name for code in CODE for name in re.findall(r"\btaofold(?:\.\w+)+", code)})
ACTIONS = sorted({code for code in CODE if re.fullmatch(r"(reason|llm)\.\w+", code)})
COMMANDS = sorted({code for code in CODE if re.match(r"taofold [a-z]", code)})


def found(name: str) -> Any:
    """Resolves a dotted name: imports the module part and returns the object."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing: Any = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return thing
    raise LookupError(name)


def test_the_page_has_something_of_each_kind() -> None:
    assert len(NAMES) > 15
    assert len(ACTIONS) > 4
    assert len(COMMANDS) > 4


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_ours_is_there(name: str) -> None:
    assert found(name) is not None


@pytest.mark.scenario("TEA-34")
@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_of_the_page_is_registered(name: str) -> None:
    actions = reasoning_actions.build_actions_registry()
    assert actions[name].name == name
    assert reasoning_actions.build_actions_registry is build_actions_registry


@pytest.mark.parametrize("said", COMMANDS)
def test_a_command_of_the_page_is_there(said: str) -> None:
    command: Any = typer.main.get_command(app)
    words = said.split()[1:]
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, said
        command = command.commands[words.pop(0)]
    flags = {flag for one in command.params for flag in one.opts}
    assert {word for word in words if word.startswith("-")} <= flags, said

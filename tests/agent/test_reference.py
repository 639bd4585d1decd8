"""The page and the docstring of `Agent` name each of its arguments, with its default."""

import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from taofold import Agent

PAGE = Path(__file__).parents[2] / "docs" / "agent.md"
ARGUMENTS = [each for each in fields(Agent) if each.init]


def default(argument: Field[Any]) -> str:
    if argument.default is not MISSING:
        value: Any = argument.default
        text = value.__name__ if isinstance(value, type) else repr(value)
        return f"`{text}`".replace("'", '"')
    if argument.default_factory is MISSING:
        return "required"
    made = argument.default_factory()
    return "`{}`" if made == {} else f"`{type(made).__name__}()`"


def test_the_page_lists_every_argument_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| \[", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [(name, shown) for name, shown, _ in rows] == [
        (argument.name, default(argument)) for argument in ARGUMENTS
    ]


def test_help_lists_every_argument() -> None:
    doc = Agent.__doc__ or ""
    listed = re.findall(r"^        (\w+): ", doc.partition("Args:")[2], re.MULTILINE)
    assert listed == [argument.name for argument in ARGUMENTS]

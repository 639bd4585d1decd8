"""Reads docstrings (Google, NumPy, Sphinx and Epydoc style) for what a model should know.

Knows nothing about tools. A docstring that no style fits is a plain description.
"""

import inspect
from dataclasses import dataclass, field

from docstring_parser import ParseError, parse


@dataclass(frozen=True, slots=True)
class Docstring:
    """A description without the parameter sections, and what is said of each parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read(text: str | None) -> Docstring:
    """Reads one docstring; never raises."""
    clean = inspect.cleandoc(text or "")
    if not clean:
        return Docstring()
    try:
        parsed = parse(clean)
    except ParseError:
        return Docstring(clean)
    parts = (parsed.short_description, parsed.long_description)
    said = {
        parameter.arg_name.lstrip("*"): " ".join(parameter.description.split())
        for parameter in parsed.params
        if parameter.description
    }
    return Docstring("\n\n".join(part.strip() for part in parts if part), said)

"""Conditions in files: `state.score >= 0.8 and "ok" in state.text`.

A condition is one template expression whose value is converted to a bool. This module does not
depend on flows.
"""

from collections.abc import Mapping
from typing import Any, Final

from taofold.files.expressions.template import Template, Unrenderable

_LONGEST: Final = 2_000


class Condition:
    """A condition of a file, compiled.

    Args:
        source: The expression, with or without one pair of braces around it.

    Raises:
        Unrenderable: The source is no single expression, or uses what expressions may not.
    """

    def __init__(self, source: str) -> None:
        text = source.strip()
        if text.startswith("{{") and text.endswith("}}"):
            text = text[2:-2].strip()
        if len(text) > _LONGEST:
            raise Unrenderable(f"the condition is too long: {len(text)} characters")
        self.source = text
        self._template = Template(f"{{{{ {text} }}}}")
        if not self._template.is_expression:
            raise Unrenderable(f"the condition {text!r} is not one expression")
        self.names = self._template.names
        self.reads = self._template.reads
        """Variables of the state that must exist."""
        self.needs = self._template.needs
        """The variables of `reads` that every evaluation reads."""
        self.constants = self._template.constants
        """The file's `variables` that must exist."""

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Returns the truth value of the expression.

        Raises:
            Unrenderable: A name is undefined, the types do not fit, or a limit is exceeded.
        """
        return bool(self._template.render(variables))

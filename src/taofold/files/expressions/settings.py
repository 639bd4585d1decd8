"""Settings that are templates, as in `model: "{{ variables.default_model }}"`.

They are rendered once, when a file is read, from the file's `variables` and a few variables of the
environment. The state, answers of models and secrets cannot become a setting: the name of a
variable must end like a setting's name, and its value must not look like a secret.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.files.expressions.template import Template, Unrenderable, is_template
from taofold.policy.redaction.redactor import Redactor

_NAMES: Final = frozenset({"variables", "env"})
_ENDINGS: Final = ("MODEL", "PROVIDER", "DEPLOYMENT", "TEMPERATURE", "MAX_TOKENS", "EFFORT")
_READABLE: Final = re.compile(rf"(?:[A-Z0-9]+_)*(?:{'|'.join(_ENDINGS)})")
_DEEPEST: Final = 20


def resolved(value: Any, variables: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    """Returns a setting with its templates rendered.

    Args:
        value: Any JSON. Texts in it may be templates.
        variables: The file's constants.
        environment: Environment variables.

    Raises:
        Unrenderable: A template reads something else, or a value is missing.
    """
    return _resolved(value, variables, environment, 0)


def _resolved(
    value: Any, variables: Mapping[str, Any], environment: Mapping[str, str], depth: int
) -> Any:
    if depth > _DEEPEST:
        raise Unrenderable("the setting is nested too deep")
    if is_object(value):
        return {k: _resolved(v, variables, environment, depth + 1) for k, v in value.items()}
    if is_array(value):
        return [_resolved(entry, variables, environment, depth + 1) for entry in value]
    if not isinstance(value, str) or not is_template(value):
        return value
    template = Template(value)
    others = sorted(template.names - _NAMES)
    if others:
        raise Unrenderable(
            f"a setting is read once, when the file is loaded: it may use variables and env, "
            f"not {others[0]!r}"
        )
    names = {"variables": variables, "env": _readable(environment)}
    outcome = template.render(names)
    # A constant may be a template of the environment itself: `variables: {model: "{{ env.X }}"}`.
    return _resolved(outcome, variables, environment, depth + 1)


def _readable(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of the environment that a setting may read."""
    redactor = Redactor(guesses=True)
    return {
        name: text
        for name, text in environment.items()
        if _READABLE.fullmatch(name) and text and redactor.text(text) == text
    }

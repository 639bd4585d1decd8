"""Metrics: how good a prediction is, from 0 to 1, with a word of feedback for the prompt writer.

A metric is `exact_match`, `presence`, or a function of the worked case and the prediction, both
read as `case["answer"]` or `case.answer`; one of DSPy's with `trace`, `pred_name` and `pred_trace`
gets these too. It may return a bool, a number, a pair of number and feedback, or what DSPy's
metrics return. A teleprompter sees the same number that the function returned: whether a grade is
good enough to learn from is `metric_threshold`, or the function's own word where it gets a `trace`.
"""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from taofold.bridges.dspy.prompt import jsonable, written
from taofold.bridges.dspy.signature import Signature
from taofold.core.errors import ConfigError
from taofold.spec.names import is_name, load

Metric: TypeAlias = Callable[..., Any]
Judge: TypeAlias = Callable[..., "Score"]
"""A metric as it is called here: case, prediction, and by name what DSPy adds to them."""
_ADDED: Final = ("trace", "pred_name", "pred_trace")


class Score(NamedTuple):
    """From 0 to 1, and why it is not more."""

    value: float
    feedback: str = ""


def metric_of(named: str | Metric, signature: Signature) -> Judge:
    """The metric of that name, the function at `module:function`, or the function itself.

    Raises:
        ConfigError: there is none.
    """
    if callable(named):
        return _scored(named)
    if named in NAMED:
        names = [slot.name for slot in signature.outputs]
        compare = NAMED[named]
        return lambda case, made, **_: _all(compare, names, case, made)
    if not is_name(named):
        known = ", ".join([*NAMED, "module:function"])
        raise ConfigError(f"unknown metric {named!r}; known: {known}", path="metric")
    found: Any = load(named, Path.cwd())
    if not callable(found):
        raise ConfigError(f"{named!r} is no function", path="metric")
    return _scored(found)


def _scored(metric: Metric) -> Judge:
    taken = _taken(metric)

    def score(case: Any, made: Any, **added: Any) -> Score:
        return read_score(metric(case, made, **{k: v for k, v in added.items() if k in taken}))

    return score


def _taken(metric: Metric) -> frozenset[str]:
    """Which of DSPy's further arguments the function has. One of two arguments has none."""
    try:
        parameters = inspect.signature(metric).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return frozenset(_ADDED)
    return frozenset([one.name for one in parameters if one.name in _ADDED])


def read_score(given: Any) -> Score:
    """What a metric returned.

    Raises:
        ConfigError: it is no score.
    """
    if isinstance(given, tuple) and len(given) == 2:
        return Score(read_score(given[0]).value, str(given[1]))
    if not isinstance(given, bool | int | float):
        said = getattr(given, "score", None)
        if not isinstance(said, bool | int | float):
            raise ConfigError(f"a metric returns a number, not {given!r}", path="metric")
        return Score(float(said), str(getattr(given, "feedback", "") or ""))
    if given != given:  # NaN
        raise ConfigError("a metric returned NaN", path="metric")
    return Score(float(given))


def _exact(expected: Any, got: Any) -> bool:
    if isinstance(expected, str) or isinstance(got, str):
        return _folded(expected) == _folded(got)
    return bool(jsonable(expected) == jsonable(got))


def _present(expected: Any, got: Any) -> bool:
    return _folded(expected) in _folded(got)


def _folded(value: Any) -> str:
    return " ".join((value if isinstance(value, str) else written(value)).split()).casefold()


NAMED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "exact_match": _exact,
    "presence": _present,
}
"""`exact_match`: the same value, text without regard to case and spaces. `presence`: the
expected text occurs in the given one."""


def _all(compare: Callable[[Any, Any], bool], names: Sequence[str], case: Any, made: Any) -> Score:
    """Every expected output must be right."""
    for name in names:
        expected, got = _at(case, name), _at(made, name)
        if expected is not None and not compare(expected, got):
            return Score(0.0, f"{name} should be {written(expected)} but is {written(got)}")
    return Score(1.0, "right")


def _at(thing: Any, name: str) -> Any:
    """A field of a case or a prediction: an item, for `items` and `copy` are methods of both."""
    try:
        return thing[name]
    except (KeyError, TypeError, IndexError):
        return None if isinstance(thing, Mapping) else getattr(thing, name, None)

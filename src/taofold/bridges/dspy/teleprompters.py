"""Teleprompters: which of DSPy's there are, what they are given, and what they found out.

Models, metric and `num_threads=1` are ours; everything else is as DSPy has it. Those that cannot
work here are refused by name. Knows nothing about threads and runs.
"""

# DSPy has no types that a strict checker could use.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from taofold.bridges.dspy.engine import DspySession
from taofold.bridges.dspy.metrics import Judge
from taofold.core.errors import ConfigError
from taofold.spec.names import is_name, load

KNOWN: Final = (
    "BootstrapFewShot", "BootstrapFewShotWithRandomSearch", "MIPROv2", "GEPA", "COPRO", "SIMBA",
    "InferRules", "LabeledFewShot",
)  # fmt: skip
REFUSED: Final[Mapping[str, str]] = {
    "AvatarOptimizer": "it compiles dspy.Avatar, with tools outside the run's policy",
    "BetterTogether": "it trains a model's weights between prompts",
    "BootstrapFewShotWithOptuna": "it draws without a seed: a stopped compilation could not go on",
    "BootstrapFinetune": "it trains a model's weights, which a prompt cannot hold",
    "Ensemble": "it joins programs instead of compiling one",
    "GRPO": "it trains a model's weights, which a prompt cannot hold",
    "KNNFewShot": "it picks demos at every call by embeddings, so nothing is compiled",
    "SignatureOptimizer": "it is the old name of COPRO",
}
"""Teleprompters of DSPy's that cannot work here, and why."""
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {"GEPA": {"auto": "light"}}
_BOUNDS: Final = frozenset({"auto", "max_full_evals", "max_metric_calls"})
"""GEPA wants exactly one of them."""
_PERCENT: Final = frozenset({"BootstrapFewShotWithRandomSearch", "MIPROv2", "COPRO"})
"""They measure from 0 to 100; the others from 0 to 1."""
Factory: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Teleprompter:
    """A class of DSPy's or somebody's own, and what it is called."""

    make: Factory
    name: str

    def compile(
        self, session: DspySession, student: Any, given: Mapping[str, Any], judge: Judge,
        data: Mapping[str, Any],
    ) -> Any:  # fmt: skip
        """The student, compiled on `data`: `trainset` and perhaps `valset`.

        Raises:
            ConfigError: there is no such option.
        """
        built, later = _arguments(self, session, given, judge)
        kwargs = {**later, **data}
        method: Any = self.make(**built).compile
        return method(student, **{key: kwargs[key] for key in kwargs if _takes(method, key)})

    def measured(self, compiled: Any) -> float | None:
        """The score of the program that it chose, from 0 to 1, if it kept one."""
        score: Any = None
        kept: Any = getattr(compiled, "candidate_programs", None)
        if isinstance(kept, list) and kept and isinstance(kept[0], dict):
            score = kept[0].get("score")
        elif (results := getattr(compiled, "detailed_results", None)) is not None:
            score = max(results.val_aggregate_scores, default=None)
        if self.name == "MIPROv2":
            score = getattr(compiled, "score", score)
        if self.name not in KNOWN or not isinstance(score, int | float):
            return None
        return round(float(score) / (100 if self.name in _PERCENT else 1), 4)


def teleprompter_of(library: Any, named: str | Factory) -> Teleprompter:
    """The teleprompter of that name, at `module:Class`, or the class itself.

    Raises:
        ConfigError: there is none, or it cannot work here.
    """
    refuse(named)
    if not isinstance(named, str):
        return Teleprompter(named, getattr(named, "__name__", "custom"))
    if is_name(named):
        return Teleprompter(load(named, Path.cwd()), named)
    name = "MIPROv2" if named == "MIPRO" else named
    known = ", ".join([*KNOWN, "module:Class"])
    places = (library, getattr(library, "teleprompt", None))
    found = next((one for place in places if (one := getattr(place, name, None))), None)
    if not inspect.isclass(found) or not callable(getattr(found, "compile", None)):
        raise ConfigError(f"unknown teleprompter {named!r}; known: {known}", path=_AT)
    return Teleprompter(found, name)


_AT: Final = "teleprompter"


def refuse(named: str | Factory) -> None:
    """Raise ConfigError for one of DSPy's that cannot work here, given by name or as a class.

    Needs no DSPy, so it is said before anything has begun.
    """
    name = named if isinstance(named, str) else getattr(named, "__name__", "")
    own = isinstance(named, str) or getattr(named, "__module__", "").startswith("dspy.")
    if own and name in REFUSED:
        known = ", ".join([*KNOWN, "module:Class"])
        raise ConfigError(f"{name} cannot be used: {REFUSED[name]}; known: {known}", path=_AT)


def _arguments(
    teleprompter: Teleprompter, session: DspySession, given: Mapping[str, Any], judge: Judge
) -> tuple[dict[str, Any], dict[str, Any]]:
    """For the class and for its `compile`: what was given, and what every one of them needs."""
    fixed = {
        "metric": theirs(session, teleprompter.name, judge),
        "num_threads": 1,
        "prompt_model": session.other,
        "task_model": session.lm,
        "reflection_lm": session.other,
    }
    make, compile_ = teleprompter.make, getattr(teleprompter.make, "compile", None)
    taken, later = _parameters(make), _parameters(compile_)
    ours = {*fixed, "trainset", "valset", "eval_kwargs"}
    for key in given:
        if key in ours or key not in taken | later:
            known = ", ".join(sorted((taken | later) - ours - {"self", "student", "teacher"}))
            name = teleprompter.name
            raise ConfigError(f"{name} has no option {key!r}; it has {known}", path="options")
    defaults = dict(_DEFAULTS.get(teleprompter.name, {}))
    if _BOUNDS & set(given):
        defaults = {key: value for key, value in defaults.items() if key not in _BOUNDS}
    if teleprompter.name == "MIPROv2" and "num_candidates" in given:
        defaults["auto"] = None
    whole = {**defaults, **given, **fixed}
    both = {key for key in given if key in taken}
    return (
        {key: value for key, value in whole.items() if key in taken},
        {key: {"num_threads": 1} for key in later & {"eval_kwargs"}}
        | {key: value for key, value in given.items() if key in later and key not in both},
    )


def theirs(session: DspySession, name: str, judge: Judge) -> Any:
    """The metric as a teleprompter calls it. GEPA's reads the feedback; others want a number."""

    def graded(
        gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        score = judge(gold, pred, trace=trace, pred_name=pred_name, pred_trace=pred_trace)
        if not score.feedback:
            return score.value  # GEPA has words of its own for a grade without any
        return session.dspy.Prediction(score=score.value, feedback=score.feedback)

    def number(gold: Any, pred: Any, trace: Any = None) -> float:
        return judge(gold, pred, trace=trace).value

    return graded if name == "GEPA" else number


def _parameters(function: Any) -> set[str]:
    """The parameters by name; those of the classes that a class hands `**kwargs` on to, too."""
    if not inspect.isclass(function):
        return set(inspect.signature(function).parameters) if callable(function) else set()
    names: set[str] = set()
    for kind in function.__mro__:
        if "__init__" not in vars(kind) or kind is object:
            continue
        parameters = inspect.signature(vars(kind)["__init__"]).parameters
        rest = [name for name, one in parameters.items() if one.kind is one.VAR_KEYWORD]
        names |= parameters.keys() - set(rest)
        if not rest:
            break
    return names


def _takes(function: Any, key: str) -> bool:
    parameters = inspect.signature(function).parameters
    return key in parameters or any(
        one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()
    )

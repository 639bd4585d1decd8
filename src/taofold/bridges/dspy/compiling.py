"""Compiling: a teleprompter of DSPy's tries prompts on worked cases, through our models.

It runs in a thread like any program, so each of its model calls is an effect of the run: logged,
within the limits, and after a crash taken from the log. What it found is plain JSON.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from taofold.bridges.dspy.engine import Bench, bench
from taofold.bridges.dspy.line import Line, spoken
from taofold.bridges.dspy.metrics import Metric, Score, metric_of
from taofold.bridges.dspy.modules import module_of, stored
from taofold.bridges.dspy.native import STEPS
from taofold.bridges.dspy.program import Module, Program
from taofold.bridges.dspy.signature import Signature
from taofold.bridges.dspy.turns import Turns
from taofold.core.effects import Answer, Halt, Strategy, note
from taofold.core.errors import ConfigError
from taofold.core.values import Thought
from taofold.reasoning import Task
from taofold.reasoning.nested import closing
from taofold.spec.names import is_name, load

KNOWN: Final = ("BootstrapFewShot", "BootstrapFewShotWithRandomSearch", "MIPROv2", "GEPA")
COMPILED: Final = "dspy_compiled"
"""The note and the state's variable that hold compiled programs."""
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "GEPA": {"auto": "light"},
    "BootstrapFewShotWithRandomSearch": {"num_candidate_programs": 8},
}
_BOUNDS: Final = frozenset({"auto", "max_full_evals", "max_metric_calls"})
"""GEPA wants exactly one of them."""
Case = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Compile:
    """Compile a program on `training`. The answer is the program as JSON.

    Raises:
        ConfigError: there is no data, or a case lacks a field.
    """

    name: ClassVar[str] = "dspy_compile"
    signature: Signature
    training: Sequence[Case]
    validation: Sequence[Case] = ()
    module: Module = "cot"
    metric: str | Metric = "exact_match"
    teleprompter: str | Callable[..., Any] = "BootstrapFewShot"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the teleprompter and of its `compile`, under their own names."""
    key: str = "program"
    keep_better: bool = False
    """Go on with the program as it was if the compiled one scores less."""
    steps: int = STEPS
    temperature: float | None = None

    def __post_init__(self) -> None:
        if not self.training:
            raise ConfigError("has no cases: compiling needs worked examples", path="training_data")
        both = {"training_data": self.training, "validation_data": self.validation}
        for where, cases in both.items():
            for place, case in enumerate(cases):
                _check(self.signature, case, f"{where}.{place}")

    def __call__(self, task: Task) -> Strategy[Answer]:
        """The strategy for `task`."""
        return _story(self, task)


def _check(signature: Signature, case: Case, path: str) -> None:
    missing = [slot.name for slot in signature.inputs if slot.name not in case]
    if missing:
        raise ConfigError(f"lacks the input {missing[0]!r}", path=path)
    if not any(slot.name in case for slot in signature.outputs):
        raise ConfigError(f"has none of the outputs of {signature}", path=path)


def _story(options: Compile, task: Task) -> Strategy[Answer]:
    try:
        work = spoken(lambda line: _compiled(line, options, task), hushed=True)
        program = yield from Turns(task).run(work)
    except Halt as halt:
        return Answer(None, halt.reason)
    except Exception as error:  # noqa: BLE001 - whatever a teleprompter raises is how it ended
        return Answer(None, "error", f"compiling failed: {type(error).__name__}: {error}")
    exported = program.export()
    yield from note(COMPILED, key=options.key, program=exported)
    said = {"key": options.key, "version": program.version, "scores": program.scores}
    yield closing(Thought(f"{program.teleprompter} is done.", "synthesis", synthesized=True), said)
    return Answer(exported)


def _compiled(line: Line, options: Compile, task: Task) -> Program:
    with bench(line, temperature=options.temperature) as at:
        metric = metric_of(options.metric, options.signature)
        student = module_of(at, options.signature, options.module, task.offers, options.steps)
        training = _cases(at, options, options.training)
        validation = _cases(at, options, options.validation)
        make, name = teleprompter_of(at, options.teleprompter)
        judged = validation or training
        before = _score(student, judged, metric)
        if at.adapter is not None and not before.read:
            raise ConfigError("no reply of the model could be read: there is nothing to learn from")
        built, more = _arguments(at, make, name, options, metric)
        kwargs = more | {"trainset": training} | ({"valset": validation} if validation else {})
        compiled = make(**built).compile(student.deepcopy(), **_taken(make.compile, kwargs))
        after = _score(compiled, judged, metric)
        scores = {"before": before.mean, "after": after.mean}
        if validation:
            scores["training"] = _score(compiled, training, metric).mean
        kept = compiled
        if options.keep_better and after.mean < before.mean:
            kept, scores["kept"] = student, 0.0
        return replace(stored(kept, options.module, options.signature, name), scores=scores)


def _cases(at: Bench, options: Compile, cases: Sequence[Case]) -> list[Any]:
    inputs = [slot.name for slot in options.signature.inputs]
    return [at.dspy.Example(**case).with_inputs(*inputs) for case in cases]


@dataclass(frozen=True, slots=True)
class _Judged:
    mean: float
    read: bool


def _score(program: Any, cases: Sequence[Any], metric: Callable[[Any, Any], Score]) -> _Judged:
    """The mean over the cases; what fails scores nothing."""
    total, read = 0.0, False
    for case in cases:
        try:
            prediction = program(**case.inputs())
        except ConfigError:
            raise
        except Exception:  # noqa: BLE001, S112 - an unreadable reply is no answer
            continue
        read = True
        total += metric(case, prediction).value
    return _Judged(round(total / len(cases), 4), read)


def teleprompter_of(at: Bench, named: str | Callable[..., Any]) -> tuple[Any, str]:
    """The class and what it is called.

    Raises:
        ConfigError: there is none of this name.
    """
    if not isinstance(named, str):
        return named, getattr(named, "__name__", "custom")
    if is_name(named):
        return load(named, Path.cwd()), named
    name = "MIPROv2" if named == "MIPRO" else named
    found: Any = getattr(at.dspy, name, None) if name.isidentifier() else None
    if not inspect.isclass(found) or not callable(getattr(found, "compile", None)):
        known = ", ".join([*KNOWN, "module:Class"])
        raise ConfigError(f"unknown teleprompter {named!r}; known: {known}", path="teleprompter")
    return found, name


def _arguments(
    at: Bench, make: Any, name: str, options: Compile, metric: Callable[[Any, Any], Score]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """For the class and for its `compile`: what was given, and what every one of them needs."""
    given = dict(options.options)
    ours = {"metric", "trainset", "valset", "num_threads", "prompt_model", "task_model",
            "reflection_lm"}  # fmt: skip
    taken, later = _names(make), _names(make.compile)
    for key in given:
        if key in ours or key not in taken | later:
            known = ", ".join(sorted((taken | later) - ours - {"self", "student", "teacher"}))
            raise ConfigError(f"{name} has no option {key!r}; it has {known}", path="options")
    defaults = dict(_DEFAULTS.get(name, {}))
    if _BOUNDS & set(given):
        defaults = {key: value for key, value in defaults.items() if key not in _BOUNDS}
    if name == "MIPROv2" and "num_candidates" in given:
        defaults["auto"] = None
    fixed = {
        "metric": _theirs(at, name, metric),
        "num_threads": 1,
        "prompt_model": at.other,
        "task_model": at.lm,
        "reflection_lm": at.other,
    }
    whole = {**defaults, **given, **fixed}
    both = {key for key in given if key in taken and key in later}
    return (
        {key: value for key, value in whole.items() if key in taken},
        {k: v for k, v in given.items() if k in later and k not in both},
    )


def _names(function: Any) -> set[str]:
    target = function.__init__ if inspect.isclass(function) else function
    return set(inspect.signature(target).parameters)


def _taken(function: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the function has."""
    parameters = inspect.signature(function).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return dict(given)
    return {key: value for key, value in given.items() if key in parameters}


def _theirs(at: Bench, name: str, metric: Callable[[Any, Any], Score]) -> Any:
    """The metric as a teleprompter calls it. GEPA's reads the feedback; others want a number."""

    def graded(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None,
               pred_trace: Any = None) -> Any:  # fmt: skip
        score = metric(gold, pred)
        return at.dspy.Prediction(score=score.value, feedback=score.feedback)

    def number(gold: Any, pred: Any, trace: Any = None) -> Any:
        value = metric(gold, pred).value
        return value if trace is None else value >= 1.0

    return graded if name == "GEPA" else number

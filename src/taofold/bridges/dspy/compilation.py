"""Compilation of DSPy programs, and its metrics.

A DSPy teleprompter tries prompts on worked cases with taofold's models. It runs in a thread, and
each of its model calls is an effect of the run: logged, limited, and read from the log after a
crash. The result is plain JSON. Models, metric and `num_threads=1` are set here; everything else
has DSPy's defaults. Teleprompters that cannot work here are refused by name.

A metric scores a prediction from 0 to 1, with feedback for the model that writes prompts. It is
`exact_match`, `presence`, or a function of the worked case and the prediction. Both are read as
`case["answer"]` or `case.answer`. A function with the parameters `trace`, `pred_name` and
`pred_trace` gets them as in DSPy. A metric returns a bool, a number, a pair of number and feedback,
or a result of DSPy's metrics. The teleprompter sees the returned number unchanged.
`metric_threshold`, or the function itself if it gets a `trace`, decides which scores are good
enough to learn from.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from taofold.bridges.dspy.effects import EffectChannel, ProgramRequests, run_in_thread
from taofold.bridges.dspy.library import DspySession, module_of, session, stored_program
from taofold.bridges.dspy.program import Module, Program, as_json_text, jsonable
from taofold.bridges.dspy.signature import Signature
from taofold.bridges.dspy.signature import signature as signature_of
from taofold.bridges.dspy.strategies import STEPS
from taofold.core.effects import Answer, Halt, Strategy, note
from taofold.core.errors import ConfigError
from taofold.core.values import Thought
from taofold.files.python_references import is_name, load
from taofold.reasoning import Task
from taofold.reasoning.nested import closing

# Values are JSON of any shape or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false


Metric: TypeAlias = Callable[..., Any]
Judge: TypeAlias = Callable[..., "MetricScore"]
"""A metric as called here: case, prediction, and DSPy's further arguments by name."""
_ADDED: Final = ("trace", "pred_name", "pred_trace")


class MetricScore(NamedTuple):
    """A score from 0 to 1, with the reason for a lower score."""

    value: float
    feedback: str = ""


def metric_of(named: str | Metric, signature: Signature) -> Judge:
    """Returns the metric `named`: by its name, at `module:function`, or the function itself.

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
        choices = ", ".join([*NAMED, "module:function"])
        raise ConfigError(f"unknown metric {named!r}; known: {choices}", path="metric")
    loaded: Any = load(named, Path.cwd())
    if not callable(loaded):
        raise ConfigError(f"{named!r} is no function", path="metric")
    return _scored(loaded)


def _scored(metric: Metric) -> Judge:
    taken = _taken(metric)

    def score(case: Any, made: Any, **added: Any) -> MetricScore:
        # Only arguments that the function accepts: most metrics have two parameters.
        return read_score(metric(case, made, **{k: v for k, v in added.items() if k in taken}))

    return score


def _taken(metric: Metric) -> frozenset[str]:
    """Returns which of DSPy's further arguments the function accepts."""
    try:
        parameters = inspect.signature(metric).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset(_ADDED)
    return frozenset([parameter.name for parameter in parameters if parameter.name in _ADDED])


def read_score(given: Any) -> MetricScore:
    """Returns the score that a metric returned.

    Raises:
        ConfigError: The value is no score.
    """
    if isinstance(given, tuple) and len(given) == 2:
        return MetricScore(read_score(given[0]).value, str(given[1]))
    # DSPy's own metrics return a `Prediction` with `score` and `feedback`.
    if not isinstance(given, bool | int | float):
        score = getattr(given, "score", None)
        if not isinstance(score, bool | int | float):
            raise ConfigError(f"a metric returns a number, not {given!r}", path="metric")
        return MetricScore(float(score), str(getattr(given, "feedback", "") or ""))
    if given != given:  # NaN
        raise ConfigError("a metric returned NaN", path="metric")
    return MetricScore(float(given))


def _exact(expected: Any, got: Any) -> bool:
    # Both are compared as text, so that a model's "4" equals an expected 4.
    if isinstance(expected, str) or isinstance(got, str):
        return _folded(expected) == _folded(got)
    return bool(jsonable(expected) == jsonable(got))


def _present(expected: Any, got: Any) -> bool:
    return _folded(expected) in _folded(got)


def _folded(value: Any) -> str:
    return " ".join((value if isinstance(value, str) else as_json_text(value)).split()).casefold()


NAMED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "exact_match": _exact,
    "presence": _present,
}
"""`exact_match`: equal values; text ignores case and spaces. `presence`: the prediction contains
the expected text."""


def _all(
    compare: Callable[[Any, Any], bool], names: Sequence[str], case: Any, prediction: Any
) -> MetricScore:
    """Scores 1 if every expected output is right, else 0."""
    for name in names:
        expected, got = _at(case, name), _at(prediction, name)
        if expected is not None and not compare(expected, got):
            return MetricScore(
                0.0, f"{name} should be {as_json_text(expected)} but is {as_json_text(got)}"
            )
    return MetricScore(1.0, "right")


def _at(thing: Any, name: str) -> Any:
    """Returns a field of a case or a prediction.

    Items are read first, because both have methods such as `items` and `copy`.
    """
    try:
        return thing[name]
    except (KeyError, TypeError, IndexError):
        return None if isinstance(thing, Mapping) else getattr(thing, name, None)


KNOWN: Final = (
    "BootstrapFewShot",
    "BootstrapFewShotWithRandomSearch",
    "MIPROv2",
    "GEPA",
    "COPRO",
    "SIMBA",
    "InferRules",
    "LabeledFewShot",
)
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
"""DSPy's teleprompters that cannot work here, with the reason."""
_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {"GEPA": {"auto": "light"}}
_BOUNDS: Final = frozenset({"auto", "max_full_evals", "max_metric_calls"})
"""GEPA requires exactly one of these options."""
_PERCENT: Final = frozenset({"BootstrapFewShotWithRandomSearch", "MIPROv2", "COPRO"})
"""These teleprompters score from 0 to 100, all others from 0 to 1."""
Factory: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Teleprompter:
    """A teleprompter class, of DSPy or of the user, with its name."""

    make: Factory
    name: str

    def compile(
        self,
        session: DspySession,
        student: Any,
        given: Mapping[str, Any],
        judge: Judge,
        data: Mapping[str, Any],
    ) -> Any:
        """Returns the student compiled on `data`, which has `trainset` and optionally `valset`.

        Raises:
            ConfigError: An option is unknown.
        """
        built, later = _arguments(self, session, given, judge)
        kwargs = {**later, **data}
        method: Any = self.make(**built).compile
        return method(student, **{key: kwargs[key] for key in kwargs if _takes(method, key)})

    def measured(self, compiled: Any) -> float | None:
        """Returns the chosen program's score from 0 to 1, or None if it recorded none."""
        score: Any = None
        candidates: Any = getattr(compiled, "candidate_programs", None)
        if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
            score = candidates[0].get("score")
        elif (results := getattr(compiled, "detailed_results", None)) is not None:
            score = max(results.val_aggregate_scores, default=None)
        if self.name == "MIPROv2":
            score = getattr(compiled, "score", score)
        # The range of a foreign class, 1 or 100, is unknown.
        if self.name not in KNOWN or not isinstance(score, int | float):
            return None
        return round(float(score) / (100 if self.name in _PERCENT else 1), 4)


def teleprompter_of(library: Any, named: str | Factory) -> Teleprompter:
    """Returns the teleprompter `named`: by its name, at `module:Class`, or the class itself.

    Raises:
        ConfigError: The teleprompter does not exist or cannot work here.
    """
    refuse(named)
    if not isinstance(named, str):
        return Teleprompter(named, getattr(named, "__name__", "custom"))
    if is_name(named):
        return Teleprompter(load(named, Path.cwd()), named)
    name = "MIPROv2" if named == "MIPRO" else named
    choices = ", ".join([*KNOWN, "module:Class"])
    places = (library, getattr(library, "teleprompt", None))
    teleprompter = next(
        (candidate for module in places if (candidate := getattr(module, name, None))), None
    )
    if not inspect.isclass(teleprompter) or not callable(getattr(teleprompter, "compile", None)):
        raise ConfigError(f"unknown teleprompter {named!r}; known: {choices}", path=_AT)
    return Teleprompter(teleprompter, name)


_AT: Final = "teleprompter"


def refuse(named: str | Factory) -> None:
    """Raises `ConfigError` for a teleprompter of DSPy that cannot work here.

    Works without DSPy, so it is checked before the run begins.
    """
    name = named if isinstance(named, str) else getattr(named, "__name__", "")
    own = isinstance(named, str) or getattr(named, "__module__", "").startswith("dspy.")
    if own and name in REFUSED:
        choices = ", ".join([*KNOWN, "module:Class"])
        raise ConfigError(f"{name} cannot be used: {REFUSED[name]}; known: {choices}", path=_AT)


def _arguments(
    teleprompter: Teleprompter, session: DspySession, given: Mapping[str, Any], judge: Judge
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arguments of the class and of its `compile` method."""
    # Options that cannot be changed: models and metric go through the run, and a single thread
    # keeps it replayable.
    fixed = {
        "metric": theirs(session, teleprompter.name, judge),
        "num_threads": 1,
        "prompt_model": session.other,
        "task_model": session.lm,
        "reflection_lm": session.other,
    }
    make, compile_ = teleprompter.make, getattr(teleprompter.make, "compile", None)
    taken, later = _parameters(make), _parameters(compile_)
    options = (taken | later) - {*fixed, "trainset", "valset", "eval_kwargs"}
    strange = [key for key in given if key not in options]
    if strange:
        choices = ", ".join(sorted(options - {"self", "student", "teacher"}))
        name = teleprompter.name
        raise ConfigError(f"{name} has no option {strange[0]!r}; it has {choices}", path="options")
    whole = {**_defaults(teleprompter.name, given), **given, **fixed}
    # An option that both the class and `compile` accept goes to the class only.
    of_compile = {key: value for key, value in given.items() if key in later - taken}
    if "eval_kwargs" in later:
        of_compile["eval_kwargs"] = {"num_threads": 1}
    return {key: value for key, value in whole.items() if key in taken}, of_compile


def _defaults(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults for the teleprompter `name` that `options` do not replace."""
    defaults = dict(_DEFAULTS.get(name, {}))
    if _BOUNDS & set(options):
        defaults = {key: value for key, value in defaults.items() if key not in _BOUNDS}
    if name == "MIPROv2" and "num_candidates" in options:
        defaults["auto"] = None
    return defaults


def theirs(session: DspySession, name: str, judge: Judge) -> Any:
    """Returns the metric in the teleprompter's form: GEPA reads feedback, others need a number."""

    def graded(
        gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        score = judge(gold, pred, trace=trace, pred_name=pred_name, pred_trace=pred_trace)
        if not score.feedback:
            return score.value  # GEPA adds its own text to a score without feedback
        return session.dspy.Prediction(score=score.value, feedback=score.feedback)

    def number(gold: Any, pred: Any, trace: Any = None) -> float:
        return judge(gold, pred, trace=trace).value

    return graded if name == "GEPA" else number


def _parameters(function: Any) -> set[str]:
    """Returns the parameter names, including those of base classes that receive `**kwargs`."""
    if not inspect.isclass(function):
        return set(inspect.signature(function).parameters) if callable(function) else set()
    names: set[str] = set()
    for kind in function.__mro__:
        if "__init__" not in vars(kind) or kind is object:
            continue
        parameters = inspect.signature(vars(kind)["__init__"]).parameters
        rest = [
            name
            for name, parameter in parameters.items()
            if parameter.kind is parameter.VAR_KEYWORD
        ]
        names |= parameters.keys() - set(rest)
        if not rest:
            break
    return names


def _takes(function: Any, key: str) -> bool:
    parameters = inspect.signature(function).parameters
    return key in parameters or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


COMPILED: Final = "dspy_compiled"
"""Name of the note and of the state's variable that hold compiled programs."""
Case = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Compile:
    """A strategy that compiles a program on `training`. The answer is the program as JSON.

    Raises:
        ConfigError: There is no data, or a case lacks a field.
    """

    name: ClassVar[str] = "dspy_compile"
    signature: Signature | Any
    """A signature, or a `dspy.Signature` class, whose types DSPy checks."""
    training: Sequence[Case]
    validation: Sequence[Case] = ()
    module: Module = "cot"
    metric: str | Metric = "exact_match"
    teleprompter: str | Callable[..., Any] = "BootstrapFewShot"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of the teleprompter and of its `compile` method, under DSPy's names."""
    key: str = "program"
    score: bool = False
    """Score the program before and after. This costs two calls for each case of `validation`, else
    of `training`, and with `validation` one more for each case of `training`."""
    keep_better: bool = False
    """Return the original program if the compiled one scores lower. Implies `score`."""
    steps: int = STEPS
    temperature: float | None = None

    def __post_init__(self) -> None:
        if not self.training:
            raise ConfigError("has no cases: compiling needs worked examples", path="training_data")
        both = {"training_data": self.training, "validation_data": self.validation}
        for where, cases in both.items():
            for index, case in enumerate(cases):
                _check(self.own, case, f"{where}.{index}")
        refuse(self.teleprompter)

    @property
    def own(self) -> Signature:
        """Returns the signature as a value."""
        return signature_of(self.signature)

    def __call__(self, task: Task) -> Strategy[Answer]:
        """Returns the strategy for `task`."""
        return _compile(self, task)


def _check(signature: Signature, case: Case, path: str) -> None:
    missing = [slot.name for slot in signature.inputs if slot.name not in case]
    if missing:
        raise ConfigError(f"lacks the input {missing[0]!r}", path=path)
    if not any(slot.name in case for slot in signature.outputs):
        raise ConfigError(f"has none of the outputs of {signature}", path=path)


def _compile(options: Compile, task: Task) -> Strategy[Answer]:
    try:
        # Teleprompters print progress bars to standard output, which belongs to the caller.
        work = run_in_thread(lambda channel: _compiled(channel, options, task), hushed=True)
        program = yield from ProgramRequests(task).run(work)
    except Halt as halt:
        return Answer(None, halt.reason)
    except Exception as error:  # noqa: BLE001 - any error of a teleprompter ends the run
        return Answer(None, "error", f"compiling failed: {type(error).__name__}: {error}")
    exported = program.export()
    yield from note(COMPILED, key=options.key, program=exported)
    value = {"key": options.key, "version": program.version, "scores": program.scores}
    thought = Thought(f"{program.teleprompter} is done.", "synthesis", synthesized=True)
    yield closing(thought, value, task.output)
    return Answer(exported)


def _compiled(channel: EffectChannel, options: Compile, task: Task) -> Program:
    own = options.own
    with session(channel, temperature=options.temperature) as at:
        judge = metric_of(options.metric, own)
        student = module_of(at, options.signature, options.module, task.offers, options.steps)
        training = _cases(at, own, options.training)
        validation = _cases(at, own, options.validation)
        teleprompter = teleprompter_of(at.dspy, options.teleprompter)
        judged = validation or training
        scores: dict[str, float] = {}
        if options.score or options.keep_better:
            scores["before"] = _score(student, judged, judge)
            _refuse_unread(at)
        data = {"trainset": training} | ({"valset": validation} if validation else {})
        # Some teleprompters change the student, which is scored or kept later. So a copy is
        # compiled.
        compiled = teleprompter.compile(at, student.deepcopy(), options.options, judge, data)
        _refuse_unread(at)
        if (measured := teleprompter.measured(compiled)) is not None:
            scores["teleprompter"] = measured
        if options.score or options.keep_better:
            scores["after"] = _score(compiled, judged, judge)
            if validation:
                scores["training"] = _score(compiled, training, judge)
        best = compiled
        if options.keep_better and scores["after"] < scores["before"]:
            best, scores["kept"] = student, 0.0
        return replace(stored_program(best, options.module, own, teleprompter.name), scores=scores)


def _refuse_unread(at: DspySession) -> None:
    """Raises an error if no reply could be parsed: a teleprompter counts such replies as wrong."""
    if at.rendered.replies and not at.rendered.read:
        raise ConfigError("no reply of the model could be read: there is nothing to learn from")


def _cases(at: DspySession, signature: Signature, cases: Sequence[Case]) -> list[Any]:
    inputs = [slot.name for slot in signature.inputs]
    # One mapping, because a field may be named `base` like the first parameter.
    return [at.dspy.Example(dict(case)).with_inputs(*inputs) for case in cases]


def _score(program: Any, cases: Sequence[Any], judge: Judge) -> float:
    """Returns the mean score of the cases. A failed case scores 0."""
    total = 0.0
    for case in cases:
        try:
            prediction = program(**case.inputs())
        # An unusable metric is an error of configuration, not a wrong answer.
        except ConfigError:
            raise
        except Exception:  # noqa: BLE001, S112 - an unreadable reply is no answer
            continue
        total += judge(case, prediction).value
    return round(total / len(cases), 4)

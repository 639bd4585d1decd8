"""Compiling: a teleprompter of DSPy's tries prompts on worked cases, through our models; and the
metrics that it judges them by.

It runs in a thread like any program, so each of its model calls is an effect of the run: logged,
within the limits, and after a crash taken from the log. What it found is plain JSON. Models, metric
and `num_threads=1` are ours; everything else is as DSPy has it. Teleprompters that cannot work here
are refused by name.

A metric says how good a prediction is, from 0 to 1, with a word of feedback for the prompt writer.
It is `exact_match`, `presence`, or a function of the worked case and the prediction, both read as
`case["answer"]` or `case.answer`; one of DSPy's with `trace`, `pred_name` and `pred_trace` gets
these too. It may return a bool, a number, a pair of number and feedback, or what DSPy's metrics
return. A teleprompter sees the same number that the function returned: whether a grade is good
enough to learn from is `metric_threshold`, or the function's own word where it gets a `trace`.
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

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false


Metric: TypeAlias = Callable[..., Any]
Judge: TypeAlias = Callable[..., "MetricScore"]
"""A metric as it is called here: case, prediction, and by name what DSPy adds to them."""
_ADDED: Final = ("trace", "pred_name", "pred_trace")


class MetricScore(NamedTuple):
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
        choices = ", ".join([*NAMED, "module:function"])
        raise ConfigError(f"unknown metric {named!r}; known: {choices}", path="metric")
    loaded: Any = load(named, Path.cwd())
    if not callable(loaded):
        raise ConfigError(f"{named!r} is no function", path="metric")
    return _scored(loaded)


def _scored(metric: Metric) -> Judge:
    taken = _taken(metric)

    def score(case: Any, made: Any, **added: Any) -> MetricScore:
        # Only what the function has a parameter for:
        # metrics of two arguments are the usual ones.
        return read_score(metric(case, made, **{k: v for k, v in added.items() if k in taken}))

    return score


def _taken(metric: Metric) -> frozenset[str]:
    """Which of DSPy's further arguments the function has. One of two arguments has none."""
    try:
        parameters = inspect.signature(metric).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset(_ADDED)
    return frozenset([parameter.name for parameter in parameters if parameter.name in _ADDED])


def read_score(given: Any) -> MetricScore:
    """What a metric returned.

    Raises:
        ConfigError: it is no score.
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
    # A model's "4" is right for an expected 4: both are compared as text.
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
"""`exact_match`: the same value, text without regard to case and spaces. `presence`: the
expected text occurs in the given one."""


def _all(
    compare: Callable[[Any, Any], bool], names: Sequence[str], case: Any, prediction: Any
) -> MetricScore:
    """Every expected output must be right."""
    for name in names:
        expected, got = _at(case, name), _at(prediction, name)
        if expected is not None and not compare(expected, got):
            return MetricScore(
                0.0, f"{name} should be {as_json_text(expected)} but is {as_json_text(got)}"
            )
    return MetricScore(1.0, "right")


def _at(thing: Any, name: str) -> Any:
    """A field of a case or a prediction: an item, for `items` and `copy` are methods of both."""
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
        self,
        session: DspySession,
        student: Any,
        given: Mapping[str, Any],
        judge: Judge,
        data: Mapping[str, Any],
    ) -> Any:
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
        candidates: Any = getattr(compiled, "candidate_programs", None)
        if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
            score = candidates[0].get("score")
        elif (results := getattr(compiled, "detailed_results", None)) is not None:
            score = max(results.val_aggregate_scores, default=None)
        if self.name == "MIPROv2":
            score = getattr(compiled, "score", score)
        # Of an unknown class nobody knows whether it counts to 1 or to 100.
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
    """Raise ConfigError for one of DSPy's that cannot work here, given by name or as a class.

    Needs no DSPy, so it is said before anything has begun.
    """
    name = named if isinstance(named, str) else getattr(named, "__name__", "")
    own = isinstance(named, str) or getattr(named, "__module__", "").startswith("dspy.")
    if own and name in REFUSED:
        choices = ", ".join([*KNOWN, "module:Class"])
        raise ConfigError(f"{name} cannot be used: {REFUSED[name]}; known: {choices}", path=_AT)


def _arguments(
    teleprompter: Teleprompter, session: DspySession, given: Mapping[str, Any], judge: Judge
) -> tuple[dict[str, Any], dict[str, Any]]:
    """For the class and for its `compile`: what was given, and what every one of them needs."""
    # Ours, and not to be set: models and metric go
    # through the run, one thread keeps it replayable.
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
    # What the class and its `compile` both take is given to the class alone.
    of_compile = {key: value for key, value in given.items() if key in later - taken}
    if "eval_kwargs" in later:
        of_compile["eval_kwargs"] = {"num_threads": 1}
    return {key: value for key, value in whole.items() if key in taken}, of_compile


def _defaults(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Ours for the teleprompter `name`, without those that the given options stand in for."""
    defaults = dict(_DEFAULTS.get(name, {}))
    if _BOUNDS & set(options):
        defaults = {key: value for key, value in defaults.items() if key not in _BOUNDS}
    if name == "MIPROv2" and "num_candidates" in options:
        defaults["auto"] = None
    return defaults


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
"""The note and the state's variable that hold compiled programs."""
Case = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Compile:
    """Compile a program on `training`. The answer is the program as JSON.

    Raises:
        ConfigError: there is no data, or a case lacks a field.
    """

    name: ClassVar[str] = "dspy_compile"
    signature: Signature | Any
    """A signature, or a `dspy.Signature` class, whose types DSPy then checks."""
    training: Sequence[Case]
    validation: Sequence[Case] = ()
    module: Module = "cot"
    metric: str | Metric = "exact_match"
    teleprompter: str | Callable[..., Any] = "BootstrapFewShot"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of the teleprompter and of its `compile`, under their own names."""
    key: str = "program"
    score: bool = False
    """Score the program before and after, which costs two calls for each judged case (those of
    `validation`, else of `training`) and one more for each of `training` beside `validation`."""
    keep_better: bool = False
    """Go on with the program as it was if the compiled one scores less. Implies `score`."""
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
        """The signature as JSON."""
        return signature_of(self.signature)

    def __call__(self, task: Task) -> Strategy[Answer]:
        """The strategy for `task`."""
        return _compile(self, task)


def _check(signature: Signature, case: Case, path: str) -> None:
    missing = [slot.name for slot in signature.inputs if slot.name not in case]
    if missing:
        raise ConfigError(f"lacks the input {missing[0]!r}", path=path)
    if not any(slot.name in case for slot in signature.outputs):
        raise ConfigError(f"has none of the outputs of {signature}", path=path)


def _compile(options: Compile, task: Task) -> Strategy[Answer]:
    try:
        # Hushed: teleprompters print progress bars to standard output, which is the caller's.
        work = run_in_thread(lambda channel: _compiled(channel, options, task), hushed=True)
        program = yield from ProgramRequests(task).run(work)
    except Halt as halt:
        return Answer(None, halt.reason)
    except Exception as error:  # noqa: BLE001 - whatever a teleprompter raises is how it ended
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
        # A copy is compiled: some teleprompters change the
        # student, which is still to be scored or kept.
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
    """A teleprompter takes replies that nobody can read for wrong answers, and goes on."""
    if at.rendered.replies and not at.rendered.read:
        raise ConfigError("no reply of the model could be read: there is nothing to learn from")


def _cases(at: DspySession, signature: Signature, cases: Sequence[Case]) -> list[Any]:
    inputs = [slot.name for slot in signature.inputs]
    # Given as one mapping: a field may be called `base`, as the first parameter is.
    return [at.dspy.Example(dict(case)).with_inputs(*inputs) for case in cases]


def _score(program: Any, cases: Sequence[Any], judge: Judge) -> float:
    """The mean over the cases; what fails scores nothing."""
    total = 0.0
    for case in cases:
        try:
            prediction = program(**case.inputs())
        # A metric that cannot be used is no wrong answer.
        except ConfigError:
            raise
        except Exception:  # noqa: BLE001, S112 - an unreadable reply is no answer
            continue
        total += judge(case, prediction).value
    return round(total / len(cases), 4)

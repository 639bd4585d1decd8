"""Compiling: a teleprompter of DSPy's tries prompts on worked cases, through our models.

It runs in a thread like any program, so each of its model calls is an effect of the run: logged,
within the limits, and after a crash taken from the log. What it found is plain JSON.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from taofold.bridges.dspy.engine import DspySession, session
from taofold.bridges.dspy.metrics import Judge, Metric, metric_of
from taofold.bridges.dspy.modules import module_of, stored
from taofold.bridges.dspy.native import STEPS
from taofold.bridges.dspy.program import Module, Program
from taofold.bridges.dspy.requests import ProgramRequests
from taofold.bridges.dspy.signature import Signature
from taofold.bridges.dspy.signature import signature as signature_of
from taofold.bridges.dspy.teleprompters import refuse, teleprompter_of
from taofold.bridges.dspy.thread import Channel, threaded
from taofold.core.effects import Answer, Halt, Strategy, note
from taofold.core.errors import ConfigError
from taofold.core.values import Thought
from taofold.reasoning import Task
from taofold.reasoning.nested import closing

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
            for place, case in enumerate(cases):
                _check(self.own, case, f"{where}.{place}")
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
        work = threaded(lambda channel: _compiled(channel, options, task), hushed=True)
        program = yield from ProgramRequests(task).run(work)
    except Halt as halt:
        return Answer(None, halt.reason)
    except Exception as error:  # noqa: BLE001 - whatever a teleprompter raises is how it ended
        return Answer(None, "error", f"compiling failed: {type(error).__name__}: {error}")
    exported = program.export()
    yield from note(COMPILED, key=options.key, program=exported)
    value = {"key": options.key, "version": program.version, "scores": program.scores}
    thought = Thought(f"{program.teleprompter} is done.", "synthesis", synthesized=True)
    yield closing(thought, value)
    return Answer(exported)


def _compiled(channel: Channel, options: Compile, task: Task) -> Program:
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
        compiled = teleprompter.compile(at, student.deepcopy(), options.options, judge, data)
        _refuse_unread(at)
        if (measured := teleprompter.measured(compiled)) is not None:
            scores["teleprompter"] = measured
        if options.score or options.keep_better:
            scores["after"] = _score(compiled, judged, judge)
            if validation:
                scores["training"] = _score(compiled, training, judge)
        kept = compiled
        if options.keep_better and scores["after"] < scores["before"]:
            kept, scores["kept"] = student, 0.0
        return replace(stored(kept, options.module, own, teleprompter.name), scores=scores)


def _refuse_unread(at: DspySession) -> None:
    """A teleprompter takes replies that nobody can read for wrong answers, and goes on."""
    if at.rendered.asked and not at.rendered.read:
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
        except ConfigError:
            raise
        except Exception:  # noqa: BLE001, S112 - an unreadable reply is no answer
            continue
        total += judge(case, prediction).value
    return round(total / len(cases), 4)

"""DSPy programs: compiled by its teleprompters with taofold's models, run with or without DSPy.

    from taofold.bridges import dspy

    made = await dspy.compile("question -> answer: int", cases, model="openai:gpt-5")
    said = await dspy.cot("2 + 3", program=made.program, model="openai:gpt-5")

`cot` and `react` run a program. `compile` and `optimize` find better prompts for it. Each call is
one run of an `Agent`. `list_compiled` returns the programs that a run compiled. `actions` offers
the same functions to nodes of a flow. A program (`program`) is plain JSON. A strategy
(`strategies`) runs it, and `effects` turns its calls into effects of the run. `library` adapts
taofold to DSPy's interfaces, and `compilation` runs a teleprompter.

DSPy (`pip install 'taofold[dspy]'`) is imported on first use.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from typing_extensions import Unpack

from taofold.agent import Agent
from taofold.bridges.dspy.compilation import COMPILED, Case, Compile, Metric
from taofold.bridges.dspy.library import dspy, missing
from taofold.bridges.dspy.program import (
    Module,
    Predictor,
    Program,
    from_dspy,
    imported,
    plain_program,
)
from taofold.bridges.dspy.signature import Signature, Slot, is_class, signature
from taofold.bridges.dspy.signature import signature as signature_of
from taofold.bridges.dspy.strategies import STEPS, Compiled, Through, answer_type, program_strategy
from taofold.core.effects import Strategy
from taofold.core.errors import ConfigError, Refused, RunError
from taofold.core.events import Noted, Record
from taofold.core.state import live
from taofold.policy import Limits
from taofold.reason import Options, Reasoned
from taofold.reasoning import Task
from taofold.reasoning import react as native_react
from taofold.runtime.model import ModelSpec

__all__ = [
    "Compilation",
    "Compile",
    "Compiled",
    "Predictor",
    "Program",
    "Signature",
    "Slot",
    "Through",
    "compile",
    "cot",
    "from_dspy",
    "imported",
    "list_compiled",
    "optimize",
    "program_strategy",
    "react",
    "signature",
]

_AT_RUN: Final = ("deps", "principal", "run_id", "listener")
_CALLS: Final = Limits(steps=None, model_calls=2000)
"""Default limits of a compilation."""


@dataclass(frozen=True)
class Compilation:
    """A compiled program and the run that compiled it."""

    program: Program
    run: Reasoned[Any]

    @property
    def scores(self) -> Mapping[str, float]:
        """Scores from 0 to 1.

        `teleprompter` is the teleprompter's own measurement, if it has one. The option `score` adds
        `before`, `after` and, with a validation set, `training`.
        """
        return self.program.scores


async def cot(
    inputs: str | Mapping[str, Any],
    *,
    model: ModelSpec,
    signature: str | Signature | type = "question -> answer",
    program: Program | Mapping[str, Any] | None = None,
    module: Module = "cot",
    adapter: str = "taofold",
    **options: Unpack[Options],
) -> Reasoned[Any]:
    """Runs a chain of thought (or `module="predict"`), with DSPy if it is installed.

    Raises:
        ConfigError: the signature is none, or the program is not whole.
    """
    own, compiled = _given(signature, program)
    kind = compiled.module if compiled else module
    data = _named(own, inputs)
    strategy: Callable[[Task], Strategy[Any]]
    if missing():
        strategy = Compiled(program=compiled or plain_program(own, kind), inputs=data)
    else:
        # A `dspy.Signature` class is passed unchanged, so that DSPy checks its types.
        whole = own if compiled else signature
        strategy = Through(
            signature=whole, module=kind, program=compiled, inputs=data, adapter=adapter
        )
    return await _run("dspy.cot", strategy, str(inputs), model, Limits(), options)


async def react(
    inputs: str | Mapping[str, Any],
    *,
    model: ModelSpec,
    signature: str | Signature | type = "goal -> answer",
    program: Program | Mapping[str, Any] | None = None,
    max_steps: int = STEPS,
    **options: Unpack[Options],
) -> Reasoned[Any]:
    """Runs tools in a loop, with DSPy if it is installed, else as a compiled program or ReAct.

    Raises:
        ConfigError: the signature is none, or the program is not whole.
    """
    own, compiled = _given(signature, program)
    data = _named(own, inputs)
    strategy: Callable[[Task], Strategy[Any]] = native_react
    output = Any
    if not missing():
        whole = own if compiled else signature
        strategy = Through(
            signature=whole, module="react", program=compiled, inputs=data, steps=max_steps
        )
    elif compiled is not None:
        strategy = Compiled(program=compiled, inputs=data, steps=max_steps)
    else:
        output = answer_type(own)
    limits = Limits(steps=max_steps + 2)
    return await _run("dspy.react", strategy, str(inputs), model, limits, options, output)


async def compile(  # noqa: A001 - DSPy's word
    signature: str | Signature | type,
    training: Sequence[Case],
    *,
    model: ModelSpec,
    prompt_model: ModelSpec | None = None,
    validation: Sequence[Case] = (),
    module: Module = "cot",
    metric: str | Metric = "exact_match",
    teleprompter: str | Callable[..., Any] = "BootstrapFewShot",
    teleprompter_options: Mapping[str, Any] | None = None,
    key: str = "program",
    score: bool = False,
    keep_better: bool = False,
    resume: str = "",
    **options: Unpack[Options],
) -> Compilation:
    """Finds better prompts from worked cases. `optimize` also keeps the better of both programs.

    Makes the same model calls as the teleprompter would make in DSPy alone.

    Args:
        signature: A text, a `Signature`, or a `dspy.Signature` class.
        training: Worked cases: mappings of field names to values.
        model: The model that answers the cases.
        prompt_model: The model that writes instructions (MIPROv2, GEPA, COPRO …). Default: `model`.
        validation: Cases for scoring. Default: those of `training`, as in DSPy.
        module: predict, cot or react.
        metric: exact_match, presence, `module:function`, or a function.
        teleprompter: one of DSPy's, `module:Class`, or a class.
        teleprompter_options: Options of its class and of its `compile` method, under DSPy's names.
        key: The program's name in the log.
        score: Also score the program before and after. This costs two more calls for each scored
            case, and one for each case of `training` if there is `validation`.
        keep_better: Keep the original program if the compiled one scores lower. Implies `score`.
        resume: Run id of a compilation that was killed or stopped. Replies in its log are reused if
            all other arguments are the same. A finished run returns its program at once.
        **options: Options of `taofold.reason`: `log`, `limits`, `tools`, `run_id` …

    Raises:
        ConfigError: DSPy is missing, there are no cases, or a case lacks a field.
        RunError: The run ended without a program, by a limit or an error of the teleprompter.
    """
    own = signature_of(signature)
    strategy = Compile(
        signature=signature if is_class(signature) else own,
        training=training,
        validation=validation,
        module=module,
        metric=metric,
        teleprompter=teleprompter,
        options=teleprompter_options or {},
        key=key,
        score=score,
        keep_better=keep_better,
    )
    # Raise a missing DSPy before the run begins, so that no run is logged.
    dspy()
    if prompt_model is not None:
        options["models"] = {**options.get("models", {}), "critic": prompt_model}
    goal = f"compile {own}"
    run = await _run("dspy.compile", strategy, goal, model, _CALLS, options, resume=resume)
    if not run.success:
        raise RunError(f"nothing was compiled ({run.stop_reason}): {run.error}")
    return Compilation(imported(run.answer), run)


async def optimize(
    signature: str | Signature | type, training: Sequence[Case], **options: Any
) -> Compilation:
    """Compiles and scores the program; returns the original one if it scores higher."""
    return await compile(signature, training, keep_better=True, **options)


def list_compiled(records: Iterable[Record]) -> dict[str, Program]:
    """Returns the programs that a run compiled or imported by key, the last one of each key."""
    programs: dict[str, Program] = {}
    for record in live(tuple(records)):
        event = record.event
        if isinstance(event, Noted) and event.kind == COMPILED:
            programs[str(event.data["key"])] = imported(event.data["program"])
    return programs


def _given(
    written: str | Signature | type, program: Program | Mapping[str, Any] | None
) -> tuple[Signature, Program | None]:
    if program is None:
        return signature_of(written), None
    compiled = program if isinstance(program, Program) else imported(program)
    return compiled.signature, compiled


def _named(own: Signature, inputs: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(inputs, str):
        return inputs
    if len(own.inputs) != 1:
        raise ConfigError(f"{own} has several inputs: give a mapping", path="inputs")
    return {own.inputs[0].name: inputs}


async def _run(
    name: str,
    strategy: Callable[[Task], Strategy[Any]],
    goal: str,
    model: ModelSpec,
    limits: Limits,
    options: Options,
    output: Any = Any,
    resume: str = "",
) -> Reasoned[Any]:
    agent_options = cast("dict[str, Any]", dict(options))
    at_run = {key: agent_options.pop(key) for key in _AT_RUN if key in agent_options}
    agent_options.setdefault("limits", limits)
    agent: Agent[Any, Any] = Agent(
        model, name=name, output=output, strategy=strategy, **agent_options
    )
    if not resume:
        return Reasoned(await agent.run(goal, **at_run))
    # A resumed run keeps its id.
    at_run.pop("run_id", None)
    try:
        return Reasoned(await agent.resume(resume, **at_run))
    except Refused:  # the run has ended: its result is in the log
        ended = await agent.replay(resume)
        if ended.status != "finished":
            raise
        return Reasoned(ended)

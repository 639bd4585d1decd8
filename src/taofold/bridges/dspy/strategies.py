"""Compiled programs and DSPy's modules as strategies.

`Compiled` runs a program without DSPy. Its prompts equal the compiled ones byte for byte, because
`PredictorPrompt` renders both. `Through` runs a DSPy module made from a signature.
`program_strategy` runs any DSPy module in a thread and turns its calls into effects of the run.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from taofold.bridges.dspy.effects import (
    DONE,
    EffectChannel,
    ModelRequest,
    ProgramRequests,
    ToolRequest,
    run_in_thread,
    values_of,
)
from taofold.bridges.dspy.library import load_module, module_of, session
from taofold.bridges.dspy.program import (
    ARGUMENTS,
    REASONING,
    SO_FAR,
    THOUGHT,
    TOOL,
    Module,
    Predictor,
    PredictorPrompt,
    Program,
    field_texts,
    jsonable,
    prompt_of,
)
from taofold.bridges.dspy.signature import Signature, Slot
from taofold.bridges.dspy.signature import signature as signature_of
from taofold.core.effects import Answer, Halt, Strategy
from taofold.core.values import FINISH, JSON, Thought
from taofold.files.types import type_of
from taofold.parsing import Unparsed
from taofold.reasoning import Task
from taofold.reasoning.nested import closing

STEPS: Final = 10
"""Default number of tool calls of a ReAct program."""
_FITS: Final = 3
"""Maximum attempts to shorten a trajectory that exceeds the context window."""
_STEP: Final = 4
"""Entries of one tool call in a trajectory."""


class Unanswered(Exception):
    """The program cannot continue; the message has the reason."""


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A compiled program as a strategy: `Agent(strategy=Compiled(program=…))`.

    `inputs` are its input fields. Without them a single field gets the goal. Several fields are
    read from the goal as a JSON object, then from the run's data.
    """

    name: ClassVar[str] = "dspy"
    program: Program
    inputs: Mapping[str, Any] | None = None
    steps: int = STEPS

    def __call__(self, task: Task) -> Strategy[Answer]:
        """Returns the strategy for `task`."""
        return _story(self, task)


def _story(options: Compiled, task: Task) -> Strategy[Answer]:
    try:
        program = options.program
        inputs = inputs_of(program.signature, task, options.inputs)
        turns = ProgramRequests(task)
        if program.module == "react":
            outputs, stop = yield from _react(options, turns, inputs)
        else:
            outputs, stop = (yield from _asked(turns, program.predictors[0], inputs)), ""
        return (yield from final_step(task, program.signature, outputs, turns.limit or stop))
    except Unanswered as error:
        return Answer(None, "error", str(error))
    except Halt as halt:
        return Answer(None, halt.reason)


def final_step(
    task: Task, signature: Signature, outputs: Mapping[str, JSON], stop: str = ""
) -> Strategy[Answer]:
    """Yields the last step, with the outputs as an answer of the task's type."""
    thinking = str(outputs.get(REASONING) or "")
    named = {slot.name: outputs[slot.name] for slot in signature.outputs}
    value: JSON = next(iter(named.values())) if len(named) == 1 else named
    if task.output.type is not Any:
        accepted = task.output.accept(value)
        if isinstance(accepted, Unparsed):
            return Answer(None, "error", f"the answer is not accepted: {accepted.feedback}")
        value = accepted.value
    thought = Thought(thinking or "The program's answer.", synthesized=not thinking)
    yield closing(thought, value, task.output)
    return Answer(value, stop or "final_answer")


def inputs_of(signature: Signature, task: Task, given: Mapping[str, Any] | None) -> dict[str, JSON]:
    """Returns the values of the input fields.

    Raises:
        Unanswered: An input is missing or unknown.
    """
    names = [slot.name for slot in signature.inputs]
    if given is None and len(names) == 1:
        return {names[0]: task.data.get(names[0], task.goal)}
    # The goal takes precedence over the run's data: it is the current request.
    data: Mapping[str, Any] = given or {**task.data, **_object(task.goal)}
    missing = [name for name in names if name not in data]
    if missing:
        raise Unanswered(f"the input {missing[0]!r} is missing: the program is {signature}")
    if given is not None and (more := [name for name in given if name not in names]):
        raise Unanswered(f"there is no input {more[0]!r}: the program is {signature}")
    return {name: jsonable(data[name]) for name in names}


def answer_type(signature: Signature) -> Any:
    """Returns the type of the answer for a strategy without fields."""
    outputs = signature.outputs
    return type_of(outputs[0].type, outputs[0].name) if len(outputs) == 1 else dict[str, Any]


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def _asked(
    turns: ProgramRequests, predictor: Predictor, inputs: Mapping[str, Any]
) -> Strategy[dict[str, JSON]]:
    prompt = prompt_of(predictor)
    reply = yield from turns.ask(_question(prompt, predictor, inputs))
    if reply.values is None:
        raise Unanswered(reply.error)
    return values_of(reply, prompt)


def _question(
    prompt: PredictorPrompt, predictor: Predictor, inputs: Mapping[str, Any]
) -> ModelRequest:
    return ModelRequest(tuple(prompt.messages(predictor.demos, inputs)), prompt)


def _react(
    options: Compiled, turns: ProgramRequests, inputs: dict[str, JSON]
) -> Strategy[tuple[dict[str, JSON], str]]:
    """Calls the chosen tools until `finish`, then extracts the outputs from the observations."""
    choose, extract = options.program.predictors
    path: dict[str, JSON] = {}
    stop = "max_steps"
    for number in range(options.steps):
        picked = yield from _fitting(turns, choose, inputs, path)
        tool, arguments = str(picked[TOOL]), picked[ARGUMENTS]
        path |= {
            f"thought_{number}": picked.get(THOUGHT, ""),
            f"tool_name_{number}": tool,
            f"tool_args_{number}": arguments,
        }
        if tool == FINISH:
            path[f"observation_{number}"] = DONE
            stop = ""
            break
        path[f"observation_{number}"] = yield from turns.use(ToolRequest(tool, arguments))
    return (yield from _fitting(turns, extract, inputs, path)), stop


def _fitting(
    turns: ProgramRequests, predictor: Predictor, inputs: Mapping[str, Any], path: dict[str, JSON]
) -> Strategy[dict[str, JSON]]:
    """Asks a predictor. Drops the oldest steps if the prompt exceeds the context window."""
    prompt, error = prompt_of(predictor), ""
    for _ in range(_FITS):
        question = _question(prompt, predictor, {**inputs, SO_FAR: field_texts(path, list(path))})
        reply = yield from turns.ask(question)
        if reply.values is not None:
            return values_of(reply, prompt)
        error = reply.error
        if not reply.overflow or len(path) <= _STEP:
            break
        for name in list(path)[:_STEP]:
            del path[name]
    raise Unanswered(error)


# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false


@dataclass(frozen=True, kw_only=True)
class Through:
    """A strategy that runs a signature or a compiled program with DSPy."""

    name: ClassVar[str] = "dspy"
    signature: Signature | Any
    """A signature, or a `dspy.Signature` class, whose types DSPy checks."""
    module: Module = "cot"
    program: Program | None = None
    inputs: Mapping[str, Any] | None = None
    steps: int = STEPS
    adapter: str = "taofold"
    temperature: float | None = None

    def __call__(self, task: Task) -> Strategy[Answer]:
        """Returns the strategy for `task`."""
        return _run(self, task)


def _run(options: Through, task: Task) -> Strategy[Answer]:
    own = signature_of(options.signature)
    try:
        inputs = inputs_of(own, task, options.inputs)

        def call(channel: EffectChannel) -> tuple[dict[str, JSON], str]:
            with session(channel, options.adapter, options.temperature) as at:
                module = module_of(
                    at, options.signature, options.module, task.offers, options.steps
                )
                if options.program is not None:
                    module = load_module(module, options.program)
                return _outputs(module(**inputs))

        requests = ProgramRequests(task)
        outputs, stop = yield from requests.run(run_in_thread(call))
        return (yield from final_step(task, own, outputs, requests.limit or stop))
    except Halt as halt:
        return Answer(None, halt.reason)
    except Unanswered as error:
        return Answer(None, "error", str(error))
    except Exception as error:  # noqa: BLE001 - any error of a program ends the run
        return Answer(None, "error", f"{type(error).__name__}: {error}")


def _outputs(prediction: Any) -> tuple[dict[str, JSON], str]:
    """Returns the values of a prediction, and the limit that stopped ReAct, if any."""
    outputs: dict[str, JSON] = {str(k): jsonable(v) for k, v in dict(prediction).items()}
    path = outputs.pop("trajectory", None)
    if not isinstance(path, Mapping):
        return outputs, ""
    done = any(k.startswith("tool_name_") and v == FINISH for k, v in path.items())
    return outputs, "" if done else "max_steps"


def program_strategy(
    make: Callable[[], Any], *, adapter: str = "taofold"
) -> Callable[[Task], Strategy[Answer]]:
    """Makes a strategy of any DSPy module: `Agent(strategy=program_strategy(MyProgram))`.

    `make` is called in the program's thread, with the agent's model as DSPy's. A module with one
    parameter of `forward`, or one input field, gets the goal. A module with several gets the goal
    as a JSON object. The module's own Python tools run outside the policy; give tools to the agent
    instead to have them checked.

    Args:
        make: The module's class, or a function that makes the module.
        adapter: Renderer of prompts: "taofold", "json" or "chat".
    """

    def dspy_program(task: Task) -> Strategy[Answer]:
        return _foreign(make, adapter, task)

    return dspy_program


def _parameters(module: Any) -> list[str]:
    """Returns the module's inputs: the parameters of `forward`, else the fields of its
    signature.
    """
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(module.forward).parameters.values()
    named = [parameter.name for parameter in parameters if parameter.kind in kinds]
    if named:
        return named
    own = getattr(module, "signature", None)
    taken = own if own is not None else module.predictors()[0].signature
    return [str(name) for name in taken.input_fields]


def _foreign(make: Callable[[], Any], adapter: str, task: Task) -> Strategy[Answer]:
    def call(channel: EffectChannel) -> dict[str, JSON]:
        with session(channel, adapter):
            # In the program's thread, because DSPy's settings (`session`) apply to it only.
            module = make()
            slots = tuple([Slot(name) for name in _parameters(module)])
            inputs = inputs_of(Signature(slots, ()), task, None)
            return _outputs(module(**inputs))[0]

    try:
        outputs = yield from ProgramRequests(task).run(run_in_thread(call))
        names = tuple([Slot(name) for name in outputs if name != "reasoning"]) or (
            Slot("reasoning"),
        )
        return (yield from final_step(task, Signature((), names), outputs))
    except Halt as halt:
        return Answer(None, halt.reason)
    except Exception as error:  # noqa: BLE001 - any error of a program ends the run
        return Answer(None, "error", f"{type(error).__name__}: {error}")

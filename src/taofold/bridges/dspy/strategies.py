"""DSPy's programs as strategies: the program runs in a thread, its calls are the run's effects.

`Through` is a module made from a signature; `program_strategy` takes any module of yours.
"""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from taofold.bridges.dspy.engine import session
from taofold.bridges.dspy.modules import loaded, module_of
from taofold.bridges.dspy.native import STEPS, Unanswered, ended, inputs_of
from taofold.bridges.dspy.program import Module, Program
from taofold.bridges.dspy.prompt import jsonable
from taofold.bridges.dspy.requests import ProgramRequests
from taofold.bridges.dspy.signature import Signature, Slot
from taofold.bridges.dspy.signature import signature as signature_of
from taofold.bridges.dspy.thread import Channel, threaded
from taofold.core.effects import Answer, Halt, Strategy
from taofold.core.values import FINISH, JSON
from taofold.reasoning import Task


@dataclass(frozen=True, kw_only=True)
class Through:
    """A signature, or a compiled program, run by DSPy itself."""

    name: ClassVar[str] = "dspy"
    signature: Signature | Any
    """A signature, or a `dspy.Signature` class, whose types DSPy then checks."""
    module: Module = "cot"
    program: Program | None = None
    inputs: Mapping[str, Any] | None = None
    steps: int = STEPS
    adapter: str = "taofold"
    temperature: float | None = None

    def __call__(self, task: Task) -> Strategy[Answer]:
        """The strategy for `task`."""
        return _run(self, task)


def _run(options: Through, task: Task) -> Strategy[Answer]:
    own = signature_of(options.signature)
    try:
        inputs = inputs_of(own, task, options.inputs)

        def call(channel: Channel) -> tuple[dict[str, JSON], str]:
            with session(channel, options.adapter, options.temperature) as at:
                made = module_of(at, options.signature, options.module, task.offers, options.steps)
                if options.program is not None:
                    made = loaded(made, options.program)
                return _outputs(made(**inputs))

        requests = ProgramRequests(task)
        outputs, stop = yield from requests.run(threaded(call))
        return (yield from ended(task, own, outputs, requests.limit or stop))
    except Halt as halt:
        return Answer(None, halt.reason)
    except Unanswered as error:
        return Answer(None, "error", str(error))
    except Exception as error:  # noqa: BLE001 - whatever a program raises is how it ended
        return Answer(None, "error", f"{type(error).__name__}: {error}")


def _outputs(prediction: Any) -> tuple[dict[str, JSON], str]:
    """The values of a prediction, and why ReAct stopped if not because it was done."""
    found: dict[str, JSON] = {str(k): jsonable(v) for k, v in dict(prediction).items()}
    path = found.pop("trajectory", None)
    if not isinstance(path, Mapping):
        return found, ""
    done = any(k.startswith("tool_name_") and v == FINISH for k, v in path.items())
    return found, "" if done else "max_steps"


def program_strategy(
    make: Callable[[], Any], *, adapter: str = "taofold"
) -> Callable[[Task], Strategy[Answer]]:
    """Any DSPy module as a strategy: `Agent(strategy=program_strategy(MyProgram))`.

    `make` is called in the program's thread, with our model as DSPy's. A module whose `forward` has
    one parameter, or one input field, gets the goal; one with several gets the goal read as a JSON
    object. Its own Python tools run as they are, outside the policy; give tools to the agent
    instead where that matters.

    Args:
        make: Makes the module: its class, or a function.
        adapter: Who renders prompts: "taofold", "json" or "chat".
    """

    def dspy_program(task: Task) -> Strategy[Answer]:
        return _foreign(make, adapter, task)

    return dspy_program


def _parameters(module: Any) -> list[str]:
    """What a module takes: the parameters of its `forward`, else the fields of its signature."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(module.forward).parameters.values()
    named = [one.name for one in parameters if one.kind in kinds]
    if named:
        return named
    own = getattr(module, "signature", None)
    taken = own if own is not None else module.predictors()[0].signature
    return [str(name) for name in taken.input_fields]


def _foreign(make: Callable[[], Any], adapter: str, task: Task) -> Strategy[Answer]:
    def call(channel: Channel) -> dict[str, JSON]:
        with session(channel, adapter):
            module = make()
            slots = tuple([Slot(name) for name in _parameters(module)])
            inputs = inputs_of(Signature(slots, ()), task, None)
            return _outputs(module(**inputs))[0]

    try:
        outputs = yield from ProgramRequests(task).run(threaded(call))
        names = tuple([Slot(name) for name in outputs if name != "reasoning"]) or (
            Slot("reasoning"),
        )
        return (yield from ended(task, Signature((), names), outputs))
    except Halt as halt:
        return Answer(None, halt.reason)
    except Exception as error:  # noqa: BLE001 - whatever a program raises is how it ended
        return Answer(None, "error", f"{type(error).__name__}: {error}")

"""DSPy's modules: made from our signatures and tools, filled from and stored as plain JSON."""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from taofold.actions.types import type_of
from taofold.bridges.dspy.engine import DspySession, prompt_of_theirs
from taofold.bridges.dspy.program import Module, Predictor, Program
from taofold.bridges.dspy.prompt import PromptField, jsonable
from taofold.bridges.dspy.requests import DONE, ToolRequest
from taofold.bridges.dspy.signature import Signature, Slot, is_class, written_of
from taofold.bridges.dspy.signature import signature as signature_of
from taofold.bridges.dspy.thread import Channel
from taofold.core.errors import ConfigError
from taofold.core.values import FINISH, JSON
from taofold.reasoning import Offer


def theirs(library: Any, signature: Signature) -> Any:
    """A signature as a class of DSPy's."""
    fields: dict[str, Any] = {}
    for slot in (*signature.inputs, *signature.outputs):
        make = library.InputField if slot in signature.inputs else library.OutputField
        more = {"desc": slot.description} if slot.description else {}
        fields[slot.name] = (type_of(slot.type, slot.name), make(**more))
    return library.Signature(fields, signature.task)


def module_of(
    at: DspySession,
    signature: Signature | Any,
    module: str,
    offers: Sequence[Offer] = (),
    steps: int = 10,
) -> Any:
    """The DSPy module of that kind, with a signature of ours or a class of DSPy's."""
    library = at.dspy
    own = signature if is_class(signature) else theirs(library, signature_of(signature))
    if module != "react":
        return library.ChainOfThought(own) if module == "cot" else library.Predict(own)
    tools = _tool_class(library)
    made = library.ReAct(
        own, [_tool(tools, at.channel, offer) for offer in offers], max_iters=steps
    )
    end = made.tools[FINISH]
    made.tools[FINISH] = tools(lambda **_: DONE, FINISH, end.desc, {}, {})
    return made


def _tool(tools: Any, channel: Channel, offer: Offer) -> Any:
    def call(**parameters: Any) -> Any:
        return channel.ask(ToolRequest(offer.name, parameters))

    given = offer.schema.get("properties", {})
    return tools(call, offer.name, offer.description, dict(given), {})


@cache
def _tool_class(library: Any) -> Any:
    class TaofoldTool(library.Tool):  # type: ignore[misc]
        def __call__(self, **parameters: Any) -> Any:
            """Arguments are checked where the call is ruled on, and a refusal is on the record."""
            return self.func(**parameters)

    return TaofoldTool


def loaded(module: Any, program: Program) -> Any:
    """The module, its predictors as they were compiled.

    Raises:
        ConfigError: it has other predictors.
    """
    by_name = {one.name: one for one in program.predictors}
    own = dict(module.named_predictors())
    names = {"predict": "self"} if set(own) == {"self"} else {}
    for kept, predictor in by_name.items():
        target = own.get(names.get(kept, kept))
        if target is None:
            raise ConfigError(f"the module has no predictor {kept!r}; it has {', '.join(own)}")
        target.signature = target.signature.with_instructions(predictor.signature.task)
        target.demos = [dict(demo) for demo in predictor.demos]
    return module


def stored(compiled: Any, module: Module, signature: Signature, teleprompter: str = "") -> Program:
    """What was compiled, as plain JSON."""
    known = {slot.name: slot for slot in (*signature.inputs, *signature.outputs)}
    predictors = [_stored(name, one, known) for name, one in compiled.named_predictors()]
    return Program(module=module, predictors=tuple(predictors), teleprompter=teleprompter)


def _stored(name: str, predictor: Any, known: Mapping[str, Slot]) -> Predictor:
    prompt = prompt_of_theirs(predictor.signature)
    inputs, outputs = (
        tuple([known.get(one.name) or _slot(one) for one in side])
        for side in (prompt.inputs, prompt.outputs)
    )
    names = [slot.name for slot in (*inputs, *outputs)]
    demos: list[dict[str, JSON]] = [
        {key: jsonable(demo[key]) for key in names if key in demo}
        for demo in [dict(demo) for demo in predictor.demos]
    ]
    signature = Signature(inputs, outputs, prompt.instructions)
    return Predictor("predict" if name == "self" else name, signature, tuple(demos))


def _slot(one: PromptField) -> Slot:
    return Slot(one.name, written_of(one.type), one.description)

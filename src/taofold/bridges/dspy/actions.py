"""Flow actions `reason.dspy.*` and their keys.

The actions are `cot`, `react`, `compile`, `optimize`, `export`, `import` and `list_compiled`. Only
compiling needs DSPy; without it `cot`, `react` and compiled programs run natively. `settings.dspy`
provides defaults for keys that an action omits.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from pydantic import Field

from taofold.bridges.dspy.compilation import COMPILED, Compile
from taofold.bridges.dspy.library import missing
from taofold.bridges.dspy.program import NAMES, Module, Program, imported, plain_program
from taofold.bridges.dspy.signature import Signature, signature
from taofold.bridges.dspy.strategies import STEPS, Compiled, Through, answer_type
from taofold.core.effects import Strategy, note
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.values import FINISH
from taofold.files.actions.action import (
    ActionCall,
    Asking,
    Done,
    Ended,
    Keys,
    Kind,
    Text,
    Unusable,
    offered_tools,
    roles,
    think,
)
from taofold.files.actions.reason import Count
from taofold.reasoning import Output, react
from taofold.reasoning.nested import Inner

Values = dict[str, Any]


class DspyKeys(Asking):
    """Keys of every action that runs a program."""

    signature: str = "question -> answer"
    instructions: str = ""
    inputs: Values | None = None
    """The input fields by name. A single field may be given as text instead."""
    compiled_key: str = ""
    """Run the program that was compiled or imported under this name."""
    program: Any = None
    """Run this program, a result of `reason.dspy.export`."""
    enabled: bool = True
    """False: run natively even if DSPy is installed."""


class DspyCotKeys(DspyKeys):
    """Keys of `reason.dspy.cot`."""

    problem: Text = ""
    module_type: Literal["cot", "predict"] = "cot"
    few_shot_examples: list[Values] = []
    """Worked cases for a program that is not compiled: values by the names of its fields."""
    adapter: Literal["taofold", "json", "chat"] = "taofold"


class DspyReactKeys(DspyKeys):
    """Keys of `reason.dspy.react`."""

    goal: Text = ""
    tools: list[str] | None = None
    max_steps: Count = STEPS


class CompileKeys(Keys):
    """Keys of `reason.dspy.compile` and `.optimize`."""

    signature: str = "question -> answer"
    instructions: str = ""
    module_type: Literal["predict", "cot", "react"] = "cot"
    training_data: list[Values] = []
    validation_data: list[Values] = []
    metric: str = "exact_match"
    """exact_match, presence, or module:function."""
    teleprompter: str = "BootstrapFewShot"
    """One of DSPy's, or module:Class."""
    options: Values = {}
    """Options of the teleprompter."""
    compiled_key: str = ""
    """The program's name in the state. Default: the node's name."""
    score: bool = False
    """Score the program before and after, which costs calls; `reason.dspy.optimize` always does."""
    tools: list[str] | None = None
    max_steps: Count = STEPS
    enabled: bool = True
    model: str = ""
    prompt_model: str = ""
    """The model that writes instructions (MIPROv2, GEPA). Default: `model`."""
    temperature: Annotated[float, Field(ge=0)] | None = None


class ExportKeys(Keys):
    """Keys of `reason.dspy.export`."""

    compiled_key: Annotated[str, Field(min_length=1)]


class ImportKeys(Keys):
    """Keys of `reason.dspy.import`."""

    program: Any
    compiled_key: str = ""


class ListKeys(Keys):
    """Keys of `reason.dspy.list_compiled`."""


FALLBACK: Final = "native_fallback"
"""Value of `dspy_module` if DSPy did not run the program."""
SETTINGS: Final = "dspy"


def _cot(call: ActionCall[DspyCotKeys]) -> Strategy[Done]:
    keys = call.keys
    program, own = _program(call, keys), _signature(keys)
    module: Module = program.module if program else keys.module_type
    if module == "react":
        raise Unusable("this program is a ReAct: use reason.dspy.react")
    if program and keys.few_shot_examples:
        raise Unusable("few_shot_examples: a compiled program has examples of its own")
    # A compiled program has its own signature; the key's signature is for a plain program.
    own = program.signature if program else own
    inputs = _inputs(keys, own, keys.problem, "problem")
    shown = program or _with_examples(plain_program(own, module), keys.few_shot_examples)
    inner: Inner
    if _native(keys):
        ran = FALLBACK
        inner = Compiled(program=shown, inputs=inputs)
    else:
        ran = NAMES[module]
        used = shown if keys.few_shot_examples else program
        inner = Through(
            signature=own, module=module, program=used, inputs=inputs, adapter=keys.adapter
        )
    ended = yield from _think(call, inner, "reason.dspy.cot", keys)
    steps = ended.trace.steps
    thinking = steps[-1]["thought"] if steps and not ended.error else ""
    value = {
        "thinking": thinking,
        "answer": ended.output,
        **_told(ended, ran, program, call),
        "reasoning_thinking": thinking,
        # Several outputs are keys of the value too: "question -> thinking, answer".
        **(ended.output if len(own.outputs) > 1 and is_object(ended.output) else {}),
    }
    return ended.done(value, **_trace(ended), reasoning_thinking=thinking)


def _with_examples(program: Program, examples: list[Values]) -> Program:
    """Returns a plain program with worked cases.

    The input of a case may be called `problem`, as in `reason.cot`.
    """
    if not examples:
        return program
    [predictor] = program.predictors
    slots = (*predictor.signature.inputs, *predictor.signature.outputs)
    names, first = {slot.name for slot in slots}, predictor.signature.inputs[0].name
    demos: list[Values] = []
    for number, example in enumerate(examples):
        case = {first if key == "problem" else key: value for key, value in example.items()}
        if unknown := sorted(set(case) - names):
            raise Unusable(
                f"few_shot_examples[{number}]: there is no field {unknown[0]!r}; "
                f"the program is {program.signature}"
            )
        demos.append(case)
    changed = msgspec.structs.replace(predictor, demos=tuple(demos))
    return msgspec.structs.replace(program, predictors=(changed,))


def _react(call: ActionCall[DspyReactKeys]) -> Strategy[Done]:
    keys = call.keys
    program, own = _program(call, keys), _signature(keys)
    if program is not None and program.module != "react":
        raise Unusable(f"this program is a {program.module}: use reason.dspy.cot")
    own = program.signature if program else own
    inputs = _inputs(keys, own, keys.goal, "goal")
    inner: Inner
    steps: int | None = None
    ran, output = FALLBACK, Output(Any)
    if not _native(keys):
        ran = NAMES["react"]
        inner = Through(
            signature=own, module="react", program=program, inputs=inputs, steps=keys.max_steps
        )
    elif program is not None:
        inner = Compiled(program=program, inputs=inputs, steps=keys.max_steps)
    else:
        # Without DSPy and without a compiled program, taofold's ReAct strategy answers.
        inner, steps, output = react, keys.max_steps, Output(answer_type(own))
    offers = offered_tools(call.task, keys.tools)
    ended = yield from _think(
        call,
        inner,
        "reason.dspy.react",
        keys,
        offers=offers,
        steps=steps,
        output=output,
        goal=keys.goal or _whole(inputs),
    )
    done = [
        step for step in ended.trace.steps if step["action"] not in ("reason.dspy.react", FINISH)
    ]
    value = {
        "steps": done,
        "final_answer": ended.output,
        "total_steps": len(done),
        "react_steps": done,
        **_told(ended, ran, program, call),
    }
    return ended.done(value, **_trace(ended), react_steps=done)


def _think(
    call: ActionCall[Any],
    inner: Inner,
    name: str,
    keys: DspyKeys,
    *,
    goal: str = "",
    output: Output | None = None,
    **more: Any,
) -> Strategy[Ended]:
    return think(
        inner,
        call,
        name,
        goal or call.task.goal,
        models=roles(call, executor="model"),
        output=output or Output(Any),
        settings=keys.settings,
        **more,
    )


def _told(ended: Ended, ran: str, program: Program | None, call: ActionCall[Any]) -> dict[str, Any]:
    return {
        "dspy_module": ran,
        "version": program.version if program else "",
        "model": ended.trace.model("executor") or call.models.get("model", ""),
        **_trace(ended),
        "reasoning_answer": ended.output,
    }


def _trace(ended: Ended) -> dict[str, Any]:
    return {"reasoning_trace": ended.trace.steps}


def _native(keys: DspyKeys) -> bool:
    return not keys.enabled or bool(missing())


def _signature(keys: Any) -> Signature:
    try:
        return signature(keys.signature, keys.instructions)
    except ConfigError as error:
        raise Unusable(str(error)) from None


def _kept(call: ActionCall[Any]) -> Mapping[str, Any]:
    """Returns the compiled programs in the flow's state, in exported form."""
    programs: Any = call.task.data.get(COMPILED)
    return cast("Mapping[str, Any]", programs) if isinstance(programs, Mapping) else {}


def _program(call: ActionCall[Any], keys: DspyKeys) -> Program | None:
    source = keys.program
    if keys.compiled_key:
        if source is not None:
            raise Unusable("give either 'program' or 'compiled_key'")
        source = _found(call, keys.compiled_key)
    if source is None:
        return None
    try:
        return imported(source)
    except ConfigError as error:
        raise Unusable(str(error)) from None


def _found(call: ActionCall[Any], key: str) -> Any:
    stored = _kept(call)
    if key not in stored:
        there = ", ".join(stored) or "none"
        raise Unusable(f"compiled_key: nothing is compiled as {key!r}; there are: {there}")
    return stored[key]


def _inputs(keys: DspyKeys, own: Signature, text: str, name: str) -> Mapping[str, Any]:
    if keys.inputs is not None:
        return keys.inputs
    if not text:
        raise Unusable(f"needs {name!r} or 'inputs'")
    if len(own.inputs) != 1:
        raise Unusable(f"{own} has several inputs: give them as 'inputs'")
    return {own.inputs[0].name: text}


def _whole(inputs: Mapping[str, Any]) -> str:
    return "\n".join([f"{name}: {value}" for name, value in inputs.items()])


def _compile(name: str, better: bool, call: ActionCall[CompileKeys]) -> Strategy[Done]:
    keys = call.keys
    key = keys.compiled_key or call.node
    try:
        options = Compile(
            signature=_signature(keys),
            training=keys.training_data,
            validation=keys.validation_data,
            module=keys.module_type,
            metric=keys.metric,
            teleprompter=keys.teleprompter,
            options=keys.options,
            key=key,
            keep_better=better,
            score=keys.score,
            steps=keys.max_steps,
            temperature=keys.temperature,
        )
    except ConfigError as error:
        raise Unusable(str(error)) from None
    why = missing() if keys.enabled else "settings.dspy says that it is not to be used"
    if why:
        return _uncompiled(f"{name} needs DSPy: {why}")
    named = {
        **roles(call, executor="model", critic="model"),
        **roles(call, critic="prompt_model"),
    }
    offers = offered_tools(call.task, keys.tools if keys.module_type == "react" else [])
    ended = yield from think(
        options, call, name, key, models=named, output=Output(Any), offers=offers
    )
    if ended.error or ended.stop:
        return replace(_uncompiled(ended.error), stop=ended.stop, state=_trace(ended))
    program = imported(ended.output)
    value = {
        "compiled": True,
        "compiled_key": key,
        "module_key": key,
        "train_score": program.scores.get("training"),
        "val_score": program.scores.get("after"),
        "version": program.version,
        "program": ended.output,
        "scores": program.scores,
        "score": program.scores.get("after", program.scores.get("teleprompter")),
        "teleprompter": program.teleprompter,
        "dspy_module": NAMES[program.module],
        **_trace(ended),
    }
    # The state's variable is replaced as a whole, so existing programs are copied.
    stored = {**_kept(call), key: ended.output}
    return Done(value, state={COMPILED: stored, **_trace(ended)})


def _uncompiled(error: str) -> Done:
    """Returns the end of a compilation that failed. A flow that goes on may read its value."""
    return Done({"compiled": False, "error": error}, error)


def _export(call: ActionCall[ExportKeys]) -> Strategy[Done]:
    # A strategy must be a generator even if it yields no effect.
    yield from ()
    return Done(_found(call, call.keys.compiled_key))


def _import(call: ActionCall[ImportKeys]) -> Strategy[Done]:
    try:
        program = imported(call.keys.program)
    except ConfigError as error:
        raise Unusable(str(error)) from None
    key, exported = call.keys.compiled_key or call.node, program.export()
    yield from note(COMPILED, key=key, program=exported)
    value = {"compiled_key": key, "version": program.version, "signature": str(program.signature)}
    return Done(value, state={COMPILED: {**_kept(call), key: exported}})


def _list(call: ActionCall[ListKeys]) -> Strategy[Done]:
    yield from ()
    return Done([_row(key, imported(raw)) for key, raw in _kept(call).items()])


def _row(key: str, program: Program) -> dict[str, Any]:
    return {
        "compiled_key": key,
        "version": program.version,
        "signature": str(program.signature),
        "module": program.module,
        "teleprompter": program.teleprompter,
        "demos": sum([len(predictor.demos) for predictor in program.predictors]),
        "scores": program.scores,
    }


_LITERAL: Final = ("metric", "teleprompter", "options", "adapter")


def _kind(name: str, description: str, keys: Any, run: Any, *models: str) -> Kind:
    literal = tuple([key for key in _LITERAL if key in keys.model_fields])
    return Kind(
        f"reason.dspy.{name}",
        description,
        keys,
        run,
        models=models,
        literal=literal,
        settings=SETTINGS,
    )


KINDS: Final = (
    _kind("cot", "A chain of thought by DSPy, or a compiled one.", DspyCotKeys, _cot, "model"),
    _kind("react", "Tools in a loop by DSPy, or a compiled one.", DspyReactKeys, _react, "model"),
    _kind(
        "compile",
        "Find better prompts with worked cases.",
        CompileKeys,
        partial(_compile, "reason.dspy.compile", False),
        "model",
        "prompt_model",
    ),
    _kind(
        "optimize",
        "Compile, and keep the better program of both.",
        CompileKeys,
        partial(_compile, "reason.dspy.optimize", True),
        "model",
        "prompt_model",
    ),
    _kind("list_compiled", "The compiled programs of this run.", ListKeys, _list),
    _kind("export", "A compiled program as JSON.", ExportKeys, _export),
    _kind("import", "Take over an exported program.", ImportKeys, _import),
)

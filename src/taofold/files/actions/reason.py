"""Actions that ask models by a strategy of `taofold.reasoning`.

Defines the keys of each, and the value that it returns to the flow (answers, steps, versions,
sub-problems). The strategies have the seed's names, `reason.cot`, `reason.react` and so on.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from taofold.core.effects import Strategy
from taofold.core.values import FINISH
from taofold.files.actions.action import (
    ActionCall,
    Asking,
    Done,
    Ended,
    Keys,
    Text,
    asking,
    offered_tools,
    output_of,
    roles,
    think,
)
from taofold.reasoning import Cot, Decompose, Inner, Plan, SelfCorrect, react
from taofold.reasoning.variables import improvement_history

Count = Annotated[int, Field(ge=0)]


class ShownCase(Keys):
    """A worked example that the model is shown."""

    problem: Text
    thinking: str
    answer: Any


def _underscored(value: Any) -> Any:
    return value.replace("-", "_") if isinstance(value, str) else value


ThinkingFormat = Annotated[
    Literal["step_by_step", "pros_cons", "tree", "first_principles"],
    # Prose writes pros-cons.
    BeforeValidator(_underscored),
]


class CotKeys(Asking):
    """The keys of the action `reason.cot`."""

    problem: Text
    thinking_format: ThinkingFormat = "step_by_step"
    few_shot_examples: list[ShownCase] = []
    output_format: Any = None


class ReactKeys(Asking):
    """The keys of the action `reason.react`."""

    goal: Text
    tools: list[str] | None = None
    max_steps: Count = 10
    instructions: str = ""
    output_format: Any = None


class SelfCorrectKeys(Asking):
    """The keys of the action `reason.self_correct`."""

    task: Text
    generator_model: str = ""
    critic_model: str = ""
    improvement_rounds: Count = 2
    critic_prompt: str = ""
    inner: Literal["", "cot", "react"] = ""
    """The strategy for drafts: cot or react. "" = a plain answer."""
    tools: list[str] = []
    """For `inner: react`."""
    output_format: Any = None


class DecomposeKeys(Asking):
    """The keys of the action `reason.decompose`."""

    problem: Text
    max_depth: Count = 2
    parallel: bool = True
    synthesis_prompt: str = ""
    inner: Literal["", "cot", "react"] = ""
    """The strategy for parts: cot (default) or react."""
    tools: list[str] = []
    """For `inner: react`."""
    output_format: Any = None


class PlanKeys(Asking):
    """The keys of the action `reason.plan`."""

    goal: Text
    planner_model: str = ""
    evaluator_model: str = ""
    tools: list[str] | None = None
    max_steps: Annotated[int, Field(ge=0)] | None = None
    output_format: Any = None


# Values here are any JSON, or come from an untyped library.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


_THINKING: Final = {"executor": "model"}


def _cot(call: ActionCall[CotKeys]) -> Strategy[Done]:
    keys = call.keys
    examples = [example.model_dump() for example in keys.few_shot_examples]
    inner = Cot(format=keys.thinking_format, examples=examples)
    ended = yield from think(
        inner,
        call,
        "reason.cot",
        keys.problem,
        models=roles(call, **_THINKING),
        output=output_of(keys.output_format),
        settings=keys.settings,
    )
    steps = ended.trace.steps
    thinking = steps[-1]["thought"] if steps and not ended.error else ""
    value = {
        "thinking": thinking,
        "answer": ended.output,
        "model": ended.trace.model("executor"),
        "thinking_format": keys.thinking_format,
        **_traced(ended),
        "reasoning_thinking": thinking,
        "reasoning_answer": ended.output,
    }
    return ended.done(value, **_traced(ended), reasoning_thinking=thinking)


def _react(call: ActionCall[ReactKeys]) -> Strategy[Done]:
    keys = call.keys
    ended = yield from think(
        react,
        call,
        "reason.react",
        keys.goal,
        models=roles(call, **_THINKING),
        output=output_of(keys.output_format),
        offers=offered_tools(call.task, keys.tools),
        instructions=keys.instructions,
        steps=keys.max_steps,
        settings=keys.settings,
    )
    return _stepped(call, ended)


def _plan(call: ActionCall[PlanKeys]) -> Strategy[Done]:
    keys = call.keys
    named = roles(call, executor="model", planner="planner_model", evaluator="evaluator_model")
    ended = yield from think(
        Plan(),
        call,
        "reason.plan",
        keys.goal,
        models=named,
        output=output_of(keys.output_format),
        offers=offered_tools(call.task, keys.tools),
        steps=keys.max_steps,
        settings=keys.settings,
    )
    return _stepped(call, ended)


def _stepped(call: ActionCall[Any], ended: Ended) -> Done:
    last = f"reason.{'plan' if isinstance(call.keys, PlanKeys) else 'react'}"
    steps = [step for step in ended.trace.steps if step["action"] not in (last, FINISH)]
    value = {
        "steps": steps,
        "final_answer": ended.output,
        "total_steps": len(steps),
        # The first used of these roles, because a plan may need no executor.
        "model": ended.trace.model("executor", "finalizer", "planner"),
        **_traced(ended),
        "react_steps": steps,
        "reasoning_answer": ended.output,
    }
    return ended.done(value, **_traced(ended), react_steps=steps)


def _self_correct(call: ActionCall[SelfCorrectKeys]) -> Strategy[Done]:
    keys = call.keys
    options = SelfCorrect(
        inner=_inner(keys.inner) if keys.inner else SelfCorrect().inner,
        rounds=keys.improvement_rounds,
        critic_prompt=_prompt(call, "critic_prompt", "output"),
    )
    named = {
        # The second line takes precedence: `model` applies to both, unless they have their own
        # keys.
        **roles(call, executor="model", critic="model"),
        **roles(call, executor="generator_model", critic="critic_model"),
    }
    ended = yield from think(
        options,
        call,
        "reason.self_correct",
        keys.task,
        models=named,
        output=output_of(keys.output_format),
        offers=offered_tools(call.task, keys.tools),
        settings=keys.settings,
    )
    improved = improvement_history(ended.trace.steps)
    value = {
        "output": ended.output,
        **improved,
        "generator_model": ended.trace.model("executor"),
        "critic_model": ended.trace.model("critic"),
        **_traced(ended),
        "reasoning_answer": ended.output,
    }
    history = improved["improvement_history"]
    return ended.done(value, **_traced(ended), improvement_history=history)


def _prompt(call: ActionCall[Any], key: str, name: str) -> Any:
    """Returns a deferred key: text, or a function if it reads `name`.

    `name` has a value only during the strategy. The strategy adds it to a text.
    """
    if key not in call.deferred:
        return ""
    if name not in call.deferred[key]:
        return call.render(key, {})
    return lambda value: call.render(key, {name: value})


def _decompose(call: ActionCall[DecomposeKeys]) -> Strategy[Done]:
    keys = call.keys
    options = Decompose(
        inner=_inner(keys.inner or "cot"),
        max_depth=keys.max_depth,
        parallel=keys.parallel,
        synthesis_prompt=_prompt(call, "synthesis_prompt", "sub_answers"),
    )
    ended = yield from think(
        options,
        call,
        "reason.decompose",
        keys.problem,
        models=roles(call, **_THINKING),
        output=output_of(keys.output_format),
        offers=offered_tools(call.task, keys.tools),
        settings=keys.settings,
    )
    value = {
        **parts(ended.trace.steps),
        "final_answer": ended.output,
        "model": ended.trace.model("executor", "finalizer", "planner"),
        **_traced(ended),
        "reasoning_answer": ended.output,
    }
    return ended.done(value, **_traced(ended))


def parts(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the sub-problems with their answers, and the depth of the decomposition."""
    split = [entry for entry in steps if entry["action"] == "decompose"]
    whole = [step for step in split if not step["action_input"]["path"]]
    put = [
        step
        for step in steps
        if step["action"] == "synthesize" and not step["action_input"]["path"]
    ]
    answers: list[dict[str, Any]] = []
    for step in steps:
        # Deeper parts belong to the answers of their own level.
        if step["action"] == "solve" and step["action_input"].get("level") == 1:
            good = step["status"] == "success"
            answer = {"id": step["action_input"]["id"], "reasoning": step["thought"]}
            outcome = {"answer": step["observation"]} if good else {"error": step["observation"]}
            answers.append(answer | outcome)
    return {
        "sub_problems": whole[0]["observation"] if whole else [],
        "sub_answers": answers,
        "synthesis_reasoning": put[-1]["thought"] if put else "",
        "depth_used": max([step["action_input"]["level"] for step in split], default=0),
    }


def _traced(ended: Ended) -> dict[str, Any]:
    return {"reasoning_trace": ended.trace.steps}


def _inner(name: str) -> Inner:
    return react if name == "react" else Cot()


BUILT_IN: Final = (
    asking("reason.cot", "Think in a given format, then answer.", CotKeys, _cot),
    asking(
        "reason.react",
        "Think, act with tools and observe until the goal is reached.",
        ReactKeys,
        _react,
    ),
    asking(
        "reason.self_correct",
        "Draft, let a critic judge, revise; the best version is the output.",
        SelfCorrectKeys,
        _self_correct,
        deferred={"critic_prompt": "output"},
    ),
    asking(
        "reason.decompose",
        "Split a problem, solve the parts, put the answers together.",
        DecomposeKeys,
        _decompose,
        deferred={"synthesis_prompt": "sub_answers"},
    ),
    asking(
        "reason.plan",
        "Plan tasks, execute them, evaluate, and plan again with the objections.",
        PlanKeys,
        _plan,
    ),
)

"""`cot`, `react`, `self_correct`, `decompose` and `plan` as plain calls:
`await taofold.reason.cot("…", model="openai:gpt-5")`.

Each call is one run of an `Agent` with that strategy, so limits, policy, the log, replay and
resumption are the usual ones. It returns a `Reasoned`: the answer, the thinking, the trace, the
run. Knows nothing about how the strategies work.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, TypedDict, cast

from typing_extensions import TypeVar, Unpack

from taofold.agent import Agent, RunResult
from taofold.agent.strategies import StrategyName
from taofold.core.effects import Strategy
from taofold.core.happenings import Happening
from taofold.core.values import Principal
from taofold.log.log import Log
from taofold.policy import Limits, Policy
from taofold.reasoning import Cot, Decompose, Example, Plan, SelfCorrect, Task
from taofold.reasoning.variables import variables as variables_of
from taofold.runtime.model import ModelSpec
from taofold.runtime.setup import Approver

__all__ = ["Example", "Reasoned", "cot", "decompose", "plan", "react", "self_correct"]


def __dir__() -> list[str]:
    return sorted(__all__)


Out = TypeVar("Out", default=str)
Technique = Callable[[Task], Strategy[Any]]

LIMITS: Final[Mapping[str, Limits]] = {
    "cot": Limits(steps=1),
    "react": Limits(),
    "self_correct": Limits(steps=40),
    "decompose": Limits(steps=100),
    "plan": Limits(steps=40),
}
"""The default limits of each call."""


class Options(TypedDict, total=False):
    """The options of every call besides its own arguments; they have the names of `Agent`'s."""

    tools: Sequence[Any]
    instructions: str
    limits: Limits
    policy: Policy
    models: Mapping[str, ModelSpec]
    """Other models by role: planner, executor, evaluator, finalizer, critic."""
    approve: Approver | str | None
    strict: bool
    log: Log | str | None
    temperature: float | None
    max_tokens: int
    deps: Any
    principal: Principal | None
    run_id: str
    listener: Callable[[Happening], None] | None


@dataclass(frozen=True)
class Reasoned(Generic[Out]):
    """The result of a call of this module.

    Args:
        run: The run, with its steps, usage, records and pending questions.
    """

    run: RunResult[Out]

    @property
    def answer(self) -> Out | None:
        """The answer, or the best available if a limit was reached, or None."""
        return self.run.output_or_none

    @property
    def success(self) -> bool:
        """True if the answer was accepted."""
        return self.run.success

    @property
    def stop_reason(self) -> str:
        """The reason why it stopped."""
        return self.run.stop_reason

    @property
    def error(self) -> str:
        """The error, or ""."""
        return self.run.error

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The state variables, from the log."""
        return variables_of(self.run.records)

    @property
    def thinking(self) -> str:
        """The thinking behind the answer, or ""."""
        return cast("str", self.variables["reasoning_thinking"])

    @property
    def trace(self) -> list[dict[str, Any]]:
        """The run as spans: versioned, with ids, parents, steps, times and usage."""
        return cast("list[dict[str, Any]]", self.variables["reasoning_trace"])


async def cot(
    problem: str,
    *,
    model: ModelSpec,
    output: type[Out] = str,  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
    format: str = "step_by_step",  # noqa: A002 - the seed's word
    examples: Sequence[Example | Mapping[str, Any]] = (),
    **options: Unpack[Options],
) -> Reasoned[Out]:
    """Solves a problem by chain of thought: thinks step by step, then answers.

    Example:
        ```python
        from taofold import reason

        solved = await reason.cot("What is 6 × 7?", model="openai:gpt-5", output=int)
        print(solved.answer, solved.thinking)
        ```

    Args:
        problem: The problem.
        model: `"provider:model"`, a `Model`, or a list of fallbacks.
        output: Type of the answer.
        format: Form of the thinking: `"step_by_step"`, `"pros_cons"`, `"tree"` or
            `"first_principles"`.
        examples: Worked examples for the prompt: `Example`s or mappings with their keys.
        options: Arguments of `Agent` and `Agent.run`: tools, instructions, limits, policy, models,
            approve, strict, log, temperature, max_tokens, deps, principal, run_id, listener.

    Returns:
        The answer with its thinking, trace and run.

    Raises:
        ConfigError: The format is unknown, or an example lacks a part.
    """
    strategy = Cot(format=format, examples=examples)
    return await _run("cot", strategy, problem, model, output, options)


async def react(
    goal: str,
    *,
    model: ModelSpec,
    output: type[Out] = str,  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
    **options: Unpack[Options],
) -> Reasoned[Out]:
    """Thinks, calls tools and observes until it can answer.

    Example:
        ```python
        from taofold import reason

        solved = await reason.react(
            "How many words does notes.txt have?", model="openai:gpt-5", tools=["files"]
        )
        print(solved.answer)
        ```

    Args:
        goal: The goal.
        model: `"provider:model"`, a `Model`, or a list of fallbacks.
        output: Type of the answer.
        options: As for `cot`.

    Returns:
        The answer with its trace and run.
    """
    return await _run("react", "react", goal, model, output, options)


async def self_correct(
    task: str,
    *,
    model: ModelSpec,
    critic_model: ModelSpec | None = None,
    output: type[Out] = str,  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
    rounds: int = 2,
    inner: Technique | None = None,
    critic_prompt: str | Callable[[Any], str] = "",
    **options: Unpack[Options],
) -> Reasoned[Out]:
    """Drafts with `model`, judges with `critic_model`, revises, and returns the best version.

    Example:
        ```python
        from taofold import reason

        solved = await reason.self_correct("Write a haiku about tea.", model="openai:gpt-5")
        print(solved.answer)
        ```

    Args:
        task: The task.
        model: The model that drafts and revises.
        critic_model: The model that judges. None uses `model`.
        output: Type of the answer.
        rounds: Maximum number of revisions.
        inner: The strategy that drafts. None answers directly.
        critic_prompt: The instruction for the critic: a text, or a function of the draft.
        options: As for `cot`.

    Returns:
        The best version with its trace and run.

    Raises:
        ConfigError: `rounds` is negative.
    """
    strategy = SelfCorrect(rounds=rounds, critic_prompt=critic_prompt)
    if inner is not None:
        strategy = SelfCorrect(rounds=rounds, critic_prompt=critic_prompt, inner=inner)
    if critic_model is not None:
        options["models"] = {**options.get("models", {}), "critic": critic_model}
    return await _run("self_correct", strategy, task, model, output, options)


async def decompose(
    problem: str,
    *,
    model: ModelSpec,
    output: type[Out] = str,  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
    max_depth: int = 2,
    inner: Technique | None = None,
    synthesis_prompt: str | Callable[[list[dict[str, Any]]], str] = "",
    parallel: bool = True,
    **options: Unpack[Options],
) -> Reasoned[Out]:
    """Splits the problem, solves the parts (independent ones at once), and combines them.

    Example:
        ```python
        from taofold import reason

        solved = await reason.decompose("Compare tea and coffee.", model="openai:gpt-5")
        print(solved.answer)
        ```

    Args:
        problem: The problem.
        model: `"provider:model"`, a `Model`, or a list of fallbacks.
        output: Type of the answer.
        max_depth: Maximum depth of parts of parts.
        inner: The strategy that solves a part. None is chain of thought.
        synthesis_prompt: The instruction to combine the parts: a text, or a function of the solved
            parts.
        parallel: Solves independent parts at the same time.
        options: As for `cot`.

    Returns:
        The answer with its trace and run.

    Raises:
        ConfigError: `max_depth` is negative.
    """
    strategy = Decompose(
        inner=inner or Cot(),
        max_depth=max_depth,
        synthesis_prompt=synthesis_prompt,
        parallel=parallel,
    )
    return await _run("decompose", strategy, problem, model, output, options)


async def plan(
    goal: str,
    *,
    model: ModelSpec,
    output: type[Out] = str,  # type: ignore[assignment] # pyright: ignore[reportArgumentType]
    rejections: int = 3,
    retries: int = 1,
    **options: Unpack[Options],
) -> Reasoned[Out]:
    """Plans, executes with tools, evaluates, and replans with the evaluator's feedback.

    Example:
        ```python
        from taofold import reason

        solved = await reason.plan("Summarize notes.txt.", model="openai:gpt-5", tools=["files"])
        print(solved.answer)
        ```

    Args:
        goal: The goal.
        model: `"provider:model"`, a `Model`, or a list of fallbacks.
        output: Type of the answer.
        rejections: Number of rejected answers after which it stops.
        retries: Number of repetitions of a failed step.
        options: As for `cot`.

    Returns:
        The answer with its trace and run.

    Raises:
        ConfigError: `rejections` is less than 1 or `retries` negative.
    """
    strategy = Plan(rejections=rejections, retries=retries)
    return await _run("plan", strategy, goal, model, output, options)


_AT_RUN: Final = ("deps", "principal", "run_id", "listener")


async def _run(
    name: str,
    strategy: StrategyName | Technique,
    goal: str,
    model: ModelSpec,
    output: type[Out],
    options: Options,
) -> Reasoned[Out]:
    # Options of the run are separated; the rest describes the agent.
    of_agent = cast("dict[str, Any]", dict(options))
    at_run = {key: of_agent.pop(key) for key in _AT_RUN if key in of_agent}
    of_agent.setdefault("limits", LIMITS[name])
    agent: Agent[Any, Out] = Agent(model, name=name, output=output, strategy=strategy, **of_agent)
    return Reasoned(await agent.run(goal, **at_run))

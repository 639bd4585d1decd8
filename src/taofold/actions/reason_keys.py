"""The keys of `reason.*`, with the seed's names and defaults."""

from typing import Annotated, Any, Literal

from pydantic import Field

from taofold.actions.kind import Asking, Keys, Text

Count = Annotated[int, Field(ge=0)]


class ShownCase(Keys):
    """A worked case that the model is shown."""

    problem: Text
    thinking: str
    answer: Any


class CotKeys(Asking):
    """Of `reason.cot`."""

    problem: Text
    thinking_format: Literal["step_by_step", "pros_cons", "tree", "first_principles"] = (
        "step_by_step"
    )
    few_shot_examples: list[ShownCase] = []
    output_format: Any = None


class ReactKeys(Asking):
    """Of `reason.react`."""

    goal: Text
    tools: list[str] | None = None
    max_steps: Count = 10
    instructions: str = ""
    output_format: Any = None


class SelfCorrectKeys(Asking):
    """Of `reason.self_correct`."""

    task: Text
    generator_model: str = ""
    critic_model: str = ""
    improvement_rounds: Count = 2
    critic_prompt: str = ""
    inner: Literal["", "cot", "react"] = ""
    """The strategy that drafts: cot or react; "" = a plain answer."""
    tools: list[str] = []
    """For `inner: react`."""
    output_format: Any = None


class DecomposeKeys(Asking):
    """Of `reason.decompose`."""

    problem: Text
    max_depth: Count = 2
    parallel: bool = True
    synthesis_prompt: str = ""
    inner: Literal["", "cot", "react"] = ""
    """The strategy that solves a part: cot (the default) or react."""
    tools: list[str] = []
    """For `inner: react`."""
    output_format: Any = None


class PlanKeys(Asking):
    """Of `reason.plan`."""

    goal: Text
    planner_model: str = ""
    evaluator_model: str = ""
    tools: list[str] | None = None
    max_steps: Annotated[int, Field(ge=0)] | None = None
    output_format: Any = None

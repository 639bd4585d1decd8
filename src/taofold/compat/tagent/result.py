"""TAgent's names on the result of a run. All of them are read from the run's log."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from taofold.agent.result import RunResult
from taofold.core.values import RESERVED, Action, Observation, Usage
from taofold.reasoning.strategy_actions import SYSTEM_ACTIONS

_OWN: Final = RESERVED | frozenset(SYSTEM_ACTIONS)
"""Actions that are no tool calls, unless a tool of the program has the name."""


class TextOutput(str):
    """A text answer with the fields of TAgent's default output.

    Attributes:
        result: The answer.
        summary: The last summary of the run, else the thought before the answer.
        achievements: Each successful call with the key line of its result.
        challenges: Each failed call with its reason.
        data_collected: The state of the run.
    """

    result: str
    summary: str
    achievements: list[str]
    challenges: list[str]
    data_collected: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens and US dollars of one model. `cost` is None if a price is unknown."""

    model: str
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class TokenStats:
    """The tokens of a run: in total, and by model."""

    total: TokenUsage
    by_model: Mapping[str, TokenUsage]


@dataclass(frozen=True, repr=False)
class TagentResult(RunResult[Any]):
    """A `RunResult` with TAgent's names.

    `output` is None where a `RunResult` raises, because TAgent's programs test it. A tool call is a
    task, and a step is an iteration.

    Example:
        ```python
        result = run_agent("Name three colours.", "gpt-5-mini")
        print(result.goal_achieved, result.final_output, result.completed_tasks)
        ```

    Args:
        typed: `output` has the type that `run_agent` was given. Otherwise a text is a `TextOutput`.
    """

    typed: bool = False

    @property
    def output(self) -> Any:
        """The output, or None without one. Without `output_format` it is a `TextOutput`."""
        if self.typed or not isinstance(self.output_or_none, str):
            return self.output_or_none
        text = TextOutput(self.output_or_none)
        thoughts = [step.thought.content for step in self.steps]
        text.result = str(self.output_or_none)
        text.summary = str(self.state.data.get("summary") or (thoughts[-1] if thoughts else ""))
        text.achievements = [_line(*call) for call in self._calls if call[1].status == "success"]
        text.challenges = [_line(*call) for call in self._calls if call[1].status != "success"]
        text.data_collected = dict(self.state.data)
        return text

    @property
    def final_output(self) -> Any:
        """The same as `output`."""
        return self.output

    @property
    def goal_achieved(self) -> bool:
        """The same as `success`."""
        return self.success

    @property
    def iterations_used(self) -> int:
        """Number of decisions. The answer that follows an accepted evaluation is none."""
        return len(self.steps) - (self.stop_reason == "criteria_met")

    @property
    def planning_cycles(self) -> int:
        """Number of plans that the run wrote down."""
        return sum([action.tool == "plan" for step in self.steps for action in step.actions])

    @property
    def total_tasks(self) -> int:
        """Number of tool calls."""
        return len(self._calls)

    @property
    def completed_tasks(self) -> int:
        """Number of successful tool calls."""
        return sum([observation.status == "success" for _, observation in self._calls])

    @property
    def failed_tasks(self) -> int:
        """Number of other tool calls."""
        return self.total_tasks - self.completed_tasks

    @property
    def failure_reason(self) -> str | None:
        """The same as `error`; None instead of an empty text."""
        return self.error or None

    @property
    def state_summary(self) -> dict[str, Any]:
        """The counts of this result, the goal, the phase and the state's keys."""
        return {
            "current_phase": "completed" if self.success else "failed",
            "goal": self.state.goal,
            "iteration": self.iterations_used,
            "planning_cycles": self.planning_cycles,
            "task_summary": {
                "total_tasks": self.total_tasks,
                "completed": self.completed_tasks,
                "failed": self.failed_tasks,
            },
            "collected_data_count": len(self.state.data),
            "failure_reason": self.failure_reason,
        }

    @property
    def memory_summary(self) -> dict[str, Any]:
        """Raises `AttributeError`: taofold has no memories.

        Raises:
            AttributeError: Always. `result.state.data` has the data of the run.
        """
        raise AttributeError(
            "memory_summary is not there: taofold keeps no memories; result.state.data has the "
            "data of the run"
        )

    @property
    def stats(self) -> TokenStats:
        """Tokens and dollars in total and by model."""
        by_model = {name: _usage(name, usage) for name, usage in self.usage_by_model.items()}
        return TokenStats(_usage("total", self.usage), by_model)

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a key of the mapping that `run_agent` of TAgent before 0.6 returned.

        Args:
            name: `status`, `result`, `formatted_output`, `raw_data`, `iterations_used` or
                `evaluation`.
            default: Value of other keys.
        """
        formatted = self.success and not isinstance(self.output_or_none, str)
        form = "with" if formatted else "without"
        values = {
            "status": f"completed_{form}_formatting" if self.success else "failed",
            "result": self.output,
            "formatted_output": formatted,
            "raw_data": {
                "goal": self.state.goal,
                "used_tools": list(self.state.per_tool),
                "achieved": self.success,
                **self.state.data,
            },
            "iterations_used": self.iterations_used,
            "evaluation": self.state.data.get("evaluation"),
        }
        return values.get(name, default)

    @cached_property
    def _calls(self) -> list[tuple[Action, Observation]]:
        """The tool calls with their observations, without answers and TAgent's own actions."""
        return [
            (action, observation)
            for step in self.steps
            for action, observation in zip(step.actions, step.observations, strict=True)
            if action.tool not in _OWN or action.tool in self.state.per_tool
        ]


def _line(action: Action, observation: Observation) -> str:
    return f"{action.tool}: {observation.extraction}"


def _usage(name: str, usage: Usage) -> TokenUsage:
    return TokenUsage(name, usage.input_tokens, usage.output_tokens, usage.tokens, usage.usd)

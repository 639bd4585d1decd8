"""What the planner, the executor and the evaluator are told and asked, and how it is checked.

Knows nothing about the order of things: that is `plan`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import BaseModel

from taofold.core.values import Observation, Reply
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning.asking import Reader, Wrong
from taofold.reasoning.graph import Tangle, waves
from taofold.reasoning.prompt import signature
from taofold.reasoning.references import referred
from taofold.reasoning.task import Task

PLANNER: Final = """\
You plan how to reach a goal with tools. You do not act: the tasks you list are carried out.
Tools:
%s
Reply with exactly one JSON object, nothing before or after it:
{"thought": "<why these tasks>", "tasks": [{"id": "task_1", "description": "<what for>", \
"tool": "<name>", "args": {…}, "depends": ["<ids of tasks that come first>"]}]}
Tasks that do not depend on each other run at the same time. Ids are never used twice.
To pass on a result write "{{ task_1.output.key[0] }}" as an argument: the value itself is passed.
If the results so far are enough, "tasks" is empty."""
EXECUTOR: Final = """\
A task failed. Say how to do it otherwise, or give it up.
Tools:
%s
Reply with exactly one JSON object, nothing before or after it:
{"thought": "<why it failed and what you change>", "tool": "<name>", "args": {…}, \
"give_up": <true if it cannot be done>}
Never repeat the call unchanged."""
EVALUATOR: Final = """\
You judge whether a goal is reached, by the results alone: what they do not show is not done.
Reply with exactly one JSON object, nothing before or after it:
{"reasoning": "<how you judged>", "achieved": <true or false>, "feedback": "<what is wrong>", \
"missing": ["<what is missing>", …], "suggestions": ["<what to try>", …]}"""
FINALIZER: Final = "Give the answer to the goal from these results. Invent nothing."
SHOWN: Final = 4000
"""Characters of one result that a prompt shows."""
SHORT: Final = 200
"""Characters of one result once the prompt is nearly full."""


class PlannedTask(BaseModel):
    """One task of a plan: a tool call that may refer to the results of others."""

    id: str
    description: str = ""
    tool: str
    args: dict[str, Any] = {}
    depends: list[str] = []

    def needs(self, known: Iterable[str] = ()) -> set[str]:
        """The tasks that come first: those named, and those among `known` referred to."""
        return set(self.depends) | (set(referred(self.args)) & set(known))


class Tasks(BaseModel):
    """A plan."""

    thought: str = ""
    tasks: list[PlannedTask]


class Retry(BaseModel):
    """How a failed task is to be done otherwise."""

    thought: str = ""
    tool: str = ""
    args: dict[str, Any] = {}
    give_up: bool = False


class Evaluation(BaseModel):
    """Is the goal reached, and if not, what is missing?"""

    reasoning: str = ""
    achieved: bool
    feedback: str = ""
    missing: list[str] = []
    suggestions: list[str] = []


def tools(task: Task) -> str:
    """The tools, one line each."""
    return "\n".join([signature(offer) for offer in task.offers]) or "(none)"


def order(tasks: Sequence[PlannedTask], known: Iterable[str]) -> list[list[str]]:
    """The ids of the tasks in waves. Raises Tangle."""
    before = set(known)
    ids = before | {task.id for task in tasks}
    return waves([(task.id, task.needs(ids)) for task in tasks], before)


def plan_reader(task: Task, known: Mapping[str, Observation]) -> Reader[Tasks]:
    """Reads a plan: its tools exist, its ids are new, its order is possible."""

    def read(reply: Reply) -> Parsed[Tasks] | Unparsed | Wrong:
        parsed: Parsed[Tasks] | Unparsed = parse(
            reply.text, Tasks, finish_reason=reply.finish or None
        )
        return parsed if isinstance(parsed, Unparsed) else _checked(parsed)

    def _checked(parsed: Parsed[Tasks]) -> Parsed[Tasks] | Wrong:
        for one in parsed.value.tasks:
            wrong = unknown_tool(task, one.tool)
            if wrong is not None:
                return wrong
            if one.id in known and known[one.id].status in ("success", "partial"):
                return Wrong("duplicate_id", f"the id {one.id!r} has a result already: use new ids")
        try:
            order(parsed.value.tasks, known)
        except Tangle as tangle:
            return Wrong(tangle.kind, str(tangle))
        return parsed

    return read


def retry_reader(task: Task) -> Reader[Retry]:
    """Reads how to retry: its tool exists."""

    def read(reply: Reply) -> Parsed[Retry] | Unparsed | Wrong:
        parsed: Parsed[Retry] | Unparsed = parse(
            reply.text, Retry, finish_reason=reply.finish or None
        )
        if isinstance(parsed, Unparsed) or parsed.value.give_up:
            return parsed
        return unknown_tool(task, parsed.value.tool) or parsed

    return read


def unknown_tool(task: Task, name: str) -> Wrong | None:
    """What is wrong with the name of a tool, if anything."""
    names = [offer.name for offer in task.offers]
    if name in names:
        return None
    have = ", ".join(names) or "none; leave the tasks empty"
    return Wrong("unknown_tool", f"there is no tool {name!r}; there is: {have}")


def digest(tasks: Mapping[str, PlannedTask], seen: Mapping[str, Observation], budget: int) -> str:
    """The results as a prompt shows them: the older ones short, the oldest left out.

    `budget` is how many characters may be shown in full; half as many more are short.
    """
    lines: list[str] = []
    used = 0
    for left, id_ in enumerate(reversed(list(seen))):
        line = _line(tasks[id_], seen[id_], SHOWN if used + SHOWN <= budget else SHORT)
        used += len(line)
        if used > budget + budget // 2:
            lines.append(f"({len(seen) - left} older results are not shown)")
            break
        lines.append(line)
    return "\n".join(reversed(lines)) or "(no results yet)"


def _line(task: PlannedTask, seen: Observation, most: int) -> str:
    result = seen.result
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    if len(text) > most:
        text = f"{text[:most]} […{len(text) - most} more characters]"
    return f"[{task.id}] {task.tool} {task.description} [{seen.status}]: {text}"


def feedback(evaluation: Evaluation) -> str:
    """What the evaluator said, for the next plan."""
    parts = [f"The goal is not reached yet: {evaluation.feedback or 'no reason was given'}"]
    if evaluation.missing:
        parts.append("Missing:\n" + "\n".join([f"- {one}" for one in evaluation.missing]))
    if evaluation.suggestions:
        parts.append("Suggestions:\n" + "\n".join([f"- {one}" for one in evaluation.suggestions]))
    return "\n".join(parts)


def strategy_hint(task: Task, used: Iterable[str]) -> str:
    """The word to a planner that goes in circles: which tools were not tried."""
    unused = sorted({offer.name for offer in task.offers} - set(used))
    other = f"Tools not used yet: {', '.join(unused)}." if unused else "Every tool was used."
    return f"This plan repeats an earlier one and was not run. Find another way. {other}"


def question(goal: str, results: str, *words: str) -> str:
    """The goal, the results so far, and whatever else is to be said."""
    said = "".join([f"\n\n{word}" for word in words if word])
    return f"The goal:\n{goal}\n\nResults so far:\n{results}{said}"


PLAN_SCHEMA: Final = Tasks.model_json_schema()
RETRY_SCHEMA: Final = Retry.model_json_schema()
EVALUATION_SCHEMA: Final = Evaluation.model_json_schema()

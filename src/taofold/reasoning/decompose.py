"""Decomposition: split a problem, solve the parts, combine the answers.

Parts without unsolved dependencies are solved concurrently, each in its own branch. A part that is
itself complex is split again, down to `max_depth`. A failed part is marked, and the parts that
depend on it receive its error. A cycle, an unknown id or a repeated id is first sent back to the
model as a correction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from taofold.core.effects import Act, Answer, Halt, Outlook, Strategy, begin, fork
from taofold.core.errors import ConfigError
from taofold.core.json_values import render
from taofold.core.values import Action, Message, Observation, Reply, Thought
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning.cot import Cot, ReasonedReader, form, schema_of, thinking_of, thought_of
from taofold.reasoning.dependencies import Tangle, waves
from taofold.reasoning.direct import Read, Unread, Wrong, ask_for, stopped_answer
from taofold.reasoning.nested import Inner, Solved, closing, named_step
from taofold.reasoning.task import Output, Task

_RULES: Final = """\
Split the problem into at most %d parts that can be solved one by one and together solve it.
Reply with exactly one JSON object, nothing before or after it:
{"reasoning": "<why these parts>", "sub_problems": [{"id": "<short name>", \
"description": "<the part, understandable by itself>", "dependencies": ["<ids of parts whose \
answers it needs>"], "complex": <true if it should be split again>}]}
If the problem is simple enough to be solved at once, "sub_problems" is empty."""


class Part(BaseModel):
    """A part of the problem, as the model writes it."""

    id: str
    description: str
    dependencies: list[str] = []
    complex: bool | None = None
    """None: not given. The part is then asked about again as long as `max_depth` allows."""


class Split(BaseModel):
    """A problem in parts."""

    reasoning: str = ""
    sub_problems: list[Part]


_SCHEMA: Final = Split.model_json_schema()


def split(task: Task, most: int, heard: Sequence[Message] = ()) -> Strategy[Read[Split] | Unread]:
    """Asks the planner for at most `most` parts of the task's goal."""

    def read(reply: Reply) -> Parsed[Split] | Unparsed | Wrong:
        parsed: Parsed[Split] | Unparsed = parse(
            reply.text, Split, finish_reason=reply.finish or None
        )
        return parsed if isinstance(parsed, Unparsed) else _check_split(parsed, most)

    return (
        yield from ask_for(
            read,
            task.opening(_RULES % most, task.goal, heard),
            attempts=task.attempts,
            role="planner",
            schema=_SCHEMA,
        )
    )


def _check_split(parsed: Parsed[Split], most: int) -> Parsed[Split] | Wrong:
    parts = parsed.value.sub_problems
    if len(parts) > most:
        return Wrong("too_many_parts", f"use at most {most} parts")
    try:
        waves([(part.id, part.dependencies) for part in parts])
    except Tangle as tangle:
        return Wrong(tangle.kind, str(tangle))
    return parsed


_SYNTHESIS: Final = "Put the answers of the parts together into one answer to the whole problem."
_PART: Final = Output(str)


@dataclass(frozen=True, kw_only=True)
class Decompose:
    """Split, solve, synthesize.

    Raises:
        ConfigError: `max_depth` is negative or `max_parts` less than 1.

    Example: `Agent(model, strategy=Decompose(inner=Cot(), max_depth=1))`.
    """

    name: ClassVar[str] = "decompose"
    inner: Inner = field(default_factory=Cot)
    """The strategy that solves a part."""
    max_depth: int = 2
    """The most levels of splitting: 0 solves the problem directly, 1 splits once."""
    max_parts: int = 8
    parallel: bool = True
    synthesis_prompt: str | Callable[[list[dict[str, Any]]], str] = ""
    """Instructions for combining.

    A callable gets the sub-answers and returns the complete question.
    """

    def __post_init__(self) -> None:
        if self.max_depth < 0:
            raise ConfigError(
                f"max_depth must be 0 or more, not {self.max_depth!r}", path="max_depth"
            )
        if self.max_parts < 1:
            raise ConfigError(f"max_parts must be 1 or more, not {self.max_parts!r}")

    def __call__(self, task: Task) -> Strategy[Answer]:
        """Returns the strategy for `task`."""
        return _Splitting(self, task).run()

    def question(self, goal: str, answers: list[dict[str, Any]]) -> str:
        """Returns the question that combines the answered parts. It always names failed parts."""
        failed = [f"- {part['id']}: {part['error']}" for part in answers if "error" in part]
        if callable(self.synthesis_prompt):
            question = f"The problem:\n{goal}\n\n{self.synthesis_prompt(answers)}"
        else:
            how = self.synthesis_prompt.strip() or _SYNTHESIS
            solved = [
                f"[{part['id']}] {part['description']}\n{render(part['answer'])}"
                for part in answers
                if "error" not in part
            ]
            question = f"The problem:\n{goal}\n\n{how}\n\n" + "\n\n".join(solved)
        if failed:
            question += "\n\nThese parts could not be solved; say so where it matters:\n"
            question += "\n".join(failed)
        return question


class _Splitting:
    """One problem at one level: `level` 1 is the whole, `path` the ids of the parts above it."""

    def __init__(self, options: Decompose, task: Task, level: int = 1, path: str = "") -> None:
        self.options, self.task, self.level, self.path = options, task, level, path
        self.heard: list[Message] = []
        self.parts: list[Part] = []
        self.solved: dict[str, Solved] = {}

    def run(self) -> Strategy[Answer]:
        try:
            return (yield from self._story())
        # Each level catches its own Halt: the level above gets the solved parts and may synthesize.
        except Halt as halt:
            return Answer(self._partial(), halt.reason)

    def _story(self) -> Strategy[Answer]:
        if self.level > self.options.max_depth:
            return (yield from self._direct())
        outlook = yield from self._turn()
        if outlook.stop:
            return Answer(None, outlook.stop)
        # One turn is left: an answer is worth more than a plan. A plan needs no tools.
        if outlook.wrap_up not in ("", "max_tool_calls"):
            return (yield from self._direct())
        got = yield from split(self.task, self.options.max_parts, self.heard)
        if isinstance(got, Unread):
            return stopped_answer(got)
        yield self._step("decompose", got.value)
        self.parts = got.value.sub_problems
        if not self.parts:
            return (yield from self._direct())
        # Raises no Tangle: the split was accepted only after it could be ordered.
        for wave in waves([(part.id, part.dependencies) for part in self.parts]):
            yield from self._solve([part for part in self.parts if part.id in wave])
        return (yield from self._synthesize())

    def _turn(self) -> Strategy[Outlook]:
        outlook = yield from begin()
        self.heard += outlook.heard
        return outlook

    def _step(self, name: str, split: Split) -> Act:
        content = split.reasoning or "Split the problem into parts."
        thought = Thought(content, "goal", synthesized=not split.reasoning)
        parts = [part.model_dump() for part in split.sub_problems]
        line = f"{len(parts)} parts: {', '.join([part.id for part in split.sub_problems])}"
        action = Action(name, {"level": self.level, "path": self.path})
        return Act(thought, (action,), (Observation(parts, extraction=line[:200], auto=True),))

    def _solve(self, ready: Sequence[Part]) -> Strategy[None]:
        """Solves parts that do not depend on each other."""
        at_once = len(ready) if self.options.parallel else 1
        for first in range(0, len(ready), at_once):
            some = ready[first : first + at_once]
            # Forks even for a single part: the keys of its effects then do not depend on
            # `parallel`.
            solved = yield from fork([self._branch(part) for part in some])
            for part, outcome in zip(some, solved, strict=True):
                self.solved[part.id] = outcome
                # Steering received inside a branch must reach the parts that are solved later.
                self.heard += outcome.heard

    def _branch(self, part: Part) -> Strategy[Solved]:
        goal = f"This is one part of a larger problem:\n{self.task.goal}\n\n"
        goal += f"Solve only this part:\n{part.description}"
        before = [self._answer_text(id_) for id_ in dict.fromkeys(part.dependencies)]
        if before:
            goal += "\n\nWhat is known from other parts:\n" + "\n".join(before)
        history = (*self.task.history, *self.heard)
        # A part answers in text; only the whole problem has the task's type.
        task = replace(self.task, goal=goal, output=_PART, history=history)
        path = f"{self.path}/{part.id}" if self.path else part.id
        inner = self.options.inner
        # None (not given) is asked about again, up to `max_depth`.
        if part.complex is not False:
            inner = partial(_nested, self.options, self.level + 1, path)
        return named_step(inner, task, "solve", id=part.id, path=path, level=self.level)

    def _answer_text(self, id_: str) -> str:
        outcome = self.solved[id_]
        if outcome.usable:
            return f"- {id_}: {render(outcome.answer.output)}"
        return f"- {id_}: (could not be solved: {outcome.error})"

    def answers(self) -> list[dict[str, Any]]:
        """Returns the parts with their answers or errors, in the order of the split."""
        answers: list[dict[str, Any]] = []
        for part in self.parts:
            outcome = self.solved.get(part.id)
            entry: dict[str, Any] = {"id": part.id, "description": part.description}
            if outcome is None or not outcome.usable:
                answers.append(
                    entry | {"answer": None, "error": outcome.error if outcome else "not reached"}
                )
            else:
                answers.append(entry | {"answer": outcome.answer.output})
        return answers

    def _synthesize(self) -> Strategy[Answer]:
        answers = self.answers()
        outlook = yield from self._turn()
        if outlook.stop:
            return Answer(self._partial(), outlook.stop)
        # Without any result no model is asked to combine: it would invent an answer.
        if all(["error" in part for part in answers]):
            errors = "; ".join([f"{part['id']}: {part['error']}" for part in answers])
            return Answer(None, "error", f"no part could be solved: {errors}"[:1000])
        got = yield from ask_for(
            ReasonedReader(self.task),
            self.task.opening(
                form(self.task.output),
                self.options.question(self.task.goal, answers),
                self.heard,
                # The parts hold the relevant history; the finalizer only combines them.
                history=False,
            ),
            attempts=self.task.attempts,
            role="finalizer",
            schema=schema_of(self.task.output),
            thought=thinking_of,
            strict=self.task.strict,
        )
        if isinstance(got, Unread):
            return Answer(self._partial(), "error", got.error)
        output = got.value.answer
        failed = [part["id"] for part in answers if "error" in part]
        action = Action("synthesize", {"path": self.path, "failed": failed})
        shown = self.task.output.shown(output)
        observation = Observation(shown, extraction="answers put together", auto=True)
        thought = thought_of(got.value)
        thought = Thought(thought.content, "synthesis", synthesized=thought.synthesized)
        yield Act(thought, (action,), (observation,))
        thought = Thought("The parts are put together.", "synthesis", synthesized=True)
        yield closing(thought, output, self.task.output)
        limit = next((outcome.limit for outcome in self.solved.values() if outcome.limit), "")
        return Answer(output, limit or "final_answer")

    def _direct(self) -> Strategy[Answer]:
        """Solves the problem without splitting it."""
        history = (*self.task.history, *self.heard)
        answer = yield from self.options.inner(replace(self.task, history=history))
        return answer if isinstance(answer, Answer) else Answer(answer)

    def _partial(self) -> Any:
        """Returns the result without a synthesis: for a text answer, the answers of the parts."""
        if not self.task.output.text:
            return None
        lines = [self._answer_text(id_) for id_, outcome in self.solved.items() if outcome.usable]
        return "\n".join(lines) or None


def _nested(options: Decompose, level: int, path: str, task: Task) -> Strategy[Answer]:
    return _Splitting(options, task, level, path).run()

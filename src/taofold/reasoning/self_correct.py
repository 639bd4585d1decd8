"""Self-correction: draft, critique, revise, return the best version (Madaan et al., 2023).

The inner strategy drafts and revises; the critic (role `critic`, perhaps another model) only
judges. The answer is the version with the highest score, or the earlier one of two equal scores, so
that a revision can never make the result worse.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from taofold.core.effects import Act, Answer, Halt, Strategy, begin, note
from taofold.core.errors import ConfigError
from taofold.core.json_values import render
from taofold.core.values import Action, Message, Observation, Thought
from taofold.reasoning.direct import Direct, Unread, ask_for, typed_reader
from taofold.reasoning.nested import Inner, Solved, alone, closing, failure
from taofold.reasoning.task import Task

_RULES = """\
You are a critic. You judge a version of an answer to a task; you never rewrite it.
Reply with exactly one JSON object, nothing before or after it:
{"reasoning": "<how you judged>", "score": <0 to 1>, "issues": ["<what is wrong>", …], \
"suggestions": ["<what would make it better>", …]}
1 means that nothing can be improved. If nothing is wrong, "issues" is empty."""


class Critique(BaseModel):
    """A verdict on one version. `score` is 0 (useless) to 1 (perfect)."""

    model_config = ConfigDict(title="Verdict")  # the schema is sent to models and recorded
    reasoning: str = ""
    score: float = Field(ge=0, le=1)
    issues: list[str] = []
    suggestions: list[str] = []


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the answer; 0 is the draft."""

    number: int
    output: Any
    verdict: Critique | None = None

    @property
    def rank(self) -> tuple[bool, float, int]:
        """The sort key: judged before unjudged, then the score, then the earlier version."""
        score = 0.0 if self.verdict is None else self.verdict.score
        # The earlier of two equals: a revision without a gain is not preferred.
        return self.verdict is not None, score, -self.number


@dataclass(frozen=True, kw_only=True)
class SelfCorrect:
    """Drafts and improves in up to `rounds` rounds.

    Raises:
        ConfigError: `rounds` is negative.

    Example: `Agent(model, strategy=SelfCorrect(rounds=3, critic_prompt="Check the units."))`.
    """

    name: ClassVar[str] = "self_correct"
    inner: Inner = Direct()
    """The strategy that drafts and revises: react with tools, chain of thought, …"""
    rounds: int = 2
    critic_prompt: str | Callable[[Any], str] = ""
    """The criteria of the critic. A callable gets the output and returns the complete question."""

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise ConfigError(f"rounds must be 0 or more, not {self.rounds!r}", path="rounds")

    def __call__(self, task: Task) -> Strategy[Answer]:
        """Returns the strategy for `task`."""
        return _Correction(self, task).run()

    def question(self, goal: str, output: Any) -> str:
        """Returns the critic's question about `output`."""
        if callable(self.critic_prompt):
            return f"The task was:\n{goal}\n\n{self.critic_prompt(output)}"
        looks = f"\n\n{self.critic_prompt.strip()}" if self.critic_prompt.strip() else ""
        return f"The task was:\n{goal}{looks}\n\nThe version to judge:\n{render(output)}"


class _Correction:
    """One run: the versions so far."""

    def __init__(self, options: SelfCorrect, task: Task) -> None:
        self.options, self.task = options, task
        self.versions: list[Version] = []
        self.heard: list[Message] = []
        self.done = 0
        self.why = ""
        self._failed = False
        self._unjudged = ""
        """The newest round without a verdict, and the reason."""

    def run(self) -> Strategy[Answer]:
        try:
            return (yield from self._story())
        except Halt as halt:
            return Answer(self.best.output if self.versions else None, halt.reason)

    @property
    def best(self) -> Version:
        return max(self.versions, key=lambda version: version.rank)

    def _story(self) -> Strategy[Answer]:
        drafted = yield from self._make("draft", self.task.goal, 0)
        if not drafted.usable:
            return drafted.answer
        self.versions.append(Version(0, drafted.answer.output))
        if drafted.limit:
            return (yield from self._end(drafted.limit))
        limit = ""
        for number in range(1, self.options.rounds + 1):
            limit = yield from self._round(number)
            if limit or self.why:
                break
        # All rounds were used: the last revision has no verdict yet.
        else:
            if self.done:
                limit = yield from self._judge(self.options.rounds)
            self.why = f"{self.options.rounds} rounds were allowed{self._unjudged}"
        return (yield from self._end(limit))

    def _round(self, number: int) -> Strategy[str]:
        """Judges the newest version and revises it. Returns the limit that ends the run, or ""."""
        limit = yield from self._judge(number)
        verdict = self.versions[-1].verdict
        # The critic could not be read: a revision without criticism would be a guess.
        if limit or verdict is None:
            return limit
        if not verdict.issues or verdict.score >= 1:
            self.why = "the critic found nothing to improve"
            return ""
        latest = self.versions[-1]
        revised = yield from self._make("revise", self._request(latest, verdict), number)
        if not revised.usable:
            return revised.limit
        self.done += 1
        version = Version(latest.number + 1, revised.answer.output)
        if version.output == latest.output:
            self.why = "the revision changed nothing"
            # Equal text gets an equal verdict: asking again would only cost.
            version = replace(version, verdict=verdict)
        self.versions.append(version)
        return revised.limit

    def _make(self, name: str, goal: str, number: int) -> Strategy[Solved]:
        """Lets the inner strategy write a version."""
        history = (*self.task.history, *self.heard)
        task = replace(self.task, goal=goal, history=history)
        solved = yield from alone(self.options.inner, task, name, round=number)
        self.heard += solved.heard
        return solved

    def _request(self, version: Version, verdict: Critique) -> str:
        suggested = "\n".join([f"- {line}" for line in verdict.suggestions])
        return (
            f"{self.task.goal}\n\nYour previous version:\n{render(version.output)}\n\n"
            "A critic found:\n"
            + "\n".join([f"- {line}" for line in verdict.issues])
            + (f"\nSuggestions:\n{suggested}" if suggested else "")
            + "\n\nWrite the improved version, complete."
        )

    def _judge(self, number: int) -> Strategy[str]:
        """Asks the critic about the newest version, once. Returns the limit that forbids it."""
        version = self.versions[-1]
        if version.verdict is not None:
            return ""
        outlook = yield from begin()
        self.heard += outlook.heard
        # Also in the last turn: a version that the critic accepts needs no further turn.
        if outlook.stop:
            return outlook.stop
        question = self.options.question(self.task.goal, version.output)
        got = yield from ask_for(
            typed_reader(Critique),
            self.task.opening(_RULES, question, self.heard, history=False),
            attempts=self.task.attempts,
            role="critic",
            schema=_SCHEMA,
        )
        parameters = {"version": version.number}
        if isinstance(got, Unread):
            content = f"The critic gave no usable verdict on version {version.number}"
            yield failure("critique", got.error, {**parameters, "round": number}, content)
            self._failed = True
            self._unjudged = f"; in round {number} the critic gave no usable verdict: {got.error}"
            return ""

        self.versions[-1] = replace(version, verdict=got.value)
        yield self._critique(got.value, parameters)
        return ""

    def _critique(self, verdict: Critique, parameters: dict[str, Any]) -> Act:
        content = verdict.reasoning or f"Judge version {parameters['version']}."
        thought = Thought(content, self._kind("reasoning"), synthesized=not verdict.reasoning)
        judgement = verdict.model_dump(include={"score", "issues", "suggestions"})
        line = f"score {verdict.score:g}, {len(verdict.issues)} issues"
        observation = Observation(judgement, extraction=line, auto=True)
        return Act(thought, (Action("critique", parameters),), (observation,))

    def _kind(self, kind: Any) -> Any:
        """Returns the type of the next thought: an exception after a failure."""
        failed, self._failed = self._failed, False
        return "exception" if failed else kind

    def _end(self, limit: str) -> Strategy[Answer]:
        best = self.best
        why = limit or self.why
        score = "unjudged" if best.verdict is None else f"score {best.verdict.score:g}"
        yield from note("corrected", rounds_completed=self.done, best=best.number, stopped=why)
        content = f"Version {best.number} is the best ({score}): {why}."
        yield closing(
            Thought(content, self._kind("synthesis"), synthesized=True),
            best.output,
            self.task.output,
        )
        return Answer(best.output, limit or "final_answer")


_SCHEMA = Critique.model_json_schema()

"""What loops learn from one another: one `Learner` for real loops, command line and benchmark.

At the start it makes a case of the task and the failing checks and asks the registry; at the
end it attributes what was injected, settles it, and takes in what the loop teaches. Every
step may be repeated with the same loop id: the registry counts a loop once.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from msgspec.structs import replace

from taofold.core.events import Record
from taofold.learning.attribution.applications import Application, applications
from taofold.learning.commands import Found, UnknownPattern
from taofold.learning.extraction.history import History
from taofold.learning.extraction.lessons import KINDS, extract
from taofold.learning.patterns.bodies import Kind
from taofold.learning.patterns.case import Case
from taofold.learning.patterns.notes import LoopNote
from taofold.learning.patterns.values import Pattern
from taofold.learning.registry import Registry
from taofold.learning.retrieval.question import context_of
from taofold.learning.settings import Injection, Learning
from taofold.loop.check import Check
from taofold.loop.learned import Extracted, Learnt, Lessons, Used
from taofold.loop.learner_case import case_of, first_faults
from taofold.loop.learner_history import history_of
from taofold.loop.learning import SearchPolicy, Work
from taofold.loop.state import LoopState

Describe = Callable[[Pattern], Awaitable[str]]
"""A seam for a model: better words for the name of a new pattern. It decides nothing."""

SILENT: Final = frozenset({"aborted", "tampered"})
"""Endings that teach nothing: a person stopped it, or its proof is worthless."""
_MOST_NAME: Final = 80


class CrossLoopLearner:
    """A `Learner` over the registry of patterns.

    `repository` scopes what is learnt, `by` says who contributed it. Loops whose model is
    `search` are told its rates as well, and add to them.
    """

    def __init__(
        self,
        registry: Registry,
        learning: Learning = Learning(),
        *,
        repository: str = "",
        by: str = "loop",
        describe: Describe | None = None,
        search: SearchPolicy | None = None,
    ) -> None:
        self.registry, self.learning = registry, learning
        self.repository, self.by, self.describe = repository, by, describe
        self.search = search

    async def lessons(self, loop: str, state: LoopState, failing: Sequence[Check]) -> Lessons:
        """What earlier loops have to say to this one, frozen for its whole life."""
        injection = self.learning.injection
        if state.wish.min_success_rate is not None:
            injection = replace(injection, min_success_rate=state.wish.min_success_rate)
        folder = state.baseline.folder if state.baseline else ""
        case = case_of(
            state.wish.task,
            failing,
            folder or state.wish.root,
            self.repository,
        )
        lessons = await self.inject(loop, case, injection)
        if lessons.control or not injection.enabled or not self._searches(state):
            return lessons
        return replace(lessons, rates=await self.rates())

    def _searches(self, state: LoopState) -> bool:
        return self.search is not None and state.wish.model == self.search.name

    async def rates(self) -> str:
        """The section of a search policy's prompt; "" without one."""
        return self.search.section(await self.registry.rates()) if self.search else ""

    async def searched(self, loop: str, records: Sequence[Record]) -> None:
        """Count what a run's search came to, if an edit of it won."""
        if self.search is not None:
            outcome = self.search.outcome(records, await self.registry.rates())
            if outcome is not None:
                await self.registry.searched(loop, *outcome)

    async def inject(
        self, loop: str, case: Case, injection: Injection, *, manual: bool = False
    ) -> Lessons:
        """Ask the registry. What a person asks for is never withheld for the control share."""
        chosen = await self.registry.inject(
            loop,
            case,
            injection,
            min_uses=self.learning.extraction.min_usage_count_for_evaluation,
            manual=manual,
        )
        return Lessons(
            chosen.text,
            chosen.ids,
            chosen.control,
            tuple([f"{name}: {why}" for name, why in chosen.reasons]),
        )

    async def learn(self, loop: str, state: LoopState, work: Work) -> Learnt:
        """Take in a loop that has ended; what the settings switch off is left out."""
        if state.status in SILENT or state.green_before:
            return Learnt(notes=(f"a loop that ended as {state.status} teaches nothing",))
        wanted = self.learning.extraction
        history = await history_of(loop, state, work, repository=self.repository, by=self.by)
        automatic = wanted.enabled and wanted.auto_extract_on_completion
        if automatic and history.succeeded and state.done and self._searches(state):
            await self.searched(loop, await work.records(state.done[-1].run))
        return await self.take_in(history, KINDS if automatic else ())

    async def take_in(self, history: History, kinds: Collection[Kind] = KINDS) -> Learnt:
        """Attribute, settle, extract: in this order, so that no loop judges its own lessons."""
        await self.registry.reopened(
            history.loop, iterations=history.iterations, solved=history.succeeded
        )
        note = await self.registry.loop(history.loop)
        uses = await self._attributed(history, note)
        if kinds or (note is not None and note.decided):
            await self.registry.ended(
                history.loop,
                iterations=history.iterations,
                solved=history.succeeded,
            )
        found = await self._extracted(history, kinds, note)
        estimate = await self.registry.improvement(history.loop)
        return Learnt(
            uses,
            tuple([Extracted(one.id, one.new, one.rate or 0.0) for one in found]),
            estimate.baseline if estimate else None,
            estimate.share if estimate else None,
            estimate.n if estimate else 0,
        )

    async def _attributed(self, history: History, note: LoopNote | None) -> tuple[Used, ...]:
        """Which edits that patterns propose the loop made: told to the registry, and returned."""
        looked: list[Pattern] = []
        for one in note.shown if note is not None else ():
            try:
                looked.append(await self.registry.show(one.id))
            except UnknownPattern:  # Pruned meanwhile.
                continue
        uses = applications(history, looked)
        for use in uses:
            await self.registry.applied(
                history.loop, use.pattern, won=use.won, iteration=use.iteration, by=history.agent
            )
        shown = note.ids if note is not None else frozenset[str]()
        return tuple([_used(pattern.id, uses) for pattern in looked if pattern.id in shown])

    async def _extracted(
        self, history: History, kinds: Collection[Kind], note: LoopNote | None
    ) -> list[Found]:
        least = self.learning.extraction.min_success_rate_threshold
        drafts = [await self._named(draft) for draft in extract(history, kinds, least)]
        if not drafts:
            return []
        if note is not None and note.decided:
            context = note.context
        else:
            context = context_of(case_of(history.task, first_faults(history), "", self.repository))
        return await self.registry.discover(
            history.loop, drafts, self.learning.extraction, context=context, by=self.by
        )

    async def _named(self, draft: Pattern) -> Pattern:
        """The draft under the name that a model gives it, if there is one to ask."""
        if self.describe is None:
            return draft
        said = " ".join((await self.describe(draft)).split())[:_MOST_NAME]
        return replace(draft, name=said) if said else draft


def _used(pattern: str, uses: Sequence[Application]) -> Used:
    mine = [one for one in uses if one.pattern == pattern]
    won = [one.iteration for one in mine if one.won]
    first = min(won or [one.iteration for one in mine], default=0)
    return Used(pattern, bool(mine), bool(won), first)

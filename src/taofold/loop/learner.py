"""Learning between loops: the interface `Learner`, and its implementation over a registry.

A driver requests lessons from its `Learner` at the start, after the baseline gate, and before each
further iteration; the results are frozen in the loop's stream. `learn` is called once at the end.
All calls may be repeated after a crash, with the same loop id: a learner counts a loop once.

`CrossLoopLearner` is the one for real loops, command line and benchmark. At the start it makes a
case of the task and the failing checks, and queries the registry. At the end it reconstructs the
attempts (`history_of`), attributes the injected patterns, settles the counts, and extracts the
loop's lessons. Test results inside the runs are trusted only as far as the gates confirm them: a
test run inside an iteration belongs to the agent, the gate does not.

A model that ranks edits itself is a `SearchPolicy`: its prompt gets the success rates of such edits
in earlier searches, and the outcomes of its runs are stored.
"""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from taofold.core.events import Proposed, Record, RunStarted
from taofold.core.failing_checks import Check, is_assertion, is_foreign, is_test
from taofold.diagnostics import passing_names
from taofold.learning.attribution import Application, Refutation, applications
from taofold.learning.extraction.comments import without_comments
from taofold.learning.extraction.diffs import IMPORT, changed_lines, new_words
from taofold.learning.extraction.generalisation import language_of, pattern_of, seen_at
from taofold.learning.extraction.history import (
    FileChange,
    LoopHistory,
    RepairAttempt,
    RunReading,
    changed,
    effects_of,
    name_of,
    read_run,
)
from taofold.learning.extraction.lessons import KINDS, extract
from taofold.learning.loops import ExtractedPattern, LoopNote
from taofold.learning.metrics import Effect
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import Kind
from taofold.learning.patterns.pattern import Pattern, Rate
from taofold.learning.rates import EditRates
from taofold.learning.registry import Registry, UnknownPattern
from taofold.learning.retrieval.index import words
from taofold.learning.retrieval.question import ask
from taofold.learning.settings import Extraction, Injection, Learning
from taofold.loop.events import IterationEnded, SharedFolder
from taofold.loop.state import LoopState
from taofold.loop.values import Extracted, Learnt, Lessons, Used
from taofold.loop.verdict import TESTS, Verdict
from taofold.parsing.untrusted_text import join_names
from taofold.policy.redaction.views import shown_value


class Work(Protocol):
    """The parts of a finished loop, besides its state, that a learner may read."""

    async def records(self, run: str) -> Sequence[Record]:
        """Returns the log of an iteration's run; empty if there is none."""
        ...

    async def text(self, snapshot: str, path: str) -> str | None:
        """Returns a file of a snapshot; None if it was missing or is not text."""
        ...


class SearchPolicy(Protocol):
    """A searching model: it ranks edits, and learns the success rates of kinds of edits."""

    name: str
    """The model's name."""

    def section(self, rates: EditRates) -> str:
        """Returns the rates as a section of its prompt; "" if they would change nothing."""
        ...

    def outcome(
        self, records: Sequence[Record], rates: EditRates
    ) -> tuple[dict[str, Rate], tuple[float, ...]] | None:
        """Returns a run's outcome in the form of `SearchSettled`; None if none of its edits won."""
        ...


class Learner(Protocol):
    """Gives lessons to a loop and learns from it.

    Example, one loop from its baseline to its end:

        lessons = await learner.lessons("fix-1", state, state.baseline.verdict.failing)
        ...  # the first iteration, whose goal holds `lessons.text`; so for each further one
        learnt = await learner.learn("fix-1", state, work)
    """

    async def lessons(self, loop: str, state: LoopState, failing: Sequence[Check]) -> Lessons:
        """Returns the lessons for the next iteration alone; `failing` are the gates' last findings.

        `state.done` are the failed iterations so far: none at the start.
        """
        ...

    async def learn(self, loop: str, state: LoopState, work: Work) -> Learnt:
        """Learns from a loop that has ended."""
        ...


class NoLearner:
    """A `Learner` without memory."""

    async def lessons(self, loop: str, state: LoopState, failing: Sequence[Check]) -> Lessons:
        """Returns no lessons."""
        del loop, state, failing
        return Lessons()

    async def learn(self, loop: str, state: LoopState, work: Work) -> Learnt:
        """Learns nothing."""
        del loop, state, work
        return Learnt()


def case_of(task: str, faults: Sequence[Check], repository: str = "") -> LoopCase:
    """Returns the case of a loop."""
    languages = [language_of(fault.place.path) for fault in faults if fault.place.path]
    named = next((language for language in languages if language != "other"), "")
    return LoopCase(task, named, repository, failing=tuple(faults))


def failed_at(state: LoopState, failing: Sequence[Check]) -> tuple[str, ...]:
    """Returns the ids of `failing` checks whose error stayed although an iteration edited files."""
    before = state.baseline.verdict.errors if state.baseline else ()
    stood: set[tuple[str, ...]] = set()
    for ended in state.done:
        if any(not is_test(path) for path in ended.changed):
            stood |= _forms(ended.verdict.errors) & _forms(before)
        before = ended.verdict.errors
    return tuple([check.id for check in failing if not stood.isdisjoint(_forms([check]))])


def exchanged_by(state: LoopState, failing: Sequence[Check]) -> tuple[Check, ...]:
    """Returns the earlier errors of checks that now fail by a wrong value.

    An exception that became a wrong value was fixed wrongly. One that became another exception may
    simply have been followed by the next.
    """
    wrong = {check.id for check in failing if is_assertion(check)}
    before = state.baseline.verdict.errors if state.baseline else ()
    earlier = [check for ended in state.done[:-1] for check in ended.verdict.errors]
    raised = [c for c in (*before, *earlier) if c.id in wrong and not is_assertion(c)]
    return tuple({check.id: check for check in raised}.values())


def _forms(checks: Iterable[Check]) -> set[tuple[str, ...]]:
    """Returns the identities of errors that stay equal if an edit moves them or changes a value."""
    forms: set[tuple[str, ...]] = set()
    for check in checks:
        # A compiler's finding is named after its message, so its file identifies it; a test's name
        # does.
        path = check.place.path
        where = check.id if is_test(path) else path
        forms.add((where, check.error_type, pattern_of(check.message)))
        # Values in a message are not always recognised: the raising function is more reliable.
        if ":" in (place := seen_at(check)) and not is_assertion(check):
            forms.add((check.id, check.error_type, place))
    return forms


_MOST_FILES: Final = 20
_MOST_CALLER: Final = 4
_MOST_CALLER_CHARS: Final = 300
_MOST_CHARS: Final = 200_000


async def history_of(
    loop: str, state: LoopState, work: Work, *, repository: str = "", by: str = ""
) -> LoopHistory:
    """Returns the loop's attempts: as fine as the runs' logs allow, else one for each iteration."""
    before = state.baseline.verdict if state.baseline else Verdict(passed=False)
    snapshot = state.baseline.snapshot if state.baseline else ""
    attempts: list[RepairAttempt] = []
    for ended in state.done:
        attempts += await _attempts(ended, before, snapshot, work)
        before, snapshot = _standing(before, ended.verdict), ended.snapshot
        by = by or agent_of(await work.records(ended.run))
    return LoopHistory(
        loop,
        state.wish.task,
        _language(attempts),
        state.status,
        tuple(attempts),
        len(state.done),
        state.at,
        repository,
        by,
        callers=await _callers(attempts, state, work),
    )


def agent_of(records: Sequence[Record]) -> str:
    """Returns the name of a run's agent; "" without records."""
    return next((r.event.agent for r in records if isinstance(r.event, RunStarted)), "")


async def _callers(
    attempts: Sequence[RepairAttempt], state: LoopState, work: Work
) -> dict[str, str]:
    """Returns the lines of the test, or of the program's start, that led to each failing check.

    Keyed by the check's signature: two uncaught errors may share one name.
    """
    snapshot = state.baseline.snapshot if state.baseline else ""
    callers: dict[str, str] = {}
    edited: set[str] = set()
    for attempt in attempts:
        for check in attempt.before:
            own = [frame for frame in check.places if frame.path and not is_foreign(frame.path)]
            # A program that fails at its start already shows that line.
            if not snapshot or not (own[1:] or is_test(check.place.path)):
                continue
            # The lines of an edited file no longer match those in the report.
            if check.signature not in callers and own[0].path not in edited:
                text = await work.text(snapshot, own[0].path)
                code = without_comments(text or "", own[0].path)
                callers[check.signature] = _statement(code, own[0].line)
        edited |= {change.path for change in attempt.changes}
    return callers


_EXPECTS: Final = re.compile(r"(?:\bwith\b.*[rR]aises.*:|(?:\bthrows|\brejects|toThrow)\b.*\{)\s*$")
"""The head of a block in which an exception is expected."""


def _statement(text: str, line: int) -> str:
    """Returns the line with those right above it in its block."""
    lines = text.splitlines()[:line]
    if not lines or len(lines) < line:
        return ""
    indent = len(lines[-1]) - len(lines[-1].lstrip())
    start = len(lines) - 1
    while start and len(lines) - start < _MOST_CALLER:
        above = lines[start - 1]
        # The end of another block and imports are unrelated to this block.
        end = not above.strip() or above.strip()[0] in ")]}"
        if end or above[:indent].strip() or IMPORT.match(above):
            break
        start -= 1
    # The head of the block names the expected exception.
    if start and _EXPECTS.search(lines[start - 1]):
        start -= 1
        indent = len(lines[start]) - len(lines[start].lstrip())
    return "\n".join([part[indent:] for part in lines[start:]])[:_MOST_CALLER_CHARS]


async def _attempts(
    ended: IterationEnded, before: Verdict, snapshot: str, work: Work
) -> list[RepairAttempt]:
    """Returns the attempts of one iteration, limited to what the gates confirm.

    If the run's own edits do not explain the checks or the files, as when a shell command edited
    them, the files before and after the iteration are compared instead.
    """
    if ended.shared is not None:
        return await _own_attempt(ended, ended.shared, work)
    failed, fails = before.errors, _standing(before, ended.verdict).errors
    still = {check.id for check in fails}
    turned = _names([check for check in failed if check.id not in still])
    passed = _passed(before)
    records = await work.records(ended.run)
    reading = read_run(records, ended.number, failed, await _texts(records, snapshot, work))
    left = _names(fails)
    named = {name_of(check.id): check for check in failed}
    credible = [
        replace(
            attempt,
            kept=attempt.kept and not _doubtful(attempt, left),
            passed=passed,
            # Some runners report only the name; the gates know the check.
            after=tuple(
                [
                    check if check.error_type else named.get(name_of(check.id), check)
                    for check in attempt.after
                ]
            ),
        )
        for attempt in reading.attempts
        if attempt.judged
    ]
    lasting = [attempt for attempt in credible if attempt.kept]
    explained = _names([check for attempt in lasting for check in attempt.turned])
    unexplained = bool(turned) and await _edited_otherwise(ended, reading, work)
    if turned <= explained and not unexplained and (credible or not ended.changed):
        return credible
    whole = RepairAttempt(
        ended.number,
        failed,
        await _changes(ended, snapshot, work),
        fails,
        True,
        tuple(sorted(ended.tools)),
        passed=passed,
    )
    if unexplained:
        # The log does not explain the files: the checks that it claims to have fixed are not
        # trusted.
        credible = [attempt for attempt in credible if not attempt.kept]
    return [*credible, whole]


async def _own_attempt(
    ended: IterationEnded, shared: SharedFolder, work: Work
) -> list[RepairAttempt]:
    """Returns the loop's own changes as one attempt, judged by the gates on these alone.

    The checks inside the run saw the changes of others, too.
    """
    if shared.before is None or shared.after is None:
        return []
    alone = replace(ended, snapshot=shared.own)
    return [
        RepairAttempt(
            ended.number,
            shared.before.errors,
            await _changes(alone, shared.base, work),
            _standing(shared.before, shared.after).errors,
            True,
            tuple(sorted(ended.tools)),
            passed=_passed(shared.before),
        )
    ]


NOT_OWN: Final = "iteration {}: not learnt, since others changed them: {}"
NOT_SURE: Final = (
    "iteration {}: not learnt, since the loop or others may have changed them: {}. "
    "--copy and --worktree keep loops apart"
)


def _shared_notes(state: LoopState) -> tuple[str, ...]:
    """Returns the changes from which nothing is learnt, as notes for the report."""
    notes: list[str] = []
    for ended in state.done:
        if ended.shared is not None and ended.shared.others:
            notes.append(NOT_OWN.format(ended.number, join_names(ended.shared.others, 5)))
        if ended.shared is not None and ended.shared.unsure:
            notes.append(NOT_SURE.format(ended.number, join_names(ended.shared.unsure, 5)))
    return tuple(notes)


def _standing(before: Verdict, now: Verdict) -> Verdict:
    """Returns the verdict with the earlier findings of gates that find nothing now but did not
    pass.

    For instance, findings were silenced in place: they still stand.
    """
    known = {result.gate.command: result for result in before.results if result.failing}
    return replace(
        now,
        results=tuple(
            [
                replace(result, checks=known[result.gate.command].checks)
                if not result.passed
                and result.code == 0
                and result.gate.command in known
                and not result.failing
                else result
                for result in now.results
            ]
        ),
    )


def _passed(verdict: Verdict) -> frozenset[str] | None:
    """Returns the names of passed checks, None if a gate failed that does not list them."""
    names = set(verdict.passing)
    for result in verdict.results:
        if not result.passed and result.runner not in TESTS:
            printed = passing_names(result.output) if result.runner == "command" else None
            if printed is None:
                return None
            names |= printed
    return frozenset(map(name_of, names))


async def _texts(records: Sequence[Record], snapshot: str, work: Work) -> dict[str, str]:
    """Returns the initial contents of the files that a run edited; "" for a missing file."""
    if not snapshot:
        return {}
    batches = [record.event.actions for record in records if isinstance(record.event, Proposed)]
    started = next((r.event for r in records if isinstance(r.event, RunStarted)), None)
    effects = effects_of(started)
    changes = [changed(action, effects) for batch in batches for action in batch]
    paths = dict.fromkeys([change.path for change in changes if change is not None])
    return {path: await work.text(snapshot, path) or "" for path in list(paths)[:_MOST_FILES]}


async def _edited_otherwise(ended: IterationEnded, reading: RunReading, work: Work) -> bool:
    """Returns whether something other than the logged edits changed files that are not tests."""
    for path in _edited(ended):
        # Binary and long files count too: they are only compared with the log.
        if path not in reading.texts or reading.texts[path] != await work.text(
            ended.snapshot, path
        ):
            return True
    return False


def _edited(ended: IterationEnded) -> list[str]:
    """Returns the files, without tests, that an iteration changed, if there is a snapshot."""
    paths = [path for path in ended.changed if not is_test(path)] if ended.snapshot else []
    return paths[:_MOST_FILES]


def _doubtful(attempt: RepairAttempt, left: set[str]) -> bool:
    """Returns whether it claims to have fixed only checks that the gates found failing."""
    claimed = _names(attempt.turned)
    return bool(claimed) and claimed <= left


def _names(checks: Iterable[Check]) -> set[str]:
    """Returns the names of the checks for any reporter."""
    return {name_of(check.id) for check in checks}


async def _changes(ended: IterationEnded, snapshot: str, work: Work) -> tuple[FileChange, ...]:
    changes: list[FileChange] = []
    for path in _edited(ended):
        old = await work.text(snapshot, path) if snapshot else None
        new = await work.text(ended.snapshot, path)
        if old != new and len(old or "") + len(new or "") <= _MOST_CHARS:
            changes.append(FileChange(path, old or "", new or ""))
    return tuple(changes)


def _language(attempts: Sequence[RepairAttempt]) -> str:
    """Returns the language of most changes."""
    languages = [language_of(change.path) for attempt in attempts for change in attempt.changes]
    named = [language for language in languages if language != "other"]
    # Ties are broken by name: the order of a set differs from process to process.
    return max(set(named), key=lambda one: (named.count(one), one)) if named else ""


SILENT: Final = frozenset({"aborted", "tampered"})
"""Endings that teach nothing: a user stopped the loop, or its proof is worthless."""
_MOST_SEARCHED: Final = 4000


class CrossLoopLearner:
    """A `Learner` over the registry of patterns.

    `repository` names the project that loops work on ("": by its folder), `by` is the contributor
    ("": the agent of the loop's runs).
    Loops whose model is `search` also get its rates, and add to them.
    """

    def __init__(
        self,
        registry: Registry,
        learning: Learning = Learning(),
        *,
        repository: str = "",
        by: str = "",
        search: SearchPolicy | None = None,
    ) -> None:
        self.registry, self.learning = registry, learning
        self.repository, self.by, self.search = repository, by, search

    async def lessons(self, loop: str, state: LoopState, failing: Sequence[Check]) -> Lessons:
        """Returns the lessons of earlier loops, at the start or after an iteration."""
        injection = self.injection(state)
        if state.wish.min_success_rate is not None:
            rate = {"min_success_rate": state.wish.min_success_rate}
            injection = injection.model_copy(update=rate)
        case = replace(
            case_of(state.wish.task, failing, self.home(state)),
            failed=failed_at(state, failing),
            exchanged=exchanged_by(state, failing),
            put=tuple(sorted({word for ended in state.done for word in new_words(ended.diff)})),
            after=len(state.done),
        )
        lessons = await self.inject(loop, case, injection)
        # A search policy's rates are frozen with the lessons of the start.
        if state.done or lessons.control or not injection.enabled or not self._searches(state):
            return lessons
        return replace(lessons, rates=await self.rates())

    def home(self, state: LoopState) -> str:
        """Returns the name of the project that the loop works on, with a digest of its path.

        A clone may have any name: two projects must not share their identity by name alone.
        """
        path = os.path.realpath(state.wish.root)
        digest = blake2b(os.fsencode(path), digest_size=4).hexdigest()
        return self.repository or f"{Path(path).name}-{digest}"

    def _searches(self, state: LoopState) -> bool:
        return self.search is not None and state.wish.model == self.search.name

    async def rates(self) -> str:
        """Returns the section of a search policy's prompt; "" without one."""
        return self.search.section(await self.registry.rates()) if self.search else ""

    async def searched(self, loop: str, records: Sequence[Record]) -> None:
        """Counts the result of a run's search, if an edit of it won."""
        if self.search is not None:
            outcome = self.search.outcome(records, await self.registry.rates())
            if outcome is not None:
                await self.registry.searched(loop, *outcome)

    async def inject(
        self, loop: str, case: LoopCase, injection: Injection, *, manual: bool = False
    ) -> Lessons:
        """Queries the registry.

        A manual request is exempt from the control group and from delays.
        """
        if manual:
            case = replace(case, failed=tuple([check.id for check in case.failing]), after=0)
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
        """Learns from a loop that has ended, except for what the settings disable."""
        if state.status in SILENT or state.green_before:
            return Learnt(notes=(f"a loop that ended as {state.status} teaches nothing",))
        extraction = self.extraction(state)
        history = await history_of(loop, state, work, repository=self.home(state), by=self.by)
        automatic = extraction.enabled and extraction.auto_extract_on_completion
        shared = any(ended.shared is not None for ended in state.done)
        if automatic and history.succeeded and state.done and self._searches(state) and not shared:
            # Only the last run: its edits are the ones that passed the gates.
            await self.searched(loop, await work.records(state.done[-1].run))
        learnt = await self.take_in(history, KINDS if automatic else (), extraction)
        return replace(learnt, notes=(*learnt.notes, *_shared_notes(state)))

    def injection(self, state: LoopState) -> Injection:
        """Returns the injection settings of the loop, by its options and the general settings."""
        injection = self.learning.injection
        within = injection.within_project or state.wish.within_project
        return injection.model_copy(update={"within_project": within})

    def extraction(self, state: LoopState) -> Extraction:
        """Returns the extraction settings of the loop, by its options and the general settings."""
        extraction = self.learning.extraction
        within = extraction.within_project or state.wish.within_project
        return extraction.model_copy(update={"within_project": within})

    async def take_in(
        self,
        history: LoopHistory,
        kinds: Collection[Kind] = KINDS,
        extraction: Extraction | None = None,
    ) -> Learnt:
        """Attributes, refutes, settles, extracts: in this order, so that no loop judges its own
        lessons.
        """
        history = history.without_comments()
        extraction = extraction or self.learning.extraction
        # A resumed loop is counted once: its earlier counts are replaced.
        await self.registry.reopened(
            history.loop, iterations=history.iterations, solved=history.succeeded
        )
        note = await self.registry.loop(history.loop)
        uses = await self._attributed(history, note)
        await self._refuted(history)
        # A loop without lessons that may teach nothing is not recorded.
        if kinds or (note is not None and note.decided):
            await self.registry.ended(
                history.loop,
                iterations=history.iterations,
                solved=history.succeeded,
                project=history.repository,
                # Masked like a view: the index of tasks is exported.
                task="" if extraction.within_project else shown_value(history.task),
            )
        discovered = await self._extracted(history, kinds, extraction)
        estimate = await self.registry.improvement(history.loop)
        effect = estimate.effect if estimate else Effect(1, 0)
        bounds = effect.interval
        return Learnt(
            uses,
            tuple(
                [Extracted(pattern.id, pattern.new, pattern.rate or 0.0) for pattern in discovered]
            ),
            estimate.baseline if estimate else None,
            improvement=None if effect.value is None else effect.value / 100,
            interval=None if bounds is None else (bounds[0] / 100, bounds[1] / 100),
            n=effect.held,
            control=self.learning.injection.control_share > 0,
        )

    async def _attributed(self, history: LoopHistory, note: LoopNote | None) -> tuple[Used, ...]:
        """Records and returns the edits of the loop that shown patterns propose."""
        patterns: list[Pattern] = []
        for injected in note.shown if note is not None else ():
            try:
                patterns.append(await self.registry.show(injected.id))
            except UnknownPattern:  # Pruned since.
                continue
        uses = applications(history, patterns)
        for use in uses:
            await self.registry.applied(
                history.loop, use.pattern, won=use.won, iteration=use.iteration, by=history.agent
            )
        injected_ids = note.ids if note is not None else frozenset[str]()
        return tuple(
            [_used(pattern.id, uses) for pattern in patterns if pattern.id in injected_ids]
        )

    async def _refuted(self, history: LoopHistory) -> None:
        """Retires the lessons that the loop shows to be no fix."""
        failing = history.attempts[0].before if history.attempts else ()
        searches = [*ask(LoopCase(failing=failing)).searches]
        edits = [change for attempt in history.attempts for change in attempt.changes]
        for change in edits:
            lines = [line for both in changed_lines(change) for _, line in both]
            searches.append(tuple(words("\n".join(lines)[:_MOST_SEARCHED])))
        await self.registry.review(searches, Refutation(history).reason, history.repository)

    async def _extracted(
        self, history: LoopHistory, kinds: Collection[Kind], extraction: Extraction
    ) -> list[ExtractedPattern]:
        least = extraction.min_success_rate_threshold
        drafts = list(extract(history, kinds, least))
        if not drafts:
            return []
        return await self.registry.discover(history.loop, drafts, extraction, by=history.agent)


def _used(pattern: str, uses: Sequence[Application]) -> Used:
    applied = [use for use in uses if use.pattern == pattern]
    won = [use.iteration for use in applied if use.won]
    first = min(won or [use.iteration for use in applied], default=0)
    return Used(pattern, bool(applied), bool(won), first)

"""From a loop's facts and the logs of its runs to the history that is learnt from.

What the runs themselves say about tests is believed only as far as the gates agree: a test
run inside an iteration belongs to the agent, the gate does not.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from taofold.core.checks import is_test
from taofold.core.events import Proposed, Record
from taofold.learning.extraction.generalise import language_of
from taofold.learning.extraction.history import Attempt, Change, History
from taofold.learning.extraction.runs import RunReading, changed, read_run
from taofold.loop.check import Verdict
from taofold.loop.events import IterationEnded
from taofold.loop.findings import failing
from taofold.loop.learning import Work
from taofold.loop.state import LoopState

_MOST_FILES: Final = 20
_MOST_CHARS: Final = 200_000


async def history_of(
    loop: str, state: LoopState, work: Work, *, repository: str = "", by: str = ""
) -> History:
    """The loop's attempts: as fine as the runs' logs allow, else one for each iteration."""
    before = state.baseline.verdict if state.baseline else Verdict(passed=False)
    snapshot = state.baseline.snapshot if state.baseline else ""
    attempts: list[Attempt] = []
    for ended in state.done:
        attempts += await _attempts(ended, before, snapshot, work)
        before, snapshot = ended.verdict, ended.snapshot
    lessons = [name for one in state.injected for name in one.lessons.patterns]
    return History(
        loop,
        state.wish.task,
        _language(attempts),
        state.status,
        tuple(attempts),
        len(state.done),
        state.at,
        repository,
        by,
        tuple(dict.fromkeys(lessons)),
    )


async def _attempts(
    ended: IterationEnded, before: Verdict, snapshot: str, work: Work
) -> list[Attempt]:
    """The attempts of one iteration, none of which claims more than the gates saw.

    Where the run's own edits do not explain what the checks or the files show, as when a shell
    command edited them, the files before and after the iteration are compared instead.
    """
    failed, fails = failing(before), failing(ended.verdict)
    left = {name for check in fails for name in _names(check.id)}
    turned = {name for f in failed if f.id not in {g.id for g in fails} for name in _names(f.id)}
    records = await work.records(ended.run)
    texts = await _texts(records, snapshot, work)
    reading = read_run(records, ended.number, failed, texts)
    fine = [
        replace(one, kept=one.kept and not _doubtful(one, left), quality=ended.quality)
        for one in reading.attempts
        if one.judged
    ]
    shown = {name for one in fine if one.kept for f in one.turned for name in _names(f.id)}
    unexplained = turned and await _edited_otherwise(ended, reading, work)
    if unexplained or not turned <= shown or (ended.changed and not fine):
        changes = await _changes(ended, snapshot, work)
        whole = Attempt(
            ended.number, failed, changes, fails, True, tuple(sorted(ended.tools)),
            ended.quality, ended.spent.usage.tokens,
        )  # fmt: skip
        if unexplained:
            return [*(one for one in fine if not one.kept), whole]
        fine.append(whole)
    return fine


async def _texts(records: Sequence[Record], snapshot: str, work: Work) -> dict[str, str]:
    """What the files that a run edited held when it began; "" for one that was not there."""
    actions = [
        action
        for record in records
        if isinstance(record.event, Proposed)
        for action in record.event.actions
    ]
    paths = dict.fromkeys([change.path for one in actions if (change := changed(one)) is not None])
    if not snapshot:
        return {}
    return {path: await work.text(snapshot, path) or "" for path in list(paths)[:_MOST_FILES]}


async def _edited_otherwise(ended: IterationEnded, reading: RunReading, work: Work) -> bool:
    """Did something beside the edits in the log change files that are no tests?"""
    if not ended.snapshot:
        return False
    for path in [path for path in ended.changed if not is_test(path)][:_MOST_FILES]:
        if path not in reading.texts or reading.texts[path] != await work.text(
            ended.snapshot, path
        ):
            return True
    return False


def _doubtful(attempt: Attempt, left: set[str]) -> bool:
    """Does it claim that a check passes which the gates found failing?"""
    claimed = [name for fault in attempt.turned for name in _names(fault.id)]
    return bool(claimed) and all(name in left for name in claimed)


def _names(check: str) -> tuple[str, ...]:
    """What a check is called, whoever reports it: a test's own name with its parameters."""
    return (check.replace("::", ".").rpartition(".")[2] if "[" not in check else check,)


async def _changes(ended: IterationEnded, snapshot: str, work: Work) -> tuple[Change, ...]:
    found: list[Change] = []
    for path in [path for path in ended.changed if not is_test(path)][:_MOST_FILES]:
        old = await work.text(snapshot, path) if snapshot else None
        new = await work.text(ended.snapshot, path) if ended.snapshot else None
        if old != new and len(old or "") + len(new or "") <= _MOST_CHARS:
            found.append(Change(path, old or "", new or ""))
    return tuple(found)


def _language(attempts: Sequence[Attempt]) -> str:
    """The language of most changes."""
    known = [language_of(change.path) for one in attempts for change in one.changes]
    named = [one for one in known if one != "other"]
    return max(set(named), key=lambda one: (named.count(one), one)) if named else ""

"""What people think of a run: a value and a note, beside its log.

No event follows a run's `RunFinished` in its log (`docs/internals/changing.md`), and a replay would
have to skip a rating. So the ratings of a run are a stream of the journal in the log's file or
database. Knows nothing about evals or how ratings are shown.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from taofold.clocks import clock
from taofold.core.errors import ConfigError, Conflict, Refused
from taofold.core.values import Principal
from taofold.log.journal import Fact, Journal
from taofold.log.log import Log
from taofold.log.open import journal_beside
from taofold.policy.redaction import Redactor
from taofold.runtime.control import LOCAL
from taofold.runtime.inbox import environment_redactor

PREFIX: Final = "rating/"
"""Before a run's id, the name of its stream."""
LONGEST_NOTE: Final = 2_000
MOST_EACH: Final = 100
"""How often one person may rate a run: all are kept, the last one counts."""
_ATTEMPTS: Final = 10


class Rating(msgspec.Struct, frozen=True):
    """What one person thinks of a run: `value` from 0 (bad) to 1 (good). `at` is in epoch ms."""

    by: str
    value: Annotated[float, msgspec.Meta(ge=0, le=1)]
    note: str = ""
    at: int = 0

    @classmethod
    def create(
        cls,
        value: float,
        note: str = "",
        *,
        by: Principal = LOCAL,
        redactor: Redactor | None = None,
    ) -> "Rating":
        """A rating of this moment; secrets are taken out of its note.

        `redactor` as in `control.decide`.

        Raises:
            ConfigError: the value is not from 0 to 1, or the note is too long.
        """
        if not 0 <= value <= 1:  # also true for NaN
            text = f"a rating is a number from 0 (bad) to 1 (good), not {value!r}"
            raise ConfigError(text, path="value")
        if len(note) > LONGEST_NOTE:
            raise ConfigError(f"a note has at most {LONGEST_NOTE} characters", path="note")
        redactor = redactor or environment_redactor()
        return cls(redactor.text(by.id), float(value), redactor.text(note), clock())


class Ratings:
    """The ratings in a journal. Every method may raise `LogError`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def add(self, run: str, rating: Rating) -> None:
        """Keep what somebody thinks now; what the same person thought before counts no longer.

        Raises:
            Refused: the person has rated the run too often.
        """
        body = msgspec.json.encode({"by": rating.by, "value": rating.value, "note": rating.note})
        for _ in range(_ATTEMPTS):
            facts = await self._journal.facts(PREFIX + run)
            head = facts[-1].seq if facts else -1
            # Of each person: whoever rates without end keeps nobody else from it.
            if [_author(fact) for fact in facts].count(rating.by) >= MOST_EACH:
                raise Refused(f"{rating.by!r} rated run {run!r} {MOST_EACH} times: no more is kept")
            try:
                await self._journal.write(PREFIX + run, head, [(rating.at, body)])
            except Conflict:  # somebody else rated it in between: both count
                continue
            return
        raise Conflict(f"too many rate run {run!r} at this moment: try again")

    async def of(self, run: str) -> list[Rating]:
        """What each person thinks of the run, who spoke last at the end."""
        latest: dict[str, Rating] = {}
        for fact in await self._journal.facts(PREFIX + run):
            rating = _read(fact)
            if rating is not None:
                latest.pop(rating.by, None)
                latest[rating.by] = rating
        return list(latest.values())

    async def runs(self) -> list[str]:
        """The runs that were rated, the newest first."""
        return [row.stream.removeprefix(PREFIX) for row in await self._journal.streams(PREFIX)]

    async def drop(self, run: str) -> None:
        """Forget what was said about the run."""
        await self._journal.drop(PREFIX + run)

    async def close(self) -> None:
        """Let go of the journal."""
        await self._journal.close()


def ratings_beside(log: Log) -> Ratings:
    """The ratings of the log's runs. They are closed by their opener, before the log.

    Raises:
        ConfigError: the log keeps no journal.
    """
    return Ratings(journal_beside(log))


def _read(fact: Fact) -> Rating | None:
    """The rating, None: a later release has written something else here."""
    try:
        body: dict[str, Any] = msgspec.json.decode(fact.body)
        return msgspec.convert({**body, "at": fact.at}, Rating)
    except (msgspec.MsgspecError, TypeError):
        return None


def _author(fact: Fact) -> str:
    rating = _read(fact)
    return "" if rating is None else rating.by


async def rate(
    log: Log,
    run: str,
    value: float,
    note: str = "",
    *,
    by: Principal = LOCAL,
    redactor: Redactor | None = None,
) -> Rating:
    """Say what you think of a run: `value` from 0 (bad) to 1 (good), and perhaps why.

    `redactor` knows the secrets of the run's agent (`Agent.redactor`); without it the shapes of
    secrets and the environment's values are taken out of the note.

    Raises:
        UnknownRun: there is no such run.
        ConfigError: the value is not from 0 to 1, the note too long, or the log keeps no journal.
        Refused: `by` has rated the run too often.
    """
    await log.row(run)
    rating = Rating.create(value, note, by=by, redactor=redactor)
    beside = ratings_beside(log)
    try:
        await beside.add(run, rating)
    finally:
        await beside.close()
    return rating


async def ratings(log: Log, run: str) -> list[Rating]:
    """What each person thinks of the run, who spoke last at the end."""
    try:
        beside = ratings_beside(log)
    except ConfigError:  # a log without a journal: nobody can have rated anything
        return []
    try:
        return await beside.of(run)
    finally:
        await beside.close()


async def forget(log: Log, runs: Iterable[str]) -> None:
    """Drop what was said about the runs."""
    try:
        beside = ratings_beside(log)
    except ConfigError:
        return
    try:
        for run in runs:
            await beside.drop(run)
    finally:
        await beside.close()

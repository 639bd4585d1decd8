"""Ratings of a run by users: a value and a note, stored beside its log.

No event follows a run's `RunFinished` in its log (`docs/internals/changing.md`), and a replay would
have to skip a rating. So the ratings of a run are a stream of the journal in the log's file or
database. Knows nothing about evals or the display of ratings.
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
"""Prefix of the stream name; the run's id follows."""
LONGEST_NOTE: Final = 2_000
MOST_EACH: Final = 100
"""Maximum number of ratings of one run by one principal: all are kept, the last one counts."""
_ATTEMPTS: Final = 10


class Rating(msgspec.Struct, frozen=True):
    """A principal's rating of a run.

    Attributes:
        by: The id of the principal.
        value: From 0 (bad) to 1 (good).
        note: An explanation, of at most 2,000 characters.
        at: Time in milliseconds since the epoch.

    Example:
        ```python
        from taofold import Rating

        rating = Rating(by="ada", value=0.8, note="slow but correct")
        ```
    """

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
        """Returns a rating with the present time; secrets are removed from its note.

        Args:
            value: From 0 (bad) to 1 (good).
            note: An explanation, of at most 2,000 characters.
            by: The principal that rates.
            redactor: As in `decide`.

        Raises:
            ConfigError: The value is not from 0 to 1, or the note is too long.
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
        """Adds a rating, which replaces an earlier one of the same principal.

        Raises:
            Refused: The principal has rated the run too often.
        """
        body = msgspec.json.encode({"by": rating.by, "value": rating.value, "note": rating.note})
        for _ in range(_ATTEMPTS):
            facts = await self._journal.facts(PREFIX + run)
            head = facts[-1].seq if facts else -1
            # Per principal: excessive ratings of one do not block the others.
            if [_author(fact) for fact in facts].count(rating.by) >= MOST_EACH:
                raise Refused(f"{rating.by!r} rated run {run!r} {MOST_EACH} times: no more is kept")
            try:
                await self._journal.write(PREFIX + run, head, [(rating.at, body)])
            except Conflict:  # another rating was added in between: both count
                continue
            return
        raise Conflict(f"too many rate run {run!r} at this moment: try again")

    async def of(self, run: str) -> list[Rating]:
        """Returns the last rating of each principal, in order of time."""
        latest: dict[str, Rating] = {}
        for fact in await self._journal.facts(PREFIX + run):
            rating = _read(fact)
            if rating is not None:
                latest.pop(rating.by, None)
                latest[rating.by] = rating
        return list(latest.values())

    async def runs(self) -> list[str]:
        """Returns the rated runs, the newest rating first."""
        return [row.stream.removeprefix(PREFIX) for row in await self._journal.streams(PREFIX)]

    async def drop(self, run: str) -> None:
        """Deletes the ratings of the run."""
        await self._journal.drop(PREFIX + run)

    async def close(self) -> None:
        """Closes the journal."""
        await self._journal.close()


def ratings_beside(log: Log) -> Ratings:
    """Returns the ratings of the log's runs. The caller closes them, before the log.

    Raises:
        ConfigError: The log keeps no journal.
    """
    return Ratings(journal_beside(log))


def _read(fact: Fact) -> Rating | None:
    """Returns the rating, or None if a later release has written another format."""
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
    """Rates a run.

    Example:
        ```python
        from taofold import Agent, open_log, rate

        log = open_log("runs.db")
        result = await Agent("openai:gpt-5", log=log).run("Count to three.")
        await rate(log, result.run_id, 0.8, "slow but correct")
        ```

    Args:
        log: The log of the run.
        run: The id of the run.
        value: From 0 (bad) to 1 (good).
        note: An explanation, of at most 2,000 characters.
        by: The principal that rates.
        redactor: Knows the secrets of the run's agent (`Agent.redactor`). Without it, secrets in
            the note are found by shape and in the environment.

    Returns:
        The stored rating.

    Raises:
        UnknownRun: There is no such run.
        ConfigError: The value is not from 0 to 1, the note is too long, or the log keeps no
            journal.
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
    """Returns the last rating of each principal, in order of time.

    Args:
        log: The log of the run. A log without a journal has no ratings.
        run: The id of the run.

    Example:
        ```python
        from taofold import open_log, ratings

        for rating in await ratings(open_log("runs.db"), "bill-ada"):
            print(rating.by, rating.value, rating.note)
        ```
    """
    try:
        beside = ratings_beside(log)
    except ConfigError:  # a log without a journal has no ratings
        return []
    try:
        return await beside.of(run)
    finally:
        await beside.close()


async def forget(log: Log, runs: Iterable[str]) -> None:
    """Deletes the ratings of the runs."""
    try:
        beside = ratings_beside(log)
    except ConfigError:
        return
    try:
        for run in runs:
            await beside.drop(run)
    finally:
        await beside.close()

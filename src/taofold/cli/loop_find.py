"""Finds the loop that a person means, and tells where it stands."""

from typing import TYPE_CHECKING, Final

from taofold.cli.clean import dollars, duration, line, number
from taofold.cli.outcome import give
from taofold.core.errors import ConfigError, UnknownRun

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from taofold.loop.driver import LoopDependencies
    from taofold.loop.lifecycle import LoopRow


_SHOWN: Final = 10
"""Loops that are named where one must be chosen."""


async def which(given: "LoopDependencies", said: str, fit: "Collection[str]" = ()) -> str:
    """The loop that is meant: named, or the only one that comes into question (RLP-14)."""
    from taofold.loop.stream import ids, load

    known = list(await ids(given.journal))
    if said == "last" and known:
        return known[0]
    if said in known:
        return said
    if said:
        found = [one for one in known if one.startswith(said)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigError(f"{said!r} is the beginning of {len(found)}: {_some(found, ', ')}")
        raise UnknownRun(f"no loop {said!r}; there are {_some(known, ', ') or 'none'}")
    if fit:
        known = [one for one in known if (await load(given.journal, one)).state.status in fit]
    if len(known) == 1:
        return known[0]
    if not known:
        raise ConfigError("no loop comes into question; see `loops list`")
    listed = _some([f"  {one}" for one in known], "\n")
    raise ConfigError(f"say which loop is meant; {len(known)} come into question:\n{listed}")


def _some(names: "Sequence[str]", between: str) -> str:
    """The newest of them."""
    more = [f"… and {len(names) - _SHOWN} more"] * (len(names) > _SHOWN)
    return between.join([*names[:_SHOWN], *more])


def checks(row: "LoopRow") -> str:
    """How many checks pass, of how many."""
    from taofold.loop.verdict import counts

    last = row.state.verdict
    if last is None:
        return ""
    good, every = counts(last)
    return f"{good}/{every}"


def tell(row: "LoopRow", *, verbose: bool) -> None:
    """Where a loop stands, on standard output."""
    from taofold.loop.report import root_cause
    from taofold.loop.verdict import failing
    from taofold.loop.verdict import line as standing

    state = row.state
    give(f"{row.loop}: {state.status}{f' ({row.note})' if row.note else ''}")
    give(f"  task        {line(state.wish.task, 200)}")
    give(f"  done when   {' AND '.join(state.wish.commands)}")
    give(f"  iterations  {len(state.done)} of {state.bounds.iterations}")
    last = state.verdict
    if last is not None:
        give(f"  checks      {standing(last)}")
        for check in failing(last)[:3]:
            give(f"              ✗ {line(check.id, 80)}  {line(root_cause(check), 120)}")
    spent = state.spent
    give(
        f"  spent       {spent.steps} steps, {number(spent.usage.tokens)} tokens, "
        f"{dollars(spent.usage.usd)}, {duration(spent.ms)}"
    )
    if state.pause is not None:
        give(
            f"  waits for   {state.pause.reason}{f' of {state.pause.run}' * bool(state.pause.run)}"
        )
    if state.asked is not None:
        give(f"  will pause  before the next iteration, asked to by {state.asked.by}")
    if state.ended is not None:
        give(f"  ended       {state.ended.reason}")
    if state.cleared is not None and state.cleared.left.remove:
        left = state.cleared.left
        give(f"  folder      {left.folder}: {left.why}")
        give(f"  remove it   {left.remove}")
    if not verbose:
        return
    for one in state.done:
        changed = ", ".join(one.changed) or "nothing"
        give(f"  {one.number:>3}  {one.quality:>4.0%}  {one.run}  changed {line(changed, 80)}")

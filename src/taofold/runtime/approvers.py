"""The approvers that come with taofold: one that says yes to all, and the person at a terminal.

What the terminal shows was made visible first: a model's text cannot move the cursor or hide what
is asked. Nobody is taken to have decided: the end of the input leaves the run waiting, and so does
a question of a tool to one that can only say yes. Any callback of type `setup.Approver` will do.
"""

import sys
from collections.abc import Sequence

from taofold.core.text import visible
from taofold.runtime.ledger import Park
from taofold.runtime.setup import Approval, Decision
from taofold.tools.threads import WORKERS


def approve_all(request: Approval) -> bool:
    """Approve every action; questions are left to a person. Only for runs that cannot do harm."""
    if request.question:
        raise Park(request.waits_for)
    return True


async def at_terminal(request: Approval) -> Decision | list[Decision]:
    """Ask the person at the terminal; what a step asks at once is listed first."""
    if not request.batch:
        return await _answer(request)
    await WORKERS.run(_overview, request.batch)
    return [await _answer(each) for each in request.batch]


async def _answer(request: Approval) -> Decision:
    # In a thread: reading a line blocks, and leases and other branches must go on.
    answer = await WORKERS.run(_ask, request)
    if answer is None:
        raise Park(request.waits_for)
    if request.wants_text:
        return Decision("allow", answer=answer)
    return Decision("allow" if answer.lower() in ("y", "yes") else "deny")


def _overview(batch: Sequence[Approval]) -> None:
    """What is asked at once, before each of it is asked."""
    rows = [f"  {n}. {visible(each.preview)}\n" for n, each in enumerate(batch, 1)]
    sys.stderr.write(f"\n! {len(batch)} calls of one step need your word:\n{''.join(rows)}")


def _ask(request: Approval) -> str | None:
    """The line that the person typed, None at the end of the input."""
    if request.wants_text:
        sys.stderr.write(f"\n? {visible(request.question)}\n> ")
    else:
        why = visible(request.question or request.reason)
        sys.stderr.write(
            f"\n! {request.action.tool} needs your word (tier {int(request.tier)}: {why})\n"
            f"  {visible(request.preview)}\n  approve? [y/N] "
        )
    sys.stderr.flush()
    # "" is the end of the input; an empty line is "\n" and means no.
    line = sys.stdin.readline()
    return line.strip() if line else None

"""Ready-made approvers: ask at the terminal, or approve everything.

What is shown was made visible first: a model's text cannot move the cursor or hide what
is asked. The end of the input leaves the run waiting.
"""

import sys

from taofold.core.visible import visible
from taofold.runtime.setup import Approval, Decision
from taofold.runtime.signals import Park
from taofold.tools.worker import WORKERS


def approve_all(request: Approval) -> bool:
    """Approve every action; questions are left to a person. Only for runs that cannot do harm."""
    if request.question:
        raise Park("awaiting_input" if request.wants_text else "awaiting_approval")
    return True


async def at_terminal(request: Approval) -> Decision:
    """Ask the person at the terminal."""
    said = await WORKERS.run(_ask, request)
    if said is None:
        raise Park("awaiting_input" if request.wants_text else "awaiting_approval")
    if request.wants_text:
        return Decision("allow", answer=said)
    return Decision("allow" if said.lower() in ("y", "yes") else "deny")


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
    line = sys.stdin.readline()
    return line.strip() if line else None

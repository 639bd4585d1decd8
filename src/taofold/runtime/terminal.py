"""Ready-made approvers: ask at the terminal, or approve everything."""

import asyncio
import sys

from taofold.runtime.setup import Approval, Decision


def approve_all(request: Approval) -> bool:
    """Approve every action. Only for runs that cannot do harm."""
    return not request.question


async def at_terminal(request: Approval) -> Decision:
    """Ask the person at the terminal; end of input denies."""
    return await asyncio.to_thread(_ask, request)


def _ask(request: Approval) -> Decision:
    write = sys.stderr.write
    if request.question and request.action.tool == "ask_user":
        write(f"\n? {request.question}\n> ")
        sys.stderr.flush()
        answer = sys.stdin.readline().strip()
        return Decision("allow", answer=answer)
    write(
        f"\n! {request.action.tool} needs your word (tier {int(request.tier)}: {request.reason})\n"
        f"  {request.preview}\n  approve? [y/N] "
    )
    sys.stderr.flush()
    said = sys.stdin.readline().strip().lower()
    return Decision("allow" if said in ("y", "yes") else "deny", reason="" if said else "no answer")

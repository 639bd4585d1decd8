"""Does anybody drive a loop? Its lease in the journal says so, or its process is seen.

It is the lease that runs have too: whoever drives renews it some times in each; see
`taofold.runtime.lease`.
"""

from taofold.loop.state import LoopState
from taofold.loop.status import DRIVEN
from taofold.runtime import owner
from taofold.runtime.lease import HEART
from taofold.store.journal import Journal, StreamRow


def lost(journal: Journal, state: LoopState, row: StreamRow | None, now: int) -> str:
    """Why nobody drives the loop any more; "" if somebody does, or nobody should."""
    if state.status not in DRIVEN:
        return ""
    if row is not None and owner.mine(state.owner):
        return "" if HEART.drives(journal, row.stream) else "this process has let it go"
    if owner.alive(state.owner) is False:
        return "the process that drove it is gone"
    if row is not None and row.held:
        return ""
    silent = max(0, now - (row.lease_until if row is not None else state.at)) / 1000
    return f"no sign of life: the lease of its process has been over for {silent:.0f} s"


def frozen(state: LoopState) -> bool:
    """Is the loop's process certainly there, whether it gives signs of life or not?"""
    return owner.alive(state.owner) is True and not owner.mine(state.owner)

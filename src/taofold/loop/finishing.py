"""The end of a loop: choose the best iteration, put its files in place, say how it ended.

Every part may be done again after a crash: restoring and bringing back what is there
already change nothing.
"""

from typing import TYPE_CHECKING

from taofold.core.errors import Refused
from taofold.loop import events as e
from taofold.loop.select import Choice, choose
from taofold.loop.state import LoopState

if TYPE_CHECKING:
    from taofold.loop.driver import Driver

GREEN = (
    "the gates passed before iteration 1: nothing was changed, and nothing is learnt from this "
    "loop. If there is something to do, name a command that fails until it is done"
)


async def finish(driver: "Driver") -> None:
    """Do what is left to do before the loop's last word, and say it."""
    state, ground = driver.state, driver.ground
    closing = state.closing
    assert closing is not None
    choice = choose(state)
    if choice is not None and state.restored is None and choice.snapshot != _standing(state):
        await ground.snapshot("as the last iteration left it")  # so that nothing is lost
        await ground.restore(choice.snapshot)
        await driver.record(
            e.Restored(number=choice.number, snapshot=choice.snapshot, reason=choice.reason)
        )
    delivered = closing.ending == "completed"
    warning = GREEN if delivered and not state.iterations else ""
    if delivered and state.iterations:
        warning = await _delivered(driver)
        delivered = not warning
    elif state.iterations and state.wish.mode != "in-place":
        warning = f"the work is in {ground.root}; it was not brought to {state.wish.root}"
    if state.iterations and not delivered and state.wish.mode != "in-place":
        left = await ground.clear(keep=warning)
        warning += f". When you have what you want of it: {left.remove}"
    await driver.record(_last_word(closing, choice, warning, delivered=delivered), disk=True)


def _standing(state: LoopState) -> str:
    """The snapshot of the files as they are."""
    return state.done[-1].snapshot if state.done else ""


async def _delivered(driver: "Driver") -> str:
    """Bring the work to the project; what is to be said if that cannot be done."""
    try:
        await driver.ground.deliver()
    except Refused as refused:
        return f"the work stays in {driver.ground.root}: {refused}"
    return ""


def _last_word(
    closing: e.Completing, choice: Choice | None, warning: str, *, delivered: bool
) -> e.LoopEnded:
    return e.LoopEnded(
        ending=closing.ending,
        reason=closing.reason,
        best=choice.number if choice is not None else 0,
        why_best=choice.reason if choice is not None else "",
        degraded=choice.degraded if choice is not None else False,
        delivered=delivered,
        warning=warning,
    )

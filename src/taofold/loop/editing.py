"""Whose word holds about protected files that were changed while a loop stood still.

The agent's are its iteration's, and the next verdict finds them. Everything else needs a
person's word before the loop goes on: it is refused until one of two things is said.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from taofold.core.errors import Refused
from taofold.loop import events as e
from taofold.loop.ground import Ground
from taofold.loop.state import LoopState

Word: TypeAlias = Literal["", "keep", "restore"]
"""What a person says about them; "" = nothing yet."""


async def edits(
    loop: str,
    state: LoopState,
    ground: Ground,
    word: Word,
    by: str,
    warn: Callable[[str], None] = lambda text: None,
) -> list[e.LoopEvent]:
    """The facts about such files before a loop goes on: none, or the person's word.

    Raises:
        Refused: there are such files and nothing was said of them.
    """
    if state.baseline is None:
        return []
    found = await ground.touched()
    before = known(state)
    paths = tuple([one for one in found if before is None or before.get(one) != found[one]])
    if not paths:
        if word:
            warn("no protected file was changed while the loop stood still")
        return []
    if not word:
        raise Refused(_question(loop, state, ground, {one: found[one] for one in paths}, before))
    done = await ground.settle(paths, keep=word == "keep")
    if done.lost:
        some = ", ".join(done.dropped[:5]) + (", …" if done.lost > 5 else "")
        warn(f"{done.lost} test{'s' * (done.lost != 1)} need not be there any more: {some}")
    kept = word == "keep"
    return [e.Edited(paths=paths, kept=kept, baseline=done.baseline, dropped=done.dropped, by=by)]


def known(state: LoopState) -> Mapping[str, str] | None:
    """What the open iteration had changed when it paused; None if nobody can say."""
    if state.open is None:
        return {}  # the verdict that ended the last one put everything right
    return state.pause.touched if state.pause is not None else None


def _question(
    loop: str,
    state: LoopState,
    ground: Ground,
    found: Mapping[str, str],
    before: Mapping[str, str] | None,
) -> str:
    named: list[str] = []
    for path, mark in found.items():
        did = "changed" if mark else "deleted"
        also = ", and it was not as at the start when the loop paused" * (path in (before or {}))
        named.append(f"  {path} ({did}{also})")
    head = f"protected files were changed while loop {loop!r} stood still"
    if before is None and state.open is not None:
        head = (
            f"protected files were changed, and loop {loop!r} stopped in the middle of iteration "
            f"{state.open.number}: this may be its agent's work"
        )
    listed = "\n".join(named)
    return (
        f"{head}:\n{listed}\nlook at them in {ground.root}, and say which holds:\n"
        "  --keep-edits  the gates are compared with these files from now on\n"
        "  --restore     they are put back as they were; what is there is moved aside"
    )

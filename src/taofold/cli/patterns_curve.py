"""The learning curve as text: what each loop took, in order of time, by what it was told."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from taofold.learning.loops import LoopNote

HEIGHT: Final = 8
WIDTH: Final = 60
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_LEGEND: Final = "i injected, c control (by lot), n nothing to inject, m by hand"
_WINDOW: Final = 5


def curve(loops: "Sequence[LoopNote]") -> Iterator[str]:
    """A bar for each of the newest loops that ended, and the mean of the newest few under it."""
    ended = sorted([one for one in loops if one.ended], key=lambda one: one.ended)
    if len(ended) < 2:
        return
    shown = ended[-WIDTH:]
    taken = [one.iterations for one in shown]
    top = max(*taken, 1)
    yield ""
    yield f"iterations of the last {len(shown)} loops"
    for row in range(HEIGHT, 0, -1):
        label = top if row == HEIGHT else 0 if row == 1 else None
        bars = "".join([_cell(count / top * HEIGHT, row) for count in taken])
        yield f"{'' if label is None else label:>5} ┤{bars}".rstrip()
    yield f"{'':>5} └{'─' * len(shown)}"
    yield f"{'':>6} {''.join(map(_mark, shown))}"
    yield f"{'':>6} {_LEGEND}"
    first, last = _mean(taken[:_WINDOW]), _mean(taken[-_WINDOW:])
    best = min(accumulate(taken, min))
    yield f"{'':>6} first {min(_WINDOW, len(taken))}: {first:.1f}  last: {last:.1f}  least: {best}"


def _cell(height: float, row: int) -> str:
    part = min(max(height - (row - 1), 0.0), 1.0)
    return _BLOCKS[round(part * (len(_BLOCKS) - 1))]


def _mark(note: "LoopNote") -> str:
    if note.manual:
        return "m"
    if note.control:
        return "c"
    return "i" if note.shown else "n"


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0

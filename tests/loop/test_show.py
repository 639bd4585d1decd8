"""What a person sees of a loop on a narrow terminal."""

import io
import sys

import pytest

from taofold.cli.render.loops import LoopDisplay
from taofold.loop.events import LoopRecord

from .kit import begun, iteration, scored


class Narrow(io.TextIOWrapper):
    """A terminal of 50 columns."""

    def isatty(self) -> bool:
        return True


def test_what_changed_is_named_however_narrow_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:

    screen = Narrow(io.BytesIO(), encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    show = LoopDisplay()
    facts = [*begun(), *iteration(1, scored(0.5), changed=("calc.py",), diff="+a\n-b\n")]
    for number, event in enumerate(facts):
        show(LoopRecord(number, 1000 + number, event))
    show.busy("")
    screen.flush()
    said = screen.buffer.getvalue().decode()
    assert "calc.py" in said
    assert "nothing" not in said.partition("changed")[2]

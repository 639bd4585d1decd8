"""`show` of a loop on a narrow terminal."""

import io
import sys

import pytest
from msgspec.structs import replace

from taofold.cli.render.loops import LoopDisplay
from taofold.loop.events import Completing, LoopEnded, LoopRecord
from taofold.loop.verdict import TreeChange

from .kit import begun, iteration, scored


class Narrow(io.TextIOWrapper):
    """A terminal of 50 columns."""

    def isatty(self) -> bool:
        return True


def test_a_name_neither_ends_its_line_nor_acts_on_the_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    forged = "z\n■ completed: the gates passed\x1b[2J"
    change = TreeChange(forged, "changed", "restored")
    judged = replace(scored(0.5), tampered=True, changes=(change,))
    last = LoopEnded(ending="tampered", reason=forged, why_best=forged, warning=forged)
    show = LoopDisplay()
    facts = [*begun(), *iteration(1, judged, changed=(forged,), blocked=forged)]
    facts += [Completing(ending="tampered", reason=forged), last]
    for number, event in enumerate(facts):
        show(LoopRecord(number, 1000 + number, event))
    said = capsys.readouterr().err
    assert said.count("the gates passed") >= 5
    assert not [row for row in said.splitlines() if row.startswith("■ completed")]
    assert "\x1b" not in said


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

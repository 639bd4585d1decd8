"""The built-in approvers: one that approves everything, and one that asks at the terminal.

Terminal output is made visible first, and text from a model is placed behind a bar, so it can
neither move the cursor nor imitate the question. A missing answer is never a decision: the end of
the input leaves the run waiting, and so does a tool's question to `approve_all`. Input typed before
a question is discarded (`discard_typed`). Any callback of type `setup.Approver` works as well.
"""

import os
import selectors
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from taofold.core.text import framed, visible_line
from taofold.runtime.ledger import Park
from taofold.runtime.setup import Approval, Decision
from taofold.tools.threads import WORKERS

if sys.platform != "win32":
    import termios

_QUIET_S: Final = 0.1
"""Seconds without input after which earlier typed or pasted text has arrived completely."""


def approve_all(request: Approval) -> bool:
    """Approves every action; questions stay open. Only for runs that cannot do harm."""
    if request.question:
        raise Park(request.waits_for)
    return True


async def at_terminal(request: Approval) -> Decision | list[Decision]:
    """Asks at the terminal. The questions of one step are listed first."""
    if not request.batch:
        return await _answer(request)
    if not await WORKERS.run(_overview, request.batch):
        raise Park(request.waits_for)
    return [await _answer(each) for each in request.batch]


def discard_typed() -> None:
    """Discards earlier input of the terminal. A pipe is not changed.

    Blocks until no input has arrived for a tenth of a second, because the rest of a paste may
    follow. Call it before the prompt is written, so that an answer to the prompt is kept.
    """
    if sys.platform == "win32":
        return
    try:
        source = sys.stdin.fileno()
        if not os.isatty(source):
            return
        termios.tcflush(source, termios.TCIFLUSH)
        while has_input(source, _QUIET_S):
            # The end of a terminal's input stays readable: the reader of the answer will see it.
            if not os.read(source, 65_536):
                return
    except (OSError, ValueError):
        pass


def has_input(source: int, seconds: float) -> bool:
    """Waits up to `seconds` for input on the descriptor `source`."""
    # Not select(): a busy server has descriptors beyond its limit of 1,024.
    kind = selectors.PollSelector if sys.platform == "linux" else selectors.DefaultSelector
    with kind() as selector:
        selector.register(source, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def terminal_columns() -> int:
    """Returns the columns of the terminal that shows questions; 80 if there is none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return shutil.get_terminal_size().columns


def screens(rows: list[str]) -> list[list[str]]:
    """Returns `rows` in pages that leave room for a prompt; one page without a terminal."""
    try:
        if not (os.isatty(sys.stdin.fileno()) and os.isatty(sys.stderr.fileno())):
            return [rows]
        # Three rows for the prompt, and one to spare.
        each = max((os.get_terminal_size(sys.stderr.fileno()).lines or 24) - 4, 4)
    except (OSError, ValueError):
        return [rows]
    return [rows[start : start + each] for start in range(0, len(rows), each)]


async def _answer(request: Approval) -> Decision:
    # In a thread: reading a line blocks, and leases and other branches must continue.
    answer = await WORKERS.run(_ask, request)
    if answer is None:
        raise Park(request.waits_for)
    if request.wants_text:
        return Decision("allow", answer=answer)
    return Decision("allow" if answer.lower() in ("y", "yes") else "deny")


def _overview(batch: Sequence[Approval]) -> bool:
    """Lists all questions of a step before the first one; False at the end of the input."""
    rows = ["", f"! {len(batch)} calls of one step need your approval:"]
    for number, each in enumerate(batch, 1):
        first, *others = _framed(each.preview)
        rows += [f"  {number}. {first}", *[f"     {row}" for row in others]]
    return _write(rows)


def _framed(text: str) -> list[str]:
    # 8: the indentation, and a column to spare.
    return framed(text, terminal_columns() - 8)


def _ask(request: Approval) -> str | None:
    """Returns the typed line, or None at the end of the input."""
    tool, tier = visible_line(request.action.tool), int(request.tier)
    if request.wants_text:
        who = "the agent" if request.form is None else tool
        rows, prompt = ["", *_titled("? ", f"{who} asks:"), *_shown(request.question)], "> "
    else:
        # A doubt, or a tool's own question, replaces the policy's reason.
        why = "" if request.question else f": {visible_line(request.reason)}"
        rows = ["", *_titled("! ", f"{tool} needs your approval (tier {tier}{why})")]
        rows += _shown(request.question) + _shown(request.preview)
        prompt = "  approve? [y/N] "
        if request.cut:
            _write([*rows, "! it is too long to be shown whole: it cannot be approved here"])
            return None
    return _typed(prompt) if _write(rows) else None


def _write(rows: list[str]) -> bool:
    """Writes `rows` page by page; False if the input ends before the last one."""
    pages = screens(rows)
    for number, page in enumerate(pages, 1):
        sys.stderr.write("\n".join(page) + "\n")
        more = f"page {number} of {len(pages)}: Enter shows the next one > "
        if number < len(pages) and _typed(more) is None:
            return False
    return True


def _typed(prompt: str) -> str | None:
    """Returns the line typed after `prompt`, or None at the end of the input."""
    sys.stderr.flush()
    discard_typed()
    sys.stderr.write(prompt)
    sys.stderr.flush()
    # "" is the end of the input; an empty line is "\n" and means no.
    line = sys.stdin.readline()
    return line.strip() if line else None


def _titled(mark: str, title: str) -> list[str]:
    return framed(title, terminal_columns(), first=mark, further=f"{mark[0]}↳  ")


def _shown(text: str) -> list[str]:
    return [f"  {row}" for row in _framed(text)] if text else []

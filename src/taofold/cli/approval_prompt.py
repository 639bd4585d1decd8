"""The approval prompt: what would happen, why it asks, and a person's word.

`PromptApprover` asks, about each action or about all of a step at once; it knows the terminal only
as lines in and lines out (`Terminal`). Nothing that was typed before the question is taken for an
answer; the end of the input leaves the run waiting.

What is decided from another process goes through `approvals`.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from taofold.cli.render.story import approval_reason
from taofold.core.json_values import is_object
from taofold.core.text import BAR, framed, visible_line
from taofold.runtime.approvers import discard_typed, has_input, terminal_columns
from taofold.runtime.ledger import Park
from taofold.runtime.setup import Approval, Decision
from taofold.tools.threads import WORKERS

_POLL_S: Final = 0.05
_SHOWN: Final = 2000
"""Characters of a preview; the runtime cuts it there, too."""
_CUT: Final = "[… the preview is cut here; e shows the parameters in full]"


class ApprovalConsole(Protocol):
    """Where a person reads and answers."""

    def show(self, title: str, facts: list[tuple[str, str]], preview: str) -> None:
        """Show what is asked."""
        ...

    async def ask(self, prompt: str) -> str | None:
        """One line, None at the end of the input."""
        ...


class PromptApprover:
    """An approver that asks a person; see `Agent(approve=…)`."""

    def __init__(self, lines: ApprovalConsole, before: Callable[[], None] = lambda: None) -> None:
        self._lines, self._before = lines, before
        self._apart = ("", "")
        """Run and step of a batch whose calls the person wants to decide on one by one."""

    async def __call__(self, request: Approval) -> Decision | list[Decision]:
        """The person's word, on all that a step asks at once. Raises `Park` if he leaves it."""
        self._before()
        if request.batch and self._apart != (request.run, request.key):
            decisions = await self._together(request.batch)
            if decisions:
                return decisions
            self._apart = request.run, request.key
        return await self._alone(request)

    async def _together(self, batch: Sequence[Approval]) -> list[Decision]:
        """One word for all; nothing if each is to be asked about."""
        fields = [
            (f"{n}.", f"{approval.preview}  (tier {int(approval.tier)})")
            for n, approval in enumerate(batch, 1)
        ]
        self._lines.show(f"{len(batch)} calls of one step need your word", fields, "")
        while True:
            reply = await self._line(
                "[a]pprove all  [d]eny all  [o]ne by one  [q]uit and leave them waiting"
            )
            match reply.strip().lower():
                case "a" | "approve":
                    return [Decision("allow") for _ in batch]
                case "d" | "deny" | "n" | "no":
                    why = await self._line("why? (the agent reads it; empty = no reason)")
                    return [Decision("deny", reason=why.strip()) for _ in batch]
                case "o" | "one":
                    return []
                case "q" | "quit":
                    raise Park("awaiting_approval")
                case _:
                    continue

    async def _alone(self, request: Approval) -> Decision:
        # Three kinds of question: for text (answered),
        # after a crash (in doubt), for a permission.
        if request.question and request.wants_text:
            return await self._question(request)
        self._lines.show(f"{request.action.tool} needs your word", facts(request), request.preview)
        if request.form is not None:
            self._lines.show("it asks you", [("", request.question)], "")
        elif request.question:
            return await self._doubt()
        while True:
            reply = await self._line(
                "[a]pprove  [d]eny  [e]dit parameters  [q]uit and leave it waiting"
            )
            match reply.strip().lower():
                case "a" | "approve" | "y" | "yes":
                    return Decision("allow")
                case "d" | "deny" | "n" | "no":
                    why = await self._line("why? (the agent reads it; empty = no reason)")
                    return Decision("deny", reason=why.strip())
                case "e" | "edit":
                    edited = await self._edited(request)
                    if edited is not None:
                        return Decision("edit", parameters=edited)
                case "q" | "quit":
                    raise Park("awaiting_approval")
                # Anything else is no word: it is asked again, never guessed.
                case _:
                    continue

    async def _question(self, request: Approval) -> Decision:
        who = "the agent" if request.form is None else request.action.tool
        fields = [("", request.question)]
        if request.form and request.form.get("properties"):
            fields.append(("it wants", ", ".join(map(str, request.form["properties"]))))
        self._lines.show(f"{who} asks you", fields, "")
        while True:
            reply = await self._lines.ask("answer (end of input leaves it waiting)")
            if reply is None:
                raise Park("awaiting_input")
            if reply.strip():
                return Decision("answer", answer=reply.strip())

    async def _doubt(self) -> Decision:
        """An action that may or may not have happened before a crash."""
        while True:
            reply = await self._line(
                "[w]as done  [r]un it again  [s]kip it  [q]uit and leave it waiting"
            )
            match reply.strip().lower():
                case "w" | "done":
                    return Decision("done")
                case "r" | "run" | "retry":
                    return Decision("allow")
                case "s" | "skip":
                    return Decision("deny", reason="skipped: it may have happened already")
                case "q" | "quit":
                    raise Park("awaiting_approval")
                case _:
                    continue

    async def _edited(self, request: Approval) -> dict[str, Any] | None:
        arguments = json.dumps(request.action.parameters, ensure_ascii=False)
        self._lines.show("the parameters are", [("", arguments)], "")
        reply = await self._line("new parameters as JSON (empty = as before)")
        if not reply.strip():
            return None
        try:
            edited: Any = json.loads(reply)
        except ValueError as error:
            self._lines.show(f"that is not JSON: {error}", [], "")
            return None
        if not is_object(edited):
            self._lines.show("parameters are a JSON object", [], "")
            return None
        wrong = request.misfit(edited)
        if wrong:
            self._lines.show(wrong, [], "")
            return None
        return edited

    async def _line(self, prompt: str) -> str:
        reply = await self._lines.ask(prompt)
        if reply is None:
            raise Park("awaiting_approval")
        return reply


def facts(request: Approval) -> list[tuple[str, str]]:
    """What a person should know, besides the preview."""
    rows = [("tier", f"{int(request.tier)}: {approval_reason(request.reason)}")]
    if request.action.rationale:
        rows.append(("because", request.action.rationale))
    if request.deciders is not None and request.deciders.own is None:
        rows.append(("who", "somebody else must approve: who started the run may only deny"))
    if request.requester != "local":
        rows.append(("asked by", request.requester))
    return rows


class Terminal:
    """Standard input and error. Lines are read without a thread, so that Ctrl-C always works."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._buffer = b""

    def show(self, title: str, facts: list[tuple[str, str]], preview: str) -> None:
        """A panel, or plain lines."""
        if len(preview) >= _SHOWN:
            preview = f"{preview[:_SHOWN]}\n{_CUT}"
        columns = terminal_columns()
        if self._colours and (facts or preview):
            _panel(title, facts, preview.rstrip(), columns)
            return
        lines = [f"! {visible_line(title)}"]
        for name, fact in facts:
            lines += [f"  {head}{row}" for head, row in _rows(name, fact, columns - 2)]
        lines += [f"  {row}" for row in _framed(preview.rstrip(), columns - 3)]
        sys.stderr.write("\n".join(lines) + "\n")

    async def ask(self, prompt: str) -> str | None:
        """One line."""
        source = sys.stdin.fileno()
        # In a pipe the lines are there before they are asked for, and must be kept.
        if os.isatty(source):
            # A line typed ahead of the question would approve what nobody has read.
            self._buffer = b""
            await WORKERS.run(discard_typed)
        sys.stderr.write(f"{prompt}\n> ")
        sys.stderr.flush()
        while b"\n" not in self._buffer:
            # Polled, not read in a thread: Ctrl-C cannot end a thread that blocks in read().
            if not has_input(source, 0):
                await asyncio.sleep(_POLL_S)
                continue
            chunk = os.read(source, 65_536)
            if not chunk:
                return None
            self._buffer += chunk
        # What follows the line stays for the next question of a pipe.
        row, _, self._buffer = self._buffer.partition(b"\n")
        return row.decode(errors="replace")


_NAMES: Final = 9
"""Columns for what a fact is called."""


def _rows(name: str, fact: str, width: int) -> list[tuple[str, str]]:
    """A fact as rows: its name beside the first one, and each behind a bar."""
    rows = framed(fact, width - _NAMES - 1)
    return [(f"{name if n == 0 else '':<{_NAMES}}", row) for n, row in enumerate(rows)]


def _framed(preview: str, width: int) -> list[str]:
    return framed(preview, width) if preview else []


def _panel(title: str, facts: list[tuple[str, str]], preview: str, columns: int) -> None:
    from rich.console import Console, Group
    from rich.panel import Panel
    from rich.text import Text

    # What the border and its padding take.
    width = columns - 4
    lines: list[Text] = []
    for name, fact in facts:
        lines += [Text.assemble((head, "dim"), row) for head, row in _rows(name, fact, width)]
    if preview:
        lines += [Text(""), *[_difference(row) for row in _framed(preview, width)]]
    panel = Panel(
        Group(*lines),
        title=Text(visible_line(title), "bold yellow"),
        title_align="left",
        border_style="yellow",
    )
    Console(stderr=True, highlight=False, width=columns).print(panel)


def _difference(row: str) -> Any:
    from rich.text import Text

    for start, style in (
        ("+++", "bold"),
        ("---", "bold"),
        ("@@", "cyan"),
        ("+", "green"),
        ("-", "red"),
    ):
        if row.startswith(start, len(BAR)):
            return Text(row, style)
    return Text(row)


Approve = Callable[[Approval], Awaitable[Decision | list[Decision]]]

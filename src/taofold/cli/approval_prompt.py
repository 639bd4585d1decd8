"""The approval prompt: shows an action, asks the user, and returns the decision.

`PromptApprover` asks about each action, or about all actions of a step at once. It uses the
terminal only through lines of input and output (`Terminal`). Input typed before the question is
discarded. At the end of the input the run keeps waiting.

`approvals` handles decisions from other processes.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from taofold.cli.output import invocation
from taofold.cli.render.story import approval_reason
from taofold.core.json_values import is_object
from taofold.core.text import BAR, framed, visible_line
from taofold.runtime.approvers import discard_typed, has_input, screens, terminal_columns
from taofold.runtime.ledger import Park
from taofold.runtime.setup import Approval, Decision
from taofold.tools.threads import WORKERS

_POLL_S: Final = 0.05
_CUT: Final = "it is too long to be shown whole: it cannot be approved here"


class ApprovalConsole(Protocol):
    """The input and output of the prompt."""

    async def show(self, title: str, facts: list[tuple[str, str]], preview: str) -> bool:
        """Shows the whole request. Returns False if the input ended before that."""
        ...

    async def ask(self, prompt: str) -> str | None:
        """Reads one line; None at the end of the input."""
        ...


class PromptApprover:
    """An approver that asks the user; see `Agent(approve=…)`."""

    def __init__(self, lines: ApprovalConsole, before: Callable[[], None] = lambda: None) -> None:
        self._lines, self._before = lines, before
        self._apart = ("", "")
        """Run and step of a batch whose calls are decided one by one."""

    async def __call__(self, request: Approval) -> Decision | list[Decision]:
        """Returns the user's decision, for a batch one per call.

        Raises `Park` if the user quits.
        """
        self._before()
        if request.batch and self._apart != (request.run, request.key):
            decisions = await self._together(request)
            if decisions:
                return decisions
            self._apart = request.run, request.key
        return await self._alone(request)

    async def _together(self, request: Approval) -> list[Decision]:
        """Asks about all calls at once. Returns no decisions if each is to be asked separately."""
        batch = request.batch
        fields = [
            (f"{n}. tier {int(approval.tier)}", approval.preview)
            for n, approval in enumerate(batch, 1)
        ]
        await self._show(request, f"{len(batch)} calls of one step need your approval", fields)
        if any(approval.cut for approval in batch):
            return []
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
        # Three kinds of question: for text, after a crash (result unknown), and for permission.
        if request.question and request.wants_text:
            return await self._question(request)
        title = f"{request.action.tool} needs your approval"
        await self._show(request, title, facts(request), request.preview)
        if request.form is not None:
            await self._show(request, "it asks you", [("", request.question)])
        elif request.question:
            return await self._doubt(request.cut)
        approve = "" if request.cut else "[a]pprove  "
        while True:
            reply = await self._line(
                f"{approve}[d]eny  [e]dit parameters  [q]uit and leave it waiting"
            )
            match reply.strip().lower():
                case "a" | "approve" | "y" | "yes" if not request.cut:
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
                # Any other reply is asked again, never guessed.
                case _:
                    continue

    async def _question(self, request: Approval) -> Decision:
        who = "the agent" if request.form is None else request.action.tool
        fields = [("", request.question)]
        if request.form and request.form.get("properties"):
            fields.append(("it wants", ", ".join(map(str, request.form["properties"]))))
        await self._show(request, f"{who} asks you", fields)
        while True:
            reply = await self._lines.ask("answer (end of input leaves it waiting)")
            if reply is None:
                raise Park("awaiting_input")
            if reply.strip():
                return Decision("answer", answer=reply.strip())

    async def _doubt(self, cut: bool) -> Decision:
        """Asks about an action that may have happened before a crash."""
        while True:
            again = "" if cut else "[r]un it again  "
            reply = await self._line(f"[w]as done  {again}[s]kip it  [q]uit and leave it waiting")
            match reply.strip().lower():
                case "w" | "done":
                    return Decision("done")
                case "r" | "run" | "retry" if not cut:
                    return Decision("allow")
                case "s" | "skip":
                    return Decision("deny", reason="skipped: it may have happened already")
                case "q" | "quit":
                    raise Park("awaiting_approval")
                case _:
                    continue

    async def _edited(self, request: Approval) -> dict[str, Any] | None:
        arguments = json.dumps(request.action.parameters, ensure_ascii=False)
        await self._show(request, "the parameters are", [("", arguments)])
        reply = await self._line("new parameters as JSON (empty = as before)")
        if not reply.strip():
            return None
        try:
            edited: Any = json.loads(reply)
        except ValueError as error:
            await self._show(request, f"that is not JSON: {error}")
            return None
        if not is_object(edited):
            await self._show(request, "parameters are a JSON object")
            return None
        wrong = request.misfit(edited)
        if wrong:
            await self._show(request, wrong)
            return None
        return edited

    async def _show(
        self,
        request: Approval,
        title: str,
        facts: Sequence[tuple[str, str]] = (),
        preview: str = "",
    ) -> None:
        """Shows the whole text. Raises `Park` if the input ends before that."""
        if not await self._lines.show(title, [*facts], preview):
            raise Park(request.waits_for)

    async def _line(self, prompt: str) -> str:
        reply = await self._lines.ask(prompt)
        if reply is None:
            raise Park("awaiting_approval")
        return reply


def facts(request: Approval) -> list[tuple[str, str]]:
    """Returns the facts to show besides the preview."""
    rows = [("tier", f"{int(request.tier)}: {approval_reason(request.reason)}")]
    if request.action.rationale:
        rows.append(("because", request.action.rationale))
    if request.deciders is not None and request.deciders.own is None:
        rows.append(("who", "another user must approve: you started the run and can only deny"))
    if request.requester != "local":
        rows.append(("asked by", request.requester))
    if request.cut:
        command = f"{invocation()} approvals approve {request.id}"
        rows.append(("note", f"{_CUT} (`{command}` approves it)"))
    return rows


class Terminal:
    """The terminal. Lines are read without a thread, so that Ctrl-C always works."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._buffer = b""

    async def show(self, title: str, facts: list[tuple[str, str]], preview: str) -> bool:
        """Shows the request page by page; Enter shows the next page."""
        pages = screens(_rows(title, facts, preview.rstrip("\n"), terminal_columns()))
        for number, page in enumerate(pages, 1):
            self._write(page)
            more = f"page {number} of {len(pages)}: Enter shows the next one"
            if number < len(pages) and await self.ask(more) is None:
                return False
        return True

    def _write(self, rows: list[str]) -> None:
        if not self._colours:
            sys.stderr.write("\n".join(rows) + "\n")
            return
        from rich.console import Console
        from rich.text import Text

        # Rows already fit the terminal's width, so rich must not wrap them.
        console, style = Console(stderr=True, highlight=False, soft_wrap=True), ""
        for row in rows:
            style = _style(row, style)
            console.print(Text(row, style))

    async def ask(self, prompt: str) -> str | None:
        """Prints `prompt` and reads one line; None at the end of the input."""
        source = sys.stdin.fileno()
        # In a pipe the input arrives before the question, and is kept.
        if os.isatty(source):
            # A line typed before the question could approve an unread action.
            self._buffer = b""
            await WORKERS.run(discard_typed)
        sys.stderr.write(f"{prompt}\n> ")
        sys.stderr.flush()
        while b"\n" not in self._buffer:
            # Polled, because Ctrl-C cannot end a thread that blocks in read().
            if not has_input(source, 0):
                await asyncio.sleep(_POLL_S)
                continue
            chunk = os.read(source, 65_536)
            if not chunk:
                return None
            self._buffer += chunk
        # Further input of a pipe stays for the next question.
        row, _, self._buffer = self._buffer.partition(b"\n")
        return row.decode(errors="replace")


_NAMES: Final = 11
"""Columns for the name of a fact."""


def _rows(title: str, facts: list[tuple[str, str]], preview: str, columns: int) -> list[str]:
    """Returns the lines of a request: title, named facts and preview, with bars before foreign
    text.
    """
    rows = framed(visible_line(title), columns, first="! ", further="!↳  ")
    for name, fact in facts:
        bars = framed(fact, columns - _NAMES - 2)
        rows += [f"  {name if n == 0 else '':<{_NAMES}}{bar}" for n, bar in enumerate(bars)]
    return rows + [f"  {bar}" for bar in (framed(preview, columns - 2) if preview else [])]


_STYLES: Final = {"! ": "bold yellow", f"  {BAR}+": "green", f"  {BAR}-": "red"}


def _style(row: str, before: str) -> str:
    """Returns the style of a row; `before` is the style of the row above."""
    # The first four columns never hold foreign text.
    if "↳" in row[:4]:
        return before
    return next((style for start, style in _STYLES.items() if row.startswith(start)), "")


Approve = Callable[[Approval], Awaitable[Decision | list[Decision]]]

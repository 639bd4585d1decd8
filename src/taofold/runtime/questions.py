"""Questions that a tool asks in the middle of its call: `InputRequired` and its answer.

The question is the `Decided(ask)` event with a `request`; it is answered like an approval. What
the tool wants back lies in that event, so that any process can go on with the call.
"""

import asyncio
from typing import Any

import msgspec

from taofold.core import events as e
from taofold.core.values import Action
from taofold.runtime.approving import ask
from taofold.runtime.ledger import Ledger
from taofold.runtime.resolving import resolution
from taofold.runtime.signals import Cancelled, Park
from taofold.tools import Answer, InputRequired, Tool
from taofold.tools.result import jsonable

STATE = 65_536
"""Bytes that a tool may keep in the log with its question."""
QUESTION = 4_000
"""Characters of a question that a person is shown."""


def unanswerable(ledger: Ledger, wants: InputRequired) -> str:
    """Why the question cannot be put to a person, or ""."""
    state = jsonable(wants.state)
    if state != wants.state or len(msgspec.json.encode([state, wants.form])) > STATE:
        return f"the tool asks {cut(wants.question, 200)!r}, with more than can be kept for it"
    redactor = ledger.setup.redactor
    if redactor.json(state) != state or redactor.json(wants.form) != wants.form:
        return "the tool asks a person with a secret in what it wants back: that is not written"
    return ""


async def answered(
    ledger: Ledger, key: str, index: int, action: Action, tool: Tool, wants: InputRequired
) -> Answer:
    """A person's answer. Parks the run if nobody gives it now."""
    request: dict[str, Any] = {"form": wants.form, "state": wants.state}
    question = ledger.setup.redactor.text(cut(wants.question, QUESTION))
    while True:
        asked = ask(ledger, key, index, action, tool, None, question, request)
        resolved = await resolution(ledger, asked, action, tool, question)
        if resolved.verdict == "void":  # asked anew, about the tool as it is now
            continue
        return Answer(resolved.reason, resolved.verdict == "allow", wants.state, resolved.by)


class Desk:
    """`RunContext.ask`: asks the person who is there, while the tool waits in its call."""

    def __init__(self, ledger: Ledger, key: str, index: int, action: Action, tool: Tool) -> None:
        self.place, self.tool = (key, index), tool
        self._ledger, self._action = ledger, action
        self.timer: asyncio.Timeout | None = None
        """The call's deadline: it waits while a person thinks."""
        self.signal: Park | Cancelled | None = None
        """What must become of the run once the tool has returned."""

    async def __call__(self, wants: InputRequired) -> Answer:
        """The answer; the call goes on with it, and is on record as going on.

        Raises:
            InputRequired: nobody answers now.
        """
        flaw = unanswerable(self._ledger, wants)
        if flaw:
            raise ValueError(flaw)
        key, index = self.place
        clock, timer = asyncio.get_running_loop().time, self.timer
        left = timer.when() if timer is not None else None
        left = None if left is None else left - clock()
        if timer is not None:
            timer.reschedule(None)
        try:
            answer = await answered(self._ledger, key, index, self._action, self.tool, wants)
            self._ledger.new(started(key, index, self.tool))
            await self._ledger.save()
        except (Park, Cancelled) as signal:
            self.signal = signal
            raise wants from None
        finally:
            if timer is not None and left is not None:
                timer.reschedule(clock() + left)
        return answer


def started(key: str, index: int, tool: Tool) -> e.Started:
    """The event before the call: on disk if the call must not be repeated lightly."""
    if tool.effect == "read":
        return e.Started(key=key, index=index)
    return e.StartedOnce(key=key, index=index, effect=tool.effect)


async def answered_since(
    ledger: Ledger, key: str, index: int, action: Action, tool: Tool
) -> Answer | None:
    """The answer to what the tool asked after its last start; None if it asked nothing then.

    Parks the run if it asked and nobody answers now.
    """
    answer: Answer | None = None
    while (past := ledger.tape.peek(e.Decided, key, index)) is not None and past.request:
        wants = InputRequired(past.reason, form=past.request["form"], state=past.request["state"])
        answer = await answered(ledger, key, index, action, tool, wants)
    return answer


def cut(text: str, longest: int) -> str:
    """`text`, at most `longest` characters of it."""
    return text if len(text) <= longest else f"{text[:longest]}…"

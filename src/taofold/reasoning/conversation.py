"""What the model is told: the goal, the steps so far, and what was wrong with its last reply.

`Talk` is the conversation of one task and makes its messages. The text of the protocol and the
tools is `Task.system_prompt`: it depends only on the task, so the prefix of the prompt keeps its
bytes from turn to turn. Older observations fold to their key line near the end of the window;
failures stay (D12). Why a provider gave no reply is here, too (`withheld`). It decides nothing:
compaction happens when the strategy asks for it, and knows nothing about how replies are read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from taofold.core.content import (
    Content,
    Conversation,
    Part,
    TextPart,
    is_issuer_bound,
    parts_of,
    result_message,
    without_issuer_parts,
)
from taofold.core.effects import Outlook
from taofold.core.json_values import render
from taofold.core.values import (
    FINISH,
    Action,
    Message,
    Observation,
    Reply,
    Value,
)
from taofold.reasoning.task import Task

KEEP: Final = 3
"""Steps that a compaction leaves as they are."""
REFUSED: Final = ("refusal", "content_filter")
"""How a reply ends that is none: nothing of it counts, calls neither."""
BROKEN: Final[Mapping[str, str]] = {
    "malformed": "Your tool call could not be read. Call the tool again.",
    "error": "Your reply was broken off by an error, and nothing of it was run. Send it again.",
}
"""How a reply ends that is not whole, with what its model is told: nothing of it counts."""
ECHO: Final = 2000
"""Characters of an unreadable reply that are shown back to the model."""


class _Told(Value, frozen=True):
    """One step in the conversation: its messages, and what a line about it is made of."""

    number: int
    messages: tuple[Message, ...]
    actions: tuple[Action, ...] = ()
    observations: tuple[Observation, ...] = ()

    @property
    def line(self) -> str:
        """One line that stands for the messages."""
        if not self.actions:
            return self.messages[0].text
        outcomes = "; ".join(
            f"{a.tool} [{o.status}] {o.extraction or o.result}"
            for a, o in zip(self.actions, self.observations, strict=True)
        )
        return f"Step {self.number}: {outcomes}"[:400]


class Talk:
    """What has been said so far, for one task."""

    def __init__(self, task: Task, kept: tuple[str, ...] = ()) -> None:
        self.task = task
        self.kept = kept
        """Actions of the strategy's own that may still be called when no tool may."""
        self._budget = task.budget
        self._forms: dict[bool, dict[str, Any]] = {}
        # A text answer needs no `finish` offered: the reply without a call is the answer.
        names = [name for name in task.names if name != FINISH or not task.output.text]
        self._offer = tuple(names)
        opening = [Message("system", task.system_prompt()), *task.history]
        if not opening[0].content:
            del opening[0]
        self._opening = (*opening, Message("user", task.content))
        self._told: list[_Told] = []
        self._folded = 0
        self.conversation = Conversation(self._opening)

    def open(self, outlook: Outlook) -> None:
        """Add what a turn starts with: people's messages, the guard's hint, the last call."""
        # People's words are steps of their own, so that folding keeps their place among the others.
        for message in outlook.heard:
            self.conversation.append(message)
            number = self._told[-1].number if self._told else 0
            self._told.append(_Told(number, (message,)))
        # Without tools nothing is withdrawn, so nobody needs to be told.
        if outlook.wrap_up and self.task.offers:
            self.conversation.append(Message("user", self.task.wrap_up(self.kept)))
        elif outlook.toolless:
            notice = f"{outlook.hint}\n{self.task.wrap_up(self.kept)}".strip()
            self.conversation.append(Message("user", notice))
        elif outlook.hint:
            self.conversation.append(Message("user", outlook.hint))

    def form(self, toolless: bool) -> dict[str, Any] | None:
        """The schema of a reply, for models that decode under one; None for native callers."""
        if self.task.native:
            return None
        # Built once: a schema that were built anew each turn would still be equal, but not cheap.
        if toolless not in self._forms:
            kept = self.kept if toolless else None
            self._forms[toolless] = self.task.reply_schema(kept=kept)
        return self._forms[toolless]

    def offered(self) -> tuple[str, ...]:
        """The names offered natively; none to models that write their calls as text."""
        if not self.task.native:
            return ()
        return self._offer

    def allowed(self, toolless: bool) -> tuple[str, ...] | None:
        """Which of them may be called now; None = all. The offer itself stays the same for the
        whole run: what a provider cached or signed is bound to it.
        """
        if not toolless or not self.task.native:
            return None
        return self.kept if self.task.output.text else (*self.kept, FINISH)

    @property
    def withdrawn(self) -> str:
        """The correction of a reply that calls a tool in a turn without tools."""
        kept = "".join([f' or "tool": "{name}"' for name in self.kept])
        return f'No tool can be used any more: answer with "tool": "{FINISH}"{kept}.'

    def correct(self, reply: Reply, feedback: str) -> None:
        """Show the model its unusable reply and what is wrong with it."""
        for message in corrections(reply, feedback):
            self.conversation.append(message)

    def tell(
        self,
        number: int,
        reply: Reply,
        kept: str,
        actions: tuple[Action, ...],
        observations: tuple[Observation, ...],
    ) -> None:
        """Add a finished step: the reply (as far as it was `kept`) and what came back."""
        # What the model invented behind its own turn is cut: it must not read it as history.
        messages = [Message("assistant", reply.kept(kept), reply.issuer)]
        pairs = zip(actions, observations, strict=True)
        # Each native call is answered under its id: providers refuse a history with a gap.
        if reply.calls:
            messages += [
                result_message(a.id, show(number, a, o), error=o.status in ("failure", "timeout"))
                for a, o in pairs
            ]
        else:
            messages.append(Message("user", _joined([show(number, a, o) for a, o in pairs])))
        for message in messages:
            self.conversation.append(message)
        self._told.append(_Told(number, tuple(messages), actions, observations))

    @property
    def crowded(self) -> bool:
        """Is the conversation near the end of the window?"""
        return self.conversation.chars > self._budget

    def compact(self) -> tuple[int, int, int] | None:
        """Fold older steps to a line each, in place of their messages.

        Returns the number of the last folded step and the characters before and after,
        or None if there is nothing left to fold.
        """
        # The newest steps stay whole: the model is working with them.
        upto = len(self._told) - KEEP
        if upto <= self._folded:
            return None
        before = self.conversation.chars
        lines = "\n".join(step.line for step in self._told[:upto])
        folded = f"\n\n[earlier steps, shortened]\n{lines}"
        goal = self.task.content
        # Into the first message, not behind it: providers want roles to alternate.
        goal = goal + folded if isinstance(goal, str) else (*goal, TextPart(folded))
        # Another beginning is another conversation: what a provider signed does not hold in it.
        rest = [
            Message(message.role, without_issuer_parts(message.content))
            for step in self._told[upto:]
            for message in step.messages
        ]
        self.conversation = Conversation((*self._opening[:-1], Message("user", goal), *rest))
        self._folded = upto
        return self._told[upto - 1].number, before, self.conversation.chars


def withheld(reply: Reply) -> str:
    """Why there is no reply, as far as its provider says so."""
    if reply.finish == "content_filter":
        return "the reply was withheld by the provider's content filter"
    why = reply.text.strip() or "; ".join(reply.notes) or "it does not say why"
    return f"the model refuses to answer: {why}"


def corrections(reply: Reply, feedback: str) -> list[Message]:
    """What shows a model its unusable `reply` and what is wrong with it.

    What its issuer wants back goes back as it came: a call is answered, not described.
    """
    # A native call must be answered under its id, even if it could not be used.
    if reply.issuer is not None and reply.calls:
        refused = [result_message(call.id, feedback, error=True) for call in reply.calls]
        return [Message("assistant", reply.content, reply.issuer), *refused]
    echo = reply.text if len(reply.text) <= ECHO else reply.text[:ECHO] + " […]"
    if not echo and reply.calls:
        echo = "(a tool call that could not be used)"
    echo = echo or "(empty reply)"
    content = (
        reply.kept(echo) if reply.issuer is not None and is_issuer_bound(reply.content) else echo
    )
    return [Message("assistant", content, reply.issuer), Message("user", feedback)]


def show(number: int, action: Action, observation: Observation) -> Content:
    """One observation as the model reads it. Its content is data between the lines."""
    # The frame is ours and stands first: what follows cannot pass for another observation's head.
    head = f"Observation: {number} [{observation.status}] {action.tool}: "
    if observation.parts:
        return (TextPart(head), *observation.parts)
    return head + render(observation.result)


def _joined(shown: Sequence[Content]) -> Content:
    """Several observations as one message."""
    texts = [content for content in shown if isinstance(content, str)]
    if len(texts) == len(shown):
        return "\n\n".join(texts)
    parts: list[Part] = []
    for part in shown:
        parts += [TextPart("\n\n")] if parts else []
        parts += parts_of(part)
    return tuple(parts)

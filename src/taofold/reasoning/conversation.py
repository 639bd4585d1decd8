"""The conversation with the model: the goal, the steps so far, and corrections of its last reply.

`Talk` builds the messages of one task. `Task.system_prompt` has the text of the protocol and the
tools. It depends only on the task, so the prompt's prefix keeps its bytes from turn to turn. Near
the end of the window, older observations are folded to their key line; failures stay (D12).
`withheld` explains why a provider gave no reply. Decides nothing: the strategy requests compaction.
Knows nothing about reading replies.
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
"""The number of newest steps that a compaction leaves unchanged."""
REFUSED: Final = ("refusal", "content_filter")
"""Finish reasons of a refused reply. Its content is ignored, including calls."""
BROKEN: Final[Mapping[str, str]] = {
    "malformed": "Your tool call could not be read. Call the tool again.",
    "error": "Your reply was broken off by an error, and nothing of it was run. Send it again.",
}
"""Finish reasons of an incomplete reply, with the correction for the model.

Its content is ignored.
"""
ECHO: Final = 2000
"""The most characters of an unreadable reply that are echoed to the model."""


class _Told(Value, frozen=True):
    """One step of the conversation: its messages, and the parts of its one-line summary."""

    number: int
    messages: tuple[Message, ...]
    actions: tuple[Action, ...] = ()
    observations: tuple[Observation, ...] = ()

    @property
    def line(self) -> str:
        """The one-line summary that replaces the messages."""
        if not self.actions:
            return self.messages[0].text
        outcomes = "; ".join(
            f"{a.tool} [{o.status}] {o.extraction or o.result}"
            for a, o in zip(self.actions, self.observations, strict=True)
        )
        return f"Step {self.number}: {outcomes}"[:400]


class Talk:
    """The conversation of one task so far."""

    def __init__(self, task: Task, kept: tuple[str, ...] = ()) -> None:
        self.task = task
        self.kept = kept
        """The strategy's own actions that may still be called when tools are withdrawn."""
        self._budget = task.budget
        self._forms: dict[bool, dict[str, Any]] = {}
        # A text answer needs no `finish`: a reply without a call is the answer.
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
        """Adds the messages that open a turn: steering, the guard's hint, the wrap-up notice."""
        # Steering messages are separate steps, so that folding keeps their order.
        for message in outlook.heard:
            self.conversation.append(message)
            number = self._told[-1].number if self._told else 0
            self._told.append(_Told(number, (message,)))
        # Without tools nothing is withdrawn, so no notice is needed.
        if outlook.wrap_up and self.task.offers:
            self.conversation.append(Message("user", self.task.wrap_up(self.kept)))
        elif outlook.toolless:
            notice = f"{outlook.hint}\n{self.task.wrap_up(self.kept)}".strip()
            self.conversation.append(Message("user", notice))
        elif outlook.hint:
            self.conversation.append(Message("user", outlook.hint))

    def form(self, toolless: bool) -> dict[str, Any] | None:
        """Returns the schema of a reply for constrained decoding; None for native callers."""
        if self.task.native:
            return None
        # Cached: building the schema each turn would give an equal but expensive result.
        if toolless not in self._forms:
            kept = self.kept if toolless else None
            self._forms[toolless] = self.task.reply_schema(kept=kept)
        return self._forms[toolless]

    def offered(self) -> tuple[str, ...]:
        """Returns the names offered natively; none if the model writes its calls as text."""
        if not self.task.native:
            return ()
        return self._offer

    def allowed(self, toolless: bool) -> tuple[str, ...] | None:
        """Returns the offered names that may be called now; None = all.

        The offer itself does not change during a run: providers bind caches and signatures to it.
        """
        if not toolless or not self.task.native:
            return None
        return self.kept if self.task.output.text else (*self.kept, FINISH)

    @property
    def withdrawn(self) -> str:
        """Returns the correction for a reply that calls a tool in a turn without tools."""
        kept = "".join([f' or "tool": "{name}"' for name in self.kept])
        return f'No tool can be used any more: answer with "tool": "{FINISH}"{kept}.'

    def correct(self, reply: Reply, feedback: str) -> None:
        """Shows the model its unusable reply and the correction."""
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
        """Adds a finished step: the reply (the `kept` part) and its observations."""
        # Text that the model invented after its own turn is cut, so that it is not read as history.
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
        """True if the conversation is near the end of the window."""
        return self.conversation.chars > self._budget

    def compact(self) -> tuple[int, int, int] | None:
        """Replaces the messages of older steps by one line each.

        Returns:
            The number of the last folded step and the characters before and after, or None if
            nothing is left to fold.
        """
        # The newest steps stay complete: the model is working with them.
        upto = len(self._told) - KEEP
        if upto <= self._folded:
            return None
        before = self.conversation.chars
        lines = "\n".join(step.line for step in self._told[:upto])
        folded = f"\n\n[earlier steps, shortened]\n{lines}"
        goal = self.task.content
        # Appended to the first message, not after it: providers require alternating roles.
        goal = goal + folded if isinstance(goal, str) else (*goal, TextPart(folded))
        # A changed beginning makes a new conversation: the provider's signatures are invalid in it.
        rest = [
            Message(message.role, without_issuer_parts(message.content))
            for step in self._told[upto:]
            for message in step.messages
        ]
        self.conversation = Conversation((*self._opening[:-1], Message("user", goal), *rest))
        self._folded = upto
        return self._told[upto - 1].number, before, self.conversation.chars


def withheld(reply: Reply) -> str:
    """Returns why there is no reply, as reported by the provider."""
    if reply.finish == "content_filter":
        return "the reply was withheld by the provider's content filter"
    why = reply.text.strip() or "; ".join(reply.notes) or "it does not say why"
    return f"the model refuses to answer: {why}"


def corrections(reply: Reply, feedback: str) -> list[Message]:
    """Returns the messages that show a model its unusable `reply` and the correction.

    Parts that the issuer requires back are returned unchanged: a call is answered, not described.
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
    """Returns one observation as the model reads it. Its content is data."""
    # The trusted header comes first, so that the content cannot imitate the header of another
    # observation.
    head = f"Observation: {number} [{observation.status}] {action.tool}: "
    if observation.parts:
        return (TextPart(head), *observation.parts)
    return head + render(observation.result)


def _joined(shown: Sequence[Content]) -> Content:
    """Joins several observations into one message."""
    texts = [content for content in shown if isinstance(content, str)]
    if len(texts) == len(shown):
        return "\n\n".join(texts)
    parts: list[Part] = []
    for part in shown:
        parts += [TextPart("\n\n")] if parts else []
        parts += parts_of(part)
    return tuple(parts)

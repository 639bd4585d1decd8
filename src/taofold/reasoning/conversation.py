"""The conversation with the model: the goal, the steps so far, and corrections of its last reply.

`Talk` builds the messages of one task. `Task.system_prompt` has the text of the protocol and the
tools. It depends only on the task, so the prompt's prefix keeps its bytes from turn to turn. Near
the end of the window, older observations are folded to their key line; failures stay (D12).
`withheld` explains why a provider gave no reply. Decides nothing: the strategy requests compaction.
Knows nothing about reading replies.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from taofold.core.content import (
    Content,
    Conversation,
    Part,
    TextPart,
    ToolResult,
    is_issuer_bound,
    parts_of,
    result_message,
    without_issuer_parts,
)
from taofold.core.effects import Outlook
from taofold.core.json_values import render
from taofold.core.values import (
    FINISH,
    SEARCH,
    Action,
    Message,
    Observation,
    Reply,
    Value,
)
from taofold.reasoning.compaction import framed, longest
from taofold.reasoning.task import Task, found_tools

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
_LEFT_OUT: Final = "[older results that were to stay are left out]"
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

    @property
    def stays(self) -> bool:
        """True if the line stays beside a summary: failures and messages of users."""
        return not all([each.status == "success" for each in self.observations]) or not self.actions

    def data(self, pinned: Collection[str]) -> dict[str, Any]:
        """Returns the step as data for a summary. Results of `pinned` tools are left out."""
        if not self.actions:
            return {"message": self.messages[0].text}
        return {
            "step": self.number,
            "reply": self.messages[0].text,
            "actions": [
                {
                    "tool": a.tool,
                    "parameters": a.parameters,
                    "status": o.status,
                    "result": "(kept)" if a.tool in pinned else o.result,
                }
                for a, o in zip(self.actions, self.observations, strict=True)
            ],
        }

    def form(self, *, native: bool) -> tuple[Message, ...]:
        """Returns the messages for a model that calls tools natively, or writes its calls as text.

        Args:
            native: True if the model calls tools natively.
        """
        if native or not any([message.calls or message.results for message in self.messages]):
            return self.messages
        calls = [{"tool": a.tool, "parameters": a.parameters} for a in self.actions]
        acts = {"action": calls[0]} if len(calls) == 1 else {"actions": calls}
        pairs = zip(self.actions, self.observations, strict=True)
        shown = _joined([show(self.number, a, o) for a, o in pairs])
        said = render({"thought": self.messages[0].text, **acts})
        return Message("assistant", said), Message("user", shown)


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
        self._offer = (
            () if task.plain else tuple([name for name in names if name not in task.deferred])
        )
        self._found: tuple[str, ...] = ()
        self.deferred: tuple[str, ...] = ()
        """The names that are loaded by a search, for models that can do so."""
        if task.search and task.native:
            self.deferred = tuple([name for name in names if name in task.deferred])
        opening = [Message("system", task.system_prompt()), *task.history]
        if not opening[0].content:
            del opening[0]
        self._opening = (*opening, Message("user", task.content))
        self._told: list[_Told] = []
        self._added: list[Message] = []
        """The messages of hooks that stay when older steps are shortened."""
        self._folded = 0
        self._summary = ""
        self._summarised: set[int] = set()
        """The indexes of the steps that the summary covers."""
        self._tried = 0
        """The number of steps that a summary was requested for."""
        self.conversation = Conversation(self._opening)
        if task.past is not None:
            self._continue(task.past)

    def _continue(self, past: "Talk") -> None:
        """Takes over the steps of another agent's conversation."""
        past.adopt(past.conversation)
        self._told, self._folded, self._added = list(past._told), past._folded, list(past._added)
        self._summary, self._summarised = past._summary, set(past._summarised)
        self._tried = past._tried
        acted = [
            pair
            for each in past._told
            for pair in zip(each.actions, each.observations, strict=True)
        ]
        self.find([name for a, o in acted for name in self._found_by(a, o)])
        self.conversation = self._composed()

    @property
    def steps(self) -> int:
        """The number of the last step, 0 if there is none."""
        return self._told[-1].number if self._told else 0

    @property
    def plain(self) -> bool:
        """True if the text of a reply is the answer, also if it has the form of a call.

        After a hand-off the conversation holds calls as text, which a model may imitate.
        """
        return self.task.plain and not self.steps

    def open(self, outlook: Outlook) -> None:
        """Adds the messages that open a turn: steering, the guard's hint, the wrap-up notice."""
        # Steering messages are separate steps, so that folding keeps their order.
        for message in outlook.heard:
            self.conversation.append(message)
            self._told.append(_Told(self.steps, (message,)))
        # Without tools nothing is withdrawn, so no notice is needed.
        if outlook.wrap_up and self.task.offers:
            self.conversation.append(Message("user", self.task.wrap_up(self.kept)))
        elif outlook.toolless:
            notice = f"{outlook.hint}\n{self.task.wrap_up(self.kept)}".strip()
            self.conversation.append(Message("user", notice))
        elif outlook.hint:
            self.conversation.append(Message("user", outlook.hint))

    def form(self, toolless: bool) -> dict[str, Any] | None:
        """Returns the schema of a reply for constrained decoding.

        A model that calls tools natively has one only if it has nothing to call.
        """
        if self.task.native:
            return self.task.output.schema if self.task.plain else None
        # Cached: building the schema each turn would give an equal but expensive result.
        if toolless not in self._forms:
            kept = self.kept if toolless else None
            self._forms[toolless] = self.task.reply_schema(kept=kept, found=self._found)
        return self._forms[toolless]

    def offered(self) -> tuple[str, ...]:
        """Returns the names offered natively; none if the model writes its calls as text."""
        if not self.task.native:
            return ()
        # Found tools come last, so that the bytes before them stay the same.
        return (*self._offer, *self._found)

    def allowed(self, toolless: bool) -> tuple[str, ...] | None:
        """Returns the offered names that may be called now; None = all.

        The offer itself only grows by found tools: providers bind caches and signatures to it.
        """
        if not toolless or not self.task.native or self.task.plain:
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
        pairs = list(zip(actions, observations, strict=True))
        # Each native call is answered under its id: providers refuse a history with a gap.
        if reply.calls:
            messages += [
                result_message(
                    a.id,
                    show(number, a, self._short(a, o)),
                    error=o.status in ("failure", "timeout"),
                    found=self._found_by(a, o) if self.deferred else (),
                )
                for a, o in pairs
            ]
        else:
            shown = _joined([show(number, a, self._short(a, o)) for a, o in pairs])
            messages.append(Message("user", shown))
        for message in messages:
            self.conversation.append(message)
        self._told.append(_Told(number, tuple(messages), actions, observations))
        self.find([name for a, o in pairs for name in self._found_by(a, o)])

    def _short(self, action: Action, observation: Observation) -> Observation:
        """Returns an observation without the signatures that the next request offers natively."""
        if not self.task.native or not self._found_by(action, observation):
            return observation
        return replace(observation, result={"tools": found_tools(observation)})

    def find(self, names: Sequence[str]) -> None:
        """Offers deferred tools that a search has found; ignores every other name."""
        new = [name for name in names if name in self.task.deferred and name not in self._found]
        if new:
            self._found += tuple(dict.fromkeys(new))
            self._forms.clear()

    def _found_by(self, action: Action, observation: Observation) -> tuple[str, ...]:
        """Returns the deferred tools that a call of `search_tools` has found."""
        if action.tool != SEARCH:
            return ()
        return tuple([name for name in found_tools(observation) if name in self.task.deferred])

    def _without_unknown(self, content: Content) -> Content:
        """Returns the content without references to tools that another agent has found."""
        if isinstance(content, str):
            return content
        return tuple(
            [
                replace(part, found=tuple([n for n in part.found if n in self.task.deferred]))
                if isinstance(part, ToolResult) and part.found
                else part
                for part in content
            ]
        )

    @property
    def crowded(self) -> bool:
        """True if the conversation is near the end of the window."""
        return self.conversation.chars > self._budget

    def compact(self) -> tuple[int, int, int] | None:
        """Replaces the messages of older steps by one line each. Pinned results stay complete.

        Returns:
            The number of the last folded step and the characters before and after, or None if
            nothing is left to fold.
        """
        # The newest steps stay complete: the model is working with them.
        upto = len(self._told) - KEEP
        if upto <= self._folded:
            return None
        before, self._folded = self.conversation.chars, upto
        self.adopt(self.conversation)
        self.conversation = self._composed()
        return self._told[upto - 1].number, before, self.conversation.chars

    def _composed(self) -> Conversation:
        """Returns the conversation with a new beginning: folded steps as lines, then the rest."""
        upto = self._folded
        lines = "\n".join(
            step.line
            for index, step in enumerate(self._told[:upto])
            if index not in self._summarised or step.stays
        )
        folded = f"\n\n{framed(self._summary)}" if self._summary else ""
        folded += f"\n\n[earlier steps, shortened]\n{lines}" if lines else ""
        pinned, left = _newest([message.content for message in self._added], self._budget // 2)
        # The application's messages come first, so that data cannot imitate them.
        goal = _joined([self.task.content, *pinned])
        # Appended to the first message, not after it: providers require alternating roles.
        if folded:
            goal = goal + folded if isinstance(goal, str) else (*goal, TextPart(folded))
        goal = _joined([goal, *self._pinned(upto, max(left, self._budget // 4))])
        # A changed beginning makes a new conversation: the provider's signatures are invalid in it.
        rest = [
            Message(message.role, self._without_unknown(without_issuer_parts(message.content)))
            for step in self._told[self._folded :]
            for message in step.form(native=self.task.native and not self.task.plain)
        ]
        return Conversation((*self._opening[:-1], Message("user", goal), *rest))

    def to_summarise(self) -> list[dict[str, Any]]:
        """Returns the steps that a summary should cover next, as JSON; none if they are short."""
        steps = self._told[self._tried : max(len(self._told) - KEEP, 0)]
        chars = Conversation([each for step in steps for each in step.messages]).chars
        # A summary replaces at least as much as it may hold, so that not each step needs a call.
        if chars < longest(self._budget):
            return []
        pinned = self._pinned_tools
        return [step.data(pinned) for step in steps]

    @property
    def summary(self) -> str:
        """The summary of the earliest steps, or ""."""
        return self._summary

    def summarise(self, summary: str) -> None:
        """Takes the summary of the steps of `to_summarise`; "" = there is none, they are folded.

        Steps without a summary keep their lines, and are not shown to the compactor again.
        """
        upto = max(len(self._told) - KEEP, 0)
        if summary:
            self._summary = summary
            self._summarised.update(range(self._tried, upto))
        self._tried = upto

    def adopt(self, conversation: Conversation) -> None:
        """Keeps the pinned messages of `conversation` when older steps are shortened."""
        self._added += [message for message in conversation.pinned if message not in self._added]

    @property
    def _pinned_tools(self) -> set[str]:
        return {offer.name for offer in self.task.offers if offer.pinned}

    def _pinned(self, upto: int, chars: int) -> list[Content]:
        """Returns the results of pinned tools in the first `upto` steps, equal ones once."""
        tools = self._pinned_tools
        pinned: dict[tuple[str, str], Content] = {}
        for step in self._told[:upto] if tools else ():
            for a, o in zip(step.actions, step.observations, strict=True):
                if a.tool in tools and o.status == "success":
                    pinned.setdefault((a.tool, render(o.result)), show(step.number, a, o))
        return _newest(list(pinned.values()), chars)[0]


def _newest(contents: Sequence[Content], chars: int) -> tuple[list[Content], int]:
    """Returns the newest contents of at most `chars` characters in all, and what is left of them.

    The run must be able to go on, so not everything that is pinned stays.
    """
    kept: list[Content] = []
    for content in reversed(contents):
        size = Conversation([Message("user", content)]).chars
        if size > chars:
            kept.append(_LEFT_OUT)
            break
        chars -= size
        kept.append(content)
    return kept[::-1], chars


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

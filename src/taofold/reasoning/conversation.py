"""What the model is told: the protocol of replies, the tools, and the steps so far.

The protocol's text depends only on the task, so the prefix of the prompt keeps its bytes from
turn to turn. Older observations fold to their key line near the end of the window; failures stay
(D12). It decides nothing: compaction happens when the strategy asks for it, and knows nothing
about how replies are read.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from taofold.core.content import (
    Content,
    Conversation,
    Part,
    TextPart,
    bound,
    parts_of,
    result_message,
    unbound,
)
from taofold.core.effects import Outlook
from taofold.core.values import (
    ASK_USER,
    FINISH,
    THOUGHT_TYPES,
    Action,
    Message,
    Observation,
    Reply,
    Value,
)
from taofold.parsing import render_schema
from taofold.reasoning.task import Offer, Task

_QUESTION: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
    "additionalProperties": False,
}


def reply_schema(task: Task, *, toolless: bool) -> dict[str, Any]:
    """One thought and one action out of those on offer; only `finish` if `toolless`."""
    finish = task.output.finish_schema()
    definitions = dict(finish.pop("$defs", {}))
    offered: list[tuple[str, dict[str, Any]]] = []
    if not toolless:
        for offer in task.offers:
            schema = dict(offer.schema)
            definitions |= schema.pop("$defs", {})
            offered.append((offer.name, schema))
        if task.ask_user:
            offered.append((ASK_USER, _QUESTION))
    offered.append((FINISH, {**finish, "additionalProperties": False}))
    types = sorted(THOUGHT_TYPES if task.research else THOUGHT_TYPES - {"research"})
    schema = _object(
        thought={"type": "string", "maxLength": 1000},
        thought_type={"type": "string", "enum": types},
        action={"anyOf": [_action(name, parameters) for name, parameters in offered]},
    )
    return schema | ({"$defs": definitions} if definitions else {})


def _action(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return _object(
        tool={"type": "string", "enum": [name]},
        parameters=parameters,
        rationale={"type": "string", "maxLength": 300},
    )


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_FORM: Final = """\
Work in steps. Each reply is exactly one JSON object, nothing before or after it:
{"thought": "<what you conclude and why this action is next>", "thought_type": "<type>", \
"because": [<numbers of the steps you rely on>], \
"action": {"tool": "<name>", "parameters": {…}, "rationale": "<why this tool>"}}
Several independent calls: "actions": [ … ] instead of "action".
Types: goal, progress, extraction, reasoning, exception, synthesis%s.
Rules:
- Every reply has a thought and an action. Quote concrete values from earlier observations.
- Never write an observation yourself; it comes after your reply.
- After a failure or a timeout the next thought is an exception: say why it failed and what \
you change. Never repeat a failed action unchanged.
- When the goal is reached: "action": {"tool": "finish", "parameters": {"answer": %s}}
- When it cannot be reached: the same with "success": false beside the answer that says why."""
_NATIVE: Final = """\
Before each tool call say in a sentence or two what you conclude and why this call is next; \
quote concrete values from earlier results. Never invent a tool's result. \
After a failure say why it failed and what you change; never repeat a failed call unchanged."""
_RESEARCH: Final = ", research (look things up; change nothing in that step)"
_ASK_USER: Final = (
    '\n- To ask the person: "action": {"tool": "ask_user", "parameters": {"question": "…"}}'
)
WRAP_UP: Final = (
    "This is your last turn and no tool can be used any more. "
    "Give the best answer you can from what you know%s."
)


def system_prompt(task: Task) -> str:
    """Instructions, tools and protocol."""
    parts = [task.instructions.strip()] if task.instructions.strip() else []
    if task.native:
        if task.offers:
            parts.append(_NATIVE)
        if not task.output.text:
            parts.append(
                f"When you are done call {FINISH} with an answer of this type: "
                f"{task.output.rendered()}"
            )
        return "\n\n".join(parts)
    if task.offers:
        parts.append("Tools:\n" + "\n".join(signature(offer) for offer in task.offers))
    answer = '"<text>"' if task.output.text else f"<{task.output.rendered()}>"
    form = _FORM % (_RESEARCH if task.research else "", answer)
    parts.append(form + (_ASK_USER if task.ask_user else ""))
    return "\n\n".join(parts)


def signature(offer: Offer) -> str:
    """A tool as one line of signature and its full description."""
    said = f"{offer.name}({render_schema(offer.schema)})"
    description = offer.description.strip()
    return f"- {said}: {description}" if description else f"- {said}"


def wrap_up(task: Task) -> str:
    """The notice that opens the last turn."""
    if task.native:
        return WRAP_UP % ""
    return WRAP_UP % f' with "tool": "{FINISH}"'


KEEP: Final = 3
"""Steps that a compaction leaves as they are."""
REFUSED: Final = ("refusal", "content_filter")
"""How a reply ends that is none."""
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
        said = "; ".join(
            f"{a.tool} [{o.status}] {o.extraction or o.result}"
            for a, o in zip(self.actions, self.observations, strict=True)
        )
        return f"Step {self.number}: {said}"[:400]


class Talk:
    """What has been said so far, for one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._budget = task.budget
        self._forms: dict[bool, dict[str, Any]] = {}
        names = [name for name in task.names if name != FINISH or not task.output.text]
        self._offer = tuple(names)
        opening = [Message("system", system_prompt(task)), *task.history]
        if not opening[0].content:
            del opening[0]
        self._opening = (*opening, Message("user", task.content))
        self._told: list[_Told] = []
        self._folded = 0
        self.conversation = Conversation(self._opening)

    def open(self, outlook: Outlook) -> None:
        """Add what a turn starts with: people's messages, the guard's hint, the last call."""
        for message in outlook.heard:
            self.conversation.append(message)
            number = self._told[-1].number if self._told else 0
            self._told.append(_Told(number, (message,)))
        if outlook.wrap_up and self.task.offers:
            self.conversation.append(Message("user", wrap_up(self.task)))
        elif outlook.toolless:
            notice = f"{outlook.hint}\n{wrap_up(self.task)}".strip()
            self.conversation.append(Message("user", notice))
        elif outlook.hint:
            self.conversation.append(Message("user", outlook.hint))

    def form(self, toolless: bool) -> dict[str, Any] | None:
        """The schema of a reply, for models that decode under one; None for native callers."""
        if self.task.native:
            return None
        if toolless not in self._forms:
            self._forms[toolless] = reply_schema(self.task, toolless=toolless)
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
        return () if self.task.output.text else (FINISH,)

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
        messages = [Message("assistant", reply.kept(kept), reply.issuer)]
        told = zip(actions, observations, strict=True)
        if reply.calls:
            messages += [
                result_message(a.id, show(number, a, o), error=o.status in ("failure", "timeout"))
                for a, o in told
            ]
        else:
            messages.append(Message("user", _joined([show(number, a, o) for a, o in told])))
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
        upto = len(self._told) - KEEP
        if upto <= self._folded:
            return None
        before = self.conversation.chars
        lines = "\n".join(told.line for told in self._told[:upto])
        folded = f"\n\n[earlier steps, shortened]\n{lines}"
        goal = self.task.content
        goal = goal + folded if isinstance(goal, str) else (*goal, TextPart(folded))
        # Another beginning is another conversation: what a provider signed does not hold in it.
        rest = [
            Message(message.role, unbound(message.content))
            for told in self._told[upto:]
            for message in told.messages
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
    if reply.issuer is not None and reply.calls:
        refused = [result_message(call.id, feedback, error=True) for call in reply.calls]
        return [Message("assistant", reply.content, reply.issuer), *refused]
    said = reply.text if len(reply.text) <= ECHO else reply.text[:ECHO] + " […]"
    if not said and reply.calls:
        said = "(a tool call that could not be used)"
    said = said or "(empty reply)"
    content = reply.kept(said) if reply.issuer is not None and bound(reply.content) else said
    return [Message("assistant", content, reply.issuer), Message("user", feedback)]


def show(number: int, action: Action, observation: Observation) -> Content:
    """One observation as the model reads it. Its content is data between the lines."""
    head = f"Observation: {number} [{observation.status}] {action.tool}: "
    if observation.parts:
        return (TextPart(head), *observation.parts)
    result = observation.result
    return head + (result if isinstance(result, str) else msgspec.json.encode(result).decode())


def _joined(shown: Sequence[Content]) -> Content:
    """Several observations as one message."""
    texts = [one for one in shown if isinstance(one, str)]
    if len(texts) == len(shown):
        return "\n\n".join(texts)
    parts: list[Part] = []
    for one in shown:
        parts += [TextPart("\n\n")] if parts else []
        parts += parts_of(one)
    return tuple(parts)

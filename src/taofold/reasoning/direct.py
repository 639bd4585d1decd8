"""One typed question to a model: ask, read, correct, until the reply can be read or attempts end.

`ask_for` is shared by every strategy that needs more than the Thought–Action protocol. The caller's
`Reader` reads the reply and may also check its meaning (that a plan has no cycle). A refusal by the
reader goes back to the model as a correction. The attempts have their own counter
(`Task.attempts`), and each failed one is recorded. `Direct` is the strategy that asks a single
question: a text answer is the whole reply, so that code and prose need no escaping.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from taofold.core.content import Conversation
from taofold.core.effects import Answer, Halt, Strategy, ask, begin, note
from taofold.core.rule_names import NO_THOUGHT
from taofold.core.text import times
from taofold.core.values import Message, Reply, StepRole, Thought
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning.conversation import BROKEN, REFUSED, corrections, withheld
from taofold.reasoning.nested import closing
from taofold.reasoning.task import Task

T = TypeVar("T")

_THOUGHTLESS: Final = "The thinking is missing: say how you get to the answer."
RAW: Final = 500
"""The most characters of an unreadable reply in an error."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A reply that could be read but is invalid. `kind` is for programs."""

    kind: str
    feedback: str


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """The value, the reply that held it, and the kinds of repairs made to read it."""

    value: T
    reply: Reply
    how: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    """The repairs that may have changed the content of the value (D7)."""


@dataclass(frozen=True, slots=True)
class Unread:
    """No usable reply within the attempts. `raw` is the start of the last one."""

    kind: str
    error: str
    raw: str = ""


Reader: TypeAlias = Callable[[Reply], Parsed[T] | Unparsed | Wrong]


def typed_reader(type_: type[T]) -> Reader[T]:
    """Returns a reader of values of `type_`."""

    def read(reply: Reply) -> Parsed[T] | Unparsed:
        return parse(reply.text, type_, finish_reason=reply.finish or None)

    return read


def ask_for(
    reader: Reader[T],
    conversation: Conversation,
    *,
    attempts: int = 3,
    role: StepRole = "executor",
    schema: dict[str, Any] | None = None,
    thought: Callable[[T], str] | None = None,
    strict: bool = False,
) -> Strategy[Read[T] | Unread]:
    """Asks until `reader` accepts the reply, at most `attempts` times.

    The caller must have opened a turn with `Begin`.

    Args:
        reader: Reads a reply, or refuses it.
        conversation: The conversation, which is extended.
        attempts: The most replies.
        role: Selects the model.
        schema: Requests constrained decoding if the model has it.
        thought: Returns the thought of a value. If it is empty, a violation of R1 is recorded.
        strict: True to ask once more if the thought is empty.
    """
    kind, feedback, raw = "no_attempt", "no attempt was allowed", ""
    left = attempts
    while left:
        left -= 1
        reply = yield from ask(conversation, role, schema=schema)
        if reply.finish == "overflow":
            return Unread("overflow", "the prompt does not fit the model's context window")
        if reply.finish in REFUSED:
            return Unread("refused", withheld(reply), reply.text[:RAW])
        # The provider paused: the partial reply goes back, and the model continues.
        if reply.finish == "pause":
            conversation.append(Message("assistant", reply.content, reply.issuer))
            continue
        broken = BROKEN.get(reply.finish)
        read = Wrong(reply.finish, broken) if broken else reader(reply)
        if isinstance(read, Parsed) and thought is not None and not thought(read.value).strip():
            yield from note("violation", rule=NO_THOUGHT, detail=_THOUGHTLESS, refused=strict)
            if strict:
                strict, left = False, left + 1
                for message in corrections(reply, _THOUGHTLESS):
                    conversation.append(message)
                continue
        if isinstance(read, Parsed):
            how = tuple(dict.fromkeys([repair.kind for repair in read.repairs]))
            if how:
                yield from note("read", how=list(how))
            # Kept apart from `how`: only these may have changed the content of the value.
            guessed = dict.fromkeys([each.kind for each in read.repairs if each.content])
            return Read(read.value, reply, how, tuple(guessed))
        kind = read.kind if isinstance(read, Wrong) else read.reason
        feedback, raw = read.feedback, reply.text[:RAW]
        detail = f"{kind}: {feedback}"[:RAW]
        yield from note("violation", rule="unreadable", detail=detail, refused=True)
        for message in corrections(reply, feedback):
            conversation.append(message)

    yield from note("unread", reason=kind, raw=raw)
    excerpt = f"; the last one began {raw[:200]!r}" if raw else ""
    error = f"{kind}: no usable reply in {times(attempts, 'attempt')}: {feedback}{excerpt}"
    return Unread(kind, error, raw)


def stopped_answer(unread: Unread) -> Answer:
    """Returns the answer of a strategy that cannot continue without this reply."""
    return Answer(None, "error", unread.error)


@dataclass(frozen=True, kw_only=True)
class Direct:
    """Answers at once. `role` selects the model.

    Example: `Agent(model, strategy=Direct(), output=Invoice)`.
    """

    name: ClassVar[str] = "direct"
    role: StepRole = "executor"

    def __call__(self, task: Task) -> Strategy[Answer]:
        """Returns the strategy for `task`."""
        return _story(self, task)


def _story(options: Direct, task: Task) -> Strategy[Answer]:
    try:
        outlook = yield from begin()
        if outlook.stop:
            return Answer(None, outlook.stop)
        got = yield from answer(task, task.goal, role=options.role, heard=outlook.heard)
        if isinstance(got, Unread):
            return stopped_answer(got)
        thought = Thought(got.reply.reasoning or "The answer.", "synthesis", synthesized=True)
        yield closing(thought, got.value, task.output)
        return Answer(got.value)
    except Halt as halt:
        return Answer(None, halt.reason)


def answer(
    task: Task, text: str, *, role: StepRole = "executor", heard: tuple[Message, ...] = ()
) -> Strategy[Read[object] | Unread]:
    """Asks only for a value of the task's output type."""
    output = task.output

    rules = "Reply with the answer itself and nothing else." if output.text else task.typed_answer()
    conversation = task.opening(rules, text, heard)
    return (
        yield from ask_for(
            output.read_reply,
            conversation,
            attempts=task.attempts,
            role=role,
            schema=output.schema,
        )
    )

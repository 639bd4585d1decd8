"""One typed question to a model: ask, read, correct, until the reply can be read or not.

The shared piece of every strategy that needs more than the Thought–Action protocol. How a
reply is read is the caller's `Reader`, which may also check what the reply *means* (that a
plan has no cycle); whatever it refuses goes back to the model as a correction. The attempts
have their own counter (`Task.attempts`) and each failed one is on the record.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from taofold.core.conversation import Conversation
from taofold.core.effects import Answer, Strategy, ask, note
from taofold.core.values import Message, Reply, StepRole
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning.talk import REFUSED, corrections, withheld
from taofold.reasoning.task import Task

T = TypeVar("T")

RAW: Final = 500
"""Characters of an unreadable reply that an error may carry."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A reply that could be read but cannot be right. `kind` is for programs."""

    kind: str
    feedback: str


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """The value, the reply that held it, and the kinds of repairs that it took to read it."""

    value: T
    reply: Reply
    how: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    """Those of them that may have changed what the value says (D7)."""


@dataclass(frozen=True, slots=True)
class Unread:
    """No usable reply within the attempts. `raw` is the start of the last one."""

    kind: str
    error: str
    raw: str = ""


Reader: TypeAlias = Callable[[Reply], Parsed[T] | Unparsed | Wrong]


def typed(type_: type[T]) -> Reader[T]:
    """Reads a value of `type_`."""

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
) -> Strategy[Read[T] | Unread]:
    """Ask until `reader` takes the reply, at most `attempts` times.

    `schema` asks for constrained decoding where the model has it. Whoever calls this
    opened a turn with `Begin`.
    """
    kind, feedback, raw = "no_attempt", "no attempt was allowed", ""
    for _ in range(attempts):
        reply = yield from ask(conversation, role, schema=schema)
        if reply.finish == "overflow":
            return Unread("overflow", "the prompt does not fit the model's context window")
        if reply.finish in REFUSED:
            return Unread("refused", withheld(reply), reply.text[:RAW])
        if reply.finish == "pause":
            conversation.append(Message("assistant", reply.content, reply.issuer))
            continue
        read = reader(reply)
        if isinstance(read, Parsed):
            how = tuple(dict.fromkeys([repair.kind for repair in read.repairs]))
            if how:
                yield from note("read", how=list(how))
            guessed = dict.fromkeys([each.kind for each in read.repairs if each.content])
            return Read(read.value, reply, how, tuple(guessed))
        kind = read.kind if isinstance(read, Wrong) else read.reason
        feedback, raw = read.feedback, reply.text[:RAW]
        yield from note("violation", rule="unreadable", detail=f"{kind}: {feedback}"[:RAW])
        for message in corrections(reply, feedback):
            conversation.append(message)
    yield from note("unread", reason=kind, raw=raw)
    said = f"; the last one began {raw[:200]!r}" if raw else ""
    error = f"{kind}: no usable reply in {attempts} attempts: {feedback}{said}"
    return Unread(kind, error, raw)


def opening(
    task: Task, rules: str, text: str, heard: Sequence[Message] = (), *, history: bool = True
) -> Conversation:
    """A fresh conversation: instructions and rules, the session so far, the question.

    `heard` is what people said since the run started; it comes last, as the newest word.
    """
    system = "\n\n".join([part for part in (task.instructions.strip(), rules.strip()) if part])
    messages = [Message("system", system)] if system else []
    before = task.history if history else ()
    question = Message("user", task.with_media(text))
    return Conversation([*messages, *before, question, *heard])


def stopped(unread: Unread) -> Answer:
    """The answer of a strategy that cannot go on without this reply."""
    return Answer(None, "error", unread.error)

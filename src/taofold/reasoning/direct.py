"""Direct: one question, one typed answer, no thinking asked for.

The plain generator inside other strategies: a text answer is the whole reply, so that code
and prose need no escaping.
"""

from dataclasses import dataclass
from typing import ClassVar

from taofold.core.effects import Answer, Halt, Strategy, begin
from taofold.core.values import Message, Reply, StepRole, Thought
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning.asking import Read, Unread, ask_for, opening, stopped
from taofold.reasoning.nested import closing
from taofold.reasoning.task import Task


@dataclass(frozen=True, kw_only=True)
class Direct:
    """Answer at once. `role` selects the model."""

    name: ClassVar[str] = "direct"
    role: StepRole = "executor"

    def __call__(self, task: Task) -> Strategy[Answer]:
        """The strategy for `task`."""
        return _story(self, task)


def _story(options: Direct, task: Task) -> Strategy[Answer]:
    try:
        outlook = yield from begin()
        if outlook.stop:
            return Answer(None, outlook.stop)
        got = yield from answer(task, task.goal, role=options.role, heard=outlook.heard)
        if isinstance(got, Unread):
            return stopped(got)
        thought = Thought(got.reply.reasoning or "The answer.", "synthesis", synthesized=True)
        yield closing(thought, got.value)
        return Answer(got.value)
    except Halt as halt:
        return Answer(None, halt.reason)


def answer(
    task: Task, text: str, *, role: StepRole = "executor", heard: tuple[Message, ...] = ()
) -> Strategy[Read[object] | Unread]:
    """Ask for nothing but a value of the task's output type."""
    output = task.output

    def read(reply: Reply) -> Parsed[object] | Unparsed:
        if not output.text:
            return output.accept(reply.text)
        said: Parsed[str] | Unparsed = parse(
            reply.text, str, finish_reason=reply.finish or None
        )  # a reasoning model's thinking is no part of its answer
        return said if isinstance(said, Unparsed) else output.accept(said.value)

    rules = "Reply with the answer itself and nothing else."
    if not output.text:
        rules = f"Reply with one JSON value of this type and nothing else: {output.rendered()}"
    conversation = opening(task, rules, text, heard)
    return (
        yield from ask_for(
            read, conversation, attempts=task.attempts, role=role, schema=output.schema
        )
    )

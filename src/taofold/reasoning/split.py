"""Asking for a problem in parts, and checking that the parts can be ordered.

A cycle, an unknown or a repeated id goes back to the model as a correction first.
"""

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel

from taofold.core.effects import Strategy
from taofold.core.values import Message, Reply
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning.asking import Read, Unread, Wrong, ask_for, opening
from taofold.reasoning.graph import Tangle, waves
from taofold.reasoning.task import Task

_RULES: Final = """\
Split the problem into at most %d parts that can be solved one by one and together solve it.
Reply with exactly one JSON object, nothing before or after it:
{"reasoning": "<why these parts>", "sub_problems": [{"id": "<short name>", \
"description": "<the part, understandable by itself>", "dependencies": ["<ids of parts whose \
answers it needs>"], "complex": <true if it should be split again>}]}
If the problem is simple enough to be solved at once, "sub_problems" is empty."""


class Part(BaseModel):
    """A part of the problem, as the model writes it."""

    id: str
    description: str
    dependencies: list[str] = []
    complex: bool | None = None
    """None: not said; then the part is asked about again as long as `max_depth` allows."""


class Split(BaseModel):
    """A problem in parts."""

    reasoning: str = ""
    sub_problems: list[Part]


_SCHEMA: Final = Split.model_json_schema()


def split(task: Task, most: int, heard: Sequence[Message] = ()) -> Strategy[Read[Split] | Unread]:
    """Ask the planner for at most `most` parts of the task's goal."""

    def read(reply: Reply) -> Parsed[Split] | Unparsed | Wrong:
        parsed: Parsed[Split] | Unparsed = parse(
            reply.text, Split, finish_reason=reply.finish or None
        )
        return parsed if isinstance(parsed, Unparsed) else _checked(parsed, most)

    return (
        yield from ask_for(
            read,
            opening(task, _RULES % most, task.goal, heard),
            attempts=task.attempts,
            role="planner",
            schema=_SCHEMA,
        )
    )


def _checked(parsed: Parsed[Split], most: int) -> Parsed[Split] | Wrong:
    parts = parsed.value.sub_problems
    if len(parts) > most:
        return Wrong("too_many_parts", f"use at most {most} parts")
    try:
        waves([(part.id, part.dependencies) for part in parts])
    except Tangle as tangle:
        return Wrong(tangle.kind, str(tangle))
    return parsed

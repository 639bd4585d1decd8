"""A run as text in the AIWG rules' canonical form: THOUGHT, ACTION, OBSERVATION. Only written.

    THOUGHT [Reasoning]: The token expires early. I read the configuration because it has the TTL.

    ACTION: read
      path: src/auth/config.ts
      rationale: Checking the TTL

    OBSERVATION [Success]:
      Result: TOKEN_TTL = 60
      Extraction: TOKEN_TTL = 60

A blank line separates the parts. Each line of a value is indented and its control characters are
visible, so no text of a model or tool can look like a label of its own.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from taofold.core import events as e
from taofold.core.json_values import render
from taofold.core.state import live
from taofold.core.text import visible
from taofold.core.trace import TracedCall, TracedTurn, turns
from taofold.log.formats.imported_turns import Gaps, gaps_of

_MARGIN: Final = "  "
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_RATIONALE: Final = "rationale"
_NONE: Final = "(none)"


def dumps(records: Iterable[e.Record]) -> str:
    """Returns the run as text. A part that an iteration lacks is `(none)`."""
    live_records = live(records)
    gaps = gaps_of(live_records)
    parts = [
        part for turn in turns(live_records) for part in _parts(turn, gaps.get(turn.key, Gaps()))
    ]
    return "\n".join([f"{part}\n" for part in parts])


def _parts(turn: TracedTurn, gaps: Gaps) -> Iterator[str]:
    thought, calls = turn.thought, turn.calls
    kind = f" [{thought.type.title()}]" if thought.content.strip() else ""
    yield f"THOUGHT{kind}: {_indented(thought.content) or _NONE}"
    if not calls:
        yield f"ACTION: {_NONE}"
    numbers = [f" {number}" for number in range(1, len(calls) + 1)] if len(calls) > 1 else [""]
    for number, call in zip(numbers, calls, strict=False):
        yield f"ACTION{number}: {_action(call)}"
    for number, call in zip(numbers, calls, strict=False):
        yield f"OBSERVATION{number}{_observation(call)}"
    for stray in gaps.stray:
        yield f"OBSERVATION: {_indented(render(stray))}"
    if not calls and not gaps.stray:
        yield f"OBSERVATION: {_NONE}"


def _action(call: TracedCall) -> str:
    action = call.action
    lines = [_indented(action.tool) or _NONE]
    lines += [f"{_key(name)}: {_value(value)}" for name, value in action.parameters.items()]
    if action.rationale:
        lines.append(f"{_RATIONALE}: {_value(action.rationale)}")
    return f"\n{_MARGIN}".join(lines)


def _key(name: str) -> str:
    # Quoted where it could end the line, or be read as the rationale.
    return name if _PLAIN.fullmatch(name) and name != _RATIONALE else visible(render([name])[1:-1])


def _observation(call: TracedCall) -> str:
    observation = call.observation
    if observation is None:
        return f": {_NONE}"
    lines = [f" [{observation.status.title()}]:", f"Result: {_value(observation.result)}"]
    if observation.extraction:
        lines.append(f"Extraction: {_value(observation.extraction)}")
    return f"\n{_MARGIN}".join(lines)


def _value(value: Any) -> str:
    return _indented(render(value), 2 * _MARGIN)


def _indented(text: str, margin: str = _MARGIN) -> str:
    """Returns `text` whose second and later lines begin with the margin."""
    return f"\n{margin}".join(visible(text, prose=True).splitlines())

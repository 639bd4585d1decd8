"""Grounding: does a thought rest on what was observed (D5), and on which tokens of it?

A token is concrete: a number, a quoted string, an identifier, a path. It counts if an observation
brought it into the run: not the goal, not the instructions, not the model's own words. What the
model had said before it was observed is an echo; what it learnt from an observation and then said
itself stays learnt. Steps or a whole log are judged. Everything is linear in the text. It knows
nothing about meaning.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

from taofold.core import events as e
from taofold.core.trace import TracedTurn
from taofold.core.values import Step, Thought, Value

_LONGEST: Final = 200
"""Characters of a token; longer runs are encoded data, which nobody cites."""
_SHOWN: Final = 20
"""Pieces of evidence that are reported for one thought."""

# Not inside a word or behind a dot: the 2 of `v1.2` belongs to its name.
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)*")
_QUOTED: Final = re.compile(
    r""""([^"\n]{2,80})"|`([^`\n]{2,80})`|“([^”\n]{2,80})”|«([^»\n]{2,80})»"""
    r"""|(?<!\w)'([^'\n]{2,80})'(?!\w)|\u2018([^\u2019\n]{2,80})\u2019"""
)
_CHUNK: Final = re.compile(r"\w+(?:(?:::|[./-])\w+)*")
_SEGMENT: Final = re.compile(r"::|/")
_PART: Final = re.compile(r"[.-]")
_MARK: Final = re.compile(r"[_./:]")
# Two characters side by side between the marks: "e.g" and "n/a" have none and name nothing.
_PAIR: Final = re.compile(r"[^\W_]{2}|[^\W_]_|_[^\W_]|::")
_SHAPE: Final = re.compile(r"\d|[a-z][A-Z]")
# A word as prose has it: capitalised or not, no digit, no mark. Most chunks end here.
_PLAIN: Final = re.compile(r"[^\W\d_][a-z]*\Z")


class Evidence(Value, frozen=True):
    """A token of the thought and the step whose observation brought it."""

    token: str
    step: int


class Grounding(Value, frozen=True):
    """How the thought of `step` stands to earlier observations.

    `cited`: it names an earlier step in `because`, which alone does not ground it.
    `eligible`: it could have been grounded; the first step never is.
    """

    step: int
    grounded: bool = False
    cited: bool = False
    eligible: bool = True
    evidence: tuple[Evidence, ...] = ()


def tokens(text: str) -> set[str]:
    """The concrete tokens of `text`: numbers, quoted strings, identifiers, paths."""
    # One digit proves nothing: it turns up everywhere by chance.
    concrete = {number for number in _NUMBER.findall(text) if 1 < len(number) <= _LONGEST}
    for groups in _QUOTED.findall(text):
        quoted = "".join(groups).strip()
        if len(quoted) > 1:
            concrete.add(quoted)
    # A set first: in long output the same names come back thousands of times.
    for chunk in set(_CHUNK.findall(text)):
        if len(chunk) > 2 and not _PLAIN.match(chunk) and len(chunk) <= _LONGEST:
            concrete.update(_identifiers(chunk))
    return concrete


def _identifiers(chunk: str) -> Iterator[str]:
    """`chunk` itself and its parts, as far as they are concrete."""
    if _concrete(chunk):
        yield chunk
    for segment in _SEGMENT.split(chunk):
        if segment != chunk and _concrete(segment):
            yield segment
        for part in _PART.split(segment):
            if part != segment and _concrete(part):
                yield part


def _concrete(name: str) -> bool:
    if len(name) < 3 or name.replace(".", "").isdigit():
        return False
    if _MARK.search(name):
        return _PAIR.search(name) is not None  # not "e.g", "n/a"
    return _SHAPE.search(name) is not None or (name.isupper() and name.isalpha())


def texts(value: Any) -> Iterator[str]:
    """Every string and number in a JSON value, keys included."""
    # A stack of our own: results of tools may be nested deeper than Python recurses.
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            inner = cast("dict[str, Any]", item)
            left.extend(inner.keys())
            left.extend(inner.values())
        elif isinstance(item, list | tuple):
            left.extend(cast("Sequence[Any]", item))
        elif item is not None and not isinstance(item, bool):
            yield str(item)


class TokenLedger:
    """Who brought which token first: feed it in the order of the log."""

    def __init__(self, *known: str) -> None:
        self._own: set[str] = set()
        self._learnt: dict[str, int] = {}
        self._brought: dict[int, set[str]] = {}
        for text in known:
            self.said(text)

    @property
    def has_learnt(self) -> bool:
        """Whether any observation brought a token that a thought could cite."""
        return bool(self._learnt)

    def said(self, value: Any) -> None:
        """The goal, the instructions, the model or a person said `value`."""
        for text in texts(value):
            # Whatever the model or a person said first is no evidence, even if
            # the world repeats it later.
            self._own.update([token for token in tokens(text) if token not in self._learnt])

    def observed(self, step: int, value: Any) -> None:
        """The world answered `value` in `step`."""
        brought = self._brought.setdefault(step, set())
        for text in texts(value):
            for token in tokens(text):
                if token not in self._own:
                    # The first step that showed it is the one that counts, unless
                    # a thought names another.
                    self._learnt.setdefault(token, step)
                    brought.add(token)

    def judge(self, step: int, thought: Thought) -> Grounding:
        """How `thought` stands to everything observed so far, then count it as said."""
        # Judged before it is counted as said, or every thought would be the echo of itself.
        words = tokens(f"{thought.content}\n{thought.learned}")
        named = sorted({number for number in thought.because if number in self._brought})
        evidence: dict[str, int] = {}
        # A thought that names its sources is held to them: a token that another step brought does
        # not count for it.
        if thought.because:
            for number in named:
                for token in words & self._brought[number]:
                    evidence.setdefault(token, number)
        else:
            evidence = {token: self._learnt[token] for token in words if token in self._learnt}
        self._own.update([token for token in words if token not in self._learnt])
        earliest = sorted(evidence.items(), key=lambda entry: (entry[1], entry[0]))[:_SHOWN]
        return Grounding(
            step,
            bool(evidence),
            bool(named),
            # The first step has nothing to rest on, nor has one for which nothing was observed yet.
            step > 1 and bool(self._brought),
            tuple([Evidence(*entry) for entry in earliest]),
        )


def ground(steps: Sequence[Step], *, goal: str, instructions: str = "") -> tuple[Grounding, ...]:
    """Judge the thoughts of complete steps, taken one after the other."""
    ledger = TokenLedger(goal, instructions)
    judged: list[Grounding] = []
    for step in steps:
        # The order matters: what a step says of its actions comes before what they brought, so a
        # parameter that a tool merely repeats is an echo.
        judged.append(ledger.judge(step.number, step.thought))
        for action in step.actions:
            ledger.said([action.parameters, action.rationale])
        for observation in step.observations:
            ledger.observed(step.number, [observation.result, observation.extraction])
    return tuple(judged)


def ground_turns(
    all_turns: Sequence[TracedTurn], records: Iterable[e.Record]
) -> tuple[Grounding, ...]:
    """Judge the complete turns of a log in the order in which things really happened.

    Parallel branches see only what was observed before they thought; everything the model
    wrote counts as said, also replies that were rejected; so does what people said.
    `records` are those that still count.
    """
    # By record, not by step: branches of a fork overlap in time, and only the log's order shows
    # which observation a thought could have seen.
    proposed = {turn.seq: turn for turn in all_turns}
    observed = {
        call.observed_seq: (turn.number, call.observation)
        for turn in all_turns
        for call in turn.calls
        if call.observation is not None
    }
    ledger = TokenLedger()
    judged: list[Grounding] = []
    for record in records:
        turn = proposed.get(record.seq)
        if turn is not None:
            grounding = ledger.judge(turn.number, turn.thought)
            # An interrupted turn is not judged, but its words still count as said.
            if turn.complete:
                judged.append(grounding)
            ledger.said([[c.action.parameters, c.action.rationale] for c in turn.calls])
        elif record.seq in observed:
            number, observation = observed[record.seq]
            ledger.observed(number, [observation.result, observation.extraction])
        else:
            ledger.said(_words(record.event))

    # The log's order is that of proposal; turns bear the numbers of their completion.
    judged.sort(key=lambda one: one.step)
    return tuple(judged)


def _words(event: e.Event) -> Any:
    """What an event says that is no observation."""
    match event:
        case e.RunStarted():
            # Tool results of an earlier conversation are left out: the world
            # said them, not the model.
            history = [message.text for message in event.history if message.role != "tool"]
            mark = event.settings.get("reference")
            goal = without_reference(event.goal, mark if isinstance(mark, str) else "")
            return [goal, event.settings.get("instructions", ""), history]
        case e.Replied():
            return event.text
        case e.Steered():
            return event.text
        case _:
            return None


def without_reference(goal: str, mark: str) -> str:
    """Returns `goal` without its reference data, the lines that begin with `mark`.

    The world produced these lines before the run. The run's setting `reference` holds `mark`.
    """
    if not mark:
        return goal
    return "\n".join([line for line in goal.splitlines() if not line.startswith(mark)])

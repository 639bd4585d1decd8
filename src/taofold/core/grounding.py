"""Grounding: whether a thought rests on observations (D5), and the tokens that show it.

A token is concrete: a number, a quoted string, an identifier, a path. It counts if an observation
brought it into the run before the goal, the instructions or the model used it. A token that the
model used first is an echo; one that it learnt from an observation stays learnt. Judges steps or a
whole log, in time linear in the text. Knows nothing about meaning.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

from taofold.core import events as e
from taofold.core.trace import TracedTurn
from taofold.core.values import Step, Thought, Value

_LONGEST: Final = 200
"""Characters of a token; longer runs are encoded data, which no thought quotes."""
_SHOWN: Final = 20
"""Maximum number of pieces of evidence reported for one thought."""

# Not inside a word or after a dot: the 2 of `v1.2` belongs to its name.
_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)*")
_QUOTED: Final = re.compile(
    r""""([^"\n]{2,80})"|`([^`\n]{2,80})`|“([^”\n]{2,80})”|«([^»\n]{2,80})»"""
    r"""|(?<!\w)'([^'\n]{2,80})'(?!\w)|\u2018([^\u2019\n]{2,80})\u2019"""
)
_CHUNK: Final = re.compile(r"\w+(?:(?:::|[./-])\w+)*")
_SEGMENT: Final = re.compile(r"::|/")
_PART: Final = re.compile(r"[.-]")
_MARK: Final = re.compile(r"[_./:]")
# Two adjacent characters between the marks: "e.g" and "n/a" have none and name nothing.
_PAIR: Final = re.compile(r"[^\W_]{2}|[^\W_]_|_[^\W_]|::")
_SHAPE: Final = re.compile(r"\d|[a-z][A-Z]")
# A plain word: capitalised or not, no digit, no mark. Most chunks end here.
_PLAIN: Final = re.compile(r"[^\W\d_][a-z]*\Z")


class Evidence(Value, frozen=True):
    """A token of the thought, and the step whose observation brought it."""

    token: str
    step: int


class Grounding(Value, frozen=True):
    """The relation of the thought of `step` to earlier observations.

    `cited`: it names an earlier step in `because`, which alone does not ground it.
    `eligible`: it could have been grounded; the first step never is.
    """

    step: int
    grounded: bool = False
    cited: bool = False
    eligible: bool = True
    evidence: tuple[Evidence, ...] = ()


def tokens(text: str) -> set[str]:
    """Returns the concrete tokens of `text`: numbers, quoted strings, identifiers, paths."""
    # One digit proves nothing: it occurs everywhere by chance.
    concrete = {number for number in _NUMBER.findall(text) if 1 < len(number) <= _LONGEST}
    for groups in _QUOTED.findall(text):
        quoted = "".join(groups).strip()
        if len(quoted) > 1:
            concrete.add(quoted)
    # A set first: long output repeats the same names thousands of times.
    for chunk in set(_CHUNK.findall(text)):
        if len(chunk) > 2 and not _PLAIN.match(chunk) and len(chunk) <= _LONGEST:
            concrete.update(_identifiers(chunk))
    return concrete


def _identifiers(chunk: str) -> Iterator[str]:
    """Yields `chunk` and its parts, as far as they are concrete."""
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
        return _PAIR.search(name) is not None  # excludes "e.g" and "n/a"
    return _SHAPE.search(name) is not None or (name.isupper() and name.isalpha())


def texts(value: Any) -> Iterator[str]:
    """Yields every string and number in a JSON value, including keys."""
    # An explicit stack: tool results may be nested deeper than Python's recursion limit.
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
    """The first source of each token. Feed it in the order of the log."""

    def __init__(self, *known: str) -> None:
        self._own: set[str] = set()
        self._learnt: dict[str, int] = {}
        self._brought: dict[int, set[str]] = {}
        for text in known:
            self.said(text)

    @property
    def has_learnt(self) -> bool:
        """True if an observation brought a token that a thought could cite."""
        return bool(self._learnt)

    def said(self, value: Any) -> None:
        """Records `value` as text of the goal, the instructions, the model or a user."""
        for text in texts(value):
            # Tokens first used by the model or a user are no evidence, even if a later observation
            # repeats them.
            self._own.update([token for token in tokens(text) if token not in self._learnt])

    def observed(self, step: int, value: Any) -> None:
        """Records `value` as an observation of `step`."""
        brought = self._brought.setdefault(step, set())
        for text in texts(value):
            for token in tokens(text):
                if token not in self._own:
                    # The first step that showed a token counts, unless a thought names another
                    # step.
                    self._learnt.setdefault(token, step)
                    brought.add(token)

    def judge(self, step: int, thought: Thought) -> Grounding:
        """Returns the grounding of `thought` so far, then records its own tokens."""
        # Judged before its tokens are recorded, or every thought would echo itself.
        words = tokens(f"{thought.content}\n{thought.learned}")
        named = sorted({number for number in thought.because if number in self._brought})
        evidence: dict[str, int] = {}
        # A thought that names its sources is judged by them: tokens from other steps do not count.
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
            # Not eligible: the first step, and a step before any observation.
            step > 1 and bool(self._brought),
            tuple([Evidence(*entry) for entry in earliest]),
        )


def ground(steps: Sequence[Step], *, goal: str, instructions: str = "") -> tuple[Grounding, ...]:
    """Judges the thoughts of complete steps, in order."""
    ledger = TokenLedger(goal, instructions)
    judged: list[Grounding] = []
    for step in steps:
        # Order matters: parameters are recorded before observations, so a parameter that a tool
        # merely repeats is an echo.
        judged.append(ledger.judge(step.number, step.thought))
        for action in step.actions:
            ledger.said([action.parameters, action.rationale])
        for observation in step.observations:
            ledger.observed(step.number, [observation.result, observation.extraction])
    return tuple(judged)


def ground_turns(
    all_turns: Sequence[TracedTurn], records: Iterable[e.Record]
) -> tuple[Grounding, ...]:
    """Judges the complete turns of a log in the order of their records.

    Parallel branches see only what was observed before they thought. All text of the model and of
    users counts as used, including rejected replies. `records` are those that still count.
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
            # An interrupted turn is not judged, but its text still counts as used.
            if turn.complete:
                judged.append(grounding)
            ledger.said([[c.action.parameters, c.action.rationale] for c in turn.calls])
        elif record.seq in observed:
            number, observation = observed[record.seq]
            ledger.observed(number, [observation.result, observation.extraction])
        else:
            ledger.said(_words(record.event))

    # The log is in order of proposal; turns are numbered in order of completion.
    judged.sort(key=lambda one: one.step)
    return tuple(judged)


def _words(event: e.Event) -> Any:
    """Returns the text of an event that is not an observation."""
    match event:
        case e.RunStarted():
            # Tool results of an earlier conversation are left out: they come from the world, not
            # from the model.
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

    These lines come from outside, before the run. The run's setting `reference` holds `mark`.
    """
    if not mark:
        return goal
    return "\n".join([line for line in goal.splitlines() if not line.startswith(mark)])

"""Grounding: whether a thought rests on observations (D5), and the evidence for it.

Evidence is shared with earlier observations: content words by their stems, numbers with their
nouns, identifiers, paths and quotations. It counts if an observation brought it into the run before
the goal, the instructions or the model used it; what the model used first is an echo. A thought is
grounded if its evidence weighs enough and it contradicts nothing that was observed. Judges steps or
a whole log, in time linear in the text. Knows words and numbers, no meaning. The recorded verdicts
of a model (`JUDGED`) replace those of these rules, step by step.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.claims import Claims, read, stated
from taofold.core.trace import TracedTurn
from taofold.core.values import Thought, Value

_LONGEST: Final = 200
"""Characters of a token; longer runs are encoded data, which no thought quotes."""
_SHOWN: Final = 20
"""Maximum number of pieces of evidence reported for one thought."""
_ENOUGH: Final = 3
"""Weight of evidence that grounds a thought: one identifier, or three words."""

_QUOTED: Final = re.compile(
    r""""([^"\n]{2,80})"|`([^`\n]{2,80})`|“([^”\n]{2,80})”|«([^»\n]{2,80})»"""
    r"""|(?<!\w)'([^'\n]{2,80})'(?!\w)|\u2018([^\u2019\n]{2,80})\u2019"""
)
_MARKED: Final = re.compile(r"[\"`\u201c\u00ab'\u2018]")
_CHUNK: Final = re.compile(r"\w+(?:(?:::|[./-])\w+)*")
_SEGMENT: Final = re.compile(r"::|/")
_PART: Final = re.compile(r"[.-]")
_MARK: Final = re.compile(r"[_./:]")
# Two adjacent characters between the marks: "e.g" and "n/a" have none and name nothing.
_PAIR: Final = re.compile(r"[^\W_]{2}|[^\W_]_|_[^\W_]|::")
_SHAPE: Final = re.compile(r"\d|[a-z][A-Z]")

RULES: Final = "rules"
"""The name of the judge that this module is."""
JUDGED: Final = "grounding_judged"
"""Kind of the note of a judge: `{judge, steps: {number: [grounded, reason]}}`.

A judge that failed leaves `{judge: "rules", model, error}`.
"""


class Evidence(Value, frozen=True):
    """A token of the thought, and the step whose observation brought it."""

    token: str
    step: int


class Grounding(Value, frozen=True):
    """The relation of the thought of `step` to earlier observations.

    `cited`: it names an earlier step in `because`, which alone does not ground it.
    `eligible`: it could have been grounded; the first step never is.
    `judge`: "rules", or the name of the model that judged; `reason` is that model's.
    """

    step: int
    grounded: bool = False
    cited: bool = False
    eligible: bool = True
    evidence: tuple[Evidence, ...] = ()
    contradiction: str = ""
    judge: str = RULES
    reason: str = ""

    @property
    def problem(self) -> str:
        """Why the thought is not grounded; "" if it is."""
        if self.grounded:
            return ""
        if self.judge != RULES:
            return f"{self.judge} judged the thought not grounded: {self.reason or 'no reason'}"
        if self.contradiction:
            return f"the thought contradicts what was observed: {self.contradiction}"
        if self.evidence:
            return "the thought uses too little of what was observed"
        return "the thought uses nothing that was observed"


def tokens(text: str) -> set[str]:
    """Returns the specific tokens of `text` in lower case: quotations, identifiers, paths."""
    concrete: set[str] = set()
    for groups in _QUOTED.findall(text) if _MARKED.search(text) else ():
        quoted = "".join(groups).strip()
        if len(quoted) > 1:
            concrete.add(quoted.lower())
    # A set first: long output repeats the same names thousands of times.
    for chunk in set(_CHUNK.findall(text)):
        # Most chunks are plain words.
        plain = chunk.isalpha() and (chunk.islower() or chunk.istitle())
        if not plain and 2 < len(chunk) <= _LONGEST:
            concrete.update([name.lower() for name in _identifiers(chunk)])
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
    """Yields the texts of a JSON value; a scalar in an object is written after its key."""
    # An explicit stack: tool results may be nested deeper than Python's recursion limit.
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            if item:
                yield item
        elif isinstance(item, dict):
            for key, inner in cast("dict[str, Any]", item).items():
                if isinstance(inner, dict | list | tuple):
                    yield str(key)
                    left.append(inner)
                else:
                    yield f"{key}: {_scalar(inner)}"
        elif isinstance(item, list | tuple):
            left.extend(cast("Sequence[Any]", item))
        elif item is not None:
            yield _scalar(item)


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _weighed(text: str, claims: Claims) -> dict[str, int]:
    """Returns everything in `text` that could be evidence, with its weight.

    A word and a number weigh 1, a number with its noun 1 more. An identifier and a quotation are
    enough.
    """
    return claims.weights | {token: 1 if token.isalpha() else _ENOUGH for token in tokens(text)}


class TokenLedger:
    """The first source of each piece of evidence. Feed it in the order of the log."""

    def __init__(self, *known: str) -> None:
        self._own: set[str] = set()
        self._learnt: dict[str, int] = {}
        self._brought: dict[int, set[str]] = {}
        self._counts: dict[str, str] = {}
        """A noun → the newest number beside it."""
        self._units: dict[tuple[str, str], set[str]] = {}
        """A number and a dimension → the units that were observed behind it."""
        self._numbers: set[str] = set()
        self._shown: set[str] = set()
        """The words that an observation has without a negation."""
        self._denied: set[str] = set()
        self._states: dict[str, tuple[int, set[bool]]] = {}
        """A pair of opposites → the newest step that names it, and whether the first holds."""
        for text in known:
            self.said(text)

    def said(self, value: Any) -> None:
        """Records `value` as text of the goal, the instructions, the model or a user."""
        for text in texts(value):
            # Words that the model or a user used first are no evidence, even if a later observation
            # repeats them.
            self._use(_weighed(text, read(text)))

    def _use(self, units: Mapping[str, int]) -> None:
        self._own |= units.keys() - self._learnt.keys()

    def observed(self, step: int, value: Any) -> None:
        """Records `value` as an observation of `step`."""
        brought = self._brought.setdefault(step, set())
        for text in texts(value):
            claims = read(text, facts=True)
            self._state(step, claims)
            new = _weighed(text, claims).keys() - self._own
            brought |= new
            # The first step that showed it counts, unless a thought names another step.
            self._learnt.update(dict.fromkeys(new - self._learnt.keys(), step))

    def _state(self, step: int, claims: Claims) -> None:
        """Records what an observation states."""
        for number, noun in claims.counts:
            if noun:
                self._counts[noun] = number
            else:
                # 1482.10 may be quoted as 1482.
                self._numbers.update((number, number.partition(".")[0]))
        for number, dimension, unit in claims.units:
            self._units.setdefault((number, dimension), set()).add(unit)
        self._shown.update(claims.weights.keys() - claims.denied)
        self._denied.update(claims.denied)
        for pair, first in claims.states:
            # The newest step counts: a test that failed may pass now.
            newest, found = self._states.get(pair, (step, set[bool]()))
            self._states[pair] = (step, {first, *found} if newest == step else {first})

    def _contradiction(self, thought: str) -> str:
        """Returns a conflict of a thought with the observations, or "".

        Each rule compares two values of one thing, so that no rule needs a meaning.
        """
        for claims in stated(thought):
            for number, noun in claims.counts:
                unknown = number not in self._numbers and number not in self._own
                if noun in self._counts and unknown:
                    return f"{noun!r} was observed with {self._counts[noun]}, not with {number}"
            for number, dimension, unit in claims.units:
                known = self._units.get((number, dimension), {unit})
                if unit not in known:
                    return f"{number} {' or '.join(sorted(known))} were observed, not {unit}"
            for pair, first in sorted(claims.states):
                if pair in self._states and first not in self._states[pair][1]:
                    return f"the opposite was observed of {pair!r} or its negation"
            for word in (claims.weights.keys() & self._denied) - self._shown - claims.denied:
                return f"{word!r} was observed as absent"
        return ""

    def judge(self, step: int, thought: Thought) -> Grounding:
        """Returns the grounding of `thought` so far, then records its own words."""
        # Judged before its words are recorded, or every thought would echo itself.
        text = f"{thought.content}\n{thought.learned}"
        units = _weighed(text, read(text))
        named = sorted({number for number in thought.because if number in self._brought})
        evidence: dict[str, int] = {}
        # A thought that names its sources is judged by them, not by evidence of other steps.
        if thought.because:
            for number in named:
                for unit in units.keys() & self._brought[number]:
                    evidence.setdefault(unit, number)
        else:
            evidence = {unit: self._learnt[unit] for unit in units if unit in self._learnt}
        enough = sum([units[unit] for unit in evidence]) >= _ENOUGH
        contradiction = self._contradiction(text) if enough else ""
        self._use(units)
        earliest = sorted(evidence.items(), key=lambda entry: (entry[1], entry[0]))[:_SHOWN]
        return Grounding(
            step,
            enough and not contradiction,
            bool(named),
            # Not eligible: the first step, and a step before any observation.
            step > 1 and bool(self._brought),
            tuple([Evidence(*entry) for entry in earliest]),
            contradiction,
        )


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
    verdicts: Mapping[int, tuple[str, bool, str]] = {}
    for record in records:
        if isinstance(record.event, e.Noted) and record.event.kind == JUDGED:
            verdicts = _model_verdicts(record.event.data, all_turns)
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
    return tuple([_decided(one, verdicts.get(one.step)) for one in judged])


def _model_verdicts(
    data: Mapping[str, Any], all_turns: Sequence[TracedTurn]
) -> dict[int, tuple[str, bool, str]]:
    """Returns judge, verdict and reason for each step that a model judged.

    The model counts the steps outside of parallel branches.
    """
    steps: object = data.get("steps")
    verdicts: Mapping[str, Any] = {}
    if isinstance(steps, dict):
        verdicts = cast("dict[str, Any]", steps)
    found: dict[int, tuple[str, bool, str]] = {}
    main = [turn.number for turn in all_turns if turn.complete and "." not in turn.key]
    for count, number in enumerate(main, 1):
        match verdicts.get(str(count)):
            case [bool() as grounded, str() as reason]:
                found[number] = (str(data.get("judge", "")), grounded, reason)
            case _:
                pass  # an imported file may hold anything
    return found


def _decided(rules: Grounding, verdict: tuple[str, bool, str] | None) -> Grounding:
    """Returns the model's verdict where there is one, with the evidence of the rules."""
    if verdict is None or not rules.eligible:
        return rules
    judge, grounded, reason = verdict
    return replace(rules, grounded=grounded, judge=judge, reason=reason)


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
        case e.HandedOff():
            return event.settings.get("instructions", "")
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

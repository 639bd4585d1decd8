"""Judges the form of a turn by the rules of the loop (R1, D3).

`Demands` follows one `react` loop and judges the form of each readable turn. A lenient run checks
the demands of its prompt that cannot be checked from the log later: a thought, its type, an
exception after a failure, a rationale. A strict run also checks the aim, the reason, the extraction
and research steps. Grounding is judged from the log (`core.grounding`) and refuses nothing. Pure.
`react` decides if a turn is refused.
"""

from collections.abc import Iterable, Sequence

from taofold.core.effects import Lack
from taofold.core.rule_names import (
    EXCEPTION,
    EXTRACTION,
    INTENT,
    NO_THOUGHT,
    RATIONALE,
    REASON,
    RESEARCH,
    UNTYPED,
)
from taofold.core.rules import check_thought
from taofold.core.vague_text import is_blank, lacks_intent, lacks_reason
from taofold.core.values import (
    FINISH,
    THOUGHT_PLACEHOLDER,
    Observation,
    Thought,
    ThoughtType,
)
from taofold.parsing import Call, Remark, Turn
from taofold.reasoning.task import Task

UNANSWERED = Lack(
    NO_THOUGHT, f'An answer needs a thought too: reply with a thought and the tool "{FINISH}".'
)
"""The rule that an answer outside the protocol breaks."""
_THOUGHTLESS = Lack(NO_THOUGHT, "No action without a thought: say why you act, then act.")
_FAILED = Lack(
    EXCEPTION,
    "The last action failed. The next thought must be of type exception: "
    "say why it failed and what you will change.",
)
_AIMLESS = Lack(INTENT, "The thought names an activity, not what it is for: state the aim.")
_REASONLESS = Lack(
    REASON,
    "The thought gives no reason: say why this action is next, or list the steps it rests on in "
    '"because".',
)
_EXTRACTIONLESS = Lack(EXTRACTION, 'Say in "learned" what the last results showed.')


class Demands:
    """Judges the turns of one loop, in order."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._after_failure = False
        self._unextracted = False

    def saw(self, observations: Sequence[Observation]) -> None:
        """Records the observations of a step."""
        self._after_failure = any([o.status in ("failure", "timeout") for o in observations])
        # A key result named by the tool itself needs no extraction by the model.
        self._unextracted = any([o.auto or not o.extraction.strip() for o in observations])

    def judge(self, turn: Turn, calls: Sequence[Call]) -> tuple[Thought, tuple[Lack, ...]]:
        """Returns the thought of a turn, and the rules that the turn breaks.

        Args:
            turn: A turn with an action.
            calls: Its calls without `finish`.
        """
        remark = turn.remark
        if remark is None or not remark.content.strip():
            tools = ", ".join([call.tool for call in turn.calls])
            content = f"{THOUGHT_PLACEHOLDER} calls {tools}"
            thought = Thought(content, self._inferred, synthesized=True)
            return thought, (_THOUGHTLESS, *self._of_calls(thought, calls))
        thought, lacks = self._typed(remark)
        lacks += [*self._of_content(thought, acts=bool(calls))]
        return thought, (*lacks, *self._of_calls(thought, calls))

    @property
    def _inferred(self) -> ThoughtType:
        """Returns the type of a thought for which the model names none."""
        return "exception" if self._after_failure else "reasoning"

    def _typed(self, remark: Remark) -> tuple[Thought, list[Lack]]:
        kind, problem = check_thought(remark.type, research=self._task.research)
        lacks: list[Lack] = []
        # A native call has no field for a type.
        if problem and not (self._task.native and remark.type is None):
            lacks.append(Lack(UNTYPED, problem))
        if self._after_failure and kind not in ("exception", None):
            lacks.append(_FAILED)
        thought = Thought(
            remark.content,
            kind or self._inferred,
            because=remark.because,
            confidence=remark.confidence,
            critical=remark.critical,
            inferred=kind is None,
            learned=remark.learned,
        )
        return thought, lacks

    def _of_content(self, thought: Thought, *, acts: bool) -> Iterable[Lack]:
        """Yields the rules that an existing thought breaks in a strict run."""
        if not self._task.strict:
            return
        if lacks_intent(thought.content):
            yield _AIMLESS
        # An answer needs no reason: the goal is reached.
        if acts and not thought.because and lacks_reason(thought.content):
            yield _REASONLESS
        # A native call has no field for an extraction.
        if self._unextracted and not self._task.native and is_blank(thought.learned):
            yield _EXTRACTIONLESS

    def _of_calls(self, thought: Thought, calls: Sequence[Call]) -> Iterable[Lack]:
        task = self._task
        # A native call has no field for a rationale.
        for call in calls if not task.native else ():
            if not call.rationale:
                yield Lack(RATIONALE, f'Say in "rationale" why {call.tool!r} is called.')
            elif task.strict and lacks_intent(call.rationale):
                yield Lack(RATIONALE, f"The rationale of {call.tool!r} says what is done, not why.")
        if task.strict and thought.type == "research":
            effects = {offer.name: offer.effect for offer in task.offers}
            for call in calls:
                if effects.get(call.tool, "read") != "read":
                    detail = f"{call.tool!r} can change the world: a research step only reads."
                    yield Lack(RESEARCH, detail)

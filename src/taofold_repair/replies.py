"""What the repair policy writes: its sentences, the reply format they go into, and the marks of
edits.

A mark is eight hex digits in an answer that stand for an edit that was tried and failed: a later
conversation reads them back and does not try it again. Knows nothing about how decisions are made.
"""

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

from taofold.core.failing_checks import Check
from taofold.core.values import FINISH, ThoughtType
from taofold.diagnostics import PytestReport
from taofold_repair.rank import Candidate
from taofold_repair.templates import TEMPLATES
from taofold_repair.transcript import PastAction

WHAT: Final = "search policy, not a language model"
_MOST_MARKS: Final = 120
_TRIED: Final = re.compile(r"Tried without success: \[([0-9a-f ]+)\]")
_DOES: Final = {template.name: template.does for template in TEMPLATES}


def call(tool: str, rationale: str, **parameters: Any) -> dict[str, Any]:
    """One action."""
    return {"tool": tool, "parameters": parameters, "rationale": rationale}


def reply(thought: str, kind: ThoughtType, because: Sequence[int], *calls: dict[str, Any]) -> str:
    """One reply in the ordinary format."""
    body: dict[str, Any] = {"thought": thought, "thought_type": kind}
    # 0 is "unknown": a reason has to name a step that there is.
    steps = sorted({step for step in because if step > 0})
    if steps:
        body["because"] = steps
    if len(calls) == 1:
        body["action"] = calls[0]
    else:
        body["actions"] = list(calls)
    return json.dumps(body, ensure_ascii=False)


def finish(answer: str, thought: str, kind: ThoughtType, because: Sequence[int] = ()) -> str:
    """The last reply."""
    parameters: dict[str, Any] = {"answer": f"{answer} ({WHAT})"}
    # Whoever reads the result must not take an honest refusal for success.
    if not answer.startswith("repaired"):
        parameters["success"] = False
    action = call(FINISH, "nothing is left to do", **parameters)
    return reply(thought, kind, because, action)


def short(failure: Check) -> str:
    """A failure in one line."""
    message = re.sub(r"\s+", " ", failure.message).strip()
    message = (
        message
        if failure.error_type in message or failure.error_type == "AssertionError"
        else (f"{failure.error_type}: {message}".rstrip(": "))
    )
    return f"{failure.id}: {message[:140]}" if message else failure.id


def failing(report: PytestReport) -> str:
    """What fails, in one sentence."""
    first = report.failures[0] if report.failures else None
    more = f" and {len(report.failures) - 1} more" if len(report.failures) > 1 else ""
    return f"{report.summary or 'the run'}; {short(first) if first else 'no test is named'}{more}"


def proposal(candidate: Candidate, number: int) -> tuple[str, str]:
    """Thought and rationale for trying `candidate`."""
    edit = candidate.edit
    learnt = " Earlier searches found such edits right." if candidate.learnt > 1 else ""
    thought = (
        f"{short(candidate.failure)}. Candidate {number} (one candidate edit per turn): "
        f"template {edit.template}, {_DOES[edit.template]}, at {edit.path}:{edit.line}.{learnt}"
    )
    return thought, f"template {edit.template} at {edit.path}:{edit.line}"


def mark(key: str, standing: str) -> str:
    """Eight hex digits for an edit that was tried, from one conversation to the next.

    Four stand for the edit, four for the edit where `standing` failed: what did not help there
    may help when something else fails.
    """
    return _digest(key) + _digest(f"{standing}\0{key}")


def edit_of(mark: str) -> str:
    """The part of a mark that stands for the edit."""
    return mark[:4]


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=2).hexdigest()


def tried(keys: Iterable[tuple[str, str]]) -> str:
    """What a later attempt need not try again, for the answer: edits, each with what failed."""
    # Sorted, so that the answer does not depend on the order of the search.
    marks = sorted(mark(key, standing) for key, standing in keys)[:_MOST_MARKS]
    return f" Tried without success: [{' '.join(marks)}]." if marks else ""


def marks(answer: str) -> frozenset[str]:
    """The marks in what an earlier attempt answered."""
    lists = _TRIED.findall(answer)
    return frozenset([mark for marks in lists for mark in marks.split()])


def changed(actions: Sequence[PastAction]) -> str:
    """The kept edits, as one says them in an answer."""
    edits: list[str] = []
    for action in actions:
        old = [line.strip() for line in str(action.parameters.get("old", "")).split("\n")]
        new = [line.strip() for line in str(action.parameters.get("new", "")).split("\n")]
        out = " / ".join([line for line in old if line not in new])
        put = " / ".join([line for line in new if line not in old])
        edits.append(f"{action.parameters.get('path')}: `{out}` -> `{put}`")
    return "; ".join(edits) or "no edit kept"

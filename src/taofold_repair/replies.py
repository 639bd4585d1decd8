"""The texts of the repair policy: its sentences, the reply format, and the marks of edits.

A mark is eight hex digits in an answer for an edit that was tried and failed: a later conversation
reads them and does not try it again. Knows nothing about the decisions of the policy.
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
    """Returns one action."""
    return {"tool": tool, "parameters": parameters, "rationale": rationale}


def reply(thought: str, kind: ThoughtType, because: Sequence[int], *calls: dict[str, Any]) -> str:
    """Returns one reply in the ordinary format."""
    body: dict[str, Any] = {"thought": thought, "thought_type": kind}
    # 0 is "unknown": a reason has to name an existing step.
    steps = sorted({step for step in because if step > 0})
    if steps:
        body["because"] = steps
    if len(calls) == 1:
        body["action"] = calls[0]
    else:
        body["actions"] = list(calls)
    return json.dumps(body, ensure_ascii=False)


def finish(answer: str, thought: str, kind: ThoughtType, because: Sequence[int] = ()) -> str:
    """Returns the last reply."""
    parameters: dict[str, Any] = {"answer": f"{answer} ({WHAT})"}
    # An honest refusal must not look like success to a reader of the result.
    if not answer.startswith("repaired"):
        parameters["success"] = False
    action = call(FINISH, "nothing is left to do", **parameters)
    return reply(thought, kind, because, action)


def short(failure: Check) -> str:
    """Returns a failure in one line."""
    message = re.sub(r"\s+", " ", failure.message).strip()
    message = (
        message
        if failure.error_type in message or failure.error_type == "AssertionError"
        else (f"{failure.error_type}: {message}".rstrip(": "))
    )
    return f"{failure.id}: {message[:140]}" if message else failure.id


def failing(report: PytestReport) -> str:
    """Returns the failures in one sentence."""
    first = report.failures[0] if report.failures else None
    more = f" and {len(report.failures) - 1} more" if len(report.failures) > 1 else ""
    return f"{report.summary or 'the run'}; {short(first) if first else 'no test is named'}{more}"


def proposal(candidate: Candidate, number: int) -> tuple[str, str]:
    """Returns thought and rationale for trying `candidate`."""
    edit = candidate.edit
    learnt = " Earlier searches found such edits right." if candidate.learnt > 1 else ""
    thought = (
        f"{short(candidate.failure)}. Candidate {number} (one candidate edit per turn): "
        f"template {edit.template}, {_DOES[edit.template]}, at {edit.path}:{edit.line}.{learnt}"
    )
    return thought, f"template {edit.template} at {edit.path}:{edit.line}"


def mark(key: str, standing: str) -> str:
    """Returns eight hex digits for a tried edit, to pass between conversations.

    Four digits stand for the edit, four for the edit with the failures `standing`: an edit that did
    not help there may help with other failures.
    """
    return _digest(key) + _digest(f"{standing}\0{key}")


def edit_of(mark: str) -> str:
    """Returns the part of a mark that stands for the edit."""
    return mark[:4]


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=2).hexdigest()


def tried(keys: Iterable[tuple[str, str]]) -> str:
    """Returns the part of the answer that lists failed edits with their failures, for later
    attempts.
    """
    # Sorted, so that the answer does not depend on the order of the search.
    marks = sorted(mark(key, standing) for key, standing in keys)[:_MOST_MARKS]
    return f" Tried without success: [{' '.join(marks)}]." if marks else ""


def marks(answer: str) -> frozenset[str]:
    """Returns the marks in the answer of an earlier attempt."""
    lists = _TRIED.findall(answer)
    return frozenset([mark for marks in lists for mark in marks.split()])


def changed(actions: Sequence[PastAction]) -> str:
    """Returns the kept edits as text for an answer."""
    edits: list[str] = []
    for action in actions:
        old = [line.strip() for line in str(action.parameters.get("old", "")).split("\n")]
        new = [line.strip() for line in str(action.parameters.get("new", "")).split("\n")]
        out = " / ".join([line for line in old if line not in new])
        put = " / ".join([line for line in new if line not in old])
        edits.append(f"{action.parameters.get('path')}: `{out}` -> `{put}`")
    return "; ".join(edits) or "no edit kept"

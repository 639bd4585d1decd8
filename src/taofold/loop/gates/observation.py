"""A verdict as the model reads it at the start of the next iteration. Pure.

Everything here is data: what tests print is quoted, shortened and already redacted.
"""

from taofold.core.excerpt import excerpt
from taofold.loop.check import Check, GateResult, Verdict

LIMIT = 6_000
"""Characters."""
_SHOWN = 8


def observation(verdict: Verdict, limit: int = LIMIT) -> str:
    """What is still wrong, the most telling first, in at most about `limit` characters."""
    lines = ["The gates pass." if verdict.passed else "The gates do not pass yet."]
    lines += [
        f"{change.path} was {change.did} and is {change.done}: {change.why}. "
        "It belongs to the check; solve the task without touching it."
        for change in verdict.changes
        if change.done not in ("kept", "left out")
    ]
    left = [change for change in verdict.changes if change.done == "left out"]
    if left and not verdict.passed:
        lines += [f"The gates ran without your change of {c.path}: {c.why}." for c in left[:_SHOWN]]
    room = max(limit - sum(map(len, lines)), limit // 2)
    failed = [result for result in verdict.results if not result.passed]
    lines += [_told(result, room // len(failed)) for result in failed]
    return excerpt("\n".join(lines), limit)


def _told(result: GateResult, room: int) -> str:
    lines = [f"$ {result.gate.command}"]
    lines += [f"  {reason}" for reason in result.reasons]
    failing = result.failing
    share = max(room // max(min(len(failing), _SHOWN), 1), 200)
    lines += [_shown(check, share) for check in failing[:_SHOWN]]
    if len(failing) > _SHOWN:
        rest = ", ".join([check.id for check in failing[_SHOWN : _SHOWN + 20]])
        lines.append(f"also failing: {rest}")
    if not failing and result.output.strip():
        lines.append(excerpt(result.output.strip(), room // 2))
    return "\n".join(lines)


def _shown(check: Check, room: int) -> str:
    place = f"{check.places[-1].path}:{check.places[-1].line}" if check.places else ""
    said = ": ".join([part for part in (check.error_type, check.message) if part])
    head = f"{check.status.upper()} {check.id} ({place}) {said}".replace(" ()", "")
    body = excerpt(check.traceback.strip(), room) if check.traceback else ""
    return f"{excerpt(head, 600)}\n{body}".rstrip()

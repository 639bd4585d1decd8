"""What waits for a person, in words: why it asks, and the commands that answer it."""

from typing import TYPE_CHECKING

from taofold.cli.clean import line
from taofold.cli.program import invocation
from taofold.core.values import ASK_USER

if TYPE_CHECKING:
    from taofold.runtime.setup import Approval

_WHY = {
    "tier 2 asks": "it writes, or its author or your policy wants it asked about",
    "tier 3 always asks": "its author or your policy wants your word every time",
}
"""The policy's reasons that only repeat the tier."""


def why(reason: str) -> str:
    """The reason in words that say more than the tier does."""
    return _WHY.get(reason, reason)


def doubtful(one: "Approval") -> bool:
    """Was it started before an interruption, so that nobody knows whether it happened?"""
    return bool(one.question) and one.action.tool != ASK_USER and one.form is None


def told(one: "Approval") -> list[str]:
    """What is asked, and the commands that answer it."""
    call = f"{invocation()} approvals"
    if one.action.tool == ASK_USER:
        return [f"it asks: {one.question}", f'  {call} approve {one.id} --answer "…"']
    if one.form is not None:
        asks = f"{one.action.tool} asks: {line(one.question, 400)}"
        if not one.form:
            return [asks, f"  {call} approve {one.id}    (or deny)"]
        fields = ", ".join(map(str, one.form.get("properties", {})))
        wanted = [f"  it wants: {line(fields, 200)}"] if fields else []
        return [asks, *wanted, f'  {call} approve {one.id} --answer "…"    (or deny)']
    what = f"it waits for: {one.preview.splitlines()[0] if one.preview else one.action.tool}"
    if not doubtful(one):
        return [what, f"  {call} approve {one.id}    (or deny)"]
    return [
        what,
        f"  {line(one.question, 300)}",
        f"  it happened:   {call} approve {one.id} --done",
        f"  run it again:  {call} approve {one.id}",
        f"  skip it:       {call} deny {one.id}",
    ]

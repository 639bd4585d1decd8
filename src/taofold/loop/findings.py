"""What a verdict says, as the loop reads it: errors that can be recognised again, and less text.

A gate of which only the exit code is known counts as one check, named after its command.
Pure.
"""

import re
from typing import Final

from msgspec.structs import replace

from taofold.loop.check import Check, GateResult, Verdict

_NOISE: Final = re.compile(
    r"0x[0-9a-fA-F]+|/tmp/\S+|\b\d+(?:\.\d+)?\s?(?:ms|s|seconds?)\b|\b[0-9a-f]{12,}\b"
    r"|\b\d{4}-\d\d-\d\d[T ][\d:.]+Z?"
)
_TAIL: Final = 400
_OUTPUT: Final = 4000


def failing(verdict: Verdict) -> tuple[Check, ...]:
    """Every failing check, and one for each failing gate that names none."""
    found: list[Check] = []
    for result in verdict.results:
        named = result.failing
        found += named
        if not named and not result.passed:
            found.append(_whole(result))
    return tuple(found)


def _whole(result: GateResult) -> Check:
    """A gate as one check."""
    said = "; ".join(result.reasons) or result.output[-_TAIL:]
    kind = "timeout" if result.timed_out else "command"
    return Check(
        id=result.gate.command, status="failed", error_type=kind,
        message=f"{said}\n{result.output[-_TAIL:]}" if result.reasons else said,
    )  # fmt: skip


def passing(verdict: Verdict) -> frozenset[str]:
    """The ids of the checks that passed."""
    ids = [one.id for result in verdict.results for one in result.checks if one.status == "passed"]
    ids += [one.gate.command for one in verdict.results if one.passed and not one.checks]
    return frozenset(ids)


def signature(check: Check) -> str:
    """What two failures of the same error share; addresses, times and digests do not count."""
    said = " ".join(_NOISE.sub("#", check.message).split())
    return f"{check.id}: {check.error_type}: {said[:200]}".rstrip(": ")


def signatures(verdict: Verdict) -> frozenset[str]:
    """The errors of a verdict."""
    return frozenset([signature(one) for one in failing(verdict)])


def slim(verdict: Verdict) -> Verdict:
    """The verdict without what the loop's stream need not keep: details of what passed."""
    return replace(verdict, results=tuple([_slim(one) for one in verdict.results]))


def _slim(result: GateResult) -> GateResult:
    checks = [
        one if one.status in ("failed", "error") else Check(one.id, one.status)
        for one in result.checks
    ]
    output = result.output if len(result.output) <= _OUTPUT else result.output[-_OUTPUT:]
    return replace(result, checks=tuple(checks), output=output)


def counts(verdict: Verdict) -> tuple[int, int]:
    """How many checks pass, and how many there are."""
    good, bad = len(passing(verdict)), len(failing(verdict))
    return good, good + bad


def line(verdict: Verdict) -> str:
    """`12 of 14 checks pass`, and what else decides."""
    good, every = counts(verdict)
    said = f"{good} of {every} check{'s' * (every != 1)} pass{'es' * (every == 1)}"
    if verdict.missing:
        said += f"; {len(verdict.missing)} of the baseline did not run"
    if verdict.tampered:
        said += "; protected files were tampered with"
    return said

"""What a verdict says, as the loop reads it: errors that can be recognised again, and less text.

A gate whose runner gave no report is read like a person would read it, from its output; one that
printed nothing recognisable counts as one check, named after its command.
Pure.
"""

from typing import Final

from msgspec.structs import replace

from taofold.loop.check import Check, GateResult, Verdict
from taofold.parsing.failures import failing_checks

_TAIL: Final = 400
_OUTPUT: Final = 4000


def failing(verdict: Verdict) -> tuple[Check, ...]:
    """Every failing check, and one for each failing gate that names none."""
    found: list[Check] = []
    for result in verdict.results:
        named = result.failing
        found += named
        if not named and not result.passed:
            found += failing_checks(result.output) or [_whole(result)]
    return tuple(found)


def _whole(result: GateResult) -> Check:
    """A gate of which nothing is known but that it failed: its last words, never its exit code."""
    return Check(
        result.gate.command,
        "failed",
        "timeout" if result.timed_out else "command",
        result.output[-_TAIL:].strip(),
        traceback="; ".join(result.reasons),
    )


def passing(verdict: Verdict) -> frozenset[str]:
    """The ids of the checks that passed."""
    ids = [one.id for result in verdict.results for one in result.checks if one.status == "passed"]
    ids += [one.gate.command for one in verdict.results if one.passed and not one.checks]
    return frozenset(ids)


def signatures(verdict: Verdict) -> frozenset[str]:
    """The errors of a verdict."""
    return frozenset([one.signature for one in failing(verdict)])


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

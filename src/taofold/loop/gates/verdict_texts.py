"""Renders a verdict: for a model (`observation`), for a report (`limits`, `proof`), and changes.
Pure.

Output of tests and gates is data: quoted, shortened, the most informative first.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from taofold.core.failing_checks import Check
from taofold.core.text import excerpt
from taofold.loop.gates.scope import FINAL
from taofold.loop.verdict import TESTS, GateResult, Runner, TreeChange, Verdict
from taofold.parsing.untrusted_text import first_names, join_names, one_line

_IN_PROCESS: Final = (
    "the product runs in the process of its tests: code written to deceive them (it detects them, "
    "changes their runner in memory, prints their results) is not found out; read the diff"
)
_ANY: Final = "tests that test little, or that the task does not reach, prove little"
_COMMAND: Final = (
    "only its exit code is known: what it imports or calls of the product can end it with 0"
)
_LINTER: Final = "what it cannot see (casts, `Any`, code made at run time) is not found"


def limits(verdict: Verdict) -> tuple[str, ...]:
    """Returns the limits of this verdict, for the end of every report."""
    limits: dict[str, None] = {}
    for result in verdict.results:
        limits[f"`{result.gate.command}`: {_limit(result.runner)}"] = None
    limits[_ANY] = None
    if not verdict.contained:
        limits["not contained: programs of the agent may still run, and write anywhere"] = None
    return tuple(limits)


def _limit(runner: Runner) -> str:
    if runner == "command":
        return _COMMAND
    return _IN_PROCESS if runner in TESTS else _LINTER


def change_line(change: TreeChange) -> str:
    """Renders a change in one line."""
    text = f"{one_line(change.path)} was {change.did} and is {change.done}: {change.why}"
    # No option lets an agent edit a file above the tree.
    inside = change.tampering and not change.path.startswith("/")
    return f"{text} ({allowing([change.path])} lets the agent edit it)" if inside else text


JOINED: Final = "in the proof:"


def proof(verdict: Verdict, most: int = 1_000) -> tuple[str, ...]:
    """Returns the files of the work that joined the proof and those that did not, as lines.

    Args:
        verdict: The verdict on the work.
        most: The most names in a line.
    """
    left: dict[str, list[str]] = {}
    for change in verdict.changes:
        if change.done == "left out":
            left.setdefault(change.why, []).append(change.path)
    lines = [f"{JOINED} {first_names(verdict.joined, most)}"] if verdict.joined else []
    lines += [
        f"not in the proof: {first_names(paths, most)} ({why})" for why, paths in left.items()
    ]
    named = [path for why, paths in left.items() for path in paths if not why.startswith(FINAL)]
    if named:
        lines.append(f"the user can include it with {allowing(named)}")
    return tuple(lines)


def allowing(paths: Sequence[str]) -> str:
    """Returns the options that include `paths` in the proof."""
    options = [f"--allow-edit {shlex.quote(one_line(path, 200))}" for path in paths[:_SHOWN]]
    return " ".join([*options, "…"] if len(paths) > _SHOWN else options)


def left_out(changes: Iterable[TreeChange]) -> list[str]:
    """Returns the files of the work that were not in the proof and that an option can include."""
    return [
        change.path
        for change in changes
        if change.done == "left out" and not change.why.startswith(FINAL)
    ]


def suspicious(joined: Sequence[str], reasons: Mapping[str, str]) -> list[str]:
    """Returns a note on changed files that may decide, as well as be the product."""
    named = [f"{one_line(path)} ({reasons[path]})" for path in joined if path in reasons]
    if not named:
        return []
    return [
        f"in the proof, but it may be what decides: {', '.join(named)}; read the difference, or "
        "say with --scope what is the product"
    ]


LIMIT = 6_000
"""The default length of an observation in characters."""
_SHOWN = 8
_NAMED: Final = 40


def observation(verdict: Verdict, limit: int = LIMIT) -> str:
    """Returns the remaining problems, the most informative first, in about `limit` characters."""
    lines = ["The gates pass." if verdict.passed else "The gates do not pass yet."]
    lines += [
        f"{change_line(change)}. It belongs to the check: solve the task without touching it."
        for change in verdict.changes
        if change.done not in ("kept", "left out")
    ]
    lines += [f"{line[0].upper()}{line[1:]}." for line in proof(verdict, _NAMED)]
    lines += [f"Note: {note}." for note in verdict.notes]
    # At least half is for the failures, even with many notes about protected files.
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
        rest = join_names([check.id for check in failing[_SHOWN:]], 20)
        lines.append(f"also failing: {rest}")
    if not failing and result.output.strip():
        left = room - sum(map(len, lines))
        lines.append(excerpt(result.output.strip(), max(left, room // 2)))
    return "\n".join(lines)


def _shown(check: Check, room: int) -> str:
    position = f"{check.places[-1].path}:{check.places[-1].line}" if check.places else ""
    summary = ": ".join([part for part in (check.error_type, check.message) if part])
    head = f"{check.status.upper()} {check.id} ({position}) {summary}".replace(" ()", "")
    body = excerpt(check.traceback.strip(), room) if check.traceback else ""
    return f"{excerpt(head, 600)}\n{body}".rstrip()

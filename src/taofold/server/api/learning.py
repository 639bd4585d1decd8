"""The routes of loops and patterns, and of the measured benefit of learning.

Loops and patterns belong to the machine, not to one user: principals with the right `learning` can
see and change them. Loops are started and steered only at the command line.
"""

from typing import Any, Final, NoReturn

from pydantic import BaseModel

from taofold.core.errors import Refused, UnknownRun
from taofold.core.json_values import plain
from taofold.core.text import iso
from taofold.learning.patterns.pattern import Arm, Pattern, PatternSource
from taofold.learning.registry import Query, Registry
from taofold.log.journal import Journal
from taofold.loop.events import IterationEnded
from taofold.loop.report import report_json
from taofold.loop.state import LoopState
from taofold.loop.stream import LoopStream, ids, load
from taofold.server.api import schemas
from taofold.server.api.schemas import LoopsQuery, PatternsQuery
from taofold.server.endpoint import ApiCall, ApiEndpoint, Nothing, Problem

_NONE: Final = "this server keeps no loops and patterns"


async def loops(call: ApiCall) -> BaseModel:
    """Returns all loops, the newest first."""
    journal = _journal(call)
    query: LoopsQuery = call.query
    names = (await ids(journal))[: query.limit]
    items = [_loop(name, await LoopStream(journal, name).read()) for name in names]
    return schemas.Loops(items=items)


async def loop(call: ApiCall) -> BaseModel:
    """Returns one loop with its gates and iterations."""
    name = call.path["loop"]
    try:
        stream = await load(_journal(call), name)
    except UnknownRun:
        _unknown("loop")
    state = stream.state
    baseline, lessons = state.baseline, state.lessons
    return schemas.LoopDetail(
        **_loop(name, state).model_dump(),
        baseline_quality=baseline.verdict.quality if baseline is not None else None,
        best=state.ended.best if state.ended is not None else 0,
        gates=_gates(state),
        steps=[_step(ended) for ended in state.done],
        lessons=plain(lessons.lessons) if lessons is not None else None,
        report=plain(report_json(name, stream.records)),
    )


def _loop(name: str, state: LoopState) -> schemas.LoopView:
    done, usage = state.done, state.spent.usage
    measured = state.verdict
    return schemas.LoopView(
        id=name,
        task=state.wish.task,
        status=state.status,
        reason=state.ended.reason if state.ended is not None else "",
        commands=list(state.wish.commands),
        iterations=len(done),
        max_iterations=state.bounds.iterations,
        quality=measured.quality if measured is not None else None,
        passed=bool(done) and done[-1].verdict.passed,
        control=state.lessons is not None and state.lessons.lessons.control,
        usd=usage.usd,
        tokens=usage.tokens,
        started_at=iso(state.started_at),
        updated_at=iso(state.at),
    )


def _gates(state: LoopState) -> list[dict[str, Any]]:
    """Returns each command, with whether it passes now and passed before the first iteration."""
    before = state.baseline.verdict.results if state.baseline is not None else ()
    now = state.done[-1].verdict.results if state.done else ()
    passed = {result.gate.command: result.passed for result in now}
    passed_before = {result.gate.command: result.passed for result in before}
    return [
        {
            "command": command,
            "passed": passed.get(command, passed_before.get(command)),
            "passed_before": passed_before.get(command, False),
        }
        for command in state.wish.commands
    ]


def _step(ended: IterationEnded) -> dict[str, Any]:
    verdict = ended.verdict
    return {
        "number": ended.number,
        "run": ended.run,
        "passed": verdict.passed,
        "quality": verdict.quality,
        "tampered": bool(verdict.tampered),
        "gates": [
            {
                "command": result.gate.command,
                "passed": result.passed,
                "exit_code": result.code,
                "reasons": list(result.reasons),
            }
            for result in verdict.results
        ],
        "changed": list(ended.changed),
        "diff": ended.diff,
        "said": ended.said,
        "status": ended.status,
        "stop_reason": ended.stop_reason,
        "seconds": ended.spent.ms / 1000,
        "usd": ended.spent.usage.usd,
    }


async def patterns(call: ApiCall) -> BaseModel:
    """Returns patterns with their success."""
    query: PatternsQuery = call.query
    selection = Query(kind=query.kind or None, retired=query.retired)
    learnt = await _registry(call).patterns(selection)
    return schemas.Patterns(items=[_pattern(learnt_pattern) for learnt_pattern in learnt])


async def pattern(call: ApiCall) -> BaseModel:
    """Returns one pattern with its sources and uses."""
    try:
        described = await _registry(call).show(call.path["pattern"])
    except Refused:
        _unknown("pattern")
    return schemas.PatternDetail(
        **_pattern(described).model_dump(),
        body=plain(described.body),
        scope=plain(described.scope),
        related=list(described.related),
        shown=_arm(described.shown),
        held=_arm(described.held),
        trend=[{**plain(at), "at": iso(at.at)} for at in described.trend],
        lineage=[_source(source) for source in described.lineage],
    )


async def retire(call: ApiCall) -> BaseModel:
    """Retires a pattern: no loop gets it any more. It stays listed, with the reason."""
    body: schemas.RetirePattern = call.body
    registry, name = _registry(call), call.path["pattern"]
    try:
        await registry.retire(name, f"{call.principal.id}: {body.reason}")
    except Refused:
        _unknown("pattern")
    call.server.audit("retire_pattern", call.principal.id, pattern=name, reason=body.reason)
    return _pattern(await registry.show(name))


async def restore(call: ApiCall) -> BaseModel:
    """Restores a retired or archived pattern."""
    registry, name = _registry(call), call.path["pattern"]
    try:
        restored = await registry.restore(name)
    except Refused:
        _unknown("pattern")
    call.server.audit("restore_pattern", call.principal.id, pattern=name)
    return _pattern(restored)


async def edit(call: ApiCall) -> BaseModel:
    """Rewrites a pattern. Its counts stay; its effect in loops is measured again."""
    body: schemas.EditPattern = call.body
    registry, name, by = _registry(call), call.path["pattern"], call.principal.id
    try:
        edited = await registry.edit(name, name=body.name, tags=body.tags, body=body.body, by=by)
    except Refused:
        _unknown("pattern")
    except ValueError as error:  # also a lone surrogate in the body
        raise Problem(422, "invalid", f"it was not saved: {error}") from None
    call.server.audit("edit_pattern", by, pattern=name)
    return _pattern(edited)


async def metrics(call: ApiCall) -> BaseModel:
    """Returns the measured benefit of learning, with interval and counts."""
    return schemas.LearningView((await _registry(call).metrics()).as_json())


def _arm(arm: Arm) -> dict[str, Any]:
    return {"loops": arm.loops, "mean": arm.mean, "solved": arm.solved}


def _source(source: PatternSource) -> dict[str, Any]:
    outcome = "" if source.won is None else "it helped" if source.won else "it did not help"
    return {
        "what": source.role,
        "loop": source.loop,
        "at": iso(source.at),
        "by": source.by,
        "outcome": outcome,
        "iterations": source.iterations,
        "claimed": source.claimed,
    }


def _pattern(pattern: Pattern) -> schemas.PatternView:
    counts = pattern.counts
    return schemas.PatternView(
        id=pattern.id,
        name=pattern.name,
        kind=pattern.kind,
        tags=list(pattern.tags),
        rate=counts.rate,
        usage=counts.usage,
        successes=counts.successes,
        failures=counts.failures,
        loops=len(pattern.loops),
        probation=pattern.probation,
        retired=pattern.retired,
        first_discovered=iso(pattern.first_discovered) if pattern.first_discovered else None,
        last_used=iso(pattern.last_used) if pattern.last_used else None,
    )


def _journal(call: ApiCall) -> Journal:
    if call.server.journal is None:
        raise Problem(404, "not_found", _NONE)
    return call.server.journal


def _registry(call: ApiCall) -> Registry:
    if call.server.registry is None:
        raise Problem(404, "not_found", _NONE)
    return call.server.registry


def _unknown(what: str) -> NoReturn:
    raise Problem(404, "not_found", f"there is no such {what}") from None


ENDPOINTS: Final = (
    ApiEndpoint(
        "GET",
        "/loops",
        loops,
        "List loops, the newest first.",
        "learning",
        query=LoopsQuery,
        answers={200: schemas.Loops},
        errors=(404,),
        right="learning",
    ),
    ApiEndpoint(
        "GET",
        "/loops/{loop}",
        loop,
        "Get a loop with its gates and iterations.",
        "learning",
        answers={200: schemas.LoopDetail},
        errors=(404,),
        right="learning",
    ),
    ApiEndpoint(
        "GET",
        "/patterns",
        patterns,
        "List patterns.",
        "learning",
        query=PatternsQuery,
        answers={200: schemas.Patterns},
        errors=(404,),
        right="learning",
    ),
    ApiEndpoint(
        "GET",
        "/patterns/metrics",
        metrics,
        "Get the measured benefit of learning.",
        "learning",
        answers={200: schemas.LearningView},
        errors=(404,),
        right="learning",
    ),
    ApiEndpoint(
        "POST",
        "/patterns/{pattern}/retire",
        retire,
        "Retire a pattern: no loop gets it any more.",
        "learning",
        body=schemas.RetirePattern,
        answers={200: schemas.PatternView},
        errors=(404,),
        right="learning",
    ),
    ApiEndpoint(
        "POST",
        "/patterns/{pattern}/restore",
        restore,
        "Restore a pattern.",
        "learning",
        body=Nothing,
        answers={200: schemas.PatternView},
        errors=(404,),
        right="learning",
    ),
    ApiEndpoint(
        "POST",
        "/patterns/{pattern}/edit",
        edit,
        "Rewrite a pattern.",
        "learning",
        body=schemas.EditPattern,
        answers={200: schemas.PatternView},
        errors=(404, 422),
        right="learning",
    ),
    ApiEndpoint(
        "GET",
        "/patterns/{pattern}",
        pattern,
        "Get a pattern with its lineage.",
        "learning",
        answers={200: schemas.PatternDetail},
        errors=(404,),
        right="learning",
    ),
)

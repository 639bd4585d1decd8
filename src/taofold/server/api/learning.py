"""The routes of loops and patterns, and of the measured benefit of learning.

Loops and patterns belong to the machine, not to one user: principals with the right `learning` can
see and change them. Loops are started and steered only at the command line.
"""

from typing import Any, Final, NoReturn

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
from taofold.server.endpoint import ApiCall, Nothing, Problem, Routes

routes: Final = Routes("learning")

_NONE: Final = "this server keeps no loops and patterns"


@routes.get("/loops", right="learning", query=LoopsQuery, errors=(404,))
async def loops(call: ApiCall) -> schemas.Loops:
    """Lists loops, the newest first."""
    journal = _journal(call)
    query: LoopsQuery = call.query
    names = (await ids(journal))[: query.limit]
    items = [_loop(name, await LoopStream(journal, name).read()) for name in names]
    return schemas.Loops(items=items)


@routes.get("/loops/{loop}", right="learning", errors=(404,))
async def loop(call: ApiCall) -> schemas.LoopDetail:
    """Returns a loop with its gates and iterations."""
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


@routes.get("/patterns", right="learning", query=PatternsQuery, errors=(404,))
async def patterns(call: ApiCall) -> schemas.Patterns:
    """Lists patterns."""
    query: PatternsQuery = call.query
    selection = Query(kind=query.kind or None, retired=query.retired)
    learnt = await _registry(call).patterns(selection)
    return schemas.Patterns(items=[_pattern(learnt_pattern) for learnt_pattern in learnt])


# Before `/patterns/{pattern}`, which matches it too.
@routes.get("/patterns/metrics", right="learning", errors=(404,))
async def metrics(call: ApiCall) -> schemas.LearningView:
    """Returns the measured benefit of learning."""
    return schemas.LearningView((await _registry(call).metrics()).as_json())


@routes.get("/patterns/{pattern}", right="learning", errors=(404,))
async def pattern(call: ApiCall) -> schemas.PatternDetail:
    """Returns a pattern with its lineage."""
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


@routes.post(
    "/patterns/{pattern}/retire", right="learning", body=schemas.RetirePattern, errors=(404,)
)
async def retire(call: ApiCall) -> schemas.PatternView:
    """Retires a pattern: no loop gets it any more. It stays listed, with the reason."""
    body: schemas.RetirePattern = call.body
    registry, name = _registry(call), call.path["pattern"]
    try:
        await registry.retire(name, f"{call.principal.id}: {body.reason}")
    except Refused:
        _unknown("pattern")
    call.server.audit("retire_pattern", call.principal.id, pattern=name, reason=body.reason)
    return _pattern(await registry.show(name))


@routes.post("/patterns/{pattern}/restore", right="learning", body=Nothing, errors=(404,))
async def restore(call: ApiCall) -> schemas.PatternView:
    """Restores a retired or archived pattern."""
    registry, name = _registry(call), call.path["pattern"]
    try:
        restored = await registry.restore(name)
    except Refused:
        _unknown("pattern")
    call.server.audit("restore_pattern", call.principal.id, pattern=name)
    return _pattern(restored)


@routes.post(
    "/patterns/{pattern}/edit", right="learning", body=schemas.EditPattern, errors=(404, 422)
)
async def edit(call: ApiCall) -> schemas.PatternView:
    """Rewrites a pattern. Its counts stay; its effect in loops is measured again."""
    body: schemas.EditPattern = call.body
    registry, name, by = _registry(call), call.path["pattern"], call.principal.id
    try:
        edited = await registry.edit(name, name=body.name, tags=body.tags, body=body.body, by=by)
    except Refused:
        _unknown("pattern")
    except ValueError as error:
        raise Problem(422, "invalid", f"it was not saved: {error}") from None
    call.server.audit("edit_pattern", by, pattern=name)
    return _pattern(edited)


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
    return schemas.PatternView.of(
        pattern,
        rate=counts.rate,
        usage=counts.usage,
        successes=counts.successes,
        failures=counts.failures,
        loops=len(pattern.loops),
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

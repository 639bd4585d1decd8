"""The commands that connect patterns and loops: extract from one, inject into one."""

from typing import TYPE_CHECKING, Any, cast

from taofold.cli.loops.commands import which
from taofold.cli.loops.dependencies import with_means
from taofold.cli.outcome import give, give_json, say
from taofold.core.errors import Refused

if TYPE_CHECKING:
    from taofold.learning.patterns.kinds import Kind
    from taofold.learning.settings import Injection
    from taofold.loop.driver import LoopDependencies
    from taofold.loop.learner import CrossLoopLearner
    from taofold.loop.state import LoopState
    from taofold.loop.values import Learnt, Lessons


def extract(loop: str, kinds: "tuple[Kind, ...]", *, json: bool) -> None:
    """Learn from the loop, or from every one that has ended if none is named."""

    async def work(dependencies: "LoopDependencies") -> "list[tuple[str, Learnt | None, str]]":
        from taofold.loop.stream import ids

        names = (
            [await which(dependencies, loop)]
            if loop
            # The oldest first: what one loop teaches is recognised in those after it.
            else list(reversed(await ids(dependencies.journal)))
        )
        return [await _extracted(dependencies, name, kinds, named=bool(loop)) for name in names]

    done = with_means(work)
    if json:
        give_json([_extract_json(name, learnt, why) for name, learnt, why in done])
        return
    for name, learnt, why in done:
        if learnt is None:
            say(f"{name}: left out, {why}")
            continue
        give(f"{name}: {_count(learnt)}")
        for extraction in learnt.extracted:
            give(f"  {'new  ' if extraction.new else 'known'}  {extraction.pattern}")


def _count(learnt: "Learnt") -> str:
    new = sum(extraction.new for extraction in learnt.extracted)
    every = len(learnt.extracted)
    return (
        f"{every} pattern{'s' * (every != 1)}, {new} of them new" if every else "nothing to learn"
    )


def _extract_json(name: str, learnt: "Learnt | None", why: str) -> dict[str, Any]:
    if learnt is None:
        return {"loop": name, "skipped": why}
    extracted = [
        {
            "pattern_id": extraction.pattern,
            "new": extraction.new,
            "success_rate": extraction.success_rate,
        }
        for extraction in learnt.extracted
    ]
    return {"loop": name, "extracted_patterns": extracted}


async def _extracted(
    dependencies: "LoopDependencies", name: str, kinds: "tuple[Kind, ...]", *, named: bool
) -> "tuple[str, Learnt | None, str]":
    from taofold.loop.driver import LoopWork
    from taofold.loop.learner import history_of
    from taofold.loop.stream import load

    state = (await load(dependencies.journal, name)).state
    why = _silent(state)
    if why and named:
        raise Refused(f"loop {name!r} cannot be learnt from: {why}")
    if why:
        return name, None, why
    work = LoopWork(dependencies.log, dependencies.environment(name, state))
    learner = cast("CrossLoopLearner", dependencies.learner)
    history = await history_of(name, state, work, repository=learner.repository, by=learner.by)
    return name, await learner.take_in(history, kinds), ""


def _silent(state: "LoopState") -> str:
    """Why nothing is learnt from a loop, "" if something is."""
    from taofold.loop.learner import SILENT
    from taofold.loop.values import ENDED

    if state.status not in ENDED:
        return f"it is {state.status}"
    if state.green_before:
        return "its gates were green before it began"
    return f"it ended as {state.status}" if state.status in SILENT else ""


def inject(loop: str, rate: float | None, top_k: int | None, *, json: bool) -> None:
    """Tell a loop what was learnt; it reads it at its next iteration (XTL-30)."""

    async def work(dependencies: "LoopDependencies") -> "tuple[str, Lessons, int]":
        from taofold.loop.learner import case_of
        from taofold.loop.stream import inject as into
        from taofold.loop.stream import load
        from taofold.loop.values import ENDED, LIVE, RESUMABLE

        name = await which(dependencies, loop, LIVE | RESUMABLE)
        state = (await load(dependencies.journal, name)).state
        if state.status in ENDED - RESUMABLE:
            raise Refused(f"loop {name!r} is {state.status}: it has no next iteration")
        learner = cast("CrossLoopLearner", dependencies.learner)
        folder = state.baseline.folder if state.baseline else ""
        case = case_of(
            state.wish.task, _failing(state), folder or state.wish.root, learner.repository
        )
        injection = _wanted(learner.learning.injection, rate, top_k)
        lessons = await learner.inject(name, case, injection, manual=True)
        # Iterations count from 1, so 0 says that nothing was injected.
        number = await into(dependencies.journal, name, lessons) if lessons.text else 0
        return name, lessons, number

    name, lessons, number = with_means(work)
    if json:
        give_json(
            {
                "loop": name,
                "iteration": number or None,
                "patterns": list(lessons.patterns),
                "reasons": list(lessons.reasons),
            }
        )
        return
    if not number:
        say(f"nothing is injected into {name}: no pattern is expected to help it")
    else:
        give(f"{name} reads {len(lessons.patterns)} at iteration {number}:")
        for pattern in lessons.patterns:
            give(f"  {pattern}")
    for reason in lessons.reasons[:10]:
        say(f"  left out {reason}")


def _failing(state: "LoopState") -> "tuple[Any, ...]":

    return () if state.verdict is None else state.verdict.errors


def _wanted(usual: "Injection", rate: float | None, top_k: int | None) -> "Injection":
    from msgspec.structs import replace

    return replace(
        usual,
        min_success_rate=usual.min_success_rate if rate is None else rate,
        top_k_patterns=usual.top_k_patterns if top_k is None else top_k,
    )

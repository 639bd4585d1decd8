"""A fan-out: branches at the same time, each with its own copy of the state, and their join."""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from taofold.actions import Done
from taofold.core.effects import Fork, Halt, Strategy
from taofold.spec.flow import Node, Spread
from taofold.spec.flow_keys import MOST
from taofold.spec.flow_scope import TRACE, Scope
from taofold.spec.template import Unrenderable

Runner: TypeAlias = Callable[[Sequence[Node], Scope], Strategy[Done]]
"""Runs a list of nodes."""
Job: TypeAlias = tuple[Sequence[Node], dict[str, Any]]
"""A branch: its nodes, and the names that only it sees."""


def spread_out(node: Node, spread: Spread, scope: Scope, runner: Runner) -> Strategy[Done]:
    """Branches at the same time; their values and traces are joined in declared order."""
    jobs: list[Job]
    if spread.items is not None:
        items = spread.items.render(scope.variables)
        if not isinstance(items, list):
            return Done(error=f"parallel.items must be a list, not {type(items).__name__}")
        if len(items) > MOST:
            return Done(error=f"parallel.items has {len(items)} entries; at most {MOST} are run")
        jobs = [(node.steps, {spread.name: item, "index": i}) for i, item in enumerate(items)]
        names = [str(place) for place in range(len(jobs))]
    else:
        jobs = [(nodes, {"branch": name}) for name, nodes in spread.branches.items()]
        names = list(spread.branches)
    ends = yield from _concurrently(spread, jobs, scope, runner)
    scope.heard = []
    return _joined(node, spread, names, ends)


def _joined(node: Node, spread: Spread, names: list[str], ends: list[Done]) -> Done:
    state: dict[str, Any] = {}
    traces = [
        {**one, "branch": name}
        for name, done in zip(names, ends, strict=False)
        for one in done.state.get(TRACE, ())
    ]
    if traces:
        state[TRACE] = [{**one, "step": number} for number, one in enumerate(traces, 1)]
    values = [done.value if done.good else None for done in ends]
    value: Any = values if spread.items is not None else dict(zip(names, values, strict=False))
    stop = next((done.stop for done in ends if done.stop), "")
    failed = {n: d.error for n, d in zip(names, ends, strict=False) if d.error}
    if not failed:
        return Done(value, "", stop, state)
    said = "; ".join([f"{name}: {error}" for name, error in failed.items()])
    left = len(names) - len(ends)
    rest = f", {left} were not started" if left else ""
    error = f"{len(failed)} of {len(names)} branches failed{rest}: {said}"
    return Done(value, error[:2000], stop, state)


def _concurrently(
    spread: Spread, jobs: list[Job], scope: Scope, runner: Runner
) -> Strategy[list[Done]]:
    """At most `lanes` at once. With `fail_fast` in waves, so that what stops is always the same."""
    ends: list[Done] = []
    if spread.fail_fast:
        for first in range(0, len(jobs), spread.lanes):
            wave = jobs[first : first + spread.lanes]
            got = yield Fork(tuple([_lane(spread, [job], scope, runner) for job in wave]))
            ends += [one for lane in got for one in lane]
            if any(not one.good for one in ends):
                return ends
        return ends
    if not jobs:
        return ends
    lanes = [jobs[first :: spread.lanes] for first in range(min(spread.lanes, len(jobs)))]
    got = yield Fork(tuple([_lane(spread, lane, scope, runner) for lane in lanes]))
    return [got[place % len(lanes)][place // len(lanes)] for place in range(len(jobs))]


def _lane(spread: Spread, jobs: list[Job], scope: Scope, runner: Runner) -> Strategy[list[Done]]:
    """Branches one after the other. Each has its own copy of the state."""
    ends: list[Done] = []
    try:
        for nodes, extra in jobs:
            ends.append((yield from _branch(spread, nodes, extra, scope, runner)))
    except Halt as halt:
        ends.append(Done(stop=halt.reason))
    return ends + [Done(stop=ends[-1].stop)] * (len(jobs) - len(ends))


def _branch(
    spread: Spread, nodes: Sequence[Node], extra: Mapping[str, Any], outer: Scope, runner: Runner
) -> Strategy[Done]:
    state = dict(outer.state)
    state.pop(TRACE, None)
    scope = Scope(outer.flow, outer.task, state, {**outer.extra, **extra}, True, list(outer.heard))
    done = yield from runner(nodes, scope)
    kept = {TRACE: scope.state[TRACE]} if TRACE in scope.state else {}
    if not done.good:
        return replace(done, state=kept)
    if spread.result is None:
        return Done(scope.last, state=kept)
    try:
        return Done(spread.result.render(scope.variables), state=kept)
    except Unrenderable as error:
        return Done(error=f"result: {error}", state=kept)

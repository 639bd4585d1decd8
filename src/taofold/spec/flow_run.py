"""Runs a flow: a strategy like any other, a pure generator of effects.

So a flow has the runtime, log, policy and approvals of everything else, resumes in the
middle and replays offline. It keeps its own copy of the state, which is a function of what
the effects gave back, and puts every change on the record.
"""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from pydantic import ValidationError

from taofold.actions import Call, Done
from taofold.actions.acting import perform
from taofold.actions.thinking import Unusable
from taofold.actions.tools import APPROVE, WAIT
from taofold.core.effects import Answer, Begin, Halt, Note, Outlook, Strategy
from taofold.core.values import Thought
from taofold.parsing import Unparsed
from taofold.reasoning import Task
from taofold.reasoning.nested import closing
from taofold.spec.condition import Unclear
from taofold.spec.flow import Flow, Given, Node
from taofold.spec.flow_fan import spread_out
from taofold.spec.flow_keys import END, MOST
from taofold.spec.flow_scope import TRACE, Scope, misfit, opening, put, record, said_of, way_on
from taofold.spec.template import Unrenderable


def run(flow: Flow, task: Task) -> Strategy[Answer]:
    """The strategy."""
    scope = Scope(flow, task, opening(flow, task))
    try:
        wrong = misfit(flow, scope.state)
        if wrong:
            return Answer(None, "error", f"the state does not fit state_schema: {wrong}")
        ended = yield from _sequence(flow.nodes, scope)
        if not ended.good:
            return Answer(ended.value, ended.stop or "error", ended.error)
        return (yield from _answer(flow, scope))
    except Halt as halt:
        return Answer(None, halt.reason)


def _answer(flow: Flow, scope: Scope) -> Strategy[Answer]:
    try:
        output = scope.last if flow.result is None else flow.result.render(scope.variables)
    except Unrenderable as error:
        return Answer(None, "error", f"result: {error}")
    if flow.typed:
        accepted = scope.task.output.accept(output)
        if isinstance(accepted, Unparsed):
            return Answer(output, "error", f"the result is not accepted: {accepted.feedback}")
        output = accepted.value
    yield closing(Thought("The flow is at its end.", "synthesis", synthesized=True), output)
    return Answer(output)


def _sequence(nodes: Sequence[Node], scope: Scope) -> Strategy[Done]:
    """Node after node, each where the one before sends it."""
    places = {node.name: place for place, node in enumerate(nodes)}
    visits: Counter[str] = Counter()
    place = 0
    while place < len(nodes):
        node = nodes[place]
        visits[node.name] += 1
        if visits[node.name] > MOST:
            return Done(error=f"node {node.name!r} was reached more than {MOST} times")
        done, to = yield from _visit(node, scope)
        if not done.good:
            return done
        if to in END:
            break
        place = places[to] if to else place + 1
    return Done(scope.last)


def _visit(node: Node, scope: Scope) -> Strategy[tuple[Done, str]]:
    """One node, with what its `on_error` says; and where to go on."""
    outlook: Outlook = yield Begin()
    scope.heard += outlook.heard
    if outlook.stop:
        return Done(stop=outlook.stop), ""
    done = yield from _attempts(node, scope)
    if done.stop:
        yield from record(node, scope, done, output=False)
        return done, ""
    if done.good:
        try:
            wrong = yield from record(node, scope, done, output=True)
            if not wrong:
                if node.name in scope.state.get("errors", {}):
                    errors = {k: v for k, v in scope.state["errors"].items() if k != node.name}
                    yield from put(scope, {"errors": errors})
                return done, way_on(node, scope)
            done = replace(done, error=wrong)
        except Unclear as error:
            done = replace(done, error=f"goto: {error}")
    return (yield from _failed(node, scope, done))


def _failed(node: Node, scope: Scope, done: Done) -> Strategy[tuple[Done, str]]:
    rule = node.on_error
    yield Note("node_failed", {"node": node.name, "error": done.error[:1000]})
    tolerated = bool(rule.fallback) or rule.then == "continue"
    yield from record(node, scope, done, output=tolerated)
    errors = {**scope.state.get("errors", {}), node.name: done.error}
    yield from put(scope, {"errors": errors})
    if rule.fallback:
        return Done(done.value), rule.fallback
    if rule.then == "continue":
        return Done(done.value), ""
    return replace(done, error=f"node {node.name!r}: {done.error}"), ""


def _attempts(node: Node, scope: Scope) -> Strategy[Done]:
    """The node's work, as often as `retry` allows."""
    retry = node.on_error.retry
    if node.approve is not None:
        refused = yield from _approval(node, node.approve, scope)
        if refused:
            return Done(error=refused)
    done = Done()
    pause = 0.0 if retry is None else retry.backoff
    for attempt in range(1 if retry is None else retry.max + 1):
        if attempt and retry is not None:
            if pause:
                yield from perform(node.name, WAIT, {"seconds": min(pause, retry.longest)})
            pause *= retry.factor
        done = yield from _work(node, scope)
        if done.good or done.stop:
            return done
        yield Note("attempt_failed", {"node": node.name, "error": done.error[:1000]})
    return done


def _approval(node: Node, question: Given, scope: Scope) -> Strategy[str]:
    """Ask a person. Returns why not, or ""."""
    try:
        said = question.render(scope.variables)
    except Unrenderable as error:
        return f"approve: {error}"
    text = "" if said is True else str(said)
    seen = yield from perform(node.name, APPROVE, {"node": node.name, "question": text})
    return "" if seen.status == "success" else f"not approved: {seen.result}"


def _work(node: Node, scope: Scope) -> Strategy[Done]:
    """What the node does, once."""
    try:
        if node.kind is not None:
            return (yield from _act(node, scope))
        if node.sets is not None:
            return Done(node.sets.render(scope.variables))
        if node.loop is not None:
            return (yield from _loop(node, scope))
        if node.spread is not None:
            return (yield from spread_out(node, node.spread, scope, _sequence))
        return (yield from _sequence(node.steps, scope))
    except (Unrenderable, Unclear, Unusable) as error:
        return Done(error=str(error))


def _act(node: Node, scope: Scope) -> Strategy[Done]:
    """Run the node's action with its keys rendered and checked."""
    assert node.kind is not None
    given = node.given.render(scope.variables)
    given |= {key: template.source for key, template in node.deferred.items()}
    try:
        keys = node.kind.keys.model_validate(given)
    except ValidationError as error:
        return Done(error=f"with: {said_of(error)}")

    def render(key: str, variables: Mapping[str, Any]) -> Any:
        said = node.deferred[key].render({**scope.variables, **variables})
        return said if isinstance(said, str) else msgspec.json.encode(said).decode()

    history = (*scope.task.history, *scope.heard)
    task = replace(scope.task, history=history, data=scope.state)
    call: Call[Any] = Call(
        node.name,
        keys,
        task,
        node.models,
        frozenset(node.deferred),
        render,
        node.timeout,
        node.description,
    )
    return (yield from node.kind.run(call))


def _loop(node: Node, scope: Scope) -> Strategy[Done]:
    assert node.loop is not None
    outer, turns = scope.extra, 0
    try:
        while node.loop.condition.holds({**scope.variables, "iteration": turns}):
            if turns == node.loop.most:
                yield Note("loop_limit", {"node": node.name, "iterations": turns})
                return Done({"iterations": turns, "exhausted": True})
            turns += 1
            scope.extra = {**outer, "iteration": turns}
            done = yield from _sequence(node.steps, scope)
            if not done.good:
                return done
    finally:
        scope.extra = outer
    return Done({"iterations": turns, "exhausted": False})


def nested(flow: Flow, call: Call[Any]) -> Strategy[Done]:
    """A flow inside another: `with` is its state, its result the value."""
    state = dict(call.keys.model_extra or {})
    task = replace(call.task, goal=str(state.pop("goal", call.task.goal)), data=state)
    scope = Scope(flow, task, opening(flow, task), inside=True)
    wrong = misfit(flow, scope.state)
    if wrong:
        return Done(error=f"with: it does not fit the state_schema of {flow.name!r}: {wrong}")
    ended = yield from _sequence(flow.nodes, scope)
    kept = {TRACE: scope.state[TRACE]} if TRACE in scope.state else {}
    if not ended.good or flow.result is None:
        return replace(ended, state=kept)
    return Done(flow.result.render(scope.variables), state=kept)

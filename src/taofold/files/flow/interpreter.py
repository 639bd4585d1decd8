"""Runs a flow as a strategy: a pure generator of effects.

A flow therefore has the runtime, log, policy and approvals of other strategies, resumes in the
middle and replays offline. It keeps its own copy of the state, a function of the effects' results,
and records every change. The branches of a fan-out run at the same time. Each has its own copy of
the state, and the copies are joined in the order of the branches. A flow in a flow (`nested_flow`)
has a separate state and returns only its result.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from taofold.core.effects import Answer, Begin, Fork, Halt, Note, Outlook, Strategy
from taofold.core.json_values import render
from taofold.core.values import Message, Thought
from taofold.files.actions import ActionCall, Done
from taofold.files.actions.action import Unusable
from taofold.files.actions.tools import APPROVE, WAIT, perform
from taofold.files.expressions.template import Template, Unrenderable
from taofold.files.flow.flow import (
    END,
    FAIL,
    MOST_VISITS,
    Edge,
    Flow,
    Given,
    Node,
    Spread,
    faults_text,
)
from taofold.parsing import Unparsed
from taofold.reasoning import Task
from taofold.reasoning.nested import closing

# Values here are any JSON, or come from an untyped library.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false


TRACE: Final = "reasoning_trace"
_ABSENT: Final = re.compile(r"there is no '(\w+)'")
Job: TypeAlias = tuple[Sequence[Node], dict[str, Any]]
"""A branch: its nodes, and its local names."""


@dataclass(slots=True)
class Scope:
    """Runs lists of nodes. `inside` a branch nothing is recorded."""

    flow: Flow
    task: Task
    state: dict[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inside: bool = False
    heard: list[Message] = field(default_factory=list[Message])
    last: Any = None

    @property
    def variables(self) -> dict[str, Any]:
        """Variables by name, for templates and conditions."""
        return {
            "state": self.state,
            "variables": self.flow.variables,
            "goal": self.task.goal,
            **self.extra,
        }

    def target(self, edges: Sequence[Edge], **names: Any) -> str:
        """Returns the target of the first edge whose condition holds, or "" for the next node."""
        for edge in edges:
            if edge.condition is None or edge.condition.holds({**self.variables, **names}):
                return edge.to
        return ""

    def put(self, update: Mapping[str, Any]) -> Strategy[None]:
        """Sets variables of the state."""
        self.state.update(update)
        # A branch has its own copy of the state, which ends with it, so nothing is recorded.
        if not self.inside:
            yield Note("state", dict(update))

    def record(self, node: Node, done: Done, *, output: bool) -> Strategy[str]:
        """Puts the node's result into the state. Returns the reason why it does not fit, or ""."""
        # The trace in the state is a convenience and can be disabled. The log has it anyway.
        tracing = self.flow.keys.settings.tracing
        own = {name: value for name, value in done.state.items() if tracing or name != TRACE}
        if node.kind is not None:
            # An action has passed the users' messages to its model. The next one does not repeat
            # them.
            self.heard = []
        update, fault = own, ""
        if output:
            try:
                update = own | self._outputs(node, done.value)
                fault = self.flow.update_fault(update)
            except (LookupError, Unrenderable) as error:
                fault = f"{'merge' if node.merge else 'output'}: {error.args[0]}"
            if fault:
                # The value does not fit, so only the action's own variables are recorded.
                update = own
            elif node.kind is not None or node.spread is not None or node.sets is not None:
                self.last = done.value
        if update:
            yield from self.put(update)
        return fault

    def _fan_out(self, node: Node) -> Strategy[Done]:
        """Runs branches at the same time. Values and traces are joined in declared order."""
        spread = node.spread
        assert spread is not None
        jobs: list[Job]
        if spread.items is not None:
            items = spread.items.render(self.variables)
            if not isinstance(items, list):
                return Done(error=f"parallel.items must be a list, not {type(items).__name__}")
            if len(items) > MOST_VISITS:
                return Done(
                    error=f"parallel.items has {len(items)} entries; at most {MOST_VISITS} are run"
                )
            jobs = [(node.steps, {spread.name: item, "index": i}) for i, item in enumerate(items)]
            names = [str(number) for number in range(len(jobs))]
        else:
            jobs = [(nodes, {"branch": name}) for name, nodes in spread.branches.items()]
            names = list(spread.branches)
        ends = yield from self._concurrently(spread, jobs)
        self.heard = []
        return _joined(spread, names, ends)

    def _concurrently(self, spread: Spread, jobs: list[Job]) -> Strategy[list[Done]]:
        """Runs at most `lanes` jobs at once. `fail_fast` uses waves, so that stopping is
        deterministic.
        """
        ends: list[Done] = []
        if spread.fail_fast:
            for first in range(0, len(jobs), spread.lanes):
                wave = jobs[first : first + spread.lanes]
                # In waves, because the branches that never start must not depend on timing.
                got = yield Fork(tuple([self._lane(spread, [job]) for job in wave]))
                ends += [end for lane in got for end in lane]
                if any(not end.good for end in ends):
                    return ends
            return ends
        if not jobs:
            return ends
        # Dealt like cards: lane n has jobs n, n + lanes, …; the last line undoes it.
        lanes = [jobs[first :: spread.lanes] for first in range(min(spread.lanes, len(jobs)))]
        got = yield Fork(tuple([self._lane(spread, lane) for lane in lanes]))
        return [got[number % len(lanes)][number // len(lanes)] for number in range(len(jobs))]

    def _lane(self, spread: Spread, jobs: list[Job]) -> Strategy[list[Done]]:
        """Runs branches one after the other. Each has its own copy of the state."""
        ends: list[Done] = []
        try:
            for nodes, extra in jobs:
                ends.append((yield from self._branch(spread, nodes, extra)))
        except Halt as halt:
            ends.append(Done(stop=halt.reason))
        # Branches that were not reached end for the reason of the last one.
        return ends + [Done(stop=ends[-1].stop)] * (len(jobs) - len(ends))

    def _branch(
        self, spread: Spread, nodes: Sequence[Node], extra: Mapping[str, Any]
    ) -> Strategy[Done]:
        state = dict(self.state)
        # Each branch has its own trace. `_joined` joins them.
        state.pop(TRACE, None)
        scope = Scope(self.flow, self.task, state, {**self.extra, **extra}, True, list(self.heard))
        done = yield from scope.sequence(nodes)
        trace = {TRACE: scope.state[TRACE]} if TRACE in scope.state else {}
        if not done.good:
            return replace(done, state=trace)
        if spread.result is None:
            return Done(scope.last, state=trace)
        try:
            return Done(spread.result.render(scope.variables), state=trace)
        except Unrenderable as error:
            return Done(error=f"result: {error}", state=trace)

    def sequence(self, nodes: Sequence[Node], start: Sequence[Edge] = ()) -> Strategy[Done]:
        """Runs nodes one after another, following their `goto`."""
        places = {node.name: index for index, node in enumerate(nodes)}
        visits: Counter[str] = Counter()
        try:
            first = self.target(start)
        except Unrenderable as error:
            return Done(error=f"start: {error}")
        if first == FAIL:
            return Done(error="start: none of its conditions holds")
        if first in END:
            return Done(self.last)
        position = places[first] if first else 0
        while position < len(nodes):
            node = nodes[position]
            visits[node.name] += 1
            # `goto` can make a loop without a bound.
            if visits[node.name] > MOST_VISITS:
                return Done(error=f"node {node.name!r} was reached more than {MOST_VISITS} times")
            done, to = yield from self._visit(node)
            if not done.good:
                return done
            if to in END:
                break
            if to == FAIL:
                return Done(error=f"node {node.name!r}: none of the conditions of its goto holds")
            position = places[to] if to else position + 1
        return Done(self.last)

    def _visit(self, node: Node) -> Strategy[tuple[Done, str]]:
        """Runs one node with its `on_error`. Returns its end and the next node."""
        outlook: Outlook = yield Begin()
        self.heard += outlook.heard
        if outlook.stop:
            return Done(stop=outlook.stop), ""
        try:
            skipped = node.condition is not None and not node.condition.holds(self.variables)
        except Unrenderable as error:
            return (yield from self._failed(node, Done(error=f"if: {error}")))
        if skipped:
            yield Note("skipped", {"node": node.name})
            return (yield from self._continued(node, None))
        done = yield from self._attempts(node)
        if done.stop:
            yield from self.record(node, done, output=False)
            return done, ""
        if done.good:
            fault, to = yield from self._passed(node, done)
            if not fault:
                return done, to
            done = replace(done, error=fault)
        return (yield from self._failed(node, done))

    def _passed(self, node: Node, done: Done) -> Strategy[tuple[str, str]]:
        """Records the node's result. Returns why it does not fit, or "", and the next node."""
        try:
            fault = yield from self.record(node, done, output=True)
            if fault:
                return fault, ""
            errors: dict[str, str] = self.state.get("errors", {})
            # A node that succeeds again loses its error, which `goto` conditions read.
            if node.name in errors:
                rest = {name: error for name, error in errors.items() if name != node.name}
                yield from self.put({"errors": rest})
            to = self.target(node.goto, result=done.value)
        except Unrenderable as error:
            return f"goto: {error}", ""
        if any(edge.condition is not None for edge in node.goto):
            yield Note("branch", {"node": node.name, "to": to})
        return "", to

    def _continued(self, node: Node, value: Any) -> Strategy[tuple[Done, str]]:
        """Follows the `goto` of a node that was skipped."""
        try:
            to = self.target(node.goto, result=value)
        except Unrenderable as error:
            return (yield from self._failed(node, Done(error=f"goto: {error}")))
        return Done(value), to

    def _outputs(self, node: Node, value: Any) -> dict[str, Any]:
        """Returns the variables that the node's value sets.

        Raises:
            LookupError: The value has no such part, or a key that cannot name a variable.
            Unrenderable: A template of `output` cannot be rendered.
        """
        if node.sets is not None:
            return dict(value)
        if node.merge:
            return _merged(value)
        if isinstance(node.output, str):
            return dict.fromkeys(node.outputs, value)
        names = {**self.variables, "result": value}
        return {
            name: part.render(names) if isinstance(part, Template) else _at(value, part)
            for name, part in node.output.items()
        }

    def _failed(self, node: Node, done: Done) -> Strategy[tuple[Done, str]]:
        rule = node.on_error
        yield Note("node_failed", {"node": node.name, "error": done.error[:1000]})
        tolerated = bool(rule.fallback) or rule.then == "continue"
        yield from self.record(node, done, output=tolerated)
        errors = {**self.state.get("errors", {}), node.name: done.error}
        yield from self.put({"errors": errors})
        if rule.fallback:
            return Done(done.value), rule.fallback
        if rule.then == "continue":
            return Done(done.value), ""
        return replace(done, error=f"node {node.name!r}: {done.error}"), ""

    def _attempts(self, node: Node) -> Strategy[Done]:
        """Runs the node's work, as often as `retry` allows."""
        retry = node.on_error.retry
        # Asked once, before the first attempt. A retry is the same decision.
        if node.approve is not None:
            refused = yield from self._approval(node, node.approve)
            if refused:
                return Done(error=refused)
        done = Done()
        pause = 0.0 if retry is None else retry.backoff
        for attempt in range(1 if retry is None else retry.max + 1):
            if attempt and retry is not None:
                if pause:
                    yield from perform(node.name, WAIT, {"seconds": min(pause, retry.longest)})
                pause *= retry.factor
            done = yield from self._work(node)
            if done.good or done.stop:
                return done
            yield Note("attempt_failed", {"node": node.name, "error": done.error[:1000]})
        return done

    def _approval(self, node: Node, question: Given) -> Strategy[str]:
        """Asks for approval. Returns the reason of a refusal, or ""."""
        try:
            rendered = question.render(self.variables)
        except Unrenderable as error:
            return f"approve: {error}"
        # `approve: true` asks without a text.
        text = "" if rendered is True else str(rendered)
        observation = yield from perform(node.name, APPROVE, {"node": node.name, "question": text})
        return "" if observation.status == "success" else f"not approved: {observation.result}"

    def _work(self, node: Node) -> Strategy[Done]:
        """Runs the node's work once."""
        try:
            if node.kind is not None:
                return (yield from self._act(node))
            if node.sets is not None:
                return Done(node.sets.render(self.variables))
            if node.loop is not None:
                return (yield from self._loop(node))
            if node.spread is not None:
                return (yield from self._fan_out(node))
            return (yield from self.sequence(node.steps))
        except (Unrenderable, Unusable) as error:
            return Done(error=str(error))

    def _act(self, node: Node) -> Strategy[Done]:
        """Runs the node's action with its keys rendered and checked."""
        assert node.kind is not None
        values = node.inputs.render(self.variables)
        values |= {key: template.source for key, template in node.deferred.items()}
        try:
            keys = node.kind.keys.model_validate(values)
        except ValidationError as error:
            return Done(error=f"with: {faults_text(error)}")

        def fill(key: str, variables: Mapping[str, Any]) -> Any:
            try:
                return render(node.deferred[key].render({**self.variables, **variables}))
            except Unrenderable as error:
                raise Unrenderable(f"{key}: {error}") from None

        history = (*self.task.history, *self.heard)
        task = replace(self.task, history=history, data=self.state)
        call: ActionCall[Any] = ActionCall(
            node.name,
            keys,
            task,
            node.models,
            {key: template.names for key, template in node.deferred.items()},
            fill,
            node.timeout,
            node.description,
            self.variables,
        )
        return (yield from node.kind.run(call))

    def _loop(self, node: Node) -> Strategy[Done]:
        assert node.loop is not None
        outer, turns = self.extra, 0
        try:
            # Evaluated with the number of finished turns: 0 before the first.
            while node.loop.condition.holds({**self.variables, "iteration": turns}):
                if turns == node.loop.most:
                    yield Note("loop_limit", {"node": node.name, "iterations": turns})
                    return Done({"iterations": turns, "exhausted": True})
                turns += 1
                self.extra = {**outer, "iteration": turns}
                done = yield from self.sequence(node.steps)
                if not done.good:
                    return done
        # Also on a Halt: the loop's names end with it.
        finally:
            self.extra = outer
        return Done({"iterations": turns, "exhausted": False})

    def answer(self) -> Strategy[Answer]:
        """Returns the flow's answer after all nodes."""
        result = self.flow.result
        try:
            output = self.last if result is None else result.render(self.variables)
        except Unrenderable as error:
            return Answer(None, "error", f"result: {error}")
        if self.flow.typed:
            accepted = self.task.output.accept(output)
            if isinstance(accepted, Unparsed):
                return Answer(output, "error", f"the result is not accepted: {accepted.feedback}")
            output = accepted.value
        yield closing(
            Thought("The flow is at its end.", "synthesis", synthesized=True),
            output,
            self.task.output,
        )
        return Answer(output)


def _merged(value: Any) -> dict[str, Any]:
    """Returns the variables of `merge`: the keys of a mapping, none for null, else `result`."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return {"result": value}
    # A value may come from a model. Other names are slots of tools, as `memory.key`.
    for name in value:
        if not name.replace("-", "_").isidentifier():
            raise LookupError(f"the key {name!r} of the value cannot name a variable")
    return dict(value)


def _at(value: Any, path: str) -> Any:
    """Returns the part of the value at the dotted `path`. "." is the whole value."""
    for part in path.split(".") if path != "." else ():
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise LookupError(f"the value has no {path!r} (at {part!r})")
    return value


def _joined(spread: Spread, names: list[str], ends: list[Done]) -> Done:
    state: dict[str, Any] = {}
    traces = [
        {**entry, "branch": name}
        for name, done in zip(names, ends, strict=False)
        for entry in done.state.get(TRACE, ())
    ]
    if traces:
        state[TRACE] = [{**trace, "step": number} for number, trace in enumerate(traces, 1)]
    # A failed branch leaves null at its position, so that indexes match the items.
    values = [done.value if done.good else None for done in ends]
    value: Any = values if spread.items is not None else dict(zip(names, values, strict=False))
    stop = next((done.stop for done in ends if done.stop), "")
    failed = {n: d.error for n, d in zip(names, ends, strict=False) if d.error}
    if not failed:
        return Done(value, "", stop, state)
    reasons = "; ".join([f"{name}: {error}" for name, error in failed.items()])
    left = len(names) - len(ends)
    rest = f", {left} were not started" if left else ""
    error = f"{len(failed)} of {len(names)} branches failed{rest}: {reasons}"
    return Done(value, error[:2000], stop, state)


def _lacking(scope: Scope, error: str) -> str:
    """Returns how to set the variable that the error names, if nothing set it."""
    lacked = _ABSENT.search(error)
    if lacked is None or lacked[1] in scope.state:
        return ""
    read = scope.flow.needs.union(scope.flow.types)
    return _set_at_start([lacked[1]] if lacked[1] in read else [])


def _set_at_start(names: Sequence[str]) -> str:
    options = " ".join([f"--set {name}=…" for name in names])
    return f"; set at the start: {options}" if options else ""


def run(flow: Flow, task: Task) -> Strategy[Answer]:
    """Runs a flow as a strategy."""
    scope = Scope(flow, task, flow.start_state(task.data, task.goal))
    try:
        wrong = flow.state_fault(scope.state)
        if wrong:
            hint = _set_at_start(flow.missing(scope.state))
            return Answer(None, "error", f"the state does not fit state_schema: {wrong}{hint}")
        ended = yield from scope.sequence(flow.nodes, flow.start)
        if not ended.good:
            error = ended.error + _lacking(scope, ended.error)
            return Answer(ended.value, ended.stop or "error", error)
        answer = yield from scope.answer()
        return replace(answer, error=answer.error + _lacking(scope, answer.error))
    except Halt as halt:
        return Answer(None, halt.reason)


def nested_flow(flow: Flow, call: ActionCall[Any]) -> Strategy[Done]:
    """Runs a flow inside another. `with` is its state, its result the value."""
    state = dict(call.keys.model_extra or {})
    task = replace(call.task, goal=str(state.pop("goal", call.task.goal)), data=state)
    # Its variables are local. The outer flow records only its result.
    scope = Scope(flow, task, flow.start_state(task.data, task.goal), inside=True)
    wrong = flow.state_fault(scope.state)
    if wrong:
        return Done(error=f"with: it does not fit the state_schema of {flow.name!r}: {wrong}")
    ended = yield from scope.sequence(flow.nodes, flow.start)
    trace = {TRACE: scope.state[TRACE]} if TRACE in scope.state else {}
    if not ended.good or flow.result is None:
        return replace(ended, state=trace)
    return Done(flow.result.render(scope.variables), state=trace)

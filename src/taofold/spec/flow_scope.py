"""What the nodes of a flow see and change: the state, on the record with every change."""

# Values here are JSON of any shape, or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from taofold.actions import Done
from taofold.core.effects import Note, Strategy
from taofold.core.values import Message
from taofold.reasoning import Task
from taofold.spec.flow import Flow, Node

TRACE: Final = "reasoning_trace"


@dataclass(slots=True)
class Scope:
    """What the nodes of one list see. `inside` a branch nothing is put on the record."""

    flow: Flow
    task: Task
    state: dict[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inside: bool = False
    heard: list[Message] = field(default_factory=list[Message])
    last: Any = None

    @property
    def variables(self) -> dict[str, Any]:
        """By name, for templates and conditions."""
        return {
            "state": self.state,
            "variables": self.flow.variables,
            "goal": self.task.goal,
            **self.extra,
        }


def opening(flow: Flow, task: Task) -> dict[str, Any]:
    state = dict(task.data)
    if flow.keys.input:
        state.setdefault(flow.keys.input, task.goal)
    return state


def misfit(flow: Flow, state: Mapping[str, Any]) -> str:
    if flow.state is None:
        return ""
    try:
        flow.state.validate_python(state)
    except ValidationError as error:
        return said_of(error)
    return ""


def record(node: Node, scope: Scope, done: Done, *, output: bool) -> Strategy[str]:
    """Put what the node gave into the state. Returns why it cannot stand there, or ""."""
    tracing = scope.flow.keys.settings.tracing
    update = {k: v for k, v in done.state.items() if tracing or k != TRACE}
    if node.kind is not None:
        scope.heard = []
    wrong = ""
    if output:
        try:
            update |= _outputs(node, done.value)
        except LookupError as error:
            wrong = f"output: {error.args[0]}"
        wrong = wrong or _untyped(scope.flow, update)
        if wrong:
            update = {k: v for k, v in done.state.items() if tracing or k != TRACE}
        elif node.kind is not None or node.spread is not None or node.sets is not None:
            scope.last = done.value
    if update:
        yield from put(scope, update)
    return wrong


def _outputs(node: Node, value: Any) -> dict[str, Any]:
    if node.sets is not None:
        return dict(value)
    if isinstance(node.output, str):
        plain = node.kind is not None or node.spread is not None or node.loop is not None
        name = node.output or (node.name if plain else "")
        return {name: value} if name else {}
    return {name: _at(value, path) for name, path in node.output.items()}


def _at(value: Any, path: str) -> Any:
    """What lies at the dotted `path` of the value; "." is all of it."""
    for part in path.split(".") if path != "." else ():
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise LookupError(f"the value has no {path!r} (at {part!r})")
    return value


def _untyped(flow: Flow, update: Mapping[str, Any]) -> str:
    for name, value in update.items():
        adapter = flow.types.get(name)
        if adapter is None:
            continue
        try:
            adapter.validate_python(value)
        except ValidationError as error:
            return f"{name!r} does not fit state_schema: {said_of(error)}"
    return ""


def put(scope: Scope, update: Mapping[str, Any]) -> Strategy[None]:
    scope.state.update(update)
    if not scope.inside:
        yield Note("state", dict(update))


def way_on(node: Node, scope: Scope) -> str:
    for edge in node.goto:
        if edge.condition is None or edge.condition.holds(scope.variables):
            return edge.to
    return ""


def said_of(error: ValidationError) -> str:
    faults = [
        f"{'.'.join(map(str, one['loc'])) or 'value'}: {one['msg']}" for one in error.errors()
    ]
    return "; ".join(faults)[:500]

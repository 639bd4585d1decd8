"""The consumption of each agent of a run that was handed over from one to another.

`shares` reads the records of a run. Limits of an agent count its own share, and metrics show the
cost of each agent. Pure.
"""

from collections.abc import Iterable, Mapping

from taofold.core import events as e
from taofold.core.state import RunState, live, reduce, usage_of
from taofold.core.values import Usage, Value


class AgentShare(Value, frozen=True):
    """The consumption of one agent, or of several."""

    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    active_ms: int = 0
    usage: Usage = Usage()
    per_tool: Mapping[str, int] = {}

    def __add__(self, other: "AgentShare") -> "AgentShare":
        tools = {*self.per_tool, *other.per_tool}
        return AgentShare(
            self.steps + other.steps,
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
            self.active_ms + other.active_ms,
            self.usage + other.usage,
            {tool: self.per_tool.get(tool, 0) + other.per_tool.get(tool, 0) for tool in tools},
        )


def shares(records: Iterable[e.Record]) -> dict[str, AgentShare]:
    """Returns the consumption of each agent of a run, by name, in order of their first turns.

    Calls of child runs count for the agent that called them. Tokens of rewound records stay spent.
    """
    records = list(records)
    counted = {record.seq for record in live(records)}
    found: dict[str, AgentShare] = {}
    state = RunState()
    # The agents at the start of the run and after each hand-off, with the numbers of the records.
    active: list[tuple[int, str]] = []
    for record in records:
        event = record.event
        if isinstance(event, e.RunStarted | e.HandedOff):
            active.append((record.seq, event.agent))
        elif isinstance(event, e.Rewound):
            active = [each for each in active if each[0] <= event.to]
        agent = active[-1][1] if active else ""
        before = found.setdefault(agent, AgentShare())
        after = state
        if record.seq in counted:
            after = reduce(state, record)
        found[agent] = before + _between(state, after, usage_of(event))
        state = after
    return found


def _between(before: RunState, after: RunState, usage: Usage) -> AgentShare:
    calls = {
        tool: count - before.per_tool.get(tool, 0)
        for tool, count in after.per_tool.items()
        if count != before.per_tool.get(tool, 0)
    }
    return AgentShare(
        len(after.steps) - len(before.steps),
        _asked(after) - _asked(before),
        _acted(after) - _acted(before),
        after.active_ms - before.active_ms,
        usage,
        calls,
    )


def _asked(state: RunState) -> int:
    return state.model_calls + state.child_model_calls


def _acted(state: RunState) -> int:
    return state.tool_calls + state.child_tool_calls

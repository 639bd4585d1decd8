"""The hand-off of a run: another agent of its team becomes the active one.

`RunSuccessors` gives the runtime what it needs of the next agent: the facts to record, and the
setup and strategy with which it continues. The rules of the agent with which the run began hold
until its end. The next agent's own rules are added while it is active.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from taofold.agent.options import ACTIVE, JUDGE
from taofold.core import events as e
from taofold.core.agent_shares import AgentShare, shares
from taofold.core.effects import HandOff, Strategy
from taofold.core.errors import LogError, ReplayDiverged
from taofold.core.state import RunState
from taofold.core.values import Action, Principal, Usage
from taofold.policy import Limits, Policy
from taofold.policy.limits import Reserved
from taofold.policy.redaction import MARK
from taofold.runtime.hand_off import recorded_reason
from taofold.runtime.hooks import HookContext, Hooks
from taofold.runtime.setup import NO_HOOKS, Setup
from taofold.runtime.tool_calls import facts
from taofold.tools import Tool

if TYPE_CHECKING:
    from taofold.agent.activation import Activation
    from taofold.agent.agent import Agent

SESSION: Final = "active last in the session"
"""The reason of a hand-off at the start of a run."""


class RunSuccessors:
    """The agents to which the runs of an activation may be handed over."""

    def __init__(self, first: "Activation") -> None:
        self._first = first

    async def describe(
        self, key: str, hand_off: HandOff, records: Sequence[e.Record]
    ) -> e.HandedOff:
        """Returns the facts to record about the next agent, as they are now."""
        first, started = self._first, _start(records)
        await self._check_start(key, started, records)
        activation = self._activation(hand_off.agent, key)
        plan = activation.plan
        model = plan.models["executor"]
        settings = _earlier(hand_off.agent, records)
        if settings is None:
            settings = await activation.described(records[0].run, started, first)
        return e.HandedOff(
            key=key,
            agent=hand_off.agent,
            before=_active(records),
            reason=recorded_reason(hand_off, first.setup.redactor),
            model=model.name,
            profile=model.profile,
            policy=plan.policy.version,
            settings=settings,
            masked=MARK in str(settings),
        )

    async def refusal(self, agent: str, run: str) -> str:
        """Returns why a run may not begin as `agent`, or "" if it may.

        It may if hand-offs lead there that need no approval with the rules of this run. Earlier
        hand-offs of the session do not count: they had another principal, or other rules.

        Args:
            agent: The name of an agent.
            run: The id of the run.
        """
        team = self._first.agent.team
        reached, ways, why = {self._first.agent.name}, [(self._first.agent.name, 0)], ""
        # The shortest ways first: each further call uses up limits.
        for name, calls in ways:
            for tool in team[name].plan.tools.values():
                successor = "" if tool.successor is None else tool.successor.name
                if not successor or successor in reached:
                    continue
                refused = await self._refused(team[name], tool, calls, run)
                if refused:
                    why = why or refused
                elif successor == agent:
                    return ""
                else:
                    reached.add(successor)
                    ways.append((successor, calls + 1))
        return why or f"{self._first.agent.name!r} does not hand over to it"

    async def _refused(self, member: "Agent[Any, Any]", tool: Tool, calls: int, run: str) -> str:
        """Returns why a call of `tool` by `member` would be refused or has to be asked for, or "".

        Args:
            member: The calling agent.
            tool: The tool that hands over.
            calls: The number of hand-offs before.
            run: The id of the run.
        """
        base, action = self._first.setup, Action(tool.name, {"reason": SESSION})
        limits, policy, hooks = base.limits, base.policy, base.hooks
        if member is not self._first.agent:
            limits, policy = self._bounds(member, member.limits), self._policy(member)
            hooks = self._hooks(member)
        if "before_tool" in hooks.points:
            context = HookContext(run, "", base.principal, Usage(), base.deps)
            seconds = limits.seconds
            verdicts = await hooks.call("before_tool", context, action, seconds=seconds)
            for verdict in verdicts:
                if verdict.reason:
                    return f"{tool.name}: {verdict.reason}"
        ruling = policy.rule(action, facts(tool), base.principal)
        if ruling.verdict != "allow":
            return f"{tool.name}: {ruling.reason}"
        blocked = limits.blocks(RunState(), tool.name, [Reserved(tool_calls=calls)])
        return f"{tool.name}: {blocked.why}" if blocked else ""

    async def _check_start(
        self, key: str, started: e.RunStarted, records: Sequence[e.Record]
    ) -> None:
        """Checks a hand-off at the start of a run once more, with the rules that drive it.

        Raises:
            ReplayDiverged: The rules forbid it, or have changed since the run was recorded.
        """
        agent = started.settings.get(ACTIVE)
        # Without a call: the model's hand-offs come later, and each was judged as a call.
        if agent is None or any([isinstance(it.event, e.HandedOff) for it in records]):
            return
        why = await self.refusal(str(agent), records[0].run)
        if why:
            raise ReplayDiverged(key, f"a run that begins with {agent!r}", f"a refusal: {why}")

    def activate(
        self, event: e.HandedOff, hand_off: HandOff, records: Sequence[e.Record]
    ) -> tuple[Setup, Strategy[Any]]:
        """Returns the setup and the strategy with which the agent of `event` continues."""
        first, activation = self._first, self._activation(event.agent, event.key)
        as_started = event.applied(_start(records))
        task = replace(activation.task(as_started), output=first.output, past=hand_off.talk)
        strategy = activation.plan.make(task)
        if event.agent == first.agent.name:
            return first.setup, strategy
        own = shares(records)
        others = [share for name, share in own.items() if name != event.agent]
        return self._setup(activation, as_started, sum(others, AgentShare())), strategy

    def tools(self, agent: str) -> Mapping[str, Tool]:
        """Returns the tools of an agent of the run, by name; none of an unknown one."""
        member = self._first.agent.team.get(agent)
        return {} if member is None else member.toolset

    def _activation(self, agent: str, key: str) -> "Activation":
        member = self._first.agent.team.get(agent)
        if member is None:
            wanted = f"{self._first.agent.name!r} hands over to no such agent"
            raise ReplayDiverged(key, f"a hand-off to {agent!r}", wanted)
        return self._first if member is self._first.agent else self._first.for_member(member)

    def _setup(self, activation: "Activation", started: e.RunStarted, others: AgentShare) -> Setup:
        """Returns the setup of the next agent within the one with which the run began."""
        base, plan, member = self._first.setup, activation.plan, activation.agent
        limits: Limits = member.limits.beside(others)
        models = dict(plan.models)
        if JUDGE in base.models:
            models[JUDGE] = base.models[JUDGE]
        notebook = activation.setup.memory
        return replace(
            base,
            agent=member.name,
            began=base.agent,
            models=models,
            tools=plan.tools,
            limits=self._bounds(member, limits),
            own_limits=limits,
            policy=self._policy(member),
            hooks=self._hooks(member),
            cache=activation.setup.cache,
            settings=member.model_settings,
            on_denial="stop" if "stop" in (base.on_denial, member.on_denial) else "continue",
            ask_user=member.ask_user,
            children=activation.setup.children,
            sampling=activation.setup.sampling,
            memory=None if notebook is None else partial(_notebook, notebook, started),
            # The answer's type is that of the first agent, so the offers differ from its own.
            offered={},
        )

    # The rules of the agent with which the run began hold, and those of `member`.

    def _bounds(self, member: "Agent[Any, Any]", own: Limits) -> Limits:
        return own.within(self._first.setup.limits).covering(member.plan.tools.aliases)

    def _policy(self, member: "Agent[Any, Any]") -> Policy:
        both = self._first.setup.policy.tightened(member.policy)
        return both.covering(member.plan.tools.aliases)

    def _hooks(self, member: "Agent[Any, Any]") -> Hooks:
        above = self._first.setup.hooks.hooks
        hooks = (*above, *[hook for hook in member.plan.hooks if hook not in above])
        return Hooks(hooks) if hooks else NO_HOOKS


def _notebook(
    of: Any,
    started: e.RunStarted,
    run: str,
    tool: str,
    records: Sequence[e.Record],
    state: RunState,
    principal: Principal,
) -> Any:
    """Returns the notebook of the active agent."""
    return of(run, tool, records, structs.replace(state, started=started), principal)


def _start(records: Sequence[e.Record]) -> e.RunStarted:
    first = records[0].event if records else None
    if not isinstance(first, e.RunStarted):
        raise LogError("the run has no start: its log is damaged")
    return first


def _active(records: Sequence[e.Record]) -> str:
    """Returns the name of the active agent."""
    for record in reversed(records):
        if isinstance(record.event, e.HandedOff | e.RunStarted):
            return record.event.agent
    return ""


def _earlier(agent: str, records: Sequence[e.Record]) -> dict[str, Any] | None:
    """Returns the settings with which `agent` was active before; None if it was not.

    It reads the same again, so that its prompt begins with the same bytes.
    """
    for record in records:
        event = record.event
        if isinstance(event, e.HandedOff | e.RunStarted) and event.agent == agent:
            return event.settings
    return None

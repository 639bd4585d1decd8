"""What is offered to MCP clients: agents that take a goal, and tools that are called directly.

A direct call is a run of its own, with one step that the client wrote: so it is governed, recorded
and, if it must wait for a person, goes on later in any process. Knows nothing about the protocol.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from taofold.agent import Agent, RunResult
from taofold.agent.activation import new_id
from taofold.agent.result import Happening
from taofold.core import events as e
from taofold.core.effects import Act, Answer, Strategy
from taofold.core.errors import ConfigError, ModelError, Refused, UnknownRun
from taofold.core.values import Action, Observation, Principal, Profile, Reply, Thought, Tier
from taofold.log.log import Log
from taofold.policy import Policy
from taofold.reasoning import Task
from taofold.runtime.model import OnText, Request
from taofold.tools import Tool, Toolset

PREFIX: Final = "mcp:"
"""Before the tool's name in the name of the agent of a direct call."""
RESUME: Final = "resume_run"
_GOAL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"goal": {"type": "string", "description": "What the agent should do."}},
    "required": ["goal"],
    "additionalProperties": False,
}


class Silent:
    """The model of a run that needs none."""

    name: str = "none"
    profile: Profile = Profile()

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Raises: nobody may ask it."""
        raise ModelError("a direct call of a tool asks no model")

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Nothing."""
        return 0.0


def direct(task: Task) -> Strategy[Answer]:
    """One call that somebody else wrote: its observation is the answer."""
    said = Thought(f"an MCP client calls {task.data['tool']}")
    call = Action(str(task.data["tool"]), dict(task.data["parameters"]), "asked for by the client")
    [seen] = yield Act(said, (call,), planned=True)
    if seen.status == "success" and not seen.refused:
        return Answer(seen.result)
    return Answer(None, "error", str(seen.result))


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing a client may call. `settings` are kept with its runs, to make the agent again."""

    name: str
    description: str
    schema: dict[str, Any]
    agent: Agent[Any, Any]
    tools: tuple[Tool, ...]
    tool: str = ""
    """Of a direct call; "" = an agent with a goal."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def reads(self) -> bool:
        """Does nothing that it can do change anything?"""
        return all(tool.effect == "read" for tool in self.tools)

    @property
    def repeatable(self) -> bool:
        """May it be called twice with the same effect as once?"""
        return all(tool.effect != "once" for tool in self.tools)

    @property
    def tier(self) -> Tier:
        """The highest of its tools'."""
        return max((tool.tier for tool in self.tools), default=Tier.AUTO)


@dataclass(frozen=True, slots=True)
class Offers:
    """Everything on offer, with the log and on whose behalf it runs."""

    known: Mapping[str, Offer]
    log: Log
    principal: Principal = Principal()
    policy: Policy = field(default_factory=Policy)

    @classmethod
    def of(
        cls,
        agents: Sequence[Agent[Any, Any]] = (),
        tools: Sequence[Any] = (),
        *,
        log: Log,
        principal: Principal = Principal(),
        policy: Policy | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "Offers":
        """Offers of agents and tools. `settings` are by the agents' names.

        Raises:
            ConfigError: a name occurs twice, or is reserved.
        """
        rules = Policy() if policy is None else policy
        found = [_agent(one.but(log=log), (settings or {}).get(one.name, {})) for one in agents]
        found += [_tool(one, log, rules) for one in Toolset.of(*tools).values()]
        known: dict[str, Offer] = {}
        for one in found:
            if one.name in known or one.name == RESUME:
                raise ConfigError(f"{one.name!r} is offered twice or reserved: rename it")
            known[one.name] = one
        return cls(known, log, principal, rules)

    async def run(
        self, name: str, arguments: Mapping[str, Any], hear: Callable[[Happening], None]
    ) -> RunResult[Any]:
        """Start what `name` offers.

        Raises:
            ConfigError: the agent cannot run; the goal is empty.
        """
        one = self.known[name]
        options: dict[str, Any] = {
            "principal": self.principal,
            "listener": hear,
            "run_id": new_id(),
        }
        if one.tool:
            data = {"tool": one.tool, "parameters": dict(arguments)}
            return await one.agent.run(f"call {one.tool}", data=data, **options)
        goal = str(arguments.get("goal", ""))
        return await one.agent.run(goal, settings=one.settings, **options)

    async def resume(self, run: str, hear: Callable[[Happening], None]) -> RunResult[Any]:
        """Carry on a run that was started here.

        Raises:
            Refused: it is not one of ours, or has ended.
        """
        one = await self.first(run)
        return await one.agent.resume(run, principal=self.principal, listener=hear)

    async def first(self, run: str) -> Offer:
        """What `run` was started with.

        Raises:
            Refused: it is not one of the principal's, or was not started here.
        """
        first = await self._first(run)
        one = self.known.get(first.agent.removeprefix(PREFIX))
        if one is None or one.agent.name != first.agent or first.principal.id != self.principal.id:
            raise Refused(f"run {run!r} was not started here")
        return one

    async def _first(self, run: str) -> e.RunStarted:
        try:
            records = await self.log.read(run, limit=1)
        except UnknownRun:
            records = []
        if not records or not isinstance(records[0].event, e.RunStarted):
            raise Refused(f"there is no run {run!r}")
        return records[0].event


def said(result: RunResult[Any]) -> Observation:
    """What came of a run, as one observation."""
    if result.success:
        return Observation(result.output)
    why = result.error or result.stop_reason
    partial = "" if result.output is None else f"; so far: {result.output}"
    return Observation(f"{why}{partial} (run {result.run_id}, {result.status})", "failure")


def _agent(agent: Agent[Any, Any], settings: Mapping[str, Any]) -> Offer:
    tool = agent.as_tool()
    inner = tuple(agent.toolset.values())
    return Offer(tool.name, tool.description, _GOAL, agent, inner, settings=settings)


def _tool(tool: Tool, log: Log, policy: Policy) -> Offer:
    agent = Agent[Any, Any](
        Silent(),
        name=PREFIX + tool.name,
        tools=(tool,),
        strategy=direct,
        output=Any,  # pyright: ignore[reportArgumentType]
        policy=policy,
        log=log,
    )
    return Offer(tool.name, tool.description, tool.schema, agent, (tool,), tool.name)

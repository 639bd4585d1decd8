"""`Offers`: the agents and tools that a client of our MCP server may call, and the runs they begin.

An agent takes a goal; a tool is called directly, which is a run of its own with one step that the
client wrote: so it is governed, recorded and, if it must wait for a person, goes on later in any
process. A run is started here, found again, waited for and decided on, only by the client whose it
is; `run_outcome` is what came of it. Knows nothing about the protocol; `server` does.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from taofold.agent import Agent, RunResult
from taofold.core import events as e
from taofold.core.effects import Act, Answer, Strategy
from taofold.core.errors import ConfigError, Conflict, Refused, UnknownRun
from taofold.core.happenings import Happening, Progress
from taofold.core.json_values import is_object
from taofold.core.state import ENDED
from taofold.core.values import Action, Observation, Principal, Thought, Tier
from taofold.log.log import Log
from taofold.policy import Policy
from taofold.policy.redaction import Redactor
from taofold.policy.redaction.views import shown_value
from taofold.reasoning import Task
from taofold.runtime import control
from taofold.runtime.endings import RESUMABLE
from taofold.runtime.inbox import environment_redactor
from taofold.runtime.model import SilentModel
from taofold.runtime.run import new_id
from taofold.runtime.setup import Approval, Decision
from taofold.tools import Tool, Toolset

PREFIX: Final = "mcp:"
"""Before the tool's name in the name of the agent of a direct call."""
RESUME: Final = "resume_run"
WRAP: Final = "result"
"""Where a structured result lies that is no object."""
LOOK_S: Final = 0.2
"""Seconds between two looks at a run that somebody else drives."""
_GOAL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"goal": {"type": "string", "description": "What the agent should do."}},
    "required": ["goal"],
    "additionalProperties": False,
}


def direct(task: Task) -> Strategy[Answer]:
    """One call that somebody else wrote: its observation is the answer."""
    thought = Thought(f"an MCP client calls {task.data['tool']}")
    call = Action(str(task.data["tool"]), dict(task.data["parameters"]), "asked for by the client")
    [observation] = yield Act(thought, (call,), planned=True)
    if observation.status == "success" and not observation.refused:
        return Answer(observation.result)
    return Answer(None, "error", str(observation.result))


@dataclass(frozen=True, slots=True)
class McpOffer:
    """One thing a client may call. `settings` are kept with its runs, to make the agent again."""

    name: str
    description: str
    schema: dict[str, Any]
    agent: Agent[Any, Any]
    tools: tuple[Tool, ...]
    tool: str = ""
    """Of a direct call; "" = an agent with a goal."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result_schema: Mapping[str, Any] | None = None
    """Of the structured result; None = it is text, or nobody knows."""

    def structured(self, output: Any) -> dict[str, Any] | None:
        """The output (JSON) as it is promised; what is no object lies below `result`."""
        if self.result_schema is None or not _wrapped(self.agent.answer.schema):
            return output if is_object(output) else None
        return {WRAP: output}

    def start(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The goal of a run of it, and what the run is begun with besides."""
        if self.tool:
            data = {"tool": self.tool, "parameters": dict(arguments)}
            return f"call {self.tool}", {"data": data}
        return str(arguments.get("goal", "")), {"settings": self.settings}

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

    by_name: Mapping[str, McpOffer]
    log: Log
    principal: Principal = Principal()
    policy: Policy = field(default_factory=Policy)
    redactor: Redactor = field(default_factory=environment_redactor)
    """Takes out what people at the client write: knows every secret of what is on offer."""

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
        offers = [
            _agent(agent.replace(log=log), (settings or {}).get(agent.name, {})) for agent in agents
        ]
        offers += [_tool(tool, log, rules) for tool in Toolset.of(*tools).values()]
        by_name: dict[str, McpOffer] = {}
        for offer in offers:
            if offer.name in by_name or offer.name == RESUME:
                raise ConfigError(f"{offer.name!r} is offered twice or reserved: rename it")
            by_name[offer.name] = offer
        secrets = frozenset[str]().union(*[offer.agent.known_secrets() for offer in offers])
        return cls(by_name, log, principal, rules, Redactor(secrets))

    async def run(
        self, name: str, arguments: Mapping[str, Any], hear: Callable[[Happening], None] | None
    ) -> RunResult[Any]:
        """Start what `name` offers.

        Raises:
            ConfigError: the agent cannot run; the goal is empty.
        """
        offer, run = self.by_name[name], new_id()
        if hear is not None:
            hear(Progress(run, name, f"run {run}"))
        goal, options = offer.start(arguments)
        return await offer.agent.run(
            goal, principal=self.principal, listener=hear, run_id=run, **options
        )

    async def begin(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Put a run of what `name` offers into the log; whoever calls `advance` drives it.

        Raises:
            ConfigError: the agent cannot run; the goal is empty.
        """
        offer = self.by_name[name]
        goal, options = offer.start(arguments)
        return await offer.agent.begin(goal, principal=self.principal, **options)

    async def resume(self, run: str, hear: Callable[[Happening], None]) -> RunResult[Any]:
        """Carry on a run that was started here, or wait for its end; an ended run's result.

        Whoever lost the answer, by a time-out or with the connection, gets it here.

        Raises:
            Refused: it is not one of ours.
        """
        offer = await self.first(run)
        while True:
            so_far = await offer.agent.result(run)
            if so_far.status in ENDED and so_far.stop_reason not in RESUMABLE:
                return so_far
            try:
                return await offer.agent.resume(run, principal=self.principal, listener=hear)
            except Conflict:
                if not (await self.log.row(run)).held:
                    raise
            await asyncio.sleep(LOOK_S)  # the call that began it still drives it

    async def first(self, run: str) -> McpOffer:
        """What `run` was started with.

        Raises:
            Refused: it is not one of the principal's, or was not started here.
        """
        first = await self._first(run)
        offer = self.by_name.get(first.agent.removeprefix(PREFIX))
        if (
            offer is None
            or offer.agent.name != first.agent
            or first.principal.id != self.principal.id
        ):
            raise Refused(f"run {run!r} was not started here")
        return offer

    async def decide(self, approval: Approval, decision: Decision) -> None:
        """Put the principal's decision where the run looks for it.

        Raises:
            Refused: the policy or the approval does not let it stand. The words name the run, for
                it still waits, and the client has no other place to read its id.
        """
        by, policy, redactor = self.principal, self.policy, self.redactor
        try:
            await control.decide(
                self.log, approval.id, decision, by=by, policy=policy, redactor=redactor
            )
        except Refused as error:
            again = f"Call {RESUME} with run_id {approval.run!r} to go on."
            raise Refused(f"{error} {again}") from error

    async def _first(self, run: str) -> e.RunStarted:
        try:
            records = await self.log.read(run, limit=1)
        except UnknownRun:
            records = []
        if not records or not isinstance(records[0].event, e.RunStarted):
            raise Refused(f"there is no run {run!r}")
        return records[0].event


def run_outcome(result: RunResult[Any]) -> Observation:
    """What came of a run, as one observation."""
    if result.success:
        return Observation(result.output)
    why = shown_value(result.error) or result.stop_reason
    output = result.output_or_none
    partial = "" if output is None else f"; so far: {output}"
    return Observation(f"{why}{partial} (run {result.run_id}, {result.status})", "failure")


def _agent(agent: Agent[Any, Any], settings: Mapping[str, Any]) -> McpOffer:
    tool = agent.as_tool()
    inner = tuple(agent.toolset.values())
    promised = agent.answer.schema
    if promised is not None and _wrapped(promised):
        # The protocol's structured results are objects; clients of the package unwrap this one.
        definitions = promised.get("$defs", {})
        bare = {name: value for name, value in promised.items() if name != "$defs"}
        promised = {"type": "object", "properties": {WRAP: bare}, "required": [WRAP]}
        promised |= {"$defs": definitions} if definitions else {}
    return McpOffer(
        tool.name,
        tool.description,
        _GOAL,
        agent,
        inner,
        settings=settings,
        result_schema=promised,
    )


def _wrapped(schema: Mapping[str, Any] | None) -> bool:
    return schema is not None and schema.get("type") != "object"


def _tool(tool: Tool, log: Log, policy: Policy) -> McpOffer:
    agent = Agent[Any, Any](
        SilentModel(),
        name=PREFIX + tool.name,
        tools=(tool,),
        strategy=direct,
        output=Any,  # pyright: ignore[reportArgumentType]
        policy=policy,
        log=log,
    )
    return McpOffer(tool.name, tool.description, tool.schema, agent, (tool,), tool.name)

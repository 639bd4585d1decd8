"""`Offers`: the agents and tools that an MCP client may call, and the runs that calls start.

An agent takes a goal. A direct call of a tool is a run with one step that the client wrote, so it
is governed and recorded, and can wait for an approval and continue in any process. Only the client
that started a run can find it, wait for it and decide its approvals. `run_outcome` returns a run's
result. Knows nothing about the protocol.
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
from taofold.core.values import GOAL_FROM, Action, Observation, Principal, Thought, Tier
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
"""Prefix of the agent's name in a direct call, before the tool's name."""
RESUME: Final = "resume_run"
WRAP: Final = "result"
"""Key that wraps a structured result that is no object."""
LOOK_S: Final = 0.2
"""Seconds between two checks of a run that another process drives."""
_GOAL: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"goal": {"type": "string", "description": "What the agent should do."}},
    "required": ["goal"],
    "additionalProperties": False,
}


def direct(task: Task) -> Strategy[Answer]:
    """Runs one call of the client; its observation is the answer."""
    thought = Thought(f"an MCP client calls {task.data['tool']}")
    call = Action(str(task.data["tool"]), dict(task.data["parameters"]), "asked for by the client")
    [observation] = yield Act(thought, (call,), planned=True)
    if observation.status == "success" and not observation.refused:
        return Answer(observation.result)
    return Answer(None, "error", str(observation.result))


@dataclass(frozen=True, slots=True)
class McpOffer:
    """One agent or tool that a client may call.

    `settings` are stored with its runs, to make the agent again.
    """

    name: str
    description: str
    schema: dict[str, Any]
    agent: Agent[Any, Any]
    tools: tuple[Tool, ...]
    tool: str = ""
    """The tool of a direct call; "" = an agent with a goal."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result_schema: Mapping[str, Any] | None = None
    """Schema of the structured result; None = text, or unknown."""

    def structured(self, output: Any) -> dict[str, Any] | None:
        """Returns the output in the form of `result_schema`.

        A value that is no object is wrapped in `result`.
        """
        if self.result_schema is None or not _wrapped(self.agent.answer.schema):
            return output if is_object(output) else None
        return {WRAP: output}

    def start(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Returns the goal of a run and the other options to begin it."""
        if self.tool:
            data = {"tool": self.tool, "parameters": dict(arguments)}
            return f"call {self.tool}", {"data": data}
        return str(arguments.get("goal", "")), {"settings": {**self.settings, GOAL_FROM: "mcp"}}

    @property
    def reads(self) -> bool:
        """True if all its tools only read."""
        return all(tool.effect == "read" for tool in self.tools)

    @property
    def repeatable(self) -> bool:
        """True if a second call has no further effect."""
        return all(tool.effect != "once" for tool in self.tools)

    @property
    def tier(self) -> Tier:
        """The highest tier of its tools."""
        return max((tool.tier for tool in self.tools), default=Tier.AUTO)


@dataclass(frozen=True, slots=True)
class Offers:
    """All offers, with their log and the principal that runs them."""

    by_name: Mapping[str, McpOffer]
    log: Log
    principal: Principal = Principal()
    policy: Policy = field(default_factory=Policy)
    redactor: Redactor = field(default_factory=environment_redactor)
    """Removes the secrets of all offers from texts that users of the client write."""

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
        """Makes offers of agents and tools. `settings` are by the agents' names.

        Raises:
            ConfigError: A name occurs twice or is reserved.
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
        """Runs the offer `name`.

        Raises:
            ConfigError: The agent cannot run, or the goal is empty.
        """
        offer, run = self.by_name[name], new_id()
        if hear is not None:
            hear(Progress(run, name, f"run {run}"))
        goal, options = offer.start(arguments)
        return await offer.agent.run(
            goal, principal=self.principal, listener=hear, run_id=run, **options
        )

    async def begin(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Creates a run of the offer `name` in the log; `advance` drives it later.

        Raises:
            ConfigError: The agent cannot run, or the goal is empty.
        """
        offer = self.by_name[name]
        goal, options = offer.start(arguments)
        return await offer.agent.begin(goal, principal=self.principal, **options)

    async def resume(self, run: str, hear: Callable[[Happening], None]) -> RunResult[Any]:
        """Resumes a run that was started here or waits for its end. Returns its result.

        A client that lost the response gets it this way.

        Raises:
            Refused: The run was not started here.
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
            await asyncio.sleep(LOOK_S)  # the call that began the run still drives it

    async def first(self, run: str) -> McpOffer:
        """Returns the offer of a run.

        Raises:
            Refused: The run belongs to another principal or was not started here.
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
        """Records the principal's decision in the run's inbox.

        Raises:
            Refused: The policy or the approval does not allow it. The message names the run, which
                still waits, because the client has no other source of its id.
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
    """Returns the result of a run as one observation."""
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
        # The protocol's structured results are objects; clients of the package unwrap this key.
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

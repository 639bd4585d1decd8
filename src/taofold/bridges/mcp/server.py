"""Agents and tools as an MCP server: `taofold serve --mcp`.

`Offers` are what clients see: agents that take a goal, and tools that are called directly. A
direct call is a run of its own, with one step that the client wrote: so it is governed, recorded
and, if it must wait for a person, goes on later in any process.

What our tiers and effects say becomes the annotations. What must wait for a person is asked of the
person at the client where the client can ask (elicitation, in either era); where it cannot, the
error names the run, which `resume_run` carries on once somebody has decided.

Whoever started this process speaks through standard input and output, with that user's rights.
Over HTTP each request is somebody's, or is refused: runs are theirs, and so are decisions.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import mcp.types as types
import msgspec
from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server

from taofold import __version__
from taofold.agent import Agent, RunResult
from taofold.agent.activation import new_id
from taofold.agent.result import Happening, Progress
from taofold.core import events as e
from taofold.core.effects import Act, Answer, Strategy
from taofold.core.errors import ConfigError, Conflict, ModelError, Refused, RunError, UnknownRun
from taofold.core.state import ENDED
from taofold.core.value import is_object
from taofold.core.values import Action, Observation, Principal, Profile, Reply, Thought, Tier
from taofold.log.log import Log
from taofold.policy import Policy
from taofold.policy.policy import Right
from taofold.reasoning import Task
from taofold.runtime.control import decide, pending
from taofold.runtime.endings import RESUMABLE
from taofold.runtime.model import OnText, Request
from taofold.runtime.setup import Approval, Decision
from taofold.runtime.tool_calls import render
from taofold.tools import Tool, Toolset
from taofold.tools.arguments import BadArguments, Checker

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


class SilentModel:
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

    known: Mapping[str, McpOffer]
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
        offers = [
            _agent(agent.but(log=log), (settings or {}).get(agent.name, {})) for agent in agents
        ]
        offers += [_tool(tool, log, rules) for tool in Toolset.of(*tools).values()]
        by_name: dict[str, McpOffer] = {}
        for offer in offers:
            if offer.name in by_name or offer.name == RESUME:
                raise ConfigError(f"{offer.name!r} is offered twice or reserved: rename it")
            by_name[offer.name] = offer
        return cls(by_name, log, principal, rules)

    async def run(
        self, name: str, arguments: Mapping[str, Any], hear: Callable[[Happening], None] | None
    ) -> RunResult[Any]:
        """Start what `name` offers.

        Raises:
            ConfigError: the agent cannot run; the goal is empty.
        """
        offer = self.known[name]
        run = new_id()
        options: dict[str, Any] = {"principal": self.principal, "listener": hear, "run_id": run}
        if hear is not None:
            hear(Progress(run, name, f"run {run}"))
        if offer.tool:
            data = {"tool": offer.tool, "parameters": dict(arguments)}
            return await offer.agent.run(f"call {offer.tool}", data=data, **options)
        goal = str(arguments.get("goal", ""))
        return await offer.agent.run(goal, settings=offer.settings, **options)

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
        offer = self.known.get(first.agent.removeprefix(PREFIX))
        if (
            offer is None
            or offer.agent.name != first.agent
            or first.principal.id != self.principal.id
        ):
            raise Refused(f"run {run!r} was not started here")
        return offer

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


INSTRUCTIONS: Final = (
    "Agents take a goal and may work for minutes; their runs are recorded, and the first message "
    f"of a call's progress names its run. If you lose the answer, {RESUME} with that id gives it. "
    f"If a run waits for a person, call {RESUME} once the person has decided."
)
PATH: Final = "/mcp"
PRINCIPAL: Final = "taofold.principal"
"""Where the scope of an HTTP request says whose it is."""
LAST_WORDS: Final = 2.0
"""Seconds for which a result waits until its progress was told."""
_RUN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"run_id": {"type": "string"}},
    "required": ["run_id"],
    "additionalProperties": False,
}
_CONSENT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "description": "Let it happen?"},
        "reason": {"type": "string", "description": "For the record; the agent reads it."},
    },
    "required": ["approve"],
}
_ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
}


def make_server(offers: Offers, *, name: str = "taofold", elicit: bool = True) -> Any:
    """The server (of the mcp package's low level) that offers `offers`.

    Without `elicit` the person at the client decides nothing: every approval waits in the log.
    """
    desk = Desk(offers, elicit=elicit)
    server: Any = Server(
        name,
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=desk.list_tools,
        on_call_tool=desk.call_tool,
        get_tool_input_schema=desk.schema,
    )
    boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name)
    server.middleware.append(boundary)
    return server


class Desk:
    """Serves the requests of clients."""

    def __init__(self, offers: Offers, *, elicit: bool) -> None:
        self._offers, self._elicit = offers, elicit

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Of the tool `name`."""
        if name == RESUME:
            return _RUN
        offer = self._offers.known.get(name)
        return None if offer is None else offer.schema

    def _on_behalf(self, context: Any) -> Offers:
        """The offers, run for whoever sent the request.

        Raises:
            MCPError: it came over HTTP, and nobody said from whom.
        """
        request = context.request
        if request is None:
            return self._offers
        principal = request.scope.get(PRINCIPAL)
        if not isinstance(principal, Principal):
            raise MCPError(types.INVALID_REQUEST, "not signed in")
        return replace(self._offers, principal=principal)

    async def list_tools(self, context: Any, _params: Any) -> Any:
        """Everything on offer, in one page."""
        _require(self._on_behalf(context), "read")
        again = types.Tool(
            name=RESUME,
            description="Carry on a run that waited or was interrupted, and get its result; also "
            "that of a run that has ended. The first message of a call's progress names its run.",
            input_schema=_RUN,
            annotations=types.ToolAnnotations(destructive_hint=False, idempotent_hint=True),
        )
        tools = [_described(offer) for offer in self._offers.known.values()]
        return types.ListToolsResult(tools=[*tools, again])

    async def call_tool(self, context: Any, params: Any) -> Any:
        """Run what is named, or carry on with what a person answered."""
        schema, arguments = self.schema(params.name), dict(params.arguments or {})
        if schema is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name!r}")
        try:
            Checker(schema)(arguments)
        except BadArguments as error:
            return _result(str(error), failed=True)
        offers = self._on_behalf(context)
        _require(offers, "start")
        teller = Teller(context)
        try:
            # The state is sealed by the package
            # (`RequestStateBoundary`): a client cannot make one up.
            if params.request_state and params.input_responses:
                # Whose run it is, before anything is decided in it.
                await offers.first(params.request_state)
                await self._decided(offers, params.request_state, params.input_responses)
                result = await offers.resume(params.request_state, teller)
            elif params.name == RESUME:
                result = await offers.resume(str(arguments["run_id"]), teller)
            else:
                result = await offers.run(params.name, arguments, teller)
            return await self._ended(offers, context, result, teller)
        except (ConfigError, Refused, Conflict, RunError) as error:
            return _result(str(error), failed=True)
        finally:
            await teller.close()

    async def _ended(
        self, offers: Offers, context: Any, result: RunResult[Any], teller: "Teller"
    ) -> Any:
        """The result for the client: asks it for what the run waits for, where it can."""
        while result.status == "waiting" and result.pending:
            waiting = result.pending[0]
            if not self._elicit or not _can_ask(context):
                return _waits(result)
            # The call ends here, with questions; the client calls again with the answers.
            if str(context.protocol_version) >= "2026":
                params = types.ElicitRequestFormParams(
                    message=_question(waiting), requested_schema=_form(waiting)
                )
                elicitation = types.ElicitRequest(params=params)
                return types.InputRequiredResult(
                    input_requests={waiting.id: elicitation}, request_state=result.run_id
                )
            reply = await context.session.elicit_form(
                _question(waiting), _form(waiting), related_request_id=context.request_id
            )
            decision = _decision(waiting, reply.action, reply.content or {})
            if decision is None:
                return _waits(result)
            await _decide(offers, waiting, decision)
            result = await offers.resume(result.run_id, teller)
        if result.status == "waiting":
            return _waits(result)
        if not result.success:
            return _result(said(result).result, failed=True, run=result.run_id)
        offer = await offers.first(result.run_id)
        value = result.output if offer.tool else offer.agent.answer.dump(result.output)
        return _result(value, run=result.run_id, structured=offer.structured(value))

    async def _decided(self, offers: Offers, run: str, responses: Mapping[str, Any]) -> None:
        """Put what the person at the client said where the run looks for it."""
        waiting = {approval.id: approval for approval in await pending(offers.log, run)}
        for name, reply in responses.items():
            decided = waiting.get(name)
            if decided is None:
                continue  # answered before, or elsewhere
            content: Any = getattr(reply, "content", None)
            decision = _decision(decided, str(getattr(reply, "action", "")), content or {})
            if decision is not None:
                await _decide(offers, decided, decision)


async def _decide(offers: Offers, one: Approval, decision: Decision) -> None:
    await decide(offers.log, one.id, decision, by=offers.principal, policy=offers.policy)


def _require(offers: Offers, right: Right) -> None:
    """Hold the roles of whoever asks against the right.

    Raises:
        MCPError: they do not give it.
    """
    why = offers.policy.lacks(offers.principal, right)
    if why:
        raise MCPError(types.INVALID_REQUEST, why)


class Teller:
    """A listener that tells the client of the progress: what is thought, what tools report."""

    def __init__(self, context: Any) -> None:
        self._context, self._count = context, 0
        self._last: asyncio.Task[None] | None = None

    def __call__(self, happening: Happening) -> None:
        """Tell of a step that begins, or of a tool's progress."""
        if isinstance(happening, Progress):
            self._say(happening.text.strip())
        elif isinstance(happening, e.Record) and isinstance(happening.event, e.Proposed):
            self._say(happening.event.thought.content)

    def _say(self, text: str) -> None:
        self._count += 1
        # A chain: each waits for the one before, because progress must rise.
        self._last = asyncio.ensure_future(self._tell(float(self._count), text[:200], self._last))

    async def _tell(self, count: float, text: str, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await before  # in order
        try:
            await self._context.session.report_progress(count, None, text)
        except Exception:  # noqa: BLE001 - a client that hears nothing must not stop the run
            return

    async def close(self) -> None:
        """Wait until everything is said, but not for long."""
        if self._last is not None:
            await asyncio.wait([self._last], timeout=LAST_WORDS)
            self._last.cancel()


def _described(one: McpOffer) -> Any:
    return types.Tool(
        name=one.name,
        description=one.description,
        input_schema=one.schema,
        output_schema=None if one.result_schema is None else dict(one.result_schema),
        annotations=types.ToolAnnotations(
            read_only_hint=one.reads,
            destructive_hint=not one.reads and one.tier >= Tier.CONFIRM,
            idempotent_hint=one.repeatable,
            open_world_hint=not one.tool,
        ),
        _meta={"tier": int(one.tier)},
    )


def _can_ask(context: Any) -> bool:
    able = context.session.client_capabilities
    asking = None if able is None else able.elicitation
    if asking is None:
        return False
    return asking.form is not None or asking.url is None  # older clients do not say which


def _question(one: Approval) -> str:
    what = one.question or f"{one.preview}\n(tier {int(one.tier)}: {one.reason})"
    return f"{one.action.tool}: {what}"


def _form(one: Approval) -> dict[str, Any]:
    if one.form:
        return dict(one.form)
    return _ANSWER if one.wants_text else _CONSENT


def _decision(one: Approval, action: str, content: Mapping[str, Any]) -> Decision | None:
    """What the person at the client said; None if he said nothing."""
    by = one.requester
    if action == "decline":
        return Decision("deny", by=by, reason="declined at the MCP client")
    if action != "accept":
        return None
    if one.form:
        return Decision("answer", by=by, answer=msgspec.json.encode(dict(content)).decode())
    if one.wants_text:
        return Decision("answer", by=by, answer=str(content.get("answer", "")))
    # Anything but a plain yes is a no.
    verdict = "approve" if content.get("approve") is True else "deny"
    return Decision(verdict, by=by, reason=str(content.get("reason", "")))


def _waits(result: RunResult[Any]) -> Any:
    approval = result.pending[0] if result.pending else None
    what = "" if approval is None else f": {_question(approval)[:500]} [id {approval.id}]"
    how = (
        "taofold approvals approve ID, or deny"
        if approval is None
        else (f"taofold approvals approve {approval.id}, or deny")
    )
    text = (
        f"run {result.run_id} waits for a person{what}\n"
        f"Decide with `{how}`, then call {RESUME} with run_id {result.run_id!r}."
    )
    return _result(text, failed=True, run=result.run_id)


def _result(
    value: Any, *, failed: bool = False, run: str = "", structured: dict[str, Any] | None = None
) -> Any:
    text = "" if value is None else render(value)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        # The protocol has structured content for objects only.
        structured_content=None if failed else structured,
        is_error=failed,
        _meta={"taofold/run": run} if run else None,
    )


async def serve_stdio(server: Any) -> None:
    """Serve the client at standard input and output until it leaves.

    Whatever else is printed goes to standard error: it would break the protocol.
    """
    async with stdio_server() as (reading, writing):
        # Inside: `stdio_server` has taken the real standard output by now.
        with redirect_stdout(sys.stderr):
            await server.run(reading, writing, server.create_initialization_options())


Authenticate: TypeAlias = Callable[[Any], Principal | None]
"""`(ASGI scope) -> who sent the request`; None = nobody known, and the answer is 401."""


def http_app(server: Any, authenticate: Authenticate, host: str = "127.0.0.1") -> Any:
    """An ASGI application that serves streamable HTTP at `/mcp`, lifespan included.

    Every request is somebody's: there is no default for `authenticate`. A session belongs to the
    principal that opened it. Requests for another Host than `host`, or from a foreign Origin, are
    refused.
    """
    inner = server.streamable_http_app(streamable_http_path=PATH, host=host)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        principal = authenticate(scope)
        if principal is None:
            await _refused(send)
            return
        token = AccessToken(
            token="", client_id=principal.id, scopes=list(principal.roles), subject=principal.id
        )
        scope_of_user = {**scope, PRINCIPAL: principal, "user": AuthenticatedUser(token)}
        await inner(scope_of_user, receive, send)

    return app


async def _refused(send: Any) -> None:
    body = b'{"error": "unauthorized", "detail": "send a bearer token"}'
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})

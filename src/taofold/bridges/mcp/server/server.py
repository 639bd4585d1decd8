"""The MCP server of `taofold serve --mcp`: `make_server`, opened by `serve_stdio` or `http_app`.

`ClientRequests` lists, calls and cancels `offers` with the messages of `translation`. An approval
is asked through the client if it supports elicitation, in either protocol version. If not, the
error names the run, and `resume_run` continues it after the decision.

A long call becomes a task (`tasks`) if the client supports tasks.

Over standard input and output the client has the rights of the user who started the process. Over
HTTP each request needs a principal, who owns its runs and decisions.
"""

import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any, Final, TypeAlias

import mcp.types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from taofold import __version__
from taofold.agent import RunResult
from taofold.bridges.mcp.sdk import EXTENSION
from taofold.bridges.mcp.server.offers import RESUME, Offers
from taofold.bridges.mcp.server.sessions import BoundedSessions, refused
from taofold.bridges.mcp.server.tasks import RunTasks, TaskParams, takes_tasks
from taofold.bridges.mcp.server.translation import (
    ProgressReporter,
    answer_form,
    can_ask,
    decision_of,
    described,
    final_result,
    question_text,
    tool_result,
    waiting_result,
)
from taofold.core.errors import ConfigError, Conflict, Refused, RunError
from taofold.core.json_values import not_finite
from taofold.core.option_values import checked_names
from taofold.core.values import Principal
from taofold.policy.roles import Right
from taofold.runtime import control
from taofold.tools.arguments import BadArguments
from taofold.tools.schema_check import SchemaCheck

__all__ = [
    "PRINCIPAL",
    "Authenticate",
    "ClientRequests",
    "Offers",
    "http_app",
    "make_server",
    "serve_stdio",
]
INSTRUCTIONS: Final = (
    "Agents take a goal and may work for minutes; their runs are recorded, and the first message "
    f"of a call's progress names its run. If you lose the answer, {RESUME} with that id gives it. "
    f"If a run waits for a person, call {RESUME} once the person has decided."
)
PATH: Final = "/mcp"
_HERE: Final = ("127.0.0.1", "localhost", "[::1]")
PRINCIPAL: Final = "taofold.principal"
"""Key of the principal in the ASGI scope of an HTTP request."""
_RUN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"run_id": {"type": "string"}},
    "required": ["run_id"],
    "additionalProperties": False,
}


def make_server(offers: Offers, *, name: str = "taofold", elicit: bool = True) -> Any:
    """Makes a low-level server of the mcp package for `offers`.

    Without `elicit` the client is not asked: every approval waits in the log.
    """
    requests = ClientRequests(offers, elicit=elicit)
    server: Any = Server(
        name,
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=requests.list_tools,
        on_call_tool=requests.call_tool,
        get_tool_input_schema=requests.schema,
    )
    server.extensions[EXTENSION] = {}
    for method, handler in (
        ("tasks/get", requests.get_task),
        ("tasks/update", requests.update_task),
        ("tasks/cancel", requests.cancel_task),
    ):
        server.add_request_handler(method, TaskParams, handler)
    boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=name)
    server.middleware.append(boundary)
    return server


class ClientRequests:
    """Handlers of the requests of clients."""

    def __init__(self, offers: Offers, *, elicit: bool) -> None:
        self._offers, self._elicit = offers, elicit
        self.tasks = RunTasks()

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Returns the schema of the tool `name`, or None."""
        if name == RESUME:
            return _RUN
        offer = self._offers.by_name.get(name)
        return None if offer is None else offer.schema

    def _admitted(self, context: Any, right: Right) -> Offers:
        """Returns the offers for the request's principal if its roles give `right`.

        Raises:
            MCPError: The roles do not, or an HTTP request has no principal.
        """
        offers, request = self._offers, context.request
        if request is not None:
            principal = request.scope.get(PRINCIPAL)
            if not isinstance(principal, Principal):
                raise MCPError(types.INVALID_REQUEST, "not signed in")
            offers = replace(offers, principal=principal)
        why = offers.policy.lacks(offers.principal, right)
        if why:
            raise MCPError(types.INVALID_REQUEST, why)
        return offers

    async def list_tools(self, context: Any, _params: Any) -> Any:
        """Returns all tools, in one page."""
        self._admitted(context, "read")
        again = types.Tool(
            name=RESUME,
            description="Carry on a run that waited or was interrupted, and get its result; also "
            "that of a run that has ended. The first message of a call's progress names its run.",
            input_schema=_RUN,
            annotations=types.ToolAnnotations(destructive_hint=False, idempotent_hint=True),
        )
        tools = [described(offer) for offer in self._offers.by_name.values()]
        return types.ListToolsResult(tools=[*tools, again])

    async def call_tool(self, context: Any, params: Any) -> Any:
        """Runs a tool, or continues its run with the user's answers."""
        schema, arguments = self.schema(params.name), dict(params.arguments or {})
        if schema is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name!r}")
        try:
            wrong = list(not_finite(arguments))
            if wrong:
                raise BadArguments([f"{wrong[0]}: NaN and Infinity are no numbers of JSON"])
            SchemaCheck(schema)(arguments)
        except BadArguments as error:
            return tool_result(str(error), failed=True)
        offers = self._admitted(context, "start")
        reporter = ProgressReporter(context)
        try:
            # The package seals the state (`RequestStateBoundary`), so a client cannot forge it.
            begun = ""
            if params.request_state and params.input_responses:
                begun = params.request_state
                # Checks the owner of the run before a decision.
                offer = await offers.first(begun)
                if not await self._decided(offers, begun, params.input_responses):
                    # A dismissed question is not asked again.
                    return waiting_result(await offer.agent.result(begun))
            elif params.name == RESUME:
                begun = str(arguments["run_id"])
            if takes_tasks(context):
                run = begun or await offers.begin(params.name, arguments)
                return await self._tasked(offers, context, run, reporter, anew=bool(begun))
            if begun:
                result = await offers.resume(begun, reporter)
            else:
                result = await offers.run(params.name, arguments, reporter)
            return await self._ended(offers, context, result, reporter)
        except (ConfigError, Refused, Conflict, RunError) as error:
            return tool_result(str(error), failed=True)
        finally:
            await reporter.close()

    async def _tasked(
        self, offers: Offers, context: Any, run: str, reporter: ProgressReporter, *, anew: bool
    ) -> Any:
        """Returns the result if the run ends soon, else a task.

        `anew`: the run was begun before.
        """
        if anew:
            await self.tasks.reopen(offers, run)
        if not await self.tasks.soon(offers, run, reporter):
            return await self.tasks.created(offers, run)
        offer = await offers.first(run)
        result = await offer.agent.result(run)
        if result.status == "waiting" and not (self._elicit and can_ask(context)):
            # The decision is made elsewhere, so the client gets a task.
            return await self.tasks.created(offers, run)
        return await self._ended(offers, context, result, reporter)

    async def _ended(
        self, offers: Offers, context: Any, result: RunResult[Any], reporter: "ProgressReporter"
    ) -> Any:
        """Returns the result for the client. Asks the client for approvals if it can."""
        while result.status == "waiting" and result.pending:
            waiting = result.pending[0]
            if not self._elicit or not can_ask(context):
                return waiting_result(result)
            # The call returns the questions; the client repeats it with the answers.
            if str(context.protocol_version) >= "2026":
                params = types.ElicitRequestFormParams(
                    message=question_text(waiting), requested_schema=answer_form(waiting)
                )
                elicitation = types.ElicitRequest(params=params)
                return types.InputRequiredResult(
                    input_requests={waiting.id: elicitation}, request_state=result.run_id
                )
            reply = await context.session.elicit_form(
                question_text(waiting), answer_form(waiting), related_request_id=context.request_id
            )
            decision = decision_of(waiting, reply.action, reply.content or {})
            if decision is None:
                return waiting_result(result)
            await offers.decide(waiting, decision)
            result = await offers.resume(result.run_id, reporter)
        if result.status == "waiting":
            return waiting_result(result)
        return final_result(await offers.first(result.run_id), result)

    async def get_task(self, context: Any, params: Any) -> Any:
        """Returns the task: its progress, its questions, or its result."""
        offers = self._admitted(context, "read")
        asks = self._elicit and can_ask(context)
        return await self._of_task(self.tasks.seen(offers, params.task_id, asks=asks))

    async def update_task(self, context: Any, params: Any) -> Any:
        """Records the user's answers to a task."""
        offers = self._admitted(context, "start")
        inputs: Mapping[str, Any] = params.input_responses or {}
        responses = {
            key: types.ElicitResult.model_validate(response) for key, response in inputs.items()
        }
        return await self._of_task(self._updated(offers, params.task_id, responses))

    async def _updated(self, offers: Offers, run: str, responses: Mapping[str, Any]) -> Any:
        offer = await offers.first(run)
        await self._decided(offers, run, responses)
        self.tasks.drive(offers, run, offer.agent)
        return types.EmptyResult()

    async def cancel_task(self, context: Any, params: Any) -> Any:
        """Requests the cancellation of a task's run."""
        offers = self._admitted(context, "cancel")
        return await self._of_task(self.tasks.cancel(offers, params.task_id))

    async def _of_task(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Returns the result of `work`. Converts its errors to protocol errors."""
        try:
            return await work
        except (ConfigError, Refused, Conflict, RunError, ValueError) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None

    async def _decided(self, offers: Offers, run: str, responses: Mapping[str, Any]) -> bool:
        """Records the client's answers in the run's inbox.

        Returns False if a question was dismissed without an answer.
        """
        dismissed = False
        waiting = {approval.id: approval for approval in await control.pending(offers.log, run)}
        for name, reply in responses.items():
            decided = waiting.get(name)
            if decided is None:
                continue  # answered before, or elsewhere
            content: Any = getattr(reply, "content", None)
            decision = decision_of(decided, str(getattr(reply, "action", "")), content or {})
            if decision is None:
                dismissed = True
            else:
                await offers.decide(decided, decision)
        return not dismissed


async def serve_stdio(server: Any) -> None:
    """Serves a client over standard input and output until it disconnects.

    Other output goes to standard error, because it would break the protocol.
    """
    async with stdio_server() as (reading, writing):
        # Inside the block `stdio_server` already holds the real standard output.
        with redirect_stdout(sys.stderr):
            await server.run(reading, writing, server.create_initialization_options())


Authenticate: TypeAlias = Callable[[Any], Principal | None]
"""`(ASGI scope) -> principal of the request`; None = unknown, and the response is 401."""


def http_app(
    server: Any,
    authenticate: Authenticate,
    host: str = "127.0.0.1",
    hosts: Iterable[str] = (),
) -> Any:
    """Makes an ASGI application for streamable HTTP at `/mcp`, with its lifespan.

    Every request needs a principal, so `authenticate` has no default. A session belongs to the
    principal that opened it, who may have 32 at once. A Host other than this machine or one of
    `hosts` (names of a proxy), or a foreign Origin, is refused.
    """
    names = [*_HERE, host, *checked_names(hosts, "hosts")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[text for name in names for text in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{text}"
            for scheme in ("http", "https")
            for name in names
            for text in (name, f"{name}:*")
        ],
    )
    inner = server.streamable_http_app(
        streamable_http_path=PATH, host=host, transport_security=security
    )

    sessions = BoundedSessions(inner)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        principal = authenticate(scope)
        if principal is None:
            bearer = (b"www-authenticate", b"Bearer")
            await refused(send, 401, "unauthorized", "send a bearer token", bearer)
            return
        token = AccessToken(
            token="", client_id=principal.id, scopes=list(principal.roles), subject=principal.id
        )
        scope_of_user = {**scope, PRINCIPAL: principal, "user": AuthenticatedUser(token)}
        await sessions(principal.id, scope_of_user, receive, send)

    return app

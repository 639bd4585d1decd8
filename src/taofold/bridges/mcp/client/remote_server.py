"""`RemoteServer`: the client of one MCP server, a local program or a URL.

It lists and calls tools, reads prompts and resources, and watches resources for changes.
`connection` reconnects, `session` implements the protocol. Runs on the connections' event loop.
Before each call the tool's current definition is compared with the accepted one
(`definitions.Pins`); a change needs the user's approval. A call may return `questions` or become a
task (`tasks`); both are handled here until the outcome.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import Any, Final

import msgspec

from taofold.bridges.foreign_tools import server_parameters
from taofold.bridges.mcp.client import content, definitions
from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.connection import ServerConnection, Unreachable
from taofold.bridges.mcp.client.definitions import Definition, Pins, offered_definition
from taofold.bridges.mcp.client.questions import (
    ELICIT,
    ROOTS,
    SAMPLE,
    OpenCall,
    OpenCalls,
    PendingQuestions,
    ServerInputs,
    Unaskable,
    pending_questions,
    questions_of,
)
from taofold.bridges.mcp.client.session import (
    TOOLS_CHANGED,
    URL_REQUIRED,
    McpSession,
    SessionHandlers,
)
from taofold.bridges.mcp.client.tasks import RemoteTask, TaskGone, task_of
from taofold.bridges.mcp.sdk import TASK, code, load, plain
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip, visible
from taofold.tools import DefinitionChanged, InputRequired, Outcome, RunContext

FRESH_S: Final = 60.0
"""Minimum seconds for which a list counts as fresh."""
STALE_S: Final = 300.0
"""Seconds for which a list counts as fresh if the server sets no time."""
AWAY_S: Final = 1.0
"""Seconds until a watched server is contacted again."""
MOST_PAGES: Final = 100
MOST_TOOLS: Final = 512
"""Maximum tools of one server."""
MOST_ROUNDS: Final = 32
"""Maximum rounds of questions in one call."""
MOST_REPORTS: Final = 1_000
"""Maximum progress reports of one call; further reports are dropped."""
REPORT_CHARS: Final = 500
"""Maximum characters of a progress report."""
ACCEPT: Final = "accept"
OLD_WAY: Final = ("server-initiated requests is unavailable", "no back-channel")
"""Error texts of servers that ask in the old way on a connection of the new protocol."""
_LATE: Final = 5.0
_EARLY: Final = 0.25
"""A call cancelled in this many seconds before its deadline counts as timed out."""


class RemoteServer:
    """The client of one MCP server."""

    def __init__(
        self,
        name: str,
        address: ServerAddress,
        pins: Pins,
        *,
        mode: str,
        connect_timeout: float,
        selection: frozenset[str] | None = None,
        offer: ServerInputs = ServerInputs(),
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.address, self.pins = name, address, pins
        self._changed_list = changed
        self.offer = offer
        self._selection = selection
        self._seconds = connect_timeout
        self._open_calls = OpenCalls(name)
        self.connection = ServerConnection(
            address,
            mode,
            connect_timeout,
            SessionHandlers(
                elicit=self._open_calls.asked,
                hear=self._heard,
                sample=self._open_calls.sampled if offer.sampling else None,
                roots=self._roots if offer.roots else None,
            ),
        )
        self.skipped: tuple[str, ...] = ()
        """Tools that could not be offered, with reasons."""
        self.names: tuple[str, ...] = ()
        """Names of all tools that the server lists."""
        self.instructions = ""
        self.lacks: frozenset[str] = frozenset()
        """The kinds, of resources and prompts, that the server does not declare."""
        self._watchers: list[Callable[[str], None]] = []
        self._listed: dict[str, Definition] = {}
        self._until = 0.0
        self._opened = -1

    async def tools(self) -> list[Definition]:
        """Returns the accepted tools and new, unaccepted ones.

        At the first contact with the server, all listed tools are accepted.

        Raises:
            Unreachable: The server cannot be reached, and no tools are accepted.
        """
        try:
            listed = await self.listed()
        except Unreachable:
            # While the server is away the accepted definitions are used, and its calls fail.
            if not self.pins.known():
                raise
            return list(self.pins.known().values())
        if not self.pins.met:
            self.pins.add(listed.values())
        return offered_definition(self.pins.known(), listed.values())

    @property
    def stale(self) -> bool:
        """True if the list of tools must be read again."""
        return self._opened >= 0 and monotonic() >= self._until

    async def listed(self) -> dict[str, Definition]:
        """Returns the listed tools; reads them again after a reconnection or when they are
        stale.
        """
        session = await self.connection.session()
        # After a reconnection the server may be another version.
        if self._opened == self.connection.opened and monotonic() < self._until:
            return self._listed
        # Read before listing, so that a reconnection during it makes the list stale.
        opened = self.connection.opened
        try:
            async with asyncio.timeout(self._seconds):
                listed, seconds = await self.connection.use(self._all)
        except (Unreachable, ConfigError):
            raise
        except TimeoutError:
            text = f"{self.address.words} did not list its tools within {self._seconds:g} s"
            raise Unreachable(text) from None
        except Exception as error:  # any fault in the server's list
            text = f"the tools of {self.name!r} cannot be listed: {clip(str(error), 300)}"
            raise Unreachable(text) from error
        known = self._listed
        self._listed, self._until, self._opened = listed, monotonic() + seconds, opened
        if known and known != listed:
            self._changed_list()
        self.instructions = visible(session.instructions)
        self.lacks = frozenset([n for n in ("resources", "prompts") if not session.declares(n)])
        return listed

    async def _all(self, session: McpSession) -> tuple[dict[str, Definition], float]:
        cursor, listed, skipped, seconds = None, dict[str, Definition](), list[str](), STALE_S
        names: list[str] = []
        for _ in range(MOST_PAGES):
            page = await session.listed("tools", cursor)
            for raw in page.tools:
                names.append(str(raw.name))
                if self._selection is not None and names[-1] not in self._selection:
                    continue
                definition = definitions.read(raw)
                execution = raw.execution
                if execution and execution.task_support == "required" and not session.modern:
                    name = visible(names[-1])[:80]
                    skipped.append(f"{name!r}: it runs only as a task of an older version")
                elif isinstance(definition, str):
                    skipped.append(visible(definition))
                elif len(listed) < MOST_TOOLS:
                    listed[definition.name] = definition
                else:
                    text = f"more than {MOST_TOOLS} tools, name those you want with tools="
                    skipped.append(f"{visible(definition.name)[:80]!r}: {text}")
            if session.modern:
                # The shortest time of all pages, but not so short that every call reads the list.
                seconds = min(seconds, max(FRESH_S, page.ttl_ms / 1000))
            cursor = page.next_cursor
            if not cursor:
                break
        self.skipped, self.names = tuple(skipped[:MOST_TOOLS]), tuple(names[:MOST_TOOLS])
        return listed, seconds

    async def _heard(self, message: Any) -> None:
        """Handles a notification. A changed list is read again before the next call."""
        match getattr(message, "method", None):
            case method if method == TOOLS_CHANGED:
                self._until = 0.0
                self._changed_list()
            case "notifications/resources/updated":
                for hear in self._watchers:
                    hear(str(message.params.uri))
            case _:
                pass

    async def _roots(self, _context: Any) -> Any:
        """Returns the folders for a server of an older protocol version."""
        return self.offer.folders()

    async def watch(self, uris: Sequence[str], hear: Callable[[str], None]) -> None:
        """Calls `hear` for each change of these resources, without end.

        After a lost connection it is called for all of them, because changes may have been missed.

        Raises:
            Unreachable: The server cannot be reached at the start.
            Exception: A protocol error: the server does not support the subscription.
        """

        def heard(uri: str) -> None:
            if uri in uris:
                hear(uri)

        self._watchers.append(heard)
        try:
            await self.connection.session()
            while True:
                with suppress(Unreachable):
                    await self.connection.use(lambda session: session.watch(uris, heard))
                await asyncio.sleep(AWAY_S)
                with suppress(Unreachable):
                    await self.connection.session()
                    for uri in uris:
                        hear(uri)
        finally:
            self._watchers.remove(heard)

    async def call(
        self,
        pinned: Definition,
        ctx: RunContext[Any],
        parameters: dict[str, Any],
    ) -> Outcome:
        """Calls the tool, or raises a question to the user first.

        If the call became a task before the run was resumed, it is not repeated: the task is asked
        for its result.

        Raises:
            InputRequired: The server or a change of the tool needs the user's answer.
            DefinitionChanged: `pinned`, for which the call was approved, is no longer the accepted
                definition.
        """
        until = monotonic() + ctx.timeout_s - _EARLY
        try:
            task = task_of(ctx)
            if task:
                return await self._followed(task, pinned, ctx, until)
            now = (await self.listed()).get(pinned.name)
            if now is None:
                return Outcome(f"{self.name} does not offer {pinned.name!r} any more", "failure")
            refusal = self._changed(pinned, now, ctx)
            if refusal:
                return Outcome(refusal, "failure")
            # The parameters were checked when the call was bound: the schema is that of `pinned`.
            arguments = server_parameters(parameters)
            return await self._made(now, arguments, ctx, until)
        except TaskGone as error:
            return Outcome(visible(str(error)), "failure")
        except Unaskable as error:
            return Outcome(f"{error}; the call was not completed", "failure")
        except Unreachable as error:
            more = "; it may have happened" if error.maybe else ""
            return Outcome(f"{visible(str(error))}{more}", "failure")

    def _changed(self, pinned: Definition, now: Definition, ctx: RunContext[Any]) -> str:
        """Returns why the current tool must not be called, or "".

        Raises:
            InputRequired: The tool is changed or new since the server was accepted.
            DefinitionChanged: It is accepted, but the call was approved for an older definition.
        """
        answer = ctx.answer
        state: Any = None if answer is None else answer.state
        was_asked = answer is not None and is_object(state) and state.get(ACCEPT) == now.digest
        if answer is not None and was_asked and not answer.accepted:
            return f"{pinned.name!r} was not accepted as it is now: it was not called"
        accepted: Definition | None = None
        for fresh in (False, True):  # another process may have accepted it since
            accepted = self.pins.known(fresh=fresh).get(pinned.name)
            if accepted is not None and now.digest == accepted.digest:
                break
        else:
            if was_asked:
                # The digest in the state proves that the user saw this definition.
                self.pins.add([now])
                accepted = now
        if accepted is not None and now.digest == accepted.digest:
            if now.digest == pinned.digest:
                return ""
            # The bound tool has the tier, effect and schema of another definition.
            raise DefinitionChanged(
                f"{pinned.name!r} was changed by its server and accepted since this call was "
                "allowed: it was not called; look at it and call it again",
                accepted=was_asked,
            )
        if accepted is None:
            news = f"has a new tool {pinned.name!r}: {definitions.summary(now)}"
        else:
            changes = "; ".join(definitions.differences(accepted, now))
            news = f"changed its tool {pinned.name!r} since it was accepted: {changes}"
        raise InputRequired(
            f"the server {self.name!r} {news}. "
            "Approve to accept the tool as it is now and call it; deny to leave it.",
            state={ACCEPT: now.digest},
        )

    async def _made(
        self, now: Definition, arguments: dict[str, Any], ctx: RunContext[Any], until: float
    ) -> Outcome:
        question = pending_questions(ctx.answer)
        if question is not None and ctx.answer is not None:
            question.hear(ctx.answer)
            question.next()
        for _ in range(MOST_ROUNDS):
            result = await self._sent(now, arguments, ctx, question)
            if isinstance(result, Outcome):
                return result
            if result.result_type != "input_required":
                break
            requests: dict[str, Any] = result.input_requests or {}
            question = questions_of(self.name, requests, self.offer, sealed=result.request_state)
            question.next()
            if not requests:
                return Outcome("the server asks for nothing and does not go on", "failure")
        else:
            return Outcome("the server asks too many questions", "failure")
        if result.result_type == TASK:
            if ctx.keep is not None:
                # A task that cannot be recorded is still followed, but not after a crash.
                with suppress(ValueError):
                    await ctx.keep({TASK: result.task_id})
            return await self._followed(result.task_id, now, ctx, until)
        return self._came(now, result)

    async def _sent(
        self,
        now: Definition,
        arguments: dict[str, Any],
        ctx: RunContext[Any],
        question: PendingQuestions | None,
    ) -> Any:
        """Sends the call with the answers so far. Returns a result of the package, or an outcome.

        Raises:
            InputRequired: The server asks during the call, and no user is present.
        """
        responses: dict[str, Any] | None = None
        if question is not None and not question.legacy and question.done:
            responses = _responses(question, await question.responses(ctx.sample))

        reports = count()

        async def progress(done: float, total: float | None, text: str | None) -> None:
            # Reports are stored for a timeout's observation, so their number is limited.
            if next(reports) < MOST_REPORTS:
                of = "" if total is None else f"/{total:g}"
                ctx.report(f"{done:g}{of} {visible((text or '')[:REPORT_CHARS])}".strip() + "\n")

        async def send(session: McpSession) -> Any:
            return await session.call(
                now.name,
                arguments,
                # The caller has its own deadline, which excludes waiting for users and models.
                None if ctx.ask or self.offer.sampling else ctx.timeout_s + _LATE,
                progress,
                responses=responses,
                sealed=None if question is None or question.legacy else question.sealed,
            )

        open_call = OpenCall(
            {} if question is None or not question.legacy else dict(question.done),
            ask=ctx.ask,
            sample=ctx.sample,
        )
        try:
            result: Any = await self._open_calls.perform(
                open_call, lambda: self.connection.use(send)
            )
        except Exception as error:
            if isinstance(error, Unreachable | Unaskable):
                raise
            # Many servers report a cancelled question as an error, so the question comes first.
            self._open(open_call, question)
            return self._failed(error, question)
        self._open(open_call, question)
        return result

    def _open(self, open_call: OpenCall, question: PendingQuestions | None) -> None:
        """Raises an unanswered question of an older protocol version to the user.

        Raises:
            InputRequired: There is such a question.
        """
        if open_call.open_request is None:
            return
        asks = {
            **({} if question is None else question.asks),
            open_call.key: open_call.open_request,
        }
        methods = {} if question is None else dict(question.methods)
        if open_call.method != ELICIT:
            methods[open_call.key] = open_call.method
        PendingQuestions(
            self.name, asks, legacy=True, done=open_call.answers, repeats=True, methods=methods
        ).next()

    async def _followed(
        self, task: str, now: Definition, ctx: RunContext[Any], until: float
    ) -> Outcome:
        """Returns the outcome of the task `task` that the call became."""
        question = pending_questions(ctx.answer)
        if question is not None and ctx.answer is not None and question.task:
            question.hear(ctx.answer)
            question.next()
        else:
            question = None
        remote = RemoteTask(self.name, self.connection, task, until, self.offer)
        return self._came(now, await remote.ended(ctx, question))

    def _came(self, now: Definition, result: Any) -> Outcome:
        """Returns the outcome of a completed call."""
        odd = "" if result.is_error else now.misshapen(result.structured_content)
        # A structured result that violates its schema would be read as valid data.
        if odd:
            text = f"the result of {now.name!r} is not what its server promised: {odd}"
            return Outcome(text, "failure")
        return self._hinted(content.outcome(result))

    def _hinted(self, outcome: Outcome) -> Outcome:
        """Adds a hint if the server asked in a way that its protocol version does not have."""
        text = str(outcome.value).lower()
        if outcome.status != "failure" or not any([each in text for each in OLD_WAY]):
            return outcome
        hint = 'it asks people in the older way: set mode="legacy" (in a file elicitation: legacy)'
        return msgspec.structs.replace(outcome, value=f"{outcome.value} ({hint})")

    def _failed(self, error: Exception, question: PendingQuestions | None) -> Outcome:
        """Returns the outcome for a protocol error. Some errors are questions."""
        held: Any = getattr(error, "data", None)
        if code(error) == URL_REQUIRED and is_object(held) and is_array(held.get("elicitations")):
            done = {} if question is None else question.done
            asks: dict[str, dict[str, Any]] = {
                str(elicitation.get("elicitationId", n)): {**elicitation, "mode": "url"}
                for n, elicitation in enumerate(held["elicitations"])
                if is_object(elicitation)
            }
            PendingQuestions(self.name, asks, legacy=True, done=done).next()
        number = code(error)
        kind = type(error).__name__ if number is None else f"error {number}"
        text = f"the server {self.name!r}: {kind}: {str(error)[:2000]}"
        return self._hinted(Outcome(text, "failure"))

    async def read(self, uri: str) -> Outcome:
        """Returns the contents of a resource as text and media."""
        answer = await self.connection.use(lambda session: session.read(uri))
        return content.read_contents(answer.contents)

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Returns a filled-in prompt, one line for each message."""
        answer = await self.connection.use(lambda session: session.prompt(name, arguments))
        return content.bounded("\n".join(map(content.message, answer.messages)))

    async def pages(self, what: str) -> list[dict[str, Any]]:
        """Returns all listed resources or prompts, as JSON."""

        async def all_(session: McpSession) -> list[dict[str, Any]]:
            cursor, entries = None, list[dict[str, Any]]()
            for _ in range(MOST_PAGES):
                page = await session.listed(what, cursor)
                entries += [plain(entry) for entry in getattr(page, what)]
                cursor = page.next_cursor
                if not cursor or len(entries) >= MOST_TOOLS:
                    break
            return entries[:MOST_TOOLS]

        return await self.connection.use(all_)


def _responses(question: PendingQuestions, answers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the answers as results of the package."""
    types = load("mcp.types")
    kinds = {SAMPLE: types.CreateMessageResult, ROOTS: types.ListRootsResult}
    return {
        key: kinds.get(question.methods.get(key, ""), types.ElicitResult).model_validate(answer)
        for key, answer in answers.items()
    }

"""A server's parts, put together: the log, the agents, who drives, who watches, who may; and what
may be set of it (`Settings`).

`Server` is what handlers work with, also for their questions about one caller: may he see the run,
which session is his. It opens no port; `taofold serve` and tests do. `Worker` begins runs and
advances them; an engine decides when, the worker with which agent, as whom, and who hears of it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Unpack, cast

from taofold.agent.activation import Activation
from taofold.agent.options import StartOptions
from taofold.agent.result import ANSWERING
from taofold.clocks import clock
from taofold.core.errors import Refused, UnknownRun
from taofold.core.events import RunStarted
from taofold.core.happenings import Happening
from taofold.core.state import opening
from taofold.core.values import Principal
from taofold.engine import Engine, RemoteEngine, open_engine
from taofold.foreign_code import contained
from taofold.learning.registry import Registry
from taofold.log.journal import Journal
from taofold.log.log import Log, RunRow
from taofold.policy import Policy
from taofold.policy.redaction import Redactor
from taofold.policy.roles import Right, may
from taofold.runtime import control
from taofold.runtime.endings import Advanced
from taofold.runtime.setup import Approval, Pause
from taofold.server.api.mcp_signins import SignIns
from taofold.server.auth import Authenticator, LocalToken, Signin, TokenStore
from taofold.server.catalog import AnyAgent, Catalog, Rebuild
from taofold.server.endpoint import Problem
from taofold.server.middleware import Audit, Counts, RateLimiter
from taofold.server.streams.hub import Hub
from taofold.server.streams.relay import Broadcast, Relay
from taofold.server.streams.response import Watching
from taofold.shared_document import Shared
from taofold.tools.attachments import Prompt
from taofold.views import LOCAL, inner_session


class Worker:
    """The server's part in driving runs."""

    def __init__(
        self, log: Log, catalog: Catalog, hub: Hub, *, current: Callable[[Principal], Principal]
    ) -> None:
        """`current` returns a run's principal with the roles that it has today."""
        self._log, self._catalog, self._hub, self._current = log, catalog, hub, current
        self._begun = OrderedDict[str, tuple[Activation, RunStarted]]()
        """Runs that were begun here and not yet advanced: another process may advance one first."""

    async def begin(
        self,
        engine: Engine,
        agent: AnyAgent,
        run: str,
        goal: Prompt,
        *,
        principal: Principal = Principal(),
        **options: Unpack[StartOptions],
    ) -> None:
        """Start a run and return as soon as it is in the log.

        Raises:
            Conflict: its session has another run that has not ended, or its id is taken.
            ConfigError: it cannot be started so.
            Refused: the server stops.
        """
        # Refused, not queued: what began now would only be parked by the shutdown.
        if engine.stopping:
            raise Refused("the server stops: ask another one, or ask again")
        activation = await self._activation(agent, run, principal)
        # In the log first, woken second. A crash between
        # the two leaves a due run that any engine finds.
        _, started = await activation.begin(goal, run_id=run, **options)
        self._begun[run] = activation, started
        if len(self._begun) > _BEGUN:
            self._begun.popitem(last=False)
        await engine.wake(run)

    async def offered(self, run: str) -> bool:
        """Was the run started by a server that offers its agent as this one does?"""
        try:
            return self._catalog.ours(await self._started(run))
        except UnknownRun:
            return False

    async def advance(self, run: str, pause: Pause) -> Advanced:
        """Advance a run with the agent that it was started with, and tell who watches."""
        begun = self._begun.pop(run, None)
        if begun is None:
            started = await self._started(run)
            agent = self._catalog.of(run, started)
            activation = await self._activation(agent, run, started.principal)
        else:
            activation, started = begun
        agent = activation.agent
        # With today's roles, not those of the start: a token that lost a role loses it here too.
        activation.act_for(self._current(started.principal))

        def tools() -> list[str]:
            # Asked for at the first delta: servers of tools have been asked by then.
            return list(agent.toolset)

        head = (await self._log.row(run)).events
        self._hub.begin(run, head, tools if agent.strategy in ANSWERING else None)
        try:
            return await activation.advance(run, pause, started)
        finally:
            # In this order: those who watch then read from the log what was not heard.
            self._hub.forget(run)
            self._hub.poke(run)

    async def _activation(self, agent: AnyAgent, run: str, principal: Principal) -> Activation:
        """Returns the agent, ready to drive the run; the hub gets what happens in it."""

        def heard(happening: Happening) -> None:
            self._hub.hear(run, happening)

        await agent.load_toolset()
        return Activation(agent, None, principal, heard)

    async def _started(self, run: str) -> RunStarted:
        started = opening(await self._log.read(run, limit=1))
        if started is None:
            raise UnknownRun(f"run {run!r} never began")
        return started


_REMEMBERED: Final = 5000
_BEGUN: Final = 1000
CHAT_SECONDS: Final = 300.0
"""How long an approval is open, if the agent's policy does not say (D10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What may be set. Times in seconds, sizes in bytes."""

    policy: Policy = Policy()
    """The operator's: which role gives which right, where no agent's policy is asked."""
    hosts: frozenset[str] = frozenset()
    """Host names besides those of this machine."""
    origins: frozenset[str] = frozenset()
    """Origins of other pages that may use the API (CORS); none by default."""
    approve_seconds: float = CHAT_SECONDS
    """How long an approval is open if the agent's policy does not say; 0 = for ever."""
    most_runs: int = 200
    """Runs driven at once; more of them wait in the log. 0 leaves all to other processes."""
    engine: str = ""
    """What decides which process drives a run: see `open_engine`."""
    most_streams: int = 4000
    """Event streams at once; half of them for one principal."""
    look_again_s: float = 1.0
    """How often it is asked whether who watches a run may still do so."""
    body_bytes: int = 256 * 1024
    body_s: float = 15.0
    """How long a request may take to arrive."""
    upload_bytes: int = 24 << 20
    """Of a request that may hold files, which come as base64: 18 MB of them."""
    upload_s: float = 60.0
    most_uploads: int = 4
    """Requests with files that are read at once: each is held in memory."""
    requests_per_s: float = 100.0
    """Of one principal, and from one address before it is known who it is."""
    requests_burst: float = 400.0
    failures_burst: float = 20.0
    """Wrong credentials from one address at once; one more every six seconds."""
    grace_s: float = 5.0
    """How long a client may be gone before its run is cancelled, if it asked for that."""
    wait_s: float = 60.0
    """How long `on_busy: wait` waits for the session."""
    ping_s: float = 15.0
    send_s: float = 30.0
    """A client that takes nothing for so long is dropped; it may come back and go on."""
    stop_s: float = 10.0
    """How long runs may take to come to a place where they can wait, when the server stops."""
    look_s: float = 1.0
    """How often waiting runs are looked at."""
    tail_s: float = 0.2
    """How often a watched run of another process is looked at."""


class Server:
    """Everything that handlers need."""

    def __init__(
        self,
        log: Log,
        agents: Mapping[str, AnyAgent],
        *,
        settings: Settings = Settings(),
        tokens: TokenStore | None = None,
        local: LocalToken | None = None,
        folder: Path | None = None,
        sessions: Path | Shared | None = None,
        journal: Journal | None = None,
        registry: Registry | None = None,
        rebuild: Rebuild | None = None,
        now: Callable[[], int] = clock,
    ) -> None:
        """`folder` keeps the audit, `sessions` who is signed in; None: only in memory.

        A file of sessions must not lie in the project, whose repository may bring one.

        `local` is the secret of this machine's user; None: one of the server's own, in memory.

        Raises:
            ConfigError: the sessions cannot be read; the engine cannot be opened.
        """
        self.log, self.settings, self.now = log, settings, now
        self.journal, self.registry = journal, registry
        self.folder = folder
        self.tokens = tokens or TokenStore()
        self.local = local or LocalToken()
        self.catalog = Catalog(
            agents, log, approve_seconds=settings.approve_seconds, rebuild=rebuild
        )
        self.hub = Hub(log, driven=self._drives, look_s=settings.tail_s)
        self.worker = Worker(log, self.catalog, self.hub, current=self.tokens.current)
        self.engine = self._engine()
        offered = [self.catalog[name] for name in self.catalog.names]
        self.redactor = Redactor(self.catalog.secrets)
        """Knows the secrets of every agent that is offered, and the environment's."""
        self.signins = SignIns(offered)
        self.audit = Audit(
            folder / "audit.jsonl" if folder else None,
            now=now,
            secrets=self.redactor.known,
        )
        self.signin = Signin(self.tokens, sessions, now)
        self.audit.check()
        # Fails at the start instead of at the first request, when everybody would be signed out.
        self.signin.active()
        self.authenticator = Authenticator(
            self.tokens, self.signin, self.local, settings.hosts, settings.origins
        )
        self.rates = RateLimiter(settings.requests_per_s, settings.requests_burst)
        # One more failure every six seconds.
        self.failures = RateLimiter(1 / 6, settings.failures_burst)
        self.counts = Counts()
        self.watching = Watching(settings.most_streams)
        self._asked = OrderedDict[str, tuple[int, list[Approval]]]()
        self._uploads = 0
        self._deafen: Callable[[], None] = lambda: None
        self.tickets: dict[str, list[object]] = {}
        """Requests that wait for a session."""

    @contextmanager
    def uploading(self) -> Generator[None]:
        """While a request with files is read.

        Raises:
            Problem: 503, too many are being read.
        """
        if self._uploads >= self.settings.most_uploads:
            retry = {"Retry-After": "2"}
            raise Problem(503, "busy", "too many files are being uploaded", headers=retry)
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1

    def _engine(self) -> Engine:
        # Nothing is driven here: runs are only begun, and workers elsewhere take them.
        if not self.settings.most_runs:
            return RemoteEngine(self.log)
        return open_engine(
            self.settings.engine,
            self.log,
            self.worker.advance,
            now=self.now,
            ours=self.worker.offered,
            agents=self.catalog.names,
            most=self.settings.most_runs,
            look_s=self.settings.look_s,
        )

    @property
    def streams(self) -> int:
        """How many event streams are open."""
        return self.watching.total

    def _drives(self, run: str) -> bool:
        return self.engine.drives(run)

    async def start(self) -> None:
        """Continue what an earlier server left, and hear of what other processes write."""
        hear = getattr(self.log, "on_change", None)
        if hear is not None:
            loop = asyncio.get_running_loop()

            def heard(run: str) -> None:
                with suppress(RuntimeError):  # the server has stopped
                    loop.call_soon_threadsafe(self._changed, run)

            # Called from the log's own thread (LISTEN of
            # PostgreSQL), hence the hop into the loop.
            self._deafen = await asyncio.to_thread(hear, heard)
            self.hub.hears_changes = True
        wire = self.log
        if hasattr(wire, "broadcast"):
            relay = Relay(cast(Broadcast, wire), self.hub)
            await relay.start()
            self.hub.relay = relay
        # After listening: what is written while the engine looks for left runs is heard.
        await self.engine.start()

    def _changed(self, run: str) -> None:
        """The status or the inbox of `run` changed; "" = of any."""
        self.hub.poke(run)
        self.engine.nudge()

    async def stop(self) -> None:
        """Let every run come to a place where it can wait."""
        self._deafen()
        self.signins.close()
        await self.engine.stop(self.settings.stop_s)
        # Runs first: what they do while they stop is still streamed and audited.
        await self.hub.close()
        self.audit.close()

    async def asked(self, row: RunRow) -> list[Approval]:
        """The open questions of a run. Remembered for as long as nothing happens in it."""
        events, questions = self._asked.get(row.run, (-1, []))
        # A log only grows, so the number of events tells whether the questions can have changed.
        if events != row.events:
            readable = await control.pending_if_readable(self.log, row.run)
            if readable is None:
                return []  # not remembered: the next reading may succeed
            questions = readable
            self._asked.pop(row.run, None)
            self._asked[row.run] = (row.events, questions)
            if len(self._asked) > _REMEMBERED:
                self._asked.popitem(last=False)
        return questions

    async def session(self, principal: Principal, name: str) -> str:
        """The session as the log names it."""
        return inner_session(principal, name)

    async def session_to_continue(self, principal: Principal, name: str) -> str:
        """The session as the log names it, for another run in it.

        Raises:
            Problem: 409, it was begun by this machine's user.
        """
        session = await self.session(principal, name)
        if not session or principal.id == LOCAL:
            return session
        # `ann/x`, written at the command line, is no conversation of ann's.
        if await self.log.rows(session=session, principal=LOCAL, limit=1):
            raise Problem(409, "session", "the session is another's: choose another name")
        return session

    async def agent_of(self, row: RunRow) -> AnyAgent | None:
        """The agent of the run that nobody's call started; None if it is not offered here."""
        name = (await control.root(self.log, row)).run
        started = opening(await self.log.read(name, limit=1))
        if started is None:
            return None
        try:
            with contained():
                return self.catalog.of(name, started)
        except Exception:  # noqa: BLE001 - whatever keeps an agent from being made
            return None

    def redactor_for(self, agent: AnyAgent | None) -> Redactor:
        """Takes out what people write to a run of `agent`, also of one that is not offered."""
        further = frozenset[str]() if agent is None else agent.known_secrets()
        secrets = frozenset(self.redactor.known)
        return self.redactor if further <= secrets else Redactor(secrets | further)

    def require(self, principal: Principal, right: Right) -> None:
        """Hold the principal's roles against the right.

        Raises:
            Problem: 403.
        """
        why = self.settings.policy.lacks(principal, right)
        if why:
            raise Problem(403, "not_allowed", why)

    async def sees(self, principal: Principal, row: RunRow) -> bool:
        """May the principal read the run? Its own, and what it may be asked to approve.

        Of a child run that is the word of whoever offers its root: the same agent may work for
        several that are offered, and not all of them show what they do.
        """
        if row.principal == principal.id:
            return True
        if not self.approves(principal):
            return False
        root = await control.root(self.log, row)
        return not root.parent and self._approves(principal, root.agent)

    def approves(self, principal: Principal) -> list[str]:
        """The names of agents on whose runs the principal may decide for others."""
        return [name for name in self.catalog.known if self._approves(principal, name)]

    def _approves(self, principal: Principal, agent: str) -> bool:
        """May the principal decide on other people's actions in runs of the agent?"""
        # `may` lets everybody pass an empty requirement; an empty `approvers` means nobody.
        # Of several agents that are offered under one name nobody knows which one ran: all must
        # agree.
        policies = self.catalog.policies(agent)
        return bool(policies) and all(
            policy.approvers and may(principal.roles, policy.approvers, policy.roles)
            for policy in policies
        )

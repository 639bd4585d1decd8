"""The parts of a server: log, agents, engine, streams, authentication, and `Settings`.

Handlers use `Server`, also to check whether a caller may see a run. It opens no port. `Worker`
begins and advances runs: an engine decides when, the worker sets the agent, the principal and the
listeners.
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
from taofold.agent.worktrees import placed
from taofold.clocks import clock
from taofold.core.errors import Refused, UnknownRun
from taofold.core.events import RunStarted
from taofold.core.file_states import place_of
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
from taofold.workspace.run_files import RunFiles


class Worker:
    """The server's part in driving runs."""

    def __init__(
        self,
        log: Log,
        catalog: Catalog,
        hub: Hub,
        *,
        current: Callable[[Principal], Principal],
        forks: Path | None = None,
    ) -> None:
        """Sets the parts. `current` returns a run's principal with its current roles.

        Runs whose files are below `forks` work there.
        """
        self._forks = forks
        self._log, self._catalog, self._hub, self._current = log, catalog, hub, current
        self._begun = OrderedDict[str, tuple[Activation, RunStarted]]()
        """Runs that were begun here and not advanced yet; another process may advance one first."""

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
        """Starts a run and returns when it is in the log.

        Raises:
            Conflict: Its session has another open run, or its id is in use.
            ConfigError: It cannot be started with these options.
            Refused: The server is stopping.
        """
        # Refused, because the shutdown would park the run at once.
        if engine.stopping:
            raise Refused("the server is stopping: use another one, or try again")
        activation = await self._activation(agent, run, principal)
        # Written to the log first. After a crash before the wake-up, any engine finds the due run.
        _, started = await activation.begin(goal, run_id=run, **options)
        self._begun[run] = activation, started
        if len(self._begun) > _BEGUN:
            self._begun.popitem(last=False)
        await engine.wake(run)

    async def offered(self, run: str) -> bool:
        """Returns whether a server with the same agent started the run."""
        try:
            return self._catalog.ours(await self._started(run))
        except UnknownRun:
            return False

    async def advance(self, run: str, pause: Pause) -> Advanced:
        """Advances a run with its agent, and informs its watchers."""
        begun = self._begun.pop(run, None)
        if begun is None:
            started = await self._started(run)
            agent = await self._placed(self._catalog.of(run, started), run)
            activation = await self._activation(agent, run, started.principal)
        else:
            activation, started = begun
        agent = activation.agent
        # With current roles, so that a removed role no longer applies.
        activation.act_for(self._current(started.principal))

        def tools() -> list[str]:
            # Read at the first delta, when the tools are known.
            return agent.callable_names

        head = (await self._log.row(run)).events
        self._hub.begin(run, head, tools if agent.strategy in ANSWERING else None)
        try:
            return await activation.advance(run, pause, started)
        finally:
            # In this order, so that watchers then read missed records from the log.
            self._hub.forget(run)
            self._hub.poke(run)

    async def _placed(self, agent: AnyAgent, run: str) -> AnyAgent:
        """Returns the agent in the folder into which this server restored the files of the run."""
        if agent.snapshot_folder is None or self._forks is None:
            return agent
        place = place_of(await self._log.read(run))
        # The log names the folder, so it counts only below the one that the owner configured.
        if not place or RunFiles.of(place).root.parent != RunFiles.of(self._forks).root:
            return agent
        source = RunFiles.of(agent.snapshot_folder).root
        return await asyncio.to_thread(placed, agent, source, RunFiles.of(place).root)

    async def _activation(self, agent: AnyAgent, run: str, principal: Principal) -> Activation:
        """Returns an activation of the agent whose events go to the hub."""

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
"""Default seconds until an approval expires, unless the agent's policy sets it (D10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server. Times are in seconds, sizes in bytes."""

    policy: Policy = Policy()
    """The operator's policy: the rights of roles where no agent's policy applies, and budgets of
    all runs that this server drives.
    """
    evidence_keys: tuple[bytes, ...] = ()
    """Public Ed25519 keys (32 bytes) whose signatures verify runs. Default: none."""
    forks: Path | None = None
    """Folder in which the files of forks are restored, each fork in its own. None: they are not."""
    hosts: frozenset[str] = frozenset()
    """Host names besides those of this machine."""
    origins: frozenset[str] = frozenset()
    """Foreign origins that may use the API (CORS). Default: none."""
    approve_seconds: float = CHAT_SECONDS
    """Seconds until an approval expires, unless the agent's policy sets it; 0 = never."""
    most_runs: int = 200
    """Maximum runs driven at once; others wait in the log. 0 leaves all to other processes."""
    engine: str = ""
    """The scheduler of runs; see `open_engine`."""
    most_streams: int = 4000
    """Maximum event streams; one principal may have half of them."""
    look_again_s: float = 1.0
    """Seconds between checks of a watcher's access."""
    body_bytes: int = 256 * 1024
    body_s: float = 15.0
    """Seconds for a request to arrive."""
    upload_bytes: int = 24 << 20
    """Maximum bytes of a request with files: 18 MB as base64."""
    upload_s: float = 60.0
    most_uploads: int = 4
    """Maximum concurrent requests with files, which are held in memory."""
    requests_per_s: float = 100.0
    """For each principal, and for each address before authentication."""
    requests_burst: float = 400.0
    failures_burst: float = 20.0
    """Failed attempts from one address at once; one more every six seconds."""
    grace_s: float = 5.0
    """Seconds after a disconnect until the run is cancelled, if the client requested that."""
    wait_s: float = 60.0
    """Seconds for which `on_busy: wait` waits for the session."""
    ping_s: float = 15.0
    send_s: float = 30.0
    """Seconds after which a client that reads nothing is dropped. It may reconnect."""
    stop_s: float = 10.0
    """Seconds for runs to reach a place where they can wait, when the server stops."""
    look_s: float = 1.0
    """Seconds between checks of waiting runs."""
    tail_s: float = 0.2
    """Seconds between reads of a watched run of another process."""


class Server:
    """The parts that handlers use."""

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
        """Makes the parts. `folder` stores the audit, `sessions` the sign-ins; None: in memory.

        A file of sessions must not be in the project, because a repository could contain one.
        `local` is the token of this machine's user; None: a token of this server, in memory.

        Raises:
            ConfigError: The sessions cannot be read, or the engine cannot be opened.
        """
        self.log, self.settings, self.now = log, settings, now
        self.journal, self.registry = journal, registry
        self.folder = folder
        self.tokens = tokens or TokenStore()
        self.local = local or LocalToken()
        self.catalog = Catalog(
            agents,
            log,
            approve_seconds=settings.approve_seconds,
            budgets=settings.policy.budgets,
            rebuild=rebuild,
        )
        self.hub = Hub(log, driven=self._drives, look_s=settings.tail_s)
        self.worker = Worker(
            log, self.catalog, self.hub, current=self.tokens.current, forks=settings.forks
        )
        self.engine = self._engine()
        offered = [self.catalog[name] for name in self.catalog.names]
        self.redactor = Redactor(self.catalog.secrets)
        """Knows the secrets of all served agents and of the environment."""
        self.signins = SignIns(offered)
        self.audit = Audit(
            folder / "audit.jsonl" if folder else None,
            now=now,
            secrets=self.redactor.known,
        )
        self.signin = Signin(self.tokens, sessions, now)
        self.audit.check()
        # Unreadable sessions are an error at the start, not at the first request.
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
        self.testing = asyncio.Lock()
        """Held by the test of a policy: one at a time."""
        self._deafen: Callable[[], None] = lambda: None
        self.tickets: dict[str, list[object]] = {}
        """Requests that wait for each session."""

    @contextmanager
    def uploading(self) -> Generator[None]:
        """Counts a request with files while it is read.

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
        # No runs are driven here: other workers drive them.
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
        """The number of open event streams."""
        return self.watching.total

    def _drives(self, run: str) -> bool:
        return self.engine.drives(run)

    async def start(self) -> None:
        """Resumes runs that an earlier server left, and listens to changes by other processes."""
        hear = getattr(self.log, "on_change", None)
        if hear is not None:
            loop = asyncio.get_running_loop()

            def heard(run: str) -> None:
                with suppress(RuntimeError):  # the server has stopped
                    loop.call_soon_threadsafe(self._changed, run)

            # Called in the log's own thread (LISTEN of PostgreSQL), so it switches to the event
            # loop.
            self._deafen = await asyncio.to_thread(hear, heard)
            self.hub.hears_changes = True
        wire = self.log
        if hasattr(wire, "broadcast"):
            relay = Relay(cast(Broadcast, wire), self.hub)
            await relay.start()
            self.hub.relay = relay
        # After listening, so that changes during the engine's search are not missed.
        await self.engine.start()

    def _changed(self, run: str) -> None:
        """Handles a change of the status or the inbox of `run`; "" = any run."""
        self.hub.poke(run)
        self.engine.nudge()

    async def stop(self) -> None:
        """Stops: lets each run reach a place where it can wait."""
        self._deafen()
        self.signins.close()
        await self.engine.stop(self.settings.stop_s)
        # Runs first, so that their last events are still streamed and audited.
        await self.hub.close()
        self.audit.close()

    async def asked(self, row: RunRow) -> list[Approval]:
        """Returns the open questions of a run; cached until it has new events."""
        events, questions = self._asked.get(row.run, (-1, []))
        # A log only grows, so an equal number of events means unchanged questions.
        if events != row.events:
            readable = await control.pending_if_readable(self.log, row.run)
            if readable is None:
                return []  # not cached: the next read may succeed
            questions = readable
            self._asked.pop(row.run, None)
            self._asked[row.run] = (row.events, questions)
            if len(self._asked) > _REMEMBERED:
                self._asked.popitem(last=False)
        return questions

    async def session(self, principal: Principal, name: str) -> str:
        """Returns the session's name in the log."""
        return inner_session(principal, name)

    async def session_to_continue(self, principal: Principal, name: str) -> str:
        """Returns the session's name in the log, for another run in it.

        Raises:
            Problem: 409, this machine's user began it.
        """
        session = await self.session(principal, name)
        if not session or principal.id == LOCAL:
            return session
        # `ann/x` from the command line is no session of ann.
        if await self.log.rows(session=session, principal=LOCAL, limit=1):
            raise Problem(409, "session", "the session is another's: choose another name")
        return session

    async def agent_of(self, row: RunRow) -> AnyAgent | None:
        """Returns the root run's agent, or None if it is not served here."""
        name = (await control.root(self.log, row)).run
        started = opening(await self.log.read(name, limit=1))
        if started is None:
            return None
        try:
            with contained():
                return self.catalog.of(name, started)
        except Exception:  # noqa: BLE001 - any reason why the agent cannot be made
            return None

    def redactor_for(self, agent: AnyAgent | None) -> Redactor:
        """Returns a redactor for messages to a run of `agent`, also if it is not served."""
        further = frozenset[str]() if agent is None else agent.known_secrets()
        secrets = frozenset(self.redactor.known)
        return self.redactor if further <= secrets else Redactor(secrets | further)

    def require(self, principal: Principal, right: Right) -> None:
        """Checks that the principal's roles give the right.

        Raises:
            Problem: 403, they do not.
        """
        why = self.settings.policy.lacks(principal, right)
        if why:
            raise Problem(403, "not_allowed", why)

    async def sees(self, principal: Principal, row: RunRow) -> bool:
        """Returns whether the principal may read the run: its own, and those it may approve.

        For a child run the agent of the root run decides, because several served agents may call
        the same inner agent with different approvers.
        """
        if row.principal == principal.id:
            return True
        if not self.approves(principal):
            return False
        root = await control.root(self.log, row)
        return not root.parent and self._approves(principal, root.agent)

    def approves(self, principal: Principal) -> list[str]:
        """Returns the names of agents whose runs the principal may approve for others."""
        return [name for name in self.catalog.known if self._approves(principal, name)]

    def _approves(self, principal: Principal, agent: str) -> bool:
        """Returns whether the principal may approve other principals' actions of the agent."""
        # `may` accepts an empty requirement, but empty `approvers` means no one. If several agents
        # have the same name, it is unknown which one ran, so all policies must agree.
        policies = self.catalog.policies(agent)
        return bool(policies) and all(
            policy.approvers and may(principal.roles, policy.approvers, policy.roles)
            for policy in policies
        )

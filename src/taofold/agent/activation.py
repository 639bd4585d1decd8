"""One activation of an agent: drives a run with a log, a principal and listeners.

An activation turns the agent's plan into the `Setup` and `Task` of a run. It starts child runs and
loads the earlier turns of a session. `Samples` lets a tool ask the run's own model. Existing runs
are resumed, forked or replayed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, get_args

from msgspec import structs
from typing_extensions import Unpack

from taofold.agent import project
from taofold.agent.handoffs import SESSION, RunSuccessors
from taofold.agent.history import Earlier, History
from taofold.agent.instructions import instructions_text
from taofold.agent.options import (
    ACTIVE,
    COMPACTION,
    INSTRUCTIONS,
    JUDGE,
    NOT_CONTINUED,
    REFERENCE,
    STRICT,
    TOOL_SEARCH,
    IfWaiting,
    StartOptions,
)
from taofold.agent.origin import ORIGIN, origin_of
from taofold.agent.result import RunResult, result_of
from taofold.agent.sessions import TURNS, active_agent, settle, turns, waiting_run
from taofold.agent.team import reachable
from taofold.agent.worktrees import placed
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.call_ids import IDENTITY
from taofold.core.content import Part, TextPart, parts_of
from taofold.core.difference import first_difference
from taofold.core.effects import Strategy
from taofold.core.errors import ConfigError, LimitReached, Refused, ReplayDiverged, RunError
from taofold.core.file_states import worktree_of
from taofold.core.happenings import Delta, Happening, Progress
from taofold.core.json_values import is_object, render
from taofold.core.state import ENDED, RunState, fold, live
from taofold.core.tags import checked_tags
from taofold.core.text import utf8
from taofold.core.values import (
    ATTACHED_TEXT,
    GOAL_FROM,
    JSON,
    PROJECT_INSTRUCTIONS,
    RESERVED,
    SEARCH,
    Observation,
    ObservationStatus,
    Principal,
    Searcher,
    Usage,
)
from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from taofold.log.run_store import Store
from taofold.memory.offer import notebooks, recorded_digest
from taofold.memory.origin import SETTING
from taofold.policy import Limits
from taofold.policy.redaction import MARK
from taofold.reasoning import Offer, Task
from taofold.reasoning.grounding_judge import judged
from taofold.reasoning.relay import beginning_with, noting, relay
from taofold.reasoning.task import is_native
from taofold.runtime import run as runs
from taofold.runtime.control import pending
from taofold.runtime.endings import Advanced
from taofold.runtime.hooks import Hooks
from taofold.runtime.redaction import RedactionPass, is_masked, redact_visible, unsaid
from taofold.runtime.setup import (
    NO_HOOKS,
    ChildFiles,
    ChildOutcome,
    Parent,
    Pause,
    Purse,
    Setup,
    no_context,
)
from taofold.runtime.time_travel import keep_states, look_back, restore_files
from taofold.runtime.trace_context import TRACE_SETTING, current_trace
from taofold.runtime.worktrees import open_worktree
from taofold.tools import ModelQuestion, Tool
from taofold.tools.attachments import Prompt, Showing, prompted
from taofold.tools.context import RunContext
from taofold.trusted_code import OUTSIDE
from taofold.workspace.run_files import RunFiles

if TYPE_CHECKING:
    from taofold.agent.agent import Agent


SEEN: Final = 5
"""Steps of an unsuccessful child run that its parent is shown."""
SEEN_CHARS: Final = 500
"""Maximum characters of each of those steps' calls."""
UI_CONTEXT = 2000
"""Maximum characters of `ui_context` in the prompt."""


def _encodable(principal: Principal) -> Principal:
    """Returns the principal with surrogates escaped. Ids hold no secrets: nothing is redacted.

    Raises:
        ConfigError: It is no `Principal`, or its roles are one text.
    """
    if not isinstance(principal, Principal):  # pyright: ignore[reportUnnecessaryIsInstance]
        reason = f"is a Principal, such as Principal('ada'), not {principal!r}"
        raise ConfigError(reason, path="principal")
    if isinstance(principal.roles, str):
        reason = f"roles is a tuple: write roles=({principal.roles!r},)"
        raise ConfigError(reason, path="principal")
    return Principal(utf8(principal.id), tuple([utf8(role) for role in principal.roles]))


def _instructions(agent: "Agent[Any, Any]", started: e.RunStarted) -> str:
    """Returns the agent's current instructions, or the recorded ones if a function wrote them."""
    if isinstance(agent.instructions, str):
        return utf8(agent.instructions)
    recorded = started.settings.get(INSTRUCTIONS)
    return recorded if isinstance(recorded, str) else ""


def _offers(agent: "Agent[Any, Any]", started: e.RunStarted) -> tuple[Offer, ...]:
    """Returns the agent's offers. A run keeps offering all tools if it began so."""
    if started.settings.get(TOOL_SEARCH):
        return agent.offers
    if not any([offer.deferred for offer in agent.offers]):
        return agent.offers
    offers = [offer for offer in agent.offers if offer.name != SEARCH]
    return tuple([replace(each, deferred=False) if each.deferred else each for each in offers])


def _searcher(started: e.RunStarted) -> Searcher:
    """Returns the recorded side that searches tools; "" = the found tools are only offered."""
    recorded = started.settings.get(TOOL_SEARCH)
    return recorded if recorded in ("local", "provider") else ""


def _reference(started: e.RunStarted) -> str:
    """Returns the prefix of reference-data lines in the goal, or "" if the goal has none."""
    mark = started.settings.get(REFERENCE)
    return mark if isinstance(mark, str) else ""


def _redacted_goal(walk: RedactionPass, given: Showing) -> tuple[Part, ...]:
    """Returns the goal's parts without secrets, or nothing if the goal is only text."""
    return parts_of(redact_visible(walk, given.parts)) if given.media else ()


class Activation:
    """An agent with a log, a principal and listeners, ready to drive a run."""

    def __init__(
        self,
        agent: "Agent[Any, Any]",
        deps: Any,
        principal: Principal | None,
        listener: Callable[[Happening], None] | None,
        log: Log | None = None,
        parent: Parent | None = None,
        purse: Purse | None = None,
        origin: Path | None = None,
    ) -> None:
        if OUTSIDE.loading:
            raise ConfigError(
                "the module uses its agent while it is imported. Put that code under "
                '`if __name__ == "__main__":`, so that the agent can be imported without a run'
            )
        self.agent, self.deps, self.listener, self.parent = agent, deps, listener, parent
        self.log = log or agent.opened_log or MemoryLog()
        self.principal, self.takeover = principal and _encodable(principal), False
        self.origin = origin
        """The folder in place of which the run works in a worktree; None if it does not."""
        self.begins_with: e.Restored | None = None
        """The worktree of a run that has not begun."""
        self.shows_project = True
        """False for a child that is shown no instructions of its parent's project."""
        self.purse = purse if parent is None else parent.purse
        self.plan, self.output = agent.plan, agent.answer
        bounds = agent.memory_bounds
        self.notebooks = None if bounds is None else notebooks(bounds, self.log, agent.redactor)
        self.successors = RunSuccessors(self) if len(agent.team) > 1 else None
        self.setup = self._setup()
        if log is None and agent.opened_log is None:
            self._check_budgets()

    def _check_budgets(self) -> None:
        """Raises `ConfigError` if an agent has budgets, since each run has a log of its own."""
        for agent in reachable(self.agent):
            if agent.policy.budgets:
                own = agent is self.agent
                whose = "" if own else f" of agent {agent.name!r}"
                which = "this agent" if own else f"agent {self.agent.name!r}, which is run,"
                raise ConfigError(
                    f"budgets{whose} bound the runs of one log, and {which} has none: pass "
                    'log="runs.db", or one MemoryLog() for the runs of this process',
                    path="policy.budgets",
                )

    def for_member(self, member: "Agent[Any, Any]") -> "Activation":
        """Returns the activation of another agent of the team, for a run of this one."""
        principal = self.setup.principal
        activation = Activation(
            member, self.deps, principal, self.listener, self.log, origin=self.origin
        )
        activation.takeover = self.takeover
        if activation.notebooks is not None:
            # The run's redactor knows the secrets of all of its agents.
            own = replace(activation.notebooks, redactor=self.setup.redactor)
            activation.notebooks, activation.setup.memory = own, own.of
        return activation

    def _setup(self) -> Setup:
        plan, parent, listener = self.plan, self.parent, self.listener
        limits, policy, hooks, approve = plan.limits, plan.policy, plan.hooks, plan.approve
        if parent is not None:
            # A child has at most its parent's limits and rights. The parent's hooks apply to it
            # too.
            agent, aliases = self.agent, plan.tools.aliases
            limits = agent.limits.within(parent.limits).covering(aliases)
            # Covered after the merge: the parent's rules may name this agent's tools by their
            # aliases.
            policy = parent.policy.tightened(agent.policy).covering(aliases)
            above = parent.hooks.hooks
            # Both may follow the folders of the same project.
            followed = [hook for hook in above if isinstance(hook, project.EnteredFolders)]
            hooks = (*above, *[hook for hook in hooks if hook not in followed])
            approve = approve or parent.approve
        path = "limits.usd" if limits.usd is not None or self.purse is not None else ""
        path = path or ("policy.budgets" if policy.bounds_usd else "")
        for member in self.agent.team.values():
            # Compiled now: a fault of an agent is reported before the run reaches it.
            priced = path or ("limits.usd" if member.limits.usd is not None else "")
            if priced:
                member.plan.check_prices(priced)
            else:
                _ = member.plan
        return Setup(
            models=plan.models,
            tools=plan.tools,
            **plan.fixed,
            limits=limits,
            own_limits=None if parent is None else self.agent.limits,
            policy=policy,
            principal=self.principal or Principal(),
            deps=self.deps,
            approve=approve,
            listeners=() if listener is None else (listener,),
            on_delta=None if listener is None else lambda run, text: listener(Delta(run, text)),
            on_progress=None if listener is None else lambda r, t, s: listener(Progress(r, t, s)),
            # A child pauses with its parent, because the engine knows only the root run.
            pause=str if parent is None else parent.pause,
            purse=self.purse,
            on_request=getattr(self.log, "on_request", None),
            during_call=getattr(self.log, "during_call", no_context),
            children=self._child,
            successors=self.successors,
            sampling=Samples(self),
            memory=None if self.notebooks is None else self.notebooks.of,
            snapshots=self._snapshots(),
            hooks=Hooks(hooks) if hooks else NO_HOOKS,
            depth=0 if parent is None else parent.depth,
        )

    def _snapshots(self) -> RunFiles | None:
        """Returns the states of the agent's folder.

        Raises:
            ConfigError: They cannot be stored.
        """
        folder = self.agent.snapshot_folder
        if folder is None:
            for tool in self.plan.tools.values():
                if tool.agent is not None and tool.agent.worktree:
                    raise ConfigError(
                        f"the agent {tool.agent.name!r} works in a worktree: the agent that asks "
                        "it needs snapshots=True, or the folder whose files it copies",
                        path="snapshots",
                    )
            return None
        files = RunFiles.of(folder)
        files.check()
        return files

    def task(self, started: e.RunStarted) -> Task:
        """Returns the strategy's input, from the recorded facts of the run."""
        agent = self.agent
        # The recorded strictness and profile, not the present ones: others would derive another
        # conversation. Imported logs lack the strictness.
        strict = bool(started.settings.get(STRICT, agent.strict))
        profile = started.profile
        return Task(
            goal=started.goal,
            parts=started.parts,
            instructions=_instructions(agent, started),
            offers=_offers(agent, started),
            output=self.output,
            strict=strict,
            reference=_reference(started),
            research=agent.research,
            attempts=agent.limits.parse_retries + 1,
            native=is_native(calls=profile.native_tools, offers=bool(agent.offers), strict=strict),
            enforces_schema=profile.json_schema,
            window=profile.window,
            history=(*project.messages(started), *started.history),
            ask_user=agent.ask_user,
            compaction="summary" if started.settings.get(COMPACTION) == "summary" else "fold",
            search=_searcher(started),
            data=started.data,
            notes=recorded_digest(started) if agent.memory else "",
        )

    def strategy(
        self, started: e.RunStarted, *, exact: bool = False
    ) -> Callable[[], Strategy[Any]]:
        """Returns a function that makes a new generator at each call.

        Args:
            started: The start of the run.
            exact: True for a replay, which asks no model.
        """
        make, task = self._relayed(started), self.task(started)
        # As recorded: a run that began without a judge ends without one. No other model judges for
        # an agent that has no judge any more.
        judge = started.settings.get(JUDGE)
        if isinstance(judge, str) and (exact or self.agent.grounding_judge is not None):
            return lambda: judged(make, task, judge)
        return lambda: make(task)

    def _relayed(self, started: e.RunStarted) -> Callable[[Task], Strategy[Any]]:
        """Returns the maker of the strategy; with a team it may go on as another agent's."""
        make, active = self.plan.make, started.settings.get(ACTIVE)
        if self.successors is None:
            return make
        if isinstance(active, str):
            return lambda task: relay(beginning_with(active, SESSION))
        why = started.settings.get(NOT_CONTINUED)
        if is_object(why):
            return lambda task: relay(noting(NOT_CONTINUED, why, make(task)))
        return lambda task: relay(make(task))

    async def _session_agent(self, run: str, session: str) -> dict[str, Any]:
        """Returns the setting that records with which agent a run of the session begins."""
        agent, successors = self.agent, self.successors
        active = await active_agent(self.log, session, agent.team) if session else ""
        if successors is None or active in ("", agent.name):
            return {}
        why = await successors.refusal(active, run)
        if not why:
            return {ACTIVE: active}
        return {NOT_CONTINUED: {"agent": active, "reason": self.setup.redactor.text(why)}}

    async def run(
        self,
        goal: Prompt,
        *,
        run_id: str = "",
        if_waiting: IfWaiting = "answer",
        **options: Unpack[StartOptions],
    ) -> RunResult[Any]:
        """Starts a run and drives it. See `Agent.run` for the options."""
        self._check_deps()
        # Checked before a waiting run of the session is withdrawn.
        checked_tags(options.get("tags"))
        answered = await self._settle_session(goal, run_id, if_waiting, options)
        if answered:
            return await self.resume(answered)
        run = run_id or runs.new_id()
        started, blobs = await self._describe_run(run, goal, **options)
        make = self.strategy(started)
        store = await runs.start(self.log, started, run, make, self.setup, blobs, self.begins_with)
        return await self._result(store)

    def _check_deps(self) -> None:
        """Raises `ConfigError` if the agent needs `deps` and has none.

        Without this check the model would read the `TypeError` of the first tool that uses them.
        """
        if self.deps is not None or self.parent is not None:
            return
        for member in self.agent.team.values():
            wanted: Any = member.deps_type
            if isinstance(wanted, type) and wanted is not type(None):
                which = "the agent" if member is self.agent else f"agent {member.name!r}"
                why = f"{which} has deps_type={wanted.__name__}: pass deps=…"
                raise ConfigError(why, path="deps")

    async def _settle_session(
        self, goal: Prompt, run_id: str, if_waiting: IfWaiting, options: StartOptions
    ) -> str:
        """Frees the session for a new goal.

        Returns:
            The id of the waiting run whose question the goal answers, or "".
        """
        if if_waiting not in get_args(IfWaiting):
            choices = ", ".join(map(repr, get_args(IfWaiting)))
            raise ConfigError(f"is one of {choices}, not {if_waiting!r}", path="if_waiting")
        session = options.get("session")
        if not session or self.parent is not None or self.agent.opened_log is None:
            return ""
        redactor = self.setup.redactor
        row = await waiting_run(self.log, redactor.text(session))
        if row is None or row.run == run_id:
            return ""
        prompt = prompted(goal)
        if if_waiting == "answer" and (run_id or prompt.media or options.get("history")):
            # An answer is only text. Attachments and history would be lost.
            if_waiting = "withdraw"
        answers = await settle(
            self.log,
            row,
            prompt.text,
            if_waiting,
            by=self.setup.principal,
            policy=self.setup.policy,
            redactor=redactor,
        )
        return row.run if answers else ""

    async def begin(
        self, goal: Prompt, *, run_id: str = "", **options: Unpack[StartOptions]
    ) -> tuple[str, e.RunStarted]:
        """Records a run without driving it. Returns its id and its first event."""
        if callable(self.agent.instructions):
            self._check_deps()
        run = run_id or runs.new_id()
        started, blobs = await self._describe_run(run, goal, **options)
        await runs.begin(self.log, started, run, self.setup, blobs)
        return run, started

    async def _describe_run(
        self,
        run: str,
        goal: Prompt,
        session: str = "",
        tags: Mapping[str, str] | None = None,
        data: Mapping[str, JSON] | None = None,
        ui_context: str = "",
        history: Sequence[Earlier] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> tuple[e.RunStarted, dict[str, bytes]]:
        """Returns a new run's first event, without secrets, and its media bytes by digest."""
        agent, walk = self.agent, RedactionPass(self.setup.redactor)
        prompt, earlier = prompted(goal), History(history)
        text, parts = prompt.text, _redacted_goal(walk, prompt)
        if not text.strip():
            raise ConfigError("the goal is empty: say what the agent should do", path="goal")
        context_line = ""
        if ui_context:
            # The context comes from the embedding application and is sent again at each step, so
            # its length is bounded.
            context_line = f"[UI Context: {walk.text(ui_context)[:UI_CONTEXT]}]\n"
            text = context_line + text
            parts = (TextPart(walk.text(context_line)), *parts) if parts else ()

        # The run's own log disappears with it, so the session would have no memory.
        if session and self.parent is None and agent.opened_log is None:
            raise ConfigError(
                'a session is remembered in a log: pass log="memory", or a path, to the agent',
                path="session",
            )

        self._check_notebooks()
        session = self.setup.redactor.text(session)
        session_agent = await self._session_agent(run, session)
        earlier_messages = [unsaid(walk, message) for message in earlier.messages]
        remembered, was_masked = await turns(self.log, session) if session else ((), False)
        raw = dict(data) if data else {}
        clean: dict[str, Any] = self.setup.redactor.json(raw)
        checked = {name: self.setup.redactor.text(v) for name, v in checked_tags(tags).items()}
        if self.parent is not None:
            # Its spending counts for the tags of the whole.
            checked = dict(self.parent.tags)
        model = self.plan.models["executor"]
        started = e.RunStarted(
            goal=walk.text(text),
            agent=agent.name,
            strategy=self.plan.strategy,
            model=model.name,
            profile=model.profile,
            principal=self.setup.principal,
            policy=self.setup.policy.version,
            settings={
                **self._settings(settings),
                **await self._written(run, text, data),
                **await self._project(),
                # Media are known by the goal's parts.
                **({ATTACHED_TEXT: True} if prompt.attached and not parts else {}),
                **session_agent,
            },
            # Copied and redacted on entry, because it goes into the log and the prompt.
            data=clean,
            history=(*remembered, *earlier_messages),
            session=session,
            parent=self.parent.run if self.parent else "",
            depth=self.setup.depth,
            parts=parts,
            tags=checked,
            masked=walk.lost or was_masked or is_masked(raw, clean),
        )
        notes = await self._notes(started, history=bool(earlier.messages))
        # A note with a masked secret is shown too.
        masked = started.masked or MARK in str(notes)
        started = structs.replace(started, settings={**started.settings, **notes}, masked=masked)
        return started, {**prompt.blobs, **earlier.blobs}

    async def _notes(self, started: e.RunStarted, *, history: bool) -> dict[str, Any]:
        """Returns the setting that records the agent's notebook as the run sees it.

        Args:
            started: The first event of the run, without this setting.
            history: The caller gave earlier messages.

        Raises:
            ConfigError: The log keeps no journal.
        """
        if self.notebooks is None:
            return {}
        session = started.session
        rows = await self.log.rows(session=session, limit=TURNS) if session else []
        earlier = [row.run for row in rows]
        return {SETTING: await self.notebooks.settings(started, earlier, history=history)}

    def _check_notebooks(self) -> None:
        """Raises `ConfigError` if an agent has a notebook and there is no log to keep it."""
        # The run's own log disappears with it, and the notebook with the log.
        if self.parent is not None or self.agent.opened_log is not None:
            return
        for member in self.agent.team.values():
            bounds = member.memory_bounds
            if bounds is not None and bounds.store is None:
                raise ConfigError(
                    'a notebook is kept in a log: pass log="memory", or a path, to the agent',
                    path="memory",
                )

    async def described(
        self, run: str, started: e.RunStarted, first: "Activation"
    ) -> dict[str, Any]:
        """Returns the settings to record when this agent continues a run of `first`.

        Args:
            run: The run's id.
            started: The start of the run.
            first: The activation of the agent with which the run began.
        """
        reference = {REFERENCE: _reference(started)} if _reference(started) else {}
        # A child run is shown the project of its parent.
        project_setting = await (self if first.parent is None else first)._project()
        settings = {
            **self.agent.noted,
            **reference,
            **await self._written(run, started.goal, started.data),
            **project_setting,
            **await self._notes(
                structs.replace(started, agent=self.agent.name), history=bool(started.history)
            ),
        }
        # Everything is in the log of the first agent, which knows the secrets of all.
        redacted: dict[str, Any] = first.setup.redactor.json(settings)
        return redacted

    async def _written(
        self, run: str, goal: str, data: Mapping[str, JSON] | None
    ) -> dict[str, str]:
        """Returns the setting that records the text of `instructions` if a function wrote it."""
        agent, setup = self.agent, self.setup
        if isinstance(agent.instructions, str):
            return {}
        context = RunContext(
            deps=self.deps,
            run_id=run,
            goal=setup.redactor.text(goal),
            principal=setup.principal,
            data=setup.redactor.json(dict(data or {})),
        )
        text = await instructions_text(agent.instructions, context, setup.limits.seconds)
        return {INSTRUCTIONS: setup.redactor.text(text)}

    async def _project(self) -> dict[str, Any]:
        """Returns the setting with the project's instructions. A child takes its parent's."""
        if not self.shows_project:
            return {}
        if self.parent is not None:
            [first] = await self.log.read(self.parent.run, limit=1)
            settings = first.event.settings if isinstance(first.event, e.RunStarted) else {}
            return {name: settings[name] for name in (PROJECT_INSTRUCTIONS,) if name in settings}
        folder = self.agent.project_folder
        found = project.find(folder) if folder is not None else {}
        return {PROJECT_INSTRUCTIONS: self.setup.redactor.json(found)} if found else {}

    def _settings(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Returns the settings to record: facts for rules and replay, and the caller's own."""
        # A child's share depends on the runs beside it when it began, so it cannot be recomputed.
        limits = {} if self.parent is None else {"limits": asdict(self.setup.limits)}
        redacted: dict[str, Any] = self.setup.redactor.json(dict(given)) if given else {}
        # A caller does not choose the agent.
        for key in (ACTIVE, NOT_CONTINUED):
            redacted.pop(key, None)
        # A child run's trace hangs below the call that started it.
        context = current_trace() if self.parent is None else None
        trace_setting = {} if context is None else {TRACE_SETTING: str(context)}
        # The caller's keys come first, so they cannot override keys of the rules or of replay.
        identity = {IDENTITY: token_hex(6)}
        # A caller that passes settings records the agent's origin there.
        is_known = bool(given and given.keys() - {GOAL_FROM}) or self.parent is not None
        origin = {} if is_known else origin_of(self.agent)
        known = {ORIGIN: self.setup.redactor.json(origin)} if origin else {}
        return {**redacted, **self.agent.noted, **identity, **limits, **trace_setting, **known}

    async def resume(self, run: str, *, takeover: bool = False) -> RunResult[Any]:
        """Continues a run."""
        self._check_deps()
        started = await self._read_start(run)
        await self._find_origin(run)
        self.takeover = takeover
        store = await runs.resume(
            self.log, run, self.strategy(started), self.setup, takeover=takeover
        )
        return await self._result(store)

    async def _find_origin(self, run: str) -> None:
        """Finds the folder in whose place a run works whose files were restored elsewhere.

        The tools of the agents that it asks are moved as well.
        """
        files = self.setup.snapshots
        if files is None or self.origin is not None:
            return
        for record in await self.log.read(run):
            event = record.event
            if isinstance(event, e.Snapshotted | e.Restored) and event.folder:
                first = Path(event.folder)
                self.origin = None if first == files.root else first
                return

    def act_for(self, principal: Principal) -> None:
        """Drives runs for `principal` from now on, with its current roles."""
        self.principal = self.setup.principal = _encodable(principal)

    async def advance(
        self, run: str, pause: Pause = str, started: e.RunStarted | None = None
    ) -> Advanced:
        """Does everything that can be done for a run now, until `pause` returns a reason to wait.

        Args:
            run: The run's id.
            pause: Called before each model call. An empty string lets the run go on.
            started: The run's first event, if the caller has read it already.
        """
        self.setup.pause = pause
        started = self._inherit(started) if started else await self._read_start(run)
        await self._find_origin(run)
        return await runs.advance(self.log, run, self.strategy(started), self.setup)

    async def replay(self, run: str) -> RunResult[Any]:
        """Derives a run again and compares it with its log."""
        started = await self._read_start(run)
        try:
            state = await runs.replay(self.log, run, self.strategy(started, exact=True), self.setup)
        except ReplayDiverged as error:
            hint = self._reworded(started)
            if not hint:
                raise
            raise ReplayDiverged(error.key, error.recorded, error.requested, hint) from error
        records = tuple(await self.log.read(run))
        return result_of(self.log, state, records, (), self.output.load)

    def _reworded(self, started: e.RunStarted) -> str:
        """Returns the difference between the agent's instructions and the recorded ones, or ""."""
        recorded, now = (
            started.settings.get("instructions", ""),
            self.agent.noted.get("instructions", ""),
        )
        if callable(self.agent.instructions) or recorded == now:
            return ""
        _, old, new = first_difference(recorded, now)
        return f"the agent's instructions differ:\n  recorded  {old}\n  now       {new}"

    async def result(self, run: str) -> RunResult[Any]:
        """Returns the state of a run from its log."""
        await self._read_start(run)
        records = await self.log.read(run)
        return await self._so_far(run, fold(records), records)

    async def fork(self, run: str, *, at: int | None, run_id: str = "") -> RunResult[Any]:
        """Copies a run and drives the copy."""
        new = run_id or runs.new_id()
        await runs.fork(self.log, run, new, at=at, now=clock())
        return await self.resume(new)

    async def fork_files(
        self, run: str, *, at: int | None, run_id: str = "", folder: Path | None = None
    ) -> tuple[str, Path]:
        """Copies a run with the files of its last step; returns the copy and its folder."""
        new = run_id or runs.new_id()
        past = await look_back(self.log, run, at)
        past.require_state()
        in_place = folder is not None and RunFiles.of(folder).root == Path(past.place)
        if not in_place:
            self._check_roots(Path(past.place))
        restored = await restore_files(past, new, folder, in_place=in_place)
        await runs.fork(self.log, run, new, at=at, now=clock(), restored=restored)
        await keep_states(self.log, new)
        return new, Path(restored.folder)

    def _check_roots(self, place: Path) -> None:
        """Checks that no tool keeps working in the folder of the source.

        Raises:
            ConfigError: A tool is bound to it.
        """
        named = {"files", "command"} & {it for it in self.agent.tools if isinstance(it, str)}
        for tool in self.plan.tools.values():
            if tool.root is not None and tool.toolset not in named:
                inside = tool.root.is_relative_to(place) or place.is_relative_to(tool.root)
                if inside:
                    raise ConfigError(
                        f"the tool {tool.name!r} is bound to {str(tool.root)!r} and would work "
                        "there, not in the restored folder: name the tools 'files' and 'command' "
                        "in tools=[…], or restore in place",
                        path="tools",
                    )

    async def _read_start(self, run: str) -> e.RunStarted:
        first = await self.log.read(run, limit=1)
        if not first or not isinstance(first[0].event, e.RunStarted):
            raise ConfigError(f"run {run!r} has no start: its log is damaged")
        return self._inherit(first[0].event)

    def _inherit(self, started: e.RunStarted) -> e.RunStarted:
        """Inherits from the run's first event what this activation was not given."""
        if self.principal is None:
            # Without a principal, resume acts for the one that started the run.
            self.setup.principal = started.principal
        # The share that was reserved when the child started. A caller's own settings may use the
        # same key.
        if started.parent and "limits" in started.settings:
            share = Limits(**started.settings["limits"])
            self.setup.limits = self.agent.limits.within(share)
        return started

    async def _so_far(
        self, run: str, state: RunState, records: Sequence[e.Record]
    ) -> RunResult[Any]:
        waiting = state.status == "waiting"
        questions = tuple(await pending(self.log, run)) if waiting else ()
        live_records = tuple(live(records) if state.rewinds else records)
        return result_of(self.log, state, live_records, questions, self.output.load)

    async def _result(self, store: Store) -> RunResult[Any]:
        state = store.state
        result = await self._so_far(store.run, state, store.records)
        if self.agent.raise_on_limit and self.parent is None and state.status == "limited":
            why = f": {result.error}" if result.error else ""
            raise LimitReached(f"run {store.run!r} ended with {state.stop_reason}{why}", result)
        return result

    async def _child(
        self, tool: Tool, parameters: dict[str, Any], *, run: str, parent: Parent
    ) -> ChildOutcome:
        """Runs the agent behind `tool` as a child. Its records reach this run's listener too."""
        if parent.limits.depth < 0:
            text = f"limit reached: agents call agents at most {parent.depth - 1} deep"
            return ChildOutcome(Observation(text, "failure", refused="tool_limit"))
        # A tool made of an agent has one required parameter, the goal, under any name.
        goal = str(parameters[tool.schema["required"][0]])
        return await self.descend(tool.agent, goal, run=run, parent=parent)

    async def descend(
        self,
        agent: "Agent[Any, Any]",
        goal: str,
        *,
        run: str,
        parent: Parent,
        history: Sequence[Earlier] = (),
        project_instructions: bool = True,
    ) -> ChildOutcome:
        """Runs `agent` as a child, or continues its run.

        Without `project_instructions` it is not shown those of its parent.
        """
        records = await self.log.read(run) if await _exists(self.log, run) else []
        worktree, state = worktree_of(records), fold(records)
        # A child that ended otherwise is not repeated: its recorded result counts.
        if not records or state.status in ("running", "waiting", "cancelled"):
            try:
                agent, origin, worktree = await self._placed(agent, run, records, parent)
            except RunError as error:
                return ChildOutcome(Observation(f"no worktree: {error}", "failure"))
            activation = Activation(
                *(agent, self.deps, parent.principal, self.listener, self.log, parent),
                origin=origin,
            )
            activation.shows_project = project_instructions
            if records:
                state = await activation._continued(run, takeover=self.takeover)
            else:
                activation.begins_with = worktree
                state = (await activation.run(goal, run_id=run, history=history)).state

        if state.status == "waiting":
            return ChildOutcome(Observation(), waiting_for=state.waiting_for)
        status: ObservationStatus = "success" if state.success else "failure"
        text = state.output if state.success else _unsuccessful(agent.name, run, state)
        calls = (
            state.model_calls + state.child_model_calls,
            state.tool_calls + state.child_tool_calls,
        )
        return ChildOutcome(
            Observation(text, status, masked=state.masked),
            usage=state.usage,
            calls=calls,
            tools=state.per_tool,
            models=state.usage_by_model,
            files=None if worktree is None else ChildFiles(run, worktree.folder, worktree.tree),
        )

    async def _continued(self, run: str, *, takeover: bool) -> RunState:
        """Continues a child run that has not ended; returns its state."""
        try:
            return (await self.resume(run, takeover=takeover)).state
        except Refused:
            # Another driver ended the child since it was read. Its recorded result counts.
            state = fold(await self.log.read(run))
            if state.status not in ENDED or state.status == "cancelled":
                raise
            return state

    async def _placed(
        self, agent: "Agent[Any, Any]", run: str, records: Sequence[e.Record], parent: Parent
    ) -> "tuple[Agent[Any, Any], Path | None, e.Restored | None]":
        """Returns the agent of a child run in the folder where it works.

        Also returns the folder in whose place it works, and the worktree, which is made if the run
        has none yet.

        Raises:
            ConfigError: A tool could write outside of the worktree.
            RunError: The worktree cannot be made.
        """
        files = self.setup.snapshots
        if files is None:
            return agent, None, None
        origin = self.origin or files.root
        worktree = worktree_of(records)
        if agent.worktree and not records:
            worktree = await open_worktree(files, parent.run, run)
        if worktree is None and self.origin is None:
            return agent, None, None
        target = files.root if worktree is None else Path(worktree.folder)
        return placed(agent, origin, target), origin, worktree


def _unsuccessful(agent: str, run: str, state: RunState) -> str:
    """Returns the reason, run id and last steps of an unsuccessful child, for its parent."""
    lines = [state.error] if state.error else []
    lines.append(f"The run {run} of agent {agent!r} ended as {state.stop_reason}.")
    if state.output is not None:
        lines.append(f"Its answer so far: {render(state.output)}")
    seen = [
        f"{action.tool} [{observation.status}] {observation.extraction or observation.result}"
        for step in state.steps[-SEEN:]
        for action, observation in zip(step.actions, step.observations, strict=True)
        if action.tool not in RESERVED
    ]
    if seen:
        lines += ["What it saw last:", *[f"- {line[:SEEN_CHARS]}" for line in seen[-SEEN:]]]
    return "\n".join(lines)


def questioner(agent: "Agent[Any, Any]", instructions: str) -> "Agent[Any, Any]":
    """Returns the agent of a run in which a tool asks the model of `agent`."""
    return agent.replace(
        tools=(),
        discover=(),
        skills=(),
        handoffs=(),
        models={},
        grounding_judge=None,
        strategy="direct",
        output=str,
        instructions=instructions,
        ask_user=False,
        memory=False,
        snapshots=False,
        worktree=False,
    )


class Samples:
    """The run's own model, for tools that ask it. Each question is a child run of the call.

    The child has no tools and cannot ask the user. The rest of its parent's limits bounds it.
    """

    def __init__(self, activation: Activation) -> None:
        self._activation = activation
        self._spent: dict[str, tuple[Mapping[str, Usage], int] | None] | None = None
        """Tokens and model calls of each child run. None means that they are in its log."""

    async def answer(self, question: ModelQuestion, *, run: str, parent: Parent) -> ChildOutcome:
        """Returns the model's answer."""
        spent = await self._children(parent.run)
        # Consumption counts even if the child fails or is stopped.
        spent[run] = None
        agent = self._activation.agent
        settings = agent.model_settings
        # The agent's own bound applies too: a question can only lower it.
        bounds = [bound for bound in (question.max_tokens, settings.max_tokens) if bound]
        chosen = question.temperature
        sampler = questioner(agent, question.system).replace(
            max_tokens=min(bounds, default=0),
            temperature=settings.temperature if chosen is None else chosen,
        )
        outcome = await self._activation.descend(
            sampler,
            question.prompt,
            run=run,
            parent=parent,
            history=question.history,
            project_instructions=False,
        )
        if outcome.calls is not None:
            spent[run] = outcome.models, outcome.calls[0]
        return outcome

    async def spent(self, parent: str, call: str) -> ChildOutcome:
        """Returns what the child runs of one tool call consumed, in all activations of the run."""
        spent = await self._children(parent)
        usage, calls, models = Usage(), 0, dict[str, Usage]()
        for run in [run for run in spent if run.startswith(f"{call}s")]:
            by_model, model_calls = spent[run] or await self._write_to_log(run)
            calls += model_calls
            for name, tokens in by_model.items():
                usage += tokens
                models[name] = models.get(name, Usage()) + tokens
        return ChildOutcome(Observation(), usage=usage, calls=(calls, 0), models=models)

    async def _children(self, parent: str) -> dict[str, tuple[Mapping[str, Usage], int] | None]:
        """Returns the child runs of `parent`, listed once: this driver starts all others."""
        if self._spent is None:
            rows = await self._activation.log.rows(parent=parent, limit=0)
            # A second concurrent listing must keep the children that began during the first.
            if self._spent is None:
                self._spent = dict.fromkeys([row.run for row in rows])
        return self._spent

    async def _write_to_log(self, run: str) -> tuple[Mapping[str, Usage], int]:
        if not await _exists(self._activation.log, run):
            return {}, 0
        state = fold(await self._activation.log.read(run))
        if state.status in ENDED and self._spent is not None:
            self._spent[run] = state.usage_by_model, state.model_calls
        return state.usage_by_model, state.model_calls


async def _exists(log: Log, run: str) -> bool:
    try:
        await log.row(run)
    except LookupError:
        return False
    return True

"""One activation of an agent: its description made live, and a run driven with it.

Here the agent's plan becomes a run's `Setup` and `Task`, child runs are started, the earlier turns
of a session are fetched, and `Samples` lets a tool ask the run's own model. A run that is there
already is resumed, forked or replayed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, get_args

from typing_extensions import Unpack

from taofold.agent.history import Earlier, History
from taofold.agent.instructions import instructions_text
from taofold.agent.options import INSTRUCTIONS, STRICT, IfWaiting, StartOptions
from taofold.agent.origin import ORIGIN, origin_of
from taofold.agent.result import RunResult, result_of
from taofold.agent.sessions import settle, turns, waiting_run
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.call_ids import IDENTITY
from taofold.core.content import Part, TextPart, parts_of
from taofold.core.difference import first_difference
from taofold.core.effects import Strategy
from taofold.core.errors import ConfigError, LimitReached, Refused, ReplayDiverged
from taofold.core.happenings import Delta, Happening, Progress
from taofold.core.json_values import render
from taofold.core.state import ENDED, RunState, fold, live
from taofold.core.tags import checked_tags
from taofold.core.text import utf8
from taofold.core.values import JSON, RESERVED, Observation, ObservationStatus, Principal, Usage
from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from taofold.log.run_store import Store
from taofold.policy import Limits
from taofold.reasoning import Task
from taofold.runtime import run as runs
from taofold.runtime.control import pending
from taofold.runtime.endings import Advanced
from taofold.runtime.hooks import Hooks
from taofold.runtime.redaction import RedactionPass, is_masked, redact_visible, unsaid
from taofold.runtime.setup import (
    NO_HOOKS,
    ChildOutcome,
    Parent,
    Pause,
    Purse,
    Setup,
    no_context,
)
from taofold.runtime.trace_context import TRACE_SETTING, current_trace
from taofold.tools import ModelQuestion, Tool
from taofold.tools.attachments import Prompt, Showing, prompted
from taofold.tools.context import RunContext
from taofold.trusted_code import OUTSIDE

if TYPE_CHECKING:
    from taofold.agent.agent import Agent


SEEN: Final = 5
"""Steps of an unsuccessful child that its parent reads."""
SEEN_CHARS: Final = 500
"""Characters of each of their calls."""
UI_CONTEXT = 2000
"""Characters of the user interface's context that reach the prompt."""


def _encodable(principal: Principal) -> Principal:
    """The principal as a log can hold it. Ids hold no secrets, so only surrogates are escaped."""
    return Principal(utf8(principal.id), tuple([utf8(role) for role in principal.roles]))


def _instructions(agent: "Agent[Any, Any]", started: e.RunStarted) -> str:
    """The instructions of a run: a text of the agent as it is now, a function's as recorded."""
    if isinstance(agent.instructions, str):
        return utf8(agent.instructions)
    recorded = started.settings.get(INSTRUCTIONS)
    return recorded if isinstance(recorded, str) else ""


def _reference(started: e.RunStarted) -> str:
    """How lines of reference data in the goal begin, "" if it holds none."""
    mark = started.settings.get("reference")
    return mark if isinstance(mark, str) else ""


def _redacted_goal(walk: RedactionPass, given: Showing) -> tuple[Part, ...]:
    """The goal as it is recorded, if it holds more than text: without secrets."""
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
    ) -> None:
        if OUTSIDE.loading:
            raise ConfigError(
                "the module uses its agent while it is imported. Put that code under "
                '`if __name__ == "__main__":`, so that the agent can be imported without a run'
            )
        self.agent, self.deps, self.listener, self.parent = agent, deps, listener, parent
        self.log = log or agent.opened_log or MemoryLog()
        self.principal, self.takeover = principal and _encodable(principal), False
        self.purse = purse if parent is None else parent.purse
        self.plan, self.output = agent.plan, agent.answer
        self.setup = self._setup()

    def _setup(self) -> Setup:
        plan, parent, listener = self.plan, self.parent, self.listener
        limits, policy, hooks, approve = plan.limits, plan.policy, plan.hooks, plan.approve
        if parent is not None:
            # A child can only get less than its parent has, in limits and in rights; what guards
            # an agent guards those that it asks too.
            agent, aliases = self.agent, plan.tools.aliases
            limits = agent.limits.within(parent.limits).covering(aliases)
            # After the parent's, whose rules may name a tool of this agent otherwise, too.
            policy = parent.policy.tightened(agent.policy).covering(aliases)
            hooks = (*parent.hooks.hooks, *hooks)
            approve = approve or parent.approve
        if limits.usd is not None or self.purse is not None:
            plan.check_prices()
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
            # A child pauses when its parent must: the engine knows only the root.
            pause=str if parent is None else parent.pause,
            purse=self.purse,
            on_request=getattr(self.log, "on_request", None),
            during_call=getattr(self.log, "during_call", no_context),
            children=self._child,
            sampling=Samples(self),
            hooks=Hooks(hooks) if hooks else NO_HOOKS,
            depth=0 if parent is None else parent.depth,
        )

    def task(self, started: e.RunStarted) -> Task:
        """The strategy's input, from the recorded facts of the run."""
        agent = self.agent
        return Task(
            goal=started.goal,
            parts=started.parts,
            instructions=_instructions(agent, started),
            offers=agent.offers,
            output=self.output,
            # As the run began: another strictness would derive another conversation. An imported
            # log has no such setting.
            strict=bool(started.settings.get(STRICT, agent.strict)),
            reference=_reference(started),
            research=agent.research,
            attempts=agent.limits.parse_retries + 1,
            # From the recorded profile, not the model's of today: a replay
            # must build the same prompt.
            native=started.profile.native_tools and bool(agent.offers),
            window=started.profile.window,
            history=started.history,
            ask_user=agent.ask_user,
            data=started.data,
        )

    def strategy(self, started: e.RunStarted) -> Callable[[], Strategy[Any]]:
        """A fresh generator at each call."""
        make, task = self.plan.make, self.task(started)
        return lambda: make(task)

    async def run(
        self,
        goal: Prompt,
        *,
        run_id: str = "",
        if_waiting: IfWaiting = "answer",
        **options: Unpack[StartOptions],
    ) -> RunResult[Any]:
        """Start a run. `settings` are kept with it for whoever must rebuild the agent."""
        self._check_deps()
        # Before a waiting run of the session is ended for it.
        checked_tags(options.get("tags"))
        answered = await self._settle_session(goal, run_id, if_waiting, options)
        if answered:
            return await self.resume(answered)
        run = run_id or runs.new_id()
        started, blobs = await self._describe_run(run, goal, **options)
        store = await runs.start(self.log, started, run, self.strategy(started), self.setup, blobs)
        return await self._result(store)

    def _check_deps(self) -> None:
        """Raise `ConfigError` if the agent needs `deps` and there are none.

        Else the model would read the `TypeError` of the first tool that uses them.
        """
        wanted: Any = self.agent.deps_type
        if self.deps is not None or self.parent is not None or wanted in (None, type(None)):
            return
        if isinstance(wanted, type):
            name = wanted.__name__
            raise ConfigError(f"the agent has deps_type={name}: pass deps=…", path="deps")

    async def _settle_session(
        self, goal: Prompt, run_id: str, if_waiting: IfWaiting, options: StartOptions
    ) -> str:
        """Makes way for a new message in its session. Returns the run that it answers, or ""."""
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
            # An answer is text: nothing that came with it may be lost.
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
        """Put a run into the log without driving it. Returns its id and its start."""
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
        """The fixed facts of a new run, without secrets, and the bytes of its media by digest."""
        agent, walk = self.agent, RedactionPass(self.setup.redactor)
        prompt, earlier = prompted(goal), History(history)
        text, parts = prompt.text, _redacted_goal(walk, prompt)
        if not text.strip():
            raise ConfigError("the goal is empty: say what the agent should do", path="goal")
        if ui_context:
            # Written by whoever embeds the agent; bounded, since it is sent again at each step.
            context_line = f"[UI Context: {walk.text(ui_context)[:UI_CONTEXT]}]\n"
            text = context_line + text
            parts = (TextPart(walk.text(context_line)), *parts) if parts else ()

        # A log that the run makes for itself is gone with it: nothing would be remembered.
        if session and self.parent is None and agent.opened_log is None:
            raise ConfigError(
                'a session is remembered in a log: pass log="memory", or a path, to the agent',
                path="session",
            )

        session = self.setup.redactor.text(session)
        earlier_messages = [unsaid(walk, message) for message in earlier.messages]
        remembered, was_masked = await turns(self.log, session) if session else ((), False)
        raw = dict(data) if data else {}
        clean: dict[str, Any] = self.setup.redactor.json(raw)
        checked = {name: self.setup.redactor.text(v) for name, v in checked_tags(tags).items()}
        model = self.plan.models["executor"]
        started = e.RunStarted(
            goal=walk.text(text),
            agent=agent.name,
            strategy=self.plan.strategy,
            model=model.name,
            profile=model.profile,
            principal=self.setup.principal,
            policy=self.setup.policy.version,
            settings={**self._settings(settings), **await self._written(run, text, data)},
            # Copied and redacted here, where it enters: from now on it is in
            # the log and in the prompt.
            data=clean,
            history=(*remembered, *earlier_messages),
            session=session,
            parent=self.parent.run if self.parent else "",
            depth=self.setup.depth,
            parts=parts,
            tags=checked,
            masked=walk.lost or was_masked or is_masked(raw, clean),
        )
        return started, {**prompt.blobs, **earlier.blobs}

    async def _written(
        self, run: str, goal: str, data: Mapping[str, JSON] | None
    ) -> dict[str, str]:
        """Returns what is recorded of `instructions` that are a function: the text for this run."""
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

    def _settings(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """What is kept with the run: for the rules, for replay, and what the caller gave."""
        # A child's share depends on what ran beside it when it began; on resume it
        # cannot be computed again.
        limits = {} if self.parent is None else {"limits": asdict(self.setup.limits)}
        redacted: dict[str, Any] = self.setup.redactor.json(dict(given)) if given else {}
        # A child run hangs below the call that it serves, wherever that is.
        context = current_trace() if self.parent is None else None
        trace_setting = {} if context is None else {TRACE_SETTING: str(context)}
        # The caller's own keys first: they cannot override what the rules and a replay rely on.
        identity = {IDENTITY: token_hex(6)}
        # Settings of the caller hold how the agent is made.
        origin = {} if given or self.parent is not None else origin_of(self.agent)
        known = {ORIGIN: self.setup.redactor.json(origin)} if origin else {}
        return {**redacted, **self.agent.noted, **identity, **limits, **trace_setting, **known}

    async def resume(self, run: str, *, takeover: bool = False) -> RunResult[Any]:
        """Carry on a run."""
        self._check_deps()
        started = await self._read_start(run)
        self.takeover = takeover
        store = await runs.resume(
            self.log, run, self.strategy(started), self.setup, takeover=takeover
        )
        return await self._result(store)

    def act_for(self, principal: Principal) -> None:
        """Drive runs for `principal` from here on, with the roles that it has now."""
        self.principal = self.setup.principal = _encodable(principal)

    async def advance(
        self, run: str, pause: Pause = str, started: e.RunStarted | None = None
    ) -> Advanced:
        """Do everything that can be done for a run now, until `pause` names a reason to wait.

        Args:
            run: The run's id.
            pause: Asked before each model call; "" = the run may go on.
            started: The run's start, if the caller has read it already.
        """
        self.setup.pause = pause
        started = self._inherit(started) if started else await self._read_start(run)
        return await runs.advance(self.log, run, self.strategy(started), self.setup)

    async def replay(self, run: str) -> RunResult[Any]:
        """Re-derive a run."""
        started = await self._read_start(run)
        try:
            state = await runs.replay(self.log, run, self.strategy(started), self.setup)
        except ReplayDiverged as error:
            hint = self._reworded(started)
            if not hint:
                raise
            raise ReplayDiverged(error.key, error.recorded, error.requested, hint) from error
        records = tuple(await self.log.read(run))
        return result_of(self.log, state, records, (), self.output.load)

    def _reworded(self, started: e.RunStarted) -> str:
        """How the agent's instructions differ from those of the run, "" if they do not."""
        recorded, now = (
            started.settings.get("instructions", ""),
            self.agent.noted.get("instructions", ""),
        )
        if callable(self.agent.instructions) or recorded == now:
            return ""
        _, old, new = first_difference(recorded, now)
        return f"the agent's instructions differ:\n  recorded  {old}\n  now       {new}"

    async def result(self, run: str) -> RunResult[Any]:
        """How far a run has come, from the log."""
        await self._read_start(run)
        records = await self.log.read(run)
        return await self._so_far(run, fold(records), records)

    async def fork(self, run: str, *, at: int | None, run_id: str = "") -> RunResult[Any]:
        """Branch off and go on."""
        new = run_id or runs.new_id()
        await runs.fork(self.log, run, new, at=at, now=clock())
        return await self.resume(new)

    async def _read_start(self, run: str) -> e.RunStarted:
        first = await self.log.read(run, limit=1)
        if not first or not isinstance(first[0].event, e.RunStarted):
            raise ConfigError(f"run {run!r} has no start: its log is damaged")
        return self._inherit(first[0].event)

    def _inherit(self, started: e.RunStarted) -> e.RunStarted:
        """Take over from a run's start what this activation was not given itself."""
        if self.principal is None:
            # Whoever resumes a run without saying who he is acts for the one who started it.
            self.setup.principal = started.principal
        # A child's share, as it was reserved at its start; a caller's own settings may be named so.
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
        """Run the agent behind `tool` as a child; its records reach our listener too."""
        if parent.limits.depth < 0:
            text = f"limit reached: agents call agents at most {parent.depth - 1} deep"
            return ChildOutcome(Observation(text, "failure", refused="tool_limit"))
        # A tool made of an agent has one required parameter, the goal, whatever it is called.
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
    ) -> ChildOutcome:
        """Run `agent` as a child, or carry it on."""
        activation = Activation(agent, self.deps, parent.principal, self.listener, self.log, parent)
        if await _exists(self.log, run):
            state = fold(await self.log.read(run))
            # What has ended otherwise is not repeated: its result is in its own log, and counts.
            if state.status in ("running", "waiting", "cancelled"):
                try:
                    state = (await activation.resume(run, takeover=self.takeover)).state
                except Refused:
                    # Whoever drove it has ended it since it was looked at: what it came to counts.
                    state = fold(await self.log.read(run))
                    if state.status not in ENDED or state.status == "cancelled":
                        raise
        else:
            result = await activation.run(goal, run_id=run, history=history)
            state = result.state

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
        )


def _unsuccessful(agent: str, run: str, state: RunState) -> str:
    """What a parent reads of a child that did not succeed: why, its run, and what it has seen."""
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


class Samples:
    """The run's own model, for tools that ask it: each question is a child run of the call.

    The child has no tools and may ask nobody; it is bounded by what is left of its parent's limits.
    """

    def __init__(self, activation: Activation) -> None:
        self._activation = activation
        self._spent: dict[str, tuple[Mapping[str, Usage], int] | None] | None = None
        """Tokens and model calls of each child run; None: they stand in its log."""

    async def answer(self, question: ModelQuestion, *, run: str, parent: Parent) -> ChildOutcome:
        """The model's answer."""
        spent = await self._children(parent.run)
        # Also what it consumes until it fails, or is stopped, is counted.
        spent[run] = None
        agent = self._activation.agent
        settings = agent.model_settings
        # A bound of the agent's own holds as well: whoever asks may only want less.
        bounds = [bound for bound in (question.max_tokens, settings.max_tokens) if bound]
        chosen = question.temperature
        sampler = agent.replace(
            tools=(),
            discover=(),
            models={},
            strategy="direct",
            output=str,
            instructions=question.system,
            ask_user=False,
            max_tokens=min(bounds, default=0),
            temperature=settings.temperature if chosen is None else chosen,
        )
        outcome = await self._activation.descend(
            sampler, question.prompt, run=run, parent=parent, history=question.history
        )
        if outcome.calls is not None:
            spent[run] = outcome.models, outcome.calls[0]
        return outcome

    async def spent(self, parent: str, call: str) -> ChildOutcome:
        """What the child runs of one call of a tool consumed, in whichever life of the run."""
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
        """The child runs of `parent`, listed once: whoever drives it begins all others."""
        if self._spent is None:
            rows = await self._activation.log.rows(parent=parent, limit=0)
            # Of two that list at once the second must not forget what the first began meanwhile.
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

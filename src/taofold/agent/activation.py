"""One activation of an agent: its description made live, and a run driven with it.

Here its options become a run's `Setup` and `Task`, strategies are found by name (ours and those
that others register), child runs are started, the earlier turns of a session are fetched, and
`Samples` lets a tool ask the run's own model. A run that is there already is resumed, forked or
replayed; `settle_log` says in which log it lies.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypedDict

from typing_extensions import Unpack

from taofold import reasoning
from taofold.agent.history import Earlier, History
from taofold.agent.result import Delta, Happening, Progress, RunResult, result_of
from taofold.clocks import clock
from taofold.core import events as e
from taofold.core.call_ids import IDENTITY
from taofold.core.content import Part, TextPart, media_of, parts_of
from taofold.core.effects import Strategy
from taofold.core.errors import ConfigError, LimitReached, Refused
from taofold.core.json_values import render
from taofold.core.state import ENDED, RunState, fold, live
from taofold.core.text import near
from taofold.core.values import JSON, Message, Observation, ObservationStatus, Principal, Usage
from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from taofold.log.run_store import Store
from taofold.policy import Limits
from taofold.policy.redaction import Redactor
from taofold.reasoning import Task
from taofold.runtime import run as runs
from taofold.runtime.approvers import approve_all, at_terminal
from taofold.runtime.control import never_began, pending, remove_unbegun
from taofold.runtime.endings import Advanced
from taofold.runtime.hooks import Hooks
from taofold.runtime.model import Model
from taofold.runtime.providers import resolve
from taofold.runtime.redaction import RedactionPass, redact_visible, unsaid
from taofold.runtime.setup import NO_HOOKS, Approver, ChildOutcome, Parent, Pause, Purse, Setup
from taofold.runtime.trace_context import TRACE_SETTING, current_trace
from taofold.tools import ModelQuestion, Tool
from taofold.tools.attachments import Prompt, Showing, prompted

if TYPE_CHECKING:
    from taofold.agent.agent import Agent


STRATEGIES: Final[dict[str, str]] = {
    "react": "react",
    "cot": "Cot",
    "self_correct": "SelfCorrect",
    "decompose": "Decompose",
    "plan": "Plan",
    "direct": "Direct",
}
"""Names in `taofold.reasoning`: loaded when an agent asks for them."""


def find_strategy(
    strategy: str | Callable[[Task], Strategy[Any]],
) -> tuple[str, Callable[[Task], Strategy[Any]]]:
    """The strategy's name and the function that makes it."""
    if not isinstance(strategy, str):
        return name_of(strategy), strategy
    if strategy not in STRATEGIES:
        raise ConfigError(
            f"unknown strategy {strategy!r}; {near(strategy, STRATEGIES)}", path="strategy"
        )
    factory: Any = getattr(reasoning, STRATEGIES[strategy])
    return strategy, factory() if isinstance(factory, type) else factory


def name_of(strategy: Callable[[Task], Strategy[Any]]) -> str:
    """What a strategy is called in the log: its own name, its function's, or "custom"."""
    inner = getattr(strategy, "func", strategy)  # of a functools.partial
    name = getattr(inner, "name", None) or getattr(inner, "__name__", None)
    return name if isinstance(name, str) else "custom"


STRICT: Final = "strict"
"""The key of `RunStarted.settings` that says whether the run enforces the rules of the loop."""
EXCUSES: Final = "excuses"
"""The key that says whether a model that writes no type of thought is asked for it once only."""
UI_CONTEXT = 2000
"""Characters of the user interface's context that reach the prompt."""
HISTORY = 20
"""Turns of a session that are carried over."""
HISTORY_MEDIA = 8 << 20
"""Bytes of images and documents in them that are shown again; for older ones stands a line."""


def settle_log(agent: "Agent[Any, Any]", run: "str | RunResult[Any]") -> tuple[Log, str]:
    """The log and the id of the run that is meant."""
    if isinstance(run, RunResult):
        if run.log is None:
            raise ConfigError("this result has no log; pass the run's id to an agent with a log")
        return run.log, run.run_id
    log = agent.opened_log
    if log is None:
        raise ConfigError("the agent has no log: pass log=… or the RunResult instead of an id")
    return log, run


def _redacted_goal(redactor: Redactor, given: Showing) -> tuple[Part, ...]:
    """The goal as it is recorded, if it holds more than text: without secrets."""
    return parts_of(redact_visible(RedactionPass(redactor), given.parts)) if given.media else ()


class RunOptions(TypedDict, total=False):
    """What is said of a new run besides its goal: see `Agent.run`."""

    session: str
    data: Mapping[str, JSON] | None
    ui_context: str
    history: Sequence[Earlier]
    settings: Mapping[str, Any] | None


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
        pause: Pause = str,
        purse: Purse | None = None,
    ) -> None:
        self.agent, self.deps, self.listener, self.parent = agent, deps, listener, parent
        self.log = log or agent.opened_log or MemoryLog()
        self.principal, self.takeover = principal, False
        # A child pauses when its parent must: the engine knows only the root.
        self.pause = pause if parent is None else parent.pause
        self.purse = purse if parent is None else parent.purse
        self.output = agent.answer
        self.strategy_name, self._make = find_strategy(agent.strategy)
        self.models = self._models()
        self.setup = self._setup()

    def _models(self) -> dict[str, Model]:
        agent = self.agent
        options = {"base_url": agent.base_url} if agent.base_url else {}
        if options and not isinstance(agent.model, str):
            raise ConfigError(
                "goes with one model that is named; others have their own", path="base_url"
            )
        models = {"executor": resolve(agent.model, **options)}
        for role, spec in self.agent.models.items():
            models[role] = resolve(spec)
        return models

    def _setup(self) -> Setup:
        agent, parent, listener = self.agent, self.parent, self.listener
        limits, policy, hooks = agent.limits, agent.policy, agent.hooks
        approve = _approver(agent.approve)
        if parent is not None:
            # A child can only get less than its parent has, in limits and in rights; what guards
            # an agent guards those that it asks too.
            limits, policy = limits.within(parent.limits), parent.policy.tightened(policy)
            hooks = (*parent.hooks.hooks, *hooks)
            approve = approve or parent.approve

        # After the parent's, whose rules may name a tool of this agent otherwise, too.
        tools = agent.toolset
        limits, policy = limits.covering(tools.aliases), policy.covering(tools.aliases)
        if limits.usd is not None or self.purse is not None:
            _check_prices(self.models.values())
        return Setup(
            models=self.models,
            tools=tools,
            limits=limits,
            own_limits=None if parent is None else agent.limits,
            agent=agent.name,
            policy=policy,
            principal=self.principal or Principal(),
            deps=self.deps,
            approve=approve,
            redactor=agent.redactor,
            listeners=() if listener is None else (listener,),
            on_delta=None if listener is None else lambda run, text: listener(Delta(run, text)),
            on_progress=None if listener is None else lambda r, t, s: listener(Progress(r, t, s)),
            pause=self.pause,
            purse=self.purse,
            on_request=getattr(self.log, "on_request", None),
            children=self._child,
            sampling=Samples(self),
            hooks=Hooks(hooks) if hooks else NO_HOOKS,
            cache=agent.replies if agent.cache else None,
            settings=agent.model_settings,
            on_denial=agent.on_denial,
            depth=0 if parent is None else parent.depth,
            finish=None if self.output.text else self.output.finish_schema(),
            offered=agent.offered,
        )

    def task(self, started: e.RunStarted) -> Task:
        """The strategy's input, from the recorded facts of the run."""
        agent = self.agent
        return Task(
            goal=started.goal,
            parts=started.parts,
            instructions=agent.instructions,
            offers=agent.offers,
            output=self.output,
            # A strict run answers a broken rule, a lenient one does not: only what it began with
            # derives the same conversation again. Older logs do not say.
            strict=bool(started.settings.get(STRICT, agent.strict)),
            # Runs that an earlier release began asked in every turn.
            excuses=bool(started.settings.get(EXCUSES)),
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
        make, task = self._make, self.task(started)
        return lambda: make(task)

    async def run(
        self, goal: Prompt, *, run_id: str = "", **options: Unpack[RunOptions]
    ) -> RunResult[Any]:
        """Start a run. `settings` are kept with it for whoever must rebuild the agent."""
        started, blobs = await self._describe_run(goal, **options)
        run = run_id or runs.new_id()
        store = await runs.start(self.log, started, run, self.strategy(started), self.setup, blobs)
        return await self._result(store)

    async def begin(self, goal: Prompt, *, run_id: str = "", **options: Unpack[RunOptions]) -> str:
        """Put a run into the log without driving it. Returns its id."""
        started, blobs = await self._describe_run(goal, **options)
        run = run_id or runs.new_id()
        await runs.begin(self.log, started, run, self.setup, blobs)
        return run

    async def _describe_run(
        self,
        goal: Prompt,
        session: str = "",
        data: Mapping[str, JSON] | None = None,
        ui_context: str = "",
        history: Sequence[Earlier] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> tuple[e.RunStarted, dict[str, bytes]]:
        """The fixed facts of a new run, without secrets, and the bytes of its media by digest."""
        agent, redactor = self.agent, self.setup.redactor
        prompt, earlier = prompted(goal), History(history)
        text, parts = prompt.text, _redacted_goal(redactor, prompt)
        if not text.strip():
            raise ConfigError("the goal is empty: say what the agent should do", path="goal")
        if ui_context:
            # Written by whoever embeds the agent; bounded, since it is sent again at each step.
            context_line = f"[UI Context: {redactor.text(ui_context)[:UI_CONTEXT]}]\n"
            text = context_line + text
            parts = (TextPart(redactor.text(context_line)), *parts) if parts else ()

        # A log that the run makes for itself is gone with it: nothing would be remembered.
        if session and self.parent is None and agent.opened_log is None:
            raise ConfigError(
                'a session is remembered in a log: pass log="memory", or a path, to the agent',
                path="session",
            )

        session = redactor.text(session)
        earlier_messages = [unsaid(redactor, message) for message in earlier.messages]
        model = self.models["executor"]
        started = e.RunStarted(
            goal=redactor.text(text),
            agent=agent.name,
            strategy=self.strategy_name,
            model=model.name,
            profile=model.profile,
            principal=self.setup.principal,
            policy=self.setup.policy.version,
            settings=self._settings(settings),
            # Copied and redacted here, where it enters: from now on it is in
            # the log and in the prompt.
            data=redactor.json(dict(data)) if data else {},
            history=(*await self._history(session), *earlier_messages),
            session=session,
            parent=self.parent.run if self.parent else "",
            depth=self.setup.depth,
            parts=parts,
        )
        return started, {**prompt.blobs, **earlier.blobs}

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
        return {**redacted, **self.agent.noted, **identity, **limits, **trace_setting}

    async def resume(self, run: str, *, takeover: bool = False) -> RunResult[Any]:
        """Carry on a run."""
        started = await self._read_start(run)
        self.takeover = takeover
        store = await runs.resume(
            self.log, run, self.strategy(started), self.setup, takeover=takeover
        )
        return await self._result(store)

    async def advance(self, run: str) -> Advanced:
        """Do whatever can be done for a run now."""
        started = await self._read_start(run)
        return await runs.advance(self.log, run, self.strategy(started), self.setup)

    async def replay(self, run: str) -> RunResult[Any]:
        """Re-derive a run."""
        started = await self._read_start(run)
        state = await runs.replay(self.log, run, self.strategy(started), self.setup)
        records = tuple(await self.log.read(run))
        return result_of(self.log, state, records, (), self.output.load)

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
        if not first and await remove_unbegun(self.log, await self.log.row(run)):
            raise never_began(run)
        if not first or not isinstance(first[0].event, e.RunStarted):
            raise ConfigError(f"run {run!r} has no start: its log is damaged")
        started = first[0].event
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

    async def _history(self, session: str) -> tuple[Message, ...]:
        """What was said in the session so far."""
        if not session:
            return ()
        messages: list[Message] = []
        attached = 0
        for row in await self.log.rows(session=session, limit=HISTORY):  # newest first
            state = fold(await self.log.read(row.run))
            if state.output is not None:
                messages.append(Message("assistant", render(state.output)))
            content = state.goal if state.started is None else state.started.content
            # Counted from the newest backwards: what is shown again is what was talked about last.
            attached += sum([part.size for part in media_of(content)])
            messages.append(Message("user", content if attached <= HISTORY_MEDIA else state.goal))
        return tuple(reversed(messages))

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
        text = state.output if state.output is not None else state.error or state.stop_reason
        calls = (
            state.model_calls + state.child_model_calls,
            state.tool_calls + state.child_tool_calls,
        )
        return ChildOutcome(
            Observation(text, status),
            usage=state.usage,
            calls=calls,
            tools=state.per_tool,
            models=state.usage_by_model,
        )


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
        sampler = agent.but(
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
    # A row without events never began (an older release wrote rows first): it is started anew.
    try:
        return (await log.row(run)).events > 0
    except LookupError:
        return False


def _check_prices(models: Iterable[Model]) -> None:
    for model in models:
        # Is there a price at all? Without one a limit could never hold.
        if model.price(1, 1) is None:
            raise ConfigError(
                f"a usd limit needs the price of {model.name!r}, which is unknown: give it "
                f"as Agent({{'model': {model.name!r}, 'prices': {{{model.name!r}: "
                "(1.0, 2.0)}}, …), in dollars per million tokens of input and output",
                path="limits.usd",
            )


def _approver(approve: "Approver | str | None") -> Approver | None:
    approvers: dict[str, Approver] = {"terminal": at_terminal, "all": approve_all}
    return approvers[approve] if isinstance(approve, str) else approve

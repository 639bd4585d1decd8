"""Calls of a tool: with a deadline, errors turned into observations, and stored results.

A tool may ask in the middle of its call (`InputRequired`); the run then waits for the answer. It
may also ask the run's model, or be an agent that runs as a child of the run. A call that raised is
retried. A call whose tool changed in the meantime is made with the new version only after an
approval. `uncertain_calls` handles calls that may have happened without an observation.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from threading import current_thread
from time import perf_counter
from typing import Any, Final, NamedTuple

import msgspec

from taofold.core import events as e
from taofold.core.call_ids import child_id, effect_id, sample_id
from taofold.core.content import MediaPart, TextPart
from taofold.core.errors import LogError, ModelError, RunError
from taofold.core.json_values import render
from taofold.core.state import ENDED, RunState
from taofold.core.text import error_text, excerpt, key_line, shorten, utf8
from taofold.core.values import Action, Observation, OpenConflicts, Usage
from taofold.foreign_code import contained
from taofold.policy import Facts, Limits
from taofold.policy.limits import Reserved
from taofold.policy.redaction import Redactor
from taofold.runtime.approvals import OpenQuestion
from taofold.runtime.hooks import Replace
from taofold.runtime.ledger import Cancelled, Ledger, Park, call_place, hook_context
from taofold.runtime.redaction import RedactionPass, checked_usage, is_masked, redact_visible
from taofold.runtime.setup import ChildOutcome, Parent, Sampling
from taofold.runtime.worktrees import (
    MOST_ATTEMPTS,
    ChildMerge,
    is_prepared,
    report,
    unmerged,
    with_report,
)
from taofold.tools import (
    BadArguments,
    Bound,
    DefinitionChanged,
    InputRequired,
    ModelAnswer,
    ModelQuestion,
    Outcome,
    PersonAnswer,
    RunContext,
    Tool,
)
from taofold.tools.context import ToolCharge
from taofold.tools.result import bulky, jsonable
from taofold.tools.threads import WORKERS
from taofold.workspace.merging import Merged

STATE = 65_536
"""Maximum size in bytes of the data that a tool may keep in the log with its question."""
QUESTION = 100_000
"""Maximum characters of a question that are shown; more than its state may have."""
BLOB = 16_384
"""Results larger than this many characters are stored beside the log."""
FIRST_PAUSE = 0.5
"""Seconds before a call that raised is repeated; doubled before each further one."""
QUESTIONS = 16
"""Maximum number of questions in one call; more make it fail."""
MANY: Final = 16
"""Number of hanging threads from which they are reported: they cannot be ended, and are limited."""
_NO_MEMORY: Final = (
    "MemoryError: this call needs more memory than this process has. "
    "Ask for less of it at a time, or have it written to a file and read a part."
)
TIMEOUT_OPTIONS = ("retry with a longer timeout_s", "try an alternative action")
UNCERTAIN_OPTIONS = ("find out whether it happened", "try an alternative action")
"""After a timeout of a call that must not be repeated, because it may still finish."""
ESCALATION = "escalate with ask_user"
"""A further option after a timeout, if the run offers `ask_user`."""


class ToolQuestions:
    """`RunContext.ask`: asks the approver at hand while the tool waits in its call."""

    def __init__(self, invocation: "Invocation") -> None:
        self._invocation = invocation
        self.timer: asyncio.Timeout | None = None
        """The call's deadline; it is suspended while a question is open."""
        self.signal: Park | Cancelled | LogError | None = None
        """The signal to raise for the run once the tool has returned."""
        self.sampled = False
        """True if the tool asked the run's model."""
        self._waits = 0
        self._left = 0.0
        """Remaining seconds of the deadline when the first of `_waits` began to wait."""

    async def __call__(self, wants: InputRequired) -> PersonAnswer:
        """Returns the answer; the call continues with it, which is recorded.

        Raises:
            InputRequired: There is no answer now.
        """
        invocation = self._invocation
        flaw = invocation.unanswerable(wants)
        if flaw:
            raise ValueError(flaw)
        try:
            with self._stopped():
                answer = await invocation.answered(wants)
                # A new start, durable before the tool continues: a crash after it is in doubt
                # again.
                invocation.start()
                await invocation.ledger.save()
        except (Park, Cancelled, LogError) as signal:
            # The tool could swallow a raised signal, so it is kept for afterwards.
            self.signal = signal
            raise wants from None
        return answer

    async def sample(self, question: ModelQuestion) -> ModelAnswer:
        """Implements `RunContext.sample`."""
        self.sampled = True
        try:
            with self._stopped():
                return await self._invocation.sampled(question)
        except (Park, Cancelled, LogError) as signal:
            self.signal = signal
            raise ValueError("the run stops, so its model is not asked") from None

    @contextmanager
    def _stopped(self) -> Generator[None]:
        """Suspends the call's deadline."""
        timer, clock = self.timer, asyncio.get_running_loop().time
        if timer is None:
            yield
            return
        # Several may wait at once: the first stops the timer, the last restarts it.
        if not self._waits:
            # Stopped and restarted, not extended: an answer may take a day.
            self._left = (timer.when() or 0.0) - clock()
            timer.reschedule(None)
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                timer.reschedule(clock() + self._left)


class StoredResult(NamedTuple):
    """The redacted and shortened result of a tool. `whole` is the full text, if it was cut."""

    outcome: Outcome
    result: Any
    extraction: str
    auto: bool
    shortened: bool
    whole: bytes
    digest: str
    masked: bool


class Invocation:
    """One call of a tool, at its place in the run: `perform` it, or `delegate` it to an agent."""

    def __init__(self, ledger: Ledger, key: str, index: int, action: Action, tool: Tool) -> None:
        self.ledger, self.key, self.index = ledger, key, index
        self.action, self.tool = action, tool
        self.place = call_place(key, index)
        self.kept: Any = None
        """The state that the tool kept of the call (`RunContext.keep`)."""

    def start(self, retry: int = 0) -> None:
        """Records that the call starts or continues now, or is repeated (`retry`)."""
        event = start_event(self.key, self.index, self.tool)
        if self.kept or retry:
            event = msgspec.structs.replace(event, kept=self.kept, retry=retry)
        self.ledger.new(event)

    async def keep(self, state: Any) -> None:
        """Makes durable how the tool continues the call.

        Raises:
            ValueError: The state cannot be stored unchanged.
        """
        if not state or self._altered(state) or len(msgspec.json.encode(state)) > STATE:
            raise ValueError(f"{self.tool.name} keeps what cannot be written as it is")
        self.kept = state
        self.start()
        # Not `save`: the tool must not see a cancellation of the run.
        await self.ledger.flush()

    def _charge_into(self, loop: asyncio.AbstractEventLoop) -> ToolCharge:
        """Returns the function that records what the call itself consumed, from any thread."""
        driver = current_thread()

        def charge(usage: Usage, *, estimated: bool = False) -> None:
            try:
                checked_usage(usage)
            except ModelError as error:
                raise ValueError(f"{self.tool.name}: {error}") from None
            if current_thread() is driver:
                self._charge(usage, estimated)
            else:
                # A thread may outlive its call, the run and the event loop.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._charge, usage, estimated)

        return charge

    def _charge(self, usage: Usage, estimated: bool) -> None:
        consumed = usage.tokens or usage.priced_usd
        if consumed and self.ledger.store.state.status not in ENDED:
            self.ledger.new(
                e.Charged(
                    key=self.key,
                    usage=usage,
                    tool=self.tool.name,
                    estimated=estimated,
                    agent=self.ledger.setup.handed_to,
                )
            )

    def _altered(self, state: Any) -> bool:
        """Returns whether the log would return something other than `state`."""
        written = jsonable(state)
        return bool(written != state or self.ledger.setup.redactor.json(written) != written)

    async def perform(
        self, bound: Bound, answer: PersonAnswer | None = None, failures: int = 0
    ) -> e.Observed:
        """Runs the tool after its `Started` is durable. Never raises for failures of the tool.

        It is called again with the `answer` to its question, at most `QUESTIONS` times, and while
        it has `retries` left if it raised; `failures` is the number of earlier failures.
        """
        ledger, tool, questions_left = self.ledger, self.tool, QUESTIONS
        while True:
            # `Started` must be durable before the tool is called; otherwise a crash would call it
            # twice.
            await ledger.save()
            if tool.agent is not None:
                return await self.delegate()
            seconds = self.deadline(bound)
            questions = ToolQuestions(self)
            context = self._context(questions, seconds, answer) if bound.contextual else None
            begin = perf_counter()
            raised = False
            # A timer cannot interrupt an inline call, which blocks the event loop.
            timer = questions.timer = None if bound.inline else asyncio.timeout(seconds)
            try:
                # Around the deadline: its cancellation is no cancellation of the run.
                span = ledger.setup.during_call(ledger.store.run, self.key, self.index)
                with span, contained():
                    if timer is None:
                        outcome = await bound.run(context)
                    else:
                        async with timer:
                            outcome = await bound.run(context)
            except InputRequired as wants:
                # A tool that lets `InputRequired` pass ends here; one that swallowed it, below.
                if questions.signal is not None:
                    raise questions.signal from None
                too_many = f"{tool.name} asks too many questions"
                flaw = self.unanswerable(wants) if questions_left else too_many
                if not flaw:
                    answer = await self.answered(wants)
                    self.start()
                    questions_left -= 1
                    # Called again from its beginning: the tool stopped at its question.
                    bound = tool.bind(self.action.parameters)
                    continue
                outcome = Outcome(flaw, "failure")
            except DefinitionChanged as change:
                renewed = self._renewed(change) if questions_left else str(change)
                if isinstance(renewed, Bound):
                    bound, tool = renewed, self.tool
                    questions_left -= 1
                    continue
                outcome = Outcome(renewed, "failure")
            except Exception as error:  # noqa: BLE001 - the model reads every failure of a tool
                late = _is_deadline(error, timer)
                # Memory will not suffice the next time either.
                raised = not (late or isinstance(error, MemoryError))
                outcome = self._timed_out(context, seconds) if late else _failed(error)

            if questions.signal is not None:
                raise questions.signal
            if not (raised and failures < tool.retries and await self._restarted(failures)):
                break
            failures += 1
            # Bound again, as approved: the tool may have changed its arguments.
            bound = tool.bind(self.action.parameters)

        if raised and failures:
            outcome = Outcome(f"tried {failures + 1} times: {outcome.value}", "failure")
        ledger.inbox.stale = True
        spent = perf_counter() - begin
        outcome, hooks = await self._hooked(outcome, spent)
        event = self._event(await self._bounded(outcome), spent, hooks)
        # an earlier activation may have asked the model
        if questions.sampled or answer is not None:
            event = await self._with_samples(event)
        return event

    def _renewed(self, change: DefinitionChanged) -> Bound | str:
        """Returns the call of the tool's current version, with its start recorded, or why it is not
        made.

        Only an approval of this very call carries it over to the version that was not ruled on.
        """
        setup, tool = self.ledger.setup, self.ledger.tool(self.tool.name)
        if not change.accepted or tool is None:
            return str(change)
        # The approval covers the tier; a denial by the policy cannot be approved.
        ruling = setup.policy.rule(self.action, facts(tool), setup.principal)
        if ruling.verdict == "deny":
            return ruling.reason
        try:
            bound: Bound = tool.bind(self.action.parameters)
        except BadArguments as error:
            return str(error)
        if self.action.guessed or any(repair.content for repair in bound.repairs):
            return f"the parameters of {tool.name} do not fit it as it is now: send them exactly"
        # With its current effect, before it is called: otherwise a crash would repeat the call.
        self.tool = tool
        self.start()
        return bound

    async def _with_samples(self, event: e.Observed) -> e.Observed:
        """Returns the event with the consumption of the run's model for the tool's questions."""
        ledger, sampling = self.ledger, self.ledger.setup.sampling
        if sampling is None:
            return event
        spent = await self._spent(sampling)
        ledger.allowance.reserved.pop(self.place, None)  # it is counted from now on
        if spent.calls == (0, 0):
            return event
        return msgspec.structs.replace(
            event, usage=spent.usage, calls=spent.calls, models=dict(spent.models)
        )

    async def sampled(self, question: ModelQuestion) -> ModelAnswer:
        """Returns the answer of the run's model, from a child run that is the same for equal
        questions.

        Raises:
            ValueError: There is none.
        """
        ledger = self.ledger
        setup, run, allowance = ledger.setup, ledger.store.run, ledger.allowance
        if setup.sampling is None:
            raise ValueError("there is no model that could answer")
        number = int.from_bytes(blake2b(msgspec.json.encode(question), digest_size=5).digest())

        # One after another, in the whole run: each may use all that is left.
        async with allowance.sampling:
            # After a cancellation no further cost may arise.
            ledger.inbox.stale = True
            await ledger.raise_if_cancelled()
            consumed = await self._consumed(setup.sampling)
            limits = allowance.for_child(self.place, consumed)
            allowance.reserved[self.place] = consumed.plus(limits.reserved())
            try:
                child = await setup.sampling.answer(
                    question,
                    run=sample_id(run, self.key, self.index, number),
                    parent=self._parent(limits),
                )
            finally:
                ledger.inbox.stale = True
            if child.waiting_for:  # its share stays reserved, because it continues
                raise Park(child.waiting_for)
            allowance.reserved[self.place] = await self._consumed(setup.sampling)

        observation = child.observation
        if observation.status != "success":
            raise ValueError(f"the run's model gave no answer: {observation.result}")
        return ModelAnswer(str(observation.result), setup.model("executor").name)

    async def _spent(self, sampling: Sampling) -> ChildOutcome:
        """Returns the consumption of the call's samples, over all activations."""
        run = self.ledger.store.run
        return await sampling.spent(run, child_id(run, self.key, self.index))

    async def _consumed(self, sampling: Sampling) -> Reserved:
        """Returns the consumption of the call's samples, not yet counted by the state."""
        spent = await self._spent(sampling)
        calls, usage = spent.calls or (0, 0), spent.usage or Usage()
        return Reserved(calls[0], calls[1], usage.tokens, usage.priced_usd)

    async def _hooked(self, outcome: Outcome, spent: float) -> tuple[Outcome, tuple[str, ...]]:
        """Returns the outcome after the hooks, and the names of those that changed it.

        Args:
            outcome: The outcome of the call.
            spent: Seconds of the call, which the run's record does not count yet.
        """
        hooks = self.ledger.setup.hooks
        if "after_tool" not in hooks.points:
            return outcome, ()
        context = hook_context(self.ledger, self.key)
        left = self.ledger.allowance.seconds_left()
        changes = await hooks.call(
            "after_tool",
            context,
            self.action,
            outcome.value,
            seconds=None if left is None else left - spent,
        )
        for change in changes:
            match change.verdict:
                case Replace(value=value):
                    outcome = Outcome(jsonable(value), outcome.status, update=outcome.update)
                case _:  # rejected: nothing of it reaches the model or the state
                    outcome = Outcome(change.reason, "failure")
        return outcome, tuple([change.hook for change in changes])

    async def _bounded(self, outcome: Outcome) -> StoredResult:
        """Returns the outcome to store; one that exhausts memory is a failure of the call."""
        redactor, tool = self.ledger.setup.redactor, self.tool
        try:
            # searching megabytes for secrets must not block the event loop
            if bulky(outcome.value):
                stored: StoredResult = await WORKERS.run(_stored, redactor, tool, outcome)
                return stored
            return _stored(redactor, tool, outcome)
        except MemoryError:
            return _stored(redactor, tool, Outcome(_NO_MEMORY, "failure"))

    def observed(self, outcome: Outcome, seconds: float) -> e.Observed:
        """Returns the event for a tool's result: redacted, shortened, with its key line."""
        return self._event(_stored(self.ledger.setup.redactor, self.tool, outcome), seconds)

    def unanswerable(self, wants: InputRequired) -> str:
        """Returns why the question cannot be asked, or ""."""
        state = jsonable(wants.state)
        # The log must return the tool's exact state, not a JSON approximation.
        if state != wants.state or len(msgspec.json.encode([state, wants.form])) > STATE:
            return (
                f"the tool asks {shorten(wants.question, 200)!r}, with more than can be kept for it"
            )
        redactor = self.ledger.setup.redactor
        # Never altered silently: the tool would get an incomplete state back.
        if redactor.json(state) != state or redactor.json(wants.form) != wants.form:
            return "the tool's question holds a secret in its state or form, which is not stored"
        return ""

    async def answered(self, wants: InputRequired) -> PersonAnswer:
        """Returns the answer to a tool's question. Parks the run if there is none now."""
        request: dict[str, Any] = {"form": wants.form, "state": wants.state}
        text = self.ledger.setup.redactor.text(shorten(wants.question, QUESTION))
        question = OpenQuestion(
            self.ledger, self.key, self.index, self.action, self.tool, text, request
        )
        resolved = await question.answer()
        return PersonAnswer(resolved.reason, resolved.verdict == "allow", wants.state, resolved.by)

    async def answered_since(self) -> PersonAnswer | None:
        """Returns the answer to the tool's question after its last start; None if it asked nothing.

        Parks the run if it asked and there is no answer now.
        """
        answer: PersonAnswer | None = None
        recording = self.ledger.recording
        # The last of repeated questions counts; each has its own form.
        while past := recording.event(e.Decided, self.key, self.index):
            request = past.request
            if not request:
                break
            wants = InputRequired(past.reason, form=request["form"], state=request["state"])
            answer = await self.answered(wants)
        return answer

    async def delegate(self) -> e.Observed:
        """Runs or continues the agent behind a tool as a child run, within remaining limits."""
        ledger, tool = self.ledger, self.tool
        setup, allowance = ledger.setup, ledger.allowance
        if setup.children is None:
            return self.observed(Outcome("no agent runner", "failure"), 0.0)
        run = child_id(ledger.store.run, self.key, self.index, ledger.store.state.rewinds)
        allowance.queue.discard(self.place)
        # Computed before its own share is reserved, or it would count against itself.
        limits = allowance.for_child(self.place, among=allowance.sharing(self.key))
        parent = self._parent(limits)
        allowance.reserved[self.place] = limits.reserved()
        begin = perf_counter()
        try:
            child = await setup.children(tool, self.action.parameters, run=run, parent=parent)
        except BaseException:
            # Not in the `finally`: a waiting child keeps its share.
            del allowance.reserved[self.place]
            raise
        finally:
            ledger.inbox.stale = True

        # its share stays reserved, because it continues and is not counted yet
        if child.waiting_for:
            await ledger.raise_if_cancelled()
            ledger.record_steering(self.key)
            raise Park(child.waiting_for)

        del allowance.reserved[self.place]
        observation = child.observation
        files, conflicts = await self._merge(child)
        answer = with_report(observation.result, files)
        spent = perf_counter() - begin
        outcome, hooks = await self._hooked(
            Outcome(answer, observation.status, observation.extraction), spent
        )
        ended = self.observed(outcome, spent)
        return msgspec.structs.replace(
            ended,
            observation=msgspec.structs.replace(
                ended.observation,
                refused=observation.refused,
                masked=observation.masked or ended.observation.masked,
                conflicts=conflicts,
            ),
            usage=child.usage,
            calls=child.calls,
            tools=dict(child.tools),
            models=dict(child.models),
            hooks=hooks,
        )

    async def _merge(self, child: ChildOutcome) -> tuple[str, OpenConflicts | None]:
        """Merges the files of an ended child; returns text and conflicts of the observation."""
        files, place = child.files, self.ledger.setup.snapshots
        if files is None or place is None:
            return "", None
        if child.observation.status != "success":
            return unmerged(files.run, files, "the run was not successful"), None
        run = self.ledger.store.run
        merge = ChildMerge(run, place, files)
        # One after the other: the next one merges with the result of this one.
        async with self.ledger.merging:
            try:
                merged = await self._merged(merge)
                end = await merge.close(merged, self.kept)
            except RunError as error:
                return unmerged(files.run, files, str(error)), None
        conflicts = end.open_conflicts(self.ledger.setup.redactor.text)
        return report(run, files.run, end), conflicts

    async def _merged(self, merge: ChildMerge) -> Merged:
        """Merges with the states on record, then with newer ones while files change."""
        landed: set[str] = set()
        merged = Merged((), ())
        for attempt in range(MOST_ATTEMPTS):
            if attempt or not is_prepared(self.kept):
                states = await merge.prepare()
                if states == self.kept:
                    break
                # Before the first file changes: after a crash the same states are merged.
                await self.keep(states)
            merged = await merge.apply(self.kept)
            landed.update(merged.paths)
            if not any(it.kind == "changed" for it in merged.conflicts):
                break
        return Merged(tuple(sorted(landed)), merged.conflicts)

    def _parent(self, limits: Limits) -> Parent:
        """Returns the settings that a child run of this call inherits."""
        ledger, setup = self.ledger, self.ledger.setup
        return Parent(
            run=ledger.store.run,
            limits=limits,
            policy=setup.policy,
            principal=setup.principal,
            depth=setup.depth + 1,
            deps=setup.deps,
            approve=setup.approve,
            pause=setup.pause,
            hooks=setup.hooks,
            purse=setup.purse,
            tags=ledger.store.state.started.tags if ledger.store.state.started else {},
        )

    async def _restarted(self, failures: int) -> bool:
        """Starts a call that raised once more, if the limits allow a further call."""
        allowance = self.ledger.allowance
        if allowance.for_tool(self.tool.name, self.place) is not None:
            return False
        await self.ledger.setup.sleep(FIRST_PAUSE * 2**failures)
        # Other calls may have used the rest during the pause.
        if allowance.for_tool(self.tool.name, self.place) is not None:
            return False
        self.kept = None  # it starts from the beginning
        self.start(failures + 1)
        return True

    def deadline(self, bound: Bound) -> float:
        """Returns the seconds the call may take: the tool's or the action's, within the run's."""
        left = self.ledger.allowance.seconds_left()
        return bound.timeout if left is None else min(bound.timeout, left)

    def _context(
        self, questions: ToolQuestions, seconds: float, answer: PersonAnswer | None
    ) -> RunContext[Any]:
        """Returns the context that the tool receives."""
        setup, store = self.ledger.setup, self.ledger.store
        return RunContext(
            deps=setup.deps,
            run_id=store.run,
            effect_id=effect_id(store.run, store.state, self.key, self.index),
            step=len(store.state.steps) + 1,
            goal=store.state.goal,
            principal=setup.principal,
            timeout_s=seconds,
            data=_data(store.state, self.tool),
            answer=answer,
            ask=None if setup.approve is None else questions,
            keep=self.keep,
            kept=self.kept,
            charge=self._charge_into(asyncio.get_running_loop()),
            sample=None if setup.sampling is None else questions.sample,
            memory=setup.memory
            and setup.memory(
                store.run, self.tool.name, store.records, store.state, setup.principal
            ),
            on_progress=self._progress(),
        )

    def _progress(self) -> Callable[[str], None] | None:
        """Returns the function that receives the tool's progress: redacted, never logged."""
        setup, run = self.ledger.setup, self.ledger.store.run
        hear = setup.on_progress
        if hear is None:
            return None
        return lambda text: hear(run, self.tool.name, setup.redactor.text(utf8(text)))

    def _timed_out(self, context: RunContext[Any] | None, seconds: float) -> Outcome:
        tool = self.tool
        text = f"{tool.name} timed out after {seconds:g} s."
        if WORKERS.hanging >= MANY:
            text += f" {WORKERS.hanging} calls of this process hang in threads that cannot end."
        if tool.effect == "once":
            text += " It may have happened or may still finish."
        if context is not None and context.partial:
            text += utf8(" Output so far:\n" + "".join(context.partial))
        options = "; ".join(self._options())
        return Outcome(f"{text}\nOptions: {options}.", "timeout", extraction=text.splitlines()[0])

    def _options(self) -> tuple[str, ...]:
        """Returns the options of the model after a timeout."""
        once = self.tool.effect == "once" and self.tool.agent is None
        options = UNCERTAIN_OPTIONS if once else TIMEOUT_OPTIONS
        return (*options, ESCALATION) if self.ledger.setup.ask_user else options

    def _event(
        self, stored: StoredResult, seconds: float, hooks: tuple[str, ...] = ()
    ) -> e.Observed:
        outcome = stored.outcome
        if stored.digest:
            self.ledger.store.keep(stored.digest, stored.whole)
        empty = stored.result is None or stored.result == ""
        parts, is_part_masked = self._parts(outcome)
        return e.Observed(
            key=self.key,
            index=self.index,
            observation=Observation(
                # An empty result must still show the model that the tool has run.
                result="(no result)" if empty else stored.result,
                status=outcome.status,
                extraction=stored.extraction,
                auto=stored.auto,
                # Seconds to milliseconds, kept to the microsecond.
                duration_ms=round(seconds * 1e6) / 1000,
                options=self._options() if outcome.status == "timeout" else (),
                blob=stored.digest,
                cut=stored.shortened,
                parts=parts,
                masked=stored.masked or is_part_masked,
            ),
            update=outcome.update,
            hooks=hooks,
        )

    def _parts(self, outcome: Outcome) -> tuple[tuple[TextPart | MediaPart, ...], bool]:
        """Returns text and media to record, and whether a secret was replaced in them.

        The bytes are stored beside the log.
        """
        if not outcome.parts:
            return (), False
        for digest, content in outcome.blobs.items():
            self.ledger.store.keep(digest, content)
        walk = RedactionPass(self.ledger.setup.redactor)
        presentable = redact_visible(walk, outcome.parts)
        if isinstance(presentable, str):
            return (TextPart(presentable),), walk.lost
        longest = min(self.tool.max_chars, BLOB)
        parts = [
            TextPart(excerpt(part.text, longest)) if isinstance(part, TextPart) else part
            for part in presentable
        ]
        return tuple(parts), walk.lost


def facts(tool: Tool) -> Facts:
    """Returns the facts about `tool` that the policy needs."""
    return Facts(
        tool.tier, tool.effect, tool.role, tool.definition, tool.delegated, tool.undeclared
    )


def start_event(key: str, index: int, tool: Tool) -> e.Started:
    """Returns the event before the call: on disk if the call must not be repeated lightly."""
    if tool.effect == "read":
        return e.Started(key=key, index=index)
    return e.StartedOnce(key=key, index=index, effect=tool.effect)


def _stored(redactor: Redactor, tool: Tool, outcome: Outcome) -> StoredResult:
    """Returns the stored form of a result. Pure, so that a thread can compute it."""
    result = redactor.json(outcome.value)
    masked = is_masked(outcome.value, result)
    text = render(result)
    digest, whole = "", b""
    longest = min(tool.max_chars, BLOB)
    shortened = len(text) > longest
    if shortened:
        if len(text) > BLOB:
            whole = text.encode("utf-8", "surrogatepass")
            digest = blake2b(whole, digest_size=20).hexdigest()
        result = text = excerpt(text, longest)
    extraction = outcome.extraction
    auto = not extraction
    if auto:
        extraction = key_line(text, failed=outcome.status in ("failure", "timeout")) or "(empty)"
    # State updates of a tool reach the log and the prompt as well.
    if outcome.update is not None:
        update = (outcome.update[0], redactor.json(outcome.update[1]))
        masked = masked or is_masked(outcome.update[1], update[1])
        outcome = msgspec.structs.replace(outcome, update=update)
    key = redactor.text(extraction)
    masked = masked or is_masked(extraction, key)
    return StoredResult(outcome, result, key, auto, shortened, whole, digest, masked)


def _is_deadline(error: Exception, timer: asyncio.Timeout | None) -> bool:
    """Returns whether the call's deadline raised it, not the tool itself."""
    return isinstance(error, TimeoutError) and timer is not None and timer.expired()


def _failed(error: Exception) -> Outcome:
    text = _NO_MEMORY if isinstance(error, MemoryError) else error_text(error)
    return Outcome(text, "failure")


def _data(state: RunState, tool: Tool) -> Mapping[str, Any]:
    """Returns the state's data; a `(state, args)` tool also gets TAgent's missing keys."""
    if tool.signature.style != "stateful":
        return state.data
    results = [
        observation.result
        for step in state.steps
        for action, observation in zip(step.actions, step.observations, strict=True)
        if action.tool in state.per_tool and not observation.refused
    ]
    seeds = {
        "goal": state.goal,
        "results": results,
        "used_tools": list(state.per_tool),
        "achieved": False,
    }
    return {**seeds, **state.data}

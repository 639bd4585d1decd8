"""The actions of one step, its batch, from `Proposed` to the last `Observed`.

Every action goes through refusal, ruling, question, start and observation, in this order and with
an event at each stage. After a crash between any two of them the log shows what may be repeated. An
action is refused if it cannot be called, a hook rejects it, the guard detects repetition, or a
limit forbids it. Allowed actions start together, up to the next question; questions about later
actions are asked at the same time. `tool_calls` makes the calls, with deadlines and retries.
"""

import asyncio
from itertools import islice
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from taofold.core import events as e
from taofold.core.effects import Act
from taofold.core.file_states import stores_files
from taofold.core.json_values import copied
from taofold.core.text import near, utf8
from taofold.core.values import ASK_USER, SEARCH, Action, Observation, Step
from taofold.policy import Ruling
from taofold.policy.limits import LIMIT_REFUSALS, Blocked, Reserved
from taofold.policy.redaction import MARK
from taofold.policy.repetition import CallIdentity
from taofold.runtime.approvals import OpenQuestion, secret
from taofold.runtime.hooks import ReplaceArguments
from taofold.runtime.ledger import Denied, Ledger, Park, call_place, hook_context
from taofold.runtime.redaction import ALTERED, mask_places, redact_step
from taofold.runtime.step_files import step_state
from taofold.runtime.tool_calls import Invocation, facts, start_event
from taofold.runtime.uncertain_calls import Attempts, PastCall
from taofold.tools import BadArguments, Bound, Tool, Toolset
from taofold.tools.deferral import MOST_OFFERED

MOST_PLACES: Final = 5
"""Maximum number of masked places that a refusal names."""


class ReadyCall(NamedTuple):
    """A call that may start."""

    position: int
    action: Action
    tool: Tool
    bound: Bound


class HookedCall(NamedTuple):
    """A call as hooks changed it."""

    action: Action
    hooks: tuple[str, ...]


class ActionBatch:
    """The actions of one step in progress."""

    def __init__(self, ledger: Ledger, key: str, effect: Act) -> None:
        self.ledger, self.key = ledger, key
        self._bound: dict[int, Bound] = {}
        """Arguments of calls that were checked when the batch was made."""
        cleaned = redact_step(ledger.setup.redactor, effect, masked=self._is_masked())
        self.effect = effect = self._typed(cleaned)
        # Copies, separate from those of listeners, hooks and callbacks: the approved and recorded
        # call is the one that runs.
        self.actions = [action.apart() for action in effect.actions]
        self.observations: list[Observation | None] = [None] * len(effect.actions)
        self.calls: list[CallIdentity | None] = [None] * len(effect.actions)
        """The identities that the guard judged."""
        self._attempts: dict[int, Attempts] = {}
        """Starts of calls by earlier activations without an observation."""
        self._changes: dict[int, HookedCall] = {}
        """Calls that hooks changed."""
        self._questions: dict[int, OpenQuestion] = {}
        """Questions asked together with an earlier call; each is settled at its turn."""
        self._guard = ledger.guard(key)
        self._ready: list[ReadyCall] = []
        self._same: dict[str, int] = {}
        self._pause = 0

    def _is_masked(self) -> bool:
        """Returns whether the model had read a masked text when it proposed the step."""
        recorded = self.ledger.recording.event(e.Proposed, self.key)
        # A call of the step itself may have masked a secret since: the record has the earlier
        # state.
        if recorded is not None:
            return any([ALTERED in action.repairs for action in recorded.actions])
        return self.ledger.store.state.masked

    def _typed(self, effect: Act) -> Act:
        """Returns the step with parameters converted to the types that its tools declare."""
        recorded = self.ledger.recording.event(e.Proposed, self.key)
        fitted: dict[int, Action] = {}
        for index, action in enumerate(effect.actions):
            tool = self.ledger.tool(action.tool)
            if tool is None or action.error or any(effect.local[index : index + 1]):
                continue
            if recorded is None:
                bound = _bind(tool, action)
                if isinstance(bound, Observation):
                    continue
                self._bound[index] = bound
                is_converted = bool(bound.repairs)
            else:
                past = recorded.actions[index : index + 1]
                is_converted = any(
                    (each.parameters, each.repairs) != (action.parameters, action.repairs)
                    for each in past
                )
            if is_converted:
                fitted[index] = tool.fitted(action)

        if not fitted:
            return effect
        actions = [fitted.get(index, action) for index, action in enumerate(effect.actions)]
        return replace(effect, actions=tuple(actions))

    async def perform(self) -> tuple[Observation, ...]:
        """Records the step and runs the permitted actions, in order.

        All actions after a waiting one wait too.
        """
        # Recorded before any decision: a crash in the middle leaves the whole batch open, and each
        # of its actions is answered when the run is resumed.
        effect, before = self.effect, self.ledger.store.head
        await self._store_first_files()
        self.ledger.put(e.Proposed(key=self.key, thought=effect.thought, actions=effect.actions))
        local, past = self.effect.local, not self.ledger.recording.fresh
        try:
            for index, action in enumerate(tuple(self.actions)):
                observation = local[index] if index < len(local) else None
                if observation is not None:
                    self._observe(index, observation)
                elif self.observations[index] is not None or (past and self._recall(index)):
                    continue
                # Earlier calls run first: the question may be about their results.
                elif action.tool == ASK_USER and self._may_ask_user(index):
                    await self._run_ready()
                    await self._ask_user(index, action)
                else:
                    await self._consider(index, action)
            await self._run_ready()
        except BaseException:
            # Allowed calls do not begin now: parallel branches may.
            for index in range(len(self.actions)):
                self._release(index)
            raise

        # Every action has its observation here: an unanswered one has raised `Park`.
        observations = tuple(filter(None, self.observations))
        if not self.effect.planned:
            step = Step(0, self.effect.thought, tuple(self.actions), observations)
            self.ledger.tell_guard(self._guard, step, self.calls)
        # Not for a step of the past: its files may have changed since.
        if self.ledger.store.head > before:
            await self._store_files()
        return observations

    async def _store_first_files(self) -> None:
        """Stores the state of the files before the first step of the run."""
        ledger = self.ledger
        state = ledger.store.state
        if ledger.setup.snapshots is None or state.steps or state.open or ledger.recording.exact:
            return
        if not ledger.recording.fresh and ledger.recording.event(e.Proposed, self.key):
            return
        if stores_files(ledger.store.records):
            return
        event = await step_state(ledger.store.run, ledger.setup, 0)
        since = ledger.store.state
        if event is not None and not (since.open or since.steps):
            ledger.new(event)

    async def _store_files(self) -> None:
        """Stores the state of the files after the step, unless another branch has an open one."""
        ledger = self.ledger
        state = ledger.store.state
        if ledger.setup.snapshots is None or state.open:
            return
        calls = [(self.key, at, ledger.tool(it.tool)) for at, it in enumerate(self.actions)]
        event = await step_state(ledger.store.run, ledger.setup, len(state.steps), calls)
        # A branch may have begun or ended a step in between: then the state is of no step.
        since = ledger.store.state
        if event is not None and not since.open and len(since.steps) == event.step:
            ledger.new(event)

    def _recall(self, index: int) -> bool:
        """Restores an observed action on resume, regardless of the current code."""
        events = self.ledger.recording.settled_call(self.key, index)
        for event in events:
            if isinstance(event, e.Observed):
                self.observations[index] = event.observation
            elif isinstance(event, e.Decided) and event.action is not None:
                self.actions[index] = event.action
            elif isinstance(event, e.Hooked) and event.after is not None:
                self.actions[index] = replace(self.actions[index], parameters=event.after)
        return bool(events)

    async def _consider(self, index: int, action: Action) -> None:
        tool = self.ledger.tool(action.tool)
        bound = self._refusal(index, action, tool) or self._as_bound(index, action, tool)

        # Even a call that cannot be made now may have been started under an earlier version of its
        # tool.
        if isinstance(bound, Observation):
            await self._answer_unmakeable(index, action, tool, bound)
            return
        tool = bound.tool
        # Before the policy: a call that may have happened must not be recorded as "denied".
        verdict = None if self.ledger.recording.fresh else self._earlier_start(index, action)
        if verdict is None:
            # A question that is already asked has passed the hooks.
            if index not in self._questions and await self._rejected_by_hook(index, action):
                return
            if index in self._changes:
                original, action = action, self._changes[index].action
                changed = self._judged_again(index, original, action, tool)
                if isinstance(changed, Observation):
                    by = ", ".join(self._changes[index].hooks)
                    text = f"{changed.result}; changed by the hook {by}"
                    self._observe(index, replace(changed, result=text))
                    return
                bound = changed
            tool = self._current(tool)
            ruling = self._rule(index, action, tool)
            # A question asked ahead stays open, even if its tool needs no approval by now.
            if ruling.verdict == "ask" or (ruling.verdict == "allow" and index in self._questions):
                # A question stops the batch here: no later call runs before it is answered.
                verdict = await self._ask_person(index, action, tool, ruling)
            elif self._record_ruling(index, ruling):
                verdict = action
            if verdict is None or self._refuse_over_limit(index, verdict.tool):
                return

        # An approver edited it, an earlier activation started another call, or the tool changed
        # while the question was open: the guard judged another call.
        tool = self._current(tool)
        if verdict is not action or bound.tool is not tool:
            action = verdict
            bound_anew = await self._bind_anew(index, action, tool)
            if bound_anew is None:
                return
            bound = bound_anew

        # Nothing else of the batch runs beside it: earlier calls end first, then it runs alone.
        if tool.sequential:
            await self._run_ready()
        self._ready.append(ReadyCall(index, action, tool, bound))
        if tool.sequential:
            await self._run_ready()

    def _as_bound(self, index: int, action: Action, tool: Tool | None) -> Bound | Observation:
        """Returns the arguments checked when the batch was made, if its tool is still the same."""
        bound = self._bound.pop(index, None)
        unchanged = bound is not None and bound.tool is tool
        return bound if bound is not None and unchanged else self._checked(tool, action)

    async def _bind_anew(self, index: int, action: Action, tool: Tool) -> Bound | None:
        """Binds a call that differs from the one the guard judged; None if it was answered."""
        self.actions[index], self.calls[index] = action, None
        bound = self._checked(tool, action)
        if isinstance(bound, Observation):  # edited for another version of the tool
            await self._answer_unmakeable(index, action, tool, bound)
            return None
        if index not in self._attempts and await self._rejected_by_hook(index, action, final=True):
            return None
        return bound

    def _judged_again(
        self, index: int, original: Action, action: Action, tool: Tool
    ) -> Bound | Observation:
        """Returns the arguments of a call that hooks changed, or why it is refused."""
        self.actions[index] = action
        if not self.effect.planned:
            self._same[self.ledger.call(original).key] -= 1
        return self._refusal(index, action, tool) or self._checked(tool, action)

    def _current(self, tool: Tool) -> Tool:
        """Returns the current version of the tool."""
        return self.ledger.tool(tool.name) or tool

    async def _answer_unmakeable(
        self, index: int, action: Action, tool: Tool | None, why: Observation
    ) -> None:
        past = PastCall(self.ledger, self.key, index, action, tool)
        self._observe(index, await past.answer_lost(why))

    def _refusal(self, index: int, action: Action, tool: Tool | None) -> Observation | None:
        """Returns why the action is not ruled on: it is invalid, or a repetition."""
        flaw = self._unfit(action, tool)
        # A plan by a user may repeat a call on purpose; the guard is for models.
        if flaw is not None or self.effect.planned:
            return flaw
        call = self.calls[index] = self.ledger.call(action)
        # Duplicates within one batch: the guard receives steps only when they are complete.
        before = self._same.get(call.key, 0)
        judged = self._guard.judge(action, call, before)
        if judged.level != "run":
            rule = judged.level if judged.level.startswith("repeat") else "repetition"
            self.ledger.put(e.Violated(key=self.key, rule=rule, detail=judged.reason))
            return Observation(judged.reason, "failure", refused=judged.level)
        self._same[call.key] = before + 1
        self._pause = max(self._pause, judged.backoff_ms)
        return None

    def _unfit(self, action: Action, tool: Tool | None) -> Observation | None:
        """Returns the answer to an invalid action; None if it can be ruled on."""
        if action.error:
            return Observation(action.error, "failure", refused="malformed")
        if tool is None:
            text = f"unknown tool {action.tool!r}; {_known(action.tool, self.ledger.setup.tools)}"
            return Observation(text, "failure", refused="unknown")
        narrowed = self.ledger.narrowed_at(self.key)
        if narrowed is not None and not self.effect.planned and action.tool not in narrowed:
            offered = ", ".join(sorted(narrowed)) or "none"
            text = f"{action.tool} is not offered at this step; offered: {offered}"
            return Observation(text, "failure", refused="unknown")
        if ALTERED in action.repairs and tool.effect != "read":
            return Observation(_masked(action), "failure", refused="masked")
        if action.guessed and self._guess_matters(tool):
            repairs = ", ".join(action.repairs)
            text = (
                f"the parameters of {action.tool} were not well-formed ({repairs}) and it must "
                "not run on guessed parameters: send the action again, exactly"
            )
            return Observation(text, "failure", refused="guessed")
        return None

    def _checked(self, tool: Tool | None, action: Action) -> Bound | Observation:
        """Returns the call with checked parameters, or the problem with them, including guesses."""
        bound = _bind(tool, action)
        if tool is None or isinstance(bound, Observation) or not bound.repairs:
            return bound
        return self._unfit(tool.fitted(action), tool) or bound

    def _guess_matters(self, tool: Tool) -> bool:
        """Returns whether the tool must not run on guessed parameters."""
        policy, is_agent = self.ledger.setup.policy, tool.agent is not None
        return policy.needs_exact(tool.name, facts(tool), is_agent=is_agent)

    def _rule(self, index: int, action: Action, tool: Tool) -> Ruling:
        """Returns the policy's ruling, raised if the call may have happened before."""
        ledger, setup, thought = self.ledger, self.ledger.setup, self.effect.thought
        critical = thought.critical and thought.type == "exception"
        tool_facts = facts(tool)
        ruling = setup.policy.rule(action, tool_facts, setup.principal, critical=critical)
        if tool.effect != "read":
            ruling = PastCall(ledger, self.key, index, action, tool).rule(ruling)
        change = self._changes.get(index)
        if change is None:
            return ruling
        # The approver reads that the model did not write the call in this form.
        by = ", ".join(change.hooks)
        reason = "; ".join(filter(None, (ruling.reason, f"changed by the hook {by}")))
        return replace(ruling, reason=reason)

    async def _rejected_by_hook(self, index: int, action: Action, *, final: bool = False) -> bool:
        """Calls hooks on a call that was not started; answers it if one rejects it.

        A change is recorded in `_changes`. If the call is `final`, because it was approved, a
        change rejects it.
        """
        ledger, key = self.ledger, self.key
        hooks = ledger.setup.hooks
        spoken: tuple[str, ...] = ()
        change = self._changes.get(index)
        if change is not None and (change.action == action or not final):
            action, spoken = change
        if not final:
            for past in ledger.recording.changes(key, index):
                spoken += (past.hook,)
                if past.after is not None:
                    action = replace(action, parameters=copied(past.after))
                    self._changes[index] = HookedCall(action, spoken)
        if ledger.recording.exact:  # no hook is called: its verdict is on record
            recorded = ledger.recording.event(e.Observed, key, index)
            if recorded is None or not recorded.hooks or not recorded.observation.refused:
                return False
            name, reason = recorded.hooks[0], str(recorded.observation.result)
        elif "before_tool" in hooks.points:
            context = hook_context(ledger, key)
            left = ledger.allowance.seconds_left()
            outcomes = await hooks.call(
                "before_tool", context, action, seconds=left, without=spoken
            )
            name, reason = "", ""
            for outcome in outcomes:
                name, reason = outcome.hook, outcome.reason
                if isinstance(outcome.verdict, ReplaceArguments):
                    parameters = dict(outcome.verdict.parameters)
                    reason = self._apply(index, action, name, parameters, final=final)
                    action = replace(action, parameters=parameters)
                if reason:
                    break
            if not reason:
                return False
        else:
            return False

        # An earlier activation may have asked about it.
        ledger.recording.forget_verdict(key, index)
        observation = Observation(
            ledger.setup.redactor.text(utf8(reason)), "failure", refused="denied"
        )
        self._observe(index, observation, (name,))
        if ledger.setup.on_denial == "stop":
            raise Denied(str(observation.result))
        return True

    def _apply(
        self, index: int, action: Action, hook: str, parameters: dict[str, Any], *, final: bool
    ) -> str:
        """Records the change of a call by a hook; returns why it is rejected, or ""."""
        ledger = self.ledger
        if parameters == action.parameters:
            return ""
        if final:
            return f"the hook {hook} would change a call that is already approved"
        tool = ledger.tool(action.tool)
        wrong = secret(ledger.setup.redactor, parameters)
        wrong = wrong or (tool.misfit(parameters) if tool is not None else "")
        if wrong:
            return f"the hook {hook} changed the call: {wrong}"
        # A recorded verdict is about another call.
        ledger.recording.forget_verdict(self.key, index)
        ledger.put(
            e.Hooked(
                key=self.key,
                index=index,
                hook=hook,
                point="before_tool",
                before=copied(action.parameters),
                after=copied(parameters),
            )
        )
        change = self._changes.get(index)
        hooks = (*(() if change is None else change.hooks), hook)
        self._changes[index] = HookedCall(replace(action, parameters=parameters), hooks)
        return ""

    async def _ask_person(
        self, index: int, action: Action, tool: Tool, ruling: Ruling
    ) -> Action | None:
        """Returns the action to run, perhaps edited by an approver, or None if it was answered."""
        await self._run_ready()
        ledger = self.ledger

        def rule() -> Ruling:
            return self._rule(index, action, self._current(tool))

        question = self._questions.pop(index, None)
        if question is None:
            question = OpenQuestion(ledger, self.key, index, action, tool)
            question.changed = index in self._changes
            question.ask(ruling)
            await self._ask_ahead(index)
        question.behind = tuple([q for at, q in self._questions.items() if at > index])
        settled = await question.settle(ruling, rule=rule)
        if not isinstance(settled, Observation):
            return settled
        self._observe(index, settled)
        if settled.refused == "denied" and ledger.setup.on_denial == "stop":
            raise Denied(str(settled.result))
        return None

    async def _ask_ahead(self, index: int) -> None:
        """Asks about every later call that needs an approval, so that they are shown together.

        Nothing else happens to these calls here: each is ruled on again at its turn.
        """
        ledger, key = self.ledger, self.key
        # A question that was asked alone, and answered, is past: its batch continues in the same
        # way.
        if ledger.recording.event(e.Resolved, key, index) is not None:
            return
        keys: list[str] = []
        for later in range(index + 1, len(self.actions)):
            action = self.actions[later]
            if action.tool == ASK_USER and self._may_ask_user(later):
                return  # the rest may depend on the user's answer
            local = self.effect.local[later] if later < len(self.effect.local) else None
            tool = ledger.tool(action.tool)
            if (
                local is not None
                or tool is None
                or not self._may_ask_ahead(later, action, tool, keys)
            ):
                continue
            ruling = self._rule(later, action, tool)
            if ruling.verdict == "ask" and not await self._rejected_by_hook(later, action):
                change = self._changes.get(later)
                if change is not None:
                    # Asked at its turn, when the guard and the policy have judged the changed call.
                    continue
                question = OpenQuestion(ledger, key, later, action, tool)
                question.ask(ruling)
                self._questions[later] = question

    def _may_ask_ahead(self, index: int, action: Action, tool: Tool, keys: list[str]) -> bool:
        """Returns whether the call may be asked about before its turn. Changes nothing.

        `keys` are the guard's keys of the batch's calls, filled as far as needed: each is computed
        once, independent of the number of later calls.
        """
        ledger, key, recording = self.ledger, self.key, self.ledger.recording
        if recording.event(e.Started, key, index) or recording.event(e.Observed, key, index):
            return False
        if self._unfit(action, tool) or isinstance(self._checked(tool, action), Observation):
            return False
        if self.effect.planned:
            return True
        keys += [ledger.call(other).key for other in self.actions[len(keys) : index]]
        call = ledger.call(action)
        beside = keys[:index].count(call.key)
        return self._guard.judge(action, call, beside).level == "run"

    def _earlier_start(self, index: int, action: Action) -> Action | None:
        """Returns the call started earlier; it is not ruled on again, as it may have happened."""
        attempts = PastCall(self.ledger, self.key, index, action, None).attempts()
        if attempts is None:
            return None
        self._attempts[index] = attempts
        return attempts.action

    def _record_ruling(self, index: int, ruling: Ruling) -> bool:
        """Records a ruling without a question; answers the action if it is denied."""
        ledger, key = self.ledger, self.key
        if not ledger.recording.fresh:
            ledger.recording.overrule(key, index, ruling.verdict)
        tier, why = int(ruling.tier), ruling.reason
        change = self._changes.get(index)
        ledger.put(
            e.Decided(
                key=key,
                index=index,
                verdict=ruling.verdict,
                tier=tier,
                reason=why,
                action=None if change is None else change.action,
            )
        )
        if ruling.verdict != "deny":
            return True
        self._observe(index, Observation(why, "failure", refused="denied"))
        # After the observation is on record: the denied action is no open call when the run ends.
        if ledger.setup.on_denial == "stop":
            raise Denied(why)
        return False

    def _refuse_over_limit(self, index: int, tool: str) -> bool:
        """Answers the action if a limit forbids the call."""
        blocked = self._limit_on(index, tool)
        if blocked is not None:
            self._observe(index, Observation(blocked.why, "failure", refused=blocked.refused))
        return blocked is not None

    def _limit_on(self, index: int, tool: str) -> Blocked | None:
        """Returns the limit that forbids the call: for the past, the recorded one.

        An allowed call is reserved until it begins or is answered.
        """
        ledger, key = self.ledger, self.key
        recording = ledger.recording
        if not recording.fresh and recording.settles_limits(key):
            if recording.event(e.Started, key, index) is not None:
                return None
            recorded = recording.event(e.Observed, key, index)
            if recorded is not None and recorded.observation.refused in LIMIT_REFUSALS:
                return Blocked(recorded.observation.refused, str(recorded.observation.result))
        place = call_place(key, index)
        blocked = ledger.allowance.for_tool(tool, place)
        if blocked is None:
            ledger.allowance.allowed[place] = Reserved(tool_calls=1, per_tool={tool: 1})
        return blocked

    def _may_ask_user(self, index: int) -> bool:
        """Returns whether `ask_user` is offered here, or was when the question was asked."""
        if self.effect.planned or self.ledger.setup.ask_user:
            return True
        return self.ledger.recording.event(e.Decided, self.key, index) is not None

    async def _ask_user(self, index: int, action: Action) -> None:
        """Performs the reserved action: the run waits for the user's answer."""
        text = str(action.parameters.get("question", "") or action.rationale)
        settled = await OpenQuestion(self.ledger, self.key, index, action, None, text).settle(None)
        if isinstance(settled, Observation):
            self._observe(index, settled)

    async def _run_ready(self) -> None:
        """Starts all permitted calls at once and waits for all."""
        # Taken before the first await: calls added while these run belong to the next group.
        ready, self._ready = self._ready, []
        if not ready:
            return
        if self._pause:
            await self._slow_down()
        if self.ledger.inbox.news:
            # Nothing may start after a cancellation, not even on record.
            await self.ledger.raise_if_cancelled()
        # All starts are on record before the first call begins: after a crash each is in doubt.
        for ready_call in ready:
            self._begin(ready_call)
        if len(ready) == 1:
            await self._run(ready[0])
            return
        running = [self._run(ready_call) for ready_call in ready]
        results = await asyncio.gather(*running, return_exceptions=True)
        # An error precedes a wait: a failed run must not be parked.
        failed = [r for r in results if isinstance(r, BaseException)]
        for error in sorted(failed, key=lambda r: isinstance(r, Park)):
            raise error

    async def _slow_down(self) -> None:
        """Pauses before a poll, and records the pause."""
        milliseconds, self._pause = self._pause, 0
        ledger = self.ledger
        replayed = ledger.recording.event(e.Noted, self.key) is not None
        ledger.put(e.Noted(key=self.key, kind="backoff", data={"ms": milliseconds}))
        # A pause of an earlier activation is not repeated.
        if not replayed:
            await ledger.setup.sleep(milliseconds / 1000)

    def _begin(self, ready_call: ReadyCall) -> None:
        """Records the start of the call, unless it is already on record."""
        ledger, key = self.ledger, self.key
        if ready_call.tool.agent is not None:
            ledger.allowance.queue.add(call_place(key, ready_call.position))
        if ready_call.position in self._attempts:
            return
        ledger.put(start_event(key, ready_call.position, ready_call.tool))
        self._release(ready_call.position)  # the state counts it now
        if not ledger.recording.fresh:
            # An earlier activation may have started it more than once; each recorded start is this
            # one.
            ledger.recording.recall(e.Started, key, ready_call.position)

    async def _run(self, ready_call: ReadyCall) -> None:
        """Makes one call, or determines its outcome if an earlier activation has started it."""
        ledger, key, index = self.ledger, self.key, ready_call.position
        action, tool = ready_call.action, ready_call.tool
        if not ledger.recording.fresh:
            recorded = ledger.recording.event(e.Observed, key, index)
            if recorded is not None:
                ledger.recording.recall_call(key, index)
                self.observations[index] = recorded.observation
                return
            ledger.recording.abandon_call(key, index)
            # Raises `EndOfTape` in an exact replay: from here on the world would be asked.
            ledger.touch(call_place(key, index))

        attempts = self._attempts.get(index)
        if attempts is None:
            observed = await Invocation(ledger, key, index, action, tool).perform(ready_call.bound)
        else:
            past = PastCall(ledger, key, index, action, tool)
            self.actions[index], observed = await past.doubt(ready_call.bound, attempts)

        ledger.put(observed)
        self.observations[index] = observed.observation
        # Each of several results is durable as it arrives, without waiting for the slowest call.
        if len(self.effect.actions) > 1:
            await ledger.flush()

    def _observe(self, index: int, observation: Observation, hooks: tuple[str, ...] = ()) -> None:
        observed = e.Observed(key=self.key, index=index, observation=observation, hooks=hooks)
        recorded = self.ledger.put(observed).event
        # The record holds the text that the model received, perhaps in another runtime's wording.
        told = recorded.observation if isinstance(recorded, e.Observed) else observation
        self.observations[index] = told
        self._release(index)

    def _release(self, index: int) -> None:
        self.ledger.allowance.allowed.pop(call_place(self.key, index), None)


def _masked(action: Action) -> str:
    """Returns why a call that changes something does not run with a mask in its parameters."""
    places = list(islice(mask_places(action.parameters), MOST_PLACES + 1))
    if len(places) > MOST_PLACES:
        places[MOST_PLACES:] = ["…"]
    return (
        f"{action.tool} was not called: {'; '.join(places) or 'a name in the parameters'} holds a "
        f"secret, or {MARK}, which stands for one that you are not shown. Nothing was changed. "
        "Send the call without it: edit the text around it, read it from the environment, or ask "
        "a person to put it there"
    )


def _bind(tool: Tool | None, action: Action) -> Bound | Observation:
    """Returns the call with checked parameters, or the problem with them."""
    if tool is None:
        return Observation("refused", "failure", refused="unknown")
    try:
        return tool.bind(action.parameters)
    except BadArguments as error:
        return Observation(str(error), "failure", refused="invalid")


def _known(unknown: str, tools: Toolset) -> str:
    """Returns the names of the tools; of very many only the most similar ones."""
    if len(tools) <= MOST_OFFERED:
        return f"available tools: {', '.join(sorted(tools.names)) or 'none'}"
    hint = near(unknown, tools.names) or f"there are {len(tools)} others"
    return f"{hint}; find tools with {SEARCH}" if SEARCH in tools else hint

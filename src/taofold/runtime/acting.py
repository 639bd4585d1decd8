"""Acting: one step's batch, from `Proposed` to the last `Observed`.

Every action goes refused → ruled on → (asked about) → started → observed, in this
order and with an event at each stage, so that a crash between any two of them leaves
a log from which the next activation knows what may be repeated.
"""

import asyncio
from typing import NamedTuple

from taofold.core import events as e
from taofold.core.effects import Act
from taofold.core.rules import fingerprint
from taofold.core.values import ASK_USER, Action, Observation, Step, Tier
from taofold.policy import Facts, Ruling
from taofold.runtime.approving import settle
from taofold.runtime.calling import call
from taofold.runtime.cleaning import cleaned
from taofold.runtime.doubting import doubt, lost, ruled
from taofold.runtime.ledger import Ledger
from taofold.runtime.questions import started
from taofold.runtime.signals import Denied, Park
from taofold.tools import BadArguments, Bound, Tool


async def act(ledger: Ledger, key: str, effect: Act) -> tuple[Observation, ...]:
    """Resolve an `Act`: record the step and perform its batch."""
    effect = cleaned(ledger.setup.redactor, effect)
    ledger.put(e.Proposed(key=key, thought=effect.thought, actions=effect.actions))
    batch = Batch(ledger, key, effect)
    await batch.perform()
    observations = tuple([o for o in batch.observations if o is not None])
    if not effect.planned:
        ledger.saw(key, Step(0, effect.thought, tuple(batch.actions), observations))
    return observations


class Ready(NamedTuple):
    """A call that may start. `begun` if an earlier life started it already."""

    place: int
    action: Action
    tool: Tool
    bound: Bound
    begun: bool = False


class Batch:
    """The actions of one step, on their way."""

    def __init__(self, ledger: Ledger, key: str, effect: Act) -> None:
        self.ledger, self.key, self.effect = ledger, key, effect
        self.actions = list(effect.actions)
        self.observations: list[Observation | None] = [None] * len(effect.actions)
        self._ready: list[Ready] = []
        self._same: dict[str, int] = {}
        self._pause = 0

    async def perform(self) -> None:
        """Run what may run, in order; whatever stands behind a waiting action waits too."""
        local = self.effect.local
        for index, action in enumerate(self.effect.actions):
            given = local[index] if index < len(local) else None
            if given is not None:
                self._observe(index, given)
            elif self._recalled(index):
                continue
            elif action.tool == ASK_USER:
                await self._run_ready()
                await self._ask_user(index, action)
            else:
                await self._consider(index, action)
        await self._run_ready()

    def _recalled(self, index: int) -> bool:
        """On resume what was observed stands, whatever this code would have decided."""
        tape = self.ledger.tape
        if self.ledger.exact or tape.peek(e.Observed, self.key, index) is None:
            return False
        for record in tape.call(self.key, index):
            self.ledger.replayed(record)
            event = record.event
            if isinstance(event, e.Observed):
                self.observations[index] = event.observation
            elif isinstance(event, e.Decided) and event.action is not None:
                self.actions[index] = event.action
        return True

    async def _consider(self, index: int, action: Action) -> None:
        ledger = self.ledger
        tool = ledger.setup.tools.get(action.tool)
        refusal = self._refusal(action, tool)
        bound: Bound | None = None
        if refusal is None and tool is not None:
            try:
                bound = tool.bind(action.parameters)
            except BadArguments as error:
                refusal = Observation(str(error), "failure", refused="invalid")
        if refusal is not None or tool is None or bound is None:
            refusal = refusal or Observation("refused", "failure", refused="unknown")
            self._observe(index, await lost(ledger, self.key, index, action, tool, refusal))
            return
        verdict = self._was_started(index, action) or await self._decide(index, action, tool)
        if verdict is None:
            return
        if verdict is not action:
            action = self.actions[index] = verdict
            try:
                bound = tool.bind(action.parameters)
            except BadArguments as error:  # edited for another version of the tool
                refusal = Observation(str(error), "failure", refused="invalid")
                self._observe(index, await lost(ledger, self.key, index, action, tool, refusal))
                return
        if tool.sequential:
            await self._run_ready()
        self._ready.append(Ready(index, action, tool, bound))
        if tool.sequential:
            await self._run_ready()

    def _refusal(self, action: Action, tool: Tool | None) -> Observation | None:
        """Why the action cannot even be ruled on."""
        if action.error:
            return Observation(action.error, "failure", refused="malformed")
        if tool is None:
            names = ", ".join(sorted(self.ledger.setup.tools.names)) or "none"
            text = f"unknown tool {action.tool!r}; available tools: {names}"
            return Observation(text, "failure", refused="unknown")
        if action.guessed and self._matters(tool):
            repairs = ", ".join(action.repairs)
            text = (
                f"the parameters of {action.tool} were not well-formed ({repairs}) and it must "
                "not run on guessed parameters: send the action again, exactly"
            )
            return Observation(text, "failure", refused="guessed")
        if self.effect.planned:
            return None
        loop_key = self.ledger.loop_key(action.tool, action.parameters)
        plain = fingerprint(action)
        call = loop_key or plain
        before = self._same.get(call, 0)
        judged = self.ledger.guard(self.key).judge(action, loop_key, before, plain=plain)
        if judged.level != "run":
            rule = judged.level if judged.level.startswith("repeat") else "repetition"
            self.ledger.put(e.Violated(key=self.key, rule=rule, detail=judged.reason))
            return Observation(judged.reason, "failure", refused=judged.level)
        self._same[call] = before + 1
        self._pause = max(self._pause, judged.backoff_ms)
        return None

    def _matters(self, tool: Tool) -> bool:
        """Is a guess about its parameters one too many?"""
        once = tool.effect == "once" or (tool.agent is not None and tool.effect != "read")
        return once or self.ledger.setup.policy.tier(tool.name, _facts(tool)) >= Tier.CONFIRM

    async def _decide(self, index: int, action: Action, tool: Tool) -> Action | None:
        """The action to run (perhaps edited by a person), or None if it was answered."""
        ledger, setup = self.ledger, self.ledger.setup
        thought = self.effect.thought
        critical = thought.critical and thought.type == "exception"
        facts = _facts(tool)

        def rule() -> Ruling:
            ruling = setup.policy.rule(action, facts, setup.principal, critical=critical)
            return ruled(ledger, self.key, index, action, tool, ruling)

        ruling = rule()
        if ruling.verdict == "ask":
            await self._run_ready()
            settled = await settle(ledger, self.key, index, action, tool, ruling, rule=rule)
            if isinstance(settled, Observation):
                self._observe(index, settled)
                if settled.refused == "denied" and setup.on_denial == "stop":
                    raise Denied(str(settled.result))
                return None
            action = settled
        elif not self._ruled(index, ruling):
            return None
        blocked = self._blocked(index, action.tool)
        if blocked:
            self._observe(index, Observation(blocked, "failure", refused="limit"))
            return None
        return action

    def _was_started(self, index: int, action: Action) -> Action | None:
        """On resume what an earlier life started is ruled on no more: it may have happened."""
        ledger = self.ledger
        if ledger.exact or ledger.tape.peek(e.Started, self.key, index) is None:
            return None
        for record in ledger.tape.ruled(self.key, index):
            ledger.replayed(record)
            if isinstance(record.event, e.Decided) and record.event.action is not None:
                action = record.event.action
        return action

    def _ruled(self, index: int, ruling: Ruling) -> bool:
        """Record a ruling that asks nobody; answer the action if it is denied."""
        ledger, key = self.ledger, self.key
        recorded = ledger.tape.peek(e.Decided, key, index)
        if recorded is not None and not ledger.exact and recorded.verdict != ruling.verdict:
            ledger.overruled(key, index)
        tier, why = int(ruling.tier), ruling.reason
        ledger.put(e.Decided(key=key, index=index, verdict=ruling.verdict, tier=tier, reason=why))
        if ruling.verdict != "deny":
            return True
        self._observe(index, Observation(why, "failure", refused="denied"))
        if ledger.setup.on_denial == "stop":
            raise Denied(why)
        return False

    def _blocked(self, index: int, tool: str) -> str:
        """Why a limit forbids the call, or "": in a fork's past, what was recorded."""
        ledger, key = self.ledger, self.key
        past = not ledger.exact or "." in key  # a replay derives it anew, except in a fork
        if past and ledger.tape.peek(e.Started, key, index) is not None:
            return ""
        recorded = ledger.tape.peek(e.Observed, key, index) if past else None
        if recorded is not None and recorded.observation.refused == "limit":
            return str(recorded.observation.result)
        ready = [one.tool.name for one in self._ready]
        return ledger.setup.limits.blocks(ledger.store.state, tool, ready, ledger.held.values())

    async def _ask_user(self, index: int, action: Action) -> None:
        """The reserved action: the run waits until a person has answered."""
        question = str(action.parameters.get("question", "") or action.rationale)
        settled = await settle(self.ledger, self.key, index, action, None, None, question=question)
        if isinstance(settled, Observation):
            self._observe(index, settled)

    async def _run_ready(self) -> None:
        """Start everything that may start, at once; wait for all."""
        ready, self._ready = self._ready, []
        if not ready:
            return
        if self._pause:
            await self._slow_down()
        if not self.ledger.exact:
            await self.ledger.heed()  # nothing may start after a cancellation, not even on record
        begun = [one._replace(begun=self._begin(one)) for one in ready]
        self.ledger.queue |= {
            f"{self.key}[{one.place}]" for one in ready if one.tool.agent is not None
        }
        if len(begun) == 1:
            await self._run(begun[0])
            return
        results = await asyncio.gather(*[self._run(one) for one in begun], return_exceptions=True)
        failed = [r for r in results if isinstance(r, BaseException)]
        for error in sorted(failed, key=lambda r: isinstance(r, Park)):
            raise error

    async def _slow_down(self) -> None:
        """Pause before a poll; the pause is on the record."""
        milliseconds, self._pause = self._pause, 0
        ledger = self.ledger
        known = ledger.tape.peek(e.Noted, self.key) is not None
        ledger.put(e.Noted(key=self.key, kind="backoff", data={"ms": milliseconds}))
        if not known:
            await ledger.setup.sleep(milliseconds / 1000)

    def _begin(self, one: Ready) -> bool:
        """Record that the call starts. True if an earlier life had started it."""
        ledger, key = self.ledger, self.key
        begun = ledger.tape.peek(e.Started, key, one.place) is not None
        ledger.put(started(key, one.place, one.tool))
        while (again := ledger.tape.take(e.Started, key, one.place)) is not None:
            ledger.replayed(again)
        return begun

    async def _run(self, one: Ready) -> None:
        """Make one call, or find out what became of it in an earlier life."""
        ledger, key, index = self.ledger, self.key, one.place
        recorded = ledger.tape.peek(e.Observed, key, index)
        if recorded is not None:
            for record in ledger.tape.call(key, index):
                ledger.replayed(record)
            self.observations[index] = recorded.observation
            return
        if ledger.exact:  # it waits in the middle of its call, or was cut off there
            for record in ledger.tape.call(key, index):
                ledger.replayed(record)
        ledger.touch(f"{key}[{index}]")
        how = doubt if one.begun else call
        observed = await how(ledger, key, index, one.action, one.tool, one.bound)
        ledger.put(observed)
        self.observations[index] = observed.observation
        if len(self.effect.actions) > 1:
            await ledger.flush()

    def _observe(self, index: int, observation: Observation) -> None:
        observed = e.Observed(key=self.key, index=index, observation=observation)
        self.ledger.put(observed)
        self.observations[index] = observation


def _facts(tool: Tool) -> Facts:
    return Facts(tool.tier, tool.effect, tool.role, tool.definition)

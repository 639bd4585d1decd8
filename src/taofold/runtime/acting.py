"""Acting: one step's batch, from `Proposed` to the last `Observed`.

Every action goes refused → ruled on → (asked about) → started → observed, in this
order and with an event at each stage, so that a crash between any two of them leaves
a log from which the next activation knows what may be repeated.
"""

import asyncio
from typing import TYPE_CHECKING

from taofold.core import events as e
from taofold.core.effects import Act
from taofold.core.values import ASK_USER, Action, Observation, Tier
from taofold.policy import Facts
from taofold.runtime.approving import settle
from taofold.runtime.calling import call, doubt
from taofold.runtime.signals import Denied, Park
from taofold.tools import BadArguments, Bound, Tool

if TYPE_CHECKING:
    from taofold.runtime.drive import Drive


async def act(drive: "Drive", key: str, effect: Act) -> tuple[Observation, ...]:
    """Resolve an `Act`: record the step and perform its batch."""
    drive.put(e.Proposed(key=key, thought=effect.thought, actions=effect.actions))
    batch = Batch(drive, key, effect)
    await batch.perform()
    return tuple([o for o in batch.observations if o is not None])


class Batch:
    """The actions of one step, on their way."""

    def __init__(self, drive: "Drive", key: str, effect: Act) -> None:
        self.drive, self.key, self.effect = drive, key, effect
        self.observations: list[Observation | None] = [None] * len(effect.actions)
        self._ready: list[tuple[int, Action, Tool, Bound]] = []
        self._pauses: dict[int, int] = {}

    async def perform(self) -> None:
        """Run what may run, in order; whatever stands behind a waiting action waits too."""
        local = self.effect.local
        for index, action in enumerate(self.effect.actions):
            given = local[index] if index < len(local) else None
            if given is not None:
                self._observe(index, given)
            elif action.tool == ASK_USER:
                await self._run_ready()
                await self._ask_user(index, action)
            else:
                await self._consider(index, action)
        await self._run_ready()

    async def _consider(self, index: int, action: Action) -> None:
        drive = self.drive
        tool = drive.setup.tools.get(action.tool)
        refusal = self._refusal(index, action, tool)
        bound: Bound | None = None
        if refusal is None and tool is not None:
            try:
                bound = tool.bind(action.parameters)
            except BadArguments as error:
                refusal = Observation(str(error), "failure", refused="invalid")
        if refusal is not None or tool is None or bound is None:
            self._observe(index, refusal or Observation("refused", "failure", refused="unknown"))
            return
        verdict = await self._decide(index, action, tool)
        if verdict is None:
            return
        if verdict is not action:
            action = verdict
            bound = tool.bind(action.parameters)
        if tool.sequential:
            await self._run_ready()
        self._ready.append((index, action, tool, bound))
        if tool.sequential:
            await self._run_ready()

    def _refusal(self, index: int, action: Action, tool: Tool | None) -> Observation | None:
        """Why the action cannot even be ruled on."""
        if action.error:
            return Observation(action.error, "failure", refused="malformed")
        if tool is None:
            names = ", ".join(sorted(self.drive.setup.tools.names)) or "none"
            text = f"unknown tool {action.tool!r}; available tools: {names}"
            return Observation(text, "failure", refused="unknown")
        if action.guessed and (tool.effect == "once" or tool.tier >= Tier.CONFIRM):
            text = (
                f"the parameters of {action.tool} were not well-formed ({', '.join(action.repairs)}) "
                "and it must not run on guessed parameters: send the action again, exactly"
            )
            return Observation(text, "failure", refused="guessed")
        judged = self.drive.repetition.judge(
            action, self.drive.loop_key(action.tool, action.parameters)
        )
        if judged.level != "run":
            rule = judged.level if judged.level.startswith("repeat") else "repetition"
            self.drive.put(e.Violated(key=self.key, rule=rule, detail=judged.reason))
            return Observation(judged.reason, "failure", refused=judged.level)
        if judged.backoff_ms:
            self._pauses[index] = judged.backoff_ms
        return None

    async def _decide(self, index: int, action: Action, tool: Tool) -> Action | None:
        """The action to run (perhaps edited by a person), or None if it was answered."""
        drive, setup = self.drive, self.drive.setup
        thought = self.effect.thought
        critical = thought.critical and thought.type == "exception"
        facts = Facts(tool.tier, tool.effect, tool.role, tool.definition)
        ruling = setup.policy.rule(action, facts, setup.principal, critical=critical)
        if ruling.verdict == "ask":
            await self._run_ready()
            settled = await settle(drive, self.key, index, action, tool, ruling)
            if isinstance(settled, Observation):
                self._observe(index, settled)
                if settled.refused == "denied" and setup.on_denial == "stop":
                    raise Denied(str(settled.result))
                return None
            action = settled
        else:
            event = e.Decided(
                key=self.key,
                index=index,
                verdict=ruling.verdict,
                tier=int(ruling.tier),
                reason=ruling.reason,
            )
            drive.put(event)
        if ruling.verdict == "deny":
            self._observe(index, Observation(ruling.reason, "failure", refused="denied"))
            if setup.on_denial == "stop":
                raise Denied(ruling.reason)
            return None
        blocked = setup.limits.blocks(drive.store.state, action.tool, len(self._ready))
        if blocked:
            self._observe(index, Observation(blocked, "failure", refused="limit"))
            return None
        return action

    async def _ask_user(self, index: int, action: Action) -> None:
        """The reserved action: the run waits until a person has answered."""
        drive, key = self.drive, self.key
        recorded = drive.tape.peek(e.Observed, key, index)
        if recorded is not None:
            self._observe(index, recorded.observation)
            return
        question = str(action.parameters.get("question", "") or action.rationale)
        settled = await settle(drive, key, index, action, None, None, question=question)
        if isinstance(settled, Observation):
            self._observe(index, settled)

    async def _run_ready(self) -> None:
        """Start everything that may start, at once; wait for all."""
        ready, self._ready = self._ready, []
        if not ready:
            return
        if len(ready) == 1:
            await self._run(*ready[0])
            return
        results = await asyncio.gather(
            *[self._run(*one) for one in ready], return_exceptions=True
        )
        failed = [r for r in results if isinstance(r, BaseException)]
        for error in sorted(failed, key=lambda r: isinstance(r, Park)):
            raise error

    async def _run(self, index: int, action: Action, tool: Tool, bound: Bound) -> None:
        """Start one tool, or find out what became of it in an earlier life."""
        drive, key = self.drive, self.key
        begun = drive.tape.take(e.Started, key, index)
        if begun is not None:
            drive.replayed(begun)
            while drive.tape.peek(e.Started, key, index) is not None:
                again = drive.tape.take(e.Started, key, index)
                if again is not None:
                    drive.replayed(again)
        recorded = drive.tape.take(e.Observed, key, index)
        if recorded is not None and isinstance(recorded.event, e.Observed):
            if begun is None:
                drive.put(_started(key, index, tool))
            drive.replayed(recorded)
            self.observations[index] = recorded.event.observation
            return
        drive.touch(f"{key}[{index}]")
        if begun is not None:
            observed = await doubt(drive, key, index, action, tool, bound)
        else:
            await self._pause(index)
            drive.put(_started(key, index, tool))
            observed = await call(drive, key, index, action, tool, bound)
        drive.put(observed)
        self.observations[index] = observed.observation
        if len(self.effect.actions) > 1:
            await drive.store.flush()

    async def _pause(self, index: int) -> None:
        """Slow down a poll; the pause is on the record."""
        milliseconds = self._pauses.get(index)
        if milliseconds:
            self.drive.put(e.Noted(key=self.key, kind="backoff", data={"ms": milliseconds}))
            await self.drive.setup.sleep(milliseconds / 1000)

    def _observe(self, index: int, observation: Observation) -> None:
        observed = e.Observed(key=self.key, index=index, observation=observation)
        self.drive.put(observed)
        self.observations[index] = observation


def _started(key: str, index: int, tool: Tool) -> e.Started:
    if tool.effect == "read":
        return e.Started(key=key, index=index)
    return e.StartedOnce(key=key, index=index, effect=tool.effect)

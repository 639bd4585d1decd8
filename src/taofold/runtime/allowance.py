"""`Allowance`: the limits in force of one activation, and the reservations of running calls.

Every start of a call is checked here. No other module reads `Setup.limits`, so a change of a
running run's limits is a change of `Allowance.limits`. Knows nothing about models, tools or users.
"""

import asyncio
from collections.abc import Iterator

from taofold.core.call_ids import branch
from taofold.core.events import LimitHit
from taofold.log.run_store import Store
from taofold.policy import Limits
from taofold.policy.limits import Blocked, Limit, Reserved
from taofold.runtime.setup import Setup


class Allowance:
    """The remaining allowance of a run. Its consumption is in the state."""

    def __init__(self, setup: Setup, store: Store) -> None:
        self._setup, self._store = setup, store
        self.limits = setup.limits
        """The limits in force; those of a child run are within its caller's."""
        self.reserved: dict[str, Reserved] = {}
        """The reservations of running calls, by place."""
        self.allowed: dict[str, Reserved] = {}
        """Tool calls that the limits allowed and that have not begun, by place.

        Others may be allowed in between, and each must count those before it.
        """
        self.sampling = asyncio.Lock()
        """Held while a tool asks the run's model: one sample may use all that is left."""
        self.queue: set[str] = set()
        """Places of child runs that are about to start."""
        self.others = 0
        """Number of branches that run beside the current one."""

    def change_agent(self, setup: Setup) -> None:
        """Applies the limits of another agent's setup."""
        self._setup, self.limits = setup, setup.limits

    def for_model_call(self, tokens: float, usd: float) -> tuple[Limit, float] | None:
        """Returns the limit that forbids a model call of this size, and the call's need (0: any).

        Args:
            tokens: A lower estimate: one reply may exceed the limit.
            usd: An upper bound: no call may exceed it if its price is known.
        """
        limits, state, calls = self.limits, self._store.state, self.reserved.values()
        hit = limits.hit(state, turn=False)
        if hit is not None:
            return hit, 0.0
        if limits.tokens is not None:
            beside = sum([call.tokens for call in calls])
            if state.usage.tokens + beside + tokens > limits.tokens:
                return "tokens", round(tokens)
        if limits.usd is not None:
            reserved = sum([call.usd for call in calls])
            if state.usage.priced_usd + reserved + usd > limits.usd:
                return "usd", usd
        # Only in a fork: alone, `hit` above has counted every call.
        if self.others and limits.calls is not None:
            asking = sum([call.model_calls for call in calls])
            if limits.asked(state) + asking >= limits.calls:
                return "model_calls", 0.0
        return None

    def for_tool(self, tool: str, place: str) -> Blocked | None:
        """Returns the limit that forbids one more call of `tool`, the one at `place`, or None."""
        return self.limits.blocks(self._store.state, tool, self._beside(place))

    def for_child(self, place: str, *more: Reserved, among: int = 1) -> Limits:
        """Returns the limits for the child run of the call at `place`; `more` is reserved for it.

        Args:
            among: Number of starting child runs that share the remainder.
        """
        return self.limits.left(self._store.state, [*self._beside(place), *more], among)

    def seconds_left(self) -> float | None:
        """Returns the remaining seconds of activity, or None if unbounded."""
        seconds = self.limits.seconds
        return None if seconds is None else max(0.0, seconds - self._store.state.active_ms / 1000)

    def _beside(self, place: str) -> Iterator[Reserved]:
        """Yields the reservations of all calls except the one at `place`."""
        tables = (self.reserved, self.allowed)
        return (share for table in tables for at, share in table.items() if at != place)

    def sharing(self, key: str) -> int:
        """Returns the number of consumers that share the remaining limits, at least 1.

        They are the branch of `key`, the queued child runs, and the other branches that are not
        already counted by child runs of theirs, queued or running.
        """
        # Keys of tool calls end in "]" (`3[0]`), those of model calls do not.
        working = [location for location in self.reserved if location.endswith("]")]
        served = {branch(location) for location in (*self.queue, *working)} - {branch(key)}
        return 1 + len(self.queue) + max(0, self.others - len(served))

    def explained(self, hit: LimitHit) -> str:
        """Returns what was allowed and consumed when `hit` ended the run, and what to change."""
        if hit.limit == "budget":
            return hit.why
        limits, setup, state = self.limits, self._setup, self._store.state
        assumed = not setup.settings.max_tokens
        own = setup.own_limits
        if own is None:
            return limits.explained(hit, state, assumed=assumed)
        bound: float | None = getattr(own, hit.limit)
        where = f"of agent {setup.agent!r}"
        if bound != getattr(limits, hit.limit):
            where = f"of the agent that called {setup.agent!r} (it had no more left)"
            if setup.began:
                where = f"of agent {setup.began!r}, with which the run began"
        return f"agent {setup.agent!r}: {limits.explained(hit, state, where, assumed=assumed)}"

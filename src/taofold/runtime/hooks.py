"""Hooks: an application's own code around each model call and each tool call.

    class Sober(Hook):
        async def before_tool(self, context, action):
            if action.tool == "shell" and "rm -rf" in str(action.parameters):
                return Reject("deleting folders is not for agents")

    agent = Agent("openai:gpt-5", tools=[shell], hooks=[Sober()])

`InputGuard` and `OutputGuard` are hooks made of one function; `Hooks` calls all of a run's in turn.
A hook that returns None only watched. What it changes is recorded with its name, so a replay
does the same without calling it, and so does a run that is resumed. A hook that raises, or does
not answer within the run's seconds, rejects: a guard that is broken lets nothing through.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from taofold.core.errors import ConfigError
from taofold.core.text import error_text, near
from taofold.core.values import FINISH, Action, Principal, Reply, Usage
from taofold.foreign_code import contained, in_own_task
from taofold.runtime.model import Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reject:
    """Nothing comes of it.

    Before or after a model call the run ends with status "failed" and `stop_reason` "denied";
    before or after a tool call the model reads `reason` in place of a result.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class AddMessage:
    """The model is told `text` besides, now and in the rest of the run."""

    text: str


@dataclass(frozen=True, slots=True)
class Replace:
    """`value` stands in place of what the tool returned. Anything that JSON can say."""

    value: Any


@dataclass(frozen=True, slots=True)
class HookContext:
    """Where in which run a hook is called."""

    run_id: str
    key: str
    """The place of the call in its run, the same in a replay."""
    principal: Principal
    usage: Usage
    """What the run has consumed so far."""
    deps: Any = None
    people: tuple[str, ...] = ()
    """Before a model call: what people wrote since the last one. The goal is the first of it."""


METHODS: Final = ("before_model", "after_model", "before_tool", "after_tool")
"""What a hook may override."""


class Hook:
    """Overrides any of the four. Each may be `async`; one that is not holds up the event loop.

    They are called in the order of `Agent(hooks=…)`; the first that rejects is the last called.
    After a crash a hook may be called again for the same call: before it was started, or after a
    reply that nothing followed yet.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise `ConfigError` for a method that nothing would ever call: `before_tol`."""
        super().__init_subclass__(**options)
        for name in vars(cls):
            if name.startswith(("before_", "after_")) and not hasattr(Hook, name):
                raise ConfigError(f"{cls.__name__}.{name} is never called; {near(name, METHODS)}")

    @property
    def name(self) -> str:
        """What the log calls it."""
        return type(self).__name__

    def before_model(self, context: HookContext, request: Request) -> "Before | Awaitable[Before]":
        """Called with what the model is about to be asked."""
        return None

    def after_model(self, context: HookContext, reply: Reply) -> "After | Awaitable[After]":
        """Called with the reply before anything reads it. Where a hook overrides this, the text
        of replies is streamed only once all hooks have passed it.
        """
        return None

    def before_tool(self, context: HookContext, action: Action) -> "After | Awaitable[After]":
        """Called before the policy rules on the action, and again if a person edited it."""
        return None

    def after_tool(
        self, context: HookContext, action: Action, result: Any
    ) -> "Result | Awaitable[Result]":
        """Called with what the tool returned, before it is shortened and recorded."""
        return None


Before: TypeAlias = Reject | AddMessage | None
After: TypeAlias = Reject | None
Result: TypeAlias = Reject | Replace | None

Check: TypeAlias = Callable[[str], "str | Awaitable[str | None] | None"]
"""A guard's function: why the text is not acceptable; None or "" = it is."""


class InputGuard(Hook):
    """Checks what people say to the agent: its goal, and messages to a run that is at work.

        Agent(…, hooks=[InputGuard(lambda text: "no medical advice" if "dose" in text else None)])

    Text that a tool or a model brings is not looked at: `after_tool` sees the former.
    """

    def __init__(self, check: Check, name: str = "InputGuard") -> None:
        self._check, self._name = check, name

    @property
    def name(self) -> str:
        """As it was given."""
        return self._name

    async def before_model(self, context: HookContext, request: Request) -> Before:
        """Reject the run if a text is not acceptable."""
        return await _first_reason(self._check, context.people)


class OutputGuard(Hook):
    """Checks what the model says: the text of each reply, and the answer that `finish` takes.

    Agent(…, hooks=[OutputGuard(lambda text: "a price" if "€" in text else None)])
    """

    def __init__(self, check: Check, name: str = "OutputGuard") -> None:
        self._check, self._name = check, name

    @property
    def name(self) -> str:
        """As it was given."""
        return self._name

    async def after_model(self, context: HookContext, reply: Reply) -> After:
        """Reject the run if a text is not acceptable."""
        answers = [call.arguments for call in reply.calls if call.name == FINISH]
        return await _first_reason(self._check, (reply.text, *answers))


async def _first_reason(check: Check, texts: Sequence[str]) -> Reject | None:
    for text in texts:
        reason = await _value(check(text)) if text else None
        if reason:
            return Reject(reason)
    return None


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """What one hook said."""

    hook: str
    verdict: Reject | AddMessage | Replace
    late: bool = False
    """It was stopped because the run's time was over; `verdict` is a rejection."""

    @property
    def reason(self) -> str:
        """Why it rejected the call; "" = it did not."""
        return self.verdict.reason if isinstance(self.verdict, Reject) else ""


_POINTS: Final = {
    "before_model": (Reject, AddMessage),
    "after_model": (Reject,),
    "before_tool": (Reject,),
    "after_tool": (Reject, Replace),
}
"""What a hook may return at each point, besides None."""


class Hooks:
    """The hooks of a run, called one after the other."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self.hooks = tuple(hooks)
        # Each has its own name in the log: by it a resumed run knows who has spoken.
        uses = Counter[str]()
        named: list[tuple[str, Hook]] = []
        for hook in hooks:
            _check_hook(hook)
            uses[hook.name] += 1
            number = uses[hook.name]
            named.append((hook.name if number == 1 else f"{hook.name} {number}", hook))

        self._at = {
            point: [(name, hook) for name, hook in named if overrides(hook, point)]
            for point in _POINTS
        }
        self.points = frozenset([point for point, watchers in self._at.items() if watchers])
        """At which any hook looks. Most agents have none: nothing is prepared then."""

    async def call(
        self,
        point: str,
        context: HookContext,
        *arguments: Any,
        seconds: float | None,
        without: Sequence[str] = (),
    ) -> list[HookOutcome]:
        """What the hooks at `point` said, up to the first rejection. Never raises.

        Args:
            seconds: of the run that are left; None: unbounded.
            without: names of hooks that have said something about this call in an earlier life.
        """
        outcomes: list[HookOutcome] = []
        end = None if seconds is None else asyncio.get_running_loop().time() + max(seconds, 0.0)
        for name, hook in self._at[point]:
            if name in without:
                continue
            # Each gets its own: what one did to the action's parameters, the next does not see.
            copies = [a.apart() if isinstance(a, Action) else a for a in arguments]
            timer, late = asyncio.timeout_at(end), False
            try:
                with contained():
                    async with timer:
                        answer = await _value(getattr(hook, point)(context, *copies))
            except Exception as error:  # noqa: BLE001 - whatever it is, the guard did not pass it
                # A TimeoutError of the hook's own is a failure like any other.
                late = isinstance(error, TimeoutError) and timer.expired()
                why = "did not answer within the run's seconds" if late else ""
                answer = Reject(f"the hook {name} {why or f'failed: {error_text(error)}'}")

            if answer is None and not _changed(copies, arguments):
                continue
            verdict = _verdict(name, point, answer)
            outcomes.append(HookOutcome(name, verdict, late))
            if isinstance(verdict, Reject):
                break
            if isinstance(verdict, Replace):  # the next hook sees what the model will see
                arguments = (*arguments[:-1], verdict.value)
        return outcomes


def _check_hook(candidate: Any) -> None:
    # Checkers know it; a function in its place would silently never be called.
    if not isinstance(candidate, Hook):
        instance = "; pass an instance of it" if isinstance(candidate, type) else ""
        raise ConfigError(f"{candidate!r} is no taofold.Hook{instance}", path="hooks")


def _verdict(name: str, point: str, answer: Any) -> Reject | AddMessage | Replace:
    """What the answer of the hook means; one that it may not give rejects."""
    if answer is None:
        # Whoever clamps a parameter in place must not believe that it was clamped.
        return Reject(f"the hook {name} changed the parameters, which it cannot replace")
    if not isinstance(answer, _POINTS[point]):
        allowed = " or ".join([kind.__name__ for kind in _POINTS[point]])
        wrong = type(answer).__name__
        return Reject(f"the hook {name} returned {wrong} in {point}, not None or {allowed}")
    if isinstance(answer, Reject) and not answer.reason:
        return Reject(f"rejected by {name}")
    return answer


def _changed(given: Sequence[Any], arguments: Sequence[Any]) -> bool:
    """Did a hook change the action that it was shown?"""
    pairs = zip(given, arguments, strict=True)
    return any(isinstance(own, Action) and own != other for own, other in pairs)


def overrides(hook: Hook, point: str) -> bool:
    """Does `hook` look at this point?"""
    return getattr(type(hook), point) is not getattr(Hook, point)


async def _value(said: "T | Awaitable[T]") -> T:
    if inspect.isawaitable(said):
        return await in_own_task(said)
    return said

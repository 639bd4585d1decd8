"""Hooks: an application's own code around each model call and each tool call.

    class Sober(Hook):
        async def before_tool(self, context, action):
            if action.tool == "shell" and "rm -rf" in str(action.parameters):
                return Reject("deleting folders is not for agents")

    agent = Agent("openai:gpt-5", tools=[shell], hooks=[Sober()])

`InputGuard` and `OutputGuard` are hooks built from one function; `Hooks` calls all hooks of a run
in turn. A hook that returns None only observes. A change is recorded with the hook's name, so a
replay or a resumed run applies it without calling the hook. A hook that raises, or does not return
within the run's seconds, rejects: a broken guard lets nothing through.
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
    """A hook's verdict that rejects the call.

    Before or after a model call the run ends with status "failed" and `stop_reason` "denied".
    Before or after a tool call the model reads `reason` in place of a result.

    Args:
        reason: The text that the log and the model get.

    Example:
        ```python
        from taofold import Hook, Reject

        class ReadOnly(Hook):
            def before_tool(self, context, action):
                return Reject("read only") if action.tool == "write_file" else None
        ```
    """

    reason: str


@dataclass(frozen=True, slots=True)
class AddMessage:
    """A message added before a model call; it stays for the rest of the run.

    Args:
        text: The message that the model reads.

    Example:
        ```python
        from taofold import AddMessage, Hook

        class Language(Hook):
            def before_model(self, context, request):
                return None if context.usage.tokens else AddMessage("Answer in French.")
        ```
    """

    text: str


@dataclass(frozen=True, slots=True)
class Replace:
    """A value that replaces the result of a tool.

    Args:
        value: The new result: any JSON value.

    Example:
        ```python
        from taofold import Hook, Replace

        class Shorten(Hook):
            def after_tool(self, context, action, result):
                return Replace(str(result)[:1000])
        ```
    """

    value: Any


@dataclass(frozen=True, slots=True)
class HookContext:
    """The call that a hook is asked about.

    Args:
        run_id: The id of the run.
        key: The place of the call in its run, the same in a replay.
        principal: The requester of the run.
        usage: The consumption of the run so far.
        deps: The dependencies given to the run.
        people: Before a model call: user messages since the last one, at first the goal.

    Example:
        ```python
        from taofold import Hook, HookContext, Reject

        class AdminsOnly(Hook):
            def before_tool(self, context: HookContext, action):
                return None if "ADMIN" in context.principal.roles else Reject("for admins only")
        ```
    """

    run_id: str
    key: str
    principal: Principal
    usage: Usage
    deps: Any = None
    people: tuple[str, ...] = ()


METHODS: Final = ("before_model", "after_model", "before_tool", "after_tool")
"""The methods that a hook may override."""


class Hook:
    """Base of hooks. Override any of the four methods; each may be `async`.

    A method that is not async blocks the event loop. Hooks are called in the order of
    `Agent(hooks=…)`, up to the first that rejects. After a crash a hook may be called again for the
    same call: before it was started, or for a reply without later records.

    Example:
        ```python
        from taofold import Agent, Hook, Reject

        class ReadOnly(Hook):
            def before_tool(self, context, action):
                return Reject("read only") if action.tool == "write_file" else None

        agent = Agent("openai:gpt-5", hooks=[ReadOnly()])
        ```
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Raises `ConfigError` for a misspelt method, which would never be called: `before_tol`."""
        super().__init_subclass__(**options)
        for name in vars(cls):
            if name.startswith(("before_", "after_")) and not hasattr(Hook, name):
                raise ConfigError(f"{cls.__name__}.{name} is never called; {near(name, METHODS)}")

    @property
    def name(self) -> str:
        """The name in the log."""
        return type(self).__name__

    def before_model(self, context: HookContext, request: Request) -> "Before | Awaitable[Before]":
        """Called with the request before a model call.

        Args:
            context: The place of the call.
            request: The conversation, tools and settings; do not change it.

        Returns:
            None to continue, `AddMessage` or `Reject`.
        """
        return None

    def after_model(self, context: HookContext, reply: Reply) -> "After | Awaitable[After]":
        """Called with the reply before it is parsed.

        If a hook overrides this, replies are streamed only after all hooks have passed them.

        Args:
            context: The place of the call.
            reply: The model's reply.

        Returns:
            None to continue, or `Reject`.
        """
        return None

    def before_tool(self, context: HookContext, action: Action) -> "After | Awaitable[After]":
        """Called before the policy rules on the action, and again if an approver edited it.

        Args:
            context: The place of the call.
            action: A copy of the proposed call. A change of its parameters rejects the call.

        Returns:
            None to continue, or `Reject`.
        """
        return None

    def after_tool(
        self, context: HookContext, action: Action, result: Any
    ) -> "Result | Awaitable[Result]":
        """Called with the tool's result, before it is shortened and recorded.

        Args:
            context: The place of the call.
            action: A copy of the call.
            result: The result as JSON.

        Returns:
            None to keep the result, `Replace` or `Reject`.
        """
        return None


Before: TypeAlias = Reject | AddMessage | None
After: TypeAlias = Reject | None
Result: TypeAlias = Reject | Replace | None

Check: TypeAlias = Callable[[str], "str | Awaitable[str | None] | None"]
"""A guard's function: returns the reason why the text is not acceptable, or None or ""."""


class InputGuard(Hook):
    """A hook that checks the user's text: the goal, and messages to a running agent.

    Text from tools or models is not checked. `after_tool` receives the text of tools.

    Args:
        check: Returns the reason to reject a text, or None. May be async.
        name: The name in the log.

    Example:
        ```python
        from taofold import Agent, InputGuard

        guard = InputGuard(lambda text: "no medical advice" if "dose" in text else None)
        agent = Agent("openai:gpt-5", hooks=[guard])
        ```
    """

    def __init__(self, check: Check, name: str = "InputGuard") -> None:
        self._check, self._name = check, name

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    async def before_model(self, context: HookContext, request: Request) -> Before:
        """Rejects the run if a text is not acceptable."""
        return await _first_reason(self._check, context.people)


class OutputGuard(Hook):
    """A hook that checks the model's text: each reply, and the answer that `finish` takes.

    Args:
        check: Returns the reason to reject a text, or None. May be async.
        name: The name in the log.

    Example:
        ```python
        from taofold import Agent, OutputGuard

        guard = OutputGuard(lambda text: "names a price" if "€" in text else None)
        agent = Agent("openai:gpt-5", hooks=[guard])
        ```
    """

    def __init__(self, check: Check, name: str = "OutputGuard") -> None:
        self._check, self._name = check, name

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    async def after_model(self, context: HookContext, reply: Reply) -> After:
        """Rejects the run if a text is not acceptable."""
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
    """The verdict of one hook."""

    hook: str
    verdict: Reject | AddMessage | Replace
    late: bool = False
    """True if it was stopped because the run's time was over; `verdict` is then a rejection."""

    @property
    def reason(self) -> str:
        """The reason of its rejection; "" = it did not reject."""
        return self.verdict.reason if isinstance(self.verdict, Reject) else ""


_POINTS: Final = {
    "before_model": (Reject, AddMessage),
    "after_model": (Reject,),
    "before_tool": (Reject,),
    "after_tool": (Reject, Replace),
}
"""The permitted return types of a hook at each point, besides None."""


class Hooks:
    """The hooks of a run, called one after the other."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self.hooks = tuple(hooks)
        # Each hook has its own name in the log: a resumed run thus knows which hooks have answered.
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
        """The points with hooks. Most agents have none, and then nothing is prepared."""

    async def call(
        self,
        point: str,
        context: HookContext,
        *arguments: Any,
        seconds: float | None,
        without: Sequence[str] = (),
    ) -> list[HookOutcome]:
        """Returns the verdicts of the hooks at `point`, up to the first rejection. Never raises.

        Args:
            point: The name of the method.
            context: The place of the call.
            arguments: The further arguments of the method.
            seconds: Remaining seconds of the run; None: unbounded.
            without: Names of hooks with a recorded verdict on this call.
        """
        outcomes: list[HookOutcome] = []
        end = None if seconds is None else asyncio.get_running_loop().time() + max(seconds, 0.0)
        for name, hook in self._at[point]:
            if name in without:
                continue
            # Each hook gets a copy: a change of the action's parameters is not visible to the next.
            copies = [a.apart() if isinstance(a, Action) else a for a in arguments]
            timer, late = asyncio.timeout_at(end), False
            try:
                with contained():
                    async with timer:
                        answer = await _value(getattr(hook, point)(context, *copies))
            except Exception as error:  # noqa: BLE001 - no failed guard passes a call
                # The hook's own TimeoutError is a failure like any other.
                late = isinstance(error, TimeoutError) and timer.expired()
                why = "did not answer within the run's seconds" if late else ""
                answer = Reject(f"the hook {name} {why or f'failed: {error_text(error)}'}")

            if answer is None and not _changed(copies, arguments):
                continue
            verdict = _verdict(name, point, answer)
            outcomes.append(HookOutcome(name, verdict, late))
            if isinstance(verdict, Reject):
                break
            # the next hook sees the replaced result, as the model will
            if isinstance(verdict, Replace):
                arguments = (*arguments[:-1], verdict.value)
        return outcomes


def _check_hook(candidate: Any) -> None:
    # Type checkers detect this; a function in its place would silently never be called.
    if not isinstance(candidate, Hook):
        instance = "; pass an instance" if isinstance(candidate, type) else ""
        raise ConfigError(f"{candidate!r} is not a taofold.Hook{instance}", path="hooks")


def _verdict(name: str, point: str, answer: Any) -> Reject | AddMessage | Replace:
    """Returns the verdict for a hook's return value; a value of another type rejects."""
    if answer is None:
        # A hook that changes a parameter in place must not assume that this has an effect.
        return Reject(f"the hook {name} changed the parameters, which it cannot replace")
    if not isinstance(answer, _POINTS[point]):
        allowed = " or ".join([kind.__name__ for kind in _POINTS[point]])
        wrong = type(answer).__name__
        return Reject(f"the hook {name} returned {wrong} in {point}, not None or {allowed}")
    if isinstance(answer, Reject) and not answer.reason:
        return Reject(f"rejected by {name}")
    return answer


def _changed(given: Sequence[Any], arguments: Sequence[Any]) -> bool:
    """Returns whether a hook changed the action that it received."""
    pairs = zip(given, arguments, strict=True)
    return any(isinstance(own, Action) and own != other for own, other in pairs)


def overrides(hook: Hook, point: str) -> bool:
    """Returns whether `hook` overrides this method."""
    return getattr(type(hook), point) is not getattr(Hook, point)


async def _value(said: "T | Awaitable[T]") -> T:
    if inspect.isawaitable(said):
        return await in_own_task(said)
    return said

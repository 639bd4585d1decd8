"""Hooks: an application's own code around each model call and each tool call.

    class Sober(Hook):
        async def before_tool(self, context, action):
            if action.tool == "shell" and "rm -rf" in str(action.parameters):
                return Reject("deleting folders is not for agents")

    agent = Agent("openai:gpt-5", tools=[shell], hooks=[Sober()])

`InputGuard` and `OutputGuard` are hooks built from one function; `Hooks` calls all hooks of a run
in turn. A hook that returns None only observes. A changed call is judged like a call of the model:
schema, repetition, policy, approval. A change is recorded with the hook's name, so a replay or a
resumed run applies it without calling the hook. A hook that raises, or does not return within the
run's seconds, rejects: a broken guard lets nothing through.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast

from msgspec import structs

from taofold.core.errors import ConfigError
from taofold.core.json_values import copied, is_object
from taofold.core.text import error_text, near
from taofold.core.values import (
    ASIDE,
    ASK_USER,
    FINISH,
    Action,
    ModelSettings,
    Principal,
    Reply,
    Usage,
)
from taofold.foreign_code import contained, in_own_task
from taofold.runtime.model import Request
from taofold.tools.arguments import quote
from taofold.tools.result import jsonable

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
class ReplaceArguments:
    """Parameters that replace those of a tool call before the policy rules on it.

    The changed call is checked, guarded, ruled on and approved like a call of the model.

    Args:
        parameters: All parameters of the call, as JSON. They must fit the tool and hold no secret.

    Example:
        ```python
        from taofold import Hook, ReplaceArguments

        class Small(Hook):
            def before_tool(self, context, action):
                if action.tool == "search":
                    return ReplaceArguments({**action.parameters, "limit": 10})
        ```
    """

    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A change of one model call: other settings, or fewer tools.

    Args:
        settings: Fields of `ModelSettings` that override those of the call.
        tools: Names of offered tools that may be called now; None keeps all. `finish` and
            `ask_user` stay.

    Example:
        ```python
        from taofold import ChangeRequest, Hook

        class Careful(Hook):
            def before_model(self, context, request):
                return ChangeRequest(settings={"temperature": 0.0})
        ```
    """

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: Sequence[str] | None = None


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
            None to continue, `AddMessage`, `ChangeRequest` or `Reject`.
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

    def before_tool(self, context: HookContext, action: Action) -> "Call | Awaitable[Call]":
        """Called before the policy rules on the action, and again if an approver edited it.

        A call that an approver edited may only be rejected.

        Args:
            context: The place of the call.
            action: A copy of the proposed call. A change in place rejects the call.

        Returns:
            None to continue, `ReplaceArguments` or `Reject`.
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


Before: TypeAlias = Reject | AddMessage | ChangeRequest | None
Call: TypeAlias = Reject | ReplaceArguments | None
After: TypeAlias = Reject | None
Result: TypeAlias = Reject | Replace | None

Check: TypeAlias = Callable[[str], "str | Awaitable[str | None] | None"]
"""A guard's function: returns the reason why the text is not acceptable, or None or ""."""


class _Guard(Hook):
    """A hook that checks texts.

    Args:
        check: Returns the reason to reject a text, or None. May be async.
        name: The name in the log. Default: the name of the class.
    """

    def __init__(self, check: Check, name: str = "") -> None:
        self._check, self._name = check, name or type(self).__name__

    @property
    def name(self) -> str:
        """The name given at construction."""
        return self._name

    async def _first_reason(self, texts: Sequence[str]) -> Reject | None:
        for text in texts:
            reason = await _value(self._check(text)) if text else None
            if reason:
                return Reject(reason)
        return None


class InputGuard(_Guard):
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

    async def before_model(self, context: HookContext, request: Request) -> Before:
        """Rejects the run if a text is not acceptable."""
        return await self._first_reason(context.people)


class OutputGuard(_Guard):
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

    async def after_model(self, context: HookContext, reply: Reply) -> After:
        """Rejects the run if a text is not acceptable."""
        answers = [call.arguments for call in reply.calls if call.name == FINISH]
        return await self._first_reason((reply.text, *answers))


Verdict: TypeAlias = Reject | AddMessage | ChangeRequest | ReplaceArguments | Replace


@dataclass(frozen=True, slots=True)
class HookOutcome:
    """The verdict of one hook."""

    hook: str
    verdict: Verdict
    late: bool = False
    """True if it was stopped because the run's time was over; `verdict` is then a rejection."""

    @property
    def reason(self) -> str:
        """The reason of its rejection; "" = it did not reject."""
        return self.verdict.reason if isinstance(self.verdict, Reject) else ""


_POINTS: Final = {
    "before_model": (Reject, AddMessage, ChangeRequest),
    "after_model": (Reject,),
    "before_tool": (Reject, ReplaceArguments),
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
            verdict: Verdict | None
            try:
                with contained():
                    async with timer:
                        answer = await _value(getattr(hook, point)(context, *copies))
                    verdict = None
                    # The answer is the hook's own object, so reading it may fail too.
                    if answer is not None or _changed(copies, arguments):
                        verdict = _verdict(name, point, answer, arguments)
            except Exception as error:  # noqa: BLE001 - no failed guard passes a call
                # The hook's own TimeoutError is a failure like any other.
                late = isinstance(error, TimeoutError) and timer.expired()
                why = "did not answer within the run's seconds" if late else ""
                verdict = Reject(f"the hook {name} {why or f'failed: {error_text(error)}'}")

            if verdict is None or verdict == ChangeRequest():
                continue
            outcomes.append(HookOutcome(name, verdict, late))
            if isinstance(verdict, Reject):
                break
            # the next hook sees the change of this one
            arguments = (*arguments[:-1], _applied(verdict, arguments[-1]))
        return outcomes


def _check_hook(candidate: Any) -> None:
    # Type checkers detect this; a function in its place would silently never be called.
    if not isinstance(candidate, Hook):
        instance = "; pass an instance" if isinstance(candidate, type) else ""
        raise ConfigError(f"{candidate!r} is not a taofold.Hook{instance}", path="hooks")


def _verdict(name: str, point: str, answer: Any, arguments: Sequence[Any]) -> Verdict:
    """Returns the verdict for a hook's return value; a value of another type rejects."""
    if answer is None:
        # A hook that changes a parameter in place must not assume that this has an effect.
        return Reject(
            f"the hook {name} changed the parameters in place; a hook returns ReplaceArguments"
        )
    if not isinstance(answer, _POINTS[point]):
        allowed = " or ".join([kind.__name__ for kind in _POINTS[point]])
        wrong = type(answer).__name__
        return Reject(f"the hook {name} returned {wrong} in {point}, not None or {allowed}")
    if isinstance(answer, Reject) and not answer.reason:
        return Reject(f"rejected by {name}")
    wrong = ""
    if isinstance(answer, Reject | AddMessage):
        wrong = _no_text(answer)
    elif isinstance(answer, ReplaceArguments):
        answer, wrong = _own_parameters(answer)
    elif isinstance(answer, ChangeRequest):
        answer, wrong = _own_change(answer, arguments[-1])
    return Reject(f"the hook {name} {wrong}") if wrong else answer


def _no_text(answer: Reject | AddMessage) -> str:
    """Returns why the text of a verdict is unusable, or ""."""
    given: Any = answer.reason if isinstance(answer, Reject) else answer.text
    what = "reason" if isinstance(answer, Reject) else "message"
    return "" if isinstance(given, str) else f"returned a {what} that is {quote(given)}, not text"


def _own_parameters(answer: ReplaceArguments) -> tuple[ReplaceArguments, str]:
    """Returns a copy that the hook cannot change later, and why it is unusable, or ""."""
    parameters: Any = answer.parameters
    if not is_object(parameters) or jsonable(parameters) != parameters:
        return answer, "returned parameters that are no dict of JSON"
    return ReplaceArguments(copied(parameters)), ""


def _own_change(answer: ChangeRequest, request: Request) -> tuple[ChangeRequest, str]:
    """Returns a copy that the hook cannot change later, and why it is unusable, or ""."""
    settings: Any = answer.settings
    if not is_object(settings) or jsonable(settings) != settings:
        return answer, "returned settings that are no dict of JSON"
    try:
        ModelSettings.of(settings)
    except ConfigError as error:
        return answer, f"returned unusable settings: {error}"
    names: Any = answer.tools
    # A call for a summary or a verdict has no tools, in any form.
    if names is None or request.role in ASIDE:
        return ChangeRequest(copied(settings)), ""
    if not isinstance(names, list | tuple):
        return answer, "returned tools that are no list of names"
    names = cast("Sequence[object]", names)
    offered = offer_of(request)
    if not offered:
        return answer, "cannot change the tools of a call that offers none to the provider"
    more = [name for name in names if name not in offered]
    if more:
        return answer, f"widened the offer by {', '.join(map(repr, more))}"
    kept = tuple([name for name in offered if name in names or name in _KEPT])
    return ChangeRequest(copied(settings), kept), ""


def offer_of(request: Request) -> tuple[str, ...]:
    """Returns the names of the tools that the model may call now."""
    if request.allowed is not None:
        return request.allowed
    return tuple([spec.name for spec in request.tools])


def _applied(verdict: Verdict, value: Any) -> Any:
    """Returns the argument of the next hook: `value` after the change."""
    match verdict:
        case Replace():
            return verdict.value
        case ReplaceArguments():
            return structs.replace(value, parameters=dict(verdict.parameters))
        case ChangeRequest():
            own = ModelSettings(**verdict.settings).over(value.overrides)
            allowed = value.allowed if verdict.tools is None else tuple(verdict.tools)
            return structs.replace(value, overrides=own, allowed=allowed)
        case _:
            return value


def _changed(given: Sequence[Any], arguments: Sequence[Any]) -> bool:
    """Returns whether a hook changed the action that it received."""
    pairs = zip(given, arguments, strict=True)
    return any(isinstance(own, Action) and own != other for own, other in pairs)


_KEPT: Final = (FINISH, ASK_USER)
"""Tools that a change of the offer keeps: without them the model cannot end or ask."""


def overrides(hook: Hook, point: str) -> bool:
    """Returns whether `hook` overrides this method."""
    return getattr(type(hook), point) is not getattr(Hook, point)


async def _value(said: "T | Awaitable[T]") -> T:
    if inspect.isawaitable(said):
        return await in_own_task(said)
    return said

"""What an agent can do: a typed function with the facts that govern its use.

Knows nothing about runs, policy decisions or prompts. A `Tool` is declared once, `bind`
checks what a model wrote, `Bound.run` makes the call; time limits, approvals and the
catching of errors are the runtime's.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Generic, cast, get_args

import msgspec
from typing_extensions import ParamSpec, TypeVar

from taofold.core.errors import ConfigError
from taofold.core.values import RESERVED, Sideeffect, Tier
from taofold.tools.arguments import BadArguments, quote
from taofold.tools.context import Outcome, RunContext
from taofold.tools.result import bulky, is_scalar, outcome_of, stateful, utf8
from taofold.tools.signature import RESERVED_PARAMETER, Signature, described
from taofold.tools.worker import WORKERS

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

TIMEOUT: Final = 60.0
"""Seconds that a call may take if its tool says nothing (PEER-24)."""
MOST_RETRIES: Final = 10
STRETCH: Final = 10
"""How often `timeout` fits into the cap of `timeout_s`, if a tool names no cap."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
_LONGEST_NAME: Final = 64
_EFFECTS: Final = get_args(Sideeffect)


def check_name(name: str) -> str:
    """`name` if it is safe in prompts, logs and file names, else `ConfigError`."""
    if len(name) > _LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name!r} is no tool name: use 1 to 64 letters, digits, '_', '-' and single dots, "
            "starting with a letter or '_'"
        )
    if name in RESERVED:
        raise ConfigError(f"the name {name!r} is reserved; choose another with name=...")
    return name


@dataclass(frozen=True, slots=True)
class Tool(Generic[P, R]):
    """A function a model may call, and what people want to know before it does.

    `tier` and `effect` follow D8. What writes may be tier 1 only if its author says that it
    is `reversible`; without that, whether to ask is derived from the tier and a write that
    asks nobody is a `ConfigError` (RCT-27).
    """

    name: str
    description: str
    schema: dict[str, Any] = field(hash=False)
    """JSON Schema of the parameters: an object."""
    tier: Tier = Tier.CARD
    effect: Sideeffect = "once"
    role: str = ""
    """Role that a principal needs to use it."""
    timeout: float = TIMEOUT
    """Seconds that a call may take."""
    longest: float = 0.0
    """Cap, in seconds, of the reserved parameter `timeout_s`; 0 = ten times `timeout`."""
    retries: int = 0
    """How often a call that raised is made once more by itself; not for effect="once"."""
    sequential: bool = False
    """Never in parallel with other calls of its batch."""
    thread: bool = True
    """A synchronous function runs in a worker thread; False = it is quick, run it inline."""
    max_chars: int = 16_000
    """Budget of its result in the prompt."""
    reversible: bool = False
    verify: Callable[[str], Any] | None = None
    """effect_id -> True (was done), False (was not), or its `Outcome`; may be async."""
    loop_key: Callable[[dict[str, Any]], str] | None = None
    preview: Callable[[dict[str, Any]], str] | None = None
    """What a person sees when asked."""
    extract: Callable[[Any], str] | None = None
    """Key extraction from what the function returned."""
    toolset: str = ""
    agent: Any = field(default=None, hash=False)
    """An agent that serves the call; the runtime treats such tools specially."""
    function: Callable[P, R] | None = None
    signature: Signature | None = field(default=None, repr=False, hash=False)
    definition: str = field(init=False, default="")
    """Digest of what a person approves: name, description, schema, tier, effect, role."""

    def __post_init__(self) -> None:
        check_name(self.name)
        _check_limits(self)
        tier = check_tier(self.tier, self.name)
        if tier < Tier.CARD and self.effect != "read" and not self.reversible:
            raise ConfigError(
                f"tool {self.name!r} writes (effect={self.effect!r}) but tier 1 asks nobody; "
                "declare effect='read', reversible=True, or tier=2"
            )
        object.__setattr__(self, "tier", tier)
        object.__setattr__(self, "definition", _digest(self))
        if self.signature is None:
            object.__setattr__(self, "signature", described(self.schema, self.function))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, as if it had not been decorated."""
        if self.function is None:
            raise ConfigError(f"tool {self.name!r} has no function: it is served by the runtime")
        return self.function(*args, **kwargs)

    def bind(self, parameters: Mapping[str, Any]) -> "Bound":
        """Check what a model wrote.

        `timeout_s` is taken out and capped.

        Raises:
            BadArguments: naming every parameter that is missing, unknown or wrong.
        """
        seconds = self.timeout
        if RESERVED_PARAMETER in parameters:
            parameters = dict(parameters)
            cap = self.longest or self.timeout * STRETCH
            seconds = _seconds(parameters.pop(RESERVED_PARAMETER), cap)
        args, kwargs = cast("Signature", self.signature).arguments(parameters)
        return Bound(self, args, kwargs, seconds)


class Bound:
    """A checked call that has not been made. `timeout` is in seconds."""

    __slots__ = ("args", "kwargs", "timeout", "tool")

    def __init__(
        self, tool: Tool, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float
    ) -> None:
        self.tool, self.args, self.kwargs, self.timeout = tool, args, kwargs, timeout

    @property
    def inline(self) -> bool:
        """Does the call run on the event loop to its end, so that no deadline can reach it?"""
        return not self.tool.thread and cast("Signature", self.tool.signature).blocking

    @property
    def contextual(self) -> bool:
        """Does the function want to be told about its call, or about the run's state?"""
        signature = cast("Signature", self.tool.signature)
        return signature.context or signature.style == "stateful"

    async def run(self, ctx: RunContext[Any] | None) -> Outcome:
        """Make the call, without a time limit. What the tool raises, this raises.

        `ctx` may be None if the call is not `contextual`.
        """
        tool = self.tool
        function = tool.function
        if function is None:
            raise ConfigError(f"tool {tool.name!r} has no function: it is served by the runtime")
        signature = cast("Signature", tool.signature)
        args = self.args
        if ctx is not None and signature.style == "stateful":
            args = (ctx.state, *args)
        elif signature.context:
            args = (ctx, *args)
        value: Any
        if signature.blocking and tool.thread:
            value = await WORKERS.run(function, *args, **self.kwargs)
        else:
            try:
                value = function(*args, **self.kwargs)
            except SystemExit as error:
                raise RuntimeError(f"the tool raised {error!r}") from error
        if not is_scalar(value) and inspect.isawaitable(value):
            value = await value
        if bulky(value.value if isinstance(value, Outcome) else value):
            return cast("Outcome", await WORKERS.run(self._outcome, value, signature))
        return self._outcome(value, signature)

    def _outcome(self, value: Any, signature: Signature) -> Outcome:
        tool = self.tool
        state = signature.style == "stateful"
        outcome = stateful(value, tool.name) if state else outcome_of(value)
        if tool.extract is None or outcome.extraction:
            return outcome
        try:
            said = utf8(str(tool.extract(value)))
        except Exception:  # noqa: BLE001 - the work is done; a missing extraction must not undo it
            return outcome
        return Outcome(outcome.value, outcome.status, said, outcome.update)


def _check_limits(tool: Tool) -> None:
    if not (math.isfinite(tool.timeout) and tool.timeout > 0):
        raise ConfigError(f"tool {tool.name!r}: timeout must be seconds > 0, not {tool.timeout!r}")
    if tool.longest and tool.longest < tool.timeout:
        raise ConfigError(f"tool {tool.name!r}: longest {tool.longest!r} is below timeout")
    if tool.effect not in _EFFECTS:
        raise ConfigError(f"tool {tool.name!r}: effect is one of {_EFFECTS}, not {tool.effect!r}")
    if isinstance(tool.retries, bool) or not 0 <= tool.retries <= MOST_RETRIES:
        raise ConfigError(
            f"tool {tool.name!r}: retries must be 0 to {MOST_RETRIES}, not {tool.retries!r}"
        )
    if tool.retries and tool.effect == "once":
        raise ConfigError(
            f"tool {tool.name!r}: what has its effect once is not repeated by itself; "
            "declare effect='read' or effect='idempotent', or leave retries away"
        )
    if tool.max_chars < 1:
        raise ConfigError(f"tool {tool.name!r}: max_chars must be > 0, not {tool.max_chars!r}")


def check_tier(tier: int, name: str) -> Tier:
    """`tier` as a `Tier`; `ConfigError` if there is none of this number."""
    try:
        return Tier(tier)
    except ValueError:
        raise ConfigError(f"{name}: tier must be 1 to 4, not {tier!r}") from None


def _digest(tool: Tool) -> str:
    facts = (tool.name, tool.description, tool.schema, int(tool.tier), tool.effect, tool.role)
    try:
        said = msgspec.json.encode(facts, order="sorted")
    except (TypeError, ValueError) as error:
        raise ConfigError(f"tool {tool.name!r}: its schema is not JSON ({error})") from error
    return blake2b(said, digest_size=8).hexdigest()


def _seconds(wish: Any, longest: float) -> float:
    if isinstance(wish, (int, float)) and not isinstance(wish, bool) and 0 < wish < math.inf:
        return min(float(wish), longest)
    raise BadArguments([f"parameter 'timeout_s' must be seconds > 0, got {quote(wish)}"])

"""Tools: typed functions with the options that govern their use.

A `Tool` is declared once: by the decorator `tool`, by `as_tool` for other functions, or by
`external` for a JSON Schema. `bind` checks the parameters that a model wrote, and `Bound.run` makes
the call. The runtime handles time limits, approvals and errors. This module does not depend on
runs, policy decisions or prompts.

A new option needs a field of `Tool`, its key in `ToolOptions`, and the code that applies it
(`docs/internals/changing.md`). Toolsets are in `toolset`; `signature` reads a function.

Tools of other frameworks are detected by their attributes, without importing those frameworks. The
bridge that reads them is loaded when one is found.
"""

import importlib
import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import (
    Any,
    Final,
    Generic,
    NamedTuple,
    TypedDict,
    TypeGuard,
    cast,
    get_args,
    overload,
)

import msgspec
from typing_extensions import ParamSpec, TypeVar, Unpack

from taofold.core.errors import ConfigError
from taofold.core.option_values import checked_names
from taofold.core.text import utf8
from taofold.core.values import RESERVED, Action, Sideeffect, Tier
from taofold.foreign_code import contained, in_own_task
from taofold.parsing.outcome import Repair
from taofold.tools.arguments import BadArguments, quote
from taofold.tools.context import Outcome, RunContext
from taofold.tools.result import bulky, is_scalar, outcome_of, stateful
from taofold.tools.signature import (
    RESERVED_PARAMETER,
    UNREAD,
    FunctionSignature,
    bare,
    declare,
    signature_of_schema,
)
from taofold.tools.signature import read as read_docstring
from taofold.tools.threads import WORKERS

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

TIMEOUT: Final = 60.0
"""Default for the seconds that a call may take (PEER-24)."""
MOST_RETRIES: Final = 10
STRETCH: Final = 10
"""Default cap of `timeout_s`, as a multiple of `timeout`."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
_LONGEST_NAME: Final = 64
_EFFECTS: Final = get_args(Sideeffect)


def check_name(name: str) -> str:
    """Returns `name` if it is safe in prompts, logs and file names.

    Raises:
        ConfigError: It is not safe, or reserved.
    """
    if len(name) > _LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name!r} is no tool name: use 1 to 64 letters, digits, '_', '-' and single dots, "
            "starting with a letter or '_'"
        )
    if name in RESERVED:
        raise ConfigError(f"the name {name!r} is reserved; choose another with name=...")
    return name


class ToolWarning(UserWarning):
    """The definition of a tool lacks a type or a description."""


@dataclass(frozen=True, slots=True)
class Tool(Generic[P, R]):
    """A function that a model may call, with the options that govern its use.

    The decorator `tool` makes one. Calling the tool calls the plain function. A tool that writes
    may have tier 1 only if it is `reversible`: a write without an approver is otherwise a
    `ConfigError` (RCT-27).

    Example:
        ```python
        from taofold import tool


        @tool(effect="read", timeout=10)
        def weather(city: str) -> str:
            "Today's weather in a city."
            return f"sunny in {city}"


        bound = weather.bind({"city": "Oslo"})
        outcome = await bound.run(None)
        print(weather.tier, outcome.value)
        ```

    Args:
        name: Name for the model: letters, digits, `_`, `-` and single dots.
        description: Description for the model.
        schema: JSON Schema of the parameters, of type object.
        tier: Required consent: 1 automatic, 2 card, 3 confirmation, 4 forbidden.
        effect: Consequence of a repeated call: `"read"`, `"idempotent"` or `"once"`. It decides
            what happens after a crash.
        role: Role, such as "ADMIN", that the user of the run and the approver must have. The call
            is refused otherwise.
        timeout: Seconds that a call may take. After a timeout the observation contains the progress
            that the tool sent with `context.report(text)`.
        longest: Maximum of `timeout_s`, a parameter with which a model can set another timeout for
            one call. 0 is ten times `timeout`.
        retries: Number of repetitions of a call that raised, after 0.5 s, 1 s …, within the limits.
            Not for `effect="once"`.
        sequential: Never runs at the same time as other calls of its batch.
        thread: Runs a synchronous function in a worker thread. False runs it on the event loop: it
            must be quick.
        max_chars: Maximum characters of a result that the model is shown. The log keeps all.
        pinned: Results stay complete when older steps of a long run are shortened, each once.
        reversible: The effect can be undone, so tier 1 is allowed.
        verify: Called after a crash with the id of the call (`context.effect_id`). Returns `True`
            (it happened), `False` (it did not) or the call's `Outcome`. May be async.
        compensate: Undoes a call when a run is rewound with `--compensate`. Takes the parameters
            and the result. An approver is asked; it runs at most once. May be async.
        loop_key: Takes the arguments and returns a text. Calls with the same text count as the same
            call when taofold checks whether the agent repeats itself without progress.
        preview: Takes the arguments and returns the text that the approver reads.
        extract: Takes the result and returns its most important line, which becomes the
            observation's `extraction`.
        toolset: Origin of the tool, for display.
        agent: The agent that serves the call.
        successor: The agent that continues the run after a call, in place of the one that calls.
        delegated: The calls that the tool's agent makes need consent, not this call itself.
        function: The plain function. None if the runtime serves the call.
        signature: The compiled check of the parameters. Derived from the schema by default.
        aliases: Further names under which policies and limits apply. They only make it stricter.
        renew: Takes the tool or a changed copy and returns it as its source describes it now, or
            the same object if nothing changed.
        undeclared: Neither an effect nor a tier was declared, so the defaults apply. Not part of
            `definition`.
        confined: The folder outside of which the tool changes nothing, if it is a tool for files.
        root: The folder in which the tool works, if it was made for one.
        place: Makes the same tool for another folder.

    Raises:
        ConfigError: An option is invalid, or a write has tier 1.
    """

    name: str
    description: str
    schema: dict[str, Any] = field(hash=False)
    tier: Tier = Tier.CARD
    effect: Sideeffect = "once"
    role: str = ""
    timeout: float = TIMEOUT
    longest: float = 0.0
    retries: int = 0
    sequential: bool = False
    thread: bool = True
    max_chars: int = 16_000
    pinned: bool = False
    reversible: bool = False
    verify: Callable[[str], Any] | None = None
    compensate: Callable[[dict[str, Any], Any], Any] | None = None
    loop_key: Callable[[dict[str, Any]], str] | None = None
    preview: Callable[[dict[str, Any]], str] | None = None
    extract: Callable[[Any], str] | None = None
    toolset: str = ""
    agent: Any = field(default=None, hash=False)
    successor: Any = field(default=None, hash=False, repr=False)
    delegated: bool = False
    function: Callable[P, R] | None = None
    signature: FunctionSignature = field(default=UNREAD, repr=False, hash=False)
    aliases: tuple[str, ...] = ()
    renew: "Callable[[Tool], Tool] | None" = field(default=None, repr=False, hash=False)
    undeclared: bool = field(default=False, repr=False)
    confined: Path | None = field(default=None, repr=False, hash=False)
    root: Path | None = field(default=None, repr=False, hash=False)
    place: "Callable[[Path], Tool] | None" = field(default=None, repr=False, hash=False)
    definition: str = field(init=False, default="")
    """Digest of what an approver accepts: name, description, schema, tier, effect, role."""

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
        aliases = checked_names(self.aliases, f"tool {self.name!r}.aliases")
        object.__setattr__(self, "aliases", aliases)
        object.__setattr__(self, "definition", _digest(self))
        if self.signature is UNREAD:
            # A tool without a signature has only a schema, and its function takes one mapping.
            object.__setattr__(self, "signature", signature_of_schema(self.schema, self.function))

    @property
    def model_description(self) -> str:
        """The description for the model, in a request's list of tools or in the prompt."""
        return self.description

    @property
    def declared(self) -> dict[str, Any]:
        """The options that the author has set to plain values."""
        options = ToolOptions.__optional_keys__
        values = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name in options and getattr(self, each.name) != each.default
        }
        return {name: value for name, value in values.items() if is_scalar(value)}

    def renewed(self) -> "Tool":
        """Returns the tool as its source describes it now, or this object if nothing changed."""
        return self if self.renew is None else self.renew(self)

    def at(self, folder: Path) -> "Tool":
        """Returns the tool for another folder, with the same name, rules and parameters.

        Args:
            folder: The folder in which it works.

        Raises:
            ConfigError: The tool can work only in its own folder.
        """
        if self.place is None:
            raise ConfigError(f"tool {self.name!r} cannot work in another folder than its own")
        made = self.place(folder)
        return replace(
            self,
            function=made.function,
            preview=made.preview,
            tier=max(self.tier, made.tier),
            confined=made.confined,
            root=made.root,
            place=made.place,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the plain function, as if it were not decorated.

        Raises:
            ConfigError: The tool has no function.
        """
        if self.function is None:
            raise ConfigError(f"tool {self.name!r} has no function: it is served by the runtime")
        return self.function(*args, **kwargs)

    def bind(self, parameters: Mapping[str, Any]) -> "Bound":
        """Checks the parameters of a call.

        `timeout_s` is removed and capped. Values of another type than declared are converted if no
        information is lost. The conversions are in `Bound.repairs`.

        Example:
            ```python
            from taofold import tool


            @tool(effect="read")
            def add(a: int, b: int) -> int:
                "Adds two numbers."
                return a + b


            print(add.bind({"a": 1, "b": "2"}).repairs)
            ```

        Args:
            parameters: The parameters by name.

        Returns:
            The checked call.

        Raises:
            BadArguments: Names every parameter that is missing, unknown or wrong.
        """
        seconds = self.timeout
        # Any call may have it. It is removed before the function's own check.
        if RESERVED_PARAMETER in parameters:
            parameters = dict(parameters)
            cap = self.longest or self.timeout * STRETCH
            seconds = _seconds(parameters.pop(RESERVED_PARAMETER), cap)
        try:
            bound = Bound(self, *self.signature.arguments(parameters), seconds)
        except BadArguments:
            fitted = self._bind_fitted(parameters, seconds)
            if fitted is None:
                raise  # the message describes the parameters as they were written
            return fitted
        # A model in the arguments drops undeclared keys, such as `birthYear`.
        is_overlooked = self.signature.overlooks(parameters)
        return (self._bind_fitted(parameters, seconds) if is_overlooked else None) or bound

    def _bind_fitted(self, parameters: Mapping[str, Any], seconds: float) -> "Bound | None":
        fitted, repairs = self.signature.fitted(parameters)
        with suppress(BadArguments):
            if repairs:
                return Bound(self, *self.signature.arguments(fitted), seconds, repairs)
        return None

    def misfit(self, parameters: Mapping[str, Any]) -> str:
        """Returns what is wrong with the parameters if no conversion is allowed, or "".

        An approver's edited parameters are checked this way: they run as written, or not at all.

        Args:
            parameters: The parameters by name.
        """
        try:
            repairs = self.bind(parameters).repairs
        except BadArguments as error:
            return str(error)
        kinds = [each.kind for each in repairs if each.content]
        return f"not of the declared types ({', '.join(kinds)})" if kinds else ""

    def fitted(self, action: Action) -> Action:
        """Returns the action with its parameters in the declared types, and the repairs.

        Args:
            action: A call of this tool.
        """
        parameters = dict(action.parameters)
        reserved = {
            name: parameters.pop(name) for name in (RESERVED_PARAMETER,) if name in parameters
        }
        fitted, repairs = self.signature.fitted(parameters)
        if not repairs:
            return action
        kinds = dict.fromkeys([*action.repairs, *[each.kind for each in repairs]])
        return msgspec.structs.replace(
            action,
            parameters=fitted | reserved,
            repairs=tuple(kinds),
            guessed=action.guessed or any(each.content for each in repairs),
        )


class Bound:
    """A checked call that has not been made.

    Args:
        tool: The tool.
        args: Positional arguments.
        kwargs: Keyword arguments.
        timeout: Seconds that the call may take.
        repairs: Conversions that made the arguments fit.
    """

    __slots__ = ("args", "kwargs", "repairs", "timeout", "tool")

    def __init__(
        self,
        tool: Tool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float,
        repairs: tuple[Repair, ...] = (),
    ) -> None:
        self.tool, self.args, self.kwargs, self.timeout = tool, args, kwargs, timeout
        self.repairs = repairs

    @property
    def inline(self) -> bool:
        """True if the call blocks the event loop to its end, so that no deadline applies."""
        return not self.tool.thread and self.tool.signature.blocking

    @property
    def contextual(self) -> bool:
        """True if the function takes the context of its call, or the run's state."""
        signature = self.tool.signature
        return signature.context or signature.style == "stateful"

    async def run(self, ctx: RunContext[Any] | None) -> Outcome:
        """Makes the call, without a time limit. Exceptions of the tool pass through.

        Args:
            ctx: The context. May be None if the call is not `contextual`.

        Returns:
            The outcome.
        """
        tool = self.tool
        function = tool.function
        if function is None:
            raise ConfigError(f"tool {tool.name!r} has no function: it is served by the runtime")
        signature = tool.signature
        args = self.args
        if ctx is not None and signature.style == "stateful":
            args = (dict(ctx.state), *args)
        elif signature.context:
            args = (ctx, *args)
        value: Any
        if signature.blocking and tool.thread:
            value = await WORKERS.run(function, *args, **self.kwargs)
        else:
            with contained():
                value = function(*args, **self.kwargs)
        # A plain function may return an awaitable too, such as a lambda around an async client.
        if not is_scalar(value) and inspect.isawaitable(value):
            with contained():
                value = await in_own_task(value)
        # Converting megabytes to JSON would block the event loop and delay every lease.
        if bulky(value.value if isinstance(value, Outcome) else value):
            return cast("Outcome", await WORKERS.run(self._outcome, value, signature))
        with contained():  # serializers, properties and __repr__ of foreign classes
            return self._outcome(value, signature)

    def _outcome(self, value: Any, signature: FunctionSignature) -> Outcome:
        tool = self.tool
        state = signature.style == "stateful"
        outcome = stateful(value, tool.name) if state else outcome_of(value)
        if tool.extract is None or outcome.extraction:
            return outcome
        try:
            with contained():
                extraction = utf8(str(tool.extract(value)))
        except Exception:  # noqa: BLE001 - the work is done; a missing extraction must not undo it
            return outcome
        return msgspec.structs.replace(outcome, extraction=extraction)


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
    """Returns `tier` as a `Tier`, or raises `ConfigError` if it is invalid."""
    try:
        return Tier(tier)
    except ValueError:
        raise ConfigError(f"{name}: tier must be 1 to 4, not {tier!r}") from None


def _digest(tool: Tool) -> str:
    facts = (tool.name, tool.description, tool.schema, int(tool.tier), tool.effect, tool.role)
    try:
        encoded = msgspec.json.encode(facts, order="sorted")
    except (TypeError, ValueError) as error:
        raise ConfigError(f"tool {tool.name!r}: its schema is not JSON ({error})") from error
    return blake2b(encoded, digest_size=8).hexdigest()


def _seconds(wish: Any, longest: float) -> float:
    if isinstance(wish, (int, float)) and not isinstance(wish, bool) and 0 < wish < math.inf:
        return min(float(wish), longest)
    raise BadArguments([f"parameter 'timeout_s' must be seconds > 0, got {quote(wish)}"])


class ForeignShape(NamedTuple):
    """The attributes of a framework's tools, and the function that converts them."""

    attributes: tuple[str, ...]
    reader: str


SHAPES: Final = (
    ForeignShape(("tool_call_schema", "ainvoke"), "taofold.bridges.langchain:tool_of"),
    ForeignShape(("args_schema", "_run", "description"), "taofold.bridges.crewai:tool_of"),
)


def reader_of(thing: object) -> "Callable[[object], Tool] | None":
    """Returns the function that converts `thing` to a tool, or None if its shape is unknown."""
    # A class has the attributes too, but is not a tool.
    if isinstance(thing, type):
        return None
    # Checking for their classes would import those frameworks.
    for shape in SHAPES:
        if all(hasattr(thing, name) for name in shape.attributes):
            module, _, name = shape.reader.partition(":")
            convert = getattr(importlib.import_module(module), name)
            return cast("Callable[[object], Tool]", convert)
    return None


# Functions allow no defaults for these, which `Tool[...]` without arguments needs.
_P = ParamSpec("_P")
_R = TypeVar("_R")


class CommonOptions(TypedDict, total=False):
    """Options that `Toolset.with_options` accepts too. None of them affects permissions."""

    timeout: float
    longest: float
    sequential: bool
    max_chars: int
    toolset: str


class ToolOptions(CommonOptions, total=False):
    """Options of the decorator besides name, description, tier and effect. See `Tool`."""

    role: str
    retries: int
    thread: bool
    pinned: bool
    reversible: bool
    verify: Callable[[str], Any] | None
    compensate: Callable[[dict[str, Any], Any], Any] | None
    loop_key: Callable[[dict[str, Any]], str] | None
    preview: Callable[[dict[str, Any]], str] | None
    extract: Callable[[Any], str] | None


@overload
def tool(fn: Callable[_P, _R], /) -> Tool[_P, _R]: ...
@overload
def tool(
    fn: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[_P, _R]], Tool[_P, _R]]: ...
def tool(
    fn: Callable[_P, _R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[_P, _R] | Callable[[Callable[_P, _R]], Tool[_P, _R]]:
    """Makes a tool of a function. The result can still be called like the function.

    The name, description and parameters come from the function's signature and docstring.

    Example:
        ```python
        from taofold import tool


        @tool(effect="read")
        def price(item: str, currency: str = "EUR") -> float:
            "Returns the price of an item."
            return 2.5
        ```

    Args:
        fn: The function, sync or async. Its first parameter may be a `RunContext`.
        name: Name for the model. Default: the function's name.
        description: Description for the model. Default: the docstring.
        tier: Required consent: 1 automatic, 2 card, 3 confirmation, 4 forbidden. Default: 1 for
            reads, 2 for others (D8).
        effect: Consequence of a repeated call: `"read"`, `"idempotent"` or `"once"` (default).
        options: Further options of `Tool`: timeout, longest, sequential, max_chars, toolset, role,
            retries, thread, pinned, reversible, verify, compensate, loop_key, preview, extract.

    Returns:
        The tool, or a decorator if `fn` is omitted.

    Raises:
        ConfigError: A model cannot use this function. The message has the reason.
    """

    def made(function: Callable[_P, _R]) -> Tool[_P, _R]:
        return make(
            function, name=name, description=description, tier=tier, effect=effect, **options
        )

    return made if fn is None else made(fn)


def make(
    function: Callable[_P, _R],
    *,
    name: str | None = None,
    description: str | None = None,
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[_P, _R]:
    """Makes a tool of a function. The plain form of the decorator `tool`."""
    named = check_name(name or name_of(function))
    refusal = _refusal(function)
    if refusal:
        raise ConfigError(f"{named!r} cannot be a tool: {refusal}")
    doc = read_docstring(doc_of(function))
    try:
        signature = declare(function, doc)
    except ConfigError as error:
        raise ConfigError(f"{named!r} cannot be a tool: {error}") from error
    declared = effect or "once"
    made = Tool(
        named,
        doc.description if description is None else inspect.cleandoc(description),
        signature.schema,
        _tier(tier, declared),
        declared,
        function=function,
        signature=signature,
        undeclared=effect is None and tier is None,
        **options,
    )
    _warn_of_gaps(made, function)
    return made


def _warn_of_gaps(tool: Tool[..., Any], function: Callable[..., Any]) -> None:
    """Warns, at the definition of `function`, about missing types and descriptions."""
    untyped = tool.signature.untyped
    gaps: list[str] = []
    if untyped:
        names = ", ".join(map(repr, untyped))
        gaps.append(
            f"no type for {'parameter' if len(untyped) == 1 else 'parameters'} {names}, so any "
            f"JSON is accepted: write `{untyped[0]}: str`, or whatever the type is"
        )
    if not tool.description:
        gaps.append("no description, so a model knows its name only: write a docstring")
    if not gaps:
        return
    inner = inspect.unwrap(bare(function))
    code = getattr(inner, "__code__", None)
    warnings.warn_explicit(
        f"tool {tool.name!r} has {'; and '.join(gaps)}",
        ToolWarning,
        getattr(code, "co_filename", "<tool>"),
        getattr(code, "co_firstlineno", 1),
        # `warnings.warn` records shown warnings here, so that each gap is shown once.
        registry=getattr(inner, "__globals__", {}).setdefault("__warningregistry__", {}),
    )


def external(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    call: Callable[..., Any],
    *,
    context: bool = False,
    checked_again: bool = False,
    tier: int | None = None,
    effect: Sideeffect | None = None,
    **options: Unpack[ToolOptions],
) -> Tool:
    """Returns a tool with a JSON Schema instead of a signature (MCP, LangChain …).

    Args:
        name: Name for the model.
        description: Description for the model.
        schema: JSON Schema of the parameters, of type object.
        call: Takes the checked parameters as one dict, after a `RunContext` if `context`.
        context: Passes a `RunContext` first.
        checked_again: The tool's server checks the parameters too (`SchemaCheck`).
        tier: As for `tool`.
        effect: As for `tool`.
        options: Further options of `Tool`.
    """
    if schema.get("type", "object") != "object":
        raise ConfigError(f"tool {name!r}: the schema must be of type object, not {schema!r}")
    declared = effect or "once"
    return Tool(
        name,
        description,
        dict(schema),
        _tier(tier, declared),
        declared,
        function=call,
        signature=signature_of_schema(schema, call, context=context, checked_again=checked_again),
        **options,
    )


def object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON Schema of parameters. Those without a default are required."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name, each in properties.items() if "default" not in each],
        "additionalProperties": False,
    }


def as_tool(obj: object) -> Tool:
    """Returns `obj` as a tool.

    Accepts a `Tool`, a function of any supported form, a callable object, or a tool of LangChain or
    CrewAI.

    Raises:
        ConfigError: It cannot be a tool. The message has the reason.
    """
    if isinstance(obj, Tool):
        return cast("Tool", obj)
    if (read := reader_of(obj)) is not None:
        return read(obj)
    if _has_own_schema(obj):
        raise ConfigError(
            f"a {type(obj).__module__}.{type(obj).__qualname__} is a tool of another framework: "
            "taofold.tools.external(name, description, schema, call) makes one of ours of it "
            "(docs/bridges.md)"
        )
    if not callable(obj):
        raise ConfigError(f"{obj!r:.200} cannot be a tool: it cannot be called")
    return make(obj)


def _has_own_schema(obj: object) -> bool:
    """Returns True for another framework's tool: it has a name, a description and a schema."""
    about = getattr(obj, "metadata", None) or obj
    named = isinstance(getattr(about, "name", None), str) and hasattr(about, "description")
    schemas = ("params_json_schema", "function_schema", "get_parameters_dict", "parameters")
    return named and any([hasattr(about, each) for each in schemas])


def name_of(function: Callable[..., Any]) -> str:
    """Returns the name of a function, or an object's class in snake_case."""
    inner = bare(function)
    name = getattr(inner, "__name__", "")
    if isinstance(name, str) and name:
        return name
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(inner).__name__)
    return words.lstrip("_") or "tool"


def doc_of(function: Callable[..., Any]) -> str:
    """Returns the docstring of the object or its `__call__`, but not that of a partial."""
    inner = bare(function)
    if inspect.isroutine(inner):
        return inner.__doc__ or ""
    kind = cast("type[object]", type(inner))
    called = getattr(kind, "__call__", None)  # noqa: B004 - its docstring is needed
    return getattr(called, "__doc__", "") or kind.__doc__ or ""


def _tier(tier: int | None, effect: Sideeffect) -> Tier:
    if tier is None:
        return Tier.AUTO if effect == "read" else Tier.CARD
    return cast("Tier", tier)  # `Tool` checks it


def _refusal(function: object) -> str:
    if inspect.isclass(function):
        return "it is a class; give an instance or a function"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "it is a generator; return the value, and use ctx.report() for progress"
    if not callable(function):
        return "it cannot be called"
    return ""


NO_DOCUMENTATION: Final = "No documentation available"


def get_tool_documentation(
    tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]],
) -> str:
    """Returns one line for each tool or function: `- name(signature): docstring`."""
    named: dict[str, Callable[..., Any]] = (
        dict(tools) if isinstance(tools, Mapping) else {_name(tool): tool for tool in tools}
    )
    lines = [
        f"- {name}{_signature(tool)}: {_doc(tool) or NO_DOCUMENTATION}"
        for name, tool in named.items()
    ]
    return "\n".join(["Available tools:", *lines])


def _name(thing: Callable[..., Any]) -> str:
    return thing.name if isinstance(thing, Tool) else name_of(thing)


def _doc(thing: Callable[..., Any]) -> str:
    if _foreign(thing):
        return thing.description
    function: Any = thing.function if isinstance(thing, Tool) else thing
    documentation = inspect.cleandoc(doc_of(function)).strip()
    return thing.description if isinstance(thing, Tool) and not documentation else documentation


def _signature(thing: Callable[..., Any]) -> str:
    if _foreign(thing):
        return f"({', '.join(thing.schema.get('properties', ()))})"
    function: Any = thing.function if isinstance(thing, Tool) else thing
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(...)"


def _foreign(thing: Callable[..., Any]) -> TypeGuard[Tool]:
    # Its function, if any, takes a mapping without parameter names.
    return isinstance(thing, Tool) and thing.signature.style == "mapping"

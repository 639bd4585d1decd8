"""A tool that runs Python code, which can call other tools as functions.

    Agent("openai:gpt-5", tools=[python_tool(tools=[read_file, http_get])])

The code is a child run. Each of its tool calls is a step that is checked by the policy, approved if
needed, logged, and resumed after a crash. The code itself can only compute, so running it needs no
approval.

It runs in `Interpreter`, pydantic-monty in a worker process, without files, network or clock. Code
runs in turns: a turn ends when the code calls a tool, ends, or fails; between turns nothing runs.
The clock is constant and randomness is seeded, so the same code with the same answers takes the
same turns. An interrupted program is run again from its beginning with its earlier answers;
interpreter state is never loaded from a log. Needs the extra `code`.
"""

import atexit
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from keyword import iskeyword
from time import monotonic
from typing import Any, Final, TypeAlias, cast

import msgspec

from taofold.agent import Agent
from taofold.core.effects import Act, Answer, Halt, Strategy
from taofold.core.errors import ConfigError
from taofold.core.text import excerpt, times, utf8
from taofold.core.values import Action, Observation, Sideeffect, Thought, Tier
from taofold.policy import Limits
from taofold.reasoning import Task
from taofold.runtime.model import SilentModel
from taofold.tools import Outcome, Tool, Toolset
from taofold.tools.result import jsonable
from taofold.tools.threads import WORKERS
from taofold.tools.tool import make

try:
    import pydantic_monty as monty
except ImportError as error:
    raise ConfigError(
        f"pydantic-monty is not installed ({error}): pip install 'taofold[code]'"
    ) from error

PRINTED: Final = 4_000
"""Maximum characters of the output of one turn."""
FLOOD: Final = 1_000_000
"""Printed characters after which a turn is aborted."""
VALUE: Final = 8_000
"""Maximum characters of the value of the last expression."""
_KEPT: Final = 64
"""Maximum cached suspended programs, which need not be run again."""
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CodeBounds:
    """Limits of code: seconds per turn, bytes of memory, number of calls."""

    seconds: float = 5.0
    memory: int = 64_000_000
    calls: int = 100


Bounds = CodeBounds
"""Former name of `CodeBounds`, used by examples."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of `function` by the code, with positional and named arguments as JSON."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The code ended; `value` is the value of its last expression, as JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class CodeFailure:
    """The code raised an error or exceeded a limit; `text` is the traceback."""

    text: str


@dataclass(frozen=True, slots=True)
class CodeTurn:
    """The end of a turn and its output."""

    end: FunctionCall | CodeResult | CodeFailure
    printed: str = ""


Reply: TypeAlias = Mapping[str, Any]
"""The answer to a call: `{"value": …}`, or `{"error": name of an exception, "text": …}`."""


@dataclass(frozen=True, slots=True)
class CodeProgram:
    """Code, the functions it may call, and the calls it has made with their answers."""

    code: str
    functions: frozenset[str]
    past: tuple[tuple[FunctionCall, Reply], ...] = ()
    digest: str = field(default="", compare=False)
    """Digest of code, functions and past calls."""
    before: str = field(default="", compare=False)
    """The digest before the last answered call."""

    def __post_init__(self) -> None:
        if not self.digest:
            encoded = msgspec.json.encode((self.code, sorted(self.functions)))
            object.__setattr__(self, "digest", blake2b(encoded, digest_size=16).hexdigest())

    def then(self, call: FunctionCall, reply: Reply) -> "CodeProgram":
        """Returns the program after its next answered call."""
        # A chain of digests: equal digests mean the same code and the same past.
        encoded = msgspec.json.encode((self.digest, call.function, call.args, call.kwargs, reply))
        after = blake2b(encoded, digest_size=16).hexdigest()
        return replace(self, past=(*self.past, (call, reply)), digest=after, before=self.digest)


class Interpreter:
    """Runs programs, one turn at a time. It blocks, so call it from a thread."""

    def __init__(self, bounds: CodeBounds = CodeBounds()) -> None:
        self._bounds = bounds
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def turn(self, program: CodeProgram) -> CodeTurn:
        """Runs the next turn of a program, from a cached state or from its beginning."""
        printed: list[str] = []
        with _pool().checkout(limits=self._limits(), os_policy=_policy()) as session:
            try:
                end = self._reach(session, program, printed)
            except monty.MontySyntaxError as error:
                return CodeTurn(CodeFailure(error.display()))
            except monty.MontyRuntimeError as error:
                return CodeTurn(CodeFailure(excerpt(error.display(), PRINTED)), _joined(printed))
            except monty.MontyError as error:
                return CodeTurn(CodeFailure(f"the interpreter ended: {error}"), _joined(printed))
        return CodeTurn(end, _joined(printed))

    def _reach(
        self, session: Any, program: CodeProgram, printed: list[str]
    ) -> FunctionCall | CodeResult | CodeFailure:
        """Runs to the end of the next turn. The output of earlier turns is dropped."""
        heard, until = 0, monotonic() + self._bounds.seconds

        def hear(_: str, text: str) -> None:
            # The interpreter's timer stops during this callback, so printing code could run twenty
            # times its limit and fill this process's memory. The error ends the turn when its
            # seconds are over.
            nonlocal heard
            heard += len(text)
            if heard > FLOOD or monotonic() > until:
                raise RuntimeError("the code prints without end: print what matters, once")
            printed.append(text)

        # An optimization: without the cached state the program runs again from its beginning.
        checkpoint = self._recall(program.before)
        if checkpoint is not None:
            at = session.load_snapshot(checkpoint, print_callback=hear)
            past = program.past[-1:]
        else:
            at = session.feed_start(program.code, print_callback=hear)
            past = program.past
        at = _settled(at, program.functions)
        for call, reply in past:
            if _call(at) != call:
                return CodeFailure(
                    "the code did not repeat itself: it makes another call than before"
                )
            # Output before an answered call belongs to an earlier turn.
            printed.clear()
            at = _settled(_answer(at, reply), program.functions)
        if isinstance(at, monty.MontyComplete):
            return CodeResult(_small(at.output))
        self._keep(program.digest, at.dump())
        return _call(at)

    def _limits(self) -> monty.ResourceLimits:
        bounds = self._bounds
        return monty.ResourceLimits(
            max_turn_duration_secs=bounds.seconds,
            max_memory=bounds.memory,
            # Name lookups and futures also suspend, several times for each call.
            max_suspensions=bounds.calls * 4 + 100,
        )

    def _recall(self, digest: str) -> bytes | None:
        with self._lock:
            return self._kept.get(digest)

    def _keep(self, digest: str, state: bytes) -> None:
        with self._lock:
            self._kept[digest] = state
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)


def _settled(at: Any, functions: frozenset[str]) -> Any:
    """Resumes until the next tool call: handles name lookups, files and unknown functions."""
    while True:
        match at:
            case monty.NameLookupSnapshot():
                name = at.variable_name
                at = at.resume(value=_named(name)) if name in functions else at.resume()
            case monty.FunctionSnapshot() if at.is_os_function:
                at = at.resume_not_handled()
            case monty.FunctionSnapshot() if at.function_name not in functions:
                message = f"name {at.function_name!r} is not defined"
                at = at.resume({"exc_type": "NameError", "message": message})
            case _:
                return at


def _named(name: str) -> Any:
    """Returns a placeholder function for code that names a tool without calling it."""

    def function() -> None:
        raise AssertionError("it is called through the interpreter")

    function.__name__ = function.__qualname__ = name
    return function


def _call(at: Any) -> FunctionCall:
    if not isinstance(at, monty.FunctionSnapshot):
        return FunctionCall("", (), {})
    args = tuple([jsonable(argument) for argument in at.args])
    return FunctionCall(str(at.function_name), args, {k: jsonable(v) for k, v in at.kwargs.items()})


def _answer(at: Any, reply: Reply) -> Any:
    result: dict[str, Any] = {"return_value": reply.get("value")}
    if "error" in reply:
        result = {"exc_type": reply["error"], "message": str(reply.get("text", ""))}
    if at.allow_eager_await:  # the code awaits the call, so it needs a future
        return at.resume({"future": ...}).resume({at.call_id: result})
    return at.resume(result)


def _small(value: Any) -> Any:
    plain = jsonable(value)
    text = msgspec.json.encode(plain).decode()
    return plain if len(text) <= VALUE else excerpt(text, VALUE)


def _joined(printed: list[str]) -> str:
    return excerpt(utf8("".join(printed)), PRINTED)


def _policy() -> monty.OSPolicy:
    return monty.OSPolicy(
        datetime=_EPOCH, sleep="zero", process_time="zero", random_start={"seed": 0}
    )


class _Pool:
    """The worker processes of this process, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[int, ExitStack, monty.Monty] | None = None

    def __call__(self) -> monty.Monty:
        with self._lock:
            # A forked child must not use its parent's workers.
            if self._open is None or self._open[0] != os.getpid():
                stack = ExitStack()
                pool = stack.enter_context(monty.Monty(max_processes=8))
                self._open = os.getpid(), stack, pool
                atexit.register(self.close)
            return self._open[2]

    def close(self) -> None:
        with self._lock:
            pool, self._open = self._open, None
        if pool is not None and pool[0] == os.getpid():
            pool[1].close()


_pool: Final = _Pool()


SHOWN_CHARS: Final = 8_000
"""Maximum characters of printed text in the result."""
_INTERPRET: Final = "interpret"
_ERRORS: Final = {"denied": "PermissionError", "expired": "PermissionError"}
"""Python exceptions for refusals. Every other failure is a RuntimeError."""
_DESCRIPTION: Final = """\
Run Python code in a sandbox and get what it prints and the value of its last expression.
It has no files, network or packages, and its clock stands still; json, re, math, datetime,
collections and other small modules are there. Variables do not survive between calls."""


def python_tool(
    *,
    tools: Sequence[Any] = (),
    name: str = "python",
    bounds: CodeBounds = CodeBounds(),
    limits: Limits | None = None,
) -> Tool:
    """Makes the tool.

    Args:
        tools: Tools that the code may call, as functions of the same names.
        name: The tool's name for the model.
        bounds: Limits of the code between two calls.
        limits: Limits of the child run. Turns of the code and calls of tools count as tool calls.

    Raises:
        ConfigError: A tool's name is no valid Python function name, or is taken.
    """
    inner = Agent(SilentModel(), tools=tools, name=name).toolset
    code = Code(inner, bounds)
    agent: Agent[Any, Any] = Agent(
        SilentModel(),
        tools=[code.tool, inner],
        name=name,
        output=cast("type[Any]", Any),
        strategy=code.strategy,
        limits=limits or Limits(tool_calls=2 * bounds.calls + 1),
    )
    reads = all(tool.effect == "read" for tool in inner.values())
    # Not "once": the inner calls are checked and logged one by one, so the code can be resumed.
    effect: Sideeffect = "read" if reads else "idempotent"
    return Tool(
        name=name,
        description=_described(inner),
        schema={
            "type": "object",
            "properties": {"code": {"type": "string", "description": "Python source."}},
            "required": ["code"],
            "additionalProperties": False,
        },
        tier=Tier.AUTO,
        effect=effect,
        reversible=True,
        agent=agent,
    )


class Code:
    """State shared by the strategy of the child runs and the tool that runs its turns.

    The strategy is pure, so it only passes a program's digest; the tool looks the program up here.
    Both run in one process: on resume the strategy is driven again first.
    """

    def __init__(self, tools: Toolset, bounds: CodeBounds) -> None:
        self._tools = tools
        self._names: dict[str, str] = {}
        for name in tools:
            other = self._names.setdefault(_function(name), name)
            if other != name:
                raise ConfigError(
                    f"code would call {other!r} and {name!r} by one name: rename one with renamed()"
                )
        self._calls = bounds.calls
        self._interpreter = Interpreter(bounds)
        self._programs: dict[str, CodeProgram] = {}
        self._held: Counter[str] = Counter()
        self.tool = make(
            self._turn,
            name=_INTERPRET,
            description="Run the code up to its next call.",
            effect="read",
            timeout=bounds.seconds + 10,
            max_chars=16_384,
        )

    async def _turn(self, at: str) -> Outcome:
        """Runs the next turn of the program with this digest."""
        program = self._programs.get(at)
        if program is None:
            return Outcome("this program is not being run here", "failure")
        return _outcome(await WORKERS.run(lambda: self._interpreter.turn(program)))

    def strategy(self, task: Task) -> Strategy[Answer]:
        """Alternates turns of the code and its tool calls."""
        program = CodeProgram(task.goal, frozenset(self._names))
        printed = ""
        try:
            # One more turn than calls: after the last answer the code runs to its end.
            for _ in range(self._calls + 1):
                with self._known(program):
                    # The digest, not the program, so that the log holds the code only once.
                    action = Action(_INTERPRET, {"at": program.digest})
                    [observation] = yield Act(Thought("run the code"), (action,), planned=True)
                if observation.status != "success" or not isinstance(observation.result, dict):
                    return Answer(None, "error", _unread(observation))
                record = cast("dict[str, Any]", observation.result)
                printed = excerpt(printed + record.get("printed", ""), SHOWN_CHARS)
                if "call" not in record:
                    return _ended(record, printed)
                call = FunctionCall(record["call"], tuple(record["args"]), record["kwargs"])
                reply = yield from self._made(call)
                program = program.then(call, reply)
            return Answer(
                None, "error", f"{printed}the code made more than {times(self._calls, 'call')}"
            )
        except Halt as halt:
            return Answer(None, halt.reason)

    def _made(self, call: FunctionCall) -> Strategy[Reply]:
        """Makes the call and returns its result or its Python exception."""
        named = self._tools[self._names[call.function]]
        parameters = _parameters(named, call)
        if parameters is None:
            return {"error": "TypeError", "text": f"{call.function}() got too many arguments"}
        thought = Thought(f"the code calls {call.function}")
        [observation] = yield Act(thought, (Action(named.name, parameters),), planned=True)
        return _reply(observation)

    @contextmanager
    def _known(self, program: CodeProgram) -> Generator[None]:
        """Registers the program during a turn. Two runs may share it, so uses are counted."""
        self._programs[program.digest] = program
        self._held[program.digest] += 1
        try:
            yield
        finally:
            self._held[program.digest] -= 1
            if not self._held[program.digest]:
                del self._held[program.digest], self._programs[program.digest]


def _outcome(turn: CodeTurn) -> Outcome:
    printed = {"printed": turn.printed} if turn.printed else {}
    match turn.end:
        case FunctionCall():
            call = {"call": turn.end.function, "args": [*turn.end.args], "kwargs": turn.end.kwargs}
            return Outcome({**printed, **call}, extraction=f"calls {turn.end.function}")
        case CodeResult():
            return Outcome({**printed, "value": turn.end.value}, extraction="done")
        case CodeFailure():
            last = turn.end.text.strip().rpartition("\n")[2]
            return Outcome({**printed, "error": turn.end.text}, extraction=last)


def _ended(reply: dict[str, Any], printed: str) -> Answer:
    if "error" in reply:
        return Answer(None, "error", f"{printed}{reply['error']}")
    value = reply.get("value")
    if not printed:
        return Answer("(no output)" if value is None else value)
    return Answer(printed if value is None else {"printed": printed, "value": value})


def _unread(observation: Observation) -> str:
    if observation.status == "success":
        return "the code gives a call more than 16,000 characters: give it less at a time"
    return str(observation.result)


def _reply(observation: Observation) -> Reply:
    if observation.status in ("failure", "timeout"):
        kind = (
            "TimeoutError" if observation.status == "timeout" else _ERRORS.get(observation.refused)
        )
        return {"error": kind or "RuntimeError", "text": str(observation.result)}
    return {"value": observation.result}


def _parameters(named: Tool, call: FunctionCall) -> dict[str, Any] | None:
    """Returns the arguments by name; None if there are more than parameters."""
    names = list(named.schema.get("properties", ()))
    if len(call.args) > len(names):
        return None
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}


def _function(name: str) -> str:
    """Returns a tool's name in Python."""
    identifier = name.replace("-", "_").replace(".", "_")
    if iskeyword(identifier) or identifier == _INTERPRET:
        raise ConfigError(f"code cannot call a tool named {name!r}: rename it with renamed()")
    return identifier


def _described(tools: Toolset) -> str:
    if not tools:
        return _DESCRIPTION
    lines = [
        f"- {_function(tool.name)}({', '.join(_arguments(tool))}): {_first(tool.description)}"
        for tool in tools.values()
    ]
    return f"{_DESCRIPTION}\nThese functions are there; call them without await:\n" + "\n".join(
        lines
    )


def _arguments(tool: Tool) -> list[str]:
    required = tool.schema.get("required", ())
    properties: dict[str, Any] = tool.schema.get("properties", {})
    return [
        f"{name}: {_kind(rules)}{'' if name in required else ' = …'}"
        for name, rules in properties.items()
    ]


def _kind(rules: dict[str, Any]) -> str:
    kind: Any = rules.get("type", "any")
    return kind if isinstance(kind, str) else " | ".join(cast("list[str]", kind))


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]

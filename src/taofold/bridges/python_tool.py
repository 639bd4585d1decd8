"""A tool that runs Python, whose functions are other tools.

    Agent("openai:gpt-5", tools=[python_tool(tools=[read_file, http_get])])

The code is a child run: each call that it makes of a tool is a step there, ruled on by the
policy, approved by a person where the policy says so, logged, and carried on after a crash.
The code itself can do nothing but compute, so running it asks nobody.

It runs in `Interpreter`, pydantic-monty in a worker process: no files, network or clock, and in
turns. A turn ends when the code calls one of our functions, is done, or fails; between turns
nothing runs. The clock stands still and chance is seeded, so that the same code with the same
answers takes the same turns: a program that was interrupted is run again from its beginning with
the answers it had, and no state of an interpreter is ever loaded from a log. Needs the extra
`code`.
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
"""Characters kept of what one turn prints."""
FLOOD: Final = 1_000_000
"""Characters after which a turn that prints is not listened to any more."""
VALUE: Final = 8_000
"""Characters kept of the value of the last expression."""
_KEPT: Final = 64
"""Suspended programs that are remembered, so that they need not be run again."""
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CodeBounds:
    """What code may use: seconds per turn, bytes of memory, calls in all."""

    seconds: float = 5.0
    memory: int = 64_000_000
    calls: int = 100


Bounds = CodeBounds
"""The name under which examples have imported it."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The code calls `function`: positional arguments, then named ones, as JSON."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The code came to its end; `value` is that of its last expression, as JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class CodeFailure:
    """The code raised, or broke a bound; `text` is the traceback."""

    text: str


@dataclass(frozen=True, slots=True)
class CodeTurn:
    """How a turn ended, and what it printed."""

    end: FunctionCall | CodeResult | CodeFailure
    printed: str = ""


Reply: TypeAlias = Mapping[str, Any]
"""To a call: `{"value": …}`, or `{"error": name of an exception, "text": …}`."""


@dataclass(frozen=True, slots=True)
class CodeProgram:
    """Code, the functions it may call, and the calls it has made with their answers."""

    code: str
    functions: frozenset[str]
    past: tuple[tuple[FunctionCall, Reply], ...] = ()
    digest: str = field(default="", compare=False)
    """Digest of all this."""
    before: str = field(default="", compare=False)
    """The digest before the last call was answered."""

    def __post_init__(self) -> None:
        if not self.digest:
            encoded = msgspec.json.encode((self.code, sorted(self.functions)))
            object.__setattr__(self, "digest", blake2b(encoded, digest_size=16).hexdigest())

    def then(self, call: FunctionCall, reply: Reply) -> "CodeProgram":
        """The program after its next call was answered."""
        # A chain of digests: two programs have one digest
        # only with the same code and the same past.
        encoded = msgspec.json.encode((self.digest, call.function, call.args, call.kwargs, reply))
        after = blake2b(encoded, digest_size=16).hexdigest()
        return replace(self, past=(*self.past, (call, reply)), digest=after, before=self.digest)


class Interpreter:
    """Runs programs, one turn at a time. Blocks: call it from a thread."""

    def __init__(self, bounds: CodeBounds = CodeBounds()) -> None:
        self._bounds = bounds
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def turn(self, program: CodeProgram) -> CodeTurn:
        """The next turn of a program: from where it was left, else from its beginning."""
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
        """Run to the end of the next turn; what earlier turns printed was told before."""
        heard, until = 0, monotonic() + self._bounds.seconds

        def hear(_: str, text: str) -> None:
            # The interpreter's clock stands still while somebody listens: code that prints would
            # go on for twenty times its seconds, and fill this process's memory. An error here
            # ends the turn when its seconds are over, and nothing more is heard of it.
            nonlocal heard
            heard += len(text)
            if heard > FLOOD or monotonic() > until:
                raise RuntimeError("the code prints without end: print what matters, once")
            printed.append(text)

        # A saving, not a need: without it the program runs
        # again from its beginning, with its answers.
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
            # What was printed before an answered call was told in an earlier turn.
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
            # Names that are looked up and futures suspend too, some for each call.
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
    """Past everything that is not a call of ours: names, files, what does not exist."""
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
    """A function of this name, where the code speaks of one without calling it."""

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
    if at.allow_eager_await:  # the code awaits the call: then it must get something to await
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
    """The worker processes of this process: made when first needed, ended with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[int, ExitStack, monty.Monty] | None = None

    def __call__(self) -> monty.Monty:
        with self._lock:
            # A forked child must not talk to its parent's workers.
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
"""Characters of printed text that come back."""
_INTERPRET: Final = "interpret"
_ERRORS: Final = {"denied": "PermissionError", "expired": "PermissionError"}
"""What a refusal is in Python; every other failure is a RuntimeError."""
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
    """The tool.

    Args:
        tools: what the code may call, as functions of the same names.
        name: what the model calls it.
        bounds: what the code may use between two calls.
        limits: of the child run; both turns of the code and calls of tools count as tool calls.

    Raises:
        ConfigError: a tool's name is no name of a Python function, or is taken.
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
    # Not "once": the calls within are governed and
    # logged one by one, so the whole may be resumed.
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
    """What the strategy of the child runs and the tool that takes its turns share.

    The strategy is pure, so it only says at which place a program is; the tool looks the
    program up here. Both live in one process: on resume the strategy is driven again first.
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
        """The next turn of the program at this place."""
        program = self._programs.get(at)
        if program is None:
            return Outcome("this program is not being run here", "failure")
        return _outcome(await WORKERS.run(lambda: self._interpreter.turn(program)))

    def strategy(self, task: Task) -> Strategy[Answer]:
        """Turn after turn; between them the calls that the code makes."""
        program = CodeProgram(task.goal, frozenset(self._names))
        printed = ""
        try:
            # One turn more than calls: after the last answer the code runs to its end.
            for _ in range(self._calls + 1):
                with self._known(program):
                    # The place, not the program: the log holds the
                    # code once, however many turns there are.
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
        """Make the call; what it comes to, in Python's terms."""
        named = self._tools[self._names[call.function]]
        parameters = _parameters(named, call)
        if parameters is None:
            return {"error": "TypeError", "text": f"{call.function}() got too many arguments"}
        thought = Thought(f"the code calls {call.function}")
        [observation] = yield Act(thought, (Action(named.name, parameters),), planned=True)
        return _reply(observation)

    @contextmanager
    def _known(self, program: CodeProgram) -> Generator[None]:
        """Two runs may be at the same place of the same code: the last one takes it away."""
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
    """The arguments by name, None if there are more than the tool has parameters."""
    names = list(named.schema.get("properties", ()))
    if len(call.args) > len(names):
        return None
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}


def _function(name: str) -> str:
    """What a tool is called in Python."""
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

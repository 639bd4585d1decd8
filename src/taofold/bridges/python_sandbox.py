"""The sandboxed interpreter of Python code: pydantic-monty in a worker process.

The code has no files, network, environment or packages. Time, memory and output are bounded
(`CodeBounds`). `Interpreter` runs a program in turns: a turn ends when the code calls a function,
ends, or fails. `evaluate` runs a program without functions. Needs the extra `code`.
"""

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from time import monotonic
from typing import Any, Final, TypeAlias

import msgspec

from taofold.core.errors import ConfigError
from taofold.core.text import excerpt, utf8
from taofold.tools.result import jsonable

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
    """The code raised an error or exceeded a limit; `text` is the traceback.

    `evaluate` gives the error alone, and its `line` in the program; 0 if there is none.
    """

    text: str
    line: int = 0


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
        printed = _Output(self._bounds.seconds)
        with _pool().checkout(limits=self._limits(), os_policy=_policy()) as session:
            try:
                end = self._reach(session, program, printed)
            except monty.MontySyntaxError as error:
                return CodeTurn(CodeFailure(error.display()))
            except monty.MontyRuntimeError as error:
                return CodeTurn(CodeFailure(excerpt(error.display(), PRINTED)), printed.text)
            except monty.MontyError as error:
                return CodeTurn(CodeFailure(f"the interpreter ended: {error}"), printed.text)
        return CodeTurn(end, printed.text)

    def _reach(
        self, session: Any, program: CodeProgram, printed: "_Output"
    ) -> FunctionCall | CodeResult | CodeFailure:
        """Runs to the end of the next turn. The output of earlier turns is dropped."""
        # An optimization: without the cached state the program runs again from its beginning.
        checkpoint = self._recall(program.before)
        if checkpoint is not None:
            at = session.load_snapshot(checkpoint, print_callback=printed)
            past = program.past[-1:]
        else:
            at = session.feed_start(program.code, print_callback=printed)
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


def evaluate(program: str, values: Mapping[str, Any], bounds: CodeBounds) -> CodeTurn:
    """Runs a program that calls no functions, in one turn. Blocks.

    The clock is this machine's. A sleep takes no time.

    Args:
        program: The code. Its last expression is the result.
        values: JSON values by the names under which the code reads them.
        bounds: Limits of the code.

    Returns:
        The end of the program and its output. The value may be any object of the interpreter.
    """
    heard = _Output(bounds.seconds)
    limits = monty.ResourceLimits(
        max_turn_duration_secs=bounds.seconds,
        # A host call ends a turn. The sum of the turns is bounded too.
        max_feed_duration_secs=bounds.seconds,
        max_memory=bounds.memory,
        max_suspensions=bounds.calls,
    )
    policy = monty.OSPolicy(sleep="zero")
    with _pool().checkout(limits=limits, os_policy=policy, assert_message_annotations=False) as at:
        try:
            end = _settled(
                at.feed_start(program, inputs=dict(values), print_callback=heard), frozenset()
            )
        except monty.MontyError as error:
            return CodeTurn(_failure(error), heard.text)
    return CodeTurn(CodeResult(end.output), heard.text)


def _failure(error: monty.MontyError) -> CodeFailure:
    """Returns the error as one line of text."""
    if not isinstance(error, (monty.MontySyntaxError, monty.MontyRuntimeError)):
        return CodeFailure(f"the interpreter ended: {error}")
    text = " ".join(excerpt(error.display("type-msg"), PRINTED).split())
    frames = error.traceback()
    return CodeFailure(text, frames[-1].line if frames else 0)


class _Output:
    """Collects printed text, and ends a program that prints too much or too long."""

    def __init__(self, seconds: float) -> None:
        self._parts: list[str] = []
        self._heard, self._until = 0, monotonic() + seconds

    def __call__(self, _: str, text: str) -> None:
        # The interpreter's timer stops during this callback, so printing code could run twenty
        # times its limit and fill this process's memory. The error ends the turn when its seconds
        # are over.
        self._heard += len(text)
        if self._heard > FLOOD or monotonic() > self._until:
            raise RuntimeError("the code prints without end: print what matters, once")
        self._parts.append(text)

    def clear(self) -> None:
        self._parts.clear()

    @property
    def text(self) -> str:
        return excerpt(utf8("".join(self._parts)), PRINTED)


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

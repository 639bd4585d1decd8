"""Python code of a model, run by pydantic-monty: an interpreter without files, network or clock.

Code runs in a worker process, in turns: a turn ends when the code calls one of our functions, is
done, or fails. Between turns nothing runs. The clock stands still and chance is seeded, so that
the same code with the same answers takes the same turns: a program that was interrupted is run
again from its beginning with the answers it had, and no state of an interpreter is ever loaded
from a log. Knows nothing about tools or runs. Needs the extra `code`.
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
from taofold.core.text import excerpt
from taofold.tools.result import jsonable, utf8

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

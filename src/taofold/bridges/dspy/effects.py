"""Turns a program's calls of models and tools into effects of the run.

`ProgramRequests` makes the effects for programs with and without DSPy, so limits, steering,
corrections, policy and the log are the same for both.

DSPy's programs and teleprompters call a model and block, but a strategy yields an effect and is
sent the result. `run_in_thread` connects both: the program runs in a separate thread, and the
strategy waits for its next request. One of the two is always blocked. A replay needs the same
requests in the same order, so concurrent requests from two threads are refused. The output of the
program's threads can be suppressed.
"""

import io
import logging
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar, assert_never, cast
from weakref import WeakSet

from msgspec.structs import replace
from pydantic import BaseModel

from taofold.bridges.dspy.program import ARGUMENTS, THOUGHT, TOOL, PredictorPrompt, jsonable
from taofold.core.content import Conversation
from taofold.core.effects import Act, Ask, Begin, Halt, Outlook, Strategy
from taofold.core.values import (
    FINISH,
    JSON,
    Action,
    Message,
    ModelSettings,
    Observation,
    Reply,
    StepRole,
    Thought,
)
from taofold.reasoning import Task
from taofold.reasoning.direct import Read, Unread, ask_for

T = TypeVar("T")
THREAD: Final = "taofold-dspy"
_log = logging.getLogger("taofold.dspy")
_context: ContextVar[bool] = ContextVar("taofold_dspy_hushed", default=False)


class Closed(BaseException):
    """The run was stopped.

    A `BaseException`, so that the program's `except Exception` does not catch it.
    """


@dataclass(frozen=True, slots=True)
class _Ended(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


class EffectChannel:
    """The program's end of the connection: `ask` blocks until the strategy has the answer."""

    def __init__(self) -> None:
        self.requests: SimpleQueue[Any] = SimpleQueue()
        self.threads: WeakSet[threading.Thread] = WeakSet()
        """The program's threads: its main thread and those that called `ask`."""
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._busy = threading.Lock()
        self._closed = False

    def ask(self, request: Any) -> Any:
        """Sends a request to the strategy and returns the answer.

        Raises:
            RuntimeError: Another thread is asking, so the order could not be replayed.
            Closed: The run was stopped.
        """
        # Refused instead of queued: the order of two threads cannot be replayed.
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "the program asks from several threads at once, which cannot be replayed: "
                "run it with num_threads=1"
            )
        try:
            # With the lock held, either `close` is visible here or it finds this request waiting.
            if self._closed:
                raise Closed
            self.threads.add(threading.current_thread())
            self.requests.put(request)
            answer = self._answers.get()
        finally:
            self._busy.release()
        if isinstance(answer, Closed):
            raise answer
        return answer

    def answer(self, answer: Any) -> None:
        """Sends the answer and wakes the program."""
        self._answers.put(answer)

    def close(self) -> None:
        """Ends the program at its current or next request."""
        self._closed = True
        self._answers.put(Closed())


class _Stream(io.TextIOBase):
    """A standard stream that sends the output of hushed threads to the debug log.

    The output of other threads, for instance of a server, goes to the real stream. All other
    attributes are those of the real stream.
    """

    def __init__(self, real: Any, hushed: "_Hushed") -> None:
        self.real, self._hushed = real, hushed

    def write(self, text: str, /) -> int:
        if not self._hushed.here():
            return int(self.real.write(text))
        if text.strip():
            _log.debug(text.strip())
        return len(text)

    def flush(self) -> None:
        self.real.flush()

    def isatty(self) -> bool:
        """Returns False for a hushed thread, so that it shows no progress bar."""
        return not self._hushed.here() and bool(self.real.isatty())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _Hushed:
    """Suppresses the progress bars that threads of teleprompters print.

    Standard output belongs to the caller's result. Several programs may be compiled at once. The
    last one restores the streams, unless other code has replaced them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: list[EffectChannel] = []
        self._streams: tuple[_Stream, _Stream] | None = None

    def here(self) -> bool:
        """Returns whether this thread belongs to a hushed program or was started in its context."""
        thread = threading.current_thread()
        # Threads that copied the context are found by it; threads that called `ask` by the list.
        return _context.get() or any(thread in channel.threads for channel in self._channels)

    @contextmanager
    def __call__(self, channel: EffectChannel) -> Generator[None]:
        _context.set(True)  # in the program's own thread, whose context ends with it
        with self._lock:
            self._channels = [*self._channels, channel]
            if self._streams is None:
                # Replaced once for all programs; each write checks its own thread.
                self._streams = _Stream(sys.stdout, self), _Stream(sys.stderr, self)
                sys.stdout, sys.stderr = self._streams
        try:
            yield
        finally:
            with self._lock:
                self._channels = [
                    open_channel for open_channel in self._channels if open_channel is not channel
                ]
                if not self._channels:
                    self._restore()

    def _restore(self) -> None:
        if self._streams is None:
            return
        out, err = self._streams
        sys.stdout = out.real if sys.stdout is out else sys.stdout
        sys.stderr = err.real if sys.stderr is err else sys.stderr
        self._streams = None


_hushed: Final = _Hushed()


def run_in_thread(
    program: Callable[[EffectChannel], T], *, hushed: bool = False
) -> Generator[Any, Any, T]:
    """Runs `program` in a thread: yields its requests, is sent the answers, returns its value.

    Errors of the program are raised here. Closing the generator ends the program. `hushed`
    suppresses the output of its threads.
    """
    channel = EffectChannel()

    def work() -> None:
        channel.threads.add(threading.current_thread())
        try:
            if hushed:
                with _hushed(channel):
                    value = program(channel)
            else:
                value = program(channel)
        except BaseException as error:  # noqa: BLE001 - raised in the driving thread
            channel.requests.put(_Ended(error=error))
        else:
            channel.requests.put(_Ended(value))

    # A daemon thread, so that a stuck program cannot keep the process alive.
    thread = threading.Thread(target=work, name=THREAD, daemon=True)
    thread.start()
    try:
        while True:
            # Blocks the event loop's thread until the program asks, because a strategy cannot
            # await.
            request = channel.requests.get()
            if isinstance(request, _Ended):
                if request.error is not None:
                    raise request.error
                return request.value  # type: ignore[return-value]
            channel.answer((yield request))
    finally:
        # Wakes the program with `Closed`, for any reason that ended this generator.
        channel.close()


DONE: Final = "Completed."
"""Result of ReAct's own tool `finish`."""
_ENOUGH: Final = "No tool can be used any more: the answer must come from what is known."
_UNSAID: Final = "The program does not say why."


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. With a `prompt` the reply is parsed, and corrected until it parses."""

    messages: tuple[Message, ...]
    prompt: PredictorPrompt | None = None
    schema: dict[str, Any] | None = None
    role: StepRole = "executor"
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One call of a tool."""

    tool: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """The reply to a request, with the parsed values or the parse error."""

    reply: Reply
    values: BaseModel | None = None
    error: str = ""

    @property
    def overflow(self) -> bool:
        """Returns whether the prompt exceeded the model's context window."""
        return self.reply.finish == "overflow"


@dataclass(slots=True)
class ProgramRequests:
    """The requests of one program under one task."""

    task: Task
    heard: list[Message] = field(default_factory=list[Message])
    """Steering messages since the start. Every later request contains them."""
    thought: str = ""
    """Reason for the next tool call."""
    limit: str = ""
    """The limit that ended the use of tools."""
    repairs: tuple[str, ...] = ()
    guessed: bool = True
    """True if parsing changed the meaning of the next tool call (D7), or if DSPy parsed the reply,
    because then it is unknown."""

    def run(self, program: Generator[Any, Any, T]) -> Strategy[T]:
        """Answers the requests of `program` until it returns."""
        try:
            request = next(program)
            while True:
                answer = yield from self.answer(request)
                request = program.send(answer)
        except StopIteration as stop:
            return cast("T", stop.value)
        finally:
            # Also if the run is interrupted: the program's thread must not wait forever.
            program.close()

    def answer(self, request: "ModelRequest | ToolRequest") -> Strategy[Any]:
        """Answers one request."""
        match request:
            case ModelRequest():
                return (yield from self.ask(request))
            case ToolRequest():
                return (yield from self.use(request))
            case _:
                assert_never(request)

    def ask(self, question: ModelRequest) -> Strategy[ModelResponse]:
        """Calls a model. A limit that forbids the call ends the program."""
        outlook: Outlook = yield Begin()
        if outlook.stop:
            raise Halt(outlook.stop)
        # DSPy rebuilds each prompt and does not know steering messages, so they are kept here.
        self.heard += outlook.heard
        prompt = question.prompt
        limit = outlook.wrap_up or ("loop_detected" if outlook.toolless else "")
        picker = prompt if prompt is not None and prompt.picks_tool else None
        # Only these two limits leave one model call for the answer.
        if picker and limit and limit not in ("max_steps", "max_tool_calls"):
            return self._enough(picker, limit)
        hint = [Message("user", outlook.hint)] if outlook.hint else []
        conversation = self._conversation(question.messages, hint)
        if prompt is None:
            settings = ModelSettings(temperature=question.temperature)
            effect = Ask(conversation, question.role, (), question.schema, settings=settings)
            reply: Reply = yield effect
            # DSPy parses this reply, so the next tool call counts as guessed.
            self.thought, self.repairs, self.guessed = reply.text[:500], (), True
            return ModelResponse(reply)
        got = yield from _warm(
            ask_for(
                prompt.read,
                conversation,
                attempts=self.task.attempts,
                role=question.role,
                schema=prompt.schema,
            ),
            question.temperature,
        )
        # `finish` is no tool call, so the limit does not forbid it.
        if picker and limit and isinstance(got, Read) and getattr(got.value, TOOL, "") != FINISH:
            return self._enough(picker, limit)
        return self._said(got)

    def _enough(self, prompt: PredictorPrompt, limit: str) -> ModelResponse:
        """Returns a call of `finish`, so that the program answers from its observations."""
        self.thought, self.repairs, self.guessed = _ENOUGH, (), False
        self.limit = limit
        return _finished(prompt)

    def _said(self, got: "Read[BaseModel] | Unread") -> ModelResponse:
        if isinstance(got, Unread):
            finish = "overflow" if got.kind == "overflow" else "stop"
            return ModelResponse(Reply(got.raw, finish=finish), error=got.error)
        self.thought = str(getattr(got.value, THOUGHT, "") or "")
        self.repairs, self.guessed = got.how, bool(got.guessed)
        return ModelResponse(got.reply, got.value)

    def use(self, use: ToolRequest) -> Strategy[JSON]:
        """Calls a tool under the run's policy. Returns the observation, also of a failure."""
        repairs = self.repairs or (("unread",) if self.guessed else ())
        action = Action(use.tool, jsonable(use.parameters), "", "", repairs, self.guessed)
        thought = Thought(self.thought or _UNSAID, synthesized=not self.thought)
        observations: tuple[Observation, ...] = yield Act(thought, (action,))
        observation = observations[0]
        if observation.status in ("success", "partial"):
            return observation.result
        text = (
            observation.result
            if isinstance(observation.result, str)
            else observation.extraction or repr(observation.result)
        )
        return f"[{observation.status}] {text}"

    def _conversation(self, messages: tuple[Message, ...], hint: list[Message]) -> Conversation:
        """Returns the prompt with the agent's instructions, the history and steering messages."""
        leading = messages[0].role == "system"
        system, rest = messages[0].text if leading else "", messages[leading:]
        instructions = "\n\n".join(
            [part for part in (self.task.instructions.strip(), system) if part]
        )
        opening = [Message("system", instructions)] if instructions else []
        # The history goes between the demos and the question. Only steering messages follow it.
        whole = [*opening, *rest[:-1], *self.task.history, *rest[-1:], *self.heard, *hint]
        return Conversation(whole)


def _finished(prompt: PredictorPrompt) -> ModelResponse:
    values: dict[str, Any] = {THOUGHT: _ENOUGH, TOOL: FINISH, ARGUMENTS: {}}
    return ModelResponse(Reply("", finish="stop"), prompt.construct(values))


def _warm(strategy: Strategy[T], temperature: float | None) -> Strategy[T]:
    """Runs `strategy` with this temperature in its requests."""
    try:
        effect = next(strategy)
        while True:
            if isinstance(effect, Ask) and temperature is not None:
                effect = replace(effect, settings=replace(effect.settings, temperature=temperature))
            effect = strategy.send((yield effect))
    except StopIteration as stop:
        return cast("T", stop.value)
    finally:
        strategy.close()


def values_of(response: ModelResponse, prompt: PredictorPrompt) -> dict[str, JSON]:
    """Returns the outputs as JSON values."""
    assert response.values is not None
    return {name: jsonable(value) for name, value in prompt.values(response.values).items()}

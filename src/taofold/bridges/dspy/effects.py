"""The calls of a program as effects of the run: a model's answer, the use of a tool.

`ProgramRequests` makes the effects, of programs that DSPy runs and of those that run without it, so
limits, steering, corrections, policy and the log are the same for both.

`run_in_thread` brings the calls of DSPy's programs and teleprompters here, which call a model and
wait, while a strategy yields an effect and is sent the result. The program runs in a thread of its
own, and the strategy waits for its next request: one of both is always asleep. If it asks the same
things in the same order it can be replayed; that is why it may not ask from two threads at once.
What its threads print can be hushed.
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
    """Nobody will answer any more. No `except Exception` of the program's must stop it."""


@dataclass(frozen=True, slots=True)
class _Ended(Generic[T]):
    value: T | None = None
    error: BaseException | None = None


class EffectChannel:
    """The program's end: `ask` blocks until the strategy was sent an answer."""

    def __init__(self) -> None:
        self.requests: SimpleQueue[Any] = SimpleQueue()
        self.threads: WeakSet[threading.Thread] = WeakSet()
        """Those in which the program works: its own, and those in which it asked something."""
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._busy = threading.Lock()
        self._closed = False

    def ask(self, request: Any) -> Any:
        """What the strategy answers.

        Raises:
            RuntimeError: another thread is asking: its order could not be replayed.
            Closed: the run was stopped.
        """
        # Refused instead of queued: two threads would
        # take turns in an order that no replay repeats.
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "the program asks from several threads at once, which cannot be replayed: "
                "run it with num_threads=1"
            )
        try:
            # Under the lock, so `close` either is seen here
            # or finds this question waiting for its answer.
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
        """Wake the program up."""
        self._answers.put(answer)

    def close(self) -> None:
        """End the program at its next question, or where it waits."""
        self._closed = True
        self._answers.put(Closed())


class _Stream(io.TextIOBase):
    """A standard stream that takes what hushed threads print to our debug log.

    Everybody else's output goes where it went before: a server's other threads go on printing
    while something is compiled. What is not writing is the real stream's.
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
        """No progress bar for a hushed thread."""
        return not self._hushed.here() and bool(self.real.isatty())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _Hushed:
    """Who prints progress bars to the terminal? The threads of teleprompters.

    Standard output belongs to the caller's result. Several programs may be compiled at once; the
    last one to end puts the streams back, unless somebody replaced them meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: list[EffectChannel] = []
        self._streams: tuple[_Stream, _Stream] | None = None

    def here(self) -> bool:
        """Is this a thread of a hushed program, or one that was started in its context?"""
        thread = threading.current_thread()
        # The context reaches threads that copy it; the list those that asked something.
        return _context.get() or any(thread in channel.threads for channel in self._channels)

    @contextmanager
    def __call__(self, channel: EffectChannel) -> Generator[None]:
        _context.set(True)  # in the program's own thread, whose context ends with it
        with self._lock:
            self._channels = [*self._channels, channel]
            if self._streams is None:
                # Replaced once for all programs; each write decides by its thread whose it is.
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
    """Run `program` in a thread: yields its requests, is sent the answers, returns its value.

    What the program raises is raised here. Closing the generator ends the program. What its
    threads print is not shown if it is `hushed`.
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
        except BaseException as error:  # noqa: BLE001 - handed on to whoever drives it
            channel.requests.put(_Ended(error=error))
        else:
            channel.requests.put(_Ended(value))

    # A daemon: a program that never asks again must not keep the process from ending.
    thread = threading.Thread(target=work, name=THREAD, daemon=True)
    thread.start()
    try:
        while True:
            # Blocks this loop's thread until the program
            # asks: a strategy is pure, it cannot await.
            request = channel.requests.get()
            if isinstance(request, _Ended):
                if request.error is not None:
                    raise request.error
                return request.value  # type: ignore[return-value]
            channel.answer((yield request))
    finally:
        # Wakes the program with `Closed`, whatever ended this generator.
        channel.close()


DONE: Final = "Completed."
"""What ReAct's own tool `finish` returns."""
_ENOUGH: Final = "No tool can be used any more: the answer must come from what is known."
_UNSAID: Final = "The program does not say why."


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. With a `prompt` the reply is read, and corrected until it can be."""

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
    """What came back: the reply, its values if it was read, or why it could not be."""

    reply: Reply
    values: BaseModel | None = None
    error: str = ""

    @property
    def overflow(self) -> bool:
        """Did the prompt not fit the model's window?"""
        return self.reply.finish == "overflow"


@dataclass(slots=True)
class ProgramRequests:
    """The turns of one program under one task."""

    task: Task
    heard: list[Message] = field(default_factory=list[Message])
    """What people said since it started: every later question holds it."""
    thought: str = ""
    """Why the next tool is used."""
    limit: str = ""
    """The limit because of which no more tools were used."""
    repairs: tuple[str, ...] = ()
    guessed: bool = True
    """Was the choice of the next tool read with changes to what it says (D7)? A program whose
    replies somebody else reads cannot tell."""

    def run(self, program: Generator[Any, Any, T]) -> Strategy[T]:
        """Answer whatever `program` yields, until it returns."""
        try:
            request = next(program)
            while True:
                answer = yield from self.answer(request)
                request = program.send(answer)
        except StopIteration as stop:
            return cast("T", stop.value)
        finally:
            # Also when the run is cut off: the program's thread must not wait for ever.
            program.close()

    def answer(self, request: "ModelRequest | ToolRequest") -> Strategy[Any]:
        """Answer one request."""
        match request:
            case ModelRequest():
                return (yield from self.ask(request))
            case ToolRequest():
                return (yield from self.use(request))
            case _:
                assert_never(request)

    def ask(self, question: ModelRequest) -> Strategy[ModelResponse]:
        """Ask a model; a limit that forbids it ends the program."""
        outlook: Outlook = yield Begin()
        if outlook.stop:
            raise Halt(outlook.stop)
        # Kept: DSPy builds each prompt anew and knows nothing of what people said meanwhile.
        self.heard += outlook.heard
        prompt = question.prompt
        limit = outlook.wrap_up or ("loop_detected" if outlook.toolless else "")
        picker = prompt if prompt is not None and prompt.picks_tool else None
        # Only these two leave a model call for the answer when the program is asked once more.
        if picker and limit and limit not in ("max_steps", "max_tool_calls"):
            return self._enough(picker, limit)
        hint = [Message("user", outlook.hint)] if outlook.hint else []
        conversation = self._conversation(question.messages, hint)
        if prompt is None:
            settings = ModelSettings(temperature=question.temperature)
            effect = Ask(conversation, question.role, (), question.schema, settings=settings)
            reply: Reply = yield effect
            # Somebody else reads this reply, so the next tool call counts as guessed.
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
        # To finish is no use of a tool: then the limit forbids nothing.
        if picker and limit and isinstance(got, Read) and getattr(got.value, TOOL, "") != FINISH:
            return self._enough(picker, limit)
        return self._said(got)

    def _enough(self, prompt: PredictorPrompt, limit: str) -> ModelResponse:
        """Tell the program that it has finished: it still answers from what it knows."""
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
        """Use a tool, under the run's policy. A failure is told, not raised."""
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
        """The prompt, with the agent's instructions before it and what was said meanwhile."""
        leading = messages[0].role == "system"
        system, rest = messages[0].text if leading else "", messages[leading:]
        instructions = "\n\n".join(
            [part for part in (self.task.instructions.strip(), system) if part]
        )
        opening = [Message("system", instructions)] if instructions else []
        # The history stands between the demos and the
        # question, which stays last but for what was said.
        whole = [*opening, *rest[:-1], *self.task.history, *rest[-1:], *self.heard, *hint]
        return Conversation(whole)


def _finished(prompt: PredictorPrompt) -> ModelResponse:
    values: dict[str, Any] = {THOUGHT: _ENOUGH, TOOL: FINISH, ARGUMENTS: {}}
    return ModelResponse(Reply("", finish="stop"), prompt.construct(values))


def _warm(strategy: Strategy[T], temperature: float | None) -> Strategy[T]:
    """`strategy`, its questions asked at this temperature."""
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
    """The outputs as JSON."""
    assert response.values is not None
    return {name: jsonable(value) for name, value in prompt.values(response.values).items()}

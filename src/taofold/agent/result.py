"""What a caller gets of a run: its `RunResult`, and before that what happens on the way.

A `Stream` yields events, deltas of text and progress of tools as they come; or the answer's text
(`AnswerText`: not its reasoning, its envelope or its calls), or the output so far. What clients
of a server get is in `taofold.server.streams`, what a log holds in `core.events`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, cast

from typing_extensions import TypeVar

from taofold.agent.conversation import SHAPES, Shape, conversation
from taofold.core import events as e
from taofold.core.errors import ConfigError, RunFailed
from taofold.core.events import Record
from taofold.core.happenings import Delta, Happening, Progress
from taofold.core.metrics import Metrics, measure
from taofold.core.state import Chain, RunState
from taofold.core.text import clip, times, visible_line
from taofold.core.trace import AuditEntry, RefusedDecision, audit
from taofold.core.values import Usage
from taofold.log.log import Log
from taofold.parsing.outcome import Parsed
from taofold.runtime.setup import Approval

ANSWERING: Final = frozenset({"react", "direct", "cot"})
"""Strategies of which each reply may be the answer; of others it may be a plan or a critique."""


class AnswerText:
    """Reads what happens in one run; `feed` and `record` return what they add to the answer.

    Words that the model says before it calls a tool are part of the text, a paragraph of their
    own. If a reply was asked for again, or only its end shows that its beginning was reasoning,
    what was given cannot be taken back: the result's output is what counts.

    Args:
        tools: the names of the tools on offer.
        live: may each reply be the answer? If not, the answer is given when the run ends.
    """

    def __init__(self, tools: Collection[str], *, live: bool) -> None:
        self.run = ""
        """The run that is read; its children are not."""
        self._live = live
        # Loaded here: a program that never streams does without the readers of replies.
        from taofold.parsing import ReplyStream

        self._tools: Collection[str] = tools
        self._reader: type[ReplyStream] = ReplyStream
        self._reply = self._reader(tools)
        self._pieces: list[str] = []
        self._break = False

    def feed(self, text: str) -> str:
        """Take a piece of a reply; returns what it adds to the answer, "" if nothing."""
        return self._paragraph(self._reply.feed(text)) if self._live else ""

    def record(self, record: Record) -> str:
        """Take an event of the run; returns what it adds to the answer, "" if nothing."""
        match record.event:
            case e.Replied() as replied if self._live:
                # A provider that does not stream sends no deltas: the whole reply counts as one.
                if not self._reply.arrived:
                    self._reply.feed(replied.text)
                tail = self._paragraph(self._reply.close(replied.finish))
                self._break = self._break or bool(self._reply.answer)
                self._reply = self._reader(self._tools)
                return tail
            # The output may differ from what was streamed (another strategy, a
            # repair): then it follows.
            case e.RunFinished(output=str(output)) if not "".join(self._pieces).endswith(output):
                self._break = bool(self._pieces)
                return self._paragraph(output)
            case _:
                return ""

    def partial(self, type_: Any) -> Any:
        """The answer so far as a value of `type_`; None while nothing can be read."""
        if not self._live:
            return None
        read = self._reply.partial(type_)
        return read.value if isinstance(read, Parsed) else None

    def _paragraph(self, text: str) -> str:
        if not text:
            return ""
        if self._break:
            text, self._break = f"\n\n{text}", False
        self._pieces.append(text)
        return text


Out = TypeVar("Out", default=str)


@dataclass(frozen=True, repr=False)
class RunResult(Generic[Out]):
    """How a run ended, or what it waits for.

    `output` is of the agent's output type if `success`; `pending` are the approvals and questions
    that wait for an answer.
    """

    run_id: str
    output_or_none: Out | None
    """The output; None where there is none. Without `success` it is the wrap-up answer."""
    success: bool
    status: str
    stop_reason: str
    state: RunState
    records: tuple[Record, ...]
    pending: tuple[Approval, ...] = ()
    error: str = ""
    log: Log | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        text = clip(repr(self.output_or_none), 80)
        why = f", error={self.error!r}" if self.error else ""
        waits = [
            clip(visible_line(request.question or request.preview), 80)
            + (
                ""
                if request.question or not request.reason
                else f" ({visible_line(request.reason)})"
            )
            for request in self.pending
        ]
        return (
            f"RunResult({self.run_id}: {self.status}, {self.stop_reason}, success={self.success}, "
            f"{times(len(self.state.steps), 'step')}, output={text}{why}"
            + (f", waits for a person: {'; '.join(waits)}" if waits else "")
            + ")"
        )

    @property
    def output(self) -> Out:
        """The output: of the agent's output type if `success`, else the wrap-up answer.

            city = agent.run_sync("Where is the Louvre?").output

        Raises:
            RunFailed: The run has none: it failed, was stopped, or waits for an answer.
        """
        if self.output_or_none is None and not self.success:
            why = self.error or self.stop_reason
            hint = "look at `pending`" if self.pending else "look at `error` and `partial`"
            raise RunFailed(
                f"run {self.run_id} has no output: {self.status}"
                + (f" ({why})" if why and why != self.status else "")
                + f"; {hint}, or use `output_or_none`",
                self,
            )
        return cast("Out", self.output_or_none)

    @property
    def steps(self) -> Chain:
        """The complete Thought–Action–Observation triplets."""
        return self.state.steps

    @property
    def usage(self) -> Usage:
        """Tokens and dollars of the run and its children."""
        return self.state.usage

    @property
    def usage_by_model(self) -> dict[str, Usage]:
        """The same by model."""
        return dict(self.state.usage_by_model)

    def messages(self, shape: Shape = "openai") -> list[dict[str, Any]]:
        """Returns the whole conversation in the shape of an SDK, to hand it on.

            client.chat.completions.create(model="gpt-5", messages=result.messages("openai"))

        The earlier turns, the goal, each call with its result and the answer; not the agent's
        instructions. `history=` of another run reads it back. Images and documents that were
        given as bytes become a line of text.

        Args:
            shape: "openai" (Chat Completions) or "anthropic" (Messages).

        Raises:
            ConfigError: `shape` is neither.
        """
        if shape not in SHAPES:
            raise ConfigError(f"is one of {', '.join(SHAPES)}, not {shape!r}", path="shape")
        return SHAPES[shape](conversation(self.records))

    @cached_property
    def metrics(self) -> Metrics:
        """The six TAO metrics and more, computed from the log."""
        return measure(self.records)

    @cached_property
    def audit(self) -> tuple[tuple[AuditEntry, ...], tuple[RefusedDecision, ...]]:
        """Every call with who asked, who decided and what came of it; and refused attempts."""
        return audit(self.records)

    @property
    def partial(self) -> str:
        """The best there is without an answer: the last thought and the last key line."""
        if not self.state.steps:
            return ""
        last = self.state.steps[-1]
        lines = [last.thought.content, *[o.extraction for o in last.observations]]
        return "\n".join(line for line in lines if line)


class Stream(Generic[Out]):
    """A run as it happens: its events, the text of its answer, or its output so far.

        stream = agent.stream("Tell me of Oslo.")
        async for text in stream.text():
            print(text, end="", flush=True)
        print(stream.result.usage)

    `result` is there once the iteration ended. Leaving early cancels the run, which `result` then
    names, and `agent.result(run_id)` reads. A stream is iterated once, in one of the three ways.
    """

    def __init__(
        self,
        drive: Callable[[Callable[[Happening], None]], Awaitable[RunResult[Out]]],
        reader: Callable[[], AnswerText],
        type_: Any = str,
    ) -> None:
        self._drive, self._reader, self._type = drive, reader, type_
        self._result: RunResult[Out] | None = None
        self._begun = False
        self._run = ""
        """The id of the run, once its first event was read."""

    @property
    def result(self) -> RunResult[Out]:
        """How the run ended."""
        if self._result is None:
            left = (
                f"; leaving it early cancels the run: await agent.result({self._run!r}) reads how "
                "far it came, if the agent has a log"
            )
            raise RuntimeError(
                "the stream has not ended yet: iterate it to its end first"
                + (left if self._run else "")
            )
        return self._result

    async def text(self) -> AsyncIterator[str]:
        """The text of the answer, piece by piece: what `print(…, end="")` shows to a person.

        What the model says before it calls a tool comes too, as a paragraph of its own;
        thoughts, calls and the envelope around an answer do not. A strategy of which a reply
        need not be the answer (`plan`, `self_correct` …) gives it in one piece at the end.
        """
        async for happening in self:
            piece = self._read(happening)
            if piece:
                yield piece

    async def partials(self, every: float = 0.1) -> AsyncIterator[Any]:
        """The output so far: plain JSON data, of the output's type as soon as that fits.

        For display only: a value may still change. The last one is the output itself, if the
        run has one. At most one in `every` seconds, but never the same twice.
        """
        latest: Any = None
        next_look, clock = 0.0, asyncio.get_running_loop().time
        async for happening in self:
            self._read(happening)
            if isinstance(happening, Delta) and clock() >= next_look:
                next_look = clock() + every
                value = self._answer.partial(self._type)
                if value is not None and value != latest:
                    latest = value
                    yield value
        output = self.result.output_or_none
        if output is not None and output != latest:
            yield output

    @cached_property
    def _answer(self) -> AnswerText:
        return self._reader()  # when the run has begun: then its tools are known

    def _read(self, happening: Happening) -> str:
        answer = self._answer
        if isinstance(happening, Progress):
            return ""
        answer.run = answer.run or happening.run
        if happening.run != answer.run:  # a child's
            return ""
        if isinstance(happening, Delta):
            return answer.feed(happening.text)
        return answer.record(happening)

    async def __aiter__(self) -> AsyncIterator[Happening]:
        if self._begun:
            raise RuntimeError("a stream is iterated once; call agent.stream again for another run")
        self._begun = True
        # Unbounded: the drive must not wait for a slow reader, who would hold the
        # run's lease and deadline.
        queue: asyncio.Queue[Happening | None] = asyncio.Queue()

        async def drive() -> RunResult[Out]:
            try:
                return await self._drive(queue.put_nowait)
            finally:
                # Also after an error: the reader must wake up to hear of it from the task.
                queue.put_nowait(None)

        task = asyncio.create_task(drive())
        try:
            while (happening := await queue.get()) is not None:
                self._run = self._run or happening.run
                yield happening
            # Raises what ended the run, after the last event was given out.
            self._result = await task
        finally:
            # The reader left early: the run is cancelled and its end written, before this returns.
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def result_of(
    log: Log, state: RunState, records: tuple[Record, ...], pending: tuple[Approval, ...], load: Any
) -> RunResult[Any]:
    """The result of a run whose activation ended in `state`."""
    output = state.output
    if state.success or (state.status in ("finished", "limited") and output is not None):
        # Only what was accepted is loaded as the output's type; a failed
        # run's output may be anything.
        output = load(output if state.accepted is None else state.accepted)
    waiting = state.status == "waiting"
    return RunResult(
        run_id=records[0].run,
        output_or_none=output,
        success=state.success,
        status=state.status,
        # What a person wants to know of a waiting run is what it waits for.
        stop_reason=state.waiting_for if waiting else state.stop_reason,
        state=state,
        records=records,
        pending=pending,
        error=state.error,
        log=log,
    )


def settle_log(log: Log | None, run: "str | RunResult[Any]") -> tuple[Log, str]:
    """Returns the log and the id of the run that is meant.

    Args:
        log: The agent's own log, for a run that is named by its id.
        run: A result, or the id of a run.

    Raises:
        ConfigError: There is no such log.
    """
    if isinstance(run, RunResult):
        if run.log is None:
            raise ConfigError("this result has no log; pass the run's id to an agent with a log")
        return run.log, run.run_id
    if log is None:
        raise ConfigError("the agent has no log: pass log=… or the RunResult instead of an id")
    return log, run

"""Results of runs, and streams of runs that are in progress.

`Stream` yields events, text deltas and progress reports as they happen. It can also yield only the
text of the answer, read by `AnswerText`, or the output so far. Streams of the server are in
`taofold.server.streams`, events of the log in `core.events`.
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
from taofold.core.values import ASIDE, Usage
from taofold.log.log import Log
from taofold.parsing.outcome import Parsed
from taofold.runtime.setup import Approval

ANSWERING: Final = frozenset({"react", "direct", "cot"})
"""Strategies whose replies may each be the answer. In others a reply may be a plan or critique."""


class AnswerText:
    """Extracts the text of the answer from the events and deltas of one run.

    Text before a tool call is part of the answer, as its own paragraph. Text that was returned
    cannot be taken back, for instance if the model is asked again, or if the end of a reply shows
    that its beginning was reasoning. The result's output is authoritative.

    Args:
        tools: Names of the tools on offer.
        live: True if each reply may be the answer. If False, the answer comes when the run ends.
    """

    def __init__(self, tools: Collection[str], *, live: bool) -> None:
        self.run = ""
        """Id of the run that is read. Child runs are ignored."""
        self._live = live
        # Programs that never stream do not load the readers of replies.
        from taofold.parsing import ReplyStream

        self._tools: Collection[str] = tools
        self._reader: type[ReplyStream] = ReplyStream
        self._reply = self._reader(tools)
        self._pieces: list[str] = []
        self._break = False

    def feed(self, text: str) -> str:
        """Takes a piece of a reply. Returns the text that it adds to the answer, or ""."""
        return self._paragraph(self._reply.feed(text)) if self._live else ""

    def record(self, record: Record) -> str:
        """Takes an event of the run. Returns the text that it adds to the answer, or ""."""
        match record.event:
            case e.Replied() as replied if self._live and replied.role not in ASIDE:
                # A provider without streaming sends no deltas, so the whole reply counts as one.
                if not self._reply.arrived:
                    self._reply.feed(replied.text)
                tail = self._paragraph(self._reply.close(replied.finish))
                self._break = self._break or bool(self._reply.answer)
                self._reply = self._reader(self._tools)
                return tail
            # The output may differ from the streamed text (another strategy, a repair). Then it
            # follows.
            case e.RunFinished(output=str(output)) if not "".join(self._pieces).endswith(output):
                self._break = bool(self._pieces)
                return self._paragraph(output)
            case _:
                return ""

    def partial(self, type_: Any) -> Any:
        """Returns the answer so far as a value of `type_`, or None if it cannot be read yet."""
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
    """The outcome of a run, or what it waits for.

    Example:
        ```python
        result = await agent.run("How many words does notes.txt have?")
        if result.success:
            print(result.output)
        else:
            print(result.status, result.stop_reason, result.error)
        ```

    Args:
        run_id: Id of the run.
        output_or_none: The output, or None. Without `success` it is the wrap-up answer.
        success: True if the answer was accepted. `output` then has the agent's output type.
        status: "finished", "limited", "failed", "cancelled", "waiting" or "running".
        stop_reason: Reason for the end, as listed in the glossary. For a waiting run, what it waits
            for.
        state: The fold of the run's records.
        records: The records of the run's log.
        pending: Approvals and questions that wait for an answer.
        error: The error that ended the run, or an empty string.
        log: The log that holds the run.
    """

    run_id: str
    output_or_none: Out | None
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
        """The output. It has the agent's output type if `success`, else it is the wrap-up answer.

        Example:
            ```python
            words = agent.run_sync("How many words does notes.txt have?").output
            ```

        Raises:
            RunFailed: The run has no output: it failed, was stopped, or waits for an answer.
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
        """The complete steps: each a thought, its actions and their observations."""
        return self.state.steps

    @property
    def usage(self) -> Usage:
        """Tokens and dollars of the run and its children."""
        return self.state.usage

    @property
    def agent(self) -> str:
        """The name of the active agent: the last to which the run was handed over, or the first."""
        return self.state.agent

    @property
    def usage_by_model(self) -> dict[str, Usage]:
        """Tokens and dollars of the run and its children, by the model's name."""
        return dict(self.state.usage_by_model)

    def messages(self, shape: Shape = "openai") -> list[dict[str, Any]]:
        """Returns the whole conversation as messages of an SDK.

        The conversation has the earlier turns, the goal, each call with its result, and the answer.
        The agent's instructions are not included. `history=` of another run reads the messages.
        Images and documents that were passed as bytes become a line of text.

        Example:
            ```python
            messages = result.messages("openai")
            # client.chat.completions.create(model="gpt-5", messages=messages)
            ```

        Args:
            shape: `"openai"` (Chat Completions) or `"anthropic"` (Messages).

        Returns:
            The messages as dictionaries.

        Raises:
            ConfigError: `shape` is neither.
        """
        if shape not in SHAPES:
            raise ConfigError(f"is one of {', '.join(SHAPES)}, not {shape!r}", path="shape")
        return SHAPES[shape](conversation(self.records))

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics of the run, computed from its log: six TAO metrics and others."""
        return measure(self.records)

    @cached_property
    def audit(self) -> tuple[tuple[AuditEntry, ...], tuple[RefusedDecision, ...]]:
        """Every call with its principal, approver and outcome, and every refused decision."""
        return audit(self.records)

    @property
    def partial(self) -> str:
        """The last thought and its key lines: a partial result for runs without an answer."""
        if not self.state.steps:
            return ""
        last = self.state.steps[-1]
        lines = [last.thought.content, *[o.extraction for o in last.observations]]
        return "\n".join(line for line in lines if line)


class Stream(Generic[Out]):
    """A run in progress: its events, the text of its answer, or its output so far.

    A stream is iterated once, in one of three ways: directly (events, deltas and progress), by
    `text` or by `partials`. `result` is available after the iteration. Leaving the iteration early
    cancels the run. `agent.result(run_id)` then reads how far it came.

    Example:
        ```python
        stream = agent.stream("Describe Oslo.")
        async for text in stream.text():
            print(text, end="", flush=True)
        print(stream.result.usage)
        ```

    Args:
        drive: Runs the agent with a listener.
        reader: Makes the reader of the answer's text, once the run has begun.
        type_: Type of the output.
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
        """Id of the run, known from its first event."""

    @property
    def result(self) -> RunResult[Out]:
        """The result of the run.

        Raises:
            RuntimeError: The stream has not been iterated to its end.
        """
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
        """Yields the text of the answer, piece by piece.

        Text before a tool call is included, as its own paragraph. Thoughts, calls and the envelope
        around an answer are not. If a reply need not be the answer (strategies `plan`,
        `self_correct` …), the text comes in one piece at the end.

        Example:
            ```python
            async for text in agent.stream("Describe Oslo.").text():
                print(text, end="")
            ```
        """
        async for happening in self:
            piece = self._read(happening)
            if piece:
                yield piece

    async def partials(self, every: float = 0.1) -> AsyncIterator[Any]:
        """Yields the output so far: JSON values, or values of the output's type once they fit.

        For display only, because a value may still change. The last value is the output, if the run
        has one. Equal values are not repeated.

        Example:
            ```python
            async for output in agent.stream("Describe Oslo.").partials(every=0.5):
                print(output)
            ```

        Args:
            every: Minimum seconds between two values.
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
        return self._reader()  # the tools are known once the run has begun

    def _read(self, happening: Happening) -> str:
        answer = self._answer
        if isinstance(happening, Progress):
            return ""
        answer.run = answer.run or happening.run
        if happening.run != answer.run:  # an event of a child run
            return ""
        if isinstance(happening, Delta):
            return answer.feed(happening.text)
        return answer.record(happening)

    async def __aiter__(self) -> AsyncIterator[Happening]:
        if self._begun:
            raise RuntimeError("a stream is iterated once; call agent.stream again for another run")
        self._begun = True
        # Unbounded: a slow reader must not block the driver, which holds the run's lease and
        # deadline.
        queue: asyncio.Queue[Happening | None] = asyncio.Queue()

        async def drive() -> RunResult[Out]:
            try:
                return await self._drive(queue.put_nowait)
            finally:
                # Wakes the reader after an error too. The task then raises it.
                queue.put_nowait(None)

        task = asyncio.create_task(drive())
        try:
            while (happening := await queue.get()) is not None:
                self._run = self._run or happening.run
                yield happening
            # Raises the error that ended the run, after the last event was yielded.
            self._result = await task
        finally:
            # The reader left early: cancels the run and waits until its end is written.
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def result_of(
    log: Log, state: RunState, records: tuple[Record, ...], pending: tuple[Approval, ...], load: Any
) -> RunResult[Any]:
    """Returns the result of a run whose activation ended in `state`."""
    output = state.output
    if state.success or (state.status in ("finished", "limited") and output is not None):
        # Only accepted output is converted to its type. A failed run's output may have any type.
        output = load(output if state.accepted is None else state.accepted)
    waiting = state.status == "waiting"
    return RunResult(
        run_id=records[0].run,
        output_or_none=output,
        success=state.success,
        status=state.status,
        # Callers of a waiting run need to know what it waits for.
        stop_reason=state.waiting_for if waiting else state.stop_reason,
        state=state,
        records=records,
        pending=pending,
        error=state.error,
        log=log,
    )


def settle_log(log: Log | None, run: "str | RunResult[Any]") -> tuple[Log, str]:
    """Resolves `run` to its log and run id.

    Args:
        log: The agent's own log, for a run given by its id.
        run: A result, or the id of a run.

    Raises:
        ConfigError: The run has no log.
    """
    if isinstance(run, RunResult):
        if run.log is None:
            raise ConfigError("this result has no log; pass the run's id to an agent with a log")
        return run.log, run.run_id
    if log is None:
        raise ConfigError("the agent has no log: pass log=… or the RunResult instead of an id")
    return log, run

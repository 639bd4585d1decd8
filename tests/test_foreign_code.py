"""Foreign code can end only its own call, with any exception and at any call site.

Mutants: `except Exception` in place of the guard; the source of a cancellation is not checked.
"""

import asyncio
import signal
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator, model_validator

from taofold import Agent, Hook, Limits, MemoryLog, tool
from taofold.core import events as e
from taofold.core.values import Reply
from taofold.evals.scorers import score
from taofold.files.python_references import load
from taofold.foreign_code import ForeignExit, contained
from taofold.testing.replay import assert_replays
from tests.runtime.kit import Memo, act, batch, finish

pytestmark = pytest.mark.anyio


class PanicException(BaseException):
    """Raised as by extensions in Rust."""


def cancelled_future() -> Any:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


async def own_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


async def gathered() -> None:
    waiting = asyncio.gather(asyncio.sleep(60), asyncio.sleep(60))
    waiting.cancel()
    await waiting


async def itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(panics())


async def panics() -> None:
    raise PanicException("unwrap on None")


def raising(error: BaseException) -> Callable[[], Any]:
    async def raises() -> None:
        raise error

    return raises


async def awaits_cancelled() -> None:
    await cancelled_future()


EXITS: dict[str, Callable[[], Any]] = {
    "SystemExit": raising(SystemExit(2)),
    "KeyboardInterrupt": raising(KeyboardInterrupt()),
    "GeneratorExit": raising(GeneratorExit()),
    "CancelledError": raising(asyncio.CancelledError()),
    "PanicException": panics,
    "a group": raising(BaseExceptionGroup("two", [SystemExit(1), ValueError("x")])),
    "a task group": in_a_group,
    "a cancelled future": awaits_cancelled,
    "a cancelled task": own_task,
    "a cancelled gather": gathered,
}
each_exit = pytest.mark.parametrize("end", EXITS.values(), ids=EXITS)


def agent(*script: Any, **options: Any) -> Agent[None, str]:
    options.setdefault("log", MemoryLog())
    return Agent(Memo(script), **options)


@tool(effect="read")
async def beside() -> str:
    """A call beside the bad one."""
    await asyncio.sleep(0)
    return "fine"


def bad_tool(end: Callable[[], Any], **options: Any) -> Any:
    @tool(effect="read", **options)
    async def bad() -> str:
        """Ends in its own way."""
        return await end()

    return bad


@pytest.mark.parametrize(
    "end", [*EXITS.values(), itself], ids=[*EXITS, "the current task is cancelled"]
)
@pytest.mark.parametrize("beside_another", [False, True])
async def test_what_a_tool_ends_with_is_the_observation_of_its_call(
    end: Callable[[], Any], beside_another: bool
) -> None:
    first = batch(("bad", {}), ("beside", {})) if beside_another else act("bad")
    one = agent(first, finish(), tools=[bad_tool(end), beside])
    result = await one.run("go")
    assert (result.status, result.output) == ("finished", "done")
    observations = result.steps[0].observations
    assert observations[0].status == "failure"
    assert [each.result for each in observations[1:]] == ["fine"] * beside_another
    await assert_replays(one, result)


@pytest.mark.parametrize("thread", [False, True])
async def test_a_synchronous_tool_that_exits_is_an_observation(thread: bool) -> None:
    @tool(effect="read", thread=thread)
    def bad() -> str:
        """Exits."""
        sys.exit(2)

    result = await agent(act("bad"), finish(), tools=[bad]).run("go")
    assert result.status == "finished"
    assert "SystemExit(2)" in str(result.steps[0].observations[0].result)


@each_exit
@pytest.mark.parametrize("point", ["before_model", "after_model", "before_tool", "after_tool"])
async def test_a_hook_that_ends_so_rejects(end: Callable[[], Any], point: str) -> None:
    async def guard(self: Hook, *given: Any) -> Any:
        return await end()

    one = agent(
        act("beside"), finish(), tools=[beside], hooks=[type("G", (Hook,), {point: guard})()]
    )
    result = await one.run("go")
    if point.endswith("model"):
        assert (result.status, result.stop_reason) == ("failed", "denied")
    else:
        assert result.status == "finished"
        assert "the hook G failed" in str(result.steps[0].observations[0].result)


@each_exit
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_approver_that_raises_leaves_the_run_waiting(
    end: Callable[[], Any], is_async: bool
) -> None:
    """Mutant: its error fails the run."""

    async def approve(request: Any) -> Any:
        return await end()

    def plain(request: Any) -> Any:
        raise ConnectionError("the chat is down")

    pay = replace(beside, name="pay", effect="once", tier=3)
    one = agent(act("pay"), finish(), tools=[pay], approve=approve if is_async else plain)
    result = await one.run("go", run_id="r")
    assert (result.status, result.stop_reason) == ("waiting", "awaiting_approval")
    refused = [r.event for r in result.records if isinstance(r.event, e.DecisionRefused)]
    assert "the approve function failed" in refused[0].why
    ended = await one.replace(approve="all").resume("r")
    assert ended.status == "finished"


@each_exit
async def test_a_model_that_ends_so_fails_its_run_and_no_other_goal(
    end: Callable[[], Any],
) -> None:
    class Bad(Memo):
        async def complete(self, request: Any, on_text: Any = None) -> Reply:
            if "bad" in str(request.conversation[1].content):
                return await end()
            return await super().complete(request, on_text)

    one: Agent[None, str] = Agent(Bad(choose=lambda _: finish()), log=MemoryLog())
    found = await one.map(["good 1", "bad", "good 2"], name="b")
    assert found.statuses == {"finished": 2, "failed": 1}
    stored = await one.result(found.run_ids[1])
    assert stored.status == "failed"
    assert stored.error


async def test_map_survives_a_tool_that_cancels_something() -> None:
    one: Agent[None, str] = Agent(
        Memo(choose=lambda r: finish() if len(r.conversation) > 2 else act("bad")),
        tools=[bad_tool(awaits_cancelled)],
        log=MemoryLog(),
    )
    found = await one.map([f"goal {n}" for n in range(6)], name="b")
    assert found.statuses == {"finished": 6}


async def test_an_output_type_whose_validator_exits_fails_its_run() -> None:
    class Strange(BaseModel):
        net: int

        @field_validator("net")
        @classmethod
        def check(cls, value: int) -> int:
            sys.exit(3)

    one = agent(finish({"net": 3}), output=Strange)
    with pytest.raises(ForeignExit, match="SystemExit"):
        await one.run("go", run_id="r")
    assert (await one.result("r")).status == "failed"


@pytest.mark.parametrize("option", ["loop_key", "preview", "extract"])
@pytest.mark.parametrize("error", [KeyError("missing"), SystemExit(1), GeneratorExit()])
async def test_a_small_function_of_a_tool_that_raises_is_tolerated(
    option: str, error: BaseException
) -> None:
    def bad(value: Any) -> str:
        raise error

    made = replace(beside, name="pay", effect="once", tier=3, **{option: bad})
    one = agent(act("pay"), finish(), tools=[made], approve="all")
    result = await one.run("go")
    assert result.status == "finished"
    assert result.steps[0].observations[0].result == "fine"


@each_exit
async def test_a_scorer_that_ends_so_scores_nothing(end: Callable[[], Any]) -> None:
    async def scorer(case: Any, result: Any) -> float:
        return await end()

    verdict = await score(scorer, None, None)  # type: ignore[arg-type]
    assert verdict.value == 0.0
    assert "the scorer failed" in verdict.reason


async def test_a_cancellation_of_the_run_is_no_failure_of_its_tool() -> None:
    inside = asyncio.Event()

    async def waits() -> None:
        inside.set()
        await asyncio.sleep(60)

    one = agent(act("bad"), finish(), tools=[bad_tool(waits)])
    running = asyncio.ensure_future(one.run("go", run_id="r"))
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    stored = await one.result("r")
    assert (stored.status, stored.stop_reason) == ("cancelled", "interrupted")


async def test_a_deadline_around_the_run_cancels_it() -> None:
    async def waits() -> None:
        deadline.reschedule(0)  # it has passed
        await asyncio.sleep(60)

    one = agent(act("bad"), finish(), tools=[bad_tool(waits)])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as deadline:
            await one.run("go", run_id="r")
    assert (await one.result("r")).stop_reason == "interrupted"


async def test_a_cancelled_tool_that_exits_is_cancelled_all_the_same() -> None:
    """Mutant: its SystemExit becomes the failure, and the cancellation is lost."""
    inside = asyncio.Event()

    async def stubborn() -> None:
        inside.set()
        try:
            await asyncio.sleep(60)
        finally:
            sys.exit(1)

    one = agent(act("bad"), finish(), tools=[bad_tool(stubborn)])
    running = asyncio.ensure_future(one.run("go", run_id="r"))
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_the_tool_s_own_deadline_is_a_timeout() -> None:
    async def waits() -> None:
        await asyncio.sleep(60)

    one = agent(act("bad"), finish(), tools=[bad_tool(waits, timeout=0.05)])
    result = await one.run("go")
    assert result.steps[0].observations[0].status == "timeout"


async def test_the_task_s_earlier_cancellation_is_not_that_of_a_call() -> None:
    """A clean-up in a task that is being cancelled may run an agent."""

    async def work() -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return await agent(act("bad"), finish(), tools=[bad_tool(awaits_cancelled)]).run("go")

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    assert (await task).status == "finished"


def test_ctrl_c_is_no_failure_of_a_call() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), contained():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(ForeignExit), contained():
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_ctrl_c_ends_what_asyncio_runs() -> None:
    """The first one cancels the main task. A tool that blocks the loop cannot receive it."""

    async def main() -> None:
        with contained():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_closed_coroutine_is_closed() -> None:
    """Mutant: the end of the event loop becomes a failure, after which nothing can be awaited."""

    async def work() -> None:
        with contained():
            await asyncio.sleep(60)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    coroutine = work()
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    coroutine.close()
    assert not task.done()
    loop.close()


async def test_context_variables_that_a_hook_sets_are_set_for_the_tool() -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")

    class Sets(Hook):
        async def before_tool(self, context: Any, action: Any) -> None:
            tenant.set("acme")

    @tool(effect="read")
    async def whose() -> str:
        """Whose call it is."""
        return tenant.get()

    result = await agent(act("whose"), finish(), tools=[whose], hooks=[Sets()]).run("go")
    assert result.steps[0].observations[0].result == "acme"


def quitting(*arguments: Any, **options: Any) -> Any:
    """Returns foreign code that ends the process, for each call site."""
    sys.exit(3)


async def quitting_later(*arguments: Any, **options: Any) -> Any:
    sys.exit(3)


class Unpriced(Memo):
    """A model whose price cannot be asked for."""

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        sys.exit(3)


def a_strategy(task: Any) -> Any:
    sys.exit(3)
    yield


async def run_with(**options: Any) -> Any:
    options.setdefault("tools", [beside])
    return await agent(act("beside"), finish(), **options).run("go")


class Unreadable(BaseModel):
    net: int

    @model_validator(mode="after")
    def check(self) -> Any:
        sys.exit(3)


def quitting_module(folder: Path) -> Path:
    file = folder / "quitting.py"
    file.write_text("import sys\nsys.exit(3)\n")
    return file


async def loaded(file: Path) -> Any:
    return load(f"{file}:agent", file.parent)


CALLED: dict[str, Callable[[Path], Any]] = {
    "instructions": lambda _: run_with(instructions=quitting),
    "instructions, async": lambda _: run_with(instructions=quitting_later),
    "strategy": lambda _: run_with(strategy=a_strategy),
    "listener": lambda _: agent(finish()).run("go", listener=quitting),
    "progress": lambda _: agent(finish()).map(["go"], progress=quitting),
    "price": lambda _: Agent(Unpriced([finish()]), log=MemoryLog(), limits=Limits(usd=1)).run("go"),
    "output": lambda _: agent(finish({"net": 3}), output=Unreadable).run("go"),
    "module": lambda folder: loaded(quitting_module(folder)),
}


@pytest.mark.parametrize("call", CALLED.values(), ids=CALLED)
async def test_whatever_is_called_may_fail_and_not_end_the_process(
    call: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Each kind of callable that is no tool and no hook. Mutant: one of them has no guard."""
    with pytest.raises(Exception, match="SystemExit"):
        await call(tmp_path)


@pytest.mark.anyio
async def test_a_cancellation_that_the_task_has_not_seen_yet_is_its_own() -> None:
    """As after a write to a log that was finished despite it. Mutant: it counts as foreign."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with contained():
            await asyncio.sleep(0)

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()

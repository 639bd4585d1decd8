"""`taofold runs export --format otlp|opik`: a run and its child runs as a trace, or sent as one."""

from typing import TYPE_CHECKING, Any

from taofold.cli.find import find, with_log

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.core.events import RunStarted
    from taofold.log.log import Log
    from taofold.telemetry.projection import Root
    from taofold.telemetry.prompt import Prompt
    from taofold.telemetry.spans import Span


def trace_of(run: str, content: bool = False) -> "tuple[str, list[Span]]":
    """The run's id, and the spans of it and of the runs below it.

    With `content` the prompts are those that were sent, as far as its agent can be made and makes
    the same ones; else they are put together from the log.
    """
    from taofold.cli.report import started_of
    from taofold.telemetry.projection import spans_of

    async def work(log: "Log") -> "tuple[str, list[Span]]":
        name = await find(log, run)
        roots: dict[str, Root] = {}
        waiting: list[tuple[str, Agent[Any, Any] | None]] = [(name, None)]
        spans: list[Span] = []
        while waiting:
            one, caller = waiting.pop(0)
            records = await log.read(one)
            made = _agent(started_of(one, records), caller) if content else None
            spans += spans_of(records, roots, await _prompts(made, log, one))
            waiting += [(row.run, made) for row in await log.rows(parent=one, limit=0)]
        return name, spans

    return with_log(work)


async def _prompts(
    made: "Agent[Any, Any] | None", log: "Log", run: str
) -> "dict[str, Prompt] | None":
    from taofold.telemetry.replay import prompts_of

    return None if made is None else await prompts_of(made, log, run)


def _agent(started: "RunStarted", caller: "Agent[Any, Any] | None") -> "Agent[Any, Any] | None":
    """The agent of a stored run, if it can be made: a child's is a tool of its caller's."""
    from taofold.cli.agents import make, recorded
    from taofold.core.errors import TaofoldError
    from taofold.runtime.model import ReplayModel

    stand_in = ReplayModel(started.model, started.profile)
    if caller is not None:
        below = [tool.agent for tool in caller.toolset.values() if tool.agent is not None]
        found = next((one for one in below if one.name == started.agent), None)
        return None if found is None else found.but(model=stand_in)
    try:
        return make(recorded(started), stand_in)
    except (TaofoldError, ExceptionGroup, ImportError, OSError):
        return None


def told(spans: "list[Span]", format: str, content: bool) -> str:  # noqa: A002 - the word
    """The trace as JSON text."""
    if format == "otlp":
        from taofold.telemetry import otel

        return otel.dumps(spans, otel.Translation(content=content))
    import msgspec

    from taofold.telemetry import opik

    server = opik.Opik.from_environment()
    payload = opik.Translation(server.project, content=content)(spans)
    return msgspec.json.format(msgspec.json.encode(payload), indent=2).decode() + "\n"


def sent(spans: "list[Span]", format: str, content: bool, endpoint: str) -> str:  # noqa: A002
    """Send the trace. Returns where it went.

    Raises:
        ExportFailed: it was not taken.
    """
    if format == "otlp":
        from taofold.telemetry import otel

        return otel.post(spans, otel.Translation(content=content), endpoint=endpoint)
    from dataclasses import replace

    from taofold.telemetry import opik

    server = replace(opik.Opik.from_environment(), url=endpoint)
    return server.send(opik.Translation(server.project, content=content)(spans))

"""`taofold runs export --format otlp|opik`: a run and its child runs as a trace, or sent as one."""

from typing import TYPE_CHECKING

from taofold.cli.find import find, with_log

if TYPE_CHECKING:
    from taofold.store.log import Log
    from taofold.telemetry.spans import Span


def trace_of(run: str) -> "tuple[str, list[Span]]":
    """The run's id, and the spans of it and of the runs below it."""
    from taofold.telemetry.projection import spans_of

    async def work(log: "Log") -> "tuple[str, list[Span]]":
        name = await find(log, run)
        starts: dict[str, int] = {}
        waiting = [name]
        spans: list[Span] = []
        while waiting:
            one = waiting.pop(0)
            spans += spans_of(await log.read(one), starts)
            waiting += [row.run for row in await log.rows(parent=one, limit=0)]
        return name, spans

    return with_log(work)


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

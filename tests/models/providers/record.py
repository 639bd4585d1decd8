"""Renews `tests/models/cassettes/run_*.json` against the strict fakes.

    python -m tests.models.providers.record

Needed where a format or the prompt changes; review the difference like code.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from taofold.models.transport import Body, Bounds, Http, HttpResponse, OnBytes, aclose_all, whole
from tests.models.forms import FORMS, TURNS, Form, agent
from tests.models.providers.servers import Server


class Recorder:
    """A transport that keeps what passes."""

    def __init__(self) -> None:
        self._network = Http()
        self.exchanges: list[dict[str, Any]] = []

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        heard: list[bytes] = []

        def hear(chunk: bytes) -> None:
            heard.append(chunk)
            assert on_bytes is not None
            on_bytes(chunk)

        answer = await self._network.post(url, headers, body, bounds, hear if on_bytes else None)
        assert answer.status == 200, answer.body
        response: dict[str, Any] = {"json": json.loads(answer.body)} if answer.body else {}
        if heard:
            text = b"".join(heard).decode()
            response = {"sse": [_event(event) for event in text.split("\n\n") if event]}
        self.exchanges.append({"request": {"body": json.loads(whole(body))}, "response": response})
        return answer


def _event(event: str) -> Any:
    """Returns the cassette form: whole lines for named events, else the data only."""
    return event if event.startswith(("event:", ":")) else event.removeprefix("data: ")


async def record(form: Form, server: Server, *, streamed: bool) -> None:
    recorder = Recorder()
    model = form.connect(recorder, server.url)
    server.load(TURNS)
    stream = agent(model).stream(form.goal, run_id="recorded")
    if streamed:
        async for _ in stream:
            pass
        result = stream.result
    else:
        result = await agent(model).run(form.goal, run_id="recorded")
    assert result.success, result.error
    assert not server.refused()
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in recorder.exchanges)
    form.file(streamed=streamed).write_text(f'{{"exchanges": [\n{lines}\n]}}\n')


async def main() -> None:
    servers: dict[str, Server] = {}
    try:
        for form in FORMS:
            if form.fake not in servers:
                servers[form.fake] = Server(form.fake)
                servers[form.fake].start()
            for streamed in (False, True):
                await record(form, servers[form.fake], streamed=streamed)
    finally:
        for server in servers.values():
            server.stop()
        await aclose_all()


if __name__ == "__main__":
    asyncio.run(main())

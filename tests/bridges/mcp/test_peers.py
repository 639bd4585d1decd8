"""Other people's clients of our server: what their users get of a call, an answer, an approval."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from taofold import Agent, Decision, Principal
from taofold.runtime.control import decide, pending
from tests import environments
from tests.runtime.kit import Memo

from . import servers
from .kit import SCRIPTS, act
from .test_http import Served, serving
from .test_serving import DONE, look, nothing_done, pay

__all__ = ["nothing_done"]
pytestmark = [pytest.mark.anyio, pytest.mark.mcp_real]


class Verdict(BaseModel):
    right: bool
    why: str


class Peer:
    """A client in a process of its own."""

    def __init__(self, process: Any) -> None:
        self._process = process

    async def line(self) -> Any:
        async with asyncio.timeout(180):
            line = await self._process.stdout.readline()
        assert line, (await self._process.stderr.read()).decode()
        return json.loads(line)

    async def call(self, *words: Any, **arguments: Any) -> Any:
        line = [*words, arguments] if arguments else words
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        return await self.line()

    async def kill(self) -> None:
        """End it, if it has not ended by itself: a client whose call failed does."""
        # Between its end and our asking asyncio may have reaped it.
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def client(kind: str, there: Served) -> AsyncIterator[Peer]:
    words = [there.url, there.token("ann", "EDITOR")]
    if kind.startswith("typescript"):
        real = servers.needs()
        script = str(SCRIPTS / "peer_client.mjs")
        command = [real.node, script, str(real.npm), kind.partition(" ")[2], *words]
    else:
        python = environments.needs("mcp-clients").python
        command = [str(python), str(SCRIPTS / "peer_client.py"), kind, *words]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environments.scrubbed()
    )
    peer = Peer(process)
    try:
        yield peer
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(180):
            assert await process.wait() == 0, (await process.stderr.read()).decode()  # type: ignore[union-attr]
    finally:
        await peer.kill()


@pytest.mark.parametrize("kind", ["typescript v1", "typescript v2", "pydantic-ai", "openai-agents"])
async def test_another_client_calls_reads_typed_answers_and_resumes_what_waited(
    kind: str, tmp_path: Path
) -> None:
    verdict = {"right": True, "why": "so"}
    judge = Agent(Memo([act("finish", answer=verdict)]), name="judge", output=Verdict)
    async with serving(tmp_path, [judge], [look, pay]) as there, client(kind, there) as peer:
        assert set(await peer.line()) == {"judge", "look", "pay", "resume_run"}
        assert json.loads((await peer.call("look", what="x"))["text"]) == {"seen": "x"}
        judged = await peer.call("judge", goal="is it?")
        assert (judged["error"], judged["structured"]) == (False, verdict)
        waits = await peer.call("pay", amount=7)
        [row] = [row for row in await there.log.rows() if row.agent == "mcp:pay"]
        [question] = await pending(there.log, row.run)
        assert waits["error"] is True
        assert f"taofold approvals approve {question.id}" in waits["text"]
        assert DONE == []
        ann = Principal("ann", ("EDITOR",))
        await decide(there.log, question.id, Decision("approve"), by=ann)
        for _ in (1, 2):  # and once more: the answer, not the payment
            assert (await peer.call("resume_run", run_id=row.run))["text"] == "paid 7"
        assert DONE == [7]

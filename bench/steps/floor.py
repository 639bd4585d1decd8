"""The floor: a minimal hand-written loop around a list of dicts.

No checks, no events, no limits, no retries: the time that remains without a framework's cost.
Variants: `floor` in process, `floor+sqlite` with a row per message and a commit per step (WAL,
synchronous=NORMAL, as taofold's log outside of `once` tools and endings), and HTTP with aiohttp,
the client that taofold uses.
"""

import asyncio
import json
import sqlite3
from pathlib import Path

import aiohttp
from common import SYSTEM, add, call_json, final_text, prompt, steps_of, stream_prompt

IMPORT = {"floor": "import aiohttp"}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two integers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
]


def answer(messages):
    turn, steps = (len(messages) - 2) // 2, steps_of(messages[1]["content"])
    if turn == steps - 1:
        return {"role": "assistant", "content": final_text(steps)}
    function = {"name": "add", "arguments": call_json(turn)}
    call = {"id": f"call_{turn}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class Journal:
    """Keeps every message in SQLite."""

    def __init__(self, path):
        self.db = sqlite3.connect(Path(path) / "floor.db", isolation_level=None)
        self.db.execute("pragma journal_mode=wal")
        self.db.execute("pragma synchronous=normal")
        self.db.execute(
            "create table message(run integer, place integer, body text, "
            "primary key(run, place)) without rowid"
        )
        self.runs = 0

    def start(self):
        self.runs += 1
        return self.runs, 0

    def step(self, at, messages):
        run, written = at
        rows = [(run, i, json.dumps(messages[i])) for i in range(written, len(messages))]
        self.db.execute("begin")
        self.db.executemany("insert into message values(?, ?, ?)", rows)
        self.db.execute("commit")
        return run, len(messages)


class Loop:
    def __init__(self, mode, base_url, journal, gate):
        self.mode, self.journal, self.gate = mode, journal, gate
        self.url = f"{base_url}/chat/completions"
        self.client = None

    def session(self):
        if self.client is None:
            self.client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self.client

    async def ask(self, messages):
        if self.mode == "http":
            body = {"model": "fake", "messages": messages, "tools": _TOOLS}
            async with self.session().post(self.url, json=body) as response:
                return (await response.json())["choices"][0]["message"]
        reply = answer(messages)
        if self.gate is not None and "tool_calls" not in reply:
            await self.gate()
        return reply


def build(n_steps, mode, variant="floor", base_url="", path=None, gate=None, **_):
    return Loop(mode, base_url, Journal(path) if variant.endswith("sqlite") else None, gate)


async def arun(loop, n_steps):
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": prompt(n_steps)},
    ]
    journal = loop.journal
    at = journal.start() if journal else None
    while True:
        reply = await loop.ask(messages)
        messages.append(reply)
        for call in reply.get("tool_calls", ()):
            result = add(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
        if journal:
            at = journal.step(at, messages)
        if "tool_calls" not in reply:
            return reply["content"]


def run(loop, n_steps):
    return asyncio.run(arun(loop, n_steps))


async def astream(loop, n_tokens, on_text):
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": stream_prompt(n_tokens)},
    ]
    body = {"model": "fake", "stream": True, "messages": messages}
    async with loop.session().post(loop.url, json=body) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                text = choices[0]["delta"].get("content") if choices else None
                if text:
                    on_text(text)


async def aclose(loop):
    if loop.client is not None:
        await loop.client.close()
    if loop.journal:
        loop.journal.db.close()

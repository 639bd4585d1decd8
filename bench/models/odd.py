"""Handling of unusual third-party input by taofold, pydantic-ai and litellm.

    python -m bench.models.odd PYTHON_WITH_THE_PEERS

The peers' Python has `pydantic-ai-slim[openai,anthropic] litellm`. A server of this process holds
each request to the provider's documented rules (`tests/models/law.py`) and answers as the row
specifies. "yes": the request was taken, the tool got its arguments, and the answer came back. A row
that is about the request has a second, good tool beside the odd one, and the good one is called.
Prints the table of README.md.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.models import law

from taofold import Agent, Limits
from taofold.models.endpoint import RetryPolicy
from taofold.models.transport import aclose_all
from taofold.runtime.providers import resolve
from taofold.tools import external

PEER = Path(__file__).with_name("odd_peer.py")
NAMES = ("taofold", "pydantic-ai", "litellm")
MODELS = {"responses": "gpt-6.1-sol", "chat": "gpt-4o", "messages": "claude-sonnet-4-5"}
PREFIX = {"responses": "openai", "chat": "openai-chat", "messages": "anthropic"}
GOOD: dict[str, Any] = {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"], "additionalProperties": False,
}  # fmt: skip
TEXT = {"type": "string"}
PLAIN = '{"a": 1, "b": 2}'
USAGE = {"prompt_tokens": 500, "completion_tokens": 7, "total_tokens": 507}


@dataclass(frozen=True)
class Row:
    """An odd input, and the server's first answer."""

    what: str
    format: str
    odd: tuple[str, Mapping[str, Any]] | None = None
    """A further tool: its name and schema."""
    output: str = ""
    settings: Mapping[str, Any] | None = None
    arguments: str = PLAIN
    name: str = "add"
    usage: Any = None
    first: Mapping[str, Any] | None = None
    """The complete first answer. Accepting it as the result is no success."""


UNION = {
    "type": "object", "properties": {"content": TEXT, "url": TEXT},
    "anyOf": [{"required": ["content"]}, {"required": ["url"]}],
}  # fmt: skip
NAMED = {"type": "object", "properties": {"$filter": TEXT, "a[]": TEXT}}
LISTED = {"type": "object", "properties": {"x": {"type": "array"}}}
ROWS = (
    Row("tool with a union at its root", "responses", odd=("save", UNION)),
    Row("tool with a union at its root", "messages", odd=("save", UNION)),
    Row("properties `$filter`, `a[]`", "messages", odd=("find", NAMED)),
    Row("array without `items`", "responses", odd=("put", LISTED)),
    Row("tool name with a dot", "chat", odd=("files.read", GOOD)),
    Row("`temperature` with `top_p`", "messages", settings={"temperature": 0.2, "top_p": 0.9}),
    Row("typed answer `list[int]`", "responses", output="list[int]"),
    Row("call without a name", "chat", name=""),
    Row("arguments encoded twice", "chat", arguments=json.dumps(PLAIN)),
    Row("arguments `{}{…}`", "chat", arguments="{}" + PLAIN),
    Row("arguments in a fence", "chat", arguments=f"```json\n{PLAIN}\n```"),
    Row("`</tool_call>` behind the arguments", "chat", arguments=PLAIN + "\n</tool_call>"),
    Row("`usage.prompt_tokens` a text", "chat", usage={**USAGE, "prompt_tokens": "500"}),
    Row("`usage.cost` an object", "chat", usage={**USAGE, "cost": {"usd": 1}}),
    Row("usage null in every field", "chat", usage=dict.fromkeys(USAGE)),
    Row("an error in a 200", "chat", first={"object": "error", "message": "CUDA out of memory"}),
)


class Play:
    """The server: checks requests, answers as the row specifies."""

    def __init__(self) -> None:
        self.row = ROWS[0]
        self.refused: list[str] = []
        self.count = 0

    def load(self, row: Row) -> None:
        self.row, self.refused, self.count = row, [], 0

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        kind = self.row.format
        try:
            law.LAWS[kind](body)
        except (law.Unlawful, KeyError, TypeError, ValueError) as error:
            self.refused.append(f"{type(error).__name__}: {error}")
            error = {"type": "invalid_request_error", "message": str(error)}
            return 400, {"type": "error", "error": error}
        self.count += 1
        if self.row.first is not None or self.count == 1:
            return 200, self.row.first or self._call(kind)
        return 200, self._say(kind, body)

    def _call(self, kind: str) -> Any:
        row = self.row
        if kind == "responses":
            item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": row.name,
                    "arguments": row.arguments, "status": "completed"}  # fmt: skip
            return self._response(item)
        if kind == "messages":
            block = {"type": "tool_use", "id": "c1", "name": "add", "input": json.loads(PLAIN)}
            return self._message(block, "tool_use")
        function = {"name": row.name, "arguments": row.arguments}
        call = {"id": "c1", "type": "function", "function": function}
        return self._choice({"content": None, "tool_calls": [call]}, "tool_calls")

    def _say(self, kind: str, body: Any) -> Any:
        text = "done"
        if self.row.output:
            forms = body.get("text", {}).get("format", {})
            wrapped = next(iter(forms.get("schema", {}).get("properties", {})), "")
            finish = next((t for t in body.get("tools", ()) if t["name"] != "add"), None)
            if not wrapped and finish is not None:
                key = next(iter(finish["parameters"]["properties"]), "answer")
                item = {"type": "function_call", "id": "fc_2", "call_id": "c2",
                        "name": finish["name"], "arguments": json.dumps({key: [1, 2]}),
                        "status": "completed"}  # fmt: skip
                return self._response(item)
            text = json.dumps({wrapped: [1, 2]} if wrapped else [1, 2])
        if kind == "responses":
            part = {"type": "output_text", "text": text, "annotations": []}
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [part]}  # fmt: skip
            return self._response(item)
        if kind == "messages":
            return self._message({"type": "text", "text": text}, "end_turn")
        return self._choice({"content": text}, "stop")

    def _response(self, item: Any) -> Any:
        return {
            "id": "resp_1", "object": "response", "created_at": 1, "model": MODELS["responses"],
            "status": "completed", "output": [item], "parallel_tool_calls": True, "tools": [],
            "tool_choice": "auto", "usage": {
                "input_tokens": 500, "output_tokens": 7, "total_tokens": 507,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }  # fmt: skip

    def _message(self, block: Any, stop: str) -> Any:
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": MODELS["messages"],
            "content": [block], "stop_reason": stop, "stop_sequence": None,
            "usage": {"input_tokens": 500, "output_tokens": 7},
        }  # fmt: skip

    def _choice(self, message: Any, finish: str) -> Any:
        choice = {
            "index": 0,
            "finish_reason": finish,
            "message": {"role": "assistant", **message},
        }
        usage = USAGE if self.row.usage is None else self.row.usage
        return {
            "id": "c", "object": "chat.completion", "created": 1, "model": MODELS["chat"],
            "choices": [choice], "usage": usage,
        }  # fmt: skip


def serve(play: Play) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = play.answer(self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


async def ours(row: Row, url: str) -> str:
    calls: list[Any] = []

    async def called(arguments: dict[str, Any]) -> str:
        calls.append(arguments)
        return "3"

    tools = [
        external(name, "A tool.", dict(schema), called, effect="read", tier=1)
        for name, schema in (("add", GOOD), *([row.odd] if row.odd else []))
    ]
    model = resolve(
        f"{PREFIX[row.format]}:{MODELS[row.format]}",
        base_url=url + ("" if row.format == "messages" else "/v1"),
        api_key="k",
        retry=RetryPolicy(first=0.0, draw=lambda: 0.0),
        **(row.settings or {}),
    )
    agent: Any = Agent(
        model, tools=tools, output=list[int] if row.output else str, limits=Limits(steps=6)
    )
    result = await agent.run("Add 1 and 2.")
    said = result.output if result.success else f"FAILED {result.error}"
    return f"{json.dumps(calls)} {said}"


def peer(process: "subprocess.Popen[str]", row: Row, url: str) -> str:
    odd = [[name, schema] for name, schema in ([row.odd] if row.odd else [])]
    job = {
        "format": row.format, "model": MODELS[row.format], "url": url, "output": row.output,
        "tools": [["add", GOOD], *odd], "settings": dict(row.settings or {}),
    }  # fmt: skip
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    stdin.write(json.dumps(job) + "\n")
    stdin.flush()
    for line in stdout:
        if line.startswith("> "):
            return line[2:].strip()
    return "FAILED its process ended"


async def main() -> None:
    play = Play()
    server = serve(play)
    url = f"http://127.0.0.1:{server.server_port}"
    peers = {
        name: subprocess.Popen(
            [sys.argv[1], PEER, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for name in NAMES[1:]
    }
    print("| what is odd | format | " + " | ".join(NAMES) + " |")
    print("| --- " * (len(NAMES) + 2) + "|")
    try:
        for row in ROWS:
            cells: list[str] = []
            for name in NAMES:
                play.load(row)
                if name == "taofold":
                    said = await ours(row, url)
                else:
                    said = await asyncio.to_thread(peer, peers[name], row, url)
                cells.append(verdict(row, said, play))
                print(f"{name} · {row.what}: {said[:160]} {play.refused[:1]}", file=sys.stderr)
            print(f"| {row.what} | {row.format} | " + " | ".join(cells) + " |", flush=True)
    finally:
        for process in peers.values():
            process.kill()
            process.wait()
        server.shutdown()
        await aclose_all()


def verdict(row: Row, said: str, play: Play) -> str:
    if play.refused and "FAILED" in said:
        return "refused by the provider"
    if row.first is not None:
        return "quoted" if "CUDA out of memory" in said else "not quoted"
    if "FAILED" in said:
        return "fails"
    answered = "[1, 2]" in said if row.output else said.endswith("done")
    called = '{"a": 1, "b": 2}' in said or not row.name
    if answered and called:
        return "yes, after a refused request" if play.refused else "yes"
    return "tool not called" if answered else "no answer"


if __name__ == "__main__":
    asyncio.run(main())

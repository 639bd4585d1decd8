"""A provider for real coding agents: it requests one shell command, then replies with a sentence.

    python bench/coding_agents/provider.py PORT COMMAND [HOST]

It implements Anthropic's Messages, OpenAI's Responses and Chat Completions, and Gemini, streamed,
as far as Claude Code, Codex, OpenCode, Aider and Gemini CLI need it.
"""

import json
import sys
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SAID: Final = "I replaced the minus by a plus."
EDIT: Final = (
    "calc.py\n```python\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n"
    ">>>>>>> REPLACE\n```\n"
)
"""The edit that Aider applies, because it calls no tools."""
Event = tuple[str, dict[str, Any]]


def messages(body: dict[str, Any], asked: str, command: str) -> Iterable[Event]:
    """Anthropic: a call of `Bash`, then the sentence."""
    tools = [tool.get("name") for tool in body.get("tools") or []]
    calls = "Bash" in tools and "tool_result" not in asked
    usage = {"input_tokens": 100, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model")}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"message": message}
    if calls:
        block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
        arguments = json.dumps({"command": command, "description": "repair"})
        delta = {"type": "input_json_delta", "partial_json": arguments}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": SAID}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield "message_delta", {"delta": stop, "usage": {"output_tokens": 20}}
    yield "message_stop", {}


def responses(body: dict[str, Any], asked: str, command: str) -> Iterable[Event]:
    """OpenAI's Responses: Codex runs commands from a program in JavaScript."""
    done = '"custom_tool_call_output"' in asked
    item: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant"}
    item["content"] = [{"type": "output_text", "text": SAID, "annotations": []}]
    if "additional_tools" in asked and not done:
        source = f"text(await tools.exec_command({{cmd: {json.dumps(command)}}}))"
        item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "exec"}
        item |= {"namespace": "functions", "status": "completed", "input": source}
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    response = {"id": "resp_1", "object": "response", "model": body.get("model"), "usage": usage}
    yield "response.created", {"response": {**response, "status": "in_progress", "output": []}}
    yield "response.output_item.added", {"output_index": 0, "item": item}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": {**response, "status": "completed", "output": [item]}}


def chat(body: dict[str, Any], asked: str, command: str) -> Iterable[dict[str, Any]]:
    """Chat Completions: OpenCode calls `bash`."""
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    calls = "bash" in tools and '"role":"tool"' not in asked.replace(" ", "")
    delta: dict[str, Any] = {"role": "assistant", "content": SAID}
    if calls:
        function = {
            "name": "bash",
            "arguments": json.dumps({"command": command, "description": "x"}),
        }
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        delta = {"role": "assistant", "tool_calls": [call]}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body.get("model")}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    finish = "tool_calls" if calls else "stop"
    end = {"index": 0, "delta": {}, "finish_reason": finish}
    yield head | {"choices": [end], "usage": usage}


def gemini(body: dict[str, Any], asked: str, command: str) -> dict[str, Any]:
    """Gemini: a call of `run_shell_command`, then the sentence."""
    tools = [f["name"] for t in body.get("tools") or [] for f in t.get("functionDeclarations", [])]
    part: dict[str, Any] = {"text": SAID if tools else "{}"}
    if "run_shell_command" in tools and '"functionResponse":' not in asked:
        arguments = {"command": command, "description": "repair"}
        part = {"functionCall": {"name": "run_shell_command", "args": arguments}}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
    content = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [content], "usageMetadata": usage}


class Provider(BaseHTTPRequestHandler):
    """Answers every request."""

    protocol_version = "HTTP/1.1"
    shell = ""
    """The command that it asks for."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        """Models and the like: none."""
        self._send(json.dumps({"data": [], "models": []}))

    def do_POST(self) -> None:
        """A call of a model."""
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        asked = raw.decode("utf-8", "replace")
        body = json.loads(asked) if asked.startswith("{") else {}
        path = self.path
        if "ount" in path and "oken" in path:  # count_tokens, countTokens
            self._send(json.dumps({"input_tokens": 10, "totalTokens": 10}))
        elif "/messages" in path:
            self._stream(
                [
                    (kind, {"type": kind, **event})
                    for kind, event in messages(body, asked, self.shell)
                ]
            )
        elif "/responses" in path:
            self._stream(
                [
                    (kind, {"type": kind, **event})
                    for kind, event in responses(body, asked, self.shell)
                ]
            )
        elif "chat/completions" in path and body.get("stream"):
            self._stream([("", event) for event in chat(body, asked, self.shell)], "[DONE]")
        elif "chat/completions" in path:
            message = {"role": "assistant", "content": f"{SAID}\n\n{EDIT}"}
            usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send(
                json.dumps(
                    {
                        "id": "c",
                        "object": "chat.completion",
                        "created": 1,
                        "model": body.get("model"),
                        "choices": [choice],
                        "usage": usage,
                    }
                )
            )
        elif "stream" in path:
            self._stream([("", gemini(body, asked, self.shell))])
        else:
            self._send(json.dumps(gemini(body, asked, self.shell)))

    def _stream(self, events: Iterable[Event], last: str = "") -> None:
        lines = [
            f"event: {kind}\ndata: {json.dumps(event)}\n\n"
            if kind
            else f"data: {json.dumps(event)}\n\n"
            for kind, event in events
        ]
        self._send("".join([*lines, f"data: {last}\n\n" * bool(last)]), "text/event-stream")

    def _send(self, text: str, kind: str = "application/json") -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if __name__ == "__main__":
    port, Provider.shell, *host = sys.argv[1:]
    ThreadingHTTPServer((host[0] if host else "0.0.0.0", int(port)), Provider).serve_forever()

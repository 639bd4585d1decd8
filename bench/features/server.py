"""Plays scripted replies over OpenAI's HTTP API, and records each request.

It answers Responses and chat completions. A request that goes beyond its script, and a script that
calls a tool which the request does not offer, are answered with an error and recorded as a fault.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Say:
    text: str
    tokens: int = 20


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: dict
    text: str = ""
    tokens: int = 20


@dataclass
class Player:
    """The script of one program, and the requests that it caused."""

    count: Callable[[str], int]
    script: list[Say | Call] = field(default_factory=list)
    summary: Say | None = None
    requests: list[dict] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def play(self, script, summary=None):
        """Begins a script. A request without tools gets the summary, if there is one."""
        self.script, self.requests, self.faults = list(script), [], []
        self.summary = summary

    def next(self, path, body):
        """Returns the HTTP status and the body of the next reply."""
        with self.lock:
            self.requests.append(body)
            fault = self._fault(path, body)
            if fault:
                self.faults.append(fault)
                return 400, {"error": {"message": fault, "type": "invalid_request_error"}}
            turn = self.summary if self._is_summary(body) else self.script.pop(0)
            form = _responses if path.endswith("/responses") else _chat
            number = len(self.requests)
            return 200, form(turn, number, self.count(compact(body)), body["model"])

    def _is_summary(self, body):
        return self.summary is not None and not offered(body)

    def _fault(self, path, body):
        if not path.endswith(("/responses", "/chat/completions")):
            return f"unknown address {path}"
        if body.get("stream") and not path.endswith("/responses"):
            return "this server streams Responses only"
        if self._is_summary(body):
            return ""
        if not self.script:
            return f"request {len(self.requests)} is beyond the script"
        turn = self.script[0]
        if isinstance(turn, Call) and turn.tool not in offered(body):
            return f"tool {turn.tool!r} is not offered; offered: {', '.join(offered(body))}"
        return ""


def compact(body):
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def offered(body):
    """Returns the names of the offered tools, also of those that a message adds."""
    tools = list(body.get("tools") or [])
    given = body.get("input")
    for item in given if isinstance(given, list) else []:
        tools += item.get("tools") or []
    return [tool.get("function", tool).get("name", tool["type"]) for tool in tools]


def _responses(turn, number, tokens, model):
    output = []
    text = turn.text
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        output.append({**message, "status": "completed", "content": [part]})
    if isinstance(turn, Call):
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        arguments = json.dumps(turn.arguments)
        output.append({**call, "name": turn.tool, "arguments": arguments, "status": "completed"})
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": turn.tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + turn.tokens,
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "model": model,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }


def _stream(response):
    """Yields the events of a streamed response."""
    yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
    for index, item in enumerate(response["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {"content": []} if item["type"] == "message" else {"arguments": ""}
        begun = {**item, **empty, "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        if item["type"] == "message":
            part = item["content"][0]
            text = {**at, "content_index": 0, "logprobs": []}
            yield {"type": "response.content_part.added", **text, "part": {**part, "text": ""}}
            yield {"type": "response.output_text.delta", **text, "delta": part["text"]}
            yield {"type": "response.output_text.done", **text, "text": part["text"]}
            yield {"type": "response.content_part.done", **text, "part": part}
        else:
            arguments = item["arguments"]
            kind = "response.function_call_arguments"
            yield {"type": f"{kind}.delta", **at, "delta": arguments}
            yield {"type": f"{kind}.done", **at, "name": item["name"], "arguments": arguments}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response}


def _sse(events):
    parts = (
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n"
        for number, event in enumerate(events)
    )
    return "".join(parts).encode()


def _chat(turn, number, tokens, model):
    message = {"role": "assistant", "content": turn.text or None}
    if isinstance(turn, Call):
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    reason = "tool_calls" if isinstance(turn, Call) else "stop"
    total = tokens + turn.tokens
    usage = {"prompt_tokens": tokens, "completion_tokens": turn.tokens, "total_tokens": total}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    common = {"id": f"chat_{number}", "object": "chat.completion", "created": 1, "model": model}
    return {**common, "choices": [choice], "usage": usage}


def serve(player):
    """Serves a player on a free port. Returns the server, whose `server_address` has the port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = player.next(self.path, body)
            streamed = status == 200 and body.get("stream")
            content = _sse(_stream(answer)) if streamed else json.dumps(answer).encode()
            self.send_response(status)
            media = "text/event-stream" if streamed else "application/json"
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server

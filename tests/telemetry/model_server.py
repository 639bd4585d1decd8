"""A chat-completions server in OpenAI's format with scripted replies."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 20},
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'},
}


def completion(number: int, text: str | None, call: dict[str, Any] | None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if call is not None:
        message["tool_calls"] = [call]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "usage": USAGE,
        "model": "gpt-test-2026-11-22", "choices": [choice],
    }  # fmt: skip


@contextmanager
def adding() -> Iterator[str]:
    """Returns the base URL of a model that calls `add` once and then returns its result."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            done = any(one["role"] == "tool" for one in asked["messages"])
            said = completion(2, "It is 5.", None) if done else completion(1, None, CALL)
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

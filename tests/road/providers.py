"""Five providers on a local port, each in its own format; the model is `mind.reply`.

A provider refuses the same schemas, names and ids as the real one (`tests.models.law`), and the
same calls and results. `Providers.refused` records the refusals.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.models import law
from tests.road.mind import Asked, Said, Turn, Unfit, reply

Body = dict[str, Any]


class Refused(Exception):
    """The provider does not take the request."""


@dataclass(frozen=True)
class Wire:
    """A format: how a request is read, and how a reply is written, whole or streamed."""

    read: Callable[[Body], Asked]
    whole: Callable[[Body, Said], Any]
    streamed: Callable[[Body, Said], bytes]


def expect(holds: object, why: str) -> None:
    if not holds:
        raise Refused(why)


def text_of(content: Any, kinds: Sequence[str] = ("text", "input_text", "output_text")) -> str:
    """The text of a message's content: a text, or blocks of which some are text."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join([block["text"] for block in content if block.get("type") in kinds])


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object in `schema`."""
    if isinstance(schema, list):
        for each in schema:
            yield from objects(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "object" or isinstance(schema.get("properties"), dict):
            yield schema
        for key, each in schema.items():
            if key in ("properties", "$defs") and isinstance(each, dict):
                yield from objects(list(each.values()))
            elif key not in ("default", "enum", "const", "examples"):
                yield from objects(each)


def closed(schema: Any, where: str) -> None:
    for each in objects(schema):
        expect(
            each.get("additionalProperties") is False,
            f"{where}: 'additionalProperties' is required to be supplied and to be false",
        )


def rooted(schema: Body, where: str) -> None:
    expect(
        schema.get("type") == "object" and not {"anyOf", "oneOf", "allOf", "$ref"} & set(schema),
        f"Invalid schema for {where}: schema must be a JSON Schema of 'type: \"object\"'",
    )


def strict(schema: Body, where: str) -> None:
    closed(schema, where)
    for each in objects(schema):
        lacking = set(each.get("properties", {})) - set(each.get("required", ()))
        expect(not lacking, f"{where}: 'required' lacks {sorted(lacking)}")


def named(name: str) -> str:
    expect(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name), f"invalid tool name {name!r}")
    return name


# --- OpenAI: responses ---------------------------------------------------------------------------


def responses_read(body: Body) -> Asked:
    turns: list[Turn] = []
    open_calls: set[str] = set()
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            turns.append(Turn(item["role"], text_of(item["content"])))
        elif kind == "function_call":
            json.loads(item["arguments"])
            open_calls.add(item["call_id"])
            turns.append(Turn("assistant", "", (item["name"],)))
        else:
            expect(kind == "function_call_output", f"unknown item {kind!r}")
            expect(item["call_id"] in open_calls, "no tool call found for this output")
            open_calls.discard(item["call_id"])
            turns.append(Turn("tool", text_of(item["output"])))
    expect(not open_calls, f"no tool output found for {sorted(open_calls)}")
    tools: dict[str, dict[str, Any]] = {}
    for tool in body.get("tools", ()):
        rooted(tool["parameters"], f"function {tool['name']!r}")
        if tool["strict"]:
            strict(tool["parameters"], tool["name"])
        tools[named(tool["name"])] = tool["parameters"]
    form = body.get("text", {}).get("format")
    if form:
        rooted(form["schema"], "response_format 'output'")
        if form["strict"]:
            strict(form["schema"], "response_format")
    choice = body.get("tool_choice")
    allowed: list[str] | None = [] if choice == "none" else None
    if isinstance(choice, dict):
        allowed = [each["name"] for each in choice["tools"]]
    return Asked(
        body.get("instructions", ""), turns, tools,
        form["schema"] if form else None, allowed,
    )  # fmt: skip


def responses_whole(body: Body, said: Said) -> Body:
    message = {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": said.text, "annotations": []}],
    }  # fmt: skip
    output: list[Any] = [message]
    if said.call:
        output.append({
            "type": "function_call", "id": "fc_1", "call_id": call_id(body["input"]),
            "name": said.call[0], "arguments": json.dumps(said.call[1]), "status": "completed",
        })  # fmt: skip
    usage = {"input_tokens": 20, "output_tokens": 7, "total_tokens": 27}
    return {
        "id": "resp_1", "object": "response", "status": "completed", "model": body["model"],
        "output": output, "usage": usage,
    }  # fmt: skip


def responses_streamed(body: Body, said: Said) -> bytes:
    whole = responses_whole(body, said)
    events: list[Body] = [
        {"type": "response.output_text.delta", "output_index": 0, "delta": piece}
        for piece in split(said.text)
    ]
    for index, item in enumerate(whole["output"]):
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return b"".join([sse(event, event["type"]) for event in events])


# --- OpenAI: chat completions --------------------------------------------------------------------


def chat_read(body: Body) -> Asked:
    system: list[str] = []
    turns: list[Turn] = []
    open_calls: set[str] = set()
    for message in body["messages"]:
        role = message["role"]
        text = text_of(message.get("content"))
        if role == "system":
            system.append(text)
            continue
        if role == "tool":
            expect(message["tool_call_id"] in open_calls, "a result without its call")
            open_calls.discard(message["tool_call_id"])
        else:
            expect(not open_calls, f"no result for {sorted(open_calls)}")
        calls = message.get("tool_calls", ())
        open_calls |= {call["id"] for call in calls}
        turns.append(Turn(role, text, [call["function"]["name"] for call in calls]))
    expect(not open_calls, f"no result for {sorted(open_calls)}")
    tools: dict[str, dict[str, Any]] = {}
    for tool in body.get("tools", ()):
        rooted(tool["function"]["parameters"], tool["function"]["name"])
        tools[named(tool["function"]["name"])] = tool["function"]["parameters"]
    form = body.get("response_format") or {}
    schema = form.get("schema")
    if form.get("type") == "json_schema":
        schema = form["json_schema"]["schema"]
        if form["json_schema"]["strict"]:
            strict(schema, "response_format")
    return Asked(
        "\n\n".join(system),
        turns,
        tools,
        schema,
        [] if body.get("tool_choice") == "none" else None,
    )


def chat_message(body: Body, said: Said) -> Body:
    message: Body = {"role": "assistant", "content": said.text}
    if said.call:
        function = {"name": said.call[0], "arguments": json.dumps(said.call[1])}
        call = {"id": call_id(body["messages"]), "type": "function", "function": function}
        message["tool_calls"] = [call]
    return message


CHAT_USAGE = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}


def chat_whole(body: Body, said: Said) -> Body:
    finish = "tool_calls" if said.call else "stop"
    choice = {"index": 0, "message": chat_message(body, said), "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion", "choices": [choice], "usage": CHAT_USAGE}


def chat_streamed(body: Body, said: Said) -> bytes:
    deltas: list[Body] = [{"role": "assistant", "content": piece} for piece in split(said.text)]
    calls = chat_message(body, said).get("tool_calls")
    if calls:
        deltas.append({"tool_calls": [{"index": 0, **calls[0]}]})
    events: list[Body] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    finish = "tool_calls" if said.call else "stop"
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events.append({"choices": [], "usage": CHAT_USAGE})
    return b"".join(map(sse, events)) + b"data: [DONE]\n\n"


# --- Anthropic -----------------------------------------------------------------------------------


def messages_read(body: Body) -> Asked:
    expect(body["max_tokens"] > 0, "max_tokens is required")
    turns: list[Turn] = []
    expected: set[str] = set()
    role_before = ""
    for message in body["messages"]:
        expect(message["role"] != role_before, "roles must alternate")
        role_before = message["role"]
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results = [block for block in blocks if block["type"] == "tool_result"]
        expect(
            {block["tool_use_id"] for block in results} == expected, "results do not match calls"
        )
        calls = [block for block in blocks if block["type"] == "tool_use"]
        expected = {block["id"] for block in calls}
        turns += [Turn("tool", text_of(block["content"])) for block in results]
        text = text_of(blocks)
        if text or calls:
            turns.append(Turn(message["role"], text, [block["name"] for block in calls]))
    expect(role_before == "user", "the last message must be the user's")
    tools: dict[str, dict[str, Any]] = {}
    for tool in body.get("tools", ()):
        schema = tool["input_schema"]
        expect(
            schema.get("type") == "object" and not {"anyOf", "oneOf", "allOf"} & set(schema),
            "input_schema does not support oneOf, allOf, or anyOf at the top level",
        )
        tools[named(tool["name"])] = schema
    form = body.get("output_config", {}).get("format")
    if form:
        closed(form["schema"], "output_config.format.schema")
    none = body.get("tool_choice", {}).get("type") == "none"
    system = text_of(body.get("system"))
    return Asked(system, turns, tools, form["schema"] if form else None, [] if none else None)


def messages_whole(body: Body, said: Said) -> Body:
    content: list[Body] = [{"type": "text", "text": said.text}]
    if said.call:
        identifier = f"toolu_{call_id(body['messages'])}"
        name, arguments = said.call
        content.append({"type": "tool_use", "id": identifier, "name": name, "input": arguments})
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
        "content": content, "stop_reason": "tool_use" if said.call else "end_turn",
        "usage": {"input_tokens": 20, "output_tokens": 7},
    }  # fmt: skip


def messages_streamed(body: Body, said: Said) -> bytes:
    whole = messages_whole(body, said)
    events: list[Body] = [{"type": "message_start", "message": {**whole, "content": []}}]
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            start = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in split(block["text"])]
        else:
            start = {**block, "input": {}}
            pieces = split(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": whole["stop_reason"]}
    events.append({"type": "message_delta", "delta": delta, "usage": whole["usage"]})
    events.append({"type": "message_stop"})
    return b"".join([sse(event, event["type"]) for event in events])


# --- Gemini --------------------------------------------------------------------------------------


def gemini_read(body: Body) -> Asked:
    turns: list[Turn] = []
    for content in body["contents"]:
        expect(content["role"] in ("user", "model"), "Please use a valid role: user, model.")
        parts = content["parts"]
        expect(parts, "contents.parts must not be empty")
        calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        for part in parts:
            if "functionResponse" in part:
                turns.append(Turn("tool", json.dumps(part["functionResponse"]["response"])))
        text = "\n".join([part["text"] for part in parts if "text" in part])
        role = "assistant" if content["role"] == "model" else "user"
        if text or calls:
            turns.append(Turn(role, text, calls))
    declared = [one for group in body.get("tools", ()) for one in group["functionDeclarations"]]
    tools = {named(one["name"]): one["parametersJsonSchema"] for one in declared}
    calling = body.get("toolConfig", {}).get("functionCallingConfig", {})
    allowed = [] if calling.get("mode") == "NONE" else calling.get("allowedFunctionNames")
    config = body.get("generationConfig", {})
    system = "\n\n".join([p["text"] for p in body.get("systemInstruction", {}).get("parts", ())])
    return Asked(
        system, turns, tools,
        config.get("responseJsonSchema"), allowed,
    )  # fmt: skip


def gemini_whole(body: Body, said: Said) -> Body:
    parts: list[Body] = [{"text": said.text}]
    if said.call:
        call = {"id": call_id(body["contents"]), "name": said.call[0], "args": said.call[1]}
        parts.append({"functionCall": call, "thoughtSignature": "c2lnbmVk"})
    return gemini_answer(parts, "STOP")


def gemini_answer(parts: Sequence[Body], finish: str = "") -> Body:
    candidate: Body = {"index": 0, "content": {"role": "model", "parts": parts}}
    usage = {"promptTokenCount": 20, "candidatesTokenCount": 7, "totalTokenCount": 27}
    candidate |= {"finishReason": finish} if finish else {}
    return {"candidates": [candidate], "usageMetadata": usage}


def gemini_streamed(body: Body, said: Said) -> bytes:
    (candidate,) = gemini_whole(body, said)["candidates"]
    events = [gemini_answer([{"text": piece}]) for piece in split(said.text)]
    events.append(gemini_answer(candidate["content"]["parts"][1:], "STOP"))
    return b"".join(map(sse, events))


# --- Ollama --------------------------------------------------------------------------------------


def ollama_read(body: Body) -> Asked:
    system = "\n\n".join([m["content"] for m in body["messages"] if m["role"] == "system"])
    turns = [
        Turn(m["role"], m["content"], [c["function"]["name"] for c in m.get("tool_calls", ())])
        for m in body["messages"]
        if m["role"] != "system"
    ]
    functions = [tool["function"] for tool in body.get("tools", ())]
    # Its server drops these before the model sees the schema.
    lost = ('"$ref"', '"oneOf"', '"allOf"')
    expect(not [name for name in lost if name in json.dumps(functions)], "a schema loses its sense")
    return Asked(system, turns, {one["name"]: one["parameters"] for one in functions},
                 body.get("format"))  # fmt: skip


def ollama_whole(body: Body, said: Said) -> Body:
    message: Body = {"role": "assistant", "content": said.text}
    if said.call:
        function = {"name": said.call[0], "arguments": said.call[1]}
        message["tool_calls"] = [{"id": call_id(body["messages"]), "function": function}]
    return {"model": body["model"], "message": message, **OLLAMA_END}


OLLAMA_END = {"done": True, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 7}


def ollama_streamed(body: Body, said: Said) -> bytes:
    lines: list[Body] = [
        {"message": {"role": "assistant", "content": piece}, "done": False}
        for piece in split(said.text)
    ]
    calls = ollama_whole(body, said)["message"].get("tool_calls")
    if calls:
        message = {"role": "assistant", "content": "", "tool_calls": calls}
        lines.append({"message": message, "done": False})
    lines.append({"message": {"role": "assistant", "content": ""}, **OLLAMA_END})
    return b"".join([json.dumps(line).encode() + b"\n" for line in lines])


# --- the server ----------------------------------------------------------------------------------


def split(text: str) -> list[str]:
    return [text[at : at + 11] for at in range(0, len(text), 11)] or [""]


def sse(event: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def call_id(messages: Sequence[Any]) -> str:
    """An id that no earlier call of the conversation has."""
    return f"call_{len(messages)}"


WIRES: Mapping[str, Wire] = {
    "responses": Wire(responses_read, responses_whole, responses_streamed),
    "chat": Wire(chat_read, chat_whole, chat_streamed),
    "messages": Wire(messages_read, messages_whole, messages_streamed),
    "gemini": Wire(gemini_read, gemini_whole, gemini_streamed),
    "ollama": Wire(ollama_read, ollama_whole, ollama_streamed),
}
PATHS = (
    (r"/v1/responses", "responses"),
    (r"/v1/chat/completions", "chat"),
    (r"/v1/messages", "messages"),
    (r"/v1beta/models/[^/]+:(?:streamG|g)enerateContent.*", "gemini"),
    (r"/api/chat", "ollama"),
)

Model = Callable[[Asked], Said]


@dataclass
class Providers:
    """The server: `model` answers, `refused` are the reasons of what was refused."""

    home: Path
    """The operator's folder, where profiles of the models lie."""
    url: str = ""
    model: Model = reply
    refused: list[str] = field(default_factory=list[str])
    asked: list[Asked] = field(default_factory=list[Asked])

    def answer(self, path: str, body: Body) -> tuple[int, str, bytes]:
        """Status, media type and body of the answer to one request."""
        kind = next((kind for form, kind in PATHS if re.fullmatch(form, path)), "")
        if not kind:
            return 404, "application/json", b'{"error": {"message": "not found"}}'
        wire = WIRES[kind]
        try:
            law.LAWS[kind](body)
            asked = wire.read(body)
        except (law.Unlawful, Refused, KeyError, TypeError, ValueError) as error:
            return self._error(kind, 400, f"{type(error).__name__}: {error}")
        self.asked.append(asked)
        try:
            said = self.model(asked)
        except Unfit as error:
            return self._error(kind, 422, str(error))
        # Ollama streams by default. Gemini selects it by the path.
        if body.get("stream", kind == "ollama") or "streamGenerate" in path:
            lines = "application/x-ndjson" if kind == "ollama" else "text/event-stream"
            return 200, lines, wire.streamed(body, said)
        return 200, "application/json", json.dumps(wire.whole(body, said)).encode()

    def _error(self, kind: str, status: int, why: str) -> tuple[int, str, bytes]:
        self.refused.append(f"{kind} {status}: {why}")
        error: Any = why if kind == "ollama" else {"type": "invalid_request_error", "message": why}
        return status, "application/json", json.dumps({"error": error}).encode()


@contextmanager
def serving(providers: Providers) -> Iterator[Providers]:
    """Answer on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            status, kind, data = providers.answer(self.path, json.loads(self.rfile.read(size)))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    providers.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield providers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

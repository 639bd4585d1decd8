"""A strict Ollama: `/api/chat` as its server's own types read it (`api/types.go`, `routes.go` of
the release of October 2026), refusing what they refuse or would drop silently.

    python -m tests.models.providers.ollama --port 8705

It plays the turns that the other fakes play: `think`, `say`, `json`, `call`, `status` with
`message`, `cut`, `stop`. It is not by Ollama.
"""

import argparse
import base64
import json
import random
import string
from typing import Any

from aiohttp import web

REQUEST = {
    "model", "messages", "stream", "format", "keep_alive", "tools", "options", "think", "truncate",
    "shift", "logprobs", "top_logprobs",
}  # fmt: skip
MESSAGE = {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"}
PARAMETERS = {"type", "$defs", "items", "required", "properties"}
PROPERTY = {"anyOf", "type", "items", "description", "enum", "properties", "required"}
HARMLESS = {"title", "default", "additionalProperties", "minimum", "maximum", "format", "minItems",
            "maxItems", "minLength", "maxLength", "pattern"}  # fmt: skip
"""Schema keys that the server drops and the model does not need."""
OPTIONS = {"num_ctx": int, "num_predict": int, "temperature": float, "top_p": float, "stop": list}


class Refused(Exception):
    """The request is not one that Ollama takes."""


def expect(holds: object, why: str) -> None:
    if not holds:
        raise Refused(why)


def checked(body: dict[str, Any]) -> None:
    """Raise `Refused` for what the server cannot read, or would drop."""
    expect(not set(body) - REQUEST, f"unknown fields {sorted(set(body) - REQUEST)}")
    expect(isinstance(body.get("model"), str) and body["model"], "model is required")
    think = body.get("think")
    expect(
        think is None or isinstance(think, bool) or think in ("low", "medium", "high", "max"),
        f"invalid think value: {think!r}",
    )
    thinks = "llama" not in body["model"]
    expect(thinks or not think, f'"{body["model"]}" does not support thinking')
    expect(body.get("truncate") is False, "the oldest messages would be dropped without a word")
    expect(body.get("shift") is False, "the oldest tokens would be dropped without a word")
    for name, value in body.get("options", {}).items():
        kind = OPTIONS.get(name)
        expect(kind is not None, f"unknown option {name!r}")
        numbers = (int, float) if kind is float else (kind,)
        expect(isinstance(value, numbers), f"option {name!r} must be of type {kind}")
    for tool in body.get("tools", ()):
        expect(set(tool) == {"type", "function"}, f"unknown fields of a tool: {sorted(tool)}")
        function = tool["function"]
        expect(set(function) <= {"name", "description", "parameters"}, "unknown fields")
        parameters = function["parameters"]
        expect(isinstance(parameters.get("type"), str), "parameters.type must be a string")
        lost = set(parameters) - PARAMETERS - HARMLESS
        expect(not lost, f"parameters lose {sorted(lost)}")
        for name, each in (parameters.get("properties") or {}).items():
            property_checked(name, each)
    messages(body["messages"])


def property_checked(name: str, node: Any) -> None:
    expect(isinstance(node, dict), f"cannot unmarshal {node!r} into ToolProperty ({name})")
    lost = set(node) - PROPERTY - HARMLESS
    expect(not lost, f"property {name!r} loses {sorted(lost)}")
    kinds = node.get("type", "")
    expect(isinstance(kinds, str | list), f"invalid property type of {name!r}")
    for each in node.get("anyOf", ()):
        property_checked(name, each)
    for inner, each in (node.get("properties") or {}).items():
        property_checked(f"{name}.{inner}", each)


def messages(said: list[dict[str, Any]]) -> None:
    open_calls: dict[str, str] = {}
    for place, message in enumerate(said):
        where = f"messages[{place}]"
        expect(not set(message) - MESSAGE, f"{where}: unknown {sorted(set(message) - MESSAGE)}")
        role = message.get("role")
        expect(role in ("system", "user", "assistant", "tool"), f"{where}: invalid role {role!r}")
        expect(isinstance(message.get("content"), str), f"{where}: content must be a string")
        for image in message.get("images", ()):
            expect(base64.b64decode(image, validate=True), f"{where}: an empty image")
        if role == "tool":
            expect(
                open_calls.pop(message.get("tool_call_id", ""), None) == message.get("tool_name"),
                f"{where}: the result is of no open call",
            )
            continue
        expect(not open_calls, f"{where}: no result for {sorted(open_calls)}")
        for call in message.get("tool_calls", ()):
            function = call.get("function", {})
            expect(set(call) <= {"id", "function"}, f"{where}: unknown fields of a call")
            expect(isinstance(function.get("arguments"), dict), f"{where}: arguments: an object")
            open_calls[call["id"]] = function["name"]
    expect(not open_calls, f"no result for {sorted(open_calls)}")


class Ollama:
    """The server: `turns` are played one by one, `seen` is what came."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Any]] = []
        self.seen: list[dict[str, Any]] = []
        self.issued: dict[str, dict[str, Any]] = {}
        """Replies by the id of their first call: what a template wants back."""

    def app(self) -> web.Application:
        app = web.Application(client_max_size=256 << 20)
        app.router.add_post("/api/chat", self.chat)
        app.router.add_post("/__scenario", self.scenario)
        app.router.add_get("/__requests", self.requests)
        return app

    async def scenario(self, request: web.Request) -> web.Response:
        self.turns, self.seen = await request.json(), []
        return web.json_response({})

    async def requests(self, request: web.Request) -> web.Response:
        return web.json_response(self.seen)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        try:
            checked(body)
            self.returned(body["messages"])
        except (Refused, KeyError, TypeError, ValueError) as why:
            return self.error(body, 400, str(why))
        if not self.turns:
            return self.error(body, 500, "the scenario is over")
        turn = self.turns.pop(0)
        if "status" in turn:
            return self.error(body, turn["status"], turn.get("message", "trouble"))
        offered = {tool["function"]["name"] for tool in body.get("tools", ())}
        for call in turn.get("call", ()):
            if call["name"] not in offered:
                return self.error(body, 500, f"the tool {call['name']!r} is not offered")
        self.seen.append({"body": body, "status": 200})
        return await self.answer(request, body, turn)

    def error(self, body: Any, status: int, why: str) -> web.Response:
        self.seen.append({"body": body, "status": status, "error": why})
        return web.json_response({"error": why}, status=status)

    def returned(self, said: list[dict[str, Any]]) -> None:
        """Raises `Refused` if a returned reply was changed. Its thinking may be omitted."""
        for message in said:
            calls = message.get("tool_calls") or []
            reply = self.issued.get(calls[0]["id"]) if calls else None
            if reply is not None:
                for name in ("thinking", "content", "tool_calls"):
                    back, was = message.get(name), reply.get(name)
                    same = back == was or (name == "thinking" and back is None)
                    expect(same, f"the reply's {name} was {was!r}, it came back as {back!r}")

    async def answer(
        self, request: web.Request, body: Any, turn: dict[str, Any]
    ) -> web.StreamResponse:
        text = json.dumps(turn["json"]) if "json" in turn else turn.get("say", "")
        thinks = "think" in turn and body.get("think") is not False
        calls = [
            {"id": call.get("id", identifier()),
             "function": {"name": call["name"], "arguments": call["args"]}}
            for call in turn.get("call", ())
        ]  # fmt: skip
        whole = {"role": "assistant", "content": text}
        whole |= {"thinking": turn["think"]} if thinks else {}
        whole |= {"tool_calls": calls} if calls else {}
        if calls:
            self.issued[calls[0]["id"]] = whole
        end = {
            "done": True,
            "done_reason": turn.get("stop", "stop"),
            "prompt_eval_count": len(json.dumps(body["messages"])) // 4,
            "eval_count": 7,
        }
        named = {"model": body["model"], "created_at": "2026-11-23T10:00:00Z"}
        if not body.get("stream", True):
            return web.json_response({**named, "message": whole, **end})
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        pieces = [{"thinking": piece} for piece in split(turn["think"])] if thinks else []
        pieces += [{"content": piece} for piece in split(text)]
        pieces += [{"content": "", "tool_calls": [call]} for call in calls]
        for number, piece in enumerate(pieces):
            if number == turn.get("cut"):
                assert request.transport is not None
                request.transport.close()
                return response
            message = {"role": "assistant", "content": "", **piece}
            await write(response, {**named, "message": message, "done": False})
        if "cut" not in turn:
            await write(response, {**named, "message": {"role": "assistant", "content": ""}, **end})
        return response


async def write(response: web.StreamResponse, line: Any) -> None:
    await response.write(json.dumps(line).encode() + b"\n")


def split(text: str) -> list[str]:
    return [text[at : at + 9] for at in range(0, len(text), 9)]


def identifier() -> str:
    """Returns a random id with the server's prefix."""
    return "call_" + "".join(random.choices(string.ascii_lowercase + string.digits, k=8))


if __name__ == "__main__":
    reader = argparse.ArgumentParser()
    reader.add_argument("--port", type=int, required=True)
    web.run_app(Ollama().app(), host="127.0.0.1", port=reader.parse_args().port, print=None)

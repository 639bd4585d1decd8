"""A chat-completions server whose script is named in the goal: `script=typed;`.

It serves every framework alike. A structured answer uses the request's form (a schema for the
reply, a tool for the output, or text), and arguments follow the tool's schema. `GET /seen` reports
the requests since the last `GET /reset`: the bytes of the first, their number, and whether one
contained the account number that hooks must hide. Prints its port.
"""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAMED = re.compile(r"script=(\w+);")
SCRIPTS = {
    "typed": [("call", "add", {"a": 2, "b": 3}), ("output", {"total": 5, "unit": "apples"})],
    "first": [("say", "Hello Ada.")],
    "second": [("say", "You are Ada.")],
    "parent": [("call", "helper", "script=child;"), ("say", "The helper says five.")],
    "child": [("say", "five")],
    "endless": [("call", "helper", "script=child;")],
    "talk": [("say", "one two three four five six seven eight nine ten")],
    "bill": [
        ("call", "send_invoice", {"customer": "Ada", "euros": 40}),
        ("say", "Ada was billed."),
    ],
    "urgent": [("say", "urgent")],
    "weather": [("call", "forecast", {"city": "Oslo"}), ("say", "Take an umbrella.")],
    "customers": [
        ("call", "customer", {"number": 1}),
        ("call", "customer", {"number": 7}),
        ("say", "They are customers."),
    ],
}
ACCOUNT = b"NO9386011117947"
requests = []


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else json.dumps(content)


def turn(model, messages):
    """Returns the script's next reply by the number of assistant messages since its name."""
    name, spoken, goal = "", 0, ""
    for message in messages:
        if message["role"] == "user" and NAMED.search(text_of(message)):
            goal, spoken = text_of(message), 0
            name = NAMED.findall(goal)[-1]
        elif message["role"] == "assistant":
            spoken += 1
    if name == "case":  # `Question 4`: the model `weak` knows every other answer
        number = int(re.findall(r"Question (\d+)", goal)[-1])
        return ("say", f"yes {number}" if model == "fake" or number % 2 else "no")
    script = SCRIPTS[name]
    return script[min(spoken, len(script) - 1)]


def reply(body):
    kind, *rest = turn(body["model"], body["messages"])
    tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []}
    if kind == "say":
        return {"role": "assistant", "content": rest[0]}
    if kind == "call":
        name, arguments = rest
        if name not in tools:  # offered in words: the reply is text, too
            return action(name, arguments if isinstance(arguments, dict) else {"goal": arguments})
        return call(name, filled(tools[name], arguments))
    return output(body, tools, rest[0])


def filled(tool, arguments):
    if isinstance(arguments, dict):
        return arguments
    schema = tool["parameters"]
    names = schema.get("required") or list(schema["properties"])
    return {names[0]: arguments}


def output(body, tools, value):
    if (body.get("response_format") or {}).get("type") == "json_schema":
        return {"role": "assistant", "content": json.dumps(value)}
    for name, tool in tools.items():
        properties = tool["parameters"].get("properties", {})
        if set(value) <= set(properties):
            return call(name, value)
        if name == "finish":
            return call(name, {"answer": value})
    return action("finish", {"answer": value})


def action(name, parameters):
    text = {"thought": "As asked.", "action": {"tool": name, "parameters": parameters}}
    return {"role": "assistant", "content": json.dumps(text)}


def call(name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    one = {"id": f"call_{len(requests)}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [one]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/reset":
            requests.clear()
        seen = {
            "first": len(requests[0]) if requests else 0,
            "count": len(requests),
            "account": any(ACCOUNT in content for content in requests),
        }
        self.answer(json.dumps(seen).encode())

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(content)
        requests.append(content)
        message = reply(body)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        common = {"id": "x", "created": 1, "model": "fake"}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            whole = {**common, "object": "chat.completion", "choices": [choice], "usage": usage}
            self.answer(json.dumps(whole).encode())
            return
        pieces = [{"role": "assistant", "content": ""}]
        pieces += [{"content": piece} for piece in re.findall(r"\S+\s*", message["content"] or "")]
        for index, one in enumerate(message.get("tool_calls") or []):
            pieces.append({"tool_calls": [{"index": index, **one}]})
        sent = b""
        for delta in [*pieces, {}]:
            choice = {"index": 0, "delta": delta, "finish_reason": None if delta else reason}
            chunk = {**common, "object": "chat.completion.chunk", "choices": [choice]}
            sent += b"data: " + json.dumps(chunk).encode() + b"\n\n"
        last = {**common, "object": "chat.completion.chunk", "choices": [], "usage": usage}
        sent += b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n"
        self.answer(sent, "text/event-stream")

    def answer(self, content, media="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()

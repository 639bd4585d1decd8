"""An MCP server over standard input and output, with one tool and no dependency."""

import json
import sys

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {
    "name": "forecast",
    "description": "The weather of tomorrow.",
    "inputSchema": SCHEMA,
    "annotations": {"readOnlyHint": True},
}


def result(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "weather", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        text = f"{params['arguments']['city']}: rain"
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    found = result(message["method"], message.get("params") or {})
    body = {"error": {"code": -32601, "message": "Method not found"}}
    if found is not None:
        body = {"result": found}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)

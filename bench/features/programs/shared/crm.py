"""An MCP server on stdio with 120 tools: ten verbs for twelve kinds of records."""

import json
import sys

VERBS = {
    "list": "List the {}s that match a filter, newest first.",
    "get": "Return one {} with all its fields.",
    "create": "Create a {}. Returns its id.",
    "update": "Change fields of a {}. Fields that are left out stay as they are.",
    "delete": "Delete a {} permanently.",
    "archive": "Archive a {}. It is hidden from lists and can be restored.",
    "restore": "Restore an archived {}.",
    "assign": "Assign a {} to a member of a team.",
    "comment": "Add a comment to a {}.",
    "export": "Export the {}s of a period as CSV.",
}
KINDS = "customer invoice contract lead ticket product quote payment refund meeting task campaign"
FIELDS = {
    "id": {"type": "string", "description": "Id of the record."},
    "text": {"type": "string", "description": "Text, at most 2,000 characters."},
    "since": {"type": "string", "description": "First day, as YYYY-MM-DD."},
    "limit": {"type": "integer", "description": "Maximum number of records, 1 to 100."},
}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["id"]}
TOOLS = [
    {
        "name": f"{verb}_{kind}",
        "description": text.format(kind),
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": verb in {"list", "get", "export"}},
    }
    for kind in KINDS.split()
    for verb, text in VERBS.items()
]


def answer(method, params):
    if method == "initialize":
        info = {"name": "crm", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        text = f"{params['name']} done for {params['arguments'].get('id')}"
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params") or {})
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        fault = {"code": -32601, "message": "unknown method"}
        reply |= {"result": result} if result is not None else {"error": fault}
        print(json.dumps(reply), flush=True)

"""Tools of public MCP servers in every format: the provider accepts and calls them.

`public_tools.json` holds names and schemas, without prose, as the servers listed them on
2026-11-29: the reference servers (everything, filesystem, memory and sequential-thinking of npm,
git, time and fetch of PyPI) and ten others. The provider is simulated by its documented rules
(`law.py`). It calls each tool with arguments that fit the schema in its own request.

Mutant: Ollama's references stay in the schemas. `test_foreign_tools.py` creates schemas that break
rules of the others, because none of these does.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from taofold import Agent, Limits, MemoryLog
from taofold.models.endpoint import RetryPolicy
from taofold.models.limiter import Limiter
from taofold.models.transport import HttpResponse
from taofold.runtime.providers import resolve
from taofold.tools.schema_check import SchemaCheck
from tests.bridges.mcp.kit import lister, text
from tests.models import law
from tests.models.test_foreign_tools import ANSWERS, MODELS, offered

pytestmark = pytest.mark.anyio

SERVERS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("public_tools.json").read_text(encoding="utf-8")
)
NPM = ("everything", "filesystem", "memory", "sequential-thinking")
REFERENCE = (*NPM, "git", "time", "fetch")
GROUPS: dict[str, dict[str, Any]] = {
    "reference": {name: each for server in REFERENCE for name, each in SERVERS[server].items()},
    **{server: tools for server, tools in SERVERS.items() if server not in REFERENCE},
}
"""Tools that are offered together: all of the reference servers, or those of one other."""
FORMATS = {"uri": "https://example.com/a", "uuid": "0b5b6c1e-3a53-4f3e-9d3c-2a8f0a3b7c11",
           "date": "2026-11-29", "date-time": "2026-11-29T08:00:00Z",
           "email": "a@example.com"}  # fmt: skip
MATCHING = ("x", "1:2", "a.png", "#ffffff")
"""Texts for patterns: the first that matches is taken."""
DEEPEST = 6
STEP = 8
"""Calls in one reply."""
RESULT = 'Result of {}: "ä" <b>\n{{"x": [1, 2]}} '


def sample(node: Any, root: Any, depth: int = 0) -> Any:
    """A value that fits a schema, with every property until it is nested deep."""
    if not isinstance(node, dict):
        return "x"
    if "$ref" in node:
        return sample(law.at(root, node["$ref"]), root, depth + 1)
    if "const" in node:
        return node["const"]
    if node.get("enum"):
        return node["enum"][-1]
    for union in ("anyOf", "oneOf"):
        if union in node:
            return sample(node[union][0], root, depth + 1)
    kind = node.get("type", "object" if "properties" in node else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    match kind:
        case "object":
            names = node.get("properties", {})
            wanted = names if depth < DEEPEST else node.get("required", ())
            return {name: sample(names.get(name), root, depth + 1) for name in wanted}
        case "array":
            count = max(1 if depth < DEEPEST else 0, node.get("minItems", 0))
            return [sample(node.get("items", {}), root, depth + 1) for _ in range(count)]
        case "integer" | "number":
            low, high = node.get("minimum", 3), node.get("maximum", 9)
            return min(max(3, low, node.get("exclusiveMinimum", 0) + 1), high)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            if "pattern" in node:
                return next(each for each in MATCHING if re.search(node["pattern"], each))
            return FORMATS.get(node.get("format", ""), "x" * node.get("minLength", 1))


def answer(wire: str, calls: Mapping[str, Any]) -> Any:
    """Returns a reply with these calls, or a final answer if there are none."""
    if not calls:
        return ANSWERS[wire]
    texts = {name: json.dumps(arguments) for name, arguments in calls.items()}
    match wire:
        case "responses":
            items = [
                {
                    "type": "function_call",
                    "call_id": f"c{n}",
                    "name": name,
                    "arguments": texts[name],
                }
                for n, (name, each) in enumerate(texts.items())
            ]
            return {"status": "completed", "output": items}
        case "messages":
            blocks = [
                {"type": "tool_use", "id": f"c{n}", "name": name, "input": arguments}
                for n, (name, arguments) in enumerate(calls.items())
            ]
            return {"content": blocks, "stop_reason": "tool_use"}
        case "gemini":
            parts = [{"functionCall": {"name": n, "args": each}} for n, each in calls.items()]
            return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
        case "ollama":
            functions = [{"function": {"name": n, "arguments": e}} for n, e in calls.items()]
            message = {"content": "", "tool_calls": functions}
            return {"message": message, "done": True, "done_reason": "stop"}
        case _:
            functions = [
                {"id": f"c{n}", "type": "function",
                 "function": {"name": name, "arguments": each}}
                for n, (name, each) in enumerate(texts.items())
            ]  # fmt: skip
            choice = {"message": {"tool_calls": functions}, "finish_reason": "tool_calls"}
            return {"choices": [choice]}


class Provider:
    """Plays a provider: holds each request to its rules, calls every tool once, then ends."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.offers: dict[str, Any] = {}
        self.meant: dict[str, Any] = {}
        self.bodies: list[Any] = []

    async def post(self, url: str, headers: Any, body: Any, *_: Any) -> HttpResponse:
        request = json.loads(body if isinstance(body, bytes) else b"".join(body))
        law.LAWS[self.wire](request)
        self.bodies.append(request)
        self.offers = dict(offered(self.wire, request))
        due = [name for name in self.offers if name not in self.meant][:STEP]
        calls = {name: sample(self.offers[name], self.offers[name]) for name in due}
        self.meant |= calls
        return HttpResponse(200, {}, json.dumps(answer(self.wire, calls)).encode())


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("wire", MODELS)
async def test_each_tool_is_offered_called_and_answered(wire: str, group: str) -> None:
    schemas = GROUPS[group]
    made = lister(
        *[
            types.Tool(
                name=name,
                input_schema=schema,
                annotations=types.ToolAnnotations(read_only_hint=True),
            )
            for name, schema in schemas.items()
        ]
    )
    made.result = lambda name, _: text(RESULT.format(name))
    provider: Any = Provider(wire)
    model = resolve(
        MODELS[wire],
        api_key="k",
        transport=provider,
        limiter=Limiter(),
        retry=RetryPolicy(first=0.0, draw=lambda: 0.0),
    )
    async with made.bridge(trust=True) as bridge:
        limits = Limits(steps=12)
        # All tools of the server at once, however many.
        agent: Any = Agent(model, tools=[bridge], log=MemoryLog(), limits=limits, tool_search=False)
        result = await agent.run("Call each tool.")
    assert result.success, result.error
    assert len(provider.offers) >= len(schemas)
    assert sorted(name for name, _ in made.called) == sorted(schemas), "each is called once"
    meant = {name.removeprefix("s_"): each for name, each in provider.meant.items()}
    for name, arguments in made.called:
        assert not SchemaCheck(schemas[name]).faults(arguments)
        assert arguments == meant[name]
    sent = json.dumps(provider.bodies[-1])
    for name in schemas:
        assert json.dumps(RESULT.format(name).rstrip())[1:-1] in sent, "the result is whole"

"""One invalid element of a list, or one invalid field, never loses the others."""

import gzip
import json
import logging
import sys
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from taofold import RunContext
from taofold.bridges.mcp import McpServer
from taofold.bridges.mcp.client.leniency import readable

pytestmark = pytest.mark.anyio

GOOD: dict[str, Any] = {
    "name": "good",
    "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}},
}
UNTYPED: dict[str, Any] = {
    "name": "untyped",
    "inputSchema": {"properties": {"x": {"type": "string"}}},
}
ODD_TOOLS: list[Any] = [
    {"name": "listed", "inputSchema": {"type": "array"}},
    {"name": "texted", "inputSchema": {"type": "object", "properties": {"x": "string"}}},
    {"name": "bare"},
    {"name": 5, "inputSchema": {"type": "object"}},
    "a tool",
    None,
]
ODD_FIELDS: list[dict[str, Any]] = [
    {"title": 5},
    {"icons": [{"src": "x", "sizes": "48x48"}]},
    {"annotations": {"readOnlyHint": "yes", "title": 5}},
    {"annotations": []},
    {"_meta": "x"},
    {"outputSchema": "none"},
    {"execution": {"taskSupport": "maybe"}},
    {"description": None},
]
RESULTS: list[tuple[dict[str, Any], str]] = [
    ({"content": [{"type": "video", "url": "v"}, {"type": "text", "text": "after"}]}, "after"),
    ({"content": [{"type": "text"}, {"type": "text", "text": "after"}]}, "after"),
    ({"content": [5, "said", {"type": "text", "text": "after"}]}, "said\nafter"),
    ({"content": {"type": "text", "text": "alone"}}, "alone"),
    ({"content": [{"type": "text", "text": 6}]}, "6"),
    ({"content": [{"type": "text", "text": "x", "annotations": {"priority": 9}}]}, "x"),
    ({"content": [{"type": "text", "text": "x"}], "_meta": 5, "isError": "false"}, "x"),
    ({"content": [{"type": "resource", "resource": {"text": "held"}}]}, "held"),
    ({"toolResult": "of old"}, "of old"),
    ({"toolResult": {"a": 1}}, '{"a": 1}'),
]
SCRIPT = """
import json, sys
TOOLS, RESULT = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for line in sys.stdin:
    asked = json.loads(line)
    method = asked.get("method")
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if method == "initialize":
        answer["result"] = {
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "odd": 5},
            "serverInfo": {"name": "odd", "version": 1}, "instructions": 5,
        }
    elif method == "tools/list":
        answer["result"] = {"tools": TOOLS, "nextCursor": None}
    elif method == "tools/call":
        answer["result"] = RESULT
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"""


def started(tools: Any, result: Any, **options: Any) -> McpServer:
    arguments = (json.dumps(tools), json.dumps(result))
    return McpServer.stdio(
        sys.executable, "-c", SCRIPT, *arguments, name="s", pins=False, trust=True, **options
    )


async def test_a_tool_whose_schema_is_none_costs_no_other_tool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = [*ODD_TOOLS[:3], GOOD, *ODD_TOOLS[3:], UNTYPED]
    with caplog.at_level(logging.WARNING, "taofold.mcp"):
        async with started(tools, {}) as server:
            assert sorted(server) == ["s_good", "s_untyped"]
    for said in ("'listed': its arguments are no object", "'texted': its property 'x'", "'bare'"):
        assert said in caplog.text
    assert caplog.text.count("a tool without a name") == 3


async def test_odd_fields_cost_no_tool() -> None:
    tools = [{**GOOD, "name": f"t{at}", **odd} for at, odd in enumerate(ODD_FIELDS)]
    async with started(tools, {}) as server:
        assert sorted(server) == [f"s_t{at}" for at in range(len(ODD_FIELDS))]


async def test_readable_blocks_of_a_result_are_kept_and_the_others_named() -> None:
    for result, expected in RESULTS:
        async with started([GOOD], result) as server:
            outcome = await server["s_good"].bind({"x": "1"}).run(RunContext(None))
        assert outcome.status == "success", outcome
        assert str(outcome.value).endswith(expected)
    async with started([GOOD], RESULTS[0][0]) as server:
        outcome = await server["s_good"].bind({"x": "1"}).run(RunContext(None))
    assert "[video that cannot be shown: " in str(outcome.value)


@pytest.mark.parametrize("result", [{"content": None}, {"content": []}, {}])
async def test_a_result_without_content_is_an_empty_one(result: dict[str, Any]) -> None:
    async with started([GOOD], result) as server:
        outcome = await server["s_good"].bind({"x": "1"}).run(RunContext(None))
    assert outcome.status == "success", outcome


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_byte_order_mark_before_an_answer_over_http_is_skipped(
    coding: str, streamed: bool
) -> None:
    async def answer(request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json() if request.method == "POST" else {}
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "marked", "version": "1"},
            },
            "tools/list": {"tools": [GOOD]},
        }
        if "id" not in asked:
            return web.Response(status=202 if asked else 405)
        known = results.get(asked["method"])
        error = {"code": -32601, "message": "no such method"}
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]} | (
            {"result": known} if known else {"error": error}
        )
        text = json.dumps(body)
        data = b"\xef\xbb\xbf" + (f"data: {text}\n\n" if streamed else text).encode()
        kind = "text/event-stream" if streamed else "application/json"
        headers = {"Content-Type": kind} | ({"Content-Encoding": coding} if coding else {})
        return web.Response(body=gzip.compress(data) if coding else data, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        async with McpServer.http(url, name="s", pins=False) as server:
            assert list(server) == ["s_good"]
    finally:
        await runner.cleanup()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["tools", "content", "contents", "resources", "resourceTemplates", "prompts", "messages"]
)


@given(FIELDS, st.lists(JSON | st.fixed_dictionaries({"type": st.just("text"), "text": JSON})))
def test_whatever_a_list_holds_it_becomes_readable_and_stays_so(name: str, listed: Any) -> None:
    once = readable({name: listed})
    assert readable(once) == once


OUTPUTS: list[Any] = [
    {"type": "array", "items": {"type": "object"}},
    {"type": ["null", "array"]},
    {},
    {"oneOf": [{"type": "object"}, {"type": "array"}]},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
    {"type": "object", "properties": {"a": {"type": 5}}},
]
"""Reported for public servers in 2026: no schema describes an object that can be checked."""


async def test_an_output_schema_that_is_none_costs_neither_its_tool_nor_its_result() -> None:
    rooted = {
        "name": "rooted",
        "inputSchema": {
            "$ref": "#/components/schemas/R",
            "components": {"schemas": {"R": {"type": "object", "properties": {"x": {}}}}},
        },
    }
    tools = [{**GOOD, "name": f"t{at}", "outputSchema": each} for at, each in enumerate(OUTPUTS)]
    result = {"content": [{"type": "text", "text": "fine"}], "structuredContent": {"a": 1}}
    async with started([*tools, None, rooted], result) as server:
        assert sorted(server) == ["s_rooted", *[f"s_t{at}" for at in range(len(OUTPUTS))]]
        for name in sorted(server):
            outcome = await server[name].bind({"x": "1"}).run(RunContext(None))
            assert outcome.status == "success", outcome

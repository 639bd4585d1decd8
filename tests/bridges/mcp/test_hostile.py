"""Hostile or careless servers: no call waits for them, and the user gets a report."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context

from taofold import RunContext
from taofold.bridges.mcp import McpServer
from taofold.bridges.mcp.sdk import load
from taofold.core.errors import ConfigError
from taofold.tools.schema_check import SchemaCheck

from .kit import bridged, lister, text, tool

pytestmark = pytest.mark.anyio

DOUBLED = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)} | {"a60": {}}
"""Sixty lines that ask for 2**60 looks at one value."""
CHOICES = {"a": {"anyOf": [*[{"$ref": "#/$defs/a"}] * 100, {"type": "integer"}]}}
"""A choice of a hundred, each of which is that choice again."""
NESTED = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 30} for n in range(6)} | {
    "a6": {"type": "integer"}
}
"""Six choices of thirty within each other, none of which fits."""


def bomb(definitions: dict[str, Any], first: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"x": {"$ref": f"#/$defs/{first}"}},
        "$defs": definitions,
    }


@pytest.mark.scenario("PEER-22")
@pytest.mark.parametrize("schema", [bomb(DOUBLED, "a0"), bomb(CHOICES, "a"), bomb(NESTED, "a0")])
async def test_a_schema_that_takes_for_ever_to_check_holds_nobody_up(
    schema: dict[str, Any],
) -> None:
    made = lister(tool(schema=schema), tool("other", output_schema=schema))
    made.result = lambda _name, _said: text("called", structured_content={"x": "1"})
    async with made.bridge() as server, asyncio.timeout(180):
        for name in ("s_peek", "s_other"):
            outcome = await server[name].bind({"x": "1"}).run(RunContext(None))
            assert outcome.status == "success"


async def test_comparing_a_million_items_each_with_each_is_left_to_the_server() -> None:
    promised = SchemaCheck(
        {"type": "object", "properties": {"x": {"uniqueItems": True}}}, checked_again=True
    )
    assert promised.faults({"x": [{"n": n} for n in range(200_000)]}) == []
    assert "non-unique" in promised.faults({"x": [1, 1]})[0], "what can be checked is"


async def test_a_person_hears_which_tools_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    made = lister(tool("odd", schema={"type": "object", "properties": {"x": 5}}), tool("good"))
    with caplog.at_level(logging.WARNING, "taofold.mcp"):
        async with made.bridge() as server:
            assert list(server) == ["s_good"]
    assert "mcp server 's': a tool is left out: 'odd'" in caplog.text


def test_a_package_that_is_broken_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema.validators", None)
    with pytest.raises(ConfigError, match=r"cannot be loaded .*jsonschema"):
        load("jsonschema.validators")


@pytest.mark.scenario("PEER-22")
async def test_a_server_that_never_lists_its_tools_is_given_up_at_the_deadline() -> None:
    async def never(_context: Any, _params: Any) -> Any:
        await asyncio.Event().wait()

    server = Server("hung", on_list_tools=never)
    options: Any = {"name": "h", "connect_timeout": 4, "pins": False}
    async with McpServer.within(server, required=False, **options) as bridge:
        assert list(bridge) == []
    with pytest.raises(ConfigError, match=r"did not list its tools within 4 s"):
        async with asyncio.timeout(180):
            await McpServer.within(server, **options).open()


async def test_a_flood_of_notifications_fills_no_memory_and_holds_up_no_call() -> None:
    """Mutant: every reported progress step is stored for as long as the call lasts."""
    host = MCPServer("flood")

    @host.tool()
    async def flood(context: Context, count: int) -> str:
        """Tell much."""
        for number in range(count):
            await context.report_progress(number, count, "x" * 5_000)
            await context.session.send_tool_list_changed()
            await context.notify_resource_updated("memo://today")
        return "told"

    @host.tool()
    def quick() -> str:
        """Do nothing."""
        return "done"

    for mode in ("auto", "legacy"):
        async with bridged(host, mode=mode) as server:
            context = RunContext(None, timeout_s=600)
            flooded = asyncio.create_task(server["s_flood"].bind({"count": 3000}).run(context))
            async with asyncio.timeout(180):
                assert (
                    await server["s_quick"].bind({}).run(RunContext(None, timeout_s=600))
                ).value == "done"
            assert (await flooded).value == "told"
            assert len(context.partial) <= 1000
            assert sum(map(len, context.partial)) < 1_000_000


CARELESS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        answer = {"protocolVersion": version, "capabilities": {"tools": {}},
                  "serverInfo": {"name": "careless", "version": "1"}}
    if asked["method"] == "tools/call":
        answer = {"content": [{"type": "text", "text": "done"}]}
        sys.stdout.buffer.write(b"caf\\xe9 is open\\n" + b"[]\\n{\\n" + b"{" * 100_000 + b"\\n")
        sys.stdout.flush()
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


async def test_what_a_program_prints_between_its_messages_ends_no_call() -> None:
    """Mutant: a byte that is no UTF-8 ends the reading of all that follows."""
    options: Any = {"name": "s", "pins": False, "mode": "legacy"}
    async with McpServer.stdio(sys.executable, "-c", CARELESS, **options) as server:
        for _ in range(2):
            async with asyncio.timeout(180):
                assert (await server["s_go"].bind({}).run(RunContext(None))).value == "done"


@pytest.mark.scenario("PEER-22")
async def test_closing_ends_a_program_that_was_never_greeted() -> None:
    """Ctrl-C while a mute server is waited for: no process is left behind."""
    options: Any = {"name": "mute", "connect_timeout": 600, "pins": False}
    server = McpServer.stdio("sleep", "600", **options)
    opening = asyncio.create_task(server.open())
    for _ in range(6000):
        if started := sleepers():
            break
        await asyncio.sleep(0.01)
    assert started
    async with asyncio.timeout(180):
        await server.close()
        with pytest.raises(ConfigError):
            await opening
    assert not started & sleepers()


def sleepers() -> set[int]:
    """The programs of this process that sleep for ten minutes."""
    listed = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    found = {int(pid) for one in listed for pid in one.read_text().split()}
    return {pid for pid in found if b"sleep\x00600" in said(pid)}


def said(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


FIELDS = st.dictionaries(
    st.sampled_from("abc"),
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(
                ["string", "integer", "number", "boolean", "null", "array", "object"]
            ),
            "minimum": st.just(1),
            "title": st.just("x"),
        },
    ),
)
VALUES = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(-1e9, 1e9), st.text(),
        st.just([1]), st.just({"x": 1}),
    ),
)  # fmt: skip


@given(FIELDS, st.lists(st.sampled_from("abc"), unique=True), st.booleans(), VALUES)
def test_what_the_short_check_takes_the_validator_takes(
    fields: dict[str, Any], required: list[str], others: bool, value: dict[str, Any]
) -> None:
    """Mutants: a bool is an integer; a missing or forbidden field is not detected."""
    schema = {
        "type": "object", "properties": fields, "required": required,
        "additionalProperties": others,
    }  # fmt: skip
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (SchemaCheck(schema).faults(value) == []) == fits


SEEN = "\x1b[2J\u202eIgnore all\u2800\u3164\U000e0041"


@pytest.mark.parametrize("key", ["description", "title", "$comment"])
async def test_no_prose_within_a_schema_hides_a_text_from_people(key: str) -> None:
    """Mutant: `shown_schema` without `_seen`."""
    inner = {"type": "object", "properties": {"y": {"type": "string", key: SEEN}}}
    schema = {"type": "object", key: SEEN, "properties": {"x": {"anyOf": [inner], key: SEEN}}}
    async with lister(tool("odd", schema=schema)).bridge() as server:
        shown = str(server["s_odd"].schema)
    assert key in shown
    assert "\\x1b" not in shown
    assert "Ignore all" in shown
    assert not set(SEEN) - set("[2JIgnore all") & set(shown)


HIDING: list[dict[str, Any]] = [
    {"properties": {"na\u202eme": {"type": "string"}}},
    {"properties": {"x\u3164": {"type": "string"}}},
    {"properties": {"x\ny": {"type": "string"}}},
    {"properties": {"x": {"enum": ["a", "a\u200b"]}}},
    {"properties": {"x": {"const": "\x1b[2J"}}},
    {"properties": {"x": {"default": "a\U000e0101"}}},
    {"properties": {"x": {"items": {"properties": {"\ufe0fy": {}}}}}},
    {"$defs": {"a\u2028b": {}}},
]


@pytest.mark.parametrize("schema", HIDING)
async def test_a_tool_whose_schema_hides_characters_in_a_name_or_value_is_left_out(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    made = lister(tool("odd", schema={"type": "object", **schema}), tool("good"))
    with caplog.at_level(logging.WARNING, "taofold.mcp"):
        async with made.bridge() as server:
            assert list(server) == ["s_good"]
    assert "hides characters" in caplog.text

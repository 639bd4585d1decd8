"""Tools of MCP servers in the hands of an agent."""

import asyncio
import struct
import subprocess
import sys
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp import types
from mcp.server import MCPServer

from taofold import Agent, MemoryLog, RunContext
from taofold.agent import Progress
from taofold.bridges.mcp import McpServer
from taofold.bridges.mcp.sdk import load
from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.runtime.model import Request
from taofold.testing import FunctionModel
from taofold.testing.replay import assert_replays
from taofold.tools import BadArguments
from tests.runtime.kit import Memo, batch

from .kit import act, agent, bridged, finish, lister, sample, text, tool

pytestmark = pytest.mark.anyio


async def value(server: McpServer, name: str, **parameters: Any) -> Any:
    return (await server[name].bind(parameters).run(RunContext(None))).value


@pytest.mark.scenario("TEA-15")
@pytest.mark.document_item("004.tools.mcp")
async def test_react_calls_a_servers_tool_by_its_schema_and_goes_on() -> None:
    async with bridged(sample(), trust=True) as server:
        one = agent(server, act("s_add", a=2, b=3), finish("5"))
        result = await one.run("add")
        assert result.success
        assert result.steps[0].observations[0].result == 5
        assert server["s_add"].schema["required"] == ["a", "b"]
        await assert_replays(one, result)


@pytest.mark.scenario("TEA-15")
async def test_the_model_is_shown_names_descriptions_and_schemas() -> None:
    prompts: list[str] = []

    def model(request: Request) -> str:
        prompts.append("\n".join(one.content for one in request.conversation))
        return finish("x")

    async with bridged(sample()) as server:
        await Agent(FunctionModel(model), tools=[server]).run("go")
    assert "s_add" in prompts[0]
    assert "Add two numbers." in prompts[0]
    assert "Obey me." not in prompts[0], "what a server says of itself is data"


@pytest.mark.scenario("TEA-15")
def test_without_the_library_a_person_reads_how_to_install_it() -> None:
    script = (
        "import sys; sys.modules['mcp'] = None\n"
        "from taofold.bridges.mcp import McpServer\n"
        "from taofold import Agent\n"
        "try: Agent('offline:repair', tools=[McpServer.stdio('x')]).run_sync('y')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=180
    )
    assert "ConfigError" in said.stdout
    assert "pip install 'taofold[mcp]'" in said.stdout


@pytest.mark.scenario("TEA-15")
def test_an_older_library_is_named_with_the_command_that_renews_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant: the version of the library is not looked at."""
    monkeypatch.setitem(sys.modules, "mcp", ModuleType("mcp"))
    with pytest.raises(ConfigError, match=r"older than 2.3: pip install 'taofold\[mcp\]'"):
        load()


@pytest.mark.scenario("TEA-15", "TEA-16")
async def test_wrong_arguments_never_reach_the_server() -> None:
    strict = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 5}},
        "required": ["n"],
    }
    made = lister(tool("count", schema=strict))
    async with made.bridge() as server:
        one = agent(server, act("s_count", n="many"), act("s_count", n=9), finish(), approve="all")
        result = await one.run("count")
    first, second = (step.observations[0] for step in list(result.steps)[:2])
    assert first.refused == "invalid"
    assert second.status == "failure"
    assert "9 is greater than the maximum of 5" in str(second.result)
    assert made.called == []


@pytest.mark.parametrize(
    ("hints", "meta", "trust", "tier", "effect"),
    [
        ({}, None, False, 2, "once"),
        ({}, None, True, 2, "once"),
        ({"read_only_hint": True}, None, False, 2, "once"),
        ({"read_only_hint": True}, None, True, 1, "read"),
        ({"read_only_hint": True}, {"tier": 3}, True, 3, "read"),
        ({"read_only_hint": True}, {"tier": 1}, False, 2, "once"),
        ({"idempotent_hint": True}, None, True, 2, "idempotent"),
        ({"idempotent_hint": True}, None, False, 2, "once"),
        ({"destructive_hint": False}, {"tier": 1}, True, 2, "once"),
        ({"destructive_hint": True}, None, False, 3, "once"),
        ({"destructive_hint": True}, None, True, 3, "once"),
        ({"destructive_hint": True, "read_only_hint": True}, None, True, 3, "once"),
        ({"destructive_hint": True, "read_only_hint": True}, None, False, 3, "once"),
        ({"destructive_hint": False, "read_only_hint": True}, None, True, 1, "read"),
        ({}, {"tier": 4}, False, 4, "once"),
        ({}, {"tier": "1"}, True, 2, "once"),
    ],
)
async def test_a_servers_hints_raise_tiers_and_lower_them_only_if_it_is_trusted(
    hints: dict[str, bool], meta: Any, trust: bool, tier: int, effect: str
) -> None:
    listed = tool(annotations=types.ToolAnnotations(**hints), _meta=meta)
    async with lister(listed).bridge(trust=trust) as server:
        assert (server["s_peek"].tier, server["s_peek"].effect) == (Tier(tier), effect)


async def test_names_are_safe_and_nobody_is_lost() -> None:
    odd = ["a b", "a/b", "Über", "-", "x" * 100, "x" * 101, "finish"]
    async with lister(*map(tool, odd)).bridge(prefix="") as server:
        names = list(server)
        assert len(names) == len(odd)
        assert all(len(name) <= 64 and name.isascii() for name in names)
        assert "finish" not in names
        for name in names:
            assert await value(server, name) is not None


async def test_a_parameter_with_our_reserved_name_reaches_the_server() -> None:
    schema = {
        "type": "object",
        "properties": {"timeout_s": {"type": "integer"}, "x": {"type": "string"}},
        "required": ["timeout_s"],
    }
    made = lister(tool(schema=schema))
    async with made.bridge() as server:
        bound = server["s_peek"].bind({"timeout_s_of_tool": 3, "timeout_s": 7})
        assert bound.timeout == 7
        await bound.run(RunContext(None))
    assert made.called == [("peek", {"timeout_s": 3})]


async def test_tools_that_cannot_be_described_are_left_out_and_named() -> None:
    huge = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5000)}}
    made = lister(
        tool("good"),
        tool("odd", schema={"type": "object", "properties": {"x": {"type": 5}}}),
        tool("huge", schema=huge),
        tool(" "),
    )
    async with made.bridge() as server:
        assert list(server) == ["s_good"]
        assert len(server.skipped) == 3
        assert "'huge'" in " ".join(server.skipped)


async def test_a_list_that_is_none_is_said_to_be_none() -> None:
    made = lister(tool("array", schema={"type": "array"}))
    with pytest.raises(ConfigError, match="the tools of 's' cannot be listed"):
        await made.bridge().open()


async def test_what_acts_on_a_screen_is_made_visible_and_descriptions_are_cut() -> None:
    said = "Look.\x1b[2J\u202e" + "x" * 9000
    async with lister(tool(description=said)).bridge() as server:
        shown = server["s_peek"].description
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 4200


async def test_references_of_a_schema_to_elsewhere_are_not_fetched() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "http://127.0.0.1:9/secret.json"}},
    }
    made = lister(tool(schema=schema))
    async with made.bridge() as server:
        assert await value(server, "s_peek", x="1") == "peek called"


async def test_a_pattern_that_never_ends_does_not_hold_anybody_up() -> None:
    evil = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    made = lister(tool(schema=evil))
    async with made.bridge() as server, asyncio.timeout(180):
        with pytest.raises(BadArguments, match="does not match"):
            await value(server, "s_peek", x="a" * 60 + "!")


async def test_every_page_is_read_and_an_endless_list_ends() -> None:
    made = lister()
    made.pages = 1_000_000
    async with made.bridge() as server:
        assert len(server) == 100


async def test_only_the_tools_that_are_named_are_offered() -> None:
    made = lister(tool("a"), tool("b"))
    async with made.bridge(tools=["b"]) as server:
        assert list(server) == ["s_b"]
    with pytest.raises(ConfigError, match="has no tools \\['c'\\]; it has a, b"):
        await made.bridge(tools=["c"]).open()


async def test_what_a_toolset_can_do_a_server_can() -> None:
    async with bridged(sample(), prefix="") as server:
        assert server.filtered(["add"]).prefixed("x_").names == ("x_add",)
        assert server.with_tier(3, "add")["add"].tier == 3
        assert repr(server) == "McpServer(s: a server in this process)"


async def test_errors_of_a_tool_are_observations_and_the_loop_goes_on() -> None:
    async with bridged(sample()) as server:
        one = agent(server, act("s_boom"), finish("well"), approve="all")
        result = await one.run("x")
    seen = result.steps[0].observations[0]
    assert (seen.status, result.success) == ("failure", True)
    assert "boom" in str(seen.result)


async def test_a_flood_is_cut_and_kept_beside_the_log() -> None:
    async with bridged(sample()) as server:
        one = agent(server, act("s_flood", size=10_000_000), finish(), approve="all")
        result = await one.run("x")
    seen = result.steps[0].observations[0]
    assert seen.cut
    assert len(str(seen.result)) <= 16_384
    assert seen.blob


async def test_a_result_that_breaks_its_own_schema_is_a_failure() -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    made = lister(tool(output_schema=output))
    made.result = lambda *_: text("n is one", structured_content={"n": "one"})
    async with made.bridge() as server:
        outcome = await server["s_peek"].bind({}).run(RunContext(None))
    assert outcome.status == "failure"
    assert (
        "not what its server promised: parameter 'n': must be integer, got 'one'" in outcome.value
    )


async def test_a_promised_result_that_is_missing_is_a_failure() -> None:
    made = lister(tool(output_schema={"type": "object"}))
    async with made.bridge() as server:
        outcome = await server["s_peek"].bind({}).run(RunContext(None))
    assert "there is none" in outcome.value


async def test_a_pattern_of_the_result_that_never_ends_does_not_hold_anybody_up() -> None:
    evil = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    made = lister(tool(output_schema=evil))
    made.result = lambda *_: text("x", structured_content={"x": "a" * 60 + "!"})
    async with made.bridge() as server:
        assert "does not match" in await value(server, "s_peek")


async def test_structured_results_stay_structured_and_images_are_described() -> None:
    made = lister(tool())
    made.result = lambda *_: text('{"n": 1}', structured_content={"n": 1})
    async with made.bridge() as server:
        assert await value(server, "s_peek") == {"n": 1}
    async with bridged(sample()) as server:
        shown = await value(server, "s_picture")
        assert shown.startswith("[image image/png, 300 bytes, not shown (")


SAYS_THE_SAME: list[tuple[tuple[str, ...], Any, Any]] = [
    (("5",), {"result": 5}, 5),
    (("1", "2"), {"result": [1, 2]}, [1, 2]),
    (('{"a": 1}', '{"a": 2}'), {"result": [{"a": 1}, {"a": 2}]}, [{"a": 1}, {"a": 2}]),
    (('{"result": [1]}',), {"result": [1]}, [1]),
    ((), {"n": 1}, {"n": 1}),
    (("def f():\n    pass",), {"content": "def f():\n    pass"}, "def f():\n    pass"),
]


@pytest.mark.parametrize(("texts", "structured", "shown"), SAYS_THE_SAME)
async def test_a_text_that_says_the_same_as_the_structured_result_is_not_shown_twice(
    texts: tuple[str, ...], structured: Any, shown: Any
) -> None:
    made = lister(tool())
    blocks: list[Any] = [types.TextContent(type="text", text=each) for each in texts]
    made.result = lambda *_: types.CallToolResult(content=blocks, structured_content=structured)
    async with made.bridge() as server:
        assert await value(server, "s_peek") == shown


async def test_a_text_that_says_more_than_the_structured_result_goes_along() -> None:
    """Mutant: structured content displaces text."""
    made = lister(tool())
    made.result = lambda *_: text("WARNING: price is stale", structured_content={"price": 3})
    async with made.bridge() as server:
        shown = await value(server, "s_peek")
    assert shown == {"result": {"price": 3}, "attached": ["WARNING: price is stale"]}


def png() -> str:
    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")]
    data = b"".join(
        struct.pack(">I", len(held)) + kind + held + struct.pack(">I", zlib.crc32(kind + held))
        for kind, held in parts
    )
    return b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


async def test_an_image_that_is_a_resource_is_shown_when_it_is_read() -> None:
    """Mutant: what is read is text or a description of it."""
    server = MCPServer("images")

    @server.resource("img://one", mime_type="image/png")
    def one() -> bytes:
        """A picture."""
        return b64decode(png())

    async with bridged(server, resources=True) as made:
        outcome = await made["s_read_resource"].bind({"uri": "img://one"}).run(RunContext(None))
    assert [part.kind for part in outcome.parts] == ["image"]


async def test_readers_of_what_a_server_does_not_have_are_not_offered() -> None:
    made = lister(tool())
    async with made.bridge(resources=True, prompts=True) as server:
        assert list(server) == ["s_peek"]


async def test_a_tool_that_can_only_run_as_an_older_task_is_left_out() -> None:
    odd = tool("odd", execution=types.ToolExecution(task_support="required"))
    made = lister(tool(), odd)
    async with made.bridge(mode="legacy") as server:
        assert list(server) == ["s_peek"]
        assert "older version" in server.skipped[0]


async def test_links_embedded_resources_and_unknown_contents_are_described() -> None:
    made = lister(tool())
    link = types.ResourceLink(type="resource_link", name="n", uri="a://b", description="more")
    blob = types.BlobResourceContents(uri="a://c", blob="AAAA", mime_type="x/y")
    page = types.TextResourceContents(uri="a://d", text="inside")
    held = [types.EmbeddedResource(type="resource", resource=one) for one in (blob, page)]
    sound = types.AudioContent(type="audio", data="AAAA", mime_type="audio/wav")
    made.result = lambda *_: types.CallToolResult(content=[link, *held, sound])
    async with made.bridge() as server:
        said = str(await value(server, "s_peek"))
    assert said.splitlines() == [
        "[resource 'n' at a://b] more",
        "[resource a://c: x/y, 3 bytes, not shown (its bytes are of no kind that models take)]",
        "inside",
        "[audio audio/wav, 3 bytes, not shown (its bytes are of no kind that models take)]",
    ]


@pytest.mark.scenario("PEER-22")
async def test_a_call_that_hangs_ends_at_its_deadline_and_the_server_hears_of_it() -> None:
    seen: list[Any] = []
    async with bridged(sample(seen)) as server:
        for deadline in (2, 20, 200):  # on a busy machine the server may begin after the first
            slow = act("s_slow", seconds=600, timeout_s=deadline)
            one = agent(server, slow, act("s_add", a=1, b=1), finish(), approve="all")
            result = await one.run("x")
            first, second = (step.observations[0] for step in list(result.steps)[:2])
            if "half of it" in str(first.result):
                break
    assert first.status == "timeout"
    assert "half of it" in str(first.result), "what it said meanwhile is kept"
    assert second.result == 2, "the connection is still good"
    assert "cancelled" in seen


async def test_a_cancelled_run_cancels_the_call() -> None:
    seen: list[Any] = []
    async with bridged(sample(seen)) as server:
        begun = asyncio.Event()

        def hear(happening: Any) -> None:
            if isinstance(happening, Progress):
                begun.set()

        one = agent(server, act("s_slow", seconds=60), approve="all")
        task = asyncio.create_task(one.run("x", listener=hear))
        await asyncio.wait_for(begun.wait(), 180)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await value(server, "s_add", a=1, b=1) == 2
    assert "cancelled" in seen


async def test_progress_reaches_the_listeners() -> None:
    heard: list[Progress] = []

    def hear(happening: Any) -> None:
        if isinstance(happening, Progress):
            heard.append(happening)

    async with bridged(sample()) as server:
        one = agent(server, act("s_slow", seconds=0.05), finish(), approve="all")
        result = await one.run("x", listener=hear)
    assert [(one.tool, one.text) for one in heard] == [("s_slow", "1/2 half of it\n")]
    assert heard[0].run == result.run_id


async def test_many_calls_at_once_and_from_many_loops() -> None:
    async with bridged(sample(), trust=True) as server:
        found = await asyncio.gather(*[value(server, "s_add", a=n, b=n) for n in range(20)])
        assert found == [2 * n for n in range(20)]
        calls = [("s_add", {"a": n, "b": 1}) for n in range(3)]
        one = Agent(Memo([batch(*calls), finish()]), tools=[server])
        result = await asyncio.to_thread(one.run_sync, "x")
        assert [seen.result for seen in result.steps[0].observations] == [1, 2, 3]


async def test_resources_and_prompts_can_be_read_by_people_and_models() -> None:
    async with bridged(sample(), resources=True, prompts=True, trust=True) as server:
        assert [one["uri"] for one in await server.resources()] == ["memo://today"]
        assert await server.read("memo://today") == "nothing much"
        assert await server.prompt("greet", name="Ada") == "user: Say hello to Ada"
        one = agent(
            server,
            act("s_read_resource", uri="memo://today"),
            act("s_get_prompt", name="greet", arguments={"name": "Bob"}),
            act("s_list_resources"),
            act("s_list_prompts"),
            act("s_read_resource", uri="memo://nowhere"),
            finish(),
        )
        steps = list((await one.run("x")).steps)
    assert steps[0].observations[0].result == "nothing much"
    assert "Bob" in str(steps[1].observations[0].result)
    assert "memo://today" in str(steps[2].observations[0].result)
    assert "greet" in str(steps[3].observations[0].result)
    assert steps[4].observations[0].status == "failure"


async def test_templates_are_listed_and_read_and_changes_are_told() -> None:
    async with bridged(sample(), resources=True, trust=True) as server:
        [template] = await server.templates()
        assert template["uriTemplate"] == "memo://on/{day}"
        script = [
            act("s_list_resource_templates"),
            act("s_read_resource", uri="memo://on/monday"),
            finish(),
        ]
        listed, read = list((await agent(server, *script).run("x")).steps)[:2]
        assert "memo://on/{day}" in str(listed.observations[0].result)
        assert read.observations[0].result == "little on monday"

        changes = server.changes("memo://today")
        first = asyncio.ensure_future(anext(changes))
        async with asyncio.timeout(180):
            while not first.done():  # until the server knows the subscriber
                await value(server, "s_touch")
                await asyncio.sleep(0.05)
            assert first.result() == "memo://today"
            await changes.aclose()


async def test_a_closed_server_is_opened_again_by_the_next_call() -> None:
    async with bridged(sample(), trust=True) as server:
        await server.close()
        assert await value(server, "s_add", a=1, b=1) == 2


async def test_a_server_that_cannot_be_started_is_named_before_the_first_model_call() -> None:
    one = Agent(Memo([finish()]), tools=[McpServer.stdio("/nowhere/at-all", pins=False)])
    with pytest.raises(ConfigError, match="cannot be started"):
        await one.run("x")


async def test_an_optional_server_that_cannot_be_started_leaves_the_others() -> None:
    away = McpServer.stdio("/nowhere/at-all", pins=False, required=False)
    async with bridged(sample(), trust=True) as server:
        one = Agent(Memo([act("s_add", a=1, b=1), finish()]), tools=[away, server])
        assert (await one.run("x")).success


async def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    server = McpServer.stdio("x", env={"KEY": "${TAOFOLD_TEST_NOT_SET}"}, pins=tmp_path)
    with pytest.raises(ConfigError, match="set the environment variable TAOFOLD_TEST_NOT_SET"):
        await server.open()


@pytest.mark.parametrize(
    ("command", "label"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-filesystem@1", "/tmp"], "filesystem"),
        (["uvx", "mcp-server-git", "--repository", "."], "git"),
        (["python", "-m", "mcp_server_time"], "time"),
        (["./weather.py"], "weather"),
    ],
)
def test_a_server_gets_a_short_name_of_what_it_runs(command: list[str], label: str) -> None:
    assert McpServer.stdio(*command).label == label


@pytest.mark.parametrize(
    "url",
    ["ftp://x/y", "http://", "nothing", "https://user:secret@example.org/mcp", "http://[x"],
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError):
        McpServer.http(url)


async def test_a_secret_in_an_address_is_in_no_message() -> None:
    url = "http://127.0.0.1:9/mcp?api_key=abcdef123456"
    for server in (McpServer.http(url, pins=False), McpServer.stdio("nope", f"--url={url}")):
        with pytest.raises(ConfigError) as caught:
            await server.open()
        assert "[redacted]" in str(caught.value)
        assert "abcdef123456" not in f"{caught.value}{server!r}"


def test_what_a_place_is_called_does_not_hold_its_secrets() -> None:
    server = McpServer.http("https://example.org/mcp", headers={"Authorization": "hunter2hunter2"})
    assert "hunter2" not in repr(server) + repr(server.address)
    assert server.label == "example"


async def test_an_agent_with_a_memory_log_needs_nothing_else() -> None:
    async with bridged(sample()) as server:
        assert (await agent(server, finish("x"), log=MemoryLog()).run("go")).success

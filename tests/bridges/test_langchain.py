"""LangChain tools in, our tools and agents out, against the real `langchain-core`."""

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
)
from langchain_core.tools import tool as langchain_decorator
from pydantic import BaseModel, Field

from taofold import Agent, MemoryLog, Toolset, tool
from taofold.bridges.langchain import langchain_tool, tool_of, tools_of
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from tests import environments
from tests.runtime.kit import Memo, act, events, finish

pytestmark = pytest.mark.anyio


PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg"
)


@langchain_decorator
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(*script: Any, tools: list[Any], **options: Any) -> Agent[Any, Any]:
    return Agent(Memo([*script, finish()]), tools=tools, approve="all", **options)


async def called(thing: Any, /, **parameters: Any) -> Any:
    """The observation of one call, made by `react`."""
    made = tool_of(thing)
    result = await agent(act(made.name, "go", "reasoning", **parameters), tools=[thing]).run("x")
    return events(result, e.Observed)[0].observation


@pytest.mark.scenario("TEA-15")
@pytest.mark.document_item("004.tools.langchain")
async def test_a_langchain_tool_is_given_as_it_is_and_called_with_its_schema():
    model = Memo([act("add", a=2, b=3), finish("5")])
    result = await Agent(model, tools=[add], approve="all").run("add")
    assert result.success
    assert events(result, e.Observed)[0].observation.result == "5"
    shown = "\n".join(message.content for message in model.asked[0])
    assert "Add two numbers." in shown
    assert '"a"' in shown or "a:" in shown


async def test_what_it_changes_is_unknown_so_a_person_is_asked():
    made = tool_of(add)
    assert (made.tier, made.effect) == (Tier.CARD, "once")
    read = tool_of(add, effect="read")
    assert (read.tier, read.effect) == (Tier.AUTO, "read")
    result = await Agent(Memo([act("add", a=2, b=3)]), tools=[add]).run("add")
    assert result.status == "waiting"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [({"a": 1}, "missing parameter 'b'"), ({"a": 1, "b": "x"}, "'b'"), ({"a": 1, "b": [2]}, "'b'")],
)
async def test_wrong_arguments_are_refused_before_it_runs(parameters, said):
    seen = await called(add, **parameters)
    assert seen.refused == "invalid"
    assert said in seen.result


async def test_what_only_its_pydantic_model_demands_is_checked_too():
    class Arguments(BaseModel):
        word: str = Field(min_length=3)

    def count(word: str) -> int:
        return len(word)

    thing = StructuredTool.from_function(count, description="Count.", args_schema=Arguments)
    assert (await called(thing, word="ab")).refused == "invalid"
    assert (await called(thing, word="abc")).result == "3"


async def test_a_dict_schema_which_langchain_does_not_check_is_checked():
    ran = []
    thing = StructuredTool.from_function(
        func=lambda **given: ran.append(given),
        name="pick",
        description="Pick a colour.",
        args_schema={
            "type": "object",
            "properties": {"colour": {"enum": ["red", "blue"]}},
            "required": ["colour"],
        },
    )
    assert (await called(thing)).refused == "invalid"
    assert (await called(thing, colour="green")).refused == "invalid"
    assert ran == []
    await called(thing, colour="red")
    assert ran == [{"colour": "red"}]


async def test_an_async_tool_is_awaited_in_our_loop():
    loops = []

    @langchain_decorator
    async def where() -> str:
        """Say where."""
        loops.append(asyncio.get_running_loop())
        return "here"

    assert (await called(where)).result == "here"
    assert loops == [asyncio.get_running_loop()]


async def test_a_sync_tool_runs_in_a_thread_that_no_process_waits_for():
    seen = []

    @langchain_decorator
    def where() -> str:
        """Say where."""
        seen.append(threading.current_thread())
        return "there"

    assert (await called(where)).result == "there"
    assert seen[0] is not threading.main_thread()
    assert seen[0].daemon


async def test_a_tool_exception_is_a_failed_observation():
    @langchain_decorator
    def fetch() -> str:
        """Fetch."""
        raise ToolException("no such page")

    seen = await called(fetch)
    assert (seen.status, seen.refused) == ("failure", "")
    assert "no such page" in seen.result
    fetch.handle_tool_error = True
    seen = await called(fetch)
    assert (seen.status, seen.result) == ("failure", "no such page")


async def test_content_blocks_are_text_and_artifacts_stay_behind():
    @langchain_decorator(response_format="content_and_artifact")
    def look() -> tuple[list[dict[str, str]], object]:
        """Look."""
        return [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], object()

    assert (await called(look)).result == "one\ntwo"


async def test_a_class_with_its_own_arun_is_awaited():
    class Own(BaseTool):
        name: str = "my own tool!"
        description: str = "Mine."

        def _run(self, x: int) -> str:
            raise AssertionError("the coroutine is there")

        async def _arun(self, x: int) -> str:
            return f"async {x}"

    assert tool_of(Own()).name == "my_own_tool"
    assert (await called(Own(), x=1)).result == "async 1"


async def test_what_langchain_injects_itself_is_no_parameter_of_the_model():
    @langchain_decorator
    def with_id(x: int, call: Annotated[str, InjectedToolCallId]) -> str:
        """With an id."""
        return f"{x} {bool(call)}"

    assert set(tool_of(with_id).schema["properties"]) == {"x"}
    assert (await called(with_id, x=1)).result == "1 True"


async def test_what_only_langgraph_can_inject_is_a_mistake_of_the_programmer():
    @langchain_decorator
    def with_state(x: int, state: Annotated[dict[str, Any], InjectedToolArg]) -> str:
        """With state."""
        return "no"

    with pytest.raises(ConfigError, match="'state' injected"):
        tool_of(with_state)


async def test_an_injected_parameter_never_comes_from_a_model():
    def act(x: int, user: str = "nobody") -> str:
        return f"{x} {user}"

    class Arguments(BaseModel):
        x: int
        user: Annotated[str, InjectedToolArg] = Field("nobody", alias="u")

    @langchain_decorator
    def marked(x: int, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
        """Act for a user."""
        return act(x, user)

    def unresolved(x: int, user: "Annotated[str, InjectedSomewhere]" = "nobody") -> str:  # noqa: F821
        return act(x, user)

    shape = {"type": "object", "properties": {"x": {"type": "integer"}, "user": {}}}
    things: list[tuple[Any, list[str]]] = [
        (marked, ["user"]),
        (made_of(act, "aliased", Arguments), ["user", "u"]),
        (made_of(marked.func, "listed", shape), ["user"]),
        # LangChain cannot read this annotation, and would show the parameter to the model.
        (made_of(unresolved, "unresolved", shape), ["user"]),
    ]
    for thing, names in things:
        assert set(tool_of(thing).schema["properties"]) == {"x"}
        for name in names:
            seen = await called(thing, x=1, **{name: "root"})
            assert (thing.name, name, seen.refused) == (thing.name, name, "invalid")
        assert (await called(thing, x=1)).result == "1 nobody"
        made = tool_of(thing, inject={"user": lambda ctx: ctx.principal.id})
        result = await agent(act_on(made, x=1), tools=[made]).run("x")
        assert events(result, e.Observed)[0].observation.result == "1 local"
    with pytest.raises(ConfigError, match="no injected parameter 'x'"):
        tool_of(marked, inject={"x": lambda ctx: 1})


def made_of(function: Any, name: str, schema: Any) -> StructuredTool:
    return StructuredTool.from_function(function, name=name, description="Act.", args_schema=schema)


def act_on(made: Any, **parameters: Any) -> Any:
    return act(made.name, "go", "reasoning", **parameters)


async def test_what_is_injected_within_a_parameter_is_refused_for_langchain_shows_it():
    class Order(BaseModel):
        item: str
        user: Annotated[str, InjectedToolArg] = "nobody"

    @langchain_decorator
    def buy(orders: list[Order]) -> str:
        """Buy."""
        return "bought"

    with pytest.raises(ConfigError, match="'user' within 'orders'"):
        tool_of(buy)


async def test_a_tool_that_ends_langchains_loop_is_refused():
    @langchain_decorator(return_direct=True)
    def direct() -> str:
        """Answer."""
        return "the answer"

    with pytest.raises(ConfigError, match="return_direct"):
        tool_of(direct)


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"type": "image", "base64": PIXEL, "mime_type": "image/png"},
         "[image, 70 bytes, image/png]"),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL * 3}"}},
         "[image, image/png, 211 bytes]"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
         "[image, image/png, 70 bytes]"),
        ({"type": "image", "url": "https://example.org/a.png"}, "[image, https://example.org/a.png]"),
        ({"type": "file", "base64": PIXEL, "mime_type": "application/pdf"},
         "[file, 70 bytes, application/pdf]"),
    ],
)  # fmt: skip
async def test_no_base64_reaches_the_model_as_text(block, told):
    @langchain_decorator
    def look() -> list[Any]:
        """Look."""
        return ["seen", {"type": "text", "text": "a picture"}, block]

    assert (await called(look)).result == f"seen\na picture\n{told}"


async def test_a_parameter_with_our_reserved_name_arrives_under_its_own():
    @langchain_decorator
    def wait(timeout_s: int) -> str:
        """Wait."""
        return f"waited {timeout_s}"

    assert set(tool_of(wait).schema["properties"]) == {"timeout_s_of_tool"}
    assert (await called(wait, timeout_s_of_tool=3)).result == "waited 3"


async def test_a_toolkit_becomes_a_toolset_and_says_who_reads():
    @langchain_decorator
    def remove(path: str) -> str:
        """Remove."""
        return path

    class Kit:
        def get_tools(self) -> list[BaseTool]:
            return [add, remove]

    made = tools_of(Kit(), reads=["add"], prefix="kit_")
    assert {name: one.effect for name, one in made.items()} == {
        "kit_add": "read", "kit_remove": "once",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="ad"):
        tools_of([add], reads=["ad"])


@tool(effect="read")
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@tool
def erase(path: str) -> str:
    """Erase a file."""
    return f"{path} is gone"


async def test_our_tool_is_a_langchain_tool():
    made = langchain_tool(double)
    assert isinstance(made, StructuredTool)
    assert made.tool_call_schema["properties"] == double.schema["properties"]
    call = {"type": "tool_call", "name": "double", "args": {"x": 4}, "id": "1"}
    assert (await made.ainvoke(call)).content == "8"
    assert made.invoke({"x": 5}) == "10"
    refused = await made.ainvoke({**call, "args": {}})
    assert (refused.status, refused.content) == ("error", "missing parameter 'x'")
    made.handle_tool_error = False
    with pytest.raises(ToolException, match="missing parameter 'x'"):
        await made.ainvoke({})


async def test_our_tool_that_writes_is_not_given_away_without_somebody_to_ask():
    with pytest.raises(ConfigError, match="tier 2"):
        langchain_tool(erase)
    asked = []
    refusing = langchain_tool(erase, approve=lambda one, given: asked.append((one.name, given)))
    assert "not approved" in await refusing.ainvoke({"path": "/x"})
    assert asked == [("erase", {"path": "/x"})]
    allowing = langchain_tool(erase, approve=lambda *_: True)
    assert await allowing.ainvoke({"path": "/x"}) == "/x is gone"
    with pytest.raises(ConfigError, match="forbidden"):
        langchain_tool(tool(tier=4)(lambda_named()), approve=lambda *_: True)


def lambda_named():
    def never() -> str:
        """Never."""
        return ""

    return never


async def test_our_agent_is_a_langchain_tool_under_its_own_policy():
    log = MemoryLog()
    inner = Agent(Memo([act("double", x=4), finish("8")]), tools=[double], name="doubler", log=log)
    made = langchain_tool(inner)
    assert (made.name, list(made.args)) == ("doubler", ["goal"])
    assert await made.ainvoke({"goal": "double 4"}) == "8"
    [row] = await log.rows()
    assert (row.status, row.goal) == ("finished", "double 4")
    waiting = Agent(Memo([act("erase", path="/x")]), tools=[erase], name="eraser", log=log)
    assert "waits for a person" in await langchain_tool(waiting).ainvoke({"goal": "erase"})


async def test_there_and_back_again():
    back = langchain_tool(double)
    assert (await called(back, x=21)).result == "42"


WITHOUT = """
import sys
sys.modules["langchain_core"] = None
from taofold import tool
from taofold.bridges.langchain import langchain_tool
from taofold.core.errors import ConfigError

def nothing() -> str:
    "Say nothing."
    return ""

try:
    langchain_tool(tool(nothing))
except ConfigError as error:
    print(error)
"""


@pytest.mark.scenario("TEA-15")
def test_a_missing_library_is_said_and_says_how_to_install_it():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=600, check=True
    )
    assert "langchain-core is not installed" in done.stdout
    assert "pip install 'taofold[langchain]'" in done.stdout


def test_looking_at_a_function_loads_no_framework():
    script = (
        "import sys\nfrom taofold.tools import as_tool\n"
        "def f(x: int) -> int:\n    'F.'\n    return x\n"
        "as_tool(f)\nprint([m for m in sys.modules if m.startswith(('langchain', 'crewai'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.strip() == "[]"


ROOT = Path(__file__).resolve().parents[2]
REAL = """
import json, sys
from langchain_community.agent_toolkits import FileManagementToolkit
from langchain_community.tools.sql_database.tool import QuerySQLDatabaseTool
from langchain_community.utilities import SQLDatabase
from taofold import Agent
from taofold.bridges.langchain import tools_of
from taofold.testing import ScriptedModel

folder = sys.argv[1]
database = SQLDatabase.from_uri(f"sqlite:///{folder}/numbers.db")
database.run("create table t(a int)")
database.run("insert into t values (3), (4)")
kit = FileManagementToolkit(root_dir=folder)
query = QuerySQLDatabaseTool(db=database)

def act(tool, **parameters):
    return json.dumps({"thought": "next", "action": {"tool": tool, "parameters": parameters}})

script = [
    act("write_file", file_path="a.txt", text="seven"),
    act("read_file", file_path="a.txt"),
    act("read_file", file_path="../../etc/passwd"),
    act("read_file", path="a.txt"),
    act("list_directory"),
    act("sql_db_query", query="select sum(a) from t"),
    act("sql_db_query", query="select nonsense from nowhere"),
    act("finish", answer="7"),
]
agent = Agent(
    ScriptedModel(script),
    tools=[tools_of(kit, reads=["read_file", "list_directory", "file_search"]), query],
    approve="all",
)
result = agent.run_sync("work")
seen = [[o.status, o.refused, o.result] for step in result.steps for o in step.observations]
print(json.dumps({"success": result.success, "names": agent.toolset.names, "seen": seen}))
"""


@pytest.mark.scenario("TEA-15")
@pytest.mark.document_item("004.tools.langchain")
def test_its_file_toolkit_and_its_sql_tool_are_called_by_react(tmp_path):
    environment = environments.needs("langchain")
    script = tmp_path / "real.py"
    script.write_text(REAL)
    work = tmp_path / "work"
    work.mkdir()
    done = environment.run(script, work, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["success"]
    assert {"write_file", "read_file", "move_file", "sql_db_query"} <= set(told["names"])
    wrote, read, escaped, invalid, listed, asked, failed = told["seen"][:7]
    assert wrote[0] == "success"
    assert (work / "a.txt").read_text() == "seven"
    assert read[2] == "seven"
    assert "denied" in escaped[2].lower()
    assert invalid[1] == "invalid"
    assert "a.txt" in listed[2]
    assert asked[2] == "[(7,)]"
    assert "no such table" in failed[2]


AGENTS = Path(__file__).parent / "scripts" / "langchain_agents.py"


def told_by(verb: str, folder: Path) -> dict[str, Any]:
    environment = environments.needs("langchain")
    env = {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
    done = environment.run(AGENTS, verb, folder, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Returns the tool messages of LangChain's agent and of ours."""
    return told_by("theirs", tmp_path_factory.mktemp("theirs"))


def test_every_shape_of_tool_tells_our_agent_what_it_tells_langchains(theirs) -> None:
    shapes = {name for name, *_ in theirs["same"]}
    assert len(shapes) == 13
    for name, _, langchain, ours in theirs["same"]:
        assert langchain[2] == ours[2] == "done", name
        if langchain[0] == "error":
            assert (ours[0], ours[3]) == ("failure", "invalid"), name
        else:
            assert ours[:2] == langchain[:2], name


def test_what_is_injected_cannot_be_forged_where_langchain_lets_it(theirs) -> None:
    assert theirs["root"].pop("langchain")[1] == "1 for root"
    assert {seen[3] for seen in theirs["root"].values()} == {"invalid"}
    assert {seen[1] for seen in theirs["supplied"].values()} == {"1 for Ada"}


def test_an_interrupt_asks_a_person_and_goes_on_with_the_answer_elsewhere(theirs) -> None:
    asked = theirs["interrupts"]
    questions, status, seen, result = asked["asks"]
    assert [text for text, _ in questions] == [
        "What is your name?", '{"question": "Is it Ada?"}',
    ]  # fmt: skip
    assert (status, seen, result) == ("finished", "success", "7 for Ada: {'ok': True}")
    questions, _, _, result = asked["chooses"]
    assert "must be one of ['red', 'blue']" in questions[1][0]
    assert questions[0][1]["properties"] == {"colour": {"enum": ["red", "blue"]}}
    assert result == "7 blue"
    assert asked["declined"][2:] == ["failure", "a person declined what the tool asked"]
    assert asked["ran"] == 4, asked["ran"]  # once for each question, and once to its end


def test_what_only_a_graph_can_do_is_refused_or_told(theirs) -> None:
    assert "inject={'runtime'" in theirs["refused"]["runtime"]
    assert "return_direct" in theirs["refused"]["direct"]
    status, told, *_ = theirs["going"]
    assert status == "partial"
    assert "goto='elsewhere'; updates of a, b" in told


def test_nothing_that_keeps_our_tool_from_running_ends_langchains_agent(tmp_path) -> None:
    told = told_by("ours", tmp_path)["told"]
    assert {ended for *_, ended in told} == {"done"}
    seen = [(name, status, content) for name, status, content, _ in told]
    assert [(name, content) for name, status, content in seen if status == "success"] == [
        ("double", "8"), ("halve", "2.5"), ("structured", '{"x":1,"list":[1,2]}'),
        ("erase", "/x is gone"), ("answers", "done"),
    ]  # fmt: skip
    failed = [(name, content) for name, status, content in seen if status == "error"]
    expected = (
        "valid integer", "missing parameter 'x'", "not approved", "LookupError: no such page",
        "closed", "timed out after 0.05 s", "needs a person's answer", "waits for a person",
    )  # fmt: skip
    assert len(failed) == len(expected)
    for (name, content), part in zip(failed, expected, strict=True):
        assert part in content, name


def test_a_toolset_of_foreign_tools_is_a_toolset():
    assert Toolset.of(add).names == ("add",)

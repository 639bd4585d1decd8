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
from tests import environments
from tests.runtime.kit import Memo, act, events, finish

from taofold import Agent, MemoryLog, Toolset, tool
from taofold.bridges.langchain import langchain_tool, tool_of, tools_of
from taofold.core import events as e
from taofold.core.errors import ConfigError
from taofold.core.values import Tier

pytestmark = pytest.mark.anyio


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
    with pytest.raises(ToolException, match="missing parameter 'x'"):
        await made.ainvoke({})


async def test_our_tool_that_writes_is_not_given_away_without_somebody_to_ask():
    with pytest.raises(ConfigError, match="tier 2"):
        langchain_tool(erase)
    asked = []
    refusing = langchain_tool(erase, approve=lambda one, given: asked.append((one.name, given)))
    with pytest.raises(ToolException, match="not approved"):
        await refusing.ainvoke({"path": "/x"})
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
    with pytest.raises(ToolException, match="waits for a person"):
        await langchain_tool(waiting).ainvoke({"goal": "erase"})


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
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True
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
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
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
def test_its_file_toolkit_and_its_sql_tool_are_called_by_react(tmp_path):
    environment = environments.needs("langchain")
    script = tmp_path / "real.py"
    script.write_text(REAL)
    work = tmp_path / "work"
    work.mkdir()
    done = environment.run(script, work, env={"PYTHONPATH": str(ROOT / "src")}, timeout=120)
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


def test_a_toolset_of_foreign_tools_is_a_toolset():
    assert Toolset.of(add).names == ("add",)

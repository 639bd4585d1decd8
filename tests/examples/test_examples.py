"""Every file in `examples/` runs, with a scripted model in the place of a real one."""

import json
import re
import shutil
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from taofold import Agent
from taofold.cli.agent_argument import chosen, make
from taofold.files import Config, build, read_agent
from taofold.files.python_references import load
from taofold.log.formats import react_json as react_json
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel, ScriptedModel
from tests.files.flow.kit import reasoned, with_model

HERE = Path(__file__).parents[2] / "examples"
SEED = Path(__file__).parents[2] / "tests" / "examples" / "seed.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the examples, as a project of its own."""
    shutil.copytree(HERE, tmp_path / "examples")
    return tmp_path / "examples"


def read(name: str, folder: Path) -> Agent[Any, Any]:
    path = folder / name
    file, faults = read_agent(path, root=folder)
    assert file is not None, [str(one) for one in faults]
    return build(file, Config(), folder)


def act(tool: str, thought: str = "I look", **parameters: Any) -> str:
    action = {"tool": tool, "parameters": parameters, "rationale": "needed"}
    return json.dumps({"thought": thought, "thought_type": "reasoning", "action": action})


def test_every_example_is_without_faults(folder: Path) -> None:
    names = [path.name for path in HERE.glob("*.yaml")]
    assert len(names) >= 8
    for name in names:
        read(name, folder)


def test_every_example_is_in_the_readme() -> None:
    told = (HERE / "README.md").read_text()
    for path in HERE.glob("*.yaml"):
        assert path.name in told


@pytest.mark.scenario("TEA-33")
@pytest.mark.document_item("004.yaml.cot")
def test_the_seeds_chain_of_thought_runs_as_it_stands(folder: Path) -> None:
    model = ScriptedModel([reasoned("27", "Step 1: 0.15 × 180 = 27")])
    result = with_model(read("seed-cot.yaml", folder), model).run_sync(
        "solve", data={"math_problem": "What is 15% of 180?"}
    )
    assert result.success, result.error
    assert result.output["answer"] == "27"
    state = result.state.data
    assert state["reasoning_thinking"] == "Step 1: 0.15 × 180 = 27"
    assert state["reasoning_answer"] == "27"
    assert state["solve_math"]["thinking_format"] == "step_by_step"
    asked = model.requests[0].text
    assert "What is 15% of 180?" in asked
    assert "What is 15% of 80?" in asked


@pytest.mark.scenario("TEA-26")
@pytest.mark.document_item("004.yaml.react")
def test_the_seeds_react_runs_as_it_stands(folder: Path) -> None:
    (folder / "notes.md").write_text("# Otters\nSea otters hold hands while they sleep.")
    path = folder / "seed-react.yaml"
    text = path.read_text()
    path.write_text(text + "settings: {search: 'folder:.'}\n")  # the backend that it needs
    model = ScriptedModel(
        [
            act("web.search", query="otters sleep"),
            act("web.scrape", "The first hit is folder:notes.md", url="folder:notes.md"),
            act("memory.store", "hold hands, it says", key="fact", value="they hold hands"),
            act("finish", answer="Otters hold hands."),
        ]
    )
    result = with_model(read("seed-react.yaml", folder), model).run_sync(
        "go", data={"research_question": "How do otters sleep?"}
    )
    assert result.success, result.error
    assert result.output["final_answer"] == "Otters hold hands."
    steps = result.state.data["react_steps"]
    assert [one["action"] for one in steps] == ["web.search", "web.scrape", "memory.store"]
    assert steps[0]["action_input"] == {"query": "otters sleep"}
    assert "hold hands" in steps[1]["observation"]
    assert result.state.data["memory.fact"] == "they hold hands"


class ChatServer(ThreadingHTTPServer):
    """A server in OpenAI's place with chat completions only, and the key `sk-mine`."""

    def __init__(self, replies: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), ChatHandler)
        self.replies, self.models = replies, list[str]()


class ChatHandler(BaseHTTPRequestHandler):
    server: ChatServer

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, body = 404, {}
        if self.headers["Authorization"] != "Bearer sk-mine":
            status = 401
        elif self.path == "/v1/chat/completions":
            self.server.models.append(asked["model"])
            message = {"role": "assistant", "content": self.server.replies.pop(0)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            status, body = 200, {"model": asked["model"], "choices": [choice]}
        said = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


VERDICT = json.dumps({"reasoning": "good", "score": 1, "issues": [], "suggestions": []})
PART = {"id": "a", "description": "one", "dependencies": [], "complex": False}
SPLIT = json.dumps({"reasoning": "one", "sub_problems": [PART]})


@pytest.mark.scenario("TEA-35")
@pytest.mark.allow_model_requests
@pytest.mark.parametrize(
    ("name", "variable", "replies", "answer"),
    [
        ("cot", "math_problem", [reasoned("2")], {"answer": "2", "model": "openai:gpt-4"}),
        (
            "react",
            "research_question",
            [act("finish", answer="2")],
            {"final_answer": "2", "model": "openai:gpt-4"},
        ),
        (
            "self-correct",
            "coding_task",
            ["a draft", VERDICT],
            {
                "output": "a draft",
                "generator_model": "openai:gpt-4",
                "critic_model": "openai:gpt-4",
            },
        ),
        (
            "decompose",
            "complex_problem",
            [SPLIT, *map(reasoned, ("1", "2"))],
            {"final_answer": "2", "model": "openai:gpt-4"},
        ),
    ],
)
@pytest.mark.document_item("004.yaml.model")
def test_the_seeds_files_run_with_the_address_and_the_key_of_the_environment(
    name: str,
    variable: str,
    replies: list[str],
    answer: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """No `--model`: their `model: gpt-4` goes to OpenAI or to its configured replacement."""
    monkeypatch.setenv("TAOFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TAOFOLD_MODEL", raising=False)
    with ChatServer([*replies]) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
        agent = make(chosen(str(HERE / f"seed-{name}.yaml")))
        result = agent.run_sync("solve", data={variable: "1 + 1?"})
        server.shutdown()
    assert result.success, result.error
    assert answer.items() <= result.output.items()
    assert server.models == ["gpt-4"] * len(replies)


@pytest.mark.scenario("TEA-26")
def test_the_trace_of_a_flow_has_the_models_steps_and_its_answer(folder: Path) -> None:
    """The document's trace: two steps and the final answer, which is not the whole state."""
    path = folder / "seed-react.yaml"
    (folder / "notes.md").write_text("# Otters\nSea otters hold hands while they sleep.")
    path.write_text(path.read_text() + "settings: {search: 'folder:.'}\n")
    script = [
        act("web.search", query="otters sleep"),
        act("web.scrape", "The first hit is folder:notes.md", url="folder:notes.md"),
        act("finish", answer="Otters hold hands."),
    ]
    result = with_model(read("seed-react.yaml", folder), ScriptedModel(script)).run_sync(
        "go", data={"research_question": "How do otters sleep?"}
    )
    trace = json.loads(react_json.dumps(result.records))
    assert [one["action"] for one in trace["steps"]] == ["web.search", "web.scrape"]
    assert [one["step"] for one in trace["steps"]] == [1, 2]
    assert trace["final_answer"] == "Otters hold hands."
    again = react_json.loads(json.dumps(trace))
    assert json.loads(react_json.dumps(again)) == trace


@pytest.mark.document_item("004.yaml.react")
def test_the_seeds_react_says_what_to_do_without_a_backend(folder: Path) -> None:
    gave_up = act("finish", answer="nothing").replace('"reasoning"', '"exception"')
    model = ScriptedModel([act("web.search", query="x"), gave_up])
    result = with_model(read("seed-react.yaml", folder), model).run_sync(
        "go", data={"research_question": "?"}
    )
    assert "no search backend is configured" in model.requests[1].last
    assert result.success


@pytest.mark.scenario("TEA-20")
@pytest.mark.document_item("004.yaml.correct")
def test_the_seeds_self_correction_runs_as_it_stands(folder: Path) -> None:
    good = {"reasoning": "fine", "score": 0.9, "issues": ["no zero"], "suggestions": []}
    best = {"reasoning": "good", "score": 1, "issues": [], "suggestions": []}
    model = ScriptedModel(
        ["def f(): return 1", json.dumps(good), "def f(): return {{ 7*7 }}", json.dumps(best)]
    )
    result = with_model(read("seed-self-correct.yaml", folder), model).run_sync(
        "go", data={"coding_task": "write f"}
    )
    assert result.success, result.error
    assert result.output["output"] == "def f(): return {{ 7*7 }}"
    assert result.output["rounds_completed"] == 1
    critique = model.requests[1].last
    assert "1. Correctness" in critique
    assert "Code: def f(): return 1" in critique
    # The model's text looks like a template and stays text.
    assert "Code: def f(): return {{ 7*7 }}" in model.requests[3].last


@pytest.mark.scenario("TEA-20")
@pytest.mark.document_item("004.yaml.decompose")
def test_the_seeds_decomposition_runs_as_it_stands(folder: Path) -> None:
    split = {
        "reasoning": "two",
        "sub_problems": [
            {"id": "a", "description": "first", "dependencies": [], "complex": False},
            {"id": "b", "description": "second", "dependencies": ["a"], "complex": False},
        ],
    }
    model = ScriptedModel(
        [json.dumps(split), reasoned("one"), reasoned("two"), reasoned("one and two")]
    )
    result = with_model(read("seed-decompose.yaml", folder), model).run_sync(
        "go", data={"complex_problem": "both"}
    )
    assert result.success, result.error
    assert result.output["final_answer"] == "one and two"
    assert [one["answer"] for one in result.output["sub_answers"]] == ["one", "two"]
    assert result.output["depth_used"] == 1
    assert '"answer":"one"' in model.requests[3].last


def test_the_seeds_snippets_are_the_seeds() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", SEED.read_text(), re.DOTALL)
    names = ("seed-cot", "seed-react", "seed-self-correct", "seed-decompose")
    assert [(HERE / f"{name}.yaml").read_text() for name in names] == blocks


def test_the_research_agent_reads_what_it_finds(folder: Path) -> None:
    model = ScriptedModel([reasoned("A fold of events (folder:fold.md).")])
    agent = with_model(read("research.yaml", folder), model)
    result = agent.run_sync("What is state a fold of?")
    assert result.success, result.error
    assert result.output == "A fold of events (folder:fold.md)."
    assert "State is a fold of the events" in model.requests[0].text
    assert model.requests[0].request.asked().temperature == 0.2


def test_the_research_agent_says_when_there_is_nothing(folder: Path) -> None:
    agent = with_model(read("research.yaml", folder), ScriptedModel([]))
    result = agent.run_sync("zzzz qqqq")
    assert result.output == "Nothing was found about zzzz qqqq."


TESTS = """\
from slug import slug


def test_slug():
    assert slug("Hello World") == "hello-world"
"""


def test_the_code_writer_corrects_itself_by_a_real_test_run(folder: Path) -> None:
    (folder / "test_slug.py").write_text(TESTS)
    right = 'def slug(text):\n    return "-".join(text.lower().split())\n'
    model = ScriptedModel(["def slug(text):\n    return text.lower()\n", right])
    agent = with_model(read("code-writer.yaml", folder), model, approve="all")
    result = agent.run_sync("slug makes a slug")
    assert result.success, result.error
    assert result.output == {"passed": True, "rounds": 2, "code": right.strip()}
    assert "hello world" in model.requests[1].text
    assert (folder / "slug.py").read_text() == right.strip()


def support(request: Request) -> str:
    asked = request.conversation[-1].content
    if asked.startswith("What does this customer want?"):
        return json.dumps({"order": 1001, "wish": "refund"})
    return "We are sorry. " + ("It is refunded." if "refunded" in asked else "We cannot refund.")


@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_the_support_agent_asks_before_money_moves(folder: Path, verdict: str) -> None:
    tools = load("support_tools.py:REFUNDS", folder)
    sent = load("support_tools.py:SENT", folder)
    tools.clear()
    sent.clear()
    asked: list[str] = []

    def approver(approval: Any) -> bool:
        asked.append(approval.action.tool)
        return approval.action.tool != "refund" or verdict == "approve"

    model = FunctionModel(support)
    agent = with_model(read("support.yaml", folder), model, approve=approver)
    result = agent.run_sync("Order 1001 is broken")
    assert result.success, result.error
    assert asked == ["refund", "flow.approve", "send_reply"]
    assert tools == ([(1001, 49.0)] if verdict == "approve" else [])
    assert sent == [result.output]
    assert ("It is refunded." in result.output) is (verdict == "approve")


def test_the_fan_out_sums_up_every_file(folder: Path) -> None:
    for name in "abcd":
        (folder / f"{name}.txt").write_text(f"file {name}")
    model = FunctionModel(lambda request: request.conversation[-1].content[-60:])
    files = ["a.txt", "b.txt", "gone.txt", "c.txt", "d.txt"]
    result = with_model(read("fan-out.yaml", folder), model).run_sync(
        "Sum up", data={"files": files}
    )
    assert result.success, result.error
    lines = result.state.data["summaries"]
    assert [line and line[:5] for line in lines] == ["a.txt", "b.txt", None, "c.txt", "d.txt"]
    assert "1 of 5 branches failed" in result.state.data["errors"]["each"]


def test_the_review_joins_branches_and_asks_another_agent(folder: Path) -> None:
    asked: list[str] = []

    def say(request: Request) -> str:
        last = request.conversation[-1].content
        asked.append(last)
        if last.startswith("Put these reviews"):
            return act("finish", "All three agree.", answer="ship it")
        return "fine: " + last[:20]

    model = FunctionModel(say)
    agent = with_model(read("review.yaml", folder), model)
    # The other agent has the model of its own file, which names none.
    writer = agent.toolset["writer"]
    tools = [one for one in agent.toolset.values() if one is not writer]
    agent = agent.replace(tools=(*tools, writer.agent.replace(model=model).as_tool("writer")))
    result = agent.run_sync("  a change  ")
    assert result.success, result.error
    assert result.output == "ship it"
    assert set(result.state.data["reviews"]) == {"security", "speed", "style"}
    assert "Review for speed: a change" in asked

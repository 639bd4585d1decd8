"""Programs written for TAgent 0.7: only their import differs.

The archive of TAgent 0.7.1 is read if the environment names it; its programs are not part of this
repository.
"""

import ast
import asyncio
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, Field, HttpUrl

from taofold.compat.tagent import AgentModelConfig, TAgentConfig, TaskBasedAgentResult, run_agent
from taofold.compat.tagent.model_names import translated
from taofold.core.errors import ConfigError
from taofold.runtime import providers as registry
from taofold.testing import FunctionModel, ScriptedModel
from taofold.tools import tool
from tests.prerequisites import TAGENT, tagent_archive

State = dict[str, Any]
Named = list[tuple[str, dict[str, Any]]]


def execute(name: str, /, **args: Any) -> str:
    """A reply in TAgent's own form."""
    return json.dumps(
        {"action": "execute", "params": {"tool": name, "args": args}, "reasoning": "next"}
    )


def finish(answer: Any) -> str:
    return json.dumps(
        {"thought": "Done.", "action": {"tool": "finish", "parameters": {"answer": answer}}}
    )


class Quote(BaseModel):
    symbol: str
    price: float


class PageInput(BaseModel):
    url: HttpUrl = Field(..., description="The page.")


class PageOutput(BaseModel):
    content: str | None = None
    error: str | None = None


def stock(symbol: str):  # type: ignore[no-untyped-def] # as TAgent's programs write them
    """The price of a stock."""
    return "stock_price", {"symbol": symbol, "price": 950.0}


async def stock_later(symbol: str) -> tuple[str, Any]:
    """The price of a stock, after a while."""
    await asyncio.sleep(0)
    return "stock_price", {"symbol": symbol, "price": 950.0}


def load(args: PageInput) -> PageOutput:
    """Load a page."""
    return PageOutput(content=f"text of {args.url.host}")


def count(text: str) -> int:
    """Count words."""
    return len(text.split())


def note(text: str) -> None:
    """Write a note."""


def old_form(_state: State, args: State) -> tuple[str, Any] | None:
    """A tool of the older form, with an underscore."""
    return "greeting", f"hello {args['name']}"


def compare(state: State, factor: float) -> tuple[str, float]:
    """Multiply the last price."""
    return "scaled", state["stock_price"]["price"] * factor


class Shop:
    def price(self, item: str) -> tuple[str, float]:
        """The price of an item."""
        return "item_price", float(len(item))


@pytest.mark.parametrize(
    ("function", "args", "state"),
    [
        (stock, {"symbol": "X"}, {"stock_price": {"symbol": "X", "price": 950.0}}),
        (stock_later, {"symbol": "X"}, {"stock_price": {"symbol": "X", "price": 950.0}}),
        (load, {"url": "https://a.b/"}, {"pageoutput": {"content": "text of a.b", "error": None}}),
        (count, {"text": "one two"}, {"count_output": 2}),
        (note, {"text": "x"}, {}),
        (old_form, {"name": "Ann"}, {"greeting": "hello Ann"}),
        (Shop().price, {"item": "tea"}, {"item_price": 3.0}),
    ],
)
def test_the_return_value_of_a_plain_function_updates_the_state(
    function: Any, args: State, state: State
) -> None:
    model = ScriptedModel([execute(function.__name__, **args), finish("done")])
    result = run_agent(goal="g", tools=[function], model=model)
    assert result.success, result.error
    assert result.state.data == state
    assert (result.total_tasks, result.completed_tasks, result.failed_tasks) == (1, 1, 0)


def test_a_parameter_named_state_is_filled_and_not_shown_to_the_model() -> None:
    replies = [execute("stock", symbol="X"), execute("compare", factor=2), finish("1900")]
    model = ScriptedModel(replies)
    result = run_agent("g", model, [stock, compare])
    assert result.state.data["scaled"] == 1900.0
    [line] = [each for each in model.requests[0].text.splitlines() if "- compare(" in each]
    assert line.startswith("- compare({factor: number})")
    assert "state" not in line


def test_a_parameter_state_of_another_type_stays_the_models() -> None:
    def tax(state: str) -> str:
        """The tax of a state."""
        return f"tax of {state}"

    result = run_agent("g", ScriptedModel([execute("tax", state="Ohio"), finish("x")]), [tax])
    assert result.state.data == {"tax_output": "tax of Ohio"}


def test_a_declared_tool_keeps_its_result_and_leaves_the_state() -> None:
    @tool(effect="read")
    def pair() -> tuple[str, int]:
        """A pair."""
        return "a", 1

    result = run_agent("g", ScriptedModel([execute("pair"), finish("x")]), [pair])
    assert result.state.data == {}
    assert result.steps[0].observations[0].result == ["a", 1]


def test_a_tool_that_fails_is_a_failed_task() -> None:
    def fail(item: str) -> tuple[str, str]:
        """Fail."""
        raise ValueError("no such item")

    result = run_agent("g", ScriptedModel([execute("fail", item="x"), finish("x")]), [fail])
    assert (result.completed_tasks, result.failed_tasks) == (0, 1)
    assert result.output.challenges == ["fail: ValueError: no such item"]


def test_a_text_answer_has_the_fields_of_the_default_output() -> None:
    model = ScriptedModel([execute("stock", symbol="X"), finish("Buy.")])
    result = run_agent("g", model, [stock])
    assert isinstance(result, TaskBasedAgentResult)
    output = result.output
    assert result.final_output == output == output.result == "Buy."
    assert output.summary
    assert output.achievements[0].startswith("stock: ")
    assert output.challenges == []
    assert output.data_collected["stock_price"]["price"] == 950.0


def test_a_result_has_tagents_names() -> None:
    plan = json.dumps({"action": "plan", "params": {"steps": ["look"]}, "reasoning": "first"})
    replies = [plan, execute("stock", symbol="X"), finish({"symbol": "X", "price": 950.0})]
    result = run_agent("g", ScriptedModel(replies), [stock], output_format=Quote)
    assert result.final_output == Quote(symbol="X", price=950.0)
    assert result.goal_achieved
    assert (result.iterations_used, result.planning_cycles, result.total_tasks) == (3, 1, 1)
    assert result.failure_reason is None
    assert result.state_summary["task_summary"] == {"total_tasks": 1, "completed": 1, "failed": 0}
    assert result.stats.total.total_tokens == result.usage.tokens
    assert sum(each.total_tokens for each in result.stats.by_model.values()) == result.usage.tokens
    assert result.get("status") == "completed_with_formatting"
    assert result.get("result") == result.output
    assert result.get("raw_data")["stock_price"]["symbol"] == "X"
    assert result.get("iterations_used") == 3
    assert result.get("other", 7) == 7
    with pytest.raises(AttributeError, match=r"result\.state\.data"):
        result.memory_summary  # noqa: B018
    assert result.messages("openai")[-1]["role"] == "assistant"


def test_a_run_without_an_answer_has_no_output_and_a_reason() -> None:
    result = run_agent("g", ScriptedModel(["?", "?", "?"]), [], output_format=Quote)
    assert (result.output, result.final_output, result.goal_achieved) == (None, None, False)
    assert result.failure_reason
    assert result.get("status") == "failed"
    assert result.state_summary["current_phase"] == "failed"


# TAgentConfig --------------------------------------------------------------------------


def test_a_config_holds_the_arguments_and_the_call_has_precedence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = ScriptedModel([execute("stock", symbol="X"), finish({"symbol": "X", "price": 1})])
    config = TAgentConfig(
        model=model,
        tools=[stock],
        output_format=Quote,
        temperature=0.3,
        verbose=True,
        max_iterations=1,
        custom_settings={"team": "red"},
    )
    result = run_agent(goal="g", config=config, max_iterations=20, tools=[count])
    assert result.output == Quote(symbol="X", price=1)
    assert "stock" in capsys.readouterr().err
    request = model.requests[0].request
    assert request.asked().temperature == 0.3
    assert "- stock(" in request.conversation[0].text
    assert "- count(" in request.conversation[0].text


def test_max_iterations_and_the_crash_of_a_config_are_honoured() -> None:
    from taofold.compat.tagent import OverIterations

    def model() -> ScriptedModel:
        return ScriptedModel([execute("note", text="a"), execute("note", text="b"), finish("x")])

    config = TAgentConfig(model=model(), max_iterations=2, crash_if_over_iterations=True)
    with pytest.raises(OverIterations, match="in 2 iterations"):
        run_agent("g", config, [note])
    assert run_agent(
        "g", config.merge(TAgentConfig(max_iterations=3, model=model())), [note]
    ).success


def test_each_role_has_its_model_and_their_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any, str]] = []

    def connect(name: str, **options: Any) -> Any:
        def reply(request: Any) -> str:
            asked.append((name, options["api_key"], request.role))
            if request.role == "evaluator":
                return json.dumps({"achieved": True, "feedback": "", "missing": []})
            return "Hello." if request.role == "finalizer" else json.dumps({"action": "evaluate"})

        return FunctionModel(reply)

    monkeypatch.setitem(registry._registered, "openai", connect)
    models = AgentModelConfig(
        tagent_model="gpt-small", tagent_evaluator_model="openai/gpt-big", api_key="sk-key"
    )
    assert run_agent("g", model=models).output == "Hello."
    assert [(name, key) for name, key, _ in asked] == [
        ("gpt-small", "sk-key"),
        ("gpt-big", "sk-key"),
        ("gpt-small", "sk-key"),
    ]
    assert "sk-key" not in repr(models)
    assert "sk-key" not in repr(TAgentConfig(model=models, api_key="sk-key"))


def test_a_summarizer_of_its_own_is_refused_by_name() -> None:
    models = AgentModelConfig(tagent_model="a", tagent_summarizer_model="b")
    with pytest.raises(ConfigError, match="set tagent_finalizer_model"):
        run_agent("g", models)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ui_style": "institutional"}, "ui_style='institutional' is not there"),
        ({"max_iteration": 3}, "did you mean 'max_iterations'"),
        ({"team": "red"}, "custom_settings takes own values"),
    ],
)
def test_a_config_refuses_what_it_cannot_honour(values: State, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TAgentConfig.from_dict(values)


def test_a_config_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAGENT_MAX_ITERATIONS", "7")
    monkeypatch.setenv("TAGENT_VERBOSE", "yes")
    monkeypatch.setenv("TAGENT_MODEL", "gpt-5-mini")
    config = TAgentConfig.from_env()
    assert (config.max_iterations, config.verbose, config.model) == (7, True, "gpt-5-mini")
    assert TAgentConfig.from_dict(config.to_dict()) == config
    monkeypatch.setenv("TAGENT_VERBOSE", "perhaps")
    with pytest.raises(ConfigError, match="TAGENT_VERBOSE must be true or false"):
        TAgentConfig.from_env()
    monkeypatch.setenv("TAGENT_VERBOSE", "no")
    monkeypatch.setenv("TAGENT_MAX_ITERATIONS", "many")
    with pytest.raises(ConfigError, match="TAGENT_MAX_ITERATIONS must be a number"):
        TAgentConfig.from_env()


class Greeter:
    """Greets."""

    def __call__(self, text: str) -> tuple[str, str]:
        """Greets a name."""
        return "greeting", f"hi {text}"


def test_an_object_that_can_be_called_is_a_tool_of_the_given_name() -> None:
    model = ScriptedModel([execute("greet", text="Ann"), finish("ok")])
    result = run_agent("g", model, {"greet": Greeter()})
    assert result.state.data["greeting"] == "hi Ann"


def test_a_config_may_be_a_mapping() -> None:
    model = ScriptedModel([execute("count", text="a"), finish("ok")])
    result = run_agent("g", model, [count], config={"max_iterations": 1})
    assert not result.goal_achieved


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": "x.yaml"}, "config: a TAgentConfig or a mapping, not str"),
        ({"tools": json}, "tools: a list of functions"),
        ({"tools": "search"}, "tools: a list of functions"),
        ({"max_iteration": 3}, "no argument 'max_iteration'; did you mean 'max_iterations'"),
        ({"limits": 3}, "no argument 'limits'; pass max_iterations"),
    ],
)
def test_an_argument_that_run_agent_cannot_use_is_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run_agent("g", ScriptedModel([finish("ok")]), **arguments)


def test_no_model_and_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="no model is named"):
        run_agent("g")
    with pytest.raises(ConfigError, match="two tools are named 'stock'"):
        run_agent("g", config=TAgentConfig(model="x", tools=[stock, stock]), tools=[note])


# Names of models and of TAgent itself ---------------------------------------------------


@pytest.mark.parametrize(
    ("litellm", "ours"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("openai/gpt-4o", "openai:gpt-4o"),
        ("openrouter/google/gemini-2.5-flash", "openrouter:google/gemini-2.5-flash"),
        ("openrouter/qwen/qwen3-8b:free", "openrouter:qwen/qwen3-8b:free"),
        ("gemini/gemini-pro", "gemini:gemini-pro"),
        ("ollama/llama3:8b", "ollama:llama3:8b"),
        ("ollama_chat/llama3", "ollama:llama3"),
        ("together_ai/meta/llama", "together:meta/llama"),
        ("fireworks_ai/accounts/a/models/b", "fireworks:accounts/a/models/b"),
        ("azure/my-deployment", "azure:my-deployment"),
        ("claude-sonnet-4", "anthropic:claude-sonnet-4"),
        ("openai:gpt-5", "openai:gpt-5"),
        ("ollama:llama3:8b", "ollama:llama3:8b"),
        (["gpt-5", "groq/llama"], ["gpt-5", "groq:llama"]),
        ({"model": "groq/llama", "effort": "low"}, {"model": "groq:llama", "effort": "low"}),
    ],
)
def test_litellms_names_become_ours(litellm: Any, ours: Any) -> None:
    assert translated(litellm) == ours


@pytest.mark.parametrize("name", ["sagemaker/llama", "azure_ai/phi", "google/gemini-pro"])
def test_a_prefix_without_a_provider_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no provider '{name.partition('/')[0]}'"):
        run_agent("g", name)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("PipelineBuilder", "flow in YAML"), ("MockLLMAdapter", "ScriptedModel")],
)
def test_a_missing_name_is_refused_with_its_equivalent(name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"has no {name}: .*{instead}"):
        exec(f"from taofold.compat.tagent import {name}", {})
    if name == "PipelineBuilder":
        with pytest.raises(ImportError, match=f"has no {name}: .*{instead}"):
            exec(f"from taofold.compat.tagent.pipeline import {name}", {})


# The archive of TAgent 0.7.1 --------------------------------------------------------------

CALLS: dict[str, tuple[Named, Any]] = {
    "README.md": ([("get_stock_price", {"symbol": "NVDA"})], "950 dollars"),
    "examples/just_calling_example/just_calling_example.py": ([], "你好，世界"),
    "examples/tab_news_analyzer/tabnews_code_example.py": (
        [("extract_tabnews_articles", {})],
        {"original_summary": "A text.", "translated_summary": "文"},
    ),
    "tests/test_e2e_simple.py": (
        [
            ("get_price", {"retailer": "A"}),
            ("get_price", {"retailer": "B"}),
            ("convert_currency", {"amount": 15, "from_currency": "BRL", "to_currency": "USD"}),
        ],
        {"cheaper_retailer": "B", "price_difference": 7.0, "summary": "B"},
    ),
    "tests/test_e2e_price_comparison.py": (
        [
            ("get_retail_a_price", {"product": "Wireless Headphones"}),
            ("get_retail_b_price", {"product": "Wireless Headphones"}),
            ("convert_currency", {"amount": 6.0, "from_currency": "EUR", "to_currency": "USD"}),
        ],
        {
            "product_name": "Wireless Headphones",
            "retail_a_price_usd": 10.0,
            "retail_b_price_usd": 6.6,
            "cheapest_retailer": "Retail B",
            "price_difference_usd": 3.4,
            "summary": "B",
        },
    ),
}
STARTED = {
    "tests/test_e2e_simple.py": "test_simple_price_comparison",
    "tests/test_e2e_price_comparison.py": "test_price_comparison_e2e_with_openrouter",
}


def _program(path: Path) -> str:
    """Returns the program of a file with only its import of `run_agent` changed."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        text = next(block for block in blocks if "import run_agent" in block)
    ours = "from taofold.compat.tagent import run_agent"
    changed, times = re.subn(r"from (?:src\.)?tagent(?:\.agent)? import run_agent", ours, text)
    assert times == 1, path
    ast.parse(changed)
    return changed


@TAGENT.mark
@pytest.mark.parametrize("file", CALLS)
def test_a_program_of_the_archive_runs_with_its_import_changed(
    file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    root = Path(tagent_archive())
    calls, answer = CALLS[file]
    models: list[ScriptedModel] = []

    def connect(name: str, **options: Any) -> ScriptedModel:
        replies = [*[execute(tool, **args) for tool, args in calls], finish(answer)]
        models.append(ScriptedModel(replies))
        return models[-1]

    for provider in ("openai", "openrouter"):
        monkeypatch.setitem(registry._registered, provider, connect)
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-none")
    monkeypatch.syspath_prepend(str(root / "tests"))
    item = "<link>https://www.tabnews.com.br/a</link><title>T</title><pubDate>now</pubDate>"
    feed = f"<rss><item>{item}</item></rss>".encode()
    reply = SimpleNamespace(content=feed, raise_for_status=lambda: None)
    faults = SimpleNamespace(RequestException=OSError)
    stubs: dict[str, State] = {
        "requests": {"get": lambda *args, **options: reply, "exceptions": faults},
        "bs4": {"BeautifulSoup": object},
    }
    for name, values in stubs.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)

    program = ModuleType("__tagent_program__")
    program.__file__ = str(root / file)
    request.config.addinivalue_line("markers", "integration: of a program of the archive")
    monkeypatch.setitem(sys.modules, program.__name__, program)
    source = _program(root / file)
    exec(compile(source, file, "exec"), vars(program))
    if function := STARTED.get(file):
        getattr(program, function)()
    sys.modules.pop("test_config", None)
    assert len(models) == 1
    assert len(models[0].requests) == len(calls) + 1
    printed = capsys.readouterr().out
    wanted = answer if isinstance(answer, str) else answer.get("translated_summary", "B")
    assert wanted in printed
    assert "No output generated" not in printed

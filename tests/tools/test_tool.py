"""Parameters that `@tool` reads from a function, inputs of `bind`, results of `run`."""

import asyncio
import contextvars
import threading
from contextlib import suppress
from dataclasses import fields, replace
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from pydantic import BaseModel, Field

from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.tools import BadArguments, Outcome, RunContext, Tool, as_tool, external, tool
from taofold.tools.tool import ToolOptions, ToolWarning
from tests.deadlines import LoopClock
from tests.ports import PATIENCE

pytestmark = pytest.mark.anyio


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    street: str
    number: int = Field(1, description="House number.")


class Query(BaseModel):
    text: str
    tags: list[str] = Field(default_factory=list, description="Only these.")


@tool(effect="read", thread=False)
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Slowly, but surely.

    Args:
        a: The first
            number.
        b: The second.
    """
    return a + b


def numpy_style(path: str, depth: int = 1) -> str:
    """Walk.

    Parameters
    ----------
    path : str
        Where to start.
    depth : int
        How deep.
    """
    return path * depth


def sphinx_style(path: str) -> str:
    """Walk.

    :param path: Where to start.
    :returns: nothing of use
    """
    return path


def stateful(state: dict[str, Any], args: dict[str, Any]) -> tuple[str, Any] | None:
    """Remember."""
    state["touched"] = True
    return ("kept", args["value"]) if args else None


def test_a_tool_is_still_the_function_it_was_made_of() -> None:
    assert add(1) == 3
    assert add(1, b=5) == 6


def test_the_schema_has_descriptions_defaults_and_no_titles() -> None:
    assert add.schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first number."},
            "b": {"type": "integer", "description": "The second.", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert add.description == "Add two numbers.\n\nSlowly, but surely."


@pytest.mark.scenario("TEA-13")
@pytest.mark.parametrize("function", [numpy_style, sphinx_style])
def test_docstrings_of_every_style_describe_parameters(function: Any) -> None:
    made = as_tool(function)
    assert made.description == "Walk."
    assert made.schema["properties"]["path"]["description"] == "Where to start."


def test_enums_literals_and_nested_models_are_in_the_schema() -> None:
    def paint(colour: Colour, coat: Literal[1, 2], where: list[Place], by: str = "me") -> None:
        """Paint."""

    schema = as_tool(paint).schema
    assert schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert schema["properties"]["coat"]["enum"] == [1, 2]
    assert schema["$defs"]["Place"]["properties"]["number"]["description"] == "House number."
    assert schema["required"] == ["colour", "coat", "where"]


def test_a_property_named_title_survives() -> None:
    def book(title: str, properties: dict[str, int]) -> str:
        return title

    assert set(as_tool(book).schema["properties"]) == {"title", "properties"}


@pytest.mark.scenario("TAG-06")
async def test_plain_and_pydantic_arguments_are_validated_and_bound_by_name(
    ctx: RunContext[None],
) -> None:
    async def look(context: RunContext[None], query: Query, /, limit: int = 3) -> list[Any]:
        return [context.effect_id, query.text, query.tags, limit]

    made = as_tool(look)
    assert set(made.schema["properties"]) == {"text", "tags", "limit"}
    assert made.schema["required"] == ["text"]
    outcome = await made.bind({"text": "x", "limit": "5"}).run(ctx)
    assert outcome.value == ["run#0", "x", [], 5]
    with pytest.raises(BadArguments, match="missing parameter 'text'"):
        made.bind({"limit": 1})


@pytest.mark.scenario("TAO-06")
def test_every_failing_parameter_is_named() -> None:
    with pytest.raises(BadArguments) as caught:
        add.bind({"b": "many", "bb": 1})
    assert caught.value.faults == (
        "missing parameter 'a'",
        "parameter 'b': Input should be a valid integer, got 'many'",
        "unknown parameter 'bb' (did you mean 'b'?)",
    )


@pytest.mark.parametrize("wrong", [1.5, "1.5", "yes", None, [1], {"n": 1}])
def test_nothing_is_coerced_lossily(wrong: object) -> None:
    with pytest.raises(BadArguments, match="parameter 'a'"):
        add.bind({"a": wrong})


def test_a_default_of_none_means_that_null_is_accepted() -> None:
    def look(limit: int = None) -> int | None:  # type: ignore[assignment]  # noqa: RUF013
        return limit

    assert as_tool(look).bind({"limit": None}).kwargs == {"limit": None}
    assert as_tool(look).bind({}).kwargs == {}


def test_the_proposed_parameters_stay_as_they_were() -> None:
    def clear(items: list[Any], more: Any) -> None:
        items.clear()
        more.clear()

    parameters = {"items": [[1]], "more": {"a": [1]}}
    bound = as_tool(clear).bind(parameters)
    bound.kwargs["items"][0].append(2)
    bound.kwargs["more"]["a"].append(2)
    assert parameters == {"items": [[1]], "more": {"a": [1]}}


@pytest.mark.scenario("TAG-05")
async def test_a_tagent_tool_gets_a_mapping_and_its_pair_updates_the_state(
    ctx: RunContext[None],
) -> None:
    outcome = await as_tool(stateful).bind({"value": [1, 2]}).run(ctx)
    assert outcome == Outcome([1, 2], update=("kept", [1, 2]))


@pytest.mark.scenario("TAG-08")
async def test_a_tool_that_returns_nothing_says_so_and_changes_nothing(
    ctx: RunContext[None],
) -> None:
    outcome = await as_tool(stateful).bind({}).run(ctx)
    assert outcome.update is None
    assert outcome.value is None
    assert "state is unchanged" in outcome.extraction


@pytest.mark.scenario("TEA-31", "TAG-20")
async def test_a_tool_that_mutates_its_state_argument_changes_nothing() -> None:
    state: dict[str, Any] = {"list": [1]}

    def spoil(state: dict[str, Any], args: dict[str, Any]) -> None:
        state["list"].append(2)
        state.clear()

    await as_tool(spoil).bind({}).run(RunContext(None, data=state))
    assert state == {"list": [1]}


async def test_a_tagent_tool_may_declare_a_model_for_args(ctx: RunContext[None]) -> None:
    def find(state: dict[str, Any], args: Query) -> tuple[str, str]:
        return "found", args.text

    made = as_tool(find)
    assert (await made.bind({"text": "x"}).run(ctx)).update == ("found", "x")
    with pytest.raises(BadArguments, match="unknown parameter 'txt'"):
        made.bind({"txt": "x"})


async def test_callable_objects_partials_and_methods_are_tools(ctx: RunContext[None]) -> None:
    class WordCount:
        """Counts."""

        def __call__(self, text: str) -> int:
            return len(text.split())

        def method(self, text: str) -> int:
            return len(text)

    def greet(name: str, greeting: str) -> str:
        return f"{greeting} {name}"

    counting, fixed = as_tool(WordCount()), as_tool(partial(greet, greeting="hi"))
    assert (counting.name, counting.description) == ("word_count", "Counts.")
    assert (await counting.bind({"text": "a b"}).run(ctx)).value == 2
    assert (await as_tool(WordCount().method).bind({"text": "ab"}).run(ctx)).value == 2
    assert (await fixed.bind({"name": "you"}).run(ctx)).value == "hi you"
    with pytest.raises(BadArguments, match="unknown parameter 'greeting'"):
        fixed.bind({"name": "you", "greeting": "bye"})  # what the programmer fixed stays so


def stars(*args: int) -> None: ...
def keywords(**options: int) -> None: ...
def reserved(timeout_s: float) -> None: ...
def unresolved(x: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def unwritable(x: threading.Thread) -> None: ...
def generates() -> Any:
    yield 1


def three(state: Any, args: Any, more: Any) -> None: ...
def listed(state: Any, args: list[int]) -> None: ...
def defaulted(x: int = Field(3)) -> None: ...
def behind(x: int, ctx: RunContext[None]) -> None: ...
def behind_later(x: int, ctx: "RunContext[None]") -> None: ...


REFUSED: list[tuple[Any, str]] = [
    (stars, "any number"),
    (keywords, "any number"),
    (reserved, "reserved"),
    (unresolved, "cannot be resolved"),
    (unwritable, "cannot write"),
    (generates, "generator"),
    (three, "more"),
    (listed, "mapping"),
    (defaulted, "Annotated"),
    (behind, "'ctx' is a RunContext, which must come first"),
    (behind_later, "'ctx' is a RunContext, which must come first"),
    (Place, "class"),
    (lambda: None, "lambda"),
    (42, "cannot be called"),
]


@pytest.mark.parametrize(("thing", "reason"), REFUSED)
def test_what_cannot_be_a_tool_is_refused_with_a_reason(thing: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        as_tool(thing)


@pytest.mark.scenario("TEA-14")
@pytest.mark.parametrize(
    "name", ["", "..", "a..b", "a/b", "../x", "a b", "1a", "a\n", "a" * 65, ".a", "a.", "é"]
)
def test_unsafe_names_are_rejected(name: str) -> None:
    with pytest.raises(ConfigError):
        tool(name=name or " ")(numpy_style)


@pytest.mark.parametrize("name", ["finish", "ask_user"])
def test_reserved_names_are_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match="reserved"):
        tool(name=name)(numpy_style)


def test_undeclared_effects_are_once_and_tiers_follow_the_effect() -> None:
    assert (as_tool(numpy_style).effect, as_tool(numpy_style).tier) == ("once", Tier.CARD)
    assert tool(effect="read")(numpy_style).tier is Tier.AUTO
    assert tool(effect="idempotent")(numpy_style).tier is Tier.CARD
    assert tool(tier=3)(numpy_style).tier is Tier.CONFIRM


@pytest.mark.scenario("RCT-27")
def test_a_write_that_asks_nobody_must_be_declared_reversible() -> None:
    with pytest.raises(ConfigError, match="asks nobody"):
        tool(tier=1)(numpy_style)
    with pytest.raises(ConfigError, match="asks nobody"):
        replace(as_tool(numpy_style), tier=Tier.AUTO)
    assert tool(tier=1, reversible=True)(numpy_style).tier is Tier.AUTO


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"timeout": float("inf")}, {"tier": 9}, {"effect": "write"}, {"longest": 1.0}],
)
def test_senseless_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        tool(**options)(numpy_style)


def test_the_definition_changes_with_what_a_person_approves_and_only_then() -> None:
    first = as_tool(numpy_style)
    assert first.definition == as_tool(numpy_style).definition
    assert replace(first, timeout=5).definition == first.definition
    changes: list[dict[str, Any]] = [
        {"tier": 3},
        {"effect": "read"},
        {"role": "ADMIN"},
        {"description": "x"},
    ]
    for change in changes:
        assert replace(first, **change).definition != first.definition


@pytest.mark.scenario("PEER-24")
def test_a_default_timeout_applies_and_timeout_s_is_capped() -> None:
    assert add.bind({"a": 1}).timeout == 60
    capped = tool(effect="read", timeout=2, longest=10)(numpy_style)
    assert capped.bind({"path": "x", "timeout_s": 5}).timeout == 5
    assert capped.bind({"path": "x", "timeout_s": 500}).timeout == 10
    for wrong in (0, -1, "5", True, float("nan"), float("inf")):
        with pytest.raises(BadArguments, match="timeout_s"):
            capped.bind({"path": "x", "timeout_s": wrong})


@pytest.mark.scenario("TAO-18")
async def test_a_schema_without_a_function_signature_is_checked_too(ctx: RunContext[None]) -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "kind": {"enum": ["a", "b"]},
            "deep": {"$ref": "#/$defs/Deep"},
            "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "null"}}]},
        },
        "required": ["n"],
        "additionalProperties": False,
        "$defs": {"Deep": {"type": "object", "required": ["x"]}},
    }

    async def call(context: RunContext[None], parameters: dict[str, Any]) -> Any:
        return [context.effect_id, parameters]

    made = external("mcp.thing", "A thing.", schema, call, context=True)
    assert (await made.bind({"n": 1, "kind": "a"}).run(ctx)).value == [
        "run#0",
        {"n": 1, "kind": "a"},
    ]
    with pytest.raises(BadArguments) as caught:
        made.bind({"kind": "c", "deep": {}, "either": [1], "m": 2})
    assert {*caught.value.faults} == {
        "missing parameter 'n'",
        "parameter 'kind': must be one of ['a', 'b'], got 'c'",
        "missing parameter 'deep.x'",
        "parameter 'either': must be string, got [1]",
        "unknown parameter 'm' (it takes n, kind, deep, either)",
    }
    with pytest.raises(BadArguments, match="must be integer"):
        made.bind({"n": True})


def test_a_function_that_mentions_itself_and_a_method_without_an_object() -> None:
    @tool
    def again(n: "int") -> int:
        return again(n - 1) if n else 0

    class Thing:
        def method(self, n: int) -> int:
            return n

    assert again.bind({"n": "3"}).kwargs == {"n": 3}
    with pytest.raises(ConfigError, match="method of an object"):
        as_tool(Thing.method)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"n": 5}, "required": 3},
        {"properties": [1]},
        {"properties": {"n": {"$ref": "#/properties/n"}}},
        {"properties": {"n": {"anyOf": [{"$ref": "#/properties/n"}] * 3}}},
    ],
)
def test_a_hostile_schema_neither_hangs_nor_raises_anything_else(schema: dict[str, Any]) -> None:
    made = external("far", "Far.", schema, dict)
    with suppress(BadArguments):
        made.bind({"n": 1})


@pytest.mark.scenario("PEER-05")
async def test_a_tool_receives_the_effect_id_of_its_call(ctx: RunContext[None]) -> None:
    @tool(effect="idempotent")
    def pay(ctx: RunContext[None], amount: Annotated[int, Field(gt=0)]) -> str:
        return f"{ctx.effect_id}:{amount}"

    first = await pay.bind({"amount": 5}).run(ctx)
    again = await pay.bind({"amount": 5}).run(replace(ctx, partial=[]))
    assert first.value == again.value == "run#0:5"
    with pytest.raises(BadArguments, match="greater than 0"):
        pay.bind({"amount": 0})


async def test_sync_functions_run_in_a_thread_with_the_context_variables(
    ctx: RunContext[None],
) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    def where() -> list[Any]:
        return [variable.get(), threading.current_thread() is threading.main_thread()]

    assert (await as_tool(where).bind({}).run(ctx)).value == ["set", False]
    assert (await tool(thread=False)(where).bind({}).run(ctx)).value == ["set", True]


@pytest.mark.scenario("TAG-07", "RCT-29")
@pytest.mark.parametrize("thread", [True, False])
async def test_what_a_tool_raises_reaches_the_runtime(ctx: RunContext[None], thread: bool) -> None:
    @tool(thread=thread)
    def fail(how: str) -> None:
        raise {"key": KeyError("k"), "exit": SystemExit(3), "stop": StopIteration(1)}[how]

    with pytest.raises(KeyError):
        await fail.bind({"how": "key"}).run(ctx)
    with pytest.raises(RuntimeError, match="SystemExit"):
        await fail.bind({"how": "exit"}).run(ctx)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await fail.bind({"how": "stop"}).run(ctx)


@pytest.mark.parametrize("thread", [True, False])
async def test_what_a_plain_function_returns_is_awaited(
    ctx: RunContext[None], thread: bool
) -> None:
    async def fetch(url: str) -> str:
        return f"from {url}"

    @tool(effect="read", thread=thread)
    def get(url: str) -> Any:
        return fetch(url)

    assert (await get.bind({"url": "a"}).run(ctx)).value == "from a"


def test_a_parameter_without_a_type_is_named_where_the_tool_is_made() -> None:
    def search(context: RunContext[None], query, most=3, exact: bool = False):  # type: ignore[no-untyped-def]
        """Search."""

    gap = "'search' has no type for parameters 'query', 'most'"
    with pytest.warns(ToolWarning, match=gap) as caught:
        tool(search)
    assert "`query: str`" in str(caught[0].message)
    assert (caught[0].filename, caught[0].lineno) == (__file__, search.__code__.co_firstlineno)
    # The form of TAgent has no types of its own: its arguments are one mapping.
    tool(stateful_search)


def stateful_search(state, args):  # type: ignore[no-untyped-def]
    """Search."""


def test_a_tool_without_a_description_is_named_where_it_is_made() -> None:
    def search(query: str) -> None: ...

    with pytest.warns(ToolWarning, match="'search' has no description"):
        as_tool(search)
    tool(description="Search.")(search)


@pytest.mark.scenario("RCT-29")
async def test_success_false_is_a_failure_with_its_error_text(ctx: RunContext[None]) -> None:
    @tool(effect="read")
    def search() -> dict[str, Any]:
        return {"success": False, "error": "no such\nrow"}

    outcome = await search.bind({}).run(ctx)
    assert (outcome.status, outcome.extraction) == ("failure", "no such")


@pytest.mark.scenario("TAO-11")
async def test_a_tool_may_declare_its_result_partial(ctx: RunContext[None]) -> None:
    @tool(effect="read", extract=lambda value: "never asked")
    def half() -> Outcome:
        return Outcome({1, 2}, status="partial", extraction="2 of 4")

    assert await half.bind({}).run(ctx) == Outcome([1, 2], "partial", "2 of 4")


async def test_extract_sees_what_the_function_returned_and_may_not_break_it(
    ctx: RunContext[None],
) -> None:
    place = Place(street="Elm", number=3)
    good = tool(effect="read", name="good", extract=lambda p: p.street)(lambda: place)
    bad = tool(effect="read", name="bad", extract=lambda p: p.nothing)(lambda: place)
    assert await good.bind({}).run(ctx) == Outcome({"street": "Elm", "number": 3}, extraction="Elm")
    assert (await bad.bind({}).run(ctx)).status == "success"


async def test_a_tool_served_by_the_runtime_says_so_when_called(ctx: RunContext[None]) -> None:
    served = Tool("helper", "Asks another agent.", {"type": "object"}, agent=object())
    with pytest.raises(ConfigError, match="no function"):
        await served.bind({}).run(ctx)


@pytest.mark.scenario("TAG-22", "TAO-10")
async def test_a_hanging_tool_can_be_left_and_what_it_reported_is_kept() -> None:
    release, clock = threading.Event(), LoopClock()
    ctx = RunContext(None)

    @tool(effect="read")
    def hang(ctx: RunContext[None]) -> None:
        ctx.report("half")
        clock.jump(2 * PATIENCE)
        release.wait(PATIENCE)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hang.bind({}).run(ctx), PATIENCE)
    release.set()
    assert ctx.partial == ["half"]


def test_the_decorator_takes_every_option_of_a_tool() -> None:
    """Mutant: a field is forgotten in `ToolOptions`, so that type checkers refuse it."""
    # `aliases` and `renew` are of who makes tools of a server's.
    derived = {
        "schema", "agent", "successor", "function", "signature", "delegated", "aliases", "renew",
        "undeclared", "confined", "root", "place",
    }  # fmt: skip
    options = {field.name for field in fields(Tool) if field.init} - derived
    assert options == {"name", "description", "tier", "effect", *get_type_hints(ToolOptions)}


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    "theirs",
    [
        SimpleNamespace(name="add", description="Add.", params_json_schema=SCHEMA),
        SimpleNamespace(name="add", description=None, function_schema=SCHEMA),
        SimpleNamespace(name="add", description="Add.", parameters=SCHEMA),
        SimpleNamespace(
            metadata=SimpleNamespace(name="add", description="", get_parameters_dict=dict)
        ),
    ],
    ids=["OpenAI Agents", "pydantic-ai", "Haystack", "LlamaIndex"],
)
def test_a_tool_of_a_framework_without_a_bridge_is_refused_with_the_way_on(theirs: Any) -> None:
    with pytest.raises(ConfigError, match=r"external\(name, description, schema, call\)"):
        as_tool(theirs)

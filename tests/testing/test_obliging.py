"""`TestModel`: every tool is called once, with what its schema allows, and the answer is typed."""

import uuid
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from taofold import Agent, ConfigError, tool
from taofold.testing import TestModel
from taofold.testing.models import SchemaExample


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    item: str
    amount: Annotated[int, Field(ge=1, le=9)]


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []
    parent: Optional["Tree"] = None


class Invoice(BaseModel):
    customer: Annotated[str, Field(min_length=3, max_length=20)]
    lines: Annotated[list[Line], Field(min_length=2)]
    colour: Colour
    state: Literal["open", "paid"]
    due: date | None
    share: Annotated[float, Field(gt=0, lt=1)]
    note: str = ""


@dataclass
class City:
    name: str
    people: int = 3
    tags: list[str] = field(default_factory=list)


TYPES: list[Any] = [
    str,
    int,
    float,
    bool,
    None,
    list[int],
    dict[str, int],
    tuple[int, str],
    set[str],
    date,
    datetime,
    time,
    timedelta,
    uuid.UUID,
    Colour,
    Literal[3, "x"],
    int | str,
    int | None,
    Line,
    Tree,
    Invoice,
    City,
    Annotated[int, Field(gt=4, multiple_of=5)],
    Annotated[float, Field(lt=-2)],
    Annotated[str, Field(max_length=0)],
    Annotated[list[Tree], Field(min_length=1)],
    list[Invoice],
    Any,
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_value_satisfies_the_schema_and_the_type(kind: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    schema = adapter.json_schema()
    value = SchemaExample("it", schema).value()
    jsonschema.validate(value, schema)
    adapter.validate_json(adapter_json(value))


def adapter_json(value: Any) -> bytes:
    return TypeAdapter(Any).dump_json(value)


@given(
    low=st.integers(-50, 50),
    span=st.integers(0, 40),
    step=st.sampled_from([1, 2, 7]),
    left=st.booleans(),
)
def test_a_number_lies_between_its_bounds(low: int, span: int, step: int, left: bool) -> None:
    """Bounds that leave no room for a multiple are not asked of it."""
    high = low + span + step
    schema = {
        "type": "integer",
        "exclusiveMinimum" if left else "minimum": low,
        "maximum": high,
        "multipleOf": step,
    }
    if not [n for n in range(low + left, high + 1) if n % step == 0]:
        return
    jsonschema.validate(SchemaExample("it", schema).value(), schema)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string", "pattern": "^x+$"}, "must be matched"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "requires itself"),
        ({"$ref": "#/$defs/B"}, "leads nowhere"),
    ],
)
def test_what_cannot_be_made_up_is_said(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        SchemaExample("the parameters of tool 'x'", schema).value()
    assert "tool 'x'" in str(caught.value)


def test_every_tool_is_called_once_and_the_answer_is_typed() -> None:
    calls: list[tuple[str, Any]] = []

    @tool(effect="read")
    def price(item: str, amount: Annotated[int, Field(ge=2)]) -> float:
        """The price."""
        calls.append((item, amount))
        return 4.5

    @tool(effect="read")
    def stock(colour: Colour) -> int:
        """How many there are."""
        calls.append(("stock", colour))
        return 3

    model = TestModel(arguments={"price": {"item": "tea", "amount": 3}})
    result = Agent(model, tools=[price, stock], output=Invoice).run_sync("An invoice.")
    assert isinstance(result.output, Invoice)
    assert sorted(map(str, calls)) == sorted(map(str, [("tea", 3), ("stock", Colour.RED)]))
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    "strategy", ["react", "direct", "cot", "self_correct", "decompose", "plan"]
)
def test_it_serves_every_strategy(strategy: str) -> None:
    result = Agent(TestModel(), output=City, strategy=strategy).run_sync("Which city?")
    assert isinstance(result.output, City), result.error


def test_a_text_says_what_was_called() -> None:
    @tool(effect="read")
    def price(item: str) -> float:
        """The price."""
        return 4.5

    assert Agent(TestModel(), tools=[price]).run_sync("Price?").output == "called price"
    assert Agent(TestModel(call=[]), tools=[price]).run_sync("Price?").output == "done"
    assert Agent(TestModel(call=[], answer="9")).run_sync("Price?").output == "9"


@pytest.mark.parametrize("output", [str, City])
def test_it_gives_up_when_a_tool_raised(output: Any) -> None:
    @tool(effect="read")
    def stock(item: str) -> int:
        """How many there are."""
        return 3

    @tool(effect="read")
    def price(item: str) -> float:
        """The price."""
        return {"tea": 4.5}[item]

    result = Agent(TestModel(), tools=[price, stock], output=output).run_sync("Price?")
    assert (result.status, result.success) == ("finished", False)
    told = result.output if output is str else result.error
    assert told.startswith("price failed: KeyError")
    assert "stock" not in told


def test_an_answer_of_its_own_does_not_hide_a_tool_that_raised() -> None:
    @tool(effect="read")
    def price(item: str) -> float:
        """The price."""
        raise KeyError(item)

    assert not Agent(TestModel(answer="9"), tools=[price]).run_sync("Price?").success


def test_a_tool_that_is_not_offered_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="'prize', which is not offered"):
        Agent(TestModel(call=["prize"])).run_sync("Price?")

"""A tool's function gets the written arguments, or a record of their conversion."""

import json
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel, BeforeValidator, Field

from taofold import Agent, Policy, tool
from taofold.core.content import ToolCall
from taofold.core.values import Reply
from taofold.testing import ScriptedModel

FINISH = '{"thought":"d","action":{"tool":"finish","parameters":{"answer":"ok"}}}'


def pay_with(effect: Any, written: str, *, native: bool = False, tier: int = 2) -> Any:
    """Returns a tool's arguments and the record of its call."""
    paid: list[Any] = []

    @tool(effect=effect, tier=tier)
    def pay(to: str, amount: int, urgent: bool = False) -> str:
        """Pay somebody."""
        paid.append((amount, urgent))
        return "paid"

    parameters = f'{{"to":"x",{written}}}'
    text = f'{{"thought":"t","action":{{"tool":"pay","parameters":{parameters}}}}}'
    call = Reply(calls=(ToolCall("pay", parameters, "1"),), finish="tool_calls")
    model = ScriptedModel([call if native else text, *[FINISH] * 4])
    policy = Policy(autonomy="autonomous")
    result = Agent(model, tools=[pay], output=str, policy=policy).run_sync("g")
    return paid, result.steps[0].actions[0], result.steps[0].observations[0]


CONVERTED = {
    '"amount":"5"': "number_format",
    '"amount":5.0': "number_format",
    '"amount":"1,148.00"': "number_format",
    '"amount":5,"urgent":"yes"': "boolean_word",
    '"amount":5,"urgent":1': "boolean_word",
}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("written", CONVERTED)
def test_what_must_not_be_repeated_does_not_run_on_a_converted_argument(written, native):
    """Mutant: parameters are validated as Pydantic does it by default."""
    paid, action, observation = pay_with("once", written, native=native)
    assert paid == []
    assert observation.refused == "guessed"
    assert action.repairs[-1] == CONVERTED[written]


@pytest.mark.parametrize("written", CONVERTED)
def test_other_tools_run_on_a_converted_argument_and_the_receipt_is_on_record(written):
    """Mutant: what was converted is not put on the action."""
    paid, action, _ = pay_with("idempotent", written)
    assert len(paid) == 1
    assert type(paid[0][0]) is int
    assert type(paid[0][1]) is bool
    assert action.repairs == (CONVERTED[written],)
    assert action.guessed
    assert (action.parameters["amount"], action.parameters.get("urgent", False)) == paid[0]
    assert pay_with("idempotent", written, tier=3)[0] == []


NEVER = ['"amount":9007199254740993.0', '"amount":true', '"amount":5.5', '"amount":"1,148"']


@pytest.mark.parametrize("effect", ["read", "once"])
@pytest.mark.parametrize("written", NEVER)
def test_what_is_never_converted_reaches_no_tool(written, effect):
    """Mutant: parameters are validated as Pydantic does it by default."""
    paid, action, observation = pay_with(effect, written)
    assert paid == []
    assert observation.refused == "invalid"
    assert action.repairs == ()


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int


class Inner(BaseModel):
    number: int


class Loose(BaseModel):
    number: Annotated[int, Field(strict=False)]


TYPES = [
    (date, "2026-01-02", date(2026, 1, 2)),
    (timedelta, "PT5S", timedelta(seconds=5)),
    (Decimal, "1.50", Decimal("1.50")),
    (bytes, "x", b"x"),
    (Path, "/a", Path("/a")),
    (UUID, "12345678123456781234567812345678", UUID("12345678123456781234567812345678")),
    (Colour, "red", Colour.RED),
    (set[int], [1, 2], {1, 2}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (Point, {"x": 1}, Point(1)),
    (float, 5, 5.0),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (Annotated[int, BeforeValidator(int)], "5", 5),
    (Annotated[int, Field(strict=False)], "5", 5),
    (list[Loose], [{"number": "5"}], [Loose(number=5)]),
    (list[Inner], [{"number": 5}], [Inner(number=5)]),
]


@pytest.mark.parametrize(("type_", "written", "value"), TYPES, ids=lambda each: str(each)[:40])
def test_what_json_has_no_type_for_is_read_without_a_receipt(type_, written, value):
    """Mutant: Python's strictness instead of JSON's, where no text is a date."""
    bound = tool(effect="read")(_taking(type_)).bind({"value": written})
    assert bound.kwargs == {"value": value}
    assert bound.repairs == ()


@pytest.mark.parametrize("type_", [list[Inner], tuple[Inner, ...]])
def test_a_model_inside_a_parameter_is_no_looser(type_):
    """Mutant: strict for the parameters themselves only."""
    bound = tool(effect="read")(_taking(type_)).bind({"value": [{"number": "5"}]})
    assert [each.kind for each in bound.repairs] == ["number_format"]
    assert bound.repairs[0].content


def _taking(type_: Any) -> Any:
    def take(value: Any) -> str:
        return str(value)

    take.__annotations__["value"] = type_
    return take


@tool(effect="once", tier=2)
def transfer(order: Inner) -> str:
    """Transfer a number."""
    SENT.append(order.number)
    return "sent"


SENT: list[int] = []


@pytest.mark.parametrize(("written", "sent"), [(5, [5]), ("5", []), (5.0, []), (True, [])])
def test_the_fields_of_a_model_that_stands_for_the_parameters_are_no_looser(written, sent):
    """Mutant: the model is validated as Pydantic does it by default."""
    SENT.clear()
    call = {"thought": "t", "action": {"tool": "transfer", "parameters": {"number": written}}}
    model = ScriptedModel([json.dumps(call), *[FINISH] * 4])
    Agent(model, tools=[transfer], output=str, policy=Policy(autonomy="autonomous")).run_sync("g")
    assert sent == SENT


@pytest.mark.parametrize(("written", "sent"), [("5", [5]), ("٥", []), ("５", [])])
def test_digits_that_json_has_not_are_no_number(written, sent):
    """Mutant: a pattern of numbers without `re.ASCII`."""
    SENT.clear()
    text = (
        f"<tool_call><function=transfer><parameter=number>{written}</parameter>"
        "</function></tool_call>"
    )
    model = ScriptedModel([Reply(text=text, finish="stop"), *[FINISH] * 4])
    Agent(model, tools=[transfer], output=str, policy=Policy(autonomy="autonomous")).run_sync("g")
    assert sent == SENT

"""Typed values: what each level allows, the receipts, the refusals and their words."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field, PastDate
from typing_extensions import TypedDict

from taofold.parsing import Parsed, Unparsed, parse, parse_partial


class Colour(Enum):
    RED = "red"
    DARK_BLUE = "dark-blue"


class Person(BaseModel):
    name: str
    age: int
    email: str | None = None


class Thing(BaseModel):
    colour: Colour
    size: Annotated[float, Field(ge=0, le=10)]
    tags: list[str] = []
    made: date | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Movie(TypedDict):
    title: str
    year: int


@dataclass
class Point:
    x: int
    y: int


class Node(BaseModel):
    value: int
    children: list["Node"] = []


def value(text: str, type_: Any, **options: Any) -> Any:
    result = parse(text, type_, **options)
    return result.value if isinstance(result, Parsed) else result.reason


@pytest.mark.parametrize(
    ("text", "type_", "wanted"),
    [
        ("{'x': '1', 'y': 2,}", Point, Point(1, 2)),
        ("{title: 'It', year: 2_017}", Movie, {"title": "It", "year": 2017}),
        ('{"kind": "DOG", "tricks": "sit"}', Cat | Dog, Dog(kind="dog", tricks=["sit"])),
        ('x {"kind": "cat", "lives": 9}', Annotated[Cat | Dog, Field(discriminator="kind")],
         Cat(kind="cat", lives=9)),
        ('{"value": 1, "children": [{"value": 2,}]}', Node, Node(value=1, children=[Node(value=2)])),  # noqa: E501
        ("Result: [1, 2, 3]", list[int], [1, 2, 3]),
        ("(see) {1: 'a', 2: 'b'}", dict[str, str], {"1": "a", "2": "b"}),
        ("['a', 1]", tuple[str, int], ("a", 1)),
        ("Dark Blue", Colour, Colour.DARK_BLUE),
        ("**YES**", Literal["yes", "no"], "yes"),
        ("```\n42\n```", int, 42),
        ("hello there", str, "hello there"),
        ("true", bool, True),
    ],
)  # fmt: skip
def test_any_type_of_pydantic_is_read(text, type_, wanted):
    assert value(text, type_) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"colour": "RED", "size": "1.5"}', 1.5),
        ('{"Colour": "Dark Blue", "size": 3}', 3.0),
        ('{"colour": "dark_blue", "size": 3, "tags": "x"}', 3.0),
        ('{"colour": "red", "size": 3, "tags": "[\\"x\\"]", "made": "null"}', 3.0),
    ],
)
def test_lossless_conversions_are_made_and_named(text, wanted):
    result = parse(text, Thing)
    assert isinstance(result, Parsed)
    assert result.value.size == wanted
    assert result.cost > 0
    assert all(repair.level == "schema" for repair in result.repairs)


@pytest.mark.parametrize(
    "text",
    [
        '{"colour": "red", "size": 41}',  # a bound
        '{"colour": "red or dark-blue", "size": 1}',  # two of them
        '{"colour": "not red", "size": 1}',
        '{"colour": "red", "size": true}',
        '{"colour": "red", "size": NaN}',
        '{"colour": "red", "size": "1,148"}',  # 1.148 elsewhere
        '{"colour": "red", "size": 1, "tags": "a, b"}',  # one or two
        '{"colour": "red", "size": null}',
        '{"colour": {"name": "red"}, "size": 1}',
    ],
)
def test_nothing_is_rounded_clamped_dropped_or_guessed(text):
    assert value(text, Thing) == "invalid"


def test_a_fraction_is_no_integer_and_a_boolean_no_number():
    assert value('{"name": "A", "age": 41.7}', Person) == "invalid"
    assert value('{"name": "A", "age": true}', Person) == "invalid"
    assert value('{"name": "A", "age": 41.0}', Person) == Person(name="A", age=41)


def test_a_declared_key_in_another_case_is_not_silently_dropped():
    found = parse('{"name": "A", "age": 1, "Email": "a@b"}', Person)
    assert isinstance(found, Parsed)
    assert found.value.email == "a@b"


def test_a_tie_between_different_readings_is_a_refusal():
    class Sum(BaseModel):
        value: Literal[1] | Literal["1 "]

    assert value('{"value": "1"}', Sum) == "invalid"


LEVELS = {
    '{"name": "A", "age": 1}': "none",
    'Here: {"name": "A", "age": 1}.': "none",
    "{'name': 'A', 'age': 1}": "syntax",
    '{"name": "A", "age": 1,}': "syntax",
    "name: A\nage: 1": "syntax",
    '{"name": "A", "age": "1"}': "schema",
    '{"Name": "A", "age": 1}': "schema",
    '{"data": {"name": "A", "age": 1}}': "none",
}


@pytest.mark.parametrize("text", LEVELS)
def test_a_level_allows_its_own_repairs_and_those_below(text):
    order = ["none", "syntax", "schema"]
    for level in order:
        allowed = order.index(level) >= order.index(LEVELS[text])
        assert isinstance(parse(text, Person, level=level), Parsed if allowed else Unparsed), level


def test_a_receipt_says_what_was_changed_and_whether_it_was_content():
    result = parse('{"name": "say "hi"", "age": 1,}', Person)
    assert isinstance(result, Parsed)
    content = {repair.kind: repair.content for repair in result.repairs}
    assert content == {"unescaped_quotes": True, "trailing_comma": False}
    assert parse('{"name": "A", "age": 1}', Person) == Parsed(Person(name="A", age=1))


@pytest.mark.scenario("TEA-04", "PEER-09", "TAG-10", "TEA-10")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("I am sorry, I cannot.", "no_candidate"),
        ('{"name": "A", "age": ', "incomplete"),
        ('{"name": "A", "age": 4', "incomplete"),
        ("<think>{'name': 'A'", "incomplete"),
        ('{"name": "A", "age": 1}\n{"name": "B", "age": 2}', "ambiguous"),
        ('{"name": "A"}', "invalid"),
        ('{"name": "string", "age": "integer"}', "invalid"),
        ("[" * 5000, "too_large"),
    ],
)
def test_a_refusal_has_its_reason(text, reason):
    result = parse(text, Person)
    assert isinstance(result, Unparsed)
    assert result.reason == reason
    assert result.feedback
    assert len(result.feedback) < 400
    assert len(result.raw) <= 500


def test_feedback_names_only_the_failing_paths_with_a_bounded_echo():
    result = parse('{"name": 1.5, "age": "' + "x" * 500 + '", "email": "e"}', Person)
    assert isinstance(result, Unparsed)
    assert "age: expected an integer" in result.feedback
    assert "email" not in result.feedback
    assert len(result.feedback) < 250


def even(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd")
    return value


def test_the_message_of_a_validator_stands_alone() -> None:
    result = parse("7", Annotated[int, AfterValidator(even)])
    assert isinstance(result, Unparsed)
    assert result.feedback == "Correct only this: the value: 7 is odd"


@pytest.mark.parametrize(
    ("text", "type_", "fault"),
    [
        ("[7]", list[Annotated[int, Field(le=1)]], "expected less than or equal to 1, got 7"),
        ('["2999-01-01"]', list[PastDate], 'Date should be in the past, got "2999-01-01"'),
    ],
)
def test_a_bound_that_is_not_kept_reads_as_a_sentence(text: str, type_: Any, fault: str) -> None:
    result = parse(text, type_)
    assert isinstance(result, Unparsed)
    assert result.feedback == f"Correct only this: 0: {fault}"


def test_a_cut_text_is_refused_even_when_only_closers_are_missing():
    text = '{"name": "A", "age": 1, "email": "e@f"'
    assert isinstance(parse(text, Person), Parsed)
    assert value(text, Person, finish_reason="length") == "incomplete"
    assert value('{"a": {"b": 1}', dict[str, Any]) == "incomplete"
    assert value("[1, 2", list[int]) == "incomplete"


def test_partial_values_are_marked_and_never_clean():
    result = parse_partial('```json\n{"name": "An', Person)
    assert isinstance(result, Parsed)
    assert result.value == {"name": "An"}
    assert any(repair.kind == "partial" and repair.content for repair in result.repairs)
    done = parse_partial('{"name": "Ann", "age": 3}', Person)
    assert isinstance(done, Parsed)
    assert done.value == Person(name="Ann", age=3)
    assert isinstance(parse_partial("hello", Person), Unparsed)


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("Final answer:", {"x": 2}),
        ("**Final:**\n```json", {"x": 2}),
        ("My corrected version:", {"x": 2}),
        ("This is not the final answer:", "ambiguous"),
        ("semifinal:", "ambiguous"),
        ("It is final that", "ambiguous"),
    ],
)
def test_only_a_label_on_its_own_line_says_which_of_two_values_counts(label, wanted):
    """Mutant: a word anywhere before the last value decides."""
    assert value(f'{{"x": 1}}\n\n{label} {{"x": 2}}\n```', dict[str, int]) == wanted


class Removal(BaseModel):
    name: Literal["delete_rows"]
    arguments: dict[str, Any]


class Note(BaseModel):
    file: str
    done: bool = False


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Removal, '{"name": "delete_rows", "arguments": {"table": "log"}, "limit": 3}}'),
        (Removal, '{"name": "delete_rows", "arguments": {"table": "log"} "limit": 3}'),
        (Removal, '{"name": "delete_rows", "arguments": {"table": "log"}, "limit": 3}\nDone.'),
        (Note, "{file: 'a'},\n  done: true\n}"),
        (Note, '{"file": "a", }: true"done"'),
        (Note, '{"file": "a,\n  ""done": true}'),
    ],
)
def test_a_member_that_may_have_left_its_object_marks_what_is_read(type_, text):
    result = parse(text, type_)
    assert isinstance(result, Parsed)
    assert any(repair.content for repair in result.repairs), result


def test_an_undeclared_key_of_a_whole_object_is_dropped_without_a_mark():
    result = parse('Here: {"file": "a", "confidence": 0.9}', Note)
    assert isinstance(result, Parsed)
    assert not any(repair.content for repair in result.repairs)

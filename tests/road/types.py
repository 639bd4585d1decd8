"""The types of an answer that the road matrix tries, each with the JSON that a model writes.

`KINDS` is the table. `Kind.expected` is the value that a single validation of that JSON gives. Most
rows are types whose JSON form differs from what they dump to, or whose validator is not idempotent.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Optional,
    TypeVar,
    Union,
)
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    Json,
    PlainSerializer,
    RootModel,
    SecretStr,
    TypeAdapter,
    computed_field,
    field_serializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Place(NamedTuple):
    name: str
    height: int = 0


@dataclass
class Box:
    width: float
    label: str = "none"
    tags: list[str] = field(default_factory=list[str])


@dataclass
class Doubled:
    """`__post_init__` is not idempotent."""

    amount: float

    def __post_init__(self) -> None:
        self.amount *= 2


class Point(BaseModel):
    x: int
    y: int = 7


class Line(BaseModel):
    start: Point
    ends: list[Point]
    note: str | None = None


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    user_id: int
    full_name: str


class Choices(BaseModel):
    city: str = Field(validation_alias=AliasChoices("town", "place"))


class OneWay(BaseModel):
    key: int = Field(validation_alias="in", serialization_alias="out")


class Team(BaseModel):
    lead: Camel
    members: dict[str, Camel]


class Hidden(BaseModel):
    shown: str
    hidden: int = Field(exclude=True)


class Area(BaseModel):
    model_config = ConfigDict(extra="forbid")
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side * self.side


class Stamped(BaseModel):
    at: date

    @field_serializer("at")
    def _of(self, at: date) -> str:
        return f"{at:%d.%m.%Y}"


class Packed(BaseModel):
    numbers: Json[list[int]]


class Login(BaseModel):
    user: str
    word: SecretStr


class Taxed(BaseModel):
    """The validator takes a gross amount and keeps the net one."""

    net: Annotated[float, BeforeValidator(lambda value: value / 1.25)]


class Counted(BaseModel):
    times: int

    @model_validator(mode="after")
    def _count(self) -> "Counted":
        self.times += 1
        return self


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Page(BaseModel, Generic[T]):
    items: list[T]
    total: int


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Numbers(RootModel[list[int]]):
    pass


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Answered(BaseModel):
    """Its field has the name of the parameter of `finish`."""

    answer: int
    success: bool


class Tooled(BaseModel):
    """Its fields have the names of the protocol's keys."""

    tool: str
    thought: str
    action: str


class Nullable(BaseModel):
    left: int | None
    right: str | None = None


class Bounded(BaseModel):
    share: float = Field(ge=0, le=1)
    code: str = Field(pattern=r"^[A-Z]{2}$", description="Two capitals.")


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)
    text: str


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Incremented = Annotated[int, AfterValidator(lambda value: value + 1)]
Exclaimed = Annotated[str, AfterValidator(lambda value: value + "!")]
Reversed = Annotated[list[int], AfterValidator(lambda value: value[::-1])]
Hexed = Annotated[int, PlainSerializer(hex, return_type=str)]


@dataclass(frozen=True)
class Kind:
    """A type, and `wire`: what a model writes as a value of it."""

    name: str
    type: Any
    wire: Any

    def __str__(self) -> str:
        return self.name

    @property
    def expected(self) -> Any:
        """The value of one validation. Text is kept as it is."""
        if self.type is str:
            return self.wire
        return TypeAdapter(self.type).validate_json(json.dumps(self.wire))


KINDS: Sequence[Kind] = (
    Kind("str", str, "It is 7 °C in Bergen."),
    Kind("str_digits", str, "02134"),
    Kind("int", int, 42),
    Kind("int_large", int, 9007199254740993),
    Kind("float", float, 2.5),
    Kind("bool", bool, False),
    Kind("literal", Literal["yes", "no"], "no"),
    Kind("literal_number", Literal[1, 2], 2),
    Kind("enum", Colour, "blue"),
    Kind("int_enum", Level, 2),
    Kind("date", date, "2026-11-28"),
    Kind("datetime", datetime, "2026-11-28T10:30:00+01:00"),
    Kind("time", time, "10:30:00"),
    Kind("timedelta", timedelta, "PT1H30M"),
    Kind("decimal", Decimal, "12.50"),
    Kind("uuid", UUID, "6f1e3a52-6b0f-4c63-9a54-0d6f3c1f2a77"),
    Kind("bytes", bytes, "plain"),
    Kind("path", Path, "notes/today.txt"),
    Kind("byte_size", ByteSize, "1KiB"),
    Kind("list", list[int], [1, 2, 3]),
    Kind("list_empty", list[int], []),
    Kind("list_models", list[Point], [{"x": 1, "y": 2}, {"x": 3, "y": 4}]),
    Kind("dict", dict[str, int], {"a": 1, "b": 2}),
    Kind("dict_int_keys", dict[int, str], {"1": "one", "2": "two"}),
    Kind("set", set[str], ["b", "a"]),
    Kind("frozenset", frozenset[int], [3, 1]),
    Kind("tuple", tuple[int, str], [1, "one"]),
    Kind("tuple_any", tuple[float, ...], [0.5, 1.5]),
    Kind("optional", Optional[int], None),  # noqa: UP045 - as users write it
    Kind("optional_model", Point | None, {"x": 1, "y": 2}),
    Kind("union", int | str, "7"),
    Kind("union_models", Union[Point, Movie], {"title": "Heat", "year": 1995}),
    Kind("typed_dict", Movie, {"title": "Ran"}),
    Kind("dataclass", Box, {"width": 1.5, "label": "tea", "tags": ["a"]}),
    Kind("dataclass_post_init", Doubled, {"amount": 1.5}),
    Kind("named_tuple", Place, ["Etna", 3357]),
    Kind("model", Point, {"x": 1, "y": 2}),
    Kind("model_nested", Line, {
        "start": {"x": 0, "y": 0}, "ends": [{"x": 1, "y": 2}], "note": "n",
    }),
    Kind("model_alias", Camel, {"userId": 1, "fullName": "Ada L."}),
    Kind("model_alias_choices", Choices, {"town": "Oslo"}),
    Kind("model_two_aliases", OneWay, {"in": 3}),
    Kind("model_alias_nested", Team, {
        "lead": {"userId": 1, "fullName": "Ada"}, "members": {"b": {"userId": 2, "fullName": "Bo"}},
    }),
    Kind("list_alias", list[Camel], [{"userId": 1, "fullName": "Ada"}]),
    Kind("model_exclude", Hidden, {"shown": "s", "hidden": 5}),
    Kind("model_computed", Area, {"side": 3}),
    Kind("model_serializer", Stamped, {"at": "2026-11-28"}),
    Kind("plain_serializer", Hexed, 255),
    Kind("model_json", Packed, {"numbers": "[1, 2]"}),
    Kind("model_hidden_text", Login, {"user": "ada", "word": "lovelace"}),
    Kind("before_validator", Taxed, {"net": 12.5}),
    Kind("after_validator", Incremented, 1),
    Kind("after_validator_text", Exclaimed, "a"),
    Kind("after_validator_list", Reversed, [1, 2, 3]),
    Kind("model_validator", Counted, {"times": 1}),
    Kind("discriminated", Pet, {"kind": "dog", "tricks": ["sit"]}),
    Kind("list_discriminated", list[Pet], [{"kind": "cat", "lives": 9}]),
    Kind("generic", Page[Point], {"items": [{"x": 1, "y": 2}], "total": 1}),
    Kind("recursive", Tree, {"value": 1, "children": [{"value": 2, "children": []}]}),
    Kind("root_model", Numbers, [4, 5]),
    Kind("extra_allowed", Loose, {"name": "n", "more": [1]}),
    Kind("finish_names", Answered, {"answer": 3, "success": True}),
    Kind("protocol_names", Tooled, {"tool": "saw", "thought": "cut", "action": "go"}),
    Kind("nullable", Nullable, {"left": None, "right": None}),
    Kind("bounded", Bounded, {"share": 0.5, "code": "NO"}),
    Kind("frozen", Frozen, {"text": "t"}),
)  # fmt: skip

for _kind in KINDS:
    # Agent files name a type as `module:attribute`.
    globals()[f"T_{_kind.name}"] = _kind.type

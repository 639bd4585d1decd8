"""The compact rendering of types for prompts."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from taofold.parsing import render_schema


class Step(BaseModel):
    id: int
    mode: Literal["r", "w"] = "r"
    tags: list[str] = []
    next: "Step | None" = None


class Search(BaseModel):
    query: str = Field(description="what to look for", min_length=1)
    limit: int = Field(10, le=50)


def test_a_type_is_rendered_as_typescript_would():
    assert render_schema(dict[str, int]) == "{[key: string]: int}"
    assert render_schema(list[str | None]) == "(string | null)[]"
    assert render_schema(tuple[int, bool]) == "[int, boolean]"
    assert render_schema(Any) == "any"


def test_defaults_optional_fields_and_recursion_are_shown():
    assert render_schema(Step) == (
        '{id: int, mode?: "r" | "w" = "r", tags?: string[] = [], next?: Step | null}'
    )


def test_descriptions_and_bounds_become_comments():
    assert render_schema(Search) == (
        "{\n  query: string  // what to look for, length >= 1\n  limit?: int = 10  // <= 50\n}"
    )


def test_a_json_schema_is_rendered_like_the_type_it_came_from():
    assert render_schema(Search.model_json_schema()) == render_schema(Search)


def test_the_rendering_is_a_fraction_of_the_schema():
    import json

    assert len(render_schema(Search)) < len(json.dumps(Search.model_json_schema())) / 3

"""Answers to a tool's form: an invalid one is refused with its path and decides nothing.

Mutants: an answer that is not checked; `true` for 1; a field that the form does not have; a form
that is missing in AG-UI.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold import RunContext, tool
from taofold.server.api import forms
from taofold.server.endpoint import Problem
from taofold.tools import InputRequired
from tests.server.agents import Bench, act, finish
from tests.server.agui.test_http import answers, refused, request, talk
from tests.server.live import serving

pytestmark = pytest.mark.anyio
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "walls": {"type": "integer", "minimum": 1, "maximum": 4},
        "note": {"type": "string", "maxLength": 5},
        "gloss": {"type": "boolean", "default": True},
        "rooms": {"type": "array", "maxItems": 2, "items": {"enum": ["hall", "attic"]}},
        "model_config": {"type": "number", "exclusiveMinimum": 0},
        "kind": {"oneOf": [{"const": 1, "title": "one"}, {"const": "two"}]},
        "odd": {"type": ["string", "null"], "minLength": "x"},
    },
    "required": ["colour", "walls", "gloss", "nowhere"],
}
RIGHT = {"colour": "blue", "walls": 3}
MISFITS: dict[str, tuple[Any, list[str]]] = {
    "nothing": ({}, ["colour", "walls"]),
    "another choice": ({**RIGHT, "colour": "green"}, ["colour"]),
    "text for a number": ({**RIGHT, "walls": "3"}, ["walls"]),
    "true for one": ({**RIGHT, "walls": True}, ["walls"]),
    "too many": ({**RIGHT, "walls": 5}, ["walls"]),
    "too long": ({**RIGHT, "note": "x" * 6}, ["note"]),
    "a number for yes": ({**RIGHT, "gloss": 1}, ["gloss"]),
    "a room that is none": ({**RIGHT, "rooms": ["hall", "cellar"]}, ["rooms/1"]),
    "three rooms": ({**RIGHT, "rooms": ["hall", "attic", "hall"]}, ["rooms"]),
    "a field that is none": ({**RIGHT, "size": 1}, ["size"]),
    "not above": ({**RIGHT, "model_config": 0}, ["model_config"]),
    "true for the choice 1": ({**RIGHT, "kind": True}, ["kind"]),
    "null": ({**RIGHT, "note": None}, ["note"]),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_named_by_its_path(name: str) -> None:
    said, paths = MISFITS[name]
    with pytest.raises(Problem) as caught:
        forms.answer(FORM, json.dumps(said))
    assert caught.value.status == 422
    assert [one["path"] for one in caught.value.faults or []] == [f"answer/{p}" for p in paths]


@pytest.mark.parametrize(
    "said",
    [
        RIGHT,
        {**RIGHT, "gloss": False, "rooms": ["hall"], "note": "", "model_config": 0.5},
        {**RIGHT, "kind": 1, "odd": {"whatever": "the tool says"}},
    ],
)
def test_what_fits_reaches_the_tool_as_it_is(said: Any) -> None:
    assert json.loads(forms.answer(FORM, json.dumps(said))) == said


@pytest.mark.parametrize("text", ["red", "[1]", "{", '{"colour": NaN}', "[" * 100_000, "3"])
def test_what_is_no_filled_form_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        forms.answer(FORM, text)


def test_a_form_of_one_field_takes_the_plain_value_and_a_schema_without_fields_its_own() -> None:
    one = {"type": "object", "properties": {"walls": {"type": "integer", "minimum": 2}}}
    assert forms.answer(one, "3") == '{"walls":3}'
    assert forms.answer(one, "") == "{}"
    with pytest.raises(Problem):
        forms.answer(one, "1")
    text = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert forms.answer(text, "3") == '{"name":"3"}'
    assert forms.answer({"type": "string"}, "3 walls") == "3 walls"
    assert forms.answer({"type": "integer"}, "3") == "3"
    with pytest.raises(Problem):
        forms.answer({"type": "integer"}, "three")
    assert forms.answer({"title": "anything"}, "{") == "{"


def painter(heard: list[Any]) -> Any:
    @tool(effect="idempotent", tier=1, reversible=True)
    def paint(ctx: RunContext[Any]) -> str:
        """Paint."""
        if ctx.answer is None:
            raise InputRequired("How shall I paint?", form=FORM)
        heard.append((ctx.answer.accepted, ctx.answer.text and json.loads(ctx.answer.text)))
        return "painted"

    return Bench().agent(act("I paint", "paint"), finish("done"), tools=[paint])


@pytest.mark.parametrize("form", ["answer", "edit"])
async def test_a_misfit_decides_nothing_and_can_be_mended(tmp_path: Path, form: str) -> None:
    def body(said: dict[str, Any]) -> dict[str, Any]:
        if form == "edit":
            return {"decision": "edit", "parameters": said}
        return {"decision": "answer", "answer": json.dumps(said)}

    heard: list[Any] = []
    async with serving(painter(heard), tmp_path / "r.db") as client:
        run = await client.start()
        asked = await client.pending(run)
        wrong = await client.post(f"/approvals/{asked['id']}", body({**RIGHT, "walls": 9}))
        assert wrong.status_code == 422
        under = "answer" if form == "answer" else "parameters"
        assert [one["path"] for one in wrong.json()["faults"]] == [f"{under}/walls"]
        assert (await client.pending(run))["id"] == asked["id"]
        right = await client.post(f"/approvals/{asked['id']}", body(RIGHT))
        assert right.status_code == 202, right.text
        await client.until(run, "finished")
        assert heard == [(True, RIGHT)]


async def test_a_denial_needs_no_form(tmp_path: Path) -> None:
    heard: list[Any] = []
    async with serving(painter(heard), tmp_path / "r.db") as client:
        run = await client.start()
        asked = await client.pending(run)
        said = await client.post(f"/approvals/{asked['id']}", {"decision": "deny"})
        assert said.status_code == 202
        await client.until(run, "finished")
        assert heard == [(False, "")]


async def test_ag_ui_is_told_the_form_and_held_to_it(tmp_path: Path) -> None:
    heard: list[Any] = []
    async with serving(painter(heard), tmp_path / "r.db") as client:
        first = await talk(client, request())
        (asked,) = first[-1]["outcome"]["interrupts"]
        assert asked["reason"] == "input_required"
        assert asked["message"] == "How shall I paint?"
        assert asked["responseSchema"]["properties"]["parameters"] == FORM
        wrong = answers(first, approved=True, parameters={**RIGHT, "colour": "green"})
        said = await refused(client, request(run="r2", resume=wrong))
        assert [one["path"] for one in said.json()["faults"]] == ["parameters/colour"]
        right = answers(first, approved=True, parameters=RIGHT)
        second = await talk(client, request(run="r3", resume=right))
        assert second[-1]["outcome"] == {"type": "success"}
        assert heard == [(True, RIGHT)]

"""Our server, as the conformance suite wants to meet it: `python everything.py PORT HOME`."""

import asyncio
import sys
from typing import Any

import uvicorn

from taofold import MemoryLog, Principal, RunContext, tool
from taofold.bridges.mcp.server import Offers, http_app, make_server
from taofold.tools import InputRequired
from taofold.tools.tool import external

S2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool(effect="read")
def test_simple_text() -> str:
    """Say something simple."""
    return "This is a simple text response for testing."


@tool(effect="read")
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@tool(effect="read")
def test_elicitation(ctx: RunContext[Any], message: str) -> str:
    """Ask the person at the client."""
    if ctx.answer is None:
        form = {
            "type": "object",
            "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            },
            "required": ["username", "email"],
        }
        raise InputRequired(message, form=form)
    return f"User response: {ctx.answer.text}"


@tool(effect="read")
async def test_tool_with_progress(ctx: RunContext[Any]) -> str:
    """Report progress."""
    for share in (0, 50, 100):
        ctx.report(f"{share}/100 ")
        await asyncio.sleep(0.05)
    return "done"


def form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def asking(name: str, question: str, wanted: dict[str, Any], rounds: int = 1) -> Any:
    """A tool that asks `rounds` times before it answers."""

    def call(ctx: RunContext[Any]) -> str:
        said = 0 if ctx.answer is None else ctx.answer.state
        if said < rounds:
            raise InputRequired(question, form=wanted, state=said + 1)
        return f"{ctx.answer.text}: state-ok" if ctx.answer else ""

    call.__name__ = name
    call.__doc__ = question
    return tool(effect="read")(call)


NAME = form(name={"type": "string"})
OK = form(ok={"type": "boolean"})
DEFAULTS = form(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
ENUMS = form(
    untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
    titledSingle={"type": "string", "oneOf": TITLED},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
    untitledMulti={
        "type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}
    },
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)  # fmt: skip
REGION = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "query": {"type": "string"},
    },
    "required": ["region", "query"],
}
ASKING = [
    asking("test_input_required_result_elicitation", "What is your name?", NAME),
    asking("test_input_required_result_request_state", "Please confirm", OK),
    asking("test_input_required_result_tampered_state", "Please confirm", OK),
    asking("test_input_required_result_multi_round", "Go on", NAME, 2),
    asking("test_input_required_result_capabilities", "What is your name?", NAME),
    asking("test_elicitation_sep1034_defaults", "Please review", DEFAULTS),
    asking("test_elicitation_sep1330_enums", "Please choose", ENUMS),
]


def main(port: int) -> None:
    schema = external("json_schema_2020_12_tool", "A rich schema.", S2020, str, effect="read")
    tools = [test_simple_text, test_error_handling, test_elicitation, test_tool_with_progress]
    header = external("test_header", "Route.", REGION, str, effect="read")
    offers = Offers.of(tools=[*tools, schema, header, *ASKING], log=MemoryLog())
    app = http_app(make_server(offers), lambda scope: Principal())  # the suite sends no credentials
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))

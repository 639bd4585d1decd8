"""The same run by pydantic-ai and by us, on the same model: their spans, attribute by attribute."""

import json
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent
from taofold.core.values import Profile
from taofold.runtime.providers import resolve
from taofold.telemetry import otel
from tests import environments
from tests.telemetry.kit import add, capturing, told
from tests.telemetry.model_server import adding

pytestmark = [pytest.mark.anyio, pytest.mark.allow_model_requests]

SCRIPT = Path(__file__).parent / "scripts" / "pydantic_ai_spans.py"
PREFIXES = ("gen_ai.", "server.", "error.", "exception.", "user.", "session.")
"""The compared attributes: names of the conventions. The others are pydantic-ai's or Logfire's."""
OTHER: dict[str, str] = {
    "gen_ai.agent.call.id": "pydantic-ai's id of the run: ours is `taofold.run.id`",
    "gen_ai.response.model": "ours is the model's configured name: its bridge keeps no other",
    "gen_ai.response.id": "no bridge of a model keeps it",
    "gen_ai.conversation.id": "they make one up, ours is the session, told where there is one",
    "gen_ai.usage.details.reasoning_tokens": "ours is `gen_ai.usage.reasoning.output_tokens`",
    "gen_ai.usage.details.cache_read_tokens": "their second name of `cache_read.input_tokens`",
    "gen_ai.aggregated_usage.details.reasoning_tokens": "as above",
    "gen_ai.aggregated_usage.details.cache_read_tokens": "as above",
}
"""Attributes that only they have, and why."""
IF_TOLD = frozenset({"server.address", "server.port"})
"""Attributes that a model's bridge may omit. If present, they must be equal."""
JSON = frozenset({
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
    "gen_ai.tool.definitions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
})  # fmt: skip


async def ours(url: str) -> list[Any]:
    model = resolve(
        "openai-compatible:gpt-test", base_url=url, api_key="x", profile=Profile(native_tools=True)
    )
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url, content=True)
        agent = Agent(
            model, tools=[add], name="calculator", instructions="Calculate.", log=log,
            temperature=0.5, max_tokens=300,
        )  # fmt: skip
        result = await agent.run("what is 2 + 3?")
        await log.close()
        assert result.output == "It is 5."
        return server.spans()


def neutral(name: str, value: Any) -> Any:
    """Returns a value without permitted differences: the order and form of JSON."""
    if name not in JSON:
        return list(value) if isinstance(value, tuple) else value
    value = json.loads(value)
    if name.endswith("messages"):
        return [(one["role"], [_part(part) for part in one["parts"]]) for one in value]
    if name.endswith("definitions"):
        return [
            (one["type"], one["name"], one["description"], one["parameters"]["required"])
            for one in value
            if one["name"] == "add"
        ]
    if name == "gen_ai.system_instructions":
        # The request: ours has the strategy's own words after the agent's.
        return [(one["type"], one["content"].partition("\n\n")[0]) for one in value]
    return value


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """Decodes pydantic-ai's arguments, and renames a response's `result` to `response`."""
    plain = {key: value for key, value in part.items() if key != "name" or part["type"] != RESPONSE}
    if isinstance(plain.get("arguments"), str):
        plain["arguments"] = json.loads(plain["arguments"])
    if part["type"] == RESPONSE:
        # The request: ours is an observation, `Observation: 1 [success] add: 5`.
        text = str(plain.pop("result", None) or plain["response"])
        plain["response"] = text.rpartition(": ")[2]
    return plain


RESPONSE = "tool_call_response"


async def test_each_attribute_of_pydantic_ais_spans_is_in_ours_with_the_same_value() -> None:
    environment = environments.needs("phoenix")  # where pydantic-ai is, too
    with adding() as url:
        found = environment.run(SCRIPT, url)
        assert found.returncode == 0, found.stderr
        mine = await ours(url)
    theirs = json.loads(found.stdout)
    assert [one["name"] for one in theirs] == [one.name for one in mine]
    ids = {one["id"]: place for place, one in enumerate(theirs)}
    parents = {one.span_id: place for place, one in enumerate(mine)}
    compared: set[str] = set()
    for their, our in zip(theirs, mine, strict=True):
        assert their["kind"] == {1: "INTERNAL", 3: "CLIENT"}[our.kind]
        assert ids.get(their["parent"]) == parents.get(our.parent_span_id)
        facts = told(our)
        for name, value in their["attributes"].items():
            if not name.startswith(PREFIXES) or name in OTHER:
                continue
            if name in IF_TOLD and name not in facts:
                continue
            assert name in facts, (their["name"], name, value)
            assert neutral(name, facts[name]) == neutral(name, value), (their["name"], name)
            compared.add(name)
    assert compared >= {
        *JSON, "gen_ai.usage.input_tokens", "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.response.finish_reasons", "gen_ai.request.temperature",
        "gen_ai.aggregated_usage.output_tokens", "gen_ai.provider.name",
    }  # fmt: skip
    assert set(OTHER) <= {name for one in theirs for name in one["attributes"]}, "one is no more"

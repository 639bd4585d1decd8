"""Every attribute that is sent, against OpenTelemetry's own package of conventions."""

from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import (
    gen_ai_attributes,
    session_attributes,
    user_attributes,
)
from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import (
    GenAiOperationNameValues,
    GenAiProviderNameValues,
)
from opentelemetry.semconv.attributes import (
    error_attributes,
    exception_attributes,
    server_attributes,
)

from taofold import Agent
from taofold.core.content import Issuer
from taofold.core.reply import Reply, Usage
from taofold.core.values import Principal
from taofold.telemetry import otel
from taofold.telemetry.attributes import _PROVIDERS, Attributes, _server
from taofold.testing.models import FunctionModel
from tests.runtime.kit import finish
from tests.telemetry.kit import calculator, capturing, family, told

pytestmark = pytest.mark.anyio

PACKAGES = (
    gen_ai_attributes, session_attributes, user_attributes, error_attributes,
    exception_attributes, server_attributes,
)  # fmt: skip
KNOWN = {
    value
    for package in PACKAGES
    for name, value in vars(package).items()
    if name.isupper() and isinstance(value, str)
}
ADDED = {
    "gen_ai.aggregated_usage.input_tokens": "pydantic-ai's: the sum of the spans below, which a "
    "back end that adds up `gen_ai.usage` must not count again",
    "gen_ai.aggregated_usage.output_tokens": "the same",
    "gen_ai.aggregated_usage.cache_read.input_tokens": "the same",
    "gen_ai.aggregated_usage.cache_creation.input_tokens": "the same",
    "gen_ai.aggregated_usage.cache_write.input_tokens": "the same",
    "gen_ai.usage.cache_write.input_tokens": "in semantic-conventions-genai 0.1.0, whose older "
    "name `cache_creation` the Python package has",
    "gen_ai.aggregated_usage.reasoning.output_tokens": "the same",
    "error.message": "in the general conventions, not in the Python package's error_attributes",
}
"""Names of the conventions that we send and their package lacks, with reasons."""
OURS = ("taofold.", "openinference.", "llm.", "input.", "output.", "tool.", "tool_call.", "agent.")
"""Our own, and OpenInference's."""
TEXTS = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
         "gen_ai.tool.definitions", "gen_ai.tool.call.arguments")  # fmt: skip


USAGE = Usage(100, 50, cached_tokens=60, written_tokens=30, reasoning_tokens=40)


def special(_: Any) -> Reply:
    """A reply with tokens of every kind, from a host that is known."""
    host = "models.example.org:8443"
    return Reply(finish("done"), usage=USAGE, issuer=Issuer("chat", host, "gpt-test"))


async def spans() -> list[Any]:
    with capturing() as server:
        log = otel.traced("memory", endpoint=server.url, content=True)
        await family(log).run("ask", session="s", principal=Principal("ada"))
        await calculator(log=log, approve="all").run("what is 2 + 3?")
        await Agent(FunctionModel(special, name="openai:gpt-test"), log=log).run("think")
        await log.close()
        return server.spans()


async def test_every_name_is_one_of_the_conventions_or_ours():
    names = {name for one in await spans() for name in told(one)}
    names |= {name for one in await spans() for event in one.events for name in told(event)}
    theirs = {name for name in names if not name.startswith(OURS)}
    assert theirs - KNOWN - set(ADDED) == set()
    assert set(ADDED) <= theirs
    assert {"exception.type", "user.id", "session.id", "gen_ai.system_instructions"} <= theirs


async def test_values_are_those_that_the_conventions_list():
    operations = {one.value for one in GenAiOperationNameValues}
    providers = {one.value for one in GenAiProviderNameValues}
    for one in await spans():
        facts = told(one)
        assert facts.get("gen_ai.operation.name", "chat") in operations
        assert facts.get("gen_ai.provider.name", "openai") in providers
        if facts.get("gen_ai.operation.name") == "chat":
            assert one.name == f"chat {facts['gen_ai.request.model']}"
            assert one.kind == 3
            assert isinstance(facts["gen_ai.usage.input_tokens"], int)
        if one.status.code == 2:
            assert facts["error.type"]
    assert set(_PROVIDERS.values()) <= providers


async def test_special_tokens_and_the_server_are_told_on_the_call_and_summed_on_the_run():
    mine = [told(one) for one in await spans()]
    [chat] = [one for one in mine if "server.address" in one]
    assert (chat["server.address"], chat["server.port"]) == ("models.example.org", 8443)
    special = {"cache_read.input_tokens": 60, "cache_creation.input_tokens": 30,
               "cache_write.input_tokens": 30, "reasoning.output_tokens": 40}  # fmt: skip
    for name, count in special.items():
        assert chat[f"gen_ai.usage.{name}"] == count
        [run] = [one for one in mine if f"gen_ai.aggregated_usage.{name}" in one]
        assert run[f"gen_ai.aggregated_usage.{name}"] == count
        assert run["gen_ai.operation.name"] == "invoke_agent"
    assert chat["llm.token_count.prompt_details.cache_write"] == 30
    assert chat["llm.token_count.completion_details.reasoning"] == 40
    summed = sum(one.get("gen_ai.usage.input_tokens", 0) for one in mine)
    assert summed == sum(
        one["gen_ai.usage.input_tokens"] for one in mine if one["openinference.span.kind"] == "LLM"
    ), "who adds up what there is counts nothing twice"


@pytest.mark.parametrize(
    ("host", "facts"),
    [
        ("api.openai.com", {"server.address": "api.openai.com"}),
        ("127.0.0.1:8080", {"server.address": "127.0.0.1", "server.port": 8080}),
        ("[::1]:8080", {"server.address": "[::1]", "server.port": 8080}),
        ("bedrock:eu-west-1", {}),
        ("", {}),
    ],
)
def test_a_host_is_an_address_and_a_port_or_nothing(host, facts):
    found: Attributes = {}
    _server(host, found)
    assert found == facts

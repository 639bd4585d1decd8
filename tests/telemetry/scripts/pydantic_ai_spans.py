"""In the environment of pydantic-ai: the run of `test_peers.py` by pydantic-ai, with its own
instrumentation. Arguments: the URL of the model's server. Prints its spans as JSON.
"""

import json
import sys
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent
from pydantic_ai.capabilities.instrumentation import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings


def main(url: str) -> list[dict[str, Any]]:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    settings = InstrumentationSettings(tracer_provider=provider, version=6)
    model = OpenAIChatModel("gpt-test", provider=OpenAIProvider(base_url=url, api_key="x"))
    agent = Agent(
        model, name="calculator", instructions="Calculate.",
        capabilities=[Instrumentation(settings)],
        model_settings=ModelSettings(temperature=0.5, max_tokens=300),
    )  # fmt: skip

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    assert agent.run_sync("what is 2 + 3?").output == "It is 5."
    return [
        {
            "name": span.name, "kind": span.kind.name, "attributes": dict(span.attributes or {}),
            "id": span.context.span_id, "parent": span.parent and span.parent.span_id,
            "events": [event.name for event in span.events],
        }
        for span in kept.get_finished_spans()
    ]  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1]), default=str))

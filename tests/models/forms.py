"""One agent's run in each provider's format, as recorded in `cassettes/`.

The recordings were made against strict fake providers, which refuse the same requests as the real
ones. `tests.models.providers.record` renews them. The tests need no provider: each request must
equal the recorded one.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taofold import Agent, Document, Image, Limits, tool
from taofold.models.endpoint import RetryPolicy
from taofold.models.limiter import Limiter
from taofold.runtime.model import Model
from taofold.runtime.providers import resolve
from taofold.testing.cassette import Cassette
from taofold.tools.attachments import Shown
from tests.pictures import PDF, PICTURE

FOLDER = Path(__file__).parent / "cassettes"


@dataclass(frozen=True)
class Form:
    """A format: a model that speaks it, the fake that plays its provider, and its path there."""

    name: str
    model: str
    fake: str
    path: str = ""
    sees: bool = True

    def __str__(self) -> str:
        return self.name

    def file(self, *, streamed: bool) -> Path:
        return FOLDER / f"run_{self.name}_{'streamed' if streamed else 'whole'}.json"

    def recorded(self, *, streamed: bool) -> list[dict[str, Any]]:
        """The exchanges of the recording."""
        found: list[dict[str, Any]] = json.loads(self.file(streamed=streamed).read_text())[
            "exchanges"
        ]
        return found

    def connect(self, transport: Any, url: str = "http://provider") -> Model:
        return resolve(
            self.model,
            base_url=url + self.path,
            api_key="sk-recorded",
            retry=RetryPolicy(first=0.0, draw=lambda: 0.0),
            limiter=Limiter(),
            transport=transport,
        )

    def played(self, *, streamed: bool) -> tuple[Model, Cassette]:
        """A model that is answered by the recording."""
        cassette = Cassette(self.recorded(streamed=streamed), self.name)
        return self.connect(cassette), cassette

    @property
    def goal(self) -> list[Shown]:
        media = [Image(data=PICTURE, name="a.png"), Document(data=PDF, name="b.pdf")]
        return ["Add them up.", *(media if self.sees else ())]


FORMS = [
    Form("responses", "openai:gpt-6.1-sol", "responses", "/v1"),
    Form("messages", "anthropic:claude-opus-5-5", "messages"),
    Form("gemini", "gemini:gemini-3.7-flash", "gemini"),
    Form("deepseek", "deepseek:deepseek-v4", "chat", "/deepseek-reasoning", sees=False),
    Form("openrouter", "openrouter:anthropic/claude-opus-5.5", "chat", "/openrouter"),
    Form("vllm", "vllm:qwen3-32b", "chat", "/vllm", sees=False),
]

TURNS: list[dict[str, Any]] = [
    {"think": "Two sums at once.", "cached": 0, "call": [
        {"name": "add", "args": {"a": 1, "b": 2}, "id": "call_a"},
        {"name": "add", "args": {"a": 3, "b": 4}, "id": "call_b"},
    ]},
    {"think": "Now both together.", "say": "I add the sums.", "cached": 40, "call": [
        {"name": "add", "args": {"a": 3, "b": 7}, "id": "call_c"},
    ]},
    {"think": "Done.", "say": "It is 10.", "cached": 60},
]  # fmt: skip


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(model: Model, **more: Any) -> Agent[Any, Any]:
    return Agent(model, tools=[add], limits=Limits(steps=8), **more)

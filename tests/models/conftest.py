"""Fixtures for the models' tests: conversations, connections without a network or a wait."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taofold.core.content import Conversation, result_message
from taofold.core.values import Message, Profile, ToolCall
from taofold.models.endpoint import RetryPolicy
from taofold.models.limiter import Limiter
from taofold.runtime.model import Model, Request, ToolSpec
from taofold.runtime.providers import resolve
from taofold.testing.cassette import Cassette

FULL = Profile(window=100_000, window_known=True, native_tools=True, json_schema=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def add() -> ToolSpec:
    keys = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    schema = {"type": "object", "properties": keys, "required": ["a", "b"]}
    return ToolSpec("add", "Add two integers.", schema)


@pytest.fixture
def hello() -> Request:
    return Request(Conversation([Message("system", "Be brief."), Message("user", "Hello")]))


@pytest.fixture
def after_tools() -> Conversation:
    """A conversation with a batch of two calls and both results."""
    calls = (ToolCall("add", '{"a": 1, "b": 2}', "c1"), ToolCall("fs.read", '{"p": "x"}', "c2"))
    return Conversation(
        [
            Message("system", "Be brief."),
            Message("user", "Go"),
            Message("assistant", calls),
            result_message("c1", "3"),
            result_message("c2", "text"),
        ]
    )


Connect = Callable[..., tuple[Model, Cassette]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connects a model to the given responses. The test must use all of them."""
    made: list[Cassette] = []

    def make(spec: str, *responses: dict[str, Any], **options: Any) -> tuple[Model, Cassette]:
        cassette = Cassette([{"response": response} for response in responses])
        made.append(cassette)
        chosen = {
            "api_key": "sk-secret-key",
            "profile": FULL,
            "retry": RetryPolicy(first=0.0, draw=lambda: 0.0),
            "limiter": Limiter(),
            **options,
        }
        return resolve(spec, transport=cassette, **chosen), cassette

    yield make
    for cassette in made:
        cassette.assert_complete()

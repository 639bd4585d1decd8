"""The pytest plugin and cassettes."""

from pathlib import Path

import pytest

from taofold.core.errors import ConfigError, ModelError
from taofold.models.endpoint import RetryPolicy
from taofold.models.transport import Bounds, guard
from taofold.runtime.model import Request
from taofold.runtime.providers import resolve
from taofold.testing import Cassette
from taofold.testing.cassette import CassetteMismatch

pytestmark = pytest.mark.anyio


async def test_a_test_that_says_nothing_reaches_no_model(hello: Request) -> None:
    with pytest.raises(ConfigError, match="forbidden"):
        await resolve("ollama:x").complete(hello)


@pytest.mark.allow_model_requests
async def test_a_test_that_asks_for_it_may(hello: Request) -> None:
    assert not guard.closed
    model = resolve("ollama:x", base_url="http://127.0.0.1:1", retry=RetryPolicy(attempts=1))
    with pytest.raises(ModelError, match=r"cannot talk to http://127\.0\.0\.1:1/"):
        await model.complete(hello)


@pytest.mark.cassette("openai_stream.json")
async def test_a_marked_test_is_answered_from_its_cassette(hello: Request) -> None:
    reply = await resolve("openai-chat:gpt-4o").complete(hello, lambda text: None)
    assert reply.text.startswith("Grüß")


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"path": "/v2"}, "expects '/v2'"),
        ({"headers": {"X-Key": "b"}}, "header 'X-Key'"),
        ({"body": {"a": {"b": 2}}}, r"body\.a\.b is 1"),
        ({"body": {"z": 1}}, r"body\.z is missing"),
        ({"body": {"l": [1, 3]}}, r"body\.l\[1\] is 2"),
        ({"body": {"l": [1]}}, r"body\.l is"),
    ],
)
async def test_a_request_that_differs_is_refused_with_the_place(
    request_: dict[str, object], why: str
) -> None:
    cassette = Cassette([{"request": request_, "response": {}}])
    with pytest.raises(CassetteMismatch, match=why):
        await cassette.post("http://h/v1", {"x-key": "a"}, b'{"a":{"b":1},"l":[1,2]}', Bounds())


async def test_exchanges_are_used_in_order_and_must_all_be_used() -> None:
    cassette = Cassette([{"response": {"body": "x"}, "times": 2}, {"response": {"status": 500}}])
    answers = [await cassette.post("http://h", {}, b"{}", Bounds()) for _ in range(2)]
    assert [answer.body for answer in answers] == [b"x", b"x"]
    with pytest.raises(AssertionError, match="1 exchange left"):
        cassette.assert_complete()
    await cassette.post("http://h", {}, b"{}", Bounds())
    with pytest.raises(CassetteMismatch, match="no exchange left"):
        await cassette.post("http://h", {}, b"{}", Bounds())


def test_a_file_that_is_no_cassette_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text("[]")
    with pytest.raises(ConfigError, match=r"c\.json"):
        Cassette.load(path)

"""Retry delays and the classification of error responses."""

import pytest

from taofold.core.errors import ModelError
from taofold.models.endpoint import RetryPolicy
from taofold.models.provider_errors import failure, fault, reason
from taofold.models.transport import HttpResponse
from taofold.network import retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"Retry-After": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, now=lambda: 100.0) == seconds


def test_delays_grow_with_jitter_and_end() -> None:
    retry = RetryPolicy(attempts=4, first=1.0, draw=lambda: 0.5)
    error = ModelError("x", kind="server")
    assert [retry.delay(error, attempt, 0) for attempt in (1, 2, 3, 4)] == [0.75, 1.5, 3.0, None]


def test_a_server_that_names_a_wait_is_not_asked_sooner() -> None:
    error = ModelError("x", kind="rate", retry_after=9.0)
    assert RetryPolicy(draw=lambda: 0.9).delay(error, 1, 0) == 9.0
    assert RetryPolicy(seconds=10).delay(error, 1, elapsed=2.0) is None


@pytest.mark.parametrize("kind", ["auth", "request", "overflow", "timeout"])
def test_what_will_not_pass_by_itself_is_not_repeated(kind: str) -> None:
    assert RetryPolicy().delay(ModelError("x", kind=kind), 1, 0) is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error":{"message":"m","type":"t","code":"c"}}', ("c", "m")),
        (b'{"error":{"message":"m","type":"t","code":400}}', ("t", "m")),
        (b'{"error":"plain"}', ("", "plain")),
        (b'[{"error":{"message":"m","status":"X"}}]', ("X", "m")),
        (
            b'{"error":{"code":400,"message":"p","metadata":{"raw":"{\\"error\\":{\\"message\\":\\"m\\"}}"}}}',
            ("", "p: m"),
        ),
        (b'{"detail":"fastapi"}', ("", "fastapi")),
        (b"<html>no</html>", ("", "<html>no</html>")),
        (b"\xff", ("", "\ufffd")),
        (b"5", ("", "5")),
        (b"", ("", "")),
    ],
)
def test_error_bodies_of_all_shapes_are_read(body: bytes, told: tuple[str, str]) -> None:
    assert reason(body) == told


@pytest.mark.scenario("PEER-31")
def test_a_key_that_the_provider_repeats_is_masked() -> None:
    error = failure(
        HttpResponse(401, {}, b'{"error":"bad key sk-1"}'), "https://u:sk-1@h/v1", "sk-1"
    )
    assert (
        str(error)
        == "https://h/v1 answered 401: bad key *** [check the key, and that it may use this model]"
    )


def test_a_long_message_is_cut() -> None:
    assert len(str(fault(500, "", "x" * 10_000, "http://h"))) < 400

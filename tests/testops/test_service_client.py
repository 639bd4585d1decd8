"""Limits, errors, redirects and unclear changes of the client of the services."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from taofold_testops.client import (
    ServiceClient,
    ServiceError,
    ServiceRequest,
    ServiceResponse,
    Unclear,
    segment,
    segments,
)
from taofold_testops.settings import ServiceAccount
from tests.testops.conftest import Desk

pytestmark = pytest.mark.anyio
TOKEN = "a-long-token"
BASE = "https://jira.example.org/base"
Reply = ServiceResponse | Exception


class Line:
    """A transport that answers from a list and records the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.requests = list(replies), list[ServiceRequest]()

    async def send(self, request: ServiceRequest) -> ServiceResponse:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def answer(status: int, body: Any = None, **headers: str) -> ServiceResponse:
    """Returns a response with headers whose names have `_` for `-`."""
    content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    return ServiceResponse(status, {k.replace("_", "-"): v for k, v in headers.items()}, content)


def client(line: Any, waits: list[float] | None = None, user: str = "") -> ServiceClient:
    """Returns a client that records its waits."""

    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    account = ServiceAccount("Jira", BASE, TOKEN, user, names="JIRA_TOKEN")
    return ServiceClient(account, line, sleep=sleep, now=lambda: 1000.0)


@pytest.mark.parametrize(
    ("first", "wait"),
    [
        (answer(429, retry_after="3"), 3.0),
        (answer(429, retry_after="Thu, 01 Jan 1970 00:16:47 GMT"), 7.0),
        (answer(429), 2.0),
        (answer(403, x_ratelimit_remaining="0", x_ratelimit_reset="1009"), 9.0),
        (answer(403, retry_after="4"), 4.0),
    ],
)
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_request_that_a_limit_refused_is_sent_again_after_the_wait(
    first: ServiceResponse, wait: float, kind: Any
) -> None:
    waits: list[float] = []
    line = Line(first, answer(200))
    await client(line, waits).call("POST", "/x", body={"a": 1}, kind=kind)
    assert waits == [wait]
    assert len(line.requests) == 2


@pytest.mark.parametrize(
    "limit",
    [
        answer(429, retry_after="16"),
        answer(429, retry_after="inf"),
        answer(403, x_ratelimit_remaining="0", x_ratelimit_reset="9" * 40),
        answer(403, {"message": "You have exceeded a secondary rate limit"}),
    ],
)
async def test_a_long_limit_is_an_error_at_once(limit: ServiceResponse) -> None:
    waits: list[float] = []
    line = Line(limit, *[answer(429)] * 4)
    with pytest.raises(ServiceError, match="has a rate limit; try again in"):
        await client(line, waits).get("/x")
    assert all(wait <= 15 for wait in waits)


async def test_a_limit_that_stays_ends_after_three_attempts() -> None:
    line = Line(*[answer(429, retry_after="1")] * 5)
    with pytest.raises(ServiceError, match="rate limit"):
        await client(line).get("/x")
    assert len(line.requests) == 3


@pytest.mark.parametrize(
    "fault", [answer(502), answer(503), answer(504), TimeoutError(), OSError("x")]
)
async def test_a_read_is_repeated_and_a_change_is_not(fault: Reply) -> None:
    reading = Line(fault, answer(200, {"a": 1}))
    assert await client(reading).get("/x") == {"a": 1}
    changing = Line(fault, answer(200))
    with pytest.raises(Unclear, match="The change may have been made"):
        await client(changing).write("POST", "/x", {"a": 1})
    assert len(changing.requests) == 1


async def test_a_change_that_was_never_sent_is_sent_again() -> None:
    line = Line(ConnectionRefusedError(), answer(200))
    await client(line).write("POST", "/x", {"a": 1})
    assert len(line.requests) == 2
    with pytest.raises(ServiceError, match="nothing was sent") as caught:
        await client(Line(*[ConnectionRefusedError()] * 3)).write("POST", "/x")
    assert not isinstance(caught.value, Unclear)


@pytest.mark.parametrize("status", [500, 501, 520])
async def test_a_servers_error_after_a_change_is_unclear(status: int) -> None:
    with pytest.raises(Unclear, match=f"failed .{status}."):
        await client(Line(answer(status))).write("PUT", "/x")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (answer(401, {"message": TOKEN}), "refused the credentials (401): JIRA_TOKEN must be"),
        (answer(403, {"message": "no"}), "does not permit this to its account (403): no"),
        (answer(404), "has no such thing, or hides it"),
        (answer(400, {"errorMessages": ["a", "b"], "errors": {"f": "g"}}), "(400): a; b; f: g"),
        (answer(422, {"message": "m", "errors": [{"field": "f", "code": "c"}]}), "m; f c"),
        (answer(400, b"<html><p>Bad\x00 thing", content_type="text/html"), "(400): Bad thing"),
        (answer(400, [1]), "rejects the request (400)"),
        (answer(400, b"[" * 100_000), "rejects the request (400)"),
        (answer(400, {"message": f"sent {TOKEN} back"}), "sent [credential] back"),
        (answer(400, {"message": "a\nIgnore\x1b[2J"}), "(400): a Ignore [2J"),
    ],
)
async def test_an_error_has_the_services_reason(reply: ServiceResponse, text: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await client(Line(reply)).get("/x")
    assert text in str(caught.value)
    assert TOKEN not in str(caught.value)


async def test_credentials_are_removed_from_answers() -> None:
    written = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    line = Line(answer(200, {"a": TOKEN, "b": f"Basic {written}"}))
    assert await client(line, user="me").get("/x") == {
        "a": "[credential]",
        "b": "Basic [credential]",
    }


@pytest.mark.parametrize("body", [b"<html>", b"", b"\xff", b"[" * 100_000, b"[]", b"1"])
async def test_an_answer_of_another_form_is_an_error(body: bytes) -> None:
    with pytest.raises(ServiceError, match=r"not with JSON|unknown form"):
        await client(Line(answer(200, body))).get("/x")


async def test_a_change_is_confirmed_by_its_status_alone() -> None:
    assert await client(Line(answer(201, b"<html>"))).write("POST", "/x") == {}


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example.org/base/x",
        "http://jira.example.org/base/x",
        "https://jira.example.org:8443/base/x",
        "//evil.example.org/x",
        "https://jira.example.org@evil.example.org/x",
        "https://jira.example.org.evil.org/x",
        "https:\\\\evil.example.org/x",
        "https://me@jira.example.org/base/x",
        "https://evil.example.org\\@jira.example.org/x",
        "https://[jira.example.org/x",
        "/base/\u00e9\n",
        "https://jira.example.org:x/",
        "file:///etc/passwd",
    ],
)
async def test_credentials_do_not_follow_a_redirect_to_another_server(target: str) -> None:
    line = Line(answer(302, location=target), answer(200))
    with pytest.raises(ServiceError, match="redirects to another server"):
        await client(line).get("/x")
    assert len(line.requests) == 1


async def test_a_read_follows_redirects_of_its_own_server() -> None:
    line = Line(answer(301, location="/base/y?z=1"), answer(200, {"a": 1}))
    assert await client(line).get("/x") == {"a": 1}
    assert line.requests[1].url == "https://jira.example.org/base/y?z=1"
    endless = Line(*[answer(302, location="/base/x")] * 9)
    with pytest.raises(ServiceError, match="more than 3 times"):
        await client(endless).get("/x")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_change_follows_no_redirect(status: int) -> None:
    line = Line(answer(status, location="/base/y"), answer(200))
    with pytest.raises(Unclear, match="redirects this change"):
        await client(line).write("POST", "/x")
    assert len(line.requests) == 1


@pytest.mark.parametrize(
    "text", ["", ".", "..", "...", "a\x00", "a\r\nb", "\x7f", "x" * 256, "\ud800"]
)
def test_a_text_that_cannot_be_a_segment(text: str) -> None:
    with pytest.raises(ServiceError, match="is no name"):
        segment(text, "name")


@pytest.mark.parametrize(
    "text", ["a/b", "a?b", "a#b", "a%2Fb", "../x", "a\\b", "é", "a b;c", "a@b:c"]
)
def test_a_segment_has_no_marks_of_a_path(text: str) -> None:
    written = segment(text, "name")
    assert not set(written) & set("/?#\\;@: ")
    assert "%2F" in segment("a/b", "name")


@pytest.mark.parametrize("text", ["/a", "a/", "a//b", "a/../b", "./a"])
def test_every_part_of_a_path_is_a_segment(text: str) -> None:
    with pytest.raises(ServiceError):
        segments(text, "path")


async def served(handler: Callable[[web.Request], Any]) -> tuple[web.AppRunner, str]:
    """Returns a server of one handler, and its address."""

    async def handle(request: web.Request) -> web.StreamResponse:
        found: web.StreamResponse = await handler(request)
        return found

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_credentials_do_not_reach_another_host_over_the_network() -> None:
    seen: list[Mapping[str, str]] = []

    async def thief(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return web.json_response({})

    other, place = await served(thief)

    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": f"{place}/x"})

    runner, url = await served(redirect)
    real = ServiceClient(ServiceAccount("Jira", url, TOKEN))
    with pytest.raises(ServiceError, match="another server"):
        await real.get("/x")
    assert seen == []
    await runner.cleanup()
    await other.cleanup()


async def test_a_large_or_compressed_answer_is_bounded() -> None:
    async def large(request: web.Request) -> web.Response:
        response = web.Response(
            body=b"[" + b"1," * (3 << 20) + b"1]", content_type="application/json"
        )
        if "zip" in request.path:
            response.enable_compression()
        return response

    runner, url = await served(large)
    real = ServiceClient(ServiceAccount("Jira", url, TOKEN))
    for path in ("/x", "/zip"):
        with pytest.raises(ServiceError, match="over 4 MiB"):
            await real.get(path)
    await runner.cleanup()


async def test_an_escaped_path_arrives_as_it_was_escaped() -> None:
    paths: list[str] = []

    async def record(request: web.Request) -> web.Response:
        paths.append(request.raw_path)
        return web.json_response({})

    runner, url = await served(record)
    real = ServiceClient(ServiceAccount("Jira", f"{url}/a", TOKEN))
    await real.get(f"/{segment('../é?#%2F', 'name')}", q="a&b=c #é")
    assert paths == ["/a/..%2F%C3%A9%3F%23%252F?q=a%26b%3Dc%20%23%C3%A9"]
    await runner.cleanup()


@pytest.mark.parametrize(
    ("name", "method", "part", "parameters"),
    [
        ("jira_comment", "POST", "/comment", {"key": "SHOP-117", "text": "x"}),
        ("jira_create_issue", "POST", "/issue", {"summary": "x"}),
        ("jira_transition_issue", "POST", "/transitions", {"key": "SHOP-117", "status": "Done"}),
        ("github_comment", "POST", "/comments", {"number": 78, "text": "x"}),
        ("jenkins_trigger_build", "POST", "/build", {"job": "checkout"}),
        ("testrun_retry", "POST", "/rerun-failed-jobs", {"run": 9001}),
        ("github_dispatch_workflow", "POST", "/dispatches", {"workflow": "e2e.yml"}),
    ],
)
async def test_a_change_without_an_answer_is_unclear_and_happens_once(
    desk: Desk, name: str, method: str, part: str, parameters: dict[str, Any]
) -> None:
    desk.office.disturb(method, part, None, done=True)
    outcome = await desk.outcome(name, **parameters)
    assert outcome.status == "timeout", outcome
    assert "The change may have been made" in str(outcome.value)
    assert len([target for target in desk.sent(method) if part in target]) == 1


async def test_a_limit_in_the_middle_of_a_tool_is_waited_for(desk: Desk) -> None:
    from testops.office import Answer

    desk.office.disturb("GET", "/issue/", Answer(429, None, {"Retry-After": "0"}), times=2)
    assert (await desk.call("jira_get", key="SHOP-101"))["key"] == "SHOP-101"


async def test_wrong_credentials_name_their_variable(desk: Desk) -> None:
    from testops.office import Answer

    desk.office.disturb("GET", "/repos/", Answer(401, {"message": "Bad credentials"}))
    text = await desk.failure("github_get_pr", number=77)
    assert text == "GitHub refused the credentials (401): GITHUB_TOKEN must be renewed"


async def test_plain_http_to_this_machine_passes_no_proxy(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=404)

    runner, url = await served(proxy)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    found = await desk.call("jira_get", key="SHOP-101")
    await runner.cleanup()
    assert (found["key"], seen) == ("SHOP-101", [])

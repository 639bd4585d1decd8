"""Answers of a hostile or broken service: credentials in errors, endless pages, wrong totals."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from taofold_testops.client import ServiceClient, ServiceError, ServiceRequest, ServiceResponse
from taofold_testops.confluence import ConfluenceTools
from taofold_testops.jira import JiraTools
from taofold_testops.settings import ServiceAccount

pytestmark = pytest.mark.anyio
TOKEN = "SECRETTOKEN/+x"
USER = "ann@example.org"
PAIR = base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()


class Answers:
    """A transport with one answer for each request, the last one repeated."""

    def __init__(self, *answers: ServiceResponse) -> None:
        self.answers, self.requests = answers, list[ServiceRequest]()

    async def send(self, request: ServiceRequest) -> ServiceResponse:
        self.requests.append(request)
        return self.answers[min(len(self.requests), len(self.answers)) - 1]


async def no_wait(_: float) -> None:
    """Waits for nothing."""


def client(answers: Answers, user: str = "", scope: tuple[str, ...] = ()) -> ServiceClient:
    account = ServiceAccount("Jira", "https://jira.example.org", TOKEN, user, scope, "JIRA_TOKEN")
    return ServiceClient(account, answers, sleep=no_wait)


def reply(body: Any, status: int = 200, **headers: str) -> ServiceResponse:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ServiceResponse(status, {k.replace("_", "-"): v for k, v in headers.items()}, content)


async def refusal(response: ServiceResponse, user: str = "") -> str:
    with pytest.raises(ServiceError) as caught:
        await client(Answers(response), user).get("/x")
    return str(caught.value)


SPELLINGS = [
    TOKEN,
    TOKEN.lower(),
    TOKEN.replace("/", "\\/"),
    TOKEN.replace("S", "\\u0053"),
    TOKEN.replace("S", "\\\\u0053"),
    quote(TOKEN, safe=""),
    quote(quote(TOKEN, safe=""), safe=""),
    quote(TOKEN, safe="").lower(),
    TOKEN.replace("S", "&#83;"),
    TOKEN.replace("+", "\\x2b"),
    base64.b64encode(TOKEN.encode()).decode(),
    base64.b64encode(f":{TOKEN}".encode()).decode(),
    PAIR,
    quote(PAIR, safe=""),
    TOKEN[:6] + " " + TOKEN[6:],
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("status", [400, 403, 404, 409, 500])
async def test_no_spelling_of_the_token_is_quoted(spelling: str, status: int) -> None:
    raw = b'{"message": "wrong: ' + spelling.encode() + b'"}'
    text = spelling.replace("\\\\", "\\")
    for response in (
        reply(raw, status),
        reply(b"<p>x", status, x_error=f"wrong: {text}", content_type="text/html"),
        reply(f"<p>wrong: {text}".encode(), status, content_type="text/html"),
        reply({"message": f"wrong: {text}"}, status),
        reply({"errors": {text: "wrong"}}, status),
    ):
        for user in ("", USER):
            shown = await refusal(response, user)
            assert text not in shown
            assert TOKEN[1:] not in shown
            assert spelling not in shown


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_no_spelling_of_the_token_is_quoted_from_the_type(spelling: str) -> None:
    text = spelling.replace("\\\\", "\\")
    shown = await refusal(reply(b"no json", content_type=f"{'x' * 50} {text}"), USER)
    assert text[:8] not in shown
    assert "check its address and credentials" in shown


async def test_a_harmless_reason_is_still_quoted() -> None:
    assert "priority: is unknown" in await refusal(
        reply({"errors": {"priority": "is unknown"}}, 400)
    )
    assert "text/plain" in await refusal(reply(b"no", content_type="text/plain"))


@pytest.mark.parametrize("user", ["", USER])
async def test_pages_outside_the_scope_end(user: str) -> None:
    hits = {"issues": [{"key": "OTHER-1"}], "nextPageToken": "same", "total": 1 << 40}
    line = Answers(reply(hits))
    found = await JiraTools(client(line, user, ("SHOP",))).jira_search("x")
    assert found == {"issues": [], "more": True}
    assert len(line.requests) <= 20
    page = {
        "results": [{"content": {"id": "1", "space": {"key": "OTHER"}}}],
        "_links": {"next": "/x?cursor=a"},
    }
    line = Answers(reply(page))
    pages = await ConfluenceTools(client(line, user, ("SHOP",))).confluence_search("x")
    assert pages == {"pages": [], "more": True}
    assert len(line.requests) <= 20


@pytest.mark.parametrize("total", [b'"x"', b"1e400", b"-1", b"[1]", b"true", b"null", b"2.5"])
async def test_a_total_that_is_no_count_ends_the_search(total: bytes) -> None:
    body = b'{"issues": [{"key": "SHOP-1"}], "count": ' + total + b', "total": ' + total + b"}"
    tools = JiraTools(client(Answers(reply(body)), scope=("SHOP",)))
    found = await tools.jira_search("x")
    assert [each["key"] for each in found["issues"]] == ["SHOP-1"]
    assert await tools.open_issues() == 0
    assert await JiraTools(client(Answers(reply(body)), USER)).open_issues() == 0


async def test_a_page_token_that_is_no_text_is_not_sent() -> None:
    line = Answers(reply({"issues": [{"key": "SHOP-1"}], "nextPageToken": {"a": 1}}))
    found = await JiraTools(client(line, USER)).jira_search("x")
    assert found["more"] is False
    assert len(line.requests) == 1

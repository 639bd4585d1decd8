"""The office: Jira, GitHub, Confluence and Jenkins as their documentation describes them.

Each route has the address of the page that documents it. A path, method, parameter or body field
that the page does not have is refused and recorded in `faults`, so a test can require none.
`Office.handle` maps a request to an answer. `served` puts it behind a port. The office is also a
transport of the testops tools, for a rehearsal without a port.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from taofold_testops.client import ServiceRequest, ServiceResponse
from taofold_testops.settings import Accounts, ServiceAccount
from testops.confluence_site import ROUTES as CONFLUENCE
from testops.github_site import ROUTES as GITHUB
from testops.jenkins_site import ROUTES as JENKINS
from testops.jira_site import ROUTES as JIRA
from testops.routing import Answer, Call, Route, body_of
from testops.world import fresh

ROUTES: Final[tuple[Route, ...]] = (*JIRA, *GITHUB, *CONFLUENCE, *JENKINS)
USER: Final = "ops@example.org"
TOKEN: Final = "office-token-4f1d"  # noqa: S105 (of the office only)
REPOSITORY: Final = "acme/shop"
SITES: Final = {
    "jira-cloud": "basic",
    "jira-server": "bearer",
    "github": "bearer",
    "wiki-cloud": "basic",
    "wiki-server": "bearer",
    "jenkins": "basic",
}
"""Base paths of the sites, with the kind of their authentication."""


@dataclass(slots=True)
class Plan:
    """A disturbance of the next request that fits.

    `answer` replaces the answer. None breaks off the connection. With `done`, the request is
    carried out first, so that a change happens without its confirmation.
    """

    method: str
    part: str
    answer: Answer | None
    done: bool = False


class Dropped(Exception):
    """The connection is to be broken off without an answer."""


class Office:
    """The four services with one set of data.

    Args:
        url: Base URL under which the sites are served.
        page: Maximum number of items of a page.
    """

    def __init__(self, url: str = "https://office.invalid", page: int = 100) -> None:
        self.url, self.page = url, page
        self.world = fresh()
        self.plans: list[Plan] = []
        self.requests: list[tuple[str, str]] = []
        self.faults: list[str] = []
        """Requests that no documentation describes."""

    def accounts(self, *, cloud: bool = True, scoped: bool = True) -> Accounts:
        """Returns accounts of the office: Atlassian's Cloud or Data Center."""
        user = USER if cloud else ""
        kind = "cloud" if cloud else "server"
        wiki = f"{self.url}/wiki-{kind}{'/wiki' if cloud else ''}"
        jira = f"{self.url}/jira-{kind}"
        space = project = ("SHOP",) if scoped else ()
        return Accounts(
            ServiceAccount("Jira", jira, TOKEN, user, project, "JIRA_TOKEN"),
            ServiceAccount(
                "GitHub", f"{self.url}/github", TOKEN, "", (REPOSITORY,), "GITHUB_TOKEN"
            ),
            ServiceAccount("Confluence", wiki, TOKEN, user, space, "CONFLUENCE_TOKEN"),
            ServiceAccount("Jenkins", f"{self.url}/jenkins", TOKEN, USER, (), "JENKINS_TOKEN"),
        )

    def disturb(
        self, method: str, part: str, answer: Answer | None, *, times: int = 1, done: bool = False
    ) -> None:
        """Replaces the answers of the next `times` requests whose path has `part`."""
        self.plans += [Plan(method, part, answer, done) for _ in range(times)]

    async def send(self, request: ServiceRequest) -> ServiceResponse:
        """Answers without a network, as a transport of the testops tools."""
        parts = urlsplit(request.url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            answer = self.handle(request.method, target, headers, request.body or b"")
        except Dropped:
            raise OSError("dropped") from None
        sent, body = rendered(answer)
        return ServiceResponse(
            answer.status, sent, body[: request.most], cut=len(body) > request.most
        )

    def handle(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes
    ) -> Answer:
        """Returns the answer to one request. `target` is the escaped path with the query."""
        self.requests.append((method, target))
        for plan in self.plans:
            if plan.method == method and plan.part in target:
                self.plans.remove(plan)
                if plan.done:
                    self._answer(method, target, headers, content)
                if plan.answer is None:
                    raise Dropped
                return plan.answer
        return self._answer(method, target, headers, content)

    def _answer(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes
    ) -> Answer:
        path, _, asked = target.partition("?")
        site, slash, rest = path.removeprefix("/").partition("/")
        if site not in SITES or any(unquote(part) in ("", ".", "..") for part in rest.split("/")):
            return self._fault(f"{method} {target}: no site, or an unclean path", 404)
        if headers.get("authorization") != _credentials(SITES[site]):
            return Answer(401, {"message": "Bad credentials"})
        found = [
            (one, values)
            for one in ROUTES
            if site in one.sites and (values := one.match(slash + rest)) is not None
        ]
        if not found:
            return self._fault(f"{method} {target}: no such path", 404)
        fitting = [(one, values) for one, values in found if one.method == method]
        if not fitting:
            return self._fault(f"{method} {target}: no such method", 405)
        one, values = fitting[0]
        query = dict(parse_qsl(asked, keep_blank_values=True, strict_parsing=bool(asked)))
        wrong = set() if one.open_query else set(query) - one.query
        if wrong:
            return self._fault(f"{method} {target}: undocumented parameter {sorted(wrong)}", 400)
        body, problem = body_of(one, headers, content)
        if problem:
            return self._fault(f"{method} {target}: {problem}", 400)
        return one.handler(
            Call(self.url, self.page, self.world, site, values, query, body, headers)
        )

    def _fault(self, text: str, status: int) -> Answer:
        self.faults.append(text)
        return Answer(status, {"message": f"Not documented: {text}"})


def _credentials(kind: str) -> str:
    """Returns the header that a site requires.

    Sources: https://developer.atlassian.com/cloud/jira/platform/basic-auth-for-rest-apis/,
    https://confluence.atlassian.com/enterprise/using-personal-access-tokens-1026032365.html,
    https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api and
    https://www.jenkins.io/doc/book/system-administration/authenticating-scripted-clients/
    """
    if kind == "bearer":
        return f"Bearer {TOKEN}"
    return f"Basic {base64.b64encode(f'{USER}:{TOKEN}'.encode()).decode()}"


def rendered(answer: Answer) -> tuple[dict[str, str], bytes]:
    """Returns the headers, in lower case, and the body of an answer."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    if answer.value is None:
        return headers, b""
    if isinstance(answer.value, str):
        return {"content-type": "text/plain", **headers}, answer.value.encode()
    return {"content-type": "application/json", **headers}, json.dumps(answer.value).encode()

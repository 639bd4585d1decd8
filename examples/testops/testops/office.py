"""The office: Jira, GitHub, Confluence and Jenkins in one small ASGI application.

All data is in memory. A write with an `Idempotency-Key` happens once: the same key returns the same
answer again, as in real services. `GET /effects/{key}` returns whether the write happened. Run the
office alone with `uvicorn testops.office:app --port 8787`.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from testops.data import JSON, fresh

Handler = Callable[[Any, Request], Awaitable[JSON] | JSON]


class Office:
    """The state of all four services, and what can be done to it."""

    def __init__(self) -> None:
        self.world: dict[str, Any] = fresh()

    # Jira

    def search_issues(self, request: Request) -> JSON:
        words = request.query_params.get("query", "").lower().split()
        found = [i for i in self.world["issues"].values() if _matches(i, words)]
        return {"total": len(found), "issues": [_brief(issue) for issue in found]}

    def get_issue(self, request: Request) -> JSON:
        return self._issue(request)

    async def create_issue(self, request: Request) -> JSON:
        said = await _body(request, "summary")
        key = f"SHOP-{max(int(k.partition('-')[2]) for k in self.world['issues']) + 1}"
        issue = {"key": key, "type": said.get("type", "Bug"), "summary": said["summary"],
                 "description": said.get("description", ""), "status": "To Do",
                 "priority": said.get("priority", "Medium"), "labels": [], "links": [],
                 "comments": []}  # fmt: skip
        self.world["issues"][key] = issue
        return {"key": key, "status": "To Do"}

    async def comment(self, request: Request) -> JSON:
        issue, said = self._issue(request), await _body(request, "text")
        issue["comments"].append(said["text"])
        return {"key": issue["key"], "comments": len(issue["comments"])}

    async def transition(self, request: Request) -> JSON:
        issue, said = self._issue(request), await _body(request, "status")
        before, issue["status"] = issue["status"], said["status"]
        return {"key": issue["key"], "from": before, "to": issue["status"]}

    async def link(self, request: Request) -> JSON:
        issue, said = self._issue(request), await _body(request, "other")
        other = self._of("issues", said["other"])
        if other["key"] not in issue["links"]:
            issue["links"].append(other["key"])
        return {"key": issue["key"], "links": issue["links"]}

    async def label(self, request: Request) -> JSON:
        issue, said = self._issue(request), await _body(request, "label")
        issue["labels"] = sorted({*issue["labels"], said["label"]})
        return {"key": issue["key"], "labels": issue["labels"]}

    # GitHub

    def get_commit(self, request: Request) -> JSON:
        return self._of("commits", request.path_params["sha"])

    def get_pull(self, request: Request) -> JSON:
        return self._of("pulls", request.path_params["number"])

    async def create_branch(self, request: Request) -> JSON:
        said = await _body(request, "name")
        if said["name"] in self.world["branches"]:
            raise HTTPException(409, f"the branch {said['name']!r} exists")
        base = said.get("base", "main")
        self.world["branches"][said["name"]] = self._of("branches", base)
        return {"branch": said["name"], "base": base}

    async def create_pull(self, request: Request) -> JSON:
        said = await _body(request, "title", "head")
        self._of("branches", said["head"])
        number = max(self.world["pulls"]) + 1
        self.world["pulls"][number] = {
            "number": number, "title": said["title"], "author": "copilot", "state": "open",
            "head": said["head"], "base": said.get("base", "main"), "checks": "pending",
            "commits": []}  # fmt: skip
        return {"number": number, "state": "open"}

    async def update_file(self, request: Request) -> JSON:
        said = await _body(request, "branch", "path", "content")
        self._of("branches", said["branch"])
        self.world["files"][said["path"]] = said["content"]
        return {"path": said["path"], "branch": said["branch"], "bytes": len(said["content"])}

    def merge(self, request: Request) -> JSON:
        pull = self._of("pulls", request.path_params["number"])
        if pull["state"] != "open":
            raise HTTPException(409, f"pull request {pull['number']} is {pull['state']}")
        pull["state"] = "merged"
        return {"number": pull["number"], "state": "merged"}

    def rerun(self, request: Request) -> JSON:
        flow = self._of("workflows", request.path_params["id"])
        flow["attempts"] += 1
        flow["state"] = "queued"
        return flow

    # Confluence, Jenkins, the dashboard and the test runs

    def search_pages(self, request: Request) -> JSON:
        words = request.query_params.get("query", "").lower().split()
        return {"pages": [page for page in self.world["pages"] if _matches(page, words)]}

    def job(self, request: Request) -> JSON:
        builds = self._of("builds", request.path_params["job"])
        return {"job": request.path_params["job"], "last": builds[0], "before": builds[1:3]}

    async def build(self, request: Request) -> JSON:
        builds, said = self._of("builds", request.path_params["job"]), await _body(request)
        number = builds[0]["number"] + 1
        branch = said.get("branch", "main")
        builds.insert(0, {"number": number, "result": "QUEUED", "branch": branch, "seconds": 0})
        return {"job": request.path_params["job"], "number": number, "result": "QUEUED"}

    def metrics(self, request: Request) -> JSON:
        builds = [build for job in self.world["builds"].values() for build in job]
        red = [build for build in builds if build["result"] == "FAILURE"]
        bugs = [issue for issue in self.world["issues"].values() if issue["status"] != "Done"]
        states = Counter(run["state"] for run in self.world["testruns"].values())
        return {
            "builds": len(builds),
            "failed_builds": len(red),
            "open_bugs": len(bugs),
            "test_runs": dict(states),
        }

    def retry(self, request: Request) -> JSON:
        run = self._of("testruns", request.path_params["id"])
        run["retries"] += 1
        run["state"] = "queued"
        return run

    def cancel(self, request: Request) -> JSON:
        run = self._of("testruns", request.path_params["id"])
        if run["state"] not in ("running", "queued"):
            raise HTTPException(409, f"test run {run['id']} is {run['state']}")
        run["state"] = "cancelled"
        return run

    def effect(self, request: Request) -> JSON:
        return {"happened": request.path_params["key"] in self.world["effects"]}

    def _issue(self, request: Request) -> Any:
        return self._of("issues", request.path_params["key"])

    def _of(self, kind: str, key: Any) -> Any:
        if key not in self.world[kind]:
            known = ", ".join(str(one) for one in list(self.world[kind])[:8])
            raise HTTPException(404, f"no {kind[:-1]} {key!r}; there are {known}")
        return self.world[kind][key]

    async def answer(self, handler: Handler, request: Request) -> Response:
        """Returns the handler's answer. A completed write is not repeated."""
        key = request.headers.get("idempotency-key", "")
        known = self.world["effects"].get(key) if key else None
        if known is not None:
            return JSONResponse(known)
        said = handler(self, request)
        told = said if isinstance(said, dict) else await said
        if key:
            self.world["effects"][key] = told
        return JSONResponse(told)


ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/jira/issues", Office.search_issues),
    ("POST", "/jira/issues", Office.create_issue),
    ("GET", "/jira/issues/{key}", Office.get_issue),
    ("POST", "/jira/issues/{key}/comments", Office.comment),
    ("POST", "/jira/issues/{key}/transition", Office.transition),
    ("POST", "/jira/issues/{key}/links", Office.link),
    ("POST", "/jira/issues/{key}/labels", Office.label),
    ("GET", "/github/commits/{sha}", Office.get_commit),
    ("GET", "/github/pulls/{number:int}", Office.get_pull),
    ("POST", "/github/branches", Office.create_branch),
    ("POST", "/github/pulls", Office.create_pull),
    ("PUT", "/github/files", Office.update_file),
    ("POST", "/github/pulls/{number:int}/merge", Office.merge),
    ("POST", "/github/workflows/{id}/rerun", Office.rerun),
    ("GET", "/confluence/pages", Office.search_pages),
    ("GET", "/jenkins/jobs/{job}", Office.job),
    ("POST", "/jenkins/jobs/{job}/builds", Office.build),
    ("GET", "/dashboard/metrics", Office.metrics),
    ("POST", "/testruns/{id}/retry", Office.retry),
    ("POST", "/testruns/{id}/cancel", Office.cancel),
    ("GET", "/effects/{key}", Office.effect),
)


def create(office: Office | None = None) -> Starlette:
    """An application around `office`, or around a fresh one."""
    served = office or Office()

    def route(method: str, path: str, handler: Any) -> Route:
        async def endpoint(request: Request) -> Response:
            return await served.answer(handler, request)

        return Route(path, endpoint, methods=[method], name=handler.__name__)

    async def told(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, error.status_code)

    routes = [route(*one) for one in ROUTES]
    return Starlette(routes=routes, exception_handlers={HTTPException: told})


def _matches(entry: JSON, words: list[str]) -> bool:
    text = str([value for value in entry.values() if isinstance(value, str | list)]).lower()
    return all(word in text for word in words)


def _brief(issue: JSON) -> JSON:
    return {name: issue[name] for name in ("key", "summary", "status", "priority")}


async def _body(request: Request, *needed: str) -> JSON:
    said = await request.json() if await request.body() else {}
    missing = [name for name in needed if not said.get(name)]
    if missing:
        raise HTTPException(422, f"missing: {', '.join(missing)}")
    return said


app = create()

"""GitHub's operations, of the REST API of version 2022-11-28, for one repository.

Errors have the form `{"message": …, "errors": […], "documentation_url": …}`, see
https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api.
"""

import base64
import hashlib
from typing import Any, Final

from testops.routing import Answer, Call, Handler, Register, Routes

ROUTES: Final = Routes()
DOCS: Final = "https://docs.github.com/en/rest"
_PAGES: Final = "per_page page"


def _refusal(status: int, message: str, *errors: dict[str, str]) -> Answer:
    value: dict[str, Any] = {"message": message, "documentation_url": DOCS}
    return Answer(status, {**value, "errors": [*errors]} if errors else value)


def _route(
    method: str, path: str, source: str, query: str = "", body: str | None = None
) -> Register:
    """Registers an operation below `/repos/{owner}/{repo}`."""

    def register(handler: Handler) -> Handler:
        def checked(call: Call) -> Answer:
            # Source: https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api
            if not call.headers.get("user-agent"):
                return _refusal(403, "Request forbidden by administrative rules.")
            if call.headers.get("x-github-api-version") != "2022-11-28":
                return _refusal(400, "The version of the API is not supported.")
            if (call.path["owner"], call.path["repo"]) != ("acme", "shop"):
                return _refusal(404, "Not Found")
            return handler(call)

        full = f"/repos/{{owner}}/{{repo}}{path}"
        ROUTES.add(method, "github", full, f"{DOCS}/{source}", query, body)(checked)
        return handler

    return register


def _page(call: Call, items: list[Any], name: str = "") -> Answer:
    """Returns one page, with the header `Link`.

    Source: https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api
    """
    size = min(int(call.query.get("per_page", 30)), call.page)
    page = int(call.query.get("page", 1))
    shown: Any = items[(page - 1) * size : page * size]
    link = f'<{call.url}/elsewhere?page={page + 1}>; rel="next"'
    headers = {"Link": link} if page * size < len(items) else {}
    return Answer(200, {"total_count": len(items), name: shown} if name else shown, headers)


def _sha(call: Call, text: str) -> str | None:
    found = [sha for sha in call.world["commits"] if sha.startswith(text) and len(text) >= 7]
    return found[0] if len(found) == 1 else call.world["branches"].get(text)


@_route("GET", "/commits/{ref}", "commits/commits#get-a-commit", _PAGES)
def commit(call: Call) -> Answer:
    """Returns a commit."""
    sha = _sha(call, call.path["ref"])
    if sha is None:
        return _refusal(422, f"No commit found for SHA: {call.path['ref']}")
    one = call.world["commits"][sha]
    author = {"name": one["author"], "date": "2026-11-27T08:00:00Z"}
    value = {"sha": sha, "commit": {"message": one["message"], "author": author},
             "author": {"login": one["author"]}, "files": one["files"]}  # fmt: skip
    return Answer(200, value)


@_route("GET", "/commits/{ref}/check-runs",
        "checks/runs#list-check-runs-for-a-git-reference",
        f"{_PAGES} check_name status filter app_id")  # fmt: skip
def check_runs(call: Call) -> Answer:
    """Returns the check runs of a commit."""
    sha = _sha(call, call.path["ref"])
    if sha is None:
        return _refusal(422, f"No commit found for SHA: {call.path['ref']}")
    repository = "https://github.com/acme/shop"
    runs: list[Any] = [
        {"id": 5, "name": "lint", "status": "completed", "conclusion": "success",
         "details_url": f"{repository}/actions/runs/9001/job/1", "output": {"summary": None}},
        {"id": 6, "name": "unit", "status": "completed",
         "conclusion": call.world["commits"][sha]["check"],
         "details_url": "https://jenkins.example.org/482", "output": {"summary": "unit tests"}},
    ]  # fmt: skip
    return _page(call, runs, "check_runs")


def _shown(pull: dict[str, Any]) -> dict[str, Any]:
    return {
        "number": pull["number"], "title": pull["title"], "state": pull["state"],
        "user": {"login": pull["author"]}, "merged": pull["merged"], "draft": False,
        "mergeable_state": "clean", "body": pull["body"], "base": {"ref": pull["base"]},
        "head": {"ref": pull["head"], "sha": pull["sha"], "label": f"acme:{pull['head']}"},
    }  # fmt: skip


@_route("GET", "/pulls/{number}", "pulls/pulls#get-a-pull-request")
def pull(call: Call) -> Answer:
    """Returns a pull request."""
    found = call.world["pulls"].get(int(call.path["number"]))
    return _refusal(404, "Not Found") if found is None else Answer(200, _shown(found))


@_route("GET", "/pulls/{number}/files", "pulls/pulls#list-pull-requests-files", _PAGES)
def pull_files(call: Call) -> Answer:
    """Returns the changed files of a pull request."""
    found = call.world["pulls"].get(int(call.path["number"]))
    if found is None:
        return _refusal(404, "Not Found")
    return _page(call, call.world["commits"][found["sha"]]["files"])


@_route("GET", "/pulls", "pulls/pulls#list-pull-requests",
        f"{_PAGES} state head base sort direction")  # fmt: skip
def pulls(call: Call) -> Answer:
    """Returns pull requests. `head` has the form `owner:branch`."""
    state = call.query.get("state", "open")
    found = [_shown(one) for one in call.world["pulls"].values()]
    return _page(call, [
        one for one in found
        if state in ("all", one["state"])
        and call.query.get("head", one["head"]["label"]) == one["head"]["label"]
        and call.query.get("base", one["base"]["ref"]) == one["base"]["ref"]
    ])  # fmt: skip


@_route("POST", "/pulls", "pulls/pulls#create-a-pull-request", "",
        "title head! base! body head_repo maintainer_can_modify draft issue")  # fmt: skip
def open_pull(call: Call) -> Answer:
    """Opens a pull request. One that is open for both branches is an error 422."""
    body, branches = call.body, call.world["branches"]
    for name in ("head", "base"):
        if body[name] not in branches:
            fault = {"resource": "PullRequest", "field": name, "code": "invalid"}
            return _refusal(422, "Validation Failed", fault)
    there = [one for one in call.world["pulls"].values() if one["state"] == "open"]
    if any((one["head"], one["base"]) == (body["head"], body["base"]) for one in there):
        text = f"A pull request already exists for acme:{body['head']}."
        fault = {"resource": "PullRequest", "code": "custom", "message": text}
        return _refusal(422, "Validation Failed", fault)
    number = 1 + max(call.world["pulls"])
    call.world["pulls"][number] = {
        "number": number, "title": body["title"], "author": "ops", "state": "open",
        "merged": False, "head": body["head"], "sha": branches[body["head"]],
        "base": body["base"], "body": body.get("body", ""),
    }  # fmt: skip
    return Answer(201, _shown(call.world["pulls"][number]))


@_route("PUT", "/pulls/{number}/merge", "pulls/pulls#merge-a-pull-request", "",
        "commit_title commit_message sha merge_method")  # fmt: skip
def merge(call: Call) -> Answer:
    """Merges a pull request, if its head is `sha`."""
    found = call.world["pulls"].get(int(call.path["number"]))
    if found is None:
        return _refusal(404, "Not Found")
    if found["state"] != "open":
        return _refusal(405, "Pull Request is not mergeable")
    if (call.body or {}).get("sha", found["sha"]) != found["sha"]:
        return _refusal(409, "Head branch was modified. Review and try the merge again.")
    found.update(merged=True, state="closed")
    merged = {"sha": found["sha"], "merged": True, "message": "Pull Request successfully merged"}
    return Answer(200, merged)


@_route("GET", "/git/ref/{ref*}", "git/refs#get-a-reference")
def reference(call: Call) -> Answer:
    """Returns a reference."""
    sha = call.world["branches"].get(call.path["ref"].removeprefix("heads/"))
    if sha is None:
        return _refusal(404, "Not Found")
    value = {"ref": f"refs/{call.path['ref']}", "object": {"type": "commit", "sha": sha}}
    return Answer(200, value)


@_route("POST", "/git/refs", "git/refs#create-a-reference", "", "ref! sha!")
def create_reference(call: Call) -> Answer:
    """Creates a branch. One that is there is an error 422."""
    name = call.body["ref"].removeprefix("refs/heads/")
    if not call.body["ref"].startswith("refs/heads/"):
        return _refusal(422, "Reference name must start with 'refs/' and contain two slashes.")
    if call.body["sha"] not in call.world["commits"]:
        return _refusal(422, "Object does not exist")
    if name in call.world["branches"]:
        return _refusal(422, "Reference already exists")
    call.world["branches"][name] = call.body["sha"]
    return Answer(201, {"ref": call.body["ref"], "object": {"sha": call.body["sha"]}})


@_route("POST", "/issues/{number}/comments", "issues/comments#create-an-issue-comment", "", "body!")
def comment(call: Call) -> Answer:
    """Comments on an issue or a pull request."""
    if int(call.path["number"]) not in call.world["pulls"]:
        return _refusal(404, "Not Found")
    call.world["comments"].append((int(call.path["number"]), call.body["body"]))
    return Answer(201, {"id": len(call.world["comments"]), "body": call.body["body"]})


def _blob(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@_route("GET", "/contents/{path*}", "repos/contents#get-repository-content", "ref")
def content(call: Call) -> Answer:
    """Returns a file, or the files of a folder as an array."""
    branch, path = call.query.get("ref", "main"), call.path["path"]
    text = call.world["files"].get((branch, path))
    below = [p for b, p in call.world["files"] if b == branch and p.startswith(f"{path}/")]
    if below:
        return Answer(200, [{"type": "file", "path": one} for one in below])
    if text is None:
        return _refusal(404, "Not Found")
    # GitHub breaks the lines of Base64.
    value = {"type": "file", "encoding": "base64", "path": path, "sha": _blob(text),
             "content": base64.encodebytes(text.encode()).decode()}  # fmt: skip
    return Answer(200, value)


@_route("PUT", "/contents/{path*}", "repos/contents#create-or-update-file-contents", "",
        "message! content! sha branch committer author")  # fmt: skip
def write_content(call: Call) -> Answer:
    """Creates a file, or replaces the one with the given SHA."""
    branch, path = call.body.get("branch", "main"), call.path["path"]
    if branch not in call.world["branches"]:
        return _refusal(404, f"Branch {branch} not found")
    old, sha = call.world["files"].get((branch, path)), call.body.get("sha")
    if old is not None and sha is None:
        return _refusal(422, 'Invalid request. "sha" wasn\'t supplied.')
    if (None if old is None else _blob(old)) != sha:
        return _refusal(409, f"{path} does not match {sha}")
    text = base64.b64decode(call.body["content"], validate=True).decode()
    call.world["files"][branch, path] = text
    value = {"content": {"sha": _blob(text)}, "commit": {"sha": "c" * 40}}
    return Answer(201 if old is None else 200, value)


_RUNS: Final = "actions/workflow-runs"


@_route("GET", "/actions/runs", f"{_RUNS}#list-workflow-runs-for-a-repository",
        f"{_PAGES} actor branch event status created exclude_pull_requests check_suite_id head_sha",
        )  # fmt: skip
def runs(call: Call) -> Answer:
    """Returns workflow runs. `status` is a status or a conclusion."""
    status = call.query.get("status")
    found = [run for run in call.world["runs"].values()
             if status in (None, run["status"], run["conclusion"])]  # fmt: skip
    return _page(call, found, "workflow_runs")


@_route("GET", "/actions/runs/{id}", f"{_RUNS}#get-a-workflow-run", "exclude_pull_requests")
def run(call: Call) -> Answer:
    """Returns a workflow run."""
    found = call.world["runs"].get(int(call.path["id"]))
    return _refusal(404, "Not Found") if found is None else Answer(200, found)


@_route("POST", "/actions/runs/{id}/rerun", f"{_RUNS}#re-run-a-workflow", "",
        "enable_debug_logging")  # fmt: skip
@_route("POST", "/actions/runs/{id}/rerun-failed-jobs",
        f"{_RUNS}#re-run-failed-jobs-from-a-workflow-run", "", "enable_debug_logging")  # fmt: skip
def rerun(call: Call) -> Answer:
    """Runs jobs again."""
    found = call.world["runs"].get(int(call.path["id"]))
    if found is None:
        return _refusal(404, "Not Found")
    if found["status"] != "completed":
        return _refusal(403, "This workflow is already running")
    found.update(status="queued", conclusion=None)
    return Answer(201, {})


@_route("POST", "/actions/runs/{id}/cancel", f"{_RUNS}#cancel-a-workflow-run")
def cancel(call: Call) -> Answer:
    """Cancels a workflow run."""
    found = call.world["runs"].get(int(call.path["id"]))
    if found is None:
        return _refusal(404, "Not Found")
    if found["status"] == "completed":
        return _refusal(409, "Cannot cancel a workflow run that is completed.")
    found.update(status="completed", conclusion="cancelled")
    return Answer(202, {})


@_route("POST", "/actions/workflows/{workflow}/dispatches",
        "actions/workflows#create-a-workflow-dispatch-event", "", "ref! inputs")  # fmt: skip
def dispatch(call: Call) -> Answer:
    """Starts a workflow. The answer has no content."""
    if call.path["workflow"] != "e2e.yml":
        return _refusal(404, "Not Found")
    if call.body["ref"] not in call.world["branches"]:
        return _refusal(422, f"No ref found for: {call.body['ref']}")
    unknown = sorted(set(call.body.get("inputs", {})) - {"browser"})
    if unknown:
        return _refusal(422, f"Unexpected inputs provided: {unknown}")
    number = 1 + max(call.world["runs"])
    call.world["runs"][number] = {"id": number, "name": "e2e", "status": "queued",
                                  "conclusion": None}  # fmt: skip
    return Answer(204)

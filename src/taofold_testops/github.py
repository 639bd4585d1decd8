"""The GitHub tools: REST API of version 2022-11-28, for one repository.

The version is in the header `X-GitHub-Api-Version`. Test runs are workflow runs of GitHub Actions.

Source: https://docs.github.com/en/rest?apiVersion=2022-11-28
"""

import re
from base64 import b64decode, b64encode
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold_testops.client import (
    Query,
    ServiceClient,
    ServiceError,
    segment,
    segments,
)
from taofold_testops.texts import clip, count_in, object_in, objects_in

HEADERS: Final = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
}
_PAGE: Final = 100
_PAGES: Final = 3
_FILES: Final = 30
_SHA: Final = re.compile(r"[0-9a-f]{7,64}")
_FULL_SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class GitHubTools:
    """Reads and changes one repository.

    Args:
        client: Requests to the API, with `HEADERS`.
    """

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._owner, _, name = client.account.scope[0].partition("/")
        self._repo = f"/repos/{segment(self._owner, 'owner')}/{segment(name, 'repository')}"

    async def github_get_commit(self, sha: str) -> Any:
        """Get a commit: author, message, changed files with their patches, checks.

        Args:
            sha: The commit's SHA, at least 7 hexadecimal digits.
        """
        path = f"{self._repo}/commits/{_sha(sha)}"
        commit = await self._client.get(path)
        checks = await self._checks(path)
        inner = object_in(commit, "commit")
        author = object_in(inner, "author")
        files = objects_in(commit, "files")
        return {
            "sha": commit.get("sha"),
            "author": _login(commit.get("author")) or clip(author.get("name"), 200),
            "date": author.get("date"),
            "message": clip(inner.get("message"), 2000),
            "files": [_file(one) for one in files[:_FILES]],
            "files_total": len(files),
            "checks": checks,
        }

    async def github_get_pr(self, number: int) -> Any:
        """Get a pull request by its number: state, branches, changed files, checks."""
        path = f"{self._repo}/pulls/{_number(number)}"
        pull = await self._client.get(path)
        head, base = object_in(pull, "head"), object_in(pull, "base")
        sha = str(head.get("sha", ""))
        files, more = await self._pages(f"{path}/files", pages=1)
        checks = await self._checks(f"{self._repo}/commits/{_sha(sha)}") if sha else []
        return {
            "number": pull.get("number"),
            "title": clip(pull.get("title"), 500),
            "author": _login(pull.get("user")),
            "state": "merged" if pull.get("merged") else pull.get("state"),
            "draft": bool(pull.get("draft")),
            "mergeable": pull.get("mergeable_state"),
            "head": head.get("ref"),
            "head_sha": sha,
            "base": base.get("ref"),
            "body": clip(pull.get("body"), 3000),
            "files": [_file(one, 800) for one in files[:_FILES]],
            "more_files": more or len(files) > _FILES,
            "checks": checks,
        }

    async def github_create_branch(self, name: str, base: str = "main") -> Any:
        """Create a branch at the head of another. A branch that is there already stays."""
        _branch(name)
        sha = await self._head(base)
        try:
            body = {"ref": f"refs/heads/{name}", "sha": sha}
            await self._client.write("POST", f"{self._repo}/git/refs", body)
        except ServiceError as error:
            # 422 also has other reasons, so the branch itself decides.
            if error.status != 422 or await self._sha_if_there(name) != sha:
                raise
        return {"branch": name, "base": base, "sha": sha}

    async def github_create_pr(
        self, title: str, head: str, base: str = "main", body: str = ""
    ) -> Any:
        """Open a pull request from the branch `head`. There is at most one for two branches."""
        _branch(head)
        _branch(base)
        content = {"title": title, "head": head, "base": base, "body": body}
        try:
            pull = await self._client.write("POST", f"{self._repo}/pulls", content)
        except ServiceError as error:
            if error.status != 422:
                raise
            open_ones = await self._client.get_list(
                f"{self._repo}/pulls", head=f"{self._owner}:{head}", base=base, state="open"
            )
            if not open_ones:
                raise
            return {"number": open_ones[0].get("number"), "state": "open", "existed": True}
        return {"number": pull.get("number"), "state": pull.get("state")}

    async def github_merge_pr(self, number: int, sha: str) -> Any:
        """Merge an open pull request, if its head is still the given commit.

        Args:
            number: Number of the pull request.
            sha: `head_sha` of the pull request, as `github_get_pr` returns it.
        """
        if _FULL_SHA.fullmatch(sha) is None:
            raise ServiceError(f"{clip(repr(sha), 80)} is no whole commit SHA: use head_sha")
        path = f"{self._repo}/pulls/{_number(number)}"
        pull = await self._client.get(path)
        if pull.get("merged"):
            if object_in(pull, "head").get("sha") != sha:
                raise ServiceError(f"pull request {number} was merged with another head")
            return {"number": number, "state": "merged", "existed": True}
        made = await self._client.write("PUT", f"{path}/merge", {"sha": sha})
        return {"number": number, "state": "merged", "sha": made.get("sha")}

    async def github_comment(self, number: int, text: str) -> Any:
        """Comment on an issue or a pull request."""
        path = f"{self._repo}/issues/{_number(number)}/comments"
        made = await self._client.write("POST", path, {"body": text})
        return {"number": number, "comment": made.get("id")}

    async def github_update_file(self, branch: str, path: str, content: str, message: str) -> Any:
        """Replace a file on a branch, or create it, with one commit.

        Args:
            branch: Name of the branch.
            path: Path in the repository.
            content: The whole new text of the file.
            message: Message of the commit.
        """
        _branch(branch)
        place = f"{self._repo}/contents/{segments(path, 'path in the repository')}"
        body = {
            "message": message,
            "branch": branch,
            "content": b64encode(content.encode("utf-8", "replace")).decode(),
        }
        old = await self._blob(place, branch)
        if old is not None:
            if old[1] == content:
                return {"path": path, "branch": branch, "changed": False}
            # GitHub refuses the change (409) if the file is another one by then.
            body["sha"] = old[0]
        made = await self._client.write("PUT", place, body)
        return {"path": path, "branch": branch, "commit": object_in(made, "commit").get("sha")}

    async def _blob(self, place: str, branch: str) -> tuple[str, str | None] | None:
        """Returns the SHA and the text of a file; None if there is no such file."""
        try:
            file = await self._client.get(place, ref=branch)
        except ServiceError as error:
            if error.status == 404:
                return None
            raise
        if file.get("type") != "file":
            raise ServiceError("GitHub: the path is a folder or a link, not a file")
        text: str | None = None
        if file.get("encoding") == "base64":
            try:
                text = b64decode(str(file.get("content", ""))).decode()
            except ValueError:
                text = None
        return str(file.get("sha", "")), text

    async def github_rerun_workflow(self, run: int) -> Any:
        """Run all jobs of a workflow run of GitHub Actions again."""
        await self._client.write("POST", f"{self._run(run)}/rerun")
        return {"run": run, "state": "queued"}

    async def github_dispatch_workflow(
        self, workflow: str, ref: str = "main", inputs: dict[str, str] | None = None
    ) -> Any:
        """Start a workflow that has the trigger `workflow_dispatch`.

        Args:
            workflow: File name, such as e2e.yml, or id.
            ref: Branch or tag.
            inputs: Values of the workflow's inputs.
        """
        path = f"{self._repo}/actions/workflows/{segment(workflow, 'workflow')}/dispatches"
        body: dict[str, Any] = {"ref": ref}
        if inputs:
            body["inputs"] = inputs
        await self._client.write("POST", path, body)
        return {"workflow": workflow, "ref": ref, "state": "requested"}

    async def testrun_retry(self, run: int) -> Any:
        """Run the failed jobs of a test run again. A test run is a run of GitHub Actions."""
        await self._client.write("POST", f"{self._run(run)}/rerun-failed-jobs")
        return {"run": run, "state": "queued"}

    async def testrun_cancel(self, run: int) -> Any:
        """Stop a test run; its results are lost. A test run is a run of GitHub Actions."""
        path = self._run(run)
        if (await self._client.get(path)).get("conclusion") == "cancelled":
            return {"run": run, "state": "cancelled"}
        await self._client.write("POST", f"{path}/cancel")
        return {"run": run, "state": "cancelling"}

    async def workflow_runs(self) -> dict[str, int]:
        """Returns the numbers of workflow runs of the default branch by state."""
        path = f"{self._repo}/actions/runs"
        counts: dict[str, int] = {}
        for state in ("failure", "in_progress", "queued"):
            answer = await self._client.get(path, status=state, per_page=1)
            counts[state] = count_in(answer, "total_count")
        return counts

    async def _checks(self, commit: str) -> list[dict[str, Any]]:
        """Returns the check runs of a commit, the failed ones first."""
        runs, _ = await self._pages(f"{commit}/check-runs", "check_runs")
        checks = [
            {
                "name": clip(run.get("name"), 200),
                "state": run.get("conclusion") or run.get("status"),
                "run": _run_id(run.get("details_url")),
                "summary": clip(object_in(run, "output").get("summary"), 500),
            }
            for run in runs
        ]
        fine = ("success", "neutral", "skipped")
        return sorted(checks, key=lambda check: check["state"] in fine)[:50]

    async def _pages(
        self, path: str, name: str = "", pages: int = _PAGES
    ) -> tuple[list[Any], bool]:
        """Returns the items of at most `pages` pages, and whether there are more."""
        items: list[Any] = []
        for page in range(1, pages + 1):
            query: Query = {"per_page": _PAGE, "page": page}
            response = await self._client.call("GET", path, query)
            answer = self._client.json(response)
            found = answer.get(name) if name and is_object(answer) else answer
            items += [item for item in found if is_object(item)] if is_array(found) else []
            # The next page is asked for by its number: the server's URL is not followed.
            if 'rel="next"' not in response.headers.get("link", ""):
                return items, False
        return items, True

    async def _head(self, branch: str) -> str:
        sha = await self._sha_if_there(branch)
        if sha is None:
            raise ServiceError(f"GitHub: there is no branch {branch!r}", 404)
        return sha

    async def _sha_if_there(self, branch: str) -> str | None:
        try:
            ref = await self._client.get(f"{self._repo}/git/ref/heads/{_branch(branch)}")
        except ServiceError as error:
            if error.status == 404:
                return None
            raise
        return str(object_in(ref, "object").get("sha", ""))

    def _run(self, run: int) -> str:
        return f"{self._repo}/actions/runs/{_number(run)}"


def _branch(name: str) -> str:
    """Returns the branch's name for a path.

    Raises:
        ServiceError: Git does not permit the name (`git check-ref-format`).
    """
    if any(mark in name for mark in ("..", "~", "^", ":", "?", "*", "[", "\\", "@{", " ")):
        raise ServiceError(f"{clip(repr(name), 80)} is no branch name")
    return segments(name, "branch name")


def _sha(text: str) -> str:
    sha = text.strip().lower()
    if _SHA.fullmatch(sha) is None:
        raise ServiceError(f"{clip(repr(text), 80)} is no commit SHA")
    return sha


def _number(number: int) -> int:
    if number < 1:
        raise ServiceError(f"{number} is no number of GitHub")
    return number


def _login(value: Any) -> str:
    return clip(value.get("login"), 100) if is_object(value) else ""


def _file(file: Any, most: int = 2000) -> dict[str, Any]:
    return {
        "path": clip(file.get("filename"), 300),
        "status": file.get("status"),
        "patch": clip(file.get("patch"), most),
    }


def _run_id(url: Any) -> int | None:
    """Returns the id of the workflow run in a check's URL, for `testrun_retry`."""
    found = re.search(r"/actions/runs/(\d{1,18})(?:/|$)", url) if isinstance(url, str) else None
    return int(found[1]) if found else None

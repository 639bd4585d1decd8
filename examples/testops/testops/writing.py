"""The tools that write. Each passes the run's effect id on, so no attempt happens twice."""

from typing import Any

from taofold import RunContext
from testops.desk import Office
from testops.reading import part

Context = RunContext[None]


class Writing:
    """Changes things in an office."""

    def __init__(self, office: Office) -> None:
        self.office = office

    async def happened(self, effect_id: str) -> bool:
        """Did the write with this id take place?"""
        said = await self.office.get(f"/effects/{part(effect_id)}")
        return bool(said["happened"])

    async def jira_create_issue(
        self, ctx: Context, summary: str, description: str = "", priority: str = "Medium"
    ) -> Any:
        """Open a Jira bug. The whole team sees it."""
        return await self._jira(
            ctx, "", summary=summary, description=description, priority=priority
        )

    async def jira_transition_issue(self, ctx: Context, key: str, status: str) -> Any:
        """Move a Jira issue to another status. Starts whatever automation hangs on it."""
        return await self._jira(ctx, f"/{part(key)}/transition", status=status)

    async def jira_comment(self, ctx: Context, key: str, text: str) -> Any:
        """Comment on a Jira issue."""
        return await self._jira(ctx, f"/{part(key)}/comments", text=text)

    async def jira_link_issues(self, ctx: Context, key: str, other: str) -> Any:
        """Link two Jira issues."""
        return await self._jira(ctx, f"/{part(key)}/links", other=other)

    async def jira_add_label(self, ctx: Context, key: str, label: str) -> Any:
        """Add a label to a Jira issue."""
        return await self._jira(ctx, f"/{part(key)}/labels", label=label)

    async def github_create_branch(self, ctx: Context, name: str, base: str = "main") -> Any:
        """Create a branch."""
        return await self._send(ctx, "POST", "/github/branches", name=name, base=base)

    async def github_create_pr(
        self, ctx: Context, title: str, head: str, base: str = "main"
    ) -> Any:
        """Open a pull request from the branch `head`."""
        return await self._send(ctx, "POST", "/github/pulls", title=title, head=head, base=base)

    async def github_update_file(self, ctx: Context, branch: str, path: str, content: str) -> Any:
        """Write a file on a branch."""
        said = {"branch": branch, "path": path, "content": content}
        return await self._send(ctx, "PUT", "/github/files", **said)

    async def github_merge_pr(self, ctx: Context, number: int) -> Any:
        """Merge an open pull request."""
        return await self._send(ctx, "POST", f"/github/pulls/{number}/merge")

    async def github_rerun_workflow(self, ctx: Context, workflow: str) -> Any:
        """Run a failed workflow again."""
        return await self._send(ctx, "POST", f"/github/workflows/{part(workflow)}/rerun")

    async def jenkins_trigger_build(self, ctx: Context, job: str, branch: str = "main") -> Any:
        """Start a build. In production it always needs a person."""
        return await self._send(ctx, "POST", f"/jenkins/jobs/{part(job)}/builds", branch=branch)

    async def testrun_retry(self, ctx: Context, run: str) -> Any:
        """Run a failed test run again."""
        return await self._send(ctx, "POST", f"/testruns/{part(run)}/retry")

    async def testrun_cancel(self, ctx: Context, run: str) -> Any:
        """Stop a test run; its results are lost."""
        return await self._send(ctx, "POST", f"/testruns/{part(run)}/cancel")

    async def _jira(self, ctx: Context, path: str, /, **body: Any) -> Any:
        return await self._send(ctx, "POST", f"/jira/issues{path}", **body)

    async def _send(self, ctx: Context, method: str, place: str, /, **body: Any) -> Any:
        return await self.office.write(method, place, ctx.effect_id, **body)

"""The seven tools that read. Parts of paths are checked: what a model writes is never a path."""

import re
from typing import Any, Final

from testops.desk import Office, OfficeError

_PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class Reading:
    """Looks things up in an office."""

    def __init__(self, office: Office) -> None:
        self.office = office

    async def jira_search(self, query: str) -> Any:
        """Search Jira issues by words in their summary, labels and status.

        Args:
            query: Words that must all occur; empty for all issues.
        """
        return await self.office.get("/jira/issues", query=query)

    async def jira_get(self, key: str) -> Any:
        """Get one Jira issue with its comments, such as SHOP-101."""
        return await self.office.get(f"/jira/issues/{part(key)}")

    async def github_get_commit(self, sha: str) -> Any:
        """Get a commit: author, message, changed files with their patches."""
        return await self.office.get(f"/github/commits/{part(sha)}")

    async def github_get_pr(self, number: int) -> Any:
        """Get a pull request by its number: state, branches, checks."""
        return await self.office.get(f"/github/pulls/{number}")

    async def confluence_search(self, query: str) -> Any:
        """Search the wiki's pages by words."""
        return await self.office.get("/confluence/pages", query=query)

    async def jenkins_get_status(self, job: str) -> Any:
        """Get the last builds of a Jenkins job, with failed tests and the end of the log."""
        return await self.office.get(f"/jenkins/jobs/{part(job)}")

    async def dashboard_metrics(self) -> Any:
        """Get the dashboard's figures: builds, failures, open bugs, test runs."""
        return await self.office.get("/dashboard/metrics")


def part(text: str) -> str:
    """`text` as one part of a path.

    Raises:
        OfficeError: it is no name or id.
    """
    if _PART.fullmatch(text) is None:
        raise OfficeError(f"{text!r} is no name or id: use letters, digits, '_', '-' and '.'")
    return text

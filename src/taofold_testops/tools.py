"""All tools with their tier, role, effect and preview.

| kind | tier | effect |
|---|---|---|
| reads | 1: at once | `read` |
| reversible changes | 1, with the event `autonomous_action` | `idempotent` |
| changes that the whole team sees | 2: a card | `once`, or `idempotent` where it can be |
| changes that start automation or lose work | 3: always a confirmation | the same |

Every change needs the role EDITOR. The tier alone decides whether a call needs an approval.
"""

import functools
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from taofold import Tier, Tool, Toolset, tool
from taofold.core.values import Sideeffect
from taofold.tools import Outcome
from taofold_testops.client import ServiceClient, ServiceError, ServiceTransport, Unclear
from taofold_testops.confluence import ConfluenceTools
from taofold_testops.dashboard import DashboardTools
from taofold_testops.github import HEADERS, GitHubTools
from taofold_testops.jenkins import JenkinsTools
from taofold_testops.jira import JiraTools
from taofold_testops.settings import Accounts, accounts

ROLE: Final = "EDITOR"
SECONDS: Final = 90.0
"""Time of a call. It may need several requests and waits for a rate limit."""
Method = Callable[..., Awaitable[Any]]
Preview = Callable[[dict[str, Any]], str]

READS: Final = (
    "jira_search",
    "jira_get",
    "github_get_commit",
    "github_get_pr",
    "confluence_search",
    "jenkins_get_status",
    "dashboard_metrics",
)
"""The seven tools that only read."""


def _filled(template: str) -> Preview:
    return template.format_map


def _file_change(arguments: dict[str, Any]) -> str:
    size = len(str(arguments.get("content", "")).encode("utf-8", "replace"))
    return f"Replace {arguments.get('path')} on {arguments.get('branch')} ({size} bytes)"


def _build(arguments: dict[str, Any]) -> str:
    values: dict[str, Any] = arguments.get("parameters") or {}
    listed = ", ".join(f"{name}={value}" for name, value in values.items())
    return f"Build {arguments.get('job')}{f' with {listed}' if listed else ''}"


def _dispatch(arguments: dict[str, Any]) -> str:
    return f"Start workflow {arguments.get('workflow')} on {arguments.get('ref') or 'main'}"


WRITES: Final[dict[str, tuple[Tier, Sideeffect, Preview | None]]] = {
    "github_create_branch": (Tier.AUTO, "idempotent", None),
    "jira_link_issues": (Tier.AUTO, "idempotent", None),
    "jira_add_label": (Tier.AUTO, "idempotent", None),
    "jira_create_issue": (Tier.CARD, "once", _filled("Open an issue: {summary}")),
    "jira_comment": (Tier.CARD, "once", _filled("Comment on {key}: {text}")),
    "jira_assign_issue": (Tier.CARD, "idempotent", _filled("Assign {key} to {assignee}")),
    "github_create_pr": (
        Tier.CARD,
        "idempotent",
        _filled("Open a pull request from {head}: {title}"),
    ),
    "github_merge_pr": (Tier.CARD, "idempotent", _filled("Merge pull request {number} at {sha}")),
    "github_comment": (Tier.CARD, "once", _filled("Comment on #{number}: {text}")),
    "github_rerun_workflow": (Tier.CARD, "once", _filled("Run all jobs of run {run} again")),
    "github_dispatch_workflow": (Tier.CARD, "once", _dispatch),
    "jenkins_trigger_build": (Tier.CARD, "once", _build),
    "testrun_retry": (Tier.CARD, "once", _filled("Run the failed jobs of test run {run} again")),
    "jira_transition_issue": (Tier.CONFIRM, "once", _filled("Move {key} to {status}")),
    "github_update_file": (Tier.CONFIRM, "once", _file_change),
    "testrun_cancel": (
        Tier.CONFIRM,
        "idempotent",
        _filled("Stop test run {run}; its results are lost"),
    ),
}
"""Tier, effect and text of the approval request of every tool that writes."""


def toolset(accounts: Accounts, transport: ServiceTransport | None = None) -> Toolset:
    """Returns the tools of the services that have an account.

    Example:
        ```python
        from taofold_testops.settings import Accounts, ServiceAccount
        from taofold_testops.tools import toolset

        account = ServiceAccount("Jira", "https://jira.example.org", "a-token")
        print(toolset(Accounts(jira=account)).names)
        ```

    Args:
        accounts: The accounts.
        transport: Carries the requests. None for the network.
    """
    figures: dict[str, Callable[[], Awaitable[Any]]] = {}
    methods: dict[str, Method] = {}
    verify: Callable[[str], Awaitable[Outcome]] | None = None
    if accounts.jira is not None:
        jira = JiraTools(ServiceClient(accounts.jira, transport))
        methods |= _methods(jira)
        figures["open_issues"] = jira.open_issues
        verify = jira.created
    if accounts.github is not None:
        github = GitHubTools(ServiceClient(accounts.github, transport, HEADERS))
        methods |= _methods(github)
        figures["test_runs"] = github.workflow_runs
    if accounts.confluence is not None:
        methods |= _methods(ConfluenceTools(ServiceClient(accounts.confluence, transport)))
    if accounts.jenkins is not None:
        jenkins = JenkinsTools(ServiceClient(accounts.jenkins, transport))
        methods |= _methods(jenkins)
        figures["jobs"] = jenkins.job_states
    if figures:
        methods |= _methods(DashboardTools(figures))
    reads = [_read(methods[name]) for name in READS if name in methods]
    writes = [
        _write(methods[name], verify if name == "jira_create_issue" else None)
        for name in WRITES
        if name in methods
    ]
    return Toolset.of(*reads, *writes)


def configured() -> Toolset:
    """Returns the tools of the services that the environment sets up.

    It is the entry point `testops` of the group `taofold.tools`.

    Raises:
        ConfigError: No service is set up, or one only partly.
    """
    return toolset(accounts(os.environ))


def _methods(service: object) -> dict[str, Method]:
    """Returns the methods that are tools, by their names."""
    return {name: getattr(service, name) for name in (*READS, *WRITES) if hasattr(service, name)}


def _read(method: Method) -> Tool:
    return tool(effect="read", toolset="read", timeout=SECONDS)(_observed(method))


def _write(method: Method, verify: Callable[[str], Awaitable[Outcome]] | None) -> Tool:
    tier, effect, preview = WRITES[method.__name__]
    return tool(
        tier=tier,
        effect=effect,
        role=ROLE,
        toolset="write",
        timeout=SECONDS,
        reversible=tier == Tier.AUTO,
        preview=preview,
        verify=verify,
    )(_observed(method))


def _observed(method: Method) -> Method:
    """Returns the method with errors of services as observations.

    An unclear change has the status `timeout`: taofold then asks before the same call of a tool
    with the effect `once` is started again.
    """

    @functools.wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except Unclear as error:
            return Outcome(str(error), "timeout")
        except ServiceError as error:
            return Outcome(str(error), "failure")

    return call

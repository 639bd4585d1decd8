"""The registry: every tool with its tier, role and effect, under the seed's names.

The tier alone decides whether a call needs approval. A second flag could contradict it. `TOOLS`
uses the office at `TESTOPS_URL`, or one in this process.
"""

from collections.abc import Callable
from typing import Any

from taofold import Tier, Tool, Toolset, tool
from testops import office as offices
from testops.desk import Office, connect
from testops.reading import Reading
from testops.writing import Writing

EDITOR = "EDITOR"
PREVIEWS = {
    "github_create_pr": "Open a pull request from {head}: {title}",
    "github_merge_pr": "Merge pull request {number}",
    "github_rerun_workflow": "Run workflow {workflow} again",
    "github_update_file": "Replace {path} on {branch}",
    "jenkins_trigger_build": "Build {job}",
    "jira_comment": "Comment on {key}: {text}",
    "jira_create_issue": "Open a bug: {summary}",
    "jira_transition_issue": "Move {key} to {status}",
    "testrun_cancel": "Stop test run {run}; its results are lost",
    "testrun_retry": "Run test run {run} again",
}
"""Text of the approval request, filled in with the call's parameters."""


def toolset(office: Office) -> Toolset:
    """The whole registry on `office`.

    Tier 1 runs at once, tier 2 asks with a card, tier 3 always asks.
    """
    look, do = Reading(office), Writing(office)

    def read(function: Callable[..., Any]) -> Tool:
        return tool(effect="read", toolset="read")(function)

    def quiet(function: Callable[..., Any]) -> Tool:
        """Registers a tool with an internal, easily undone effect.

        It runs at once and notifies users.
        """
        return tool(tier=Tier.AUTO, effect="idempotent", role=EDITOR, toolset="write",
                    reversible=True)(function)  # fmt: skip

    def card(function: Callable[..., Any]) -> Tool:
        """Registers a tool whose effect the whole team sees: it shows a card."""
        return tool(tier=Tier.CARD, effect="idempotent", role=EDITOR, toolset="write",
                    preview=PREVIEWS[function.__name__].format_map)(function)  # fmt: skip

    def confirm(function: Callable[..., Any]) -> Tool:
        """Registers a tool that destroys data or starts something irrevocable: it needs
        confirmation.
        """
        return tool(tier=Tier.CONFIRM, effect="once", role=EDITOR, toolset="write",
                    preview=PREVIEWS[function.__name__].format_map,
                    verify=do.happened)(function)  # fmt: skip

    return Toolset.of(
        read(look.jira_search),
        read(look.jira_get),
        read(look.github_get_commit),
        read(look.github_get_pr),
        read(look.confluence_search),
        read(look.jenkins_get_status),
        read(look.dashboard_metrics),
        quiet(do.github_create_branch),
        quiet(do.jira_link_issues),
        quiet(do.jira_add_label),
        card(do.jira_create_issue),
        card(do.jira_comment),
        card(do.github_create_pr),
        card(do.github_merge_pr),
        card(do.github_rerun_workflow),
        card(do.jenkins_trigger_build),
        card(do.testrun_retry),
        confirm(do.jira_transition_issue),
        confirm(do.github_update_file),
        confirm(do.testrun_cancel),
    )


def listing(tools: Toolset) -> list[dict[str, Any]]:
    """Returns the registry in the seed's format. The confirmation flag is derived from the tier."""
    return [
        {
            "name": one.name,
            "category": one.toolset,
            "requires_confirmation": one.tier >= Tier.CARD,
            "required_role": one.role,
            "tier": int(one.tier),
        }
        for one in tools.values()
    ]


TOOLS = toolset(connect(offices.app))

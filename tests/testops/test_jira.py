"""The Jira tools against Cloud v3 and Data Center v2."""

import pytest

from taofold_testops.client import ServiceError
from taofold_testops.jira import scoped_query
from tests.testops.conftest import Desk

pytestmark = pytest.mark.anyio
KINDS = pytest.mark.parametrize("kind", ["cloud", "server"])


@KINDS
async def test_a_search_stays_in_the_projects_of_the_account(desk: Desk, kind: str) -> None:
    found = await desk.call("jira_search", kind, jql="status = 'To Do' OR project = PAY")
    assert [issue["key"] for issue in found["issues"]] == ["SHOP-120"]
    assert found["issues"][0]["status"] == "To Do"
    assert not found["more"]


@KINDS
async def test_a_search_reads_all_pages_up_to_the_limit(desk: Desk, kind: str) -> None:
    desk.office.page = 2
    everything = await desk.call("jira_search", kind, jql="")
    assert [issue["key"] for issue in everything["issues"]] == ["SHOP-101", "SHOP-117", "SHOP-120"]
    assert len(desk.sent("POST")) == 2
    two = await desk.call("jira_search", kind, jql="", limit=2)
    assert (len(two["issues"]), two["more"]) == (2, True)


@KINDS
async def test_an_error_in_a_query_is_the_services_own_reason(desk: Desk, kind: str) -> None:
    text = await desk.failure("jira_search", kind, jql="colour = red")
    assert "Jira rejects the request (400)" in text
    assert "Field 'colour' does not exist" in text


@pytest.mark.parametrize(
    "jql",
    [
        "status = Done) OR (project = PAY",
        'summary ~ "x" ) or project = PAY or (key = "SHOP-1"',
        'summary ~ "open',
        "(status = Done",
    ],
)
async def test_a_query_cannot_leave_its_parentheses(desk: Desk, jql: str) -> None:
    assert "do not match" in await desk.failure("jira_search", jql=jql)
    assert desk.office.requests == []


async def test_a_backslash_hides_no_quote(desk: Desk) -> None:
    text = await desk.failure("jira_search", jql=r"text ~ \') OR project = PAY OR (text ~ \'")
    assert "a backslash of the query must be in quotes" in text
    assert desk.office.requests == []
    quoted = await desk.call("jira_search", jql=r"text ~ '\') OR project = PAY OR (text ~ '")
    assert quoted["issues"] == []


def test_an_order_stays_behind_the_condition() -> None:
    scope = ("SHOP",)
    query = scoped_query("a = 1 ORDER BY created DESC", "project", scope)
    assert query == 'project in ("SHOP") AND (a = 1) ORDER BY created DESC'
    assert scoped_query("text ~ 'order by'", "project", ()) == "(text ~ 'order by')"
    with pytest.raises(ServiceError):
        scoped_query("a = 1 ORDER BY x) OR (b = 2", "project", scope)


@KINDS
async def test_an_issue_has_its_texts_and_latest_comments(desk: Desk, kind: str) -> None:
    issue = await desk.call("jira_get", kind, key=" shop-101 ")
    assert issue["summary"] == "Refund of a split payment is one cent short"
    assert (issue["status"], issue["resolution"], issue["reporter"]) == (
        "Done",
        "Done",
        "Mara Lind",
    )
    (comment,) = issue["comments"]
    assert comment["text"] == "Fixed by rounding half up, see the runbook."
    assert comment["author"] == "Ivo Brandt"


@pytest.mark.parametrize(
    "key",
    [
        "..",
        "../../serverInfo",
        "SHOP-101/comment",
        "SHOP-101?expand=x",
        "SHOP-101#x",
        "SHOP-101%2Fcomment",
        "SHOP-１０１",
        "SHOP-٣",
        "ŚHOP-1",
        "",
        "SHOP-101\n",
        "SHOP 101",
    ],
)
async def test_only_an_issue_key_becomes_a_path(desk: Desk, key: str) -> None:
    for name, more in (("jira_get", {}), ("jira_comment", {"text": "x"})):
        outcome = await desk.outcome(name, key=key, **more)
        if key.strip() == "SHOP-101":
            assert outcome.status == "success"
        else:
            assert outcome.status == "failure"
            assert "is no issue key" in str(outcome.value)
    assert all("/issue/SHOP-101" in target for _, target in desk.office.requests)


@KINDS
async def test_an_issue_of_another_project_is_not_asked_for(desk: Desk, kind: str) -> None:
    for name, more in (("jira_get", {}), ("jira_add_label", {"label": "x"})):
        text = await desk.failure(name, kind, key="PAY-9", **more)
        assert "PAY-9 is not in the projects SHOP" in text
    assert desk.office.requests == []


@KINDS
async def test_an_issue_that_was_moved_elsewhere_is_not_changed(desk: Desk, kind: str) -> None:
    desk.office.world["issues"]["SHOP-9"] = desk.office.world["issues"]["PAY-9"]
    text = await desk.failure("jira_comment", kind, key="SHOP-9", text="x")
    assert "moved to a project" in text
    assert desk.sent("POST") == []
    assert "moved" in await desk.failure("jira_get", kind, key="SHOP-9")


@KINDS
async def test_a_created_issue_is_found_again_by_its_label(desk: Desk, kind: str) -> None:
    made = await desk.call(
        "jira_create_issue", kind, summary="One cent", description="a\n\nb", priority="High"
    )
    issue = desk.office.world["issues"][made["key"]]
    assert made["key"] == "SHOP-121"
    assert (issue["description"], issue["priority"]) == ("a\n\nb", "High")
    verify = desk.all(kind)["jira_create_issue"].verify
    assert verify is not None
    assert (await verify("e1")).value["key"] == "SHOP-121"  # type: ignore[union-attr]
    with pytest.raises(ServiceError, match="no issue with the label"):
        await verify("e2")


async def test_the_fields_that_jira_refuses_are_named(desk: Desk) -> None:
    text = await desk.failure("jira_create_issue", summary="x", issue_type="Saga")
    assert "issuetype: Specify a valid issue type" in text
    assert "not one of the projects" in await desk.failure(
        "jira_create_issue", summary="x", project="PAY"
    )


@KINDS
async def test_each_change_of_an_issue(desk: Desk, kind: str) -> None:
    issue = desk.office.world["issues"]["SHOP-117"]
    await desk.call("jira_comment", kind, key="SHOP-117", text="Still slow.\nSee log.")
    assert issue["comments"] == ["Still slow.\nSee log."]
    moved = await desk.call("jira_transition_issue", kind, key="SHOP-117", status="done")
    assert (moved["status"], issue["status"]) == ("Done", "Done")
    await desk.call("jira_assign_issue", kind, key="SHOP-117", assignee="mara lind")
    assert issue["assignee"] == "mara"
    for _ in range(2):
        await desk.call("jira_add_label", kind, key="SHOP-117", label="slow")
        await desk.call("jira_link_issues", kind, key="SHOP-117", other="SHOP-101")
    assert (issue["labels"], issue["links"]) == (["slow"], ["SHOP-101"])


async def test_a_status_that_is_not_offered_lists_the_possible_ones(desk: Desk) -> None:
    text = await desk.failure("jira_transition_issue", key="SHOP-117", status="Closed")
    assert text.endswith("possible: Done, Reopened, To Do")
    assert desk.sent("POST") == []


async def test_an_assignee_must_be_one_user(desk: Desk) -> None:
    text = await desk.failure("jira_assign_issue", key="SHOP-117", assignee="nd")
    assert "must match one user, but matches Mara Lind, Ivo Brandt" in text
    assert desk.sent("PUT") == []


async def test_a_comment_without_text_is_refused_by_the_service(desk: Desk) -> None:
    assert "Comment body is not valid!" in await desk.failure(
        "jira_comment", key="SHOP-117", text=""
    )

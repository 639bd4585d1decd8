"""The GitHub tools against the REST API of version 2022-11-28."""

import pytest

from tests.testops.conftest import Desk

pytestmark = pytest.mark.anyio
SHA = "9f3c2e1b7a40d5c86e1f23904ab5c7d8e9f01234"
OTHER = "41d0b7a95ce2f83b6d17049a3be8c5f2d6a70918"


async def test_a_commit_has_its_files_and_its_failed_checks_first(desk: Desk) -> None:
    commit = await desk.call("github_get_commit", sha="9F3C2E1")
    assert (commit["sha"], commit["author"]) == (SHA, "mara")
    assert commit["files"][0]["path"] == "checkout/refund.py"
    assert [(check["name"], check["state"], check["run"]) for check in commit["checks"]] == [
        ("unit", "failure", None),
        ("lint", "success", 9001),
    ]


async def test_checks_are_read_page_by_page_by_number(desk: Desk) -> None:
    desk.office.page = 1
    commit = await desk.call("github_get_commit", sha=SHA)
    assert len(commit["checks"]) == 2
    pages = [target for target in desk.sent("GET") if "check-runs" in target]
    assert [target[-6:] for target in pages] == ["page=1", "page=2"]


async def test_a_pull_request_has_its_head_and_files(desk: Desk) -> None:
    pull = await desk.call("github_get_pr", number=77)
    assert (pull["state"], pull["head_sha"], pull["base"]) == ("merged", SHA, "main")
    assert [file["path"] for file in pull["files"]] == ["checkout/refund.py"]


@pytest.mark.parametrize(
    "sha", ["..", "main", "9f3c2e1/..", "9f3c2e1?x", "9f3c2e1#", "９f3c2e1", ""]
)
async def test_only_a_sha_becomes_a_path(desk: Desk, sha: str) -> None:
    assert "is no commit SHA" in await desk.failure("github_get_commit", sha=sha)
    assert desk.office.requests == []


@pytest.mark.parametrize("number", [0, -1])
async def test_only_a_positive_number_becomes_a_path(desk: Desk, number: int) -> None:
    for name, more in (("github_get_pr", {}), ("github_comment", {"text": "x"})):
        assert "is no number" in await desk.failure(name, number=number, **more)
    assert "is no number" in await desk.failure("testrun_cancel", run=number)
    assert desk.office.requests == []


async def test_a_branch_that_is_there_with_the_same_head_is_the_same_branch(desk: Desk) -> None:
    for _ in range(2):
        made = await desk.call("github_create_branch", name="fix/half-up")
        assert made["sha"] == SHA
    assert desk.office.world["branches"]["fix/half-up"] == SHA
    text = await desk.failure("github_create_branch", name="half-up")
    assert "Reference already exists" in text
    assert "no branch 'gone'" in await desk.failure("github_create_branch", name="a", base="gone")


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/../b", "a?b", "a b", "a//b", "/a", "a/", "a\\b", "", "a~1", "a\x00"]
)
async def test_a_branch_name_that_git_forbids_is_not_sent(desk: Desk, name: str) -> None:
    assert "is no branch name" in await desk.failure("github_create_branch", name=name)
    assert desk.office.requests == []


async def test_marks_in_a_branch_name_are_escaped(desk: Desk) -> None:
    await desk.call("github_create_branch", name="fix#1%2F../é".replace("..", "x"))
    assert "fix#1%2Fx/é" in desk.office.world["branches"]
    branch = {"branch": "fix#1%2Fx/é", "path": "a#b/é?.py", "content": "x", "message": "m"}
    await desk.call("github_update_file", **branch)
    assert desk.office.world["files"]["fix#1%2Fx/é", "a#b/é?.py"] == "x"


async def test_there_is_one_pull_request_for_two_branches(desk: Desk) -> None:
    made = await desk.call("github_create_pr", title="t", head="refund-rounding")
    again = await desk.call("github_create_pr", title="t", head="refund-rounding")
    assert again == {"number": made["number"], "state": "open", "existed": True}
    text = await desk.failure("github_create_pr", title="t", head="gone")
    assert "PullRequest head invalid" in text


async def test_a_merge_needs_the_head_that_was_read(desk: Desk) -> None:
    assert "no whole commit SHA" in await desk.failure("github_merge_pr", number=78, sha=OTHER[:9])
    text = await desk.failure("github_merge_pr", number=78, sha=SHA)
    assert "Head branch was modified" in text
    assert not desk.office.world["pulls"][78]["merged"]
    assert (await desk.call("github_merge_pr", number=78, sha=OTHER))["state"] == "merged"
    again = await desk.call("github_merge_pr", number=78, sha=OTHER)
    assert again["existed"]
    assert len(desk.sent("PUT")) == 2


async def test_a_comment_is_added_to_a_pull_request(desk: Desk) -> None:
    assert (await desk.call("github_comment", number=78, text="Looks right."))["comment"] == 1
    assert desk.office.world["comments"] == [(78, "Looks right.")]


async def test_a_file_is_replaced_by_the_sha_of_the_old_one(desk: Desk) -> None:
    change = {"branch": "main", "path": "checkout/refund.py", "message": "Round half up"}
    made = await desk.call("github_update_file", **change, content="x = 'é'\n")
    assert made["commit"]
    assert desk.office.world["files"]["main", "checkout/refund.py"] == "x = 'é'\n"
    same = await desk.call("github_update_file", **change, content="x = 'é'\n")
    assert same["changed"] is False
    assert len(desk.sent("PUT")) == 1
    folder = {**change, "path": "checkout"}
    assert "GitHub" in await desk.failure("github_update_file", **folder, content="x")
    assert len(desk.sent("PUT")) == 1


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "a//b", "/etc/passwd", "a/.", ""])
async def test_a_path_of_a_file_stays_in_the_repository(desk: Desk, path: str) -> None:
    change = {"branch": "main", "path": path, "message": "m", "content": "x"}
    assert "is no path in the repository" in await desk.failure("github_update_file", **change)
    assert desk.office.requests == []


async def test_workflows_and_test_runs(desk: Desk) -> None:
    runs = desk.office.world["runs"]
    assert (await desk.call("github_rerun_workflow", run=9001))["state"] == "queued"
    assert "already running" in await desk.failure("testrun_retry", run=9001)
    runs[9001].update(status="completed", conclusion="failure")
    assert (await desk.call("testrun_retry", run=9001))["state"] == "queued"
    assert (await desk.call("testrun_cancel", run=9002))["state"] == "cancelling"
    assert (await desk.call("testrun_cancel", run=9002))["state"] == "cancelled"
    runs[9001].update(status="completed", conclusion="success")
    text = await desk.failure("testrun_cancel", run=9001)
    assert "Cannot cancel a workflow run that is completed" in text
    await desk.call("github_dispatch_workflow", workflow="e2e.yml", inputs={"browser": "firefox"})
    assert runs[9003]["status"] == "queued"
    text = await desk.failure("github_dispatch_workflow", workflow="e2e.yml", inputs={"x": "1"})
    assert "Unexpected inputs provided" in text


@pytest.mark.parametrize("workflow", ["..", "", "."])
async def test_a_workflow_is_one_segment(desk: Desk, workflow: str) -> None:
    text = await desk.failure("github_dispatch_workflow", workflow=workflow)
    assert "is no workflow" in text
    assert desk.office.requests == []


async def test_a_slash_in_a_workflow_does_not_leave_its_segment(desk: Desk) -> None:
    text = await desk.failure("github_dispatch_workflow", workflow="../runs/9001/rerun?#")
    assert "no such thing" in text
    assert desk.office.world["runs"][9001]["status"] == "completed"

"""The Confluence, Jenkins and dashboard tools."""

import pytest

from tests.testops.conftest import Desk

pytestmark = pytest.mark.anyio
KINDS = pytest.mark.parametrize("kind", ["cloud", "server"])


@KINDS
async def test_pages_have_their_texts_and_stay_in_the_spaces(desk: Desk, kind: str) -> None:
    found = await desk.call("confluence_search", kind, cql="text ~ rounding")
    (page,) = found["pages"]
    assert (page["id"], page["space"]) == ("4711", "SHOP")
    assert page["text"].startswith("Money is kept in cents.")
    assert page["excerpt"].startswith("Money is kept")
    assert not found["more"]


@KINDS
async def test_pages_are_read_page_by_page(desk: Desk, kind: str) -> None:
    desk.office.page = 1
    found = await desk.call("confluence_search", kind, cql="label = runbook")
    assert [page["id"] for page in found["pages"]] == ["4711", "4712"]
    one = await desk.call("confluence_search", kind, cql="label = runbook", limit=1)
    assert (len(one["pages"]), one["more"]) == (1, True)


@KINDS
async def test_a_wiki_query_cannot_leave_its_parentheses(desk: Desk, kind: str) -> None:
    text = await desk.failure("confluence_search", kind, cql="a = b) OR (space = HR")
    assert "do not match" in text
    assert desk.office.requests == []
    text = await desk.failure("confluence_search", kind, cql="colour = red")
    assert "Could not parse cql" in text


async def test_a_status_has_failed_tests_and_the_end_of_the_log(desk: Desk) -> None:
    status = await desk.call("jenkins_get_status", job="checkout")
    last, before = status["builds"]
    assert (last["number"], last["result"], last["failed"], last["tests"]) == (
        482,
        "FAILURE",
        1,
        214,
    )
    assert last["failed_tests"][0]["test"] == "tests.test_refund.test_refund_of_half_a_cent"
    assert last["log_end"].endswith("1 failed, 213 passed in 41.2s\n")
    assert before["result"] == "SUCCESS"


async def test_only_the_end_of_a_long_log_is_kept(desk: Desk) -> None:
    build = desk.office.world["jobs"]["checkout"]["builds"][0]
    build["log"] = "".join(f"line {number:06}\n" for number in range(5000))
    status = await desk.call("jenkins_get_status", job="checkout")
    end = status["builds"][0]["log_end"]
    assert end.endswith("line 004999\n")
    assert len(end) == 6000


async def test_a_job_in_a_folder_starts_with_its_parameters(desk: Desk) -> None:
    value = "a&b=c #é?"
    started = await desk.call(
        "jenkins_trigger_build", job="team/catalog", parameters={"BRANCH": value}
    )
    assert started["queue_item"] == 1
    assert started["why"].startswith("In the quiet period")
    assert desk.office.world["queue"][1]["parameters"] == {"BRANCH": value}
    text = await desk.failure("jenkins_trigger_build", job="team/catalog", parameters={"TAG": "x"})
    assert "has no parameter 'TAG'; it has BRANCH" in text
    await desk.call("jenkins_trigger_build", job="checkout")
    assert len(desk.sent("POST")) == 2


async def test_a_crumb_is_sent_with_its_session_when_it_is_required(desk: Desk) -> None:
    desk.office.world["crumb"] = "a1b2"
    started = await desk.call("jenkins_trigger_build", job="checkout")
    assert started["state"] == "queued"
    assert len(desk.office.world["queue"]) == 1


@pytest.mark.parametrize("job", ["..", "../credentials", "a/../b", "", "a//b", "a/./b", "a\n"])
async def test_a_job_name_stays_below_its_folder(desk: Desk, job: str) -> None:
    for name in ("jenkins_get_status", "jenkins_trigger_build"):
        text = await desk.failure(name, job=job)
        assert ("no such thing" if job == "a\n" else "is no job name") in text
    assert len(desk.office.requests) == (2 if job == "a\n" else 0)


@pytest.mark.parametrize("job", ["checkout?x", "checkout#x", "checkout%2F..", "chéckout", "a b;c"])
async def test_marks_in_a_job_name_are_escaped(desk: Desk, job: str) -> None:
    assert "no such thing" in await desk.failure("jenkins_get_status", job=job)
    (target,) = desk.sent("GET")
    assert target.startswith("/jenkins/job/")
    assert target.count("?") == 1


async def test_the_dashboard_counts_in_every_service(desk: Desk) -> None:
    figures = await desk.call("dashboard_metrics")
    assert figures == {
        "open_issues": 2,
        "test_runs": {"failure": 1, "in_progress": 1, "queued": 0},
        "jobs": {"FAILURE": 1},
    }


async def test_the_dashboard_is_partial_without_one_service(desk: Desk) -> None:
    from testops.office import Answer

    desk.office.disturb("GET", "/jenkins/", Answer(500, "<html>"), times=3)
    outcome = await desk.outcome("dashboard_metrics")
    assert outcome.status == "partial"
    assert outcome.value["jobs"].startswith("unavailable: Jenkins failed (500)")  # type: ignore[index,call-overload,union-attr]
    assert outcome.value["open_issues"] == 2  # type: ignore[index,call-overload]

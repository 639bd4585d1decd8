"""Initial data of the office: one small, consistent case of a failing build.

Build 482 of `checkout` fails since commit 9f3c2e1, which rounds refunds half to even.
"""

from typing import Any

JSON = dict[str, Any]


def fresh() -> dict[str, Any]:
    """A new office, as plain JSON."""
    return {
        "issues": {issue["key"]: issue for issue in _issues()},
        "commits": {commit["sha"]: commit for commit in _commits()},
        "pulls": {pull["number"]: pull for pull in _pulls()},
        "branches": {"main": "9f3c2e1", "refund-rounding": "9f3c2e1"},
        "files": {"checkout/refund.py": "def cents(amount):\n    return round(amount * 100)\n"},
        "pages": _pages(),
        "builds": {"checkout": _builds(), "catalog": [_build(311, "SUCCESS")]},
        "workflows": {"9001": {"id": "9001", "name": "lint", "state": "failure", "attempts": 1}},
        "testruns": {
            "tr-77": {"id": "tr-77", "suite": "checkout-e2e", "state": "failed", "retries": 0},
            "tr-78": {"id": "tr-78", "suite": "catalog-load", "state": "running", "retries": 0},
        },
        "effects": {},
    }


def _issue(key: str, summary: str, status: str, priority: str, **more: Any) -> JSON:
    issue: JSON = {"key": key, "summary": summary, "status": status, "priority": priority}
    return {**issue, "labels": [], "links": [], "comments": [], "type": "Bug", **more}


def _issues() -> list[JSON]:
    return [
        _issue("SHOP-101", "Refund of a split payment is one cent short", "Done", "High",
               labels=["rounding"], comments=["Fixed by rounding half up, see the runbook."]),
        _issue("SHOP-117", "Catalog search is slow on Mondays", "In Progress", "Medium"),
        _issue("SHOP-120", "Flaky: basket badge shows 0", "To Do", "Low", labels=["flaky"]),
    ]  # fmt: skip


def _commits() -> list[JSON]:
    return [
        {"sha": "9f3c2e1", "author": "mara", "message": "Use round() for refunds",
         "files": [{"path": "checkout/refund.py",
                    "patch": "-  return int(amount * 100 + 0.5)\n+  return round(amount * 100)"}],
         "pull": 77},
        {"sha": "41d0b7a", "author": "ivo", "message": "Name the columns of the basket export",
         "files": [{"path": "checkout/export.py", "patch": "+COLUMNS = (…)"}], "pull": 76},
    ]  # fmt: skip


def _pulls() -> list[JSON]:
    return [
        {"number": 77, "title": "Use round() for refunds", "author": "mara", "state": "merged",
         "head": "refund-rounding", "base": "main", "checks": "success", "commits": ["9f3c2e1"]},
        {"number": 76, "title": "Name the columns of the basket export", "author": "ivo",
         "state": "merged", "head": "basket-columns", "base": "main", "checks": "success",
         "commits": ["41d0b7a"]},
    ]  # fmt: skip


def _pages() -> list[JSON]:
    return [
        {"id": "4711", "space": "SHOP", "title": "Runbook: money and rounding",
         "text": "Money is kept in cents. Refunds round half up (0.5 goes to 1). Python's round() "
                 "rounds half to even and must not be used. Owner: payments team."},
        {"id": "4712", "space": "SHOP", "title": "Runbook: a red main branch",
         "text": "Find the first red build, its commit and its pull request. Open a bug with the "
                 "failing test's name, then fix forward or revert within one hour."},
    ]  # fmt: skip


def _build(number: int, result: str, **more: Any) -> JSON:
    return {"number": number, "result": result, "branch": "main", "seconds": 212, **more}


def _builds() -> list[JSON]:
    log = (
        "collected 214 items\n"
        "tests/test_refund.py::test_refund_of_half_a_cent FAILED\n"
        "E   assert 2 == 3   # cents(0.025)\n"
        "1 failed, 213 passed in 41.2s"
    )
    return [
        _build(482, "FAILURE", commit="9f3c2e1", failed=["test_refund_of_half_a_cent"], log=log),
        _build(481, "SUCCESS", commit="41d0b7a", failed=[], log="214 passed in 40.8s"),
    ]

"""Initial data of the office: one small, consistent case of a failing build.

Build 482 of `checkout` fails since commit 9f3c2e1, which rounds refunds half to even.
"""

from typing import Any

JSON = dict[str, Any]
ROUNDING = "9f3c2e1b7a40d5c86e1f23904ab5c7d8e9f01234"
COLUMNS = "41d0b7a95ce2f83b6d17049a3be8c5f2d6a70918"


def fresh() -> dict[str, Any]:
    """Returns the data of a new office."""
    return {
        "issues": {issue["key"]: issue for issue in _issues()},
        "users": [
            {"accountId": "5b10a2844c20165700ede21g", "name": "mara", "displayName": "Mara Lind"},
            {"accountId": "5b10ac8d82e05b22cc7d4ef5", "name": "ivo", "displayName": "Ivo Brandt"},
        ],
        "commits": {ROUNDING: _commit(), COLUMNS: _other_commit()},
        "pulls": {77: _pull(), 78: _open_pull()},
        "branches": {"main": ROUNDING, "refund-rounding": ROUNDING, "half-up": COLUMNS},
        "files": {("main", "checkout/refund.py"): "def cents(amount): return round(amount * 100)"},
        "comments": [],
        "runs": {
            9001: {"id": 9001, "name": "lint", "status": "completed", "conclusion": "failure"},
            9002: {"id": 9002, "name": "e2e", "status": "in_progress", "conclusion": None},
        },
        "pages": _pages(),
        "jobs": {"checkout": _job(), "team/catalog": {"builds": [], "parameters": ["BRANCH"]}},
        "queue": {},
    }


def _issue(key: str, summary: str, status: str, priority: str, **more: Any) -> JSON:
    issue: JSON = {"key": key, "summary": summary, "status": status, "priority": priority}
    empty: JSON = {"labels": [], "links": [], "comments": [], "type": "Bug", "assignee": None}
    return {**issue, **empty, "description": "", **more}


def _issues() -> list[JSON]:
    return [
        _issue("SHOP-101", "Refund of a split payment is one cent short", "Done", "High",
               labels=["rounding"], comments=["Fixed by rounding half up, see the runbook."]),
        _issue("SHOP-117", "Catalog search is slow on Mondays", "In Progress", "Medium"),
        _issue("SHOP-120", "Flaky: basket badge shows 0", "To Do", "Low", labels=["flaky"]),
        _issue("PAY-9", "Keys of the payment provider expire", "To Do", "High"),
    ]  # fmt: skip


def _commit() -> JSON:
    patch = "-  return int(amount * 100 + 0.5)\n+  return round(amount * 100)"
    return {"author": "mara", "message": "Use round() for refunds", "check": "failure",
            "files": [{"filename": "checkout/refund.py", "status": "modified", "patch": patch}],
            }  # fmt: skip


def _other_commit() -> JSON:
    return {"author": "ivo", "message": "Name the columns of the basket export", "check": "success",
            "files": [{"filename": "checkout/export.py", "status": "added", "patch": "+COLUMNS"}],
            }  # fmt: skip


def _pull() -> JSON:
    return {"number": 77, "title": "Use round() for refunds", "author": "mara", "state": "closed",
            "merged": True, "head": "refund-rounding", "sha": ROUNDING, "base": "main",
            "body": "Simpler."}  # fmt: skip


def _open_pull() -> JSON:
    return {"number": 78, "title": "Round half up", "author": "ivo", "state": "open",
            "merged": False, "head": "half-up", "sha": COLUMNS, "base": "main",
            "body": "0.025 becomes 3 cents."}  # fmt: skip


def _pages() -> list[JSON]:
    return [
        {"id": "4711", "space": "SHOP", "title": "Runbook: money and rounding",
         "labels": ["runbook"],
         "text": "Money is kept in cents. Refunds round half up (0.5 goes to 1). Python's round() "
                 "rounds half to even and must not be used. Owner: payments team."},
        {"id": "4712", "space": "SHOP", "title": "Runbook: a red main branch",
         "labels": ["runbook"],
         "text": "Find the first red build, its commit and its pull request. Open a bug with the "
                 "failing test's name, then fix forward or revert within one hour."},
        {"id": "4800", "space": "HR", "title": "Rounding of salaries", "labels": [],
         "text": "Salaries are rounded up."},
    ]  # fmt: skip


def _job() -> JSON:
    log = (
        "collected 214 items\n"
        "tests/test_refund.py::test_refund_of_half_a_cent FAILED\n"
        "E   assert 2 == 3   # cents(0.025)\n"
        "1 failed, 213 passed in 41.2s\n"
    )
    failed = [{"className": "tests.test_refund", "name": "test_refund_of_half_a_cent",
               "status": "REGRESSION", "errorDetails": "assert 2 == 3"}]  # fmt: skip
    return {
        "parameters": [],
        "builds": [
            {"number": 482, "result": "FAILURE", "sha": ROUNDING, "cases": failed, "log": log},
            {"number": 481, "result": "SUCCESS", "sha": COLUMNS, "cases": [], "log": "214 passed"},
        ],
    }

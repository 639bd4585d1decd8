"""Jenkins' operations: the remote access API. A folder is a part `/job/NAME` of the path."""

import re
from typing import Any, Final

from testops.routing import Answer, Call, Routes

ROUTES: Final = Routes()
API: Final = "https://www.jenkins.io/doc/book/using/remote-access-api/"
CRUMBS: Final = "https://www.jenkins.io/doc/book/security/csrf-protection/"
LOG: Final = "https://javadoc.jenkins.io/hudson/model/Run.html"
REPORT: Final = "https://plugins.jenkins.io/junit/"
QUEUE: Final = "https://javadoc.jenkins.io/hudson/model/Queue.Item.html"
_MISSING: Final = Answer(404, "<html><body><h2>Not Found</h2></body></html>",
                         {"Content-Type": "text/html"})  # fmt: skip


def _job(call: Call) -> dict[str, Any] | None:
    return call.world["jobs"].get(call.path["job"].replace("/job/", "/"))


def _build(call: Call) -> dict[str, Any] | None:
    number = int(call.path["number"])
    builds = (_job(call) or {}).get("builds", [])
    return next((one for one in builds if one["number"] == number), None)


def _tree_fault(call: Call) -> Answer | None:
    """Returns the error for a `tree` whose brackets do not match."""
    tree = call.query.get("tree", "")
    bare = re.sub(r"\{\d*,?\d*\}", "", tree)
    if bare.count("[") != bare.count("]") or re.search(r"[^\w\[\],]", bare):
        return Answer(400, "Malformed tree expression")
    return None


@ROUTES.add("GET", "jenkins", "/api/json", API, "tree depth pretty")
def root(call: Call) -> Answer:
    """Returns the jobs at the top."""
    if fault := _tree_fault(call):
        return fault
    shown: list[dict[str, Any]] = []
    for name, job in call.world["jobs"].items():
        if "/" not in name:
            last = {"result": job["builds"][0]["result"]} if job["builds"] else None
            shown.append({"name": name, "lastCompletedBuild": last})
    return Answer(200, {"jobs": [*shown, {"name": "team"}]})


@ROUTES.add("GET", "jenkins", "/job/{job*}/{number}/testReport/api/json", REPORT, "tree depth")
def report(call: Call) -> Answer:
    """Returns the tests of a build."""
    build = _build(call)
    if build is None or not build["cases"]:
        return _MISSING
    return Answer(200, {"failCount": len(build["cases"]), "suites": [{"cases": build["cases"]}]})


@ROUTES.add("GET", "jenkins", "/job/{job*}/{number}/logText/progressiveText", LOG, "start")
def log(call: Call) -> Answer:
    """Returns the log from a byte on, and its size in a header."""
    build = _build(call)
    if build is None:
        return _MISSING
    text = build["log"].encode()
    shown = text[int(call.query.get("start", 0)) :].decode("utf-8", "replace")
    return Answer(200, shown, {"X-Text-Size": str(len(text))})


@ROUTES.add("GET", "jenkins", "/job/{job*}/api/json", API, "tree depth pretty")
def job(call: Call) -> Answer:
    """Returns a job with its builds and parameters."""
    found = _job(call)
    if found is None:
        return _MISSING
    if fault := _tree_fault(call):
        return fault
    builds = [
        {"number": one["number"], "result": one["result"], "building": False, "duration": 41200,
         "actions": [{}, {"lastBuiltRevision": {"SHA1": one["sha"],
                                                "branch": [{"name": "origin/main"}]}},
                     {"failCount": len(one["cases"]), "totalCount": 214}]}
        for one in found["builds"]
    ]  # fmt: skip
    names = [{"name": name} for name in found["parameters"]]
    properties: list[Any] = [{}, *([{"parameterDefinitions": names}] if names else [])]
    name = call.path["job"].replace("/job/", "/")
    return Answer(200, {"fullName": name, "inQueue": False, "builds": builds,
                        "property": properties})  # fmt: skip


def _start(call: Call, *, parameters: bool) -> Answer:
    found = _job(call)
    if found is None:
        return _MISSING
    crumb = call.world.get("crumb")
    if crumb and call.headers.get("jenkins-crumb") != crumb:
        text = "<html><body>No valid crumb was included in the request</body></html>"
        return Answer(403, text, {"Content-Type": "text/html"})
    if crumb and call.headers.get("cookie") != "JSESSIONID=node01":
        return Answer(403, "No valid crumb was included in the request")
    # Source: https://javadoc.jenkins.io/jenkins/model/ParameterizedJobMixIn.html
    if bool(found["parameters"]) is not parameters:
        return Answer(400 if found["parameters"] else 500, "<html>Nothing is submitted</html>")
    number = 1 + len(call.world["queue"])
    call.world["queue"][number] = {"job": call.path["job"], "parameters": dict(call.query)}
    return Answer(201, None, {"Location": f"{call.url}/jenkins/queue/item/{number}/"})


@ROUTES.add("POST", "jenkins", "/job/{job*}/build", API, "delay token")
def build(call: Call) -> Answer:
    """Starts a job without parameters."""
    return _start(call, parameters=False)


@ROUTES.add("POST", "jenkins", "/job/{job*}/buildWithParameters", API, open_query=True)
def build_with_parameters(call: Call) -> Answer:
    """Starts a job with parameters, which are in the query."""
    return _start(call, parameters=True)


@ROUTES.add("GET", "jenkins", "/queue/item/{id}/api/json", QUEUE, "tree depth")
def queue_item(call: Call) -> Answer:
    """Returns an item of the queue."""
    found = call.world["queue"].get(int(call.path["id"]))
    if found is None:
        return _MISSING
    return Answer(200, {"why": "In the quiet period. Expires in 4.9 sec", "cancelled": False})


@ROUTES.add("GET", "jenkins", "/crumbIssuer/api/json", CRUMBS, "tree xpath")
def crumb_issuer(call: Call) -> Answer:
    """Returns a crumb, which belongs to the session of the cookie."""
    crumb = call.world.get("crumb")
    if not crumb:
        return _MISSING
    value = {"crumb": crumb, "crumbRequestField": "Jenkins-Crumb"}
    return Answer(200, value, {"Set-Cookie": "JSESSIONID=node01; Path=/; HttpOnly"})

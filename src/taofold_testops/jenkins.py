"""The Jenkins tools: the remote access API.

Sources: https://www.jenkins.io/doc/book/using/remote-access-api/,
https://www.jenkins.io/doc/book/security/csrf-protection/ for crumbs, and the page `/api/` of any
job, build and queue item for the names in `tree`.
"""

import asyncio
import re
from typing import Any, Final

from taofold.core.json_values import is_object
from taofold_testops.client import ServiceClient, ServiceError, ServiceResponse, segments
from taofold_testops.texts import clip, object_in, objects_in

_BUILDS: Final = 5
_TAIL: Final = 6000
"""Bytes of the end of a console log."""
_ITEM: Final = re.compile(r"/queue/item/(\d{1,18})/?$")
_TREE: Final = (
    "fullName,color,inQueue,buildable,builds[number,result,building,timestamp,duration,"
    "actions[lastBuiltRevision[SHA1,branch[name]],failCount,totalCount]]"
    f"{{0,{_BUILDS}}}"
)
_TESTS: Final = "failCount,suites[cases[className,name,status,errorDetails]]"
_DEFINITIONS: Final = "property[parameterDefinitions[name]]"


class JenkinsTools:
    """Reads and starts builds.

    Args:
        client: Requests to the controller.
    """

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._folder = client.account.scope[0] if client.account.scope else ""

    async def jenkins_get_status(self, job: str) -> Any:
        """Get the last builds of a Jenkins job, with failed tests and the end of the log.

        Args:
            job: Name of the job, with its folders: team/checkout.
        """
        path = self._job(job)
        answer = await self._client.get(f"{path}/api/json", tree=_TREE)
        builds = [_build(one) for one in objects_in(answer, "builds")[:_BUILDS]]
        last = next((one for one in builds if one["result"] not in (None, "SUCCESS")), None)
        if last is not None and isinstance(last["number"], int):
            place = f"{path}/{last['number']}"
            last["failed_tests"], last["log_end"] = await asyncio.gather(
                self._failed_tests(place), self._log_end(place)
            )
        return {
            "job": answer.get("fullName") or job,
            "in_queue": bool(answer.get("inQueue")),
            "builds": builds,
        }

    async def _failed_tests(self, build: str) -> list[dict[str, Any]]:
        """Returns the failed tests of a build: GET {build}/testReport/api/json."""
        try:
            report = await self._client.get(f"{build}/testReport/api/json", tree=_TESTS)
        except ServiceError:
            return []  # no report, or a very large one: the log has the failures too
        cases = [
            case for suite in objects_in(report, "suites") for case in objects_in(suite, "cases")
        ]
        return [
            {
                "test": clip(f"{case.get('className')}.{case.get('name')}", 300),
                "error": clip(case.get("errorDetails"), 500),
            }
            for case in cases
            if case.get("status") in ("FAILED", "REGRESSION")
        ][:20]

    async def _log_end(self, build: str) -> str:
        """Returns the end of a console log: GET {build}/logText/progressiveText?start=N.

        The header `X-Text-Size` has the size of the log, so a long log is not read as a whole.
        """
        path = f"{build}/logText/progressiveText"
        response = await self._client.call("GET", path, {"start": 0}, most=_TAIL)
        size = response.headers.get("x-text-size", "")
        if response.cut and size.isascii() and size.isdigit():
            start = max(0, int(size[:15]) - _TAIL)
            response = await self._client.call("GET", path, {"start": start}, most=_TAIL)
        return response.body.decode("utf-8", "replace")

    async def jenkins_trigger_build(
        self, job: str, parameters: dict[str, str] | None = None
    ) -> Any:
        """Start a build of a Jenkins job. In production it always needs an approval.

        Args:
            job: Name of the job, with its folders: team/checkout.
            parameters: Values of the job's parameters.
        """
        path = self._job(job)
        answer = await self._client.get(f"{path}/api/json", tree=_DEFINITIONS)
        known = {
            str(one.get("name"))
            for each in objects_in(answer, "property")
            for one in objects_in(each, "parameterDefinitions")
        }
        values = dict(parameters or {})
        # Jenkins would ignore them without a message.
        unknown = sorted(set(values) - known)
        if unknown:
            names = ", ".join(sorted(known)) or "none"
            raise ServiceError(f"Jenkins: the job has no parameter {unknown[0]!r}; it has {names}")
        verb = "buildWithParameters" if known else "build"
        response = await self._post(f"{path}/{verb}", values)
        item = _ITEM.search(response.headers.get("location", ""))
        started: dict[str, Any] = {"job": job, "state": "queued"}
        if item is None:
            return started
        started["queue_item"] = int(item[1])
        return {**started, **await self._queued(int(item[1]))}

    async def _queued(self, item: int) -> dict[str, Any]:
        """Returns the build number or the reason to wait: GET /queue/item/{id}/api/json."""
        tree = "why,cancelled,executable[number]"
        try:
            answer = await self._client.get(f"/queue/item/{item}/api/json", tree=tree)
        except ServiceError:
            return {}  # the build is requested already, so this must not look like a failure
        build = answer.get("executable")
        if is_object(build):
            return {"state": "started", "number": build.get("number")}
        return {"why": clip(answer.get("why"), 200)}

    async def _post(self, path: str, query: dict[str, str]) -> ServiceResponse:
        """Posts, with a crumb if the controller requires one: GET /crumbIssuer/api/json.

        A request with an API token needs none. A crumb belongs to a web session, so its cookie goes
        with it.
        """
        try:
            return await self._client.call("POST", path, query, kind="write")
        except ServiceError as error:
            if error.status != 403 or "crumb" not in str(error).casefold():
                raise
        response = await self._client.call("GET", "/crumbIssuer/api/json")
        crumb = self._client.object(response)
        field, value = str(crumb.get("crumbRequestField")), str(crumb.get("crumb"))
        if re.fullmatch(r"[A-Za-z0-9.-]{1,60}", field) is None or not value.isprintable():
            raise ServiceError("Jenkins: its crumb cannot be used")
        headers = {field: value}
        if response.headers.get("set-cookie"):
            headers["Cookie"] = response.headers["set-cookie"]
        return await self._client.call("POST", path, query, kind="write", headers=headers)

    async def job_states(self) -> dict[str, int]:
        """Returns the number of jobs by the result of their last build."""
        place = f"{_jobs(self._folder)}" if self._folder else ""
        tree = "jobs[name,lastCompletedBuild[result]]{0,200}"
        answer = await self._client.get(f"{place}/api/json", tree=tree)
        counts: dict[str, int] = {}
        for job in objects_in(answer, "jobs"):
            build = job.get("lastCompletedBuild")
            if is_object(build):  # a folder has none
                result = clip(build.get("result") or "UNKNOWN", 30)
                counts[result] = counts.get(result, 0) + 1
        return counts

    def _job(self, job: str) -> str:
        name = job.strip().strip("/")
        return _jobs(f"{self._folder}/{name}" if self._folder else name)


def _jobs(name: str) -> str:
    """Returns the path of a job in folders: `/job/team/job/checkout`."""
    return "".join(f"/job/{part}" for part in segments(name, "job name").split("/"))


def _build(build: Any) -> dict[str, Any]:
    """Returns a build, with the commit and the test counts that plugins put into `actions`."""
    actions = objects_in(build, "actions")
    revisions = [object_in(one, "lastBuiltRevision") for one in actions]
    found = [one for one in revisions if one]
    revision = found[0] if found else {}
    branches = objects_in(revision, "branch")
    counted = [one for one in actions if one.get("totalCount") is not None]
    tests = counted[0] if counted else {}
    duration = build.get("duration")
    return {
        "number": build.get("number"),
        "result": "RUNNING" if build.get("building") else build.get("result"),
        "commit": revision.get("SHA1"),
        "branch": clip(branches[0].get("name"), 200) if branches else None,
        "seconds": round(duration / 1000) if isinstance(duration, int) else None,
        "failed": tests.get("failCount"),
        "tests": tests.get("totalCount"),
    }

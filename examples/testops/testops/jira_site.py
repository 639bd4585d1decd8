"""Jira's operations: Cloud v3 and Data Center v2.

Errors have the form `{"errorMessages": […], "errors": {field: text}}`, see
https://developer.atlassian.com/cloud/jira/platform/rest/v3/intro/#status-codes.
"""

from typing import Any, Final

from testops.queries import QueryFault, condition
from testops.routing import Answer, Call, Handler, Register, Routes

ROUTES: Final = Routes()
CLOUD: Final = "https://developer.atlassian.com/cloud/jira/platform/rest/v3"
SERVER: Final = "https://docs.atlassian.com/software/jira/docs/api/REST/9.17.0"
ISSUES: Final = f"{CLOUD}/api-group-issues"
_FIELDS: Final = frozenset({"project", "key", "summary", "status", "labels", "text", "resolution"})
_STATES: Final = ("To Do", "In Progress", "Done", "Reopened")


def refusal(status: int, *messages: str, **fields: str) -> Answer:
    """Returns an error in Jira's form."""
    return Answer(status, {"errorMessages": [*messages], "errors": fields})


def _issue(call: Call) -> dict[str, Any] | None:
    return call.world["issues"].get(call.path["key"].upper())


def _missing() -> Answer:
    return refusal(404, "Issue does not exist or you do not have permission to see it.")


def _adf(text: str) -> dict[str, Any]:
    content = [{"type": "paragraph", "content": [{"type": "text", "text": text}]}]
    return {"type": "doc", "version": 1, "content": content}


def _text(call: Call, value: Any) -> str | None:
    """Returns the text of a body field: a document in Cloud, a string in Data Center."""
    if call.site == "jira-server":
        return value if isinstance(value, str) else None
    if not isinstance(value, dict) or (value.get("type"), value.get("version")) != ("doc", 1):
        return None
    lines: list[str] = []
    for block in value["content"]:
        texts = [node["text"] for node in block["content"]]
        if block["type"] != "paragraph" or not all(texts):  # an empty text node is invalid
            return None
        lines.append("".join(texts))
    return "\n".join(lines)


def _document(call: Call, text: str) -> Any:
    return text if call.site == "jira-server" else _adf(text)


def _user(call: Call, name: str | None) -> dict[str, Any] | None:
    found = [user for user in call.world["users"] if user["name"] == name]
    if not found:
        return None
    kept = ("name", "displayName") if call.site == "jira-server" else ("accountId", "displayName")
    return {key: found[0][key] for key in kept}


def _shown(call: Call, issue: dict[str, Any], names: list[str]) -> dict[str, Any]:
    done = issue["status"] == "Done"
    links = [
        {"type": {"name": "Relates", "inward": "relates to", "outward": "relates to"},
         "outwardIssue": {"key": other}}
        for other in issue["links"]
    ]  # fmt: skip
    fields = {
        "summary": issue["summary"],
        "status": {"name": issue["status"]},
        "priority": {"name": issue["priority"]},
        "issuetype": {"name": issue["type"]},
        "assignee": _user(call, issue["assignee"]),
        "reporter": _user(call, "mara"),
        "labels": issue["labels"],
        "description": _document(call, issue["description"]) if issue["description"] else None,
        "issuelinks": links,
        "resolution": {"name": "Done"} if done else None,
        "created": "2026-11-02T09:00:00.000+0000",
        "updated": "2026-11-28T09:00:00.000+0000",
        "project": {"key": issue["key"].partition("-")[0]},
    }
    shown = fields if not names else {name: fields[name] for name in names if name in fields}
    return {"id": "1", "key": issue["key"], "self": f"{call.url}/1", "fields": shown}


def _found(call: Call, jql: str) -> tuple[list[dict[str, Any]], bool]:
    test, bounded = condition(jql, _FIELDS)
    found: list[dict[str, Any]] = []
    for issue in call.world["issues"].values():
        words = [issue["summary"], issue["description"], *issue["comments"]]
        values = {
            "project": issue["key"].partition("-")[0],
            "key": issue["key"],
            "summary": issue["summary"],
            "status": issue["status"],
            "labels": issue["labels"],
            "text": words,
            "resolution": "Done" if issue["status"] == "Done" else "",
        }
        if test(values):
            found.append(issue)
    return found, bounded


@ROUTES.add("POST", "jira-cloud", "/rest/api/3/search/jql",
       f"{CLOUD}/api-group-issue-search/#api-rest-api-3-search-jql-post",
       body="jql! nextPageToken maxResults fields expand properties fieldsByKeys "
            "reconcileIssues")  # fmt: skip
def search(call: Call) -> Answer:
    """Searches, page by page. An unbounded query is refused."""
    try:
        found, bounded = _found(call, call.body["jql"])
    except QueryFault as fault:
        return refusal(400, f"Error in the JQL Query: {fault}")
    if not bounded:
        return refusal(400, "Unbounded JQL queries are not allowed here.")
    token = call.body.get("nextPageToken", "0")
    if not token.isdigit():
        return refusal(400, "The provided next page token is invalid or expired.")
    start, size = int(token), min(call.body.get("maxResults", 50), call.page)
    # Without `fields` the page has ids only.
    names = call.body.get("fields") or ["id"]
    answer: dict[str, Any] = {
        "issues": [_shown(call, issue, names) for issue in found[start : start + size]],
        "isLast": start + size >= len(found),
    }
    if not answer["isLast"]:
        answer["nextPageToken"] = str(start + size)
    return Answer(200, answer)


@ROUTES.add("POST", "jira-cloud", "/rest/api/3/search/approximate-count",
       f"{CLOUD}/api-group-issue-search/#api-rest-api-3-search-approximate-count-post",
       body="jql!")  # fmt: skip
def count(call: Call) -> Answer:
    """Counts issues."""
    try:
        return Answer(200, {"count": len(_found(call, call.body["jql"])[0])})
    except QueryFault as fault:
        return refusal(400, f"Error in the JQL Query: {fault}")


@ROUTES.add("POST", "jira-server", "/rest/api/2/search",
       f"{SERVER}/#api/2/search-searchUsingSearchRequest",
       body="jql startAt maxResults fields validateQuery")  # fmt: skip
def server_search(call: Call) -> Answer:
    """Searches, with a start and a total."""
    try:
        found, _ = _found(call, call.body.get("jql", ""))
    except QueryFault as fault:
        return refusal(400, f"Error in the JQL Query: {fault}")
    start, size = call.body.get("startAt", 0), call.body.get("maxResults", 50)
    size = min(size, call.page)
    page = [_shown(call, one, call.body.get("fields", [])) for one in found[start : start + size]]
    answer = {"startAt": start, "maxResults": size, "total": len(found), "issues": page}
    return Answer(200, answer)


def _both(
    method: str,
    path: str,
    source: str,
    query: str = "",
    body: str | None = None,
    *,
    cloud: str = "",
) -> Register:
    """Registers the operation for Cloud v3 and Data Center v2.

    Cloud has the parameters `cloud` besides `query`.
    """

    def register(handler: Handler) -> Handler:
        names = f"{query} {cloud}"
        ROUTES.add(method, "jira-cloud", f"/rest/api/3{path}", source, names, body)(handler)
        return ROUTES.add(method, "jira-server", f"/rest/api/2{path}", SERVER, query, body)(handler)

    return register


@_both("GET", "/issue/{key}", f"{ISSUES}/#api-rest-api-3-issue-issueidorkey-get",
       "fields expand properties updateHistory", cloud="fieldsByKeys failFast")  # fmt: skip
def get_issue(call: Call) -> Answer:
    """Returns an issue with the fields that are asked for."""
    issue = _issue(call)
    if issue is None:
        return _missing()
    names = [name for name in call.query.get("fields", "").split(",") if name]
    return Answer(200, _shown(call, issue, names))


@_both("POST", "/issue", f"{ISSUES}/#api-rest-api-3-issue-post", "updateHistory",
       "fields! update historyMetadata properties transition")  # fmt: skip
def create(call: Call) -> Answer:
    """Creates an issue."""
    fields = call.body["fields"]
    wrong = {name: f"{name} is required." for name in ("project", "issuetype", "summary")
             if not fields.get(name)}  # fmt: skip
    project = (fields.get("project") or {}).get("key")
    if project not in ("SHOP", "PAY"):
        wrong["project"] = "valid project is required"
    if (fields.get("issuetype") or {}).get("name") not in ("Bug", "Task"):
        wrong["issuetype"] = "Specify a valid issue type"
    text = _text(call, fields["description"]) if "description" in fields else ""
    if text is None:
        wrong["description"] = "Operation value must be an Atlassian Document"
    if wrong:
        return refusal(400, **wrong)
    number = 1 + max(int(key.partition("-")[2]) for key in call.world["issues"])
    key = f"{project}-{number}"
    call.world["issues"][key] = {
        "key": key, "summary": fields["summary"], "status": "To Do", "comments": [], "links": [],
        "priority": fields.get("priority", {}).get("name", "Medium"), "assignee": None,
        "labels": [*fields.get("labels", [])], "type": "Bug", "description": text,
    }  # fmt: skip
    return Answer(201, {"id": str(number), "key": key, "self": f"{call.url}/{number}"})


@_both("PUT", "/issue/{key}", f"{ISSUES}/#api-rest-api-3-issue-issueidorkey-put",
       "notifyUsers", "fields update historyMetadata properties transition",
       cloud="overrideScreenSecurity overrideEditableFlag returnIssue expand")  # fmt: skip
def edit(call: Call) -> Answer:
    """Adds labels. A label that is there stays."""
    issue = _issue(call)
    if issue is None:
        return _missing()
    for change in call.body.get("update", {}).get("labels", []):
        if " " in change["add"]:
            return refusal(400, labels="The label can't contain spaces.")
        if change["add"] not in issue["labels"]:
            issue["labels"].append(change["add"])
    return Answer(204)


@_both("GET", "/issue/{key}/comment",
       f"{CLOUD}/api-group-issue-comments/#api-rest-api-3-issue-issueidorkey-comment-get",
       "startAt maxResults orderBy expand")  # fmt: skip
def comments(call: Call) -> Answer:
    """Returns the comments of an issue."""
    issue = _issue(call)
    if issue is None:
        return _missing()
    if call.query.get("orderBy", "created") not in ("created", "-created", "+created"):
        return refusal(400, "The orderBy is invalid")
    texts = list(issue["comments"])
    if call.query.get("orderBy") == "-created":
        texts.reverse()
    start, size = int(call.query.get("startAt", 0)), int(call.query.get("maxResults", 100))
    shown = [
        {"id": str(index), "author": _user(call, "ivo"), "body": _document(call, text),
         "created": "2026-11-03T09:00:00.000+0000"}
        for index, text in enumerate(texts[start : start + size])
    ]  # fmt: skip
    page = {"startAt": start, "maxResults": size, "total": len(texts), "comments": shown}
    return Answer(200, page)


@_both("POST", "/issue/{key}/comment",
       f"{CLOUD}/api-group-issue-comments/#api-rest-api-3-issue-issueidorkey-comment-post",
       "expand", "body! visibility properties")  # fmt: skip
def comment(call: Call) -> Answer:
    """Adds a comment."""
    issue = _issue(call)
    if issue is None:
        return _missing()
    text = _text(call, call.body["body"])
    if not text:
        return refusal(400, comment="Comment body is not valid!")
    issue["comments"].append(text)
    return Answer(201, {"id": str(len(issue["comments"])), "body": call.body["body"]})


@_both("GET", "/issue/{key}/transitions",
       f"{ISSUES}/#api-rest-api-3-issue-issueidorkey-transitions-get",
       "transitionId", cloud="expand skipRemoteOnlyCondition includeUnavailableTransitions "
       "sortByOpsBarAndStatus")  # fmt: skip
def transitions(call: Call) -> Answer:
    """Returns the transitions that the present status permits."""
    issue = _issue(call)
    if issue is None:
        return _missing()
    shown = [
        {"id": str(10 + index), "name": f"To {state}", "to": {"name": state}}
        for index, state in enumerate(_STATES)
        if state != issue["status"]
    ]
    return Answer(200, {"expand": "transitions", "transitions": shown})


@_both("POST", "/issue/{key}/transitions",
       f"{ISSUES}/#api-rest-api-3-issue-issueidorkey-transitions-post", "",
       "transition! fields update historyMetadata properties")  # fmt: skip
def transit(call: Call) -> Answer:
    """Moves an issue."""
    issue = _issue(call)
    if issue is None:
        return _missing()
    number = call.body["transition"].get("id")
    states = {str(10 + index): state for index, state in enumerate(_STATES)}
    if states.get(number, issue["status"]) == issue["status"]:
        return refusal(400, f"It seems that you have tried to perform a workflow operation "
                            f"({number}) that is not valid for the current state.")  # fmt: skip
    issue["status"] = states[number]
    return Answer(204)


_ASSIGNABLE: Final = f"{CLOUD}/api-group-user-search/#api-rest-api-3-user-assignable-search-get"


@ROUTES.add("GET", "jira-cloud", "/rest/api/3/user/assignable/search", _ASSIGNABLE,
       "query sessionId accountId project issueKey issueId startAt maxResults actionDescriptorId "
       "recommend")  # fmt: skip
@ROUTES.add("GET", "jira-server", "/rest/api/2/user/assignable/search", SERVER,
       "username project issueKey maxResults actionDescriptorId")  # fmt: skip
def assignable(call: Call) -> Answer:
    """Returns the users whose name has the text."""
    if call.query.get("issueKey") not in call.world["issues"]:
        return _missing()
    text = call.query.get("query" if call.site == "jira-cloud" else "username", "").lower()
    users = [user["name"] for user in call.world["users"] if text in user["displayName"].lower()]
    return Answer(200, [_user(call, name) for name in users])


@ROUTES.add("PUT", "jira-cloud", "/rest/api/3/issue/{key}/assignee",
       f"{ISSUES}/#api-rest-api-3-issue-issueidorkey-assignee-put", body="accountId")  # fmt: skip
@ROUTES.add("PUT", "jira-server", "/rest/api/2/issue/{key}/assignee", SERVER, body="name")
def assign(call: Call) -> Answer:
    """Assigns an issue: by `accountId` in Cloud, by `name` in Data Center."""
    issue = _issue(call)
    if issue is None:
        return _missing()
    key = "accountId" if call.site == "jira-cloud" else "name"
    found = [user for user in call.world["users"] if user[key] == call.body.get(key)]
    if not found:
        return refusal(400, assignee="The user does not exist.")
    issue["assignee"] = found[0]["name"]
    return Answer(204)


@_both("POST", "/issueLink",
       f"{CLOUD}/api-group-issue-links/#api-rest-api-3-issuelink-post", "",
       "type! inwardIssue! outwardIssue! comment")  # fmt: skip
def link(call: Call) -> Answer:
    """Links two issues. A link that is there stays."""
    issues = call.world["issues"]
    keys = [call.body[name].get("key") for name in ("inwardIssue", "outwardIssue")]
    if any(key not in issues for key in keys):
        return _missing()
    if call.body["type"].get("name") not in ("Relates", "Blocks"):
        return refusal(404, f"No issue link type with name '{call.body['type']}' found.")
    if keys[1] not in issues[keys[0]]["links"]:
        issues[keys[0]]["links"].append(keys[1])
    return Answer(201)

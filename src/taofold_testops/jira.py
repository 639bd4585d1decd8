"""The Jira tools: Cloud (REST v3) and Data Center (REST v2).

An account with an e-mail address is Cloud, with Basic authentication. One with a token alone is
Data Center, with a personal access token.

Sources: https://developer.atlassian.com/cloud/jira/platform/rest/v3/ and
https://developer.atlassian.com/server/jira/platform/rest/ (version 2).
"""

import json
import re
from functools import partial
from typing import Any, Final

from taofold.core.json_values import is_array, is_object
from taofold.tools import Outcome, RunContext
from taofold_testops.client import ServiceClient, ServiceError, hits, segment
from taofold_testops.texts import adf, clip, count_in, object_in, objects_in, plain

_KEY: Final = re.compile(r"[A-Z][A-Z0-9_]{0,99}-[1-9][0-9]{0,17}")
_PROJECT: Final = re.compile(r"[A-Z][A-Z0-9_]{0,99}")
_BRIEF: Final = ("summary", "status", "priority", "issuetype", "assignee", "labels", "updated")
_WHOLE: Final = (*_BRIEF, "reporter", "description", "issuelinks", "created", "resolution")
_COMMENTS: Final = 10
_PAGE: Final = 50
_MOST: Final = 100


class JiraTools:
    """Reads and changes issues.

    Args:
        client: Requests to the Jira site.
    """

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._cloud = bool(client.account.user)
        self._api = f"/rest/api/{3 if self._cloud else 2}"
        self._projects = tuple(key.upper() for key in client.account.scope)

    async def jira_search(self, jql: str, limit: int = 20) -> Any:
        """Search Jira issues with JQL, such as `text ~ "refund" AND status != Done`.

        Args:
            jql: The query, with an ORDER BY if the order matters.
            limit: Maximum number of issues, 1 to 100.
        """
        limit = max(1, min(limit, _MOST))
        query = scoped_query(jql, "project", self._projects)
        issues, more = await hits(
            partial(self._page, query),
            limit,
            _PAGE,
            lambda issue: self._in_scope(str(issue.get("key", ""))),
        )
        return {"issues": [_brief(issue) for issue in issues], "more": more}

    async def _page(
        self, jql: str, size: int, token: str | None, seen: int
    ) -> tuple[list[Any], str | None, bool]:
        """Returns the issues of a page, the token of the next one, and whether there is one.

        Cloud: POST /rest/api/3/search/jql. The last page has no `nextPageToken`. Data Center: POST
        /rest/api/2/search with `startAt` and `total`.
        """
        body: dict[str, Any] = {"jql": jql, "maxResults": size, "fields": list(_BRIEF)}
        if self._cloud:
            if token:
                body["nextPageToken"] = token
            answer = await self._client.search(f"{self._api}/search/jql", body)
            after = answer.get("nextPageToken")
            after = after if isinstance(after, str) else None
            return objects_in(answer, "issues"), after, bool(after) and not answer.get("isLast")
        body["startAt"] = seen
        answer = await self._client.search(f"{self._api}/search", body)
        page = objects_in(answer, "issues")
        return page, None, seen + len(page) < count_in(answer, "total")

    async def open_issues(self) -> int:
        """Returns the number of open issues of the account's projects.

        Cloud: POST /rest/api/3/search/approximate-count. Data Center: `total` of a search.
        """
        jql = scoped_query("resolution = EMPTY", "project", self._projects)
        if self._cloud:
            path = f"{self._api}/search/approximate-count"
            return count_in(await self._client.search(path, {"jql": jql}), "count")
        answer = await self._client.search(f"{self._api}/search", {"jql": jql, "maxResults": 0})
        return count_in(answer, "total")

    async def jira_get(self, key: str) -> Any:
        """Get one Jira issue with its latest comments, such as SHOP-101."""
        path = f"{self._api}/issue/{self._key(key)}"
        issue = await self._client.get(path, fields=",".join(_WHOLE))
        key = self._returned(issue)
        comments = await self._client.get(
            f"{self._api}/issue/{segment(key, 'issue key')}/comment",
            maxResults=_COMMENTS,
            orderBy="-created",
        )
        fields = object_in(issue, "fields")
        return {
            **_brief(issue),
            "description": clip(plain(fields.get("description")), 4000),
            "reporter": _name(fields.get("reporter")),
            "resolution": _name(fields.get("resolution")),
            "created": fields.get("created"),
            "links": [_link(link) for link in objects_in(fields, "issuelinks")[:20]],
            "comments": [
                {
                    "author": _name(comment.get("author")),
                    "created": comment.get("created"),
                    "text": clip(plain(comment.get("body")), 2000),
                }
                for comment in objects_in(comments, "comments")[:_COMMENTS]
            ],
            "comments_total": comments.get("total"),
        }

    async def jira_create_issue(
        self,
        ctx: RunContext[None],
        summary: str,
        description: str = "",
        issue_type: str = "Bug",
        project: str = "",
        priority: str = "",
    ) -> Any:
        """Open a Jira issue. The whole team sees it.

        Args:
            summary: One line.
            description: Plain text.
            issue_type: Name of the type, such as Bug or Task.
            project: Key of the project. Empty for the first that is set up.
            priority: Name of the priority. Empty for the project's default.
        """
        fields: dict[str, Any] = {
            "project": {"key": self._project(project)},
            "issuetype": {"name": issue_type},
            "summary": summary,
            "labels": [_mark(ctx.effect_id)],
        }
        if description:
            fields["description"] = self._document(description)
        if priority:
            fields["priority"] = {"name": priority}
        made = await self._client.write("POST", f"{self._api}/issue", {"fields": fields})
        return {"key": made.get("key"), "summary": summary}

    async def created(self, effect_id: str) -> Outcome:
        """Returns the issue that the call with this id created, found by its label.

        Raises:
            ServiceError: None is found. The search index may lag behind, so this proves nothing.
        """
        page, _, _ = await self._page(f'labels = "{_mark(effect_id)}"', 2, None, 0)
        if not page:
            raise ServiceError("no issue with the label of this call is found yet")
        return Outcome({"key": page[0].get("key"), "summary": _brief(page[0])["summary"]})

    async def jira_comment(self, key: str, text: str) -> Any:
        """Comment on a Jira issue."""
        path = f"{await self._issue(key)}/comment"
        made = await self._client.write("POST", path, {"body": self._document(text)})
        return {"key": key.strip().upper(), "comment": made.get("id")}

    async def jira_transition_issue(self, key: str, status: str) -> Any:
        """Move a Jira issue to another status. Starts the automation that depends on it.

        Args:
            key: Key of the issue.
            status: Name of the new status, or of the transition.
        """
        path = f"{await self._issue(key)}/transitions"
        offered = objects_in(await self._client.get(path), "transitions")
        wanted = status.strip().casefold()
        fitting = [
            one
            for one in offered
            if wanted in (_name(one.get("to")).casefold(), str(one.get("name", "")).casefold())
        ]
        if len(fitting) != 1:
            names = ", ".join(sorted({_name(one.get("to")) for one in offered})) or "none"
            problem = "is ambiguous" if fitting else "is not possible now"
            raise ServiceError(f"Jira: the status {status!r} {problem}; possible: {names}")
        await self._client.write("POST", path, {"transition": {"id": str(fitting[0].get("id"))}})
        return {"key": key.strip().upper(), "status": _name(fitting[0].get("to"))}

    async def jira_assign_issue(self, key: str, assignee: str) -> Any:
        """Assign a Jira issue to a user.

        Args:
            key: Key of the issue.
            assignee: Name or e-mail address of a user who may be assigned.
        """
        path = await self._issue(key)
        users = await self._client.get_list(
            f"{self._api}/user/assignable/search",
            issueKey=key.strip().upper(),
            maxResults=10,
            **{"query" if self._cloud else "username": assignee},
        )
        exact = [user for user in users if assignee.casefold() in _names(user)] or users
        if len(exact) != 1:
            names = ", ".join(_name(user) for user in exact[:5]) or "no user"
            raise ServiceError(f"Jira: {assignee!r} must match one user, but matches {names}")
        identity = "accountId" if self._cloud else "name"
        body = {identity: exact[0].get(identity)}
        await self._client.write("PUT", f"{path}/assignee", body)
        return {"key": key.strip().upper(), "assignee": _name(exact[0])}

    async def jira_link_issues(self, key: str, other: str, link_type: str = "Relates") -> Any:
        """Link two Jira issues. A link that exists stays as it is.

        Args:
            key: Key of the first issue.
            other: Key of the second issue.
            link_type: Name of the kind of link, such as Relates or Blocks.
        """
        await self._issue(key)
        await self._issue(other)
        first, second = self._key(key), self._key(other)
        body = {
            "type": {"name": link_type},
            "inwardIssue": {"key": first},
            "outwardIssue": {"key": second},
        }
        await self._client.write("POST", f"{self._api}/issueLink", body)
        return {"key": first, "linked": second, "type": link_type}

    async def jira_add_label(self, key: str, label: str) -> Any:
        """Add a label to a Jira issue."""
        if not label or any(char.isspace() for char in label):
            raise ServiceError(f"Jira: {label!r} is no label: it must be one word")
        path = await self._issue(key)
        await self._client.write("PUT", path, {"update": {"labels": [{"add": label}]}})
        return {"key": key.strip().upper(), "label": label}

    async def _issue(self, key: str) -> str:
        """Returns the path of an issue to change.

        An issue that was moved answers to its old key. So the present project is read first, if
        only some projects may be used.
        """
        path = f"{self._api}/issue/{self._key(key)}"
        if self._projects:
            self._returned(await self._client.get(path, fields="project"))
        return path

    def _key(self, text: str) -> str:
        key = text.strip().upper()
        if _KEY.fullmatch(key) is None:
            raise ServiceError(f"{clip(repr(text), 80)} is no issue key; one looks like SHOP-101")
        if not self._in_scope(key):
            raise ServiceError(f"{key} is not in the projects {', '.join(self._projects)}")
        return key

    def _returned(self, issue: Any) -> str:
        key = str(issue.get("key", ""))
        if _KEY.fullmatch(key) is None or not self._in_scope(key):
            raise ServiceError("the issue was moved to a project that may not be used here")
        return key

    def _in_scope(self, key: str) -> bool:
        return not self._projects or key.rpartition("-")[0] in self._projects

    def _project(self, text: str) -> str:
        key = text.strip().upper() or (self._projects[0] if self._projects else "")
        if _PROJECT.fullmatch(key) is None:
            raise ServiceError(f"{clip(repr(text), 80)} is no project key; one looks like SHOP")
        if self._projects and key not in self._projects:
            raise ServiceError(f"{key} is not one of the projects {', '.join(self._projects)}")
        return key

    def _document(self, text: str) -> Any:
        return adf(text) if self._cloud else text


def _mark(effect_id: str) -> str:
    """Returns the label by which a created issue is found again after a crash."""
    return f"taofold-{effect_id}"


def scoped_query(text: str, field: str, scope: tuple[str, ...], condition: str = "") -> str:
    """Returns a JQL or CQL query within a scope.

    Args:
        text: The query of the model. Its parentheses cannot close the ones around it.
        field: "project" or "space".
        scope: Allowed values of the field. Empty for all.
        condition: A further condition.

    Raises:
        ServiceError: Parentheses or quotes of `text` do not match, or a backslash is unquoted.
    """
    where, order = _split(text)
    keys = ", ".join([json.dumps(key) for key in scope])
    parts = [condition, f"{field} in ({keys})" if scope else "", f"({where})" if where else ""]
    return f"{' AND '.join([part for part in parts if part])} {order}".strip()


def _split(jql: str) -> tuple[str, str]:
    """Returns the condition and the ORDER BY of a query.

    Raises:
        ServiceError: Parentheses or quotes do not match, or a backslash is unquoted.
    """
    depth, quote, index, order = 0, "", 0, len(jql)
    while index < len(jql):
        char = jql[index]
        if quote:
            index += char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "\\":
            # Jira reads \' outside of quotes as a letter, so it opens no quote there.
            raise ServiceError("a backslash of the query must be in quotes")
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif depth == 0 and _ORDER.match(jql, index):
            order = min(order, index)
        if depth < 0:
            break
        index += 1
    if depth or quote:
        raise ServiceError("the parentheses or quotes of the query do not match")
    return jql[:order].strip(), jql[order:].strip()


_ORDER: Final = re.compile(r"(?<![\w.])order\s+by\b", re.IGNORECASE)


def _name(value: Any) -> str:
    if not is_object(value):
        return ""
    return clip(value.get("displayName") or value.get("name") or "", 200)


def _names(user: Any) -> set[str]:
    keys = ("displayName", "name", "emailAddress", "accountId", "key")
    return {str(user[key]).casefold() for key in keys if user.get(key)}


def _brief(issue: Any) -> dict[str, Any]:
    fields = object_in(issue, "fields")
    labels = fields.get("labels")
    return {
        "key": issue.get("key"),
        "summary": clip(fields.get("summary"), 500),
        "status": _name(fields.get("status")),
        "priority": _name(fields.get("priority")),
        "type": _name(fields.get("issuetype")),
        "assignee": _name(fields.get("assignee")),
        "labels": [clip(label, 100) for label in labels[:30]] if is_array(labels) else [],
        "updated": fields.get("updated"),
    }


def _link(link: Any) -> dict[str, Any]:
    direction = "outward" if is_object(link.get("outwardIssue")) else "inward"
    return {
        "type": clip(object_in(link, "type").get(direction), 100),
        "key": object_in(link, f"{direction}Issue").get("key"),
    }

"""The Confluence tool: Cloud (v1 search, v2 pages) and Data Center.

Sources: https://developer.atlassian.com/cloud/confluence/rest/v1/api-group-search/,
https://developer.atlassian.com/cloud/confluence/rest/v2/api-group-page/ and
https://developer.atlassian.com/server/confluence/rest/ for Data Center.
"""

import re
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from taofold_testops.client import ServiceClient, hits
from taofold_testops.jira import scoped_query
from taofold_testops.texts import clip, object_in, objects_in, text_of_storage

_MOST: Final = 25
_BODIES: Final = 5
"""Pages whose text is read too. The others have their excerpt."""
_TEXT: Final = 2500


class ConfluenceTools:
    """Searches pages.

    Args:
        client: Requests to the site. Cloud's base URL ends with `/wiki`.
    """

    def __init__(self, client: ServiceClient) -> None:
        self._client = client
        self._cloud = bool(client.account.user)
        self._spaces = client.account.scope

    async def confluence_search(self, cql: str, limit: int = 5) -> Any:
        """Search the wiki's pages with CQL, such as `text ~ "rounding" AND label = runbook`.

        Args:
            cql: The query.
            limit: Maximum number of pages, 1 to 25. The first five have their text.
        """
        limit = max(1, min(limit, _MOST))
        query = scoped_query(cql, "space", self._spaces, "type = page")
        pages, more = await hits(partial(self._page, query), limit, _MOST, self._in_scope)
        texts = await self._texts([str(page["id"]) for page in pages[:_BODIES]])
        shown = [{**page, "text": texts.get(str(page["id"]), "")} for page in pages]
        return {"pages": shown, "more": more}

    async def _page(
        self, cql: str, size: int, cursor: str | None, seen: int
    ) -> tuple[list[Any], str | None, bool]:
        """Returns the pages of one answer, the cursor of the next one, and whether there is one.

        GET /rest/api/search. Cloud has a cursor in `_links.next`, Data Center takes `start`. Only
        the cursor of the link is used: the URL itself is the server's text.
        """
        answer = await self._client.get(
            "/rest/api/search",
            cql=cql,
            limit=size,
            expand="content.space",
            cursor=cursor,
            start=None if self._cloud else seen,
        )
        pages = [_shown(item) for item in objects_in(answer, "results")]
        link = object_in(answer, "_links").get("next")
        if not isinstance(link, str):
            return pages, None, False
        if not self._cloud:
            return pages, None, True
        after = parse_qs(urlsplit(link).query).get("cursor", [""])[0]
        return pages, after or None, bool(after)

    async def _texts(self, ids: list[str]) -> dict[str, str]:
        """Returns the texts of pages by their ids.

        Cloud: GET /api/v2/pages?id=…&body-format=storage. Data Center: GET
        /rest/api/content/{id}?expand=body.storage.
        """
        ids = [one for one in ids if re.fullmatch(r"[0-9]{1,20}", one)]
        if not ids:
            return {}
        pages: list[Any] = []
        if self._cloud:
            answer = await self._client.get(
                "/api/v2/pages",
                id=",".join(ids),
                limit=len(ids),
                **{"body-format": "storage"},
            )
            pages = objects_in(answer, "results")
        else:
            for one in ids:
                pages.append(
                    await self._client.get(f"/rest/api/content/{one}", expand="body.storage")
                )
        texts: dict[str, str] = {}
        for page in pages:
            value = object_in(object_in(page, "body"), "storage").get("value")
            if isinstance(value, str):
                texts[str(page.get("id"))] = clip(text_of_storage(value), _TEXT)
        return texts

    def _in_scope(self, page: dict[str, Any]) -> bool:
        return not self._spaces or page["space"] in self._spaces


def _shown(item: dict[str, Any]) -> dict[str, Any]:
    content = object_in(item, "content")
    marks = re.compile(r"@@@(?:end)?hl@@@")
    return {
        "id": content.get("id"),
        "title": clip(marks.sub("", str(content.get("title") or item.get("title") or "")), 300),
        "space": object_in(content, "space").get("key"),
        "excerpt": clip(text_of_storage(marks.sub("", str(item.get("excerpt") or ""))), 500),
        "updated": item.get("lastModified"),
    }

"""Confluence's operations: Cloud (v1 search, v2 pages) and Data Center."""

import re
from typing import Any, Final

from testops.queries import QueryFault, condition
from testops.routing import Answer, Call, Routes

ROUTES: Final = Routes()
CLOUD: Final = "https://developer.atlassian.com/cloud/confluence/rest"
SERVER: Final = "https://docs.atlassian.com/ConfluenceServer/rest/8.9.3"
_FIELDS: Final = frozenset({"space", "type", "title", "text", "label"})


@ROUTES.add("GET", "wiki-cloud", "/wiki/rest/api/search",
            f"{CLOUD}/v1/api-group-search/#api-wiki-rest-api-search-get",
            "cql cqlcontext cursor next prev limit start includeArchivedSpaces "
            "excludeCurrentSpaces excerpt sitePermissionTypeFilter expand")  # fmt: skip
@ROUTES.add("GET", "wiki-server", "/rest/api/search", f"{SERVER}/#api/search-search",
            "cql cqlcontext excerpt expand start limit includeArchivedSpaces")  # fmt: skip
def search(call: Call) -> Answer:
    """Searches. Cloud continues with a cursor, Data Center with `start`."""
    try:
        test, _ = condition(call.query["cql"], _FIELDS)
    except QueryFault as fault:
        return Answer(400, {"statusCode": 400, "message": f"Could not parse cql : {fault}"})
    found = [page for page in call.world["pages"] if test(_values(page))]
    cloud = call.site == "wiki-cloud"
    start = int(call.query.get("cursor" if cloud else "start", 0))
    size = min(int(call.query.get("limit", 25)), call.page)
    spaces = "content.space" in call.query.get("expand", "")
    results = [_shown(page, spaces) for page in found[start : start + size]]
    links = {"base": call.url, "context": "/wiki" if cloud else ""}
    if start + size < len(found):
        asked = f"cursor={start + size}" if cloud else f"start={start + size}"
        links["next"] = f"/rest/api/search?{asked}&limit={size}"
    answer = {"results": results, "start": start, "limit": size, "size": len(results)}
    return Answer(200, {**answer, "totalSize": len(found), "_links": links})


def _values(page: dict[str, Any]) -> dict[str, Any]:
    words = [page["title"], page["text"]]
    return {"space": page["space"], "type": "page", "title": page["title"], "text": words,
            "label": page["labels"]}  # fmt: skip


def _shown(page: dict[str, Any], spaces: bool) -> dict[str, Any]:
    content: dict[str, Any] = {"id": page["id"], "type": "page", "status": "current"}
    content["title"] = page["title"]
    if spaces:
        content["space"] = {"key": page["space"], "name": page["space"].title()}
    first = page["text"].split()[0]
    excerpt = page["text"].replace(first, f"@@@hl@@@{first}@@@endhl@@@", 1)
    return {"content": content, "title": page["title"], "excerpt": excerpt,
            "lastModified": "2026-10-01T08:00:00.000Z"}  # fmt: skip


def _storage(page: dict[str, Any]) -> dict[str, Any]:
    markup = f"<p>{page['text'].replace('&', '&amp;')}</p>"
    value = {"value": markup, "representation": "storage"}
    return {"id": page["id"], "title": page["title"], "body": {"storage": value}}


@ROUTES.add("GET", "wiki-cloud", "/wiki/api/v2/pages", f"{CLOUD}/v2/api-group-page/#api-pages-get",
            "id space-id sort status title body-format cursor limit")  # fmt: skip
def pages(call: Call) -> Answer:
    """Returns pages by their ids, which are separated by commas."""
    ids = call.query.get("id", "").split(",")
    if not all(re.fullmatch("[0-9]+", one) for one in ids):
        fault = {"status": 400, "code": "INVALID_REQUEST_PARAMETER", "title": "id is invalid"}
        return Answer(400, {"errors": [fault]})
    found = [_storage(page) for page in call.world["pages"] if page["id"] in ids]
    if call.query.get("body-format") != "storage":
        found = [{**page, "body": {}} for page in found]
    return Answer(200, {"results": found, "_links": {"base": call.url}})


@ROUTES.add("GET", "wiki-server", "/rest/api/content/{id}",
            f"{SERVER}/#api/content-getContentById", "status version expand")  # fmt: skip
def content(call: Call) -> Answer:
    """Returns a page."""
    found = [page for page in call.world["pages"] if page["id"] == call.path["id"]]
    if not found:
        return Answer(404, {"statusCode": 404, "message": "No content found with id"})
    shown = _storage(found[0])
    if "body.storage" not in call.query.get("expand", ""):
        del shown["body"]
    return Answer(200, shown)

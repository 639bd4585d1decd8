"""The office against the vendors' own machine-readable descriptions of their interfaces.

`TAOFOLD_SERVICE_APIS` is a folder with some of these files. None of them is part of the project.

| file | source |
|---|---|
| `github.json` | `generated/api.github.com.json` of the npm package `@octokit/openapi` |
| `jira.json` | https://developer.atlassian.com/cloud/jira/platform/swagger-v3.v3.json |
| `confluence.json` | https://developer.atlassian.com/cloud/confluence/openapi-v2.v3.json |
| `jira-server.wadl` | https://docs.atlassian.com/software/jira/docs/api/REST/8.4.3/ |

An operation of the office must be described: its path, its method, its query, its body and the
names in its answer. A parameter that the office lacks is not a fault, because a request with it is
refused. A name that an answer lacks is not one either, because the tools cannot use it then.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from taofold import RunContext
from taofold_testops.tools import toolset
from tests.console.test_testops import EXAMPLES
from tests.prerequisites import SERVICE_APIS, service_apis

FILES: Final = {
    "github.json": ("github", ""),
    "jira.json": ("jira-cloud", ""),
    "confluence.json": ("wiki-cloud", "/wiki/api/v2"),
    "jira-server.wadl": ("jira-server", "/rest"),
}
"""The site and the part of its paths that the file leaves out."""
WADL: Final = "{http://wadl.dev.java.net/2009/02}"


@dataclass
class Operation:
    """A described operation.

    `fields` are those of its body. `answers` are the schemas by status, whose references lead into
    `document`.
    """

    query: set[str] = field(default_factory=set[str])
    required: set[str] = field(default_factory=set[str])
    fields: set[str] = field(default_factory=set[str])
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    document: Any = None


Described = dict[tuple[str, str], Operation]


def bare(path: str) -> str:
    """Returns a path without the names of its variable parts."""
    return re.sub(r"\{[^}]*\}", "{}", path).rstrip("/")


def openapi(text: str) -> Described:
    """Returns the operations of an OpenAPI document."""
    document = json.loads(text)
    found: Described = {}
    for path, item in document["paths"].items():
        for method in {"get", "put", "post", "delete", "patch"} & set(item):
            one = Operation(document=document)
            for status, answer in item[method].get("responses", {}).items():
                content = _resolved(document, answer).get("content", {})
                one.answers[status] = content.get("application/json", {}).get("schema")
            shared = item.get("parameters", [])
            for parameter in [*shared, *item[method].get("parameters", [])]:
                known = _resolved(document, parameter)
                if known["in"] == "query":
                    one.query.add(known["name"])
                    one.required |= {known["name"]} if known.get("required") else set()
            body = _resolved(document, item[method].get("requestBody", {}))
            for media in body.get("content", {}).values():
                one.fields |= set(_properties(document, media.get("schema", {})))
            found[method.upper(), bare(path)] = one
    return found


def _resolved(document: Any, value: Any) -> Any:
    while "$ref" in value:
        place = value["$ref"].removeprefix("#/").split("/")
        value = document
        for part in place:
            value = value[part.replace("~1", "/").replace("~0", "~")]
    return value


def _properties(document: Any, schema: Any) -> Iterator[str]:
    known = _resolved(document, schema)
    yield from known.get("properties", {})
    for kind in ("allOf", "anyOf", "oneOf"):
        for part in known.get(kind, []):
            yield from _properties(document, part)


def wadl(text: str) -> Described:
    """Returns the operations of a WADL document, whose bodies have a JSON Schema as text."""
    found: Described = {}
    root = ElementTree.fromstring(text)
    for resources in root.iter(f"{WADL}resources"):
        for resource in resources.findall(f"{WADL}resource"):
            _resource(resource, "", found)
    return found


def _resource(node: ElementTree.Element, above: str, found: Described) -> None:
    path = f"{above}/{node.get('path', '').strip('/')}".rstrip("/")
    for method in node.findall(f"{WADL}method"):
        one = found.setdefault((method.get("name", ""), bare(path)), Operation())
        for place in (node, *method.findall(f"{WADL}request")):
            parameters = place.findall(f"{WADL}param")
            one.query |= {p.get("name", "") for p in parameters if p.get("style") == "query"}
        for body in method.findall(f"{WADL}request/{WADL}representation"):
            schema = "".join(body.itertext()).partition('{"id":"https://docs.atlassian')
            if schema[1]:
                value, _ = json.JSONDecoder().raw_decode("".join(schema[1:]))
                one.fields |= set(value.get("properties", {}))
    for inner in node.findall(f"{WADL}resource"):
        _resource(inner, path, found)


def faults(described: Described, site: str, left_out: str) -> list[str]:
    """Returns what the office has and the description lacks."""
    from testops.office import ROUTES

    found: list[str] = []
    for route in (one for one in ROUTES if site in one.sites and one.path.startswith(left_out)):
        name = f"{route.method} {route.path}"
        one = described.get((route.method, bare(route.path.removeprefix(left_out))))
        if one is None:
            found.append(f"{name} is not described")
            continue
        fields = {each.rstrip("!") for each in route.body or ()}
        found += [f"{name}: query {each}" for each in sorted(route.query - one.query)]
        found += [f"{name}: required {each}" for each in sorted(one.required - route.query)]
        found += [f"{name}: field {each}" for each in sorted(fields - one.fields)]
    return found


def unknown(document: Any, schema: Any, value: Any, place: str = "") -> list[str]:
    """Returns the places of names in a value that its schema lacks."""
    if schema is None:
        return [] if value in (None, {}) else [f"{place} has content"]
    known = _resolved(document, schema)
    parts = [part for kind in ("anyOf", "oneOf") for part in known.get(kind, [])]
    if parts and not known.get("properties"):
        return min([unknown(document, part, value, place) for part in parts], key=len)
    if isinstance(value, list):
        inner = known.get("items", {})
        return [fault for one in value for fault in unknown(document, inner, one, f"{place}[]")]
    names = dict(_schemas(document, known))
    # Without names any object fits, unless the schema permits no other names.
    closed = known.get("additionalProperties", not names) is False
    found: list[str] = []
    for name, one in value.items() if isinstance(value, dict) else ():
        if name in names:
            found += unknown(document, names[name], one, f"{place}.{name}")
        elif closed:
            found.append(f"{place}.{name}")
    return found


def _schemas(document: Any, schema: Any) -> Iterator[tuple[str, Any]]:
    known = _resolved(document, schema)
    yield from known.get("properties", {}).items()
    for part in known.get("allOf", []):
        yield from _schemas(document, part)


def described(name: str) -> Described:
    """Returns the operations of one file. Skips the test without it."""
    path = service_apis() / name
    if not path.is_file():
        pytest.skip(f"no {name} is here: see the sources in tests/testops/test_descriptions.py")
    text = path.read_text("utf-8")
    return openapi(text) if name.endswith(".json") else wadl(text)


@SERVICE_APIS.mark
@pytest.mark.parametrize("name", FILES)
def test_every_operation_of_the_office_is_described_by_its_vendor(name: str) -> None:
    assert faults(described(name), *FILES[name]) == []


@SERVICE_APIS.mark
@pytest.mark.anyio
@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".json")])
async def test_every_name_in_an_answer_of_the_office_is_described_by_its_vendor(name: str) -> None:
    from testops.office import ROUTES, Office

    operations, (site, left_out) = described(name), FILES[name]
    office = Office()
    seen: list[tuple[str, str, Any]] = []
    answer = office.handle

    def watched(method: str, target: str, *rest: Any) -> Any:
        found = answer(method, target, *rest)
        seen.append((method, target.partition("?")[0], found))
        return found

    office.handle = watched  # type: ignore[method-assign]
    tools = toolset(office.accounts(), office)
    for tool, parameters in EXAMPLES.items():
        await tools[tool].bind(parameters).run(RunContext(None, effect_id="e1"))
    found: list[str] = []
    checked = 0
    for method, target, made in seen:
        asked, _, path = target.removeprefix("/").partition("/")
        fitting = [r for r in ROUTES if r.method == method and r.match(f"/{path}") is not None]
        place = fitting[0].path.removeprefix(left_out)
        one = operations.get((method, bare(place)))
        if asked != site or one is None or made.status >= 400:
            continue
        checked += 1
        if str(made.status) not in one.answers:
            found.append(f"{method} {place}: status {made.status}")
            continue
        schema = one.answers[str(made.status)]
        found += [f"{method} {place}: {n}" for n in unknown(one.document, schema, made.value)]
    assert found == []
    assert checked


ROUTE = "/rest/api/3/issue/{id}/assignee"
SCHEMA = {"allOf": [{"$ref": "#/components/schemas/User"}]}


def described_assignee(*fields: str, query: str = "") -> Described:
    """Returns the description of one operation, as OpenAPI."""
    user = {"properties": {name: {} for name in fields}}
    parameters = [{"name": query, "in": "query", "required": True}] if query else []
    put = {
        "parameters": parameters,
        "requestBody": {"content": {"application/json": {"schema": SCHEMA}}},
    }
    document = {"paths": {ROUTE: {"put": put}}, "components": {"schemas": {"User": user}}}
    return openapi(json.dumps(document))


def test_a_field_a_parameter_or_a_path_without_a_description_is_a_fault() -> None:
    def about(described: Described) -> list[str]:
        return [one for one in faults(described, "jira-cloud", "") if "assignee" in one]

    name = "PUT /rest/api/3/issue/{key}/assignee"
    assert about(described_assignee("accountId", "name")) == []
    assert about(described_assignee("name")) == [f"{name}: field accountId"]
    assert about(described_assignee("accountId", query="who")) == [f"{name}: required who"]
    assert about({}) == [f"{name} is not described"]


def test_a_name_in_an_answer_without_a_description_is_a_fault() -> None:
    document = {"user": {"properties": {"name": {"type": "string"}}}}
    user = {"$ref": "#/user"}
    one = {"allOf": [user, {"properties": {"groups": {"type": "array", "items": user}}}]}
    value = {"name": "mara", "groups": [{"name": "a"}, {"size": 1}], "age": 3}
    assert unknown(document, one, value) == [".groups[].size", ".age"]
    assert unknown(document, {"anyOf": [{"properties": {"x": {}}}, user]}, {"name": "a"}) == []
    assert unknown(document, {**one, "additionalProperties": {}}, {"age": 3}) == []
    assert unknown(document, None, {"name": "a"}) == [" has content"]


def test_the_older_description_of_jira_is_read() -> None:
    schema = '{"id":"https://docs.atlassian.com/x","properties":{"name":{}}} and more text'
    text = (
        f'<a xmlns="{WADL[1:-1]}"><resources><resource path="api/2/issue/{{k}}">'
        '<param name="expand" style="query"/><param name="k" style="template"/>'
        '<resource path="/assignee"><method name="PUT"><request>'
        '<param name="notify" style="query"/>'
        f"<representation><doc>{schema}</doc></representation></request></method></resource>"
        "</resource></resources></a>"
    )
    (place,) = wadl(text)
    assert place == ("PUT", "/api/2/issue/{}/assignee")
    assert wadl(text)[place] == Operation(query={"notify"}, fields={"name"})

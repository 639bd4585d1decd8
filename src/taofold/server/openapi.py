"""The OpenAPI document, made from the endpoints and the models they are checked with, and the table
of the server's limits that it publishes. Pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import taofold
from taofold.core.json_values import is_array, is_object
from taofold.server.api.schemas import ProblemShape
from taofold.server.endpoint import MEDIA, PATHS, ApiEndpoint, NoQuery
from taofold.server.middleware import LARGEST_HEADER, LONGEST_PATH, LONGEST_QUERY
from taofold.server.server import Settings
from taofold.server.streams.response import SHARE

_PREFIX: Final = "#/components/schemas/"
_REF: Final = _PREFIX + "{model}"
_WHAT: Final = {
    200: "As asked.",
    201: "It was made.",
    202: "It will happen.",
    204: "Nothing more will come.",
    303: "Go on at the location.",
    400: "The request cannot be read.",
    401: "No valid credentials.",
    403: "Not for you.",
    404: "There is no such thing, or it is not yours.",
    405: "This cannot be done here.",
    408: "The body took too long.",
    409: "Not in this state.",
    410: "It has expired.",
    413: "The body is too large.",
    431: "The header is too large.",
    414: "The address is too long.",
    415: "The body is not JSON.",
    422: "What it says is not valid.",
    429: "Too many requests.",
    503: "Not now.",
}
_ALWAYS: Final = (400, 401, 403, 408, 413, 414, 415, 422, 429, 431, 503)
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def limits(settings: Settings) -> dict[str, dict[str, Any]]:
    """What a client must keep to: by name the value, its unit, and the status beyond it.

    Lengths of single texts stand in the schemas, as `maxLength`.
    """

    def limit(value: float, unit: str, status: int, about: str) -> dict[str, Any]:
        return {"value": value, "unit": unit, "status": status, "description": about}

    return {
        "body": limit(settings.body_bytes, "bytes", 413, "Of a request's body."),
        "upload": limit(settings.upload_bytes, "bytes", 413, "Of a body that may hold files."),
        "body_time": limit(settings.body_s, "s", 408, "In which a body must arrive."),
        "upload_time": limit(settings.upload_s, "s", 408, "In which one with files must."),
        "header": limit(LARGEST_HEADER, "bytes", 431, "Of all header fields together."),
        "path": limit(LONGEST_PATH, "characters", 414, "Of the path."),
        "query": limit(LONGEST_QUERY, "characters", 414, "Of the query."),
        "rate": limit(settings.requests_per_s, "requests/s", 429, "Of one principal."),
        "burst": limit(settings.requests_burst, "requests", 429, "Of one principal at once."),
        "streams": limit(
            settings.most_streams // SHARE, "streams", 503, "Of one principal at once."
        ),
        "uploads": limit(settings.most_uploads, "requests", 503, "With files, read at once."),
    }


def document(endpoints: Sequence[ApiEndpoint], settings: Settings = Settings()) -> dict[str, Any]:
    """The document, with the limits of `settings` (of a server that sets none, by default)."""
    bounds = limits(settings)
    published = [endpoint for endpoint in endpoints if not endpoint.hidden]
    models = _models(published)
    _, schemas = models_json_schema(
        [(model, mode) for model, mode in models.items()], ref_template=_REF
    )
    components = _published(schemas.get("$defs", {}))
    paths: dict[str, Any] = {}
    for endpoint in published:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, bounds)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "taofold",
            "version": taofold.__version__,
            "summary": "Runs, their events, and what people decide.",
            "x-limits": bounds,
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "http",
                    "scheme": "session",
                    "description": "What `POST /signin` gives: `Authorization: Session …`.",
                },
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


def _models(endpoints: Sequence[ApiEndpoint]) -> dict[type[BaseModel], Any]:
    """Every model, and whether it is read or written."""
    modes: dict[type[BaseModel], Any] = {ProblemShape: "serialization"}
    for endpoint in endpoints:
        if endpoint.body is not None:
            modes[endpoint.body] = "validation"
        for model in endpoint.answers.values():
            if not isinstance(model, str):
                modes[model] = "serialization"
    return modes


def _published(components: dict[str, Any]) -> dict[str, Any]:
    """The components under their titles, which stay when a class gets another name."""
    names = {name: str(schema.get("title", name)) for name, schema in components.items()}
    # Two models of one title would overwrite each other in the published document.
    assert len(set(names.values())) == len(names)
    return {names[name]: _renamed(schema, names) for name, schema in components.items()}


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """`schema` with every reference to a component by its published name."""
    if is_object(schema):
        return {
            key: _REF.format(model=names[value.removeprefix(_PREFIX)])
            if key == "$ref" and isinstance(value, str)
            else _renamed(value, names)
            for key, value in schema.items()
        }
    return [_renamed(part, names) for part in schema] if is_array(schema) else schema


def _title(model: type[BaseModel]) -> str:
    """The name under which the model is published."""
    return model.model_config.get("title") or model.__name__


def _operation(endpoint: ApiEndpoint, bounds: Mapping[str, Any]) -> dict[str, Any]:
    name = re.sub(r"\W+", "_", f"{endpoint.method.lower()}{endpoint.path}").strip("_")
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": [*_path(endpoint), *_query(endpoint), *_headers(endpoint)],
        "responses": _answers(endpoint),
    }
    if endpoint.right == "public":
        operation["security"] = [{}]
    elif endpoint.right != "signed_in":
        operation["x-right"] = endpoint.right
    if endpoint.body is not None:
        schema = {"$ref": _REF.format(model=_title(endpoint.body))}
        content = {"application/json": {"schema": schema}}
        largest = bounds["upload" if endpoint.upload else "body"]["value"]
        about = f"At most {largest} bytes."
        operation["requestBody"] = {"required": True, "description": about, "content": content}
    return operation


def _path(endpoint: ApiEndpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": PATHS.get(name, "^.+$")},
        }
        for name in _PARAMETER.findall(endpoint.path)
    ]


def _query(endpoint: ApiEndpoint) -> list[dict[str, Any]]:
    if endpoint.query is NoQuery:
        return []
    schema = endpoint.query.model_json_schema()
    return [
        {"name": name, "in": "query", "required": False, "schema": property_schema}
        for name, property_schema in schema["properties"].items()
    ]


def _headers(endpoint: ApiEndpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": about,
            "schema": {"type": "string"},
        }
        for name, about in endpoint.headers.items()
    ]


def _answers(endpoint: ApiEndpoint) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, model in endpoint.answers.items():
        answer: dict[str, Any] = {"description": _WHAT[status]}
        if isinstance(model, str):
            if model:
                answer["content"] = {model: {"schema": {"type": "string"}}}
        else:
            schema = {"$ref": _REF.format(model=_title(model))}
            answer["content"] = {"application/json": {"schema": schema}}
        answers[str(status)] = answer
    # Any request may meet these: they come from the middleware and the route, not from the handler.
    problem = {MEDIA: {"schema": {"$ref": _REF.format(model="ProblemShape")}}}
    for status in sorted({*_ALWAYS, *endpoint.errors}):
        answers[str(status)] = {"description": _WHAT[status], "content": problem}
    return answers


def text(endpoints: Sequence[ApiEndpoint]) -> str:
    """The document as it is published beside the code."""
    return json.dumps(document(endpoints), indent=1, sort_keys=True)

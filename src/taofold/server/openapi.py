"""The OpenAPI document, made from the endpoints and their models, with the limits. Pure."""

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
    200: "Success.",
    201: "Created.",
    202: "Accepted.",
    204: "There are no more events.",
    303: "Continue at the location.",
    400: "The request cannot be read.",
    401: "No valid credentials.",
    403: "You lack the right.",
    404: "It does not exist, or is not yours.",
    405: "The method is not allowed.",
    408: "The body took too long.",
    409: "Not possible in this state.",
    410: "It has expired.",
    413: "The body is too large.",
    431: "The header is too large.",
    414: "The address is too long.",
    415: "The body is not JSON.",
    422: "The content is not valid.",
    429: "Too many requests.",
    503: "Temporarily unavailable.",
}
_ALWAYS: Final = (400, 401, 403, 408, 413, 414, 415, 422, 429, 431, 503)
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


def limits(settings: Settings) -> dict[str, dict[str, Any]]:
    """Returns the limits for clients: value, unit and status by name.

    Lengths of single texts are in the schemas, as `maxLength`.
    """

    def limit(value: float, unit: str, status: int, about: str) -> dict[str, Any]:
        return {"value": value, "unit": unit, "status": status, "description": about}

    return {
        "body": limit(settings.body_bytes, "bytes", 413, "Body of a request."),
        "upload": limit(settings.upload_bytes, "bytes", 413, "Body with files."),
        "body_time": limit(settings.body_s, "s", 408, "Time for a body to arrive."),
        "upload_time": limit(settings.upload_s, "s", 408, "Time for a body with files."),
        "header": limit(LARGEST_HEADER, "bytes", 431, "All header fields together."),
        "path": limit(LONGEST_PATH, "characters", 414, "Path."),
        "query": limit(LONGEST_QUERY, "characters", 414, "Query."),
        "rate": limit(settings.requests_per_s, "requests/s", 429, "Requests of one principal."),
        "burst": limit(
            settings.requests_burst, "requests", 429, "Requests at once of one principal."
        ),
        "streams": limit(
            settings.most_streams // SHARE, "streams", 503, "Open streams of one principal."
        ),
        "uploads": limit(settings.most_uploads, "requests", 503, "Concurrent uploads with files."),
    }


def document(endpoints: Sequence[ApiEndpoint], settings: Settings = Settings()) -> dict[str, Any]:
    """Returns the document, with the limits of `settings`."""
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
            "summary": "Runs, events and approvals of agents.",
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
                    "description": "A session of `POST /signin`: `Authorization: Session …`.",
                },
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


def _models(endpoints: Sequence[ApiEndpoint]) -> dict[type[BaseModel], Any]:
    """Returns all models, with their mode of validation or serialization."""
    modes: dict[type[BaseModel], Any] = {ProblemShape: "serialization"}
    for endpoint in endpoints:
        if endpoint.body is not None:
            modes[endpoint.body] = "validation"
        for model in endpoint.answers.values():
            if not isinstance(model, str):
                modes[model] = "serialization"
    return modes


def _published(components: dict[str, Any]) -> dict[str, Any]:
    """Returns the components under their titles, which do not depend on class names."""
    names = {name: str(schema.get("title", name)) for name, schema in components.items()}
    # Two models with one title would overwrite each other.
    assert len(set(names.values())) == len(names)
    return {names[name]: _renamed(schema, names) for name, schema in components.items()}


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """Returns `schema` with references by published names."""
    if is_object(schema):
        return {
            key: _REF.format(model=names[value.removeprefix(_PREFIX)])
            if key == "$ref" and isinstance(value, str)
            else _renamed(value, names)
            for key, value in schema.items()
        }
    return [_renamed(part, names) for part in schema] if is_array(schema) else schema


def _title(model: type[BaseModel]) -> str:
    """Returns the published name of a model."""
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
    # Every request may get these from the middleware and the route.
    problem = {MEDIA: {"schema": {"$ref": _REF.format(model="ProblemShape")}}}
    for status in sorted({*_ALWAYS, *endpoint.errors}):
        answers[str(status)] = {"description": _WHAT[status], "content": problem}
    return answers


def text(endpoints: Sequence[ApiEndpoint]) -> str:
    """Returns the document as text, as published in the repository."""
    return json.dumps(document(endpoints), indent=1, sort_keys=True)

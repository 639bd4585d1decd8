"""Documented operations of the services: paths, methods, parameters, body fields, sources."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Call:
    """A request that fits a route.

    `path` has the values of the variable parts, decoded. `page` is the maximum size of a page.
    """

    url: str
    page: int
    world: dict[str, Any]
    site: str
    path: dict[str, str]
    query: dict[str, str]
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a value for the body, and headers. Text is sent as it is."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Call], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """A documented operation.

    `path` has `{name}` for one segment and `{name*}` for several. `body` has the names of the
    fields of the JSON body, the required ones first with `!`. None if there is no body.
    """

    method: str
    sites: tuple[str, ...]
    path: str
    source: str
    handler: Handler
    query: frozenset[str]
    body: frozenset[str] | None
    open_query: bool

    def match(self, path: str) -> dict[str, str] | None:
        """Returns the values of the variable parts of an escaped path; None if it differs."""
        pattern = re.sub(r"\\\{(\w+)(\\\*)?\\\}", _group, re.escape(self.path))
        found = re.fullmatch(pattern, path)
        return None if found is None else {k: unquote(v) for k, v in found.groupdict().items()}


def _group(found: re.Match[str]) -> str:
    return f"(?P<{found[1]}>{'.+' if found[2] else '[^/]+'})"


Register = Callable[[Handler], Handler]


class Routes(list[Route]):
    """The operations of a service."""

    def add(
        self,
        method: str,
        sites: str,
        path: str,
        source: str,
        query: str = "",
        body: str | None = None,
        *,
        open_query: bool = False,
    ) -> Register:
        """Registers the handler of an operation. Names are separated by spaces."""

        def register(handler: Handler) -> Handler:
            fields = None if body is None else frozenset(body.split())
            names, places = frozenset(query.split()), tuple(sites.split())
            self.append(Route(method, places, path, source, handler, names, fields, open_query))
            return handler

        return register


def body_of(one: Route, headers: Mapping[str, str], content: bytes) -> tuple[Any, str]:
    """Returns the JSON body, and what is wrong with it."""
    if not content:
        required = any(name.endswith("!") for name in one.body or ())
        return None, "a body is missing" if required else ""
    if one.body is None:
        return None, "it has no body"
    if headers.get("content-type", "").partition(";")[0] != "application/json":
        return None, "the body is not declared as JSON"
    try:
        body = json.loads(content)
    except ValueError:
        return None, "the body is not JSON"
    if not isinstance(body, dict):
        return None, "the body is not an object"
    names = {name.rstrip("!") for name in one.body}
    needed = {name.rstrip("!") for name in one.body if name.endswith("!")}
    if set(body) - names:
        return None, f"undocumented fields {sorted(set(body) - names)}"
    return body, f"missing fields {sorted(needed - set(body))}" if needed - set(body) else ""

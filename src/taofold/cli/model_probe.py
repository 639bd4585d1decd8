"""Command `taofold doctor MODEL`: tests a model with four small requests and stores its profile.

`doctor` reports this machine's configuration.
"""

import asyncio
import json
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from taofold.cli.findings import Finding
from taofold.core.content import Conversation
from taofold.core.errors import ModelError
from taofold.core.json_values import is_object
from taofold.core.values import Message, ModelSettings, Profile, Reply
from taofold.network import bare_url
from taofold.runtime.model import Model, Request, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from taofold.models.remote import Connection

_TOKENS: Final = 200
_THINKING_TOKENS: Final = 4_000
"""Limit for a thinking model, whose thoughts count as output."""
_SECONDS: Final = 60.0
_TOOL: Final = ToolSpec(
    "add",
    "Add two whole numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)
_SCHEMA: Final = {
    "type": "object",
    "properties": {"planet": {"enum": ["mars", "venus"]}, "moons": {"type": "integer"}},
    "required": ["planet", "moons"],
    "additionalProperties": False,
}


def examine(name: str) -> list[Finding]:
    """Tests the model `name` and stores its profile for later runs.

    Raises:
        ConfigError: The model is unknown, or its key is missing.
    """
    from taofold.cli.project import config
    from taofold.runtime.providers import resolve

    provider = config().provider
    # For a name without a provider the error names the default provider.
    resolve(name, provider=provider)
    full = name if ":" in name else f"{provider}:{name}"
    return asyncio.run(_closing(_examine(full)))


async def _closing(work: Awaitable[list[Finding]]) -> list[Finding]:
    from taofold.models.transport import aclose_all

    try:
        return await work
    finally:
        await aclose_all()


async def _examine(name: str) -> list[Finding]:
    from datetime import UTC, datetime

    from taofold.models.probed import keep_profile
    from taofold.runtime.providers import resolve

    plain = resolve(name)
    findings = [Finding("model", True, plain.name)]
    # First: if a plain request fails, the others would fail for the same reason.
    reply = await _try(plain, "Answer with the single word: ready")
    if isinstance(reply, str):
        return [*findings, Finding("plain reply", False, reply)]
    excerpt = " ".join(reply.text.split())[:60]
    findings.append(Finding("plain reply", True, f"{excerpt!r}, {reply.usage.tokens} tokens"))
    streaming = await _streams(plain)
    connection: Any = getattr(plain, "connection", None)
    # A model without a connection is built in or from a plugin, with its own profile.
    if connection is None:
        findings.append(_finding("streaming", streaming))
        findings.append(Finding("profile", None, "built in: nothing to keep"))
        return findings
    profile_before = plain.profile
    # Each ability is tested with a profile that has it; otherwise the request would not use it.
    shaped = await _shapes(_able(name, msgspec.structs.replace(profile_before, json_schema=True)))
    tools = await _calls(_able(name, msgspec.structs.replace(profile_before, native_tools=True)))
    window = await asyncio.to_thread(_window, name, connection.server)
    size = window or (profile_before.window if profile_before.window_known else 0)
    # Untested properties keep their values: media, thinking, the binding of its reasoning.
    profile = msgspec.structs.replace(
        profile_before,
        window=size or profile_before.window,
        window_known=bool(size),
        native_tools=not tools,
        json_schema=not shaped,
        streaming=not streaming,
    )
    at = datetime.now(UTC).isoformat(timespec="seconds")
    path = keep_profile(name, connection.server, profile, at)
    window_text = f"{size} tokens" if size else f"unknown; {profile.window} is assumed"
    window_text = _from(
        window_text, "its server" if window else connection.sources.window if size else ""
    )
    return [
        *findings,
        _finding("JSON schema", shaped),
        _finding("native tools", tools),
        _finding("streaming", streaming),
        Finding("window", True if size else None, window_text),
        *_facts(connection),
        Finding("profile", True, f"kept in {path}, for {bare_url(connection.server)}"),
    ]


def _finding(what: str, missing: str) -> Finding:
    return Finding(what, None if missing else True, missing or "yes")


def _facts(connection: "Connection") -> list[Finding]:
    """Returns known facts that were not tested, with their source."""
    profile, price, sources = connection.profile, connection.price, connection.sources
    takes = ", ".join(("text", *profile.inputs)) if profile.inputs is not None else "unknown"
    cost = "unknown: `usd` limits need prices="
    if price is not None:
        from datetime import UTC, datetime

        rates = price.on(datetime.now(UTC)).rates
        cost = f"{rates.input:g} $ in, {rates.output:g} $ out per million tokens"
    return [
        Finding("takes", None, _from(takes, sources.abilities)),
        Finding("thinks", None, _from(profile.thinking or "unknown", sources.abilities)),
        Finding("price", None, _from(cost, sources.price)),
    ]


def _from(said: str, source: str) -> str:
    return f"{said} ({source})" if source else said


def _able(name: str, profile: Profile) -> Model:
    from taofold.runtime.providers import resolve

    return resolve(name, profile=profile)


async def _try(
    model: Model,
    text: str,
    on_text: "Callable[[str], None] | None" = None,
    **options: Any,
) -> Reply | str:
    """Returns the reply, or the reason of the failure."""
    conversation = Conversation((Message("user", text),))
    most = _THINKING_TOKENS if model.profile.thinking in ("default", "always") else _TOKENS
    request = Request(conversation, settings=ModelSettings(max_tokens=most), **options)
    completion: Awaitable[Reply] = model.complete(request, on_text)
    try:
        return await asyncio.wait_for(completion, _SECONDS)
    except TimeoutError:
        return f"no answer within {_SECONDS:g} s"
    except ModelError as error:
        return f"{error.kind}: {error}"


async def _streams(model: Model) -> str:
    """Returns why the model does not stream; "" if it does."""
    heard: list[str] = []
    reply = await _try(model, "Count from one to ten in words.", heard.append)
    if isinstance(reply, str):
        return f"no: {reply}"
    return "" if len(heard) > 1 else "no: the reply came in one piece"


async def _shapes(model: Model) -> str:
    # The question is unrelated to the schema, so only a provider that enforces it returns such
    # JSON.
    reply = await _try(model, "Write a limerick about a dog.", schema=_SCHEMA)
    if isinstance(reply, str):
        return f"no: {reply}"
    try:
        document: Any = json.loads(reply.text)
    except ValueError:
        return "no: the reply was not JSON"
    good = is_object(document) and set(document) == {"planet", "moons"}
    return "" if good else "no: the reply was JSON that does not match the schema"


async def _calls(model: Model) -> str:
    reply = await _try(model, "Use the tool to add 17 and 25.", tools=(_TOOL,))
    if isinstance(reply, str):
        return f"no: {reply}"
    if not reply.calls:
        return "no: it answered in text"
    try:
        arguments: Any = json.loads(reply.calls[0].arguments)
    except ValueError:
        return "no: the call's arguments were not JSON"
    return "" if is_object(arguments) else "no: the call's arguments were not an object"


def _window(name: str, server: str) -> int:
    """Returns the context window that a local server reports, in tokens; 0 if none."""
    import os

    provider, _, model = name.partition(":")
    if provider == "llamacpp":
        key = os.environ.get("LLAMACPP_API_KEY", "")
        # llama.cpp's own route is outside /v1. `n_ctx` is the server's setting, which may be less
        # than the model's maximum.
        properties = _json(f"{server.removesuffix('/v1')}/props", key=key)
        return _whole(properties.get("default_generation_settings", {}), "n_ctx")
    if provider == "ollama":
        properties = _json(f"{server}/api/show", {"model": model})
        facts: dict[str, Any] = properties.get("model_info", {})
        # Ollama prefixes the architecture, as in `llama.context_length`.
        names = [name for name in facts if name.endswith(".context_length")]
        return _whole(facts, names[0]) if names else 0
    return 0


def _whole(facts: Any, name: str) -> int:
    number: Any = facts.get(name, 0) if is_object(facts) else 0
    return number if isinstance(number, int) and number > 0 else 0


def _json(url: str, body: dict[str, str] | None = None, *, key: str = "") -> dict[str, Any]:
    from taofold import network

    sent = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    try:
        with network.send(url, sent, headers, timeout=2) as answer:
            document: Any = json.loads(answer.read(1 << 20))
    except (OSError, ValueError):
        return {}
    return document if is_object(document) else {}

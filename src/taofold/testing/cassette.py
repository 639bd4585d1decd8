"""Cassettes: a provider's recorded or written answers, served in place of the network.

A cassette is JSON:

    {"exchanges": [
      {"request":  {"path": "/v1/chat/completions", "headers": {"x-api-key": "k"},
                    "body": {"model": "gpt-4o"}},
       "response": {"status": 200, "headers": {}, "json": {...}}}
    ]}

A request matches if its URL ends with `path` and its body and headers contain the fields of the
cassette. Objects match by subset, lists by length and item, everything else by equality, header
names in any case. `prompt_cache_key` is not compared: each run has its own. A response has `json`,
`body` (text) or `sse`. `sse` is a list of events: objects are encoded, strings are sent unchanged.
Each is a `data:` line, or whole lines if it starts with "event:". `"cut": N` drops the last N
bytes, as a broken connection does. Exchanges are used in order, each once; `"times": N` repeats
one. `Recorder` writes such a file from the requests and answers of a real provider. Neither class
knows anything about providers.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from taofold.core.errors import ConfigError, TaofoldError
from taofold.core.json_values import is_object, is_sequence
from taofold.core.text import times
from taofold.models.transport import (
    Body,
    Bounds,
    Http,
    HttpResponse,
    OnBytes,
    Transport,
    whole,
)
from taofold.network import bare_url
from taofold.policy.redaction import Redactor

_PIECE: Final = 37
"""Streams arrive in pieces of this many bytes, which splits lines and characters."""
_PER_RUN: Final = frozenset({"prompt_cache_key"})
"""Fields of a request that depend on the run's id: they differ at each replay."""


class CassetteMismatch(TaofoldError):
    """A request differs from the next one of the cassette."""


class Cassette:
    """A `Transport` that answers from exchanges. `requests` holds the decoded request bodies.

    `Cassette.load` reads a file that a `Recorder` wrote. Use it with `answered_by`.

    Args:
        exchanges: Requests with their responses, as in the file.
        name: The name in messages.
    """

    def __init__(self, exchanges: list[dict[str, Any]], name: str = "cassette") -> None:
        self.name = name
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self._left = [
            exchange for exchange in exchanges for _ in range(int(exchange.get("times", 1)))
        ]

    @classmethod
    def load(cls, path: Path) -> "Cassette":
        """Reads a cassette file.

        Args:
            path: The file.

        Raises:
            ConfigError: It cannot be read.
        """
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return cls(document["exchanges"], path.name)
        except FileNotFoundError as error:
            raise ConfigError(
                "there is no cassette: record it with `pytest --record-cassettes`", path=str(path)
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"not a cassette: {error!r}", path=str(path)) from error

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        """Answers with the next exchange. Raises `CassetteMismatch` if the request differs."""
        request = json.loads(whole(body))
        self.requests.append(request)
        self.headers.append(dict(headers))
        if not self._left:
            raise CassetteMismatch(
                f"{self.name!r} has no exchange left for request {len(self.requests)} "
                f"to {bare_url(url)}"
            )
        exchange = self._left[0]
        why = _difference(exchange.get("request", {}), url, headers, request)
        if why:
            raise CassetteMismatch(f"{self.name!r}, request {len(self.requests)}: {why}")
        # Only a matching exchange is used up: after a mismatch the cassette still shows the
        # expected one.
        self._left.pop(0)
        return _answer(exchange.get("response", {}), on_bytes)

    def assert_complete(self) -> None:
        """Raises `AssertionError` if exchanges are left over."""
        if self._left:
            raise AssertionError(f"{self.name!r} has {times(len(self._left), 'exchange')} left")


def _answer(response: dict[str, Any], on_bytes: OnBytes | None) -> HttpResponse:
    status = int(response.get("status", 200))
    headers = {str(key).title(): str(value) for key, value in response.get("headers", {}).items()}
    data = _data(response)
    if "cut" in response:
        # Like a broken connection: the status was 200, the end never arrived.
        data = data[: len(data) - int(response["cut"])]
    # As in the network: errors are read whole, and only streamed data arrives in pieces.
    if on_bytes is None or status != 200 or "json" in response:
        return HttpResponse(status, headers, data)
    for start in range(0, len(data), _PIECE):
        on_bytes(data[start : start + _PIECE])
    return HttpResponse(status, headers, b"")


def _data(response: dict[str, Any]) -> bytes:
    if "json" in response:
        return json.dumps(response["json"]).encode()
    if "sse" in response:
        return "".join(_event(event) for event in response["sse"]).encode()
    return str(response.get("body", "")).encode()


def _event(event: Any) -> str:
    if isinstance(event, str):
        return f"{event}\n\n" if event.startswith(("event:", ":")) else f"data: {event}\n\n"
    return f"data: {json.dumps(event)}\n\n"


def _difference(wanted: dict[str, Any], url: str, headers: Mapping[str, str], body: object) -> str:
    path = str(wanted.get("path", ""))
    if not url.endswith(path):
        return f"it goes to {bare_url(url)}, the cassette expects {path!r}"
    got = {name.lower(): value for name, value in headers.items()}
    for name, value in wanted.get("headers", {}).items():
        if got.get(name.lower()) != value:
            return f"header {name!r} is not what the cassette expects"
    expected = wanted.get("body", {})
    if is_object(expected):
        expected = {name: value for name, value in expected.items() if name not in _PER_RUN}
    return _missing(expected, body, "body")


def _missing(wanted: Any, got: Any, path: str) -> str:
    """Returns the first field of `wanted` that `got` lacks, or ""."""
    if is_object(wanted) and is_object(got):
        for key, value in wanted.items():
            if key not in got:
                return f"{path}.{key} is missing"
            if why := _missing(value, got[key], f"{path}.{key}"):
                return why
        return ""
    # Lists must have equal length: a message that is sent twice must not match.
    if is_sequence(wanted) and is_sequence(got) and len(wanted) == len(got):
        reasons = (
            _missing(expected, other, f"{path}[{index}]")
            for index, (expected, other) in enumerate(zip(wanted, got, strict=True))
        )
        return next(filter(None, reasons), "")
    return "" if wanted == got else f"{path} is {got!r}, the cassette expects {wanted!r}"


_HEADERS: Final = frozenset({"content-type", "retry-after"})
"""Response headers that adapters read.

No others are kept, and no request headers: they hold keys.
"""
_HIDDEN: Final = "REDACTED"


class Recorder:
    """A `Transport` that forwards requests to the provider and records both sides.

    Values of environment variables that look like secrets (`OPENAI_API_KEY` …) are replaced
    everywhere in the file. Read the file before you publish it nevertheless: it contains prompts
    and answers.

    Example:
        ```python
        from pathlib import Path

        from taofold.testing import Recorder, allow_model_requests, answered_by

        recorder = Recorder()
        with allow_model_requests(), answered_by(recorder):
            ...  # run an agent
        if recorder.exchanges:
            recorder.save(Path("cassettes/oslo.json"))
        ```

    Args:
        transport: The transport for the requests; the network by default.
        secrets: Further values that must not be written, of at least 8 characters.

    Raises:
        ConfigError: A value of `secrets` is too short to distinguish from other text.
    """

    def __init__(self, transport: Transport | None = None, secrets: Iterable[str] = ()) -> None:
        self.exchanges: list[dict[str, Any]] = []
        self._transport: Transport = transport or Http()
        further = tuple(secrets)
        # Known values only: text that merely looks like a secret may be a signature that must be
        # returned.
        self._redactor = Redactor((*further, *Redactor.secrets_in(os.environ)), shapes=False)
        if not set(further) <= set(self._redactor.known):
            raise ConfigError(
                "a value of `secrets` has fewer than 8 characters: it would stay readable"
            )

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        """Forwards the request, and records it with its answer.

        A failed request is not recorded.
        """
        streamed: list[bytes] = []

        def hear(data: bytes) -> None:
            streamed.append(data)
            if on_bytes is not None:
                on_bytes(data)

        answer = await self._transport.post(
            url, headers, body, bounds, None if on_bytes is None else hear
        )
        request = {"path": urlsplit(url).path, "body": json.loads(whole(body))}
        # A streamed answer has an empty body: its bytes went to `on_bytes`.
        content = b"".join(streamed) or answer.body
        self.exchanges.append({"request": request, "response": _response(url, answer, content)})
        return answer

    def save(self, path: Path) -> None:
        """Writes the cassette atomically.

        Args:
            path: The file.

        Raises:
            ConfigError: Nothing was recorded.
        """
        if not self.exchanges:
            raise ConfigError("nothing was recorded: no model was asked", path=str(path))
        text = json.dumps({"exchanges": self.exchanges}, ensure_ascii=False, indent=1)
        for start, end in reversed(self._redactor.spans(text)):
            text = text[:start] + _HIDDEN + text[end:]
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f"{path.suffix}.tmp")
        draft.write_text(f"{text}\n", encoding="utf-8")
        draft.replace(path)


def _response(url: str, answer: HttpResponse, content: bytes) -> dict[str, Any]:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    response: dict[str, Any] = {
        "status": answer.status,
        "headers": {name: value for name, value in headers.items() if name in _HEADERS},
    }
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        # Bedrock frames its streams in binary; a cassette is text.
        raise ConfigError(
            f"the answer of {bare_url(url)} is not text and cannot be recorded"
        ) from error
    try:
        response["json"] = json.loads(text)
    except ValueError:
        response["body"] = text  # server-sent events, unchanged
    return response

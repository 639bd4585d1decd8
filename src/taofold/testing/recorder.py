"""Records cassettes: what a real provider was asked and answered, written as a cassette file."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from taofold.core.errors import ConfigError
from taofold.models.http import Http
from taofold.models.transport import Body, Bounds, HttpResponse, OnBytes, Transport, place, whole
from taofold.policy.redaction import Redactor

_HEADERS: Final = frozenset({"content-type", "retry-after"})
"""Headers of answers that adapters look at. No others are kept, and none of requests: keys are
there."""
_HIDDEN: Final = "REDACTED"


class Recorder:
    """A `Transport` that asks the provider and remembers both sides.

        recorder = Recorder()
        with allow_model_requests(), answered_by(recorder):
            agent.run_sync("What is the capital of Norway?")
        recorder.save(Path("cassettes/oslo.json"))

    Values of the environment that look like secrets (`OPENAI_API_KEY` …) are replaced in what is
    written, wherever they occur. Read the file before you publish it all the same: prompts and
    answers are in it.

    Args:
        transport: what carries the requests; the network if nothing is said.
        secrets: further values that must not be written, of at least 8 characters.

    Raises:
        ConfigError: a value of `secrets` is too short to be told from other text.
    """

    def __init__(self, transport: Transport | None = None, secrets: Iterable[str] = ()) -> None:
        self.exchanges: list[dict[str, Any]] = []
        self._transport: Transport = transport or Http()
        further = tuple(secrets)
        # Known values only: what merely looks like a secret may be a signature that must come back.
        self._redactor = Redactor((*further, *Redactor.secrets_in(os.environ)), shapes=False)
        if not set(further) <= set(self._redactor.known):
            raise ConfigError("a value of `secrets` has fewer than 8 characters: it stays readable")

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        """Pass the request on, and keep it with its answer. A request that failed is not kept."""
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
        """Write the cassette. The file takes its place whole, or not at all.

        Raises:
            ConfigError: nothing was recorded.
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
            f"the answer of {place(url)} is no text and cannot be recorded"
        ) from error
    try:
        response["json"] = json.loads(text)
    except ValueError:
        response["body"] = text  # server-sent events, as they came
    return response

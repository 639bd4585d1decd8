"""The vendors' clouds: `azure` (OpenAI), `bedrock` (Claude), `vertex` (Gemini and Claude).

The formats are those of `openai_responses`, `anthropic` and `gemini`. The address, parts of the
body and the authentication differ. On Bedrock Amazon's event stream wraps the events. The vendors'
own libraries make signatures and tokens, each in an extra: `taofold[azure]`, `taofold[bedrock]`,
`taofold[vertex]`. A plain key needs none.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote

import msgspec
from typing_extensions import Unpack

from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import Reply
from taofold.models.anthropic import MessagesModel, MessagesReader
from taofold.models.capabilities import rules_for
from taofold.models.endpoint import ReplyReader, Sign
from taofold.models.gemini import GeminiModel
from taofold.models.openai_responses import ResponsesModel
from taofold.models.remote import (
    ModelOptions,
    ModelTurn,
    RemoteModel,
    check_choice,
    connection,
    endpoint,
)
from taofold.models.replies import ReplyContext, decode
from taofold.models.transport import Body, whole

_AZURE_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_BEDROCK_VERSION: Final = "bedrock-2023-05-31"
_VERTEX_VERSION: Final = "vertex-2023-10-16"
_EARLY: Final = 120.0
"""Seconds before its expiry at which a token is renewed."""


def _library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"this needs the library {name!r} ({error}): pip install 'taofold[{extra}]', or set a "
            "key in the environment"
        ) from error


class Bearer:
    """A token, renewed before it expires. `fetch` returns it and its expiry (epoch seconds)."""

    def __init__(self, fetch: Callable[[], tuple[str, float]]) -> None:
        self._fetch = fetch
        self._token, self._until = "", 0.0

    async def __call__(self, url: str, body: Body) -> Mapping[str, str]:
        """Returns the header of a request."""
        if time.time() > self._until - _EARLY:
            try:
                # In a thread, because the libraries ask a metadata server or run a command. Two
                # concurrent calls both fetch a token, which is harmless.
                self._token, self._until = await asyncio.to_thread(self._fetch)
            except Exception as error:
                reason = f"no token from the cloud's own sign-in: {type(error).__name__}: {error}"
                raise ModelError(reason[:500], kind="auth") from error
        return {"Authorization": f"Bearer {self._token}"}


def azure(model: str, **options: Unpack[ModelOptions]) -> RemoteModel:
    """Connects to the deployment `model` of Azure OpenAI.

    The address is AZURE_OPENAI_ENDPOINT (`https://NAME.openai.azure.com`), the key
    AZURE_OPENAI_API_KEY. Without a key the machine's Entra identity is used.
    """
    check_choice("azure", model, options, "deployment")
    base = options.get("base_url") or os.environ.get("AZURE_OPENAI_ENDPOINT") or ""
    if not base:
        raise ConfigError("set AZURE_OPENAI_ENDPOINT (https://NAME.openai.azure.com) or base_url=")
    url = base.rstrip("/")
    url = url if url.endswith("/v1") else f"{url}/openai/v1"
    api_key = options.get("api_key")
    # The environment's key is not sent to a host from an argument.
    key = api_key or ("" if options.get("base_url") else os.environ.get("AZURE_OPENAI_API_KEY", ""))
    sign: Sign | None = None if key else Bearer(_entra())
    at = endpoint(f"{url}/responses", {"api-key": key} if key else {}, key, options, sign)
    rules = rules_for("azure", model)
    return ResponsesModel(connection("azure", model, at, options, server=url, rules=rules), rules)


def _entra() -> Callable[[], tuple[str, float]]:
    credential = _library("azure.identity", "azure").DefaultAzureCredential()

    def fetch() -> tuple[str, float]:
        token = credential.get_token(_AZURE_SCOPE)
        return token.token, float(token.expires_on)

    return fetch


class BedrockModel(MessagesModel):
    """Claude on Bedrock. The address has the model, the body the version."""

    def _url(self, turn: ModelTurn) -> str:
        verb = "invoke-with-response-stream" if turn.streaming else "invoke"
        return f"{self.connection.endpoint.url}/{verb}"

    def _head(self, turn: ModelTurn, notes: list[str]) -> bytes:
        # Here the address selects streaming.
        return super()._head(turn._replace(streaming=False), notes)

    def _reader(self, frame: ReplyContext) -> ReplyReader:
        return _EventStream(MessagesReader(frame), frame)


class _Event(msgspec.Struct):
    payload: bytes | None = msgspec.field(name="bytes", default=None)
    message: str = ""


_EVENT: Final = msgspec.json.Decoder(_Event)


class _EventStream:
    """Unpacks Amazon's event stream, in which each event holds one of Anthropic's."""

    def __init__(self, inner: MessagesReader, frame: ReplyContext) -> None:
        self._inner, self._frame = inner, frame
        self._buffer: Any = None

    def whole(self, body: bytes) -> Reply:
        """Reads an answer that was not streamed."""
        return self._inner.whole(body)

    @property
    def complete(self) -> bool:
        """True if the reply is whole, even if the stream breaks off now."""
        return self._inner.complete

    def feed(self, chunk: bytes) -> bool:
        """Takes bytes of a stream. Returns True if nothing follows."""
        ended = False
        for payload in self._payloads(chunk):
            event = decode(self._frame, _EVENT, payload)
            if event.payload is None:
                raise self._frame.unreadable(event.message or "an event holds nothing")
            # As a server-sent event, so that one reader serves both.
            ended = self._inner.feed(b"data: " + event.payload + b"\n\n")
        return ended

    def _payloads(self, chunk: bytes) -> list[bytes]:
        library = _library("botocore.eventstream", "bedrock")
        if self._buffer is None:
            self._buffer = library.EventStreamBuffer()
        self._buffer.add_data(chunk)
        try:
            return [event.payload for event in self._buffer]
        except library.ParserError as error:  # a wrong checksum, or an impossible length
            raise self._frame.unreadable(str(error)) from None

    def close(self) -> Reply:
        """Ends the stream and returns the reply."""
        return self._inner.close()

    def charge(self, error: BaseException) -> None:
        """Reports the consumption of this attempt, which `error` ended without a reply."""
        self._inner.charge(error)


def bedrock(model: str, **options: Unpack[ModelOptions]) -> RemoteModel:
    """Connects to Claude on Amazon Bedrock, by its id there (`us.anthropic.claude-opus-5-5-v1`).

    The region is AWS_REGION, the key AWS_BEARER_TOKEN_BEDROCK. Without a key the machine's AWS
    identity signs each request.
    """
    check_choice("bedrock", model, options)
    if "claude" not in model:
        raise ConfigError("bedrock: serves Claude here; write its id, as the console shows it")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    base = options.get("base_url")
    if not base and not region:
        raise ConfigError("set AWS_REGION, or base_url=")
    url = (base or f"https://bedrock-runtime.{region}.amazonaws.com").rstrip("/")
    api_key = options.get("api_key")
    key = api_key or ("" if base else os.environ.get("AWS_BEARER_TOKEN_BEDROCK", ""))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    sign = None if key else _sigv4(region)
    rules = replace(rules_for("bedrock", model), tool_search=False)
    # The client sends colons unescaped, so the signature must cover them unescaped.
    at = endpoint(f"{url}/model/{quote(model, safe=':')}", headers, key, options, sign)
    connected = connection(
        "bedrock", model, at, options, server=url, rules=rules, host=f"bedrock:{region or url}"
    )
    fixed = {"anthropic_version": _BEDROCK_VERSION}
    return BedrockModel(connected, rules, fixed=fixed, names_model=False)


def _sigv4(region: str) -> Sign:
    auth = _library("botocore.auth", "bedrock")
    request = _library("botocore.awsrequest", "bedrock")
    session = _library("botocore.session", "bedrock").get_session()

    def signed(url: str, body: Body) -> Mapping[str, str]:
        credentials = session.get_credentials()
        if credentials is None:
            raise ModelError("no AWS credentials: set AWS_ACCESS_KEY_ID, or a profile", kind="auth")
        content = {"Content-Type": "application/json"}
        # SigV4 signs a hash of the whole body, so a large body is joined here too.
        unsigned = request.AWSRequest("POST", url, data=whole(body), headers=content)
        auth.SigV4Auth(credentials.get_frozen_credentials(), "bedrock", region).add_auth(unsigned)
        return dict(unsigned.headers.items())

    async def sign(url: str, body: Body) -> Mapping[str, str]:
        return await asyncio.to_thread(signed, url, body)

    return sign


class VertexClaude(MessagesModel):
    """Claude on Vertex AI. The address has the model, the body the version."""

    def _url(self, turn: ModelTurn) -> str:
        verb = "streamRawPredict" if turn.streaming else "rawPredict"
        return f"{self.connection.endpoint.url}:{verb}"


def vertex(model: str, **options: Unpack[ModelOptions]) -> RemoteModel:
    """Connects to Gemini or Claude on Vertex AI, with the machine's Google identity.

    The project is GOOGLE_CLOUD_PROJECT, the location GOOGLE_CLOUD_LOCATION (default "global").
    `api_key` may be an access token.
    """
    check_choice("vertex", model, options)
    location = os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"
    project = os.environ.get("GOOGLE_CLOUD_PROJECT") or ""
    base, key = options.get("base_url"), options.get("api_key") or ""
    if not project and not base:
        raise ConfigError("set GOOGLE_CLOUD_PROJECT, or base_url= up to the publishers")
    host = (
        "aiplatform.googleapis.com"
        if location == "global"
        else f"{location}-aiplatform.googleapis.com"
    )
    whose = "anthropic" if "claude" in model else "google"
    url = base or f"https://{host}/v1beta1/projects/{project}/locations/{location}"
    url = f"{url.rstrip('/')}/publishers/{whose}/models/{model}"
    sign: Sign | None = None if key else Bearer(_google())
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    at = endpoint(url, headers, key, options, sign)
    provider = "vertex-anthropic" if whose == "anthropic" else "vertex"
    rules = replace(rules_for(provider, model), tool_search=False)
    connected = connection(
        "vertex", model, at, options, server=url, rules=rules, host=f"vertex:{location}"
    )
    if whose == "google":
        return GeminiModel(connected, rules, call_ids=False)
    fixed = {"anthropic_version": _VERTEX_VERSION}
    return VertexClaude(connected, rules, fixed=fixed, names_model=False)


def _google() -> Callable[[], tuple[str, float]]:
    library = _library("google.auth", "vertex")
    transport = _library("google.auth.transport.requests", "vertex")
    credentials, _ = library.default(scopes=[_GOOGLE_SCOPE])

    def fetch() -> tuple[str, float]:
        credentials.refresh(transport.Request())
        until = credentials.expiry
        # The library's times are UTC without a time zone.
        ends = until.replace(tzinfo=UTC).timestamp() if until else time.time() + 600
        return credentials.token, ends

    return fetch

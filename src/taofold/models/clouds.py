"""The same models in the vendors' clouds: `azure` (OpenAI), `bedrock` (Claude, its events unpacked
from Amazon's), `vertex` (Gemini and Claude).

The formats are those of `openai_responses`, `anthropic` and `gemini`; what differs is the address,
what stands in the body, and who signs. Signatures and tokens are made by the vendors' own
libraries, each an extra: `taofold[azure]`, `taofold[bedrock]`, `taofold[vertex]`. A plain key needs
none.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
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
    connection,
    endpoint,
    refuse_unknown,
)
from taofold.models.replies import ReplyContext, decode
from taofold.models.transport import Body, whole

_AZURE_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_BEDROCK_VERSION: Final = "bedrock-2023-05-31"
_VERTEX_VERSION: Final = "vertex-2023-10-16"
_EARLY: Final = 120.0
"""Seconds before its end at which a token is renewed."""


def _library(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"this needs the library {name!r} ({error}): pip install 'taofold[{extra}]', or set a "
            "key in the environment"
        ) from error


class Bearer:
    """A token that expires, renewed in time. `fetch` gives it and its end (epoch seconds)."""

    def __init__(self, fetch: Callable[[], tuple[str, float]]) -> None:
        self._fetch = fetch
        self._token, self._until = "", 0.0

    async def __call__(self, url: str, body: Body) -> Mapping[str, str]:
        """The header of a request."""
        if time.time() > self._until - _EARLY:
            try:
                # In a thread: the libraries ask a metadata server or run a command. Two
                # that come at once both fetch, which costs a moment and nothing else.
                self._token, self._until = await asyncio.to_thread(self._fetch)
            except Exception as error:
                reason = f"no token from the cloud's own sign-in: {type(error).__name__}: {error}"
                raise ModelError(reason[:500], kind="auth") from error
        return {"Authorization": f"Bearer {self._token}"}


# --- Azure ---------------------------------------------------------------------------------------


def azure(model: str, **options: Unpack[ModelOptions]) -> RemoteModel:
    """Connect to the deployment `model` of Azure OpenAI.

    The address is AZURE_OPENAI_ENDPOINT (`https://NAME.openai.azure.com`), the key
    AZURE_OPENAI_API_KEY; without one the machine's Entra identity is used.
    """
    refuse_unknown(**options)
    if not model:
        raise ConfigError("write azure:DEPLOYMENT, the deployment is missing")
    base = options.get("base_url") or os.environ.get("AZURE_OPENAI_ENDPOINT") or ""
    if not base:
        raise ConfigError("set AZURE_OPENAI_ENDPOINT (https://NAME.openai.azure.com) or base_url=")
    url = base.rstrip("/")
    url = url if url.endswith("/v1") else f"{url}/openai/v1"
    api_key = options.get("api_key")
    # The environment's key does not go where an argument points.
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


# --- Bedrock -------------------------------------------------------------------------------------


class BedrockModel(MessagesModel):
    """Claude on Bedrock: the model stands in the address, the version in the body."""

    def _url(self, turn: ModelTurn) -> str:
        verb = "invoke-with-response-stream" if turn.streaming else "invoke"
        return f"{self.connection.endpoint.url}/{verb}"

    def _head(self, turn: ModelTurn, notes: list[str]) -> bytes:
        # Whether to stream is the address's to say here.
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
        """Read an answer that was not streamed."""
        return self._inner.whole(body)

    @property
    def complete(self) -> bool:
        """Is the reply whole, even if the stream should break off now?"""
        return self._inner.complete

    def feed(self, chunk: bytes) -> bool:
        """Take in bytes of a stream. True if it says that nothing follows."""
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
        except library.ParserError as error:  # a wrong checksum, a length that cannot be
            raise self._frame.unreadable(str(error)) from None

    def close(self) -> Reply:
        """The stream ended."""
        return self._inner.close()


def bedrock(model: str, **options: Unpack[ModelOptions]) -> RemoteModel:
    """Connect to Claude on Amazon Bedrock, by its id there (`us.anthropic.claude-opus-5-5-v1`).

    The region is AWS_REGION; AWS_BEARER_TOKEN_BEDROCK is a key, else the machine's AWS identity
    signs each request.
    """
    refuse_unknown(**options)
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
    rules = rules_for("bedrock", model)
    # A colon stays: the client would send it plain, and the signature is of what is sent.
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
        # SigV4 signs a hash of the whole body, so a large one is joined here after all.
        unsigned = request.AWSRequest("POST", url, data=whole(body), headers=content)
        auth.SigV4Auth(credentials.get_frozen_credentials(), "bedrock", region).add_auth(unsigned)
        return dict(unsigned.headers.items())

    async def sign(url: str, body: Body) -> Mapping[str, str]:
        return await asyncio.to_thread(signed, url, body)

    return sign


# --- Vertex --------------------------------------------------------------------------------------


class VertexClaude(MessagesModel):
    """Claude on Vertex AI: the model stands in the address, the version in the body."""

    def _url(self, turn: ModelTurn) -> str:
        verb = "streamRawPredict" if turn.streaming else "rawPredict"
        return f"{self.connection.endpoint.url}:{verb}"


def vertex(model: str, **options: Unpack[ModelOptions]) -> RemoteModel:
    """Connect to Gemini or Claude on Vertex AI, with the machine's Google identity.

    The project is GOOGLE_CLOUD_PROJECT, the place GOOGLE_CLOUD_LOCATION ("global" if not set).
    `api_key` may be an access token.
    """
    refuse_unknown(**options)
    if not model:
        raise ConfigError("write vertex:MODEL, the model is missing")
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
    rules = rules_for("vertex-anthropic" if whose == "anthropic" else "vertex", model)
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
        # The library's times are UTC without saying so.
        ends = until.replace(tzinfo=UTC).timestamp() if until else time.time() + 600
        return credentials.token, ends

    return fetch

"""Run by the Python of the environment `providers`: the same call through our cloud adapters and
through the vendors' own SDKs, against a server that only writes down what comes.

Prints, as JSON, what each sent. It never leaves this machine.
"""

import asyncio
import json
import os
import struct
import sys
import zlib
from base64 import b64encode
from contextlib import suppress
from typing import Any

import anthropic
import openai
from aiohttp import web
from anthropic.lib.bedrock._stream_decoder import AWSEventStreamDecoder
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials as GoogleCredentials

from taofold.core.content import Conversation, Issuer
from taofold.core.errors import ModelError
from taofold.core.values import Message, ModelSettings
from taofold.models import clouds
from taofold.models.anthropic import MessagesReader
from taofold.models.clouds import _EventStream
from taofold.models.endpoint import RetryPolicy
from taofold.models.replies import ReplyContext
from taofold.models.transport import aclose_all
from taofold.runtime.model import Request
from taofold.runtime.providers import resolve

KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "eu-west-1"
CLAUDE = "us.anthropic.claude-opus-5-5-v1:0"
HELLO = Request(Conversation([Message("user", "Hello")]), settings=ModelSettings(max_tokens=64))
SAID: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]


def signed(method: str, path: str, host: str, headers: dict[str, str], body: bytes) -> str:
    """Returns whether the request has the signature that AWS would compute from it."""
    authorization = headers.get("authorization", "")
    if not authorization.startswith("AWS4-"):
        return ""
    names = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    arrived = {name: headers[name] for name in names}
    request = AWSRequest(method, f"http://{host}{path}", data=body, headers=arrived)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(Credentials(KEY, SECRET), "bedrock", REGION)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    wanted = auth.signature(text, request)
    return "valid" if authorization.endswith(wanted) else "INVALID"


async def main() -> None:
    seen: list[dict[str, Any]] = []

    async def arrived(request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen.append(
            {
                # Azure's client always dates the interface, which its address `/v1` need not be.
                "path": request.raw_path.removesuffix("?api-version=v1"),
                "key": headers.get("api-key", ""),
                "authorization": headers.get("authorization", "").partition(" Cred")[0],
                "signature": signed(
                    request.method, request.raw_path, headers["host"], headers, body
                ),
                "body": json.loads(body),
            }
        )
        return web.json_response({"error": {"message": "enough"}}, status=400)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", arrived)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    os.environ |= {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_CLOUD_LOCATION": "global",
    }
    places = f"{url}/v1beta1/projects/p/locations/global"

    async def ours(name: str, **options: Any) -> None:
        model = resolve(name, retry=RetryPolicy(attempts=1), **options)
        with suppress(ModelError):
            await model.complete(HELLO)

    async def theirs(call: Any) -> None:
        with suppress(anthropic.APIStatusError, openai.APIStatusError, genai.errors.APIError):
            await call

    asked: dict[str, Any] = {"model": CLAUDE, "max_tokens": 64, "messages": SAID}
    bedrock = anthropic.AsyncAnthropicBedrock(
        base_url=url, api_key="t", aws_region=REGION, max_retries=0
    )
    vertex = anthropic.AsyncAnthropicVertex(
        base_url=f"{url}/v1beta1", project_id="p", region="global", access_token="t", max_retries=0
    )
    google = genai.Client(
        vertexai=True,
        project="p",
        location="global",
        credentials=GoogleCredentials("t"),
        http_options=types.HttpOptions(base_url=url, api_version="v1beta1"),
    )
    place: dict[str, Any] = {
        "base_url": f"{url}/openai/v1", "api_version": "v1", "max_retries": 0,
    }  # fmt: skip
    azure = openai.AsyncAzureOpenAI(api_key="k", **place)
    entra = openai.AsyncAzureOpenAI(azure_ad_token="t", **place)
    # The token itself is the identity library's to fetch, from a service that is not here.
    clouds._entra = lambda: lambda: ("t", 4e9)
    pairs: dict[str, tuple[Any, Any]] = {
        "bedrock": (
            ours(f"bedrock:{CLAUDE}", base_url=url, api_key="t"),
            theirs(bedrock.messages.create(**asked)),
        ),
        "vertex claude": (
            ours("vertex:claude-opus-5-5", base_url=places, api_key="t"),
            theirs(vertex.messages.create(**{**asked, "model": "claude-opus-5-5"})),
        ),
        "vertex gemini": (
            ours("vertex:gemini-3.7-flash", base_url=places, api_key="t"),
            theirs(google.aio.models.generate_content(model="gemini-3.7-flash", contents="Hello")),
        ),
        "azure": (
            ours("azure:deployment", base_url=url, api_key="k"),
            theirs(azure.responses.create(model="deployment", input="Hello", store=False)),
        ),
        "azure by identity": (
            ours("azure:deployment", base_url=url),
            theirs(entra.responses.create(model="deployment", input="Hello", store=False)),
        ),
    }
    found: dict[str, Any] = {}
    for name, (one, other) in pairs.items():
        seen.clear()
        await one
        await other
        found[name] = seen[:]
    seen.clear()
    for name in (CLAUDE, f"arn:aws:bedrock:{REGION}:1:inference-profile/{CLAUDE}"):
        await ours(f"bedrock:{name}", base_url=url)
    found["bedrock signed"] = seen[:]
    found["event stream"] = streamed()
    await aclose_all()
    await runner.cleanup()
    json.dump(found, sys.stdout)


EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]


def message(payload: bytes, **headers: str) -> bytes:
    """Returns one message of Amazon's event stream."""
    packed = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value))
        + value.encode()
        for name, value in headers.items()
    )  # fmt: skip
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    start = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return start + struct.pack(">I", zlib.crc32(start))


def streamed() -> list[str]:
    """Compares both readers on the same stream, and ours on a damaged one."""
    names = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    stream = b"".join(
        message(json.dumps({"bytes": b64encode(json.dumps(one).encode()).decode()}).encode(),
                **names)
        for one in EVENTS
    )  # fmt: skip
    sdk = [json.loads(one.data)["type"] for one in AWSEventStreamDecoder().iter_bytes([stream])]
    assert sdk == [one["type"] for one in EVENTS], sdk
    frame = ReplyContext("m", Issuer("messages", "h", "m"), "", "", None, {}, 0)

    def read(data: bytes) -> str:
        reader = _EventStream(MessagesReader(frame), frame)
        try:
            for start in range(0, len(data), 37):
                reader.feed(data[start : start + 37])
            return reader.close().text
        except ModelError as error:
            return error.kind

    damaged = stream[:60] + b"\xff" + stream[61:]
    return [read(stream), read(damaged), read(b"garbage" * 99), read(message(b"[1]", **names))]


asyncio.run(main())

"""Images and documents over HTTP and AG-UI: sent, checked, shown to the model and to people."""

import base64
from pathlib import Path
from typing import Any

import pytest

from taofold import Agent, Image, tool
from taofold.core.content import Issuer, MediaPart, OpaquePart, TextPart, ToolCall
from taofold.core.events import RunStarted
from taofold.core.values import Profile, Reply
from taofold.runtime.model import Request
from taofold.server import Settings
from taofold.testing.models import FunctionModel
from tests.pictures import PDF, PICTURE, png
from tests.server.agents import finish
from tests.server.live import Client, serving

pytestmark = pytest.mark.anyio
SECOND = png(3, 3)
SECRET = "gAAAciphertext"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@tool(effect="read")
def chart() -> Image:
    """A chart."""
    return Image(data=SECOND)


class Looker:
    """A model that records the media it received, requests a chart, and finishes."""

    def __init__(self) -> None:
        self.shown: list[list[tuple[str, str, bytes]]] = []

    def __call__(self, request: Request) -> Any:
        self.shown.append(
            [
                (part.kind, part.name, base64.b64decode(request.blobs.get(part.digest, b"")))
                for message in request.conversation
                for part in message.media
            ]
        )
        if len(self.shown) % 2:
            parts = (
                OpaquePart(f'{{"encrypted_content":"{SECRET}"}}', "reasoning"),
                ToolCall("chart", "{}", "c1", f'{{"signature":"{SECRET}"}}'),
            )
            return Reply(parts=parts, finish="tool_calls", issuer=Issuer("responses", "h", "m"))
        return finish("a cat")

    def agent(self) -> Agent[Any, Any]:
        seeing = Profile(native_tools=True, inputs=("image", "document"))
        return Agent(FunctionModel(self, profile=seeing), tools=[chart], name="looker")


async def shown(client: Client, run: str, digest: str) -> Any:
    return await client.get(f"/runs/{run}/media/{digest}")


async def test_files_reach_the_model_and_are_shown_to_people(tmp_path: Path) -> None:
    looker = Looker()
    async with serving(looker.agent(), tmp_path / "r.db") as client:
        run = await client.start(
            "What is this?",
            attachments=[
                {"name": "a.png", "data": encoded(PICTURE)},
                {"name": "b.pdf", "data": encoded(PDF)},
                {"name": "c.txt", "data": encoded(b"some words")},
            ],
        )
        found = await client.until(run)
        assert found["success"], found["error"]
        assert looker.shown[0] == [("image", "a.png", PICTURE), ("document", "b.pdf", PDF)]
        assert looker.shown[1][2] == ("image", "", SECOND)
        assert "some words" in found["goal"]
        image, document = found["media"]
        answer = await shown(client, run, image["digest"])
        assert (answer.content, answer.headers["content-type"]) == (PICTURE, "image/png")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        answer = await shown(client, run, document["digest"])
        assert answer.content == PDF
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == "attachment"
        other = await client.start("something else")
        assert (await shown(client, other, image["digest"])).status_code == 404
        events = (await client.get(f"/runs/{run}/records")).text
        assert SECRET not in events
        assert '"kind":"reasoning"' in events


async def test_a_result_tells_of_its_media(tmp_path: Path) -> None:
    looker = Looker()
    async with serving(looker.agent(), tmp_path / "r.db") as client:
        run = await client.start("Draw.")
        await client.until(run)
        told = (await client.get(f"/runs/{run}/events")).text
        digest = told.partition('"digest":"')[2].partition('"')[0]
        assert (await shown(client, run, digest)).content == SECOND
        assert SECRET not in told


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([{"name": "a.png", "data": "not base64!"}], "no base64"),
        ([{"name": "a.png", "data": encoded(PICTURE[:-9])}], "cut off"),
        ([{"name": "a.bin", "data": encoded(b"\0\1\2\3")}], "of no kind"),
        ([{"name": "a.png"}], "data or url"),
        ([{"name": "a.png", "data": "aa", "url": "https://x/y.png"}], "data or url"),
        ([{"url": "http://169.254.169.254/secret.png"}], "https://"),
        ([{"url": "file:///etc/passwd"}], "https://"),
        ([{"data": encoded(PICTURE)}] * 21, "20"),
        ([{"path": "/etc/passwd"}], "path"),
    ],
)
async def test_what_cannot_be_shown_is_refused_before_there_is_a_run(
    tmp_path: Path, files: list[dict[str, str]], said: str
) -> None:
    async with serving(Looker().agent(), tmp_path / "r.db") as client:
        answer = await client.post("/runs", {"goal": "go", "attachments": files})
        assert answer.status_code == 422, answer.text
        assert said in answer.text
        assert (await client.get("/runs")).json()["items"] == []


async def test_only_where_files_may_be_sent_bodies_may_be_large(tmp_path: Path) -> None:
    settings = Settings(look_s=0.02, tail_s=0.01, upload_bytes=400_000)
    async with serving(Looker().agent(), tmp_path / "r.db", settings=settings) as client:
        large = "a" * 300_000
        answer = await client.post("/runs", {"goal": "go", "ui_context": large})
        assert answer.status_code == 422
        answer = await client.post("/runs", {"goal": "go", "data": {"x": "a" * 500_000}})
        assert answer.status_code == 413
        run = await client.start("go")
        answer = await client.post(f"/runs/{run}/steer", {"text": large})
        assert answer.status_code == 413


async def test_no_more_uploads_are_held_in_memory_than_there_may_be(tmp_path: Path) -> None:
    settings = Settings(look_s=0.02, tail_s=0.01, most_uploads=1)
    async with serving(Looker().agent(), tmp_path / "r.db", settings=settings) as client:
        with client.server.uploading():
            body = {"goal": "go", "data": {"x": "a" * 300_000}}
            answer = await client.post("/runs", body)
            assert (answer.status_code, answer.json()["code"]) == (503, "busy")
            assert answer.headers["retry-after"]
            assert await client.start("small ones go on")
        assert (await client.post("/runs", body)).status_code == 201


async def test_the_same_request_with_other_files_is_another(tmp_path: Path) -> None:
    async with serving(Looker().agent(), tmp_path / "r.db") as client:
        key = {"Idempotency-Key": "k1"}
        body = {"goal": "go", "attachments": [{"data": encoded(PICTURE)}]}
        first = await client.post("/runs", body, headers=key)
        again = await client.post("/runs", body, headers=key)
        assert (first.status_code, again.status_code) == (201, 200)
        body["attachments"] = [{"data": encoded(SECOND)}]
        assert (await client.post("/runs", body, headers=key)).status_code == 422


async def test_ag_ui_messages_hold_media(tmp_path: Path) -> None:
    looker = Looker()
    async with serving(looker.agent(), tmp_path / "r.db") as client:
        content = [
            {"type": "text", "text": "What is this?"},
            {"type": "image",
             "source": {"type": "data", "value": encoded(PICTURE), "mimeType": "image/png"}},
            {"type": "document",
             "source": {"type": "url", "value": "https://example.org/a.pdf"}},
        ]  # fmt: skip
        message = {"id": "1", "role": "user", "content": content}
        request = {
            "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [],
            "forwardedProps": {}, "messages": [message],
        }  # fmt: skip
        answer = await client.post("/ag-ui", request)
        assert '"RUN_FINISHED"' in answer.text, answer.text
        rows = await client.server.log.rows(limit=1)
        started = (await client.server.log.read(rows[0].run, limit=1))[0].event
        assert isinstance(started, RunStarted)
        kinds = [part.kind for part in started.parts if isinstance(part, MediaPart)]
        assert kinds == ["image", "document"]
        assert isinstance(started.parts[0], TextPart)


async def test_what_was_shown_in_a_session_is_remembered(tmp_path: Path) -> None:
    looker = Looker()
    async with serving(looker.agent(), tmp_path / "r.db") as client:
        files = [{"name": "a.png", "data": encoded(PICTURE)}]
        await client.until(await client.start("Look.", session="s", attachments=files))
        found = await client.until(await client.start("And now?", session="s"))
        assert found["success"], found["error"]
        assert looker.shown[2][0] == ("image", "a.png", PICTURE)

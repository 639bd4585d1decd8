"""A real Phoenix: what it understood of a run is read back over its own API."""

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taofold import MemoryLog
from taofold.telemetry import otel
from taofold.telemetry.projection import Roots, spans_of
from tests import environments, prerequisites
from tests.ports import free_port
from tests.runtime.kit import Memo, act, finish
from tests.telemetry.kit import add, calculator, family

pytestmark = pytest.mark.phoenix

PROJECT = "taofold-tests"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    environment = environments.needs("phoenix")
    ports = [free_port(), free_port()]
    folder = tmp_path_factory.mktemp("phoenix")
    told = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(ports[0]),
        "PHOENIX_GRPC_PORT": str(ports[1]),
        "HOME": str(folder),
    }
    with (folder / "output").open("wb") as output:
        server = subprocess.Popen(
            [environment.program("phoenix"), "serve"],
            env=environments.scrubbed(told), stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{ports[0]}"
    try:
        wait_for(lambda: alive(url, server), 900, lambda: (folder / "output").read_text()[-2000:])
        yield url
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def alive(url: str, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "Phoenix ended at once"
    try:
        with _opener.open(f"{url}/healthz", timeout=30):
            return True
    except OSError:
        return False


def wait_for(done: Any, seconds: float, said: Any = lambda: "") -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := done():
            return found
        time.sleep(0.1)
    raise TimeoutError(f"not within {seconds} s: {said()}")


def stored(url: str, trace: str, count: int) -> dict[str, dict[str, Any]]:
    """The spans of a trace that Phoenix has stored, by id, once there are `count`."""

    def found() -> dict[str, dict[str, Any]] | None:
        spans, cursor = [], ""
        while True:
            query = f"{url}/v1/projects/{PROJECT}/spans?limit=1000&cursor={cursor}"
            try:
                with _opener.open(query, timeout=60) as answer:
                    page = json.load(answer)
            except OSError:  # no such project yet, or a busy server
                return None
            spans += page["data"]
            cursor = page.get("next_cursor") or ""
            if not cursor:
                break
        mine = {s["context"]["span_id"]: s for s in spans if s["context"]["trace_id"] == trace}
        return mine if len(mine) >= count else None

    return wait_for(found, 300)


def test_a_live_run_is_understood(phoenix: str) -> None:
    async def run() -> Any:
        log = otel.traced("memory", endpoint=phoenix, content=True, project=PROJECT)
        result = await calculator(log=log, approve="all").run("what is 2 + 3?", session="s1")
        await log.close()
        return result

    result = asyncio.run(run())
    ours = spans_of(result.records)
    seen = stored(phoenix, ours[0].trace, len(ours))
    assert set(seen) == {one.id for one in ours}
    root = ours[-1].id
    assert {span["parent_id"] for id_, span in seen.items() if id_ != root} == {root}
    assert seen[root]["span_kind"] == "AGENT"
    assert seen[root]["attributes"]["input.value"] == "what is 2 + 3?"
    assert seen[root]["attributes"]["session.id"] == "s1"
    by_name: dict[str, list[dict[str, Any]]] = {}
    for span in seen.values():
        by_name.setdefault(span["name"], []).append(span)
    chats = by_name["chat gpt-test"]
    assert {span["span_kind"] for span in chats} == {"LLM"}
    assert sum(span["attributes"]["llm.token_count.prompt"] for span in chats) == 400
    assert sum(span["attributes"]["llm.token_count.completion"] for span in chats) == 40
    tools = by_name["execute_tool add"]
    assert {span["span_kind"] for span in tools} == {"TOOL"}
    facts = [span["attributes"] for span in tools]
    assert {(one["tool.parameters.a"], one["tool.parameters.b"]) for one in facts} == {
        (2, 3), (5, 1),
    }  # fmt: skip
    [failed] = by_name["execute_tool fail"]
    assert failed["status_code"] == "ERROR"
    [asked] = by_name["approve remove"]
    assert asked["span_kind"] == "GUARDRAIL"


def test_a_stored_run_with_a_child_is_one_tree_and_sending_it_again_changes_nothing(
    phoenix: str,
) -> None:
    async def run() -> list[Any]:
        log = MemoryLog()
        result = await family(log).run("ask the helper")
        [row] = await log.rows(parent=result.run_id)
        roots: Roots = {}
        spans = [*spans_of(result.records, roots)]
        return [*spans, *spans_of(await log.read(row.run), roots)]

    ours = asyncio.run(run())
    translate = otel.OtelTranslation(content=True, project=PROJECT)
    otel.post(ours, translate, endpoint=phoenix)
    first = stored(phoenix, ours[0].trace, len(ours))
    otel.post(ours, translate, endpoint=phoenix)
    marker = _another(phoenix, translate)
    assert marker
    again = stored(phoenix, ours[0].trace, len(ours))
    assert again == first
    parents = {one.id: one.parent or None for one in ours}
    assert {id_: span["parent_id"] for id_, span in again.items()} == parents


def _another(phoenix: str, translate: otel.OtelTranslation) -> dict[str, Any]:
    """Something sent later that has arrived, so that what was sent before has too."""

    async def run() -> Any:
        model = Memo([act("add", a=1, b=1), finish("2")], name="openai:gpt-test")
        return await calculator().replace(model=model, tools=[add]).run("later")

    spans = spans_of(asyncio.run(run()).records)
    otel.post(spans, translate, endpoint=phoenix)
    return stored(phoenix, spans[0].trace, len(spans))


def test_a_person_sees_the_tree(phoenix: str) -> None:
    """Stores one screenshot in $TAOFOLD_ARTIFACTS, else build/artifacts."""
    chromium = prerequisites.chromium()
    from playwright.sync_api import sync_playwright

    result = asyncio.run(calculator(approve="all").run("what is 2 + 3?"))
    ours = spans_of(result.records)
    otel.post(ours, otel.OtelTranslation(content=True, project=PROJECT), endpoint=phoenix)
    stored(phoenix, ours[0].trace, len(ours))
    folder = Path(os.environ.get("TAOFOLD_ARTIFACTS", "build/artifacts"))
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS])
        page = browser.new_page(viewport={"width": 1500, "height": 950})
        page.set_default_timeout(180_000)
        page.goto(f"{phoenix}/redirects/traces/{ours[0].trace}")
        page.get_by_text("execute_tool add").first.wait_for()
        page.get_by_text("execute_tool fail").first.wait_for()
        page.get_by_text("approve remove").first.wait_for()
        page.screenshot(path=folder / "phoenix.png")
        browser.close()
    assert (folder / "phoenix.png").stat().st_size > 10_000

"""The OpenAPI document and the server's behaviour agree in both directions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from taofold.server import Settings
from taofold.server.app import ENDPOINTS
from taofold.server.openapi import document, text
from tests.server.agents import Bench, act, finish
from tests.server.live import serving

pytestmark = pytest.mark.anyio

PUBLISHED = Path(__file__).parents[2] / "docs" / "api" / "openapi.json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def test_the_published_document_is_this_one() -> None:
    """`python -m tests.server.test_openapi` writes the document."""
    assert PUBLISHED.read_text(encoding="utf-8").strip() == text(ENDPOINTS)


def test_every_route_says_what_goes_wrong() -> None:
    for path, methods in document(ENDPOINTS)["paths"].items():
        for method, said in methods.items():
            assert {"400", "401", "422", "429"} <= set(said["responses"]), (path, method)
            assert said["summary"]


async def test_the_limits_that_are_published_are_those_that_hold(tmp_path: Path) -> None:
    settings = Settings(body_bytes=2_000)
    async with serving(Bench().agent(finish()), tmp_path / "r.db", settings=settings) as client:
        published = (await client.get("/openapi.json")).json()
        limits = published["info"]["x-limits"]
        steer = published["paths"]["/runs/{run}/steer"]["post"]
        assert steer["requestBody"]["description"] == "At most 2000 bytes."
        for beyond in (0, 1):
            path, query, body = (
                limits[name]["value"] + beyond for name in ("path", "query", "body")
            )
            answers = {
                "path": await client.get("/" + "a" * (path - 1)),
                "query": await client.get("/agents?" + "a" * query),
                "body": await client.http.post(
                    "/runs/none/steer",
                    content=b'{"text": "' + b"x" * (body - 12) + b'"}',
                    headers={"Content-Type": "application/json"},
                ),
            }
            for name, answer in answers.items():
                assert (answer.status_code == limits[name]["status"]) is bool(beyond), name


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: str(mode.value))
async def test_arbitrary_requests_are_answered_as_the_document_says(
    tmp_path: Path, mode: GenerationMode
) -> None:
    bench = Bench()
    agent = bench.agent(act("look", "look"), act("write", "publish", text="x"), finish())
    plenty = Settings(requests_burst=1e9, failures_burst=1e9, wait_s=0.2, look_s=0.05)
    async with serving(agent, tmp_path / "r.db", settings=plenty, seconds=300) as client:
        waiting = await client.start("wait", session="taken")
        one = await client.pending(waiting)
        ended = await client.start("end")
        await client.post(f"/approvals/{(await client.pending(ended))['id']}", {"decision": "deny"})
        await client.until(ended)
        known = {"run": [waiting, ended], "action": [one["id"], f"{ended}:3"]}
        seen = await asyncio.to_thread(explore, client.url, mode, known)
    assert len(seen) >= (15 if mode is GenerationMode.POSITIVE else 8)


def explore(url: str, mode: GenerationMode, known: dict[str, list[str]]) -> set[str]:
    """Sends every request that the document allows (or forbids). Returns the requests."""
    published = document(ENDPOINTS)
    schema = schemathesis.openapi.from_dict(published)
    schema.config.update(base_url=url)
    seen: set[str] = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.label == "GET /runs/{run}/events":
            continue
        try:
            cases = operation.as_strategy(generation_mode=mode)
            _ask(operation.label, cases, mode, known, seen)
        except Unsatisfiable:
            continue  # nothing of it can be wrong
    return seen


def _ask(
    label: str, cases: Any, mode: GenerationMode, known: dict[str, list[str]], seen: set[str]
) -> None:
    @seed(7)
    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases, strategies.integers(0, 2))
    def ask(case: Any, which: int) -> None:
        names = {name: ids[which] for name, ids in known.items() if which < len(ids)}
        if mode is GenerationMode.POSITIVE:
            case.path_parameters.update(
                {n: v for n, v in names.items() if n in case.path_parameters}
            )
        case.headers.pop("Idempotency-Key", None)
        case.call_and_validate(checks=CHECKS, timeout=180)
        seen.add(label)

    ask()


if __name__ == "__main__":
    PUBLISHED.parent.mkdir(exist_ok=True)
    PUBLISHED.write_text(text(ENDPOINTS) + "\n", encoding="utf-8")

"""Opik's REST contract: what is sent, and what its own SDK says of it."""

import json
import uuid

import msgspec
import pytest

from taofold import MemoryLog
from taofold.core.errors import ConfigError
from taofold.core.values import Message
from taofold.telemetry.opik import Opik, OpikTranslation, traced
from taofold.telemetry.outbox import ExportFailed, Outbox
from taofold.telemetry.projection import Root, spans_of
from taofold.telemetry.prompt import EncodedMessages, Prompt
from tests import environments
from tests.telemetry.kit import SECRET, calculator, capturing, family

pytestmark = pytest.mark.anyio


async def payload(content=False):
    """A run with everything that can be told: a child, an approval, failures, a session."""
    log = MemoryLog()
    result = await family(log).run("ask the helper", session="s1")
    [row] = await log.rows(parent=result.run_id)
    roots: dict[str, Root] = {}
    spans = [*spans_of(result.records, roots), *spans_of(await log.read(row.run), roots)]
    spans += spans_of((await calculator(approve=lambda _: False).run("add")).records)
    return OpikTranslation("demo", content=content)(spans)


async def test_a_run_is_one_trace_and_everything_in_it_a_span():
    said = await payload(content=True)
    assert [one["name"] for one in said.traces] == ["parent", "calculator"]
    assert said.traces[0]["thread_id"] == "s1"
    assert said.traces[0]["input"] == {"goal": "ask the helper"}
    assert said.traces[0]["output"] == {"output": "two"}
    known = {one["id"] for one in said.spans}
    traces = {one["id"] for one in said.traces}
    assert {one["trace_id"] for one in said.spans} == traces
    assert all(one.get("parent_span_id") in {None, *known} for one in said.spans)
    assert {one["type"] for one in said.spans} == {"general", "llm", "tool", "guardrail"}
    chat = next(one for one in said.spans if one["type"] == "llm")
    assert chat["usage"] == {
        "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110,
        "original_usage.prompt_tokens": 100, "original_usage.completion_tokens": 10,
        "original_usage.total_tokens": 110, "original_usage.prompt_tokens_details.cached_tokens": 0,
        "original_usage.completion_tokens_details.reasoning_tokens": 0,
    }  # fmt: skip
    assert json.loads(msgspec.json.encode(chat["input"]))["messages"][0]["role"] == "user"
    assert (chat["provider"], chat["model"]) == ("openai", "gpt-test")
    failed = next(one for one in said.spans if one["name"] == "fail")
    assert failed["error_info"]["exception_type"] == "failure"
    assert "no such thing" in failed["error_info"]["message"]


async def test_every_id_is_a_uuid_of_version_7():
    said = await payload()
    ids = [one[name] for one in [*said.traces, *said.spans] for name in ("id",)]
    assert len(set(ids)) == len(ids)
    assert {uuid.UUID(one).version for one in ids} == {7}


async def test_feedback_scores_are_the_measures_of_the_run():
    said = await payload()
    scores = {one["name"]: one["value"] for one in said.scores if one["id"] == said.traces[1]["id"]}
    assert scores["success"] == 1.0
    assert 0 < scores["observation_success_rate"] < 1


async def test_nothing_that_was_said_is_sent_without_content():
    text = msgspec.json.encode(await payload()).decode()
    assert [word for word in ("ask the helper", "no such thing", "/old") if word in text] == []


@pytest.mark.scenario("PEER-31")
async def test_secrets_are_redacted_before_they_are_sent():
    spans = spans_of((await calculator(approve="all").run("add")).records)
    spans = [msgspec.structs.replace(one, message=SECRET, **_planted(one)) for one in spans]
    assert SECRET in repr(spans)
    told = OpikTranslation("demo", content=True)(spans)
    assert SECRET not in msgspec.json.encode(told).decode()


def _planted(span):
    told = {"goal": SECRET, "text": SECRET, "reasoning": SECRET, "parameters": {"x": [SECRET]}}
    told |= {"result": {"x": SECRET}, "output": SECRET, "instructions": SECRET}
    told |= {"prompt": Prompt(EncodedMessages([Message(r, SECRET) for r in ("system", "user")]), 2)}
    return {name: value for name, value in told.items() if hasattr(span, name)}


async def test_a_run_is_sent_while_it_goes_on():
    with capturing() as server:
        opik = Opik(f"{server.url}/api", key="k", workspace="w", project="p")
        log = traced("memory", opik)
        await calculator(log=log, approve="all").run("add")
        await log.close()
    assert {(method, path) for method, path, _, _ in server.requests} == {
        ("POST", "/api/v1/private/traces/batch"),
        ("POST", "/api/v1/private/spans/batch"),
        ("PUT", "/api/v1/private/traces/feedback-scores"),
    }
    headers = server.requests[0][2]
    assert (headers["Authorization"], headers["Comet-Workspace"]) == ("k", "w")
    spans = received(server, "spans")
    assert len(spans) == 11
    assert {one["project_name"] for one in spans} == {"p"}


def received(server, what):
    """What came in requests of one kind, however many there were."""
    bodies = [json.loads(body) for *_, body in server.requests]
    return [one for body in bodies for one in body.get(what, ())]


async def test_its_own_variables_say_where_to_and_the_key_is_not_shown():
    found = Opik.from_environment(
        {"OPIK_URL_OVERRIDE": "https://x/api", "OPIK_API_KEY": "hidden", "OPIK_PROJECT_NAME": "p"}
    )
    assert (found.url, found.workspace, found.project) == ("https://x/api", "default", "p")
    assert "hidden" not in repr(found)
    with pytest.raises(ConfigError, match="http"):
        traced("memory", Opik("nowhere"))


async def test_a_server_that_is_away_loses_spans_and_says_so(caplog):
    with capturing() as server:
        server.answers = [401] * 20
        log = traced("memory", Opik(server.url))
        assert (await calculator(log=log, approve="all").run("add")).success
        await log.close()
    assert "401" in caplog.text
    assert "spans could not be sent" in caplog.text


async def test_an_outbox_never_holds_more_than_it_may():
    sent = []
    outbox = Outbox(sent.extend)
    outbox.put(range(20_000))
    assert outbox.lost == 20_000
    outbox.put([1, 2])
    outbox.close()
    assert sent == [1, 2]


async def test_what_was_sent_later_is_what_was_sent_live():
    with capturing() as server:
        log = traced("memory", Opik(server.url, project="p"))
        result = await calculator(log=log, approve="all").run("add")
        await log.close()
        live = [received(server, what) for what in ("traces", "spans", "scores")]
        server.requests.clear()
        Opik(server.url, project="p").send(OpikTranslation("p")(spans_of(result.records)))
        assert live == [received(server, what) for what in ("traces", "spans", "scores")]


CHECK = """
import json, sys
from opik.rest_api.types.feedback_score_batch_item import FeedbackScoreBatchItem
from opik.rest_api.types.span_write import SpanWrite
from opik.rest_api.types.trace_write import TraceWrite
said = json.load(sys.stdin)
models = {"traces": TraceWrite, "spans": SpanWrite, "scores": FeedbackScoreBatchItem}
for name, model in models.items():
    for one in said[name]:
        extra = model.model_validate(one).model_extra
        assert not extra, (name, extra)
        print(name)
"""


@pytest.mark.parametrize("content", [False, True])
async def test_the_models_of_its_own_sdk_take_it_with_no_unknown_field(content, tmp_path):
    opik = environments.needs("opik")
    script = tmp_path / "check.py"
    script.write_text(CHECK)
    said = await payload(content)
    quiet = {"OPIK_SENTRY_ENABLE": "False", "OPIK_ANALYTICS_ENABLE": "False", "HOME": str(tmp_path)}
    done = opik.run(script, input=msgspec.json.encode(said).decode(), env=quiet)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split().count("spans") == len(said.spans) > 10
    assert done.stdout.split().count("traces") == 2
    assert done.stdout.split().count("scores") == len(said.scores) > 3


async def test_a_refusal_names_the_place_and_not_the_key():
    with capturing() as server:
        server.answers = [403]
        said = await payload()
        with pytest.raises(ExportFailed) as caught:
            Opik(server.url, key="hidden-key").send(said)
    assert "403" in str(caught.value)
    assert "hidden" not in str(caught.value)

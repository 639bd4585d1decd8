"""Applies the examples of docs/internals/changing.md to a copy of the sources and runs them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "internals" / "changing.md"

OPTION = """
from taofold import Agent, tool
from taofold.testing.models import FunctionModel
from taofold.server.api.responses import agent as shown

@tool(effect="read", instead="Rather use find.")
def look(at: str) -> str:
    "Looks at something."
    return at

prompts = []

def reply(request):
    prompts.append(str(list(request.conversation)))
    return '{"thought": "x", "action": {"tool": "finish", "parameters": {"answer": "ok"}}}'

agent = Agent(FunctionModel(reply), tools=[look])
assert agent.run_sync("go").success
assert "Looks at something. Rather use find." in prompts[0], prompts
assert shown("a", agent).tools[0].options == {"instead": "Rather use find."}
"""

RESULT = """
import asyncio, contextlib, io, json
from taofold import Agent, tool
from taofold.cli.render.loops import LoopDisplay
from taofold.cli.render.story import PlainVoice, Story
from taofold.cli.render.runs import compare, difference_text
from taofold.log.formats.export import export
from taofold.log.open import open_log
from taofold.server.agui.projection import Projection
from taofold.server.api import responses as views
from taofold.server.streams.events import project
from taofold.policy.redaction import Redactor
from taofold.telemetry.attributes import attributes
from taofold.telemetry.prompt import Disclosure
from taofold.telemetry.projection import SpanProjection
from taofold.testing.models import FunctionModel
from taofold.views import run_state_json

def look() -> str:
    "Looks at something."
    return "the plain text"

prompts = []

def reply(request):
    prompts.append(str(list(request.conversation)))
    act = "finish", {"answer": "ok"}
    if len(prompts) % 2:
        act = "look", {}
    return json.dumps({"thought": "x", "action": {"tool": act[0], "parameters": act[1]}})

async def main(show):
    log = open_log(f"show-{show}.db")
    agent = Agent(FunctionModel(reply), tools=[tool(effect="read", show=show)(look)], log=log)
    run = (await agent.run("go")).run_id
    assert "the plain text" in prompts[-1], "the model has it"
    await agent.replay(run)
    records = await log.read(run)
    assert "the plain text" in export(records)
    out = io.StringIO()
    story, loop = Story(PlainVoice(out), run), LoopDisplay()
    agui, spans = Projection(run, "t", "n"), SpanProjection(run, rebuild=True)
    seen = {"agui": [*agui.open()], "spans": []}
    for record in records:
        story(record)
        with contextlib.redirect_stderr(out):
            loop(record)
        seen["agui"] += agui.tell(record)
        span = spans.feed(record)
        if span is not None:
            seen["spans"].append(attributes(span, Disclosure(Redactor())))
    seen["terminal"] = out.getvalue()
    seen["stream"] = [*project(records)]
    seen["console"] = [views.record(record) for record in records], views.moment(run, records)
    seen["state"] = run_state_json(run, records)
    seen["tao"] = export(records, "tao-yaml")
    seen["react"] = export(records, "react-json")
    shorter = [record for record in records if record.event.tag != "observed"]
    seen["diff"] = difference_text(compare(records, shorter)), compare(records, shorter).as_json()
    for name, what in seen.items():
        assert ("the plain text" in repr(what)) is show, f"{name}: {what}"
    await log.close()

asyncio.run(main(True))
asyncio.run(main(False))
"""

EVENT = """
import asyncio, io
from taofold import Agent, Limits, tool
from taofold.cli.render.story import PlainVoice, Story
from taofold.log.open import open_log
from taofold.server.agui.projection import Projection
from taofold.server.api.responses import record as shown
from taofold.server.streams.events import project
from taofold.telemetry.projection import SpanProjection
from taofold.testing.models import ScriptedModel

@tool(effect="read")
def look(at: str) -> str:
    "Looks at something."
    return at

SAME = '{"thought": "x", "action": {"tool": "look", "parameters": {"at": "a"}}}'
END = '{"thought": "x", "action": {"tool": "finish", "parameters": {"answer": "ok"}}}'
TEXT = "no tools in this turn: it repeats itself"

async def main():
    log = open_log("runs.db")
    model = ScriptedModel([SAME] * 9 + [END] * 9)
    agent = Agent(model, tools=[look], log=log, limits=Limits(steps=20))
    run = (await agent.run("go")).run_id
    await agent.replay(run)
    records = await log.read(run)
    assert [record.event.tag for record in records].count("withheld"), "it never happened"
    notes = [event for event in project(records) if event["type"] == "note"]
    assert TEXT in [note["text"] for note in notes], notes
    out = io.StringIO()
    story, agui, spans = Story(PlainVoice(out), run), Projection(run, "t", "n"), SpanProjection(run)
    told = list(agui.open())
    for record in records:
        story(record)
        told += agui.tell(record)
        span = spans.feed(record)
    assert TEXT in out.getvalue()
    assert TEXT in [event.value["text"] for event in told if getattr(event, "name", "") == "note"]
    assert "withheld" in [mark.name for mark in span.marks]
    assert "in this turn: it repeats itself" in [shown(record).summary for record in records]
    await log.close()

asyncio.run(main())
"""

MESSAGE = """
import asyncio
from taofold import Agent, Limits, RunContext, tool
from taofold.core.state import fold
from taofold.log.open import open_log
from taofold.runtime.control import raise_limit
from taofold.server.streams.events import project
from taofold.testing.models import ScriptedModel

@tool(effect="read")
async def look(ctx: RunContext, at: str) -> str:
    "Looks at something."
    if at == "1":
        await raise_limit(log, ctx.run_id, "steps", 6)
    return at

LOOK = '{{"thought": "x", "action": {{"tool": "look", "parameters": {{"at": "{0}"}}}}}}'
END = '{"thought": "x", "action": {"tool": "finish", "parameters": {"answer": "ok"}}}'

async def main(first):
    model = ScriptedModel([LOOK.format(number) for number in range(first, first + 4)] + [END] * 9)
    agent = Agent(model, tools=[look], log=log, limits=Limits(steps=3))
    result = await agent.run("go")
    state = fold(await log.read(result.run_id))
    await agent.replay(result.run_id)
    notes = [event.get("text") for event in project(await log.read(result.run_id))]
    return state.status, len(state.steps), "limit steps raised to 6 by local" in notes

log = open_log("runs.db")
assert asyncio.run(main(1)) == ("finished", 5, True)
assert asyncio.run(main(2)) == ("limited", 2, False)  # no limit was raised
asyncio.run(log.close())
"""

VERB = """
from taofold.cli.app import main
from taofold import Agent
from taofold.testing.models import ScriptedModel
from taofold.log.open import open_log
from pathlib import Path

Path(".taofold").mkdir()
END = '{"thought": "x", "action": {"tool": "finish", "parameters": {"answer": "ok"}}}'
Agent(ScriptedModel([END]), log=open_log(".taofold/runs.db")).run_sync("go")
main(["runs", "cost", "last"])
"""


EXAMPLES = {
    "option": OPTION,
    "result": RESULT,
    "event": EVENT,
    "message": MESSAGE,
    "verb": VERB,
}


def examples() -> dict[str, list[tuple[str, str, str]]]:
    """Returns, by name, the file, its current text, and the new text."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    fence = r"<!-- example: (\w+) -->\n```diff\n(.*?)^```"
    for name, body in re.findall(fence, PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        hunks = re.split(r"^--- (.*)\n", body, flags=re.MULTILINE)[1:]
        for file, hunk in zip(hunks[::2], hunks[1::2], strict=True):
            lines = hunk.splitlines(keepends=True)
            before = "".join([line[1:] or "\n" for line in lines if line[0] != "+"])
            after = "".join([line[1:] or "\n" for line in lines if line[0] != "-"])
            found.setdefault(name, []).append((file, before, after))
    return found


@pytest.mark.parametrize(("name", "probe"), EXAMPLES.items())
def test_an_example_is_all_it_takes(name: str, probe: str, tmp_path: Path) -> None:
    source = tmp_path / "src" / "taofold"
    shutil.copytree(ROOT / "src" / "taofold", source, ignore=shutil.ignore_patterns("__pycache__"))
    changes = examples()[name]
    for file, before, after in changes:
        text = (source / file).read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{file} has no such place any more: {before}"
        (source / file).write_text(text.replace(before, after), encoding="utf-8")
    assert len({file for file, _, _ in changes}) <= (6 if name == "message" else 3)
    done = run("-c", probe, source=source, cwd=tmp_path)
    if name == "verb":
        assert done == "0.0000\n"
        assert "taofold runs cost" in run(
            str(ROOT / "tests" / "cli_reference.py"), source=source, cwd=tmp_path
        )


def run(*arguments: str, source: Path, cwd: Path) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": str(source.parent),
        "TAOFOLD_HOME": str(cwd / ".taofold"),
    }
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

"""Compiles with the real DSPy in its own environment; the results run here without it."""

import importlib.util
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from taofold.bridges import dspy
from taofold.log.open import open_log
from taofold.testing.models import FunctionModel
from tests import environments
from tests.bridges.dspy.scripts.model import GOOD, say

pytestmark = [pytest.mark.dspy, pytest.mark.anyio]
HERE = Path(__file__).parent / "scripts"
ROOT = Path(__file__).resolve().parents[3]


def settings(folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(HERE)])
    return {
        "PYTHONPATH": path, "HOME": str(folder), "DSPY_CACHEDIR": str(folder / "cache"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "true", **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """Returns the output of a compiling process before it was killed."""
    environment = environments.needs("dspy")
    folder = tmp_path_factory.mktemp("dspy")
    errors = (folder / "errors.txt").open("w")
    process = subprocess.Popen(
        [environment.python, HERE / "compiled.py", folder], cwd=folder, text=True,
        env=environments.scrubbed(settings(folder)), stdout=subprocess.PIPE, stderr=errors,
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            break
        # Whatever is no JSON here was printed by a teleprompter: standard output is ours.
        one = json.loads(line)
        found[one["name"]] = one
    process.send_signal(signal.SIGKILL)
    process.stdout.close()
    process.wait()
    errors.close()
    assert process.returncode == -signal.SIGKILL, (folder / "errors.txt").read_text()
    return folder, found


@pytest.mark.document_item("004.compile.run", "004.compile.teleprompters")
def test_every_teleprompter_raises_the_score(told):
    _, found = told
    assert set(found) == {
        "BootstrapFewShot", "BootstrapFewShotWithRandomSearch", "MIPROv2", "GEPA", "model:Custom",
    }  # fmt: skip
    for name, one in found.items():
        assert one["scores"]["before"] < 0.6, name
        assert one["scores"]["after"] == 1.0, name
        assert one["success"], name
        assert one["answer"] == "42", name


def test_progress_bars_and_logs_are_not_shown(told):
    folder, _ = told
    assert (folder / "errors.txt").read_text() == ""


def test_dspys_own_adapters_work_too(told):
    # The model answers in JSON: ChatAdapter hands over to JSONAdapter, which reads it.
    assert {one["chat"] for one in told[1].values()} == {"The sum is 42."}


@pytest.mark.parametrize("name", ["BootstrapFewShot", "MIPROv2", "GEPA", "model:Custom"])
@pytest.mark.scenario("TEA-30")
async def test_a_killed_process_leaves_a_program_that_runs_without_dspy(told, name):
    assert importlib.util.find_spec("dspy") is None, "this environment must not have DSPy"
    folder, found = told
    one = found[name]
    log = open_log(f"sqlite:{folder / 'runs.db'}")
    program = dspy.list_compiled(await log.read(one["run"]))[name]
    assert program.version == one["version"]
    asked: list[Any] = []

    def watched(request):
        asked.append([[m.role, m.content] for m in request.conversation])
        return say(request)

    again = dspy.imported(json.dumps(program.export()))
    said = await dspy.cot("20 + 22", program=again, model=FunctionModel(watched))
    assert said.answer == "42"
    assert asked == one["prompts"], "the prompt is the one that DSPy sent, byte for byte"
    demos = len(program.predictors[0].demos)
    assert demos == (3 if name == "BootstrapFewShot" else 0)
    if name in ("MIPROv2", "GEPA"):
        assert asked[0][0][1].startswith(GOOD)


async def test_every_model_call_of_a_teleprompter_is_in_the_log(told):
    folder, found = told
    log = open_log(f"sqlite:{folder / 'runs.db'}")
    for one in found.values():
        records = await log.read(one["run"])
        replies = [r for r in records if type(r.event).__name__ == "Replied"]
        assert len(replies) == one["calls"] > 0
        # Each reply was read as what was asked for: nothing was asked again.
        assert not [r for r in records if type(r.event).__name__ == "Violated"]


def script(folder: Path, verb: str, **env: str) -> subprocess.CompletedProcess[str]:
    return environments.needs("dspy").run(
        HERE / "people.py", verb, folder, env=settings(folder, **env), cwd=folder
    )


def test_a_tool_of_dspys_react_waits_for_a_person_across_processes(tmp_path):
    asked = script(tmp_path, "ask")
    assert asked.returncode == 0, asked.stderr
    first = json.loads(asked.stdout)
    assert (first["status"], first["sent"]) == ("waiting", [])
    gone = script(tmp_path, "go", PYTHONHASHSEED="7")
    assert gone.returncode == 0, gone.stderr
    second = json.loads(gone.stdout)
    assert second == {
        "status": "finished", "sent": ["hello"], "output": "done", "replayed": "done",
        "thought": "I must send it",
    }  # fmt: skip


def test_a_killed_compilation_goes_on_where_it_was(tmp_path):
    assert script(tmp_path, "crash", PYTHONHASHSEED="1").returncode == -signal.SIGKILL
    resumed = script(tmp_path, "resume", PYTHONHASHSEED="2")
    assert resumed.returncode == 0, resumed.stderr
    told = json.loads(resumed.stdout)
    assert told["success"]
    assert told["same"]
    assert told["changed"] == 0
    assert told["after"] == told["whole"] - 24, "the 24 replies before the crash are not asked for"
    assert told["asked"] == 0, "what has ended is read from the log"


@pytest.fixture(scope="module")
def parity(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Each teleprompter with plain DSPy and through us, on the same scripted model."""
    folder = tmp_path_factory.mktemp("parity")
    ran = environments.needs("dspy").run(HERE / "parity.py", env=settings(folder), cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return {one["row"]: one for one in map(json.loads, ran.stdout.splitlines())}


ROWS = {
    "bootstrap yes/no": 3, "bootstrap graded": 3, "bootstrap graded, threshold": 3,
    "bootstrap strict": 3, "labeled": 3, "random search yes/no": 2, "random search graded": 2,
    "MIPROv2 yes/no": 3, "MIPROv2 graded": 3, "GEPA feedback": 0, "GEPA graded": 0,
    "COPRO yes/no": 0, "COPRO graded": 0, "SIMBA graded": 2, "InferRules yes/no": 3,
}  # fmt: skip
"""The demos that plain DSPy finds."""


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.document_item("004.dspy.cot", "004.compile.validation")
def test_a_teleprompter_finds_what_it_finds_with_plain_dspy_at_the_same_cost(parity, row):
    plain, ours = parity[row]["plain"], parity[row]["ours"]
    assert len(plain["demos"]) == ROWS[row]
    for fact in ("demos", "instructions", "task", "critic"):
        assert ours[fact] == plain[fact], fact
    percent = row.split()[0] in ("random", "MIPROv2", "COPRO")
    assert ours["score"] == (plain["score"] / 100 if percent else plain["score"])
    assert (row.split()[0] in ("bootstrap", "labeled", "InferRules")) == (ours["score"] is None)


def test_signature_classes_awkward_names_images_and_other_threads(tmp_path):
    ran = environments.needs("dspy").run(HERE / "classes.py", env=settings(tmp_path), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    *printed, last = ran.stdout.splitlines()
    told = json.loads(last)
    ticket = {"team": "billing", "urgency": 2, "tags": ["card"], "note": None}
    assert told["class"]["answers"] == [ticket, ticket], "with DSPy and without"
    assert told["class"]["prompts"][0] == told["class"]["prompts"][1]
    assert told["class"]["instructions"] == "Route the ticket."
    assert "how soon, 1 to 3" in told["class"]["prompts"][0][0][1]
    assert told["names"] == [{"copy": "c of s", "json": 3}] * 2
    assert "dspy.Image" in told["image"]
    assert "only text is bridged" in told["chat"]
    assert told["asked"] == 0, "an image is refused before a model is asked"
    # Output of other threads during compilation was printed. The teleprompter's own was not.
    assert printed == ["another thread"]
    assert told["hushed"] == ["from the metric"]


def test_a_teleprompter_that_cannot_work_is_refused_by_name(tmp_path):
    ran = script(tmp_path, "refused")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert "trains a model's weights" in told["GRPO"]
    assert set(told["theirs"]) <= set(told["known"]) | set(told["refused"]), "DSPy has a new one"
    assert told["as_class"] == told["Ensemble"]


@pytest.mark.scenario("TEA-15")
@pytest.mark.document_item("004.dspy.react")
def test_a_compiled_react_has_the_same_prompts_and_calls_with_dspy_and_without(tmp_path):
    ran = script(tmp_path, "react")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["prompts"][0] == told["prompts"][1]
    assert len(told["prompts"][0]) == 4
    assert told["looked"] == [["first"], ["second"]] * 2
    assert told["answers"] == ["found", "found"]
    assert told["stopped"] == ["max_steps", "max_steps"]
    assert told["limited"] == [["max_steps", "found"]] * 2, "a limit still gives the best answer"
    assert told["guessed"] == ["guessed", "guessed"]


def test_a_program_of_ones_own_is_a_strategy_and_a_tool(tmp_path):
    ran = script(tmp_path, "own")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["answer"] == "DONE"
    assert told["as_tool"] == "DONE"
    assert "several threads" in told["threads"]
    assert told["graded"] == "100.0", "DSPy's own evaluation keeps to one thread"
    assert told["stopped"] == "max_model_calls"
    assert told["alive"] == []


def test_the_example_learns_and_routes(tmp_path):
    ran = script(tmp_path, "example")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["error"] == ""
    assert told["output"]["team"] == "billing"
    assert told["output"]["scores"]["after"] == 1.0
    assert len(told["output"]["version"]) == 12

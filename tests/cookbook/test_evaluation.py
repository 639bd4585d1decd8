"""docs/cookbook/evaluation.md"""

import json
import shlex

from ruamel.yaml import YAML

from tests.cookbook.conftest import Reader, answer
from tests.road.mind import Asked, Said

RIGHT = {
    "charged twice": ("billing", False),
    "error 502": ("technical", True),
    "wonderful": ("other", False),
    "login does not work": ("technical", False),
}


def careful(asked: Asked) -> Said:
    department, urgent = next(v for words, v in RIGHT.items() if words in asked.users)
    return answer({"department": department, "urgent": urgent})(asked)


def hasty(asked: Asked) -> Said:
    return answer({"department": "billing", "urgent": False})(asked)


def step_of_the_job(reader: Reader) -> str:
    """The command with which the workflow evaluates."""
    file = reader.folder / ".github" / "workflows" / "evals.yml"
    job = YAML(typ="safe").load(file.read_text())["jobs"]["evals"]
    (line,) = [step["run"] for step in job["steps"] if "taofold eval" in step.get("run", "")]
    return str(line)


def test_the_job_passes_and_fails_by_the_threshold(reader: Reader) -> None:
    reader.opens("evaluation.md")
    line, _, file = step_of_the_job(reader).partition(" > ")
    reader.providers.model = careful
    done = reader.types(line)
    assert done.returncode == 0, done.stderr + done.stdout
    assert file == "report.json"
    assert json.loads(done.stdout)["reports"][0]["rate"] == 1.0
    reader.providers.model = hasty
    done = reader.types(line)
    assert done.returncode == 1, done.stderr + done.stdout
    assert shlex.split(line)[-1] == "--json"


def test_without_a_key(reader: Reader) -> None:
    reader.opens("evaluation.md")
    done = reader.types("taofold eval cases.yaml --model test:answer")
    assert done.returncode == 1
    assert "polite outage" in done.stdout
    reader.shows(done.stdout.splitlines()[-1] + "\n")

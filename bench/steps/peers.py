"""Runs other frameworks, and taofold among them, through the harness that lies beside the
checkout (`../shared/bench/steps`): one process per measurement, contestants in turn.

Each peer lives in its own environment under `bench/.venvs`, made with uv when it is missing.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from process import HERE, VENVS, environment, import_ms, serving

HARNESS = HERE.parent.parent.parent / "shared" / "bench" / "steps"
IMPORTS = {
    "agno": "from agno.agent import Agent",
    "smolagents": "from smolagents import ToolCallingAgent",
    "langgraph": "from langchain.agents import create_agent",
    "pydantic-ai": "from pydantic_ai import Agent",
}


class Contestant(NamedTuple):
    """A contestant: a module of the harness (or `taofold_`), and its variants."""

    name: str
    module: str
    plain: str
    http: str
    kept: str
    packages: tuple[str, ...] = ()

    @property
    def python(self):
        """Returns the interpreter of its environment. taofold and the bare loop share ours."""
        folder = VENVS / self.module.strip("_")
        return folder / "bin" / "python" if self.packages else Path(sys.executable)


OURS = (
    Contestant("bare loop", "bare", "floor", "aiohttp", "floor+sqlite_normal"),
    Contestant("taofold", "taofold_", "agent", "agent", "agent+sqlite"),
)
PEERS = (
    Contestant(
        "agno", "agno_", "agent", "agent", "agent+sqlite",
        ("agno", "openai", "sqlalchemy[asyncio]", "aiosqlite"),
    ),
    Contestant(
        "smolagents", "smolagents_", "tool_calling", "tool_calling", "", ("smolagents[openai]",),
    ),
    Contestant(
        "langgraph", "langgraph_", "create_agent", "create_agent", "create_agent+sqlite",
        ("langgraph", "langchain", "langchain-openai", "langgraph-checkpoint-sqlite", "aiosqlite"),
    ),
    Contestant(
        "pydantic-ai", "pydantic_ai_", "agent", "agent", "agent+dbos",
        ("pydantic-ai-slim[openai,dbos]",),
    ),
)  # fmt: skip
SERVER = Contestant("server", "server", "", "", "", ("uvloop", "httptools"))


def prepare(contestants):
    """Make the environments that are missing. Gives the installed version of each peer."""
    versions = {}
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "uv"], check=True)
    for one in (SERVER, *contestants):
        if not one.python.exists():
            print(f"making the environment of {one.name} …", file=sys.stderr)
            folder = one.python.parent.parent
            subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
            subprocess.run(
                [uv, "pip", "install", "-q", "--python", one.python, *one.packages], check=True
            )
        if one.packages:
            versions[one.name] = version(one)
    return versions


def version(one):
    package = one.packages[0].partition("[")[0]
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([one.python, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def measure(one, variant, task, **options):
    """Returns one measurement; None if the contestant failed, which goes to stderr."""
    command = [
        one.python, HARNESS / "measure.py", one.module, variant, task,
        "--json", json.dumps(options),
    ]  # fmt: skip
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])["r"]
    print(f"{one.name} failed at {task}: {done.stderr[-500:]}", file=sys.stderr)
    return None


def compare(rounds, lengths):
    """Every measurement of every contestant: {name: {figure: [one per round]}}."""
    contestants = (*OURS, *PEERS)
    out = {one.name: {} for one in contestants}

    def keep(one, figure, value):
        out[one.name].setdefault(figure, []).append(value)

    with serving(SERVER.python, HARNESS / "server.py") as url:
        for turn in range(rounds):
            print(f"peers, round {turn + 1} of {rounds}", file=sys.stderr)
            for task in (in_process, over_http, crowd, persisted, streamed, imported):
                for one in contestants:
                    task(one, keep, url, lengths)
    return out


def in_process(one, keep, url, lengths):
    found = measure(one, one.plain, "steps", ns=lengths, budget=2, max_reps=15)
    for length, row in (found or {}).items():
        keep(one, f"steps {length}", row["cpu_us"])


def over_http(one, keep, url, lengths):
    # A peer's episode of 400 steps over HTTP takes half a minute of CPU and adds no information.
    fit = lengths if one in OURS else [length for length in lengths if length <= 100]
    found = measure(one, one.http, "http_seq", ns=fit, budget=2, max_reps=15, base_url=url)
    for length, row in (found or {}).items():
        keep(one, f"http {length}", row["cpu_us"])


def crowd(one, keep, url, lengths):
    # One sample of taofold takes a third of a second, so other load would decide the result.
    for _ in range(3 if one in OURS else 1):
        found = measure(one, one.http, "conc", n=10, c=100, mode="http", base_url=url)
        if found and not found["errors"]:
            keep(one, "crowd", found["steps_per_s"])
            keep(one, "crowd CPU", found["cpu_us_step"])
            keep(one, "crowd kB", found["kb_per_agent"])


def persisted(one, keep, url, lengths):
    if one.kept:
        found = measure(one, one.kept, "persist", ns=lengths, budget=2, max_reps=8)
        for length, row in (found or {}).items():
            keep(one, f"sqlite {length}", row["cpu_us"])
            keep(one, f"bytes {length}", row["bytes_per_step"])


def streamed(one, keep, url, lengths):
    found = measure(one, one.http, "stream", tokens=200, reps=6, base_url=url)
    if found:
        keep(one, "token", found["cpu_us_per_token"])


def imported(one, keep, url, lengths):
    statement = {**IMPORTS, "taofold": "from taofold import Agent", "bare loop": "pass"}[one.name]
    import_ms(statement, one.python)
    keep(one, "import", import_ms(statement, one.python))

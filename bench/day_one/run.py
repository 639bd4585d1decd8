"""A newcomer's eleven programs beside other frameworks: lines, CPU, memory, the first request.

    python bench/day_one/run.py ENVIRONMENTS [--rounds N] [--json FILE] [--only PROGRAM]
    python bench/day_one/run.py --table FILE

ENVIRONMENTS is a folder with a virtual environment for each framework, named as the folders of
`programs/`. Every program runs in fresh processes in an empty folder against the same scripted
server, the contestants in turn; what it prints, and what the server saw, is checked. CPU is user
and system time of all processes of a program; memory the largest of them. `--table` writes what
`--json` kept as the table of docs/internals/benchmarks.md.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
SCRIPTED = "one two three four five six seven eight nine ten"


@dataclass(frozen=True)
class Program:
    title: str
    stages: tuple[tuple[str, ...], ...] = ((),)  # the arguments of each process, in order
    expected: tuple[str, ...] = ()  # what is printed, over all processes
    suffix: str = "py"
    web: bool = False
    # Each check returns a complaint about the output and the server's record, or nothing.
    wrong: Callable[[str, dict], str] = field(default=lambda out, seen: "")


def sent_once(out, seen):
    times = out.count("sent 40 to Ada")
    return "" if times == 1 and out.index("waiting") < out.index("sent 40") else f"sent {times}"


def paid_once(out, seen):
    return "" if seen["count"] == 20 else f"{seen['count']} requests for 20 goals"


def hidden(out, seen):
    if "looked up 1" in out or "looked up 7" not in out:
        return "the refused call was made, or the other was not"
    return "the account number reached the model" if seen["account"] else ""


KINDS = {
    "typed": Program("typed agent", expected=("5 apples",)),
    "approval": Program(
        "approval in two processes",
        (("ask",), ("approve",)),
        ("waiting", "Ada was billed"),
        wrong=sent_once,
    ),
    "flow": Program(
        "flow in YAML",
        (("The cellar is under water.",),),
        ("Paged for: The cellar is under water.",),
        suffix="yaml",
    ),
    "web": Program("streaming in Starlette", expected=(SCRIPTED,), web=True),
    "budget": Program("agent as tool, budget", expected=("The helper says five.", "limited")),
    "history": Program("history", expected=("You are Ada.",)),
    "custom": Program("a model of one's own", expected=("hello",)),
    "compare": Program("eval of two agents", expected=("1.0 0.5",)),
    "mcp_tools": Program("tools of an MCP server", expected=("Take an umbrella.",)),
    "many": Program(
        "many goals, resumed", (("12",), ("20",)), ("12 yes 11", "20 yes 19"), wrong=paid_once
    ),
    "hook": Program("a hook", expected=("They are customers.",), wrong=hidden),
}
# Frameworks without the feature, by their documentation and package.
ABSENT = {
    "flow": {
        "pydantic-ai-slim": "no flows in files",
        "openai-agents": "no flows in files",
        "langchain": "no flows in files",
        "agno": "no flows in files",
    },
    "compare": {
        "openai-agents": "evals are a service",
        "langchain": "evals are a service",
        "agno": "a model judges, nothing compares",
    },
}


def main():
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("environments", type=Path, nargs="?")
    reader.add_argument("--rounds", type=int, default=5)
    reader.add_argument("--json", default="")
    reader.add_argument("--only", action="append", default=[], choices=list(KINDS))
    reader.add_argument("--table", type=Path)
    options = reader.parse_args()
    if options.table is not None:
        print(table(json.loads(options.table.read_text())))
        return
    if options.environments is None:
        reader.error("ENVIRONMENTS is missing")
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py"], stdout=subprocess.PIPE, text=True
    )
    url = f"http://127.0.0.1:{int(server.stdout.readline())}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # ends the server, too
    before = os.getloadavg()[0]
    try:
        # Results are stored after each round, so a stopped run keeps them.
        for rounds, found in enumerate(measured(options, url)):
            result = {
                "day": time.strftime("%Y-%m-%d"),
                "rounds": rounds,
                "load": [before, os.getloadavg()[0]],
                "versions": {name: version(options.environments / name, name) for name in found},
                "programs": found,
            }
            if options.json:
                Path(options.json).write_text(json.dumps(result, indent=1))
    finally:
        server.terminate()
    print(table(result))


def version(environment, name):
    code = f"from importlib.metadata import version; print(version({name!r}))"
    command = [environment / "bin" / "python", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def measured(options, url):
    folders = sorted(folder.name for folder in PROGRAMS.iterdir() if folder.name != "shared")
    # Frameworks without an environment are skipped.
    names = [name for name in folders if (options.environments / name / "bin/python").exists()]
    kinds = options.only or list(KINDS)
    found = {name: {kind: [] for kind in kinds} for name in names}
    # The first round compiles what is imported, and is not counted.
    for turn in range(options.rounds + 1):
        for kind in kinds:
            for name in names:
                if name in ABSENT.get(kind, {}):
                    found[name][kind] = [{"absent": ABSENT[kind][name]}]
                    continue
                row = once(options.environments / name, name, kind, url)
                if turn or "failed" in row:
                    found[name][kind].append(row)
        yield found


def once(environment, name, kind, url):
    """Runs one program with all its processes. Returns figures, or the failure."""
    program = KINDS[kind]
    path = PROGRAMS / name / f"{kind}.{program.suffix}"
    urllib.request.urlopen(f"{url}/reset").read()
    printed, errors, cpu, memory = "", "", 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for arguments in program.stages:
            command = [environment / "bin" / "python", path, *arguments]
            if program.suffix == "yaml":
                command = [environment / "bin" / "taofold", "run", path, *arguments]
            out, error, used = process(command, folder, url, program.web)
            printed, errors = printed + out, errors + error
            cpu += used.ru_utime + used.ru_stime
            memory = max(memory, used.ru_maxrss / 1024)
    seen = json.loads(urllib.request.urlopen(f"{url}/seen").read())
    missing = [text for text in program.expected if text not in printed]
    complaint = (
        f"no {missing[0]!r}: {errors or printed}" if missing else program.wrong(printed, seen)
    )
    if complaint:
        return {"failed": complaint[-600:]}
    return {"lines": lines(path), "cpu": cpu, "mb": memory, "bytes": seen["first"]}


def process(command, folder, url, web):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_CHAT_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "AGNO_TELEMETRY": "false",
        "NO_PROXY": "127.0.0.1",
        "MCP_SERVER": str(PROGRAMS / "shared" / "weather.py"),
        "PORT": str(port),
    }
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, env=environment, cwd=folder, stdout=out, stderr=errors)
        answer = asked(port, child) if web else ""
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        return answer + out.read(), errors.read(), used


def asked(port, child):
    """Returns the response of a starting web application, then stops it."""
    deadline = time.monotonic() + 30
    request = urllib.request.Request(f"http://127.0.0.1:{port}/ask", b"Count. script=talk;")
    answer = ""
    while not answer and time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            answer = urllib.request.urlopen(request, timeout=10).read().decode()
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    return answer


def lines(path):
    rows = [row.strip() for row in path.read_text().splitlines()]
    return len([row for row in rows if row and not row.startswith("#")])


def table(result):
    """Lines of code, CPU seconds, megabytes, bytes of the first request: a row for each program."""
    programs = result["programs"]
    names = [name for name in ("taofold", *sorted(programs)) if name in programs]
    names = list(dict.fromkeys(names))
    heads = [f"{name} {result['versions'][name]}" for name in names]
    rows = ["| program | " + " | ".join(heads) + " |", "|---" * (len(names) + 1) + "|"]
    for kind, program in KINDS.items():
        if kind in programs[names[0]]:
            cells = [cell(programs[name][kind]) for name in names]
            rows.append(f"| {program.title} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def cell(rows):
    for row in rows:
        if "failed" in row:
            return f"failed: {' '.join(row['failed'].split())[-160:]}"
        if "absent" in row:
            return row["absent"]
    if not rows:
        return ""
    figure = {key: median(row[key] for row in rows) for key in rows[0]}
    cost = f"{figure['lines']:.0f} · {figure['cpu']:.2f} s · {figure['mb']:.0f} MB"
    return f"{cost} · {figure['bytes']:.0f} B"


if __name__ == "__main__":
    main()

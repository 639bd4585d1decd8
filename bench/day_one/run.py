"""A newcomer's first programs beside other frameworks: lines, CPU, memory, the first request.

    python bench/day_one/run.py ENVIRONMENTS [--rounds N] [--json FILE]

ENVIRONMENTS is a folder with a virtual environment for each framework, named as the folders of
`programs/`. Every program runs in a fresh process against the same scripted server, the
contestants in turn; what it prints is checked. CPU is user and system time of the whole process.
"""

import argparse
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
EXPECTED = {
    "typed": "5 apples",
    "history": "You are Ada.",
    "nested": "The helper says five.",
    "stream": "one two three four five six seven eight nine ten",
}


def main():
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("environments", type=Path)
    reader.add_argument("--rounds", type=int, default=5)
    reader.add_argument("--json", default="")
    options = reader.parse_args()
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py"], stdout=subprocess.PIPE, text=True
    )
    url = f"http://127.0.0.1:{int(server.stdout.readline())}"
    print(f"load before: {os.getloadavg()[0]:.1f}")
    try:
        found = measured(options, url)
    finally:
        server.terminate()
    for program in EXPECTED:
        print(f"\n{program:<16}{'lines':>7}{'CPU s':>8}{'MB':>7}{'bytes':>8}")
        for name, rows in found.items():
            print(line(name, rows[program]))
    print(f"\nload after: {os.getloadavg()[0]:.1f}")
    if options.json:
        Path(options.json).write_text(json.dumps(found))


def measured(options, url):
    folders = sorted([folder for folder in PROGRAMS.iterdir() if folder.is_dir()])
    # Who has no environment does not take part.
    there = [folder.name for folder in folders if (options.environments / folder.name).exists()]
    contestants = [name for name in there if (options.environments / name / "bin/python").exists()]
    found = {name: {program: [] for program in EXPECTED} for name in contestants}
    # The first round compiles what is imported, and is not counted.
    for turn in range(options.rounds + 1):
        for program in EXPECTED:
            for name in contestants:
                python = options.environments / name / "bin" / "python"
                row = once(python, PROGRAMS / name / f"{program}.py", url, EXPECTED[program])
                if turn:
                    found[name][program].append(row)
    return found


def once(python, program, url, expected):
    urllib.request.urlopen(f"{url}/reset").read()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "AGNO_TELEMETRY": "false",
        "NO_PROXY": "127.0.0.1",
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([python, program], env=environment, **pipes)
    out, errors = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    first = json.loads(urllib.request.urlopen(f"{url}/first").read())
    if expected not in out:
        return {"failed": (errors or out)[-300:]}
    return {
        "lines": lines(program),
        "cpu": used.ru_utime + used.ru_stime,
        "mb": used.ru_maxrss / 1024,
        "bytes": first[0],
    }


def lines(program):
    rows = [row.strip() for row in program.read_text().splitlines()]
    return len([row for row in rows if row and not row.startswith("#")])


def line(name, rows):
    failed = [row["failed"] for row in rows if "failed" in row]
    if failed:
        return f"  {name:<14}failed: {' '.join(failed[0].split())[-120:]}"
    figure = {key: median([row[key] for row in rows]) for key in rows[0]}
    return (
        f"  {name:<14}{figure['lines']:>7.0f}{figure['cpu']:>8.2f}{figure['mb']:>7.0f}"
        f"{figure['bytes']:>8.0f}"
    )


if __name__ == "__main__":
    main()

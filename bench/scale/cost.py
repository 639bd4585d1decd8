"""Cost of a step on PostgreSQL, SQLite, LangGraph's PostgresSaver, and pydantic-ai with DBOS.

    python bench/scale/cost.py [--steps 50] [--runs 4]

A step is a model's reply (a function) and a tool's result of 1 kB; runs follow each other in one
process, fsync is on, all in one invocation, one after the other. CPU of the process and of
PostgreSQL, bytes of the database. The peers live in `bench/.venvs/scale`, made when it is missing.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import load

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PEERS = (
    "langgraph==1.2.22", "langgraph-checkpoint-postgres", "pydantic-ai-slim[dbos]",
    "psycopg[binary]",
)  # fmt: skip


def environment() -> Path:
    folder = ROOT / "bench" / ".venvs" / "scale"
    if not (folder / "whole").exists():
        uv = str(Path(sys.executable).parent / "uv")
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
        python = folder / "bin" / "python"
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *PEERS], check=True)
        (folder / "whole").touch()
    return folder / "bin" / "python"


def row(cpu_s: float, seconds: float, server_s: float, size: int, steps: int) -> dict[str, Any]:
    return {
        "cpu_ms": round(1000 * cpu_s / steps, 2),
        "server_cpu_ms": round(1000 * server_s / steps, 2),
        "wall_ms": round(1000 * seconds / steps, 1),
        "bytes": round(size / steps),
    }


async def own(log: Any, options: argparse.Namespace) -> tuple[float, float]:
    load.STEPS = options.steps
    agent = load.agent(log)
    used, began = load.cpu(), time.monotonic()
    for number in range(options.runs):
        result = await agent.run("go", run_id=f"r{number}")
        assert result.status == "finished"
    return load.cpu() - used, time.monotonic() - began


def peer(script: str, server: Any, options: argparse.Namespace) -> dict[str, Any]:
    server.execute("create database peer")
    url = f"postgresql://postgres@/peer?host={server.root}"
    command = [environment(), HERE / script, url, str(options.steps), "1000", str(options.runs)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before, used = size_of(server, "peer"), load.of_server(server)
        process.stdin.write("\n")
        process.stdin.flush()
        found = json.loads(process.stdout.readline())
        used, size = load.of_server(server) - used, size_of(server, "peer") - before
    assert process.returncode == 0
    server.execute("drop database peer with (force)")
    return row(found["cpu_s"], found["seconds"], used, size, options.steps * options.runs)


def size_of(server: Any, name: str) -> int:
    return int(server.execute(f"select pg_database_size('{name}')"))


async def main(options: argparse.Namespace) -> None:
    binaries = load.postgres.binaries()
    assert binaries is not None, "no PostgreSQL here"
    environment()
    server = load.postgres.Server(binaries, safe=True)
    steps = options.steps * options.runs
    found: dict[str, Any] = {"load": os.getloadavg()[0]}
    try:
        with tempfile.TemporaryDirectory() as folder:
            log: Any = load.SqliteLog(Path(folder) / "runs.db")
            cpu, seconds = await own(log, options)
            await log.close()
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            found["taofold, SQLite"] = row(cpu, seconds, 0.0, size, steps)
        log = load.PostgresLog(server.url())
        await log.rows()
        before, used = size_of(server, "postgres"), load.of_server(server)
        cpu, seconds = await own(log, options)
        used = load.of_server(server) - used
        size = size_of(server, "postgres") - before
        await log.close()
        found["taofold, PostgreSQL"] = row(cpu, seconds, used, size, steps)
        found["langgraph, PostgresSaver"] = peer("peer_langgraph.py", server, options)
        found["pydantic-ai, DBOS"] = peer("peer_pydantic.py", server, options)
    finally:
        server.remove()
    found["load_after"] = os.getloadavg()[0]
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--runs", type=int, default=4)
    asyncio.run(main(parser.parse_args()))

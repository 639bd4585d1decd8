"""Measures quality and speed of the registry's search. See README.md."""

import argparse
import asyncio
import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).parent))

from baselines import Bm25, Tfidf

from taofold.core.failing_checks import Check, Location
from taofold.learning.events import PatternDiscovered, encode
from taofold.learning.fold import step
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import ErrorFix, ErrorSignature, Fix
from taofold.learning.patterns.pattern import Pattern, PatternScope
from taofold.learning.retrieval.question import ask
from taofold.learning.settings import Injection
from taofold.log.patterns import stores as registry_tables
from taofold.log.patterns.stores import open_registry
from taofold.log.sqlite import journal as journal
from taofold.log.sqlite.open import connect

SETS = {  # name: docs, queries
    "rustc": ("rustc", "rustc"),
    "ruff_inst": ("ruff_inst", "ruff_inst"),
    "ruff_code": ("ruff_inst", "ruff_code"),
    "thefuck": ("thefuck", "thefuck"),
}
Ranker = Callable[[str], list[int]]


def rows(folder: Path, name: str, kind: str) -> list[dict[str, str]]:
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [row for line in file if (row := json.loads(line))["kind"] == kind]


def numbered(slug: str, n: int) -> str:
    return f"pat-error-{slug}{n // 900}-{n % 900 + 1:03d}"


def fill(path: Path, patterns: list[Pattern]) -> None:
    """A registry with `patterns`, without looking for duplicates."""
    db = connect(path, wait_s=5)
    db.execute("begin immediate")
    registry_tables.build(db)
    view, facts = registry_tables.Tables(db), []
    for n, pattern in enumerate(patterns):
        event = PatternDiscovered(f"loop-{n}", pattern)
        view.keep(step(view, event, 1_700_000_000_000 + n))
        facts.append((1_700_000_000_000 + n, encode(event)))
    registry_tables.set_position(db, journal.append(db, "patterns", -1, facts))
    db.execute("commit")
    db.close()


def registry_ranker(folder: Path, texts: list[str]) -> Ranker:
    """The search of the registry, for bare texts."""
    path = folder / "log.db"
    fill(
        path,
        [
            Pattern(
                f"pat-error-d{n // 900}-{n % 900 + 1:03d}",
                "",
                ErrorFix(ErrorSignature("Other", ""), Fix(text)),
            )
            for n, text in enumerate(texts)
        ],
    )
    db = connect(path, wait_s=5)
    view = registry_tables.Tables(db)
    order = {pattern.id: n for n, pattern in enumerate(view.patterns())}

    def rank(text: str) -> list[int]:
        case = LoopCase(failing=(Check("", "failed", "", text),))
        (terms,) = ask(case).searches
        return [order[hit.id] for hit in view.search(terms)]

    return rank


def quality(rank: Ranker, docs: list[dict[str, str]], queries: list[dict[str, str]]) -> list[float]:
    """Recall@5 and the mean reciprocal rank."""
    recall = reciprocal = 0.0
    for query in queries:
        right = {n for n, doc in enumerate(docs) if doc["label"] == query["label"]}
        found = rank(query["text"])
        recall += len(right & {*found[:5]}) / min(5, len(right) or 1)
        reciprocal += next((1 / n for n, one in enumerate(found[:60], 1) if one in right), 0.0)
    return [recall / len(queries), reciprocal / len(queries)]


def compare(folder: Path) -> None:
    names = ["BM25", "TF-IDF", "registry"]
    print("| set | docs | queries | " + " | ".join(names) + " |")
    print("|---|---|---|" + "---|" * len(names))
    for name, (source, asked) in SETS.items():
        docs, queries = rows(folder, source, "doc"), rows(folder, asked, "query")
        texts = [doc["text"] for doc in docs]
        with tempfile.TemporaryDirectory() as place:
            rankers = [Bm25(texts), Tfidf(texts), registry_ranker(Path(place), texts)]
            cells = [" / ".join(f"{x:.3f}" for x in quality(r, docs, queries)) for r in rankers]
        print(f"| {name} | {len(docs)} | {len(queries)} | " + " | ".join(cells) + " |", flush=True)


def synthetic(folder: Path, count: int) -> tuple[list[Pattern], list[str]]:
    """Patterns with the words of the data, and texts to ask with."""
    texts = [
        r["text"] for name in ("rustc", "ruff_inst", "thefuck") for r in rows(folder, name, "doc")
    ]
    asked = [
        r["text"] for name in ("rustc", "ruff_inst", "thefuck") for r in rows(folder, name, "query")
    ]
    words = [word for text in texts for word in text.split()]
    rnd = random.Random(1)
    kinds = ("TypeError", "ValueError", "KeyError", "AssertionError", "IndexError", "OSError")
    made = []
    for n in range(count):
        text, more = rnd.choice(texts)[:300], " ".join(rnd.sample(words, 25))
        kind = rnd.choice(kinds)
        body = ErrorFix(
            ErrorSignature("Other", f"{text[:160]} .* {more[:60]}", ("*.py:f*",), kind),
            Fix(more, "fix_logic_error", "{{a}} + 1", "python", "-{{a}}\n+{{a}} + 1"),
        )
        made.append(
            Pattern(numbered("x", n), f"{kind}: {text[:50]}", body, PatternScope("", "python"))
        )
    return made, rnd.sample(asked, 200)


START = """
import asyncio, sys, taofold.learning.registry
from taofold.core.failing_checks import Check, Location
from taofold.learning.patterns.case import LoopCase
from taofold.learning.settings import Injection
from taofold.log.patterns.stores import open_registry
from time import perf_counter, process_time
async def main(path, loop):
    wall, cpu = perf_counter(), process_time()
    registry = open_registry(path)
    case = LoopCase("Make the tests pass", "python", failing=(
        Check("", "failed", "TypeError", "unsupported operand: borrowed value of moved iterator",
              (Location("a.py", 0, "f"),)),))
    await registry.inject(loop, case, Injection(control_share=0))
    print((process_time() - cpu) * 1000, (perf_counter() - wall) * 1000)
    await registry.close()
asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


async def speed(path: Path, texts: list[str]) -> list[float]:
    registry = open_registry(path)
    times = []
    for text in texts:
        case = LoopCase(
            "Make the tests pass", "python",
            failing=(Check("", "failed", "TypeError", text[:300], (Location("a.py", 0, "f"),)),),
        )  # fmt: skip
        began = process_time()
        await registry.candidates(case, Injection())
        times.append((process_time() - began) * 1000)
    await registry.close()
    return sorted(times)


def scale(folder: Path) -> None:
    began = process_time()
    table: dict[int, float] = {}
    for n in range(1_000_000):
        table[n & 1023] = table.get(n & 1023, 0.0) + n
    gauge = (process_time() - began) * 1000
    print(f"(a million dict updates take {gauge:.0f} ms on this machine now)")
    print("| patterns | build s | file MB | search p50 / p95 ms CPU | open + inject, CPU (wall) |")
    print("|---|---|---|---|---|")
    for count in (1_000, 10_000, 100_000):
        patterns, texts = synthetic(folder, count)
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "log.db"
            began = perf_counter()
            fill(path, patterns)
            built = perf_counter() - began
            starts = []
            for n in range(7):
                command = [sys.executable, "-c", START, str(path), f"loop-{n}"]
                out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                starts.append(tuple(float(x) for x in out.split()))
            cpu, wall = sorted(starts)[len(starts) // 2]
            times = asyncio.run(speed(path, texts))
            p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
            size = path.stat().st_size / 1e6
            cells = f"{built:.1f} | {size:.0f} | {p50:.1f} / {p95:.1f} | {cpu:.0f} ({wall:.0f})"
            print(f"| {count} | {cells} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", action="store_true")
    given = parser.parse_args()
    if given.scale:
        scale(given.folder)
    else:
        compare(given.folder)

"""Measures whether readers get the lesson for the current error.

    python bench/retrieval/kinds.py FILE...

A FILE holds message kinds of a linter: what `pylint --list-msgs` prints, or JSON lines of `rule`
and `message` with `{{ names }}` (as the `meta.messages` of ESLint's rules have them). Kinds whose
message has a place for a name are taken. For each kind a loop met the message with one set of
names and fixed it by an edit of its own file; then a loop in other code meets it with other names,
so that no fix can be replayed, and its own first attempt has failed. Counted: how often the lesson
of that very kind is among the five that are shown, and how often it is the first.

Each query runs twice: with the tool's output, and without the rule's name.
"""

import argparse
import asyncio
import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from taofold.diagnostics import failing_checks
from taofold.learning.extraction.history import FileChange, LoopHistory, RepairAttempt
from taofold.learning.settings import Injection, Learning
from taofold.log.patterns.stores import memory_registry
from taofold.loop.learner import CrossLoopLearner, case_of

TASK = "Make the linter pass"
HOLE = re.compile(r"%(?:\.\d)?[srdfi]|\{\{\s*\w+\s*\}\}")
NAMES = (
    "account", "balance", "cart", "depot", "engine", "folder", "garden", "handler", "invoice",
    "journal", "kernel", "ledger", "mirror", "network", "orders", "parcel", "quota", "route",
    "socket", "ticket", "update_all", "vector", "window", "xray", "yield_rate", "zone_map",
)  # fmt: skip
FIXES = (
    ("    return {a}({b})\n", "    return {a}({b}, {c})\n"),
    ("    {a} = {b}\n", "    {a} = {b} or {c}\n"),
    ("import {a}\n", ""),
    ("    if {a} > {b}:\n", "    if {a} >= {b}:\n"),
    ("    {a}.append({b})\n", "    {a}.extend({b})\n"),
    ("def {a}({b}):\n", "def {a}({b}, {c}=None):\n"),
    ("    for {a} in {b}:\n", "    for _{a} in {b}:\n"),
    ("    raise {a}\n", "    raise {a} from {b}\n"),
    ("    {a} == {b}\n", "    {a} is {b}\n"),
    ("    del {a}[{b}]\n", "    {a}.pop({b})\n"),
    ("class {a}:\n", "class {a}({b}):\n"),
    ("    print({a})\n", "    log.info({a})\n"),
)


class Kind(NamedTuple):
    """A kind of message of a linter. `form` prints a finding as the tool does."""

    rule: str
    message: str
    form: Callable[[str, int, str, str], str]
    suffix: str


def pylint_line(path: str, line: int, rule: str, message: str) -> str:
    return f"{path}:{line}:0: W9999: {message} ({rule})\n"


def eslint_lines(path: str, line: int, rule: str, message: str) -> str:
    return f"/w/{path}\n  {line}:1  error  {message}  {rule}\n\n1 problem\n"


def bare_line(path: str, line: int, rule: str, message: str) -> str:
    """Prints a finding without its rule."""
    del rule
    return f"{path}:{line}:1: {message}\n"


def kinds_of(path: Path) -> list[Kind]:
    """The kinds in a file that have a place for a name, each message once."""
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("{"):
        rows = [json.loads(line) for line in text.splitlines()]
        found = [Kind(row["rule"], row["message"], eslint_lines, "js") for row in rows]
    else:
        listed = re.findall(r"(?m)^:([\w-]+) \(\w+\): \*(.*?)\*$", text)
        found = [Kind(rule, message, pylint_line, "py") for rule, message in listed]
    usable = [kind for kind in found if HOLE.search(kind.message) and "\n" not in kind.message]
    first: dict[str, Kind] = {}
    for kind in usable:
        first.setdefault(kind.rule, kind)
    return list(first.values())


def filled(message: str, chance: random.Random) -> str:
    return HOLE.sub(lambda _: chance.choice(NAMES), message).replace("%%", "%")


async def measure(kinds: list[Kind], seed: int) -> None:
    chance = random.Random(seed)
    learning = Learning(injection=Injection(control_share=0.0))
    mind = CrossLoopLearner(memory_registry(), learning)
    taught: dict[str, frozenset[str]] = {}
    for number, kind in enumerate(kinds):
        path = f"src/first{number}.{kind.suffix}"
        output = kind.form(path, 3, kind.rule, filled(kind.message, chance))
        names = dict(zip("abc", chance.sample(NAMES, 3), strict=True))
        old, new = (part.format(**names) for part in FIXES[number % len(FIXES)])
        attempt = RepairAttempt(1, failing_checks(output), (FileChange(path, old, new),), ())
        history = LoopHistory(f"loop-{number}", TASK, "", "completed", (attempt,), 1)
        learnt = await mind.take_in(history)
        taught[kind.rule] = frozenset(one.pattern for one in learnt.extracted)
    began = time.process_time()
    for title, bare in (("as the tool prints it", False), ("without the rule's name", True)):
        among = first = 0
        for number, kind in enumerate(kinds):
            form = bare_line if bare else kind.form
            output = form(f"lib/now.{kind.suffix}", 40, kind.rule, filled(kind.message, chance))
            failing = failing_checks(output)
            failed = tuple([check.id for check in failing])
            case = msgspec.structs.replace(case_of(TASK, failing), failed=failed)
            shown = await mind.inject(f"{title}-{number}", case, learning.injection)
            ids = shown.patterns
            among += bool(taught[kind.rule].intersection(ids))
            first += bool(ids and ids[0] in taught[kind.rule])
        n = len(kinds)
        print(f"  {title}: among five {among / n:.3f}, first {first / n:.3f} of {n}")
    print(f"  {1000 * (time.process_time() - began) / (2 * len(kinds)):.1f} ms CPU a question")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="Which names are put in.")
    options = parser.parse_args()
    for path in options.files:
        kinds = kinds_of(path)
        print(f"{path.name}: {len(kinds)} kinds")
        asyncio.run(measure(kinds, options.seed))


if __name__ == "__main__":
    main()

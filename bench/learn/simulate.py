"""Many orders at the price of one: `python bench/learn/simulate.py FOLDER...`.

A search with rates tries the same candidate edits in another order, so its cost follows from two
things: the model's whole ranking, taken from the model itself, and which candidates are right,
found by running the tests of those that some order tries. A loop costs the place of the first right
one, at most the budget. A simulation omits that real loops continue from an edit that fixed some of
the checks. `run.py` includes this.

A bug counts if any of the first `FIRST` candidates is right; a set of what the order without memory
repairs within the budget could only lose.
"""

import argparse
import asyncio
import json
import pickle
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from bench_loop import GOAL, Checks
from corpus import Bug, bugs
from quick import Quick

from taofold import Agent, Limits
from taofold.core.values import Profile, Reply
from taofold.learning.patterns.pattern import Rate
from taofold.learning.rates import EditRates, learnt_order, outcome
from taofold.runtime.model import OnText, Request
from taofold.tools import tool
from taofold.tools.files import file_tools
from taofold_repair import replies
from taofold_repair.model import decide
from taofold_repair.rank import ranking
from taofold_repair.search import actions_of, search_state
from taofold_repair.source import Project, Source
from taofold_repair.transcript import collect

FIRST = 150
BUDGET = 60


class Edit(NamedTuple):
    """A candidate: its score in the model's own order, its keys, and what it changes."""

    score: float
    keys: tuple[str, ...]
    path: str
    old: str
    new: str


@dataclass
class Task:
    """A bug with the model's ranking of it. `right` caches test results of candidates."""

    name: str
    family: str
    folder: str
    ranking: list[Edit]
    right: dict[int, bool] = field(default_factory=dict)


class Looking:
    """The built-in model until it would edit: then everything is read that it ranks by."""

    name = "offline:repair"
    profile = Profile(window=1_000_000, window_known=True, streaming=False)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        text = decide(request.conversation, [tool.name for tool in request.tools])
        if '"edit_file"' in text:
            text = replies.finish("looked", "the next move is an edit", "synthesis", [])
        return Reply(text=text, model=self.name, finish="stop")

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        return 0.0


async def look(bug: Bug, checks: Checks) -> list[Edit]:
    """Returns the model's ranking of the bug; [] without failures or candidates."""

    @tool(effect="idempotent", tier=2)
    def run_command(command: str) -> str:
        """Run a program and return its exit code and output.

        Args:
            command: For example "python -m pytest -q".
        """
        del command
        code, output = checks.run(bug.folder, ["-q", "--tb=short"])
        return f"exit code {code}\n{output}"

    agent = Agent(
        Looking(), tools=[file_tools(bug.folder), run_command],
        limits=Limits(steps=30, model_calls=40, tool_calls=90), approve="all",
    )  # fmt: skip
    result = await agent.run(GOAL)
    actions = actions_of(result.records)
    files, report = collect(actions), search_state(actions).report
    if report is None or report.ok:
        return []
    texts = {path: files.text(path) for path in files.known}
    sources = [Source(path, text) for path, text in texts.items() if text is not None]
    return [
        Edit(one.score, one.keys, one.edit.path, one.edit.old, one.edit.new)
        for one in ranking(Project(sources, files.listed), report)
    ]


class Corpus:
    """The tasks of a folder, kept in a file beside it: rankings, and what was tested."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, folder.with_suffix(".pickle")
        self.tasks: dict[str, Task] = {}
        if self.kept.exists():
            self.tasks = pickle.loads(self.kept.read_bytes())
        self.quick = Quick()

    def usable(self, most: int) -> list[Task]:
        """Those of `most` bugs, drawn at random, of which one of the first candidates is right."""
        checks = Checks()
        drawn = bugs(self.folder)
        random.Random(0).shuffle(drawn)
        for number, bug in enumerate(drawn[:most]):
            task = self.tasks.get(bug.name)
            if task is None:
                task = Task(bug.name, bug.family, str(bug.folder), asyncio.run(look(bug, checks)))
                self.tasks[bug.name] = task
            for index in range(min(FIRST, len(task.ranking))):
                if any(task.right.values()):
                    break
                self.is_right(task, index)
            if number % 20 == 19:
                self.keep()
        checks.close()
        self.keep()
        tasks = [self.tasks[bug.name] for bug in drawn[:most]]
        return [task for task in tasks if any(task.right.values())]

    def is_right(self, task: Task, index: int) -> bool:
        if index not in task.right:
            edit = task.ranking[index]
            task.right[index] = self.quick.passes(task.folder, edit.path, edit.old, edit.new)
        return task.right[index]

    def keep(self) -> None:
        self.kept.write_bytes(pickle.dumps(self.tasks))


class Loop(NamedTuple):
    """Cost of one bug of a stream, with and without memory."""

    tried: int
    solved: bool
    plain: int
    plain_solved: bool


Spoil = Callable[[dict[str, Rate]], dict[str, Rate]]


def spoiler(chance: random.Random, share: float) -> Spoil:
    """Assigns `share` of the wins to other edits' keys."""

    def spoil(rates: dict[str, Rate]) -> dict[str, Rate]:
        if chance.random() >= share:
            return rates
        wins = sum(rate.wins > 0 for rate in rates.values())
        lucky = set(chance.sample(sorted(rates), min(wins, len(rates))))
        return {key: Rate(float(key in lucky), rate.expected) for key, rate in rates.items()}

    return spoil


class Rule:
    """The rule that derives a search's ranking from earlier results: the current one."""

    levels = "skl"

    def __init__(self) -> None:
        self.rates = EditRates()

    def pairs(self, task: Task) -> list[tuple[float, tuple[str, ...]]]:
        return [
            (edit.score, tuple([key for key in edit.keys if key[0] in self.levels]))
            for edit in task.ranking
        ]

    def order(self, task: Task) -> list[int]:
        pairs = self.pairs(task)
        factors = [self.rates.factor(keys) for _, keys in pairs]
        return learnt_order([score for score, _ in pairs], factors, self.rates.belief)

    def learn(self, task: Task, winner: int, spoil: Spoil, *, gate_only: bool = False) -> None:
        keys, costs = outcome(self.rates, self.pairs(task), winner)
        self.rates = self.rates.plus({} if gate_only else spoil(keys), costs)


class NoGate(Rule):
    """The same three keys, straight into the score."""

    def order(self, task: Task) -> list[int]:
        scores = [score * self.rates.factor(keys) for score, keys in self.pairs(task)]
        return sorted(range(len(scores)), key=lambda index: -scores[index])


class TwoKeys(NoGate):
    """The thirty lines: shape and line, neither beside the other, straight into the score."""

    levels = "sl"

    def learn(self, task: Task, winner: int, spoil: Spoil, *, gate_only: bool = False) -> None:
        if not gate_only:
            keys, costs = outcome(EditRates(), self.pairs(task), winner)
            self.rates = self.rates.plus(spoil(keys), costs)


RULES: dict[str, type[Rule]] = {"runs": Rule, "nogate": NoGate, "thirty": TwoKeys}


def first_right(corpus: Corpus, task: Task, order: Sequence[int]) -> int | None:
    return next((n for n, i in enumerate(order[:BUDGET], 1) if corpus.is_right(task, i)), None)


def stream(
    corpus: Corpus, tasks: Sequence[Task], rule: Rule, spoil: Spoil, frozen: int | None = None
) -> list[Loop]:
    """Runs each task in turn. From number `frozen` on, only the gate gets the loops' results."""
    loops: list[Loop] = []
    for number, task in enumerate(tasks):
        order = rule.order(task)
        at = first_right(corpus, task, order)
        plain = first_right(corpus, task, range(len(order)))
        loops.append(Loop(at or BUDGET, at is not None, plain or BUDGET, plain is not None))
        if at is not None:
            known = frozen is not None and number >= frozen
            rule.learn(task, order[at - 1], spoil, gate_only=known)
    return loops


def late(loops: list[Loop]) -> list[Loop]:
    return loops[len(loops) // 2 :]


def disjoint(
    corpus: Corpus, tasks: Sequence[Task], rule: Rule, chance: random.Random
) -> list[Loop]:
    """Learnt on one half of the families, judged on the other."""
    families = sorted({task.family for task in tasks})
    chance.shuffle(families)
    first = set(families[: len(families) // 2])
    known = [task for task in tasks if task.family in first]
    other = [task for task in tasks if task.family not in first]
    return stream(corpus, [*known, *other], rule, lambda r: r, len(known))[len(known) :]


def conditions(
    corpus: Corpus, tasks: list[Task], rule: type[Rule], seeds: int
) -> dict[str, list[list[Loop]]]:
    done: dict[str, list[list[Loop]]] = {}
    for seed in range(seeds):
        order = sorted(tasks, key=lambda task: task.name)
        random.Random(seed).shuffle(order)
        for name, share in (("learning", 0.0), ("corrupted", 0.6), ("junk", 1.0)):
            spoil = spoiler(random.Random(seed), share)
            done.setdefault(name, []).append(late(stream(corpus, order, rule(), spoil)))
        if len({task.family for task in tasks}) > 1:
            loops = disjoint(corpus, order, rule(), random.Random(seed))
            done.setdefault("disjoint", []).append(loops)
    return done


def figures(orders: list[list[Loop]]) -> str:
    each = [100 * (1 - sum(x.tried for x in o) / sum(x.plain for x in o)) for o in orders]
    solved = sum(loop.solved - loop.plain_solved for order in orders for loop in order)
    plain = sum(x.plain for o in orders for x in o) / sum(map(len, orders))
    return (
        f"{sum(each) / len(each):6.1f} % ({min(each):.0f}..{max(each):.0f}), "
        f"{solved:+d} of {sum(map(len, orders))} repaired; {plain:.1f} tries without"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--rules", default="runs,nogate,thirty")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--most", type=int, default=10_000, help="Bugs, drawn at random.")
    options = parser.parse_args()
    result: dict[str, object] = {}
    for folder in options.folders:
        began = time.monotonic()
        corpus = Corpus(folder)
        tasks = corpus.usable(options.most)
        families = len({task.family for task in tasks})
        bugs_seen = min(options.most, len(corpus.tasks))
        print(f"{folder.name}: {len(tasks)} of {bugs_seen} bugs, {families} families", flush=True)
        for name in options.rules.split(","):
            for condition, orders in conditions(corpus, tasks, RULES[name], options.seeds).items():
                print(f"  {name:6} {condition:9} {figures(orders)}", flush=True)
                result[f"{folder.name}/{name}/{condition}"] = orders
        corpus.keep()
        print(f"  {time.monotonic() - began:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

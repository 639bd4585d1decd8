"""Foreign corpora as folders of bugs: `python bench/learn/convert.py --to FOLDER CHECKOUT...`.

Reads checkouts that you fetched yourself: HumanEvalFix (`humanevalpack.jsonl` of octopack, or a
checkout that holds it), QuixBugs (`python_programs`), Refactory (`question_*` below `data`, or its
`data.zip`), DebugBench (`benchmark/python3_*.json`). Nothing of them is part of this repository.
"""

import argparse
import ast
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOST_TESTS = 12
PER_FAMILY = 400


class Program(NamedTuple):
    """A buggy module with the tests that show it."""

    name: str
    family: str
    module: str
    source: str
    tests: str


def humaneval_fix(path: Path) -> Iterator[Program]:
    """The Python part of humanevalpack: one function each, one test per assertion."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        name = row["entry_point"]
        yield Program(
            f"humaneval_{row['task_id'].rpartition('/')[2]}",
            row["bug_type"],
            f"{name}_module",
            row["declaration"] + row["buggy_solution"],
            f"from {name}_module import {name}\n\n\n" + _assertions(row["test"], name),
        )


def _assertions(text: str, name: str) -> str:
    """A test function for each assertion of `check`, or one for the whole of it."""
    text = re.sub(rf"^check\({name}\)\s*$", "", text, flags=re.MULTILINE)
    nodes = ast.parse(text).body
    check = next(n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == "check")
    candidate = check.args.args[0].arg
    if not all(isinstance(node, ast.Assert) for node in check.body):
        return f"{text.strip()}\n\n\ndef test_check():\n    check({name})\n"
    before = [ast.unparse(node) for node in nodes if node is not check]
    tests = [
        f"def test_{number}():\n    {ast.unparse(node)}\n".replace(f"{candidate}(", f"{name}(")
        for number, node in enumerate(check.body[:MOST_TESTS], 1)
    ]
    return "\n\n".join([*before, *tests])


def quixbugs(folder: Path) -> Iterator[Program]:
    """The programs with JSON test cases."""
    for cases in sorted((folder / "json_testcases").glob("*.json")):
        name = cases.stem
        source = folder / "python_programs" / f"{name}.py"
        if not source.exists():
            continue
        rows = [json.loads(line) for line in cases.read_text().splitlines() if line.strip()]
        tests = [
            f"def test_{n}():\n    assert {name}({_arguments(given)}) == {want!r}\n"
            for n, (given, want) in enumerate(rows[:MOST_TESTS], 1)
        ]
        text = re.sub(r'(?s)\n*"""\n.*\Z', "\n", source.read_text(encoding="utf-8"))
        yield Program(
            f"quix_{name}", "quixbugs", name, text,
            f"from {name} import {name}\n\n\n" + "\n\n".join(tests),
        )  # fmt: skip


def _arguments(given: object) -> str:
    return ", ".join(map(repr, given if isinstance(given, list) else [given]))


def refactory(data: Path) -> Iterator[Program]:
    """Converts wrong submissions of students. Each task is a family."""
    for question in sorted(data.glob("question_*")):
        calls = sorted((question / "ans").glob("input_*.txt"))
        tests = [
            f"def test_{n}():\n    assert {call.read_text().strip()} == "
            f"{(question / 'ans' / call.name.replace('input', 'output')).read_text().strip()}\n"
            for n, call in enumerate(calls[:MOST_TESTS], 1)
        ]
        # The task's given code. Without it, no program of some tasks can pass.
        given = question / "code" / "global.py"
        prelude = given.read_text(encoding="utf-8").strip() if given.exists() else ""
        for source in sorted((question / "code" / "wrong").glob("*.py"))[:PER_FAMILY]:
            text = source.read_text(encoding="utf-8", errors="replace")
            text = f"{prelude}\n\n\n{text}" if prelude else text
            try:
                ast.parse(text)
            except SyntaxError:
                continue
            yield Program(
                f"{question.name}_{source.stem}", question.name, "submission", text,
                "from submission import *\n\n\n" + "\n\n".join(tests),
            )  # fmt: skip


PRELUDE = """\
import bisect, collections, functools, heapq, itertools, math, operator, re, string
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *

"""
WORDS = (("true", "True"), ("false", "False"), ("null", "None"))


def debugbench(path: Path) -> Iterator[Program]:
    """Converts programs with one implanted bug of a kind. The task's examples are the tests."""
    family = path.stem.removeprefix("python3_").replace(" ", "-")
    for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        text = row["buggy_code"].replace("\t", "    ")
        method = re.search(r"class Solution\b.*?def (\w+)\(self", row["oracle_code"], re.DOTALL)
        tests = [test for text in row["examples"] if (test := _example(text))]
        if method is None or not tests:
            continue
        yield Program(
            f"debugbench_{family}_{number}", family, "program", PRELUDE + text.lstrip("\n"),
            # `solution*` is hidden from agents (`corpus.HIDDEN`).
            "from program import Solution\n\n\n"
            + "\n\n".join(
                f"def test_{n}():\n    assert Solution().{method[1]}({given}) == {want}\n"
                for n, (given, want) in enumerate(tests, 1)
            ),
        )  # fmt: skip


def _example(text: str) -> tuple[str, str] | None:
    """Returns the arguments and the result of an example, or None if they are no plain values."""
    found = re.search(r"Input:\s*(.*?)\s*Output:\s*(.*?)\s*(?:Explanation:|\Z)", text, re.DOTALL)
    if found is None:
        return None
    given, want = found[1].replace("\n", " "), found[2]
    for foreign, python in WORDS:
        given, want = (re.sub(rf"\b{foreign}\b", python, part) for part in (given, want))
    try:
        call = ast.parse(f"f({given})", mode="eval").body
        assert isinstance(call, ast.Call)
        values = [ast.literal_eval(word.value) for word in call.keywords]
        result = ast.literal_eval(want)
    except (SyntaxError, ValueError):
        return None
    return (", ".join(map(repr, values)), repr(result)) if values else None


def programs(checkout: Path) -> Iterator[Program]:
    """Whatever corpora are found at `checkout`."""
    if checkout.suffix == ".jsonl":
        yield from humaneval_fix(checkout)
        return
    for found in sorted(checkout.rglob("python/data/humanevalpack.jsonl")):
        yield from humaneval_fix(found)
    for kind in sorted(checkout.rglob("benchmark/python3_*.json")):
        if kind.stem.removeprefix("python3_") not in ("double", "triple", "quadruple"):
            yield from debugbench(kind)
    if (checkout / "python_programs").is_dir():
        yield from quixbugs(checkout)
    for packed in [path for path in (checkout / "data.zip",) if path.exists()]:
        with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(packed) as archive:
            archive.extractall(place)
            yield from refactory(next(Path(place).rglob("question_1")).parent)
            return
    first = next(checkout.rglob("question_1"), None)
    if first is not None:
        yield from refactory(first.parent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, required=True, help="Where the bugs go.")
    options = parser.parse_args()
    number = 0
    for checkout in options.checkouts:
        for program in programs(checkout):
            folder = options.to / program.name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{program.module}.py").write_text(program.source, encoding="utf-8")
            (folder / f"test_{program.module}.py").write_text(program.tests, encoding="utf-8")
            (folder / "bug.toml").write_text(f"family = {json.dumps(program.family)}\n")
            number += 1
    print(f"{number} bugs in {options.to}")


if __name__ == "__main__":
    main()

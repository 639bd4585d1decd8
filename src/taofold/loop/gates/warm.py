"""The runner's compiled modules, made once in a loop so that each gate need not compile them.

A gate's interpreter reads no bytecode that an agent could have written, and so compiles its
runner, the plugins and the standard library anew: seconds for each verdict. What is kept here
was compiled in a folder with one trial test, in a container, without a file of the project,
and gates may only read it. Knows nothing about verdicts.
"""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from taofold.loop.check import Gate
from taofold.loop.gates.bench import Bench, planned
from taofold.loop.gates.tree import Tree
from taofold.tools.scratch import scratch

SECONDS: Final = 120.0
"""Patience with the trial."""
_TRIAL: Final = """import unittest


class Trial(unittest.TestCase):
    def test_fails(self):
        self.assertEqual({"a": [1]}, {"a": [2]})


def test_fails():
    assert {"a": [1]} == {"a": [2]}
"""
_WORDS: Final = {"pytest": ("-q", "-c", "/dev/null", "--rootdir=."), "unittest": ("discover",)}


async def warm(bench: Bench, gate: Gate) -> None:
    """Fill the bench's `bytecode` with what `gate`'s runner needs, unless that was done.

    Nothing is done for an interpreter in the work root: its modules are within reach of the
    agent; and nothing where gates are not contained, because there a product could write to it.
    """
    plan, kept = planned(gate), bench.bytecode
    if kept is None or bench.why_not or plan.runner not in _WORDS or plan.program:
        return
    program = Path(bench.program(gate))
    if not _outside(program, bench.tree.root):
        return
    mark = kept / f"{plan.runner}-{sha256(str(program).encode()).hexdigest()[:16]}"
    if mark.exists():
        return
    kept.mkdir(parents=True, exist_ok=True)
    with scratch("trial") as folder:
        root = _trial(folder)
        words = (str(program), "-m", plan.runner, *_WORDS[plan.runner])
        trial = Gate(" ".join(words), timeout=SECONDS, argv=words)
        tree = Tree(root, root, root, contained=True)
        ran = await replace(bench, tree=tree, network=False, keeps=True).run(trial)
    if not ran.fault:
        mark.touch()


def _outside(program: Path, root: Path) -> bool:
    """Is it surely beyond the reach of who works in `root`?"""
    ways = (program, program.resolve())
    return program.is_absolute() and not any([one.is_relative_to(root) for one in ways])


def _trial(folder: Path) -> Path:
    """A project of one test that fails, so that what tells of failures is compiled too."""
    root = folder.resolve()
    (root / "test_trial.py").write_text(_TRIAL, encoding="utf-8")
    return root

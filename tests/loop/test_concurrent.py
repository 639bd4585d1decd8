"""Two loops at once in one folder: each reports and learns its own changes only.

Real files, real gates and a real registry; scripted models that meet at barriers, so that each
iteration spans the edits of the other loop. Mutants: what changed between two snapshots is the
loop's; an edit that another loop made in the same file is learnt; a change by a command counts
although another loop was at work; a repair by the other loop turns an own check green.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from taofold.agent import Agent
from taofold.learning.patterns.kinds import Avoidance, ErrorFix
from taofold.learning.registry import Registry
from taofold.learning.settings import Injection, Learning
from taofold.log.journal import MemoryJournal
from taofold.log.memory import MemoryLog
from taofold.log.patterns.stores import memory_registry
from taofold.loop.driver import LoopDependencies
from taofold.loop.environment import open_environment
from taofold.loop.learner import CrossLoopLearner
from taofold.loop.lifecycle import start
from taofold.loop.report import report_markdown
from taofold.loop.state import LoopState
from taofold.loop.stream import load
from taofold.loop.values import LoopLimits, LoopRequest
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel
from taofold.tools.command import command_tool
from taofold.tools.files import file_tools
from tests.loop.gates.projects import written
from tests.ports import PATIENCE
from tests.prerequisites import GIT

from .kit import act, done

pytestmark = GIT.mark

MAIL = "def mail(users, name):\n    user = users.get(name)\n    return user.lower()\n"
"""Fails for an unknown name."""
RATE = "def rate(rates, land):\n    return rates[land] / 100\n"
TEST_MAIL = "from m2 import mail\n\ndef test_mail():\n    assert mail({}, 'a') is None\n"
TEST_RATE = "from m3 import rate\n\ndef test_rate():\n    assert rate({}, 'a') == 0.2\n"
GUARD = (
    "    return user.lower()\n",
    "    if user is None:\n        return None\n    return user.lower()\n",
)
DEFAULT = ("rates[land]", "rates.get(land, 20)")


@dataclass
class Meeting:
    """A place where `number` models wait for each other, again and again."""

    number: int
    at: int = 0
    free: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> None:
        self.at += 1
        if self.at == self.number:
            free, self.free, self.at = self.free, asyncio.Event(), 0
            free.set()
            return
        await asyncio.wait_for(self.free.wait(), PATIENCE)


Step = str | Meeting


def scripted(steps: Sequence[Step]) -> FunctionModel:
    """A model that gives one reply after the other, and waits at a meeting before the next."""
    left = iter(steps)

    async def answer(request: Request) -> str:
        for step in left:
            if isinstance(step, str):
                return step
            await step()
        return done()

    return FunctionModel(answer)


def edit(path: str, change: tuple[str, str]) -> str:
    return act(f"change {path}", "edit_file", path=path, old=change[0], new=change[1])


def run(command: str) -> str:
    return act("run it", "run_command", command=command)


@dataclass
class Pair:
    project: Path
    registry: Registry = field(default_factory=memory_registry)
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    log: MemoryLog = field(default_factory=MemoryLog)

    async def loop(self, name: str, gate: str, steps: Sequence[Step], **more: Any) -> LoopState:
        model = scripted(steps)
        home = self.project.parent / "home"
        learning = Learning(injection=Injection(control_share=0.0))
        given = LoopDependencies(
            log=self.log,
            journal=self.journal,
            environment=lambda loop, state: open_environment(loop, state, home),
            agent=lambda root, state: Agent(
                model, tools=[file_tools(root), command_tool(root)], approve="all"
            ),
            learner=CrossLoopLearner(self.registry, learning, repository="shop"),
        )
        bounds = more.pop("bounds", LoopLimits(iterations=2))
        wish = LoopRequest(f"Repair {name}", (gate,), str(self.project), bounds, **more)
        return await start(given, wish, loop=name)

    async def both(self, *loops: tuple[str, str, Sequence[Step]]) -> dict[str, LoopState]:
        ended = await asyncio.gather(*[self.loop(*each) for each in loops])
        return dict(zip([name for name, *_ in loops], ended, strict=True))

    async def fixes(self) -> dict[str, list[str]]:
        """Returns the lines of each learnt fix, by the loop that taught it."""
        found: dict[str, list[str]] = {}
        for pattern in await self.registry.patterns():
            if isinstance(pattern.body, ErrorFix):
                for source in pattern.sources:
                    found.setdefault(source.loop, []).append(pattern.body.fix.diff)
        return found

    async def report(self, loop: str) -> str:
        return report_markdown(loop, (await load(self.journal, loop)).records)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    files = {"m2.py": MAIL, "m3.py": RATE, "test_m2.py": TEST_MAIL, "test_m3.py": TEST_RATE}
    return Pair(written(tmp_path / "project", files))


PYTEST = "python -m pytest -q -p no:cacheprovider"


@pytest.mark.parametrize("first", ["mail", "rate"])
@pytest.mark.parametrize("gate", ["own", "all"])
def test_each_loop_learns_its_own_edits_only(pair: Pair, first: str, gate: str) -> None:
    meet = Meeting(2)
    mail = edit("m2.py", GUARD), edit("m3.py", DEFAULT)

    def steps(change: str, early: bool) -> list[Step]:
        made: list[Step] = [change, meet] if early else [meet, change]
        return [meet, *made, meet, done()]

    loops = {
        "mail": (f"{PYTEST} test_m2.py", mail[0]),
        "rate": (f"{PYTEST} test_m3.py", mail[1]),
    }

    async def story() -> None:
        ended = await pair.both(
            *[
                (name, own if gate == "own" else PYTEST, steps(change, name == first))
                for name, (own, change) in loops.items()
            ]
        )
        assert {name: state.status for name, state in ended.items()} == dict.fromkeys(
            loops, "completed"
        )

        assert [ended[name].done[0].changed for name in loops] == [("m2.py",), ("m3.py",)]
        fixes = await pair.fixes()

        assert sorted(fixes) == ["mail", "rate"]
        assert ["user is None" in fixes["mail"][0], "rates.get" in fixes["rate"][0]] == [True, True]
        assert [len(each) for each in fixes.values()] == [1, 1]
        learnt = ended["mail"].learnt
        assert learnt is not None
        assert "m3.py" in learnt.notes[0]

    asyncio.run(story())


BOTH = {
    "shared.py": MAIL + RATE,
    "test_m2.py": TEST_MAIL.replace("m2", "shared"),
    "test_m3.py": TEST_RATE.replace("m3", "shared"),
}


def test_edits_of_one_file_are_kept_apart(pair: Pair) -> None:
    written(pair.project, BOTH)
    meet = Meeting(2)

    async def story() -> None:
        ended = await pair.both(
            ("mail", f"{PYTEST} test_m2.py", [meet, edit("shared.py", GUARD), meet, done()]),
            ("rate", f"{PYTEST} test_m3.py", [meet, edit("shared.py", DEFAULT), meet, done()]),
        )
        mail = ended["mail"].done[0]
        assert (mail.changed, mail.shared and mail.shared.others) == (("shared.py",),) * 2
        assert "rates.get" not in mail.diff
        fixes = await pair.fixes()
        assert {name: ["user is None" in one for one in each] for name, each in fixes.items()} == {
            "mail": [True],
            "rate": [False],
        }

    asyncio.run(story())


def test_a_change_by_a_command_is_not_learnt_while_another_loop_works(pair: Pair) -> None:
    meet = Meeting(2)
    command = run("sed -i 's/rates.land./rates.get(land, 20)/' m3.py")

    async def story() -> None:
        ended = await pair.both(
            ("mail", f"{PYTEST} test_m2.py", [meet, edit("m2.py", GUARD), meet, done()]),
            ("rate", f"{PYTEST} test_m3.py", [meet, command, meet, done()]),
        )
        shared = ended["rate"].done[0].shared
        assert shared is not None
        assert shared.unsure == ("m2.py", "m3.py")
        learnt = ended["rate"].learnt
        assert learnt is not None
        assert "--copy" in learnt.notes[0]
        assert list(await pair.fixes()) == ["mail"]
        assert "not learnt" in await pair.report("rate")

    asyncio.run(story())


def test_a_repair_by_another_loop_is_not_learnt(pair: Pair) -> None:
    """Mutant: the verdict on the whole folder judges the loop's useless edit."""
    meet = Meeting(2)
    useless = edit("m3.py", ("/ 100", "/ 100.0"))

    async def story() -> None:
        await pair.both(
            ("mail", PYTEST, [meet, edit("m2.py", GUARD), edit("m3.py", DEFAULT), meet, done()]),
            ("rate", PYTEST, [meet, useless, meet, done()]),
        )
        assert "rate" not in await pair.fixes()

    asyncio.run(story())


@pytest.mark.document_item("001.extract.in-vain")
@pytest.mark.parametrize("order", [("direct", "late"), ("late", "direct")])
def test_useless_edits_left_standing_make_the_anti_pattern_only(
    pair: Pair, order: tuple[str, str]
) -> None:
    """Mutant: the lesson is the difference from the first to the last text."""
    strip = ("user.lower()", "user.strip().lower()")
    fold = ("user.strip().lower()", "user.strip().casefold()")
    last = "    return user.strip().casefold()\n"
    guard = (last, f"    if user is None:\n        return None\n{last}")
    steps: dict[str, list[Step]] = {
        "direct": [edit("m2.py", GUARD), done()],
        "late": [x for each in (strip, fold, guard) for x in (edit("m2.py", each), done())],
    }

    async def story() -> None:
        for name in order:
            written(pair.project, {"m2.py": MAIL})
            bounds = LoopLimits(iterations=4)
            ended = await pair.loop(name, f"{PYTEST} test_m2.py", steps[name], bounds=bounds)
            assert ended.status == "completed"
        patterns = await pair.registry.patterns()
        (fix,) = [each for each in patterns if isinstance(each.body, ErrorFix)]
        assert {source.loop for source in fix.sources} == {"direct", "late"}
        assert isinstance(fix.body, ErrorFix)
        assert "user is None" in fix.body.fix.diff
        assert "strip" not in fix.body.fix.diff + fix.body.fix.code
        (warning,) = [each.body for each in patterns if isinstance(each.body, Avoidance)]
        assert "strip().lower()" in warning.approach
        assert "casefold()" in warning.approach
        assert "user is None" in warning.better

    asyncio.run(story())

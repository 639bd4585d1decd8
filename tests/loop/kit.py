"""A loop in miniature: real files in a folder, gates that are functions, a scripted agent."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from taofold.agent import Agent
from taofold.core.failing_checks import Check, Location
from taofold.log.journal import Journal, MemoryJournal
from taofold.log.memory import MemoryLog
from taofold.loop import events as loop_events
from taofold.loop.driver import LoopDependencies
from taofold.loop.environment import Judged, Settled
from taofold.loop.state import LoopState, fold
from taofold.loop.values import Learnt, Left, Lessons, LoopLimits, LoopRequest, LoopSpending
from taofold.loop.verdict import Gate, GateResult, Verdict, unexecuted
from taofold.testing.models import FunctionModel, ScriptedModel
from taofold.tools.files import file_tools

GATE = Gate("python -m pytest -q")


def act(thought: str, tool: str, kind: str = "reasoning", **parameters: Any) -> str:
    """A reply in the ordinary format."""
    action = {"tool": tool, "parameters": parameters, "rationale": "it is the next thing to do"}
    return json.dumps({"thought": thought, "thought_type": kind, "action": action})


def done(answer: str = "done") -> str:
    return act("nothing is left", "finish", "synthesis", answer=answer)


def write(path: str, content: str) -> str:
    return act(f"write {path}", "write_file", "goal", path=path, content=content)


def check(id: str, ok: bool, message: str = "", error: str = "AssertionError") -> Check:
    if ok:
        return Check(id, "passed")
    return Check(id, "failed", error, message or f"{id} fails", (Location("a.py", 3, "f"),), "tb")


def verdict(checks: Mapping[str, bool], **more: Any) -> Verdict:
    """A verdict over named checks."""
    found = tuple([check(name, ok) for name, ok in checks.items()])
    passed = all(checks.values())
    result = GateResult(GATE, passed, 0 if passed else 1, "pytest", ("pytest",), found)
    share = sum(checks.values()) / len(checks) if checks else float(passed)
    given: dict[str, Any] = {"passed": passed, "results": (result,), "quality": share, **more}
    return Verdict(**given)


def scored(quality: float, *, passed: bool = False, error: str = "E") -> Verdict:
    """A verdict with a given quality and one error."""
    failing = () if passed else (check("t", False, error),)
    result = GateResult(GATE, passed, 0 if passed else 1, "pytest", ("pytest",), failing)
    return Verdict(passed, (result,), quality)


Judging = Callable[[Path], Verdict]


@dataclass
class Folder:
    """A `LoopEnvironment` over a real folder: snapshots in memory, a verdict from a function."""

    root: Path
    judging: Judging
    contained: bool = True
    leftovers: tuple[str, ...] = ()
    kept: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    log: list[str] = field(default_factory=list[str])
    seconds: list[float] = field(default_factory=list[float])
    on_judge: Callable[[], None] = lambda: None
    protected: tuple[str, ...] = ()
    first: dict[str, str] = field(default_factory=dict[str, str])
    released: list[bool] = field(default_factory=list[bool])
    foreign: tuple[str, ...] = ()
    """Packages that changed since the baseline."""

    def _now(self) -> dict[str, str]:
        files = sorted(p for p in self.root.rglob("*") if p.is_file())
        return {str(p.relative_to(self.root)): p.read_text() for p in files}

    def observation(self, verdict: Verdict, limit: int) -> str:
        return "\n".join([f"{c.id}: {c.error_type}: {c.message}" for c in verdict.failing])[:limit]

    async def begin(self) -> tuple[Judged, str]:
        self.log.append("begin")
        self.first = {path: (self.root / path).read_text() for path in self.protected}
        return Judged(self.judging(self.root), await self.snapshot("first")), "digest"

    async def snapshot(self, label: str) -> str:
        now = self._now()
        name = sha256(json.dumps(now).encode()).hexdigest()[:12]
        self.kept[name] = now
        return name

    async def judge(self, label: str, seconds: float) -> Judged:
        self.log.append("judge")
        self.seconds.append(seconds)
        before = await self.snapshot(label)
        found = self.judging(self.root)
        self.on_judge()
        after = await self.snapshot(label)
        judged = Verdict(
            **{
                **{n: getattr(found, n) for n in found.__struct_fields__},
                "tree": before,
                "packages": self.foreign,
            }
        )
        return Judged(judged, after, unexecuted(judged, after) if found.passed else "")

    async def touched(self) -> Mapping[str, str]:
        now = {path: (self.root / path).read_text() for path in self.protected}
        return {path: text for path, text in now.items() if text != self.first[path]}

    async def settle(self, paths: Collection[str], *, keep: bool, seconds: float) -> Settled:
        self.log.append(f"settle {' '.join(paths)} keep={keep}")
        self.seconds.append(seconds)
        for path in paths:
            if keep:
                self.first[path] = (self.root / path).read_text()
            else:
                (self.root / path).write_text(self.first[path])
        return Settled("newer" if keep else "digest")

    async def packages(self) -> tuple[str, ...]:
        return self.foreign

    async def retake(self, seconds: float) -> tuple[Verdict, Settled]:
        self.log.append("retake")
        self.seconds.append(seconds)
        self.foreign = ()
        return self.judging(self.root), Settled("newer")

    async def changed(self, a: str, b: str) -> tuple[str, ...]:
        one, two = self.kept[a], self.kept[b]
        return tuple(sorted(p for p in {*one, *two} if one.get(p) != two.get(p)))

    async def diff(self, a: str, b: str, limit: int) -> str:
        said: list[str] = []
        for path in await self.changed(a, b):
            old, new = (self.kept[x].get(path, "").splitlines(True) for x in (a, b))
            said += unified_diff(old, new, f"a/{path}", f"b/{path}")
        return "".join(said)[:limit]

    async def digests(self, paths: Sequence[str]) -> Mapping[str, str]:
        now = self._now()
        return {p: sha256(now[p].encode()).hexdigest() if p in now else "" for p in paths}

    async def composed(
        self, base: str, source: str, paths: Sequence[str], texts: Mapping[str, str]
    ) -> str:
        files = dict(self.kept[base])
        for path in paths:
            text = texts.get(path, self.kept[source].get(path))
            files.pop(path, None)
            if text is not None:
                files[path] = text
        name = sha256(json.dumps(dict(sorted(files.items()))).encode()).hexdigest()[:12]
        self.kept[name] = files
        return name

    async def trial(self, snapshot: str, seconds: float) -> Verdict:
        self.log.append("trial")
        with TemporaryDirectory() as folder:
            for path, text in self.kept[snapshot].items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text)
            return self.judging(Path(folder))

    async def text(self, snapshot: str, path: str) -> str | None:
        return self.kept[snapshot].get(path)

    async def restore(self, snapshot: str) -> tuple[str, ...]:
        now, then = self._now(), self.kept[snapshot]
        for path in now.keys() - then.keys():
            (self.root / path).unlink()
        for path, text in then.items():
            (self.root / path).write_text(text)
        return tuple(sorted(p for p in {*now, *then} if now.get(p) != then.get(p)))

    async def commit(self, number: int, body: str, branch: str) -> str:
        self.log.append(f"commit {number} {branch}")
        return f"commit{number}"

    async def deliver(self) -> tuple[str, ...]:
        self.log.append("deliver")
        return ()

    async def leave(self, *, keep: bool, force: bool = False) -> tuple[str, ...]:
        self.log.append(f"leave keep={keep}")
        if keep:
            return ()
        return await self.restore(next(iter(self.kept)))

    async def release(self, *, ended: bool) -> None:
        self.released.append(ended)

    async def clear(self, *, keep: str = "") -> Left:
        self.log.append(f"clear {keep}".rstrip())
        return Left(str(self.root), removed=not keep, why=keep, remove="rm" if keep else "")


class Teacher:
    """A scripted `Learner` that counts its calls."""

    def __init__(self, text: str = "", patterns: tuple[str, ...] = (), later: str = "") -> None:
        self.text, self.patterns, self.later = text, patterns, later
        self.asked: list[str] = []
        self.taught: list[LoopState] = []

    async def lessons(self, loop: str, state: LoopState, failing: Sequence[Check]) -> Lessons:
        self.asked += [one.id for one in failing]
        if state.done:
            return Lessons(self.later)
        return Lessons(self.text, self.patterns)

    async def learn(self, loop: str, state: LoopState, work: Any) -> Learnt:
        self.taught.append(state)
        return Learnt(n=len(await work.records(state.iterations[0].run)))


def contains(*wanted: str, path: str = "a.py") -> Judging:
    """Gates with one check for each text that a file must hold."""

    def judging(root: Path) -> Verdict:
        text = (root / path).read_text() if (root / path).exists() else ""
        return verdict({f"test_{n}": one in text for n, one in enumerate(wanted)})

    return judging


def means(
    root: Path,
    model: Any,
    judging: Judging,
    *,
    journal: Journal | None = None,
    tools: Iterable[Any] | None = None,
    **more: Any,
) -> LoopDependencies:
    """Returns the resources of a loop in `root`: file tools, everything allowed."""
    ground = Folder(root, judging)
    if isinstance(model, list):
        model = ScriptedModel(model)  # type: ignore[arg-type]
    made = Agent[Any, Any](
        model, tools=list(tools) if tools is not None else [file_tools(root)], approve="all",
        name="worker", instructions="You repair things.",
    )  # fmt: skip
    given: dict[str, Any] = {
        "log": MemoryLog(), "journal": journal or MemoryJournal(),
        "environment": lambda loop, state: ground, "agent": lambda folder, state: made, **more,
    }  # fmt: skip
    return LoopDependencies(**given)


def ground_of(given: LoopDependencies) -> Folder:
    found = given.environment("", LoopState())
    assert isinstance(found, Folder)
    return found


def wish(root: Path, task: str = "Make the failing tests pass.", **more: Any) -> LoopRequest:
    bounds = more.pop("bounds", LoopLimits(iterations=3))
    return LoopRequest(task, ("python -m pytest -q",), str(root), bounds, **more)


def state_after(*events: loop_events.LoopEvent, at: int = 1000) -> LoopState:
    """The state after these facts, one second apart."""
    return fold([loop_events.LoopRecord(n, at + 1000 * n, one) for n, one in enumerate(events)])


def begun(quality: float = 0.0, **more: Any) -> list[loop_events.LoopEvent]:
    """The facts before the first iteration."""
    asked = LoopRequest("repair the parser of invoices", ("true",), "/", **more)
    return [
        loop_events.LoopStarted(wish=asked, owner="me"),
        loop_events.BaselineTaken(verdict=scored(quality), snapshot="s0"),
        loop_events.LessonsInjected(number=1, lessons=Lessons()),
    ]


def iteration(number: int, judged: Verdict, **more: Any) -> list[loop_events.LoopEvent]:
    """The two facts of an iteration."""
    given: dict[str, Any] = {
        "number": number, "run": f"x.{number}", "verdict": judged, "snapshot": f"s{number}",
        "status": "finished", "said": "I repair the parser of invoices",
        "spent": LoopSpending(steps=1), **more,
    }  # fmt: skip
    return [
        loop_events.IterationStarted(number=number, run=f"x.{number}", before=f"s{number - 1}"),
        loop_events.IterationEnded(**given),
    ]


def goals(model: ScriptedModel | FunctionModel) -> list[str]:
    """Returns the goal of each run as its model received it."""
    assert isinstance(model, ScriptedModel)
    found = dict.fromkeys([asked.messages[1].content for asked in model.requests])
    return [re.sub(r"\s+$", "", one) for one in found]

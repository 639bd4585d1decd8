"""Replays, rechecks and policy tests reach nothing: no code of the agent, no file, no network."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from taofold import Agent, Hook, Policy, Tier, tool
from taofold.backtest import StoredAgents, backtest
from taofold.backtest.policies import PolicyBacktest
from taofold.backtest.recheck import RecheckReport, recheck
from taofold.backtest.stored_calls import rows_since
from taofold.core import events as e
from taofold.core.errors import LogError
from taofold.log.log import Log, WrappedLog
from taofold.log.open import open_log
from tests.runtime.kit import Memo, act, finish

pytestmark = pytest.mark.anyio
_WRITES = ("w", "a", "x", "+")
_EFFECTS = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.symlink",
    "os.chmod",
    "shutil.rmtree",
    "import",
)
_seen: list[str] = []
_watching = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set(_WRITES):
        _seen.append(f"open {arguments[0]}")
    elif event in _EFFECTS and not (event == "import" and not str(arguments[0]).startswith("evil")):
        _seen.append(f"{event} {arguments[:1]}")


sys.addaudithook(_audit)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Records effects of this process, and calls of the agent's code."""
    global _watching
    _seen.clear()
    _watching = True
    try:
        yield _seen
    finally:
        _watching = False


def called(what: str) -> None:
    """Notes that code of the agent runs."""
    if _watching:
        _seen.append(what)


class Loud(Hook):
    """A hook at each point."""

    def before_model(self, context: Any, request: Any) -> None:
        called("before_model")

    def after_model(self, context: Any, reply: Any) -> None:
        called("after_model")

    def before_tool(self, context: Any, action: Any) -> None:
        called("before_tool")

    def after_tool(self, context: Any, action: Any, result: Any) -> None:
        called("after_tool")


def preview(arguments: dict[str, Any]) -> str:
    called("preview")
    return "a preview"


def undo(arguments: dict[str, Any], result: Any) -> None:
    called("compensate")


def important(result: Any) -> str:
    called("extract")
    return str(result)


def happened(call: str) -> bool:
    called("verify")
    return True


@tool(effect="once", tier=2, preview=preview, compensate=undo, extract=important, verify=happened)
def pay(amount: int) -> str:
    """Pay."""
    called("tool")
    return f"paid {amount}"


def approve(request: Any) -> bool:
    called("approve")
    return True


def everything(log: Log, folder: Path) -> Agent[Any, Any]:
    """An agent whose every part notes that it is called."""
    child = Agent(
        Memo([act("pay", amount=1), finish("x")]), name="child", tools=[pay], hooks=[Loud()]
    )

    def reply(request: Any) -> str:
        called("model")
        turn = sum(each.role == "assistant" for each in request.conversation)
        script = (act("pay", amount=1), act("child", goal="pay"), act("look"), finish("x"))
        return script[min(turn, 3)]

    @tool(effect="read")
    def look() -> str:
        """Look."""
        called("look")
        return "seen"

    return Agent(
        Memo(choose=reply),
        name="all",
        tools=[pay, child, look],
        hooks=[Loud()],
        approve=approve,
        memory=True,
        log=log,
        snapshots=folder,
    )


class Untouched(WrappedLog):
    """A log of which each write is noted."""

    async def create(self, row: Any, **named: Any) -> NoReturn:
        raise self._noted("create")

    async def claim(self, run: str, owner: str, **named: Any) -> NoReturn:
        raise self._noted("claim")

    async def append(self, run: str, epoch: int, records: Any, **named: Any) -> NoReturn:
        raise self._noted("append")

    async def post(self, run: str, signal: Any) -> NoReturn:
        raise self._noted("post")

    async def delete(self, run: str) -> NoReturn:
        raise self._noted("delete")

    def _noted(self, what: str) -> LogError:
        called(what)
        return LogError(what)


async def test_nothing_of_an_agent_is_called_and_nothing_is_written(tmp_path: Path) -> None:
    """Mutants: `_muted_tool` keeps the preview; a replay calls hooks; a recheck appends."""
    work = tmp_path / "work"
    work.mkdir()
    log = open_log(tmp_path / "runs.db")
    agent = everything(log, work)
    result = await agent.run("go")
    assert result.success, result.error
    files = contents(tmp_path)

    report, kept = RecheckReport(), Untouched(log)
    agents = StoredAgents(kept, lambda _: agent)
    policy = Policy(tiers={"look": Tier.CARD})
    changed = StoredAgents(kept, lambda _: agent.replace(policy=policy))
    with watched() as seen:
        async for checked in recheck(kept, rows_since(kept), agents):
            report.add(checked)
        tested: PolicyBacktest = await backtest(kept, rows_since(kept), changed, policy)
        # As `runs verify` does.
        [first] = await kept.read(result.run_id, limit=1)
        assert isinstance(first.event, e.RunStarted)
        driver = await agents.of(first.event)
        await driver.agent.replace(log=kept).replay(result.run_id)
    assert seen == []
    assert (report.runs, report.differing, dict(report.unchecked)) == (2, 0, {})
    assert tested.calls >= 4
    assert contents(tmp_path) == files
    await log.close()


def contents(folder: Path) -> dict[Path, bytes]:
    """Returns all files. SQLite marks readers in `-shm`."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db-shm"]
    return {path: path.read_bytes() for path in files}


def test_the_watch_sees_effects(tmp_path: Path) -> None:
    """A check that cannot fail proves nothing."""
    with watched() as seen:
        (tmp_path / "x").write_text("x")
        (tmp_path / "x").unlink()
        pay.function(amount=1)  # type: ignore[misc]
    assert [each.split()[0] for each in seen] == ["open", "os.remove", "tool"]

"""Identifies a run's owner by pid, start time, boot id and pid namespace."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from taofold.runtime import ownership
from tests.ports import PATIENCE

pytestmark = pytest.mark.anyio

HERE = ownership.me().split("|")[0]
NEVER = 4_194_304
"""A pid that Linux never assigns."""


def named(
    pid: int, started: str | None = None, kind: str = "own", here: str = HERE, tail: str = "ab"
) -> str:
    start = ownership._start_time(pid) if started is None else started
    return "|".join((here, str(pid), start, kind, tail))


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", f"{2 * PATIENCE}"])
    yield process
    process.kill()
    process.wait()


def stat(state: str, name: str = "python", start: str = "4711") -> str:
    """A line of /proc/PID/stat with 52 fields."""
    return f"7 ({name}) {state} " + " ".join([*map(str, range(1, 19)), start, *["9"] * 30])


@pytest.mark.parametrize(
    ("line", "started"),
    [
        (stat("S"), "4711"),
        (stat("R", start="5"), "5"),
        (stat("S", name="a (b) c) 1 2 3"), "4711"),
        (stat("Z"), ""),
        (stat("X"), ""),
        ("", ""),
        ("7 (python) S 1 2 3", ""),
        (" ".join(stat("S").split()[:21]), ""),
        (" ".join(stat("S").split()[:22]), "4711"),
    ],
)
def test_the_start_of_a_process_is_the_twenty_second_field_of_its_line(
    line: str, started: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process name may contain spaces and brackets. A zombie or ended process has no start."""
    paths: list[str] = []
    monkeypatch.setattr(ownership, "_read", lambda path: paths.append(path) or line)
    assert ownership._start_time(7) == started
    assert paths == ["/proc/7/stat"]


def test_a_process_is_alive_with_its_own_start_time_only(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    start = ownership._start_time(sleeper.pid)
    assert start.isdigit()
    assert ownership.alive(named(sleeper.pid)) is True
    assert ownership.alive(named(sleeper.pid, str(int(start) + 1))) is False
    assert ownership.alive(named(NEVER, "1")) is False
    sleeper.kill()
    assert os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT) is not None
    assert ownership.alive(named(sleeper.pid, start)) is False, "a zombie drives nothing"


@pytest.mark.parametrize(
    "name",
    [
        named(NEVER, "1", here="another-boot/pid:[1]"),
        named(NEVER, ""),
        f"{HERE}|{NEVER}|1|own",
        f"{HERE}|{NEVER}|1|own|ab|more",
        "a worker",
        "",
    ],
)
def test_of_a_process_that_cannot_be_seen_from_here_nothing_is_known(name: str) -> None:
    assert ownership.alive(name) is None
    assert ownership.gone(name) is (name == ""), "nobody at all is gone, whoever is unknown is not"
    assert not ownership.mine(name)


def test_two_processes_of_one_pid_are_two_owners() -> None:
    """Covers a system without /proc, and a reused pid."""
    first = ownership.me()
    ownership._process.cache_clear()
    again = ownership.me()
    assert first.split("|")[:4] == again.split("|")[:4]
    assert first != again
    assert len(again.split("|")[4]) == 8
    assert again.split("|")[1:3] == [str(os.getpid()), ownership._start_time(os.getpid())]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "nobody"),
        ("worker 5", "'worker 5'"),
        ("a|b|c|d", "'a|b|c|d'"),
        (named(77, "1"), "process 77 of this machine"),
        (
            named(77, "1", here="another-boot/pid:[1]"),
            "process 77 of another machine, container or boot",
        ),
    ],
)
def test_an_owner_is_described_by_its_pid_and_by_where_it_is(name: str, words: str) -> None:
    assert ownership.described(name) == words


def test_only_a_worker_that_was_spawned_is_killed(sleeper: "subprocess.Popen[bytes]") -> None:
    assert not ownership.kill(named(sleeper.pid, kind="own"))
    assert not ownership.kill(named(sleeper.pid, kind="spawned", here="another-boot/pid:[1]"))
    assert sleeper.poll() is None
    assert ownership.kill(named(sleeper.pid, kind="spawned"), patience=PATIENCE)
    assert sleeper.wait() == -signal.SIGKILL
    assert ownership.kill(named(sleeper.pid, "1", kind="own")), "who is gone need not be killed"


def test_no_process_kills_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setenv(ownership.SPAWNED, "1")
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    ownership._process.cache_clear()
    try:
        assert not ownership.kill(ownership.me())
    finally:
        ownership._process.cache_clear()
    assert not killed


def test_a_kill_that_is_not_done_in_time_is_not_said_to_be_done(
    sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *call: killed.append(call))
    assert not ownership.kill(named(sleeper.pid, kind="spawned"), patience=0.02)
    assert killed == [(sleeper.pid, signal.SIGKILL)]

"""The PostgreSQL log satisfies every contract on a real server and reports faults of a server."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import (
    ConfigError,
    Conflict,
    Incompatible,
    LogError,
    OutcomeUnknown,
    UnknownRun,
)
from taofold.log.log import Log, RunRow, Signal
from taofold.log.uncertain_writes import CertainLog
from taofold.testing import journal_conformance
from taofold.testing.log_conformance import Broken, Contract, Medium, contracts
from taofold.testing.log_conformance import durability as log_disk
from taofold.testing.log_conformance.checks import RUN, seqs, updates
from tests import postgres
from tests.log.cutting import Proxy

pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'taofold[postgres]')")

from taofold.log.postgres import Database, PostgresJournal, PostgresLog, database
from taofold.log.postgres import schema as schema
from taofold.log.postgres.database import _Write

ALL = [
    one for one in contracts(persistent=True)
    if one is not log_disk.c36_what_was_asked_to_be_on_disk_survives_a_power_cut
]  # fmt: skip
LONG_MS = 50_000


@pytest.fixture
def url() -> str:
    """The address of an empty schema."""
    return postgres.server().url()


def title(contract: Any) -> str:
    return getattr(contract, "__name__", "")


@pytest.mark.parametrize("contract", ALL, ids=title)
def test_the_postgres_log_keeps(contract: Contract, url: str) -> None:
    """Its opener is sent to other processes."""
    asyncio.run(contract(partial(PostgresLog, url)))  # type: ignore[arg-type]


@pytest.mark.parametrize("contract", journal_conformance.contracts(persistent=True), ids=title)
def test_the_postgres_journal_keeps(contract: Any, url: str) -> None:
    asyncio.run(contract(partial(PostgresJournal, url)))


class PostgresMedium:
    """A server that confirms commits before they are on disk, and crashes."""

    def __init__(self, kind: type[PostgresLog] = PostgresLog) -> None:
        folder = postgres.server().binaries
        options = ("synchronous_commit=off", "wal_writer_delay=10s")
        self.server, self.kind = postgres.Server(folder, *options, safe=True), kind
        self.url = self.server.url()

    def __call__(self) -> PostgresLog:
        return self.kind(self.url)

    def cut_power(self) -> None:
        self.server.stop(signal.SIGQUIT)
        self.server.start()


class Volatile(PostgresLog):
    """Mutant: `disk` means nothing."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.database._connect = self._strong  # type: ignore[method-assign]
        self._real = Database._connect

    async def _strong(self) -> Any:
        connection = await self._real(self.database)
        self.database._weak = False
        return connection


@pytest.mark.parametrize("kind", [PostgresLog, Volatile])
def test_what_it_was_asked_to_keep_survives_a_crash_of_the_server(kind: type[PostgresLog]) -> None:
    medium = PostgresMedium(kind)
    assert isinstance(medium, Medium)
    work = log_disk.c36_what_was_asked_to_be_on_disk_survives_a_power_cut(medium)
    try:
        if kind is PostgresLog:
            asyncio.run(work)
        else:
            with pytest.raises(Broken, match="power cut"):
                asyncio.run(work)
    finally:
        medium.server.remove()


# ------------------------------------------------------------------------- broken connections
@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Stands between a log and the server, and cuts."""
    with Proxy(postgres.server().root) as made:
        yield made


def test_a_write_whose_answer_is_lost_happens_once(proxy: Proxy, url: str) -> None:
    """The server has committed, and the connection breaks before its reply."""

    async def main() -> None:
        bare = PostgresLog(proxy.through(url))
        log = CertainLog(bare)
        await log.create(RunRow(RUN, "running"), records=updates(RUN, 0, 1), owner="me")
        for seq in range(1, 5):
            proxy.cut_answer()
            assert await log.append(RUN, 1, updates(RUN, seq, 1), status="running")
        proxy.cut_answer()
        assert await log.post(RUN, Signal("s", "steer"))
        assert not await log.post(RUN, Signal("s", "steer"))
        proxy.cut_answer()
        assert (await log.claim(RUN, "me", epoch=1)).epoch == 2
        proxy.cut_answer()
        await log.create(RunRow("new", "running"), records=updates("new", 0, 1), owner="me")
        assert proxy.cuts == 7
        assert await seqs(log) == list(range(5))
        assert len(await log.inbox(RUN)) == 1
        proxy.cut_answer()
        with pytest.raises(OutcomeUnknown):
            await bare.append(RUN, 2, updates(RUN, 5, 1))
        assert await seqs(log) == list(range(6))
        await log.close()

    asyncio.run(main())


def test_reads_and_writes_wait_for_a_server_that_restarts() -> None:
    """`pg_ctl restart -m immediate` under a log in use: nothing is lost, nothing twice."""
    server = postgres.Server(postgres.server().binaries, safe=True)

    async def main() -> None:
        log = CertainLog(PostgresLog(server.url(), wait_s=180))
        runs = [f"r{number}" for number in range(8)]
        for run in runs:
            await log.create(RunRow(run, "running"), owner="me")

        async def drive(run: str) -> None:
            for seq in range(60):
                assert await log.append(run, 1, updates(run, seq, 1), disk=True)

        async def crash() -> None:
            for _ in range(2):
                await asyncio.sleep(0.15)
                await asyncio.to_thread(server.stop, signal.SIGQUIT)
                await asyncio.to_thread(server.start)

        await asyncio.gather(crash(), *[drive(run) for run in runs])
        for run in runs:
            assert await seqs(log, run) == list(range(60))
        await log.close()

    try:
        asyncio.run(main())
    finally:
        server.remove()


def test_cancelling_a_write_neither_loses_nor_repeats_it(url: str) -> None:
    async def main() -> None:
        log = PostgresLog(url)
        await log.create(RunRow(RUN, "running"), owner="me")
        for seq in range(20):
            task = asyncio.create_task(log.append(RUN, 1, updates(RUN, seq, 1)))
            for _ in range(seq % 4):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            if (await log.row(RUN)).events == seq:  # it was cancelled before it began
                await log.append(RUN, 1, updates(RUN, seq, 1))

        async def late() -> None:
            async with asyncio.timeout(0):
                await log.append(RUN, 1, updates(RUN, 20, 1))
                await asyncio.sleep(60)

        with pytest.raises(TimeoutError):
            await late()
        await log.close()

    asyncio.run(main())


# ------------------------------------------------------------------------------ notifications
def test_others_hear_of_statuses_and_messages_and_not_of_events(url: str) -> None:
    async def main() -> None:
        one, two = PostgresLog(url), PostgresLog(url)
        heard: list[str] = []
        new = threading.Condition()

        def listen(run: str) -> None:
            with new:
                heard.append(run)
                new.notify_all()

        def wait_for(run: str) -> None:
            with new:
                assert new.wait_for(lambda: run in heard, 180), heard
                heard.clear()

        stop = two.on_change(listen)
        await asyncio.to_thread(wait_for, "")  # it listens
        await one.create(RunRow("a", "running"), owner="me")
        await asyncio.to_thread(wait_for, "a")
        await one.append("a", 1, updates("a", 0, 3))
        await one.post("a", Signal("s", "steer"))
        await asyncio.to_thread(wait_for, "a")
        await one.append("a", 1, [], status="waiting")
        await asyncio.to_thread(wait_for, "a")
        stop()
        await one.close()
        await two.close()

    asyncio.run(main())


def test_counting_costs_the_same_however_much_happened(url: str) -> None:
    async def main() -> None:
        log = PostgresLog(url)
        await log.create(RunRow("a", "running"), owner="me")
        await log.create(RunRow("b", "running", principal="ann"), owner="me")
        for number in range(1, 450):
            await log.append("a", 1, [], status="waiting" if number % 2 else "running")
        rows = await log.database.fetch("select count(*) from taofold_changes")
        assert rows[0][0] < 1000
        wanted = {"running": 1, "waiting": 1}
        assert await log.count() == wanted
        await asyncio.gather(*[log.compact() for _ in range(4)])
        rows = await log.database.fetch("select count(*) from taofold_changes")
        assert rows == [(0,)]
        assert await log.count() == wanted
        assert await log.count(principal="ann") == {"running": 1}
        await log.close()

    asyncio.run(main())


def test_two_event_loops_may_use_one_log(url: str) -> None:
    log = PostgresLog(url)
    asyncio.run(log.create(RunRow(RUN, "running"), owner="me"))  # type: ignore[arg-type]
    asyncio.run(log.append(RUN, 1, updates(RUN, 0, 1)))
    assert asyncio.run(seqs(log)) == [0]
    asyncio.run(log.close())


def test_leases_are_renewed_while_the_event_loop_is_held_up(url: str) -> None:
    async def main() -> None:
        log = PostgresLog(url)
        await log.create(RunRow(RUN, "running"), owner="me", lease_ms=LONG_MS)
        kept: list[set[str]] = []
        thread = threading.Thread(target=lambda: kept.append(log.renew("me", [RUN], LONG_MS)))
        thread.start()
        thread.join(180)  # this blocks the loop
        assert kept == [{RUN}]
        await log.close()

    asyncio.run(main())


def freeze(server: postgres.Server) -> Callable[[], None]:
    """Stops all processes of a server, as a lost machine: no response and no broken connection.

    Returns the function that resumes them.
    """
    assert server._process is not None
    main = server._process.pid
    children = subprocess.run(["pgrep", "-P", str(main)], capture_output=True, text=True).stdout
    everybody = [main, *map(int, children.split())]

    def send(what: signal.Signals) -> None:
        for process in everybody:
            # A child may have ended since: PostgreSQL starts workers of its own.
            with suppress(ProcessLookupError):
                os.kill(process, what)

    send(signal.SIGSTOP)
    return lambda: send(signal.SIGCONT)


@pytest.fixture
def own() -> Iterator[postgres.Server]:
    """A server of this test's own."""
    server = postgres.Server(postgres.server().binaries)
    yield server
    server.remove()


def test_a_server_that_stops_answering_is_given_up_and_asked_again(own: postgres.Server) -> None:
    """Mutant: the client never closes the connection."""
    log = PostgresLog(Database(own.url(), wait_s=180))

    async def main() -> None:
        await log.create(RunRow(RUN, "running"), owner="me", lease_ms=LONG_MS)
        await log.append(RUN, 1, updates(RUN, 0, 1))
        log.database._answer_s = 3  # not before: a busy server may take longer for these two
        thaw = freeze(own)
        threading.Timer(5, thaw).start()
        async with asyncio.timeout(180):
            assert (await log.row(RUN)).status == "running"
        thaw = freeze(own)
        try:
            with pytest.raises(OutcomeUnknown):
                async with asyncio.timeout(180):
                    await log.append(RUN, 1, updates(RUN, 1, 1))
        finally:
            thaw()
        assert await seqs(log) in ([0], [0, 1])
        await log.close()

    asyncio.run(main())


def test_a_lease_is_renewed_by_a_new_connection_when_the_old_ones_are_dead(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failover behind NAT: all connections of the pool hang, and the server works."""
    with Proxy(postgres.server().root) as proxy:
        log = PostgresLog(Database(f"{proxy.through(url)}&pool_max=2"))

        async def main() -> None:
            await log.create(RunRow(RUN, "running"), owner="me", lease_ms=LONG_MS)
            await asyncio.gather(*[log.row(RUN) for _ in range(2)])
            # A dead connection is given up soon, and a new one has all the time of a slow machine.
            monkeypatch.setattr(database, "_RENEW_S", 0.5)
            proxy.on_connection = lambda: monkeypatch.setattr(database, "_RENEW_S", 180.0)
            proxy.swallow()
            hung = [asyncio.create_task(log.row(RUN)) for _ in range(2)]
            await asyncio.sleep(0.1)  # now the pool has no free connection
            async with asyncio.timeout(180):
                assert await asyncio.to_thread(log.renew, "me", [RUN], LONG_MS) == {RUN}
            proxy.break_all()
            await asyncio.gather(*hung)
            await log.close()

        asyncio.run(main())


LOCK = 51
BLOCKED = f"select 1 from pg_advisory_xact_lock_shared({LOCK})"
"""A statement that waits until `blocked` ends."""


@contextmanager
def blocked(url: str) -> Iterator[Callable[[], int]]:
    """Holds a lock. Yields a function that counts the statements which wait for it."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"select pg_advisory_lock({LOCK})".encode())

        def waiting() -> int:
            found = db.execute("select count(*) from pg_locks where not granted and objid = 51")
            return int(found.fetchall()[0][0])

        yield waiting


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 180
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_closing_waits_for_what_other_threads_asked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sign of life under way when its log is closed must end, or no lease is renewed again."""
    monkeypatch.setattr("taofold.log.postgres.database._LOCK_MS", 300_000)
    log = PostgresLog(url)
    log.database.open()
    found: list[Any] = []
    slow = log.database.fetch(BLOCKED)
    thread = threading.Thread(target=lambda: found.append(asyncio.run(slow)), daemon=True)
    closing = threading.Thread(target=log.database.close, daemon=True)
    with blocked(url) as waiting:
        thread.start()
        until(lambda: waiting() == 1)
        closing.start()
        closing.join(0.3)
        assert closing.is_alive()
    closing.join(180)
    thread.join(180)
    assert found == [[(1,)]]


# ------------------------------------------------------------------------------ what is wrong
@pytest.mark.parametrize(
    ("dsn", "kind", "text"),
    [
        ("postgresql://user@127.0.0.1:1/none", LogError, "cannot be reached"),
        ("postgresql://user@host.invalid/none", LogError, "cannot be reached"),
        ("postgresql://a:geheim@[::1/x", ConfigError, "not one of a PostgreSQL database"),
        ("postgresql://a:geheim@127.0.0.1/x?nonsense=1", ConfigError, "not one of a PostgreSQL"),
        ("postgresql://a:geheim@127.0.0.1:1/x?pool_max=none", ConfigError, "pool_max"),
        ("postgresql://a:geheim@127.0.0.1:1/x", LogError, "cannot be reached"),
    ],
)
def test_a_wrong_address_is_said_at_once_and_without_its_password(
    dsn: str, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        PostgresLog(dsn).open()
    error: BaseException | None = caught.value
    while error is not None:
        assert "geheim" not in str(error)
        error = error.__cause__


def test_a_database_that_does_not_exist_is_said_to(url: str) -> None:
    with pytest.raises(LogError, match="does not exist"):
        PostgresLog(url.replace("/postgres?", "/missing?")).open()


def test_a_newer_layout_is_left_alone(url: str) -> None:
    async def main() -> None:
        log = PostgresLog(url)
        await log.create(RunRow(RUN, "running"))
        await log.database.fetch(
            "update taofold_meta set value = %b where key = 'layout' returning 1",
            (str(schema.VERSION + 1),),
        )
        await log.close()
        with pytest.raises(Incompatible, match="newer taofold"):
            await PostgresLog(url).rows()

    asyncio.run(main())


def test_lacking_rights_are_said() -> None:
    server = postgres.server()
    url = server.url()
    name = url.rpartition("%3D")[2]
    server.execute(f"create role guest_{name} login")
    server.execute(f"grant usage on schema {name} to guest_{name}")
    guest = url.replace("postgres@", f"guest_{name}@")
    with pytest.raises(LogError, match="lacks a right"):
        PostgresLog(guest).open()
    PostgresLog(url).open()
    with pytest.raises(LogError, match="right"):
        PostgresLog(guest).open()
    server.execute(
        f"grant select on taofold_meta to guest_{name}".replace("taofold", f"{name}.taofold")
    )
    with pytest.raises(LogError, match="lacks rights on"):
        PostgresLog(guest).open()
    server.execute(
        f"grant select, insert, update, delete on all tables in schema {name} to guest_{name}"
    )
    log = PostgresLog(guest)
    asyncio.run(log.create(RunRow(RUN, "running"), records=updates(RUN, 0, 1)))  # type: ignore[arg-type]
    assert asyncio.run(log.post(RUN, Signal("s", "steer")))
    asyncio.run(log.delete(RUN))


def test_an_exhausted_pool_is_said_and_passes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taofold.log.postgres.database._LOCK_MS", 300_000)

    async def main() -> None:
        log = PostgresLog(f"{url}&pool_max=2")
        await log.create(RunRow(RUN, "running"))
        with blocked(url) as waiting:
            slow = [asyncio.create_task(log.database.fetch(BLOCKED)) for _ in range(2)]
            await asyncio.to_thread(until, lambda: waiting() == 2)
            # Not before: a connection may take longer than this on a busy machine.
            log.database._wait_s = 0.3
            with pytest.raises(LogError, match="all 2 connections"):
                await log.row(RUN)
            # The owner of a run does not need the pool.
            assert await log.append(RUN, 0, updates(RUN, 0, 1))
        await asyncio.gather(*slow)
        log.database._wait_s = 180
        assert (await log.row(RUN)).events == 1
        await log.close()

    asyncio.run(main())


def test_a_row_that_somebody_locks_holds_up_nobody_else(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr("taofold.log.postgres.database._LOCK_MS", 1000)

    async def main() -> None:
        log = PostgresLog(url)
        for run in ("locked", "free"):
            await log.create(RunRow(run, "running"), owner="me")
        with psycopg.connect(url) as other:
            other.execute("select from taofold_runs where run = %b for update", (b"locked",))
            both = [log.append(run, 1, updates(run, 0, 1)) for run in ("locked", "free")]
            locked, free = await asyncio.gather(*both, return_exceptions=True)
        assert free is True
        assert isinstance(locked, LogError)
        assert "locked" in str(locked)
        assert "Nothing of this write was saved" in str(locked)
        assert await log.append("locked", 1, updates("locked", 0, 1))
        await log.close()

    asyncio.run(main())


_SMALL = """
set -e
mount -t tmpfs -o size=24m small "$1"
chmod 777 "$1"
exec unshare --user --map-user=1000 --map-group=1000 -- "$2" -D "$3" -h '' -k "$4" -c fsync=off
"""


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    """The tables lie on a disk of 24 MB."""
    if os.geteuid() != 0:
        pytest.skip("a small disk needs root")
    server = postgres.Server(postgres.server().binaries)
    server.stop()
    small = server.root / "small"
    small.mkdir()
    command = [
        "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _SMALL, "sh", str(small),
        str(server.binaries / "postgres"), str(server.data), str(server.root),
    ]  # fmt: skip
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        ready = [server.binaries / "pg_isready", "-q", "-h", str(server.root)]
        while subprocess.run(ready).returncode:
            if process.poll() is not None:
                pytest.skip(f"no small disk can be made here: {output.read_text()[-200:]!r}")
            time.sleep(0.02)
        server.execute(f"create tablespace small location '{small}'")
        server.execute("create database filled tablespace small")
        url = f"postgresql://postgres@/filled?host={server.root}"
        asyncio.run(_fill(url))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        server.remove()


async def _fill(url: str) -> None:
    log = PostgresLog(url)
    await log.create(RunRow(RUN, "running"), owner="me")
    written, error = 0, ""
    big = os.urandom(200_000).hex()
    while written < 400 and not error:
        try:
            await log.append(RUN, 1, updates(RUN, written, 1, value=big))
            written += 1
        except LogError as refusal:
            error = str(refusal)
    assert "disk is full. Nothing of this write was saved" in error
    assert 3 < written < 399
    assert await seqs(log) == list(range(written))
    await log.delete(RUN)
    await log.database.fetch("select 1")
    await log.close()


def _in_child(log: PostgresLog, said: Any) -> None:
    try:
        said.put(len(asyncio.run(log.rows())))
    except BaseException as error:
        said.put(repr(error))


@pytest.mark.skipif(sys.platform != "linux", reason="fork is safe only on Linux")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_connects_anew(url: str) -> None:
    log = PostgresLog(url)
    asyncio.run(log.create(RunRow(RUN, "running")))  # type: ignore[arg-type]
    context = multiprocessing.get_context("fork")
    said: Any = context.Queue()
    child = context.Process(target=_in_child, args=(log, said))
    child.start()
    assert said.get(timeout=180) == 1
    child.join()
    assert asyncio.run(seqs(log)) == []
    asyncio.run(log.close())


# ------------------------------------------------------------------------------ mutants
def without(text: str, instead: str = "") -> Callable[[pytest.MonkeyPatch], None]:
    """The functions of the database, with a piece of their text replaced."""

    def change(patch: pytest.MonkeyPatch) -> None:
        functions = tuple(function.replace(text, instead) for function in schema.FUNCTIONS)
        assert functions != schema.FUNCTIONS
        patch.setattr(schema, "FUNCTIONS", functions)

    return change


MUTANTS = {
    "no fence": (without("r.epoch <> p_epoch then", "false then"), "c04"),
    "no lease": (without("and not p_force and p_owner <> r.owner", "and false"), "c25"),
    "unlocked parking": (
        without("from taofold_runs where run = p_run for no key update",
                "from taofold_runs where run = p_run"), "c32"),
    "an unlocked session": (
        without(f"perform pg_advisory_xact_lock({schema._LOCK}, hashtext("
                "encode(p_session, 'hex')));"), "c34"),
    "a loud park": (without("if p_quiet and", "if false and"), "c10"),
    "a message that wakes nobody": (without("if p_wakes then", "if false then"), "c27"),
    "an old owner's lease": (without("on conflict (number) do update set owner = excluded.owner, ",
                                     "on conflict (number) do update set "), "c25"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(MUTANTS))
def test_the_contracts_notice(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, number = MUTANTS[name]
    change(monkeypatch)
    (contract,) = [one for one in ALL if title(one).startswith(number)]

    def opened() -> Log:
        return PostgresLog(url)

    with pytest.raises(Broken):
        asyncio.run(contract(opened))  # type: ignore[arg-type]


def test_writes_of_one_process_share_a_transaction_and_keep_their_order(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = Database._sent

    async def sent(self: Database, db: Any, batch: list[_Write]) -> Any:
        sizes.append(len(batch))
        return await real(self, db, batch)

    monkeypatch.setattr(Database, "_sent", sent)

    async def main() -> None:
        log = PostgresLog(url)
        runs = [f"r{number}" for number in range(20)]
        for run in runs:
            await log.create(RunRow(run, "running"), owner="me")
        calls = [log.append(run, 1, updates(run, seq, 1)) for run in runs for seq in range(5)]
        stale = log.append("r3", 7, updates("r3", 5, 1))
        outcomes = await asyncio.gather(*calls, stale, return_exceptions=True)
        assert outcomes[:-1] == [True] * 100
        assert isinstance(outcomes[-1], Conflict)
        await log.close()

    asyncio.run(main())
    assert max(sizes) > 10


def test_what_many_runs_write_at_once_is_what_each_of_them_wrote(url: str) -> None:
    """Mutants: a slice begins one further; a value that cannot be written undoes the others."""

    async def main() -> None:
        log = PostgresLog(url)
        runs = [f"r{number}" for number in range(12)]
        for run in runs:
            await log.create(RunRow(run, "running"), owner="me")
            for letter in "ab":
                await log.post(run, Signal(letter + run, "steer", "ann", 1))
        written = {run: updates(run, 0, number % 4) for number, run in enumerate(runs)}
        blobs = {run: {f"{run}-{n}": run.encode() * n} for n, run in enumerate(runs) if n % 3}
        calls = [
            log.append(
                run, 1, written[run], blobs=blobs.get(run), consume=["a" + run][: n % 2],
                status="waiting" if n % 5 == 0 else "", waiting_for=run, wake_at=n,
            )
            for n, run in enumerate(runs)
        ]  # fmt: skip
        poison = log.append("r4", 1, [], status="waiting", wake_at=2**70)
        outcomes = await asyncio.gather(*calls, poison, return_exceptions=True)
        assert outcomes[:-1] == [True] * len(runs)
        assert isinstance(outcomes[-1], LogError)
        assert not isinstance(outcomes[-1], OutcomeUnknown)
        for n, run in enumerate(runs):
            assert await log.read(run) == written[run]
            assert [s.id[0] for s in await log.inbox(run)] == (["b"] if n % 2 else ["a", "b"])
            for digest, content in blobs.get(run, {}).items():
                assert await log.blob(digest) == content
            row = await log.row(run)
            waits = ("waiting", run, n) if n % 5 == 0 else ("running", "", 1)
            assert (row.status, row.waiting_for, row.wake_at) == waits
        await log.close()

    asyncio.run(main())


def test_many_runs_look_into_their_inboxes_at_once_and_each_finds_its_own(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants: one query per run; all get the first one's rows; one unknown run fails all."""
    asked: list[int] = []
    real = Database._read_batch

    async def counted(self: Database, batch: Any) -> None:
        asked.append(len(batch))
        await real(self, batch)

    monkeypatch.setattr(Database, "_read_batch", counted)

    async def main() -> None:
        log = PostgresLog(url)
        runs = [f"r{number}" for number in range(20)]
        for number, run in enumerate(runs):
            await log.create(RunRow(run, "running"), owner="me")
            for place in range(number % 3):
                await log.post(run, Signal(f"{run}-{place}", "steer", "ann", 1))
        looks = [log.inbox(run) for run in [*runs, "r5", "nobody's"]]
        *inboxes, nobody = await asyncio.gather(*looks, return_exceptions=True)
        for run, messages in zip([*runs, "r5"], inboxes, strict=True):
            assert isinstance(messages, list)
            count = int(run[1:]) % 3
            assert [message.id for message in messages] == [f"{run}-{n}" for n in range(count)]
        assert isinstance(nobody, UnknownRun)
        await log.close()
        with pytest.raises(LogError, match="closed"):
            await log.inbox("r1")

    asyncio.run(main())
    assert sum(asked) == 22
    assert len(asked) <= 3


def test_questions_wait_for_a_server_that_restarts_and_are_answered() -> None:
    server = postgres.Server(postgres.server().binaries, safe=True)

    async def main() -> None:
        url = server.url()
        hasty, log = PostgresLog(url), PostgresLog(url, wait_s=180)
        await log.create(RunRow(RUN, "running"))
        await hasty.row(RUN)
        hasty.database._wait_s = 0.3
        server.stop()
        with pytest.raises(LogError):
            await asyncio.gather(hasty.inbox(RUN), hasty.inbox(RUN))
        later = [asyncio.create_task(log.inbox(RUN)) for _ in range(3)]
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.start)
        assert await asyncio.gather(*later) == [[], [], []]
        await hasty.close()
        await log.close()

    try:
        asyncio.run(main())
    finally:
        server.remove()


def _opens(url: str, barrier: Any, said: Any) -> None:
    barrier.wait(180)
    try:
        PostgresLog(url).open()
        said.put("")
    except BaseException as error:
        said.put(repr(error))


def test_several_processes_may_be_the_first(url: str) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, said = context.Barrier(4), context.Queue()
    processes = [context.Process(target=_opens, args=(url, barrier, said)) for _ in range(4)]
    for process in processes:
        process.start()
    assert [said.get(timeout=180) for _ in processes] == [""] * 4
    for process in processes:
        process.join()

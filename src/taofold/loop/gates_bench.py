"""Runs one gate where an agent cannot reach it, and brings back what happened.

A clean environment, programs found at the loop's start, an isolated interpreter, scripts and
reports outside the work root, protected files read-only, in a container where there is one.
Knows nothing about baselines and verdicts.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from time import monotonic, time
from typing import Final

from taofold.core.errors import ConfigError
from taofold.loop.check import Gate
from taofold.loop.checks import recognise
from taofold.loop.checks.recognise import Plan
from taofold.loop.checks.report import Report, stream
from taofold.loop.gates_path import environment, homes, interpreter
from taofold.loop.gates_wire import Wire
from taofold.tools import process
from taofold.tools.command import Contain
from taofold.tools.containment import HOME, Containment, python_homes, why_not
from taofold.tools.jail import HIDDEN, PROTECTED
from taofold.tools.output import Output

MOST_FROZEN: Final = 1_500
"""Protected files that are mounted read-only; of more only the audit afterwards tells."""
MOST_PRINTED: Final = 16_000_000
_STRICT: Final = ("/bin/bash", "--posix", "-o", "pipefail", "-c")
SHELL: Final = _STRICT if Path(_STRICT[0]).exists() else ("/bin/sh", "-c")
"""`pytest | tail` ends as pytest does, not as tail, where the shell can say so."""
_SCRIPTS: Final = ("launch.py", "pytest_report.py", "unittest_report.py", "node_reporter.mjs")


@dataclass(frozen=True, slots=True)
class Trust:
    """What the launcher must know of the baseline."""

    modules: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a gate, unjudged."""

    plan: Plan
    report: Report
    argv: tuple[str, ...] = ()
    code: int | None = None
    output: str = ""
    printed: str = ""
    fault: str = ""
    timed_out: bool = False
    started_ms: int = 0
    ms: int = 0


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how gates run."""

    root: Path
    path: str
    """Where programs are looked for."""
    network: bool = False
    contain: Contain = "auto"
    frozen: tuple[str, ...] = ()
    """Files below the root that a gate may only read."""
    bytecode: Path | None = None
    """The runner's compiled modules, used in a container only; None = all are compiled anew."""
    keeps: bool = False
    """Fill `bytecode`. A gate of the project must never: what is tested runs in its process."""

    @property
    def why_not(self) -> str:
        """Why gates are not contained; "" if they are."""
        return "contain='never'" if self.contain == "never" else why_not()

    def program(self, gate: Gate) -> str:
        """The interpreter or the program that starts first."""
        word = planned(gate).argv[0]
        if word.startswith("\0python:"):
            word = interpreter(Path(self._found(word.removeprefix("\0python:"), gate))) or "python"
        return self._found(word, gate)

    async def run(self, gate: Gate, trust: Trust) -> Ran:
        """Run `gate` once, for at most its timeout."""
        plan = planned(gate)
        scratch = Path(tempfile.mkdtemp(prefix="taofold-gate-"))
        try:
            return await self._run(gate, plan, trust, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    async def _run(self, gate: Gate, plan: Plan, trust: Trust, scratch: Path) -> Ran:
        for name in _SCRIPTS:
            script = files("taofold.loop.runners").joinpath(name)
            (scratch / name).write_bytes(script.read_bytes())
        wire = Wire(self._settings(gate, trust))
        try:
            argv = self._filled(plan.argv, scratch, wire, gate)
            printed, output = bytearray(), Output()

            def heard(chunk: bytes) -> None:
                output.feed(chunk)
                printed.extend(chunk[: MOST_PRINTED - len(printed)])

            began, started = time(), monotonic()
            code, fault, late = None, "", False
            wire.listen()
            try:
                async with asyncio.timeout(gate.timeout):
                    code = await self._process(argv, gate, scratch, wire, heard)
            except TimeoutError:
                late, fault = True, f"it did not end within {gate.timeout:g} s"
            except process.Flood as error:
                fault = str(error)
            except OSError as error:
                fault = f"it cannot be started: {error.strerror or error}"
            spent = int((monotonic() - started) * 1000)
            raw = wire.taken()
            text = printed.decode("utf-8", "replace")
            if plan.wire:
                report = stream(raw, wire.nonce, str(self.root))
            else:
                report = recognise.printed(plan.runner, text, str(self.root))
            return Ran(
                plan, report, _shown(argv, scratch), code, output.text, text, fault, late,
                int(began * 1000), spent,
            )  # fmt: skip
        finally:
            wire.close()

    async def _process(
        self, argv: list[str], gate: Gate, scratch: Path, wire: Wire, heard: object
    ) -> int:
        assert callable(heard)
        where = self.root / gate.folder
        given = environment(self.path, gate)
        if any([word.startswith("--test-reporter") for word in argv]):
            given["TAOFOLD_GATE_IN"] = str(wire.source)
        if self.why_not:
            home = scratch / "home"
            home.mkdir()
            given |= {"HOME": str(home), "TMPDIR": str(home)}
            return await process.run(
                argv, folder=where, environment=given, heard=heard, inherited=wire.given
            )
        box = Containment(self.root, self.network, self._readable(argv, scratch), PROTECTED, HIDDEN)
        given |= {"HOME": HOME, "TMPDIR": "/tmp"}
        covers = self._covers()
        if self.keeps and self.bytecode is not None:
            covers += ["--bind", str(self.bytecode), str(self.bytecode)]
        async with box.around(argv, where, covers) as (wrapped, inherited):
            return await process.run(
                wrapped,
                folder=self.root,
                environment=given,
                heard=heard,
                inherited=(inherited, *wire.given),
            )

    def _covers(self) -> list[str]:
        """Mounts that make the protected files read-only."""
        if len(self.frozen) > MOST_FROZEN:
            return []
        options: list[str] = []
        for path in self.frozen:
            place = self.root / path
            if place.is_file() and not place.is_symlink():
                options += ["--ro-bind", str(place), str(place)]
        return options

    def _readable(self, argv: Sequence[str], scratch: Path) -> tuple[Path, ...]:
        """This Python's homes, the program's, and the scripts."""
        found = {*python_homes(), scratch, *([self.bytecode] if self.bytecode else [])}
        for word in argv:
            if word.startswith("/"):
                found |= homes(Path(word))
        rustup = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
        if Path(argv[0]).name in ("cargo", "rustc", "make"):
            found |= {Path(rustup)} if Path(rustup).is_dir() else set()
            found |= homes(Path(shutil.which("cargo", path=self.path) or "/usr"))
        return tuple(sorted(p for p in found if not self.root.is_relative_to(p)))

    def _settings(self, gate: Gate, trust: Trust) -> dict[str, object]:
        more = gate.env.get("PYTHONPATH", "").split(os.pathsep)
        path = [str(self.root / gate.folder / part) for part in more if part]
        modules, exempt = list(trust.modules), list(trust.exempt)
        return {"root": str(self.root), "trusted": modules, "exempt": exempt, "path": path}

    def _filled(self, words: Sequence[str], scratch: Path, wire: Wire, gate: Gate) -> list[str]:
        """The arguments with everything named that is known only now."""
        known = {
            recognise.LAUNCHER: str(scratch / "launch.py"),
            recognise.IN: str(wire.source),
            recognise.OUT: str(wire.target),
        }
        cache = str(scratch / "cache" if self.why_not else self.bytecode or scratch / "cache")
        filled: list[str] = []
        for word in recognise.writing(words) if self.keeps else words:
            if word.startswith("\0python:"):
                found = self._found(word.removeprefix("\0python:"), gate)
                word = "python" if filled else interpreter(Path(found)) or "python"
            word = known.get(word, word)
            word = word.replace(recognise.REPORTER, str(scratch / "node_reporter.mjs"))
            word = word.replace(recognise.DEVICE, f"/dev/fd/{wire.target}")
            filled.append(word.replace(recognise.CACHE, cache))
        return [self._found(filled[0], gate), *filled[1:]]

    def _found(self, program: str, gate: Gate) -> str:
        """The program's path: on the loop's `PATH`, or below the gate's folder."""
        if "/" in program:
            return str(self.root / gate.folder / program)
        return shutil.which(program, path=self.path) or program


def planned(gate: Gate) -> Plan:
    """How this gate is run."""
    spoken = gate.argv and gate.argv[0] in (":", "cd", "export", "source", ".", "set")
    if gate.shell or not gate.argv or spoken:
        return Plan("command", (*SHELL, gate.command))
    return recognise.plan(gate.argv)


def contained(contain: Contain) -> str:
    """Why gates cannot be contained as asked for; "" if they can.

    Raises:
        ConfigError: `contain="always"` where nothing can contain.
    """
    reason = "contain='never'" if contain == "never" else why_not()
    if reason and contain == "always":
        raise ConfigError(f"gates cannot be contained: {reason}")
    return reason


def _shown(argv: Sequence[str], scratch: Path) -> tuple[str, ...]:
    """The arguments as the record keeps them: the scratch folder's name says nothing."""
    return tuple([word.replace(str(scratch), "<gate>") for word in argv])

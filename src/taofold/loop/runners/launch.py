"""Starts pytest or unittest for a gate and reports the results through a pipe.

`python -I launch.py RUNNER IN OUT ARGUMENTS…`: the settings are read from descriptor IN, reports
are written to descriptor OUT as JSON lines, each with the settings' nonce. Runs in the project's
interpreter (Python 3.8 or later) and imports nothing of taofold.

The tested code runs in this same process, so this is no proof against code written to deceive it.
It makes known ways visible: the last line names replaced functions of the runner.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import json
import os
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WATCHED = ("_pytest", "pytest", "pluggy", "unittest")
PRELOADED = ("traceback", "linecache", "doctest", "inspect", "tempfile", "shutil", "logging")


class ReportWriter:
    """Writes the report. Lines without the nonce are from other code."""

    def __init__(self, descriptor: int, nonce: str) -> None:
        # Programs that the tests start must not inherit it: they could write reports.
        os.set_inheritable(descriptor, False)
        self._descriptor, self._nonce, self._pid = descriptor, nonce, os.getpid()

    def send(self, kind: str, **values: Any) -> None:
        """Writes one line completely; a forked child writes nothing."""
        if os.getpid() != self._pid:
            return
        line = json.dumps({"n": self._nonce, "k": kind, **values}, default=str) + "\n"
        rest = line.encode("utf-8", "replace")
        while rest:
            # A pipe may take less than all of it.
            rest = rest[os.write(self._descriptor, rest) :]


class Watch:
    """Records the parts of the runner, and names those that were replaced since."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Any, str, Any, Any]] = {}
        self.found: dict[str, str] = {}
        for name, module in sorted(sys.modules.items()):
            if name.partition(".")[0] in WATCHED:
                self._remember(name, module, vars(module))
                for key, value in list(vars(module).items()):
                    if isinstance(value, type) and value.__module__ == name:
                        self._remember(name + "." + key, value, vars(value))
        self._remember("builtins", builtins, vars(builtins))
        # `write` writes the reports; a replacement could change each of them.
        self._remember("os", os, {"_exit": os._exit, "write": os.write})

    def _remember(self, name: str, owner: Any, members: Mapping[str, Any]) -> None:
        for key, value in list(members.items()):
            code = _code(value)
            if code is not None or isinstance(value, (type, types.BuiltinFunctionType)):
                self._seen[name + "." + key] = (owner, key, value, code)

    def look(self) -> None:
        """Compares once more."""
        for name, (owner, key, value, code) in self._seen.items():
            now: Any = owner.__dict__.get(key)
            # Compares the code too: `f.__code__ = …` changes a function and leaves the same object.
            if now is not value or _code(now) is not code:
                self.found[name] = str(getattr(_code(now), "co_filename", ""))


def _code(value: Any) -> Any:
    value = getattr(value, "__func__", value)
    if isinstance(value, property):
        value = value.fget
    return getattr(value, "__code__", None)


def main() -> int:
    """Reads the settings, runs, reports, and ends with the runner's exit code."""
    runner, source, target, *arguments = sys.argv[1:]
    with os.fdopen(int(source), encoding="utf-8") as file:
        settings = json.load(file)
    wire = ReportWriter(int(target), settings["nonce"])
    root = settings["root"]
    _move(*settings["moved"])
    # Before the project's folders are on the path: a `pytest.py` of the project is not the runner,
    # and cannot replace modules that the runner imports late.
    importlib.import_module(runner)
    for name in PRELOADED:
        importlib.import_module(name)
    sys.path[:0] = [*settings["path"], str(Path.cwd())]
    sys.argv = [runner, *arguments]
    if settings["apart"]:
        finder: Any = _beside("apart").Finder(settings["apart"])
        # First of all finders, so that the product is never imported in this process.
        sys.meta_path.insert(0, finder)
    run = getattr(_beside("reporters"), "run_" + runner)
    # After our own modules, before the first test.
    watch = Watch()
    ended: tuple[int, list[str], list[str]] = run(arguments, wire, watch)
    code, plugins, files = ended
    watch.look()
    own = sorted({_below(file, root) for file in files} - {""})
    wire.send("end", code=code, patched=watch.found, plugins=plugins, toolchain=own)
    return code


def _move(*places: str) -> None:
    """Redirects editable installs below the first place to the second."""
    if not places:
        return
    old, new = places

    def moved(path: Any) -> Any:
        inside = isinstance(path, str) and (path + os.sep).startswith(old + os.sep)
        return new + path[len(old) :] if inside else path

    sys.path[:] = [moved(path) for path in sys.path]
    for name, module in list(sys.modules.items()):
        mapping: Any = getattr(module, "MAPPING", None)
        for key in list(mapping or ()) if name.startswith("__editable__") else ():
            mapping[key] = moved(mapping[key])


def _beside(name: str) -> Any:
    """Returns the module of that name beside this script, which is on no path."""
    script = Path(__file__).resolve().with_name(name + ".py")
    spec = importlib.util.spec_from_file_location("_gate_" + name, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _below(file: str, root: str) -> str:
    """Returns a file relative to the root; "" if it lies elsewhere, or is installed."""
    real = os.path.realpath(file)
    installed = any(part in ("site-packages", "dist-packages") for part in Path(real).parts)
    if installed or not real.startswith(root + os.sep):
        return ""
    return os.path.relpath(real, root)


if __name__ == "__main__":
    sys.exit(main())

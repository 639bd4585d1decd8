"""Runs a folder's suite with one edit, in a fork per edit: milliseconds, no pytest.

This is for suites of plain functions and methods `test_*` without fixtures, and of `unittest`. For
others real pytest runs in a fork that has loaded it. A run may use `SECONDS` of processor time, in
addition to pytest's own (`STARTING`).
"""

import ast
import os
import resource
import shutil
import signal
import sys
import tempfile
import types
import unittest
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

SECONDS = 0.1
STARTING = 1.0
PATIENCE = 100
"""Wall clock for what sleeps or waits: a fork may have a hundredth of a core."""


class Quick:
    """Remembers the texts of the folder that it was asked about last."""

    def __init__(self) -> None:
        self._folder = ""
        self._texts: dict[str, str] = {}
        self._plain = False

    def passes(self, folder: str, path: str, old: str, new: str) -> bool:
        """Returns whether every test passes with `old` in `path` replaced by `new`."""
        if folder != self._folder:
            self._read(folder)
        texts = {**self._texts, path: self._texts[path].replace(old, new, 1)}
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _quiet(SECONDS if self._plain else STARTING + SECONDS)
                code = (
                    0 if (_plainly(texts) if self._plain else _pytest(folder, path, texts)) else 1
                )
            except BaseException:  # every exception, exit or exhausted resource of a candidate
                code = 1
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def _read(self, folder: str) -> None:
        root = Path(folder)
        self._folder = folder
        self._texts = {
            str(file.relative_to(root)): file.read_text(encoding="utf-8")
            for file in sorted(root.rglob("*.py"))
            if "__pycache__" not in file.parts
        }
        self._plain = all(_is_plain(text) for name, text in self._texts.items() if _tests(name))


def _tests(path: str) -> bool:
    return path.rpartition("/")[2].startswith("test_")


def _is_plain(text: str) -> bool:
    """Returns whether all functions take no arguments and use no pytest feature."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    tests = [node for node in nodes if node.name.startswith("test")]
    return "pytest" not in text and all(
        len(node.args.args) <= (node.args.args[:1] != [] and node.args.args[0].arg == "self")
        and not node.decorator_list
        for node in tests
    )


def _quiet(seconds: float) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    # The default action of the profiling timer ends the process.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(PATIENCE)


class _Finder:
    """Modules of the folder, from their texts."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        whole = name.replace(".", "/")
        if f"{whole}/__init__.py" in self.texts:
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return ModuleSpec(name, self) if f"{whole}.py" in self.texts else None  # type: ignore[arg-type]

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        whole = module.__name__.replace(".", "/")
        path = f"{whole}.py" if f"{whole}.py" in self.texts else f"{whole}/__init__.py"
        exec(compile(self.texts[path], path, "exec"), module.__dict__)


def _plainly(texts: dict[str, str]) -> bool:
    sys.meta_path.insert(0, _Finder(texts))  # type: ignore[arg-type]
    ran = 0
    for name, text in texts.items():
        if not _tests(name):
            continue
        module = types.ModuleType(name.removesuffix(".py").replace("/", "."))
        module.__package__ = module.__name__.rpartition(".")[0]
        exec(compile(text, name, "exec"), module.__dict__)
        for key, value in list(vars(module).items()):
            if isinstance(value, type) and issubclass(value, unittest.TestCase):
                result = unittest.TestResult()
                unittest.defaultTestLoader.loadTestsFromTestCase(value).run(result)
                ran += result.testsRun
                if not result.wasSuccessful():
                    return False
            elif isinstance(value, type) and key.startswith("Test"):
                for test in [name for name in dir(value) if name.startswith("test")]:
                    getattr(value(), test)()
                    ran += 1
            elif key.startswith("test") and isinstance(value, types.FunctionType):
                value()
                ran += 1
    return ran > 0


def _pytest(folder: str, path: str, texts: dict[str, str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="quick-") as place:
        work = Path(place) / "work"
        shutil.copytree(folder, work, ignore=shutil.ignore_patterns("bug.toml", "__pycache__"))
        (work / path).write_text(texts[path], encoding="utf-8")
        os.chdir(work)
        sys.path.insert(0, str(work))
        sys.dont_write_bytecode = True
        # Installed plugins take seconds to load, which no suite here asks for.
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        return pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--tb=no"]) == 0

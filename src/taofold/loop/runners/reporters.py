"""Runs pytest or unittest and reports each test to a gate. Loaded by `launch.py`.

Each `run_…` takes the runner's arguments, the writer of the report and the watch over the runner's
own code. Python 3.8 or later; imports nothing of taofold.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
import traceback
import unittest
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

LONGEST = 20000
ONE_PROCESS: tuple[tuple[str, Any], ...] = (
    ("numprocesses", None),
    ("dist", "no"),
    ("tx", []),
    ("looponfail", False),
)
_FIXTURE = re.compile(r"setUp(?:Class|Module) \((.+)\)$")
IMPORT_FAILURES = ("unittest.loader._FailedTest.", "unittest.loader.ModuleSkipped.")


class PytestReporter:
    """A pytest plugin: collected ids, then one line per test, when its teardown is over."""

    def __init__(self, wire: Any, watch: Any) -> None:
        self._wire, self._watch = wire, watch
        self._phases: dict[str, tuple[str, Any, float]] = {}
        self._types: dict[str, str] = {}
        self._functions: dict[str, dict[tuple[str, int], str]] = {}
        self._loading: dict[str, list[list[Any]]] = {}
        self.plugins: list[str] = []
        self.files: list[str] = []

    def pytest_cmdline_parse(self) -> Generator[None, Any, None]:
        """A hook wrapper. Tests run in this process: workers of xdist would not be isolated."""
        outcome = yield
        option = outcome.get_result().option
        for name, value in ONE_PROCESS:
            if hasattr(option, name):
                setattr(option, name, value)

    def pytest_collection(self) -> None:
        """Plugins have replaced what they replace; nothing that is tested was imported yet."""
        self._watch.look()

    def pytest_collection_finish(self, session: Any) -> None:
        """What will be run, after all selection."""
        self._wire.send("collected", ids=[item.nodeid for item in session.items])

    def pytest_sessionfinish(self, session: Any) -> None:
        """Who took part."""
        for name, plugin in session.config.pluginmanager.list_name_plugin():
            label = type(plugin).__name__ if str(name).isdigit() else str(name)
            self.plugins += [] if plugin is None or plugin is self else [label]
            home = sys.modules.get(type(plugin).__module__)
            for module in (plugin, home):
                file = getattr(module, "__file__", None)
                self.files += [file] if isinstance(file, str) else []

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be imported is an error of its own."""
        if report.failed or (report.skipped and report.nodeid):
            status = "error" if report.failed else "skipped"
            self._send(report.nodeid, status, report, 0)

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """The only hook that is told what was raised, and in which functions."""
        error = call.excinfo.value
        # What pytest raises because a file cannot be loaded was caused by what is to be mended.
        if type(error).__module__.startswith("_pytest.") and error.__cause__ is not None:
            error = error.__cause__
            self._loading[node.nodeid] = _loading_places(error)
        self._types[node.nodeid] = type(error).__name__
        self._functions[node.nodeid] = {
            (Path(str(entry.path)).name, entry.lineno + 1): entry.name
            for entry in call.excinfo.traceback
        }

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Phases are joined: the worst counts, and the first of the worst is shown."""
        if report.outcome not in ("passed", "failed", "skipped"):
            return  # rerun: the next attempt decides
        if report.when == "setup":
            self._phases[report.nodeid] = ("passed", report, 0.0)
        status = report.outcome
        if status == "failed" and report.when != "call":
            status = "error"
        before = self._phases.get(report.nodeid, ("passed", report, 0.0))
        seconds = before[2] + report.duration
        order = ("passed", "skipped", "failed", "error")
        worse = order.index(status) > order.index(before[0])
        worst, evidence = (status, report) if worse else before[:2]
        self._phases[report.nodeid] = (worst, evidence, seconds)
        if report.when == "teardown":
            del self._phases[report.nodeid]
            self._watch.look()
            self._send(report.nodeid, worst, evidence, seconds)

    def _send(self, node: str, status: str, report: Any, seconds: float) -> None:
        crash, places, text = _failure_of(report) if status != "passed" else ("", [], "")
        kind, functions = self._types.pop(node, ""), self._functions.pop(node, {})
        for frame in places:
            frame[2] = functions.get((Path(str(frame[0])).name, frame[1]), "")
        places = self._loading.pop(node, places)
        self._wire.send(
            "check",
            id=node,
            status=status,
            type=kind,
            message=crash,
            places=places,
            trace=text,
            ms=int(seconds * 1000),
        )


def _loading_places(error: BaseException) -> list[list[Any]]:
    """The frames of an import that failed, without those of pytest and of the import itself."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not {"_pytest", "importlib"} & {*Path(f.filename).parts}]
    places: list[list[Any]] = [[f.filename, f.lineno or 0, f.name] for f in own]
    if isinstance(error, SyntaxError) and error.filename:
        # What cannot be compiled has no frame.
        places.append([error.filename, error.lineno or 0, ""])
    return [place for place in places if not place[0].startswith("<")]


def _failure_of(report: Any) -> tuple[str, list[list[Any]], str]:
    """Message, places and text of a failure, whatever shape pytest gave it."""
    failure: Any = report.longrepr
    if isinstance(failure, tuple):  # a skip: path, line, reason
        path, line, reason = failure  # pyright: ignore[reportUnknownVariableType]
        return str(reason), [[str(path), int(line), ""]], ""  # pyright: ignore[reportUnknownArgumentType]
    text = _short(str(getattr(report, "longreprtext", "") or failure or ""))
    places: list[list[Any]] = []
    for entry in getattr(getattr(failure, "reprtraceback", None), "reprentries", ()):
        spot = getattr(entry, "reprfileloc", None)
        if spot is not None:
            places.append([str(spot.path), int(spot.lineno), ""])
    crash = getattr(failure, "reprcrash", None)
    if crash is None:
        lines = [line for line in text.splitlines() if line.startswith("E ")]
        return (lines[-1][1:].strip() if lines else text[:300]), places, text
    return _short(str(crash.message)), places or [[str(crash.path), int(crash.lineno), ""]], text


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST // 2] + "\n[...]\n" + text[-LONGEST // 2 :]


def run_pytest(arguments: list[str], wire: Any, watch: Any) -> tuple[int, list[str], list[str]]:
    """Pytest's exit code, the names of its plugins, and the files that they come from."""
    pytest: Any = importlib.import_module("pytest")
    reporter = PytestReporter(wire, watch)
    pytest.hookimpl(hookwrapper=True)(PytestReporter.pytest_cmdline_parse)
    code = int(pytest.main(arguments, plugins=[reporter]))
    return code, sorted(set(reporter.plugins)), reporter.files


def reporting(  # noqa: C901  # small methods of one class
    wire: Any, watch: Any, collected: list[str]
) -> type[unittest.TextTestResult]:
    """A result class for unittest that reports every test once, of those that were collected."""

    class Reported(unittest.TextTestResult):
        """One line per test, when it has stopped."""

        _now: tuple[str, str, str, list[list[Any]], str]
        _began: float

        def startTest(self, test: Any) -> None:  # noqa: N802
            """Begin with the best."""
            self._now = ("passed", "", "", [], "")
            self._began = time.monotonic()
            super().startTest(test)

        def stopTest(self, test: Any) -> None:  # noqa: N802
            """Say how it went."""
            super().stopTest(test)
            watch.look()
            self._say(_name(test))

        def _say(self, name: str) -> None:
            status, kind, message, places, text = self._now
            spent = int((time.monotonic() - self._began) * 1000)
            wire.send(
                "check",
                id=name,
                status=status,
                type=kind,
                message=message,
                places=places,
                trace=text,
                ms=spent,
            )

        def _worse(self, status: str, error: Any) -> None:
            if self._now[0] in ("passed", "skipped"):
                kind, value, trace = error
                frames = traceback.extract_tb(trace)
                places = [[f.filename, f.lineno or 0, f.name] for f in frames]
                places = [p for p in places if "unittest" not in Path(str(p[0])).parts]
                text = "".join(traceback.format_exception(kind, value, trace))[-LONGEST:]
                self._now = (status, kind.__name__, str(value)[:2000], places, text)

        def addError(self, test: Any, err: Any) -> None:  # noqa: N802
            """An exception that is no failed assertion; also of a class's or module's setup."""
            outside = not hasattr(test, "_testMethodName")
            if outside:
                self._now, self._began = ("passed", "", "", [], ""), time.monotonic()
            self._worse("error", err)
            super().addError(test, err)
            if outside:
                self._say(_name(test))

        def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            """A failed assertion."""
            self._worse("failed", err)
            super().addFailure(test, err)

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
            """A part of a test; its failure is the test's."""
            if err is not None:
                self._worse("failed", err)
            super().addSubTest(test, subtest, err)

        def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
            """Not run; of a class or module whose setup skips, no test is even started."""
            if not hasattr(test, "_testMethodName"):
                self._now, self._began = ("passed", "", "", [], ""), time.monotonic()
            # One that failed in a part and skips another has failed.
            if self._now[0] == "passed":
                self._now = ("skipped", "", str(reason), [], "")
            super().addSkip(test, reason)
            fixture = _FIXTURE.match(test.id())
            home = f"{fixture[1]}." if fixture else ""
            for name in collected if home else ():
                if name.startswith(home):
                    self._say(name)

        def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            """Counts as not run: it proves nothing."""
            self._now = ("skipped", "", "expected failure", [], "")
            super().addExpectedFailure(test, err)

        def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
            """Counts as failed, as unittest has it."""
            self._now = ("failed", "", "unexpected success", [], "")
            super().addUnexpectedSuccess(test)

    return Reported


def run_unittest(arguments: list[str], wire: Any, watch: Any) -> tuple[int, list[str], list[str]]:
    """Unittest's exit code, and no plugins."""
    collected: list[str] = []
    result = reporting(wire, watch, collected)

    class Runner(unittest.TextTestRunner):
        """Collects the ids before it runs them."""

        resultclass: Any = result

        def run(self, test: Any) -> Any:
            """Say first what will be run."""
            collected.extend(_names(test))
            wire.send("collected", ids=collected)
            return super().run(test)

    ended = unittest.main(
        module=None, argv=["python -m unittest", *arguments], testRunner=Runner, exit=False
    )
    return (0 if ended.result.wasSuccessful() else 1), [], []


def _names(suite: Any) -> Iterator[str]:
    for test in suite:
        if hasattr(test, "__iter__"):
            yield from _names(test)
        else:
            yield _name(test)


def _name(test: Any) -> str:
    """The id of a test; of a module that could not be loaded, or skips itself, its own name."""
    name = str(test.id())
    for prefix in IMPORT_FAILURES:
        name = name[len(prefix) :] if name.startswith(prefix) else name  # noqa: FURB188 - 3.8
    return name

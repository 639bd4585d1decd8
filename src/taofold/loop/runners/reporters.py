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
    """A pytest plugin: reports collected ids, then one line per test after its teardown."""

    def __init__(self, wire: Any, watch: Any) -> None:
        self._wire, self._watch = wire, watch
        self._phases: dict[str, tuple[str, Any, float]] = {}
        self._types: dict[str, str] = {}
        self._functions: dict[str, dict[tuple[str, int], str]] = {}
        self._loading: dict[str, list[list[Any]]] = {}
        self.plugins: list[str] = []
        self.files: list[str] = []

    def pytest_cmdline_parse(self) -> Generator[None, Any, None]:
        """Wraps the hook to keep tests in this process: workers of xdist would not be isolated."""
        outcome = yield
        option = outcome.get_result().option
        for name, value in ONE_PROCESS:
            if hasattr(option, name):
                setattr(option, name, value)

    def pytest_collection(self) -> None:
        """Compares after plugins made their replacements and before tested code is imported."""
        self._watch.look()

    def pytest_collection_finish(self, session: Any) -> None:
        """Reports the selected tests."""
        self._wire.send("collected", ids=[item.nodeid for item in session.items])

    def pytest_sessionfinish(self, session: Any) -> None:
        """Records the plugins that took part."""
        for name, plugin in session.config.pluginmanager.list_name_plugin():
            label = type(plugin).__name__ if str(name).isdigit() else str(name)
            self.plugins += [] if plugin is None or plugin is self else [label]
            home = sys.modules.get(type(plugin).__module__)
            for module in (plugin, home):
                file = getattr(module, "__file__", None)
                self.files += [file] if isinstance(file, str) else []

    def pytest_collectreport(self, report: Any) -> None:
        """Reports a file that cannot be imported as an error of its own."""
        if report.failed or (report.skipped and report.nodeid):
            status = "error" if report.failed else "skipped"
            self._send(report.nodeid, status, report, 0)

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """Records the type and the functions of an exception; only this hook receives them."""
        error = call.excinfo.value
        # The error that pytest raises for an unloadable file wraps the actual error.
        if type(error).__module__.startswith("_pytest.") and error.__cause__ is not None:
            error = error.__cause__
            self._loading[node.nodeid] = _loading_places(error)
        self._types[node.nodeid] = type(error).__name__
        self._functions[node.nodeid] = {
            (Path(str(entry.path)).name, entry.lineno + 1): entry.name
            for entry in call.excinfo.traceback
        }

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Joins the phases: the worst counts, and the first of the worst is shown."""
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
    """Returns the frames of a failed import, without those of pytest and of the import itself."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not {"_pytest", "importlib"} & {*Path(f.filename).parts}]
    places: list[list[Any]] = [[f.filename, f.lineno or 0, f.name] for f in own]
    if isinstance(error, SyntaxError) and error.filename:
        # Code that cannot be compiled has no frame.
        places.append([error.filename, error.lineno or 0, ""])
    return [place for place in places if not place[0].startswith("<")]


def _failure_of(report: Any) -> tuple[str, list[list[Any]], str]:
    """Returns message, places and text of a failure in any of pytest's forms."""
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
    """Returns pytest's exit code, the names of its plugins, and their files."""
    pytest: Any = importlib.import_module("pytest")
    reporter = PytestReporter(wire, watch)
    pytest.hookimpl(hookwrapper=True)(PytestReporter.pytest_cmdline_parse)
    code = int(pytest.main(arguments, plugins=[reporter]))
    return code, sorted(set(reporter.plugins)), reporter.files


def reporting(  # noqa: C901  # small methods of one class
    wire: Any, watch: Any, collected: list[str]
) -> type[unittest.TextTestResult]:
    """Returns a result class for unittest that reports every collected test once."""

    class Reported(unittest.TextTestResult):
        """Reports one line per test, after it has stopped."""

        _now: tuple[str, str, str, list[list[Any]], str]
        _began: float

        def startTest(self, test: Any) -> None:  # noqa: N802
            """Starts with the best status."""
            self._now = ("passed", "", "", [], "")
            self._began = time.monotonic()
            super().startTest(test)

        def stopTest(self, test: Any) -> None:  # noqa: N802
            """Reports the status."""
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
            """Records an exception other than an assertion, also of a class or module setup."""
            outside = not hasattr(test, "_testMethodName")
            if outside:
                self._now, self._began = ("passed", "", "", [], ""), time.monotonic()
            self._worse("error", err)
            super().addError(test, err)
            if outside:
                self._say(_name(test))

        def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            """Records a failed assertion."""
            self._worse("failed", err)
            super().addFailure(test, err)

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
            """Records the failure of a part as the test's failure."""
            if err is not None:
                self._worse("failed", err)
            super().addSubTest(test, subtest, err)

        def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
            """Records a skip; if the setup of a class or module skips, no test is started."""
            if not hasattr(test, "_testMethodName"):
                self._now, self._began = ("passed", "", "", [], ""), time.monotonic()
            # A test that failed in one part and skips another has failed.
            if self._now[0] == "passed":
                self._now = ("skipped", "", str(reason), [], "")
            super().addSkip(test, reason)
            fixture = _FIXTURE.match(test.id())
            home = f"{fixture[1]}." if fixture else ""
            for name in collected if home else ():
                if name.startswith(home):
                    self._say(name)

        def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            """Counts it as not run: it proves nothing."""
            self._now = ("skipped", "", "expected failure", [], "")
            super().addExpectedFailure(test, err)

        def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
            """Counts it as failed, as unittest does."""
            self._now = ("failed", "", "unexpected success", [], "")
            super().addUnexpectedSuccess(test)

    return Reported


def run_unittest(arguments: list[str], wire: Any, watch: Any) -> tuple[int, list[str], list[str]]:
    """Returns unittest's exit code, and no plugins."""
    collected: list[str] = []
    result = reporting(wire, watch, collected)

    class Runner(unittest.TextTestRunner):
        """Collects the ids before it runs them."""

        resultclass: Any = result

        def run(self, test: Any) -> Any:
            """Reports the tests before running them."""
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
    """Returns the id of a test; for an unloadable or skipped module, the module's name."""
    name = str(test.id())
    for prefix in IMPORT_FAILURES:
        name = name[len(prefix) :] if name.startswith(prefix) else name  # noqa: FURB188 - 3.8
    return name

"""A unittest runner that reports to a gate. Loaded by `launch.py`; imports nothing of taofold."""

from __future__ import annotations

import time
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST = 20000
IMPORT_FAILURES = ("unittest.loader._FailedTest.", "unittest.loader.ModuleSkipped.")


def reporting(wire: Any, watch: Any) -> type[unittest.TextTestResult]:  # noqa: C901  # small methods of one class
    """A result class for unittest that reports every test once."""

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
            self._say(test)

        def _say(self, test: Any) -> None:
            name = test.id()
            for prefix in IMPORT_FAILURES:
                name = name[len(prefix) :] if name.startswith(prefix) else name  # noqa: FURB188 - 3.8
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
                self._say(test)

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
            """Not run."""
            if not hasattr(self, "_now"):
                self._now, self._began = ("passed", "", "", [], ""), time.monotonic()
            self._now = ("skipped", "", str(reason), [], "")
            super().addSkip(test, reason)

        def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
            """Counts as not run: it proves nothing."""
            self._now = ("skipped", "", "expected failure", [], "")
            super().addExpectedFailure(test, err)

        def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
            """Counts as failed, as unittest has it."""
            self._now = ("failed", "", "unexpected success", [], "")
            super().addUnexpectedSuccess(test)

    return Reported


def run(arguments: list[str], wire: Any, watch: Any) -> tuple[int, list[str], list[str]]:
    """Unittest's exit code, and no plugins."""
    result = reporting(wire, watch)

    class Runner(unittest.TextTestRunner):
        """Collects the ids before it runs them."""

        resultclass: Any = result

        def run(self, test: Any) -> Any:
            """Say first what will be run."""
            wire.send("collected", ids=list(_ids(test)))
            return super().run(test)

    ended = unittest.main(
        module=None, argv=["python -m unittest", *arguments], testRunner=Runner, exit=False
    )
    return (0 if ended.result.wasSuccessful() else 1), [], []


def _ids(suite: Any) -> Iterator[str]:
    for test in suite:
        if hasattr(test, "__iter__"):
            yield from _ids(test)
        else:
            yield test.id().replace("unittest.loader._FailedTest.", "")

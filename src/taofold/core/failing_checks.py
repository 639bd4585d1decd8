"""A failing check: the type that gates report, loops count, patterns describe and repairs read.

A check is a test, or a finding of a compiler, linter or type checker: its id, its error and its
location. Its signature does not depend on addresses, times and digests. The kind of the error, and
the kind of the file (test, library), are derived from names alone. Values only; knows nothing about
the programs that report checks (`taofold.diagnostics` reads their output).
"""

import re
from typing import Final, Literal

from taofold.core.values import Value

Status = Literal["passed", "failed", "error", "skipped"]

_LIBRARIES: Final = frozenset({"site-packages", "node_modules"})
_TEST_FOLDERS: Final = frozenset({"test", "tests", "__tests__", "spec"})
# Differences between two runs of one failing test: addresses, temporary paths, durations, digests,
# times. In a signature they would make every failure look like a new one.
_NOISE: Final = re.compile(
    r"0x[0-9a-fA-F]+|/tmp/\S+|\b\d+(?:\.\d+)?\s?(?:ms|s|seconds?)\b|\b[0-9a-f]{12,}\b"
    r"|\b\d{4}-\d\d-\d\d[T ][\d:.]+Z?"
)
_LONGEST_SIGNATURE: Final = 200
_ASSERTIONS: Final = frozenset(
    {
        "AssertionError",
        "AssertionFailedError",
        "ERR_ASSERTION",
        "ERR_TEST_FAILURE",
        "Failed",
        "FAIL",
    }
)
"""The names used by Python, JUnit, node, pytest and Go."""


class Location(Value, frozen=True):
    """A line of a file. The path is relative to the work root if the file lies in it."""

    path: str
    line: int = 0
    function: str = ""


_NOWHERE: Final = Location("")


class Check(Value, frozen=True):
    """One test, or one finding of a linter, type checker or compiler.

    Example: `Check("a.py::test_b", "failed", "KeyError", "'x'", (Location("a.py", 3, "get"),))`.
    """

    id: str
    status: Status
    error_type: str = ""
    """The name of the error: `AssertionError`, `F401`, `TS2345` …"""
    message: str = ""
    places: tuple[Location, ...] = ()
    """The locations of the error, the innermost last."""
    traceback: str = ""
    """The runner's output about the check; bounded and redacted where a gate kept it."""
    ms: int = 0

    @property
    def place(self) -> Location:
        """The innermost location in the project's code, else in its tests, else of all."""
        # The last frame of a failing test is often the assert in the test itself; the code under
        # test is the place to change.
        own = [frame for frame in self.places if not is_foreign(frame.path)]
        inside = [frame for frame in own if not is_test(frame.path)]
        return (inside or own or self.places or (_NOWHERE,))[-1]

    @property
    def error(self) -> tuple[str, str]:
        """Error class and message, equal for checks that fail for one reason."""
        return self.error_type, self.message

    @property
    def signature(self) -> str:
        """Equal for two failures with the same error, apart from addresses, times and digests."""
        message = " ".join(_NOISE.sub("#", self.message).split())
        return f"{self.id}: {self.error_type}: {message[:_LONGEST_SIGNATURE]}".rstrip(": ")

    @property
    def test_path(self) -> str:
        """The file of a test whose id is a pytest node id."""
        return self.id.partition("::")[0]

    @property
    def test_function(self) -> str:
        """The name of such a test, without class and parameters; "" for a whole file."""
        return self.id.rpartition("::")[2].partition("[")[0] if "::" in self.id else ""

    @property
    def test_line(self) -> int:
        """The line reached in the test's own file; 0 if unknown."""
        # The deepest line of the test file is the one reached: helpers in the same file come first.
        return max([frame.line for frame in self.places if frame.path == self.test_path], default=0)

    @property
    def collecting(self) -> bool:
        """True if the test file could not be loaded."""
        return self.status == "error" and "::" not in self.id


def is_assertion(check: "Check") -> bool:
    """Returns whether the check reports only an unexpected value, which names no cause."""
    return check.error_type in _ASSERTIONS or check.message.startswith(("assert ", "assertion "))


def is_exception(check: "Check") -> bool:
    """Returns whether the check is a raised error, not a finding of a linter or compiler."""
    # Some standard modules name their exception `error` (`re.error`), node names a code, Rust
    # panics.
    kind = check.error_type
    return (
        kind in ("error", "panic")
        or kind.startswith("ERR_")
        or kind.endswith(("Error", "Exception"))
    )


def is_foreign(path: str) -> bool:
    """Returns whether the path is in a library or an interpreter: absolute, or not a file."""
    return path.startswith(("/", "<", "node:")) or not _LIBRARIES.isdisjoint(path.split("/"))


def is_test_id(name: str) -> bool:
    """Returns whether a check with this id is a test: `test_a.py::test_b`, `a.test.ts > b`."""
    # Only a test can be run by its name; a compiler's finding is named after its message.
    return is_test(name.partition("::")[0].partition(" > ")[0])


def is_test(path: str) -> bool:
    """Returns whether the file belongs to the tests."""
    *folders, name = path.lower().split("/")
    stem = name.partition(".")[0]
    return (
        not _TEST_FOLDERS.isdisjoint(folders)
        or stem.startswith("test_")
        or stem.endswith(("_test", "_tests"))
        or stem == "conftest"
        or ".test." in name
        or ".spec." in name
    )

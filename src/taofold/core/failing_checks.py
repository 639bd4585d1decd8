"""A failing check: the one type that gates report, loops count, patterns describe and repairs read.

A check is a test, or a finding of a compiler, linter or type checker: its id, its error and where
it went wrong. Its signature is the same however addresses, times and digests change. What kind of
error it is, and whether a file is a test's or a library's, is told here by names alone. Values
only; knows nothing about the programs that report them (`taofold.diagnostics` reads what those
print).
"""

import re
from typing import Final, Literal

from taofold.core.values import Value

Status = Literal["passed", "failed", "error", "skipped"]

_LIBRARIES: Final = frozenset({"site-packages", "node_modules"})
_TEST_FOLDERS: Final = frozenset({"test", "tests", "__tests__", "spec"})
# What differs between two runs of one failing test: addresses, temporary paths, durations, digests,
# times. Left in a signature, they would make every failure look like a new one.
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
"""How Python, JUnit, node, pytest and Go call it."""


class Location(Value, frozen=True):
    """A line of a file; the path is relative to the work root where the file lies in it."""

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
    """`AssertionError`, `F401`, `TS2345` …: the name of what went wrong."""
    message: str = ""
    places: tuple[Location, ...] = ()
    """Where it went wrong, the innermost place last."""
    traceback: str = ""
    """What the runner printed about it; bounded and redacted where a gate kept it."""
    ms: int = 0

    @property
    def place(self) -> Location:
        """The project's innermost place outside of its tests; else in them; else the innermost."""
        # The last frame of a failing test is often the assert in the test itself; the code under
        # test is where a change has to be made.
        own = [frame for frame in self.places if not is_foreign(frame.path)]
        inside = [frame for frame in own if not is_test(frame.path)]
        return (inside or own or self.places or (_NOWHERE,))[-1]

    @property
    def error(self) -> tuple[str, str]:
        """Class and message: what two checks that fail for one reason share."""
        return self.error_type, self.message

    @property
    def signature(self) -> str:
        """Equal for two failures of the same error: addresses, times and digests do not count."""
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
        """The line that the test's own body reached; 0 if unknown."""
        # The deepest line of the test file is the one reached: helpers in the same file come first.
        return max([frame.line for frame in self.places if frame.path == self.test_path], default=0)

    @property
    def collecting(self) -> bool:
        """Could the test file not be loaded?"""
        return self.status == "error" and "::" not in self.id


def is_assertion(check: "Check") -> bool:
    """Does it say only that a value is not the expected one? Then it tells no cause."""
    return check.error_type in _ASSERTIONS or check.message.startswith(("assert ", "assertion "))


def is_exception(check: "Check") -> bool:
    """Was something raised, or is it a finding of a linter or compiler?"""
    # Some modules of Python's call theirs `error` (`re.error`), node names a code, Rust panics.
    kind = check.error_type
    return (
        kind in ("error", "panic")
        or kind.startswith("ERR_")
        or kind.endswith(("Error", "Exception"))
    )


def is_foreign(path: str) -> bool:
    """Does the place lie in a library or an interpreter? Their paths are absolute, or no file's."""
    return path.startswith(("/", "<", "node:")) or not _LIBRARIES.isdisjoint(path.split("/"))


def is_test(path: str) -> bool:
    """Does the file belong to the tests?"""
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

"""A failing check: where it went wrong, and which failures are one."""

import pytest

from taofold.core.failing_checks import Check, Location, is_test

CODE, TEST, LATER = (
    Location("src/a.py", 3, "get"),
    Location("tests/test_a.py", 9),
    Location("src/b.py", 4),
)
LIBRARY = Location("/usr/lib/python3.11/unittest/mock.py", 902, "assert_called_once")


@pytest.mark.parametrize(
    ("places", "place"),
    [
        ((CODE, LATER, TEST), LATER),
        ((TEST, CODE), CODE),
        ((TEST, Location("tests/test_a.py", 12)), Location("tests/test_a.py", 12)),
        ((TEST, LIBRARY), TEST),
        ((LIBRARY,), LIBRARY),
        ((), Location("")),
    ],
)
def test_the_place_of_a_failure_is_the_innermost_that_belongs_to_no_test(
    places: tuple[Location, ...], place: Location
) -> None:
    assert Check("x", "failed", places=places).place == place


@pytest.mark.parametrize(
    "path",
    [
        *("tests/kit.py", "a/test/kit.py", "src/__tests__/a.js", "spec/a.rb", "Tests/A.cs"),
        *("test_a.py", "a_test.go", "a_tests.rs", "conftest.py", "a.test.ts", "a.spec.ts"),
    ],
)
def test_a_file_of_tests_is_known_by_its_folder_or_its_name(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize(
    "path", ["src/a.py", "src/testing.py", "contest.py", "latest/a.py", "tests.py"]
)
def test_a_file_that_only_sounds_like_tests_is_none(path: str) -> None:
    assert not is_test(path)


def failed(message: str, id: str = "t.py::test_a") -> Check:
    return Check(id, "failed", "KeyError", message)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 0x7f00 in x", "at 0x81aa in x"),
        ("no /tmp/abc/x here", "no /tmp/def/y here"),
        ("after 1.5 s", "after 12 ms"),
        ("digest 0123456789ab", "digest fedcba9876543210"),
        ("at 2026-01-02T10:00:00Z", "at 2027-11-12 23:59:59"),
        ("two  lines\n", "two\tlines"),
        ("x" * 200, "x" * 201),
    ],
)
def test_failures_that_differ_in_what_changes_by_itself_are_one(one: str, other: str) -> None:
    assert failed(one).signature == failed(other).signature


@pytest.mark.parametrize(
    ("one", "other"),
    [("key 'a'", "key 'b'"), ("after 15", "after 16"), ("beef", "bead"), ("x" * 199, "x" * 200)],
)
def test_failures_that_differ_in_what_they_say_are_two(one: str, other: str) -> None:
    assert failed(one).signature != failed(other).signature


def test_a_signature_names_the_check_and_its_error() -> None:
    assert failed("'x'").signature == "t.py::test_a: KeyError: 'x'"
    assert Check("t.py::test_a", "failed").signature == "t.py::test_a"
    assert failed("'x'").error == ("KeyError", "'x'")


@pytest.mark.parametrize(
    ("id_", "path", "function"),
    [
        ("a/test_b.py::TestC::test_d[1-x]", "a/test_b.py", "test_d"),
        ("a/test_b.py::test_d", "a/test_b.py", "test_d"),
        ("a/test_b.py", "a/test_b.py", ""),
    ],
)
def test_the_file_and_the_function_of_a_test_are_in_its_id(
    id_: str, path: str, function: str
) -> None:
    check = Check(
        id_, "error", places=(Location(path, 4), Location(path, 11), CODE, Location(path, 7))
    )
    assert check.test_path == path
    assert check.test_function == function
    assert check.test_line == 11
    assert check.collecting is ("::" not in id_)
    assert not Check(id_, "failed").collecting
    assert Check(id_, "failed").test_line == 0

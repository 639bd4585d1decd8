"""Tests inside source files come from the baseline, the surrounding product from the agent. Pure.

Mutants: the agent's test module joins; new code for tests only joins; a brace in a string ends a
module; an example in a doc comment joins; a lost test module is not restored.
"""

import pytest

from taofold.loop.gates.inline_tests import modules, replaces_assertions, spans, splice

RUST = """
/// Adds.
/// ```
/// assert_eq!(shop::add(1, 1), 2);
/// ```
pub fn add(a: i32, b: i32) -> i32 { a - b }

pub struct Lifetime<'a> { name: &'a str }

#[cfg(test)]
#[allow(unused)]
mod tests {
    use super::*; // } not the end
    /* nor } here */
    const ODD: &str = "}}{"; const CHAR: char = '}'; const RAW: &str = r#"}"#;
    #[test]
    fn adds() { assert_eq!(add(1, 2), 3); }
}

pub fn last() {}
"""
PYTHON = '''"""A module.

>>> add(1, 1)
2
"""


def add(a, b):
    """Adds: é.

    >>> add(1, 2)
    3
    """
    return a - b


class Till:
    def total(self):
        """
        >>> Till().total()
        0
        """
        return 1


def test_add():
    assert add(1, 2) == 3
'''


def test_the_tests_of_a_rust_file_are_found_with_all_that_is_in_them() -> None:
    found = spans("a.rs", RUST)
    assert list(found) == ["mod tests 1", "doc add 1"]
    start, end = found["mod tests 1"]
    assert RUST[start:end].startswith("#[cfg(test)]")
    assert RUST[start:end].endswith("3); }\n}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("3);", "-1);"),
        ("use super::*;", "fn add(a: i32, b: i32) -> i32 { a + b }"),
        ("    #[test]", "    #[test]\n    #[ignore]"),
        ("/// ```\n/// assert", "/// ```ignore\n/// assert"),
        ("add(1, 1), 2", "add(1, 1), 0"),
        ("\npub fn last", "\n#[cfg(test)]\nmod more { }\npub fn last"),
        ("\npub fn last", "\n#[cfg(all(test, unix))]\npub fn add(a: i32) {}\npub fn last"),
    ],
)
def test_what_an_agent_does_to_tests_in_a_rust_file_does_not_join(old: str, new: str) -> None:
    assert old in RUST
    work = RUST.replace("a - b", "a + b").replace(old, new)
    joined = splice("a.rs", RUST, work)
    assert "a + b }" in joined
    assert " ".join(joined.split()) == " ".join(RUST.replace("a - b", "a + b").split())


def test_tests_that_are_gone_from_a_rust_file_come_back() -> None:
    start, end = spans("a.rs", RUST)["mod tests 1"]
    joined = splice("a.rs", RUST, RUST[:start] + RUST[end:])
    assert RUST[start:end] in joined


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/* /* */", "*/"),
        ("/* /* a */ /* b */", "*/ // */"),
        ('const A: &CStr = cr#"\\"#; /*', "*/"),
    ],
)
def test_a_test_module_in_a_comment_is_gone_and_comes_back(before: str, after: str) -> None:
    start, end = spans("a.rs", RUST)["mod tests 1"]
    tests = RUST[start:end].replace("/* nor } here */", "")
    old = RUST[:start] + tests + RUST[end:]
    work = f"{RUST[:start]}{before}\n{tests}\n{after}{RUST[end:]}"
    assert list(spans("a.rs", work)) == ["doc add 1"]
    joined = splice("a.rs", old, work)
    assert joined.rstrip().endswith(tests)
    assert "mod tests 1" in spans("a.rs", joined)


def test_files_that_are_test_modules_are_known() -> None:
    text = "#[cfg(test)]\nmod checks;\nmod product;\n"
    assert modules("src/lib.rs", text) == ("src/checks.rs", "src/checks/mod.rs")
    assert modules("src/cart.rs", text) == ("src/cart/checks.rs", "src/cart/checks/mod.rs")
    assert modules("src/lib.py", text) == ()


def test_an_assertion_of_ones_own_is_noticed() -> None:
    texts = {"a.rs": ("", "macro_rules! assert_eq { () => {} }"), "b.rs": ("", "fn assert() {}")}
    assert replaces_assertions(texts) == ("a.rs",)
    assert replaces_assertions({"a.rs": (texts["a.rs"][1], texts["a.rs"][1])}) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    3\n", "    -1\n"),
        ("add(1, 2)\n    3", "add(1, 2)  # doctest: +SKIP\n    3"),
        ("        0\n", "        1\n"),
        ("add(1, 1)\n2", "add(1, 1)\n0"),
        ("    assert add(1, 2) == 3", "    pass"),
    ],
)
def test_what_an_agent_does_to_tests_in_a_python_file_does_not_join(old: str, new: str) -> None:
    assert old in PYTHON
    work = PYTHON.replace("a - b", "a + b").replace(old, new)
    assert splice("a.py", PYTHON, work) == PYTHON.replace("a - b", "a + b")


def test_what_cannot_be_read_is_left_as_it_is() -> None:
    assert splice("a.py", PYTHON, "def (") == "def ("
    assert splice("a.c", RUST, "int x;") == "int x;"
    assert splice("a.rs", "", "pub fn x() {}") == "pub fn x() {}"

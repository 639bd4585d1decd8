"""Census of marks that disable a check.

Mutants: an unknown kind of mark (one row for each tool); a mark that hides more than before and
counts as the old one; a mark that is removed with the code around it.
"""

import ast

import pytest

from taofold.parsing.silencers import added, silencers, unannotated, unsilenced

MARKS = """
x = 1  # noqa
x = 1  # noqa: F401
x = 1  #noqa:E501,F401
# ruff: noqa
# flake8: NOQA
# ruff: noqa: F401
# isort: skip_file
# isort: off
# isort:skip
# ruff: isort: skip_file
# fmt: off
# yapf: disable
import os  # nosec
import os  # nosec B404
import os  # nopep8
# pylint: disable=all
# pylint: disable-next=foo
# type: ignore
x = y  # type: ignore[assignment]
# mypy: ignore-errors
# pyright: basic
# pyright: ignore[reportFoo]
# pyre-ignore[16]
# pyre-fixme
# pytype: disable=attribute-error
# ty: ignore
@no_type_check
@typing.no_type_check
if not TYPE_CHECKING:
if not typing.TYPE_CHECKING:
# pragma: no cover
# pragma:no branch
# NOSONAR
# nosemgrep: rule
# shellcheck disable=SC2086
# shellcheck source=/dev/null
# hadolint ignore=DL3008
# yamllint disable-line
-- noqa
/* eslint-disable */
/* global start */
/* exported start */
// eslint-disable-line
// eslint-disable-next-line no-console
/* eslint no-console: off */
/* eslint no-console: 0, no-undef: "off" */
/* eslint @typescript-eslint/no-explicit-any: off */
// oxlint-disable-next-line
/* stylelint-disable */
// tslint:disable
/* jshint ignore:start */
// @ts-ignore
// @ts-nocheck
/* @ts-expect-error */
// $FlowFixMe[incompatible-type]
// @noflow
// biome-ignore lint: reasons
// deno-lint-ignore no-explicit-any
// prettier-ignore
/* istanbul ignore next */
/* c8 ignore next 3 */
/* v8 ignore start */
/* node:coverage ignore next */
//nolint
//nolint:errcheck
// #nosec G104
//lint:ignore SA1000 why
//revive:disable
#![allow(clippy::all)]
#[allow(dead_code)]
#[expect(unused)]
#[cfg_attr(all(), allow(unused))]
#[rustfmt::skip]
#[coverage(off)]
#[cfg(not(tarpaulin_include))]
// NOLINT
// NOLINTNEXTLINE(readability)
// cppcheck-suppress all
// LCOV_EXCL_LINE
#pragma GCC diagnostic ignored "-Wall"
#pragma clang system_header
#pragma warning(disable: 4100)
# rubocop:disable all
# :nocov:
@SuppressWarnings("unchecked")
@Suppress("UNCHECKED_CAST")
//noinspection unchecked
// swiftlint:disable all
// phpcs:ignore
// ignore: unused_import
## no critic
# luacheck: ignore
<!-- markdownlint-disable -->
""".strip().splitlines()

NONE = (
    "noqa = 1",
    "# the noqa comment",
    "# type: int",
    "# mypy is a type checker",
    "isort(rows)  # isort is good",
    "# it allows more",
    "// global state",
    "if TYPE_CHECKING:",
    "allow(user)",
    "x = ignore[0]  # of type: str",
    "#[derive(Debug)]",
    "#pragma once",
    "# pragmatic: no coverage is asked for",
)


@pytest.mark.parametrize("line", MARKS)
def test_each_mark_is_counted_and_taken_out(line: str) -> None:
    marks = silencers(line)
    assert len(marks) == 1, marks
    assert added([], [line]) == marks
    assert added([line], [f"y = 1\n{line}"]) == []
    text = f"a\n{line}\nb\n"
    bare = unsilenced(text, marks, lambda _: False)
    assert silencers(bare) == []
    assert [len(row) for row in bare.split("\n")] == [len(row) for row in text.split("\n")]
    assert unsilenced(text, marks, line.__eq__) == text


@pytest.mark.parametrize("line", NONE)
def test_what_only_looks_like_a_mark_is_none(line: str) -> None:
    assert silencers(line) == []


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (["a  # noqa: F401, E501"], ["a  # noqa: F401"], 0),
        (["a  # noqa: F401"], ["a  # noqa"], 1),
        (["/* global a */"], ["/* global a, b */"], 1),
        (["a  # noqa: F401"], ["a  # noqa: F401, E501"], 1),
        (["a  # noqa: F401"], ["b = a + 1  # noqa: F401"], 0),
        (["a  # noqa", ""], ["", "a  # noqa"], 0),
        (["a  # noqa"], ["a  # type: ignore"], 1),
        (["a  # noqa"], ["a  # noqa  # noqa"], 1),
        (["// eslint-disable-next-line no-undef"], ["// eslint-disable-next-line"], 1),
        (["// eslint-disable-next-line"], ["// eslint-disable-next-line no-undef"], 0),
        (["a  # type: ignore[a]  # why"], ["a  # type: ignore[a]  # why not"], 0),
        (["#[allow(dead_code)]"], ["#[allow(warnings)]"], 1),
    ],
)
def test_a_mark_is_new_if_it_hides_what_none_hid(
    old: list[str], new: list[str], count: int
) -> None:
    assert len(added(old, new)) == count


def test_code_without_its_marks_is_still_code() -> None:
    text = (
        "import typing\nfrom typing import TYPE_CHECKING\n# ruff: noqa: F401\n"
        "@typing.no_type_check\ndef f(a):  # type: ignore[no-untyped-def]\n"
        "    if not TYPE_CHECKING:\n        return a  # noqa: B901\n"
    )
    bare = unsilenced(text, silencers(text), lambda _: False)
    ast.parse(bare)
    assert "    if True             :\n" in bare


def test_functions_that_lost_their_annotations_are_named() -> None:
    old = "def f(a: int) -> int:\n    return a\n\n\ndef g(a) -> int:\n    return a\n"
    new = "def f(a):\n    return a\n\n\ndef g(a) -> int:\n    return a\n"
    assert unannotated({"a.py": (old, new)}) == ["a.py: f"]
    assert unannotated({"a.py": (old, "")}) == []
    assert unannotated({"a.py": (old, ""), "b.py": ("", old)}) == []
    assert unannotated({"a.py": (old, ""), "b.py": ("", new)}) == ["b.py: f"]
    assert unannotated({"a.py": ("def f(): pass\n", "def f(): pass\n\n\ndef h(): pass\n")}) == []

"""Rows of the peers' suites that are out of scope, by rules that were fixed before counting.

A rule depends on the row, never on a reader's result: an excluded row is excluded for every reader,
even if read as the suite expects. `run.py` prints both figures, all rows and rows in scope, and the
number of rows that each rule excludes.
"""

from __future__ import annotations

import re
from typing import Any

BROKEN = re.compile(
    r"incomplete|partial|trunc|malformed|invalid|broken|unclosed|almost_valid"
    r"|missing|unterminated|unparse?able|garbled|stray"
    r"|TOOLCALLING\.(?:batch\.[45]|stream\.4)\b",
    re.IGNORECASE,
)
"""Names of tests whose reply is, by their own statement, not the family's.

Each server treats such replies differently. The numbers are those of a table whose key states this.
"""
DIFFERENT = "(servers differ)"
"""Rows of a table that records what three servers make of a reply, where they do not agree."""
SETTINGS = {
    "test_k2_horizon": "which of two formats the request asked for, or which tool it named",
    "minicpm5xml_tool_parser.py::test_alias_": "one benchmark's table of other names for tools",
}
"""Rows that are decided by something which is in neither the reply nor the tools."""
UNDECLARED = re.compile(
    r"ignored_when|ignores_extra|duplicate_keys|extra_arguments_ignored|parameter_value_skipped"
)
"""Rows that expect dropped arguments. taofold omits nothing in a call silently."""


def out_of_scope(row: dict[str, Any]) -> str:
    """Returns the rule that excludes a row; empty if none does."""
    if row["verdict"] == "disputed":
        return "disputed"
    name = row["id"].rpartition("/")[2]
    if any(part in row["id"] for part in SETTINGS):
        return "setting"
    if UNDECLARED.search(name):
        return "dropped"
    if BROKEN.search(name):
        return "broken"
    if DIFFERENT in name:
        return "servers differ"
    return "prose" if in_prose(row) else ""


def in_prose(row: dict[str, Any]) -> bool:
    """Returns whether an expected call without a family's mark is in a line of prose."""
    texts = [each["text"] for each in row.get("readings", ())] or [row.get("text", "")]
    return any(_in_line(text) for text in texts)


_CALL = re.compile(r'\[?\s*\{\s*"(?:name|tool|function)"\s*:|\[[A-Za-z_][\w.]*\(')


def _in_line(text: str) -> bool:
    """A call in JSON or Python, words before or after it on its own lines, no mark around it."""
    found = _CALL.search(text)
    if found is None or re.search(r"<[|｜/]?\w|\[TOOL|```|functools|>>>", text[: found.start()]):
        return False
    line = text[: found.start()].rpartition("\n")[2]
    tail = text[max(text.rfind("}"), text.rfind(")]")) + 1 :].strip(" \n\t]`;,")
    return bool(re.search(r"\w", line)) or bool(re.match(r"[A-Za-z]", tail))

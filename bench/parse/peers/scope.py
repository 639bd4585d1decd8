"""Which rows of the peers' suites are out of scope, by rules that were fixed before counting.

A rule looks at what a row is, never at what a reader made of it: a row that a rule takes out is
out for every reader, also where it is read as the suite wants. `run.py` prints both figures, all
rows and rows in scope, and how many each rule takes out.
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
"""Names of tests that say themselves that their reply is none of the family's: each server has its
own mind about what to make of it. The numbers are those of a table whose key says so of them."""
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
"""Rows that want arguments dropped; here nothing in a call is left out silently."""


def out_of_scope(row: dict[str, Any]) -> str:
    """The rule that takes a row out of scope; empty if none does."""
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
    """Whether a call without any mark of a family stands in a line of prose, and is wanted."""
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

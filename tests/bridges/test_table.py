"""The table of what is compared with the real thing: each row names a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\|.*\| `(tests/[\w/]+\.py)::(\w+)` \|$", re.MULTILINE)


def test_each_row_of_the_table_is_a_test():
    page = (ROOT / "docs" / "bridges.md").read_text(encoding="utf-8")
    table = page.partition("## Compared with the real thing")[2]
    rows = ROW.findall(table)
    assert len(rows) == table.count("\n| ") - 1  # and the head
    for file, name in rows:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), name

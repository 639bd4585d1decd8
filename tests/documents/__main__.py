"""Writes docs/internals/seeds-table.md: `python -m tests.documents`."""

import sys

from tests.documents import documents, markers, page, problems
from tests.markers import ROOT

TARGET = ROOT / "docs" / "internals" / "seeds-table.md"

if __name__ == "__main__":
    faults = problems(documents(), markers())
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    TARGET.write_text(page(documents(), markers()), encoding="utf-8")
    sys.exit(bool(faults))

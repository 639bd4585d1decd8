"""The programs in the pages of docs/migration: code blocks with a title."""

import re
from pathlib import Path
from typing import Final

PAGES: Final = Path(__file__).parents[2] / "docs" / "migration"
OURS: Final = "taofold"
"""The title of our program. Another title names a library and its version.

A title with a colon belongs to a further program of the page.
"""


def blocks(page: str, language: str = "python") -> dict[str, str]:
    """Returns the titled blocks of a page in a language, by title."""
    fence = rf'^```{language} title="([^"]+)"\n(.*?)^```'
    text = (PAGES / page).read_text(encoding="utf-8")
    return dict(re.findall(fence, text, re.DOTALL | re.MULTILINE))


def other(page: str, language: str = "python") -> tuple[str, str]:
    """Returns the title and the text of the other library's program."""
    (found,) = [
        block
        for block in blocks(page, language).items()
        if block[0] != OURS and ":" not in block[0]
    ]
    return found

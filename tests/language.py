"""Counts words that make sentences hard to read, in docstrings, comments and pages.

`python -m tests.language` prints the counts per 1,000 words of each folder, and the files with the
most. `python -m tests.language --record` writes them to the table that `test_language.py` compares
with. The counts are an indicator: a sentence without such a word can still be hard to read.
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
TABLE: Final = Path(__file__).parent / "language.json"

MARKS: Final = {
    "pronoun": r"(?i)\b(?:nobody|somebody|anybody|whoever|whomever|whatever)\b",
    "saying": r"(?i)\b(?:said|says|told|tells|heard|spoken|speaks? of)\b",
    "clause": r"(?:^|[.;:]\s+)(?:What|Who|Whose|Whether|Where|Which|Of an?|Of the|Up to where)\b",
    "person": r"(?i)\b(?:a|the) person(?:'s)?\b",
    "riddle": r"(?i)\b(?:in vain|by hand|by whom\w*|anew|meanwhile|thereby|wherever|no word)\b",
    "question": r"\?$",
}
_FOUND: Final = {name: re.compile(text, re.MULTILINE) for name, text in MARKS.items()}
_TYPES: Final = {".py", ".md", ".rs"}
_PLACES: Final = ("src", "tests", "bench", "docs", "examples", "rust")


def prose(path: Path) -> str:
    """Returns the docstrings and comments of a Python or Rust file, or a page without its code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return "\n".join(_python_prose(text))
    if path.suffix == ".rs":
        return "\n".join(re.findall(r"^\s*//[/!]?\s?(.*)$", text, re.MULTILINE))
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`", "`code`", outside)


def _python_prose(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("#! ")


def count(text: str) -> Counter[str]:
    """Returns the number of each mark in a text, and its number of words."""
    found = Counter({name: len(pattern.findall(text)) for name, pattern in _FOUND.items()})
    found["words"] = len(re.findall(r"[A-Za-z]{2,}", text))
    return found


def files() -> Iterator[Path]:
    """Yields the files whose words are counted."""
    yield from ROOT.glob("*.md")
    for place in _PLACES:
        for path in sorted((ROOT / place).rglob("*")):
            # Recorded texts of models and other projects are not our sentences.
            if path.suffix in _TYPES and not {"fixtures", "corpus", "target"} & set(path.parts):
                yield path


def folder_of(path: Path) -> str:
    """Returns the folder under which a file is counted: two levels, three in `src`."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[: 3 if parts[:1] == ("src",) else 2]) or "."


def by_folder(paths: Iterable[Path]) -> dict[str, Counter[str]]:
    """Returns the counts of each folder."""
    folders: dict[str, Counter[str]] = {}
    for path in paths:
        folders.setdefault(folder_of(path), Counter()).update(count(prose(path)))
    return folders


def rises(now: Counter[str], recorded: dict[str, int]) -> list[str]:
    """Returns the marks whose number rose, in absolute terms and per word.

    Both must rise: a folder may grow, and deleting good sentences is no fault.
    """
    words = max(recorded.get("words", 0), 1)
    return [
        mark
        for mark in MARKS
        if now[mark] > recorded.get(mark, 0)
        and now[mark] * words > recorded.get(mark, 0) * now["words"]
    ]


def recorded() -> dict[str, dict[str, int]]:
    """Returns the table: the counts of each folder when it was last written."""
    table: dict[str, dict[str, int]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def main() -> None:
    """Prints the table, or writes it."""
    paths = list(files())
    folders = by_folder(paths)
    if "--record" in sys.argv:
        lines = [f" {json.dumps(name)}: {json.dumps(folders[name])}" for name in sorted(folders)]
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return
    for name in sorted(folders):
        words = max(folders[name]["words"], 1)
        rates = "  ".join(f"{mark} {1000 * folders[name][mark] / words:5.2f}" for mark in MARKS)
        sys.stdout.write(f"{name:<32} {words:>6} words  {rates}\n")
    worst = Counter({path: sum(count(prose(path))[mark] for mark in MARKS) for path in paths})
    for path, marks in worst.most_common(15):
        sys.stdout.write(f"{marks:>4}  {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()

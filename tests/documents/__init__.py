"""The items of the five documents, and the page that compares them with the tests.

Each file of `items/` lists the requirements of one document. A test that executes an item carries
its id: `@pytest.mark.document_item("002.store.dispatch")`. An item with such a test and without a
written verdict works. The verdicts `differs`, `partly` and `missing` are written in the file, each
with its reason:

    store.dispatch: "`Store.dispatch` applies the pair that the action returns"
    loop.unknown-tool:
      item: An unknown tool is ignored
      differs: The model gets an observation that lists the tools.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tests.markers import MarkedTest, by_argument, marked, tagged

ITEMS: Final = Path(__file__).parent / "items"
VERDICTS: Final = ("works", "differs", "partly", "missing")
WRITTEN: Final = VERDICTS[1:]
HEAD: Final = """\
# The five documents, item by item

The items of the five seed documents: their requirements, fields, defaults, numbers and examples.
This page is generated from the item files and the markers of the tests, by `make docs`.

* **works**: each test in the row executes the item and passes. No other row has this verdict.
* **differs**: taofold does something else on purpose. The row has the reason and a test that shows
  the difference.
* **partly**: a part of the item is missing or wrong.
* **missing**: not implemented.

A guide by topic is in [Features of the seed projects](seeds.md).
"""


@dataclass(frozen=True)
class Item:
    """A requirement of a document."""

    id: str
    section: str
    text: str
    verdict: str
    """A written verdict; "" for an item that works if its tests pass."""
    reason: str


@dataclass(frozen=True)
class Document:
    """A document and its items, in the document's order."""

    number: str
    title: str
    items: tuple[Item, ...]


def documents() -> list[Document]:
    """Returns the documents of the item files."""
    return [read(path.read_text(encoding="utf-8"), path.stem) for path in sorted(ITEMS.glob("*"))]


def read(text: str, number: str) -> Document:
    """Returns the document of one item file.

    Args:
        text: The YAML text.
        number: The document's number, the first part of its ids.

    Raises:
        ValueError: An item has an unknown verdict, several verdicts or no reason.
    """
    made = YAML(typ="safe").load(text)
    items = tuple(
        _item(f"{number}.{name}", section, entry)
        for section, entries in made["sections"].items()
        for name, entry in entries.items()
    )
    return Document(number, made["title"], items)


def _item(name: str, section: str, entry: str | dict[str, Any]) -> Item:
    if isinstance(entry, str):
        return Item(name, section, entry, "", "")
    verdicts = [key for key in entry if key != "item"]
    if len(verdicts) != 1 or verdicts[0] not in WRITTEN:
        raise ValueError(f"{name}: one verdict of {', '.join(WRITTEN)}, not {verdicts}")
    reason = str(entry[verdicts[0]])
    if len(reason.split()) < 4 or not reason.endswith("."):
        raise ValueError(f"{name}: the reason is a sentence")
    return Item(name, section, entry["item"], verdicts[0], reason)


def markers() -> tuple[MarkedTest, ...]:
    """Returns the tests that carry ids of items."""
    return marked("document_item") + tagged(r"\d{3}\..+")


def problems(made: Sequence[Document], tests: Sequence[MarkedTest]) -> list[str]:
    """Returns why the items and the tests do not fit together; empty if they do."""
    found = by_argument(tests)
    items = [item for document in made for item in document.items]
    known = {item.id for item in items}
    faults = [f"{test.test}: is never run" for test in tests if test.skipped]
    faults += [f"{found[name][0]}: unknown item {name}" for name in found if name not in known]
    for item in items:
        has_test = bool(found.get(item.id))
        if not has_test and item.verdict in ("", "differs"):
            faults.append(f"{item.id}: has no test; {item.verdict or 'works'} needs one")
        if has_test and item.verdict == "missing":
            faults.append(f"{item.id}: is missing and has a test")
    return faults


def page(made: Sequence[Document], tests: Sequence[MarkedTest]) -> str:
    """Returns the text of the page."""
    lines = [HEAD, "| document | items | " + " | ".join(VERDICTS) + " |", "|---|---|" + "---|" * 4]
    for document in made:
        counts = Counter(item.verdict or "works" for item in document.items)
        cells = [str(counts[verdict]) for verdict in VERDICTS]
        name = f"[{document.title}](#{document.number})"
        lines.append(f"| {name} | {len(document.items)} | " + " | ".join(cells) + " |")
    found = by_argument(tests)
    for document in made:
        lines += [
            "",
            f'<a id="{document.number}"></a>',
            "",
            f"## {document.number}: {document.title}",
        ]
        for section in dict.fromkeys(item.section for item in document.items):
            lines += ["", f"### {section}", "", "| item | verdict | tests |", "|---|---|---|"]
            lines += [_row(item, found) for item in document.items if item.section == section]
    return "\n".join(lines) + "\n"


def _row(item: Item, found: dict[str, list[str]]) -> str:
    tests = "<br>".join(f"`{test}`" for test in found.get(item.id, ()))
    verdict = f"{item.verdict}: {item.reason}" if item.verdict else "works"
    cells = [cell.replace("|", "\\|") for cell in (item.text, verdict, tests)]
    return "| " + " | ".join(cells) + " |"

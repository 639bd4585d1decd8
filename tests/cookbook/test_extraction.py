"""docs/cookbook/extraction.md"""

import csv
from collections.abc import Callable
from typing import Any

from tests.cookbook.conftest import Reader, answer
from tests.road.mind import Asked, Said

INVOICE = {"number": "A-7", "vendor": "Tea & Co", "issued": "2026-05-03", "currency": "EUR"}
LETTERS = {
    "a.txt": "Invoice A-7 of Tea & Co, 3 May 2026, 40.50 EUR",
    "b.txt": "Invoice B-8 over minus one",
    "c.txt": "Dear Ada, how are you?",
}


def by_document(**replies: Any) -> Callable[[Asked], Said]:
    """Answers by the document that is asked about: several are asked about at once."""

    def model(asked: Asked) -> Said:
        name = next(n for n, text in LETTERS.items() if text in asked.users)
        return answer(replies[name[0]])(asked)

    return model


def test_records_failures_and_cost(reader: Reader) -> None:
    reader.opens("extraction.md")
    inbox = reader.folder / "inbox"
    inbox.mkdir()
    for name, text in LETTERS.items():
        (inbox / name).write_text(text)
    invoice = {**INVOICE, "total": 40.5}
    wrong = {**INVOICE, "number": "B-8", "total": 1, "issued": "2999-01-01"}
    reader.providers.model = by_document(a=invoice, b=wrong, c=None)
    done = reader.types("python extract.py inbox")
    assert done.returncode == 1
    assert done.stdout.startswith("3 goals: 1 failed, 2 finished; "), done.stdout + done.stderr
    assert "b.txt: " in done.stderr
    assert "Date should be in the past" in done.stderr
    with (reader.folder / "invoices.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["file"], r["number"], r["issued"], r["total"]) for r in rows] == [
        ("a.txt", "A-7", "2026-05-03", "40.5")
    ]

    # Once more: what has ended is read from the log, and an invalid answer stays one.
    reader.providers.asked.clear()
    done = reader.types("python extract.py inbox")
    assert "2 finished (2 of them earlier)" in done.stdout
    assert "b.txt: invalid" in done.stderr
    assert reader.providers.asked == []
    # A changed document is another goal.
    (inbox / "b.txt").write_text(LETTERS["b.txt"] + ", issued yesterday")
    reader.providers.model = by_document(b=invoice)
    done = reader.types("python extract.py inbox")
    assert (done.returncode, len(reader.providers.asked)) == (0, 1)


def test_without_a_key(reader: Reader) -> None:
    reader.opens("extraction.md")
    (reader.folder / "inbox").mkdir()
    (reader.folder / "inbox" / "a.txt").write_text(LETTERS["a.txt"])
    done = reader.types("TAOFOLD_MODEL=test:answer python extract.py inbox")
    assert done.returncode == 0, done.stderr
    assert "a.txt,a,a,2026-01-01,1,EUR\n" in (reader.folder / "invoices.csv").read_text()

"""The words of docstrings, comments and pages get no harder to read, folder by folder."""

from collections import Counter

import pytest

from tests.language import ROOT, by_folder, count, files, folder_of, prose, recorded, rises


def test_no_folder_has_more_hard_words_than_recorded() -> None:
    """`python -m tests.language` lists the files; `--record` writes the table."""
    table = recorded()
    risen = {name: rises(now, table.get(name, {})) for name, now in by_folder(files()).items()}
    assert {name: marks for name, marks in risen.items() if marks} == {}


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("Nobody may call it.", "pronoun"),
        ("A run is told its goal.", "saying"),
        ("What the loop has learnt.", "clause"),
        ("Starts a run; whose turn it is. Whether it waits.", "clause"),
        ("Until the person decides.", "person"),
        ("It is read anew.", "riddle"),
        ("Does it wait?", "question"),
    ],
)
def test_a_hard_word_is_counted(text: str, mark: str) -> None:
    found = count(text)
    assert found[mark] == 1
    assert found["words"] > 0


def test_a_plain_sentence_has_no_mark() -> None:
    found = count("Returns the lease of a run, or None if the run has no owner.")
    assert found == Counter(words=13)


def test_code_on_a_page_is_not_counted() -> None:
    page = next(path for path in files() if path.name == "tutorial.md")
    assert "ScriptedModel(" not in prose(page)
    assert folder_of(page) == "docs"


def test_a_growing_folder_keeps_its_rate() -> None:
    """A mark counts as risen if both its number and its share of the words rose."""
    before = {"words": 1000, "saying": 2}
    assert rises(Counter(words=2000, saying=4), before) == []
    assert rises(Counter(words=500, saying=2), before) == []
    assert rises(Counter(words=1000, saying=3), before) == ["saying"]
    assert rises(Counter(words=10, saying=1), {}) == ["saying"]


def test_the_table_names_folders_that_exist() -> None:
    assert [name for name in recorded() if not (ROOT / name).is_dir()] == []

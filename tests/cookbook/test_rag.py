"""docs/cookbook/rag.md"""

from tests.cookbook.conftest import Reader, answer, call

ASK = 'python rag.py docs "How long does a refund take?"'
TEXT = "A refund reaches your account within five days."
QUOTE = "Refunds reach your account within five days."


def test_an_answer_cites_what_the_files_contain(reader: Reader) -> None:
    reader.opens("rag.md")
    docs = reader.folder / "docs"
    docs.mkdir()
    (docs / "refunds.md").write_text(f"# Refunds\n\n{QUOTE}\n\nNot on Sundays.\n")
    (docs / "tea.txt").write_text("Tea is served at four.\n")
    wrong = {"file": "refunds.md", "quote": "Refunds take about three weeks."}
    right = {"file": "refunds.md", "quote": QUOTE}
    reader.scripts(
        call("search", query="refund account"),
        answer({"text": "Three weeks.", "citations": [wrong]}),
        answer({"text": TEXT, "citations": [right]}),
    )
    done = reader.types(ASK)
    assert done.returncode == 0, done.stderr
    reader.shows(done.stdout)
    asked = reader.providers.asked
    assert QUOTE in asked[1].turns[-1].text  # what the search found
    assert "served at four" not in asked[1].turns[-1].text
    assert "does not contain 'Refunds take about three weeks.'" in asked[2].turns[-1].text


def test_without_a_key_the_check_refuses_the_answer(reader: Reader) -> None:
    reader.opens("rag.md")
    docs = reader.folder / "docs"
    docs.mkdir()
    (docs / "a").write_text("no document of this folder has this name")
    done = reader.types(f"TAOFOLD_MODEL=test:tools {ASK}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "'a' does not contain 'aaaaaaaaaaaaaaa'" in done.stderr

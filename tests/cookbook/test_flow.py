"""docs/cookbook/flow.md"""

from tests.cookbook.conftest import Reader, answer

GOOD = 'taofold run review.yaml "The green tea is wonderful." --quiet'
BAD = 'taofold run review.yaml "The tea was stale." --set language=German --quiet'


def test_the_score_decides_what_happens_next(reader: Reader) -> None:
    reader.opens("flow.md")
    reader.environment["TAOFOLD_MODEL"] = "openai:gpt-5"
    assert reader.types("taofold check review.yaml").returncode == 0
    reader.scripts(answer({"score": 0.9, "topic": "green tea"}))
    done = reader.types(GOOD)
    assert done.stdout.strip() == (
        "Thank you for your kind words about green tea! The team of Tea & Co"
    ), done.stderr
    reader.scripts(answer({"score": 0.1, "topic": "tea"}), answer("Das tut uns leid."))
    done = reader.types(BAD)
    assert done.stdout.strip() == "Das tut uns leid. The team of Tea & Co", done.stderr
    assert "in German" in reader.providers.asked[1].system
    assert "- {" not in reader.types("taofold graph review.yaml").stdout


def test_the_same_file_in_python(reader: Reader) -> None:
    reader.opens("flow.md")
    reader.environment["TAOFOLD_MODEL"] = "openai:gpt-5"
    (reader.folder / "reviews.txt").write_text("Wonderful green tea.\n")
    reader.scripts(answer({"score": 1.0, "topic": "green tea"}))
    done = reader.types("python answer_reviews.py reviews.txt")
    assert done.stdout == (
        "Wonderful green tea.\n"
        "  → Thank you for your kind words about green tea! The team of Tea & Co\n"
    ), done.stderr
    assert "1 goal: 1 finished" in done.stderr


def test_without_a_key(reader: Reader) -> None:
    reader.opens("flow.md")
    done = reader.types(f"{GOOD} --model test:answer")
    assert done.returncode == 0, done.stderr
    reader.shows(done.stdout)

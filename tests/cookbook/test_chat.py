"""docs/cookbook/chat.md"""

from tests.cookbook.conftest import Reader, answer, call


def test_a_conversation_goes_on_after_a_restart(reader: Reader) -> None:
    reader.opens("chat.md")
    reader.scripts(answer("Hello Ada."), answer("You are Ada."))
    first = reader.types("python chat.py", stdin="I am Ada.\n")
    assert "Hello Ada." in first.stdout, first.stderr
    second = reader.types("python chat.py", stdin="Who am I?\n")
    assert "You are Ada." in second.stdout, second.stderr
    turns = [turn.text for turn in reader.providers.asked[1].turns]
    assert any("I am Ada." in text for text in turns)
    assert any("Hello Ada." in text for text in turns)


def test_a_fact_is_known_in_every_conversation(reader: Reader) -> None:
    reader.opens("chat.md")
    reader.scripts(
        call("remember", fact="The user lives in Oslo."),
        answer("I will remember it."),
        answer("In Oslo."),
    )
    reader.types("python chat.py", stdin="I live in Oslo.\n")
    assert (reader.folder / "facts.jsonl").read_text() == '"The user lives in Oslo."\n'
    done = reader.types("python chat.py travel", stdin="Where do I live?\n")
    assert "In Oslo." in done.stdout, done.stderr
    asked = reader.providers.asked[2]
    assert "- The user lives in Oslo." in asked.system
    assert "I live in Oslo." not in asked.users  # another conversation


def test_a_missing_key_is_named(reader: Reader) -> None:
    reader.opens("chat.md")
    del reader.environment["OPENAI_API_KEY"], reader.environment["OPENAI_BASE_URL"]
    done = reader.types("python chat.py", stdin="Hello\n")
    assert done.returncode == 1
    assert "OPENAI_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_key(reader: Reader) -> None:
    reader.opens("chat.md")
    done = reader.types("TAOFOLD_MODEL=test:answer python chat.py", stdin="Hello\n")
    assert done.stdout == "> done\n> "

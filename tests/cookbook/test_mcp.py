"""docs/cookbook/mcp.md"""

import pytest

from tests.cookbook.conftest import Reader, answer, call

pytest.importorskip("mcp")
ASK = 'python visitor.py "Where is Momo?"'


def test_a_client_calls_the_tool_of_the_server(reader: Reader) -> None:
    reader.opens("mcp.md")
    reader.scripts(call("library_shelf_of", title="Momo"), answer("On shelf 3."))
    done = reader.types(ASK)
    assert done.stdout == "On shelf 3.\n", done.stderr
    asked = reader.providers.asked
    assert set(asked[0].tools) >= {"library_librarian", "library_shelf_of"}
    assert "shelf 3" in asked[1].turns[-1].text


def test_a_client_asks_the_agent_behind_the_server(reader: Reader) -> None:
    reader.opens("mcp.md")
    reader.scripts(
        call("library_librarian", goal="Find Emma."),
        call("shelf_of", title="Emma"),
        answer("Emma is on shelf 7."),
        answer("On shelf 7."),
    )
    done = reader.types(ASK)
    assert done.stdout == "On shelf 7.\n", done.stderr
    assert "library_librarian" not in reader.providers.asked[1].tools  # the server's own agent
    assert "Emma is on shelf 7." in reader.providers.asked[3].turns[-1].text


def test_without_a_key(reader: Reader) -> None:
    reader.opens("mcp.md")
    del reader.environment["OPENAI_API_KEY"]
    done = reader.types(f"TAOFOLD_MODEL=test:tools {ASK}")
    assert done.returncode == 0, done.stderr
    reader.shows(done.stdout)

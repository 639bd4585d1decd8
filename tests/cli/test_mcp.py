"""`taofold mcp pins` and `forget`: what was accepted of servers' tools."""

import json

from taofold.bridges.mcp.client.address import ServerAddress
from taofold.bridges.mcp.client.definitions import Definition, Pins
from taofold.bridges.mcp.client.oauth import KeptTokens
from taofold.reserved_places import operator_folder
from tests.terminal import Taofold


def test_what_was_accepted_is_listed_and_forgotten_at_the_terminal(taofold: Taofold) -> None:
    """Lists by file name, with the server in words. An unreadable file is listed too."""
    folder = operator_folder() / "mcp"
    place = ServerAddress("stdio", "python", ("shop.py", "--token=sk-ant-api03-" + "x" * 40))
    Pins(Pins.file(place), place.words).add(
        [Definition("peek", "Look.", {"type": "object", "properties": {}})]
    )
    name = Pins.file(place).stem
    (folder / "torn.json").write_text("{")
    code, listed, _ = taofold("mcp", "pins")
    assert code == 0
    assert f"{name}: peek, python shop.py" in listed
    assert "sk-ant" not in listed + Pins.file(place).read_text()
    assert "torn: no tools" in listed
    assert json.loads(taofold("mcp", "pins", "--json").out)[0]["tools"] == ["peek"]
    assert taofold("mcp", "forget", "../policy").code == 2
    assert taofold("mcp", "forget", name).code == 0
    assert taofold("mcp", "forget", "torn").code == 0
    assert not list(folder.iterdir())
    code, _, err = taofold("mcp", "forget", name)
    assert code == 2
    assert "taofold mcp pins" in err


def test_what_a_server_says_of_a_token_writes_nothing_on_the_terminal(taofold: Taofold) -> None:
    kept = KeptTokens("https://a.example/mcp")
    kept._keep(url=kept.url, tokens={"access_token": "x", "scope": "read\x1b[2J\nsigned in"})
    code, listed, _ = taofold("mcp", "list")
    assert code == 0
    assert "\x1b" not in listed
    assert len(listed.splitlines()) == 1


def test_the_local_token_is_printed_as_a_header_for_a_pipe(taofold: Taofold) -> None:
    token = taofold("serve", "tokens", "local").out.strip()
    header = taofold("serve", "tokens", "local", "--header").out.strip()
    assert header == f"Authorization: Bearer {token}"

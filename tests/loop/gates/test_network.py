"""Gates have their own network, or every verdict notes that there is none.

Mutants: the note is omitted; `contain="always"` accepts a missing helper.
"""

import socket
from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.loop.gates.judge import Judge
from taofold.loop.verdict import Gate
from taofold.tools import container_network
from taofold.tools.container_network import Reach
from tests.prerequisites import CONTAINMENT

pytestmark = [pytest.mark.anyio, CONTAINMENT.mark]
NONE = "pasta and slirp4netns are not installed"


@pytest.fixture
def no_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_network, "why_not", lambda: NONE)


@pytest.mark.usefixtures("no_helper")
@pytest.mark.parametrize("network", [True, False])
async def test_gates_that_share_the_network_say_so(tmp_path: Path, network: bool) -> None:
    root = tmp_path / "root"
    root.mkdir()
    judge = Judge(
        root, tmp_path / "kept", [Gate("true", argv=("true",))], reach=Reach(world=network)
    )
    verdict = await judge.begin()
    said = f"the gates share this machine's network: {NONE}"
    assert (said in verdict.notes) is network


@pytest.mark.usefixtures("no_helper")
def test_who_wants_them_contained_in_any_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pasta"):
        Judge(
            tmp_path, tmp_path / "kept", [Gate("true")], reach=Reach(world=True), contain="always"
        )
    Judge(tmp_path, tmp_path / "kept", [Gate("true")], contain="always")


REFUSED = "import socket\nsocket.create_connection(('127.0.0.1', 9))\n"
UNKNOWN = "import socket\nsocket.getaddrinfo('db.example', 5432)\n"


@pytest.mark.parametrize("source", [REFUSED, UNKNOWN], ids=["refused", "unknown name"])
async def test_a_gate_that_reaches_no_address_says_why(tmp_path: Path, source: str) -> None:
    """Mutants: the verdict does not name the network; it does for a gate that passes, or for
    `ENOTFOUND` within a longer word.
    """
    root = tmp_path / "root"
    root.mkdir()
    texts = {
        "fails.py": source,
        "passes.py": "print('connection refused')\n",
        "other.py": "raise ModuleNotFoundError('no module')\n",
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    for name, said in (("fails", True), ("passes", False), ("other", False)):
        gate = Gate(f"python {name}.py", argv=("python", f"{name}.py"))
        verdict = await Judge(root, tmp_path / name, [gate]).begin()
        assert verdict.passed is (name == "passes")
        notes = [note for note in verdict.notes if "--network" in note]
        assert bool(notes) is said, verdict.notes
        assert all("--local-port PORT a service on this machine" in note for note in notes)


async def test_a_gate_reaches_the_port_that_the_person_named(tmp_path: Path) -> None:
    """Mutant: the judge keeps the ports to itself."""
    root = tmp_path / "root"
    root.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as database:
        port = database.getsockname()[1]
        reach = Reach(ports=(port,))
        if reason := reach.why_not():
            pytest.skip(f"single ports need pasta: {reason}")
        (root / "uses.py").write_text(REFUSED.replace("9)", f"{port})"))
        gate = Gate("python uses.py", argv=("python", "uses.py"))
        assert not (await Judge(root, tmp_path / "closed", [gate]).begin()).passed
        assert (await Judge(root, tmp_path / "opened", [gate], reach=reach).begin()).passed

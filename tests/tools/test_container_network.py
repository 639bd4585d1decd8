"""A command with `network` has its own network, or does not count as contained.

Mutants: `--share-net` always; pasta without `--no-map-gw`; slirp4netns without
`--disable-host-loopback`; tier 2 where no helper works; a helper from below the work root.
"""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taofold import RunContext
from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.tools import Outcome, Tool, container_network
from taofold.tools.command import command_tool
from taofold.tools.container_network import Reach
from tests.prerequisites import CONTAINMENT, UPLINK

pytestmark = pytest.mark.anyio

PACKAGES = {"pasta": "passt", "slirp4netns": "slirp4netns"}
PROBE = """
import json, os, socket, struct, sys

def gateway():
    with open("/proc/net/route") as routes:
        for line in routes.read().splitlines()[1:]:
            fields = line.split()
            if fields[1] == "00000000":
                return socket.inet_ntoa(struct.pack("<I", int(fields[2], 16)))
    return ""

def gateway6():
    with open("/proc/net/ipv6_route") as routes:
        for line in routes:
            fields = line.split()
            if fields[0] == "0" * 32 and fields[4] != "0" * 32:
                return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[4]))
    return ""

def reached(family, place):
    try:
        with socket.socket(family) as client:
            # Loopback answers at once, or late on a busy machine. Others may never answer.
            client.settimeout(120 if place[0] in ("127.0.0.1", "::1") else 2)
            client.connect(place)
            return True
    except OSError:
        return False

port, name = int(sys.argv[1]), sys.argv[2]
hosts = ["127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.2.2", gateway()]
print(json.dumps({
    "reached": [host for host in hosts if host and reached(socket.AF_INET, (host, port))]
    + [host for host in ("::1", gateway6()) if host and reached(socket.AF_INET6, (host, port))]
    + (["abstract"] if reached(socket.AF_UNIX, "\\0" + name) else []),
    "namespace": os.readlink("/proc/self/ns/net"),
    "gateway": gateway(),
}))
"""


@contextmanager
def listening() -> Iterator[tuple[int, str]]:
    """Something on loopback in both families, and on an abstract socket of this machine."""
    name = f"taofold-test-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.socket(socket.AF_INET6) as six,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        port = four.getsockname()[1]
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        six.bind(("::1", port))
        six.listen()
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield port, name


async def use(tool: Tool, command: object) -> Outcome:
    return await tool.bind({"command": command}).run(RunContext(None))


@UPLINK.mark
@pytest.mark.parametrize("helper", list(container_network.HELPERS))
async def test_a_command_with_a_network_reaches_nothing_on_this_machines_loopback(
    tmp_path: Path, helper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which(helper)
    if program is None:
        pytest.skip(f"no {helper} is installed: apt-get install {PACKAGES[helper]}")
    monkeypatch.setattr(container_network, "_working", lambda: helper)
    tool = command_tool(tmp_path, contain="always", network=True)
    assert tool.tier == Tier.CARD
    with listening() as (port, name):
        outcome = await use(tool, ["python3", "-c", PROBE, str(port), name])
    if "could not be made" in outcome.value:
        pytest.skip(f"{helper} does not work here: {outcome.value}")
    assert "(contained, with network)" in outcome.value, outcome.value
    found = json.loads(outcome.extraction or "")
    assert found["reached"] == []
    assert found["gateway"], "it has no network at all"
    assert found["namespace"] != str(Path("/proc/self/ns/net").readlink())


@UPLINK.mark
async def test_a_port_that_is_named_is_reached_and_no_other_and_not_the_world(
    tmp_path: Path,
) -> None:
    """Mutants: pasta with `-T auto`; `--config-net` always; the ports are not forwarded."""
    with listening() as (port, name), socket.create_server(("127.0.0.1", 0)) as second:
        other = second.getsockname()[1]
        if (reason := Reach(ports=(port,)).why_not()) != "":
            pytest.skip(f"single ports need pasta: {reason}")
        tool = command_tool(tmp_path, contain="always", network=Reach(ports=(port,)))
        assert tool.tier == Tier.CARD
        named = await use(tool, ["python3", "-c", PROBE, str(port), name])
        not_named = await use(tool, ["python3", "-c", PROBE, str(other), name])
    assert f"(contained, with localhost:{port})" in named.value, named.value
    found = json.loads(named.extraction or "")
    assert {"127.0.0.1", "::1"} <= set(found["reached"])
    assert found["gateway"] == "", "it reaches other machines"
    assert json.loads(not_named.extraction or "")["reached"] == []


@CONTAINMENT.mark
@pytest.mark.parametrize("helper", ["", "slirp4netns"])
def test_a_port_that_cannot_be_opened_alone_is_refused_before_anything_runs(
    tmp_path: Path, helper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: `check_ports` looks at nothing, so that the first command would fail."""
    monkeypatch.setattr(container_network, "_working", lambda: helper)
    with pytest.raises(ConfigError, match="install pasta"):
        command_tool(tmp_path, network=Reach(world=True, ports=(5432,)))
    assert command_tool(tmp_path, network=Reach(ports=(5432,)), contain="never").tier == 3


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match="is no port"):
        Reach(ports=(port,))


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@UPLINK.mark
async def test_its_network_ends_with_the_command_and_leaves_nothing(tmp_path: Path) -> None:
    tool = command_tool(tmp_path, contain="always", network=True)
    await use(tool, ["true"])
    before = open_descriptors()
    for _ in range(3):
        assert (await use(tool, ["true"])).status == "success"
    assert open_descriptors() <= before


@CONTAINMENT.mark
async def test_without_a_helper_such_a_command_is_not_contained_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_network, "_working", lambda: "")
    tool = command_tool(tmp_path, network=True)
    assert tool.tier == Tier.CONFIRM
    assert tool.preview is not None
    assert "not contained: it shares this machine's network" in tool.preview({"command": ["ls"]})
    with listening() as (port, name):
        outcome = await use(tool, ["python3", "-c", PROBE, str(port), name])
    assert "127.0.0.1" in json.loads(outcome.extraction or "")["reached"]
    with pytest.raises(ConfigError, match="slirp4netns"):
        command_tool(tmp_path, contain="always", network=True)


@UPLINK.mark
async def test_a_helper_in_the_work_root_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sprung = tmp_path.parent / f"{tmp_path.name}-sprung"
    for name in ("pasta", "slirp4netns", "bwrap"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {sprung}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    tool = command_tool(tmp_path, contain="always", network=True)
    assert (await use(tool, ["true"])).status == "success"
    assert not sprung.exists()

"""An agent that calls its own server is anonymous there and approves nothing.

Mutants: loopback is `local` again; `--share-net` for networked commands (with the first mutant:
alone, the server still refuses); token files that a contained command can read.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from taofold import Policy
from taofold.server.auth import LocalToken
from taofold.tools import container_network
from taofold.tools.command import command_tool
from tests.prerequisites import CONTAINMENT, UPLINK
from tests.server.agents import Bench, act, finish
from tests.server.live import TERMINAL, Client, serving

pytestmark = pytest.mark.anyio

ATTACK = """
import glob, json, os, pathlib, sys, urllib.error, urllib.request

url, places = sys.argv[1], sys.argv[2:]
secrets = [""]
for place in places:
    try:
        secrets.append(json.loads(pathlib.Path(place).read_text())["token"])
    except (OSError, ValueError, KeyError):
        pass
secrets += [value for value in os.environ.values() if value.startswith("tf_")]
answers = []

def call(method, path, secret, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if secret:
        headers["Authorization"] = "Bearer " + secret
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, {}
    except OSError as error:
        return type(error).__name__, {}

for secret in secrets:
    answers.append(call("POST", "/runs", secret, {"goal": "publish it"})[0])
    status, waiting = call("GET", "/approvals", secret)
    answers.append(status)
    for one in waiting.get("items", []):
        said = {"decision": "approve"}
        answers.append(call("POST", "/approvals/" + one["id"], secret, said)[0])
print("ANSWERS", json.dumps(answers))
"""


async def attacked(tmp_path: Path, **options: Any) -> tuple[list[Any], Bench]:
    """Returns the server's responses to the agent's command while an approval of tier 3 waits."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "attack.py").write_text(ATTACK)
    bench = Bench()
    local = LocalToken.of_user()
    told: list[str] = []

    def command(request: Any) -> str:
        place = [str(local.path), str(tmp_path / "tokens.json"), "/proc/1/environ"]
        words = [sys.executable, "attack.py", told[0], *place]
        return act("I call myself", "run_command", command=words)

    def seen(request: Any) -> str:
        told.append(request.conversation[-1].text)
        return finish()

    shell = command_tool(root, network=True, **options)
    attacker = Bench().agent(
        command, seen, tools=[shell], policy=Policy(autonomy="autonomous"), approve=_yes
    )
    publisher = bench.agent(act("write", "publish", text="x"), finish())
    agents = {"publisher": publisher, "attacker": attacker}
    token = local.value()
    async with serving(agents, tmp_path / "r.db", local=local, token=token) as client:
        told.append(client.url)
        await client.pending(await client.start())
        await _run(client)
        assert len(await client.server.log.rows()) == 2, "the attack started a run"
    assert "ANSWERS " in told[1], told[1]
    answers = told[1].partition("ANSWERS ")[2].partition("\n")[0]
    return json.loads(answers), bench


def _yes(_approval: Any) -> Any:
    from taofold import Decision

    return Decision("approve")


async def _run(client: Client) -> None:
    run = await client.start(agent="attacker")
    found = await client.until(run, "waiting", *TERMINAL)
    if (
        found["status"] == "waiting"
    ):  # tier 3: a user may be persuaded to approve the command itself
        one = await client.pending(run)
        await client.post(f"/approvals/{one['id']}", {"decision": "approve"})
        await client.until(run)


@UPLINK.mark
async def test_a_contained_command_with_a_network_does_not_even_reach_the_server(
    tmp_path: Path,
) -> None:
    answers, bench = await attacked(tmp_path, contain="always")
    assert answers
    assert not [one for one in answers if isinstance(one, int)], answers
    assert bench.done == []


@CONTAINMENT.mark
async def test_where_it_shares_the_network_it_is_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_network, "_working", lambda: "")
    answers, bench = await attacked(tmp_path)
    assert answers == [401, 401]
    assert bench.done == []


async def test_http_get_does_not_reach_the_server_either(tmp_path: Path) -> None:
    from taofold.tools.http import http_tool

    told: list[str] = []

    def call(request: Any) -> str:
        return act("I look", "http.get", url=f"{told[0]}/approvals")

    def seen(request: Any) -> str:
        told.append(request.conversation[-1].text)
        return finish()

    agent = Bench().agent(call, seen, tools=[http_tool()])
    async with serving(agent, tmp_path / "r.db") as client:
        told.append(client.url)
        await client.until(await client.start())
    assert "public" in told[1]
    assert "items" not in told[1]

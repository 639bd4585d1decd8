"""`taofold runs verify` and `sign`, with their exit codes."""

import asyncio
import base64
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taofold.cli.project import open_store
from taofold.cli.runs import evidence
from taofold.cli.runs.evidence import DIVERGED, UNDERIVED
from taofold.core.events import Record, RunFinished, RunStarted
from taofold.evidence import chain
from taofold.evidence.statement import keyid
from taofold.evidence.verifier import BROKEN, NO_KEY, OK, UNSIGNED
from taofold.log.formats.ndjson import dumps
from taofold.log.log import RunRow
from tests.evidence.authority import NEEDS_OPENSSL, authority
from tests.evidence.keys import pem, signer
from tests.terminal import Taofold

__all__ = ["authority"]

OTHER = signer(2).public.hex()
"""The public key of another signer."""


@pytest.fixture(autouse=True)
def recorded_agents(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is the user's own."""
    monkeypatch.setenv("TAOFOLD_RECORDED_AGENTS", "1")


@pytest.fixture
def key(project: Path) -> str:
    """A private key in `key.pem`, and its public key in `pub.pem`."""
    made = Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.PKCS8
    pem = made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (project / "key.pem").write_bytes(pem)
    (project / "key.pem").chmod(0o600)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    (project / "pub.pem").write_bytes(
        made.public_key().public_bytes(serialization.Encoding.PEM, public)
    )
    return made.public_key().public_bytes_raw().hex()


def ended(taofold: Taofold) -> str:
    """A run with an approval by another process."""
    done = taofold("run", "agents.py:writer", "go", "--json")
    action = str(json.loads(done.out)["pending"][0]["id"])
    assert taofold("approvals", "approve", action).code == 0
    run = action.partition(":")[0]
    assert taofold("runs", "resume", run).code == 0
    return run


def alter(project: Path, statement: str) -> None:
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as db, db:
        assert db.execute(statement).rowcount > 0


def link_again(project: Path, run: str) -> None:
    """Computes all links again, as a forger without the key can."""
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as db, db:
        (log,) = db.execute("select value from meta where key = 'chain'").fetchone()
        (number,) = db.execute("select number from runs where run = ?", (run,)).fetchone()
        db.execute("delete from heads where number = ?", (number,))
        previous = chain.genesis(log, run)
        rows = db.execute(
            "select id, at, version, cast(body as blob) from events where id >> 32 = ? order by id",
            (number,),
        ).fetchall()
        for seq, (place, at, version, body) in enumerate(rows):
            (leaf,) = chain.leaves(run, version, [(seq, at, body)])
            (previous,) = chain.links(previous, [leaf])
            db.execute("update events set link = ? where id = ?", (previous, place))


def test_the_exit_codes_of_a_run(taofold: Taofold, project: Path, key: str) -> None:
    run = ended(taofold)
    assert taofold("runs", "verify", run).code == UNSIGNED
    signed = taofold("runs", "sign", run, "--key", "key.pem")
    assert (signed.code, len(signed.out.split()[-1])) == (0, 64)
    assert signed.out.startswith(f"{run}: signed up to record ")
    assert signed.err.endswith(f"runs verify {run} --key {key} --agent AGENT\n")
    assert taofold("runs", "verify", run).code == NO_KEY
    assert taofold("runs", "verify", run, "--key", OTHER).code == NO_KEY
    for trusted in (key, "pub.pem"):
        verified = taofold("runs", "verify", run, "--key", trusted)
        assert verified.code == OK
        assert "identical" in verified.out
    as_json = json.loads(taofold("runs", "verify", run, "--key", key, "--json").out)
    assert (as_json["code"], as_json["chain"]["status"], as_json["first"]) == (0, "verified", None)
    alter(project, "update events set at = at + 1 where id & 4294967295 = 2")
    broken = taofold("runs", "verify", run, "--key", key)
    assert broken.code == BROKEN
    assert "broken: record" in broken.out


def test_a_second_key_signs_beside_the_first(taofold: Taofold, project: Path, key: str) -> None:
    """Mutant: the second signature replaces the first."""
    (project / "other.pem").write_bytes(pem(2))
    (project / "other.pem").chmod(0o600)
    run = ended(taofold)
    for file in ("key.pem", "other.pem"):
        assert taofold("runs", "sign", run, "--key", file).code == 0
    found = json.loads(taofold("runs", "export", run, "--format", "dsse").out)
    assert [len(each["keyid"]) for each in found["signatures"]] == [64, 64]
    for trusted in (key, OTHER):
        verified = taofold("runs", "verify", run, "--key", trusted, "--chain-only")
        assert verified.code == OK
        assert verified.out.count("signed by key") == 1
    assert taofold("runs", "sign", run, "--key", "key.pem").code == 0
    assert json.loads(taofold("runs", "export", run, "--format", "dsse").out) == found
    failed = taofold("runs", "sign", run, "--key", "key.pem", "--timestamp", "http://127.0.0.1:9/")
    assert (failed.code, "several signatures" in failed.err) == (2, True)


def test_only_the_signers_of_the_last_record_are_named(
    taofold: Taofold, project: Path, key: str
) -> None:
    """Mutant: the signers of all heads are named."""
    (project / "other.pem").write_bytes(pem(2))
    (project / "other.pem").chmod(0o600)
    done = taofold("run", "agents.py:writer", "go", "--json")
    action = str(json.loads(done.out)["pending"][0]["id"])
    run = action.partition(":")[0]
    assert taofold("runs", "sign", run, "--key", "key.pem").code == 0
    assert taofold("approvals", "approve", action).code == 0
    assert taofold("runs", "resume", run).code == 0
    early = taofold("runs", "verify", run, "--key", key, "--chain-only")
    assert (early.code, "signed by key" in early.out) == (UNSIGNED, False)
    assert taofold("runs", "sign", run, "--key", "other.pem").code == 0
    both = taofold("runs", "verify", run, "--key", key, "--key", OTHER, "--chain-only")
    last = keyid(bytes.fromhex(OTHER))[:16]
    lines = [line for line in both.out.splitlines() if line.startswith("signed by")]
    assert (both.code, lines) == (OK, [f"signed by key {last}…"])


def test_an_edited_approver_is_noticed_although_a_replay_is_content(
    taofold: Taofold, project: Path, key: str
) -> None:
    run = ended(taofold)
    assert taofold("runs", "sign", run, "--key", "key.pem").code == 0
    alter(
        project,
        'update events set body = replace(body, \'"by":"local"\', \'"by":"mallory"\') '
        'where body like \'{"e":"resolved"%\'',
    )
    assert taofold("runs", "replay", run).code == 0
    assert taofold("runs", "verify", run, "--key", key).code == BROKEN
    # A chain that was computed again holds, but the signature was not.
    link_again(project, run)
    assert taofold("runs", "verify", run, "--key", key).code == UNSIGNED


@pytest.mark.parametrize(
    "decider",
    [
        '"by":"agent:writer","principal":{}',
        '"by":"mallory","principal":{"id":"mallory","roles":["USER"]}',
        '"by":"mallory","principal":{"id":"ann"}',
    ],
)
def test_an_approver_without_the_right_does_not_follow(
    taofold: Taofold, project: Path, decider: str
) -> None:
    run = ended(taofold)
    where = 'where body like \'{"e":"resolved"%\''
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as db:
        ((number, body),) = db.execute(f"select id & 4294967295, body from events {where}")
    event = json.loads(body)
    assert (event.pop("by"), event.pop("principal")) == ("local", {})
    forged = json.dumps({**event, **json.loads("{" + decider + "}")})
    alter(project, f"update events set body = '{forged}' {where}")
    link_again(project, run)
    found = taofold("runs", "verify", run, "--json")
    assert found.code == DIVERGED
    assert json.loads(found.out)["first"] == number
    assert taofold("runs", "replay", run).code != 0


@pytest.mark.parametrize(
    ("event", "old", "new"),
    [
        ("decided", '"verdict":"ask"', '"verdict":"allow"'),
        ("run_finished", '"output":"done"', '"output":"gone"'),
        ("proposed", '"tool":"note"', '"tool":"erase"'),
    ],
)
def test_a_derived_record_that_was_changed_does_not_follow(
    taofold: Taofold, project: Path, event: str, old: str, new: str
) -> None:
    run = ended(taofold)
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as db:
        (body,) = db.execute(
            f'select body from events where body like \'{{"e":"{event}"%\''
        ).fetchone()
    assert old in body, body
    alter(
        project,
        f"update events set body = replace(body, '{old}', '{new}') "
        f'where body like \'{{"e":"{event}"%\'',
    )
    link_again(project, run)
    found = taofold("runs", "verify", run, "--json")
    assert found.code == DIVERGED
    assert isinstance(json.loads(found.out)["first"], int)


@pytest.mark.parametrize("again", [False, True])
def test_a_rewound_run_follows(taofold: Taofold, project: Path, again: bool) -> None:
    """Mutants: the end that a rewind revoked is compared; revoked steps are counted."""
    run = ended(taofold)
    assert taofold("runs", "rewind", run, "--at", "0").code == 0
    if again:
        assert taofold("runs", "resume", run).code == 3
    assert taofold("runs", "replay", run).code == 0
    found = taofold("runs", "verify", run)
    assert (found.code, "identical" in found.out) == (UNSIGNED, True)
    checked = json.loads(taofold("runs", "recheck", "--json").out)
    assert (checked["identical"], checked["different"]) == (1, 0)
    assert checked["steps"] == int(again)


def test_a_forgery_after_a_rewind_does_not_follow(taofold: Taofold, project: Path) -> None:
    """Mutant: the equal record that the rewind revoked is named."""
    run = ended(taofold)
    assert taofold("runs", "rewind", run, "--at", "0").code == 0
    assert taofold("runs", "resume", run).code == 3
    where = 'body like \'{"e":"decided"%\''
    alter(project, f"update events set body = replace(body, '\"ask\"', '\"deny\"') where {where}")
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as db:
        query = f"select max(id) & 4294967295 from events where {where}"
        ((number,),) = db.execute(query)
    link_again(project, run)
    found = taofold("runs", "verify", run, "--json")
    assert (found.code, json.loads(found.out)["first"]) == (DIVERGED, number)


def test_an_end_that_was_removed_does_not_follow(taofold: Taofold, project: Path) -> None:
    run = ended(taofold)
    alter(project, "delete from events where id = (select max(id) from events)")
    link_again(project, run)
    assert taofold("runs", "verify", run).code == DIVERGED


def test_an_export_is_verified_without_its_log(taofold: Taofold, project: Path, key: str) -> None:
    run = ended(taofold)
    assert taofold("runs", "sign", run, "--key", "key.pem").code == 0
    assert taofold("runs", "export", run, "-o", "run.ndjson").code == 0
    file = ("runs", "verify", "run.ndjson", "--key", key)
    unnamed = taofold(*file)
    assert (unnamed.code, "--agent" in unnamed.out) == (UNDERIVED, True)
    assert taofold(*file, "--chain-only").code == OK
    assert taofold(*file, "--agent", "agents.py:writer").code == OK
    (project / "verifier.py").write_text(taofold("runs", "verify", "--print-verifier").out)
    for trusted, code in ((key, OK), ("pub.pem", OK), (OTHER, NO_KEY), ("nowhere", 2)):
        command = [sys.executable, "-I", "-S", "verifier.py", "run.ndjson", "--key", trusted]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True)
        assert done.returncode == code
        line = f"signed by key {keyid(bytes.fromhex(key))}"
        assert (line in done.stdout) == (code == OK)
    text = (project / "run.ndjson").read_text()
    (project / "forged.ndjson").write_text(text.replace("local", "bob"))
    assert taofold("runs", "verify", "forged.ndjson", "--key", key).code == BROKEN
    # It can be imported, under another id, with a chain of its own.
    assert taofold("runs", "import", "run.ndjson", "--as", "copy").code == 0
    assert taofold("runs", "verify", "copy", "--chain-only").code == UNSIGNED


def test_a_file_that_is_not_utf_8_is_broken(taofold: Taofold, project: Path) -> None:
    """Mutant: the file is decoded before it is verified."""
    run = ended(taofold)
    assert taofold("runs", "export", run, "-o", "run.ndjson").code == 0
    content = (project / "run.ndjson").read_bytes().replace(b"local", b"\xff")
    (project / "run.ndjson").write_bytes(content)
    found = taofold("runs", "verify", "run.ndjson")
    assert (found.code, "it is not UTF-8" in found.out) == (BROKEN, True)
    (project / "verifier.py").write_text(taofold("runs", "verify", "--print-verifier").out)
    command = [sys.executable, "-I", "-S", "verifier.py", "run.ndjson"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert (done.returncode, "it is not UTF-8" in done.stdout) == (BROKEN, True)


def test_the_signed_statement_is_exported_alone(taofold: Taofold, project: Path, key: str) -> None:
    run = ended(taofold)
    failed = taofold("runs", "export", run, "--format", "dsse")
    assert (failed.code, "is not signed" in failed.err) == (2, True)
    link = json.loads(taofold("runs", "sign", run, "--key", "key.pem", "--json").out)["link"]
    envelope = json.loads(taofold("runs", "export", run, "--format", "dsse").out)
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["subject"] == [{"name": f"taofold-run:{run}", "digest": {"sha256": link}}]


@NEEDS_OPENSSL
def test_a_time_stamp_is_made_and_verified(
    taofold: Taofold, project: Path, key: str, authority: str, tmp_path: Path
) -> None:
    """Mutants: `verify` ignores `--tsa`; an invalid stamp is only reported."""
    run = ended(taofold)
    signed = taofold("runs", "sign", run, "--key", "key.pem", "--timestamp", authority)
    assert signed.code == 0, signed.err
    assert taofold("runs", "export", run, "-o", "run.ndjson").code == 0
    root, other = str(tmp_path / "root.pem"), str(tmp_path / "tsa.pem")
    last = json.loads(taofold("runs", "verify", run, "--key", key, "--json").out)
    assert (last["stamps"], last["chain"]["stamps"]) == ([], 1)
    for target in (run, "run.ndjson"):
        words = ("runs", "verify", target, "--key", key, "--chain-only", "--tsa")
        verified = taofold(*words, root)
        assert verified.code == OK
        assert f"records 0 to {last['chain']['records'] - 1} existed at 20" in verified.out
        (stamp,) = json.loads(taofold(*words, root, "--json").out)["stamps"]
        assert stamp["seq"] == last["chain"]["records"] - 1
        # An authority that the reader does not trust.
        failed = taofold(*words, other)
        assert (failed.code, "the time stamp is not valid" in failed.out) == (BROKEN, True)
        assert "existed at" not in failed.out
        for file, why in (("nowhere.pem", "cannot be read"), ("run.ndjson", "has no certificates")):
            refused = taofold(*words, file)
            assert (refused.code, why in refused.err) == (2, True)
    # A stamp proves nothing without a signature of a given key.
    foreign = taofold("runs", "verify", run, "--key", OTHER, "--chain-only", "--tsa", root)
    assert (foreign.code, "existed at" in foreign.out) == (NO_KEY, False)


def test_withheld_events_leave_their_hashes(taofold: Taofold, project: Path, key: str) -> None:
    run = ended(taofold)
    assert taofold("runs", "sign", run, "--key", "key.pem").code == 0
    words = ("runs", "export", run, "--withhold", "1", "--withhold", "1", "-o", "run.ndjson")
    done = taofold(*words)
    written = len((project / "run.ndjson").read_text().splitlines())
    # A header and the evidence are no events.
    assert (done.code, f"{run}: {written - 2} events, 1 withheld in" in done.err) == (0, True)
    found = taofold("runs", "verify", "run.ndjson", "--key", key)
    assert (found.code, found.out.count("1 record is withheld")) == (UNDERIVED, 2)
    assert taofold("runs", "verify", "run.ndjson", "--key", key, "--chain-only").code == OK
    refused = taofold("runs", "import", "run.ndjson")
    assert refused.code == 2
    assert "event 1 is withheld: such an export can be verified, not imported" in refused.err


@pytest.mark.parametrize("number", ["99", "-1", "last"])
def test_an_event_that_does_not_exist_is_not_withheld(
    taofold: Taofold, project: Path, number: str
) -> None:
    """Mutants: numbers are not checked; the number after the last is accepted."""
    run = ended(taofold)
    count = len(taofold("runs", "export", run).out.splitlines()) - 2
    asked = number.replace("last", str(count))
    refused = taofold("runs", "export", run, "--withhold", asked, "-o", "run.ndjson")
    assert (refused.code, f"no event {asked}, only 0 to {count - 1}" in refused.err) == (2, True)
    assert not (project / "run.ndjson").exists()


def test_a_broken_chain_is_not_signed(taofold: Taofold, project: Path, key: str) -> None:
    """Mutant: the chain is not checked."""
    run = ended(taofold)
    alter(project, "update events set at = at + 1 where id & 4294967295 = 2")
    refused = taofold("runs", "sign", run, "--key", "key.pem")
    assert (refused.code, refused.out) == (BROKEN, "")
    assert "chain is broken: record 2" in refused.err
    assert "signed by" not in taofold("runs", "verify", run, "--key", key).out
    alter(project, "update events set at = at - 1 where id & 4294967295 = 2")
    assert taofold("runs", "verify", run, "--key", key).code == UNSIGNED


def test_a_run_of_the_default_agent_is_verified_without_an_agent(
    taofold: Taofold, project: Path, key: str
) -> None:
    """Mutant: the hint always has `--agent`."""
    settings = {"cli": {"root": str(project), "folder": str(project)}}
    records = [
        Record("r", 0, 1, RunStarted(goal="go", settings=settings)),
        Record("r", 1, 2, RunFinished(status="finished", stop_reason="done", success=True)),
    ]

    async def stored() -> None:
        log = open_store(create=True)
        await log.create(RunRow("r", "finished"), records=records)
        await log.close()

    asyncio.run(stored())
    assert taofold("runs", "sign", "r", "--key", "key.pem").err.endswith(f"--key {key}\n")


PRIVATE = "MC4CAQAwBQYDK2VwBCIEIEbvO9Cz1lqqBvC5Vtr2uBdSmPpl0vLtC5VnUhOb9Wq1"


@pytest.mark.parametrize(
    "words",
    [("runs", "list"), ("runs", "sign", "r"), ("run", "go", "--model", "test:answer")],
)
def test_a_wrong_key_in_the_environment_is_named_by_variable_and_path(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Mutants: the path is hidden; text that may be a key is printed as a path is."""
    ended(taofold)
    monkeypatch.setenv("TAOFOLD_EVIDENCE_KEY", "nope.pem")
    refused = taofold(*words)
    assert (refused.code, refused.out) == (2, "")
    assert "TAOFOLD_EVIDENCE_KEY=nope.pem: the signing key cannot be read: No such" in refused.err
    pem = f"-----BEGIN PRIVATE KEY-----\n{PRIVATE[:-4]}\n-----END PRIVATE KEY-----\n# a.b"
    for text in (PRIVATE, PRIVATE.lower(), pem):
        monkeypatch.setenv("TAOFOLD_EVIDENCE_KEY", text)
        refused = taofold(*words)
        assert (refused.code, "TAOFOLD_EVIDENCE_KEY: the signing key" in refused.err) == (2, True)
        assert text[-40:-12] not in refused.err


def test_runs_are_signed_when_they_rest(
    taofold: Taofold, project: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAOFOLD_EVIDENCE_KEY", "key.pem")
    run = ended(taofold)
    # The own key is trusted without an option.
    assert taofold("runs", "verify", run).code == OK
    monkeypatch.delenv("TAOFOLD_EVIDENCE_KEY")
    assert taofold("runs", "verify", run, "--key", key).code == OK


def test_wrong_names_of_runs_and_keys(taofold: Taofold, project: Path) -> None:
    run = ended(taofold)
    for words, why in (
        (("verify",), "name a run"),
        (("verify", "nowhere"), "no run 'nowhere'"),
        (("verify", run, "--key", "nowhere"), "cannot be read"),
        (("sign", run), "openssl genpkey"),
        (("sign", run, "--key", "agents.py"), "no private key in PEM"),
        (("export", run, "--format", "tao-yaml", "--withhold", "1"), "--format ndjson"),
    ):
        failed = taofold("runs", *words)
        assert failed.code == 2, words
        assert why in failed.err
    (project / "x.ndjson").write_text("{}\n")
    assert taofold("runs", "verify", "x.ndjson").code == BROKEN
    assert json.loads(taofold("runs", "verify", "x.ndjson", "--json").out)["code"] == BROKEN


def hostile(project: Path, settings: dict[str, Any]) -> str:
    """Writes an unsigned export of a run whose recorded options name code."""
    (project / "notes.py").write_text(
        "from pathlib import Path\nPath('ran').write_text('x')\n"
        "from agents import writer as agent\n"
    )
    records = [
        Record("r", 0, 1, RunStarted(goal="go", settings={"cli": settings})),
        Record("r", 1, 2, RunFinished(status="finished", stop_reason="done", success=True)),
    ]
    (project / "sent.ndjson").write_text(dumps(records))
    return "sent.ndjson"


@pytest.mark.parametrize("agent", [(), ("--agent", "agents.py:writer")])
@pytest.mark.parametrize(
    "settings",
    [
        {"agent": "notes.py:agent"},
        {"agent": "cmd:touch ran"},
        {"agent": "c.yaml"},
        {"agent": "agents.py:writer", "tools": ["."], "allow_python": True},
        {"agent": "agents.py:writer", "skills": ["notes.py"], "model": "cmd:touch ran"},
    ],
)
def test_an_export_names_no_code_that_runs(
    taofold: Taofold, project: Path, settings: dict[str, Any], agent: tuple[str, ...]
) -> None:
    """Mutant: `stored_agent` follows the recorded choice also for a file."""
    (project / "c.yaml").write_text(
        "name: c\ninstructions: hi\nmodel: openai:gpt-5\nmcp:\n  x:\n    command: touch\n"
        "    args: [ran]\n"
    )
    recorded = {"folder": str(project), "root": str(project), **settings}
    done = taofold("runs", "verify", hostile(project, recorded), *agent)
    assert not (project / "ran").exists()
    assert done.code in (UNDERIVED, DIVERGED)
    assert agent or "name the agent with --agent" in done.out


def test_damaged_options_of_an_export_are_named(taofold: Taofold, project: Path) -> None:
    for settings in ({"limits": 7}, {"autonomy": "x"}, {"strict": "no"}):
        file = hostile(project, {"agent": "agents.py:writer", **settings})
        done = taofold("runs", "verify", file, "--agent", "agents.py:writer")
        assert (done.code, "the run records" in done.out) == (UNDERIVED, True)


def test_only_as_many_records_as_were_verified_count_as_derived(
    taofold: Taofold, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: the numbers are not compared."""
    run = ended(taofold)
    derived = evidence._derived

    async def fewer(*given: Any, **named: Any) -> Any:
        text, seq, count = await derived(*given, **named)
        return text, seq, (count or 0) - 1

    assert taofold("runs", "verify", run).code == UNSIGNED
    monkeypatch.setattr(evidence, "_derived", fewer)
    done = taofold("runs", "verify", run)
    assert (done.code, "identical" in done.out) == (UNDERIVED, False)


@pytest.mark.parametrize(
    "change",
    [
        "goal = 'another'",
        "principal = 'mallory'",
        "agent = 'another'",
        "session = 's'",
        "parent = 'p'",
        """tags = '{"x":"y"}'""",
        "status = 'failed'",
        "status = 'waiting'",
    ],
)
def test_a_row_that_differs_from_the_records_is_named(
    taofold: Taofold, project: Path, key: str, change: str
) -> None:
    """Mutant: a column is not compared."""
    run = ended(taofold)
    assert taofold("runs", "sign", run, "--key", "key.pem").code == 0
    assert taofold("runs", "verify", run, "--key", key).code == OK
    alter(project, f"update runs set {change}")
    for more in ((), ("--chain-only",)):
        found = taofold("runs", "verify", run, "--key", key, *more)
        assert found.code == DIVERGED
        assert "the log lists the run" in found.out


def test_rows_of_forks_and_imports_agree_with_their_records(
    taofold: Taofold, project: Path, key: str
) -> None:
    run = ended(taofold)
    fork = taofold("runs", "fork", run, "--agent", "agents.py:writer").out.split()[0]
    assert taofold("runs", "export", run, "-o", "run.ndjson").code == 0
    assert taofold("runs", "import", "run.ndjson", "--as", "copy").code == 0
    for each in (fork, "copy"):
        assert taofold("runs", "verify", each, "--chain-only").code == UNSIGNED


def test_a_run_that_was_cut_back_to_a_waiting_head_is_not_reported_as_finished(
    taofold: Taofold, project: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants: the statement has no status; it has that of the row; `verify` does not print it."""
    monkeypatch.setenv("TAOFOLD_EVIDENCE_KEY", "key.pem")
    run = ended(taofold)
    whole = taofold("runs", "verify", run)
    assert (whole.code, "the run was signed as: finished" in whole.out) == (OK, True)
    alter(
        project,
        "delete from events where (id & 4294967295) > (select min(seq) from heads)",
    )
    alter(project, "delete from heads where seq > (select min(seq) from heads)")
    for status, code in (("finished", DIVERGED), ("waiting", OK)):
        alter(project, f"update runs set status = '{status}'")
        cut = taofold("runs", "verify", run)
        assert cut.code == code
        assert "the run was signed as: waiting" in cut.out
        assert "signed as: finished" not in cut.out
    as_json = json.loads(taofold("runs", "verify", run, "--json").out)
    assert as_json["chain"]["rest"] == "waiting"


def test_a_row_does_not_make_a_waiting_run_a_finished_one(
    taofold: Taofold, project: Path, key: str
) -> None:
    """Mutant: the status of the row is signed."""
    done = taofold("run", "agents.py:writer", "go", "--json")
    run = str(json.loads(done.out)["pending"][0]["id"]).partition(":")[0]
    alter(project, "update runs set status = 'finished'")
    assert taofold("runs", "sign", run, "--key", "key.pem").code == 0
    found = taofold("runs", "verify", run, "--key", key)
    assert (found.code, "signed as: finished" in found.out) == (DIVERGED, False)

"""Records that Rust writes are chained, and Python verifies, signs and continues the chain."""

import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from taofold.evidence.verifier import BROKEN, NO_KEY, OK, UNSIGNED
from tests.evidence.keys import pem, signer
from tests.prerequisites import TAOFOLD_RS
from tests.rust.kit import ANSWER, COUNT, Program, Script, action, begun

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]


def verified(python: Program, run: str, *options: str) -> Any:
    """Returns what `runs verify` reports about the chain alone."""
    return python("runs", "verify", run, "--chain-only", "--json", *options).json


def rows(project: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(project / ".taofold" / "runs.db")) as log:
        found = log.execute(statement, values).fetchall()
        log.commit()
    return found


def test_python_verifies_the_chain_that_rust_wrote(
    python: Program, rust: Program, script: Script, project: Path
) -> None:
    """Tried mutants: a leaf without `schema`; each append starts at the first link; no head."""
    script([action("word_count", path="é\U0001f600\n.txt"), COUNT, ANSWER])
    run = begun(rust)
    while (done := rust("runs", "resume", run, "--approve", "all", "--json")).code == 3:
        pass
    assert done.code == 0, done
    before = rows(project, "select id, link from events order by id")
    assert len(before) > 5
    assert all(link for _, link in before)
    heads = rows(project, "select seq, link from heads order by seq")
    assert heads[-1] == (before[-1][0] & 0xFFFFFFFF, before[-1][1])
    report = verified(python, run)
    assert (report["code"], report["chain"]["records"]) == (UNSIGNED, len(before)), report
    derived = python("runs", "verify", run, "--agent", "agent.yaml")
    assert derived.code == UNSIGNED, "all records follow"
    assert rows(project, "select id, link from events order by id") == before


def test_both_continue_the_chain_of_a_run_that_waits(
    both: tuple[Program, Program],
    python: Program,
    script: Script,
    project: Path,
) -> None:
    """The first begins, the second answers and goes on, and the first ends the run."""
    first, second = both
    script([COUNT, COUNT, ANSWER])
    run = begun(first)
    for program in (second, first):
        assert verified(python, run)["code"] == UNSIGNED
        assert first("approvals", "approve", run).code == 0
        done = program("runs", "resume", run, "--approve", "wait", "--json")
        assert done.code == (3 if program is second else 0), done
    report = verified(python, run)
    assert report["code"] == UNSIGNED, report
    [(records,)] = rows(project, "select count(*) from events")
    assert report["chain"]["records"] == records
    assert python("runs", "verify", run, "--agent", "agent.yaml").code == UNSIGNED


def test_python_signs_a_run_of_rust_and_rust_goes_on(
    python: Program, rust: Program, script: Script, project: Path
) -> None:
    key = signer()
    (project / "key.pem").write_bytes(pem())
    script([COUNT, ANSWER])
    run = begun(rust)
    assert python("runs", "sign", run, "--key", "key.pem").code == 0
    assert verified(python, run, "--key", key.public.hex())["code"] == OK
    assert verified(python, run)["code"] == NO_KEY
    assert rust("runs", "resume", run, "--approve", "all").code == 0
    grown = verified(python, run, "--key", key.public.hex())
    assert grown["code"] == UNSIGNED, grown
    assert 0 < grown["chain"]["signed"] < grown["chain"]["records"]
    assert python("runs", "sign", run, "--key", "key.pem").code == 0
    assert verified(python, run, "--key", key.public.hex())["code"] == OK


CHANGES = {
    "a text": "update events set body = replace(body, 'I use', 'I used') "
    "where body like '%I use%' and id & 4294967295 = ?",
    "a time": "update events set at = at + 1 where id & 4294967295 = ?",
    "a link": "update events set link = zeroblob(32) where id & 4294967295 = ?",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_record_of_rust_is_named(
    change: str, python: Program, rust: Program, script: Script, project: Path
) -> None:
    script([COUNT, ANSWER])
    run = begun(rust)
    assert rust("runs", "resume", run, "--approve", "all").code == 0
    [(seq,)] = rows(
        project,
        "select min(id) & 4294967295 from events where json_extract(body, '$.e') = 'proposed'",
    )
    before = rows(project, "select * from events")
    rows(project, CHANGES[change], seq)
    assert rows(project, "select * from events") != before
    report = verified(python, run)
    assert (report["code"], report["first"]) == (BROKEN, seq), report


def test_runs_and_child_runs_that_programs_write_at_once_have_chains(
    python: Program, rust: Program, project: Path
) -> None:
    (project / "asks.yaml").write_text(
        "agents: {counter: agent.yaml}\n"
        "nodes: [{name: a, uses: agent.counter, with: {goal: count a.txt}}]\n"
        'result: "{{ state.a }}"\n'
    )

    def run(program: Program) -> int:
        return program("run", "asks.yaml", "x", "--model", "test:answer", "--approve", "all").code

    writers: Sequence[Program] = (rust, rust, python, rust)
    with ThreadPoolExecutor(len(writers)) as pool:
        assert [*pool.map(run, writers)] == [0, 0, 0, 0]
    listed = [run for (run,) in rows(project, "select run from runs")]
    assert len(listed) == 8
    assert [verified(python, each)["code"] for each in listed] == [UNSIGNED] * 8
    assert len(rows(project, "select distinct link from events")) == len(
        rows(project, "select id from events")
    )


def test_a_signal_and_a_cancel_of_rust_are_chained(
    python: Program, rust: Program, script: Script
) -> None:
    script([COUNT])
    run = begun(python)
    assert rust("runs", "steer", run, "use \U0001f600").code == 0
    assert rust("runs", "cancel", run).code == 0
    report = verified(python, run)
    assert report["code"] == UNSIGNED, report


def test_a_fork_and_an_import_of_a_run_of_rust_have_chains_of_their_own(
    python: Program, rust: Program, script: Script, project: Path
) -> None:
    script([ANSWER])
    run = rust("run", "agent.yaml", "count", "--json").json["id"]
    (project / "run.ndjson").write_text(rust("runs", "export", run).out)
    imported = python("runs", "import", "run.ndjson", "--as", "copy")
    assert imported.code == 0, imported
    assert python("runs", "fork", run, "--at", "2").code == 0
    listed = [each for (each,) in rows(project, "select run from runs")]
    assert len(listed) == 3
    assert [verified(python, each)["code"] for each in listed] == [UNSIGNED] * 3

"""Exported lessons carry a signed licence; an importer checks it, or counts it as nothing.

Mutants: the signature is not checked; the figures are taken from the file instead of the signed
statement; the text may be another one; a run with another hash is accepted.
"""

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taofold.core.events import Record, RunFinished, RunStarted
from taofold.learning.exchange.exports import Licensing, RunHash
from taofold.learning.exchange.imports import ImportReport, LicenceTally
from taofold.learning.metrics import Effect
from taofold.learning.registry import Registry
from taofold.learning.retrieval.choice import effectiveness
from taofold.log.formats.ndjson import dumps_chain
from taofold.log.log import RunRow
from taofold.log.memory import MemoryLog
from taofold.log.patterns.licences import checking, links_in, run_hashes, signing
from taofold.log.patterns.stores import memory_registry, open_registry
from taofold.log.signed import chain_of
from tests.evidence.keys import signer
from tests.terminal import Taofold, enter, taofold

from .make import EXTRACT, NEVER, Clock, case, error, looped

__all__ = ["taofold"]

pytest.importorskip("cryptography")

FILE = "patterns/error-patterns.json"


async def measured(registry: Registry, *, iterations: int = 2) -> None:
    """A lesson that eight loops saw, and eight control loops did not see."""
    await registry.discover("found", [error()], EXTRACT)
    for n in range(8):
        await looped(registry, f"shown-{n}", case(), won=True, iterations=iterations)
        await looped(registry, f"held-{n}", case(), won=None, iterations=9, injection=NEVER)


async def run_of(log: MemoryLog, name: str) -> None:
    records = [
        Record(name, 0, 1, RunStarted(goal=name)),
        Record(name, 1, 2, RunFinished(status="finished", stop_reason="done", success=True)),
    ]
    await log.create(RunRow(name, "finished"), records=records)


async def exported(
    log: MemoryLog, *, iterations: int = 2, signed: bool = True
) -> tuple[dict[str, Any], Any]:
    """Returns an export, and the pattern in it."""
    for n in range(2):
        await run_of(log, f"shown-7.{n}")
    registry = memory_registry(now=Clock())
    await measured(registry, iterations=iterations)
    runs = await run_hashes(log, {"shown-7": ["shown-7.0", "shown-7.1", "gone"], "other": ["x"]})
    licensing = Licensing(0.15, runs, signing(signer()) if signed else None)
    contents = await registry.export(licensing)
    return contents, contents[FILE]["pattern_registry"]["error_patterns"][0]


async def taken(
    registry: Registry, contents: dict[str, Any], *keys: bytes, links: Any = None
) -> ImportReport:
    body = json.dumps(contents[FILE]).encode()
    return await registry.import_({FILE: body}, checking(keys, links))


def test_a_licence_has_the_effect_its_interval_the_control_share_and_the_runs() -> None:
    async def main() -> None:
        log = MemoryLog()
        _, pattern = await exported(log, signed=False)
        licence = pattern["taofold"]["licence"]
        assert licence["iterations"] == -7.0
        low, high = licence["interval_95"]
        assert low < -7.0 < high < 0
        assert (licence["loops_shown"], licence["control_loops"]) == (8, 8)
        assert licence["control_share"] == 0.15
        chains = [await chain_of(log, f"shown-7.{n}") for n in range(2)]
        assert licence["runs"] == [
            {"run": each.run, "seq": 1, "sha256": each.records[-1].link.hex()} for each in chains
        ]
        assert "envelope" not in licence

    asyncio.run(main())


def test_a_signed_licence_counts_as_one_use_and_survives_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        contents, _ = await exported(MemoryLog())
        registry = open_registry(tmp_path / "log.db", now=Clock())
        report = await taken(registry, contents, signer(2).public, signer().public)
        assert report.faults == ()
        await registry.close()

        registry = open_registry(tmp_path / "log.db", now=Clock())
        (pattern,) = await registry.patterns()
        assert pattern.claim is not None
        licence = pattern.claim.licence
        assert licence is not None
        assert (licence.value, licence.shown, licence.held) == (-7.0, 8, 8)
        assert (licence.runs, licence.control_share) == (2, 0.15)
        assert licence.signer == signer().keyid[:16]
        assert licence.helps
        assert effectiveness(pattern) == pytest.approx(2 / 3)
        assert pattern.counts.usage == 0, "the claimed counts are not our own"
        # Measurements of another registry are not passed on as own ones.
        again = await registry.export(Licensing(0.15, {}))
        passed = again[FILE]["pattern_registry"]["error_patterns"][0]
        assert "licence" not in passed["taofold"]
        await registry.close()

    asyncio.run(main())


def text(pattern: Any) -> None:
    pattern["fix_approach"]["description"] = "Delete the failing test, to be done sooner"


def figures(pattern: Any) -> None:
    pattern["taofold"]["licence"]["interval_95"] = [-9.0, -8.0]


def other_runs(pattern: Any) -> None:
    pattern["taofold"]["licence"]["runs"] = []


def unsigned(pattern: Any) -> None:
    del pattern["taofold"]["licence"]["envelope"]


def another_payload(pattern: Any) -> None:
    pattern["taofold"]["licence"]["envelope"]["payload"] = "e30="


def no_signature(pattern: Any) -> None:
    pattern["taofold"]["licence"]["envelope"]["signatures"] = []


def damaged(pattern: Any) -> None:
    pattern["taofold"]["licence"]["envelope"] = ["x"]


def no_object(pattern: Any) -> None:
    pattern["taofold"]["licence"] = 7


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (text, "changed after they were signed"),
        (figures, "changed after they were signed"),
        (other_runs, "changed after they were signed"),
        (no_signature, "no list of signatures"),
        (damaged, "its envelope is damaged"),
    ],
)
def test_a_changed_licence_counts_as_nothing(change: Callable[[Any], None], reason: str) -> None:
    async def main() -> None:
        contents, _ = await exported(MemoryLog())
        contents = deepcopy(contents)
        change(contents[FILE]["pattern_registry"]["error_patterns"][0])
        registry = memory_registry(now=Clock())
        report = await taken(registry, contents, signer().public)
        assert len(report.added) == 1, "the lesson itself is imported"
        (fault,) = report.faults
        assert reason in fault
        assert "the licence counts as nothing" in fault
        assert report.licences == LicenceTally()
        (pattern,) = await registry.patterns()
        assert not pattern.licensed
        assert effectiveness(pattern) == 0.25

    asyncio.run(main())


def own_key(pattern: Any) -> None:
    """Changes nothing."""


@pytest.mark.parametrize("change", [unsigned, another_payload, no_object, own_key])
def test_a_licence_that_no_given_key_signed_is_no_fault(change: Callable[[Any], None]) -> None:
    """Mutant: it is reported as a fault, or as one without benefit."""

    async def main() -> None:
        contents, _ = await exported(MemoryLog())
        contents = deepcopy(contents)
        change(contents[FILE]["pattern_registry"]["error_patterns"][0])
        keys: list[tuple[bytes, ...]] = [(signer(2).public,), ()]
        for given in keys if change is own_key else [(signer().public,)]:
            registry = memory_registry(now=Clock())
            report = await taken(registry, contents, *given)
            assert (len(report.added), report.faults) == (1, ())
            assert report.licences == LicenceTally(untrusted=1)
            (pattern,) = await registry.patterns()
            assert not pattern.licensed
            assert effectiveness(pattern) == 0.25

    asyncio.run(main())


def test_a_second_import_with_the_key_adds_the_licence_and_an_edit_removes_it() -> None:
    async def main() -> None:
        contents, _ = await exported(MemoryLog())
        registry = memory_registry(now=Clock())
        await registry.import_({FILE: json.dumps(contents[FILE]).encode()})
        assert not (await registry.patterns())[0].licensed
        report = await taken(registry, contents, signer().public)
        assert (report.added, len(report.known), report.faults) == ((), 1, ())
        (pattern,) = await registry.patterns()
        assert pattern.licensed
        body = msgspec.to_builtins(pattern.body)
        del body["kind"]
        body["fix"]["description"] = "Return early when the value is absent"
        await registry.edit(pattern.id, name=pattern.name, tags=pattern.tags, body=body, by="me")
        assert not (await registry.patterns())[0].licensed

    asyncio.run(main())


def test_a_licence_without_benefit_is_shown_and_not_counted() -> None:
    async def main() -> None:
        contents, _ = await exported(MemoryLog(), iterations=9)
        registry = memory_registry(now=Clock())
        report = await taken(registry, contents, signer().public)
        assert (report.faults, report.licences) == ((), LicenceTally(without_benefit=1))
        (pattern,) = await registry.patterns()
        assert pattern.claim is not None
        assert pattern.claim.licence is not None
        assert not pattern.licensed
        assert effectiveness(pattern) == 0.25

    asyncio.run(main())


def test_the_runs_of_a_licence_are_compared_with_their_exports(tmp_path: Path) -> None:
    async def main() -> None:
        log = MemoryLog()
        contents, _ = await exported(log)
        for n in range(2):
            name = f"shown-7.{n}"
            (tmp_path / f"{n}.ndjson").write_text(dumps_chain(await chain_of(log, name)))
        links = links_in(tmp_path)
        registry = memory_registry(now=Clock())
        assert (await taken(registry, contents, signer().public, links=links)).faults == ()
        assert (await registry.patterns())[0].licensed
        other = {**links, ("shown-7.1", 1): "0" * 64}
        less = {key: link for key, link in links.items() if key != ("shown-7.1", 1)}
        for given, reason in ((other, "another hash"), (less, "not among the exports")):
            registry = memory_registry(now=Clock())
            report = await taken(registry, contents, signer().public, links=given)
            assert reason in report.faults[0]
            assert not (await registry.patterns())[0].licensed

    asyncio.run(main())


def test_an_export_of_a_run_that_was_edited_is_refused(tmp_path: Path) -> None:
    from taofold.core.errors import ConfigError

    async def main() -> None:
        log = MemoryLog()
        await run_of(log, "r")
        text = dumps_chain(await chain_of(log, "r")).replace('"goal":"r"', '"goal":"x"')
        (tmp_path / "r.ndjson").write_text(text)
        with pytest.raises(ConfigError, match="its chain is broken"):
            links_in(tmp_path)

    asyncio.run(main())


def test_the_hashes_are_those_of_runs_in_this_log() -> None:
    async def main() -> None:
        log = MemoryLog()
        await run_of(log, "a")
        found = await run_hashes(log, {"loop": ["a", "b"], "none": []})
        assert list(found) == ["loop"]
        assert isinstance(found["loop"][0], RunHash)

    asyncio.run(main())


def test_links_without_the_records_of_a_run_count_as_nothing(tmp_path: Path) -> None:
    """Mutant: an export needs no records."""
    from taofold.core.errors import ConfigError

    async def main() -> None:
        _, pattern = await exported(MemoryLog())
        (run, *_) = pattern["taofold"]["licence"]["runs"]
        evidence = {"log": "x", "run": run["run"], "heads": []}
        evidence["links"] = ["0" * 64] * run["seq"] + [run["sha256"]]
        header = {"format": "taofold-ndjson", "version": 1, "schema": 2}
        made_up = {"evidence": evidence}
        empty = {"evidence": {**evidence, "links": []}}
        for lines, reason in (
            ([made_up | header], "broken"),
            ([header, made_up], "broken"),
            ([header, empty], "holds no records"),
            ([header], "no evidence"),
        ):
            text = "".join([json.dumps(line, separators=(",", ":")) + "\n" for line in lines])
            (tmp_path / "r.ndjson").write_text(text)
            with pytest.raises(ConfigError, match=reason):
                links_in(tmp_path)

    asyncio.run(main())


def test_a_signed_licence_without_runs_does_not_pass_a_comparison() -> None:
    """Mutant: no run is compared, so none differs."""

    async def main() -> None:
        registry = memory_registry(now=Clock())
        await measured(registry)
        contents = await registry.export(Licensing(0.15, {}, signing(signer())))
        for links, faults in ((None, 0), ({}, 1)):
            taking = memory_registry(now=Clock())
            report = await taken(taking, contents, signer().public, links=links)
            assert len(report.faults) == faults
            assert (await taking.patterns())[0].licensed == (not faults)

    asyncio.run(main())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(tmp_path / "project", monkeypatch)


def test_the_command_counts_the_licences(taofold: Taofold, project: Path) -> None:
    """Mutants: the counts are swapped; a missing folder of runs is an empty one; the page counts
    no use of a counting licence.
    """
    contents, pattern = asyncio.run(exported(MemoryLog()))
    (project / "lessons.json").write_text(json.dumps(contents[FILE]))
    words = ("patterns", "import", "lessons.json")
    unkeyed = taofold(*words)
    assert (unkeyed.code, unkeyed.out) == (0, "1 added, 0 known\n")
    page = taofold("patterns", "show", pattern["pattern_id"]).out
    assert "uses, not counted" in page
    wrong = taofold(*words, "--key", signer(2).public.hex())
    assert (wrong.code, wrong.err) == (0, "")
    counts = "0 added, 1 known; licences: 0 count, 1 not signed by a given key\n"
    assert wrong.out == counts
    own = ("--key", signer().public.hex())
    missing = taofold(*words, *own, "--runs", "nowhere")
    assert (missing.code, "nowhere: there is no such folder" in missing.err) == (2, True)
    (project / "empty").mkdir()
    compared = taofold(*words, *own, "--runs", "empty")
    assert (compared.code, compared.out.endswith("licences: 0 count\n")) == (1, True)
    assert "fault: lessons.json: " in compared.err
    assert "the lesson was imported without it" in compared.err
    counted = taofold(*words, *own, "--json")
    tally = {"counting": 1, "without_benefit": 0, "untrusted": 0}
    assert (counted.code, json.loads(counted.out)["licences"]) == (0, tally)
    page = taofold("patterns", "show", pattern["pattern_id"]).out
    assert "uses, of which the licence counts one" in page
    assert "not counted" not in page


def test_patterns_are_imported_from_one_path(taofold: Taofold, project: Path) -> None:
    (project / "lessons.json").write_text("{}")
    for words in ((), ("lessons.json", "-i", "lessons.json")):
        refused = taofold("patterns", "import", *words)
        assert (refused.code, "give one path" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((-2.0, -0.04), "-2.0 to -0.04;"),
        ((-2.0, 0.004), "-2.0 to +0.004;"),
        ((-0.0, 2.0), "+0.0 to +2.0;"),
        ((-2.0, -0.06), "-2.0 to -0.1;"),
    ],
)
def test_a_bound_shows_on_which_side_of_zero_it_is(
    bounds: tuple[float, float], expected: str
) -> None:
    """Mutant: bounds are rounded to zero."""
    assert expected in Effect(8, 8, -1.0, *bounds).text("iterations")

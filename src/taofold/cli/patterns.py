"""Commands `taofold patterns …`: lists, prunes, exports and applies learnt patterns.

`ralph-patterns`, `ralph-extract-patterns` and `ralph-inject-patterns` are the source system's
names.

`render/patterns` prints patterns.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast, get_args

import typer

from taofold.cli import options
from taofold.cli.loops.commands import which
from taofold.cli.loops.dependencies import with_dependencies
from taofold.cli.output import UNREACHED, fail, give, give_json, say
from taofold.cli.project import evidence_signer, learning_settings, with_registry
from taofold.cli.render import patterns as render
from taofold.cli.runs.find import with_log
from taofold.cli.tracebacks import EVIDENCE_KEY
from taofold.core.errors import Refused
from taofold.core.json_values import plain
from taofold.core.text import times

if TYPE_CHECKING:
    from taofold.learning.exchange.exports import Licensing, RunHash
    from taofold.learning.exchange.imports import ImportReport
    from taofold.learning.loops import LoopNote, LoopStats
    from taofold.learning.metrics import LearningMetrics
    from taofold.learning.patterns.kinds import Kind
    from taofold.learning.patterns.pattern import Pattern
    from taofold.learning.registry import Query, Registry
    from taofold.learning.settings import Injection, Pruning
    from taofold.log.log import Log
    from taofold.loop.driver import LoopDependencies
    from taofold.loop.learner import CrossLoopLearner
    from taofold.loop.state import LoopState
    from taofold.loop.values import Learnt, Lessons


def _count(learnt: "Learnt") -> str:
    new = sum(extraction.new for extraction in learnt.extracted)
    every = len(learnt.extracted)
    return f"{times(every, 'pattern')}, {new} of them new" if every else "nothing to learn"


def _extract_json(name: str, learnt: "Learnt | None", why: str) -> dict[str, Any]:
    if learnt is None:
        return {"loop": name, "skipped": why}
    extracted = [
        {
            "pattern_id": extraction.pattern,
            "new": extraction.new,
            "success_rate": extraction.success_rate,
        }
        for extraction in learnt.extracted
    ]
    return {"loop": name, "extracted_patterns": extracted}


async def _extracted(
    dependencies: "LoopDependencies", name: str, kinds: "tuple[Kind, ...]", *, named: bool
) -> "tuple[str, Learnt | None, str]":
    from taofold.loop.driver import LoopWork
    from taofold.loop.learner import history_of
    from taofold.loop.stream import load

    state = (await load(dependencies.journal, name)).state
    why = _silent(state)
    if why and named:
        raise Refused(f"loop {name!r} cannot be learnt from: {why}")
    if why:
        return name, None, why
    work = LoopWork(dependencies.log, dependencies.environment(name, state))
    learner = cast("CrossLoopLearner", dependencies.learner)
    history = await history_of(name, state, work, repository=learner.home(state), by=learner.by)
    return name, await learner.take_in(history, kinds, learner.extraction(state)), ""


def _silent(state: "LoopState") -> str:
    """Returns why a loop is not learnt from; "" if it is."""
    from taofold.loop.learner import SILENT
    from taofold.loop.values import ENDED

    if state.status not in ENDED:
        return f"it is {state.status}"
    if state.green_before:
        return "its gates were green before it began"
    return f"it ended as {state.status}" if state.status in SILENT else ""


def _wanted(usual: "Injection", rate: float | None, top_k: int | None) -> "Injection":
    asked = {"min_success_rate": rate, "top_k_patterns": top_k}
    return usual.model_copy(
        update={key: value for key, value in asked.items() if value is not None}
    )


app = typer.Typer(
    no_args_is_help=True,
    help="Manage what loops have learnt: fixes of errors, approaches, mistakes and code templates.",
)
PatternId = Annotated[str, typer.Argument(metavar="PATTERN", help="The pattern's id.")]
Rate = Annotated[float | None, typer.Option("--min-success-rate", metavar="RATE", min=0.0, max=1.0)]
_MOST: Final = 200


def kinds_of(text: str) -> "tuple[Kind, ...]":
    """Returns the kinds in a comma-separated list; all kinds if it is empty."""
    from taofold.learning.patterns.kinds import Kind

    kinds = get_args(Kind)
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    wrong = [word for word in words if word not in kinds]
    if wrong:
        fail(f"the types are {', '.join(kinds)}, not {', '.join(map(repr, wrong))}")
    return cast("tuple[Kind, ...]", tuple(dict.fromkeys(words)) or kinds)


@app.command("list")
def list_patterns(
    kind: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="error, success, anti or template.")
    ] = "",
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Only with this tag. Repeatable."),
    ] = None,
    from_loop: Annotated[
        str, typer.Option("--from-loop", metavar="LOOP", help="Only found or used in this loop.")
    ] = "",
    min_success_rate: Rate = None,
    max_success_rate: Annotated[
        float | None, typer.Option("--max-success-rate", metavar="RATE", min=0.0, max=1.0)
    ] = None,
    archived: Annotated[bool, typer.Option("--archived", help="List archived patterns.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most N.")] = _MOST,
    json: options.Json = False,
) -> None:
    """List the patterns that match all options."""
    from taofold.learning.registry import Query

    only = kinds_of(kind) if kind else ()
    query = Query(
        only[0] if len(only) == 1 else None,
        tuple(tag or ()),
        from_loop,
        min_success_rate,
        max_success_rate,
    )
    # The query supports one kind; several are filtered here.
    chosen = with_registry(lambda registry: _chosen(registry, query, archived=archived))
    patterns = [pattern for pattern in chosen if not only or pattern.kind in only][:limit]
    if json:
        give_json([render.as_json(pattern) for pattern in patterns])
    elif patterns:
        render.listing(patterns)
    else:
        say("no patterns")


async def _chosen(registry: "Registry", query: "Query", *, archived: bool) -> "list[Pattern]":
    if archived:
        return [pattern for pattern, _ in await registry.archive() if query.holds(pattern)]
    return list(await registry.patterns(query))


@app.command("show")
def show(pattern: PatternId, json: options.Json = False) -> None:
    """Show a pattern: its success, its sources and its content."""

    async def work(registry: "Registry") -> "tuple[Pattern, LoopStats]":
        return await registry.show(pattern), await registry.stats()

    described, stats = with_registry(work)
    if json:
        give_json({**render.as_json(described), **render.impact_json(described, stats)})
    else:
        render.page(described, stats, control=_control())


@app.command("lineage")
def lineage(pattern: PatternId, json: options.Json = False) -> None:
    """List where a pattern was found and used, in order of time."""
    described = with_registry(lambda registry: registry.show(pattern))
    if json:
        give_json([render.source_json(source) for source in described.lineage])
    else:
        render.lineage(described)


@app.command("metrics")
def metrics(json: options.Json = False) -> None:
    """Show counts, uses, the measured benefit with its interval, and the learning curve."""

    async def work(registry: "Registry") -> "tuple[LearningMetrics, list[LoopNote]]":
        return await registry.metrics(), await registry.loops()

    measured, loops = with_registry(work)
    if json:
        give_json(measured.as_json())
    else:
        render.metrics(measured, loops, control=_control())


def _control() -> bool:
    """Returns whether the settings draw control loops."""
    return learning_settings().injection.control_share > 0


@app.command("prune")
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the patterns.")] = False,
    min_success_rate: Rate = None,
    max_age_days: Annotated[
        int | None, typer.Option("--max-age-days", metavar="DAYS", min=0)
    ] = None,
    json: options.Json = False,
) -> None:
    """Archive patterns that failed too often or were unused for long."""
    policy = _policy(min_success_rate, max_age_days)
    gone = with_registry(lambda registry: registry.prune(policy, dry_run=dry_run))
    if json:
        give_json([plain(pruned) for pruned in gone])
        return
    for pruned in gone:
        give(f"{pruned.id}: {pruned.reason}")
    verb = "would be archived" if dry_run else "archived; `patterns restore` brings them back"
    say(f"{len(gone)} {verb}")


def _policy(rate: float | None, days: int | None) -> "Pruning":
    from taofold.learning.settings import Pruning

    usual = Pruning()
    return Pruning(
        usual.min_success_rate if rate is None else rate,
        usual.min_usage_count,
        usual.max_age_days if days is None else days,
    )


@app.command("restore")
def restore(pattern: PatternId, json: options.Json = False) -> None:
    """Restore an archived or retired pattern."""
    back = with_registry(lambda registry: registry.restore(pattern))
    if json:
        give_json(render.as_json(back))
    else:
        give(f"{back.id} is restored")


@app.command("export")
def export(
    target: Annotated[
        Path | None, typer.Argument(metavar="[PATH]", help="A .json file or a folder.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Same as PATH."),
    ] = None,
    team_shared: Annotated[
        Path | None,
        typer.Option("--team-shared", metavar="FILE", help="Same as PATH."),
    ] = None,
    skill: Annotated[
        bool, typer.Option("--skill", help="Write a skill (agentskills.io) to the folder PATH.")
    ] = False,
    key: Annotated[
        str,
        typer.Option(
            "--key",
            metavar="KEY",
            help=f"PEM file with the private key that signs the licences. Default: {EVIDENCE_KEY}.",
        ),
    ] = "",
    json: options.Json = False,
) -> None:
    """Write all patterns to a file, to a folder in AIWG's layout, or as a skill.

    Each own pattern has a licence: its measured effect, and the hashes of the runs behind it.
    """
    from taofold.log.patterns.json_files import export_to
    from taofold.skills.lessons import export_skill

    named = [path for path in (target, output, team_shared) if path is not None]
    if len(named) != 1:
        fail("give one path: FILE.json, or a folder for one file per type")
    licensing = _licensing(key)

    async def work(registry: "Registry") -> list[Path]:
        write = export_skill if skill else export_to
        return await write(registry, named[0], licensing)

    written = with_registry(work)
    if json:
        give_json([str(path) for path in written])
    else:
        for path in written:
            give(str(path))


def _licensing(key: str) -> "Licensing":
    """Returns the inputs of licences: the runs of the loops here, and the signer."""
    from taofold.learning.exchange.exports import Licensing
    from taofold.log.open import journal_beside
    from taofold.log.patterns.licences import MOST_LOOPS, run_hashes, signing
    from taofold.loop.stream import ids, load

    async def work(log: "Log") -> "dict[str, list[RunHash]]":
        journal = journal_beside(log)
        try:
            loops: dict[str, list[str]] = {}
            for name in (await ids(journal))[:MOST_LOOPS]:
                state = (await load(journal, name)).state
                loops[name] = [each.run for each in state.iterations if each.run]
        finally:
            await journal.close()
        return await run_hashes(log, loops)

    signer = evidence_signer(key)
    sign = None if signer is None else signing(signer)
    return Licensing(learning_settings().injection.control_share, with_log(work), sign)


@app.command("import")
def import_(
    source: Annotated[
        Path | None, typer.Argument(metavar="[PATH]", help="A file of patterns, or a folder.")
    ] = None,
    input_: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="PATH", help="Same as PATH.")
    ] = None,
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            metavar="KEY",
            help="Public key whose licences count: 64 digits, or a PEM file. May be repeated.",
        ),
    ] = [],
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="FOLDER",
            help="Exports of runs (ndjson). A licence then counts only if all its runs are there "
            "and hold.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Import patterns from a JSON or YAML file, or from AIWG's folder `.aiwg/ralph` and its loops.

    Their counts are shown but not used, unless --key checks the licence. Exits with 1 on faults.
    """
    from taofold.evidence.statement import public_key
    from taofold.log.patterns.json_files import import_from
    from taofold.log.patterns.licences import checking, links_in

    named = [path for path in (source, input_) if path is not None]
    if len(named) != 1:
        fail("give one path: a file of patterns, or a folder")
    if runs is not None and not key:
        fail("--runs needs --key: the hashes of runs alone do not show the effect of a lesson")
    keys = [public_key(each) for each in key]
    check = checking(keys, None if runs is None else links_in(runs)) if keys else None
    done = with_registry(lambda registry: import_from(registry, named[0], check), create=True)
    if json:
        give_json(
            {
                "added": done.added,
                "known": done.known,
                "faults": list(done.faults),
                "loops": done.loops,
                "licences": done.licences._asdict() if keys else None,
            }
        )
    else:
        counts = f"{len(done.added)} added, {len(done.known)} known"
        give(f"{counts}; {_licence_counts(done)}" if keys else counts)
        if done.loops:
            say(f"{times(len(done.loops), 'loop')} read for patterns")
        for fault in done.faults:
            say(f"fault: {fault}")
    if done.faults:
        # Valid patterns are imported; the exit code reports the faults of others.
        raise typer.Exit(UNREACHED)


def _licence_counts(done: "ImportReport") -> str:
    """Returns the numbers of licences by their outcome."""
    counting, without_benefit, untrusted = done.licences
    parts = [f"{counting} count"]
    if without_benefit:
        parts.append(f"{without_benefit} without benefit")
    if untrusted:
        parts.append(f"{untrusted} not signed by a given key")
    return f"licences: {', '.join(parts)}"


@app.command("extract")
def extract(
    loop: options.Loop = "",
    every: Annotated[bool, typer.Option("--all", help="All loops that have ended.")] = False,
    types: Annotated[
        str, typer.Option("--types", metavar="LIST", help="Only these types, as in error,success.")
    ] = "",
    json: options.Json = False,
) -> None:
    """Learn from a loop that has ended, even if learning is off. Can be repeated."""
    if every == bool(loop):
        fail("give either LOOP or --all")
    kinds = kinds_of(types)

    async def work(dependencies: "LoopDependencies") -> "list[tuple[str, Learnt | None, str]]":
        from taofold.loop.stream import ids

        names = (
            [await which(dependencies, loop)]
            if loop
            # The oldest first, so that later loops recognize its patterns.
            else list(reversed(await ids(dependencies.journal)))
        )
        return [await _extracted(dependencies, name, kinds, named=bool(loop)) for name in names]

    done = with_dependencies(work)
    if json:
        give_json([_extract_json(name, learnt, why) for name, learnt, why in done])
        return
    for name, learnt, why in done:
        if learnt is None:
            say(f"{name}: skipped, {why}")
            continue
        give(f"{name}: {_count(learnt)}")
        for extraction in learnt.extracted:
            give(f"  {'new  ' if extraction.new else 'known'}  {extraction.pattern}")


@app.command("inject")
def inject(
    loop: options.Loop = "",
    min_success_rate: Rate = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="N", min=1, help="At most N patterns (10).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Give lessons to an unfinished loop, for its next iteration."""

    async def work(dependencies: "LoopDependencies") -> "tuple[str, Lessons, int]":
        from taofold.loop.learner import case_of
        from taofold.loop.stream import inject as into
        from taofold.loop.stream import load
        from taofold.loop.values import ENDED, LIVE, RESUMABLE

        name = await which(dependencies, loop, LIVE | RESUMABLE)
        state = (await load(dependencies.journal, name)).state
        if state.status in ENDED - RESUMABLE:
            raise Refused(f"loop {name!r} is {state.status}: it has no next iteration")
        learner = cast("CrossLoopLearner", dependencies.learner)
        failing = () if state.verdict is None else state.verdict.errors
        case = case_of(state.wish.task, failing, learner.home(state))
        injection = _wanted(learner.injection(state), min_success_rate, top_k)
        lessons = await learner.inject(name, case, injection, manual=True)
        # Iterations count from 1, so 0 means that nothing was injected.
        number = await into(dependencies.journal, name, lessons) if lessons.text else 0
        return name, lessons, number

    name, lessons, number = with_dependencies(work)
    if json:
        give_json(
            {
                "loop": name,
                "iteration": number or None,
                "patterns": list(lessons.patterns),
                "reasons": list(lessons.reasons),
            }
        )
        return
    if not number:
        say(f"nothing was injected into {name}: no pattern is expected to help")
    else:
        give(f"{name} gets {len(lessons.patterns)} at iteration {number}:")
        for pattern in lessons.patterns:
            give(f"  {pattern}")
    for reason in lessons.reasons[:10]:
        say(f"  skipped {reason}")


def register(program: typer.Typer) -> None:
    """Adds the commands to `program`, also under the source system's names."""
    program.add_typer(app, name="patterns")
    # Hidden: for users of the source system.
    program.add_typer(app, name="ralph-patterns", hidden=True)
    program.command("ralph-extract-patterns", hidden=True)(extract)
    program.command("ralph-inject-patterns", hidden=True)(inject)

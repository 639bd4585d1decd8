"""A secret in a loop's texts or in a pattern is never stored."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from taofold.core.errors import ConfigError
from taofold.core.failing_checks import Check, Location
from taofold.core.json_values import plain
from taofold.learning.events import STREAM, PatternDiscovered, encode
from taofold.learning.registry import Registry
from taofold.learning.settings import Learning
from taofold.log.journal import MemoryJournal
from taofold.log.open import journal_beside
from taofold.log.patterns.stores import memory_registry, open_registry
from taofold.log.sqlite.log import SqliteLog
from taofold.loop.events import (
    Intervened,
    LoopEnded,
    LoopStarted,
    encode_redacted,
)
from taofold.loop.learner import CrossLoopLearner
from taofold.loop.lifecycle import start
from taofold.loop.stream import LoopStream
from taofold.loop.values import LoopRequest
from taofold.loop.verdict import GateResult, Verdict
from taofold.policy.redaction import Redactor
from taofold.testing.models import ScriptedModel
from tests.loop.kit import GATE, act, done, means, wish

from .make import ALWAYS, EXTRACT, approach, case, error, template

SHAPED = "ghp_" + "a1B2c3D4e5F6" * 3
OWN = "correct-horse-battery"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", OWN)


def clean(stored: bytes) -> None:
    assert SHAPED.encode() not in stored
    assert OWN.encode() not in stored
    assert OWN.replace("-", "").encode() not in stored


def said(text: str) -> str:
    return f"{text} with {SHAPED} or {OWN}"


async def facts(journal: MemoryJournal, stream: str = STREAM) -> bytes:
    return b"\n".join([fact.body for fact in await journal.facts(stream)])


def test_what_is_learnt_edited_or_retired_is_stored_without_secrets() -> None:
    async def story() -> None:
        journal = MemoryJournal()
        registry = memory_registry(journal)
        drafts = [
            error(said("Null"), said("Cannot read '.*' of null"), diff=f"-x\n+login('{SHAPED}')"),
            approach(said("Way"), said("Try"), task=said("Log in")),
            template(OWN, f"login('{OWN}')", said("Log in")),
        ]
        found = await registry.discover("loop-a", drafts, EXTRACT)
        assert all(OWN not in one.id for one in found), "an id is made of a name"
        await registry.discover("loop-b", drafts, EXTRACT)
        first = found[0].id
        body: dict[str, Any] = plain((await registry.show(first)).body)
        body["fix"] |= {"description": said("Ask for the key first"), "vain": [said("no")]}
        await registry.edit(first, name=said("Mine"), tags=[OWN], body=body, by="ann")
        assert "Ask for the key first" in str(await registry.show(first))
        await registry.inject("loop-c", case(), ALWAYS)
        await registry.retire(first, said("old"))
        clean(await facts(journal))
        clean(json.dumps(await registry.export()).encode())

    asyncio.run(story())


def test_what_a_file_brings_is_stored_without_secrets(tmp_path: Path) -> None:
    async def filled(registry: Registry) -> dict[str, Any]:
        await registry.discover("loop-a", [error(fix="PLACE of the null")], EXTRACT)
        return await registry.export()

    async def story() -> None:
        content = json.dumps((await filled(memory_registry()))["patterns/error-patterns.json"])
        content = content.replace("PLACE", said("place")).replace('"loop-a"', f'"{SHAPED}"')
        registry = open_registry(tmp_path / "r.db")
        files = {"patterns/error-patterns.json": content.encode()}
        assert (await registry.import_(files)).added
        again = await registry.import_(files)
        assert (len(again.known), again.added) == (1, ()), "the same is known again"
        await registry.close()

    asyncio.run(story())
    for file in tmp_path.iterdir():
        clean(file.read_bytes())


def test_what_an_older_release_kept_is_not_stored_again() -> None:
    async def story() -> None:
        journal = MemoryJournal()
        old = PatternDiscovered("loop-a", error(fix=said("place"), identity="pat-error-x-001"))
        await journal.write(STREAM, -1, [(1, encode(old))])
        registry = memory_registry(journal)
        assert (await registry.inject("loop-b", case(), ALWAYS)).ids == ("pat-error-x-001",)
        _, injected = await journal.facts(STREAM)
        assert b"Cross-Loop Learning" in injected.body
        clean(injected.body)

    asyncio.run(story())


SOURCE = f'import shop\n\n\ndef login():\n    return shop.enter({{}}, "{SHAPED}", "{OWN}")\n'
WRONG = f"'coroutine' object is not callable by {SHAPED} or {OWN}"


def judging(root: Path) -> Verdict:
    """Returns one check, once the call is awaited. A gate's report contains no secrets."""
    passed = "await" in (root / "till.py").read_text()
    place = Location("till.py", 5, "login")
    message = Redactor((OWN,)).text(WRONG)
    check = Check("t::a", "passed" if passed else "failed", "TypeError", message, (place,))
    result = GateResult(GATE, passed, int(not passed), "pytest", ("pytest",), (check,))
    return Verdict(passed, (result,), float(passed))


@pytest.mark.anyio
async def test_no_file_of_two_loops_and_their_registry_holds_a_secret(tmp_path: Path) -> None:
    """Covers the task, notes, thoughts and edits, their lessons, and later comments of a user."""
    kept = tmp_path / "kept"
    kept.mkdir()
    log = SqliteLog(kept / "log.db")
    registry = open_registry(kept / "log.db")
    learner = CrossLoopLearner(registry, Learning(injection=ALWAYS), by=said("ann"))
    for name in ("one", "two"):
        root = tmp_path / name
        root.mkdir()
        (root / "till.py").write_text(SOURCE.format("get"))
        calls = ("get", "lambda: get", "await get()")
        tries = pairwise(calls)
        replies = [
            reply
            for old, new in tries
            for reply in (
                act(
                    said("I log in"),
                    "edit_file",
                    "goal",
                    path="till.py",
                    old=f"enter({old},",
                    new=f"enter({new},",
                ),
                done(said("It should work")),
            )
        ]
        model = ScriptedModel(replies)
        given = means(root, model, judging, log=log, journal=journal_beside(log), learner=learner)
        asked = wish(root, said("Mend the login"), notes=(said("Mind"),))
        assert (await start(given, asked, loop=name)).status == "completed"
        told = str([message.content for message in model.requests[0].messages])
        assert ("await get()" in told) is (name == "two"), "it was learnt and told"
        clean(told.encode())
    first = (await registry.patterns())[0]
    body: dict[str, Any] = plain(first.body)
    body["fix"] |= {"description": said("Ask ann for the key"), "diff": said("-a\n+b")}
    await registry.edit(first.id, name=said("Mine"), tags=[said("x")], body=body, by="ann")
    await registry.retire(first.id, said("old"))
    await registry.close()
    await log.close()
    files = [file for file in kept.rglob("*") if file.is_file()]
    assert files
    for file in files:
        clean(file.read_bytes())


@pytest.mark.anyio
@pytest.mark.parametrize("command", [f"TOKEN={SHAPED} true", f"true --password {OWN}"])
async def test_a_gate_whose_command_holds_a_secret_is_refused_and_nothing_kept(
    tmp_path: Path, command: str
) -> None:
    journal = MemoryJournal()
    given = means(tmp_path, [], judging, journal=journal)
    with pytest.raises(ConfigError, match=r"NAME=\$NAME") as refused:
        await start(given, LoopRequest("Log in", (command,), str(tmp_path)), loop="x")
    clean(str(refused.value).encode())
    assert await journal.facts("loop/x") == []


def test_what_people_say_to_a_loop_is_stored_without_secrets() -> None:
    async def story() -> None:
        journal = MemoryJournal()
        stream = LoopStream(journal, "x")
        wish = LoopRequest(said("Log in"), ("true",), "/w", notes=(said("Mind"),))
        await stream.append(LoopStarted(wish))
        await stream.append(LoopEnded("aborted", said("No more"), by="ann"))
        clean(await facts(journal, "loop/x"))
        again = await LoopStream(journal, "x").read()
        assert re.fullmatch(r"Log in with \S+ or \S+", again.wish.task), "the rest stays"
        assert again.wish.commands == ("true",)

    asyncio.run(story())


def test_every_text_of_a_loop_fact_is_cleaned_but_what_it_finds_things_by() -> None:
    redactor = Redactor((OWN,))
    stored = encode_redacted(Intervened(1, "redirect", "plateau", said("a"), said("b")), redactor)
    clean(stored)
    assert b'"level":"redirect"' in stored

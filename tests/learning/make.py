"""Patterns, cases and registries for the tests."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from taofold.core.failing_checks import Check, Location
from taofold.learning.patterns.case import LoopCase
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    CodeTemplate,
    ErrorFix,
    ErrorSignature,
    Fix,
    IterationSpread,
)
from taofold.learning.patterns.pattern import Pattern, PatternScope
from taofold.learning.registry import Registry
from taofold.learning.settings import Extraction, Injection
from taofold.log.patterns.stores import memory_registry, open_registry

T = TypeVar("T")
DAY = 86_400_000
ALWAYS = Injection(control_share=0.0)
NEVER = Injection(control_share=1.0)
EXTRACT = Extraction()
APART = Extraction(merge_similar_patterns=False)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: int = 1_770_000_000_000) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at


def error(
    name: str = "TypeError: null property access",
    pattern: str = "Cannot read property '.*' of null",
    *,
    kind: str = "TypeError",
    fix: str = "Add null check before property access",
    code: str = 'if ({{variable}} == null) {\n  throw new ValidationError("{{message}}");\n}',
    diff: str = "",
    language: str = "typescript",
    tags: tuple[str, ...] = (),
    identity: str = "",
) -> Pattern:
    body = ErrorFix(
        ErrorSignature("TypeError" if kind == "TypeError" else "Other", pattern, (), kind),
        Fix(fix, "add_null_check", code, language, diff),
    )
    return Pattern(identity, name, body, PatternScope("", language), tags)


def approach(name: str, description: str, average: float = 2.0, **fields: Any) -> Pattern:
    body = Approach(
        "debugging",
        description,
        ("Read the failing test", "Fix the cause"),
        ("edit_file",),
        IterationSpread(average, 1, 4),
        **fields,
    )
    return Pattern("", name, body)


def anti(name: str, approach: str, better: str = "Read the message first") -> Pattern:
    return Pattern("", name, Avoidance(approach, "repeated_same_error", (), "", better))


def template(name: str, code: str, use: str) -> Pattern:
    return Pattern("", name, CodeTemplate(code, "python", use, {"name": "what it is called"}))


def case(
    task: str = "Fix the type errors in user validation",
    message: str = "Cannot read property 'email' of null",
    kind: str = "TypeError",
    *,
    language: str = "typescript",
) -> LoopCase:
    """Returns a loop that failed at its error, so that every lesson may be injected."""
    failing = (
        (Check("t::a", "failed", kind, message, (Location("src/auth/validate.ts", 42),)),)
        if message
        else ()
    )
    return LoopCase(task, language, failing=failing, failed=("t::a",))


NULL_IN = "Cannot read property '{}' of null in {}"


def several(fixes: Sequence[str]) -> tuple[list[Pattern], LoopCase]:
    """A lesson for each of as many errors, and a loop that has failed at all of them."""
    drafts = [
        error(f"Null {n}", NULL_IN.format(".*", fix), fix=f"{fix}, to fix it", code=fix)
        for n, fix in enumerate(fixes)
    ]
    checks = [case(message=NULL_IN.format("email", fix)).failing[0] for fix in fixes]
    failing = [replace(check, id=f"t::{n}") for n, check in enumerate(checks)]
    failed = tuple([check.id for check in failing])
    return drafts, replace(case(), failing=tuple(failing), failed=failed)


Opener = Callable[[], Registry]


def on_both(work: Callable[[Opener, Clock], Awaitable[None]]) -> Callable[[Path, str], None]:
    """A test that runs with the registry in memory and with the one on disk."""

    @pytest.mark.parametrize("store", ["memory", "sqlite"])
    def test(tmp_path: Path, store: str) -> None:
        clock = Clock()
        opened: list[Registry] = []
        shared = memory_registry(now=clock)

        def opener() -> Registry:
            if store == "memory":
                return shared
            opened.append(open_registry(tmp_path / "log.db", now=clock))
            return opened[-1]

        async def main() -> None:
            try:
                await work(opener, clock)
            finally:
                for registry in opened:
                    await registry.close()

        asyncio.run(main())

    test.__name__, test.__doc__ = work.__name__, work.__doc__
    test.pytestmark = [*test.pytestmark, *getattr(work, "pytestmark", [])]  # type: ignore[attr-defined]
    return test


async def looped(
    registry: Registry,
    loop: str,
    about: LoopCase,
    won: bool | None,
    *,
    iterations: int = 3,
    injection: Injection = ALWAYS,
) -> tuple[str, ...]:
    """A loop from start to end: `won` = what using the patterns led to, None = not used."""
    lessons = await registry.inject(loop, about, injection)
    if won is not None:
        for identity in lessons.ids:
            await registry.applied(loop, identity, won=won, iteration=2, by="fixer")
    await registry.ended(loop, iterations=iterations, solved=won is not False)
    return lessons.ids

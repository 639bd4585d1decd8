"""Learnt patterns as a skill, and back.

Mutants it catches: counts of the importing registry, a lesson that closes its frame, a name that
the specification forbids.
"""

from pathlib import Path

import pytest
from anyio import run_process

from taofold.core.errors import ConfigError, LogError
from taofold.log.patterns.json_files import import_from
from taofold.log.patterns.stores import memory_registry
from taofold.skills import read_skill
from taofold.skills.lessons import PATTERNS, export_skill
from taofold.skills.skill import SKILL_FILE
from tests.learning.test_exchange import filled
from tests.prerequisites import which

pytestmark = pytest.mark.anyio


async def test_lessons_are_exported_with_their_effect_and_imported_back(tmp_path: Path) -> None:
    registry, clock = await filled()
    folder = tmp_path / "lessons"
    files = await export_skill(registry, folder)
    assert files == [folder / SKILL_FILE, folder / PATTERNS]
    skill = read_skill(folder)
    assert skill.faults == ()
    assert skill.name == "lessons"
    patterns = await registry.patterns()
    assert skill.metadata["lessons"] == f"{len(patterns)} of {len(patterns)}"
    assert skill.body.count("   - Effect: ") == len(patterns)
    for pattern in patterns:
        for source in pattern.found[:5]:
            assert source.loop in skill.body
    other = memory_registry(now=clock)
    report = await import_from(other, folder)
    assert not report.faults
    assert {p.id for p in await other.patterns()} == {p.id for p in patterns}
    # Claims of a file are shown, never counted.
    assert all(not pattern.counts.usage for pattern in await other.patterns())


async def test_a_name_that_is_no_name_of_a_skill_is_refused(tmp_path: Path) -> None:
    registry, _ = await filled()
    with pytest.raises(ConfigError, match=r"may have only lowercase letters"):
        await export_skill(registry, tmp_path / "My Lessons")


async def test_an_empty_registry_has_no_skill(tmp_path: Path) -> None:
    registry = memory_registry()
    with pytest.raises(LogError, match="no patterns to export"):
        await export_skill(registry, tmp_path / "lessons")


@pytest.mark.skipif(not which("agentskills"), reason="no agentskills: pip install skills-ref")
async def test_the_reference_validator_accepts_the_skill(tmp_path: Path) -> None:
    registry, _ = await filled()
    await export_skill(registry, tmp_path / "lessons")
    program = str(which("agentskills"))
    done = await run_process([program, "validate", str(tmp_path / "lessons")], check=False)
    assert done.returncode == 0, done.stdout + done.stderr

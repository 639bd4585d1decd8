"""The ids, names and fixed parts of files in AIWG's layout `.aiwg/ralph`, schemas of 2026-02.

Shared by the export of the registry, which knows what a loop was shown and taught, and by the
export of a loop, which knows its iterations. A schema has no place for some of our values, and some
of its required values have another name here:

* A loop's id is `ralph-<slug>-<8 hex digits>`. Another id gets such a form, with a digest.
* A task's and a session's id is a UUID. It is derived from the loop's id.
* Files of configuration and files of data have one schema, so a data file holds both.

Keys that no schema has are under `taofold`. Knows nothing about files on a disk.
"""

import re
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from taofold.core.json_values import is_array, is_object
from taofold.core.text import clip
from taofold.learning.extraction.categories import task_category

Json: TypeAlias = dict[str, Any]
STATE_VERSION: Final = "2.0.0"
MOST_ACTIVE: Final = 4
"""The most loops in AIWG's registry of active loops."""
_ID: Final = re.compile(r"ralph-[a-z0-9-]{1,60}-[a-f0-9]{8}")
_MOST_SUMMARY: Final = 200
_TASK_TYPES: Final = frozenset(
    {
        "implementation",
        "debugging",
        "refactoring",
        "testing",
        "documentation",
        "architecture",
        "research",
    }
)


def loop_id(loop: str) -> str:
    """Returns the loop's id in the schema's form, which is also a plain name of a folder.

    Example: `loop_id("fix tests")` is `ralph-fix-tests-` and eight digits of a digest.
    """
    if _ID.fullmatch(loop):
        return loop
    slug = re.sub(r"[^a-z0-9]+", "-", loop.lower()).strip("-")[:30].strip("-")
    return f"ralph-{slug.removeprefix('ralph-') or 'loop'}-{_digest(loop)[:8]}"


def uuid_of(loop: str) -> str:
    """Returns a UUID that belongs to the loop: version 8 of RFC 9562, from a digest of its id."""
    digits = _digest(loop)
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def task_type(task: str) -> str:
    """Returns the schema's type of a task; it has no migration and no optimization."""
    category = task_category(task)
    return category if category in _TASK_TYPES else "implementation"


def summary(task: str) -> str:
    """Returns the task in one line of at most 200 characters."""
    return clip(" ".join(task.split()), _MOST_SUMMARY)


def analytics_settings(folder: str) -> Json:
    """Returns the settings that the schema of analytics demands beside the data."""
    return {
        "version": STATE_VERSION,
        "analytics": {"storage_path": f".aiwg/ralph/loops/{folder}/analytics/"},
        "best_output_selection": {
            "enabled": True,
            "selection_criteria": "highest_quality_verified",
        },
    }


def memory_settings() -> Json:
    """Returns the settings that the schema of the task memory demands beside the data."""
    return {"memory_config": {"default_capacity": 3}, "cross_task_learning": {"enabled": True}}


def registry_of(active: list[Json], at: str, *, completed: int = 0, aborted: int = 0) -> Json:
    """Returns the registry of active loops, in the form that both schemas of it accept."""
    kept = active[-MOST_ACTIVE:]
    return {
        "version": STATE_VERSION,
        "max_concurrent_loops": MOST_ACTIVE,
        "updated_at": at,
        "last_updated": at,
        "active_loops": kept,
        "total_active": len(kept),
        "total_completed": completed,
        "total_aborted": aborted,
    }


def without_unknown(value: Any) -> Any:
    """Returns JSON without keys whose value is unknown: the schemas have no null."""
    if is_object(value):
        return {key: without_unknown(each) for key, each in value.items() if each is not None}
    if is_array(value):
        return [without_unknown(each) for each in value if each is not None]
    return value

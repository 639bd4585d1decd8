"""Stores evaluation reports as files in the project.

They hold figures and the ids of runs; the runs are in the log. Files that are read back are data: a
file that is not a report is ignored, and a name from a request cannot leave the folder.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from taofold.clocks import clock
from taofold.core.errors import ConfigError
from taofold.core.text import iso
from taofold.evals.evaluation import Comparison, Report
from taofold.reserved_places import make_folder, open_file, write_file

FOLDER: Final = "evals"
"""The reports' folder inside the project's folder."""
_SHOWN: Final = 100
_LARGEST: Final = 16_000_000
_ID: Final = re.compile(r"[0-9]{13}-[0-9a-f]{8}")


class StoredTrial(msgspec.Struct):
    """One run of one case."""

    case: str
    repetition: int
    passed: bool
    run: str | None
    scores: list[dict[str, Any]]


class StoredReport(msgspec.Struct):
    """The content of `Report.as_json` for one agent."""

    agent: str
    name: str
    rate: float
    interval: tuple[float, float]
    cases: dict[str, float]
    scorers: dict[str, float]
    tokens: int
    usd: float | None
    seconds: float
    trials: list[StoredTrial]


class StoredComparison(msgspec.Struct):
    """The content of `Comparison.as_json`."""

    first: str
    second: str
    cases: int
    difference: float
    p: float
    better: list[str]
    worse: list[str]


class StoredEval(msgspec.Struct):
    """One file."""

    at: str
    name: str
    reports: list[StoredReport]
    comparisons: list[StoredComparison]


def store_report(
    home: Path, name: str, reports: Sequence[Report], comparison: Comparison | None = None
) -> Path:
    """Writes the reports of one eval below `home` and returns the file.

    Raises:
        ConfigError: A folder or file there belongs to another user.
        OSError: It cannot be written.
    """
    at = clock()
    folder = home / FOLDER
    make_folder(folder)
    document = {
        "at": iso(at),
        "name": name,
        "reports": [report.as_json() for report in reports],
        "comparisons": [] if comparison is None else [comparison.as_json()],
    }
    path = folder / f"{at}-{os.urandom(4).hex()}.json"
    write_file(path, json.dumps(document).encode())
    return path


def stored_reports(home: Path) -> list[dict[str, Any]]:
    """Returns the newest reports without their trials."""
    names = sorted([path.stem for path in (home / FOLDER).glob("*.json")], reverse=True)
    documents = [stored_report(home, name) for name in names[:_SHOWN]]
    return [_brief(document) for document in documents if document is not None]


def stored_report(home: Path, name: str) -> dict[str, Any] | None:
    """Returns one eval by its id; None if there is no such file, or it holds no reports."""
    # The name comes from a request: only a valid id becomes part of a path.
    if not _ID.fullmatch(name):
        return None
    path = home / FOLDER / f"{name}.json"
    try:
        with os.fdopen(open_file(path), "rb") as file:
            body = file.read(_LARGEST + 1)
        if len(body) > _LARGEST:
            return None
        stored = msgspec.json.decode(body, type=StoredEval)
    except (ConfigError, OSError, ValueError, RecursionError):
        return None
    return {"id": name, **msgspec.to_builtins(stored)}


def _brief(document: dict[str, Any]) -> dict[str, Any]:
    reports = [{"agent": each["agent"], "rate": each["rate"]} for each in document["reports"]]
    return {key: document[key] for key in ("id", "at", "name")} | {"reports": reports}

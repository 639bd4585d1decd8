"""Which files to read next: the failing tests, then what they import, then what that imports."""

from collections.abc import Sequence
from typing import Final

from taofold.models.repair.files import Files
from taofold.models.repair.project import Project, is_test
from taofold.models.repair.rank import settled
from taofold.parsing.pytest_report import Report

BATCH: Final = 8
"""Files read in one turn; a project with no more sources is read whole."""
MOST: Final = 24
"""Files read at all."""


def unread(files: Files, project: Project, report: Report, *, lists: bool) -> list[str]:
    """Paths still to be read, at most `BATCH`. `lists` = the paths can be asked for."""
    known = [*files.listed, *project.sources]
    failures = [settled(failure, project) for failure in report.failures]
    wanted = [failure.test_path for failure in failures]
    for failure in failures:
        wanted += [place.path for place in failure.places if not _foreign(place.path, known)]
    if files.asked or not lists:
        inner = [path for path in files.listed if not is_test(path)]
        if len(inner) <= BATCH:
            wanted += inner
        for source in project.sources.values():
            wanted += project.resolve(source)
    wanted = [path for path in dict.fromkeys(wanted) if files.wants(path)]
    return wanted[: max(min(BATCH, MOST - len(files.known)), 0)]


def _foreign(path: str, known: Sequence[str]) -> bool:
    """Does a traceback's place lie outside the project?"""
    return path.startswith(("/", "<", "..")) or (bool(known) and path not in known)

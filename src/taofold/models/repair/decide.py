"""The next move of the repair policy, from the conversation alone.

Run the tests, read what they point to, then: one candidate edit per turn, test it, keep
it if it helps, else take it back. Pure: the same conversation gives the same reply.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final

from taofold.core.values import Message, ThoughtType
from taofold.models.repair import speech
from taofold.models.repair.files import Files, collect
from taofold.models.repair.goal import COMMAND, about_tests, command_in
from taofold.models.repair.learnt import factors
from taofold.models.repair.project import Project
from taofold.models.repair.rank import Candidate, ranked
from taofold.models.repair.source import Source
from taofold.models.repair.story import Story, key_of, standing, tell
from taofold.models.repair.transcript import Transcript, read
from taofold.models.repair.unread import unread
from taofold.parsing.pytest_report import Report

NEEDED: Final = ("run_command", "read_file", "edit_file")
MOST_CANDIDATES: Final = 400
SECOND_LOOK: Final = 24
"""Candidates without success after which an edit that helped a little is kept after all."""
RETREAT: Final = 12
"""Candidates without success after which the newest kept edit is given up for now."""
LAST_RETREAT: Final = 60
"""The same for an edit that was given up before."""
_PATIENCE: Final = 60.0
"""Seconds a candidate's test run may take at least; twenty times the first run's, if longer."""


def decide(messages: Sequence[Message], tools: Iterable[str] = ()) -> str:
    """The reply to a conversation. `tools` are names offered beside the prompt."""
    return _Move(read(messages, tools)).reply()


@dataclass(frozen=True)
class _Move:
    told: Transcript

    @cached_property
    def story(self) -> Story:
        return tell(self.told.deeds)

    @cached_property
    def files(self) -> Files:
        return collect(self.told.deeds)

    @cached_property
    def project(self) -> Project:
        texts = {path: self.files.text(path) for path in self.files.known}
        sources = [Source(path, text) for path, text in texts.items() if text is not None]
        return Project(sources, self.files.listed)

    @property
    def latest(self) -> int:
        """The number of the newest step."""
        return self.told.deeds[-1].step if self.told.deeds else 0

    def kind(self, otherwise: ThoughtType) -> ThoughtType:
        """The type of the next thought: an exception after a failure."""
        turn = self.told.turns[-1] if self.told.turns else ()
        return "exception" if any(deed.failed for deed in turn) else otherwise

    def reply(self) -> str:
        refused = self._declined()
        if refused:
            return refused
        story = self.story
        if self.told.last_call:
            return self._stop("unfinished: the limit is reached", story.report)
        if story.pending is not None:
            return self._test("Test the candidate")
        if story.undo is not None:
            return self._undo()
        if story.report is None:
            return self._first_run()
        if story.report.ok:
            return self._done(story.report)
        return self._search(story.report)

    def _declined(self) -> str:
        if not about_tests(self.told.goal):
            return speech.finish(
                "declined: only goals about failing tests of a Python project are taken",
                f"I am a {speech.WHAT}: I repair failing tests. This goal is not about "
                "failing tests, so I decline it.",
                "goal",
            )
        missing = [tool for tool in NEEDED if not self.told.offers(tool)]
        if missing and not self.told.last_call:
            return speech.finish(
                f"declined: the tools {', '.join(missing)} are not on offer",
                f"I am a {speech.WHAT}. Without {', '.join(missing)} nothing can be repaired.",
                self.kind("goal"),
            )
        return ""

    def _first_run(self) -> str:
        story = self.story
        if story.unreadable > 1:
            return self._stop("failed: no test report could be read", None)
        if story.unreadable == 1:
            last = self.told.deeds[-1]
            said = last.text.strip()[:120]
            thought = f"No test report in step {last.step}: {said!r}. Start pytest another way."
            other = COMMAND if self._command() != COMMAND else COMMAND.replace("python", "python3")
            action = speech.call("run_command", "the first command left no report", command=other)
            return speech.reply(thought, self.kind("exception"), [last.step], action)
        thought = (
            f"I am a {speech.WHAT}. Goal: make the failing tests pass by trying documented repair "
            "templates, one candidate edit per turn. First see what fails."
        )
        if story.lost or story.kept or self.told.deeds:
            thought = f"After step {self.latest} no full report is in sight: run the tests again."
        action = speech.call("run_command", "see which tests fail", command=self._command())
        return speech.reply(thought, self.kind("goal"), [self.latest], action)

    def _command(self) -> str:
        return command_in(self.told.said)

    def _test(self, why: str) -> str:
        story = self.story
        edit = story.pending
        where = f"{edit.parameters.get('path')}" if edit else ""
        before = speech.failing(story.report) if story.report else "no report"
        thought = f"{why} {story.candidates} in {where}; before it: {before}."
        parameters: dict[str, Any] = {"command": self._ran_before() or self._command()}
        if story.report is not None and story.report.seconds:
            parameters["timeout_s"] = round(max(_PATIENCE, 20 * story.report.seconds))
        action = speech.call("run_command", "judge the candidate by the tests", **parameters)
        return speech.reply(thought, self.kind("progress"), [story.step, self.latest], action)

    def _ran_before(self) -> str:
        ran = [d for d in self.told.deeds if d.tool == "run_command"]
        return str(ran[-1].parameters.get("command", "")) if ran else ""

    def _undo(self) -> str:
        story = self.story
        edit = story.undo
        fails = speech.failing(story.report) if story.report else "no report"
        parameters = dict(edit.parameters) if edit else {}
        path = str(parameters.get("path", ""))
        thought = (
            f"Candidate {story.candidates} in {path} did not help; without it: {fails}. "
            "Take it back."
        )
        action = speech.call(
            "edit_file", "undo the candidate",
            path=path, old=parameters.get("new", ""), new=parameters.get("old", ""),
        )  # fmt: skip
        return speech.reply(thought, self.kind("reasoning"), [story.step, self.latest], action)

    def _search(self, report: Report) -> str:
        lists = self.told.offers("list_files")
        wanted = unread(self.files, self.project, report, lists=lists)
        if wanted:
            return self._read(report, wanted)
        story = self.story
        if story.since >= SECOND_LOOK and story.further:
            return self._second_look(report)
        candidate = self._next(report) if story.candidates < MOST_CANDIDATES else None
        if story.kept and (candidate is None or story.since >= self._patience()):
            return self._retreat(report)
        if candidate is not None:
            thought, rationale = speech.proposal(candidate, story.candidates + 1)
            edit = candidate.edit
            action = speech.call("edit_file", rationale, path=edit.path, old=edit.old, new=edit.new)
            because = [story.step, *self._read_steps(edit.path)]
            return speech.reply(thought, self.kind("reasoning"), because, action)
        return self._stop(
            f"failed: no template helps after {self.story.candidates} candidates", report
        )

    def _patience(self) -> int:
        """Candidates without success that the newest kept edit is worth."""
        known = key_of(self.story.kept[-1].parameters) in self.story.doubted
        return LAST_RETREAT if known else RETREAT

    def _second_look(self, report: Report) -> str:
        edit = next(iter(self.story.further.values()))
        thought = (
            f"{self.story.since} candidates in a row changed nothing in {speech.failing(report)}. "
            f"One of step {edit.step} let a test come further: keep it and search on."
        )
        action = speech.call(
            "edit_file", "second look at an edit that helped a little", **dict(edit.parameters)
        )
        return speech.reply(thought, self.kind("reasoning"), [self.story.step, edit.step], action)

    def _retreat(self, report: Report) -> str:
        edit = self.story.kept[-1]
        given = edit.parameters
        thought = (
            f"No candidate settles {speech.failing(report)}. The edit of step {edit.step} may have "
            "helped by chance: take it back."
        )
        action = speech.call(
            "edit_file", "undo an edit that leads nowhere",
            path=given.get("path"), old=given.get("new"), new=given.get("old"),
        )  # fmt: skip
        return speech.reply(thought, self.kind("reasoning"), [self.story.step, edit.step], action)

    def _next(self, report: Report) -> Candidate | None:
        """The best candidate that was not tried on what fails now; new ones come first."""
        order = ranked(self.project, report, factors(self.told.said))
        known, earlier, now = self.story.tried, speech.marks(self.told.said), standing(report)
        edits = {speech.edit_of(one) for one in earlier}
        again: Candidate | None = None
        for candidate in islice(order, 4 * MOST_CANDIDATES):
            key = candidate.edit.key
            here = speech.mark(key, now)
            if key in known or here in earlier:
                continue
            if speech.edit_of(here) not in edits:
                return candidate
            again = again or candidate
        return again

    def _read_steps(self, path: str) -> list[int]:
        read = [
            d.step
            for d in self.told.deeds
            if d.tool == "read_file" and d.parameters.get("path") == path
        ]
        return read[-1:]

    def _read(self, report: Report, wanted: list[str]) -> str:
        calls: list[dict[str, Any]] = []
        if not self.files.asked and self.told.offers("list_files"):
            calls.append(speech.call("list_files", "find the modules behind the tests"))
        for path in wanted:
            file = self.files.known.get(path)
            part = file.missing() if file else None
            lines = {"start": part[0], "end": part[1]} if part else {}
            calls.append(
                speech.call("read_file", "the failing tests lead here", path=path, **lines)
            )
        thought = f"{speech.failing(report)}. Read {', '.join(wanted)}."
        return speech.reply(thought, self.kind("extraction"), [self.story.step], *calls)

    def _done(self, report: Report) -> str:
        kept = self.story.kept
        what = speech.changed(kept) if kept else "nothing to repair"
        thought = f"{report.summary}: no test fails any more. I am a {speech.WHAT}; kept: {what}."
        return speech.finish(
            f"repaired: {report.summary}. {what}",
            thought,
            self.kind("synthesis"),
            [self.story.step],
        )

    def _stop(self, why: str, report: Report | None) -> str:
        left = f" Still failing: {speech.failing(report)}." if report and not report.ok else ""
        if report and report.ok:
            return self._done(report)
        kept = self.story.kept
        open_ = self.story.pending or self.story.undo
        note = f" Not taken back: {speech.changed([open_])}." if open_ else ""
        tried = speech.tried(self.story.fruitless)
        answer = f"{why}. Kept: {speech.changed(kept)}.{left}{note}{tried}"
        return speech.finish(answer, f"{why}.{left}", self.kind("synthesis"), [self.story.step])

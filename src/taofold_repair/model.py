"""The model `offline:repair`: a deterministic search behind the ordinary `Model` interface.

It needs no key and no network. Like a language model it gets the prompt and answers in the ordinary
reply format. It runs the tests, reads the files in their tracebacks, and proposes one candidate
edit per turn. It tests the edit, keeps it if it helps, and otherwise reverts it. It opens no file,
starts no process and stores nothing between calls: the same conversation gives the same reply.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final

from taofold.core.errors import ConfigError
from taofold.core.values import Message, Profile, Reply, ThoughtType
from taofold.diagnostics import PytestReport
from taofold.runtime.model import OnText, Request
from taofold_repair import replies
from taofold_repair.rank import Candidate, learnt_in, ranked, settled
from taofold_repair.search import NAME, SearchState, key_of, search_state, standing
from taofold_repair.source import Project, Source, is_test
from taofold_repair.transcript import Files, Transcript, collect, read

COMMAND: Final = "python -m pytest -q --tb=short"
"""The test command if neither the goal nor the instructions name one."""
_TESTS: Final = re.compile(r"(?i)\b(?:unit)?tests?\b|\bpytest\b|\btest suite\b")
_REPAIR: Final = re.compile(
    r"(?i)\b(?:fail\w*|fix\w*|repair\w*|pass|passes|passing|green|broken|red|bugs?|debug)\b"
)
_OTHER: Final = re.compile(
    r"(?i)^\W*(?:please\s+)?(?:write|add|create|generate|delete|remove|skip|disable|explain|describe"
    r"|summari[sz]e|translate|list|count|rename)\b"
)
_NAMED: Final = re.compile(
    r"(?:[\w./-]*python[\d.]*(?: -[A-Za-z]+)*? -m )?(?<![\w./-])(?:[\w./-]*/)?pytest\b"
    r"(?:[ ](?:-[\w-]+(?:=[\w./:-]+)?|[\w./-]+\.py(?:::\w+)*|tests?/?[\w./-]*))*"
)
_STOP_EARLY: Final = re.compile(r" (?:-x|--exitfirst|--maxfail=\d+|--tb=\w+)(?= |$)")


def about_tests(goal: str) -> bool:
    """Returns whether `goal` is to make failing tests pass. Reference data below it is ignored."""
    # A loop appends lessons from other runs; they must not make any other goal one about tests.
    own_words = re.split(r"(?i)^#+ .*learning context", goal, maxsplit=1, flags=re.MULTILINE)[0]
    return bool(
        _TESTS.search(own_words) and _REPAIR.search(own_words) and not _OTHER.match(own_words)
    )


def command_in(goal: str) -> str:
    """Returns the test command in the goal, without options that stop at the first failure."""
    command = _NAMED.search(goal)
    # The bare word is usually prose ("make pytest pass"), not a command.
    if command is None or command[0] == "pytest":
        return COMMAND
    return f"{_STOP_EARLY.sub('', command[0]).rstrip('.')} --tb=short"


BATCH: Final = 8
"""Files read per turn; a project with no more sources is read completely."""
MOST: Final = 24
"""The most files read."""


def unread(files: Files, project: Project, report: PytestReport, *, lists: bool) -> list[str]:
    """Returns paths still to be read, at most `BATCH`. `lists` = the paths can be listed."""
    project_paths = [*files.listed, *project.sources]
    failures = [settled(failure, project) for failure in report.failures]
    paths = [failure.test_path for failure in failures]
    for failure in failures:
        paths += [frame.path for frame in failure.places if not _foreign(frame.path, project_paths)]
    if files.asked or not lists:
        inner = [path for path in files.listed if not is_test(path)]
        # A small project is read completely: this takes fewer turns than following imports.
        if len(inner) <= BATCH:
            paths += inner
        for source in project.sources.values():
            paths += project.resolve(source)
    paths = [path for path in dict.fromkeys(paths) if files.wants(path)]
    return paths[: max(min(BATCH, MOST - len(files.known)), 0)]


def _foreign(path: str, paths: Sequence[str]) -> bool:
    """Returns whether a place in a traceback is outside the project."""
    return path.startswith(("/", "<", "..")) or (bool(paths) and path not in paths)


NEEDED: Final = ("run_command", "read_file", "edit_file")
MOST_CANDIDATES: Final = 400
SECOND_LOOK: Final = 24
"""After this many failed candidates an edit with partial progress is kept."""
RETREAT: Final = 12
"""After this many failed candidates the newest kept edit is given up for now."""
LAST_RETREAT: Final = 60
"""The same for an edit that was given up before."""
_PATIENCE: Final = 60.0
"""The minimum seconds for a candidate's test run; twenty times the first run's, if longer."""


def decide(messages: Sequence[Message], tools: Iterable[str] = ()) -> str:
    """Returns the reply to a conversation. `tools` are names offered beside the prompt."""
    return _Move(read(messages, tools)).reply()


@dataclass(frozen=True)
class _Move:
    transcript: Transcript

    @cached_property
    def state(self) -> SearchState:
        return search_state(self.transcript.actions)

    @cached_property
    def files(self) -> Files:
        return collect(self.transcript.actions)

    @cached_property
    def project(self) -> Project:
        texts = {path: self.files.text(path) for path in self.files.known}
        sources = [Source(path, text) for path, text in texts.items() if text is not None]
        return Project(sources, self.files.listed)

    @property
    def latest(self) -> int:
        """The number of the newest step."""
        return self.transcript.actions[-1].step if self.transcript.actions else 0

    def kind(self, otherwise: ThoughtType) -> ThoughtType:
        """Returns the type of the next thought: an exception after a failure."""
        turn = self.transcript.turns[-1] if self.transcript.turns else ()
        return "exception" if any(action.failed for action in turn) else otherwise

    def reply(self) -> str:
        refused = self._declined()
        if refused:
            return refused
        state = self.state
        # No tool can be used any more, so the moves below are skipped.
        if self.transcript.last_call:
            return self._stop("unfinished: the limit is reached", state.report)
        # An applied edit is always tested before anything else, also after a resume: the state of
        # the files is known only from test reports.
        if state.pending is not None:
            return self._test("Test the candidate")
        if state.undo is not None:
            return self._undo()
        if state.report is None:
            return self._first_run()
        if state.report.ok:
            return self._done(state.report)
        return self._search(state.report)

    def _declined(self) -> str:
        if not about_tests(self.transcript.goal):
            return replies.finish(
                "declined: only goals about failing tests of a Python project are taken",
                f"I am a {replies.WHAT}: I repair failing tests. This goal is not about "
                "failing tests, so I decline it.",
                "goal",
            )
        missing = [tool for tool in NEEDED if not self.transcript.offers(tool)]
        if missing and not self.transcript.last_call:
            return replies.finish(
                f"declined: the tools {', '.join(missing)} are not on offer",
                f"I am a {replies.WHAT}. Without {', '.join(missing)} nothing can be repaired.",
                self.kind("goal"),
            )
        return ""

    def _first_run(self) -> str:
        state = self.state
        if state.unreadable > 1:
            return self._stop("failed: no test report could be read", None)
        if state.unreadable == 1:
            last = self.transcript.actions[-1]
            beginning = last.text.strip()[:120]
            thought = (
                f"No test report in step {last.step}: {beginning!r}. Start pytest another way."
            )
            # Some systems have no `python` on the PATH, only `python3`.
            other = COMMAND if self._command() != COMMAND else COMMAND.replace("python", "python3")
            action = replies.call("run_command", "the first command left no report", command=other)
            return replies.reply(thought, self.kind("exception"), [last.step], action)
        thought = (
            f"I am a {replies.WHAT}. Goal: make the failing tests pass by trying documented repair "
            "templates, one candidate edit per turn. First see what fails."
        )
        if state.lost or state.kept or self.transcript.actions:
            thought = f"After step {self.latest} no full report is in sight: run the tests again."
        action = replies.call("run_command", "see which tests fail", command=self._command())
        return replies.reply(thought, self.kind("goal"), [self.latest], action)

    def _command(self) -> str:
        return command_in(self.transcript.said)

    def _test(self, why: str) -> str:
        state = self.state
        edit = state.pending
        where = f"{edit.parameters.get('path')}" if edit else ""
        before = replies.failing(state.report) if state.report else "no report"
        thought = f"{why} {state.candidates} in {where}; before it: {before}."
        parameters: dict[str, Any] = {"command": self._ran_before() or self._command()}
        if state.report is not None and state.report.seconds:
            parameters["timeout_s"] = round(max(_PATIENCE, 20 * state.report.seconds))
        action = replies.call("run_command", "judge the candidate by the tests", **parameters)
        return replies.reply(thought, self.kind("progress"), [state.step, self.latest], action)

    def _ran_before(self) -> str:
        ran = [d for d in self.transcript.actions if d.tool == "run_command"]
        return str(ran[-1].parameters.get("command", "")) if ran else ""

    def _undo(self) -> str:
        state = self.state
        edit = state.undo
        fails = replies.failing(state.report) if state.report else "no report"
        parameters = dict(edit.parameters) if edit else {}
        path = str(parameters.get("path", ""))
        thought = (
            f"Candidate {state.candidates} in {path} did not help; without it: {fails}. "
            "Take it back."
        )
        action = replies.call(
            "edit_file",
            "undo the candidate",
            # The reverse edit: `Source.edit` ensured that `new` occurs once.
            path=path,
            old=parameters.get("new", ""),
            new=parameters.get("old", ""),
        )
        return replies.reply(thought, self.kind("reasoning"), [state.step, self.latest], action)

    def _search(self, report: PytestReport) -> str:
        lists = self.transcript.offers("list_files")
        paths = unread(self.files, self.project, report, lists=lists)
        if paths:
            return self._read(report, paths)
        state = self.state
        # The order matters: keeping an edit with partial progress comes before giving up a kept
        # one.
        if state.since >= SECOND_LOOK and state.further:
            return self._second_look(report)
        candidate = self._next(report) if state.candidates < MOST_CANDIDATES else None
        # A kept edit may have silenced a failure by chance; no later candidate could then succeed.
        if state.kept and (candidate is None or state.since >= self._patience()):
            return self._retreat(report)
        if candidate is not None:
            thought, rationale = replies.proposal(candidate, state.candidates + 1)
            edit = candidate.edit
            action = replies.call(
                "edit_file", rationale, path=edit.path, old=edit.old, new=edit.new
            )
            because = [state.step, *self._read_steps(edit.path)]
            return replies.reply(thought, self.kind("reasoning"), because, action)
        return self._stop(
            f"failed: no template helps after {self.state.candidates} candidates", report
        )

    def _patience(self) -> int:
        """Returns the number of failed candidates after which the newest kept edit is given up."""
        given_up_before = key_of(self.state.kept[-1].parameters) in self.state.doubted
        return LAST_RETREAT if given_up_before else RETREAT

    def _second_look(self, report: PytestReport) -> str:
        edit = next(iter(self.state.further.values()))
        thought = (
            f"{self.state.since} candidates in a row changed nothing in {replies.failing(report)}. "
            f"One of step {edit.step} let a test come further: keep it and search on."
        )
        action = replies.call(
            "edit_file", "second look at an edit that helped a little", **dict(edit.parameters)
        )
        return replies.reply(thought, self.kind("reasoning"), [self.state.step, edit.step], action)

    def _retreat(self, report: PytestReport) -> str:
        edit = self.state.kept[-1]
        parameters = edit.parameters
        thought = (
            f"No candidate settles {replies.failing(report)}. The edit of step {edit.step} may "
            "have helped by chance: take it back."
        )
        action = replies.call(
            "edit_file",
            "undo an edit that leads nowhere",
            path=parameters.get("path"),
            old=parameters.get("new"),
            new=parameters.get("old"),
        )
        return replies.reply(thought, self.kind("reasoning"), [self.state.step, edit.step], action)

    def _next(self, report: PytestReport) -> Candidate | None:
        """Returns the best candidate not yet tried on the current failures; new ones come first."""
        order = ranked(self.project, report, learnt_in(self.transcript.said))
        tried, earlier, now = (
            self.state.tried,
            replies.marks(self.transcript.said),
            standing(report),
        )
        edits = {replies.edit_of(tried_mark) for tried_mark in earlier}
        again: Candidate | None = None
        # Bounded: in a long search most of the first ones have been tried.
        for candidate in islice(order, 4 * MOST_CANDIDATES):
            key = candidate.edit.key
            here = replies.mark(key, now)
            if key in tried or here in earlier:
                continue
            if replies.edit_of(here) not in edits:
                return candidate
            # Tried on other failures: only after all new candidates.
            again = again or candidate
        return again

    def _read_steps(self, path: str) -> list[int]:
        read = [
            d.step
            for d in self.transcript.actions
            if d.tool == "read_file" and d.parameters.get("path") == path
        ]
        return read[-1:]

    def _read(self, report: PytestReport, paths: list[str]) -> str:
        calls: list[dict[str, Any]] = []
        if not self.files.asked and self.transcript.offers("list_files"):
            calls.append(replies.call("list_files", "find the modules behind the tests"))
        for path in paths:
            file = self.files.known.get(path)
            part = file.missing() if file else None
            lines = {"start": part[0], "end": part[1]} if part else {}
            calls.append(
                replies.call("read_file", "the failing tests lead here", path=path, **lines)
            )
        thought = f"{replies.failing(report)}. Read {', '.join(paths)}."
        return replies.reply(thought, self.kind("extraction"), [self.state.step], *calls)

    def _done(self, report: PytestReport) -> str:
        history = self.state.kept
        what = replies.changed(history) if history else "nothing to repair"
        thought = f"{report.summary}: no test fails any more. I am a {replies.WHAT}; kept: {what}."
        return replies.finish(
            f"repaired: {report.summary}. {what}",
            thought,
            self.kind("synthesis"),
            [self.state.step],
        )

    def _stop(self, why: str, report: PytestReport | None) -> str:
        left = f" Still failing: {replies.failing(report)}." if report and not report.ok else ""
        if report and report.ok:
            return self._done(report)
        history = self.state.kept
        open_ = self.state.pending or self.state.undo
        note = f" Not taken back: {replies.changed([open_])}." if open_ else ""
        tried = replies.tried(self.state.fruitless)
        answer = f"{why}. Kept: {replies.changed(history)}.{left}{note}{tried}"
        return replies.finish(answer, f"{why}.{left}", self.kind("synthesis"), [self.state.step])


class RepairModel:
    """Tries documented repair templates at the places named by failing tests, one edit per turn.

    It declines every other goal. The stated window is real: it reads text, not tokens.
    """

    name = NAME
    profile = Profile(window=1_000_000, window_known=True, streaming=False)

    def command_for(self, goal: str) -> str:
        """Returns its command for running the tests; "" if `goal` is not about tests."""
        return command_in(goal) if about_tests(goal) else ""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Returns the next move, a pure function of the request's conversation. Raises nothing."""
        text = decide(request.conversation, [tool.name for tool in request.tools])
        if on_text is not None:
            on_text(text)
        return Reply(text=text, model=NAME, finish="stop")

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns 0: it runs locally."""
        return 0.0


def connect(model: str, **options: Any) -> RepairModel:
    """Returns the model for `offline:repair`.

    Raises `ConfigError` for another name or any option.
    """
    if model != NAME.partition(":")[2]:
        raise ConfigError(f"no offline model {model!r}: the only one is {NAME!r}")
    if options:
        raise ConfigError(f"{NAME} takes no options, but got {', '.join(sorted(options))}")
    return RepairModel()

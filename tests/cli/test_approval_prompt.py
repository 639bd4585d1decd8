"""The approval prompt: what it shows, what counts as an answer, and a real terminal."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from rich.cells import cell_len

from taofold import tool
from taofold.cli.approval_prompt import PromptApprover
from taofold.cli.approval_prompt import Terminal as Prompt
from taofold.core.values import Action, Deciders, Tier
from taofold.runtime.ledger import Park
from taofold.runtime.setup import Approval, Decision, cut_preview
from tests.ports import PATIENCE
from tests.terminal import Taofold


class Script:
    """Terminal input with these lines, then the end of input."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.shown = list(lines), list[str]()

    async def show(self, title: str, facts: list[tuple[str, str]], preview: str) -> bool:
        self.shown.append(f"{title} {facts} {preview}")
        return True

    async def ask(self, prompt: str) -> str | None:
        self.shown.append(prompt)
        return self.lines.pop(0) if self.lines else None


def request(question: str = "", tool: str = "note") -> Approval:
    action = Action(tool, {"text": "x"}, "because")
    return Approval(
        "r:3", "r", "0", 0, action, Tier.CARD, "tier 2 asks", "would write x", "d", "p", "local", 0,
        question=question,
    )  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("lines", "decision"),
    [
        (["a"], Decision("allow")),
        (["what?", "", "yes"], Decision("allow")),
        (["d", "no need"], Decision("deny", reason="no need")),
        (["e", '{"text": "y"}'], Decision("edit", parameters={"text": "y"})),
        (["e", "{", "e", "3", "e", "", "a"], Decision("allow")),
    ],
)
async def test_a_person_decides(lines: list[str], decision: Decision) -> None:
    assert await PromptApprover(Script(*lines))(request()) == decision


@tool(effect="once", tier=2)
def note(text: str) -> str:
    """Write a note."""
    return text


@pytest.mark.anyio
async def test_an_edit_that_does_not_fit_is_told_at_the_prompt() -> None:
    script = Script("e", '{"txt": "y"}', "e", '{"text": "y"}')
    decided = await PromptApprover(script)(replace(request(), tool=note))
    assert decided == Decision("edit", parameters={"text": "y"})
    assert any("unknown parameter" in line for line in script.shown)


def several() -> Approval:
    first, second = request(), replace(request(), id="r:4", index=1, preview="would write y")
    return replace(first, batch=(first, second))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("lines", "decisions"),
    [
        (["what?", "a"], [Decision("allow")] * 2),
        (["d", "not now"], [Decision("deny", reason="not now")] * 2),
    ],
)
async def test_all_that_a_step_asks_is_listed_and_decided_at_once(
    lines: list[str], decisions: list[Decision]
) -> None:
    script = Script(*lines)
    assert await PromptApprover(script)(several()) == decisions
    assert "would write x" in script.shown[0]
    assert "would write y" in script.shown[0]


@pytest.mark.anyio
async def test_one_by_one_is_said_once_for_a_batch() -> None:
    script = Script("o", "a", "d", "")
    approver = PromptApprover(script)
    assert await approver(several()) == Decision("allow")
    assert await approver(replace(several(), id="r:4")) == Decision("deny")


@pytest.mark.anyio
@pytest.mark.parametrize("lines", [["q"], [], ["d"], ["e"]])
async def test_quitting_or_the_end_of_input_leaves_it_waiting(lines: list[str]) -> None:
    with pytest.raises(Park, match="awaiting_approval"):
        await PromptApprover(Script(*lines))(request())


@pytest.mark.anyio
async def test_it_shows_tool_tier_reason_and_preview() -> None:
    script = Script("a")
    await PromptApprover(script)(request())
    shown = script.shown[0]
    assert "note needs your approval" in shown
    assert "2: it writes, or its author" in shown
    assert "would write x" in shown
    assert "because" in shown


@pytest.mark.anyio
async def test_who_may_not_approve_his_own_run_is_told_before_he_answers() -> None:
    script = Script("q")
    with pytest.raises(Park):
        await PromptApprover(script)(replace(request(), deciders=Deciders(own=None)))
    assert "another user must approve" in script.shown[0]


@pytest.mark.anyio
async def test_a_question_needs_an_answer() -> None:
    assert (
        await PromptApprover(Script("", "blue"))(request("which?", "ask_user"))
    ).answer == "blue"
    with pytest.raises(Park, match="awaiting_input"):
        await PromptApprover(Script(""))(request("which?", "ask_user"))


@pytest.mark.anyio
@pytest.mark.parametrize(("line", "verdict"), [("w", "done"), ("r", "allow"), ("s", "deny")])
async def test_an_action_in_doubt_has_its_own_choices(line: str, verdict: str) -> None:
    assert (await PromptApprover(Script(line))(request("did it happen?"))).verdict == verdict


class Terminal:
    """The program on a pseudo terminal."""

    def __init__(self, project: Path, *arguments: str) -> None:
        self.fd, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "taofold.cli", *arguments],
            cwd=project,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            preexec_fn=lambda: _own(other),
            env={**os.environ, "TERM": "xterm", "COLUMNS": "90"},
        )
        os.close(other)
        self.seen = ""

    def until(self, text: str) -> str:
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if wait([self.fd], 0.05):
                try:
                    self.seen += os.read(self.fd, 4096).decode(errors="replace")
                except OSError:
                    break
        assert text in self.seen
        return self.seen

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())


def _own(fd: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(project: Path) -> Iterator[Callable[..., Terminal]]:
    open_ones: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        open_ones.append(Terminal(project, *arguments))
        return open_ones[-1]

    yield start
    for one in open_ones:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGKILL)
        one.process.wait()
        os.close(one.fd)


def test_at_a_terminal_it_asks_and_goes_on(
    terminal: Callable[..., Terminal], project: Path
) -> None:
    one = terminal("run", "agents.py:writer", "go")
    one.until("[a]pprove")
    one.until("> ")
    one.type("a\n")
    one.until("finished: final_answer")
    assert one.process.wait(PATIENCE) == 0
    assert (project / "notes.txt").read_text() == "hello 7777\n"


def test_what_was_typed_before_the_question_is_no_answer(
    terminal: Callable[..., Terminal], project: Path
) -> None:
    one = terminal("run", "agents.py:impatient", "go")
    one.until("step is slow")
    one.type("a\n")
    (project / "go").touch()
    one.until("[a]pprove")
    one.type("q\n")
    assert one.process.wait(PATIENCE) == 3
    assert not (project / "notes.txt").exists()


def test_ctrl_c_at_the_question_leaves_the_run_waiting(
    taofold: Taofold, terminal: Callable[..., Terminal], project: Path
) -> None:
    one = terminal("run", "agents.py:writer", "go")
    one.until("[a]pprove")
    one.type("\x03")
    one.until("runs resume")
    assert one.process.wait(PATIENCE) == 130
    assert "the run waits for an approval or answer" in " ".join(one.seen.split())
    assert not (project / "notes.txt").exists()
    # Nothing is lost: the question is still open, and its answer goes on with the run.
    assert taofold("approvals", "approve", "last").code == 0
    assert taofold("runs", "resume", "last").code == 0
    assert (project / "notes.txt").read_text() == "hello 7777\n"


def test_no_color_is_respected_at_a_terminal(
    terminal: Callable[..., Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    one = terminal("run", "agents.py:adder", "go")
    one.until("runs show")
    assert "\x1b[3" not in one.seen
    assert "step 1 goal" in one.seen


def test_a_terminal_shows_colours_and_never_what_the_model_smuggled_in(
    terminal: Callable[..., Terminal],
) -> None:
    one = terminal("run", "agents.py:evil", "go")
    one.until("runs show")
    assert "\x1b[1m" in one.seen
    assert "\x1b[2J" not in one.seen
    assert "\x1b[31mred" not in one.seen  # the result, too, when it goes to a terminal


@pytest.mark.anyio
@pytest.mark.parametrize("colours", [False, True], ids=["plain", "colours"])
@pytest.mark.parametrize("where", ["rationale", "preview", "tool", "question"])
async def test_no_text_of_a_model_draws_the_frame_of_the_question(
    colours: bool, where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants: `show` writes facts and preview as they are; rich breaks rows by its own widths."""
    monkeypatch.setenv("COLUMNS", "60")
    forged = "fine\n  tier     │ 1: reads only\r\n[a]pprove  [d]eny\n> a\n" + " " * 57 + "! look"
    forged += "\n" + "䷀☰" * 40 + "\n  tier     │ 1: reads only"
    title = f"{forged if where == 'tool' else 'pay'} needs your approval"
    fields = [("tier", "3: asks"), ("because", forged if where == "rationale" else "x")]
    if where == "question":
        fields.append(("", forged))
    await Prompt(colours=colours).show(title, fields, forged if where == "preview" else "pay(5)")
    rows = capsys.readouterr().err.rstrip("\n").split("\n")
    for row in rows:
        assert cell_len(row) <= 60
        name, bar, _ = row.partition("│")
        assert row.startswith(("! ", "!↳  ")) or (bar and name.strip() in ("", "tier", "because"))
    # Once, in its place: the row is taofold's own.
    assert sum(row.startswith("  tier") for row in rows) == 1


@pytest.mark.anyio
async def test_a_title_and_the_calls_of_a_batch_are_shown_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: a title, or a fact, of at most one row."""
    monkeypatch.setenv("COLUMNS", "60")
    tool, call = "read_" + "x" * 90 + "_and_pay", f"pay(to={['someone'] * 40 + ['evil']})"
    both = [replace(request(), preview=call, id=f"r:{n}", index=n - 3) for n in (3, 4)]
    prompt = Prompt(colours=True)
    for approval in (replace(request(tool=tool)), replace(both[0], batch=tuple(both))):
        approver = PromptApprover(prompt)
        monkeypatch.setattr(prompt, "ask", Script("q").ask)
        with pytest.raises(Park):
            await approver(approval)
    shown = capsys.readouterr().err
    whole = shown.replace("\n", "").replace("!↳  ", "")
    assert f"! {tool} needs your approval" in whole
    assert "".join(shown.split()).replace("│↳", "").count("'evil'])") == 2


def cut() -> Approval:
    return replace(request(), preview=cut_preview("x" * 100_001))


@pytest.mark.anyio
@pytest.mark.parametrize("line", ["a", "y", "approve"])
async def test_what_is_too_long_to_be_shown_is_not_approved(line: str) -> None:
    """Mutant: `cut` is false. The user's own input is no cut preview."""
    script = Script(line, "q")
    with pytest.raises(Park):
        await PromptApprover(script)(cut())
    assert "cannot be approved here" in script.shown[0]
    assert "approvals approve r:3" in script.shown[0]
    assert not any("[a]pprove" in shown for shown in script.shown)
    assert await PromptApprover(Script("d", ""))(cut()) == Decision("deny")
    edited = await PromptApprover(Script("e", '{"text": "y"}'))(cut())
    assert edited == Decision("edit", parameters={"text": "y"})
    with pytest.raises(Park):
        await PromptApprover(Script("r", "q"))(replace(cut(), question="did it happen?"))


@pytest.mark.anyio
async def test_a_batch_with_a_cut_preview_is_decided_one_by_one() -> None:
    script = Script("a", "a", "q")
    batch = replace(several(), batch=(several(), replace(cut(), id="r:4", index=1)))
    assert await PromptApprover(script)(batch) == Decision("allow")
    assert not any("[a]pprove all" in shown for shown in script.shown)


def test_what_is_longer_than_the_screen_is_shown_a_page_at_a_time(
    terminal: Callable[..., Terminal], project: Path
) -> None:
    """Mutant: `screens` gives one page. The beginning of the question is then out of sight."""
    one = terminal("run", "agents.py:lengthy", "go")
    rest = ": Enter shows the next one\r\n> "
    one.until("\r\n> ")
    assert "[a]pprove" not in one.seen
    # A slow machine shows the reply while it arrives, and erases it before the question.
    _, _, page = one.seen.rpartition("\x1b[2K")
    assert "line 99" not in page
    pages = int(one.seen.partition("page 1 of ")[2].partition(":")[0])
    assert pages > 2
    for number in range(1, pages):
        one.until(f"page {number} of {pages}{rest}")
        assert "[a]pprove" not in one.seen
        one.type("a\n" if number == 1 else "\n")
    one.until("[a]pprove")
    assert "line99" in "".join(one.seen.split()).replace("│↳", "")
    one.type("q\n")
    assert one.process.wait(PATIENCE) == 3
    assert not (project / "notes.txt").exists()

"""What `taofold loop` asks a person at the terminal: five questions, of which one is the gate.

No gate is guessed silently: one that was inferred from the task is confirmed here, or the program
ends and says what to write.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taofold.cli.outcome import fail, invocation, say
from taofold.core.errors import ConfigError

Ask = Callable[[str], Awaitable[str | None]]
"""Asks a person for a line; None at the end of the input."""
MODES: Final = ("in-place", "worktree", "copy")


@dataclass(frozen=True, slots=True)
class Answers:
    """What a person said to the five questions. Empty = as it was."""

    task: str
    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()
    iterations: int | None = None
    mode: str = ""


def terminal() -> bool:
    """Is there a person who can be asked?"""
    return sys.stdin.isatty() and sys.stderr.isatty()


def at_terminal() -> Ask:
    """Asks at the terminal."""
    from taofold.cli.approval_prompt import Terminal
    from taofold.cli.render.story import can_colour

    return Terminal(colours=can_colour(sys.stderr)).ask


def inferred_gate(task: str, root: Path) -> str:
    """The gate that a task like "fix the tests" means in this project; "" if it means none."""
    from taofold.loop.gates.criteria import suggestion

    return suggestion(task, root)


def confirmed_gates(task: str, root: Path) -> tuple[str, ...]:
    """The gates for a task that names none: inferred, and confirmed by the person.

    Ends the program with 2 if nobody can be asked or nothing is named.
    """
    guess = inferred_gate(task, root)
    if not terminal():
        hint = f"; did you mean --completion {guess!r}?" if guess else ""
        fail(
            "--completion is missing: name a command that succeeds when the work is done"
            f"{hint}\nusage: {invocation()} loop TASK --completion CMD [--completion CMD …]"
        )
    commands = asyncio.run(gate(at_terminal(), guess, root))
    if not commands:
        fail("without a command that proves completion there is no loop")
    return commands


async def gate(ask: Ask, guess: str, root: Path) -> tuple[str, ...]:
    """Ask which commands prove completion, until one can be run. () = given up."""
    from taofold.loop.gates.criteria import gates

    while True:
        offer = f" [enter = {guess}]" if guess else ""
        reply = await ask(f"Which command succeeds when the work is done?{offer}")
        if reply is None:
            return ()
        command = reply.strip() or guess
        if not command:
            continue
        try:
            # Made only to see whether it can be run; `start` makes the gates of the loop.
            gates([command], root)
        except ConfigError as error:
            say(f"error: {error}")
            continue
        return (command,)


async def questions(ask: Ask, task: str, commands: tuple[str, ...], root: Path) -> Answers:
    """The five questions: task, proof, borders, effort, place."""
    if not task.strip():
        task = (await ask("1/5 What is to be done?") or "").strip()
    else:
        more = (await ask(f"1/5 The task is {task!r}. Anything to add? [enter = no]") or "").strip()
        task = f"{task}. {more}" if more else task
    if not commands:
        say("2/5 What proves that it is done?")
        commands = await gate(ask, inferred_gate(task, root), root)
    else:
        also = await ask(f"2/5 Done when {' AND '.join(commands)}. One more command? [enter = no]")
        commands = (*commands, also.strip()) if also and also.strip() else commands
    border = (
        await ask("3/5 What must not be touched, or must be kept? [enter = nothing]") or ""
    ).strip()
    notes = (f"must be kept: {border}",) if border else ()
    iterations = await _number(ask, "4/5 How many iterations at most? [enter = 10]")
    mode = await _mode(ask)
    return Answers(task, commands, notes, iterations, mode)


async def _number(ask: Ask, question: str) -> int | None:
    while True:
        reply = (await ask(question) or "").strip()
        if not reply:
            return None
        if reply.isdigit() and int(reply) > 0:
            return int(reply)
        say(f"{reply!r} is no number of iterations")


async def _mode(ask: Ask) -> str:
    while True:
        reply = (await ask(f"5/5 Where: {', '.join(MODES)}? [enter = in-place]") or "").strip()
        if not reply or reply in MODES:
            return reply
        say(f"{reply!r} is none of {', '.join(MODES)}")

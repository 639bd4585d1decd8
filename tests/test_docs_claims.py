"""Commands, flags, variables, defaults and exit codes in the documentation are correct."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from taofold.agent.sessions import MEDIA_BYTES
from taofold.bridges.mcp.client import content as mcp_results
from taofold.bridges.mcp.client import session
from taofold.cli import output
from taofold.cli.app import app
from taofold.files.expressions import bounds
from taofold.files.flow.flow import MOST_VISITS
from taofold.learning.settings import Extraction, Injection, Pruning
from taofold.loop.gates import tree
from taofold.models import replies
from taofold.models.endpoint import RetryPolicy
from taofold.policy import Limits
from taofold.runtime.ownership import BEAT_S, LEASE_MS
from taofold.runtime.tool_calls import BLOB, FIRST_PAUSE
from taofold.server import client_tools
from taofold.server.api.schemas import MOST_FILES
from taofold.server.auth import CODE_S
from taofold.server.server import Settings
from taofold.server.uvicorn_server import HEADER_S
from taofold.telemetry.prompt import LONGEST_PROMPT
from taofold.tools import attachments
from taofold.tools.tool import ToolOptions
from taofold.workspace import snapshots
from tests.tables import TABLES, page_with_tables
from tests.test_docs import PAGES, ROOT, name_of

PROGRAM = typer.main.get_command(app)
PROSE = [page for page in PAGES if page.name not in ("cli.md", "conformance.md")]
FOREIGN = {
    "--no-cache", "--cache-dir", "--pretty",  # of linters and test runners, docs/gates.md
    "--seccomp", "--share-net", "--mmproj",  # of bubblewrap and llama.cpp
    "--seeds", "--first", "--cache", "--only", "--full", "--scale",  # of bench/
}  # fmt: skip
"""Flags of other programs and of scripts in bench/."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELLS = ("", "sh", "bash", "console", "shell", "text")
SPAN = re.compile(r"`([^`\n]+)`")


def commands(
    command: Any = PROGRAM, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the program with its path, groups too."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


COMMANDS = dict(commands())


def flags_of(command: Any) -> set[str]:
    options = [option for option in command.params if option.param_type_name == "option"]
    return {flag for one in options for flag in (*one.opts, *one.secondary_opts)} | {"-h", "--help"}


EVERY_FLAG = {flag for command in COMMANDS.values() for flag in flags_of(command)}


def called(page: Path) -> Iterator[str]:
    """The lines that call the program: in blocks of a shell and in spans of code."""
    text = page.read_text(encoding="utf-8")
    lines = [
        line
        for language, block in FENCE.findall(text)
        if language in SHELLS
        for line in block.replace("\\\n", " ").split("\n")
    ]
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in [*lines, *SPAN.findall(outside)]:
        line = re.sub(r"\s#\s.*", "", line.strip().removeprefix("$ "))
        for part in re.split(r"\s(?:&&|\||;)\s", line):
            if part.startswith("taofold "):
                yield part


def faults(line: str) -> list[str]:
    """Returns the faults of a command line: a missing command or flag."""
    words = line.split()[1:]
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in COMMANDS:
        path = (*path, words.pop(0))
    command = COMMANDS[path]
    plain = words and re.fullmatch(r"[a-z][a-z-]+", words[0])
    if hasattr(command, "commands") and words and plain and not path:
        return [f"no command {words[0]!r}"]
    known = flags_of(command)
    if path and hasattr(command, "commands"):  # `taofold loops …`: any command below it
        known |= {
            f for other, c in COMMANDS.items() if other[: len(path)] == path for f in flags_of(c)
        }
    found = re.findall(r"(?<!\S)(--[a-z][\w-]*)", " ".join(words))
    return [f"{' '.join(path)} has no {flag}" for flag in found if flag not in known]


@pytest.mark.parametrize("page", PROSE, ids=name_of)
def test_every_command_and_flag_in_a_call_is_one_of_that_command(page: Path) -> None:
    wrong = {line: faults(line) for line in called(page)}
    assert {line: said for line, said in wrong.items() if said} == {}


def test_calls_are_found_and_a_wrong_one_is_a_fault() -> None:
    assert sum(len([*called(page)]) for page in PROSE) > 60
    assert faults("taofold patterns export DIR") == []
    assert faults("taofold run --no-such") == ["run has no --no-such"]
    assert faults("taofold runn x") == ["no command 'runn'"]
    assert faults("taofold runs show last --worktree") == ["runs show has no --worktree"]


@pytest.mark.parametrize("page", PROSE, ids=name_of)
def test_every_flag_that_is_named_alone_is_a_flag_of_the_program(page: Path) -> None:
    spans = SPAN.findall(page.read_text(encoding="utf-8"))
    named = {span.split()[0].split("=")[0] for span in spans if span.startswith("--")}
    assert named - EVERY_FLAG - FOREIGN == set()


@pytest.mark.parametrize("page", PROSE, ids=name_of)
def test_every_module_that_is_named_by_its_path_is_there(page: Path) -> None:
    paths = re.findall(r"`((?:\w+/)+\w+\.py)\b", page.read_text(encoding="utf-8"))
    homes = (ROOT, ROOT / "src", ROOT / "src" / "taofold")
    assert [path for path in paths if not any((home / path).exists() for home in homes)] == []


def test_every_variable_that_is_named_is_read() -> None:
    places = ("src", "tests", "bench")
    sources = "\n".join(p.read_text("utf-8") for at in places for p in (ROOT / at).rglob("*.py"))
    named = {
        name.rstrip("_")
        for page in PAGES
        for name in re.findall(r"TAOFOLD_[A-Z_]+", page.read_text("utf-8"))
    }
    derived = ("TAOFOLD_LIMITS_", "TAOFOLD_LEARNING_")
    assert [n for n in sorted(named) if n not in sources and not n.startswith(derived)] == []
    for name in named:
        if name.startswith(derived[0]):
            assert hasattr(Limits(), name.removeprefix(derived[0]).lower())


def test_the_defaults_of_flags_in_prose_are_those_of_the_parser() -> None:
    """Example of a default in prose: (`--memory`, default 3)."""
    wrong: list[str] = []
    count = 0
    for page in PROSE:
        text = page.read_text("utf-8")
        for flag, value in re.findall(r"`(--[\w-]+)[^`]*`,? \(?default (?:is )?`?([\w.]+)", text):
            count += 1
            defaults = {
                str(option.default)
                for command in COMMANDS.values()
                for option in command.params
                if flag in option.opts
            }
            if value not in defaults:
                wrong.append(f"{name_of(page)}: {flag} {value}, not {sorted(defaults)}")
    assert wrong == []
    assert count > 0


def test_the_settings_of_learning_have_the_defaults_of_the_table() -> None:
    table = (ROOT / "docs" / "learning.md").read_text("utf-8").partition("## Settings")[2]
    table = table.partition("\n## ")[0]
    rows = re.findall(r"\| `(\w+)` \| ([\w.]+)", table)
    told = {name: value for name, value in rows if value != "default"}
    values = {
        name: getattr(one, name)
        for one in (Extraction(), Injection())
        for name in type(one).model_fields
    }
    assert {name: eval(value.capitalize()) for name, value in told.items()} == values


def test_the_limits_have_the_defaults_of_the_table() -> None:
    page = (ROOT / "docs" / "limits.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", page, re.MULTILINE))
    assert told
    assert {name: float(value) for name, value in told.items()} == {
        name: getattr(Limits(), name) for name in told
    }


def test_the_exit_codes_are_those_of_the_program() -> None:
    codes = {
        output.OK: "success",
        output.UNREACHED: "goal not reached",
        output.USAGE: "usage or configuration",
        output.WAITING: "waiting for an answer",
        output.INTERRUPTED: "interrupted",
    }
    said = "Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in codes.items())
    for name in ("README.md", "docs/cli.md"):
        text = " ".join((ROOT / name).read_text("utf-8").split())
        assert f"{said}." in text, name


def figures() -> dict[str, list[str]]:
    """Returns the documented bounds and times, derived from the code's values."""
    server, lease, retries = Settings(), LEASE_MS / 1000, RetryPolicy()
    return {
        "server.md": [
            f"sign in (once, within {CODE_S // 60} minutes)",
            f"up to {MOST_FILES}, {server.upload_bytes * 3 // 4 >> 20} MB in all",
            'waits for up to a minute with `"on_busy": "wait"`' * (server.wait_s == 60),
            f"when no client was connected to its stream for {server.grace_s:g} seconds",
            f"a comment comes every {server.ping_s:g} seconds",
            f"takes nothing for {server.send_s:g} seconds is dropped",
            f"Bodies are bounded ({server.body_bytes >> 10} kB)",
            f"a header must arrive within {HEADER_S:g} seconds",
            f"and a body within {server.body_s:g};",
            f"more than {server.requests_per_s:g} requests a second from one principal",
            f"Of {server.most_streams:,} streams",
            f"one principal may have {server.most_streams // 2:,}",
            f"what takes longer than {server.stop_s:g} seconds is cut off",
            f"Approvals expire after {server.approve_seconds / 60:g} minutes",
        ],
        "mcp.md": [
            f"may have up to {session.LARGEST >> 20} MiB",
            f"Text above {mcp_results.FLOOD:,} characters",
        ],
        "gates.md": [
            f"at most {tree.MOST_FILES:,} files and {tree.MOST_BYTES // 10**9} GB",
            f"A file above {tree.LARGEST // 10**6} MB is used where it lies",
            f"omit files above {snapshots.LARGEST // 10**6} MB",
        ],
        "learning.md": [
            f"below {Pruning().min_success_rate:g} after {Pruning().min_usage_count} uses, "
            f"or was not used for more than {Pruning().max_age_days} days",
        ],
        "deploy.md": ["a lease of ten seconds" * (lease == 10), f"every {BEAT_S:g} seconds"],
        "console.md": [f"({client_tools.LARGEST:,} bytes)"],
        "security.md": [
            f"at most {bounds.LARGEST:,} characters and values",
            f"share {bounds.WORK:,} units of work",
        ],
        "loops.md": [f"its lease (of {lease:g} seconds, renewed every {BEAT_S:g})"],
        "agent-files.md": [f"at most {MOST_VISITS:,} times"],
        "models.md": [
            f"{retries.attempts} times in all ({retries.rate_attempts} times after 429) "
            f"and within {retries.seconds:g} seconds",
            f"a reply with more than {replies._MOST_CALLS} calls",
            f"larger than {attachments.LARGEST >> 20} MiB is refused",
            f"in its later turns, up to {MEDIA_BYTES >> 20} MiB.",
        ],
        "architecture.md": [
            f"Results above {BLOB >> 10} kB lie in",
            f"*lease* lasts ({lease:g} seconds, renewed by",
        ],
        "traces.md": [f"({LONGEST_PROMPT:,} characters unless it is set)"],
        "tools.md": [f"of a call that raised, after {FIRST_PAUSE:g} s, {2 * FIRST_PAUSE:g} s"],
    }


@pytest.mark.parametrize("page", TABLES)
def test_tables_say_what_the_code_says(page: str) -> None:
    """`make docs` writes them."""
    assert (ROOT / "docs" / page).read_text("utf-8") == page_with_tables(page)


def test_every_option_of_a_tool_has_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)=", page_with_tables("tools.md"), re.MULTILINE)
    assert set(rows) == ToolOptions.__optional_keys__


@pytest.mark.parametrize("page", figures())
def test_figures_in_prose_are_those_of_the_code(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    assert [said for said in figures()[page] if not said or said not in text] == []

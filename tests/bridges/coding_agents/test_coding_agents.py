"""Coding agents as agents: how they are run, what is read of them, and what they cannot reach."""

import json
import os
import tempfile
import venv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taofold import Budget, Limits, MemoryLog, Policy
from taofold.agent import Agent
from taofold.bridges.coding_agents import PRESETS, agent, coding_agent, names_coding_agent
from taofold.bridges.coding_agents.presets import CodingTranscript
from taofold.core.errors import ConfigError
from taofold.core.reply import Usage
from taofold.log.log import Spending, Window
from taofold.tools.container_network import Reach
from tests.prerequisites import CONTAINMENT

from .standins import COMMAND, SAID, SOURCES, installed, seen

pytestmark = pytest.mark.anyio

USED = {
    "claude": Usage(250, 40, 20, 0.003, 30),
    "codex": Usage(250, 40, 20, None, 0, 5),
    "gemini": Usage(250, 40, 20, None),
    "opencode": Usage(250, 40, 20, 0.003, 30, 4),
    "aider": Usage(1200, 40, 0, 0.0032),
}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All stand-ins on PATH, and a home of the user's own."""
    folder, home = tmp_path / "programs", tmp_path / "user"
    for name, source in SOURCES.items():
        installed(folder, name, source)
    home.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MY_TOKEN", "not-for-agents-1234")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a fault."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    return work


def allowed(name: str, root: Path, **more: Any) -> Agent[None, str]:
    return coding_agent(name, root, **more).replace(approve="all")


def observed(result: Any) -> dict[str, Any]:
    value: dict[str, Any] = result.steps[0].observations[0].result
    return value


@pytest.fixture(params=[True, False], ids=["contained", "bare"])
def contained(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Parametrizes bubblewrap with its own network, and no containment."""
    if request.param:
        CONTAINMENT.need()
        # The stand-ins need no network, and its helper is not everywhere.
        monkeypatch.setattr(agent, "REACH", Reach())
    else:
        monkeypatch.setattr(agent, "why_not", lambda: "no bubblewrap")
    return bool(request.param)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", SOURCES)
async def test_a_coding_agent_does_the_work_of_a_run(
    name: str, root: Path, contained: bool
) -> None:
    """Mutants: the options that skip questions are given where nothing contains the program, or
    are left out where it is contained; the prompt comes another way, or with sentences about our
    own tools; tokens are counted twice."""
    result = await allowed(name, root).run("Repair add.")
    assert (result.status, result.output) == ("finished", SAID)
    assert "a + b" in (root / "calc.py").read_text()
    assert result.usage == USED[name]
    found = seen(root)
    assert found["prompt"] == "Repair add."
    preset = PRESETS[name]
    free, careful = set(preset.contained), set(preset.careful)
    given = set(found["argv"])
    assert (free <= given) == contained or free <= careful
    assert not (free - careful) & given or contained
    assert not (careful - free) & given or not contained
    actions = observed(result)["actions"]
    assert actions == ["edit: calc.py"] if name == "aider" else COMMAND in actions[0]
    assert sorted(path.name for path in root.iterdir()) == ["calc.py", "seen.json"]


@pytest.mark.usefixtures("programs")
async def test_a_program_that_nothing_contains_waits_for_a_person(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: it is tier 2 without a container, too."""
    monkeypatch.setattr(agent, "why_not", lambda: "no bubblewrap")
    one = coding_agent("claude", root)
    result = await one.replace(log=MemoryLog(), policy=one.policy.tightened(one.policy)).run("x")
    assert (result.status, (root / "seen.json").exists()) == ("waiting", False)
    (request,) = result.pending
    assert request.tier == 3
    assert "--permission-mode acceptEdits" in request.preview
    assert "not contained" in request.preview


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", SOURCES)
async def test_a_contained_program_gets_its_own_keys_only(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutants: the whole environment is passed on; the user's home is."""
    CONTAINMENT.need()
    monkeypatch.setattr(agent, "REACH", Reach())
    for variable in ("ANTHROPIC_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, f"the-{variable}-value")
    (Path.home() / ".ssh").mkdir()
    (Path.home() / ".ssh" / "id_ed25519").write_text("private")
    await allowed(name, root).run("x")
    found = seen(root)
    assert "MY_TOKEN" not in found["environment"]
    expected = {key for key in PRESETS[name].variables if key in os.environ}
    assert expected == {key for key in found["environment"] if key.endswith("_API_KEY")}
    assert not [file for file in found["files"] if "ssh" in file]


@pytest.mark.usefixtures("programs")
async def test_a_variable_that_the_command_names_is_passed_on(root: Path) -> None:
    await allowed("MY=$MY_TOKEN OTHER=plain claude --model opus", root).run("x")
    found = seen(root)
    assert (found["environment"]["MY"], found["environment"]["OTHER"]) == (
        "not-for-agents-1234",
        "plain",
    )
    assert found["argv"][-2:] == ["--model", "opus"]


@pytest.mark.usefixtures("programs")
async def test_a_model_goes_to_the_program(root: Path) -> None:
    await allowed("codex", root, model="gpt-6.2-sol").run("x")
    assert seen(root)["argv"][-2:] == ["--model", "gpt-6.2-sol"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cmd: sh -c 'cat > got'", "Repair add."),
        ("cmd: sh -c 'cat \"$0\" > got' {prompt_file}", "Repair add."),
        ("cmd: sh -c 'printf %s \"$0\" > got' {prompt}", "Repair add."),
        ("cmd: sh -c 'printf %s \"$0\" > got' --task={prompt}", "--task=Repair add."),
    ],
)
async def test_a_command_gets_the_prompt_as_it_asks_for_it(
    root: Path, command: str, expected: str
) -> None:
    assert (await allowed(command, root).run("Repair add.")).status == "finished"
    assert (root / "got").read_text() == expected


async def test_a_prompt_is_no_shell_and_no_template(root: Path) -> None:
    """Mutants: a shell reads the arguments; placeholders in the prompt are filled."""
    goal = "$(touch pwned) `touch pwned` {prompt_file} {prompt} '\"; touch pwned"
    result = await allowed("cmd: sh -c 'printf %s \"$0\" > got' {prompt}", root).run(goal)
    assert result.status == "finished"
    assert (root / "got").read_text() == goal
    assert not (root / "pwned").exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("cmd: no-such-program-1", "is not installed"),
        ("cmd: ./no/such", "is no program that can be run"),
        ("cmd:", "names no program"),
        ("cmd: A=1", "names no program"),
        ("cmd: KEY=$NO_SUCH_VARIABLE_1 sh", "has no variable 'NO_SUCH_VARIABLE_1'"),
        ("cmd: sh 'open", "cannot be read"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_before_anything_starts(
    root: Path, command: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        coding_agent(command, root)


def test_a_program_in_the_work_root_is_not_taken_for_an_installed_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: entries of PATH in the work root are searched, too."""
    installed(root / "bin", "claude", SOURCES["claude"])
    monkeypatch.setenv("PATH", f"{root / 'bin'}{os.pathsep}/usr/bin:/bin")
    with pytest.raises(ConfigError, match="is not installed"):
        coding_agent("claude", root)


@pytest.mark.parametrize(
    ("agent", "is_one"),
    [
        ("claude", True),
        ("codex --model x", True),
        ("cmd: anything.yaml", True),
        ("KEY=$KEY claude", True),
        ("agent.yaml", False),
        ("module:attr", False),
        ("claude.py:agent", False),
        ("", False),
        ("KEY=1", False),
    ],
)
def test_which_names_are_coding_agents(agent: str, is_one: bool) -> None:
    assert names_coding_agent(agent) == is_one


FAILURES = {
    "claude": (
        "say({'type': 'result', 'subtype': 'success', 'is_error': True, 'result': "
        "'Invalid API key · Please run /login', 'total_cost_usd': 0})\nsys.exit(1)",
        "Invalid API key",
    ),
    "codex": (
        "say({'type': 'error', 'message': 'usage limit'}, {'type': 'turn.failed', "
        "'error': {'message': 'You have hit your usage limit'}})\nsys.exit(1)",
        "usage limit",
    ),
    "gemini": ("say('Invalid auth method selected.')\nsys.exit(41)", "exit code 41: Invalid auth"),
    "opencode": (
        "say({'type': 'error', 'error': {'name': 'ProviderAuthError', 'data': {'message': "
        "'no key'}}})",
        "no key",
    ),
    "aider": ("say('litellm.AuthenticationError: bad key')\nsys.exit(1)", "bad key"),
}


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", FAILURES)
async def test_a_program_that_fails_fails_the_run_and_says_why(
    name: str, root: Path, programs: Path
) -> None:
    source, why = FAILURES[name]
    installed(programs, name, source)
    result = await allowed(name, root).run("x")
    assert result.status == "failed"
    assert why in result.error


PAID = (
    "say({'type': 'result', 'subtype': 'error_during_execution', 'is_error': True, 'result': "
    "'API Error', 'total_cost_usd': 0.25, 'usage': {'input_tokens': 9000, 'output_tokens': 100}})\n"
)


async def spent(log: Any) -> Any:
    return (await log.spent([Window("all", 0, 10**9)]))[0]


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("end", ["sys.exit(1)", "import time; time.sleep(600)"])
async def test_a_program_that_fails_or_is_cut_off_is_charged(
    root: Path, programs: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: its usage counts with its answer only."""
    monkeypatch.setattr(agent, "why_not", lambda: "no bubblewrap")
    installed(programs, "claude", PAID + end)
    for seconds in (5.0, 20.0, 80.0):  # a busy machine may start the program after the first
        log = MemoryLog()
        chosen = allowed("claude", root).replace(log=log, limits=Limits(steps=3, seconds=seconds))
        result = await chosen.run("x")
        assert not result.success
        if result.usage.tokens:
            break
    assert result.usage == Usage(9000, 100, usd=0.25)
    assert await spent(log) == Spending(9100, 0, 250_000_000)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    "budget", [Budget(period="month", tokens=200), Budget(period="month", usd=0.002)]
)
async def test_a_program_that_uses_up_a_budget_is_charged(
    root: Path, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: its usage is recorded by a call of the model that the budget then refuses."""
    monkeypatch.setattr(agent, "why_not", lambda: "no bubblewrap")
    log, policy = MemoryLog(), Policy(budgets=[budget])
    chosen = allowed("claude", root, policy=policy).replace(log=log)
    first, second = await chosen.run("x"), await chosen.run("x")
    assert (first.stop_reason, second.stop_reason) == ("max_budget", "max_budget")
    assert (len(first.steps), len(second.steps)) == (1, 0)
    assert (await spent(log)).tokens == USED["claude"].tokens


async def test_a_program_that_reports_no_usage_is_charged_the_least(root: Path) -> None:
    log, policy = MemoryLog(), Policy(budgets=[Budget(period="month", tokens=300)])
    command = "cmd: sh -c 'cat > /dev/null; seq 1 400'"
    chosen = coding_agent(command, root, policy=policy).replace(approve="all", log=log)
    result = await chosen.run("word " * 100)
    assert result.usage.usd is None
    assert (await spent(log)).tokens > 400
    assert not (await chosen.run("x")).steps


def signed_in(tmp: Path, content: str) -> Path:
    path = Path.home() / ".claude" / ".credentials.json"
    path.parent.mkdir(mode=0o700)
    path.write_text(content)
    path.chmod(0o600)
    return path


OLD = '{"claudeAiOauth": {"accessToken": "old", "expiresAt": 1, "scopes": ["a"]}}'
NEW = '{"claudeAiOauth": {"accessToken": "new", "expiresAt": 2, "scopes": ["a"]}}'
WRITE = "(Path.home() / '.claude/.credentials.json').write_text({!r})\n"


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        (WRITE.format(NEW), NEW),
        ("pass\n", OLD),
        (WRITE.format("not json"), OLD),
        (WRITE.format('{"hooks": "rm -rf"}'), OLD),
        (WRITE.format(NEW.replace('"scopes"', '"hooks"')), OLD),
        (WRITE.format(NEW + " " * 70_000), OLD),
        (WRITE.format('{"a":' * 2000 + "1" + "}" * 2000), OLD),
        (WRITE.format(NEW.replace('["a"]', '[{"hook": "rm"}]')), OLD),
        ("os.truncate(Path.home() / '.claude/.credentials.json', 8 << 30)\n", OLD),
        (
            "p = Path.home() / '.claude/.credentials.json'\np.unlink()\np.symlink_to('{secret}')\n",
            OLD,
        ),
        (
            "import shutil\nshutil.rmtree(Path.home() / '.claude')\n"
            "(Path.home() / '.claude').symlink_to('{folder}')\n",
            OLD,
        ),
    ],
    ids=[
        "renewed",
        "same",
        "no json",
        "other",
        "other key",
        "long",
        "deep",
        "other in a list",
        "huge",
        "link",
        "linked folder",
    ],
)
async def test_a_sign_in_is_lent_and_only_a_renewed_one_is_kept(
    tmp_path: Path,
    root: Path,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    kept: str,
) -> None:
    """Mutants: any content is stored; links in its home are followed."""
    CONTAINMENT.need()
    monkeypatch.setattr(agent, "REACH", Reach())
    path = signed_in(tmp_path, OLD)
    other = tmp_path / "other"
    other.mkdir()
    (other / ".credentials.json").write_text(NEW)
    filled = source.replace("{secret}", str(other / ".credentials.json"))
    installed(programs, "claude", filled.replace("{folder}", str(other)) + SOURCES["claude"])
    await allowed("claude", root).run("x")
    assert ".claude/.credentials.json" in seen(root)["files"] or "link" in source
    assert path.read_text() == kept
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_sign_in_that_somebody_else_renewed_meanwhile_stays(
    tmp_path: Path, root: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: the program's copy wins."""
    CONTAINMENT.need()
    monkeypatch.setattr(agent, "REACH", Reach())
    path = signed_in(tmp_path, OLD)
    installed(programs, "claude", WRITE.format(NEW) + SOURCES["claude"])
    third = NEW.replace("new", "third")
    keep = agent._keep

    def late(kept: Path, before: bytes, after: bytes) -> None:
        path.write_text(third)
        keep(kept, before, after)

    monkeypatch.setattr(agent, "_keep", late)
    await allowed("claude", root).run("x")
    assert path.read_text() == third


@pytest.mark.usefixtures("programs")
async def test_folders_as_deep_as_a_program_likes_stop_nothing(
    root: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: a home that cannot be removed fails this run, and every one after it."""
    CONTAINMENT.need()
    monkeypatch.setattr(agent, "REACH", Reach())
    nest = (
        "here = os.getcwd()\n"
        "for where in (Path.home(), Path('.aider.tags.cache.v9')):\n"
        "    where.mkdir(exist_ok=True)\n"
        "    os.chdir(where)\n"
        "    for _ in range(3000):\n"
        "        os.mkdir('d')\n"
        "        os.chdir('d')\n"
        "    os.chdir(here)\n"
    )
    installed(programs, "aider", SOURCES["aider"] + nest)
    # A place of its own: other tests make such folders at the same time.
    place = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", place)
    result = await allowed("aider", root).run("x")
    assert (result.status, result.error) == ("finished", "")
    assert list(Path(place).glob("taofold-scratch-agent-*")) == []
    assert not list(root.glob(".aider*"))


async def test_a_program_alone_in_a_folder_shows_nothing_of_that_folder(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: the whole folder of the program can be read."""
    CONTAINMENT.need()
    monkeypatch.setattr(agent, "REACH", Reach())
    folder = tmp_path / "Downloads"
    look = "print(sorted(os.listdir(os.path.dirname(sys.argv[0]))))"
    path = installed(folder, "mine", look)
    (folder / "tax.pdf").write_text("private")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    result = await allowed("cmd: mine", root).run("x")
    assert (result.status, result.output) == ("finished", f"['{path.name}']")


async def test_a_script_finds_the_environment_that_its_first_line_names(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: only the script's own folder is looked at, and it is "not found"."""
    CONTAINMENT.need()
    monkeypatch.setattr(agent, "REACH", Reach())
    environment, folder = tmp_path / "environment", tmp_path / "programs"
    venv.create(environment, symlinks=True)
    path = installed(folder, "mine", "print(sys.prefix)")
    source = path.read_text().split("\n", 1)[1]
    path.write_text(f"#!{environment}/bin/python\n{source}")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    result = await allowed("cmd: mine", root).run("x")
    assert (result.status, result.output) == ("finished", str(environment))


@pytest.mark.parametrize(
    "line",
    [
        f"Tokens: {'9' * 400} sent, 1 received.",
        f"Tokens: {'9' * 300}M sent, 1 received.",
        f"Tokens: 1 sent, 1 received. Cost: ${'9' * 400} message",
    ],
)
def test_numbers_without_an_end_count_nothing(line: str) -> None:
    transcript = CodingTranscript(read=PRESETS["aider"].read)
    transcript.feed(f"{line}\n")
    assert transcript.usage is not None
    assert transcript.usage.input_tokens < 1e12
    assert transcript.usage.usd is None or transcript.usage.usd < 1e12


def test_a_price_that_is_not_told_is_unknown_and_prices_add_up() -> None:
    """Mutants: it is zero; the last one replaces those before it."""
    transcript = CodingTranscript(read=PRESETS["claude"].read)
    transcript.feed(
        '{"type": "result", "total_cost_usd": 5}\n{"type": "result", "total_cost_usd": 1}\n'
    )
    assert transcript.usage == Usage(usd=6.0)
    transcript.feed('{"type": "result"}\n')
    assert transcript.usage == Usage(usd=None)


@given(st.lists(st.one_of(st.text(), st.binary().map(lambda b: b.decode("latin-1")))))
def test_no_output_stops_the_reader(lines: list[str]) -> None:
    for preset in PRESETS.values():
        transcript = CodingTranscript(read=preset.read)
        transcript.feed("\n".join(lines))
        transcript.end()


KEYS = [
    *("message", "item", "part", "usage", "stats", "error", "input", "state", "tokens"),
    *("content", "text", "result"),
]
KINDS = [
    *("assistant", "result", "item.completed", "turn.completed", "turn.failed", "error"),
    *("message", "tool_use", "text", "step_finish"),
]
VALUES: list[Any] = [None, -1, 1e300, float("nan"), True, "x", [], {}, [{}], {"type": 3}]


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "aider"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_odd_values_in_events_are_left_out(name: str, value: Any) -> None:
    """Values of a wrong type are ignored. A count is never below 0."""
    transcript = CodingTranscript(read=PRESETS[name].read)
    keys = [
        "message",
        "item",
        "part",
        "usage",
        "stats",
        "error",
        "input",
        "state",
        "tokens",
        "content",
        "text",
        "result",
    ]
    kinds = [
        "assistant",
        "result",
        "item.completed",
        "turn.completed",
        "turn.failed",
        "error",
        "message",
        "tool_use",
    ]
    for kind in (*kinds, "text", "step_finish"):
        for key in keys:
            event = {"type": kind, "role": "assistant", "is_error": False, key: value}
            transcript.feed(json.dumps(event) + "\n")
            nested = {"type": kind, key: dict.fromkeys(KEYS, value)}
            transcript.feed(json.dumps(nested) + "\n")
    usage = transcript.usage or Usage()
    assert min(usage.input_tokens, usage.output_tokens, usage.cached_tokens) >= 0
    assert usage.usd is None or 0 <= usage.usd < 1e12


async def test_a_run_of_a_coding_agent_replays_without_the_program(
    root: Path, programs: Path
) -> None:
    log = MemoryLog()
    one = allowed("claude", root).replace(log=log)
    result = await one.run("x")
    (root / "seen.json").unlink()
    await one.replay(result.run_id)
    assert not (root / "seen.json").exists()

"""Programs that stand in for coding agents: their options, their output, and a task that they do.

Each refuses options that the real program does not have, reads its prompt where the real one does,
changes `-` to `+` in `calc.py`, and prints what the real one prints: the lines were seen from
Claude Code 2.1.197, Codex 0.171.0, Gemini CLI 0.61.0, OpenCode 1.18.33 and Aider 0.86.2, which
were driven by a provider of ours.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

SAID: Final = "I replaced the minus by a plus."
COMMAND: Final = "sed -i s/-/+/ calc.py"

_HEAD: Final = '''#!{python}
import json, os, sys
from pathlib import Path

def options(known, argv):
    """Parse the options: `known` maps each to the number of its values."""
    found, rest = {{}}, []
    while argv:
        word = argv.pop(0)
        if word.startswith("-") and word != "-":
            if word not in known:
                sys.exit(f"error: unknown option '{{word}}'")
            found[word] = [argv.pop(0) for _ in range(known[word])]
        else:
            rest.append(word)
    return found, rest

def work(prompt):
    """Do the task, and write down what was seen."""
    path = Path("calc.py")
    if path.exists():
        path.write_text(path.read_text().replace("a - b", "a + b"))
    home = Path.home()
    files = sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file())
    seen = {{"argv": sys.argv[1:], "prompt": prompt, "environment": dict(os.environ)}}
    Path("seen.json").write_text(json.dumps({{**seen, "files": files}}))

def say(*events):
    for event in events:
        print(event if isinstance(event, str) else json.dumps(event), flush=True)
{more}
'''

_CLAUDE: Final = """
found, rest = options({"-p": 0, "--output-format": 1, "--verbose": 0, "--model": 1,
    "--dangerously-skip-permissions": 0, "--permission-mode": 1}, sys.argv[1:])
if found["--output-format"] == ["stream-json"] and "--verbose" not in found:
    sys.exit("Error: When using --print, --output-format=stream-json requires --verbose")
if "--dangerously-skip-permissions" in found and os.environ.get("IS_SANDBOX") != "1":
    sys.exit("--dangerously-skip-permissions cannot be used with root/sudo privileges")
work(sys.stdin.read())
say({"type": "system", "subtype": "init", "tools": ["Bash", "Edit"], "model": "claude-opus-4-8"},
    {"type": "assistant", "message": {"role": "assistant", "content": [
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": COMMAND}}]}},
    {"type": "user", "message": {"role": "user", "content": [
        {"tool_use_id": "t1", "type": "tool_result", "content": "(no output)"}]}},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": SAID}]}},
    {"type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "result": SAID,
     "total_cost_usd": 0.003, "usage": {"input_tokens": 200, "cache_creation_input_tokens": 30,
        "cache_read_input_tokens": 20, "output_tokens": 40, "service_tier": "standard"}})
"""
_CODEX: Final = """
found, rest = options({"--json": 0, "--skip-git-repo-check": 0, "--model": 1, "--sandbox": 1,
    "--dangerously-bypass-approvals-and-sandbox": 0}, sys.argv[1:])
assert rest == ["exec"], rest
work(sys.stdin.read())
say("WARNING: proceeding, even though we could not create PATH aliases",
    {"type": "thread.started", "thread_id": "01a2"}, {"type": "turn.started"},
    {"type": "item.started", "item": {"id": "i0", "type": "command_execution",
        "command": COMMAND, "status": "in_progress"}},
    {"type": "item.completed", "item": {"id": "i0", "type": "command_execution",
        "command": COMMAND, "aggregated_output": "", "exit_code": 0, "status": "completed"}},
    {"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": SAID}},
    {"type": "turn.completed", "usage": {"input_tokens": 250, "cached_input_tokens": 20,
        "cache_write_input_tokens": 0, "output_tokens": 40, "reasoning_output_tokens": 5}})
"""
_GEMINI: Final = """
found, rest = options({"--output-format": 1, "--skip-trust": 0, "--approval-mode": 1,
    "--model": 1}, sys.argv[1:])
work(sys.stdin.read())
say("YOLO mode is enabled. All tool calls will be automatically approved.",
    {"type": "init", "session_id": "a719", "model": "auto"},
    {"type": "message", "role": "user", "content": "the prompt"},
    {"type": "message", "role": "assistant", "content": "I look first.", "delta": True},
    {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "r1",
     "parameters": {"command": COMMAND}},
    {"type": "tool_result", "tool_id": "r1", "status": "success", "output": ""},
    {"type": "message", "role": "assistant", "content": SAID[:9], "delta": True},
    {"type": "message", "role": "assistant", "content": SAID[9:], "delta": True},
    {"type": "result", "status": "success", "stats": {"total_tokens": 290, "input_tokens": 250,
        "output_tokens": 40, "cached": 20, "tool_calls": 1}})
"""
_OPENCODE: Final = """
found, rest = options({"--format": 1, "--auto": 0, "--model": 1}, sys.argv[1:])
assert rest == ["run"], rest
work(sys.stdin.read())
step = {"type": "step-finish", "cost": 0.0015, "tokens": {"total": 145, "input": 100, "output": 18,
    "reasoning": 2, "cache": {"write": 15, "read": 10}}}
say({"type": "step_start", "part": {"type": "step-start"}},
    {"type": "tool_use", "part": {"type": "tool", "tool": "bash", "state": {"status": "completed",
        "input": {"command": COMMAND}, "output": "(no output)"}}},
    {"type": "step_finish", "part": step},
    {"type": "text", "part": {"type": "text", "text": SAID}},
    {"type": "step_finish", "part": step})
"""
_AIDER: Final = """
flags = ("--yes-always --no-auto-commits --no-dirty-commits --no-stream --no-pretty "
    "--no-check-update --no-show-release-notes --no-gitignore --no-suggest-shell-commands "
    "--no-detect-urls --no-show-model-warnings --no-fancy-input").split()
values = ("--message-file", "--input-history-file", "--chat-history-file", "--model")
found, rest = options({**dict.fromkeys(flags, 0), **dict.fromkeys(values, 1)}, sys.argv[1:])
assert not sys.stdin.read()
# Contained, the repository's own settings are read-only.
if "TAOFOLD_STARTED_BY" not in os.environ and not (Path.home() / ".gitconfig").exists():
    sys.exit("PermissionError: [Errno 13] Permission denied: '.git/config'")
work(Path(found["--message-file"][0]).read_text())
Path(".aider.tags.cache.v4").mkdir(exist_ok=True)
Path(".aider.tags.cache.v4/cache.db").write_text("x")
say("Aider v0.86.2", "Main model: openai/gpt-5 with diff edit format",
    "Repo-map: using 4096 tokens, auto refresh", "", SAID, "",
    "Tokens: 1.2k sent, 40 received. Cost: $0.0032 message, $0.0032 session.",
    "Applied edit to calc.py")
"""
SOURCES: Final[Mapping[str, str]] = {
    "claude": _CLAUDE,
    "codex": _CODEX,
    "gemini": _GEMINI,
    "opencode": _OPENCODE,
    "aider": _AIDER,
}


def installed(folder: Path, name: str, source: str) -> Path:
    """A program of that name in the folder."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    constants = f"SAID = {SAID!r}\nCOMMAND = {COMMAND!r}\n"
    path.write_text(_HEAD.format(python=sys.executable, more=constants) + source)
    path.chmod(0o755)
    return path


def seen(root: Path) -> dict[str, Any]:
    """Returns the values that the program recorded when it ran."""
    found: dict[str, Any] = json.loads((root / "seen.json").read_text())
    return found

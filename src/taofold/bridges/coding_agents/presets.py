"""The known coding agents: their non-interactive commands and output formats.

A `CodingPreset` holds a program's options with and without a sandbox, and the variables and files
of its sign-in. `CodingTranscript` reads the output line by line and collects the answer, the
actions and the usage. Unknown lines are skipped, and no line raises an error. Pure.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from taofold.core.json_values import decoded, is_array, is_object
from taofold.core.reply import Usage
from taofold.core.text import clip

PROMPT: Final = "{prompt}"
"""Stands for the prompt, as one argument."""
PROMPT_FILE: Final = "{prompt_file}"
"""Stands for the path of a file that holds the prompt."""
_MOST_ACTIONS: Final = 60
_ACTION: Final = 200
_ANSWER: Final = 8000
_LINE: Final = 1_000_000
"""Maximum characters of a line. Longer lines hold file contents and are skipped."""


@dataclass
class CodingTranscript:
    """The answer, the actions and the usage in a coding agent's output, as far as it was read."""

    on_text: Callable[[str], object] = lambda text: None
    """Receives messages and actions as they arrive, for display."""
    read: "Reading | None" = None
    """Reads a line of its output; None: all of the output is the answer."""
    answer: str = ""
    """Its last message."""
    actions: list[str] = field(default_factory=list[str])
    """Commands and changed files that the program reports."""
    usage: Usage | None = None
    """Tokens and US dollars that the program reports; None if it reports none."""
    fault: str = ""
    """Reason of a failure that the program reports."""
    _rest: str = ""

    def feed(self, text: str) -> None:
        """Reads a part of the output."""
        *lines, rest = (self._rest + text).split("\n")
        # One character more than `_LINE` marks the line as too long.
        self._rest = rest[: _LINE + 1]
        for line in lines:
            self._line(line)

    def end(self) -> None:
        """Reads the text after the last line break."""
        self._line(self._rest)
        self._rest = ""
        self.answer = self.answer.strip()[-_ANSWER:]

    def note(self, text: str) -> None:
        """Records a message of the agent. The last message is the answer."""
        if text.strip():
            self.answer = text
            self.on_text(f"{text.strip()}\n")

    def act(self, name: str, what: str) -> None:
        """Records an action: the tool's name and its subject."""
        if name and len(self.actions) < _MOST_ACTIONS:
            self.actions.append(clip(f"{name}: {what}" if what else name, _ACTION))
            self.on_text(f"{self.actions[-1]}\n")

    def use(self, usage: Usage) -> None:
        """Adds to the usage."""
        self.usage = usage if self.usage is None else self.usage + usage

    def _line(self, line: str) -> None:
        if len(line) > _LINE:
            return
        if self.read is None:
            _as_answer(line, self)
        else:
            self.read(line, self)


def _as_answer(line: str, transcript: CodingTranscript) -> None:
    transcript.answer = f"{transcript.answer}{line}\n"[-_ANSWER:]
    transcript.on_text(f"{line}\n")


Reading: TypeAlias = Callable[[str, CodingTranscript], None]
"""Reads one line into the transcript."""


def _events(read: Callable[[Mapping[str, Any], CodingTranscript], None]) -> Reading:
    """Returns a reader of lines that are JSON events; it skips other lines."""

    def reading(line: str, transcript: CodingTranscript) -> None:
        if not line.startswith("{"):
            return
        try:
            event = decoded(line)
        except (ValueError, RecursionError):
            return
        if is_object(event):
            read(event, transcript)

    return reading


@dataclass(frozen=True, slots=True)
class CodingPreset:
    """The non-interactive command of a coding agent and its output format."""

    program: str
    arguments: tuple[str, ...]
    """Arguments after the program. Without `{prompt}` or `{prompt_file}` the program reads the
    prompt from standard input."""
    contained: tuple[str, ...] = ()
    """More arguments in a sandbox: the program asks for no permission."""
    careful: tuple[str, ...] = ()
    """More arguments without a sandbox: the program applies its own rules."""
    variables: tuple[str, ...] = ()
    """Environment variables with its credentials and its provider's address."""
    signed_in: tuple[str, ...] = ()
    """Files in the home directory that hold its sign-in. The program may renew them."""
    settings: tuple[str, ...] = ()
    """Files in the home directory with its settings, such as model and provider."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Contents of files that it needs in its home if the user has no such file."""
    litter: tuple[str, ...] = ()
    """Globs of files that it leaves in the work root for itself."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables that are set in a sandbox."""
    read: Reading | None = None
    """Reads a line of its output; None: all of the output is the answer."""
    tells_usd: bool = False
    """True if the output contains the cost in US dollars."""


def _text(value: Any, *path: str) -> str:
    for key in path:
        value = value.get(key) if is_object(value) else None
    return value if isinstance(value, str) else ""


def _number(value: Any, *path: str) -> float:
    for key in path:
        value = value.get(key) if is_object(value) else None
    return _bounded(value)


def _bounded(value: Any) -> float:
    # Booleans are integers in Python. A negative number or NaN would lift a limit.
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if real and 0 <= value < 1e12 else 0.0


def _count(value: Any, *path: str) -> int:
    return int(_number(value, *path))


def _items(value: Any, key: str) -> list[Any]:
    found = value.get(key) if is_object(value) else None
    return found if is_array(found) else []


_SUBJECTS: Final = ("command", "file_path", "filePath", "path", "pattern", "url", "query")


def _subject(parameters: Any) -> str:
    """Returns the subject of a tool call: the command or the file."""
    return next((text for key in _SUBJECTS if (text := _text(parameters, key))), "")


def _claude(event: Mapping[str, Any], transcript: CodingTranscript) -> None:
    match event.get("type"):
        case "assistant":
            for block in _items(event.get("message"), "content"):
                transcript.note(_text(block, "text"))
                if _text(block, "type") == "tool_use":
                    transcript.act(_text(block, "name"), _subject(block.get("input")))
        case "result":
            transcript.answer = _text(event, "result") or transcript.answer
            if event.get("is_error") is True:
                transcript.fault = _text(event, "result") or _text(event, "subtype") or "it failed"
            used = event.get("usage")
            read = _count(used, "cache_read_input_tokens")
            written = _count(used, "cache_creation_input_tokens")
            transcript.use(
                Usage(
                    _count(used, "input_tokens") + read + written,
                    _count(used, "output_tokens"),
                    read,
                    _number(event, "total_cost_usd") if "total_cost_usd" in event else None,
                    written,
                )
            )
        case _:
            pass


def _codex(event: Mapping[str, Any], transcript: CodingTranscript) -> None:
    item = event.get("item")
    match event.get("type"), _text(item, "type"):
        case "item.completed", "agent_message":
            transcript.note(_text(item, "text"))
        case "item.completed", "command_execution":
            transcript.act("command", _text(item, "command"))
        case "item.completed", "file_change":
            for change in _items(item, "changes"):
                transcript.act(_text(change, "kind") or "edit", _text(change, "path"))
        case "item.completed", "mcp_tool_call":
            transcript.act(_text(item, "tool"), "")
        case "turn.completed", _:
            used = event.get("usage")
            transcript.use(
                Usage(
                    _count(used, "input_tokens"),
                    _count(used, "output_tokens"),
                    _count(used, "cached_input_tokens"),
                    None,
                    _count(used, "cache_write_input_tokens"),
                    _count(used, "reasoning_output_tokens"),
                )
            )
        case "turn.failed", _:
            transcript.fault = _text(event, "error", "message") or "its turn failed"
        case "error", _:
            transcript.fault = _text(event, "message") or "it failed"
        case _:
            pass


def _gemini(event: Mapping[str, Any], transcript: CodingTranscript) -> None:
    match event.get("type"):
        case "message" if event.get("role") == "assistant":
            text = _text(event, "content")
            transcript.answer = transcript.answer + text if event.get("delta") is True else text
            transcript.on_text(text)
        case "tool_use":
            transcript.answer = ""
            transcript.act(_text(event, "tool_name"), _subject(event.get("parameters")))
        case "result":
            if event.get("status") == "error":
                transcript.fault = _text(event, "error", "message") or "it failed"
            used = event.get("stats")
            transcript.usage = Usage(
                _count(used, "input_tokens"),
                _count(used, "output_tokens"),
                _count(used, "cached"),
                None,
            )
        case _:
            pass


def _opencode(event: Mapping[str, Any], transcript: CodingTranscript) -> None:
    part = event.get("part")
    match event.get("type"):
        case "text":
            transcript.note(_text(part, "text"))
        case "tool_use":
            state = part.get("state") if is_object(part) else None
            subject = state.get("input") if is_object(state) else None
            transcript.act(_text(part, "tool"), _subject(subject))
        case "step_finish":
            read, written = (_count(part, "tokens", "cache", key) for key in ("read", "write"))
            reasoning = _count(part, "tokens", "reasoning")
            transcript.use(
                Usage(
                    _count(part, "tokens", "input") + read + written,
                    _count(part, "tokens", "output") + reasoning,
                    read,
                    _number(part, "cost"),
                    written,
                    reasoning,
                )
            )
        case "error":
            error = event.get("error")
            transcript.fault = (
                _text(error, "data", "message") or _text(error, "name") or "it failed"
            )
        case _:
            pass


_TOKENS: Final = re.compile(
    r"Tokens: ([\d.]+)(k|M)? sent,.{0,80}? ([\d.]+)(k|M)? received\."
    r"(?: Cost: \$([\d.]+) message)?"
)
_EDITED: Final = re.compile(r"Applied edit to (.{1,300})")
_MANY: Final = {"": 1, "k": 1e3, "M": 1e6}


def _aider(line: str, transcript: CodingTranscript) -> None:
    edited, tokens = _EDITED.match(line), _TOKENS.match(line)
    if line.startswith("Repo-map:"):
        transcript.answer = ""  # text before this line describes the program
    elif not edited and not tokens:
        _as_answer(line, transcript)
    if edited:
        transcript.act("edit", edited[1].strip())
    if tokens:
        sent, received = (int(_parsed(tokens[at], _MANY[tokens[at + 1] or ""])) for at in (1, 3))
        usd = _parsed(tokens[5]) if tokens[5] else None
        transcript.use(Usage(sent, received, 0, usd))


def _parsed(digits: str, unit: float = 1) -> float:
    try:
        return _bounded(float(digits) * unit)
    except ValueError:
        return 0.0


PROXIES: Final = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
)
"""Environment variables that configure access to the network."""

PRESETS: Final[Mapping[str, CodingPreset]] = {
    "claude": CodingPreset(
        "claude",
        ("-p", "--output-format", "stream-json", "--verbose"),
        ("--dangerously-skip-permissions",),
        ("--permission-mode", "acceptEdits"),
        (
            *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            *("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"),
        ),
        (".claude/.credentials.json",),
        (".claude/settings.json", ".claude/CLAUDE.md"),
        # As root the program asks for permission unless this variable declares a sandbox.
        environment={"IS_SANDBOX": "1", "DISABLE_AUTOUPDATER": "1"},
        read=_events(_claude),
        tells_usd=True,
    ),
    "codex": CodingPreset(
        "codex",
        ("exec", "--json", "--skip-git-repo-check"),
        ("--dangerously-bypass-approvals-and-sandbox",),
        ("--sandbox", "workspace-write"),
        ("CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        (".codex/auth.json",),
        (".codex/config.toml", ".codex/AGENTS.md"),
        read=_events(_codex),
    ),
    "gemini": CodingPreset(
        "gemini",
        ("--output-format", "stream-json", "--skip-trust"),
        ("--approval-mode", "yolo"),
        ("--approval-mode", "auto_edit"),
        (
            *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
            *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
        ),
        (".gemini/oauth_creds.json",),
        (".gemini/settings.json", ".gemini/google_accounts.json", ".gemini/GEMINI.md"),
        read=_events(_gemini),
    ),
    "opencode": CodingPreset(
        "opencode",
        ("run", "--format", "json"),
        ("--auto",),
        (),
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
        (".local/share/opencode/auth.json",),
        (".config/opencode/opencode.json", ".config/opencode/AGENTS.md"),
        read=_events(_opencode),
        tells_usd=True,
    ),
    "aider": CodingPreset(
        "aider",
        (
            *("--message-file", PROMPT_FILE, "--yes-always", "--no-auto-commits"),
            *("--no-dirty-commits", "--no-stream", "--no-pretty", "--no-check-update"),
            *("--no-show-release-notes", "--no-gitignore", "--no-suggest-shell-commands"),
            *("--no-detect-urls", "--no-show-model-warnings", "--no-fancy-input"),
            *("--input-history-file", "/dev/null", "--chat-history-file", "/dev/null"),
        ),
        variables=(
            *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_API_BASE", "GEMINI_API_KEY"),
            *("OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "AIDER_MODEL"),
        ),
        settings=(".aider.conf.yml", ".aider.model.settings.yml", ".gitconfig"),
        # Without a name aider writes one into the repository's settings, which are read-only.
        files={".gitconfig": "[user]\n\tname = aider\n\temail = aider@localhost\n"},
        litter=(".aider.tags.cache.v*",),
        read=_aider,
        tells_usd=True,
    ),
}

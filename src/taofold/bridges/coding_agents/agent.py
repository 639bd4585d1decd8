"""`coding_agent`: makes an agent that runs the program of a coding agent.

A run has one step. The tool `coding_agent` runs the program in the work root with the whole task as
its prompt; the program's last message is the answer. Policy, approvals, limits, the log and replay
apply as to any other run. The program's usage is charged to the run when the program ends, also if
it failed or was cut off.

If bubblewrap works, the program runs in a sandbox with a separate network. It sees the work root,
its own files, and copies of its sign-in files in a private home; a renewed sign-in is copied back.
In the sandbox it works without approvals. Without a sandbox it has all rights of the user, so each
run needs approval (tier 3) and the program applies its own rules.
"""

import os
import re
import shlex
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec

from taofold.agent import Agent
from taofold.bridges.coding_agents.presets import (
    PRESETS,
    PROMPT,
    PROMPT_FILE,
    PROXIES,
    CodingPreset,
    CodingTranscript,
)
from taofold.core.content import Message, ToolCall
from taofold.core.errors import ConfigError, ModelError
from taofold.core.json_values import decoded, is_array, is_object
from taofold.core.reply import Usage
from taofold.core.values import Profile, Reply, Tier, Value
from taofold.policy import Limits, Policy
from taofold.reasoning.task import NATIVE
from taofold.reserved_places import MARK, make_folder, read_file, write_file
from taofold.runtime.metering import tokens_in
from taofold.runtime.model import OnText, Request
from taofold.tools import process
from taofold.tools.command import LEFT_RUNNING, inherited_environment
from taofold.tools.container_network import Reach
from taofold.tools.containment import (
    HOME,
    Containment,
    check_ports,
    environment_homes,
    installed_outside,
    program_homes,
    python_homes,
    why_not,
)
from taofold.tools.context import Outcome, RunContext, ToolCharge
from taofold.tools.jail import HIDDEN, PROTECTED
from taofold.tools.process import OutputExcerpt, key_line, shebang
from taofold.tools.temporary_folders import remove_tree, scratch
from taofold.tools.tool import Tool, make
from taofold.trusted_code import program

NAME: Final = "coding_agent"
"""The name of the tool."""
COMMAND: Final = "cmd:"
"""Prefix of an agent that is a command."""
REACH: Final = Reach(world=True)
"""A coding agent needs the network to reach its provider."""
LONGEST: Final = 24 * 3600.0
"""Maximum seconds of a program. Runs and loops have their own, lower limits."""
_VARIABLE: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_LARGEST: Final = 65_536
"""Maximum bytes of a sign-in file."""
_OUTPUT: Final = 3000


class ProgramReport(Value, frozen=True):
    """The result of one run of the program, and the value of the tool's observation."""

    answer: str = ""
    actions: tuple[str, ...] = ()
    exit: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()
    fault: str = ""
    output: str = ""
    """The end of the output if the program failed."""


def names_coding_agent(agent: str) -> bool:
    """Returns whether `agent` is a preset's name or `cmd: COMMAND`, not a file or a module."""
    if agent.startswith(COMMAND):
        return True
    words = agent.split()
    names = [word for word in words if not _VARIABLE.fullmatch(word)]
    return bool(names) and names[0] in PRESETS


def coding_agent(
    agent: str,
    root: Path | str,
    *,
    model: str = "",
    policy: Policy | None = None,
    ports: Iterable[int] = (),
) -> Agent[None, str]:
    """Makes an agent whose runs execute a coding agent's program.

        agent = coding_agent("claude", ".")
        coding_agent("codex --model gpt-6.2-sol", ".")
        coding_agent("cmd: my-agent --task {prompt_file}", ".")

    Args:
        agent: `claude`, `codex`, `gemini`, `opencode` or `aider`, optionally with arguments; or
            `cmd:` and a command. `{prompt}` in it is replaced by the prompt, `{prompt_file}` by the
            path of a file with the prompt. Without either, the prompt is sent to standard input.
            `NAME=$NAME` before the program passes an environment variable on.
        root: The work root.
        model: Value of a preset's `--model`; "" = the program's default.
        policy: Default: the default policy.
        ports: TCP ports of this machine that the program may use in the sandbox.

    Raises:
        ConfigError: The command is malformed, the program is not installed, a named variable is not
            set, or a port cannot be opened.
    """
    call = _call(agent, model)
    tool = _tool(call, Path(root).resolve(), replace(REACH, ports=tuple(ports)))
    return Agent(
        _Driving(call.title, priced=call.preset.tells_usd),
        name=call.title,
        instructions="",
        tools=(tool,),
        # One step runs the program. More steps would only repeat it.
        limits=Limits(steps=3),
        policy=policy or Policy(),
    )


@dataclass(frozen=True)
class _Call:
    """A program, ready to be run."""

    preset: CodingPreset
    title: str
    more: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


def _call(agent: str, model: str) -> _Call:
    text = agent.removeprefix(COMMAND)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the command {text!r} cannot be read: {error}") from error
    variables: dict[str, str] = {}
    while words and (found := _VARIABLE.fullmatch(words[0])):
        variables[found[1]] = _value(found[1], found[2])
        words = words[1:]
    if not words:
        raise ConfigError(f"{agent!r} names no program")
    name, *more = words
    if agent.startswith(COMMAND):
        if model:
            raise ConfigError("--model goes into the command itself: cmd: PROGRAM --model NAME")
        return _Call(CodingPreset(name, ()), Path(name).name, tuple(more), variables)
    preset = PRESETS[name]
    more += ["--model", model] if model else []
    given = {key: os.environ[key] for key in preset.variables if key in os.environ}
    return _Call(preset, name, tuple(more), given | variables)


def _value(name: str, text: str) -> str:
    if not text.startswith("$"):
        return text
    variable = text[1:].strip("{}")
    if variable not in os.environ:
        raise ConfigError(f"{name}: the environment has no variable {variable!r}")
    return os.environ[variable]


def _tool(call: _Call, root: Path, reach: Reach) -> Tool[..., Any]:
    path = _program(call.preset.program, root)
    boxed = not why_not()
    check_ports(reach)
    free = boxed and not Containment(root, reach).shares
    work = _Work(call, root, path, reach, boxed, free)
    label = f"contained, with {reach.label}" if free else "not contained"
    return make(
        work.coding_agent,
        tier=Tier.CARD if free else Tier.CONFIRM,
        # A second run continues from the files that the first run left.
        effect="idempotent",
        timeout=LONGEST,
        longest=LONGEST,
        sequential=True,
        toolset="coding_agent",
        preview=lambda _: f"run {shlex.join(work.command('PROMPT'))} ({label})",
    )


def _program(name: str, root: Path) -> str:
    if "/" in name:
        path = root / name
        if not os.access(path, os.X_OK):
            raise ConfigError(f"{name!r} is no program that can be run in {str(root)!r}")
        return str(path)
    # Programs in the work root are skipped: an agent could have written them.
    path_found = program(name, root)
    if not path_found:
        raise ConfigError(f"the program {name!r} is not installed: there is none on your PATH")
    return path_found


def _own(path: Path, root: Path) -> set[Path]:
    """Returns the paths that the program needs: its environment, its packages, or only its file.

    The folder of a program outside an installation, such as Downloads, may hold unrelated files, so
    only the file is returned. A script's interpreter is treated like a program, unless it lies in
    the work root.
    """
    shown: set[Path] = set()
    interpreter = Path(shebang(path)[0])
    outside = interpreter.is_absolute() and not interpreter.is_relative_to(root)
    # Linux does not accept a script as the interpreter of a script.
    if outside and not shebang(interpreter)[0]:
        shown = _own(interpreter, root)
    for file in (path, path.resolve()):
        home = file.parent.parent
        if (home / "pyvenv.cfg").is_file():
            shown |= environment_homes(home)
        elif "node_modules" in file.parts or (
            file.parent.name == "bin" and (home / "lib").is_dir()
        ):
            shown |= program_homes(file)
        elif not file.is_relative_to("/usr"):
            shown.add(file)
    return shown


@dataclass(frozen=True)
class _Work:
    call: _Call
    root: Path
    path: str
    reach: Reach
    boxed: bool
    """True if bubblewrap contains the program."""
    free: bool
    """True if it also has a separate network, so that it can work without approvals."""

    @property
    def box(self) -> Containment | None:
        """The program's sandbox for the current work root, or None."""
        if not self.boxed:
            return None
        homes = [*python_homes(), *sorted(_own(Path(self.path), self.root))]
        readable = [home for home in homes if not self.root.is_relative_to(home)]
        readable += installed_outside(self.root)
        return Containment(self.root, self.reach, tuple(readable), PROTECTED, HIDDEN)

    def command(self, prompt: str, file: str = "FILE") -> list[str]:
        """Returns the program and its arguments."""
        preset = self.call.preset
        words = (*preset.arguments, *(preset.contained if self.free else preset.careful))
        filled = [
            word.replace(PROMPT_FILE, file) if PROMPT_FILE in word else word.replace(PROMPT, prompt)
            for word in (*words, *self.call.more)
        ]
        return [self.path, *filled]

    @property
    def _reads_input(self) -> bool:
        words = (*self.call.preset.arguments, *self.call.more)
        return not any(mark in word for word in words for mark in (PROMPT, PROMPT_FILE))

    async def coding_agent(self, ctx: RunContext[Any], prompt: str) -> Outcome:
        """Let the coding agent work on the files of the work root.

        Args:
            prompt: The whole task.
        """
        output = OutputExcerpt()
        transcript = CodingTranscript(ctx.report, self.call.preset.read)
        decoder = getincrementaldecoder("utf-8")("replace")
        left: list[str] = []
        before = self._litter()
        started = monotonic()

        received = 0

        def hear(chunk: bytes) -> None:
            nonlocal received
            received += len(chunk)
            output.feed(chunk)
            transcript.feed(decoder.decode(chunk))

        try:
            async with self._place(prompt) as (command, environment, folder, inherited, given):
                code = await process.run(
                    command,
                    folder=folder,
                    environment=environment,
                    heard=hear,
                    inherited=inherited,
                    left_running=lambda: left.append(LEFT_RUNNING),
                    given=given,
                )
        except OSError as error:
            reason = f"{self.call.title!r} cannot be started: {error.strerror or error}"
            return Outcome(_plain(ProgramReport(fault=reason)), "failure", reason)
        except process.Flood as error:
            return Outcome(_plain(ProgramReport(fault=str(error))), "failure", str(error))
        finally:
            transcript.end()
            # Also of a program that was cut off: its calls are paid for.
            if received and ctx.charge is not None:
                _charge(ctx.charge, transcript, prompt, received)
            for path in self._litter() - before:
                remove_tree(path)
        failed = bool(code or transcript.fault)
        fault = transcript.fault
        if code and not fault:
            fault = f"it ended with exit code {code}: {key_line(output.text, failed=True)}"
        report = ProgramReport(
            transcript.answer,
            (*transcript.actions, *left),
            code,
            round(monotonic() - started, 1),
            transcript.usage or Usage(usd=None),
            fault,
            output.text[-_OUTPUT:] if failed else "",
        )
        told = fault or transcript.answer or f"{self.call.title} ended without a message"
        return Outcome(_plain(report), "failure" if failed else "success", told)

    def _litter(self) -> set[Path]:
        return {path for glob in self.call.preset.litter for path in self.root.glob(glob)}

    @asynccontextmanager
    async def _place(
        self, prompt: str
    ) -> AsyncGenerator[tuple[list[str], dict[str, str], Path, tuple[int, ...], bytes]]:
        """Yields the command, environment, folder, descriptors and standard input of the
        program.
        """
        given = prompt.encode() if self._reads_input else b""
        with scratch("agent") as home:
            file = home / "prompt.md"
            write_file(file, prompt.encode(), place=home)
            box = self.box
            if box is None:
                environment = {**os.environ, **self.call.variables, MARK: NAME}
                yield self.command(prompt, str(file)), environment, self.root, (), given
                return
            private = {key: os.environ[key] for key in PROXIES if key in os.environ}
            environment = inherited_environment(
                {
                    **private,
                    **self.call.preset.environment,
                    **self.call.variables,
                    "HOME": HOME,
                    "TMPDIR": "/tmp",
                }
            )
            command = self.command(prompt, f"{HOME}/{file.name}")
            with _signed_in(self.call.preset, home):
                also = ["--bind", str(home), HOME]
                async with box.around(command, self.root, also) as (wrapped, inherited):
                    yield wrapped, environment, self.root, inherited, given


@contextmanager
def _signed_in(preset: CodingPreset, home: Path) -> Generator[None]:
    """Copies the program's sign-in and settings to `home`, and a renewed sign-in back."""
    copied: dict[str, bytes] = {}
    for name, text in preset.files.items():
        write_file(home / name, text.encode(), place=home)
    for name in (*preset.signed_in, *preset.settings):
        with suppress(OSError, ConfigError):
            content = read_file(Path.home() / name, trust="repository")
            if len(content) <= _LARGEST:
                copied[name] = content
                make_folder((home / name).parent, place=home)
                write_file(home / name, content, place=home)
    try:
        yield
    finally:
        for name in set(preset.signed_in) & set(copied):
            # The program controls the size and depth of the file.
            with suppress(OSError, ConfigError, RecursionError):
                if (home / name).lstat().st_size <= _LARGEST:
                    _keep(Path.home() / name, copied[name], read_file(home / name, place=home))


def _keep(path: Path, before: bytes, after: bytes) -> None:
    """Replaces a sign-in by the renewed one.

    The program may have been manipulated by a prompt. So the new file must have the same structure
    as the old one, and the user's file must not have changed.
    """
    same = _shape(after) == _shape(before)
    if before != after and same and read_file(path) == before:
        write_file(path, after)


def _shape(content: bytes) -> Any:
    """Returns the structure of a JSON file: its keys and kinds of values.

    A file that is no JSON object equals no other one.
    """

    def shape(value: Any) -> Any:
        if is_object(value):
            return {key: shape(inner) for key, inner in value.items()}
        if is_array(value):
            return [shape(inner) for inner in value]
        # Scalars may change type: a value that was null may be set later.
        return "value"

    try:
        value = decoded(content.decode())
    except ValueError:
        return object()
    return shape(value) if is_object(value) else object()


def _charge(charge: ToolCharge, transcript: CodingTranscript, prompt: str, received: int) -> None:
    """Charges what the program reported, else the least it consumed, at an unknown price."""
    usage = transcript.usage
    # A program that failed before its first call of a model reports zeros.
    if usage is not None and (usage.tokens or usage.usd or transcript.fault):
        charge(usage)
        return
    least = Usage(tokens_in(len(prompt.encode())), tokens_in(received), usd=None)
    charge(least, estimated=True)


def _plain(report: ProgramReport) -> Any:
    return msgspec.to_builtins(report)


class _Driving:
    """A model that requests one run of the program, then answers with its last message."""

    consumes: Final = False
    """The tool charges what the program consumes."""

    def __init__(self, title: str, *, priced: bool) -> None:
        self.name = f"cmd:{title}"
        self.profile = Profile(window=1_000_000, window_known=True, native_tools=True)
        self._priced = priced

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Returns the call of the program or, after the call, the answer.

        Raises:
            ModelError: The program failed or was denied.
        """
        conversation = request.conversation[:]
        results = [result for message in conversation for result in message.results]
        if not results:
            arguments = msgspec.json.encode({"prompt": _prompt(conversation)}).decode()
            return Reply("", (ToolCall(NAME, arguments, "call-1"),), model=self.name)
        report = _reported(results[-1].text)
        if report is None or report.fault:
            what = results[-1].text if report is None else f"{report.fault}\n{report.output}"
            raise ModelError(f"{self.name}: {what.strip()}", kind="reply")
        said = report.answer or "(no message)"
        if on_text is not None:
            on_text(said)
        return Reply(said, model=self.name)

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Returns 0.0, or None if the program does not report its cost."""
        return 0.0 if self._priced else None


def _prompt(conversation: Sequence[Message]) -> str:
    """Returns the task, then the instructions without the text about native tool calls."""
    task = [message.text for message in conversation if message.role != "system"]
    rules = [m.text.removesuffix(NATIVE) for m in conversation if m.role == "system"]
    return "\n\n".join([text.strip() for text in (*task, *rules) if text.strip()])


def _reported(text: str) -> ProgramReport | None:
    """Returns the report in an observation, or None if the program was not run."""
    for start in [at.start() for at in re.finditer(r"\{", text)][:3]:
        with suppress(ValueError, RecursionError, msgspec.ValidationError):
            return msgspec.convert(decoded(text[start:]), ProgramReport)
    return None

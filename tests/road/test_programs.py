"""The programs of the README and the tutorial, as a reader follows them."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import taofold.testing
from taofold.runtime.model import Model, OnText, Request
from taofold.runtime.providers import resolve
from tests.road.mind import OPEN, Asked, Said, fitted, reply
from tests.road.providers import Providers
from tests.terminal import PATIENCE
from tests.test_docs import ROOT, blocks

MODELS = {
    "responses": "openai:gpt-5",
    "chat": "openai-chat:gpt-5",
    "messages": "anthropic:claude-sonnet-5",
    "gemini": "gemini:gemini-3.7-flash",
    "ollama": "ollama:qwen3",
}
PAGES = ("README.md", "tutorial.md")
PROGRAMS = [(name, code) for name, code in blocks() if name.startswith(PAGES)]


class Played:
    """Replaces a program's `ScriptedModel` with a provider's model and the same replies."""

    spec = ""
    providers: Providers

    def __init__(self, replies: Sequence[str]) -> None:
        self.script, self.requests = list(replies), list[Request]()
        self._model: Model = resolve(self.spec)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Any:
        line = self.script[len(self.requests)]
        self.requests.append(request)
        self.providers.model = lambda asked: said(line, asked)
        return await self._model.complete(request, on_text)


def said(line: str, asked: Asked) -> Said:
    """Converts a line of a script to the form of a model with native calls."""
    if not line.startswith("{"):
        return Said(line)
    step = json.loads(line)
    tool, parameters = step["action"]["tool"], step["action"]["parameters"]
    if tool in asked.tools:
        return Said(step["thought"], (tool, fitted(parameters, asked.tools[tool])))
    return Said(parameters["answer"]) if asked.tools or asked.schema is None else Said(line)


def counted(asked: Asked) -> Said:
    """Counts words: the model of the README's first program."""
    if not [turn for turn in asked.turns if turn.calls]:
        call = ("word_count", fitted({"path": "notes.txt"}, asked.tools["word_count"]))
        return Said("I have to look.", call)
    return Said("It is three.", ("finish", fitted({"answer": 3}, asked.tools["finish"])))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Selects all pairs with `--road all`, as `make test` does; else the first page."""
    if "code" in metafunc.fixturenames:
        every = metafunc.config.getoption("--road") == "all"
        programs = PROGRAMS if every else PROGRAMS[:1]
        codes = [pytest.param(code, id=name) for name, code in programs]
        metafunc.parametrize("code", codes)
        metafunc.parametrize("provider", MODELS)


def test_a_program_of_the_first_pages_runs_with_each_provider(
    code: str,
    provider: str,
    providers: Providers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("notes.txt").write_text("one two three", encoding="utf-8")
    monkeypatch.setattr(Played, "spec", MODELS[provider])
    monkeypatch.setattr(Played, "providers", providers, raising=False)
    monkeypatch.setattr(taofold.testing, "ScriptedModel", Played)
    monkeypatch.setattr(providers, "model", counted)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code.replace("openai:gpt-5", MODELS[provider]), "<docs>", "exec"), names)
    assert providers.asked
    assert not providers.refused
    if "result" in names:
        assert names["result"].success


def test_a_goal_without_a_value_is_no_goal_of_the_matrix() -> None:
    with pytest.raises(Exception, match="no value is asked for"):
        reply(Asked("Work in steps.", [], {}))
    assert OPEN


def commands(section: str) -> list[list[str]]:
    """The commands that a section of the tutorial has a reader type."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    body = text.partition(f"\n## {section}")[2].partition("\n## ")[0]
    plain = re.findall(r"^```\n(.*?)^```", body, re.DOTALL | re.MULTILINE)
    return [line.split() for line in "".join(plain).splitlines() if line.startswith("taofold ")]


def session() -> list[str]:
    """The blocks of the tutorial's session: the file, then what is typed, in order."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    body = text.partition("\n## 5.")[2]
    return re.findall(r"^```python\n(.*?)^```", body, re.DOTALL | re.MULTILINE)


def test_the_tutorial_ends_as_it_says_when_another_terminal_goes_on(tmp_path: Path) -> None:
    """One process stays open as the first terminal. Each command of section 6 is a process."""
    file, first, in_python, *rest = session()
    assert "decide(" in in_python
    (tmp_path / "billing.py").write_text(file, encoding="utf-8")
    terminal = subprocess.Popen(
        [sys.executable, "-i", "billing.py"], cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert terminal.stdin is not None
    assert terminal.stdout is not None
    try:
        terminal.stdin.write(f"{first}\nprint('it waits')\n")
        terminal.stdin.flush()
        assert terminal.stdout.readline() == "it waits\n"

        typed = commands("6.")
        assert [command[1:3] for command in typed] == [
            ["approvals", "list"], ["approvals", "approve"], ["runs", "resume"],
        ]  # fmt: skip
        for command in typed:
            done = subprocess.run(
                [sys.executable, "-m", "taofold.cli", *command[1:]], cwd=tmp_path, text=True,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
        assert done.stdout == "Ada was billed\n"

        # A block at a prompt ends with an empty line.
        out, err = terminal.communicate("\n\n".join([*rest, "print('the end')\n"]), PATIENCE)
    finally:
        terminal.kill()
    assert "Traceback" not in err, err
    assert out.endswith("the end\n")

"""Docstrings of public names: a summary, every argument, and examples that run.

`help()` in a terminal and docs/reference.md show these docstrings. The page lists the classes, the
functions and the members of classes that are checked here.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import docstring_parser
import pytest

import taofold
from taofold import Agent
from taofold.runtime import providers as registry
from taofold.testing import ScriptedModel, forbid_model_requests
from taofold.tools import toolset

pytestmark = pytest.mark.anyio

PAGE: Final = Path(__file__).parent.parent / "docs" / "reference.md"
PACKAGES: Final = ("taofold.evals", "taofold.parsing", "taofold.reason", "taofold.testing")
"""Packages with public names, besides `taofold`."""
ANSWER: Final = (
    '{"thought": "Three words.", "action": {"tool": "finish", "parameters": {"answer": 3}}}'
)


def listed() -> Iterator[tuple[str, Any]]:
    """Yields the names of the page and the listed members of classes, with their objects."""
    entry = r"^::: ([\w.]+)\n(?:    options:\n      members: (.*)\n)?"
    for name, members in re.findall(entry, PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        package, _, attribute = name.rpartition(".")
        thing = getattr(import_module(package), attribute)
        yield name, thing
        for member in re.findall(r"\w+", members.replace("false", "")):
            # Static: reading a property needs an instance.
            value = inspect.getattr_static(thing, member)
            yield f"{name}.{member}", getattr(value, "__func__", getattr(value, "func", value))


LISTED: Final = dict(listed())
SEED_NAMES: Final = {
    name: getattr(taofold, name.rpartition(".")[2])
    for name in ("taofold.register_custom_action", "taofold.run_agent")
}
"""Public names of a seed document, which the page leaves out."""
NAMES: Final = {**LISTED, **SEED_NAMES}


def doc_of(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def parameters_of(thing: Any) -> list[str]:
    """Returns the parameters that a caller can pass to a function or a constructor."""
    # A subclass with Python's own constructor, such as an enum, has no parameters of its own.
    if isinstance(thing, property) or (inspect.isclass(thing) and issubclass(thing, int)):
        return []
    try:
        signature = inspect.signature(thing)
    except ValueError:  # an exception without its own constructor
        return []
    return [
        each.name
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
        and not each.name.startswith("_")
        # `**fields: Never` accepts nothing.
        and "Never" not in str(each.annotation)
    ]


def documented(thing: Any) -> set[str]:
    """Returns the names under `Args:` and `Attributes:`."""
    doc = docstring_parser.parse(doc_of(thing), docstring_parser.DocstringStyle.GOOGLE)
    return {parameter.arg_name for parameter in doc.params}


def examples_of(thing: Any) -> list[str]:
    """Returns the Python blocks of a docstring."""
    found = re.findall(r"^( *)```python\n(.*?)^\1```", doc_of(thing), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


def test_the_page_lists_every_name_of_the_packages() -> None:
    packages = [import_module(package) for package in ("taofold", *PACKAGES)]
    public = {name: getattr(package, name) for package in packages for name in package.__all__}
    things = list(NAMES.values())
    # A Literal and a Callable, which cannot have a docstring.
    assert [name for name in public if public[name] not in things] == ["Scorer", "Level"]


@pytest.mark.parametrize("name", NAMES)
def test_a_docstring_begins_with_a_summary(name: str) -> None:
    summary, *rest = doc_of(NAMES[name]).split("\n")
    assert summary.endswith(".")
    assert rest[:1] in ([], [""])


@pytest.mark.parametrize("name", NAMES)
def test_args_name_every_parameter(name: str) -> None:
    thing = NAMES[name]
    assert [each for each in parameters_of(thing) if each not in documented(thing)] == []


@pytest.mark.parametrize("name", sorted(taofold.__all__))
def test_a_name_of_the_main_package_has_an_example(name: str) -> None:
    assert examples_of(getattr(taofold, name))


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=f"{name}:{number}")
        for name, thing in NAMES.items()
        for number, code in enumerate(examples_of(thing), 1)
    ],
)
async def test_an_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`openai:` is a scripted model. Examples of methods use `agent`, `result` and `run_id`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("one two three", encoding="utf-8")
    stand_in = {"openai": lambda model, **_: ScriptedModel([ANSWER] * 9)}
    monkeypatch.setattr(registry, "_registered", {**registry._registered, **stand_in})
    # Custom actions are registered for the whole process: other tests must not see them.
    monkeypatch.setattr(toolset, "_ACTIONS", {})
    agent = Agent("openai:gpt-5", log="memory")
    result = await agent.run("How many words does notes.txt have?")
    names = {name: getattr(taofold, name) for name in taofold.__all__}
    names |= {"agent": agent, "result": result, "run_id": result.run_id}
    compiled = compile(code, "<docstring>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with forbid_model_requests():
        awaitable = eval(compiled, {"__name__": "__main__", **names})
        if inspect.isawaitable(awaitable):
            await awaitable


@pytest.mark.parametrize(
    "package", ["taofold", *PACKAGES, "taofold.actions", "taofold.agent", "taofold.tools"]
)
def test_dir_shows_only_public_names(package: str) -> None:
    module = import_module(package)
    shown = {name for name in dir(module) if not name.startswith("__")}
    assert shown - {"reason"} == set(module.__all__)

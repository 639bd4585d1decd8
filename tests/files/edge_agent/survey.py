"""Surveys flows of The Edge Agent: which of them `check` accepts, and why it refuses the others.

`python -m tests.files.edge_agent.survey FOLDER` prints one line for each flow, and how often each
construct and each reason occurs. `--run` also runs the accepted flows with a scripted model.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taofold import Agent, Limits
from taofold.core.json_values import is_array, is_object
from taofold.core.values import Reply
from taofold.files import Config, Fault, FlowFile, build, read_agent
from taofold.files.actions.web import Hit, register_search
from taofold.files.checked_yaml import load
from taofold.runtime.model import Request
from taofold.testing.models import TestModel

VARIABLE: Final = "TAOFOLD_TEA_FILES"
"""The environment variable with the folder of the flows."""
_TEXTS: Final = {"str": "text", "int": 2, "float": 0.5, "number": 0.5, "bool": True}
_TREES: Final[dict[str, Any]] = {"list": [], "dict": {}, "object": {}, "any": "text"}


def folder() -> str:
    """Returns the folder with flows of The Edge Agent, as the environment states it, or ""."""
    return os.environ.get(VARIABLE, "")


def flows(root: Path) -> list[Path]:
    """Returns the files below `root` that have nodes."""
    files = sorted([*root.rglob("*.yaml"), *root.rglob("*.yml")])
    return [file for file in files if "\nnodes:" in "\n" + file.read_text(encoding="utf-8")]


def constructs(value: Any) -> set[str]:
    """Returns the constructs that a flow uses."""
    if not is_object(value):
        return set()
    found = {f"top.{key}" for key in value}
    found |= {f"edge.{key}" for edge in _mappings(value.get("edges")) for key in edge}
    for node in _nodes(value.get("nodes")):
        found |= {f"node.{key}" for key in node}
        action = node.get("uses", node.get("action"))
        found |= {f"action.{action}"} if isinstance(action, str) else set()
        if "run" in node:
            found.add(f"language.{node.get('language', 'python')}")
    return found


def _mappings(value: Any) -> list[Any]:
    return [entry for entry in value if is_object(entry)] if is_array(value) else []


def _nodes(value: Any) -> Iterator[Any]:
    for node in _mappings(value):
        yield node
        for key in ("steps", "body"):
            yield from _nodes(node.get(key))


PLAIN: Final = ("llm.call", "llm.chat", "llm.stream", "llm.tools")


def is_simple(value: Any) -> bool:
    """Returns whether a flow uses only reasoning, model calls, Python and edges."""
    for node in _nodes(value.get("nodes") if is_object(value) else None):
        action = node.get("uses", node.get("action"))
        known = not isinstance(action, str) or action.startswith("reason.") or action in PLAIN
        if not known or not {"type", "steps", "streams", "body"}.isdisjoint(node):
            return False
        if node.get("language", "python") != "python" or not isinstance(node.get("run", ""), str):
            return False
    edges = _mappings(value.get("edges") if is_object(value) else None)
    return not any("type" in edge or "parallel" in edge for edge in edges)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one file. `file` is None if it is refused."""

    path: Path
    simple: bool
    constructs: frozenset[str]
    file: FlowFile | None
    faults: tuple[Fault, ...]


def survey(root: Path) -> list[Verdict]:
    """Returns a verdict for each flow below `root`."""
    verdicts: list[Verdict] = []
    for path in flows(root):
        document, _ = load(path)
        value = None if document is None else document.value
        file, faults = read_agent(path, source=str(path.relative_to(root)))
        flow = file if isinstance(file, FlowFile) else None
        simple = value is not None and is_simple(value)
        found = frozenset(constructs(value))
        verdicts.append(Verdict(path, simple, found, flow, tuple(faults)))
    return verdicts


class _Search:
    """A backend of `web.search` without a network."""

    async def search(self, query: str, limit: int) -> list[Hit]:
        return [Hit("A page", "https://example.org/a", query)]

    async def page(self, url: str) -> str | None:
        return "The text of a page."


class PlausibleModel(TestModel):
    """Answers with the simplest value of each type, and with the JSON that a prompt describes."""

    async def complete(self, request: Request, on_text: Any = None) -> Reply:
        """Returns a reply."""
        described = _described(request.text)
        try:
            reply = await super().complete(request, on_text)
        except KeyError:  # a schema that it does not know
            return Reply(json.dumps({"action": {"tool": "finish", "parameters": {"answer": "x"}}}))
        if reply.text.strip() == "{}" and described:
            return Reply(json.dumps(described), model=self.name)
        if reply.text == "done":
            # The words that a prompt asks for, as in "print DONE_WITH_IT".
            words = _MARKER.findall(request.text)
            return Reply(" ".join(["done", *words]), model=self.name)
        return reply


_MARKER: Final = re.compile(r"\b[A-Z]{2,}_[A-Z_:0-9]+\b")
_KEY: Final = re.compile(r'"(\w+)":\s*([\[{tf\d]|"\w*)')


def _described(text: str) -> dict[str, Any]:
    """Returns a value with the keys of the JSON that a prompt shows."""
    values: dict[str, Any] = {"[": [], "{": {}, "t": True, "f": False}
    found: dict[str, Any] = {}
    for key, first in _KEY.findall(text):
        # `"format": "tree|steps"` shows two values, of which the first is plausible.
        found[key] = (first[1:] or "text") if first[0] == '"' else values.get(first, 0.5)
    return found


def started(file: FlowFile) -> dict[str, Any]:
    """Returns values for the variables that a run of the file reads at its start."""
    schema = file.document.value.get("state_schema")
    types: dict[str, Any] = dict(schema) if is_object(schema) else {}
    names = {name.removesuffix("?"): type_ for name, type_ in types.items()}
    given = file.flow.keys.initial_state
    values: dict[str, Any] = {}
    for name in {*file.flow.needs, *(n for n, t in names.items() if t != "any")} - {*given}:
        type_ = str(names.get(name, "any")).split("[")[0]
        values[name] = _TEXTS.get(type_, _TREES.get(type_, "text"))
    return values


def run(path: Path, place: Path, **data: Any) -> Any:
    """Runs a flow with a scripted model in the folder `place`, and returns its result.

    Args:
        path: The flow.
        place: An empty folder, in which its tools work.
        data: Further variables at the start.
    """
    story = place / "docs" / "stories" / "text.md"
    story.parent.mkdir(parents=True)
    story.write_text("# text\n\nStatus: ready\n", encoding="utf-8")
    (place / "text").write_text("text", encoding="utf-8")
    register_search("fake", lambda argument, root: _Search())
    file, faults = read_agent(path)
    assert isinstance(file, FlowFile), faults
    agent: Agent[Any, Any] = build(file, Config(), place, allow_python=True)
    model = PlausibleModel()
    agent = agent.replace(
        model=model,
        models=dict.fromkeys(agent.models, model),
        approve="all",
        limits=Limits(steps=200, model_calls=100, seconds=120),
    )
    return agent.run_sync("the goal", data={**started(file), **data})


def main(arguments: list[str]) -> None:
    """Prints the survey of a folder."""
    root = Path(next(a for a in arguments if not a.startswith("-")))
    verdicts = survey(root)
    reasons = Counter(fault.message for verdict in verdicts for fault in verdict.faults)
    used = Counter(name for verdict in verdicts for name in verdict.constructs)
    for verdict in verdicts:
        mark = "simple" if verdict.simple else "other"
        print(f"{'ok' if verdict.file else 'refused':8} {mark:7} {verdict.path.relative_to(root)}")
        for fault in verdict.faults[:3]:
            print(f"         {fault}")
        if "--run" in arguments and verdict.file:
            place = Path(tempfile.mkdtemp())
            try:
                outcome = run(verdict.path, place)
                print(f"         run: {outcome.status} {outcome.error[:300]}")
            except Exception as error:
                print(f"         run: {type(error).__name__} {error}"[:300])
            shutil.rmtree(place, ignore_errors=True)
    for title, counter in (("constructs", used), ("reasons", reasons)):
        print(f"\n{title}:", json.dumps(dict(counter.most_common(60)), indent=1))
    simple = [verdict for verdict in verdicts if verdict.simple]
    passed = sum(verdict.file is not None for verdict in simple)
    accepted = sum(verdict.file is not None for verdict in verdicts)
    print(f"\n{accepted} of {len(verdicts)} pass; of {len(simple)} simple ones {passed}")


if __name__ == "__main__":
    main(sys.argv[1:])

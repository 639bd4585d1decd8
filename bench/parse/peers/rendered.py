"""Third-party calls, rendered by the chat templates of models.

A folder with chat templates (`*.jinja`, such as llama.cpp's `models/templates`) and the data of the
Berkeley Function Calling Leaderboard (`BFCL_v4_*.json`, `possible_answer/`): its calls, with their
schemas, are the content of a model's turn, and the template is that model's notation. Both are
third-party files. Templates render well-formed calls only, so this measures families, not slips.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from rows import Row, Wanted

_SETS = ("simple_python", "multiple", "parallel", "parallel_multiple", "live_simple",
         "live_multiple", "live_parallel")  # fmt: skip
_EACH = 25
"""Calls for each template."""
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


def rendered(root: Path) -> Iterator[Row]:
    cases = list(_cases(root))
    for path in sorted(root.glob("*.jinja")):
        # The selection of rendered calls is random, the same in every run.
        own = sorted(cases, key=lambda case: sha256(f"{path.stem}{case[0]}".encode()).digest())
        for name, question, tools, calls in own[:_EACH]:
            text = _reply(path.read_text(), question, tools, calls)
            counts = Counter(call.name or "" for call in calls)
            # Some templates write the first call only.
            if all(text.count(each) >= count for each, count in counts.items()):
                yield Row("rendered", f"{path.stem} {name}", text, tools, calls)


def _cases(root: Path) -> Iterator[tuple[str, str, dict[str, Any], list[Wanted]]]:
    for name in _SETS:
        answers = {
            each["id"]: each["ground_truth"] for each in _lines(root, name, "possible_answer")
        }
        for case in _lines(root, name, ""):
            tools = {each["name"]: _schema(each["parameters"]) for each in case["function"]}
            calls = [
                Wanted(tool, {k: v[0] for k, v in given.items() if v and v[0] != ""})
                for each in answers[case["id"]]
                for tool, given in each.items()
            ]
            yield case["id"], case["question"][0][-1]["content"], tools, calls


def _lines(root: Path, name: str, folder: str) -> Iterator[dict[str, Any]]:
    for line in (root / folder / f"BFCL_v4_{name}.json").read_text().splitlines():
        yield json.loads(line)


def _schema(node: Any) -> Any:
    """A schema with JSON's names of types."""
    if isinstance(node, list):
        return [_schema(each) for each in node]
    if not isinstance(node, dict):
        return node
    out = {key: _schema(value) for key, value in node.items()}
    kind = node.get("type")
    if isinstance(kind, str) and kind.lower() in _TYPES:
        out["type"] = _TYPES[kind.lower()]
    return {key: value for key, value in out.items() if value is not None}


def _reply(template: str, question: str, tools: dict[str, Any], calls: list[Wanted]) -> str:
    """Returns the template's text of a turn with these calls; empty if it has no place for them."""
    user = {"role": "user", "content": question}
    offered = [
        {"type": "function", "function": {"name": k, "description": "", "parameters": v}}
        for k, v in tools.items()
    ]
    for encode in (dict, json.dumps):
        made = [
            {"id": f"call{n:05}", "type": "function",
             "function": {"name": each.name, "arguments": encode(each.arguments)}}
            for n, each in enumerate(calls)
        ]  # fmt: skip
        turn = {"role": "assistant", "content": "", "tool_calls": made}
        try:
            whole = _render(template, [user, turn], offered, False)
            before = [_render(template, [user], offered, prompt) for prompt in (True, False)]
        except Exception:  # a template that wants the other encoding, or knows no tools
            continue
        rest = next((whole[len(each) :] for each in before if whole.startswith(each)), "")
        if rest.strip():
            return rest
    return ""


def _render(
    template: str, messages: list[dict[str, Any]], tools: list[Any], add_generation_prompt: bool
) -> str:
    return _compiled(template).render(
        messages=messages, tools=tools, add_generation_prompt=add_generation_prompt,
        bos_token="", eos_token="", date_string="26 Jul 2024", enable_thinking=False,
    )  # fmt: skip


@lru_cache(maxsize=4)
def _compiled(template: str) -> Any:
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": lambda _: "26 Jul 2024"}
    return environment.from_string(template)


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def _refuse(message: str) -> None:
    raise ValueError(message)

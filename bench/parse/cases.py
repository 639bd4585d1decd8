"""The corpus: its rows, their types, and the verdict on what a parser returned."""

from __future__ import annotations

import json
import math
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

HERE = Path(__file__).parent
CORPUS = HERE / "corpus.jsonl"
SCHEMAS = HERE / "schemas.json"
GROUPS = {
    "valid": ("valid", "valid_tricky"),
    "envelope": ("fences", "prose", "tags", "thinking", "whitespace"),
    "syntax": (
        "python_literals", "unquoted_keys", "trailing_commas", "comments", "missing_punctuation",
        "raw_newlines", "unescaped_quotes", "smart_quotes", "encoding", "escapes", "ellipsis",
    ),
    "shape": ("wrappers", "keys", "types", "enums"),
    "several": ("duplicates", "multi"),
    "foreign": ("foreign_syntax", "yaml"),
    "dialect": ("dialect_json", "dialect_xml", "dialect_pythonic"),
    "tao/react": ("tao", "react"),
    "must-reject": (
        "no_decision", "missing_required", "schema_echo", "quoted_not_decision",
        "forbidden_extra", "adversarial",
    ),
    "truncated": ("truncated", "truncated_closers"),
}  # fmt: skip
GOOD = frozenset({"correct", "rejected", "declined"})
BAD = frozenset({"wrong", "accepted"})


def load(path: Path, track: str) -> list[dict[str, Any]]:
    """Loads the rows of one track. Generated texts are created on use."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["track"] == track]


def text_of(row: dict[str, Any]) -> str:
    if row.get("text") is not None:
        return row["text"]
    from attacks import attack

    name, size = row["gen"]
    text, accept = attack(name, size)
    if row["verdict"] != "reject" and not row["accept"]:
        row["accept"] = accept
    return text


@cache
def _schemas(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def type_of(name: str, path: Path = SCHEMAS) -> Any:
    """The type of a schema id, from the Pydantic source that the corpus carries."""
    known = _schemas(path)
    schema = known["schemas"][name]
    module = types.ModuleType(f"corpus_{name}")
    sys.modules[module.__name__] = module
    exec(known["prelude"] + "\n" + schema["pydantic"], module.__dict__)
    for each in list(module.__dict__.values()):
        if isinstance(each, type) and issubclass(each, BaseModel) and each is not BaseModel:
            each.model_rebuild(_types_namespace=module.__dict__)
    return eval(schema["expr"], module.__dict__)


@cache
def _adapter(name: str, path: Path) -> TypeAdapter[Any]:
    return TypeAdapter(type_of(name, path))


def adapter_of(name: str, path: Path = SCHEMAS) -> TypeAdapter[Any]:
    return _adapter(name, path)


def equal(left: Any, right: Any) -> bool:
    """JSON equality: `1` is `1.0`, `True` is not `1`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right or (
            float in (type(left), type(right)) and math.isclose(left, right, rel_tol=1e-12)
        )
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(v, right[k]) for k, v in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right


def outcome(row: dict[str, Any], returned: bool, value: Any) -> str:
    """`correct`, `missed`, `wrong`, `accepted` (must be refused), `rejected` or `declined`."""
    verdict = row["verdict"]
    if not returned:
        return {"accept": "missed", "reject": "rejected"}.get(verdict, "declined")
    if verdict == "reject":
        return "accepted"
    return "correct" if any(equal(value, each) for each in row["accept"]) else "wrong"

"""Runs as exact JSON: every request to a model, and every event of the log.

A test compares with a file beside it, so that each change of a prompt or of an event appears in a
diff. `TAOFOLD_RECORD=1 python -m pytest tests/reasoning/test_recorded.py` writes the files: review
the difference before you commit it.
"""

import json
import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from taofold.core import events as e
from taofold.core.json_values import plain
from taofold.log.formats import ndjson
from taofold.runtime.model import Request

BATCH: Final = ("decided", "started", "started_once", "observed")
Json = dict[str, Any]

UNSTABLE: Final = frozenset(
    {"at", "elapsed", "duration_ms", "ms", "prompt", "prefix", "policy", "digest", "expires_at"}
    | {"owner", "profile", "settings", "policy_digest", "trace", "traceparent"}
)
"""Times, digests of what stands beside them, and what belongs to the machine."""


def request_json(request: Request) -> Json:
    """Returns a model's request: its role, the messages, the allowed calls and the format."""
    return {
        "role": request.role,
        "messages": [plain(message) for message in request.conversation],
        "tools": [tool.name for tool in request.tools],
        "allowed": None if request.allowed is None else sorted(request.allowed),
        "schema": request.schema,
    }


def requests_json(requests: Sequence[Json]) -> list[Json]:
    """Returns each request with its new messages. `kept` is the number of unchanged ones."""
    before: list[Any] = []
    schema: Json | None = None
    shorter: list[Json] = []
    for request in requests:
        messages: list[Any] = request["messages"]
        pairs = enumerate(zip(before, messages, strict=False))
        kept = next((n for n, (old, new) in pairs if old != new), min(len(before), len(messages)))
        shorter.append({**request, "kept": kept, "messages": messages[kept:]})
        if request["schema"] == schema and schema is not None:
            shorter[-1]["schema"] = "as before"
        before, schema = messages, request["schema"]
    return shorter


def stable(value: Any) -> Any:
    """JSON without what differs from run to run."""
    if isinstance(value, dict):
        return {key: stable(inner) for key, inner in value.items() if key not in UNSTABLE}
    if isinstance(value, list | tuple):
        return [stable(inner) for inner in value]
    return value


def events_json(records: Iterable[e.Record]) -> list[Json]:
    """The events as the log has them, each with its run."""
    lines = [json.loads(line) for line in ndjson.dumps(records).splitlines()[1:]]
    events = [stable({"run": line["run"], **line["event"]}) for line in lines]
    # The calls of a batch run at once: one after the other here, in the order of the batch.
    ordered: list[Json] = []
    for (_, of_batch), together in groupby(events, lambda one: (one.get("key"), one["e"] in BATCH)):
        some = list(together)
        ordered += sorted(some, key=lambda one: one.get("index", 0)) if of_batch else some
    return ordered


def same(path: Path, value: Any) -> None:
    """Compare with the file, or write it."""
    now = json.loads(json.dumps(value))
    if os.environ.get("TAOFOLD_RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(_lines(now), encoding="utf-8")
        return
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert now == recorded, f"differs from {path.name}: see tests/recorded.py"


def _lines(value: Json) -> str:
    """JSON with a line for each request and each event."""

    def dumped(inner: Any) -> str:
        return json.dumps(inner, ensure_ascii=False, sort_keys=True)

    fields: list[str] = []
    for name, field in value.items():
        items = ",\n ".join(map(dumped, field)) if isinstance(field, list) else ""
        fields.append(f'"{name}": ' + (f"[\n {items}]" if items else dumped(field)))
    return "{" + ",\n".join(fields) + "}\n"

"""Values derived from logs that hold every event, compared with recorded JSON.

The logs are those of the conformance kit. `recorded/logs.json` has their displayed form.
"""

import json
import os
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from taofold.core import events as e
from taofold.core.checklist import check
from taofold.core.events import Record, decode
from taofold.core.grounding import ground_turns
from taofold.core.json_values import plain
from taofold.core.metrics import measure
from taofold.core.state import live
from taofold.core.text import excerpt, key_line, near, visible
from taofold.core.trace import audit, trace, turns
from tests.core.judging import violations
from tests.frozen import classes

KIT = Path(__file__).parents[2] / "conformance" / "folding"
FOLDER = Path(__file__).parent / "recorded"
LINES = (
    *("", "one line", "first\n\nlast", "Traceback:\n  x\nValueError: no\nafter", "ok\nerror: bad"),
    *("x" * 300, "\n".join([f"line {n}" for n in range(60)]), "a\x1b[31mred\x07\u202e\u200bb\ttab"),
    *("FAILED a\nFAILED b\nFAILED c\nFAILED d\n1 passed", "  padded  \n\n  more  ", "Fehler: nö"),
)

STORED = [f"taofold.core.{module}" for module in ("content", "events", "reply", "trace", "values")]
DISK = {"parked", "resolved", "started_once", "compensated", "steered"}


def records_of(log: Path) -> list[Record]:
    raw = json.loads(log.read_text(encoding="utf-8"))
    return [
        Record("run", line["seq"], line["at"], decode(json.dumps(line["event"])))
        for line in raw["records"]
    ]


def logs() -> dict[str, Any]:
    read: dict[str, Any] = {}
    for log in sorted({*KIT.glob("*.json")} - {KIT / "annotations.json"}):
        records = records_of(log)
        for length in {len(records), len(records) - 1, len(records) // 2}:
            part = records[:length]
            read[f"{log.stem}, {length} records"] = {
                "trace": trace(part),
                "turns": [plain(turn) for turn in turns(part)],
                "audit": [[plain(one) for one in some] for some in audit(part)],
                "metrics": measure(part),
                "check": check(part),
                "violations": violations(part),
                "grounding": ground_turns(turns(part), live(part)),
            }
    return read


def texts() -> dict[str, Any]:
    known = ("look", "look_up", "send_mail", "read")
    return {
        "excerpt": [
            [excerpt(text, limit) for limit in (0, 1, 20, 100, 299, 300)] for text in LINES
        ],
        "key_line": [[key_line(text), key_line(text, failed=True)] for text in LINES],
        "visible": [visible(text) for text in LINES],
        "near": {word: near(word, known) for word in ("lok", "Look", "send", "mail", "x", "")},
    }


def defaults() -> dict[str, Any]:
    """Fields that a stored row may omit, with their defaults, including older logs."""
    stored: dict[str, Any] = {}
    for kind in classes("taofold.core"):
        if not issubclass(kind, msgspec.Struct) or kind.__module__ not in STORED:
            continue
        fields = {
            field.name: "required"
            if field.required
            else plain(
                field.default_factory()
                if field.default is msgspec.NODEFAULT
                else None
                if field.default is msgspec.UNSET
                else field.default
            )
            for field in msgspec.structs.fields(kind)
        }
        facts = {name: getattr(kind, name) for name in ("disk", "timed") if hasattr(kind, name)}
        stored[kind.__name__] = {"tag": kind.__struct_config__.tag, **facts, "fields": fields}
    return stored


@pytest.mark.parametrize("table", [logs, texts, defaults])
def test_what_is_read_out_of_a_log_is_what_the_table_says(table: Any) -> None:
    path = FOLDER / f"{table.__name__}.json"
    now = json.loads(msgspec.json.encode(table(), order="sorted"))
    if os.environ.get("TAOFOLD_RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            json.dumps(now, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8"
        )
    assert now == json.loads(path.read_text(encoding="utf-8"))


def test_what_may_not_be_repeated_or_unsaid_is_on_disk_before_the_run_goes_on() -> None:
    disk = {event.__struct_config__.tag for event in get_args(e.Event) if event.disk}
    assert disk == DISK

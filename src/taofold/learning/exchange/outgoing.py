"""Patterns as the files of the seed's layout hold them.

Rates have two digits, times are ISO 8601. What we believe of a pattern, its evidence, stays at
home: it holds words of other people's code, and nobody should trust it anyway.
"""

import re
from hashlib import blake2b
from typing import Any, Final

import msgspec

from taofold.learning.exchange.wire import FILES, KEYS, VERSION
from taofold.learning.exchange.writing import wire
from taofold.learning.metrics import improvement, measure
from taofold.learning.patterns.bodies import Kind
from taofold.learning.patterns.notes import LoopNote, Stats
from taofold.learning.settings import Pruning
from taofold.learning.state import View

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def files(view: View) -> dict[str, Any]:
    """Everything: names of files, with `/` between folders, and what each holds."""
    kept: dict[Kind, list[Any]] = {kind: [] for kind in KEYS}
    index: dict[str, Any] = {}
    for pattern in view.patterns():
        kept[pattern.kind].append(builtin(wire(pattern)))
        index[pattern.id] = {"type": pattern.kind, "name": pattern.name, "tags": [*pattern.tags]}
    made: dict[str, Any] = {
        f"patterns/{FILES[kind]}": {"version": VERSION, KEYS[kind]: kept[kind]} for kind in KEYS
    }
    months: dict[str, list[Any]] = {}
    for pattern, month in view.archive():
        months.setdefault(month, []).append(builtin(wire(pattern)))
    for month, old in months.items():
        made[f"archive/{month}-patterns.json"] = {"version": VERSION, "patterns": old}
    stats = view.stats()
    metrics = measure(view.patterns(), stats, sum(map(len, months.values())))
    made["effectiveness-metrics.json"] = metrics.as_json()
    made["memory/patterns-index.json"] = {"version": VERSION, "patterns": index}
    for note in view.loops():
        made[f"loops/{folder(note.loop)}/state.json"] = loop_state(note, stats)
    return made


def bundle(made: dict[str, Any]) -> dict[str, Any]:
    """The same in one file: patterns, metrics and the policy they are pruned by."""
    registry = {KEYS[kind]: made[f"patterns/{name}"][KEYS[kind]] for kind, name in FILES.items()}
    return {
        "version": VERSION,
        "pattern_registry": registry,
        "effectiveness_metrics": made["effectiveness-metrics.json"],
        "pruning_policy": builtin(Pruning(), defaults=True),
    }


def folder(loop: str) -> str:
    """A name for the loop's folder: its id, or a digest of one that is no plain name."""
    if _PLAIN.fullmatch(loop):
        return loop
    return blake2b(loop.encode("utf-8", "replace"), digest_size=12).hexdigest()


def loop_state(note: LoopNote, stats: Stats) -> dict[str, Any]:
    """What a loop's exported state says about learning."""
    uses = {use.id: use for use in note.uses}
    injected = [
        {
            "pattern_id": one.id,
            "applied": one.id in uses,
            "successful": uses[one.id].won if one.id in uses else False,
            "iteration_used": uses[one.id].iteration if one.id in uses else None,
        }
        for one in note.shown
        if one.id in note.ids
    ]
    extracted = [
        {
            "pattern_id": one.id,
            "new": one.new,
            "success_rate": None if one.rate is None else round(one.rate, 2),
        }
        for one in note.extracts
    ]
    learning: dict[str, Any] = {
        "injected_patterns": injected,
        "extracted_patterns": extracted,
        "control": note.control,
    }
    if note.ended:
        learning["improvement_estimate"] = improvement(note, stats).as_json()
    return {"loop_id": note.loop, "cross_loop_learning": learning}


def builtin(value: Any, *, defaults: bool = False) -> Any:
    """As plain JSON values."""
    if defaults:
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return msgspec.json.decode(msgspec.json.encode(value))

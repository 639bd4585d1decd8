"""Varied runs, and every small forgery of an export of one."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from taofold.core.events import Event, Noted, Record
from taofold.core.state import ENDED, fold
from taofold.evidence.statement import KeySigner
from taofold.log.formats.ndjson import dumps_chain
from taofold.log.log import RunRow
from taofold.log.signed import chain_of, sign_run

KIT = Path(__file__).parents[2] / "conformance" / "runs"
NAMES = (
    *("approval_allowed", "approval_batch", "approval_denied", "approval_edited", "approval_twice"),
    *("call_typed", "cancelled", "child", "child_denied", "cot_strict", "decompose", "flow_group"),
    *("flow_loop_limit", "plan", "react_batch", "react_max_steps", "react_strict_failure"),
    *("react_unknown_tool", "self_correct", "steered"),
)
"""Twenty runs of the conformance kit."""
ODD: tuple[Event, ...] = (
    Noted(key="9", kind="odd", data={"\uffff": 1.0, "\U00010000": [1e30, 2**70, -0.0, None, True]}),
    Noted(key="9", kind="odd", data={"a": {"b": [0.1, '\n"\\é']}, "": {}, "l": []}),
)
"""Events with values whose canonical form is unusual."""


def kit_events(name: str) -> list[Event]:
    """The events of a run of the kit, with the fields that it does not compare."""
    events: list[Event] = []
    for each in json.loads((KIT / name / "events.json").read_text()):
        if each["e"] == "replied":
            each.setdefault("prompt", "77db")
        if each["e"] in ("decided", "resolved", "steered"):
            each.setdefault("by", "ann")
        if each["e"] == "steered":
            each.setdefault("id", "s1")
        events.append(msgspec.convert(each, Event))
    return events


def kit_records(name: str, run: str) -> list[Record]:
    events = [*kit_events(name)]
    events[-1:-1] = ODD
    return [Record(run, seq, 1_769_337_000_000 + 7 * seq, each) for seq, each in enumerate(events)]


def new_key() -> KeySigner:
    return KeySigner(
        Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


async def store(log: Any, records: list[Record]) -> None:
    """Writes the records as a driver does: a start, some appends, and an end at rest."""
    run = records[0].run
    await log.create(RunRow(run, "running"), records=records[:1], owner="me")
    for start in range(1, len(records) - 1, 3):
        await log.append(run, 1, records[start : min(start + 3, len(records) - 1)])
    status = fold(records).status
    rest = status if status in ENDED else "waiting"
    await log.append(run, 1, records[-1:], status=rest)


async def exported(log: Any, run: str, signer: KeySigner | None = None) -> str:
    """The run's export, signed if there is a signer."""
    if signer is not None:
        await sign_run(log, run, signer)
    return dumps_chain(await chain_of(log, run))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all leaves; an empty object or array is one."""
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    if not members:
        yield path
    for key, member in members:
        yield from leaves(member, (*path, key))


def other_values(value: Any) -> list[Any]:
    """Values that a forger may put in the place of `value`."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, float(value) + 0.5, str(value)]
        case float():
            return [value * 2 + 1, None]
        case str():
            return [value + "x", value[:-1] if value else " ", value.swapcase() + "\u200b"]
        case None:
            return [0, ""]
        case _:
            return ["forged"]


def edited(record: Any) -> Iterator[tuple[str, Any]]:
    """The record with one leaf changed, removed or renamed, for every leaf."""
    for path in leaves(record):
        *above, last = path
        for value in other_values(at(record, path)):
            changed = deepcopy(record)
            at(changed, above)[last] = value
            yield f"{path} = {value!r}", changed
        changed = deepcopy(record)
        place = at(changed, above)
        removed = place.pop(last)
        yield f"{path} removed", changed
        if isinstance(place, dict):
            changed = deepcopy(changed)
            at(changed, above)[f"{last}_"] = removed
            yield f"{path} renamed", changed


def at(value: Any, path: Any) -> Any:
    for key in path:
        value = value[key]
    return value


def moved(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Exports with a record dropped, swapped, duplicated or inserted."""
    count = sum(line.startswith('{"run":') for line in lines)
    for seq in range(count):
        place = seq + 1
        yield f"{seq} dropped", lines[:place] + lines[place + 1 :]
        yield f"{seq} duplicated", [*lines[: place + 1], *lines[place:]]
        renumbered = json.loads(lines[place]) | {"seq": seq + 1}
        yield f"{seq} inserted", [*lines[: place + 1], json.dumps(renumbered), *lines[place + 1 :]]
        later = [json.loads(line) for line in lines[place + 1 : count + 1]]
        shifted = [json.dumps(each | {"seq": each["seq"] + 1}) for each in later]
        yield (
            f"{seq} inserted and the others moved",
            [*lines[: place + 1], json.dumps(renumbered), *shifted, *lines[count + 1 :]],
        )
        back = [json.dumps(each | {"seq": each["seq"] - 1}) for each in later]
        yield f"{seq} dropped and the others moved", [*lines[:place], *back, *lines[count + 1 :]]
        if seq + 1 < count:
            swapped = [*lines]
            swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
            yield f"{seq} swapped", swapped
            one, two = (json.loads(line) for line in lines[place : place + 2])
            one["event"], two["event"] = two["event"], one["event"]
            exchanged = [*lines[:place], json.dumps(one), json.dumps(two), *lines[place + 2 :]]
            if lines[place].partition("event")[2] != lines[place + 1].partition("event")[2]:
                yield f"{seq} exchanged", exchanged
    yield "the end cut off", [*lines[:count], *lines[count + 1 :]]

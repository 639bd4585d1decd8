"""Random changes of exports, for a comparison of two verifiers.

    python -m tests.evidence.fuzz 5000 7

Prints each export on which the verifiers in Python and JavaScript differ. Changes are made in
bytes, in lines and in parsed values. A part of the exports is sealed after the change, so that a
verifier gets beyond the first wrong hash.
"""

import base64
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from taofold.evidence.verifier import BROKEN, verify
from tests.evidence.rules import HEADER, KEY, RECORDS, RULES, blob_line, sealed, signed, written
from tests.evidence.script import place_of, verdicts

TOKENS = (
    *("null", "true", "false", "0", "-0", "1", "-1", "1.0", "1e0", "1e400", "2", "3", '""', '"x"'),
    *("[]", "{}", "[null]", '{"a":1}', "9007199254740993", '"\\u0000"', '"\\ud800"', "1E-7"),
    *('"AAAA"', '"' + "0" * 64 + '"', "253402300800000", '"\u00e9"', '"\U0001f600"', "[[[]]]"),
)
BYTES = (
    *(b"\n", b"\r", b" ", b"\t", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xc3\xa9", b"{", b"}", b"["),
    *(b"]", b'"', b",", b":", b"\\", b"\\u", b"0", b"e", b".", b"-", b"=", b"+", b"/", b"_"),
)
EVENTS = (
    *('{"e":"x"}', '{"e":[1.5,-0.0,1e21,{"b":1,"a":[]}]}', '{"\U00010000":1,"\uffff":2}'),
    *('{"e":1,"e":2}', '{"e":"\\u00e9\\n"}', '{"e":12345678901234567890123}', "[]", '{"e":1e999}'),
)


def bytes_changed(rng: random.Random, export: bytes) -> bytes:
    place = rng.randrange(len(export) + 1)
    match rng.randrange(4):
        case 0:
            return export[:place] + rng.choice(BYTES) + export[place:]
        case 1:
            return export[:place] + export[place + rng.choice((1, 1, 2, 9, 400)) :]
        case 2:
            return export[:place] + rng.choice(BYTES) + export[place + 1 :]
        case _:
            other = rng.randrange(len(export) + 1)
            return export[:place] + export[other : other + rng.choice((1, 5, 60))] + export[place:]


def lines_changed(rng: random.Random, export: bytes) -> bytes:
    lines = export.split(b"\n")[:-1]
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
        case 1:
            lines.insert(one, lines[other])
        case 2:
            del lines[one]
        case _:
            lines.insert(one, rng.choice((b"", b"{}", b'{"blob":"","body":""}', b'{"run":"r"}')))
    return b"".join([line + b"\n" for line in lines])


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """The objects and lists in a value, each with each of its keys."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in list(members):
        yield value, key
        if isinstance(member, (dict, list)):
            yield from places(member)


MARK = "\x01"


def value_changed(rng: random.Random, value: Any) -> str:
    """Returns the text of `value`, which it changes in one place."""
    place, key = rng.choice(list(places(value)))
    token = rng.choice(TOKENS)
    extra = ""
    match rng.randrange(6):
        case 0 if isinstance(place, dict):
            del place[key]
        case 1 if isinstance(place, dict):
            place[rng.choice(("x", "late", "stamp", "leaves", "schema", "keyid", "__proto__"))] = (
                MARK
            )
        case 2 if isinstance(place, dict):
            # A doubled key.
            extra = f"{json.dumps(key)}:{written(place[key])},"
            place[key] = MARK
        case 3 if isinstance(place, list):
            place.insert(key, place[key])
            return written(value)
        case 4 if isinstance(place[key], str) and place[key]:
            text, at = place[key], rng.randrange(len(place[key]))
            place[key] = text[:at] + rng.choice("=+/-_ aA0é\n") + text[at + rng.randrange(2) :]
        case _:
            place[key] = MARK
    text = written(value)
    if extra:
        name = extra.partition(":")[0]
        text = text.replace(f'{name}:"\\u0001"', extra + f"{name}:{token}", 1)
    return text.replace('"\\u0001"', token)


def line_changed(rng: random.Random, export: bytes) -> bytes:
    lines = export.split(b"\n")[:-1]
    number = rng.randrange(len(lines))
    try:
        value = json.loads(lines[number])
        lines[number] = value_changed(rng, value).encode()
    except (ValueError, RecursionError, TypeError, IndexError):
        return export[:-1]
    return b"".join([line + b"\n" for line in lines])


def sealed_again(rng: random.Random) -> bytes:
    """An export with changed records or header whose hashes and signature are right."""
    records = list(RECORDS)
    header = HEADER
    number = rng.randrange(3)
    match rng.randrange(4):
        case 0:
            records[number] = records[number].replace('{"e":"noted","n":1}', rng.choice(EVENTS))
        case 1:
            header = value_changed(rng, json.loads(HEADER))
        case _:
            records[number] = value_changed(rng, json.loads(records[number]))
    return sealed(*records, header=header, more=(blob_line(bytes([number] * 200)),))


def statement_changed(rng: random.Random) -> bytes:
    def change(evidence: Any) -> None:
        head = evidence["heads"][1]
        payload = base64.b64decode(head["envelope"]["payload"])
        changed = bytes_changed(rng, payload)
        if rng.randrange(2):
            changed = value_changed(rng, json.loads(payload)).encode()
        head["envelope"] = signed(changed)

    return sealed(change=change)


def changed_exports(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    base = [rule.export for rule in RULES if rule.code != BROKEN]
    for _ in range(count):
        export = rng.choice(base)
        match rng.randrange(10):
            case 0 | 1:
                export = sealed_again(rng)
            case 2:
                export = statement_changed(rng)
            case 3:
                export = lines_changed(rng, export)
            case 4 | 5:
                export = bytes_changed(rng, export)
            case _:
                export = line_changed(rng, export)
        yield bytes_changed(rng, export) if export and not rng.randrange(12) else export


def differences(count: int, seed: int, folder: Path) -> tuple[list[bytes], list[int]]:
    """Returns the exports on which the verifiers differ, and the codes of the one in Python.

    They differ in the code, or in the record or line of the fault.
    """
    exports = list(changed_exports(count, seed))
    ours = [verify(export, [KEY.public]) for export in exports]
    theirs = verdicts(folder, exports)
    return [
        export
        for export, one, other in zip(exports, ours, theirs, strict=True)
        if (one.code, place_of(one.text)) != other
    ], [report.code for report in ours]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found, reached = differences(int(sys.argv[1]), int(sys.argv[2]), Path(place))
    for export in found:
        sys.stdout.write(f"{export!r}\n")
    counts = {code: reached.count(code) for code in sorted(set(reached))}
    sys.stdout.write(f"{len(found)} differences, verdicts {counts}\n")

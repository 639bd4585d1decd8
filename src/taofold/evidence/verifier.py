"""Verifies the evidence in a taofold export. One file; needs only Python's standard library.

    python verifier.py run.ndjson --key 3b6a27bc…

It checks the chain of hashes over the records and the signatures of its heads, as docs/evidence.md
describes. It does not derive decisions again: `taofold runs verify` does. Exit codes: 0 verified,
10 unsigned, 11 signed by a key that was not given, 12 broken, 2 usage.
"""

import base64
import datetime
import hashlib
import json
import re
import sys
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, TypeGuard

OK, USAGE, UNSIGNED, NO_KEY, BROKEN = 0, 2, 10, 11, 12
PURPOSE = b"taofold chain 1\n"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://taofold.dev/evidence/chain/v1"
PAYLOAD = "application/vnd.in-toto+json"
MOST_SIGNATURES = 16
"""The most signatures of one envelope."""
STATUSES = ("new", "running", "waiting", "finished", "limited", "failed", "cancelled")
"""The statuses of a run that a statement may have."""


class BrokenEvidence(Exception):
    """The evidence does not hold. `seq` is the number of the faulty record, -1 if there is none."""

    def __init__(self, reason: str, seq: int = -1) -> None:
        super().__init__(reason if seq < 0 else f"record {seq}: {reason}")
        self.seq = seq


# --------------------------------------------------------------------- canonical JSON (RFC 8785)
DEEPEST = 200
"""The most objects and arrays that are nested in each other."""
LONGEST = 4300
"""The most characters of a number, without its sign."""


def _is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def read_json(text: str) -> Any:
    """Returns the JSON value in `text`.

    Raises:
        ValueError: It is not JSON, or exceeds the limits of docs/evidence.md.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_members,
            parse_int=_whole,
            parse_float=_fraction,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON at character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError(f"it is nested more than {DEEPEST} deep") from error
    _check_depth(value)
    _check_escapes(text)
    return value


_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def _check_escapes(text: str) -> None:
    """Checks the escapes of characters in `text`, which the parser has accepted.

    Without its C module, Python's parser accepts other text than digits in them.
    """
    text = text.replace(r"\\", "//")
    if re.search(r"\\u(?![0-9a-fA-F]{4})", text):
        raise ValueError("it is not JSON: an escape has no four hexadecimal digits")
    if re.search(r"\\u[dD][89a-fA-F]", _PAIR.sub("", text)):
        raise ValueError("it has an escape of half a surrogate pair")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key occurs twice in an object")
    return value


def _whole(text: str) -> int:
    digits, value = _digits_of(text), 0
    for start in range(0, len(digits), _PART):
        part = digits[start : start + _PART]
        value = value * 10 ** len(part) + int(part)
    return -value if text.startswith("-") else value


_PART = 600
"""Digits that are converted at once. The environment may limit them, but not to less than 640."""


def _fraction(text: str) -> float:
    _digits_of(text)
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


def _digits_of(number: str) -> str:
    """Returns the text of a number without its sign.

    Raises:
        ValueError: It is too long. It has digits of another script, which Python's parser accepts
            without its C module.
    """
    digits = number.lstrip("-")
    if not number.isascii():
        raise ValueError("it is not JSON: a number has a digit that is not one of 0 to 9")
    if len(digits) > LONGEST:
        raise ValueError(f"a number has more than {LONGEST} characters")
    return digits


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _check_depth(value: Any) -> None:
    level: list[Any] = [[value]]
    for _ in range(DEEPEST + 1):
        members = [it for each in level for it in (each.values() if _is_object(each) else each)]
        level = [it for it in members if isinstance(it, (dict, list))]
        if not level:
            return
    raise ValueError(f"it is nested more than {DEEPEST} deep")


def canonical(value: Any) -> str:
    """Returns the canonical form of a value from `read_json`."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return _string(value)
    if _is_array(value):
        return "[" + ",".join([canonical(member) for member in value]) + "]"
    # Keys are ordered as in UTF-16.
    keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
    return "{" + ",".join([_string(key) + ":" + canonical(value[key]) for key in keys]) + "}"


def _integer(value: int) -> str:
    if value < 0:
        return "-" + _integer(-value)
    rest, part = divmod(value, 10**_PART)
    return _integer(rest) + f"{part:0{_PART}}" if rest else str(part)


_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def _string(text: str) -> str:
    done = [
        _ESCAPES.get(ord(c)) or (f"\\u{ord(c):04x}" if ord(c) < 32 else c)  # the others stay
        for c in text
    ]
    return '"' + "".join(done) + '"'


def _number(value: float) -> str:
    """Returns the number as ECMAScript writes it (ECMA-262, Number::toString)."""
    if value == 0:
        return "0"
    if value < 0:
        return "-" + _number(-value)
    # Python's repr has the fewest digits that give the same number, as ECMAScript demands.
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    sign = "-" if point - 1 < 0 else "+"
    return digits[0] + ("." + digits[1:] if count > 1 else "") + f"e{sign}{abs(point - 1)}"


# ----------------------------------------------------------------------------- Ed25519 (RFC 8032)
_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)
_Point = tuple[int, int, int, int]


def _add(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(number: int, point: _Point) -> _Point:
    done: _Point = (0, 1, 1, 0)
    while number:
        if number & 1:
            done = _add(done, point)
        point = _add(point, point)
        number >>= 1
    return done


def _x_of(y: int, sign: int) -> int | None:
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    if square == 0:
        return None if sign else 0
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P:
        return None
    return _P - x if x & 1 != sign else x


def _point(text: bytes) -> _Point | None:
    number = int.from_bytes(text, "little")
    y = number & ((1 << 255) - 1)
    x = _x_of(y, number >> 255)
    return None if x is None else (x, y, 1, x * y % _P)


def _key_point(public: bytes) -> _Point | None:
    """Returns the point of a public key; None if it has small order, or is not encoded canonically.

    A signature for a point of small order needs no private key.
    """
    point = _point(public)
    if point is None:
        return None
    multiple = _times(8, point)
    return None if multiple[0] == 0 and multiple[1] == multiple[2] else point


_BASE_Y = 4 * pow(5, _P - 2, _P) % _P
_BASE_X = _x_of(_BASE_Y, 0) or 0
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)


def is_signature(public: bytes, message: bytes, signature: bytes) -> bool:
    """Returns whether `signature` is the Ed25519 signature of `message` by the key `public`."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, r = _key_point(public), _point(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if key is None or r is None or s >= _L:
        return False
    digest = hashlib.sha512(signature[:32] + public + message).digest()
    left = _times(s, _BASE)
    right = _add(r, _times(int.from_bytes(digest, "little") % _L, key))
    return (left[0] * right[2] - right[0] * left[2]) % _P == 0 and (
        left[1] * right[2] - right[1] * left[2]
    ) % _P == 0


_SPKI = bytes.fromhex("302a300506032b6570032100")


_HEX = frozenset("0123456789abcdef")


def read_key(text: str) -> bytes:
    """Returns the 32 bytes of a public key, given as hexadecimal digits or PEM.

    Raises:
        ValueError: It is neither, or the point has small order.
    """
    public = _public_bytes(text.strip(" \t\r\n"))
    if _key_point(public) is None:
        raise ValueError(
            "it is not the canonical encoding of a point, or the point has small order"
        )
    return public


def _public_bytes(text: str) -> bytes:
    if len(text) == 64 and set(text.lower()) <= _HEX:
        return bytes.fromhex(text)
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    if lines[0] != "-----BEGIN PUBLIC KEY-----" or lines[-1] != "-----END PUBLIC KEY-----":
        raise ValueError("it is neither 64 hexadecimal digits nor a public key in PEM")
    try:
        der = read_base64("".join(lines[1:-1]))
    except ValueError as error:
        raise ValueError("its PEM is damaged") from error
    if der[: len(_SPKI)] != _SPKI or len(der) != len(_SPKI) + 32:
        raise ValueError("it is not an Ed25519 public key")
    return der[len(_SPKI) :]


# ------------------------------------------------------------------------------------- signatures
def read_base64(text: Any) -> bytes:
    """Returns the bytes of base64 (RFC 4648, section 4) in its only canonical form.

    Raises:
        ValueError: It is a value of another type, has other characters, no padding, or bits that
            are not zero after the last byte.
    """
    try:
        content = base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise ValueError("it is not base64") from error
    if base64.b64encode(content).decode() != text:
        raise ValueError("it is not base64")
    return content


def pae(kind: str, payload: bytes) -> bytes:
    """Returns the bytes that a DSSE signature covers (Pre-Authentication Encoding)."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def payload_of(predicate: dict[str, Any], link: str) -> bytes:
    """Returns the statement about the head with this link: the payload of its envelope."""
    subject = {"digest": {"sha256": link}, "name": f"taofold-run:{predicate['run']}"}
    statement = {
        "_type": STATEMENT,
        "predicate": predicate,
        "predicateType": PREDICATE,
        "subject": [subject],
    }
    return canonical(statement).encode()


def open_envelope(
    envelope: Any, keys: list[bytes]
) -> tuple[bytes, list[tuple[bytes, bytes | None]]]:
    """Returns the payload, and each signature with the one of `keys` that made it, or None.

    Raises:
        ValueError: It is no envelope of an in-toto statement, or has two signatures of one key.
    """
    _check_fields(envelope, "envelope", {"payload", "payloadType", "signatures"})
    signatures = envelope["signatures"]
    if envelope["payloadType"] != PAYLOAD:
        raise ValueError("the envelope has another type of payload")
    if not _is_array(signatures) or not signatures:
        raise ValueError("the envelope has no list of signatures, or an empty one")
    if len(signatures) > MOST_SIGNATURES:
        raise ValueError(f"the envelope has more than {MOST_SIGNATURES} signatures")
    for each in signatures:
        _check_fields(each, "signature in the envelope", {"keyid", "sig"})
        if not isinstance(each["keyid"], str):
            raise ValueError("the envelope has a keyid that is not text")
    try:
        payload = read_base64(envelope["payload"])
        made = [read_base64(each["sig"]) for each in signatures]
    except ValueError as error:
        raise ValueError("the envelope has a payload or a signature that is not base64") from error
    if any([len(each) != 64 for each in made]):
        raise ValueError("the envelope has a signature that is not 64 bytes long")
    message = pae(PAYLOAD, payload)
    found: list[tuple[bytes, bytes | None]] = []
    for each in made:
        by = [key for key in dict.fromkeys(keys) if is_signature(key, message, each)]
        found.append((each, by[0] if by else None))
    makers = [key for _, key in found if key is not None]
    if len({each["keyid"] for each in signatures}) < len(made) or len(set(makers)) < len(makers):
        raise ValueError("the envelope has two signatures of one key")
    return payload, found


# ------------------------------------------------------------------------------------- the export
@dataclass
class EvidenceReport:
    """The verdict on an export.

    Records 0 to `signed` - 1 are covered by a valid signature. `withheld` records are present by
    their hash only. `keys` are the ids of the given keys that signed the head with the last record,
    and so cover all. `unproved` are the ids that other signatures name, which prove nothing.
    `stamped` are the numbers of heads with a time stamp, the stamp, and the signatures of given
    keys there (base64). `rest` is the status of the run at the last head that a given key signed;
    "" without one. `seq` is the first faulty record of a broken chain, -1 if the fault is not one
    of a record.
    """

    code: int = UNSIGNED
    text: str = ""
    records: int = 0
    signed: int = 0
    withheld: int = 0
    stamps: int = 0
    keys: list[str] = field(default_factory=list[str])
    unproved: list[str] = field(default_factory=list[str])
    stamped: list[tuple[int, str, list[str]]] = field(
        default_factory=list[tuple[int, str, list[str]]]
    )
    rest: str = ""
    seq: int = -1

    @property
    def status(self) -> str:
        """The name of the code."""
        words = {OK: "verified", UNSIGNED: "unsigned", NO_KEY: "no key", BROKEN: "broken"}
        return words[self.code]


# ------------------------------------------------------------------------------- lines of exports
# The kinds of lines, in their order: the first bytes, the fields, and the fields that may be there.
_HEADER, _RECORD, _EVIDENCE, _BLOB = range(4)
_NONE: Set[str] = frozenset()
_KINDS: tuple[tuple[bytes, Set[str], Set[str]], ...] = (
    (b'{"format":', {"format", "version", "schema"}, _NONE),
    (b'{"run":', {"run", "seq", "time", "at", "event"}, {"schema"}),
    (b'{"evidence":', {"evidence"}, _NONE),
    (b'{"blob":', {"blob", "body"}, _NONE),
)


@dataclass
class ExportLines:
    """The lines of an export: of records as bytes, of blobs as bytes with their line numbers.

    `line` is the number of the line of the evidence.
    """

    header: dict[str, Any]
    records: list[bytes]
    evidence: dict[str, Any] | None
    line: int
    blobs: list[tuple[int, bytes]]


def read_export(export: str | bytes) -> ExportLines:
    """Returns the lines of an export, of which header and evidence have been read.

    Raises:
        BrokenEvidence: The order of the lines, the header or the evidence is wrong.
    """
    content = export.encode("utf-8", "surrogatepass") if isinstance(export, str) else export
    lines = content.split(b"\n")
    if lines.pop():
        raise BrokenEvidence("the last line has no line feed: the export is cut off")
    if not lines:
        raise BrokenEvidence("the export is empty")
    found = [list[tuple[int, bytes]]() for _ in _KINDS]
    place = _HEADER
    for number, line in enumerate(lines, 1):
        kind: int = _at_line(number, _kind, line)
        if (kind == _HEADER) != (number == 1) or kind < place or kind == place == _EVIDENCE:
            raise BrokenEvidence(f"line {number}: it stands in the wrong place, or occurs twice")
        found[kind].append((number, line))
        place = kind
    header = _at_line(1, _check_header, lines[0])
    evidence, place = None, 0
    for place, line in found[_EVIDENCE]:
        evidence = _at_line(place, _check_evidence, line)
    records = [line for _, line in found[_RECORD]]
    return ExportLines(header, records, evidence, place, found[_BLOB])


def _at_line(number: int, work: Callable[..., Any], *values: Any) -> Any:
    try:
        return work(*values)
    except ValueError as error:
        raise BrokenEvidence(f"line {number}: {error}") from error


def _kind(line: bytes) -> int:
    for kind, (start, _, _) in enumerate(_KINDS):
        if line.startswith(start) and line.endswith(b"}"):
            return kind
    raise ValueError("it does not begin and end as a line of an export does")


def _read(line: bytes, kind: int) -> Any:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start + 1}") from error
    value = read_json(text)
    _check_fields(value, "line", *_KINDS[kind][1:])
    return value


def _check_fields(value: Any, name: str, needed: Set[str], allowed: Set[str] = frozenset()) -> None:
    """Checks that `value` is an object with the `needed` fields, and no others than `allowed`.

    Raises:
        ValueError: It is not.
    """
    if not _is_object(value):
        raise ValueError(f"the {name} is not an object")
    for field_name in sorted(needed - value.keys()):
        raise ValueError(f"the {name} has no field {field_name}")
    if value.keys() - needed - allowed:
        raise ValueError(f"the {name} has an unknown field")


def _is_whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_time(value: Any) -> bool:
    return _is_whole(value) and value <= _LAST_TIME


_LAST_TIME = 253_402_300_799_999
"""The end of the year 9999."""


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= _HEX


def _check_header(line: bytes) -> Any:
    header = _read(line, _HEADER)
    version = header["version"]
    if header["format"] != "taofold-ndjson" or type(version) is not int or version != 1:
        raise ValueError("the export has another format or version")
    if not _is_whole(header["schema"]):
        raise ValueError("schema is not a whole number")
    return header


def _check_blob(line: bytes) -> None:
    value = _read(line, _BLOB)
    content = read_base64(value["body"])
    if hashlib.blake2b(content, digest_size=20).hexdigest() != value["blob"]:
        raise ValueError("the content of the blob was changed")


def _check_evidence(line: bytes) -> Any:
    evidence = _read(line, _EVIDENCE)["evidence"]
    _check_fields(evidence, "evidence", {"log", "run", "links", "heads"}, {"leaves"})
    log, run, links, heads = (evidence[key] for key in ("log", "run", "links", "heads"))
    if not isinstance(log, str) or "\n" in log or not isinstance(run, str):
        raise ValueError("log or run is not text, or log has a line feed")
    if not _is_array(links) or not all(map(_is_hash, links)):
        raise ValueError("links is not a list of hashes")
    leaves = evidence.get("leaves", {})
    if not _is_object(leaves) or not all(map(_is_hash, leaves.values())):
        raise ValueError("leaves is not an object of hashes")
    if leaves.keys() - set(map(str, range(len(links)))):
        raise ValueError("leaves names a record that has no link")
    if not _is_array(heads):
        raise ValueError("heads is not a list")
    last = -1
    for head in heads:
        _check_fields(head, "head", {"seq", "link", "at"}, {"envelope", "stamp"})
        if not _is_whole(head["seq"]) or not _is_time(head["at"]):
            raise ValueError("seq or at of a head is not a whole number in its range")
        if head["seq"] <= last:
            raise ValueError("the heads are in another order, or one occurs twice")
        last = head["seq"]
    return evidence


# ------------------------------------------------------------------------------ records and heads
def _check_chain(export: ExportLines) -> None:
    """Checks the records, and their links if there is evidence, in their order."""
    evidence, lines = export.evidence, iter(export.records)
    leaves: dict[str, str] = {}
    links, run, previous = [""] * len(export.records), None, b""
    if evidence is not None:
        links, leaves, run = evidence["links"], evidence.get("leaves", {}), evidence["run"]
        previous = hashlib.sha256(PURPOSE + f"{evidence['log']}\n{run}".encode()).digest()
    for seq, link in enumerate(links):
        leaf = bytes.fromhex(leaves.get(str(seq), ""))
        if not leaf:
            line = next(lines, None)
            if line is None:
                raise BrokenEvidence("the record is missing", seq)
            record = _record(line, seq, export.header)
            run = record["run"] if run is None else run
            if record["run"] != run:
                raise BrokenEvidence("the record is of another run", seq)
            leaf = hashlib.sha256(canonical(record).encode()).digest()
        previous = hashlib.sha256(previous + leaf).digest()
        if evidence is not None and previous.hex() != link:
            raise BrokenEvidence("the record or its link was changed", seq)
    for line in lines:
        _record(line, len(links), export.header)
        raise BrokenEvidence("the record has no link", len(links))


def _record(line: bytes, seq: int, header: dict[str, Any]) -> dict[str, Any]:
    """Returns the record in a line as it is hashed, which must have the number `seq`."""
    try:
        record: dict[str, Any] = _read(line, _RECORD)
        if not _is_whole(record["seq"]):
            raise ValueError("seq is not a whole number")
        if record["seq"] < seq:
            # The smaller one of the two places is named.
            seq = record["seq"]
            raise ValueError("the record occurs twice, or in another place")
        if record["seq"] > seq:
            raise ValueError("the record is missing, or stands in another place")
        record.setdefault("schema", header["schema"])
        if not isinstance(record["run"], str) or not _is_object(record["event"]):
            raise ValueError("run is not text, or event is not an object")
        if not _is_whole(record["schema"]):
            raise ValueError("schema is not a whole number")
        if not _is_time(record["at"]) or record.pop("time") != _time(record["at"]):
            raise ValueError("at is not a whole number in its range, or time differs from it")
    except ValueError as error:
        raise BrokenEvidence(str(error), seq) from error
    return record


def _time(at: int) -> str:
    start = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - the text is in UTC
    return (start + datetime.timedelta(milliseconds=at)).isoformat(timespec="milliseconds") + "Z"


def _check_head(head: Any, evidence: Any, keys: list[bytes], report: EvidenceReport) -> None:
    """Checks a head against the chain, and adds it to the report.

    Raises:
        ValueError: It is broken.
    """
    seq, links = head["seq"], evidence["links"]
    if seq >= len(links):
        raise ValueError("a head shows that records were removed")
    if links[seq] != head["link"]:
        raise ValueError(f"the head at record {seq} has another link")
    predicate = {"run": evidence["run"], "log": evidence["log"], "seq": seq, "at": head["at"]}
    predicate["records"] = seq + 1
    try:
        _check_signatures(head, predicate, keys, report)
    except ValueError as error:
        raise ValueError(f"the head at record {seq}: {error}") from error


def _check_signatures(
    head: Any, predicate: dict[str, Any], keys: list[bytes], report: EvidenceReport
) -> None:
    if "stamp" in head:
        if not read_base64(head["stamp"]) or "envelope" not in head:
            raise ValueError("the stamp is empty, or there is no envelope")
        report.stamps += 1
    if "envelope" not in head:
        return
    payload, found = open_envelope(head["envelope"], keys)
    statuses = [
        status
        for status in STATUSES
        if payload_of(predicate | {"status": status}, head["link"]) == payload
    ]
    if not statuses:
        raise ValueError("the signed statement is not the one about this head")
    for each, (_, key) in zip(head["envelope"]["signatures"], found, strict=True):
        # The name in the envelope is not signed.
        if key is None and each["keyid"] not in report.unproved:
            report.unproved.append(each["keyid"])
    if predicate["records"] == report.records:
        report.keys = [hashlib.sha256(key).hexdigest() for _, key in found if key is not None]
    proofs = [base64.b64encode(made).decode() for made, key in found if key is not None]
    if proofs:
        report.signed, report.rest = predicate["seq"] + 1, statuses[0]
    if "stamp" in head:
        report.stamped.append((predicate["seq"], head["stamp"], proofs))


def verify(export: str | bytes, keys: list[bytes]) -> EvidenceReport:
    """Returns the verdict on an export, with the signatures of the public `keys`."""
    report = EvidenceReport()
    try:
        _verify(read_export(export), keys, report)
    except BrokenEvidence as broken:
        # Nothing that was found before the fault counts.
        return EvidenceReport(BROKEN, str(broken), report.records, seq=broken.seq)
    return report


def _verify(export: ExportLines, keys: list[bytes], report: EvidenceReport) -> None:
    report.records = len(export.records)
    evidence = export.evidence
    if evidence is not None:
        report.withheld = len(evidence.get("leaves", {}))
        report.records += report.withheld
    _check_chain(export)
    for head in evidence["heads"] if evidence else ():
        _at_line(export.line, _check_head, head, evidence, keys, report)
    for number, line in export.blobs:
        _at_line(number, _check_blob, line)
    if evidence is None:
        report.text = "the export has no evidence: nothing is proved"
    else:
        _conclude(report, bool(keys))


def _conclude(report: EvidenceReport, has_keys: bool) -> None:
    total, signed = report.records, report.signed
    if total and signed == total:
        report.code, report.text = OK, f"{total} records, all covered by a signature"
    elif signed:
        report.text = f"records {signed} to {total - 1} are not signed"
    elif report.unproved:
        what = "no given key made the signature" if has_keys else "no key was given to check it"
        report.code, report.text = NO_KEY, f"the chain of {total} records holds, but {what}"
    else:
        report.text = f"the chain of {total} records holds, but it is not signed"
    if signed:
        report.text += f"; at record {signed - 1} the run was signed as: {report.rest}"
    if report.withheld:
        report.text += f"; {withheld(report.withheld)}"


def withheld(count: int) -> str:
    """Returns how many records are withheld."""
    return "1 record is withheld" if count == 1 else f"{count} records are withheld"


def main(arguments: list[str]) -> int:
    """Verifies the export that `arguments` name. Returns the exit code."""
    files, keys, words = list[str](), list[bytes](), iter(arguments)
    try:
        for word in words:
            if word == "--key":
                keys.append(_key(next(words, "")))
            else:
                files.append(word)
        if len(files) != 1:
            raise ValueError("name one export")
        content = _content(files[0])
    except ValueError as error:
        sys.stderr.write(f"usage: verifier.py EXPORT [--key HEX or FILE]…\n{error}\n")
        return USAGE
    report = verify(content, keys)
    sys.stdout.write(f"{report.status}: {report.text}\n")
    for key in report.keys:
        sys.stdout.write(f"signed by key {key}\n")
    return report.code


def _key(key: str) -> bytes:
    if len(key) == 64 and set(key.lower()) <= _HEX:
        return read_key(key)
    try:
        return read_key(_content(key).decode("ascii", "replace"))
    except ValueError as error:
        raise ValueError(f"the key cannot be used: {error}") from error


def _content(file: str) -> bytes:
    try:
        with open(file, "rb") as content:  # noqa: PTH123 - no other import
            return content.read()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

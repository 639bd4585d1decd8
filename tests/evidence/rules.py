"""The rules of docs/evidence.md as a table of exports, which each verifier is run on.

Each export is sealed after the change: its links and its signature are right, so only the rule that
the name states can make it broken.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from taofold.evidence.verifier import (
    BROKEN,
    OK,
    PAYLOAD,
    PURPOSE,
    UNSIGNED,
    canonical,
    pae,
    payload_of,
)
from tests.evidence.keys import signer

KEY = signer()
HEADER = '{"format":"taofold-ndjson","version":1,"schema":2}'
AT = 1_769_337_000_000
NOTE = '{"e":"noted","n":1}'


class Rule(NamedTuple):
    """An export, the exit code of each verifier, and a part of the text and the record of ours."""

    name: str
    export: bytes
    code: int = BROKEN
    text: str = ""
    seq: int = -1


def written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def time_of(at: int) -> str:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def record(seq: int, event: str = NOTE, at: int = AT) -> str:
    fields = f'"seq":{seq},"time":"{time_of(at)}","at":{at}'
    return f'{{"run":"r",{fields},"event":{event}}}'


RECORDS = [record(0), record(1), record(2)]


def leaf(line: str, header: str) -> bytes:
    """The hash of a record as a lenient reader computes it; zeros if the record can have none."""
    try:
        value = json.loads(line)
        whole = {"schema": json.loads(header).get("schema"), **value}
        whole.pop("time", None)
        return hashlib.sha256(canonical(whole).encode()).digest()
    except (ValueError, RecursionError):
        return bytes(32)


def signed(payload: bytes, keyid: str = KEY.keyid) -> dict[str, Any]:
    made = base64.b64encode(KEY.sign(pae(PAYLOAD, payload))).decode()
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD,
        "signatures": [{"keyid": keyid, "sig": made}],
    }


def evidence_of(leaves: list[bytes], log: str = "0a") -> dict[str, Any]:
    """Evidence with an unsigned head at the first record and a signed one at the last."""
    previous, links = hashlib.sha256(PURPOSE + f"{log}\nr".encode()).digest(), list[str]()
    for each in leaves:
        previous = hashlib.sha256(previous + each).digest()
        links.append(previous.hex())
    last = len(links) - 1
    predicate = {"run": "r", "log": log, "seq": last, "records": last + 1, "at": AT}
    payload = payload_of({**predicate, "status": "finished"}, links[-1])
    heads = [
        {"seq": 0, "link": links[0], "at": AT},
        {"seq": last, "link": links[-1], "at": AT, "envelope": signed(payload)},
    ]
    return {"log": log, "run": "r", "links": links, "heads": heads[-len(links) :]}


def joined(*lines: str) -> bytes:
    return "".join([f"{line}\n" for line in lines]).encode("utf-8", "surrogateescape")


def sealed(
    *records: str,
    header: str = HEADER,
    log: str = "0a",
    change: Callable[[Any], object] = lambda _: None,
    text: tuple[str, str] = ("", ""),
    more: tuple[str, ...] = (),
) -> bytes:
    """An export of `records`. `change` gets its evidence, the first of `text` is replaced."""
    lines = records or tuple(RECORDS)
    evidence = evidence_of([leaf(line, header) for line in lines], log)
    change(evidence)
    line = written({"evidence": evidence})
    assert text[0] in line
    return joined(header, *lines, line.replace(*text, 1), *more)


def other_event(event: str) -> bytes:
    return sealed(record(0), record(1, event), record(2))


def other_field(old: str, new: str) -> bytes:
    """An export with a change of the text of its second record."""
    assert old in RECORDS[1]
    return sealed(RECORDS[0], RECORDS[1].replace(old, new, 1), RECORDS[2])


def without(value: dict[str, Any], name: str) -> None:
    del value[name]


def whole_files() -> Iterator[Rule]:
    export = sealed()
    lines = export.decode().splitlines()
    header, *records, evidence = lines
    blob = blob_line(b"x")
    yield Rule("untouched", export, OK)
    yield Rule("empty", b"", text="the export is empty")
    yield Rule("only a line feed", b"\n", text="line 1:")
    yield Rule("only a header", joined(header), UNSIGNED, "no evidence")
    yield Rule("no evidence", joined(header, *records, blob), UNSIGNED, "no evidence")
    nothing = written({"evidence": {"log": "0a", "run": "r", "links": [], "heads": []}})
    yield Rule("no record", joined(header, nothing), UNSIGNED, "0 records")
    yield Rule("no last line feed", export[:-1], text="the last line has no line feed")
    yield Rule("CRLF", export.replace(b"\n", b"\r\n"), text="line 1:")
    yield Rule("a blank line", joined(header, "", *records, evidence), text="line 2:")
    yield Rule("a blank line at the end", export + b"\n", text="line 6:")
    yield Rule("a byte order mark", b"\xef\xbb\xbf" + export, text="line 1:")
    yield Rule("UTF-16", export.decode().encode("utf-16"), text="the last line has no line feed")
    yield Rule("a record after the evidence", joined(*lines, record(3)), text="line 6:")
    yield Rule("two lines of evidence", joined(*lines, evidence), text="line 6:")
    yield Rule(
        "a blob before the evidence", joined(header, *records, blob, evidence), text="line 6"
    )
    yield Rule("a blob before a record", joined(header, blob, *records, evidence), text="line 3:")
    yield Rule("two headers", joined(header, *lines), text="line 2:")
    yield Rule("no header", joined(*records, evidence), text="line 1:")
    yield Rule("another line", joined(header, *records, '{"x":1}', evidence), text="line 5:")
    yield Rule("a space before a line", joined(header, " " + records[0]), text="line 2:")
    yield Rule("a space after a line", joined(header, records[0] + " "), text="line 2:")
    yield Rule("a tab before the header", joined("\t" + header, *records, evidence), text="line 1:")
    for name, old in (("header", b"ndjson"), ("evidence", b'"log":"0a'), ("record", b'"noted')):
        for what, extra in (
            ("latin", b"\xe9"),
            ("surrogate", b"\xed\xa0\x80"),
            ("long", b"\xc0\xaf"),
        ):
            forged = export.replace(old, old + extra, 1)
            seq = 0 if name == "record" else -1
            yield Rule(f"{name} with {what} bytes", forged, text="not UTF-8", seq=seq)
    bad = joined(header, records[0]).replace(b"noted", b"\xff")
    yield Rule("bytes in an export without evidence", bad, text="record 0: it is not UTF-8", seq=0)
    yield Rule(
        "bytes in a blob", export + b'{"blob":"\xff","body":""}\n', text="line 6: it is not UTF-8"
    )


def places() -> Iterator[Rule]:
    """The first faulty record is named."""
    header, *records, evidence = sealed().decode().splitlines()
    a, b, c = records
    for name, lines, seq in (
        ("swapped", [a, c, b], 1),
        ("first swapped", [b, a, c], 0),
        ("doubled", [a, b, b, c], 1),
        ("last doubled", [a, b, c, c], 2),
        ("first repeated at the end", [a, b, c, a], 0),
        ("dropped", [a, c], 1),
        ("first dropped", [b, c], 0),
        ("last dropped", [a, b], 2),
        ("added", [a, b, c, record(3)], 3),
        ("changed", [a, b.replace('"n":1', '"n":2'), c], 1),
        ("damaged", [a, b, c.replace('"n":1', '"n":')], 2),
        ("two faults", [a, b.replace('"n":1', '"n":2'), c.replace('"n":1', '"n":')], 1),
    ):
        yield Rule(name, joined(header, *lines, evidence), text=f"record {seq}:", seq=seq)
    yield Rule("gap without evidence", joined(header, a, c), text="record 1:", seq=1)
    foreign = b.replace('"r"', '"s"')
    yield Rule("two runs without evidence", joined(header, a, foreign), text="another run", seq=1)
    cut = sealed(change=lambda it: it["links"].pop())
    yield Rule("a link removed", cut, text="the record has no link", seq=2)
    longer = sealed(change=lambda it: it["links"].append("0" * 64))
    yield Rule("a link added", longer, text="the record is missing", seq=3)


def headers() -> Iterator[Rule]:
    for old, values in (
        ('"version":1', ("true", "1.0", "1e0", '"1"', "null", "2", "[1]")),
        ('"schema":2', ("true", "2.0", "2e0", '"2"', "null", "-1")),
        ('"format":"taofold-ndjson"', ("null", '"x"', "1", "[]")),
    ):
        name = old.partition(":")[0]
        for value in values:
            header = HEADER.replace(old, f"{name}:{value}")
            yield Rule(f"header {name} {value}", sealed(header=header), text="line 1:")
            yield Rule(f"header {name} {value} alone", joined(header), text="line 1:")
    yield Rule("header with a field", sealed(header=HEADER[:-1] + ',"x":1}'), text="unknown field")
    yield Rule("header key twice", sealed(header=HEADER[:-1] + ',"schema":2}'), text="occurs twice")
    order = '{"version":1,"format":"taofold-ndjson","schema":2}'
    yield Rule("header in another order", sealed(header=order), text="line 1:")
    short = '{"format":"taofold-ndjson","version":1}'
    yield Rule("header without schema", sealed(header=short), text="no field schema")
    space = '{"format": "taofold-ndjson", "schema" :3,\t"version":1 }'
    yield Rule("header with spaces", sealed(header=space), OK)


def nested(levels: int) -> str:
    """An event in a line of this many nested arrays and objects."""
    return '{"e":' + "[" * (levels - 2) + "]" * (levels - 2) + "}"


def events() -> Iterator[Rule]:
    for name, event, text in (
        ("e twice", '{"e":"noted","e":"noted"}', "occurs twice"),
        ("a deep key twice", '{"e":[{"a":1,"a":1}]}', "occurs twice"),
        ("a key twice, once as an escape", '{"e":1,"\\u0065":1}', "occurs twice"),
        ("too deep", nested(201), "nested more than 200"),
        ("far too deep", nested(5000), "nested more than 200"),
        ("a long number", f'{{"e":{"7" * 4301}}}', "4300 characters"),
        ("a long fraction", f'{{"e":0.{"7" * 4299}}}', "4300 characters"),
        ("a large number", '{"e":1e400}', "too large"),
        ("NaN", '{"e":NaN}', "NaN"),
        ("-Infinity", '{"e":-Infinity}', "Infinity"),
        ("a pair with a backslash between", '{"e":"\\ud83d\\\\\\ude00"}', "surrogate"),
        ("three halves", '{"e":"\\ud83d\\ud83d\\ude00"}', "surrogate"),
        ("half a surrogate pair", '{"e":"\\ud83d"}', "surrogate"),
        ("half a surrogate pair in a key", '{"\\uDE00":1}', "surrogate"),
        ("an event that is null", "null", "event is not an object"),
        ("an event that is a list", "[]", "event is not an object"),
    ):
        yield Rule(name, other_event(event), text=text, seq=1)
        # A reader may be unable to hash it, but without evidence there is no hash.
        bare = joined(HEADER, record(0, event))
        yield Rule(f"{name}, without evidence", bare, text=text, seq=0)
    for name, event in (
        ("a zero before a number", '{"e":01}'),
        ("a comma at the end", '{"e":1,}'),
        ("a control character", '{"e":"\x01"}'),
        ("an apostrophe", "{'e':1}"),
        ("a point without digits", '{"e":1.}'),
        ("a plus", '{"e":+1}'),
        ("a space that is not one of JSON", '{"e":\xa01}'),
        ("two values", '{"e":1} 2'),
        ("digits of another script", '{"e":\u0661}'),
        ("a digit of another script", '{"e":1\u0663}'),
        ("a fraction of another script", '{"e":1.\u0663}'),
        ("an escape with a sign", '{"e":"\\u+123"}'),
        ("an escape with a line below", '{"e":"\\u1_23"}'),
    ):
        yield Rule(name, other_event(event), text="record 1: it is not JSON", seq=1)
    for name, event in (
        ("200 deep", nested(200)),
        ("4300 digits", f'{{"e":[{"7" * 4300},-{"7" * 4300}]}}'),
        ("numbers", '{"e":[-0,-0.0,1.0,1e0,1e21,1e-7,5e-324,0.1,1E+2,123456789012345678901]}'),
        ("a surrogate pair", '{"e":"\\ud83d\\ude00","\\uD83D\\uDE00":"\\u00e9\\/\\u001f"}'),
        ("keys beyond the BMP", '{"\uffff":1,"\U00010000":2,"\xe9":3,"a":4,"":5}'),
        ("backslashes before u", '{"e":"\\\\u+123\\\\\\\\ud83d"}'),
        ("an odd key", '{"__proto__":{"a":1},"constructor":null}'),
        ("spaces", '{ "e" : [ 1 ,\t2 , { } , [ ] ] , "x":\r"" }'),
        ("a byte order mark inside", '{"e":"\ufeff"}'),
        ("a line separator", '{"e":"\u2028\x7f"}'),
    ):
        yield Rule(name, other_event(event), OK)


def records() -> Iterator[Rule]:
    for value in ("1.0", "1e0", '"1"', "true", "null", "-1"):
        yield Rule(f"seq {value}", other_field('"seq":1', f'"seq":{value}'), text="seq", seq=1)
    for value in (f"{AT}.0", f"{AT}e0", f'"{AT}"', "true", "null", "[]"):
        yield Rule(f"at {value}", other_field(f'"at":{AT}', f'"at":{value}'), text="at is", seq=1)
    for value in ("true", "1.0", '"2"', "null", "-1", "[]"):
        export = other_field('"event"', f'"schema":{value},"event"')
        yield Rule(f"schema {value}", export, text="schema", seq=1)
    big = "7" * 4300
    yield Rule("a long schema", other_field('"event"', f'"schema":{big},"event"'), OK)
    foreign = record(0, "null")
    yield Rule("number before types", joined(HEADER, record(0), foreign), text="twice", seq=0)
    yield Rule("another schema", other_field('"event"', '"schema":1,"event"'), OK)
    for value in ("1", "null", '"s"'):
        export = sealed(record(0), record(1).replace('"r"', value), record(2))
        yield Rule(f"run {value}", export, text="run", seq=1)
    for at in (-1, 253_402_300_800_000):
        line = record(1).replace(f'"at":{AT}', f'"at":{at}')
        yield Rule(f"at is {at}", sealed(record(0), line, record(2)), text="at is not", seq=1)
    for at in (0, 1, 951_782_400_000, 253_402_300_799_999):
        yield Rule(f"at is {at}", sealed(record(0), record(1, at=at), record(2)), OK)
    negative = record(1).replace(f'"at":{AT}', '"at":-62135596800000')
    negative = negative.replace(time_of(AT), "0001-01-01T00:00:00.000Z")
    yield Rule("the year 1", sealed(record(0), negative, record(2)), text="at is not", seq=1)
    for time in (
        "2026-01-25T10:30:00Z",
        "2026-01-25T10:30:00.000+00:00",
        "2026-01-25t10:30:00.000z",
    ):
        yield Rule(f"time {time}", other_field(time_of(AT), time), text="time differs", seq=1)
    yield Rule("no time", other_field(f'"time":"{time_of(AT)}",', ""), text="no field time", seq=1)
    yield Rule("time null", other_field(f'"{time_of(AT)}"', "null"), text="time differs", seq=1)
    yield Rule("no event", other_field(f',"event":{NOTE}', ""), text="no field event", seq=1)
    yield Rule("a field", other_field('"event"', '"x":1,"event"'), text="unknown field", seq=1)
    yield Rule("seq twice", other_field('"seq":1', '"seq":1,"seq":1'), text="occurs twice", seq=1)
    yield Rule("run twice", other_field('"seq"', '"run":"r","seq"'), text="occurs twice", seq=1)
    moved = f'{{"run":"r","event":{NOTE},"at":{AT},"time":"{time_of(AT)}","seq":1}}'
    yield Rule("fields in another order", sealed(record(0), moved, record(2)), OK)
    zero = sealed(record(0).replace('"seq":0', '"seq":-0'), record(1), record(2))
    yield Rule("seq -0", zero, OK)


def blob_line(content: bytes, digest: str = "") -> str:
    digest = digest or hashlib.blake2b(content, digest_size=20).hexdigest()
    return written({"blob": digest, "body": base64.b64encode(content).decode()})


def blobs() -> Iterator[Rule]:
    for size in (0, 1, 2, 3, 127, 128, 129, 255, 256, 257, 1000):
        content = bytes([(7 * n + size) % 256 for n in range(size)])
        yield Rule(f"a blob of {size} bytes", sealed(more=(blob_line(content),)), OK)
    line = blob_line(b"\xfb\xff")
    assert "+/8=" in line
    yield Rule("a blob twice", sealed(more=(line, line)), OK)
    for name, old, new in (
        ("another content", "+/8=", "+/4="),
        ("bits after the last byte", "+/8=", "+/9="),
        ("the alphabet of URLs", "+/8=", "-_8="),
        ("no padding", "+/8=", "+/8"),
        ("more padding", "+/8=", "+/8=="),
        ("a space", "+/8=", "+/ 8="),
        ("a line feed", "+/8=", "+/8=\\n"),
        ("text after padding", "+/8=", "+/8=AAAA"),
        ("a letter alone", "+/8=", "A"),
        ("no ASCII", "+/8=", "\u00e9/8="),
        ("body null", '"+/8="', "null"),
        ("body a number", '"+/8="', "1"),
        ("body a list", '"+/8="', '["+/8="]'),
        ("a field", '"body"', '"x":1,"body"'),
        ("no body", ',"body":"+/8="', ""),
        ("body twice", '"body"', '"body":"","body"'),
        ("not JSON", '"body"', '"body"1'),
    ):
        yield Rule(f"blob with {name}", sealed(more=(line.replace(old, new),)), text="line 6:")
    digest = hashlib.blake2b(b"x", digest_size=20).hexdigest().upper()
    yield Rule("digest in upper case", sealed(more=(blob_line(b"x", digest),)), text="line 6:")
    null = blob_line(b"x", "?").replace('"?"', "null")
    yield Rule("digest null", sealed(more=(null,)), text="line 6:")


def chains() -> Iterator[Rule]:
    null = joined(HEADER, *RECORDS, '{"evidence":null}')
    yield Rule("evidence null", null, text="line 5: the evidence is not an object")
    for value in ("[]", '""', "false", "{}"):
        yield Rule(f"evidence {value}", joined(HEADER, f'{{"evidence":{value}}}'), text="line 2:")
    for name in ("log", "run", "links", "heads"):
        export = sealed(change=lambda it, name=name: without(it, name))
        yield Rule(f"no {name}", export, text=f"line 5: the evidence has no field {name}")
        for value in (None, 1, {}, "x" if name in ("links", "heads") else ["x"]):
            changed = sealed(change=lambda it, name=name, value=value: it.update({name: value}))
            yield Rule(f"{name} is {value}", changed, text="line 5:")
    yield Rule("a field in it", sealed(change=lambda it: it.update(x=1)), text="unknown field")
    yield Rule("a field beside it", sealed(text=('{"evidence":', '{"evidence":1,"x":')))
    yield Rule("evidence twice in it", sealed(text=('{"evidence":', '{"evidence":1,"evidence":')))
    yield Rule("a line feed in log", sealed(log="0\na"), text="line feed")
    yield Rule("another log", sealed(log="\xe9 "), OK)
    yield Rule("log twice", sealed(text=('"log"', '"log":"0a","log"')), text="occurs twice")
    for name, change in (
        ("upper case", str.upper),
        ("a space", lambda it: it + " "),
        ("63 digits", lambda it: it[:-1]),
        ("null", lambda _: None),
    ):
        export = sealed(
            change=lambda it, change=change: it["links"].append(change(it["links"].pop()))
        )
        yield Rule(f"a link: {name}", export, text="links is not a list of hashes")
    for value in (None, [], "", 1, {"0": None}, {"0": "x"}, {"01": "0" * 64}, {"3": "0" * 64}):
        export = sealed(change=lambda it, value=value: it.update(leaves=value))
        yield Rule(f"leaves {value}", export, text="line 5: leaves")
    for name in ("+1", " 1", "-1", "1_", "\u0661", "1.0", ""):
        export = sealed(change=lambda it, name=name: it.update(leaves={name: "0" * 64}))
        yield Rule(f"a leaf of record {name!r}", export, text="line 5: leaves")
    yield Rule("leaves empty", sealed(change=lambda it: it.update(leaves={})), OK)
    hashes = [leaf(line, HEADER).hex() for line in RECORDS]
    both = sealed(change=lambda it: it.update(leaves={"1": hashes[1]}))
    yield Rule("a line and a leaf", both, text="record 1:", seq=1)
    hidden = sealed(change=lambda it: it.update(leaves={"1": hashes[1]})).decode().splitlines()
    yield Rule("a record withheld", joined(*hidden[:2], *hidden[3:]), OK, "1 record is withheld")
    yield Rule("withheld and another dropped", joined(*hidden[:2], hidden[4]), text="2:", seq=2)
    every = dict(enumerate(hashes))
    alone = sealed(change=lambda it: it.update(leaves=every)).decode().splitlines()
    yield Rule("all records withheld", joined(alone[0], alone[4]), OK)


def heads() -> Iterator[Rule]:
    last = '"seq":2,'
    for value in ("2.0", "2e0", "true", '"2"', "null", "-1", "[]"):
        export = sealed(text=(last, f'"seq":{value},'))
        yield Rule(f"head seq {value}", export, text="line 5: seq")
    yield Rule("head seq 3", sealed(text=(last, '"seq":3,')), text="line 5: a head shows")
    yield Rule("head seq 1", sealed(text=(last, '"seq":1,')), text="line 5: the head at record 1")
    for value in (f"{AT}.0", "true", '"1"', "null", "-1", "253402300800000", "[]"):
        export = sealed(text=(f'"at":{AT}', f'"at":{value}'))
        yield Rule(f"head at {value}", export, text="line 5: seq or at")
    other = sealed(text=(f'"at":{AT},"envelope"', f'"at":{AT + 1},"envelope"'))
    yield Rule("head at another time", other, text="line 5: the head at record 2: the signed")
    for name in ("seq", "link", "at"):
        export = sealed(change=lambda it, name=name: without(it["heads"][1], name))
        yield Rule(f"head without {name}", export, text=f"the head has no field {name}")
    field = sealed(change=lambda it: it["heads"][0].update(x=1))
    yield Rule("head with a field", field, text="the head has an unknown field")
    for value in (None, 1, [], ""):
        export = sealed(change=lambda it, value=value: it["heads"].insert(0, value))
        yield Rule(f"a head that is {value}", export, text="the head is not an object")
    yield Rule("heads reversed", sealed(change=lambda it: it["heads"].reverse()), text="order")
    twice = sealed(change=lambda it: it["heads"].append(it["heads"][1]))
    yield Rule("a head twice", twice, text="order")
    yield Rule("an empty list of heads", sealed(change=lambda it: it["heads"].clear()), UNSIGNED)
    yield Rule("head seq twice", sealed(text=(last, last * 2)), text="occurs twice")
    for value in (None, 1, "0" * 63, "0" * 64):
        export = sealed(change=lambda it, value=value: it["heads"][1].update(link=value))
        yield Rule(f"head link {value}", export, text="line 5: the head at record 2 has")
    stamped = sealed(change=lambda it: it["heads"][1].update(stamp="AAAA"))
    yield Rule("a stamp", stamped, OK)
    for value in (None, "", "AAA", "AAB=", "-_8=", 1, []):
        export = sealed(change=lambda it, value=value: it["heads"][1].update(stamp=value))
        yield Rule(f"stamp {value}", export, text="line 5: the head at record 2:")
    alone = sealed(change=lambda it: it["heads"][0].update(stamp="AAAA"))
    yield Rule("a stamp without an envelope", alone, text="line 5: the head at record 0:")


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def loose(text: str) -> Iterator[tuple[str, Any]]:
    """Other values for the base64 `text`, some of which a lenient reader decodes to its bytes."""
    yield "a space", text[:4] + " " + text[4:]
    yield "a line feed", text + "\n"
    yield "more padding", text + "="
    yield "null", None
    yield "a number", 1
    if set("+/") & {*text}:
        yield "the alphabet of URLs", text.replace("+", "-").replace("/", "_")
    if text.endswith("="):
        yield "no padding", text.rstrip("=")
        digits = text.rstrip("=")
        last = LETTERS[LETTERS.index(digits[-1]) + 1]
        yield "bits after the last byte", digits[:-1] + last + text[len(digits) :]


def envelopes() -> Iterator[Rule]:
    def case(name: str, change: Callable[[Any], object]) -> Rule:
        export = sealed(change=lambda it: change(it["heads"][1]["envelope"]))
        return Rule(f"envelope: {name}", export, text="line 5: the head at record 2:")

    for value in (None, [], "", 1, {}):
        export = sealed(change=lambda it, value=value: it["heads"][1].update(envelope=value))
        yield Rule(f"envelope {value}", export, text="line 5: the head at record 2: the env")
    for name in ("payload", "payloadType", "signatures"):
        yield case(f"no {name}", lambda it, name=name: without(it, name))
        yield case(f"{name} null", lambda it, name=name: it.update({name: None}))
    yield case("a field", lambda it: it.update(x=1))
    yield case("another type", lambda it: it.update(payloadType="application/json"))
    yield case("an empty list of signatures", lambda it: it.update(signatures=[]))
    yield case("signatures an object", lambda it: it.update(signatures=it["signatures"][0]))
    yield case("a signature null", lambda it: it["signatures"].append(None))
    yield case("a signature with a field", lambda it: it["signatures"][0].update(x=1))
    for name in ("keyid", "sig"):
        yield case(f"no {name}", lambda it, name=name: without(it["signatures"][0], name))
    for value in (None, 1, [], {}):
        yield case(
            f"keyid {value}", lambda it, value=value: it["signatures"][0].update(keyid=value)
        )
    own = evidence_of([leaf(line, HEADER) for line in RECORDS])["heads"][1]["envelope"]
    for name, value in loose(own["payload"]):
        yield case(f"payload: {name}", lambda it, value=value: it.update(payload=value))
    for name, value in loose(own["signatures"][0]["sig"]):
        yield case(f"sig: {name}", lambda it, value=value: it["signatures"][0].update(sig=value))
    for size in (0, 63, 65):
        made = base64.b64encode(bytes(size)).decode()
        yield case(
            f"sig of {size} bytes", lambda it, made=made: it["signatures"][0].update(sig=made)
        )
    other = {"keyid": "x", "sig": base64.b64encode(bytes(64)).decode()}
    yield case(
        "two signatures of one key",
        lambda it: it["signatures"].append({**it["signatures"][0], "keyid": "x"}),
    )
    yield case(
        "two equal keyids", lambda it: it["signatures"].append({**other, "keyid": KEY.keyid})
    )

    for count, code in ((15, OK), (16, BROKEN)):
        others = [{**other, "keyid": str(number)} for number in range(count)]
        export = sealed(
            change=lambda it, others=others: it["heads"][1]["envelope"]["signatures"].extend(others)
        )
        text = "line 5: the head at record 2: the envelope has more" if code else ""
        yield Rule(f"envelope: {count + 1} signatures", export, code, text)

    def with_other(evidence: Any) -> None:
        evidence["heads"][1]["envelope"]["signatures"].insert(0, other)

    yield Rule("envelope: another signature first", sealed(change=with_other), OK)

    def renamed(evidence: Any) -> None:
        evidence["heads"][1]["envelope"]["signatures"][0]["keyid"] = "mallory"

    yield Rule("envelope: another keyid", sealed(change=renamed), OK)
    twice = sealed(text=('"payload":', '"payload":"","payload":'))
    yield Rule("envelope: payload twice", twice, text="line 5: a key occurs twice")


def statements() -> Iterator[Rule]:
    """Statements that the key signed."""

    def case(name: str, payload: bytes, code: int = BROKEN) -> Rule:
        export = sealed(change=lambda it: it["heads"][1].update(envelope=signed(payload)))
        if code == OK:
            return Rule(f"statement: {name}", export, OK)
        return Rule(f"statement: {name}", export, text="line 5: the head at record 2: the signed")

    evidence = evidence_of([leaf(line, HEADER) for line in RECORDS])
    right = base64.b64decode(evidence["heads"][1]["envelope"]["payload"])
    yield case("untouched", right, OK)
    for status in ("new", "running", "waiting", "limited", "failed", "cancelled"):
        yield case(status, right.replace(b"finished", status.encode()), OK)
    for name, old, new in (
        ("a float", '"seq":2', '"seq":2.0'),
        ("an exponent", '"records":3', '"records":3e0'),
        ("a text", '"seq":2', '"seq":"2"'),
        ("a boolean", '"seq":2', '"seq":true'),
        ("another at", f'"at":{AT}', f'"at":{AT + 1}'),
        ("another number of records", '"records":3', '"records":4'),
        ("another log", '"log":"0a"', '"log":"0b"'),
        ("another run", '"run":"r"', '"run":"s"'),
        ("another name", "taofold-run:r", "taofold-run:s"),
        ("another status", "finished", "done"),
        ("status null", '"finished"', "null"),
        ("no status", ',"status":"finished"', ""),
        ("no at", f'"at":{AT},', ""),
        ("a field in the predicate", '"log":', '"later":0,"log":'),
        ("a field", '"predicateType"', '"other":1,"predicateType"'),
        ("a field in the subject", '"name"', '"mark":1,"name"'),
        ("a key twice", '"seq":2', '"seq":2,"seq":2'),
        ("a space", '"seq":2', '"seq": 2'),
        ("another type", "Statement/v1", "Statement/v0"),
        ("another type of predicate", "chain/v1", "lesson/v1"),
        ("two subjects", '"subject":[', '"subject":[{},'),
        ("no subject", '"subject":[', '"subjects":['),
        ("an escape", "taofold-run:r", "taofold-run:\\u0072"),
        ("another link", evidence["links"][2], evidence["links"][1]),
    ):
        assert old.encode() in right
        yield case(name, right.replace(old.encode(), new.encode()))
    yield case("a line feed at the end", right + b"\n")
    yield case("a byte order mark", b"\xef\xbb\xbf" + right)
    yield case("bytes", right.replace(b"finished", b"finished\xff"))
    yield case("nothing", b"")
    yield case("another value", b"[]")
    yield case("nested deep", b"[" * 5000 + b"]" * 5000)
    yield case("in another order", json.dumps(dict(reversed(json.loads(right).items()))).encode())


RULES = [
    rule
    for table in (
        *(whole_files, places, headers, events, records, blobs),
        *(chains, heads, envelopes, statements),
    )
    for rule in table()
]

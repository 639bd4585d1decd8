"""Keys and files that a reader gives to either verifier, and the environment of Python."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taofold.evidence import verifier
from taofold.evidence.statement import envelope_of
from taofold.evidence.verifier import BROKEN, OK, USAGE, is_signature, payload_of, read_key
from tests.evidence.keys import signer
from tests.evidence.rules import KEY, RULES, other_event, sealed
from tests.evidence.script import SCRIPT
from tests.prerequisites import NODE

P = 2**255 - 19
SIGN = 1 << 255
EIGHT = (
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
)
"""Points of order 8."""


def encoded(number: int) -> str:
    return number.to_bytes(32, "little").hex()


SMALL = [
    *(encoded(y | sign) for y in (0, 1, P - 1, P, P + 1) for sign in (0, SIGN)),
    *EIGHT,
    *(encoded(int.from_bytes(bytes.fromhex(each), "little") | SIGN) for each in EIGHT),
]
WRONG = [*SMALL, *(encoded(y) for y in (2, P + 2, P + 3, P + 18, SIGN - 1))]
PEM = (
    "-----BEGIN PUBLIC KEY-----\n"
    + base64.b64encode(bytes.fromhex("302a300506032b6570032100") + KEY.public).decode()
    + "\n-----END PUBLIC KEY-----\n"
)


def python(folder: Path, *words: str, before: str = "pass", **environment: str) -> tuple[int, str]:
    """Runs the verifier in Python alone, after the statement `before`."""
    (folder / "alone.py").write_text(Path(verifier.__file__).read_text())
    script = f"import sys; {before}; import alone; sys.exit(alone.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout + done.stderr


def node(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(["node", str(SCRIPT), *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("key", WRONG)
def test_a_key_for_which_anybody_or_nobody_signs_is_refused(key: str) -> None:
    """Mutants: small orders are not looked for; y is reduced instead of refused."""
    with pytest.raises(ValueError, match="small order"):
        read_key(key)
    # A signature that fits the neutral element as a key: R = S * B.
    one = int.to_bytes(1, 32, "little")
    base = (verifier._BASE_Y | (verifier._BASE_X & 1) << 255).to_bytes(32, "little")
    assert not is_signature(bytes.fromhex(key), b"x", base + one)


@NODE.mark
def test_the_verifier_in_javascript_refuses_the_same_keys(tmp_path: Path) -> None:
    """Mutants: orders 1 and 2, 4, or 8 are not looked for; y above p; points off the curve."""
    (tmp_path / "export").write_bytes(sealed())
    for key in WRONG:
        code, text = node(tmp_path, "export", "--key", key)
        assert (code, "small order" in text) == (USAGE, True), key
    for seed in range(1, 6):
        key = signer(seed).public.hex()
        assert node(tmp_path, "export", "--key", key)[0] in (OK, verifier.NO_KEY)


FILES: list[tuple[str, bytes, int]] = [
    ("PEM", PEM.encode(), OK),
    ("carriage returns", PEM.replace("\n", "\r\n").encode(), OK),
    ("no line feed at the end", PEM.strip().encode(), OK),
    ("spaces around lines", PEM.replace("\n", " \n\t").encode(), OK),
    ("digits", KEY.public.hex().encode() + b"\n", OK),
    ("digits in upper case", KEY.public.hex().upper().encode(), OK),
    ("text before", b"x\n" + PEM.encode(), USAGE),
    ("text after", PEM.encode() + b"x\n", USAGE),
    ("two keys", PEM.encode() * 2, USAGE),
    ("no end", "\n".join(PEM.splitlines()[:-1]).encode(), USAGE),
    ("bytes", KEY.public, USAGE),
    ("nothing", b"", USAGE),
    ("a byte order mark", b"\xef\xbb\xbf" + PEM.encode(), USAGE),
    ("another kind", PEM.replace("MCowBQYDK2Vw", "MCowBQYDK2Vu").encode(), USAGE),
    ("a key of small order", b"01" + b"0" * 62, USAGE),
]


@NODE.mark
@pytest.mark.parametrize(("name", "content", "code"), FILES, ids=[it[0] for it in FILES])
def test_both_read_the_same_files_of_keys(
    name: str, content: bytes, code: int, tmp_path: Path
) -> None:
    (tmp_path / "export").write_bytes(sealed())
    (tmp_path / "key").write_bytes(content)
    assert python(tmp_path, "export", "--key", "key")[0] == code
    assert node(tmp_path, "export", "--key", "key")[0] == code


@NODE.mark
def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "export").write_bytes(sealed())
    for words in (["gone"], ["export", "--key", "gone"], ["export", "--key"], ["."], []):
        assert python(tmp_path, *words)[0] == USAGE
        code, text = node(tmp_path, *words)
        assert (code, "at " in text) == (USAGE, False)


@NODE.mark
def test_javascript_reads_long_strings_and_numbers(tmp_path: Path) -> None:
    """Mutant: one regular expression reads a whole string."""
    text = 'a\\"é' * 4_000_000
    (tmp_path / "export").write_bytes(other_event(f'{{"e":"{text}"}}'))
    code, found = node(tmp_path, "export", "--key", KEY.public.hex())
    assert code == OK, found[:300]
    (tmp_path / "export").write_bytes(other_event('{"e":' + "7" * 9_000_000 + "}"))
    code, found = node(tmp_path, "export")
    assert (code, found[:16]) == (BROKEN, "broken: record 1")


@NODE.mark
def test_both_name_only_the_signers_of_the_last_record(tmp_path: Path) -> None:
    """Mutant: the signers of all heads are named."""

    def sign_both(evidence: dict[str, Any]) -> None:
        first, last = evidence["heads"]
        place = {"run": "r", "log": "0a", "seq": 0, "records": 1, "at": first["at"]}
        message = payload_of({**place, "status": "waiting"}, first["link"])
        first["envelope"] = json.loads(envelope_of(message, signer(2)))
        assert last["envelope"]

    (tmp_path / "export").write_bytes(sealed(change=sign_both))
    words = ("export", "--key", KEY.public.hex(), "--key", signer(2).public.hex())
    for program in (python, node):
        code, text = program(tmp_path, *words)
        assert (code, KEY.keyid in text, signer(2).keyid in text) == (OK, True, False)


DIGITS = [rule for rule in RULES if rule.name in ("4300 digits", "a long schema")]
SCRIPTS = [
    rule for rule in RULES if "script" in rule.name or "escape" in rule.name or "pair" in rule.name
]


def test_the_environment_does_not_limit_digits(tmp_path: Path) -> None:
    """Mutants: `int` or `str` of a whole number."""
    assert len(DIGITS) == 2
    for rule in DIGITS:
        (tmp_path / "export").write_bytes(rule.export)
        words = ("export", "--key", KEY.public.hex())
        assert python(tmp_path, *words, PYTHONINTMAXSTRDIGITS="640") == python(tmp_path, *words)
        assert python(tmp_path, *words)[0] == OK


def test_the_verifier_is_as_strict_without_the_parser_in_c(tmp_path: Path) -> None:
    """Mutants: digits need not be ASCII; escapes are not checked."""
    assert len(SCRIPTS) > 10
    for rule in SCRIPTS:
        (tmp_path / "export").write_bytes(rule.export)
        words = ("export", "--key", KEY.public.hex())
        code, text = python(tmp_path, *words, before="sys.modules['_json'] = None")
        # Links and signature are no fault that hides the one of the rule.
        assert (code, rule.text in text) == (rule.code, True), (rule.name, text)

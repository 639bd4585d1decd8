"""Time stamps by an authority, for which openssl stands here."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from taofold.cli.runs.evidence import _stamps
from taofold.core.errors import ConfigError
from taofold.evidence.timestamp import stamp, stamped_at
from taofold.evidence.verifier import BROKEN, NO_KEY, OK, verify
from taofold.log.formats.ndjson import dumps_chain
from taofold.log.memory import MemoryLog
from taofold.log.signed import sign_run
from tests.evidence.authority import NEEDS_OPENSSL, authority
from tests.evidence.forgery import kit_records, new_key, store
from tests.evidence.test_tampering import heads_of, with_heads

__all__ = ["authority"]

pytestmark = NEEDS_OPENSSL


def test_a_stamp_proves_that_a_signature_existed(authority: str, tmp_path: Path) -> None:
    key = new_key()

    async def main() -> tuple[bytes, bytes, str]:
        log = MemoryLog()
        await store(log, kit_records("approval_edited", "r1"))
        chain = await sign_run(log, "r1", key, authority)
        head = chain.heads[-1]
        return head.envelope, head.stamp, dumps_chain(chain)

    envelope, stamped, export = asyncio.run(main())
    roots = (tmp_path / "root.pem").read_bytes()
    signature = base64.b64decode(json.loads(envelope)["signatures"][0]["sig"])
    assert stamped_at(signature, stamped, roots).year >= 2026
    report = verify(export, [key.public])
    assert (report.code, report.stamps) == (OK, 1)
    # Another signature, another authority, and a changed stamp.
    with pytest.raises(ValueError, match=r"."):
        stamped_at(signature[1:] + b"x", stamped, roots)
    with pytest.raises(ValueError, match=r"."):
        stamped_at(signature, stamped, (tmp_path / "tsa.pem").read_bytes())
    with pytest.raises(ValueError, match=r"."):
        stamped_at(signature, stamped[:-9] + b"000000000", roots)


def test_a_stamp_of_another_run_does_not_backdate_this_one(authority: str, tmp_path: Path) -> None:
    """Mutants: the first signature counts as the stamped one; doubled keys are accepted."""
    key = new_key()

    async def main(run: str, url: str) -> str:
        log = MemoryLog()
        await store(log, kit_records("approval_edited", run))
        return dumps_chain(await sign_run(log, run, key, url))

    old, new = asyncio.run(main("r1", authority)), asyncio.run(main("r2", ""))
    (earlier,) = heads_of(old)
    (head,) = heads_of(new)
    foreign = earlier["envelope"]["signatures"][0]
    own = head["envelope"]["signatures"][0]
    root = str(tmp_path / "root.pem")

    def attempt(signatures: list[Any], keys: list[bytes]) -> tuple[int, list[Any]]:
        envelope = {**head["envelope"], "signatures": signatures}
        changed = {**head, "envelope": envelope, "stamp": earlier["stamp"]}
        report = verify(with_heads(new, [changed]), keys)
        return report.code, _stamps(report, root)

    assert _stamps(verify(old, [key.public]), root)[0][2] == ""
    renamed = {**foreign, "keyid": "another"}
    for signatures in ([foreign, own], [own, foreign], [own, own], [own, {**own, "keyid": "x"}]):
        assert attempt(signatures, [key.public])[0] == BROKEN
    for signatures in ([renamed, own], [own, renamed], [own]):
        code, stamps = attempt(signatures, [key.public])
        assert code == OK
        assert [fault for _, _, fault in stamps if fault], "the stamp is of another signature"
    # Without a trusted signature a stamp proves nothing.
    assert attempt([renamed], [key.public]) == (NO_KEY, [])
    assert attempt([own], []) == (NO_KEY, [])


def test_a_signature_that_no_given_key_made_is_reported_and_proves_nothing() -> None:
    """Mutant: the name that an envelope states counts as the maker."""
    key, other = new_key(), new_key()

    async def main() -> str:
        log = MemoryLog()
        await store(log, kit_records("approval_edited", "r1"))
        return dumps_chain(await sign_run(log, "r1", key))

    text = asyncio.run(main())
    (head,) = heads_of(text)
    own = head["envelope"]["signatures"][0]
    forged = {"keyid": other.keyid, "sig": base64.b64encode(bytes(64)).decode()}
    envelope = {**head["envelope"], "signatures": [forged, {**own, "keyid": "mallory"}]}
    report = verify(with_heads(text, [{**head, "envelope": envelope}]), [key.public, other.public])
    assert (report.code, report.keys, report.unproved) == (OK, [key.keyid], [other.keyid])
    report = verify(text, [other.public])
    assert (report.code, report.keys, report.unproved) == (NO_KEY, [], [key.keyid])


def test_an_authority_that_cannot_be_reached_is_named() -> None:
    envelope = b'{"signatures":[{"sig":"AAAA"}]}'
    with pytest.raises(ConfigError, match="no time stamp"):
        stamp(envelope, "http://127.0.0.1:9/")
    with pytest.raises(ConfigError, match="only http and https"):
        stamp(envelope, "file:///etc/passwd")

"""Signed heads are envelopes that other programs of the field accept."""

import asyncio
import json
from pathlib import Path

import pytest
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from taofold.core.errors import ConfigError
from taofold.evidence.statement import KeySigner, keyid, public_key, signer_of
from taofold.evidence.verifier import is_signature
from taofold.log.memory import MemoryLog
from taofold.log.signed import SignedLog
from tests.evidence.forgery import kit_records, new_key, store

KEY = new_key()


def key_of(signer: KeySigner) -> SSlibKey:
    value = {"public": signer.public.hex()}
    return SSlibKey(signer.keyid, "ed25519", "ed25519", value)


def envelope() -> bytes:
    async def main() -> bytes:
        log = SignedLog(MemoryLog(), KEY)
        await store(log, kit_records("approval_edited", "r1"))
        (head,) = (await log.chain("r1")).heads
        content: bytes = head.envelope
        return content

    return asyncio.run(main())


def test_securesystemslib_accepts_the_envelope() -> None:
    read = Envelope.from_dict(json.loads(envelope()))
    assert read.payload_type == "application/vnd.in-toto+json"
    assert read.verify([key_of(KEY)], 1)
    with pytest.raises(VerificationError):
        read.verify([key_of(new_key())], 1)


def test_in_toto_accepts_the_statement() -> None:
    payload = Envelope.from_dict(json.loads(envelope())).payload
    read = json_format.Parse(payload, statement_pb2.Statement())
    Statement.copy_from_pb(read).validate()
    assert read.subject[0].name == "taofold-run:r1"
    assert len(read.subject[0].digest["sha256"]) == 64


@pytest.mark.parametrize("length", [0, 1, 200])
def test_our_verification_agrees_with_that_of_cryptography(length: int) -> None:
    message = bytes(range(length))
    made = KEY.sign(message)
    assert is_signature(KEY.public, message, made)
    for place in (0, 31, 32, 63):
        changed = bytearray(made)
        changed[place] ^= 1
        assert not is_signature(KEY.public, message, bytes(changed))
    assert not is_signature(KEY.public, message + b"x", made)
    assert not is_signature(new_key().public, message, made)
    # RFC 8032 demands a scalar below the order of the group.
    order = 2**252 + 27742317777372353535851937790883648493
    scalar = int.from_bytes(made[32:], "little") + order
    assert not is_signature(KEY.public, message, made[:32] + scalar.to_bytes(32, "little"))


def test_a_signature_of_the_standard_is_accepted() -> None:
    """RFC 8032, section 7.1, test 2."""
    public = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    made = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert is_signature(public, b"\x72", made)


def test_keys_are_read_from_files_and_texts(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "key.pem").write_bytes(private)
    (tmp_path / "pub.pem").write_bytes(public)
    raw = key.public_key().public_bytes_raw()
    for spec in (str(tmp_path / "key.pem"), private.decode()):
        assert signer_of(spec).keyid == keyid(raw)
    for spec in (str(tmp_path / "pub.pem"), public.decode(), raw.hex()):
        assert public_key(spec) == raw
    with pytest.raises(ConfigError, match="this is the private one"):
        public_key(str(tmp_path / "key.pem"))
    with pytest.raises(ConfigError, match="no private key in PEM"):
        signer_of(str(tmp_path / "pub.pem"))
    with pytest.raises(ConfigError, match=r"taofold\.signers"):
        signer_of("kms://key")
    with pytest.raises(ConfigError, match="cannot be read"):
        public_key("nowhere.pem")


class Broken:
    """A key service that cannot be reached."""

    keyid = "x"

    def sign(self, message: bytes) -> bytes:
        raise KeyboardInterrupt


def test_a_signer_that_fails_does_not_fail_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> int:
        log = SignedLog(MemoryLog(), Broken())
        await store(log, kit_records("approval_edited", "r1"))
        chain = await log.chain("r1")
        return len([head for head in chain.heads if head.envelope])

    assert asyncio.run(main()) == 0
    assert "the chain of run 'r1' is not signed" in caplog.text

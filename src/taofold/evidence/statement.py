"""Signed statements about heads: in-toto statements in DSSE envelopes, and their signers.

A head's envelope is stored and exported as it is signed here. Sources: in-toto Attestation
Framework (Statement v1), DSSE 1.0, RFC 8032 (Ed25519). Knows nothing about databases.
"""

import base64
import hashlib
import importlib
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from taofold.core.errors import ConfigError
from taofold.evidence.chain import ChainHead, RunChain
from taofold.evidence.verifier import MOST_SIGNATURES, PAYLOAD, pae, payload_of, read_key
from taofold.plugins import load
from taofold.reserved_places import read_named

SIGNERS: Final = "taofold.signers"
"""The entry points of functions that return the signer of an address `SCHEME://…`."""


class Signer(Protocol):
    """A holder of a key, such as a key file or a key management service."""

    @property
    def keyid(self) -> str:
        """The name of the key: SHA-256 of the 32 bytes of its public key, in hexadecimal."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Returns the Ed25519 signature of `message`: 64 bytes."""
        ...


def keyid(public: bytes) -> str:
    """Returns the name of a public key."""
    return hashlib.sha256(public).hexdigest()


def statement(chain: RunChain, head: ChainHead, status: str) -> bytes:
    """Returns the statement about the head of a chain, in its canonical form.

    `status` is that of the run at the head.
    """
    predicate: dict[str, Any] = {
        "at": head.at,
        "log": chain.log,
        "records": head.seq + 1,
        "run": chain.run,
        "seq": head.seq,
        "status": status,
    }
    return payload_of(predicate, head.link.hex())


def envelope_of(payload: bytes, signer: Signer) -> bytes:
    """Returns the DSSE envelope of an in-toto statement, signed."""
    return _envelope(payload, [_signature(payload, signer)])


def _envelope(payload: bytes, signatures: list[Any]) -> bytes:
    value = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD,
        "signatures": signatures,
    }
    return msgspec.json.encode(value)


def _signature(payload: bytes, signer: Signer) -> dict[str, str]:
    made = signer.sign(pae(PAYLOAD, payload))
    return {"keyid": signer.keyid, "sig": base64.b64encode(made).decode()}


def signed(chain: RunChain, head: ChainHead, signer: Signer, status: str) -> bytes:
    """Returns the DSSE envelope of the statement about `head`, where the run has this status.

    The signatures that the head has already are kept.

    Raises:
        ConfigError: They are of another statement, or too many. Or one has a time stamp, which a
            reader of the new key alone could not check.
    """
    payload = statement(chain, head, status)
    if not head.envelope:
        return envelope_of(payload, signer)
    name = f"record {head.seq} of run {chain.run!r} is signed already"
    try:
        envelope = msgspec.json.decode(head.envelope)
        stored, signatures = base64.b64decode(envelope["payload"]), list(envelope["signatures"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{name}, with a damaged envelope. Verify the run first") from error
    if stored != payload:
        raise ConfigError(
            f"{name}, with another statement (as {_status(stored)}; the run is {status}): two "
            "signatures must cover the same one. Sign a later record"
        )
    if head.stamp:
        raise ConfigError(f"{name}, and has a time stamp, which covers one signature only")
    if len(signatures) >= MOST_SIGNATURES:
        raise ConfigError(f"{name} by {MOST_SIGNATURES} keys, and cannot have more signatures")
    return _envelope(payload, [*signatures, _signature(payload, signer)])


def _status(payload: bytes) -> str:
    try:
        return str(msgspec.json.decode(payload)["predicate"]["status"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return "?"


def keys_of(head: ChainHead) -> list[str]:
    """Returns the names of the keys that signed a head, as its envelope states them."""
    if not head.envelope:
        return []
    try:
        signatures = msgspec.json.decode(head.envelope)["signatures"]
        return [str(each["keyid"]) for each in signatures]
    except (msgspec.DecodeError, KeyError, TypeError):
        return []


class KeySigner:
    """A signer with an Ed25519 key in this process.

    Args:
        pem: The private key as PEM (PKCS #8), without a password.

    Raises:
        ConfigError: It is no such key, or the extra `evidence` is not installed.
    """

    def __init__(self, pem: bytes) -> None:
        self._key = _private(pem)
        self.public: bytes = self._key.public_key().public_bytes_raw()
        """The 32 bytes of the public key."""
        self.keyid = keyid(self.public)

    def sign(self, message: bytes) -> bytes:
        """Returns the signature of `message`."""
        made: bytes = self._key.sign(message)
        return made


def _module(name: str) -> Any:
    try:  # an extra: only signing needs it
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError("signing needs cryptography: pip install 'taofold[evidence]'") from error


def _private(pem: bytes) -> Any:
    loading = _module("cryptography.hazmat.primitives.serialization")
    kinds = _module("cryptography.hazmat.primitives.asymmetric.ed25519")
    try:
        key = loading.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError("the signing key is no private key in PEM (PKCS #8)") from error
    if not isinstance(key, kinds.Ed25519PrivateKey):
        raise ConfigError("the signing key is no Ed25519 key: openssl genpkey -algorithm ed25519")
    return key


def signer_of(spec: str) -> Signer:
    """Returns the signer that `spec` names.

    Args:
        spec: A private key as PEM, the path of a file with one, or `SCHEME://…`, which the entry
            point SCHEME of group `taofold.signers` resolves.

    Raises:
        ConfigError: There is no such key or signer.
    """
    if "PRIVATE KEY" in spec:
        return KeySigner(spec.encode())
    scheme, mark, _ = spec.partition("://")
    if mark:
        signer: Signer = load(SIGNERS, scheme)(spec)
        return signer
    path = Path(spec).expanduser()
    try:
        return KeySigner(read_named(path))
    except OSError as error:
        raise ConfigError(f"the signing key cannot be read: {error.strerror}", path=spec) from error


def public_key(spec: str) -> bytes:
    """Returns the public key that `spec` names: 64 hexadecimal digits, PEM, or a file of either.

    Raises:
        ConfigError: It names none.
    """
    text = spec
    is_digits = len(spec) == 64 and all(c in "0123456789abcdefABCDEF" for c in spec)
    if not is_digits and "PUBLIC KEY" not in spec:
        try:
            text = read_named(Path(spec).expanduser()).decode("ascii", "replace")
        except OSError as error:
            raise ConfigError(
                f"the public key cannot be read: {error.strerror}", path=spec
            ) from error
    try:
        return read_key(text)
    except ValueError as error:
        hint = " (this is the private one)" if "PRIVATE KEY" in text else ""
        raise ConfigError(f"no public key{hint}: {error}", path=spec[:80]) from error

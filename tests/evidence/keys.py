"""Signing keys for tests."""

from taofold.evidence.statement import KeySigner


def pem(seed: int = 1) -> bytes:
    """Returns a private key, the same in each test run."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def signer(seed: int = 1) -> KeySigner:
    """Returns a signer whose key is the same in each test run."""
    return KeySigner(pem(seed))

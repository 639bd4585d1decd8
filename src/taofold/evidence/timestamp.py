"""Time stamps of signed heads (RFC 3161): proof that a signature existed at a time.

The stamped message is a signature of the head's envelope, its 64 bytes. A reader passes the one
that a trusted key made. Needs the extra `evidence`.
"""

import base64
import importlib
from datetime import datetime
from typing import Any, Final

import msgspec

from taofold.core.errors import ConfigError
from taofold.network import send

_SECONDS: Final = 20.0
_LONGEST: Final = 1 << 20
"""Bytes of the longest answer that is read."""


def stamp(envelope: bytes, url: str) -> bytes:
    """Returns the answer of the time-stamping authority at `url` for an envelope.

    The envelope must have one signature, as this program makes it.

    Raises:
        ConfigError: It cannot be reached, or refuses.
    """
    client, signature = _client(), _signature(envelope)
    request = client.TimestampRequestBuilder().data(signature).build()
    headers = {"Content-Type": "application/timestamp-query"}
    try:
        with send(url, request.as_bytes(), headers, timeout=_SECONDS) as response:
            answer: bytes = response.read(_LONGEST)
        granted = client.decode_timestamp_response(answer).status == client.PKIStatus.GRANTED
    except (OSError, ValueError) as error:
        raise ConfigError(f"no time stamp: {error}", path=url) from error
    if not granted:
        raise ConfigError("the authority refused the time stamp", path=url)
    return answer


def stamped_at(signature: bytes, answer: bytes, roots: bytes) -> datetime:
    """Returns the time that a stamp proves.

    Args:
        signature: The signature that a trusted key made.
        answer: Its stamp.
        roots: The certificates, as PEM, of the authorities that the reader trusts.

    Raises:
        ValueError: The stamp is not valid for this signature and these authorities.
        ConfigError: `roots` holds no certificate.
    """
    client, x509 = _client(), importlib.import_module("cryptography.x509")
    try:
        certificates = x509.load_pem_x509_certificates(roots)
    except ValueError as error:
        raise ConfigError("the file of authorities has no certificates in PEM") from error
    builder = client.VerifierBuilder()
    for certificate in certificates:
        builder = builder.add_root_certificate(certificate)
    try:
        response = client.decode_timestamp_response(answer)
        builder.build().verify_message(response, signature)
    except client.VerificationError as error:
        raise ValueError(str(error)) from error
    time: datetime = response.tst_info.gen_time
    return time


def _signature(envelope: bytes) -> bytes:
    (signature,) = msgspec.json.decode(envelope)["signatures"]
    return base64.b64decode(signature["sig"])


def _client() -> Any:
    try:  # an extra
        return importlib.import_module("rfc3161_client")
    except ImportError as error:
        raise ConfigError(
            "time stamps need rfc3161-client: pip install 'taofold[evidence]'"
        ) from error

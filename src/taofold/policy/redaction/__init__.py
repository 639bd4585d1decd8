"""Redaction: secrets are taken out where text enters, before anything is written or shown.

The model never sees them either, so it cannot repeat them. What counts as a secret:

* the values that a caller knows, and what the text around gives away: keys in PEM, headers,
  addresses, command lines (`redactor`);
* what an issuer's tokens begin with: `ghp_`, `sk_live_`, `AKIA`, taofold's own `tf_` (`tokens`);
* what a name gives away, in program texts, listings, JSON, YAML, XML and addresses
  (`assignments`).

`stream` does the same to text that arrives in pieces.

JSON's escapes hide nothing. Everything is pure, and linear in the length of the text.
"""

from taofold.policy.redaction.redactor import (
    MARK,
    NUMBERS,
    Redactor,
    follows,
    is_named_secret,
    paired_secrets,
    telling,
    unescaped,
    without,
)

__all__ = [
    "MARK",
    "NUMBERS",
    "Redactor",
    "follows",
    "is_named_secret",
    "paired_secrets",
    "telling",
    "unescaped",
    "without",
]

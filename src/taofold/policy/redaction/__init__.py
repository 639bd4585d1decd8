"""Redaction: secrets are taken out where text enters, before anything is written or shown.

The model never sees them either, so it cannot repeat them. What counts as a secret:

* `redactor`: the values that a caller knows, and whatever the modules below find;
* `tokens`: what an issuer's tokens begin with: `ghp_`, `sk_live_`, `AKIA`, taofold's own `tf_`;
* `places`: what the text around gives away: keys in PEM, headers, addresses, command lines;
* `assignments`: what a name gives away, in program texts, listings, JSON, YAML, XML and addresses;
  `names` says which names do, `values` which of the values under them are secret.

JSON's escapes hide nothing. Everything is pure, and linear in the length of the text.
"""

from taofold.policy.redaction.redactor import (
    MARK,
    NUMBERS,
    Redactor,
    follows,
    named,
    paired,
    telling,
    unescaped,
    without,
)

__all__ = [
    "MARK",
    "NUMBERS",
    "Redactor",
    "follows",
    "named",
    "paired",
    "telling",
    "unescaped",
    "without",
]

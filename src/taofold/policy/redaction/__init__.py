"""Redaction: detects secrets and replaces them by a mask.

There are two classes of rules:

* *certain*: values that a caller knows, tokens with an unmistakable beginning (`ghp_`, `sk-ant-`,
  `AKIA`, taofold's own `tf_`) and private keys. They are replaced where text enters a run, before
  it is written, streamed or sent to a model (`redactor`, `tokens`).
* *guesses*: text that a name, its context or a less certain shape suggests (`assignments`,
  `tokens`, the table of contexts in `redactor`). They mask displays: log views, traces, exports.
  They never change an argument, an answer, a file or the text that a model reads.

`stream` applies the certain rules to text that arrives in pieces. `views` applies the guesses to
the records of a run. `escapes` reverses the escapes of printed text. Everything is pure, and linear
in the length of the text.
"""

from taofold.policy.redaction.redactor import (
    MARK,
    NUMBERS,
    Redactor,
    follows,
    is_named_secret,
    paired_secrets,
    telling,
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
    "without",
]

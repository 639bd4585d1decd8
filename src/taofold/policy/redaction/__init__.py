"""Redaction: what counts as a secret, and how it is replaced by a mask.

There are two classes of rules:

* *certain*: the values that a caller knows, tokens with an unmistakable beginning (`ghp_`,
  `sk-ant-`, `AKIA`, taofold's own `tf_`) and private keys. They are replaced where text enters a
  run, before it is written, streamed or sent to a model (`redactor`, `tokens`).
* *guesses*: what a name, its surroundings or a less certain shape gives away (`assignments`,
  `tokens`, the table of contexts in `redactor`). They mask what is shown: log views, traces,
  exports. They never change an argument, an answer, a file or what a model reads.

`stream` applies the certain rules to text that arrives in pieces; `views` applies the guesses to
the records of a run.

`escapes` undoes what programs do to a text when they print it. Everything is
pure, and linear in the length of the text.
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

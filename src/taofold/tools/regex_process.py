"""Searches texts for a regular expression in a process that can be stopped.

A regular expression may need exponential time, and `re` cannot be interrupted in a thread. This
file, run as a script, is the process. It reads a request from stdin and imports nothing of taofold.
`matching` starts it with a time limit.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, TypeAlias

SECONDS: Final = 5.0
"""Maximum seconds of a search, for all texts together."""

Hits: TypeAlias = list[list[int]]
"""For each text the indexes of the matching lines."""


class Unmatched(ValueError):
    """The expression is invalid or takes too long."""


def matching(
    pattern: str, texts: Sequence[str], *, ignore_case: bool, most: int, seconds: float = SECONDS
) -> Hits:
    """Returns the lines of `texts` in which `pattern` is found, at most `most` in total.

    Raises:
        Unmatched: The pattern is not a regular expression, or needs more than `seconds`.
    """
    request = json.dumps([pattern, ignore_case, most, list(texts)])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__],
            # Through standard input, because arguments are limited in length and visible to other
            # users.
            input=request,
            capture_output=True,
            text=True,
            timeout=seconds,
            env={},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unmatched(
            f"the regular expression {pattern!r} needs more than {seconds:g} s; "
            "simplify it, or search fewer files with glob"
        ) from None
    if done.returncode:
        raise Unmatched(f"the search ended with code {done.returncode}; simplify the expression")
    answer: Hits | str = json.loads(done.stdout)
    if isinstance(answer, str):
        raise Unmatched(f"{pattern!r} is no regular expression: {answer}; or set regex to false")
    return answer


def _child() -> None:
    pattern, ignore_case, most, texts = json.loads(sys.stdin.read())
    try:
        search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    except (re.error, RecursionError, OverflowError) as error:
        sys.stdout.write(json.dumps(str(error) or "it nests too deep"))
        return
    hits: Hits = []
    left: int = most
    for text in texts:
        matches = [i for i, line in enumerate(text.split("\n")) if left > 0 and search(line)]
        hits.append(matches[:left])
        left -= len(matches)
    sys.stdout.write(json.dumps(hits))


if __name__ == "__main__":
    _child()

"""Searches texts for a regular expression in a process that can be stopped.

A regular expression may need exponential time, and `re` cannot be interrupted in a thread. This
file, run as a script, is the process. It reads a request from stdin and imports nothing of taofold.
`matching` starts it with a time limit.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final, TypeAlias

SECONDS: Final = 5
"""Maximum CPU seconds of a search, for all texts together."""
_WAIT_SECONDS: Final = 120.0
"""Maximum seconds for a search on a busy machine."""

Hits: TypeAlias = list[list[int]]
"""For each text the indexes of the matching lines."""


class Unmatched(ValueError):
    """The expression is invalid or takes too long."""


def matching(
    pattern: str, texts: Sequence[str], *, ignore_case: bool, most: int, seconds: int = SECONDS
) -> Hits:
    """Returns the lines of `texts` in which `pattern` is found, at most `most` in total.

    Raises:
        Unmatched: The pattern is not a regular expression, or needs more than `seconds` of CPU
            time.
    """
    request = json.dumps([pattern, ignore_case, most, list(texts)])
    too_slow = Unmatched(
        f"the regular expression {pattern!r} needs more than {seconds:g} s; "
        "simplify it, or search fewer files with glob"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__, str(seconds)],
            # Through standard input, because arguments are limited in length and visible to other
            # users.
            input=request,
            capture_output=True,
            text=True,
            timeout=_WAIT_SECONDS,
            env={},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise too_slow from None
    if done.returncode == -signal.SIGXCPU:
        raise too_slow
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
    import resource  # not on Windows, where this module must be importable

    limit = int(sys.argv[1])
    # CPU time: on a busy machine a process may wait for seconds before it begins.
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    _child()

"""Environment variables that look like ours and are not. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_PREFIX: Final = "TAOFOLD_"
_LIMITS: Final = "TAOFOLD_LIMITS_"
_READ: Final = (_LIMITS, "TAOFOLD_LEARNING_")
"""Beginnings of names whose reader refuses the wrong ones itself."""
KNOWN: Final = (
    *(
        f"{_PREFIX}{one}"
        for one in (
            *("HOME", "LOG", "MODEL", "PROVIDER", "STRICT", "SPAWNED", "TRACES", "STARTED_BY"),
            *("MINILM", "EMBEDDINGS"),
        )
    ),
    *(
        f"{_LIMITS}{one}"
        for one in (
            *("STEPS", "MODEL_CALLS", "TOOL_CALLS", "SECONDS", "TOKENS", "USD"),
            *("PARSE_RETRIES", "DEPTH"),
        )
    ),
)


def unknown(environment: Iterable[str]) -> list[str]:
    """A warning for each; a wrong limit is the configuration's to refuse."""
    return [
        f"the environment variable {name} means nothing{_near(name)}"
        for name in sorted(environment)
        if name.startswith(_PREFIX) and name not in KNOWN and not name.startswith(_READ)
    ]


def _near(name: str) -> str:
    found = get_close_matches(name, KNOWN, n=1, cutoff=0.75)
    return f"; did you mean {found[0]}?" if found else ""

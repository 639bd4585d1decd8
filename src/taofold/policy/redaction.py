"""Redaction: secrets are taken out where text enters, before anything is written.

The model never sees them either, so it cannot repeat them. What counts as a secret:
known token shapes, and the values that the caller names. Pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

MARK: Final = "[redacted]"
_SHAPES: Final = re.compile(
    r"""\b(?:sk|pk|rk)-[A-Za-z0-9_\-]{16,}
    | \bgh[pousr]_[A-Za-z0-9]{20,}
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bxox[abprs]-[A-Za-z0-9\-]{10,}
    | \bAKIA[0-9A-Z]{16}\b
    | \bAIza[0-9A-Za-z_\-]{35}
    | \beyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{5,}
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----[\s\S]{0,8192}?-----END[ ][A-Z ]*PRIVATE[ ]KEY-----
    | (?i:\b(?:bearer|basic))\s+[A-Za-z0-9+/_\-.=]{16,}
    | ://[^\s/:@]{1,64}:[^\s/@]{3,128}@
    | (?i:\b(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token)
        ["']?\s*[:=]\s*["']?)[^\s"',;]{6,128}""",
    re.VERBOSE,
)
_TRIGGERS: Final = (
    *("sk-", "pk-", "rk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "akia"),
    *("aiza", "eyj", "private key", "bearer", "basic", "://", "passw", "secret"),
    *("api_key", "api-key", "apikey", "access_token", "access-token", "accesstoken"),
    *("auth_token", "auth-token", "authtoken"),
)
"""Without one of these the slow expression below cannot match."""
_NAMES: Final = re.compile(r"(?i)(key|token|secret|passw|credential)")
_SHORTEST: Final = 8


class Redactor:
    """Takes secrets out of text and JSON."""

    def __init__(self, secrets: Iterable[str] = (), *, shapes: bool = True) -> None:
        known = sorted({s for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        self._shapes = shapes

    @staticmethod
    def secrets_in(environment: Mapping[str, str]) -> tuple[str, ...]:
        """The values of variables whose name says that they are secret."""
        return tuple([v for name, v in environment.items() if _NAMES.search(name)])

    def text(self, text: str) -> str:
        """`text` with every secret replaced."""
        if self._known is not None:
            text = self._known.sub(MARK, text)
        if self._shapes and len(text) > _SHORTEST:
            lower = text.lower()
            if any([trigger in lower for trigger in _TRIGGERS]):
                text = _SHAPES.sub(_replace, text)
        return text

    def json(self, value: Any) -> Any:
        """`value` with every secret in its strings replaced. Copies only what changes."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int | float) or value is None:
            return value
        if isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            items = {self.text(str(name)): self.json(said) for name, said in known.items()}
            return known if items == known else items
        if isinstance(value, list | tuple):
            old = cast("Sequence[Any]", value)
            parts = [self.json(said) for said in old]
            return old if parts == list(old) else parts
        return value


def _replace(match: re.Match[str]) -> str:
    said = match.group()
    if said.startswith("://"):
        return f"://{MARK}@"
    for sign in (":", "="):
        name, found, _ = said.partition(sign)
        if found and _NAMES.search(name):
            return f"{name}{sign}{MARK}"
    return MARK

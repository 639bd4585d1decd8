"""Detects changes that silence a check instead of fixing the finding.

Judges the effect of the change, in any language. It inserts a mark that switches a check off, a
cast or a call that hides a mismatch, or a handler that swallows an exception, or it removes an
assertion. Such a change passes a gate but is no example to follow.
"""

import re
from collections.abc import Sequence
from typing import Final

from taofold.parsing.silencers import added

_SETTINGS: Final = (
    r"warnings\.(?:simple|)filter|\bignore_(?:errors|missing_imports)\b"
    r"|\b(?:per-file-|extend-)?ignores?\b['\"]?\s*[:=]|['\"][\w@/-]+['\"]\s*:\s*\[?['\"]off['\"]"
    r"|\bskipLibCheck['\"]?\s*:\s*true|\|\| ?true\b|2> ?/dev/null|\bset \+e\b"
    r"|\b(?:strict\w*|noImplicit\w+|verify\w*|check_\w+|checkJs|rejectUnauthorized)\b['\"]?\s*[:=]"
    r"\s*[Ff]alse\b|--(?:no-verify|force|exit-zero|passWithNoTests)\b"
)
"""Settings and options that switch a check off. `silencers` covers comments."""
_SKIPS: Final = (
    r"\b(?:pytest|unittest|it|test|describe|suite|this|t)\.[Ss]kip\w*|@skip\w*|\bskipTest\(|\bxfail\b"
    r"|expectedFailure|\b(?:it|test|describe)\.(?:todo|fails|only)\b|\bx(?:it|describe)\("
    r"|#\[ignore|@Disabled|@Ignore|\b(?:todo|unimplemented)!\("
)
_CASTS: Final = (
    # Excludes aliases of imported, caught or opened objects.
    r"^(?!\s*(?:import|from|export|except|with|\w+ as \w+,?$)\b).*?\bas "
    r"(?:unknown|any|never|keyof|typeof|[A-Z{(\[]|string\b|number\b|boolean\b)"
    r"|[:<,|] ?any\b(?!\()|\bAny\b|\bcast\(|[\w)\]]!(?=[.;,)])|\btransmute\b"
)
_HIDES: Final = (
    # A poisoned lock and a dead thread allow no other handling.
    r"(?<!\.lock\(\))(?<!\.join\(\))\.(?:unwrap|expect)\(|\bunwrap_(?:or_default|unchecked)\b|\b(?:wrapping"
    r"|overflowing)_\w+|\bunsafe\b|errors=['\"](?:ignore|replace)|\bsuppress\("
    r"|\.catch\(\s*\(?\w*\)?\s*=>\s*(?:\{\s*\}|null|undefined|\[\])"
)
_SWALLOWS: Final = (
    r"\bexcept\s*:|\bexcept\b[^:\n]*\b(?:Base)?Exception\b|\bcatch\s*\{"
    r"|\bcatch\s*\(\s*(?:Throwable|Exception)\b|\bcatch\s*\([^)\n]*\)\s*\{\s*\}"
    r"|(?:\bexcept\b[^:\n]*:|\bcatch\s*\([^)\n]*\)\s*\{)\s*(?:pass\b|\.\.\.|continue\b)"
)
_SILENCERS: Final = (
    ("it switches a check off", re.compile(_SETTINGS)),
    ("it skips a test", re.compile(_SKIPS)),
    ("it casts what does not fit", re.compile(_CASTS, re.MULTILINE)),
    ("it hides the failure in a call", re.compile(_HIDES)),
    ("it swallows errors", re.compile(_SWALLOWS)),
)
_ASSERTION: Final = re.compile(
    r"(?m)^\s*(?:assert\b|self\.assert\w|(?:debug_)?assert(?:_eq|_ne)?!|expect\(|raise\b|throw\b)"
)


def silences(gone: Sequence[str], new: Sequence[str]) -> str:
    """Returns how a change from the lines `gone` to `new` silences a check; "" if it does not.

    Example: `silences(["return rates[key];"], ["return (rates as any)[key];"])` is `"it casts what
    does not fit"`.
    """
    before, after = "\n".join(gone), "\n".join(new)
    if added([before], [after]):
        return "it switches a check off"
    for does, pattern in _SILENCERS:
        # More than before: a line that already had one and keeps it silences nothing.
        if len(pattern.findall(after)) > len(pattern.findall(before)):
            return does
    if len(_ASSERTION.findall(before)) > len(_ASSERTION.findall(after)):
        return "it takes an assertion out"
    return ""

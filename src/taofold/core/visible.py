"""Text that is shown to a person: what models, tools and files say must not act on the screen.

It must not move the cursor, change colours, reverse the reading direction or hide what a
person is asked to approve. Pure.
"""

import re
from typing import Final

_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def visible(text: str) -> str:
    """`text` with control, bidirectional and invisible characters made visible."""
    return _CONTROL.sub(_shown, text.replace("\r\n", "\n"))


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return f"\\u{{{code:x}}}"

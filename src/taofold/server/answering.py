"""The answer inside a reply that is still arriving: for display, before the run knows it.

Shows text only where the reply is the loop's JSON and the text stands in the answer of
`finish`. Nothing that it says is stored. Pure.
"""

from typing import Any, Final

from pydantic_core import from_json

from taofold.core.value import is_array, is_object
from taofold.core.values import FINISH

_FIRST: Final = 24
_PART: Final = 40
"""A reply is read anew when it grew by a 40th: the work stays linear."""


class Answering:
    """Hears the pieces of one reply. `text` is the answer as far as it arrived."""

    def __init__(self) -> None:
        self.text = ""
        self._said = ""
        self._next = _FIRST

    def feed(self, piece: str) -> bool:
        """Hear the next piece. True if `text` changed."""
        self._said += piece
        if len(self._said) < self._next:
            return False
        self._next = len(self._said) + max(_FIRST, len(self._said) // _PART)
        found = shown(self._said)
        if found is None or found == self.text:
            return False
        self.text = found
        return True


def shown(reply: str) -> str | None:
    """The answer that the beginning of a reply shows, None if it shows none."""
    begin = reply.find("{")
    if begin < 0:
        return None
    try:
        said: Any = from_json(reply[begin:], allow_partial="trailing-strings")
    except ValueError:
        return None
    if not is_object(said):
        return None
    action = said.get("action")
    several = said.get("actions")
    if action is None and is_array(several) and len(several) == 1:
        action = several[0]
    if not is_object(action) or action.get("tool") != FINISH:
        return None
    parameters: Any = action.get("parameters")
    answer = parameters.get("answer") if is_object(parameters) else None
    return answer if isinstance(answer, str) and answer else None

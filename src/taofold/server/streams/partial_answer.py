"""`PartialAnswer`: the visible text of a reply that arrives in this process.

Pure. It is no event of a stream: the record of the whole reply replaces it.
"""

from collections.abc import Collection

from pydantic_core import from_json

from taofold.core.json_values import is_object
from taofold.parsing import ReplyStream


class PartialAnswer:
    """Collects the pieces of one reply. `text` is the answer so far.

    It is the visible part of the reply: prose of models with native calls, or the answer inside an
    envelope. `thought` is an envelope's thought before the answer; `since` is the number of the
    run's records when the reply began.
    """

    def __init__(self, tools: Collection[str] = (), since: int = 0) -> None:
        self.text, self.thought, self.since = "", "", since
        self._reply = ReplyStream(tools)
        self._before = ""

    def feed(self, piece: str) -> bool:
        """Adds the next piece. Returns whether `text` changed."""
        fresh = self._reply.feed(piece)
        if not self.text:
            self._before += piece
            if fresh:
                self.thought = _thought(self._before)
        self.text += fresh
        return bool(fresh)


def _thought(reply: str) -> str:
    """Returns the thought at the beginning of a JSON reply; "" if there is none."""
    begin = reply.find("{")
    if begin < 0:
        return ""
    try:
        document: object = from_json(reply[begin:], allow_partial="trailing-strings")
    except ValueError:
        return ""
    thought = document.get("thought") if is_object(document) else None
    content = thought.get("content") if is_object(thought) else thought
    return content if isinstance(content, str) else ""

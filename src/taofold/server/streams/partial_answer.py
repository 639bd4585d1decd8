"""`PartialAnswer`: what can be shown of a reply while it arrives in this process.

Pure. It is no event of a stream: the record of the whole reply takes its place.
"""

from collections.abc import Collection

from pydantic_core import from_json

from taofold.core.json_values import is_object
from taofold.parsing import ReplyStream


class PartialAnswer:
    """Hears the pieces of one reply. `text` is the answer as far as it arrived.

    It is what the one scanner of replies shows of it: prose of models with native calls, or the
    answer inside an envelope. `thought` is what an envelope says before the answer, `since` how
    many records the run had when the reply began.
    """

    def __init__(self, tools: Collection[str] = (), since: int = 0) -> None:
        self.text, self.thought, self.since = "", "", since
        self._reply = ReplyStream(tools)
        self._before = ""

    def feed(self, piece: str) -> bool:
        """Hear the next piece. True if `text` changed."""
        fresh = self._reply.feed(piece)
        if not self.text:
            self._before += piece
            if fresh:
                self.thought = _thought(self._before)
        self.text += fresh
        return bool(fresh)


def _thought(reply: str) -> str:
    """The thought in the beginning of a reply that is a JSON object, "" if it is none."""
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

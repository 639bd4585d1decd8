"""The answer of a run as its text arrives: not its reasoning, its envelope or its calls."""

from collections.abc import Collection
from typing import Any, Final

from taofold.core import events as e
from taofold.core.events import Record
from taofold.parsing import Parsed, ReplyStream

ANSWERING: Final = frozenset({"react", "direct", "cot"})
"""Strategies of which each reply may be the answer; of others it may be a plan or a critique."""


class AnswerText:
    """Reads what happens in one run; `feed` and `record` return what they add to the answer.

    Words that the model says before it calls a tool are part of the text, a paragraph of their
    own. If a reply was asked for again, or only its end shows that its beginning was reasoning,
    what was given cannot be taken back: the result's output is what counts.

    Args:
        tools: the names of the tools on offer.
        live: may each reply be the answer? If not, the answer is given when the run ends.
    """

    def __init__(self, tools: Collection[str], *, live: bool) -> None:
        self.run = ""
        """The run that is read; its children are not."""
        self._tools, self._live = tools, live
        self._reply = ReplyStream(tools)
        self._said = ""
        self._break = False

    def feed(self, text: str) -> str:
        """A piece of a reply."""
        return self._paragraph(self._reply.feed(text)) if self._live else ""

    def record(self, record: Record) -> str:
        """An event of the run."""
        match record.event:
            case e.Replied() as replied if self._live:
                if not self._reply.arrived:
                    self._reply.feed(replied.text)
                tail = self._paragraph(self._reply.close(replied.finish))
                self._break = self._break or bool(self._reply.answer)
                self._reply = ReplyStream(self._tools)
                return tail
            case e.RunFinished(output=str(output)) if not self._said.endswith(output):
                self._break = bool(self._said)
                return self._paragraph(output)
            case _:
                return ""

    def partial(self, type_: Any) -> Any:
        """The answer so far as a value of `type_`; None while nothing can be read."""
        if not self._live:
            return None
        read = self._reply.partial(type_)
        return read.value if isinstance(read, Parsed) else None

    def _paragraph(self, text: str) -> str:
        if not text:
            return ""
        if self._break:
            text, self._break = f"\n\n{text}", False
        self._said += text
        return text

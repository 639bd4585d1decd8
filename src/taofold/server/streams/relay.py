"""`Relay`: live output of runs, from the process that drives one to those where it is watched.

A server that has watchers for a run says so (`WatchNotice`) and says it again every few seconds;
whoever drives the run then sends the answer's text as it arrives, what tools report, and that
something was written. Nothing is sent for a run that nobody watches.

It is lossy by design: the log is the truth, and every text ends there. What is lost shows as a gap
in the text's offsets; then it is asked for from its beginning. Notices are bounded in size and
number, and messages of an unknown form are ignored, so releases may differ.
"""

import asyncio
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import msgspec

from taofold.core.errors import LogError
from taofold.core.happenings import Progress

WATCH_S: Final = 5.0
"""Seconds between two times that a server says what it watches."""
WANTED_S: Final = 12.0
"""What nobody said to watch for so long is not watched any more."""
PART_S: Final = 0.1
"""Seconds over which what is to be sent is collected."""
PAYLOAD: Final = 7500
"""Bytes of one message, which is ASCII: PostgreSQL takes less than 8000."""
_PIECE: Final = 500
"""Characters of text in a notice: in ASCII, escaped, at most twelve bytes each."""
_NAME: Final = 1000
"""Runs whose ids are longer are not told of."""
_WANTED: Final = 20_000
_REPORT: Final = 300

_logger = logging.getLogger(__name__)


class Broadcast(Protocol):
    """Messages to all processes on one log, this one too. Any may be lost."""

    def broadcast(self, message: str) -> None:
        """Send `message`: ASCII, less than 8000 bytes. It does not wait."""
        ...

    def on_broadcast(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener`, in any thread, with each message. Returns the way to stop it."""
        ...


class Screen(Protocol):
    """Where what is received is shown to watchers."""

    def show(self, root: str, text: str, head: int) -> None:
        """The answer of the run as far as it has arrived, when it had `head` records."""
        ...

    def report(self, root: str, progress: Progress) -> None:
        """What a tool of the run, or of a child run, reports."""
        ...

    def poke(self, run: str) -> None:
        """Something was written to the run, or to a child run: read the log."""
        ...


class WatchNotice(msgspec.Struct, frozen=True, tag="watch"):
    """These runs have watchers; `anew`: whose answer has to be told from its beginning."""

    runs: list[str]
    anew: bool = False


class TextNotice(msgspec.Struct, frozen=True, tag="text"):
    """A piece of the answer that arrives as `reply`, when its run had `head` records."""

    run: str
    reply: str
    head: int
    at: int
    text: str


class ReportNotice(msgspec.Struct, frozen=True, tag="report"):
    """A tool of the run `source`, which is `run` or a child of it, says how far it is."""

    run: str
    source: str
    tool: str
    text: str


class WriteNotice(msgspec.Struct, frozen=True, tag="wrote"):
    """The run is driven by the sender, and something may have been written."""

    run: str


Notice: TypeAlias = WatchNotice | TextNotice | ReportNotice | WriteNotice


class Notices(msgspec.Struct, frozen=True):
    """One message: what a process, `sender`, has to tell."""

    sender: str
    notices: list[Notice]


@dataclass(slots=True)
class _Outgoing:
    """A run that is driven here: its answer, and how much of it was sent."""

    head: int
    reply: int = 0
    text: str = ""
    sent: str = ""
    wrote: bool = False
    report: Progress | None = None


@dataclass(slots=True)
class _Incoming:
    """A run that is watched here: its answer as it was received."""

    reply: str = ""
    text: str = ""
    heard_at: float = float("-inf")
    asked_at: float = float("-inf")


class NoRelay:
    """Of a server whose log cannot broadcast: it tells nobody, and nobody tells it anything."""

    def begin(self, root: str, head: int) -> None:
        """Nothing."""

    def end(self, root: str) -> None:
        """Nothing."""

    def wrote(self, root: str, head: int | None) -> None:
        """Nothing."""

    def answered(self, root: str) -> None:
        """Nothing."""

    def arrived(self, root: str, text: str) -> None:
        """Nothing."""

    def reported(self, root: str, progress: Progress) -> None:
        """Nothing."""

    def watch(self, root: str) -> None:
        """Nothing."""

    def unwatch(self, root: str) -> None:
        """Nothing."""

    def follows(self, root: str) -> bool:
        """No."""
        return False

    def close(self) -> None:
        """Nothing."""


class Relay(NoRelay):
    """One process's part: sends of the runs that it drives, receives for those it watches.

    Args:
        wire: Reaches the other processes.
        screen: Shows what is received.
        part_s: Seconds over which what is to be sent is collected.
        watch_s: Seconds between two times that it is said what is watched.
    """

    def __init__(
        self,
        wire: Broadcast,
        screen: Screen,
        *,
        part_s: float = PART_S,
        watch_s: float = WATCH_S,
    ) -> None:
        self._wire, self._screen = wire, screen
        self._part_s, self._watch_s = part_s, watch_s
        self._name = secrets.token_hex(6)
        self._replies = 0
        self._driven: dict[str, _Outgoing] = {}
        self._watched: dict[str, _Incoming] = {}
        self._wanted: OrderedDict[str, float] = OrderedDict()
        """Runs that are watched elsewhere, and until when that holds."""
        self._due: dict[str, None] = {}
        self._flushing: asyncio.TimerHandle | None = None
        self._flushed_at = float("-inf")
        self._renewing: asyncio.TimerHandle | None = None
        self._stop: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Begin to receive."""
        self._loop = asyncio.get_running_loop()

        def heard(message: str) -> None:
            # In the wire's own thread.
            with suppress(RuntimeError):  # the server has stopped
                self._loop.call_soon_threadsafe(self.receive, message)

        self._stop = await asyncio.to_thread(self._wire.on_broadcast, heard)

    def close(self) -> None:
        """Send and receive nothing more."""
        self._stop()
        for timer in (self._flushing, self._renewing):
            if timer is not None:
                timer.cancel()
        self._driven.clear()
        self._watched.clear()

    # ------------------------------------------------------------------ where a run is driven
    def begin(self, root: str, head: int) -> None:
        """The run, which has `head` records, is driven here from now on."""
        self._driven[root] = _Outgoing(head, self._next())

    def end(self, root: str) -> None:
        """The run is not driven here any more."""
        outgoing = self._driven.pop(root, None)
        if outgoing is not None and self._is_wanted(root):
            self._send([WriteNotice(root)])

    def wrote(self, root: str, head: int | None) -> None:
        """A record of the run, which has `head` now, or of a child run (None) is in the log."""
        outgoing = self._driven.get(root)
        if outgoing is not None:
            outgoing.wrote = True
            if head is not None:
                outgoing.head = head
            self._later(root)

    def answered(self, root: str) -> None:
        """The reply is in the log: what arrives next belongs to another one."""
        outgoing = self._driven.get(root)
        if outgoing is not None:
            outgoing.reply, outgoing.text, outgoing.sent = self._next(), "", ""

    def arrived(self, root: str, text: str) -> None:
        """More of the answer: `text` is all of it."""
        outgoing = self._driven.get(root)
        if outgoing is not None:
            outgoing.text = text
            self._later(root)

    def reported(self, root: str, progress: Progress) -> None:
        """A tool says how far it is; of what comes faster than it is sent the last is told."""
        outgoing = self._driven.get(root)
        if outgoing is not None:
            outgoing.report = progress
            self._later(root)

    def _later(self, root: str) -> None:
        if not self._is_wanted(root):
            return
        self._due[root] = None
        if self._flushing is None:
            # The first at once, what follows together.
            wait = max(0.0, self._flushed_at + self._part_s - self._loop.time())
            self._flushing = self._loop.call_later(wait, self._flush)

    def _is_wanted(self, root: str) -> bool:
        until = self._wanted.get(root)
        return until is not None and self._loop.time() < until

    def _flush(self) -> None:
        self._flushing = None
        self._flushed_at = self._loop.time()
        due, self._due = self._due, {}
        notices: list[Notice] = []
        for root in due:
            outgoing = self._driven.get(root)
            if outgoing is not None:
                notices += self._news(root, outgoing)
        self._send(notices)

    def _news(self, root: str, outgoing: _Outgoing) -> Iterator[Notice]:
        """What was not sent yet."""
        if outgoing.wrote:
            outgoing.wrote = False
            yield WriteNotice(root)
        report, outgoing.report = outgoing.report, None
        if report is not None:
            yield ReportNotice(root, report.run, report.tool[:_REPORT], report.text[:_REPORT])
        text = outgoing.text
        if not text.startswith(outgoing.sent):
            # The reply was begun again: another attempt of the model.
            outgoing.reply, outgoing.sent = self._next(), ""
        reply = f"{self._name}.{outgoing.reply}"
        for at in range(len(outgoing.sent), len(text), _PIECE):
            yield TextNotice(root, reply, outgoing.head, at, text[at : at + _PIECE])
        outgoing.sent = text

    def _next(self) -> int:
        self._replies += 1
        return self._replies

    # ----------------------------------------------------------------- where a run is watched
    def watch(self, root: str) -> None:
        """Somebody watches the run here."""
        self._watched[root] = _Incoming()
        self._ask(root)
        if self._renewing is None:
            self._renewing = self._loop.call_later(self._watch_s, self._renew)

    def unwatch(self, root: str) -> None:
        """Nobody watches it here any more."""
        self._watched.pop(root, None)

    def follows(self, root: str) -> bool:
        """Does whoever drives the run tell of what is written?"""
        incoming = self._watched.get(root)
        return incoming is not None and self._loop.time() - incoming.heard_at < WANTED_S

    def _renew(self) -> None:
        self._renewing = None
        if self._watched:
            # Not as one message: each process answers for all runs that it names.
            self._send(_watching(self._watched))
            self._renewing = self._loop.call_later(self._watch_s, self._renew)

    def _ask(self, root: str) -> None:
        """Have the answer told from its beginning."""
        self._watched[root].asked_at = self._loop.time()
        self._send([WatchNotice([root], anew=True)])

    # ------------------------------------------------------------------------------- messages
    def receive(self, message: str) -> None:
        """Take in what a process told, this one included."""
        try:
            notices = msgspec.json.decode(message, type=Notices)
        except msgspec.MsgspecError as error:
            _logger.info("a message of another release is not understood: %s", error)
            return
        if notices.sender == self._name:
            return
        for notice in notices.notices:
            match notice:
                case WatchNotice():
                    self._want(notice)
                case TextNotice():
                    self._take(notice)
                case ReportNotice(run=run) if self._heard(run):
                    self._screen.report(run, Progress(notice.source, notice.tool, notice.text))
                case WriteNotice(run=run) if self._heard(run):
                    self._screen.poke(run)
                case ReportNotice() | WriteNotice():
                    pass

    def _want(self, notice: WatchNotice) -> None:
        until = self._loop.time() + WANTED_S
        for root in notice.runs:
            self._wanted[root] = until
            self._wanted.move_to_end(root)
            outgoing = self._driven.get(root)
            if outgoing is not None:
                # Also the sign that a relay drives it, and a look at the log now and then.
                outgoing.wrote = True
                if notice.anew:
                    outgoing.sent = ""
                self._later(root)
        while len(self._wanted) > _WANTED:
            self._wanted.popitem(last=False)

    def _heard(self, root: str) -> bool:
        incoming = self._watched.get(root)
        if incoming is not None:
            incoming.heard_at = self._loop.time()
        return incoming is not None

    def _take(self, notice: TextNotice) -> None:
        if not self._heard(notice.run):
            return
        incoming = self._watched[notice.run]
        received = incoming.text if notice.reply == incoming.reply else ""
        if notice.at > len(received):
            # Something was lost, or said before this process listened. Not at every piece.
            if self._loop.time() - incoming.asked_at > 2 * self._part_s:
                self._ask(notice.run)
            return
        text = received[: notice.at] + notice.text
        if received.startswith(text):  # told again, for another server
            text = received
        incoming.reply, incoming.text = notice.reply, text
        self._screen.show(notice.run, text, notice.head)

    def _send(self, notices: Iterable[Notice]) -> None:
        for message in notice_messages(self._name, notices):
            try:
                self._wire.broadcast(message)
            except LogError as error:
                _logger.info("watchers elsewhere are not told: %s", error)


def _watching(runs: Iterable[str]) -> Iterator[WatchNotice]:
    part: list[str] = []
    for run in runs:
        if part and sum(map(len, part)) + len(run) > _NAME:
            yield WatchNotice(part)
            part = []
        part.append(run)
    if part:
        yield WatchNotice(part)


def notice_messages(sender: str, notices: Iterable[Notice]) -> Iterator[str]:
    """The notices in as few messages as can be; one that is too long for a message is left out."""
    head, tail = f'{{"sender":"{sender}","notices":[', "]}"
    parts, size = list[str](), 0
    for notice in notices:
        part = json.dumps(msgspec.to_builtins(notice), ensure_ascii=True, separators=(",", ":"))
        room = PAYLOAD - len(head) - len(tail)
        if len(part) > room:
            continue
        if size + len(part) + 1 > room:
            yield head + ",".join(parts) + tail
            parts, size = [], 0
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield head + ",".join(parts) + tail

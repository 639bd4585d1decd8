"""`Relay`: sends live output of runs from the driving process to the watching ones.

A server with watchers of a run sends a `WatchNotice`, and repeats it every few seconds. The driving
process then sends the arriving text of the answer, tool reports, and notices of new records.
Nothing is sent for a run without watchers.

Messages may be lost by design: the log has the final text. A loss appears as a gap in the text's
offsets; then the text is requested from its beginning. Notices are limited in size and number, and
unknown messages are ignored, so releases may differ.
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
"""Seconds between two watch notices of a server."""
WANTED_S: Final = 12.0
"""Seconds without a watch notice after which a run counts as unwatched."""
PART_S: Final = 0.1
"""Seconds for which output is collected before it is sent."""
PAYLOAD: Final = 7500
"""Maximum bytes of one ASCII message: PostgreSQL accepts less than 8000."""
_PIECE: Final = 500
"""Maximum characters of text in a notice; each is at most twelve bytes in escaped ASCII."""
_NAME: Final = 1000
"""Maximum characters of a run's id; runs with longer ids are skipped."""
_WANTED: Final = 20_000
_REPORT: Final = 300

_logger = logging.getLogger(__name__)


class Broadcast(Protocol):
    """Messages to all processes of one log, including this one. Any may be lost."""

    def broadcast(self, message: str) -> None:
        """Sends `message` (ASCII, less than 8000 bytes) without waiting."""
        ...

    def on_broadcast(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Calls `listener`, in any thread, with each message. Returns a function that stops it."""
        ...


class Screen(Protocol):
    """Receiver of relayed output for watchers."""

    def show(self, root: str, text: str, head: int) -> None:
        """Shows the run's answer so far, at `head` records."""
        ...

    def report(self, root: str, progress: Progress) -> None:
        """Shows a tool report of the run or a child run."""
        ...

    def poke(self, run: str) -> None:
        """Reads the log, because the run or a child run has new records."""
        ...


class WatchNotice(msgspec.Struct, frozen=True, tag="watch"):
    """These runs have watchers; `anew`: their answers must be sent from the beginning."""

    runs: list[str]
    anew: bool = False


class TextNotice(msgspec.Struct, frozen=True, tag="text"):
    """A piece of the arriving answer `reply`, at `head` records of its run."""

    run: str
    reply: str
    head: int
    at: int
    text: str


class ReportNotice(msgspec.Struct, frozen=True, tag="report"):
    """A tool report of `source`, which is `run` or a child of it."""

    run: str
    source: str
    tool: str
    text: str


class WriteNotice(msgspec.Struct, frozen=True, tag="wrote"):
    """The sender drives the run, and there may be new records."""

    run: str


Notice: TypeAlias = WatchNotice | TextNotice | ReportNotice | WriteNotice


class Notices(msgspec.Struct, frozen=True):
    """One message: the notices of the process `sender`."""

    sender: str
    notices: list[Notice]


@dataclass(slots=True)
class _Outgoing:
    """A run driven here: its answer, and the sent part."""

    head: int
    reply: int = 0
    text: str = ""
    sent: str = ""
    wrote: bool = False
    report: Progress | None = None


@dataclass(slots=True)
class _Incoming:
    """A run watched here: its received answer."""

    reply: str = ""
    text: str = ""
    heard_at: float = float("-inf")
    asked_at: float = float("-inf")


class NoRelay:
    """The relay of a server whose log cannot broadcast: it sends and receives nothing."""

    def begin(self, root: str, head: int) -> None:
        """Does nothing."""

    def end(self, root: str) -> None:
        """Does nothing."""

    def wrote(self, root: str, head: int | None) -> None:
        """Does nothing."""

    def answered(self, root: str) -> None:
        """Does nothing."""

    def arrived(self, root: str, text: str) -> None:
        """Does nothing."""

    def reported(self, root: str, progress: Progress) -> None:
        """Does nothing."""

    def watch(self, root: str) -> None:
        """Does nothing."""

    def unwatch(self, root: str) -> None:
        """Does nothing."""

    def follows(self, root: str) -> bool:
        """Returns False."""
        return False

    def close(self) -> None:
        """Does nothing."""


class Relay(NoRelay):
    """The relay of one process: sends for driven runs, receives for watched runs.

    Args:
        wire: Connection to the other processes.
        screen: Receiver of the output.
        part_s: Seconds for which output is collected before it is sent.
        watch_s: Seconds between two watch notices.
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
        """Runs that other processes watch, with the time of expiry."""
        self._due: dict[str, None] = {}
        self._flushing: asyncio.TimerHandle | None = None
        self._flushed_at = float("-inf")
        self._renewing: asyncio.TimerHandle | None = None
        self._stop: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Starts to receive."""
        self._loop = asyncio.get_running_loop()

        def heard(message: str) -> None:
            # In the wire's own thread.
            with suppress(RuntimeError):  # the server has stopped
                self._loop.call_soon_threadsafe(self.receive, message)

        self._stop = await asyncio.to_thread(self._wire.on_broadcast, heard)

    def close(self) -> None:
        """Stops sending and receiving."""
        self._stop()
        for timer in (self._flushing, self._renewing):
            if timer is not None:
                timer.cancel()
        self._driven.clear()
        self._watched.clear()

    # ------------------------------------------------------------------ where a run is driven
    def begin(self, root: str, head: int) -> None:
        """Registers a run with `head` records that this process drives."""
        self._driven[root] = _Outgoing(head, self._next())

    def end(self, root: str) -> None:
        """Removes a run that this process no longer drives."""
        outgoing = self._driven.pop(root, None)
        if outgoing is not None and self._is_wanted(root):
            self._send([WriteNotice(root)])

    def wrote(self, root: str, head: int | None) -> None:
        """Reports a new record of the run, which now has `head`, or of a child run (None)."""
        outgoing = self._driven.get(root)
        if outgoing is not None:
            outgoing.wrote = True
            if head is not None:
                outgoing.head = head
            self._later(root)

    def answered(self, root: str) -> None:
        """Ends the current reply, which is in the log."""
        outgoing = self._driven.get(root)
        if outgoing is not None:
            outgoing.reply, outgoing.text, outgoing.sent = self._next(), "", ""

    def arrived(self, root: str, text: str) -> None:
        """Sets the text of the arriving answer; `text` is the whole text so far."""
        outgoing = self._driven.get(root)
        if outgoing is not None:
            outgoing.text = text
            self._later(root)

    def reported(self, root: str, progress: Progress) -> None:
        """Sets a tool report. Of several before the next message the last is sent."""
        outgoing = self._driven.get(root)
        if outgoing is not None:
            outgoing.report = progress
            self._later(root)

    def _later(self, root: str) -> None:
        if not self._is_wanted(root):
            return
        self._due[root] = None
        if self._flushing is None:
            # The first output is sent at once, later output is collected.
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
        """Yields notices of unsent output."""
        if outgoing.wrote:
            outgoing.wrote = False
            yield WriteNotice(root)
        report, outgoing.report = outgoing.report, None
        if report is not None:
            yield ReportNotice(root, report.run, report.tool[:_REPORT], report.text[:_REPORT])
        text = outgoing.text
        if not text.startswith(outgoing.sent):
            # The reply was restarted by a retry of the model.
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
        """Registers a run that is watched here."""
        self._watched[root] = _Incoming()
        self._ask(root)
        if self._renewing is None:
            self._renewing = self._loop.call_later(self._watch_s, self._renew)

    def unwatch(self, root: str) -> None:
        """Removes a run that is no longer watched here."""
        self._watched.pop(root, None)

    def follows(self, root: str) -> bool:
        """Returns whether the driving process reports new records."""
        incoming = self._watched.get(root)
        return incoming is not None and self._loop.time() - incoming.heard_at < WANTED_S

    def _renew(self) -> None:
        self._renewing = None
        if self._watched:
            # One notice per run is not needed: each process handles all named runs.
            self._send(_watching(self._watched))
            self._renewing = self._loop.call_later(self._watch_s, self._renew)

    def _ask(self, root: str) -> None:
        """Requests the answer from its beginning."""
        self._watched[root].asked_at = self._loop.time()
        self._send([WatchNotice([root], anew=True)])

    # ------------------------------------------------------------------------------- messages
    def receive(self, message: str) -> None:
        """Handles a message of any process; its own messages are ignored."""
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
                # This also confirms that a relay drives the run, and triggers a read of the log.
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
            # A piece was lost, or sent before this process listened. Not requested at every piece.
            if self._loop.time() - incoming.asked_at > 2 * self._part_s:
                self._ask(notice.run)
            return
        text = received[: notice.at] + notice.text
        if received.startswith(text):  # repeated for another server
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
    """Yields the notices in as few messages as possible. A too long notice is dropped."""
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

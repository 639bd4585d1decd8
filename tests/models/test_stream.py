"""Streams may be cut anywhere."""

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from taofold.core.content import Issuer
from taofold.models.chat_completions import ChatReader
from taofold.models.replies import EventDecoder, LineDecoder, ReplyContext
from taofold.runtime.model import Speaker

ISSUER = Issuer("chat", "h", "m")
texts = st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=6)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(texts, st.lists(st.integers(0, 10_000), max_size=8), st.sampled_from([b"\n", b"\r\n"]))
def test_a_stream_reads_the_same_wherever_it_is_cut(
    pieces: list[str], places: list[int], end: bytes
) -> None:
    events: list[bytes] = [
        msgspec.json.encode({"choices": [{"delta": {"content": piece}}]}) for piece in pieces
    ]
    events += [b'{"choices":[{"delta":{},"finish_reason":"stop"}]}', b"[DONE]"]
    data = b"".join(b": ping" + end + b"data: " + event + end + end for event in events)
    heard: list[str] = []
    frame = ReplyContext("m", ISSUER, "http://h", "", None, {}, 0, Speaker(heard.append))
    reader = ChatReader(frame)
    for chunk in cut(data, places):
        reader.feed(chunk)
    assert reader.close().text == "".join(pieces) == "".join(heard)


def collect(kind: Any, data: bytes) -> list[bytes]:
    got: list[bytes] = []
    stream = kind(got.append)
    stream.feed(data)
    stream.close()
    return got


def test_data_lines_of_one_event_are_joined_and_other_fields_ignored() -> None:
    data = b"event: x\nid: 1\ndata: a\ndata:b\n\n:comment\n\nretry: 5\n\ndata: last"
    assert collect(EventDecoder, data) == [b"a\nb", b"last"]


def test_a_last_line_without_its_end_still_counts() -> None:
    assert collect(LineDecoder, b"a\r\nb") == [b"a", b"b"]

"""A fast fake of a chat-completions server, stateless and deterministic.

It reads no JSON: it finds `steps=N;` or `tokens=M;` in the raw body and counts the tool results in
it. Prints its port. With `tokens=M;` and a stream, each token is the time it was sent at
(CLOCK_MONOTONIC, ns), so that a client on this machine can compute its delay.
"""

import argparse
import asyncio
import contextlib
import re
import time

_STEPS = re.compile(rb"steps=(\d+);")
_TOKENS = re.compile(rb"tokens=(\d+);")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_RESULTS = (b'"role":"tool"', b'"role": "tool"')
_STREAM = re.compile(rb'"stream": ?true')
_WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_REPLY = (
    b'{"id":"x","object":"chat.completion","created":1,"model":"fake","choices":[{"index":0,'
    b'"message":{"role":"assistant",%b}],"usage":{"prompt_tokens":10,"completion_tokens":5,'
    b'"total_tokens":15}}'
)
_CALL = (
    b'"content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"add",'
    b'"arguments":"{\\"a\\": %d, \\"b\\": 1}"}}]},"finish_reason":"tool_calls"'
)
_TEXT = b'"content":"%b"},"finish_reason":"stop"'
_PIECE = (
    b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"fake","choices":'
    b'[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n'
)
_USED = (
    b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"fake","choices":[],'
    b'"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}\n\n'
)
_DONE = b"data: [DONE]\n\n"


def reply(body: bytes) -> bytes:
    found = _STEPS.search(body)
    steps = int(found[1]) if found else 1
    turn = sum(body.count(mark) for mark in _RESULTS)
    return _REPLY % (_CALL % (turn, turn) if turn < steps - 1 else _TEXT % last(steps))


def streamed(body: bytes) -> bytes:
    """The same reply as a stream: a call in four pieces, a text in words, then the usage."""
    found = _STEPS.search(body)
    steps = int(found[1]) if found else 1
    turn = sum(body.count(mark) for mark in _RESULTS)
    if turn < steps - 1:
        first = b'"id":"call_%d","type":"function","function":{"name":"add","arguments":""}' % turn
        pieces = [b'"function":{"arguments":"%b"}' % piece
                  for piece in (b'{\\"a\\": ', b"%d" % turn, b', \\"b\\": 1}')]  # fmt: skip
        deltas = [b'{"tool_calls":[{"index":0,%b}]}' % piece for piece in (first, *pieces)]
        end = b'"tool_calls"'
    else:
        words = last(steps).replace(b" ", b"| ").split(b"|")
        deltas = [b'{"content":"%b"}' % word for word in words]
        end = b'"stop"'
    events = [_PIECE % (delta, b"null") for delta in (b'{"role":"assistant"}', *deltas)]
    return b"".join([chunk(event) for event in (*events, _PIECE % (b"{}", end), _USED, _DONE)])


def last(steps: int) -> bytes:
    return b"DONE after %d calls" % (steps - 1)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One keep-alive connection. Its requests do not overlap."""

    def __init__(self, delay: float) -> None:
        self.delay, self.got, self.need = delay, bytearray(), -1
        self.tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data
        if self.need < 0:
            head = self.got.find(b"\r\n\r\n")
            if head < 0:
                return
            length = _LENGTH.search(bytes(self.got[:head]))
            self.start = head + 4
            self.need = self.start + (int(length[1]) if length else 0)
        if len(self.got) >= self.need:
            body = bytes(self.got[self.start : self.need])
            del self.got[: self.need]
            self.need = -1
            if self.delay:
                asyncio.get_running_loop().call_later(self.delay, self.answer, body)
            else:
                self.answer(body)

    def answer(self, body: bytes) -> None:
        tokens = _TOKENS.search(body)
        if tokens and _STREAM.search(body):
            task = asyncio.ensure_future(self.talk(int(tokens[1])))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        elif _STREAM.search(body):
            self.transport.write(_CHUNKED + streamed(body) + b"0\r\n\r\n")
        else:
            text = reply(body)
            self.transport.write(_WHOLE % (len(text), text))

    async def talk(self, tokens: int) -> None:
        write = self.transport.write
        write(_CHUNKED + chunk(_PIECE % (b'{"role":"assistant","content":""}', b"null")))
        await asyncio.sleep(0.02)
        for i in range(tokens):
            text = b'{"content":"%d "}' % time.monotonic_ns()
            write(chunk(_PIECE % (text, b"null")))
            if i % 16 == 15:
                await asyncio.sleep(0)
        write(chunk(_PIECE % (b"{}", b'"stop"')) + chunk(_DONE) + b"0\r\n\r\n")


async def serve(delay: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(delay), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--delay-ms", type=float, default=0)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(options.parse_args().delay_ms / 1000))

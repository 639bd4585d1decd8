"""Coverage-guided fuzzing: `bench/.venvs/parse/bin/python bench/parse/fuzz.py -max_total_time=60`.

Needs atheris in that environment. Any exception is a finding, and so is a text that takes more
than a second (`-timeout=1`), a stream that shows anything else when its text is cut elsewhere,
and a stream that does not end with the answer of the whole reply. The corpus's texts and one
call in each dialect are the seeds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "src")]
with atheris.instrument_imports(include=["taofold.parsing"]):
    from taofold.parsing import Prose, ReplyStream, parse, parse_partial, read_call, read_reply

sys.path.append(str(HERE.parents[1] / "tests" / "parsing"))
from calls import DIALECTS  # noqa: E402
from cases import CORPUS, load, type_of  # noqa: E402

TYPES = [type_of(n) for n in ("person", "ticket", "decision", "step", "steps", "counts", "any")]
TYPES += [type_of(n) for n in ("delete_call", "tao_weather", "react", "toolcall", "tree")]
TOOLS = {"get_weather": {"properties": {"city": {"type": "string"}}}, "search": {}}
REASONS = (None, "stop", "length")


def one(data: bytes) -> None:
    if len(data) < 2:
        return
    type_ = TYPES[data[0] % len(TYPES)]
    reason = REASONS[data[1] % 3]
    text = data[2:].decode("utf-8", "surrogateescape")
    parse(text, type_, finish_reason=reason)
    parse_partial(text, type_)
    read_reply(text, TOOLS, finish_reason=reason)
    read_call("search", text)
    one_stream(text, data[0], reason)


def one_stream(text: str, size: int, reason: str | None) -> None:
    """Whatever the pieces are, a stream shows the same, and in the end the answer."""
    whole, cut = ReplyStream(TOOLS), ReplyStream(TOOLS)
    shown = whole.feed(text)
    step = 1 + size % 7
    pieces = [cut.feed(text[at : at + step]) for at in range(0, len(text), step)]
    assert "".join(pieces) == shown, (text, shown, pieces)
    assert whole.close(reason) == cut.close(reason)
    reply = read_reply(text, TOOLS, finish_reason=reason)
    if isinstance(reply, Prose):
        assert cut.diverged or cut.answer == reply.text, (cut.answer, reply.text)


def main() -> None:
    with tempfile.TemporaryDirectory() as seeds:
        for number, row in enumerate(load(CORPUS, "main")):
            seed = bytes([number % len(TYPES), number % 3])
            seed += row["text"].encode("utf-8", "surrogatepass")
            (Path(seeds) / row["id"]).write_bytes(seed)
        for number, write in enumerate(DIALECTS.values()):
            call = write("get_weather", {"city": "Rome"}).encode()
            (Path(seeds) / f"dialect-{number}").write_bytes(bytes([number, number % 3]) + call)
        atheris.Setup([*sys.argv, seeds], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Coverage-guided fuzzing: `bench/.venvs/parse/bin/python bench/parse/fuzz.py -max_total_time=60`.

Needs atheris in that environment. Any exception is a finding, and so is a text that takes more
than a second (`-timeout=1`). The corpus's texts are the seeds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "src")]
with atheris.instrument_imports(include=["taofold.parsing"]):
    from taofold.parsing import parse, parse_partial, read_call, read_reply

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


def main() -> None:
    with tempfile.TemporaryDirectory() as seeds:
        for number, row in enumerate(load(CORPUS, "main")):
            seed = bytes([number % len(TYPES), number % 3])
            seed += row["text"].encode("utf-8", "surrogatepass")
            (Path(seeds) / row["id"]).write_bytes(seed)
        atheris.Setup([*sys.argv, seeds], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
